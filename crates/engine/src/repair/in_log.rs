//! A page's records in the log, found by a pass over it that is made once for all pages.
//!
//! The pass notes the last record of each page; from there a page's records lead back, each naming the one before
//! it. Who comes later goes on where the last pass ended. Of several that come at once one reads, and the others wait.
//!
//! # Memory
//! An entry for each page that has records in the log, [`PAGES_MAX`] at most: where there are more, each page
//! costs a pass. It is given back when nothing was repaired for a minute.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_buffer::Rebuild;
use resurgam_log::{Log, OwnedRecord};

/// Pages whose last record is noted: 16 MB, about.
const PAGES_MAX: usize = 1 << 20;
/// Records of one page that are gone through, at most: 64 MB of positions.
const RECORDS_MAX: usize = 4 << 20;
/// Bytes of one page's records that are kept from the way back to the way forth; more are read twice.
const KEPT_BYTES: usize = 8 << 20;
/// When it is given back.
const IDLE: Duration = Duration::from_secs(60);

/// See the module. The log must be held while it is asked.
pub(super) struct InLog {
    log: Arc<Log>,
    /// Held over a pass.
    noted: Mutex<Noted>,
    pages_max: usize,
    /// Records from there on do not count.
    end: Lsn,
}

/// The last records of pages in a range of the log.
#[derive(Default)]
struct Noted {
    from: Lsn,
    /// Where the next block begins; none: nothing is noted.
    upto: Lsn,
    last: HashMap<PageId, Lsn>,
    used: Option<Instant>,
}

/// A page's records in the log, the last one first.
pub(super) struct Chain {
    records: Vec<(Lsn, Option<OwnedRecord>)>,
    complete: bool,
}

impl Chain {
    /// Whether they begin where the page is made anew, or follow what there is of it: nothing older is needed.
    pub fn is_complete(&self) -> bool {
        self.complete
    }
}

impl InLog {
    pub fn of(log: &Arc<Log>) -> Self {
        Self::below(log, Lsn(u64::MAX))
    }

    /// Of the log below `end` only.
    pub fn below(log: &Arc<Log>, end: Lsn) -> Self {
        Self { log: Arc::clone(log), noted: Mutex::default(), pages_max: PAGES_MAX, end }
    }

    /// The page's records behind `after` at or above `from`, from where on the log is held.
    ///
    /// # Errors
    /// Those of reading the log; `Corrupt` when a record is not the page's; `LimitExceeded`.
    pub fn chain(&self, page: PageId, after: Lsn, from: Lsn) -> Result<Chain> {
        let (mut records, mut bytes) = (Vec::new(), 0);
        let mut lsn = self.last(page, from)?.unwrap_or(Lsn::NONE);
        while lsn > after && lsn >= from {
            let record = self.log.read_record(lsn)?;
            let previous = record.header.prev_page;
            check(&record, page)?;
            if records.len() >= RECORDS_MAX {
                return Err(Error::new(
                    ErrorKind::LimitExceeded,
                    format!("there are more than {RECORDS_MAX} records of page {page} in the log"),
                ));
            }
            let anew = resurgam_buffer::replaces_whole_page(&record.body);
            bytes += record.body.len();
            records.push((lsn, Some(record).filter(|_| bytes <= KEPT_BYTES)));
            if anew || (previous == after && after.is_some()) {
                return Ok(Chain { records, complete: true });
            }
            lsn = previous;
        }
        Ok(Chain { records, complete: false })
    }

    /// Gives `onto` the records of `chain`, in order.
    ///
    /// # Errors
    /// Those of reading the log.
    pub fn give(&self, page: PageId, chain: &Chain, onto: &mut Rebuild<'_>) -> Result<()> {
        for (lsn, kept) in chain.records.iter().rev() {
            let read;
            let record = match kept {
                Some(record) => record,
                None => {
                    read = self.log.read_record(*lsn)?;
                    check(&read, page)?;
                    &read
                }
            };
            onto.apply(*lsn, record.header.prev_page, &record.body);
        }
        Ok(())
    }

    /// The page's last record at or above `from`, from where on the log is held.
    ///
    /// # Errors
    /// Those of reading the log.
    pub fn last(&self, page: PageId, from: Lsn) -> Result<Option<Lsn>> {
        let mut noted = self.noted.lock();
        let noted = &mut *noted;
        noted.used = Some(Instant::now());
        if noted.upto.is_none() || noted.from > from || noted.upto < from {
            *noted = Noted { from, upto: from, used: noted.used, last: HashMap::new() };
        }
        // Everything of a page that is not in memory is durable.
        let end = self.log.flushed_lsn().min(self.end);
        let mut last = noted.last.get(&page).copied();
        if noted.upto < end {
            let mut follower = self.log.follow(noted.upto)?;
            while follower.position() < end {
                let Some(block) = follower.next(Duration::ZERO)? else { break };
                for record in block.records() {
                    let record = record?;
                    if !record.header.kind.is_of_page() || record.lsn >= self.end {
                        continue;
                    }
                    if record.header.page == page {
                        last = Some(record.lsn);
                    }
                    if noted.upto.is_some() {
                        noted.last.insert(record.header.page, record.lsn);
                    }
                }
                if noted.upto.is_some() {
                    noted.upto = block.next();
                }
                if noted.last.len() > self.pages_max {
                    // Of what is below nobody will ask again: it is archived, or no longer in the log.
                    noted.last.retain(|_, lsn| *lsn >= from);
                    noted.from = noted.from.max(from);
                    if noted.last.len() > self.pages_max / 4 * 3 {
                        (noted.upto, noted.last) = (Lsn::NONE, HashMap::new());
                    }
                }
            }
        }
        Ok(last.filter(|lsn| *lsn >= from))
    }

