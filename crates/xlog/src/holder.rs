//! Taking the log, renewing the lease, and looking at it before an acknowledgement.
//!
//! ```text
//! take: look ──free, or its holder has died──► replace ──► holder ──renew, keep: replaced by another──► lost
//!         └── otherwise wait the lease out ────┘             └── release: free
//! ```
//!
//! # Invariants
//! 1. [`Holder::check`] says yes only within the lease, or when the record was just replaced by this holder: then nobody has taken it meanwhile.
//! 2. A record that may have been written, or not, is settled (written again, the same) before another one is.
//! 3. Who has taken the log has two epochs that nobody else has or will have: one to make a database under, which is odd, and one to open it, which is even.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Result};

use crate::alive::ProcessId;
use crate::control::Control;
use crate::lease::{Decision, Held, Waiting};
use crate::record::{Kept, Record};

/// Time of the own machine that never stands still, since an arbitrary start.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// The time since the machine was started, in which it was asleep included.
pub fn boot_clock() -> Clock {
    Arc::new(|| {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: `time` is there, and nothing else is written to.
        let outcome = unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &mut time) };
        if outcome != 0 {
            // No lease is valid then.
            return Duration::MAX / 4;
        }
        Duration::new(u64::try_from(time.tv_sec).unwrap_or(0), u32::try_from(time.tv_nsec).unwrap_or(0))
    })
}

/// Settings.
#[derive(Clone)]
pub struct HolderConfig {
    /// Who does not renew for so long loses the log to the next one.
    pub lease: Duration,
    pub clock: Clock,
    /// A random number of this holder.
    pub stamp: u64,
    pub me: ProcessId,
    /// The epoch is above this, too.
    pub epoch_above: u32,
}

struct State {
    number: u64,
    record: Record,
    held: Held,
    /// It may have been written: with when that was asked for.
    unsure: Option<(Record, Duration)>,
}

/// See the module.
pub struct Holder {
    control: Arc<dyn Control>,
    clock: Clock,
    state: Mutex<State>,
    /// The end of the lease, in nanoseconds.
    until: AtomicU64,
    lost: AtomicBool,
}

impl Holder {
    /// Takes the log, and waits for whoever has it: `wait` is given who that is and for how long at most, sleeps (not longer), and says whether
    /// to go on.
    ///
    /// # Errors
    /// `Stopped` when it was told not to go on; `Corrupt`, `NewerFormat`, `Io` of the record.
    pub fn take(
        control: Arc<dyn Control>,
        config: HolderConfig,
        wait: &mut dyn FnMut(&Record, Duration) -> bool,
    ) -> Result<Self> {
        let HolderConfig { lease, clock, stamp, me, epoch_above } = config;
        let mut waiting = Waiting::default();
        loop {
            let there = control.read()?;
            let (number, before) = match &there {
                Some((number, bytes)) => (*number, Some(Record::decode(bytes)?)),
                None => (0, None),
            };
            if let Some(record) = &before {
                let nobody = record.free || record.holder.has_died();
                if let Decision::Wait(left) = waiting.look(clock(), number, record.lease, nobody) {
                    if !wait(record, left) {
                        return Err(Error::new(ErrorKind::Stopped, "it was stopped before it had the log"));
                    }
                    continue;
                }
            }
            let epoch = before.as_ref().map_or(0, |record| record.epoch).max(epoch_above);
            let epoch = epoch
                .checked_add(3)
                .map(|epoch| epoch & !1)
                .ok_or_else(|| Error::new(ErrorKind::LimitExceeded, "every epoch of the log has been used"))?;
            let kept = before.and_then(|record| record.kept);
            let record = Record { epoch, holder: me.clone(), stamp, renewed: 0, lease, free: false, kept };
            let asked = clock();
            if let Some(number) = control.replace(number, &record.encode())? {
                let held = Held::new(lease, asked);
                let state = Mutex::new(State { number, record, held, unsure: None });
                let until = AtomicU64::new(nanos(held.until()));
                return Ok(Self { control, clock, state, until, lost: AtomicBool::new(false) });
            }
        }
    }

    /// The epoch to open the log under; the one before it is of nobody else, too.
    pub fn epoch(&self) -> u32 {
        self.state.lock().record.epoch
    }

    /// What the database's control file says; none: the database is not made yet.
    pub fn kept(&self) -> Option<Kept> {
        self.state.lock().record.kept
    }

    /// Keeps what the control file says from now on.
    ///
    /// # Errors
    /// `Stopped` when another one has the log; `Io`.
    pub fn keep(&self, kept: Kept) -> Result<()> {
        self.replace(|record| record.kept = Some(kept))
    }

    /// Goes on to hold it.
    ///
    /// # Errors
    /// Those of [`Holder::keep`].
    pub fn renew(&self) -> Result<()> {
        self.replace(|_| {})
    }

    /// Gives it back: the next one does not wait. Nothing can be acknowledged any more.
    ///
    /// # Errors
    /// Those of [`Holder::keep`]; it is given up all the same.
    pub fn release(&self) -> Result<()> {
        self.until.store(0, Ordering::SeqCst);
        let outcome = self.replace(|record| record.free = true);
        self.lost.store(true, Ordering::SeqCst);
        self.until.store(0, Ordering::SeqCst);
        outcome
    }

    /// Whether what is durable now may be acknowledged. To be asked after it is durable.
    ///
    /// # Errors
    /// `Stopped` when another one has the log; `Io` when it is not known.
    pub fn check(&self) -> Result<()> {
        if self.is_valid() {
            return Ok(());
        }
        // Nobody may have come meanwhile.
        self.renew()?;
        if self.is_valid() {
            return Ok(());
        }
        Err(Error::new(ErrorKind::Io, "the lease on the landing zone was over when it was renewed"))
    }

