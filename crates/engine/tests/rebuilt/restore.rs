//! Files that are lost, restored segment by segment from archive and log: on demand, in the background, across crashes.

mod failing_stores;
pub mod support;
mod unusable;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_vfs::{OpenMode, Vfs};
use resurgam_xstore::{FaultyStore, FolderStore, Store, StoreCall};
use support::*;

const KINDS: [Kind; 3] = [
    Kind { traditional: false, version_file: false, spare: false, no_repair: false, records_max: 0 },
    Kind { traditional: true, version_file: false, spare: false, no_repair: false, records_max: 7 },
    Kind { traditional: false, version_file: true, spare: false, no_repair: false, records_max: 30 },
];

/// The folder is whole again: nothing says otherwise, and an open without the archive has everything.
fn is_whole(sim: &resurgam_vfs::SimVfs, kind: Kind, model: &mut Model) -> Result<()> {
    for name in [ORIGIN, "restored-segments"] {
        assert!(!sim.exists(&Path::new(DIR).join(name))?, "{name} is still there");
    }
    let db = open_with(sim, Options { archive: None, ..options(kind) })?;
    db.finish_recovery()?;
    model.check(&db, "without the archive")?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()
}

#[test]
fn a_missing_data_file_is_restored_as_it_is_asked_for() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let sim = machine(seed as u64)?;
        let mut model = Model::new(seed as u64);
        let db = open(&sim, kind)?;
        model.fill(&db)?;
        for round in 0..12 {
            model.work(&db)?;
            if round % 4 == 3 {
                db.archive_now()?;
                db.checkpoint()?;
            }
        }
        drop(db);
        let sim = sim.crash();
        lose_data(&sim)?;
        let db = open(&sim, kind)?;
        let begun = db.restore_status().expect("a restore");
        assert!(begun.segments > 3 && begun.restored == 0 && begun.device == "data", "{begun:?}");
        // One row takes a few segments, not all.
        model.look(&db, 7)?;
        let some = db.restore_status().expect("a restore");
        assert!(some.on_demand > 0 && some.restored < some.segments, "{some:?}");
        model.check(&db, "on demand")?;
        for _ in 0..5 {
            model.work(&db)?;
            db.write_back()?;
            db.restore_step()?;
        }
        db.finish_restore()?;
        assert!(db.restore_status().is_none());
        model.check(&db, "restored")?;
        db.finish_recovery()?;
        model.work(&db)?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.close()?;
        drop(db);
        is_whole(&sim, kind, &mut model)?;
    }
    Ok(())
}

/// An archive that lags is not waited for, at an open and when a device dies: nothing is put into it meanwhile, however slow it is, and what it
/// lacks comes from the log.
#[test]
fn the_archive_is_not_waited_for() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let sim = machine(seed as u64 + 31)?;
        let mut model = Model::new(seed as u64 + 31);
        let with_store = |store: &Arc<FaultyStore>| Options {
            archive_store: Some(StoreHandle(Arc::clone(store) as Arc<dyn Store>)),
            ..options(kind)
        };
        let db = open(&sim, kind)?;
        model.fill(&db)?;
        db.archive_now()?;
        let lags = |db: &Database| db.archive_status().map_or(0, |status| status.lag_bytes);
        let lag = |db: &Database, model: &mut Model| -> Result<()> {
            for _ in 0..2000 {
                model.work(db)?;
                if lags(db) > 1 << 20 {
                    return Ok(());
                }
            }
            panic!("no lag after 2000 rounds of work");
        };
        lag(&db, &mut model)?;
        drop(db);
        // Each call to the store takes a while from now on, and putting anything into it much longer.
        let slow = |store: &FaultyStore, is: bool| {
            let of = |ms| Duration::from_millis(if is { ms } else { 0 });
            store.delay(of(20));
            store.delay_of(StoreCall::Publish, of(1000));
        };
        let sim = sim.crash();
        let store = slow_store(&sim)?;
        lose_data(&sim)?;
        slow(&store, true);
        let published = store.calls(StoreCall::Publish);
        let db = open_with(&sim, with_store(&store))?;
        model.look(&db, 7)?;
        // An archive is taken over with one manifest; a run would be an object and another one.
        assert!(store.calls(StoreCall::Publish) <= published + 1, "something was archived");
        assert!(lags(&db) > 512 << 10);
        slow(&store, false);
        model.check(&db, "at an open")?;
        db.finish_restore()?;
        db.archive_now()?;
        lag(&db, &mut model)?;
        slow(&store, true);
        let published = store.calls(StoreCall::Publish);
        db.fail_device("data")?;
        model.look(&db, 7)?;
        assert_eq!(store.calls(StoreCall::Publish), published, "something was archived");
        assert!(lags(&db) > 512 << 10);
        slow(&store, false);
        model.check(&db, "after the device died")?;
        // Power is lost before anything of it was archived.
        drop(db);
        let sim = sim.crash();
        let db = open(&sim, kind)?;
        model.check(&db, "after a crash")?;
        db.finish_restore()?;
        db.close()?;
        drop(db);
        is_whole(&sim, kind, &mut model)?;
    }
    Ok(())
}

