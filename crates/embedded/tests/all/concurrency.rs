//! Threads that meet: what they did adds up.

use std::sync::atomic::{AtomicBool, Ordering};

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use resurgam_embedded::{Error, Table, row};

use crate::{open, seed};

const COUNTERS: Table<i64, i64> = Table::new("counters");
const ACCOUNTS: Table<u32, i64> = Table::new("accounts");

/// A database is shared, a transaction is of one thread at a time.
#[test]
fn what_goes_to_other_threads() {
    fn is_shared<T: Send + Sync>() {}
    fn is_sent<T: Send>() {}
    is_shared::<resurgam_embedded::Db>();
    is_shared::<Error>();
    is_sent::<resurgam_embedded::WriteTx>();
    is_sent::<resurgam_embedded::ReadTx>();
}

#[test]
fn counters_add_up() {
    const THREADS: i64 = 6;
    const TIMES: i64 = 40;
    let (_dir, db) = open();
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let db = &db;
            scope.spawn(move || {
                for _ in 0..TIMES {
                    // The table, and the row, are made by whoever comes first.
                    db.write(|tx| {
                        let counters = tx.table(&COUNTERS)?;
                        let before = counters.get(&0)?.unwrap_or(0);
                        counters.put(&0, &(before + 1))?;
                        counters.put(&(thread + 1), &(counters.get(&(thread + 1))?.unwrap_or(0) + 1))
                    })
                    .unwrap();
                }
            });
        }
    });
    let counters: Vec<i64> = db.read(|tx| tx.table(&COUNTERS)?.iter()?.map(|row| Ok(row?.1)).collect()).unwrap();
    assert_eq!(counters[0], THREADS * TIMES);
    assert!(counters[1..].iter().all(|n| *n == TIMES));
    assert_eq!(db.counts().committed, (THREADS * TIMES) as u64);
}

/// Transfers in opposite orders wait for each other now and then; readers see no half of one.
#[test]
fn transfers_keep_the_sum() {
    const ACCOUNTS_MAX: u32 = 5;
    let seed = seed("transfers_keep_the_sum");
    let (_dir, db) = open();
    db.write(|tx| {
        for account in 0..ACCOUNTS_MAX {
            tx.table(&ACCOUNTS)?.put(&account, &100)?;
        }
        Ok(())
    })
    .unwrap();
    let done = AtomicBool::new(false);
    let sum = || db.read(|tx| tx.table(&ACCOUNTS)?.iter()?.map(|row| Ok(row?.1)).sum::<Result<i64, Error>>()).unwrap();
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..4u64)
            .map(|thread| {
                let db = &db;
                scope.spawn(move || {
                    let mut random = StdRng::seed_from_u64(seed ^ thread);
                    for _ in 0..40 {
                        let (from, to) = (random.random_range(0..ACCOUNTS_MAX), random.random_range(0..ACCOUNTS_MAX));
                        let poor = db.write(|tx| {
                            let accounts = tx.table(&ACCOUNTS)?;
                            accounts.modify(&from, |balance| *balance -= 30)?;
                            accounts.modify(&to, |balance| *balance += 30)?;
                            match accounts.get(&from)? {
                                Some(balance) if balance < 0 => Err(Error::custom("poor")),
                                _ => Ok(()),
                            }
                        });
                        assert!(matches!(poor, Ok(()) | Err(Error::Custom(_))), "{poor:?}");
                    }
                })
            })
            .collect();
        let reader = scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                assert_eq!(sum(), i64::from(ACCOUNTS_MAX) * 100);
            }
        });
        // The reader ends also where a writer has failed.
        let failed = writers.into_iter().filter_map(|writer| writer.join().err()).count();
        done.store(true, Ordering::Relaxed);
        reader.join().unwrap();
        assert_eq!(failed, 0);
    });
    assert_eq!(sum(), i64::from(ACCOUNTS_MAX) * 100);
    assert!(
        db.read(|tx| tx.table(&ACCOUNTS)?.iter()?.map(|row| Ok(row?.1 >= 0)).collect::<Result<Vec<_>, Error>>())
            .unwrap()
            .into_iter()
            .all(|fine| fine)
    );
}

row! {
    struct Job in "jobs" {
        id: i64,
        text: String,
    }
    key(id: i64);
    unique text(text);
}

/// A queue: each job is taken once, though all take from its head.
#[test]
fn each_job_is_taken_once() {
    const JOBS: i64 = 60;
    let (_dir, db) = open();
    db.write(|tx| (0..JOBS).try_for_each(|id| tx.rows::<Job>()?.insert(&Job { id, text: id.to_string() }))).unwrap();
    let mut taken: Vec<i64> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut mine = Vec::new();
                    while let Some(job) = db.write(|tx| tx.rows::<Job>()?.pop_first()).unwrap() {
                        assert_eq!(job.text, job.id.to_string());
                        mine.push(job.id);
                    }
                    mine
                })
            })
            .collect();
        workers.into_iter().flat_map(|worker| worker.join().unwrap()).collect()
    });
    taken.sort_unstable();
    assert_eq!(taken, (0..JOBS).collect::<Vec<_>>());
}

/// Of several who insert the same unique value at the same time one does, and the others are told.
#[test]
fn one_of_many_has_a_unique_value() {
    let (_dir, db) = open();
    db.create::<Job>().unwrap();
    for round in 0..20 {
        let done: usize = std::thread::scope(|scope| {
            let writers: Vec<_> = (0..4)
                .map(|thread| {
                    let job = Job { id: round * 10 + thread, text: format!("round {round}") };
                    let db = &db;
                    scope.spawn(move || match db.write(|tx| tx.rows::<Job>()?.insert(&job)) {
                        Ok(()) => 1,
                        Err(Error::Duplicate { index, .. }) if index == "jobs_text_key" => 0,
                        Err(other) => panic!("{other}"),
                    })
                })
                .collect();
            writers.into_iter().map(|writer| writer.join().unwrap()).sum()
        });
        assert_eq!(done, 1);
    }
    assert_eq!(db.read(|tx| tx.rows::<Job>()?.count()).unwrap(), 20);
}

/// Threads that make the same table at the same time.
#[test]
fn tables_are_made_once() {
    let (_dir, db) = open();
    for round in 0..10 {
        let table = Table::<i64, i64>::named(format!("t{round}"));
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (db, table) = (&db, &table);
                scope.spawn(move || db.write(|tx| tx.table(table)?.insert(&thread, &round)).unwrap());
            }
        });
        assert_eq!(db.read(|tx| tx.table(&table)?.count()).unwrap(), 4);
    }
}
