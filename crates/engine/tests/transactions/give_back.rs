//! Space that files give back: the data file ends earlier, pages move for it, holes are made; whatever happens in between.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::*;
use resurgam_base::limits::PAGE_SIZE;
use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, OpenMode, RealVfs, SimVfs, Vfs};

/// Rows of this size are eight to a page.
pub const LEN: usize = 900;
/// More pages than one space map covers: its interval is 5120 pages.
const MANY: i64 = 48_000;

pub fn large() -> Options {
    Options { buffer_bytes: 16 << 20, log_segment_bytes: 4 << 20, ..options() }
}

pub fn fill(db: &Database, ids: std::ops::Range<i64>) -> Result<()> {
    // What is free is known then.
    db.finish_recovery()?;
    for from in ids.clone().step_by(2000) {
        commit(db, |tx| (from..(from + 2000).min(ids.end)).try_for_each(|id| insert(tx, id, &note(id, LEN))))?;
        while db.stats().log_bytes_in_use > 64 << 20 && db.write_back()? > 0 {}
        db.checkpoint()?;
    }
    Ok(())
}

pub fn remove(db: &Database, ids: impl Iterator<Item = i64>) -> Result<()> {
    commit(db, |tx| {
        ids.into_iter().try_for_each(|id| {
            assert_eq!(delete(tx, id)?, Change::Done, "row {id}");
            Ok(())
        })
    })?;
    // Something moves the horizon, and pages are merged.
    for round in 0..3 {
        commit(db, |tx| insert(tx, -1 - round, "moves the horizon"))?;
        commit(db, |tx| delete(tx, -1 - round).map(drop))?;
        db.clean_now()?;
    }
    Ok(())
}

pub fn expected(ids: impl Iterator<Item = i64>) -> Rows {
    ids.map(|id| (id, note(id, LEN))).collect()
}

pub fn data_bytes(vfs: &dyn Vfs) -> Result<u64> {
    vfs.open(&Path::new(DIR).join("data"), OpenMode::ReadOnly)?.len()
}

/// All but the first rows are deleted: the file is cut, with a space map; it grows again, and is read after a restart.
#[test]
fn the_file_ends_where_what_is_used_of_it_ends() -> Result<()> {
    let sim = SimVfs::new(1);
    let db = open_as(&sim, large())?;
    create(&db)?;
    fill(&db, 0..MANY)?;
    let full = data_bytes(&sim)?;
    assert!(full > (5120 + 200) * PAGE_SIZE as u64, "{full} bytes");
    remove(&db, 100..MANY)?;
    let full = full.max(data_bytes(&sim)?);
    let report = db.clean()?;
    let left = data_bytes(&sim)?;
    assert_eq!(report.bytes_cut, full - left, "{report:?}");
    assert!(left < 100 * PAGE_SIZE as u64, "{left} bytes are left of {full}: {report:?}");
    assert_eq!(db.stats().space.high_water * PAGE_SIZE as u64, left);
    compare(&rows(&db)?, &expected(0..100), "after it was cut");
    verify(&db, "after it was cut")?;
    assert_eq!(db.clean()?.bytes_cut, 0, "there is nothing more");
    // A crash, and all that recovery has to do.
    drop(db);
    let sim = sim.crash();
    let db = open_as(&sim, large())?;
    verify(&db, "after a crash")?;
    compare(&rows(&db)?, &expected(0..100), "after a crash");
    // It grows over the same pages.
    fill(&db, 100..MANY)?;
    verify(&db, "grown again")?;
    drop(db);
    let sim = sim.crash();
    let db = open_as(&sim, large())?;
    verify(&db, "grown again, after a crash")?;
    compare(&rows(&db)?, &expected(0..MANY), "grown again, after a crash");
    db.close()?;
    let db = open_as(&sim, large())?;
    verify(&db, "closed and opened")?;
    Ok(())
}

