//! Types of users as a session sees them: those of its transaction, read when the catalog has another version than when
//! they were read last. What is committed is read once for all sessions.

use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_engine::{Isolation, ObjectKind, Transaction, TxId};

use crate::pg::user_types::definition::Kind;
use crate::pg::user_types::{TypeSource, UserType, UserTypes};
use crate::session::Session;
use crate::session::database::SqlDatabase;
use crate::session::shared::SessionShared;
use crate::wire::SqlError;

/// Of which moment types are: the catalog's version, and how much a transaction has changed it itself.
type Moment = (u64, Option<(TxId, u64)>);

/// What a session saw last.
#[derive(Debug, Default)]
pub(crate) struct Seen(Option<(Moment, Vec<String>, Arc<UserTypes>)>);

/// What is committed, of one version of the catalog.
#[derive(Debug, Default)]
pub(crate) struct Committed(Mutex<Option<(u64, Arc<Vec<Arc<UserType>>>)>>);

impl Committed {
    /// Those that everybody sees who begins now.
    fn now(&self, db: &SqlDatabase) -> Result<Arc<Vec<Arc<UserType>>>, SqlError> {
        let mut kept = self.0.lock();
        let version = db.engine.catalog_version();
        if let Some((of, types)) = &*kept
            && *of == version
        {
            return Ok(Arc::clone(types));
        }
        let types = Arc::new(types_of(&db.engine.begin(Isolation::ReadCommitted))?);
        *kept = Some((version, Arc::clone(&types)));
        Ok(types)
    }
}

fn types_of(txn: &Transaction) -> Result<Vec<Arc<UserType>>, SqlError> {
    let objects = txn.objects(ObjectKind::TYPE)?;
    objects.iter().map(|object| Ok(Arc::new(UserType::of_object(object)?))).collect()
}

impl TypeSource for SessionShared {
    fn user_types(&self) -> Option<Arc<UserTypes>> {
        self.types_now().ok()
    }
}

impl SessionShared {
    /// The types that the session's transaction sees, or what is committed.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub(crate) fn types_now(&self) -> Result<Arc<UserTypes>, SqlError> {
        let Some(database) = self.database.upgrade() else { return Err(SqlError::internal("the database is closed")) };
        let txn = self.txn.lock().clone();
        let moment: Moment = match &txn {
            Some(txn) if txn.has_catalog_changes() => {
                (txn.catalog_version(), txn.id().map(|id| (id, txn.catalog_changes())))
            }
            Some(txn) => (txn.catalog_version(), None),
            None => (database.engine.catalog_version(), None),
        };
        let path = self.type_path();
        let mut seen = self.types.lock();
        if let Some((of, with, types)) = &seen.0
            && *of == moment
            && *with == path
        {
            return Ok(Arc::clone(types));
        }
        let committed = || database.types.now(&database);
        let all = match &txn {
            Some(txn) if moment.1.is_some() => own_types(txn)?,
            // Of REPEATABLE READ, as its snapshot has them.
            Some(txn) if txn.isolation() == Isolation::RepeatableRead => types_of(txn)?,
            _ => committed()?.as_ref().clone(),
        };
        let types = Arc::new(UserTypes::new(all, path.clone()));
        seen.0 = Some((moment, path, Arc::clone(&types)));
        Ok(types)
    }

    /// The schemas in which types are looked for by their names alone.
    fn type_path(&self) -> Vec<String> {
        vec!["public".to_owned()]
    }
}

/// Those of a transaction that has changed definitions itself: labels that it has added cannot be used before it commits.
fn own_types(txn: &Transaction) -> Result<Vec<Arc<UserType>>, SqlError> {
    let mut all = types_of(txn)?;
    let own = txn.id().map_or(0, |id| id.0);
    for ty in &mut all {
        if let Kind::Enum(labels) = &mut Arc::make_mut(ty).body.kind {
            labels.mark_new(own);
        }
    }
    Ok(all)
}

impl Session {
    /// Who knows the types, for work of the session.
    pub(crate) fn type_source(&self) -> Arc<dyn TypeSource> {
        Arc::clone(&self.shared) as _
    }
}
