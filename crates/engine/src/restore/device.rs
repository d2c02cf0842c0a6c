//! A device that dies while the database is open, and the file that takes its place.
//!
//! | device | its replacement |
//! |---|---|
//! | data | `data` in `spare_data`, which becomes a complete data folder: `lock`, `control`, `doublewrite` (new), `log-place`, `version-store`, `parent`, `restore`; without one, `data` in its own folder again |
//! | version store | a new file in its place, or, with `spare_data`, `version-store-file` there |
//!
//! Which of two data folders counts after a restart says `data-place` in the log's folder, which is not on the dead device
//! (so a spare folder needs a log folder of its own). It is written when the new folder is complete, before any page is
//! written there. The dead device may be gone, unreadable, or back with old content: who opens it is led to the new one.
//!
//! # Order
//! 1. No batch is written any more, and no checkpoint can be taken.
//! 2. The new folder is made: `restore` first, as ever.
//! 3. `data-place`. A crash from here on restarts in the new folder, with nothing restored.
//! 4. The file is replaced under the pool; what the log has behind the archive is noted; the restore begins.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use resurgam_base::{Error, ErrorKind, Lsn, Result, checksum};
use resurgam_buffer::Restoring;
use resurgam_page::boot;
use resurgam_page::version_file::{self, VersionFileHeader};
use resurgam_recovery::{Control, ControlFile, LOG_PLACE, LogOwner, VersionRecord, read_log_place, write_log_place};
use resurgam_vfs::{OpenMode, Vfs, read_small};

use super::attach::{again, log_first};
use super::begin::{CONTROL_COPY, make_file, make_version_file, material};
use super::lineage;
use super::maker::FromArchive;
use super::marks::Marks;
use super::origin::{ORIGIN, Origin};
use super::parent::ParentSource;
use super::room;
use super::run::{Restore, files_of};
use crate::data_file;
use crate::database::Database;
use crate::kept_header;
use crate::version_file::{NOT_YET, REPLACEMENT};

/// Name of the file in the log's folder that says where the data folder is.
pub(crate) const DATA_PLACE: &str = "data-place";
const FIRST_LINE: &str = "Resurgam data place, format 1\n";
const BYTES_MAX: u64 = 64 << 10;

/// Where the data folder of the log in `log` is, if it was replaced.
///
/// # Errors
/// `Corrupt`; those of reading.
pub(crate) fn read_data_place(vfs: &Arc<dyn Vfs>, log: &Path) -> Result<Option<PathBuf>> {
    let path = log.join(DATA_PLACE);
    let Some(bytes) = read_small(&**vfs, &path, BYTES_MAX)? else { return Ok(None) };
    let parse = || {
        let text = std::str::from_utf8(&bytes).ok()?;
        let at = text.rfind("checksum ")?;
        let right = text.get(at..) == Some(&format!("checksum {:08x}\n", checksum(&text.as_bytes()[..at])));
        let place = text[..at].strip_prefix(FIRST_LINE)?.strip_prefix("path ")?.strip_suffix('\n')?;
        right.then(|| PathBuf::from(place))
    };
    parse().map(Some).ok_or_else(|| {
        Error::corrupt(format!("the file \"{}\" is damaged, which says where the data folder is", path.display()))
            .with_hint("Remove it, and give the right data folder: the one with the higher epoch in its control file.")
    })
}

pub(super) fn write_data_place(vfs: &Arc<dyn Vfs>, log: &Path, place: &Path) -> Result<()> {
    let place = place.to_str().filter(|place| !place.contains(['\n', '\r'])).ok_or_else(|| {
        Error::new(ErrorKind::InvalidParameter, format!("spare_data {place:?} has a line break or is not UTF-8"))
    })?;
    let text = format!("{FIRST_LINE}path {place}\n");
    let text = format!("{text}checksum {:08x}\n", checksum(text.as_bytes()));
    make_file(vfs, &log.join(DATA_PLACE), text.as_bytes())
}

