//! What goes wrong besides the faults that a schedule draws: stores of archive and backups that fail, fill up, or do what they
//! report as failed; devices that acknowledge writes and lose them or put them elsewhere; devices that die for good; devices and stores
//! that do not answer (`hangs.rs`).
//!
//! All of it is drawn from generators of its own that are derived from the seed, so that what else the seed means stays what it was. (So is
//! how many rows are deleted or inserted at once, and when space is given back, which is no trouble, but came later than the seeds.)

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, Lie, LyingWrite, OpenMode, SimVfs, Vfs};
use resurgam_xstore::{FaultyStore, FolderStore, Misdeed, Store, StoreCall, StoreErrorKind};

use super::hangs::Hangs;
use super::rng::Rng;
use super::schedule::{ARCHIVE, BACKUPS, DIR, LOG_DIR, Met, Plan, VERSION_FILES};

/// Where the data goes if its own device dies, in some schedules.
pub const SPARE: &str = "/disk9/spare";
/// What the data is on.
pub const DATA_DEVICE: &str = "/db";

/// Which of it schedules have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Besides {
    /// None: what a seed meant before there was any.
    Nothing,
    /// A share of the seeds has each.
    BySeed,
    /// Lies only, and nobody compares what is read first with the archive: the harness must notice.
    LiesUnnoticed,
    /// The archive's store only, which forgets some of what it acknowledges: the harness must notice.
    Forgetful,
    /// The data's device dies, there is a spare one, and once all is restored some of it is as it was on the old device: the
    /// harness must notice.
    StaleDevice,
    /// As by seed, and each schedule has an archive, a spare device, and one that hangs.
    Hangs,
    /// A device hangs, and what it writes late lands in the file that has taken its file's place; nobody compares what is read first with the
    /// archive, which would heal it: the harness must notice.
    LateInUse,
    /// Space is given back in each schedule, again and again, and nothing else is done.
    GivesBack,
}

impl Besides {
    /// Whether it is wrong on purpose.
    pub fn is_planted(self) -> bool {
        !matches!(self, Self::Nothing | Self::BySeed | Self::Hangs | Self::GivesBack)
    }

    /// Whether every schedule has an archive.
    pub fn has_archive(self) -> bool {
        self.is_planted() || self == Self::Hangs
    }

    /// Whether every schedule has its log in a folder of its own, so that its device can be replaced.
    pub fn has_log_folder(self) -> bool {
        matches!(self, Self::StaleDevice | Self::Hangs | Self::LateInUse)
    }

    fn is_by_seed(self) -> bool {
        matches!(self, Self::BySeed | Self::Hangs)
    }
}