/// The archiver is in the middle of a call to its store that takes very long when the device dies: statements go on before that call ends.
#[test]
fn a_device_dies_while_the_archive_hangs() -> Result<()> {
    let kind = Kind { spare: true, ..KINDS[0] };
    let sim = machine(35)?;
    let mut model = Model::new(35);
    let store = slow_store(&sim)?;
    let with_store =
        |background| Options { archive_store: Some(StoreHandle(store.clone())), background, ..options(kind) };
    let db = open_with(&sim, with_store(false))?;
    model.fill(&db)?;
    db.archive_now()?;
    db.close()?;
    drop(db);
    let db = open_with(&sim, with_store(true))?;
    let long = Duration::from_secs(6);
    store.delay_of(StoreCall::Publish, long);
    let published = store.calls(StoreCall::Publish);
    model.work(&db)?;
    let begun = Instant::now();
    while store.calls(StoreCall::Publish) == published {
        assert!(begun.elapsed() < long, "the archiver does nothing");
        std::thread::sleep(Duration::from_millis(5));
    }
    let hangs = Instant::now();
    db.fail_device("data")?;
    while db.restore_status().is_none() {
        assert!(hangs.elapsed() < long, "the replacement waits for the archive");
        std::thread::sleep(Duration::from_millis(5));
    }
    model.work(&db)?;
    model.check(&db, "while the archive hangs")?;
    assert!(hangs.elapsed() < long, "statements waited for the archive: {:?}", hangs.elapsed());
    store.delay_of(StoreCall::Publish, Default::default());
    db.finish_restore()?;
    model.check(&db, "restored")?;
    db.close()
}

/// A store on the device of the archive that does nothing wrong yet.
fn slow_store(sim: &resurgam_vfs::SimVfs) -> Result<Arc<FaultyStore>> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let folder = FolderStore::open(vfs, Path::new(ARCHIVE)).map_err(Error::from)?;
    Ok(Arc::new(FaultyStore::new(Arc::new(folder))))
}

/// Power is lost again and again, at steps further and further on, in all that an open, work, checkpoints and the
/// restore write. The data is lost once more in the middle.
#[test]
fn crashes_at_every_step_of_a_restore() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let mut sim = machine(seed as u64 + 10)?;
        let mut model = Model::new(seed as u64);
        let db = open(&sim, kind)?;
        model.fill(&db)?;
        for _ in 0..6 {
            model.work(&db)?;
        }
        db.archive_now()?;
        db.checkpoint()?;
        model.work(&db)?;
        drop(db);
        sim = sim.crash();
        lose_data(&sim)?;
        let (mut finished, mut crashes, mut at) = (0, 0, 1u64);
        while finished < 3 {
            assert!(crashes < 5000, "the restore does not end");
            crash_at(&sim, at);
            let life = (|| -> Result<bool> {
                let db = open(&sim, kind)?;
                for i in 0..3 {
                    model.work(&db)?;
                    db.write_back()?;
                    db.restore_step()?;
                    if i == 1 {
                        db.checkpoint()?;
                    }
                }
                db.archive_now()?;
                db.finish_restore()?;
                db.finish_recovery()?;
                model.work(&db)?;
                db.close()?;
                Ok(true)
            })();
            match life {
                Ok(_) => {
                    finished += 1;
                    sim = sim.crash();
                    let db = open(&sim, kind)?;
                    assert!(db.restore_status().is_none());
                    model.check(&db, "finished")?;
                    drop(db);
                    sim = sim.crash();
                    lose_data(&sim)?;
                    at = 1 + finished;
                }
                Err(error) => {
                    assert!(sim.power_lost(), "kind {kind:?}, crash {crashes} at {at}: {error}");
                    crashes += 1;
                    sim = if model.random(3) == 0 { sim.kill() } else { sim.crash() };
                    at += 1 + model.random(7);
                    if model.random(10) == 0 {
                        let db = open(&sim, kind)?;
                        model.check(&db, "between crashes")?;
                        drop(db);
                        sim = sim.crash();
                    }
                    if model.random(25) == 0 && sim.exists(&Path::new(DIR).join("data"))? {
                        lose_data(&sim)?;
                    }
                }
            }
        }
        eprintln!("{kind:?}: {crashes} crashes");
    }
    Ok(())
}

#[test]
fn the_version_store_and_the_whole_folder() -> Result<()> {
    let kind = KINDS[2];
    let sim = machine(5)?;
    let mut model = Model::new(5);
    let db = open(&sim, kind)?;
    model.fill(&db)?;
    for _ in 0..8 {
        model.work(&db)?;
    }
    db.checkpoint()?;
    db.archive_now()?;
    model.work(&db)?;
    drop(db);
    let sim = sim.crash();
    lose(&sim, "/disk4")?;
    let db = open(&sim, kind)?;
    assert_eq!(db.restore_status().map(|status| status.device), Some("version store".into()));
    model.check(&db, "without the version store")?;
    db.finish_restore()?;
    model.work(&db)?;
    drop(db);
    // All but the log and the archive.
    let sim = sim.crash();
    lose(&sim, DIR)?;
    lose(&sim, "/disk4")?;
    let none = refused(&sim, Options { archive: None, ..options(kind) });
    assert!(none.0 == ErrorKind::InvalidParameter && none.1.contains(LOG) && none.1.contains("archive"), "{none:?}");
    assert!(!sim.exists(&Path::new(DIR).join("data"))?, "nothing was made over it");
    let db = open(&sim, kind)?;
    assert_eq!(db.restore_status().map(|status| status.device), Some("data and version store".into()));
    model.check(&db, "with nothing but log and archive")?;
    model.work(&db)?;
    db.finish_restore()?;
    db.finish_recovery()?;
    model.check(&db, "restored")?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()?;
    drop(db);
    is_whole(&sim, kind, &mut model)
}

