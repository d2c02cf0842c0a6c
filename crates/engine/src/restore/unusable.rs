//! Files that are there at a start and of no use, although what is elsewhere can make them.
//!
//! | found | made again from | as |
//! |---|---|---|
//! | both copies in `control` are damaged, or it cannot be read | its copy in the log's folder | before, not closed cleanly |
//! | the boot page of `data` is damaged, or cannot be read | archive, backups and log | a data file that is missing (`begin.rs`) |
//! | the version store's header is damaged, says another number, or an epoch that is not the database's | the same | one that is missing |
//! | the device of the data folder answers with errors only | the same, and `control` as above | a device that dies under work: in `spare_data` (`device.rs`) |
//! | that of the version store does | archive, backups and log | the same |
//!
//! # Invariants
//! 1. Nothing is changed before it is known that what is needed is there: else the start is refused as it would be without all this.
//! 2. What is of no use gets another name beside its own, `NAME.unusable`, and is never removed: somebody may want to look at it.
//! 3. That a file is not this user's, of another database, of a newer format, or open elsewhere, makes it none of these.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use resurgam_archive::Archive;
use resurgam_base::{Error, ErrorKind, Result};
use resurgam_recovery::{Control, ControlFile, LogOwner, read_log_place};
use resurgam_vfs::{OpenMode, Vfs};

use super::begin::{CONTROL_COPY, store_at};
use super::device::{clear_spare, full};
use crate::data_file::DataFile;
use crate::options::Options;

/// What the name of a file that was set aside ends with; a number follows where there is such a one already.
const SUFFIX: &str = ".unusable";
/// A device that answers with errors so many times, with such pauses in between, is dead.
const TRIES: u32 = 4;
const PAUSE: Duration = Duration::from_millis(50);

/// Whether a file of which this was said is of no use in itself.
pub(crate) fn is_of_no_use(error: &Error) -> bool {
    error.kind() == ErrorKind::Corrupt || error.is_of_device()
}

/// Reads something that a device may not give at once: one that does not for a while will not.
///
/// # Errors
/// Those of reading.
pub(crate) fn read_patiently<T>(read: impl Fn() -> Result<T>) -> Result<T> {
    let mut outcome = read();
    for _ in 1..TRIES {
        if !outcome.as_ref().is_err_and(Error::is_of_device) {
            break;
        }
        std::thread::sleep(PAUSE);
        outcome = read();
    }
    outcome
}

/// Gives a file another name, durably.
///
/// # Errors
/// Those of renaming.
pub(crate) fn set_aside(vfs: &Arc<dyn Vfs>, path: &Path, why: &Error) -> Result<()> {
    let own = path.file_name().unwrap_or_default();
    for number in 1u32.. {
        let mut name = own.to_os_string();
        name.push(SUFFIX);
        if number > 1 {
            name.push(format!("-{number}"));
        }
        let aside = path.with_file_name(name);
        if vfs.rename_new(path, &aside)? {
            vfs.sync_dir(path.parent().unwrap_or(Path::new("")))?;
            tracing::warn!(
                "\"{}\" is of no use ({}): it is kept as \"{}\", and made again",
                path.display(),
                why.message(),
                aside.display()
            );
            break;
        }
    }
    Ok(())
}

/// Whether an open that did not get farther has set the control file aside.
pub(crate) fn control_was_set_aside(names: &[String]) -> bool {
    let aside = format!("{CONTROL_COPY}{SUFFIX}");
    names.iter().any(|name| name.starts_with(&aside)) && !names.iter().any(|name| name == CONTROL_COPY)
}

