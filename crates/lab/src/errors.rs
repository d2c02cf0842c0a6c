//! Devices that fail for a minute under load: how long after the end of the errors each thread of the background
//! works again, and how long anybody waits at most. The embedded engine on the simulated disk, where one kind of call
//! on one file fails each time; nothing that fails is lost there but by the database's own doing.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Args;
use resurgam_engine::{
    ColumnType, Database, DatumRef, Durability, Isolation, Result as EngineResult, Seen, StatementKind, Stats,
    TableSpec,
};
use resurgam_vfs::{Failing, FaultPlan, SimVfs, Vfs};

use crate::report::{self, table};
use crate::svg::{Series, bars};
use crate::{Common, Result, machine};

/// After the errors, nobody waits longer, and everything works again within it.
const GOAL: Duration = Duration::from_secs(10);
/// How long what does not work again is waited for.
const PATIENCE: Duration = Duration::from_secs(60);
const DIR: &str = "/db";
const WRITERS: usize = 2;

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Seconds for which a device fails
    #[arg(long, default_value_t = 60)]
    seconds: u64,
}

/// File, and which calls on it fail.
const CASES: [(&str, &str); 8] = [
    ("data", "reads"),
    ("data", "writes"),
    ("data", "reads and writes"),
    ("doublewrite", "writes"),
    ("doublewrite", "syncs"),
    ("doublewrite", "writes and syncs"),
    ("control", "writes"),
    ("control", "syncs"),
];

/// Threads of the background, and the counter that moves when each has done something.
const THREADS: [(&str, fn(&Stats) -> u64); 4] = [
    ("write-back", |stats| stats.pool.pages_written),
    ("checkpoints", |stats| stats.checkpoints.taken),
    ("cleaner", |stats| stats.sweeps),
    ("version pages freed", |stats| stats.versions.freed),
];

struct Case {
    traditional: bool,
    what: String,
    /// Statements that succeeded and failed meanwhile.
    done: u64,
    failed: u64,
    /// What the database said of its troubles at the end of the errors.
    troubles: Vec<String>,
    /// Seconds until a commit succeeded, and until nothing was said to fail any more.
    commit: Option<f64>,
    quiet: Option<f64>,
    threads: Vec<Option<f64>>,
    /// The longest that a statement took which ended after the errors did, counted from their end.
    stall: f64,
    acknowledged: u64,
    lost: bool,
}

fn open(vfs: &SimVfs, traditional: bool) -> EngineResult<Database> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = resurgam_engine::Options {
        buffer_bytes: 1 << 20,
        log_segment_bytes: 512 << 10,
        checkpoint_log_bytes: 1 << 20,
        log_bytes_wanted: 2 << 20,
        log_bytes_max: 8 << 20,
        cleaner_interval_s: 0.5,
        accelerated_database_recovery: !traditional,
        ..resurgam_engine::Options::default()
    };
    Database::open_with(shared, Path::new(DIR), options, |_| {})
}

/// Inserts a row, and changes an old one.
fn write(db: &Database, id: i64) -> EngineResult<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let Some(t) = tx.table("public", "t")? else { return Ok(()) };
    tx.statement(StatementKind::PointWrite)?;
    let filler = "x".repeat(400);
    let row = |id: i64, v: i64| [DatumRef::Int8(id), DatumRef::Int8(v), DatumRef::Text(&filler)];
    tx.insert(&t, &row(id, 0))?.done()?;
    let mut key = Vec::new();
    t.encode_key(&[DatumRef::Int8(id / 2)], &mut key)?;
    // Somebody else may be changing it: then it is left.
    let _ = tx.update(&t, &key, Seen::Snapshot, &row(id / 2, id))?;
    tx.commit(Durability::Sync)?.wait()
}

fn count(db: &Database) -> EngineResult<u64> {
    use resurgam_engine::{Direction, KeyRange, RowBatch};
    let tx = db.begin(Isolation::ReadCommitted);
    let Some(t) = tx.table("public", "t")? else { return Ok(0) };
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&t, KeyRange::all(), Direction::Forward);
    let (mut batch, mut found) = (RowBatch::default(), 0);
    while cursor.next_batch(&mut batch, 1000)? {
        found += batch.len() as u64;
        batch.clear();
    }
    Ok(found)
}

