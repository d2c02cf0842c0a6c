//! What rows of some sizes take on the disk, before and after half of them are deleted and the space is given back:
//! `cargo run --release -p resurgam-engine --example bytes_per_row -- FOLDER [MB]`, in a folder that is made and removed.

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{OpenMode, RealVfs, Vfs};

fn text(seed: u64, len: usize) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + (state >> 59) as u8 % 26)
        })
        .collect()
}

fn commit(db: &Database, work: impl FnOnce(&Transaction, &Arc<Table>) -> Result<()>) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    work(&tx, &table)?;
    tx.commit(Durability::Sync)?.wait()
}

/// Deletes the rows that are `gone`, and says what the file takes before, after that, and after the space was given back.
fn measure(dir: &Path, len: usize, rows: u64, how: &str, gone: impl Fn(u64) -> bool) -> Result<()> {
    let _ = std::fs::remove_dir_all(dir);
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let db = Database::open_with(Arc::clone(&vfs), dir, Options::default(), |_| {})?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("a", ColumnType::Text);
    tx.create_table(spec.primary_key(&["id"]))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    for from in (0..rows).step_by(1000) {
        commit(&db, |tx, table| {
            (from..(from + 1000).min(rows)).try_for_each(|id| {
                let text = text(id, len);
                tx.insert(table, &[DatumRef::Int8(id as i64), DatumRef::Text(&text)])?.done()
            })
        })?;
    }
    let file = vfs.open(&dir.join("data"), OpenMode::ReadOnly)?;
    let said = |what: &str, of: u64| -> Result<()> {
        let used = db.stats().space.high_water * limits::PAGE_SIZE as u64;
        println!(
            "{len} bytes, {how}, {what}: {of} rows, {:.1} bytes of used pages a row, {:.1} on the disk",
            used as f64 / of as f64,
            file.allocated()? as f64 / of as f64
        );
        Ok(())
    };
    said("full", rows)?;
    let left = (0..rows).filter(|id| !gone(*id)).count() as u64;
    for from in (0..rows).step_by(1000) {
        commit(&db, |tx, table| {
            (from..(from + 1000).min(rows)).filter(|id| gone(*id)).try_for_each(|id| {
                let mut key = Vec::new();
                table.encode_key(&[DatumRef::Int8(id as i64)], &mut key)?;
                tx.statement(StatementKind::PointWrite)?;
                tx.delete(table, &key, Seen::Snapshot)?.done().map(drop)
            })
        })?;
    }
    said("half deleted", left)?;
    let begun = std::time::Instant::now();
    let mut report = db.clean()?;
    commit(&db, |tx, table| tx.insert(table, &[DatumRef::Int8(-1), DatumRef::Text("later")])?.done())?;
    report.add(&db.clean()?);
    said("given back", left)?;
    println!(
        "    {:.1?}: {} pages moved, {} MB cut, {} MB of holes",
        begun.elapsed(),
        report.pages_moved,
        report.bytes_cut >> 20,
        report.bytes_punched >> 20
    );
    db.close()?;
    std::fs::remove_dir_all(dir).map_err(|error| Error::internal(error.to_string()))
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().ok_or_else(|| Error::internal("a folder is needed"))?;
    let mb: u64 = arguments.next().and_then(|mb| mb.parse().ok()).unwrap_or(100);
    for len in [20, 200, 2000 - 60] {
        let rows = (mb << 20) / (len as u64 + 20);
        let dir = Path::new(&folder).join("bytes-per-row");
        measure(&dir, len, rows, "every second one deleted", |id| id % 2 == 0)?;
        measure(&dir, len, rows, "the first half deleted", |id| id < rows / 2)?;
    }
    Ok(())
}
