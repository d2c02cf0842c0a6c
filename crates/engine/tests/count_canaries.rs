//! A mistake in counting, made on purpose: the comparison with a plain map notices it.

mod common;
#[path = "modes/queues/model.rs"]
mod model;

use std::panic::{AssertUnwindSafe, catch_unwind};

use resurgam_buffer::Planted;

#[test]
fn rows_that_are_not_seen_are_not_counted() {
    // Panics of a broken database are findings, not noise.
    std::panic::set_hook(Box::new(|_| {}));
    Planted::UnseenCounted.plant();
    let caught = (1..=12).filter(|seed| !matches!(catch_unwind(AssertUnwindSafe(|| model::run(*seed))), Ok(Ok(()))));
    let caught = caught.count();
    Planted::None.plant();
    let _ = std::panic::take_hook();
    assert!(caught >= 10, "{caught} of 12 seeds");
    model::run(1).expect("without a bug");
}
