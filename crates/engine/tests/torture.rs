//! Threads that want the same few rows and keys at once, with windows between steps held open ([`pauses`]): uniqueness, foreign keys, row locks,
//! savepoints and rollbacks of every kind, keys that move and are exchanged, rows that come back. What they may be told is checked as it is told,
//! what they left is checked in snapshots beside them, at the end, and after power was lost.
//!
//! - No error but those that a client has to expect. A duplicate must be justified: somebody has, or is about to have, the key.
//! - Every snapshot: each index has the rows of its table, keys that are unique are, children have parents, sums and counts are as ever, nothing
//!   is seen of who rolled back; and a second look through the same snapshot finds the same.
//! - A row that is locked stays as it was; no increment is lost.
//!
//! `RESURGAM_TORTURE_SECONDS=n` runs longer, `RESURGAM_SEED=n` with other choices. Which thread comes first no seed says: a finding comes back with
//! the same choices, not with the same order.

#[path = "torture/book.rs"]
mod book;
#[path = "torture/client.rs"]
mod client;
mod common;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use resurgam_base::pauses::{ALL, Mistake, Pause, Pauses};
use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

use book::{Book, Random};
use common::open::{is_traditional, open_as};

const WRITERS: u64 = 4;
const ROUND: Duration = Duration::from_millis(1200);

/// How one round is run.
fn options(random: &mut Random, traditional: bool) -> Options {
    Options {
        buffer_bytes: 80 * limits::PAGE_SIZE,
        log_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 512 << 10,
        log_bytes_max: 8 << 20,
        cleaner_interval_s: [0.01, 0.05, 5.0][random.below(3)],
        cleaner_threads: 2,
        cleaner_unit_pages: 64,
        // Long ones, short ones, and those that turn long on their way.
        short_rollback_operations: [0, 4, 12, 200][random.below(4)],
        short_rollback_bytes: [2 << 10, 256 << 10][random.below(2)],
        versions: VersionCaps { in_row: random.below(4) > 0, ..VersionCaps::default() },
        version_store_path: (!traditional && random.below(4) == 0).then(|| "/disk2/versions".into()),
        shared_row_locks_max: [2, 100_000][random.below(2)],
        accelerated_database_recovery: !traditional,
        ..Options::default()
    }
}

/// Windows that are open in a round: one, some, or none.
fn pauses(random: &mut Random) -> Pauses {
    let places: Vec<Pause> = match random.below(6) {
        0 => Vec::new(),
        1 => ALL.to_vec(),
        2 | 3 => vec![ALL[random.below(ALL.len())]],
        _ => ALL.into_iter().filter(|_| random.below(3) == 0).collect(),
    };
    Pauses::at(&places)
}

/// One database, from its making to what is left after power was lost.
fn round(seed: u64, traditional: bool, pauses: &Pauses, options: &Options, time: Duration) -> Result<String, String> {
    let said = |error: Error| format!("{error:?}");
    let vfs = SimVfs::new(seed);
    vfs.make_folder(Path::new("/disk2")).map_err(said)?;
    let db = open_as(&vfs, options.clone()).map_err(said)?;
    let tables = Arc::new(book::make(&db).map_err(said)?);
    let book = Book::new(db.clone(), tables, seed);
    pauses.plant(seed);
    let ended = book.run(WRITERS, time, &vfs);
    Pauses::end();
    let lost = ended?;
    let tables = &book.tables;
    book.check_all(&db, tables, Some(book.increments())).map_err(|found| format!("when all had ended: {found}"))?;
    let summary = book.summary();
    let increments = book.increments();
    db.sync_log().map_err(said)?;
    drop(book);
    // Nothing was closed. In the middle of the work, the last thing that is known is what no snapshot may miss.
    let after = vfs.crash();
    drop(db);
    for (vfs, increments) in [(after, Some(increments)), (lost, None)] {
        vfs.make_folder(Path::new("/disk2")).map_err(said)?;
        let db = open_as(&vfs, options.clone()).map_err(said)?;
        let tables = Arc::new(book::find(&db).map_err(said)?);
        let book = Book::new(db.clone(), tables, seed);
        let check = |when: &str| {
            let found = book.check_all(&db, &book.tables, increments);
            found.map_err(|found| format!("{when}, increments known: {}: {found}", increments.is_some()))
        };
        check("after a power loss")?;
        db.finish_recovery().map_err(said)?;
        check("after recovery")?;
        drop(book);
        db.close().map_err(said)?;
        let db = open_as(&vfs, Options { background: false, ..options.clone() }).map_err(said)?;
        for _ in 0..2 {
            let problems = db.verify().map_err(said)?;
            if !problems.is_empty() {
                return Err(format!("after a crash: {problems:?}"));
            }
            for _ in 0..3 {
                db.clean().map_err(said)?;
                db.begin(Isolation::ReadCommitted)
                    .commit(Durability::Sync)
                    .and_then(CommitTicket::wait)
                    .map_err(said)?;
            }
        }
        db.close().map_err(said)?;
    }
    Ok(format!("{}, {summary}", if traditional { "traditional" } else { "accelerated" }))
}

