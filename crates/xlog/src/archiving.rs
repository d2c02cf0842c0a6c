//! Archiving as one more consumer of the log: what is to be done next, as a state machine. No I/O, no threads.
//!
//! ```text
//!  aside ──look──► the newest manifest stands still for a lease, and there is log behind it ──claim──► at work
//!    ▲                                                                                                   │ pull, take, seal
//!    └────────────────────────── another one has claimed the archive ◄───────────────────────────────────┘
//! ```
//!
//! Whose the archive is, its manifests say: a claim is a manifest of one's own, and who finds another's behind the one that he knows has lost
//! it. So safety needs no clock. The lease says only when somebody else may claim: when the archive has not grown for so long although there is
//! hardened log behind its end. Clocks of two machines are never compared.
//!
//! # Invariants
//! 1. The position moves with a durable run that a manifest of one's own names, or to where a manifest that was read ends; never before.
//! 2. [`Archiving::keep_from`] is the last block of the archive: the next claim compares it with the log before it adds anything.
//! 3. There is no state but the archive: after a kill, or when it was lost, all goes on from the end of the newest manifest.

use std::sync::Arc;
use std::time::Duration;

use resurgam_base::Lsn;

use crate::piece::Piece;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct ArchivingConfig {
    /// Another one may claim an archive that has not grown for so long though there is log for it. Who was taken over waits longer, up to
    /// eight times that.
    pub lease: Duration,
    /// Longest time that a block waits for company before a run is made.
    pub delay: Duration,
    /// Log in one run, about, in bytes.
    pub run_bytes: u64,
    /// Longest wait for more log at a time.
    pub idle: Duration,
    /// After an error, at first; it doubles up to 32 times that.
    pub again: Duration,
    pub planted: PlantedInArchiving,
}

impl Default for ArchivingConfig {
    fn default() -> Self {
        Self {
            lease: Duration::from_secs(5),
            delay: Duration::from_millis(700),
            run_bytes: 16 << 20,
            idle: Duration::from_secs(1),
            again: Duration::from_millis(100),
            planted: PlantedInArchiving::Nothing,
        }
    }
}

/// Mistakes that the schedules must find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedInArchiving {
    Nothing,
    /// What was taken counts as archived.
    PositionBeforeObject,
}

/// What the newest manifest says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiveEnd {
    /// Whose it is.
    pub owner: u64,
    /// All log below is in durable runs; none: nothing is.
    pub end: Lsn,
    /// Where the last block of that begins; none: not known.
    pub last_block: Lsn,
}

/// What is to be done.
#[derive(Clone, Debug)]
pub enum Step {
    Wait(Duration),
    /// To look at the newest manifest.
    Look,
    /// To claim the archive, if the log has its last block.
    Claim,
    /// Hardened blocks from there on are wanted, within `wait`.
    Pull {
        from: Lsn,
        wait: Duration,
    },
    /// To be gathered.
    Take(Vec<Arc<Piece>>),
    /// A durable run is to be made of what was gathered, and a manifest that names it.
    Seal,
}

/// What has become of it.
#[derive(Clone, Debug)]
pub enum Done {
    /// It was waited; or nothing was to be done yet.
    Nothing,
    /// What the newest manifest says; none: there is no archive.
    Looked(Option<ArchiveEnd>),
    /// It is one's own now; blocks are wanted from `from` on.
    Claimed {
        end: ArchiveEnd,
        from: Lsn,
    },
    /// In a row; none: there were none in time.
    Pulled(Vec<Arc<Piece>>),
    Taken,
    Sealed(ArchiveEnd),
    /// It could not be done now; what was gathered is still there.
    Failed,
    /// Somebody else has claimed the archive.
    Lost,
    /// What was gathered is of no use any more: all is to be begun anew from the archive's end.
    Broken,
    /// The archive is not one for this log.
    Refused,
}

/// What an operator can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchivingStatus {
    /// It is this one that archives.
    pub works: bool,
    /// What the newest manifest says, as far as is known; none: it could not be looked at yet.
    pub archive: Option<ArchiveEnd>,
    /// Blocks up to there were gathered.
    pub gathered: Lsn,
}

#[derive(Clone, Copy)]
struct Work {
    /// Where the next block begins.
    next: Lsn,
    /// Log that was gathered, and since when.
    bytes: u64,
    since: Option<Duration>,
}

