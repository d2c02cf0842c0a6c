//! Sorting records by their keys, which are compared as bytes.
//!
//! Beside where a record is, an entry has eight bytes of its key as a number: those behind what all keys have in common. Entries are
//! sorted as plain numbers, that number first and then the place, so that most of the sort looks at no key. Where the eight bytes
//! are equal, the next ones of just these keys are taken; of a few, and of keys that end there, the keys themselves are compared.
//!
//! # Invariants
//! 1. The order is that of the keys, and of equal keys that of the places: of the records as they were taken.
//! 2. There is no memory but the entries.
//! 3. Bytes are looked at in steps of at least eight: a key of the longest kind is done after some hundred steps.

/// One record: its place and length, of which no place is further than 4 GB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Entry {
    /// From the top: eight bytes of the key, the place, the length. As one number it is compared without a branch.
    packed: u128,
}

impl Entry {
    pub fn new(at: usize, len: usize) -> Self {
        debug_assert!(u32::try_from(at).is_ok() && u32::try_from(len).is_ok());
        Self { packed: u128::from(at as u32) << 32 | u128::from(len as u32) }
    }
    pub fn at(self) -> usize {
        (self.packed >> 32) as u32 as usize
    }
    pub fn len(self) -> usize {
        self.packed as u32 as usize
    }
    fn head(self) -> u64 {
        (self.packed >> 64) as u64
    }
    fn set_head(&mut self, head: u64) {
        self.packed = self.packed & u128::from(u64::MAX) | u128::from(head) << 64;
    }
}

/// So many entries are worth it to look at more of their keys together.
const FEW: usize = 24;

/// Sorts entries, whose keys `key` gives.
pub(crate) fn sort<'k>(entries: &mut [Entry], key: impl Fn(Entry) -> &'k [u8] + Copy) {
    sort_behind(entries, 0, key);
}

/// Sorts entries whose keys have the first `common` bytes in common, if they are so long.
fn sort_behind<'k>(entries: &mut [Entry], common: usize, key: impl Fn(Entry) -> &'k [u8] + Copy) {
    if entries.len() <= FEW {
        return sort_compared(entries, key);
    }
    let behind = |entry: Entry| key(entry).get(common..).unwrap_or_default();
    let first = behind(entries[0]);
    let mut shared = first.len();
    for entry in &entries[1..] {
        let rest = behind(*entry);
        if rest.get(..shared) != Some(&first[..shared]) {
            shared = first.iter().zip(rest).take_while(|(a, b)| a == b).count().min(shared);
        }
    }
    let all_are_equal = shared == first.len() && entries.iter().all(|entry| behind(*entry).len() == shared);
    for entry in entries.iter_mut() {
        let rest = &behind(*entry)[shared..];
        let head = match rest.first_chunk::<8>() {
            Some(head) => *head,
            None => {
                let mut head = [0; 8];
                head[..rest.len()].copy_from_slice(rest);
                head
            }
        };
        entry.set_head(u64::from_be_bytes(head));
    }
    entries.sort_unstable();
    if all_are_equal {
        return;
    }
    let seen = common + shared + 8;
    let mut rest = entries;
    while let Some(first) = rest.first() {
        let head = first.head();
        let same = rest.iter().take_while(|entry| entry.head() == head).count();
        let (run, behind) = std::mem::take(&mut rest).split_at_mut(same);
        rest = behind;
        match run {
            [_] => {}
            // A key that ends there is below one that goes on with zeros.
            run if run.iter().any(|entry| key(*entry).len() < seen) => sort_compared(run, key),
            run => sort_behind(run, seen, key),
        }
    }
}

fn sort_compared<'k>(entries: &mut [Entry], key: impl Fn(Entry) -> &'k [u8] + Copy) {
    entries.sort_unstable_by(|a, b| key(*a).cmp(key(*b)).then(a.at().cmp(&b.at())));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sorts keys both ways, and compares.
    fn is_sorted_as_plain(keys: &[Vec<u8>]) {
        let mut bytes = Vec::new();
        let mut entries = Vec::new();
        for key in keys {
            entries.push(Entry::new(bytes.len(), key.len()));
            bytes.extend_from_slice(key);
            // Equal keys, and empty ones, have places of their own.
            bytes.push(0xee);
        }
        let key = |entry: Entry| &bytes[entry.at()..entry.at() + entry.len()];
        let mut plain: Vec<(&[u8], usize)> = entries.iter().map(|entry| (key(*entry), entry.at())).collect();
        plain.sort();
        sort(&mut entries, key);
        let sorted: Vec<(&[u8], usize)> = entries.iter().map(|entry| (key(*entry), entry.at())).collect();
        assert_eq!(sorted, plain);
    }

    proptest! {
        #[test]
        fn order_of_random_keys(keys in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..12), 0..300)) {
            is_sorted_as_plain(&keys);
        }

        /// Few bytes, zeros among them, long runs of equal ones: heads are equal, keys are prefixes of each other.
        #[test]
        fn order_of_keys_that_are_alike(
            keys in proptest::collection::vec((0..3u8, 0..40usize, 0..2u8, 0..20usize, any::<bool>()), 0..400),
        ) {
            let made = |(a, n, b, m, end): &(u8, usize, u8, usize, bool)| {
                let mut key = vec![*a; *n];
                key.extend(std::iter::repeat_n(*b, *m));
                key.extend(end.then_some(0xff));
                key
            };
            is_sorted_as_plain(&keys.iter().map(made).collect::<Vec<_>>());
        }
    }

    #[test]
    fn many_equal_keys_and_long_ones() {
        is_sorted_as_plain(&vec![b"the same key".to_vec(); 5000]);
        is_sorted_as_plain(&vec![Vec::new(); 100]);
        let long = |n: u32| [vec![7; 2500], (n % 97).to_be_bytes().to_vec(), vec![7; (n % 5) as usize]].concat();
        is_sorted_as_plain(&(0..2000).map(long).collect::<Vec<_>>());
        // As keys are of two integers, the second of which ascends.
        let pair = |n: u32| {
            let first = n.wrapping_mul(2_654_435_761) % 300;
            [[1, 0x80, 0, 0, 0].as_slice(), &first.to_be_bytes(), &[1, 0x80, 0, 0, 0], &n.to_be_bytes()].concat()
        };
        is_sorted_as_plain(&(0..20_000).map(pair).collect::<Vec<_>>());
    }
}
