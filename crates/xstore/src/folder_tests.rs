use resurgam_vfs::{FaultPlan, RealVfs, SimVfs};

use super::*;
use crate::{FaultyStore, Misdeed, StoreCall};

const ROOT: &str = "archive";

fn on(sim: &SimVfs) -> FolderStore {
    FolderStore::open(Arc::new(sim.clone()), Path::new(ROOT)).unwrap()
}

fn exercise(store: &dyn Store) {
    store.put("a/one", b"hello").unwrap();
    assert_eq!(store.put("a/one", b"other").unwrap_err().kind(), StoreErrorKind::Exists);
    let mut first = store.create("a/two").unwrap();
    let second = store.create("a/two").unwrap();
    first.append(b"fir").unwrap();
    first.append(b"st").unwrap();
    assert_eq!(store.read("a/two", 0, 1).unwrap_err().kind(), StoreErrorKind::Missing);
    first.publish().unwrap();
    assert_eq!(second.publish().unwrap_err().kind(), StoreErrorKind::Exists);
    drop(store.create("a/never").unwrap());
    assert_eq!(store.list("a/").unwrap(), ["a/one", "a/two"]);
    assert_eq!(store.list("a/t").unwrap(), ["a/two"]);
    assert!(store.list("b/").unwrap().is_empty());
    assert_eq!(store.read("a/two", 1, 4).unwrap(), b"irst");
    assert_eq!(store.get("a/one", 5).unwrap(), b"hello");
    assert_eq!(store.get("a/one", 4).unwrap_err().kind(), StoreErrorKind::Invalid);
    assert_eq!(store.len("a/two").unwrap(), 5);
    assert_eq!(store.read("a/two", 1, 5).unwrap_err().kind(), StoreErrorKind::Short);
    assert_eq!(store.read("a/two", u64::MAX, 5).unwrap_err().kind(), StoreErrorKind::Short);
    assert_eq!(store.read("../a/two", 0, 1).unwrap_err().kind(), StoreErrorKind::Invalid);
    store.delete("a/two").unwrap();
    store.delete("a/two").unwrap();
    assert_eq!(store.read("a/two", 0, 1).unwrap_err().kind(), StoreErrorKind::Missing);
    store.tidy("a").unwrap();
}

#[test]
fn objects_on_both_disks() {
    exercise(&on(&SimVfs::new(1)));
    let dir = tempfile::tempdir().unwrap();
    exercise(&FolderStore::open(Arc::new(RealVfs::new()), &dir.path().join("x/y")).unwrap());
}

/// Creates three objects with a crash at every call; what was acknowledged is there, what is there is whole.
fn crashes(make: impl Fn(&SimVfs) -> FolderStore) -> Result<(), String> {
    let content = |i: u8| vec![i; 3000];
    for seed in 0..8 {
        for crash_at in 1..40 {
            let sim = SimVfs::new(seed * 1000 + crash_at);
            let store = make(&sim);
            sim.set_faults(FaultPlan { crash_after_ops: Some(crash_at), ..FaultPlan::default() });
            let done: Vec<u8> = (1..=3).filter(|i| store.put(&format!("runs/{i}"), &content(*i)).is_ok()).collect();
            let after = on(&sim.crash());
            let there = after.list("runs/").unwrap();
            for i in done {
                if !there.contains(&format!("runs/{i}")) {
                    return Err(format!("crash at {crash_at}: object {i} was acknowledged and is gone"));
                }
            }
            for name in there {
                let i = name.rsplit('/').next().and_then(|n| n.parse().ok()).unwrap();
                if after.get(&name, 1 << 20).unwrap() != content(i) {
                    return Err(format!("crash at {crash_at}: object {i} is torn"));
                }
                assert_eq!(after.put(&name, b"x").unwrap_err().kind(), StoreErrorKind::Exists);
            }
            after.tidy("runs").unwrap_or_default();
        }
    }
    Ok(())
}

#[test]
fn a_crash_at_any_call_leaves_whole_objects() {
    crashes(on).unwrap();
}

#[test]
fn canary_rename_before_sync_is_caught() {
    crashes(|sim| on(sim).rename_before_sync()).unwrap_err();
}

#[test]
fn who_is_told_that_it_exists_may_rely_on_it() {
    for seed in 0..16 {
        let sim = SimVfs::new(seed);
        let store = on(&sim);
        store.put("m/1", b"1").unwrap();
        // Sync of the file, then of the folder: the second one fails.
        sim.set_faults(FaultPlan { fail_sync_at: Some(2), ..FaultPlan::default() });
        assert_eq!(store.put("m/2", b"2").unwrap_err().kind(), StoreErrorKind::Uncertain);
        assert_eq!(store.put("m/2", b"2").unwrap_err().kind(), StoreErrorKind::Exists);
        assert_eq!(on(&sim.crash()).get("m/2", 9).unwrap(), b"2");
    }
}

