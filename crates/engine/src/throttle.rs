//! The bound of the log: writers are slowed down as it comes near, and wait at it.
//!
//! ```text
//! 0 ........ wanted ............ 3/4 ............ 7/8 ............ bound
//!            pages are written,  writers pause,   writers and      commits, rollbacks,
//!            checkpoints taken   longer and       the cleaner      checkpoints: what
//!            for the log's sake  longer           wait             must go on
//! ```
//!
//! *Writers* are all who write rows, definitions and whatever else the catalog has, and values of sequences.
//! Whoever waits here has nothing latched or locked that others need to go on, and has written nothing of the row in hand (or of the
//! definition's part); what shortens the log (write-back, checkpoints, pages that are set aside) needs no writer. So the wait ends when the disk
//! has caught up. Where that takes longer than [`Options::log_wait_max`](crate::Options::log_wait_max)
//! the write fails, and its transaction may be rolled back: in the traditional mode it may be the one
//! that holds the log. Where somebody outside holds the log (a holder, `log/src/holds.rs`: the archive), no
//! write fails: it waits until that one has caught up, or its statement is cancelled. But an archive that is refused
//! (another process has taken it over; it is another database's) catches up when an operator does something about it,
//! and not before: then the write fails after the same time, with an error that says what to do.
//!
//! What is counted is the log from the oldest position that is kept to its end. On the disk are
//! besides the rest of the last segment and the segments that were made ready, and in the traditional mode what
//! unfinished transactions need to be undone, and what undoing them logs: it does not wait, since nobody else gives their log
//! back. For a change it is a record of some 100 bytes and what the change has replaced, which is in the change's own record as well: at most
//! a third more than that (`tests/transactions/log_bytes.rs`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_log::LogHolder;

use crate::archiver::HOLDER;
use crate::database::Database;
use crate::transaction::Transaction;

/// A bound below so many segments cannot be held: the log goes by the segment.
const SEGMENTS_MIN: u64 = 6;
/// Between two looks of who waits.
const LOOK: Duration = Duration::from_millis(10);
const SAID_EVERY: Duration = Duration::from_secs(10);

/// What is known of writers that were slowed down.
#[derive(Default)]
pub(crate) struct Throttle {
    times: AtomicU64,
    said: Mutex<Option<Instant>>,
}

impl Database {
    /// Called before a row is written, of a table or of the catalog, with nothing latched: when the log comes near its bound
    /// writers are slowed down, the more the nearer, so that write-back and checkpoints catch
    /// up; at the bound they wait.
    ///
    /// # Errors
    /// `DiskFull` after [`Options::log_wait_max`](crate::Options::log_wait_max), or `ConfigurationLimitExceeded` when
    /// the archive holds the log and is refused; that of the transaction's interrupt; `Stopped`.
    #[inline]
    pub(crate) fn throttle(&self, tx: &Transaction) -> Result<()> {
        if !self.inner().options.background {
            // Whoever gets no page will say so.
            let _ = self.make_version_pages_ready();
            return Ok(());
        }
        let used = self.log_counted();
        if used > self.log_wanted() { self.near_bound(used, tx) } else { Ok(()) }
    }

    /// Whether what may be left undone may be logged.
    pub(crate) fn has_log_room(&self) -> bool {
        self.log_counted() <= self.log_wanted()
    }

    /// The log that counts, in bytes.
    fn log_counted(&self) -> u64 {
        let inner = self.inner();
        let used = inner.log.bytes_in_use();
        if inner.mode.is_traditional() && used > self.log_wanted() {
            let end = inner.log.end_lsn().0;
            let held = self.log_held_by_pages();
            let held = inner.log.lowest_holder().map_or(held, |holder| held.max(end.saturating_sub(holder.lsn.0)));
            let begin = end.saturating_sub(held);
            // What a transaction's undo holds does not go for waiting. (Nor does the rest of the segment
            // that holds the begin.)
            if self.oldest_undo().is_some_and(|(_, lsn)| lsn.0 < begin) {
                return held;
            }
        }
        used
    }

    /// Most log, in bytes.
    fn log_bound(&self) -> u64 {
        let inner = self.inner();
        inner.options.log_bytes_max.max(SEGMENTS_MIN * inner.log.config().segment_bytes)
    }

    /// Where writers wait.
    fn log_stop(&self) -> u64 {
        let bound = self.log_bound();
        bound - bound / 8
    }

    /// Log that background work tries not to exceed, in bytes.
    pub(crate) fn log_wanted(&self) -> u64 {
        self.inner().options.log_bytes_wanted.min(self.log_bound() / 8 * 5)
    }

    #[cold]
    fn near_bound(&self, used: u64, tx: &Transaction) -> Result<()> {
        let inner = self.inner();
        inner.pool.wake_writer();
        let bound = self.log_bound();
        let free = bound - bound / 4;
        if used <= free {
            return Ok(());
        }
        inner.throttle.times.fetch_add(1, Ordering::Relaxed);
        let over = (used - free) as f64 / (bound / 4).max(1) as f64;
        let pause = Duration::from_secs_f64((0.000_1 + over * over * 0.02).min(0.05));
        (inner.options.blocking)(&mut || std::thread::sleep(pause));
        if used < self.log_stop() {
            return Ok(());
        }
        let mut outcome = Ok(());
        (inner.options.blocking)(&mut || outcome = self.wait_for_log(&|| tx.check_interrupt()));
        outcome
    }

