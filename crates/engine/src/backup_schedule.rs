//! Backups that nobody has asked for: one whenever the newest one is older than [`Options::backup_interval`](crate::Options::backup_interval).
//!
//! What is in the place of backups says when the next one is due, so a restart neither forgets nor doubles one, and a backup that
//! somebody asks for counts as well. A backup after the first is made from the one before and the archive: the data device is not read,
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

/// What is known of the past ones.
#[derive(Debug, Default)]
pub(crate) struct BackupSchedule {
    /// Not before this, whatever the place says: the last one was made here, or somebody else's was under way.
    not_before: Option<Instant>,
    /// The last one was made from the archive and was no good.
    reads_files: bool,
    /// Those that were not made, in a row.
    failed: u32,
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

    /// Whether one is due, and of what it is made; `newest`: when the newest one was finished, in microseconds; `has_base`: there is one
    /// that it could be made of, or a database whose clone this is.
    fn due(&self, interval: Duration, newest: Option<i64>, has_base: bool, now_us: i64) -> Option<From> {
        // A clock that was set back makes none due; one that was set forward, one.
        let age = newest.map(|newest| Duration::from_micros(u64::try_from(now_us.saturating_sub(newest)).unwrap_or(0)));
        if age.is_some_and(|age| age < interval) {
            return None;
        }
        Some(if has_base && !self.reads_files { From::Archive } else { From::Files })
    }

    /// One was made, and lacks so many pages; none: it was not made.
    fn ended(&mut self, from: From, interval: Duration, damaged: Option<u64>) {
        self.failed = if damaged.is_some() { 0 } else { self.failed + 1 };
        self.reads_files = from == From::Archive && damaged != Some(0);
        let pause = match damaged {
            None => AGAIN.saturating_mul(1 << (self.failed - 1).min(10)).min(AGAIN_MAX),
            Some(_) if self.reads_files => AGAIN,
            // What files and log do not have either stays like that.
            Some(_) => interval,
        };
        self.not_before = Instant::now().checked_add(pause);
    }
}

impl Database {
    /// Makes a backup if one is due. Blocks until it is made, or the database is closed. `None`: none is due.
    ///
    /// # Errors
    /// Those of [`Database::backup`] but `InUse`, and those of looking for the newest one.
    pub(crate) fn backup_if_due(&self, schedule: &mut BackupSchedule) -> Option<Result<()>> {
        let (inner, interval) = (self.inner(), self.options().backup_interval);
        if schedule.waits() {
            return None;
        }
        let newest = match inner.backups.as_ref()?.newest() {
            Ok(newest) => newest,
            Err(error) => return Some(Err(error)),
        };
        let finished = newest.as_ref().map(|newest| newest.summary().finished_us);
        let has_base = newest.is_some() || inner.lineage.is_some();
        let from = schedule.due(interval, finished, has_base, inner.vfs.wall_clock_us())?;
        let outcome = self.backup_of(from == From::Archive, PlantedInBackup::None, &|| false);
        if outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::InUse) {
            // When it is there it is the newest one.
            schedule.not_before = Instant::now().checked_add(AGAIN);
            return None;
        }
        schedule.ended(from, interval, outcome.as_ref().ok().map(|made| made.summary().damaged));
        Some(outcome.map(drop))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(86_400);
    const DAY_US: i64 = 86_400_000_000;

    #[test]
    fn one_is_due_when_the_newest_is_old() {
        let schedule = BackupSchedule::default();
        assert_eq!(schedule.due(DAY, None, false, 0), Some(From::Files), "the first one");
        assert_eq!(schedule.due(DAY, None, true, 0), Some(From::Archive), "the first one of a clone");
        assert_eq!(schedule.due(DAY, Some(5), true, DAY_US + 4), None);
        assert_eq!(schedule.due(DAY, Some(5), true, DAY_US + 5), Some(From::Archive));
        assert_eq!(schedule.due(DAY, Some(DAY_US), true, 5), None, "the clock was set back");
    }

    #[test]
    fn the_next_one_waits_and_goes_another_way_where_one_was_no_good() {
        let mut schedule = BackupSchedule::default();
        let waits = |schedule: &BackupSchedule, least: Duration, most: Duration| {
            let until = schedule.not_before.expect("it waits");
            assert!(until > Instant::now() + least && until <= Instant::now() + most, "{schedule:?}");
        };
        schedule.ended(From::Archive, DAY, Some(0));
        assert!(schedule.waits() && !schedule.reads_files, "whatever the place says");
        // Pages could not be made.
        schedule.ended(From::Archive, DAY, Some(1));
        waits(&schedule, AGAIN / 2, AGAIN);
        assert_eq!(schedule.due(DAY, None, true, 0), Some(From::Files));
        // They are not in the files either.
        schedule.ended(From::Files, DAY, Some(1));
        waits(&schedule, DAY / 2, DAY);
        assert_eq!(schedule.due(DAY, None, true, 0), Some(From::Archive));
        // None was made: the other way, again and again, but not all the time.
        for (n, from) in [From::Archive, From::Files, From::Archive, From::Files].into_iter().enumerate() {
            assert_eq!(schedule.due(DAY, None, true, 0), Some(from));
            schedule.ended(from, DAY, None);
            waits(&schedule, AGAIN * (1 << n) / 2, AGAIN * (1 << n));
        }
        (0..40).for_each(|_| schedule.ended(From::Files, DAY, None));
        waits(&schedule, AGAIN_MAX / 2, AGAIN_MAX);
        schedule.ended(From::Files, DAY, Some(0));
        assert_eq!((schedule.failed, schedule.reads_files), (0, false));
    }
}
