//! RBPEX: copies of pages on a local disk, between a primary's memory and its page servers (*Socrates*, sections 3.3 and 4.4), of bounded size,
//! still of use after a restart.
//!
//! | file | concept |
//! |---|---|
//! | `format.rs` | the bytes: the folder's files, the header, the records |
//! | `fifo.rs` | which copies stay: S3-FIFO |
//! | `directory.rs` | in memory: which copy is where, what waits to be written |
//! | `cache.rs` | [`Rbpex`]: both, with files, a thread that writes, and an end to all waits |
//!
//! # What may be relied on, and why nothing is ever synced
//! A slot of the file `pages` has a page as it is in memory, sealed: checksum, page id and LSN are in it. Its record in the file `directory`
//! is a *statement*: "this page had no record between LSN `lsn` and `as_of`", which was durable when it was written. Statements do not become
//! untrue: not by what happens to the page later, not by a crash, not in whichever order what was written reaches the disk. So:
//!
//! 1. A copy is given only if its slot has the page and the LSN that its record says, and the checksum is right: a slot that was reused, was not
//!    written, or is torn is not what its record says.
//! 2. A copy of an earlier life counts as current only where its statement and what recovery knows prove it
//!    (`resurgam-buffer`, `source/cached.rs`). Otherwise a page server is asked.
//! 3. A copy of this life is current: every page that leaves memory is told to the cache before it can be missed, and whatever else the cache
//!    has of it is forgotten under the same lock.
//! 4. Statements of another database, or of a cache that was made anew, are not read: each has the number of its cache in its checksum.
//!
//! Synced is nothing, ordered is nothing. What a power loss takes away are copies, never the truth of those that are left.
//!
//! # What it may cost
//! Who evicts a page copies it into a queue, if there is room, and goes on. Who misses a page reads one slot. Its disk full, slow or dead: the
//! cache is switched off, which is said once, and nobody gets an error. Opening reads the directory in the background; what has been read is
//! served.

mod cache;
mod directory;
mod fifo;
mod format;
#[cfg(test)]
mod tests;

pub use cache::{Config, Planted, Rbpex};
