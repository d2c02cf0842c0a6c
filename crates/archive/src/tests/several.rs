//! Several processes at one archive: one that appends, others that merge beside it, and those that slept meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use resurgam_base::ErrorKind;
use resurgam_vfs::SimVfs;
use resurgam_xstore::{Store, StoreError, StoreErrorKind, StoreResult, Upload};

use super::support::{DATABASE, Logged, open, small, store_on};
use crate::{Archive, Archiver, MergePolicy, verify};

fn appender(store: &Arc<dyn Store>, owner: u64) -> Archiver {
    Archiver::new(Archive::open_to_append(Arc::clone(store), DATABASE, owner, None).unwrap(), small())
}

fn is_whole(history: &Logged, store: &Arc<dyn Store>) {
    let report = verify(Arc::clone(store), Some(DATABASE)).unwrap();
    assert!(report.problems.is_empty(), "{report}");
    let view = Archive::open_view(Arc::clone(store), Some(DATABASE)).unwrap().unwrap();
    assert_eq!(view.end(), history.end);
    history.compare(&view).unwrap();
}

/// Takes all blocks that the archive lacks, a run each.
fn append(history: &Logged, archiver: &mut Archiver) {
    history.feed(archiver, |archiver, _| archiver.seal().map(|_| true)).unwrap();
    archiver.seal().unwrap();
}

/// Who has looked at it earlier does not take it from who appends.
#[test]
fn an_archive_that_has_grown_is_not_claimed() {
    let history = Logged::random(7, 20, 9);
    let store = store_on(&SimVfs::new(7));
    let mut archiver = appender(&store, 1);
    let seen = archiver.archive().view().end();
    append(&history, &mut archiver);
    let claim = |end| Archive::open_to_append(Arc::clone(&store), DATABASE, 2, Some(end)).map(drop);
    assert_eq!(claim(seen).unwrap_err().kind(), ErrorKind::Io);
    let number = |store: &Arc<dyn Store>| {
        Archive::open_view(Arc::clone(store), Some(DATABASE)).unwrap().unwrap().manifest().number
    };
    assert_eq!(number(&store), archiver.archive().view().manifest().number, "nothing was claimed");
    claim(history.end).unwrap();
    is_whole(&history, &store);
}

#[test]
fn one_appends_and_another_merges_beside_it() {
    for seed in 1..6 {
        let history = Logged::random(seed, 120, 9);
        let store = store_on(&SimVfs::new(seed));
        let mut archiver = appender(&store, 1);
        let beside = Archive::open_beside(Arc::clone(&store), seed).unwrap().unwrap();
        let (mut n, mut merges) = (0, 0);
        history
            .feed(&mut archiver, |archiver, _| {
                archiver.seal()?;
                n += 1;
                if n % 5 == 0 {
                    beside.catch_up()?;
                    merges += u32::from(beside.merge(&small(), &mut MergePolicy::keep_all())?.is_some());
                }
                if n % 7 == 0 {
                    archiver.archive().delete_replaced()?;
                }
                Ok(true)
            })
            .unwrap();
        archiver.seal().unwrap();
        assert!(merges > 3, "{merges}");
        assert!(store.list("manifests/").unwrap().len() < 30, "old manifests are deleted by who appends");
        is_whole(&history, &store);
        // Whatever merges have replaced is deleted, by who merged.
        beside.catch_up().unwrap();
        assert_eq!(beside.delete_replaced().unwrap(), 0);
        assert_eq!(store.list("runs/").unwrap().len(), beside.view().manifest().runs.len());
        // Another one appends now: who merges is told, and opens it again.
        let _next = appender(&store, 2);
        assert_eq!(beside.catch_up().unwrap_err().kind(), ErrorKind::InUse);
        is_whole(&history, &store);
    }
}

/// Its number was given, and is free again: that its create succeeds says nothing.
#[test]
fn who_slept_while_manifests_were_deleted_has_added_nothing() {
    let history = Logged::random(4, 120, 9);
    let store = store_on(&SimVfs::new(1));
    let mut first = open(&store, 1).unwrap();
    let mut n = 0;
    history
        .feed(&mut first, |archiver, _| {
            n += 1;
            if n == 3 {
                archiver.seal()?;
            }
            // The rest of what it takes is in memory.
            Ok(n < 6)
        })
        .unwrap();
    let known = first.archive().view().manifest().number;
    let mut second = open(&store, 2).unwrap();
    append(&history, &mut second);
    second.archive().delete_replaced().unwrap();
    let next = crate::Manifest::name_of(known + 1);
    assert!(store.len(&next).is_err(), "its next number is free");
    assert_eq!(first.seal().unwrap_err().kind(), ErrorKind::InUse);
    assert_eq!(first.seal().unwrap_err().kind(), ErrorKind::InUse);
    is_whole(&history, &store);
    // The same of who merges beside a writer that is not another one: it goes on from what counts.
    let beside = Archive::open_beside(Arc::clone(&store), 5).unwrap().unwrap();
    for _ in 0..12 {
        while second.archive().merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_some() {}
        second.archive().give_up_before(second.archive().view().start()).unwrap();
        // Steps that change nothing but the number.
        second.archive().publish(|now| Ok(Some(now.clone()))).unwrap();
    }
    second.archive().delete_replaced().unwrap();
    let inputs = beside.view().manifest().runs.clone();
    let merged = beside.merge(&small(), &mut MergePolicy::keep_all());
    assert!(merged.as_ref().map_or(true, Option::is_none), "{merged:?} of {} runs", inputs.len());
    is_whole(&history, &store);
}

