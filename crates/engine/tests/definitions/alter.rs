//! Tables that are rewritten, extended and constrained: what comes of it after a commit, after
//! a rollback (whole, or to a savepoint) and after a crash at any moment, and that no page is
//! lost on the way.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs, Vfs};

use crate::common::open::{is_traditional, open_as, small_log};

fn options() -> Options {
    small_log(is_traditional())
}

pub fn open(vfs: &SimVfs) -> Result<Database> {
    open_as(vfs, options())
}

const NAME: (&str, &str) = ("public", "t");

/// id int8 primary key, n int4 indexed, note text with a large value now and then.
pub fn filled(vfs: &SimVfs, rows: i64) -> Result<Database> {
    let db = open(vfs)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new(NAME.0, NAME.1)
        .column("id", ColumnType::Int8)
        .column("n", ColumnType::Int4)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .index("by_n", &["n"], false)
        .index("by_both", &["n", "id"], false);
    let table = tx.create_table(spec)?.done()?;
    for id in 0..rows {
        tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Int4(n_of(id)), DatumRef::Text(&note_of(id))])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    db.clean()?;
    Ok(db)
}

fn n_of(id: i64) -> i32 {
    (id % 97) as i32
}
fn note_of(id: i64) -> String {
    if id % 50 == 7 { "L".repeat(2700) } else { format!("note {id}") }
}

pub fn table(tx: &Transaction) -> Result<Arc<Table>> {
    Ok(tx.table(NAME.0, NAME.1)?.expect("the table"))
}

/// All rows as a reader sees them, large values read.
pub fn rows(db: &Database) -> Result<Vec<Vec<Datum>>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = table(&tx)?;
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let mut batch = RowBatch::default();
    let mut out = Vec::new();
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 100)? {
            return Ok(out);
        }
        for i in 0..batch.len() {
            let mut row = Vec::new();
            for column in 0..table.columns.len() {
                row.push(match table.column(batch.row(i), column)? {
                    DatumRef::External(e) => Datum::Text(String::from_utf8(view.read_external(e)?).expect("text")),
                    datum => datum.to_owned(),
                });
            }
            out.push(row);
        }
    }
}

fn columns(db: &Database) -> Result<Vec<(String, ColumnType)>> {
    let tx = db.begin(Isolation::ReadCommitted);
    Ok(table(&tx)?.columns.iter().map(|c| (c.name.clone(), c.ty)).collect())
}

/// `n` becomes int8 and ten times as much; every tenth note, large ones among them, becomes a new large one.
fn rewrite(tx: &Transaction, table: &Arc<Table>) -> Result<Arc<Table>> {
    let mut rewrite = tx.rewrite_table(table, &[(1, ColumnType::Int8)], &[])?.done()?;
    let mut batch = RowBatch::default();
    let large = "R".repeat(2650);
    while rewrite.read(&mut batch)? {
        for i in 0..batch.len() {
            let raw = batch.row(i);
            let old: Vec<DatumRef<'_>> = (0..3).map(|c| table.column(raw, c)).collect::<Result<_>>()?;
            let (DatumRef::Int8(id), DatumRef::Int4(n)) = (old[0], old[1]) else { panic!("types") };
            let note = if id % 10 == 7 { DatumRef::Text(&large) } else { old[2] };
            rewrite.put(raw, &[old[0], DatumRef::Int8(i64::from(n) * 10), note])?;
        }
    }
    rewrite.finish()
}

pub fn before(rows: i64) -> Vec<Vec<Datum>> {
    (0..rows).map(|id| vec![Datum::Int8(id), Datum::Int4(n_of(id)), Datum::Text(note_of(id))]).collect()
}
fn after(rows: i64) -> Vec<Vec<Datum>> {
    let note = |id: i64| if id % 10 == 7 { "R".repeat(2650) } else { note_of(id) };
    (0..rows).map(|id| vec![Datum::Int8(id), Datum::Int8(i64::from(n_of(id)) * 10), Datum::Text(note(id))]).collect()
}

/// Nothing is lost, and nothing waits to be freed.
pub fn nothing_left(db: &Database, what: &str) -> Result<()> {
    for _ in 0..4 {
        db.clean()?;
    }
    assert_eq!(db.verify()?, Vec::<String>::new(), "{what}");
    assert_eq!(db.pending_frees_len()?, 0, "{what}: storage is still to be freed");
    Ok(())
}

