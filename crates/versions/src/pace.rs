//! How fast the cleaner goes: a bound on pages a second for all threads together, and a
//! share of its time that each thread works (Constant Time Recovery, section 3.7.1: "only
//! a limited amount of resources").
//!
//! Whoever bounds the cleaner must not let it fall behind for good. So the pace rises by
//! itself with what there is to clean: from the threshold on in proportion, and from four
//! times the threshold on there is no bound. The reason is there for operators to see.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::progress::{Pace, PaceReason};

/// From this many times a threshold on there is no bound.
const UNBOUNDED_FROM: f64 = 4.0;
/// How often the pressure is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest sleep without a look at whether to stop.
const NAP: Duration = Duration::from_millis(10);
/// Work between two pauses, at least.
const STRETCH: Duration = Duration::from_millis(2);

/// Settings of the pace, and the thresholds from which it rises.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PaceSettings {
    /// Pages a second, all threads together; 0 = unlimited.
    pub pages_per_second: u64,
    /// Share of its time that each thread works, 1 to 100.
    pub cpu_percent: u32,
    /// Off-row versions, in bytes, from which it goes faster.
    pub version_bytes: u64,
    /// Ids in the aborted-transaction map from which it goes faster.
    pub aborted_ids: u64,
    /// Age of the oldest aborted transaction from which it goes faster.
    pub aborted_age: Duration,
}

/// What there is to clean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pressure {
    pub version_bytes: u64,
    pub aborted_ids: u64,
    pub aborted_age: Duration,
}

impl PaceSettings {
    /// The pace under a pressure; `asked` = somebody waits for the sweep.
    pub fn pace(&self, pressure: &Pressure, asked: bool) -> Pace {
        if asked {
            return Pace { pages_per_second: 0, cpu_percent: 100, reason: PaceReason::Asked };
        }
        let share = |value: f64, from: f64| if from > 0.0 { value / from } else { 0.0 };
        let (reason, most) = [
            (PaceReason::VersionStore, share(pressure.version_bytes as f64, self.version_bytes as f64)),
            (PaceReason::AbortedMap, share(pressure.aborted_ids as f64, self.aborted_ids as f64)),
            (PaceReason::AbortedAge, share(pressure.aborted_age.as_secs_f64(), self.aborted_age.as_secs_f64())),
        ]
        .into_iter()
        .fold((PaceReason::Settings, 0.0), |most, one| if one.1 > most.1 { one } else { most });
        let cpu_percent = self.cpu_percent.clamp(1, 100);
        if most < 1.0 {
            return Pace { pages_per_second: self.pages_per_second, cpu_percent, reason: PaceReason::Settings };
        }
        if most >= UNBOUNDED_FROM {
            return Pace { pages_per_second: 0, cpu_percent: 100, reason };
        }
        // Twice the settings at the threshold, eight times just below the end of the bound.
        let faster = 2.0 * most;
        Pace {
            pages_per_second: (self.pages_per_second as f64 * faster) as u64,
            cpu_percent: ((f64::from(cpu_percent) * faster) as u32).min(100),
            reason,
        }
    }
}

/// The pace of the sweep that runs, shared by its threads.
#[derive(Default)]
pub(crate) struct Pacer {
    /// Callers that wait for the sweep.
    asked: AtomicU64,
    now: Mutex<(Pace, Option<Instant>)>,
    /// When the next page is due.
    due: Mutex<Option<Instant>>,
}

/// A caller that waits for the sweep; as long as there is one it is not paced.
pub(crate) struct Asking<'p>(&'p Pacer);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asked.fetch_sub(1, Ordering::SeqCst);
        self.0.look_again();
    }
}

impl Pacer {
    pub fn ask(&self) -> Asking<'_> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.look_again();
        Asking(self)
    }
    fn look_again(&self) {
        self.now.lock().1 = None;
    }
    /// The pace now; the pressure is looked at now and then.
    pub fn pace(&self, settings: &PaceSettings, pressure: &dyn Fn() -> Pressure) -> Pace {
        let mut now = self.now.lock();
        if now.1.is_none_or(|at| at.elapsed() >= LOOK_EVERY) {
            let asked = self.asked.load(Ordering::SeqCst) > 0;
            *now = (settings.pace(&pressure(), asked), Some(Instant::now()));
        }
        now.0
    }
    /// When a thread may visit `pages` more: the turn of the next one is after that.
    fn turn(&self, pace: Pace, pages: u64) -> Option<Instant> {
        if pace.pages_per_second == 0 {
            return None;
        }
        let mut due = self.due.lock();
        let now = Instant::now();
        // What was not used up does not add up.
        let at = due.map_or(now, |due| due.max(now));
        *due = Some(at + Duration::from_secs_f64(pages as f64 / pace.pages_per_second as f64));
        Some(at)
    }
}

