//! Points in time: every row is what it was, at many points of random histories; what was unfinished is not, what was in doubt
//! still is; crashes while the folder is made leave nothing, or all of it.

use std::path::Path;
use std::sync::Arc;

use crate::common;
use crate::history::{ARCHIVE, DIR, History, Point, Rows, Shape, apply, open, read};
use crate::rng::Rng;
use resurgam_archive::{Archive, History as Records, Lease, View};
use resurgam_engine::*;
use resurgam_log::{LogEnd, LogReader};
use resurgam_recovery::{AnalysisSource, CheckpointState, ControlFile, Highest, Told, analyse_from};
use resurgam_vfs::{FaultPlan, OpenMode, SimVfs, Vfs};
use resurgam_xstore::{FolderStore, Store};

fn vfs(history: &History) -> Arc<dyn Vfs> {
    Arc::new(history.sim.clone())
}

fn restore(history: &History, to: RestorePoint, dir: &str) -> Result<RestoredPoint> {
    let request = RestoreRequest { to, ..RestoreRequest::new(ARCHIVE, dir) };
    restore_point(&vfs(history), &request, &mut |_| {})
}

/// As the new database is opened: it has no archive yet, and keeps its version store.
fn new_options(history: &History) -> Options {
    Options { archive: None, version_store_path: None, ..history.options.clone() }
}

fn short(rows: &Rows) -> String {
    rows.iter()
        .map(|(name, rows)| {
            format!("{name}: {:?}; ", rows.iter().map(|(id, (v, n))| (*id, *v, n.len())).collect::<Vec<_>>())
        })
        .collect()
}

fn same(what: &str, found: &Rows, wanted: &Rows) {
    assert!(found == wanted, "{what}\nfound  {}\nwanted {}", short(found), short(wanted));
}

/// Opens what was restored and looks at all of it; then goes on with it.
fn check(
    history: &History,
    point: &Point,
    dir: &str,
    restored: &RestoredPoint,
    what: &str,
    rng: &mut Rng,
) -> Result<()> {
    let what = format!("{what}: {restored:?}, unfinished then: {}", point.unfinished);
    let mut found = restored.in_doubt.clone();
    found.sort_unstable();
    let wanted: Vec<String> = point.in_doubt.keys().cloned().collect();
    assert_eq!(found, wanted, "{what}");
    let db = open(&history.sim, dir, new_options(history))?;
    same(&what, &read(&db, &history.tables)?, &point.rows);
    db.finish_recovery()?;
    same(&what, &read(&db, &history.tables)?, &point.rows);
    assert_eq!(db.verify()?, Vec::<String>::new(), "{what}");
    let mut rows = point.rows.clone();
    for (gid, ops) in &point.in_doubt {
        if rng.below(2) == 0 {
            db.commit_prepared(gid)?.wait()?;
            apply(&mut rows, ops);
        } else {
            db.rollback_prepared(gid)?.wait()?;
        }
    }
    same(&format!("{what}, resolved"), &read(&db, &history.tables)?, &rows);
    if let Some(name) = rows.keys().next().cloned() {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", &name)?.ok_or_else(|| Error::internal("no table"))?;
        for id in 1_000_000..1_000_020 {
            tx.insert(&table, &common::row(id, 1, "new"))?.done()?;
            rows.entry(name.clone()).or_default().insert(id, (1, "new".into()));
        }
        // An id that was given out is never another's.
        assert!(tx.id() > Some(point.highest), "{what}: {:?} after {:?}", tx.id(), point.highest);
        tx.commit(Durability::Sync)?.wait()?;
    }
    db.clean()?;
    if rng.below(2) == 0 {
        db.close()?;
    }
    drop(db);
    let db = open(&history.sim, dir, new_options(history))?;
    same(&format!("{what}, opened again"), &read(&db, &history.tables)?, &rows);
    db.finish_recovery()?;
    assert_eq!(db.verify()?, Vec::<String>::new(), "{what}");
    db.close()
}

fn remove(history: &History, dir: &str) -> Result<()> {
    for dir in [format!("{dir}/log"), dir.to_owned()] {
        for name in history.sim.list(Path::new(&dir))?.iter().filter(|name| *name != "log") {
            history.sim.remove(&Path::new(&dir).join(name))?;
        }
    }
    Ok(())
}

fn shape(seed: u64, events: usize) -> Shape {
    Shape { seed, traditional: seed.is_multiple_of(2), version_file: seed % 4 < 2, events, keep_log: false }
}

fn store(sim: &SimVfs) -> Result<Arc<dyn Store>> {
    Ok(Arc::new(FolderStore::open(Arc::new(sim.clone()), Path::new(ARCHIVE)).map_err(Error::from)?))
}

