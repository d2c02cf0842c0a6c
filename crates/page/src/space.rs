//! Space maps: who owns each extent, and a PFS ("page free space") byte for each page.
//!
//! Page 0 is the boot page. After it the file is cut into intervals of 5120 pages;
//! interval k covers pages `k*5120+1 ..= (k+1)*5120`, and its first page is its map.
//! An interval is 640 extents of 8 pages; extent 0 begins with the map itself. Each file
//! (see `PageId`) has maps of its own, by the same rule over the page numbers in that file.
//!
//! ```text
//!   64 owners   640 x u32   object that owns the extent; 0 = free
//! 2624 PFS     5120 x u8    one byte for each page of the interval
//! ```
//! PFS bits: ALLOCATED; HAS_VERSIONS (the cleaner visits the page); POTENTIALLY_UNUSED
//! (allocated by a transaction that may yet abort; Constant Time Recovery, section 3.5);
//! DEFERRED (deallocated by a transaction that has not ended).

use crate::buf::{HEADER_SIZE, PageBuf};
use resurgam_base::limits::{EXTENT_PAGES, PAGE_SIZE};
use resurgam_base::{ObjectId, PageId};

/// Pages that one map covers, itself included.
pub const INTERVAL_PAGES: u64 = 5120;
/// Extents that one map covers.
pub const EXTENTS: usize = (INTERVAL_PAGES / EXTENT_PAGES) as usize;
/// Offset of the owners.
pub const OWNERS_OFFSET: usize = HEADER_SIZE;
/// Offset of the PFS bytes.
pub const PFS_OFFSET: usize = OWNERS_OFFSET + 4 * EXTENTS;

/// PFS bit: the page is in use.
pub const PFS_ALLOCATED: u8 = 1;
/// PFS bit: the page has row versions or ghosts.
pub const PFS_HAS_VERSIONS: u8 = 2;
/// PFS bit: the page was allocated by a transaction that may abort and leave it empty.
pub const PFS_POTENTIALLY_UNUSED: u8 = 4;
/// PFS bit: the page's deallocation waits for its transaction's end.
pub const PFS_DEFERRED: u8 = 8;

const _: () = assert!(PFS_OFFSET == 2624);
const _: () = assert!(EXTENTS == 640);
const _: () = assert!(PFS_OFFSET + INTERVAL_PAGES as usize <= PAGE_SIZE);

/// Position of a page in its interval. Page 0 is in none and is answered as position 0.
#[inline]
const fn index_in_interval(page: PageId) -> u64 {
    page.in_file().saturating_sub(1) % INTERVAL_PAGES
}

/// The map page of `page`'s interval; `PageId::NONE` for a file's page 0, which is in none.
#[inline]
pub const fn map_page_of(page: PageId) -> PageId {
    if page.in_file() == 0 {
        return PageId::NONE;
    }
    PageId(page.0 - index_in_interval(page))
}

/// Whether `page` is a space map.
#[inline]
pub const fn is_map_page(page: PageId) -> bool {
    page.in_file() != 0 && index_in_interval(page) == 0
}

/// The map page and the number of `page`'s extent in it (0..640).
#[inline]
pub const fn extent_of(page: PageId) -> (PageId, usize) {
    (map_page_of(page), (index_in_interval(page) / EXTENT_PAGES) as usize)
}

/// The first page of extent `extent` of the map page `map`.
#[inline]
pub const fn first_page_of_extent(map: PageId, extent: usize) -> PageId {
    PageId(map.0 + extent as u64 * EXTENT_PAGES)
}

/// Offset of `page`'s PFS byte in its map page.
#[inline]
pub const fn pfs_offset(page: PageId) -> usize {
    PFS_OFFSET + index_in_interval(page) as usize
}

/// Offset of an extent's owner in its map page. `extent` is below [`EXTENTS`].
#[inline]
pub const fn owner_offset(extent: usize) -> usize {
    OWNERS_OFFSET + 4 * extent
}

/// `page`'s PFS byte, read from its map page.
#[inline]
pub fn pfs(map: &PageBuf, page: PageId) -> u8 {
    map.as_bytes()[pfs_offset(page)]
}

/// The PFS bytes of an interval: entry i is page `map + i`.
#[inline]
pub fn pfs_bytes(map: &PageBuf) -> &[u8] {
    &map.as_bytes()[PFS_OFFSET..PFS_OFFSET + INTERVAL_PAGES as usize]
}

/// An extent's owner; `ObjectId::NONE` = free, or no such extent.
#[inline]
pub fn owner(map: &PageBuf, extent: usize) -> ObjectId {
    if extent >= EXTENTS {
        return ObjectId::NONE;
    }
    match map.as_bytes()[owner_offset(extent)..].first_chunk::<4>() {
        Some(bytes) => ObjectId(u32::from_le_bytes(*bytes)),
        None => ObjectId::NONE,
    }
}

/// The extents of `map` that `object` owns (or, with `ObjectId::NONE`, the free ones).
pub fn extents_of(map: &PageBuf, object: ObjectId) -> impl Iterator<Item = usize> + '_ {
    (0..EXTENTS).filter(move |&extent| owner(map, extent) == object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic() {
        assert_eq!(map_page_of(PageId(0)), PageId::NONE);
        assert!(!is_map_page(PageId(0)));
        for (page, map, extent, pfs) in [
            (1, 1, 0, 2624),
            (8, 1, 0, 2631),
            (9, 1, 1, 2632),
            (5120, 1, 639, 7743),
            (5121, 5121, 0, 2624),
            (5129, 5121, 1, 2632),
            (10240, 5121, 639, 7743),
            (10241, 10241, 0, 2624),
        ] {
            assert_eq!(extent_of(PageId(page)), (PageId(map), extent), "{page}");
            assert_eq!(pfs_offset(PageId(page)), pfs, "{page}");
            assert_eq!(is_map_page(PageId(page)), page == map, "{page}");
            let first = first_page_of_extent(PageId(map), extent).0;
            assert!((first..first + EXTENT_PAGES).contains(&page), "{page}");
        }
    }

    #[test]
    fn every_file_has_maps_of_its_own() {
        let at = |number| PageId::of_file(3, number);
        assert_eq!((at(5129).file(), at(5129).in_file()), (3, 5129));
        assert_eq!(map_page_of(at(0)), PageId::NONE);
        assert!(!is_map_page(at(0)) && is_map_page(at(1)) && is_map_page(at(5121)));
        assert_eq!(extent_of(at(5129)), (at(5121), 1));
        assert_eq!(first_page_of_extent(at(5121), 1), at(5129));
        assert_eq!(pfs_offset(at(5129)), pfs_offset(PageId(5129)));
    }

    #[test]
    fn getters() {
        let mut map = PageBuf::zeroed();
        map.as_bytes_mut()[owner_offset(639)] = 7;
        map.as_bytes_mut()[pfs_offset(PageId(5120))] = PFS_ALLOCATED | PFS_DEFERRED;
        assert_eq!(owner(&map, 639), ObjectId(7));
        assert_eq!(owner(&map, 640), ObjectId::NONE);
        assert_eq!(extents_of(&map, ObjectId(7)).collect::<Vec<_>>(), [639]);
        assert_eq!(pfs(&map, PageId(5120)), 9);
        assert_eq!(pfs_bytes(&map)[5119], 9);
    }
}
