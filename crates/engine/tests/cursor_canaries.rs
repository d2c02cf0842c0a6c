//! A mistake in descents, made on purpose: the comparison with a plain map notices it.

mod common;
#[path = "cursors/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "harness/rng.rs"]
mod rng;

use std::panic::{AssertUnwindSafe, catch_unwind};

use resurgam_buffer::Planted;

#[test]
fn a_guide_that_is_trusted_is_caught() {
    // Panics of a broken database are findings, not noise.
    std::panic::set_hook(Box::new(|_| {}));
    let run = |seed| matches!(catch_unwind(AssertUnwindSafe(|| model::run(seed, 1000, 4096))), Ok(Ok(())));
    Planted::GuideTrusted.plant();
    let caught = (1..=5).filter(|seed| !run(*seed)).count();
    Planted::None.plant();
    let _ = std::panic::take_hook();
    // Chance decides how often somebody is led by a guide that is not made anew yet; `btree/tests/guide_canary.rs` has one for certain.
    assert!(caught >= 1, "{caught} of 5 seeds");
    assert!(run(1), "without a bug");
}
