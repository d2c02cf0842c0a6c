//! Pages at random LSNs, with and without a backup, against the log.

use std::sync::Arc;

use resurgam_base::{ErrorKind, Lsn, PageId};
use resurgam_page::PageBuf;
use resurgam_vfs::SimVfs;
use resurgam_xstore::Store;

use super::support::{DATABASE, Logged, Rng, open, small, store_on};
use crate::{
    Backup, BackupPlan, BackupWriter, MergePolicy, PageBase, PageKind, PageMaker, SEGMENT_PAGES, View, segment_key,
    segment_page,
};

pub fn zeroed(count: usize) -> Vec<PageBuf> {
    (0..count).map(|_| PageBuf::zeroed()).collect()
}

/// The page as of an LSN, sealed, as the model has it.
pub fn sealed(history: &Logged, page: PageId, at: Lsn) -> PageBuf {
    let mut buf = history.page_at(page, at);
    if !buf.is_all_zero() {
        buf.seal();
    }
    buf
}

pub fn plan(number: u64) -> BackupPlan {
    BackupPlan {
        database: DATABASE,
        number,
        from_archive: false,
        now_us: number as i64 * 1_000_000,
        resume_since_us: i64::MIN,
        log_from: Lsn::NONE,
        data_pages: 256,
        version_pages: Some((2, 256)),
        identity: Vec::new(),
    }
}

/// Segments of the pages of a history: two of each file.
pub fn keys() -> [u64; 4] {
    let of = |page| segment_key(page);
    let second = PageId::of_file(2, 0);
    [0, 1, of(second), of(second) + 1]
}

/// Puts a segment whose pages are each as of some LSN between `lsn` and `upto`.
pub fn put(writer: &mut BackupWriter, history: &Logged, rng: &mut Rng, key: u64, lsn: Lsn, upto: Lsn) -> bool {
    try_put(writer, history, rng, key, lsn, upto).unwrap()
}

pub fn try_put(
    writer: &mut BackupWriter,
    history: &Logged,
    rng: &mut Rng,
    key: u64,
    lsn: Lsn,
    upto: Lsn,
) -> resurgam_base::Result<bool> {
    let mut pages = zeroed(SEGMENT_PAGES);
    let mut kinds = vec![PageKind::Zero; SEGMENT_PAGES];
    for (i, page) in pages.iter_mut().enumerate() {
        let id = PageId(segment_page(key).0 + i as u64);
        let at = Lsn(lsn.0 - 1 + rng.below(upto.0 - lsn.0 + 1));
        *page = sealed(history, id, at);
        kinds[i] = if page.is_all_zero() { PageKind::Zero } else { PageKind::Image };
    }
    writer.put(key, lsn, &pages, &kinds)
}

/// A backup whose segments are each as of an own LSN.
pub fn back_up(
    store: &Arc<dyn Store>,
    history: &Logged,
    rng: &mut Rng,
    begin: Lsn,
    end: Lsn,
    number: u64,
) -> Arc<Backup> {
    let mut writer = BackupWriter::begin(Arc::clone(store), &plan(number)).unwrap().with_part_bytes(3000);
    let mut lsn = begin;
    for key in keys() {
        put(&mut writer, history, rng, key, lsn, end);
        lsn = Lsn(lsn.0 + rng.below(end.0 - lsn.0 + 1));
    }
    let summary = writer.finish(end, 5, b"identity".to_vec()).unwrap();
    assert_eq!((summary.begin, summary.end), (begin, end));
    Backup::open(store, &summary.name).unwrap()
}

fn compare(history: &Logged, view: &Arc<View>, backup: Option<&Arc<Backup>>, at: Lsn, seed: u64) -> u64 {
    let maker = PageMaker::new(PageBase::unchecked(backup.cloned()), Arc::clone(view), at).unwrap();
    let mut records = 0;
    for file in [0, 2] {
        let first = PageId::of_file(file, 1);
        let mut pages = zeroed(200);
        let made = maker.make(first, &mut pages).unwrap();
        let mut exist = 0;
        for (i, page) in pages.iter().enumerate() {
            let id = PageId(first.0 + i as u64);
            let wanted = sealed(history, id, at);
            exist += u64::from(!wanted.is_all_zero());
            assert!(page.as_bytes() == wanted.as_bytes(), "seed {seed}: page {id} at {at}");
        }
        assert_eq!(made.made, exist);
        records += made.records;
    }
    records
}

