//! Pages of a file that is being restored: segments of 128 pages are made anew when a page of theirs is first asked
//! for, or by a background pass (*Instant restore*, section 5).
//!
//! ```text
//! unrestored --compare-and-swap--> restoring --written--> restored --synced, mark written--> marked
//!      ^------------- error -----------'
//! ```
//!
//! # Invariants
//! 1. A page of a segment that is not restored is neither read from its file nor written to it.
//! 2. One thread restores a segment; who asks for a page of it meanwhile waits for that one. An error goes to them
//!    all, and the next who asks tries again.
//! 3. A segment is made as of one LSN, the same for all; what its pages lack is in
//!    [`PendingRedo`](super::PendingRedo), or they are in memory and dirty from there on.
//! 4. Marks: [`Restoring::take_unmarked`] gives those that are in the file; who calls it syncs the file *after* that, makes
//!    the marks durable, and only then says so. The first time also only after a checkpoint that carries the
//!    pending pages.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use resurgam_base::{Error, ErrorKind, PageId, Result, limits::PAGE_SIZE};
use resurgam_page::PageBuf;

use super::Sources;

/// Pages of a segment.
pub const SEGMENT_PAGES: u64 = 128;

const UNRESTORED: u8 = 0;
const BEING_RESTORED: u8 = 1;
const RESTORED: u8 = 2;
const MARKED: u8 = 3;

/// Longest wait for a restore to begin, or for another thread's restore of a segment.
const WAIT_MAX: Duration = Duration::from_secs(120);

/// Makes segments.
pub trait SegmentMaker: Send + Sync {
    /// Fills `pages`, which are zero, with the pages from `first` on, all of one file, sealed. One that does not exist is
    /// left zero, one that cannot be made is left as bytes that pass for no page. Returns how many cannot be made.
    ///
    /// # Errors
    /// `Corrupt` naming object and page; `Io` when it may be tried again.
    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<u64>;
}

/// The segments of one file.
struct Part {
    file: u64,
    states: Box<[AtomicU8]>,
}

/// A segment: number of its file, and its number in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Segment {
    pub file: u64,
    pub number: u64,
}

impl Segment {
    /// That of a page.
    pub fn of(page: PageId) -> Self {
        Self { file: page.file(), number: page.in_file() / SEGMENT_PAGES }
    }
    /// Its first page that is restored. (The first page of a file is its boot page or its header, which is there.)
    pub fn first_page(self) -> PageId {
        PageId::of_file(self.file, (self.number * SEGMENT_PAGES).max(1))
    }
    /// Pages from there to its end.
    fn pages(self) -> usize {
        (SEGMENT_PAGES - u64::from(self.number == 0)) as usize
    }
}

/// How far a restore is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RestoreProgress {
    pub segments: u64,
    /// In the file, marked or not.
    pub restored: u64,
    /// So many of them since the open because a page was asked for.
    pub on_demand: u64,
    pub in_background: u64,
    /// Bytes written for them since the open.
    pub bytes: u64,
    /// Pages of theirs that could not be made.
    pub damaged: u64,
}

/// A restore under way. See the module.
pub struct Restoring {
    parts: Vec<Part>,
    maker: Arc<dyn SegmentMaker>,
    /// The pages that lack log are known: segments may be made.
    ready: AtomicBool,
    /// Another restore has taken its place: nobody waits for it any more.
    superseded: AtomicBool,
    /// Threads wait under it for a segment, or for `ready`; and the last error.
    wait: Mutex<Option<(Segment, Error)>>,
    changed: Condvar,
    /// The device of the replacement is dead as well.
    write_failed: Mutex<Option<(u64, Error)>>,
    restored: AtomicU64,
    on_demand: AtomicU64,
    in_background: AtomicU64,
    bytes: AtomicU64,
    damaged: AtomicU64,
}

impl Restoring {
    /// Nothing is restored yet of these files (number and pages of each). Nobody gets a page before [`Restoring::begin`].
    pub fn new(files: &[(u64, u64)], maker: Arc<dyn SegmentMaker>) -> Self {
        let part = |(file, pages): &(u64, u64)| {
            let mut states = Vec::new();
            states.resize_with(pages.div_ceil(SEGMENT_PAGES) as usize, || AtomicU8::new(UNRESTORED));
            Part { file: *file, states: states.into_boxed_slice() }
        };
        Self {
            parts: files.iter().map(part).collect(),
            maker,
            ready: AtomicBool::new(false),
            superseded: AtomicBool::new(false),
            wait: Mutex::default(),
            changed: Condvar::new(),
            write_failed: Mutex::default(),
            restored: AtomicU64::new(0),
            on_demand: AtomicU64::new(0),
            in_background: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            damaged: AtomicU64::new(0),
        }
    }

