//! A restore that is wrong on purpose is noticed: each planted mistake makes schedules fail.

#[path = "rebuilt/restore/support.rs"]
#[allow(dead_code)]
mod support;

use std::panic::{AssertUnwindSafe, catch_unwind};

use resurgam_engine::*;
use support::*;

/// A device dies under work, power is lost while its file is restored, again and again; every row is looked at.
fn schedule(seed: u64) -> Result<()> {
    let kind = Kind {
        spare: seed.is_multiple_of(2),
        no_repair: true,
        records_max: [0, 6][(seed / 2 % 2) as usize],
        ..Kind::default()
    };
    let mut sim = machine(seed)?;
    let mut model = Model::new(seed);
    let db = open(&sim, kind)?;
    model.fill(&db)?;
    model.work(&db)?;
    db.archive_now()?;
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    for _ in 0..3 {
        model.work(&db)?;
        db.write_back()?;
    }
    if seed.is_multiple_of(3) {
        while db.write_back()? > 0 {}
        db.checkpoint()?;
    }
    db.fail_device("data")?;
    for life in 0..3 {
        let db = if life == 0 { db.clone() } else { open(&sim, kind)? };
        for _ in 0..1 + model.random(3) {
            model.work(&db)?;
            db.write_back()?;
        }
        if model.random(2) == 0 {
            db.checkpoint()?;
            db.restore_step()?;
        }
        model.check(&db, "at work")?;
        while db.write_back()? > 0 {}
        db.checkpoint()?;
        sim = sim.crash();
    }
    drop(db);
    let db = open(&sim, kind)?;
    model.check(&db, "after crashes")?;
    db.finish_restore()?;
    db.finish_recovery()?;
    model.check(&db, "in the end")?;
    let found = db.verify()?;
    assert!(found.is_empty(), "{found:?}");
    db.close()
}

fn failures(schedules: u64) -> u64 {
    let fails = |seed: &u64| !matches!(catch_unwind(AssertUnwindSafe(|| schedule(*seed))), Ok(Ok(())));
    (1..=schedules).filter(fails).count() as u64
}

#[test]
fn planted_mistakes_are_caught() {
    assert!(
        (1..=12).all(|seed| schedule(seed).map_err(|error| eprintln!("{seed}: {error}")).is_ok()),
        "nothing is planted"
    );
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let planted = [
        // It takes a power loss in the moment between mark and sync.
        (Planted::EarlyMark, 60),
        (Planted::WriteUnrestored, 12),
        (Planted::ResidentForgotten, 12),
        (Planted::NoTail, 12),
        (Planted::ImageBehindRecord, 12),
    ];
    let caught: Vec<_> = planted
        .into_iter()
        .map(|(mistake, schedules)| {
            mistake.plant();
            (mistake, schedules, failures(schedules))
        })
        .collect();
    Planted::None.plant();
    std::panic::set_hook(hook);
    eprintln!("mistake, schedules, and those that caught it: {caught:?}");
    assert!(caught.iter().all(|(_, _, failures)| *failures > 0), "{caught:?}");
}
