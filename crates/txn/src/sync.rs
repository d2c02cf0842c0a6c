//! The primitives that `publication.rs` is made of, by one name: its model (`models/`) puts others here, which
//! try what threads may do in every order that chance finds.

pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

pub(crate) use parking_lot::Mutex;
