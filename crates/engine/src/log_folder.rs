//! Which folder the log is in: the data folder's `log`, or one of its own (on another disk, so that one
//! of the two can die alone).
//!
//! | asked for | noted | the log is |
//! |---|---|---|
//! | nothing | nothing | in `DIR/log` |
//! | nothing | P | in P |
//! | P | P | in P |
//! | Q | P or nothing | in Q if it was moved there: Q holds this database's log. Then Q is noted |
//! | Q | (a new database) | in Q, which must be empty or missing |
//!
//! A folder of its own holds a file that says whose it is (`recovery/src/log_place.rs`), so another database's
//! folder, an old copy, and the empty mount point of a missing disk are told from the right one, and two
//! processes never write one log. Nothing is changed before analysis has read the log in full.
//!
//! A folder that is *shared* (a landing zone, `log_zone.rs`) is locked by a lease instead, and its file has no epoch that counts.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_page::boot::Boot;
use resurgam_recovery::{Control, LOG_OWNER, LOG_PLACE, LogOwner, check_log_place, read_log_place, write_log_place};
use resurgam_vfs::{FileLock, OpenMode, Vfs};

/// Name of the folder within the data folder.
pub(crate) const LOG: &str = "log";
/// Locked while a process has the log open.
const LOCK: &str = "lock";
const LOST: &str = "Mount its disk or put the folder back; if it was moved, give its place with log_dir.";

/// The folder to use.
pub(crate) struct LogFolder {
    pub path: PathBuf,
    database_id: [u8; 16],
    /// It is not the data folder's.
    own: bool,
    /// Of a folder of its own, unless that is shared.
    lock: Option<Box<dyn FileLock>>,
    /// To be noted as the place.
    note: Option<PathBuf>,
}

impl LogFolder {
    /// Finds the log of an existing database; changes nothing. Without a boot page it is not known whose log it should be.
    ///
    /// # Errors
    /// Those of the module's text, each naming the folder and what to do.
    pub fn find(
        vfs: &Arc<dyn Vfs>,
        dir: &Path,
        asked: Option<&Path>,
        boot: Option<&Boot>,
        control: &Control,
        shared: bool,
    ) -> Result<Self> {
        let noted = match read_log_place(vfs, dir) {
            // What it says is found out from the folder itself.
            Err(error) if asked.is_some() && error.kind() == ErrorKind::Corrupt => {
                tracing::warn!("{error}; the folder given by log_dir is used if it is the right one");
                None
            }
            other => other?,
        };
        let old = noted.as_deref().unwrap_or(Path::new(LOG));
        let place = asked.unwrap_or(old);
        let path = dir.join(place);
        let same = path == dir.join(old);
        if !vfs.exists(&path)? {
            return Err(match (same, noted.is_some()) {
                (true, false) => Error::corrupt(format!("the folder of the log, \"{}\", is missing", path.display()))
                    .with_hint("Put it back if it was moved away; otherwise restore the data folder from a backup."),
                (true, true) => {
                    Error::new(ErrorKind::Io, format!("the folder of the log, \"{}\", is missing", path.display()))
                        .with_hint(LOST)
                }
                (false, _) => not_there(&path, &dir.join(old), "does not exist"),
            });
        }
        if same && noted.is_none() {
            // In the data folder, as ever.
            return Ok(Self {
                path,
                database_id: boot.map_or([0; 16], |boot| boot.database_id),
                own: false,
                lock: None,
                note: None,
            });
        }
        let names = vfs.list(&path)?;
        if !names.iter().any(|name| name.ends_with(".log")) {
            let empty = "holds no log: it is empty, or its disk is not mounted";
            return Err(match same {
                true => Error::new(ErrorKind::Io, format!("the folder of the log, \"{}\", {empty}", path.display()))
                    .with_hint(LOST),
                false => not_there(&path, &dir.join(old), empty),
            });
        }
        vfs.keep_private(&path, false)?;
        let owner = LogOwner::read(vfs, &path)?;
        match owner {
            // A shared one is not told its epoch.
            Some(owner) => check_owner(
                &path,
                LogOwner { epoch: if shared { u32::MAX } else { owner.epoch }, ..owner },
                boot,
                control,
            )?,
            // It was in the data folder until now, where no such file is.
            None if !same && noted.is_none() => {
                if has_log(vfs, &dir.join(LOG))? {
                    return Err(not_there(&path, &dir.join(LOG), "holds one as well"));
                }
            }
            None => {
                let file = path.join(LOG_OWNER);
                return Err(Error::corrupt(format!(
                    "the file \"{}\" is missing, which says whose log that is",
                    file.display()
                ))
                .with_hint("Put the right folder there, or restore that file."));
            }
        }
        check_log_place(place)?;
        let lock = if shared { None } else { Some(lock(vfs, &path)?) };
        let note = (noted.as_deref() != Some(place)).then(|| place.to_path_buf());
        let of_owner = owner.map_or([0; 16], |owner| owner.database_id);
        Ok(Self { path, database_id: boot.map_or(of_owner, |boot| boot.database_id), own: true, lock, note })
    }

    /// Whether it is a folder of its own, beside the data folder.
    pub fn is_own(&self) -> bool {
        self.own
    }

