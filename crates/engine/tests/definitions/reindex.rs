//! Indexes that are written anew: their trees are others, their entries the same, and a rollback or a crash leaves those that
//! were there.

use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs};

use super::alter::{before, filled, nothing_left, open, rows, table};

/// The trees of a table's indexes: `by_n` and `by_both`.
fn trees(db: &Database) -> Result<Vec<String>> {
    let table = table(&db.begin(Isolation::ReadCommitted))?;
    Ok(table.indexes.iter().map(|index| format!("{:?}", index.tree)).collect())
}

/// Which of two lists' trees are others.
fn changed(old: &[String], new: &[String]) -> Vec<bool> {
    assert_eq!(old.len(), new.len());
    old.iter().zip(new).map(|(old, new)| old != new).collect()
}

fn reindex(tx: &Transaction, only: Option<&str>) -> Result<Arc<Table>> {
    tx.reindex(&table(tx)?, only)?.done()
}

fn delete(tx: &Transaction, id: i64) -> Result<()> {
    let table = table(tx)?;
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    tx.delete(&table, &key, Seen::Snapshot)?.done().map(drop)
}

#[test]
fn one_all_and_none() -> Result<()> {
    let vfs = SimVfs::new(1);
    let db = filled(&vfs, 3000)?;
    let first = trees(&db)?;
    let key = table(&db.begin(Isolation::ReadCommitted))?.primary_key_name.clone();
    for (only, expected) in [
        (Some("by_both"), vec![false, true]),
        (Some("by_n"), vec![true, false]),
        (None, vec![true, true]),
        // The rows are the primary key.
        (Some(key.as_str()), vec![true, true]),
    ] {
        let old = trees(&db)?;
        let tx = db.begin(Isolation::ReadCommitted);
        reindex(&tx, only)?;
        tx.rollback()?;
        assert_eq!(trees(&db)?, old, "{only:?}");
        nothing_left(&db, "rolled back")?;

        let tx = db.begin(Isolation::ReadCommitted);
        reindex(&tx, only)?;
        tx.commit(Durability::Sync)?.wait()?;
        assert_eq!(changed(&old, &trees(&db)?), expected, "{only:?}");
        assert_eq!(rows(&db)?, before(3000), "{only:?}");
        nothing_left(&db, "committed")?;
    }
    let tx = db.begin(Isolation::ReadCommitted);
    let error = reindex(&tx, Some("nothing")).expect_err("there is no such index");
    assert_eq!(error.kind(), ErrorKind::UndefinedObject);
    tx.rollback()?;
    assert_eq!(changed(&first, &trees(&db)?), [true; 2]);
    db.close()?;
    let db = open(&vfs)?;
    assert_eq!(rows(&db)?, before(3000));
    nothing_left(&db, "opened again")
}

/// What its transaction did before is in it, and goes back with it.
#[test]
fn beside_other_work() -> Result<()> {
    let vfs = SimVfs::new(2);
    let db = filled(&vfs, 2000)?;
    let tx = db.begin(Isolation::ReadCommitted);
    delete(&tx, 5)?;
    let savepoint = tx.savepoint()?;
    delete(&tx, 6)?;
    reindex(&tx, None)?;
    delete(&tx, 7)?;
    tx.rollback_to(savepoint)?;
    tx.statement(StatementKind::PointWrite)?;
    reindex(&tx, Some("by_n"))?;
    delete(&tx, 8)?;
    tx.commit(Durability::Sync)?.wait()?;
    let mut expected = before(2000);
    expected.remove(8);
    expected.remove(5);
    assert_eq!(rows(&db)?, expected);
    nothing_left(&db, "beside other work")
}

/// Power is lost at some moment of it, of its commit, or of the clean-up after it.
#[test]
fn the_old_or_the_new_after_a_crash() -> Result<()> {
    let (mut old, mut new) = (0, 0);
    for at in (0..).step_by(2) {
        let vfs = SimVfs::new(at);
        let db = filled(&vfs, 800)?;
        while db.write_back()? > 0 {}
        let first = trees(&db)?;
        vfs.set_faults(FaultPlan { crash_after_ops: Some(at + 1), ..FaultPlan::default() });
        let run = || -> Result<()> {
            let tx = db.begin(Isolation::ReadCommitted);
            reindex(&tx, Some("by_both"))?;
            reindex(&tx, None)?;
            // As a busy pool and a checkpoint would have it.
            while db.write_back()? > 0 {}
            db.checkpoint()?;
            tx.commit(Durability::Sync)?.wait()?;
            db.clean()?;
            while db.write_back()? > 0 {}
            db.clean().map(drop)
        };
        let done = run().is_ok();
        drop(db);
        let vfs = vfs.crash();
        let db = open(&vfs)?;
        db.finish_recovery()?;
        assert_eq!(rows(&db)?, before(800), "operation {at}");
        if trees(&db)? == first {
            assert!(!done, "operation {at}: committed, and not there");
            old += 1;
        } else {
            assert_eq!(changed(&first, &trees(&db)?), [true; 2], "operation {at}");
            new += 1;
        }
        nothing_left(&db, &format!("operation {at}"))?;
        if done {
            break; // it came to its end before the power was lost
        }
    }
    assert!(old > 5 && new > 0, "crashes before and after the commit: {old}, {new}");
    Ok(())
}
