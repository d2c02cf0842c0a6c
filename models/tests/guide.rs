//! Guides of inner pages that are read while others make them anew (`buffer/src/page_guide.rs`).
#![allow(dead_code)]

use resurgam_base::{Lsn, ObjectId, PageId, SlotId};
use resurgam_models::{finds, holds, orders, sync};
use resurgam_page::{PageBuf, PageType, inner};

macro_rules! copies {
    ($($name:ident),+) => {$(
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    )+};
}

copies!(guide_as_it_is, guide_is_made_by_two, guide_is_of_any_state);

/// An inner page of two or three children, whose separators and children are its own.
fn page(id: u64, lsn: u64, children: u64) -> PageBuf {
    let mut page = PageBuf::zeroed();
    page.format(PageType::Inner, PageId(id), 1, ObjectId(1));
    for slot in 0..children {
        let key = if slot == 0 { Vec::new() } else { vec![(16 * id + 4 * slot + lsn) as u8] };
        page.insert(SlotId(slot as u16), &inner::encode(&key, PageId(1000 * id + 10 * lsn + slot))).expect("room");
    }
    page.set_lsn(Lsn(lsn));
    page
}

/// A model of one place for guides: two pages that take it from each other, one of them changed meanwhile, and one who looks. What is found
/// is a child of one of the pages; and whose guide it says that it is when all is quiet, there it leads.
macro_rules! model {
    ($guide:ident) => {{
        use std::sync::Arc;

        use shuttle::thread;

        let pages = Arc::new([page(1, 5, 3), page(2, 6, 2), page(1, 7, 2)]);
        let guide = Arc::new($guide::Guide::new());
        let makers = [vec![0, 2], vec![1]].map(|turns| {
            let (guide, pages) = (Arc::clone(&guide), Arc::clone(&pages));
            thread::spawn(move || {
                for turn in turns {
                    if !guide.is_of(&pages[turn]) {
                        guide.make(&pages[turn]);
                    }
                }
            })
        });
        let looks = {
            let (guide, pages) = (Arc::clone(&guide), Arc::clone(&pages));
            thread::spawn(move || {
                for (of, key) in [(1, 25), (2, 1)] {
                    let Some((guess, level)) = guide.find(PageId(of), &[key]) else { continue };
                    assert!(level <= 1, "level {level}");
                    let is_child = |page: &PageBuf| {
                        (0..page.slot_count()).any(|slot| inner::child_of(page.rec(SlotId(slot))) == guess.page)
                    };
                    assert!(pages.iter().any(is_child), "page {} was never anybody's child", guess.page);
                }
            })
        };
        for thread in makers.into_iter().chain([looks]) {
            thread.join().expect("no panic");
        }
        for page in pages.iter().filter(|page| guide.is_of(page)) {
            for key in 0..64 {
                let found = guide.find(page.page_id(), &[key]).map(|(guess, _)| guess.page);
                assert_eq!(found, Some(inner::child_for(page, &[key]).1), "key {key} of page {}", page.page_id());
            }
        }
    }};
}

#[test]
fn a_guide_that_is_done_leads_where_its_page_does() {
    holds(orders() / 4, || model!(guide_as_it_is));
}

#[test]
fn planted_bugs_are_found() {
    assert!(finds(orders() / 4, || model!(guide_is_made_by_two)));
    assert!(finds(orders() / 4, || model!(guide_is_of_any_state)));
}
