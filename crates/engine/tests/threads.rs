//! Threads on one database, with every background thread, a pool much smaller than the
//! data and a log of a few megabytes: transfers that keep a sum, snapshots that must always
//! see it, rollbacks, large values, definitions that come and go, checkpoints and sweeps in
//! between; then power is lost in the middle, and every acknowledged commit must be there. It is
//! lost in the middle of sweeps as well, of several threads.
//!
//! `RESURGAM_THREADS_SECONDS=n` runs longer, `RESURGAM_THREADS_SEED=n` with other choices.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

use common::open::{is_traditional, open_as};

const ACCOUNTS: i64 = 4000;
const WRITERS: i64 = 4;
const SUM: i64 = ACCOUNTS * 100;

/// `apart`: every earlier version goes to a version store in a file of its own.
fn options(apart: bool) -> Options {
    Options {
        versions: VersionCaps { in_row: !apart, ..VersionCaps::default() },
        version_store_path: apart.then(|| "/disk2/versions".into()),
        buffer_bytes: 80 * limits::PAGE_SIZE,
        log_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 512 << 10,
        log_bytes_max: 4 << 20,
        cleaner_interval_s: 0.05,
        cleaner_threads: 3,
        cleaner_unit_pages: 64,
        accelerated_database_recovery: !is_traditional(),
        ..Options::default()
    }
}

fn open(vfs: &SimVfs, apart: bool) -> Result<Database> {
    open_beside(vfs, options(apart))
}

/// With a folder for a version store of its own.
fn open_beside(vfs: &SimVfs, options: Options) -> Result<Database> {
    vfs.make_folder(Path::new("/disk2"))?;
    open_as(vfs, options)
}

struct Random(u64);
impl Random {
    fn below(&mut self, n: i64) -> i64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n as u64) as i64
    }
}

fn table(tx: &Transaction, name: &str) -> Result<Arc<Table>> {
    tx.table("public", name)?.ok_or_else(|| Error::new(ErrorKind::UndefinedTable, format!("no table {name}")))
}

fn int(table: &Table, row: RawRow<'_>, column: usize) -> Result<i64> {
    match table.column(row, column)? {
        DatumRef::Int8(v) => Ok(v),
        other => panic!("a bigint, not {other:?}"),
    }
}

fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

/// Adds to a row's balance, waiting for whoever holds it.
fn add(tx: &Transaction, table: &Arc<Table>, id: i64, amount: i64) -> Result<()> {
    let key = key(table, id)?;
    let view = tx.statement(StatementKind::PointWrite)?;
    let mut row = RowBuf::default();
    assert!(view.get(table, &key, &mut row)?, "account {id}");
    let mut seen = Seen::Snapshot;
    loop {
        let balance = int(table, row.raw(), 1)? + amount;
        let note = format!("{balance:>80}");
        let new = [DatumRef::Int8(id), DatumRef::Int8(balance), DatumRef::Text(&note)];
        match tx.update(table, &key, seen, &new)?.wait(|| tx.update(table, &key, seen, &new))? {
            Change::Done => return Ok(()),
            Change::Changed => match tx.latest(table, &key, &mut row)? {
                Some(version) => seen = version,
                None => panic!("account {id} is gone"),
            },
            other => panic!("{other:?}"),
        }
    }
}

fn total(view: &ReadView, table: &Arc<Table>, index: Option<usize>) -> Result<(i64, i64)> {
    let mut cursor = match index {
        None => view.scan(table, KeyRange::all(), Direction::Forward),
        Some(at) => view.scan_index(table, at, KeyRange::all(), Direction::Backward),
    };
    let mut batch = RowBatch::default();
    let (mut rows, mut sum) = (0, 0);
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 200)? {
            return Ok((rows, sum));
        }
        for i in 0..batch.len() {
            rows += 1;
            sum += int(table, batch.row(i), 1)?;
        }
    }
}

