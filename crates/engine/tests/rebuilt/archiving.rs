//! The log's way into an archive: what is in it is the log; it goes on after a restart; a store that fails, is full or
//! cannot be reached slows writers down and fails none; an archive that is not this log's is refused.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use resurgam_archive::Archive;
use resurgam_engine::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};
use resurgam_xstore::{FaultyStore, FolderStore, Misdeed, StoreCall, StoreErrorKind};

use crate::archived;
use crate::common::open::open_as as open_with;

const PLACE: &str = "/disk5/archive";
const WAIT: Duration = Duration::from_secs(60);

fn disk() -> Result<SimVfs> {
    let sim = SimVfs::new(3);
    sim.make_folder(Path::new("/disk5"))?;
    Ok(sim)
}

fn options(archive: Option<&str>) -> Options {
    Options {
        buffer_bytes: 1 << 20,
        log_segment_bytes: 1 << 20,
        archive: archive.map(Into::into),
        background: false,
        ..Options::default()
    }
}

fn open(sim: &SimVfs, archive: Option<&str>) -> Result<Database> {
    open_with(sim, options(archive))
}

fn refused(sim: &SimVfs, archive: &str) -> (ErrorKind, String) {
    match open(sim, Some(archive)) {
        Ok(_) => panic!("it opened"),
        Err(error) => (error.kind(), format!("{error} HINT {}", error.hint().unwrap_or("none"))),
    }
}

/// About 45 kB of log.
fn fill(db: &Database, name: &str) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", name).column("id", ColumnType::Int4).column("v", ColumnType::Text);
    let table = tx.create_table(spec.primary_key(&["id"]))?.done()?;
    let value = "v".repeat(1000);
    for id in 0..40 {
        tx.insert(&table, &[DatumRef::Int4(id), DatumRef::Text(&value)])?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()
}

fn status(db: &Database) -> ArchiveStatus {
    db.archive_status().expect("there is an archive")
}

/// Waits for something of the background, and says what it waited for.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < WAIT, "waited for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn the_archive_is_the_log_and_goes_on() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(PLACE))?;
    let hold = db.hold_log("the test", db.log_status().oldest)?;
    assert!(status(&db).archived.is_some_and(|lsn| lsn == db.log_status().oldest));
    for i in 0..11 {
        fill(&db, &format!("a{i}"))?;
        if i % 3 == 0 {
            db.archive_now()?;
            let now = status(&db);
            assert_eq!((now.state, now.lag_bytes, now.archived), ("current", 0, Some(db.log_status().flushed)));
        }
    }
    let before = status(&db);
    assert!(before.state == "archiving" && before.lag_bytes > 40_000, "{before:?}");
    assert!(before.blocks_from_memory > 4, "{before:?}");
    drop((hold, db));
    let sim = sim.crash();
    let db = open(&sim, Some(&format!("file://{PLACE}")))?;
    let hold = db.hold_log("the test", db.log_status().oldest)?;
    assert_eq!(status(&db).archived, before.archived, "it goes on where the last run ends");
    fill(&db, "b")?;
    db.archive_now()?;
    let after = status(&db);
    assert!(after.blocks_from_files > 0 && after.runs >= before.runs, "{after:?}");
    fill(&db, "c")?;
    // A clean close archives the rest.
    db.close()?;
    drop((hold, db));
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let compared = archived::compare(&vfs, Path::new("/db"), None, 1 << 20, Path::new(PLACE));
    let (records, ..) = compared.unwrap_or_else(|what| panic!("{what}")).expect("the log from its beginning on");
    assert!(records > 400, "{records}");
    Ok(())
}

/// Without an archive nothing is held and nothing is made.
#[test]
fn without_an_archive() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, None)?;
    fill(&db, "a")?;
    db.archive_now()?;
    assert!(db.archive_status().is_none() && db.log_holders().is_empty());
    db.close()?;
    assert!(sim.list(Path::new("/disk5"))?.is_empty());
    Ok(())
}

