//! Random operations beside a `BTreeMap`: what is read is the same, transactions that fail leave nothing, and a reopened database
//! has what was committed.

use std::collections::BTreeMap;
use std::ops::Bound;

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use resurgam_embedded::{Db, Error, Recovery, Result, Table, WriteTx, row};

use crate::{options, seed};

const BYTES: Table<Vec<u8>, Vec<u8>> = Table::new("bytes");
const PAIRS: Table<(i16, String), Option<u64>> = Table::new("pairs");

row! {
    #[derive(Debug, Clone, PartialEq)]
    struct Thing in "things" {
        id: u16,
        name: String,
        group: Option<i8>,
        data: Vec<u8>,
    }
    key(id: u16);
    unique name(name);
    index group(group);
}

#[derive(Clone, Default)]
struct Model {
    bytes: BTreeMap<Vec<u8>, Vec<u8>>,
    pairs: BTreeMap<(i16, String), Option<u64>>,
    things: BTreeMap<u16, Thing>,
}

fn bytes(random: &mut StdRng, most: usize) -> Vec<u8> {
    let len = random.random_range(0..=most);
    // Few different ones, and those that keys have to escape.
    (0..len).map(|_| [0, 1, b'a', 0xfe, 0xff][random.random_range(0..5)]).collect()
}

/// Now and then one that does not fit a page.
fn data(random: &mut StdRng) -> Vec<u8> {
    let len = match random.random_range(0..20) {
        0 => random.random_range(0..40_000),
        1..4 => random.random_range(0..3000),
        _ => random.random_range(0..50),
    };
    vec![random.random(); len]
}

fn key(random: &mut StdRng) -> (i16, String) {
    (random.random_range(-3..3), ["", "a", "ab", "b", "ż"][random.random_range(0..5)].repeat(random.random_range(0..3)))
}

fn bound<T>(random: &mut StdRng, make: impl Fn(&mut StdRng) -> T) -> Bound<T> {
    match random.random_range(0..3) {
        0 => Bound::Unbounded,
        1 => Bound::Included(make(random)),
        _ => Bound::Excluded(make(random)),
    }
}

/// Whether a range of a `BTreeMap` would panic.
fn is_backwards<T: Ord>((low, high): &(Bound<T>, Bound<T>)) -> bool {
    match (low, high) {
        (Bound::Excluded(a), Bound::Excluded(b)) => a >= b,
        (Bound::Included(a) | Bound::Excluded(a), Bound::Included(b) | Bound::Excluded(b)) => a > b,
        _ => false,
    }
}

