//! Page allocation: extents of 8 pages owned by one object, described by space map pages
//! (one per 5120 pages) with an owner per extent and a PFS byte per page.
//!
//! All changes of space maps are part of the mini-transaction that needs them, so they
//! are system transactions (Constant Time Recovery, section 3.4.2): never undone with a
//! user transaction. A page is marked potentially unused when it is allocated.
//!
//! What is free is known in memory. After an open it is learned interval by interval in
//! the background ([`Space::discover`]); until then space is taken from the end of the
//! file, so that opening never reads the whole map.
//!
//! While a map cannot be read nothing is given out of its interval, nor taken back into it; if it was the last one the
//! file goes on with the next.
//!
//! The data file and the version-store file have maps, high-water marks and free pages of
//! their own ([`Area`]); the upper bits of a page's id say which it belongs to.
//!
//! What is free at the end of a file goes back to the system (`give_back.rs`); the file then ends earlier, and the maps behind
//! its end are no more: they are made anew when it grows again.
//!
//! # Invariants
//! 1. Space maps are changed only while [`AllocState`] is locked, and that lock is taken
//!    after all tree latches and before any map page's latch.
//! 2. In-memory state changes at once and is taken back if the mini-transaction is dropped.
//! 3. Who has [`AllocState`] locked may have to wait for pages, and so for the replacement of a dead device. Hence nothing that a
//!    replacement waits for takes that lock: it has [`Space::ends_now`] and [`Space::file_was_replaced`].

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard};
use resurgam_base::{
    Error, ErrorKind, ObjectId, PageId, Result,
    limits::{EXTENT_PAGES, PAGE_SIZE},
};
use resurgam_page::{PageType, op, space as map};

use crate::mtr::{Mtr, PageRef};
use crate::pool::{Access, BufferPool};
use crate::stats::bump;

/// The data file grows by this much at a time.
const GROW_PAGES: u64 = 1024;

/// Extents that are taken off the end of a file while nobody can allocate.
const LOWERED_AT_ONCE: usize = 4096;
/// A file that takes so much less than its length, or more, has holes.
const HOLE_BYTES_MIN: u64 = EXTENT_PAGES * PAGE_SIZE as u64;

/// In-memory knowledge of the space of one file. Page numbers are whole ids.
#[derive(Default)]
struct Area {
    /// The file, as in its pages' ids.
    file: u64,
    /// First page of the first extent never given out.
    high_water: u64,
    /// The highest one that was lowered since the checkpoint under way began; 0: none was.
    lowered_from: u64,
    /// The same as `high_water`, for who may not wait for the lock.
    shown: Arc<AtomicU64>,
    /// Space maps below this page are formatted.
    formatted_to: u64,
    /// Intervals whose map was read (or made) since open.
    discovered: HashSet<u64>,
    /// Maps that were read and had nothing to be visited, and of which no bit was set since; see
    /// [`Space::look_at_marks`].
    unmarked: HashSet<u64>,
    /// By their first page. Ordered, as there may be millions: the lowest is taken first, which keeps the
    /// file's end free.
    free_extents: BTreeSet<u64>,
    /// Free pages of extents owned by each object.
    objects: HashMap<ObjectId, BTreeSet<u64>>,
    /// Maps that could not be read when space of their interval was to be found or given out: it is not, until they can
    /// be.
    lost: BTreeSet<u64>,
    allocated_to: u64,
    /// Free extents that may have no space on the disk: it is asked for when one is given out.
    has_holes: bool,
}

/// In-memory knowledge of free space.
#[derive(Default)]
pub struct AllocState {
    data: Area,
    /// Where version pages are given out, if not in the data file.
    version: Option<Area>,
    /// While a sweep runs: pages that received versioned rows by allocation.
    watched: Option<Vec<(PageId, ObjectId)>>,
}

/// An extent that is given out.
#[derive(Clone, Copy)]
struct NewExtent {
    first: u64,
    /// The file grew for it.
    grown: bool,
    /// It begins with a map that has to be made.
    makes_map: bool,
}

/// What a mini-transaction did to [`AllocState`], to finish or take back.
pub enum AllocEvent {
    Page {
        object: ObjectId,
        page: u64,
    },
    Extent {
        object: ObjectId,
        first: u64,
        /// It is behind what was the end of the file; else it was a free one.
        grown: bool,
    },
    Formatted {
        map: u64,
    },
    Freed {
        object: ObjectId,
        page: u64,
        extent_empty: bool,
    },
    /// The page was one of a hole, or of one that is being made.
    Hole {
        page: u64,
    },
    /// A page was allocated with the has-versions mark: rows move there.
    Versioned {
        page: PageId,
        object: ObjectId,
    },
}

