//! The log in a folder of its own: made, found again, moved, missing, empty, foreign, an old copy, in use; and who
//! holds the log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_recovery::{BEING_MADE, LogOwner};
use resurgam_vfs::{FaultPlan, OpenMode, SimVfs, Vfs};

const LOG: &str = "/disk2/log";
const OTHER: &str = "/disk3/log";
const ROWS: i32 = 40;
const WAIT: Duration = Duration::from_secs(60);

fn disk() -> Result<SimVfs> {
    let sim = SimVfs::new(3);
    sim.make_folder(Path::new("/disk2"))?;
    sim.make_folder(Path::new("/disk3"))?;
    Ok(sim)
}

fn options(log_dir: Option<&str>) -> Options {
    Options {
        buffer_bytes: 1 << 20,
        log_segment_bytes: 1 << 20,
        log_dir: log_dir.map(Into::into),
        background: false,
        ..Options::default()
    }
}

fn open_at(sim: &SimVfs, dir: &str, log_dir: Option<&str>) -> Result<Database> {
    Database::open_with(Arc::new(sim.clone()), Path::new(dir), options(log_dir), |_| {})
}

fn open(sim: &SimVfs, log_dir: Option<&str>) -> Result<Database> {
    open_at(sim, "/db", log_dir)
}

/// The error of an open, as a person reads it.
fn refused(sim: &SimVfs, log_dir: Option<&str>) -> (ErrorKind, String) {
    match open(sim, log_dir) {
        Ok(_) => panic!("it opened"),
        Err(error) => (error.kind(), format!("{error} HINT {}", error.hint().unwrap_or("none"))),
    }
}

fn fill(db: &Database, name: &str) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", name).column("id", ColumnType::Int4).column("v", ColumnType::Text);
    let table = tx.create_table(spec.primary_key(&["id"]))?.done()?;
    let value = "v".repeat(1000);
    for id in 0..ROWS {
        tx.insert(&table, &[DatumRef::Int4(id), DatumRef::Text(&value)])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()
}

fn count(db: &Database, name: &str) -> Result<usize> {
    let tx = db.begin(Isolation::ReadCommitted);
    let Some(table) = tx.table("public", name)? else { return Ok(0) };
    let mut cursor = tx.view()?.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut batch, mut rows) = (RowBatch::default(), 0);
    loop {
        batch.clear();
        let more = cursor.next_batch(&mut batch, 100)?;
        rows += batch.len();
        if !more {
            return Ok(rows);
        }
    }
}

/// Moves the files of a folder, as an operator would with the server stopped.
fn move_files(sim: &SimVfs, from: &str, to: &str) -> Result<()> {
    sim.make_folder(Path::new(to))?;
    for name in sim.list(Path::new(from))? {
        sim.rename(&Path::new(from).join(&name), &Path::new(to).join(&name))?;
    }
    sim.sync_dir(Path::new(from))?;
    sim.sync_dir(Path::new(to))
}

fn copy_files(sim: &SimVfs, from: &str, to: &str) -> Result<()> {
    sim.make_folder(Path::new(to))?;
    for name in sim.list(Path::new(from))? {
        let source = sim.open(&Path::new(from).join(&name), OpenMode::ReadOnly)?;
        let mut bytes = vec![0; source.len()? as usize];
        source.read_exact_at(&mut bytes, 0)?;
        let copy = sim.open(&Path::new(to).join(&name), OpenMode::Create)?;
        copy.set_len(0)?;
        copy.write_at(&bytes, 0)?;
    }
    Ok(())
}

#[test]
fn made_recorded_and_moved() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(LOG))?;
    fill(&db, "a")?;
    drop(db);
    let sim = sim.crash();
    assert!(!sim.exists(Path::new("/db/log"))?, "nothing of the log is in the data folder");
    assert!(sim.list(Path::new(LOG))?.iter().any(|name| name.ends_with(".log")));
    // Recorded: it need not be given again, and may be.
    for given in [None, Some(LOG), None] {
        let db = open(&sim, given)?;
        assert_eq!(count(&db, "a")?, ROWS as usize);
        db.close()?;
    }
    // Moved to another disk, then into the data folder.
    move_files(&sim, LOG, OTHER)?;
    let (kind, text) = refused(&sim, None);
    assert!(kind == ErrorKind::Io && text.contains(LOG) && text.contains("log_dir"), "{text}");
    let db = open(&sim, Some(OTHER))?;
    fill(&db, "b")?;
    drop(db);
    let sim = sim.crash();
    let db = open(&sim, None)?;
    assert_eq!((count(&db, "a")?, count(&db, "b")?), (ROWS as usize, ROWS as usize));
    db.close()?;
    move_files(&sim, OTHER, "/db/log")?;
    open(&sim, Some("log"))?.close()?;
    let db = open(&sim, None)?;
    assert_eq!(count(&db, "b")?, ROWS as usize);
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()
}

