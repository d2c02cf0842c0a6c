//! Byte diffs: how to get `target` from `base`.
//!
//! Serves two masters: the in-row earlier version (base = the row's value now,
//! target = the value before) and log patches (base = the record before, target =
//! the record after).
//!
//! ```text
//! empty                        target = base
//! 0 { skip varint, len varint, bytes }...   same length: overwrite runs; `skip`
//!                              counts from the end of the run before
//! 1 prefix varint, suffix varint, bytes     target = base's first `prefix` bytes,
//!                              `bytes`, base's last `suffix` bytes
//! ```
//! Runs that are fewer than [`GAP`] equal bytes apart are merged.

use crate::codec::{Reader, put_varint, varint_len};
use resurgam_base::Result;

/// Equal bytes that end a run: fewer would cost as much as a new run saves.
const GAP: usize = 4;
const RUNS: u8 = 0;
const SPLICE: u8 = 1;

/// Length of the longest common prefix.
#[inline]
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let mut n = 0;
    for (x, y) in a.chunks_exact(8).zip(b.chunks_exact(8)) {
        if x != y {
            break;
        }
        n += 8;
    }
    n + a[n..].iter().zip(&b[n..]).take_while(|(x, y)| x == y).count()
}

#[inline]
fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count()
}

/// Appends to `out` how to get `target` from `base`. Appends nothing if they are equal.
pub fn diff(base: &[u8], target: &[u8], out: &mut Vec<u8>) {
    if base.len() == target.len() { runs(base, target, out) } else { splice(base, target, out) }
}

fn runs(base: &[u8], target: &[u8], out: &mut Vec<u8>) {
    let len = base.len();
    let mut done = 0;
    let mut at = common_prefix(base, target);
    if at < len {
        out.push(RUNS);
    }
    while at < len {
        let mut end = at + 1;
        let mut equal = 0;
        for i in at + 1..len {
            if base[i] != target[i] {
                end = i + 1;
                equal = 0;
            } else {
                equal += 1;
                if equal == GAP {
                    break;
                }
            }
        }
        put_varint(out, at - done);
        put_varint(out, end - at);
        out.extend_from_slice(&target[at..end]);
        done = end;
        at = end + common_prefix(&base[end..], &target[end..]);
    }
}

fn splice(base: &[u8], target: &[u8], out: &mut Vec<u8>) {
    let prefix = common_prefix(base, target);
    let suffix = common_suffix(&base[prefix..], &target[prefix..]);
    out.push(SPLICE);
    put_varint(out, prefix);
    put_varint(out, suffix);
    out.extend_from_slice(&target[prefix..target.len() - suffix]);
}

/// An upper bound of the bytes that [`diff`] appends.
pub fn len_max(base: &[u8], target: &[u8]) -> usize {
    1 + 2 * varint_len(base.len().max(target.len())) + target.len()
}

/// Length of the target that `diff` makes of a base of `base_len` bytes.
///
/// # Errors
/// `Corrupt` when the diff does not fit such a base.
pub fn target_len(base_len: usize, diff: &[u8]) -> Result<usize> {
    if diff.first() != Some(&SPLICE) {
        return Ok(base_len);
    }
    let mut r = Reader::new(&diff[1..], "diff");
    let (prefix, suffix) = (r.varint()?, r.varint()?);
    if prefix.saturating_add(suffix) > base_len {
        return Err(r.bad("prefix and suffix longer than the base"));
    }
    Ok(prefix + suffix + r.remaining())
}

