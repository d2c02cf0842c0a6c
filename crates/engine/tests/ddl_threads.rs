//! Definitions changed by threads of their own while others write to the same tables, with every
//! background thread: accounts between which money is moved, and a journal of what was moved. Both
//! are indexed, rewritten, truncated and filled again, dropped and made anew, renamed, constrained
//! and given and taken columns and keys, in transactions that commit, roll back, go back to savepoints
//! and are prepared. Every snapshot must find each account as the journal says, through every index.
//!
//! Power is lost in the middle of it, more than once, and again while recovery from that goes on under
//! the same load: what was acknowledged is there, and nothing is lost or left behind.
//!
//! | file | concept |
//! |---|---|
//! | `books.rs` | accounts and journal: finding them, reading them, what must hold |
//! | `transfer.rs` | moving money, whatever the tables look like at the moment |
//! | `define.rs` | changes of their definitions |
//!
//! `RESURGAM_THREADS_SECONDS=n` runs longer, `RESURGAM_THREADS_SEED=n` with other choices.

#[path = "ddl_threads/books.rs"]
mod books;
#[path = "ddl_threads/define.rs"]
mod define;
#[path = "ddl_threads/transfer.rs"]
mod transfer;

mod common;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

use books::*;

use common::open::{is_traditional, open_as};

const WRITERS: usize = 3;
const DEFINERS: usize = 2;
const PARTICIPANTS: usize = WRITERS + DEFINERS;
const LIVES: u64 = 2;
/// Power losses in a life, besides the one that ends it.
const LOSSES: u64 = 2;
/// What a life must have seen, however long that takes.
const LEAST_TRANSFERS: u64 = 40;
const LEAST_DEFINITIONS: u64 = 20;
const LEAST_BUILT: u64 = 2;
/// Whoever waits longer waits for ever.
const PATIENCE: Duration = Duration::from_secs(120);

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok()?.parse().ok()
}

fn options(apart: bool, background: bool) -> Options {
    Options {
        versions: VersionCaps { in_row: !apart, ..VersionCaps::default() },
        version_store_path: apart.then(|| "/disk2/versions".into()),
        buffer_bytes: 128 * limits::PAGE_SIZE,
        log_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 512 << 10,
        log_bytes_max: 8 << 20,
        cleaner_interval_s: 0.05,
        cleaner_threads: 3,
        cleaner_unit_pages: 64,
        accelerated_database_recovery: !is_traditional(),
        background,
        ..Options::default()
    }
}

fn open(vfs: &SimVfs, options: Options) -> Result<Database> {
    vfs.make_folder(Path::new("/disk2"))?;
    open_as(vfs, options)
}

/// What the threads share.
struct Shared {
    db: Database,
    stop: AtomicBool,
    /// The last entry of each in the journal that it knows to be committed.
    acknowledged: [AtomicI64; PARTICIPANTS],
    transfers: AtomicU64,
    audits: AtomicU64,
    retries: AtomicU64,
    prepared: AtomicU64,
    /// Indexes that were made beside writers.
    built: AtomicU64,
    /// Committed changes of definitions, by what they were.
    definitions: Mutex<BTreeMap<&'static str, u64>>,
    serial: AtomicI64,
}

impl Shared {
    fn acknowledged(&self) -> Vec<i64> {
        self.acknowledged.iter().map(|count| count.load(Ordering::SeqCst)).collect()
    }
    fn has_seen_enough(&self) -> bool {
        self.transfers.load(Ordering::Relaxed) >= LEAST_TRANSFERS
            && self.definitions.lock().values().sum::<u64>() >= LEAST_DEFINITIONS
            && self.audits.load(Ordering::Relaxed) > 0
            && self.built.load(Ordering::Relaxed) >= LEAST_BUILT
    }
}

/// Waits for whoever is in the way, but not for ever.
fn patient<T>(mut attempt: Attempt<T>, mut again: impl FnMut() -> Result<Attempt<T>>) -> Result<T> {
    loop {
        match attempt {
            Attempt::Done(value) => return Ok(value),
            Attempt::Wait(wait) => {
                let holder = wait.holder();
                assert!(wait.wait_timeout(PATIENCE), "waits for transaction {holder} for ever");
                attempt = again()?;
            }
        }
    }
}

/// Errors that a client has to live with: it tries again.
fn is_retry(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::DeadlockDetected
            | ErrorKind::SerializationFailure
            | ErrorKind::DefinitionChanged
            // A name that another has taken, a key that a foreign key needs, or has lost.
            | ErrorKind::DuplicateTable
            | ErrorKind::DuplicateColumn
            | ErrorKind::DependentObjects
            | ErrorKind::UndefinedObject
            // Columns were added and dropped too often since the last rewrite.
            | ErrorKind::LimitExceeded
    )
}

