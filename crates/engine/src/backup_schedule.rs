//! Backups that nobody has asked for: one whenever the newest one is older than [`Options::backup_interval`](crate::Options::backup_interval).
//!
//! What is in the place of backups says when the next one is due, so a restart neither forgets nor doubles one, and a backup that
//! somebody asks for counts as well, whoever makes it. A backup after the first is made from the one before and the archive: the data device is not read,
//! and neither are page servers. Where that fails, or pages could not be made of them, the next one reads the files, if there
//! are any.

use std::time::{Duration, Instant};

use resurgam_base::{ErrorKind, Result};

use crate::backup::PlantedInBackup;
use crate::database::Database;

pub(crate) const BACKUP: &str = "making the backup that is due";

/// After one that was not made, or was made of the archive and lacks pages, the next one is tried so soon; then later and later.
const AGAIN: Duration = Duration::from_secs(60);
const AGAIN_MAX: Duration = Duration::from_secs(3600);
/// One that is said to have been finished so much later than now, in microseconds, was finished by a clock that was wrong.
const AHEAD_US: i64 = 3600 * 1_000_000;

/// What is known of the past ones.
#[derive(Debug, Default)]
pub(crate) struct BackupSchedule {
    /// Not before this, whatever the place says: the last one was made here, or somebody else's was under way.
    not_before: Option<Instant>,
    /// The last one was made from the archive and was no good.
    reads_files: bool,
    /// Those that were not made, in a row.
    failed: u32,
    /// When the last complete one was finished, as it was found in the place, in microseconds.
    finished: Option<i64>,
}

/// How the next one is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    Files,
    Archive,
}

impl BackupSchedule {
    fn waits(&self) -> bool {
        self.not_before.is_some_and(|at| Instant::now() < at)
    }

    /// Whether the one that was finished then, or none, is too old. One of the future is, too: a clock was wrong, and is not believed again.
    fn is_due(finished: Option<i64>, interval: Duration, now_us: i64) -> bool {
        let Some(finished) = finished.filter(|finished| *finished <= now_us.saturating_add(AHEAD_US)) else {
            return true;
        };
        Duration::from_micros(u64::try_from(now_us.saturating_sub(finished)).unwrap_or(0)) >= interval
    }

    /// How the next one is made; `has_base`: there is one that it could be made of, or a database whose clone this is.
    fn next(&self, has_base: bool) -> From {
        if has_base && !self.reads_files { From::Archive } else { From::Files }
    }

    /// One was made, and lacks so many pages; or the error.
    fn ended(&mut self, from: From, interval: Duration, damaged: Result<u64, ErrorKind>) {
        self.failed = if damaged.is_ok() { 0 } else { self.failed + 1 };
        // Where the store does not answer, or the archive lags, another way helps nothing, and the next one goes on with this one.
        let is_no_good = match damaged {
            Ok(damaged) => damaged > 0,
            Err(kind) => matches!(kind, ErrorKind::Corrupt | ErrorKind::NotInPrerequisiteState),
        };
        self.reads_files = from == From::Archive && is_no_good;
        let pause = match damaged {
            Err(_) => AGAIN.saturating_mul(1 << (self.failed - 1).min(10)).min(AGAIN_MAX),
            Ok(_) if self.reads_files => AGAIN,
            // What files and log do not have either stays like that.
            Ok(_) => interval,
        };
        self.not_before = Instant::now().checked_add(pause);
    }
}

impl Database {
    /// Makes a backup if one is due. Blocks until it is made, or the database is closed. `None`: it is not yet time to look.
    ///
    /// # Errors
    /// Those of [`Database::backup`] but `InUse`, and those of looking for the last one.
    pub(crate) fn backup_if_due(&self, schedule: &mut BackupSchedule) -> Option<Result<()>> {
        let (inner, interval) = (self.inner(), self.options().backup_interval);
        if schedule.waits() {
            return None;
        }
        let backups = inner.backups.as_deref()?;
        let now_us = inner.vfs.wall_clock_us();
        // The place is read only where what is known of it says that one is due.
        if !BackupSchedule::is_due(schedule.finished, interval, now_us) {
            return Some(Ok(()));
        }
        let (finished, has_whole) = match backups.last_finished(now_us.saturating_add(AHEAD_US)) {
            Ok(found) => found,
            Err(error) => return Some(Err(error)),
        };
        schedule.finished = finished;
        if !BackupSchedule::is_due(finished, interval, now_us) {
            return Some(Ok(()));
        }
        let from = schedule.next(has_whole || inner.lineage.is_some());
        let must_make_way = || backups.must_make_way();
        let outcome = self.backup_of(from == From::Archive, true, PlantedInBackup::None, &must_make_way);
        if let Err(error) = &outcome
            && matches!(error.kind(), ErrorKind::InUse | ErrorKind::Cancelled)
        {
            // When the one that was asked for is there it is the last one.
            schedule.not_before = Instant::now().checked_add(AGAIN);
            return None;
        }
        let damaged = outcome.as_ref().map(|made| made.summary().damaged).map_err(|error| error.kind());
        schedule.ended(from, interval, damaged);
        Some(outcome.map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const DAY_US: i64 = 86_400_000_000;

    #[test]
    fn one_is_due_when_the_last_is_old() {
        let is_due = BackupSchedule::is_due;
        assert!(is_due(None, DAY, 0), "the first one");
        assert!(!is_due(Some(5), DAY, DAY_US + 4) && is_due(Some(5), DAY, DAY_US + 5));
        assert!(!is_due(Some(AHEAD_US), DAY, 0), "the clock was set back a little");
        assert!(is_due(Some(AHEAD_US + 1), DAY, 0), "the clock was wrong");
        let schedule = BackupSchedule::default();
        assert_eq!((schedule.next(false), schedule.next(true)), (From::Files, From::Archive));
    }

    #[test]
    fn the_next_one_waits_and_goes_another_way_where_one_was_no_good() {
        let mut schedule = BackupSchedule::default();
        let waits = |schedule: &BackupSchedule, least: Duration, most: Duration| {
            let until = schedule.not_before.expect("it waits");
            assert!(until > Instant::now() + least && until <= Instant::now() + most, "{schedule:?}");
        };
        schedule.ended(From::Archive, DAY, Ok(0));
        assert!(schedule.waits() && !schedule.reads_files, "whatever the place says");
        // Pages could not be made.
        schedule.ended(From::Archive, DAY, Ok(1));
        waits(&schedule, AGAIN / 2, AGAIN);
        assert_eq!(schedule.next(true), From::Files);
        // They are not in the files either.
        schedule.ended(From::Files, DAY, Ok(1));
        waits(&schedule, DAY / 2, DAY);
        assert_eq!(schedule.next(true), From::Archive);
        // None was made: the other way, again and again, but not all the time.
        for (n, from) in [From::Archive, From::Files, From::Archive, From::Files].into_iter().enumerate() {
            assert_eq!(schedule.next(true), from);
            schedule.ended(from, DAY, Err(ErrorKind::Corrupt));
            waits(&schedule, AGAIN * (1 << n) / 2, AGAIN * (1 << n));
        }
        (0..40).for_each(|_| schedule.ended(From::Archive, DAY, Err(ErrorKind::Io)));
        waits(&schedule, AGAIN_MAX / 2, AGAIN_MAX);
        assert_eq!(schedule.next(true), From::Archive, "the store is away: it goes on with what is there");
        schedule.ended(From::Files, DAY, Ok(0));
        assert_eq!((schedule.failed, schedule.reads_files), (0, false));
    }
}