/// The rows at the begin go: those at the end move there.
#[test]
fn pages_move_from_the_end_to_free_places_below() -> Result<()> {
    let sim = SimVfs::new(2);
    let db = open_as(&sim, large())?;
    create(&db)?;
    fill(&db, 0..6000)?;
    remove(&db, (0..6000).filter(|id| id % 3 > 0 && *id < 5000))?;
    remove(&db, (0..2000).filter(|id| id % 3 == 0))?;
    let kept = || (0..6000).filter(|id| *id >= 5000 || *id >= 2000 && id % 3 == 0);
    let before = db.stats().space;
    // An old snapshot reads what it saw beside it.
    let old = db.begin(Isolation::RepeatableRead);
    compare(&rows_of(&old)?, &expected(kept()), "before");
    let report = db.clean()?;
    assert!(report.pages_moved > 30 && report.bytes_cut > 0, "{report:?}");
    let after = db.stats().space;
    assert!(after.high_water < before.high_water * 6 / 10, "{before:?}, {after:?}");
    assert!(after.extents < 8, "{after:?}");
    compare(&rows_of(&old)?, &expected(kept()), "an old snapshot");
    drop(old);
    compare(&rows(&db)?, &expected(kept()), "after the moves");
    verify(&db, "after the moves")?;
    db.evict_pages();
    drop(db);
    let db = open_as(&sim.crash(), large())?;
    verify(&db, "after a crash")?;
    compare(&rows(&db)?, &expected(kept()), "after a crash");
    Ok(())
}

/// Rows at both ends of a file of two space maps, and nothing in between; not all is written.
fn with_room_in_the_middle() -> Result<SimVfs> {
    let base = SimVfs::new(3);
    let db = open_as(&base, large())?;
    create(&db)?;
    fill(&db, 0..MANY)?;
    remove(&db, 40..MANY - 40)?;
    db.checkpoint()?;
    drop(db);
    Ok(base)
}

/// Space is given back, and power is lost at the `at`-th change of the disk; false: all was done before.
fn power_is_lost_at(base: &SimVfs, at: u64) -> Result<bool> {
    let kept = || (0..40).chain(MANY - 40..MANY);
    let sim = base.crash_clone(at);
    let db = open_as(&sim, large())?;
    db.finish_recovery()?;
    sim.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
    let mut grown = 0;
    let outcome = db.clean().and_then(|report| {
        assert!(report.bytes_cut > 0 && report.pages_moved > 0, "{report:?}");
        // It grows again.
        for round in 0..20 {
            commit(&db, |tx| (0..40).try_for_each(|i| insert(tx, 10_000_000 + round * 40 + i, &note(i, LEN))))?;
            grown = round + 1;
            db.write_back()?;
        }
        Ok(())
    });
    if outcome.is_ok() && !sim.power_lost() {
        return Ok(false);
    }
    drop(db);
    let sim = sim.crash();
    let db = open_as(&sim, large())?;
    verify(&db, &format!("power lost at {at}"))?;
    let found = rows(&db)?;
    let below: Rows = found.iter().filter(|(id, _)| **id < 10_000_000).map(|(id, note)| (*id, note.clone())).collect();
    compare(&below, &expected(kept()), &format!("power lost at {at}"));
    let more = (found.len() - below.len()) as i64;
    assert!((grown * 40..=(grown + 1) * 40).contains(&more), "power lost at {at}: {more} rows after {grown} commits");
    db.clean()?;
    verify(&db, &format!("power lost at {at}, and cleaned"))?;
    compare(&rows(&db)?, &found, &format!("power lost at {at}, and cleaned"));
    Ok(true)
}

/// How often it is noticed, with a mistake planted.
fn noticed(planted: PlantedInGiveBack, steps: impl Iterator<Item = u64>, step: impl Fn(u64) -> Result<bool>) -> u64 {
    // In this thread, which gives back.
    planted.plant_here();
    let is_noticed = |at: &u64| !matches!(catch_unwind(AssertUnwindSafe(|| step(*at))), Ok(Ok(_)));
    let noticed = steps.filter(is_noticed).count() as u64;
    PlantedInGiveBack::None.plant_here();
    eprintln!("{planted:?} is noticed {noticed} times");
    noticed
}

/// Power is lost at any of the steps, also of what comes after. A file that is cut before the checkpoint counts that says where it ends is noticed.
#[test]
fn a_loss_of_power_on_the_way_does_no_harm() -> Result<()> {
    let base = with_room_in_the_middle()?;
    let mut met = 0;
    for at in (1..40).chain((40..400).step_by(9)) {
        if !power_is_lost_at(&base, at)? {
            break;
        }
        met += 1;
    }
    assert!(met > 30, "power was lost {met} times only");
    // As long as the log reaches back to where a page was made, it is made again whatever the file has lost.
    let written = base.crash_clone(0);
    let db = open_as(&written, large())?;
    db.finish_recovery()?;
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    db.shorten_log()?;
    db.close()?;
    drop(db);
    let steps = || (5..400).step_by(13);
    for at in steps() {
        power_is_lost_at(&written, at)?;
    }
    let noticed = noticed(PlantedInGiveBack::CutEarly, steps(), |at| power_is_lost_at(&written, at));
    assert!(noticed > 2, "a file that is cut early is noticed {noticed} times");
    Ok(())
}