/// Builds the target from `base` and `diff` into `out`, which is cleared first.
/// `Corrupt` if the diff does not fit the base or the result would pass `limit` bytes;
/// `out` then holds nothing of use.
pub fn apply(base: &[u8], diff: &[u8], limit: usize, out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    let mut r = Reader::new(diff, "diff");
    if base.len() > limit && diff.first() != Some(&SPLICE) {
        return Err(r.bad("result over the limit"));
    }
    if r.is_empty() {
        out.extend_from_slice(base);
        return Ok(());
    }
    match r.u8()? {
        RUNS => {
            out.extend_from_slice(base);
            let mut at = 0usize;
            while !r.is_empty() {
                let skip = r.varint()?;
                let bytes = r.counted()?;
                at = at.saturating_add(skip);
                let Some(hole) = at.checked_add(bytes.len()).and_then(|end| out.get_mut(at..end)) else {
                    return Err(r.bad("run past the end of the base"));
                };
                hole.copy_from_slice(bytes);
                at += bytes.len();
            }
        }
        SPLICE => {
            let (prefix, suffix) = (r.varint()?, r.varint()?);
            let middle = r.rest();
            if prefix.saturating_add(suffix) > base.len() {
                return Err(r.bad("prefix and suffix longer than the base"));
            }
            if prefix + suffix + middle.len() > limit {
                return Err(r.bad("result over the limit"));
            }
            out.reserve(prefix + suffix + middle.len());
            out.extend_from_slice(&base[..prefix]);
            out.extend_from_slice(middle);
            out.extend_from_slice(&base[base.len() - suffix..]);
        }
        _ => return Err(r.bad("unknown form")),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn round_trip(base: &[u8], target: &[u8]) -> usize {
        let mut d = Vec::new();
        diff(base, target, &mut d);
        assert!(d.len() <= len_max(base, target), "{} over {}", d.len(), len_max(base, target));
        let mut out = vec![1, 2, 3];
        apply(base, &d, target.len().max(base.len()), &mut out).unwrap();
        assert_eq!(out, target);
        assert_eq!(target_len(base.len(), &d).unwrap(), target.len());
        d.len()
    }

    #[test]
    fn small_changes_are_small() {
        let base: Vec<u8> = (0..200).collect();
        for at in [0, 100, 127, 128, 196] {
            let mut target = base.clone();
            for b in &mut target[at..at + 4] {
                *b = !*b;
            }
            assert!(round_trip(&base, &target) <= 8, "at {at}");
        }
        assert_eq!(round_trip(&base, &base), 0);
        let mut longer = base.clone();
        longer.insert(50, 9);
        assert!(round_trip(&base, &longer) <= 5);
        assert!(round_trip(&longer, &base) <= 5);
    }

    /// The log relies on it: a version in a row is computed again by redo (`row_change.rs`). Whoever changes
    /// what [`diff`] makes changes the format of the log.
    #[test]
    fn what_is_made_is_part_of_the_format() {
        let made = |base: &[u8], target: &[u8]| {
            let mut d = Vec::new();
            diff(base, target, &mut d);
            d
        };
        assert_eq!(made(b"same", b"same"), b"");
        assert_eq!(made(b"abcdefghij", b"aXcdefghij"), b"\x00\x01\x01X");
        // Three equal bytes do not end a run, four do.
        assert_eq!(made(b"a123b45678", b"X123Y45678"), b"\x00\x00\x05X123Y");
        assert_eq!(made(b"a1234b5678", b"X1234Y5678"), b"\x00\x00\x01X\x04\x01Y");
        assert_eq!(made(b"abcdef", b"abXYef"), b"\x00\x02\x02XY");
        assert_eq!(made(b"abcef", b"abcdef"), b"\x01\x03\x02d");
        assert_eq!(made(b"aaa", b"aaaaa"), b"\x01\x03\x00aa");
        assert_eq!(made(b"abc", b""), b"\x01\x00\x00");
    }

    #[test]
    fn limit_is_kept() {
        let mut d = Vec::new();
        diff(b"abc", b"abcdefgh", &mut d);
        assert!(apply(b"abc", &d, 7, &mut Vec::new()).is_err());
        assert!(apply(b"abc", &d, 8, &mut Vec::new()).is_ok());
        assert!(apply(b"abc", &[], 2, &mut Vec::new()).is_err());
        assert!(apply(b"xyz", &[0, 1, 3, 1, 1, 1], 9, &mut Vec::new()).is_err());
        assert!(apply(b"xyz", &[1, 2, 2], 9, &mut Vec::new()).is_err());
        assert!(apply(b"xyz", &[2], 9, &mut Vec::new()).is_err());
    }

    proptest! {
        #[test]
        fn any_pair_round_trips(
            base in proptest::collection::vec(0u8..3, 0..80),
            target in proptest::collection::vec(0u8..3, 0..80),
        ) {
            round_trip(&base, &target);
        }

        #[test]
        fn sparse_changes_round_trip(
            base in proptest::collection::vec(any::<u8>(), 1..300),
            changes in proptest::collection::vec((any::<u16>(), any::<u8>()), 0..12),
        ) {
            let mut target = base.clone();
            for (at, byte) in changes {
                let at = at as usize % target.len();
                target[at] = byte;
            }
            round_trip(&base, &target);
        }

        #[test]
        fn random_diffs_never_panic(
            base in proptest::collection::vec(any::<u8>(), 0..40),
            d in proptest::collection::vec(any::<u8>(), 0..40),
            limit in 0usize..60,
        ) {
            let mut out = Vec::new();
            if apply(&base, &d, limit, &mut out).is_ok() {
                prop_assert!(out.len() <= limit);
            }
        }
    }
}
