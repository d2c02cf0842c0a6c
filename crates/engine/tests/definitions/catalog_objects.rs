//! Objects of the catalog that are no relations: transactional like definitions, by savepoint, snapshot and crash; and kept
//! from going while something needs them.

use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::open;

fn role(body: &str) -> CatalogObject {
    CatalogObject::new(ObjectKind::ROLE, body.as_bytes().to_vec())
}

fn make(tx: &Transaction, name: &str, body: &str) -> Result<Arc<Table>> {
    tx.create_object("", name, role(body))?.done()
}

/// Names and bodies of the roles that a transaction sees, each found in all three ways.
fn seen(tx: &Transaction) -> Result<Vec<(String, String)>> {
    let all = tx.objects(ObjectKind::ROLE)?;
    for role in &all {
        let by_name = tx.object_named(ObjectKind::ROLE, "", &role.name)?.expect("what is listed has its name");
        let by_id = tx.object_by_id(role.id)?.expect("what is listed has its id");
        assert_eq!((by_name.id, by_id.id), (role.id, role.id));
    }
    assert_eq!(tx.compare_definitions()?, Vec::<String>::new());
    Ok(all.iter().map(|role| (role.name.clone(), body(role))).collect())
}

fn body(entry: &Table) -> String {
    String::from_utf8_lossy(&entry.object.as_ref().expect("an object").body).into_owned()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(name, body)| ((*name).to_owned(), (*body).to_owned())).collect()
}

#[test]
fn changes_commit_roll_back_and_recover() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(11);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        make(&tx, "a", "1")?;
        // Of more than one chunk.
        make(&tx, "b", &"long ".repeat(2000))?;
        tx.commit(Durability::Sync)?.wait()?;
        let before = pairs(&[("a", "1"), ("b", &"long ".repeat(2000))]);

        // A snapshot keeps what it saw; others see nothing that is not committed.
        let old = db.begin(Isolation::RepeatableRead);
        old.statement(StatementKind::Read)?;
        assert_eq!(seen(&old)?, before);
        let tx = db.begin(Isolation::ReadCommitted);
        let a = tx.object_named(ObjectKind::ROLE, "", "a")?.expect("made");
        let a = tx.replace_object(&a, Vec::new(), b"2".to_vec())?.done()?;
        let mark = tx.savepoint()?;
        tx.rename_object(&a, "", "z")?.done()?;
        let b = tx.object_named(ObjectKind::ROLE, "", "b")?.expect("made");
        tx.drop_object(&b)?.done()?;
        make(&tx, "b", "3")?;
        assert_eq!(seen(&tx)?, pairs(&[("b", "3"), ("z", "2")]));
        assert_eq!(seen(&db.begin(Isolation::ReadCommitted))?, before);
        tx.rollback_to(mark)?;
        assert_eq!(seen(&tx)?, pairs(&[("a", "2"), ("b", &"long ".repeat(2000))]));
        let error = tx.create_object("", "b", role("4")).map(|_| ()).expect_err("the name is taken");
        assert_eq!(error.kind(), ErrorKind::DuplicateObject);
        tx.commit(Durability::Sync)?.wait()?;
        assert_eq!(seen(&old)?, before);
        drop(old);
        let after = pairs(&[("a", "2"), ("b", &"long ".repeat(2000))]);
        let tx = db.begin(Isolation::ReadCommitted);
        assert_eq!(seen(&tx)?, after);
        drop(tx);

        // What a crash cuts off is gone, what was committed is there.
        let tx = db.begin(Isolation::ReadCommitted);
        make(&tx, "c", "5")?;
        tx.drop_object(&tx.object_named(ObjectKind::ROLE, "", "a")?.expect("made"))?.done()?;
        // Its log is durable with that of somebody else.
        let other = db.begin(Isolation::ReadCommitted);
        other.create_table(TableSpec::new("public", "t").column("id", ColumnType::Int8))?.done()?;
        other.commit(Durability::Sync)?.wait()?;
        std::mem::forget(tx);
        let vfs = vfs.crash_clone(3);
        let db = open(&vfs, traditional)?;
        assert_eq!(seen(&db.begin(Isolation::ReadCommitted))?, after);
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

