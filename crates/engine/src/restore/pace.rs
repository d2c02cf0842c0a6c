//! How fast the background pass of a restore goes: as fast as it can while there are processors to spare, and with a share
//! of them where others want them, so that a restore is not felt (Instant restore, section 5.3: transactions go before the
//! restore of what nobody has asked for).
//!
//! Whether they are wanted, the pass's own threads tell, which are of low priority: how long they were ready to run and had
//! to wait. That holds in a container as well, and whoever else wants the processors. Where the system does not tell,
//! nothing but the priority holds the pass back.
//!
//! Nothing is at risk for longer by it: log, archive and backup have everything. What is asked for is restored at once.

use std::time::Duration;

use parking_lot::Mutex;
use resurgam_vfs::ProcessorTime;

/// Others want the processors when the pass waits for this share of the time in which it could run, and no longer when it
/// waits for less than that.
const WANTED: f64 = 0.2;
const SPARE: f64 = 0.05;
/// Longest rest between two steps.
const REST_MAX: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Pace {
    /// Most of all processors' time while others want them, as a fraction.
    share: f64,
    processors: f64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Share of the time ready to run that was waited, the last steps counting most.
    waited: f64,
    steps_back: bool,
    rest: Duration,
    rested: Duration,
}

impl Pace {
    /// `percent` of all processors' time while others want them: 100 never rests.
    pub fn new(percent: u32, processors: usize) -> Self {
        let share = f64::from(percent.clamp(1, 100)) / 100.0;
        Self { share, processors: processors.max(1) as f64, state: Mutex::default() }
    }

    /// A step of the pass has taken `took`, and its threads together `used`.
    pub fn worked(&self, used: ProcessorTime, took: Duration) {
        let ready = (used.ran + used.waited).as_secs_f64();
        if ready <= 0.0 {
            return;
        }
        let mut state = self.state.lock();
        state.waited = (state.waited + used.waited.as_secs_f64() / ready) / 2.0;
        state.steps_back = state.waited > if state.steps_back { SPARE } else { WANTED };
        let due = match state.steps_back && self.share < 1.0 {
            true => Duration::from_secs_f64(used.ran.as_secs_f64() / (self.share * self.processors)),
            false => Duration::ZERO,
        };
        state.rest = due.saturating_sub(took).min(REST_MAX);
    }

    /// Whether others want the processors: then steps are short.
    pub fn steps_back(&self) -> bool {
        self.share < 1.0 && self.state.lock().steps_back
    }

    /// How long the pass is to rest before its next step; it counts as rested.
    pub fn take_rest(&self) -> Duration {
        let mut state = self.state.lock();
        let rest = std::mem::take(&mut state.rest);
        state.rested += rest;
        rest
    }

    /// How long it has rested for others, altogether.
    pub fn rested(&self) -> Duration {
        self.state.lock().rested
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }
    fn used(ran: u64, waited: u64) -> ProcessorTime {
        ProcessorTime { ran: ms(ran), waited: ms(waited) }
    }

    #[test]
    fn it_rests_where_others_want_the_processors() {
        let pace = Pace::new(5, 2);
        pace.worked(used(100, 3), ms(52));
        assert_eq!((pace.steps_back(), pace.take_rest()), (false, ms(0)), "it has them to itself");
        pace.worked(used(9, 9), ms(10));
        assert!(pace.steps_back());
        // 9 ms of processors are a twentieth of two of them in 90 ms, of which 10 have passed.
        assert_eq!((pace.take_rest(), pace.take_rest()), (ms(80), ms(0)));
        // One that has rested is run soon: that alone is no reason to believe that nobody wants them.
        pace.worked(used(9, 1), ms(10));
        assert_eq!((pace.steps_back(), pace.take_rest()), (true, ms(80)));
        for _ in 0..4 {
            pace.worked(used(9, 0), ms(5));
        }
        assert_eq!((pace.steps_back(), pace.take_rest()), (false, ms(0)), "nobody does any more");
        assert_eq!(pace.rested(), ms(160));
        pace.worked(used(1000, 5000), ms(1000));
        assert_eq!(pace.take_rest(), REST_MAX);
    }

    #[test]
    fn it_does_not_rest_where_it_may_have_all_or_nothing_is_known() {
        let pace = Pace::new(100, 2);
        pace.worked(used(9, 90), ms(50));
        assert_eq!((pace.steps_back(), pace.take_rest()), (false, ms(0)));
        let pace = Pace::new(5, 2);
        pace.worked(ProcessorTime::default(), ms(50));
        assert_eq!((pace.steps_back(), pace.take_rest()), (false, ms(0)));
    }
}
