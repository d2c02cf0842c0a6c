//! A role, and how the catalog keeps it.
//!
//! ```text
//! body u8 = 1 | oid u32 (0 = made of the entry's id) | flags u16 | connection limit i32 |
//! valid until i64 (us since 1970; i64::MAX = for ever) | [password] text |
//! memberships u16, each: role u32, grantor u32, admin u8 | settings u16, each: name, value
//! flags    1 superuser, 2 INHERIT, 4 CREATEROLE, 8 CREATEDB, 16 LOGIN, 32 REPLICATION, 64 BYPASSRLS, 128 has a password,
//!          256 the password has an end
//! ```

use super::codec::{Body, put_text};
use crate::wire::SqlError;

/// That a role is a member of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    pub role: u32,
    pub grantor: u32,
    /// The member may make others members.
    pub admin: bool,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    pub oid: u32,
    pub name: String,
    /// Id of its entry in the catalog; `None`: it has none yet, or is the system's.
    pub entry: Option<u32>,
    pub superuser: bool,
    pub inherit: bool,
    pub create_role: bool,
    pub create_db: bool,
    pub login: bool,
    pub replication: bool,
    pub bypass_rls: bool,
    /// -1: as many as the server takes.
    pub connection_limit: i32,
    /// A SCRAM-SHA-256 verifier.
    pub password: Option<String>,
    /// Of the password, microseconds since 1970; `i64::MAX` is infinity.
    pub valid_until: Option<i64>,
    pub member_of: Vec<Membership>,
    /// What its sessions begin with, by name.
    pub settings: Vec<(String, String)>,
    /// Kept beside the stored form.
    pub comment: Option<String>,
}

impl Role {
    /// A role that may do nothing.
    pub fn new(oid: u32, name: &str) -> Self {
        Self {
            oid,
            name: name.to_owned(),
            entry: None,
            superuser: false,
            inherit: true,
            create_role: false,
            create_db: false,
            login: false,
            replication: false,
            bypass_rls: false,
            connection_limit: -1,
            password: None,
            valid_until: None,
            member_of: Vec::new(),
            settings: Vec::new(),
            comment: None,
        }
    }

    /// Whether it has been made, and can be changed, by a user.
    pub fn is_reserved(&self) -> bool {
        self.name.starts_with("pg_")
    }

    /// Its stored form; `fixed`: its oid is not its entry's id.
    pub fn encode(&self, fixed: bool) -> Vec<u8> {
        let flags = [
            self.superuser,
            self.inherit,
            self.create_role,
            self.create_db,
            self.login,
            self.replication,
            self.bypass_rls,
            self.password.is_some(),
            self.valid_until.is_some(),
        ];
        let flags = flags.iter().enumerate().fold(0u16, |all, (at, on)| all | u16::from(*on) << at);
        let mut out = vec![1];
        out.extend_from_slice(&(if fixed { self.oid } else { 0 }).to_le_bytes());
        out.extend_from_slice(&flags.to_le_bytes());
        out.extend_from_slice(&self.connection_limit.to_le_bytes());
        out.extend_from_slice(&self.valid_until.unwrap_or(0).to_le_bytes());
        if let Some(password) = &self.password {
            put_text(&mut out, password);
        }
        out.extend_from_slice(&(self.member_of.len() as u16).to_le_bytes());
        for member in &self.member_of {
            out.extend_from_slice(&member.role.to_le_bytes());
            out.extend_from_slice(&member.grantor.to_le_bytes());
            out.push(u8::from(member.admin));
        }
        out.extend_from_slice(&(self.settings.len() as u16).to_le_bytes());
        for (name, value) in &self.settings {
            put_text(&mut out, name);
            put_text(&mut out, value);
        }
        out
    }

    /// Reads what [`Role::encode`] wrote, of the entry with that id and name.
    ///
    /// # Errors
    /// `XX001`
    pub fn decode(entry: u32, name: &str, body: &[u8]) -> Result<Self, SqlError> {
        let mut body = Body(body);
        if body.u8()? != 1 {
            return Err(Body::bad());
        }
        let oid = match body.u32()? {
            0 => crate::catalog::relation_oid(entry),
            fixed => fixed,
        };
        let flags = body.u16()?;
        let on = |bit: u16| flags & bit != 0;
        let mut role = Self {
            entry: Some(entry),
            superuser: on(1),
            inherit: on(2),
            create_role: on(4),
            create_db: on(8),
            login: on(16),
            replication: on(32),
            bypass_rls: on(64),
            connection_limit: body.i32()?,
            ..Self::new(oid, name)
        };
        let until = body.i64()?;
        role.valid_until = on(256).then_some(until);
        role.password = if on(128) { Some(body.text()?) } else { None };
        for _ in 0..body.u16()? {
            role.member_of.push(Membership { role: body.u32()?, grantor: body.u32()?, admin: body.u8()? != 0 });
        }
        for _ in 0..body.u16()? {
            role.settings.push((body.text()?, body.text()?));
        }
        body.end()?;
        Ok(role)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_come_back_whole_or_not_at_all() {
        let role = Role {
            superuser: true,
            login: true,
            connection_limit: 7,
            password: Some("SCRAM-SHA-256$…".into()),
            valid_until: Some(-5),
            member_of: vec![Membership { role: 3, grantor: 10, admin: true }],
            settings: vec![("work_mem".into(), "1MB".into())],
            entry: Some(16),
            ..Role::new(16_400, "anna")
        };
        let body = role.encode(false);
        assert_eq!(Role::decode(16, "anna", &body).expect("a role"), role);
        for len in 0..body.len() {
            assert!(Role::decode(16, "anna", &body[..len]).is_err(), "{len} bytes of {}", body.len());
        }
        let first = Role { entry: Some(16), ..Role::new(10, "postgres") };
        assert_eq!(Role::decode(16, "postgres", &first.encode(true)).expect("a role").oid, 10);
    }
}
