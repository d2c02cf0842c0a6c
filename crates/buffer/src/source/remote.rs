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
//! 4. How new a page must be is found out while its frame is latched and can be found: nobody else has the page, changes it, and evicts it
//!    between that and its coming. Pages that are asked for ahead (`ahead.rs`) are no exception.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use hashbrown::HashMap;
use parking_lot::RwLock;
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;

use super::cached::PageCache;
use crate::patience::LOOK;
use crate::planted::Planted;

/// Buckets of the map: half a megabyte.
const BUCKETS: usize = 1 << 16;

/// Where pages come from that are in no file of this process.
pub trait RemotePages: Send + Sync {
    /// Fills `buf` with the page as it is with its record at `at_least`, or with later ones. Waits until that is applied; asks `stop`
    /// meanwhile, some ten times a second, and ends with its error.
    ///
    /// # Errors
    /// `Io` when it cannot be had now and may be later; `Corrupt` when it is damaged there, and was not mended; that of `stop`.
    fn get_page(&self, page: PageId, at_least: Lsn, stop: &dyn Fn() -> Result<()>, buf: &mut PageBuf) -> Result<()>;

    /// As [`RemotePages::get_page`], for who has a copy of the page with this LSN: `buf` is left as it is where that is current.
    ///
    /// # Errors
    /// As there; then anything may be in `buf`.
    fn get_page_unless(
        &self,
        page: PageId,
        at_least: Lsn,
        have: Lsn,
        stop: &dyn Fn() -> Result<()>,
        buf: &mut PageBuf,
    ) -> Result<Had> {
        let _ = have;
        self.get_page(page, at_least, stop, buf).map(|()| Had::Page)
    }

    /// How many pages can be asked for in one request; 0: only one by one.
    fn most_at_once(&self) -> usize {
        0
    }

    /// Asks for pages that nobody waits for yet, each as in [`RemotePages::get_page`], in one request. Gives `got` those that are had without
    /// much waiting, by their place in the list; what fails is not told.
    fn get_pages(&self, _: &[(PageId, Lsn)], _stop: &dyn Fn() -> Result<()>, _got: &mut dyn FnMut(usize, &[u8])) {}
}

/// What a page server has answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Had {
    Page,
    /// The copy that who asks has is the page.
    NotModified,
}

/// Where a page came from.
#[derive(Debug)]
pub(crate) enum Came {
    FromAfar,
    /// From the cache, which has proof that the copy is current.
    FromCache,
    /// From the cache, after a page server had said that the copy is current.
    Confirmed,
}

/// A copy of a page that the cache had.
pub(crate) struct Copy {
    lsn: Lsn,
    /// It is the page. Else that has to be asked.
    pub is_current: bool,
}

/// The page servers, and how new the pages are that they are asked for.
pub(crate) struct Remote {
    pages: Arc<dyn RemotePages>,
    cache: OnceLock<Arc<dyn PageCache>>,
    blocking: fn(&mut dyn FnMut()),
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
    pub fn new(pages: Arc<dyn RemotePages>, blocking: fn(&mut dyn FnMut()), floor: Lsn) -> Self {
        let mut buckets = Vec::new();
        buckets.resize_with(BUCKETS, || AtomicU64::new(0));
        Self {
            pages,
            cache: OnceLock::new(),
            blocking,
            floor,
            buckets: buckets.into_boxed_slice(),
            analysed: RwLock::default(),
        }
    }

    /// Copies of pages are there, from now on.
    pub fn set_cache(&self, cache: Arc<dyn PageCache>) {
        let _ = self.cache.set(cache);
    }

