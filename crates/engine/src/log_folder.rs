//! Which folder the log is in: the data folder's `log`, or one of its own (on another disk, so that one
//! of the two can die alone).
//!
//! | asked for | noted | the log is |
//! |---|---|---|
//! | nothing | nothing | in `DIR/log` |
//! | nothing | P | in P |
//! | P | P | in P |
//! | Q | P or nothing | in Q if it was moved there: Q holds this database's log. Then Q is noted |
//! | Q | (a new database) | in Q, which must be empty or missing, or hold what an unfinished first open left |
//!
//! A folder of its own holds a file that says whose it is (`recovery/src/log_place.rs`), so another database's
//! folder, an old copy, and the empty mount point of a missing disk are told from the right one, and two
//! processes never write one log. Nothing is changed before analysis has read the log in full.
//!
//! A folder that is *shared* (a landing zone, `log_zone.rs`) is locked by a lease instead, and its file has no epoch that counts, but for one:
//!
//! # What an unfinished first open leaves
//! The file is the first in the folder and says [`BEING_MADE`] until somebody opens the database, which is before anything can be acknowledged. A
//! folder of which it says that is emptied by whoever is to make a database there, holds its lock or lease, and finds no other sign of an opening:
//! no copy of a control file, no segment of an opening's own. The process that left it may be alive: it has lost the lock, or the lease.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Result};
use resurgam_log::segment_epoch_of;
use resurgam_page::boot::Boot;
use resurgam_recovery::{
    BEING_MADE, Control, LOG_OWNER, LOG_PLACE, LogOwner, check_log_place, read_log_place, write_log_place,
};
use resurgam_vfs::{FileLock, OpenMode, Vfs};

use crate::log_zone::LogZone;

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
            // Whoever was making another database when the lease was taken from him may have written it since.
            Some(owner) if shared && owner.epoch == BEING_MADE => {}
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

    /// The control file has the new epoch, and nothing was acknowledged yet: a shared folder is none of a database that is being made from now on. Not
    /// before: who dies in between finds the record of the landing zone, or may begin anew.
    ///
    /// # Errors
    /// Those of reading and writing.
    pub fn is_opened(&self, vfs: &Arc<dyn Vfs>, epoch: u32) -> Result<()> {
        if !self.own || self.lock.is_some() {
            return Ok(());
        }
        match LogOwner::read(vfs, &self.path)? {
            Some(owner) if owner.epoch != BEING_MADE => Ok(()),
            _ => LogOwner { database_id: self.database_id, epoch }.write(vfs, &self.path),
        }
    }

    pub fn into_lock(self) -> Option<Box<dyn FileLock>> {
        self.lock
    }

    /// Makes the folder of a new database's log, and notes whose and where it is. `made_before`: a crash
    /// ended an attempt to make the database under this id; what that left in the folder goes, as does what an attempt elsewhere left.
    /// `zone`: the folder is shared, and the lease is held. The lock, where there is one, is for as long as the database is made.
    ///
    /// # Errors
    /// `InvalidParameter` when the folder holds anything else; those of the lease and of writing.
    pub fn create(
        vfs: &Arc<dyn Vfs>,
        dir: &Path,
        asked: Option<&Path>,
        id: [u8; 16],
        made_before: Option<[u8; 16]>,
        zone: Option<&dyn LogZone>,
    ) -> Result<(PathBuf, Option<Box<dyn FileLock>>)> {
        let Some(place) = asked.filter(|place| dir.join(place) != dir.join(LOG)) else {
            return Ok((dir.join(LOG), None));
        };
        check_log_place(place)?;
        let path = dir.join(place);
        vfs.make_folder(&path)?;
        let lock = if zone.is_some() { None } else { Some(lock(vfs, &path)?) };
        let mut names = vfs.list(&path)?;
        names.retain(|name| name != "lost+found" && name != LOCK);
        if !names.is_empty() {
            let own = match LogOwner::read(vfs, &path)? {
                Some(owner) => {
                    // Programs before the mark said 1 in a folder of its own while they made a database, and 2 when they opened it.
                    let is_being_made = owner.epoch == BEING_MADE || zone.is_none() && owner.epoch == 1;
                    Some(owner.database_id) == made_before && is_being_made
                        || is_unfinished(owner, &names, zone.is_some())
                }
                // Whoever dies before the file is in place leaves what is written beside it.
                None => names == [beside_owner()],
            };
            if !own {
                return Err(Error::new(
                    ErrorKind::InvalidParameter,
                    format!("the folder for the log, \"{}\", is not empty", path.display()),
                )
                .with_hint("A new database needs an empty or new folder for its log."));
            }
            // What was listed is of those before this one, then, and no name comes again: it may go at any time.
            zone.map_or(Ok(()), LogZone::check)?;
            tracing::warn!(
                "what is in \"{}\" is of a start that ended before its database was made, and is removed",
                path.display()
            );
            for name in names.iter().filter(|name| *name != LOG_OWNER && **name != beside_owner()) {
                // Its maker may be removing it, too.
                if vfs.exists(&path.join(name))? {
                    vfs.remove(&path.join(name))?;
                }
            }
        }
        vfs.keep_private(&path, names.is_empty())?;
        zone.map_or(Ok(()), LogZone::check)?;
        LogOwner { database_id: id, epoch: BEING_MADE }.write(vfs, &path)?;
        write_log_place(vfs, dir, place)?;
        Ok((path, lock))
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

fn beside_owner() -> String {
    format!("{LOG_OWNER}.new")
}

/// Whether these are what an attempt to make a database left in a folder, which nobody has opened: see the module. Of a shared one the epochs of those
/// who make a database are odd.
fn is_unfinished(owner: LogOwner, names: &[String], shared: bool) -> bool {
    let is_of_making = |name: &String| match segment_epoch_of(name) {
        Some(0) => !shared,
        Some(epoch) => shared && !epoch.is_multiple_of(2),
        None => name == LOG_OWNER || *name == beside_owner(),
    };
    owner.epoch == BEING_MADE && names.iter().all(is_of_making)
}

/// Whether a folder has the log of a database that was never opened, as far as its owner's file says.
///
/// # Errors
/// Those of reading that.
pub(crate) fn is_being_made(vfs: &Arc<dyn Vfs>, path: &Path) -> Result<bool> {
    Ok(LogOwner::read(vfs, path)?.is_some_and(|owner| owner.epoch == BEING_MADE))
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
    // The epoch under which a database is made is 1.
    if owner.epoch.max(1) < control.epoch {
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
