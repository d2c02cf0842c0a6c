//! A page server: it has the pages of a database without running the database, by applying the log (*Socrates*, section
//! 4.6). A primary that has no data file gets its pages here; a page server that is lost costs nothing but the time to
//! start another one.
//!
//! ```text
//!   log (durable blocks) --apply--> covering cache --checkpoint--> its file, and the mark
//!   archive and backup  --seed-->   (what is not there yet, or damaged)
//!   get_page(page, LSN) <--waits until applied--
//! ```
//!
//! | file | concept |
//! |---|---|
//! | `server.rs` | the server: apply, get a page, checkpoint, fill |
//! | `batch.rs` | many blocks at once, by several threads |
//! | `cover.rs` | the covering cache: every page in a file, the recent ones in memory |
//! | `files.rs` | its files |
//! | `partition.rs` | which pages a server has |
//! | `seed.rs` | pages from archive and backup: a new server's, and those that a crash has torn |
//! | `mark.rs` | what is durable: up to where the log is applied, and which segments are there |
//! | `follow.rs` | the log of the same process as the source of blocks |
//! | `pulled.rs` | blocks that came from elsewhere: whether they follow, and are durable |
//!
//! # Invariants
//! 1. A page has every record of its below the position, or is not there yet; `get_page` answers with a page that has the
//!    record that was asked for.
//! 2. Only durable log is applied: nothing here can be ahead of what a crash of the primary leaves.
//! 3. The mark is at or below the end of the archive when it is made. So a page that the file has lost is made again from
//!    the archive as of its end, and the log behind the mark does the rest: there are no double writes.
//! 4. A segment that is not there has no record between the archive's end and the position, or it would have been fetched to
//!    apply it. So it may be made as of any later end of the archive, and nothing needs to be kept for it.
//! 5. Applying is idempotent by the page's LSN, and each record names the one before it: a gap is an error, never a page.
//! 6. A page of a partition that the server does not have is never given, whatever a file of earlier times has of it; what the mark does not name
//!    is not there.

mod batch;
mod cover;
mod files;
mod follow;
mod mark;
mod partition;
mod pulled;
mod seed;
mod server;
#[cfg(test)]
mod tests;

pub use batch::{Batch, Planted};
pub use cover::Gap;
pub use follow::LogTail;
pub use partition::{PARTITION_COUNT_MAX, PARTITION_PAGES_DEFAULT, Partitions};
pub use pulled::{Pulled, PulledConfig};
pub use seed::{ArchiveSeed, Seed};
pub use server::{PageServer, PageServerConfig, PageServerStats};
