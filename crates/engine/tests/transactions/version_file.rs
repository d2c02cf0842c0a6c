//! The version store in a file of its own: made, found again, moved, missing, damaged,
//! foreign, given up; out of space; pages made ready.

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, OpenMode, RealVfs, SimVfs, Vfs};

use crate::common::open::open_as;

const FILE: &str = "/disk2/versions";
const OTHER: &str = "/disk3/moved";

fn disk() -> Result<SimVfs> {
    let sim = SimVfs::new(3);
    sim.make_folder(Path::new("/disk2"))?;
    sim.make_folder(Path::new("/disk3"))?;
    Ok(sim)
}

fn options(path: Option<&str>) -> Options {
    Options {
        // What damage does is looked at here.
        page_repair: false,
        buffer_bytes: 1 << 20,
        log_segment_bytes: 1 << 20,
        versions: VersionCaps { in_row: false, ..VersionCaps::default() },
        version_store_path: path.map(Into::into),
        version_pages_ready: 4,
        background: false,
        ..Options::default()
    }
}

fn open(sim: &SimVfs, path: Option<&str>) -> Result<Database> {
    open_as(sim, options(path))
}

/// The error of an open, as a person reads it.
fn refused(sim: &SimVfs, path: Option<&str>) -> (ErrorKind, String) {
    match open(sim, path) {
        Ok(_) => panic!("it opened"),
        Err(error) => (error.kind(), format!("{error} HINT {}", error.hint().unwrap_or("none"))),
    }
}

/// It would be written over by what the database keeps under that name, and be found to be no version store at the next open.
#[test]
fn a_name_that_the_database_has_itself_is_refused() -> Result<()> {
    for path in ["version-store", "/db/version-store", "./log-place", "/db/creating", "data"] {
        let (kind, text) = refused(&disk()?, Some(path));
        assert_eq!(kind, ErrorKind::InvalidParameter, "{path}: {text}");
        assert!(text.contains("another file there") && text.contains("version_store_path"), "{text}");
    }
    let sim = disk()?;
    for _ in 0..2 {
        open(&sim, Some("/db/versions"))?.close()?;
    }
    Ok(())
}

const ROWS: i32 = 60;

fn fill(db: &Database) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int4).column("v", ColumnType::Text);
    let table = tx.create_table(spec.primary_key(&["id"]))?.done()?;
    for id in 0..ROWS {
        tx.insert(&table, &[DatumRef::Int4(id), DatumRef::Text("first")])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(table)
}

fn table(db: &Database) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?;
    table.ok_or_else(|| Error::internal("no table"))
}

fn set(tx: &Transaction, table: &Arc<Table>, id: i32, value: &str) -> Result<()> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int4(id)], &mut key)?;
    tx.update(table, &key, Seen::Snapshot, &[DatumRef::Int4(id), DatumRef::Text(value)])?.done().map(|_| ())
}

fn set_all(tx: &Transaction, table: &Arc<Table>, value: &str) -> Result<()> {
    (0..ROWS).try_for_each(|id| set(tx, table, id, value))
}

fn get(tx: &Transaction, table: &Arc<Table>, id: i32) -> Result<String> {
    let view = tx.statement(StatementKind::Read)?;
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int4(id)], &mut key)?;
    let mut buf = RowBuf::default();
    assert!(view.get(table, &key, &mut buf)?, "row {id} is there");
    match table.column(buf.raw(), 1)? {
        DatumRef::Text(text) => Ok(text.to_owned()),
        other => panic!("{other:?}"),
    }
}

fn values(db: &Database) -> Result<Vec<String>> {
    let (tx, table) = (db.begin(Isolation::ReadCommitted), table(db)?);
    (0..ROWS).map(|id| get(&tx, &table, id)).collect()
}

fn all_first(db: &Database) -> Result<()> {
    assert!(values(db)?.iter().all(|v| v == "first"));
    Ok(())
}

