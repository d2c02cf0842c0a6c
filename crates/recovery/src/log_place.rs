//! Where the log is, when it is not in the data folder: two small text files, each replaced as a
//! whole (written beside, synced, renamed).
//!
//! ```text
//! DIR/log-place                            LOGDIR/owner
//! Resurgam log place, format 1             Resurgam log, format 1
//! path /disk2/log                          database 00112233445566778899aabbccddeeff
//! checksum 0f3c9a11                        epoch 7
//!                                          checksum 0f3c9a11
//! ```
//!
//! The first says where the log is; a relative path is relative to the data folder. Without it the log is in
//! `DIR/log`. The second is in a log folder of its own place, is locked while a process has the database
//! open, and tells one database's log from another's, and the one in use from an old copy: `epoch` is that of
//! the last open, written before the control file has it; 0 while the database is being made and nobody has opened it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result, checksum};
use resurgam_vfs::{Vfs, read_small, replace_small};

/// Name of the file in the data folder.
pub const LOG_PLACE: &str = "log-place";
/// Name of the file in a log folder of its own.
pub const LOG_OWNER: &str = "owner";

const PLACE_LINE: &str = "Resurgam log place, format ";
const OWNER_LINE: &str = "Resurgam log, format ";
const FORMAT_VERSION: u32 = 1;
const BYTES_MAX: u64 = 64 << 10;

/// Whose log is in a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOwner {
    pub database_id: [u8; 16],
    pub epoch: u32,
}

/// The `epoch` in [`LOG_OWNER`] of a database that is being made: nothing was acknowledged yet.
pub const BEING_MADE: u32 = 0;

impl LogOwner {
    /// Reads it from the log folder; `None` when it is not there.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, those of reading a file.
    pub fn read(vfs: &Arc<dyn Vfs>, log_dir: &Path) -> Result<Option<Self>> {
        let path = log_dir.join(LOG_OWNER);
        let decode = |text: &str| {
            let mut owner = Self { database_id: [0; 16], epoch: 0 };
            let mut seen = 0;
            for line in text.lines() {
                match line.split_once(' ') {
                    Some(("database", id)) => owner.database_id = from_hex(id)?,
                    Some(("epoch", epoch)) => owner.epoch = epoch.parse().ok()?,
                    _ => return None,
                }
                seen += 1;
            }
            (seen == 2).then_some(owner)
        };
        read_text(vfs, &path, OWNER_LINE, decode)
    }

    /// Replaces it and makes that durable.
    ///
    /// # Errors
    /// Those of writing.
    pub fn write(&self, vfs: &Arc<dyn Vfs>, log_dir: &Path) -> Result<()> {
        let lines = format!("database {}\nepoch {}\n", to_hex(&self.database_id), self.epoch);
        write_text(vfs, log_dir, LOG_OWNER, OWNER_LINE, &lines)
    }
}

/// Where the log is, as the data folder has it noted; `None`: nothing is noted, it is in the data folder.
///
/// # Errors
/// `Corrupt`, `NewerFormat`, those of reading a file.
pub fn read_log_place(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Option<PathBuf>> {
    let decode = |text: &str| {
        let path = text.strip_prefix("path ")?.strip_suffix('\n')?;
        (!path.is_empty() && !path.contains('\n')).then(|| PathBuf::from(path))
    };
    read_text(vfs, &dir.join(LOG_PLACE), PLACE_LINE, decode)
        .map_err(|error| error.with_hint("Restore it, or name the folder of the log with the option log_dir."))
}

/// Notes it, and makes that durable.
///
/// # Errors
/// `InvalidParameter` for a path that has a line break or is not UTF-8; those of writing.
pub fn write_log_place(vfs: &Arc<dyn Vfs>, dir: &Path, place: &Path) -> Result<()> {
    write_text(vfs, dir, LOG_PLACE, PLACE_LINE, &format!("path {}\n", check_log_place(place)?))
}

/// The path as it is noted.
///
/// # Errors
/// `InvalidParameter` for a path that has a line break or is not UTF-8.
pub fn check_log_place(place: &Path) -> Result<&str> {
    place.to_str().filter(|path| !path.is_empty() && !path.contains(['\n', '\r'])).ok_or_else(|| {
        Error::new(ErrorKind::InvalidParameter, format!("log_dir {place:?} has a line break or is not UTF-8"))
    })
}

/// 32 hexadecimal digits.
fn to_hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The inverse of [`to_hex`].
fn from_hex(text: &str) -> Option<[u8; 16]> {
    let mut id = [0; 16];
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b)) {
        return None;
    }
    for (byte, digits) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(id)
}

