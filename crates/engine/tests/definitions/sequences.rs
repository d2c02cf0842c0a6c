//! Values of sequences: never given out twice, whatever is rolled back or lost in a crash.

use std::collections::HashSet;
use std::sync::Mutex;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::ascending;
use crate::common::open::{open_as, small};

fn open(vfs: &SimVfs, traditional: bool, background: bool) -> Result<Database> {
    open_as(vfs, Options { background, ..small(traditional) })
}

fn make(db: &Database, name: &str) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    tx.create_sequence("public", name, ascending())?.done()?;
    tx.commit(Durability::Sync)?.wait()
}

/// A value, in a transaction that commits it and writes nothing.
fn committed(db: &Database) -> Result<i64> {
    let tx = db.begin(Isolation::ReadCommitted);
    let s = tx.sequence_named("public", "s")?.expect("made");
    let value = tx.next_value(&s)?;
    tx.commit(Durability::Sync)?.wait()?;
    Ok(value)
}

/// After a crash at any moment no committed value comes again; what a stride is lost is no more than a stride.
#[test]
fn no_value_comes_again_after_a_crash() -> Result<()> {
    for traditional in [false, true] {
        let mut vfs = SimVfs::new(7);
        make(&open(&vfs, traditional, false)?, "s")?;
        let mut highest = 0;
        for round in 1..=20u64 {
            let db = open(&vfs, traditional, false)?;
            for _ in 0..round * 4 {
                let value = committed(&db)?;
                assert!(value > highest, "{value} after {highest}, round {round}, traditional {traditional}");
                // (The second record of a round is for twice as many.)
                assert!(value <= highest + 34 + 64, "{value} after {highest}: more than a stride is lost");
                highest = value;
            }
            // Rolled back with its transaction, and still not given out again.
            let tx = db.begin(Isolation::ReadCommitted);
            let s = tx.sequence_named("public", "s")?.expect("made");
            let value = tx.next_value(&s)?;
            assert!(value > highest);
            tx.rollback()?;
            assert_eq!(committed(&db)?, value + 1);
            highest = value + 1;
            vfs = vfs.crash_clone(round);
        }
    }
    Ok(())
}

/// A clean close loses none of what was logged ahead; nor does a crash behind it bring a value back.
#[test]
fn a_clean_close_skips_no_value() -> Result<()> {
    for traditional in [false, true] {
        for background in [false, true] {
            let mut vfs = SimVfs::new(23);
            make(&open(&vfs, traditional, false)?, "s")?;
            let mut last = 0;
            for round in 1..=6u64 {
                let db = open(&vfs, traditional, background)?;
                // In a hurry in the end, so that hundreds are logged ahead.
                for _ in 0..[1, 3, 33, 40, 1000, 3000][round as usize - 1] {
                    assert_eq!(committed(&db)?, last + 1, "round {round}, traditional {traditional}");
                    last += 1;
                }
                // One that is open at the end has its value, and one that is dropped has no row to be written.
                let tx = db.begin(Isolation::ReadCommitted);
                let s = tx.sequence_named("public", "s")?.expect("made");
                assert_eq!(tx.next_value(&s)?, last + 1);
                last += 1;
                make(&db, "dropped")?;
                let dropper = db.begin(Isolation::ReadCommitted);
                let dropped = dropper.sequence_named("public", "dropped")?.expect("made");
                dropper.next_value(&dropped)?;
                dropper.drop_sequence(&dropped)?.done()?;
                dropper.commit(Durability::Sync)?.wait()?;
                drop(tx);
                db.close()?;
                drop(db);
                vfs = if round % 2 == 0 { vfs.crash_clone(round) } else { vfs };
                let db = open(&vfs, traditional, false)?;
                let problems = db.verify()?;
                assert!(problems.is_empty(), "{problems:?}");
                drop(db);
                vfs = vfs.crash_clone(round + 100);
            }
        }
    }
    Ok(())
}

