//! Accelerated recovery or the traditional mode, and the way from one to the other.
//!
//! *Accelerated* (the default): earlier row versions are on disk and are the undo; rolling
//! back and recovering take constant time (Constant Time Recovery). *Traditional*: earlier
//! versions are in memory (but for definitions), for snapshots only; undo goes through the log, as in ARIES (section
//! 2). The mode is a property of the folder, kept in the control file.
//!
//! # Invariants
//! 1. The mode changes only while no transaction has written and not ended and nothing is being
//!    undone; the traditional mode begins with an empty aborted-transaction map. What is left
//!    are versions of committed transactions, which read the same in both modes and go by the
//!    same sweeps.
//! 2. Who wants to write passes [`Transaction::enter`] first: it is counted as a writer, or
//!    waits while the mode is being changed. The count is raised before the mode is looked at,
//!    and the change is announced before the count is: one of the two sees the other.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Result, TxId};
use resurgam_txn::LockWait;
use resurgam_versions::{Skipped, Versioning};

use crate::database::Database;
use crate::transaction::{Transaction, TxState, check_open};
use crate::undo::UndoQueue;

/// How long to wait between looks at whether the way is free.
const LOOK: Duration = Duration::from_millis(10);
/// Pages that are cleaned between two such looks.
const LOOK_PAGES: u64 = 64;

/// The mode of an open database.
pub(crate) struct Mode {
    traditional: AtomicBool,
    /// Stands for a change of the mode under way: who wants to write waits for its end.
    changing: AtomicU64,
    /// Transactions that have passed the gate.
    writers: AtomicU64,
    one: Mutex<()>,
    pub undo: UndoQueue,
}

impl Mode {
    pub fn new(traditional: bool) -> Self {
        Self {
            traditional: AtomicBool::new(traditional),
            changing: AtomicU64::new(0),
            writers: AtomicU64::new(0),
            one: Mutex::default(),
            undo: UndoQueue::default(),
        }
    }

    pub fn is_traditional(&self) -> bool {
        self.traditional.load(Ordering::SeqCst)
    }

    /// Where those who have passed the gate keep earlier versions.
    pub fn versioning(&self) -> Versioning {
        if self.is_traditional() { Versioning::Temporary } else { Versioning::Persistent }
    }

    /// As [`Mode::versioning`], of definitions: they are read by everyone, so they do not wait
    /// for the undo of a transaction that changed some.
    pub fn versioning_of_definitions(&self) -> Versioning {
        if self.is_traditional() { Versioning::Logged } else { Versioning::Persistent }
    }

    /// A transaction that recovery found in doubt had entered.
    pub fn enter_restored(&self) {
        self.writers.fetch_add(1, Ordering::SeqCst);
    }

