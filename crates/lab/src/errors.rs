//! Devices that fail for a minute under load, and just after a restart: how long after the end of the errors each thread of the
//! background works again, and how long anybody waits at most. The embedded engine on the simulated disk, where one kind of call
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

/// What fails, and of which database.
#[derive(Clone, Copy)]
struct Fault {
    /// A file, or a folder, and which calls on it fail.
    path: &'static str,
    calls: &'static str,
    with: With,
}

/// What a database has besides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum With {
    Nothing,
    /// Off-row versions in a file of their own, which only row versioning has.
    VersionFile,
    Archive,
    /// A crash just before, which cut a large transaction off and left pages to bring up to date.
    Crash,
}

const VERSION_FILE: &str = "/db/versions";
const ARCHIVE: &str = "/disk2/archive";

const fn fault(path: &'static str, calls: &'static str, with: With) -> Fault {
    Fault { path, calls, with }
}

const FAULTS: [Fault; 18] = [
    fault("/db/data", "reads", With::Nothing),
    fault("/db/data", "writes", With::Nothing),
    fault("/db/data", "reads and writes", With::Nothing),
    fault("/db/doublewrite", "writes", With::Nothing),
    fault("/db/doublewrite", "syncs", With::Nothing),
    fault("/db/doublewrite", "writes and syncs", With::Nothing),
    fault("/db/control", "writes", With::Nothing),
    fault("/db/control", "syncs", With::Nothing),
    fault(VERSION_FILE, "reads", With::VersionFile),
    fault(VERSION_FILE, "writes", With::VersionFile),
    fault(VERSION_FILE, "reads and writes", With::VersionFile),
    fault(ARCHIVE, "reads", With::Archive),
    fault(ARCHIVE, "writes", With::Archive),
    fault(ARCHIVE, "syncs", With::Archive),
    fault("/db/data", "reads", With::Crash),
    fault("/db/data", "writes", With::Crash),
    fault("/db/data", "reads and writes", With::Crash),
    fault("/db/doublewrite", "writes and syncs", With::Crash),
];

impl Fault {
    fn name(self) -> String {
        let file = self.path.rsplit('/').next().unwrap_or_default();
        let when = if self.with == With::Crash { ", after a crash" } else { "" };
        format!("{} of {file}{when}", self.calls)
    }
    /// Whether a database of that mode has what fails.
    fn is_of(self, traditional: bool) -> bool {
        !(traditional && self.with == With::VersionFile)
    }
}

/// What has been done since a moment.
struct Since<'a> {
    db: &'a Database,
    then: Stats,
    runs: u64,
}