/// A database that had its log in the data folder gives it a disk of its own.
#[test]
fn moved_out_of_the_data_folder() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, None)?;
    fill(&db, "a")?;
    db.close()?;
    let (kind, text) = refused(&sim, Some(LOG));
    assert!(kind == ErrorKind::Io && text.contains("does not exist") && text.contains("/db/log"), "{text}");
    sim.make_folder(Path::new(LOG))?;
    let (kind, text) = refused(&sim, Some(LOG));
    assert!(kind == ErrorKind::Io && text.contains("holds no log") && text.contains("/db/log"), "{text}");
    copy_files(&sim, "/db/log", LOG)?;
    let (kind, text) = refused(&sim, Some(LOG));
    assert!(kind == ErrorKind::Io && text.contains("holds one as well"), "{text}");
    open(&sim, None)?.close()?;
    move_files(&sim, "/db/log", LOG)?;
    let (kind, text) = refused(&sim, None);
    assert!(kind == ErrorKind::Corrupt && text.contains("missing"), "{text}");
    let db = open(&sim, Some(LOG))?;
    assert_eq!(count(&db, "a")?, ROWS as usize);
    db.close()?;
    open(&sim, None)?.close()
}

#[test]
fn the_wrong_folder_is_refused() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(LOG))?;
    fill(&db, "a")?;
    db.close()?;
    // Of another database, given by name.
    open_at(&sim, "/db2", Some(OTHER))?.close()?;
    let (kind, text) = refused(&sim, Some(OTHER));
    assert!(kind == ErrorKind::InvalidParameter && text.contains("another database") && text.contains(OTHER), "{text}");
    // A new database never takes a folder that holds anything.
    for taken in [OTHER, "/disk3"] {
        let error = open_at(&sim, "/db3", Some(taken)).err().map(|error| (error.kind(), error.to_string()));
        let Some((ErrorKind::InvalidParameter, text)) = error else { panic!("{error:?}") };
        assert!(text.contains("not empty") && text.contains(taken), "{text}");
    }
    // An old copy: commits would be lost in silence.
    copy_files(&sim, LOG, "/old")?;
    let db = open(&sim, None)?;
    let (kind, text) = {
        copy_files(&sim, "/db", "/copy")?;
        let error = open_at(&sim, "/copy", None).err().expect("the log is in use");
        (error.kind(), error.to_string())
    };
    assert!(kind == ErrorKind::InUse && text.contains(LOG), "{text}");
    db.close()?;
    drop(db);
    copy_files(&sim, "/old", LOG)?;
    let (kind, text) = refused(&sim, None);
    assert!(kind == ErrorKind::Corrupt && text.contains("old copy"), "{text}");
    // Its disk is not mounted.
    for name in sim.list(Path::new(LOG))? {
        sim.remove(&Path::new(LOG).join(name))?;
    }
    let (kind, text) = refused(&sim, None);
    assert!(kind == ErrorKind::Io && text.contains("not mounted") && text.contains("log_dir"), "{text}");
    Ok(())
}

/// A crash at every call of making a database: the next open makes it, in the same folders, be the log's the data folder's own or not.
#[test]
fn a_crash_while_it_is_made() -> Result<()> {
    for log_dir in [None, Some(LOG)] {
        let mut made_at = None;
        for ops in 1.. {
            let sim = disk()?;
            sim.set_faults(FaultPlan { crash_after_ops: Some(ops), ..FaultPlan::default() });
            let first = open(&sim, log_dir).and_then(|db| fill(&db, "a"));
            let sim = sim.crash();
            let db = open(&sim, log_dir).unwrap_or_else(|error| panic!("crash after {ops}: {error:?}"));
            if first.is_ok() {
                assert_eq!(count(&db, "a")?, ROWS as usize);
                made_at = Some(ops);
            }
            fill(&db, &format!("b{ops}"))?;
            drop(db);
            let db = open(&sim.crash(), None)?;
            assert_eq!(count(&db, &format!("b{ops}"))?, ROWS as usize);
            if made_at.is_some() {
                break;
            }
        }
        assert!(made_at.is_some_and(|ops| ops > 30), "{log_dir:?}: {made_at:?}");
    }
    Ok(())
}

