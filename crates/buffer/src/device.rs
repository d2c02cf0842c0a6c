//! Devices of pages that die under the running pool, and the files that take their place.
//!
//! A device is the file of a number: 0 is that of the data file, which the double-write area is beside; the version-store
//! file's is its own. Where a replacement can be made ([`BufferPool::set_replaceable`]) a failed write or sync declares a
//! device dead, as does that nothing of it can be read for a while, and an operator; it stops nobody. Where none can
//! be made all is as `writeback.rs` says. That many pages cannot be read within a minute ([`BufferPool::failing_devices`]) the pool only says.
//!
//! # The order of a replacement
//! 1. From when a device is dead no batch is written: no page of it becomes clean any more.
//! 2. [`BufferPool::replace_file`] waits for the loads under way (they have read the old file, and their frames are
//!    complete then), and lets the next ones wait until the restore begins.
//! 3. What the log has behind the archive's end, to the log's end, is gone through: of each page with such records that
//!    is in memory the dirty mark moves back to the first of them (the new file lacks them); any other one awaits redo.
//!    A record that is appended meanwhile is of a page that is marked dirty from before that record on.
//! 4. Only then the restore begins, and batches are written again.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_vfs::{File, Vfs};

use crate::double_write::DoubleWrite;
use crate::planted::Planted;
use crate::pool::{Access, BufferPool};
use crate::source::{Restoring, UNREADABLE_MAX};

/// A device of which nothing could be read for so long is dead.
const LASTING: Duration = Duration::from_millis(250);
/// Between two tries.
const PAUSE: Duration = Duration::from_millis(20);

/// What is known of the devices.
pub(crate) struct Devices {
    replaceable: AtomicBool,
    is_dead: AtomicBool,
    dead: Mutex<Vec<(u64, Error)>>,
    /// Replacements that are complete.
    replaced: AtomicU64,
    /// Held shared while a page is loaded, from the choice of the file on.
    pub loads: RwLock<()>,
    patience_ms: AtomicU64,
}

impl Default for Devices {
    fn default() -> Self {
        Self {
            replaceable: AtomicBool::new(false),
            is_dead: AtomicBool::new(false),
            dead: Mutex::default(),
            replaced: AtomicU64::new(0),
            loads: RwLock::default(),
            patience_ms: AtomicU64::new(0),
        }
    }
}

impl BufferPool {
    /// Whether a device that dies can be replaced; see the module. Who needs a page then waits for so long for it to be.
    pub fn set_replaceable(&self, replaceable: bool, patience: Duration) {
        self.devices.patience_ms.store(patience.as_millis() as u64, Ordering::SeqCst);
        self.devices.replaceable.store(replaceable, Ordering::SeqCst);
        self.sources.replaceable.store(replaceable, Ordering::SeqCst);
    }
    /// See [`BufferPool::set_replaceable`].
    pub fn is_replaceable(&self) -> bool {
        self.devices.replaceable.load(Ordering::SeqCst)
    }

    /// A page of the file could not be read: whether it is worth trying again, after a pause that is made here. Where
    /// nothing else of the file can be read either, for a while, its device is declared dead; one that is dead may be
    /// replaced while the caller waits. `since` is when it failed first, `replaced` the number of
    /// [replacements](BufferPool::replacements) before this try.
    pub(crate) fn is_worth_trying_again(&self, page: PageId, error: &Error, since: Instant, replaced: u64) -> bool {
        if error.kind() != ErrorKind::Io || !self.is_replaceable() {
            return false;
        }
        let patience = Duration::from_millis(self.devices.patience_ms.load(Ordering::SeqCst));
        let is_dead = || self.dead_devices().iter().any(|(of, _)| *of == page.file());
        let was_dead = is_dead();
        if self.replacements() != replaced {
            // What failed was the file before.
            return true;
        }
        if !was_dead {
            if !self.sources.is_whole_file_unread(page) {
                return false;
            }
            if since.elapsed() >= LASTING.min(patience) {
                self.device_failed(page.file(), error);
            }
        }
        if since.elapsed() >= LASTING + patience || patience.is_zero() {
            return false;
        }
        std::thread::sleep(PAUSE);
        true
    }

