//! CREATE, ALTER, DROP and COMMENT ON DATABASE (dbcommands.c).
//!
//! A database is an object of the catalog that all databases see, and a namespace of definitions of the engine's
//! ([`resurgam_engine::FIRST_DATABASE`]). A new one is empty: to copy a template that is not is refused.
//!
//! # Invariants
//! 1. *Nobody is in a database that goes or is renamed.* It is closed first ([`Closing`]); whoever is in it then is waited
//!    for, as PostgreSQL does, or ended (FORCE); who comes later is refused, or finds it gone.
//! 2. *It is gone at once.* DROP DATABASE commits that there is no such database, whatever it has; what it had goes
//!    afterwards, some definitions at a time, and after a crash when the server's first session begins.

use std::collections::HashSet;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_engine::{
    Access, CatalogObject, CommentOn, Durability, FIRST_DATABASE, Isolation, ObjectKind, Table, Transaction,
};

use crate::exec::context::StopFlag;
use crate::exec::wait::{Waiting, guarded, settle};
use crate::parse::statement::database::{DatabaseStatement, Options, Value};
use crate::pg::roles::{Rights, ServerDatabase, TEMPLATE0, TEMPLATE1, no_database};
use crate::pg::search_path::is_temporary;
use crate::session::Session;
use crate::session::database::{Server, SqlDatabase};
use crate::session::shared::SessionShared;
use crate::wire::{SqlError, Tag};

/// Databases that nobody gets into.
pub(crate) type Closed = Mutex<HashSet<u32>>;

/// How often, and how long after each other, it is looked whether the others have left a database (`CountOtherDBBackends`).
const LOOKS: usize = 50;
const BETWEEN_LOOKS: Duration = Duration::from_millis(100);

/// Definitions of a dropped database that are dropped in one transaction.
const DROPPED_AT_ONCE: usize = 200;

/// A database that is closed as long as this is there.
pub(crate) struct Closing {
    db: Arc<SqlDatabase>,
    oid: u32,
}

impl Closing {
    /// # Errors
    /// `55006`: somebody else has closed it.
    fn begin(db: &Arc<SqlDatabase>, oid: u32, name: &str) -> Result<Self, SqlError> {
        match db.closed.lock().insert(oid) {
            true => Ok(Self { db: Arc::clone(db), oid }),
            false => Err(SqlError::new("55006", format!("database \"{name}\" is being accessed by other users"))),
        }
    }
}

impl Drop for Closing {
    fn drop(&mut self) {
        self.db.closed.lock().remove(&self.oid);
    }
}

impl Server {
    /// Sessions in a database, but for one.
    fn others_in(&self, database: u32, but: i32) -> Vec<Arc<SessionShared>> {
        let sessions = self.sessions.lock().values().filter_map(Weak::upgrade).collect::<Vec<_>>();
        sessions.into_iter().filter(|session| session.database_oid == database && session.pid != but).collect()
    }
}

fn denied(what: String) -> SqlError {
    SqlError::new("42501", what)
}

fn already_there(name: &str) -> SqlError {
    SqlError::new("42P04", format!("database \"{name}\" already exists"))
}

/// The name of a database is taken by one that came at the same time.
fn as_taken(error: SqlError, name: &str) -> SqlError {
    if error.sqlstate == "42710" { already_there(name) } else { error }
}

/// # Errors
/// `22023`
fn limit_of(limit: i64) -> Result<i32, SqlError> {
    let fits = i32::try_from(limit).ok().filter(|limit| *limit >= -1);
    fits.ok_or_else(|| SqlError::new("22023", format!("invalid connection limit: {limit}")))
}

/// The names of PostgreSQL's encodings, without signs; the first number is that of the first.
const ENCODINGS: [&str; 42] = [
    "sqlascii",
    "eucjp",
    "euccn",
    "euckr",
    "euctw",
    "eucjis2004",
    "utf8",
    "muleinternal",
    "latin1",
    "latin2",
    "latin3",
    "latin4",
    "latin5",
    "latin6",
    "latin7",
    "latin8",
    "latin9",
    "latin10",
    "win1256",
    "win1258",
    "win866",
    "win874",
    "koi8r",
    "win1251",
    "win1252",
    "iso88595",
    "iso88596",
    "iso88597",
    "iso88598",
    "win1250",
    "win1253",
    "win1254",
    "win1255",
    "win1257",
    "koi8u",
    "sjis",
    "big5",
    "gbk",
    "uhc",
    "gb18030",
    "johab",
    "shiftjis2004",
];
/// The first of those that a server cannot have.
const FIRST_OF_CLIENTS: usize = 35;