/// A thread of the background.
struct Thread {
    name: &'static str,
    /// Whether the database of a fault, in a mode, has anything to do for it.
    has_work: fn(Fault, traditional: bool) -> bool,
    /// Whether it has done something since that moment.
    works: fn(&Since<'_>) -> bool,
}

const THREADS: [Thread; 8] = [
    Thread {
        name: "write-back",
        has_work: |_, _| true,
        works: |since| since.db.stats().pool.pages_written > since.then.pool.pages_written,
    },
    Thread {
        name: "checkpoints",
        has_work: |_, _| true,
        works: |since| since.db.stats().checkpoints.taken > since.then.checkpoints.taken,
    },
    Thread { name: "cleaner", has_work: |_, _| true, works: |since| since.db.stats().sweeps > since.then.sweeps },
    Thread {
        name: "version pages freed",
        has_work: |_, traditional| !traditional,
        works: |since| since.db.stats().versions.freed > since.then.versions.freed,
    },
    Thread {
        name: "version pages ready",
        has_work: |_, traditional| !traditional,
        works: |since| {
            let now = since.db.stats().versions;
            now.pages_ready > 0 && now.pushed > since.then.versions.pushed
        },
    },
    Thread {
        name: "archive",
        has_work: |fault, _| fault.with == With::Archive,
        works: |since| runs(since.db) > since.runs,
    },
    Thread {
        name: "redo",
        has_work: |fault, _| fault.with == With::Crash,
        works: |since| since.db.stats().redo_time.is_some(),
    },
    Thread {
        name: "undo",
        has_work: |fault, traditional| fault.with == With::Crash && traditional,
        works: |since| since.db.stats().undo_time.is_some(),
    },
];

/// Runs that the archive has got since the open.
fn runs(db: &Database) -> u64 {
    db.archive_status().map_or(0, |status| status.runs_written)
}

struct Case {
    traditional: bool,
    fault: Fault,
    /// Statements that succeeded and failed meanwhile.
    done: u64,
    failed: u64,
    /// What the database said of its troubles at the end of the errors.
    troubles: Vec<String>,
    /// Seconds until a commit succeeded, and until nothing was said to fail any more.
    commit: Option<f64>,
    quiet: Option<f64>,
    /// Of each thread, seconds until it had done something; none: it had nothing to do.
    threads: Vec<Option<Option<f64>>>,
    /// The longest that a statement took which ended after the errors did, counted from their end.
    stall: f64,
    acknowledged: u64,
    lost: bool,
}

fn open(vfs: &SimVfs, traditional: bool, with: With) -> EngineResult<Database> {
    let shared: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let options = resurgam_engine::Options {
        buffer_bytes: 1 << 20,
        log_segment_bytes: 512 << 10,
        checkpoint_log_bytes: 1 << 20,
        log_bytes_wanted: 2 << 20,
        log_bytes_max: 8 << 20,
        cleaner_interval_s: 0.5,
        accelerated_database_recovery: !traditional,
        version_store_path: (with == With::VersionFile).then(|| VERSION_FILE.into()),
        archive: (with == With::Archive).then(|| ARCHIVE.into()),
        ..resurgam_engine::Options::default()
    };
    Database::open_with(shared, Path::new(DIR), options, |_| {})
}

/// Rows that are changed again and again, so that there are versions of them off-row.
const HOT: i64 = 8;
/// How long a reader keeps its snapshot: what was changed meanwhile is kept, and then freed.
const SNAPSHOT: Duration = Duration::from_millis(200);

/// Inserts a row, and changes an old one and one that is often changed.
fn write(db: &Database, id: i64) -> EngineResult<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let Some(t) = tx.table("public", "t")? else { return Ok(()) };
    tx.statement(StatementKind::PointWrite)?;
    let filler = "x".repeat(400);
    let row = |id: i64, v: i64| [DatumRef::Int8(id), DatumRef::Int8(v), DatumRef::Text(&filler)];
    tx.insert(&t, &row(id, 0))?.done()?;
    let mut key = Vec::new();
    for old in [id / 2, id % HOT + 1] {
        key.clear();
        t.encode_key(&[DatumRef::Int8(old)], &mut key)?;
        // Somebody else may be changing it: then it is left.
        let _ = tx.update(&t, &key, Seen::Snapshot, &row(old, id))?;
    }
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

/// A database with the table that is written to.
fn create(vfs: &SimVfs, traditional: bool, with: With) -> EngineResult<Database> {
    let db = open(vfs, traditional, with)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("v", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"]);
    tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()?;
    Ok(db)
}

/// Rows that are there before a crash, and rows that the transaction has changed which it cuts off.
const BEFORE_CRASH: i64 = 1500;
const CUT_OFF: i64 = 500;

/// What is left of a database when power is lost in the middle of its work.
fn crashed(vfs: &SimVfs, db: Database) -> EngineResult<SimVfs> {
    for id in 1..BEFORE_CRASH {
        write(&db, id)?;
    }
    let tx = db.begin(Isolation::ReadCommitted);
    let Some(t) = tx.table("public", "t")? else { return Ok(vfs.crash()) };
    let mut key = Vec::new();
    for id in HOT + 1..HOT + 1 + CUT_OFF {
        tx.statement(StatementKind::PointWrite)?;
        key.clear();
        t.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        tx.update(&t, &key, Seen::Snapshot, &[DatumRef::Int8(id), DatumRef::Int8(-1), DatumRef::Text("cut off")])?
            .done()?;
    }
    // What it has logged is durable with this one.
    write(&db, BEFORE_CRASH)?;
    let after = vfs.crash();
    drop(tx);
    Ok(after)
}

fn one(at: usize, traditional: bool, fault: Fault, seconds: u64) -> EngineResult<Case> {
    let mut vfs = SimVfs::new(at as u64);
    let mut db = create(&vfs, traditional, fault.with)?;
    let has = |what: &str| fault.calls.contains(what);
    let failing = Failing { path: fault.path.into(), reads: has("reads"), writes: has("writes"), syncs: has("syncs") };
    let faults = FaultPlan { failing: vec![failing], ..FaultPlan::default() };
    let mut first = 1;
    if fault.with == With::Crash {
        vfs = crashed(&vfs, db)?;
        db = open(&vfs, traditional, fault.with)?;
        vfs.set_faults(faults.clone());
        first = BEFORE_CRASH + 1;
    }
    let (next, stop) = (AtomicI64::new(first), AtomicBool::new(false));
    let (done, failed) = (AtomicU64::new(0), AtomicU64::new(0));
    // Microseconds since the beginning: the end of the errors, and the longest wait from there on.
    let (zero, end, stall) = (Instant::now(), AtomicU64::new(u64::MAX), AtomicU64::new(0));
    let micros = || zero.elapsed().as_micros() as u64;
    let mut case = Case {
        traditional,
        fault,
        done: 0,
        failed: 0,
        troubles: Vec::new(),
        commit: None,
        quiet: None,
        threads: THREADS.iter().map(|thread| (thread.has_work)(fault, traditional).then_some(None)).collect(),
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
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let reader = db.begin(Isolation::RepeatableRead);
                // It fails where definitions cannot be read just now.
                let _ = reader.statement(StatementKind::Read);
                std::thread::sleep(SNAPSHOT);
            }
        });
        if fault.with != With::Crash {
            std::thread::sleep(Duration::from_secs(2));
            vfs.set_faults(faults);
        }
        let before = (done.load(Ordering::Relaxed), failed.load(Ordering::Relaxed));
        std::thread::sleep(Duration::from_secs(seconds));
        case.done = done.load(Ordering::Relaxed) - before.0;
        case.failed = failed.load(Ordering::Relaxed) - before.1;
        case.troubles = db.troubles().into_iter().map(|trouble| trouble.what.trim_matches(',').to_owned()).collect();
        let since = Since { db: &db, then: db.stats(), runs: runs(&db) };
        vfs.set_faults(FaultPlan::default());
        let begun = Instant::now();
        end.store(micros(), Ordering::SeqCst);
        let commits = done.load(Ordering::Relaxed);
        std::thread::scope(|waits| {
            waits.spawn(|| case.commit = seconds_until(begun, || done.load(Ordering::Relaxed) > commits));
            waits.spawn(|| case.quiet = seconds_until(begun, || db.troubles().is_empty()));
            for (slot, thread) in case.threads.iter_mut().zip(THREADS) {
                let (Some(slot), since) = (slot.as_mut(), &since) else { continue };
                waits.spawn(move || *slot = seconds_until(begun, || (thread.works)(since)));
            }
        });
        // Long enough to see a stall.
        std::thread::sleep((GOAL * 2).saturating_sub(begun.elapsed()));
        stop.store(true, Ordering::Relaxed);
    });
    case.stall = stall.into_inner() as f64 / 1e6;
    case.acknowledged = done.into_inner() + u64::try_from(first - 1).unwrap_or(0);
    drop(db);
    let db = open(&vfs.crash(), traditional, fault.with)?;
    db.finish_recovery()?;
    case.lost = count(&db)? < case.acknowledged || !db.verify()?.is_empty();
    db.close()?;
    eprintln!("{}, traditional {traditional}: quiet after {:?} s, stall {:.2} s", fault.name(), case.quiet, case.stall);
    Ok(case)
}

