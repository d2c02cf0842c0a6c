//! The file that says that a folder's pages are still being restored, and from where: `DIR/restore`.
//!
//! ```text
//! Resurgam restore, format 1
//! kind media                    media, point or clone
//! database 00112233…            whose archive and backups (32 hexadecimal digits)
//! archive /archive              a URL
//! backups file:///backups       } left out where there is none
//! backup 20261123-1             }
//! as-of 123456                  } the cut, of a point or a clone
//! data-pages 4096               pages of the data file; 0 = it is not restored
//! version-pages 1 512           number and pages of the version-store file, where that is restored
//! background yes                no = pages are restored only as they are asked for
//! checksum 0f3c9a11             CRC-32C of the lines above, in hexadecimal
//! ```
//!
//! # Invariants
//! 1. It is durable before the sparse file that it speaks of has its name: a data file whose segments are not all
//!    there is never without it.
//! 2. It is removed only when every segment is in the file and synced, and a checkpoint has the pages that lack log.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, checksum};
use resurgam_vfs::{OpenMode, Vfs};

/// Its name in the data folder.
pub const ORIGIN: &str = "restore";
const FIRST_LINE: &str = "Resurgam restore, format ";
const FORMAT_VERSION: u32 = 1;
const BYTES_MAX: u64 = 64 << 10;

/// Why a folder is being restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OriginKind {
    /// A device died: up to the end of the log.
    Media,
    /// A point in time, in a new folder.
    Point,
    /// A clone.
    Clone,
}

/// What it says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    pub kind: OriginKind,
    /// Whose archive and backups they are.
    pub database_id: [u8; 16],
    /// URL of the archive.
    pub archive: String,
    /// URL of the backups.
    pub backups: Option<String>,
    /// Name of the backup; `None`: the newest that fits.
    pub backup: Option<String>,
    /// The cut of a point or a clone; `None` (media): the end of the archive at each open.
    pub as_of: Option<Lsn>,
    /// Pages of the data file; 0 = it is not restored.
    pub data_pages: u64,
    /// Number and pages of the version-store file, where that is restored.
    pub version_pages: Option<(u32, u64)>,
    /// Restored in the background as well; false: only as asked for.
    pub background: bool,
}

impl Origin {
    /// Reads it from the data folder `dir`; `None` when it is not there.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, those of reading a file.
    pub fn read(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(ORIGIN);
        if !vfs.exists(&path)? {
            return Ok(None);
        }
        let file = vfs.open(&path, OpenMode::ReadOnly)?;
        let mut bytes = vec![0; file.len()?.min(BYTES_MAX) as usize];
        let read = file.read_at(&mut bytes, 0)?;
        bytes.truncate(read);
        Self::decode(&bytes).map(Some).map_err(|error| {
            let what = format!("the file \"{}\" cannot be used: {}", path.display(), error.message());
            Error::new(error.kind(), what).with_hint(
                "It says what the restore of this folder is made from. Restore it, or begin anew in an empty folder.",
            )
        })
    }