#[test]
fn pages_are_made_as_of_any_lsn() {
    let (mut with, mut without) = (0, 0);
    for seed in 0..30 {
        let history = Logged::random(seed, 300, 40);
        let mut rng = Rng(seed + 5);
        let sim = SimVfs::new(seed);
        let store = store_on(&sim);
        let mut archiver = open(&store, 1).unwrap();
        history
            .feed(&mut archiver, |archiver, _| {
                if rng.below(5) == 0 {
                    archiver.seal()?;
                    archiver.archive().merge(&small(), &mut MergePolicy::keep_all())?;
                }
                Ok(true)
            })
            .unwrap();
        archiver.seal().unwrap();
        let view = archiver.archive().view();
        let (a, b) = (history.any_lsn(&mut rng), history.any_lsn(&mut rng));
        let (begin, end) = (a.min(b).max(view.start()), Lsn(a.max(b).max(view.start()).0 + 1));
        let backup = back_up(&store, &history, &mut rng, begin, end, seed + 1);
        for _ in 0..10 {
            let at = history.any_lsn(&mut rng).max(view.start());
            without += compare(&history, &view, None, at, seed);
            if at.0 + 1 >= end.0 {
                with += compare(&history, &view, Some(&backup), at, seed);
            } else {
                let refused = PageMaker::new(PageBase::unchecked(Some(Arc::clone(&backup))), Arc::clone(&view), at)
                    .err()
                    .unwrap();
                assert_eq!(refused.kind(), ErrorKind::NotInPrerequisiteState, "{refused}");
            }
        }
        let last = Lsn(view.end().0 - 1);
        compare(&history, &view, Some(&backup), last, seed);
        assert!(PageMaker::new(PageBase::unchecked(None), Arc::clone(&view), view.end()).is_err());
        let newest = Backup::newest(&store, DATABASE, Lsn::NONE, Lsn(u64::MAX)).unwrap().unwrap();
        assert_eq!(newest.summary(), backup.summary());
        assert!(Backup::newest(&store, DATABASE, Lsn::NONE, Lsn(end.0 - 1)).unwrap().is_none());
        assert!(Backup::newest(&store, [3; 16], Lsn::NONE, Lsn(u64::MAX)).unwrap().is_none());
    }
    assert!(without > 2 * with && with > 1000, "{with} {without}");
}

/// An archive that begins at a backup makes every page with it, and says so without it.
#[test]
fn an_archive_that_begins_late_needs_a_backup() {
    let history = Logged::random(3, 300, 30);
    let sim = SimVfs::new(1);
    let store = store_on(&sim);
    let mut archiver = open(&store, 1).unwrap();
    history.feed(&mut archiver, |archiver, _| archiver.seal().map(|_| true)).unwrap();
    let archive = Arc::clone(archiver.archive());
    let middle = archive.view().manifest().runs[archive.view().manifest().runs.len() / 2].id.start;
    archive.give_up_before(middle).unwrap();
    let view = archive.view();
    assert_eq!(view.start(), middle);
    let last = Lsn(view.end().0 - 1);
    let error = PageMaker::new(PageBase::unchecked(None), Arc::clone(&view), last)
        .unwrap()
        .make(PageId(1), &mut zeroed(40))
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotInPrerequisiteState, "{error}");
    let mut rng = Rng(1);
    let early = back_up(&store, &history, &mut rng, Lsn(middle.0 - 1), Lsn(middle.0 + 500), 1);
    let error = PageMaker::new(PageBase::unchecked(Some(early)), Arc::clone(&view), last).err().unwrap();
    assert!(error.message().contains("needs log from"), "{error}");
    let backup = back_up(&store, &history, &mut rng, middle, Lsn(middle.0 + 500), 2);
    compare(&history, &view, Some(&backup), last, 0);
}

/// Images that are older than their segment's LSN leave a hole in their pages' chains.
#[test]
fn an_image_that_is_older_than_it_claims_is_caught() {
    let mut caught = 0;
    for seed in 0..10 {
        let history = Logged::random(seed, 300, 10);
        let sim = SimVfs::new(1);
        let store = store_on(&sim);
        let mut archiver = open(&store, 1).unwrap();
        history.feed(&mut archiver, |_, _| Ok(true)).unwrap();
        archiver.seal().unwrap();
        let view = archiver.archive().view();
        let middle = history.records[history.records.len() / 2].lsn;
        let old = history.records[history.records.len() / 4].lsn;
        let mut writer = BackupWriter::begin(Arc::clone(&store), &plan(1)).unwrap();
        let mut pages = zeroed(SEGMENT_PAGES);
        let mut kinds = vec![PageKind::Zero; SEGMENT_PAGES];
        for (i, page) in pages.iter_mut().enumerate() {
            *page = sealed(&history, PageId(i as u64), old);
            kinds[i] = if page.is_all_zero() { PageKind::Zero } else { PageKind::Image };
        }
        writer.put(0, middle, &pages, &kinds).unwrap();
        let name = writer.finish(middle, 5, Vec::new()).unwrap().name;
        let backup = Backup::open(&store, &name).unwrap();
        let maker =
            PageMaker::new(PageBase::unchecked(Some(backup)), Arc::clone(&view), Lsn(view.end().0 - 1)).unwrap();
        caught += u32::from(maker.make(PageId(0), &mut pages).is_err());
    }
    assert_eq!(caught, 10);
}