fn view(sim: &SimVfs) -> Result<Arc<View>> {
    Archive::open_view(store(sim)?, None)?.ok_or_else(|| Error::internal("no archive"))
}

/// The log is this database's own: above the cut, under an epoch above every one of the parent's.
fn check_log(history: &History, dir: &str, restored: &RestoredPoint) -> Result<bool> {
    let control = ControlFile::open(&vfs(history), &Path::new(dir).join("control"), true)?.1;
    let highest = view(&history.sim)?.manifest().runs.iter().map(|run| run.last_epoch).max();
    Ok(Some(control.epoch) > highest && control.checkpoint >= restored.cut && restored.log_from >= restored.cut)
}

fn random_history(shape: Shape) -> Result<()> {
    let history = History::make(shape)?;
    let mut rng = Rng::new(shape.seed + 7);
    let (mut done, mut unfinished, mut in_doubt, mut to_undo) = (0, 0, 0, 0);
    for (at, point) in history.points.iter().enumerate() {
        if rng.below(4) != 0 && at + 1 < history.points.len() {
            continue;
        }
        let mut to = vec![RestorePoint::Lsn(point.lsn)];
        // A time after the last commit is after the newest point.
        let later = history.points[at + 1..].iter().any(|point| point.time.is_some());
        if let Some(time) = point.time.filter(|_| later) {
            to.push(RestorePoint::Time(time));
        }
        for to in to {
            let dir = format!("/new/{done}");
            let restored = match restore(&history, to, &dir) {
                Ok(restored) => restored,
                Err(error) => panic!("{shape:?}, point {at}, {to:?}: {error}"),
            };
            assert!(restored.cut <= point.lsn);
            assert!(check_log(&history, &dir, &restored)?, "{shape:?}, point {at}");
            check(&history, point, &dir, &restored, &format!("{shape:?}, point {at}, {to:?}"), &mut rng)?;
            remove(&history, &dir)?;
            (done, unfinished) = (done + 1, unfinished + restored.unfinished);
            (in_doubt, to_undo) = (in_doubt + restored.in_doubt.len(), to_undo + restored.to_undo);
        }
    }
    println!("{shape:?}: {done} restores, {unfinished} unfinished, {to_undo} to undo, {in_doubt} in doubt");
    assert!(done > 5 && unfinished > 0, "{shape:?}: a history that shows nothing");
    Ok(())
}

#[test]
fn every_point_of_random_histories() -> Result<()> {
    let seeds = std::env::var("RESURGAM_POINTS_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(8);
    for seed in 1..=seeds {
        random_history(shape(seed, 500))?;
    }
    Ok(())
}

/// Pages are restored as they are asked for, in clones only then; a restart in between; the lease goes when all is there.
#[test]
fn restored_on_demand() -> Result<()> {
    for seed in 20..28 {
        let history = History::make(shape(seed, 400))?;
        let mut rng = Rng::new(seed);
        let mut clones = 0;
        for (at, point) in history.points.iter().enumerate().filter(|(at, _)| at % 9 == 4) {
            let clone = at % 2 == 0;
            let dir = format!("/new/{at}");
            let to = RestorePoint::Lsn(point.lsn);
            let request = RestoreRequest { to, whole: false, clone, ..RestoreRequest::new(ARCHIVE, dir.as_str()) };
            let restored = restore_point(&vfs(&history), &request, &mut |_| {})?;
            let what = format!("seed {seed}, point {at}, clone: {clone}");
            assert_eq!(restored.pages_written, 0);
            assert_eq!(Lease::list(&*store(&history.sim)?)?.len(), clones + 1, "{what}");
            let db = open(&history.sim, &dir, new_options(&history))?;
            same(&what, &read(&db, &history.tables)?, &point.rows);
            if rng.below(2) == 0 {
                db.checkpoint()?;
            }
            drop(db);
            if !clone {
                let db = open(&history.sim, &dir, new_options(&history))?;
                db.restore_step()?;
                if rng.below(2) == 0 {
                    db.finish_restore()?;
                    assert!(db.restore_status().is_none(), "{what}");
                }
            }
            check(&history, point, &dir, &restored, &what, &mut rng)?;
            if !clone {
                let db = open(&history.sim, &dir, new_options(&history))?;
                db.finish_restore()?;
                db.close()?;
            }
            let leases = Lease::list(&*store(&history.sim)?)?;
            clones += usize::from(clone);
            if clone && leases.len() + 1 == clones {
                // Every page of it was asked for.
                clones -= 1;
            }
            assert_eq!(leases.len(), clones, "{what}");
            remove(&history, &dir)?;
        }
    }
    Ok(())
}

/// The log's records up to a cut, as analysis would read them.
struct LogUpTo {
    reader: LogReader,
    cut: Lsn,
}

impl AnalysisSource for LogUpTo {
    fn next(&mut self) -> Result<Option<Told<'_>>> {
        let cut = self.cut;
        Ok(self.reader.next()?.filter(|record| record.lsn < cut).map(Told::Record))
    }
    fn highest(&mut self, _: &CheckpointState) -> Result<Highest> {
        Ok(Highest::default())
    }
}

