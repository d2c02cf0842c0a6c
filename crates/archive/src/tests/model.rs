//! Random logs, cuts, merges and restarts against a map.

use resurgam_base::{Lsn, PageId, TxId};
use resurgam_log::{BlockMark, RecordKind};
use resurgam_vfs::SimVfs;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use super::support::{CONFIG, DATABASE, Logged, Rng, open, small, store_on};
use crate::view::last_in_stream;
use crate::{History, MergePolicy, StreamEntry, verify};

#[test]
fn what_is_read_is_what_was_logged() {
    for seed in 0..40 {
        let history = Logged::random(seed, 300, 40);
        let mut rng = Rng(seed + 1000);
        let sim = SimVfs::new(seed);
        let store = store_on(&sim);
        let mut owner = 1;
        let mut archiver = open(&store, owner).unwrap();
        assert_eq!(archiver.resume_lsn(), None);
        while archiver.resume_lsn() != Some(history.end) {
            history
                .feed(&mut archiver, |archiver, block| {
                    match rng.below(12) {
                        0 => assert_eq!(archiver.seal()?, block.next()),
                        1 => {
                            archiver.archive().merge(&small(), &mut MergePolicy::keep_all())?;
                        }
                        2 => return Ok(false),
                        _ => {}
                    }
                    Ok(true)
                })
                .unwrap();
            if rng.below(3) == 0 {
                owner += 1;
                archiver = open(&store, owner).unwrap();
                assert_eq!(archiver.resume_lsn(), Some(archiver.durable_to()).filter(|lsn| lsn.is_some()));
            }
        }
        archiver.seal().unwrap();
        let archive = archiver.archive();
        while archive.merge(&small(), &mut MergePolicy::keep_all()).unwrap().is_some() {}
        archive.delete_replaced().unwrap();
        let view = archive.view();
        assert_eq!((view.start(), view.end()), (CONFIG.first_lsn(), history.end));
        history.compare(&view).unwrap();
        let mut reader = history.reader(CONFIG.first_lsn());
        let mut last = None;
        while let Some(block) = reader.next_whole_block().unwrap() {
            last = Some(block.mark());
        }
        assert_eq!(view.last_block().unwrap(), last, "of the log, whatever was merged");
        // What runs say that were written before they said so in their summary.
        for index in 0..view.manifest().runs.len() {
            let run = view.run(index).unwrap();
            let mark = run.summary().last_block;
            let known = BlockMark { opening: 0, checksum: 0, ..mark };
            assert_eq!(last_in_stream(&run).unwrap(), known);
        }
        let files = store.list("runs/").unwrap();
        assert_eq!(files.len(), view.manifest().runs.len(), "replaced files are gone");
        let report = verify(Arc::clone(&store), Some(DATABASE)).unwrap();
        assert!(report.problems.is_empty(), "{report}");

        for _ in 0..60 {
            let (a, b) = (history.any_lsn(&mut rng), history.any_lsn(&mut rng));
            let (from, to) = (a.min(b), a.max(b));
            let page = PageId(rng.below(42) + 1);
            let wanted = history.of(page, from, to);
            assert_eq!(view.records_of(page, from, to, History::All).unwrap(), wanted);
            // One at a time, and broken off somewhere.
            let (mut some, most) = (Vec::new(), rng.below(8) as usize + 1);
            let mut each = |record: resurgam_log::RecordRef<'_>| {
                some.push(record.to_owned());
                Ok(if some.len() == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            };
            view.fold_page(page, from, to, History::All, &mut each).unwrap();
            assert_eq!(some, wanted[..most.min(wanted.len())]);
            let short = view.records_of(page, from, to, History::SinceAnew).unwrap();
            assert!(wanted.ends_with(&short));
            assert!(short.len() == wanted.len() || crate::item::makes_anew(&short[0].body));
            let last = history.of(page, Lsn::NONE, Lsn(u64::MAX)).last().map_or(Lsn::NONE, |record| record.lsn);
            assert_eq!(view.last_lsn(page).unwrap(), last);

            let end = PageId(page.0 + rng.below(10));
            let mut scan = view.scan(page..end, from, to, History::All).unwrap();
            let mut found = BTreeMap::new();
            let mut before = PageId::NONE;
            while let Some(page) = scan.next_page().unwrap() {
                assert!(before < page, "in order of pages");
                before = page;
                while let Some(record) = scan.next_record().unwrap() {
                    found.entry(page).or_insert_with(Vec::new).push(record.to_owned());
                }
            }
            let mut wanted: BTreeMap<_, _> =
                history.pages.range(page..end).map(|(page, _)| (*page, history.of(*page, from, to))).collect();
            wanted.retain(|_, records| !records.is_empty());
            assert_eq!(found, wanted);
            // Pages passed over in the middle do not matter to those behind.
            let mut scan = view.scan(page..end, from, to, History::All).unwrap();
            while let Some(page) = scan.next_page().unwrap() {
                // One that has none in the range after all is possible.
                let (all, some) = (wanted.get(&page).map_or(&[][..], |all| all), rng.below(4) as usize);
                for record in &all[..some.min(all.len())] {
                    assert_eq!(&scan.next_record().unwrap().unwrap().to_owned(), record);
                }
            }

            let mut stream = view.stream(a).unwrap();
            let mut others = Vec::new();
            while let Some(entry) = stream.next_entry().unwrap() {
                if let StreamEntry::Record(record) = entry {
                    others.push(record.to_owned());
                }
            }
            let wanted: Vec<_> = history.others.iter().filter(|record| record.lsn >= a).cloned().collect();
            assert_eq!(others, wanted);
        }
    }
}