/// See the module.
pub struct Archiving {
    config: ArchivingConfig,
    /// None: it stands aside.
    work: Option<Work>,
    /// As was seen last.
    known: Option<ArchiveEnd>,
    /// While it stands aside: since when the archive is as it is.
    since: Option<Duration>,
    /// It is to be claimed without waiting: it was one's own, and nobody else's since.
    again: bool,
    failures: u32,
    losses: u32,
}

impl Archiving {
    pub fn new(config: ArchivingConfig) -> Self {
        Self { config, work: None, known: None, since: None, again: false, failures: 0, losses: 0 }
    }

    pub fn status(&self) -> ArchivingStatus {
        ArchivingStatus {
            works: self.work.is_some(),
            archive: self.known,
            gathered: self.work.map_or(Lsn::NONE, |work| work.next),
        }
    }

    /// From where on the log has to be kept; none: all of it.
    pub fn keep_from(&self) -> Lsn {
        let Some(known) = self.known else { return Lsn::NONE };
        if known.last_block.is_some() { known.last_block } else { Lsn::NONE }
    }

    /// Takes what has become of the last step, and says what the next one is. `now` never goes back; `hardened`: where the log ends.
    pub fn next(&mut self, now: Duration, hardened: Lsn, done: Done) -> Step {
        match done {
            Done::Nothing => {}
            Done::Looked(end) => {
                self.failures = 0;
                let Some(end) = end else { return Step::Claim };
                if self.known != Some(end) || self.since.is_none() {
                    (self.known, self.since) = (Some(end), Some(now));
                }
                let patience = self.config.lease * (1 << self.losses);
                let stands = self.since.is_some_and(|since| since + patience <= now);
                return if stands && hardened > end.end { Step::Claim } else { Step::Wait(self.config.lease / 4) };
            }
            Done::Claimed { end, from } => {
                (self.known, self.since, self.again, self.failures) = (Some(end), None, false, 0);
                self.work = Some(Work { next: from, bytes: 0, since: None });
            }
            Done::Pulled(pieces) => {
                if self.work.is_some() && !pieces.is_empty() {
                    return self.take(now, pieces);
                }
            }
            Done::Taken => {}
            Done::Sealed(end) => {
                (self.known, self.failures, self.losses) = (Some(end), 0, 0);
                if let Some(work) = &mut self.work {
                    (work.bytes, work.since) = (0, None);
                }
            }
            Done::Failed => return self.failed(),
            Done::Lost => {
                self.stand_aside();
                self.losses = (self.losses + 1).min(3);
                return Step::Wait(self.config.lease / 4);
            }
            Done::Broken => {
                self.stand_aside();
                self.again = true;
                return self.failed();
            }
            Done::Refused => {
                self.stand_aside();
                return Step::Wait(self.config.lease);
            }
        }
        let Some(work) = &self.work else {
            return if self.again {
                Step::Claim
            } else if self.known.is_some_and(|known| hardened <= known.end) {
                // Nobody has anything to do.
                self.since = None;
                Step::Wait(self.config.lease / 4)
            } else {
                Step::Look
            };
        };
        let left = work.since.map(|since| (since + self.config.delay).saturating_sub(now));
        if work.bytes >= self.config.run_bytes || left.is_some_and(|left| left.is_zero()) {
            return Step::Seal;
        }
        Step::Pull { from: work.next, wait: left.unwrap_or(self.config.idle).min(self.config.idle) }
    }

    fn take(&mut self, now: Duration, pieces: Vec<Arc<Piece>>) -> Step {
        if let (Some(work), Some(last)) = (&mut self.work, pieces.last()) {
            work.bytes += last.next.0.saturating_sub(work.next.0);
            work.next = last.next;
            work.since = work.since.or(Some(now));
            if self.config.planted == PlantedInArchiving::PositionBeforeObject
                && let Some(known) = &mut self.known
            {
                (known.end, known.last_block) = (last.next, last.lsn);
            }
        }
        Step::Take(pieces)
    }

    fn stand_aside(&mut self) {
        (self.work, self.since, self.again) = (None, None, false);
    }