/// The data folder in use of the database that is asked for as `dir`: another one, where that was replaced.
///
/// # Errors
/// Those of [`read_data_place`].
pub(crate) fn data_folder(vfs: &Arc<dyn Vfs>, dir: &Path, log_dir: Option<&Path>) -> Result<Option<PathBuf>> {
    // A device that cannot be read says nothing.
    let noted = || read_log_place(vfs, dir).ok().flatten();
    let Some(log) = log_dir.map(Path::to_path_buf).or_else(noted) else { return Ok(None) };
    let log = dir.join(log);
    if !vfs.exists(&log)? {
        return Ok(None);
    }
    let Some(place) = read_data_place(vfs, &log)?.filter(|place| place != dir) else { return Ok(None) };
    if !vfs.exists(&place.join("control"))? {
        let moved_back = || -> Result<bool> {
            if !vfs.exists(&dir.join("control"))? {
                return Ok(false);
            }
            let (_, control) = ControlFile::open(vfs, &dir.join("control"), true)?;
            Ok(LogOwner::read(vfs, &log)?.is_some_and(|owner| control.epoch >= owner.epoch))
        };
        match moved_back() {
            Ok(true) => return Ok(None),
            Ok(false) => {}
            // It is dead still, and no reason not to make the other one again.
            Err(error) if error.kind() == ErrorKind::Io => {}
            Err(error) => return Err(error),
        }
    }
    Ok(Some(place))
}

/// Writes the epoch into the header of a version-store file.
fn set_version_file_epoch(vfs: &Arc<dyn Vfs>, path: &Path, epoch: u32) -> Result<()> {
    let file = vfs.open(path, OpenMode::ReadWrite)?;
    let mut bytes = [0; version_file::SIZE];
    file.read_exact_at(&mut bytes, 0)?;
    let header = VersionFileHeader { epoch, ..VersionFileHeader::decode(&bytes)? };
    kept_header::write(&*file, &header.encode())
}

/// The path from the root on: it is noted where it means something else otherwise.
pub(super) fn full(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf())
}

