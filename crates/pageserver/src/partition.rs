//! Which pages a page server has (*Socrates*, section 4.6). A *partition* is a range of so many page numbers: partition 0 begins with page 0,
//! and there are as many as the database is long. A page server has those whose number, modulo a count, is one of some.
//!
//! That rule needs nobody to keep a map, and covers partitions that do not exist yet: a database grows at its end, and each new partition
//! has its page servers already, the next ones in turn, so that what grows is spread over all of them.

use std::fmt;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, PageId, Result};
use resurgam_log::RecordRef;

/// Pages of a segment: what is fetched at a time. One of a smaller partition, in tests, has as many as that.
const SEGMENT_PAGES: u64 = 128;
/// The greatest count.
pub const PARTITION_COUNT_MAX: u32 = 1024;
/// 128 GB, as in the paper.
pub const PARTITION_PAGES_DEFAULT: u64 = (128 << 30) / resurgam_base::limits::PAGE_SIZE as u64;
/// 1 PB.
const PARTITION_PAGES_MAX: u64 = (1 << 50) / resurgam_base::limits::PAGE_SIZE as u64;

/// See the module.
#[derive(Clone, PartialEq, Eq)]
pub struct Partitions {
    /// Of a partition.
    pages: u64,
    /// Of each number below the count, whether those partitions are there.
    mine: Arc<[bool]>,
}

impl Partitions {
    /// All pages.
    pub fn all() -> Self {
        Self { pages: PARTITION_PAGES_DEFAULT, mine: Arc::new([true]) }
    }

    /// Partitions of so many pages whose number modulo `count` is one of `numbers`.
    ///
    /// # Errors
    /// `InvalidParameter` for what cannot be.
    pub fn new(pages: u64, count: u32, numbers: &[u32]) -> Result<Self> {
        let bad = |what: String| Err(Error::new(ErrorKind::InvalidParameter, what));
        let fits = pages.is_multiple_of(SEGMENT_PAGES) || pages > 0 && SEGMENT_PAGES.is_multiple_of(pages);
        if !fits || pages == 0 || pages > PARTITION_PAGES_MAX {
            return bad(format!("a partition cannot have {pages} pages: whole megabytes, up to 1 PB"));
        }
        if count == 0 || count > PARTITION_COUNT_MAX {
            return bad(format!("partitions are counted modulo 1 to {PARTITION_COUNT_MAX}, not {count}"));
        }
        if numbers.is_empty() {
            return bad("a page server has at least one partition".into());
        }
        let mut mine = vec![false; count as usize];
        for number in numbers {
            match mine.get_mut(*number as usize) {
                Some(mine) => *mine = true,
                None => return bad(format!("there is no partition {number} modulo {count}")),
            }
        }
        if mine.iter().all(|mine| *mine) {
            return Ok(Self::all());
        }
        Ok(Self { pages, mine: mine.into() })
    }

    /// As an operator writes them: `all`, or numbers and their count, `0,2-3/8`.
    ///
    /// # Errors
    /// `InvalidParameter`, saying what was expected.
    pub fn parse(text: &str, pages: u64) -> Result<Self> {
        let text = text.trim();
        if text.is_empty() || text.eq_ignore_ascii_case("all") {
            return Self::new(pages, 1, &[0]);
        }
        let expected = || {
            Error::new(
                ErrorKind::InvalidParameter,
                format!("{text:?} names no partitions; write for instance all, 0/2 or 0,2-3/8"),
            )
        };
        let (list, count) = text.split_once('/').ok_or_else(expected)?;
        let number = |text: &str| text.trim().parse::<u32>().ok().filter(|n| *n < PARTITION_COUNT_MAX);
        let mut numbers = Vec::new();
        for part in list.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first).ok_or_else(expected)?, number(last).ok_or_else(expected)?);
            if last < first {
                return Err(expected());
            }
            numbers.extend(first..=last);
        }
        Self::new(pages, count.trim().parse().map_err(|_| expected())?, &numbers)
    }

    /// Whether that is every page.
    pub fn is_all(&self) -> bool {
        self.mine.len() == 1
    }

    /// Pages of a partition, where it is not all of them.
    pub fn pages(&self) -> u64 {
        self.pages
    }

    /// What the numbers of partitions are taken modulo.
    pub fn count(&self) -> u32 {
        self.mine.len() as u32
    }

    /// Those below the count whose partitions are there.
    pub fn numbers(&self) -> Vec<u32> {
        (0..).zip(self.mine.iter()).filter(|(_, mine)| **mine).map(|(number, _)| number).collect()
    }

    /// Whether the page is in one of them.
    pub fn covers(&self, page: PageId) -> bool {
        self.has(self.partition_of(page))
    }

    /// Whether a block of the log with these records has one of its pages. What cannot be read does: whoever gets it finds out.
    pub fn matters<'b>(&self, mut records: impl Iterator<Item = Result<RecordRef<'b>>>) -> bool {
        records.any(|record| {
            record.map_or(true, |record| {
                let header = record.header;
                header.page.is_some() && header.kind.is_of_page() && self.covers(header.page)
            })
        })
    }

    /// The partition of a page.
    pub fn partition_of(&self, page: PageId) -> u64 {
        page.0 / self.pages
    }

    /// Whether the partition with this number is one of them.
    pub fn has(&self, partition: u64) -> bool {
        self.mine[(partition % self.mine.len() as u64) as usize]
    }

    /// Of a segment, where segments are of this many pages, whether it is in one of them: a segment is never in two.
    pub(crate) fn has_segment(&self, number: u64) -> bool {
        self.covers(PageId(number.saturating_mul(self.segment_pages())))
    }

    /// Pages of a segment.
    pub(crate) fn segment_pages(&self) -> u64 {
        self.pages.min(SEGMENT_PAGES)
    }

    /// Its ranges of pages below `end`, first and last page, at most so many; whether there are more.
    pub fn ranges(&self, end: u64, most: usize) -> (Vec<(u64, u64)>, bool) {
        if self.is_all() {
            return (if end > 0 { vec![(0, end - 1)] } else { Vec::new() }, false);
        }
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for partition in (0..end.div_ceil(self.pages)).filter(|partition| self.has(*partition)) {
            let (first, last) = (partition * self.pages, ((partition + 1) * self.pages).min(end) - 1);
            if let Some((_, before)) = ranges.last_mut().filter(|(_, before)| *before + 1 == first) {
                *before = last;
            } else if ranges.len() == most {
                return (ranges, true);
            } else {
                ranges.push((first, last));
            }
        }
        (ranges, false)
    }
}

