//! Bytes of log, and bytes that versions take in pages, per row: one transaction that inserts, updates (a
//! 4-byte integer) or deletes rows, in both recovery modes, from an empty log.
//!
//! `cargo run --release -p resurgam-engine --example log_bytes -- FOLDER [rows]`

use std::sync::Arc;

use resurgam_engine::*;

const SIZES: [usize; 4] = [100, 200, 1000, 4000];

struct Subject {
    db: Database,
    table: Arc<Table>,
    filler: String,
    rows: i64,
}

impl Subject {
    fn row(&self, id: i64, n: i32) -> [DatumRef<'_>; 3] {
        [DatumRef::Int8(id), DatumRef::Int4(n), DatumRef::Text(&self.filler)]
    }

    /// Bytes of log a row, and of pages that were added.
    fn measured(&self, work: impl FnOnce(&Transaction) -> Result<()>) -> Result<(f64, f64)> {
        self.db.checkpoint()?;
        let pages = |db: &Database| {
            let stats = db.stats().pool;
            stats.pages_allocated as i64 - stats.pages_freed as i64
        };
        let (log, before) = (self.db.stats().log.record_bytes, pages(&self.db));
        let tx = self.db.begin(Isolation::ReadCommitted);
        tx.statement(StatementKind::BulkWrite)?;
        work(&tx)?;
        let log = self.db.stats().log.record_bytes - log;
        let grown = (pages(&self.db) - before) * limits::PAGE_SIZE as i64;
        tx.commit(Durability::Sync)?.wait()?;
        while self.db.clean()?.pages > 0 {}
        Ok((log as f64 / self.rows as f64, grown as f64 / self.rows as f64))
    }

    fn each(&self, tx: &Transaction, mut change: impl FnMut(&[u8], i64) -> Result<()>) -> Result<()> {
        let mut key = Vec::new();
        for id in 0..self.rows {
            key.clear();
            self.table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
            change(&key, id)?;
        }
        let _ = tx;
        Ok(())
    }
}

fn main() -> Result<()> {
    let folder = std::env::args().nth(1).unwrap_or_else(|| "./log-bytes".into());
    let rows: i64 = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(20_000);
    println!(
        "{:>6} {:<12} {:>10} {:>10} {:>10}   (log; growth of pages) bytes a row",
        "row", "mode", "insert", "update", "delete"
    );
    for size in SIZES {
        for accelerated in [true, false] {
            let dir = format!("{folder}/{size}-{accelerated}");
            let options = Options {
                accelerated_database_recovery: accelerated,
                cleaner_interval_s: 1e6,
                buffer_bytes: 512 << 20,
                ..Options::default()
            };
            let db = Database::open(&dir, options)?;
            let tx = db.begin(Isolation::ReadCommitted);
            let spec = TableSpec::new("public", "t")
                .column("id", ColumnType::Int8)
                .column("n", ColumnType::Int4)
                .column("filler", ColumnType::Text)
                .primary_key(&["id"]);
            let table = tx.create_table(spec)?.done()?;
            tx.commit(Durability::Sync)?.wait()?;
            let subject = Subject { db, table, filler: "x".repeat(size - 12), rows };
            let inserted = subject.measured(|tx| {
                let mut bulk = tx.bulk_insert(&subject.table);
                (0..rows).try_for_each(|id| bulk.push(&subject.row(id, 0))?.done())
            })?;
            let updated = subject.measured(|tx| {
                subject.each(tx, |key, id| {
                    assert_eq!(
                        tx.update(&subject.table, key, Seen::Snapshot, &subject.row(id, 1))?.done()?,
                        Change::Done
                    );
                    Ok(())
                })
            })?;
            let deleted = subject.measured(|tx| {
                subject.each(tx, |key, _| {
                    assert_eq!(tx.delete(&subject.table, key, Seen::Snapshot)?.done()?, Change::Done);
                    Ok(())
                })
            })?;
            let mode = if accelerated { "versions" } else { "traditional" };
            let shown = |(log, pages): (f64, f64)| format!("{log:.0}; {pages:.0}");
            println!("{size:>6} {mode:<12} {:>10} {:>10} {:>10}", shown(inserted), shown(updated), shown(deleted));
            subject.db.close()?;
        }
    }
    Ok(())
}