fn verified(db: &Database) -> Result<()> {
    db.finish_recovery()?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    Ok(())
}

/// A database whose rows are all under a transaction that a crash cut off: their committed
/// versions are in the version store and nowhere else.
fn cut_off(path: Option<&str>) -> Result<SimVfs> {
    let sim = disk()?;
    let db = open(&sim, path)?;
    let table = fill(&db)?;
    let tx = db.begin(Isolation::ReadCommitted);
    set_all(&tx, &table, "second")?;
    db.checkpoint()?;
    while db.write_back()? > 0 {}
    let after = sim.kill();
    std::mem::forget(tx);
    Ok(after)
}

fn file_bytes(sim: &SimVfs, path: &str) -> Result<u64> {
    sim.open(Path::new(path), OpenMode::ReadOnly)?.len()
}

#[test]
fn the_file_is_found_again() -> Result<()> {
    let sim = cut_off(Some(FILE))?;
    assert!(file_bytes(&sim, FILE)? > 8192);
    let db = open(&sim, None)?;
    assert_eq!(db.stats().version_store_file.as_deref(), Some(Path::new(FILE)));
    all_first(&db)?;
    verified(&db)?;
    db.clean()?;
    all_first(&db)?;
    for _ in 0..4 {
        db.begin(Isolation::ReadCommitted).commit(Durability::Sync)?.wait()?;
        db.clean()?;
    }
    assert_eq!(db.stats().versions.pages, 0, "everything was freed, unused ready pages included");
    verified(&db)?;
    db.close()?;
    // And it may be named again.
    open(&sim, Some(FILE))?.close()
}

#[test]
fn one_given_later_takes_the_new_versions_and_the_old_ones_drain() -> Result<()> {
    let sim = cut_off(None)?;
    let db = open(&sim, Some(FILE))?;
    all_first(&db)?;
    verified(&db)?;
    let in_data = db.stats().versions.pages;
    assert!(in_data > 0);
    let (old, table) = (db.begin(Isolation::RepeatableRead), table(&db)?);
    assert_eq!(get(&old, &table, 7)?, "first");
    let high_water = db.stats().space.high_water;
    let tx = db.begin(Isolation::ReadCommitted);
    set_all(&tx, &table, "third")?;
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(get(&old, &table, 7)?, "first", "an old snapshot reads from the new file");
    assert_eq!(db.stats().space.high_water, high_water, "the data file did not grow");
    assert!(db.stats().versions.file_bytes > 8192);
    drop(old);
    for _ in 0..4 {
        db.begin(Isolation::ReadCommitted).commit(Durability::Sync)?.wait()?;
        db.clean()?;
    }
    assert_eq!(db.stats().versions.pages, 0);
    verified(&db)
}

#[test]
fn a_moved_file_is_accepted_and_noted() -> Result<()> {
    let sim = cut_off(Some(FILE))?;
    let (kind, text) = refused(&sim, Some(OTHER));
    assert_eq!(kind, ErrorKind::Io);
    assert!(text.contains(FILE) && text.contains(OTHER) && text.contains("move the file"), "{text}");
    sim.rename(Path::new(FILE), Path::new(OTHER))?;
    let (kind, text) = refused(&sim, None);
    assert_eq!(kind, ErrorKind::Io);
    assert!(text.contains(FILE) && text.contains("version_store_path"), "{text}");
    let db = open(&sim, Some(OTHER))?;
    all_first(&db)?;
    db.close()?;
    drop(db);
    let db = open(&sim, None)?;
    assert_eq!(db.stats().version_store_file.as_deref(), Some(Path::new(OTHER)));
    all_first(&db)?;
    verified(&db)
}

/// Copies a file of the simulated disk.
fn copy(sim: &SimVfs, from: &str, to: &str) -> Result<()> {
    let (from, to) = (sim.open(Path::new(from), OpenMode::ReadOnly)?, sim.open(Path::new(to), OpenMode::Create)?);
    let mut bytes = vec![0; from.len()? as usize];
    from.read_exact_at(&mut bytes, 0)?;
    to.set_len(0)?;
    to.write_at(&bytes, 0)?;
    to.sync()
}

