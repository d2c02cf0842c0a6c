//! Temporary tables, views and sequences.
//!
//! What is temporary is in a schema of its session's own, `pg_temp_N`, which goes before all others in its search path. It is
//! stored and logged as everything else is; the schema goes with all that is in it when the session ends, and after a crash
//! when the database is used again. `ON COMMIT` is the session's to remember.
//!
//! # Invariants
//! 1. A number is one session's at a time, and no schema of it is left of another one: [`Numbers`].
//! 2. No other session names what is in the schema (`0A000`), and nothing that stays refers to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType, OnCommit};
use parking_lot::Mutex;
use resurgam_engine::{Access, Grant, Isolation, ObjectKind, Table, Transaction};

use super::full_name;
use crate::parse::names::parts_of;
use crate::pg::roles::FIRST_ROLE;
use crate::pg::roles::acl::{Object, default_grants, privilege};
use crate::pg::search_path::{PG_TEMP, is_temporary};
use crate::plan::lookup::has_schema;
use crate::session::Session;
use crate::session::database::{SessionOptions, SqlDatabase};
use crate::wire::SqlError;

/// Numbers of temporary schemas that sessions have.
pub(crate) type Numbers = Mutex<BTreeSet<u32>>;

/// What happens with a temporary table when a transaction commits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AtCommit {
    DeleteRows,
    Drop,
}

/// The temporary schema of a session. Dropping it has everything in it dropped.
pub(crate) struct Temporary {
    db: Arc<SqlDatabase>,
    number: u32,
    schema: String,
    /// Tables by id.
    at_commit: Vec<(u32, AtCommit)>,
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let (db, number) = (Arc::clone(&self.db), self.number);
        // Without a runtime it is the next opening's.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                drop_schema(&db, number).await;
                db.temporary.lock().remove(&number);
            });
        }
    }
}

fn name_of(number: u32) -> String {
    format!("pg_temp_{number}")
}

/// Drops a temporary schema that no session has any more.
async fn drop_schema(db: &Arc<SqlDatabase>, number: u32) {
    let dropped = match db.session_for_itself() {
        Ok(mut session) => {
            // As if it were its own, which it may name.
            session.shared.has_temporary(&name_of(number));
            let text = format!("DROP SCHEMA IF EXISTS {} CASCADE", name_of(number));
            session.query(&text).await.map(|_| ())
        }
        Err(error) => Err(error),
    };
    if let Err(error) = dropped {
        // It is tried again when the database is opened.
        tracing::warn!(number, %error, "temporary tables of a session that has ended were not dropped");
    }
}

/// What is left of sessions that a crash has ended is dropped, in the background.
pub(crate) fn drop_left(db: &Arc<SqlDatabase>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let Ok(all) = db.engine.begin(Isolation::ReadCommitted).objects(ObjectKind::SCHEMA) else { return };
    let left: Vec<u32> = all
        .iter()
        .filter(|schema| is_temporary(&schema.name))
        .filter_map(|schema| schema.name.strip_prefix("pg_temp_")?.parse().ok())
        .filter(|number| !db.temporary.lock().contains(number))
        .collect();
    if left.is_empty() {
        return;
    }
    let db = Arc::clone(db);
    runtime.spawn(async move {
        for number in left {
            drop_schema(&db, number).await;
        }
    });
}

impl Session {
    /// Where a temporary thing of that name is made: the schema, which is made if there is none yet, and the name.
    ///
    /// # Errors
    /// `42P16` for a name in another schema, `42501`.
    pub(super) async fn temporary_place_for(
        &mut self,
        txn: &Transaction,
        name: &ObjectName,
    ) -> Result<(String, String), SqlError> {
        let (schema, name) = parts_of(name)?;
        let path = self.cx.search_path();
        if schema.is_some_and(|schema| schema != PG_TEMP && path.temporary() != Some(schema.as_str())) {
            let message = "cannot create temporary relation in non-temporary schema";
            return Err(SqlError::new("42P16", message));
        }
        let rights = self.rights()?;
        if rights.allowed(self.role(), &rights.database, Object::Database, privilege::TEMPORARY) == 0 {
            let database = &self.shared.database_name;
            let message = format!("permission denied to create temporary tables in database \"{database}\"");
            return Err(SqlError::new("42501", message));
        }
        let schema = match &self.temporary {
            Some(temporary) => temporary.schema.clone(),
            None => self.begin_temporary(txn)?,
        };
        if !has_schema(txn, &schema)? {
            // Whoever the session's user is: what is in it is asked for rights.
            let mut grants = default_grants(Object::Schema, FIRST_ROLE);
            let everybody = privilege::USAGE | privilege::CREATE;
            grants.push(Grant { grantee: 0, grantor: FIRST_ROLE, privileges: everybody, options: 0 });
            let access = Access { grants: Some(grants), ..Access::of(FIRST_ROLE) };
            self.make_schema(txn, &schema, access).await?;
        }
        self.keep_schema(txn, &schema, &name).await?;
        Ok((schema, name))
    }