/// Pages are freed, in the log's memory only, when holes are about to be made; power is lost at the `at`-th change of the disk from there on, or when all is
/// done. False: it was not lost before.
fn power_is_lost_with_holes(base: &SimVfs, at: u64) -> Result<bool> {
    let sim = base.fork(at);
    let db = open_as(&sim, large())?;
    db.finish_recovery()?;
    let (taken, swept) = (db.stats().checkpoints.taken, AtomicBool::new(false));
    // Asked for the first time after the checkpoint that the file is cut behind: before the first hole.
    let free = || {
        if db.stats().checkpoints.taken > taken && !swept.swap(true, Ordering::Relaxed) {
            let before = db.stats().space.extents;
            db.clean_now().expect("nothing fails yet");
            assert!(db.stats().space.extents > before + 20, "{before}, {:?}", db.stats().space);
            sim.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
        }
        false
    };
    let outcome = db.give_back_unless(&free);
    assert!(swept.load(Ordering::Relaxed));
    let is_lost = sim.power_lost();
    if !is_lost {
        assert!(outcome.as_ref().is_ok_and(|given| given.bytes_punched > 1 << 20), "{outcome:?}");
    }
    // Nobody makes anything durable from here on.
    let sim = sim.crash_clone(at);
    drop(db);
    let db = open_as(&sim, large())?;
    db.finish_recovery()?;
    verify(&db, &format!("power lost at {at}"))?;
    compare(&rows(&db)?, &expected(0..10), &format!("power lost at {at}"));
    db.clean()?;
    verify(&db, &format!("power lost at {at}, and cleaned"))?;
    Ok(is_lost)
}

/// That pages are free is durable before there is a hole in their place: power is lost at each step. One that is made early is noticed.
#[test]
fn a_loss_of_power_while_holes_are_made_does_no_harm() -> Result<()> {
    let base = SimVfs::new(6);
    let db = open_as(&base, large())?;
    create(&db)?;
    fill(&db, 0..3000)?;
    // A root stays where it is: nothing is cut.
    commit(&db, |tx| {
        let spec = TableSpec::new("public", "last").column("id", ColumnType::Int8).primary_key(&["id"]);
        tx.create_table(spec)?.done().map(drop)
    })?;
    // Not swept yet; the horizon has moved.
    commit(&db, |tx| (10..3000).try_for_each(|id| delete(tx, id).map(drop)))?;
    commit(&db, |tx| insert(tx, -1, "moves the horizon"))?;
    commit(&db, |tx| delete(tx, -1).map(drop))?;
    while db.write_back()? > 0 {}
    db.close()?;
    drop(db);
    let mut at = 1;
    while power_is_lost_with_holes(&base, at)? {
        at += 1;
    }
    assert!(at > 3, "{at} steps");
    let steps = 1..at + 3;
    let noticed = noticed(PlantedInGiveBack::PunchEarly, steps, |at| power_is_lost_with_holes(&base, at));
    assert!(noticed > 2, "a hole that is made early is noticed {noticed} times");
    Ok(())
}

/// Readers and writers go on while space is given back again and again.
#[test]
fn readers_and_writers_go_on_beside_it() -> Result<()> {
    let sim = SimVfs::new(4);
    let db = open_as(&sim, Options { background: true, cleaner_interval_s: 0.05, ..large() })?;
    create(&db)?;
    fill(&db, 0..3000)?;
    let done = AtomicBool::new(false);
    let (moved, cut) = std::thread::scope(|scope| -> Result<(u64, u64)> {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| -> Result<()> {
                    while !done.load(Ordering::Relaxed) {
                        let found = rows(&db)?;
                        let stay = found.iter().filter(|(id, _)| **id % 10 == 0 && **id < 3000);
                        assert_eq!(stay.clone().count(), 300);
                        for (id, text) in stay {
                            assert_eq!(*text, note(*id, LEN));
                        }
                    }
                    Ok(())
                })
            })
            .collect();
        let writer = scope.spawn(|| -> Result<()> {
            for round in 0..6 {
                commit(&db, |tx| (0..3000).filter(|id| id % 10 > 0).try_for_each(|id| delete(tx, id).map(drop)))?;
                commit(&db, |tx| (5000..5400).try_for_each(|id| insert(tx, id + round * 1000, &note(id, 200))))?;
                std::thread::sleep(std::time::Duration::from_millis(100));
                commit(&db, |tx| (0..3000).filter(|id| id % 10 > 0).try_for_each(|id| insert(tx, id, &note(id, LEN))))?;
            }
            Ok(())
        });
        let (mut moved, mut cut) = (0, 0);
        while !writer.is_finished() {
            let report = db.clean()?;
            moved += report.pages_moved;
            cut += report.bytes_cut;
        }
        done.store(true, Ordering::Relaxed);
        writer.join().expect("no panic")?;
        for reader in readers {
            reader.join().expect("no panic")?;
        }
        Ok((moved, cut))
    })?;
    assert!(moved > 0 && cut > 0, "{moved} pages moved, {cut} bytes cut");
    verify(&db, "at last")?;
    Ok(())
}

