//! What becomes of transactions: committed, failed, panicking, in parts.

use std::panic::{AssertUnwindSafe, catch_unwind};

use resurgam_embedded::{Durability, Error, Result, Table};

use crate::{open, options};

const COUNTS: Table<String, i64> = Table::new("counts");

fn get(db: &resurgam_embedded::Db, key: &str) -> Option<i64> {
    db.read(|tx| tx.table(&COUNTS)?.get(key)).unwrap()
}

#[test]
fn an_error_or_a_panic_takes_all_of_it_back() {
    let (dir, db) = open();
    db.write(|tx| tx.table(&COUNTS)?.put("a", &1)).unwrap();
    let failed = db.write(|tx| {
        tx.table(&COUNTS)?.put("a", &2)?;
        Err::<(), _>(Error::custom("no"))
    });
    assert_eq!(failed.unwrap_err().to_string(), "no");
    assert_eq!(get(&db, "a"), Some(1));
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        db.write(|tx| -> Result<()> {
            tx.table(&COUNTS)?.put("a", &3)?;
            panic!("on purpose");
        })
    }));
    assert_eq!(*panicked.unwrap_err().downcast_ref::<&str>().unwrap(), "on purpose");
    assert_eq!(get(&db, "a"), Some(1));
    // Nothing is left locked, and this thread may write.
    db.write(|tx| tx.table(&COUNTS)?.put("a", &4)).unwrap();
    drop(db);
    let db = options().open(dir.path().join("db")).unwrap();
    assert_eq!(get(&db, "a"), Some(4));
    assert_eq!(db.counts().committed, 0);
}

#[test]
fn a_table_that_was_made_goes_with_its_transaction() {
    let (_dir, db) = open();
    let _ = db.write(|tx| {
        tx.table(&COUNTS)?.put("a", &1)?;
        Err::<(), _>(Error::custom("no"))
    });
    assert!(matches!(db.read(|tx| tx.table(&COUNTS).map(drop)), Err(Error::NoTable { .. })));
    db.write(|tx| {
        let back = tx.savepoint(|tx| {
            tx.table(&COUNTS)?.put("a", &1)?;
            Err::<(), _>(Error::custom("no"))
        });
        assert!(back.is_err());
        tx.table(&COUNTS)?.put("b", &2)
    })
    .unwrap();
    assert_eq!((get(&db, "a"), get(&db, "b")), (None, Some(2)));
}

#[test]
fn savepoints_nest() {
    let (_dir, db) = open();
    db.write(|tx| {
        let counts = tx.table(&COUNTS)?;
        counts.put("a", &1)?;
        tx.savepoint(|tx| {
            counts.put("b", &1)?;
            let inner = tx.savepoint(|_| {
                counts.put("a", &2)?;
                counts.put("c", &1)?;
                Err::<(), _>(Error::custom("no"))
            });
            assert!(inner.is_err());
            assert_eq!((counts.get("a")?, counts.get("c")?), (Some(1), None));
            Ok::<_, Error>(())
        })?;
        // A panic that is caught within the closure.
        let caught = catch_unwind(AssertUnwindSafe(|| {
            tx.savepoint(|_| -> Result<()> {
                counts.put("b", &9)?;
                panic!("on purpose")
            })
        }));
        assert!(caught.is_err());
        counts.put("d", &1).map(drop)
    })
    .unwrap();
    assert_eq!((get(&db, "a"), get(&db, "b"), get(&db, "c"), get(&db, "d")), (Some(1), Some(1), None, Some(1)));
}

#[test]
fn write_within_write_is_an_error() {
    let (_dir, db) = open();
    let (_other_dir, other) = open();
    let error = db.write(|_| db.write(|_| Ok(()))).unwrap_err();
    assert!(matches!(error, Error::Nested), "{error}");
    // Another handle of the same database is no other database.
    let error = db.write(|_| resurgam_embedded::Db::over(db.engine().clone()).write(|_| Ok(()))).unwrap_err();
    assert!(matches!(error, Error::Nested), "{error}");
    // Reading is none, nor is another database.
    db.create_table(&COUNTS).unwrap();
    db.write(|_| {
        assert!(get(&db, "x").is_none());
        other.write(|tx| tx.table(&COUNTS)?.put("a", &1))
    })
    .unwrap();
    assert_eq!(get(&other, "a"), Some(1));
}

