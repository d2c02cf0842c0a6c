//! Files that are there at a start and of no use: made again from what is elsewhere, where that is there; else refused, with nothing changed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, OpenMode, SimVfs, Vfs};

use super::support::*;
use super::{KINDS, is_whole, live};
use crate::common::hooked::Hooked;

/// What is wrong with a file.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Damage {
    Overwritten,
    Cut,
    Empty,
    /// Its beginning cannot be read.
    Unreadable,
}

const DAMAGES: [Damage; 4] = [Damage::Overwritten, Damage::Cut, Damage::Empty, Damage::Unreadable];

fn damage(sim: &SimVfs, path: &Path, damage: Damage) -> Result<()> {
    let file = sim.open(path, OpenMode::ReadWrite)?;
    match damage {
        Damage::Overwritten => file.write_at(&[0xA5; 8192], 0)?,
        Damage::Cut => file.set_len(40)?,
        Damage::Empty => file.set_len(0)?,
        Damage::Unreadable => sim.make_unreadable(path, 0..8192)?,
    }
    file.sync()
}

fn at(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

fn bytes(sim: &SimVfs, path: &Path) -> Result<Vec<u8>> {
    let file = sim.open(path, OpenMode::ReadOnly)?;
    let mut bytes = vec![0; file.len()? as usize];
    let read = file.read_at(&mut bytes, 0)?;
    bytes.truncate(read);
    Ok(bytes)
}

/// A machine after a power loss, with work in the archive and behind it.
fn crashed(seed: u64, kind: Kind) -> Result<(SimVfs, Model)> {
    crashed_with(seed, &options(kind))
}

fn crashed_with(seed: u64, with: &Options) -> Result<(SimVfs, Model)> {
    let sim = machine(seed)?;
    let mut model = Model::new(seed);
    let db = open_with(&sim, with.clone())?;
    model.fill(&db)?;
    for round in 0..6 {
        model.work(&db)?;
        if round == 3 {
            if with.archive.is_some() {
                db.archive_now()?;
            }
            while db.write_back()? > 0 {}
            db.checkpoint()?;
        }
    }
    drop(db);
    Ok((sim.crash(), model))
}

/// Opens, works, loses power, and restores all of it.
fn goes_on(mut sim: SimVfs, kind: Kind, model: &mut Model) -> Result<()> {
    for life in 0..2 {
        let db = open(&sim, kind)?;
        model.check(&db, "made again")?;
        model.work(&db)?;
        db.write_back()?;
        if life == 0 {
            db.restore_step()?;
        }
        drop(db);
        sim = sim.crash();
    }
    let db = open(&sim, kind)?;
    db.finish_restore()?;
    db.finish_recovery()?;
    model.check(&db, "restored")?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.close()?;
    drop(db);
    if kind.spare { Ok(()) } else { is_whole(&sim, kind, model) }
}

/// Power is lost at every call in turn that changes something at such a start; the next one has everything.
fn crashes_on_the_way(sim: &SimVfs, kind: Kind, model: &Model) -> Result<()> {
    crashes_on_the_way_with(sim, &options(kind), model)
}

fn crashes_on_the_way_with(sim: &SimVfs, with: &Options, model: &Model) -> Result<()> {
    let mut lost = 0;
    for step in 1..200 {
        let (sim, mut model) = (sim.fork(step), model.copy(step));
        crash_at(&sim, step);
        let opened = open_with(&sim, with.clone());
        let over = !sim.power_lost();
        if let Err(error) = &opened {
            assert!(!over, "{with:?} {step}: {error}");
        }
        drop(opened);
        lost += u64::from(!over);
        let sim = if step % 3 == 0 { sim.kill() } else { sim.crash() };
        let db = open_with(&sim, with.clone())?;
        model.check(&db, "after a crash on the way")?;
        if over || step % 5 == 0 {
            model.work(&db)?;
            db.finish_restore()?;
            model.check(&db, "restored after a crash on the way")?;
        }
        if over {
            break;
        }
    }
    assert!(lost > 5, "the schedule has become blind: {lost}");
    Ok(())
}

#[test]
fn the_boot_page() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let (sim, mut model) = crashed(seed as u64 + 60, kind)?;
        for (round, what) in DAMAGES.into_iter().enumerate() {
            let (sim, mut model) = (sim.fork(round as u64), model.copy(round as u64));
            damage(&sim, &at("data"), what)?;
            let damaged = if what == Damage::Unreadable { Vec::new() } else { bytes(&sim, &at("data"))? };
            // Without an archive nothing is done about it.
            let (kind_of, text) = refused(&sim, Options { archive: None, ..options(kind) });
            assert!(matches!(kind_of, ErrorKind::Corrupt | ErrorKind::Io) && text.contains("data"), "{what:?}: {text}");
            assert!(!sim.exists(&at("data.unusable"))? && !sim.exists(&at(ORIGIN))?);
            let db = open(&sim, kind)?;
            let status = db.restore_status().expect("a restore");
            assert!(status.device == "data" && status.restored == 0, "{status:?}");
            drop(db);
            if what != Damage::Unreadable {
                assert!(bytes(&sim, &at("data.unusable"))? == damaged, "{what:?}: it is kept as it was");
            }
            // Once more: neither takes the other's name.
            let sim = sim.crash();
            damage(&sim, &at("data"), what)?;
            goes_on(sim.fork(9), kind, &mut model)?;
        }
        damage(&sim, &at("data"), Damage::Overwritten)?;
        crashes_on_the_way(&sim, kind, &model)?;
        model.copy(0);
        goes_on(sim, kind, &mut model)?;
    }
    Ok(())
}

