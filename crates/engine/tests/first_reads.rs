//! Writes that the device lost before a restart: the archive's page tables tell, when a page is first read.

mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use common::open::open_recovered as open;
use common::{key, row};
use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, Lie, LyingWrite, OpenMode, SimVfs, Vfs};
use resurgam_xstore::{FolderStore, Store, StoreError, StoreErrorKind, StoreResult, Upload};

const PAGE: usize = limits::PAGE_SIZE;
const ROWS: i64 = 2000;

/// What is planted is so for the whole process.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(|e| e.into_inner())
}

fn options(traditional: bool) -> Options {
    Options {
        buffer_bytes: 64 * PAGE,
        log_segment_bytes: 512 << 10,
        log_bytes_wanted: 1 << 20,
        log_bytes_max: 4 << 20,
        accelerated_database_recovery: !traditional,
        short_rollback_operations: 0,
        background: false,
        archive: Some("/archive".into()),
        ..Options::default()
    }
}

fn machine(seed: u64) -> Result<SimVfs> {
    let vfs = SimVfs::new(seed);
    vfs.make_folder(Path::new("/archive"))?;
    Ok(vfs)
}

fn in_transaction(db: &Database, work: impl FnOnce(&Transaction, &Arc<Table>) -> Result<()>) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    work(&tx, &t)?;
    tx.commit(Durability::Sync)?.wait()
}

fn fill(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    let table = tx.create_table(spec.column("note", ColumnType::Text).primary_key(&["id"]))?.done()?;
    tx.statement(StatementKind::BulkWrite)?;
    for id in 0..ROWS {
        tx.insert(&table, &row(id, 0, &"n".repeat(300)))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()
}

/// Every third row gets the value.
fn update(db: &Database, third: i64, value: i64) -> Result<()> {
    in_transaction(db, |tx, t| {
        tx.statement(StatementKind::BulkWrite)?;
        for id in (third..ROWS).step_by(3) {
            let note = format!("{value}").repeat(100);
            let change = tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, value, &note))?.done()?;
            assert_eq!(change, Change::Done);
        }
        Ok(())
    })
}

/// Panics unless the thirds have these values.
fn check(db: &Database, values: [i64; 3]) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    let statement = tx.statement(StatementKind::Read)?;
    let mut found = RowBuf::default();
    for id in 0..ROWS {
        assert!(statement.get(&t, &key(&t, id)?, &mut found)?, "row {id} is not there");
        match t.column(found.raw(), 1)? {
            DatumRef::Int8(v) if v == values[id as usize % 3] => {}
            other => panic!("row {id} is {other:?}, not of {values:?}"),
        }
    }
    Ok(())
}

fn data(vfs: &SimVfs) -> Result<Vec<u8>> {
    let file = vfs.open(Path::new("/db/data"), OpenMode::ReadOnly)?;
    let mut bytes = vec![0; file.len()? as usize];
    file.read_exact_at(&mut bytes, 0)?;
    Ok(bytes)
}

fn write_all(db: &Database) -> Result<()> {
    while db.write_back()? > 0 {}
    Ok(())
}

/// How a database ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    /// Its power is lost, and all is archived.
    Archived,
    /// Its power is lost, and the archive has not even what a checkpoint is behind.
    Lagging,
}

/// All writes since some time are lost, and the database is closed, or its power is: what is read first is right.
fn all_writes_lost(traditional: bool, end: End, compare: bool) -> Result<()> {
    let vfs = machine(1)?;
    let db = open(&vfs, options(traditional))?;
    fill(&db)?;
    write_all(&db)?;
    db.archive_now()?;
    let before = data(&vfs)?;
    update(&db, 0, 1)?;
    update(&db, 1, 2)?;
    write_all(&db)?;
    if end != End::Lagging {
        db.archive_now()?;
    }
    let vfs = match end {
        End::Archived | End::Lagging => {
            db.checkpoint()?;
            if end == End::Archived {
                db.archive_now()?;
            }
            drop(db);
            vfs.crash()
        }
        End::Closed => {
            db.close()?;
            drop(db);
            vfs
        }
    };
    let file = vfs.open(Path::new("/db/data"), OpenMode::ReadWrite)?;
    for (page, old) in before.chunks(PAGE).enumerate().skip(1) {
        file.write_at(old, (page * PAGE) as u64)?;
    }
    let db = open(&vfs, Options { compare_first_reads: compare, ..options(traditional) })?;
    check(&db, [1, 2, 0])?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    let pool = db.stats().pool;
    assert!(pool.lost_writes > 20 && pool.repaired_pages >= pool.lost_writes && !db.repairs().is_empty(), "{pool:?}");
    assert_eq!(pool.first_reads_not_compared, 0);
    db.close()?;
    drop(db);
    // They are in their places again, and what is as it should be is no lost write.
    let db = open(&vfs, options(traditional))?;
    check(&db, [1, 2, 0])?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    let pool = db.stats().pool;
    assert_eq!((pool.lost_writes, pool.repaired_pages, pool.first_reads_not_compared), (0, 0, 0));
    assert!(pool.first_reads_compared > 50, "{pool:?}");
    db.close()
}