    fn failed(&mut self) -> Step {
        let pause = self.config.again * (1 << self.failures);
        self.failures = (self.failures + 1).min(5);
        Step::Wait(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONFIG: ArchivingConfig = ArchivingConfig {
        lease: Duration::from_secs(4),
        delay: Duration::from_secs(1),
        run_bytes: 1000,
        idle: Duration::from_secs(2),
        again: Duration::from_millis(100),
        planted: PlantedInArchiving::Nothing,
    };

    fn end(owner: u64, end: u64) -> ArchiveEnd {
        ArchiveEnd { owner, end: Lsn(end), last_block: Lsn(end - 100) }
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn an_archive_that_grows_is_left_to_who_writes_it() {
        let mut this = Archiving::new(CONFIG);
        let hardened = Lsn(9000);
        assert!(matches!(this.next(secs(0), hardened, Done::Nothing), Step::Look));
        assert_eq!(this.keep_from(), Lsn::NONE);
        for second in 0..20 {
            let step = this.next(secs(second), hardened, Done::Looked(Some(end(7, 1000 + second / 3 * 100))));
            assert!(matches!(step, Step::Wait(_)), "{second}: {step:?}");
            assert_eq!(this.keep_from(), Lsn(900 + second / 3 * 100));
        }
        // It stands still; and then there is nothing to do.
        assert!(matches!(this.next(secs(23), Lsn(1600), Done::Looked(Some(end(7, 1600)))), Step::Wait(_)));
        assert!(matches!(this.next(secs(40), Lsn(1600), Done::Nothing), Step::Wait(_)));
        assert!(matches!(this.next(secs(41), hardened, Done::Nothing), Step::Look));
        assert!(matches!(this.next(secs(41), hardened, Done::Looked(Some(end(7, 1600)))), Step::Wait(_)));
        assert!(matches!(this.next(secs(44), hardened, Done::Looked(Some(end(7, 1600)))), Step::Wait(_)));
        assert!(matches!(this.next(secs(45), hardened, Done::Looked(Some(end(7, 1600)))), Step::Claim));
        // Whoever was taken over has more patience.
        assert!(matches!(
            this.next(secs(45), hardened, Done::Claimed { end: end(8, 1600), from: Lsn(1600) }),
            Step::Pull { .. }
        ));
        assert!(this.status().works);
        assert!(matches!(this.next(secs(46), hardened, Done::Lost), Step::Wait(_)));
        this.next(secs(50), hardened, Done::Looked(Some(end(9, 1600))));
        assert!(matches!(this.next(secs(57), hardened, Done::Looked(Some(end(9, 1600)))), Step::Wait(_)));
        assert!(matches!(this.next(secs(58), hardened, Done::Looked(Some(end(9, 1600)))), Step::Claim));
    }

    #[test]
    fn the_position_moves_with_a_manifest() {
        let mut this = Archiving::new(CONFIG);
        let piece = |lsn: u64, next: u64| {
            Arc::new(Piece {
                lsn: Lsn(lsn),
                next: Lsn(next),
                prev: Lsn(lsn - 1),
                epoch: 2,
                durable: Lsn::NONE,
                bytes: vec![],
            })
        };
        let hardened = Lsn(9000);
        assert!(matches!(this.next(secs(0), hardened, Done::Looked(None)), Step::Claim));
        let claimed = Done::Claimed { end: ArchiveEnd { owner: 1, ..ArchiveEnd::default() }, from: Lsn(500) };
        assert!(matches!(this.next(secs(0), hardened, claimed), Step::Pull { from: Lsn(500), .. }));
        let pulled = Done::Pulled(vec![piece(500, 600), piece(600, 900)]);
        assert!(matches!(this.next(secs(1), hardened, pulled), Step::Take(_)));
        let Step::Pull { from: Lsn(900), wait } = this.next(secs(1), hardened, Done::Taken) else { panic!("no pull") };
        assert_eq!((wait, this.keep_from()), (secs(1), Lsn::NONE));
        assert!(matches!(this.next(secs(2), hardened, Done::Pulled(vec![])), Step::Seal));
        // It fails, and is tried again with what was gathered.
        assert!(matches!(this.next(secs(2), hardened, Done::Failed), Step::Wait(_)));
        assert_eq!(this.keep_from(), Lsn::NONE);
        assert!(matches!(this.next(secs(3), hardened, Done::Nothing), Step::Seal));
        let sealed = ArchiveEnd { owner: 1, end: Lsn(900), last_block: Lsn(600) };
        assert!(matches!(this.next(secs(3), hardened, Done::Sealed(sealed)), Step::Pull { from: Lsn(900), .. }));
        assert_eq!(this.keep_from(), Lsn(600));
        // Much is sealed at once.
        assert!(matches!(this.next(secs(3), hardened, Done::Pulled(vec![piece(900, 2000)])), Step::Take(_)));
        assert!(matches!(this.next(secs(3), hardened, Done::Taken), Step::Seal));
        assert!(matches!(this.next(secs(3), hardened, Done::Broken), Step::Wait(_)));
        assert!(matches!(this.next(secs(4), hardened, Done::Nothing), Step::Claim));
    }
}
