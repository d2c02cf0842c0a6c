//! Folders that cannot be opened: each a clear error that names what is wrong, and none of
//! them is changed by the attempt.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use resurgam_engine::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

use crate::common::open::{is_traditional, open_as, small_log};

fn options() -> Options {
    Options {
        // What damage does is looked at here.
        page_repair: false,
        ..small_log(is_traditional())
    }
}

fn open(sim: &SimVfs) -> Result<Database> {
    open_as(sim, options())
}

fn kind(sim: &SimVfs) -> (ErrorKind, String) {
    match open(sim) {
        Ok(_) => panic!("it opened"),
        Err(error) => (error.kind(), error.to_string()),
    }
}

fn path(name: &str) -> PathBuf {
    Path::new("/db").join(name)
}

fn overwrite(sim: &SimVfs, name: &str, at: u64, bytes: &[u8]) -> Result<()> {
    let file = sim.open(&path(name), OpenMode::ReadWrite)?;
    file.write_at(bytes, at)?;
    file.sync()
}

/// A small closed database.
fn made() -> Result<SimVfs> {
    let sim = SimVfs::new(7);
    let db = open(&sim)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int4).primary_key(&["id"]);
    let table = tx.create_table(spec)?.done()?;
    for id in 0..100 {
        tx.insert(&table, &[DatumRef::Int4(id)])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    db.close()?;
    Ok(sim)
}

/// How many rows its table has.
fn rows_of(db: &Database) -> Result<usize> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut rows) = (RowBatch::default(), 0);
    while cursor.next_batch(&mut batch, 1000)? {
        rows += batch.len();
        batch.clear();
    }
    Ok(rows)
}

#[test]
fn in_use() -> Result<()> {
    let sim = made()?;
    let _first = open(&sim)?;
    let (kind, text) = kind(&sim);
    assert_eq!(kind, ErrorKind::InUse);
    assert!(text.contains("/db"), "{text}");
    Ok(())
}

#[test]
fn somebody_elses_folder() -> Result<()> {
    let sim = SimVfs::new(1);
    sim.make_folder(Path::new("/db"))?;
    sim.open(&path("holiday.jpg"), OpenMode::CreateNew)?.write_at(b"beach", 0)?;
    assert_eq!(kind(&sim).0, ErrorKind::NotADatabase);
    assert_eq!(sim.list(Path::new("/db"))?.iter().filter(|n| *n != "lock").count(), 1, "nothing was added");
    Ok(())
}

#[test]
fn a_newer_format() -> Result<()> {
    let sim = made()?;
    for copy in [0u64, 4096] {
        let file = sim.open(&path("control"), OpenMode::ReadWrite)?;
        let mut bytes = [0u8; 44];
        file.read_exact_at(&mut bytes, copy)?;
        bytes[4..8].copy_from_slice(&99u32.to_le_bytes());
        let crc = resurgam_base::checksum(&bytes[..40]);
        bytes[40..44].copy_from_slice(&crc.to_le_bytes());
        overwrite(&sim, "control", copy, &bytes)?;
    }
    let (kind, text) = kind(&sim);
    assert_eq!(kind, ErrorKind::NewerFormat);
    assert!(text.contains("99"), "{text}");
    Ok(())
}

#[test]
fn one_damaged_copy_of_the_control_file_is_no_loss() -> Result<()> {
    for copy in [0u64, 4096] {
        let sim = made()?;
        // The copy before the last of a close names the same checkpoint.
        overwrite(&sim, "control", copy, &[0xFF; 44])?;
        let db = open(&sim)?;
        assert_eq!(rows_of(&db)?, 100, "copy at {copy}");
        db.close()?;
    }
    let sim = made()?;
    overwrite(&sim, "control", 0, &[0xFF; 8192])?;
    let (kind, text) = kind(&sim);
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(text.contains("control"), "{text}");
    Ok(())
}

#[test]
fn a_damaged_boot_page() -> Result<()> {
    let sim = made()?;
    overwrite(&sim, "data", 100, &[0xFF; 10])?;
    let (kind, text) = kind(&sim);
    assert_eq!(kind, ErrorKind::Corrupt);
    assert!(text.contains("boot page"), "{text}");
    Ok(())
}

#[test]
fn a_missing_log() -> Result<()> {
    let sim = made()?;
    for name in sim.list(&path("log"))? {
        sim.remove(&path("log").join(name))?;
    }
    let (kind, text) = kind(&sim);
    assert_eq!(kind, ErrorKind::Corrupt, "{text}");
    assert!(text.contains("log"), "{text}");
    Ok(())
}

#[test]
fn a_data_file_cut_short_is_reported_where_it_is_read() -> Result<()> {
    for double_write in [true, false] {
        let sim = made()?;
        let file = sim.open(&path("data"), OpenMode::ReadWrite)?;
        file.set_len(8192)?;
        file.sync()?;
        if !double_write {
            sim.remove(&path("doublewrite"))?;
        }
        // The double-write area has the boot page at most: a reader gets a located error, never fewer rows.
        let db = open(&sim)?;
        let Err(error) = rows_of(&db) else { panic!("rows of a file that is gone") };
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("/db/data"), "{error}");
    }
    Ok(())
}

