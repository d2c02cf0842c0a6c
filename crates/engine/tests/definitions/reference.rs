//! What foreign keys ask of the newest state of rows, and foreign keys in definitions.

use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{is_traditional, open_as, small_log};

fn options() -> Options {
    small_log(is_traditional())
}

fn open(vfs: &SimVfs) -> Result<Database> {
    open_as(vfs, options())
}

/// `(id int8 primary key, key int8 unique, note text)`.
fn parent() -> TableSpec {
    TableSpec::new("public", "parent")
        .column("id", ColumnType::Int8)
        .column("key", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .index("by_key", &["key"], true)
}

fn child(indexed: bool) -> TableSpec {
    let spec = TableSpec::new("public", "child")
        .column("id", ColumnType::Int8)
        .column("p", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"]);
    if indexed { spec.index("child_p", &["p"], false) } else { spec }
}

fn row(id: i64, key: i64, note: &str) -> [DatumRef<'_>; 3] {
    [DatumRef::Int8(id), DatumRef::Int8(key), DatumRef::Text(note)]
}

fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

fn begin(db: &Database) -> Result<Transaction> {
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::PointWrite)?;
    Ok(tx)
}

fn create(db: &Database, spec: TableSpec) -> Result<Arc<Table>> {
    let tx = begin(db)?;
    let table = tx.create_table(spec)?.done()?;
    let name = table.name.clone();
    tx.commit(Durability::Sync)?.wait()?;
    Ok(begin(db)?.table("public", &name)?.expect("table"))
}

/// Of a parent's row `(n, n)`, by its primary key and by its other one.
fn present(tx: &Transaction, table: &Arc<Table>, n: i64) -> Result<&'static str> {
    tx.lock_rows(table)?.done()?;
    let name = |presence| match presence {
        Presence::Yes => "yes",
        Presence::No => "no",
        Presence::Undecided(_) => "undecided",
    };
    let mut by_index = Vec::new();
    table.encode_index_key(0, &[DatumRef::Int8(n)], &mut by_index)?;
    let found = name(tx.key_presence(table, None, &key(table, n)?)?);
    assert_eq!(found, name(tx.key_presence(table, Some(0), &by_index)?), "both keys say the same");
    Ok(found)
}

#[test]
fn a_key_is_there_or_not_or_depends() -> Result<()> {
    let vfs = SimVfs::new(1);
    let db = open(&vfs)?;
    let table = create(&db, parent())?;
    let tx = begin(&db)?;
    for n in 1..=4 {
        tx.insert(&table, &row(n, n, ""))?.done()?;
    }
    assert_eq!(present(&tx, &table, 1)?, "yes", "its own");
    tx.commit(Durability::Sync)?.wait()?;

    let (other, tx) = (begin(&db)?, begin(&db)?);
    assert_eq!((present(&tx, &table, 1)?, present(&tx, &table, 9)?), ("yes", "no"));
    // Whatever the other does to columns beside it, and however often.
    other.update(&table, &key(&table, 1)?, Seen::Snapshot, &row(1, 1, "x"))?.done()?;
    let savepoint = other.savepoint()?;
    other.update(&table, &key(&table, 1)?, Seen::Snapshot, &row(1, 1, "y"))?.done()?;
    assert_eq!(present(&tx, &table, 1)?, "yes");
    other.rollback_to(savepoint)?;
    assert_eq!(present(&tx, &table, 1)?, "yes");
    // It goes, comes, comes back under a savepoint, goes again.
    other.delete(&table, &key(&table, 2)?, Seen::Snapshot)?.done()?;
    other.insert(&table, &row(9, 9, ""))?.done()?;
    assert_eq!((present(&tx, &table, 2)?, present(&tx, &table, 9)?), ("undecided", "undecided"));
    assert_eq!((present(&other, &table, 2)?, present(&other, &table, 9)?), ("no", "yes"), "to itself");
    let savepoint = other.savepoint()?;
    other.insert(&table, &row(2, 2, "again"))?.done()?;
    other.delete(&table, &key(&table, 9)?, Seen::Snapshot)?.done()?;
    assert_eq!((present(&tx, &table, 2)?, present(&tx, &table, 9)?), ("undecided", "undecided"));
    other.rollback_to(savepoint)?;
    assert_eq!((present(&tx, &table, 2)?, present(&tx, &table, 9)?), ("undecided", "undecided"));
    assert_eq!((present(&other, &table, 2)?, present(&other, &table, 9)?), ("no", "yes"));
    // Another one of the same transaction, after what it has to be waited for.
    let Presence::Undecided(holder) = tx.key_presence(&table, None, &key(&table, 2)?)? else { panic!("decided") };
    let wait = tx.wait_for_writer(holder)?;
    other.rollback()?;
    wait.wait()?;
    assert_eq!((present(&tx, &table, 2)?, present(&tx, &table, 9)?), ("yes", "no"));
    // Aborted versions on top are passed over, by hundreds too.
    let long = begin(&db)?;
    for n in 100..1500 {
        long.insert(&table, &row(n, n, ""))?.done()?;
    }
    for n in 1..=4 {
        long.delete(&table, &key(&table, n)?, Seen::Snapshot)?.done()?;
    }
    long.rollback()?;
    assert_eq!((present(&tx, &table, 3)?, present(&tx, &table, 700)?), ("yes", "no"));
    // What was committed after the snapshot of the one who asks counts.
    let later = begin(&db)?;
    later.delete(&table, &key(&table, 3)?, Seen::Snapshot)?.done()?;
    later.commit(Durability::Sync)?.wait()?;
    assert_eq!((present(&tx, &table, 3)?, present(&tx, &table, 4)?), ("no", "yes"));
    tx.rollback()?;
    db.close()
}

