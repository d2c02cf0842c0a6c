//! Backups as objects: bit flips, interruptions, strangers.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{ErrorKind, Lsn, PageId};
use resurgam_vfs::{FaultPlan, OpenMode, SimVfs, Vfs};

use super::making::{back_up, keys, plan, put, sealed, try_put, zeroed};
use super::support::{DATABASE, Logged, Rng, store_on};
use crate::backup::verify::UNSETTLED;
use crate::backup::writer::planted::SUMMARY_FIRST;
use crate::{
    Backup, BackupPlan, BackupWriter, PageKind, SEGMENT_PAGES, delete_backup, list_backups, segment_page, verify_backup,
};

/// Every object of a backup, below the store's folder.
fn objects(sim: &SimVfs, name: &str) -> Vec<String> {
    let store = store_on(sim);
    let mut all = store.list(&format!("backups/{name}/")).unwrap();
    all.push(format!("backups/{name}.backup"));
    all
}

#[test]
fn a_flipped_bit_is_named_and_never_served() {
    let history = Logged::random(4, 40, 3);
    let sim = SimVfs::new(1);
    let (begin, end) = (history.records[20].lsn, history.records[60].lsn);
    let name = back_up(&store_on(&sim), &history, &mut Rng(3), begin, end, 1).summary().name.clone();
    assert!(verify_backup(&store_on(&sim), &name).unwrap().problems.is_empty());
    let mut wanted = zeroed(4);
    Backup::open(&store_on(&sim), &name).unwrap().segment(PageId(0), &mut wanted).unwrap();
    let mut bits = 0;
    for object in objects(&sim, &name) {
        let path = Path::new("archive").join(&object);
        let len = sim.open(&path, OpenMode::ReadOnly).unwrap().len().unwrap();
        for bit in 0..len * 8 {
            sim.flip_bit(&path, bit).unwrap();
            let store = store_on(&sim);
            match verify_backup(&store, &name) {
                Ok(report) => assert!(
                    report.problems.iter().any(|what| what.contains(&object)),
                    "bit {bit} of {object}: {report}"
                ),
                Err(error) => assert!(
                    error.message().contains(&object) || error.kind() == ErrorKind::NewerFormat,
                    "bit {bit} of {object}: {error}"
                ),
            }
            let mut pages = zeroed(4);
            let read = Backup::open(&store, &name).and_then(|backup| backup.segment(PageId(0), &mut pages));
            let same = pages.iter().zip(&wanted).all(|(a, b)| a.as_bytes() == b.as_bytes());
            assert!(read.is_err() || same, "bit {bit} of {object}");
            sim.flip_bit(&path, bit).unwrap();
            bits += 1;
        }
    }
    assert!(bits > 5000, "{bits}");
    assert!(verify_backup(&store_on(&sim), &name).unwrap().problems.is_empty());
}

#[test]
fn a_part_that_is_cut_missing_or_in_anothers_place() {
    let history = Logged::random(4, 60, 40);
    let sim = SimVfs::new(1);
    let (begin, end) = (history.records[20].lsn, history.records[60].lsn);
    let mut rng = Rng(3);
    let first = back_up(&store_on(&sim), &history, &mut rng, begin, end, 1).summary().name.clone();
    let second = back_up(&store_on(&sim), &history, &mut rng, begin, end, 2).summary().name.clone();
    for object in objects(&sim, &first) {
        let path = Path::new("archive").join(&object);
        for other in objects(&sim, &second) {
            let sim = sim.fork(1);
            let source = sim.open(&Path::new("archive").join(&other), OpenMode::ReadOnly).unwrap();
            let mut bytes = vec![0; source.len().unwrap() as usize];
            source.read_exact_at(&mut bytes, 0).unwrap();
            sim.remove(&path).unwrap();
            let gone = verify_backup(&store_on(&sim), &first);
            assert!(
                gone.is_err() || gone.is_ok_and(|report| report.problems.iter().any(|what| what.contains(&object)))
            );
            sim.open(&path, OpenMode::CreateNew).unwrap().write_at(&bytes, 0).unwrap();
            let wrong = verify_backup(&store_on(&sim), &first);
            assert!(
                wrong.is_err() || wrong.is_ok_and(|report| report.problems.iter().any(|what| what.contains(&object))),
                "{other} in the place of {object}"
            );
        }
        let len = sim.open(&path, OpenMode::ReadOnly).unwrap().len().unwrap();
        for cut in (0..len).step_by(97) {
            let sim = sim.fork(1);
            sim.open(&path, OpenMode::ReadWrite).unwrap().set_len(cut).unwrap();
            let report = verify_backup(&store_on(&sim), &first);
            assert!(report.is_err() || report.is_ok_and(|report| !report.problems.is_empty()));
        }
    }
}