    /// See [`Remote::set_cache`].
    pub fn cache(&self) -> Option<&dyn PageCache> {
        self.cache.get().map(|cache| &**cache)
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

    /// See [`RemotePages`].
    pub fn pages(&self) -> &dyn RemotePages {
        &*self.pages
    }

    /// Whether a copy of the page from before the open is the page, by what is known here: it has no record between `lsn` and `as_of`.
    /// False: that is not known.
    pub fn is_current(&self, page: PageId, lsn: Lsn, as_of: Lsn) -> bool {
        if Planted::CopyNotCompared.is_planted() {
            return true;
        }
        // In this order: the bucket is raised before it is forgotten.
        match self.analysed.read().get(&page) {
            Some(last) => lsn == *last,
            None => as_of >= self.floor && Lsn(self.buckets[bucket(page)].load(Ordering::SeqCst)) <= lsn,
        }
    }

    /// Fills `buf` with the cache's copy of the page, whose frame is the caller's, if it is, or may be, current.
    pub fn copy(&self, page: PageId, buf: &mut PageBuf, end: Lsn) -> Option<Copy> {
        let cache = self.cache()?;
        let found = cache.find(page, buf)?;
        let last = self.analysed.read().get(&page).copied();
        let is_out_of_date = last.is_some_and(|last| last != found.lsn) && !Planted::CopyNotCompared.is_planted();
        // One of a log that ended elsewhere, if it is not older.
        if is_out_of_date || found.lsn >= end {
            cache.refuted(page);
            return None;
        }
        let is_current = found.as_of.is_none_or(|as_of| self.is_current(page, found.lsn, as_of));
        if is_current && found.as_of.is_some() {
            cache.confirmed(page, found.lsn);
        }
        Some(Copy { lsn: found.lsn, is_current })
    }

    /// Fills `buf` with the page, whose frame is the caller's. `end`: where the log ends now.
    ///
    /// # Errors
    /// Those of [`RemotePages::get_page`]; `Io`, naming the page, for an answer that cannot be.
    pub fn load(&self, page: PageId, buf: &mut PageBuf, end: Lsn, stop: &dyn Fn() -> Result<()>) -> Result<Came> {
        let copy = self.copy(page, buf, end);
        match (copy, self.cache()) {
            (Some(Copy { is_current: true, .. }), _) => {
                // Of a page that analysis has met, what is known moves into its bucket, as ever.
                self.accept_copy(page, buf, end)?;
                Ok(Came::FromCache)
            }
            (Some(Copy { lsn, .. }), Some(cache)) => {
                let mut kept = PageBuf::zeroed();
                kept.copy_from(buf);
                match self.ask(page, lsn, buf, stop)? {
                    Had::NotModified => {
                        buf.copy_from(&kept);
                        self.accept(page, buf, end)?;
                        cache.confirmed(page, lsn);
                        Ok(Came::Confirmed)
                    }
                    Had::Page => {
                        self.accept(page, buf, end)?;
                        if buf.lsn() == lsn {
                            cache.confirmed(page, lsn)
                        } else {
                            cache.refuted(page)
                        }
                        Ok(Came::FromAfar)
                    }
                }
            }
            _ => {
                self.ask(page, Lsn::NONE, buf, stop)?;
                self.accept(page, buf, end).map(|()| Came::FromAfar)
            }
        }
    }

    /// Asks the page servers for the page, of which there is a copy of LSN `have`, or none.
    fn ask(&self, page: PageId, have: Lsn, buf: &mut PageBuf, stop: &dyn Fn() -> Result<()>) -> Result<Had> {
        let (at_least, begun, is_long) = (self.at_least(page), Instant::now(), Cell::new(false));
        let stop_if_long = || {
            stop()?;
            if begun.elapsed() > LOOK {
                is_long.set(true);
                return Err(Error::internal("it is asked for again"));
            }
            Ok(())
        };
        let mut get = |stop: &dyn Fn() -> Result<()>| match have.is_some() {
            true => self.pages.get_page_unless(page, at_least, have, stop, buf),
            false => self.pages.get_page(page, at_least, stop, buf).map(|()| Had::Page),
        };
        match get(&stop_if_long) {
            // Once more, where it holds up nobody: it is seldom that a page takes so long.
            Err(_) if is_long.get() => self.long(|| get(stop)),
            outcome => outcome,
        }
    }

    /// Does what keeps the thread waiting for long.
    pub fn long<T>(&self, work: impl FnOnce() -> T) -> T {
        let (mut work, mut done) = (Some(work), None);
        (self.blocking)(&mut || {
            if let Some(work) = work.take() {
                done = Some(work());
            }
        });
        match done {
            Some(done) => done,
            None => unreachable!("it is run once"),
        }
    }

    /// Looks at a page that has come; `end` is where the log ended before it was asked for.
    ///
    /// # Errors
    /// `Io`, naming the page, for what cannot be.
    pub fn accept(&self, page: PageId, buf: &PageBuf, end: Lsn) -> Result<()> {
        if let Err(fault) = buf.verify(page) {
            return Err(unlikely(page, format!("what it cannot be: {fault}")));
        }
        self.accept_copy(page, buf, end)
    }

    /// As [`Remote::accept`], for one of the cache, which has looked at the checksum and at whose page it is ([`PageCache::find`]).
    ///
    /// # Errors
    /// As there.
    pub fn accept_copy(&self, page: PageId, buf: &PageBuf, end: Lsn) -> Result<()> {
        let bad = |what: String| Err(unlikely(page, what));
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

/// Another page server, or this one later, may have a good one.
fn unlikely(page: PageId, what: String) -> Error {
    Error::new(ErrorKind::Io, format!("page {page} came from a page server as {what}"))
}

#[cfg(test)]
mod tests {
    use parking_lot::Mutex;
    use resurgam_base::{ObjectId, limits::PAGE_SIZE};
    use resurgam_page::{PageType, op};

    use super::*;
    use crate::source::{Copied, PageCacheStatus};

    /// A page server that answers with one page, and notes what it was asked for.
    #[derive(Default)]
    struct One(Mutex<(Option<PageBuf>, Vec<(PageId, Lsn)>)>);

    impl RemotePages for One {
        fn get_page(&self, page: PageId, at_least: Lsn, _: &dyn Fn() -> Result<()>, buf: &mut PageBuf) -> Result<()> {
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
        let remote = Remote::new(Arc::new(One::default()), |work| work(), Lsn(100));
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
        let remote = Remote::new(Arc::clone(&server) as Arc<dyn RemotePages>, |work| work(), Lsn(100));
        let (id, end) = (PageId(5), Lsn(1000));
        remote.analysed(id, Lsn(300));
        let mut buf = PageBuf::zeroed();
        let mut give = |given: Option<PageBuf>| {
            server.0.lock().0 = given;
            remote.load(id, &mut buf, end, &|| Ok(()))
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

    /// Has one copy, and notes what it is told.
    #[derive(Default)]
    struct OneCopy(Mutex<(Option<(PageBuf, Option<Lsn>)>, Vec<&'static str>)>);

    impl PageCache for OneCopy {
        fn find(&self, page: PageId, buf: &mut PageBuf) -> Option<Copied> {
            let state = self.0.lock();
            let (copy, as_of) = state.0.as_ref().filter(|(copy, _)| copy.page_id() == page)?;
            buf.copy_from(copy);
            Some(Copied { lsn: copy.lsn(), as_of: *as_of })
        }
        fn evicted(&self, _: PageId, _: &PageBuf, _: Lsn, _: bool) {}
        fn confirmed(&self, _: PageId, _: Lsn) {
            self.0.lock().1.push("confirmed");
        }
        fn refuted(&self, _: PageId) {
            self.0.lock().1.push("refuted");
        }
        fn note_current(&self, _: Lsn, _: &dyn Fn(PageId, Lsn, Option<Lsn>) -> bool) {}
        fn status(&self) -> PageCacheStatus {
            unimplemented!("nobody looks")
        }
        fn close(&self) {}
    }

    /// Answers that the copy is the page, or with a page.
    struct Asked(Option<PageBuf>, Mutex<Vec<(Lsn, Lsn)>>);

    impl RemotePages for Asked {
        fn get_page(&self, _: PageId, at_least: Lsn, _: &dyn Fn() -> Result<()>, buf: &mut PageBuf) -> Result<()> {
            self.1.lock().push((at_least, Lsn::NONE));
            buf.copy_from(self.0.as_ref().ok_or_else(|| Error::internal("it has none"))?);
            Ok(())
        }
        fn get_page_unless(
            &self,
            _: PageId,
            at_least: Lsn,
            have: Lsn,
            _: &dyn Fn() -> Result<()>,
            buf: &mut PageBuf,
        ) -> Result<Had> {
            self.1.lock().push((at_least, have));
            match &self.0 {
                Some(page) => buf.copy_from(page),
                None => {
                    // Something may have come before that.
                    buf.as_bytes_mut().fill(7);
                    return Ok(Had::NotModified);
                }
            }
            Ok(Had::Page)
        }
    }

    /// When a copy counts, when it has to be asked about, and when it does not count.
    #[test]
    fn copies_count_when_that_is_proven() {
        let (id, end) = (PageId(5), Lsn(1000));
        // LSN and `as_of` of the copy; the last record that analysis has met; what has left memory; how the page server answers: what comes,
        // and what the cache is told. The last checkpoint is at LSN 100.
        let cases: [(u64, Option<u64>, u64, u64, Option<u64>, u64, &[&str]); 11] = [
            // Of this life.
            (50, None, 0, 0, None, 50, &[]),
            // Whatever else is in its bucket.
            (50, None, 0, 700, None, 50, &[]),
            // As of the last checkpoint, and not met since.
            (50, Some(100), 0, 0, None, 50, &["confirmed"]),
            // As of an earlier one: it is asked about.
            (50, Some(99), 0, 0, None, 50, &["confirmed"]),
            (50, Some(99), 0, 0, Some(80), 80, &["refuted"]),
            (50, Some(99), 0, 0, Some(50), 50, &["confirmed"]),
            // Something newer has left memory, perhaps this page.
            (50, Some(100), 0, 200, Some(200), 200, &["refuted"]),
            (50, Some(100), 0, 200, None, 50, &["confirmed"]),
            // Analysis has met it.
            (300, Some(1), 300, 0, None, 300, &["confirmed"]),
            (50, Some(100), 300, 0, Some(300), 300, &["refuted"]),
            // It is of a log that ended elsewhere.
            (1000, Some(1000), 0, 0, Some(50), 50, &["refuted"]),
        ];
        for (n, (lsn, as_of, analysed, evicted, answer, had, told)) in cases.into_iter().enumerate() {
            let server = Arc::new(Asked(answer.map(|lsn| page(id, Lsn(lsn))), Mutex::default()));
            let cache = Arc::new(OneCopy::default());
            cache.0.lock().0 = Some((page(id, Lsn(lsn)), as_of.map(Lsn)));
            let remote = Remote::new(Arc::clone(&server) as Arc<dyn RemotePages>, |work| work(), Lsn(100));
            remote.set_cache(Arc::clone(&cache) as Arc<dyn PageCache>);
            if analysed > 0 {
                remote.analysed(id, Lsn(analysed));
            }
            if evicted > 0 {
                remote.evicted(id, Lsn(evicted));
            }
            let at_least = remote.at_least(id);
            let mut buf = PageBuf::zeroed();
            remote.load(id, &mut buf, end, &|| Ok(())).unwrap_or_else(|error| panic!("case {n}: {error}"));
            assert_eq!(buf.lsn(), Lsn(had), "case {n}");
            buf.verify(id).unwrap_or_else(|fault| panic!("case {n}: {fault}"));
            assert_eq!(cache.0.lock().1, told, "case {n}");
            let is_asked = as_of.is_some_and(|as_of| analysed != lsn && (as_of < 100 || evicted > lsn)) || had != lsn;
            let refused = analysed > lsn || lsn >= end.0;
            let have = if refused { Lsn::NONE } else { Lsn(lsn) };
            let asked: &[_] = if is_asked { &[(at_least, have)] } else { &[] };
            assert_eq!(&*server.1.lock(), asked, "case {n}");
        }
    }
}