    /// A number that no session has, and no schema that is left of one.
    fn begin_temporary(&mut self, txn: &Transaction) -> Result<String, SqlError> {
        let mut numbers = self.db.temporary.lock();
        let mut number = 1;
        while numbers.contains(&number) || txn.object_named(ObjectKind::SCHEMA, "", &name_of(number))?.is_some() {
            number += 1;
        }
        numbers.insert(number);
        drop(numbers);
        let schema = name_of(number);
        let db = Arc::clone(&self.db);
        self.temporary = Some(Temporary { db, number, schema: schema.clone(), at_commit: Vec::new() });
        self.shared.has_temporary(&schema);
        Ok(schema)
    }

    /// Notes what ON COMMIT says of a temporary table.
    pub(super) fn note_at_commit(&mut self, table: &Table, on_commit: Option<OnCommit>) {
        let what = match on_commit {
            Some(OnCommit::DeleteRows) => AtCommit::DeleteRows,
            Some(OnCommit::Drop) => AtCommit::Drop,
            Some(OnCommit::PreserveRows) | None => return,
        };
        if let Some(temporary) = &mut self.temporary {
            temporary.at_commit.push((table.id, what));
        }
    }

    /// Whether something has to happen with temporary tables before the open transaction commits.
    #[inline]
    pub(crate) fn has_work_at_commit(&self) -> bool {
        self.temporary.as_ref().is_some_and(|temporary| !temporary.at_commit.is_empty())
            && self.open.as_ref().is_some_and(|open| open.txn.has_written())
    }

    /// What ON COMMIT says, in the transaction that is about to commit.
    pub(crate) async fn work_at_commit(&mut self) -> Result<(), SqlError> {
        let Some(all) = self.temporary.as_ref().map(|temporary| temporary.at_commit.clone()) else { return Ok(()) };
        let Some(txn) = self.open.as_ref().map(|open| open.txn.clone()) else { return Ok(()) };
        self.ddl_deadline = None;
        let mut left = Vec::with_capacity(all.len());
        for (id, what) in all {
            // Its creation, or what it was dropped by, may have been taken back.
            let Some(table) = txn.table_by_id(id)? else { continue };
            match what {
                AtCommit::Drop => {
                    self.drop_objects(ObjectType::Table, true, &[full_name(&table)], true).await.map(|_| ())?;
                }
                AtCommit::DeleteRows => {
                    left.push((id, what));
                    if txn.has_touched(&table) {
                        self.settle_ddl(|| txn.truncate(&table)).await?;
                    }
                }
            }
        }
        if let Some(temporary) = &mut self.temporary {
            temporary.at_commit = left;
        }
        Ok(())
    }

    /// Whether the open transaction has made, changed or written to something temporary.
    pub(crate) fn has_touched_temporary(&self) -> Result<bool, SqlError> {
        let (Some(temporary), Some(open)) = (&self.temporary, &self.open) else { return Ok(false) };
        Ok(open.txn.in_schema(&temporary.schema)?.iter().any(|entry| open.txn.has_touched(entry)))
    }

    /// DISCARD TEMP.
    pub(crate) async fn discard_temporary(&mut self) -> Result<(), SqlError> {
        let Some(schema) = self.temporary.as_ref().map(|temporary| temporary.schema.clone()) else { return Ok(()) };
        self.transaction().used = true;
        self.ddl_deadline = self.deadline();
        let before = self.notices.len();
        let txn = self.transaction().txn.clone();
        for entry in txn.in_schema(&schema)? {
            let (kind, is_part) = match (&entry.view, &entry.sequence) {
                (Some(_), _) => (ObjectType::View, false),
                (_, Some(sequence)) => (ObjectType::Sequence, sequence.owner.is_some()),
                _ => (ObjectType::Table, false),
            };
            if !is_part {
                self.drop_objects(kind, true, &[full_name(&entry)], true).await?;
            }
        }
        self.notices.truncate(before);
        Ok(())
    }
}

impl SqlDatabase {
    /// A session that the database has for work of its own.
    fn session_for_itself(self: &Arc<Self>) -> Result<Session, SqlError> {
        let database = self.rights(None)?.database_by_oid(self.oid()).map(|database| database.name.clone());
        let database = database.ok_or_else(|| SqlError::internal("the database is gone"))?;
        let application_name = "temporary tables".to_owned();
        self.session_here(SessionOptions { application_name, database, ..SessionOptions::default() })
    }
}

/// What stays must not refer to what is temporary, nor the other way round.
///
/// # Errors
/// `42P16`
pub(crate) fn check_reference(child: &Table, parent: &Table) -> Result<(), SqlError> {
    let message = match (is_temporary(&child.schema), is_temporary(&parent.schema)) {
        (false, true) => "constraints on permanent tables may reference only permanent tables",
        (true, false) => "constraints on temporary tables may reference only temporary tables",
        _ => return Ok(()),
    };
    Err(SqlError::new("42P16", message))
}
