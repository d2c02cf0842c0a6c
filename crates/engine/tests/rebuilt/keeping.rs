//! What a log service gives up of a primary's archive, by a clock of its own: what is promised stays, whatever that clock says, and nothing more goes while nothing
//! is committed.

use std::sync::Arc;
use std::time::Duration;

use resurgam_archive::{Archive, GivenUp, Lease, LeaseKind};
use resurgam_engine::*;
use resurgam_vfs::SimVfs;
use resurgam_xstore::{FaultyStore, Misdeed, Store, StoreCall, StoreErrorKind};

use super::retention::{ARCHIVE, BACKUPS, HOUR, Work, options, store};

/// So many hours of a database that gives up nothing itself, and is closed then.
fn worked(hours: u32) -> Result<Work> {
    let mut work = Work::begin(Options { recovery_window: Duration::ZERO, ..options(false) })?;
    for _ in 0..hours {
        work.hour()?;
    }
    work.db.close()?;
    Ok(work)
}

fn keeper(sim: &SimVfs, clock: &SimVfs, has_backups: bool) -> ArchiveKeeper {
    let sim = sim.clone();
    ArchiveKeeper::new(ArchiveKeeperConfig {
        vfs: Arc::new(clock.clone()),
        backups: has_backups.then(|| Arc::new(move || store(&sim, BACKUPS)) as OpenBackups),
        recovery_window: HOUR * 6,
        records_per_page_max: 16,
        cpu_percent: 100,
        rests: false,
    })
}

/// Opened as the log service that archives does.
fn claimed(store: Arc<dyn Store>) -> Result<Arc<Archive>> {
    let database = Archive::open_view(Arc::clone(&store), None)?.expect("an archive").manifest().database;
    Archive::open_to_append(store, database, 9, None)
}

#[test]
fn a_clock_that_is_ahead_gives_up_nothing_that_is_promised() -> Result<()> {
    let work = worked(22)?;
    let archive = claimed(store(&work.sim, ARCHIVE)?)?;
    // Two windows ahead of the primary's.
    let clock = SimVfs::new(8);
    clock.advance(HOUR * (22 + 12));
    let keeper = keeper(&work.sim, &clock, true);
    let given_up = keeper.expire(&archive)?;
    assert!(given_up.backups > 0, "what is older than the window goes: {given_up:?}");
    while keeper.merge(&archive)? == KeptMerge::Merged {}
    let last = work.points.last().expect("a point").us;
    let promised = || work.points.iter().filter(|point| point.us >= last - (HOUR * 6).as_micros() as i64);
    assert!(promised().count() > 5);
    promised().try_for_each(|point| work.check(point, "ahead"))?;
    // Nothing is committed any more: nothing more goes, nor is a lease of a bounded time over, however long that takes.
    let view = archive.view();
    let (start, cut, database) = (view.start(), view.end(), archive.database());
    drop(view);
    let (name, kind) = ("making-something".to_owned(), LeaseKind::Making);
    let lease = Lease { name, kind, database, cut, undo_from: cut, backup: None, created_us: last };
    lease.create(&**archive.store())?;
    for _ in 0..3 {
        clock.advance(HOUR * 100);
        assert_eq!(keeper.expire(&archive)?, GivenUp::default());
        assert_eq!(archive.view().start(), start);
        assert_eq!(Lease::list(&**archive.store())?.len(), 1, "it is not over");
    }
    assert!(Lease::remove(&**archive.store(), "making-something")?);
    while keeper.merge(&archive)? == KeptMerge::Merged {}
    assert_eq!(keeper.expire(&archive)?, GivenUp::default());
    promised().try_for_each(|point| work.check(point, "later"))
}

#[test]
fn a_clock_that_is_behind_keeps_more() -> Result<()> {
    let work = worked(22)?;
    let archive = claimed(store(&work.sim, ARCHIVE)?)?;
    let clock = SimVfs::new(8);
    clock.advance(HOUR);
    let keeper = keeper(&work.sim, &clock, true);
    assert_eq!(keeper.expire(&archive)?, GivenUp::default());
    clock.advance(HOUR * 21);
    assert!(keeper.expire(&archive)?.backups > 0);
    Ok(())
}

#[test]
fn without_a_place_of_backups_nothing_is_given_up() -> Result<()> {
    let work = worked(14)?;
    let archive = claimed(store(&work.sim, ARCHIVE)?)?;
    let keeper = keeper(&work.sim, &work.sim, false);
    let runs = archive.view().manifest().runs.len();
    assert_eq!(keeper.expire(&archive)?, GivenUp::default());
    let kept = keeper.kept(Some(&archive));
    assert_eq!((kept.recovery_window, keeper.expire_every()), (None, None), "nor is that said");
    assert_eq!((kept.promised, archive.view().manifest().runs.len()), (None, runs));
    Ok(())
}

#[test]
fn an_archive_that_cannot_be_looked_at_is_told_of() -> Result<()> {
    let work = worked(2)?;
    let faulty = Arc::new(FaultyStore::new(store(&work.sim, ARCHIVE)?));
    let archive = Archive::open_beside(Arc::clone(&faulty) as Arc<dyn Store>, 5)?.expect("an archive");
    let keeper = keeper(&work.sim, &work.sim, true);
    keeper.merge(&archive)?;
    assert_eq!(keeper.kept(None).merge_error, None);
    faulty.always(StoreCall::List, Some(Misdeed::Fail(StoreErrorKind::Unavailable)));
    assert_eq!(keeper.merge(&archive).unwrap_err().kind(), ErrorKind::Io);
    assert!(keeper.kept(None).merge_error.is_some());
    // One that is to end says nothing of how merging is.
    faulty.heal();
    archive.stop_merges();
    keeper.merge(&archive)?;
    assert!(keeper.kept(None).merge_error.is_some());
    let again = Archive::open_beside(faulty, 6)?.expect("an archive");
    keeper.merge(&again)?;
    assert_eq!(keeper.kept(None).merge_error, None);
    Ok(())
}