/// What the transaction stream tells leads to the same conclusions as the log itself, at every point.
#[test]
fn the_stream_says_what_the_log_says() -> Result<()> {
    let (mut cuts, mut losers, mut in_doubt, mut subs) = (0, 0, 0, 0);
    for seed in 40..52 {
        let history = History::make(Shape { keep_log: true, ..shape(seed, 500) })?;
        let view = view(&history.sim)?;
        let mut rng = Rng::new(seed);
        let end = view.end().0;
        let first = history.points.first().map_or(end, |point| point.lsn.0);
        let lsns = history.points.iter().map(|point| point.lsn).collect::<Vec<_>>();
        let random = (0..200).map(|_| Lsn(rng.range(first, end))).collect::<Vec<_>>();
        for lsn in lsns.into_iter().chain(random) {
            let (cut, checkpoint, by_stream) = analyse_archive(&view, lsn)?;
            let reader = LogReader::open(vfs(&history), &Path::new(DIR).join("log"), 1 << 20, checkpoint, 0)?;
            let end = LogEnd { lsn: cut, epoch: 1, last_block: Lsn(0), durable: cut };
            let by_log = analyse_from(&mut LogUpTo { reader, cut }, checkpoint, end)?;
            let what = format!("seed {seed}, LSN {lsn}, cut {cut}, checkpoint {checkpoint}");
            assert_eq!(by_stream.aborted, by_log.aborted, "{what}");
            assert_eq!(by_stream.losers, by_log.losers, "{what}");
            assert_eq!(by_stream.prepared, by_log.prepared, "{what}");
            assert_eq!(by_stream.next_id, by_log.next_id, "{what}");
            assert_eq!(by_stream.high_water, by_log.high_water, "{what}");
            assert_eq!(by_stream.version_high_water, by_log.version_high_water, "{what}");
            assert!(by_stream.next_object >= by_log.next_object, "{what}");
            assert_eq!(by_stream.identity, by_log.identity, "{what}");
            assert_eq!(by_stream.version_store, by_log.version_store, "{what}");
            (cuts, losers) = (cuts + 1, losers + by_log.losers.len());
            in_doubt += by_log.prepared.len();
            subs += by_log.losers.values().map(|loser| loser.subs.len()).sum::<usize>();
        }
    }
    assert!(cuts > 1000 && losers > 500 && in_doubt > 500 && subs > 100, "{cuts} {losers} {in_doubt} {subs}");
    Ok(())
}

/// A version-store file that is no leftover of an attempt at this folder is somebody's.
#[test]
fn a_version_store_file_that_is_there_stays() -> Result<()> {
    let mut history = History::make(shape(61, 60))?;
    let path = Path::new("/disk2/made");
    let request = RestoreRequest { version_store_path: Some(path.into()), ..RestoreRequest::new(ARCHIVE, "/new/a") };
    restore_point(&vfs(&history), &request, &mut |_| {})?;
    let bytes = |history: &History| -> Result<Vec<u8>> {
        let file = history.sim.open(path, OpenMode::ReadOnly)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        Ok(bytes)
    };
    let before = bytes(&history)?;
    let another = RestoreRequest { target: "/new/b".into(), ..request };
    for _ in 0..2 {
        let (kind, text) = refused(&history, another.clone());
        assert!(kind == ErrorKind::InvalidParameter && text.contains("exists already"), "{text}");
        assert_eq!(bytes(&history)?, before);
        history.sim = history.sim.crash();
    }
    Ok(())
}