struct Shared {
    db: Database,
    seed: u64,
    stop: AtomicBool,
    acknowledged: [AtomicI64; WRITERS as usize],
    transfers: AtomicU64,
    retries: AtomicU64,
    scans: AtomicU64,
    definitions: AtomicU64,
}

/// Errors that a client has to live with: it tries again.
fn is_retry(error: &Error) -> bool {
    use ErrorKind::{DeadlockDetected, DefinitionChanged, SerializationFailure};
    matches!(error.kind(), DeadlockDetected | SerializationFailure | DefinitionChanged)
}

fn transfer(shared: &Shared, me: i64, random: &mut Random, count: i64) -> Result<bool> {
    let isolation = if random.below(3) == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
    let tx = shared.db.begin(isolation);
    let accounts = table(&tx, "accounts")?;
    // Some rows are hot.
    let pick = |random: &mut Random| if random.below(3) == 0 { random.below(6) } else { random.below(ACCOUNTS) };
    let (from, to, amount) = (pick(random), pick(random), random.below(50));
    add(&tx, &accounts, from, -amount)?;
    add(&tx, &accounts, to, amount)?;
    if random.below(4) == 0 {
        let values = table(&tx, "values")?;
        tx.statement(StatementKind::PointWrite)?;
        let text = "v".repeat(random.below(20_000) as usize);
        let row = [DatumRef::Int8(me), DatumRef::Text(&text)];
        let key = key(&values, me)?;
        match tx.update(&values, &key, Seen::Snapshot, &row)?.wait(|| tx.update(&values, &key, Seen::Snapshot, &row))? {
            Change::Done => {}
            other => panic!("own value: {other:?}"),
        }
    }
    if random.below(8) == 0 {
        tx.rollback()?;
        return Ok(false);
    }
    // The writer's own row counts its commits.
    let counters = table(&tx, "counters")?;
    tx.statement(StatementKind::PointWrite)?;
    let row = [DatumRef::Int8(me), DatumRef::Int8(count)];
    let key = key(&counters, me)?;
    match tx.update(&counters, &key, Seen::Snapshot, &row)?.done()? {
        Change::Done => {}
        other => panic!("own counter: {other:?}"),
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(true)
}

fn writer(shared: &Shared, me: i64) -> Result<()> {
    let mut random = Random(shared.seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) + me as u64 + 1);
    let mut count = 1;
    while !shared.stop.load(Ordering::Relaxed) {
        match transfer(shared, me, &mut random, count) {
            Ok(true) => {
                shared.acknowledged[me as usize].store(count, Ordering::SeqCst);
                shared.transfers.fetch_add(1, Ordering::Relaxed);
                count += 1;
            }
            Ok(false) => {}
            Err(error) if is_retry(&error) => {
                shared.retries.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn reader(shared: &Shared) -> Result<()> {
    let mut turn = 0;
    while !shared.stop.load(Ordering::Relaxed) {
        let tx = shared.db.begin(Isolation::RepeatableRead);
        let accounts = table(&tx, "accounts")?;
        let view = tx.statement(StatementKind::Read)?;
        let index = (turn % 3 == 0).then_some(0);
        turn += 1;
        assert_eq!(total(&view, &accounts, index)?, (ACCOUNTS, SUM), "through index {index:?}");
        // Again, through the same snapshot, after others have gone on.
        assert_eq!(total(&view, &accounts, None)?, (ACCOUNTS, SUM), "again");
        shared.scans.fetch_add(1, Ordering::Relaxed);
        tx.rollback()?;
    }
    Ok(())
}

fn definer(shared: &Shared) -> Result<()> {
    let spec = TableSpec::new("public", "passing").column("id", ColumnType::Int8).primary_key(&["id"]);
    while !shared.stop.load(Ordering::Relaxed) {
        let tx = shared.db.begin(Isolation::ReadCommitted);
        let made = tx.create_table(spec.clone())?.wait(|| tx.create_table(spec.clone()))?;
        tx.statement(StatementKind::PointWrite)?;
        for id in 0..300 {
            tx.insert(&made, &[DatumRef::Int8(id)])?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        let tx = shared.db.begin(Isolation::ReadCommitted);
        let made = table(&tx, "passing")?;
        tx.drop_table(&made)?.wait(|| tx.drop_table(&made))?;
        tx.commit(Durability::Sync)?.wait()?;
        shared.definitions.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn prepare(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let accounts = TableSpec::new("public", "accounts")
        .column("id", ColumnType::Int8)
        .column("balance", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .index("by_balance", &["balance"], false);
    let counters = TableSpec::new("public", "counters")
        .column("writer", ColumnType::Int8)
        .column("commits", ColumnType::Int8)
        .primary_key(&["writer"]);
    let values = TableSpec::new("public", "values")
        .column("writer", ColumnType::Int8)
        .column("value", ColumnType::Text)
        .primary_key(&["writer"]);
    let accounts = tx.create_table(accounts)?.done()?;
    let counters = tx.create_table(counters)?.done()?;
    let values = tx.create_table(values)?.done()?;
    tx.statement(StatementKind::BulkWrite)?;
    for id in 0..ACCOUNTS {
        tx.insert(&accounts, &[DatumRef::Int8(id), DatumRef::Int8(100), DatumRef::Text("new")])?.done()?;
    }
    for writer in 0..WRITERS {
        tx.insert(&counters, &[DatumRef::Int8(writer), DatumRef::Int8(0)])?.done()?;
        tx.insert(&values, &[DatumRef::Int8(writer), DatumRef::Text("")])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()
}

fn check(db: &Database, at_least: &[i64], at_most: &[i64]) -> Result<()> {
    let tx = db.begin(Isolation::RepeatableRead);
    let view = tx.statement(StatementKind::Read)?;
    let accounts = table(&tx, "accounts")?;
    assert_eq!(total(&view, &accounts, None)?, (ACCOUNTS, SUM));
    assert_eq!(total(&view, &accounts, Some(0))?, (ACCOUNTS, SUM));
    let counters = table(&tx, "counters")?;
    for (writer, (at_least, at_most)) in at_least.iter().zip(at_most).enumerate() {
        let mut row = RowBuf::default();
        assert!(view.get(&counters, &key(&counters, writer as i64)?, &mut row)?);
        let found = int(&counters, row.raw(), 1)?;
        assert!(
            (*at_least..=*at_most).contains(&found),
            "writer {writer}: {found} commits, {at_least} to {at_most} were acknowledged"
        );
    }
    Ok(())
}

/// A disk after a power loss while all of them were at work, and what each writer had been told then:
/// at least, and at most.
struct Lost {
    vfs: SimVfs,
    at_least: Vec<i64>,
    at_most: Vec<i64>,
    /// What the cleaner was doing.
    phase: Option<SweepPhase>,
}

impl Shared {
    fn acknowledged(&self) -> Vec<i64> {
        self.acknowledged.iter().map(|a| a.load(Ordering::SeqCst)).collect()
    }
    fn lose_power(&self, vfs: &SimVfs, seed: u64) -> Lost {
        let at_least = self.acknowledged();
        let phase = self.db.cleaner_status().current.map(|sweep| sweep.phase);
        let vfs = vfs.crash_clone(seed);
        let at_most = self.acknowledged().into_iter().map(|count| count + 1).collect();
        Lost { vfs, at_least, at_most, phase }
    }
}

/// Most power losses on the way.
const LOSSES_MAX: usize = 6;

fn work(db: &Database, vfs: &SimVfs, seed: u64, time: Duration, lost: &mut Vec<Lost>) -> Shared {
    let shared = Shared {
        db: db.clone(),
        seed,
        stop: AtomicBool::new(false),
        acknowledged: Default::default(),
        transfers: AtomicU64::new(0),
        retries: AtomicU64::new(0),
        scans: AtomicU64::new(0),
        definitions: AtomicU64::new(0),
    };
    std::thread::scope(|scope| {
        let shared = &shared;
        let mut threads = Vec::new();
        for me in 0..WRITERS {
            threads.push(scope.spawn(move || writer(shared, me)));
        }
        threads.push(scope.spawn(move || reader(shared)));
        threads.push(scope.spawn(move || definer(shared)));
        let end = Instant::now() + time;
        let every = time / (LOSSES_MAX as u32 + 1);
        let mut next = Instant::now() + every;
        while Instant::now() < end && threads.iter().all(|t| !t.is_finished()) {
            // In the middle of a sweep if there soon is one.
            let sweeps = db.cleaner_status().current.is_some_and(|sweep| sweep.pages_visited > 0);
            if lost.len() < LOSSES_MAX && (Instant::now() > next && sweeps || Instant::now() > next + every) {
                lost.push(shared.lose_power(vfs, seed * 1000 + lost.len() as u64));
                next = Instant::now() + every;
            }
            std::thread::sleep(Duration::from_millis(if Instant::now() > next { 1 } else { 10 }));
        }
        shared.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => panic!("a thread ended with {error:?}"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    shared
}

#[test]
fn many_threads_and_a_power_loss() -> Result<()> {
    threads_then_power_loss(false)
}

#[test]
fn many_threads_and_a_version_store_of_its_own() -> Result<()> {
    if is_traditional() {
        return Ok(()); // versions are in memory there
    }
    threads_then_power_loss(true)
}

fn threads_then_power_loss(apart: bool) -> Result<()> {
    let variable = |name: &str| std::env::var(name).ok();
    let seconds = variable("RESURGAM_THREADS_SECONDS").and_then(|s| s.parse().ok()).unwrap_or(4.0);
    let seed = variable("RESURGAM_THREADS_SEED").and_then(|s| s.parse().ok()).unwrap_or(7);
    let vfs = SimVfs::new(seed);
    let db = open(&vfs, apart)?;
    prepare(&db)?;
    let mut lost = Vec::new();
    let shared = work(&db, &vfs, seed, Duration::from_secs_f64(seconds), &mut lost);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    eprintln!(
        "seed {seed}: {} transfers, {} retries, {} scans, {} tables made and dropped; power lost in {:?}",
        count(&shared.transfers),
        count(&shared.retries),
        count(&shared.scans),
        count(&shared.definitions),
        lost.iter().map(|lost| lost.phase).collect::<Vec<_>>()
    );
    assert!(count(&shared.transfers) > 20 && count(&shared.scans) > 0 && count(&shared.definitions) > 0);
    let versions = db.stats().versions;
    eprintln!("{versions:?}");
    assert!(!apart || versions.pushed > 100 && versions.freed > 0, "{versions:?}");
    let at_least = shared.acknowledged();
    drop(shared);
    check(&db, &at_least, &at_least)?;
    // Power is lost; nothing was closed.
    let after = vfs.crash();
    drop(db);
    lost.push(Lost { vfs: after, at_most: at_least.clone(), at_least, phase: None });
    for lost in lost {
        let db = open(&lost.vfs, apart)?;
        check(&db, &lost.at_least, &lost.at_most)?;
        db.finish_recovery()?;
        db.close()?;
        let db = open(&lost.vfs, apart)?;
        check(&db, &lost.at_least, &lost.at_most)?;
        db.close()?;
        // Alone: the cleaner frees dropped tables and merges pages, which is not for beside a proof.
        let db = open_beside(&lost.vfs, Options { background: false, ..options(apart) })?;
        nothing_left(&db)?;
        check(&db, &lost.at_least, &lost.at_most)?;
    }
    Ok(())
}

/// Nothing is wrong, nothing is lost, and nothing waits to be freed.
fn nothing_left(db: &Database) -> Result<()> {
    assert_eq!(db.verify()?, Vec::<String>::new());
    for _ in 0..3 {
        db.clean()?;
        db.begin(Isolation::ReadCommitted).commit(Durability::Sync)?.wait()?;
    }
    assert_eq!((db.pending_frees_len()?, db.aborted_count()), (0, 0), "storage is still to be freed");
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}