/// An archive that was begun later than the database makes nothing again: refused as ever, and nothing is changed.
#[test]
fn what_cannot_be_made_again_is_left() -> Result<()> {
    for kind in [KINDS[0], KINDS[2]] {
        let sim = machine(64)?;
        let mut model = Model::new(64);
        let db = open_with(&sim, Options { archive: None, ..options(kind) })?;
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
        let db = open(&sim, kind)?;
        db.archive_now()?;
        db.close()?;
        drop(db);
        for file in [at("data"), PathBuf::from(VERSIONS)] {
            if !sim.exists(&file)? {
                continue;
            }
            let sim = sim.fork(2);
            damage(&sim, &file, Damage::Overwritten)?;
            let before = bytes(&sim, &file)?;
            let (_, text) = refused(&sim, options(kind));
            assert!(text.contains(file.to_str().unwrap_or_default()), "{text}");
            assert!(bytes(&sim, &file)? == before && !sim.exists(&at(ORIGIN))?);
            assert!(!sim.exists(&file.with_extension("unusable"))?);
        }
    }
    Ok(())
}

/// The archive does not go on with the log: it lacks what was written while the database ran without it, is newer than a log that somebody has put back, or is
/// of another history. That is found before anything is made.
#[test]
fn an_archive_that_does_not_fit_makes_nothing() -> Result<()> {
    for (nth, kind) in [KINDS[0], KINDS[2]].into_iter().enumerate() {
        let sim = machine(nth as u64 + 65)?;
        let mut model = Model::new(nth as u64 + 65);
        let db = open(&sim, kind)?;
        model.fill(&db)?;
        db.archive_now()?;
        db.close()?;
        drop(db);
        let old = sim.fork(1);
        let without = |sim: &SimVfs, model: &mut Model, rounds: u64, gives_up_log: bool| -> Result<()> {
            let db = open_with(sim, Options { archive: None, ..options(kind) })?;
            for _ in 0..rounds {
                model.work(&db)?;
                if gives_up_log {
                    while db.write_back()? > 0 {}
                    db.checkpoint()?;
                }
            }
            Ok(())
        };
        let gap = sim.fork(2);
        without(&gap, &mut model.copy(1), 40, true)?;
        // What the archive has was written by this one.
        let db = open(&sim, kind)?;
        for _ in 0..4 {
            model.work(&db)?;
        }
        db.archive_now()?;
        db.close()?;
        drop(db);
        let put_back = |from: &SimVfs| -> Result<SimVfs> {
            let sim = sim.fork(3);
            for dir in [Path::new(DIR), Path::new(LOG)] {
                lose(&sim, dir.to_str().unwrap_or_default())?;
                for name in from.list(dir)? {
                    let file = sim.open(&dir.join(&name), OpenMode::Create)?;
                    file.write_at(&bytes(from, &dir.join(&name))?, 0)?;
                    file.sync()?;
                }
                sim.sync_dir(dir)?;
            }
            if kind.version_file {
                let file = sim.open(Path::new(VERSIONS), OpenMode::ReadWrite)?;
                file.set_len(0)?;
                file.write_at(&bytes(from, Path::new(VERSIONS))?, 0)?;
                file.sync()?;
            }
            Ok(sim)
        };
        let newer = put_back(&old)?;
        let other = put_back(&old)?;
        without(&other, &mut model.copy(2), 12, false)?;
        for (sim, says) in [(gap, "what is in between is lost"), (newer, "old copy"), (other, "another history")] {
            for file in [at("data"), PathBuf::from(VERSIONS)] {
                if !sim.exists(&file)? {
                    continue;
                }
                let sim = sim.fork(4);
                damage(&sim, &file, Damage::Overwritten)?;
                let before = (bytes(&sim, &file)?, bytes(&sim, &at("control"))?);
                let (_, text) = refused(&sim, options(kind));
                assert!(text.contains(file.to_str().unwrap_or_default()), "{text}");
                assert!(file != at("data") || text.contains(says), "{says}: {text}");
                assert!(!sim.exists(&at(ORIGIN))? && !sim.exists(&file.with_extension("unusable"))?, "{says}");
                assert!((bytes(&sim, &file)?, bytes(&sim, &at("control"))?) == before, "{says}: something was changed");
            }
        }
    }
    Ok(())
}

