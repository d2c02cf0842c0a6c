//! The embedded transactional engine: a database of tables and indexes with transactions,
//! range cursors, and recovery in constant time. No SQL and no async runtime.
//! Its API is made for the layers above: SQL, and `resurgam-embedded`, which is the one for programs.
//!
//! ```no_run
//! use resurgam_engine::*;
//! # fn main() -> Result<()> {
//! let db = Database::open("./data", Options::default())?;
//! let tx = db.begin(Isolation::ReadCommitted);
//! let table = tx.create_table(TableSpec::new("public", "accounts")
//!     .column("id", ColumnType::Int8)
//!     .column("balance", ColumnType::Int8)
//!     .primary_key(&["id"]))?.wait(|| unreachable!())?;
//! tx.insert(&table, &[DatumRef::Int8(1), DatumRef::Int8(100)])?.done()?;
//! tx.commit(Durability::Sync)?.wait()?;
//! # Ok(()) }
//! ```
//!
//! This crate composes; the algorithms are in the crates below it.
//!
//! | file | concept |
//! |---|---|
//! | `database.rs` | open, create, close |
//! | `version_file.rs` | which version-store file an open uses |
//! | `log_folder.rs` | which folder the log is in |
//! | `checkpoint_stats.rs` | how often checkpoints are taken, how long they take |
//! | `archiver.rs` | the log's way into an archive |
//! | `archive_place.rs` | where that is |
//! | `merging.rs` | merging its runs, at a pace |
//! | `keeper.rs` | merging and giving up without a database: in a log service |
//! | `backup.rs` | making a backup of the running database |
//! | `backup_lease.rs` | what of an archive is needed by one that is being made, where others write it |
//! | `backup_schedule.rs` | making backups when they are due |
//! | `backup_places.rs` | where backups are, which there are, the newest one |
//! | `page_service.rs` | a database whose pages are with page servers, and in no file of its own |
//! | `background.rs` | write-back, checkpoints, redo, cleaning, version pages in advance |
//! | `options.rs` | settings |
//! | `definition.rs` | what a definition says, and its stored form |
//! | `index_details.rs` | what a definition says of an index beside its key |
//! | `table.rs` | tables: how rows become keys and values |
//! | `catalog_row.rs` | rows of the catalog |
//! | `catalog.rs` | definitions as versioned rows; the cache of committed ones |
//! | `catalog_object.rs` | objects of the catalog that are no relations: schemas, roles, types |
//! | `databases.rs` | several databases in one: namespaces of definitions |
//! | `catalog_overlay.rs` | what a transaction sees of the catalog once it has changed it |
//! | `shared_map.rs` | a map that is cheap to copy: for each state of the definitions |
//! | `schemas.rs` | what is in a schema, moving relations between them, keeping one from going |
//! | `transaction.rs` | begin, statements, commit, rollback |
//! | `gate.rs` | counting what is under way, and waiting until nothing is; `sync.rs`, what it is made of |
//! | `operations.rs` | what of a transaction is under way while it is ended |
//! | `kept_values.rs` | large values that an update does not change |
//! | `lock.rs` | LOCK TABLE: locks by name, and what they keep readers from |
//! | `statement.rs` | one statement: what it sees, how it writes |
//! | `prepared.rs` | transactions in doubt: two-phase commit |
//! | `rows.rs` | insert, update, delete with index maintenance |
//! | `load.rs` | inserting many rows at once |
//! | `pop.rs` | taking the first row of a range |
//! | `sequence.rs` | sequences and their values |
//! | `ddl.rs` | changes of definitions |
//! | `build.rs` | filling a new index |
//! | `fill.rs` | many rows into a new tree, leaf by leaf |
//! | `key_sort.rs` | the order of their keys |
//! | `runs.rs` | sorted runs in a temporary file, and their merge |
//! | `sort_files.rs` | who makes these files |
//! | `rewrite.rs` | copying a table's rows into new trees |
//! | `reindex.rs` | writing indexes anew |
//! | `progress.rs` | how far builds are |
//! | `view.rs` | point reads |
//! | `cursor.rs` | range reads |
//! | `position.rs` | where a cursor is, and what it passes over |
//! | `met_ghosts.rs` | deleted rows that they pass over |
//! | `successor.rs` | where a row is that got another primary key |
//! | `reference.rs` | what foreign keys ask of the newest state of rows |
//! | `pack.rs` | rows of partly free leaves put together on fewer |
//! | `give_back.rs` | space that files give back to the file system |
//! | `cleaning.rs` | sweeps of the cleaner, and what operators see of them |
//! | `cleaner_events.rs` | what the log says about them |
//! | `mode.rs` | accelerated recovery or the traditional mode, and the way from one to the other |
//! | `undo.rs` | rolling back what is to be undone: short transactions, the traditional mode |
//! | `statistics` | what is known of the rows and values of tables, for planners |
//! | `status.rs` | what an operator can see |
//! | `throttle.rs` | the bound of the log, and who waits at it |
//! | `troubles.rs` | what fails in the background, and is tried again |
//! | `verify.rs` | proof that everything fits together |

