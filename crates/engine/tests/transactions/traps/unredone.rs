//! Power is lost again before all pages were redone. What a checkpoint says in between must
//! include the pages that still await redo.

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs, Vfs};
use std::path::Path;

use crate::support::*;

/// A disk after a power loss that hit `rows` committed rows, none of which is in the data
/// file as it should be.
fn crashed(seed: u64, rows: i64) -> Result<(SimVfs, Rows)> {
    let vfs = SimVfs::new(seed);
    let options = Options { buffer_bytes: 4 << 20, ..options() };
    let db = open_as(&vfs, options.clone())?;
    create(&db)?;
    db.close()?;
    drop(db);
    let db = open_as(&vfs, options)?;
    let expected: Rows = (0..rows).map(|id| (id, note(id, 700))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    Ok((vfs.crash(), expected))
}

/// Several losses in a row, some pages redone each time, a checkpoint each time, and enough
/// log that the one before it is given up.
#[test]
fn losses_in_a_row() -> Result<()> {
    let (mut vfs, mut expected) = crashed(1, 300)?;
    let mut given_up = 0;
    for round in 0..6i64 {
        let db = open(&vfs)?;
        assert!(db.recovery().pages_to_redo > 10, "round {round}: {} pages to redo", db.recovery().pages_to_redo);
        let id = round * 17;
        assert_eq!(note_of(&db, id)?, expected.get(&id).cloned(), "round {round}");
        db.checkpoint()?;
        // Much work on one page, written out, so that only the rest holds the log.
        for turn in 0..300 {
            let text = note(round * 1000 + turn, 700);
            commit(&db, |tx| update(tx, 299, &text).map(|_| ()))?;
            expected.insert(299, text);
        }
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        given_up = db.log_status().oldest.0;
        assert!(db.stats().pages_awaiting_redo > 10, "round {round}: pages still await redo");
        vfs = vfs.crash();
    }
    let db = open(&vfs)?;
    compare(&rows(&db)?, &expected, "at last");
    verify(&db, "at last")?;
    // With everything redone and written the log that they held can go.
    while db.write_back()? > 0 {}
    for turn in 0..300 {
        commit(&db, |tx| update(tx, 299, &note(turn, 700)).map(|_| ()))?;
    }
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    assert!(db.log_status().oldest.0 > given_up, "the log was held for pages that awaited redo");
    Ok(())
}

/// Power is lost at every step of recovery and of what follows, and again at the same step
/// of the recovery from that, and again.
#[test]
fn a_loss_at_every_step() -> Result<()> {
    let (start, expected) = crashed(2, 120)?;
    let work = |db: &Database| -> Result<()> {
        for id in [0, 60, 119] {
            assert_eq!(note_of(db, id)?, expected.get(&id).cloned());
        }
        db.checkpoint()?;
        db.write_back()?;
        note_of(db, 30)?;
        db.checkpoint()?;
        db.clean()?;
        db.finish_recovery()?;
        db.write_back()?;
        db.checkpoint()
    };
    let mut finished = false;
    for step in 1.. {
        let mut vfs = start.fork(step);
        let mut through = 0;
        for _ in 0..4 {
            vfs.set_faults(FaultPlan { crash_after_ops: Some(step), ..FaultPlan::default() });
            through += u64::from(open(&vfs).and_then(|db| work(&db)).is_ok());
            vfs = vfs.crash();
        }
        let db = open(&vfs)?;
        compare(&rows(&db)?, &expected, &format!("power lost at step {step}"));
        verify(&db, &format!("power lost at step {step}"))?;
        if through > 0 {
            finished = true;
            break;
        }
        assert!(step < 2000, "the work ends");
    }
    assert!(finished);
    Ok(())
}

/// A page that recovery finds current may be so in the system's cache only: it counts as
/// dirty and holds the log until it was written and synced.
#[test]
fn pages_that_look_current_hold_the_log() -> Result<()> {
    let vfs = SimVfs::new(3);
    let db = open(&vfs)?;
    create(&db)?;
    let expected: Rows = (0..200).map(|id| (id, note(id, 700))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    // Written in place, and the last batch not synced; then the process is killed. Without
    // the double-write area, which would repair the same pages, the log alone is left.
    while db.write_back()? > 0 {}
    let vfs = vfs.kill();
    vfs.remove(&Path::new(DIR).join("doublewrite"))?;
    vfs.sync_dir(Path::new(DIR))?;
    drop(db);
    let db = open(&vfs)?;
    compare(&rows(&db)?, &expected, "after the kill");
    db.checkpoint()?;
    db.checkpoint()?;
    let vfs = vfs.crash();
    drop(db);
    let db = open(&vfs)?;
    compare(&rows(&db)?, &expected, "after the power loss");
    verify(&db, "after the power loss")
}
