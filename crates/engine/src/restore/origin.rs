//! The file that says that a folder's pages are still being restored, and from where: `DIR/restore`.
//!
//! ```text
//! Resurgam restore, format 1    2, where it has a parent; 3, where it says how the archive of another database is used
//! kind media                    media, point or clone
//! database 00112233…            whose archive and backups (32 hexadecimal digits)
//! archive /archive              a URL
//! backups file:///backups       } left out where there is none
//! backup 20261123-1             }
//! as-of 123456                  } the cut, of a point or a clone
//! layered yes                   } its pages begin as those of the database that its own was made of, which its archive names
//! archive-from 4096             } LSN: that archive must not begin later
//! data-pages 4096               pages of the data file; 0 = it is not restored
//! version-pages 1 512           number and pages of the version-store file, where that is restored
//! background yes                no = pages are restored only as they are asked for
//! parent-kind clone             } of a folder that was made of another database and whose device died before all pages were
//! parent-database 00112233…     } there: point or clone; whose pages its own archive goes on from, and as of when
//! parent-archive /archive       }
//! parent-backups file:///b      } left out where there is none
//! parent-backup 20261123-1      }
//! parent-as-of 123456           }
//! parent-layered yes            } as layered and archive-from; left out where there is nothing to say
//! parent-archive-from 4096      }
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
use resurgam_vfs::{Vfs, read_small, replace_small};

use super::marks::{MARKS, Marks};
use super::parent::ParentSource;
use crate::points::end_folder_lease;

/// Its name in the data folder.
pub const ORIGIN: &str = "restore";
const FIRST_LINE: &str = "Resurgam restore, format ";
const FORMAT_VERSION: u32 = 3;
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
    /// Of a point or a clone: the pages of the database that it is made of begin as another one's, which that one's archive names.
    pub layered: bool,
    /// Of a point or a clone: that archive must not begin later; `None`: that was not noted.
    pub archive_from: Option<Lsn>,
    /// Pages of the data file; 0 = it is not restored.
    pub data_pages: u64,
    /// Number and pages of the version-store file, where that is restored.
    pub version_pages: Option<(u32, u64)>,
    /// Restored in the background as well; false: only as asked for.
    pub background: bool,
    /// Of a media restore: what the pages come from that are in no archive of its own.
    pub parent: Option<ParentSource>,
}

impl OriginKind {
    fn name(self) -> &'static str {
        match self {
            Self::Media => "media",
            Self::Point => "point",
            Self::Clone => "clone",
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        [Self::Media, Self::Point, Self::Clone].into_iter().find(|kind| kind.name() == name)
    }
}

fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Adds a line for each that there is.
fn push_named(text: &mut String, named: &[(&str, Option<&String>)]) -> Result<()> {
    for (name, value) in named {
        let Some(value) = value else { continue };
        if value.is_empty() || value.contains(['\n', '\r']) {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("{name} {value:?} is empty or has a line break"),
            ));
        }
        *text += &format!("{name} {value}\n");
    }
    Ok(())
}

/// Adds what is noted of how an archive is used.
fn push_noted(text: &mut String, before: &str, layered: bool, archive_from: Option<Lsn>) {
    if layered {
        *text += &format!("{before}layered yes\n");
    }
    if let Some(from) = archive_from {
        *text += &format!("{before}archive-from {}\n", from.0);
    }
}

