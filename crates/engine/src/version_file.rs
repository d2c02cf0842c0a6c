//! Which version-store file an open uses: the recorded one, one that was moved, a new one.
//!
//! A file belongs to the database if its header has the database's id. Its number tells the
//! files of one database apart: the ids of its pages carry it, so that a pointer into a file
//! that was given up never meets a page of the next one. Its epoch tells the file in use
//! from an old copy of it (see `resurgam_page::version_file`).
//!
//! A recorded file that is missing, or is not the right one, fails the open: most likely its
//! disk is not mounted. Nothing committed is in it, but rows under aborted transactions may
//! have their committed version there and nowhere else. Only `version_store_lost` gives it up.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, PageId, Result, limits::PAGE_SIZE};
use resurgam_page::boot::Boot;
use resurgam_page::version_file::{self, VersionFileHeader};
use resurgam_recovery::{VERSION_RECORD, VersionRecord};
use resurgam_vfs::{File, FileLock, OpenMode, Vfs};

use crate::kept_header;
use crate::options::Options;

/// Name of the file in the spare folder that takes the place of one whose device died.
pub(crate) const REPLACEMENT: &str = "version-store-file";
/// Behind the name of a file that is being made.
pub(crate) const NOT_YET: &str = ".resurgam-new";

/// Names in the data folder that are the database's own, though the files may not be there yet (`database.rs` lists them).
const OWN_NAMES: [&str; 9] =
    ["lock", "control", "data", "doublewrite", "log", "log-place", VERSION_RECORD, "creating", "restoring"];

/// The file to use.
pub(crate) struct Attached {
    /// As opened: in full, or relative to the working directory as the data folder is.
    pub path: PathBuf,
    pub file: Arc<dyn File>,
    pub header: VersionFileHeader,
    pub lock: Box<dyn FileLock>,
}

/// What an open knows when it looks for the file.
pub(crate) struct Search<'a> {
    pub vfs: &'a Arc<dyn Vfs>,
    pub dir: &'a Path,
    pub boot: &'a Boot,
    /// The data folder's log epoch, from its control file.
    pub epoch: u32,
    /// The epoch that this open will write under.
    pub next_epoch: u32,
    /// First version-store page never given out, as the log has it.
    pub high_water: PageId,
    pub options: &'a Options,
}

