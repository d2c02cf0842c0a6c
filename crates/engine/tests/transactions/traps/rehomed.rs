//! A writer that overwrites an aborted version links to the committed one, which the aborted
//! transaction had pushed off-row. It must be pushed again under the writer's own id: the
//! page where it lies is freed when the aborted transaction is forgotten.

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::support::*;

fn off_row() -> Options {
    let versions = VersionCaps { in_row: false, ..VersionCaps::default() };
    Options { versions, ..options() }
}

/// Rows whose committed versions are off-row under aborted ones, overwritten by a
/// transaction that is still open; then sweeps until the aborted transaction's own
/// version pages are gone.
fn overwritten(vfs: &SimVfs) -> Result<(Database, Transaction, Rows)> {
    let db = open_as(vfs, off_row())?;
    create(&db)?;
    let expected: Rows = (0..40).map(|id| (id, note(id, 700))).collect();
    commit(&db, |tx| expected.iter().try_for_each(|(id, note)| insert(tx, *id, note)))?;
    db.clean()?;
    let aborted = db.begin(Isolation::ReadCommitted);
    for id in 0..40 {
        assert_eq!(update(&aborted, id, "aborted")?, Change::Done);
    }
    aborted.rollback()?;
    let writer = db.begin(Isolation::ReadCommitted);
    for id in 0..40 {
        assert_eq!(update(&writer, id, "newer")?, Change::Done);
    }
    let (mut freed, mut forgotten) = (0, 0);
    for round in 0..6 {
        commit(&db, |tx| insert(tx, 1000 + round, "moves the horizon"))?;
        writer.statement(StatementKind::Read)?; // with a snapshot of now
        let report = db.clean()?;
        freed += report.version_pages_freed;
        forgotten += report.forgotten;
    }
    assert_eq!(forgotten, 1, "the aborted transaction is forgotten");
    assert!(freed > 2, "{freed} of its version pages were freed");
    let mut expected = expected;
    expected.extend((0..6).map(|round| (1000 + round, "moves the horizon".to_owned())));
    Ok((db, writer, expected))
}

#[test]
fn others_still_read_it() -> Result<()> {
    let vfs = SimVfs::new(1);
    let (db, writer, expected) = overwritten(&vfs)?;
    compare(&rows(&db)?, &expected, "while the writer is active");
    writer.commit(Durability::Sync)?.wait()?;
    assert!((0..40).all(|id| note_of(&db, id).is_ok_and(|note| note.as_deref() == Some("newer"))));
    verify(&db, "after its commit")
}

#[test]
fn a_snapshot_still_reads_it_after_the_writer_committed() -> Result<()> {
    let vfs = SimVfs::new(2);
    let (db, writer, expected) = overwritten(&vfs)?;
    let reader = db.begin(Isolation::RepeatableRead);
    compare(&rows_of(&reader)?, &expected, "before the commit");
    writer.commit(Durability::Sync)?.wait()?;
    for round in 0..6 {
        commit(&db, |tx| update(tx, 1000, &note(round, 100)).map(|_| ()))?;
        db.clean()?;
    }
    compare(&rows_of(&reader)?, &expected, "after the commit and sweeps");
    Ok(())
}

#[test]
fn the_writer_rolls_back_to_it() -> Result<()> {
    let vfs = SimVfs::new(3);
    let (db, writer, mut expected) = overwritten(&vfs)?;
    writer.rollback()?;
    compare(&rows(&db)?, &expected, "after its rollback");
    // Once more over the aborted version, then a rollback by power loss.
    let again = db.begin(Isolation::ReadCommitted);
    for id in 0..40 {
        assert_eq!(update(&again, id, "newest")?, Change::Done);
    }
    for round in 6..12 {
        commit(&db, |tx| insert(tx, 1000 + round, "moves the horizon"))?;
        expected.insert(1000 + round, "moves the horizon".into());
        again.statement(StatementKind::Read)?;
        db.clean()?;
    }
    compare(&rows(&db)?, &expected, "while the second writer is active");
    let vfs = vfs.crash();
    drop((again, db));
    let db = open_as(&vfs, off_row())?;
    compare(&rows(&db)?, &expected, "after the power loss");
    db.finish_recovery()?;
    for _ in 0..3 {
        commit(&db, |tx| update(tx, 1000, "moves the horizon").map(|_| ()))?;
        db.clean()?;
    }
    compare(&rows(&db)?, &expected, "after the last sweep");
    verify(&db, "at last")
}
