//! Restores from stores of which each call in turn fails: what needed it is an error, or waits; what is tried again is right.

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};
use resurgam_xstore::{Misdeed, StoreCall, StoreErrorKind};

use super::support::*;

/// Reads that fail are every so-manieth; of lists, which are few, each.
const STEP: u64 = 4;
const UNAVAILABLE: Misdeed = Misdeed::Fail(StoreErrorKind::Unavailable);

fn with_backups(kind: Kind) -> Options {
    Options { backups: Some(BACKUPS.into()), backup_part_bytes: 60_000, ..options(kind) }
}

/// A database with an archive, a backup, and some log behind both, that was crashed.
fn base(kind: Kind, seed: u64) -> Result<(SimVfs, Model)> {
    let sim = machine(seed)?;
    let mut model = Model::new(seed);
    let db = open_with(&sim, with_backups(kind))?;
    model.fill(&db)?;
    model.work(&db)?;
    db.backup(false, &NEVER)?;
    for _ in 0..3 {
        model.work(&db)?;
        db.archive_now()?;
    }
    db.checkpoint()?;
    model.work(&db)?;
    drop(db);
    Ok((sim.crash(), model))
}

/// One call to the archive's store, or to that of the backups, fails while a lost file is restored on demand.
#[test]
fn each_call_fails_once_while_pages_are_restored() -> Result<()> {
    let kind = Kind::default();
    let (base, model) = base(kind, 71)?;
    lose_data(&base)?;
    let begin = offset(STEP);
    let mut failures = 0;
    for (call, step) in [(StoreCall::Read, STEP), (StoreCall::List, 1)] {
        for of_backups in [false, true] {
            for nth in (1 + begin % step..).step_by(step as usize) {
                let sim = base.fork(nth);
                let mut model = model.copy(nth);
                let (archive, backups) = (store(&sim, ARCHIVE)?, store(&sim, BACKUPS)?);
                let faulty = if of_backups { &backups } else { &archive };
                faulty.at(call, nth, UNAVAILABLE);
                let options =
                    Options { archive_store: handle(&archive), backups_store: handle(&backups), ..with_backups(kind) };
                let mut errors = 0;
                let mut again = |what: &str, error: Error| {
                    errors += 1;
                    assert!(error.kind() == ErrorKind::Io, "{call:?} {nth} of backups {of_backups}, {what}: {error}");
                    assert!(errors < 3, "one call has failed, and it fails again: {what}: {error}");
                };
                let db = loop {
                    match open_with(&sim, options.clone()) {
                        Ok(db) => break db,
                        Err(error) => again("open", error),
                    }
                };
                while let Err(error) = model.check(&db, "on demand") {
                    again("read", error);
                }
                while let Err(error) = db.finish_restore() {
                    again("restore", error);
                }
                let done = faulty.calls(call);
                failures += u64::from(errors > 0);
                assert!(db.restore_status().is_none());
                if done < nth {
                    // The restore makes fewer calls: what is still to fail would fail the archiver, which is not meant here.
                    break;
                }
                model.work(&db)?;
                // Nothing of the failure stays.
                db.archive_now()?;
                model.check(&db, "restored")?;
                assert_eq!(db.verify()?, Vec::<String>::new());
                db.close()?;
            }
        }
    }
    assert!(failures > 3, "the sweep has become blind: {failures}");
    Ok(())
}

/// The same of a restore to a folder in one pass: it is refused with the store's error, or is right; and is made when it is tried again.
#[test]
fn each_call_fails_once_in_a_single_pass() -> Result<()> {
    let kind = Kind::default();
    let (base, model) = base(kind, 72)?;
    let db = open_with(&base, with_backups(kind))?;
    db.archive_now()?;
    db.close()?;
    drop(db);
    let begin = offset(STEP);
    let mut refused = 0;
    for (call, step) in [(StoreCall::Read, STEP), (StoreCall::List, 1)] {
        for of_backups in [false, true] {
            for nth in (1 + begin % step..).step_by(step as usize) {
                let sim = base.fork(nth);
                let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
                let (archive, backups) = (store(&sim, ARCHIVE)?, store(&sim, BACKUPS)?);
                let faulty = if of_backups { &backups } else { &archive };
                faulty.at(call, nth, UNAVAILABLE);
                let request = |to: &str| RestoreRequest {
                    backups: Some(BACKUPS.into()),
                    archive_store: handle(&archive),
                    backup_store: handle(&backups),
                    ..RestoreRequest::new(ARCHIVE, to)
                };
                let first = restore_point(&vfs, &request("/db/first"), &mut |_| {});
                let done = faulty.calls(call);
                let made = match first {
                    Ok(_) => "/db/first",
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::Io, "{call:?} {nth} of backups {of_backups}: {error}");
                        refused += 1;
                        restore_point(&vfs, &request("/db/second"), &mut |_| {})?;
                        "/db/second"
                    }
                };
                let restored = Options { archive: None, log_dir: None, ..options(kind) };
                let db = Database::open_with(Arc::new(sim.clone()), Path::new(made), restored, |_| {})?;
                model.copy(nth).check(&db, "restored in one pass")?;
                db.close()?;
                if done < nth {
                    break;
                }
            }
        }
    }
    assert!(refused > 3, "the sweep has become blind: {refused}");
    Ok(())
}
