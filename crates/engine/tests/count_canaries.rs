//! Mistakes in counting, made on purpose: the comparison with a plain map notices them.

mod common;
#[path = "modes/queues/model.rs"]
mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};

use resurgam_buffer::Planted;

fn caught(planted: Planted) -> usize {
    planted.plant();
    let is_caught = |seed: u64| !matches!(catch_unwind(AssertUnwindSafe(|| model::run(seed))), Ok(Ok(())));
    let caught = (1..=12).filter(|seed| is_caught(*seed)).count();
    Planted::None.plant();
    caught
}

#[test]
fn what_is_not_seen_or_is_not_known_any_more_is_not_counted() {
    // Panics of a broken database are findings, not noise.
    std::panic::set_hook(Box::new(|_| {}));
    let caught = [Planted::UnseenCounted, Planted::SightOfAnyState].map(caught);
    let _ = std::panic::take_hook();
    assert!(caught.iter().all(|caught| *caught >= 10), "{caught:?} of 12 seeds each");
    model::run(1).expect("without a bug");
}