#[test]
fn what_cannot_be_restored_is_refused() -> Result<()> {
    let kind = KINDS[0];
    let sim = machine(6)?;
    let mut model = Model::new(6);
    let without = Options { archive: None, ..options(kind) };
    let db = open_with(&sim, without.clone())?;
    model.fill(&db)?;
    for _ in 0..40 {
        model.work(&db)?;
        db.write_back()?;
    }
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    db.checkpoint()?;
    db.close()?;
    drop(db);
    let whole = sim.fork(1);
    lose_data(&sim)?;
    let (kind_of, text) = refused(&sim, without.clone());
    assert!(kind_of == ErrorKind::Corrupt && text.contains("data") && text.contains("archive"), "{text}");
    // An archive that begins now, of a log that was truncated.
    let (kind_of, text) = refused(&sim, options(kind));
    assert!(kind_of == ErrorKind::NotInPrerequisiteState && text.contains("the archive is empty"), "{text}");
    assert!(!sim.exists(&Path::new(DIR).join("data"))? && !sim.exists(&Path::new(DIR).join(ORIGIN))?);
    // One that was begun later than the database.
    let db = open(&whole, kind)?;
    model.check(&db, "there")?;
    db.archive_now()?;
    db.close()?;
    drop(db);
    lose_data(&whole)?;
    let (kind_of, text) = refused(&whole, options(kind));
    assert!(kind_of == ErrorKind::NotInPrerequisiteState && text.contains("begins at LSN"), "{text}");
    Ok(())
}

/// What is damaged of the files of a restore is refused, or done without; the archive unreachable: what was restored is
/// served, the rest is an error that says so, and is there when the archive is.
#[test]
fn trouble_while_restoring() -> Result<()> {
    let kind = KINDS[0];
    let sim = machine(7)?;
    let mut model = Model::new(7);
    let db = open(&sim, kind)?;
    model.fill(&db)?;
    db.archive_now()?;
    model.work(&db)?;
    drop(db);
    let sim = sim.crash();
    lose_data(&sim)?;
    let db = open(&sim, kind)?;
    let failing = resurgam_vfs::Failing { path: ARCHIVE.into(), reads: true, ..Default::default() };
    sim.set_faults(resurgam_vfs::FaultPlan { failing: vec![failing], ..Default::default() });
    let tx = db.begin(Isolation::ReadCommitted);
    let error = tx.table("public", "t").expect_err("it cannot be read");
    assert!(error.kind() == ErrorKind::Io && error.to_string().contains("could not be restored"), "{error}");
    drop(tx);
    assert_eq!(db.restore_status().map(|status| status.state), Some("failing"));
    sim.set_faults(Default::default());
    model.check(&db, "the archive is back")?;
    db.restore_step()?;
    drop(db);
    let sim = sim.crash();
    // Marks are done without: all is restored again.
    let marks = sim.open(&Path::new(DIR).join("restored-segments"), OpenMode::ReadWrite)?;
    marks.write_at(b"nonsense", 9)?;
    let db = open(&sim, kind)?;
    assert_eq!(db.restore_status().map(|status| status.restored), Some(0));
    model.check(&db, "without marks")?;
    drop(db);
    let sim = sim.crash();
    sim.open(&Path::new(DIR).join(ORIGIN), OpenMode::ReadWrite)?.write_at(b"X", 40)?;
    let (kind_of, text) = refused(&sim, options(kind));
    assert!(kind_of == ErrorKind::Corrupt && text.contains(ORIGIN), "{text}");
    Ok(())
}

/// The device that dies holds the data: a new file in the spare folder, or in the same place, under the open database.
#[test]
fn an_operator_declares_the_data_dead() -> Result<()> {
    for kind in KINDS {
        for spare in [false, true] {
            let kind = Kind { spare, ..kind };
            let sim = machine(20)?;
            let mut model = Model::new(20);
            let db = open(&sim, kind)?;
            model.fill(&db)?;
            for _ in 0..5 {
                model.work(&db)?;
            }
            db.archive_now()?;
            db.checkpoint()?;
            for _ in 0..3 {
                model.work(&db)?;
                db.write_back()?;
            }
            assert!(db.fail_device("nothing").is_err_and(|error| error.hint().is_some()));
            db.fail_device("data")?;
            assert!(db.restore_status().is_some_and(|status| status.restored == 0));
            model.check(&db, "at once")?;
            model.work(&db)?;
            while db.write_back()? > 0 {}
            model.check(&db, "written")?;
            if kind.version_file {
                db.fail_device("version store")?;
                assert_eq!(db.restore_status().map(|status| status.device), Some("data and version store".into()));
                model.work(&db)?;
            }
            drop(db);
            let sim = sim.crash();
            // The same command line, with the old device back as it was.
            let db = open(&sim, kind)?;
            assert!(db.restore_status().is_some());
            model.check(&db, "restarted")?;
            db.finish_restore()?;
            db.finish_recovery()?;
            model.work(&db)?;
            model.check(&db, "restored")?;
            assert_eq!(db.verify()?, Vec::<String>::new());
            db.close()?;
            drop(db);
            if spare {
                lose(&sim, DIR)?;
                assert!(!sim.exists(&Path::new(SPARE).join(ORIGIN))?);
            }
            let db = open_with(&sim, Options { archive: None, ..options(kind) })?;
            model.check(&db, "without the archive")?;
            db.close()?;
        }
    }
    Ok(())
}