    fn is_valid(&self) -> bool {
        nanos((self.clock)()) < self.until.load(Ordering::SeqCst) && !self.lost.load(Ordering::SeqCst)
    }

    /// How long the lease is still valid.
    pub fn left(&self) -> Duration {
        Duration::from_nanos(self.until.load(Ordering::SeqCst)).saturating_sub((self.clock)())
    }

    /// Whether another one has the log, for good.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }

    fn replace(&self, change: impl FnOnce(&mut Record)) -> Result<()> {
        let mut state = self.state.lock();
        if self.is_lost() {
            return Err(lost());
        }
        if let Some((record, asked)) = state.unsure.clone() {
            self.put(&mut state, record, asked)?;
        }
        let mut record = state.record.clone();
        record.renewed += 1;
        change(&mut record);
        self.put(&mut state, record, (self.clock)())
    }

    fn put(&self, state: &mut State, record: Record, asked: Duration) -> Result<()> {
        match self.control.replace(state.number, &record.encode()) {
            Ok(Some(number)) => {
                (state.number, state.record, state.unsure) = (number, record, None);
                state.held = state.held.renewed(asked);
                self.until.store(nanos(state.held.until()), Ordering::SeqCst);
                Ok(())
            }
            Ok(None) => {
                self.lost.store(true, Ordering::SeqCst);
                Err(lost())
            }
            Err(error) => {
                state.unsure = Some((record, asked));
                Err(error)
            }
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

#[cold]
fn lost() -> Error {
    Error::new(ErrorKind::Stopped, "another process has taken over the log of this database")
        .with_hint("Two primaries were started for one landing zone; the later one has it.")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_base::Lsn;
    use resurgam_vfs::{SimVfs, Vfs};
    use resurgam_xstore::{FaultyStore, FolderStore, Misdeed, Store, StoreCall, StoreErrorKind};

    use super::*;
    use crate::control::StoreControl;

    struct World {
        control: Arc<dyn Control>,
        time: Arc<AtomicU64>,
    }

    impl World {
        fn new() -> Self {
            let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(7));
            Self::on(Arc::new(FolderStore::open(vfs, Path::new("/zone")).unwrap()))
        }

        fn on(store: Arc<dyn Store>) -> Self {
            Self { control: Arc::new(StoreControl::new(store, "")), time: Arc::new(AtomicU64::new(1)) }
        }

        fn take(&self, stamp: u64, waited: &mut u32) -> Result<Holder> {
            let time = Arc::clone(&self.time);
            let config = HolderConfig {
                lease: Duration::from_millis(800),
                clock: Arc::new(move || Duration::from_millis(time.load(Ordering::SeqCst))),
                stamp,
                me: ProcessId { boot: "elsewhere".into(), pid: 1, started: stamp },
                epoch_above: 0,
            };
            Holder::take(Arc::clone(&self.control), config, &mut |_, left| {
                *waited += 1;
                self.pass(left.as_millis() as u64);
                *waited < 10
            })
        }

        fn pass(&self, ms: u64) {
            self.time.fetch_add(ms, Ordering::SeqCst);
        }
    }

    fn kept(checkpoint: u64) -> Kept {
        Kept {
            database: [1; 16],
            checkpoint: Lsn(checkpoint),
            epoch: 2,
            segment_bytes: 1 << 20,
            clean: false,
            traditional: false,
        }
    }

    #[test]
    fn the_second_waits_the_first_out_and_the_first_never_acknowledges_again() {
        let world = World::new();
        let mut waited = 0;
        let first = world.take(1, &mut waited).unwrap();
        assert_eq!((first.epoch(), first.kept(), waited), (2, None, 0));
        first.keep(kept(77)).unwrap();
        world.pass(700);
        assert!(first.check().is_err() || first.check().is_ok());
        first.renew().unwrap();
        let second = world.take(2, &mut waited).unwrap();
        assert_eq!((second.epoch(), second.kept(), waited), (4, Some(kept(77)), 1));
        for error in [first.check().unwrap_err(), first.keep(kept(99)).unwrap_err(), first.release().unwrap_err()] {
            assert_eq!(error.kind(), ErrorKind::Stopped);
        }
        assert!(first.is_lost() && second.kept() == Some(kept(77)));
        second.check().unwrap();
        // A long pause, and nobody came.
        world.pass(100_000);
        second.check().unwrap();
        second.release().unwrap();
        let mut waited = 0;
        assert_eq!(world.take(3, &mut waited).unwrap().epoch(), 6);
        assert_eq!(waited, 0, "it was given back");
        assert_eq!(second.check().unwrap_err().kind(), ErrorKind::Stopped);
    }

    #[test]
    fn what_may_have_been_written_is_settled_first() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(7));
        let folder: Arc<dyn Store> = Arc::new(FolderStore::open(vfs, Path::new("/zone")).unwrap());
        let faulty = Arc::new(FaultyStore::new(folder));
        let world = World::on(Arc::clone(&faulty) as Arc<dyn Store>);
        let holder = world.take(1, &mut 0).unwrap();
        for misdeed in [Misdeed::Fail(StoreErrorKind::Unavailable), Misdeed::ApplyAndFail] {
            faulty.at(StoreCall::Publish, 1, misdeed);
            // Nor can it be looked at.
            faulty.at(StoreCall::Read, 1, Misdeed::Fail(StoreErrorKind::Unavailable));
            let outcome = holder.keep(kept(5));
            assert!(!holder.is_lost(), "{outcome:?}");
            holder.keep(kept(6)).unwrap();
            assert_eq!(holder.kept(), Some(kept(6)));
            holder.renew().unwrap();
        }
    }
}
