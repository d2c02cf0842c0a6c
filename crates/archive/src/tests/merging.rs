//! What merges may leave out and put in.

use std::cell::Cell;
use std::sync::Arc;

use resurgam_base::{Lsn, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_vfs::SimVfs;

use super::support::{DATABASE, Logged, Rng, open, replay, small, store_on};
use crate::merge::{PLANTED, Planted};
use crate::{ArchiveConfig, History, MergePolicy, verify};

/// Where more runs wait than a fan-in has, more are merged at once; and a merge can be made to rest anywhere.
#[test]
fn more_runs_are_merged_where_more_wait() -> Result<()> {
    let history = Logged::random(3, 300, 9);
    let store = store_on(&SimVfs::new(3));
    let mut archiver = open(&store, 1)?;
    let mut n = 0;
    history.feed(&mut archiver, |archiver, _| {
        n += 1;
        if n % 8 == 0 {
            archiver.seal()?;
        }
        Ok(true)
    })?;
    archiver.seal()?;
    let archive = archiver.archive();
    let runs = archive.view().manifest().runs.len();
    assert!(runs > 9, "{runs}");
    let config = |fan_in, fan_in_max| ArchiveConfig { fan_in, fan_in_max, ..small() };
    assert_eq!(archive.runs_waiting(&config(runs + 1, 64)), 0);
    assert!(!archive.wants_merge(&config(runs + 1, 64)));
    assert_eq!(archive.runs_waiting(&config(3, 5)), runs);
    let rests = Cell::new(0);
    let rest = || rests.set(rests.get() + 1);
    let merge = |config: &ArchiveConfig| -> Result<Option<usize>> {
        let mut policy = MergePolicy { rest: Some(&rest), ..MergePolicy::keep_all() };
        Ok(archive.merge(config, &mut policy)?.map(|merged| merged.inputs))
    };
    assert_eq!(merge(&config(3, 5))?, Some(5));
    assert!(rests.get() > 20, "{} pages, read twice", history.pages.len());
    assert_eq!(archive.runs_waiting(&config(3, 5)), runs - 5, "a run of a higher level is alone");
    assert_eq!(merge(&config(3, 2))?, Some(3), "the least is a fan-in");
    assert_eq!(merge(&config(3, 64))?, Some(runs - 8));
    assert_eq!(archive.runs_waiting(&config(3, 64)), 3);
    assert_eq!(merge(&config(3, 64))?, Some(3), "of the next level");
    assert_eq!((merge(&config(3, 64))?, archive.view().manifest().runs.len()), (None, 1));
    assert!(verify(Arc::clone(&store), Some(DATABASE))?.problems.is_empty());
    Ok(())
}

/// At every promised point every page is what the log makes of it; before it, that or an error.
#[test]
fn leaving_out_and_images_keep_every_promised_point() {
    promised_points(30);
}

#[test]
fn canaries_of_merging_are_caught() {
    for bug in [Planted::EarlyImage, Planted::LeavesOutTooMuch, Planted::HoleInTheMiddle] {
        PLANTED.set(Some(bug));
        let caught = std::panic::catch_unwind(|| promised_points(30)).is_err();
        PLANTED.set(None);
        assert!(caught);
    }
}

fn promised_points(seeds: u64) {
    let (mut dropped, mut images, mut refused) = (0, 0, 0);
    for seed in 0..seeds {
        let history = Logged::random(seed, 400, 6 + seed % 9);
        let mut rng = Rng(seed + 77);
        let store = store_on(&SimVfs::new(seed));
        let mut archiver = open(&store, 1).unwrap();
        let cap = 3 + rng.below(8);
        let mut retention = Lsn::NONE;
        let mut merge = |archiver: &crate::Archiver, rng: &mut Rng| -> Result<()> {
            let end = archiver.durable_to();
            if rng.below(2) == 0 {
                retention = retention.max(Lsn(history.any_lsn(rng).0.min(end.0)));
            }
            // Now and then somebody asks for less than was promised before: a hole must not come to stand in the middle.
            let asked = if rng.below(4) == 0 { Lsn::NONE } else { retention };
            let mut base = |page: PageId, lsn: Lsn| -> Result<Option<PageBuf>> { Ok(Some(history.page_at(page, lsn))) };
            let mut policy =
                MergePolicy { retention: asked, records_per_page_max: cap, base: Some(&mut base), rest: None };
            while archiver.archive().merge(&small(), &mut policy)?.is_some() {}
            Ok(())
        };
        history
            .feed(&mut archiver, |archiver, _| {
                if rng.below(6) == 0 {
                    archiver.seal()?;
                    merge(archiver, &mut rng)?;
                }
                Ok(true)
            })
            .unwrap();
        archiver.seal().unwrap();
        let view = archiver.archive().view();
        let report = verify(Arc::clone(&store), Some(DATABASE)).unwrap();
        assert!(report.problems.is_empty(), "seed {seed} {report}");
        let last = Lsn(view.end().0 - 1);
        for page in history.pages.keys() {
            for _ in 0..30 {
                let to = history.any_lsn(&mut rng).min(last);
                match view.records_of(*page, Lsn::NONE, to, History::SinceAnew) {
                    Ok(records) => {
                        let found = replay(*page, &records);
                        let wanted = history.page_at(*page, to);
                        assert!(found.as_bytes() == wanted.as_bytes(), "seed {seed} page {page} at {to}");
                    }
                    Err(error) => {
                        assert!(
                            to < retention,
                            "seed {seed}: page {page} at {to} was promised from {retention}: {error}"
                        );
                        refused += 1;
                    }
                }
            }
        }
        for i in 0..view.manifest().runs.len() {
            let run = view.run(i).unwrap();
            let summary = run.summary();
            dropped += summary.dropped_records;
            images += summary.images;
            assert!(summary.complete_from <= retention);
            // Within a merged run no page takes more than so many records.
            if run.meta().id.level > 0 {
                for page in history.pages.keys() {
                    let Some(entry) = run.entry(*page).unwrap() else { continue };
                    let records =
                        view.records_of(*page, Lsn(run.meta().id.start.0 - 1), entry.last, History::SinceAnew);
                    if let Ok(records) = records {
                        assert!(records.len() as u64 <= cap + 1, "{} records, cap {cap}", records.len());
                    }
                }
            }
        }
    }
    assert!(dropped > 1000 && images > 100 && refused > 50, "{dropped} {images} {refused}");
}

/// A base that is not the page before its first record is not used.
#[test]
fn an_image_is_made_of_the_right_base_only() {
    let history = Logged::random(5, 400, 3);
    let store = store_on(&SimVfs::new(1));
    let mut archiver = open(&store, 1).unwrap();
    history.feed(&mut archiver, |archiver, _| archiver.seal().map(|_| true)).unwrap();
    let mut wrong = |page: PageId, lsn: Lsn| Ok(Some(history.page_at(page, Lsn(lsn.0 - 1))));
    let mut policy = MergePolicy { retention: Lsn::NONE, records_per_page_max: 2, base: Some(&mut wrong), rest: None };
    while archiver.archive().merge(&small(), &mut policy).unwrap().is_some() {}
    let view = archiver.archive().view();
    let to = Lsn(view.end().0 - 1);
    for page in history.pages.keys() {
        let records = view.records_of(*page, Lsn::NONE, to, History::SinceAnew).unwrap();
        assert!(replay(*page, &records).as_bytes() == history.page_at(*page, to).as_bytes(), "page {page}");
    }
    history.compare(&view).unwrap();
}

/// A merge that is told to stop ends at the next page, leaves nothing behind, and the archive is what it was.
#[test]
fn a_merge_stops_when_it_is_told_to() {
    let history = Logged::random(5, 400, 12);
    let store = store_on(&SimVfs::new(5));
    let mut archiver = open(&store, 1).unwrap();
    history.feed(&mut archiver, |archiver, _| archiver.seal().map(|_| true)).unwrap();
    archiver.seal().unwrap();
    let archive = archiver.archive();
    let before = archive.view().manifest().clone();
    // In the middle of it: pages come one after the other, and this one is asked for some way in.
    let asked = std::cell::Cell::new(0);
    let mut base = |page: PageId, lsn: Lsn| -> Result<Option<PageBuf>> {
        asked.set(asked.get() + 1);
        if asked.get() == 3 {
            archive.stop_merges();
        }
        Ok(Some(history.page_at(page, lsn)))
    };
    let mut policy = MergePolicy { retention: Lsn::NONE, records_per_page_max: 1, base: Some(&mut base), rest: None };
    let mut merges = 0;
    while archive.merge(&small(), &mut policy).unwrap().is_some() {
        merges += 1;
    }
    assert_eq!(asked.get(), 3, "it went on after {merges} merges");
    if merges == 0 {
        assert_eq!(*archive.view().manifest(), before);
    }
    assert!(archive.merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_none(), "nor is another one begun");
    let runs = archive.view().manifest().runs.len();
    assert_eq!(store.list("runs/").unwrap().len(), runs, "what was begun is gone");
    // Whoever opens it next goes on.
    let archiver = open(&store, 2).unwrap();
    assert!(archiver.archive().merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_some());
    history.compare(&archiver.archive().view()).unwrap();
}