    /// Whose log it is, where that was not known before it was read.
    pub fn is_of(&mut self, database_id: [u8; 16]) {
        self.database_id = database_id;
    }

    /// The log is the right one, and is about to be written under `epoch`: notes both. Before the control file
    /// has that epoch.
    ///
    /// # Errors
    /// Those of writing.
    pub fn take(&mut self, vfs: &Arc<dyn Vfs>, dir: &Path, epoch: u32) -> Result<()> {
        if !self.own {
            return Ok(());
        }
        // A shared one may have been moved there; its epoch counts for nothing.
        if self.lock.is_some() || LogOwner::read(vfs, &self.path)?.is_none() {
            LogOwner { database_id: self.database_id, epoch }.write(vfs, &self.path)?;
        }
        if let Some(place) = self.note.take() {
            tracing::info!("the log is now in \"{}\"", self.path.display());
            write_log_place(vfs, dir, &place)?;
        }
        Ok(())
    }

    pub fn into_lock(self) -> Option<Box<dyn FileLock>> {
        self.lock
    }

    /// Makes the folder of a new database's log, and notes whose and where it is. `made_before`: a crash
    /// ended an attempt to make the database under this id; what that left in the folder goes.
    ///
    /// # Errors
    /// `InvalidParameter` when the folder holds anything else; those of writing.
    pub fn create(
        vfs: &Arc<dyn Vfs>,
        dir: &Path,
        asked: Option<&Path>,
        id: [u8; 16],
        made_before: Option<[u8; 16]>,
        shared: bool,
    ) -> Result<PathBuf> {
        let Some(place) = asked.filter(|place| dir.join(place) != dir.join(LOG)) else {
            return Ok(dir.join(LOG));
        };
        check_log_place(place)?;
        let path = dir.join(place);
        vfs.make_folder(&path)?;
        let _lock = if shared { None } else { Some(lock(vfs, &path)?) };
        let mut names = vfs.list(&path)?;
        names.retain(|name| name != "lost+found" && name != LOCK);
        if !names.is_empty() {
            // Whoever dies before the file is in place leaves what is written beside it.
            let beside = format!("{LOG_OWNER}.new");
            let own = match LogOwner::read(vfs, &path)? {
                Some(owner) => Some(owner.database_id) == made_before,
                None => made_before.is_some() && names == [beside],
            };
            if !own {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    format!("the folder for the log, \"{}\", is not empty", path.display()),
                )
                .with_hint("A new database needs an empty or new folder for its log."));
            }
            for name in names.iter().filter(|name| *name != LOG_OWNER) {
                vfs.remove(&path.join(name))?;
            }
        }
        vfs.keep_private(&path, names.is_empty())?;
        LogOwner { database_id: id, epoch: 1 }.write(vfs, &path)?;
        write_log_place(vfs, dir, place)?;
        Ok(path)
    }

    /// Removes what an unfinished attempt to make a database noted.
    ///
    /// # Errors
    /// Those of removing.
    pub fn forget(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<()> {
        for name in [LOG_PLACE.to_owned(), format!("{LOG_PLACE}.new")] {
            if vfs.exists(&dir.join(&name))? {
                vfs.remove(&dir.join(&name))?;
            }
        }
        Ok(())
    }
}

/// Whether a folder of that name holds log segments.
fn has_log(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<bool> {
    Ok(vfs.exists(path)? && vfs.list(path)?.iter().any(|name| name.ends_with(".log")))
}

fn not_there(path: &Path, old: &Path, what: &str) -> Error {
    Error::new(
        ErrorKind::Io,
        format!("the log of this database is in \"{}\", and \"{}\" {what}", old.display(), path.display()),
    )
    .with_hint("Leave log_dir out, or stop the server and move the folder there first.")
}

fn check_owner(path: &Path, owner: LogOwner, boot: Option<&Boot>, control: &Control) -> Result<()> {
    if boot.is_some_and(|boot| owner.database_id != boot.database_id) {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("\"{}\" holds the log of another database", path.display()),
        )
        .with_hint("Name the folder that holds this one's log."));
    }
    if owner.epoch < control.epoch {
        return Err(Error::corrupt(format!(
            "the log in \"{}\" is an old copy: the database was opened with another one since",
            path.display()
        ))
        .with_hint("Put the right folder there."));
    }
    Ok(())
}

fn lock(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<Box<dyn FileLock>> {
    vfs.lock(&path.join(LOCK)).map_err(|error| match error.kind() {
        ErrorKind::InUse => {
            let in_use =
                Error::new(ErrorKind::InUse, format!("the log in \"{}\" is in use by another process", path.display()))
                    .with_hint("A copy of a data folder needs a folder of its own for its log.");
            match error.detail() {
                Some(holder) => in_use.with_detail(holder),
                None => in_use,
            }
        }
        _ => error,
    })
}

/// The id under which a database is being made, in the marker of that; none in one that a crash cut off.
pub(crate) fn id_of_marker(vfs: &Arc<dyn Vfs>, marker: &Path) -> Result<Option<[u8; 16]>> {
    let mut id = [0; 16];
    let read = vfs.open(marker, OpenMode::ReadOnly)?.read_at(&mut id, 0)?;
    Ok((read == id.len() && id != [0; 16]).then_some(id))
}
