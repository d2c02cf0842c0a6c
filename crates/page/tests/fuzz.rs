//! Random and mutated bytes through every decoder: an answer or an error, never a panic.
//!
//! One seed for all, printed on failure; `RESURGAM_SEED=n` replays it and
//! `RESURGAM_FUZZ_MS=n` sets how long each test runs.

use resurgam_base::{ErrorKind, Lsn, ObjectId, PageId, SlotId, TxId};
use resurgam_page::boot::Boot;
use resurgam_page::leaf::{Earlier, EarlierTag, LeafBuilder, LeafRecord, VersionPtr};
use resurgam_page::version::VersionRecord;
use resurgam_page::{PageBuf, PageType, Treatment, inner, leaf, op, overflow, print, validate};
use std::time::{Duration, Instant};

/// xorshift64*: small, seeded, good enough to pick bytes.
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n.max(1)
    }
    /// Bytes that are often interesting.
    fn byte(&mut self) -> u8 {
        match self.below(4) {
            0 => 0,
            1 => 0xff,
            2 => self.below(16) as u8,
            _ => self.next() as u8,
        }
    }
    fn bytes(&mut self, max: usize) -> Vec<u8> {
        (0..self.below(max)).map(|_| self.byte()).collect()
    }
}

fn rounds(name: &str, mut round: impl FnMut(&mut Rng)) {
    let number = |name, default| std::env::var(name).ok().and_then(|v| v.parse::<u64>().ok()).unwrap_or(default);
    let seed = number("RESURGAM_SEED", 0x5eed_0001).max(1);
    let limit = Duration::from_millis(number("RESURGAM_FUZZ_MS", 700));
    println!("{name}: RESURGAM_SEED={seed}");
    let mut rng = Rng(seed);
    let start = Instant::now();
    let mut count = 0u64;
    while start.elapsed() < limit {
        round(&mut rng);
        count += 1;
    }
    println!("{name}: {count} rounds");
    assert!(count > 0);
}

fn sample_record(rng: &mut Rng, key: &[u8]) -> Vec<u8> {
    let value = rng.bytes(80);
    let pointer = VersionPtr { page: PageId(1 + rng.next() % 99), slot: SlotId(3) };
    let tag = EarlierTag { ghost: false, xid: TxId(4), offrow: None };
    let earlier = match rng.below(3) {
        0 => Earlier::None,
        1 => Earlier::InRow(tag, &[]),
        _ => Earlier::OffRow(pointer),
    };
    let xid = TxId(1 + rng.next() % 100);
    LeafBuilder { ghost: false, xid, key, value: &value, earlier }.encode().unwrap()
}

/// A sound page of a random slotted type with some garbage.
fn sample_page(rng: &mut Rng) -> PageBuf {
    let ty = [PageType::Leaf, PageType::Inner, PageType::Version][rng.below(3)];
    let mut body = Vec::new();
    op::format(&mut body, ty, u8::from(ty == PageType::Inner), ObjectId(5), b"a", Some(b"zz"));
    for i in 0..rng.below(30) as u16 {
        let key = [b"a".as_slice(), &i.to_be_bytes()].concat();
        let record = match ty {
            PageType::Inner => inner::encode(&key, PageId(100 + u64::from(i))),
            _ => sample_record(rng, &key),
        };
        op::insert(&mut body, SlotId(i), &record);
    }
    let mut page = PageBuf::zeroed();
    op::apply(&mut page, PageId(9), &body, Lsn(10)).unwrap();
    if page.slot_count() > 2 {
        page.remove(SlotId(1)).unwrap();
    }
    page
}

fn damage(rng: &mut Rng, page: &mut PageBuf) {
    for _ in 0..rng.below(8) {
        let at = match rng.below(3) {
            0 => 4 + rng.below(60),
            1 => 64 + rng.below(130),
            _ => rng.below(8192),
        };
        page.as_bytes_mut()[at] = rng.byte();
    }
    if rng.below(50) == 0 {
        for at in 0..8192 {
            page.as_bytes_mut()[at] = rng.byte();
        }
    }
}

/// Treatments of some rows, suitable or not.
fn treatments(rng: &mut Rng) -> Vec<(SlotId, Treatment)> {
    use Treatment::*;
    let all = [Remove, Strip, Revert, RevertTagged, Shorten];
    let mut slot = 0;
    (0..rng.below(5))
        .map(|_| {
            slot += 1 + rng.below(3) as u16;
            (SlotId(slot - 1), all[rng.below(all.len())])
        })
        .collect()
}