impl Search<'_> {
    /// Finds it, or makes and records it. `None`: version pages go to the data file.
    ///
    /// # Errors
    /// Those of the module's text, each naming the file and what to do.
    pub fn run(&self) -> Result<Option<Attached>> {
        let asked = self.options.version_store_path.as_deref();
        let logged = u32::try_from(self.high_water.file()).unwrap_or(u32::MAX);
        let record = match VersionRecord::read(self.vfs, self.dir) {
            // What it says is found out from the file itself.
            Err(error) if asked.is_some() && error.kind() == ErrorKind::Corrupt => {
                tracing::warn!("{error}; the file given by version_store_path is used if it is the right one");
                return self.known(logged.max(1), None);
            }
            other => other?,
        };
        match record {
            None if logged == 0 => self.first(0),
            None => self.known(logged, None),
            Some(VersionRecord { number, path: None }) => self.first(number),
            Some(VersionRecord { number, path: Some(path) }) => self.known(number.max(logged), Some(&path)),
        }
    }

    fn at(&self, path: &Path) -> PathBuf {
        self.dir.join(path)
    }

    /// None is in use; `number` is the newest that ever was.
    fn first(&self, number: u32) -> Result<Option<Attached>> {
        let Some(path) = self.options.version_store_path.as_deref() else { return Ok(None) };
        let full = self.at(path);
        // Checked before anything is made.
        if full.parent() == Some(self.dir)
            && full.file_name().is_some_and(|name| OWN_NAMES.iter().any(|own| name == *own))
        {
            let text =
                format!("the version store cannot be \"{}\": the database has another file there", full.display());
            return Err(
                Error::new(ErrorKind::InvalidParameter, text).with_hint("Give version_store_path another name.")
            );
        }
        let record = VersionRecord { number: number + 1, path: Some(path.to_path_buf()) };
        if !self.vfs.exists(&full)? {
            self.create(&full, number + 1)?;
            tracing::info!("made the version store \"{}\"", full.display());
        }
        let attached = self.open(&full).map_err(|error| match error.kind() {
            ErrorKind::InUse => error,
            _ => error.with_hint("Name a file that does not exist yet; it is made."),
        })?;
        if attached.header.number <= number {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("the version store \"{}\" of this database was given up as lost earlier", full.display()),
            )
            .with_hint("Name a file that does not exist yet; it is made."));
        }
        VersionRecord { number: attached.header.number, ..record }.write(self.vfs, self.dir)?;
        Ok(Some(attached))
    }

    /// File `number` is in use, recorded at `recorded` (if that is known).
    fn known(&self, number: u32, recorded: Option<&Path>) -> Result<Option<Attached>> {
        let asked = self.options.version_store_path.as_deref();
        // The device of the one that is asked for died, and another one took its place: that one it is, also when the old
        // one is back as it was.
        let replaced = recorded
            .filter(|path| path.file_name() == Some(OsStr::new(REPLACEMENT)) && asked.is_some_and(|a| a != *path));
        if let Some(path) = replaced
            && let Ok(attached) = self.right_one(&self.at(path), number, recorded)
        {
            tracing::warn!("the version store was replaced by \"{}\", which is used", attached.path.display());
            return Ok(Some(attached));
        }
        let found = match asked.or(recorded) {
            Some(path) => self.right_one(&self.at(path), number, recorded).map(|attached| (path, attached)),
            None => Err(Error::corrupt(format!(
                "the file \"{}\" is missing: it says where the version store is, which the log has pages of",
                self.dir.join(VERSION_RECORD).display()
            ))
            .with_hint(
                "Restore it, or name the version-store file with the option version_store_path. If that file is \
                 lost, open with version_store_lost: rows under aborted transactions may be lost with it.",
            )),
        };
        match found {
            Ok((path, attached)) => {
                if recorded != Some(path) {
                    tracing::info!("the version store is now \"{}\"", attached.path.display());
                    let record = VersionRecord { number: attached.header.number, path: Some(path.to_path_buf()) };
                    record.write(self.vfs, self.dir)?;
                }
                Ok(Some(attached))
            }
            Err(error) if self.options.version_store_lost && error.kind() != ErrorKind::InUse => {
                tracing::error!("the version store is given up as lost: {error}");
                VersionRecord { number, path: None }.write(self.vfs, self.dir)?;
                self.first(number)
            }
            Err(error) => Err(error),
        }
    }

    /// Opens the file at `path`, which must be number `number` and up to date.
    fn right_one(&self, path: &Path, number: u32, recorded: Option<&Path>) -> Result<Attached> {
        const LOST: &str = "If it is lost for good, open with version_store_lost: rows under aborted transactions \
                            whose earlier version was in it are lost, everything else is there.";
        if !self.vfs.exists(path)? {
            let was = recorded.map(|r| self.at(r)).filter(|was| was != path);
            let (text, hint) = match was {
                None => (
                    format!("the version store \"{}\" is missing", path.display()),
                    format!(
                        "Mount its disk or put the file back; if it was moved, give its place with version_store_path. {LOST}"
                    ),
                ),
                Some(was) => (
                    format!("the version store is \"{}\", and \"{}\" does not exist", was.display(), path.display()),
                    format!("Leave version_store_path out, or move the file there first. {LOST}"),
                ),
            };
            return Err(Error::new(ErrorKind::Io, text).with_hint(hint));
        }
        let attached = self.open(path).map_err(|error| match error.kind() {
            ErrorKind::InUse => error,
            _ => error.with_hint(format!("Put the right file there. {LOST}")),
        })?;
        match check(&attached.header, path, number, self.epoch, self.next_epoch) {
            Ok(()) => Ok(attached),
            Err(error) => Err(error.with_hint(format!("Put the right file there. {LOST}"))),
        }
    }

    /// Opens a file of this database and locks it.
    fn open(&self, path: &Path) -> Result<Attached> {
        let file = self.vfs.open(path, OpenMode::ReadWrite)?;
        let header = header_of(&*file, path)?;
        if header.database_id != self.boot.database_id {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("\"{}\" is the version store of another database", path.display()),
            ));
        }
        let lock = self.vfs.lock(path).map_err(|error| match error.kind() {
            ErrorKind::InUse => {
                let in_use = Error::new(
                    ErrorKind::InUse,
                    format!("the version store \"{}\" is in use by another process", path.display()),
                )
                .with_hint("A copy of a data folder needs a version-store file of its own.");
                match error.detail() {
                    Some(holder) => in_use.with_detail(holder),
                    None => in_use,
                }
            }
            _ => error,
        })?;
        Ok(Attached { path: path.to_path_buf(), file, header, lock })
    }

    /// Makes the file beside its place and renames it, so that it is there whole or not.
    fn create(&self, path: &Path, number: u32) -> Result<()> {
        let header = VersionFileHeader {
            number,
            database_id: self.boot.database_id,
            created_us: self.vfs.wall_clock_us(),
            epoch: self.epoch,
        };
        let mut page = vec![0; PAGE_SIZE];
        page[..version_file::SIZE].copy_from_slice(&header.encode());
        let mut name = path.file_name().unwrap_or_default().to_os_string();
        name.push(NOT_YET);
        let beside = path.with_file_name(name);
        let file = self.vfs.open(&beside, OpenMode::Create)?;
        file.set_len(0)?;
        file.write_at(&page, 0)?;
        file.sync()?;
        self.vfs.rename(&beside, path)?;
        self.vfs.sync_dir(path.parent().unwrap_or(Path::new("")))
    }
}