/// Both devices have died, and there is a new one in place of the spare one only: the data is made again there.
#[test]
fn the_spare_device_is_new_and_the_old_one_still_dead() -> Result<()> {
    for kind in KINDS {
        let kind = Kind { spare: true, ..kind };
        let sim = machine(22)?;
        let mut model = Model::new(22);
        let db = open(&sim, kind)?;
        model.fill(&db)?;
        model.work(&db)?;
        db.archive_now()?;
        db.checkpoint()?;
        db.fail_device("data")?;
        model.work(&db)?;
        drop(db);
        let sim = sim.crash();
        lose(&sim, SPARE)?;
        sim.set_faults(resurgam_vfs::FaultPlan { dies: Some((0, "/db".into())), ..Default::default() });
        let db = open(&sim, kind)?;
        model.check(&db, "in the new place")?;
        db.finish_restore()?;
        db.finish_recovery()?;
        model.check(&db, "restored")?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.close()?;
    }
    Ok(())
}

/// A checkpoint is what finds that the device is dead: it is taken all the same, of what took its place.
#[test]
fn a_checkpoint_outlives_the_device() -> Result<()> {
    for kind in KINDS {
        let kind = Kind { spare: true, ..kind };
        let sim = machine(23)?;
        let mut model = Model::new(23);
        let db = open(&sim, kind)?;
        model.fill(&db)?;
        model.work(&db)?;
        db.archive_now()?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        model.work(&db)?;
        sim.set_faults(resurgam_vfs::FaultPlan { dies: Some((0, "/db".into())), ..Default::default() });
        db.checkpoint()?;
        assert!(db.restore_status().is_some());
        model.check(&db, "after the checkpoint")?;
        db.finish_restore()?;
        db.close()?;
    }
    Ok(())
}

/// The archive lags when the device dies, by more than the log should hold: the pages that hold it are brought up to date long before all is restored, so that
/// writers do not wait for that.
#[test]
fn what_the_archive_lacks_holds_the_log_for_a_while_only() -> Result<()> {
    let kind = KINDS[1];
    let sim = machine(37)?;
    let mut model = Model::new(37);
    let db = open_with(&sim, Options { log_bytes_max: 4 << 20, ..options(kind) })?;
    model.fill(&db)?;
    db.archive_now()?;
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    let ids: Vec<i64> = (0..30).collect();
    let begun = db.log_status().flushed;
    while db.log_status().flushed < Lsn(begun.0 + (6 << 20)) {
        model.work_on(&db, &ids)?;
    }
    // Out of memory with them: they await redo then.
    model.check(&db, "it lags")?;
    db.fail_device("data")?;
    db.archive_now()?;
    let end = db.log_status().flushed;
    for _ in 0..2 {
        db.restore_step()?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
    }
    let status = db.restore_status();
    assert!(status.is_some(), "the schedule has become blind");
    let log = db.log_status();
    assert!(
        log.oldest > Lsn(end.0 - (2 << 20)),
        "it is kept from {} on, of {end}, for {}: {status:?}",
        log.oldest,
        log.held_by
    );
    model.check(&db, "under way")?;
    db.finish_restore()?;
    model.check(&db, "restored")?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()
}

