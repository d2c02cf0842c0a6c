//! Backups of a running database: with the archive they are the database, page by page and byte by byte; whatever ends one, the
//! next goes on; what is wrong on purpose is found.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use resurgam_archive::{Backup, SEGMENT_PAGES, verify_backup};
use resurgam_engine::*;
use resurgam_page::{PageBuf, PageType};
use resurgam_vfs::{FaultPlan, OpenMode, SimVfs, Vfs};
use resurgam_xstore::{FaultyStore, FolderStore, Misdeed, Store, StoreCall, StoreErrorKind, StoreResult, Upload};

use crate::backed_up;
use crate::common::open::open_recovered as open;
use crate::common::{key, row};

const PAGE: usize = limits::PAGE_SIZE;
const ARCHIVE: &str = "/disk5/archive";
const BACKUPS: &str = "/disk6/backups";
const VERSIONS: &str = "/disk2/versions";
const NEVER: fn() -> bool = || false;

fn disk(seed: u64) -> Result<SimVfs> {
    let sim = SimVfs::new(seed);
    for folder in ["/disk2", "/disk5", "/disk6"] {
        sim.make_folder(Path::new(folder))?;
    }
    Ok(sim)
}

fn options(traditional: bool) -> Options {
    Options {
        buffer_bytes: 100 * PAGE,
        log_segment_bytes: 512 << 10,
        accelerated_database_recovery: !traditional,
        short_rollback_operations: 0,
        version_store_path: (!traditional).then(|| VERSIONS.into()),
        archive: Some(ARCHIVE.into()),
        backups: Some(BACKUPS.into()),
        backup_part_bytes: 60_000,
        log_wait_max: Duration::from_secs(5),
        background: false,
        ..Options::default()
    }
}

fn make_table(db: &Database, name: &str) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", name).column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    tx.create_table(spec.column("note", ColumnType::Text).primary_key(&["id"]).index(
        &format!("{name}_v"),
        &["v"],
        false,
    ))?
    .done()?;
    tx.commit(Durability::Sync)?.wait()
}

fn table(tx: &Transaction, name: &str) -> Result<Arc<Table>> {
    Ok(tx.table("public", name)?.expect("made"))
}

fn insert(db: &Database, name: &str, ids: std::ops::Range<i64>) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = table(&tx, name)?;
    let note = "n".repeat(300);
    tx.statement(StatementKind::BulkWrite)?;
    for id in ids {
        tx.insert(&t, &row(id, id, &note))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()
}

fn update(db: &Database, name: &str, ids: impl Iterator<Item = i64>, round: i64, commit: bool) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = table(&tx, name)?;
    tx.statement(StatementKind::BulkWrite)?;
    let note = format!("{round}").repeat(250);
    for id in ids {
        tx.update(&t, &key(&t, id)?, Seen::Snapshot, &row(id, id + round * 10_000, &note))?.done()?;
    }
    if commit { tx.commit(Durability::Sync)?.wait() } else { tx.rollback() }
}

/// A table larger than memory, with versions and what an abort has left.
fn fill(db: &Database, rows: i64) -> Result<()> {
    make_table(db, "t")?;
    insert(db, "t", 0..rows)?;
    update(db, "t", (0..rows).step_by(3), 1, true)?;
    update(db, "t", (1..rows).step_by(3), 7, false)
}

fn store(sim: &SimVfs, place: &str) -> Arc<dyn Store> {
    Arc::new(FolderStore::open(Arc::new(sim.clone()), Path::new(place)).unwrap())
}

fn complete(sim: &SimVfs) -> Vec<String> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    backed_up::complete(&vfs, Path::new(BACKUPS)).unwrap()
}