#[test]
fn the_stream_knows_who_was_active() {
    let history = Logged::random(7, 300, 20);
    let store = store_on(&SimVfs::new(1));
    let mut archiver = open(&store, 1).unwrap();
    history.feed(&mut archiver, |_, _| Ok(true)).unwrap();
    archiver.seal().unwrap();
    let view = archiver.archive().view();
    assert!(view.manifest().runs.len() > 1, "more than one workspace");
    let mut first: BTreeMap<TxId, Lsn> = BTreeMap::new();
    let mut undo = Vec::new();
    let mut stream = view.stream(view.start()).unwrap();
    while let Some(entry) = stream.next_entry().unwrap() {
        let (tx, lsn) = match entry {
            StreamEntry::FirstOf { tx, lsn } => (tx, lsn),
            StreamEntry::Record(record) => (record.header.tx, record.lsn),
            StreamEntry::Undo { tx, lsn, page, .. } => {
                undo.push((tx, lsn, page));
                (tx, lsn)
            }
            StreamEntry::Block { .. } => continue,
        };
        if tx.is_some() {
            first.entry(tx).or_insert(lsn);
        }
    }
    let mut wanted = BTreeMap::new();
    let mut wanted_undo = Vec::new();
    for record in &history.records {
        if record.header.tx.is_some() {
            wanted.entry(record.header.tx).or_insert(record.lsn);
        }
        if record.header.kind == RecordKind::PageUndo {
            wanted_undo.push((record.header.tx, record.lsn, record.header.page));
        }
    }
    assert_eq!((first, undo), (wanted, wanted_undo));
    let highest = history.records.iter().map(|record| record.header.tx).max();
    let runs: Vec<_> = (0..view.manifest().runs.len()).map(|i| *view.run(i).unwrap().summary()).collect();
    assert_eq!(runs.iter().map(|run| run.highest_tx).max(), highest);
    let pages = history.pages.keys().filter(|page| page.file() == 0).max();
    assert_eq!(runs.iter().map(|run| run.highest_page).max().as_ref(), pages);
    assert_eq!(runs.iter().map(|run| run.highest_object).max(), Some(7));
}

#[test]
fn what_is_in_memory_is_found_without_a_run() {
    let history = Logged::random(9, 60, 10);
    let store = store_on(&SimVfs::new(1));
    let mut archiver = open(&store, 1).unwrap();
    let mut n = 0;
    history
        .feed(&mut archiver, |archiver, _| {
            n += 1;
            if n == 5 {
                archiver.seal()?;
            }
            Ok(n < 9)
        })
        .unwrap();
    let (sealed, to) = (archiver.durable_to(), archiver.resume_lsn().unwrap());
    assert_eq!(archiver.unsorted_from(), sealed);
    for page in history.pages.keys() {
        let found = archiver.unsorted_records_of(*page, Lsn::NONE).unwrap();
        assert_eq!(found, history.of(*page, Lsn(sealed.0 - 1), Lsn(to.0 - 1)));
    }
}

#[test]
fn blocks_must_follow_each_other() {
    let history = Logged::random(3, 60, 10);
    let store = store_on(&SimVfs::new(1));
    let mut archiver = open(&store, 1).unwrap();
    let mut reader = history.reader(CONFIG.first_lsn());
    archiver.take(&reader.next_whole_block().unwrap().unwrap()).unwrap();
    reader.next_whole_block().unwrap();
    let third = reader.next_whole_block().unwrap().unwrap();
    assert!(archiver.take(&third).is_err());
    let view = archiver.archive().view();
    assert!(view.scan(PageId(1)..PageId(2), Lsn::NONE, third.lsn(), History::All).is_err(), "not archived yet");
}
