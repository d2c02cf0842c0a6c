//! Indexes that are made while others write: whatever these do to rows that have their entries already, and to rows that have not, and
//! however it ends, the index has each row once, or nobody reads it.

use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs};

use super::alter::nothing_left;
use crate::common::open::{open_as, small_log};

const ROWS: i64 = 1500;
/// Rows of one transaction of the build.
const BATCH: i64 = 256;

fn open(vfs: &SimVfs, accelerated: bool) -> Result<Database> {
    open_as(vfs, small_log(!accelerated))
}

/// id int8 primary key, v int8 (the id, at first), w text.
fn filled(vfs: &SimVfs, accelerated: bool, rows: i64) -> Result<Database> {
    let db = open(vfs, accelerated)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "c")
        .column("id", ColumnType::Int8)
        .column("v", ColumnType::Int8)
        .column("w", ColumnType::Text)
        .primary_key(&["id"]);
    tx.create_table(spec)?.done()?;
    for id in 0..rows {
        insert(&tx, id, id)?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    db.clean()?;
    Ok(db)
}

fn table(tx: &Transaction) -> Result<Arc<Table>> {
    Ok(tx.table("public", "c")?.expect("the table"))
}

fn begin(db: &Database) -> Transaction {
    db.begin(Isolation::ReadCommitted)
}

fn commit(tx: &Transaction) -> Result<()> {
    tx.commit(Durability::Sync)?.wait()
}

fn insert(tx: &Transaction, id: i64, v: i64) -> Result<Attempt<()>> {
    tx.statement(StatementKind::PointWrite)?;
    tx.insert(&table(tx)?, &[DatumRef::Int8(id), DatumRef::Int8(v), DatumRef::Text("new")])
}

fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

/// Gives a row another id, value or text.
fn update(tx: &Transaction, id: i64, new: (i64, i64, &str)) -> Result<Attempt<Change>> {
    tx.statement(StatementKind::PointWrite)?;
    let table = table(tx)?;
    let row = [DatumRef::Int8(new.0), DatumRef::Int8(new.1), DatumRef::Text(new.2)];
    tx.update(&table, &key(&table, id)?, Seen::Snapshot, &row)
}

fn delete(tx: &Transaction, id: i64) -> Result<Attempt<Change>> {
    tx.statement(StatementKind::PointWrite)?;
    let table = table(tx)?;
    tx.delete(&table, &key(&table, id)?, Seen::Snapshot)
}

/// What a change is expected to come to at once.
fn changed(attempt: Result<Attempt<Change>>) -> Result<()> {
    assert_eq!(attempt?.done()?, Change::Done);
    Ok(())
}

fn on_v(unique: bool) -> IndexSpec {
    IndexSpec {
        name: "c_v".into(),
        columns: vec![1],
        orders: Vec::new(),
        unique,
        constraint: false,
        nulls_alike: false,
        deferral: Deferral::Never,
    }
}

fn add(db: &Database, unique: bool) -> Result<IndexBuild> {
    let tx = begin(db);
    let new = tx.add_index(&table(&tx)?, on_v(unique))?.done()?;
    commit(&tx)?;
    let index = new.indexes.last().expect("the index");
    assert!(!index.valid);
    Ok(IndexBuild::begin(db, &new, index.id))
}

/// One transaction of the build: whether that was all; `None`: it has to wait.
fn step(db: &Database, build: &mut IndexBuild) -> Result<Option<bool>> {
    let tx = begin(db);
    let done = match tx.fill_some(build)? {
        Attempt::Done(done) => Some(done),
        Attempt::Wait(_) => None,
    };
    commit(&tx)?;
    Ok(done)
}

/// Goes on until it has to wait (false), or there are no more rows.
fn go_on(db: &Database, build: &mut IndexBuild) -> Result<bool> {
    loop {
        match step(db, build)? {
            Some(true) => return Ok(true),
            Some(false) => {}
            None => return Ok(false),
        }
    }
}

