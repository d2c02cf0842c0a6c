//! Of what a database was made: an object of its own in the archive of a clone, or of a database that was restored to a point in time.
//!
//! Such an archive begins at the cut: what a page was before is the parent's, whose archive (and backup) this names. So whoever has the archive alone
//! finds the pages, from parent to parent. The object is created before the archive's first run, and never changed. It promises nothing by itself: that
//! the parent keeps what is needed, a [lease](crate::Lease) in the parent's archive does. Once the archive has given up its beginning, in favour of a
//! backup of its own, the object says only where the database came from.
//!
//! `parent/record`:
//!
//! | bytes | field |
//! |---|---|
//! | 0..8 | magic `RSARPAR1` |
//! | 8..10 | format version |
//! | 10 | what the parent's pages are made of: 1 its archive alone, 2 a backup and its archive, 3 its own parent's pages and its archive |
//! | 11 | zero |
//! | 12..28 | database in whose archive this is |
//! | 28..44 | the parent |
//! | 44..52 | the cut: everything below this LSN is the parent's |
//! | 52..60 | where the database's own log begins |
//! | 60..68 | LSN: the parent's archive must not begin later |
//! | 68..76 | when the database was made, microseconds since 2000-01-01 UTC |
//! | then | URL of the parent's archive; of its backups; name of its backup: each its length u16 and UTF-8, empty where there is none |
//! | last 4 | CRC-32C of all before |

use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum};
use resurgam_page::codec::Reader;
use resurgam_xstore::{Store, StoreErrorKind};

use crate::format::DatabaseId;

const MAGIC: [u8; 8] = *b"RSARPAR1";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 76;
const BYTES_MAX: u64 = 64 << 10;
/// Its name.
const OBJECT: &str = "parent/record";
/// How often a create is tried whose outcome is not known.
const TRIES: u32 = 3;

/// What a parent's pages are made of besides the records of its archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParentBase {
    /// Nothing: its archive reaches back to where every page was made.
    Archive,
    /// A backup of that name, at that URL.
    Backup { url: String, name: String },
    /// The pages of the parent's own parent, which its archive names.
    Parent,
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentRecord {
    pub database: DatabaseId,
    pub parent: DatabaseId,
    /// Everything below it is the parent's.
    pub cut: Lsn,
    /// Where the database's own log begins; not below `cut`.
    pub first: Lsn,
    /// The parent's archive began here when the database was made; begins it later, something that is needed was given up.
    pub archive_from: Lsn,
    pub made_us: i64,
    /// URL of the parent's archive: a path from the root on, or what begins with a kind of place.
    pub archive: String,
    pub base: ParentBase,
}

