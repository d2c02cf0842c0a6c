//! The set against a `BTreeSet`; its bytes, true and false.

use std::collections::BTreeSet;

use proptest::prelude::*;
use resurgam_base::{ErrorKind, Result, TxId};

use super::TxIdSet;
use super::codec::ID_SET_BODY_MAX;

fn of(set: &TxIdSet) -> Vec<u64> {
    set.iter().map(|id| id.0).collect()
}

fn decoded(bodies: &[Vec<u8>]) -> Result<TxIdSet> {
    let mut all = TxIdSet::default();
    for body in bodies {
        all.insert_all(&TxIdSet::decode(body)?);
    }
    Ok(all)
}

/// The set is what the model is, by every way to ask.
fn same(set: &TxIdSet, model: &BTreeSet<u64>) -> Result<(), TestCaseError> {
    prop_assert_eq!(set.len(), model.len() as u64);
    prop_assert_eq!(set.is_empty(), model.is_empty());
    prop_assert_eq!(set.first().map(|id| id.0), model.first().copied());
    prop_assert_eq!(set.last().map(|id| id.0), model.last().copied());
    prop_assert!(set.iter().map(|id| id.0).eq(model.iter().copied()));
    let mut end = None;
    for (first, last) in set.ranges() {
        prop_assert!(first <= last && end.is_none_or(|end: TxId| end.0 + 1 < first.0), "ranges that touch are one");
        end = Some(last);
    }
    let bodies = set.encode();
    prop_assert!(bodies.iter().all(|body| body.len() <= ID_SET_BODY_MAX));
    let back = decoded(&bodies).map_err(|e| TestCaseError::fail(e.to_string()))?;
    prop_assert_eq!(&back, set);
    prop_assert_eq!(back.len(), set.len());
    Ok(())
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u64, u64),
    Remove(u64, u64),
    /// Every so manieth of a stretch, in or out: many runs.
    Comb(u64, u64, u64, bool),
    /// Keeps a copy, to be added or taken out by a later one.
    Copy,
    AddCopy,
    TakeCopy,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    // Near the borders of chunks as well as anywhere, in few chunks so that they fill up.
    let id = prop_oneof![0..200_000u64, 65_500..65_600u64, 131_000..131_100u64];
    let len = prop_oneof![4 => 0..4u64, 1 => 0..70_000u64, 1 => 60..70u64];
    let step = prop_oneof![
        6 => (id.clone(), len.clone()).prop_map(|(a, n)| Step::Insert(a, a + n)),
        3 => (id.clone(), len).prop_map(|(a, n)| Step::Remove(a, a + n)),
        2 => (id, 1..6000u64, 2..12u64, any::<bool>()).prop_map(|(a, n, by, add)| Step::Comb(a, n, by, add)),
        1 => Just(Step::Copy),
        1 => Just(Step::AddCopy),
        1 => Just(Step::TakeCopy),
    ];
    proptest::collection::vec(step, 0..40)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn behaves_as_a_set_of_ids(steps in steps(), asked in proptest::collection::vec(0..300_000u64, 200)) {
        let (mut set, mut model) = (TxIdSet::default(), BTreeSet::new());
        let mut copy = (set.clone(), model.clone());
        for step in steps {
            match step {
                Step::Insert(a, b) => {
                    let had = model.len();
                    model.extend(a..=b);
                    prop_assert_eq!(set.insert_range(TxId(a), TxId(b)), (model.len() - had) as u64);
                }
                Step::Remove(a, b) => {
                    let had = model.len();
                    model = model.split_off(&0).into_iter().filter(|id| !(a..=b).contains(id)).collect();
                    prop_assert_eq!(set.remove_range(TxId(a), TxId(b)), (had - model.len()) as u64);
                }
                Step::Comb(a, n, by, add) => for id in (0..n).map(|i| a + i * by) {
                    if add {
                        prop_assert_eq!(set.insert(TxId(id)), model.insert(id));
                    } else {
                        prop_assert_eq!(set.remove_range(TxId(id), TxId(id)) == 1, model.remove(&id));
                    }
                },
                Step::Copy => copy = (set.clone(), model.clone()),
                Step::AddCopy => {
                    set.insert_all(&copy.0);
                    model.extend(&copy.1);
                }
                Step::TakeCopy => {
                    set.remove_all(&copy.0);
                    model.retain(|id| !copy.1.contains(id));
                }
            }
        }
        same(&set, &model)?;
        for id in asked {
            prop_assert_eq!(set.contains(TxId(id)), model.contains(&id));
        }
        // What was copied is what it was, whatever happened to the original since.
        same(&copy.0, &copy.1)?;
    }

    /// Damaged bodies are refused or are some set; never a panic, never much memory.
    #[test]
    fn damaged_bodies(
        ids in proptest::collection::vec((0..1u64 << 40, 0..100u64), 1..50),
        comb in 0..9000u64,
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut set: TxIdSet = (0..comb).map(|i| TxId(i * 5)).collect();
        for (first, more) in ids {
            set.insert_range(TxId(first), TxId(first + more));
        }
        for mut body in set.encode() {
            let whole = body.len();
            for (at, byte) in &damage {
                body[at.index(whole)] = *byte;
            }
            for bytes in [&body[..], &body[..cut.index(whole)]] {
                match TxIdSet::decode(bytes) {
                    Ok(read) => {
                        prop_assert_eq!(read.len(), read.ranges().map(|(a, b)| b.0 - a.0 + 1).sum::<u64>());
                        prop_assert!(read.memory_bytes() <= 64 * bytes.len() + 20_000);
                    }
                    Err(error) => prop_assert_eq!(error.kind(), ErrorKind::Corrupt),
                }
            }
        }
    }

    #[test]
    fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        if let Ok(read) = TxIdSet::decode(&bytes) {
            prop_assert_eq!(decoded(&read.encode()).ok(), Some(read));
        }
    }
}

