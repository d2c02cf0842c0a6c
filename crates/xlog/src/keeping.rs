//! Merging the archive's runs and giving up what is not promised, beside archiving: what is to be done next, as a state machine. No I/O, no threads.
//!
//! Who archives does so, and nobody else: whose the archive is, `archiving.rs` finds out. The two go on side by side, on two threads: a merge may take long.
//! A step is made of the manifest that is the newest when it is published, and who has lost the archive publishes nothing; that is for who makes the steps.
//!
//! # Invariants
//! 1. Nothing is begun while the archive is another one's.
//! 2. Merging and giving up keep nobody from the other: what fails is tried again after a pause of its own, which doubles; archiving does not come into it.
//! 3. While there is something to merge, and it can be merged, there is no pause between two merges: runs do not pile up for want of trying.
//! 4. Who finds again and again that somebody else has merged his runs (a server of before, beside) leaves it to him more and more, and looks seldom.

use std::time::Duration;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct KeepingConfig {
    /// Between two looks whether there is something to merge.
    pub idle: Duration,
    /// Between two passes that give up what is not promised; none: nothing is given up.
    pub expire: Option<Duration>,
    /// After an error, at first; it doubles up to the second.
    pub again: Duration,
    pub again_max: Duration,
}

impl Default for KeepingConfig {
    fn default() -> Self {
        Self {
            idle: Duration::from_millis(500),
            expire: None,
            again: Duration::from_millis(500),
            again_max: Duration::from_secs(60),
        }
    }
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    Wait(Duration),
    /// Runs are to be merged once, if enough of them wait.
    Merge,
    /// What is not promised is to be given up.
    GiveUp,
}

/// What has become of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskDone {
    /// It was waited, or there was nothing to do.
    Nothing,
    /// It was merged, or given up, as far as anything was to be.
    Done,
    /// Somebody else had merged these runs.
    ByAnother,
    /// It could not be done; nothing has changed.
    Failed,
    /// Somebody else has the archive.
    Lost,
}

/// One of the two.
#[derive(Clone, Copy, Default)]
struct Turn {
    /// Not before.
    due: Duration,
    failures: u32,
}

/// See the module.
pub struct Keeping {
    config: KeepingConfig,
    under_way: Option<Task>,
    merge: Turn,
    give_up: Turn,
    by_another: u32,
}

impl Keeping {
    pub fn new(config: KeepingConfig) -> Self {
        Self { config, under_way: None, merge: Turn::default(), give_up: Turn::default(), by_another: 0 }
    }

    /// Takes what has become of the last task, and says what the next one is. `now` never goes back; `is_own`: the archive is this one's.
    pub fn next(&mut self, now: Duration, is_own: bool, done: TaskDone) -> Task {
        let task = self.under_way.take();
        let idle = self.config.idle;
        match (task, done) {
            (Some(Task::Merge), TaskDone::Done) => (self.merge, self.by_another) = (Turn { due: now, failures: 0 }, 0),
            (Some(Task::Merge), TaskDone::ByAnother) => {
                self.by_another = (self.by_another + 1).min(7);
                self.merge = Turn { due: now + idle * (1 << self.by_another), failures: 0 };
            }
            (Some(Task::Merge), TaskDone::Nothing) => {
                // As long as somebody else is known to merge.
                self.merge = Turn { due: now + idle * (1 << self.by_another), failures: 0 };
            }
            (Some(Task::Merge), TaskDone::Failed) => self.merge = self.failed(self.merge, now),
            (Some(Task::GiveUp), TaskDone::Failed) => self.give_up = self.failed(self.give_up, now),
            (Some(Task::GiveUp), TaskDone::Done | TaskDone::Nothing | TaskDone::ByAnother) => {
                self.give_up = Turn { due: now + self.config.expire.unwrap_or(idle), failures: 0 };
            }
            (_, TaskDone::Lost) => return Task::Wait(idle),
            _ => {}
        }
        if !is_own {
            return Task::Wait(idle);
        }
        let gives_up = self.config.expire.is_some();
        let task = if gives_up && self.give_up.due <= now {
            Task::GiveUp
        } else if self.merge.due <= now {
            Task::Merge
        } else {
            let due = if gives_up { self.merge.due.min(self.give_up.due) } else { self.merge.due };
            return Task::Wait(due.saturating_sub(now).min(idle));
        };
        self.under_way = Some(task);
        task
    }