impl ParentRecord {
    /// As the object holds it.
    ///
    /// # Errors
    /// `InvalidParameter` for a URL or a name of more than 65,535 bytes.
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = MAGIC.to_vec();
        out.extend_from_slice(&VERSION.to_le_bytes());
        let (kind, url, name) = match &self.base {
            ParentBase::Archive => (1, "", ""),
            ParentBase::Backup { url, name } => (2, url.as_str(), name.as_str()),
            ParentBase::Parent => (3, "", ""),
        };
        out.extend_from_slice(&[kind, 0]);
        out.extend_from_slice(&self.database);
        out.extend_from_slice(&self.parent);
        for number in [self.cut.0, self.first.0, self.archive_from.0, self.made_us as u64] {
            out.extend_from_slice(&number.to_le_bytes());
        }
        for text in [self.archive.as_str(), url, name] {
            let len = u16::try_from(text.len()).map_err(|_| {
                Error::new(ErrorKind::InvalidParameter, "the URL of an archive or of backups is too long")
            })?;
            out.extend_from_slice(&len.to_le_bytes());
            out.extend_from_slice(text.as_bytes());
        }
        let crc = checksum(&out);
        out.extend_from_slice(&crc.to_le_bytes());
        Ok(out)
    }

    /// The inverse of [`ParentRecord::encode`].
    ///
    /// # Errors
    /// `Corrupt`, saying what is wrong; `NewerFormat`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(what);
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or_else(|| bad("it is too short"))?;
        if body.len() < HEAD_BYTES || body.get(..8) != Some(&MAGIC[..]) {
            return Err(bad("it is none"));
        }
        if checksum(body) != u32::from_le_bytes(*crc) {
            return Err(bad("its checksum is wrong"));
        }
        let mut r = Reader::new(body.get(8..).unwrap_or_default(), "record of a parent");
        let version = r.u16()?;
        if version > VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("it has format version {version}; this program knows versions up to {VERSION}"),
            ));
        }
        let (kind, _) = (r.u8()?, r.u8()?);
        let (database, parent) = (r.array::<16>()?, r.array::<16>()?);
        let (cut, first, archive_from, made_us) = (Lsn(r.u64()?), Lsn(r.u64()?), Lsn(r.u64()?), r.i64()?);
        let mut text = || -> Result<String> {
            let len = usize::from(r.u16()?);
            let bytes = r.take(len)?;
            std::str::from_utf8(bytes).map(str::to_owned).map_err(|_| bad("a URL is no text"))
        };
        let (archive, url, name) = (text()?, text()?, text()?);
        let base = match kind {
            1 => ParentBase::Archive,
            2 => ParentBase::Backup { url, name },
            3 => ParentBase::Parent,
            _ => return Err(bad("what the parent is made of is not known")),
        };
        if !r.is_empty() || archive.is_empty() || first < cut || database == parent {
            return Err(bad("its parts do not fit together"));
        }
        Ok(Self { database, parent, cut, first, archive_from, made_us, archive, base })
    }

    /// That of an archive; `None`: it has none, as where the database was made of nothing, or by a version that did not write one.
    ///
    /// # Errors
    /// `Corrupt` and `NewerFormat`, naming the object; those of the store.
    pub fn read(store: &dyn Store) -> Result<Option<Self>> {
        let bytes = match store.get(OBJECT, BYTES_MAX) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == StoreErrorKind::Missing => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        Self::decode(&bytes).map(Some).map_err(|error| {
            let what = format!("archive file \"{OBJECT}\" in {} cannot be used: {}", store.place(), error.message());
            Error::new(error.kind(), what).with_hint(
                "It says of which database this archive's was made, and where that one's archive is. The file \"parent\" in the data folder has the \
                 same bytes; or restore from a backup of this database (--backups).",
            )
        })
    }

    /// Makes it; durable when this returns. One of the same database, parent and cut that is there stays.
    ///
    /// # Errors
    /// `DuplicateObject` when another one is there; `InvalidParameter`; those of the store.
    pub fn create(&self, store: &dyn Store) -> Result<()> {
        let bytes = self.encode()?;
        for tried in 0.. {
            match store.put(OBJECT, &bytes) {
                Ok(()) => break,
                Err(error) if error.kind() == StoreErrorKind::Exists => {
                    let found = Self::read(store)?;
                    if found.is_some_and(|found| found.is_same_child(self)) {
                        break;
                    }
                    return Err(Error::new(
                        ErrorKind::DuplicateObject,
                        format!("archive file \"{OBJECT}\" in {} is of another database", store.place()),
                    )
                    .with_hint("Give each database an archive of its own."));
                }
                Err(error) if error.kind() == StoreErrorKind::Uncertain && tried < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Whether both are of one database that was made once.
    pub fn is_same_child(&self, other: &Self) -> bool {
        (self.database, self.parent, self.cut, self.first) == (other.database, other.parent, other.cut, other.first)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use resurgam_vfs::SimVfs;
    use resurgam_xstore::FolderStore;

    use super::*;

    fn record() -> ParentRecord {
        ParentRecord {
            database: [2; 16],
            parent: [1; 16],
            cut: Lsn(9000),
            first: Lsn(16384),
            archive_from: Lsn(4096),
            made_us: -5,
            archive: "/disk5/archive".into(),
            base: ParentBase::Backup { url: "s3://b/c".into(), name: "B1".into() },
        }
    }

    #[test]
    fn one_of_an_archive_and_every_bit_counts() -> Result<()> {
        let store = FolderStore::open(Arc::new(SimVfs::new(1)), Path::new("/a")).map_err(Error::from)?;
        assert_eq!(ParentRecord::read(&store)?, None);
        record().create(&store)?;
        record().create(&store)?;
        // Its places may be written another way.
        ParentRecord { archive: "file:///disk5/archive".into(), ..record() }.create(&store)?;
        assert_eq!(ParentRecord::read(&store)?, Some(record()));
        let other = ParentRecord { database: [3; 16], ..record() };
        assert_eq!(other.create(&store).unwrap_err().kind(), ErrorKind::DuplicateObject);
        for base in [ParentBase::Archive, ParentBase::Parent, record().base] {
            let record = ParentRecord { base, ..record() };
            assert_eq!(ParentRecord::decode(&record.encode()?)?, record);
        }
        let bytes = record().encode()?;
        for bit in 0..bytes.len() * 8 {
            let mut bad = bytes.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(
                ParentRecord::decode(&bad).is_err() && ParentRecord::decode(&bytes[..bit / 8]).is_err(),
                "bit {bit}"
            );
        }
        for wrong in [
            ParentRecord { parent: [2; 16], ..record() },
            ParentRecord { first: Lsn(8999), ..record() },
            ParentRecord { archive: String::new(), ..record() },
        ] {
            assert!(ParentRecord::decode(&wrong.encode()?).is_err(), "{wrong:?}");
        }
        let mut newer = bytes;
        newer[8] = 9;
        let (body, _) = newer.split_last_chunk::<4>().unwrap_or_else(|| panic!("short"));
        let newer = [body, &checksum(body).to_le_bytes()].concat();
        assert_eq!(ParentRecord::decode(&newer).unwrap_err().kind(), ErrorKind::NewerFormat);
        let long = ParentRecord { archive: "x".repeat(70_000), ..record() };
        assert_eq!(long.encode().unwrap_err().kind(), ErrorKind::InvalidParameter);
        Ok(())
    }
}
