//! Slotted pages against a model, and log replay against what was done directly.

use proptest::prelude::*;
use resurgam_base::{Lsn, ObjectId, PageId, SlotId, TxId};
use resurgam_page::leaf::{Earlier, EarlierTag, LeafBuilder, LeafRecord};
use resurgam_page::validate::validate;
use resurgam_page::{PageBuf, PageType, diff, inner, leaf, op};
use std::collections::BTreeMap;

#[derive(Clone, Debug)]
enum Step {
    Insert(u16, Vec<u8>),
    InsertMany(u16, Vec<Vec<u8>>),
    Remove(u16),
    RemoveMany(u16, u16),
    Replace(u16, Vec<u8>),
    Patch(u16, Vec<(u16, u8)>),
    Truncate(u16, Option<Vec<u8>>),
    Fences(Vec<u8>, Option<Vec<u8>>),
    Flags(u8, u8),
    Compact,
    Image,
}

fn bytes(max: usize) -> impl Strategy<Value = Vec<u8>> {
    (0..max, any::<u8>()).prop_map(|(len, b)| (0..len).map(|i| b.wrapping_add(i as u8)).collect())
}

fn step() -> impl Strategy<Value = Step> {
    let fence = || proptest::option::of(bytes(60));
    prop_oneof![
        8 => (any::<u16>(), bytes(700)).prop_map(|(s, b)| Step::Insert(s, b)),
        2 => (any::<u16>(), proptest::collection::vec(bytes(300), 0..6))
            .prop_map(|(s, b)| Step::InsertMany(s, b)),
        3 => any::<u16>().prop_map(Step::Remove),
        1 => (any::<u16>(), 0u16..4).prop_map(|(s, n)| Step::RemoveMany(s, n)),
        5 => (any::<u16>(), bytes(900)).prop_map(|(s, b)| Step::Replace(s, b)),
        3 => (any::<u16>(), proptest::collection::vec(any::<(u16, u8)>(), 1..5))
            .prop_map(|(s, c)| Step::Patch(s, c)),
        1 => (any::<u16>(), fence()).prop_map(|(s, f)| Step::Truncate(s, f)),
        1 => (bytes(60), fence()).prop_map(|(l, u)| Step::Fences(l, u)),
        1 => any::<(u8, u8)>().prop_map(|(s, c)| Step::Flags(s, c)),
        1 => Just(Step::Compact),
        1 => Just(Step::Image),
    ]
}

#[derive(Default)]
struct Model {
    records: Vec<Vec<u8>>,
    lower: Vec<u8>,
    upper: Option<Vec<u8>>,
}

impl Model {
    fn used(&self) -> usize {
        self.records.iter().map(|r| r.len() + 4).sum::<usize>()
            + self.lower.len()
            + self.upper.as_ref().map_or(0, Vec::len)
    }
}

/// A row's value and the value before it.
type Row = (Vec<u8>, Option<Vec<u8>>);