/// Both have seen the same manifest, and make a run of the same inputs: neither touches the other's.
#[test]
fn two_that_merge_at_one_time_make_files_of_their_own() {
    let history = Logged::random(4, 120, 9);
    let store = store_on(&SimVfs::new(1));
    let mut archiver = appender(&store, 1);
    append(&history, &mut archiver);
    let one = Archive::open_beside(Arc::clone(&store), 11).unwrap().unwrap();
    let other = Archive::open_beside(Arc::clone(&store), 12).unwrap().unwrap();
    // Held, so that the inputs are still there for the other.
    let reads = one.view();
    assert!(one.merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_some());
    assert!(other.merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_none());
    drop(reads);
    is_whole(&history, &store);
}

/// It was opened, and slept before it tidied up: what came after it stays.
#[test]
fn a_claim_that_slept_deletes_nothing_of_later_ones() {
    let history = Logged::random(4, 120, 9);
    let store = store_on(&SimVfs::new(1));
    let first = open(&store, 1).unwrap();
    let mut second = appender(&store, 2);
    append(&history, &mut second);
    let beside = Archive::open_beside(Arc::clone(&store), 3).unwrap().unwrap();
    assert!(beside.merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_some());
    first.archive().tidy().unwrap();
    is_whole(&history, &store);
}

/// Who appends merges as well, while somebody merges and gives up beside it: everything is there once, whoever was first, and each deletes what it has replaced.
#[test]
fn who_appends_merges_and_others_do_beside() {
    for seed in 1..6 {
        let history = Logged::random(seed, 120, 9);
        let store = store_on(&SimVfs::new(seed));
        let mut archiver = appender(&store, 1);
        let beside = Archive::open_beside(Arc::clone(&store), seed).unwrap().unwrap();
        let (mut n, mut own, mut others) = (0, 0, 0);
        history
            .feed(&mut archiver, |archiver, _| {
                archiver.seal()?;
                n += 1;
                let archive = archiver.archive();
                if n % 4 == 0 {
                    archive.catch_up()?;
                    own += u32::from(archive.merge(&small(), &mut MergePolicy::keep_all())?.is_some());
                }
                if n % 9 == 0 {
                    beside.catch_up()?;
                    others += u32::from(beside.merge(&small(), &mut MergePolicy::keep_all())?.is_some());
                }
                Ok(true)
            })
            .unwrap();
        archiver.seal().unwrap();
        let archive = archiver.archive();
        assert!(own > 3 && others > 0, "{own} {others}");
        assert_eq!(archive.merge_progress(), None, "none is under way");
        is_whole(&history, &store);
        // What is merged beside is left to who has merged it: it may be reading it.
        archive.catch_up().unwrap();
        while archive.merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_some() {}
        beside.catch_up().unwrap();
        assert_eq!((archive.delete_replaced().unwrap(), beside.delete_replaced().unwrap()), (0, 0));
        assert_eq!(store.list("runs/").unwrap().len(), archive.view().manifest().runs.len());
        // It gives up, and whoever is beside goes on from there.
        let view = archive.view();
        let (gone, end) = (view.manifest().runs.first().map(|run| run.id), view.end());
        drop(view);
        let gone = gone.expect("a run");
        if gone.end < end {
            assert_eq!(archive.give_up_before(gone.end).unwrap(), gone.end);
            archive.delete_replaced().unwrap();
            assert!(store.len(&gone.name()).is_err(), "it is deleted by who has given it up");
            beside.catch_up().unwrap();
            assert_eq!(beside.view().start(), gone.end);
        }
    }
}

/// What it merges is there, and the archive is claimed before a manifest names it: nothing of that counts.
#[test]
fn who_has_lost_it_in_the_middle_of_a_merge_has_changed_nothing() {
    let history = Logged::random(4, 120, 9);
    let store = store_on(&SimVfs::new(1));
    let mut first = appender(&store, 1);
    append(&history, &mut first);
    let archive = Arc::clone(first.archive());
    let is_claimed = std::cell::Cell::new(false);
    let claim = || {
        if !is_claimed.replace(true) {
            drop(Archive::open_to_append(Arc::clone(&store), DATABASE, 2, None).unwrap());
        }
    };
    let mut policy = MergePolicy { rest: Some(&claim), ..MergePolicy::keep_all() };
    assert_eq!(archive.merge(&small(), &mut policy).unwrap_err().kind(), ErrorKind::InUse);
    assert!(is_claimed.get());
    is_whole(&history, &store);
    // Nor does it give anything up.
    assert_eq!(archive.give_up_before(history.end).unwrap_err().kind(), ErrorKind::InUse);
    is_whole(&history, &store);
}