#[test]
fn a_reader_sees_one_state() {
    let (_dir, db) = open();
    db.write(|tx| tx.table(&COUNTS)?.put("a", &1)).unwrap();
    db.read(|tx| {
        let counts = tx.table(&COUNTS)?;
        assert_eq!(counts.get("a")?, Some(1));
        db.write(|tx| tx.table(&COUNTS)?.put("a", &2))?;
        assert_eq!(counts.get("a")?, Some(1));
        assert_eq!(tx.table(&COUNTS)?.iter()?.next().unwrap()?.1, 1);
        Ok(())
    })
    .unwrap();
    assert_eq!(get(&db, "a"), Some(2));
}

/// A closure that swallows a conflict is not committed.
#[test]
fn a_conflict_cannot_be_swallowed() {
    let (_dir, db) = open();
    db.write(|tx| tx.table(&COUNTS)?.put("a", &0)).unwrap();
    let mut attempts = 0;
    db.write(|tx| {
        attempts += 1;
        let counts = tx.table(&COUNTS)?;
        let before = counts.get("a")?.unwrap();
        if attempts == 1 {
            std::thread::scope(|scope| {
                scope.spawn(|| db.write(|tx| tx.table(&COUNTS)?.put("a", &10)).unwrap());
            });
        }
        // Whatever it says, it is looked at.
        let _ = counts.put("a", &(before + 1));
        Ok(())
    })
    .unwrap();
    assert_eq!((attempts, get(&db, "a")), (2, Some(11)));
    assert_eq!(db.counts().conflicts, 1);
}

/// What another transaction inserted since this one began is met by trying again, and is then found.
#[test]
fn a_row_that_came_meanwhile_is_found_at_the_second_attempt() {
    let (_dir, db) = open();
    db.create_table(&COUNTS).unwrap();
    let mut attempts = 0;
    db.write(|tx| {
        attempts += 1;
        let counts = tx.table(&COUNTS)?;
        match counts.get("new")? {
            Some(n) => counts.put("new", &(n + 1)).map(drop),
            None => {
                std::thread::scope(|scope| {
                    scope.spawn(|| db.write(|tx| tx.table(&COUNTS)?.put("new", &5)).unwrap());
                });
                counts.insert("new", &1)
            }
        }
    })
    .unwrap();
    assert_eq!((attempts, get(&db, "new")), (2, Some(6)));
}

#[test]
fn attempts_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().attempts(3).open(dir.path().join("db")).unwrap();
    db.write(|tx| tx.table(&COUNTS)?.put("a", &0)).unwrap();
    let mut attempts = 0;
    let error = db
        .write(|tx| {
            attempts += 1;
            tx.table(&COUNTS)?.get("a")?;
            std::thread::scope(|scope| {
                scope.spawn(|| db.write(|tx| tx.table(&COUNTS)?.put("a", &attempts)).unwrap());
            });
            tx.table(&COUNTS)?.put("a", &-1).map(drop)
        })
        .unwrap_err();
    assert!(
        matches!(&error, Error::Conflict { attempts: 3, table: Some(table), .. } if table == "\"counts\""),
        "{error}"
    );
    assert_eq!((attempts, get(&db, "a")), (3, Some(3)));
    assert_eq!(db.counts().given_up, 1);
}

#[test]
fn waits_can_be_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let db = options().lock_timeout(std::time::Duration::from_millis(20)).open(dir.path().join("db")).unwrap();
    db.write(|tx| tx.table(&COUNTS)?.put("a", &0)).unwrap();
    let tx = db.begin();
    tx.table(&COUNTS).unwrap().put("a", &1).unwrap();
    let error = db.write(|tx| tx.table(&COUNTS)?.put("a", &2)).unwrap_err();
    assert!(matches!(error, Error::LockTimeout { .. }), "{error}");
    tx.commit().unwrap();
    assert_eq!(get(&db, "a"), Some(1));
}

#[test]
fn transactions_that_the_caller_ends() {
    let (_dir, db) = open();
    let tx = db.begin();
    tx.table(&COUNTS).unwrap().put("a", &1).unwrap();
    drop(tx);
    let tx = db.begin();
    tx.table(&COUNTS).unwrap().put("b", &1).unwrap();
    tx.rollback();
    let tx = db.begin();
    tx.table(&COUNTS).unwrap().put("c", &1).unwrap();
    tx.commit_with(Durability::Async).unwrap();
    db.sync().unwrap();
    assert_eq!((get(&db, "a"), get(&db, "b"), get(&db, "c")), (None, None, Some(1)));
    let reader = db.begin_read();
    db.write(|tx| tx.table(&COUNTS)?.delete("c")).unwrap();
    let _ = reader.table(&COUNTS).unwrap();
}

