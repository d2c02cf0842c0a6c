//! Redo of any bytes over pages that are sound: an error or a page, never a panic; and the same page each time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use resurgam_base::{Lsn, ObjectId, PageId, SlotId};
use resurgam_page::{LeafBuilder, PageBuf, PageType, op, print, validate};

fn sound(ty: PageType, records: u16) -> PageBuf {
    let mut page = PageBuf::zeroed();
    let mut body = Vec::new();
    op::format(&mut body, ty, 0, ObjectId(9), b"", None);
    for i in 0..records {
        let key = i.to_be_bytes();
        if let Ok(bytes) = LeafBuilder::plain(&key, b"some value of a row").encode() {
            op::insert(&mut body, SlotId(i), &bytes);
        }
    }
    op::apply(&mut page, PageId(7), &body, Lsn(1000)).expect("records of our own");
    page
}

fuzz_target!(|data: &[u8]| {
    let [first, body @ ..] = data else { return };
    let ty = match first % 3 {
        0 => PageType::Leaf,
        1 => PageType::Inner,
        _ => PageType::Version,
    };
    let base = sound(ty, u16::from(first / 3 % 20) * u16::from(ty == PageType::Leaf));
    let mut once = PageBuf::zeroed();
    once.copy_from(&base);
    let _ = print::ops(body);
    let _ = op::undo_of(body);
    let done = op::apply(&mut once, PageId(7), body, Lsn(2000));
    let mut twice = PageBuf::zeroed();
    twice.copy_from(&base);
    let again = op::apply(&mut twice, PageId(7), body, Lsn(2000));
    assert_eq!(done.is_ok(), again.is_ok());
    if done.is_ok() {
        assert!(once.same_content(&twice), "redo is not deterministic");
        let _ = validate::validate(&once);
        let _ = print::page(&once);
    }
});