/// # Errors
/// `0A000` for every encoding but UTF8, `42704` for none.
fn check_encoding(encoding: &Value) -> Result<(), SqlError> {
    let (found, shown) = match encoding {
        Value::Number(number) => {
            let known = usize::try_from(*number).ok().filter(|at| *at < FIRST_OF_CLIENTS);
            (known, format!("{number} is not a valid encoding code"))
        }
        Value::Text(name) => {
            let plain: String =
                name.chars().filter(char::is_ascii_alphanumeric).collect::<String>().to_ascii_lowercase();
            let plain = match plain.as_str() {
                "unicode" => "utf8",
                "iso88591" => "latin1",
                "iso88592" => "latin2",
                "iso885915" => "latin9",
                "windows1252" => "win1252",
                other => other,
            };
            let known = ENCODINGS[..FIRST_OF_CLIENTS].iter().position(|known| *known == plain);
            (known, format!("{name} is not a valid encoding name"))
        }
    };
    match found.map(|at| ENCODINGS[at]) {
        Some("utf8") => Ok(()),
        Some(_) => Err(SqlError::unsupported("databases in another encoding than UTF8 are not supported")),
        None => Err(SqlError::new("42704", shown)),
    }
}

/// # Errors
/// `42809` for a locale that the server does not have; it orders text by its bytes.
fn check_locale(locale: &str, is_ctype: bool) -> Result<(), SqlError> {
    let is_plain = matches!(locale, "C" | "POSIX" | "");
    if is_plain || is_ctype && matches!(locale, "C.UTF-8" | "C.utf8") {
        return Ok(());
    }
    Err(SqlError::new("42809", format!("invalid locale name: \"{locale}\""))
        .with_hint("The server orders text by its bytes: its locales are C and POSIX."))
}

impl Session {
    /// Runs one.
    pub(crate) async fn database_statement(&mut self, statement: &DatabaseStatement) -> Result<Tag, SqlError> {
        self.ddl_deadline = self.deadline();
        match statement {
            DatabaseStatement::Create { name, options } => {
                self.refuse_in_transaction("CREATE DATABASE")?;
                self.create_database(name, options).await?;
                Ok(Tag::Fixed("CREATE DATABASE"))
            }
            DatabaseStatement::Drop { name, if_exists, force } => {
                self.refuse_in_transaction("DROP DATABASE")?;
                self.drop_database(name, *if_exists, *force).await?;
                Ok(Tag::Fixed("DROP DATABASE"))
            }
            DatabaseStatement::Rename { name, to } => {
                self.rename_database(name, to).await?;
                Ok(Tag::Fixed("ALTER DATABASE"))
            }
            DatabaseStatement::Alter { name, options } => {
                self.alter_database(name, options).await?;
                Ok(Tag::Fixed("ALTER DATABASE"))
            }
            DatabaseStatement::Comment { name, comment } => {
                let comment = super::comment::checked(comment.as_deref())?;
                let txn = self.ddl_transaction("COMMENT")?;
                let rights = self.db.rights(Some(&txn))?;
                let database = match rights.database_named(name) {
                    Ok(database) => database,
                    // As PostgreSQL, for restoring under another name.
                    Err(error) => {
                        self.notice(SqlError::notice("WARNING", "3D000", error.into_fields().message));
                        return Ok(Tag::Fixed("COMMENT"));
                    }
                };
                self.must_own_database(&rights, database)?;
                let (entry, _) = self.locked_database(&txn, name).await?;
                self.set_comment(&txn, &entry, CommentOn::Relation, comment).await?;
                Ok(Tag::Fixed("COMMENT"))
            }
        }
    }