impl Area {
    fn new(file: u64, shown: &Arc<AtomicU64>) -> Self {
        let mut area = Self { file, shown: Arc::clone(shown), ..Self::default() };
        area.restore(0);
        area
    }
    /// Sets the end of used space.
    fn restore(&mut self, high_water: u64) {
        let number = PageId(high_water).in_file().saturating_sub(1);
        self.set_high_water(PageId::of_file(self.file, 1 + number.div_ceil(EXTENT_PAGES) * EXTENT_PAGES).0);
        self.formatted_to = self.high_water;
        self.discovered.clear();
        self.unmarked.clear();
        self.free_extents.clear();
        self.objects.clear();
        self.lost.clear();
    }
    /// Takes free extents at the end off the file, some of them, with maps that have nothing else to say. The first extent stays. True: there
    /// were some.
    fn lower(&mut self) -> bool {
        let before = self.high_water;
        self.lowered_from = self.lowered_from.max(before);
        for _ in 0..LOWERED_AT_ONCE {
            let last = self.high_water.saturating_sub(EXTENT_PAGES);
            if PageId(self.high_water).in_file() <= 1 + EXTENT_PAGES || !self.free_extents.remove(&last) {
                break;
            }
            if map::is_map_page(PageId(last)) {
                self.discovered.remove(&last);
                self.unmarked.remove(&last);
                self.lost.remove(&last);
                self.formatted_to = self.formatted_to.min(last);
            }
            self.set_high_water(last);
        }
        self.high_water < before
    }
    /// Forgets what is free in the interval of `map_id`, which cannot be read. If the file ends there it goes on with the
    /// next interval.
    fn lose(&mut self, map_id: u64) {
        let (from, to) = (map_id, map_id + map::INTERVAL_PAGES);
        self.free_extents.retain(|first| !(from..to).contains(first));
        for pages in self.objects.values_mut() {
            pages.retain(|page| !(from..to).contains(page));
        }
        self.discovered.remove(&map_id);
        self.lost.insert(map_id);
        if (from..to).contains(&self.high_water) {
            self.set_high_water(to);
        }
    }
    fn set_high_water(&mut self, page: u64) {
        self.high_water = page;
        self.shown.store(page, Ordering::SeqCst);
    }
    /// Forgets the free pages of an extent that is not the object's any more.
    fn forget_pages(&mut self, object: ObjectId, first: u64) {
        if let Some(pages) = self.objects.get_mut(&object) {
            for page in first..first + EXTENT_PAGES {
                pages.remove(&page);
            }
        }
    }
    fn map_pages(&self) -> impl Iterator<Item = PageId> + use<> {
        let (file, end) = (self.file, self.high_water);
        (0..).map(move |k: u64| PageId::of_file(file, k * map::INTERVAL_PAGES + 1)).take_while(move |p| p.0 < end)
    }
}

impl AllocState {
    /// The area of `page`; of a page in no file in use (never met here), the data file's.
    fn area(&mut self, page: u64) -> &mut Area {
        match self.version.as_mut() {
            Some(version) if version.file == PageId(page).file() => version,
            _ => &mut self.data,
        }
    }
    fn version_high_water(&self) -> PageId {
        PageId(self.version.as_ref().map_or(0, |version| version.high_water))
    }
    /// The files with pages: number, and first page never given out.
    pub(crate) fn ends(&self) -> Vec<(u64, PageId)> {
        self.areas().map(|area| (area.file, PageId(area.high_water))).collect()
    }
    /// The file with that number was cut at its end, or is another one, of which no more than that is there.
    pub(crate) fn was_cut(&mut self, file: u64, pages: u64) {
        if file == 0 {
            self.data.allocated_to = pages;
        }
    }
    /// Free extents of the data file that are not `is_hole`, as ranges: first page and number of pages, from `from` on, of about so many pages.
    pub(crate) fn free_ranges(&self, from: u64, limit: u64, is_hole: impl Fn(u64) -> bool) -> Vec<(u64, u64)> {
        let (mut ranges, mut left): (Vec<(u64, u64)>, u64) = (Vec::new(), limit);
        for first in self.data.free_extents.range(from..) {
            // A map's page is in use, whatever else of its extent is free.
            if map::is_map_page(PageId(*first)) || is_hole(*first) {
                continue;
            }
            if left == 0 {
                break;
            }
            left = left.saturating_sub(EXTENT_PAGES);
            match ranges.last_mut() {
                Some((start, pages)) if *start + *pages == *first => *pages += EXTENT_PAGES,
                _ => ranges.push((*first, EXTENT_PAGES)),
            }
        }
        ranges
    }
    /// Free extents of the data file may have no space on the disk from now on.
    pub(crate) fn has_holes(&mut self) {
        self.data.has_holes = true;
    }
    fn areas(&self) -> impl Iterator<Item = &Area> {
        std::iter::once(&self.data).chain(&self.version)
    }