/// Power is lost at each call while the folder is made: it is no database, or the whole one; and the next attempt makes it.
#[test]
fn crashes_while_the_folder_is_made() -> Result<()> {
    let (mut whole, mut none) = (0, 0);
    for seed in [61, 62, 64] {
        let mut history = History::make(shape(seed, 150))?;
        let point = history.points.iter().rev().find(|point| point.unfinished > 0 && !point.in_doubt.is_empty());
        let point = point.or(history.points.last()).cloned().unwrap_or_else(|| panic!("no point"));
        let mut rng = Rng::new(seed);
        let sim = history.sim.clone();
        for attempt in 3.. {
            let (calls, on_demand) = (attempt / 3, attempt % 2 == 0);
            history.sim = sim.fork(attempt);
            let to = RestorePoint::Lsn(point.lsn);
            // A file outside of the folder, which an attempt may leave.
            let version_store_path = (seed == 61).then(|| "/disk2/made".into());
            let request =
                RestoreRequest { to, whole: !on_demand, version_store_path, ..RestoreRequest::new(ARCHIVE, "/new/a") };
            history.sim.set_faults(FaultPlan { crash_after_ops: Some(calls), ..FaultPlan::default() });
            let made = restore_point(&vfs(&history), &request, &mut |_| {});
            if !history.sim.power_lost() {
                assert!(made.is_ok(), "{made:?}");
                assert!(calls > 20, "only {calls} calls");
                if !on_demand {
                    // That has most calls.
                    break;
                }
                continue;
            }
            history.sim = history.sim.crash();
            let what = format!("seed {seed}, call {calls}, attempt {attempt}");
            let names =
                if history.sim.exists(Path::new("/new/a"))? { history.sim.list(Path::new("/new/a"))? } else { vec![] };
            if names.iter().all(|name| name == "lock") {
                none += 1;
            } else if let Ok(db) = open(&history.sim, "/new/a", new_options(&history)) {
                same(&what, &read(&db, &history.tables)?, &point.rows);
                db.finish_recovery()?;
                assert_eq!(db.verify()?, Vec::<String>::new(), "{what}");
                db.close()?;
                whole += 1;
                continue;
            } else {
                let error = open(&history.sim, "/new/a", new_options(&history)).err();
                let error = error.unwrap_or_else(|| panic!("{what}: it opened at the second time"));
                assert!(error.kind() == ErrorKind::NotADatabase, "{what}: {error}");
                none += 1;
            }
            let restored =
                restore_point(&vfs(&history), &request, &mut |_| {}).unwrap_or_else(|e| panic!("{what}, again: {e}"));
            if attempt % 11 == 0 {
                check(&history, &point, "/new/a", &restored, &what, &mut rng)?;
            }
        }
    }
    assert!(whole > 0 && none > 200, "{whole} {none}");
    Ok(())
}

fn table_of(tx: &Transaction, name: &str) -> Result<Arc<Table>> {
    tx.table("public", name)?.ok_or_else(|| Error::internal("no table"))
}

/// Writes some rows of their own, and says what the rows are then.
fn write(db: &Database, rows: &mut Rows, from: i64) -> Result<()> {
    let Some(name) = rows.keys().next().cloned() else { return Ok(()) };
    let tx = db.begin(Isolation::ReadCommitted);
    let table = table_of(&tx, &name)?;
    for id in from..from + 300 {
        tx.insert(&table, &common::row(id, from, "written later"))?.done()?;
        rows.entry(name.clone()).or_default().insert(id, (from, "written later".into()));
    }
    tx.commit(Durability::Sync)?.wait()
}