#[test]
fn writes_lost_before_a_restart_are_noticed() -> Result<()> {
    let _alone = alone();
    for traditional in [false, true] {
        for end in [End::Closed, End::Archived, End::Lagging] {
            all_writes_lost(traditional, end, true)?;
        }
    }
    Ok(())
}

/// A device that loses writes or puts them elsewhere, restarts and power losses in between. Returns lost writes that were noticed.
fn schedule(seed: u64) -> Result<u64> {
    let mut vfs = machine(seed)?;
    let with = || Options {
        double_writes: [DoubleWrites::Auto, DoubleWrites::On][seed as usize / 2 % 2],
        ..options(seed % 2 == 1)
    };
    let mut rng = seed + 1;
    let mut below = |n: u64| {
        rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (rng >> 33) % n
    };
    let mut db = open(&vfs, with())?;
    fill(&db)?;
    write_all(&db)?;
    let (mut values, mut lost) = ([0; 3], 0);
    for round in 1..=6 {
        let lying = (0..below(12)).map(|_| {
            let far = PAGE as i64 * (1 + below(6) as i64);
            let lie = if below(3) == 0 { Lie::Elsewhere(far) } else { Lie::Lost };
            LyingWrite { path: "/db/data".into(), at: 1 + below(60), lie }
        });
        let lying = lying.collect();
        vfs.set_faults(FaultPlan { lying, ..FaultPlan::default() });
        let third = below(3) as usize;
        update(&db, third as i64, round)?;
        values[third] = round;
        write_all(&db)?;
        vfs.set_faults(FaultPlan::default());
        if below(2) == 0 {
            db.archive_now()?;
        }
        if below(2) == 0 {
            db.merge_archive()?;
        }
        if below(3) > 0 {
            db.checkpoint()?;
        }
        lost += db.stats().pool.lost_writes;
        if below(3) == 0 {
            db.close()?;
            drop(db);
        } else {
            drop(db);
            vfs = vfs.crash_clone(seed * 100 + round as u64);
        }
        db = open(&vfs, with())?;
        if below(2) == 0 {
            check(&db, values)?;
            assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed} round {round}");
        }
    }
    check(&db, values)?;
    assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed}");
    lost += db.stats().pool.lost_writes;
    db.close()?;
    Ok(lost)
}

#[test]
fn lies_and_restarts() -> Result<()> {
    let _alone = alone();
    let mut lost = 0;
    for seed in 0..16 {
        lost += schedule(seed)?;
    }
    assert!(lost > 20, "{lost} lost writes were noticed");
    Ok(())
}

/// Without the comparison the same schedules find wrong rows.
#[test]
fn a_comparison_that_is_left_out_is_caught() {
    let _alone = alone();
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let fails = |work: &dyn Fn() -> Result<()>| !matches!(catch_unwind(AssertUnwindSafe(work)), Ok(Ok(())));
    let switched_off = fails(&|| all_writes_lost(false, End::Closed, false));
    Planted::NotCompared.plant();
    let whole = fails(&|| all_writes_lost(false, End::Archived, true));
    let caught = (0..16).filter(|seed| fails(&|| schedule(*seed).map(|_| ()))).count();
    Planted::None.plant();
    std::panic::set_hook(hook);
    eprintln!("caught by {caught} of 16 schedules");
    assert!(switched_off && whole && caught > 3, "{switched_off} {whole} {caught}");
}

/// A store whose reads fail, or take long.
struct Bad {
    below: FolderStore,
    /// 0 well, 1 reads fail, 2 they hang.
    how: AtomicU8,
}

impl Store for Bad {
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
        self.below.create(name)
    }
    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
        match self.how.load(Ordering::SeqCst) {
            1 => return Err(StoreError::new(StoreErrorKind::Unavailable, "it is away")),
            2 => std::thread::sleep(Duration::from_secs(4)),
            _ => {}
        }
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