    /// The page's last record at or above `from`, without reading. None: that takes a pass, or one is being made.
    pub fn known(&self, page: PageId, from: Lsn) -> Option<Option<Lsn>> {
        let noted = self.noted.try_lock()?;
        let is_noted = noted.upto.is_some() && noted.from <= from && noted.upto >= self.log.flushed_lsn().min(self.end);
        is_noted.then(|| noted.last.get(&page).copied().filter(|lsn| *lsn >= from))
    }

    /// Gives the memory back.
    pub fn forget(&self) {
        if let Some(mut noted) = self.noted.try_lock()
            && noted.used.is_some()
        {
            *noted = Noted::default();
            self.log.forget_read_blocks();
        }
    }

    /// Gives the memory back where nothing was repaired for a while.
    pub fn forget_idle(&self) {
        let is_idle = self.noted.try_lock().is_some_and(|noted| noted.used.is_some_and(|used| used.elapsed() > IDLE));
        if is_idle {
            self.forget();
        }
    }
}

fn check(record: &OwnedRecord, page: PageId) -> Result<()> {
    if record.header.page == page && record.header.kind.is_of_page() && record.header.prev_page < record.lsn {
        return Ok(());
    }
    Err(Error::corrupt(format!("the log record at LSN {} does not belong to the chain of page {page}", record.lsn)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use resurgam_base::{ObjectId, TxId};
    use resurgam_log::{Group, LogConfig, RecordKind};
    use resurgam_page::{PageType, op};
    use resurgam_vfs::{SimVfs, Vfs};

    use super::*;

    /// Chains as the model has them, of logs that go on and are truncated meanwhile, with room for all pages and with
    /// too little.
    #[test]
    fn chains_are_those_of_the_log() -> Result<()> {
        for seed in 0..12_u64 {
            let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(seed));
            let config = LogConfig { segment_bytes: 16 << 10, block_payload_bytes_max: 2000, ..LogConfig::default() };
            let log = Log::create(Arc::clone(&vfs), Path::new("/log"), config, 1)?;
            let mut in_log = InLog::of(&log);
            in_log.pages_max = [4, 30, 1000][seed as usize % 3];
            let mut rng = seed + 1;
            let mut below = |n: u64| {
                rng = rng.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (rng >> 33) % n
            };
            // Of each page its records: where, and whether they make it anew.
            let mut model: BTreeMap<PageId, Vec<(Lsn, bool)>> = BTreeMap::new();
            for _ in 0..60 {
                for _ in 0..20 {
                    let page = PageId(1 + below(40));
                    let records = model.entry(page).or_default();
                    let anew = records.is_empty() || below(10) == 0;
                    let mut body = Vec::new();
                    if anew {
                        op::format(&mut body, PageType::Overflow, 0, ObjectId(7), &[], None);
                    }
                    op::set_bytes(&mut body, 100, &[1; 40]);
                    let mut group = Group::new();
                    let prev = records.last().map_or(Lsn::NONE, |(lsn, _)| *lsn);
                    group.begin(RecordKind::Page, TxId::NONE, Lsn::NONE, page, prev, ObjectId(7));
                    group.body().extend_from_slice(&body);
                    let index = group.end();
                    let appended = log.append(&group)?;
                    records.push((group.lsn_of(appended.base, index), anew));
                }
                log.flush_all()?;
                if below(4) == 0 {
                    let (oldest, end) = (log.oldest_lsn().0, log.end_lsn().0);
                    log.truncate_before(Lsn(oldest + below(end - oldest)))?;
                }
                let hold = log.hold("the test", log.oldest_lsn())?;
                for _ in 0..10 {
                    let page = PageId(1 + below(42));
                    let records = model.get(&page).map_or(&[][..], |all| all);
                    let after = if below(2) == 0 || records.is_empty() {
                        Lsn::NONE
                    } else {
                        records[below(records.len() as u64) as usize].0
                    };
                    // Where a segment begins a block does.
                    let from = Lsn(hold.lsn().0 + below(2) * (16 << 10)).min(Lsn(log.flushed_lsn().0 & !(16383)));
                    let from = from.max(hold.lsn());
                    let chain = in_log.chain(page, after, from)?;
                    let mut wanted: Vec<Lsn> = Vec::new();
                    let mut complete = false;
                    for (lsn, anew) in records.iter().rev().filter(|(lsn, _)| *lsn > after && *lsn >= from) {
                        wanted.push(*lsn);
                        let previous = records.iter().rev().find(|(of, _)| of < lsn).map_or(Lsn::NONE, |(of, _)| *of);
                        complete = *anew || (previous == after && after.is_some());
                        if complete {
                            break;
                        }
                    }
                    let found: Vec<Lsn> = chain.records.iter().map(|(lsn, _)| *lsn).collect();
                    assert_eq!(
                        (found, chain.is_complete()),
                        (wanted, complete),
                        "seed {seed} page {page} {after} {from}"
                    );
                }
            }
        }
        Ok(())
    }
}