#[test]
fn wrong_files_are_told_apart() -> Result<()> {
    let sim = cut_off(Some(FILE))?;
    copy(&sim, FILE, "/disk3/old")?;
    let db = open(&sim, None)?;
    let (kind, text) = refused(&sim, None);
    assert_eq!(kind, ErrorKind::InUse, "{text}");
    db.close()?;
    drop(db);
    let (kind, text) = refused(&sim, Some("/disk3/old"));
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(text.contains("/disk3/old") && text.contains("an old copy"), "{text}");
    // Of another database.
    let other = cut_off(Some(FILE))?;
    let (kind, text) = {
        let other_file = other.open(Path::new(FILE), OpenMode::ReadWrite)?;
        let mine = sim.open(Path::new("/disk3/foreign"), OpenMode::Create)?;
        let mut bytes = vec![0; 8192];
        other_file.read_exact_at(&mut bytes, 0)?;
        let mut header = resurgam_page::version_file::VersionFileHeader::decode(&bytes)?;
        header.database_id = [5; 16];
        mine.write_at(&header.encode(), 0)?;
        refused(&sim, Some("/disk3/foreign"))
    };
    assert_eq!(kind, ErrorKind::InvalidParameter);
    assert!(text.contains("another database") && text.contains("/disk3/foreign"), "{text}");
    // No version store at all, and nothing of it is changed.
    sim.open(Path::new("/disk3/holiday.jpg"), OpenMode::Create)?.write_at(b"beach", 0)?;
    let (kind, text) = refused(&sim, Some("/disk3/holiday.jpg"));
    assert_eq!(kind, ErrorKind::NotADatabase);
    assert!(text.contains("holiday.jpg"), "{text}");
    assert_eq!(file_bytes(&sim, "/disk3/holiday.jpg")?, 5);
    let fresh = disk()?;
    open(&fresh, None)?.close()?;
    fresh.open(Path::new(FILE), OpenMode::Create)?.write_at(b"beach", 0)?;
    assert_eq!(refused(&fresh, Some(FILE)).0, ErrorKind::NotADatabase);
    assert_eq!(file_bytes(&fresh, FILE)?, 5);
    // A damaged header.
    sim.flip_bit(Path::new(FILE), 170)?;
    let (kind, text) = refused(&sim, None);
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(text.contains(FILE) && text.contains("checksum"), "{text}");
    sim.flip_bit(Path::new(FILE), 170)?;
    let db = open(&sim, None)?;
    all_first(&db)?;
    verified(&db)
}

#[test]
fn a_lost_record_is_made_good_by_the_option() -> Result<()> {
    for damage in [false, true] {
        let sim = cut_off(Some(FILE))?;
        let record = Path::new("/db/version-store");
        if damage {
            sim.flip_bit(record, 100)?;
        } else {
            sim.remove(record)?;
        }
        let (kind, text) = refused(&sim, None);
        assert_eq!(kind, ErrorKind::Corrupt);
        assert!(text.contains("/db/version-store") && text.contains("version_store_path"), "{text}");
        open(&sim, Some(FILE))?.close()?;
        all_first(&open(&sim, None)?)?;
    }
    Ok(())
}