/// An archive that fails, that does not answer, or that lags: pages are read without it, and counted where the log does not tell either.
#[test]
fn an_archive_that_is_away_keeps_nobody_waiting() -> Result<()> {
    let _alone = alone();
    for how in [1, 2] {
        let vfs = machine(2)?;
        let below = FolderStore::open(Arc::new(vfs.clone()), Path::new("/archive")).map_err(Error::from)?;
        let store = Arc::new(Bad { below, how: AtomicU8::new(0) });
        let with =
            |background| Options { archive_store: Some(StoreHandle(store.clone())), background, ..options(false) };
        let db = open(&vfs, with(false))?;
        fill(&db)?;
        db.close()?;
        drop(db);
        let db = open(&vfs, with(true))?;
        // Nothing of the tables was read yet but by a few reads of the open.
        store.how.store(how, Ordering::SeqCst);
        let begun = Instant::now();
        check(&db, [0; 3])?;
        let took = begun.elapsed();
        let pool = db.stats().pool;
        store.how.store(0, Ordering::SeqCst);
        assert!(took < Duration::from_secs(3), "{took:?}");
        assert!(pool.first_reads_compared + pool.first_reads_not_compared > 20, "{pool:?}");
        eprintln!("how {how}: {took:?}, {} not compared", pool.first_reads_not_compared);
        db.close()?;
    }
    // One that lags.
    let vfs = machine(3)?;
    let db = open(&vfs, options(false))?;
    fill(&db)?;
    write_all(&db)?;
    db.checkpoint()?;
    drop(db);
    let vfs = vfs.crash();
    let db = open(&vfs, options(false))?;
    check(&db, [0; 3])?;
    // Nothing is archived: the log tells.
    let pool = db.stats().pool;
    assert!(pool.first_reads_compared > 20 && pool.first_reads_not_compared == 0, "{pool:?}");
    db.close()
}

/// What the comparison costs a point read of a page that is not in memory: `-- --ignored --nocapture`.
#[test]
#[ignore = "a measurement"]
fn cost_of_first_reads() -> Result<()> {
    let _alone = alone();
    let dir = std::env::temp_dir().join(format!("resurgam-first-reads-{}", std::process::id()));
    let with = |compare| Options {
        buffer_bytes: 4 << 20,
        archive: Some("../archive".into()),
        compare_first_reads: compare,
        ..Options::default()
    };
    const MANY: i64 = 60_000;
    let at = dir.join("db");
    std::fs::create_dir_all(&dir).expect("made");
    let db = Database::open(&at, with(true))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    let table = tx.create_table(spec.column("note", ColumnType::Text).primary_key(&["id"]))?.done()?;
    tx.statement(StatementKind::BulkWrite)?;
    for id in 0..MANY {
        tx.insert(&table, &row(id, 0, &"n".repeat(1500)))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    for round in 0..12 {
        in_transaction(&db, |tx, t| {
            tx.statement(StatementKind::BulkWrite)?;
            for id in (round..MANY).step_by(37) {
                let change = tx.update(t, &key(t, id)?, Seen::Snapshot, &row(id, 1, &"m".repeat(1500)))?.done()?;
                assert_eq!(change, Change::Done);
            }
            Ok(())
        })?;
        db.archive_now()?;
    }
    db.close()?;
    drop(db);
    for compare in [false, true, false, true] {
        let db = Database::open(&at, with(compare))?;
        db.finish_recovery()?;
        let tx = db.begin(Isolation::ReadCommitted);
        let t = tx.table("public", "t")?.expect("made");
        let (mut found, mut times, mut rng) = (RowBuf::default(), Vec::new(), 7_u64);
        let statement = tx.statement(StatementKind::Read)?;
        for _ in 0..6000 {
            rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let key = key(&t, ((rng >> 33) % MANY as u64) as i64)?;
            let begun = Instant::now();
            assert!(statement.get(&t, &key, &mut found)?);
            times.push(begun.elapsed());
        }
        drop(statement);
        tx.rollback()?;
        times.sort_unstable();
        let pool = db.stats().pool;
        eprintln!(
            "compared {compare}: p50 {:?} p99 {:?} most {:?}; {} misses, {} compared, {} not; {} runs",
            times[times.len() / 2],
            times[times.len() / 100 * 99],
            times[times.len() - 1],
            pool.misses,
            pool.first_reads_compared,
            pool.first_reads_not_compared,
            db.archive_status().map_or(0, |status| status.runs)
        );
        db.close()?;
    }
    let _ = std::fs::remove_dir_all(&dir);
    Ok(())
}