    /// # Errors
    /// `42501` unless it owns the database, or is a superuser.
    pub(crate) fn must_own_database(&self, rights: &Rights, database: &ServerDatabase) -> Result<(), SqlError> {
        match rights.has_rights_of(self.role(), database.access.owner) {
            true => Ok(()),
            false => Err(crate::plan::needs::not_owner("database", &database.name)),
        }
    }

    /// Whether it may make databases.
    pub(crate) fn may_create_databases(&self, rights: &Rights) -> bool {
        rights.get(self.role()).is_some_and(|role| role.superuser || role.create_db)
    }

    /// A database's entry, made if there is none, and what it says, locked against everyone else.
    ///
    /// # Errors
    /// `3D000`
    pub(crate) async fn locked_database(
        &mut self,
        txn: &Transaction,
        name: &str,
    ) -> Result<(Arc<Table>, ServerDatabase), SqlError> {
        const LOOKUPS_MAX: usize = 20;
        for _ in 0..LOOKUPS_MAX {
            let rights = self.db.rights(Some(txn))?;
            let database = rights.database_named(name)?.clone();
            let changed = match database.entry {
                Some(entry) => {
                    let entry = txn.object_by_id(entry)?.ok_or_else(|| no_database(name))?;
                    match self.settle_ddl(|| txn.lock_for_change(&entry)).await {
                        Ok(()) => return Ok((entry, database)),
                        Err(error) if error.definition_changed => error,
                        Err(error) => return Err(error),
                    }
                }
                None => {
                    let object = CatalogObject::new(ObjectKind::DATABASE, database.encode());
                    match self.settle_ddl(|| txn.create_object("", name, object.clone())).await {
                        Ok(entry) => {
                            let entry = self.store_access(txn, &entry, database.access.clone()).await?;
                            return Ok((Arc::clone(&entry), ServerDatabase { entry: Some(entry.id), ..database }));
                        }
                        // Made by the one who was waited for.
                        Err(error) if error.sqlstate == "42710" => error,
                        Err(error) => return Err(error),
                    }
                }
            };
            if txn.isolation() != Isolation::ReadCommitted {
                return Err(changed);
            }
            txn.statement(resurgam_engine::StatementKind::PointWrite)?;
        }
        Err(SqlError::new("40001", "could not change a database that others keep changing"))
    }

    /// Stores what is said of a database, in the entry that is locked.
    pub(crate) async fn store_database(
        &mut self,
        txn: &Transaction,
        entry: &Arc<Table>,
        database: &ServerDatabase,
    ) -> Result<(), SqlError> {
        let body = database.encode();
        self.settle_ddl(|| txn.replace_object(entry, Vec::new(), body.clone())).await?;
        Ok(())
    }

