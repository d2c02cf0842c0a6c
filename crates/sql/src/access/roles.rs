//! Running the statements about roles (user.c).

use std::sync::Arc;

use resurgam_engine::{CatalogObject, ObjectKind, Table, Transaction};

use crate::access::password;
use crate::parse::statement::role::{RoleCommand, RoleOptions, SettingChange, Spec};
use crate::pg::roles::{
    DatabaseSetting, EVERYBODY, FIRST_ROLE, Membership, PG_DATABASE_OWNER, Rights, Role, ServerDatabase,
};
use crate::session::Session;
use crate::wire::{Execution, SqlError, Tag};

fn denied(what: &str) -> SqlError {
    SqlError::new("42501", what.to_owned())
}

fn done(tag: &'static str) -> Result<Execution, SqlError> {
    Ok(Execution::Command { tag: Tag::Fixed(tag) })
}

/// # Errors
/// `42939` for a name that no user gives to a role.
fn check_name(name: &str) -> Result<(), SqlError> {
    let reserved = || SqlError::new("42939", format!("role name \"{name}\" is reserved"));
    if name.starts_with("pg_") {
        return Err(reserved().with_detail("Role names starting with \"pg_\" are reserved."));
    }
    if name == "public" || name == "none" { Err(reserved()) } else { Ok(()) }
}

/// What a name of a role to be made or changed is.
fn given_name(spec: &Spec) -> Result<&str, SqlError> {
    match spec {
        Spec::Name(name) => Ok(name),
        Spec::Public => Err(SqlError::new("42939", "role name \"public\" is reserved")),
        Spec::CurrentUser => Err(SqlError::new("42939", "CURRENT_USER cannot be used as a role name here")),
        Spec::SessionUser => Err(SqlError::new("42939", "SESSION_USER cannot be used as a role name here")),
    }
}

impl Session {
    /// Runs one.
    pub(crate) async fn run_role(&mut self, command: &RoleCommand) -> Result<Execution, SqlError> {
        match command {
            RoleCommand::SetRole { role, local, tag } => return self.set_role(role.as_deref(), *local, tag),
            RoleCommand::SetSession { user, local, tag } => {
                return self.set_session_user(user.as_deref(), *local, tag);
            }
            _ => {}
        }
        self.ddl_deadline = self.deadline();
        match command {
            RoleCommand::Create { tag, name, options } => {
                self.create_role(name, options).await?;
                done(tag)
            }
            RoleCommand::Alter { tag, role, options } => {
                self.alter_role(role, options).await?;
                done(tag)
            }
            RoleCommand::AlterSetting { role, database, change } => {
                self.alter_role_setting(role.as_ref(), database.as_deref(), change).await?;
                done("ALTER ROLE")
            }
            RoleCommand::AlterDatabaseSetting { database, change } => {
                self.alter_database_setting(database, change).await?;
                done("ALTER DATABASE")
            }
            RoleCommand::Rename { role, to } => {
                self.rename_role(role, to).await?;
                done("ALTER ROLE")
            }
            RoleCommand::Comment { role, comment } => {
                self.comment_on_role(role, comment.as_deref()).await?;
                done("COMMENT")
            }
            RoleCommand::Drop { tag, if_exists, roles } => {
                self.drop_roles(*if_exists, roles).await?;
                done(tag)
            }
            RoleCommand::Membership { tag, is_grant, roles, members, admin, granted_by } => {
                self.change_memberships(*is_grant, roles, members, *admin, granted_by.as_ref()).await?;
                done(tag)
            }
            RoleCommand::Reassign { from, to } => {
                self.reassign_owned(from, to).await?;
                done("REASSIGN OWNED")
            }
            RoleCommand::DropOwned { roles, cascade } => {
                self.drop_owned_by(roles, *cascade).await?;
                done("DROP OWNED")
            }
            RoleCommand::SetRole { .. } | RoleCommand::SetSession { .. } => {
                Err(SqlError::internal("a setting is no change of a role"))
            }
        }
    }

    /// Whether it may make and change roles that are no superusers'.
    fn may_create_roles(&self, rights: &Rights) -> bool {
        rights.get(self.role()).is_some_and(|role| role.superuser || role.create_role)
    }