    pub(crate) fn committed(&mut self, events: Vec<AllocEvent>) {
        for event in events {
            match event {
                AllocEvent::Formatted { map } => {
                    let area = self.area(map);
                    area.formatted_to = area.formatted_to.max(map + 1);
                }
                AllocEvent::Freed { object, page, extent_empty } => {
                    let first = extent_first(page);
                    // Of an interval not discovered yet only what was handed out since open
                    // is known; discovery finds the rest.
                    let area = self.area(page);
                    let discovered = area.discovered.contains(&map::map_page_of(PageId(page)).0);
                    if extent_empty {
                        area.forget_pages(object, first);
                        if discovered {
                            area.free_extents.insert(first);
                        }
                    } else if discovered {
                        area.objects.entry(object).or_default().insert(page);
                    }
                }
                AllocEvent::Versioned { page, object } => {
                    if let Some(watched) = self.watched.as_mut() {
                        watched.push((page, object));
                    }
                }
                AllocEvent::Page { .. } | AllocEvent::Extent { .. } | AllocEvent::Hole { .. } => {}
            }
        }
    }
    pub(crate) fn dropped(&mut self, events: Vec<AllocEvent>) {
        for event in events.into_iter().rev() {
            match event {
                AllocEvent::Page { object, page } => {
                    self.area(page).objects.entry(object).or_default().insert(page);
                }
                AllocEvent::Extent { object, first, grown } => {
                    let area = self.area(first);
                    area.forget_pages(object, first);
                    if grown && first + EXTENT_PAGES == area.high_water {
                        area.set_high_water(first); // the end of the file, as if never asked for
                    } else {
                        // Also at the end, where `lower` takes it off with the map it may begin.
                        area.free_extents.insert(first);
                    }
                }
                AllocEvent::Formatted { map } => {
                    self.area(map).discovered.remove(&map);
                }
                // A hole is the pool's, which has it back already.
                AllocEvent::Freed { .. } | AllocEvent::Versioned { .. } | AllocEvent::Hole { .. } => {}
            }
        }
    }
}

/// Takes the lowest of `pages` if it is below `limit`.
fn take_below(pages: &mut BTreeSet<u64>, limit: u64) -> Option<u64> {
    let lowest = *pages.first().filter(|page| **page < limit)?;
    pages.remove(&lowest);
    Some(lowest)
}

fn extent_first(page: u64) -> u64 {
    // The file's bits are a multiple of an extent: they stay as they are.
    1 + (page - 1) / EXTENT_PAGES * EXTENT_PAGES
}

/// Free space seen by [`Space::free_pages`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FreePages {
    pub extents: u64,
    pub pages_in_owned_extents: u64,
    /// Pages of the file ever given out.
    pub high_water: u64,
}

/// The allocator.
pub struct Space {
    state: Mutex<AllocState>,
    data_shown: Arc<AtomicU64>,
    version_shown: Arc<AtomicU64>,
    /// The data file is another one since how much of it is there was asked last.
    data_replaced: AtomicBool,
}

impl Default for Space {
    fn default() -> Self {
        let (data_shown, version_shown) = (Arc::default(), Arc::default());
        let data = Area { shown: Arc::clone(&data_shown), ..Area::default() };
        let state = Mutex::new(AllocState { data, ..AllocState::default() });
        Self { state, data_shown, version_shown, data_replaced: AtomicBool::new(false) }
    }
}