/// Names are by kind and schema, and objects are no relations.
#[test]
fn names_are_by_kind() -> Result<()> {
    let db = open(&SimVfs::new(12), false)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(TableSpec::new("public", "x").column("id", ColumnType::Int8))?.done()?;
    let of_type = |body: &[u8]| CatalogObject::new(ObjectKind::TYPE, body.to_vec());
    let public = tx.create_object("public", "x", of_type(b"p"))?.done()?;
    let other = tx.create_object("other", "x", of_type(b"o"))?.done()?;
    let role = make(&tx, "x", "r")?;
    let ids = [table.id, public.id, other.id, role.id];
    tx.commit(Durability::Sync)?.wait()?;
    let tx = db.begin(Isolation::ReadCommitted);
    {
        assert_eq!(tx.table("public", "x")?.map(|found| found.id), Some(ids[0]));
        let of = |kind, schema: &str| Ok::<_, Error>(tx.object_named(kind, schema, "x")?.map(|found| found.id));
        assert_eq!(of(ObjectKind::TYPE, "public")?, Some(ids[1]));
        assert_eq!(of(ObjectKind::TYPE, "other")?, Some(ids[2]));
        assert_eq!(of(ObjectKind::ROLE, "")?, Some(ids[3]));
        assert_eq!(of(ObjectKind::SCHEMA, "")?, None);
        assert_eq!(tx.tables()?.len(), 1);
        assert!(tx.table_by_id(ids[3])?.is_none() && tx.object_by_id(ids[0])?.is_none());
    }
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

/// An extension is in a schema and moves to another, but its name is taken once in the database.
#[test]
fn an_extension_has_a_schema_and_a_name_of_the_database() -> Result<()> {
    let vfs = SimVfs::new(17);
    let db = open(&vfs, false)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let extension = || CatalogObject::new(ObjectKind::EXTENSION, b"1".to_vec());
    let made = tx.create_object("a", "x", extension())?.done()?;
    let error = tx.create_object("b", "x", extension()).map(|_| ()).expect_err("the name is taken");
    assert_eq!(error.kind(), ErrorKind::DuplicateObject);
    let moved = tx.rename_object(&made, "b", "x")?.done()?;
    assert_eq!((moved.schema.as_str(), moved.id), ("b", made.id));
    tx.commit(Durability::Sync)?.wait()?;
    let db = open(&vfs.crash_clone(5), false)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let found = tx.object_named(ObjectKind::EXTENSION, "", "x")?.expect("it is there after a crash");
    assert_eq!((found.schema.as_str(), found.id), ("b", made.id));
    assert_eq!(tx.in_schema("b")?.len(), 1);
    assert_eq!(tx.compare_definitions()?, Vec::<String>::new());
    tx.drop_object(&found)?.done()?;
    tx.create_object("a", "x", extension())?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

/// Who drops an object and who makes something that needs it find each other, whoever comes first.
#[test]
fn what_is_needed_stays() -> Result<()> {
    let db = open(&SimVfs::new(13), false)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let base = make(&tx, "base", "")?;
    tx.commit(Durability::Sync)?.wait()?;

    let maker = db.begin(Isolation::ReadCommitted);
    let member = CatalogObject { needs: vec![base.id], ..role("member") };
    let member = maker.create_object("", "member", member)?.done()?;
    let dropper = db.begin(Isolation::ReadCommitted);
    assert!(matches!(dropper.drop_object(&base)?, Attempt::Wait(_)), "it is needed by somebody who may commit");
    maker.commit(Durability::Sync)?.wait()?;
    let error = dropper.drop_object(&base).map(|_| ()).expect_err("it is needed");
    assert_eq!(error.kind(), ErrorKind::DependentObjects);
    assert_eq!(dropper.dependents(base.id)?.iter().map(|entry| entry.id).collect::<Vec<_>>(), [member.id]);
    dropper.rollback()?;

    // The other way round: who comes second finds it gone.
    let tx = db.begin(Isolation::ReadCommitted);
    let member = tx.replace_object(&member, Vec::new(), b"alone".to_vec())?.done()?;
    assert!(tx.dependents(base.id)?.is_empty());
    tx.commit(Durability::Sync)?.wait()?;
    let dropper = db.begin(Isolation::ReadCommitted);
    dropper.drop_object(&base)?.done()?;
    let maker = db.begin(Isolation::ReadCommitted);
    assert!(matches!(maker.replace_object(&member, vec![base.id], Vec::new())?, Attempt::Wait(_)));
    dropper.commit(Durability::Sync)?.wait()?;
    let error = maker.replace_object(&member, vec![base.id], Vec::new()).map(|_| ()).expect_err("it is gone");
    assert_eq!(error.kind(), ErrorKind::DefinitionChanged);
    maker.rollback()?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

/// What a prepared transaction has made has no tree of its own, and is in no definition that anybody sees: its ids are not given out again.
#[test]
fn ids_of_prepared_transactions_are_theirs_after_a_crash() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(14);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        for name in ["a", "b", "c"] {
            make(&tx, name, "prepared")?;
        }
        tx.prepare("in doubt", "anna", "postgres")?.wait()?;
        let vfs = vfs.crash();
        drop(db);
        let db = open(&vfs, traditional)?;
        db.finish_recovery()?;
        let tx = db.begin(Isolation::ReadCommitted);
        for name in ["d", "e", "f"] {
            make(&tx, name, "later")?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        db.commit_prepared("in doubt")?.wait()?;
        let tx = db.begin(Isolation::ReadCommitted);
        let all = seen(&tx)?;
        assert_eq!(all.len(), 6, "{all:?}, traditional {traditional}");
    }
    Ok(())
}
