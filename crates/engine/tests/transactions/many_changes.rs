//! One transaction with thousands of schema changes: a crash in the middle, or a PREPARE. What it
//! is remembered by stays small: definitions are rows, and what is to be freed is in the pending frees
//! (see docs/slog.md).

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::common::open::open_as;

fn open(vfs: &SimVfs, accelerated: bool) -> Result<Database> {
    let options = Options {
        buffer_bytes: 1024 * limits::PAGE_SIZE,
        log_segment_bytes: 4 << 20,
        background: false,
        accelerated_database_recovery: accelerated,
        ..Options::default()
    };
    open_as(vfs, options)
}

fn spec(name: &str) -> TableSpec {
    TableSpec::new("public", name).column("id", ColumnType::Int8).primary_key(&["id"])
}

/// Tables that were there before.
const KEPT: usize = 20;

fn begin(db: &Database) -> Result<Transaction> {
    let tx = db.begin(Isolation::ReadCommitted);
    for i in 0..KEPT {
        tx.create_table(spec(&format!("kept{i}")))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(db.begin(Isolation::ReadCommitted))
}

/// Creates and drops tables, and rows of them; every hundredth stays. Those from before go.
fn change(tx: &Transaction, turns: std::ops::Range<usize>) -> Result<()> {
    for i in turns {
        let table = tx.create_table(spec(&format!("new{i}")))?.done()?;
        tx.insert(&table, &[DatumRef::Int8(1)])?.done()?;
        if i % 100 != 0 {
            tx.drop_table(&table)?.done()?;
        }
        if i < KEPT {
            let old = tx.table("public", &format!("kept{i}"))?.ok_or_else(|| Error::internal("no table"))?;
            tx.drop_table(&old)?.done()?;
        }
    }
    Ok(())
}

fn names(db: &Database) -> Result<usize> {
    Ok(db.begin(Isolation::ReadCommitted).tables()?.len())
}

/// Everything is freed, and nothing but it.
fn nothing_left(db: &Database, said: &str) -> Result<()> {
    db.finish_recovery()?;
    assert_eq!(db.verify()?, Vec::<String>::new(), "{said}");
    for _ in 0..4 {
        db.clean()?;
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.create_table(spec("one more"))?.done()?;
        tx.insert(&table, &[DatumRef::Int8(1)])?.done()?;
        tx.rollback()?;
    }
    db.clean()?;
    assert_eq!(db.stats().transactions.aborted_in_map, 0, "{said}");
    assert_eq!(db.pending_frees_len()?, 0, "{said}: storage is still to be freed");
    assert_eq!(db.verify()?, Vec::<String>::new(), "{said}");
    Ok(())
}

fn changes(accelerated: bool) -> usize {
    // In the traditional mode names that were taken and given back stay as ghosts until the end.
    if accelerated { 5000 } else { 1500 }
}

#[test]
fn cut_off_by_a_crash() -> Result<()> {
    for accelerated in [true, false] {
        let (said, many) = (format!("accelerated: {accelerated}"), changes(accelerated));
        let vfs = SimVfs::new(1);
        let db = open(&vfs, accelerated)?;
        let tx = begin(&db)?;
        change(&tx, 0..many / 2)?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        // What the checkpoint says of all this is a handful of records.
        let after_checkpoint = open(&vfs.crash_clone(7), accelerated)?;
        let records = after_checkpoint.recovery().log_records;
        assert!(records <= 12, "{said}: {records} records from the checkpoint on");
        assert_eq!(names(&after_checkpoint)?, KEPT, "{said}");
        drop(after_checkpoint);
        change(&tx, many / 2..many)?;
        let other = db.begin(Isolation::ReadCommitted);
        other.create_table(spec("the last sync"))?.done()?;
        other.commit(Durability::Sync)?.wait()?;
        let crashed = vfs.crash();
        std::mem::forget(tx);
        drop(db);
        let db = open(&crashed, accelerated)?;
        assert_eq!(names(&db)?, KEPT + 1, "{said}");
        nothing_left(&db, &said)?;
        assert_eq!(names(&db)?, KEPT + 1, "{said}");
    }
    Ok(())
}

#[test]
fn prepared() -> Result<()> {
    for (accelerated, commits) in [(true, true), (true, false), (false, true), (false, false)] {
        let said = format!("accelerated: {accelerated}, commit: {commits}");
        let many = changes(accelerated) / 2;
        let vfs = SimVfs::new(2);
        let db = open(&vfs, accelerated)?;
        let tx = begin(&db)?;
        change(&tx, 0..many)?;
        tx.prepare("many", "owner", "database")?.wait()?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        let crashed = vfs.crash();
        drop((tx, db));
        let db = open(&crashed, accelerated)?;
        // And its table locks: a few thousand in each record.
        let records = db.recovery().log_records;
        assert!(records <= 16, "{said}: {records} records from the checkpoint on");
        assert_eq!(names(&db)?, KEPT, "{said}");
        let resolved = if commits { db.commit_prepared("many")? } else { db.rollback_prepared("many")? };
        resolved.wait()?;
        let left = if commits { many.div_ceil(100) } else { KEPT };
        assert_eq!(names(&db)?, left, "{said}");
        nothing_left(&db, &said)?;
        assert_eq!(names(&db)?, left, "{said}");
    }
    Ok(())
}

/// How many changes [`all_of_it_stays`] makes: the whole 100,000 with RESURGAM_CHANGES=100000.
fn wanted() -> usize {
    std::env::var("RESURGAM_CHANGES").ok().and_then(|n| n.parse().ok()).unwrap_or(4000)
}

/// Until `changes` changes are made: tables that stay, most of them changed again; and some under a
/// savepoint that is gone back to.
fn build_up(tx: &Transaction, from: usize, changes: usize) -> Result<usize> {
    let (mut made, mut i) = (0, from);
    while made < changes {
        let name = format!("stays{i}");
        let table = tx.create_table(spec(&name))?.done()?;
        made += 1;
        if i % 3 == 0 {
            let column = ColumnSpec {
                name: "more".into(),
                ty: ColumnType::Text,
                nullable: true,
                default_sql: Some("'x'".into()),
            };
            tx.alter_table(&table, TableChange::AddColumn(column))?.done()?;
            made += 1;
        }
        if i % 5 == 0 {
            let savepoint = tx.savepoint()?;
            let found = tx.table("public", &name)?.ok_or_else(|| Error::internal("no table"))?;
            tx.drop_table(&found)?.done()?;
            let again = tx.create_table(spec(&name))?.done()?;
            tx.insert(&again, &[DatumRef::Int8(1)])?.done()?;
            tx.rollback_to(savepoint)?;
            made += 2;
        }
        if i % 7 == 0 {
            let found = tx.table("public", &name)?.ok_or_else(|| Error::internal("no table"))?;
            tx.alter_table(&found, TableChange::RenameTable(format!("renamed{i}")))?.done()?;
            made += 1;
        }
        i += 1;
    }
    Ok(i)
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum End {
    Crash,
    Rollback,
    Commit,
    Prepare,
}

/// What a change costs does not depend on how many the transaction has made: no definition is read
/// again but those that were there before it, once.
#[test]
fn all_of_it_stays() -> Result<()> {
    let changes = wanted();
    for accelerated in [true, false] {
        for end in [End::Crash, End::Rollback, End::Commit, End::Prepare] {
            let said = format!("accelerated: {accelerated}, {end:?}");
            let started = std::time::Instant::now();
            let vfs = SimVfs::new(3);
            let db = open(&vfs, accelerated)?;
            let tx = begin(&db)?;
            let before = db.definition_counts().read;
            let half = build_up(&tx, 0, changes / 2)?;
            while db.write_back()? > 0 {}
            db.checkpoint()?;
            let tables = build_up(&tx, half, changes - changes / 2)?;
            let read = db.definition_counts().read - before;
            assert!(read <= 4 * KEPT as u64, "{said}: {read} definitions read");
            assert_eq!(tx.tables()?.len(), tables + KEPT, "{said}");
            eprintln!("{said}: {changes} changes in {:.1?}", started.elapsed());
            if changes <= 10_000 {
                assert_eq!(tx.compare_definitions()?, Vec::<String>::new(), "{said}");
            }
            let mut left = KEPT;
            match end {
                End::Crash => {}
                End::Rollback => tx.rollback()?,
                End::Commit => {
                    tx.commit(Durability::Sync)?.wait()?;
                    left += tables;
                }
                End::Prepare => tx.prepare("many", "owner", "database")?.wait()?,
            }
            eprintln!("{said}: ended after {:.1?}", started.elapsed());
            if end != End::Crash {
                assert_eq!(names(&db)?, left, "{said}");
            }
            let crashed = vfs.crash();
            std::mem::forget(tx);
            drop(db);
            let db = open(&crashed, accelerated)?;
            eprintln!("{said}: open again: {:?}", db.recovery());
            assert_eq!(names(&db)?, left, "{said}");
            if end == End::Prepare {
                db.commit_prepared("many")?.wait()?;
                left += tables;
                assert_eq!(names(&db)?, left, "{said}");
            }
            nothing_left(&db, &said)?;
            assert_eq!(names(&db)?, left, "{said}");
            eprintln!("{said}: clean after {:.1?}", started.elapsed());
        }
    }
    Ok(())
}

/// Tables that are gone leave nothing behind in memory, nor do those of transactions that were
/// rolled back.
#[test]
fn tables_that_are_gone_take_no_memory() -> Result<()> {
    for accelerated in [true, false] {
        let db = open(&SimVfs::new(4), accelerated)?;
        let base = db.definition_counts();
        for round in 0..100 {
            let tx = db.begin(Isolation::ReadCommitted);
            let mut made = Vec::new();
            for i in 0..50 {
                let spec = TableSpec::new("public", &format!("t{i}")).column("x", ColumnType::Int8);
                let table = tx.create_table(spec.index(&format!("i{i}"), &["x"], false))?.done()?;
                tx.insert(&table, &[DatumRef::Int8(1)])?.done()?;
                made.push(table);
            }
            if round % 3 == 0 {
                tx.rollback()?;
            } else {
                tx.commit(Durability::Sync)?.wait()?;
                let tx = db.begin(Isolation::ReadCommitted);
                made.iter().try_for_each(|table| tx.drop_table(table)?.done())?;
                tx.commit(Durability::Sync)?.wait()?;
            }
            db.clean()?;
        }
        drop(db.begin(Isolation::ReadCommitted).tables()?);
        for _ in 0..3 {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.create_table(spec("one more"))?.done()?;
            tx.rollback()?;
            db.clean()?;
        }
        let counts = db.definition_counts();
        assert!(counts.trees <= base.trees + 2, "accelerated: {accelerated}: {counts:?}");
        assert!(counts.row_id_counters <= 512, "accelerated: {accelerated}: {counts:?}");
    }
    Ok(())
}

/// Row ids go on behind those that are there, whatever became of the counter.
#[test]
fn row_ids_go_on() -> Result<()> {
    let db = open(&SimVfs::new(5), true)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = |name: &str| TableSpec::new("public", name).column("x", ColumnType::Int8);
    let insert = |tx: &Transaction, name: &str, n: i64| -> Result<()> {
        let table = tx.table("public", name)?.ok_or_else(|| Error::internal("no table"))?;
        (0..n).try_for_each(|x| tx.insert(&table, &[DatumRef::Int8(x)])?.done())
    };
    tx.create_table(spec("t"))?.done()?;
    insert(&tx, "t", 10)?;
    let savepoint = tx.savepoint()?;
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    tx.drop_table(&table)?.done()?;
    drop(table);
    // Counters that nobody has are looked for.
    for i in 0..600 {
        tx.create_table(spec(&format!("t{i}")))?.done()?;
    }
    tx.rollback_to(savepoint)?;
    insert(&tx, "t", 10)?;
    tx.commit(Durability::Sync)?.wait()?;
    let tx = db.begin(Isolation::ReadCommitted);
    insert(&tx, "t", 10)?;
    tx.commit(Durability::Sync)?.wait()?;
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    let mut batch = RowBatch::default();
    tx.view()?.scan(&table, KeyRange::all(), Direction::Forward).next_batch(&mut batch, 100)?;
    assert_eq!(batch.len(), 30);
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}
