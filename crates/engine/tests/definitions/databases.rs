//! Databases in one: the same names in several, ids that no other one finds, and a dropped one's contents that go over
//! crashes at any moment, with their pages.

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs};

use crate::common::open::{is_traditional, open_as, small_log};

const OTHER: u32 = 70_000;
const THIRD: u32 = 70_001;

fn open(vfs: &SimVfs) -> Result<Database> {
    open_as(vfs, small_log(is_traditional()))
}

fn spec() -> TableSpec {
    TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .index("by_note", &["note"], false)
}

/// A table of the same name in each, a view, a sequence, objects; the table's one row has the database's number.
fn fill(db: &Database, databases: &[u32]) -> Result<()> {
    for database in databases {
        let tx = db.in_database(*database).begin(Isolation::ReadCommitted);
        let table = tx.create_table(spec())?.done()?;
        tx.insert(&table, &[DatumRef::Int8(i64::from(*database)), DatumRef::Text("a note")])?.done()?;
        tx.create_object("", "s", CatalogObject::new(ObjectKind::SCHEMA, Vec::new()))?.done()?;
        tx.create_object("s", "ty", CatalogObject::new(ObjectKind::TYPE, vec![1]))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
    }
    Ok(())
}

fn ids(db: &Database, database: u32) -> Result<Vec<i64>> {
    let tx = db.in_database(database).begin(Isolation::ReadCommitted);
    let Some(table) = tx.table("public", "t")? else { return Ok(Vec::new()) };
    let mut cursor = tx.view()?.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut out) = (RowBatch::default(), Vec::new());
    loop {
        batch.clear();
        let more = cursor.next_batch(&mut batch, 100)?;
        for at in 0..batch.len() {
            match table.column(batch.row(at), 0)? {
                DatumRef::Int8(id) => out.push(id),
                other => panic!("{other:?}"),
            }
        }
        if !more {
            return Ok(out);
        }
    }
}

fn whole(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    assert_eq!(tx.compare_definitions()?, Vec::<String>::new());
    drop(tx);
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

/// Drops what a database has, some at a time.
fn empty(db: &Database, database: u32, at_once: usize) -> Result<usize> {
    let mut all = 0;
    loop {
        let tx = db.begin(Isolation::ReadCommitted);
        let dropped = tx.drop_contents(database, at_once)?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        all += dropped;
        if dropped < at_once {
            return Ok(all);
        }
    }
}

#[test]
fn each_sees_its_own() -> Result<()> {
    let vfs = SimVfs::new(1);
    let db = open(&vfs)?;
    let all = [FIRST_DATABASE, OTHER, THIRD];
    fill(&db, &all)?;
    let tx = db.in_database(OTHER).begin(Isolation::ReadCommitted);
    tx.create_object("", "somebody", CatalogObject::new(ObjectKind::ROLE, Vec::new()))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    // Cut off: a name in one is no name in another.
    let tx = db.in_database(THIRD).begin(Isolation::ReadCommitted);
    tx.create_table(TableSpec::new("public", "only_here").column("a", ColumnType::Int4))?.done()?;
    assert!(tx.table("public", "only_here")?.is_some());
    assert!(db.in_database(OTHER).begin(Isolation::ReadCommitted).table("public", "only_here")?.is_none());
    drop(tx);
    drop(db);
    let db = open(&vfs.crash())?;
    for database in all {
        assert_eq!(ids(&db, database)?, [i64::from(database)]);
        for isolation in [Isolation::ReadCommitted, Isolation::RepeatableRead] {
            let tx = db.in_database(database).begin(isolation);
            assert_eq!(tx.tables()?.len(), 1);
            assert_eq!(tx.in_schema("public")?.len(), 1);
            assert_eq!((tx.objects(ObjectKind::SCHEMA)?.len(), tx.objects(ObjectKind::TYPE)?.len()), (1, 1));
            assert!(tx.object_named(ObjectKind::ROLE, "", "somebody")?.is_some(), "roles are of all");
            let table = tx.table("public", "t")?.expect("a table");
            assert!(tx.table_of_index("public", "by_note")?.is_some_and(|found| found.id == table.id));
            assert_eq!((table.database(), db.database_of(table.id)?), (Some(database), Some(database)));
            for other in all.into_iter().filter(|other| *other != database) {
                let tx = db.in_database(other).begin(isolation);
                assert!(tx.table_by_id(table.id)?.is_none(), "an id of another database");
            }
        }
    }
    assert!(db.databases_with_contents()?.into_iter().eq(all));
    // A name is taken in its database.
    let tx = db.in_database(OTHER).begin(Isolation::ReadCommitted);
    let taken = tx.create_table(spec()).err().map(|error| error.kind());
    assert_eq!(taken, Some(ErrorKind::DuplicateTable));
    drop(tx);
    whole(&db)
}

#[test]
fn a_dropped_ones_pages_are_free_after_a_crash_at_any_moment() -> Result<()> {
    let (mut before, mut between, mut after) = (0, 0, 0);
    for at in (0..).step_by(3) {
        let vfs = SimVfs::new(at);
        let db = open(&vfs)?;
        fill(&db, &[FIRST_DATABASE, OTHER])?;
        while db.write_back()? > 0 {}
        vfs.set_faults(FaultPlan { crash_after_ops: Some(at + 1), ..FaultPlan::default() });
        let run = || -> Result<()> {
            empty(&db, OTHER, 1)?;
            db.checkpoint()?;
            db.clean()?;
            while db.write_back()? > 0 {}
            Ok(())
        };
        let done = run().is_ok();
        drop(db);
        let db = open(&vfs.crash())?;
        db.finish_recovery()?;
        whole(&db)?;
        match empty(&db, OTHER, 2)? {
            3 => before += 1,
            0 => after += 1,
            _ => between += 1,
        }
        for _ in 0..4 {
            db.clean()?;
        }
        assert_eq!(ids(&db, FIRST_DATABASE)?, [i64::from(FIRST_DATABASE)]);
        assert!(db.databases_with_contents()?.into_iter().eq([FIRST_DATABASE]), "operation {at}");
        assert!(db.databases_of_pages()?.is_empty());
        // Pages that nobody has would be found here.
        whole(&db)?;
        assert_eq!(db.pending_frees_len()?, 0, "operation {at}: storage is still to be freed");
        if done {
            break;
        }
    }
    assert!(before > 0 && between > 0 && after > 0, "{before}, {between}, {after}");
    Ok(())
}
