//! A device fails for a while, then is well again: what is tried again goes on by itself, what was
//! acknowledged stays, and what cannot be tried again stops the database instead of going on
//! uncertain.

mod common;

use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::time::{Duration, Instant};

use common::open::open_as;
use common::{row, rows_table};
use resurgam_engine::*;
use resurgam_vfs::{Failing, FaultPlan, SimVfs};

/// After the device is well, within this all goes on.
const RECOVERED_WITHIN: Duration = Duration::from_secs(10);

fn open(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    open_as(vfs, options(traditional))
}

/// Little memory, and a log that is soon too short to make pages of.
fn options(traditional: bool) -> Options {
    Options {
        buffer_bytes: 1 << 20,
        log_segment_bytes: 512 << 10,
        checkpoint_log_bytes: 1 << 20,
        log_bytes_wanted: 2 << 20,
        log_bytes_max: 8 << 20,
        accelerated_database_recovery: !traditional,
        ..Options::default()
    }
}

fn made(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    let db = open(vfs, traditional)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = rows_table("t");
    tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    Ok(db)
}

fn insert(db: &Database, id: i64) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    tx.insert(&t, &row(id, id, &"x".repeat(400)))?.done()?;
    tx.commit(Durability::Sync)?.wait()
}

fn count(db: &Database) -> Result<usize> {
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.table("public", "t")?.expect("made");
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&t, KeyRange::all(), Direction::Forward);
    let (mut batch, mut found) = (RowBatch::default(), 0);
    while cursor.next_batch(&mut batch, 1000)? {
        found += batch.len();
        batch.clear();
    }
    Ok(found)
}

fn failing(path: &str, what: &str) -> FaultPlan {
    let failing =
        Failing { path: path.into(), reads: what.contains('r'), writes: what.contains('w'), syncs: what.contains('s') };
    FaultPlan { failing: vec![failing], ..FaultPlan::default() }
}

/// Told when this goes, also by a failed assertion.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Work that is done once in a while is tried again soon, not after its interval: it would count as failing for as long.
#[test]
fn what_is_done_seldom_is_tried_again_soon() -> Result<()> {
    const INTERVAL: Duration = Duration::from_secs(5);
    const ROWS: i64 = 30_000;
    for traditional in [false, true] {
        let vfs = SimVfs::new(3);
        made(&vfs, traditional)?.close()?;
        let options = Options { analyze_interval_s: INTERVAL.as_secs_f64(), ..options(traditional) };
        let db = open_as(&vfs, options)?;
        // More than there is memory for.
        for id in 0..ROWS {
            insert(&db, id)?;
        }
        vfs.set_faults(failing("/db/data", "r"));
        let analysis = || db.troubles().into_iter().find(|trouble| trouble.what == "analysing tables");
        let wait = |what: &str, done: &dyn Fn() -> bool| {
            let begun = Instant::now();
            while !done() {
                assert!(begun.elapsed() < Duration::from_secs(120), "not in two minutes: {what}");
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait("it fails", &|| analysis().is_some());
        let first = Instant::now();
        wait("it is tried again", &|| analysis().is_some_and(|trouble| trouble.times >= 4));
        assert!(first.elapsed() < INTERVAL, "three more tries took {:?}", first.elapsed());
        vfs.set_faults(FaultPlan::default());
        wait("it is over", &|| analysis().is_none());
        assert_eq!(count(&db)?, usize::try_from(ROWS).expect("few"));
        db.close()?;
    }
    Ok(())
}

/// Writers go on while the device fails and afterwards.
#[test]
fn what_is_tried_again_goes_on_when_the_device_does() -> Result<()> {
    let cases = [
        ("/db/doublewrite", "w"),
        ("/db/doublewrite", "s"),
        ("/db/data", "w"),
        ("/db/data", "r"),
        ("/db/data", "rw"),
        ("/db/control", "w"),
        ("/db/control", "s"),
    ];
    for (at, (traditional, (path, what))) in
        cases.into_iter().flat_map(|case| [(false, case), (true, case)]).enumerate()
    {
        let case = format!("{what} of {path}, traditional: {traditional}");
        let vfs = SimVfs::new(at as u64);
        let db = made(&vfs, traditional)?;
        let (next, acknowledged, stop) = (AtomicI64::new(1), AtomicI64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| -> Result<()> {
            let _stop = Stop(&stop);
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        // One that needs the device may fail; what it is told is true all the same.
                        match insert(&db, next.fetch_add(1, Ordering::Relaxed)) {
                            Ok(()) => _ = acknowledged.fetch_add(1, Ordering::Relaxed),
                            Err(error) => {
                                assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Stopped), "{case}: {error}");
                                std::thread::sleep(Duration::from_millis(5));
                            }
                        }
                    }
                });
            }
            {
                std::thread::sleep(Duration::from_millis(200));
                vfs.set_faults(failing(path, what));
                let begun = Instant::now();
                // Reading alone troubles nobody in the background.
                while db.troubles().is_empty() && what != "r" {
                    assert!(begun.elapsed() < Duration::from_secs(20), "{case}: nobody says that it fails");
                    std::thread::sleep(Duration::from_millis(5));
                }
                std::thread::sleep(Duration::from_millis(700));
                if what != "r" {
                    let troubles = db.troubles();
                    assert!(troubles[0].times > 1 && troubles[0].error.contains("simulated"), "{case}: {troubles:?}");
                }
                db.check_running()?;
                vfs.set_faults(FaultPlan::default());
                let begun = Instant::now();
                let before = db.stats();
                loop {
                    let stats = db.stats();
                    let moved = stats.checkpoints.taken > before.checkpoints.taken
                        && stats.pool.pages_written > before.pool.pages_written
                        && stats.transactions.commits > before.transactions.commits + 20;
                    if moved && db.troubles().is_empty() && stats.log_bytes_in_use < 8 << 20 {
                        break;
                    }
                    assert!(begun.elapsed() < RECOVERED_WITHIN, "{case}: {:?}, {stats:?}", db.troubles());
                    std::thread::sleep(Duration::from_millis(5));
                }
            }
            Ok(())
        })?;
        let acknowledged = acknowledged.load(Ordering::Relaxed) as usize;
        // A commit that was told to have failed may have happened: never the other way round.
        assert!(count(&db)? >= acknowledged, "{case}");
        drop(db);
        let db = open(&vfs.crash(), traditional)?;
        db.finish_recovery()?;
        assert!(count(&db)? >= acknowledged, "{case}: after a power loss");
        assert_eq!(db.verify()?, Vec::<String>::new(), "{case}");
        db.close()?;
    }
    Ok(())
}

