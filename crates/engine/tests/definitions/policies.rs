//! Policies: objects of the catalog with a query. Transactional by savepoint, snapshot and crash, found by their table,
//! and in the way of what they read.

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::open;

fn object(table: &Table, body: &str) -> CatalogObject {
    CatalogObject { kind: ObjectKind::POLICY, needs: vec![table.id], body: body.as_bytes().to_vec() }
}

/// A query that reads column `at` of a table.
fn query(table: &Table, at: usize) -> View {
    let columns = table.columns.iter().enumerate();
    let columns = columns.map(|(n, column)| SeenColumn { name: column.name.clone(), at: n, used: n == at }).collect();
    let relation = ViewRelation { id: table.id, schema: table.schema.clone(), name: table.name.clone(), columns };
    View { sql: format!("SELECT 1 FROM t WHERE c{at} = 1"), relations: vec![relation], ..View::default() }
}

/// Names, bodies and queries of a table's policies.
fn seen(tx: &Transaction, table: u32) -> Result<Vec<(String, String, String)>> {
    let mut out = Vec::new();
    for entry in tx.policies_of(table)? {
        let found = tx.policy_named(table, &entry.name)?.expect("what is listed has its name");
        assert_eq!((found.id, found.policy_of()), (entry.id, Some(table)));
        let body = String::from_utf8_lossy(&entry.object.as_ref().expect("an object").body).into_owned();
        out.push((entry.name.clone(), body, entry.view.as_ref().expect("a query").sql.clone()));
    }
    assert!(tx.views()?.iter().all(|view| view.policy_of().is_none()), "a policy is no view");
    assert_eq!(tx.compare_definitions()?, Vec::<String>::new());
    Ok(out)
}

fn expected(all: &[(&str, &str, usize)]) -> Vec<(String, String, String)> {
    let of = |(name, body, at): &(&str, &str, usize)| {
        ((*name).to_owned(), (*body).to_owned(), format!("SELECT 1 FROM t WHERE c{at} = 1"))
    };
    all.iter().map(of).collect()
}

#[test]
fn policies_commit_roll_back_and_recover() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(31);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "t").column("c0", ColumnType::Int8).column("c1", ColumnType::Int8);
        let table = tx.create_table(spec.column("c2", ColumnType::Int8))?.done()?;
        let other = tx.create_table(TableSpec::new("public", "u").column("c0", ColumnType::Int8))?.done()?;
        tx.create_policy(table.id, "b", object(&table, "1"), query(&table, 1))?.done()?;
        tx.create_policy(table.id, "a", object(&table, "2"), query(&table, 0))?.done()?;
        // The same name, of another table.
        tx.create_policy(other.id, "a", object(&other, "3"), query(&other, 0))?.done()?;
        let taken = tx.create_policy(table.id, "a", object(&table, "4"), query(&table, 0)).map(|_| ());
        assert_eq!(taken.expect_err("the name is taken").kind(), ErrorKind::DuplicateObject);
        tx.commit(Durability::Sync)?.wait()?;
        let before = expected(&[("a", "2", 0), ("b", "1", 1)]);
        assert_eq!(seen(&db.begin(Isolation::ReadCommitted), table.id)?, before);

        let tx = db.begin(Isolation::ReadCommitted);
        let mark = tx.savepoint()?;
        let a = tx.policy_named(table.id, "a")?.expect("made");
        let a = tx.replace_policy(&a, object(&table, "5"), query(&table, 2))?.done()?;
        tx.rename_object(&a, &a.schema, "z")?.done()?;
        tx.drop_object(&tx.policy_named(table.id, "b")?.expect("made"))?.done()?;
        assert_eq!(seen(&tx, table.id)?, expected(&[("z", "5", 2)]));
        tx.rollback_to(mark)?;
        assert_eq!(seen(&tx, table.id)?, before);
        // What it reads is not dropped before it: a column, the table.
        let refused = |result: Result<()>| assert_eq!(result.expect_err("read").kind(), ErrorKind::DependentObjects);
        refused(tx.alter_table(&table, TableChange::DropColumn(1)).map(|_| ()));
        refused(tx.drop_table(&table).map(|_| ()));
        // Another column may go, and positions follow.
        let table = tx.alter_table(&table, TableChange::DropColumn(2))?.done()?;
        tx.drop_object(&tx.policy_named(table.id, "a")?.expect("made"))?.done()?;
        let table = tx.alter_table(&table, TableChange::DropColumn(0))?.done()?;
        let b = tx.policy_named(table.id, "b")?.expect("made");
        assert!(b.view.as_ref().is_some_and(|view| view.reads(table.id, 0)), "what was column 1 is column 0");
        tx.commit(Durability::Sync)?.wait()?;
        let after = expected(&[("b", "1", 1)]);

        // What a crash cuts off is gone, what was committed is there.
        let tx = db.begin(Isolation::ReadCommitted);
        tx.create_policy(table.id, "c", object(&table, "6"), query(&table, 0))?.done()?;
        let access = Access { row_security: true, ..Access::FIRST };
        tx.alter_table(&other, TableChange::SetAccess(Box::new(access)))?.done()?;
        // Its log is durable with that of somebody else.
        let writer = db.begin(Isolation::ReadCommitted);
        writer.create_table(TableSpec::new("public", "w").column("id", ColumnType::Int8))?.done()?;
        writer.commit(Durability::Sync)?.wait()?;
        std::mem::forget(tx);
        let vfs = vfs.crash_clone(5);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        assert_eq!(seen(&tx, table.id)?, after);
        assert_eq!(tx.table("public", "u")?.and_then(|table| table.access.clone()), None);
        // A table without policies goes.
        tx.drop_object(&tx.policy_named(table.id, "b")?.expect("made"))?.done()?;
        tx.drop_table(&tx.table("public", "t")?.expect("there"))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}
