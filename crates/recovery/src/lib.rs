//! Checkpoints and what follows a crash. Constant Time Recovery, sections 2.1, 3.3.2 and
//! 3.6.
//!
//! | file | concept |
//! |---|---|
//! | `control.rs` | the control file: where the last checkpoint is, and the log's epoch |
//! | `checkpoint.rs` | taking a fuzzy checkpoint; its records |
//! | `analysis.rs` | reading the log from the last checkpoint on |
//! | `tx_record.rs` | bodies of COMMIT and ABORT records |
//! | `prepared.rs` | in-doubt transactions in the log |
//! | `version_record.rs` | where the version-store file is |
//! | `identity.rs` | what a checkpoint says of the boot page and the control file |
//! | `log_place.rs` | where the log is, and whose it is |
//!
//! # What an open does
//! 1. Intact images of the double-write area replace torn pages.
//! 2. **Analysis** reads the log from the last checkpoint's begin: which transactions had
//!    not ended, the aborted-transaction map, and for every page that the data file may
//!    lack something of, its last log record.
//! 3. The database **opens**. Transactions that had not ended are aborted by being in the
//!    map; nothing is undone. Those that are *prepared* are active again, with their table
//!    locks: they wait for the one who decides them.
//! 4. A page is **redone** when it is first fetched; a background pass fetches the rest.
//!
//! Only step 2 stands before the first query, and a checkpoint bounds it: its cost is the
//! log since the last checkpoint, whatever transactions did and however large they were.

mod analysis;
mod checkpoint;
mod control;
mod identity;
mod log_place;
mod prepared;
mod tx_record;
mod version_record;

pub use analysis::{Analysis, AnalysisSource, Highest, Loser, Progress, Told, analyse, analyse_from};
pub use checkpoint::{CheckpointState, append_checkpoint, take_checkpoint};
pub use control::{Control, ControlCopy, ControlFile};
pub use identity::{Identity, Parent};
pub use log_place::{BEING_MADE, LOG_OWNER, LOG_PLACE, LogOwner, check_log_place, read_log_place, write_log_place};
pub use prepared::{PREPARED_ID_BYTES_MAX, PREPARED_SUBS_MAX, PrepareRecord, PreparedHead, PreparedTx};
pub use tx_record::TxRecord;
pub use version_record::{VERSION_RECORD, VersionRecord};
