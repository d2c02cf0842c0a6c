//! Columns of types that a layer above has made: labels as numbers in rows and keys, domains of columns; kept from being
//! dropped, rolled back, and found again after a crash.

use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::open;

fn make(tx: &Transaction, name: &str) -> Result<Arc<Table>> {
    tx.create_object("public", name, CatalogObject::new(ObjectKind::TYPE, name.as_bytes().to_vec()))?.done()
}

#[test]
fn columns_of_made_types_survive_a_crash() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(5);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let (label, domain, other) = (make(&tx, "label")?, make(&tx, "domain")?, make(&tx, "other")?);
        let list = ElementType::of(ColumnType::Enum(other.id)).expect("an element");
        let spec = TableSpec::new("public", "t")
            .column("k", ColumnType::Enum(label.id))
            .column("gone", ColumnType::Int4)
            .column("n", ColumnType::Int4)
            .column("l", ColumnType::Array(list))
            .primary_key(&["k"]);
        let table = tx.create_table(spec)?.done()?;
        let table = tx.set_domains(&table, vec![(1, domain.id), (2, domain.id)])?.done()?;
        // A column that goes takes its domain along, and moves those behind it.
        let table = tx.alter_table(&table, TableChange::DropColumn(1))?.done()?;
        assert_eq!(table.domains, [(1, domain.id)]);
        for number in [30, -10, 20] {
            let row = [DatumRef::Int8(number), DatumRef::Int4(1), DatumRef::Null];
            tx.insert(&table, &row)?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.expect("a table");
        tx.set_domains(&table, Vec::new())?.done()?;
        std::mem::forget(tx);
        let vfs = vfs.crash_clone(3);
        let db = open(&vfs, traditional)?;
        let tx = db.begin(Isolation::ReadCommitted);
        assert_eq!(tx.compare_definitions()?, Vec::<String>::new());
        let table = tx.table("public", "t")?.expect("a table");
        assert_eq!((table.domain(1), table.domain(0)), (Some(domain.id), None));
        assert_eq!(table.columns[0].ty, ColumnType::Enum(label.id));
        let view = tx.view()?;
        let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
        let mut batch = RowBatch::default();
        let mut numbers = Vec::new();
        while cursor.next_batch(&mut batch, 10)? {
            for at in 0..batch.len() {
                if let DatumRef::Int8(number) = table.column(batch.row(at), 0)? {
                    numbers.push(number);
                }
            }
            batch.clear();
        }
        assert_eq!(numbers, [-10, 20, 30]);
        for id in [label.id, domain.id, other.id] {
            let entry = tx.object_by_id(id)?.expect("a type");
            assert_eq!(tx.dependents(id)?.iter().map(|entry| entry.id).collect::<Vec<_>>(), [table.id]);
            let error = tx.drop_object(&entry).map(|_| ()).expect_err("it is needed");
            assert_eq!(error.kind(), ErrorKind::DependentObjects);
        }
        tx.drop_table(&table)?.done()?;
        for id in [label.id, domain.id, other.id] {
            let entry = tx.object_by_id(id)?.expect("a type");
            tx.drop_object(&entry)?.done()?;
        }
        let above = label.id + 1000;
        assert!(tx.new_part_id(above)? > above && tx.new_part_id(0)? > above);
        tx.commit(Durability::Sync)?.wait()?;
        assert!(db.begin(Isolation::ReadCommitted).objects(ObjectKind::TYPE)?.is_empty());
    }
    Ok(())
}