impl Database {
    /// Declares a device dead, as an operator may: `data` or `version store`. Its files are then restored elsewhere.
    ///
    /// # Errors
    /// `InvalidParameter` for a name that is none; `NotInPrerequisiteState` where nothing could be restored.
    pub fn fail_device(&self, device: &str) -> Result<()> {
        let inner = self.inner();
        let file = match (device, inner.pool.version_file()) {
            ("data", _) => 0,
            ("version store" | "versions", Some(version)) => version.number(),
            ("version store" | "versions", None) => {
                return Err(Error::new(ErrorKind::InvalidParameter, "the version store is in the data file"));
            }
            _ => {
                return Err(Error::new(ErrorKind::InvalidParameter, format!("there is no device \"{device}\""))
                    .with_hint("There are \"data\" and \"version store\"."));
            }
        };
        let room = || self.spare_for(file).map_or(Ok(()), |spare| self.look_for_room(file, &spare));
        self.restore_material().and_then(|_| room()).map_err(|error| {
            Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!(
                    "the device \"{device}\" is left as it is, since it could not be restored: {}",
                    error.message()
                ),
            )
        })?;
        inner.pool.fail_device(
            file,
            &Error::new(ErrorKind::Io, format!("an operator has declared the device \"{device}\" dead")),
        );
        if let Some(gate) = inner.gates.of(file).filter(|gate| gate.waiting().is_some()) {
            gate.give_up();
        }
        if inner.options.background { Ok(()) } else { self.replace_dead_devices() }
    }

    /// What there is to restore from now, and the end of the archive in it; the log is held from there on.
    fn restore_material(&self) -> Result<(super::begin::Material, Lsn, resurgam_log::LogHold)> {
        let inner = self.inner();
        let Some(archiver) = &inner.archiver else {
            return Err(Error::new(ErrorKind::NotInPrerequisiteState, "the log is not archived"));
        };
        let parent = self.made_of();
        for _ in 0..10 {
            let view = archiver.view().ok_or_else(|| Error::new(ErrorKind::Io, "the archive cannot be read now"))?;
            let begins = inner.log.oldest_lsn() <= log_first(&inner.log, parent.as_ref());
            let segment_bytes = inner.log.config().segment_bytes;
            let dir = &inner.dir;
            let id = inner.boot.database_id;
            let view = Some(view);
            let found = material(&inner.vfs, dir, &inner.options, id, view, segment_bytes, begins, parent.as_ref())?;
            let end = found.view.as_ref().map_or_else(|| inner.log.oldest_lsn(), |view| view.end());
            match inner.log.hold("the restore", end) {
                Ok(hold) => return Ok((found, end, hold)),
                // The archive went on meanwhile.
                Err(error) if error.kind() == ErrorKind::NotInPrerequisiteState => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::new(ErrorKind::Io, "the archive goes on faster than it can be looked at"))
    }

    /// The database that this one was made of, where its pages begin as that one's.
    pub(crate) fn made_of(&self) -> Option<ParentSource> {
        let under_way = self.restore_under_way().and_then(|restore| ParentSource::of(&restore.origin));
        under_way.or_else(|| self.inner().lineage.as_ref().and_then(|lineage| lineage.source()))
    }

    /// Whether a device that dies can be replaced: from then on it stops nobody.
    pub(crate) fn look_at_replaceable(&self) {
        let inner = self.inner();
        let replaceable = !inner.pool.is_remote() && inner.archiver.is_some() && self.restore_material().is_ok();
        let patience = if inner.options.background { inner.options.replacement_patience } else { Duration::ZERO };
        inner.pool.set_replaceable(replaceable, patience);
        self.look_at_gates();
    }

    /// A device that hangs is given up only where its files can be made anew on another one: in its own folder nothing can.
    fn look_at_gates(&self) {
        let inner = self.inner();
        let replaceable = inner.pool.is_replaceable();
        let spare = inner.options.spare_data.as_ref().map(|spare| full(&inner.dir.join(spare)));
        if let Some(gate) = inner.gates.of(0) {
            let found_again = || {
                let owner = LogOwner::read(&inner.vfs, &inner.log_dir).ok().flatten();
                owner.is_some_and(|owner| owner.database_id == inner.boot.database_id)
            };
            let other = spare.as_ref().is_some_and(|spare| *spare != *inner.data_dir.lock());
            gate.set_may_give_up(replaceable && other && found_again());
        }
        if let Some(version) = inner.pool.version_file()
            && let Some(gate) = inner.gates.of(version.number())
        {
            let other = spare.is_some_and(|spare| spare.join(REPLACEMENT) != version.path());
            gate.set_may_give_up(replaceable && other);
        }
    }

    /// The device that does not answer at the moment, if there is one, as an error.
    pub(crate) fn slow_device(&self) -> Option<Error> {
        const LONG: Duration = Duration::from_secs(2);
        let waiting = |(name, waiting): (String, Duration)| {
            let what = format!("the device of \"{name}\" has not answered for {waiting:.0?}");
            (waiting >= LONG).then(|| Error::new(ErrorKind::Io, what))
        };
        self.inner().gates.waiting().into_iter().find_map(waiting)
    }

    /// Declares a device dead of which too many pages cannot be read, although most can: only where another one is there to take its place, and all is there
    /// that is needed for that. In its own place nothing would be won, and what can still be read be lost.
    fn look_at_failing_devices(&self) {
        let inner = self.inner();
        for (file, why) in inner.pool.failing_devices() {
            let Some(spare) = self.spare_for(file) else { continue };
            let fits = || -> Result<()> {
                drop(self.restore_material()?);
                self.look_for_room(file, &spare)?;
                match file {
                    0 => self.take_spare(&spare).map(drop),
                    _ => inner.vfs.make_folder(&spare),
                }
            };
            match fits() {
                Ok(()) => drop(inner.pool.fail_device(file, &why)),
                Err(error) => {
                    tracing::warn!(
                        "{}; the device goes on, since no replacement could be made: {error}",
                        why.message()
                    );
                    inner.pool.forget_unread(file);
                }
            }
        }
    }

    /// Makes replacements for the devices that are dead. Nothing is done where none is.
    ///
    /// # Errors
    /// Those of making it: to be tried again. Meanwhile what is in memory is served.
    pub fn replace_dead_devices(&self) -> Result<()> {
        let inner = self.inner();
        let has_failed_write = inner.pool.restoring().is_some_and(|restoring| restoring.has_failed_write());
        if !has_failed_write && inner.pool.dead_devices().is_empty() && inner.pool.failing_devices().is_empty() {
            return Ok(());
        }
        // The spare folder is one thread's at a time. Who comes second waits, and finds what the first has made: it would take
        // the first one's lock for a folder in use, and leave a failing device as it is.
        let _replacing = inner.replacing.lock();
        // Only now: that of a restoring which the first one has superseded says nothing of the device that took the other's place.
        if let Some((file, why)) = inner.pool.restoring().and_then(|restoring| restoring.take_failed_write()) {
            inner.pool.fail_device(file, &why);
        }
        self.look_at_failing_devices();
        // The data first: what replaces the version store is noted beside it, and may find that it is dead as well.
        let mut dead = inner.pool.dead_devices();
        dead.sort_unstable_by_key(|(file, _)| *file);
        for (file, why) in dead {
            self.replace_device(file, &why).map_err(|error| {
                let hint = match inner.options.spare_data {
                    Some(_) => "See that the spare folder is there, empty, and large enough; it is tried again.",
                    None => "Give a folder on another device as spare_data and restart, or bring the device back; it is tried again.",
                };
                let what = format!("{}; no replacement could be made: {}", why.message(), error.message());
                Error::new(error.kind(), what).with_hint(hint)
            })?;
        }
        Ok(())
    }

    /// That there is room for the file of that number in the spare folder, where it is to be made there: a device that had it has room for it
    /// again.
    fn look_for_room(&self, file: u64, folder: &Path) -> Result<()> {
        let space = self.inner().pool.space();
        let pages = if file == 0 { space.ends_now().0 } else { space.ends_now().1.in_file() };
        // An attempt before has left files there that are made anew.
        let left = |name: &str| -> u64 {
            let path = folder.join(name);
            let len = || self.inner().vfs.open(&path, OpenMode::ReadOnly)?.allocated();
            if self.inner().vfs.exists(&path).unwrap_or(false) { len().unwrap_or(0) } else { 0 }
        };
        let given_back = left(if file == 0 { "data" } else { REPLACEMENT });
        room::check(&self.inner().vfs, &[room::Wanted { folder, pages: pages.max(1), given_back }])
    }

    /// The folder in which a file is made whose device dies now; `None`: in its own place.
    fn spare_for(&self, file: u64) -> Option<PathBuf> {
        let inner = self.inner();
        let spare = full(&inner.dir.join(inner.options.spare_data.as_ref()?));
        // A replacement that dies is replaced in its own place.
        let own = match inner.pool.version_file().filter(|version| version.number() == file) {
            Some(version) => version.path() == spare.join(REPLACEMENT),
            None => spare == *inner.data_dir.lock(),
        };
        (!own).then_some(spare)
    }

    fn replace_device(&self, file: u64, why: &Error) -> Result<()> {
        let inner = self.inner();
        let (vfs, pool) = (&inner.vfs, &inner.pool);
        // An archive that lags is not waited for: its store may be slow, statements wait for this, and the log has what it lacks.
        let (found, end, hold) = self.restore_material()?;
        // No checkpoint is taken meanwhile, and no batch is written.
        let mut control = inner.control.lock();
        if !pool.dead_devices().iter().any(|(of, _)| *of == file) {
            // Another thread has replaced it meanwhile.
            return Ok(());
        }
        pool.wait_for_batch();
        let id = inner.boot.database_id;
        // It may be read in another folder.
        let options = inner.options.clone().relative_to(&full(&inner.dir));
        let old = inner.data_dir.lock().clone();
        let superseded = inner.restore.lock().clone();
        if let Some(restore) = &superseded {
            restore.supersede();
        }
        let before = superseded.map(|restore| restore.origin.clone());
        // Those of a folder that was made of another database go by that one's.
        let marked_by = before.as_ref().map_or(id, |before| before.database_id);
        let hangs = |file: u64| inner.gates.of(file).is_some_and(|gate| gate.is_given_up() || gate.waiting().is_some());
        let made_of = self.made_of().filter(|_| found.base.parent().is_some());
        let mut origin = Origin::media(before, id, options.archive.unwrap_or_default(), options.backups, made_of);
        let mut version = inner.version_record.lock().clone();
        let spare = self.spare_for(file);
        if let Some(spare) = &spare {
            self.look_for_room(file, spare)?;
        }
        let (mut dir, mut lock) = (old.clone(), None);
        if file == 0 {
            origin.data_pages = pool.space().ends_now().0.max(1);
            if let Some(spare) = &spare {
                lock = Some(self.take_spare(spare)?);
                dir.clone_from(spare);
                if let Some(path) = version.as_mut().and_then(|record| record.path.as_mut()) {
                    *path = old.join(&*path);
                }
            }
        } else {
            origin.version_pages = Some((file as u32, pool.space().ends_now().1.in_file().max(1)));
            if let (Some(spare), Some(record)) = (&spare, version.as_mut()) {
                vfs.make_folder(spare)?;
                record.path = Some(spare.join(REPLACEMENT));
            }
        }
        let moves = if file == 0 { dir != old } else { spare.is_some() };
        if hangs(file) && !moves {
            return Err(Error::new(
                ErrorKind::Io,
                "the device does not answer, so nothing can be made on it; a folder on another one (spare_data) is needed",
            ));
        }
        // What is left of the dead device is older than all else from here on, whatever becomes of it.
        let epoch = control.1.epoch + 1;
        let is_dead = |number: u64| pool.dead_devices().iter().any(|(of, _)| *of == number);
        if let Some(live) = pool.version_file().filter(|version| version.number() != file && !is_dead(version.number()))
        {
            // It may be found dead, or to hang, by this.
            let through = inner.gates.of(live.number()).map_or_else(|| Arc::clone(vfs), |gate| gate.vfs(vfs));
            set_version_file_epoch(&through, &live.path(), epoch).inspect_err(|error| {
                pool.device_failed(live.number(), error);
            })?;
        }
        if file != 0 && !is_dead(0) {
            data_file::set_epoch(&inner.data_vfs(), &old.join("data"), epoch).inspect_err(|error| {
                pool.device_failed(0, error);
            })?;
        }
        let next = Control { epoch, ..control.1 };
        let is_anew = |segment_file: u64| segment_file == file;
        // One that hangs is not asked: everything is restored again.
        let of_old = inner.data_vfs();
        let known = if hangs(0) { None } else { Marks::read(&of_old, &old, marked_by).ok() };
        let mut marks = known.unwrap_or_default();
        marks.database_id = id;
        marks.segments.retain(|segment| !is_anew(segment.file));
        if inner.restore.lock().is_none() {
            marks.segments.clear();
        }
        // Nothing else would find it out: no batch is written while a device is dead.
        let beside_data = |error: &Error| {
            if dir == old {
                pool.device_failed(0, error);
            }
        };
        let of_dir = if dir == old { &of_old } else { vfs };
        origin.write_with(&marks, dir == old && marked_by != id, of_dir, &dir).inspect_err(beside_data)?;
        // Calls that are under way on the old device go on through the gate that they began with.
        let (gate, gated) = inner.gates.another(if file == 0 { dir.join("data") } else { dir.join(REPLACEMENT) }, vfs);
        let new = if file == 0 {
            let mut page = boot::page(&inner.boot, control.1.checkpoint)?;
            data_file::mark(&mut page, epoch);
            make_file(vfs, &dir.join("data"), page.as_bytes())?;
            gated.open(&dir.join("data"), OpenMode::ReadWrite)?
        } else {
            let path = version.as_ref().and_then(|record| record.path.as_ref()).map(|path| old.join(path));
            let path = path.ok_or_else(|| Error::internal("a version store without a place"))?;
            make_version_file(vfs, &path, file as u32, id, epoch)?;
            gated.open(&path, OpenMode::ReadWrite)?
        };
        if dir != old {
            let path = dir.join("control");
            if vfs.exists(&path)? {
                vfs.remove(&path)?;
            }
            let mut file = ControlFile::create(&gated, &path, next)?;
            let log_dir = full(&inner.log_dir);
            file.keep_copy(vfs, &log_dir.join(CONTROL_COPY))?;
            write_log_place(vfs, &dir, &log_dir)?;
            if let Some(lineage) = inner.lineage.as_ref().filter(|lineage| lineage.is_open()) {
                lineage::write(vfs, &dir, &lineage.record)?;
            }
            if let Some(record) = &version {
                record.write(vfs, &dir)?;
            }
            vfs.sync_dir(&dir)?;
            LogOwner { database_id: id, epoch }.write(vfs, &log_dir)?;
            write_data_place(vfs, &log_dir, &dir)?;
            control.0 = file;
            *inner.data_dir.lock() = dir.clone();
            inner.locks_held.lock().extend(lock);
        } else if file != 0
            && let Some(record) = &version
        {
            VersionRecord::write(record, of_dir, &dir).inspect_err(beside_data)?;
        }
        if dir == old {
            if LogOwner::read(vfs, &inner.log_dir)?.is_some() {
                LogOwner { database_id: id, epoch }.write(vfs, &inner.log_dir)?;
            }
            control.0.write(next).inspect_err(beside_data)?;
        }
        control.1 = next;
        *inner.version_record.lock() = version;

        let as_of = Lsn(end.0.saturating_sub(1));
        let segment_bytes = inner.log.config().segment_bytes;
        let archiver = inner.archiver.as_ref();
        let again = again(vfs, &dir, archiver, &found, as_of, segment_bytes, origin.parent.as_ref(), id);
        let maker = FromArchive::new(found.maker(as_of)?, again);
        let restoring = Restoring::new(&files_of(&origin), Arc::new(maker));
        let percent = inner.options.restore_cpu_percent;
        let restore = Restore::new(vfs, dir.clone(), origin, restoring, as_of, Some(hold), percent)?;
        let side = dir.join("doublewrite");
        let area = (file == 0).then_some((&gated, side.as_path()));
        pool.replace_file(file, new, area, Arc::clone(&restore.restoring))?;
        inner.gates.set(file, gate);
        self.look_at_gates();
        pool.space().file_was_replaced(file);
        *inner.restore.lock() = Some(Arc::clone(&restore));
        let behind = pool.note_behind(file, &restore.restoring, end)?;
        restore.restoring.begin();
        let progress = restore.restoring.progress();
        tracing::warn!(
            "the device of {} is dead ({why}): a new file in \"{}\" takes its place; {} segments are restored as their pages are asked for, \
             as of LSN {as_of}; {behind} pages have later records in the log; the database goes on",
            if file == 0 { "the data file" } else { "the version store" },
            dir.display(),
            progress.segments - progress.restored
        );
        Ok(())
    }

    /// Locks the spare folder, which is empty, or has what an unfinished attempt of this database left.
    fn take_spare(&self, spare: &Path) -> Result<Box<dyn resurgam_vfs::FileLock>> {
        let inner = self.inner();
        let vfs = &inner.vfs;
        if LogOwner::read(vfs, &inner.log_dir)
            .ok()
            .flatten()
            .is_none_or(|owner| owner.database_id != inner.boot.database_id)
        {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                "the log is in the data folder, or its folder cannot be read: a restart would not find the spare folder",
            ));
        }
        clear_spare(vfs, spare, &inner.log_dir, &inner.boot.database_id)
    }
}