#[test]
fn creation_that_was_cut_off_starts_over() -> Result<()> {
    for ops in 1..60 {
        let sim = SimVfs::new(ops);
        sim.set_faults(resurgam_vfs::FaultPlan { crash_after_ops: Some(ops), ..Default::default() });
        if open(&sim).is_ok() {
            continue;
        }
        let sim = sim.crash();
        let db = open(&sim)?;
        assert!(db.begin(Isolation::ReadCommitted).tables()?.is_empty());
    }
    Ok(())
}

/// Every file of the folder with its bytes. The lock file says nothing about the database.
fn bytes(vfs: &dyn Vfs, dir: &Path) -> Result<BTreeMap<PathBuf, Vec<u8>>> {
    let mut all = BTreeMap::new();
    for folder in [dir.to_path_buf(), dir.join("log")] {
        if !vfs.exists(&folder)? {
            continue;
        }
        for name in vfs.list(&folder)?.into_iter().filter(|name| name != "lock" && name != "log") {
            let file = vfs.open(&folder.join(&name), OpenMode::ReadOnly)?;
            let mut content = vec![0; file.len()? as usize];
            file.read_exact_at(&mut content, 0)?;
            all.insert(folder.join(&name), content);
        }
    }
    Ok(all)
}

/// A database with a log of several segments that an open has to read, after a power loss.
fn with_much_log() -> Result<SimVfs> {
    let sim = made()?;
    let db = open(&sim)?;
    let note = "x".repeat(700);
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "b").column("id", ColumnType::Int4).column("note", ColumnType::Text);
    let table = tx.create_table(spec.primary_key(&["id"]))?.done()?;
    for id in 0..4000 {
        tx.insert(&table, &[DatumRef::Int4(id), DatumRef::Text(&note)])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    // Small blocks of all sizes at the end.
    for id in 4000..5000 {
        let tx = db.begin(Isolation::ReadCommitted);
        tx.insert(&table, &[DatumRef::Int4(id), DatumRef::Text(&"x".repeat(id as usize % 1300))])?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
    }
    assert!(sim.list(&path("log"))?.len() > 3);
    Ok(sim.crash())
}

/// The segment in which the log ends: the last that is not all zeros.
fn last_used(sim: &SimVfs) -> Result<String> {
    let mut last = String::new();
    for (file, content) in bytes(sim, Path::new("/db"))? {
        if file.starts_with(path("log")) && content.iter().any(|b| *b != 0) {
            last = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        }
    }
    Ok(format!("log/{last}"))
}