    async fn create_database(&mut self, name: &str, options: &Options) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("CREATE DATABASE")?;
        let rights = self.db.rights(Some(&txn))?;
        let limit = options.connection_limit.flatten().map_or(Ok(-1), limit_of)?;
        if let Some(Some(encoding)) = &options.encoding {
            check_encoding(encoding)?;
        }
        if options.oid.flatten().is_some() {
            return Err(SqlError::unsupported("CREATE DATABASE with an OID is not supported"));
        }
        let owner = match options.owner.clone().flatten() {
            Some(owner) => rights.named(&owner)?.oid,
            None => self.role(),
        };
        if !self.may_create_databases(&rights) {
            return Err(denied("permission denied to create database".to_owned()));
        }
        self.may_give_to(&rights, owner)?;
        let template = options.template.clone().flatten();
        let template = template.as_deref().unwrap_or("template1");
        let missing = |_| SqlError::new("3D000", format!("template database \"{template}\" does not exist"));
        let template = rights.database_named(template).map_err(missing)?.clone();
        if !template.is_template && !rights.has_rights_of(self.role(), template.access.owner) {
            return Err(denied(format!("permission denied to copy database \"{}\"", template.name)));
        }
        if let Some(Some(strategy)) = &options.strategy
            && !matches!(strategy.to_ascii_lowercase().as_str(), "wal_log" | "file_copy")
        {
            return Err(SqlError::new("22023", format!("invalid create database strategy \"{strategy}\""))
                .with_hint("Valid strategies are \"wal_log\" and \"file_copy\"."));
        }
        match options.provider.clone().flatten().as_deref() {
            None | Some("libc") => {}
            Some("icu") => return Err(SqlError::unsupported("ICU is not supported in this build")),
            Some(other) => return Err(SqlError::syntax(format!("unrecognized locale provider: {other}"))),
        }
        if options.icu_locale.as_ref().is_some_and(Option::is_some) {
            return Err(SqlError::new("42P17", "ICU locale cannot be specified unless locale provider is ICU"));
        }
        let locales = [(&options.locale, true), (&options.collate, false), (&options.ctype, true)];
        for (locale, is_ctype) in locales {
            if let Some(Some(locale)) = locale {
                check_locale(locale, is_ctype)?;
            }
        }
        match options.tablespace.clone().flatten().as_deref() {
            None | Some("pg_default") => {}
            Some("pg_global") => {
                return Err(SqlError::new("22023", "pg_global cannot be used as default tablespace"));
            }
            Some(other) => return Err(SqlError::new("42704", format!("tablespace \"{other}\" does not exist"))),
        }
        if rights.database_named(name).is_ok() {
            return Err(already_there(name));
        }
        // What comes into it after that is not in the copy, as if it had been made earlier.
        self.wait_for_others(template.oid, &template.name, "source database").await?;
        if self.db.engine.databases_with(is_copied)?.contains(&template.oid) {
            let text = format!("copying a database that is not empty is not supported: \"{}\"", template.name);
            return Err(SqlError::unsupported(text).with_hint("Use TEMPLATE template0, and restore a dump of it."));
        }
        self.keep_role(&txn, owner).await?;
        let database = ServerDatabase {
            connection_limit: limit,
            allows_connections: options.allow_connections.flatten().unwrap_or(true),
            is_template: options.is_template.flatten().unwrap_or(false),
            ..ServerDatabase::new(0, name)
        };
        let object = CatalogObject::new(ObjectKind::DATABASE, database.encode());
        let made = self.settle_ddl(|| txn.create_object("", name, object.clone())).await;
        let entry = made.map_err(|error| as_taken(error, name))?;
        self.store_access(&txn, &entry, Access::of(owner)).await?;
        Ok(())
    }

    /// Closes a database, once nobody but the session itself is in it.
    ///
    /// # Errors
    /// `55006`
    async fn closed(&mut self, oid: u32, name: &str, force: bool) -> Result<Closing, SqlError> {
        let closing = Closing::begin(&self.db, oid, name)?;
        if force {
            let prepared = self.prepared_in(name);
            if prepared > 0 {
                let text = format!("database \"{name}\" is being used by prepared transactions");
                return Err(SqlError::new("55006", text).with_detail(count_of(0, prepared)));
            }
            let others = self.db.others_in(oid, self.shared.pid);
            for other in &others {
                let role = other.variables.lock().session_role;
                self.shared.may_signal(role, true)?;
            }
            for other in &others {
                self.db.signal(other.pid, true);
            }
        }
        self.wait_for_others(oid, name, "database").await?;
        Ok(closing)
    }

    fn prepared_in(&self, name: &str) -> usize {
        self.db.engine.prepared().iter().filter(|prepared| prepared.database == name).count()
    }

    /// Waits, for a while, until nobody but the session itself is in a database.
    ///
    /// # Errors
    /// `55006`
    async fn wait_for_others(&mut self, oid: u32, name: &str, what: &str) -> Result<(), SqlError> {
        let (stop, deadline, own) = (Arc::clone(&self.shared.stop), self.ddl_deadline, self.shared.pid);
        for _ in 0..LOOKS {
            if self.prepared_in(name) == 0 && self.db.others_in(oid, own).is_empty() {
                return Ok(());
            }
            guarded(&stop, deadline, async {
                tokio::time::sleep(BETWEEN_LOOKS).await;
                Ok(())
            })
            .await?;
        }
        let (others, prepared) = (self.db.others_in(oid, own).len(), self.prepared_in(name));
        let text = format!("{what} \"{name}\" is being accessed by other users");
        Err(SqlError::new("55006", text).with_detail(count_of(others, prepared)))
    }

    async fn drop_database(&mut self, name: &str, if_exists: bool, force: bool) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("DROP DATABASE")?;
        let rights = self.db.rights(Some(&txn))?;
        let Ok(database) = rights.database_named(name).cloned() else {
            if if_exists {
                self.skip(format!("database \"{name}\" does not exist, skipping"));
                return Ok(());
            }
            return Err(no_database(name));
        };
        self.must_own_database(&rights, &database)?;
        if database.is_template {
            return Err(SqlError::new("42809", "cannot drop a template database"));
        }
        if database.oid == self.db.oid() {
            return Err(SqlError::new("55006", "cannot drop the currently open database"));
        }
        if [FIRST_DATABASE, TEMPLATE0, TEMPLATE1].contains(&database.oid) {
            return Err(SqlError::unsupported(format!("database \"{name}\", which there is from the start, stays")));
        }
        let closing = self.closed(database.oid, name, force).await?;
        self.closing.push(closing);
        let (entry, _) = self.locked_database(&txn, name).await?;
        self.settle_ddl(|| txn.drop_object(&entry)).await?;
        drop(txn);
        self.commit().await?;
        empty(&self.db, database.oid).await;
        Ok(())
    }

    async fn rename_database(&mut self, name: &str, to: &str) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("ALTER DATABASE")?;
        let rights = self.db.rights(Some(&txn))?;
        let database = rights.database_named(name)?.clone();
        self.must_own_database(&rights, &database)?;
        if !self.may_create_databases(&rights) {
            return Err(denied("permission denied to rename database".to_owned()));
        }
        if rights.database_named(to).is_ok() {
            return Err(already_there(to));
        }
        if database.oid == self.db.oid() {
            return Err(SqlError::unsupported("current database cannot be renamed"));
        }
        if [FIRST_DATABASE, TEMPLATE0, TEMPLATE1].contains(&database.oid) {
            return Err(SqlError::unsupported(format!(
                "database \"{name}\", which there is from the start, keeps its name"
            )));
        }
        let closing = self.closed(database.oid, name, false).await?;
        self.closing.push(closing);
        let (entry, _) = self.locked_database(&txn, name).await?;
        let renamed = self.settle_ddl(|| txn.rename_object(&entry, "", to)).await;
        renamed.map_err(|error| as_taken(error, to))?;
        Ok(())
    }

    async fn alter_database(&mut self, name: &str, options: &Options) -> Result<(), SqlError> {
        if options.tablespace.is_some() {
            return Err(SqlError::unsupported("ALTER DATABASE … SET TABLESPACE is not supported"));
        }
        let limit = options.connection_limit.flatten().map(limit_of).transpose()?;
        let txn = self.ddl_transaction("ALTER DATABASE")?;
        let rights = self.db.rights(Some(&txn))?;
        let database = rights.database_named(name)?;
        self.must_own_database(&rights, database)?;
        let (allow, is_template) = (options.allow_connections.flatten(), options.is_template.flatten());
        if allow == Some(false) && database.oid == self.db.oid() {
            return Err(SqlError::new("22023", "cannot disallow connections for current database"));
        }
        let (entry, mut database) = self.locked_database(&txn, name).await?;
        database.connection_limit = limit.unwrap_or(database.connection_limit);
        database.allows_connections = allow.unwrap_or(database.allows_connections);
        database.is_template = is_template.unwrap_or(database.is_template);
        self.store_database(&txn, &entry, &database).await
    }
}

