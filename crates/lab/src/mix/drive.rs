//! Client threads that work off a mix without pauses, and the latencies that they saw.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::db::Times;
use super::{Db, Mix, Stop, Terminal};
use crate::Result;

/// A committed transaction.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    pub kind: u8,
    /// When it ended, since the run began.
    pub at: Duration,
    pub took: Duration,
}

/// What the clients of a run saw.
#[derive(Default)]
pub struct Tally {
    pub done: Vec<Done>,
    /// Rolled back on purpose, and given up for a conflict.
    pub rolled_back: u64,
    pub conflicts: u64,
    pub statements: Times,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.done.extend(other.done);
        self.rolled_back += other.rolled_back;
        self.conflicts += other.conflicts;
        for (name, (count, time)) in other.statements {
            let sum = self.statements.entry(name).or_default();
            *sum = (sum.0 + count, sum.1 + time);
        }
    }

    /// Latencies in milliseconds, ascending, of the transactions that ended within a part of
    /// the run; of one kind, or of all.
    pub fn latencies(&self, kind: Option<usize>, within: &std::ops::Range<Duration>) -> Vec<f64> {
        let wanted = |done: &&Done| within.contains(&done.at) && kind.is_none_or(|kind| kind == usize::from(done.kind));
        let mut all: Vec<f64> = self.done.iter().filter(wanted).map(|done| done.took.as_secs_f64() * 1e3).collect();
        all.sort_by(f64::total_cmp);
        all
    }

    /// When transactions ended, ascending.
    pub fn ends(&self) -> Vec<Duration> {
        let mut all: Vec<Duration> = self.done.iter().map(|done| done.at).collect();
        all.sort_unstable();
        all
    }
}

/// The value below which this share of the ascending values is (nearest rank); 0 of none.
pub fn percentile(ascending: &[f64], share: f64) -> f64 {
    let rank = (ascending.len() as f64 * share).ceil().max(1.0) as usize;
    ascending.get(rank.min(ascending.len()).wrapping_sub(1)).copied().unwrap_or(0.0)
}

/// A run, as those see it who work beside the clients or stop them.
pub struct Running {
    begun: Instant,
    stop: AtomicBool,
    failure: Mutex<Option<String>>,
}

impl Running {
    fn new() -> Self {
        Self { begun: Instant::now(), stop: AtomicBool::new(false), failure: Mutex::new(None) }
    }

    pub fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    pub fn stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Ends the run.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Ends the run as a failure; the first reason is kept.
    pub fn fail(&self, why: String) {
        if let Ok(mut failure) = self.failure.lock() {
            failure.get_or_insert(why);
        }
        self.stop();
    }

    /// Sleeps, less if the run ends; whether it goes on.
    pub fn pause(&self, time: Duration) -> bool {
        let begun = Instant::now();
        while !self.stopped() {
            let Some(left) = time.checked_sub(begun.elapsed()).filter(|left| !left.is_zero()) else { return true };
            std::thread::sleep(left.min(Duration::from_millis(20)));
        }
        false
    }
}

/// Lets the clients work until `beside` returns, which runs on this thread; its answer, and
/// what the clients saw.
///
/// # Errors
/// The first failure of a client (anything but a conflict) or of `beside`.
pub fn drive<T>(
    port: u16,
    mix: &dyn Mix,
    terminals: &mut [Box<dyn Terminal>],
    beside: impl FnOnce(&Running) -> Result<T>,
) -> Result<(T, Tally)> {
    let statements = mix.statements();
    // Preparing is not part of the run.
    let sessions: Vec<Db> = terminals.iter().map(|_| Db::connect(port, &statements)).collect::<Result<_>>()?;
    let run = Running::new();
    let tally = Mutex::new(Tally::default());
    let answer = std::thread::scope(|scope| {
        for (terminal, mut db) in terminals.iter_mut().zip(sessions) {
            let (run, tally) = (&run, &tally);
            scope.spawn(move || match work(run, mix, terminal.as_mut(), &mut db) {
                Ok(own) => {
                    if let Ok(mut tally) = tally.lock() {
                        tally.add(own);
                    }
                }
                Err(message) => run.fail(message),
            });
        }
        let answer = beside(&run);
        run.stop();
        answer
    });
    if let Some(message) = run.failure.into_inner().unwrap_or_default() {
        return Err(format!("{}: {message}", mix.name()));
    }
    Ok((answer?, tally.into_inner().map_err(|_| "a client ended early".to_owned())?))
}

fn work(run: &Running, mix: &dyn Mix, terminal: &mut dyn Terminal, db: &mut Db) -> Result<Tally> {
    let mut tally = Tally::default();
    while !run.stopped() {
        let kind = terminal.choose();
        let begun = run.elapsed();
        match terminal.run(kind, db) {
            Ok(true) => {
                let at = run.elapsed();
                tally.done.push(Done { kind: kind as u8, at, took: at.saturating_sub(begun) });
            }
            Ok(false) => tally.rolled_back += 1,
            Err(Stop::Conflict) => tally.conflicts += 1,
            Err(Stop::Failed(message)) => return Err(format!("{}: {message}", mix.kinds()[kind])),
        }
    }
    tally.statements = db.times().clone();
    Ok(tally)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let values: Vec<f64> = (1..=1000).map(f64::from).collect();
        assert_eq!([0.5, 0.99, 0.999, 1.0].map(|share| percentile(&values, share)), [500.0, 990.0, 999.0, 1000.0]);
        assert_eq!(percentile(&[7.0], 0.5), 7.0);
        assert_eq!(percentile(&[], 0.5), 0.0);
    }

    #[test]
    fn latencies_are_of_a_kind_and_a_time() {
        let ms = Duration::from_millis;
        let of = |kind, at, took| Done { kind, at: ms(at), took: ms(took) };
        let tally = Tally { done: vec![of(0, 10, 9), of(1, 20, 3), of(0, 30, 1)], ..Tally::default() };
        assert_eq!(tally.latencies(None, &(ms(0)..ms(100))), [1.0, 3.0, 9.0]);
        assert_eq!(tally.latencies(Some(0), &(ms(0)..ms(100))), [1.0, 9.0]);
        assert_eq!(tally.latencies(None, &(ms(20)..ms(30))), [3.0]);
    }
}
