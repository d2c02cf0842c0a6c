//! What was taken and is in no run yet: records in memory, by page and in order of LSN.
//!
//! Records come in order of LSN, so those of a page are a chain in order already: sorting is sorting the distinct pages.
//! The same chains answer what a restore asks for that does not wait for the archive.

use hashbrown::{HashMap, HashSet};
use resurgam_base::{Lsn, PageId, Result, TxId};
use resurgam_log::{Block, OwnedRecord, RecordKind};
use resurgam_page::codec::put_varint64;

use crate::format::RunSummary;
use crate::item::{self, Item, STREAM_BLOCK, STREAM_FIRST, STREAM_RECORD, STREAM_UNDO};
use crate::writer::RunWriter;

/// No record before.
const NONE: u32 = u32::MAX;

struct Kept {
    lsn: Lsn,
    at: usize,
    len: u32,
    /// The record before of the same page.
    before: u32,
    /// Bytes that it took in the log.
    log_bytes: u32,
    anew: bool,
}

struct Entry {
    kind: u64,
    lsn: Lsn,
    at: usize,
    len: u32,
}

/// See the module.
#[derive(Default)]
pub(crate) struct Workspace {
    /// Rests of items.
    bytes: Vec<u8>,
    records: Vec<Kept>,
    stream: Vec<Entry>,
    /// The last record of each page.
    pages: HashMap<PageId, u32>,
    seen: HashSet<TxId>,
    last_tx: TxId,
    /// Counted beside what the writer counts.
    pub(crate) summary: RunSummary,
    /// The range; none: empty.
    pub start: Lsn,
    pub end: Lsn,
    /// A planted bug for tests: the group with this record is missed.
    #[cfg(test)]
    pub miss_group_of: Option<Lsn>,
}

impl Workspace {
    pub fn is_empty(&self) -> bool {
        self.start.is_none()
    }

    /// Memory that it takes, in bytes.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.len()
            + self.records.len() * size_of::<Kept>()
            + self.stream.len() * size_of::<Entry>()
            + self.pages.len() * 2 * size_of::<(PageId, u32)>()
            + self.seen.len() * 2 * size_of::<TxId>()
    }

    /// More than a block of so many bytes can add.
    pub fn memory_of_block(bytes: u64) -> usize {
        // A record has 48 bytes at least in the log.
        let a_record = size_of::<Kept>() + 2 * size_of::<Entry>() + 2 * size_of::<(PageId, u32)>() + 64;
        bytes as usize + (bytes as usize / 48 + 2) * a_record
    }

    /// Whether one more block would take it past what its numbers can count.
    pub fn is_at_its_limit(&self) -> bool {
        self.records.len() > (NONE / 2) as usize
    }

    /// Takes a block, which begins where the last one ended.
    pub fn take(&mut self, block: &Block<'_>) {
        if self.is_empty() {
            self.start = block.lsn();
        }
        self.end = block.next();
        let at = self.bytes.len();
        item::put_block(&mut self.bytes, block);
        self.push(STREAM_BLOCK, block.lsn(), at);
        #[cfg(test)]
        let mut missing = false;
        for record in block.records() {
            #[cfg(test)]
            {
                missing = self.miss_group_of == Some(record.lsn) || (missing && !record.header.first_of_group);
                if missing {
                    continue;
                }
            }
            let (header, lsn) = (&record.header, record.lsn);
            let by_page = item::is_by_page(header);
            if header.tx.is_some() && header.tx != self.last_tx {
                self.last_tx = header.tx;
                self.summary.highest_tx = self.summary.highest_tx.max(header.tx);
                if self.seen.insert(header.tx) && by_page {
                    let at = self.bytes.len();
                    put_varint64(&mut self.bytes, header.tx.0);
                    self.push(STREAM_FIRST, lsn, at);
                }
            }
            self.summary.highest_object = self.summary.highest_object.max(header.object.0);
            if !by_page {
                if header.kind == RecordKind::Commit
                    && let Some(time) = record.body.first_chunk::<8>()
                {
                    self.summary.note_commit(i64::from_le_bytes(*time));
                }
                let at = self.bytes.len();
                item::put_stream_record(&mut self.bytes, &record);
                self.push(STREAM_RECORD, lsn, at);
                continue;
            }
            if header.kind == RecordKind::PageUndo {
                let at = self.bytes.len();
                item::put_undo(&mut self.bytes, header, record.body);
                self.push(STREAM_UNDO, lsn, at);
            }
            let at = self.bytes.len();
            item::put_record(&mut self.bytes, &record);
            let kept = Kept {
                lsn,
                at,
                len: (self.bytes.len() - at) as u32,
                before: self.pages.insert(header.page, self.records.len() as u32).unwrap_or(NONE),
                log_bytes: header.len,
                anew: item::makes_anew(record.body),
            };
            self.records.push(kept);
        }
    }

    fn push(&mut self, kind: u64, lsn: Lsn, at: usize) {
        self.stream.push(Entry { kind, lsn, at, len: (self.bytes.len() - at) as u32 });
    }

    /// What is not counted while it is written.
    pub fn summary(&self) -> RunSummary {
        self.summary
    }

    fn rest(&self, at: usize, len: u32) -> &[u8] {
        self.bytes.get(at..at + len as usize).unwrap_or_default()
    }

    /// Indices of a page's records, in order.
    fn chain(&self, last: u32, chain: &mut Vec<u32>) {
        chain.clear();
        let mut at = last;
        while let Some(kept) = self.records.get(at as usize) {
            chain.push(at);
            at = kept.before;
        }
        chain.reverse();
    }

    /// Writes all of it.
    pub fn write(&self, writer: &mut RunWriter) -> Result<()> {
        let mut pages: Vec<(PageId, u32)> = self.pages.iter().map(|(page, last)| (*page, *last)).collect();
        pages.sort_unstable();
        let mut chain = Vec::new();
        for (page, last) in pages {
            self.chain(last, &mut chain);
            for at in &chain {
                let kept = &self.records[*at as usize];
                let item = Item { key: page.0, lsn: kept.lsn, rest: self.rest(kept.at, kept.len) };
                writer.put_page(&item, u64::from(kept.log_bytes), kept.anew)?;
            }
        }
        for entry in &self.stream {
            let item = Item { key: entry.kind, lsn: entry.lsn, rest: self.rest(entry.at, entry.len) };
            writer.put_stream(&item)?;
        }
        Ok(())
    }

    /// Records of a page after `from`, in order.
    pub fn records_of(&self, page: PageId, from: Lsn) -> Result<Vec<OwnedRecord>> {
        let mut chain = Vec::new();
        if let Some(last) = self.pages.get(&page) {
            self.chain(*last, &mut chain);
        }
        let kept = chain.iter().map(|at| &self.records[*at as usize]).filter(|kept| kept.lsn > from);
        kept.map(|kept| Ok(item::record(page, kept.lsn, self.rest(kept.at, kept.len))?.to_owned())).collect()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.stream.clear();
        self.pages.clear();
        self.seen.clear();
        (self.last_tx, self.start, self.end) = (TxId::NONE, Lsn::NONE, Lsn::NONE);
        self.summary = RunSummary::default();
    }
}
