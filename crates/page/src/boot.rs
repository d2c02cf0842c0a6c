//! The boot page (page 0): what must be known before anything else can be read.
//!
//! ```text
//!  64 magic "RESURGAM"
//!  72 format version u32      format of the data file
//!  76 min reader version u32  oldest reader that may open it
//!  80 length u32              bytes of this struct, from the magic on
//!  84 checksum u32            CRC-32C of those bytes, this field as zero
//!  88 page size u32
//!  92 flags u32               CLEAN 1
//!  96 database id [u8; 16]
//! 112 created i64             microseconds since 2000-01-01 UTC
//! 120 catalog root u64
//! 128 catalog object u32
//! 132 pending frees: object u32
//! 136 pending frees: root u64
//! 144 end
//! ```
//! A later format may append fields and keep `min reader version`; a reader checks
//! magic, then versions, then the checksum, so that a newer file is told from a damaged one.

use crate::buf::{HEADER_SIZE, PageBuf, PageType};
use crate::codec::Reader;
use crate::op;
use resurgam_base::limits::PAGE_SIZE;
use resurgam_base::{Error, ErrorKind, Lsn, ObjectId, PageId, Result, checksum, checksum_append};

/// First bytes of the boot page's payload.
pub const MAGIC: [u8; 8] = *b"RESURGAM";
/// Format of the data file that this code writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// Flag: the database was shut down cleanly.
pub const CLEAN: u32 = 1;
/// Offset of the payload in the page.
pub const OFFSET: usize = HEADER_SIZE;
/// Bytes of the payload.
pub const SIZE: usize = 80;

const LENGTH_AT: usize = 16;
const CHECKSUM_AT: usize = 20;

const _: () = assert!(OFFSET + SIZE <= PAGE_SIZE);

/// The boot page with these fields, as of `lsn`, sealed.
///
/// # Errors
/// None that are expected.
pub fn page(boot: &Boot, lsn: Lsn) -> Result<PageBuf> {
    let (mut page, mut body) = (PageBuf::zeroed(), Vec::new());
    op::format(&mut body, PageType::Boot, 0, ObjectId::NONE, &[], None);
    op::set_bytes(&mut body, OFFSET as u16, &boot.encode());
    op::apply(&mut page, PageId(0), &body, lsn)?;
    page.seal();
    Ok(page)
}

/// The boot page's fields.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Boot {
    pub format_version: u32,
    /// Oldest reader that may open the file.
    pub min_reader_version: u32,
    /// Random, set when the database is created.
    pub database_id: [u8; 16],
    /// Microseconds since 2000-01-01 UTC.
    pub created_us: i64,
    pub catalog_root: PageId,
    pub catalog_object: ObjectId,
    pub pending_frees_root: PageId,
    pub pending_frees_object: ObjectId,
    /// [`CLEAN`].
    pub flags: u32,
}

impl Boot {
    /// The boot fields of a new database, all pointers unset.
    pub fn new(database_id: [u8; 16], created_us: i64) -> Self {
        Self {
            format_version: FORMAT_VERSION,
            min_reader_version: FORMAT_VERSION,
            database_id,
            created_us,
            catalog_root: PageId::NONE,
            catalog_object: ObjectId::NONE,
            pending_frees_root: PageId::NONE,
            pending_frees_object: ObjectId::NONE,
            flags: 0,
        }
    }

    /// Whether the database was shut down cleanly.
    pub fn is_clean(&self) -> bool {
        self.flags & CLEAN != 0
    }

