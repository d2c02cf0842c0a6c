//! The work of one sweep: which pages there are, in what order, handed out to several
//! threads.
//!
//! The work is cut into [`Unit`]s, stretches of a space map; a thread takes the next one,
//! lists its marked pages and visits them. The list is made when the unit is taken, so it
//! takes little memory whatever the sweep has to do, and has every page that was marked when
//! the sweep began and is still.
//!
//! Where the map cannot be read, units list all pages of its interval, whose headers say more (`unmapped.rs`). That
//! is for aborted transactions to be forgotten; while there are none such an interval is left as it is.
//!
//! # Order
//! Units with many versions of aborted transactions first: readers of those rows pay for
//! them until they are reverted. Writers do not count for whom they write (that would cost
//! every one of them); instead a few marked pages of each unit that are in memory are asked
//! for the highest id on them. A unit's weight is its marked pages times the share of those
//! asked that name an aborted id. After a restart none is in memory: then one page of each unit is read
//! (one of 512). Units that nothing is known of come last, as the map has them.

use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};

use resurgam_base::limits::EXTENT_PAGES;
use resurgam_base::{ObjectId, PageId, Result};
use resurgam_buffer::{Access, BufferPool};
use resurgam_page::space;
use resurgam_txn::TxIdSet;

use crate::overflow::OVERFLOW_OBJECT;

/// Pages of a unit, unless something else is asked for.
pub const UNIT_PAGES: u64 = 512;
/// Pages of a unit that are asked for the highest id on them.
const SAMPLES: usize = 4;

/// A stretch of a space map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    pub map: PageId,
    extents: Range<usize>,
    /// Pages that were marked when the work was laid out.
    pages: u64,
    weight: u64,
    /// The map can be read.
    mapped: bool,
}

/// A page to be visited, and its owner; none: its map cannot be read, and it may be of anybody or nobody.
pub(crate) type Marked = (PageId, ObjectId);

/// Whether a sweep visits a page of this owner with this PFS byte.
fn is_marked(owner: ObjectId, byte: u8) -> bool {
    // Nearly every page is marked as potentially unused; of large values only it is cleared.
    byte & space::PFS_HAS_VERSIONS != 0 || owner == OVERFLOW_OBJECT && byte & space::PFS_POTENTIALLY_UNUSED != 0
}

impl Unit {
    /// Its marked pages now, or all of them.
    pub fn pages(&self, pool: &BufferPool) -> Result<Vec<Marked>> {
        if !self.mapped {
            return Ok(self.all_pages(pool));
        }
        let found = pool.space().select(pool, self.map, self.extents.clone(), is_marked)?;
        Ok(found.into_iter().map(|(page, owner, _)| (page, owner)).collect())
    }

    /// All its pages that may have been given out.
    pub fn all_pages(&self, pool: &BufferPool) -> Vec<Marked> {
        let end = pool.space().high_water();
        let first = |extent| space::first_page_of_extent(self.map, extent).0;
        let pages = first(self.extents.start)..first(self.extents.end).min(end);
        pages.map(PageId).filter(|page| *page != self.map).map(|page| (page, ObjectId::NONE)).collect()
    }
}

/// The units of one sweep, shared by its threads.
pub(crate) struct Work {
    units: Vec<Unit>,
    next: AtomicUsize,
}

impl Work {
    /// Lays out the work, in units of about `unit_pages`. Maps that cannot be read go to `damaged`,
    /// with the error.
    pub fn lay_out(
        pool: &BufferPool,
        aborted: &TxIdSet,
        unit_pages: u64,
        stop: &dyn Fn() -> bool,
        mut damaged: impl FnMut(PageId, resurgam_base::Error) -> Result<()>,
    ) -> Result<Self> {
        let unit_extents = ((unit_pages / EXTENT_PAGES) as usize).clamp(1, space::EXTENTS);
        let mut units = Vec::new();
        for map in pool.space().map_pages() {
            // A database that rests is not read, however large it is.
            if !pool.space().look_at_marks(map) {
                continue;
            }
            let found = match pool.space().select(pool, map, 0..space::EXTENTS, is_marked) {
                Ok(found) => found,
                Err(error) => {
                    pool.space().saw_marks(map);
                    damaged(map, error)?;
                    if !aborted.is_empty() {
                        units.extend((0..space::EXTENTS).step_by(unit_extents).filter_map(|from| {
                            let extents = from..(from + unit_extents).min(space::EXTENTS);
                            let mut unit = Unit { map, extents, pages: 0, weight: 0, mapped: false };
                            unit.pages = unit.all_pages(pool).len() as u64;
                            (unit.pages > 0).then_some(unit)
                        }));
                    }
                    continue;
                }
            };
            if !found.is_empty() {
                pool.space().saw_marks(map);
            }
            let unit_of = |page: PageId| space::extent_of(page).1 / unit_extents;
            for pages in found.chunk_by(|a, b| unit_of(a.0) == unit_of(b.0)) {
                let from = unit_of(pages[0].0) * unit_extents;
                let extents = from..(from + unit_extents).min(space::EXTENTS);
                // When it is to stop, the order does not matter any more.
                let weight = if stop() { 0 } else { weight(pool, aborted, pages) };
                units.push(Unit { map, extents, pages: pages.len() as u64, weight, mapped: true });
            }
        }
        units.sort_by_key(|unit| std::cmp::Reverse(unit.weight));
        Ok(Self { units, next: AtomicUsize::new(0) })
    }

    /// Marked pages when it was laid out.
    pub fn pages(&self) -> u64 {
        self.units.iter().map(|unit| unit.pages).sum()
    }
    /// How many units.
    pub fn len(&self) -> usize {
        self.units.len()
    }
    /// The next unit, for whoever asks first.
    pub fn next(&self) -> Option<&Unit> {
        self.units.get(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

fn weight(pool: &BufferPool, aborted: &TxIdSet, pages: &[(PageId, ObjectId, u8)]) -> u64 {
    if aborted.is_empty() {
        return 0;
    }
    let (mut asked, mut hits) = (0, 0);
    let mut ask = |page: PageId| {
        // Whoever visits one that cannot be read says so.
        if let Ok(page) = pool.read(page, Access::Scan) {
            asked += 1;
            hits += u64::from(aborted.contains(page.highest_xid()));
        }
    };
    let samples = pages.iter().step_by(pages.len().div_ceil(SAMPLES)).map(|(page, _, _)| *page);
    let resident: Vec<PageId> = samples.filter(|page| pool.is_resident(*page)).collect();
    match pages.get(pages.len() / 2) {
        Some((page, _, _)) if resident.is_empty() => ask(*page),
        _ => resident.into_iter().for_each(&mut ask),
    }
    (pages.len() as u64 * hits).checked_div(asked).unwrap_or(0)
}
