//! Transactions: states, snapshots, visibility, the aborted-transaction map, and locks
//! on transaction ids and on objects. No pages and no I/O.
//!
//! | file | concept |
//! |---|---|
//! | `status.rs` | the state of every transaction id that can still matter |
//! | `atm.rs` | the aborted-transaction map |
//! | `atm_details.rs` | what operators are told of aborted transactions |
//! | `id_set/` | a compressed set of transaction ids |
//! | `snapshot.rs` | snapshots, the register of those in use, the horizon |
//! | `ended.rs` | which transactions had ended at a moment |
//! | `manager.rs` | begin, commit, abort |
//! | `publication.rs` | the order of commits, and when snapshots see them; `sync.rs`, what it is made of |
//! | `wait.rs` | waiting for a transaction to end; deadlocks |
//! | `object_lock.rs` | coarse locks on tables |
//! | `temporary.rs` | earlier row versions in memory (traditional mode) |
//! | `row_locks.rs` | row locks that several transactions share |
//! | `write_set.rs` | what a transaction did, for undoing it |
//!
//! # Two moments of a commit
//! A commit gets its timestamp when its record is *in the log buffer* ("decided"): from
//! then on writers build on its rows, because whatever they do comes later in the same
//! log and cannot become durable before it. Snapshots see it only when the record is
//! *durable*. So a hot row is passed on without waiting for the disk, and no reader ever
//! sees what a power loss could still take back, unless who wrote it asked not to wait for the
//! disk: such a commit is seen as soon as what comes before it in the log is, and acknowledged then.
//! A transaction that has written, or tried to, takes the snapshots of its later statements of what is
//! decided: it may have met any of it, and is acknowledged after it.
//!
//! # Invariants
//! 1. The order of commit timestamps is the order of commit records in the log.
//! 2. The visible timestamp never passes a commit that is not durable, but for those whose own
//!    session asked for `synchronous_commit = off`. Who has met one that is not visible is told of his own end when it is.
//! 3. A transaction's state changes before anyone waiting for it is woken.
//! 4. The horizon is at most every snapshot in use; versions older than what the
//!    horizon sees are needed by nobody.

mod atm;
mod atm_details;
mod ended;
mod id_set;
mod manager;
mod object_lock;
mod publication;
mod row_locks;
mod snapshot;
mod status;
mod sync;
mod temporary;
mod wait;
mod write_set;

pub use atm::{AbortedList, AbortedMap};
pub use atm_details::{AbortedDetails, AbortedTx, DETAILS_MAX};
pub use ended::EndedIds;
pub use id_set::{ID_SET_BODY_MAX, TxIdSet};
pub use manager::{ActiveTx, TxManager, TxStats};
pub use object_lock::{Lock, LockMode, LockRow, ObjectLocks};
pub use publication::{Commit, Visible};
pub use row_locks::{RowLockMode, RowLocks, TreeId};
pub use snapshot::{OldestSnapshot, SnapshotHold, Snapshots};
pub use status::{Status, StatusTable};
pub use temporary::{TemporaryStats, TemporaryVersions};
pub use wait::{LockWait, WaitGraph};
pub use write_set::{UndoChain, WriteSet, WrittenRow};
