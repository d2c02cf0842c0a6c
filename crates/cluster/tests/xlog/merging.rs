//! The log service merges what it archives, and gives up what is not promised: whoever dies in the middle of it, whatever is damaged, and whoever else merges
//! beside, the archive has everything, and nothing goes that a lease needs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_archive::{Archive, ArchiveConfig, BACKUP_LEASE, Lease, LeaseKind, MergePolicy, verify, verify_backup};
use resurgam_base::{Lsn, Result};
use resurgam_cluster::XlogNode;
use resurgam_engine::{ArchiveKept, Database};
use resurgam_xstore::{Store, StoreError, StoreErrorKind, StoreResult, Upload};

use super::archiving::{ROWS, archiving, can_be_made_of_it, hardened, is_whole};
use super::common::{Cluster, Rows, Zoned, free_address, until};

/// Levels of the runs of the archive now.
fn levels(cluster: &Cluster) -> Vec<u16> {
    let view = Archive::open_view(cluster.store("archive"), None).ok().flatten();
    view.map_or(Vec::new(), |view| view.manifest().runs.iter().map(|run| run.id.level).collect())
}

fn kept(xlog: &XlogNode) -> ArchiveKept {
    xlog.status().archive.and_then(|shown| shown.kept).unwrap_or_default()
}

/// Changes rows, again and again, until that is so; each time there is log for a run.
fn change_until(rows: &mut Rows, db: &Database, what: &str, mut is_so: impl FnMut() -> bool) -> Result<()> {
    let begun = Instant::now();
    for round in 1.. {
        if is_so() {
            return Ok(());
        }
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for: {what}");
        rows.change(db, (round % 3..ROWS).step_by(3), round)?;
        std::thread::sleep(Duration::from_millis(30));
    }
    Ok(())
}

#[test]
fn the_log_service_merges_what_it_archives() -> Result<()> {
    let cluster = archiving();
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    change_until(&mut rows, &db, "merges", || kept(&xlog).merges >= 3)?;
    let upto = hardened(&zoned);
    is_whole(&cluster, upto)?;
    // Nothing waits when there is nothing new.
    until("all that waits is merged", || levels(&cluster).iter().filter(|level| **level == 0).count() < 8);
    let done = kept(&xlog);
    assert!(done.merged_runs >= 8 * done.merges && done.merged_bytes > 0 && done.merge_error.is_none(), "{done:?}");
    until("the primary knows of it", || {
        db.archive_status().is_some_and(|of| of.merges >= done.merges && of.merged_bytes >= done.merged_bytes)
    });
    let status = db.archive_status().expect("there is one");
    assert!(status.merged_elsewhere && status.merge_error.is_none(), "{status:?}");
    rows.check(&db)?;
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// At which call of a merge a log service dies.
#[derive(Clone, Copy, Debug)]
enum Dies {
    /// The merged run is begun.
    AtItsRun,
    /// It is there, and no manifest names it.
    BeforeItsManifest,
    /// It is named, and what it was made of is there as well.
    BeforeItDeletes,
}

/// A place that a process does nothing more to, from one call on.
struct Mortal {
    below: Arc<dyn Store>,
    dies: Dies,
    is_merged: AtomicBool,
    is_dead: Arc<AtomicBool>,
}

impl Mortal {
    fn dies_if(&self, so: bool) -> StoreResult<()> {
        if so {
            self.is_dead.store(true, Ordering::SeqCst);
        }
        self.lives()
    }

    fn lives(&self) -> StoreResult<()> {
        match self.is_dead.load(Ordering::SeqCst) {
            true => Err(StoreError::new(StoreErrorKind::Unavailable, "the process is dead")),
            false => Ok(()),
        }
    }
}

impl Store for Mortal {
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
        let is_merged = name.starts_with("runs/") && !name.contains("-L00-");
        self.dies_if(is_merged && matches!(self.dies, Dies::AtItsRun))?;
        let manifest = name.starts_with("manifests/");
        self.dies_if(
            manifest && matches!(self.dies, Dies::BeforeItsManifest) && self.is_merged.load(Ordering::SeqCst),
        )?;
        let upload = self.below.create(name)?;
        // It is made by the time that anything else is begun by the thread that merges.
        self.is_merged.fetch_or(is_merged, Ordering::SeqCst);
        Ok(Box::new(MortalUpload { below: upload, is_dead: Arc::clone(&self.is_dead) }))
    }
    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
        self.lives().and_then(|()| self.below.read(name, offset, len))
    }
    fn len(&self, name: &str) -> StoreResult<u64> {
        self.lives().and_then(|()| self.below.len(name))
    }
    fn list(&self, prefix: &str) -> StoreResult<Vec<String>> {
        self.lives().and_then(|()| self.below.list(prefix))
    }
    fn delete(&self, name: &str) -> StoreResult<()> {
        let is_run = name.starts_with("runs/") && self.is_merged.load(Ordering::SeqCst);
        self.dies_if(is_run && matches!(self.dies, Dies::BeforeItDeletes))?;
        self.below.delete(name)
    }
    fn sync_deletes(&self, folder: &str) -> StoreResult<()> {
        self.lives().and_then(|()| self.below.sync_deletes(folder))
    }
    fn tidy(&self, folder: &str) -> StoreResult<()> {
        self.lives().and_then(|()| self.below.tidy(folder))
    }
    fn place(&self) -> String {
        self.below.place()
    }
}