fn finish(db: &Database, build: &IndexBuild) -> Result<()> {
    let tx = begin(db);
    let new = tx.finish_index(&table(&tx)?, build)?.done()?;
    assert!(new.indexes.iter().all(|index| index.valid));
    commit(&tx)
}

fn read(mut cursor: Cursor) -> Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let (mut batch, mut rows) = (RowBatch::default(), Vec::new());
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 100)? {
            return Ok(rows);
        }
        rows.extend((0..batch.len()).map(|i| (batch.row(i).key.to_vec(), batch.row(i).value.to_vec())));
    }
}

/// The rows by id, which the index finds as the table has them.
fn rows_of(tx: &Transaction) -> Result<BTreeMap<i64, (i64, String)>> {
    let view = tx.statement(StatementKind::Read)?;
    let table = table(tx)?;
    let all = read(view.scan(&table, KeyRange::all(), Direction::Forward))?;
    for at in (0..table.indexes.len()).filter(|at| table.indexes[*at].valid) {
        let mut found = read(view.scan_index(&table, at, KeyRange::all(), Direction::Forward))?;
        found.sort();
        assert!(found == all, "the index finds {} rows, other than the {} that there are", found.len(), all.len());
    }
    let mut rows = BTreeMap::new();
    for (key, value) in &all {
        let raw = RawRow { key, value };
        let columns = (0..3).map(|at| Ok(table.column(raw, at)?.to_owned())).collect::<Result<Vec<_>>>()?;
        let [Datum::Int8(id), Datum::Int8(v), w] = columns.as_slice() else { panic!("{columns:?}") };
        let w = match w {
            Datum::Text(text) => text.clone(),
            Datum::External(_) => "a long one".into(),
            other => panic!("{other:?}"),
        };
        rows.insert(*id, (*v, w));
    }
    Ok(rows)
}

fn rows(db: &Database) -> Result<BTreeMap<i64, (i64, String)>> {
    rows_of(&begin(db))
}

fn is_valid(db: &Database) -> Result<Option<bool>> {
    Ok(table(&begin(db))?.indexes.iter().find(|index| index.name == "c_v").map(|index| index.valid))
}

/// All that a writer can do to rows from `first` on, of which there are ten; there are as many rows as before. The transaction goes on.
fn everything(tx: &Transaction, first: i64) -> Result<()> {
    changed(update(tx, first, (first, first + 10_000, "another value")))?;
    changed(delete(tx, first + 1))?;
    // To another id, in front of all or behind all.
    let to = if first < BATCH { first + 20_000 } else { -first };
    changed(update(tx, first + 2, (to, first + 2, "moved")))?;
    changed(update(tx, first + 3, (first + 3, first + 3, "another text")))?;
    let savepoint = tx.savepoint()?;
    changed(update(tx, first + 4, (first + 4, first + 30_000, "taken back")))?;
    changed(delete(tx, first + 5))?;
    tx.rollback_to(savepoint)?;
    // There and back, and away and there again.
    changed(update(tx, first + 6, (first + 6, first + 40_000, "there")))?;
    changed(update(tx, first + 6, (first + 6, first + 6, "and back")))?;
    changed(delete(tx, first + 7))?;
    insert(tx, first + 7, first + 7)?.done()?;
    // The value of one that goes to one that comes, and of two that change it.
    changed(delete(tx, first + 8))?;
    insert(tx, first + 50_000, first + 8)?.done()?;
    changed(update(tx, first + 9, (first + 9, first + 60_000, "gives")))?;
    insert(tx, first + 70_000, first + 9)?.done()
}