/// The data's device dies while the archive is away: what is in memory is served on, and commits go on; what is not there is an error, not a wrong row. Once the
/// archive is back all is there, after a restart in between, too.
#[test]
fn the_archive_is_away_when_the_device_dies() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let kind = Kind { spare: true, ..kind };
        for (crash, pages) in [(false, 2048), (true, 2048), (false, 64)] {
            let sim = machine(seed as u64 + 27)?;
            let mut model = Model::new(seed as u64 + 27);
            let large = || Options { buffer_bytes: pages * PAGE, ..options(kind) };
            let db = open_with(&sim, large())?;
            model.fill(&db)?;
            for _ in 0..3 {
                model.work(&db)?;
            }
            db.archive_now()?;
            while db.write_back()? > 0 {}
            db.checkpoint()?;
            model.work(&db)?;
            let away = resurgam_vfs::Failing { path: ARCHIVE.into(), reads: true, writes: true, syncs: true };
            let dies = Some((0, "/db".into()));
            let both =
                || resurgam_vfs::FaultPlan { dies: dies.clone(), failing: vec![away.clone()], ..Default::default() };
            sim.set_faults(both());
            assert!(db.archive_now().is_err());
            // It finds that the device is dead.
            let _ = db.checkpoint();
            // Which rows are in memory depends on how much of that there is.
            let in_memory = pages > 64;
            for _ in 0..4 {
                match model.work(&db) {
                    Ok(()) => {}
                    Err(error) => assert!(!in_memory && error.kind() == ErrorKind::Io, "{error}"),
                }
                let told = db.replace_dead_devices().err().or_else(|| {
                    // The folder is there, and what comes into it needs the archive.
                    db.finish_restore().err()
                });
                let told = told.expect("nothing can be restored now");
                assert!(told.kind() == ErrorKind::Io, "{told}");
            }
            if in_memory {
                model.check(&db, "from memory")?;
                model.work(&db)?;
            }
            let sim = match crash {
                false => {
                    sim.set_faults(resurgam_vfs::FaultPlan { dies: dies.clone(), ..Default::default() });
                    db.replace_dead_devices()?;
                    look(&db, &mut model, "the archive is back")?;
                    db.finish_restore()?;
                    db.archive_now()?;
                    model.work(&db)?;
                    drop(db);
                    sim.crash()
                }
                true => {
                    drop(db);
                    let sim = sim.crash();
                    sim.set_faults(both());
                    match open_with(&sim, large()) {
                        Ok(_) => panic!("it opened without data and archive"),
                        Err(error) => assert!(error.message().contains(ARCHIVE), "{error}"),
                    }
                    sim
                }
            };
            sim.set_faults(resurgam_vfs::FaultPlan { dies: dies.clone(), ..Default::default() });
            let db = open_with(&sim, large())?;
            model.check(&db, "in the end")?;
            db.finish_restore()?;
            assert_eq!(db.verify()?, Vec::<String>::new());
            db.close()?;
        }
    }
    Ok(())
}

/// More and more pages of a device cannot be read: one by one they are repaired, and when there are many of them the device is replaced, without a
/// statement that fails. A few, and the same ones again, kill nothing.
#[test]
fn many_pages_that_cannot_be_read() -> Result<()> {
    for (kind, background) in [(KINDS[0], false), (KINDS[0], true), (KINDS[1], true)] {
        let kind = Kind { spare: true, ..kind };
        let sim = machine(26)?;
        let mut model = Model::new(26);
        let db = open(&sim, kind)?;
        model.fill(&db)?;
        model.work(&db)?;
        db.archive_now()?;
        db.close()?;
        drop(db);
        let db = open_with(&sim, Options { background, ..options(kind) })?;
        let data = Path::new(DIR).join("data");
        let pages = sim.open(&data, OpenMode::ReadOnly)?.len()? / PAGE as u64;
        let unreadable = |from: u64, to: u64| sim.make_unreadable(&data, from * PAGE as u64..to * PAGE as u64);
        for _ in 0..4 {
            // Each time they are written anew.
            unreadable(60, 80)?;
            model.check(&db, "a bad spot")?;
            while db.write_back()? > 0 {}
        }
        assert!(db.restore_status().is_none() && db.stats().pool.unreadable_pages > 40, "{:?}", db.stats().pool);
        assert!(!sim.exists(Path::new(SPARE))?);
        unreadable(100, pages)?;
        match background {
            true => model.check(&db, "a dying device")?,
            // Who needs room in memory is told so, where nobody makes the replacement beside.
            false => look(&db, &mut model, "a dying device")?,
        }
        db.replace_dead_devices()?;
        assert!(sim.exists(&Path::new(SPARE).join("data"))?, "{:?}", db.stats().pool);
        model.check(&db, "in the spare folder")?;
        model.work(&db)?;
        db.finish_restore()?;
        model.check(&db, "restored")?;
        db.close()?;
    }
    Ok(())
}

/// The same, and nothing can take the device's place: there is no spare folder, it holds something else, or has no room. The device goes on, and what can
/// be read of it stays. Once there is a place, it is taken.
#[test]
fn many_pages_that_cannot_be_read_and_no_place() -> Result<()> {
    for (nth, background) in [(0, false), (1, false), (2, false), (0, true), (1, true)] {
        let kind = Kind { spare: nth > 0, ..KINDS[0] };
        let sim = machine(29)?;
        let mut model = Model::new(29);
        let db = open(&sim, kind)?;
        model.fill(&db)?;
        model.work(&db)?;
        db.archive_now()?;
        db.close()?;
        drop(db);
        let db = open_with(&sim, Options { background, ..options(kind) })?;
        let data = Path::new(DIR).join("data");
        let holiday = Path::new(SPARE).join("holiday");
        match nth {
            1 => {
                sim.make_folder(Path::new(SPARE))?;
                sim.open(&holiday, OpenMode::Create)?.sync()?;
            }
            2 => {
                sim.make_folder(Path::new(SPARE))?;
                let small_disk = Some(("/disk5".into(), 1 << 20));
                sim.set_faults(resurgam_vfs::FaultPlan { small_disk, ..Default::default() });
            }
            _ => {}
        }
        let pages = sim.open(&data, OpenMode::ReadOnly)?.len()? / PAGE as u64;
        let unreadable = || sim.make_unreadable(&data, 100 * PAGE as u64..pages * PAGE as u64);
        unreadable()?;
        for _ in 0..3 {
            model.check(&db, "a dying device")?;
            db.replace_dead_devices()?;
            model.work(&db)?;
            db.write_back()?;
            db.checkpoint()?;
        }
        assert!(db.restore_status().is_none() && db.stats().pool.unreadable_pages > 64, "{:?}", db.stats().pool);
        assert!(!sim.exists(&Path::new(SPARE).join("data"))?);
        if nth > 0 {
            match nth {
                1 => sim.remove(&holiday)?,
                _ => sim.set_faults(Default::default()),
            }
            unreadable()?;
            look(&db, &mut model, "there is a place")?;
            db.replace_dead_devices()?;
            assert!(sim.exists(&Path::new(SPARE).join("data"))?, "{:?}", db.stats().pool);
            db.finish_restore()?;
        }
        model.check(&db, "in the end")?;
        db.close()?;
    }
    Ok(())
}

