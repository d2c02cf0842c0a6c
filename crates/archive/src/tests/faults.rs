//! Stores that fail, or do what they then report as failed; other writers; and planted bugs.

use std::sync::Arc;

use resurgam_base::{ErrorKind, Lsn, PageId};
use resurgam_vfs::SimVfs;
use resurgam_xstore::{FaultyStore, Misdeed, Store, StoreCall, StoreErrorKind};

use super::support::{DATABASE, Logged, open, small, store_on};
use crate::{History, MergePolicy, verify};

/// Every publication goes wrong once, in each way; the caller calls again.
#[test]
fn a_store_that_fails_costs_a_retry() {
    let history = Logged::random(4, 60, 9);
    for misdeed in [
        Misdeed::Fail(StoreErrorKind::Unavailable),
        Misdeed::Fail(StoreErrorKind::Full),
        Misdeed::Fail(StoreErrorKind::Uncertain),
        Misdeed::ApplyAndFail,
    ] {
        for nth in 1..30 {
            let sim = SimVfs::new(nth);
            let faulty = Arc::new(FaultyStore::new(store_on(&sim)));
            let store: Arc<dyn Store> = Arc::clone(&faulty) as _;
            let mut archiver = open(&store, 1).unwrap();
            faulty.at(StoreCall::Publish, nth, misdeed);
            // More often than it is tried again at once.
            (1..6).for_each(|more| faulty.at(StoreCall::Publish, nth + more, misdeed));
            let mut n = 0;
            let mut errors = 0;
            while archiver.durable_to() != history.end {
                let fed = history.feed(&mut archiver, |archiver, _| {
                    n += 1;
                    if n % 4 == 0 {
                        archiver.seal()?;
                        archiver.archive().merge(&small(), &mut MergePolicy::keep_all())?;
                    }
                    Ok(true)
                });
                errors += u32::from(fed.and_then(|()| archiver.seal()).is_err());
                assert!(errors < 20, "{misdeed:?} at {nth}");
            }
            let report = verify(Arc::clone(&store), Some(DATABASE)).unwrap();
            assert!(report.problems.is_empty(), "{misdeed:?} at {nth}: {report}");
            history.compare(&archiver.archive().view()).unwrap();
            // Nothing is left that no manifest names, once it is opened again.
            let archiver = open(&store_on(&sim), 2).unwrap();
            assert_eq!(store.list("runs/").unwrap().len(), archiver.archive().view().manifest().runs.len());
        }
    }
}

/// What was reported as failed is there later, when a longer run was gathered in its place: the caller gathers again, from the archive's end.
#[test]
fn a_step_that_comes_late_costs_another_try() {
    let history = Logged::random(4, 60, 9);
    let mut again = 0;
    for nth in 1..30 {
        for end_after in 1..4 {
            let sim = SimVfs::new(nth);
            let faulty = Arc::new(FaultyStore::new(store_on(&sim)));
            let store: Arc<dyn Store> = Arc::clone(&faulty) as _;
            let mut archiver = open(&store, 1).unwrap();
            (0..6).for_each(|more| faulty.at(StoreCall::Publish, nth + more, Misdeed::Late));
            let (mut n, mut errors) = (0, 0);
            while archiver.durable_to() != history.end {
                let fed = history.feed(&mut archiver, |archiver, _| {
                    n += 1;
                    if n % end_after == 0 && faulty.late() > 0 {
                        faulty.end_late(0);
                    }
                    if n % 4 == 0 {
                        archiver.seal()?;
                    }
                    Ok(true)
                });
                if let Err(error) = fed.and_then(|()| archiver.seal()) {
                    errors += 1;
                    assert!(errors < 20, "{nth}, {end_after}: {error}");
                    assert_ne!(error.kind(), ErrorKind::Internal, "{nth}, {end_after}: {error}");
                    if error.kind() == ErrorKind::SerializationFailure {
                        again += 1;
                        archiver = open(&store, 1).unwrap();
                    }
                }
            }
            let report = verify(Arc::clone(&store), Some(DATABASE)).unwrap();
            assert!(report.problems.is_empty(), "{nth}, {end_after}: {report}");
            history.compare(&archiver.archive().view()).unwrap();
        }
    }
    assert!(again > 0, "none came late");
}

#[test]
fn who_was_taken_over_stops() {
    let history = Logged::random(4, 60, 9);
    let store = store_on(&SimVfs::new(1));
    let mut first = open(&store, 1).unwrap();
    history.feed(&mut first, |archiver, _| archiver.seal().map(|_| false)).unwrap();
    let mut second = open(&store, 2).unwrap();
    history.feed(&mut first, |_, _| Ok(true)).unwrap();
    assert_eq!(first.seal().unwrap_err().kind(), ErrorKind::InUse);
    assert_eq!(first.seal().unwrap_err().kind(), ErrorKind::InUse);
    history.feed(&mut second, |_, _| Ok(true)).unwrap();
    assert_eq!(second.seal().unwrap(), history.end);
    history.compare(&second.archive().view()).unwrap();
}

