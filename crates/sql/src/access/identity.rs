//! Who a session is: who logged in, whom SET SESSION AUTHORIZATION and SET ROLE made of it, and what it may do as that.
//!
//! The two are settings ([`Variables`](crate::session::settings::Variables)): so they go back with the transaction or the
//! savepoint that they were made in, and SET LOCAL is there. They are kept by oid: a role that gets another name stays who it
//! is.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::ObjectName;
use resurgam_engine::{FIRST_ROLE, ObjectKind, Table, Transaction};

use crate::parse::statement::role::Spec;
use crate::pg::roles::acl::{Object, privilege as p};
use crate::pg::roles::{Rights, no_role};
use crate::plan::needs::{access_of, denied, not_owner, object_of, word_of};
use crate::plan::statement::Prepared;
use crate::session::Session;
use crate::session::database::SqlDatabase;
use crate::session::execution::command;
use crate::session::shared::{PathOf, SessionShared};
use crate::wire::{Execution, SqlError};

/// Kinds of objects that rights are made of.
const KINDS: [ObjectKind; 4] =
    [ObjectKind::ROLE, ObjectKind::DATABASE, ObjectKind::DEFAULT_PRIVILEGES, ObjectKind::SCHEMA];

fn load(txn: &Transaction) -> Result<Arc<Rights>, SqlError> {
    let mut objects: Vec<Arc<Table>> = Vec::new();
    for kind in KINDS {
        objects.extend(txn.objects(kind)?);
    }
    Rights::load(&objects, txn.database()).map(Arc::new)
}

impl SqlDatabase {
    /// The roles and rights that a transaction sees, or that are committed.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub(crate) fn rights(&self, txn: Option<&Transaction>) -> Result<Arc<Rights>, SqlError> {
        let own;
        let txn = match txn {
            Some(txn) => txn,
            None => {
                own = self.engine.begin(resurgam_engine::Isolation::ReadCommitted);
                &own
            }
        };
        if txn.has_catalog_changes() {
            return load(txn);
        }
        let version = txn.catalog_version();
        if let Some((known, rights)) = &*self.rights.lock()
            && *known == version
        {
            return Ok(Arc::clone(rights));
        }
        let rights = load(txn)?;
        self.rights_loads.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // Of that version only if it has not changed meanwhile.
        if txn.catalog_version() == version {
            *self.rights.lock() = Some((version, Arc::clone(&rights)));
        }
        Ok(rights)
    }
}

impl SessionShared {
    /// The roles and rights that the session sees.
    pub(crate) fn rights_now(&self) -> Result<Arc<Rights>, SqlError> {
        let txn = self.txn.lock().clone();
        match self.database.upgrade() {
            Some(database) => database.rights(txn.as_ref()),
            None => Ok(Arc::new(Rights::first())),
        }
    }

    /// The name of the session's user, as others see it.
    pub(crate) fn session_name(&self) -> String {
        let role = self.variables.lock().session_role;
        if role == self.login {
            return self.user.clone();
        }
        self.database
            .upgrade()
            .and_then(|database| database.rights(None).ok())
            .map_or_else(|| self.user.clone(), |rights| rights.name(role))
    }

    /// The role whose rights count now.
    pub(crate) fn role_now(&self) -> u32 {
        self.variables.lock().role
    }

    /// What the search path of a role goes by now. The first role may look everywhere, whatever the definitions.
    pub(crate) fn path_of(&self, role: u32) -> PathOf {
        let generation = self.signals.generation();
        let definitions = (role != FIRST_ROLE).then(|| match &*self.txn.lock() {
            Some(txn) => (txn.catalog_version(), txn.catalog_changes()),
            None => (self.database.upgrade().map_or(0, |database| database.engine().catalog_version()), 0),
        });
        PathOf { generation, definitions }
    }
}

impl Session {
    /// The roles and rights that it sees.
    pub(crate) fn rights(&self) -> Result<Arc<Rights>, SqlError> {
        match &self.open {
            Some(open) => self.db.rights(Some(&open.txn)),
            None => self.db.rights(None),
        }
    }

    /// The role whose rights count now.
    pub(crate) fn role(&self) -> u32 {
        self.hot().role
    }

    /// Whether a statement may run, before anything is read or locked for it.
    ///
    /// # Errors
    /// `42501`
    #[inline]
    pub(crate) fn check_allowed(&self, prepared: &Prepared) -> Result<(), SqlError> {
        let role = self.hot().role;
        if prepared.allowed.load(std::sync::atomic::Ordering::Relaxed) == role {
            return Ok(());
        }
        self.check_needs(prepared, role)
    }