/// That backup and archive make the database that was closed, byte by byte.
fn compare(sim: &SimVfs, name: &str) -> std::result::Result<u64, String> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let versions = vfs.exists(Path::new(VERSIONS)).unwrap().then(|| Path::new(VERSIONS));
    let places = backed_up::Places {
        gave_back: false,
        lied: false,
        data: Path::new("/db/data"),
        versions,
        archive: Path::new(ARCHIVE),
        backups: Path::new(BACKUPS),
    };
    backed_up::compare(&vfs, &places, name)
}

fn compare_all(sim: &SimVfs, at_least: usize) -> u64 {
    let names = complete(sim);
    assert!(names.len() >= at_least, "{names:?}");
    names.iter().map(|name| compare(sim, name).unwrap_or_else(|what| panic!("backup {name}: {what}"))).sum()
}

#[test]
fn a_backup_and_the_archive_are_the_database() -> Result<()> {
    for traditional in [false, true] {
        let sim = disk(1)?;
        let db = open(&sim, options(traditional))?;
        fill(&db, 1500)?;
        let first = db.backup(false, &NEVER)?;
        update(&db, "t", (0..1500).step_by(2), 3, true)?;
        insert(&db, "t", 5000..5500)?;
        let second = db.backup(false, &NEVER)?;
        assert_ne!(first, second);
        make_table(&db, "u")?;
        insert(&db, "u", 0..300)?;
        // From the second one and the runs behind it: no page of the files is read.
        let third = db.backup(true, &NEVER)?;
        update(&db, "u", 0..200, 9, true)?;
        let rows = db.backups();
        assert_eq!(rows.iter().filter(|row| row.state == "complete").count(), 3, "{rows:?}");
        let totals = db.backup_totals().expect("there is a place");
        assert!(totals.made == 3 && totals.failed == 0 && totals.pages_read > 300, "{totals:?}");
        db.close()?;
        drop(db);
        assert_eq!(complete(&sim).len(), 3);
        let pages = compare_all(&sim, 3);
        assert!(pages > 400, "{pages}");
        let third = Backup::open(&store(&sim, BACKUPS), &third)?;
        assert!(third.summary().from_archive && third.summary().damaged == 0);
        assert_eq!(third.summary().begin, third.summary().end);
    }
    Ok(())
}

