//! The log as a tier of its own (XLOG; *Socrates*, section 4.3): who may write it, what of it is known to be hardened, and where old
//! log is. `docs/xlog.md` has the contract.
//!
//! ```text
//!  primary ---- blocks, synced ---------> landing zone (segment files, by epoch)
//!     |                                        |  gaps; what nobody has announced
//!     |   blocks, before they are synced       v
//!     +---------------------------------> pending area --hardened--> broker ----> who pulls
//!         "hardened up to LSN"            (epoch, LSN)               |  sequence map, cache on SSD
//!                                                                    v
//!                                                    long-term log, in large objects
//! ```
//!
//! | file | concept |
//! |---|---|
//! | `control.rs` | a small record with compare-and-swap: numbered objects that are created once |
//! | `record.rs` | what that record says: who has the log, and where its last checkpoint is |
//! | `lease.rs` | for how long a holder may acknowledge, and when another one may take over. Pure |
//! | `alive.rs` | whether the process that holds the log is known to have died |
//! | `holder.rs` | taking the log, renewing the lease, and looking at it before an acknowledgement |
//! | `piece.rs` | a block of the log on its way |
//! | `core.rs`, `pending.rs` | the log service as a state machine: inputs and the time in, outputs out. No I/O |
//! | `archiving.rs` | the archive as a consumer of the log: whose it is, and what is to be done next. Pure |
//! | `keeping.rs` | merging its runs and giving up what is not promised, beside: what is to be done next. Pure |
//! | `long_term.rs` | the long-term log: objects, made once, each where the one before it ends |
//! | `cache.rs` | the newest log on a local disk, that may be lost at any time |
//! | `below.rs` | cache, landing zone and long-term log: what is not in memory |
//!
//! # Invariants
//! 1. Of two holders of the log only one can acknowledge: the lease is looked at after a block is durable and before anybody is told, and a
//!    successor begins to read when the lease of the one before it cannot be valid any more.
//! 2. A block moves to the broker when its own epoch has said that it is hardened, or from the landing zone below what is known to be so.
//! 3. Blocks in the broker follow each other without a gap. What has left it is in the landing zone or in the long-term log.
//! 4. The landing zone is given up only below what is in the long-term log.
//! 5. Of the long-term log nothing goes that is not archived, where the log services archive.
//! 6. Nothing here has to survive: a new process finds the end of the long-term log, and the rest in the landing zone.

mod alive;
mod archiving;
mod below;
mod cache;
mod control;
mod core;
mod holder;
mod keeping;
mod lease;
mod long_term;
mod pending;
mod piece;
mod record;

pub use alive::ProcessId;
pub use archiving::{ArchiveEnd, Archiving, ArchivingConfig, ArchivingStatus, Done, PlantedInArchiving, Step};
pub use below::{Below, Found};
pub use cache::Cache;
pub use control::{Control, StoreControl};
pub use core::{Core, CoreConfig, CoreStatus, Disseminated, Input, Output, Planted, Position, Reader};
pub use holder::{Clock, Holder, HolderConfig, boot_clock};
pub use keeping::{Keeping, KeepingConfig, Task, TaskDone};
pub use lease::{Decision, Held, Waiting};
pub use long_term::{LongTerm, LongTermEnd};
pub use piece::Piece;
pub use record::{Kept, Record};
