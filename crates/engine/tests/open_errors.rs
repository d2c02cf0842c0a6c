//! Folders that cannot be opened: each a clear error that names what is wrong, and none of
//! them is changed by the attempt.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

fn options() -> Options {
    Options {
        buffer_bytes: 1 << 20,
        log_segment_bytes: 1 << 20,
        background: false,
        accelerated_database_recovery: std::env::var("RESURGAM_MODE").as_deref() != Ok("traditional"),
        ..Options::default()
    }
}

fn open(sim: &SimVfs) -> Result<Database> {
    Database::open_with(Arc::new(sim.clone()), Path::new("/db"), options(), |_| {})
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
    sim.create_dir_all(Path::new("/db"))?;
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
        // The older copy names an older checkpoint; the log from there may be gone, in
        // which case the error must say so.
        overwrite(&sim, "control", copy, &[0xFF; 44])?;
        match open(&sim) {
            Ok(db) => assert!(db.begin(Isolation::ReadCommitted).table("public", "t")?.is_some()),
            Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
        }
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
    let sim = made()?;
    let file = sim.open(&path("data"), OpenMode::ReadWrite)?;
    file.set_len(8192)?;
    file.sync()?;
    // The double-write area may have all of it; if not, a reader gets a located error.
    match open(&sim) {
        Ok(db) => {
            if let Err(error) = db.begin(Isolation::ReadCommitted).table("public", "t") {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            }
        }
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
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
