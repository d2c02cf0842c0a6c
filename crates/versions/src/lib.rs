//! Row versions: what a snapshot sees of a row, how rows are written, where earlier
//! versions live, and how they go away. Constant Time Recovery, sections 3.2, 3.3, 3.7.
//!
//! | file | concept |
//! |---|---|
//! | `view.rs` | which transactions' writes a statement sees |
//! | `read.rs` | the version of a row that a view sees |
//! | `write.rs` | insert, update, delete of one row |
//! | `delete_run.rs`, `insert_run.rs` | deleting, inserting several rows of one leaf at once |
//! | `revert.rs` | undoing the rows of a short transaction |
//! | `row_undo.rs` | undo through the log (traditional mode) |
//! | `lost.rs` | earlier versions that a restart has lost, rebuilt from the log (traditional mode) |
//! | `store.rs` | the off-row version store |
//! | `reclaim.rs` | when a version page may be freed |
//! | `preallocated_pages.rs` | version pages made ready in advance |
//! | `version_holders.rs` | what keeps versions from being freed |
//! | `prune.rs` | reverting and stripping the rows of one page |
//! | `overflow.rs` | values too large for a page |
//! | `pending_frees.rs` | storage to be freed once a transaction's outcome is past changing |
//! | `cleaner.rs` | the sweep over pages with versions |
//! | `empty_spans.rs` | ranges of keys that cursors jump over |
//! | `sweep.rs` | the pages of one sweep, handed out to its threads |
//! | `unmapped.rs` | intervals whose space map cannot be read |
//! | `pace.rs` | how fast a sweep goes |
//! | `progress.rs` | what operators see of it |
//!
//! # Invariants
//! 1. Every row version carries its writer's id until that writer is committed and seen
//!    by all; only then may the tag go.
//! 2. Under an aborted version there is always the newest version that is not aborted,
//!    or nothing at all.
//! 3. An off-row version is freed only when no snapshot and no aborted transaction can
//!    lead to it: its pusher and all pushers on its page are committed and seen by all, or
//!    nothing of them is left (`reclaim.rs` says why that suffices).
//! 4. The has-versions mark of a page (in its header and in its PFS byte) is set in the
//!    same log group as the first version on it.

mod cleaner;
mod delete_run;
mod empty_spans;
mod insert_run;
mod lost;
mod overflow;
mod pace;
mod pending_frees;
mod preallocated_pages;
mod progress;
mod prune;
mod read;
mod reclaim;
mod revert;
mod row_undo;
mod store;
mod sweep;
mod turns;
mod unmapped;
mod version_holders;
mod view;
mod write;

pub use cleaner::{Cleaner, Sweeping, decode_forget};
pub use delete_run::PlantedRun;
pub use empty_spans::{EmptySpans, From as WalkFrom, Passed, PlantedJump, SeenBy, SpanWalk};
pub use insert_run::NewRow;
pub use lost::{LostReport, rebuild_lost};
pub use overflow::{OVERFLOW_OBJECT, free_external, is_external, read_external, write_external};
pub use pace::{PaceSettings, Pressure};
pub use pending_frees::{FreeWork, Freed, PendingFree, PendingFrees, PlantedFree};
pub use progress::{
    CleanerTotals, FinishedSweep, Pace, PaceReason, Skipped, SkippedPages, SweepPhase, SweepProgress, SweepReport,
};
pub use prune::{PageCleaning, clean_leaf, is_for_all, remove_ghosts};
pub use read::{
    AtSight, Possible, Seen, Visible, leaf_seen_at_sight, newest, possible, seen_at_sight, values_in_use, visible,
    visible_known,
};
pub use revert::revert_row;
pub use row_undo::{RowUndo, UndoAction, undo_one};
pub use store::{VERSION_OBJECT, VersionStore, VersionStoreConfig, VersionStoreStats};
pub use sweep::UNIT_PAGES;
pub use version_holders::version_holders;
pub use view::{KnownSeen, View};
pub use write::{Outcome, RowWriter, VersionCaps, Versioning};