/// See the module.
pub struct Troubles {
    rng: Rng,
    /// How many rows are deleted at once.
    runs: Rng,
    /// How many are inserted at once, and which.
    pub loads: Rng,
    /// When space is given back; none: it is not in this schedule.
    gives_back: Option<Rng>,
    /// It was.
    pub gave_back: bool,
    besides: Besides,
    stores: bool,
    lies: bool,
    deaths: bool,
    /// There is a spare device.
    pub spare: bool,
    /// Of this life.
    archive: Option<Arc<FaultyStore>>,
    backups: Option<Arc<FaultyStore>>,
    /// Something is wrong with one of them now.
    pub at_work: bool,
    /// The device that dies in this life, and the call from which on it is dead.
    dies: Option<(u64, &'static str)>,
    /// Writes were acknowledged that did not happen. From then on the archive can be read at all times: while it is away a page that is read
    /// first is compared with what is left of the log only (docs/durability.md).
    pub lied: bool,
    hangs: Hangs,
    /// Something was wrong with a store while the database was opened. Without an archive then it holds no device for one that can be
    /// replaced, until the background (which there is none of) looks again.
    opened_in_trouble: bool,
}

impl Troubles {
    /// What a schedule has of it. `options` are changed for that: a spare device, stores that can fail.
    pub fn of(seed: u64, plan: &Plan, options: &mut Options) -> Self {
        let (besides, is_broken, in_files) = (plan.besides, plan.is_broken(), !plan.page_server);
        let mut rng = Rng::new(seed ^ 0x7472_6f75_626c_6573);
        let with_archive = options.archive.is_some() && !is_broken && !plan.early_names;
        // All of them are drawn in each case.
        let drawn = [rng.one_in(2), rng.one_in(2), rng.one_in(3), rng.one_in(2)];
        // A spare device takes an archive and a log elsewhere, which few schedules have: most of these have it.
        let drawn = match with_archive && options.log_dir.is_some() {
            true => [drawn[0], drawn[1], drawn[2] || drawn[3], drawn[2] || drawn[3]],
            false => drawn,
        };
        let [stores, lies, deaths, spare] = match besides {
            Besides::Nothing | Besides::GivesBack => [false; 4],
            Besides::BySeed | Besides::Hangs => drawn,
            Besides::LiesUnnoticed => [false, true, false, false],
            Besides::Forgetful => [true, false, false, false],
            Besides::StaleDevice => [false, false, true, true],
            Besides::LateInUse => [false; 4],
        };
        let replaceable = with_archive && in_files && options.log_dir.is_some();
        let mut hangs = Hangs::of(seed, besides, replaceable, stores && with_archive);
        // What is lost is found by what the archive knows, and mended from it.
        let lies = lies && with_archive && in_files && options.page_repair;
        options.compare_first_reads &= !matches!(besides, Besides::LiesUnnoticed | Besides::LateInUse);
        let spare = spare && deaths && replaceable || hangs.devices;
        if spare {
            options.spare_data = Some(SPARE.into());
            // The device of a version store may hang as well, where there is room for another file.
            if !hangs.devices || plan.small_disk.is_some() || besides == Besides::LateInUse {
                options.version_store_path = None;
            }
        }
        if hangs.devices && hangs.through_gates() {
            options.device_timeout = std::time::Duration::from_secs(20);
        }
        let mut gives_back = Rng::new(seed ^ 0x6769_7665_7321);
        let is_wanted = gives_back.one_in(2) && besides.is_by_seed() || besides == Besides::GivesBack;
        Self {
            rng,
            gives_back: is_wanted.then_some(gives_back),
            gave_back: false,
            runs: Rng::new(seed ^ 0x7275_6e73),
            loads: Rng::new(seed ^ 0x6c6f_6164),
            besides,
            stores: stores && with_archive,
            lies,
            deaths: deaths && !is_broken && in_files && (spare || besides.is_by_seed()),
            spare,
            archive: None,
            backups: None,
            at_work: false,
            dies: None,
            lied: false,
            hangs,
            opened_in_trouble: false,
        }
    }

    /// How many rows that follow each other the next deletion is of.
    pub fn rows_deleted_at_once(&mut self) -> usize {
        if self.besides == Besides::GivesBack {
            // Leaves of which some rows are left.
            return if self.runs.one_in(2) { self.runs.range(2, 12) as usize } else { 1 };
        }
        if self.besides.is_by_seed() && !self.runs.one_in(3) { self.runs.range(2, 24) as usize } else { 1 }
    }

    /// How many rows the next insertion is of.
    pub fn rows_inserted_at_once(&mut self) -> usize {
        if self.besides == Besides::GivesBack {
            // Tables of several leaves.
            return if self.loads.one_in(2) { self.loads.range(8, 48) as usize } else { 1 };
        }
        if self.besides.is_by_seed() && self.loads.one_in(6) { self.loads.range(2, 24) as usize } else { 1 }
    }

    /// Whether space is to be given back now.
    pub fn gives_back(&mut self, one_in: u64) -> bool {
        let gives = self.gives_back.as_mut().is_some_and(|rng| rng.one_in(one_in));
        self.gave_back |= gives;
        gives
    }

