//! What `occupancy.rs` is made of; models put other primitives in their place.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
