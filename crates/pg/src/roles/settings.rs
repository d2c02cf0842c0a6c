//! Rights that objects have from when they are made.
//!
//! ```text
//! default privileges   u8 = 1 | role u32 | schema (empty = all) | letter u8 | count u16, each: grantee, grantor,
//!                      privileges, options: u32 each
//! ```

use resurgam_engine::Grant;

use super::acl::Object;
use super::codec::{Body, put_text};
use crate::wire::SqlError;

/// Rights that the objects of a role have from when they are made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultPrivileges {
    /// Id of its entry.
    pub entry: u32,
    /// Who makes the objects.
    pub role: u32,
    /// Empty: in all. Otherwise they are beside those for all.
    pub schema: String,
    pub object: Object,
    pub grants: Vec<Grant>,
}

impl DefaultPrivileges {
    /// The name of its entry: one for each role, schema and kind of objects.
    pub fn key(&self) -> String {
        format!("{}/{}/{}", self.object.letter(), self.role, self.schema)
    }

    /// Its stored form.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![1];
        out.extend_from_slice(&self.role.to_le_bytes());
        put_text(&mut out, &self.schema);
        out.push(self.object.letter() as u8);
        out.extend_from_slice(&(self.grants.len() as u16).to_le_bytes());
        for grant in &self.grants {
            for number in [grant.grantee, grant.grantor, grant.privileges, grant.options] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        out
    }

    /// Reads what [`DefaultPrivileges::encode`] wrote.
    ///
    /// # Errors
    /// `XX001`
    pub fn decode(entry: u32, body: &[u8]) -> Result<Self, SqlError> {
        let mut body = Body(body);
        if body.u8()? != 1 {
            return Err(Body::bad());
        }
        let (role, schema) = (body.u32()?, body.text()?);
        let letter = char::from(body.u8()?).to_string();
        let object = Object::of_letter(&letter).ok_or_else(Body::bad)?;
        let count = body.u16()?;
        let grants = (0..count)
            .map(|_| {
                Ok(Grant { grantee: body.u32()?, grantor: body.u32()?, privileges: body.u32()?, options: body.u32()? })
            })
            .collect::<Result<_, SqlError>>()?;
        body.end()?;
        Ok(Self { entry, role, schema, object, grants })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_come_back_whole_or_not_at_all() {
        let grants = vec![Grant { grantee: 0, grantor: 10, privileges: 2, options: 0 }];
        let defaults =
            DefaultPrivileges { entry: 5, role: 10, schema: "public".into(), object: Object::Sequence, grants };
        let bytes = defaults.encode();
        assert_eq!(DefaultPrivileges::decode(5, &bytes).unwrap(), defaults);
        for len in 0..bytes.len() {
            assert!(DefaultPrivileges::decode(5, &bytes[..len]).is_err());
        }
    }
}