#[test]
fn writers_go_on() -> Result<()> {
    for (accelerated, unique) in [(true, false), (true, true), (false, false), (false, true)] {
        let db = filled(&SimVfs::new(1), accelerated, ROWS)?;
        let mut build = add(&db, unique)?;
        for _ in 0..2 {
            assert_eq!(step(&db, &mut build)?, Some(false));
        }
        let (behind, ahead) = (10, 2 * BATCH + 100);
        let [commits, goes_back, long] = [begin(&db), begin(&db), begin(&db)];
        everything(&commits, behind)?;
        everything(&commits, ahead)?;
        everything(&goes_back, behind + 20)?;
        everything(&goes_back, ahead + 20)?;
        // What is there before a savepoint's changes is what the build finds.
        let savepoint = long.savepoint()?;
        changed(update(&long, ahead + 40, (ahead + 40, 99_999, "taken back")))?;
        long.rollback_to(savepoint)?;
        assert!(!go_on(&db, &mut build)?, "a row that is being changed");
        // Meanwhile others come and go.
        let other = begin(&db);
        everything(&other, behind + 60)?;
        everything(&other, ahead + 60)?;
        commit(&other)?;
        commit(&commits)?;
        assert!(!go_on(&db, &mut build)?, "the other's");
        goes_back.rollback()?;
        assert!(go_on(&db, &mut build)?);
        changed(update(&long, ahead + 40, (ahead + 40, 77_777, "at last")))?;
        let before = rows(&db)?;
        // It has all rows, but is not read yet; and its last step waits for who writes.
        assert_eq!(is_valid(&db)?, Some(false));
        let tx = begin(&db);
        assert!(matches!(tx.finish_index(&table(&tx)?, &build)?, Attempt::Wait(_)));
        tx.rollback()?;
        commit(&long)?;
        finish(&db, &build)?;
        let after = rows(&db)?;
        assert_eq!(after.len(), before.len());
        assert_eq!(after[&(ahead + 40)].0, 77_777);
        assert_eq!(after[&ahead], (ahead + 10_000, "another value".into()));
        assert_eq!(after[&(ahead + 20)].0, ahead + 20);
        nothing_left(&db, "built")?;
    }
    Ok(())
}

/// A row is locked while its entry is made, and no longer; who has an older snapshot may change it all the same.
#[test]
fn rows_are_locked_for_as_long_as_their_entries_are_made() -> Result<()> {
    let db = filled(&SimVfs::new(2), true, ROWS)?;
    let mut build = add(&db, false)?;
    let repeatable = db.begin(Isolation::RepeatableRead);
    rows_of(&repeatable)?;
    let making = begin(&db);
    assert!(matches!(making.fill_some(&mut build)?, Attempt::Done(false)));
    let writer = begin(&db);
    for id in [0, BATCH - 1] {
        assert!(matches!(update(&writer, id, (id, 9_999, "waits"))?, Attempt::Wait(_)));
        assert!(matches!(delete(&writer, id)?, Attempt::Wait(_)));
    }
    changed(update(&writer, BATCH, (BATCH, 9_999, "does not")))?;
    commit(&making)?;
    changed(update(&writer, 0, (0, 9_998, "goes on")))?;
    changed(update(&repeatable, 1, (1, 9_997, "goes on")))?;
    commit(&writer)?;
    commit(&repeatable)?;
    assert!(go_on(&db, &mut build)?);
    finish(&db, &build)?;
    assert_eq!(rows(&db)?.len() as i64, ROWS);
    nothing_left(&db, "built")
}

/// Who sees that it is valid sees all of it; who began before goes by what was defined then.
#[test]
fn older_snapshots_do_not_read_it() -> Result<()> {
    let db = filled(&SimVfs::new(3), true, ROWS)?;
    let writer = begin(&db);
    let old = db.begin(Isolation::RepeatableRead);
    let before = rows_of(&old)?;
    changed(update(&writer, 5, (5, 5_555, "since")))?;
    changed(delete(&writer, 6))?;
    commit(&writer)?;
    let mut build = add(&db, false)?;
    let middle = db.begin(Isolation::RepeatableRead);
    rows_of(&middle)?;
    assert!(go_on(&db, &mut build)?);
    let view = begin(&db).statement(StatementKind::Read)?;
    let at_work = table(&begin(&db))?;
    assert!(read(view.scan_index(&at_work, 0, KeyRange::all(), Direction::Forward)).is_err(), "not valid yet");
    finish(&db, &build)?;
    let new = table(&begin(&db))?;
    for (who, index) in [(&old, None), (&middle, Some(false))] {
        assert_eq!(table(who)?.indexes.first().map(|index| index.valid), index);
        let view = who.statement(StatementKind::Read)?;
        let error = read(view.scan_index(&new, 0, KeyRange::all(), Direction::Forward)).expect_err("of another time");
        assert_eq!(error.kind(), ErrorKind::DefinitionChanged);
    }
    assert_eq!(rows_of(&old)?, before);
    assert_eq!(rows(&db)?.len() as i64, ROWS - 1);
    drop((old, middle));
    nothing_left(&db, "built")
}