impl Space {
    /// Sets the end of used space of the data file, as the checkpoint and the log tell it.
    /// A new database starts at page 1.
    pub fn restore(&self, high_water: u64) {
        self.state.lock().data.restore(high_water);
    }
    /// Version pages are given out in version-store file `number`, which is empty.
    pub(crate) fn use_version_file(&self, number: u64) {
        self.state.lock().version = Some(Area::new(number, &self.version_shown));
        // What of it is used is not known yet: see `is_beyond`.
        self.version_shown.store(0, Ordering::SeqCst);
    }
    /// As [`Space::restore`], for the version-store file. A mark of another file (one given up
    /// earlier), or none, leaves it empty.
    pub fn restore_version_file(&self, high_water: PageId) {
        if let Some(version) = self.state.lock().version.as_mut() {
            if version.file == high_water.file() {
                version.restore(high_water.0);
            }
            version.set_high_water(version.high_water);
        }
    }
    /// Another file has taken the place of the data file: how much of it is there is not known. Waits for nobody.
    pub fn file_was_replaced(&self, file: u64) {
        if file == 0 {
            self.data_replaced.store(true, Ordering::SeqCst);
        }
    }
    /// Whether the page is behind the end of used space of its file: nobody has it, and whoever gets it formats it. Waits for nobody.
    pub fn is_beyond(&self, page: PageId) -> bool {
        let shown = match page.file() {
            0 => self.data_shown.load(Ordering::SeqCst),
            _ => self.version_shown.load(Ordering::SeqCst),
        };
        // Nothing is known of it before that is restored.
        shown > 0 && PageId(shown).file() == page.file() && page.0 >= shown
    }
    /// Takes what is free at the end of the files off their used space. True: there was something. The files stay as they are; see
    /// [`BufferPool::cut_files`].
    pub fn lower_ends(&self) -> bool {
        let mut any = false;
        loop {
            let mut state = self.state.lock();
            let AllocState { data, version, .. } = &mut *state;
            let lowered = data.lower();
            if !version.as_mut().is_some_and(Area::lower) && !lowered {
                return any;
            }
            any = true;
        }
    }
    /// Whether all that is free is known in memory.
    pub fn is_all_discovered(&self) -> bool {
        self.state.lock().areas().all(|area| area.map_pages().all(|map| area.discovered.contains(&map.0)))
    }
    /// The allocator's lock, for who changes the files.
    pub(crate) fn locked(&self) -> MutexGuard<'_, AllocState> {
        self.state.lock()
    }
    /// First page of the data file never given out.
    pub fn high_water(&self) -> u64 {
        self.state.lock().data.high_water
    }
    /// First page of the version-store file never given out; none without such a file.
    pub fn version_high_water(&self) -> PageId {
        self.state.lock().version_high_water()
    }
    /// From now on it is noted from where files are lowered, for a checkpoint that is about to begin; there is one at a time. An allocation
    /// under way is waited for as long as this. `None`: it takes longer.
    pub(crate) fn note_ends_within(&self, patience: Duration) -> Option<()> {
        let mut state = self.state.try_lock_for(patience)?;
        let AllocState { data, version, .. } = &mut *state;
        std::iter::once(data).chain(version).for_each(|area| area.lowered_from = 0);
        Some(())
    }
    /// The highest ends since [`Space::note_ends_within`] of what mini-transactions have not taken back: without what an allocation under
    /// way does, which is waited for as long as this. `None`: it takes longer.
    pub(crate) fn ends_within(&self, patience: Duration) -> Option<(u64, PageId)> {
        let state = self.state.try_lock_for(patience)?;
        let highest = |area: &Area| area.high_water.max(area.lowered_from);
        Some((highest(&state.data), PageId(state.version.as_ref().map_or(0, highest))))
    }
    /// Both of them without waiting for anybody: what an allocation under way gives out may be counted, or not yet.
    pub fn ends_now(&self) -> (u64, PageId) {
        (self.data_shown.load(Ordering::SeqCst), PageId(self.version_shown.load(Ordering::SeqCst)))
    }
    /// Free space of the data file.
    pub fn free_pages(&self) -> FreePages {
        let state = self.state.lock();
        FreePages {
            extents: state.data.free_extents.len() as u64,
            pages_in_owned_extents: state.data.objects.values().map(|p| p.len() as u64).sum(),
            high_water: state.data.high_water,
        }
    }

    fn lock<'p>(&self, mtr: &mut Mtr<'p>) {
        if mtr.alloc.is_none() {
            mtr.alloc = Some(mtr.pool().space().state.lock());
        }
    }

    /// The map page of `page`, as part of `mtr`.
    fn map_page(&self, mtr: &mut Mtr<'_>, page: PageId) -> Result<PageRef> {
        let id = map::map_page_of(page);
        if let Some(found) = mtr.find(id) {
            return Ok(found);
        }
        let guard = mtr.pool().write(id, Access::Point)?;
        if !guard.is(PageType::SpaceMap) {
            return Err(Error::corrupt(format!("page {id} should be a space map and is not")));
        }
        Ok(mtr.add(guard))
    }

    /// Allocates a page of the data file to `object`. It joins `mtr` as a fresh page which the caller
    /// must format; `flags` are PFS bits besides allocated and potentially unused.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`] when the file cannot grow.
    pub fn allocate(&self, mtr: &mut Mtr<'_>, object: ObjectId, flags: u8) -> Result<(PageId, PageRef)> {
        self.allocate_in(mtr, false, object, flags, None)?.ok_or_else(|| Error::internal("no page was given out"))
    }

    /// As [`Space::allocate`], in the file and below the extent of `limit`, for a page that moves there. `None`: there is nothing free.
    ///
    /// # Errors
    /// Those of reading space maps.
    pub fn allocate_below(
        &self,
        mtr: &mut Mtr<'_>,
        object: ObjectId,
        flags: u8,
        limit: PageId,
    ) -> Result<Option<(PageId, PageRef)>> {
        self.allocate_in(mtr, limit.file() > 0, object, flags, Some(extent_first(limit.0)))
    }

    /// As [`Space::allocate`], in the version-store file where there is one.
    pub fn allocate_version(&self, mtr: &mut Mtr<'_>, object: ObjectId) -> Result<(PageId, PageRef)> {
        self.allocate_in(mtr, true, object, 0, None)?.ok_or_else(|| Error::internal("no page was given out"))
    }

    /// `below`: only from what is free below that page; `None` then says that nothing is.
    fn allocate_in(
        &self,
        mtr: &mut Mtr<'_>,
        versions: bool,
        object: ObjectId,
        flags: u8,
        below: Option<u64>,
    ) -> Result<Option<(PageId, PageRef)>> {
        self.lock(mtr);
        let (page, new_extent, known) = loop {
            let Some((page, new_extent)) = self.choose(mtr, versions, object, below)? else { return Ok(None) };
            mtr.on_commit.push(match new_extent {
                Some(NewExtent { first, grown, .. }) => AllocEvent::Extent { object, first, grown },
                None => AllocEvent::Page { object, page },
            });
            if new_extent.is_some_and(|extent| extent.makes_map) {
                break (page, new_extent, None);
            }
            // A second time before an interval is given up for it.
            let map = self.map_page(mtr, PageId(page)).or_else(|error| match error.kind() {
                ErrorKind::Io => self.map_page(mtr, PageId(page)),
                _ => Err(error),
            });
            match map {
                Ok(at) => break (page, new_extent, Some(at)),
                Err(error) => self.give_up_interval(mtr, map::map_page_of(PageId(page)), error)?,
            }
        };
        if let Some(state) = mtr.alloc.as_mut() {
            // A new page has bits that are set.
            state.area(page).unmarked.remove(&map::map_page_of(PageId(page)).0);
        }
        if flags & map::PFS_HAS_VERSIONS != 0 {
            mtr.on_commit.push(AllocEvent::Versioned { page: PageId(page), object });
        }
        self.grow(mtr, page)?;
        if let Some(NewExtent { first, .. }) = new_extent {
            self.fill_hole(mtr, first)?;
        }
        let at = match known {
            Some(at) => at,
            None => {
                let map_id = map::map_page_of(PageId(page));
                let guard = mtr.pool().write_new(map_id)?;
                let at = mtr.add_fresh(guard);
                let ops = mtr.ops(at);
                op::format(ops, PageType::SpaceMap, 0, ObjectId::NONE, &[], None);
                op::set_bytes(ops, map::pfs_offset(map_id) as u16, &[map::PFS_ALLOCATED]);
                mtr.on_commit.push(AllocEvent::Formatted { map: map_id.0 });
                at
            }
        };
        if let Some(NewExtent { first, .. }) = new_extent {
            let (_, extent) = map::extent_of(PageId(first));
            op::set_bytes(mtr.ops(at), map::owner_offset(extent) as u16, &object.0.to_le_bytes());
            bump(&mtr.pool().counters.extents_allocated, 1);
        }
        let byte = map::PFS_ALLOCATED | map::PFS_POTENTIALLY_UNUSED | flags;
        op::set_bytes(mtr.ops(at), map::pfs_offset(PageId(page)) as u16, &[byte]);
        let guard = mtr.pool().write_new(PageId(page))?;
        // From here on who still has its number waits for the latch, instead of reading what is not there.
        if mtr.pool().holes.remove(PageId(page)) {
            mtr.on_commit.push(AllocEvent::Hole { page });
        }
        mtr.pool().punched.remove(PageId(page));
        bump(&mtr.pool().counters.pages_allocated, 1);
        Ok(Some((PageId(page), mtr.add_fresh(guard))))
    }

    /// Takes a page for `object` out of what is free: the page, and the extent where it is the first one of that.
    fn choose(
        &self,
        mtr: &mut Mtr<'_>,
        versions: bool,
        object: ObjectId,
        below: Option<u64>,
    ) -> Result<Option<(u64, Option<NewExtent>)>> {
        let pool = mtr.pool();
        let state = mtr.alloc.as_mut().ok_or_else(|| Error::internal("allocation lock"))?;
        let AllocState { data, version, .. } = &mut **state;
        let (state, there) = match version {
            Some(version) if versions => {
                let there = pool.sources.files.version.as_ref().map_or(0, crate::VersionFile::reserved_to);
                (version, there)
            }
            _ => {
                if self.data_replaced.swap(false, Ordering::SeqCst) {
                    data.allocated_to = 0;
                }
                if pool.is_remote() {
                    data.allocated_to = u64::MAX;
                } else if data.allocated_to == 0 {
                    let file = pool.sources.files.data();
                    data.allocated_to = match file.len() {
                        Ok(bytes) => {
                            // Where nobody says, there are none.
                            data.has_holes |= file.allocated().is_ok_and(|space| space + HOLE_BYTES_MIN <= bytes);
                            bytes / PAGE_SIZE as u64
                        }
                        // Of the file that takes its place it is asked again; see `grow`.
                        Err(error) if pool.device_failed(0, &error) => 0,
                        Err(error) => return Err(error),
                    };
                }
                let there = data.allocated_to;
                (data, there)
            }
        };
        let there = below.unwrap_or(there);
        // First what needs no longer file: on a full disk that is all there is.
        let mut pooled = state.objects.get_mut(&object).and_then(|pages| take_below(pages, there));
        let mut extent = None;
        if pooled.is_none() {
            extent = take_below(&mut state.free_extents, there);
        }
        if pooled.is_none() && extent.is_none() {
            if below.is_some() {
                return Ok(None);
            }
            pooled = state.objects.get_mut(&object).and_then(BTreeSet::pop_first);
        }
        if let Some(page) = pooled {
            return Ok(Some((page, None)));
        }
        let (first, grown) = match extent.or_else(|| state.free_extents.pop_first()) {
            Some(first) => (first, false),
            None => {
                let first = state.high_water.max(1);
                state.set_high_water(first + EXTENT_PAGES);
                (first, true)
            }
        };
        let map_id = map::map_page_of(PageId(first)).0;
        let makes_map = map_id >= state.formatted_to && first == map_id;
        let from = if first == map_id { first + 1 } else { first };
        let pages = state.objects.entry(object).or_default();
        pages.extend(from + 1..first + EXTENT_PAGES);
        if makes_map {
            state.discovered.insert(map_id);
        }
        Ok(Some((from, Some(NewExtent { first, grown, makes_map }))))
    }

    /// Takes back what was chosen last, whose map cannot be read, and gives nothing out of that interval any more. That is
    /// for a map by itself: of a file that cannot be read at all the error stays one.
    fn give_up_interval(&self, mtr: &mut Mtr<'_>, map_id: PageId, error: Error) -> Result<()> {
        let pool = mtr.pool();
        let chosen = mtr.on_commit.pop();
        let state = mtr.alloc.as_mut().ok_or_else(|| Error::internal("allocation lock"))?;
        state.dropped(chosen.into_iter().collect());
        if !pool.concerns_one_page(map_id, &error) {
            return Err(error);
        }
        state.area(map_id.0).lose(map_id.0);
        Ok(())
    }

    fn grow(&self, mtr: &mut Mtr<'_>, page: u64) -> Result<()> {
        let pool = mtr.pool();
        if let Some(version) = pool.sources.files.version_of(PageId(page)) {
            return match version.grow(PageId(page).in_file()) {
                Err(error) if pool.device_failed(version.number(), &error) => Ok(()),
                other => other,
            };
        }
        let state = &mut mtr.alloc.as_mut().ok_or_else(|| Error::internal("allocation lock"))?.data;
        if pool.is_remote() || page < state.allocated_to {
            return Ok(());
        }
        let target = (page + 1).div_ceil(GROW_PAGES) * GROW_PAGES;
        match pool.sources.files.data().preallocate(target * PAGE_SIZE as u64) {
            Ok(()) => {
                state.allocated_to = target;
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::DiskFull => Err(Error::new(
                ErrorKind::DiskFull,
                format!("could not extend \"{}\": no space left on device", pool.sources.files.data().path().display()),
            )
            .with_hint("Free disk space, or delete rows and let the cleaner reuse their pages.")),
            // The page is in memory until another file takes this one's place. Nobody may wait for that here: who makes
            // it asks for what is locked.
            Err(error) if pool.device_failed(0, &error) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// An extent that is given out gets space on the disk, where it may have none: writing its pages must not fail for that.
    fn fill_hole(&self, mtr: &mut Mtr<'_>, first: u64) -> Result<()> {
        let pool = mtr.pool();
        if pool.is_remote() {
            return Ok(());
        }
        let state = mtr.alloc.as_mut().ok_or_else(|| Error::internal("allocation lock"))?;
        let area = state.area(first);
        if !area.has_holes {
            return Ok(());
        }
        let number = PageId(first).file();
        let (file, offset) = pool.sources.files.locate(PageId(first))?;
        match file.fill_hole(offset, EXTENT_PAGES * PAGE_SIZE as u64) {
            Err(error) if pool.device_failed(number, &error) => Ok(()),
            other => other,
        }
    }

    /// Returns a page. Its content must be made unreachable, and the page formatted as
    /// free, in the same mini-transaction (done here for `page_ref`).
    pub fn free(&self, mtr: &mut Mtr<'_>, page: PageId, object: ObjectId, page_ref: PageRef) -> Result<()> {
        self.lock(mtr);
        mtr.ops(page_ref).clear();
        op::format(mtr.ops(page_ref), PageType::Free, 0, ObjectId::NONE, &[], None);
        let at = self.map_page(mtr, page)?;
        let (map_id, extent) = map::extent_of(page);
        let first = map::first_page_of_extent(map_id, extent);
        // Pages freed earlier in this same mini-transaction are not in the map yet.
        let freed_here: Vec<u64> = mtr
            .on_commit
            .iter()
            .filter_map(|e| match e {
                AllocEvent::Freed { page, .. } => Some(*page),
                _ => None,
            })
            .collect();
        let map_page = mtr.page(at);
        let empty = (first.0..first.0 + EXTENT_PAGES).all(|p| {
            p == page.0
                || freed_here.contains(&p)
                || p == map_id.0
                || map::pfs(map_page, PageId(p)) & map::PFS_ALLOCATED == 0
        });
        op::set_bytes(mtr.ops(at), map::pfs_offset(page) as u16, &[0]);
        if empty {
            op::set_bytes(mtr.ops(at), map::owner_offset(extent) as u16, &[0; 4]);
        }
        mtr.on_commit.push(AllocEvent::Freed { object, page: page.0, extent_empty: empty });
        bump(&mtr.pool().counters.pages_freed, 1);
        Ok(())
    }

    /// Changes PFS bits of an allocated page, if they are not so already.
    pub fn set_flags(&self, mtr: &mut Mtr<'_>, page: PageId, set: u8, clear: u8) -> Result<()> {
        self.lock(mtr);
        let at = self.map_page(mtr, page)?;
        let old = map::pfs(mtr.page(at), page);
        let new = (old | set) & !clear;
        if new != old {
            op::set_bytes(mtr.ops(at), map::pfs_offset(page) as u16, &[new]);
        }
        // Whatever the mini-transaction comes to: it costs a look.
        if new & !old != 0
            && let Some(state) = mtr.alloc.as_mut()
        {
            state.area(page.0).unmarked.remove(&map::map_page_of(page).0);
        }
        Ok(())
    }

    /// Whether a map has to be read by who looks for marked pages. False: the last look found none
    /// ([`Space::saw_marks`]) and no bit of it was set since. True begins a look.
    ///
    /// Whoever sets a bit says so while [`AllocState`] is locked, and keeps it until the map is changed; so
    /// a look that begins after that sees the bit, and one that began before is not the last.
    pub fn look_at_marks(&self, map_id: PageId) -> bool {
        self.state.lock().area(map_id.0).unmarked.insert(map_id.0)
    }

    /// Ends a look that found marked pages, or failed: the next one has to look again.
    pub fn saw_marks(&self, map_id: PageId) {
        self.state.lock().area(map_id.0).unmarked.remove(&map_id.0);
    }

    /// Pages in use, by the object that owns them; reads all maps.
    ///
    /// # Errors
    /// Those of reading the maps.
    pub fn pages_by_owner(&self, pool: &BufferPool) -> Result<HashMap<ObjectId, u64>> {
        let mut pages: HashMap<ObjectId, u64> = HashMap::new();
        for map_id in self.all_map_pages() {
            let page = pool.read(map_id, Access::Scan)?;
            if !page.is(PageType::SpaceMap) {
                if self.is_beyond(map_id) {
                    continue; // the file was cut meanwhile
                }
                return Err(Error::corrupt(format!("page {map_id} should be a space map and is not")));
            }
            *pages.entry(ObjectId::NONE).or_default() += 1;
            for extent in 0..map::EXTENTS {
                let owner = map::owner(&page, extent);
                if owner.is_none() {
                    continue;
                }
                let first = map::first_page_of_extent(map_id, extent).0;
                let used = (first..first + EXTENT_PAGES)
                    .filter(|p| *p != map_id.0 && map::pfs(&page, PageId(*p)) & map::PFS_ALLOCATED != 0)
                    .count();
                *pages.entry(owner).or_default() += used as u64;
            }
        }
        Ok(pages)
    }

    /// Map pages of the data file that exist, in order.
    pub fn map_pages(&self) -> impl Iterator<Item = PageId> + use<> {
        self.state.lock().data.map_pages()
    }
    /// Map pages of the version-store file that exist, in order.
    pub fn version_map_pages(&self) -> Vec<PageId> {
        self.state.lock().version.iter().flat_map(Area::map_pages).collect()
    }
    /// Map pages of all files.
    pub fn all_map_pages(&self) -> Vec<PageId> {
        self.state.lock().areas().flat_map(Area::map_pages).collect()
    }

    /// Learns the free space of one interval; `map_id` from [`Space::all_map_pages`].
    ///
    /// # Errors
    /// Those of reading its map; that is remembered ([`Space::lost_maps`]).
    pub fn discover(&self, pool: &BufferPool, map_id: PageId) -> Result<()> {
        let done = self.try_discover(pool, map_id);
        match &done {
            // The file was cut meanwhile.
            _ if self.is_beyond(map_id) => return Ok(()),
            Ok(()) => {
                self.state.lock().area(map_id.0).lost.remove(&map_id.0);
            }
            Err(_) => self.note_lost(map_id),
        }
        done
    }

    /// A map could not be read.
    pub fn note_lost(&self, map_id: PageId) {
        self.state.lock().area(map_id.0).lost.insert(map_id.0);
    }

    fn try_discover(&self, pool: &BufferPool, map_id: PageId) -> Result<()> {
        // From the disk before allocation is locked out.
        drop(pool.read(map_id, Access::Scan)?);
        let mut state = self.state.lock();
        let state = state.area(map_id.0);
        if state.discovered.contains(&map_id.0) || map_id.0 >= state.high_water {
            return Ok(());
        }
        let page = pool.read(map_id, Access::Scan)?;
        if !page.is(PageType::SpaceMap) {
            return Err(Error::corrupt(format!("page {map_id} should be a space map and is not")));
        }
        let end = state.high_water;
        for extent in 0..map::EXTENTS {
            let first = map::first_page_of_extent(map_id, extent).0;
            if first >= end {
                break;
            }
            let owner = map::owner(&page, extent);
            if owner.is_none() {
                // Extent 0 of an interval holds its map.
                state.free_extents.insert(first);
                continue;
            }
            for p in first..first + EXTENT_PAGES {
                if map::pfs(&page, PageId(p)) & map::PFS_ALLOCATED == 0 {
                    state.objects.entry(owner).or_default().insert(p);
                }
            }
        }
        state.discovered.insert(map_id.0);
        Ok(())
    }

    /// Maps that could not be read when what is free in their interval was to be learned, or given out. Those of them that
    /// can be by now are worth a [`Space::discover`].
    pub fn lost_maps(&self) -> Vec<PageId> {
        self.state.lock().areas().flat_map(|area| area.lost.iter().copied().map(PageId)).collect()
    }

    /// Whether the free space of an interval is known in memory.
    pub fn is_discovered(&self, map_id: PageId) -> bool {
        self.state.lock().areas().any(|area| area.discovered.contains(&map_id.0))
    }

    /// Compares what is known in memory with the maps. Returns the differences, in words.
    /// Must not run beside writers.
    pub fn audit(&self, pool: &BufferPool) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        let state = self.state.lock();
        for area in state.areas() {
            area.audit(pool, &mut problems)?;
        }
        Ok(problems)
    }
}

impl Area {
    fn audit(&self, pool: &BufferPool, problems: &mut Vec<String>) -> Result<()> {
        let state = self;
        let mut pooled: HashMap<u64, ObjectId> = HashMap::new();
        for (object, pages) in &state.objects {
            for page in pages {
                if let Some(other) = pooled.insert(*page, *object) {
                    problems.push(format!("free page {page} is kept for object {object} and for object {other}"));
                }
            }
        }
        for map_id in self.map_pages() {
            let page = pool.read(map_id, Access::Scan)?;
            let known = state.discovered.contains(&map_id.0);
            for extent in 0..map::EXTENTS {
                let first = map::first_page_of_extent(map_id, extent).0;
                if first >= state.high_water {
                    break;
                }
                let owner = map::owner(&page, extent);
                let listed = state.free_extents.contains(&first);
                if listed && owner.is_some() {
                    problems
                        .push(format!("the extent of page {first} is listed as free and belongs to object {owner}"));
                }
                if !listed && owner.is_none() && known {
                    problems.push(format!("the extent of page {first} is free and forgotten"));
                }
                for p in first..first + EXTENT_PAGES {
                    if p == map_id.0 {
                        continue;
                    }
                    let free = map::pfs(&page, PageId(p)) & map::PFS_ALLOCATED == 0;
                    match pooled.get(&p) {
                        Some(object) if *object != owner => {
                            problems.push(format!(
                                "free page {p} is kept for object {object}, its extent is object {owner}'s"
                            ));
                        }
                        Some(_) if !free => problems.push(format!("page {p} is kept as free and is allocated")),
                        None if free && owner.is_some() && known => {
                            problems.push(format!("page {p} of object {owner} is free and forgotten"));
                        }
                        _ => {}
                    }
                }
            }
        }
        Ok(())
    }
}

impl Space {
    /// Pages of one interval whose PFS byte has any bit of `flags`, with their owner.
    pub fn flagged(&self, pool: &BufferPool, map_id: PageId, flags: u8) -> Result<Vec<(PageId, ObjectId, u8)>> {
        self.select(pool, map_id, 0..map::EXTENTS, |_, byte| byte & flags != 0)
    }

    /// Pages of some extents of one interval of which `wanted` is true, by owner and PFS byte.
    pub fn select(
        &self,
        pool: &BufferPool,
        map_id: PageId,
        extents: std::ops::Range<usize>,
        wanted: impl Fn(ObjectId, u8) -> bool,
    ) -> Result<Vec<(PageId, ObjectId, u8)>> {
        if self.is_beyond(map_id) {
            return Ok(Vec::new());
        }
        let page = pool.read(map_id, Access::Scan)?;
        if !page.is(PageType::SpaceMap) {
            if self.is_beyond(map_id) {
                return Ok(Vec::new()); // the file was cut meanwhile
            }
            return Err(Error::corrupt(format!("page {map_id} should be a space map and is not")));
        }
        let mut found = Vec::new();
        for extent in extents.start..extents.end.min(map::EXTENTS) {
            let owner = map::owner(&page, extent);
            if owner.is_none() {
                continue;
            }
            let first = map::first_page_of_extent(map_id, extent).0;
            for p in first..first + EXTENT_PAGES {
                let byte = map::pfs(&page, PageId(p));
                if p != map_id.0 && wanted(owner, byte) {
                    found.push((PageId(p), owner, byte));
                }
            }
        }
        Ok(found)
    }

    /// The object whose page it is, by the space map; none of a free extent.
    ///
    /// # Errors
    /// Those of reading the map.
    pub fn owner(&self, pool: &BufferPool, page: PageId) -> Result<ObjectId> {
        let (map_id, extent) = map::extent_of(page);
        if self.is_beyond(page) {
            return Ok(ObjectId::NONE);
        }
        let map_page = pool.read(map_id, Access::Scan)?;
        if !map_page.is(PageType::SpaceMap) {
            if self.is_beyond(page) {
                return Ok(ObjectId::NONE); // the file was cut meanwhile
            }
            return Err(Error::corrupt(format!("page {map_id} should be a space map and is not")));
        }
        Ok(map::owner(&map_page, extent))
    }

    /// Starts or ends noting pages that receive versioned rows; for the sweep.
    pub fn watch(&self, on: bool) {
        self.state.lock().watched = on.then(Vec::new);
    }
    /// Notes such a page by hand (a merge).
    pub fn watch_page(&self, page: PageId, object: ObjectId) {
        if let Some(watched) = self.state.lock().watched.as_mut() {
            watched.push((page, object));
        }
    }
    /// The pages noted since the last call.
    pub fn take_watched(&self) -> Vec<(PageId, ObjectId)> {
        self.state.lock().watched.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Takes back what a dropped mini-transaction had reserved.
    pub(crate) fn taken_back(state: &mut AllocState, events: Vec<AllocEvent>) {
        state.dropped(events);
    }
}

impl Drop for Mtr<'_> {
    fn drop(&mut self) {
        let events = std::mem::take(&mut self.on_commit);
        // Before such a page leaves memory: its place in the file holds nothing, as before. (That its extent has space now, maybe, is
        // forgotten: the next time the hole is made again.)
        for event in &events {
            if let AllocEvent::Hole { page } = event {
                self.pool().holes.give_back(PageId(*page));
            }
        }
        self.discard_fresh();
        self.leave_scratch();
        if let Some(state) = self.alloc.as_mut()
            && !events.is_empty()
        {
            Space::taken_back(state, events);
        }
    }
}
