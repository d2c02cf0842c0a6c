//! Rows that are taken from an end of a range: each is the one that a reader would see first, and is gone for whom it is to be.

use std::collections::btree_map::Entry;
use std::ops::Bound;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{is_traditional, open, open_recovered, small};
use crate::support::{Rows, commit, compare, create, delete, insert, key_of, note, rows, rows_of, table, update};

/// Takes a row in a statement of its own; what it was.
fn pop(tx: &Transaction, from: Option<i64>, direction: Direction) -> Result<Attempt<Option<(i64, String)>>> {
    let of = table(tx)?;
    let view = tx.statement(StatementKind::PointWrite)?;
    let mut range = KeyRange::all();
    if let Some(from) = from {
        match direction {
            Direction::Forward => range.low = Bound::Included(key_of(&of, from)?),
            Direction::Backward => range.high = Bound::Included(key_of(&of, from)?),
        }
    }
    let mut taken = None;
    let mut take = |row: RawRow<'_>| {
        let (id, note) = (of.column(row, 0).expect("an id"), of.column(row, 1).expect("a note"));
        let (DatumRef::Int8(id), DatumRef::Text(note)) = (id, note) else { panic!("a row of other types") };
        taken = Some((id, note.to_owned()));
        true
    };
    Ok(match tx.pop(&view, &of, &range, direction, &mut take)? {
        Attempt::Wait(wait) => Attempt::Wait(wait),
        Attempt::Done(None) => Attempt::Done(None),
        Attempt::Done(Some(change)) => {
            assert_eq!(change, Change::Done);
            Attempt::Done(taken)
        }
    })
}

struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

