//! The pages that a replay in order of LSN makes are those of the single pass, page by page.

use std::path::Path;
use std::sync::Arc;

use crate::common::{key, row, rows_table};
use crate::history::{ARCHIVE, DIR, History, Shape, open, options};
use crate::rng::Rng;
use resurgam_engine::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

const BACKUPS: &str = "/disk6/backups";
const PAGE: usize = limits::PAGE_SIZE;
/// Sizes of the pool: one that hardly holds anything, and one that holds all.
const POOLS: [usize; 2] = [1, 64 << 20];

fn shape(seed: u64) -> Shape {
    Shape { seed, traditional: seed.is_multiple_of(2), version_file: seed % 4 < 2, events: 400, keep_log: true }
}

fn restore(sim: &SimVfs, request: &RestoreRequest) -> Result<RestoredPoint> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    restore_point(&vfs, request, &mut |_| {})
}

/// The pages of a folder's files, but their first ones, which say whose they are.
fn pages(sim: &SimVfs, dir: &str) -> Result<Vec<Vec<u8>>> {
    let mut pages = Vec::new();
    for name in ["data", "versions"] {
        let path = Path::new(dir).join(name);
        if !sim.exists(&path)? {
            continue;
        }
        let file = sim.open(&path, OpenMode::ReadOnly)?;
        let mut bytes = vec![0; file.len()? as usize];
        file.read_exact_at(&mut bytes, 0)?;
        pages.extend(bytes.chunks_exact(PAGE).skip(1).map(<[u8]>::to_vec));
    }
    Ok(pages)
}

/// Makes the point in both ways, with pools of all sizes; the pages.
fn both(sim: &SimVfs, request: &RestoreRequest, what: &str) -> Result<Vec<Vec<u8>>> {
    let made = restore(sim, request)?;
    let target = request.target.display().to_string();
    let wanted = pages(sim, &target)?;
    for (at, buffer_bytes) in POOLS.into_iter().enumerate() {
        let dir = format!("{target}-{at}");
        let order = LsnOrder { log: Path::new(DIR).join("log"), buffer_bytes };
        let by_lsn =
            restore(sim, &RestoreRequest { target: dir.clone().into(), lsn_order: Some(order), ..request.clone() })?;
        let found = pages(sim, &dir)?;
        assert_eq!(found.len(), wanted.len(), "{what}");
        for (page, (found, wanted)) in found.iter().zip(&wanted).enumerate() {
            assert!(found == wanted, "{what}, pool of {buffer_bytes} bytes: page {} differs", page + 1);
        }
        let numbers = |made: &RestoredPoint| (made.cut, made.pages_written, made.pages_damaged, made.unfinished);
        assert_eq!(numbers(&by_lsn), numbers(&made), "{what}");
    }
    Ok(wanted)
}

/// Without a backup: everything is replayed, at many points.
#[test]
fn points_of_random_histories() -> Result<()> {
    for seed in 80..86 {
        let history = History::make(shape(seed))?;
        let mut last = Vec::new();
        let mut changed = 0;
        for (at, point) in history.points.iter().enumerate().filter(|(at, _)| at % 7 == 3) {
            let dir = format!("/new/{at}");
            let request =
                RestoreRequest { to: RestorePoint::Lsn(point.lsn), ..RestoreRequest::new(ARCHIVE, dir.as_str()) };
            let now = both(&history.sim, &request, &format!("seed {seed}, point {at}"))?;
            changed += usize::from(now != last);
            last = now;
        }
        assert!(changed > 2 && last.len() > 10, "seed {seed}: {changed} different states, {} pages", last.len());
    }
    Ok(())
}

/// Rows are changed, in transactions of which some are rolled back, beside what the background does.
fn work(db: &Database, rng: &mut Rng, rounds: u64) -> Result<()> {
    for round in 0..rounds {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))?;
        let note = "n".repeat(rng.below(400) as usize);
        for _ in 0..30 {
            let id = rng.below(600) as i64;
            // Each sees what the one before has done: a row may come twice.
            tx.statement(StatementKind::BulkWrite)?;
            tx.update(&table, &key(&table, id)?, Seen::Snapshot, &row(id, round as i64, &note))?.done()?;
        }
        if rng.below(4) == 0 {
            tx.rollback()?
        } else {
            tx.commit(Durability::Sync)?.wait()?
        }
        match rng.below(6) {
            0 => db.checkpoint()?,
            1 => drop(db.write_back()?),
            2 => db.archive_now()?,
            3 => db.merge_archive()?,
            4 => drop(db.clean()?),
            _ => {}
        }
    }
    Ok(())
}

/// With a backup, from whose begin on the log is replayed; a log that does not reach is refused, and makes no database.
#[test]
fn from_a_backup() -> Result<()> {
    for seed in 90..94 {
        let sim = SimVfs::new(seed);
        for dir in ["/disk2", "/disk5", "/disk6", "/new", "/empty"] {
            sim.make_folder(Path::new(dir))?;
        }
        let options = Options { backups: Some(BACKUPS.into()), ..options(shape(seed)) };
        let db = open(&sim, DIR, options)?;
        let hold = db.hold_log("the test", db.log_status().oldest)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.create_table(rows_table("t"))?.done()?;
        for id in 0..600 {
            tx.insert(&table, &row(id, 0, &"b".repeat(300)))?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        let mut rng = Rng::new(seed);
        work(&db, &mut rng, 20)?;
        // As the background does it: a backup needs log from the oldest change on that is not in the files.
        db.write_back()?;
        db.checkpoint()?;
        db.archive_now()?;
        db.backup(false, &|| false)?;
        work(&db, &mut rng, 40)?;
        db.archive_now()?;
        db.close()?;
        // Until then, or the log that is replayed would be given up.
        drop((hold, db));
        let request = RestoreRequest { backups: Some(BACKUPS.into()), ..RestoreRequest::new(ARCHIVE, "/new/a") };
        let pages = both(&sim, &request, &format!("seed {seed}"))?;
        assert!(pages.len() > 30, "seed {seed}: {} pages", pages.len());
        let order = LsnOrder { log: "/empty".into(), buffer_bytes: 1 << 20 };
        let refused =
            restore(&sim, &RestoreRequest { target: "/new/none".into(), lsn_order: Some(order), ..request.clone() });
        assert_eq!(refused.map_err(|error| error.kind()).err(), Some(ErrorKind::NotInPrerequisiteState));
        assert!(!sim.exists(Path::new("/new/none/control"))?);
    }
    Ok(())
}
