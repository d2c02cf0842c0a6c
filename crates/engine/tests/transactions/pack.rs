//! Rows of partly free pages are put together on fewer, with their versions, whatever happens meanwhile.

use crate::give_back::{LEN, data_bytes, expected, fill, large, remove};
use crate::support::*;
use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs};

const ROWS: i64 = 6000;

fn even() -> impl Iterator<Item = i64> {
    (0..ROWS).step_by(2)
}

/// Every second row goes: about half of the file does, though no page became empty.
#[test]
fn where_every_second_row_was_deleted_pages_go() -> Result<()> {
    let sim = SimVfs::new(1);
    let db = open_as(&sim, large())?;
    create(&db)?;
    fill(&db, 0..ROWS)?;
    remove(&db, (0..ROWS).filter(|id| id % 2 == 1))?;
    let before = data_bytes(&sim)?;
    // An old snapshot reads what it saw, through a walk that is under way.
    let old = db.begin(Isolation::RepeatableRead);
    let t = table(&old)?;
    let view = old.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&t, KeyRange::all(), Direction::Forward);
    let mut batch = RowBatch::default();
    let mut seen = 0;
    while seen < 1000 {
        batch.clear();
        assert!(cursor.next_batch(&mut batch, 100)?);
        seen += batch.len();
    }
    let report = db.clean()?;
    assert!(report.packed * 8 > ROWS as u64 / 4, "{report:?}");
    assert!(report.merged >= report.packed);
    assert_eq!(db.stats().pool.leaves_packed, report.packed);
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 100)? {
            break;
        }
        seen += batch.len();
    }
    assert_eq!(seen as i64, ROWS / 2, "by a cursor that was under way");
    compare(&rows_of(&old)?, &expected(even()), "an old snapshot");
    drop((cursor, view, old));
    let after = data_bytes(&sim)?;
    assert!(after * 100 < before * 65, "{before} bytes, then {after}: {report:?}");
    compare(&rows(&db)?, &expected(even()), "packed");
    verify(&db, "packed")?;
    let again = db.clean()?;
    assert!(again.packed < 10, "the second time there is nothing to do: {again:?}");
    db.evict_pages();
    drop(db);
    let db = open_as(&sim.crash(), large())?;
    verify(&db, "after a crash")?;
    compare(&rows(&db)?, &expected(even()), "after a crash");
    // Pages have room for rows that come back.
    fill(&db, -ROWS..0)?;
    commit(&db, |tx| (0..ROWS).filter(|id| id % 2 == 1).try_for_each(|id| insert(tx, id, &note(id, LEN))))?;
    compare(&rows(&db)?, &expected(-ROWS..ROWS), "grown again");
    verify(&db, "grown again")
}

/// Rows move with versions that somebody needs: of an older snapshot, of who was rolled back, of who is not done.
#[test]
fn versions_move_with_their_rows() -> Result<()> {
    let sim = SimVfs::new(2);
    let db = open_as(&sim, large())?;
    create(&db)?;
    fill(&db, 0..ROWS)?;
    remove(&db, (0..ROWS).filter(|id| id % 2 == 1))?;
    let old = db.begin(Isolation::RepeatableRead);
    compare(&rows_of(&old)?, &expected(even()), "before");
    commit(&db, |tx| even().filter(|id| id % 14 == 0).try_for_each(|id| update(tx, id, "changed").map(drop)))?;
    commit(&db, |tx| even().filter(|id| id % 22 == 0).try_for_each(|id| delete(tx, id).map(drop)))?;
    let aborted = db.begin(Isolation::ReadCommitted);
    even().filter(|id| id % 26 == 0 && id % 22 > 0).try_for_each(|id| update(&aborted, id, "aborted").map(drop))?;
    aborted.rollback()?;
    let open = db.begin(Isolation::ReadCommitted);
    even().filter(|id| id % 34 == 0 && id % 22 > 0).try_for_each(|id| update(&open, id, "not done").map(drop))?;
    let packed = db.pack()?;
    assert!(packed > 100, "{packed} leaves went");
    let mut now = expected(even());
    now.iter_mut().filter(|(id, _)| **id % 14 == 0).for_each(|(_, note)| *note = "changed".to_owned());
    now.retain(|id, _| id % 22 > 0);
    compare(&rows(&db)?, &now, "the newest");
    compare(&rows_of(&old)?, &expected(even()), "the old snapshot");
    verify(&db, "packed")?;
    // What is on pages that got versions is cleaned later, and the aborted one is forgotten.
    open.rollback()?;
    drop(old);
    for round in 0..3 {
        commit(&db, |tx| insert(tx, -1 - round, "moves the horizon"))?;
        commit(&db, |tx| delete(tx, -1 - round).map(drop))?;
        db.clean()?;
    }
    assert_eq!(db.stats().transactions.aborted_in_map, 0);
    compare(&rows(&db)?, &now, "cleaned");
    verify(&db, "cleaned")?;
    drop(db);
    let db = open_as(&sim.crash(), large())?;
    compare(&rows(&db)?, &now, "after a crash");
    verify(&db, "after a crash")
}

/// Power is lost at any of the steps.
#[test]
fn a_loss_of_power_on_the_way_does_no_harm() -> Result<()> {
    let base = SimVfs::new(3);
    // Little memory: pages are read and written on the way.
    let small = || Options { buffer_bytes: 1 << 20, ..large() };
    let db = open_as(&base, small())?;
    create(&db)?;
    fill(&db, 0..ROWS)?;
    remove(&db, (0..ROWS).filter(|id| id % 2 == 1))?;
    db.checkpoint()?;
    let mut met = 0;
    for at in (1..400).step_by(7) {
        let sim = base.crash_clone(at);
        let db = open_as(&sim, small())?;
        db.finish_recovery()?;
        sim.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
        let outcome = db.clean();
        if outcome.is_ok() && !sim.power_lost() {
            break;
        }
        met += 1;
        drop(db);
        let sim = sim.crash();
        let db = open_as(&sim, small())?;
        verify(&db, &format!("power lost at {at}"))?;
        compare(&rows(&db)?, &expected(even()), &format!("power lost at {at}"));
        db.clean()?;
        verify(&db, &format!("power lost at {at}, and cleaned"))?;
        compare(&rows(&db)?, &expected(even()), &format!("power lost at {at}, and cleaned"));
    }
    assert!(met > 10, "power was lost {met} times only");
    Ok(())
}

/// Who cancels it keeps what was done.
#[test]
fn it_ends_when_it_is_told_to() -> Result<()> {
    let sim = SimVfs::new(4);
    let db = open_as(&sim, large())?;
    create(&db)?;
    fill(&db, 0..ROWS)?;
    remove(&db, (0..ROWS).filter(|id| id % 2 == 1))?;
    let asked = std::sync::atomic::AtomicU32::new(0);
    let some = db.pack_unless(&|| asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= 40)?;
    let rest = db.pack()?;
    assert!(some < 60 && rest > 100, "{some} leaves, then {rest}");
    compare(&rows(&db)?, &expected(even()), "packed in two parts");
    verify(&db, "packed in two parts")
}