    /// The files of which too many pages could not be read within the last minute, one by one, as errors. Each page was repaired, or its reader
    /// knows; what they have in common is the device. It is not dead: whether it is better declared so, the pool does not know.
    pub fn failing_devices(&self) -> Vec<(u64, Error)> {
        let said = |file: u64| {
            let path = self.sources.files.locate(PageId::of_file(file, 1)).map(|(file, _)| file.path().to_path_buf());
            let what = format!(
                "{UNREADABLE_MAX} pages of \"{}\" could not be read within a minute",
                path.unwrap_or_default().display()
            );
            (file, Error::new(ErrorKind::Io, what))
        };
        self.sources.unread.too_many(Instant::now()).into_iter().map(said).collect()
    }

    /// The pages of the file that could not be read are counted anew.
    pub fn forget_unread(&self, file: u64) {
        self.sources.unread.forget(file);
    }

    /// A frame cannot be had while a device is dead: waits a moment for its replacement; false: it was waited for long
    /// enough, or none is dead, nor was when `replaced` was the number of [replacements](BufferPool::replacements), before
    /// this try.
    pub(crate) fn wait_for_replacement(&self, since: Instant, replaced: u64) -> bool {
        let patience = Duration::from_millis(self.devices.patience_ms.load(Ordering::SeqCst));
        let dead = !self.dead_devices().is_empty();
        if self.replacements() != replaced {
            return true;
        }
        if !dead || since.elapsed() >= patience {
            return false;
        }
        std::thread::sleep(PAUSE);
        true
    }

    /// How many devices were replaced until now. Where it has grown over a call that failed, that may have been for a device
    /// that is dead no more. (Who finds none dead and asks for this afterwards sees what made it so.)
    pub(crate) fn replacements(&self) -> u64 {
        self.devices.replaced.load(Ordering::SeqCst)
    }

    /// Declares the device of the file with that number dead; true if it was not yet.
    pub fn fail_device(&self, file: u64, why: &Error) -> bool {
        let mut dead = self.devices.dead.lock();
        if dead.iter().any(|(of, _)| *of == file) {
            return false;
        }
        dead.push((file, why.clone()));
        self.devices.is_dead.store(true, Ordering::SeqCst);
        true
    }

    /// The devices that are dead and have no replacement yet, and why.
    pub fn dead_devices(&self) -> Vec<(u64, Error)> {
        match self.devices.is_dead.load(Ordering::SeqCst) {
            true => self.devices.dead.lock().clone(),
            false => Vec::new(),
        }
    }

    /// Waits until no batch is being written: from then on, while a device is dead, none is.
    pub fn wait_for_batch(&self) {
        drop(self.double_write.lock());
    }

    /// A device is dead: nothing may be written.
    pub(crate) fn check_devices(&self) -> Result<()> {
        match self.dead_devices().first() {
            None => Ok(()),
            Some((_, why)) => Err(Error::new(
                ErrorKind::Io,
                format!("a device is dead, and has no replacement yet: {}", why.message()),
            )),
        }
    }

    /// A write or sync of the file, or of what is beside it, failed. True: it is replaced, and the pool goes on.
    pub fn device_failed(&self, file: u64, error: &Error) -> bool {
        if error.kind() != ErrorKind::Io || !self.devices.replaceable.load(Ordering::SeqCst) {
            return false;
        }
        self.fail_device(file, error);
        true
    }

    /// `new` takes the place of the file with that number, and `restoring` restores it; for the data file with the
    /// double-write area beside it. `from` is the end of the archive as of which segments are made. Returns how many pages
    /// have records behind that.
    ///
    /// # Errors
    /// Those of the log, which leave pages waiting for a restore that has not begun: the caller goes on with
    /// [`BufferPool::note_behind`] until that succeeds. Those of the double-write area: nothing was changed.
    pub fn replace_file(
        &self,
        file: u64,
        new: Arc<dyn File>,
        double_write: Option<(&Arc<dyn Vfs>, &Path)>,
        restoring: Arc<Restoring>,
    ) -> Result<()> {
        let mut dw = self.double_write.lock();
        let area = match double_write {
            Some((vfs, path)) => Some(DoubleWrite::open(vfs, path, self.config.batch_pages)?),
            None => None,
        };
        {
            let _none_loads = self.devices.loads.write();
            let _none_restores = self.sources.restores.write();
            if let Some(old) = self.sources.restoring() {
                old.supersede();
            }
            self.sources.set_restoring(Some(restoring));
            self.sources.files.replace(file, new);
            self.sources.unread.forget(file);
            if file == 0 {
                self.punched.forget();
            }
        }
        // What of the batch was for the dead file is in memory, dirty. The rest is protected by its images.
        dw.forget(file);
        if let Some(mut area) = area {
            std::mem::swap(&mut area.images, &mut dw.images);
            std::mem::swap(&mut area.fresh, &mut dw.fresh);
            area.in_place_unfinished = dw.in_place_unfinished;
            area.fresh_unsynced = dw.fresh_unsynced;
            *dw = area;
            if dw.in_place_unfinished {
                dw.must_write_again = true;
            }
        }
        Ok(())
    }