    fn is_superuser_now(&self, rights: &Rights) -> bool {
        rights.is_superuser(self.role())
    }

    /// Stores a role in the place of what it was.
    pub(super) async fn store_role(&mut self, txn: &Transaction, role: &Role) -> Result<(), SqlError> {
        let fixed = role.oid == FIRST_ROLE;
        let body = role.encode(fixed);
        match role.entry {
            Some(entry) => {
                let entry = self.role_entry(txn, entry, &role.name)?;
                self.settle_ddl(|| txn.replace_object(&entry, Vec::new(), body.clone())).await?;
            }
            None => {
                let object = CatalogObject::new(ObjectKind::ROLE, body);
                self.settle_ddl(|| txn.create_object("", &role.name, object.clone())).await?;
            }
        }
        Ok(())
    }

    fn role_entry(&self, txn: &Transaction, entry: u32, name: &str) -> Result<Arc<Table>, SqlError> {
        txn.object_by_id(entry)?.ok_or_else(|| crate::pg::roles::no_role(name))
    }

    /// Locks a role for a change, and gives it as it is then.
    async fn locked_role(&mut self, txn: &Transaction, oid: u32) -> Result<Role, SqlError> {
        const LOOKUPS_MAX: usize = 20;
        for _ in 0..LOOKUPS_MAX {
            let rights = self.db.rights(Some(txn))?;
            let role = rights
                .get(oid)
                .cloned()
                .ok_or_else(|| SqlError::new("42704", format!("role with OID {oid} does not exist")))?;
            let Some(entry) = role.entry else { return Ok(role) };
            let entry = self.role_entry(txn, entry, &role.name)?;
            match self.settle_ddl(|| txn.lock_for_change(&entry)).await {
                Ok(()) => return Ok(role),
                // Changed by the one who was waited for.
                Err(error)
                    if error.definition_changed && txn.isolation() == resurgam_engine::Isolation::ReadCommitted =>
                {
                    txn.statement(resurgam_engine::StatementKind::PointWrite)?;
                }
                Err(error) => return Err(error),
            }
        }
        Err(SqlError::new("40001", "could not change a role that others keep changing"))
    }

    /// Keeps a role from being dropped until this transaction has ended.
    pub(crate) async fn keep_role(&mut self, txn: &Transaction, oid: u32) -> Result<(), SqlError> {
        let rights = self.db.rights(Some(txn))?;
        let Some(entry) = rights.get(oid).and_then(|role| role.entry) else { return Ok(()) };
        let Some(entry) = txn.object_by_id(entry)? else {
            return Err(SqlError::new("42704", format!("role {oid} was concurrently dropped")));
        };
        self.settle_ddl(|| txn.keep(&entry)).await
    }

    /// The options that are said, put into a role.
    fn apply(&mut self, role: &mut Role, options: &RoleOptions) -> Result<(), SqlError> {
        let set = |slot: &mut bool, given: Option<bool>| *slot = given.unwrap_or(*slot);
        set(&mut role.superuser, options.superuser);
        set(&mut role.create_db, options.create_db);
        set(&mut role.create_role, options.create_role);
        set(&mut role.inherit, options.inherit);
        set(&mut role.login, options.login);
        set(&mut role.replication, options.replication);
        set(&mut role.bypass_rls, options.bypass_rls);
        if let Some(limit) = options.limit {
            let limit = i32::try_from(limit).ok().filter(|limit| *limit >= -1);
            let given = options.limit.unwrap_or_default();
            role.connection_limit =
                limit.ok_or_else(|| SqlError::new("22023", format!("invalid connection limit: {given}")))?;
        }
        if let Some(password) = &options.password {
            role.password = match password {
                None => None,
                Some(password) => {
                    let kept = password::kept(password)?;
                    if kept.is_none() {
                        let text = "empty string is not a valid password, clearing password";
                        self.notice(SqlError::notice("NOTICE", "00000", text));
                    }
                    kept
                }
            };
        }
        if let Some(until) = &options.valid_until {
            let zone = self.shared.variables.lock().zone;
            role.valid_until = Some(crate::pg::decode::parse_timestamptz(until, &zone)?);
        }
        Ok(())
    }