mod access;
mod archive_place;
mod archiver;
mod background;
mod backup;
mod backup_lease;
mod backup_places;
mod backup_schedule;
mod build;
mod catalog;
mod catalog_object;
mod catalog_overlay;
mod catalog_row;
mod checkpoint_stats;
mod cleaner_events;
mod cleaning;
mod concurrent_index;
mod covering;
mod cursor;
mod data_file;
mod database;
mod databases;
mod ddl;
mod definition;
mod fill;
mod gate;
mod give_back;
mod history;
mod index_details;
mod keeper;
mod kept_header;
mod kept_values;
mod key_sort;
mod load;
mod lock;
mod log_folder;
mod log_zone;
mod lost;
mod merging;
mod met_ghosts;
mod mode;
mod near;
mod operations;
mod options;
mod pace;
mod pack;
mod page_service;
mod points;
mod policy_ddl;
mod pop;
mod position;
mod prepared;
mod progress;
mod reference;
mod reindex;
mod repair;
mod restore;
mod retention;
mod rewrite;
mod row_lock;
mod row_test;
mod rows;
mod runs;
mod schemas;
mod sequence;
mod shared_map;
mod shared_snapshot;
mod sort_files;
mod statement;
mod statistics;
mod status;
mod stored_view;
mod successor;
mod sync;
mod table;
mod throttle;
mod transaction;
mod troubles;
mod undo;
mod verify;
mod version_file;
mod view;
mod view_ddl;

pub use access::{Access, FIRST_ROLE, Grant};
pub use archiver::ArchiveStatus;
#[doc(hidden)]
pub use backup::PlantedInBackup;
pub use backup_places::{BackupRow, BackupTotals};
pub use catalog_object::{CatalogObject, ObjectKind};
pub use checkpoint_stats::CheckpointStats;
pub use cleaning::{CleanerStatus, HoldingAborted, HoldingSnapshot, HoldingTransaction, VersionStoreHolders};
pub use concurrent_index::IndexBuild;
pub use covering::Covering;
pub use cursor::{Cursor, Direction, KeyRange, RowBatch, Tested};
pub use database::Database;
pub use databases::{FIRST_DATABASE, public_of};
pub use row_test::{ColumnBounds, RowTest};
/// What is stored of definitions, for the checker.
#[doc(hidden)]
pub mod stored {
    pub use crate::catalog_row::{CATALOG_OBJECT, CatalogKey, NameOf};
    pub use crate::definition::{Definition, Place};
}