    #[cold]
    fn check_needs(&self, prepared: &Prepared, role: u32) -> Result<(), SqlError> {
        const KNOWN_MAX: usize = 64;
        let needs = &prepared.needs;
        // The first role may do everything.
        if role != FIRST_ROLE && !needs.is_empty() {
            let known = prepared.allowed_before.lock().contains(&role);
            if !known {
                let rights = self.rights()?;
                needs.check(&rights, role)?;
                let mut before = prepared.allowed_before.lock();
                if before.len() < KNOWN_MAX {
                    before.push(role);
                }
            }
        }
        prepared.allowed.store(role, std::sync::atomic::Ordering::Relaxed);
        Ok(())
    }

    /// Who is meant.
    ///
    /// # Errors
    /// `42704`; also for PUBLIC, which is no role here.
    pub(crate) fn role_of(&self, rights: &Rights, spec: &Spec) -> Result<u32, SqlError> {
        match spec {
            Spec::Name(name) => rights.named(name).map(|role| role.oid),
            Spec::CurrentUser => Ok(self.role()),
            Spec::SessionUser => Ok(self.hot().session_role),
            Spec::Public => Err(no_role("public")),
        }
    }

    /// # Errors
    /// `42501` unless it owns the relation, or is a superuser.
    pub(crate) fn must_own(&self, entry: &Table) -> Result<(), SqlError> {
        if self.owns(entry)? {
            return Ok(());
        }
        Err(not_owner(word_of(entry), &entry.name))
    }

    /// As [`Session::must_own`], of what has that name, if anything has.
    pub(crate) fn must_own_named(&self, txn: &Transaction, name: &ObjectName) -> Result<(), SqlError> {
        match self.relation_named(txn, name) {
            Ok(entry) => self.must_own(&entry),
            // What is not there, or is something else, is told of by whoever looks for it.
            Err(_) => Ok(()),
        }
    }

    pub(crate) fn owns(&self, entry: &Table) -> Result<bool, SqlError> {
        let (role, owner) = (self.role(), access_of(entry).owner);
        Ok(role == owner || role == FIRST_ROLE || self.rights()?.has_rights_of(role, owner))
    }

    /// Who drops a relation owns it, or its schema.
    ///
    /// # Errors
    /// `42501`
    pub(crate) fn may_drop(&self, entry: &Table, word: &str, name: &str) -> Result<(), SqlError> {
        if self.owns(entry)? {
            return Ok(());
        }
        let rights = self.rights()?;
        if rights.has_rights_of(self.role(), rights.schema(&entry.schema).owner) {
            return Ok(());
        }
        Err(not_owner(word, name))
    }

    /// # Errors
    /// `42501` unless it may make something in the schema.
    pub(crate) fn may_create_in(&self, schema: &str) -> Result<(), SqlError> {
        let role = self.role();
        if role == FIRST_ROLE {
            return Ok(());
        }
        let rights = self.rights()?;
        if rights.allowed(role, &rights.schema(schema), Object::Schema, p::CREATE) != 0 {
            return Ok(());
        }
        Err(denied("schema", schema))
    }

    /// # Errors
    /// `42501` unless it may do that with the relation as a whole.
    pub(crate) fn may(&self, entry: &Table, privilege: u32) -> Result<(), SqlError> {
        if self.role() == FIRST_ROLE {
            return Ok(());
        }
        let rights = self.rights()?;
        let object = object_of(entry);
        if rights.allowed(self.role(), access_of(entry), object, privilege) == privilege {
            return Ok(());
        }
        Err(denied(word_of(entry), &entry.name))
    }

    /// As [`Session::may`], of each of these columns.
    pub(crate) fn may_columns(&self, entry: &Table, privilege: u32, columns: &[usize]) -> Result<(), SqlError> {
        if self.role() == FIRST_ROLE {
            return Ok(());
        }
        let rights = self.rights()?;
        let (role, access) = (self.role(), access_of(entry));
        let whole = rights.allowed(role, access, object_of(entry), privilege) == privilege;
        let each = || {
            let may = |at: &usize| rights.allowed_column(role, access, *at, privilege) == privilege;
            !columns.is_empty() && columns.iter().all(may)
        };
        if whole || each() { Ok(()) } else { Err(denied(word_of(entry), &entry.name)) }
    }

