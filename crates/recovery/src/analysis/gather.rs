//! What the log since the checkpoint says, record by record.
//!
//! | record | its transaction | besides |
//! |---|---|---|
//! | any with a transaction's id | seen: aborted unless something below says otherwise | the highest id |
//! | `Page` | | the page's last record; the highest page and object |
//! | `PageUndo` | as `RowUndo` | as `Page` |
//! | `RowUndo` | a loser with a longer chain, and the sub-transaction that wrote the row | |
//! | `Compensation` | a loser with a longer chain | |
//! | `Commit` | committed with its sub-transactions; no loser | |
//! | `Abort` | in the aborted map with the sub-transactions that it names; no loser. (Going back to a savepoint is an ABORT of those, in the name of the first of them) | when, for operators |
//! | `Undone` | out of the map with its sub-transactions; no loser | |
//! | `Prepare` | in doubt once all parts are there; or taken back | |
//! | `Forget` | | the ids that it names are out of the map |
//! | `CheckpointData`, `CheckpointEnd` | | the state of the checkpoint that analysis begins with; that of later ones says nothing new |
//!
//! Which of these wins where several speak of one transaction is decided at the end, in
//! `conclude.rs`: the order of records matters only within a chain.

use std::collections::{BTreeMap, HashSet};

use resurgam_base::{Error, Lsn, PageId, Result, TxId};
use resurgam_buffer::PendingRedo;
use resurgam_log::{RecordKind, RecordRef};
use resurgam_txn::{AbortedDetails, AbortedTx, TxIdSet};
use resurgam_versions::{RowUndo, decode_forget};

use super::Loser;
use super::named::{Named, check_id};
use crate::checkpoint::CheckpointState;
use crate::prepared::{PrepareRecord, PreparedTx};
use crate::tx_record::TxRecord;

/// The highest numbers that were met: new ones begin above them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Highest {
    /// Of a transaction.
    pub tx: u64,
    /// Of a page of the data file.
    pub page: u64,
    /// The version-store file with the highest number is the one in use, and its ids are the highest.
    pub version_page: PageId,
    /// Of an object.
    pub object: u32,
}

impl Highest {
    /// Ids that a record names beside its own.
    fn named(&mut self, ids: &[(TxId, TxId)]) {
        self.tx = ids.iter().map(|(_, last)| last.0).fold(self.tx, u64::max);
    }
}

/// See the module.
#[derive(Default)]
pub(super) struct Gathered {
    pub checkpoint: Lsn,
    /// What the checkpoint holds; whole once it is `finished`.
    pub state: CheckpointState,
    pub finished: bool,
    /// Every id that a record carries.
    pub seen: TxIdSet,
    pub committed: Vec<(TxId, TxId)>,
    pub aborted: TxIdSet,
    pub details: AbortedDetails,
    pub forgotten: TxIdSet,
    pub named: Named,
    pub losers: BTreeMap<TxId, Loser>,
    /// Transactions with a COMMIT, an ABORT or an end of undoing.
    pub ended: HashSet<TxId>,
    pub prepares: BTreeMap<TxId, PreparedTx>,
    /// Whose PREPARE was taken back.
    pub withdrawn: HashSet<TxId>,
    pub highest: Highest,
    pub records: u64,
    /// Most records carry the id of the one before.
    last_tx: TxId,
}

impl Gathered {
    /// Nothing yet, of the log since that checkpoint.
    pub fn since(checkpoint: Lsn) -> Self {
        Self { checkpoint, ..Self::default() }
    }

    /// Takes in the next record.
    ///
    /// # Errors
    /// `Corrupt`, with the record's position.
    #[inline]
    pub fn add(&mut self, record: &RecordRef<'_>, pending: &PendingRedo) -> Result<()> {
        self.records += 1;
        self.case(record, pending)
            .map_err(|error| Error::corrupt(format!("log record at {}: {}", record.lsn, error.message())))
    }

    /// A transaction has a record there, of which no more is said.
    ///
    /// # Errors
    /// `Corrupt` for an id that cannot be.
    pub fn note_seen(&mut self, tx: TxId) -> Result<()> {
        check_id(tx)?;
        self.seen.insert(tx);
        self.highest.tx = self.highest.tx.max(tx.0);
        Ok(())
    }