/// Who is in a database, for DETAIL.
fn count_of(others: usize, prepared: usize) -> String {
    let plural = |count: usize| if count == 1 { "" } else { "s" };
    match (others, prepared) {
        (others, 0) => {
            let are = if others == 1 { "is" } else { "are" };
            format!("There {are} {others} other session{} using the database.", plural(others))
        }
        (0, prepared) => {
            let are = if prepared == 1 { "is" } else { "are" };
            format!("There {are} {prepared} prepared transaction{} using the database.", plural(prepared))
        }
        (others, prepared) => format!(
            "There are {others} other session{} and {prepared} prepared transaction{} using the database.",
            plural(others),
            plural(prepared)
        ),
    }
}

/// Drops some of what a database had that is dropped itself; whether there may be more.
async fn empty_some(db: &SqlDatabase, oid: u32) -> Result<bool, SqlError> {
    let stop = StopFlag::default();
    let waiting = Waiting { stop: &stop, lock_timeout: Duration::ZERO };
    let txn = db.engine.begin(Isolation::ReadCommitted);
    let dropped = settle(&waiting, || txn.drop_contents(oid, DROPPED_AT_ONCE)).await?;
    txn.commit(Durability::Async)?.await?;
    Ok(dropped == DROPPED_AT_ONCE)
}

