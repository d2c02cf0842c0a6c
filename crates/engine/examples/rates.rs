//! How fast the embedded engine inserts, reads and updates on one thread.

use std::time::Instant;

use resurgam_engine::*;

fn main() -> Result<()> {
    let dir = std::env::args().nth(1).unwrap_or_else(|| "./rates-demo".into());
    let rows: i64 = std::env::args().nth(2).and_then(|n| n.parse().ok()).unwrap_or(1_000_000);
    let db = Database::open(&dir, Options { buffer_bytes: 1 << 30, ..Options::default() })?;
    let tx = db.begin(Isolation::ReadCommitted);
    let name = format!("t{}", db.stats().transactions.commits);
    let table = tx
        .create_table(
            TableSpec::new("public", &name)
                .column("id", ColumnType::Int4)
                .column("n", ColumnType::Int4)
                .column("filler", ColumnType::Text)
                .primary_key(&["id"]),
        )?
        .done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let filler = "x".repeat(84);
    let report = |what: &str, n: i64, started: Instant| {
        let s = started.elapsed().as_secs_f64();
        println!("{what:<28} {:>10.0} /s  {:>7.2} us", n as f64 / s, s * 1e6 / n as f64);
    };
    let started = Instant::now();
    let tx = db.begin(Isolation::ReadCommitted);
    tx.statement(StatementKind::BulkWrite)?;
    let mut bulk = tx.bulk_insert(&table);
    for id in 0..rows {
        bulk.push(&[DatumRef::Int4(id as i32), DatumRef::Int4(0), DatumRef::Text(&filler)])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    report("bulk insert", rows, started);

    let mut seed = 12345u64;
    let mut next = || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        (seed % rows as u64) as i32
    };
    let n = 500_000;
    let started = Instant::now();
    let mut buf = RowBuf::default();
    let mut key = Vec::new();
    let mut sum = 0i64;
    for _ in 0..n {
        let tx = db.begin(Isolation::ReadCommitted);
        let view = tx.statement(StatementKind::Read)?;
        key.clear();
        table.encode_key(&[DatumRef::Int4(next())], &mut key)?;
        if view.get(&table, &key, &mut buf)?
            && let DatumRef::Int4(v) = table.column(buf.raw(), 1)?
        {
            sum += i64::from(v);
        }
        tx.commit(Durability::Sync)?.wait()?;
    }
    report("point read (own tx)", n, started);
    let started = Instant::now();
    for _ in 0..n {
        let tx = db.begin(Isolation::ReadCommitted);
        let view = tx.statement(StatementKind::PointWrite)?;
        let id = next();
        key.clear();
        table.encode_key(&[DatumRef::Int4(id)], &mut key)?;
        view.get(&table, &key, &mut buf)?;
        let DatumRef::Int4(v) = table.column(buf.raw(), 1)? else { continue };
        let done = tx
            .update(
                &table,
                &key,
                Seen::Snapshot,
                &[DatumRef::Int4(id), DatumRef::Int4(v + 1), DatumRef::Text(&filler)],
            )?
            .done()?;
        assert_eq!(done, Change::Done);
        tx.commit(Durability::Async)?.wait()?;
    }
    report("update (own tx, async)", n, started);
    let started = Instant::now();
    let view = db.begin(Isolation::ReadCommitted).statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let mut batch = RowBatch::default();
    let mut seen = 0;
    while cursor.next_batch(&mut batch, 1000)? {
        seen += batch.len() as i64;
        batch.clear();
    }
    report("scan", seen, started);
    let started = Instant::now();
    let swept = db.clean()?;
    report("sweep", (swept.stripped + swept.reverted) as i64, started);
    println!("{sum} {:?}", db.stats());
    db.close()
}
