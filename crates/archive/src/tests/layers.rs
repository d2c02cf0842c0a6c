//! Pages of a database that was made of another one, in layers; and what can be made of what is damaged.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{ErrorKind, Lsn, PageId};
use resurgam_page::PageBuf;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};

use super::making::{back_up, sealed, zeroed};
use super::support::{CONFIG, Logged, Rng, open, small, store_on};
use crate::{Archive, Archiver, MergePolicy, PageBase, PageMaker, View};

/// The archives of a log and of what goes on behind `cut` (the first block that begins there or later), as of a clone.
fn in_two(history: &Logged, cut: Lsn, rng: &mut Rng) -> (Arc<View>, Arc<View>, Lsn) {
    let mut layers = Vec::new();
    let mut reader = history.reader(CONFIG.first_lsn());
    let mut archiver = open(&store_on(&SimVfs::new(1)), 1).unwrap();
    let mut begins = None;
    while let Some(block) = reader.next_whole_block().unwrap() {
        if block.lsn() >= cut && begins.is_none() {
            begins = Some(block.lsn());
            archiver.seal().unwrap();
            layers.push(archiver.archive().view());
            let own = Archive::open(store_on(&SimVfs::new(2)), [9; 16], 5).unwrap();
            archiver = Archiver::new(own, small());
        }
        archiver.take(&block).unwrap();
        if rng.below(6) == 0 {
            archiver.seal().unwrap();
            archiver.archive().merge(&small(), &mut MergePolicy::keep_all()).unwrap();
        }
    }
    archiver.seal().unwrap();
    let own = archiver.archive().view();
    (layers.pop().unwrap(), own, begins.unwrap())
}

#[test]
fn pages_are_made_in_layers() {
    for seed in 0..20 {
        let history = Logged::random(seed, 300, 40);
        let mut rng = Rng(seed + 5);
        let middle = history.records[history.records.len() / 2].lsn;
        let (of_parent, own, cut) = in_two(&history, middle, &mut rng);
        let backup = back_up(&store_on(&SimVfs::new(3)), &history, &mut rng, of_parent.start(), Lsn(cut.0 / 2), 1);
        let bases = [None, Some(backup).filter(|backup| backup.summary().end < cut)];
        for base in bases {
            let parent = PageMaker::new(PageBase::unchecked(base), Arc::clone(&of_parent), Lsn(cut.0 - 1))
                .map(Arc::new)
                .unwrap();
            let base = PageBase::of_parent(Arc::clone(&parent), Some(&own), cut).unwrap();
            assert!(base.backup().is_none());
            let early = PageMaker::new(base.clone(), Arc::clone(&own), Lsn(cut.0 - 2)).err().unwrap();
            assert_eq!(early.kind(), ErrorKind::NotInPrerequisiteState);
            let late = PageBase::of_parent(parent, Some(&own), Lsn(cut.0 - 1)).err().unwrap();
            assert_eq!(late.kind(), ErrorKind::NotInPrerequisiteState);
            for at in [cut, history.any_lsn(&mut rng).max(cut), Lsn(own.end().0 - 1)] {
                let maker = PageMaker::new(base.clone(), Arc::clone(&own), at).unwrap();
                for first in [PageId(1), PageId::of_file(2, 1)] {
                    let mut pages = zeroed(200);
                    maker.make(first, &mut pages).unwrap();
                    for (i, page) in pages.iter().enumerate() {
                        let id = PageId(first.0 + i as u64);
                        assert!(
                            page.as_bytes() == sealed(&history, id, at).as_bytes(),
                            "seed {seed}: page {id} at {at}"
                        );
                    }
                }
            }
        }
    }
}

/// Flips bits: what does not need what is damaged is made all the same, and what does is told and is no page.
#[test]
fn a_page_that_cannot_be_made_fails_alone() {
    let (mut strict, mut sound, mut told) = (0, 0, 0);
    for seed in 0..40 {
        let history = Logged::random(seed, 200, 40);
        let mut rng = Rng(seed);
        let sim = SimVfs::new(seed);
        let store = store_on(&sim);
        let mut archiver = open(&store, 1).unwrap();
        history
            .feed(&mut archiver, |archiver, _| if rng.below(9) == 0 { archiver.seal().map(|_| true) } else { Ok(true) })
            .unwrap();
        archiver.seal().unwrap();
        let start = archiver.archive().view().start();
        let middle = history.records[history.records.len() / 2].lsn;
        let backup = back_up(&store, &history, &mut rng, start, Lsn(middle.0 + 1), 1);
        let part = format!("backups/{}", backup.summary().name);
        let runs = archiver.archive().view().manifest().runs.clone();
        let run = runs[rng.below(runs.len() as u64) as usize].id.name();
        let parts = sim.list(&Path::new("archive").join(&part)).unwrap();
        let part = parts.iter().find(|name| name.ends_with(".part")).map(|name| format!("{part}/{name}")).unwrap();
        let broken = Path::new("archive").join(if seed % 2 == 0 { run } else { part });
        let bytes = sim.open(&broken, OpenMode::ReadOnly).unwrap().len().unwrap();
        // Frames begin behind the header.
        sim.flip_bit(&broken, 64 * 8 + rng.below((bytes - 64) * 4)).unwrap();
        let store = store_on(&sim);
        let view = Archive::open_view(Arc::clone(&store), None).unwrap().unwrap();
        let backup = crate::Backup::open(&store, &backup.summary().name).unwrap();
        let at = Lsn(view.end().0 - 1);
        let maker = PageMaker::new(PageBase::unchecked(Some(backup)), view, at).unwrap();
        for first in [PageId(1), PageId::of_file(2, 1)] {
            let mut pages = zeroed(100);
            strict += u32::from(maker.make(first, &mut pages).is_err());
            let mut failed = Vec::new();
            let made = maker.make_what_can_be(first, &mut pages, &mut |page, error| {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                failed.push(page);
            });
            let Ok(made) = made else { continue };
            assert_eq!(made.damaged, failed.len() as u64);
            told += failed.len();
            for (i, page) in pages.iter().enumerate() {
                let id = PageId(first.0 + i as u64);
                if failed.contains(&id) {
                    assert!(page.verify(id).is_err() && !page.is_all_zero(), "seed {seed}: page {id}");
                } else {
                    let wanted: PageBuf = sealed(&history, id, at);
                    assert!(page.as_bytes() == wanted.as_bytes(), "seed {seed}: page {id}");
                    sound += u32::from(strict > 0 && !wanted.is_all_zero());
                }
            }
        }
    }
    assert!(strict > 10 && sound > 100 && told > 10, "{strict} segments failed: {sound} pages were made, {told} not");
}
