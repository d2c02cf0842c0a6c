//! Mistakes in jumping over rows that were deleted, made on purpose: the comparison with a plain map notices each.

mod common;
#[path = "modes/queues/model.rs"]
mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};

use resurgam_engine::PlantedJump;

#[test]
fn planted_bugs_are_caught() {
    // Panics of a broken database are findings, not noise.
    std::panic::set_hook(Box::new(|_| {}));
    let bugs = [PlantedJump::Untold, PlantedJump::ForAnyView, PlantedJump::OwnStay, PlantedJump::AlikeByAnyone];
    for bug in bugs {
        bug.plant();
        let caught =
            (1..=12).filter(|seed| !matches!(catch_unwind(AssertUnwindSafe(|| model::run(*seed))), Ok(Ok(()))));
        let caught = caught.count();
        PlantedJump::None.plant();
        assert!(caught >= 2, "{bug:?}: {caught} of 12 seeds");
    }
    let _ = std::panic::take_hook();
    model::run(1).expect("without a bug");
}