/// All work of the server goes on beside backups: writers on their own pages and common ones, evictions (the table is
/// larger than memory), the cleaner, definitions.
#[test]
fn what_runs_beside_a_backup() -> Result<()> {
    for traditional in [false, true] {
        let sim = disk(2)?;
        let options = Options { background: true, cleaner_interval_s: 0.1, ..options(traditional) };
        let db = open(&sim, options)?;
        fill(&db, 1500)?;
        let stop = AtomicBool::new(false);
        let commits = AtomicU64::new(0);
        std::thread::scope(|scope| -> Result<()> {
            for me in 0..3 {
                let (db, stop, commits) = (&db, &stop, &commits);
                scope.spawn(move || {
                    let mut round = 10;
                    while !stop.load(Ordering::Relaxed) {
                        round += 1;
                        let ids = (me..1500).step_by(3).skip(round as usize % 7).step_by(5);
                        update(db, "t", ids, round, round % 4 != 0).unwrap();
                        let first = 1_000_000 * (me + 1) + round * 20;
                        insert(db, "t", first..first + 20).unwrap();
                        commits.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            let (db_, stop_) = (&db, &stop);
            scope.spawn(move || {
                let mut number = 0;
                while !stop_.load(Ordering::Relaxed) {
                    number += 1;
                    let name = format!("u{number}");
                    make_table(db_, &name).unwrap();
                    insert(db_, &name, 0..100).unwrap();
                    if number % 2 == 0 {
                        let tx = db_.begin(Isolation::ReadCommitted);
                        let t = table(&tx, &name).unwrap();
                        tx.drop_table(&t).unwrap().done().unwrap();
                        tx.commit(Durability::Sync).unwrap().wait().unwrap();
                    }
                }
            });
            let begun = Instant::now();
            let mut made = 0;
            let outcome = loop {
                match db.backup(made % 4 == 3, &NEVER) {
                    Ok(_) => made += 1,
                    Err(error) => break Err(error),
                }
                if made >= 6 && begun.elapsed() > Duration::from_secs(3) || begun.elapsed() > Duration::from_secs(60) {
                    break Ok(());
                }
            };
            stop.store(true, Ordering::Relaxed);
            outcome
        })?;
        assert!(commits.load(Ordering::Relaxed) > 10);
        // A close waits for the archive some seconds only, and is right to.
        let begun = Instant::now();
        while db.archive_status().is_some_and(|status| status.lag_bytes > 1 << 20) {
            assert!(
                begun.elapsed() < Duration::from_secs(120),
                "the archive does not catch up: {:?}",
                db.archive_status()
            );
            std::thread::sleep(Duration::from_millis(20));
        }
        db.close()?;
        drop(db);
        assert!(compare_all(&sim, 6) > 1000);
    }
    Ok(())
}

/// A store in which something happens when a backup begins: when its pages are counted, and none has been read yet.
struct AtBegin {
    below: Arc<dyn Store>,
    then: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Store for AtBegin {
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
        if name.ends_with(".begun")
            && let Some(then) = self.then.lock().unwrap().take()
        {
            then();
        }
        self.below.create(name)
    }
    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
        self.below.read(name, offset, len)
    }
    fn len(&self, name: &str) -> StoreResult<u64> {
        self.below.len(name)
    }
    fn list(&self, prefix: &str) -> StoreResult<Vec<String>> {
        self.below.list(prefix)
    }
    fn delete(&self, name: &str) -> StoreResult<()> {
        self.below.delete(name)
    }
    fn sync_deletes(&self, folder: &str) -> StoreResult<()> {
        self.below.sync_deletes(folder)
    }
    fn tidy(&self, folder: &str) -> StoreResult<()> {
        self.below.tidy(folder)
    }
    fn place(&self) -> String {
        self.below.place()
    }
}

/// Pages that are added, and written out, between the count of the pages and the first look at what is in the files: behind the
/// last segment, and within it where the count cuts it off. They are in the archive, and the backup must say so.
#[test]
fn pages_that_are_added_as_a_backup_begins() -> Result<()> {
    for (cut_off, versions) in [(false, false), (true, false), (false, true)] {
        let sim = disk(18)?;
        let at_begin = Arc::new(AtBegin { below: store(&sim, BACKUPS), then: Mutex::default() });
        let backups_store = Some(StoreHandle(Arc::clone(&at_begin) as Arc<dyn Store>));
        let db = open(&sim, Options { backups_store, ..options(false) })?;
        fill(&db, 900)?;
        let counted = || {
            let pages = sim.open(Path::new("/db/data"), OpenMode::ReadOnly)?.len()? / PAGE as u64;
            Ok::<_, Error>((pages, db.stats().space.high_water))
        };
        let mut next = 20_000;
        let mut add = |rows| {
            next += rows;
            insert(&db, "t", next - rows..next)
        };
        // An extent begins with the second page of a segment: one has been given out but for its last page.
        while cut_off && counted()?.1 <= counted()?.0 {
            add(20)?;
        }
        let (pages, high_water) = counted()?;
        assert_eq!(pages.max(high_water) % SEGMENT_PAGES as u64 != 0, cut_off, "{pages} pages, {high_water}");
        let (other, file) = (db.clone(), if versions { VERSIONS } else { "/db/data" });
        let sim_ = sim.clone();
        *at_begin.then.lock().unwrap() = Some(Box::new(move || {
            let len = || sim_.open(Path::new(file), OpenMode::ReadOnly).unwrap().len().unwrap();
            let before = len();
            for round in 0.. {
                if versions {
                    update(&other, "t", 0..900, 100 + round, true).unwrap();
                } else {
                    insert(&other, "t", 100_000 + round * 900..100_000 + round * 900 + 900).unwrap();
                }
                if len() > before {
                    break;
                }
            }
            while other.write_back().unwrap() > 0 {}
        }));
        let name = db.backup(false, &NEVER)?;
        assert!(at_begin.then.lock().unwrap().is_none(), "it has happened");
        // One is made from it, as long as nothing made those pages anew.
        let second = db.backup(true, &NEVER);
        update(&db, "t", (0..900).step_by(3), 5, true)?;
        db.close()?;
        drop(db);
        for name in [Ok(name), second].into_iter().collect::<Result<Vec<_>>>()? {
            compare(&sim, &name).unwrap_or_else(|what| panic!("cut off {cut_off}, versions {versions}: {what}"));
        }
    }
    Ok(())
}

/// A page that the device has lost is somebody's by its space map: it is rebuilt for the backup, and not taken for one that was
/// never written.
#[test]
fn a_page_that_the_device_zeroed_is_in_the_backup() -> Result<()> {
    let sim = disk(17)?;
    let db = open(&sim, options(false))?;
    fill(&db, 900)?;
    db.close()?;
    drop(db);
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let file = vfs.open(Path::new("/db/data"), OpenMode::ReadWrite)?;
    let mut page = vec![0; limits::PAGE_SIZE];
    let mut zeroed = 0;
    for number in (2..file.len()? / limits::PAGE_SIZE as u64).step_by(7) {
        file.read_exact_at(&mut page, number * limits::PAGE_SIZE as u64)?;
        let mut buf = PageBuf::zeroed();
        buf.as_bytes_mut().copy_from_slice(&page);
        if buf.page_type() == Some(PageType::Leaf) {
            file.write_at(&vec![0; limits::PAGE_SIZE], number * limits::PAGE_SIZE as u64)?;
            zeroed += 1;
        }
    }
    assert!(zeroed > 2, "{zeroed}");
    file.sync()?;
    drop(file);
    let db = open(&sim, options(false))?;
    let name = db.backup(false, &NEVER)?;
    assert!(db.backups().iter().all(|row| row.damaged == Some(0)), "{:?}", db.backups());
    db.close()?;
    drop(db);
    assert!(compare(&sim, &name).unwrap_or_else(|what| panic!("{what}")) > 100);
    Ok(())
}

/// Power is lost at every call of a backup, or the process killed there: what is complete is right, and the next one goes on.
#[test]
fn power_lost_at_every_call_of_a_backup() -> Result<()> {
    [false, true].into_iter().try_for_each(power_lost_at_every_call)
}

fn power_lost_at_every_call(from_archive: bool) -> Result<()> {
    let base = disk(3)?;
    let db = open(&base, options(false))?;
    fill(&db, 900)?;
    db.close()?;
    drop(db);
    let (mut resumed, mut finished, mut calls) = (0, 0, 0);
    for call in 1.. {
        let sim = base.fork(call);
        let db = open(&sim, options(call % 5 == 0))?;
        update(&db, "t", (0..900).step_by(4), call as i64, true)?;
        sim.set_faults(FaultPlan { crash_after_ops: Some(call), ..FaultPlan::default() });
        let outcome = db.backup(from_archive, &NEVER);
        if !sim.power_lost() {
            outcome?;
            calls = call;
            break;
        }
        drop(db);
        let sim = if call % 3 == 0 { sim.kill() } else { sim.crash() };
        // What says that it is a backup is one.
        for name in complete(&sim) {
            finished += 1;
            let report = verify_backup(&store(&sim, BACKUPS), &name)?;
            assert!(report.problems.is_empty(), "call {call}: {report}");
        }
        if outcome.is_ok() {
            assert_eq!(complete(&sim).len(), 1, "call {call}: it was said to be durable");
        }
        let db = open(&sim, options(false))?;
        let left = db.backups().iter().any(|row| row.state == "interrupted");
        let before = db.backups().into_iter().find(|row| row.state == "interrupted").and_then(|row| row.name);
        let name = db.backup(from_archive, &NEVER)?;
        resumed += u64::from(left && before.as_deref() == Some(&name));
        // What was said to be durable is, also if what it went on with was left by a process that was killed.
        drop(db);
        let sim = sim.crash();
        assert!(complete(&sim).contains(&name), "call {call}: it was said to be durable");
        let db = open(&sim, options(false))?;
        update(&db, "t", (1..900).step_by(7), 5, true)?;
        db.close()?;
        drop(db);
        compare_all(&sim, 1);
    }
    assert!(calls > 30 && resumed > 15, "{from_archive}: {calls} calls, {resumed} resumed, {finished} complete");
    Ok(())
}

/// A store that fails, or applies what it reports as failed, at every publication.
#[test]
fn a_store_that_fails() -> Result<()> {
    [false, true].into_iter().try_for_each(backups_to_a_store_that_fails)
}

fn backups_to_a_store_that_fails(from_archive: bool) -> Result<()> {
    let base = disk(4)?;
    let db = open(&base, options(false))?;
    fill(&db, 900)?;
    db.close()?;
    drop(db);
    for misdeed in [
        Misdeed::Fail(StoreErrorKind::Unavailable),
        Misdeed::Fail(StoreErrorKind::Full),
        Misdeed::Fail(StoreErrorKind::Uncertain),
        Misdeed::ApplyAndFail,
    ] {
        for nth in 1.. {
            let sim = base.fork(nth);
            let faulty = Arc::new(FaultyStore::new(store(&sim, BACKUPS)));
            let backups_store = Some(StoreHandle(Arc::clone(&faulty) as Arc<dyn Store>));
            let db = open(&sim, Options { backups_store, ..options(false) })?;
            let before = faulty.calls(StoreCall::Publish);
            faulty.at(StoreCall::Publish, nth, misdeed);
            let outcome = db.backup(from_archive, &NEVER);
            let done = faulty.calls(StoreCall::Publish) - before;
            let must_pass = matches!(misdeed, Misdeed::ApplyAndFail | Misdeed::Fail(StoreErrorKind::Uncertain));
            assert!(outcome.is_ok() || !must_pass, "{misdeed:?} {nth}: {outcome:?}");
            if let Err(error) = &outcome {
                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull), "{error}");
                assert!(complete(&sim).is_empty());
                let rows = db.backups();
                assert!(rows.iter().any(|row| row.state == "failed" && row.error.is_some()), "{rows:?}");
            }
            if done < nth {
                // What says that it was begun, parts, the summary: one from the archive has one part here.
                assert!(nth > if from_archive { 3 } else { 4 }, "{nth}");
                break;
            }
            update(&db, "t", 0..300, 8, true)?;
            db.backup(from_archive, &NEVER)?;
            db.close()?;
            drop(db);
            compare_all(&sim, 1);
        }
    }
    Ok(())
}

/// One made from the archive that cannot read a part of what it is made of: the pages that need that are left out and counted, and an
/// interruption does not make it pass for whole.
#[test]
fn what_cannot_be_made_from_the_archive_is_said() -> Result<()> {
    for interrupted in [false, true] {
        let sim = disk(11)?;
        let db = open(&sim, options(false))?;
        fill(&db, 1500)?;
        let first = db.backup(false, &NEVER)?;
        update(&db, "t", (0..1500).step_by(3), 3, true)?;
        db.archive_now()?;
        // A byte of the first part.
        let folder = format!("{BACKUPS}/backups/{first}");
        let mut parts = sim.list(Path::new(&folder))?;
        parts.retain(|name| name.ends_with(".part"));
        parts.sort_unstable();
        let path = Path::new(&folder).join(&parts[0]);
        sim.flip_bit(&path, 8 * (sim.open(&path, OpenMode::ReadOnly)?.len()? / 2))?;
        db.close()?;
        drop(db);
        let db = open(&sim, options(false))?;
        let looks = AtomicU64::new(0);
        // Once two segments are in parts.
        let cancel = || interrupted && looks.fetch_add(1, Ordering::SeqCst) >= 6;
        let mut name = db.backup(true, &cancel);
        let db = if interrupted {
            assert!(name.is_err(), "it was cancelled");
            drop(db);
            let sim = sim.kill();
            let db = open(&sim, options(false))?;
            name = db.backup(true, &NEVER);
            assert!(db.backups().iter().all(|row| row.state != "interrupted"), "it was gone on with");
            let name = name.as_ref().expect("made");
            let backup = Backup::open(&store(&sim, BACKUPS), name)?;
            let report = verify_backup(&store(&sim, BACKUPS), name)?;
            assert!(
                backup.summary().damaged > 0 && report.damaged.len() as u64 == backup.summary().damaged,
                "{report}"
            );
            db
        } else {
            let name = name.as_ref().expect("made");
            let backup = Backup::open(&store(&sim, BACKUPS), name)?;
            let report = verify_backup(&store(&sim, BACKUPS), name)?;
            assert!(report.problems.is_empty(), "{report}");
            assert!(
                backup.summary().damaged > 0 && report.damaged.len() as u64 == backup.summary().damaged,
                "{report}"
            );
            assert!(backup.summary().images() > 100, "{report}");
            db
        };
        db.close()?;
    }
    Ok(())
}

/// The bugs that would make a backup of no use are seen by the comparison.
#[test]
fn canaries_are_caught() -> Result<()> {
    for planted in [PlantedInBackup::ImageOlderThanItClaims, PlantedInBackup::SkippedSegment] {
        let sim = disk(5)?;
        let db = open(&sim, options(false))?;
        fill(&db, 600)?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        // In memory only.
        update(&db, "t", (0..600).step_by(9), 4, true)?;
        db.backup_planted(false, planted, &NEVER)?;
        update(&db, "t", (0..600).step_by(7), 5, true)?;
        db.close()?;
        drop(db);
        let name = complete(&sim).pop().expect("it was made");
        assert!(compare(&sim, &name).is_err(), "{planted:?}");
    }
    Ok(())
}

#[test]
fn what_is_refused() -> Result<()> {
    let sim = disk(6)?;
    let db = open(&sim, Options { backups: None, ..options(false) })?;
    let error = db.backup(false, &NEVER).unwrap_err();
    assert!(
        error.kind() == ErrorKind::NotInPrerequisiteState
            && error.hint().is_some_and(|hint| hint.contains("--backups"))
    );
    assert!(db.backups().is_empty() && db.backup_totals().is_none());
    db.close()?;
    drop(db);
    let db = open(&sim, Options { archive: None, ..options(false) })?;
    let error = db.backup(false, &NEVER).unwrap_err();
    assert!(
        error.kind() == ErrorKind::NotInPrerequisiteState
            && error.hint().is_some_and(|hint| hint.contains("--archive"))
    );
    // Cancelled in the middle: the next one goes on with it.
    db.close()?;
    drop(db);
    let sim = disk(7)?;
    let db = open(&sim, options(false))?;
    fill(&db, 900)?;
    let asked = AtomicU64::new(0);
    let error = db.backup(false, &|| asked.fetch_add(1, Ordering::Relaxed) > 2).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
    let left = db.backups().into_iter().find(|row| row.state == "interrupted").and_then(|row| row.name);
    // While one runs there is no other.
    let within = AtomicBool::new(false);
    let name = db.backup(false, &|| {
        if !within.swap(true, Ordering::Relaxed) {
            let error = db.backup(false, &NEVER).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InUse, "{error}");
            assert!(db.backups().iter().any(|row| row.state == "running"));
        }
        false
    })?;
    assert_eq!(left.as_deref(), Some(name.as_str()), "it goes on");
    // Slowed down.
    db.close()?;
    drop(db);
    let db = open(&sim, Options { backup_bytes_per_second: 8 << 20, ..options(false) })?;
    let begun = Instant::now();
    db.backup(false, &NEVER)?;
    let pages = db.backup_totals().map_or(0, |totals| totals.pages_read);
    let least = Duration::from_secs_f64(pages as f64 * PAGE as f64 / (8 << 20) as f64 * 0.9);
    assert!(begun.elapsed() >= least && pages > 60, "{pages} pages in {:?}", begun.elapsed());
    db.close()?;
    drop(db);
    compare_all(&sim, 2);
    Ok(())
}