    fn failed(&self, turn: Turn, now: Duration) -> Turn {
        let pause = (self.config.again * (1 << turn.failures)).min(self.config.again_max);
        Turn { due: now + pause, failures: (turn.failures + 1).min(16) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    const CONFIG: KeepingConfig = KeepingConfig { idle: ms(500), expire: None, again: ms(100), again_max: ms(3000) };

    /// Does as it is told for so long, all in no time, and counts what it is told; `done` of each task.
    fn counted(this: &mut Keeping, seconds: u64, mut done: impl FnMut(Task, Duration) -> TaskDone) -> (u32, u32) {
        let (mut now, mut last, mut merges, mut passes) = (Duration::ZERO, TaskDone::Nothing, 0, 0);
        while now < Duration::from_secs(seconds) {
            match this.next(now, true, last) {
                Task::Wait(time) => {
                    assert!(!time.is_zero() && time <= ms(500), "{time:?}");
                    now += time;
                    last = TaskDone::Nothing;
                }
                task => {
                    (merges, passes) =
                        (merges + u32::from(task == Task::Merge), passes + u32::from(task == Task::GiveUp));
                    assert!(merges + passes < 10_000, "a hot loop");
                    last = done(task, now);
                }
            }
        }
        (merges, passes)
    }

    #[test]
    fn nothing_is_begun_while_the_archive_is_another_ones() {
        let mut this = Keeping::new(KeepingConfig { expire: Some(ms(1000)), ..CONFIG });
        assert_eq!(this.next(ms(0), false, TaskDone::Nothing), Task::Wait(ms(500)));
        assert_eq!(this.next(ms(0), true, TaskDone::Nothing), Task::GiveUp);
        assert_eq!(this.next(ms(1), false, TaskDone::Lost), Task::Wait(ms(500)));
        assert_eq!(this.next(ms(500), false, TaskDone::Nothing), Task::Wait(ms(500)));
        // It is its own again.
        assert_eq!(this.next(ms(600), true, TaskDone::Nothing), Task::GiveUp);
        assert_eq!(this.next(ms(700), true, TaskDone::Done), Task::Merge);
    }

    /// As long as there are runs to merge it merges; else it looks now and then.
    #[test]
    fn merges_follow_each_other_while_there_is_something_to_merge() {
        let mut this = Keeping::new(CONFIG);
        let mut left = 100;
        let (merges, passes) = counted(&mut this, 10, |_, now| {
            left -= i32::from(left > 0);
            assert!(left == 0 || now.is_zero(), "it waited");
            if left > 0 { TaskDone::Done } else { TaskDone::Nothing }
        });
        assert_eq!((merges, passes), (100 + 19, 0));
    }

    /// A damaged run: it is tried again, less and less often, and what is not promised is given up meanwhile.
    #[test]
    fn what_fails_is_tried_again_but_not_in_a_hot_loop() {
        let mut this = Keeping::new(KeepingConfig { expire: Some(ms(1000)), ..CONFIG });
        let (merges, passes) = counted(&mut this, 100, |task, _| match task {
            Task::Merge => TaskDone::Failed,
            _ => TaskDone::Done,
        });
        assert!((30..45).contains(&merges) && (95..=101).contains(&passes), "{merges} {passes}");
        // It was mended.
        assert_eq!(this.next(ms(200_000), true, TaskDone::Nothing), Task::GiveUp);
        assert_eq!(this.next(ms(200_000), true, TaskDone::Done), Task::Merge);
        assert_eq!(this.next(ms(200_000), true, TaskDone::Done), Task::Merge);
        // And the other way.
        let mut this = Keeping::new(KeepingConfig { expire: Some(ms(1000)), ..CONFIG });
        let (merges, passes) = counted(&mut this, 100, |task, _| match task {
            Task::GiveUp => TaskDone::Failed,
            _ => TaskDone::Nothing,
        });
        assert!((190..=205).contains(&merges) && (30..45).contains(&passes), "{merges} {passes}");
    }

    /// A server of before merges beside: it is left to it, until it does not any more.
    #[test]
    fn who_is_always_too_late_leaves_it_to_the_other() {
        let mut this = Keeping::new(CONFIG);
        let (merges, _) = counted(&mut this, 1000, |_, _| TaskDone::ByAnother);
        assert!((15..40).contains(&merges), "{merges}");
        // Nothing is left to merge, for the other one merges.
        assert!(matches!(this.next(ms(2_000_000), true, TaskDone::Nothing), Task::Merge));
        assert!(matches!(this.next(ms(2_000_000), true, TaskDone::Nothing), Task::Wait(_)));
        assert!(matches!(this.next(ms(2_001_000), true, TaskDone::Nothing), Task::Wait(_)));
        // It has gone.
        assert!(matches!(this.next(ms(2_070_000), true, TaskDone::Nothing), Task::Merge));
        assert!(matches!(this.next(ms(2_070_000), true, TaskDone::Done), Task::Merge));
        assert!(matches!(this.next(ms(2_070_000), true, TaskDone::Nothing), Task::Wait(_)));
        assert!(matches!(this.next(ms(2_070_500), true, TaskDone::Nothing), Task::Merge));
    }
}
