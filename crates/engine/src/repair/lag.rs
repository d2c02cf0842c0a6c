//! What the archive lacks of the log below the checkpoint before the open, its lag: the last record of each page there. While the archive is
//! away that is all of the log that is kept.
//!
//! One pass over it answers for all pages, and what it has noted cannot change: it is kept until the archive has come that far. [`READ_MAX`]
//! bytes of log at most are read; where they do not reach back to the archive's end, what they tell is true and not all.
//!
//! After an error nobody reads for [`PAUSE`](super::first_reads::PAUSE), and never again where the log is damaged.

use std::sync::Arc;
use std::time::Instant;

use parking_lot::Mutex;
use resurgam_base::{ErrorKind, Lsn, PageId, Result};
use resurgam_log::Log;

use super::first_reads::PAUSE;
use super::in_log::InLog;

/// Bytes of log that are looked at, at most.
const READ_MAX: u64 = 64 << 20;

/// What is known of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Seen {
    /// Its last record below the checkpoint, if that is in what was looked at.
    pub last: Option<Lsn>,
    /// What was looked at begins at the archive's end or before.
    pub reaches: bool,
}

/// See the module.
pub(super) struct Lag {
    log: Arc<Log>,
    checkpoint: Lsn,
    in_log: InLog,
    read_max: u64,
    /// When reading has failed; none: for good.
    failed: Mutex<Option<Option<Instant>>>,
}

impl Lag {
    /// Of the log below `checkpoint`.
    pub fn of(log: &Arc<Log>, checkpoint: Lsn) -> Self {
        let in_log = InLog::below(log, checkpoint);
        Self { log: Arc::clone(log), checkpoint, in_log, read_max: READ_MAX, failed: Mutex::default() }
    }

    /// From where on the log is looked at for an archive that ends at `archived` (none: nothing is known of it); none: nothing is to be looked at.
    fn from(&self, archived: Lsn) -> Option<Lsn> {
        let known = archived.max(self.log.oldest_lsn());
        if known >= self.checkpoint {
            return None;
        }
        if known.0.saturating_add(self.read_max) >= self.checkpoint.0 {
            return Some(known);
        }
        // A block begins where a segment does.
        let segment = self.log.config().segment_bytes.max(1);
        let nearest = Lsn((self.checkpoint.0 - self.read_max).next_multiple_of(segment));
        Some(nearest).filter(|nearest| *nearest < self.checkpoint)
    }

    /// What is known of the page without reading. None: that takes a pass over the log.
    pub fn known(&self, archived: Lsn, page: PageId) -> Option<Seen> {
        let Some(from) = self.from(archived) else {
            return Some(Seen { last: None, reaches: archived >= self.checkpoint });
        };
        let may_read = match *self.failed.lock() {
            None => true,
            Some(at) => at.is_some_and(|at| at.elapsed() >= PAUSE),
        };
        match self.in_log.known(page, from) {
            Some(last) => Some(Seen { last, reaches: from <= archived }),
            None if may_read => None,
            None => Some(Seen { last: None, reaches: false }),
        }
    }

    /// What is known of the page; makes the pass, if it has not been made.
    pub fn read(&self, archived: Lsn, page: PageId) -> Seen {
        if let Some(known) = self.known(archived, page) {
            return known;
        }
        let nothing = Seen { last: None, reaches: false };
        let Some(from) = self.from(archived) else { return nothing };
        let last = || -> Result<Option<Lsn>> {
            // The archive holds the log from its end on, which may be farther than what was asked for.
            let _hold = self.log.hold("pages that are read first", from)?;
            self.in_log.last(page, from)
        };
        match last() {
            Ok(last) => Seen { last, reaches: from <= archived },
            // The archive has gone on meanwhile.
            Err(error) if error.kind() == ErrorKind::NotInPrerequisiteState => nothing,
            Err(error) => {
                tracing::warn!("pages are read without a comparison with the log behind the archive: {error}");
                *self.failed.lock() = Some((error.kind() != ErrorKind::Corrupt).then(Instant::now));
                nothing
            }
        }
    }