/// A clone of a database that runs, and clones of that clone (by a backup of it, and without one): each writes, none sees the others, each
/// crashes on its own; what is restored of the parent later has nothing of theirs.
#[test]
fn clones_of_clones_live_on_their_own() -> Result<()> {
    for seed in [70, 71, 72, 73] {
        let mut history = History::make(shape(seed, 250))?;
        let parent = open(&history.sim, DIR, history.options.clone())?;
        for (gid, commits) in parent.prepared().iter().map(|tx| tx.gid.clone()).zip([true, false].into_iter().cycle()) {
            let ticket = if commits { parent.commit_prepared(&gid)? } else { parent.rollback_prepared(&gid)? };
            ticket.wait()?;
        }
        let mut of_parent = read(&parent, &history.tables)?;
        let unfinished = parent.begin(Isolation::ReadCommitted);
        if let Some(name) = of_parent.keys().next() {
            unfinished.insert(&table_of(&unfinished, name)?, &common::row(5_000_000, 0, "never"))?.done()?;
        }
        parent.checkpoint()?;
        parent.archive_now()?;
        let clone = |archive: &str, backups: Option<&str>, dir: &str, name: &str| {
            let request = RestoreRequest {
                whole: false,
                clone: true,
                lease: Some(name.into()),
                backups: backups.map(Into::into),
                ..RestoreRequest::new(archive, dir)
            };
            restore_point(&vfs(&history), &request, &mut |_| {})
        };
        clone(ARCHIVE, None, "/new/first", "first")?;
        assert_eq!(
            clone(ARCHIVE, None, "/new/other", "first").err().map(|e| e.kind()),
            Some(ErrorKind::DuplicateObject)
        );
        let options = Options {
            archive: Some("/disk5/first".into()),
            backups: Some("/disk5/backups".into()),
            ..new_options(&history)
        };
        let first = open(&history.sim, "/new/first", options.clone())?;
        let mut of_first = of_parent.clone();
        same("the clone", &read(&first, &history.tables)?, &of_first);
        write(&parent, &mut of_parent, 2_000_000)?;
        write(&first, &mut of_first, 3_000_000)?;
        same("the parent", &read(&parent, &history.tables)?, &of_parent);
        same("the clone, written", &read(&first, &history.tables)?, &of_first);
        // Its own archive does not reach back to its pages: that of its parent does, or a backup of it.
        first.archive_now()?;
        let made = clone("/disk5/first", None, "/new/by-parents", "by-parents")?;
        assert_eq!((made.databases, made.backup), (2, None));
        let by_parents = open(&history.sim, "/new/by-parents", new_options(&history))?;
        same("a clone of the clone, by their archives", &read(&by_parents, &history.tables)?, &of_first);
        by_parents.close()?;
        assert!(forget_lease(&vfs(&history), "/disk5/first", "by-parents")?);
        first.backup(false, &|| false)?;
        write(&first, &mut of_first, 3_500_000)?;
        first.archive_now()?;
        clone("/disk5/first", Some("/disk5/backups"), "/new/second", "second")?;
        let second = open(&history.sim, "/new/second", new_options(&history))?;
        let mut of_second = of_first.clone();
        write(&second, &mut of_second, 4_000_000)?;
        write(&first, &mut of_first, 4_500_000)?;
        parent.archive_now()?;
        parent.merge_archive()?;
        drop((unfinished, parent, first, second));
        history.sim = history.sim.crash();
        for (dir, options, rows) in [
            (DIR, history.options.clone(), &of_parent),
            ("/new/first", options, &of_first),
            ("/new/second", new_options(&history), &of_second),
        ] {
            let db = open(&history.sim, dir, options)?;
            same(&format!("seed {seed}, {dir} after a crash"), &read(&db, &history.tables)?, rows);
            db.finish_recovery()?;
            assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed}, {dir}");
            db.close()?;
        }
        // The parent's history has nothing of its clones.
        restore(&history, RestorePoint::Latest, "/new/parent")?;
        let db = open(&history.sim, "/new/parent", new_options(&history))?;
        same("the parent, restored", &read(&db, &history.tables)?, &of_parent);
        db.close()?;
        assert!(forget_lease(&vfs(&history), ARCHIVE, "first")? && !forget_lease(&vfs(&history), ARCHIVE, "first")?);
    }
    Ok(())
}

/// Whether what was restored with a planted bug shows it.
fn shows(history: &History, point: &Point, planted: PlantedInRestore, dir: &str) -> bool {
    let to = RestorePoint::Lsn(point.lsn);
    let request = RestoreRequest { to, planted: Some(planted), ..RestoreRequest::new(ARCHIVE, dir) };
    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| -> Result<()> {
        let restored = restore_point(&vfs(history), &request, &mut |_| {})?;
        assert!(check_log(history, dir, &restored)?);
        check(history, point, dir, &restored, "planted", &mut Rng::new(1))
    }));
    !matches!(outcome, Ok(Ok(())))
}

#[test]
fn planted_bugs_are_caught() -> Result<()> {
    let history = History::make(shape(81, 500))?;
    let view = view(&history.sim)?;
    let mut caught = [0; 4];
    let points: Vec<&Point> = history.points.iter().filter(|point| point.unfinished > 0).collect();
    for (at, point) in points.iter().enumerate().take(30) {
        for (i, planted) in [PlantedInRestore::UnfinishedCommitted, PlantedInRestore::EpochNotRaised].iter().enumerate()
        {
            caught[i] += usize::from(shows(&history, point, *planted, &format!("/new/{at}-{i}")));
        }
    }
    // Where nothing is unfinished, nothing else says how high ids are.
    for (at, point) in history.points.iter().enumerate().filter(|(_, point)| point.unfinished == 0).take(30) {
        caught[2] += usize::from(shows(&history, point, PlantedInRestore::NextIdLow, &format!("/new/ids-{at}")));
    }
    // Groups of several page records: a split, a page and its map.
    let mut inside = Vec::new();
    let mut scan = view.scan(PageId(0)..PageId(u64::MAX), Lsn(0), Lsn(view.end().0 - 1), Records::All)?;
    while scan.next_page()?.is_some() {
        while let Some(record) = scan.next_record()? {
            if !record.header.first_of_group {
                inside.push(record.lsn);
            }
        }
    }
    inside.sort_unstable();
    for (at, lsn) in inside.iter().enumerate().step_by(inside.len() / 25 + 1) {
        let Some(point) = history.points.iter().rev().find(|point| point.lsn <= *lsn) else { continue };
        caught[3] += usize::from(shows(&history, point, PlantedInRestore::CutAt(*lsn), &format!("/new/in-{at}")));
    }
    println!("caught: {caught:?} of {} and {} groups", points.len().min(30), inside.len());
    assert!(caught.iter().all(|n| *n > 0), "{caught:?}");
    Ok(())
}

