//! What cursors find, against a plain map, while rows come and go in runs.

use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

use crate::common::{key, row};

fn options(traditional: bool) -> Options {
    Options {
        buffer_bytes: 2048 * limits::PAGE_SIZE,
        accelerated_database_recovery: !traditional,
        background: false,
        ..Options::default()
    }
}

pub fn open(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let db = Database::open_with(shared, Path::new("/db"), options(traditional), |_| {})?;
    db.finish_recovery()?;
    Ok(db)
}

/// A table with an index over `v`, which falls as `id` grows.
pub fn made(db: &Database, rows: i64) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "q").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    let table = tx.create_table(spec.column("note", ColumnType::Text).primary_key(&["id"]))?.done()?;
    let table = tx
        .create_index(
            &table,
            IndexSpec {
                name: "q_v".into(),
                columns: vec![1],
                orders: Vec::new(),
                unique: false,
                constraint: false,
                nulls_alike: false,
                deferral: Deferral::Never,
            },
        )?
        .done()?;
    tx.statement(StatementKind::BulkWrite)?;
    for id in 0..rows {
        tx.insert(&table, &row(id, -id, &"n".repeat(100)))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(table)
}

/// Against a plain map: what every view finds in ranges of both directions while rows come, go and come back.
pub fn run(seed: u64) -> Result<()> {
    let traditional = seed.is_multiple_of(3);
    let db = open(&SimVfs::new(seed), traditional)?;
    let table = made(&db, 0)?;
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut below = |n: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) % n
    };
    let ids = |view: &ReadView, range: KeyRange, direction: Direction, most: usize| -> Result<Vec<i64>> {
        let mut cursor = view.scan(&table, range, direction);
        let (mut batch, mut ids) = (RowBatch::default(), Vec::new());
        while ids.len() < most {
            batch.clear();
            if !cursor.next_batch(&mut batch, 7.min(most - ids.len()))? {
                break;
            }
            for at in 0..batch.len() {
                let DatumRef::Int8(id) = table.column(batch.row(at), 0)? else { panic!("the id is an int8") };
                ids.push(id);
            }
        }
        Ok(ids)
    };
    let mut committed = BTreeSet::new();
    // Snapshots that stay open, and what they see.
    let mut early: Vec<(Transaction, ReadView, BTreeSet<i64>)> = Vec::new();
    for _ in 0..120 {
        let tx = db.begin(Isolation::ReadCommitted);
        let mut own = committed.clone();
        let mut saved: Option<(Savepoint, BTreeSet<i64>)> = None;
        for _ in 0..1 + below(4) {
            match below(10) {
                0..=2 => {
                    // Some that follow each other come.
                    let from = below(900) as i64;
                    tx.statement(StatementKind::BulkWrite)?;
                    for id in from..from + 1 + below(120) as i64 {
                        if own.insert(id) {
                            tx.insert(&table, &row(id, -id, "n"))?.done()?;
                        }
                    }
                }
                3..=6 => {
                    // Some go, from an end or from the middle.
                    let count = 1 + below(300) as usize;
                    let gone: Vec<i64> = match below(3) {
                        0 => own.iter().copied().take(count).collect(),
                        1 => own.iter().rev().copied().take(count).collect(),
                        _ => own.range(below(900) as i64..).copied().take(count).collect(),
                    };
                    tx.statement(StatementKind::BulkWrite)?;
                    for id in gone {
                        assert_eq!(tx.delete(&table, &key(&table, id)?, Seen::Snapshot)?.done()?, Change::Done);
                        own.remove(&id);
                    }
                }
                7 => saved = Some((tx.savepoint()?, own.clone())),
                8 => {
                    if let Some((savepoint, before)) = saved.take() {
                        tx.rollback_to(savepoint)?;
                        own = before;
                    }
                }
                _ => {}
            }
            let other = db.begin(Isolation::ReadCommitted);
            for (view, expected) in
                [(tx.statement(StatementKind::Read)?, &own), (other.statement(StatementKind::Read)?, &committed)]
                    .iter()
                    .map(|(view, set)| (view, *set))
                    .chain(early.iter().map(|(_, view, set)| (view, set)))
            {
                let (a, b) = (below(1100) as i64, below(1100) as i64);
                let (low, high) = (a.min(b), a.max(b));
                let most = [1, 1, 3, usize::MAX][below(4) as usize];
                let (range, inside): (KeyRange, Vec<i64>) = match below(3) {
                    0 => (KeyRange::all(), expected.iter().copied().collect()),
                    1 => (
                        KeyRange { low: Bound::Included(key(&table, low)?), high: Bound::Unbounded },
                        expected.range(low..).copied().collect(),
                    ),
                    _ => (
                        KeyRange { low: Bound::Excluded(key(&table, low)?), high: Bound::Included(key(&table, high)?) },
                        expected.range(low + 1..high.max(low) + 1).copied().collect(),
                    ),
                };
                // Before anything is looked at that readers would clean.
                assert_eq!(view.count(&table, range.clone())?, inside.len() as u64, "seed {seed}, count of {range:?}");
                let found = ids(view, range.clone(), Direction::Forward, most)?;
                let wanted: Vec<i64> = inside.iter().copied().take(most).collect();
                assert_eq!(found, wanted, "seed {seed}, {range:?} up");
                let found = ids(view, range.clone(), Direction::Backward, most)?;
                let wanted: Vec<i64> = inside.iter().rev().copied().take(most).collect();
                assert_eq!(found, wanted, "seed {seed}, {range:?} down");
            }
            other.rollback()?;
        }
        if below(3) == 0 {
            tx.rollback()?;
        } else {
            tx.commit(Durability::Async)?.wait()?;
            committed = own;
        }
        if below(6) == 0 && early.len() < 3 {
            let tx = db.begin(Isolation::RepeatableRead);
            let view = tx.statement(StatementKind::Read)?;
            early.push((tx, view, committed.clone()));
        }
        if below(8) == 0 && !early.is_empty() {
            early.remove(0);
        }
    }
    drop(early);
    assert!(db.cleaner_status().reader_jumps > 50, "seed {seed}: {} jumps", db.cleaner_status().reader_jumps);
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}