#[test]
fn a_short_file_costs_the_rows_that_need_it_only() -> Result<()> {
    let sim = cut_off(Some(FILE))?;
    // A clean end first, so that neither the log nor the double-write area can help.
    let db = open(&sim, None)?;
    let tx = db.begin(Isolation::ReadCommitted);
    tx.insert(&table(&db)?, &[DatumRef::Int4(1000), DatumRef::Text("new")])?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    db.finish_recovery()?;
    db.close()?;
    drop(db);
    sim.open(Path::new(FILE), OpenMode::ReadWrite)?.set_len(2 * 8192)?;
    sim.open(Path::new("/db/doublewrite"), OpenMode::ReadWrite)?.set_len(0)?;
    let db = open(&sim, None)?;
    let (tx, table) = (db.begin(Isolation::ReadCommitted), table(&db)?);
    assert_eq!(get(&tx, &table, 1000)?, "new");
    let Err(error) = get(&tx, &table, 3) else { panic!("its version is gone") };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains(FILE), "{error}");
    assert!(db.verify().is_err_and(|e| e.message().contains(FILE)));
    Ok(())
}

#[test]
fn a_lost_file_is_given_up_only_when_told() -> Result<()> {
    for again in [None, Some(OTHER)] {
        let sim = cut_off(Some(FILE))?;
        sim.remove(Path::new(FILE))?;
        assert_eq!(refused(&sim, None).0, ErrorKind::Io);
        let db = open_as(&sim, Options { version_store_lost: true, ..options(again) })?;
        assert_eq!(db.stats().version_store_file.as_deref(), again.map(Path::new));
        let (tx, table) = (db.begin(Isolation::ReadCommitted), table(&db)?);
        // Rows that do not need the file go on, with versions in the new place.
        tx.insert(&table, &[DatumRef::Int4(1000), DatumRef::Text("new")])?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        let tx = db.begin(Isolation::ReadCommitted);
        set(&tx, &table, 1000, "newer")?;
        tx.commit(Durability::Sync)?.wait()?;
        let tx = db.begin(Isolation::ReadCommitted);
        assert_eq!(get(&tx, &table, 1000)?, "newer");
        let Err(error) = get(&tx, &table, 3) else { panic!("its version is gone") };
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(error.message().contains("given up"), "{error}");
        drop(tx);
        db.clean()?;
        let after = sim.crash();
        let db = open(&after, None)?;
        db.finish_recovery()?;
        let tx = db.begin(Isolation::ReadCommitted);
        assert_eq!(get(&tx, &table, 1000)?, "newer");
        assert!(get(&tx, &table, 3).is_err(), "a pointer into the lost file never meets the new one");
    }
    Ok(())
}

/// Updates under an old snapshot until the version store is full.
fn until_full(db: &Database, table: &Arc<Table>) -> Result<Error> {
    let old = db.begin(Isolation::RepeatableRead);
    get(&old, table, 0)?;
    let value = "x".repeat(600);
    for _ in 0..200 {
        let tx = db.begin(Isolation::ReadCommitted);
        for id in 0..ROWS {
            if let Err(error) = set(&tx, table, id, &value) {
                // Rolling back, reading and inserting need no space there.
                tx.rollback()?;
                let tx = db.begin(Isolation::ReadCommitted);
                tx.insert(table, &[DatumRef::Int4(5000), DatumRef::Text("new")])?.done()?;
                tx.commit(Durability::Sync)?.wait()?;
                assert_eq!(get(&old, table, 0)?, "first");
                return Ok(error);
            }
        }
        tx.commit(Durability::Sync)?.wait()?;
    }
    panic!("never full");
}

fn goes_on(db: &Database, table: &Arc<Table>) -> Result<()> {
    for _ in 0..4 {
        db.begin(Isolation::ReadCommitted).commit(Durability::Sync)?.wait()?;
        db.clean()?;
    }
    let tx = db.begin(Isolation::ReadCommitted);
    set_all(&tx, table, "after")?;
    tx.commit(Durability::Sync)?.wait()?;
    assert_eq!(get(&db.begin(Isolation::ReadCommitted), table, 1)?, "after");
    verified(db)
}