fn refused(history: &History, request: RestoreRequest) -> (ErrorKind, String) {
    match restore_point(&vfs(history), &request, &mut |_| {}) {
        Ok(made) => panic!("it was made: {made:?}"),
        Err(error) => (error.kind(), format!("{error} HINT {}", error.hint().unwrap_or("none"))),
    }
}

/// What of a dead database's log is not archived is archived first; never the log of another one, or of one that runs.
#[test]
fn the_end_of_a_dead_log() -> Result<()> {
    let mut history = History::make(shape(91, 200))?;
    let db = open(&history.sim, DIR, history.options.clone())?;
    let mut rows = read(&db, &history.tables)?;
    let archived = rows.clone();
    db.archive_now()?;
    write(&db, &mut rows, 2_000_000)?;
    let with_log =
        |dir: &str, log: &str| RestoreRequest { log_dir: Some(log.into()), ..RestoreRequest::new(ARCHIVE, dir) };
    let (kind, text) = refused(&history, with_log("/new/a", "/db/log"));
    assert!(kind == ErrorKind::InUse && text.contains("its database runs"), "{text}");
    drop(db);
    history.sim = history.sim.crash();
    let other = open(&history.sim, "/other", Options { archive: None, ..history.options.clone() })?;
    drop(other);
    let (kind, text) = refused(&history, with_log("/new/a", "/other/log"));
    assert!(kind == ErrorKind::InvalidParameter && text.contains("another database"), "{text}");
    let (kind, text) = refused(&history, with_log("/new/a", "/none"));
    assert!(kind == ErrorKind::Io && text.contains("holds no log"), "{text}");
    restore(&history, RestorePoint::Latest, "/new/archived")?;
    restore_point(&vfs(&history), &with_log("/new/all", "/db/log"), &mut |_| {})?;
    for (dir, rows) in [("/new/archived", &archived), ("/new/all", &rows)] {
        let db = open(&history.sim, dir, new_options(&history))?;
        same(dir, &read(&db, &history.tables)?, rows);
        db.close()?;
    }
    // The dead one goes on, should it come back.
    let db = open(&history.sim, DIR, history.options.clone())?;
    same("the dead one", &read(&db, &history.tables)?, &rows);
    db.archive_now()?;
    db.close()
}

