//! A page of any bytes, with a right checksum and id so that it is believed: checked, printed, and read in all ways
//! without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use resurgam_base::{PageId, SlotId, limits::PAGE_SIZE};
use resurgam_page::{LeafRecord, PageBuf, PageType, boot::Boot, inner, leaf, overflow, print, space, validate};

fuzz_target!(|data: &[u8]| {
    let mut page = PageBuf::zeroed();
    let n = data.len().min(PAGE_SIZE);
    // The header comes first and the rest fills the end, where slots and records are.
    let head = n.min(64);
    page.as_bytes_mut()[..head].copy_from_slice(&data[..head]);
    let rest = &data[head..n];
    let slots = rest.len() / 2;
    page.as_bytes_mut()[64..64 + slots].copy_from_slice(&rest[..slots]);
    page.as_bytes_mut()[PAGE_SIZE - (rest.len() - slots)..].copy_from_slice(&rest[slots..]);
    page.seal();
    let _ = page.verify(PageId(7));
    let wrong = validate::validate(&page);
    let _ = print::page(&page);
    for key in [&b""[..], b"\x80\x00\x00\x05", b"zzzz"] {
        let _ = leaf::search(&page, key);
        let _ = inner::search(&page, key);
        let _ = inner::child_for(&page, key);
    }
    for slot in 0..page.slot_count().min(2000) {
        let Ok(bytes) = page.record(SlotId(slot)) else { continue };
        let mut out = Vec::new();
        if let Ok(record) = LeafRecord::parse(bytes) {
            let _ = record.rebuild_earlier(&mut out);
        } else if wrong.is_empty() && page.is(PageType::Leaf) {
            panic!("a page without complaint has a record that cannot be read");
        }
        let _ = (leaf::key_of(bytes), leaf::xid_of(bytes), leaf::highest_xid_of(bytes), leaf::flags_of(bytes));
        let _ = (inner::key_of(bytes), inner::child_of(bytes));
    }
    let _ = overflow::read(&page);
    let _ = overflow::writer(&page);
    let _ = Boot::read(&page);
    let _ = space::pfs_bytes(&page).len();
});
