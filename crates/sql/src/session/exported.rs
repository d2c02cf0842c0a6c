//! Snapshots that transactions show to others (`pg_export_snapshot`, `SET TRANSACTION SNAPSHOT`), by their names.

use std::collections::HashMap;

use parking_lot::Mutex;
use resurgam_engine::SharedSnapshot;

/// All of a server.
#[derive(Default)]
pub(crate) struct Exported {
    all: Mutex<Named>,
}

#[derive(Default)]
struct Named {
    made: u64,
    /// With the database that each is of.
    by_name: HashMap<String, (u32, SharedSnapshot)>,
}

impl Exported {
    /// Gives a snapshot that a session of a database shows a name.
    pub(crate) fn add(&self, pid: i32, database: u32, snapshot: SharedSnapshot) -> String {
        let mut all = self.all.lock();
        all.by_name.retain(|_, (_, snapshot)| snapshot.is_there());
        all.made += 1;
        let name = format!("{pid:08X}-{:08X}-1", all.made as u32);
        all.by_name.insert(name.clone(), (database, snapshot));
        name
    }

    /// The snapshot of that name, and the database that it is of.
    pub(crate) fn find(&self, name: &str) -> Option<(u32, SharedSnapshot)> {
        self.all.lock().by_name.get(name).cloned()
    }
}
