//! Full structural check of one page: what a reader relies on, in plain words.
//!
//! Checks the page alone. What needs other pages (a child's fences against its parent's
//! keys, PFS bytes against pages) is the business of the tree's and the database's checkers.
//! The checksum is not checked here: it is stale in memory ([`PageBuf::verify`] checks it).

use crate::boot::Boot;
use crate::buf::{FENCE_INFINITE, HEADER_SIZE, PAGE_FORMAT_VERSION, PageBuf, PageType};
use crate::inner::InnerRecord;
use crate::leaf::{GHOST, LeafRecord, TAGGED, highest_xid_of};
use crate::slotted::{SLOT_SIZE, SLOTS_MAX};
use crate::version::VersionRecord;
use crate::{overflow, space};
use resurgam_base::limits::PAGE_SIZE;
use resurgam_base::{PageId, SlotId, TxId};

/// Problems reported at most; a damaged page can have thousands.
pub const PROBLEMS_MAX: usize = 50;

/// All problems of `page`; empty for a sound one. Never panics.
pub fn validate(page: &PageBuf) -> Vec<String> {
    let mut found = Problems(Vec::new());
    if page.format_version() != PAGE_FORMAT_VERSION {
        found.add(format!("format version {}", page.format_version()));
    }
    match page.page_type() {
        None => found.add(format!("unknown type {}", page.type_byte())),
        Some(PageType::Free) => {}
        Some(PageType::Boot) => boot(page, &mut found),
        Some(PageType::SpaceMap) => space_map(page, &mut found),
        Some(PageType::Overflow) => {
            if let Err(e) = overflow::read(page) {
                found.add(e.message());
            }
        }
        Some(ty @ (PageType::Leaf | PageType::Inner | PageType::Version)) => {
            slotted(page, &mut found);
            fences(page, &mut found);
            match ty {
                PageType::Leaf => leaf(page, &mut found),
                PageType::Inner => inner(page, &mut found),
                _ => version(page, &mut found),
            }
        }
    }
    found.0
}

struct Problems(Vec<String>);

impl Problems {
    fn add(&mut self, problem: impl Into<String>) {
        if self.0.len() < PROBLEMS_MAX {
            self.0.push(problem.into());
        }
    }
}

fn slots(page: &PageBuf) -> impl Iterator<Item = SlotId> {
    (0..page.slot_count()).map(SlotId)
}

/// Slots, heap, fences: in bounds, no overlaps, garbage counted right, free bytes zero.
fn slotted(page: &PageBuf, found: &mut Problems) {
    if page.raw_slot_count() > SLOTS_MAX {
        found.add(format!("slot count {} is impossible", page.raw_slot_count()));
        return;
    }
    let slots_end = HEADER_SIZE + SLOT_SIZE * page.slot_count() as usize;
    let heap = page.heap_start() as usize;
    if heap < slots_end || heap > PAGE_SIZE {
        found.add(format!("heap starts at {heap}, slots end at {slots_end}"));
        return;
    }
    // (offset, length, what) of everything in the heap.
    let mut parts: Vec<(usize, usize, String)> = Vec::new();
    let mut part = |offset: u16, len: u16, what: String, found: &mut Problems| {
        let (offset, len) = (offset as usize, len as usize);
        if len == 0 {
            return;
        }
        if offset < heap || offset + len > PAGE_SIZE {
            found.add(format!("{what} at {offset}+{len} lies outside the heap"));
        } else {
            parts.push((offset, len, what));
        }
    };
    part(page.lower_offset(), page.lower_len(), "lower fence".into(), found);
    if page.upper_len() != FENCE_INFINITE {
        part(page.upper_offset(), page.upper_len(), "upper fence".into(), found);
    }
    for slot in slots(page) {
        let (offset, len) = page.slot_entry(slot);
        part(offset, len, format!("slot {}", slot.0), found);
    }
    parts.sort();
    let mut end = heap;
    let mut used = 0;
    let mut free = vec![(slots_end, heap)];
    for (offset, len, what) in &parts {
        if *offset < end {
            found.add(format!("{what} at {offset}+{len} overlaps what is before it"));
        } else {
            free.push((end, *offset));
        }
        end = end.max(offset + len);
        used += len;
    }
    free.push((end, PAGE_SIZE));
    let garbage = (PAGE_SIZE - heap).saturating_sub(used);
    if garbage != page.garbage() as usize {
        found.add(format!("garbage is {garbage} bytes, the header says {}", page.garbage()));
    }
    for (start, end) in free {
        if let Some(at) = page.as_bytes()[start..end].iter().position(|&b| b != 0) {
            found.add(format!("free byte {} is not zero", start + at));
        }
    }
}