/// The double-write area has images of version pages too: where one of them was torn and the data file is made again, it is used all the same.
#[test]
fn torn_version_pages_and_the_boot_page() -> Result<()> {
    let kind = Kind { no_repair: true, ..KINDS[2] };
    let mut torn = 0;
    for seed in 0..6u64 {
        let (sim, mut model) = crashed(seed + 83, kind)?;
        let db = open(&sim, kind)?;
        for _ in 0..3 {
            model.work(&db)?;
        }
        while db.write_back()? > 0 {}
        drop(db);
        let area = bytes(&sim, &at("doublewrite"))?;
        let ids = area[32..].chunks_exact(8).map(|id| PageId(u64::from_le_bytes(id.try_into().unwrap_or_default())));
        let count = u32::from_le_bytes(area[16..20].try_into().unwrap_or_default());
        let mut images = Vec::new();
        for id in ids.take(count as usize).filter(|id| id.file() > 0) {
            let place = id.in_file() * PAGE as u64;
            sim.open(Path::new(VERSIONS), OpenMode::ReadWrite)?.write_at(&[0xA5; PAGE / 2], place)?;
            images.push(place as usize);
        }
        torn += images.len();
        damage(&sim, &at("data"), Damage::Overwritten)?;
        for step in [None, Some(1 + seed * 4)] {
            let (mut sim, mut model) = (sim.fork(1), model.copy(seed));
            if let Some(step) = step {
                crash_at(&sim, step);
                drop(open(&sim, kind));
                sim = sim.crash();
            }
            let db = open(&sim, kind)?;
            let versions = bytes(&sim, Path::new(VERSIONS))?;
            for place in &images {
                assert!(
                    versions[*place..][..PAGE / 2] != [0xA5; PAGE / 2],
                    "seed {seed}: the page at {place} is still torn"
                );
            }
            model.check(&db, "torn version pages")?;
            db.finish_restore()?;
            db.finish_recovery()?;
            assert_eq!(db.verify()?, Vec::<String>::new());
            db.close()?;
        }
    }
    assert!(torn > 3, "the schedule has become blind: {torn}");
    Ok(())
}

