//! Bytes of log for a row that is inserted, updated in a number of four bytes, or deleted, from the statement to the record: what
//! docs/measurements/log-bytes.md says (`examples/log_bytes.rs` measures it), of fewer rows.

use std::sync::Arc;

use crate::common::open::{open_as, small};
use resurgam_engine::*;
use resurgam_vfs::SimVfs;

/// Bytes of log since it was `before`.
fn since(db: &Database, before: u64) -> u64 {
    db.stats().log.record_bytes - before
}

/// Bytes of a row; then what it costs with versions, and in the traditional mode: an insert, an update, a deletion.
type Cost = (usize, [f64; 3], [f64; 3]);

const COSTS: [Cost; 4] = [
    (100, [174.0, 59.0, 55.0], [179.0, 90.0, 82.0]),
    (200, [279.0, 60.0, 56.0], [284.0, 91.0, 83.0]),
    (1000, [1108.0, 66.0, 62.0], [1113.0, 97.0, 89.0]),
    (4000, [4244.0, 85.0, 136.0], [4250.0, 116.0, 163.0]),
];
const ROWS: i64 = 2000;

struct Subject {
    db: Database,
    table: Arc<Table>,
    filler: String,
}

impl Subject {
    fn new(size: usize, traditional: bool) -> Result<Self> {
        let options = Options { buffer_bytes: 64 << 20, ..small(traditional) };
        let db = open_as(&SimVfs::new(size as u64), options)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "t")
            .column("id", ColumnType::Int8)
            .column("n", ColumnType::Int4)
            .column("filler", ColumnType::Text)
            .primary_key(&["id"]);
        let table = tx.create_table(spec)?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        Ok(Self { db, table, filler: "x".repeat(size - 12) })
    }

    fn row(&self, id: i64, n: i32) -> [DatumRef<'_>; 3] {
        [DatumRef::Int8(id), DatumRef::Int4(n), DatumRef::Text(&self.filler)]
    }

    /// Bytes of log a row.
    fn measured(&self, mut each: impl FnMut(&Transaction, i64, &[u8]) -> Result<()>) -> Result<f64> {
        self.db.checkpoint()?;
        let before = self.db.stats().log.record_bytes;
        let tx = self.db.begin(Isolation::ReadCommitted);
        tx.statement(StatementKind::BulkWrite)?;
        let mut key = Vec::new();
        for id in 0..ROWS {
            key.clear();
            self.table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
            each(&tx, id, &key)?;
        }
        let bytes = since(&self.db, before);
        tx.commit(Durability::Sync)?.wait()?;
        // The first change of a row without versions is what is measured. (Not of pages that were packed: these are divided again.)
        while self.db.clean_now()?.pages > 0 {}
        Ok(bytes as f64 / ROWS as f64)
    }
}

/// What `log_bytes_max` does not bound: a rollback of the traditional mode logs a third more than what it undoes did, at most.
#[test]
fn undoing_a_change_costs_little_more_than_the_change() -> Result<()> {
    for (size, ..) in COSTS {
        let subject = Subject::new(size, true)?;
        let (db, table) = (&subject.db, &subject.table);
        subject.measured(|tx, id, _| tx.insert(table, &subject.row(id, 0))?.done())?;
        let insert = |tx: &Transaction, id: i64, _: &[u8]| tx.insert(table, &subject.row(id + ROWS, 0))?.done();
        let update = |tx: &Transaction, id: i64, key: &[u8]| {
            tx.update(table, key, Seen::Snapshot, &subject.row(id, 7))?.done().map(|_| ())
        };
        let delete = |tx: &Transaction, _: i64, key: &[u8]| tx.delete(table, key, Seen::Snapshot)?.done().map(|_| ());
        type Work<'w> = &'w dyn Fn(&Transaction, i64, &[u8]) -> Result<()>;
        for (what, work) in [("insert", &insert as Work<'_>), ("update", &update), ("delete", &delete)] {
            let before = db.stats().log.record_bytes;
            let tx = db.begin(Isolation::ReadCommitted);
            tx.statement(StatementKind::BulkWrite)?;
            let mut key = Vec::new();
            for id in 0..ROWS {
                key.clear();
                table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
                work(&tx, id, &key)?;
            }
            let (written, before) = (since(db, before), db.stats().log.record_bytes);
            tx.rollback()?;
            let undone = since(db, before);
            eprintln!("rows of {size} bytes, {what}: {written} bytes, {undone} to undo it");
            assert!(undone * 3 <= written * 4, "{what} of {size}: {written} bytes, {undone} to undo it");
        }
    }
    Ok(())
}

#[test]
fn a_change_costs_what_it_changes() -> Result<()> {
    let mut wrong = Vec::new();
    for (size, with_versions, in_traditional) in COSTS {
        for (traditional, stated) in [(false, with_versions), (true, in_traditional)] {
            let subject = Subject::new(size, traditional)?;
            let table = &subject.table;
            let measured = [
                subject.measured(|tx, id, _| tx.insert(table, &subject.row(id, 0))?.done())?,
                subject.measured(|tx, id, key| {
                    let change = tx.update(table, key, Seen::Snapshot, &subject.row(id, 1))?.done()?;
                    assert_eq!(change, Change::Done);
                    Ok(())
                })?,
                subject.measured(|tx, _, key| {
                    assert_eq!(tx.delete(table, key, Seen::Snapshot)?.done()?, Change::Done);
                    Ok(())
                })?,
            ];
            eprintln!("rows of {size} bytes, traditional: {traditional}: {measured:.0?}, stated: {stated:.0?}");
            for ((what, bytes), stated) in ["insert", "update", "delete"].into_iter().zip(measured).zip(stated) {
                // Less is to be stated, too.
                if !(stated * 0.95..stated * 1.05).contains(&bytes) {
                    wrong.push(format!("{what} of {size}, traditional: {traditional}: {bytes:.0}, stated {stated}"));
                }
            }
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
    Ok(())
}
