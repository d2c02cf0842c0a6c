//! The bound of the log holds for whatever writes to the catalog as well: definitions, objects, views, statistics, and
//! values of sequences, which are logged by whoever asks for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::common::open::open_as;
use crate::common::{self, ascending, row, rows_table};
use resurgam_engine::*;
use resurgam_vfs::{Failing, FaultPlan, SimVfs};

const BOUND: u64 = 8 << 20;
/// Sessions that write at the same time.
const SESSIONS: u64 = 3;
/// What need not wait goes on within this, however slow the machine is.
const AT_ONCE: Duration = Duration::from_secs(10);

fn options(traditional: bool) -> Options {
    Options {
        // All changed pages fit in memory: what is waited for is the log.
        buffer_bytes: 96 << 20,
        log_segment_bytes: 512 << 10,
        checkpoint_log_bytes: 1 << 20,
        log_bytes_wanted: 2 << 20,
        log_bytes_max: BOUND,
        accelerated_database_recovery: !traditional,
        ..Options::default()
    }
}

/// A database with a table, and for each session one of several hundred texts and a sequence.
fn made(vfs: &SimVfs, traditional: bool) -> Result<Database> {
    let db = open_as(vfs, options(traditional))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let t = tx.create_table(rows_table("t"))?.done()?;
    tx.insert(&t, &row(1, 1, "read"))?.done()?;
    for session in 0..=SESSIONS {
        let analyzed = tx.create_table(rows_table(&format!("analyzed{session}")))?.done()?;
        for id in 0..400 {
            tx.insert(&analyzed, &row(id, id, &format!("{id} {}", "x".repeat(150))))?.done()?;
        }
        tx.create_sequence("public", &format!("s{session}"), ascending())?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(db)
}

/// What writes to the catalog: with a transaction, under a name of its own, the `turn`-th time.
type Work = fn(&Transaction, u64, u64) -> Result<()>;

fn tables(tx: &Transaction, session: u64, turn: u64) -> Result<()> {
    let spec = TableSpec::new("public", &format!("t{session}")).column("id", ColumnType::Int8);
    let table = tx.create_table(spec)?.done()?;
    let comment = TableChange::SetComment(CommentOn::Relation, Some(format!("{turn} {}", "c".repeat(3000))));
    let table = tx.alter_table(&table, comment)?.done()?;
    tx.drop_table(&table)?.done()
}

fn objects(tx: &Transaction, session: u64, turn: u64) -> Result<()> {
    let name = format!("role {session}");
    let body = |with: &str| format!("{turn}{}", with.repeat(3000)).into_bytes();
    let role = tx.create_object("", &name, CatalogObject::new(ObjectKind::ROLE, body("a")))?.done()?;
    let role = tx.replace_object(&role, Vec::new(), body("b"))?.done()?;
    tx.drop_object(&role)?.done()
}

fn views(tx: &Transaction, session: u64, turn: u64) -> Result<()> {
    let view = View {
        sql: format!("SELECT {turn}, '{}'", "v".repeat(3000)),
        columns: Vec::new(),
        relations: Vec::new(),
        check: CheckOption::None,
    };
    let made = tx.create_view("public", &format!("v{session}"), view.clone())?.done()?;
    let made = tx.replace_view(&made, view)?.done()?;
    tx.drop_view(&made)?.done()
}

fn statistics(tx: &Transaction, session: u64, _: u64) -> Result<()> {
    let table = tx.table("public", &format!("analyzed{session}"))?.expect("made");
    let what = Analysis { columns: &[0, 1, 2], target: 100, is_automatic: false, is_stopped: &|| false };
    let (found, _) = tx.statement(StatementKind::Read)?.analyze(&table, &what)?;
    tx.statement(StatementKind::PointWrite)?;
    tx.store_statistics(&table, &found)?.done()
}

fn values(tx: &Transaction, session: u64, turn: u64) -> Result<()> {
    let s = tx.sequence_named("public", &format!("s{session}"))?.expect("made");
    for value in 1..50 {
        tx.set_value(&s, (turn * 50 + value).cast_signed(), true)?;
        tx.next_value(&s)?;
    }
    Ok(())
}

/// Told when this goes, also by a failed assertion.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn in_one(db: &Database, work: Work, session: u64, turn: u64) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    work(&tx, session, turn)?;
    tx.commit(Durability::Async)?.wait()
}

