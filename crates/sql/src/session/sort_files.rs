//! Temporary files of the engine's sorts (of indexes, and of tables that are written anew): they are the session's, as those of its plans
//! are, in the same folder, counted and bounded together with them.

use std::sync::{Arc, Weak};

use resurgam_engine::{Error, Result, SortFile, SortFiles};

use super::shared::SessionShared;
use crate::exec::memory::ServerPool;
use crate::exec::spill::TempFiles;

/// Those of a session, which has the transactions that have this.
pub(super) struct SessionFiles(pub Weak<SessionShared>);

impl SortFiles for SessionFiles {
    fn create(&self) -> Result<Arc<dyn SortFile>> {
        let gone = || Error::internal("a sort of a session that is no more");
        let session = self.0.upgrade().ok_or_else(gone)?;
        let database = session.database.upgrade().ok_or_else(gone)?;
        let pool = ServerPool::of(&database.runtime).ok_or_else(|| Error::internal("no folder for temporary files"))?;
        // A statement that changes definitions may not have been planned, and plans are what else looks at the settings.
        let limit = session.variables.lock().temp_file_limit;
        let used = Arc::clone(&session.stop.limits.temp);
        used.set_limit(limit);
        TempFiles { folder: Arc::clone(&pool.folder), used }.of_sort()
    }
}
