//! Pages that are asked for ahead without regard to how new they must be: schedules of scans notice it.

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

#[test]
fn pages_of_any_age_are_caught() {
    // Panics of a broken database are findings, not noise.
    std::panic::set_hook(Box::new(|_| {}));
    let goes_well = |seed| matches!(catch_unwind(AssertUnwindSafe(|| model::run(seed))), Ok(Ok(_)));
    Planted::AheadOfAnyAge.plant();
    let caught = (1..=20).filter(|seed| !goes_well(*seed)).count();
    Planted::None.plant();
    let well = (1..=5).filter(|seed| goes_well(*seed)).count();
    let _ = std::panic::take_hook();
    eprintln!("pages of any age: caught in {caught} of 20 schedules");
    assert!(caught > 10, "pages of any age: caught in {caught} of 20 schedules");
    assert_eq!(well, 5, "without a bug");
}