fn header_of(file: &dyn File, path: &Path) -> Result<VersionFileHeader> {
    let mut bytes = [0; version_file::SIZE];
    let read = file.read_at(&mut bytes, 0)?;
    VersionFileHeader::decode(&bytes[..read]).map_err(|error| {
        Error::new(
            error.kind(),
            format!("\"{}\" cannot be used as the version store: {}", path.display(), error.message()),
        )
    })
}

/// What the file says of itself.
///
/// # Errors
/// `NotADatabase`, `Corrupt`, `NewerFormat`; those of reading.
pub(crate) fn read_header(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<VersionFileHeader> {
    header_of(&*vfs.open(path, OpenMode::ReadOnly)?, path)
}

/// That a file of this database is number `number`, and was in use when the data folder's `epoch` was, or is by an open of `next_epoch` that
/// did not get farther.
///
/// # Errors
/// `Corrupt`, saying what is wrong.
pub(crate) fn check(found: &VersionFileHeader, path: &Path, number: u32, epoch: u32, next_epoch: u32) -> Result<()> {
    let why = if found.number != number {
        format!("it is number {} of this database's version stores, number {number} is in use", found.number)
    } else if found.epoch < epoch {
        "it is an old copy: the database was opened with another one since".to_owned()
    } else if found.epoch > next_epoch {
        "it is newer than the data folder, as after restoring one without the other".to_owned()
    } else {
        return Ok(());
    };
    Err(Error::corrupt(format!("the version store \"{}\" cannot be used: {why}", path.display())))
}

impl Attached {
    /// Writes the epoch of this open into the header: before the control file has it.
    pub fn set_epoch(&mut self, epoch: u32) -> Result<()> {
        self.header.epoch = epoch;
        kept_header::write(&*self.file, &self.header.encode())
    }
}
