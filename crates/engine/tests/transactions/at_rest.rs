//! A database at rest: what its sweeps read does not grow with it, and what is marked meanwhile is
//! found all the same. And the sizes of what is in a database.

use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::{open_as, small};

fn open(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    open_as(vfs, Options { buffer_bytes: 16 << 20, ..small(traditional) })
}

fn table(db: &Database, name: &str) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", name)
        .column("id", ColumnType::Int8)
        .column("filler", ColumnType::Text)
        .primary_key(&["id"])
        .index(&format!("{name}_filler"), &["filler"], false);
    let table = tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    Ok(table)
}

fn insert(db: &Database, table: &Arc<Table>, ids: std::ops::Range<i64>, filler: &str) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::BulkWrite)?;
    for id in ids {
        tx.insert(table, &[DatumRef::Int8(id), DatumRef::Text(filler)])?.done()?;
        if id % 1000 == 0 {
            db.write_back()?;
            db.checkpoint()?;
        }
    }
    tx.commit(Durability::Sync)?.wait()
}

fn update(db: &Database, table: &Arc<Table>, id: i64) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::PointWrite)?;
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    let row = [DatumRef::Int8(id), DatumRef::Text("new")];
    assert_eq!(tx.update(table, &key, Seen::Snapshot, &row)?.done()?, Change::Done);
    tx.commit(Durability::Sync)?.wait()
}

fn clean(db: &Database) -> Result<()> {
    let begun = std::time::Instant::now();
    while db.clean()?.pages > 0 {
        assert!(begun.elapsed().as_secs() < 60, "it is never clean");
    }
    Ok(())
}

/// Pages that a sweep reads which has nothing to do.
fn reads_at_rest(db: &Database) -> Result<u64> {
    clean(db)?;
    let reads = |db: &Database| db.stats().pool.hits + db.stats().pool.misses;
    let before = reads(db);
    assert_eq!(db.clean()?.pages, 0);
    Ok(reads(db) - before)
}

#[test]
fn a_sweep_reads_as_much_of_a_large_database_as_of_a_small_one() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(1);
        let db = open(&vfs, traditional)?;
        let small = table(&db, "small")?;
        insert(&db, &small, 0..100, "old")?;
        let at_first = reads_at_rest(&db)?;
        let large = table(&db, "large")?;
        // Several space maps, of 40 MB each.
        insert(&db, &large, 0..60_000, &"x".repeat(700))?;
        let maps = db.stats().space.high_water / 5120 + 1;
        assert!(maps >= 3, "{maps} maps");
        let later = reads_at_rest(&db)?;
        assert!(later <= at_first + 1, "{later} pages are read at rest with {maps} maps, {at_first} with one");

        // What is marked after such a sweep is visited by the next one: in a map that was passed over.
        for (table, id) in [(&small, 7), (&large, 59_000), (&large, 40_000)] {
            update(&db, table, id)?;
            let report = db.clean()?;
            assert!(report.pages >= 1 && report.stripped >= 1, "row {id}: {report:?}");
            assert!(reads_at_rest(&db)? <= at_first + 1);
        }
        // After a restart nothing is known of the maps.
        update(&db, &large, 30_000)?;
        db.close()?;
        drop((small, large, db));
        let db = open(&vfs, traditional)?;
        let report = db.clean()?;
        assert!(report.pages >= 1 && report.stripped >= 1, "{report:?}");
        assert!(reads_at_rest(&db)? <= at_first + 1);
        assert!(db.verify()?.is_empty());
    }
    Ok(())
}

#[test]
fn sizes_are_those_of_pages_in_use() -> Result<()> {
    for traditional in [false, true] {
        let vfs = SimVfs::new(2);
        let db = open(&vfs, traditional)?;
        let table = table(&db, "t")?;
        let size = |object: Option<ObjectId>| -> Result<u64> {
            Ok(object.and_then(|object| db.bytes_by_object().ok()?.get(&object).copied()).unwrap_or(0))
        };
        // Roots.
        assert_eq!((size(Some(table.rows_object()))?, size(table.index_object(0))?), (8192, 8192));
        insert(&db, &table, 0..3000, &"y".repeat(700))?;
        let (rows, index) = (size(Some(table.rows_object()))?, size(table.index_object(0))?);
        // Each of about 2.1 MB, in pages that are nine tenths to half full.
        assert!((2_300_000..4_400_000).contains(&rows), "{rows}");
        assert!((2_200_000..4_600_000).contains(&index), "{index}");
        let total: u64 = db.bytes_by_object()?.values().sum();
        let file = db.stats().space.high_water * 8192;
        assert!(total > rows + index && total <= file, "{total} of {file}");
        let tx = db.begin(Isolation::ReadCommitted);
        tx.drop_table(&table)?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        clean(&db)?;
        assert_eq!((size(Some(table.rows_object()))?, size(table.index_object(0))?), (0, 0));
    }
    Ok(())
}
