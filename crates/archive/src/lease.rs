//! Leases: what is promised to somebody outside this database, by an object of its own in the store of the archive.
//!
//! A clone, and a restore that is not complete yet, read runs and a backup of the database that they were made of. While
//! the lease is there, whoever gives up runs, leaves records out in merges, or deletes backups keeps what makes the pages
//! as of `cut`: the backup that is named (or, if none is, everything from the archive's beginning), and from it on all that
//! leads to `cut`; the records of transactions that were unfinished at `cut` as well.
//!
//! While such a folder is being made, it has a lease of another kind, which counts for two days at most: a command that is killed leaves
//! nothing behind for longer. One that takes longer makes another one in time; the folder is a database only after its own lease is there.
//!
//! A backup that is made of the archive of a log service has one of that kind as well, called `backup-`, its name, and a number: it is under way as long as that is there.
//!
//! The archive of such a database begins at the cut, and needs the parent's for its pages until it has given up its beginning in favour of a backup of
//! its own ([`ParentRecord`](crate::ParentRecord)): so it has a lease as well, for that long.
//!
//! `leases/NAME`, created once, deleted when it is over:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic `RSARLEA1` |
//! | 8..10 | format version: 3 for an archive, 2 for a folder that is being made, else 1 |
//! | 10 | kind: 1 restore, 2 clone, 3 a folder that is being made, 4 an archive |
//! | 11 | 1 if it names a backup |
//! | 12..28 | database whose archive it is |
//! | 28..36 | the cut: everything below this LSN is needed |
//! | 36..44 | when it was created, microseconds since 2000-01-01 UTC |
//! | 44..52 | the oldest LSN of a record that is needed for undoing what was unfinished at the cut; 0: the cut |
//! | 52..54 | length of the backup's name |
//! | 54.. | the name |
//! | last 4 | CRC-32C of all before |

use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum};
use resurgam_page::codec::Reader;
use resurgam_xstore::{Store, StoreErrorKind, check_name};

use crate::format::DatabaseId;

const MAGIC: [u8; 8] = *b"RSARLEA1";
const VERSION: u16 = 3;
/// One of a folder that is being made counts no longer than this, in microseconds.
const MAKING_US: i64 = 48 * 3600 * 1_000_000;
const HEAD_BYTES: usize = 54;
const BYTES_MAX: u64 = 4096;
/// What the name of a lease of a backup that is being made begins with; then its name, and a number.
pub const BACKUP_LEASE: &str = "backup-";
/// The folder of leases, with its slash.
const FOLDER: &str = "leases/";
/// How often a create is tried whose outcome is not known.
const TRIES: u32 = 3;

/// Who holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseKind {
    /// A restore that is not complete.
    Restore,
    /// A clone, until it is forgotten.
    Clone,
    /// A folder that is being made; for a bounded time.
    Making,
    /// The archive of a database that was made of this one, until it needs nothing of this one any more.
    Archive,
}

impl LeaseKind {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Restore => "a restore that is not complete",
            Self::Clone => "a clone",
            Self::Making => "a folder that is being made",
            Self::Archive => "the archive of a database that was made of this one",
        }
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    /// Letters, digits, `-`, `_`, `.`.
    pub name: String,
    pub kind: LeaseKind,
    pub database: DatabaseId,
    pub cut: Lsn,
    /// Where the oldest record begins that undoes something that was unfinished at the cut; not above `cut`.
    pub undo_from: Lsn,
    /// The backup that pages are made of; none: runs alone.
    pub backup: Option<String>,
    pub created_us: i64,
}

impl Lease {
    fn object(name: &str) -> String {
        format!("{FOLDER}{name}")
    }

    fn encode(&self) -> Vec<u8> {
        let backup = self.backup.as_deref().unwrap_or_default();
        let mut out = MAGIC.to_vec();
        let version: u16 = match self.kind {
            LeaseKind::Restore | LeaseKind::Clone => 1,
            LeaseKind::Making => 2,
            LeaseKind::Archive => VERSION,
        };
        out.extend_from_slice(&version.to_le_bytes());
        out.push(match self.kind {
            LeaseKind::Restore => 1,
            LeaseKind::Clone => 2,
            LeaseKind::Making => 3,
            LeaseKind::Archive => 4,
        });
        out.push(self.backup.is_some().into());
        out.extend_from_slice(&self.database);
        for number in [self.cut.0, self.created_us as u64, self.undo_from.0] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&(backup.len() as u16).to_le_bytes());
        out.extend_from_slice(backup.as_bytes());
        let crc = checksum(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        out
    }

