//! What runs beside a statement: sampling of sizes, and the course of a recovery.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::workload::{self, Op, PACE, clean, read_touched, until, unwrite_touched, write_touched};
use crate::Result;
use crate::servers::{Kind, Server};
use crate::session::Session;
use crate::wire::Client;

/// Between two samples of sizes.
const SAMPLE: Duration = Duration::from_millis(100);
/// Between two looks at a recovery; a look costs the server well under a millisecond.
const LOOK: Duration = Duration::from_millis(5);
/// How long the redo in the background may take after everything else is done.
const REDO_MAX: Duration = Duration::from_secs(600);

/// A thread that runs until it is told to stop.
struct Beside<T> {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<T>,
}

impl<T: Send + 'static> Beside<T> {
    /// Runs `work`; it has to look at the flag often.
    fn start(work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        Self { stop, thread: std::thread::spawn(move || work(&seen)) }
    }

    fn stop(self) -> Result<T> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().map_err(|_| "a thread of the experiment ended early".to_owned())
    }
}

/// Samples numbers every 100 ms, and keeps the highest of each.
pub struct Peaks<const N: usize>(Beside<[u64; N]>);

impl<const N: usize> Peaks<N> {
    /// A sample that fails is left out.
    pub fn start(mut sample: impl FnMut() -> Option<[u64; N]> + Send + 'static) -> Self {
        Self(Beside::start(move |stop| {
            let mut peaks = [0; N];
            loop {
                // The last sample is taken after the stop: at the end of what was watched.
                let last = stop.load(Ordering::Relaxed);
                for (peak, value) in peaks.iter_mut().zip(sample().unwrap_or([0; N])) {
                    *peak = value.max(*peak);
                }
                if last {
                    return peaks;
                }
                std::thread::sleep(SAMPLE);
            }
        }))
    }

    pub fn stop(self) -> Result<[u64; N]> {
        self.0.stop()
    }
}

/// A number from a view of one row; `None` if it is null, or the server does not know it.
pub fn number(session: &mut Session, view: &str, column: &str) -> Option<f64> {
    session.query(&format!("select {column} from {view}")).ok()??.parse().ok()
}

/// A restart after a crash, in seconds since the process was started unless said otherwise.
#[derive(Clone, Debug)]
pub struct Recovered {
    /// `select 1`.
    pub answer: f64,
    /// A touched row was read.
    pub read: f64,
    /// A touched row was written, committed.
    pub write: f64,
    /// What the server says of its analysis, and of all before it opened, in milliseconds.
    pub analysis_ms: Option<f64>,
    pub open_ms: Option<f64>,
    /// No page awaits its redo any more.
    pub redo: Option<f64>,
    /// The undo of the traditional mode was done, and the records that it undid.
    pub undo: Option<f64>,
    pub undo_records: Option<f64>,
    /// The last trace of the aborted work was gone.
    pub gone: f64,
}

/// When redo and undo were seen to have ended, in seconds since `begun`. All of it happens on
/// its own thread and connection, out of the way of the statements that are timed.
fn follow(port: u16, begun: Instant) -> Beside<(Option<f64>, Option<f64>)> {
    Beside::start(move |stop| {
        let (mut redo, mut undo) = (None, None);
        let Ok(client) = Client::connect(port) else { return (redo, undo) };
        let mut session = Session::Wire(client);
        let says_redo = session.query("select redo_ms from resurgam_recovery").is_ok();
        let redone = if says_redo { "redo_ms is not null" } else { "pages_awaiting_redo = 0" };
        let sql = format!("select count(*) from resurgam_recovery where {redone}");
        let says_undo = session.query("select undo_ms from resurgam_recovery").is_ok();
        loop {
            let last = stop.load(Ordering::Relaxed);
            if redo.is_none() && session.query(&sql).is_ok_and(|count| count.as_deref() == Some("1")) {
                redo = Some(begun.elapsed().as_secs_f64());
            }
            if says_undo && undo.is_none() && number(&mut session, "resurgam_recovery", "undo_ms").is_some() {
                undo = Some(begun.elapsed().as_secs_f64());
            }
            if last {
                return (redo, undo);
            }
            std::thread::sleep(LOOK);
        }
    })
}

/// Starts the server after a crash in a transaction that did `op` to `rows` rows, and follows
/// its recovery to the end. The committed part of the data is checked on the way.
pub fn recover(server: &mut Server, op: Op, rows: u64) -> Result<Recovered> {
    let begun = Instant::now();
    let answer = server.start()?.as_secs_f64();
    let resurgam = server.kind.is_resurgam();
    let follower = resurgam.then(|| follow(server.port, begun));
    let mut session = server.session()?;
    read_touched(&mut session, op, rows)?;
    let read = begun.elapsed().as_secs_f64();
    write_touched(&mut session, op, rows)?;
    let write = begun.elapsed().as_secs_f64();
    let view = "resurgam_recovery";
    if server.kind == Kind::Traditional && session.query("select undo_ms from resurgam_recovery").is_ok() {
        // Before cleaning up: what is undone later would wait for the cleaner's next round.
        until(PACE, || Ok(number(&mut session, view, "undo_ms").is_some()))?;
    }
    clean(server)?;
    let gone = begun.elapsed().as_secs_f64();
    if resurgam {
        // Damaged pages would await it for ever.
        let waited = Instant::now();
        until(PACE, || {
            let awaiting = number(&mut session, view, "pages_awaiting_redo").unwrap_or(0.0);
            Ok(awaiting == 0.0 || waited.elapsed() > REDO_MAX)
        })?;
    }
    let (mut redo, undo) = follower.map_or(Ok((None, None)), Beside::stop)?;
    if server.kind == Kind::Postgres {
        // PostgreSQL answers nobody before its redo has ended.
        redo = Some(answer);
    }
    let mut ask = |column| if resurgam { number(&mut session, view, column) } else { None };
    let (analysis_ms, open_ms, undo_records) = (ask("analysis_ms"), ask("total_ms"), ask("undo_records"));
    unwrite_touched(&mut session, op, rows)?;
    let undo = if server.kind == Kind::Traditional { undo } else { None };
    Ok(Recovered { answer, read, write, analysis_ms, open_ms, redo, undo, undo_records, gone })
}

/// One transaction, rolled back while the server lives, and cleaned up.
#[derive(Clone, Debug)]
pub struct RolledBack {
    /// Seconds of the statement, of the rollback, of cleaning up.
    pub work: f64,
    pub rollback: f64,
    pub clean: f64,
}

/// Does `op` to `rows` rows in one transaction and rolls back.
pub fn roll_back(server: &Server, op: Op, rows: u64) -> Result<RolledBack> {
    let mut session = server.session()?;
    session.query("begin")?;
    let work = workload::timed(|| session.query(&op.statement(server.kind, rows)))?;
    let rollback = workload::timed(|| session.query("rollback"))?;
    read_touched(&mut session, op, rows)?;
    let clean = workload::timed(|| clean(server))?;
    Ok(RolledBack { work, rollback, clean })
}

/// Does `op` to `rows` rows in a transaction that stays open, kills the server, and follows
/// the recovery.
pub fn crash(server: &mut Server, op: Op, rows: u64) -> Result<Recovered> {
    let mut session = server.session()?;
    session.query("begin")?;
    session.query(&op.statement(server.kind, rows))?;
    server.kill();
    drop(session);
    recover(server, op, rows)
}