fn some_operation(tx: &WriteTx, model: &mut Model, random: &mut StdRng) -> Result<()> {
    let (all, pairs, things) = (tx.table(&BYTES)?, tx.table(&PAIRS)?, tx.rows::<Thing>()?);
    match random.random_range(0..23) {
        0..3 => {
            let (key, value) = (bytes(random, 6), data(random));
            let was = model.bytes.insert(key.clone(), value.clone()).is_some();
            assert_eq!(all.put(&key, &value)?, was);
        }
        3 => {
            let (key, value) = (bytes(random, 6), data(random));
            match all.insert(&key, &value) {
                Ok(()) => assert!(model.bytes.insert(key, value).is_none()),
                Err(Error::Duplicate { .. }) => assert!(model.bytes.contains_key(&key)),
                Err(other) => return Err(other),
            }
        }
        4 => {
            let key = bytes(random, 6);
            assert_eq!(all.take(&key)?, model.bytes.remove(&key));
        }
        5 => {
            let key = bytes(random, 6);
            assert_eq!(all.get(&key)?, model.bytes.get(&key).cloned());
        }
        6 => {
            let prefix = bytes(random, 2);
            let found: Vec<_> = all.prefix(&prefix)?.collect::<Result<_>>()?;
            let want = model.bytes.iter().filter(|(key, _)| key.starts_with(&prefix));
            assert_eq!(found, want.map(|(k, v)| (k.clone(), v.clone())).collect::<Vec<_>>());
        }
        7 => {
            let bounds = (bound(random, |r| bytes(r, 4)), bound(random, |r| bytes(r, 4)));
            let mut want: Vec<_> = if is_backwards(&bounds) {
                Vec::new()
            } else {
                model.bytes.range(bounds.clone()).map(|(k, _)| k.clone()).collect()
            };
            assert_eq!(all.count_in(bounds.clone())?, want.len() as u64);
            // From both ends, in any order.
            let mut rows = all.range(bounds)?;
            loop {
                let front: bool = random.random();
                let (found, wanted) = match front {
                    true => (rows.next(), (!want.is_empty()).then(|| want.remove(0))),
                    false => (rows.next_back(), want.pop()),
                };
                let found = found.transpose()?.map(|(key, _)| key);
                assert_eq!(found, wanted);
                if found.is_none() {
                    break;
                }
            }
        }
        8 => {
            assert_eq!(all.pop_first()?, model.bytes.pop_first());
        }
        9..11 => {
            let (key, value) = (key(random), random.random::<bool>().then(|| random.random()));
            assert_eq!(pairs.put(&key, &value)?, model.pairs.insert(key, value).is_some());
        }
        11 => {
            let key = key(random);
            assert_eq!(pairs.delete(&key)?, model.pairs.remove(&key).is_some());
        }
        12 => {
            let bounds = (bound(random, key), bound(random, key));
            let want: Vec<_> = if is_backwards(&bounds) {
                Vec::new()
            } else {
                model.pairs.range(bounds.clone()).map(|(k, v)| (k.clone(), *v)).collect()
            };
            let found: Vec<_> = pairs.range(bounds)?.collect::<Result<_>>()?;
            assert_eq!(found, want);
        }
        13 => {
            let first = random.random_range(-3..3);
            let found: Vec<_> = pairs.prefix(&(first,))?.rev().map(|row| Ok(row?.0)).collect::<Result<_>>()?;
            let want = model.pairs.keys().rev().filter(|key| key.0 == first);
            assert_eq!(found, want.cloned().collect::<Vec<_>>());
        }
        14..17 => {
            let thing = Thing {
                id: random.random_range(0..40),
                name: format!("n{}", random.random_range(0..40)),
                group: random.random::<bool>().then(|| random.random_range(-2..2)),
                data: data(random),
            };
            let taken = model.things.values().any(|other| other.name == thing.name && other.id != thing.id);
            match things.put(&thing) {
                Ok(was) => {
                    assert!(!taken);
                    assert_eq!(model.things.insert(thing.id, thing).is_some(), was);
                }
                Err(Error::Duplicate { index, .. }) => assert!(taken && index == "things_name_key"),
                Err(other) => return Err(other),
            }
        }
        17 => {
            let id = random.random_range(0..40);
            assert_eq!(things.delete(&id)?, model.things.remove(&id).is_some());
        }
        18 => {
            let group = random.random::<bool>().then(|| random.random_range(-2..2i8));
            let mut found: Vec<_> = things.by("group")?.all(&group)?.collect::<Result<_>>()?;
            found.sort_by_key(|thing| thing.id);
            let want = model.things.values().filter(|thing| thing.group == group);
            assert_eq!(found, want.cloned().collect::<Vec<_>>());
        }
        20 => {
            // All of them or none, in whatever order.
            let pairs: Vec<_> = (0..random.random_range(0..40)).map(|_| (bytes(random, 6), data(random))).collect();
            let mut after = model.bytes.clone();
            let is_new = pairs.iter().all(|(key, value)| after.insert(key.clone(), value.clone()).is_none());
            match all.insert_all(pairs.iter().map(|(key, value)| (key.as_slice(), value.as_slice()))) {
                Ok(rows) => {
                    assert!(is_new && rows == pairs.len() as u64);
                    model.bytes = after;
                }
                Err(Error::Duplicate { .. }) => assert!(!is_new),
                Err(other) => return Err(other),
            }
        }
        21 => {
            let first = random.random_range(0..40u16);
            let new: Vec<Thing> = (first..first + random.random_range(0..4))
                .map(|id| Thing {
                    id,
                    name: format!("n{}", random.random_range(0..40)),
                    group: random.random::<bool>().then(|| random.random_range(-2..2)),
                    data: data(random),
                })
                .collect();
            let mut after = model.things.clone();
            // What is wrong with the first that cannot be written is what is said.
            let refused = new.iter().find_map(|thing| {
                let name = after.values().any(|other| other.name == thing.name).then_some("things_name_key");
                let id = after.insert(thing.id, thing.clone()).map(|_| "things_pkey");
                id.or(name)
            });
            match things.insert_all(&new) {
                Ok(rows) => {
                    assert!(refused.is_none() && rows == new.len() as u64);
                    model.things = after;
                }
                Err(Error::Duplicate { index, .. }) => assert_eq!(Some(index.as_str()), refused),
                Err(other) => return Err(other),
            }
        }
        _ => {
            let name = format!("n{}", random.random_range(0..40));
            let want = model.things.values().find(|thing| thing.name == name);
            assert_eq!(things.by("name")?.get(&name)?.as_ref(), want);
        }
    }
    Ok(())
}

