//! Who may log in, and what a session begins with.

use std::sync::Weak;
use std::sync::atomic::Ordering;

use crate::pg::datetime::now;
use crate::pg::roles::Rights;
use crate::pg::roles::acl::{Object, privilege};
use crate::session::database::SqlDatabase;
use crate::wire::SqlError;

/// A role that somebody wants to log in as.
#[derive(Clone, Debug)]
pub struct Login {
    pub role: u32,
    pub is_superuser: bool,
    /// A SCRAM-SHA-256 verifier, unless its time is over.
    pub verifier: Option<String>,
    /// There was one, and its time is over.
    pub is_expired: bool,
    can_login: bool,
    connection_limit: i32,
    /// Every role that it is a member of, itself among them.
    groups: Vec<String>,
    /// What its session begins with, the weakest first.
    pub settings: Vec<(String, String)>,
}

/// Why somebody who has proved who he is cannot log in.
#[derive(Clone, Debug)]
pub struct LoginRefused(pub SqlError);

impl Login {
    fn of(rights: &Rights, name: &str, database: u32) -> Option<Self> {
        let role = rights.find(name)?;
        let settings_here = rights.database_by_oid(database).map_or(&[][..], |database| &database.settings);
        let is_expired = role.password.is_some() && role.valid_until.is_some_and(|until| until < now());
        let here = |of: u32| settings_here.iter().filter(move |setting| setting.role == of);
        let everywhere = rights.settings_everywhere();
        let pair = |setting: &crate::pg::roles::DatabaseSetting| (setting.name.clone(), setting.value.clone());
        let settings = everywhere
            .map(pair)
            .chain(here(0).map(pair))
            .chain(role.settings.iter().cloned())
            .chain(here(role.oid).map(pair));
        let groups = rights.roles().filter(|group| rights.is_listed_member_of(role.oid, group.oid));
        Some(Self {
            role: role.oid,
            is_superuser: role.superuser,
            verifier: role.password.clone().filter(|_| !is_expired),
            is_expired,
            can_login: role.login,
            connection_limit: role.connection_limit,
            groups: groups.map(|group| group.name.clone()).collect(),
            settings: settings.collect(),
        })
    }

    /// Whether it is a member of a role, itself among them; a superuser of those only that name him.
    pub fn is_member_of(&self, role: &str) -> bool {
        self.groups.iter().any(|group| group == role)
    }
}

impl SqlDatabase {
    /// The role of that name, as it is committed; `None`: there is none.
    ///
    /// # Errors
    /// Those of reading the catalog.
    pub fn login(&self, name: &str) -> Result<Option<Login>, SqlError> {
        let rights = self.rights(None)?;
        Ok(Login::of(&rights, name, self.oid()))
    }

    /// Whether a role, which has proved who it is, may begin a session in a database.
    ///
    /// # Errors
    /// `28000`, `3D000`, `42501`, `53300`, `55000`
    pub fn check_login(&self, name: &str, login: Option<&Login>, database: &str) -> Result<(), LoginRefused> {
        let Some(login) = login else {
            return Err(LoginRefused(SqlError::new("28000", format!("role \"{name}\" does not exist"))));
        };
        if !login.can_login {
            let error = SqlError::new("28000", format!("role \"{name}\" is not permitted to log in"));
            return Err(LoginRefused(error));
        }
        if login.connection_limit >= 0 && !login.is_superuser {
            let sessions = self.sessions.lock();
            let of_role = sessions.values().filter_map(Weak::upgrade).filter(|session| session.login == login.role);
            if of_role.count() >= usize::try_from(login.connection_limit).unwrap_or(usize::MAX) {
                let error = SqlError::new("53300", format!("too many connections for role \"{name}\""));
                return Err(LoginRefused(error));
            }
        }
        let rights = self.rights(None).map_err(LoginRefused)?;
        let database = rights.database_named(database).map_err(LoginRefused)?;
        let name = &database.name;
        // Who owns that one is a member of pg_database_owner, not who owns this.
        let there = self.beside(database.oid).rights(None).map_err(LoginRefused)?;
        if !database.allows_connections {
            let error = SqlError::new("55000", format!("database \"{name}\" is not currently accepting connections"));
            return Err(LoginRefused(error));
        }
        if there.allowed(login.role, &database.access, Object::Database, privilege::CONNECT) == 0 {
            let error = SqlError::new("42501", format!("permission denied for database \"{name}\""))
                .with_detail("User does not have CONNECT privilege.");
            return Err(LoginRefused(error));
        }
        if database.connection_limit >= 0 && !login.is_superuser {
            let sessions = self.sessions.lock();
            let here =
                sessions.values().filter_map(Weak::upgrade).filter(|session| session.database_oid == database.oid);
            if here.count() >= usize::try_from(database.connection_limit).unwrap_or(usize::MAX) {
                let error = SqlError::new("53300", format!("too many connections for database \"{name}\""));
                return Err(LoginRefused(error));
            }
        }
        Ok(())
    }

    /// Roles and rights that were read from the catalog, for the metrics.
    pub fn rights_loaded(&self) -> u64 {
        self.rights_loads.load(Ordering::Relaxed)
    }
}
