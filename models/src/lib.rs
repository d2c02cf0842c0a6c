//! Small pieces of the engine under [`shuttle`], which runs threads in orders that chance finds, one step at a time.
//! The pieces are the engine's own files; what they are made of is put in by [`sync`]. Every step is seen by all
//! threads at once: what weaker memory orders allow besides is not tried.

pub mod sync;

/// Orders that are tried of each model. (`RESURGAM_ORDERS` is another number.)
pub fn orders() -> usize {
    std::env::var("RESURGAM_ORDERS").ok().and_then(|number| number.parse().ok()).unwrap_or(20_000)
}

/// Whether a model finds something wrong in so many orders.
///
/// Half of them are chosen step by step; in the others a thread goes on but for a few changes (probabilistic
/// concurrency testing), which finds what needs one thread to be far behind.
pub fn finds(orders: usize, model: impl Fn() + Send + Sync + Copy + 'static) -> bool {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| holds(orders, model))).is_err();
    std::panic::set_hook(hook);
    found
}

/// Fails where the model does in one of so many orders, and says how to see it again.
pub fn holds(orders: usize, model: impl Fn() + Send + Sync + Copy + 'static) {
    shuttle::check_random(model, orders / 2);
    shuttle::check_pct(model, orders / 2, 3);
}