impl Origin {
    /// Reads it from the data folder `dir`; `None` when it is not there.
    ///
    /// # Errors
    /// `Corrupt`, `NewerFormat`, those of reading a file.
    pub fn read(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Option<Self>> {
        let path = dir.join(ORIGIN);
        let Some(bytes) = read_small(&**vfs, &path, BYTES_MAX)? else { return Ok(None) };
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
        replace_small(&**vfs, &dir.join(ORIGIN), self.encode()?.as_bytes())
    }

    /// That of a media restore of database `id`, which takes the place of `before`: what that has still to bring, it brings as well. What
    /// was to come from the database that this one was made of comes from there still, below the records of its own archive; where nothing was, `parent` says
    /// whether anything has to.
    pub fn media(
        before: Option<Self>,
        id: [u8; 16],
        archive: String,
        backups: Option<String>,
        parent: Option<ParentSource>,
    ) -> Self {
        if let Some(before) = before.as_ref().filter(|before| before.kind == OriginKind::Media) {
            return before.clone();
        }
        Self {
            kind: OriginKind::Media,
            database_id: id,
            archive,
            backups,
            backup: None,
            as_of: None,
            layered: false,
            archive_from: None,
            data_pages: before.as_ref().map_or(0, |before| before.data_pages),
            version_pages: before.as_ref().and_then(|before| before.version_pages),
            background: true,
            parent: before.as_ref().and_then(ParentSource::of).or(parent),
        }
    }

    /// Replaces it, with the marks that go with it. `anew`: the marks so far are another database's, which count for nobody once this is
    /// there; otherwise those of files that are made anew must go before.
    ///
    /// # Errors
    /// As [`Origin::write`].
    pub(super) fn write_with(&self, marks: &Marks, anew: bool, vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
        if anew {
            self.write(vfs, dir)?;
            return marks.write(vfs, dir);
        }
        marks.write(vfs, dir)?;
        self.write(vfs, dir)
    }

    /// Whether there is nothing that is to be restored: it was restored to the end, and a crash came before [`Origin::end`] did.
    pub fn is_over(&self) -> bool {
        self.data_pages == 0 && self.version_pages.is_none()
    }

    /// The folder of database `id` is whole: gives back what was kept for it, and removes what says that it is being restored. A lease
    /// that cannot be given back now stays until somebody does so.
    ///
    /// # Errors
    /// Those of removing.
    pub fn end(&self, vfs: &Arc<dyn Vfs>, dir: &Path, id: &[u8; 16]) -> Result<()> {
        if let Some(parent) = ParentSource::of(self) {
            end_folder_lease(vfs, dir, &parent, id);
        }
        if vfs.exists(&dir.join(MARKS))? {
            vfs.remove(&dir.join(MARKS))?;
        }
        vfs.remove(&dir.join(ORIGIN))?;
        vfs.sync_dir(dir)
    }

    /// As the file holds it.
    ///
    /// # Errors
    /// `InvalidParameter` for a URL or name with a line break.
    pub fn encode(&self) -> Result<String> {
        // Programs that know nothing of parents read what has none.
        let noted = |layered: bool, from: Option<Lsn>| layered || from.is_some();
        let of_parent = self.parent.as_ref().is_some_and(|parent| noted(parent.layered, parent.archive_from));
        let format = match &self.parent {
            _ if of_parent || noted(self.layered, self.archive_from) => FORMAT_VERSION,
            Some(_) => 2,
            None => 1,
        };
        let mut text =
            format!("{FIRST_LINE}{format}\nkind {}\ndatabase {}\n", self.kind.name(), hex(&self.database_id));
        push_named(
            &mut text,
            &[("archive", Some(&self.archive)), ("backups", self.backups.as_ref()), ("backup", self.backup.as_ref())],
        )?;
        if let Some(as_of) = self.as_of {
            text += &format!("as-of {}\n", as_of.0);
        }
        push_noted(&mut text, "", self.layered, self.archive_from);
        text += &format!("data-pages {}\n", self.data_pages);
        if let Some((number, pages)) = self.version_pages {
            text += &format!("version-pages {number} {pages}\n");
        }
        text += if self.background { "background yes\n" } else { "background no\n" };
        if let Some(parent) = &self.parent {
            text += &format!("parent-kind {}\nparent-database {}\n", parent.kind.name(), hex(&parent.database_id));
            let named = [
                ("parent-archive", Some(&parent.archive)),
                ("parent-backups", parent.backups.as_ref()),
                ("parent-backup", parent.backup.as_ref()),
            ];
            push_named(&mut text, &named)?;
            text += &format!("parent-as-of {}\n", parent.as_of.0);
            push_noted(&mut text, "parent-", parent.layered, parent.archive_from);
        }
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
        let mut parent = (None, None, None, None, None, None);
        let (mut noted, mut noted_of_parent) = ((false, None), (false, None));
        for line in text[..at].lines().skip(1) {
            let (name, value) = line.split_once(' ').ok_or_else(|| bad("a line is not known"))?;
            let number = || value.parse::<u64>().map_err(|_| bad("a number is wrong"));
            match name {
                "kind" => {
                    kind = Some(OriginKind::of_name(value).ok_or_else(|| bad("its kind is not known"))?);
                }
                "database" => id = Some(from_hex(value).ok_or_else(|| bad("its database id is wrong"))?),
                "archive" => archive = Some(value.to_owned()),
                "backups" => backups = Some(value.to_owned()),
                "backup" => backup = Some(value.to_owned()),
                "as-of" => as_of = Some(Lsn(number()?)),
                "parent-kind" if format > 1 => {
                    let of = OriginKind::of_name(value).filter(|kind| *kind != OriginKind::Media);
                    parent.0 = Some(of.ok_or_else(|| bad("its parent's kind is not known"))?);
                }
                "parent-database" if format > 1 => {
                    parent.1 = Some(from_hex(value).ok_or_else(|| bad("its parent's database id is wrong"))?);
                }
                "parent-archive" if format > 1 => parent.2 = Some(value.to_owned()),
                "parent-backups" if format > 1 => parent.3 = Some(value.to_owned()),
                "parent-backup" if format > 1 => parent.4 = Some(value.to_owned()),
                "parent-as-of" if format > 1 => parent.5 = Some(Lsn(number()?)),
                "layered" if format > 2 && value == "yes" => noted.0 = true,
                "archive-from" if format > 2 => noted.1 = Some(Lsn(number()?)),
                "parent-layered" if format > 2 && value == "yes" => noted_of_parent.0 = true,
                "parent-archive-from" if format > 2 => noted_of_parent.1 = Some(Lsn(number()?)),
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
        let parent = match parent {
            (None, None, None, None, None, None) if format != 2 => None,
            (Some(kind), Some(database_id), Some(archive), backups, backup, Some(as_of)) => {
                let (layered, archive_from) = noted_of_parent;
                Some(ParentSource { kind, database_id, archive, backups, backup, as_of, layered, archive_from })
            }
            _ => return Err(bad("a line of its parent is missing")),
        };
        match (kind, id, archive, data_pages, background) {
            (Some(kind), Some(database_id), Some(archive), Some(data_pages), Some(background)) => Ok(Self {
                kind,
                database_id,
                archive,
                backups,
                backup,
                as_of,
                layered: noted.0,
                archive_from: noted.1,
                data_pages,
                version_pages,
                background,
                parent,
            }),
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
            layered: false,
            archive_from: None,
            data_pages: 4096,
            version_pages: None,
            background: true,
            parent: None,
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
        let layered = Origin { parent: ParentSource::of(&clone), ..media.clone() };
        assert!(
            layered.parent.is_some()
                && layered.parent == ParentSource::of(&layered)
                && ParentSource::of(&media).is_none()
        );
        assert!(layered.encode()?.contains("format 2\n") && media.encode()?.contains("format 1\n"));
        let noted = Origin { layered: true, archive_from: Some(Lsn(4096)), ..clone.clone() };
        let deep = Origin { parent: ParentSource::of(&noted), ..media.clone() };
        assert!(noted.encode()?.contains("format 3\n") && deep.encode()?.contains("parent-layered yes\n"));
        for origin in [media.clone(), layered, noted, deep, Origin { kind: OriginKind::Point, ..clone.clone() }, clone]
        {
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
        let newer = media.encode()?.replace("format 1", "format 4");
        assert_eq!(Origin::decode(newer.as_bytes()).err().map(|e| e.kind()), Some(ErrorKind::NewerFormat));
        Ok(())
    }
}