/// Sessions write to the catalog while no page can be written.
fn holds(work: Work, what: &str, traditional: bool) -> Result<()> {
    let case = format!("{what}, traditional: {traditional}");
    let vfs = SimVfs::new(5);
    let db = made(&vfs, traditional)?;
    let (turn, stop) = (AtomicU64::new(1), AtomicBool::new(false));
    let failing = Failing { path: "/db/doublewrite".into(), writes: true, ..Failing::default() };
    vfs.set_faults(FaultPlan { failing: vec![failing], ..FaultPlan::default() });
    let mut most = 0;
    std::thread::scope(|scope| -> Result<()> {
        let _stop = Stop(&stop);
        let old = db.begin(Isolation::ReadCommitted);
        tables(&old, 77, 1)?;
        for session in 0..SESSIONS {
            let (db, turn, stop) = (&db, &turn, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    // One that comes in the way of another is rolled back.
                    let _ = in_one(db, work, session, turn.fetch_add(1, Ordering::Relaxed));
                }
            });
        }
        let begun = Instant::now();
        while db.log_status().bytes_in_use < BOUND / 8 * 7 {
            assert!(begun.elapsed() < Duration::from_secs(120), "{case}: {:?}", db.log_status());
            std::thread::sleep(Duration::from_millis(5));
        }
        for _ in 0..200 {
            most = most.max(db.log_status().bytes_in_use);
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(most <= BOUND, "{case}: {most} bytes of log, the bound is {BOUND}");
        // What needs no log, and what must go on, does: others wait with nothing in hand that these need.
        let begun = Instant::now();
        let reader = db.begin(Isolation::ReadCommitted);
        for session in 0..SESSIONS {
            let s = reader.sequence_named("public", &format!("s{session}"))?.expect("made");
            reader.sequence_state(&s)?;
        }
        assert_eq!(common::read(&db)?.len(), 1);
        old.rollback()?;
        db.checkpoint()?;
        assert!(begun.elapsed() < AT_ONCE, "{case}: {:?}", begun.elapsed());
        // Somebody who is told to stop.
        let tx = db.begin(Isolation::ReadCommitted);
        let told = Instant::now();
        tx.set_interrupt(Some(Arc::new(move || match told.elapsed() {
            waited if waited < Duration::from_millis(200) => Ok(()),
            _ => Err(Error::new(ErrorKind::Cancelled, "enough")),
        })));
        let outcome = work(&tx, SESSIONS, 1);
        assert_eq!(outcome.err().map(|e| e.kind()), Some(ErrorKind::Cancelled), "{case}");
        assert!(told.elapsed() < AT_ONCE, "{case}: {:?}", told.elapsed());
        tx.rollback()?;
        // The disk is well again.
        let written = db.stats().log.written_bytes;
        vfs.set_faults(FaultPlan::default());
        let begun = Instant::now();
        while db.stats().log.written_bytes < written + BOUND / 2 {
            most = most.max(db.log_status().bytes_in_use);
            assert!(begun.elapsed() < Duration::from_secs(120), "{case}: it does not go on: {:?}", db.log_status());
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    })?;
    eprintln!("{case}: {most} bytes of log at one time");
    assert!(most <= BOUND, "{case}: {most} bytes of log, the bound is {BOUND}");
    Ok(())
}

#[test]
fn definitions_wait_at_the_bound() -> Result<()> {
    [false, true].into_iter().try_for_each(|traditional| holds(tables, "tables", traditional))
}

#[test]
fn objects_wait_at_the_bound() -> Result<()> {
    [false, true].into_iter().try_for_each(|traditional| holds(objects, "objects", traditional))
}

#[test]
fn views_wait_at_the_bound() -> Result<()> {
    [false, true].into_iter().try_for_each(|traditional| holds(views, "views", traditional))
}

#[test]
fn statistics_wait_at_the_bound() -> Result<()> {
    [false, true].into_iter().try_for_each(|traditional| holds(statistics, "statistics", traditional))
}

#[test]
fn values_of_sequences_wait_at_the_bound() -> Result<()> {
    [false, true].into_iter().try_for_each(|traditional| holds(values, "values of sequences", traditional))
}
