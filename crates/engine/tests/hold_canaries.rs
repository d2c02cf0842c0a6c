//! A log that is truncated although somebody holds it is noticed: by the archive that lags, by a backup that waits for it, and by the
//! restore of a device that died meanwhile.

#[path = "rebuilt/restore/support.rs"]
#[allow(dead_code)]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use resurgam_engine::*;
use support::*;

/// What is not archived yet is behind the oldest change that is not in the files: nothing but the archive needs it, and each checkpoint
/// would give it up. Then the archive, a backup, a start, or a restore wants it.
fn schedule(seed: u64) -> Result<()> {
    let kind = Kind { traditional: seed.is_multiple_of(3), spare: seed % 4 == 1, ..Kind::default() };
    let backups = Some("/disk3/backups".to_owned());
    let options = Options { backups, ..options(kind) };
    let mut sim = machine(seed)?;
    let mut model = Model::new(seed);
    let db = open_with(&sim, options.clone())?;
    model.fill(&db)?;
    if seed.is_multiple_of(2) {
        db.archive_now()?;
    }
    for _ in 0..2 + model.random(3) {
        for _ in 0..8 {
            model.work(&db)?;
        }
        while db.write_back()? > 0 {}
        db.checkpoint()?;
    }
    match seed % 4 {
        0 => drop(db.backup(false, &|| false)?),
        // A restore reads from the archive's end on.
        1 => db.fail_device("data")?,
        2 => {
            drop(db);
            sim = sim.crash();
            let db = open_with(&sim, options.clone())?;
            model.check(&db, "after a crash")?;
            db.archive_now()?;
        }
        _ => db.archive_now()?,
    }
    sim = sim.crash();
    if seed % 4 != 1 {
        lose_data(&sim)?;
    }
    let db = open_with(&sim, options)?;
    model.check(&db, "restored")?;
    model.work(&db)?;
    db.finish_restore()?;
    db.finish_recovery()?;
    model.check(&db, "in the end")?;
    assert_eq!(db.verify()?, Vec::<String>::new());
    db.archive_now()?;
    db.close()
}

#[test]
fn a_skipped_hold_is_caught() {
    let schedules = 1..=8;
    for seed in schedules.clone() {
        schedule(seed).unwrap_or_else(|error| panic!("nothing is planted, seed {seed}: {error}"));
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    PlantedInLog::SkippedHold.plant();
    let fails = |seed: &u64| !matches!(catch_unwind(AssertUnwindSafe(|| schedule(*seed))), Ok(Ok(())));
    let caught: Vec<u64> = schedules.filter(fails).collect();
    PlantedInLog::None.plant();
    std::panic::set_hook(hook);
    eprintln!("caught by schedules {caught:?} of 8");
    // Each of the four ways in which it is noticed.
    assert!((0..4).all(|way| caught.iter().any(|seed| seed % 4 == way)), "{caught:?}");
}