    /// A transaction that had entered has ended.
    pub fn leave(&self) {
        self.writers.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Transaction {
    /// Takes part in the current mode. `Some`: wait for it, then ask again.
    pub(crate) fn enter(&self) -> Result<Option<LockWait>> {
        let inner = self.0.db.inner();
        let mode = &inner.mode;
        {
            let mut state = self.0.state.lock();
            if state.entered {
                return Ok(None);
            }
            check_open(&state)?;
            mode.writers.fetch_add(1, Ordering::SeqCst);
            if mode.changing.load(Ordering::SeqCst) == 0 {
                state.entered = true;
                return Ok(None);
            }
            mode.leave();
        }
        let change = TxId(mode.changing.load(Ordering::SeqCst));
        let id = self.write_context()?.active.id;
        let is_changing = || change.is_some() && mode.changing.load(Ordering::SeqCst) == change.0;
        inner.txs.wait_for_lock(id, change, is_changing).map(Some)
    }
}

impl TxState {
    /// The transaction has ended, or never wrote.
    pub(crate) fn leave(&mut self, mode: &Mode) {
        if std::mem::take(&mut self.entered) {
            mode.leave();
        }
    }
}

impl Database {
    /// Whether recovery takes constant time; false in the traditional mode.
    pub fn is_recovery_accelerated(&self) -> bool {
        !self.inner().mode.is_traditional()
    }

    /// Turns accelerated recovery on or off, for good. Waits until transactions that write
    /// have ended (new ones wait meanwhile) and, on the way to the traditional mode, until the
    /// cleaner has reverted every aborted version. `cancelled` is asked again and again, until
    /// nothing is left to wait for.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` while there are prepared transactions; `Cancelled`; `Stopped`;
    /// those of cleaning and of the checkpoint that ends it. The mode
    /// is then as it was.
    pub fn set_accelerated_recovery(&self, on: bool, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        let inner = self.inner();
        let mode = &inner.mode;
        let _one = loop {
            match mode.one.try_lock_for(LOOK) {
                Some(one) => break one,
                None if cancelled() => return Err(change_cancelled()),
                None => {}
            }
        };
        if mode.is_traditional() != on {
            return Ok(());
        }
        if !on && inner.pool.is_remote() {
            return Err(Error::new(
                ErrorKind::NotSupported,
                "a database with page servers cannot have the traditional recovery mode",
            ));
        }
        let gate = inner.txs.begin();
        mode.changing.store(gate.id.0, Ordering::SeqCst);
        let changed = self.change_mode(on, cancelled);
        mode.changing.store(0, Ordering::SeqCst);
        inner.txs.end_unwritten(&gate);
        inner.txs.ended(gate.id);
        changed
    }

    fn change_mode(&self, on: bool, cancelled: &(dyn Fn() -> bool + Sync)) -> Result<()> {
        let inner = self.inner();
        let none_prepared = || match inner.prepared.len() {
            0 => Ok(()),
            // Nobody knows for how long, and new writers would wait with it.
            _ => Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                "the recovery mode cannot be changed while transactions are prepared",
            )
            .with_hint("Commit or roll them back first: COMMIT PREPARED, ROLLBACK PREPARED.")),
        };
        none_prepared()?;
        let check = || {
            none_prepared()?;
            if cancelled() {
                return Err(change_cancelled());
            }
            if inner.stopping.load(Ordering::Relaxed) {
                return Err(Error::new(ErrorKind::Stopped, "the database is being closed"));
            }
            Ok(())
        };
        tracing::info!("accelerated recovery is being turned {}: waiting for writers", if on { "on" } else { "off" });
        while inner.mode.writers.load(Ordering::SeqCst) > 0 || !inner.mode.undo.is_empty() {
            check()?;
            if !inner.options.background {
                let _ = self.undo_queued();
            }
            std::thread::sleep(LOOK);
        }
        // Undo through the log brings records back byte by byte: none of them may be an aborted
        // version, whose transaction could be forgotten meanwhile.
        let asked = AtomicU64::new(0);
        let told = AtomicBool::new(false);
        let cancelled_by_now = || {
            let look = asked.fetch_add(1, Ordering::Relaxed) % LOOK_PAGES == LOOK_PAGES - 1;
            if look && cancelled() {
                told.store(true, Ordering::Relaxed);
            }
            told.load(Ordering::Relaxed)
        };
        while !on && !inner.txs.status_table().aborted().is_empty() {
            check()?;
            let swept = self.clean_unless(&cancelled_by_now)?;
            if swept.pages_skipped > 0 && !inner.txs.status_table().aborted().is_empty() {
                let kind = match swept.skipped {
                    Skipped { unreadable, .. } if unreadable.count > 0 => ErrorKind::Io,
                    Skipped { no_room, .. } if no_room.count > 0 => ErrorKind::DiskFull,
                    _ => ErrorKind::Corrupt,
                };
                return Err(Error::new(
                    kind,
                    format!(
                        "aborted transactions cannot be forgotten: {} pages could not be cleaned",
                        swept.pages_skipped
                    ),
                )
                .with_hint("resurgam_cleaner says why; \"resurgam check\" what is wrong with them."));
            }
        }
        self.checkpoint_as(!on, || inner.mode.traditional.store(!on, Ordering::SeqCst))?;
        tracing::info!("accelerated recovery is {}", if on { "on" } else { "off" });
        Ok(())
    }
}

fn change_cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "the change of the recovery mode was cancelled")
}