/// Pops, insertions and what else there is, in transactions that end in any way, beside snapshots that stay, and a map.
#[test]
fn what_is_taken_is_what_a_reader_would_see_first() -> Result<()> {
    for seed in 0..8 {
        let mut rng = Rng(seed * 31 + 5);
        let vfs = SimVfs::new(seed);
        let db = open(&vfs, is_traditional())?;
        create(&db)?;
        let first: Rows = (0..900).map(|id| (id, note(id, 20 + id as usize % 40))).collect();
        commit(&db, |tx| first.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
        let mut model = first;
        let mut old: Option<(Transaction, Rows)> = None;
        for round in 0..60 {
            match &old {
                None if rng.below(4) == 0 => {
                    let reader = db.begin(Isolation::RepeatableRead);
                    compare(&rows_of(&reader)?, &model, "a new reader's");
                    old = Some((reader, model.clone()));
                }
                Some((reader, then)) => {
                    compare(&rows_of(reader)?, then, "an old reader's");
                    if rng.below(4) == 0 {
                        old = None;
                    }
                }
                None => {}
            }
            let isolation = if rng.below(3) == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
            let tx = db.begin(isolation);
            let mut own = model.clone();
            let mut saved: Option<(Savepoint, Rows)> = None;
            for _ in 0..rng.below(60) {
                let what = format!("seed {seed}, round {round}");
                match rng.below(20) {
                    0..=13 => {
                        let direction = if rng.below(5) == 0 { Direction::Backward } else { Direction::Forward };
                        let from = (rng.below(6) == 0).then(|| rng.below(900) as i64);
                        let wanted = match (direction, from) {
                            (Direction::Forward, from) => own.range(from.unwrap_or(0)..).next(),
                            (Direction::Backward, from) => own.range(..=from.unwrap_or(i64::MAX)).next_back(),
                        };
                        let wanted = wanted.map(|(id, note)| (*id, note.clone()));
                        let taken = pop(&tx, from, direction)?.done()?;
                        assert_eq!(taken, wanted, "{what}: from {from:?} {direction:?}");
                        if let Some((id, _)) = taken {
                            own.remove(&id);
                        }
                    }
                    14..=15 => {
                        let id = rng.below(900) as i64;
                        if let Entry::Vacant(place) = own.entry(id) {
                            let text = note(id + round, 30);
                            tx.statement(StatementKind::PointWrite)?;
                            insert(&tx, id, &text)?;
                            place.insert(text);
                        }
                    }
                    16 => {
                        if let Some(id) = own.keys().next().copied() {
                            assert_eq!(update(&tx, id, "changed")?, Change::Done, "{what}");
                            own.insert(id, "changed".to_owned());
                        }
                    }
                    17 => {
                        let id = rng.below(900) as i64;
                        if own.remove(&id).is_some() {
                            assert_eq!(delete(&tx, id)?, Change::Done, "{what}");
                        }
                    }
                    18 => saved = Some((tx.savepoint()?, own.clone())),
                    _ => {
                        if let Some((savepoint, then)) = &saved {
                            tx.rollback_to(*savepoint)?;
                            own = then.clone();
                        }
                    }
                }
            }
            compare(&rows_of(&tx)?, &own, "its own");
            if rng.below(3) == 0 {
                tx.rollback()?;
            } else {
                tx.commit(Durability::Sync)?.wait()?;
                model = own;
            }
            compare(&rows(&db)?, &model, "afterwards");
            if rng.below(10) == 0 {
                db.clean()?;
            }
        }
        drop(old);
        db.clean()?;
        compare(&rows(&db)?, &model, "cleaned");
        assert_eq!(db.verify()?, Vec::<String>::new());
        let db = open_recovered(&vfs.crash(), small(is_traditional()))?;
        compare(&rows(&db)?, &model, "after a crash");
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn a_row_that_somebody_holds_is_waited_for() -> Result<()> {
    let vfs = SimVfs::new(3);
    let db = open(&vfs, is_traditional())?;
    create(&db)?;
    commit(&db, |tx| (0..50).try_for_each(|id| insert(tx, id, "there")))?;
    let holder = db.begin(Isolation::ReadCommitted);
    assert_eq!(pop(&holder, None, Direction::Forward)?.done()?.map(|(id, _)| id), Some(0));
    let tx = db.begin(Isolation::ReadCommitted);
    let Attempt::Wait(wait) = pop(&tx, None, Direction::Forward)? else { panic!("it did not wait") };
    assert_eq!(Some(wait.holder()), holder.id());
    drop(wait);
    holder.commit(Durability::Sync)?.wait()?;
    assert_eq!(pop(&tx, None, Direction::Forward)?.done()?.map(|(id, _)| id), Some(1));
    // Of one that is refused nothing happens.
    let of = table(&tx)?;
    let view = tx.statement(StatementKind::PointWrite)?;
    assert_eq!(tx.pop(&view, &of, &KeyRange::all(), Direction::Forward, &mut |_| false)?.done()?, None);
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(rows(&db)?.len(), 48);
    Ok(())
}

/// Who decides about a row may take its time: others read its leaf meanwhile.
#[test]
fn nothing_is_latched_while_it_is_decided() -> Result<()> {
    let vfs = SimVfs::new(4);
    let db = open(&vfs, is_traditional())?;
    create(&db)?;
    commit(&db, |tx| (0..50).try_for_each(|id| insert(tx, id, "there")))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let of = table(&tx)?;
    let view = tx.statement(StatementKind::PointWrite)?;
    let mut take = |_: RawRow<'_>| {
        let (sender, receiver) = std::sync::mpsc::channel();
        let db = db.clone();
        // It is not waited for where it does not come back.
        std::thread::spawn(move || sender.send(rows(&db).map(|rows| rows.len()).ok()));
        let seen = receiver.recv_timeout(std::time::Duration::from_secs(60));
        assert_eq!(seen.expect("the leaf is latched"), Some(50));
        true
    };
    assert_eq!(tx.pop(&view, &of, &KeyRange::all(), Direction::Forward, &mut take)?.done()?, Some(Change::Done));
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(rows(&db)?.len(), 49);
    Ok(())
}

/// The row goes while it is decided about: the next one is taken, if it is wanted.
#[test]
fn a_row_that_is_changed_meanwhile_is_decided_about_again() -> Result<()> {
    let vfs = SimVfs::new(5);
    let db = open(&vfs, is_traditional())?;
    create(&db)?;
    commit(&db, |tx| (0..50).try_for_each(|id| insert(tx, id, "there")))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let of = table(&tx)?;
    let view = tx.statement(StatementKind::PointWrite)?;
    let mut asked = 0;
    let mut take = |_: RawRow<'_>| {
        asked += 1;
        if asked == 1 {
            commit(&db, |tx| delete(tx, 0).map(drop)).expect("a deletion");
        }
        true
    };
    let popped = tx.pop(&view, &of, &KeyRange::all(), Direction::Forward, &mut take)?.done()?;
    // Its snapshot still sees the row: as if it had met it so.
    assert_eq!(popped, Some(Change::Gone));
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(rows(&db)?.len(), 49);
    Ok(())
}
