//! The databases of a server: who they are of, who may connect, and what their sessions begin with.
//!
//! Each is an object of the catalog; those that there are from the start have none as long as nobody has changed them. The
//! first one keeps its oid when it has one, and with it what was stored before there were others.
//!
//! ```text
//! 1 | settings                                                            of the first database, nothing else changed
//! 2 | oid u32 (0 = that of the entry, relation_oid) | connection limit i32 | flags u8 | settings
//! settings   count u16, each: role u32 (0 = all; of the first database u32::MAX = all in all databases), name, value
//! flags      1 nobody can connect, 2 it is a template
//! ```

use resurgam_engine::{Access, CommentOn, FIRST_DATABASE, FIRST_ROLE, Grant, Table};

use crate::catalog::relation_oid;

use super::acl::{self, Object, privilege as p};
use super::codec::{Body, put_text};
use crate::wire::SqlError;

/// The name of the database that there is from the start.
pub const FIRST_DATABASE_NAME: &str = "postgres";
/// PostgreSQL's oids of its templates.
pub const TEMPLATE1: u32 = 1;
pub const TEMPLATE0: u32 = 4;

/// In the first database's settings: what all roles have in all databases.
pub const EVERYBODY: u32 = u32::MAX;

/// A setting of a database, or of a role in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseSetting {
    /// 0: all; [`EVERYBODY`]: all, in all databases.
    pub role: u32,
    pub name: String,
    pub value: String,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerDatabase {
    pub oid: u32,
    /// Id of its entry, if it has one.
    pub entry: Option<u32>,
    pub name: String,
    pub access: Access,
    pub comment: Option<String>,
    pub settings: Vec<DatabaseSetting>,
    /// Sessions that it may have; -1: any number.
    pub connection_limit: i32,
    pub allows_connections: bool,
    pub is_template: bool,
}

impl ServerDatabase {
    /// One that nobody has said anything about.
    pub fn new(oid: u32, name: &str) -> Self {
        Self {
            oid,
            entry: None,
            name: name.to_owned(),
            access: Access::FIRST,
            comment: None,
            settings: Vec::new(),
            connection_limit: -1,
            allows_connections: true,
            is_template: false,
        }
    }

    /// Those that there are from the start.
    pub(super) fn first_ones() -> [Self; 3] {
        let mut grants = acl::default_grants(Object::Database, FIRST_ROLE);
        grants.retain(|grant| grant.grantee != 0);
        grants.insert(0, Grant { grantee: 0, grantor: FIRST_ROLE, privileges: p::CONNECT, options: 0 });
        let template = |oid, name, comment: &str| Self {
            access: Access { grants: Some(grants.clone()), ..Access::FIRST },
            comment: Some(comment.to_owned()),
            is_template: true,
            ..Self::new(oid, name)
        };
        let first = Self::new(FIRST_DATABASE, FIRST_DATABASE_NAME);
        [
            Self { comment: Some("default administrative connection database".to_owned()), ..first },
            template(TEMPLATE1, "template1", "default template for new databases"),
            Self { allows_connections: false, ..template(TEMPLATE0, "template0", "unmodifiable empty database") },
        ]
    }

    /// Stored form of everything but name, access and comment.
    pub fn encode(&self) -> Vec<u8> {
        let is_plain = self.oid == FIRST_DATABASE
            && self.name == FIRST_DATABASE_NAME
            && (self.connection_limit, self.allows_connections, self.is_template) == (-1, true, false);
        let mut out = vec![1];
        if !is_plain {
            out[0] = 2;
            let is_of_entry = self.entry.is_some_and(|entry| relation_oid(entry) == self.oid);
            let fixed = if is_of_entry { 0 } else { self.oid };
            out.extend_from_slice(&fixed.to_le_bytes());
            out.extend_from_slice(&self.connection_limit.to_le_bytes());
            out.push(u8::from(!self.allows_connections) | u8::from(self.is_template) << 1);
        }
        out.extend_from_slice(&(self.settings.len() as u16).to_le_bytes());
        for setting in &self.settings {
            out.extend_from_slice(&setting.role.to_le_bytes());
            put_text(&mut out, &setting.name);
            put_text(&mut out, &setting.value);
        }
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// `XX001`
    pub fn of_entry(entry: &Table) -> Result<Self, SqlError> {
        let body = entry.object.as_ref().map_or(&[][..], |object| object.body.as_slice());
        let comment = entry.comments.iter().find(|(on, _)| *on == CommentOn::Relation).map(|(_, text)| text.clone());
        let access = entry.access.as_deref().cloned();
        Self::decode(entry.id, &entry.name, body, access, comment)
    }

    fn decode(
        entry: u32,
        name: &str,
        body: &[u8],
        access: Option<Access>,
        comment: Option<String>,
    ) -> Result<Self, SqlError> {
        let mut body = Body(body);
        let mut out = match body.u8()? {
            1 => Self::new(FIRST_DATABASE, name),
            2 => {
                let oid = match body.u32()? {
                    0 => relation_oid(entry),
                    oid => oid,
                };
                let connection_limit = body.u32()? as i32;
                let flags = body.u8()?;
                Self {
                    connection_limit,
                    allows_connections: flags & 1 == 0,
                    is_template: flags & 2 != 0,
                    ..Self::new(oid, name)
                }
            }
            _ => return Err(Body::bad()),
        };
        let count = body.u16()?;
        out.settings = (0..count)
            .map(|_| Ok(DatabaseSetting { role: body.u32()?, name: body.text()?, value: body.text()? }))
            .collect::<Result<_, SqlError>>()?;
        body.end()?;
        let first = Self::first_ones().into_iter().find(|first| first.oid == out.oid);
        out.entry = Some(entry);
        out.access = access.or_else(|| first.as_ref().map(|first| first.access.clone())).unwrap_or(Access::FIRST);
        out.comment = comment.or_else(|| first.and_then(|first| first.comment));
        Ok(out)
    }
}

/// `3D000`
pub fn no_database(name: &str) -> SqlError {
    SqlError::new("3D000", format!("database \"{name}\" does not exist"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_back_whole_or_not_at_all() {
        let settings = vec![DatabaseSetting { role: 7, name: "work_mem".into(), value: "1MB".into() }];
        let first = ServerDatabase { settings: settings.clone(), ..ServerDatabase::new(FIRST_DATABASE, "postgres") };
        // The form from before there were others.
        assert_eq!(first.encode()[..3], [1, 1, 0]);
        let other = ServerDatabase {
            settings,
            connection_limit: 7,
            allows_connections: false,
            is_template: true,
            entry: Some(20_000),
            ..ServerDatabase::new(relation_oid(20_000), "other")
        };
        let renamed = ServerDatabase { name: "other".into(), ..first.clone() };
        for (entry, database) in [(17_000, first), (20_000, other), (17_000, renamed)] {
            let body = database.encode();
            let read = |body: &[u8]| ServerDatabase::decode(entry, &database.name, body, None, None);
            let expected = ServerDatabase { entry: Some(entry), comment: None, ..database.clone() };
            let found = ServerDatabase { comment: None, ..read(&body).unwrap() };
            assert_eq!(found, expected);
            for len in 0..body.len() {
                assert!(read(&body[..len]).is_err());
            }
        }
    }
}