/// One made from the archive is gone on with by the process that has the database's folder, if such a one began it. A tool's is left alone
/// by everybody: it may be at work.
#[test]
fn who_goes_on_with_one_made_from_the_archive() {
    let history = Logged::random(6, 200, 300);
    let (begin, end) = (history.records[30].lsn, history.end);
    let of = |number, own| {
        let identity = if own { b"identity".to_vec() } else { Vec::new() };
        BackupPlan { from_archive: true, identity, ..plan(number) }
    };
    for (began, goes_on, same) in
        [(true, true, true), (true, false, false), (false, true, false), (false, false, false)]
    {
        let sim = SimVfs::new(1);
        let store = store_on(&sim);
        let mut writer = BackupWriter::begin(Arc::clone(&store), &of(1, began)).unwrap().with_part_bytes(1);
        put(&mut writer, &history, &mut Rng(1), keys()[0], begin, end);
        let name = writer.name().to_owned();
        drop(writer);
        let next = BackupWriter::begin(Arc::clone(&store), &of(2, goes_on)).unwrap();
        assert_eq!(next.name() == name, same, "{began} {goes_on}");
        assert_eq!(next.next() > 0, same);
        assert!(!store.list(&format!("backups/{name}/")).unwrap().is_empty(), "{began} {goes_on}");
    }
    // One that is not gone on with any more, because log that it needs is gone, is deleted by who would.
    let sim = SimVfs::new(1);
    let store = store_on(&sim);
    let mut writer = BackupWriter::begin(Arc::clone(&store), &of(1, true)).unwrap().with_part_bytes(1);
    put(&mut writer, &history, &mut Rng(1), keys()[0], begin, end);
    let name = writer.name().to_owned();
    drop(writer);
    let late = BackupPlan { log_from: Lsn(begin.0 + 1), ..of(2, true) };
    assert_ne!(BackupWriter::begin(Arc::clone(&store), &late).unwrap().name(), name);
    assert!(store.list(&format!("backups/{name}/")).unwrap().is_empty());
}

/// What lacks pages says so, however often it was interrupted.
#[test]
fn damaged_pages_are_counted_across_interruptions() {
    let history = Logged::random(6, 200, 300);
    let begin = history.records[30].lsn;
    let sim = SimVfs::new(1);
    let store = store_on(&sim);
    for (at, key) in keys().into_iter().enumerate() {
        let number = 1 + at as u64;
        let mut writer = BackupWriter::begin(Arc::clone(&store), &plan(number)).unwrap();
        assert_eq!(writer.summary().damaged, 3 * at as u64);
        let kinds: Vec<PageKind> =
            (0..SEGMENT_PAGES).map(|i| if i % 50 == 1 { PageKind::Damaged } else { PageKind::Zero }).collect();
        writer.put(key, begin, &zeroed(SEGMENT_PAGES), &kinds).unwrap();
        writer.flush().unwrap();
        // What is not durable is not counted the next time. (A segment of another file would end the part.)
        if at == 0 {
            writer.put(keys()[1], begin, &zeroed(SEGMENT_PAGES), &kinds).unwrap();
        }
    }
    let mut writer = BackupWriter::begin(Arc::clone(&store), &plan(9)).unwrap();
    let summary = writer.finish(history.end, 9, Vec::new()).unwrap();
    assert_eq!(summary.damaged, 3 * keys().len() as u64);
    assert_eq!(verify_backup(&store, &summary.name).unwrap().damaged.len(), 3 * keys().len());
}