/// The device of the spare folder is smaller than the data: an operator is told so, and nothing is changed; a replacement that has to be made is not
/// begun, what is in memory is served on, and it is made once there is room.
#[test]
fn a_spare_device_that_is_too_small() -> Result<()> {
    for kind in KINDS {
        let kind = Kind { spare: true, ..kind };
        let sim = machine(24)?;
        let mut model = Model::new(24);
        let db = open(&sim, kind)?;
        model.fill(&db)?;
        model.work(&db)?;
        db.archive_now()?;
        db.checkpoint()?;
        sim.make_folder(Path::new(SPARE))?;
        let small = || resurgam_vfs::FaultPlan { small_disk: Some(("/disk5".into(), 1 << 20)), ..Default::default() };
        sim.set_faults(small());
        let error = db.fail_device("data").expect_err("there is no room");
        assert!(error.message().contains(SPARE) && error.message().contains("1048576 are free"), "{error}");
        assert!(db.restore_status().is_none() && sim.list(Path::new(SPARE))?.is_empty());
        model.check(&db, "the device is left as it is")?;
        model.work(&db)?;
        sim.set_faults(resurgam_vfs::FaultPlan { dies: Some((0, "/db".into())), ..small() });
        assert!(db.checkpoint().is_err());
        let error = db.replace_dead_devices().expect_err("there is no room");
        assert!(error.kind() == ErrorKind::DiskFull && error.hint().is_some(), "{error}");
        assert!(error.message().contains("1048576 are free"), "{error}");
        assert!(sim.list(Path::new(SPARE))?.is_empty(), "nothing was begun");
        // Somebody makes room.
        sim.set_faults(resurgam_vfs::FaultPlan { dies: Some((0, "/db".into())), ..Default::default() });
        db.replace_dead_devices()?;
        model.check(&db, "in the spare folder")?;
        model.work(&db)?;
        db.finish_restore()?;
        db.close()?;
    }
    Ok(())
}

/// Nor is a missing file made where there is no room for it.
#[test]
fn no_room_for_a_missing_file() -> Result<()> {
    let kind = KINDS[2];
    let sim = machine(25)?;
    let mut model = Model::new(25);
    let db = open(&sim, kind)?;
    model.fill(&db)?;
    for _ in 0..8 {
        model.work(&db)?;
    }
    db.archive_now()?;
    db.close()?;
    drop(db);
    for (lost, device) in [(DIR, "/db"), ("/disk4", "/disk4")] {
        let sim = sim.fork(1);
        let file = if lost == DIR { format!("{DIR}/data") } else { VERSIONS.to_owned() };
        sim.remove(Path::new(&file))?;
        let small = resurgam_vfs::FaultPlan { small_disk: Some((device.into(), 64 << 10)), ..Default::default() };
        sim.set_faults(small);
        let (kind_of, text) = refused(&sim, options(kind));
        assert!(kind_of == ErrorKind::DiskFull && text.contains("bytes are needed"), "{text}");
        assert!(text.contains(lost) && !sim.exists(Path::new(&file))? && !sim.exists(&Path::new(DIR).join(ORIGIN))?);
        sim.set_faults(Default::default());
        let db = open(&sim, kind)?;
        model.check(&db, "there is room")?;
        db.close()?;
    }
    Ok(())
}

/// What a life does, retried where a dead device failed it: never a wrong row, never a lost one.
fn live(sim: &resurgam_vfs::SimVfs, db: &Database, model: &mut Model, rounds: u64) -> Result<()> {
    for round in 0..rounds {
        let mut tries = 0;
        while let Err(error) = (|| {
            model.work(db)?;
            db.write_back()?;
            if round % 3 == 1 {
                db.checkpoint()?;
            }
            if round % 4 == 2 {
                db.archive_now()?;
            }
            db.restore_step().map(drop)
        })() {
            if sim.power_lost() {
                return Err(error);
            }
            tries += 1;
            assert!(error.kind() == ErrorKind::Io && tries < 20, "it goes on: {error}");
            // The background would.
            let _ = db.replace_dead_devices();
        }
    }
    Ok(())
}

