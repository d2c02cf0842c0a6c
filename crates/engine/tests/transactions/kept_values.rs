//! Updates that leave a large value as it is do not write it anew, and the value lives as long as a version that has
//! it: through rollbacks, savepoints, the cleaner, statements that are taken back, restarts and power losses.

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs};

use crate::support::*;

const LONG: usize = 20_000;

/// id, n (unique), note (large).
fn made(seed: u64, traditional: bool) -> Result<(SimVfs, Database)> {
    let vfs = SimVfs::new(seed);
    let db = open_in(&vfs, traditional)?;
    commit(&db, |tx| {
        let spec = TableSpec::new("public", "t")
            .column("id", ColumnType::Int8)
            .column("n", ColumnType::Int8)
            .column("note", ColumnType::Text)
            .primary_key(&["id"]);
        let table = tx.create_table(spec)?.done()?;
        let on_n = IndexSpec {
            name: "n".into(),
            columns: vec![1],
            orders: Vec::new(),
            unique: true,
            constraint: false,
            nulls_alike: false,
            deferral: Deferral::Never,
        };
        tx.create_index(&table, on_n)?.done().map(|_| ())
    })?;
    commit(&db, |tx| (0..4).try_for_each(|id| put_in(tx, id, id, &note(id, LONG))))?;
    Ok((vfs, db))
}

fn open_in(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    open_as(vfs, Options { accelerated_database_recovery: !traditional, ..options() })
}

fn put_in(tx: &Transaction, id: i64, n: i64, note: &str) -> Result<()> {
    tx.insert(&table(tx)?, &[DatumRef::Int8(id), DatumRef::Int8(n), DatumRef::Text(note)])?.done()
}

fn set_as(tx: &Transaction, kind: StatementKind, id: i64, to: i64, n: i64, note: &str) -> Result<Change> {
    let table = table(tx)?;
    tx.statement(kind)?;
    let row = [DatumRef::Int8(to), DatumRef::Int8(n), DatumRef::Text(note)];
    tx.update(&table, &key_of(&table, id)?, Seen::Snapshot, &row)?.done()
}

fn set(tx: &Transaction, id: i64, n: i64, note: &str) -> Result<()> {
    assert_eq!(set_as(tx, StatementKind::PointWrite, id, id, n, note)?, Change::Done);
    Ok(())
}

/// `n`, and the note's first bytes and length.
fn seen_by(tx: &Transaction, id: i64) -> Result<Option<(i64, String)>> {
    let table = table(tx)?;
    let view = tx.statement(StatementKind::Read)?;
    let mut row = RowBuf::default();
    if !view.get(&table, &key_of(&table, id)?, &mut row)? {
        return Ok(None);
    }
    let DatumRef::Int8(n) = table.column(row.raw(), 1)? else { return Err(Error::internal("n is no number")) };
    let text = match table.column(row.raw(), 2)? {
        DatumRef::Text(text) => text.to_owned(),
        DatumRef::External(reference) => String::from_utf8_lossy(&view.read_external(reference)?).into_owned(),
        _ => return Err(Error::internal("the note is no text")),
    };
    Ok(Some((n, text)))
}

fn seen(db: &Database, id: i64) -> Result<Option<(i64, String)>> {
    seen_by(&db.begin(Isolation::ReadCommitted), id)
}

/// Bytes of log that `work` writes.
fn logged(db: &Database, work: impl FnOnce() -> Result<()>) -> Result<u64> {
    let before = db.stats().log.record_bytes;
    work()?;
    Ok(db.stats().log.record_bytes - before)
}

fn clean(db: &Database, what: &str) -> Result<()> {
    for _ in 0..3 {
        db.clean()?;
    }
    verify(db, what)
}

fn in_both_modes(test: impl Fn(bool) -> Result<()>) -> Result<()> {
    test(false)?;
    test(true)
}

#[test]
fn it_is_not_written_anew() -> Result<()> {
    in_both_modes(|traditional| {
        let (_, db) = made(1, traditional)?;
        let bytes = logged(&db, || commit(&db, |tx| set(tx, 1, 100, &note(1, LONG))))?;
        assert!(bytes < 1500, "{bytes} bytes of log");
        assert_eq!(seen(&db, 1)?, Some((100, note(1, LONG))));
        // Also to another key, by a statement of many rows, and in a transaction that has written it.
        let bytes = logged(&db, || {
            commit(&db, |tx| {
                assert_eq!(set_as(tx, StatementKind::BulkWrite, 1, 50, 100, &note(1, LONG))?, Change::Done);
                set(tx, 50, 101, &note(1, LONG))
            })
        })?;
        assert!(bytes < 4000, "{bytes} bytes of log");
        assert_eq!((seen(&db, 1)?, seen(&db, 50)?), (None, Some((101, note(1, LONG)))));
        // One that differs in its last byte, or in its length, is.
        let mut other = note(1, LONG - 1);
        other.push('!');
        let bytes = logged(&db, || commit(&db, |tx| set(tx, 50, 102, &other)))?;
        assert!(bytes > LONG as u64, "{bytes} bytes of log");
        assert_eq!(seen(&db, 50)?, Some((102, other)));
        commit(&db, |tx| set(tx, 50, 102, &note(1, LONG + 1)))?;
        assert_eq!(seen(&db, 50)?, Some((102, note(1, LONG + 1))));
        clean(&db, "updated")?;
        commit(&db, |tx| delete(tx, 50).map(|_| ()))?;
        clean(&db, "deleted")
    })
}