/// Where nobody knows how many pages a part lacks, it is made again, and no later backup is refused.
#[test]
fn a_part_that_lacks_an_unknown_number_of_pages_is_made_again() {
    let history = Logged::random(6, 200, 300);
    let begin = history.records[30].lsn;
    let kinds: Vec<PageKind> =
        (0..SEGMENT_PAGES).map(|i| if i % 50 == 1 { PageKind::Damaged } else { PageKind::Zero }).collect();
    let sim = SimVfs::new(1);
    let store = store_on(&sim);
    let mut writer = BackupWriter::begin(Arc::clone(&store), &plan(1)).unwrap().with_part_bytes(1);
    for key in &keys()[..2] {
        writer.put(*key, begin, &zeroed(SEGMENT_PAGES), &kinds).unwrap();
    }
    let name = writer.name().to_owned();
    drop(writer);
    let objects = store.list(&format!("backups/{name}/")).unwrap();
    let said = objects.iter().rfind(|object| object.ends_with(".damaged")).unwrap();
    store.delete(said).unwrap();
    store.put(said, b"three").unwrap();
    for number in 2..4 {
        let mut writer = BackupWriter::begin(Arc::clone(&store), &plan(number)).unwrap();
        let known = number - 1;
        assert_eq!((writer.name(), writer.summary().parts.len() as u64), (&*name, known));
        assert_eq!((writer.next(), writer.summary().damaged), (keys()[number as usize - 2] + 1, 3 * known));
        // The part of that number that was made again is the one that counts the next time.
        writer.put(keys()[1].max(writer.next()), begin, &zeroed(SEGMENT_PAGES), &kinds).unwrap();
        writer.flush().unwrap();
    }
}

/// A backup that lacks pages is taken only where there is no other; one that needs log that is gone hides none.
#[test]
fn a_whole_backup_is_taken_first() {
    let history = Logged::random(6, 200, 300);
    let sim = SimVfs::new(1);
    let store = store_on(&sim);
    let kinds = |kind| (0..SEGMENT_PAGES).map(|i| if i == 1 { kind } else { PageKind::Zero }).collect::<Vec<_>>();
    let make = |number: u64, kind, begin: u64, end: u64| {
        let mut writer = BackupWriter::begin(Arc::clone(&store), &plan(number)).unwrap();
        writer.put(keys()[0], Lsn(begin), &zeroed(SEGMENT_PAGES), &kinds(kind)).unwrap();
        writer.finish(Lsn(end), 9, Vec::new()).unwrap().name
    };
    let at = history.end.0;
    let whole = make(1, PageKind::Zero, at, at + 10);
    let lacking = make(2, PageKind::Damaged, at + 20, at + 30);
    let old = make(3, PageKind::Zero, at - 50, at + 40);
    let newest = |from: u64, to: u64| {
        let found = Backup::newest(&store, DATABASE, Lsn(from), Lsn(to)).unwrap();
        found.map(|backup| backup.summary().name.clone())
    };
    assert_eq!(newest(0, u64::MAX), Some(old));
    assert_eq!(newest(at, u64::MAX), Some(whole.clone()));
    assert_eq!(newest(0, at + 30), Some(whole));
    assert_eq!(newest(at + 1, u64::MAX), Some(lacking));
    assert_eq!(newest(at + 21, u64::MAX), None);
}

/// Parts of a backup whose deletion was interrupted are gone on with by nobody.
#[test]
fn a_deleted_backup_is_not_gone_on_with() {
    let history = Logged::random(6, 200, 300);
    let (begin, end) = (history.records[30].lsn, history.end);
    let sim = SimVfs::new(1);
    let store = store_on(&sim);
    let backup = back_up(&store, &history, &mut Rng(1), begin, end, 1);
    let begun = format!("backups/{}.begun", backup.summary().name);
    // What was left when it was made, which is of that time.
    store.put(&begun, &backup.summary().encode(true).unwrap()).unwrap();
    let name = backup.summary().name.clone();
    crate::backup::verify::keep_begun(&store, &name).unwrap();
    store.delete(&format!("backups/{name}.backup")).unwrap();
    let late = BackupPlan { resume_since_us: 1, ..plan(2) };
    assert_ne!(BackupWriter::begin(Arc::clone(&store), &late).unwrap().name(), name);
    assert!(store.list(&format!("backups/{name}/")).unwrap().is_empty());
}