/// An archive that does not get on: an error in time, and the next backup goes on with this one.
#[test]
fn an_archive_that_lags() -> Result<()> {
    let sim = disk(8)?;
    let faulty = Arc::new(FaultyStore::new(store(&sim, ARCHIVE)));
    let archive_store = Some(StoreHandle(Arc::clone(&faulty) as Arc<dyn Store>));
    let options =
        Options { archive_store, log_wait_max: Duration::from_millis(300), background: true, ..options(false) };
    let db = open(&sim, options)?;
    fill(&db, 600)?;
    faulty.always(StoreCall::Publish, Some(Misdeed::Fail(StoreErrorKind::Unavailable)));
    update(&db, "t", 0..300, 8, true)?;
    let error = db.backup(false, &NEVER).unwrap_err();
    assert!(error.kind() == ErrorKind::NotInPrerequisiteState && error.message().contains("archive"), "{error}");
    assert!(complete(&sim).is_empty(), "it is none yet");
    faulty.always(StoreCall::Publish, None);
    let left = db.backups().into_iter().find(|row| row.state == "interrupted").and_then(|row| row.name);
    let begun = Instant::now();
    let name = loop {
        match db.backup(false, &NEVER) {
            Ok(name) => break name,
            Err(error) => assert!(begun.elapsed() < Duration::from_secs(30), "waited for the archive: {error}"),
        }
    };
    assert_eq!(left.as_deref(), Some(name.as_str()), "it goes on");
    db.close()?;
    drop(db);
    compare_all(&sim, 1);
    Ok(())
}

