//! Finding a key among the records of a slotted page, in their order.
//!
//! A page that was not touched for a while is in none of the processor's near caches, and a binary search then
//! waits for memory at each of its six or seven steps. So the records of the next three steps, whichever way they
//! go, are asked for ahead, and arrive together.

use std::cmp::Ordering;

use crate::buf::PageBuf;
use resurgam_base::SlotId;

/// Order of two keys, by their bytes. Most are told apart by the first few, which are compared as one number.
#[inline]
pub(crate) fn compare(a: &[u8], b: &[u8]) -> Ordering {
    if let (Some((x, a)), Some((y, b))) = (a.split_first_chunk::<8>(), b.split_first_chunk::<8>()) {
        return u64::from_be_bytes(*x).cmp(&u64::from_be_bytes(*y)).then_with(|| a.cmp(b));
    }
    if let (Some((x, a)), Some((y, b))) = (a.split_first_chunk::<4>(), b.split_first_chunk::<4>()) {
        return u32::from_be_bytes(*x).cmp(&u32::from_be_bytes(*y)).then_with(|| a.cmp(b));
    }
    a.cmp(b)
}

/// The slot in `low..high` whose record is `Equal` by `order`, or the first one that is `Greater`.
#[inline]
pub(crate) fn find(page: &PageBuf, low: u16, high: u16, order: impl Fn(&[u8]) -> Ordering) -> Result<SlotId, SlotId> {
    let (mut low, mut high) = (low, high);
    let mut step = 0;
    while low < high {
        if step == 0 {
            ahead(page, low, high);
            step = 3;
        }
        step -= 1;
        let mid = middle(low, high);
        match order(page.rec(SlotId(mid))) {
            Ordering::Less => low = mid + 1,
            Ordering::Equal => return Ok(SlotId(mid)),
            Ordering::Greater => high = mid,
        }
    }
    Err(SlotId(low))
}

#[inline]
fn middle(low: u16, high: u16) -> u16 {
    low + (high - low) / 2
}

/// Asks for the records that the next three steps may look at.
#[inline]
fn ahead(page: &PageBuf, low: u16, high: u16) {
    let ask = |low: u16, high: u16| {
        let mid = middle(low, high);
        if low < high {
            page.prefetch(SlotId(mid));
        }
        [(low, mid), (high.min(mid + 1), high)]
    };
    for (low, high) in ask(low, high) {
        for (low, high) in ask(low, high) {
            ask(low, high);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn keys_compare_by_their_bytes(
            head in proptest::collection::vec(0..3u8, 0..12),
            a in proptest::collection::vec(any::<u8>(), 0..12),
            b in proptest::collection::vec(any::<u8>(), 0..12),
        ) {
            let (a, b) = ([head.clone(), a].concat(), [head, b].concat());
            prop_assert_eq!(compare(&a, &b), a.cmp(&b));
            prop_assert_eq!(compare(&a, &a), Ordering::Equal);
        }
    }
}
