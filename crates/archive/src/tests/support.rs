//! A log with records of pages that mean something, and what the archive must make of it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Lsn, ObjectId, PageId, Result, TxId};
use resurgam_log::{Block, Group, Log, LogConfig, LogReader, OwnedRecord, RecordKind};
use resurgam_page::{PageBuf, PageType, op};
use resurgam_vfs::{SimVfs, Vfs};
use resurgam_xstore::{FolderStore, Store};

use crate::{Archive, ArchiveConfig, Archiver, History, LastLsns, StreamEntry, View};

pub const DATABASE: [u8; 16] = *b"a test's databas";
pub const CONFIG: LogConfig = LogConfig {
    segment_bytes: 8192,
    block_payload_bytes_max: 2000,
    buffer_bytes_max: 64 << 10,
    spare_segments: 1,
    own_files: false,
    flights: 1,
    shuffled: 0,
};

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// Small numbers everywhere, so that every test crosses every border.
pub fn small() -> ArchiveConfig {
    ArchiveConfig {
        workspace_bytes: 24 << 10,
        frame_bytes: 300,
        fan_in: 3,
        fan_in_max: 4,
        levels_max: 3,
        verify_merges: true,
    }
}

/// A written log and what is in it.
pub struct Logged {
    vfs: Arc<dyn Vfs>,
    pub pages: BTreeMap<PageId, Vec<OwnedRecord>>,
    pub others: Vec<OwnedRecord>,
    pub records: Vec<OwnedRecord>,
    /// Where it ends.
    pub end: Lsn,
}

