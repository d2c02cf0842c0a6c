//! Points in time: every row is what it was, at many points of random histories; what was unfinished is not, what was in doubt
//! still is; crashes while the folder is made leave nothing, or all of it.

mod common;
#[path = "points/history.rs"]
mod history;
#[allow(dead_code)]
#[path = "harness/rng.rs"]
mod rng;

use std::path::Path;
use std::sync::Arc;

use history::{ARCHIVE, History, Point, Rows, Shape, apply, open, read};
use resurgam_engine::*;
use resurgam_vfs::Vfs;
use rng::Rng;


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
    rows.iter().map(|(name, rows)| format!("{name}: {:?}; ", rows.iter().map(|(id, (v, n))| (*id, *v, n.len())).collect::<Vec<_>>())).collect()
}

fn same(what: &str, found: &Rows, wanted: &Rows) {
    assert!(found == wanted, "{what}\nfound  {}\nwanted {}", short(found), short(wanted));
}

/// Opens what was restored and looks at all of it; then goes on with it.
fn check(history: &History, point: &Point, dir: &str, restored: &RestoredPoint, what: &str, rng: &mut Rng) -> Result<()> {
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

fn random_history(shape: Shape) -> Result<()> {
    let history = History::make(shape)?;
    let mut rng = Rng::new(shape.seed + 7);
    let (mut done, mut unfinished, mut in_doubt, mut to_undo) = (0, 0, 0, 0);
    for (at, point) in history.points.iter().enumerate() {
        if rng.below(4) != 0 && at + 1 < history.points.len() {
            continue;
        }
        // The database's first checkpoint is older than any of them.
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
                Err(error) => panic!("{shape:?}, point {at}, {to:?}: {error} {:?}", error.detail()),
            };
            assert!(restored.cut <= point.lsn || matches!(to, RestorePoint::Time(_)));
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
        random_history(Shape { seed, traditional: seed % 2 == 0, version_file: seed % 4 < 2, events: 500 })?;
    }
    Ok(())
}