/// Rounds until the time is over, or one finds something.
fn rounds(seed: u64, time: Duration, round_time: Duration) -> Result<(), String> {
    let begun = Instant::now();
    let mut number = 0;
    while begun.elapsed() < time || number == 0 {
        // The same choices again and again, for what comes by chance only.
        let seed = if variable::<u8>("RESURGAM_TORTURE_AGAIN").is_some() { seed } else { seed + number };
        let mut random = Random::new(seed);
        let traditional = if is_traditional() { random.below(4) > 0 } else { random.below(4) == 0 };
        let options = options(&mut random, traditional);
        let pauses = pauses(&mut random);
        match round(seed, traditional, &pauses, &options, round_time) {
            Ok(summary) => eprintln!("seed {seed}: {summary}; {pauses:?}"),
            Err(found) => {
                return Err(format!(
                    "seed {seed}, traditional: {traditional}, short: {} rows and {} bytes, {pauses:?}:\n{found}",
                    options.short_rollback_operations, options.short_rollback_bytes
                ));
            }
        }
        number += 1;
    }
    Ok(())
}

fn variable<T: std::str::FromStr>(name: &str) -> Option<T> {
    std::env::var(name).ok().and_then(|value| value.parse().ok())
}

/// Windows, and mistakes, are the process's: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Who looks for the newest version of a row meets none that its transaction has replaced itself.
#[test]
fn nobody_meets_half_of_a_transaction() -> Result<()> {
    let _alone = alone();
    half_of_a_transaction()
}

fn half_of_a_transaction() -> Result<()> {
    Pauses::at(&[Pause::VersionPassed]).plant(1);
    let traditional = is_traditional();
    let db = open_as(&SimVfs::new(1), common::open::small_log(traditional))?;
    let table = common::rows_table("t");
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(table)?.done()?;
    tx.statement(StatementKind::PointWrite)?;
    tx.insert(&table, &common::row(1, 0, ""))?.done()?;
    tx.commit(Durability::Async)?.wait()?;
    let key = common::key(&table, 1)?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..20_000 {
                let tx = db.begin(Isolation::ReadCommitted);
                // Odd at first, under another id.
                for v in [2 * number + 1, 2 * number + 2] {
                    tx.savepoint()?;
                    tx.statement(StatementKind::PointWrite)?;
                    let done = tx.update(&table, &key, Seen::Snapshot, &common::row(1, v, ""))?.done()?;
                    assert_eq!(done, Change::Done);
                }
                tx.commit(Durability::Async)?.wait()?;
            }
            is_over.store(true, Ordering::SeqCst);
            Ok::<_, Error>(())
        });
        let mut row = RowBuf::default();
        while !is_over.load(Ordering::SeqCst) && !writer.is_finished() {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.statement(StatementKind::PointWrite)?;
            assert!(tx.latest(&table, &key, &mut row)?.is_some());
            let DatumRef::Int8(v) = table.column(row.raw(), 1)? else { panic!("no number") };
            assert_eq!(v % 2, 0, "half of a transaction");
        }
        writer.join().expect("no panic")
    })?;
    Pauses::end();
    Ok(())
}

#[test]
fn threads_that_want_the_same_rows() {
    let _alone = alone();
    let seconds = variable("RESURGAM_TORTURE_SECONDS").unwrap_or(8.0);
    let seed = variable("RESURGAM_SEED").unwrap_or(1);
    if let Err(found) = rounds(seed, Duration::from_secs_f64(seconds), ROUND) {
        panic!("{found}");
    }
}

/// Each mistake, until it is noticed.
#[test]
#[ignore = "takes up to two minutes for each mistake, by chance"]
fn mistakes_are_noticed() {
    let _alone = alone();
    let only: Option<String> = variable("RESURGAM_MISTAKE");
    // (Of `OldestIdFirst` a test of the table of states tells.)
    let mistakes = [Mistake::LastWriteFirst, Mistake::KeyFreed, Mistake::AskedTwice, Mistake::Intermediate];
    let mut missed = Vec::new();
    for mistake in mistakes {
        if only.as_ref().is_some_and(|only| *only != format!("{mistake:?}")) {
            continue;
        }
        mistake.plant();
        let begun = Instant::now();
        // A panic of a thread is a finding as well.
        let found = std::panic::catch_unwind(|| match mistake {
            Mistake::Intermediate => half_of_a_transaction().map_err(|error| format!("{error:?}")),
            _ => rounds(variable("RESURGAM_SEED").unwrap_or(1), Duration::from_secs(120), ROUND),
        });
        Mistake::None.plant();
        Pauses::end();
        match found {
            Ok(Ok(())) => missed.push(mistake),
            Ok(Err(found)) => eprintln!("{mistake:?} after {:?}: {found}", begun.elapsed()),
            Err(_) => eprintln!("{mistake:?} after {:?}: a panic", begun.elapsed()),
        }
    }
    assert_eq!(missed, [], "not noticed");
}
