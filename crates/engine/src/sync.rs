//! The primitives that `gate.rs` is made of, by one name: its model (`models/`) puts others here, which try
//! what threads may do in every order that chance finds.

pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
