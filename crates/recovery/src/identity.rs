//! What no other record holds, and a database cannot be made anew from its log (or the archive of it) without:
//! the boot page (page 0, which no page record can name), what the control file says beside where the
//! last checkpoint is, and the place of the version store. Each checkpoint has it.
//!
//! ```text
//! kind 13  format version of the data folder u32 | flags u32 (2 = traditional mode) | log epoch u32 |
//!          log segment bytes u64 | payload of the boot page (`page/src/boot.rs`) | of a database that was made
//!          of another one as of a point: that one's id [u8; 16], the point's LSN u64, when i64
//! kind 14  number u32 | 1 if it has a path u8 | length of the path u32 | path, UTF-8
//! ```

use std::path::PathBuf;

use resurgam_base::{Error, Lsn, Result};
use resurgam_page::boot::{self, Boot};

use crate::control::{Control, FORMAT_VERSION};
use crate::version_record::VersionRecord;

const TRADITIONAL: u32 = 2;
/// Bytes before the boot page's payload.
const HEAD: usize = 20;

/// Where a restored database, or a clone, comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parent {
    pub database_id: [u8; 16],
    /// Everything below this LSN is the parent's log; from the first segment above it on it is this database's own.
    pub cut: Lsn,
    /// When it was made, in microseconds since 2000-01-01 UTC.
    pub made_us: i64,
}

const PARENT: usize = 32;

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub boot: Boot,
    /// The epoch under which the checkpoint was written.
    pub epoch: u32,
    pub segment_bytes: u64,
    /// The traditional mode, from this checkpoint on.
    pub traditional: bool,
    /// Of what it was made; none: from nothing.
    pub parent: Option<Parent>,
}

impl Identity {
    /// Of a database with that boot page and control file, made of `parent`.
    pub fn new(boot: Boot, control: &Control, parent: Option<Parent>) -> Self {
        let Control { epoch, segment_bytes, traditional, .. } = *control;
        Self { boot, epoch, segment_bytes, traditional, parent }
    }

    /// The body of kind 13.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = vec![13];
        body.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        body.extend_from_slice(&(if self.traditional { TRADITIONAL } else { 0 }).to_le_bytes());
        body.extend_from_slice(&self.epoch.to_le_bytes());
        body.extend_from_slice(&self.segment_bytes.to_le_bytes());
        body.extend_from_slice(&self.boot.encode());
        if let Some(parent) = &self.parent {
            body.extend_from_slice(&parent.database_id);
            body.extend_from_slice(&parent.cut.0.to_le_bytes());
            body.extend_from_slice(&parent.made_us.to_le_bytes());
        }
        body
    }

    /// Decodes what [`Identity::encode`] has made: a backup has it.
    ///
    /// # Errors
    /// As a checkpoint's.
    pub fn from_body(body: &[u8]) -> Result<Self> {
        match body.split_first() {
            Some((13, rest)) => Self::decode(rest),
            _ => Err(Error::corrupt("an identity of the database cannot be read")),
        }
    }

    /// The body of kind 13, its first byte left out.
    ///
    /// # Errors
    /// `Corrupt`; `NewerFormat` for a later boot page.
    pub(crate) fn decode(rest: &[u8]) -> Result<Self> {
        let bad = || Error::corrupt("a checkpoint's identity of the database cannot be read");
        let (head, payload) = rest.split_at_checked(HEAD).ok_or_else(bad)?;
        let u32_at = |at: usize| head.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes);
        let Some((_, behind)) = payload.split_at_checked(boot::SIZE) else { return Err(bad()) };
        let parent = match behind.len() {
            0 => None,
            PARENT => {
                let word =
                    |at: usize| behind.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_le_bytes);
                let database_id = behind.first_chunk::<16>().copied().ok_or_else(bad)?;
                Some(Parent { database_id, cut: Lsn(word(16)), made_us: word(24) as i64 })
            }
            _ => return Err(bad()),
        };
        Ok(Self {
            boot: Boot::decode(payload)?,
            epoch: u32_at(8),
            segment_bytes: u64::from(u32_at(12)) | u64::from(u32_at(16)) << 32,
            traditional: u32_at(4) & TRADITIONAL != 0,
            parent,
        })
    }
}

/// The body of kind 14.
pub(crate) fn encode_version_store(record: &VersionRecord) -> Vec<u8> {
    let path = record.path.as_ref().and_then(|path| path.to_str());
    let mut body = vec![14];
    body.extend_from_slice(&record.number.to_le_bytes());
    body.push(path.is_some().into());
    let path = path.unwrap_or_default();
    body.extend_from_slice(&(path.len() as u32).to_le_bytes());
    body.extend_from_slice(path.as_bytes());
    body
}

/// The body of kind 14, its first byte left out.
pub(crate) fn decode_version_store(rest: &[u8]) -> Result<VersionRecord> {
    let bad = || Error::corrupt("a checkpoint's place of the version store cannot be read");
    let (number, rest) = rest.split_first_chunk::<4>().ok_or_else(bad)?;
    let (has_path, rest) = rest.split_first().ok_or_else(bad)?;
    let (len, path) = rest.split_first_chunk::<4>().ok_or_else(bad)?;
    if path.len() as u64 != u64::from(u32::from_le_bytes(*len)) || *has_path > 1 {
        return Err(bad());
    }
    let path = std::str::from_utf8(path).map_err(|_| bad())?;
    Ok(VersionRecord { number: u32::from_le_bytes(*number), path: (*has_path == 1).then(|| PathBuf::from(path)) })
}