#[test]
fn a_full_disk_fails_the_statement_and_nothing_else() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(FILE))?;
    let table = fill(&db)?;
    sim.set_faults(FaultPlan { small_disk: Some(("/disk2".into(), 50 * 8192)), ..FaultPlan::default() });
    let error = until_full(&db, &table)?;
    assert_eq!(error.kind(), ErrorKind::DiskFull);
    assert_eq!(error.sqlstate(), "53100");
    assert!(error.message().contains(FILE), "{error}");
    assert!(error.detail().is_some_and(|d| d.contains("held by") && d.contains("snapshots")), "{error}");
    assert!(error.hint().is_some());
    // The snapshot is gone: the same space serves again.
    goes_on(&db, &table)?;
    assert_eq!(file_bytes(&sim, FILE)?, 50 * 8192, "the last bit of the disk was used");
    db.close()
}

#[test]
fn a_bound_holds_in_either_place() -> Result<()> {
    for path in [None, Some(FILE)] {
        let sim = disk()?;
        let bounded = Options { version_store_bytes_max: 40 * 8192, ..options(path) };
        let db = open_as(&sim, bounded.clone())?;
        let table = fill(&db)?;
        let error = until_full(&db, &table)?;
        assert_eq!(error.kind(), ErrorKind::DiskFull);
        assert!(error.message().contains("version_store_bytes_max"), "{error}");
        assert!(db.stats().versions.pages <= 40);
        goes_on(&db, &table)?;
        if path.is_some() {
            assert_eq!(file_bytes(&sim, FILE)?, 40 * 8192);
        }
        // In a new life what is free is found before the bound is met.
        let after = sim.crash();
        let db = open_as(&after, bounded)?;
        let tx = db.begin(Isolation::ReadCommitted);
        set_all(&tx, &table, "again")?;
        tx.commit(Durability::Sync)?.wait()?;
        verified(&db)?;
    }
    Ok(())
}

#[test]
fn pages_are_ready_before_they_are_needed() -> Result<()> {
    let sim = disk()?;
    let db = open_as(&sim, Options { version_pages_ready: 16, ..options(Some(FILE)) })?;
    let table = fill(&db)?;
    assert_eq!(db.stats().versions.pages_ready, 0, "nothing is kept for a store that nobody uses");
    let _old = db.begin(Isolation::RepeatableRead).statement(StatementKind::Read)?;
    for _ in 0..20 {
        let tx = db.begin(Isolation::ReadCommitted);
        set_all(&tx, &table, &"y".repeat(900))?;
        tx.commit(Durability::Sync)?.wait()?;
    }
    let stats = db.stats().versions;
    assert!(stats.pages > 50 && stats.pages_ready >= 15, "{stats:?}");
    assert_eq!(stats.found_none, 1, "only the first push found none");
    verified(&db)?;
    // What was ready and not used is found after a crash.
    let db = open(&sim.crash(), None)?;
    verified(&db)?;
    for _ in 0..4 {
        db.begin(Isolation::ReadCommitted).commit(Durability::Sync)?.wait()?;
        db.clean()?;
    }
    assert_eq!(db.stats().versions.pages, 0);
    verified(&db)
}

