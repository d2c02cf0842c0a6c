//! What the clients of one round share: which phase the round is in, what was found wrong,
//! and a session that judges failures by the phase.
//!
//! A server that is alive may refuse a statement for a conflict (SQLSTATE class 40), or because its
//! devices fail (58030, while that is so), and for nothing else. Once the end was announced everything may fail, and only the answers that
//! came before count.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::Result;
use crate::wire::{Client, Row, is_conflict};

/// A statement that takes longer has hung.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// In [`Round::failing`]: the data's device is dead, and there is no other one.
pub const DEAD: u8 = 16;

/// Where a round is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// The server must serve.
    Running,
    /// Clients end what they have begun; the server must still serve.
    Finishing,
    /// The server is about to be killed: failures mean nothing.
    Dying,
}

/// One life of the server, as its clients see it.
pub struct Round {
    pub port: u16,
    phase: AtomicU8,
    /// What of the devices fails now, or did a moment ago (`faults.rs`).
    pub failing: AtomicU8,
    violations: Mutex<Vec<String>>,
    /// Commits that the server acknowledged, rollbacks, and conflicts.
    pub commits: AtomicU64,
    pub rollbacks: AtomicU64,
    pub conflicts: AtomicU64,
    /// Rows of transactions that were open at the end or rolled back, of the large ones.
    pub undone_rows: AtomicU64,
    /// Times a reader found the same answer again in its snapshot.
    pub rereads: AtomicU64,
    /// The slowest statement that succeeded, in microseconds.
    pub slowest_us: AtomicU64,
}

impl Round {
    pub fn new(port: u16) -> Self {
        let zero = AtomicU64::default;
        Self {
            port,
            phase: AtomicU8::new(0),
            failing: AtomicU8::new(0),
            violations: Mutex::default(),
            commits: zero(),
            rollbacks: zero(),
            conflicts: zero(),
            undone_rows: zero(),
            rereads: zero(),
            slowest_us: zero(),
        }
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Ordering::SeqCst) {
            0 => Phase::Running,
            1 => Phase::Finishing,
            _ => Phase::Dying,
        }
    }

    pub fn running(&self) -> bool {
        self.phase() == Phase::Running
    }

    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// Notes that something is wrong.
    pub fn violation(&self, what: String) {
        if let Ok(mut violations) = self.violations.lock() {
            violations.push(what);
        }
    }

    pub fn violations(&self) -> Vec<String> {
        self.violations.lock().map(|violations| violations.clone()).unwrap_or_default()
    }

    /// Sleeps up to `ms`, less if the round ends.
    pub fn pause(&self, ms: u64) {
        for _ in 0..ms.div_ceil(10) {
            if !self.running() {
                return;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// Why a statement gave no answer.
#[derive(Debug, PartialEq, Eq)]
pub enum Stop {
    /// The transaction met another one and was given up; the session goes on.
    Conflict,
    /// The session is over, because the server is, or because a violation was noted.
    Ended,
}

/// A client's connection for one round.
pub struct Session<'a> {
    pub round: &'a Round,
    name: String,
    client: Client,
}

impl<'a> Session<'a> {
    pub fn open(round: &'a Round, name: &str) -> Result<Self, Stop> {
        match Client::connect_within(round.port, Some(PATIENCE)) {
            Ok(client) => Ok(Self { round, name: name.to_owned(), client }),
            Err(message) => Err(judge(round, name, "connecting", &message)),
        }
    }

    /// Runs a statement for its effect.
    pub fn run(&mut self, sql: &str) -> Result<(), Stop> {
        let begun = Instant::now();
        self.client.query(sql).map(|_| self.took(begun)).map_err(|message| judge(self.round, &self.name, sql, &message))
    }

    /// Runs a query for its rows.
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Row>, Stop> {
        let begun = Instant::now();
        self.client
            .rows(sql)
            .inspect(|_| self.took(begun))
            .map_err(|message| judge(self.round, &self.name, sql, &message))
    }

    fn took(&self, begun: Instant) {
        self.round.slowest_us.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
    }

    /// Runs a transaction's statements and, if it is `Ok(true)`, commits: whether it did.
    /// A conflict is rolled back and answers false.
    ///
    /// # Errors
    /// [`Stop::Ended`], after which the commit is in doubt if `asked` was set.
    pub fn transaction(
        &mut self,
        asked: &mut bool,
        body: impl FnOnce(&mut Self) -> Result<bool, Stop>,
    ) -> Result<bool, Stop> {
        self.run("begin")?;
        match body(self) {
            Ok(true) => {
                *asked = true;
                match self.run("commit") {
                    Ok(()) => {
                        self.round.commits.fetch_add(1, Ordering::Relaxed);
                        return Ok(true);
                    }
                    Err(Stop::Conflict) => *asked = false,
                    Err(Stop::Ended) => return Err(Stop::Ended),
                }
            }
            Ok(false) => {
                self.round.rollbacks.fetch_add(1, Ordering::Relaxed);
            }
            Err(Stop::Conflict) => {
                self.round.conflicts.fetch_add(1, Ordering::Relaxed);
            }
            Err(Stop::Ended) => return Err(Stop::Ended),
        }
        self.run("rollback")?;
        Ok(false)
    }
}

/// Sorts a failure by what the server said and by the phase of the round.
fn judge(round: &Round, name: &str, sql: &str, message: &str) -> Stop {
    if is_conflict(message) {
        return Stop::Conflict;
    }
    if message.starts_with("ERROR 58030") {
        let failing = round.failing.load(Ordering::SeqCst);
        // What a CHECKPOINT is to write has no place; a segment that is being restored cannot be written (known-issues.md).
        // All else waits.
        if failing == DEAD && (sql == "checkpoint" || message.contains("could not be restored")) {
            return Stop::Conflict;
        }
        // Whoever needs a page needs room for it, too, which may take a write. A commit needs none.
        if failing != 0 && failing != DEAD && sql != "commit" {
            return Stop::Conflict;
        }
    }
    if round.phase() != Phase::Dying {
        let sql: String = sql.chars().take(200).collect();
        round.violation(format!("{name}: \"{sql}\" failed while the server was to serve: {message}"));
    }
    Stop::Ended
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_count_until_the_end_is_announced() {
        let round = Round::new(1);
        assert_eq!(judge(&round, "a", "x", "ERROR 40P01: deadlock detected"), Stop::Conflict);
        assert!(round.violations().is_empty());
        round.failing.store(1, Ordering::SeqCst);
        assert_eq!(judge(&round, "a", "x", "ERROR 58030: could not read"), Stop::Conflict);
        assert!(round.violations().is_empty());
        round.enter(Phase::Dying);
        round.failing.store(DEAD, Ordering::SeqCst);
        assert_eq!(judge(&round, "a", "checkpoint", "ERROR 58030: could not write"), Stop::Conflict);
        assert_eq!(judge(&round, "a", "x", "ERROR 58030: could not write"), Stop::Ended);
        round.enter(Phase::Running);
        round.failing.store(0, Ordering::SeqCst);
        assert_eq!(judge(&round, "a", "x", "ERROR XX001: damaged"), Stop::Ended);
        assert_eq!(round.violations().len(), 1);
        round.enter(Phase::Finishing);
        assert_eq!(judge(&round, "a", "x", "connection reset"), Stop::Ended);
        assert_eq!(round.violations().len(), 2);
        round.enter(Phase::Dying);
        assert_eq!(judge(&round, "a", "x", "connection reset"), Stop::Ended);
        assert_eq!(round.violations().len(), 2);
    }
}
