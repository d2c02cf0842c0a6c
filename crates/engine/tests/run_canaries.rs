//! Mistakes in deleting rows several at a time, made on purpose: what is checked of it notices each.

#[allow(dead_code)]
#[path = "transactions/delete_runs/checks.rs"]
mod checks;
mod common;
#[allow(dead_code)]
#[path = "transactions/support.rs"]
mod support;

use common::{is_well, unnoticed};
use resurgam_engine::{PlantedRun, Result};

#[test]
fn planted_bugs_are_caught() {
    if common::open::is_traditional() {
        return;
    }
    // Panics of a broken database are findings, not noise.
    std::panic::set_hook(Box::new(|_| {}));
    let all: [fn() -> Result<()>; 5] = [
        checks::who_looks_sees_them_or_not_as_of_his_time,
        checks::what_is_in_the_way_ends_it_there,
        checks::a_short_one_takes_back_all_of_it,
        checks::versions_that_older_snapshots_need_stay_below_it,
        checks::so_they_do_where_what_lies_over_them_is_aborted,
    ];
    let bugs = [PlantedRun::Unseen, PlantedRun::Held, PlantedRun::Untagged, PlantedRun::Unnoted, PlantedRun::OverInner];
    let missed = unnoticed(bugs, |bug| bug.plant(), || PlantedRun::None.plant(), &all);
    let _ = std::panic::take_hook();
    assert_eq!(missed, Vec::<String>::new(), "not noticed");
    assert!(all.iter().all(|check| is_well(*check)), "without a bug");
}