/// One transaction: transfers, and changes of definitions if it is a definer's. True: committed, with
/// entry `n` in the journal.
fn one(shared: &Shared, me: usize, random: &mut Random, n: i64) -> Result<bool> {
    let is_definer = me >= WRITERS;
    let isolation = if random.one_in(4) { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
    let tx = shared.db.begin(isolation);
    let mut moved = false;
    let mut defined = Vec::new();
    for _ in 0..if is_definer { random.below(3) + 1 } else { 1 } {
        if !moved && (!is_definer || random.one_in(3)) {
            transfer::transfer(&tx, random, me, n)?;
            moved = true;
        }
        if is_definer {
            let taken_back = random.one_in(5);
            let savepoint = taken_back.then(|| tx.savepoint()).transpose()?;
            let what = define::change(&tx, random, shared.serial.fetch_add(1, Ordering::Relaxed))?;
            match savepoint {
                Some(savepoint) => tx.rollback_to(savepoint)?,
                None if what == "nothing" => {}
                None => defined.push(what),
            }
        }
    }
    match random.below(10) {
        0 => return tx.rollback().map(|()| false),
        1 => drop(tx), // the same
        2 | 3 => {
            let gid = format!("of {me}");
            tx.prepare(&gid, "owner", "database")?.wait()?;
            shared.prepared.fetch_add(1, Ordering::Relaxed);
            drop(tx);
            if random.one_in(4) {
                shared.db.rollback_prepared(&gid)?.wait()?;
                return Ok(false);
            }
            shared.db.commit_prepared(&gid)?.wait()?;
            return Ok(done(shared, defined, moved));
        }
        _ => {
            tx.commit(Durability::Sync)?.wait()?;
            return Ok(done(shared, defined, moved));
        }
    }
    Ok(false)
}

fn done(shared: &Shared, defined: Vec<&'static str>, moved: bool) -> bool {
    for what in defined {
        *shared.definitions.lock().entry(what).or_default() += 1;
    }
    shared.transfers.fetch_add(u64::from(moved), Ordering::Relaxed);
    moved
}

fn take_part(shared: &Shared, me: usize, seed: u64) -> Result<()> {
    let mut random = Random::new(seed * 100 + me as u64);
    let acknowledged = &shared.acknowledged[me];
    while !shared.stop.load(Ordering::Relaxed) {
        let n = acknowledged.load(Ordering::SeqCst) + 1;
        match one(shared, me, &mut random, n) {
            Ok(true) => acknowledged.store(n, Ordering::SeqCst),
            Ok(false) => {}
            Err(error) if is_retry(&error) => {
                shared.retries.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Makes one index after the other.
fn build(shared: &Shared, seed: u64) -> Result<()> {
    let mut random = Random::new(seed * 100 + 99);
    while !shared.stop.load(Ordering::Relaxed) {
        let serial = shared.serial.fetch_add(1, Ordering::Relaxed);
        match define::index_beside_writers(&shared.db, &mut random, serial) {
            Ok(()) => drop(shared.built.fetch_add(1, Ordering::Relaxed)),
            Err(error) if is_retry(&error) => drop(shared.retries.fetch_add(1, Ordering::Relaxed)),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Looks at the books again and again, twice through each snapshot.
fn audit(shared: &Shared) -> Result<()> {
    while !shared.stop.load(Ordering::Relaxed) {
        let tx = shared.db.begin(Isolation::RepeatableRead);
        let look = || -> Result<Vec<i64>> { books(&tx.statement(StatementKind::Read)?, &tx) };
        match look().and_then(|first| Ok((first, look()?))) {
            Ok((first, second)) => {
                assert_eq!(first, second, "one snapshot, two journals");
                shared.audits.fetch_add(1, Ordering::Relaxed);
            }
            // A table that it has not looked at yet was changed since its snapshot.
            Err(error) if matches!(error.kind(), ErrorKind::SerializationFailure | ErrorKind::DefinitionChanged) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A disk after a power loss, and what each had been told then: at least, and at most.
struct Lost {
    vfs: SimVfs,
    at_least: Vec<i64>,
    at_most: Vec<i64>,
}

/// Everyone works on `db` for a while; power losses on the way go to `lost`.
fn work(db: &Database, vfs: &SimVfs, seed: u64, known: &[i64], time: Duration, lost: &mut Vec<Lost>) -> Shared {
    let shared = Shared {
        db: db.clone(),
        stop: AtomicBool::new(false),
        acknowledged: std::array::from_fn(|at| AtomicI64::new(known[at])),
        transfers: AtomicU64::new(0),
        audits: AtomicU64::new(0),
        retries: AtomicU64::new(0),
        prepared: AtomicU64::new(0),
        built: AtomicU64::new(0),
        definitions: Mutex::default(),
        serial: AtomicI64::new(seed as i64 % 1000 * 1_000_000),
    };
    std::thread::scope(|scope| {
        let shared = &shared;
        let mut threads = Vec::new();
        for me in 0..PARTICIPANTS {
            threads.push(scope.spawn(move || take_part(shared, me, seed)));
        }
        threads.push(scope.spawn(move || audit(shared)));
        threads.push(scope.spawn(move || build(shared, seed)));
        let begun = Instant::now();
        let mut losses = 0;
        while (begun.elapsed() < time || !shared.has_seen_enough() && begun.elapsed() < PATIENCE)
            && threads.iter().all(|t| !t.is_finished())
        {
            if losses < LOSSES && begun.elapsed() > time / (LOSSES as u32 + 1) * (losses as u32 + 1) {
                losses += 1;
                let at_least = shared.acknowledged();
                let vfs = vfs.crash_clone(seed * 10 + losses);
                // One more may be committed, and nobody told.
                let at_most = shared.acknowledged().into_iter().map(|count| count + 1).collect();
                lost.push(Lost { vfs, at_least, at_most });
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        shared.stop.store(true, Ordering::Relaxed);
        for thread in threads {
            match thread.join() {
                Ok(Ok(())) => {}
                Ok(Err(error)) => panic!("seed {seed}: a thread ended with {error:?}"),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
    });
    shared
}

/// The books of a database that nobody else uses, and that what was acknowledged is in them. Returns
/// the last entries.
fn check(db: &Database, at_least: &[i64], at_most: &[i64], said: &str) -> Result<Vec<i64>> {
    let tx = db.begin(Isolation::RepeatableRead);
    let mut found = books(&tx.statement(StatementKind::Read)?, &tx)?;
    found.resize(PARTICIPANTS, 0);
    for (me, found) in found.iter().enumerate() {
        assert!(
            (at_least[me]..=at_most[me]).contains(found),
            "{said}: {me} has {found} entries, and was told of {} to {}",
            at_least[me],
            at_most[me]
        );
    }
    Ok(found)
}

/// Whatever is in doubt is resolved, one way or the other.
fn resolve(db: &Database, random: &mut Random) -> Result<()> {
    for one in db.prepared() {
        let resolved = if random.one_in(2) { db.commit_prepared(&one.gid)? } else { db.rollback_prepared(&one.gid)? };
        resolved.wait()?;
    }
    Ok(())
}

/// Nothing is wrong, nothing is lost, and nothing waits to be freed.
fn nothing_left(db: &Database, said: &str) -> Result<()> {
    db.finish_recovery()?;
    assert_eq!(db.verify()?, Vec::<String>::new(), "{said}");
    for _ in 0..5 {
        db.clean()?;
        db.begin(Isolation::ReadCommitted).commit(Durability::Sync)?.wait()?;
    }
    assert_eq!(db.verify()?, Vec::<String>::new(), "{said}, cleaned");
    assert_eq!(db.pending_frees_len()?, 0, "{said}: storage is still to be freed");
    let stats = db.stats();
    assert_eq!((stats.transactions.aborted_in_map, stats.versions.pages), (0, 0), "{said}");
    Ok(())
}

fn lives(apart: bool) -> Result<()> {
    let seconds = variable("RESURGAM_THREADS_SECONDS").unwrap_or(2.5);
    let seed: u64 = variable("RESURGAM_THREADS_SEED").unwrap_or(11);
    let mut random = Random::new(seed);
    let mut vfs = SimVfs::new(seed);
    let db = open(&vfs, options(apart, true))?;
    create(&db)?;
    db.close()?;
    drop(db);
    let mut known = vec![0; PARTICIPANTS];
    for life in 0..LIVES {
        // At work at once, whatever recovery has left to do.
        let db = open(&vfs, options(apart, true))?;
        resolve(&db, &mut random)?;
        known = check(&db, &known, &known.iter().map(|count| count + 1).collect::<Vec<_>>(), "opened")?;
        let mut lost = Vec::new();
        let shared = work(&db, &vfs, seed + life, &known, Duration::from_secs_f64(seconds), &mut lost);
        eprintln!(
            "seed {seed}, life {life}: {:?} transfers, {:?} audits, {:?} retries, {:?} prepared, {:?} built, {:?}",
            shared.transfers,
            shared.audits,
            shared.retries,
            shared.prepared,
            shared.built,
            shared.definitions.lock()
        );
        assert!(shared.has_seen_enough(), "seed {seed}: it comes to nothing");
        known = shared.acknowledged();
        drop(shared);
        check(&db, &known, &known, "at work")?;
        let after = vfs.crash();
        drop(db);
        for (at, lost) in lost.into_iter().enumerate() {
            let said = format!("seed {seed}, life {life}, loss {at}");
            let db = open(&lost.vfs, options(apart, false))?;
            resolve(&db, &mut random)?;
            let found = check(&db, &lost.at_least, &lost.at_most, &said)?;
            nothing_left(&db, &said)?;
            check(&db, &found, &found, &said)?;
        }
        vfs = after;
    }
    let db = open(&vfs, options(apart, true))?;
    check(&db, &known, &known, "at last")?;
    db.close()?;
    drop(db);
    let db = open(&vfs, options(apart, false))?;
    assert_eq!(db.prepared().len(), 0);
    nothing_left(&db, "at last")?;
    check(&db, &known, &known, "at last, cleaned")?;
    Ok(())
}

#[test]
fn definitions_change_under_writers() -> Result<()> {
    lives(false)
}

#[test]
fn definitions_change_under_writers_with_a_version_store_of_its_own() -> Result<()> {
    if is_traditional() {
        return Ok(()); // versions are in memory there
    }
    lives(true)
}