#[test]
fn a_rewrite_commits_and_rolls_back() -> Result<()> {
    let vfs = SimVfs::new(1);
    let db = filled(&vfs, 3000)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let entries = db.pending_frees_len()?;
    rewrite(&tx, &table(&tx)?)?;
    // Two for each of three trees, and one for the 60 large values that are referred to no more.
    let noted = db.pending_frees_len()? - entries;
    assert!((6..=8).contains(&noted), "{noted} entries for 3000 rows");
    assert_eq!(db.builds(), []);
    tx.rollback()?;
    assert_eq!(rows(&db)?, before(3000));
    nothing_left(&db, "rolled back")?;

    let tx = db.begin(Isolation::ReadCommitted);
    let old = table(&tx)?;
    // Work before it and after it, in the same transaction.
    tx.delete(&old, &key(&old, 5)?, Seen::Snapshot)?.done()?;
    let new = rewrite(&tx, &table(&tx)?)?;
    tx.insert(&new, &[DatumRef::Int8(90_000), DatumRef::Int8(1 << 40), DatumRef::Null])?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let mut expected = after(3000);
    expected.remove(5);
    expected.push(vec![Datum::Int8(90_000), Datum::Int8(1 << 40), Datum::Null]);
    assert_eq!(rows(&db)?, expected);
    nothing_left(&db, "committed")?;
    db.close()?;
    let db = open(&vfs)?;
    assert_eq!(rows(&db)?, expected);
    Ok(())
}

fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

#[test]
fn back_to_a_savepoint() -> Result<()> {
    let vfs = SimVfs::new(2);
    let db = filled(&vfs, 2000)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let old = table(&tx)?;
    tx.update(&old, &key(&old, 1)?, Seen::Snapshot, &[DatumRef::Int8(1), DatumRef::Int4(-1), DatumRef::Null])?
        .done()?;
    let savepoint = tx.savepoint()?;
    let new = rewrite(&tx, &table(&tx)?)?;
    let spec = ColumnSpec { name: "x".into(), ty: ColumnType::Text, nullable: false, default_sql: None };
    let new = tx.alter_table(&new, TableChange::AddColumnWith(spec, Datum::Text("was here".into())))?.done()?;
    tx.insert(&new, &[DatumRef::Int8(90_000), DatumRef::Int8(1), DatumRef::Null, DatumRef::Text(&"y".repeat(3000))])?
        .done()?;
    tx.rollback_to(savepoint)?;
    tx.statement(StatementKind::PointWrite)?;
    let again = table(&tx)?;
    assert_eq!(again.columns.len(), 3);
    tx.delete(&again, &key(&again, 2)?, Seen::Snapshot)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let mut expected = before(2000);
    expected[1] = vec![Datum::Int8(1), Datum::Int4(-1), Datum::Null];
    expected.remove(2);
    assert_eq!(rows(&db)?, expected);
    nothing_left(&db, "back to a savepoint")
}

