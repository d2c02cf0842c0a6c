//! Retention: whatever is given up, every promised point can be made; at every crash; beside a writer that is at work.

use std::sync::Arc;

use resurgam_base::{ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_vfs::{FaultPlan, SimVfs};
use resurgam_xstore::Store;

use super::making::{self, back_up, sealed, zeroed};
use super::support::{CONFIG, DATABASE, Logged, Rng, open, small, store_on};
use crate::{
    Archive, Archiver, BACKUP_LEASE, Backup, BackupWriter, GivenUp, Lease, LeaseKind, Mark, MarkKind, Marks,
    MergePolicy, PageBase, PageMaker, Promise, Retention, RetentionPlan, list_backups, verify, verify_backup,
};

/// Later than everything that these tests make.
const NOW_US: i64 = 1000 * 3600 * 1_000_000;

fn promise(point: Lsn) -> Option<Promise> {
    Some(Promise { point, from: Lsn(point.0.saturating_sub(500)), undo_from: point })
}

fn plan(store: &Arc<dyn Store>, archive: &Archive, point: Lsn, leases: &[Lease]) -> Result<RetentionPlan> {
    let backups = list_backups(store)?;
    let view = archive.view();
    let is_whole = |name: &str| Backup::open(store, name)?.open_parts();
    let retention = Retention {
        view: &view,
        first_lsn: CONFIG.first_lsn(),
        backups: &backups,
        leases,
        promise: promise(point),
        in_use: &[],
        running: None,
        now_us: NOW_US,
        is_whole: &is_whole,
    };
    retention.plan()
}

/// As a pass does it.
fn pass(store: &Arc<dyn Store>, archive: &Archive, point: Lsn) -> Result<GivenUp> {
    let first = plan(store, archive, point, &[])?;
    let marks = Marks::announce(store, &first, point.0)?;
    let plan = plan(store, archive, point, &Lease::list(&**store)?)?;
    let given_up = archive.give_up(&plan, Some(store))?;
    marks.remove();
    Ok(given_up)
}

/// Every page as of `at` is what the log makes of it, of the backup that a restore would take.
fn check_point(history: &Logged, store: &Arc<dyn Store>, at: Lsn) -> Result<(), String> {
    let told = |e: resurgam_base::Error| format!("as of {at}: {e}");
    let view = Archive::open_view(Arc::clone(store), Some(DATABASE)).map_err(told)?.ok_or("no archive")?;
    let backup = Backup::newest(store, DATABASE, view.start(), Lsn(at.0 + 1)).map_err(told)?;
    let maker = PageMaker::new(PageBase::unchecked(backup), Arc::clone(&view), at).map_err(told)?;
    for file in [0, 2] {
        let first = PageId::of_file(file, 1);
        let mut pages = zeroed(60);
        maker.make(first, &mut pages).map_err(told)?;
        for (i, page) in pages.iter().enumerate() {
            let id = PageId(first.0 + i as u64);
            if page.as_bytes() != sealed(history, id, at).as_bytes() {
                return Err(format!("page {id} as of {at} is another one"));
            }
        }
    }
    Ok(())
}

/// A log in an archive of several runs, with a backup now and then. Returns the promised point.
fn made(seed: u64, store: &Arc<dyn Store>) -> (Logged, Archiver, Lsn) {
    let history = Logged::random(seed, 300, 30);
    let mut rng = Rng(seed + 3);
    let mut archiver = open(store, 1).unwrap();
    history
        .feed(&mut archiver, |archiver, _| {
            if rng.below(4) == 0 {
                archiver.seal()?;
            }
            Ok(true)
        })
        .unwrap();
    archiver.seal().unwrap();
    let mut ends = Vec::new();
    for number in 0..3 {
        let at = |share: u64| history.records[(history.records.len() as u64 * share / 20) as usize].lsn;
        let begin = at(2 + number * 6 + rng.below(2));
        let end = Lsn(at(4 + number * 6 + rng.below(2)).0 + 1);
        back_up(store, &history, &mut rng, begin, end, seed * 8 + number + 1);
        ends.push(end);
    }
    let point = history.any_lsn(&mut rng);
    (history, archiver, point)
}

fn points(history: &Logged, from: Lsn, rng: &mut Rng) -> Vec<Lsn> {
    let mut points: Vec<Lsn> = (0..6).map(|_| history.any_lsn(rng)).filter(|lsn| *lsn >= from).collect();
    points.extend([from, Lsn(history.end.0 - 1)]);
    points
}

/// Random points are promised, one after the other, with merges that leave out what they allow, and leases.
#[test]
fn every_promised_point_can_be_made() {
    let (mut gone, mut held, mut nothing) = (GivenUp::default(), 0, 0);
    for seed in 0..40 {
        let store = store_on(&SimVfs::new(seed));
        let (history, archiver, point) = made(seed, &store);
        let archive = archiver.archive();
        let mut rng = Rng(seed);
        let mut point = point;
        for _ in 0..3 {
            let lease = (rng.below(3) == 0).then(|| {
                let cut = Lsn(history.any_lsn(&mut rng).0 + 1);
                let view = archive.view();
                let backup = Backup::newest(&store, DATABASE, Lsn::NONE, cut).unwrap();
                let backup = backup.filter(|backup| backup.summary().begin >= view.start());
                let lease = Lease {
                    name: format!("c{}", rng.next()),
                    kind: LeaseKind::Clone,
                    database: DATABASE,
                    cut,
                    undo_from: cut,
                    backup: backup.map(|backup| backup.summary().name.clone()),
                    created_us: 0,
                };
                lease.create(&*store).unwrap();
                if check_point(&history, &store, Lsn(cut.0 - 1)).is_err()
                    || lease.check(&store, Some(&store), view.start()).is_err()
                {
                    Lease::remove(&*store, &lease.name).unwrap();
                    return None;
                }
                held += 1;
                Some(lease)
            });
            let lease = lease.flatten();
            let allowed = plan(&store, archive, point, &Lease::list(&*store).unwrap()).unwrap();
            let given_up = pass(&store, archive, point).unwrap();
            nothing += u64::from(given_up == GivenUp::default());
            gone.runs += given_up.runs;
            gone.backups += given_up.backups;
            let mut base = |page: PageId, lsn: Lsn| -> Result<Option<PageBuf>> { Ok(Some(history.page_at(page, lsn))) };
            let mut policy = MergePolicy {
                retention: allowed.leave_out_below,
                records_per_page_max: 5,
                base: Some(&mut base),
                rest: None,
            };
            while archive.merge(&small(), &mut policy).unwrap().is_some() {}
            // Where there was no base, what could be made before can be made still.
            let view = archive.view();
            if allowed.base.is_some() || view.start() <= CONFIG.first_lsn() {
                for at in points(&history, point, &mut rng) {
                    check_point(&history, &store, at).unwrap_or_else(|e| panic!("seed {seed}: {e}; {allowed:?}"));
                }
            }
            if let Some(lease) = lease {
                check_point(&history, &store, Lsn(lease.cut.0 - 1))
                    .unwrap_or_else(|e| panic!("seed {seed}: lease {e}"));
                assert!(lease.check(&store, Some(&store), view.start()).is_ok());
                if rng.below(2) == 0 {
                    Lease::remove(&*store, &lease.name).unwrap();
                }
            }
            let report = verify(Arc::clone(&store), Some(DATABASE)).unwrap();
            assert!(report.problems.is_empty(), "seed {seed} {report}");
            assert!(list_backups(&store).unwrap().iter().any(|entry| entry.complete), "the last one stays");
            point = point.max(history.any_lsn(&mut rng));
        }
    }
    assert!(gone.runs > 100 && gone.backups > 15 && held > 10 && nothing > 5, "{gone:?} {held} {nothing}");
}

/// A pass that is cut off at every call; what there is then is whole, and the next pass goes on.
#[test]
fn power_lost_at_every_call_of_a_pass() {
    let mut lost = 0;
    for seed in [3, 4] {
        let first = SimVfs::new(seed);
        let (history, archiver, _) = made(seed, &store_on(&first));
        let point = Lsn(history.end.0 - 1);
        drop(archiver);
        for call in 1.. {
            let sim = first.fork(call);
            let beside = call % 2 == 0;
            let opened = |store: &Arc<dyn Store>, owner| -> Result<Arc<Archive>> {
                match beside {
                    true => Ok(Archive::open_beside(Arc::clone(store), call)?.unwrap()),
                    false => Archive::open(Arc::clone(store), DATABASE, owner),
                }
            };
            let store = store_on(&sim);
            let archive = opened(&store, 7).unwrap();
            sim.set_faults(FaultPlan { crash_after_ops: Some(call), ..FaultPlan::default() });
            let passed = pass(&store, &archive, point);
            let crashed = sim.power_lost();
            assert!(passed.is_ok() || crashed, "{passed:?}");
            drop(archive);
            let sim = if call % 3 == 0 { sim.kill() } else { sim.crash() };
            let store = store_on(&sim);
            let mut rng = Rng(call);
            for at in points(&history, point, &mut rng) {
                check_point(&history, &store, at).unwrap_or_else(|e| panic!("seed {seed} call {call}: {e}"));
            }
            let report = verify(Arc::clone(&store), Some(DATABASE)).unwrap();
            assert!(report.problems.is_empty(), "seed {seed} call {call}: {report}");
            let archive = opened(&store, 8).unwrap();
            pass(&store, &archive, point).unwrap();
            archive.delete_expired().unwrap();
            let start = archive.view().start();
            assert!(start > CONFIG.first_lsn());
            let runs = store.list("runs/").unwrap();
            assert_eq!(runs.len(), archive.view().manifest().runs.len(), "seed {seed} call {call}: files are left");
            let kept = list_backups(&store).unwrap();
            assert_eq!(kept.len(), 1, "seed {seed} call {call}");
            assert!(verify_backup(&store, &kept[0].name).unwrap().problems.is_empty());
            check_point(&history, &store, point).unwrap();
            if !crashed {
                break;
            }
            lost += 1;
        }
    }
    assert!(lost > 40, "{lost}");
}

/// A pass beside a writer: the writer goes on from the step that it did not make.
#[test]
fn a_pass_beside_a_writer() {
    let store = store_on(&SimVfs::new(5));
    let history = Logged::random(5, 300, 30);
    let mut archiver = open(&store, 1).unwrap();
    let mut rng = Rng(5);
    let (mut n, mut passes) = (0, 0);
    history
        .feed(&mut archiver, |archiver, _| {
            n += 1;
            if n % 3 == 0 {
                archiver.seal()?;
            }
            if n % 20 == 0 {
                let end = archiver.durable_to();
                let begin = Lsn(archiver.archive().view().manifest().runs.iter().rev().nth(2).unwrap().id.start.0 + 1);
                back_up(&store, &history, &mut rng, begin, end, n);
                let beside = Archive::open_beside(Arc::clone(&store), 1)?.unwrap();
                passes += u64::from(pass(&store, &beside, Lsn(end.0 - 1))?.runs > 0);
                beside.delete_expired()?;
                if n % 40 == 0 {
                    archiver.archive().catch_up()?;
                    assert_eq!(archiver.archive().view().manifest(), beside.view().manifest());
                }
            }
            Ok(true)
        })
        .unwrap();
    archiver.seal().unwrap();
    assert!(passes > 2, "{passes}");
    archiver.archive().delete_replaced().unwrap();
    let view = archiver.archive().view();
    assert!(view.start() > CONFIG.first_lsn() && view.end() == history.end);
    assert_eq!(store.list("runs/").unwrap().len(), view.manifest().runs.len());
    check_point(&history, &store, Lsn(history.end.0 - 1)).unwrap();
    // Whoever takes it over is the only one.
    let beside = Archive::open_beside(Arc::clone(&store), 1).unwrap().unwrap();
    open(&store, 2).unwrap();
    let error = beside.give_up_before(Lsn(history.end.0 - 1)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InUse);
}

/// A backup that is damaged, or has damaged parts, is no base; a lease whose backup is gone keeps everything; one that is made while
/// its log is given up is told so.
#[test]
fn what_is_not_sure_keeps_more() {
    let sim = SimVfs::new(2);
    let store = store_on(&sim);
    let (history, archiver, _) = made(2, &store);
    let archive = archiver.archive();
    let point = Lsn(history.end.0 - 1);
    let good = plan(&store, archive, point, &[]).unwrap();
    assert!(!good.runs.is_empty() && good.backups.len() == 2, "{good:?}");
    let lease = |backup: Option<&str>| Lease {
        name: "l".into(),
        kind: LeaseKind::Restore,
        database: DATABASE,
        cut: point,
        undo_from: point,
        backup: backup.map(str::to_owned),
        created_us: NOW_US - 30 * 3600 * 1_000_000,
    };
    let held = plan(&store, archive, point, &[lease(None)]).unwrap();
    // It needs no backup.
    assert!(held.runs.is_empty() && held.backups.len() == 2 && held.held_by[0].contains("perhaps over"), "{held:?}");
    let held = plan(&store, archive, point, &[lease(Some("gone"))]).unwrap();
    assert!(held.runs.is_empty() && held.backups.is_empty(), "{held:?}");
    assert_eq!(plan(&store, archive, point, &[lease(good.base.as_deref())]).unwrap().runs, good.runs);
    // A mark, and then the lease.
    let oldest = list_backups(&store).unwrap()[0].name.clone();
    let start = archive.view().start();
    assert!(lease(Some(&oldest)).check(&store, Some(&store), start).is_ok());
    let mark = Mark::announce(&store, MarkKind::Log, good.keep_from, 1).unwrap();
    assert!(lease(Some(&oldest)).check(&store, Some(&store), start).is_err());
    assert!(lease(None).check(&store, Some(&store), start).is_err());
    assert!(lease(good.base.as_deref()).check(&store, Some(&store), start).is_ok());
    mark.remove();
    let mark = Mark::announce(&store, MarkKind::Backups, good.backups_before, 1).unwrap();
    assert!(lease(Some(&oldest)).check(&store, Some(&store), start).is_err());
    assert!(lease(good.base.as_deref()).check(&store, Some(&store), start).is_ok());
    mark.remove();
    // One that a lease names stays, whatever else goes.
    let held = plan(&store, archive, point, &[lease(Some(&oldest))]).unwrap();
    assert!(held.backups.iter().all(|(name, _)| *name != oldest) && held.backups.len() == 1, "{held:?}");
    let mark = Mark::announce(&store, MarkKind::States, Lsn(point.0 + 1), 1).unwrap();
    assert!(lease(good.base.as_deref()).check(&store, Some(&store), start).is_err());
    mark.remove();
    assert!(lease(None).check(&store, Some(&store), start).is_ok());
    // Its newest part is cut off.
    let part = store.list(&format!("backups/{}/", good.base.unwrap())).unwrap().pop().unwrap();
    let path = std::path::Path::new("archive").join(&part);
    resurgam_vfs::Vfs::open(&sim, &path, resurgam_vfs::OpenMode::ReadWrite).unwrap().set_len(100).unwrap();
    let store = store_on(&sim);
    let less = plan(&store, archive, point, &[]).unwrap();
    assert!(less.keep_from < good.keep_from && less.held_by[0].contains("damaged"), "{less:?}");
}

/// One that was begun long ago goes, unless a server says that it is at it, which is not the one that gives up.
#[test]
fn a_backup_that_another_server_makes_is_under_way_as_long_as_it_says_so() {
    let store = store_on(&SimVfs::new(2));
    let (history, archiver, _) = made(2, &store);
    let (archive, point) = (archiver.archive(), Lsn(history.end.0 - 1));
    let mut writer = BackupWriter::begin(Arc::clone(&store), &making::plan(77)).unwrap().with_part_bytes(3000);
    making::put(&mut writer, &history, &mut Rng(1), making::keys()[0], history.records[0].lsn, point);
    writer.flush().unwrap();
    let name = writer.name().to_owned();
    let goes = |lease: Option<String>| {
        let (kind, database, backup, created_us) = (LeaseKind::Making, DATABASE, Some("gone".into()), NOW_US);
        let lease = lease.map(|name| Lease { name, kind, database, cut: point, undo_from: point, backup, created_us });
        let leases: Vec<Lease> = lease.into_iter().collect();
        plan(&store, archive, point, &leases).unwrap().backups.iter().any(|(gone, _)| *gone == name)
    };
    assert!(goes(None) && goes(Some("backup-other".into())) && goes(Some(format!("clone-{name}"))));
    assert!(!goes(Some(format!("{BACKUP_LEASE}{name}"))) && !goes(Some(format!("{BACKUP_LEASE}{name}-"))));
}

/// Runs that were merged one by one: records since the newest image count across them.
#[test]
fn a_hot_page_takes_no_more_records_than_the_cap() {
    let history = Logged::random(11, 1500, 2);
    let store = store_on(&SimVfs::new(11));
    let mut archiver = open(&store, 1).unwrap();
    // Small enough that each record of a page counts.
    let cap = 7;
    let merge = |archiver: &Archiver| -> Result<()> {
        let mut base = |page: PageId, lsn: Lsn| -> Result<Option<PageBuf>> { Ok(Some(history.page_at(page, lsn))) };
        let mut policy =
            MergePolicy { retention: Lsn::NONE, records_per_page_max: cap, base: Some(&mut base), rest: None };
        while archiver.archive().merge(&small(), &mut policy)?.is_some() {}
        Ok(())
    };
    history
        .feed(&mut archiver, |archiver, _| {
            archiver.seal()?;
            merge(archiver)?;
            Ok(true)
        })
        .unwrap();
    let view = archiver.archive().view();
    // Up to where it was merged.
    let merged = view.manifest().runs.iter().filter(|run| run.id.level > 0).map(|run| run.id.end).max().unwrap();
    let mut most = 0;
    for (page, records) in &history.pages {
        for record in records.iter().filter(|record| record.lsn < merged) {
            let maker = PageMaker::new(PageBase::unchecked(None), Arc::clone(&view), record.lsn).unwrap();
            let mut made = zeroed(1);
            let count = maker.make(*page, &mut made).unwrap().records;
            assert!(made[0].as_bytes() == sealed(&history, *page, record.lsn).as_bytes());
            most = most.max(count);
        }
    }
    assert!(most <= cap + 1 && most >= cap - 1, "{most}");
}