/// Ids of the rows found, and of those that depend on someone else.
fn referring(tx: &Transaction, table: &Arc<Table>, p: i64) -> Result<(Vec<i64>, Vec<i64>)> {
    tx.lock_rows(table)?.done()?;
    let search = Search::new(table, &[1]);
    let mut found = tx.referencing(table, &search, &[1], vec![Datum::Int8(p)])?;
    let (mut there, mut undecided) = (Vec::new(), Vec::new());
    let mut steps = 0;
    while !found.is_over() {
        steps += 1;
        assert!(steps < 100_000, "it does not end");
        let Some(at) = found.step()? else { continue };
        let judged = found.judge(&at)?;
        let [Datum::Int8(id)] = table.decode_key(None, &at)?[..] else { panic!("key") };
        match judged.presence {
            Presence::Yes => {
                assert_eq!(table.column(judged.row.raw(), 1)?, DatumRef::Int8(p));
                there.push(id);
            }
            Presence::Undecided(_) => undecided.push(id),
            Presence::No => {}
        }
    }
    Ok((there, undecided))
}

fn rows_that_refer(indexed: bool) -> Result<()> {
    let vfs = SimVfs::new(2);
    let db = open(&vfs)?;
    let table = create(&db, child(indexed))?;
    let tx = begin(&db)?;
    let long = "x".repeat(3000);
    for id in 0..3000 {
        tx.insert(&table, &row(id, id % 1000, if id == 7 { &long } else { "" }))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    let (other, tx) = (begin(&db)?, begin(&db)?);
    assert_eq!(referring(&tx, &table, 7)?, (vec![7, 1007, 2007], vec![]));
    assert_eq!(referring(&tx, &table, 1000)?, (vec![], vec![]));
    other.update(&table, &key(&table, 7)?, Seen::Snapshot, &row(7, 7, "y"))?.done()?;
    assert_eq!(referring(&tx, &table, 7)?, (vec![7, 1007, 2007], vec![]), "another column");
    other.update(&table, &key(&table, 7)?, Seen::Snapshot, &row(7, 8, "y"))?.done()?;
    other.delete(&table, &key(&table, 1007)?, Seen::Snapshot)?.done()?;
    other.insert(&table, &row(5000, 7, ""))?.done()?;
    let savepoint = other.savepoint()?;
    other.delete(&table, &key(&table, 5000)?, Seen::Snapshot)?.done()?;
    assert_eq!(referring(&tx, &table, 7)?, (vec![2007], vec![7, 1007, 5000]));
    assert_eq!(referring(&other, &table, 7)?, (vec![2007], vec![]), "to itself");
    other.rollback_to(savepoint)?;
    assert_eq!(referring(&other, &table, 7)?, (vec![2007, 5000], vec![]));
    assert_eq!(referring(&tx, &table, 8)?, (vec![8, 1008, 2008], vec![7]));
    other.commit(Durability::Sync)?.wait()?;
    assert_eq!(referring(&tx, &table, 7)?, (vec![2007, 5000], vec![]));
    // Many leaves in which there is nothing.
    tx.statement(StatementKind::PointWrite)?;
    for id in 0..3000 {
        let _ = tx.delete(&table, &key(&table, id)?, Seen::Snapshot)?.done()?;
    }
    assert_eq!(referring(&tx, &table, 7)?, (vec![5000], vec![]));
    tx.commit(Durability::Sync)?.wait()?;
    db.clean()?;
    assert_eq!(referring(&begin(&db)?, &table, 7)?, (vec![5000], vec![]));
    db.close()
}

#[test]
fn rows_that_refer_by_an_index() -> Result<()> {
    rows_that_refer(true)
}

#[test]
fn rows_that_refer_by_the_table() -> Result<()> {
    rows_that_refer(false)
}

fn foreign(name: &str, index: Option<u32>) -> ForeignKey {
    ForeignKey {
        id: 0,
        name: name.into(),
        columns: vec![1],
        parent: 0,
        index,
        key: vec![0],
        on_delete: ReferentialAction::Cascade,
        on_update: ReferentialAction::SetDefault,
        match_full: true,
        deferrable: true,
        deferred: false,
        validated: true,
    }
}

#[test]
fn definitions() -> Result<()> {
    let vfs = SimVfs::new(3);
    let db = open(&vfs)?;
    let (up, down) = (create(&db, parent())?, create(&db, child(true))?);
    let tx = begin(&db)?;
    let down = tx.add_foreign_key(&down, &up, foreign("one", Some(up.indexes[0].id)))?.done()?;
    // The referenced table is another one now: who knows it as it was cannot write to it.
    tx.commit(Durability::Sync)?.wait()?;
    let tx = begin(&db)?;
    let error = tx.insert(&up, &row(1, 1, "")).err().expect("an old definition");
    assert_eq!(error.kind(), ErrorKind::DefinitionChanged);
    tx.rollback()?;
    let kept = down.foreign_keys.clone();
    drop((tx, db));
    let vfs = vfs.crash();
    let db = open(&vfs)?;
    let tx = begin(&db)?;
    let (up, down) = (tx.table("public", "parent")?.expect("table"), tx.table("public", "child")?.expect("table"));
    assert_eq!(down.foreign_keys, kept);
    assert_eq!(kept[0].referenced(&up), Some((Some(0), vec![1])));
    assert_eq!(tx.referrers(up.id)?.iter().map(|table| table.id).collect::<Vec<_>>(), [down.id]);
    let down = tx.add_foreign_key(&down, &up, foreign("two", None))?.done()?;
    let mut ids: Vec<u32> = down.foreign_keys.iter().map(|foreign| foreign.id).collect();
    ids.extend(down.indexes.iter().chain(&up.indexes).map(|index| index.id).chain([up.id, down.id]));
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6, "no id is given twice, not after a crash either");
    let up = tx.table("public", "parent")?.expect("table");
    let kind = |result: Result<()>| result.err().map(|error| error.kind());
    assert_eq!(kind(tx.drop_table(&up).map(|_| ())), Some(ErrorKind::DependentObjects));
    assert_eq!(kind(tx.drop_index(&up, "by_key").map(|_| ())), Some(ErrorKind::DependentObjects));
    for change in [TableChange::DropPrimaryKey, TableChange::DropColumn(1)] {
        assert_eq!(kind(tx.alter_table(&up, change).map(|_| ())), Some(ErrorKind::DependentObjects));
    }
    assert_eq!(kind(tx.alter_table(&down, TableChange::DropColumn(1)).map(|_| ())), Some(ErrorKind::DependentObjects));
    assert_eq!(kind(tx.drop_foreign_key(&down, "three").map(|_| ())), Some(ErrorKind::UndefinedObject));
    assert_eq!(
        kind(tx.add_foreign_key(&down, &up, foreign("child_pkey", None)).map(|_| ())),
        Some(ErrorKind::DuplicateObject)
    );
    // Columns go beside it; it follows.
    let up = tx.alter_table(&up, TableChange::DropColumn(2))?.done()?;
    let down = tx.drop_foreign_key(&down, "two")?.done()?;
    let up = tx.table_by_id(up.id)?.expect("table");
    assert_eq!(down.foreign_keys.len(), 1);
    assert_eq!(down.foreign_keys[0].referenced(&up), Some((Some(0), vec![1])));
    tx.drop_table(&down)?.done()?;
    let up = tx.table_by_id(up.id)?.expect("table");
    tx.drop_table(&up)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    assert!(begin(&db)?.tables()?.is_empty());
    db.close()
}