/// What is on the disk is not known: nothing more is acknowledged, and a restart finds all that was.
#[test]
fn what_leaves_the_disk_uncertain_stops_the_database() -> Result<()> {
    let cases = [("/db/log", "w"), ("/db/log", "s"), ("/db/data", "s")];
    let cases = cases.into_iter().flat_map(|case| [(false, case), (true, case)]);
    for (at, (traditional, (path, what))) in cases.enumerate() {
        let case = format!("{what} of {path}, traditional: {traditional}");
        let vfs = SimVfs::new(at as u64);
        let db = made(&vfs, traditional)?;
        for id in 0..500 {
            insert(&db, id)?;
        }
        // Somebody waits for one who will not end.
        let (holder, waiter) = (db.begin(Isolation::ReadCommitted), db.begin(Isolation::ReadCommitted));
        let t = holder.table("public", "t")?.expect("made");
        holder.insert(&t, &row(-2, -2, ""))?.done()?;
        let Attempt::Wait(wait) = waiter.insert(&t, &row(-2, -2, ""))? else { panic!("{case}: nobody is in the way") };
        let (told, outcome) = std::sync::mpsc::channel();
        std::thread::spawn(move || told.send(wait.wait()));
        vfs.set_faults(failing(path, what));
        let (mut acknowledged, begun) = (500, Instant::now());
        while db.check_running().is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(20), "{case}: it goes on");
            acknowledged += usize::from(insert(&db, acknowledged as i64).is_ok());
        }
        let waited = outcome.recv_timeout(Duration::from_secs(20)).unwrap_or_else(|_| panic!("{case}: it waits on"));
        assert_eq!(waited.expect_err("stopped").kind(), ErrorKind::Stopped, "{case}");
        let again = waiter.insert(&t, &row(-2, -2, "")).err().map(|error| error.kind());
        assert_eq!(again, Some(ErrorKind::Stopped), "{case}");
        drop((holder, waiter));
        vfs.set_faults(FaultPlan::default());
        assert_eq!(insert(&db, -1).expect_err("stopped").kind(), ErrorKind::Stopped);
        drop(db);
        let db = open(&vfs.crash(), traditional)?;
        db.finish_recovery()?;
        assert!(count(&db)? >= acknowledged, "{case}");
        assert_eq!(db.verify()?, Vec::<String>::new(), "{case}");
    }
    Ok(())
}