#[test]
fn rollbacks_and_savepoints() -> Result<()> {
    in_both_modes(|traditional| {
        let (vfs, db) = made(2, traditional)?;
        // Kept, then replaced, then all of it taken back.
        let tx = db.begin(Isolation::ReadCommitted);
        set(&tx, 1, 100, &note(1, LONG))?;
        set(&tx, 1, 101, &note(7, LONG))?;
        set(&tx, 1, 102, &note(7, LONG))?;
        tx.rollback()?;
        clean(&db, "rolled back")?;
        assert_eq!(seen(&db, 1)?, Some((1, note(1, LONG))));
        // A value of its own that it keeps, behind a savepoint that it goes back to.
        let tx = db.begin(Isolation::ReadCommitted);
        set(&tx, 1, 100, &note(7, LONG))?;
        let before = tx.savepoint()?;
        set(&tx, 1, 101, &note(7, LONG))?;
        set(&tx, 1, 102, &note(8, LONG))?;
        set(&tx, 1, 103, &note(8, LONG))?;
        tx.rollback_to(before)?;
        db.clean()?;
        assert_eq!(seen_by(&tx, 1)?, Some((100, note(7, LONG))));
        set(&tx, 1, 104, &note(7, LONG))?;
        db.clean()?;
        tx.commit(Durability::Sync)?.wait()?;
        clean(&db, "with a savepoint")?;
        assert_eq!(seen(&db, 1)?, Some((104, note(7, LONG))));
        // A statement that is taken back: its new n is another row's.
        let tx = db.begin(Isolation::ReadCommitted);
        let duplicate = set_as(&tx, StatementKind::BulkWrite, 1, 1, 2, &note(7, LONG));
        assert_eq!(duplicate.err().map(|error| error.kind()), Some(ErrorKind::UniqueViolation));
        tx.rollback()?;
        clean(&db, "taken back")?;
        assert_eq!(seen(&db, 1)?, Some((104, note(7, LONG))));
        db.close()?;
        drop(db);
        let db = open_in(&vfs, traditional)?;
        assert_eq!(seen(&db, 1)?, Some((104, note(7, LONG))));
        clean(&db, "after a restart")
    })
}

/// Who sees an earlier version reads its value for as long as he looks, whoever keeps or drops it meanwhile.
#[test]
fn snapshots_and_others() -> Result<()> {
    in_both_modes(|traditional| {
        let (_, db) = made(3, traditional)?;
        let old = db.begin(Isolation::RepeatableRead);
        assert_eq!(seen_by(&old, 1)?, Some((1, note(1, LONG))));
        commit(&db, |tx| set(tx, 1, 100, &note(1, LONG)))?;
        let newer = db.begin(Isolation::RepeatableRead);
        assert_eq!(seen_by(&newer, 1)?, Some((100, note(1, LONG))));
        commit(&db, |tx| set(tx, 1, 101, &note(9, LONG)))?;
        db.clean()?;
        assert_eq!(seen_by(&old, 1)?, Some((1, note(1, LONG))));
        drop(old);
        db.clean()?;
        assert_eq!(seen_by(&newer, 1)?, Some((100, note(1, LONG))));
        // What was seen is not what is there: a conflict, and nothing kept.
        let stale = db.begin(Isolation::ReadCommitted);
        let table = table(&stale)?;
        stale.statement(StatementKind::PointWrite)?;
        commit(&db, |tx| set(tx, 1, 102, &note(10, LONG)))?;
        let row = [DatumRef::Int8(1), DatumRef::Int8(103), DatumRef::Text(&note(9, LONG))];
        let change = stale.update(&table, &key_of(&table, 1)?, Seen::Snapshot, &row)?.done()?;
        assert_eq!(change, Change::Changed);
        stale.rollback()?;
        drop(newer);
        clean(&db, "nobody looks")?;
        assert_eq!(seen(&db, 1)?, Some((102, note(10, LONG))));
        Ok(())
    })
}

/// Power is lost everywhere in updates that keep, replace and give back a value.
#[test]
fn power_losses() -> Result<()> {
    in_both_modes(|traditional| {
        let (start, db) = made(4, traditional)?;
        db.close()?;
        drop(db);
        let mut lost = 0;
        for step in 1..120 {
            let vfs = start.fork(step);
            let db = open_in(&vfs, traditional)?;
            vfs.set_faults(FaultPlan { crash_after_ops: Some(step), ..FaultPlan::default() });
            let states = [(1, note(1, LONG)), (100, note(1, LONG)), (101, note(7, LONG)), (102, note(7, LONG))];
            let mut committed = 0;
            let work = || -> Result<()> {
                for (at, (n, note)) in states.iter().enumerate().skip(1) {
                    let tx = db.begin(Isolation::ReadCommitted);
                    set(&tx, 1, *n, note)?;
                    db.write_back()?;
                    tx.commit(Durability::Sync)?.wait()?;
                    committed = at;
                    db.clean()?;
                    let tx = db.begin(Isolation::ReadCommitted);
                    set(&tx, 1, 200, note)?;
                    set(&tx, 1, 201, "short")?;
                    db.write_back()?;
                    db.checkpoint()?;
                    tx.rollback()?;
                    db.clean()?;
                }
                Ok(())
            };
            let done = {
                let mut work = work;
                work()
            };
            lost += u64::from(done.is_err());
            let vfs = vfs.crash();
            drop(db);
            let db = open_in(&vfs, traditional)?;
            db.finish_recovery()?;
            let found = seen(&db, 1)?;
            let may = &states[committed..(committed + 2).min(states.len())];
            assert!(may.iter().any(|state| found.as_ref() == Some(state)), "power lost at step {step}");
            clean(&db, &format!("power lost at step {step}"))?;
            assert_eq!(seen(&db, 1)?, found, "power lost at step {step}, cleaned");
        }
        assert!(lost > 20, "power was lost {lost} times");
        Ok(())
    })
}