#[test]
fn what_is_no_place_or_not_this_logs_is_refused() -> Result<()> {
    let sim = disk()?;
    open(&sim, None)?.close()?;
    for (url, part) in [("s3://bucket/a", "\"s3\""), ("https://x/", "\"https\"")] {
        let (kind, text) = refused(&sim, url);
        assert!(kind == ErrorKind::NotSupported && text.contains(part) && text.contains("Name a folder"), "{text}");
    }
    for url in ["file://relative", ""] {
        assert_eq!(refused(&sim, url).0, ErrorKind::InvalidParameter, "{url}");
    }
    // Of another database.
    let other = Database::open_with(Arc::new(sim.clone()), Path::new("/other"), options(Some(PLACE)), |_| {})?;
    fill(&other, "a")?;
    other.close()?;
    let (kind, text) = refused(&sim, PLACE);
    assert!(!matches!(kind, ErrorKind::Io) && text.contains("another database") && text.contains(PLACE), "{text}");
    // A gap: the database ran without it, and the log is gone.
    let mine = "/disk5/mine";
    let db = open(&sim, Some(mine))?;
    fill(&db, "a")?;
    db.close()?;
    let db = open(&sim, None)?;
    for i in 0..60 {
        fill(&db, &format!("gap{i}"))?;
    }
    db.close()?;
    let (kind, text) = refused(&sim, mine);
    assert!(kind == ErrorKind::NotInPrerequisiteState && text.contains("lost to it") && text.contains(mine), "{text}");
    // A new place begins with the log that is kept.
    let db = open(&sim, Some("/disk5/new"))?;
    assert_eq!(status(&db).archived, Some(db.log_status().oldest));
    db.close()
}

/// Copies the data folder.
fn copy(sim: &SimVfs, folder: &str) -> Result<()> {
    for (from, to) in [("/db".to_owned(), folder.to_owned()), ("/db/log".to_owned(), format!("{folder}/log"))] {
        sim.make_folder(Path::new(&to))?;
        for name in sim.list(Path::new(&from))?.iter().filter(|name| *name != "log") {
            let source = sim.open(&Path::new(&from).join(name), OpenMode::ReadOnly)?;
            let mut bytes = vec![0; source.len()? as usize];
            source.read_exact_at(&mut bytes, 0)?;
            sim.open(&Path::new(&to).join(name), OpenMode::Create)?.write_at(&bytes, 0)?;
        }
    }
    Ok(())
}

fn end_of_archive(sim: &SimVfs) -> Result<Lsn> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let store = Arc::new(FolderStore::existing(vfs, Path::new(PLACE)).map_err(Error::from)?);
    Ok(Archive::open_view(store, None)?.expect("an archive").end())
}

/// A copy of the data folder runs on past the end of an archive that it cannot reach, and reaches it later, running or at its next start:
/// it is refused, whether both did different things or the very same, and the archive stays as it was. The original goes on.
#[test]
fn a_copy_that_went_on_by_itself_is_refused() -> Result<()> {
    for same in [false, true] {
        for closed_first in [false, true] {
            let sim = disk()?;
            let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
            let db = open(&sim, Some(PLACE))?;
            fill(&db, "a")?;
            db.archive_now()?;
            if closed_first {
                db.close()?;
                drop(db);
                copy(&sim, "/old")?;
                let db = open(&sim, Some(PLACE))?;
                fill(&db, "b")?;
                db.close()?;
            } else {
                // As a snapshot of the disk.
                copy(&sim, "/old")?;
                fill(&db, "b")?;
                db.close()?;
            }
            let end = end_of_archive(&sim)?;
            let folder = FolderStore::open(Arc::clone(&vfs), Path::new(PLACE)).map_err(Error::from)?;
            let store = Arc::new(FaultyStore::new(Arc::new(folder)));
            let reach = |reach: bool| {
                for call in [StoreCall::List, StoreCall::Read] {
                    store.always(call, (!reach).then_some(Misdeed::Fail(StoreErrorKind::Unavailable)));
                }
            };
            reach(false);
            let with_store = || Options { archive_store: Some(StoreHandle(store.clone())), ..options(Some(PLACE)) };
            let open_old = || Database::open_with(Arc::new(sim.clone()), Path::new("/old"), with_store(), |_| {});
            let old = open_old()?;
            for i in 0..8 {
                fill(&old, &if same && i == 0 { "b".to_owned() } else { format!("other{i}") })?;
            }
            assert!(old.log_status().flushed > end, "it did not get past the archive");
            reach(true);
            let error = old.archive_now().expect_err("it took the archive over");
            assert!(error.kind() == ErrorKind::NotInPrerequisiteState, "{error}");
            let said = format!("{error} {:?}", error.hint());
            assert!(said.contains("another history") && said.contains(PLACE) && said.contains(".run"), "{said}");
            assert!(said.contains("an empty place"), "{said}");
            assert_eq!((status(&old).state, end_of_archive(&sim)?), ("refused", end));
            // It goes on, and keeps its log.
            fill(&old, "still")?;
            old.close()?;
            drop(old);
            let Err(error) = open_old() else { panic!("it opened") };
            assert!(error.to_string().contains("another history"), "{error}");
            let db = open(&sim, Some(PLACE))?;
            fill(&db, "c")?;
            db.archive_now()?;
            assert_eq!(status(&db).state, "current");
            db.close()?;
            drop(db);
            let compared = archived::compare(&vfs, Path::new("/db"), None, 1 << 20, Path::new(PLACE));
            assert!(compared.unwrap_or_else(|what| panic!("{what}")).is_some());
        }
    }
    Ok(())
}

