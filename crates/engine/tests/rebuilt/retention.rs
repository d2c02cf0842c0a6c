//! Retention with a database at work: what the recovery window promises can be restored, row by row, whatever was given up and
//! left out; what is older is gone; clones, unfinished transactions and the repair of pages go on.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use crate::common::open::small_log;
use crate::common::{self, read, row, rows_table};
use resurgam_archive::{Archive, Lease, list_backups, verify};
use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};
use resurgam_xstore::{FolderStore, Store};

pub(super) const ARCHIVE: &str = "/disk5/archive";
pub(super) const BACKUPS: &str = "/disk6/backups";
pub(super) const HOUR: Duration = Duration::from_secs(3600);
const ROWS: i64 = 60;

type Rows = BTreeMap<i64, i64>;

pub(super) fn options(traditional: bool) -> Options {
    Options {
        archive: Some(ARCHIVE.into()),
        archive_records_per_page_max: 16,
        backups: Some(BACKUPS.into()),
        recovery_window: HOUR * 6,
        ..small_log(traditional)
    }
}

fn open(sim: &SimVfs, dir: &str, options: Options) -> Result<Database> {
    Database::open_with(Arc::new(sim.clone()), Path::new(dir), options, |_| {})
}

pub(super) fn store(sim: &SimVfs, folder: &str) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(FolderStore::open(Arc::new(sim.clone()), Path::new(folder)).map_err(Error::from)?))
}

/// A point of the history, and what there was.
#[derive(Clone)]
pub(super) struct Point {
    lsn: Lsn,
    pub us: i64,
    rows: Rows,
}

pub(super) struct Work {
    pub sim: SimVfs,
    pub db: Database,
    rows: Rows,
    pub points: Vec<Point>,
    round: i64,
}

impl Work {
    pub fn begin(options: Options) -> Result<Self> {
        let sim = SimVfs::new(5);
        for disk in ["/disk5", "/disk6"] {
            sim.make_folder(Path::new(disk))?;
        }
        let db = open(&sim, "/db", options)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = rows_table("t");
        let table = tx.create_table(spec)?.done()?;
        let mut rows = Rows::new();
        for id in 0..ROWS {
            tx.insert(&table, &row(id, 0, "begun"))?.done()?;
            rows.insert(id, 0);
        }
        tx.commit(Durability::Sync)?.wait()?;
        Ok(Self { sim, db, rows, points: Vec::new(), round: 0 })
    }

    /// An hour: changes in several small runs, a checkpoint, merges, a backup now and then, a pass.
    pub fn hour(&mut self) -> Result<()> {
        self.round += 1;
        for part in 0..3 {
            let tx = self.db.begin(Isolation::ReadCommitted);
            let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
            for id in (part..40).step_by(3) {
                let v = self.round * 10 + part;
                let key = common::key(&table, id)?;
                tx.update(&table, &key, Seen::Snapshot, &row(id, v, &"n".repeat(100)))?.done()?;
                self.rows.insert(id, v);
            }
            tx.commit(Durability::Sync)?.wait()?;
            self.db.archive_now()?;
        }
        self.points.push(Point {
            lsn: self.db.log_status().flushed,
            us: self.sim.wall_clock_us(),
            rows: self.rows.clone(),
        });
        self.sim.advance(HOUR);
        self.db.checkpoint()?;
        self.db.archive_now()?;
        self.db.merge_archive()?;
        if self.round % 4 == 0 && self.db.options().backups.is_some() {
            // As the background does it: a backup needs log from the oldest change on that is not in the files.
            self.db.write_back()?;
            self.db.checkpoint()?;
            self.db.backup(false, &|| false)?;
        }
        self.db.expire_archive().map(drop)
    }

    fn restore(&self, to: RestorePoint, dir: &str, whole: bool) -> Result<RestoredPoint> {
        let request = RestoreRequest {
            to,
            backups: self.db.options().backups.clone(),
            whole,
            clone: !whole,
            lease: (!whole).then(|| "the-clone".to_owned()),
            ..RestoreRequest::new(ARCHIVE, dir)
        };
        let vfs: Arc<dyn Vfs> = Arc::new(self.sim.clone());
        restore_point(&vfs, &request, &mut |_| {})
    }

