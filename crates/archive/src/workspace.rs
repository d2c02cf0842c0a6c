//! What was taken and is in no run yet: records in memory, by page and in order of LSN.
//!
//! Records come in order of LSN, and stay where they are: what is sorted, when a run is written, are pairs of page and number.
//! (A map from each page to its records, kept while they are taken, costs three times as much: it misses the cache twice a
//! record, and a chain of records can only be followed one miss after the other.)

use hashbrown::HashSet;
use resurgam_base::{Lsn, PageId, Result, TxId};
use resurgam_log::{Block, OwnedRecord, RecordKind};
use resurgam_page::codec::put_varint64;

use crate::format::RunSummary;
use crate::item::{self, Item, STREAM_BLOCK, STREAM_FIRST, STREAM_RECORD, STREAM_UNDO};
use crate::writer::RunWriter;

/// Places in memory are numbers of 32 bits.
const PLACES_MAX: usize = u32::MAX as usize / 2;

/// Records whose bytes are fetched into the cache at once.
const BATCH: usize = 64;
/// Bytes of a cache line.
const LINE: usize = 64;

struct Kept {
    lsn: Lsn,
    page: PageId,
    at: u32,
    len: u32,
    /// Bytes that it took in the log.
    log_bytes: u32,
    anew: bool,
}

struct Entry {
    kind: u64,
    lsn: Lsn,
    at: u32,
    len: u32,
}

/// A record's page, and its number: those of a page stay in order of LSN.
type SortKey = (PageId, u32);

/// See the module.
#[derive(Default)]
pub(crate) struct Workspace {
    /// Rests of items.
    bytes: Vec<u8>,
    records: Vec<Kept>,
    stream: Vec<Entry>,
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
            + self.records.len() * (size_of::<Kept>() + size_of::<SortKey>())
            + self.stream.len() * size_of::<Entry>()
            + self.seen.len() * 2 * size_of::<TxId>()
    }

    /// More than a block of so many bytes can add.
    pub fn memory_of_block(bytes: u64) -> usize {
        // A record has 48 bytes at least in the log.
        let a_record = size_of::<Kept>() + 2 * size_of::<Entry>() + size_of::<SortKey>() + 64;
        bytes as usize + (bytes as usize / 48 + 2) * a_record
    }

    /// Whether one more block would take it past what its numbers can count.
    pub fn is_at_its_limit(&self) -> bool {
        self.bytes.len() > PLACES_MAX
    }

    /// Takes a block, which begins where the last one ended.
    pub fn take(&mut self, block: &Block<'_>) {
        if self.is_empty() {
            self.start = block.lsn();
        }
        self.end = block.next();
        self.summary.last_block = block.mark();
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
                page: header.page,
                at: at as u32,
                len: (self.bytes.len() - at) as u32,
                log_bytes: header.len,
                anew: item::makes_anew(record.body),
            };
            self.records.push(kept);
        }
    }

    fn push(&mut self, kind: u64, lsn: Lsn, at: usize) {
        self.stream.push(Entry { kind, lsn, at: at as u32, len: (self.bytes.len() - at) as u32 });
    }

    /// What is not counted while it is written.
    pub fn summary(&self) -> RunSummary {
        self.summary
    }

    fn rest(&self, at: u32, len: u32) -> &[u8] {
        self.bytes.get(at as usize..at as usize + len as usize).unwrap_or_default()
    }

    /// Writes all of it.
    pub fn write(&self, writer: &mut RunWriter) -> Result<()> {
        let mut order: Vec<SortKey> = self.records.iter().zip(0..).map(|(kept, number)| (kept.page, number)).collect();
        order.sort_unstable();
        let mut places = [0; BATCH];
        for batch in order.chunks(BATCH) {
            // Records of a page are far from each other. They are touched in a row first, and their bytes, so that the cache
            // misses of a batch are waited for together, not one by one.
            let mut touched = 0;
            for (place, (_, number)) in places.iter_mut().zip(batch) {
                *place = self.records.get(*number as usize).map_or(0, |kept| kept.at as usize);
            }
            for place in places.iter().take(batch.len()) {
                touched ^= self.bytes.get(*place).unwrap_or(&0) ^ self.bytes.get(*place + LINE).unwrap_or(&0);
            }
            std::hint::black_box(touched);
            for (page, number) in batch {
                let kept = &self.records[*number as usize];
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
        let kept = self.records.iter().filter(|kept| kept.page == page && kept.lsn > from);
        kept.map(|kept| Ok(item::record(page, kept.lsn, self.rest(kept.at, kept.len))?.to_owned())).collect()
    }

    /// Forgets everything, keeps the memory.
    pub fn clear(&mut self) {
        self.bytes.clear();
        self.records.clear();
        self.stream.clear();
        self.seen.clear();
        (self.last_tx, self.start, self.end) = (TxId::NONE, Lsn::NONE, Lsn::NONE);
        self.summary = RunSummary::default();
    }
}