/// What a log's oldest segment lost does not matter where what is not archived is behind it; and the log of a copy of the
/// database is refused.
#[test]
fn the_end_of_a_dead_log_whose_first_segment_is_short() -> Result<()> {
    let history = History::make(shape(92, 200))?;
    let db = open(&history.sim, DIR, history.options.clone())?;
    let hold = db.hold_log("the test", db.log_status().oldest)?;
    let mut rows = read(&db, &history.tables)?;
    let segments = || -> Result<Vec<String>> {
        let mut names = history.sim.list(Path::new("/db/log"))?;
        names.retain(|name| name.ends_with(".log"));
        Ok(names)
    };
    for i in 0..400 {
        write(&db, &mut rows, 2_000_000 + i * 1000)?;
        if db.log_status().bytes_in_use > 4 * history.options.log_segment_bytes {
            break;
        }
    }
    assert!(db.log_status().bytes_in_use > 4 * history.options.log_segment_bytes);
    db.archive_now()?;
    write(&db, &mut rows, 3_000_000)?;
    drop((hold, db));
    let first = Path::new("/db/log").join(segments()?.first().expect("a segment"));
    for (at, cut) in [4096, 100, 0].into_iter().enumerate() {
        // Of the archive as it was.
        let sim = history.sim.fork(at as u64);
        sim.open(&first, OpenMode::ReadWrite)?.set_len(cut)?;
        let dir = format!("/new/cut{cut}");
        let request = RestoreRequest { log_dir: Some("/db/log".into()), ..RestoreRequest::new(ARCHIVE, dir.as_str()) };
        let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
        restore_point(&vfs, &request, &mut |_| {})?;
        let db = open(&sim, &dir, new_options(&history))?;
        same(&dir, &read(&db, &history.tables)?, &rows);
        db.close()?;
    }
    // A copy goes on by itself, and the original as well.
    let sim = history.sim.fork(9);
    let without = || Options { archive: None, ..history.options.clone() };
    let copy = open(&sim, DIR, without())?;
    write(&copy, &mut rows.clone(), 5_000_000)?;
    write(&copy, &mut rows.clone(), 6_000_000)?;
    drop(copy);
    let db = open(&history.sim, DIR, history.options.clone())?;
    write(&db, &mut rows.clone(), 5_000_000)?;
    db.archive_now()?;
    drop(db);
    let folder = Path::new("/copied");
    history.sim.make_folder(folder)?;
    for name in sim.list(Path::new("/db/log"))?.iter().filter(|name| name.ends_with(".log")) {
        let source = sim.open(&Path::new("/db/log").join(name), OpenMode::ReadOnly)?;
        let mut bytes = vec![0; source.len()? as usize];
        source.read_exact_at(&mut bytes, 0)?;
        history.sim.open(&folder.join(name), OpenMode::Create)?.write_at(&bytes, 0)?;
    }
    let copied = RestoreRequest { log_dir: Some(folder.into()), ..RestoreRequest::new(ARCHIVE, "/new/copied") };
    let before = view(&history.sim)?.end();
    let (kind, text) = refused(&history, copied);
    assert!(kind == ErrorKind::NotInPrerequisiteState && text.contains("another history"), "{text}");
    assert_eq!(view(&history.sim)?.end(), before, "nothing was added");
    Ok(())
}

/// Places that are missing, of others, with a gap, or damaged; a target that is taken, or too small.
#[test]
fn what_cannot_be_restored_is_said() -> Result<()> {
    let history = History::make(shape(92, 200))?;
    let new = |dir: &str| RestoreRequest::new(ARCHIVE, dir);
    let (kind, text) = refused(&history, RestoreRequest::new("/nowhere", "/new/a"));
    assert!(kind == ErrorKind::Io && text.contains("/nowhere"), "{text}");
    history.sim.make_folder(Path::new("/disk5/empty"))?;
    let (kind, text) = refused(&history, RestoreRequest::new("/disk5/empty", "/new/a"));
    assert!(kind == ErrorKind::NotADatabase && text.contains("/disk5/empty"), "{text}");
    let end = view(&history.sim)?.end();
    for to in [
        RestorePoint::Lsn(Lsn(1)),
        RestorePoint::Lsn(Lsn(end.0 + 1)),
        RestorePoint::Time(0),
        RestorePoint::Time(i64::MAX / 2),
    ] {
        let (kind, text) = refused(&history, RestoreRequest { to, ..new("/new/a") });
        assert!(kind == ErrorKind::NotInPrerequisiteState && text.contains("has points from LSN"), "{text}");
    }
    history.sim.make_folder(Path::new("/new/taken"))?;
    history.sim.open(Path::new("/new/taken/mine"), resurgam_vfs::OpenMode::Create)?;
    let (kind, text) = refused(&history, new("/new/taken"));
    assert!(kind == ErrorKind::InvalidParameter && text.contains("not empty"), "{text}");
    let (kind, text) = refused(&history, new(DIR));
    assert!(kind == ErrorKind::InvalidParameter && text.contains("not empty"), "{text}");
    assert!(history.sim.exists(Path::new("/db/control"))?);
    let (kind, text) = refused(&history, RestoreRequest { backups: Some("/nobackups".into()), ..new("/new/a") });
    assert!(kind == ErrorKind::Io && text.contains("/nobackups"), "{text}");
    let faults = FaultPlan { small_disk: Some(("/new".into(), 1 << 20)), ..FaultPlan::default() };
    history.sim.set_faults(faults);
    let (kind, text) = refused(&history, new("/new/small"));
    assert!(kind == ErrorKind::DiskFull && text.contains("bytes are needed, and 1048576 are free"), "{text}");
    assert!(!history.sim.exists(Path::new("/new/small"))?, "it was refused before anything was made");
    history.sim.set_faults(FaultPlan::default());
    restore(&history, RestorePoint::Latest, "/new/small")?;
    // A run is gone, or damaged: it is named.
    let runs = history.sim.list(&Path::new(ARCHIVE).join("runs"))?;
    let run = runs.iter().find(|name| name.ends_with(".run")).cloned().unwrap_or_default();
    history.sim.flip_bit(&Path::new(ARCHIVE).join("runs").join(&run), 8 * 100)?;
    let (kind, text) = refused(&history, new("/new/b"));
    assert!(kind == ErrorKind::Corrupt && text.contains(&run), "{text}");
    history.sim.remove(&Path::new(ARCHIVE).join("runs").join(&run))?;
    let (kind, text) = refused(&history, new("/new/b"));
    assert!(kind == ErrorKind::Io && text.contains(&run), "{text}");
    // The folder of an attempt that failed is none.
    let error = open(&history.sim, "/new/b", new_options(&history)).err();
    assert!(error.is_some_and(|error| error.kind() == ErrorKind::NotADatabase));
    assert!(Lease::list(&*store(&history.sim)?)?.is_empty());
    // An archive that was begun later, without a backup.
    let later = "/disk5/later";
    let db =
        open(&history.sim, "/late", Options { archive: None, version_store_path: None, ..history.options.clone() })?;
    let mut rows = Rows::new();
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    tx.create_table(spec.column("note", ColumnType::Text).primary_key(&["id"]))?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    rows.insert("t".into(), Default::default());
    for from in (0..40_000).step_by(300) {
        write(&db, &mut rows, from)?;
    }
    db.close()?;
    drop(db);
    let db = open(
        &history.sim,
        "/late",
        Options { archive: Some(later.into()), version_store_path: None, ..history.options.clone() },
    )?;
    db.checkpoint()?;
    db.close()?;
    let (kind, text) = refused(&history, RestoreRequest::new(later, "/new/c"));
    assert!(kind == ErrorKind::NotInPrerequisiteState && text.contains("--backups"), "{text}");
    Ok(())
}