/// Pages of the data file that are somebody's, but for the boot page.
fn used(sim: &SimVfs) -> Result<Vec<u64>> {
    let file = sim.open(Path::new("/db/data"), OpenMode::ReadOnly)?;
    let mut page = PageBuf::zeroed();
    let mut used = Vec::new();
    for number in 1..file.len()? / PAGE as u64 {
        file.read_exact_at(page.as_bytes_mut(), number * PAGE as u64)?;
        if !page.is_all_zero() && !page.is(PageType::Free) {
            used.push(number);
        }
    }
    Ok(used)
}

/// An archive that was begun later than the database has every page once a backup was made.
#[test]
fn damaged_pages_are_rebuilt_from_the_backup() -> Result<()> {
    let sim = disk(9)?;
    let db = open(&sim, Options { archive: None, backups: None, log_bytes_max: 4 << 20, ..options(false) })?;
    fill(&db, 900)?;
    // So that the log has nothing of it any more.
    for round in 0..6 {
        make_table(&db, &format!("u{round}"))?;
        insert(&db, &format!("u{round}"), 0..900)?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
    }
    db.close()?;
    drop(db);
    let db = open(&sim, options(false))?;
    db.backup(false, &NEVER)?;
    update(&db, "t", (0..900).step_by(10), 3, true)?;
    db.close()?;
    drop(db);
    let file = sim.open(Path::new("/db/data"), OpenMode::ReadWrite)?;
    let pages = file.len()? / PAGE as u64;
    for page in used(&sim)? {
        file.write_at(&[0xEE; 512], page * PAGE as u64)?;
    }
    drop(file);
    let db = open(&sim, options(false))?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    let repaired = db.stats().pool.repaired_pages;
    assert!(repaired > 100, "{repaired} of {pages}");
    assert!(db.repairs().iter().any(|of| of.repair.base.is_some()));
    // A backup of the damaged database takes the pages from the pool.
    let file = sim.open(Path::new("/db/data"), OpenMode::ReadWrite)?;
    for page in used(&sim)?.into_iter().step_by(40) {
        file.write_at(&[0xEE; 512], page * PAGE as u64)?;
    }
    let name = db.backup(false, &NEVER)?;
    let report = verify_backup(&store(&sim, BACKUPS), &name)?;
    assert_eq!(report.damaged, []);
    db.close()?;
    drop(db);
    compare(&sim, &name).unwrap();
    Ok(())
}