    /// A page record of `tx` at `lsn` says how a change that was made under the id `writer` is undone.
    ///
    /// # Errors
    /// `Corrupt` for an id that cannot be.
    pub fn note_undo(&mut self, tx: TxId, lsn: Lsn, writer: TxId) -> Result<()> {
        self.records += 1;
        check_id(writer)?;
        self.note_seen(tx)?;
        self.row_undo(tx, lsn, writer);
        Ok(())
    }

    /// The table of the module's head.
    #[inline]
    fn case(&mut self, record: &RecordRef<'_>, pending: &PendingRedo) -> Result<()> {
        let (header, lsn, body) = (&record.header, record.lsn, record.body);
        let tx = header.tx;
        if tx.is_some() && tx != self.last_tx {
            check_id(tx)?;
            self.seen.insert(tx);
            self.highest.tx = self.highest.tx.max(tx.0);
            self.last_tx = tx;
        }
        match header.kind {
            RecordKind::Page | RecordKind::PageUndo => {
                pending.note(header.page, lsn, lsn);
                if header.page.file() == 0 {
                    self.highest.page = self.highest.page.max(header.page.0);
                } else {
                    self.highest.version_page = self.highest.version_page.max(header.page);
                }
                self.highest.object = self.highest.object.max(header.object.0);
                if let Some(undo) = RowUndo::of_record(header, body)? {
                    self.row_undo(tx, lsn, undo.xid);
                }
            }
            RecordKind::RowUndo => {
                if let Some(undo) = RowUndo::of_record(header, body)? {
                    self.row_undo(tx, lsn, undo.xid);
                }
            }
            RecordKind::Compensation => self.losers.entry(tx).or_default().chain.push(lsn),
            RecordKind::Commit => self.commit(tx, TxRecord::decode(body)?),
            RecordKind::Abort => self.abort(tx, lsn, &TxRecord::decode(body)?)?,
            RecordKind::Undone => self.undone(tx, &TxRecord::decode(body)?)?,
            RecordKind::Prepare => self.prepare(tx, lsn, PrepareRecord::decode(body)?),
            RecordKind::Forget => self.forgotten.insert_all(&decode_forget(body)?),
            RecordKind::CheckpointData if !self.finished => self.state.decode_into(body)?,
            RecordKind::CheckpointEnd if !self.finished => {
                let begin = body.first_chunk::<8>().map(|bytes| Lsn(u64::from_le_bytes(*bytes)));
                self.finished = begin == Some(self.checkpoint);
            }
            _ => {}
        }
        Ok(())
    }

    fn row_undo(&mut self, tx: TxId, lsn: Lsn, writer: TxId) {
        let loser = self.losers.entry(tx).or_default();
        loser.chain.push(lsn);
        self.highest.tx = self.highest.tx.max(writer.0);
        if writer != tx {
            loser.add_sub(writer, writer);
        }
    }

    fn end(&mut self, tx: TxId) {
        self.losers.remove(&tx);
        self.ended.insert(tx);
    }

    fn commit(&mut self, tx: TxId, body: TxRecord) {
        self.end(tx);
        self.highest.named(&body.subs);
        self.committed.push((tx, tx));
        self.committed.extend(body.subs);
    }

    fn abort(&mut self, tx: TxId, lsn: Lsn, body: &TxRecord) -> Result<()> {
        self.end(tx);
        self.highest.named(&body.subs);
        self.details.note(AbortedTx { id: tx, lsn, aborted_us: body.time_us, began_us: 0 });
        self.aborted.insert(tx);
        body.subs.iter().try_for_each(|(first, last)| self.named.insert(&mut self.aborted, *first, *last))
    }

    fn undone(&mut self, tx: TxId, body: &TxRecord) -> Result<()> {
        self.end(tx);
        self.highest.named(&body.subs);
        self.forgotten.insert(tx);
        body.subs.iter().try_for_each(|(first, last)| self.named.insert(&mut self.forgotten, *first, *last))
    }

    fn prepare(&mut self, id: TxId, lsn: Lsn, part: PrepareRecord) {
        match part {
            PrepareRecord::Withdrawn => {
                self.prepares.remove(&id);
                self.withdrawn.insert(id);
            }
            part => {
                let tx = self.prepares.entry(id).or_default();
                (tx.id, tx.lsn) = (id, lsn);
                tx.add(part);
            }
        }
    }
}