/// The same, and the data folder is lost: what is left of the log is of no database as long as nobody has opened that, and the next open begins anew. From
/// then on it is refused, as there may be data, and nothing is removed.
#[test]
fn a_crash_while_it_is_made_and_the_data_folder_is_lost() -> Result<()> {
    let (mut anew, mut refused) = (0, 0);
    for ops in 1.. {
        let sim = disk()?;
        sim.set_faults(FaultPlan { crash_after_ops: Some(ops), ..FaultPlan::default() });
        let first = open(&sim, Some(LOG)).and_then(|db| fill(&db, "a"));
        let sim = sim.crash();
        let dir = Path::new("/db");
        let names = if sim.exists(dir)? { sim.list(dir)? } else { Vec::new() };
        names.iter().try_for_each(|name| sim.remove(&dir.join(name)))?;
        let log = |sim: &SimVfs| -> Result<Vec<String>> {
            let path = Path::new(LOG);
            if sim.exists(path)? { sim.list(path) } else { Ok(Vec::new()) }
        };
        let before = log(&sim)?;
        let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
        let was_opened = LogOwner::read(&vfs, Path::new(LOG))?.is_some_and(|owner| owner.epoch != BEING_MADE);
        match open(&sim, Some(LOG)) {
            Ok(db) => {
                assert!(first.is_err(), "crash after {ops}: what was committed is gone");
                assert!(!was_opened, "crash after {ops}");
                anew += u64::from(before.iter().any(|name| name.ends_with(".log")));
                fill(&db, "b")?;
                drop(db);
                let db = open(&sim.crash(), None)?;
                assert_eq!(count(&db, "b")?, ROWS as usize, "crash after {ops}");
                db.close()?;
            }
            Err(error) => {
                let is_refused = error.kind() == ErrorKind::InvalidParameter && error.message().contains("not empty");
                assert!(was_opened && is_refused, "crash after {ops}: {error}");
                let is_kept = |name: &String| name == "lock" || before.contains(name);
                assert!(log(&sim)?.iter().all(is_kept) && log(&sim)?.len() >= before.len(), "crash after {ops}");
                refused += 1;
            }
        }
        if first.is_ok() {
            break;
        }
    }
    assert!(anew > 10 && refused > 10, "begun anew {anew} times, refused {refused} times");
    Ok(())
}

/// What says that nobody has opened a database, beside what only an open leaves: nothing is removed.
#[test]
fn a_log_that_may_be_needed_is_never_removed() -> Result<()> {
    for beside in ["control", "0000000000000001-00000002.log", "0000000000000001-00000001.log", "notes.txt"] {
        let sim = disk()?;
        let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
        sim.make_folder(Path::new(LOG))?;
        let making = LogOwner { database_id: [7; 16], epoch: BEING_MADE };
        making.write(&vfs, Path::new(LOG))?;
        sim.open(&Path::new(LOG).join("0000000000000001.log"), OpenMode::Create)?;
        sim.open(&Path::new(LOG).join(beside), OpenMode::Create)?;
        let (kind, text) = refused(&sim, Some(LOG));
        assert!(kind == ErrorKind::InvalidParameter && text.contains("not empty"), "{beside}: {text}");
        assert!(sim.exists(&Path::new(LOG).join("0000000000000001.log"))?, "{beside}");
        // Without it the folder is one of an open that did not get far.
        sim.remove(&Path::new(LOG).join(beside))?;
        open(&sim, Some(LOG))?.close()?;
    }
    Ok(())
}