/// Its name, what is done to the folder, and words that the error must have.
type Damage = (&'static str, fn(&SimVfs) -> Result<()>, &'static [&'static str]);

#[test]
fn damaged_folders_are_refused_and_left_as_they_are() -> Result<()> {
    fn cut(sim: &SimVfs, name: &str, len: u64) -> Result<()> {
        let file = sim.open(&path(name), OpenMode::ReadWrite)?;
        file.set_len(len)?;
        file.sync()
    }
    fn segment(sim: &SimVfs, at: usize) -> Result<String> {
        Ok(format!("log/{}", sim.list(&path("log"))?[at]))
    }
    let cases: &[Damage] = &[
        ("no data file", |s| s.remove(&path("data")), &["/db/data", "missing"]),
        ("an empty data file", |s| cut(s, "data", 0), &["/db/data", "ends too early"]),
        ("half a boot page", |s| cut(s, "data", 4000), &["/db/data", "ends too early"]),
        ("an empty control file", |s| cut(s, "control", 0), &["/db/control", "damaged"]),
        ("both control copies damaged", |s| overwrite(s, "control", 0, &[7; 8192]), &["/db/control", "damaged"]),
        ("no control file", |s| s.remove(&path("control")), &["/db", "control"]),
        ("the first segment is missing", |s| s.remove(&path(&segment(s, 0)?)), &["/db/log/", ".log", "LSN"]),
        ("a segment in the middle is missing", |s| s.remove(&path(&segment(s, 1)?)), &["/db/log/", ".log", "LSN"]),
        ("the last used segment is missing", |s| s.remove(&path(&last_used(s)?)), &["/db/log/", "is missing", "LSN"]),
        ("the last used segment is cut", |s| cut(s, &last_used(s)?, 8192), &["/db/log/", ".log", "LSN"]),
        ("a segment in the middle is empty", |s| cut(s, &segment(s, 1)?, 0), &["/db/log/", ".log", "LSN"]),
        (
            "all segments are missing",
            |s| s.list(&path("log"))?.iter().try_for_each(|name| s.remove(&path("log").join(name))),
            &["/db/log/", ".log", "LSN"],
        ),
    ];
    for (what, damage, words) in cases {
        let sim = with_much_log()?;
        damage(&sim)?;
        let before = bytes(&sim, Path::new("/db"))?;
        let Err(error) = open(&sim) else { panic!("{what}: it opened") };
        let expected = if *what == "no control file" { ErrorKind::NotADatabase } else { ErrorKind::Corrupt };
        assert_eq!(error.kind(), expected, "{what}: {error}");
        assert!(words.iter().all(|word| error.to_string().contains(word)), "{what}: {error}");
        assert!(error.hint().is_some(), "{what}: {error} says not what to do");
        assert!(before == bytes(&sim, Path::new("/db"))?, "{what}: the failed open changed the folder");
    }
    Ok(())
}

/// The control file of another database: its checkpoint leads nowhere.
#[test]
fn another_databases_control_file() -> Result<()> {
    let (sim, other) = (made()?, with_much_log()?);
    let mut content = vec![0; 8192];
    let db = open(&other)?;
    db.checkpoint()?;
    drop(db);
    other.open(&path("control"), OpenMode::ReadOnly)?.read_exact_at(&mut content, 0)?;
    overwrite(&sim, "control", 0, &content)?;
    let before = bytes(&sim, Path::new("/db"))?;
    let (kind, text) = kind(&sim);
    assert_eq!(kind, ErrorKind::Corrupt, "{text}");
    assert!(text.contains("checkpoint") && text.contains(".log"), "{text}");
    assert!(before == bytes(&sim, Path::new("/db"))?, "the failed open changed the folder");
    Ok(())
}

/// Torn-write protection is needed after a crash only if pages are torn: without it the
/// database opens.
#[test]
fn a_missing_or_short_double_write_area() -> Result<()> {
    for len in [None, Some(0), Some(100), Some(5000)] {
        let sim = with_much_log()?;
        match len {
            None => sim.remove(&path("doublewrite"))?,
            Some(len) => sim.open(&path("doublewrite"), OpenMode::ReadWrite)?.set_len(len)?,
        }
        let db = open(&sim)?;
        db.finish_recovery()?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "{len:?}");
    }
    Ok(())
}

/// Pages behind the end of the data file: those that the log can make anew are made anew,
/// others are an error where they are touched, and the rest is served.
#[test]
fn a_data_file_that_lost_its_end() -> Result<()> {
    let sim = with_much_log()?;
    let file = sim.open(&path("data"), OpenMode::ReadWrite)?;
    file.set_len(40 * 8192)?;
    file.sync()?;
    let db = open(&sim)?;
    db.finish_recovery()?;
    assert_eq!(db.verify()?, Vec::<String>::new(), "all that was lost is in the log");
    db.close()?;
    drop(db);
    // Now it is not: the log before the checkpoint is gone.
    let file = sim.open(&path("data"), OpenMode::ReadWrite)?;
    file.set_len(380 * 8192)?;
    file.sync()?;
    let db = open(&sim)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let (t, b) = (tx.table("public", "t")?, tx.table("public", "b")?);
    let (Some(t), Some(b)) = (t, b) else { panic!("the catalog is there") };
    let view = tx.statement(StatementKind::Read)?;
    let (mut found, mut lost, mut row) = (0, 0, RowBuf::default());
    for id in 0..4000 {
        let mut key = Vec::new();
        b.encode_key(&[DatumRef::Int4(id)], &mut key)?;
        match view.get(&b, &key, &mut row) {
            Ok(there) => found += u32::from(there),
            Err(error) => {
                lost += 1;
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                assert!(error.to_string().contains("/db/data") && error.to_string().contains("page "), "{error}");
            }
        }
    }
    assert!(found > 1000 && lost > 100 && found + lost == 4000, "{found} found, {lost} lost");
    for id in 0..100 {
        let mut key = Vec::new();
        t.encode_key(&[DatumRef::Int4(id)], &mut key)?;
        assert!(view.get(&t, &key, &mut row)?);
    }
    tx.insert(&t, &[DatumRef::Int4(1000)])?.done()?;
    tx.commit(Durability::Sync)?.wait()
}

/// A sweep passes over a damaged space map (`damaged_maps.rs` has more).
#[test]
fn a_damaged_space_map() -> Result<()> {
    let sim = made()?;
    let db = open(&sim)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let Some(table) = tx.table("public", "t")? else { panic!("the table is there") };
    tx.insert(&table, &[DatumRef::Int4(500)])?.done()?;
    tx.rollback()?;
    db.close()?;
    drop(db);
    overwrite(&sim, "data", 8192 + 3000, &[0xFF; 4])?;
    // Not to be repaired from there.
    overwrite(&sim, "doublewrite", 0, &[0; 4096])?;
    let db = open(&sim)?;
    let report = db.clean()?;
    assert!(report.pages_skipped > 0 && report.kept == 0, "{report:?}");
    let tx = db.begin(Isolation::ReadCommitted);
    let (view, mut row, mut key) = (tx.statement(StatementKind::Read)?, RowBuf::default(), Vec::new());
    table.encode_key(&[DatumRef::Int4(500)], &mut key)?;
    assert!(!view.get(&table, &key, &mut row)?, "what was aborted stays so");
    Ok(())
}