    async fn create_role(&mut self, name: &Spec, options: &RoleOptions) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("CREATE ROLE")?;
        let rights = self.db.rights(Some(&txn))?;
        if options.sysid {
            self.notice(SqlError::notice("NOTICE", "00000", "SYSID can no longer be specified"));
        }
        let superuser = self.is_superuser_now(&rights);
        for (given, what) in [
            (options.superuser, "superusers"),
            (options.replication, "replication users"),
            (options.bypass_rls, "bypassrls users"),
        ] {
            if given == Some(true) && !superuser {
                return Err(denied(&format!("must be superuser to create {what}")));
            }
        }
        if !self.may_create_roles(&rights) {
            return Err(denied("permission denied to create role"));
        }
        let name = given_name(name)?;
        check_name(name)?;
        if rights.find(name).is_some() {
            return Err(SqlError::new("42710", format!("role \"{name}\" already exists")));
        }
        let mut role = Role::new(0, name);
        self.apply(&mut role, options)?;
        let object = CatalogObject::new(ObjectKind::ROLE, role.encode(false));
        self.settle_ddl(|| txn.create_object("", name, object.clone())).await?;
        let myself = [Spec::Name(name.to_owned())];
        let granted_by = None;
        for group in options.in_roles.iter().flatten() {
            self.change_memberships_in(&txn, true, std::slice::from_ref(group), &myself, false, granted_by).await?;
        }
        for (members, admin) in [(&options.admins, true), (&options.members, false)] {
            if let Some(members) = members {
                self.change_memberships_in(&txn, true, &myself, members, admin, granted_by).await?;
            }
        }
        Ok(())
    }

    async fn alter_role(&mut self, spec: &Spec, options: &RoleOptions) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("ALTER ROLE")?;
        let rights = self.db.rights(Some(&txn))?;
        if let Spec::Name(name) = spec {
            refuse_reserved(name)?;
        }
        let oid = self.role_of(&rights, spec)?;
        let Some(before) = rights.get(oid) else { return Err(crate::pg::roles::no_role("")) };
        let superuser = self.is_superuser_now(&rights);
        if (before.superuser || options.superuser.is_some()) && !superuser {
            return Err(denied("must be superuser to alter superuser roles or change superuser attribute"));
        }
        if (before.replication || options.replication.is_some()) && !superuser {
            return Err(denied("must be superuser to alter replication roles or change replication attribute"));
        }
        if options.bypass_rls.is_some() && !superuser {
            return Err(denied("must be superuser to change bypassrls attribute"));
        }
        if !self.may_create_roles(&rights) {
            let only_password = RoleOptions { password: options.password.clone(), ..RoleOptions::default() };
            if options.password.is_none() || *options != only_password || oid != self.role() {
                return Err(denied("permission denied"));
            }
        }
        let mut role = self.locked_role(&txn, oid).await?;
        let members = options.members.clone();
        self.apply(&mut role, options)?;
        if oid == FIRST_ROLE && !role.superuser {
            return Err(SqlError::unsupported("the first role stays a superuser"));
        }
        self.store_role(&txn, &role).await?;
        if let Some(members) = members {
            let group = [Spec::Name(role.name.clone())];
            self.change_memberships_in(&txn, true, &group, &members, false, None).await?;
        }
        Ok(())
    }

    async fn rename_role(&mut self, spec: &Spec, to: &str) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("ALTER ROLE")?;
        let rights = self.db.rights(Some(&txn))?;
        let name = given_name(spec)?;
        let oid = rights.named(name)?.oid;
        if oid == self.hot().session_role {
            return Err(SqlError::unsupported("session user cannot be renamed"));
        }
        if oid == self.role() {
            return Err(SqlError::unsupported("current user cannot be renamed"));
        }
        refuse_reserved_with(name, "Role names starting with \"pg_\" are reserved.")?;
        check_name(to)?;
        if rights.find(to).is_some() {
            return Err(SqlError::new("42710", format!("role \"{to}\" already exists")));
        }
        if rights.is_superuser(oid) && !self.is_superuser_now(&rights) {
            return Err(denied("must be superuser to rename superusers"));
        }
        if !self.may_create_roles(&rights) {
            return Err(denied("permission denied to rename role"));
        }
        if oid == FIRST_ROLE {
            return Err(SqlError::unsupported("the first role keeps its name"));
        }
        let role = self.locked_role(&txn, oid).await?;
        let entry = role.entry.ok_or_else(|| SqlError::internal("a role without an entry"))?;
        let entry = self.role_entry(&txn, entry, name)?;
        self.settle_ddl(|| txn.rename_object(&entry, "", to)).await?;
        Ok(())
    }

    async fn comment_on_role(&mut self, spec: &Spec, comment: Option<&str>) -> Result<(), SqlError> {
        let comment = crate::ddl::checked_comment(comment)?;
        let txn = self.ddl_transaction("COMMENT")?;
        let rights = self.db.rights(Some(&txn))?;
        let oid = self.role_of(&rights, spec)?;
        if rights.is_superuser(oid) && !self.is_superuser_now(&rights) {
            return Err(denied("must be superuser to comment on superuser role"));
        }
        let name = rights.name(oid);
        if !rights.is_superuser(oid) && !self.may_create_roles(&rights) {
            return Err(denied(&format!("must be member of role \"{name}\"")));
        }
        let role = self.locked_role(&txn, oid).await?;
        if role.is_reserved() {
            return Err(SqlError::unsupported(format!("a comment on the role {name} is not supported")));
        }
        // The first role has no entry before it is changed.
        let entry = match role.entry {
            Some(entry) => entry,
            None => {
                self.store_role(&txn, &role).await?;
                let rights = self.db.rights(Some(&txn))?;
                let entry = rights.get(oid).and_then(|role| role.entry);
                entry.ok_or_else(|| SqlError::internal("a role that was stored has no entry"))?
            }
        };
        let entry = self.role_entry(&txn, entry, &name)?;
        self.set_comment(&txn, &entry, resurgam_engine::CommentOn::Relation, comment).await?;
        Ok(())
    }

    async fn drop_roles(&mut self, if_exists: bool, specs: &[Spec]) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("DROP ROLE")?;
        let rights = self.db.rights(Some(&txn))?;
        if !self.may_create_roles(&rights) {
            return Err(denied("permission denied to drop role"));
        }
        let mut oids = Vec::with_capacity(specs.len());
        for spec in specs {
            let Spec::Name(name) = spec else {
                return Err(SqlError::new("22023", "cannot use special role specifier in DROP ROLE"));
            };
            let Some(role) = rights.find(name) else {
                if if_exists {
                    self.skip(format!("role \"{name}\" does not exist, skipping"));
                    continue;
                }
                return Err(crate::pg::roles::no_role(name));
            };
            if role.oid == self.role() {
                return Err(SqlError::new("55006", "current user cannot be dropped"));
            }
            if role.oid == self.hot().session_role || role.oid == self.shared.login {
                return Err(SqlError::new("55006", "session user cannot be dropped"));
            }
            if role.superuser && !self.is_superuser_now(&rights) {
                return Err(denied("must be superuser to drop superusers"));
            }
            if role.is_reserved() || role.oid == FIRST_ROLE {
                let text = format!("cannot drop role {name} because it is required by the database system");
                return Err(SqlError::new("2BP01", text));
            }
            if !oids.contains(&role.oid) {
                oids.push(role.oid);
            }
        }
        for oid in oids {
            let role = self.locked_role(&txn, oid).await?;
            // Who is a member of it is so no longer.
            let rights = self.db.rights(Some(&txn))?;
            let members: Vec<u32> = rights.members_of(oid).map(|(member, _)| member.oid).collect();
            for member in members {
                let mut member = self.locked_role(&txn, member).await?;
                member.member_of.retain(|to| to.role != oid);
                self.store_role(&txn, &member).await?;
            }
            let held = super::owned::what_holds(&txn, &rights, oid)?;
            if !held.is_empty() {
                let text = format!("role \"{}\" cannot be dropped because some objects depend on it", role.name);
                return Err(SqlError::new("2BP01", text).with_detail(super::owned::shown(&held)));
            }
            let has_some = |database: &&ServerDatabase| database.settings.iter().any(|setting| setting.role == oid);
            let databases = rights.databases.iter().filter(has_some).map(|database| database.name.clone());
            for name in databases.collect::<Vec<_>>() {
                let (entry, mut database) = self.locked_database(&txn, &name).await?;
                database.settings.retain(|setting| setting.role != oid);
                self.store_database(&txn, &entry, &database).await?;
            }
            let entry = role.entry.ok_or_else(|| SqlError::internal("a role without an entry"))?;
            let entry = self.role_entry(&txn, entry, &role.name)?;
            self.settle_ddl(|| txn.drop_object(&entry)).await?;
        }
        Ok(())
    }

    async fn change_memberships(
        &mut self,
        is_grant: bool,
        roles: &[Spec],
        members: &[Spec],
        admin: bool,
        granted_by: Option<&Spec>,
    ) -> Result<(), SqlError> {
        let txn = self.ddl_transaction(if is_grant { "GRANT ROLE" } else { "REVOKE ROLE" })?;
        self.change_memberships_in(&txn, is_grant, roles, members, admin, granted_by).await
    }

    async fn change_memberships_in(
        &mut self,
        txn: &Transaction,
        is_grant: bool,
        roles: &[Spec],
        members: &[Spec],
        admin: bool,
        granted_by: Option<&Spec>,
    ) -> Result<(), SqlError> {
        let rights = self.db.rights(Some(txn))?;
        let grantor = match granted_by {
            Some(spec) => self.role_of(&rights, spec)?,
            None => self.role(),
        };
        let members = members.iter().map(|spec| self.role_of(&rights, spec)).collect::<Result<Vec<_>, _>>()?;
        for spec in roles {
            let group = self.role_of(&rights, spec)?;
            let name = rights.name(group);
            if rights.is_superuser(group) {
                if !self.is_superuser_now(&rights) {
                    return Err(denied("must be superuser to alter superusers"));
                }
            } else if !self.may_create_roles(&rights) && !rights.is_admin_of(self.role(), group) {
                return Err(denied(&format!("must have admin option on role \"{name}\"")));
            }
            if group == PG_DATABASE_OWNER {
                return Err(SqlError::new("XX000", format!("role \"{name}\" cannot have explicit members")));
            }
            if grantor != self.role() && !self.is_superuser_now(&rights) {
                return Err(denied("must be superuser to set grantor"));
            }
            for &member in &members {
                if is_grant {
                    self.add_member(txn, group, member, grantor, admin).await?;
                } else {
                    self.remove_member(txn, group, member, admin).await?;
                }
            }
        }
        Ok(())
    }

    async fn add_member(
        &mut self,
        txn: &Transaction,
        group: u32,
        member: u32,
        grantor: u32,
        admin: bool,
    ) -> Result<(), SqlError> {
        self.keep_role(txn, group).await?;
        let mut role = self.locked_role(txn, member).await?;
        let rights = self.db.rights(Some(txn))?;
        let (of, who) = (rights.name(group), rights.name(member));
        if member == PG_DATABASE_OWNER {
            let text = format!("role \"{who}\" cannot be a member of any role");
            return Err(SqlError::unsupported(text));
        }
        // Nobody is a member of himself, not by way of others either.
        if rights.is_listed_member_of(group, member) {
            return Err(SqlError::new("0LP01", format!("role \"{of}\" is a member of role \"{who}\"")));
        }
        match role.member_of.iter_mut().find(|to| to.role == group) {
            Some(known) if !admin || known.admin => {
                let text = format!("role \"{who}\" is already a member of role \"{of}\"");
                self.notice(SqlError::notice("NOTICE", "00000", text));
                return Ok(());
            }
            Some(known) => (known.admin, known.grantor) = (true, grantor),
            None => role.member_of.push(Membership { role: group, grantor, admin }),
        }
        if role.is_reserved() {
            // They have no entry; so what they are members of is the system's.
            return Err(SqlError::unsupported(format!("making the predefined role \"{who}\" a member of others")));
        }
        self.store_role(txn, &role).await
    }

    async fn remove_member(
        &mut self,
        txn: &Transaction,
        group: u32,
        member: u32,
        only_admin: bool,
    ) -> Result<(), SqlError> {
        let mut role = self.locked_role(txn, member).await?;
        let Some(at) = role.member_of.iter().position(|to| to.role == group) else {
            let rights = self.db.rights(Some(txn))?;
            let text = format!("role \"{}\" is not a member of role \"{}\"", rights.name(member), rights.name(group));
            self.notice(SqlError::notice("WARNING", "01000", text));
            return Ok(());
        };
        if only_admin {
            role.member_of[at].admin = false;
        } else {
            role.member_of.remove(at);
        }
        self.store_role(txn, &role).await
    }

    /// Puts a change into a list of settings.
    fn changed_settings(&self, settings: &mut Vec<(String, String)>, change: &SettingChange) -> Result<(), SqlError> {
        let (name, value) = match change {
            SettingChange::ResetAll => {
                // What a superuser has put there stays.
                let variables = self.shared.variables.lock();
                settings.retain(|(name, _)| variables.may_set(name).is_err());
                return Ok(());
            }
            SettingChange::Set(name, value) => (name.as_str(), value.clone()),
            SettingChange::FromCurrent(name) => (name.as_str(), Some(self.shared.show(name)?)),
        };
        let spelled = crate::session::settings::Variables::spelling(name);
        let variables = self.shared.variables.lock();
        let value = match value {
            Some(value) => {
                variables.checked(name, &value)?;
                Some(value)
            }
            None => {
                variables.checked_name(name)?;
                None
            }
        };
        settings.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        settings.extend(value.map(|value| (spelled, value)));
        Ok(())
    }

    async fn alter_role_setting(
        &mut self,
        spec: Option<&Spec>,
        database: Option<&str>,
        change: &SettingChange,
    ) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("ALTER ROLE")?;
        let rights = self.db.rights(Some(&txn))?;
        let oid = match spec {
            Some(spec) => {
                if let Spec::Name(name) = spec {
                    refuse_reserved(name)?;
                }
                let oid = self.role_of(&rights, spec)?;
                if rights.is_superuser(oid) {
                    if !self.is_superuser_now(&rights) {
                        return Err(denied("must be superuser to alter superusers"));
                    }
                } else if !self.may_create_roles(&rights) && oid != self.role() {
                    return Err(denied("permission denied"));
                }
                oid
            }
            None => 0,
        };
        if oid == 0 && database.is_none() && !self.is_superuser_now(&rights) {
            return Err(denied("must be superuser to alter settings globally"));
        }
        let Some(database) = database else {
            if oid == 0 {
                let first = rights.database_by_oid(resurgam_engine::FIRST_DATABASE);
                let first = first.map(|first| first.name.clone()).unwrap_or_default();
                return self.change_database_settings(&txn, &first, EVERYBODY, change).await;
            }
            let mut role = self.locked_role(&txn, oid).await?;
            self.changed_settings(&mut role.settings, change)?;
            return self.store_role(&txn, &role).await;
        };
        let known = rights.database_named(database)?;
        if oid == 0 {
            self.must_own_database(&rights, known)?;
        }
        self.change_database_settings(&txn, database, oid, change).await
    }

    async fn alter_database_setting(&mut self, database: &str, change: &SettingChange) -> Result<(), SqlError> {
        let txn = self.ddl_transaction("ALTER DATABASE")?;
        let rights = self.db.rights(Some(&txn))?;
        self.must_own_database(&rights, rights.database_named(database)?)?;
        self.change_database_settings(&txn, database, 0, change).await
    }

    async fn change_database_settings(
        &mut self,
        txn: &Transaction,
        name: &str,
        role: u32,
        change: &SettingChange,
    ) -> Result<(), SqlError> {
        let (entry, mut database) = self.locked_database(txn, name).await?;
        let (own, others): (Vec<_>, Vec<_>) = database.settings.into_iter().partition(|setting| setting.role == role);
        let mut own: Vec<(String, String)> = own.into_iter().map(|setting| (setting.name, setting.value)).collect();
        self.changed_settings(&mut own, change)?;
        database.settings = others;
        database.settings.extend(own.into_iter().map(|(name, value)| DatabaseSetting { role, name, value }));
        self.store_database(txn, &entry, &database).await
    }
}

fn refuse_reserved_with(name: &str, detail: &str) -> Result<(), SqlError> {
    if name.starts_with("pg_") {
        return Err(SqlError::new("42939", format!("role name \"{name}\" is reserved")).with_detail(detail));
    }
    Ok(())
}

fn refuse_reserved(name: &str) -> Result<(), SqlError> {
    refuse_reserved_with(name, "Cannot alter reserved roles.")
}