/// A copy that stands where the archive ends takes it over; then it is the original that is refused, and nothing is mixed.
#[test]
fn of_two_that_stand_at_the_archives_end_one_goes_on() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(PLACE))?;
    fill(&db, "a")?;
    db.close()?;
    drop(db);
    copy(&sim, "/old")?;
    let old = Database::open_with(Arc::new(sim.clone()), Path::new("/old"), options(Some(PLACE)), |_| {})?;
    fill(&old, "b")?;
    old.close()?;
    drop(old);
    let db = open(&sim, None)?;
    for i in 0..4 {
        fill(&db, &format!("c{i}"))?;
    }
    db.close()?;
    drop(db);
    let (kind, text) = refused(&sim, PLACE);
    assert!(kind == ErrorKind::NotInPrerequisiteState && text.contains("another history"), "{text}");
    Ok(())
}

/// The log in front of the archive is an old copy.
#[test]
fn an_archive_ahead_of_the_log_is_refused() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(PLACE))?;
    fill(&db, "a")?;
    db.close()?;
    copy(&sim, "/old")?;
    let db = open(&sim, Some(PLACE))?;
    fill(&db, "b")?;
    db.archive_now()?;
    let old = Database::open_with(Arc::new(sim.clone()), Path::new("/old"), options(Some(PLACE)), |_| {});
    let Err(error) = old else { panic!("it opened") };
    assert_eq!(error.kind(), ErrorKind::NotInPrerequisiteState);
    assert!(error.to_string().contains("behind the end of the log"), "{error}");
    // The right one goes on: nothing was taken from it.
    fill(&db, "c")?;
    db.archive_now()?;
    assert_eq!(status(&db).state, "current");
    db.close()
}

/// Another process writes to the archive: it is left to that one, and the log is kept, until a restart.
#[test]
fn an_archive_that_is_taken_over() -> Result<()> {
    let sim = disk()?;
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let db = open(&sim, Some(PLACE))?;
    fill(&db, "a")?;
    db.archive_now()?;
    let archived = status(&db).archived;
    let other = || -> Result<Arc<Archive>> {
        let store = Arc::new(FolderStore::open(Arc::clone(&vfs), Path::new(PLACE)).map_err(Error::from)?);
        let view = Archive::open_view(store.clone(), None)?.expect("an archive");
        Archive::open(store, view.manifest().database, 77)
    };
    let taken = other()?;
    for name in ["b", "c"] {
        fill(&db, name)?;
        assert!(db.archive_now().is_err_and(|error| error.kind() == ErrorKind::InUse));
        let now = status(&db);
        assert!(now.state == "refused" && now.error.is_some_and(|error| error.contains("another process")));
    }
    assert_eq!(taken.view().end(), archived.unwrap_or_default(), "nothing was added to it");
    db.close()?;
    drop((db, taken));
    let db = open(&sim, Some(PLACE))?;
    assert_eq!(status(&db).archived, archived);
    db.archive_now()?;
    assert_eq!(status(&db).state, "current");
    db.close()
}