/// Every row; a read may be the first to meet a device that died with the last write.
fn look(db: &Database, model: &mut Model, when: &str) -> Result<()> {
    let mut tries = 0;
    while let Err(error) = model.check(db, when) {
        tries += 1;
        assert!(error.kind() == ErrorKind::Io && tries < 20, "{when}: it goes on: {error}");
        // The background would.
        let _ = db.replace_dead_devices();
    }
    Ok(())
}

/// The data's device dies at every fifth call, from the seed's on; then power is lost at every call in turn while what it held is restored;
/// now and then the spare device dies as well, or comes back.
#[test]
fn a_device_dies_at_every_step() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let kind = Kind { spare: true, ..kind };
        let base = machine(seed as u64 + 30)?;
        let mut model = Model::new(seed as u64 + 30);
        let db = open(&base, kind)?;
        model.fill(&db)?;
        for _ in 0..4 {
            model.work(&db)?;
        }
        db.archive_now()?;
        db.checkpoint()?;
        model.work(&db)?;
        drop(db);
        let base = base.crash();
        let (mut deaths, mut crashes, mut replaced) = (0, 0, 0);
        // Runs with other seeds have the others.
        for at in (offset(5)..400).step_by(5) {
            let mut sim = base.fork(at);
            let mut model = model.copy(at);
            let db = open(&sim, kind)?;
            let dies = if kind.version_file && at % 2 == 0 { "/disk4" } else { "/db" };
            let plan = resurgam_vfs::FaultPlan { dies: Some((at, dies.into())), ..Default::default() };
            sim.set_faults(plan.clone());
            live(&sim, &db, &mut model, 10)?;
            deaths += 1;
            let there = |name: &str| sim.exists(&Path::new(SPARE).join(name));
            replaced += u64::from(there("data")? || there("version-store-file")?);
            look(&db, &mut model, "after the device died")?;
            drop(db);
            if at % 3 == 0 {
                sim = sim.crash();
                // Dead before, dead now; or back as it was.
                if at % 2 == 0 {
                    sim.set_faults(resurgam_vfs::FaultPlan { dies: Some((0, dies.into())), ..Default::default() });
                }
                // Also where nobody had noticed yet that it died.
                let db = open(&sim, kind)?;
                look(&db, &mut model, "after a restart")?;
                if model.random(2) == 0 {
                    live(&sim, &db, &mut model, 4)?;
                    look(&db, &mut model, "after a restart, at work")?;
                }
            }
            // Power is lost while it is restored.
            let mut step = 1 + model.random(20);
            for _ in 0..6 {
                sim = if model.random(3) == 0 { sim.kill() } else { sim.crash() };
                crash_at(&sim, step);
                step += 1 + model.random(60);
                let life = open(&sim, kind).and_then(|db| {
                    live(&sim, &db, &mut model, 3)?;
                    db.finish_restore()?;
                    db.close()
                });
                match life {
                    Ok(()) => {}
                    Err(error) => assert!(sim.power_lost(), "{kind:?} {at} {step}: {error}"),
                }
                crashes += u64::from(sim.power_lost());
            }
            let sim = sim.crash();
            let db = open(&sim, kind)?;
            model.check(&db, "after crashes")?;
            db.finish_restore()?;
            db.finish_recovery()?;
            model.check(&db, "in the end")?;
            assert_eq!(db.verify()?, Vec::<String>::new());
            db.close()?;
        }
        eprintln!("{kind:?}: {deaths} deaths, {replaced} replaced, {crashes} crashes");
        assert!(deaths == 80 && replaced > deaths / 5 && crashes > deaths, "the schedule has become blind");
    }
    Ok(())
}

/// Power is lost at every call in turn while a replacement is made for a device that is declared dead: the same command
/// line opens what counts then, the old files or the new ones, and nothing is missing.
#[test]
fn power_is_lost_while_a_device_is_replaced() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        for spare in [false, true] {
            let kind = Kind { spare, ..kind };
            let base = machine(seed as u64 + 40)?;
            let mut model = Model::new(seed as u64 + 40);
            let db = open(&base, kind)?;
            model.fill(&db)?;
            model.work(&db)?;
            db.archive_now()?;
            db.checkpoint()?;
            model.work(&db)?;
            db.write_back()?;
            drop(db);
            let base = base.crash();
            let (mut lost, mut restarts) = (0, 0);
            for at in 1..400 {
                let sim = base.fork(at);
                let mut model = model.copy(at);
                let device = if kind.version_file && at % 2 == 0 { "version store" } else { "data" };
                let db = open(&sim, kind)?;
                model.work(&db)?;
                // Of a restore that was begun before, some of it is in the file.
                if at % 3 == 0 {
                    db.fail_device("data")?;
                    model.work(&db)?;
                    db.restore_step()?;
                }
                crash_at(&sim, at);
                let failed = db.fail_device(device).err();
                if !sim.power_lost() {
                    assert!(failed.is_none(), "{kind:?} {at}: {failed:?}");
                    lost += 1;
                    if lost > 6 {
                        break;
                    }
                }
                drop(db);
                let sim = if at % 4 == 0 { sim.kill() } else { sim.crash() };
                let db = open(&sim, kind)?;
                model.check(&db, "after power was lost in a replacement")?;
                restarts += 1;
                // It is tried again, and the end is as it would have been.
                db.fail_device(device)?;
                model.work(&db)?;
                drop(db);
                let sim = sim.crash();
                let db = open(&sim, kind)?;
                model.check(&db, "replaced at last")?;
                db.finish_restore()?;
                db.finish_recovery()?;
                model.check(&db, "restored")?;
                assert_eq!(db.verify()?, Vec::<String>::new());
                db.close()?;
            }
            eprintln!("{kind:?}: {restarts} restarts");
            assert!(restarts > 15, "the schedule has become blind");
        }
    }
    Ok(())
}

