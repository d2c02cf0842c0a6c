//! Schemas as the engine has them: relations move between them with all their names, and who makes something in one and who
//! drops it find each other.

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::open;

fn spec(schema: &str, name: &str) -> TableSpec {
    let mut spec = TableSpec::new(schema, name).column("id", ColumnType::Int8).column("n", ColumnType::Int4);
    spec.primary_key = Some((format!("{name}_pkey"), vec![0]));
    spec.indexes.push(IndexSpec {
        name: format!("{name}_n"),
        columns: vec![1],
        orders: Vec::new(),
        unique: false,
        constraint: false,
        nulls_alike: false,
    });
    spec
}

/// Names of a schema that are taken.
fn names(tx: &Transaction, schema: &str) -> Result<Vec<&'static str>> {
    let mut found = Vec::new();
    for name in ["t", "t_pkey", "t_n"] {
        if tx.relation(schema, name)?.is_some() {
            found.push(name);
        }
    }
    assert_eq!(tx.table(schema, "t")?.is_some(), found.contains(&"t"));
    assert_eq!(tx.in_schema(schema)?.iter().any(|entry| entry.name == "t"), found.contains(&"t"));
    Ok(found)
}

const ALL: [&str; 3] = ["t", "t_pkey", "t_n"];
const NONE: [&str; 0] = [];

#[test]
fn relations_move_with_their_names() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(21);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.create_table(spec("a", "t"))?.done()?;
        tx.insert(&table, &[DatumRef::Int8(1), DatumRef::Int4(2)])?.done()?;
        tx.commit(Durability::Sync)?.wait()?;

        // What is rolled back, to a savepoint and whole, has not moved; others see it where it was.
        let tx = db.begin(Isolation::ReadCommitted);
        let mark = tx.savepoint()?;
        tx.set_schema(&table, "b")?.done()?;
        assert_eq!((names(&tx, "a")?.as_slice(), names(&tx, "b")?.as_slice()), (&NONE[..], &ALL[..]));
        let other = db.begin(Isolation::ReadCommitted);
        assert!(other.table("a", "t")?.is_some() && other.table("b", "t")?.is_none());
        tx.rollback_to(mark)?;
        assert_eq!((names(&tx, "a")?.as_slice(), names(&tx, "b")?.as_slice()), (&ALL[..], &NONE[..]));
        assert_eq!(tx.compare_definitions()?, Vec::<String>::new());
        // A name that is taken there.
        tx.create_table(spec("b", "t_pkey").column("m", ColumnType::Int4))?.done()?;
        let table = tx.table("a", "t")?.expect("it is there");
        let error = tx.set_schema(&table, "b").map(|_| ()).expect_err("a name is taken");
        assert_eq!(error.kind(), ErrorKind::DuplicateTable);
        tx.rollback()?;

        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("a", "t")?.expect("it is there");
        tx.set_schema(&table, "b")?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        // Away again, and cut off by a crash when its log is durable.
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("b", "t")?.expect("it is there");
        tx.set_schema(&table, "c")?.done()?;
        let other = db.begin(Isolation::ReadCommitted);
        other.create_table(TableSpec::new("a", "x").column("id", ColumnType::Int8))?.done()?;
        other.commit(Durability::Sync)?.wait()?;
        std::mem::forget(tx);
        let vfs = vfs.crash_clone(5);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        assert_eq!((names(&tx, "a")?.as_slice(), names(&tx, "c")?.as_slice()), (&NONE[..], &NONE[..]));
        assert_eq!(names(&tx, "b")?, ALL);
        let table = tx.table("b", "t")?.expect("it is there");
        assert!(tx.has_rows(&table)?);
        assert_eq!(tx.compare_definitions()?, Vec::<String>::new());
        drop(tx);
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn a_schema_that_is_used_is_kept() -> Result<()> {
    let db = open(&SimVfs::new(22), false)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let schema = tx.create_object("", "a", CatalogObject::new(ObjectKind::SCHEMA, vec![0]))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    // Makers are not in each other's way; the dropper waits for them and finds what they made.
    let makers = [db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted)];
    for maker in &makers {
        maker.keep(&schema)?.done()?;
        maker.keep_public()?.done()?;
    }
    makers[0].create_table(spec("a", "t"))?.done()?;
    let dropper = db.begin(Isolation::ReadCommitted);
    assert!(matches!(dropper.lock_for_change(&schema)?, Attempt::Wait(_)));
    assert!(matches!(dropper.lock_public_alone()?, Attempt::Wait(_)));
    let [first, second] = makers;
    first.commit(Durability::Sync)?.wait()?;
    second.rollback()?;
    dropper.lock_for_change(&schema)?.done()?;
    dropper.lock_public_alone()?.done()?;
    assert_eq!(dropper.in_schema("a")?.len(), 1);
    // Whoever comes later waits for him.
    let maker = db.begin(Isolation::ReadCommitted);
    assert!(matches!(maker.keep(&schema)?, Attempt::Wait(_)));
    assert!(matches!(maker.keep_public()?, Attempt::Wait(_)));
    let table = dropper.table("a", "t")?.expect("it is there");
    dropper.drop_table(&table)?.done()?;
    dropper.drop_object(&schema)?.done()?;
    dropper.commit(Durability::Sync)?.wait()?;
    let error = maker.keep(&schema).map(|_| ()).expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::DefinitionChanged);
    maker.keep_public()?.done()?;
    Ok(())
}

/// What cannot have all of its names has none, also where its transaction goes on and commits.
#[test]
fn a_name_that_is_taken_leaves_none_behind() -> Result<()> {
    for traditional in [false, true] {
        let db = open(&SimVfs::new(22), traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        tx.create_table(TableSpec::new("a", "t_n").column("id", ColumnType::Int8))?.done()?;
        tx.create_table(spec("b", "t"))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        let tx = db.begin(Isolation::ReadCommitted);
        let error = tx.create_table(spec("a", "t")).map(drop).expect_err("a name is taken");
        assert_eq!(error.kind(), ErrorKind::DuplicateTable);
        let other = tx.table("b", "t")?.expect("it is there");
        let error = tx.set_schema(&other, "a").map(drop).expect_err("a name is taken");
        assert_eq!(error.kind(), ErrorKind::DuplicateTable);
        tx.commit(Durability::Sync)?.wait()?;
        let tx = db.begin(Isolation::ReadCommitted);
        let taken = tx.table("a", "t_n")?.expect("it is there");
        tx.drop_table(&taken)?.done()?;
        tx.create_table(spec("a", "t"))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        let tx = db.begin(Isolation::ReadCommitted);
        assert_eq!((names(&tx, "a")?.as_slice(), names(&tx, "b")?.as_slice()), (&ALL[..], &ALL[..]));
    }
    Ok(())
}
