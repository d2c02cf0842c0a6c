//! The undo records of transactions that were unfinished, or in doubt, at the cut (traditional mode): copied into the new log,
//! so that it can undo them whatever becomes of the archive. The time is in proportion to them: one pass over the stream since
//! the first of them, and passes over the pages that they are on, a stretch of the chains at a time. Memory does not depend on their length
//! (`links.rs`).

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{History, StreamEntry, View};
use resurgam_base::{Error, Lsn, PageId, Result, TxId};
use resurgam_log::{Group, Log, OwnedRecord, RecordKind};
use resurgam_txn::UndoChain;
use resurgam_versions::RowUndo;
use resurgam_vfs::Vfs;

use super::cut::walk;
use super::links::{Link, Links};

/// Bytes of records that are held in memory at a time.
const BYTES_MAX: usize = 32 << 20;

/// Writes what is still to be undone of each chain into `log`, as records of their own, and returns the chains that they
/// are there.
///
/// # Errors
/// `Corrupt` when a chain does not lead back; those of reading the archive and of writing.
pub(super) fn copy(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    log: &Log,
    view: &Arc<View>,
    cut: Lsn,
    chains: &BTreeMap<TxId, UndoChain>,
) -> Result<BTreeMap<TxId, UndoChain>> {
    let mut links = Links::new(vfs, dir, chains.keys().copied());
    gather(&mut links, view, cut, chains)?;
    let mut copied = BTreeMap::new();
    for tx in links.transactions() {
        let mut chain = Copied { tx, chain: UndoChain::default(), before: Lsn::NONE };
        links.for_each(tx, &mut |some| chain.copy(log, view, some))?;
        copied.insert(tx, chain.finish(log)?);
    }
    links.finish()?;
    Ok(copied)
}

/// What is left of each chain. A compensation says up to where all is undone.
fn gather(links: &mut Links, view: &Arc<View>, cut: Lsn, chains: &BTreeMap<TxId, UndoChain>) -> Result<()> {
    let Some(first) = chains.values().map(|chain| chain.first).min() else { return Ok(()) };
    walk(view, first, cut, |entry| {
        match entry {
            StreamEntry::Undo { tx, lsn, page, .. } => links.push(*tx, Link { lsn: *lsn, page: *page })?,
            StreamEntry::Record(record) => match record.header.kind {
                RecordKind::RowUndo => links.push(record.header.tx, Link { lsn: record.lsn, page: PageId::NONE })?,
                RecordKind::Compensation => links.truncate(record.header.tx, record.header.prev_tx)?,
                _ => {}
            },
            StreamEntry::Block { .. } | StreamEntry::FirstOf { .. } => {}
        }
        Ok(true)
    })
}

/// A chain that is being copied.
struct Copied {
    tx: TxId,
    chain: UndoChain,
    /// The link that was copied last.
    before: Lsn,
}

impl Copied {
    fn copy(&mut self, log: &Log, view: &Arc<View>, links: &[Link]) -> Result<()> {
        let tx = self.tx;
        let mut group = Group::default();
        let (mut at, mut some) = (0, links.len());
        while at < links.len() {
            let batch = links.get(at..(at + some).min(links.len())).unwrap_or_default();
            let Some(records) = records(view, batch)? else {
                // Too large together.
                some = (batch.len() / 2).max(1);
                continue;
            };
            for link in batch {
                let bad = |what: &str| {
                    Error::corrupt(format!("the undo chain of transaction {tx} {what} at LSN {}", link.lsn))
                };
                let record = records.get(&link.lsn).ok_or_else(|| bad("has no record"))?;
                if record.header.tx != tx || record.header.prev_tx != self.before {
                    return Err(bad("does not lead back"));
                }
                let undo = RowUndo::of_record(&record.header, &record.body)?
                    .ok_or_else(|| bad("does not say what to undo"))?;
                group.clear();
                group.record(RecordKind::RowUndo, tx, self.chain.last, &undo.encode_alone());
                self.chain.push(log.append(&group)?.base);
                self.before = link.lsn;
            }
            at += batch.len();
        }
        Ok(())
    }

    fn finish(mut self, log: &Log) -> Result<UndoChain> {
        if self.chain.first.is_none() {
            // All of it is undone; only the transaction's end is missing.
            let mut group = Group::default();
            group.record(RecordKind::Compensation, self.tx, Lsn::NONE, &[]);
            self.chain.push(log.append(&group)?.base);
        }
        Ok(self.chain)
    }
}

/// The records of some links, by LSN; none if there are several and they are too large together.
fn records(view: &Arc<View>, links: &[Link]) -> Result<Option<BTreeMap<Lsn, OwnedRecord>>> {
    let (Some(first), Some(last)) = (links.first(), links.last()) else { return Ok(Some(BTreeMap::new())) };
    let (mut found, mut bytes) = (BTreeMap::new(), 0);
    let mut pages: BTreeMap<PageId, Vec<Lsn>> = BTreeMap::new();
    for link in links {
        match link.page.is_some() {
            true => pages.entry(link.page).or_default().push(link.lsn),
            false => drop(found.insert(link.lsn, view.record_at(link.lsn)?)),
        }
    }
    let (Some(low), Some(high)) = (pages.keys().next(), pages.keys().next_back()) else { return Ok(Some(found)) };
    let range = *low..PageId(high.0 + 1);
    let mut scan = view.scan(range, Lsn(first.lsn.0 - 1), last.lsn, History::All)?;
    while let Some(page) = scan.next_page()? {
        let Some(wanted) = pages.get(&page) else { continue };
        while let Some(record) = scan.next_record()? {
            if wanted.binary_search(&record.lsn).is_ok() && record.header.kind == RecordKind::PageUndo {
                bytes += record.body.len();
                if bytes > BYTES_MAX && links.len() > 1 {
                    return Ok(None);
                }
                found.insert(record.lsn, record.to_owned());
            }
        }
    }
    Ok(Some(found))
}
