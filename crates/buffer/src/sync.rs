//! What `occupancy.rs` and `page_guide.rs` are made of; models put other primitives in their place.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