    /// The error of what writes to these tables, without what it would tell of rows that the role may not see: by its rights
    /// (PostgreSQL shows the columns that it may read), or by policies. Whoever writes rows for a session has its errors
    /// go through here; below, they tell of the row.
    #[cold]
    pub(crate) fn discreet<'t>(
        &self,
        mut error: SqlError,
        written: impl IntoIterator<Item = &'t Arc<Table>>,
    ) -> SqlError {
        if error.detail.is_none() || !matches!(error.sqlstate.as_str(), "23502" | "23503" | "23505" | "23514" | "44000")
        {
            return error;
        }
        let role = self.role();
        let Ok(rights) = self.rights() else {
            error.detail = None;
            return error;
        };
        let is_hidden = |entry: &Arc<Table>| {
            rights.allowed(role, access_of(entry), object_of(entry), p::SELECT) != p::SELECT
                || crate::pg::policies::apply_to(entry, &rights, role, None).unwrap_or(true)
        };
        if role != FIRST_ROLE && written.into_iter().any(|entry| entry.view.is_none() && is_hidden(entry)) {
            error.detail = None;
        }
        error
    }

    /// SET ROLE, RESET ROLE.
    pub(super) fn set_role(
        &mut self,
        name: Option<&str>,
        local: bool,
        tag: &'static str,
    ) -> Result<Execution, SqlError> {
        if local && !self.is_local_to_something() {
            self.notice(SqlError::notice("WARNING", "25P01", "SET LOCAL can only be used in transaction blocks"));
            return command(tag);
        }
        self.transaction();
        let session = self.hot().session_role;
        let rights = self.rights()?;
        let role = match name {
            None => None,
            Some(name) => {
                let missing = || SqlError::new("22023", format!("role \"{name}\" does not exist"));
                let role = rights.find(name).ok_or_else(missing)?.oid;
                if !rights.is_member_of(session, role) {
                    return Err(SqlError::new("42501", format!("permission denied to set role \"{name}\"")));
                }
                Some(role)
            }
        };
        let is_superuser = rights.is_superuser(role.unwrap_or(session));
        self.shared.variables.lock().set_role(role.map(|role| (role, name.unwrap_or_default())), is_superuser, local);
        self.forget_local();
        command(tag)
    }

    /// SET SESSION AUTHORIZATION, RESET SESSION AUTHORIZATION.
    pub(super) fn set_session_user(
        &mut self,
        name: Option<&str>,
        local: bool,
        tag: &'static str,
    ) -> Result<Execution, SqlError> {
        if local && !self.is_local_to_something() {
            self.notice(SqlError::notice("WARNING", "25P01", "SET LOCAL can only be used in transaction blocks"));
            return command(tag);
        }
        self.transaction();
        let rights = self.rights()?;
        let login = self.shared.login;
        let role = match name {
            None => login,
            Some(name) => {
                let missing = || SqlError::new("22023", format!("role \"{name}\" does not exist"));
                rights.find(name).ok_or_else(missing)?.oid
            }
        };
        if role != login && !rights.is_superuser(login) {
            return Err(SqlError::new("42501", "permission denied to set session authorization"));
        }
        let (shown, is_superuser) = (rights.name(role), rights.is_superuser(role));
        self.shared.variables.lock().set_session_user((role, &shown), is_superuser, local);
        self.forget_local();
        command(tag)
    }
}

impl Session {
    /// The session is again of whoever logged in.
    pub(crate) fn reset_user(&mut self) -> Result<(), SqlError> {
        if self.hot().role != self.shared.login || self.hot().session_role != self.shared.login {
            self.set_session_user(None, false, "RESET")?;
        }
        Ok(())
    }
}

impl SessionShared {
    /// Whether it may see what another session does.
    pub(crate) fn may_see_sessions_of(&self, other: u32) -> bool {
        let role = self.role_now();
        self.rights_now().is_ok_and(|rights| {
            rights.has_rights_of(role, other) || rights.has_rights_of(role, crate::pg::roles::PG_READ_ALL_STATS)
        })
    }

    /// Whether it may end or cancel the session of another role.
    ///
    /// # Errors
    /// `42501`
    pub(crate) fn may_signal(&self, other: u32, terminate: bool) -> Result<(), SqlError> {
        let rights = self.rights_now()?;
        let role = self.role_now();
        if rights.is_superuser(other) && !rights.is_superuser(role) {
            let what = if terminate { "terminate superuser process" } else { "cancel superuser query" };
            return Err(SqlError::new("42501", format!("must be a superuser to {what}")));
        }
        if rights.has_rights_of(role, other) || rights.has_rights_of(role, crate::pg::roles::PG_SIGNAL_BACKEND) {
            return Ok(());
        }
        let (what, done) = if terminate { ("process", "terminated") } else { ("query", "canceled") };
        Err(SqlError::new(
            "42501",
            format!("must be a member of the role whose {what} is being {done} or member of pg_signal_backend"),
        ))
    }
}
