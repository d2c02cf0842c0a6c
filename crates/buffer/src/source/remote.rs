//! Pages that are in no file of this process: page servers have them, which apply the log (*Socrates*, sections 4.4 and 4.6).
//!
//! A page leaves memory without being written anywhere: all that it is is in the log. So what must be remembered of it is
//! only how new it was, lest a page server that is behind answers with an older one. That takes a map of a fixed size: a
//! bucket keeps the highest LSN of the pages that fall into it, which may make a reader wait for more than it needs, and
//! never for less.
//!
//! # Invariants
//! 1. The LSN of a page is in the map before the page cannot be found in memory any more, and the log is durable past it
//!    by then: a page server is never asked for what a crash could take back.
//! 2. A bucket never goes down. After a restart it begins at a floor that no page changed before the last checkpoint can
//!    be above, and each page that analysis has met is raised to its last record.
//! 3. What a page server sends is not trusted: checksum, page id, and the LSN are looked at.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::RwLock;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;

/// Buckets of the map: half a megabyte.
const BUCKETS: usize = 1 << 16;

/// Where pages come from that are in no file of this process.
pub trait RemotePages: Send + Sync {
    /// Fills `buf` with the page as it is with its record at `at_least`, or with later ones. Waits until that is applied.
    ///
    /// # Errors
    /// `Io` when it cannot be had now and may be later; `Corrupt` when it is damaged there, and was not mended.
    fn get_page(&self, page: PageId, at_least: Lsn, buf: &mut PageBuf) -> Result<()>;
}

/// The page servers, and how new the pages are that they are asked for.
pub(crate) struct Remote {
    pages: Arc<dyn RemotePages>,
    floor: Lsn,
    buckets: Box<[AtomicU64]>,
    /// The last record of each page that analysis has met, until the page is read: more is known of it than its bucket says.
    analysed: RwLock<HashMap<PageId, Lsn>>,
}

fn bucket(page: PageId) -> usize {
    (page.0.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (64 - BUCKETS.trailing_zeros())) as usize
}

impl Remote {
    /// No page that analysis does not name ([`Remote::analysed`]) has a record at or behind `floor`.
    pub fn new(pages: Arc<dyn RemotePages>, floor: Lsn) -> Self {
        let mut buckets = Vec::new();
        buckets.resize_with(BUCKETS, || AtomicU64::new(0));
        Self { pages, floor, buckets: buckets.into_boxed_slice(), analysed: RwLock::default() }
    }

    /// Recovery has found that the page's last record is there. Before pages are read.
    pub fn analysed(&self, page: PageId, last: Lsn) {
        let mut analysed = self.analysed.write();
        let known = analysed.entry(page).or_insert(last);
        *known = last.max(*known);
    }

    /// The page, as of this LSN, is about to leave memory.
    pub fn evicted(&self, page: PageId, lsn: Lsn) {
        self.buckets[bucket(page)].fetch_max(lsn.0, Ordering::SeqCst);
    }

    /// How new the page must be.
    pub fn at_least(&self, page: PageId) -> Lsn {
        let evicted = Lsn(self.buckets[bucket(page)].load(Ordering::SeqCst));
        if evicted.is_some() {
            return evicted.max(self.analysed.read().get(&page).copied().unwrap_or(self.floor));
        }
        self.analysed.read().get(&page).copied().unwrap_or(self.floor)
    }

