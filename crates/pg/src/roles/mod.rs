//! Roles and what they may do, as a transaction sees them at one moment.
//!
//! | file | concept |
//! |---|---|
//! | `role` | a role, and its stored form |
//! | `acl` | lists of rights: what they allow, GRANT and REVOKE, their text |
//! | `databases` | the databases of the server, and their stored form |
//! | `settings` | default privileges, and their stored form |
//!
//! Roles, databases and default privileges are objects of the catalog ([`resurgam_engine::CatalogObject`]); owners and
//! lists of rights stand in the definition of what they are about ([`resurgam_engine::Access`]). The first role and the
//! predefined ones have no entry; once the first has been changed, it has.

pub mod acl;
mod codec;
mod databases;
mod role;
mod settings;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use resurgam_engine::{Access, CommentOn, ObjectKind, Table};

pub use acl::of_system_relation;
pub use databases::{
    DatabaseSetting, EVERYBODY, FIRST_DATABASE_NAME, ServerDatabase, TEMPLATE0, TEMPLATE1, no_database,
};
pub use role::{Membership, Role};
pub use settings::DefaultPrivileges;

use crate::wire::SqlError;

/// Name of the role that there is from the start.
pub const FIRST_NAME: &str = "postgres";
pub use resurgam_engine::FIRST_ROLE;

pub const PG_DATABASE_OWNER: u32 = 6171;
pub const PG_READ_ALL_DATA: u32 = 6181;
pub const PG_WRITE_ALL_DATA: u32 = 6182;
pub const PG_READ_ALL_SETTINGS: u32 = 3374;
pub const PG_READ_ALL_STATS: u32 = 3375;
pub const PG_SIGNAL_BACKEND: u32 = 4200;
pub const PG_CHECKPOINT: u32 = 4544;
pub const PG_MONITOR: u32 = 3373;
const PG_STAT_SCAN_TABLES: u32 = 3377;

/// The roles of the system, by PostgreSQL 15's oids.
const PREDEFINED: [(u32, &str); 12] = [
    (PG_DATABASE_OWNER, "pg_database_owner"),
    (PG_READ_ALL_DATA, "pg_read_all_data"),
    (PG_WRITE_ALL_DATA, "pg_write_all_data"),
    (PG_MONITOR, "pg_monitor"),
    (PG_READ_ALL_SETTINGS, "pg_read_all_settings"),
    (PG_READ_ALL_STATS, "pg_read_all_stats"),
    (PG_STAT_SCAN_TABLES, "pg_stat_scan_tables"),
    (4569, "pg_read_server_files"),
    (4570, "pg_write_server_files"),
    (4571, "pg_execute_server_program"),
    (PG_SIGNAL_BACKEND, "pg_signal_backend"),
    (PG_CHECKPOINT, "pg_checkpoint"),
];

/// See the module's head.
#[derive(Clone, Debug)]
pub struct Rights {
    roles: BTreeMap<u32, Role>,
    names: HashMap<String, u32>,
    /// Of the session's database.
    pub database: Access,
    /// All of the server, by oid.
    pub databases: Vec<ServerDatabase>,
    /// Of schemas that have been given some, by name.
    schemas: HashMap<String, Access>,
    pub defaults: Vec<DefaultPrivileges>,
}

/// `42704`
pub fn no_role(name: &str) -> SqlError {
    SqlError::new("42704", format!("role \"{name}\" does not exist"))
}

impl Rights {
    /// Those of a database of which nobody has said anything.
    pub fn first() -> Self {
        let mut out = Self {
            roles: BTreeMap::new(),
            names: HashMap::new(),
            database: Access::FIRST,
            databases: Vec::new(),
            schemas: HashMap::new(),
            defaults: Vec::new(),
        };
        out.add(Role {
            superuser: true,
            create_role: true,
            create_db: true,
            login: true,
            replication: true,
            bypass_rls: true,
            ..Role::new(FIRST_ROLE, FIRST_NAME)
        });
        for database in ServerDatabase::first_ones() {
            out.add_database(database);
        }
        for (oid, name) in PREDEFINED {
            out.add(Role::new(oid, name));
        }
        if let Some(monitor) = out.roles.get_mut(&PG_MONITOR) {
            let of = [PG_READ_ALL_SETTINGS, PG_READ_ALL_STATS, PG_STAT_SCAN_TABLES];
            monitor.member_of = of.map(|role| Membership { role, grantor: FIRST_ROLE, admin: false }).to_vec();
        }
        out.schemas.insert("public".to_owned(), acl::of_public_schema());
        out
    }