    /// A durable mark says that it is in the file. Before the restore begins.
    pub fn is_marked(&self, segment: Segment) {
        if let Some(state) = self.state(segment)
            && state.swap(MARKED, Ordering::SeqCst) == UNRESTORED
        {
            self.restored.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The pages that lack log have been noted: segments may be made from now on.
    pub fn begin(&self) {
        let _lock = self.wait.lock();
        self.ready.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    /// Another restore has taken its place: who waits for this one to begin looks at that one instead.
    pub(crate) fn supersede(&self) {
        let _lock = self.wait.lock();
        self.superseded.store(true, Ordering::SeqCst);
        self.changed.notify_all();
    }

    fn state(&self, segment: Segment) -> Option<&AtomicU8> {
        let part = self.parts.iter().find(|part| part.file == segment.file)?;
        part.states.get(usize::try_from(segment.number).ok()?)
    }

    /// Whether the page's place in its file may be written: it is no page of the restore, or its segment is there.
    pub fn is_there(&self, page: PageId) -> bool {
        self.state(Segment::of(page)).is_none_or(|state| state.load(Ordering::SeqCst) >= RESTORED)
    }

    /// How far it is.
    pub fn progress(&self) -> RestoreProgress {
        RestoreProgress {
            segments: self.parts.iter().map(|part| part.states.len() as u64).sum(),
            restored: self.restored.load(Ordering::Relaxed),
            on_demand: self.on_demand.load(Ordering::Relaxed),
            in_background: self.in_background.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            damaged: self.damaged.load(Ordering::Relaxed),
        }
    }

    /// The last error that was not followed by a success.
    pub fn error(&self) -> Option<Error> {
        self.wait.lock().as_ref().map(|(_, error)| error.clone())
    }

    /// The file to which a segment could not be written, and why, since this was asked last.
    pub fn take_failed_write(&self) -> Option<(u64, Error)> {
        self.write_failed.lock().take()
    }

    /// Whether there is one.
    pub fn has_failed_write(&self) -> bool {
        self.write_failed.lock().is_some()
    }

    /// The number of the files that it is about.
    pub fn files(&self) -> impl Iterator<Item = u64> + '_ {
        self.parts.iter().map(|part| part.file)
    }

    /// Segments that are not restored and that nobody restores: up to `limit` neighbours, the first ones at or behind
    /// `from`, or before it when there are none behind.
    pub fn next_unrestored(&self, from: Option<Segment>, limit: usize) -> Vec<Segment> {
        let all = || {
            self.parts.iter().flat_map(|part| {
                let of = |number: usize| Segment { file: part.file, number: number as u64 };
                (0..part.states.len()).filter(|n| part.states[*n].load(Ordering::Relaxed) == UNRESTORED).map(of)
            })
        };
        let first = from.and_then(|from| all().find(|segment| *segment >= from)).or_else(|| all().next());
        let Some(first) = first else { return Vec::new() };
        let run = all().skip_while(|segment| *segment != first).enumerate();
        let together = |(i, segment): &(usize, Segment)| {
            segment.file == first.file && segment.number == first.number + *i as u64 && *i < limit
        };
        run.take_while(together).map(|(_, segment)| segment).collect()
    }

    /// Segments that are in the file and have no durable mark; see invariant 4.
    pub fn take_unmarked(&self) -> Vec<Segment> {
        self.with_states(|state| state == RESTORED)
    }

    /// Those with durable marks.
    pub fn marked(&self) -> Vec<Segment> {
        self.with_states(|state| state == MARKED)
    }

    fn with_states(&self, wanted: impl Fn(u8) -> bool + Copy) -> Vec<Segment> {
        let of = |part: &Part| {
            let file = part.file;
            let numbers = 0..part.states.len();
            let numbers: Vec<_> = numbers.filter(|n| wanted(part.states[*n].load(Ordering::SeqCst))).collect();
            numbers.into_iter().map(move |n| Segment { file, number: n as u64 })
        };
        self.parts.iter().flat_map(of).collect()
    }

    /// Their marks are durable.
    pub fn set_marked(&self, segments: &[Segment]) {
        for segment in segments {
            if let Some(state) = self.state(*segment) {
                state.store(MARKED, Ordering::SeqCst);
            }
        }
    }

    /// Whether every segment has a durable mark.
    pub fn is_finished(&self) -> bool {
        self.parts.iter().all(|part| part.states.iter().all(|state| state.load(Ordering::SeqCst) == MARKED))
    }

    /// Waits until segments may be made, or until this restore is superseded.
    fn wait_for_begin(&self) -> Result<()> {
        if self.ready.load(Ordering::SeqCst) {
            return Ok(());
        }
        let until = Instant::now() + WAIT_MAX;
        let mut wait = self.wait.lock();
        let is_over = || self.ready.load(Ordering::SeqCst) || self.superseded.load(Ordering::SeqCst);
        while !is_over() {
            if self.changed.wait_until(&mut wait, until).timed_out() && !is_over() {
                return Err(Error::new(ErrorKind::Io, "the restore of the page's file has not begun yet"));
            }
        }
        Ok(())
    }

    /// Sees to it that the segment is in its file: makes it, or waits for who does. Nothing is done by a restore that is
    /// superseded: the caller looks at the one of now.
    ///
    /// # Errors
    /// Those of making it and of writing it, naming the segment's first page.
    pub(crate) fn restore(&self, segment: Segment, sources: &Sources, demand: bool) -> Result<()> {
        let Some(state) = self.state(segment) else { return Ok(()) };
        if state.load(Ordering::SeqCst) >= RESTORED {
            return Ok(());
        }
        self.wait_for_begin()?;
        if self.superseded.load(Ordering::SeqCst) {
            return Ok(());
        }
        let until = Instant::now() + WAIT_MAX;
        loop {
            match state.compare_exchange(UNRESTORED, BEING_RESTORED, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => return self.make(segment, state, sources, demand),
                Err(BEING_RESTORED) => {}
                Err(_) => return Ok(()),
            }
            let mut wait = self.wait.lock();
            while state.load(Ordering::SeqCst) == BEING_RESTORED {
                if self.changed.wait_until(&mut wait, until).timed_out() {
                    return Err(Error::new(
                        ErrorKind::Io,
                        format!("the restore of the segment of page {} takes too long", segment.first_page()),
                    ));
                }
            }
            if state.load(Ordering::SeqCst) == UNRESTORED
                && let Some((of, error)) = &*wait
                && *of == segment
            {
                return Err(error.clone());
            }
        }
    }

    /// The caller has it as the one that is being restored.
    fn make(&self, segment: Segment, state: &AtomicU8, sources: &Sources, demand: bool) -> Result<()> {
        let mut outcome = Outcome { restoring: self, segment, state, to: UNRESTORED, error: None };
        let made = self.make_and_write(segment, sources);
        match made {
            Ok(bytes) => {
                outcome.to = RESTORED;
                self.restored.fetch_add(1, Ordering::Relaxed);
                self.bytes.fetch_add(bytes, Ordering::Relaxed);
                if demand { &self.on_demand } else { &self.in_background }.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            Err(error) => {
                let what =
                    format!("the segment of page {} could not be restored: {}", segment.first_page(), error.message());
                let mut said = Error::new(error.kind(), what);
                if let Some(hint) = error.hint() {
                    said = said.with_hint(hint);
                }
                outcome.error = Some(said.clone());
                Err(said)
            }
        }
    }

    fn make_and_write(&self, segment: Segment, sources: &Sources) -> Result<u64> {
        let first = segment.first_page();
        let mut pages = vec![PageBuf::zeroed(); segment.pages()];
        let damaged = self.maker.make(first, &mut pages)?;
        let exists = |page: &PageBuf| page.as_bytes().iter().any(|byte| *byte != 0);
        let Some(last) = pages.iter().rposition(exists) else { return Ok(0) };
        let _same = sources.restores.read();
        if !sources.restoring().is_some_and(|now| std::ptr::eq(&*now, self)) {
            // Another restore has taken the place of this one: the segment is that one's.
            return Ok(0);
        }
        let mut bytes = Vec::with_capacity((last + 1) * PAGE_SIZE);
        for (i, page) in pages[..=last].iter().enumerate() {
            let id = PageId(first.0 + i as u64);
            // One that is none was damaged in the backup: so it is here, and who reads it is told.
            if page.verify(id).is_ok() {
                sources.note_restored(id, page.lsn());
            }
            bytes.extend_from_slice(page.as_bytes());
        }
        let (file, offset) = sources.files.locate(first)?;
        file.write_at(&bytes, offset).inspect_err(|error| {
            if error.kind() == ErrorKind::Io {
                *self.write_failed.lock() = Some((segment.file, error.clone()));
            }
        })?;
        self.damaged.fetch_add(damaged, Ordering::Relaxed);
        // Its mark waits for a sync, which has less to do then.
        file.start_writing(offset, bytes.len() as u64);
        Ok(bytes.len() as u64)
    }
}

/// Says what became of a segment, also when its maker panics.
struct Outcome<'r> {
    restoring: &'r Restoring,
    segment: Segment,
    state: &'r AtomicU8,
    to: u8,
    error: Option<Error>,
}

impl Drop for Outcome<'_> {
    fn drop(&mut self) {
        let mut wait = self.restoring.wait.lock();
        *wait = self.error.take().map(|error| (self.segment, error));
        self.state.store(self.to, Ordering::SeqCst);
        self.restoring.changed.notify_all();
    }
}