/// Makes a control file that is of no use again from its copy in the log's folder; true: it was, or it is there as it should be.
///
/// # Errors
/// Those of renaming and writing. That it cannot be made again is none: who opens it is told what is wrong with it.
pub(crate) fn control_again(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    control: &Path,
    data: &Path,
    options: &Options,
) -> Result<bool> {
    let there = vfs.exists(control)?;
    let why = match there.then(|| read_patiently(|| ControlFile::open(vfs, control, true))) {
        Some(Ok(_)) => return Ok(true),
        Some(Err(error)) if is_of_no_use(&error) => Some(error),
        Some(Err(_)) => return Ok(true),
        None => None,
    };
    let noted = || read_log_place(vfs, dir).ok().flatten();
    let Some(log) = options.log_dir.clone().or_else(noted).map(|place| dir.join(place)) else { return Ok(there) };
    let Some((owner, known)) = copy_of_control(vfs, &log) else { return Ok(there) };
    let is_its_own = match DataFile::read(vfs, data) {
        Ok(file) => file.boot.database_id == owner.database_id,
        // That is made again as well, or the start is refused for it.
        Err(_) => options.archive.is_some(),
    };
    if !is_its_own {
        return Ok(there);
    }
    let beside = control.with_extension("new");
    if vfs.exists(&beside)? {
        vfs.remove(&beside)?;
    }
    ControlFile::create(vfs, &beside, Control { clean: false, ..known })?;
    if let Some(why) = why {
        set_aside(vfs, control, &why)?;
    }
    vfs.rename(&beside, control)?;
    vfs.sync_dir(dir)?;
    tracing::warn!(
        "\"{}\" was made again from its copy in the log's folder, \"{}\"",
        control.display(),
        log.join(CONTROL_COPY).display()
    );
    Ok(true)
}

/// The copy of the control file in the log's folder, where that is of the last open.
fn copy_of_control(vfs: &Arc<dyn Vfs>, log: &Path) -> Option<(LogOwner, Control)> {
    let owner = LogOwner::read(vfs, log).ok()??;
    let (_, known) = ControlFile::open(vfs, &log.join(CONTROL_COPY), true).ok()?;
    // An open raises the owner's epoch first; an older program knows nothing of the copy.
    (known.epoch..=known.epoch.saturating_add(1)).contains(&owner.epoch).then_some((owner, known))
}

/// The folder on another device that is to take the place of the data folder `dir`, whose device answers with errors only; `None`: it answers, or
/// there is nothing to go on with. What an attempt before has left there is removed.
///
/// # Errors
/// That the spare folder cannot be used, or the archive cannot be read.
pub(crate) fn leave_dead_folder(vfs: &Arc<dyn Vfs>, dir: &Path, options: &Options) -> Result<Option<PathBuf>> {
    let (Some(spare), Some(log), Some(archive)) = (&options.spare_data, &options.log_dir, &options.archive) else {
        return Ok(None);
    };
    let (spare, log) = (full(&dir.join(spare)), dir.join(log));
    if options.pages.is_some() || options.log_zone.is_some() || spare == full(dir) {
        return Ok(None);
    }
    let Some(why) = answers_nothing(vfs, dir) else { return Ok(None) };
    let take = || -> Result<bool> {
        let Some((owner, _)) = copy_of_control(vfs, &log) else { return Ok(false) };
        let store = store_at(vfs, dir, archive, options.archive_store.as_ref())?;
        Archive::open_view(store, Some(owner.database_id))?;
        drop(clear_spare(vfs, &spare, &log, &owner.database_id)?);
        Ok(true)
    };
    match take() {
        Ok(true) => {
            tracing::warn!(
                "the device of the data folder \"{}\" is dead ({}): \"{}\" takes its place",
                dir.display(),
                why.message(),
                spare.display()
            );
            Ok(Some(spare))
        }
        Ok(false) => Ok(None),
        Err(error) => {
            let what = format!("{}; no replacement could be made: {}", why.message(), error.message());
            Err(Error::new(error.kind(), what).with_hint(
                "See that the spare folder is there and empty and the archive can be read, and start again.",
            ))
        }
    }
}

/// What a device says that answers with errors only, for a while.
fn answers_nothing(vfs: &Arc<dyn Vfs>, dir: &Path) -> Option<Error> {
    let mut said = None;
    for attempt in 0..TRIES {
        if attempt > 0 {
            std::thread::sleep(PAUSE);
        }
        said = Some(no_answer(vfs, dir)?);
    }
    said
}

fn no_answer(vfs: &Arc<dyn Vfs>, dir: &Path) -> Option<Error> {
    match vfs.exists(dir) {
        Ok(false) => return None,
        Err(error) => return error.is_of_device().then_some(error),
        Ok(true) => {}
    }
    if let Err(error) = vfs.list(dir) {
        return error.is_of_device().then_some(error);
    }
    // Names may be in the system's memory; what is in the files is not, of both of them.
    let read = |name: &str| vfs.open(&dir.join(name), OpenMode::ReadOnly)?.read_at(&mut [0; 512], 0);
    match (read(CONTROL_COPY), read("data")) {
        (Err(error), Err(other)) if error.is_of_device() && other.is_of_device() => Some(error),
        _ => None,
    }
}