/// At the bound of the log writers wait for an archive that was taken over, for a while; then they fail and say why.
/// All else goes on, and so do they after a restart.
#[test]
fn writers_are_told_that_the_archive_is_refused() -> Result<()> {
    let sim = disk()?;
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let small = || Options {
        buffer_bytes: 4 << 20,
        log_bytes_max: 8 << 20,
        log_bytes_wanted: 3 << 20,
        checkpoint_log_bytes: 1 << 20,
        log_wait_max: Duration::from_millis(700),
        background: true,
        ..options(Some(PLACE))
    };
    let db = open_with(&sim, small())?;
    fill(&db, "before")?;
    until("the first run", || status(&db).state == "current");
    let store = Arc::new(FolderStore::open(Arc::clone(&vfs), Path::new(PLACE)).map_err(Error::from)?);
    let view = Archive::open_view(store.clone(), None)?.expect("an archive");
    let taken = Archive::open(store, view.manifest().database, 77)?;
    let begun = Instant::now();
    let mut written = 0;
    let error = loop {
        assert!(begun.elapsed() < WAIT, "waited for a writer's error; {written} tables were written");
        match fill(&db, &format!("t{written}")) {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert_eq!((error.kind(), error.sqlstate()), (ErrorKind::ConfigurationLimitExceeded, "53400"), "{error}");
    let said = format!("{error} {:?} {:?}", error.detail(), error.hint());
    assert!(said.contains(PLACE) && said.contains("another process") && said.contains("restart"), "{said}");
    assert!(written > 50, "{written}");
    let refused = status(&db);
    assert_eq!(refused.state, "refused");
    // What was written is there, and what was under way was rolled back.
    let tx = db.begin(Isolation::ReadCommitted);
    assert!(tx.table("public", &format!("t{}", written - 1))?.is_some());
    assert!(tx.table("public", &format!("t{written}"))?.is_none());
    drop(tx);
    db.close()?;
    drop((db, taken, view));
    let db = open_with(&sim, small())?;
    for i in 0..40 {
        fill(&db, &format!("after{i}"))?;
    }
    until("the rest", || status(&db).state == "current");
    assert!(status(&db).archived > refused.archived);
    db.close()
}

/// An archive that is damaged does not keep the database from opening; the log is kept for it.
#[test]
fn a_damaged_archive() -> Result<()> {
    let sim = disk()?;
    let db = open(&sim, Some(PLACE))?;
    fill(&db, "a")?;
    db.close()?;
    drop(db);
    let folder = Path::new(PLACE).join("manifests");
    let newest = sim.list(&folder)?.pop().expect("a manifest");
    let file = sim.open(&folder.join(newest), OpenMode::ReadWrite)?;
    let mut byte = [0];
    file.read_exact_at(&mut byte, 20)?;
    file.write_at(&[byte[0] ^ 4], 20)?;
    let db = open(&sim, Some(PLACE))?;
    fill(&db, "b")?;
    assert!(db.archive_now().is_err_and(|error| error.kind() == ErrorKind::Corrupt));
    let now = status(&db);
    assert!(now.state == "failing" && now.error.is_some_and(|error| error.contains("manifest")), "{:?}", status(&db));
    assert_eq!(db.log_holders().len(), 1);
    // Put right.
    file.write_at(&byte, 20)?;
    db.archive_now()?;
    assert_eq!(status(&db).state, "current");
    db.close()
}

/// What it does with a store that fails, is full, or does what it then says has failed.
#[test]
fn a_store_that_fails_is_tried_again() -> Result<()> {
    let sim = disk()?;
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let folder = FolderStore::open(Arc::clone(&vfs), Path::new(PLACE)).map_err(Error::from)?;
    let store = Arc::new(FaultyStore::new(Arc::new(folder)));
    let with_store = || Options { archive_store: Some(StoreHandle(store.clone())), ..options(Some(PLACE)) };
    // It cannot be reached: the database opens, and holds its log.
    for call in [StoreCall::List, StoreCall::Read] {
        store.always(call, Some(Misdeed::Fail(StoreErrorKind::Unavailable)));
    }
    let db = open_with(&sim, with_store())?;
    let hold = db.hold_log("the test", db.log_status().oldest)?;
    let first = status(&db);
    assert!(first.state == "failing" && first.archived.is_none() && first.error.is_some(), "{first:?}");
    assert!(db.archive_now().is_err_and(|error| error.kind() == ErrorKind::Io));
    for i in 0..80 {
        fill(&db, &format!("a{i}"))?;
        if i % 20 == 0 {
            while db.write_back()? > 0 {}
            db.checkpoint()?;
        }
    }
    for call in [StoreCall::List, StoreCall::Read] {
        store.always(call, None);
    }
    db.archive_now()?;
    assert_eq!((status(&db).state, status(&db).error), ("current", None));
    for misdeed in
        [Misdeed::Fail(StoreErrorKind::Full), Misdeed::Fail(StoreErrorKind::Unavailable), Misdeed::ApplyAndFail]
    {
        for nth in 1..4 {
            fill(&db, &format!("b{misdeed:?}{nth}").replace(['(', ')'], ""))?;
            store.at(StoreCall::Publish, nth, misdeed);
            let mut tries = 0;
            while let Err(error) = db.archive_now() {
                tries += 1;
                assert!(tries < 5 && matches!(error.kind(), ErrorKind::Io | ErrorKind::DiskFull), "{error:?}");
            }
        }
    }
    assert_eq!(status(&db).state, "current");
    db.close()?;
    drop((hold, db));
    let compared = archived::compare(&vfs, Path::new("/db"), None, 1 << 20, Path::new(PLACE));
    assert!(compared.unwrap_or_else(|what| panic!("{what}")).is_some());
    Ok(())
}

/// A full store: writers wait at the bound, none fails, it is said, and they go on once there is room.
#[test]
fn a_full_store_slows_writers_and_fails_none() -> Result<()> {
    let sim = disk()?;
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let folder = FolderStore::open(Arc::clone(&vfs), Path::new(PLACE)).map_err(Error::from)?;
    let store = Arc::new(FaultyStore::new(Arc::new(folder)));
    let db = open_with(
        &sim,
        Options {
            buffer_bytes: 4 << 20,
            log_bytes_max: 8 << 20,
            log_bytes_wanted: 3 << 20,
            checkpoint_log_bytes: 1 << 20,
            log_wait_max: Duration::from_millis(300),
            archive_store: Some(StoreHandle(store.clone())),
            background: true,
            ..options(Some(PLACE))
        },
    )?;
    fill(&db, "before")?;
    until("the first run", || status(&db).state == "current");
    store.always(StoreCall::Publish, Some(Misdeed::Fail(StoreErrorKind::Full)));
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
    until("writers wait", || db.writers_wait() || writer.is_finished());
    std::thread::sleep(Duration::from_millis(1500));
    assert!(!done.load(Ordering::SeqCst) && !writer.is_finished(), "a writer failed, or went past the bound");
    let (log, archive) = (db.log_status(), status(&db));
    assert!(log.held_by.contains("the archive") && log.bytes_in_use < 9 << 20, "{log:?}");
    assert!(archive.state == "failing" && archive.lag > Duration::from_secs(1), "{archive:?}");
    let trouble = db.troubles().into_iter().find(|trouble| trouble.what.contains("archiving"));
    assert!(trouble.is_some_and(|trouble| trouble.keeps_log && trouble.error.contains("Full")));
    store.always(StoreCall::Publish, None);
    writer.join().expect("the writer")?;
    until("the rest", || status(&db).state == "current" && db.troubles().is_empty());
    let archive = status(&db);
    assert!(archive.blocks_from_files > 0 && archive.blocks_from_memory > 0, "{archive:?}");
    db.close()
}

/// What is not archived is not truncated: while the archive lags, cannot be reached, and over restarts. What is, goes.
#[test]
fn what_is_not_archived_is_not_truncated() -> Result<()> {
    let sim = disk()?;
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let folder = FolderStore::open(Arc::clone(&vfs), Path::new(PLACE)).map_err(Error::from)?;
    let store = Arc::new(FaultyStore::new(Arc::new(folder)));
    let with_store = || Options { archive_store: Some(StoreHandle(store.clone())), ..options(Some(PLACE)) };
    let much = |db: &Database, name: &str| -> Result<()> {
        for i in 0..60 {
            fill(db, &format!("{name}{i}"))?;
        }
        while db.write_back()? > 0 {}
        db.checkpoint()
    };
    let db = open_with(&sim, with_store())?;
    let begin = db.log_status().oldest;
    much(&db, "lags")?;
    let log = db.log_status();
    assert!(log.oldest == begin && log.held_by.contains("the archive"), "{log:?}");
    db.archive_now()?;
    let archived = status(&db).archived.expect("it is open");
    db.checkpoint()?;
    assert!(db.log_status().oldest > begin && db.log_status().bytes_in_use < 3 << 20, "{:?}", db.log_status());
    much(&db, "again")?;
    drop(db);
    // Out of reach at an open, and all along.
    for call in [StoreCall::List, StoreCall::Read] {
        store.always(call, Some(Misdeed::Fail(StoreErrorKind::Unavailable)));
    }
    let db = open_with(&sim, with_store())?;
    much(&db, "unreachable")?;
    assert!(db.log_status().oldest <= archived, "{:?}", db.log_status());
    db.close()?;
    drop(db);
    for call in [StoreCall::List, StoreCall::Read] {
        store.always(call, None);
    }
    let db = open_with(&sim, with_store())?;
    assert_eq!((status(&db).archived, status(&db).state), (Some(archived), "archiving"));
    much(&db, "reachable")?;
    assert!(db.log_status().oldest <= archived, "{:?}", db.log_status());
    db.archive_now()?;
    db.checkpoint()?;
    assert!(db.log_status().bytes_in_use < 3 << 20, "{:?}", db.log_status());
    db.close()
}