    /// Gives back what nobody will ask for any more: the archive ends at `archived`.
    pub fn forget(&self, archived: Lsn) {
        if archived >= self.checkpoint {
            self.in_log.forget();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_base::{ObjectId, TxId};
    use resurgam_log::{Group, LogConfig, RecordKind};
    use resurgam_page::{PageType, op};
    use resurgam_vfs::{FaultPlan, SimVfs, Vfs};

    use super::*;

    const SEGMENT: u64 = 16 << 10;

    /// A log of `count` records of 300 bytes, of pages 1 to 7 in turn. Returns their LSNs.
    fn log(vfs: &SimVfs, count: u64) -> Result<(Arc<Log>, Vec<Lsn>)> {
        let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
        let config = LogConfig { segment_bytes: SEGMENT, block_payload_bytes_max: 2000, ..LogConfig::default() };
        let log = Log::create(vfs, Path::new("/log"), config, 1)?;
        let mut lsns = Vec::new();
        for i in 0..count {
            let mut body = Vec::new();
            op::format(&mut body, PageType::Overflow, 0, ObjectId(7), &[], None);
            op::set_bytes(&mut body, 100, &[1; 300]);
            let mut group = Group::new();
            group.begin(RecordKind::Page, TxId::NONE, Lsn::NONE, PageId(1 + i % 7), Lsn::NONE, ObjectId(7));
            group.body().extend_from_slice(&body);
            let index = group.end();
            let appended = log.append(&group)?;
            lsns.push(group.lsn_of(appended.base, index));
            log.flush_all()?;
        }
        Ok((log, lsns))
    }

    #[test]
    fn what_the_archive_lacks_below_the_checkpoint_is_found() -> Result<()> {
        let (log, lsns) = log(&SimVfs::new(1), 300)?;
        // Where a block begins, for each flush ended one.
        let block = |i: usize| Lsn(lsns[i].0 & !511);
        let checkpoint = block(250);
        let lag = Lag::of(&log, checkpoint);
        let last_of = |page: u64, from: Lsn| {
            let of_page = lsns.iter().enumerate().filter(|(i, _)| 1 + *i as u64 % 7 == page).map(|(_, lsn)| *lsn);
            of_page.filter(|lsn| *lsn >= from && *lsn < checkpoint).max()
        };
        for (archived, reaches) in [(block(200), true), (block(248), true), (Lsn::NONE, false)] {
            let from = archived.max(log.oldest_lsn());
            for page in 1..9 {
                let found = lag.read(archived, PageId(page));
                assert_eq!(found, Seen { last: last_of(page, from), reaches }, "page {page} from {archived}");
                assert_eq!(lag.known(archived, PageId(page)), Some(found));
            }
        }
        // Nothing is read where the archive is there.
        let idle = Lag::of(&log, checkpoint);
        assert_eq!(idle.known(checkpoint, PageId(1)), Some(Seen { last: None, reaches: true }));
        assert_eq!(idle.known(block(240), PageId(1)), None, "that takes a pass");
        Ok(())
    }

    #[test]
    fn too_much_of_it_is_not_read() -> Result<()> {
        let (log, lsns) = log(&SimVfs::new(2), 300)?;
        let mut lag = Lag::of(&log, Lsn(lsns[299].0 & !511));
        let checkpoint = lag.checkpoint;
        for read_max in [SEGMENT / 2, SEGMENT, 2 * SEGMENT + 100] {
            lag.read_max = read_max;
            // An archive that lags less is met where it ends, whatever the segments.
            let near = Lsn((checkpoint.0 - read_max / 2) & !511);
            assert_eq!(lag.from(near), Some(near));
            let far = lag.from(log.oldest_lsn());
            assert!(far.is_none_or(|far| far.0.is_multiple_of(SEGMENT) && far.0 + read_max >= checkpoint.0), "{far:?}");
            assert!(read_max < SEGMENT || far.is_some());
            let seen = lag.read(log.oldest_lsn(), PageId(1 + 298 % 7));
            assert_eq!(seen, Seen { last: far.map(|_| lsns[298]), reaches: false });
        }
        Ok(())
    }

    #[test]
    fn a_log_that_cannot_be_read_is_not_asked_again_and_again() -> Result<()> {
        let vfs = SimVfs::new(3);
        let (log, lsns) = log(&vfs, 60)?;
        let lag = Lag::of(&log, Lsn(lsns[59].0 & !511));
        log.forget_read_blocks();
        vfs.set_faults(FaultPlan { fail_read_at: Some(1), ..FaultPlan::default() });
        let nothing = Seen { last: None, reaches: false };
        assert_eq!(lag.read(log.oldest_lsn(), PageId(1)), nothing);
        // It would be well again.
        assert_eq!(lag.known(log.oldest_lsn(), PageId(1)), Some(nothing));
        *lag.failed.lock() = None;
        assert!(lag.read(log.oldest_lsn(), PageId(1)).last.is_some());
        Ok(())
    }
}