    /// Those that count in a database, of the objects that it sees; what is no role and no rights is passed over.
    ///
    /// # Errors
    /// `XX001`
    pub fn load<'t>(objects: impl IntoIterator<Item = &'t Arc<Table>>, database: u32) -> Result<Self, SqlError> {
        let mut out = Self::first();
        for entry in objects {
            let Some(object) = &entry.object else { continue };
            let access = entry.access.as_deref();
            match object.kind {
                ObjectKind::ROLE => {
                    let comment = entry.comments.iter().find(|(on, _)| *on == CommentOn::Relation);
                    let comment = comment.map(|(_, text)| text.clone());
                    out.add(Role { comment, ..Role::decode(entry.id, &entry.name, &object.body)? });
                }
                ObjectKind::DATABASE => out.add_database(ServerDatabase::of_entry(entry)?),
                ObjectKind::DEFAULT_PRIVILEGES => {
                    out.defaults.push(DefaultPrivileges::decode(entry.id, &object.body)?);
                }
                ObjectKind::SCHEMA => {
                    let access = access.cloned();
                    if entry.name != "public" || access.is_some() {
                        out.schemas.insert(entry.name.clone(), access.unwrap_or(Access::FIRST));
                    }
                }
                _ => {}
            }
        }
        // The owner of the database is what the role of its owner stands for.
        out.database = out.database_by_oid(database).map_or(Access::FIRST, |database| database.access.clone());
        Ok(out)
    }

    /// Adds a database, or puts it in the place of the one with its oid.
    fn add_database(&mut self, database: ServerDatabase) {
        match self.databases.binary_search_by_key(&database.oid, |known| known.oid) {
            Ok(at) => self.databases[at] = database,
            Err(at) => self.databases.insert(at, database),
        }
    }

    /// The database with that oid.
    pub fn database_by_oid(&self, oid: u32) -> Option<&ServerDatabase> {
        let at = self.databases.binary_search_by_key(&oid, |known| known.oid).ok()?;
        self.databases.get(at)
    }

    /// What all roles have in all databases.
    pub fn settings_everywhere(&self) -> impl Iterator<Item = &DatabaseSetting> {
        let first = self.database_by_oid(resurgam_engine::FIRST_DATABASE).into_iter();
        first.flat_map(|first| &first.settings).filter(|setting| setting.role == EVERYBODY)
    }

    /// The database of that name.
    ///
    /// # Errors
    /// `3D000`
    pub fn database_named(&self, name: &str) -> Result<&ServerDatabase, SqlError> {
        self.databases.iter().find(|known| known.name == name).ok_or_else(|| no_database(name))
    }

    /// Adds a role, or puts it in the place of the one with its oid.
    pub fn add(&mut self, role: Role) {
        if let Some(before) = self.roles.get(&role.oid) {
            self.names.remove(&before.name);
        }
        self.names.insert(role.name.clone(), role.oid);
        self.roles.insert(role.oid, role);
    }

    /// The role with that oid.
    pub fn get(&self, oid: u32) -> Option<&Role> {
        self.roles.get(&oid)
    }

    /// The role of that name.
    ///
    /// # Errors
    /// `42704`
    pub fn named(&self, name: &str) -> Result<&Role, SqlError> {
        self.find(name).ok_or_else(|| no_role(name))
    }

    /// The role of that name, if there is one.
    pub fn find(&self, name: &str) -> Option<&Role> {
        self.names.get(name).and_then(|oid| self.roles.get(oid))
    }

    /// A role's name, as `pg_get_userbyid` gives it.
    pub fn name(&self, oid: u32) -> String {
        self.get(oid).map_or_else(|| format!("unknown (OID={oid})"), |role| role.name.clone())
    }

    /// All roles, by oid.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    pub fn is_superuser(&self, role: u32) -> bool {
        self.get(role).is_some_and(|role| role.superuser)
    }

    /// The roles that a role is a member of, itself among them; `inherited`: those whose rights it has.
    fn roles_of(&self, role: u32, inherited: bool) -> BTreeSet<u32> {
        let mut all = BTreeSet::from([role]);
        let mut next = vec![role];
        while let Some(oid) = next.pop() {
            let Some(role) = self.get(oid).filter(|role| role.inherit || !inherited) else { continue };
            for membership in &role.member_of {
                if all.insert(membership.role) {
                    next.push(membership.role);
                }
            }
            if oid == self.database.owner && all.insert(PG_DATABASE_OWNER) {
                next.push(PG_DATABASE_OWNER);
            }
        }
        all
    }

    /// The roles whose rights a role has, itself among them. That a superuser has all is not in it.
    pub fn with_rights_of(&self, role: u32) -> BTreeSet<u32> {
        self.roles_of(role, true)
    }

    /// Whether it has the rights of the other (`has_privs_of_role`).
    pub fn has_rights_of(&self, role: u32, of: u32) -> bool {
        role == of || self.is_superuser(role) || self.with_rights_of(role).contains(&of)
    }

    /// Whether it may become the other (`is_member_of_role`).
    pub fn is_member_of(&self, role: u32, of: u32) -> bool {
        role == of || self.is_superuser(role) || self.roles_of(role, false).contains(&of)
    }

    /// As [`Rights::is_member_of`], whatever a superuser may.
    pub fn is_listed_member_of(&self, role: u32, of: u32) -> bool {
        self.roles_of(role, false).contains(&of)
    }

    /// Whether it may make others members of a role (`is_admin_of_role`).
    pub fn is_admin_of(&self, role: u32, of: u32) -> bool {
        if self.is_superuser(role) {
            return true;
        }
        let member =
            |oid: &u32| self.get(*oid).is_some_and(|role| role.member_of.iter().any(|to| to.role == of && to.admin));
        self.roles_of(role, false).iter().any(member)
    }

    /// The members of a role: who, and how.
    pub fn members_of(&self, role: u32) -> impl Iterator<Item = (&Role, &Membership)> {
        self.roles.values().flat_map(move |member| {
            member.member_of.iter().filter(move |to| to.role == role).map(move |membership| (member, membership))
        })
    }

    /// Whether a role may look for names in a schema (USAGE).
    pub fn may_look_into(&self, role: u32, schema: &str) -> bool {
        self.allowed(role, &self.schema(schema), acl::Object::Schema, acl::privilege::USAGE) != 0
    }

    /// Whether there is a schema that a role may not look into.
    pub fn is_hidden(&self, role: u32, schema: &str) -> bool {
        self.schemas.contains_key(schema) && !self.may_look_into(role, schema)
    }

    /// Who owns a schema, and the rights to it.
    pub fn schema(&self, name: &str) -> Access {
        if let Some(access) = self.schemas.get(name) {
            return access.clone();
        }
        let everybody =
            resurgam_engine::Grant { grantee: 0, grantor: FIRST_ROLE, privileges: acl::privilege::USAGE, options: 0 };
        match name {
            "pg_catalog" | "information_schema" | "sys" => {
                let mut grants = acl::default_grants(acl::Object::Schema, FIRST_ROLE);
                grants.push(everybody);
                Access { grants: Some(grants), ..Access::FIRST }
            }
            _ => Access::FIRST,
        }
    }

    /// What a role may do with something that is no column, of `wanted`.
    pub fn allowed(&self, role: u32, access: &Access, object: acl::Object, wanted: u32) -> u32 {
        if self.is_superuser(role) {
            return wanted;
        }
        let mut allowed = acl::held(&acl::grants_of(access, object), access.owner, self, role).0;
        let has = |of: u32| self.with_rights_of(role).contains(&of);
        use acl::privilege as p;
        match object {
            acl::Object::Table | acl::Object::Sequence => {
                if wanted & p::SELECT & !allowed != 0 && has(PG_READ_ALL_DATA) {
                    allowed |= p::SELECT;
                }
                if wanted & (p::INSERT | p::UPDATE | p::DELETE) & !allowed != 0
                    && object == acl::Object::Table
                    && has(PG_WRITE_ALL_DATA)
                {
                    allowed |= p::INSERT | p::UPDATE | p::DELETE;
                }
            }
            acl::Object::Schema
                if wanted & p::USAGE & !allowed != 0 && (has(PG_READ_ALL_DATA) || has(PG_WRITE_ALL_DATA)) =>
            {
                allowed |= p::USAGE;
            }
            _ => {}
        }
        allowed & wanted
    }

    /// What a role may give on.
    pub fn options(&self, role: u32, access: &Access, object: acl::Object) -> u32 {
        if self.is_superuser(role) {
            return u32::MAX;
        }
        acl::held(&acl::grants_of(access, object), access.owner, self, role).1
    }

    /// What of `wanted` a role may do with a column by rights to that column alone.
    pub fn allowed_column(&self, role: u32, access: &Access, column: usize, wanted: u32) -> u32 {
        acl::held(access.column(column), access.owner, self, role).0 & wanted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memberships() {
        let mut rights = Rights::first();
        let of = |role, admin| Membership { role, grantor: 10, admin };
        rights.add(Role { member_of: vec![of(101, true)], ..Role::new(100, "a") });
        rights.add(Role { member_of: vec![of(102, false)], inherit: false, ..Role::new(101, "b") });
        rights.add(Role::new(102, "c"));
        assert!(rights.has_rights_of(100, 101) && !rights.has_rights_of(100, 102));
        assert!(rights.is_member_of(100, 102) && !rights.is_member_of(102, 100));
        assert!(rights.is_admin_of(100, 101) && !rights.is_admin_of(101, 102));
        assert!(rights.has_rights_of(10, 102) && !rights.is_listed_member_of(10, 102));
        assert_eq!(rights.members_of(101).map(|(role, _)| role.name.as_str()).collect::<Vec<_>>(), ["a"]);
        // Who owns the database has the rights of its owner.
        assert!(!rights.has_rights_of(100, PG_DATABASE_OWNER));
        rights.database.owner = 100;
        assert!(rights.has_rights_of(100, PG_DATABASE_OWNER));
        assert_eq!(rights.named("pg_monitor").unwrap().member_of.len(), 3);
        assert_eq!(rights.named("x").unwrap_err().sqlstate, "42704");
    }

    #[test]
    fn schema_public_is_for_use_alone() {
        let rights = Rights::first();
        use acl::privilege as p;
        let may =
            |role, schema: &str, what| rights.allowed(role, &rights.schema(schema), acl::Object::Schema, what) == what;
        assert!(may(100, "public", p::USAGE) && !may(100, "public", p::CREATE) && may(10, "public", p::CREATE));
        assert!(may(100, "pg_catalog", p::USAGE) && !may(100, "other", p::USAGE));
    }
}
