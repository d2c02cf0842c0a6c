//! How fast work in the background goes that may take its time, the background pass of a restore and the merging of the archive's runs: as
//! fast as it can while there are processors to spare, and with a share of them where others want them, so that it is not felt
//! (Instant restore, section 5.3: transactions go before the restore of what nobody has asked for).
//!
//! What others want is what the whole machine does beside the work, its rests included. Below some of the processors the work takes what it can,
//! at its low priority; from there on less and less, down to its share where others want nearly all: how much that is, [`Yields`] says.
//! Where the system does not tell what it does, nothing but the priority holds the work back.
//!
//! Nothing is at risk for longer by it: log, archive and backup have everything. What somebody waits for is done at once, and not at a pace.

use std::time::Duration;

use parking_lot::Mutex;
use resurgam_vfs::MachineTime;

/// How soon the work steps back: what others have of the processors where it begins to take less than the rest, and where it takes its share
/// only.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Yields {
    some: f64,
    all: f64,
}

impl Yields {
    /// Where others hardly find a processor: of work whose end makes the database safe again.
    pub const LATE: Self = Self { some: 0.5, all: 0.9 };
    /// Where others are at work at all: nobody waits for the work, and there is a bound to what may wait for it. A transaction that waits for the
    /// disk wants a processor the moment it need not wait any more, so a machine that is half idle is not half free.
    pub const SOON: Self = Self { some: 0.1, all: 0.5 };
}

/// Looked at so far apart, at least: the system counts in hundredths of a second.
const LOOK: Duration = Duration::from_millis(100);
/// Longest rest between two steps.
const REST_MAX: Duration = Duration::from_secs(1);

/// See the module.
pub(crate) struct Pace {
    processors: f64,
    yields: Yields,
    state: Mutex<State>,
}

struct State {
    /// What the work may always have, as a fraction of all processors' time.
    share: f64,
    /// When the machine was looked at last, and what the work has had of it since.
    seen: Option<MachineTime>,
    ours: Duration,
    /// What the work may have now.
    allowed: f64,
    rest: Duration,
    rested: Duration,
}

impl Pace {
    /// `percent` of all processors' time is the work's share: 100 never rests.
    pub fn new(percent: u32, yields: Yields, processors: usize) -> Self {
        let share = share_of(percent);
        let (zero, seen) = (Duration::ZERO, None);
        // It begins with care: the machine may be at work, and a moment at full speed would be felt.
        let state = Mutex::new(State { share, seen, ours: zero, allowed: 0.0, rest: zero, rested: zero });
        Self { processors: processors.max(1) as f64, yields, state }
    }

    /// Its share from now on is `percent`: of work that must not fall behind.
    pub fn set_percent(&self, percent: u32) {
        self.state.lock().share = share_of(percent);
    }

    /// Its share now.
    #[cfg(test)]
    pub fn share(&self) -> f64 {
        self.state.lock().share
    }

    /// A step of the work has taken `took`, and `ran` of all processors; `machine` is what the machine has done until now.
    pub fn worked(&self, ran: Duration, took: Duration, machine: Option<MachineTime>) {
        let mut state = self.state.lock();
        state.ours += ran;
        let Some(now) = machine else {
            state.allowed = 1.0;
            return;
        };
        let before = *state.seen.get_or_insert(now);
        let (busy, all) = (now.busy.saturating_sub(before.busy), now.all.saturating_sub(before.all));
        if all >= LOOK.mul_f64(self.processors) {
            let others = busy.saturating_sub(state.ours).as_secs_f64() / all.as_secs_f64();
            // A look may meet a moment that is like no other.
            let Yields { some, all } = self.yields;
            let allowed = (state.allowed + ((all - others) / (all - some)).clamp(0.0, 1.0)) / 2.0;
            // Halving never comes to an end by itself.
            state.allowed = if allowed > 0.99 { 1.0 } else { allowed };
            (state.seen, state.ours) = (Some(now), Duration::ZERO);
        }
        let allowed = state.allowed.max(state.share);
        state.rest = match allowed < 1.0 {
            true => ran.div_f64(allowed * self.processors).saturating_sub(took).min(REST_MAX),
            false => Duration::ZERO,
        };
    }

    /// Whether others want the processors: then steps are short.
    pub fn steps_back(&self) -> bool {
        let state = self.state.lock();
        state.allowed.max(state.share) < 1.0
    }

