//! The page table of a run: for every page that has a record in it, where, how many, and which is the last one. Filter and
//! page recovery index in one, and exact.
//!
//! Entries ascend by page, in frames; all varints:
//! ```text
//! page - page before | frame's offset - the one before | offset in the frame's content | count | first LSN
//! | last LSN - first | flags | [of the newest record that makes the page anew: LSN - first | how many are before it
//! | frame - the page's frame | offset in its content]
//!      flags: 1 = the last fields follow; 2 = earlier records of the page were left out by a merge;
//!      4 = the page goes on: this entry begins with a record that makes it anew
//! ```
//! A page has an entry for each record that makes it anew (an image, mostly), and for what is before the first (but in runs that
//! were sorted by programs before images were logged: there it has one, with the newest): so whoever wants it as of an LSN begins with the last of them up to there. Those of a page follow each
//! other.

use resurgam_base::{Error, Lsn, PageId, Result};
use resurgam_page::codec::{Reader, put_varint64};

const ANEW: u64 = 1;
const CUT: u64 = 2;
const CONTINUES: u64 = 4;

/// What a run has of a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PageEntry {
    pub page: PageId,
    /// The frame with its first record.
    pub(crate) frame: u64,
    /// Where in it.
    pub(crate) at: u64,
    /// Number of its records.
    pub count: u64,
    pub first: Lsn,
    pub last: Lsn,
    /// The newest record that makes the page anew, or none.
    pub anew: Lsn,
    /// How many of its records are before that one; its frame, and where in it.
    pub(crate) anew_index: u64,
    pub(crate) anew_frame: u64,
    pub(crate) anew_at: u64,
    /// Records before the first one were left out by a merge.
    pub cut: bool,
    /// It is the page's next piece, which begins with a record that makes it anew.
    pub(crate) continues: bool,
}

impl PageEntry {
    /// Adds the page's next piece.
    pub(crate) fn add(&mut self, piece: &PageEntry) {
        if piece.anew.is_some() {
            self.anew = piece.anew;
            self.anew_index = self.count + piece.anew_index;
            (self.anew_frame, self.anew_at) = (piece.anew_frame, piece.anew_at);
        }
        self.count += piece.count;
        self.last = piece.last;
    }
}

/// Writes entries.
#[derive(Default)]
pub(crate) struct TableWriter {
    pub bytes: Vec<u8>,
    pub count: u32,
    pub first_page: PageId,
    before: PageEntry,
}

impl TableWriter {
    pub fn put(&mut self, entry: &PageEntry) {
        if self.count == 0 {
            self.first_page = entry.page;
        }
        let out = &mut self.bytes;
        put_varint64(out, entry.page.0 - self.before.page.0);
        put_varint64(out, entry.frame - self.before.frame);
        put_varint64(out, entry.at);
        put_varint64(out, entry.count);
        put_varint64(out, entry.first.0);
        put_varint64(out, entry.last.0 - entry.first.0);
        put_varint64(
            out,
            if entry.anew.is_some() { ANEW } else { 0 }
                | if entry.cut { CUT } else { 0 }
                | if entry.continues { CONTINUES } else { 0 },
        );
        if entry.anew.is_some() {
            put_varint64(out, entry.anew.0 - entry.first.0);
            put_varint64(out, entry.anew_index);
            put_varint64(out, entry.anew_frame - entry.frame);
            put_varint64(out, entry.anew_at);
        }
        self.before = *entry;
        self.count += 1;
    }

    pub fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
        self.before = PageEntry::default();
    }
}

/// Where a reader is in a frame of the table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TablePlace {
    at: usize,
    before: PageEntry,
}