    /// The payload, to be set at [`OFFSET`].
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(SIZE);
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&self.format_version.to_le_bytes());
        out.extend_from_slice(&self.min_reader_version.to_le_bytes());
        out.extend_from_slice(&(SIZE as u32).to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&(PAGE_SIZE as u32).to_le_bytes());
        out.extend_from_slice(&self.flags.to_le_bytes());
        out.extend_from_slice(&self.database_id);
        out.extend_from_slice(&self.created_us.to_le_bytes());
        out.extend_from_slice(&self.catalog_root.0.to_le_bytes());
        out.extend_from_slice(&self.catalog_object.0.to_le_bytes());
        out.extend_from_slice(&self.pending_frees_object.0.to_le_bytes());
        out.extend_from_slice(&self.pending_frees_root.0.to_le_bytes());
        debug_assert_eq!(out.len(), SIZE);
        let sum = checksum(&out);
        out[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the fields from a boot page.
    pub fn read(page: &PageBuf) -> Result<Self> {
        Self::decode(&page.as_bytes()[OFFSET..])
    }

    /// Decodes a payload (more bytes may follow).
    ///
    /// # Errors
    /// `NotADatabase` for a wrong magic, `NewerFormat` if this code is older than the file
    /// allows, `Corrupt` for a wrong checksum or length, `NotSupported` for another page size.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "boot page");
        if r.array::<8>().ok() != Some(MAGIC) {
            return Err(Error::new(
                ErrorKind::NotADatabase,
                "the data file does not start as a Resurgam database does",
            ));
        }
        let format_version = r.u32()?;
        let min_reader_version = r.u32()?;
        if min_reader_version > FORMAT_VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!(
                    "the data file has format {format_version} and needs a program that reads \
                     format {min_reader_version}; this one reads up to {FORMAT_VERSION}"
                ),
            ));
        }
        let length = r.u32()? as usize;
        let stored = r.u32()?;
        if length < SIZE {
            return Err(r.bad("struct too short"));
        }
        let Some(whole) = bytes.get(..length) else {
            return Err(r.bad("struct longer than the page"));
        };
        let computed =
            checksum_append(checksum_append(checksum(&whole[..CHECKSUM_AT]), &[0; 4]), &whole[CHECKSUM_AT + 4..]);
        if stored != computed {
            return Err(r.bad("wrong checksum"));
        }
        let page_size = r.u32()?;
        if page_size != PAGE_SIZE as u32 {
            return Err(Error::new(
                ErrorKind::NotSupported,
                format!("the data file has pages of {page_size} bytes, not {PAGE_SIZE}"),
            ));
        }
        let flags = r.u32()?;
        let database_id = r.array()?;
        let created_us = r.i64()?;
        let catalog_root = PageId(r.u64()?);
        let catalog_object = ObjectId(r.u32()?);
        let pending_frees_object = ObjectId(r.u32()?);
        let pending_frees_root = PageId(r.u64()?);
        Ok(Self {
            format_version,
            min_reader_version,
            database_id,
            created_us,
            catalog_root,
            catalog_object,
            pending_frees_root,
            pending_frees_object,
            flags,
        })
    }
}

const _: () = assert!(LENGTH_AT + 4 == CHECKSUM_AT);

#[cfg(test)]
mod tests {
    use super::*;

    fn boot() -> Boot {
        Boot {
            catalog_root: PageId(2),
            catalog_object: ObjectId(1),
            pending_frees_root: PageId(3),
            pending_frees_object: ObjectId(2),
            flags: CLEAN,
            ..Boot::new([7; 16], -5)
        }
    }

    #[test]
    fn round_trip() {
        let bytes = boot().encode();
        assert_eq!(bytes.len(), SIZE);
        assert_eq!(Boot::decode(&bytes).unwrap(), boot());
        assert!(boot().is_clean());
    }

    #[test]
    fn longer_struct_of_a_compatible_newer_format_is_read() {
        let mut bytes = Boot { format_version: 2, ..boot() }.encode();
        bytes.extend_from_slice(&[1, 2, 3, 4]);
        bytes[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&(SIZE as u32 + 4).to_le_bytes());
        bytes[CHECKSUM_AT..CHECKSUM_AT + 4].fill(0);
        let sum = checksum(&bytes);
        bytes[CHECKSUM_AT..CHECKSUM_AT + 4].copy_from_slice(&sum.to_le_bytes());
        assert_eq!(Boot::decode(&bytes).unwrap().format_version, 2);
    }

    #[test]
    fn faults_are_told_apart() {
        let kind = |bytes: &[u8]| Boot::decode(bytes).unwrap_err().kind();
        assert_eq!(kind(b""), ErrorKind::NotADatabase);
        assert_eq!(kind(b"SQLite format 3"), ErrorKind::NotADatabase);
        let newer = Boot { format_version: 9, min_reader_version: 9, ..boot() };
        assert_eq!(kind(&newer.encode()), ErrorKind::NewerFormat);
        let good = boot().encode();
        for at in LENGTH_AT..SIZE {
            let mut bad = good.clone();
            bad[at] ^= 1;
            assert_eq!(kind(&bad), ErrorKind::Corrupt, "byte {at}");
        }
        for cut in 8..SIZE {
            assert_eq!(kind(&good[..cut]), ErrorKind::Corrupt, "cut {cut}");
        }
    }
}