/// A marker that a database is being made is in a data folder that was put back, or that lagged behind: a log that was opened since is not removed for it.
#[test]
fn a_marker_of_a_making_that_is_long_over() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(LOG))?;
    fill(&db, "t")?;
    drop(db);
    let sim = sim.crash();
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let owner = LogOwner::read(&vfs, Path::new(LOG))?.expect("the owner");
    assert!(owner.epoch > 1);
    let control = sim.fork(1);
    let put_back = |sim: &SimVfs| -> Result<()> {
        let marker = sim.open(Path::new("/db/creating"), OpenMode::Create)?;
        marker.write_at(&owner.database_id, 0)?;
        marker.sync()?;
        sim.sync_dir(Path::new("/db"))
    };
    put_back(&control)?;
    let before = control.list(Path::new(LOG))?;
    let (kind, text) = refused(&control, Some(LOG));
    assert!(kind == ErrorKind::InvalidParameter && text.contains("is not empty"), "{text}");
    assert_eq!(control.list(Path::new(LOG))?, before);
    Ok(())
}

/// What somebody holds is not truncated by checkpoints, and is said; pages are not given up for it.
#[test]
fn checkpoints_respect_holders() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, None)?;
    fill(&db, "a")?;
    db.checkpoint()?;
    let from = db.log_status().flushed;
    let hold = db.hold_log("the archive", from)?;
    for i in 0..120 {
        fill(&db, &format!("t{i}"))?;
        db.checkpoint()?;
    }
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    let status = db.log_status();
    assert!(status.bytes_in_use > 3 << 20 && status.oldest <= from, "{status:?}");
    assert!(status.held_by.contains("the archive") && status.held_by.contains(&from.to_string()), "{}", status.held_by);
    assert_eq!(db.log_holders().len(), 1);
    hold.advance(status.flushed);
    drop(hold);
    db.close()?;
    drop(db);
    let db = open(&sim, None)?;
    db.checkpoint()?;
    let status = db.log_status();
    assert!(status.bytes_in_use < 3 << 20 && !status.held_by.contains("archive"), "{status:?}");
    db.close()
}

/// A holder that lags makes writers wait at the bound. None of them fails, it is said who it is, and they go on
/// as soon as it has caught up.
#[test]
fn writers_wait_for_a_holder_and_never_fail() -> Result<()> {
    for traditional in [false, true] {
        let db = Database::open_with(
            Arc::new(disk()?),
            Path::new("/db"),
            Options {
                buffer_bytes: 4 << 20,
                log_segment_bytes: 1 << 20,
                log_bytes_max: 8 << 20,
                log_bytes_wanted: 3 << 20,
                checkpoint_log_bytes: 1 << 20,
                // Long passed before the holder lets go.
                log_wait_max: Duration::from_millis(300),
                accelerated_database_recovery: !traditional,
                ..Options::default()
            },
            |_| {},
        )?;
        fill(&db, "before")?;
        let hold = db.hold_log("the archive", db.log_status().flushed)?;
        let done = Arc::new(AtomicBool::new(false));
        let writer = std::thread::spawn({
            let (db, done) = (db.clone(), Arc::clone(&done));
            move || -> Result<()> {
                for i in 0..220 {
                    fill(&db, &format!("t{i}"))?;
                }
                done.store(true, Ordering::SeqCst);
                Ok(())
            }
        });
        let begun = Instant::now();
        while !db.writers_wait() {
            assert!(begun.elapsed() < WAIT && !writer.is_finished(), "writers do not wait: {:?}", db.log_status());
            std::thread::sleep(Duration::from_millis(10));
        }
        let checkpoints = db.stats().checkpoints;
        std::thread::sleep(Duration::from_secs(2));
        assert!(!done.load(Ordering::SeqCst) && !writer.is_finished(), "a writer failed or went past the bound");
        let status = db.log_status();
        assert!(status.held_by.contains("the archive"), "{}", status.held_by);
        assert!(status.bytes_in_use < 9 << 20, "{status:?}");
        // Nothing is gained by checkpoints now; they are not taken again and again.
        let taken = db.stats().checkpoints.taken - checkpoints.taken;
        assert!(taken < 10, "{taken} checkpoints while nothing was written");
        // Reading goes on.
        assert_eq!(count(&db, "before")?, ROWS as usize);
        drop(hold);
        writer.join().expect("the writer")?;
        assert_eq!(count(&db, "t219")?, ROWS as usize);
        db.close()?;
    }
    Ok(())
}