pub use ddl::{CheckSpec, TableChange};
pub use definition::{
    Check, Column, CommentOn, Deferral, ForeignKey, Generated, Index, ReferentialAction, expression_column, is_hidden,
    predicate_column,
};
#[doc(hidden)]
pub use give_back::GivenBack;
pub use index_details::{Declared, IndexDetails};
pub use keeper::{ArchiveKeeper, ArchiveKeeperConfig, ArchiveKept, KeptMerge, OpenBackups};
pub use load::Load;
pub use log_zone::{LogArchiver, LogService, LogServiceStatus, LogZone, LogZoneHandle, ZoneTaken};
#[doc(hidden)]
pub use met_ghosts::GhostLimits;
#[doc(hidden)]
pub use options::StoreHandle;
pub use options::{DoubleWrites, Options};
pub use page_service::{PageServerStatus, PageService, PageServiceHandle};
pub use points::{
    ArchivedPages, RestorePoint, RestoreRequest, RestoreStep, RestoredPoint, forget_lease, restore_point,
};
#[doc(hidden)]
pub use points::{LsnOrder, PlantedInRestore, analyse_archive};
pub use pop::Take;
pub use prepared::PreparedTransaction;
pub use progress::{BuildPhase, BuildStatus};
pub use reference::{Found, Presence, Referencing, Search};
pub use repair::RepairedPage;
#[doc(hidden)]
pub use restore::PlantedInChain;
pub use restore::{ORIGIN, Origin, OriginKind, ParentSource, RestoreStatus, UnfinishedRestore, unfinished_restore};
pub use resurgam_archive::GivenUp;
pub use resurgam_base::{CommitTs, Error, ErrorKind, Lsn, ObjectId, PageId, Result, TxId, limits};
pub use resurgam_buffer::{
    Copied, Had, PageCache, PageCacheState, PageCacheStatus, PoolStats, RemotePages, Repair, Waits,
};
#[doc(hidden)]
pub use resurgam_buffer::{Planted, PlantedInGiveBack};
#[doc(hidden)]
pub use resurgam_log::PlantedInLog;
pub use resurgam_log::{Log, LogBlock, LogFollower, LogHold, LogHolder, LogSink, LogStats};
pub use resurgam_page::key::ColumnOrder;
pub use resurgam_page::types::{
    ColumnType, DISPLAY_SCALE_BYTES, Datum, DatumRef, ElementType, ExternalRef, Interval, NumericLimit, OrderedType,
    SECOND_DIGITS_MAX,
};
pub use resurgam_page::{array, codec, document, folded, key};
pub use resurgam_recovery::Control;
pub use resurgam_txn::{AbortedList, AbortedTx, LockMode, LockRow, LockWait, RowLockMode};
pub use resurgam_versions::{
    CleanerTotals, FinishedSweep, Pace, PaceReason, Seen, Skipped, SkippedPages, SweepPhase, SweepProgress,
    SweepReport, VersionCaps,
};
#[doc(hidden)]
pub use resurgam_versions::{PlantedFree, PlantedJump, PlantedRun};
pub use retention::{ExpireRequest, Expired, RecoverablePoints, expire_archive};
pub use rewrite::{Rewrite, is_stored_alike};
pub use rows::BulkInserter;
pub use sequence::{Identity, LOGGED_AHEAD, LOGGED_AHEAD_MAX, OwnedSequence, Sequence, SequenceState};
pub use shared_snapshot::SharedSnapshot;
pub use sort_files::{SortFile, SortFiles};
#[doc(hidden)]
pub use statement::Statement;
pub use statistics::{Analysis, ColumnStatistics, Sampled, TableStatistics};
pub use status::{ActiveTransaction, LogStatus, RecoveryReport, Stats};
pub use status::{DamagedPage, DefinitionCounts};
pub use stored_view::{CheckOption, SeenColumn, View, ViewColumn, ViewRelation};
pub use successor::Trail;
pub use table::{ColumnSpec, IndexSpec, RawRow, RowBuf, Table, TableSpec};
pub use transaction::{
    Attempt, Change, CommitTicket, Durability, Interrupt, Isolation, Savepoint, StatementKind, Transaction,
};
pub use troubles::Trouble;
pub use view::ReadView;