impl Logged {
    /// A log of `groups` random groups on about `pages` pages.
    pub fn random(seed: u64, groups: u64, pages: u64) -> Self {
        let mut rng = Rng(seed);
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(seed));
        vfs.make_folder(&log_dir()).unwrap();
        let log = Log::create(Arc::clone(&vfs), &log_dir(), CONFIG, 1).unwrap();
        let mut last: BTreeMap<PageId, Lsn> = BTreeMap::new();
        let mut group = Group::new();
        let mut body = Vec::new();
        for n in 0..groups {
            group.clear();
            let tx = TxId(1 + n / 3 + rng.below(3));
            let mut touched = Vec::new();
            for _ in 0..1 + rng.below(4) {
                if rng.below(5) == 0 {
                    let kind = [RecordKind::Commit, RecordKind::Note, RecordKind::Abort][rng.below(3) as usize];
                    let bytes: Vec<u8> = (0..rng.below(60)).map(|_| rng.next() as u8).collect();
                    group.record(kind, tx, Lsn(rng.below(2) * 4096), &bytes);
                    continue;
                }
                let number = rng.below(pages) + 1;
                let page = if number.is_multiple_of(5) { PageId::of_file(2, number) } else { PageId(number) };
                let prev = last.get(&page).copied().unwrap_or(Lsn::NONE);
                let new = prev.is_none() && !touched.iter().any(|(p, _)| *p == page);
                body.clear();
                let undo = rng.below(6) == 0;
                if new || rng.below(25) == 0 {
                    op::format(&mut body, PageType::Overflow, 0, ObjectId(7), &[], None);
                }
                let bytes: Vec<u8> = (0..1 + rng.below(80)).map(|_| rng.next() as u8).collect();
                op::set_bytes(&mut body, 100 + rng.below(3000) as u16, &bytes);
                if undo {
                    op::undo(&mut body, b"back");
                }
                let kind = if undo { RecordKind::PageUndo } else { RecordKind::Page };
                let tx = if rng.below(4) == 0 { TxId::NONE } else { tx };
                group.begin(kind, tx, Lsn::NONE, page, prev, ObjectId(7));
                group.body().extend_from_slice(&body);
                touched.push((page, group.end()));
            }
            let appended = log.append(&group).unwrap();
            for (page, index) in touched {
                last.insert(page, group.lsn_of(appended.base, index));
            }
            if rng.below(4) == 0 {
                log.flush(appended.end).unwrap();
            }
        }
        group.clear();
        group.record(RecordKind::Note, TxId::NONE, Lsn::NONE, b"the end");
        let appended = log.append(&group).unwrap();
        log.flush(appended.end).unwrap();
        drop(log);
        let mut history = Self { vfs, pages: BTreeMap::new(), others: Vec::new(), records: Vec::new(), end: Lsn::NONE };
        let mut reader = history.reader(CONFIG.first_lsn());
        while let Some(record) = reader.next().unwrap() {
            let record = record.to_owned();
            history.records.push(record.clone());
            if record.header.kind.is_of_page() {
                history.pages.entry(record.header.page).or_default().push(record);
            } else {
                history.others.push(record);
            }
        }
        history.end = reader.end().lsn;
        history
    }

    pub fn reader(&self, from: Lsn) -> LogReader {
        LogReader::open(Arc::clone(&self.vfs), &log_dir(), CONFIG.segment_bytes, from, 1).unwrap()
    }

    /// Gives the archiver all that it lacks, as long as `go_on` says so after each block.
    pub fn feed(
        &self,
        archiver: &mut Archiver,
        mut go_on: impl FnMut(&mut Archiver, &Block<'_>) -> Result<bool>,
    ) -> Result<()> {
        let from = archiver.resume_lsn().unwrap_or(CONFIG.first_lsn());
        let mut reader = self.reader(from);
        while let Some(block) = reader.next_whole_block().unwrap() {
            archiver.take(&block)?;
            if !go_on(archiver, &block)? {
                break;
            }
        }
        Ok(())
    }

    /// Records of a page in (from, to].
    pub fn of(&self, page: PageId, from: Lsn, to: Lsn) -> Vec<OwnedRecord> {
        let all = self.pages.get(&page).map(Vec::as_slice).unwrap_or_default();
        all.iter().filter(|record| record.lsn > from && record.lsn <= to).cloned().collect()
    }

    /// The page as its records up to `to` leave it.
    pub fn page_at(&self, page: PageId, to: Lsn) -> PageBuf {
        replay(page, &self.of(page, Lsn::NONE, to))
    }

    /// Any LSN of the log, mostly one of a record.
    pub fn any_lsn(&self, rng: &mut Rng) -> Lsn {
        let record = &self.records[rng.below(self.records.len() as u64) as usize];
        Lsn((record.lsn.0 + rng.below(3)).saturating_sub(1))
    }

    /// Everything that the archive has, compared.
    pub fn compare(&self, view: &Arc<View>) -> Result<(), String> {
        let end = view.end();
        let to = Lsn(end.0 - 1);
        let told = |what: &str, e: resurgam_base::Error| format!("{what}: {e}");
        let mut scan =
            view.scan(PageId::NONE..PageId(u64::MAX), Lsn::NONE, to, History::All).map_err(|e| told("scan", e))?;
        let mut found: BTreeMap<PageId, Vec<OwnedRecord>> = BTreeMap::new();
        while let Some(page) = scan.next_page().map_err(|e| told("scan", e))? {
            while let Some(record) = scan.next_record().map_err(|e| told("scan", e))? {
                found.entry(page).or_default().push(record.to_owned());
            }
        }
        let mut wanted: BTreeMap<PageId, Vec<OwnedRecord>> =
            self.pages.keys().map(|page| (*page, self.of(*page, Lsn::NONE, to))).collect();
        wanted.retain(|_, records| !records.is_empty());
        if found != wanted {
            return Err("page records differ".to_owned());
        }
        // The last of them, with room for a frame or two.
        let tables = LastLsns::new(300);
        let from: [fn(Lsn) -> Lsn; 3] = [|_| Lsn::NONE, |last| Lsn(last.0 - 1), |last| last];
        for above in from {
            for (page, last) in wanted.iter().filter_map(|(page, records)| Some((*page, records.last()?.lsn))) {
                let known = tables.known(view, page, above(last));
                let read = tables.read(view, page, above(last)).map_err(|e| told("last LSN", e))?;
                if read != last || known.is_some_and(|known| known != last) {
                    return Err(format!("the last LSN of page {page} is {last}: {known:?} was known and {read} read"));
                }
            }
        }
        let none = tables.read(view, PageId(u64::MAX), Lsn::NONE).map_err(|e| told("last LSN", e))?;
        if none.is_some() {
            return Err(format!("a page that is not there has records up to {none}"));
        }
        self.compare_stream(view)
    }

    /// All records without a page, and all blocks, compared.
    pub fn compare_stream(&self, view: &Arc<View>) -> Result<(), String> {
        let end = view.end();
        let told = |what: &str, e: resurgam_base::Error| format!("{what}: {e}");
        let mut stream = view.stream(view.start()).map_err(|e| told("stream", e))?;
        let mut others = Vec::new();
        let mut at = view.start();
        while let Some(entry) = stream.next_entry().map_err(|e| told("stream", e))? {
            match entry {
                StreamEntry::Record(record) => others.push(record.to_owned()),
                StreamEntry::Block { lsn, next, .. } => {
                    if lsn != at {
                        return Err(format!("block at {lsn}, expected {at}"));
                    }
                    at = next;
                }
                _ => {}
            }
        }
        let wanted: Vec<OwnedRecord> = self.others.iter().filter(|record| record.lsn < end).cloned().collect();
        if others != wanted || at != end {
            return Err("the stream differs".to_owned());
        }
        Ok(())
    }
}

pub fn replay(page: PageId, records: &[OwnedRecord]) -> PageBuf {
    let mut buf = PageBuf::zeroed();
    for record in records {
        op::apply(&mut buf, page, &record.body, record.lsn).unwrap();
    }
    buf
}

fn log_dir() -> PathBuf {
    PathBuf::from("log")
}

pub fn store_on(sim: &SimVfs) -> Arc<dyn Store> {
    Arc::new(FolderStore::open(Arc::new(sim.clone()), Path::new("archive")).unwrap())
}

/// Opens the archive in a store.
pub fn open(store: &Arc<dyn Store>, owner: u64) -> Result<Archiver> {
    Ok(Archiver::new(Archive::open(Arc::clone(store), DATABASE, owner)?, small()))
}