#[test]
fn the_control_file() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        let (sim, model) = crashed(seed as u64 + 70, kind)?;
        for (round, what) in DAMAGES.into_iter().enumerate() {
            for data_too in [false, true] {
                let (sim, mut model) = (sim.fork(round as u64), model.copy(round as u64));
                damage(&sim, &at("control"), what)?;
                if data_too {
                    damage(&sim, &at("data"), Damage::Overwritten)?;
                }
                // Its own folder of the log has the copy, with or without an archive.
                if !data_too {
                    let sim = sim.fork(3);
                    let db = open_with(&sim, Options { archive: None, ..options(kind) })?;
                    assert!(db.restore_status().is_none() && sim.exists(&at("control.unusable"))?);
                }
                let db = open(&sim, kind)?;
                assert_eq!(db.restore_status().is_some(), data_too);
                assert!(sim.exists(&at("control.unusable"))?);
                drop(db);
                goes_on(sim.crash(), kind, &mut model)?;
            }
        }
        let sim = sim.fork(8);
        damage(&sim, &at("control"), Damage::Overwritten)?;
        crashes_on_the_way(&sim, kind, &model)?;
        // Without an archive, as ever.
        let with = Options { archive: None, ..options(kind) };
        let (sim, model) = crashed_with(seed as u64 + 76, &with)?;
        damage(&sim, &at("control"), Damage::Overwritten)?;
        crashes_on_the_way_with(&sim, &with, &model)?;
    }
    Ok(())
}

/// A copy that is not of the last open, or is of another database, is none.
#[test]
fn a_wrong_copy_of_the_control_file() -> Result<()> {
    let kind = KINDS[0];
    let (sim, mut model) = crashed(74, kind)?;
    let copy = Path::new(LOG).join("control");
    let before = bytes(&sim, &copy)?;
    let mut sim = sim;
    for _ in 0..2 {
        let db = open(&sim, kind)?;
        model.work(&db)?;
        drop(db);
        sim = sim.crash();
    }
    let good = sim.fork(1);
    sim.open(&copy, OpenMode::ReadWrite)?.write_at(&before, 0)?;
    damage(&sim, &at("control"), Damage::Overwritten)?;
    let (kind_of, text) = refused(&sim, options(kind));
    assert!(kind_of == ErrorKind::Corrupt && text.contains("both copies"), "{text}");
    assert!(!sim.exists(&at("control.unusable"))?);
    // The log's folder of another database.
    let other = machine(75)?;
    let db = open(&other, kind)?;
    db.close()?;
    drop(db);
    for name in ["control", "owner"] {
        let path = Path::new(LOG).join(name);
        let file = good.open(&path, OpenMode::ReadWrite)?;
        file.set_len(0)?;
        file.write_at(&bytes(&other, &path)?, 0)?;
    }
    damage(&good, &at("control"), Damage::Overwritten)?;
    let (kind_of, text) = refused(&good, options(kind));
    assert!(kind_of == ErrorKind::Corrupt && text.contains("both copies"), "{text}");
    assert!(!good.exists(&at("control.unusable"))?);
    Ok(())
}

#[test]
fn the_head_of_the_version_store() -> Result<()> {
    let kind = KINDS[2];
    let path = Path::new(VERSIONS);
    let (sim, model) = crashed(80, kind)?;
    let old = bytes(&sim, path)?;
    let mut now = sim.fork(0);
    let mut model = model.copy(0);
    for _ in 0..2 {
        let db = open(&now, kind)?;
        model.work(&db)?;
        drop(db);
        now = now.crash();
    }
    for round in 0..5u64 {
        for spare in [false, true] {
            let kind = Kind { spare, ..kind };
            let (sim, mut model) = (now.fork(round), model.copy(round));
            match DAMAGES.get(round as usize) {
                Some(what) => damage(&sim, path, *what)?,
                // A copy of an earlier time.
                None => {
                    let file = sim.open(path, OpenMode::ReadWrite)?;
                    file.set_len(0)?;
                    file.write_at(&old, 0)?;
                    file.sync()?;
                }
            }
            let (_, text) = refused(&sim.fork(1), Options { archive: None, ..options(kind) });
            assert!(text.contains(VERSIONS), "{text}");
            let db = open(&sim, kind)?;
            let status = db.restore_status().expect("a restore");
            assert!(status.device == "version store" && status.restored == 0, "{status:?}");
            let elsewhere = spare && round == 3;
            assert_eq!(sim.exists(Path::new("/disk4/versions.unusable"))?, !elsewhere);
            drop(db);
            goes_on(sim.crash(), kind, &mut model)?;
        }
    }
    damage(&now, path, Damage::Overwritten)?;
    crashes_on_the_way(&now, kind, &model)
}