/// Drops what a database had that is dropped itself: some of it now, the rest in the background.
async fn empty(db: &Arc<SqlDatabase>, oid: u32) {
    match empty_some(db, oid).await {
        Ok(false) => return,
        Ok(true) => {}
        Err(error) => tracing::warn!(oid, %error, "what a dropped database had could not be dropped at once"),
    }
    empty_later(db, vec![oid]);
}

/// Drops what these databases had, which are dropped themselves, in the background.
fn empty_later(db: &Arc<SqlDatabase>, databases: Vec<u32>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    // The first one is there for as long as the server is.
    let db = Arc::downgrade(&db.beside(FIRST_DATABASE));
    runtime.spawn(async move {
        for oid in databases {
            loop {
                // It does not keep the server from closing; what is left then is the next opening's.
                let Some(db) = db.upgrade() else { return };
                match empty_some(&db, oid).await {
                    Ok(true) => {}
                    Ok(false) => break,
                    Err(error) => {
                        tracing::warn!(oid, %error, "what a dropped database had is dropped at the next start");
                        break;
                    }
                }
                drop(db);
                tokio::task::yield_now().await;
            }
        }
    });
}

/// What is left of databases that were dropped before the server stopped is dropped, in the background.
pub(crate) fn drop_contents_left(db: &Arc<SqlDatabase>) {
    let left = || -> Result<Vec<u32>, SqlError> {
        let (rights, all) = (db.rights(None)?, db.engine.databases_with_contents()?);
        Ok(all.into_iter().filter(|oid| rights.database_by_oid(*oid).is_none()).collect())
    };
    match left() {
        Ok(left) if left.is_empty() => {}
        Ok(left) => empty_later(db, left),
        Err(error) => tracing::warn!(%error, "what is left of dropped databases is not known"),
    }
}

/// Whether something would be in a copy of its database: what is temporary would not, and what rights roles give by default in it is said of no object
/// (anybody who can connect to a template may say that).
fn is_copied(entry: &Table) -> bool {
    let of_rights = entry.object.as_ref().is_some_and(|object| object.kind == ObjectKind::DEFAULT_PRIVILEGES);
    let name = if entry.schema.is_empty() { &entry.name } else { &entry.schema };
    !of_rights && !is_temporary(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_and_locales() {
        let code = |encoding: Value| check_encoding(&encoding).err().map(|error| error.into_fields().sqlstate);
        let text = |name: &str| Value::Text(name.to_owned());
        assert_eq!([code(text("UTF-8")), code(text("utf8")), code(Value::Number(6))], [None, None, None]);
        assert_eq!(code(text("LATIN1")).as_deref(), Some("0A000"));
        assert_eq!(code(text("SQL_ASCII")).as_deref(), Some("0A000"));
        assert_eq!(code(text("SJIS")).as_deref(), Some("42704"));
        assert_eq!(code(Value::Number(99)).as_deref(), Some("42704"));
        assert!(check_locale("C", false).is_ok() && check_locale("C.UTF-8", true).is_ok());
        assert!(check_locale("en_US.UTF-8", true).is_err() && check_locale("C.UTF-8", false).is_err());
    }

    #[test]
    fn who_is_in_the_way() {
        assert_eq!(count_of(1, 0), "There is 1 other session using the database.");
        assert_eq!(count_of(2, 0), "There are 2 other sessions using the database.");
        assert_eq!(count_of(0, 1), "There is 1 prepared transaction using the database.");
        assert_eq!(count_of(1, 2), "There are 1 other session and 2 prepared transactions using the database.");
    }
}