/// A row that was only looked at, and on which a decision rests.
#[test]
fn get_for_update_keeps_others_out() {
    let (_dir, db) = open();
    db.write(|tx| {
        tx.table(&COUNTS)?.put("on duty 1", &1)?;
        tx.table(&COUNTS)?.put("on duty 2", &1)
    })
    .unwrap();
    // Each of two leaves if the other stays: one must stay.
    let leave = |me: &str, other: &str| {
        db.write(|tx| {
            let counts = tx.table(&COUNTS)?;
            if counts.get_for_update(other)? == Some(1) {
                counts.put(me, &0)?;
            }
            Ok(())
        })
        .unwrap();
    };
    std::thread::scope(|scope| {
        scope.spawn(|| leave("on duty 1", "on duty 2"));
        scope.spawn(|| leave("on duty 2", "on duty 1"));
    });
    assert_eq!(get(&db, "on duty 1").unwrap() + get(&db, "on duty 2").unwrap(), 1);
}

/// An error type of the program's own.
#[test]
fn own_errors() {
    #[derive(Debug)]
    enum Mine {
        Poor(i64),
        Db(#[expect(dead_code, reason = "shown")] Error),
    }
    impl From<Error> for Mine {
        fn from(error: Error) -> Self {
            Self::Db(error)
        }
    }
    let (_dir, db) = open();
    db.create_table(&COUNTS).unwrap();
    let result = db.try_write(|tx| match tx.table(&COUNTS)?.get("a")? {
        None => Err(Mine::Poor(1)),
        Some(_) => Ok(()),
    });
    assert!(matches!(result, Err(Mine::Poor(1))));
}

/// A thread that waits for itself, which nobody notices.
#[test]
fn waits_can_be_bounded_later() {
    let (_dir, db) = open();
    db.write(|tx| tx.table(&COUNTS)?.put("a", &0)).unwrap();
    let tx = db.begin();
    tx.table(&COUNTS).unwrap().put("a", &1).unwrap();
    let over = resurgam_embedded::Db::over(db.engine().clone());
    over.set_lock_timeout(Some(std::time::Duration::from_millis(20)));
    let mut attempts = 0;
    let error = over
        .write(|tx| {
            attempts += 1;
            tx.table(&COUNTS)?.put("a", &2)
        })
        .unwrap_err();
    assert!(matches!(error, Error::LockTimeout { .. }) && error.is_retryable() && attempts == 1, "{error}");
    tx.commit().unwrap();
    over.set_lock_timeout(None);
    over.write(|tx| tx.table(&COUNTS)?.put("a", &3)).unwrap();
    assert_eq!(get(&db, "a"), Some(3));
}

/// Where a part cannot be taken back nothing is kept; nobody is blamed, and nothing is tried again.
#[test]
fn a_savepoint_that_cannot_be_gone_back_to() {
    let (_dir, db) = open();
    let mut attempts = 0;
    let error = db
        .write(|tx| {
            attempts += 1;
            let back = tx.savepoint(|tx| {
                tx.table(&COUNTS)?.put("a", &1)?;
                db.clone().close()?;
                Err::<(), _>(Error::custom("no"))
            });
            assert!(matches!(back, Err(Error::Engine(_))), "{back:?}");
            Ok(())
        })
        .unwrap_err();
    assert!(matches!(error, Error::Engine(_)), "{error}");
    assert_eq!((attempts, db.counts().conflicts), (1, 0));
}

/// The last handle is a transaction: it has ended when the database is closed.
#[test]
fn a_transaction_outlives_all_handles() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = options().open(&path).unwrap();
    db.write(|tx| tx.table(&COUNTS)?.put("a", &1)).unwrap();
    let tx = db.begin();
    tx.table(&COUNTS).unwrap().put("a", &2).unwrap();
    drop(db);
    drop(tx);
    let db = options().open(&path).unwrap();
    let report = db.engine().recovery();
    assert!(report.was_clean && report.transactions_aborted == 0, "{report:?}");
    assert_eq!(get(&db, "a"), Some(1));
}

/// The engine of somebody else stays open.
#[test]
fn closing_what_is_over_an_engine() {
    let (_dir, db) = open();
    let over = resurgam_embedded::Db::over(db.engine().clone());
    over.write(|tx| tx.table(&COUNTS)?.put("a", &1)).unwrap();
    over.close().unwrap();
    db.write(|tx| tx.table(&COUNTS)?.put("b", &2)).unwrap();
    assert_eq!((get(&db, "a"), get(&db, "b")), (Some(1), Some(2)));
}
