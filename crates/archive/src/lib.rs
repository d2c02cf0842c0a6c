//! The log archive: the log sorted by page and indexed, in immutable runs (Instant Restore, section IV).
//!
//! # Use
//! ```ignore
//! // One writer. `owner` is random (`Vfs::random_u64`), drawn for each opening.
//! let archive: Arc<Archive> = Archive::open(store, boot.database_id, owner)?;
//! let mut archiver = Archiver::new(Arc::clone(&archive), ArchiveConfig::default());
//! // Where to begin: None = nothing was archived yet, give it the oldest block there is.
//! let from: Option<Lsn> = archiver.resume_lsn();
//! // Blocks in order, DURABLE ones only: from a flush (`Block::parse(bytes, lsn, segment_bytes)`),
//! // or from segment files (`LogReader::next_whole_block()`, SKIP blocks included).
//! archiver.take(&block)?;          // writes a run by itself when its memory is full; may be given again after an error
//! archiver.seal()?;                // writes a run of what there is: every second or so; may be called again after an error
//! archiver.durable_to();           // log below this is no longer needed for the archive: move the log's holder here
//! archiver.stats();
//! // From any thread:
//! archive.merge(&config, &mut MergePolicy::keep_all())?;      // again until None
//! let view: Arc<View> = archive.view();                       // or Archive::open_view(store, None) for reading only
//! view.records_of(page, from, to, History::SinceAnew)?;       // one page, (from, to]; `to` < view.end()
//! let mut scan = view.scan(first..end, from, to, History::SinceAnew)?;   // pages in order: a segment's restore
//! while let Some(page) = scan.next_page()? { while let Some(record) = scan.next_record()? { /* op::apply */ } }
//! let mut stream = view.stream(from)?;                        // who was active: `StreamEntry`s in order of LSN
//! ```
//! A point in time that is the end of a group at `cut` is `to = Lsn(cut.0 - 1)`.
//!
//! # Words
//! A **run** is one file: exactly the log of one range of LSNs, cut at blocks. It holds page records by (page, LSN) in
//! compressed **frames**; a **page table** (page → place, count, last LSN: exact, so it is the filter as well); and the
//! **transaction stream**, in order of LSN: records without a page, and what page records alone would tell of
//! transactions. A **manifest** lists the runs that count; numbered, created once. A **merge** makes one run of several.
//!
//! | file | concept |
//! |---|---|
//! | `item.rs` | how a record is kept |
//! | `frame.rs` | compressed pieces with checksums |
//! | `format.rs` | header, trailer, summary, names of runs |
//! | `table.rs` | the page table |
//! | `writer.rs`, `run.rs` | writing a run, reading one |
//! | `manifest.rs`, `archive.rs` | which runs count; the steps from one manifest to the next |
//! | `workspace.rs`, `archiver.rs` | sorting what was taken; making runs |
//! | `merge.rs` | merging: leaving out what no promised point needs, putting in images |
//! | `view.rs` | what readers use |
//! | `lease.rs` | what is promised to clones and restores |
//! | `parent.rs` | of what a database was made, and where that one's archive is |
//! | `retain.rs` | what nobody needs any more, and giving it up |
//! | `verify.rs` | reading everything |
//! | `backup/` | backups: images of all pages, in segments |
//! | `make.rs` | pages as of an LSN, from a backup and the archive |
//!
//! # Invariants
//! 1. The runs of a manifest follow each other without a gap; each holds every record of its range, but for those that merges
//!    left out because a later record, below the retention LSN, makes their page anew. Who writes a run counts its bytes
//!    against those of its blocks; who reads a page follows the chain of its records.
//! 2. A file is never changed, and its name is never given to another content. A manifest names only files that were durable
//!    before it was created.
//! 3. A restart goes on where the newest manifest ends; there is no other state.
//! 4. Nothing that is read is believed before its checksum is right; memory is bounded by the length of what was read.

mod archive;
mod archiver;
mod backup;
mod base;
mod format;
mod frame;
mod item;
mod last;
mod lease;
mod make;
mod manifest;
mod merge;
mod parent;
mod retain;
mod run;
mod table;
mod verify;
mod view;
mod workspace;
mod writer;

pub use archive::Archive;
pub use archiver::{ArchiveConfig, Archiver, ArchiverStats};
pub use backup::{
    Backup, BackupEntry, BackupPlan, BackupReport, BackupSummary, BackupWriter, PageKind, PartMeta, Remaking,
    SEGMENT_PAGES, delete_backup, list_backups, pages_of, remake, segment_key, segment_page, verify_backup,
};
pub use base::PageBase;
pub use format::{DatabaseId, RunId, RunSummary};
pub use item::StreamEntry;
pub use last::LastLsns;
pub use lease::{BACKUP_LEASE, Lease, LeaseKind};
pub use make::{MadePages, PageMaker};
pub use manifest::{Manifest, RunMeta};
pub use merge::{MergePolicy, Merged};
pub use parent::{ParentBase, ParentRecord};
pub use retain::{GivenUp, Mark, MarkKind, Marks, Promise, Retention, RetentionPlan};
pub use run::Run;
pub use table::PageEntry;
pub use verify::{Report, verify};
pub use view::{History, PageScan, TxStream, View};

#[cfg(test)]
mod tests;