fn sample_body(rng: &mut Rng, page: &PageBuf) -> Vec<u8> {
    let mut body = Vec::new();
    for _ in 0..1 + rng.below(4) {
        let slot = SlotId(rng.below(page.slot_count() as usize + 2) as u16);
        let bytes = rng.bytes(120);
        let upper = if rng.below(2) == 0 { None } else { Some(&bytes[..]) };
        match rng.below(15) {
            0 => op::insert(&mut body, slot, &bytes),
            1 => op::remove(&mut body, slot),
            2 => op::replace(&mut body, slot, &bytes),
            3 => op::patch(&mut body, slot, page.rec(slot), &bytes),
            4 => op::insert_many(&mut body, slot, [&bytes[..], &bytes, &[]]),
            5 => op::remove_many(&mut body, slot, rng.below(4) as u16),
            6 => op::truncate(&mut body, slot, upper),
            7 => op::set_fences(&mut body, &bytes, upper),
            8 => op::set_flags(&mut body, rng.byte(), rng.byte()),
            9 => op::set_bytes(&mut body, rng.next() as u16, &bytes),
            10 => op::image(&mut body, page),
            12 => op::change_row(&mut body, slot, page.rec(slot), &sample_record(rng, leaf::key_of(page.rec(slot)))),
            13 => op::undo(&mut body, &bytes),
            11 => op::clean_rows(&mut body, &treatments(rng)),
            _ => op::format(&mut body, PageType::Leaf, 0, ObjectId(1), &bytes, upper),
        }
    }
    for _ in 0..rng.below(3) {
        let at = rng.below(body.len());
        body[at] = rng.byte();
    }
    if rng.below(4) == 0 {
        let len = rng.below(body.len());
        body.truncate(len);
    }
    body
}

#[test]
fn apply_on_damaged_pages_and_bodies() {
    let (mut good, mut bad) = (0, 0);
    rounds("apply", |rng| {
        let mut page = sample_page(rng);
        if rng.below(6) == 0 {
            let ty = [PageType::Overflow, PageType::SpaceMap, PageType::Boot, PageType::Free];
            page.format(ty[rng.below(4)], PageId(9), 0, ObjectId(5));
        }
        let body = if rng.below(5) == 0 { rng.bytes(60) } else { sample_body(rng, &page) };
        if rng.below(2) == 0 {
            damage(rng, &mut page);
            page.set_page_id(PageId(9));
        }
        let mut again = page.clone();
        let _ = print::ops(&body);
        match op::apply(&mut page, PageId(9), &body, Lsn(11)) {
            Ok(()) => {
                good += 1;
                op::apply(&mut again, PageId(9), &body, Lsn(11)).unwrap();
                assert!(again.as_bytes() == page.as_bytes(), "apply is not deterministic");
            }
            Err(e) => {
                bad += 1;
                assert_eq!(e.kind(), ErrorKind::Corrupt, "{e}");
                assert!(e.message().contains("page 9"), "{e}");
            }
        }
    });
    assert!(good > 0 && bad > 0, "both outcomes must be reached: {good}, {bad}");
}

#[test]
fn sound_pages_stay_sound() {
    // Operations that succeed on a sound page leave a structurally sound one.
    rounds("sound", |rng| {
        let mut page = sample_page(rng);
        let body = sample_body(rng, &page);
        let images = op::decode(&body).any(|op| matches!(op, Ok(op::PageOp::Image(_))));
        if !images && op::apply(&mut page, PageId(9), &body, Lsn(11)).is_ok() {
            for problem in validate::validate(&page) {
                let structural = ["garbage", "heap", "overlaps", "free byte", "slot count"];
                assert!(!structural.iter().any(|s| problem.contains(s)), "{problem}");
            }
        }
    });
}

#[test]
fn readers_of_damaged_pages() {
    let mut problems = 0;
    rounds("read", |rng| {
        let mut page = sample_page(rng);
        damage(rng, &mut page);
        if rng.below(4) == 0 {
            page.set_type_byte(rng.below(8) as u8);
        }
        problems += validate::validate(&page).len();
        if rng.below(4) == 0 {
            let _ = print::page(&page);
        }
        let key = rng.bytes(6);
        let _ = (leaf::search(&page, &key), inner::search(&page, &key));
        let _ = (inner::child_for(&page, &key), Boot::read(&page), overflow::read(&page));
        let _ = (page.lower_fence(), page.upper_fence(), page.verify(PageId(9)));
        for slot in 0..40 {
            let _ = page.record(SlotId(slot));
        }
        let _ = page.rec(SlotId(rng.next() as u16));
        let slot = SlotId(rng.below(40) as u16);
        let bytes = rng.bytes(200);
        let _ = match rng.below(6) {
            0 => page.insert(slot, &bytes),
            1 => page.remove(slot),
            2 => page.replace(slot, &bytes),
            3 => page.set_fences(&bytes, Some(&bytes)),
            4 => page.truncate_from(slot),
            _ => page.compact(),
        };
    });
    assert!(problems > 0, "damage must be noticed");
}

#[test]
fn parsers_of_random_records() {
    rounds("parse", |rng| {
        let mut bytes = sample_record(rng, b"key");
        for _ in 0..rng.below(4) {
            let at = rng.below(bytes.len());
            bytes[at] = rng.byte();
        }
        let len = bytes.len() - rng.below(bytes.len() / 2);
        bytes.truncate(len);
        if let Ok(record) = LeafRecord::parse(&bytes) {
            let _ = (record.earlier(), record.rebuild_earlier(&mut Vec::new()));
            assert_eq!(leaf::key_of(&bytes), record.key);
        }
        let _ = (VersionRecord::parse(&bytes), inner::InnerRecord::parse(&bytes));
        let _ = (Boot::decode(&bytes), leaf::highest_xid_of(&bytes), leaf::key_of(&bytes));
    });
}