/// Ids of the rows that have a key in an index, and of those that depend on someone else.
fn with_key(tx: &Transaction, table: &Arc<Table>, index: usize, k: i64) -> Result<(Vec<i64>, Vec<i64>)> {
    tx.lock_rows(table)?.done()?;
    let mut found = tx.referencing(table, &Search::through(table, index), &[1], vec![Datum::Int8(k)])?;
    let (mut there, mut undecided) = (Vec::new(), Vec::new());
    while !found.is_over() {
        let Some(key) = found.step()? else { continue };
        let Datum::Int8(id) = table.decode_key(None, &key)?[0] else { panic!("an id") };
        match found.judge(&key)?.presence {
            Presence::Yes => there.push(id),
            Presence::No => {}
            Presence::Undecided(_) => undecided.push(id),
        }
    }
    Ok((there, undecided))
}

/// The index of a DEFERRABLE constraint takes equal keys; that there are some is seen by who looks, and when it is filled.
#[test]
fn equal_keys_in_a_deferrable_index() -> Result<()> {
    let vfs = SimVfs::new(7);
    let db = open(&vfs)?;
    let mut spec = parent();
    spec.indexes[0].constraint = true;
    spec.indexes[0].deferral = Deferral::Transaction;
    let table = create(&db, spec.clone())?;
    assert!(!table.keeps_out(Some(0), &[DatumRef::Int8(1)]) && table.must_differ(0, &[DatumRef::Int8(1)]));
    assert!(!table.must_differ(0, &[DatumRef::Null]));
    let (tx, other) = (begin(&db)?, begin(&db)?);
    tx.insert(&table, &row(5, 1, ""))?.done()?;
    other.insert(&table, &row(3, 1, ""))?.done()?;
    assert_eq!(with_key(&tx, &table, 0, 1)?, (vec![5], vec![3]));
    assert_eq!(with_key(&other, &table, 0, 1)?, (vec![3], vec![5]));
    // One that moves away may come back.
    other.update(&table, &key(&table, 3)?, Seen::Snapshot, &row(3, 2, ""))?.done()?;
    assert_eq!(with_key(&tx, &table, 0, 2)?, (vec![], vec![3]));
    let savepoint = other.savepoint()?;
    other.update(&table, &key(&table, 3)?, Seen::Snapshot, &row(9, 2, ""))?.done()?;
    assert_eq!(with_key(&tx, &table, 0, 2)?, (vec![], vec![3, 9]));
    other.rollback_to(savepoint)?;
    assert_eq!(with_key(&other, &table, 0, 2)?, (vec![3], vec![]));
    tx.insert(&table, &row(4, 1, ""))?.done()?;
    assert_eq!(with_key(&tx, &table, 0, 1)?, (vec![4, 5], vec![]));
    tx.commit(Durability::Sync)?.wait()?;
    other.rollback()?;
    drop(db);
    let vfs = vfs.crash();
    let db = open(&vfs)?;
    let tx = begin(&db)?;
    let table = tx.table("public", "parent")?.expect("table");
    assert_eq!(table.indexes[0].deferral, Deferral::Transaction);
    assert_eq!(with_key(&tx, &table, 0, 1)?, (vec![4, 5], vec![]));
    // Nobody judged them, so what is filled from the rows meets them: a new index, a rewrite, the index anew.
    let again = IndexSpec { name: "again".into(), ..spec.indexes[0].clone() };
    let kind = |result: Result<()>| result.err().map(|error| error.kind());
    assert_eq!(kind(tx.create_index(&table, again.clone()).map(|_| ())), Some(ErrorKind::UniqueViolation));
    tx.rollback()?;
    let tx = begin(&db)?;
    assert_eq!(kind(tx.reindex(&table, None).map(|_| ())), Some(ErrorKind::UniqueViolation));
    tx.rollback()?;
    let tx = begin(&db)?;
    let rewritten = tx.alter_table(&table, TableChange::DropPrimaryKey).map(|_| ());
    assert_eq!(kind(rewritten), Some(ErrorKind::UniqueViolation));
    tx.rollback()?;
    let tx = begin(&db)?;
    tx.delete(&table, &key(&table, 5)?, Seen::Snapshot)?.done()?;
    // More rows than a leaf has, and NULLs, which differ.
    for n in 100..1500 {
        tx.insert(&table, &row(n, n, ""))?.done()?;
    }
    for n in 2000..2003 {
        tx.insert(&table, &[DatumRef::Int8(n), DatumRef::Null, DatumRef::Null])?.done()?;
    }
    let table = tx.create_index(&table, again)?.done()?;
    assert_eq!(with_key(&tx, &table, 1, 1)?, (vec![4], vec![]));
    let alike = IndexSpec { name: "alike".into(), nulls_alike: true, ..spec.indexes[0].clone() };
    assert_eq!(kind(tx.create_index(&table, alike).map(|_| ())), Some(ErrorKind::UniqueViolation));
    tx.rollback()?;
    db.close()
}
