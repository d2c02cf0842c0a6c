//! What rows of some lengths take on the disk and cost: inserted, read one by one, scanned without their text and with it, changed in a number,
//! deleted: `cargo run --release -p resurgam-engine --example row_lengths -- FOLDER [MB]`, in a folder that is made and removed.
//!
//! Times are of the calling thread's processor (Linux), so that others on the machine count little.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::*;

fn text(seed: u64, len: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + (state >> 59) as u8 % 26)
        })
        .collect()
}

/// What this thread has used of a processor.
fn used() -> Duration {
    let said = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    Duration::from_nanos(said.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or_default())
}

/// Microseconds a row.
fn cost(rows: u64, work: impl FnOnce() -> Result<()>) -> Result<f64> {
    let before = used();
    work()?;
    Ok((used() - before).as_secs_f64() * 1e6 / rows as f64)
}

fn within(db: &Database, work: impl FnOnce(&Transaction, &Arc<Table>) -> Result<()>) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    tx.statement(StatementKind::BulkWrite)?;
    work(&tx, &table)?;
    tx.commit(Durability::Sync)?.wait()
}

fn key(table: &Table, id: u64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id as i64)], &mut key)?;
    Ok(key)
}

fn scan(db: &Database, rows: u64, with_text: bool) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut seen, mut sum) = (RowBatch::default(), 0, 0u64);
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 1000)? {
            break;
        }
        for at in 0..batch.len() {
            let DatumRef::Int4(n) = table.column(batch.row(at), 1)? else { return Err(Error::internal("no number")) };
            sum += n as u64;
            if with_text {
                sum += match table.column(batch.row(at), 2)? {
                    DatumRef::Text(text) => u64::from(text.as_bytes()[0]),
                    DatumRef::External(large) => u64::from(view.read_external(large)?[0]),
                    _ => return Err(Error::internal("no text")),
                };
            }
        }
        seen += batch.len() as u64;
    }
    std::hint::black_box(sum);
    if seen == rows { Ok(()) } else { Err(Error::internal("rows are missing")) }
}

fn measure(dir: &Path, len: usize, rows: u64) -> Result<()> {
    let _ = std::fs::remove_dir_all(dir);
    let db = Database::open(dir, Options { buffer_bytes: 512 << 20, ..Options::default() })?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("n", ColumnType::Int4);
    tx.create_table(spec.column("a", ColumnType::Text).primary_key(&["id"]))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    let texts: Vec<String> = (0..rows.min(1000)).map(|id| text(id, len)).collect();
    let text_of = |id: u64| DatumRef::Text(&texts[id as usize % texts.len()]);
    let row = |id: u64, n: i32| [DatumRef::Int8(id as i64), DatumRef::Int4(n), text_of(id)];
    let inserted = cost(rows, || {
        (0..rows).step_by(1000).try_for_each(|from| {
            within(&db, |tx, table| {
                (from..(from + 1000).min(rows)).try_for_each(|id| tx.insert(table, &row(id, 1))?.done())
            })
        })
    })?;
    let bytes = db.stats().space.high_water * limits::PAGE_SIZE as u64;
    db.clean()?;
    let point = cost(rows, || {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
        let view = tx.statement(StatementKind::Read)?;
        let (mut found, mut sum) = (RowBuf::default(), 0u64);
        for at in 0..rows {
            let id = at.wrapping_mul(0x9E37_79B9_7F4A_7C15) % rows;
            if !view.get(&table, &key(&table, id)?, &mut found)? {
                return Err(Error::internal("a row is missing"));
            }
            sum += match table.column(found.raw(), 2)? {
                DatumRef::Text(text) => u64::from(text.as_bytes()[0]),
                DatumRef::External(large) => u64::from(view.read_external(large)?[0]),
                _ => 0,
            };
        }
        std::hint::black_box(sum);
        Ok(())
    })?;
    let times = 5;
    let without = cost(rows * times, || (0..times).try_for_each(|_| scan(&db, rows, false)))?;
    let with = cost(rows * times, || (0..times).try_for_each(|_| scan(&db, rows, true)))?;
    let logged = || db.stats().log.record_bytes;
    let (before, mut update_us) = (logged(), 0.0);
    let n = rows.min(2000);
    within(&db, |tx, table| {
        update_us = cost(n, || {
            (0..n).try_for_each(|id| tx.update(table, &key(table, id)?, Seen::Snapshot, &row(id, 2))?.done().map(drop))
        })?;
        Ok(())
    })?;
    let updated = (logged() - before) as f64 / n as f64;
    db.clean()?;
    let before = logged();
    within(&db, |tx, table| {
        (0..n).try_for_each(|id| tx.delete(table, &key(table, id)?, Seen::Snapshot)?.done().map(drop))
    })?;
    let deleted = (logged() - before) as f64 / n as f64;
    println!(
        "| {len} | {:.0} | {inserted:.1} | {point:.2} | {without:.3} | {with:.3} | {update_us:.1} | {updated:.0} | {deleted:.0} |",
        bytes as f64 / rows as f64
    );
    db.close()?;
    std::fs::remove_dir_all(dir).map_err(|error| Error::internal(error.to_string()))
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or_else(|| Error::internal("a folder is needed"))?;
    let mb: u64 = arguments.next().and_then(|mb| mb.parse().ok()).unwrap_or(40);
    println!(
        "| text | bytes a row | insert, us | point read, us | scan without the text, us | with it, us | update of a number, us | its log, bytes | log of a deletion |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    for len in (1000..=2100).step_by(100).chain([1940, 1950]) {
        measure(&Path::new(&folder).join("row-lengths"), len, (mb << 20) / (len as u64 + 20))?;
    }
    Ok(())
}