/// What was put before the interruption is not put again, and what comes out is the same.
#[test]
fn an_interrupted_backup_goes_on() {
    let history = Logged::random(6, 200, 300);
    let end = history.end;
    for stop_after in 0..4 {
        let sim = SimVfs::new(stop_after);
        let store = store_on(&sim);
        let mut rng = Rng(stop_after);
        let begin = history.records[30].lsn;
        let mut writer = BackupWriter::begin(Arc::clone(&store), &plan(1)).unwrap().with_part_bytes(2000);
        for key in keys().into_iter().take(stop_after as usize) {
            put(&mut writer, &history, &mut rng, key, begin, end);
        }
        let name = writer.name().to_owned();
        drop(writer);
        assert!(list_backups(&store).unwrap().iter().all(|entry| !entry.complete));
        assert!(Backup::open(&store, &name).is_err());
        // Too old, or of log that is gone: not gone on with, and deleted.
        if stop_after > 0 {
            let sim = sim.fork(7);
            let store = store_on(&sim);
            let late = BackupPlan { log_from: Lsn(begin.0 + 1), ..plan(2) };
            assert_ne!(BackupWriter::begin(Arc::clone(&store), &late).unwrap().name(), name);
            assert!(store.list(&format!("backups/{name}/")).unwrap().is_empty());
            let old = BackupPlan { resume_since_us: 1_500_000, ..plan(2) };
            assert_ne!(BackupWriter::begin(Arc::clone(&store), &old).unwrap().name(), name);
        }
        let mut writer = BackupWriter::begin(Arc::clone(&store), &plan(2)).unwrap().with_part_bytes(2000);
        assert_eq!(writer.name(), name);
        let from = writer.next();
        assert_eq!(from > 0, stop_after > 0);
        for key in keys().into_iter().filter(|key| *key >= from) {
            put(&mut writer, &history, &mut rng, key, Lsn(begin.0 + 5), end);
        }
        let summary = writer.finish(end, 9, Vec::new()).unwrap();
        assert_eq!(summary.begin, if stop_after > 0 { begin } else { Lsn(begin.0 + 5) });
        let backup = Backup::open(&store, &name).unwrap();
        for key in keys() {
            let mut pages = zeroed(128);
            let lsn = backup.segment(segment_page(key), &mut pages).unwrap();
            assert!(lsn == begin || lsn == Lsn(begin.0 + 5));
            for (i, page) in pages.iter().enumerate() {
                let id = PageId(segment_page(key).0 + i as u64);
                let wanted = sealed(&history, id, page.lsn());
                assert!(page.is_all_zero() || page.as_bytes() == wanted.as_bytes());
                assert!(!page.is_all_zero() || history.of(id, Lsn::NONE, Lsn(lsn.0 - 1)).is_empty());
            }
        }
        // A part of a segment is not decompressed to its end, and the same.
        for key in keys() {
            let mut whole = zeroed(128);
            let lsn = backup.segment(segment_page(key), &mut whole).unwrap();
            for (from, count) in (0..128).map(|i| (i, 1)).chain([(0, 128), (0, 127), (3, 60), (100, 28)]) {
                let mut some = zeroed(count);
                let first = PageId(segment_page(key).0 + from as u64);
                assert_eq!(backup.segment(first, &mut some).unwrap(), lsn);
                let same = some.iter().zip(&whole[from..]).all(|(one, other)| one.as_bytes() == other.as_bytes());
                assert!(same, "{count} pages from {first} on");
            }
        }
        delete_backup(&store, &name).unwrap();
        assert!(list_backups(&store).unwrap().is_empty());
        assert!(store.list(&format!("backups/{name}/")).unwrap().is_empty());
    }
}