#[test]
fn in_the_background_on_a_real_disk() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("resurgam-version-file-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    RealVfs::new().create_dir_all(&folder)?;
    let (dir, file) = (folder.join("db"), folder.join("versions"));
    let real = || -> Result<Database> {
        let options = Options {
            background: true,
            cleaner_interval_s: 0.1,
            version_pages_ready: 64,
            version_store_path: Some(file.clone()),
            ..options(None)
        };
        Database::open_with(Arc::new(RealVfs::new()), &dir, options, |_| {})
    };
    let db = real()?;
    let table = fill(&db)?;
    let tx = db.begin(Isolation::ReadCommitted);
    set_all(&tx, &table, &"z".repeat(700))?;
    tx.commit(Durability::Sync)?.wait()?;
    let patience = std::time::Instant::now();
    while db.stats().versions.pages_ready < 64 && patience.elapsed().as_secs() < 20 {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let before = db.stats().versions;
    // What four threads push now fits in the pages that are ready.
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|part| {
                let (db, table) = (&db, &table);
                scope.spawn(move || -> Result<()> {
                    for round in 0..8 {
                        let tx = db.begin(Isolation::ReadCommitted);
                        for id in (0..ROWS).filter(|id| id % 4 == part) {
                            set(&tx, table, id, &format!("{round}{}", "z".repeat(700)))?;
                        }
                        tx.commit(Durability::Async)?.wait()?;
                    }
                    Ok(())
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| thread.join().unwrap_or_else(|_| Err(Error::internal("panic"))))
    })?;
    let after = db.stats().versions;
    assert!(after.pushed >= before.pushed + 400 && after.file_bytes > 0, "{after:?}");
    assert_eq!(after.found_none, before.found_none, "every push found a page ready: {before:?} {after:?}");
    db.close()?;
    drop(db);
    let db = real()?;
    assert!(values(&db)?.iter().all(|v| v.starts_with('7')));
    db.close()?;
    let _ = std::fs::remove_dir_all(&folder);
    Ok(())
}

#[test]
fn pages_without_space_do_not_hold_up_the_others() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(FILE))?;
    let tx = db.begin(Isolation::ReadCommitted);
    set_all(&tx, &fill(&db)?, "second")?;
    tx.commit(Durability::Sync)?.wait()?;
    // The crash takes back the space, which nobody had synced; then there is none.
    let after = (0..100)
        .map(|seed| sim.crash_clone(seed))
        .find(|after| file_bytes(after, FILE).is_ok_and(|bytes| bytes <= 8192));
    let Some(after) = after else { panic!("no crash took the space back") };
    let used = file_bytes(&after, FILE)?;
    after.set_faults(FaultPlan { small_disk: Some(("/disk2".into(), used)), ..FaultPlan::default() });
    let db = open(&after, None)?;
    db.finish_recovery()?;
    for id in [1000, 1001] {
        let tx = db.begin(Isolation::ReadCommitted);
        tx.insert(&table(&db)?, &[DatumRef::Int4(id), DatumRef::Text("new")])?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        assert!(db.write_back()? > 0, "the others are written");
        let waiting = db.write_back();
        assert!(waiting.is_err_and(|e| e.kind() == ErrorKind::DiskFull && e.message().contains(FILE)));
        db.checkpoint()?;
    }
    after.set_faults(FaultPlan::default());
    assert!(db.write_back()? > 0, "now there is space");
    assert_eq!(db.stats().dirty_pages, 0);
    verified(&db)
}

/// A page that was being filled and cannot be read any more concerns who needs what is in it, and no writer.
#[test]
fn writers_go_on_when_the_page_that_they_fill_cannot_be_read() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(FILE))?;
    let t = fill(&db)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "large").column("id", ColumnType::Int4).column("v", ColumnType::Text);
    let large = tx.create_table(spec.primary_key(&["id"]))?.done()?;
    for id in 0..6000 {
        tx.insert(&large, &[DatumRef::Int4(id), DatumRef::Text(&"x".repeat(400))])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    // Somebody for whom the versions stay.
    let old = db.begin(Isolation::RepeatableRead);
    old.statement(StatementKind::Read)?;
    for round in 0..3 {
        let tx = db.begin(Isolation::ReadCommitted);
        set(&tx, &t, 1, &format!("round {round}"))?;
        tx.commit(Durability::Sync)?.wait()?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        sim.make_unreadable(Path::new(FILE), 2 * limits::PAGE_SIZE as u64..file_bytes(&sim, FILE)?)?;
        // Nothing of it stays in memory.
        let reader = db.begin(Isolation::ReadCommitted);
        (0..6000).step_by(10).try_for_each(|id| get(&reader, &large, id).map(|_| ()))?;
    }
    let reader = db.begin(Isolation::ReadCommitted);
    assert_eq!(get(&reader, &t, 1)?, "round 2");
    assert!(get(&old, &t, 1).is_err_and(|error| error.kind() == ErrorKind::Io));
    Ok(())
}