impl fmt::Display for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_all() {
            return f.write_str("all");
        }
        let numbers = self.numbers();
        let mut rest = &numbers[..];
        while let Some(first) = rest.first() {
            let run = rest.iter().zip(*first..).take_while(|(number, expected)| **number == *expected).count();
            f.write_str(if rest.len() == numbers.len() { "" } else { "," })?;
            match run {
                1 => write!(f, "{first}")?,
                _ => write!(f, "{first}-{}", rest[run - 1])?,
            }
            rest = &rest[run..];
        }
        write!(f, "/{}", self.count())
    }
}

impl fmt::Debug for Partitions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} of {} pages each", self.pages)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        for (text, numbers, count) in [
            ("0/2", vec![0], 2),
            ("1/2", vec![1], 2),
            ("0,2-3/8", vec![0, 2, 3], 8),
            ("7,1023/1024", vec![7, 1023], 1024),
        ] {
            let partitions = Partitions::parse(text, 256).unwrap();
            assert_eq!((partitions.numbers(), partitions.count()), (numbers, count));
            assert_eq!(partitions.to_string(), text);
            assert_eq!(Partitions::new(256, count, &partitions.numbers()).unwrap(), partitions);
        }
        for all in ["all", "", "ALL", "0/1", "0-3/4"] {
            assert!(Partitions::parse(all, 256).unwrap().is_all());
        }
        for bad in
            ["1", "1/", "/2", "2/2", "3-1/4", "-1/4", "0/0", "0/1025", "0;1/4", "99999999999/4", "0-4294967295/9"]
        {
            assert_eq!(Partitions::parse(bad, 256).unwrap_err().kind(), ErrorKind::InvalidParameter, "{bad}");
        }
        for pages in [0, 3, 100, 129, u64::MAX, PARTITION_PAGES_MAX + 128] {
            assert!(Partitions::new(pages, 2, &[0]).is_err(), "{pages}");
        }
        assert!(Partitions::new(128, 2, &[]).is_err());
    }

    /// Each page is in the partitions of one of those who share them, to the end of all numbers.
    #[test]
    fn every_page_is_with_one() {
        for (pages, count) in [(1, 2), (4, 3), (128, 5), (1024, 7)] {
            let all: Vec<_> = (0..count).map(|number| Partitions::new(pages, count, &[number]).unwrap()).collect();
            for page in (0..5000).chain([u64::MAX - 1, u64::MAX]) {
                assert_eq!(all.iter().filter(|of| of.covers(PageId(page))).count(), 1);
            }
            for of in &all {
                let (ranges, more) = of.ranges(5000, 10_000);
                let counted: u64 = ranges.iter().map(|(first, last)| last - first + 1).sum();
                assert!(!more && counted == (0..5000).filter(|page| of.covers(PageId(*page))).count() as u64);
                assert!(ranges.iter().all(|(first, last)| of.covers(PageId(*first)) && of.covers(PageId(*last))));
            }
        }
        let some = Partitions::new(128, 4, &[1, 2]).unwrap();
        assert_eq!(some.ranges(1000, 5), (vec![(128, 383), (640, 895)], false));
        assert_eq!(some.ranges(1000, 1), (vec![(128, 383)], true));
        assert_eq!(Partitions::all().ranges(10, 5), (vec![(0, 9)], false));
    }
}