/// On a real file system: what a table in the middle had goes back to it, and is had again.
#[test]
fn holes_are_made_and_filled() -> Result<()> {
    let folder = std::env::temp_dir().join(format!("resurgam-give-back-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let dir = folder.join("db");
    let outcome = (|| {
        let db = Database::open_with(Arc::clone(&vfs), &dir, large(), |_| {})?;
        create(&db)?;
        fill(&db, 0..6000)?;
        // A root stays where it is: nothing moves from behind it.
        commit(&db, |tx| {
            let spec = TableSpec::new("public", "last").column("id", ColumnType::Int8).primary_key(&["id"]);
            tx.create_table(spec)?.done().map(drop)
        })?;
        remove(&db, 10..6000)?;
        while db.write_back()? > 0 {}
        let file = vfs.open(&dir.join("data"), OpenMode::ReadOnly)?;
        let before = file.allocated()?;
        let report = db.clean()?;
        let after = file.allocated()?;
        if report.bytes_punched == 0 {
            eprintln!("the file system makes no holes");
            return Ok(());
        }
        assert!(report.bytes_punched > 2 << 20, "{report:?}");
        assert!(after + report.bytes_punched / 2 < before, "{before} bytes before, {after} after: {report:?}");
        verify(&db, "with holes")?;
        assert_eq!(db.clean()?.bytes_punched, 0, "they are there");
        compare(&rows(&db)?, &expected(0..10), "with holes");
        db.close()?;
        let db = Database::open_with(Arc::clone(&vfs), &dir, large(), |_| {})?;
        verify(&db, "with holes, opened again")?;
        fill(&db, 10..5000)?;
        while db.write_back()? > 0 {}
        compare(&rows(&db)?, &expected(0..5000), "filled again");
        verify(&db, "filled again")?;
        assert!(file.allocated()? > after + (1 << 20));
        db.close()
    })();
    let _ = std::fs::remove_dir_all(&folder);
    outcome
}

/// Many rows of a large table go, some of each extent, and the last pages of the file are a small one's: there is no free place for those
/// before the large one's have moved.
#[test]
fn a_small_table_at_the_end_keeps_no_other_from_moving() -> Result<()> {
    for punch_holes in [true, false] {
        let sim = SimVfs::new(5);
        let db = open_as(&sim, Options { punch_holes, ..large() })?;
        create(&db)?;
        // Its root is at the begin.
        commit(&db, |tx| {
            let spec = TableSpec::new("public", "small")
                .column("id", ColumnType::Int8)
                .column("note", ColumnType::Text)
                .primary_key(&["id"]);
            tx.create_table(spec)?.done().map(drop)
        })?;
        fill(&db, 0..6000)?;
        commit(&db, |tx| {
            let small = tx.table("public", "small")?.ok_or_else(|| Error::internal("the table is gone"))?;
            (0..100).try_for_each(|id| tx.insert(&small, &[DatumRef::Int8(id), DatumRef::Text(&note(id, LEN))])?.done())
        })?;
        remove(&db, (0..6000).filter(|id| id % 8 > 0))?;
        let before = db.stats().space;
        let report = db.clean()?;
        let after = db.stats().space;
        assert!(report.pages_moved > 30 && report.bytes_cut > 0, "{report:?}: {before:?}, {after:?}");
        assert!(after.high_water < before.high_water * 4 / 10, "{before:?}, {after:?}");
        let kept = || (0..6000).filter(|id| id % 8 == 0);
        compare(&rows(&db)?, &expected(kept()), "after the moves");
        verify(&db, "after the moves")?;
        drop(db);
        let db = open_as(&sim.crash(), large())?;
        verify(&db, "after a crash")?;
        compare(&rows(&db)?, &expected(kept()), "after a crash");
    }
    Ok(())
}