/// The device of a file that is of no use cannot change anything, and no other one is there: each start is refused with what is wrong with the file, and nothing
/// says that it is made again.
#[test]
fn what_cannot_be_set_aside_is_left() -> Result<()> {
    let kind = KINDS[2];
    let (sim, mut model) = crashed(84, kind)?;
    for (file, device) in [(PathBuf::from(VERSIONS), "/disk4"), (at("data"), "/db/main/data")] {
        let sim = sim.fork(1);
        damage(&sim, &file, Damage::Unreadable)?;
        for _ in 0..2 {
            let disk = Arc::new(Hooked::new(sim.clone(), |_, _| {}).keeping(device));
            let told = Database::open_with(disk, Path::new(DIR), options(kind), |_| {}).err();
            let (kind_of, text) = told.map(|error| (error.kind(), error.to_string())).expect("it is refused");
            assert!(kind_of == ErrorKind::Io && text.contains(file.to_str().unwrap_or_default()), "{text}");
            assert!(!sim.exists(&at(ORIGIN))?, "{device}");
        }
        let mut model = model.copy(1);
        let db = open(&sim, kind)?;
        model.check(&db, "it can have another name")?;
        drop(db);
        goes_on(sim.crash(), kind, &mut model)?;
    }
    // It is well in the end.
    let db = open(&sim, kind)?;
    model.check(&db, "nothing was damaged here")?;
    db.close()
}

/// A file of another database is nobody's to set aside, nor is one that somebody has only now asked for.
#[test]
fn a_wrong_version_store_is_refused() -> Result<()> {
    let kind = KINDS[2];
    let path = Path::new(VERSIONS);
    let (sim, model) = crashed(81, kind)?;
    let other = machine(82)?;
    let db = open(&other, kind)?;
    db.close()?;
    drop(db);
    let foreign = bytes(&other, path)?;
    let with = |place: &str| -> Result<SimVfs> {
        let sim = sim.fork(4);
        let file = sim.open(Path::new(place), OpenMode::Create)?;
        file.set_len(0)?;
        file.write_at(&foreign, 0)?;
        file.sync()?;
        Ok(sim)
    };
    let sim_of = with(VERSIONS)?;
    let (kind_of, text) = refused(&sim_of, options(kind));
    assert!(kind_of == ErrorKind::InvalidParameter && text.contains("another database"), "{text}");
    let elsewhere = "/disk4/elsewhere";
    let sim_of = with(elsewhere)?;
    damage(&sim_of, Path::new(elsewhere), Damage::Overwritten)?;
    let (_, text) = refused(&sim_of, Options { version_store_path: Some(elsewhere.into()), ..options(kind) });
    assert!(text.contains(elsewhere), "{text}");
    assert!(!sim_of.exists(Path::new("/disk4/elsewhere.unusable"))?);
    // Nor where the data's device is dead.
    let kind = Kind { spare: true, ..kind };
    for damaged in [true, false] {
        let sim_of = with(elsewhere)?;
        if damaged {
            damage(&sim_of, Path::new(elsewhere), Damage::Overwritten)?;
        }
        let before = bytes(&sim_of, Path::new(elsewhere))?;
        dies(&sim_of, "/db");
        let (_, text) = refused(&sim_of, Options { version_store_path: Some(elsewhere.into()), ..options(kind) });
        assert!(text.contains(elsewhere), "{text}");
        assert!(!sim_of.exists(Path::new("/disk4/elsewhere.unusable"))?);
        assert!(bytes(&sim_of, Path::new(elsewhere))? == before);
        // The right one is named, or none.
        let db = open(&sim_of, kind)?;
        model.copy(3).check(&db, "without the device")?;
    }
    Ok(())
}