fn refused<T>(result: Result<Attempt<T>>) -> ErrorKind {
    match result {
        Ok(Attempt::Done(_)) => panic!("it was done"),
        Ok(Attempt::Wait(_)) => panic!("it waits"),
        Err(error) => error.kind(),
    }
}

#[test]
fn rows_that_are_not_unique() -> Result<()> {
    for accelerated in [true, false] {
        let db = filled(&SimVfs::new(4), accelerated, ROWS)?;
        let tx = begin(&db);
        changed(update(&tx, 700, (700, 5, "as row 5")))?;
        commit(&tx)?;
        let mut build = add(&db, true)?;
        // Before the build comes to it a row has no entry, and deletes none that is another's.
        let error = go_on(&db, &mut build).expect_err("not unique");
        assert_eq!(error.kind(), ErrorKind::UniqueViolation);
        assert_eq!(error.message(), "could not create unique index \"c_v\"");
        assert_eq!(error.detail(), Some("Key (v)=(5) is duplicated."));
        drop(build);
        assert_eq!(is_valid(&db)?, Some(false));
        assert_eq!(db.verify()?, Vec::<String>::new());
        let tx = begin(&db);
        let view = tx.statement(StatementKind::Read)?;
        assert!(read(view.scan_index(&table(&tx)?, 0, KeyRange::all(), Direction::Forward)).is_err());
        drop(view);
        // It is unique all the same, as far as it goes.
        assert_eq!(refused(insert(&tx, 9_000, 7)), ErrorKind::UniqueViolation);
        changed(delete(&tx, 700))?;
        assert_eq!(refused(insert(&tx, 9_000, 5)), ErrorKind::UniqueViolation);
        changed(update(&tx, 800, (-800, 800, "a row without an entry moves")))?;
        commit(&tx)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        let tx = begin(&db);
        changed(delete(&tx, 5))?;
        insert(&tx, 9_000, 5)?.done()?;
        commit(&tx)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        let tx = begin(&db);
        tx.reindex(&table(&tx)?, Some("c_v"))?.done()?;
        commit(&tx)?;
        assert_eq!(is_valid(&db)?, Some(true));
        assert_eq!(rows(&db)?.len() as i64, ROWS - 1);
        nothing_left(&db, "written anew")?;
    }
    Ok(())
}

/// A value is taken by a row that is put in before the build comes to the row that has it.
#[test]
fn a_value_that_goes_from_one_row_to_another() -> Result<()> {
    for goes_on in [true, false] {
        let db = filled(&SimVfs::new(5), true, ROWS)?;
        let mut build = add(&db, true)?;
        let tx = begin(&db);
        insert(&tx, 9_000, 900)?.done()?;
        assert!(!go_on(&db, &mut build)?, "who put it in has not ended");
        if goes_on {
            // It holds nothing while it waits.
            changed(update(&tx, 900, (900, 90_900, "gives it")))?;
            commit(&tx)?;
            assert!(go_on(&db, &mut build)?);
            finish(&db, &build)?;
            assert_eq!(rows(&db)?.len() as i64, ROWS + 1);
        } else {
            commit(&tx)?;
            assert_eq!(go_on(&db, &mut build).expect_err("twice").kind(), ErrorKind::UniqueViolation);
            drop(build);
            let tx = begin(&db);
            tx.drop_index(&table(&tx)?, "c_v")?.done()?;
            commit(&tx)?;
        }
        nothing_left(&db, "ended")?;
    }
    Ok(())
}