#[test]
fn a_full_disk_is_told_and_leaves_nothing() {
    let sim = SimVfs::new(1);
    let store = on(&sim);
    sim.set_faults(FaultPlan { capacity_bytes: Some(1000), ..FaultPlan::default() });
    assert_eq!(store.put("a/1", &[7; 2000]).unwrap_err().kind(), StoreErrorKind::Full);
    store.put("a/1", &[7; 900]).unwrap();
}

#[test]
fn racing_creators_have_one_winner() {
    let dir = tempfile::tempdir().unwrap();
    let store = FolderStore::open(Arc::new(RealVfs::new()), dir.path()).unwrap();
    for round in 0..20 {
        let name = format!("manifests/{round}");
        let wins: usize = std::thread::scope(|scope| {
            let racers: Vec<_> = (0..4u8)
                .map(|i| {
                    let (store, name) = (&store, &name);
                    scope.spawn(move || match store.put(name, &[i; 100]) {
                        Ok(()) => 1,
                        Err(e) if e.kind() == StoreErrorKind::Exists => 0,
                        Err(e) => panic!("{e}"),
                    })
                })
                .collect();
            racers.into_iter().map(|racer| racer.join().unwrap()).sum()
        });
        assert_eq!(wins, 1);
    }
}

#[test]
fn a_faulty_store_does_what_it_is_told() {
    let store = FaultyStore::new(Arc::new(on(&SimVfs::new(1))));
    store.at(StoreCall::Publish, 2, Misdeed::Fail(StoreErrorKind::Full));
    store.at(StoreCall::Publish, 3, Misdeed::ApplyAndFail);
    store.put("a/1", b"1").unwrap();
    assert_eq!(store.put("a/2", b"2").unwrap_err().kind(), StoreErrorKind::Full);
    assert_eq!(store.put("a/3", b"3").unwrap_err().kind(), StoreErrorKind::Uncertain);
    assert_eq!(store.list("a/").unwrap(), ["a/1", "a/3"]);
    store.always(StoreCall::Read, Some(Misdeed::Fail(StoreErrorKind::Unavailable)));
    assert_eq!(store.len("a/1").unwrap_err().kind(), StoreErrorKind::Unavailable);
    store.always(StoreCall::Read, None);
    assert_eq!((store.len("a/1").unwrap(), store.calls(StoreCall::Publish)), (1, 3));
}

/// What a store is asked for and does late is done once, by it or by the next one; what has come before it stays.
#[test]
fn a_store_that_does_late_what_it_was_asked_for() {
    let sim = SimVfs::new(2);
    let faulty = || FaultyStore::new(Arc::new(on(&sim)));
    let store = faulty();
    store.put("a/1", b"1").unwrap();
    store.always(StoreCall::Publish, Some(Misdeed::Late));
    store.always(StoreCall::Delete, Some(Misdeed::Late));
    store.at(StoreCall::List, 1, Misdeed::Late);
    assert_eq!(store.list("a/").unwrap_err().kind(), StoreErrorKind::Unavailable);
    for error in [store.put("a/2", b"2"), store.put("a/3", b"3"), store.delete("a/1")].map(Result::unwrap_err) {
        assert_eq!(error.kind(), StoreErrorKind::Uncertain);
    }
    assert_eq!((store.list("a/").unwrap(), store.late()), (vec!["a/1".to_owned()], 3));
    store.heal();
    store.put("a/2", b"another").unwrap();
    store.end_late(0);
    assert_eq!((store.get("a/2", 9).unwrap(), store.late()), (b"another".to_vec(), 2));
    let next = faulty();
    next.add_late(store.take_late());
    while next.late() > 0 {
        next.end_late(0);
    }
    assert_eq!(next.list("a/").unwrap(), ["a/2", "a/3"]);
    assert_eq!(next.get("a/3", 9).unwrap(), b"3");
    store.end_late(0);
}

/// Killed at any step, a process leaves folders that may go with the power. The next one's objects do not.
#[test]
fn folders_that_a_killed_process_has_made() {
    for seed in 0..8 {
        for at in 1..30 {
            let sim = SimVfs::new(seed * 100 + at);
            sim.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
            let root = Path::new("a/b/archive");
            if let Ok(store) = FolderStore::open(Arc::new(sim.clone()), root) {
                let _ = store.put("runs/1", b"one");
            }
            let sim = sim.kill();
            let store = FolderStore::open(Arc::new(sim.clone()), root).unwrap();
            store.put("runs/2", b"two").unwrap();
            let after = FolderStore::open(Arc::new(sim.crash()), root).unwrap();
            assert_eq!(after.get("runs/2", 9).ok().as_deref(), Some(&b"two"[..]), "seed {seed}, step {at}");
        }
    }
}