/// One thread's part in keeping the pace.
pub(crate) struct Stride<'p> {
    pacer: &'p Pacer,
    since: Instant,
}

impl<'p> Stride<'p> {
    pub fn new(pacer: &'p Pacer) -> Self {
        Self { pacer, since: Instant::now() }
    }
    /// Called after `pages` pages, with nothing latched: sleeps as long as the pace asks for.
    /// Ends at once when `stop` says so or somebody asks for the sweep.
    pub fn keep(&mut self, pages: u64, pace: impl Fn() -> Pace, stop: &dyn Fn() -> bool) {
        let begun = pace();
        if begun.pages_per_second == 0 && begun.cpu_percent >= 100 {
            self.since = Instant::now();
            return;
        }
        let mut until = self.pacer.turn(begun, pages);
        let worked = self.since.elapsed();
        if begun.cpu_percent < 100 && worked >= STRETCH {
            let rest = worked.mul_f64(f64::from(100 - begun.cpu_percent) / f64::from(begun.cpu_percent.max(1)));
            let at = Instant::now() + rest;
            until = Some(until.map_or(at, |due| due.max(at)));
        } else if until.is_none() {
            return;
        }
        while let Some(left) = until.and_then(|at| at.checked_duration_since(Instant::now()))
            && !left.is_zero()
            && !stop()
            && self.pacer.asked.load(Ordering::SeqCst) == 0
        {
            std::thread::sleep(left.min(NAP));
        }
        self.since = Instant::now();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SETTINGS: PaceSettings = PaceSettings {
        pages_per_second: 1000,
        cpu_percent: 50,
        version_bytes: 1 << 20,
        aborted_ids: 100,
        aborted_age: Duration::from_secs(60),
    };

    #[test]
    fn the_pace_rises_with_the_pressure_and_says_why() {
        let of = |version_bytes, aborted_ids, seconds| {
            let aborted_age = Duration::from_secs(seconds);
            SETTINGS.pace(&Pressure { version_bytes, aborted_ids, aborted_age }, false)
        };
        let pace = |pages_per_second, cpu_percent, reason| Pace { pages_per_second, cpu_percent, reason };
        assert_eq!(of(0, 0, 0), pace(1000, 50, PaceReason::Settings));
        assert_eq!(of((1 << 20) - 1, 99, 59), pace(1000, 50, PaceReason::Settings));
        assert_eq!(of(1 << 20, 99, 59), pace(2000, 100, PaceReason::VersionStore));
        assert_eq!(of(0, 300, 0), pace(6000, 100, PaceReason::AbortedMap));
        assert_eq!(of(0, 300, 240), pace(0, 100, PaceReason::AbortedAge));
        assert_eq!(SETTINGS.pace(&Pressure::default(), true), pace(0, 100, PaceReason::Asked));
        let free = PaceSettings { pages_per_second: 0, ..SETTINGS };
        assert_eq!(free.pace(&Pressure::default(), false).pages_per_second, 0);
    }

    /// Turns are handed out at the rate asked for, whoever takes them; no clock is awaited.
    #[test]
    fn turns_follow_each_other() {
        let pacer = Pacer::default();
        let pace = SETTINGS.pace(&Pressure::default(), false);
        let first = pacer.turn(pace, 16).expect("bounded");
        let turns: Vec<Instant> = (0..10).map(|_| pacer.turn(pace, 16).expect("bounded")).collect();
        assert!(turns.windows(2).all(|w| w[1] - w[0] >= Duration::from_millis(16)), "16 pages at 1000 a second");
        assert!(turns[0] > first);
        assert_eq!(pacer.turn(Pace { pages_per_second: 0, ..pace }, 16), None);
    }

    #[test]
    fn nobody_is_kept_waiting_by_a_sweep_that_somebody_asked_for() {
        let pacer = Pacer::default();
        let slow = PaceSettings { pages_per_second: 1, ..SETTINGS };
        let pace = || pacer.pace(&slow, &Pressure::default);
        assert_eq!(pace().pages_per_second, 1);
        let asking = pacer.ask();
        assert_eq!(pace().reason, PaceReason::Asked);
        // Would take a thousand seconds.
        Stride::new(&pacer).keep(1000, pace, &|| false);
        drop(asking);
        assert_eq!(pace().reason, PaceReason::Settings);
        // Nor when it is to stop.
        Stride::new(&pacer).keep(1000, pace, &|| true);
        Stride::new(&pacer).keep(1000, pace, &|| true);
    }
}