#[test]
fn what_others_do_to_the_definition() -> Result<()> {
    let db = filled(&SimVfs::new(6), true, ROWS)?;
    // Another definition, between two steps.
    let mut build = add(&db, false)?;
    assert_eq!(step(&db, &mut build)?, Some(false));
    let tx = begin(&db);
    let spec = ColumnSpec { name: "x".into(), ty: ColumnType::Int4, nullable: true, default_sql: None };
    tx.alter_table(&table(&tx)?, TableChange::AddColumn(spec))?.done()?;
    commit(&tx)?;
    assert!(go_on(&db, &mut build)?);
    let tx = begin(&db);
    tx.alter_table(&table(&tx)?, TableChange::DropColumn(3))?.done()?;
    commit(&tx)?;
    finish(&db, &build)?;
    assert_eq!(rows(&db)?.len() as i64, ROWS);
    let drop_it = || -> Result<()> {
        let tx = begin(&db);
        tx.drop_index(&table(&tx)?, "c_v")?.done()?;
        commit(&tx)
    };
    drop_it()?;
    drop(build);
    // It is not finished before it has all rows.
    let mut build = add(&db, false)?;
    assert_eq!(step(&db, &mut build)?, Some(false));
    let tx = begin(&db);
    assert_eq!(refused(tx.finish_index(&table(&tx)?, &build)), ErrorKind::InvalidParameter);
    tx.rollback()?;
    // Dropped.
    drop_it()?;
    assert_eq!(step(&db, &mut build).expect_err("gone").kind(), ErrorKind::UndefinedObject);
    drop(build);
    // Cancelled; and then the table is written anew, with all of its indexes.
    for how in 0..3 {
        let mut build = add(&db, false)?;
        assert_eq!(step(&db, &mut build)?, Some(false));
        assert!(db.builds().iter().any(|build| build.concurrent && build.rows_done == BATCH as u64));
        let tx = begin(&db);
        tx.set_interrupt(Some(Arc::new(|| Err(Error::new(ErrorKind::Cancelled, "stop")))));
        assert_eq!(tx.fill_some(&mut build).map(|_| ()).expect_err("cancelled").kind(), ErrorKind::Cancelled);
        drop(tx);
        assert_eq!(is_valid(&db)?, Some(false));
        assert_eq!(db.verify()?, Vec::<String>::new());
        let tx = begin(&db);
        let of = table(&tx)?;
        match how {
            0 => drop(tx.reindex(&of, None)?.done()?),
            1 => drop(tx.alter_table(&of, TableChange::DropPrimaryKey)?.done()?),
            _ => tx.truncate(&of)?.done()?,
        }
        commit(&tx)?;
        assert_eq!(is_valid(&db)?, Some(how != 2), "{how}");
        if how == 2 {
            let tx = begin(&db);
            insert(&tx, 3, 3)?.done()?;
            commit(&tx)?;
        }
        // Who was at it is done.
        assert_eq!(step(&db, &mut build)?, Some(true));
        finish(&db, &build)?;
        drop(build);
        assert_eq!(rows(&db)?.len() as i64, if how == 2 { 1 } else { ROWS });
        drop_it()?;
    }
    assert_eq!(db.builds(), []);
    nothing_left(&db, "dropped")
}