fn fences(page: &PageBuf, found: &mut Problems) {
    if page.upper_fence().is_some_and(|upper| upper <= page.lower_fence()) {
        found.add("upper fence is not above the lower fence");
    }
}

/// Keys strictly ascending and within the fences.
fn keys<'a>(page: &'a PageBuf, keys: impl Iterator<Item = (SlotId, &'a [u8])>, found: &mut Problems) {
    let mut last: Option<&[u8]> = None;
    for (slot, key) in keys {
        if last.is_some_and(|last| last >= key) {
            found.add(format!("slot {}: key is not above the one before", slot.0));
        }
        if key < page.lower_fence() {
            found.add(format!("slot {}: key is below the lower fence", slot.0));
        }
        if page.upper_fence().is_some_and(|upper| key >= upper) {
            found.add(format!("slot {}: key is not below the upper fence", slot.0));
        }
        last = Some(key);
    }
}

fn leaf(page: &PageBuf, found: &mut Problems) {
    if page.level() != 0 {
        found.add(format!("leaf of level {}", page.level()));
    }
    let mut highest = TxId::NONE;
    let mut versions = false;
    let mut rebuilt = Vec::new();
    let mut parsed = Vec::new();
    for slot in slots(page) {
        match LeafRecord::parse(page.rec(slot)) {
            Ok(record) => {
                parsed.push((slot, record.key));
                highest = highest.max(highest_xid_of(page.rec(slot)));
                versions |= record.flags & (TAGGED | GHOST) != 0;
                if let Err(e) = record.rebuild_earlier(&mut rebuilt) {
                    found.add(format!("slot {}: earlier version: {}", slot.0, e.message()));
                }
            }
            Err(e) => found.add(format!("slot {}: {}", slot.0, e.message())),
        }
    }
    keys(page, parsed.into_iter(), found);
    if highest > page.highest_xid() {
        found.add(format!("a record has xid {highest}, the header's highest is {}", page.highest_xid()));
    }
    if versions && !page.has_versions() {
        found.add("a record is tagged or a ghost, the page is not marked");
    }
}

fn inner(page: &PageBuf, found: &mut Problems) {
    if page.level() == 0 {
        found.add("inner page of level 0");
    }
    let mut children: Vec<PageId> = Vec::new();
    let mut parsed = Vec::new();
    for slot in slots(page) {
        match InnerRecord::parse(page.rec(slot)) {
            Ok(record) => {
                if slot.0 == 0 && record.key != page.lower_fence() {
                    found.add("slot 0: key is not the lower fence");
                }
                parsed.push((slot, record.key));
                children.push(record.child);
            }
            Err(e) => found.add(format!("slot {}: {}", slot.0, e.message())),
        }
    }
    keys(page, parsed.into_iter(), found);
    children.sort();
    for pair in children.windows(2) {
        if pair[0] == pair[1] {
            found.add(format!("page {} is a child twice", pair[0]));
        }
    }
}

fn version(page: &PageBuf, found: &mut Problems) {
    for slot in slots(page) {
        match VersionRecord::parse(page.rec(slot)) {
            Ok(record) if record.pusher > page.highest_xid() => found.add(format!(
                "slot {}: pusher {} is above the header's highest xid {}",
                slot.0,
                record.pusher,
                page.highest_xid()
            )),
            Ok(_) => {}
            Err(e) => found.add(format!("slot {}: {}", slot.0, e.message())),
        }
    }
}

fn boot(page: &PageBuf, found: &mut Problems) {
    if page.page_id() != PageId(0) {
        found.add("boot page that is not page 0");
    }
    if let Err(e) = Boot::read(page) {
        found.add(e.message());
    }
}

