//! Mistakes in inserting rows several at a time, made on purpose: what is checked of it notices each.

#[allow(dead_code)]
#[path = "transactions/insert_runs/checks.rs"]
mod checks;
mod common;
#[allow(dead_code)]
#[path = "transactions/support.rs"]
mod support;

use common::{is_well, unnoticed};
use resurgam_engine::{Planted, PlantedRun, Result};

#[test]
fn planted_bugs_are_caught() {
    if common::open::is_traditional() {
        return;
    }
    // Panics of a broken database are findings, not noise.
    std::panic::set_hook(Box::new(|_| {}));
    let all: [fn() -> Result<()>; 4] = [
        checks::what_is_in_the_way_ends_it_there,
        checks::a_short_one_takes_back_all_of_it,
        checks::a_crash_takes_back_what_was_not_committed,
        checks::it_is_as_one_after_the_other,
    ];
    let runs = [PlantedRun::Unlooked, PlantedRun::Unnoted];
    let mut missed = unnoticed(runs, |bug| bug.plant(), || PlantedRun::None.plant(), &all);
    let crash: [fn() -> Result<()>; 1] = [checks::a_crash_takes_back_what_was_not_committed];
    missed.extend(unnoticed([Planted::LastOfRunForgotten], |bug| bug.plant(), || Planted::None.plant(), &crash));
    let _ = std::panic::take_hook();
    assert_eq!(missed, Vec::<String>::new(), "not noticed");
    assert!(all.iter().all(|check| is_well(*check)), "without a bug");
}