#[test]
fn a_view_keeps_its_files() {
    let history = Logged::random(4, 60, 9);
    let store = store_on(&SimVfs::new(1));
    let mut archiver = open(&store, 1).unwrap();
    history.feed(&mut archiver, |archiver, _| archiver.seal().map(|_| true)).unwrap();
    let old = archiver.archive().view();
    while archiver.archive().merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_some() {}
    assert!(archiver.archive().delete_replaced().unwrap() > 0);
    history.compare(&old).unwrap();
    drop(old);
    assert_eq!(archiver.archive().delete_replaced().unwrap(), 0);
    history.compare(&archiver.archive().view()).unwrap();
}

#[test]
fn what_is_given_up_is_refused_and_not_missing_in_silence() {
    let history = Logged::random(4, 120, 5);
    let store = store_on(&SimVfs::new(1));
    let mut archiver = open(&store, 1).unwrap();
    history.feed(&mut archiver, |archiver, _| archiver.seal().map(|_| true)).unwrap();
    let archive = Arc::clone(archiver.archive());
    let before = archive.view();
    let lsn = history.records[history.records.len() / 2].lsn;
    let start = archive.give_up_before(lsn).unwrap();
    assert!(start <= lsn && start > before.start());
    assert_eq!(archive.give_up_before(lsn).unwrap(), start);
    drop(before);
    assert_eq!(archive.delete_replaced().unwrap(), 0);
    let view = archive.view();
    assert_eq!(store.list("runs/").unwrap().len(), view.manifest().runs.len());
    assert!(verify(Arc::clone(&store), Some(DATABASE)).unwrap().problems.is_empty());
    let to = Lsn(view.end().0 - 1);
    for page in history.pages.keys() {
        let from = Lsn(start.0 - 1);
        assert_eq!(view.records_of(*page, from, to, History::All).unwrap(), history.of(*page, from, to));
        assert_eq!(view.records_of(*page, Lsn(start.0 - 2), to, History::All).unwrap_err().sqlstate(), "55000");
        match view.records_of(*page, Lsn::NONE, to, History::SinceAnew) {
            Ok(records) => assert!(records.is_empty() || crate::item::makes_anew(&records[0].body)),
            Err(error) => assert_eq!(error.sqlstate(), "55000"),
        }
    }
    assert!(view.stream(Lsn(start.0 - 1)).is_err());
    // Nothing left: the next run follows all the same.
    assert_eq!(archive.give_up_before(Lsn(u64::MAX)).unwrap(), history.end);
    assert_eq!(open(&store, 2).unwrap().resume_lsn(), Some(history.end));
}

/// A run that misses a group: refused when it is made; found when it was made all the same.
#[test]
fn canary_a_missed_group_is_caught() {
    let history = Logged::random(6, 60, 4);
    let victim = &history.records[history.records.len() / 2];
    let victim = history.records.iter().find(|r| r.header.first_of_group && r.lsn >= victim.lsn).unwrap();
    let next = history.records.iter().find(|r| r.header.first_of_group && r.lsn > victim.lsn).unwrap();
    let missed = history.records.iter().filter(|r| r.lsn >= victim.lsn && r.lsn < next.lsn);
    let missed: Vec<_> = missed.cloned().collect();

    let store = store_on(&SimVfs::new(1));
    let mut archiver = open(&store, 1).unwrap();
    archiver.workspace.miss_group_of = Some(victim.lsn);
    let mut lied = false;
    history
        .feed(&mut archiver, |archiver, block| {
            if block.next() > victim.lsn && !lied {
                assert_eq!(archiver.seal().unwrap_err().kind(), ErrorKind::Internal);
                // So that it passes for a run from which a merge has left something out.
                archiver.workspace.summary.dropped_bytes = missed.iter().map(|r| u64::from(r.header.len)).sum();
                lied = true;
            }
            Ok(true)
        })
        .unwrap();
    archiver.seal().unwrap();
    let report = verify(store, Some(DATABASE)).unwrap();
    assert!(!report.problems.is_empty());
    let view = archiver.archive().view();
    let to = Lsn(view.end().0 - 1);
    let page = missed.iter().find(|r| r.header.page != PageId::NONE).unwrap().header.page;
    let found = view.records_of(page, Lsn::NONE, to, History::All);
    assert_eq!(found.unwrap_err().kind(), ErrorKind::Corrupt);
}
