//! A cache of pages below memory: schedules of scans and crashes over it see what they must, and mistakes are noticed. (A process of its own:
//! some are planted for all of it.)

#[path = "scans_afar/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "harness/remote.rs"]
mod remote;
#[allow(dead_code)]
#[path = "harness/rng.rs"]
mod rng;

/// Where things are on the simulated disks.
mod schedule {
    pub const ARCHIVE: &str = "/disk5/archive";
    pub const BACKUPS: &str = "/disk6/backups";
    pub const PAGES: &str = "/disk7/pages";
}

use std::panic::{AssertUnwindSafe, catch_unwind};

use resurgam_buffer::Planted;
use resurgam_rbpex::Planted as InCache;

/// How many of so many schedules with that mistake fail.
fn caught(schedules: u64, planted: InCache) -> usize {
    let goes_well = |seed| matches!(catch_unwind(AssertUnwindSafe(|| model::run_with(seed, Some(planted)))), Ok(Ok(_)));
    (1..=schedules).filter(|seed| !goes_well(*seed)).count()
}

/// `RESURGAM_SCHEDULES=n` runs n schedules.
#[test]
fn copies_are_the_pages_or_mistakes_are_noticed() {
    let count = std::env::var("RESURGAM_SCHEDULES").ok().and_then(|n| n.parse().ok()).unwrap_or(40);
    let mut all = model::Met::default();
    for seed in 1..=count {
        let met = model::run_with(seed, Some(InCache::Nothing)).unwrap_or_else(|what| panic!("seed {seed}: {what}"));
        (all.scans, all.crashes) = (all.scans + met.scans, all.crashes + met.crashes);
        (all.cached, all.confirmed) = (all.cached + met.cached, all.confirmed + met.confirmed);
    }
    eprintln!("{count} schedules: {all:?}");
    assert!(all.cached > count * 100 && all.confirmed > count / 4, "the cache is hardly used: {all:?}");
    // Panics of a broken database are findings, not noise.
    std::panic::set_hook(Box::new(|_| {}));
    let mut found = Vec::new();
    found.push(("a changed page that keeps its older copy", caught(20, InCache::StaleKept)));
    Planted::CopyNotCompared.plant();
    found.push(("copies from before a restart that are not compared", caught(20, InCache::Nothing)));
    Planted::None.plant();
    let _ = std::panic::take_hook();
    eprintln!("caught of 20 schedules: {found:?}");
    for (planted, caught) in found {
        assert!(caught >= 3, "{planted}: caught in {caught} of 20 schedules");
    }
}