#[test]
fn the_highest_ids() -> Result<()> {
    let mut set = TxIdSet::default();
    assert_eq!(set.insert_range(TxId(u64::MAX - 100_000), TxId(u64::MAX)), 100_001);
    set.insert(TxId(0));
    assert_eq!(decoded(&set.encode())?, set);
    assert_eq!(set.remove_range(TxId(1), TxId(u64::MAX)), 100_001);
    assert_eq!(of(&set), [0]);
    assert_eq!((set.insert_range(TxId(9), TxId(8)), set.remove_range(TxId(9), TxId(8))), (0, 0));
    Ok(())
}

#[test]
fn what_a_body_may_not_say() {
    let bits = |byte: u8| [&[0u8, 0], &[byte; 8192][..]].concat();
    let wrong: [(&str, Vec<u8>); 10] = [
        ("nothing", vec![]),
        ("a number without a chunk", vec![5]),
        ("a run cut short", vec![5, 1, 3]),
        ("fewer runs than announced", vec![5, 2, 3, 0]),
        ("a run past the chunk's end", vec![5, 1, 0, 0x80, 0x80, 0x04]),
        ("a number twice as long as it need be", vec![5, 1, 0x83, 0x00, 0]),
        ("a chunk past the last id", vec![0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 1, 0, 0]),
        ("more than a number", [vec![0xFF; 10], vec![1, 1, 0, 0]].concat()),
        ("bits of nothing", bits(0)),
        ("bits of everything", bits(0xFF)),
    ];
    for (what, body) in wrong {
        assert!(TxIdSet::decode(&body).is_err_and(|e| e.kind() == ErrorKind::Corrupt), "{what}");
    }
    assert!(TxIdSet::decode(&bits(1)).is_ok_and(|set| set.len() == 8192));
    assert!(TxIdSet::decode(&[5, 1, 3, 0]).is_ok_and(|set| of(&set) == [5 * 65_536 + 3]));
    // A count of runs that would take all memory is not believed.
    assert!(TxIdSet::decode(&[vec![0], vec![0xFF; 9], vec![1, 1, 1]].concat()).is_err());
}

#[test]
fn millions_take_little_room() {
    let dense: TxIdSet = (1..=3_000_000).map(TxId).collect();
    assert!(dense.memory_bytes() < 10_000 && dense.encode().len() == 1);
    let tenth: TxIdSet = (1..=1_000_000).map(|i| TxId(i * 10)).collect();
    let bytes: usize = tenth.encode().iter().map(Vec::len).sum();
    assert!(tenth.memory_bytes() < 1_400_000 && bytes < 1_300_000, "{} {bytes}", tenth.memory_bytes());
    let copy = tenth.clone();
    let mut rest = tenth;
    rest.remove_all(&copy);
    assert!(rest.is_empty() && rest.memory_bytes() == 0 && copy.len() == 1_000_000);
}