impl TablePlace {
    /// The next entry.
    ///
    /// # Errors
    /// `Corrupt` without a place.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Option<PageEntry>> {
        let rest = bytes.get(self.at..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let mut r = Reader::new(rest, "page table");
        let add =
            |a: u64, b: u64| a.checked_add(b).ok_or_else(|| Error::corrupt("page table: a number that cannot be"));
        let mut entry = PageEntry {
            page: PageId(add(self.before.page.0, r.varint64()?)?),
            frame: add(self.before.frame, r.varint64()?)?,
            at: r.varint64()?,
            count: r.varint64()?,
            first: Lsn(r.varint64()?),
            ..PageEntry::default()
        };
        entry.last = Lsn(add(entry.first.0, r.varint64()?)?);
        let flags = r.varint64()?;
        entry.continues = flags & CONTINUES != 0;
        let again = self.at > 0 && entry.page == self.before.page;
        if flags & !(ANEW | CUT | CONTINUES) != 0 || entry.count == 0 || (again && !entry.continues) {
            return Err(r.bad("an entry that cannot be"));
        }
        if flags & ANEW != 0 {
            entry.anew = Lsn(add(entry.first.0, r.varint64()?)?);
            entry.anew_index = r.varint64()?;
            entry.anew_frame = add(entry.frame, r.varint64()?)?;
            entry.anew_at = r.varint64()?;
            if entry.anew_index >= entry.count {
                return Err(r.bad("an entry that cannot be"));
            }
        }
        entry.cut = flags & CUT != 0;
        self.at += r.position();
        self.before = entry;
        Ok(Some(entry))
    }
}

/// Entries between two marks.
const MARK_EVERY: usize = 16;

/// Places in a frame of the table, so that who looks a page up need not begin at the first entry.
#[derive(Debug, Default)]
pub(crate) struct Marks(Box<[(PageId, TablePlace)]>);

impl Marks {
    /// Those of a frame with that content. Of entries that cannot be read there are none: who comes to them says so.
    pub fn of(bytes: &[u8]) -> Self {
        let (mut marks, mut place) = (Vec::new(), TablePlace::default());
        for number in 1_usize.. {
            let before = place;
            match place.next(bytes) {
                Ok(Some(entry)) if number % MARK_EVERY == 0 => marks.push((entry.page, before)),
                Ok(Some(_)) => {}
                Ok(None) | Err(_) => break,
            }
        }
        Self(marks.into_boxed_slice())
    }

    /// A place before the first entry of `page`, and not long before it.
    pub fn before(&self, page: PageId) -> TablePlace {
        let after = self.0.partition_point(|(of, _)| *of < page);
        after.checked_sub(1).and_then(|at| self.0.get(at)).map_or_else(TablePlace::default, |(_, place)| *place)
    }

    pub fn bytes(&self) -> usize {
        size_of_val(&*self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_lead_to_every_page() -> Result<()> {
        let mut writer = TableWriter::default();
        let mut pages = Vec::new();
        for n in 0..500_u64 {
            // Some pages have several pieces, as many as lie between two marks.
            let page = PageId(3 * n + 1);
            let pieces = if n % 7 == 3 { 1 + n % 40 } else { 1 };
            for piece in 0..pieces {
                let first = Lsn(1000 * n + 10 * piece + 1);
                let anew = if piece > 0 { first } else { Lsn::NONE };
                let entry = PageEntry {
                    page,
                    frame: 100 * n,
                    at: piece,
                    count: 1 + piece,
                    first,
                    last: Lsn(first.0 + 5),
                    anew,
                    anew_frame: if piece > 0 { 100 * n } else { 0 },
                    anew_at: if piece > 0 { piece } else { 0 },
                    continues: piece > 0,
                    ..PageEntry::default()
                };
                writer.put(&entry);
                pages.push(entry);
            }
        }
        let marks = Marks::of(&writer.bytes);
        assert!(marks.bytes() > 0);
        for wanted in 0..1510 {
            let wanted = PageId(wanted);
            let mut place = marks.before(wanted);
            let mut passed = 0;
            let found = loop {
                match place.next(&writer.bytes)? {
                    Some(entry) if entry.page < wanted => passed += 1,
                    found => break found,
                }
            };
            let first = pages.iter().find(|entry| entry.page >= wanted).copied();
            assert_eq!(found, first, "page {wanted}");
            assert!(passed <= MARK_EVERY + 40, "{passed} entries before page {wanted}");
        }
        // Content that ends in the middle of an entry has marks up to there.
        let cut = &writer.bytes[..writer.bytes.len() / 2 + 1];
        assert!(Marks::of(cut).bytes() < marks.bytes());
        Ok(())
    }
}
