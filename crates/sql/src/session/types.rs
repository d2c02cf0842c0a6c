//! Types and functions of users, and extensions, as a session sees them: those of its transaction, read when the catalog has another version
//! than when they were read last. What is committed is read once for all sessions.

use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_engine::{Isolation, ObjectKind, Transaction, TxId};

use crate::pg::catalog::is_dropped;
use crate::pg::context::PgContext;
use crate::pg::extensions::Installed;
use crate::pg::search_path::{PUBLIC, SearchPath};
use crate::pg::styles::Styles;
use crate::pg::user_functions::UserFunction;
use crate::pg::user_types::definition::Kind;
use crate::pg::user_types::{TypeSource, UserType, UserTypes};
use crate::session::Session;
use crate::session::database::SqlDatabase;
use crate::session::shared::SessionShared;
use crate::wire::SqlError;

/// Of which moment types are: the catalog's version, and how much a transaction has changed it itself.
type Moment = (u64, Option<(TxId, u64)>);

/// What a session saw last; with the path by which types and functions are looked for, if there are any of users.
#[derive(Debug, Default)]
pub(crate) struct Seen(Option<(Moment, Option<Arc<SearchPath>>, Arc<UserTypes>)>);

/// What users have made.
#[derive(Clone, Debug, Default)]
struct Made {
    types: Vec<Arc<UserType>>,
    extensions: Vec<Arc<Installed>>,
    functions: Vec<Arc<UserFunction>>,
    schemas: Vec<String>,
}

/// What is committed, of one version of the catalog.
#[derive(Debug, Default)]
pub(crate) struct Committed(Mutex<Option<(u64, Arc<Made>)>>);

impl Committed {
    /// Those that everybody sees who begins now.
    fn now(&self, db: &SqlDatabase) -> Result<Arc<Made>, SqlError> {
        let mut kept = self.0.lock();
        let version = db.engine.catalog_version();
        if let Some((of, made)) = &*kept
            && *of == version
        {
            return Ok(Arc::clone(made));
        }
        let made = Arc::new(made_in(&db.engine.begin(Isolation::ReadCommitted))?);
        *kept = Some((version, Arc::clone(&made)));
        Ok(made)
    }
}

fn made_in(txn: &Transaction) -> Result<Made, SqlError> {
    let mut made = Made::default();
    for object in txn.objects(ObjectKind::TYPE)? {
        made.types.push(Arc::new(UserType::of_object(&object)?));
    }
    for object in txn.objects(ObjectKind::EXTENSION)? {
        made.extensions.push(Arc::new(Installed::of_object(&object)?));
    }
    made.extensions.sort_by_key(|extension| extension.id);
    for object in txn.objects(ObjectKind::FUNCTION)? {
        made.functions.push(Arc::new(UserFunction::of_object(&object)?));
    }
    made.functions.sort_by_key(|function| function.id);
    let schemas = txn.objects(ObjectKind::SCHEMA)?;
    if !schemas.iter().any(|schema| schema.name == PUBLIC) {
        made.schemas.push(PUBLIC.to_owned());
    }
    made.schemas.extend(schemas.iter().filter(|schema| !is_dropped(schema)).map(|schema| schema.name.clone()));
    Ok(made)
}

impl TypeSource for SessionShared {
    fn user_types(&self) -> Option<Arc<UserTypes>> {
        self.types_now().ok()
    }
    fn database(&self) -> Option<String> {
        Some(self.database_name.clone())
    }
    fn styles(&self) -> Styles {
        self.signals.styles()
    }
    fn transaction_start(&self) -> Option<i64> {
        // Parameters may be read before the transaction of their statement has begun.
        let is_open = self.txn.lock().is_some();
        let start = if is_open { PgContext::transaction_start(self) } else { PgContext::statement_start(self) };
        Some(start).filter(|start| *start > 0)
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
        let seen = self.types.lock().0.clone();
        if let Some((of, with, types)) = seen
            && of == moment
            && with.is_none_or(|with| with == self.search_path())
        {
            return Ok(types);
        }
        let committed = || database.types.now(&database);
        let made = match &txn {
            Some(txn) if moment.1.is_some() => own_made(txn)?,
            // Of REPEATABLE READ, as its snapshot has them.
            Some(txn) if txn.isolation() == Isolation::RepeatableRead => made_in(txn)?,
            _ => committed()?.as_ref().clone(),
        };
        let is_empty = made.types.is_empty() && made.extensions.is_empty() && made.functions.is_empty();
        let (types, path) = match is_empty {
            true => (UserTypes::new(Vec::new(), SearchPath::stored()), None),
            false => {
                let path = self.search_path();
                let types = UserTypes::new(made.types, Arc::clone(&path));
                (types.with_functions(made.extensions, made.functions), Some(path))
            }
        };
        let types = Arc::new(types.with_schemas(made.schemas));
        self.types.lock().0 = Some((moment, path, Arc::clone(&types)));
        Ok(types)
    }
}

/// Those of a transaction that has changed definitions itself: labels that it has added cannot be used before it commits.
fn own_made(txn: &Transaction) -> Result<Made, SqlError> {
    let mut made = made_in(txn)?;
    let own = txn.id().map_or(0, |id| id.0);
    for ty in &mut made.types {
        if let Kind::Enum(labels) = &mut Arc::make_mut(ty).body.kind {
            labels.mark_new(own);
        }
    }
    Ok(made)
}

impl Session {
    /// Who knows the types, for work of the session.
    pub(crate) fn type_source(&self) -> Arc<dyn TypeSource> {
        Arc::clone(&self.shared) as _
    }
}