fn space_map(page: &PageBuf, found: &mut Problems) {
    if !space::is_map_page(page.page_id()) {
        found.add("space map where none belongs");
    }
    let known = space::PFS_ALLOCATED | space::PFS_HAS_VERSIONS | space::PFS_POTENTIALLY_UNUSED | space::PFS_DEFERRED;
    for (i, pfs) in space::pfs_bytes(page).iter().enumerate() {
        if pfs & !known != 0 {
            found.add(format!("page {}: unknown PFS bits {pfs:#04x}", page.page_id().0.saturating_add(i as u64)));
        }
        if *pfs != 0 && pfs & space::PFS_ALLOCATED == 0 {
            found.add(format!("page {}: PFS {pfs:#04x} but not allocated", page.page_id().0.saturating_add(i as u64)));
        }
    }
    let end = space::PFS_OFFSET + space::INTERVAL_PAGES as usize;
    if page.as_bytes()[end..].iter().any(|&b| b != 0) {
        found.add("bytes after the PFS are not zero");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::inner;
    use crate::leaf::{Earlier, EarlierTag, LeafBuilder};
    use resurgam_base::ObjectId;

    fn leaf_page(keys: &[&str]) -> PageBuf {
        let mut page = PageBuf::zeroed();
        page.format(PageType::Leaf, PageId(9), 0, ObjectId(1));
        page.set_fences(b"b", Some(b"y")).unwrap();
        for (i, key) in keys.iter().enumerate() {
            let record = LeafBuilder::plain(key.as_bytes(), b"value").encode().unwrap();
            page.insert(SlotId(i as u16), &record).unwrap();
        }
        page
    }

    fn problem(page: &PageBuf, part: &str) {
        let found = validate(page);
        assert!(found.iter().any(|p| p.contains(part)), "{part:?} not in {found:?}");
    }

    #[test]
    fn a_sound_page_has_no_problems() {
        assert_eq!(validate(&leaf_page(&["c", "d"])), Vec::<String>::new());
    }

    #[test]
    fn each_damage_is_named() {
        problem(&leaf_page(&["d", "c"]), "not above the one before");
        problem(&leaf_page(&["a"]), "below the lower fence");
        problem(&leaf_page(&["y"]), "not below the upper fence");
        let mut page = leaf_page(&["c"]);
        page.set_garbage(1);
        problem(&page, "garbage is 0 bytes, the header says 1");
        page.set_heap_start(9000);
        problem(&page, "heap starts at 9000");
        page.set_raw_slot_count(60000);
        problem(&page, "slot count 60000");
        page.set_type_byte(77);
        problem(&page, "unknown type 77");
        let mut page = leaf_page(&["c", "d"]);
        page.as_bytes_mut()[4000] = 1;
        problem(&page, "free byte 4000");
        let entry: [u8; 4] = page.as_bytes()[64..68].try_into().unwrap();
        page.as_bytes_mut()[68..72].copy_from_slice(&entry);
        problem(&page, "overlaps");
        page.as_bytes_mut()[68..72].fill(0xff);
        problem(&page, "outside the heap");
        let mut page = leaf_page(&[]);
        page.set_fences(b"m", Some(b"l")).unwrap();
        problem(&page, "not above the lower fence");
        let mut page = leaf_page(&[]);
        let tag = EarlierTag { ghost: false, xid: TxId(7), offrow: None };
        let earlier = Earlier::InRow(tag, &[9]);
        let record = LeafBuilder { earlier, ..LeafBuilder::inserted(TxId(5), b"c", b"v") };
        page.insert(SlotId(0), &record.encode().unwrap()).unwrap();
        problem(&page, "xid 7, the header's highest is 0");
        problem(&page, "not marked");
        problem(&page, "earlier version: diff: unknown form");
    }

    #[test]
    fn inner_pages() {
        let mut page = PageBuf::zeroed();
        page.format(PageType::Inner, PageId(9), 0, ObjectId(1));
        page.set_fences(b"b", None).unwrap();
        page.insert(SlotId(0), &inner::encode(b"c", PageId(4))).unwrap();
        page.insert(SlotId(1), &inner::encode(b"d", PageId(4))).unwrap();
        problem(&page, "level 0");
        problem(&page, "not the lower fence");
        problem(&page, "page 4 is a child twice");
    }

    #[test]
    fn space_maps() {
        let mut page = PageBuf::zeroed();
        page.format(PageType::SpaceMap, PageId(2), 0, ObjectId::NONE);
        page.as_bytes_mut()[space::PFS_OFFSET + 3] = 0x82;
        problem(&page, "none belongs");
        problem(&page, "page 5: unknown PFS bits");
        problem(&page, "page 5: PFS 0x82 but not allocated");
    }
}