    /// How long the work is to rest before its next step; it counts as rested.
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

fn share_of(percent: u32) -> f64 {
    f64::from(percent.clamp(1, 100)) / 100.0
}

/// Processors that this process may use.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, |n| n.get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A machine of two processors, and the pass in it.
    struct Machine {
        pace: Pace,
        now: MachineTime,
    }

    impl Machine {
        fn new(percent: u32) -> Self {
            Self { pace: Pace::new(percent, Yields::LATE, 2), now: MachineTime { busy: ms(1000), all: ms(9000) } }
        }
        /// A step and what follows: the pass has run for `ran` within `took`, others for `others`. Returns the rest.
        fn step(&mut self, ran: u64, took: u64, others: u64) -> Duration {
            self.now.busy += ms(ran + others);
            self.now.all += ms(2 * took);
            self.pace.worked(ms(ran), ms(took), Some(self.now));
            self.pace.take_rest()
        }
        /// The pass rests, and others run.
        fn rest(&mut self, took: u64, others: u64) {
            self.now.busy += ms(others);
            self.now.all += ms(2 * took);
        }
    }

    #[test]
    fn it_rests_where_others_want_the_processors() {
        let mut machine = Machine::new(5);
        assert!(machine.pace.steps_back());
        assert_eq!(machine.step(16, 10, 1), ms(150), "nothing is known yet");
        for _ in 0..8 {
            machine.rest(150, 2);
            machine.step(190, 100, 10);
        }
        assert_eq!((machine.step(190, 100, 10), machine.pace.steps_back()), (ms(0), false), "it has them to itself");
        assert_eq!(machine.step(110, 100, 90), ms(0), "and a half of them as well");
        assert_eq!((machine.step(60, 100, 140), machine.pace.steps_back()), (ms(0), true), "it has little anyway");
        for _ in 0..8 {
            machine.rest(150, 290);
            machine.step(8, 10, 12);
        }
        // 8 ms of processors are a twentieth of two of them in 80 ms, of which 10 have passed.
        machine.rest(150, 290);
        assert_eq!(machine.step(8, 10, 12), ms(70));
        assert!(machine.pace.rested() > ms(400));
        // Long work would have to rest for long.
        machine.rest(5000, 9900);
        assert_eq!(machine.step(190, 100, 10), REST_MAX);
        // Nobody wants them any more.
        for _ in 0..8 {
            machine.rest(100, 1);
            machine.step(190, 100, 10);
        }
        assert_eq!((machine.step(190, 100, 10), machine.pace.steps_back()), (ms(0), false));
    }

    #[test]
    fn work_that_yields_soon_rests_where_others_have_a_half() {
        let mut machine = Machine::new(1);
        for yields in [Yields::LATE, Yields::SOON] {
            machine.pace = Pace::new(1, yields, 2);
            for _ in 0..8 {
                machine.rest(200, 200);
                machine.step(10, 10, 10);
            }
            machine.rest(200, 200);
            let rest = machine.step(10, 10, 10);
            match yields.some < 0.5 {
                true => assert_eq!(rest, ms(490), "10 ms of processors in 500 ms of two"),
                false => assert_eq!(rest, ms(0)),
            }
        }
        // Nor does it rest where there is nobody.
        for _ in 0..8 {
            machine.rest(200, 10);
            machine.step(100, 100, 1);
        }
        assert_eq!(machine.step(100, 100, 1), ms(0));
    }

    #[test]
    fn its_share_may_grow() {
        let mut machine = Machine::new(1);
        for _ in 0..8 {
            machine.rest(400, 790);
            machine.step(8, 10, 12);
        }
        machine.rest(400, 790);
        assert_eq!(machine.step(8, 10, 12), ms(390));
        machine.pace.set_percent(10);
        assert_eq!((machine.step(8, 10, 12), machine.pace.steps_back()), (ms(30), true));
        machine.pace.set_percent(100);
        assert_eq!((machine.step(8, 10, 12), machine.pace.steps_back()), (ms(0), false));
    }

    #[test]
    fn it_does_not_rest_where_it_may_have_all_or_nothing_is_known() {
        let mut machine = Machine::new(100);
        for _ in 0..5 {
            assert_eq!((machine.step(10, 100, 190), machine.pace.steps_back()), (ms(0), false));
        }
        let pace = Pace::new(5, Yields::LATE, 2);
        pace.worked(ms(9), ms(50), None);
        assert_eq!((pace.steps_back(), pace.take_rest()), (false, ms(0)));
    }
}