const ID: PageId = PageId(11);

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Every step is done to the model and, as an operation, to the page; the page agrees with
    /// the model after each, and replaying all bodies on another buffer gives the same bytes.
    #[test]
    fn pages_agree_with_the_model_and_with_redo(steps in proptest::collection::vec(step(), 1..80)) {
        let mut model = Model::default();
        let mut page = PageBuf::zeroed();
        let mut bodies = Vec::new();
        let mut body = Vec::new();
        // An inner page: leaf pages also note tags, which random bytes would raise.
        op::format(&mut body, PageType::Inner, 1, ObjectId(1), b"", None);
        op::apply(&mut page, ID, &body, Lsn(1)).unwrap();
        bodies.push(body);
        for step in &steps {
            let n = model.records.len() as u16;
            let mut body = Vec::new();
            let free = 8128 - model.used();
            prop_assert_eq!(page.free_total(), free);
            let at = |s: u16, n: u16| SlotId(s % n.max(1));
            match step {
                Step::Insert(s, b) => {
                    prop_assert_eq!(page.fits(b.len()), b.len() + 4 <= free);
                    if !page.fits(b.len()) {
                        prop_assert!(page.clone().insert(SlotId(0), b).is_err());
                        continue;
                    }
                    let slot = at(*s, n + 1);
                    op::insert(&mut body, slot, b);
                    model.records.insert(slot.0 as usize, b.clone());
                }
                Step::InsertMany(s, many) => {
                    if many.iter().map(|b| b.len() + 4).sum::<usize>() > free {
                        continue;
                    }
                    let slot = at(*s, n + 1);
                    op::insert_many(&mut body, slot, many.iter().map(Vec::as_slice));
                    let i = slot.0 as usize;
                    model.records.splice(i..i, many.iter().cloned());
                }
                Step::Remove(s) if n > 0 => {
                    op::remove(&mut body, at(*s, n));
                    model.records.remove(at(*s, n).0 as usize);
                }
                Step::RemoveMany(s, count) if n > 0 => {
                    let slot = at(*s, n);
                    let count = (*count).min(n - slot.0);
                    op::remove_many(&mut body, slot, count);
                    model.records.drain(slot.0 as usize..(slot.0 + count) as usize);
                }
                Step::Replace(s, b) if n > 0 => {
                    let slot = at(*s, n);
                    let old = model.records[slot.0 as usize].clone();
                    prop_assert_eq!(page.fits_replace(slot, b.len()), b.len() <= free + old.len());
                    if !page.fits_replace(slot, b.len()) {
                        continue;
                    }
                    op::patch_or_replace(&mut body, slot, &old, b);
                    model.records[slot.0 as usize] = b.clone();
                }
                Step::Patch(s, changes) if n > 0 => {
                    let slot = at(*s, n);
                    let old = model.records[slot.0 as usize].clone();
                    let mut new = old.clone();
                    for (i, b) in changes {
                        if !new.is_empty() {
                            let i = *i as usize % new.len();
                            new[i] = *b;
                        }
                    }
                    op::patch(&mut body, slot, &old, &new);
                    model.records[slot.0 as usize] = new;
                }
                Step::Truncate(s, upper) => {
                    let from = at(*s, n + 1);
                    let lower_only = Model {
                        records: model.records[..from.0 as usize].to_vec(),
                        lower: model.lower.clone(),
                        upper: upper.clone(),
                    };
                    if lower_only.used() > 8128 {
                        continue;
                    }
                    op::truncate(&mut body, from, upper.as_deref());
                    model = lower_only;
                }
                Step::Fences(lower, upper) => {
                    let old = model.lower.len() + model.upper.as_ref().map_or(0, Vec::len);
                    let new = lower.len() + upper.as_ref().map_or(0, Vec::len);
                    if new > free + old {
                        continue;
                    }
                    op::set_fences(&mut body, lower, upper.as_deref());
                    model.lower.clone_from(lower);
                    model.upper.clone_from(upper);
                }
                Step::Flags(set, clear) => {
                    let want = (page.flags() | set) & !clear;
                    op::set_flags(&mut body, *set, *clear);
                    let mut changed = page.clone();
                    op::apply(&mut changed, ID, &body, Lsn(0)).unwrap();
                    prop_assert_eq!(changed.flags(), want);
                }
                // Compaction alone is no operation; an image carries it over.
                Step::Compact => {
                    page.compact().unwrap();
                    prop_assert_eq!(page.garbage(), 0);
                    op::image(&mut body, &page);
                }
                Step::Image => op::image(&mut body, &page),
                _ => continue,
            }
            let lsn = Lsn(1 + bodies.len() as u64);
            op::apply(&mut page, ID, &body, lsn).unwrap();
            bodies.push(body);

            prop_assert_eq!(page.lsn(), lsn);
            prop_assert_eq!(page.slot_count() as usize, model.records.len());
            for (i, record) in model.records.iter().enumerate() {
                prop_assert_eq!(page.rec(SlotId(i as u16)), &record[..]);
                prop_assert_eq!(page.record(SlotId(i as u16)).unwrap(), &record[..]);
            }
            prop_assert_eq!(page.lower_fence(), &model.lower[..]);
            prop_assert_eq!(page.upper_fence(), model.upper.as_deref());
            let structural: Vec<_> = validate(&page)
                .into_iter()
                .filter(|p| ["garbage", "heap", "overlap", "free byte"].iter().any(|w| p.contains(w)))
                .collect();
            prop_assert_eq!(structural, Vec::<String>::new());
        }
        let mut again = PageBuf::zeroed();
        for (i, body) in bodies.iter().enumerate() {
            op::apply(&mut again, ID, body, Lsn(1 + i as u64)).unwrap();
        }
        prop_assert!(again.same_content(&page));
    }

    /// A leaf under inserts, updates and deletes with versions: search finds every key, every
    /// earlier value is rebuilt, and the page is valid.
    #[test]
    fn leaves_keep_rows_and_their_earlier_values(
        steps in proptest::collection::vec((0u8..30, 1u64..50, bytes(60), any::<bool>()), 1..120),
    ) {
        let mut page = PageBuf::zeroed();
        let mut body = Vec::new();
        op::format(&mut body, PageType::Leaf, 0, ObjectId(1), b"", None);
        op::apply(&mut page, ID, &body, Lsn(1)).unwrap();
        let mut rows: BTreeMap<Vec<u8>, Row> = BTreeMap::new();
        let mut highest = 0;
        for (i, (key, xid, value, ghost)) in steps.iter().enumerate() {
            let key = vec![b'k', *key];
            let mut body = Vec::new();
            match leaf::search(&page, &key) {
                Err(slot) => {
                    prop_assert!(!rows.contains_key(&key));
                    let record = LeafBuilder::inserted(TxId(*xid), &key, value).encode().unwrap();
                    if !page.fits(record.len()) {
                        continue;
                    }
                    op::insert(&mut body, slot, &record);
                    rows.insert(key, (value.clone(), None));
                }
                Ok(slot) => {
                    let old_bytes = page.record(slot).unwrap().to_vec();
                    let old = LeafRecord::parse(&old_bytes).unwrap();
                    let value = if *ghost { old.value } else { &value[..] };
                    let mut d = Vec::new();
                    diff::diff(value, old.value, &mut d);
                    let tag = EarlierTag { ghost: old.is_ghost(), xid: old.xid, offrow: None };
                    let new = LeafBuilder {
                        ghost: *ghost,
                        xid: TxId(*xid),
                        key: &key,
                        value,
                        earlier: Earlier::InRow(tag, &d),
                    };
                    let new = new.encode().unwrap();
                    if !page.fits_replace(slot, new.len()) {
                        continue;
                    }
                    op::patch_or_replace(&mut body, slot, &old_bytes, &new);
                    let before = old.value.to_vec();
                    rows.insert(key.clone(), (value.to_vec(), Some(before)));
                }
            }
            highest = highest.max(*xid);
            op::apply(&mut page, ID, &body, Lsn(2 + i as u64)).unwrap();
            prop_assert_eq!(page.highest_xid(), TxId(highest));
            prop_assert!(page.has_versions());
        }
        prop_assert_eq!(validate(&page), Vec::<String>::new());
        prop_assert_eq!(page.slot_count() as usize, rows.len());
        for (i, (key, (value, before))) in rows.iter().enumerate() {
            prop_assert_eq!(leaf::search(&page, key), Ok(SlotId(i as u16)));
            let record = LeafRecord::parse(page.rec(SlotId(i as u16))).unwrap();
            prop_assert_eq!(record.value, &value[..]);
            let mut rebuilt = Vec::new();
            prop_assert_eq!(record.rebuild_earlier(&mut rebuilt).unwrap(), before.is_some());
            if let Some(before) = before {
                prop_assert_eq!(&rebuilt, before);
            }
        }
    }

    /// `child_for` agrees with a linear search.
    #[test]
    fn inner_search_agrees_with_a_scan(
        keys in proptest::collection::btree_set(bytes(4), 0..40), probe in bytes(5),
    ) {
        let mut page = PageBuf::zeroed();
        page.format(PageType::Inner, ID, 1, ObjectId(1));
        let keys: Vec<_> = std::iter::once(Vec::new()).chain(keys.into_iter().filter(|k| !k.is_empty())).collect();
        for (i, key) in keys.iter().enumerate() {
            page.insert(SlotId(i as u16), &inner::encode(key, PageId(100 + i as u64))).unwrap();
        }
        let want = keys.iter().rposition(|key| *key <= probe).unwrap();
        prop_assert_eq!(
            inner::child_for(&page, &probe),
            (SlotId(want as u16), PageId(100 + want as u64))
        );
        prop_assert_eq!(validate(&page), Vec::<String>::new());
    }
}
