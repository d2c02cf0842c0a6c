//! Stores that are slow, or do not answer at all for a while: what waits for them, what does not, and what is said of it. No clock is
//! looked at: calls to the store are held until what must not wait for them has happened.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_vfs::Vfs;
use resurgam_xstore::{FaultyStore, StoreCall};

use crate::restore::support::*;

/// However slow the machine is: what takes longer hangs.
const HANGS: Duration = Duration::from_secs(120);

/// A test that fails does not leave others waiting for what it holds.
struct LetGo<'a>(&'a FaultyStore);

impl Drop for LetGo<'_> {
    fn drop(&mut self) {
        self.0.heal();
    }
}

fn until(what: &str, is: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < HANGS, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The archiver waits in a call to its store that does not end. Statements, commits, checkpoints and sweeps go on meanwhile; the lag, and that the
/// log is kept for the archive, is said; and when the store answers again, all is archived.
#[test]
fn nobody_waits_for_a_slow_archive() -> Result<()> {
    let sim = machine(61)?;
    let mut model = Model::new(61);
    let archive = store(&sim, ARCHIVE)?;
    // Each call takes a while, too.
    archive.delay(Duration::from_millis(1));
    let options = Options { archive_store: handle(&archive), background: true, ..options(Kind::default()) };
    let db = open_with(&sim, options)?;
    model.fill(&db)?;
    let _held = LetGo(&archive);
    archive.hold(StoreCall::Publish);
    model.work(&db)?;
    until("the archiver publishes nothing", || archive.waiting(StoreCall::Publish) > 0);
    let status = || db.archive_status().expect("there is an archive");
    let (archived, published) = (status().archived, archive.calls(StoreCall::Publish));
    for round in 0..20 {
        model.work(&db)?;
        if round % 5 == 0 {
            db.checkpoint()?;
            db.clean_now()?;
        }
    }
    model.check(&db, "while the store does not answer")?;
    // All of it was done before that call has ended.
    assert_eq!(archive.calls(StoreCall::Publish), published);
    assert_eq!(status().archived, archived);
    assert!(status().state == "archiving" && status().lag_bytes > 100 << 10, "{:?}", status());
    let log = db.log_status();
    assert!(log.held_by.contains("archive"), "{log:?}");
    archive.let_go(StoreCall::Publish);
    let end = log.flushed;
    until("it is not archived", || status().archived.is_some_and(|archived| archived >= end));
    model.check(&db, "archived")?;
    db.close()
}

/// A backup waits for its store, and nobody for the backup: it shows as running, another one is refused, and rows change. What it is in the
/// end is the database.
#[test]
fn nobody_waits_for_a_slow_backup() -> Result<()> {
    for from_archive in [false, true] {
        let sim = machine(62)?;
        let mut model = Model::new(62);
        let backups = store(&sim, BACKUPS)?;
        let archive = store(&sim, ARCHIVE)?;
        backups.delay(Duration::from_millis(1));
        archive.delay(Duration::from_millis(1));
        let options = Options {
            archive_store: handle(&archive),
            backups: Some(BACKUPS.into()),
            backups_store: handle(&backups),
            backup_part_bytes: 60_000,
            background: true,
            ..options(Kind::default())
        };
        let db = open_with(&sim, options)?;
        model.fill(&db)?;
        model.work(&db)?;
        // What says that it was begun is published first: there it stands still.
        let made = std::thread::scope(|scope| -> Result<String> {
            let _held = LetGo(&backups);
            backups.hold(StoreCall::Publish);
            let backup = scope.spawn(|| db.backup(from_archive, &NEVER));
            until("the backup publishes nothing", || backups.waiting(StoreCall::Publish) > 0 || backup.is_finished());
            let under_way = backups.calls(StoreCall::Publish);
            for _ in 0..10 {
                model.work(&db)?;
                model.look(&db, 7)?;
            }
            db.checkpoint()?;
            assert!(!backup.is_finished(), "it has not waited for its store");
            let error = db.backup(from_archive, &NEVER).expect_err("one at a time");
            assert!(error.kind() == ErrorKind::InUse && error.hint().is_some(), "{error}");
            // All of it was done before that call went on.
            assert_eq!(backups.calls(StoreCall::Publish), under_way);
            backups.let_go(StoreCall::Publish);
            backup.join().expect("no panic")
        })?;
        model.check(&db, "with a backup")?;
        db.close()?;
        drop(db);
        let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
        let places = crate::backed_up::Places {
            gave_back: false,
            data: &Path::new(DIR).join("data"),
            lied: false,
            versions: None,
            archive: Path::new(ARCHIVE),
            backups: Path::new(BACKUPS),
        };
        let pages = crate::backed_up::compare(&vfs, &places, &made).unwrap_or_else(|what| panic!("{what}"));
        assert!(pages > 100, "{pages}");
    }
    Ok(())
}

/// A file that is restored from an archive that does not answer: who needs a page that is not there yet waits, and is answered when the archive
/// is; what is restored is read and changed meanwhile, and commits.
#[test]
fn a_restore_from_a_slow_archive() -> Result<()> {
    let sim = machine(63)?;
    let mut model = Model::new(63);
    let db = open(&sim, Kind::default())?;
    model.fill(&db)?;
    for _ in 0..4 {
        model.work(&db)?;
    }
    db.archive_now()?;
    db.checkpoint()?;
    drop(db);
    let sim = sim.crash();
    lose_data(&sim)?;
    let archive = store(&sim, ARCHIVE)?;
    archive.delay(Duration::from_millis(1));
    let options = Options { archive_store: handle(&archive), ..options(Kind::default()) };
    let db = open_with(&sim, options)?;
    // The segments of these rows are there; not all are.
    let here: Vec<i64> = (0..20).collect();
    model.work_on(&db, &here)?;
    let before = db.restore_status().expect("a restore");
    assert!(before.restored < before.segments, "{before:?}");
    archive.hold(StoreCall::Read);
    let answered = AtomicBool::new(false);
    std::thread::scope(|scope| -> Result<()> {
        let _held = LetGo(&archive);
        let expected = &model;
        let waits = scope.spawn(|| {
            // One of them is in a segment that is not there.
            let outcome = (0..ROWS).try_for_each(|id| expected.look(&db, id));
            answered.store(true, Ordering::SeqCst);
            outcome
        });
        until("nobody asks the archive", || archive.waiting(StoreCall::Read) > 0);
        for _ in 0..5 {
            for id in &here {
                expected.look(&db, *id)?;
            }
            let tx = db.begin(Isolation::ReadCommitted);
            tx.table("public", "t")?.expect("made");
            tx.commit(Durability::Sync)?.wait()?;
        }
        let status = db.restore_status().expect("a restore");
        assert!(status.state == "restoring" && status.restored == before.restored, "{status:?}");
        assert!(!answered.load(Ordering::SeqCst), "it has not waited");
        archive.let_go(StoreCall::Read);
        waits.join().expect("no panic")
    })?;
    model.work_on(&db, &here)?;
    model.check(&db, "on demand")?;
    db.finish_restore()?;
    model.check(&db, "restored")?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()
}
