//! Who has opened the log for writing, as far as is known, and what a page in a file must be like for it.
//!
//! Each page that is written says under which opening of the log that was (`page/src/buf.rs`). A process writes a page only
//! when the log is durable up to it. So the page lies below where the next opening began, and below where
//! every later one did. A page that does not is of a part of the log that was lost afterwards, or of other files than
//! these: its changes are those of transactions of which nothing is known, and whose ids have been given out again. Nor is it of
//! these files if the opening that it names drew another number than the one that the log knows under that epoch, or
//! is still to come.
//!
//! `newer.rs` knows less, and needs nothing for it but the log's end: pages without the mark are judged by that alone.
//!
//! # Invariants
//! 1. The list is in the order of epochs; the one that is under way is the last.
//! 2. Every checkpoint has the list as it is then, and the blocks behind it say who came since. Of an opening that
//!    wrote no block nothing is known but that there may have been one.

use resurgam_base::{Error, Lsn};
use resurgam_log::Opening;
use resurgam_page::PageBuf;

/// So many are remembered: what was written under earlier ones is judged by the oldest of these.
const REMEMBERED: usize = 1024;

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Openings {
    list: Vec<Opening>,
    /// Of each, the lowest position where it or a later one began.
    lowest: Vec<Lsn>,
    /// The highest epoch that there can have been; 0: not known.
    last_epoch: u32,
}

impl Openings {
    /// Those that a checkpoint and the log behind it name, in any order; the highest epoch that was ever used.
    pub fn new(known: &[Opening], last_epoch: u32) -> Self {
        let mut list: Vec<Opening> = Vec::with_capacity(known.len());
        let mut sorted = known.to_vec();
        sorted.sort_by_key(|opening| (opening.epoch, opening.from));
        for opening in sorted {
            match list.last_mut() {
                // The checkpoint that analysis began with lies behind where its opening began.
                Some(last) if last.epoch == opening.epoch => {
                    if last.number == 0 {
                        last.number = opening.number;
                    }
                }
                _ => list.push(opening),
            }
        }
        list.drain(..list.len().saturating_sub(REMEMBERED));
        let mut lowest: Vec<Lsn> = list.iter().map(|opening| opening.from).collect();
        for at in (1..lowest.len()).rev() {
            lowest[at - 1] = lowest[at - 1].min(lowest[at]);
        }
        let last_epoch = list.last().map_or(last_epoch, |last| last.epoch.max(last_epoch));
        Self { list, lowest, last_epoch }
    }

    /// With the one that is under way now.
    pub fn and(&self, now: Opening) -> Self {
        Self::new(&[&self.list[..], &[now]].concat(), now.epoch)
    }

    /// All of them, in order.
    pub fn list(&self) -> &[Opening] {
        &self.list
    }

    /// Whether a page, as it was read from its file, is not of these files.
    pub fn misfit(&self, page: &PageBuf) -> Option<Misfit> {
        let (epoch, number, lsn) = (page.written_by_epoch(), page.written_by_opening(), page.lsn());
        if epoch == 0 {
            return None;
        }
        let after = self.list.partition_point(|opening| opening.epoch <= epoch);
        if let Some(from) = self.lowest.get(after).filter(|from| lsn >= **from) {
            return Some(Misfit { lsn, log_went_on_at: *from });
        }
        let known = after.checked_sub(1).map(|at| self.list[at]).filter(|opening| opening.epoch == epoch);
        let other = known.is_some_and(|known| known.number != 0 && number != 0 && known.number != number);
        let from = known.map_or(self.list.last().map_or(Lsn::NONE, |last| last.from), |known| known.from);
        let to_come = self.last_epoch > 0 && epoch > self.last_epoch;
        (other || to_come).then_some(Misfit { lsn, log_went_on_at: from })
    }

    /// Marks a page that is about to be written under the last one.
    pub fn mark(&self, page: &mut PageBuf) {
        if let Some(now) = self.list.last() {
            page.set_written_by_epoch(now.epoch);
            page.set_written_by_opening(now.number);
        }
    }
}

/// A page that was written to its file by a process whose log, from a position at or below the page's on, is not this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misfit {
    /// The page's.
    pub lsn: Lsn,
    pub log_went_on_at: Lsn,
}

