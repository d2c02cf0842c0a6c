//! Analysis: one pass over the log from the last checkpoint's begin to the end.
//!
//! A transaction is aborted unless its COMMIT is found: ids that were active at the
//! checkpoint, and ids that any later record carries, minus those that a COMMIT names.
//! Those that have undo records (traditional mode) are found with the ends of their chains.
//! A transaction whose PREPARE is found, in the log or in the checkpoint, and no end of it, is
//! in doubt: it is neither aborted nor undone.
//!
//! | file | concept |
//! |---|---|
//! | `gather.rs` | what each record says: the cases as a table |
//! | `conclude.rs` | the checkpoint's state and what was gathered behind it, as one |
//! | `named.rs` | bounds for ids that are named |

mod conclude;
mod gather;
mod named;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Error, Lsn, PageId, Result, TxId};
use resurgam_buffer::PendingRedo;
use resurgam_log::{LogEnd, LogReader, Opening, RecordRef, segment_path};
use resurgam_txn::{AbortedDetails, TxIdSet, UndoChain};
use resurgam_vfs::Vfs;

use crate::checkpoint::CheckpointState;
use crate::control::Control;
use crate::identity::Identity;
use crate::prepared::PreparedTx;
use crate::version_record::VersionRecord;

pub use gather::Highest;

/// How far analysis is, for people.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    pub records: u64,
    pub bytes: u64,
}

/// A transaction that the crash cut off and that is undone from the log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Loser {
    pub chain: UndoChain,
    /// Its sub-transactions, as inclusive ranges, ascending.
    pub subs: Vec<(TxId, TxId)>,
}

impl Loser {
    fn add_sub(&mut self, first: TxId, last: TxId) {
        match self.subs.last_mut() {
            Some((_, end)) if *end >= first && *end <= last => *end = last,
            Some((_, end)) if end.0 + 1 == first.0 => *end = last,
            _ => self.subs.push((first, last)),
        }
    }
}

/// What analysis found.
pub struct Analysis {
    pub end: LogEnd,
    pub next_id: TxId,
    pub high_water: u64,
    /// The same of the version-store file, its number in the upper bits; none if there never
    /// was one.
    pub version_high_water: PageId,
    pub next_object: u32,
    /// The aborted-transaction map, transactions cut off by the crash included.
    pub aborted: TxIdSet,
    /// What is known of the newest of them.
    pub aborted_details: AbortedDetails,
    /// How many of them the crash cut off.
    pub cut_off: u64,
    /// Transactions to be undone from the log, by id; they are in no map.
    pub losers: BTreeMap<TxId, Loser>,
    /// Transactions in doubt, by id; they are in no map, but for their aborted sub-transactions.
    pub prepared: Vec<PreparedTx>,
    /// What the checkpoint says of the boot page and the control file.
    pub identity: Option<Identity>,
    /// What it says of the version-store file.
    pub version_store: Option<VersionRecord>,
    /// Who has opened the log for writing, as far as the checkpoint and the log behind it say.
    pub openings: Vec<Opening>,
    pub records: u64,
    pub bytes: u64,
    /// In words, what stands at the end of the log.
    pub end_reason: String,
}

/// What a source that is not the log itself tells of it, in order of LSN.
pub enum Told<'a> {
    /// A record without a page, whole.
    Record(RecordRef<'a>),
    /// A transaction has a record; told once at least of each that has one, unless it was active at the checkpoint.
    Seen(TxId),
    /// A page record says how a change is undone: of which transaction, where it is, and under which id the change was made.
    Undo(TxId, Lsn, TxId),
    /// Something that says nothing of transactions.
    Nothing,
}

/// The log as an archive of it tells it: without page records, and what they would say of transactions instead.
pub trait AnalysisSource {
    /// What comes next; none at the end.
    ///
    /// # Errors
    /// `Corrupt`; those of reading.
    fn next(&mut self) -> Result<Option<Told<'_>>>;

    /// The highest page, version page and object that page records before the end name; the checkpoint's state says above
    /// which they are of interest.
    ///
    /// # Errors
    /// `Corrupt`; those of reading.
    fn highest(&mut self, state: &CheckpointState) -> Result<Highest>;
}

/// As [`analyse`], of what `source` tells from the checkpoint that begins at `checkpoint` to `end`. Which pages the data file
/// lacks something of is not concluded: pages are made as of the end.
///
/// # Errors
/// `Corrupt` when the checkpoint is not whole, or what is told cannot be; those of the source.
pub fn analyse_from(source: &mut dyn AnalysisSource, checkpoint: Lsn, end: LogEnd) -> Result<Analysis> {
    let pending = PendingRedo::default();
    let mut found = gather::Gathered::since(checkpoint);
    while let Some(told) = source.next()? {
        match told {
            Told::Record(record) => found.add(&record, &pending)?,
            Told::Seen(tx) => found.note_seen(tx)?,
            Told::Undo(tx, lsn, writer) => found.note_undo(tx, lsn, writer)?,
            Told::Nothing => {}
        }
    }
    if !found.finished {
        return Err(Error::corrupt(format!("the checkpoint at LSN {checkpoint} is not whole")));
    }
    let highest = source.highest(&found.state)?;
    found.highest.page = found.highest.page.max(highest.page);
    found.highest.version_page = found.highest.version_page.max(highest.version_page);
    found.highest.object = found.highest.object.max(highest.object);
    found.state.dirty.clear();
    found.conclude(end, String::new(), &pending)
}

/// Reads the log from `control.checkpoint`; pages go into `pending`.
///
/// # Errors
/// `Corrupt` when the log, or the checkpoint in it, is not whole; those of reading.
pub fn analyse(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    control: &Control,
    pending: &PendingRedo,
    mut progress: impl FnMut(Progress),
) -> Result<Analysis> {
    let mut reader = LogReader::open(Arc::clone(vfs), dir, control.segment_bytes, control.checkpoint, 0)?;
    let mut found = gather::Gathered::since(control.checkpoint);
    while let Some(record) = reader.next()? {
        found.add(&record, pending)?;
        if found.records.is_multiple_of(65_536) {
            progress(Progress { records: found.records, bytes: record.lsn.0 - control.checkpoint.0 });
        }
    }
    // A hole in what had been durable is not the end of the log.
    reader.check_end()?;
    let end = reader.end();
    found.state.openings.extend_from_slice(reader.openings());
    if !found.finished {
        return Err(Error::corrupt(format!(
            "the checkpoint at LSN {} is not whole: the log segment \"{}\" is damaged or missing at LSN {} ({:?})",
            control.checkpoint,
            segment_path(&**vfs, dir, end.lsn.0 / control.segment_bytes.max(1))?.display(),
            end.lsn,
            reader.why_stopped(),
        ))
        .with_hint("Restore the data folder from a backup; \"resurgam inspect log\" shows what is there."));
    }
    let end_reason = reader.why_stopped().map_or_else(String::new, |why| format!("{why:?}"));
    found.conclude(end, end_reason, pending)
}
