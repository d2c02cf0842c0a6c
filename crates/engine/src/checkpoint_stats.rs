//! How often checkpoints are taken, how long they take, and when the last one was.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// Checkpoints since the database was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckpointStats {
    /// Taken to their end.
    pub taken: u64,
    /// Begun and not brought to an end: the disk was full, or failed.
    pub failed: u64,
    /// Time spent on those that were taken.
    pub time_total: Duration,
    /// The longest of them.
    pub time_max: Duration,
    /// How long ago the last one ended; none: none was taken since the open.
    pub last_ago: Option<Duration>,
}

#[derive(Default)]
struct Counts {
    stats: CheckpointStats,
    last: Option<Instant>,
}

/// Counts them.
#[derive(Default)]
pub(crate) struct CheckpointCounter(Mutex<Counts>);

impl CheckpointCounter {
    /// A checkpoint that began at `begun` has ended, well or not.
    pub fn note(&self, begun: Instant, taken: bool) {
        let mut counts = self.0.lock();
        if !taken {
            counts.stats.failed += 1;
            return;
        }
        let time = begun.elapsed();
        counts.stats.taken += 1;
        counts.stats.time_total += time;
        counts.stats.time_max = counts.stats.time_max.max(time);
        counts.last = Some(Instant::now());
    }

    pub fn read(&self) -> CheckpointStats {
        let counts = self.0.lock();
        CheckpointStats { last_ago: counts.last.map(|at| at.elapsed()), ..counts.stats }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_counted_apart() {
        let counter = CheckpointCounter::default();
        assert_eq!(counter.read(), CheckpointStats::default());
        counter.note(Instant::now(), false);
        counter.note(Instant::now(), true);
        let stats = counter.read();
        assert_eq!((stats.taken, stats.failed), (1, 1));
        assert!(stats.last_ago.is_some());
    }
}
