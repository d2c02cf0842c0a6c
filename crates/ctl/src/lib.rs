//! Read-only tools for a data folder: printers of pages, log, catalog and boot
//! information, and a checker of the whole.
//!
//! | file | concept |
//! |---|---|
//! | `folder.rs` | the files of a data folder, opened for reading only |
//! | `control.rs` | both copies of the control file |
//! | `double_write.rs` | the double-write area |
//! | `log_files.rs` | blocks and records of the log, damaged ones included |
//! | `image.rs` | pages as an open would make them: `page = redo(base, records)` in memory |
//! | `version_file.rs` | the version-store file: is it the right one |
//! | `versions.rs` | the newest version of a row that is not aborted |
//! | `walk.rs` | every node of a tree, with what is wrong about it |
//! | `catalog.rs` | table definitions (read by the engine's `definition.rs`) |
//! | `inspect_*.rs` | the printers |
//! | `check/` | the checker |
//! | `archive.rs` | a log archive: list, verify, records and stream |
//! | `against.rs` | the archive against a data folder, byte by byte |
//! | `backup.rs` | backups: list, verify, pages; making one from the archive |
//!
//! # Contract
//! 1. Nothing is written, no lock is kept, and no file is made, but by [`make_backup`], which writes a new backup and nothing else.
//! 2. Damaged input is shown as far as it can be read; it never panics, never sizes an
//!    allocation, and never keeps a loop running.
//! 3. Memory is bounded: a cache of log blocks, one page at a time, and some 13 KB for every
//!    40 MB of data that is checked.
//! 4. A folder that a server has open may be read; what the server changes meanwhile can
//!    look like damage, and the output says so.
//!
//! Errors are returned only when the folder cannot be read at all or the output cannot be
//! written; whatever is wrong *inside* the folder is part of the output.

mod against;
mod archive;
mod backup;
mod catalog;
mod check;
mod control;
mod double_write;
mod folder;
mod image;
mod inspect_boot;
mod inspect_catalog;
mod inspect_log;
mod inspect_page;
mod log_files;
mod out;
mod version_file;
mod versions;
mod walk;

pub use against::{Comparison, compare};
pub use archive::{ArchiveFolder, ArchiveOptions};
pub use backup::{BackupFolder, make_backup};
pub use check::{CheckProgress, CheckReport, Counts, Problem, Severity, check};
pub use folder::Folder;
pub use inspect_boot::inspect_boot;
pub use inspect_catalog::inspect_catalog;
pub use inspect_log::{LogOptions, inspect_log, parse_kind};
pub use inspect_page::{PageOptions, inspect_page};