/// Who only catches up while another one merges and gives up keeps nothing of what is gone: it is not his to delete.
#[test]
fn who_only_looks_on_keeps_no_list_of_what_others_replace() {
    let history = Logged::random(3, 120, 9);
    let store = store_on(&SimVfs::new(3));
    let mut archiver = appender(&store, 1);
    let beside = Archive::open_beside(Arc::clone(&store), 3).unwrap().unwrap();
    let mut merges = 0;
    history
        .feed(&mut archiver, |archiver, _| {
            archiver.seal()?;
            while archiver.archive().merge(&small(), &mut MergePolicy::keep_all())?.is_some() {
                merges += 1;
                beside.catch_up()?;
                assert_eq!(beside.noted(), (0, 0));
            }
            Ok(true)
        })
        .unwrap();
    archiver.seal().unwrap();
    let archive = archiver.archive();
    let first = archive.view().manifest().runs[0].id.end;
    archive.give_up_before(first).unwrap();
    beside.catch_up().unwrap();
    assert!(merges > 8, "{merges}");
    assert_eq!((beside.view().start(), beside.noted()), (first, (0, 0)));
    assert_eq!(archive.noted(), (1, 0), "who has given it up deletes it");
    assert_eq!(archive.delete_replaced().unwrap(), 0);
}

/// Lists nothing while that is so, or from the next manifest on; and says once of a manifest that it made that it is not known whether it is there.
struct Blind {
    below: Arc<dyn Store>,
    is_blind: Arc<AtomicBool>,
    from_next_manifest: AtomicBool,
}

impl Store for Blind {
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
        if name.starts_with("manifests/") && self.from_next_manifest.swap(false, Ordering::SeqCst) {
            self.is_blind.store(true, Ordering::SeqCst);
        }
        self.below.create(name)
    }
    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
        self.below.read(name, offset, len)
    }
    fn len(&self, name: &str) -> StoreResult<u64> {
        self.below.len(name)
    }
    fn list(&self, prefix: &str) -> StoreResult<Vec<String>> {
        if self.is_blind.load(Ordering::SeqCst) {
            return Err(StoreError::new(StoreErrorKind::Unavailable, "it does not answer"));
        }
        self.below.list(prefix)
    }
    fn delete(&self, name: &str) -> StoreResult<()> {
        self.below.delete(name)
    }
    fn sync_deletes(&self, folder: &str) -> StoreResult<()> {
        self.below.sync_deletes(folder)
    }
    fn tidy(&self, folder: &str) -> StoreResult<()> {
        self.below.tidy(folder)
    }
    fn place(&self) -> String {
        self.below.place()
    }
}

/// The manifest of a merge, and one that gives up, are made, and who made them cannot see that: what they replaced goes once it is seen.
#[test]
fn what_a_step_of_unknown_outcome_has_replaced_is_deleted() {
    for others_go_on in [false, true] {
        let history = Logged::random(4, 120, 9);
        let below = store_on(&SimVfs::new(1));
        let is_blind = Arc::new(AtomicBool::new(false));
        let store = Arc::new(Blind {
            below: Arc::clone(&below),
            is_blind: Arc::clone(&is_blind),
            from_next_manifest: AtomicBool::new(false),
        });
        let through: Arc<dyn Store> = Arc::clone(&store) as Arc<dyn Store>;
        let mut archiver = appender(&through, 1);
        append(&history, &mut archiver);
        let archive = archiver.archive();
        let merge = || archive.merge(&small(), &mut MergePolicy::keep_all());
        let files = || below.list("runs/").unwrap().len();
        // Somebody beside merges what was made, before it is seen here.
        let go_on = || {
            let beside = Archive::open_beside(Arc::clone(&below), 9).unwrap().unwrap();
            while beside.merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_some() {}
            assert_eq!(beside.delete_replaced().unwrap(), 0);
        };
        store.from_next_manifest.store(true, Ordering::SeqCst);
        assert_eq!(merge().unwrap_err().kind(), ErrorKind::Io);
        assert!(archive.noted().1 > 0, "it is perhaps replaced");
        is_blind.store(false, Ordering::SeqCst);
        if others_go_on {
            go_on();
        }
        archive.catch_up().unwrap();
        while merge().unwrap().is_some() {}
        assert_eq!((archive.delete_replaced().unwrap(), archive.noted()), (0, (0, 0)));
        assert_eq!(files(), archive.view().manifest().runs.len(), "nothing else is there");
        is_whole(&history, &below);
        let first = archive.view().manifest().runs[0].id;
        store.from_next_manifest.store(true, Ordering::SeqCst);
        assert_eq!(archive.give_up_before(first.end).unwrap_err().kind(), ErrorKind::Io);
        is_blind.store(false, Ordering::SeqCst);
        assert_eq!(archive.give_up_before(first.end).unwrap(), first.end);
        assert_eq!(archive.delete_replaced().unwrap(), 0);
        assert!(below.len(&first.name()).is_err(), "it is deleted");
        assert_eq!(files(), archive.view().manifest().runs.len());
    }
}