    /// Whether writers wait now: the log is at its bound.
    pub fn writers_wait(&self) -> bool {
        self.inner().options.background && self.log_counted() >= self.log_stop()
    }

    /// Who holds the log, if it would be below its bound otherwise.
    fn held_by_another(&self) -> Option<LogHolder> {
        let inner = self.inner();
        let holder = inner.log.lowest_holder()?;
        let end = inner.log.end_lsn();
        let needed = inner.pool.oldest_rec_lsn_seen().unwrap_or(end).min(self.last_checkpoint());
        is_alone(holder.lsn, needed, end, inner.log.config().segment_bytes, self.log_stop()).then_some(holder)
    }

    /// Why the archive takes no more log, if it is refused and holds the log.
    fn refused_archive(&self, holder: &LogHolder) -> Option<Error> {
        let archiver = self.inner().archiver.as_ref().filter(|_| holder.name == HOLDER)?;
        let why = archiver.refusal()?;
        Some(
            Error::new(
                ErrorKind::ConfigurationLimitExceeded,
                format!(
                    "the log has reached its bound of {} MB, and is kept for {}, which is refused",
                    self.log_bound() >> 20,
                    archiver.place()
                ),
            )
            .with_detail(why)
            .with_hint(
                "See to it that no other server writes to that archive, and restart this one; or restart it with another, \
                 empty place for its archive, which then begins with the log that is kept.",
            ),
        )
    }

    /// Waits until the log is shorter, or `interrupt` says to stop.
    fn wait_for_log(&self, interrupt: &dyn Fn() -> Result<()>) -> Result<()> {
        let inner = self.inner();
        let mut begun = Instant::now();
        loop {
            let used = self.log_counted();
            if used < self.log_stop() {
                return Ok(());
            }
            self.check_running()?;
            interrupt()?;
            self.say_waiting(used);
            if let Some(holder) = self.held_by_another() {
                match self.refused_archive(&holder) {
                    Some(error) if begun.elapsed() >= inner.options.log_wait_max => return Err(error),
                    Some(_) => {}
                    // A holder that lags slows writers down; it fails none of them.
                    None => begun = Instant::now(),
                }
            } else if begun.elapsed() >= inner.options.log_wait_max {
                return Err(Error::new(
                    ErrorKind::DiskFull,
                    format!("the log has reached its bound of {} MB", self.log_bound() >> 20),
                )
                .with_detail(format!("It is held by {}.", self.log_status().held_by))
                .with_hint("Writing changed pages is slower than changing them, or fails: see the server's log."));
            }
            inner.pool.wake_writer();
            std::thread::sleep(LOOK);
        }
    }

    fn say_waiting(&self, used: u64) {
        let mut said = self.inner().throttle.said.lock();
        if said.is_none_or(|at| at.elapsed() > SAID_EVERY) {
            *said = Some(Instant::now());
            tracing::warn!(
                "the log takes {} MB of {} MB at most; writers are slowed down, and wait. It is held by {}",
                used >> 20,
                self.log_bound() >> 20,
                self.log_status().held_by
            );
            let refusal = self.inner().archiver.as_ref().and_then(|archiver| archiver.refusal());
            if let Some(why) = refusal {
                tracing::error!("the log is kept for an archive that is refused, until somebody sees to it: {why}");
            }
        }
    }

    /// The cleaner's work can wait, and must: it is log as well. Returns when there is room, or `stop`.
    pub(crate) fn cleaner_waits(&self, stop: &dyn Fn() -> bool) {
        while self.inner().options.background && self.log_counted() >= self.log_stop() && !stop() {
            if self.check_running().is_err() {
                return;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Times a writer was slowed down because the log was near its bound.
    pub(crate) fn slowed(&self) -> u64 {
        self.inner().throttle.times.load(Ordering::Relaxed)
    }
}

/// Whether the log, which ends at `end`, would be shorter than `stop` without a holder at `holder`: all else needs it from
/// `needed` on. (What is needed may have been looked up later than the end.)
fn is_alone(holder: Lsn, needed: Lsn, end: Lsn, segment_bytes: u64, stop: u64) -> bool {
    holder < needed && end.0.saturating_sub(needed.0) + segment_bytes < stop
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_that_keeps_the_log_alone() {
        let alone = |holder, needed, end| is_alone(Lsn(holder), Lsn(needed), Lsn(end), 100, 1000);
        assert!(alone(10, 5000, 5500));
        assert!(!alone(10, 5000, 5950), "it would be too long all the same");
        assert!(!alone(5000, 5000, 5500), "others need as much");
        assert!(alone(10, 5600, 5500), "the log went on between the two looks");
    }
}