/// Locks the spare folder and removes what an unfinished attempt of database `id`, whose log is in `log`, has left there; it must hold nothing else.
///
/// # Errors
/// `InvalidParameter`: it holds something else; those of locking and removing.
pub(super) fn clear_spare(
    vfs: &Arc<dyn Vfs>,
    spare: &Path,
    log: &Path,
    id: &[u8; 16],
) -> Result<Box<dyn resurgam_vfs::FileLock>> {
    vfs.make_folder(spare)?;
    let mut names = vfs.list(spare)?;
    names.retain(|name| name != "lock" && name != "lost+found" && name != REPLACEMENT);
    vfs.keep_private(spare, names.is_empty())?;
    let lock = vfs.lock(&spare.join("lock"))?;
    let own = Origin::read(vfs, spare).ok().flatten().is_some_and(|origin| origin.database_id == *id);
    // A start has made the control file, and noted of which database this one was made, before it wrote `restore`; what is a database has a data file.
    let early = |name: &str| match name {
        lineage::PARENT => lineage::read(vfs, spare).ok().flatten().is_some_and(|record| record.database == *id),
        "control" | "control.new" | LOG_PLACE | "log-place.new" | "parent.resurgam-new" => true,
        // Of a version store that was to be made there.
        _ if name.strip_prefix(REPLACEMENT) == Some(NOT_YET) => true,
        _ => name.starts_with(ORIGIN),
    };
    let begun = names.iter().all(|name| early(name));
    let of_this = || {
        let leads_here = |noted: Option<PathBuf>| noted.is_none_or(|noted| full(&spare.join(noted)) == full(log));
        read_log_place(vfs, spare).is_ok_and(leads_here)
    };
    let is_free = names.is_empty() || own || (begun && of_this());
    if !is_free {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("the spare folder \"{}\" is not empty", spare.display()),
        ));
    }
    // The last of them says whose the others are.
    let is_last = |name: &String| name == ORIGIN;
    for name in names.iter().filter(|name| !is_last(name)) {
        vfs.remove(&spare.join(name))?;
    }
    if names.iter().any(is_last) {
        vfs.sync_dir(spare)?;
        vfs.remove(&spare.join(ORIGIN))?;
    }
    Ok(lock)
}
