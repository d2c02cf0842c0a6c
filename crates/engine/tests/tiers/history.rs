//! What the log is, as a bystander who sees everything knows it: every block that a life of the primary has written, up to where each has
//! acknowledged, and where the next one began. From that follows which blocks are of the history, and what a page must have.

use std::collections::BTreeMap;

use resurgam_engine::{Lsn, PageId};
use resurgam_log::RecordRef;

/// A block of one life's log.
#[derive(Clone, Debug)]
pub struct Known {
    pub next: Lsn,
    pub epoch: u32,
    pages: Vec<(PageId, Lsn)>,
}

/// One life's log, as it sees it.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pub epoch: u32,
    pub start: Lsn,
    /// All below is acknowledged.
    pub hardened: Lsn,
    blocks: BTreeMap<Lsn, Known>,
    /// Records of each page, ascending.
    pages: BTreeMap<PageId, Vec<Lsn>>,
}

/// See the module.
#[derive(Default)]
pub struct History {
    /// By epoch.
    lines: BTreeMap<u32, Line>,
}

/// Pages of a block's records.
pub fn pages_of<'b>(records: impl Iterator<Item = RecordRef<'b>>) -> Vec<(PageId, Lsn)> {
    records
        .filter(|record| record.header.page.is_some() && record.header.kind.is_of_page())
        .map(|record| (record.header.page, record.lsn))
        .collect()
}

impl Line {
    fn add(&mut self, lsn: Lsn, next: Lsn, epoch: u32, pages: Vec<(PageId, Lsn)>) {
        for (page, record) in &pages {
            self.pages.entry(*page).or_default().push(*record);
        }
        self.blocks.insert(lsn, Known { next, epoch, pages });
    }

    pub fn end(&self) -> Lsn {
        self.blocks.last_key_value().map_or(Lsn::NONE, |(_, block)| block.next)
    }

    /// Its part below `start`.
    fn below(&self, start: Lsn) -> Line {
        let mut line = Line::default();
        for (lsn, block) in self.blocks.iter().filter(|(_, block)| block.next <= start) {
            line.add(*lsn, block.next, block.epoch, block.pages.clone());
        }
        line
    }

    /// The block that begins there.
    pub fn block(&self, lsn: Lsn) -> Option<&Known> {
        self.blocks.get(&lsn)
    }

    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }
}

impl History {
    pub fn newest(&self) -> Option<&Line> {
        self.lines.last_key_value().map(|(_, line)| line)
    }

    /// A life begins at `start`. Gives up to where what is there before it is known: the caller adds what lies between ([`History::found`]).
    ///
    /// # Errors
    /// In words, that it lacks what was acknowledged.
    pub fn begin(&mut self, epoch: u32, start: Lsn) -> Result<Lsn, String> {
        let before = self.lines.range(..epoch);
        if let Some((_, line)) = before.clone().find(|(_, line)| line.hardened > start) {
            return Err(format!(
                "epoch {epoch} begins at {start}, and epoch {} has acknowledged all below {}",
                line.epoch, line.hardened
            ));
        }
        let mut line = before.last().map(|(_, before)| before.below(start)).unwrap_or_default();
        (line.epoch, line.start, line.hardened) = (epoch, start, start);
        let end = line.end();
        self.lines.insert(epoch, line);
        Ok(end)
    }

    /// A block that was there when a life began, and that nobody was seen to write: of the making of the database.
    pub fn found(&mut self, of: u32, (lsn, next, epoch): (Lsn, Lsn, u32), pages: Vec<(PageId, Lsn)>) {
        if let Some(line) = self.lines.get_mut(&of) {
            line.add(lsn, next, epoch, pages);
        }
    }

    /// A life is about to write a block.
    pub fn writes(&mut self, epoch: u32, lsn: Lsn, next: Lsn, pages: Vec<(PageId, Lsn)>) {
        if let Some(line) = self.lines.get_mut(&epoch) {
            line.add(lsn, next, epoch, pages);
        }
    }

    /// A life acknowledges everything below `upto`.
    ///
    /// # Errors
    /// In words, that it may not.
    pub fn acknowledges(&mut self, epoch: u32, upto: Lsn) -> Result<(), String> {
        if let Some(newest) = self.newest().filter(|newest| newest.epoch > epoch) {
            return Err(format!("epoch {epoch} acknowledges all below {upto}, and epoch {} has the log", newest.epoch));
        }
        if let Some(line) = self.lines.get_mut(&epoch) {
            line.hardened = line.hardened.max(upto);
        }
        Ok(())
    }

    /// Whether a block that somebody was given is hardened, and of the history.
    ///
    /// # Errors
    /// In words, that it is not.
    pub fn check(&self, lsn: Lsn, next: Lsn, epoch: u32) -> Result<(), String> {
        let Some(newest) = self.newest() else { return Err(format!("a block at {lsn} of no log")) };
        match newest.block(lsn) {
            Some(block) if block.next == next && block.epoch == epoch && next <= newest.hardened => Ok(()),
            // Another one has taken the log, and begun behind it; or will find it.
            _ => Err(format!(
                "a block at {lsn} of epoch {epoch} was given out, and epoch {}, which begins at {}, has {:?} there, hardened to {}",
                newest.epoch,
                newest.start,
                newest.block(lsn).map(|block| block.epoch),
                newest.hardened
            )),
        }
    }

    /// Whether a page as of `lsn` is of another history than that of `epoch`, which could not tell: its log reaches to `end`.
    pub fn is_of_another(&self, epoch: u32, page: PageId, lsn: Lsn, end: Lsn) -> bool {
        let Some(line) = self.lines.get(&epoch) else { return false };
        let is_own = line.pages.get(&page).is_some_and(|records| records.binary_search(&lsn).is_ok());
        !is_own && lsn < end
    }

    /// Whether there was ever a record of a page in the history of `epoch`.
    pub fn has(&self, epoch: u32, page: PageId) -> bool {
        self.lines.get(&epoch).is_some_and(|line| line.pages.contains_key(&page))
    }

    /// Whether a page as of `lsn` is what one of `epoch` who asked for it with `at_least` may be given.
    ///
    /// # Errors
    /// In words, that it is not.
    pub fn check_page(&self, epoch: u32, page: PageId, at_least: Lsn, lsn: Lsn) -> Result<(), String> {
        let Some(records) = self.lines.get(&epoch).and_then(|line| line.pages.get(&page)) else {
            return Err(format!("page {page} as of {lsn}, of which epoch {epoch} has no record"));
        };
        let needed = records[..records.partition_point(|record| *record <= at_least)].last();
        if needed.is_some_and(|needed| *needed > lsn) {
            return Err(format!("page {page} as of {lsn}, asked for with {at_least}, has a record at {needed:?}"));
        }
        if records.binary_search(&lsn).is_err() {
            return Err(format!("page {page} as of {lsn}, where epoch {epoch} has no record of it"));
        }
        Ok(())
    }
}
