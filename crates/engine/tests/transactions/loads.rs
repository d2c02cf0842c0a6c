//! Loads beside others: they wait and go on, can be stopped, and nobody waits for what they take back.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{is_traditional, open};
use crate::support::{Rows, commit, compare, create, delete, insert, note, rows, rows_of, table};

fn content(id: i64) -> String {
    note(id, 20 + id as usize % 50)
}

fn all(ids: &[i64]) -> Rows {
    ids.iter().map(|id| (*id, content(*id))).collect()
}

/// An order in which neighbours are far apart.
fn shuffled(ids: impl Iterator<Item = i64>) -> Vec<i64> {
    let mut ids: Vec<i64> = ids.collect();
    ids.sort_by_key(|id| (id.wrapping_mul(0x9E37_79B9) >> 3) & 0xFFFF);
    ids
}

fn insert_many(tx: &Transaction, ids: &[i64], done: &mut usize) -> Result<Attempt<()>> {
    let table = table(tx)?;
    tx.statement(StatementKind::BulkWrite)?;
    let notes: Vec<String> = ids.iter().map(|id| content(*id)).collect();
    let rows: Vec<[DatumRef<'_>; 2]> =
        ids.iter().zip(&notes).map(|(id, note)| [DatumRef::Int8(*id), DatumRef::Text(note)]).collect();
    let rows: Vec<&[DatumRef<'_>]> = rows.iter().map(|row| &row[..]).collect();
    tx.insert_many(&table, &rows, done)
}

fn id_of(row: Option<Vec<DatumRef<'_>>>) -> Option<i64> {
    match row?.first() {
        Some(DatumRef::Int8(id)) => Some(*id),
        _ => None,
    }
}

/// In order they are flushed a few at a time, in no order the batches grow: the wait is in one that has grown.
#[test]
fn a_load_goes_on_after_a_wait() -> Result<()> {
    for (in_order, is_kept) in [(true, false), (true, true), (false, false), (false, true)] {
        let vfs = SimVfs::new(21);
        let db = open(&vfs, is_traditional())?;
        create(&db)?;
        let ids = if in_order { (0..3000).collect() } else { shuffled(0..3000) };
        const HELD: usize = 2000;
        let holder = db.begin(Isolation::ReadCommitted);
        insert(&holder, ids[HELD], "held")?;
        let mut holder = Some(holder);
        let tx = db.begin(Isolation::ReadCommitted);
        let of = table(&tx)?;
        tx.statement(StatementKind::BulkWrite)?;
        let mut load = tx.load(&of).keeping(16 << 10, 1 << 20);
        let mut at = 0;
        let error = loop {
            let outcome = match ids.get(at) {
                Some(id) => load.push(&[DatumRef::Int8(*id), DatumRef::Text(&content(*id))]),
                None => load.flush(),
            };
            match outcome {
                Ok(Attempt::Done(())) if at == ids.len() => break None,
                Ok(Attempt::Done(())) => at += 1,
                Ok(Attempt::Wait(wait)) => {
                    let held = holder.take().expect("it waited once already");
                    assert_eq!(Some(wait.holder()), held.id());
                    assert_eq!(load.inserted(), HELD as u64);
                    compare(&rows_of(&tx)?, &all(&ids[..HELD]), "so far");
                    tx.statement(StatementKind::BulkWrite)?;
                    if is_kept {
                        held.commit(Durability::Sync)?.wait()?
                    } else {
                        held.rollback()?
                    }
                    assert!(wait.wait_timeout(Duration::ZERO));
                }
                Err(error) => break Some(error),
            }
        };
        assert!(holder.is_none(), "nothing was waited for");
        if is_kept {
            assert_eq!(error.map(|error| error.kind()), Some(ErrorKind::UniqueViolation));
            assert_eq!((load.inserted(), id_of(load.refused())), (HELD as u64, Some(ids[HELD])));
            let mut there = all(&ids[..HELD]);
            there.insert(ids[HELD], "held".to_owned());
            compare(&rows_of(&tx)?, &there, "those before it");
        } else {
            assert!(error.is_none(), "{error:?}");
            assert_eq!((load.inserted(), load.refused()), (ids.len() as u64, None));
            tx.commit(Durability::Sync)?.wait()?;
            compare(&rows(&db)?, &all(&ids), "all");
        }
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// One puts in a row, and a load that has it first others behind it. The one meets a row of the load's in the midst of it: that is taken
/// back, and then it goes on, and the load waits for it. One row at a time they would not meet.
#[test]
fn who_waits_for_what_is_taken_back_is_woken() -> Result<()> {
    for over_deleted in [false, true] {
        let vfs = SimVfs::new(22);
        let db = open(&vfs, is_traditional())?;
        create(&db)?;
        let reader = db.begin(Isolation::RepeatableRead);
        if over_deleted {
            commit(&db, |tx| insert(tx, 1, "there"))?;
            rows_of(&reader)?;
            commit(&db, |tx| delete(tx, 1).map(drop))?;
        }
        let other = db.begin(Isolation::ReadCommitted);
        insert(&other, 900, "another's")?;
        let tx = db.begin(Isolation::ReadCommitted);
        // It is asked in the midst of the work whether it is to stop: with nothing latched.
        let met: Arc<Mutex<Option<Attempt<()>>>> = Arc::default();
        let ask = {
            let (met, other, of) = (Arc::clone(&met), other.clone(), table(&other)?);
            move || {
                let mut met = met.lock();
                if met.is_none() {
                    other.statement(StatementKind::PointWrite)?;
                    *met = Some(other.insert(&of, &[DatumRef::Int8(1), DatumRef::Text("another's")])?);
                }
                Ok(())
            }
        };
        tx.set_interrupt(Some(Arc::new(ask)));
        let ids: Vec<i64> = [900].into_iter().chain(1..900).collect();
        let (before, mut done) = (db.stats().rows_inserted_in_runs, 0);
        let Attempt::Wait(wait) = insert_many(&tx, &ids, &mut done)? else { panic!("it did not wait") };
        tx.set_interrupt(None);
        assert_eq!((done, Some(wait.holder())), (0, other.id()));
        assert_eq!(db.stats().rows_inserted_in_runs, before, "what was taken back counts");
        compare(&rows_of(&tx)?, &Rows::new(), "taken back");
        if !is_traditional() {
            match met.lock().take().expect("it was never asked") {
                // Over a deleted one it goes when all before it are in.
                Attempt::Done(()) => assert!(over_deleted),
                Attempt::Wait(met) => {
                    assert!(!over_deleted);
                    assert!(met.wait_timeout(Duration::ZERO), "it sleeps on");
                    insert(&other, 1, "another's")?;
                }
            }
        }
        drop(wait);
        other.commit(Durability::Sync)?.wait()?;
        let outcome = insert_many(&tx, &ids, &mut done);
        assert_eq!(outcome.err().map(|error| error.kind()), Some(ErrorKind::UniqueViolation));
        tx.rollback()?;
        drop(reader);
        db.clean()?;
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// The same with threads: neither is told of a deadlock.
#[test]
fn opposite_orders_are_no_deadlock() -> Result<()> {
    let vfs = SimVfs::new(23);
    let db = open(&vfs, is_traditional())?;
    create(&db)?;
    for round in 0..60 {
        let first = round * 1000;
        let ids: Vec<i64> = [900].into_iter().chain(1..900).map(|id| first + id).collect();
        let other = db.begin(Isolation::ReadCommitted);
        insert(&other, first + 900, "another's")?;
        let (begun, is_begun) = mpsc::channel();
        let kind = std::thread::scope(|scope| -> Result<Option<ErrorKind>> {
            let loading = scope.spawn(|| -> Result<()> {
                let tx = db.begin(Isolation::ReadCommitted);
                let _ = begun.send(());
                let mut done = 0;
                while let Attempt::Wait(wait) = insert_many(&tx, &ids, &mut done)? {
                    assert!(wait.wait_timeout(Duration::from_secs(60)), "it waits for ever");
                }
                Ok(())
            });
            let _ = is_begun.recv();
            std::thread::sleep(Duration::from_micros(round as u64 * 53 % 1500));
            let of = table(&other)?;
            other.statement(StatementKind::PointWrite)?;
            while let Attempt::Wait(wait) =
                other.insert(&of, &[DatumRef::Int8(first + 1), DatumRef::Text("another's")])?
            {
                assert!(wait.wait_timeout(Duration::from_secs(60)), "it waits for what is taken back");
            }
            other.commit(Durability::Sync)?.wait()?;
            Ok(loading.join().expect("a thread").err().map(|error| error.kind()))
        })?;
        assert_eq!(kind, Some(ErrorKind::UniqueViolation), "round {round}");
    }
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

#[test]
fn a_flush_can_be_stopped() -> Result<()> {
    // Each time anew: what is taken back by a rollback is in the way of runs.
    let begin = || -> Result<Database> {
        let db = open(&SimVfs::new(24), is_traditional())?;
        create(&db)?;
        commit(&db, |tx| insert(tx, 5000, &content(5000)))?;
        Ok(db)
    };
    let before = all(&[5000]);
    let given = |first: i64| -> Vec<i64> { [first].into_iter().chain(1..1200).collect() };
    // How often it is asked where all that is put in is taken back again.
    let times = Arc::new(AtomicUsize::new(0));
    let db = begin()?;
    let tx = db.begin(Isolation::ReadCommitted);
    let count = Arc::clone(&times);
    tx.set_interrupt(Some(Arc::new(move || {
        count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    })));
    let outcome = insert_many(&tx, &given(5000), &mut 0);
    assert_eq!(outcome.err().map(|error| error.kind()), Some(ErrorKind::UniqueViolation));
    tx.rollback()?;
    let last = times.load(Ordering::Relaxed);
    assert!(last >= 2, "asked {last} times");
    // At once, later, and, behind a row that is there, while rows are taken back.
    for (asked, first) in [(1, 0), (2, 0), (last, 5000)] {
        if is_traditional() && first == 5000 {
            // Nothing is put in behind it.
            continue;
        }
        let db = begin()?;
        let tx = db.begin(Isolation::ReadCommitted);
        let savepoint = tx.savepoint()?;
        let times = AtomicUsize::new(0);
        let ask = move || match times.fetch_add(1, Ordering::Relaxed) + 1 {
            time if time >= asked => Err(Error::new(ErrorKind::Cancelled, "stopped")),
            _ => Ok(()),
        };
        tx.set_interrupt(Some(Arc::new(ask)));
        let ids = given(first);
        let outcome = insert_many(&tx, &ids, &mut 0);
        tx.set_interrupt(None);
        assert_eq!(outcome.err().map(|error| error.kind()), Some(ErrorKind::Cancelled), "asked {asked} times");
        tx.rollback_to(savepoint)?;
        compare(&rows_of(&tx)?, &before, "back at the savepoint");
        insert(&tx, 6000 + asked as i64, "once more")?;
        tx.rollback()?;
        // Without one it cannot be committed.
        let tx = db.begin(Isolation::ReadCommitted);
        tx.set_interrupt(Some(Arc::new(|| Err(Error::new(ErrorKind::Cancelled, "stopped")))));
        assert!(insert_many(&tx, &ids, &mut 0).is_err());
        assert_eq!(
            tx.commit(Durability::Sync).err().map(|error| error.kind()),
            Some(ErrorKind::InvalidTransactionState)
        );
        drop(tx);
        compare(&rows(&db)?, &before, "afterwards");
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// Who says himself when rows go in has none in before, and may forget those that are not.
#[test]
fn rows_are_kept_until_they_are_to_go_in() -> Result<()> {
    let db = open(&SimVfs::new(25), is_traditional())?;
    create(&db)?;
    commit(&db, |tx| insert(tx, 50, &content(50)))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let of = table(&tx)?;
    tx.statement(StatementKind::BulkWrite)?;
    let mut load = tx.load(&of).keeping(1 << 10, 1 << 10).by_hand();
    let give = |load: &mut Load, ids: std::ops::Range<i64>| -> Result<()> {
        for id in ids {
            assert!(matches!(load.push(&[DatumRef::Int8(id), DatumRef::Text(&content(id))])?, Attempt::Done(())));
        }
        Ok(())
    };
    assert!(!load.is_full() && load.is_empty());
    give(&mut load, 0..200)?;
    assert_eq!((load.is_full(), load.len(), load.inserted()), (true, 200, 0));
    compare(&rows_of(&tx)?, &all(&[50]), "before they are to go in");
    load.forget_behind(40);
    assert_eq!(load.len(), 40);
    tx.statement(StatementKind::BulkWrite)?;
    assert!(matches!(load.flush()?, Attempt::Done(())));
    assert_eq!((load.len(), load.inserted(), load.refused_at()), (0, 40, None));
    let there: Vec<i64> = (0..40).chain([50]).collect();
    compare(&rows_of(&tx)?, &all(&there), "those that were not forgotten");
    tx.statement(StatementKind::BulkWrite)?;
    give(&mut load, 45..60)?;
    assert_eq!(load.flush().err().map(|error| error.kind()), Some(ErrorKind::UniqueViolation));
    assert_eq!((load.refused_at(), id_of(load.refused()), load.inserted()), (Some(5), Some(50), 45));
    tx.commit(Durability::Sync)?.wait()?;
    let there: Vec<i64> = (0..40).chain(45..51).collect();
    compare(&rows(&db)?, &all(&there), "afterwards");
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}