    pub fn check(&self, point: &Point, what: &str) -> Result<()> {
        let last = self.points.last().is_some_and(|last| last.lsn == point.lsn);
        for (i, to) in [RestorePoint::Lsn(point.lsn), RestorePoint::Time(point.us)].into_iter().enumerate() {
            if last && i == 1 {
                // After the newest COMMIT.
                continue;
            }
            let dir = format!("/restored-{what}-{}-{i}", point.lsn);
            self.restore(to, &dir, true)
                .map_err(|e| Error::internal(format!("{what}: {to:?}: {e} {:?}", e.detail())))?;
            let options = Options { archive: None, backups: None, ..options(false) };
            let db = open(&self.sim, &dir, options)?;
            db.finish_recovery()?;
            assert_eq!(read(&db)?, point.rows, "{what}: {to:?}");
            assert_eq!(db.verify()?, Vec::<String>::new(), "{what}: {to:?}");
            db.close()?;
        }
        Ok(())
    }

    /// Every point within the window, all of it sound, and the ends that are told.
    fn check_promised(&self, what: &str) -> Result<()> {
        let since = self.sim.wall_clock_us() - (HOUR * 6).as_micros() as i64;
        let promised = self.points.iter().filter(|point| point.us >= since);
        promised.into_iter().try_for_each(|point| self.check(point, what))?;
        let report = verify(store(&self.sim, ARCHIVE)?, None)?;
        assert!(report.problems.is_empty(), "{what}: {report}");
        let points = self.db.recoverable_points().expect("there is an archive");
        assert_eq!(points.error, None);
        let (earliest, us) = (points.earliest.expect("a point"), points.earliest_us.expect("a time"));
        assert!(us <= since + 2 * HOUR.as_micros() as i64, "{what}: {points:?}");
        // The ends are true.
        let dir = format!("/earliest-{what}");
        self.restore(RestorePoint::Lsn(earliest), &dir, true)?;
        let dir = format!("/earliest-time-{what}");
        self.restore(RestorePoint::Time(us), &dir, true).map(drop)
    }
}

fn runs(work: &Work) -> Result<usize> {
    let view = Archive::open_view(store(&work.sim, ARCHIVE)?, None)?.expect("an archive");
    Ok(view.manifest().runs.len())
}

fn promised_points(traditional: bool) -> Result<()> {
    let mut work = Work::begin(options(traditional))?;
    // Unfinished for longer than the window, at first.
    let open_tx = work.db.begin(Isolation::ReadCommitted);
    let table = open_tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    for id in 50..ROWS {
        open_tx.delete(&table, &common::key(&table, id)?, Seen::Snapshot)?.done()?;
    }
    for round in 0..10 {
        work.hour()?;
        if round == 4 {
            work.check_promised("early")?;
        }
    }
    if traditional {
        assert_eq!(work.db.given_up().runs, 0, "what undoes the open transaction is kept");
    }
    work.check_promised("unfinished")?;
    open_tx.rollback()?;
    for _ in 0..12 {
        work.hour()?;
    }
    work.check_promised("late")?;
    let given_up = work.db.given_up();
    // One that was merged may have taken many with it.
    assert!(given_up.runs > 0 && given_up.backups >= 3, "{given_up:?}");
    let old = work.points[2].clone();
    let error = work.check(&old, "old").unwrap_err();
    assert!(error.message().contains("before the oldest point"), "{error}");
    // A clone keeps what it is made of.
    let point = work.points[work.points.len() - 3].clone();
    work.restore(RestorePoint::Lsn(point.lsn), "/clone", false)?;
    let before = runs(&work)?;
    for _ in 0..16 {
        work.hour()?;
    }
    assert!(
        work.db.recoverable_points().is_some_and(|points| points.held_by.iter().any(|by| by.contains("the-clone")))
    );
    let clone = open(&work.sim, "/clone", Options { archive: None, backups: None, ..options(false) })?;
    assert_eq!(read(&clone)?, point.rows);
    clone.close()?;
    assert!(forget_lease(&(Arc::new(work.sim.clone()) as Arc<dyn Vfs>), ARCHIVE, "the-clone")?);
    work.hour()?;
    assert!(runs(&work)? < before + 16, "{before} and {}", runs(&work)?);
    assert!(Lease::list(&*store(&work.sim, ARCHIVE)?)?.is_empty());
    work.check_promised("in the end")?;
    // It goes on after a restart.
    let Work { sim, db, .. } = work;
    db.close()?;
    drop(db);
    let db = open(&sim, "/db", options(traditional))?;
    db.expire_archive()?;
    db.archive_now()
}

