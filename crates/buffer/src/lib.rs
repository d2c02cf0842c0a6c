//! The buffer pool: a fixed memory budget of page frames between the trees above
//! and the data file below.
//!
//! | file | concept |
//! |---|---|
//! | `frame.rs` | one frame: latch, pin count, dirty mark; page guards |
//! | `frames.rs` | all of them, and where their pages are in memory |
//! | `occupancy.rs` | which page a frame holds, and pins |
//! | `sight.rs` | what is known of all records of a leaf, for counts |
//! | `guide.rs` | where inner pages lead, for descents that latch only the leaf |
//! | `pool.rs` | fetching, eviction (clock with probation for scans) |
//! | `ahead.rs` | pages that scans will need, asked for many at once |
//! | `patience.rs` | waits for a page that end when their statement is told to stop |
//! | `failing.rs` | pages that cannot be loaded, and since when |
//! | `files.rs` | which file a page is in: the data file or the version-store file |
//! | `source/` | where a missing page comes from: data file, then the log records after it, else its history |
//! | `mtr.rs` | mini-transactions: page changes as one atomic log group |
//! | `writeback.rs` | background write-back and the WAL rule |
//! | `double_write.rs` | torn-write protection |
//! | `openings.rs` | who has opened the log, and which pages in the files are not of this log |
//! | `images.rs` | copies of pages on their way to the disk |
//! | `space.rs` | extents, space maps, page allocation |
//! | `give_back.rs` | space that files give back: shorter ones, and holes |
//!
//! # Invariants
//! 1. A frame's content changes only under its exclusive latch, and only through
//!    [`Mtr::commit`] (or redo), which logs first: the page LSN is the LSN of the last
//!    log record applied.
//! 2. `rec_lsn` of a frame is set before the record that dirties it is appended and is
//!    no later than that record: every record of a dirty page at or after `rec_lsn` may
//!    be missing from the data file, none before it is.
//! 3. A page reaches the double-write area or the data file only when the log is
//!    durable up to the page's LSN (the WAL rule).
//! 4. A frame becomes clean only after its image is durable in the double-write area,
//!    and that area is reused only after the data file and the version-store file have been
//!    synced. A page formatted since it was last written is excepted: it becomes clean with the
//!    write in place, and no checkpoint begins to count before that is synced.
//!    Where pages are in no file ([`RemotePages`]) a frame is clean when the log is durable past it.
//! 5. Guards are not `Send`: no latch is ever held across an await.

mod ahead;
mod device;
mod double_write;
mod failing;
mod files;
mod frame;
mod frames;
mod give_back;
mod guide;
mod images;
mod mtr;
mod occupancy;
mod openings;
mod page_guide;
mod patience;
mod planted;
mod pool;
mod sight;
mod source;
mod space;
mod stats;
mod sync;
mod writeback;

pub use double_write::{DoubleWriteBatch, DoubleWriteReport, restore_double_writes, restore_version_double_writes};
pub use files::VersionFile;
pub use frame::{ReadGuard, WriteGuard};
pub use guide::Children;
pub use mtr::{Mtr, PageRef};
pub use openings::{Misfit, Openings};
pub use page_guide::{Guess, Place};
pub use patience::{Patience, to_the_end};
#[doc(hidden)]
pub use planted::{Planted, PlantedInGiveBack};
pub use pool::{Access, BufferPool, PoolConfig};
pub use source::{
    Copied, FilePage, Had, Newest, PageCache, PageCacheState, PageCacheStatus, PageHistory, PendingRedo, Rebuild,
    RedoEntry, RemotePages, Repair, RestoreProgress, Restoring, SEGMENT_PAGES, Segment, SegmentMaker, StuckPage,
    replaces_whole_page,
};
pub use space::{FreePages, Space};
pub use stats::{PoolStats, Waits};
pub use writeback::{DirtyPage, WriteGoal};