    /// Stores for an open, which may fail while it goes on.
    pub fn open(&mut self, vfs: &SimVfs, options: &mut Options) -> Result<(), Error> {
        if !self.stores {
            return Ok(());
        }
        let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let store = |place: &str| -> Result<Arc<FaultyStore>, Error> {
            let folder = FolderStore::open(Arc::clone(&vfs), Path::new(place)).map_err(Error::from)?;
            Ok(Arc::new(FaultyStore::new(Arc::new(folder))))
        };
        let (archive, backups) = (store(ARCHIVE)?, store(BACKUPS)?);
        options.archive_store = Some(StoreHandle(Arc::clone(&archive) as Arc<dyn Store>));
        options.backups_store = Some(StoreHandle(Arc::clone(&backups) as Arc<dyn Store>));
        self.hangs.begin([&archive, &backups]);
        (self.archive, self.backups) = (Some(archive), Some(backups));
        Ok(())
    }

    /// Something may be wrong with the stores while the database is opened.
    pub fn before_open(&mut self) {
        if self.besides.is_by_seed() && self.rng.one_in(3) && !self.lied {
            self.misdeed();
        }
        self.opened_in_trouble = self.at_work;
    }

    /// They are well again.
    pub fn heal(&mut self) {
        for store in [&self.archive, &self.backups].into_iter().flatten() {
            store.heal();
        }
        self.at_work = false;
    }

    /// Before a step of the workload: now and then a store begins to fail, or is well again.
    pub fn step(&mut self, met: &mut Met) {
        if !self.stores {
            return;
        }
        self.hangs.step([self.archive.as_ref(), self.backups.as_ref()], met);
        if self.at_work && self.rng.one_in(12) {
            self.heal();
        } else if !self.at_work && self.rng.one_in(12) {
            self.misdeed();
            met.store_troubles += 1;
        }
    }

    /// One of the stores does something wrong, once or each time.
    fn misdeed(&mut self) {
        let of_backups = self.rng.one_in(3) && self.besides != Besides::Forgetful;
        let store = if of_backups { &self.backups } else { &self.archive };
        let Some(store) = store else { return };
        use Misdeed::{ApplyAndFail, Fail, Forget};
        use StoreErrorKind::{Full, Unavailable, Uncertain};
        let (call, misdeed) = [
            (StoreCall::Publish, Fail(Unavailable)),
            (StoreCall::Publish, Fail(Uncertain)),
            (StoreCall::Publish, ApplyAndFail),
            (StoreCall::Publish, Fail(Full)),
            (StoreCall::Read, Fail(Unavailable)),
            (StoreCall::List, Fail(Unavailable)),
            (StoreCall::Delete, Fail(Unavailable)),
            (StoreCall::Delete, ApplyAndFail),
        ][self.rng.below(8) as usize];
        let (call, misdeed) =
            if self.besides == Besides::Forgetful { (StoreCall::Publish, Forget) } else { (call, misdeed) };
        let (call, misdeed) = self.hangs.misdeed().unwrap_or((call, misdeed));
        let is_away = self.lied && matches!(call, StoreCall::Read | StoreCall::List);
        let (call, misdeed) = if is_away { (StoreCall::Publish, Fail(Unavailable)) } else { (call, misdeed) };
        self.at_work = true;
        if self.rng.one_in(3) && misdeed != Forget {
            store.always(call, Some(misdeed));
        } else {
            for _ in 0..1 + self.rng.below(3) {
                store.at(call, 1 + self.rng.below(6), misdeed);
            }
        }
    }

