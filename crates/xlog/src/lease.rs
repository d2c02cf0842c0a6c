//! For how long a holder may acknowledge, and when another one may take over. Pure: times are given, of a clock of the own machine that never
//! stands still; clocks of two machines are never compared, but must run equally fast within an eighth.
//!
//! ```text
//! holder     asks---------------renewed                               | valid until: asked + 7/8 lease
//!              |---- 7/8 lease ----------------------------|
//! successor                        sees that record-------------------- lease ------> takes it, if it is still that one
//! ```
//!
//! The record that the successor has seen was written after the holder had asked for it. So the holder's time is over before the
//! successor's wait is, and what the holder has acknowledged was durable before that.

use std::time::Duration;

/// The holder's side.
#[derive(Clone, Copy, Debug)]
pub struct Held {
    lease: Duration,
    until: Duration,
}

impl Held {
    /// Taken or renewed by a record that was written after `asked`.
    pub fn new(lease: Duration, asked: Duration) -> Self {
        Self { lease, until: asked + lease / 8 * 7 }
    }

    /// The same, renewed.
    pub fn renewed(self, asked: Duration) -> Self {
        Self { until: self.until.max(Self::new(self.lease, asked).until), ..self }
    }

    /// Whether what is durable now may be acknowledged.
    pub fn is_valid(&self, now: Duration) -> bool {
        now < self.until
    }

    /// Until when.
    pub fn until(&self) -> Duration {
        self.until
    }
}

/// What one who wants the log does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Replaces the record that it has seen.
    Take,
    /// Looks again, after so long at most.
    Wait(Duration),
}

/// The successor's side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Waiting {
    /// The record's number, and when it was seen first.
    seen: Option<(u64, Duration)>,
}

impl Waiting {
    /// The record had this number when it was read, which ended before `now`. `nobody`: it says that nobody has the log, or its holder is
    /// known to have died.
    pub fn look(&mut self, now: Duration, number: u64, lease: Duration, nobody: bool) -> Decision {
        if nobody {
            return Decision::Take;
        }
        let since = match self.seen {
            Some((known, since)) if known == number => since,
            _ => now,
        };
        self.seen = Some((number, since));
        match (since + lease).checked_sub(now) {
            None | Some(Duration::ZERO) => Decision::Take,
            Some(left) => Decision::Wait(left),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEASE: Duration = Duration::from_millis(800);

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn the_holder_is_done_before_the_successor_begins() {
        let held = Held::new(LEASE, ms(100));
        assert!(held.is_valid(ms(799)) && !held.is_valid(ms(800)));
        let held = held.renewed(ms(300)).renewed(ms(200));
        assert!(held.is_valid(ms(999)) && !held.is_valid(ms(1000)));
        let mut waiting = Waiting::default();
        assert_eq!(waiting.look(ms(310), 1, LEASE, false), Decision::Wait(LEASE));
        assert_eq!(waiting.look(ms(1100), 1, LEASE, false), Decision::Wait(ms(10)));
        assert_eq!(waiting.look(ms(1105), 2, LEASE, false), Decision::Wait(LEASE), "it was renewed");
        assert_eq!(waiting.look(ms(1905), 2, LEASE, false), Decision::Take);
        assert_eq!(waiting.look(ms(0), 3, LEASE, true), Decision::Take);
    }
}