struct MortalUpload {
    below: Box<dyn Upload>,
    is_dead: Arc<AtomicBool>,
}

impl Upload for MortalUpload {
    fn append(&mut self, bytes: &[u8]) -> StoreResult<()> {
        self.below.append(bytes)
    }
    fn publish(self: Box<Self>) -> StoreResult<()> {
        match self.is_dead.load(Ordering::SeqCst) {
            true => Err(StoreError::new(StoreErrorKind::Unavailable, "the process is dead")),
            false => self.below.publish(),
        }
    }
}

/// One log service dies in the middle of a merge, the other one takes over, in turn; the primary dies as well.
#[test]
fn who_merges_is_killed() -> Result<()> {
    let mut cluster = archiving();
    let second_log = free_address();
    cluster.second_log = Some(second_log.clone());
    let node = cluster.page_server(0);
    let dead: Arc<Mutex<(Dies, Arc<AtomicBool>)>> = Arc::new(Mutex::new((Dies::AtItsRun, Arc::default())));
    let start = |cluster: &mut Cluster, number: usize, dies: Option<Dies>| -> XlogNode {
        if let Some(dies) = dies {
            *dead.lock() = (dies, Arc::default());
        }
        let dead = Arc::clone(&dead);
        cluster.archive_through = dies.map(|_| {
            Arc::new(move |below: Arc<dyn Store>| {
                let (dies, is_dead) = &*dead.lock();
                let mortal =
                    Mortal { below, dies: *dies, is_merged: AtomicBool::new(false), is_dead: Arc::clone(is_dead) };
                Arc::new(mortal) as Arc<dyn Store>
            }) as super::common::Through
        });
        match number {
            0 => cluster.log_service(),
            _ => cluster.log_service_at("xlog-2", &second_log),
        }
    };
    let mut now = start(&mut cluster, 0, Some(Dies::AtItsRun));
    let zoned = cluster.zoned();
    let mut open: Option<(Database, Zoned)> = Some((cluster.open_zoned(&zoned, "primary")?, zoned));
    let mut rows = Rows::create(&open.as_ref().expect("open").0, ROWS)?;
    let next = [Some(Dies::BeforeItsManifest), Some(Dies::BeforeItDeletes), Some(Dies::AtItsRun), None];
    for (number, next) in (1..).zip(next) {
        let (db, zoned) = open.take().expect("open");
        let is_dead = Arc::clone(&dead.lock().1);
        change_until(&mut rows, &db, "it dies as it merges", || is_dead.load(Ordering::SeqCst))?;
        let after = start(&mut cluster, number % 2, next);
        drop(now);
        now = after;
        if number == 2 {
            drop((db, zoned));
            let zoned = cluster.zoned();
            let db = cluster.open_zoned(&zoned, "primary-2")?;
            rows = rows.again(&db)?;
            open = Some((db, zoned));
        } else {
            open = Some((db, zoned));
        }
    }
    let (db, zoned) = open.take().expect("open");
    change_until(&mut rows, &db, "the last one merges", || kept(&now).merges > 0)?;
    rows.check(&db)?;
    is_whole(&cluster, hardened(&zoned))?;
    until("all that waits is merged", || levels(&cluster).iter().filter(|level| **level == 0).count() < 8);
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// A run is damaged, and the log goes on: it is archived all the same, and everybody is told all the time, until the run is mended.
#[test]
fn a_damaged_run_is_told_of_while_the_log_is_archived() -> Result<()> {
    let mut cluster = archiving();
    cluster.log_service_merges = false;
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    // Too few to be merged by the primary, which does so beside a log service of before; and not the last one, which a claim looks at.
    let mut run = None;
    change_until(&mut rows, &db, "three runs", || {
        let view = Archive::open_view(cluster.store("archive"), None).ok().flatten();
        let view = view.filter(|view| view.manifest().runs.len() >= 3);
        run = view.and_then(|view| view.manifest().runs.first().map(|run| run.id.name()));
        run.is_some()
    })?;
    let run = run.expect("a run");
    drop(xlog);
    let path = cluster.path("archive").join(run);
    let whole = std::fs::read(&path).expect("it is there");
    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle..middle + 16].iter_mut().for_each(|byte| *byte ^= 0xa5);
    std::fs::write(&path, &damaged).expect("it is damaged");
    cluster.log_service_merges = true;
    let xlog = cluster.log_service();
    change_until(&mut rows, &db, "the log service says so", || kept(&xlog).merge_error.is_some())?;
    for _ in 0..3 {
        let upto = hardened(&zoned);
        change_until(&mut rows, &db, "it is archived all the same", || {
            let shown = xlog.status().archive.expect("it archives");
            let error = shown.kept.and_then(|kept| kept.merge_error).expect("it is told all the time");
            assert!(error.contains(".run"), "{error}");
            assert!(shown.error.is_none(), "{:?}", shown.error);
            shown.archived.is_some_and(|archived| archived > upto)
        })?;
    }
    change_until(&mut rows, &db, "the primary says so", || {
        let status = db.archive_status().expect("there is an archive");
        let is_known = status.merge_error.is_some_and(|error| error.contains(".run"));
        is_known && status.error.is_none() && db.troubles().iter().any(|of| of.what.contains("merging runs"))
    })?;
    // Nothing was changed.
    assert!(levels(&cluster).iter().all(|level| *level == 0));
    std::fs::write(&path, &whole).expect("it is mended");
    change_until(&mut rows, &db, "it is merged", || kept(&xlog).merges > 0)?;
    assert_eq!(kept(&xlog).merge_error, None);
    until("the primary knows that it is well", || {
        db.archive_status().is_some_and(|of| of.merge_error.is_none() && of.merges > 0)
            && db.troubles().iter().all(|of| !of.what.contains("merging runs"))
    });
    is_whole(&cluster, hardened(&zoned))?;
    rows.check(&db)?;
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// A window of a second: what is older goes once there are backups, but for what a lease needs.
#[test]
fn what_is_not_promised_goes_and_what_is_leased_stays() -> Result<()> {
    let mut cluster = archiving();
    cluster.recovery_window = Duration::from_secs(1);
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    let begin = Lsn(1 << 20);
    let start = || {
        let view = Archive::open_view(cluster.store("archive"), None).ok().flatten();
        view.map_or(Lsn::NONE, |view| view.start())
    };
    change_until(&mut rows, &db, "an archive", || start().is_some())?;
    let name = db.backup(false, &|| false)?;
    let archive = cluster.store("archive");
    let view = Archive::open_view(Arc::clone(&archive), None)?.expect("an archive");
    let lease = Lease {
        name: "somebodys-clone".into(),
        kind: LeaseKind::Clone,
        database: view.manifest().database,
        cut: view.end(),
        undo_from: view.end(),
        backup: None,
        created_us: 0,
    };
    lease.create(&*archive)?;
    lease.check(&archive, Some(&cluster.store("backups")), view.start())?;
    let end = view.end();
    drop(view);
    db.checkpoint()?;
    change_until(&mut rows, &db, "more is archived", || {
        let view = Archive::open_view(cluster.store("archive"), None).ok().flatten();
        view.is_some_and(|view| view.end() > end)
    })?;
    let later = db.backup(false, &|| false)?;
    assert_ne!(name, later);
    // Passes that would give up much.
    let (mut passes, mut last) = (0, None);
    change_until(&mut rows, &db, "passes with the lease", || {
        let now = kept(&xlog).looked_us;
        passes += u32::from(now != last);
        last = now;
        passes > 5 && kept(&xlog).held_by.iter().any(|by| by.contains("somebodys-clone"))
    })?;
    assert_eq!((start(), kept(&xlog).given_up.runs), (begin, 0), "all of it is leased");
    until("the primary says what holds it", || {
        db.recoverable_points().is_some_and(|points| points.held_by.iter().any(|by| by.contains("somebodys-clone")))
    });
    assert!(Lease::remove(&*archive, "somebodys-clone")?);
    // A run that was merged goes when all of it is too old, which later checkpoints and backups let it be.
    let mut checks = 0;
    change_until(&mut rows, &db, "it goes", || {
        checks += 1;
        if checks % 20 == 1 {
            db.checkpoint().expect("a checkpoint");
            db.backup(false, &|| false).expect("a backup");
        }
        start() > begin && kept(&xlog).given_up.runs > 0
    })?;
    until("the primary says what was given up", || {
        let points = db.recoverable_points().expect("there is an archive");
        points.given_up.runs > 0 && points.window == Some(Duration::from_secs(1)) && points.error.is_none()
    });
    until("and looks at the archive as it is", || {
        db.recoverable_points().is_some_and(|points| points.earliest.is_some_and(|earliest| earliest > begin))
    });
    rows.check(&db)?;
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// A log service of before only adds runs: the primary merges them beside it, until there is one that merges.
#[test]
fn a_log_service_of_before_leaves_merging_to_the_primary() -> Result<()> {
    let mut cluster = archiving();
    cluster.log_service_merges = false;
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    change_until(&mut rows, &db, "the primary merges", || {
        db.archive_status().is_some_and(|of| !of.merged_elsewhere && of.merges > 1)
    })?;
    drop(xlog);
    cluster.log_service_merges = true;
    let xlog = cluster.log_service();
    change_until(&mut rows, &db, "the log service merges", || {
        kept(&xlog).merges > 1 && db.archive_status().is_some_and(|of| of.merged_elsewhere && of.merges > 1)
    })?;
    is_whole(&cluster, hardened(&zoned))?;
    rows.check(&db)?;
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// A primary of before merges whatever the log service does: both do at once, and nothing comes of it but work that was in vain.
#[test]
fn a_primary_of_before_merges_beside() -> Result<()> {
    let cluster = archiving();
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, ROWS)?;
    change_until(&mut rows, &db, "the log service merges", || kept(&xlog).merges > 0)?;
    let (is_over, besides, nonce) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    // As it does so, but for its looking at the archive each time, and not once a second.
    let merge_beside = || -> Result<u64> {
        let Some(beside) = Archive::open_beside(cluster.store("archive"), nonce.fetch_add(1000, Ordering::SeqCst))?
        else {
            return Ok(0);
        };
        let merged = beside.merge(&ArchiveConfig::default(), &mut MergePolicy::keep_all())?;
        beside.delete_replaced()?;
        Ok(u64::from(merged.is_some()))
    };
    std::thread::scope(|scope| -> Result<()> {
        let beside = scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                // Another one has claimed the archive, or has merged these runs.
                let _ = db.merge_archive();
                besides.fetch_add(merge_beside().unwrap_or(0), Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let changed = change_until(&mut rows, &db, "many runs, merged by both", || {
            besides.load(Ordering::SeqCst) > 1 && levels(&cluster).len() > 2 && kept(&xlog).merges > 0
        });
        is_over.store(true, Ordering::SeqCst);
        beside.join().expect("it does not panic");
        changed
    })?;
    let shown = xlog.status().archive.expect("it archives");
    assert!(shown.works && shown.error.is_none(), "{shown:?}");
    assert_eq!(kept(&xlog).merge_error, None, "who was first is no error");
    assert!(kept(&xlog).merges > 0 && besides.load(Ordering::SeqCst) > 1, "both have merged");
    is_whole(&cluster, hardened(&zoned))?;
    rows.check(&db)?;
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// A backup is made of the archive alone, and held between two of its pieces while the log service merges what it is made of, and gives up what it may: it is
/// completed, and everything can be made of it.
#[test]
fn runs_are_merged_during_a_backup() -> Result<()> {
    // More pages than are made at once, on any machine.
    const MANY: i64 = 70_000;
    let mut cluster = archiving();
    cluster.recovery_window = Duration::from_secs(1);
    cluster.buffer_pages = 4096;
    let node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let mut rows = Rows::create(&db, MANY)?;
    let archive = cluster.store("archive");
    let view = || Archive::open_view(Arc::clone(&archive), None).ok().flatten();
    let upto = hardened(&zoned);
    until("it is archived", || view().is_some_and(|view| view.end() >= upto));
    let begin = view().expect("an archive");
    // Keeps all of it until the backup is held.
    let lease = Lease {
        name: "somebodys-clone".into(),
        kind: LeaseKind::Clone,
        database: begin.manifest().database,
        cut: begin.end(),
        undo_from: begin.end(),
        backup: None,
        created_us: 0,
    };
    lease.create(&*archive)?;
    let begin = begin.start();
    db.write_back()?;
    db.checkpoint()?;
    let first = db.backup(false, &|| false)?;
    change_until(&mut rows, &db, "passes, long after the backup", || {
        kept(&xlog).held_by.iter().any(|by| by.contains("somebodys-clone"))
    })?;
    assert_eq!(view().map(|view| view.start()), Some(begin), "all of it is leased");
    let (is_held, goes_on) = (AtomicBool::new(false), AtomicBool::new(false));
    // Asked after each piece; that it is at it its lease says.
    let hold = || {
        let is_at_it = || {
            let leases = Lease::list(&*archive).unwrap_or_default();
            leases.iter().any(|lease| lease.name.starts_with(BACKUP_LEASE))
        };
        if !is_held.load(Ordering::SeqCst) && is_at_it() {
            is_held.store(true, Ordering::SeqCst);
            until("the archive has changed", || goes_on.load(Ordering::SeqCst));
        }
        false
    };
    let name = std::thread::scope(|scope| -> Result<String> {
        let backup = scope.spawn(|| db.backup(true, &hold));
        until("the backup is held", || is_held.load(Ordering::SeqCst));
        let before = view().expect("an archive");
        assert!(Lease::remove(&*archive, "somebodys-clone")?);
        let merges = kept(&xlog).merges;
        let changed = change_until(&mut rows, &db, "runs of the backup are merged", || {
            let now = view().expect("an archive");
            let mut of_backup = before.manifest().runs.iter().filter(|run| run.id.end > now.start());
            let is_replaced = of_backup.any(|run| !now.manifest().runs.contains(run));
            // Whether something was given up by then is a matter of what was merged first: a run goes as a whole.
            kept(&xlog).merges > merges && is_replaced
        });
        goes_on.store(true, Ordering::SeqCst);
        let made = backup.join().expect("it does not panic");
        changed.and(made)
    })?;
    assert_ne!(name, first);
    let backups = cluster.store("backups");
    assert!(verify_backup(&backups, &name)?.problems.is_empty());
    let leases = Lease::list(&*archive)?;
    assert!(leases.is_empty(), "{leases:?}");
    let upto = hardened(&zoned);
    until("it is archived", || view().is_some_and(|view| view.end() >= upto));
    let report = verify(Arc::clone(&archive), None)?;
    assert!(report.problems.is_empty(), "{report}");
    rows.check(&db)?;
    db.close()?;
    drop((db, zoned, node));
    can_be_made_of_it(&cluster, rows, "elsewhere")
}

/// The log service gives up by another window than the primary was given, and cannot reach the backups: the primary tells of both, and of neither any more once
/// one without a window archives.
#[test]
fn the_primary_tells_of_another_window_until_nobody_has_one() -> Result<()> {
    const EXPIRES: &str = "giving up what no promised point needs";
    for primary_window in [Duration::ZERO, Duration::from_secs(7200)] {
        let mut cluster = archiving();
        (cluster.recovery_window, cluster.primary_window) = (Duration::from_secs(1), primary_window);
        let node = cluster.page_server(0);
        let xlog = cluster.log_service();
        let zoned = cluster.zoned();
        let db = cluster.open_zoned(&zoned, "primary")?;
        let mut rows = Rows::create(&db, ROWS)?;
        let told = |what: &str| {
            let is_it = |of: &resurgam_engine::Trouble| of.what.contains(EXPIRES) && of.error.contains(what);
            db.troubles().iter().any(is_it)
        };
        let why = if primary_window.is_zero() { "the log service at" } else { "a recovery window of 1s" };
        if primary_window.is_zero() {
            change_until(&mut rows, &db, "it gives up", || kept(&xlog).looked_us.is_some())?;
            assert!(!told(""), "{:?}", db.troubles());
            drop(xlog);
            std::fs::rename(cluster.path("backups"), cluster.path("away")).expect("they are away");
            let xlog = cluster.log_service();
            change_until(&mut rows, &db, "it is told", || kept(&xlog).expire_error.is_some() && told(why))?;
            std::fs::rename(cluster.path("away"), cluster.path("backups")).expect("they are back");
        } else {
            change_until(&mut rows, &db, "it is told", || told(why))?;
            drop(xlog);
        }
        // Its window is the primary's from now on, or there is none.
        cluster.recovery_window = primary_window;
        let xlog = cluster.log_service();
        change_until(&mut rows, &db, "nothing is told any more", || {
            xlog.status().archive.is_some_and(|shown| shown.works) && !told("")
        })?;
        rows.check(&db)?;
        db.close()?;
        drop((db, zoned, node));
    }
    Ok(())
}