fn read_text<T>(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    first_line: &str,
    decode: impl FnOnce(&str) -> Option<T>,
) -> Result<Option<T>> {
    let Some(bytes) = read_small(&**vfs, path, BYTES_MAX)? else { return Ok(None) };
    parse(&bytes, first_line, decode).map(Some).map_err(|error| {
        Error::new(error.kind(), format!("the file \"{}\" cannot be used: {}", path.display(), error.message()))
    })
}

fn parse<T>(bytes: &[u8], first_line: &str, decode: impl FnOnce(&str) -> Option<T>) -> Result<T> {
    let bad = |what: &str| Error::corrupt(what);
    let text = std::str::from_utf8(bytes).map_err(|_| bad("it is not text"))?;
    let (line, rest) = text.split_once('\n').ok_or_else(|| bad("its first line is wrong"))?;
    let format: u32 =
        line.strip_prefix(first_line).and_then(|f| f.parse().ok()).ok_or_else(|| bad("its first line is wrong"))?;
    if format > FORMAT_VERSION {
        return Err(Error::new(
            ErrorKind::NewerFormat,
            format!("it has format version {format}, this program knows versions up to {FORMAT_VERSION}"),
        ));
    }
    let at = rest.rfind("checksum ").ok_or_else(|| bad("it has no checksum"))?;
    let sum = checksum(&bytes[..text.len() - rest.len() + at]);
    if rest.get(at..) != Some(&format!("checksum {sum:08x}\n")) {
        return Err(bad("wrong checksum"));
    }
    decode(&rest[..at]).ok_or_else(|| bad("a line is not known"))
}

fn print(first_line: &str, lines: &str) -> String {
    let text = format!("{first_line}{FORMAT_VERSION}\n{lines}");
    let sum = checksum(text.as_bytes());
    text + &format!("checksum {sum:08x}\n")
}

fn write_text(vfs: &Arc<dyn Vfs>, dir: &Path, name: &str, first_line: &str, lines: &str) -> Result<()> {
    replace_small(&**vfs, &dir.join(name), print(first_line, lines).as_bytes())
}

#[cfg(test)]
mod tests {
    use resurgam_vfs::{OpenMode, SimVfs};

    use super::*;

    #[test]
    fn round_trip_and_damage() -> Result<()> {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let dir = Path::new("/db");
        vfs.make_folder(dir)?;
        assert_eq!(LogOwner::read(&vfs, dir)?, None);
        assert_eq!(read_log_place(&vfs, dir)?, None);
        let owner = LogOwner { database_id: *b"0123456789abcdef", epoch: 77 };
        owner.write(&vfs, dir)?;
        assert_eq!(LogOwner::read(&vfs, dir)?, Some(owner));
        for place in ["/disk 2/checksum log", "log2"] {
            write_log_place(&vfs, dir, Path::new(place))?;
            assert_eq!(read_log_place(&vfs, dir)?, Some(PathBuf::from(place)));
        }
        for name in [LOG_OWNER, LOG_PLACE] {
            let file = vfs.open(&dir.join(name), OpenMode::ReadWrite)?;
            let mut bytes = vec![0; file.len()? as usize];
            file.read_exact_at(&mut bytes, 0)?;
            for at in 0..bytes.len() {
                file.write_at(&[bytes[at] ^ 1], at as u64)?;
                assert!(
                    LogOwner::read(&vfs, dir).is_err() || read_log_place(&vfs, dir).is_err(),
                    "byte {at} of {name}"
                );
                file.write_at(&bytes[at..=at], at as u64)?;
            }
        }
        let bad = write_log_place(&vfs, dir, Path::new("a\nb"));
        assert_eq!(bad.err().map(|e| e.kind()), Some(ErrorKind::InvalidParameter));
        Ok(())
    }

    #[test]
    fn ids_as_text() {
        let id = *b"\x00\x01\xfe\xff0123456789ab";
        assert_eq!(from_hex(&to_hex(&id)), Some(id));
        for bad in ["", "00", "+0112233445566778899aabbccddeeff", "0011223344556677889 aabbccddeeffé"] {
            assert_eq!(from_hex(bad), None);
        }
    }
}