    /// Replaces it and makes that durable.
    ///
    /// # Errors
    /// `InvalidParameter` for a URL or name with a line break; those of writing.
    pub fn write(&self, vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
        let text = self.encode()?;
        let beside = dir.join(format!("{ORIGIN}.new"));
        let file = vfs.open(&beside, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_at(text.as_bytes(), 0)?;
        file.sync()?;
        vfs.rename(&beside, &dir.join(ORIGIN))?;
        vfs.sync_dir(dir)
    }

    /// Removes it and makes that durable: the folder is whole.
    ///
    /// # Errors
    /// Those of removing.
    pub fn remove(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
        vfs.remove(&dir.join(ORIGIN))?;
        vfs.sync_dir(dir)
    }

    /// As the file holds it.
    ///
    /// # Errors
    /// `InvalidParameter` for a URL or name with a line break.
    pub fn encode(&self) -> Result<String> {
        let kind = match self.kind {
            OriginKind::Media => "media",
            OriginKind::Point => "point",
            OriginKind::Clone => "clone",
        };
        let id: String = self.database_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let mut text = format!("{FIRST_LINE}{FORMAT_VERSION}\nkind {kind}\ndatabase {id}\n");
        let named =
            [("archive", Some(&self.archive)), ("backups", self.backups.as_ref()), ("backup", self.backup.as_ref())];
        for (name, value) in named {
            let Some(value) = value else { continue };
            if value.is_empty() || value.contains(['\n', '\r']) {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    format!("{name} {value:?} is empty or has a line break"),
                ));
            }
            text += &format!("{name} {value}\n");
        }
        if let Some(as_of) = self.as_of {
            text += &format!("as-of {}\n", as_of.0);
        }
        text += &format!("data-pages {}\n", self.data_pages);
        if let Some((number, pages)) = self.version_pages {
            text += &format!("version-pages {number} {pages}\n");
        }
        text += if self.background { "background yes\n" } else { "background no\n" };
        let sum = checksum(text.as_bytes());
        Ok(text + &format!("checksum {sum:08x}\n"))
    }

    /// The inverse of [`Origin::encode`].
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
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
        let (mut kind, mut id, mut archive, mut data_pages, mut background) = (None, None, None, None, None);
        let (mut backups, mut backup, mut as_of, mut version_pages) = (None, None, None, None);
        for line in text[..at].lines().skip(1) {
            let (name, value) = line.split_once(' ').ok_or_else(|| bad("a line is not known"))?;
            let number = || value.parse::<u64>().map_err(|_| bad("a number is wrong"));
            match name {
                "kind" => {
                    kind = Some(match value {
                        "media" => OriginKind::Media,
                        "point" => OriginKind::Point,
                        "clone" => OriginKind::Clone,
                        _ => return Err(bad("its kind is not known")),
                    });
                }
                "database" => id = Some(from_hex(value).ok_or_else(|| bad("its database id is wrong"))?),
                "archive" => archive = Some(value.to_owned()),
                "backups" => backups = Some(value.to_owned()),
                "backup" => backup = Some(value.to_owned()),
                "as-of" => as_of = Some(Lsn(number()?)),
                "data-pages" => data_pages = Some(number()?),
                "version-pages" => {
                    let parsed =
                        value.split_once(' ').and_then(|(n, pages)| Some((n.parse().ok()?, pages.parse().ok()?)));
                    let known = parsed.filter(|(n, _): &(u32, u64)| *n > 0 && u64::from(*n) < PageId::FILES_MAX);
                    version_pages = Some(known.ok_or_else(|| bad("its version-store file is wrong"))?);
                }
                "background" => {
                    background = Some(match value {
                        "yes" => true,
                        "no" => false,
                        _ => return Err(bad("a line is not known")),
                    });
                }
                _ => return Err(bad("a line is not known")),
            }
        }
        match (kind, id, archive, data_pages, background) {
            (Some(kind), Some(database_id), Some(archive), Some(data_pages), Some(background)) => {
                Ok(Self { kind, database_id, archive, backups, backup, as_of, data_pages, version_pages, background })
            }
            _ => Err(bad("a line is missing")),
        }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() -> Result<()> {
        let media = Origin {
            kind: OriginKind::Media,
            database_id: [7; 16],
            archive: "/the archive".into(),
            backups: None,
            backup: None,
            as_of: None,
            data_pages: 4096,
            version_pages: None,
            background: true,
        };
        let clone = Origin {
            kind: OriginKind::Clone,
            backups: Some("file:///b".into()),
            backup: Some("b1 checksum x".into()),
            as_of: Some(Lsn(u64::MAX)),
            data_pages: 0,
            version_pages: Some((3, 9)),
            background: false,
            ..media.clone()
        };
        for origin in [media.clone(), Origin { kind: OriginKind::Point, ..clone.clone() }, clone] {
            let text = origin.encode()?;
            assert_eq!(Origin::decode(text.as_bytes())?, origin);
            for at in 0..text.len() {
                let mut bad = text.clone().into_bytes();
                bad[at] ^= 1;
                assert!(Origin::decode(&bad).is_err(), "byte {at}");
                assert!(Origin::decode(&bad[..at]).is_err(), "cut {at}");
            }
        }
        for archive in ["", "a\nb"] {
            let refused = Origin { archive: archive.into(), ..media.clone() }.encode();
            assert_eq!(refused.err().map(|e| e.kind()), Some(ErrorKind::InvalidParameter));
        }
        let newer = media.encode()?.replace("format 1", "format 2");
        assert_eq!(Origin::decode(newer.as_bytes()).err().map(|e| e.kind()), Some(ErrorKind::NewerFormat));
        Ok(())
    }
}
