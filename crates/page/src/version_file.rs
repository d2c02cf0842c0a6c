//! The header of a version-store file: whose it is, and how recent.
//!
//! Page 0 of the file is no page of the database: it begins with these bytes, the rest of it
//! is zero. They fit one disk sector, so that writing them again cannot tear them.
//!
//! ```text
//!  0 magic "RESURGVS"
//!  8 format version u32
//! 12 number u32            pages of this file have it above bit 40 of their ids
//! 16 database id [u8; 16]  as on the boot page of the data file
//! 32 created i64           microseconds since 2000-01-01 UTC
//! 40 epoch u32             log epoch of the last open that used the file
//! 44 checksum u32          CRC-32C of bytes 0..44
//! ```
//!
//! An open writes its epoch here before it is in the control file, so the header is never
//! behind the data folder: a file whose epoch is lower is an old copy.

use resurgam_base::{Error, ErrorKind, PageId, Result, checksum};

use crate::codec::Reader;

/// First bytes of the file.
pub const MAGIC: [u8; 8] = *b"RESURGVS";
/// Format that this code writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// Bytes of the header.
pub const SIZE: usize = 48;

/// The header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VersionFileHeader {
    /// 1 for the first version-store file that a database was given, and so on.
    pub number: u32,
    pub database_id: [u8; 16],
    /// Microseconds since 2000-01-01 UTC.
    pub created_us: i64,
    pub epoch: u32,
}

impl VersionFileHeader {
    /// Its bytes.
    pub fn encode(&self) -> [u8; SIZE] {
        let mut out = [0; SIZE];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.number.to_le_bytes());
        out[16..32].copy_from_slice(&self.database_id);
        out[32..40].copy_from_slice(&self.created_us.to_le_bytes());
        out[40..44].copy_from_slice(&self.epoch.to_le_bytes());
        let sum = checksum(&out[..44]);
        out[44..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the first bytes of a file; messages say what is wrong, not which file it is.
    ///
    /// # Errors
    /// `NotADatabase` for a wrong magic, `Corrupt` for too few bytes or a wrong checksum,
    /// `NewerFormat`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut r = Reader::new(bytes, "header of a version-store file");
        if r.array::<8>().ok() != Some(MAGIC) {
            return Err(Error::new(ErrorKind::NotADatabase, "it does not start as a version-store file does"));
        }
        let format = r.u32()?;
        let number = r.u32()?;
        let database_id = r.array()?;
        let created_us = r.i64()?;
        let epoch = r.u32()?;
        if r.u32()? != checksum(bytes.get(..44).unwrap_or(&[])) {
            return Err(r.bad("wrong checksum"));
        }
        if format > FORMAT_VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("it has format version {format}, this program knows versions up to {FORMAT_VERSION}"),
            ));
        }
        if number == 0 || u64::from(number) >= PageId::FILES_MAX {
            return Err(r.bad("no number"));
        }
        Ok(Self { number, database_id, created_us, epoch })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_faults() {
        let header = VersionFileHeader { number: 2, database_id: [9; 16], created_us: -7, epoch: 5 };
        let good = header.encode();
        assert_eq!(VersionFileHeader::decode(&good).unwrap(), header);
        let kind = |bytes: &[u8]| VersionFileHeader::decode(bytes).unwrap_err().kind();
        assert_eq!(kind(b""), ErrorKind::NotADatabase);
        assert_eq!(kind(b"holiday pictures"), ErrorKind::NotADatabase);
        for at in 8..SIZE {
            let mut bad = good;
            bad[at] ^= 1;
            assert_eq!(kind(&bad), ErrorKind::Corrupt, "byte {at}");
            assert_eq!(kind(&good[..at]), ErrorKind::Corrupt, "cut {at}");
        }
    }
}