/// Power is lost at some moment of a rewrite, or of its commit, or of the clean-up after it.
#[test]
fn a_rewrite_is_whole_or_nothing_after_a_crash() -> Result<()> {
    let (mut old, mut new) = (0, 0);
    for at in (0..).step_by(3) {
        let vfs = SimVfs::new(at);
        let db = filled(&vfs, 800)?;
        while db.write_back()? > 0 {}
        vfs.set_faults(FaultPlan { crash_after_ops: Some(at + 1), ..FaultPlan::default() });
        let run = || -> Result<()> {
            let tx = db.begin(Isolation::ReadCommitted);
            rewrite(&tx, &table(&tx)?)?;
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
        if columns(&db)?[1].1 == ColumnType::Int8 {
            assert_eq!(rows(&db)?, after(800), "operation {at}");
            new += 1;
        } else {
            assert!(!done, "operation {at}: committed, and not there");
            assert_eq!(rows(&db)?, before(800), "operation {at}");
            old += 1;
        }
        nothing_left(&db, &format!("operation {at}"))?;
        if done {
            break; // it came to its end before the power was lost
        }
    }
    assert!(old > 5 && new > 0, "crashes before and after the commit: {old}, {new}");
    Ok(())
}

/// An index that is not finished: cancelled, or power is lost.
#[test]
fn an_index_that_is_not_finished_leaves_nothing() -> Result<()> {
    let vfs = SimVfs::new(3);
    let db = filled(&vfs, 5000)?;
    let spec = IndexSpec {
        name: "i".into(),
        columns: vec![1, 0],
        orders: Vec::new(),
        unique: false,
        constraint: false,
        nulls_alike: false,
        deferral: Deferral::Never,
    };
    let tx = db.begin(Isolation::ReadCommitted);
    let asked = Arc::new(AtomicU64::new(0));
    let (counter, inside) = (Arc::clone(&asked), db.clone());
    tx.set_interrupt(Some(Arc::new(move || {
        let times = counter.fetch_add(1, Ordering::Relaxed);
        let builds = inside.builds();
        assert_eq!(builds.len(), 1, "the build is shown");
        assert_eq!(builds[0].rows_done, times * 1000);
        assert!(builds[0].rows_total > 0 && builds[0].index.is_some());
        if times == 3 { Err(Error::new(ErrorKind::Cancelled, "stop")) } else { Ok(()) }
    })));
    let error = tx.create_index(&table(&tx)?, spec.clone()).err().expect("cancelled");
    assert_eq!(error.kind(), ErrorKind::Cancelled);
    assert_eq!(asked.load(Ordering::Relaxed), 4);
    assert_eq!(db.builds(), []);
    // A part of an index cannot be committed.
    assert!(tx.commit(Durability::Sync).is_err());
    tx.rollback()?;
    nothing_left(&db, "cancelled")?;
    drop(db);

    let mut cut_off = 0;
    for at in 1..60 {
        let vfs = SimVfs::new(at);
        let db = filled(&vfs, 4000)?;
        while db.write_back()? > 0 {}
        vfs.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
        let run = || -> Result<()> {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.create_index(&table(&tx)?, spec.clone())?.done()?;
            while db.write_back()? > 0 {}
            tx.commit(Durability::Sync)?.wait()
        };
        let done = run().is_ok();
        drop(db);
        let vfs = vfs.crash();
        let db = open(&vfs)?;
        db.finish_recovery()?;
        let there = table(&db.begin(Isolation::ReadCommitted))?.indexes.len() == 3;
        assert!(there || !done, "operation {at}");
        cut_off += u64::from(!there);
        nothing_left(&db, &format!("operation {at}"))?;
    }
    assert!(cut_off > 3, "power was lost in the middle of it");
    Ok(())
}

/// A rewrite that is given up must not be committed, nor keep a savepoint from being gone
/// back to.
#[test]
fn a_rewrite_that_is_given_up() -> Result<()> {
    let vfs = SimVfs::new(4);
    let db = filled(&vfs, 300)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.delete(&table(&tx)?, &key(&*table(&tx)?, 0)?, Seen::Snapshot)?.done()?;
    let savepoint = tx.savepoint()?;
    let given_up = tx.rewrite_table(&table(&tx)?, &[(1, ColumnType::Int8)], &[])?.done()?;
    drop(given_up);
    assert_eq!(tx.commit(Durability::Sync).err().expect("refused").kind(), ErrorKind::InvalidTransactionState);
    tx.rollback_to(savepoint)?;
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(rows(&db)?, before(300)[1..]);
    nothing_left(&db, "given up")?;

    // One that was given up before the savepoint is not made good by going back to it.
    let tx = db.begin(Isolation::ReadCommitted);
    drop(tx.rewrite_table(&table(&tx)?, &[(1, ColumnType::Int8)], &[])?.done()?);
    let savepoint = tx.savepoint()?;
    drop(tx.rewrite_table(&table(&tx)?, &[(1, ColumnType::Int8)], &[])?.done()?);
    tx.rollback_to(savepoint)?;
    assert_eq!(tx.commit(Durability::Sync).err().expect("refused").kind(), ErrorKind::InvalidTransactionState);
    tx.rollback()?;
    nothing_left(&db, "given up twice")
}

#[test]
fn values_of_rows_stored_before_a_column() -> Result<()> {
    let vfs = SimVfs::new(5);
    let db = filled(&vfs, 200)?;
    let long_reader = db.begin(Isolation::RepeatableRead);
    let then = table(&long_reader)?;
    let long_view = long_reader.statement(StatementKind::Read)?;
    let spec = |name: &str, ty, nullable| ColumnSpec { name: name.into(), ty, nullable, default_sql: None };
    let tx = db.begin(Isolation::ReadCommitted);
    // Rows would break it.
    let error = tx.alter_table(&table(&tx)?, TableChange::AddColumn(spec("x", ColumnType::Int4, false)));
    let error = error.err().expect("NOT NULL");
    assert_eq!(error.kind(), ErrorKind::NotNullViolation);
    assert_eq!(error.message(), "column \"x\" of relation \"t\" contains null values");
    tx.rollback()?;

    let tx = db.begin(Isolation::ReadCommitted);
    let t = table(&tx)?;
    let t =
        tx.alter_table(&t, TableChange::AddColumnWith(spec("x", ColumnType::Int4, false), Datum::Int4(42)))?.done()?;
    let t = tx
        .alter_table(&t, TableChange::AddColumnWith(spec("y", ColumnType::Varchar(9), true), Datum::Text("y".into())))?
        .done()?;
    // NULL is not "not stored".
    let row = [DatumRef::Int8(3), DatumRef::Int4(0), DatumRef::Null, DatumRef::Int4(1), DatumRef::Null];
    tx.update(&t, &key(&t, 3)?, Seen::Snapshot, &row)?.done()?;
    let t = tx.alter_table(&t, TableChange::SetType(4, ColumnType::Text))?.done()?;
    let t = tx.alter_table(&t, TableChange::SetNotNull(3, true))?.done()?;
    let t = tx
        .create_index(
            &t,
            IndexSpec {
                name: "by_x".into(),
                columns: vec![3],
                orders: Vec::new(),
                unique: false,
                constraint: false,
                nulls_alike: false,
                deferral: Deferral::Never,
            },
        )?
        .done()?;
    assert!(tx.alter_table(&t, TableChange::SetType(4, ColumnType::Int4)).is_err(), "needs a rewrite");
    tx.commit(Durability::Sync)?.wait()?;
    let mut row = RowBuf::default();
    assert!(long_view.get(&then, &key(&then, 3)?, &mut row)?);
    assert_eq!(then.column(row.raw(), 1)?, DatumRef::Int4(3), "an older definition and its rows are still seen");
    drop((long_view, long_reader));

    let mut expected = before(200);
    for row in &mut expected {
        row.extend([Datum::Int4(42), Datum::Text("y".into())]);
    }
    expected[3] = vec![Datum::Int8(3), Datum::Int4(0), Datum::Null, Datum::Int4(1), Datum::Null];
    assert_eq!(rows(&db)?, expected);
    nothing_left(&db, "added")?;
    db.close()?;
    let db = open(&vfs)?;
    assert_eq!(rows(&db)?, expected);
    // A rewrite stores them.
    let tx = db.begin(Isolation::ReadCommitted);
    tx.alter_table(&table(&tx)?, TableChange::DropPrimaryKey)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(rows(&db)?, expected);
    nothing_left(&db, "rewritten")
}

#[test]
fn primary_key_dropped_and_made_again() -> Result<()> {
    let vfs = SimVfs::new(6);
    let db = filled(&vfs, 500)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.alter_table(&table(&tx)?, TableChange::DropPrimaryKey)?.done()?;
    assert!(!t.columns[0].nullable && t.primary_key.is_empty() && t.primary_key_name.is_empty());
    tx.insert(&t, &[DatumRef::Int8(7), DatumRef::Int4(0), DatumRef::Null])?.done()?;
    // The name is free again.
    let savepoint = tx.savepoint()?;
    let twice = tx.alter_table(&t, TableChange::AddPrimaryKey { name: "t_pkey".into(), columns: vec![0] });
    let error = twice.err().expect("7 is there twice");
    assert_eq!(error.kind(), ErrorKind::UniqueViolation);
    assert_eq!(error.message(), "could not create unique index \"t_pkey\"");
    assert_eq!(error.detail(), Some("Key (id)=(7) is duplicated."));
    tx.rollback_to(savepoint)?;
    tx.statement(StatementKind::PointWrite)?;
    tx.commit(Durability::Sync)?.wait()?;
    nothing_left(&db, "dropped")?;
    assert_eq!(rows(&db)?.len(), 501);

    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.alter_table(&table(&tx)?, TableChange::RenameIndex("by_n".into(), "t_pkey".into()))?.done()?;
    assert_eq!(t.indexes[0].name, "t_pkey");
    let taken = tx.alter_table(&t, TableChange::AddPrimaryKey { name: "t_pkey".into(), columns: vec![0] });
    assert_eq!(taken.err().expect("taken").kind(), ErrorKind::DuplicateTable);
    tx.rollback()?;
    nothing_left(&db, "rolled back")
}

#[test]
fn checks_are_kept_with_the_definition() -> Result<()> {
    let vfs = SimVfs::new(7);
    let db = filled(&vfs, 10)?;
    let check = |name: &str, columns: &[usize]| {
        TableChange::AddCheck(CheckSpec {
            name: name.into(),
            sql: format!("{name} > 0"),
            columns: columns.to_vec(),
            validated: name == "b",
        })
    };
    let tx = db.begin(Isolation::ReadCommitted);
    let mut t = table(&tx)?;
    for change in [
        check("a", &[1]),
        check("b", &[0, 2]),
        TableChange::RenameCheck("a".into(), "c".into()),
        TableChange::ValidateCheck("c".into()),
        TableChange::RewordCheck("c".into(), "n < 7".into()),
    ] {
        t = tx.alter_table(&t, change)?.done()?;
    }
    let twice = tx.alter_table(&t, check("b", &[])).err().expect("taken");
    assert_eq!(twice.kind(), ErrorKind::DuplicateObject);
    // Nor may an index have the name, where it is a constraint.
    let index = |constraint| IndexSpec {
        name: "c".into(),
        columns: vec![1],
        orders: Vec::new(),
        unique: false,
        constraint,
        nulls_alike: false,
        deferral: Deferral::Never,
    };
    assert_eq!(refused(tx.create_index(&t, index(true))), ErrorKind::DuplicateObject);
    let rename = |from: &str, to: &str| TableChange::RenameIndex(from.into(), to.into());
    assert_eq!(refused(tx.alter_table(&t, rename("t_pkey", "c"))), ErrorKind::DuplicateObject);
    t = tx.create_index(&t, index(false))?.done()?;
    t = tx.alter_table(&t, rename("c", "d"))?.done()?;
    t = tx.alter_table(&t, TableChange::DropPrimaryKey)?.done()?;
    let again = TableChange::AddPrimaryKey { name: "b".into(), columns: vec![0] };
    assert_eq!(refused(tx.alter_table(&t, again)), ErrorKind::DuplicateObject);
    tx.commit(Durability::Sync)?.wait()?;
    db.close()?;
    let db = open(&vfs)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let t = table(&tx)?;
    let seen: Vec<_> = t.checks.iter().map(|c| (c.name.as_str(), c.sql.as_str(), c.validated)).collect();
    assert_eq!(seen, [("c", "n < 7", true), ("b", "b > 0", true)]);
    // One that mentions a column goes with it; the other moves along.
    let t = tx.alter_table(&t, TableChange::DropColumn(1))?.done()?;
    assert_eq!(t.checks.len(), 1);
    assert_eq!(t.checks[0].columns, [0, 1]);
    let t = tx.alter_table(&t, TableChange::DropCheck("b".into()))?.done()?;
    assert_eq!(t.checks, []);
    tx.commit(Durability::Sync)?.wait()?;
    nothing_left(&db, "checks")
}

fn refused<T>(result: Result<Attempt<T>>) -> ErrorKind {
    match result {
        Ok(_) => panic!("not refused"),
        Err(error) => error.kind(),
    }
}

/// A lock that was got too late is no proof that the definition is the newest.
#[test]
fn a_refused_change_lets_no_row_into_what_is_gone() -> Result<()> {
    let vfs = SimVfs::new(8);
    let db = filled(&vfs, 100)?;
    for to_savepoint in [true, false] {
        let behind = db.begin(Isolation::RepeatableRead);
        behind.statement(StatementKind::Read)?;
        let old = table(&behind)?;
        let savepoint = behind.savepoint()?;
        let other = db.begin(Isolation::ReadCommitted);
        let spec = IndexSpec {
            name: format!("i{to_savepoint}"),
            columns: vec![1],
            orders: Vec::new(),
            unique: false,
            constraint: false,
            nulls_alike: false,
            deferral: Deferral::Never,
        };
        other.create_index(&table(&other)?, spec)?.done()?;
        other.commit(Durability::Sync)?.wait()?;

        assert_eq!(refused(behind.lock_for_change(&old)), ErrorKind::DefinitionChanged);
        if to_savepoint {
            behind.rollback_to(savepoint)?;
        }
        behind.statement(StatementKind::PointWrite)?;
        let row = [DatumRef::Int8(90_000), DatumRef::Int4(1), DatumRef::Null];
        for _ in 0..2 {
            assert_eq!(refused(behind.insert(&old, &row)), ErrorKind::DefinitionChanged);
        }
        assert_eq!(refused(behind.delete(&old, &key(&old, 1)?, Seen::Snapshot)), ErrorKind::DefinitionChanged);
        behind.commit(Durability::Sync)?.wait()?;
        nothing_left(&db, "refused")?;
    }
    assert_eq!(rows(&db)?, before(100));
    Ok(())
}

/// The same of a transaction's own changes: what it planned before one is not written to, nor
/// read, after it.
#[test]
fn a_definition_from_before_an_own_change_is_refused() -> Result<()> {
    let vfs = SimVfs::new(9);
    let db = filled(&vfs, 100)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let old = table(&tx)?;
    let row = |id| [DatumRef::Int8(id), DatumRef::Int4(1), DatumRef::Null];
    tx.insert(&old, &row(200))?.done()?;
    let new = rewrite(&tx, &table(&tx)?)?;
    assert_eq!(refused(tx.insert(&old, &row(201))), ErrorKind::DefinitionChanged);
    let view = tx.statement(StatementKind::Read)?;
    let mut buf = RowBuf::default();
    let error = view.get(&old, &key(&old, 1)?, &mut buf).expect_err("an older definition");
    assert_eq!(error.kind(), ErrorKind::DefinitionChanged);
    assert!(view.get(&new, &key(&new, 200)?, &mut buf)?);
    drop(view);

    // Back to the savepoint, the definition of then counts again, and no later one.
    let savepoint = tx.savepoint()?;
    let changes = tx.catalog_changes();
    let spec = ColumnSpec { name: "x".into(), ty: ColumnType::Int4, nullable: true, default_sql: None };
    let later = tx.alter_table(&new, TableChange::AddColumn(spec))?.done()?;
    let wide = |id| [DatumRef::Int8(id), DatumRef::Int8(1), DatumRef::Null, DatumRef::Int4(3)];
    tx.insert(&later, &wide(300))?.done()?;
    assert_eq!(refused(tx.insert(&new, &wide(301)[..3])), ErrorKind::DefinitionChanged);
    tx.rollback_to(savepoint)?;
    assert!(tx.catalog_changes() > changes);
    tx.statement(StatementKind::PointWrite)?;
    assert_eq!(refused(tx.insert(&later, &wide(302))), ErrorKind::DefinitionChanged);
    tx.insert(&new, &wide(303)[..3])?.done()?;
    let view = tx.statement(StatementKind::Read)?;
    assert!(view.get(&new, &key(&new, 303)?, &mut buf)?);
    assert!(view.get(&later, &key(&later, 303)?, &mut buf).is_err());
    drop(view);

    // A table that is dropped is not written to either.
    tx.drop_table(&new)?.done()?;
    assert_eq!(refused(tx.insert(&new, &wide(304)[..3])), ErrorKind::DefinitionChanged);
    tx.rollback()?;
    nothing_left(&db, "own changes")
}

/// A rewrite leaves dropped columns behind, and frees what only they refer to.
#[test]
fn large_values_of_dropped_columns_go_with_a_rewrite() -> Result<()> {
    let vfs = SimVfs::new(10);
    let db = filled(&vfs, 200)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let t = table(&tx)?;
    let spec = ColumnSpec { name: "more".into(), ty: ColumnType::Text, nullable: true, default_sql: None };
    let t = tx.alter_table(&t, TableChange::AddColumn(spec))?.done()?;
    let large = "M".repeat(5000);
    for id in 500..550 {
        let row = [DatumRef::Int8(id), DatumRef::Int4(1), DatumRef::Null, DatumRef::Text(&large)];
        tx.insert(&t, &row)?.done()?;
    }
    tx.alter_table(&t, TableChange::DropColumn(3))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    nothing_left(&db, "dropped")?;
    for commit in [false, true] {
        let tx = db.begin(Isolation::ReadCommitted);
        tx.alter_table(&table(&tx)?, TableChange::DropPrimaryKey)?.done()?;
        if commit {
            tx.commit(Durability::Sync)?.wait()?
        } else {
            tx.rollback()?
        }
        // Pages that nothing refers to are reported.
        nothing_left(&db, "rewritten")?;
    }
    assert_eq!(rows(&db)?.len(), 250);
    Ok(())
}

/// Looking at all rows can be cancelled, also where there are none to be seen.
#[test]
fn a_look_at_all_rows_can_be_cancelled() -> Result<()> {
    let vfs = SimVfs::new(11);
    let db = filled(&vfs, 5000)?;
    let reader = db.begin(Isolation::RepeatableRead);
    let _sees_them = reader.statement(StatementKind::Read)?;
    let spec = ColumnSpec { name: "x".into(), ty: ColumnType::Int4, nullable: false, default_sql: None };
    let spec = || spec.clone();
    let cancelled = |change: TableChange, asks: u64| -> Result<()> {
        let tx = db.begin(Isolation::ReadCommitted);
        let asked = AtomicU64::new(0);
        tx.set_interrupt(Some(Arc::new(move || {
            let times = asked.fetch_add(1, Ordering::Relaxed) + 1;
            if times == asks { Err(Error::new(ErrorKind::Cancelled, "stop")) } else { Ok(()) }
        })));
        assert_eq!(refused(tx.alter_table(&table(&tx)?, change.clone())), ErrorKind::Cancelled, "{change:?}");
        tx.rollback()
    };
    cancelled(TableChange::SetNotNull(2, true), 3)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let t = table(&tx)?;
    for id in 0..5000 {
        tx.delete(&t, &key(&t, id)?, Seen::Snapshot)?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    cancelled(TableChange::AddColumn(spec()), 1)?;
    cancelled(TableChange::SetNotNull(2, true), 2)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.alter_table(&table(&tx)?, TableChange::AddColumn(spec()))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    Ok(())
}

/// Who gives up waiting for a table, and goes back to a savepoint, keeps no writer out.
#[test]
fn a_request_that_was_given_up_keeps_nobody_out() -> Result<()> {
    let vfs = SimVfs::new(12);
    let db = filled(&vfs, 10)?;
    let row = |id| [DatumRef::Int8(id), DatumRef::Int4(1), DatumRef::Null];
    let (writer, changer, other) =
        (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
    let t = table(&writer)?;
    writer.insert(&t, &row(100))?.done()?;
    let savepoint = changer.savepoint()?;
    let Attempt::Wait(gives_up) = changer.lock_for_change(&t)? else { panic!("the table is in use") };
    drop(gives_up);
    let Attempt::Wait(waits) = other.insert(&t, &row(101))? else { panic!("who asked first goes first") };
    changer.rollback_to(savepoint)?;
    // Woken, although the transaction goes on.
    assert!(waits.wait_timeout(std::time::Duration::from_secs(60)), "nobody is woken");
    other.insert(&t, &row(101))?.done()?;
    other.commit(Durability::Sync)?.wait()?;
    writer.commit(Durability::Sync)?.wait()?;
    changer.lock_for_change(&t)?.done()?;
    changer.commit(Durability::Sync)?.wait()?;
    assert_eq!(rows(&db)?.len(), 12);
    Ok(())
}

/// Dropped columns take room in every row, but only as much as they must.
#[test]
fn columns_added_and_dropped_many_times() -> Result<()> {
    let vfs = SimVfs::new(13);
    let db = filled(&vfs, 10)?;
    let spec = ColumnSpec { name: "x".into(), ty: ColumnType::Int4, nullable: true, default_sql: None };
    let row = |id| [DatumRef::Int8(id), DatumRef::Int4(1), DatumRef::Null];
    let tx = db.begin(Isolation::ReadCommitted);
    let mut t = table(&tx)?;
    let mut times = 0;
    let error = loop {
        match tx.alter_table(&t, TableChange::AddColumn(spec.clone())) {
            Ok(added) => t = tx.alter_table(&added.done()?, TableChange::DropColumn(3))?.done()?,
            Err(error) => break error,
        }
        times += 1;
        if times % 50 == 0 {
            tx.insert(&t, &row(100 + times))?.done()?;
        }
    };
    assert_eq!(error.kind(), ErrorKind::LimitExceeded);
    assert!(error.hint().is_some() && times > 300, "{times}");
    tx.insert(&t, &row(50))?.done()?;
    // A rewrite leaves them behind.
    t = tx.alter_table(&t, TableChange::DropPrimaryKey)?.done()?;
    t = tx.alter_table(&t, TableChange::AddColumn(spec))?.done()?;
    tx.insert(&t, &[DatumRef::Int8(1), DatumRef::Int4(1), DatumRef::Null, DatumRef::Int4(1)])?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    nothing_left(&db, "many times")
}

/// Rows with large values come in smaller batches.
#[test]
fn a_batch_of_a_rewrite_is_bounded_by_bytes() -> Result<()> {
    let vfs = SimVfs::new(14);
    let db = filled(&vfs, 1100)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.drop_index(&table(&tx)?, "by_both")?.done()?;
    let large = "L".repeat(100_000);
    for id in 2000..2200 {
        tx.insert(&t, &[DatumRef::Int8(id), DatumRef::Int4(1), DatumRef::Text(&large)])?.done()?;
    }
    let mut rewrite = tx.rewrite_table(&t, &[(1, ColumnType::Int8)], &[])?.done()?;
    let (mut batch, mut sizes) = (RowBatch::default(), Vec::new());
    while rewrite.read(&mut batch)? {
        sizes.push(batch.len());
    }
    assert_eq!(sizes.iter().sum::<usize>(), 1300);
    assert_eq!(sizes[0], 1000, "small rows: {sizes:?}");
    assert!(sizes[1..].iter().all(|rows| *rows <= 200), "{sizes:?}");
    tx.rollback()
}

/// What a change of a definition has made by the time it is given up: an index, a table that was
/// emptied and filled again, a table written anew.
fn half_done(db: &Database, which: usize) -> Result<Transaction> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = table(&tx)?;
    match which {
        0 => {
            let spec = IndexSpec {
                name: "i".into(),
                columns: vec![1, 0],
                orders: Vec::new(),
                unique: false,
                constraint: false,
                nulls_alike: false,
                deferral: Deferral::Never,
            };
            // Several, so that there is something to be in the middle of.
            let mut t = t;
            for at in 0..8 {
                let columns = if at % 2 == 0 { vec![1, 0] } else { vec![0, 1] };
                t = tx.create_index(&t, IndexSpec { name: format!("i{at}"), columns, ..spec.clone() })?.done()?;
            }
        }
        1 => {
            tx.truncate(&t)?.done()?;
            let t = table(&tx)?;
            for id in 0..8000 {
                let note = if id % 9 == 0 { "T".repeat(2700) } else { note_of(id) };
                tx.insert(&t, &[DatumRef::Int8(id), DatumRef::Int4(1), DatumRef::Text(&note)])?.done()?;
            }
        }
        _ => drop(rewrite(&tx, &t)?),
    }
    Ok(tx)
}

/// Power is lost again and again while the storage of changes that were given up is freed: each time a
/// little later, from where the last one left it. Then the same for a table that is dropped.
#[test]
fn clean_up_is_cut_off_again_and_again() -> Result<()> {
    const ROWS: i64 = 4000;
    let few_pages = |vfs: &SimVfs| -> Result<Database> {
        let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
        Database::open_with(vfs, Path::new("/db"), Options { buffer_bytes: 1 << 19, ..options() }, |_| {})
    };
    for (which, by_crash) in [(0, true), (0, false), (1, true), (1, false), (2, true), (2, false), (3, false)] {
        let mut vfs = SimVfs::new(30 + which as u64 + u64::from(by_crash) * 10);
        drop(filled(&vfs, ROWS)?);
        vfs = vfs.crash();
        let db = few_pages(&vfs)?;
        if which == 3 {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.drop_table(&table(&tx)?)?.done()?;
            tx.commit(Durability::Sync)?.wait()?;
        } else {
            let tx = half_done(&db, which)?;
            if by_crash {
                while db.write_back()? > 0 {}
                db.checkpoint()?;
                std::mem::forget(tx);
            } else {
                tx.rollback()?;
                db.begin(Isolation::ReadCommitted).commit(Durability::Sync)?.wait()?;
                db.checkpoint()?;
            }
        }
        vfs = vfs.crash();
        drop(db);
        let (mut cut_off, mut in_the_middle) = (0, 0);
        for turn in 1.. {
            let said = format!("change {which}, by a crash: {by_crash}, turn {turn}");
            let db = few_pages(&vfs)?;
            db.finish_recovery()?;
            assert_eq!(db.verify()?, Vec::<String>::new(), "{said}");
            let there = db.begin(Isolation::ReadCommitted).table(NAME.0, NAME.1)?.is_some();
            assert_eq!(there, which != 3, "{said}");
            if there {
                assert_eq!(rows(&db)?, before(ROWS), "{said}");
            }
            let entries = db.pending_frees_len()?;
            vfs.set_faults(FaultPlan { crash_after_ops: Some(turn), ..FaultPlan::default() });
            let clean = || -> Result<()> {
                db.clean()?;
                while db.write_back()? > 0 {}
                db.checkpoint()
            };
            let done = clean().is_ok();
            vfs = vfs.crash();
            drop(db);
            if done {
                break;
            }
            cut_off += 1;
            in_the_middle += u64::from(entries > 0);
            assert!(turn < 2000, "{said}: it ends");
        }
        assert!(
            cut_off > 5 && in_the_middle > 3,
            "change {which}: cut off {cut_off} times, {in_the_middle} in its middle"
        );
        let db = few_pages(&vfs)?;
        db.finish_recovery()?;
        nothing_left(&db, &format!("change {which}, by a crash: {by_crash}"))?;
    }
    Ok(())
}