/// The database is closed, not killed, again and again before its restore is finished, pages that were dropped from
/// memory among them; with pages written once, twice, or as it sees fit.
#[test]
fn closes_in_the_middle_of_a_restore() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        for double_writes in [DoubleWrites::Auto, DoubleWrites::On, DoubleWrites::Off] {
            let options = Options { double_writes, ..options(kind) };
            let sim = machine(seed as u64 + 50)?;
            let mut model = Model::new(seed as u64 + 50);
            let db = open_with(&sim, options.clone())?;
            model.fill(&db)?;
            model.work(&db)?;
            db.archive_now()?;
            model.work(&db)?;
            drop(db);
            let mut sim = sim.crash();
            lose_data(&sim)?;
            let mut middle = 0;
            for life in 0..12 {
                let db = open_with(&sim, options.clone())?;
                for _ in 0..life % 4 {
                    model.work(&db)?;
                    db.write_back()?;
                    if model.random(3) == 0 {
                        db.archive_now()?;
                    }
                }
                if life % 3 == 1 {
                    db.restore_step()?;
                }
                let status = db.restore_status();
                middle += u64::from(status.as_ref().is_some_and(|status| status.restored < status.segments));
                let finished = status.is_none_or(|status| status.restored == status.segments);
                db.close()?;
                drop(db);
                if life % 2 == 0 {
                    sim = sim.crash();
                }
                if life % 5 == 4 || finished {
                    lose_data(&sim)?;
                }
                let db = open_with(&sim, options.clone())?;
                if life % 6 == 5 {
                    model.check(&db, "closed in the middle")?;
                } else {
                    model.look(&db, life * 300)?;
                    model.look(&db, 3999 - life * 7)?;
                }
                drop(db);
                sim = sim.crash();
            }
            assert!(middle > 3, "no close was in the middle of a restore: {middle}");
            let db = open_with(&sim, options)?;
            db.finish_restore()?;
            db.finish_recovery()?;
            model.check(&db, "restored")?;
            assert_eq!(db.verify()?, Vec::<String>::new());
            db.close()?;
        }
    }
    Ok(())
}

/// The data's device dies at each call in turn while space is given back: the file that takes its place is whole, and who asked for it to
/// be done is told nothing of holes that were not made, or of an end that was not cut.
#[test]
fn a_device_dies_while_space_is_given_back() -> Result<()> {
    let kind = Kind { spare: true, ..Kind::default() };
    let base = machine(47)?;
    let mut model = Model::new(47);
    let db = open(&base, kind)?;
    // Below the table that stays, and behind it.
    let others = ["before", "behind"];
    let other = |name: &str| -> Result<()> {
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", name).column("id", ColumnType::Int8).column("v", ColumnType::Text);
        let table = tx.create_table(spec.primary_key(&["id"]))?.done()?;
        tx.statement(StatementKind::BulkWrite)?;
        for id in 0..2000 {
            tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Text(&"w".repeat(900))])?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        Ok(())
    };
    other(others[0])?;
    model.fill(&db)?;
    other(others[1])?;
    let tx = db.begin(Isolation::ReadCommitted);
    for name in others {
        let table = tx.table("public", name)?.expect("made");
        tx.drop_table(&table)?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    db.clean_now()?;
    db.archive_now()?;
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    drop(db);
    let base = base.crash();
    let (mut deaths, mut unnoticed) = (0, 0);
    for at in 1..1000 {
        let sim = base.fork(at);
        let mut model = model.copy(at);
        let db = open(&sim, kind)?;
        db.finish_recovery()?;
        sim.set_faults(resurgam_vfs::FaultPlan { dies: Some((at, "/db".into())), ..Default::default() });
        let given = db.give_back();
        if let Err(error) = &given {
            let of_giving = ["hole", "shorten", "length"].iter().any(|word| error.message().contains(word));
            assert!(error.kind() == ErrorKind::Io && !of_giving, "{at}: {error}");
        }
        look(&db, &mut model, "after the device died")?;
        db.replace_dead_devices()?;
        if db.restore_status().is_none() {
            // It has come to its end before.
            assert!(given?.bytes_cut > 0);
            unnoticed += 1;
            break;
        }
        deaths += 1;
        model.work(&db)?;
        db.finish_restore()?;
        db.give_back()?;
        model.check(&db, "restored")?;
        assert_eq!(db.verify()?, Vec::<String>::new());
        db.close()?;
    }
    eprintln!("{deaths} deaths");
    assert!(deaths > 3 && unnoticed == 1, "the sweep has become blind: {deaths}");
    Ok(())
}
