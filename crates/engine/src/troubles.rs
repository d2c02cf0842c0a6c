//! What fails in the background just now, for operators: it is tried again until it succeeds.
//!
//! What an error means depends on the file it is of:
//!
//! | file | read | write | sync |
//! |---|---|---|---|
//! | log | the reader's error; tried again | stops the database | stops the database |
//! | data file, version store | the reader's error; tried again | tried again: the double-write area has the pages | stops the database |
//! | double-write area | at an open only: it fails | tried again: nothing of the batch is in place | tried again: all of it is written anew |
//! | control file | at an open only: it fails | tried again on the same copy: the other one is good | as a write |
//! | archive | tried again | tried again, from the end of the last durable run | as a write |
//!
//! A device that does not answer is waited for; one of pages for a time that is set, where there is something to take its place.
//!
//! *Stops*: what is on the disk is not known, so nothing is acknowledged any more, and a restart
//! recovers from what is really there. *Tried again*: after pauses from [`PAUSE_MIN`] to [`PAUSE_MAX`],
//! so that work goes on soon after the device does. Meanwhile the log grows to its bound, where
//! writers wait.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::Error;

use crate::database::Database;

/// Something that is tried again.
#[derive(Clone, Debug)]
pub struct Trouble {
    /// What fails, in words.
    pub what: &'static str,
    /// The last error.
    pub error: String,
    /// Since when, and how often it was tried.
    pub since: Duration,
    pub times: u64,
    /// While it fails the log cannot become shorter: writers will wait in the end.
    pub keeps_log: bool,
}

struct Entry {
    what: &'static str,
    error: String,
    since: Instant,
    said: Instant,
    times: u64,
}

/// First and longest pause before the next try.
const PAUSE_MIN: Duration = Duration::from_millis(100);
const PAUSE_MAX: Duration = Duration::from_secs(2);
/// Between two lines in the log about the same.
const SAID_EVERY: Duration = Duration::from_secs(30);

/// What the log waits for.
const KEEP_LOG: [&str; 6] = [
    crate::background::DEVICE,
    crate::background::WRITE_BACK,
    crate::background::CHECKPOINT,
    crate::background::REDO,
    crate::background::ARCHIVE,
    crate::background::RESTORE,
];

/// All that there are.
#[derive(Default)]
pub(crate) struct Troubles(Mutex<Vec<Entry>>);

impl Troubles {
    /// `what` failed; returns how long to wait before the next try.
    pub fn failed(&self, what: &'static str, error: &Error) -> Duration {
        let mut entries = self.0.lock();
        let now = Instant::now();
        let Some(entry) = entries.iter_mut().find(|entry| entry.what == what) else {
            tracing::error!("{what} failed, and is tried again: {error}");
            entries.push(Entry { what, error: error.to_string(), since: now, said: now, times: 1 });
            return PAUSE_MIN;
        };
        entry.error = error.to_string();
        entry.times += 1;
        if entry.said.elapsed() >= SAID_EVERY {
            entry.said = now;
            tracing::error!("{what} has failed {} times in {:.0?}: {error}", entry.times, entry.since.elapsed());
        }
        PAUSE_MIN.saturating_mul(1 << entry.times.min(8)).min(PAUSE_MAX)
    }

    /// `what` succeeded.
    pub fn over(&self, what: &'static str) {
        let mut entries = self.0.lock();
        if let Some(at) = entries.iter().position(|entry| entry.what == what) {
            let entry = entries.swap_remove(at);
            tracing::info!("{what} goes on, after {} failures in {:.1?}", entry.times, entry.since.elapsed());
        }
    }
}

impl Database {
    /// What fails in the background just now and is tried again, the longest first. Empty when all
    /// is well. What has stopped the database [`Database::check_running`] says.
    pub fn troubles(&self) -> Vec<Trouble> {
        let entries = self.inner().troubles.0.lock();
        let of = |entry: &Entry| Trouble {
            what: entry.what,
            error: entry.error.clone(),
            since: entry.since.elapsed(),
            times: entry.times,
            keeps_log: KEEP_LOG.contains(&entry.what),
        };
        let mut all: Vec<_> = entries.iter().map(of).collect();
        all.sort_unstable_by_key(|trouble| std::cmp::Reverse(trouble.since));
        all
    }
}
