//! Where the version-store file is: a small text file in the data folder, replaced as a whole
//! (written beside, synced, renamed), so that it is either the old one or the new one.
//!
//! ```text
//! Resurgam version store, format 1
//! number 1
//! path /disk2/versions
//! checksum 0f3c9a11        CRC-32C of the lines above, in hexadecimal
//! ```
//!
//! It is a file of its own since it changes almost never, and an operator may want to read
//! it. `number` is that of the newest version-store file that the database was ever given:
//! numbers are not used again. Without a `path` line that file was given up, and new versions
//! go to the data file. A relative path is relative to the data folder.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, PageId, Result, checksum};
use resurgam_vfs::{Vfs, read_small, replace_small};

/// Name of the file in the data folder.
pub const VERSION_RECORD: &str = "version-store";
const FIRST_LINE: &str = "Resurgam version store, format ";
const FORMAT_VERSION: u32 = 1;
const BYTES_MAX: u64 = 64 << 10;

/// What it says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VersionRecord {
    /// Number of the newest version-store file; 0 = there never was one.
    pub number: u32,
    /// Where it is; `None`: it was given up.
    pub path: Option<PathBuf>,
}

impl VersionRecord {
    /// Reads it from the data folder `dir`; `None` when it is not there.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, those of reading a file.
    pub fn read(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(VERSION_RECORD);
        let Some(bytes) = read_small(&**vfs, &path, BYTES_MAX)? else { return Ok(None) };
        Self::decode(&bytes).map(Some).map_err(|error| {
            Error::new(error.kind(), format!("the file \"{}\" cannot be used: {}", path.display(), error.message()))
                .with_hint("Restore it, or name the version-store file with the option version_store_path.")
        })
    }

    /// Replaces it and makes that durable.
    ///
    /// # Errors
    /// `InvalidParameter` for a path that has a line break or is not UTF-8.
    pub fn write(&self, vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
        replace_small(&**vfs, &dir.join(VERSION_RECORD), self.encode()?.as_bytes())
    }

    fn encode(&self) -> Result<String> {
        let mut text = format!("{FIRST_LINE}{FORMAT_VERSION}\nnumber {}\n", self.number);
        if let Some(path) = &self.path {
            let path = path.to_str().filter(|path| !path.contains(['\n', '\r'])).ok_or_else(|| {
                Error::new(
                    ErrorKind::InvalidParameter,
                    format!("version_store_path {path:?} has a line break or is not UTF-8"),
                )
            })?;
            text += &format!("path {path}\n");
        }
        let sum = checksum(text.as_bytes());
        Ok(text + &format!("checksum {sum:08x}\n"))
    }

    fn decode(bytes: &[u8]) -> Result<Self> {
        let bad = |what: &str| Error::corrupt(what);
        let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not text"))?;
        let format = text.lines().next().and_then(|line| line.strip_prefix(FIRST_LINE));
        let format: u32 = format.and_then(|f| f.parse().ok()).ok_or_else(|| bad("its first line is wrong"))?;
        if format > FORMAT_VERSION {
            return Err(Error::new(
                ErrorKind::NewerFormat,
                format!("it has format version {format}, this program knows versions up to {FORMAT_VERSION}"),
            ));
        }
        let at = text.rfind("checksum ").ok_or_else(|| bad("it has no checksum"))?;
        if text.get(at..) != Some(&format!("checksum {:08x}\n", checksum(&bytes[..at]))) {
            return Err(bad("wrong checksum"));
        }
        let mut record = Self::default();
        for line in text[..at].lines().skip(1) {
            match line.split_once(' ') {
                Some(("number", number)) => {
                    record.number = number
                        .parse()
                        .ok()
                        .filter(|number| u64::from(*number) < PageId::FILES_MAX)
                        .ok_or_else(|| bad("its number is wrong"))?;
                }
                Some(("path", path)) => record.path = Some(PathBuf::from(path)),
                _ => return Err(bad("a line is not known")),
            }
        }
        Ok(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() -> Result<()> {
        for path in [None, Some("/disk 2/checksum versions"), Some("versions")] {
            let record = VersionRecord { number: 3, path: path.map(PathBuf::from) };
            let text = record.encode()?;
            assert_eq!(VersionRecord::decode(text.as_bytes())?, record);
            for at in 0..text.len() {
                let mut bad = text.clone().into_bytes();
                bad[at] ^= 1;
                assert!(VersionRecord::decode(&bad).is_err(), "byte {at}");
                assert!(VersionRecord::decode(&bad[..at]).is_err(), "cut {at}");
            }
        }
        let bad = VersionRecord { number: 1, path: Some(PathBuf::from("a\nb")) };
        assert_eq!(bad.encode().err().map(|e| e.kind()), Some(ErrorKind::InvalidParameter));
        Ok(())
    }
}