/// The definition goes with its transaction, and another of that name begins anew.
#[test]
fn a_definition_is_rolled_back() -> Result<()> {
    let vfs = SimVfs::new(3);
    let db = open(&vfs, false, false)?;
    for _ in 0..3 {
        let tx = db.begin(Isolation::ReadCommitted);
        let s = tx.create_sequence("public", "s", ascending())?.done()?;
        assert_eq!((tx.next_value(&s)?, tx.next_value(&s)?), (1, 2));
        tx.rollback()?;
        assert!(db.begin(Isolation::ReadCommitted).sequence_named("public", "s")?.is_none());
    }
    let db = open(&vfs.crash_clone(1), false, false)?;
    make(&db, "s")?;
    assert_eq!(committed(&db)?, 1);
    // RESTART, rolled back and not.
    for (commits, next) in [(false, 2), (true, 1)] {
        let tx = db.begin(Isolation::ReadCommitted);
        let s = tx.sequence_named("public", "s")?.expect("made");
        let s = tx.replace_sequence(&s, ascending(), true)?.done()?;
        if commits {
            tx.commit(Durability::Sync)?.wait()?;
        } else {
            assert_eq!(tx.next_value(&s)?, 1);
            tx.rollback()?;
        }
        assert_eq!(committed(&db)?, next);
    }
    let problems = db.verify()?;
    assert!(problems.is_empty(), "{problems:?}");
    Ok(())
}

/// Another definition of a sequence that goes on where it is.
fn with_increment(tx: &Transaction, increment: i64) -> Result<()> {
    let s = tx.sequence_named("public", "s")?.expect("made");
    let state = tx.sequence_state(&s)?;
    let to = Sequence { increment, begin: state.last, begin_called: state.called, ..ascending() };
    tx.replace_sequence(&s, to, false)?.done()?;
    Ok(())
}

/// A sequence with another increment gives out no value again, after a crash either: what was logged ahead for the one
/// definition is not enough for the other. Nor does it while some see the one and some the other.
#[test]
fn no_value_comes_again_under_another_definition() -> Result<()> {
    let mut vfs = SimVfs::new(11);
    make(&open(&vfs, false, false)?, "s")?;
    let mut seen = HashSet::new();
    let mut take = |value: i64| assert!(seen.insert(value), "{value} again");
    for round in 1..=10u64 {
        let db = open(&vfs, false, false)?;
        take(committed(&db)?);
        take(committed(&db)?);
        let tx = db.begin(Isolation::ReadCommitted);
        with_increment(&tx, if round % 2 == 0 { 1 } else { 100 })?;
        let s = tx.sequence_named("public", "s")?.expect("made");
        for _ in 0..round {
            take(tx.next_value(&s)?);
            // With the definition that others still see.
            take(committed(&db)?);
        }
        if round % 3 == 0 {
            tx.rollback()?;
        } else {
            tx.commit(Durability::Sync)?.wait()?;
        }
        for _ in 0..round % 4 {
            take(committed(&db)?);
        }
        vfs = vfs.crash_clone(round);
    }
    Ok(())
}

#[test]
fn threads_never_get_the_same_value() -> Result<()> {
    let vfs = SimVfs::new(5);
    let db = open(&vfs, false, true)?;
    make(&db, "s")?;
    let seen = Mutex::new(HashSet::new());
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let value = committed(&db).expect("a value");
                    assert!(seen.lock().expect("unpoisoned").insert(value), "{value} twice");
                }
            });
        }
    });
    assert_eq!(seen.lock().expect("unpoisoned").len(), 2000);
    Ok(())
}

/// One that is asked for many values at once has more of them in a record, and the record before they are needed; after a crash it goes on behind
/// them, and not far. At its end it ends.
#[test]
fn a_sequence_in_a_hurry() -> Result<()> {
    let mut vfs = SimVfs::new(17);
    make(&open(&vfs, false, false)?, "s")?;
    let mut last = 0;
    let mut most = 0;
    for round in 1..=6u64 {
        let db = open(&vfs, false, false)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let s = tx.sequence_named("public", "s")?.expect("made");
        let first = tx.next_value(&s)?;
        assert!((last + 1..=last + 1 + LOGGED_AHEAD_MAX * 3 / 2).contains(&first), "{first} after {last}");
        last = first;
        for _ in 0..1000 * round {
            let value = tx.next_value(&s)?;
            assert_eq!(value, last + 1);
            last = value;
            most = most.max(tx.sequence_state(&s)?.ahead);
        }
        // Whoever commits it waits for the log that has it.
        tx.commit(Durability::Sync)?.wait()?;
        vfs = vfs.crash_clone(round);
    }
    assert!((LOGGED_AHEAD + 1..=LOGGED_AHEAD_MAX * 3 / 2).contains(&most), "{most}");
    let db = open(&vfs, false, false)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let ends = Sequence { max: 5000, ..ascending() };
    let s = tx.create_sequence("public", "ends", ends)?.done()?;
    for value in 1..=5000 {
        assert_eq!(tx.next_value(&s)?, value);
    }
    assert_eq!(tx.next_value(&s).err().map(|error| error.kind()), Some(ErrorKind::SequenceLimit));
    tx.commit(Durability::Sync)?.wait()
}