    fn decode(name: &str, bytes: &[u8]) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(format!("the lease \"{name}\" cannot be read: {what}"));
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| bad("it is too short"))?;
        if body.len() < HEAD_BYTES || body.get(..8) != Some(&MAGIC[..]) {
            return Err(bad("it is none"));
        }
        if checksum(body) != u32::from_le_bytes(*crc) {
            return Err(bad("wrong checksum"));
        }
        let mut r = Reader::new(body.get(8..).unwrap_or_default(), "lease");
        let version = u16::from_le_bytes(r.array::<2>()?);
        if version > VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!(
                    "the lease \"{name}\" has format version {version}; this program knows versions up to {VERSION}"
                ),
            ));
        }
        let kind = match r.u8()? {
            1 => LeaseKind::Restore,
            2 => LeaseKind::Clone,
            3 if version > 1 => LeaseKind::Making,
            4 if version > 2 => LeaseKind::Archive,
            _ => return Err(bad("its kind is not known")),
        };
        let has_backup = r.u8()?;
        let database = r.array::<16>()?;
        let mut number = || r.array::<8>().map(u64::from_le_bytes);
        let (cut, created_us, undo_from) = (Lsn(number()?), number()? as i64, Lsn(number()?));
        let len = u16::from_le_bytes(r.array::<2>()?);
        let backup = r.rest();
        if backup.len() != usize::from(len) || has_backup > 1 || undo_from > cut {
            return Err(bad("its parts do not fit together"));
        }
        let backup = std::str::from_utf8(backup).map_err(|_| bad("its backup's name is no text"))?;
        let backup = (has_backup == 1).then(|| backup.to_owned());
        let undo_from = if undo_from.is_some() { undo_from } else { cut };
        Ok(Self { name: name.to_owned(), kind, database, cut, undo_from, backup, created_us })
    }

    /// Makes it; durable when this returns.
    ///
    /// # Errors
    /// `DuplicateObject` when there is another one of that name; `InvalidParameter` for a name that cannot be; those of
    /// the store.
    pub fn create(&self, store: &dyn Store) -> Result<()> {
        check_lease_name(&self.name)?;
        let (object, bytes) = (Self::object(&self.name), self.encode());
        for tried in 0.. {
            match store.put(&object, &bytes) {
                Ok(()) => return Ok(()),
                // An attempt whose outcome was not known may have made it.
                Err(error) if error.kind() == StoreErrorKind::Exists && tried > 0 => {
                    if store.get(&object, BYTES_MAX)? == bytes {
                        return Ok(());
                    }
                    return Err(taken(store, &self.name));
                }
                Err(error) if error.kind() == StoreErrorKind::Exists => return Err(taken(store, &self.name)),
                Err(error) if error.kind() == StoreErrorKind::Uncertain && tried < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// All leases in a store, by name. One that was deleted meanwhile is left out.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat` for one that cannot be read: whoever would give something up for want of leases must
    /// not; those of the store.
    pub fn list(store: &dyn Store) -> Result<Vec<Self>> {
        let mut leases = Vec::new();
        for object in store.list(FOLDER)? {
            let Some(name) = object.strip_prefix(FOLDER) else { continue };
            match store.get(&object, BYTES_MAX) {
                Ok(bytes) => leases.push(Self::decode(name, &bytes)?),
                Err(error) if error.kind() == StoreErrorKind::Missing => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(leases)
    }

    /// Those of [`Lease::list`] that count now, and the names of those that do not any more.
    ///
    /// # Errors
    /// As [`Lease::list`].
    pub fn in_force(store: &dyn Store, now_us: i64) -> Result<(Vec<Self>, Vec<String>)> {
        let is_over =
            |lease: &Self| lease.kind == LeaseKind::Making && lease.created_us.saturating_add(MAKING_US) < now_us;
        let (over, counting): (Vec<_>, Vec<_>) = Self::list(store)?.into_iter().partition(is_over);
        Ok((counting, over.into_iter().map(|lease| lease.name).collect()))
    }

    /// Whether another one of the name has to be made before long: half of its time is over.
    pub fn is_old(&self, now_us: i64) -> bool {
        self.kind == LeaseKind::Making && self.created_us.saturating_add(MAKING_US / 2) < now_us
    }

    /// That there is none of that name.
    ///
    /// # Errors
    /// `DuplicateObject`; `InvalidParameter` for a name that cannot be; those of the store.
    pub fn check_name(store: &dyn Store, name: &str) -> Result<()> {
        check_lease_name(name)?;
        match store.len(&Self::object(name)) {
            Ok(_) => Err(taken(store, name)),
            Err(error) if error.kind() == StoreErrorKind::Missing => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// That of a name; `None`: there is none.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`; `InvalidParameter` for a name that cannot be; those of the store.
    pub fn read(store: &dyn Store, name: &str) -> Result<Option<Self>> {
        check_lease_name(name)?;
        match store.get(&Self::object(name), BYTES_MAX) {
            Ok(bytes) => Self::decode(name, &bytes).map(Some),
            Err(error) if error.kind() == StoreErrorKind::Missing => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Gives it back, durably; false: there is none of that name.
    ///
    /// # Errors
    /// Those of the store.
    pub fn remove(store: &dyn Store, name: &str) -> Result<bool> {
        check_lease_name(name)?;
        let object = Self::object(name);
        match store.len(&object) {
            Ok(_) => {}
            Err(error) if error.kind() == StoreErrorKind::Missing => return Ok(false),
            Err(error) => return Err(error.into()),
        }
        store.delete(&object)?;
        store.sync_deletes(FOLDER.trim_end_matches('/'))?;
        Ok(true)
    }
}

fn taken(store: &dyn Store, name: &str) -> Error {
    Error::new(
        ErrorKind::DuplicateObject,
        format!("there is a lease of the name \"{name}\" in {} already", store.place()),
    )
    .with_hint("Take another name, or give that one back with \"resurgam clone --forget\".")
}

fn check_lease_name(name: &str) -> Result<()> {
    if name.contains('/') || check_name(name).is_err() || name.len() > 200 {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!(
                "\"{}\" cannot be the name of a lease: letters, digits, -, _ and . are allowed",
                name.escape_debug()
            ),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use resurgam_vfs::SimVfs;
    use resurgam_xstore::FolderStore;

    use super::*;

    fn lease(name: &str) -> Lease {
        Lease {
            name: name.into(),
            kind: LeaseKind::Clone,
            database: [7; 16],
            cut: Lsn(9000),
            undo_from: Lsn(8000),
            backup: Some("B1".into()),
            created_us: -5,
        }
    }

    #[test]
    fn one_of_a_name_and_every_bit_counts() -> Result<()> {
        let store = FolderStore::open(Arc::new(SimVfs::new(1)), Path::new("/a")).map_err(Error::from)?;
        assert!(Lease::list(&store)?.is_empty());
        lease("a").create(&store)?;
        assert_eq!(lease("a").create(&store).unwrap_err().kind(), ErrorKind::DuplicateObject);
        let other = Lease { backup: None, kind: LeaseKind::Restore, ..lease("b") };
        other.create(&store)?;
        assert_eq!(Lease::list(&store)?, [lease("a"), other]);
        let making = Lease { kind: LeaseKind::Making, ..lease("m") };
        making.create(&store)?;
        assert!(Lease::check_name(&store, "m").is_err() && Lease::check_name(&store, "n").is_ok());
        assert_eq!(Lease::in_force(&store, MAKING_US - 5)?, (Lease::list(&store)?, Vec::new()));
        assert!(!making.is_old(MAKING_US / 2 - 5) && making.is_old(MAKING_US / 2) && !lease("a").is_old(i64::MAX));
        assert_eq!(Lease::in_force(&store, MAKING_US)?.1, ["m"]);
        assert_eq!(Lease::in_force(&store, MAKING_US)?.0.len(), 2);
        assert_eq!(Lease::decode("m", &making.encode())?, making);
        let archive = Lease { kind: LeaseKind::Archive, ..lease("o") };
        assert_eq!(Lease::decode("o", &archive.encode())?, archive);
        assert!(Lease::remove(&store, "m")?);
        assert!(Lease::remove(&store, "a")? && !Lease::remove(&store, "a")?);
        assert_eq!(Lease::list(&store)?.len(), 1);
        for bad in ["", "a/b", "..", "a b"] {
            assert_eq!(lease(bad).create(&store).unwrap_err().kind(), ErrorKind::InvalidParameter, "{bad}");
        }
        let bytes = lease("a").encode();
        assert_eq!(Lease::decode("a", &bytes)?, lease("a"));
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(Lease::decode("a", &bad).is_err() && Lease::decode("a", &bytes[..bit / 8]).is_err(), "bit {bit}");
        }
        Ok(())
    }
}