    /// Adds to the faults of a life what devices do wrong in it.
    pub fn plant(&mut self, plan: &mut FaultPlan, vfs: &SimVfs, with_archive: bool, met: &mut Met) {
        self.dies = None;
        if self.lies {
            for _ in 0..self.rng.below(12) {
                let far = limits::PAGE_SIZE as i64 * (1 + self.rng.below(6) as i64);
                let lie = if self.rng.one_in(3) { Lie::Elsewhere(far) } else { Lie::Lost };
                let path = self.data(vfs);
                plan.lying.push(LyingWrite { path, at: 1 + self.rng.below(40), lie });
                self.lied = true;
                met.lies += 1;
            }
        }
        if self.hangs.devices {
            let mut devices = Vec::new();
            devices.extend((!self.has_moved(vfs)).then_some(DATA_DEVICE));
            let version_file =
                vfs.exists(Path::new(VERSION_FILES[0])).unwrap_or(false) && !self.versions_have_moved(vfs);
            devices.extend(version_file.then_some("/disk2"));
            self.dies = self.hangs.plant(plan, &devices);
            met.hangs += u64::from(self.dies.is_some());
        } else if self.deaths && (self.spare || self.rng.one_in(2)) {
            let mut devices = vec![DATA_DEVICE];
            if !self.spare {
                let there = |file: &str| vfs.exists(Path::new(file)).unwrap_or(false);
                devices.extend(there(LOG_DIR).then_some("/disk4"));
                devices.extend(
                    VERSION_FILES.into_iter().zip(["/disk2", "/disk3"]).filter(|(file, _)| there(file)).map(|of| of.1),
                );
                if with_archive && !self.lied {
                    devices.extend(["/disk5", "/disk6"]);
                }
            }
            let device = self.rng.pick(&devices).copied().unwrap_or(DATA_DEVICE);
            // Where the data is elsewhere already, nothing more happens to it.
            if !(device == DATA_DEVICE && self.has_moved(vfs)) {
                let at = self.rng.range(1, 160);
                self.dies = Some((at, device));
                plan.dies = Some((at, device.into()));
                met.deaths += 1;
            }
        }
    }

    /// What stays as it is when other faults of a life are over: a dead device.
    pub fn stays(&self, vfs: &SimVfs, mut plan: FaultPlan) -> FaultPlan {
        if self.hangs.devices {
            self.hangs.stays(vfs.ops(), &mut plan);
        } else if let Some((at, device)) = self.dies {
            plan.dies = Some((at.saturating_sub(vfs.ops()), device.into()));
        }
        plan
    }

    /// Counts what a device that hangs has done late.
    pub fn count_late(&mut self, vfs: &SimVfs, met: &mut Met) {
        if let Some((_, device)) = self.dies
            && self.hangs.devices
        {
            let elsewhere = if device == DATA_DEVICE { self.has_moved(vfs) } else { self.versions_have_moved(vfs) };
            self.hangs.count(vfs.late_calls().1, elsewhere, met);
        }
    }

    /// Devices are what they were: a new life begins.
    pub fn restart(&mut self) {
        self.dies = None;
        self.hangs.restart([self.archive.as_ref(), self.backups.as_ref()]);
        (self.archive, self.backups, self.at_work) = (None, None, false);
        self.opened_in_trouble = false;
    }

    /// Whether the device that dies in this life is one of those.
    pub fn dies(&self, devices: &[&str]) -> bool {
        self.dies.is_some_and(|(_, device)| devices.contains(&device))
    }

    /// Whether all that was written has to be read again soon, while the database still knows what it wrote.
    pub fn reads_again(&self) -> bool {
        self.lies && self.besides.is_by_seed()
    }

    /// Whether what was lost in this life is to be behind a checkpoint when it ends.
    pub fn ends_with_checkpoint(&mut self) -> bool {
        self.lies && (self.besides == Besides::LiesUnnoticed || self.rng.one_in(2))
    }

    /// Whether all is archived before that: otherwise only the log tells what the archive lacks.
    pub fn archives_before(&mut self) -> bool {
        self.besides == Besides::LiesUnnoticed || self.rng.one_in(2)
    }