fn check_all(db: &Db, model: &Model) {
    db.read(|tx| {
        let all: BTreeMap<_, _> = tx.table(&BYTES)?.iter()?.collect::<Result<_>>()?;
        assert_eq!(all, model.bytes);
        let pairs: BTreeMap<_, _> = tx.table(&PAIRS)?.iter()?.collect::<Result<_>>()?;
        assert_eq!(pairs, model.pairs);
        let things: Vec<_> = tx.rows::<Thing>()?.iter()?.collect::<Result<_>>()?;
        assert_eq!(things, model.things.values().cloned().collect::<Vec<_>>());
        assert_eq!(tx.rows::<Thing>()?.by("group")?.count_in(..)?, model.things.len() as u64);
        Ok(())
    })
    .unwrap();
}

#[test]
fn random_operations_are_those_of_a_map() {
    random_operations(Recovery::Accelerated, seed("random_operations_are_those_of_a_map"));
}

#[test]
fn random_operations_in_the_traditional_mode_as_well() {
    random_operations(Recovery::Traditional, seed("random_operations_in_the_traditional_mode_as_well"));
}

fn random_operations(recovery: Recovery, seed: u64) {
    let mut random = StdRng::seed_from_u64(seed);
    let dir = tempfile::tempdir().unwrap();
    let open = || options().memory(1 << 20).recovery(recovery).open(dir.path().join("db")).unwrap();
    let mut db = open();
    db.create_table(&BYTES).unwrap();
    db.create_table(&PAIRS).unwrap();
    db.create::<Thing>().unwrap();
    let mut model = Model::default();
    for round in 0..120 {
        let kept = random.random_range(0..4) > 0;
        let operations = random.random_range(1..40);
        let mut changed = Model::default();
        let result = db.write(|tx| {
            changed = model.clone();
            for _ in 0..operations {
                if random.random_range(0..8) == 0 {
                    let mut part = changed.clone();
                    let keep: bool = random.random();
                    let done = tx.savepoint(|tx| {
                        for _ in 0..4 {
                            some_operation(tx, &mut part, &mut random)?;
                        }
                        if keep { Ok(()) } else { Err(Error::custom("back")) }
                    });
                    match done {
                        Ok(()) => changed = part,
                        Err(Error::Custom(_)) => {}
                        Err(other) => return Err(other),
                    }
                } else {
                    some_operation(tx, &mut changed, &mut random)?;
                }
            }
            if kept { Ok(()) } else { Err(Error::custom("no")) }
        });
        match result {
            Ok(()) => model = changed,
            Err(Error::Custom(_)) => assert!(!kept),
            Err(other) => panic!("round {round}: {other}"),
        }
        if random.random_range(0..15) == 0 {
            check_all(&db, &model);
            drop(db);
            db = open();
        }
    }
    check_all(&db, &model);
}