impl Case {
    fn met(&self) -> bool {
        let within = |seconds: &Option<f64>| seconds.is_some_and(|seconds| seconds <= GOAL.as_secs_f64());
        let threads = self.threads.iter().flatten().all(within);
        !self.lost && self.stall <= GOAL.as_secs_f64() && within(&self.commit) && within(&self.quiet) && threads
    }
}

/// Runs the experiment: all cases of a mode beside each other.
pub fn run(options: &Options) -> Result<()> {
    let mut cases = Vec::new();
    for traditional in [false, true] {
        let found: Vec<Result<Case>> = std::thread::scope(|scope| {
            let one = |(at, fault): (usize, Fault)| {
                scope.spawn(move || {
                    one(at, traditional, fault, options.seconds).map_err(|e| format!("{}: {e}", fault.name()))
                })
            };
            let of_mode = FAULTS.into_iter().filter(|fault| fault.is_of(traditional));
            let running: Vec<_> = of_mode.enumerate().map(one).collect();
            let panicked = || Err("a case panicked".to_owned());
            running.into_iter().map(|case| case.join().unwrap_or_else(|_| panicked())).collect()
        });
        for case in found {
            cases.push(case?);
        }
    }
    let show = |seconds: &Option<f64>| seconds.map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.2}"));
    let rows: Vec<Vec<String>> = cases
        .iter()
        .map(|case| {
            let mode = if case.traditional { "traditional" } else { "versions" };
            let mut row = vec![case.fault.name(), mode.into(), case.done.to_string(), case.failed.to_string()];
            row.push(if case.troubles.is_empty() { "-".into() } else { case.troubles.join("; ") });
            row.extend([show(&case.commit), show(&case.quiet)]);
            row.extend(case.threads.iter().map(|seconds| seconds.as_ref().map_or_else(String::new, show)));
            row.push(format!("{:.2}", case.stall));
            row.push(if case.lost { "**lost**".into() } else { format!("all {}", case.acknowledged) });
            row.push(if case.met() { "pass".into() } else { "**not met**".into() });
            row
        })
        .collect();
    let mut text = String::from("# Devices that fail, and then do not\n\n");
    text += &report::provenance();
    text += &format!(
        "One kind of call on one file fails, each time, for {} s, while {WRITERS} threads insert a row of 400 bytes and change two others \
         in each transaction, at most 250 a second each, and a reader takes a snapshot every {} ms; *after a crash*: from the restart on, with \
         pages to bring up to date, and a transaction of {CUT_OFF} rows that was cut off; the engine on the simulated disk, 1 MB of pages, 8 MB of log at most; all \
         cases of a mode run beside each other. Seconds count from the end of the errors, a \"-\" is what did not happen within {} s, nothing what there was \
         nothing to do for. \
         *Stall*: the longest wait for a statement from then on. Then power is lost; what was acknowledged \
         is counted, and the database verified. (Failed writes and syncs of the log, and syncs of the data file, stop the database at \
         once: what is on the disk is uncertain. A restart recovers.) Goal: all works again, and nobody waits longer, than {} s after the errors; nothing is lost.\n\n",
        options.seconds,
        SNAPSHOT.as_millis(),
        PATIENCE.as_secs(),
        GOAL.as_secs()
    );
    text += &machine::describe(&std::env::temp_dir());
    text.push('\n');
    let mut header =
        vec!["what fails", "mode", "done meanwhile", "failed", "said to fail", "first commit, s", "nothing said, s"];
    header.extend(THREADS.iter().map(|thread| thread.name));
    header.extend(["stall, s", "acknowledged rows", "goal"]);
    text += &table(&header, &rows);
    text += "\n![plot](errors.svg)\n";
    let quiet = |fault: Fault, traditional: bool| {
        let mut of = cases.iter().filter(|case| case.traditional == traditional && case.fault.name() == fault.name());
        of.next().and_then(|case| case.quiet)
    };
    let groups: Vec<String> = FAULTS.into_iter().map(Fault::name).collect();
    let series = |name: &str, traditional: bool| Series {
        name: name.to_owned(),
        values: FAULTS.into_iter().map(|fault| quiet(fault, traditional)).collect(),
    };
    let svg = bars(
        "After a minute of errors",
        "seconds until nothing fails any more",
        &groups,
        &[series("versions", false), series("traditional", true)],
    );
    report::write(&options.common, "errors", &text, &svg)
}