    /// Whether what is on a spare device has to be whole at the end of each life.
    pub fn is_restored_at_once(&self) -> bool {
        matches!(self.besides, Besides::StaleDevice | Besides::LateInUse)
    }

    /// Whether a checkpoint is to follow that, and redo mends nothing.
    pub fn ends_as_checkpointed(&self) -> bool {
        self.besides == Besides::LateInUse
    }

    /// Whether anything of archive or backups may be out of reach now.
    pub fn is_out_of_reach(&self) -> bool {
        self.at_work || self.dies.is_some()
    }

    /// Whether an error of `what` is explained. `Some(true)`: the database has stopped for it.
    pub fn explains(&self, error: &Error, what: &str) -> Option<bool> {
        let ends = ["commit", "rollback", "going back"].iter().any(|end| what.starts_with(end));
        let of_store =
            matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull) && error.to_string().contains("simulated ");
        // What is being restored when the database is opened is of no use without what it is made of.
        if self.at_work && what == "open" && error.message().contains("are being restored") {
            return Some(false);
        }
        // Nor can a page be cleaned of aborted versions that is still to be restored: the sweep says how many, not why.
        if self.at_work && what == "change of the mode" && error.message().contains("pages could not be cleaned") {
            return Some(false);
        }
        // No transaction ends, or fails to, by what an archive does. (That a page could not be rebuilt is remembered for a second.)
        let remembered = self.stores && error.message().contains("could not be rebuilt: simulated ");
        if (self.at_work || remembered) && of_store && !ends {
            return Some(false);
        }
        let stops = [DATA_DEVICE, "/disk2", "/disk3", "/disk4"];
        // Where another device takes its place, with the log on one of its own, nothing ends, and no transaction by it.
        if self.spare && !self.opened_in_trouble && (error.kind() == ErrorKind::Stopped || ends) {
            return None;
        }
        match error.kind() {
            ErrorKind::Stopped if self.dies(&stops) => Some(true),
            ErrorKind::Io if self.dies(&stops) => Some(false),
            ErrorKind::Io if self.dies(&["/disk5", "/disk6"]) && !ends => Some(false),
            _ => None,
        }
    }

    /// Between lives, if one is planted.
    pub fn mistake(&self, vfs: &SimVfs) -> Result<(), String> {
        let restoring = vfs.exists(&Path::new(SPARE).join("restore")).unwrap_or(true);
        if self.besides != Besides::StaleDevice || !self.has_moved(vfs) || restoring {
            return Ok(());
        }
        let copy = || -> Result<(), Error> {
            let old = vfs.open(&Path::new(DIR).join("data"), OpenMode::ReadOnly)?;
            let new = vfs.open(&self.data(vfs), OpenMode::ReadWrite)?;
            let mut page = vec![0; limits::PAGE_SIZE];
            for at in (8..old.len()?.min(new.len()?) / limits::PAGE_SIZE as u64).step_by(2) {
                old.read_exact_at(&mut page, at * limits::PAGE_SIZE as u64)?;
                if page.iter().any(|byte| *byte != 0) {
                    new.write_at(&page, at * limits::PAGE_SIZE as u64)?;
                }
            }
            new.sync()
        };
        copy().map_err(|error| error.to_string())
    }

    fn has_moved(&self, vfs: &SimVfs) -> bool {
        // A replacement that was not completed says nothing there.
        self.spare && vfs.exists(&Path::new(LOG_DIR).join("data-place")).unwrap_or(false)
    }

    fn versions_have_moved(&self, vfs: &SimVfs) -> bool {
        self.spare && vfs.exists(&Path::new(SPARE).join("version-store-file")).unwrap_or(false)
    }

    /// The data file.
    pub fn data(&self, vfs: &SimVfs) -> std::path::PathBuf {
        Path::new(if self.has_moved(vfs) { SPARE } else { DIR }).join("data")
    }
}