/// Where what happened since the backup is not all known, no page comes back as it was then.
#[test]
fn an_old_image_is_no_base_behind_a_gap() -> Result<()> {
    let sim = disk(11)?;
    let db = open(&sim, options(true))?;
    fill(&db, 600)?;
    while db.write_back()? > 0 {}
    db.backup(false, &NEVER)?;
    db.close()?;
    drop(db);
    // The database runs without an archive, and then with another one; the log of this time is gone.
    let db = open(&sim, Options { archive: None, log_bytes_max: 4 << 20, ..options(true) })?;
    update(&db, "t", 0..600, 9, true)?;
    for round in 0..6 {
        make_table(&db, &format!("u{round}"))?;
        insert(&db, &format!("u{round}"), 0..900)?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
    }
    db.close()?;
    drop(db);
    for archive in [Some("/disk5/second".to_owned()), None] {
        let sim = sim.fork(1);
        let db = open(&sim, Options { archive: archive.clone(), ..options(true) })?;
        let tx = db.begin(Isolation::ReadCommitted);
        let t = table(&tx, "t")?;
        let file = sim.open(Path::new("/db/data"), OpenMode::ReadWrite)?;
        let mut page = PageBuf::zeroed();
        for number in used(&sim)? {
            file.read_exact_at(page.as_bytes_mut(), number * PAGE as u64)?;
            if page.object() == t.rows_object() {
                file.write_at(&[0xEE; 512], number * PAGE as u64)?;
            }
        }
        let statement = tx.statement(StatementKind::Read)?;
        let (mut found, mut errors) = (RowBuf::default(), 0);
        for id in 0..600 {
            match statement.get(&t, &key(&t, id)?, &mut found) {
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                    errors += 1;
                }
                Ok(there) => {
                    assert!(there, "row {id} is not there");
                    assert!(
                        matches!(t.column(found.raw(), 1)?, DatumRef::Int8(v) if v == id + 90_000),
                        "row {id} is an old one"
                    );
                }
            }
        }
        assert!(errors > 500, "{errors}");
    }
    Ok(())
}

/// A page that is damaged and cannot be rebuilt: the backup is made, says so, and the page passes for none.
#[test]
fn a_page_that_is_lost_is_said() -> Result<()> {
    let sim = disk(10)?;
    let db = open(&sim, options(false))?;
    fill(&db, 600)?;
    while db.write_back()? > 0 {}
    db.close()?;
    drop(db);
    let db = open(&sim, Options { page_repair: false, ..options(false) })?;
    let file = sim.open(Path::new("/db/data"), OpenMode::ReadWrite)?;
    let lost = used(&sim)?.pop().expect("there are pages");
    file.write_at(&[0xEE; 512], lost * PAGE as u64)?;
    let name = db.backup(false, &NEVER)?;
    let backup = Backup::open(&store(&sim, BACKUPS), &name)?;
    assert_eq!(backup.summary().damaged, 1);
    let mut page = [PageBuf::zeroed()];
    backup.segment(PageId(lost), &mut page)?;
    assert!(!page[0].is_all_zero() && page[0].verify(PageId(lost)).is_err());
    let report = verify_backup(&store(&sim, BACKUPS), &name)?;
    assert!(report.problems.is_empty() && report.damaged == [PageId(lost)], "{report}");
    Ok(())
}