impl Misfit {
    /// Of `what` that was found, in words.
    pub fn says(&self, what: &str) -> String {
        let Self { lsn, log_went_on_at } = self;
        format!(
            "{what} was changed at LSN {lsn} under another log than the one that was found, which went on at LSN \
             {log_went_on_at} without it"
        )
    }
    /// The error of whoever asks for `what`.
    pub(crate) fn error(&self, what: &str) -> Error {
        Error::corrupt(self.says(what)).with_hint(OTHER_FILES)
    }
}

/// What may be the reason, and what to do.
pub(crate) const OTHER_FILES: &str = "The end of the log is missing, or the files are not of the same database and time. Put \
                                      the right ones together, or restore the data folder from a backup.";

#[cfg(test)]
mod tests {
    use resurgam_base::{ObjectId, PageId};
    use resurgam_page::PageType;

    use super::*;

    fn opening(epoch: u32, from: u64) -> Opening {
        Opening { epoch, number: epoch * 11, from: Lsn(from) }
    }

    fn misfit(openings: &Openings, by: (u32, u32), lsn: u64) -> Option<u64> {
        let mut page = PageBuf::zeroed();
        page.format(PageType::Leaf, PageId(5), 0, ObjectId(1));
        page.set_lsn(Lsn(lsn));
        page.set_written_by_epoch(by.0);
        page.set_written_by_opening(by.1);
        openings.misfit(&page).map(|misfit| misfit.log_went_on_at.0)
    }

    #[test]
    fn a_page_lies_below_where_every_later_opening_began() {
        // 5 began before where 4 did: the end of 4's log was lost. 3 wrote no block.
        let known = [opening(5, 400), opening(2, 200), opening(4, 500), opening(1, 100)];
        let openings = Openings::new(&known, 5).and(opening(6, 700));
        assert_eq!(openings.list().iter().map(|o| o.epoch).collect::<Vec<_>>(), [1, 2, 4, 5, 6]);
        assert_eq!(misfit(&openings, (1, 11), 199), None);
        assert_eq!(misfit(&openings, (1, 11), 200), Some(200));
        assert_eq!(misfit(&openings, (2, 22), 399), None);
        assert_eq!(misfit(&openings, (2, 22), 400), Some(400), "below 4's begin, and lost with the rest");
        assert_eq!(misfit(&openings, (3, 7), 399), None);
        assert_eq!(misfit(&openings, (3, 7), 450), Some(400));
        assert_eq!(misfit(&openings, (4, 44), 600), Some(400));
        assert_eq!(misfit(&openings, (5, 55), 699), None);
        assert_eq!(misfit(&openings, (5, 55), 700), Some(700));
        assert_eq!(misfit(&openings, (6, 66), 9999), None);
    }

    #[test]
    fn another_history_is_told_by_its_numbers() {
        let openings = Openings::new(&[opening(1, 100), opening(2, 200)], 2).and(opening(3, 300));
        assert_eq!(misfit(&openings, (2, 23), 150), Some(200));
        assert_eq!(misfit(&openings, (3, 99), 50), Some(300));
        assert_eq!(misfit(&openings, (4, 44), 50), Some(300), "still to come");
        assert_eq!(misfit(&openings, (2, 0), 250), None, "not known which");
        assert_eq!(misfit(&openings, (0, 0), 9999), None, "written by an earlier version");
        // As analysis finds it: the checkpoint's own opening began before, and drew a number.
        let again = Openings::new(&[openings.list(), &[Opening { from: Lsn(350), ..opening(3, 0) }]].concat(), 3);
        assert_eq!(again.list(), openings.list());
    }

    #[test]
    fn the_oldest_are_forgotten() {
        let many: Vec<Opening> = (1..5000).map(|epoch| opening(epoch, u64::from(epoch) * 100)).collect();
        let openings = Openings::new(&many, 4999);
        assert_eq!(openings.list().len(), REMEMBERED);
        assert_eq!(misfit(&openings, (1, 11), 300), None);
        assert_eq!(misfit(&openings, (1, 11), 499_000), Some((5000 - REMEMBERED as u64) * 100));
        assert_eq!(misfit(&openings, (4998, 4998 * 11), 499_900), Some(499_900));
    }
}