    /// Goes through the log from `from` on, up to its end now, for [`BufferPool::replace_file`]: what the pages of the
    /// restore lack. Then the device is dead no more. Returns how many pages there were.
    ///
    /// # Errors
    /// Those of the log.
    pub fn note_behind(&self, file: u64, restoring: &Restoring, from: Lsn) -> Result<u64> {
        let _dw = self.double_write.lock();
        let end = self.log.end_lsn();
        self.log.flush(end)?;
        let mut pages: HashMap<PageId, (Lsn, Lsn)> = HashMap::new();
        let mut follower = self.log.follow(from)?;
        while follower.position() < end {
            let Some(block) = follower.next(Duration::ZERO)? else { break };
            for record in block.records() {
                let record = record?;
                let page = record.header.page;
                let is_in_use = || !restoring.is_there(page) && !self.space().is_beyond(page);
                if record.header.kind.is_of_page() && is_in_use() && !Planted::NoTail.is_planted() {
                    pages.entry(page).and_modify(|(_, last)| *last = record.lsn).or_insert((record.lsn, record.lsn));
                }
            }
        }
        let count = pages.len() as u64;
        for (page, (first, last)) in pages {
            match self.lookup(page, Access::Scan).filter(|pin| pin.0.valid.load(Ordering::SeqCst)) {
                Some(_) if Planted::ResidentForgotten.is_planted() => {}
                Some(pin) => pin.0.dirty_from(first),
                None => self.sources.pending.note(page, first, last),
            }
        }
        let mut dead = self.devices.dead.lock();
        dead.retain(|(of, _)| *of != file);
        // In this order.
        self.devices.replaced.fetch_add(1, Ordering::SeqCst);
        self.devices.is_dead.store(!dead.is_empty(), Ordering::SeqCst);
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_log::{Log, LogConfig};
    use resurgam_page::PageBuf;
    use resurgam_vfs::{OpenMode, SimVfs};

    use super::*;
    use crate::PoolConfig;
    use crate::source::SegmentMaker;

    struct Nothing;

    impl SegmentMaker for Nothing {
        fn make(&self, _: PageId, _: &mut [PageBuf]) -> Result<u64> {
            Ok(0)
        }
    }

    /// The device is replaced after a call to it failed and before the caller looks whether it is dead.
    #[test]
    fn who_failed_just_before_a_replacement_tries_again() -> Result<()> {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        vfs.make_folder(Path::new("/db"))?;
        let log = Log::create(Arc::clone(&vfs), Path::new("/db/log"), LogConfig::default(), 1)?;
        let config = PoolConfig { bytes: 1 << 20, batch_pages: 16 };
        let pool = BufferPool::open(&vfs, Path::new("/db/data"), Path::new("/db/dw"), log, config)?;
        pool.set_replaceable(true, Duration::from_secs(30));
        let (failed, page) = (Error::new(ErrorKind::Io, "the device is gone"), PageId(1));
        let before = pool.replacements();
        pool.device_failed(0, &failed);
        assert!(pool.check_devices().is_err());
        let restoring = Arc::new(Restoring::new(&[(0, 1)], Arc::new(Nothing)));
        let new = vfs.open(Path::new("/db/new"), OpenMode::Create)?;
        pool.replace_file(0, new, None, Arc::clone(&restoring))?;
        pool.note_behind(0, &restoring, pool.log().end_lsn())?;
        assert!(pool.dead_devices().is_empty());
        let now = Instant::now();
        assert!(pool.wait_for_replacement(now, before), "there may be room by now");
        assert!(pool.is_worth_trying_again(page, &failed, now, before), "it may be readable by now");
        // What fails since then has another reason.
        let after = pool.replacements();
        assert!(!pool.wait_for_replacement(now, after) && !pool.is_worth_trying_again(page, &failed, now, after));
        Ok(())
    }
}
