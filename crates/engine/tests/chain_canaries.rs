//! Mistakes on the way from a database to those that it was made of are noticed.

#[path = "rebuilt/chains/machine.rs"]
#[allow(dead_code)]
mod machine;

mod common;
#[allow(dead_code)]
#[path = "harness/rng.rs"]
mod rng;

use std::panic::{AssertUnwindSafe, catch_unwind};

use machine::*;
use resurgam_engine::*;
use rng::Rng;

/// A parent that goes on and gives up what is older than its window, a clone, a clone of that, and what is made of its archive alone.
fn schedule(seed: u64) -> Result<()> {
    let mut rng = Rng::new(seed);
    let (sim, mut p) = first(seed, true, HOUR * 3)?;
    let db_p = p.open(&sim)?;
    for round in 1..5 {
        hour(&sim, &mut p, &db_p, round, &mut rng)?;
    }
    let mut nodes = vec![p.clone()];
    for name in ["a", "b"] {
        let of = nodes.last().unwrap_or_else(|| panic!("none"));
        let mut node = Node { backups: false, window: Default::default(), ..of.child(name) };
        let backups = of.backups.then(|| of.backups());
        restore_point(&vfs(&sim), &RestoreRequest { backups, ..of.request(&node.dir()) }, &mut |_| {})?;
        let db = node.open(&sim)?;
        node.same(&db, "made")?;
        node.write(&db, 100, &mut rng)?;
        db.archive_now()?;
        db.finish_restore()?;
        // The parent goes on.
        p.write(&db_p, 500, &mut rng)?;
        db_p.archive_now()?;
        node.same(&db, "whole")?;
        db.close()?;
        nodes.push(node);
    }
    for round in 10..22 {
        hour(&sim, &mut p, &db_p, round, &mut rng)?;
    }
    let b = nodes.last().unwrap_or_else(|| panic!("none"));
    let c = b.child("c");
    restore_point(&vfs(&sim), &b.request(&c.dir()), &mut |_| {})?;
    let db = c.open(&sim)?;
    db.finish_restore()?;
    c.sound(&db, "from the archive")?;
    db.close()
}

fn failures() -> u64 {
    let fails = |seed: &u64| !matches!(catch_unwind(AssertUnwindSafe(|| schedule(*seed))), Ok(Ok(())));
    (1..=4).filter(fails).count() as u64
}

#[test]
fn planted_mistakes_are_caught() {
    for seed in 1..=4 {
        schedule(seed).unwrap_or_else(|error| panic!("nothing is planted, seed {seed}: {error}"));
    }
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let planted = [PlantedInChain::LaterCut, PlantedInChain::LayerLeftOut, PlantedInChain::NoLease];
    let caught = planted.map(|mistake| {
        mistake.plant();
        (mistake, failures())
    });
    PlantedInChain::None.plant();
    std::panic::set_hook(hook);
    eprintln!("caught, of 4 schedules each: {caught:?}");
    assert!(caught.iter().all(|(_, failures)| *failures > 0), "{caught:?}");
}