#[test]
fn what_is_promised_can_be_restored() -> Result<()> {
    promised_points(false)
}

#[test]
fn what_is_promised_can_be_restored_in_the_traditional_mode() -> Result<()> {
    promised_points(true)
}

/// Without backups everything is made of the archive: it keeps its beginning, and of old records only what makes the oldest
/// promised point.
#[test]
fn without_backups_old_records_are_left_out() -> Result<()> {
    for traditional in [false, true] {
        let mut work = Work::begin(Options { backups: None, ..options(traditional) })?;
        for _ in 0..34 {
            work.hour()?;
        }
        work.check_promised("without backups")?;
        assert_eq!(work.db.given_up().runs, 0);
        let view = Archive::open_view(store(&work.sim, ARCHIVE)?, None)?.expect("an archive");
        let (mut dropped, mut images) = (0, 0);
        for run in 0..view.manifest().runs.len() {
            let run = view.run(run)?;
            dropped += run.summary().dropped_records;
            images += run.summary().images;
        }
        // Images are logged before merges would have to make any, and what is before them is left out.
        let logged = work.db.stats().pool.images_logged;
        assert!(
            dropped > 100 && logged > 10 && images == 0,
            "{dropped} records left out, {logged} images, {images} made"
        );
        let old = work.points[2].clone();
        let error = work.check(&old, "old").unwrap_err();
        assert!(error.message().contains("before the oldest point"), "{error}");
        // A page that is damaged is made of what there is.
        work.db.close()?;
        let path = Path::new("/db/data");
        let pages = work.sim.open(path, resurgam_vfs::OpenMode::ReadOnly)?.len()? / 8192;
        for page in 1..pages {
            work.sim.flip_bit(path, page * 8192 * 8 + 5000)?;
        }
        work.db = open(&work.sim, "/db", Options { backups: None, ..options(traditional) })?;
        assert_eq!(read(&work.db)?, work.rows);
        assert_eq!(work.db.verify()?, Vec::<String>::new());
        assert!(!work.db.repairs().is_empty());
        work.db.close()?;
    }
    Ok(())
}

/// The tool, beside the server: a dry run changes nothing; the server goes on from what it did.
#[test]
fn the_tool_beside_a_server() -> Result<()> {
    let mut work = Work::begin(options(false))?;
    work.db.close()?;
    work.db = open(&work.sim, "/db", Options { recovery_window: Duration::ZERO, ..options(false) })?;
    for _ in 0..14 {
        work.hour()?;
    }
    assert_eq!(work.db.given_up().runs, 0, "without a window everything is kept");
    let vfs: Arc<dyn Vfs> = Arc::new(work.sim.clone());
    let mut request =
        ExpireRequest { archive: ARCHIVE.into(), backups: Some(BACKUPS.into()), window: HOUR * 6, dry_run: true };
    let before = (runs(&work)?, list_backups(&store(&work.sim, BACKUPS)?)?.len());
    let dry = expire_archive(&vfs, &request)?;
    assert!(!dry.plan.runs.is_empty() && !dry.plan.backups.is_empty() && dry.given_up.runs == 0, "{dry:?}");
    assert_eq!(before, (runs(&work)?, list_backups(&store(&work.sim, BACKUPS)?)?.len()));
    request.dry_run = false;
    let done = expire_archive(&vfs, &request)?;
    assert_eq!(done.given_up.runs as usize, dry.plan.runs.len());
    assert_eq!(list_backups(&store(&work.sim, BACKUPS)?)?.len(), before.1 - dry.plan.backups.len());
    assert!(expire_archive(&vfs, &request)?.given_up == Default::default(), "once is enough");
    // Long windows, and such that nothing fits.
    request.window = HOUR * 24 * 365 * 200;
    assert!(expire_archive(&vfs, &request)?.plan.runs.is_empty());
    request.window = Duration::ZERO;
    assert_eq!(expire_archive(&vfs, &request).unwrap_err().kind(), ErrorKind::InvalidParameter);
    for _ in 0..3 {
        work.hour()?;
    }
    assert_eq!(work.db.archive_status().expect("an archive").state, "current");
    work.check_promised("beside")?;
    work.db.close()
}
