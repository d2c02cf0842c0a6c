//! A transaction that is in doubt after a restart blocks its rows and tables, and nothing else.

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::support::*;

const ROWS: i64 = 6000;

/// A large transaction in doubt, and one that the crash cut off beside it.
fn crashed() -> Result<SimVfs> {
    let vfs = SimVfs::new(1);
    let db = open(&vfs)?;
    create(&db)?;
    commit(&db, |tx| (0..2 * ROWS).try_for_each(|id| insert(tx, id, "before")))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let all = table(&tx)?;
    for id in 0..ROWS {
        let row = [DatumRef::Int8(id), DatumRef::Text("in doubt")];
        tx.update(&all, &key_of(&all, id)?, Seen::Snapshot, &row)?.done()?;
    }
    tx.prepare("in doubt", "owner", "database")?.wait()?;
    let cut_off = db.begin(Isolation::ReadCommitted);
    update(&cut_off, ROWS + 1, "cut off")?;
    // Written out, so that a restart has next to nothing to redo.
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    let crashed = vfs.crash();
    std::mem::forget(cut_off);
    Ok(crashed)
}

#[test]
fn its_rows_and_nothing_else() -> Result<()> {
    let db = open(&crashed()?)?;
    // Nothing was done for its rows to be locked: no record of it is read again.
    let recovery = db.recovery();
    assert!(recovery.log_records < 50, "{} log records", recovery.log_records);
    assert_eq!((recovery.transactions_in_doubt, recovery.transactions_aborted), (1, 1));
    let blocked = |id: i64| -> Result<bool> {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = table(&tx)?;
        let row = [DatumRef::Int8(id), DatumRef::Text("later")];
        let attempt = tx.update(&table, &key_of(&table, id)?, Seen::Snapshot, &row)?;
        Ok(matches!(attempt, Attempt::Wait(_)))
    };
    for id in [0, ROWS / 2, ROWS - 1] {
        assert!(blocked(id)?, "row {id} is in doubt");
        assert_eq!(note_of(&db, id)?.as_deref(), Some("before"), "readers wait for nobody");
    }
    for id in [ROWS, ROWS + 1, 2 * ROWS - 1] {
        assert!(!blocked(id)?, "row {id} is not its row");
        assert_eq!(note_of(&db, id)?.as_deref(), Some("before"));
    }
    // The database goes on: rows, definitions, checkpoints, sweeps that forget who aborted, the log.
    commit(&db, |tx| update(tx, ROWS + 1, "after").map(drop))?;
    commit(&db, |tx| {
        let spec = TableSpec::new("public", "other").column("id", ColumnType::Int8).primary_key(&["id"]);
        let other = tx.create_table(spec)?.done()?;
        tx.drop_table(&other)?.done()
    })?;
    let tx = db.begin(Isolation::ReadCommitted);
    assert!(matches!(tx.truncate(&table(&tx)?)?, Attempt::Wait(_)), "its table stays as it is");
    tx.rollback()?;
    db.clean()?;
    assert_eq!(db.stats().transactions.aborted_in_map, 0, "who was cut off is forgotten");
    let lsn = db.prepared()[0].lsn;
    for turn in 0..600 {
        commit(&db, |tx| update(tx, 2 * ROWS - 1, &note(turn, 900)).map(drop))?;
    }
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    assert!(db.log_status().oldest > lsn, "it holds no log");
    db.commit_prepared("in doubt")?.wait()?;
    for id in [0, ROWS - 1] {
        assert!(!blocked(id)?, "it is resolved");
        assert_eq!(note_of(&db, id)?.as_deref(), Some("in doubt"));
    }
    verify(&db, "at last")
}