fn seconds_until(begun: Instant, mut done: impl FnMut() -> bool) -> Option<f64> {
    while begun.elapsed() < PATIENCE {
        if done() {
            return Some(begun.elapsed().as_secs_f64());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    None
}

fn one(at: usize, traditional: bool, (file, calls): (&str, &str), seconds: u64) -> EngineResult<Case> {
    let vfs = SimVfs::new(at as u64);
    let db = open(&vfs, traditional)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("v", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"]);
    tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    drop(tx);
    let (next, stop) = (AtomicI64::new(1), AtomicBool::new(false));
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    // Microseconds since the beginning: the end of the errors, and the longest wait from there on.
    let (zero, end, stall) = (Instant::now(), AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let micros = || zero.elapsed().as_micros() as u64;
    let mut case = Case {
        traditional,
        what: format!("{calls} of {file}"),
        done: 0,
        failed: 0,
        troubles: Vec::new(),
        commit: None,
        quiet: None,
        threads: vec![None; THREADS.len()],
        stall: 0.0,
        acknowledged: 0,
        lost: false,
    };
    std::thread::scope(|scope| {
        for _ in 0..WRITERS {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    let begun = micros();
                    let ok = write(&db, next.fetch_add(1, Ordering::Relaxed)).is_ok();
                    let over = end.load(Ordering::SeqCst);
                    if micros() > over {
                        stall.fetch_max(micros() - begun.max(over), Ordering::Relaxed);
                    }
                    (if ok { &done } else { &failed }).fetch_add(1, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(if ok { 4 } else { 20 }));
                }
            });
        }
        std::thread::sleep(Duration::from_secs(2));
        let has = |what: &str| calls.contains(what);
        let failing = Failing {
            path: Path::new(DIR).join(file),
            reads: has("reads"),
            writes: has("writes"),
            syncs: has("syncs"),
        };
        vfs.set_faults(FaultPlan { failing: vec![failing], ..FaultPlan::default() });
        let before = (done.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_secs(seconds));
        case.done = done.load(Ordering::Relaxed) - before.0;
        case.failed = failed.load(Ordering::Relaxed) - before.1;
        case.troubles = db.troubles().into_iter().map(|trouble| trouble.what.trim_matches(',').to_owned()).collect();
        let stats = db.stats();
        vfs.set_faults(FaultPlan::default());
        let begun = Instant::now();
        end.store(micros(), Ordering::SeqCst);
        let commits = done.load(Ordering::Relaxed);
        std::thread::scope(|waits| {
            waits.spawn(|| case.commit = seconds_until(begun, || done.load(Ordering::Relaxed) > commits));
            waits.spawn(|| case.quiet = seconds_until(begun, || db.troubles().is_empty()));
            for (slot, (_, counter)) in case.threads.iter_mut().zip(THREADS) {
                let (db, then) = (&db, counter(&stats));
                waits.spawn(move || *slot = seconds_until(begun, || counter(&db.stats()) > then));
            }
        });
        // Long enough to see a stall.
        std::thread::sleep((GOAL * 2).saturating_sub(begun.elapsed()));
        stop.store(true, Ordering::Relaxed);
    });
    case.stall = stall.into_inner() as f64 / 1e6;
    case.acknowledged = done.into_inner();
    drop(db);
    let db = open(&vfs.crash(), traditional)?;
    db.finish_recovery()?;
    case.lost = count(&db)? < case.acknowledged || !db.verify()?.is_empty();
    db.close()?;
    eprintln!("{}, traditional {traditional}: quiet after {:?} s, stall {:.2} s", case.what, case.quiet, case.stall);
    Ok(case)
}

impl Case {
    fn met(&self) -> bool {
        let within = |seconds: &Option<f64>| seconds.is_some_and(|seconds| seconds <= GOAL.as_secs_f64());
        // Version pages are freed only when there are any.
        let threads = self.threads[..3].iter().all(within);
        !self.lost && self.stall <= GOAL.as_secs_f64() && within(&self.commit) && within(&self.quiet) && threads
    }
}

/// Runs the experiment: all cases of a mode beside each other.
pub fn run(options: &Options) -> Result<()> {
    let mut cases = Vec::new();
    for traditional in [false, true] {
        let found: Vec<EngineResult<Case>> = std::thread::scope(|scope| {
            let one = |(at, case)| scope.spawn(move || one(at, traditional, case, options.seconds));
            let running: Vec<_> = CASES.into_iter().enumerate().map(one).collect();
            running.into_iter().filter_map(|case| case.join().ok()).collect()
        });
        if found.len() < CASES.len() {
            return Err("a case panicked".into());
        }
        for case in found {
            cases.push(case.map_err(|e| e.to_string())?);
        }
    }
    let show = |seconds: &Option<f64>| seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2}"));
    let rows: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let mode = if case.traditional { "traditional" } else { "versions" };
            let mut row = vec![case.what.clone(), mode.into(), case.done.to_string(), case.failed.to_string()];
            row.push(if case.troubles.is_empty() { "-".into() } else { case.troubles.join("; ") });
            row.extend([show(&case.commit), show(&case.quiet)]);
            row.extend(case.threads.iter().map(show));
            row.push(format!("{:.2}", case.stall));
            row.push(if case.lost { "**lost**".into() } else { format!("all {}", case.acknowledged) });
            row.push(if case.met() { "pass".into() } else { "**not met**".into() });
            row
        })
        .collect();
    let mut text = String::from("# Devices that fail, and then do not\n\n");
    text += &report::provenance();
    text += &format!(
        "One kind of call on one file fails, each time, for {} s, while {WRITERS} threads insert a row of 400 bytes and change another \
         one in each transaction, at most 250 a second each; the engine on the simulated disk, 1 MB of pages, 8 MB of log at most; all \
         cases of a mode run beside each other. Seconds count from the end of the errors, a \"-\" is what did not happen within {} s. \
         *Stall*: the longest wait for a statement from then on. Then power is lost; what was acknowledged \
         is counted, and the database verified. (Failed writes and syncs of the log, and syncs of the data file, stop the database at \
         once: what is on the disk is uncertain. A restart recovers.) Goal: all works again, and nobody waits longer, than {} s after the errors; nothing is lost.\n\n",
        options.seconds,
        PATIENCE.as_secs(),
        GOAL.as_secs()
    );
    text += &machine::describe(&std::env::temp_dir());
    text.push('\n');
    let mut header =
        vec!["what fails", "mode", "done meanwhile", "failed", "said to fail", "first commit, s", "nothing said, s"];
    header.extend(THREADS.iter().map(|(name, _)| *name));
    header.extend(["stall, s", "acknowledged rows", "goal"]);
    text += &table(&header, &rows);
    text += "\n![plot](errors.svg)\n";
    let (on, off) = cases.split_at(CASES.len());
    let groups: Vec<String> = on.iter().map(|case| case.what.clone()).collect();
    let series = |name: &str, cases: &[Case]| Series {
        name: name.to_owned(),
        values: cases.iter().map(|case| case.quiet).collect(),
    };
    let svg = bars(
        "After a minute of errors",
        "seconds until nothing fails any more",
        &groups,
        &[series("versions", on), series("traditional", off)],
    );
    report::write(&options.common, "errors", &text, &svg)
}
