//! Statistics of tables: sampled, stored as the transaction that found them out, there after a crash, gone with the table.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

fn open(vfs: &SimVfs, traditional: bool, background: bool) -> Result<Database> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = Options {
        buffer_bytes: 4 << 20,
        accelerated_database_recovery: !traditional,
        background,
        analyze_interval_s: 0.1,
        ..Options::default()
    };
    Database::open_with(shared, Path::new("/db"), options, |_| {})
}

fn create(db: &Database, name: &str) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec =
        TableSpec::new("public", name).column("a", ColumnType::Int4).column("b", ColumnType::Text).primary_key(&["a"]);
    tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()
}

fn table(db: &Database, name: &str) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let found = tx.table("public", name)?.expect("made");
    tx.rollback()?;
    Ok(found)
}

fn insert(db: &Database, name: &str, rows: std::ops::Range<i32>) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", name)?.expect("made");
    tx.statement(StatementKind::BulkWrite)?;
    for a in rows {
        let b = format!("value {}", a % 10);
        tx.insert(&table, &[DatumRef::Int4(a), DatumRef::Text(&b)])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()
}

/// What an ANALYZE by a statement finds and stores, not committed yet.
fn analyze(tx: &Transaction, name: &str, target: usize) -> Result<TableStatistics> {
    let table = tx.table("public", name)?.expect("made");
    let what = Analysis { columns: &[0, 1], target, is_automatic: false, is_stopped: &|| false };
    let view = tx.statement(StatementKind::Read)?;
    let (found, _) = view.analyze(&table, &what)?;
    tx.statement(StatementKind::PointWrite)?;
    tx.store_statistics(&table, &found)?.done()?;
    Ok(found)
}

#[test]
fn they_are_there_after_a_crash_if_they_were_committed() -> Result<()> {
    for traditional in [false, true] {
        let mut vfs = SimVfs::new(5);
        let db = open(&vfs, traditional, false)?;
        create(&db, "t")?;
        drop(db);
        let mut rows = 0;
        let mut known: Option<TableStatistics> = None;
        for round in 1..=12u64 {
            let db = open(&vfs, traditional, false)?;
            let t = table(&db, "t")?;
            let stored = db.statistics(&t)?;
            assert_eq!(stored.as_deref().map(|s| s.rows), known.as_ref().map(|s| s.rows), "round {round}");
            assert_eq!(stored.as_deref().map(|s| &s.columns), known.as_ref().map(|s| &s.columns), "round {round}");
            insert(&db, "t", rows..rows + 200)?;
            rows += 200;
            let tx = db.begin(Isolation::ReadCommitted);
            let found = analyze(&tx, "t", 100)?;
            assert_eq!((found.rows, found.columns[0].distinct), (rows as u64, -1.0));
            match round % 3 {
                0 => tx.rollback()?,
                1 => {
                    tx.commit(Durability::Sync)?.wait()?;
                    known = Some(found);
                }
                // The crash cuts it off, with its definitions and rows written out, perhaps.
                _ => {
                    db.checkpoint()?;
                    std::mem::forget(tx);
                }
            }
            vfs = vfs.crash_clone(round);
        }
        let db = open(&vfs, traditional, false)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn they_are_of_their_transaction() -> Result<()> {
    let vfs = SimVfs::new(6);
    let db = open(&vfs, false, false)?;
    create(&db, "t")?;
    insert(&db, "t", 0..100)?;
    let t = table(&db, "t")?;
    let tx = db.begin(Isolation::ReadCommitted);
    analyze(&tx, "t", 100)?;
    assert_eq!(tx.statistics(&t)?.expect("own").rows, 100);
    assert!(db.statistics(&t)?.is_none());
    // A second one waits for the first; nobody who reads or writes rows does.
    let other = db.begin(Isolation::ReadCommitted);
    let view = other.statement(StatementKind::Read)?;
    let what = Analysis { columns: &[1], target: 10, is_automatic: true, is_stopped: &|| false };
    let (found, _) = view.analyze(&t, &what)?;
    other.statement(StatementKind::PointWrite)?;
    assert!(matches!(other.store_statistics(&t, &found)?, Attempt::Wait(_)));
    insert(&db, "t", 100..110)?;
    tx.commit(Durability::Sync)?.wait()?;
    other.store_statistics(&t, &found)?.done()?;
    other.commit(Durability::Sync)?.wait()?;
    // What is known of the other column stays.
    let known = db.statistics(&t)?.expect("stored");
    assert_eq!((known.analyzed, known.analyzed_itself, known.columns.len()), (1, 1, 2));
    assert!(known.analyzed_at > 0 && known.analyzed_itself_at > 0);
    // It goes with the table.
    let tx = db.begin(Isolation::ReadCommitted);
    tx.drop_table(&t)?.done()?;
    assert!(tx.statistics(&t)?.is_none());
    tx.commit(Durability::Sync)?.wait()?;
    assert!(db.statistics(&t)?.is_none());
    Ok(())
}

#[test]
fn a_sample_is_like_the_table() -> Result<()> {
    let vfs = SimVfs::new(7);
    let db = open(&vfs, false, false)?;
    create(&db, "t")?;
    for from in 0..20 {
        insert(&db, "t", from * 2000..(from + 1) * 2000)?;
    }
    let tx = db.begin(Isolation::ReadCommitted);
    // 3,000 rows of 40,000.
    let found = analyze(&tx, "t", 10)?;
    assert!((36_000..44_000).contains(&found.rows), "{}", found.rows);
    let (a, b) = (&found.columns[0], &found.columns[1]);
    assert!(a.distinct == -1.0 && a.correlation > Some(0.99) && a.histogram.len() == 11, "{a:?}");
    for (at, bound) in a.histogram.iter().enumerate() {
        let Datum::Int4(value) = bound else { panic!("{bound:?}") };
        assert!((value - at as i32 * 4000).abs() < 3000, "{a:?}");
    }
    assert!(b.distinct == 10.0 && b.common.len() == 10 && b.width == 8, "{b:?}");
    assert!(b.common.iter().all(|(_, part)| (0.05..0.15).contains(part)), "{b:?}");
    tx.rollback()
}

#[test]
fn tables_that_change_are_analysed_in_the_background() -> Result<()> {
    let vfs = SimVfs::new(8);
    let db = open(&vfs, false, true)?;
    create(&db, "t")?;
    create(&db, "few")?;
    insert(&db, "few", 0..20)?;
    let (t, few) = (table(&db, "t")?, table(&db, "few")?);
    let wait_for = |rows: u64| -> Result<()> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            let known = db.statistics(&t)?;
            if known.as_ref().is_some_and(|known| known.rows == rows) {
                return Ok(());
            }
            assert!(Instant::now() < until, "{known:?}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    insert(&db, "t", 0..1000)?;
    wait_for(1000)?;
    assert_eq!(db.statistics(&t)?.expect("stored").analyzed, 0);
    // A few more are not worth it.
    insert(&db, "t", 1000..1100)?;
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(db.statistics(&t)?.expect("stored").rows, 1000);
    insert(&db, "t", 1100..1300)?;
    wait_for(1300)?;
    assert!(db.statistics(&few)?.is_none());
    Ok(())
}