fn dies(sim: &SimVfs, device: &str) {
    sim.set_faults(FaultPlan { dies: Some((0, device.into())), ..Default::default() });
}

/// The data folder's device is dead at a start: the spare folder takes its place, also for the starts after, whether the dead one is back or not.
#[test]
fn a_dead_device_at_a_start() -> Result<()> {
    for (seed, kind) in KINDS.into_iter().enumerate() {
        // The version store on a device of its own; on the data's, by its whole name and below the data folder.
        let places = if kind.version_file { &["", "/db/versions", "versions"][..] } else { &[""][..] };
        for (nth, place) in places.iter().enumerate() {
            let kind = Kind { spare: true, ..kind };
            let with = |asked: bool| {
                let mut options = options(kind);
                if !place.is_empty() {
                    options.version_store_path = asked.then(|| place.into());
                }
                options
            };
            let sim = machine((seed * 10 + nth) as u64 + 90)?;
            let mut model = Model::new((seed * 10 + nth) as u64 + 90);
            let db = open_with(&sim, with(true))?;
            model.fill(&db)?;
            model.work(&db)?;
            db.archive_now()?;
            while db.write_back()? > 0 {}
            db.checkpoint()?;
            model.work(&db)?;
            drop(db);
            let sim = sim.crash();
            // What is missing for it leaves it refused, and nothing is made.
            for less in [
                Options { spare_data: None, ..with(true) },
                Options { archive: None, ..with(true) },
                Options { log_dir: None, ..with(true) },
            ] {
                let sim = sim.fork(1);
                dies(&sim, "/db");
                let (kind_of, text) = refused(&sim, less);
                assert_eq!(kind_of, ErrorKind::Io, "{text}");
                assert!(!sim.exists(Path::new(SPARE))? && !sim.exists(&Path::new(LOG).join("data-place"))?);
            }
            for asked in [true, false] {
                if !asked && *place == "/db/versions" {
                    continue;
                }
                let (sim, mut model) = (sim.fork(2), model.copy(u64::from(asked)));
                dies(&sim, "/db");
                let db = open_with(&sim, with(asked))?;
                assert!(db.restore_status().is_some());
                model.check(&db, "without the device")?;
                live(&sim, &db, &mut model, 3)?;
                drop(db);
                // It is back as it was.
                let sim = sim.crash();
                let db = open_with(&sim, with(asked))?;
                model.check(&db, "with the dead device back")?;
                db.finish_restore()?;
                model.work(&db)?;
                db.close()?;
                drop(db);
                dies(&sim, "/db");
                let db = open_with(&sim, with(asked))?;
                assert!(db.restore_status().is_none());
                model.check(&db, "with the dead device dead")?;
                assert_eq!(db.verify()?, Vec::<String>::new());
            }
            // Power is lost on the way; then the device is back, or still dead.
            let mut lost = 0;
            // Each of these starts looks for a while whether the device answers after all.
            for step in (1..200u64).step_by(if seed + nth == 0 { 1 } else { 5 }) {
                let (sim, mut model) = (sim.fork(step), model.copy(step));
                sim.set_faults(FaultPlan {
                    dies: Some((0, "/db".into())),
                    crash_after_ops: Some(step),
                    ..Default::default()
                });
                let opened = open_with(&sim, with(true));
                let over = !sim.power_lost();
                drop(opened);
                lost += u64::from(!over);
                let sim = sim.crash();
                if step % 2 == 0 {
                    dies(&sim, "/db");
                }
                let db = open_with(&sim, with(true))?;
                model.check(&db, "after power was lost on the way")?;
                model.work(&db)?;
                drop(db);
                let sim = sim.crash();
                dies(&sim, "/db");
                let db = open_with(&sim, with(true))?;
                model.check(&db, "dead after all")?;
                if over {
                    break;
                }
            }
            assert!(lost > 4, "the schedule has become blind: {lost}");
        }
    }
    Ok(())
}