/// With a backup the archive need not reach back to the beginning: points from the backup's end on are made of the two.
#[test]
fn from_a_backup_and_the_rest_of_the_archive() -> Result<()> {
    for seed in [95, 96, 97, 98] {
        let history = History::make(shape(seed, 300))?;
        let backups = "/disk5/backups";
        let options = Options { backups: Some(backups.into()), ..history.options.clone() };
        let db = open(&history.sim, DIR, options)?;
        let mut rows = read(&db, &history.tables)?;
        let mut points = Vec::new();
        let mut note = |db: &Database, rows: &Rows| points.push((db.log_status().flushed, rows.clone()));
        db.backup(false, &|| false)?;
        for from in [2_000_000, 3_000_000, 4_000_000] {
            write(&db, &mut rows, from)?;
            note(&db, &rows);
            db.checkpoint()?;
            db.clean()?;
            while db.write_back()? > 0 {}
        }
        db.archive_now()?;
        db.close()?;
        drop(db);
        let backup_store: Arc<dyn Store> =
            Arc::new(FolderStore::open(vfs(&history), Path::new(backups)).map_err(Error::from)?);
        let database = view(&history.sim)?.manifest().database;
        let backup = resurgam_archive::Backup::newest(&backup_store, database, Lsn::NONE, Lsn(u64::MAX))?;
        let backup = backup.ok_or_else(|| Error::internal("no backup"))?;
        let archive = Archive::open(store(&history.sim)?, database, 99)?;
        assert!(archive.give_up_before(backup.summary().begin)? > Lsn(1 << 20), "seed {seed}: nothing was given up");
        archive.delete_replaced()?;
        let (kind, text) = refused(&history, RestoreRequest::new(ARCHIVE, "/new/without"));
        assert!(kind == ErrorKind::NotInPrerequisiteState && text.contains("--backups"), "{text}");
        for (at, (lsn, rows)) in points.iter().enumerate() {
            for whole in [true, false] {
                let dir = format!("/new/{at}-{whole}");
                let to = RestorePoint::Lsn(*lsn);
                let backups = Some(backups.to_owned());
                let request = RestoreRequest { to, whole, backups, ..RestoreRequest::new(ARCHIVE, dir.as_str()) };
                let restored = match restore_point(&vfs(&history), &request, &mut |_| {}) {
                    Ok(restored) => restored,
                    // No checkpoint since the archive begins.
                    Err(error) if at == 0 && error.kind() == ErrorKind::NotInPrerequisiteState => continue,
                    Err(error) => return Err(error),
                };
                assert_eq!(restored.backup.as_deref(), Some(backup.summary().name.as_str()));
                let db = open(&history.sim, &dir, new_options(&history))?;
                same(&format!("seed {seed}, {dir}"), &read(&db, &history.tables)?, rows);
                db.finish_recovery()?;
                db.finish_restore()?;
                assert_eq!(db.verify()?, Vec::<String>::new(), "seed {seed}, {dir}");
                db.close()?;
            }
        }
    }
    Ok(())
}