    /// Fills `buf` with the page. `end`: where the log ends now.
    ///
    /// # Errors
    /// Those of [`RemotePages::get_page`]; `Corrupt`, naming the page, for an answer that cannot be.
    pub fn load(&self, page: PageId, buf: &mut PageBuf, end: Lsn) -> Result<()> {
        let at_least = self.at_least(page);
        self.pages.get_page(page, at_least, buf)?;
        let bad = |what: String| {
            // Another page server, or this one later, may have a good one.
            Err(Error::new(ErrorKind::Io, format!("page {page} came from a page server as {what}")))
        };
        if let Err(fault) = buf.verify(page) {
            return bad(format!("what it cannot be: {fault}"));
        }
        if buf.lsn() >= end {
            return bad(format!("of LSN {}, and the log ends at LSN {end}", buf.lsn()));
        }
        let analysed = self.analysed.read().get(&page).copied();
        if let Some(last) = analysed {
            if buf.lsn() < last {
                return bad(format!("of LSN {}, and it has a record at LSN {last}", buf.lsn()));
            }
            // From here on the frame is what counts, and then its bucket.
            self.evicted(page, last);
            self.analysed.write().remove(&page);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use resurgam_base::{ObjectId, limits::PAGE_SIZE};
    use resurgam_page::{PageType, op};

    use super::*;

    /// A page server that answers with one page, and notes what it was asked for.
    #[derive(Default)]
    struct One(Mutex<(Option<PageBuf>, Vec<(PageId, Lsn)>)>);

    impl RemotePages for One {
        fn get_page(&self, page: PageId, at_least: Lsn, buf: &mut PageBuf) -> Result<()> {
            let mut state = self.0.lock();
            state.1.push((page, at_least));
            match &state.0 {
                Some(page) => buf.as_bytes_mut().copy_from_slice(page.as_bytes()),
                None => buf.as_bytes_mut().fill(0),
            }
            Ok(())
        }
    }

    fn page(id: PageId, lsn: Lsn) -> PageBuf {
        let (mut page, mut ops) = (PageBuf::zeroed(), Vec::new());
        op::format(&mut ops, PageType::Leaf, 0, ObjectId(7), &[], None);
        op::apply(&mut page, id, &ops, lsn).unwrap();
        page.seal();
        page
    }

    #[test]
    fn a_page_is_asked_for_as_new_as_it_was() {
        let remote = Remote::new(Arc::new(One::default()), Lsn(100));
        let (a, b) = (PageId(5), PageId(6));
        assert_eq!((remote.at_least(a), remote.at_least(b)), (Lsn(100), Lsn(100)));
        remote.analysed(a, Lsn(300));
        remote.analysed(a, Lsn(200));
        assert_eq!((remote.at_least(a), remote.at_least(b)), (Lsn(300), Lsn(100)));
        remote.evicted(b, Lsn(90));
        assert_eq!(remote.at_least(b), Lsn(100), "the floor");
        remote.evicted(b, Lsn(500));
        remote.evicted(b, Lsn(400));
        assert_eq!(remote.at_least(b), Lsn(500));
        // Whatever falls into the same bucket is asked for at least as new.
        for other in (0..200_000).map(PageId).filter(|other| bucket(*other) == bucket(b)) {
            assert!(remote.at_least(other) >= Lsn(500));
        }
        let mut used = vec![false; BUCKETS];
        (0..BUCKETS as u64 * 8).for_each(|id| used[bucket(PageId(id))] = true);
        assert!(used.iter().all(|used| *used), "neighbouring pages go to different buckets");
    }

    #[test]
    fn answers_are_not_trusted() {
        let server = Arc::new(One::default());
        let remote = Remote::new(Arc::clone(&server) as Arc<dyn RemotePages>, Lsn(100));
        let (id, end) = (PageId(5), Lsn(1000));
        remote.analysed(id, Lsn(300));
        let mut buf = PageBuf::zeroed();
        let mut give = |given: Option<PageBuf>| {
            server.0.lock().0 = given;
            remote.load(id, &mut buf, end)
        };
        assert_eq!(give(None).unwrap_err().kind(), ErrorKind::Io, "nothing");
        assert_eq!(give(Some(page(PageId(6), Lsn(300)))).unwrap_err().kind(), ErrorKind::Io, "another page");
        assert_eq!(give(Some(page(id, Lsn(299)))).unwrap_err().kind(), ErrorKind::Io, "older than its last record");
        assert_eq!(give(Some(page(id, Lsn(1000)))).unwrap_err().kind(), ErrorKind::Io, "newer than the log");
        let mut torn = page(id, Lsn(300));
        torn.as_bytes_mut()[PAGE_SIZE - 1] ^= 1;
        assert_eq!(give(Some(torn)).unwrap_err().kind(), ErrorKind::Io, "damaged");
        give(Some(page(id, Lsn(300)))).unwrap();
        assert_eq!(remote.at_least(id), Lsn(300), "as before, from the bucket");
        assert!(server.0.lock().1.iter().all(|asked| *asked == (id, Lsn(300))));
    }
}
