//! Who owns an entry of the catalog, and who has been given what rights to it. What a right allows, and who is whom, is the
//! business of the layer above: here are numbers.
//!
//! ```text
//! part 6 of a definition    owner u32 | flags u8 (1 = rights are listed, 2 = a view that is read with its reader's rights,
//!                           4 = row security is on, 8 = for its owner, too)
//!                           [rights]: count u16, each: grantee u32 (0 = everybody), grantor u32, privileges u32,
//!                           grant options u32
//!                           columns count u16, each: position u16, rights
//! ```
//! Without the part an entry is the first user's, with the rights that its kind has by default.

use resurgam_base::Result;
use resurgam_page::codec::Reader;

/// The role that owns what nobody else does.
pub const FIRST_ROLE: u32 = 10;

/// Rights that one role has given to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// 0: everybody.
    pub grantee: u32,
    pub grantor: u32,
    /// One bit each.
    pub privileges: u32,
    /// Those of them that the grantee may give on.
    pub options: u32,
}

/// See the module's head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    pub owner: u32,
    /// `None`: those of its kind by default.
    pub grants: Option<Vec<Grant>>,
    /// Rights to single columns, by position.
    pub columns: Vec<(usize, Vec<Grant>)>,
    /// A view whose relations are read with the rights of whoever reads it.
    pub invoker: bool,
    /// A view whose conditions hold before others are evaluated that could tell of rows.
    pub barrier: bool,
    /// Policies say which rows of the table somebody sees and writes (ENABLE ROW LEVEL SECURITY).
    pub row_security: bool,
    /// They say so to its owner as well (FORCE ROW LEVEL SECURITY).
    pub forced: bool,
}

impl Access {
    /// That of an entry of which nobody has said anything.
    pub const FIRST: Self = Self {
        owner: FIRST_ROLE,
        grants: None,
        columns: Vec::new(),
        invoker: false,
        barrier: false,
        row_security: false,
        forced: false,
    };

    /// That of an owner, without a word about rights.
    pub fn of(owner: u32) -> Self {
        Self { owner, ..Self::FIRST }
    }

    /// The rights to a column that were given beside those to the whole.
    pub fn column(&self, at: usize) -> &[Grant] {
        self.columns.iter().find(|(column, _)| *column == at).map_or(&[], |(_, grants)| grants)
    }

    /// Everybody who is named.
    pub fn roles(&self) -> impl Iterator<Item = u32> + '_ {
        let all = self.grants.iter().flatten().chain(self.columns.iter().flat_map(|(_, grants)| grants));
        all.flat_map(|grant| [grant.grantee, grant.grantor]).chain([self.owner]).filter(|role| *role != 0)
    }

    /// A column goes: later ones move up.
    pub(crate) fn column_goes(&mut self, at: usize) {
        self.columns.retain(|(column, _)| *column != at);
        self.columns.iter_mut().for_each(|(column, _)| *column -= usize::from(*column > at));
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = self.owner.to_le_bytes().to_vec();
        out.push(
            u8::from(self.grants.is_some())
                | u8::from(self.invoker) << 1
                | u8::from(self.row_security) << 2
                | u8::from(self.forced) << 3
                | u8::from(self.barrier) << 4,
        );
        if let Some(grants) = &self.grants {
            put_grants(&mut out, grants);
        }
        out.extend_from_slice(&(self.columns.len() as u16).to_le_bytes());
        for (column, grants) in &self.columns {
            out.extend_from_slice(&(*column as u16).to_le_bytes());
            put_grants(&mut out, grants);
        }
        out
    }

    pub(crate) fn decode(r: &mut Reader<'_>) -> Result<Self> {
        let owner = r.u32()?;
        let flags = r.u8()?;
        if flags > 31 || owner == 0 {
            return Err(r.bad("rights of an unknown form"));
        }
        let grants = if flags & 1 != 0 { Some(read_grants(r)?) } else { None };
        let count = r.u16()?;
        let columns = (0..count)
            .map(|_| Ok((usize::from(r.u16()?), read_grants(r)?)))
            .collect::<Result<Vec<(usize, Vec<Grant>)>>>()?;
        let on = |flag: u8| flags & flag != 0;
        Ok(Self { owner, grants, columns, invoker: on(2), row_security: on(4), forced: on(8), barrier: on(16) })
    }
}

/// Stored form of a list of rights.
fn put_grants(out: &mut Vec<u8>, grants: &[Grant]) {
    out.extend_from_slice(&(grants.len() as u16).to_le_bytes());
    for grant in grants {
        for number in [grant.grantee, grant.grantor, grant.privileges, grant.options] {
            out.extend_from_slice(&number.to_le_bytes());
        }
    }
}

/// Reads what [`put_grants`] wrote.
///
/// # Errors
/// `Corrupt`.
fn read_grants(r: &mut Reader<'_>) -> Result<Vec<Grant>> {
    let count = r.u16()?;
    (0..count)
        .map(|_| Ok(Grant { grantee: r.u32()?, grantor: r.u32()?, privileges: r.u32()?, options: r.u32()? }))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_come_back_whole_or_not_at_all() {
        let grant = Grant { grantee: 0, grantor: 10, privileges: 3, options: 2 };
        for access in [
            Access::of(16_384),
            Access { grants: Some(Vec::new()), invoker: true, ..Access::FIRST },
            Access { barrier: true, ..Access::FIRST },
            Access { row_security: true, ..Access::FIRST },
            Access { row_security: true, forced: true, ..Access::of(11) },
            Access { grants: Some(vec![grant]), columns: vec![(3, vec![grant, grant])], ..Access::of(7) },
        ] {
            let bytes = access.encode();
            let read = |bytes: &[u8]| {
                let mut r = Reader::new(bytes, "rights");
                Access::decode(&mut r).and_then(|access| if r.is_empty() { Ok(access) } else { Err(r.bad("more")) })
            };
            assert_eq!(read(&bytes).expect("rights"), access);
            for len in 0..bytes.len() {
                assert!(read(&bytes[..len]).is_err(), "{len} bytes of {}", bytes.len());
            }
            assert!(read(&[&[0; 4], &bytes[4..]].concat()).is_err(), "an owner that is none");
        }
    }

    #[test]
    fn columns_move_up() {
        let mut access = Access { columns: vec![(1, Vec::new()), (2, Vec::new()), (4, Vec::new())], ..Access::FIRST };
        access.column_goes(2);
        assert_eq!(access.columns.iter().map(|(at, _)| *at).collect::<Vec<_>>(), [1, 3]);
    }
}