/// The spare folder holds something else, or nothing can be read from the archive: the start is refused, and says both.
#[test]
fn a_dead_device_and_no_place_for_another() -> Result<()> {
    let kind = Kind { spare: true, ..KINDS[0] };
    let (sim, mut model) = crashed(96, kind)?;
    let occupied = sim.fork(1);
    occupied.make_folder(Path::new(SPARE))?;
    occupied.open(&Path::new(SPARE).join("holiday"), OpenMode::Create)?.sync()?;
    dies(&occupied, "/db");
    let (_, text) = refused(&occupied, options(kind));
    assert!(text.contains("/db/main") && text.contains("is not empty") && text.contains(SPARE), "{text}");
    assert!(occupied.exists(&Path::new(SPARE).join("holiday"))?);
    // What was left there of a version store that was to be made is in nobody's way.
    let left = sim.fork(2);
    left.make_folder(Path::new(SPARE))?;
    left.open(&Path::new(SPARE).join("version-store-file.resurgam-new"), OpenMode::Create)?.sync()?;
    dies(&left, "/db");
    let db = open(&left, kind)?;
    model.check(&db, "beside what was left")?;
    drop(db);
    let failing = resurgam_vfs::Failing { path: ARCHIVE.into(), reads: true, ..Default::default() };
    sim.set_faults(FaultPlan { dies: Some((0, "/db".into())), failing: vec![failing], ..Default::default() });
    let (kind_of, text) = refused(&sim, options(kind));
    assert!(kind_of == ErrorKind::Io && text.contains("/db/main") && text.contains(ARCHIVE), "{text}");
    // The device is back, and nothing has happened to it.
    sim.set_faults(FaultPlan::default());
    let db = open(&sim, kind)?;
    model.check(&db, "the device is back")?;
    assert!(db.restore_status().is_none() && !sim.exists(&Path::new(LOG).join("data-place"))?);
    db.close()
}

/// Data and version store are on one device, which dies: power is lost at every call while the two are replaced one after the other, and the dead
/// device is back as it was, or is not.
#[test]
fn power_is_lost_between_two_replacements() -> Result<()> {
    let kind = Kind { spare: true, ..KINDS[2] };
    let options = || Options { version_store_path: Some("/db/versions".into()), ..options(kind) };
    let sim = machine(97)?;
    let mut model = Model::new(97);
    let db = open_with(&sim, options())?;
    model.fill(&db)?;
    model.work(&db)?;
    db.archive_now()?;
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    model.work(&db)?;
    drop(db);
    let base = sim.crash();
    let mut lost = 0;
    for step in 1..300u64 {
        let (sim, mut model) = (base.fork(step), model.copy(step));
        let db = open_with(&sim, options())?;
        model.work(&db)?;
        sim.set_faults(FaultPlan { dies: Some((0, "/db".into())), crash_after_ops: Some(step), ..Default::default() });
        // The first of them finds that the other one is dead as well; the background would try again.
        let _ = db.fail_device("data");
        let mut done = false;
        for _ in 0..4 {
            done = db.replace_dead_devices().is_ok();
            if done || sim.power_lost() {
                break;
            }
        }
        let over = !sim.power_lost();
        assert!(done || !over, "step {step}: not replaced");
        drop(db);
        lost += u64::from(!over);
        let mut sim = if step % 3 == 0 { sim.kill() } else { sim.crash() };
        for back in [step % 2 == 0, step % 4 < 2] {
            if !back {
                dies(&sim, "/db");
            }
            let db = open_with(&sim, options()).unwrap_or_else(|error| {
                panic!("step {step}, the device is {}: {error}", if back { "back" } else { "dead" })
            });
            model.check(&db, "after power was lost between two replacements")?;
            live(&sim, &db, &mut model, 2)?;
            drop(db);
            sim = sim.crash();
        }
        if over {
            break;
        }
    }
    assert!(lost > 20, "the schedule has become blind: {lost}");
    Ok(())
}
