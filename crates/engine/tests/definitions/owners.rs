//! Owners and rights in definitions: transactional like the rest of them, by savepoint, snapshot and crash, of tables, views,
//! sequences and objects that are no relations.

use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::open;

fn access(owner: u32, columns: &[usize]) -> Access {
    let grant = Grant { grantee: 0, grantor: owner, privileges: 2, options: 0 };
    let columns = columns.iter().map(|at| (*at, vec![grant])).collect();
    Access { grants: Some(vec![grant]), columns, ..Access::of(owner) }
}

fn set(tx: &Transaction, entry: &Arc<Table>, access: Access) -> Result<Arc<Table>> {
    tx.alter_table(entry, TableChange::SetAccess(Box::new(access)))?.done()
}

/// Owners of everything that a transaction sees, by name.
fn owners(tx: &Transaction) -> Result<Vec<(String, Option<Access>)>> {
    let entries =
        tx.tables()?.into_iter().chain(tx.views()?).chain(tx.sequences()?).chain(tx.objects(ObjectKind::SCHEMA)?);
    assert_eq!(tx.compare_definitions()?, Vec::<String>::new());
    Ok(entries.map(|entry| (entry.name.clone(), entry.access.as_deref().cloned())).collect())
}

#[test]
fn owners_and_rights_commit_roll_back_and_recover() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(21);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "t").column("a", ColumnType::Int8).column("b", ColumnType::Int8);
        let table = tx.create_table(spec.column("c", ColumnType::Int8))?.done()?;
        let schema = tx.create_object("", "s", CatalogObject::new(ObjectKind::SCHEMA, Vec::new()))?.done()?;
        let table = set(&tx, &table, access(20, &[1, 2]))?;
        set(&tx, &schema, access(21, &[]))?;
        tx.commit(Durability::Sync)?.wait()?;
        let before = vec![("t".to_owned(), Some(access(20, &[1, 2]))), ("s".to_owned(), Some(access(21, &[])))];

        let old = db.begin(Isolation::RepeatableRead);
        old.statement(StatementKind::Read)?;
        assert_eq!(owners(&old)?, before);
        let tx = db.begin(Isolation::ReadCommitted);
        let mark = tx.savepoint()?;
        // What everything has without a word is not said.
        let changed = set(&tx, &table, Access::FIRST)?;
        assert_eq!(changed.access, None);
        tx.rollback_to(mark)?;
        assert_eq!(owners(&tx)?, before);
        // Columns that go take theirs along; those behind move up.
        let table = tx.alter_table(&table, TableChange::DropColumn(1))?.done()?;
        assert_eq!(table.access.as_deref(), Some(&access(20, &[1])));
        let schema = tx.object_named(ObjectKind::SCHEMA, "", "s")?.expect("made");
        tx.rename_object(&schema, "", "z")?.done()?;
        assert_eq!(owners(&old)?, before);
        tx.commit(Durability::Sync)?.wait()?;
        drop(old);
        let after = vec![("t".to_owned(), Some(access(20, &[1]))), ("z".to_owned(), Some(access(21, &[])))];

        // What a crash cuts off is gone, what was committed is there.
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.expect("made");
        set(&tx, &table, access(22, &[0]))?;
        let other = db.begin(Isolation::ReadCommitted);
        other.create_object("", "r", CatalogObject::new(ObjectKind::ROLE, Vec::new()))?.done()?;
        other.commit(Durability::Sync)?.wait()?;
        std::mem::forget(tx);
        let vfs = vfs.crash_clone(3);
        let db = open(&vfs, traditional)?;
        assert_eq!(owners(&db.begin(Isolation::ReadCommitted))?, after);
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}