/// Power is lost at call `at` of making a backup, then at another one of going on with it, then it is made to its end. What is
/// complete at any time has all its pages.
fn crashes(at: u64) -> Result<bool, String> {
    let history = Logged::random(8, 200, 300);
    let (begin, end) = (history.records[30].lsn, history.end);
    let mut sim = SimVfs::new(at);
    let mut lost = false;
    for (round, crash_after_ops) in [Some(at), Some(at / 2 + 1), None].into_iter().enumerate() {
        let store = store_on(&sim);
        sim.set_faults(FaultPlan { crash_after_ops, ..FaultPlan::default() });
        let made = || -> resurgam_base::Result<String> {
            let mut rng = Rng(at);
            let mut writer = BackupWriter::begin(Arc::clone(&store), &plan(round as u64 + 1))?.with_part_bytes(2000);
            let from = writer.next();
            for key in keys().into_iter().filter(|key| *key >= from) {
                try_put(&mut writer, &history, &mut rng, key, begin, end)?;
            }
            Ok(writer.finish(end, 9, Vec::new())?.name)
        };
        let made = made();
        lost |= sim.power_lost();
        if let Err(error) = &made
            && !sim.power_lost()
        {
            return Err(format!("call {at}, round {round}: {error}"));
        }
        // Killed at first, now and then: what the next one builds on must not go with the power.
        sim = if round == 0 && at.is_multiple_of(2) { sim.kill() } else { sim.crash() };
        let store = store_on(&sim);
        let entries = list_backups(&store).map_err(|e| e.to_string())?;
        for entry in entries.iter().filter(|entry| entry.complete) {
            let report = verify_backup(&store, &entry.name).map_err(|e| format!("call {at}, round {round}: {e}"))?;
            if !report.problems.is_empty() || report.pages < 100 {
                return Err(format!("call {at}, round {round}: {report}"));
            }
        }
        if let Ok(name) = made
            && Backup::open(&store, &name).is_err()
        {
            return Err(format!("call {at}, round {round}: backup {name} was said to be durable"));
        }
    }
    Ok(lost)
}

#[test]
fn power_lost_at_every_call() {
    let mut call = 1;
    while crashes(call).unwrap_or_else(|what| panic!("{what}")) {
        call += 1;
    }
    assert!(call > 30, "{call} calls");
}

#[test]
fn canary_a_summary_before_its_parts_is_caught() {
    SUMMARY_FIRST.set(true);
    let caught = (1..80).find_map(|call| crashes(call).err());
    SUMMARY_FIRST.set(false);
    assert!(caught.is_some());
}

/// Power is lost at call `at` of deleting a backup, then it is deleted to its end, and power is lost again. What is listed as complete
/// has all its parts, and what was deleted stays deleted.
fn deletion_crashes(at: u64, seed: u64) -> Result<bool, String> {
    let history = Logged::random(4, 60, 40);
    let sim = SimVfs::new(seed);
    let store = store_on(&sim);
    let name = back_up(&store, &history, &mut Rng(3), history.records[20].lsn, history.end, 1).summary().name.clone();
    sim.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
    let deleted = delete_backup(&store, &name);
    let lost = sim.power_lost();
    if lost == deleted.is_ok() {
        return Err(format!("call {at}: {deleted:?}"));
    }
    let sim = sim.crash();
    let store = store_on(&sim);
    for entry in list_backups(&store).map_err(|e| e.to_string())?.iter().filter(|entry| entry.complete) {
        let report = verify_backup(&store, &entry.name).map_err(|e| format!("call {at}: {e}"))?;
        if !lost || !report.problems.is_empty() {
            return Err(format!("call {at}: {report}"));
        }
    }
    delete_backup(&store, &name).map_err(|e| e.to_string())?;
    let store = store_on(&sim.crash());
    let left = list_backups(&store).map_err(|e| e.to_string())?.len();
    let parts = store.list(&format!("backups/{name}/")).map_err(|e| e.to_string())?.len();
    if (left, parts) != (0, 0) {
        Err(format!("call {at}: {left} backups and {parts} parts are back"))
    } else {
        Ok(lost)
    }
}

fn all_deletion_crashes() -> Result<(), String> {
    for seed in 0..8 {
        let mut call = 1;
        while deletion_crashes(call, seed)? {
            call += 1;
        }
        if call < 5 {
            return Err(format!("only {call} calls"));
        }
    }
    Ok(())
}

#[test]
fn power_lost_while_a_backup_is_deleted() {
    all_deletion_crashes().unwrap_or_else(|what| panic!("{what}"));
}

#[test]
fn canary_a_deletion_that_is_not_settled_is_caught() {
    UNSETTLED.set(true);
    let caught = all_deletion_crashes();
    UNSETTLED.set(false);
    assert!(caught.is_err());
}