/// There is room for few row locks, or for none.
/// A value that is too long for the index was there before: the index cannot be made, and keeps nobody from changing its row.
#[test]
fn a_value_that_is_too_long_for_it() -> Result<()> {
    // In the row, and outside.
    for (accelerated, len) in [(true, 1850), (true, 2850), (false, 1850), (false, 2850)] {
        let vfs = SimVfs::new(9);
        let db = filled(&vfs, accelerated, 4)?;
        let long = "l".repeat(len);
        let tx = begin(&db);
        for id in 0..3 {
            changed(update(&tx, id, (id, id, &long)))?;
        }
        commit(&tx)?;
        let tx = begin(&db);
        tx.statement(StatementKind::PointWrite)?;
        tx.add_index(&table(&tx)?, IndexSpec { columns: vec![2], ..on_v(false) })?.done()?;
        commit(&tx)?;
        // Another column of it; the value itself, to a short one and back; and the row.
        let tx = begin(&db);
        changed(update(&tx, 0, (0, 7, &long)))?;
        changed(update(&tx, 1, (1, 1, "short")))?;
        let (kind, long_again) = (refused(update(&tx, 1, (1, 1, &long))), refused(update(&tx, 3, (3, 3, &long))));
        assert_eq!((kind, long_again), (ErrorKind::LimitExceeded, ErrorKind::LimitExceeded));
        changed(delete(&tx, 2))?;
        tx.rollback()?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        let tx = begin(&db);
        changed(update(&tx, 0, (0, 8, &long)))?;
        changed(update(&tx, 1, (1, 1, "short")))?;
        changed(delete(&tx, 2))?;
        commit(&tx)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        let rows = rows(&db)?;
        assert_eq!((rows[&0].0, rows[&1].1.as_str(), rows.contains_key(&2)), (8, "short", false));
        db.close()?;
    }
    Ok(())
}

#[test]
fn few_row_locks() -> Result<()> {
    for most in [0, 1, 100] {
        let options = Options { shared_row_locks_max: most, ..small_log(false) };
        let vfs = SimVfs::new(7);
        filled(&vfs, true, ROWS)?.close()?;
        let db = open_as(&vfs, options)?;
        let mut build = add(&db, true)?;
        let tx = begin(&db);
        everything(&tx, 600)?;
        assert!(!go_on(&db, &mut build)?);
        commit(&tx)?;
        assert!(go_on(&db, &mut build)?);
        finish(&db, &build)?;
        assert_eq!(rows(&db)?.len() as i64, ROWS);
        nothing_left(&db, "built")?;
    }
    Ok(())
}

/// Power is lost at some moment: it is there whole, or not valid and maintained, or not there.
#[test]
fn after_a_crash() -> Result<()> {
    let mut met = [0; 3];
    for at in 0.. {
        let unique = at % 2 == 0;
        let vfs = SimVfs::new(at);
        let db = filled(&vfs, true, 600)?;
        while db.write_back()? > 0 {}
        vfs.set_faults(FaultPlan { crash_after_ops: Some(at + 1), ..FaultPlan::default() });
        let run = || -> Result<()> {
            let mut build = add(&db, unique)?;
            assert_eq!(step(&db, &mut build)?, Some(false));
            while db.write_back()? > 0 {}
            db.checkpoint()?;
            let [commits, long] = [begin(&db), begin(&db)];
            everything(&commits, 20)?;
            everything(&commits, 320)?;
            everything(&long, 60)?;
            commit(&commits)?;
            while step(&db, &mut build)? != Some(true) {
                while db.write_back()? > 0 {}
                db.checkpoint()?;
            }
            long.rollback()?;
            finish(&db, &build)?;
            db.clean()?;
            while db.write_back()? > 0 {}
            db.clean().map(drop)
        };
        let done = run().is_ok();
        drop(db);
        let db = open(&vfs.crash(), true)?;
        db.finish_recovery()?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "operation {at}");
        let count = rows(&db)?.len();
        let valid = is_valid(&db)?;
        assert!(!done || valid == Some(true), "operation {at}: it was made");
        met[valid.map_or(0, |valid| 1 + usize::from(valid))] += 1;
        let tx = begin(&db);
        everything(&tx, 120)?;
        everything(&tx, 420)?;
        commit(&tx)?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "operation {at}, written to");
        assert_eq!(rows(&db)?.len(), count);
        if valid == Some(false) {
            let tx = begin(&db);
            if at % 4 < 2 {
                tx.drop_index(&table(&tx)?, "c_v")?.done()?;
            } else {
                tx.reindex(&table(&tx)?, None)?.done()?;
            }
            commit(&tx)?;
            assert_eq!(rows(&db)?.len(), count);
        }
        nothing_left(&db, &format!("operation {at}"))?;
        if done {
            break; // it came to its end before the power was lost
        }
    }
    assert!(met.iter().all(|times| *times > 1), "not there, not valid, whole: {met:?}");
    Ok(())
}
