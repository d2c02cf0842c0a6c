//! The stores, each with what its own documentation recommends for speed without loss of durability.

#[cfg(feature = "fjall")]
mod fjall;
#[cfg(feature = "lmdb")]
mod lmdb;
#[cfg(feature = "redb")]
mod redb;
mod resurgam;
#[cfg(feature = "sqlite")]
mod sqlite;

use std::path::Path;

use crate::store::{Outcome, Store};

/// Opens a store in a folder, which is empty at first, with a cache of so many bytes where it has one of its own.
pub type Open = fn(&Path, usize) -> Outcome<Box<dyn Store>>;

/// All that were compiled in.
pub const ALL: &[(&str, Open)] = &[
    ("Resurgam", resurgam::open),
    #[cfg(feature = "redb")]
    ("redb", redb::open),
    #[cfg(feature = "lmdb")]
    ("LMDB", lmdb::open),
    #[cfg(feature = "sqlite")]
    ("SQLite", sqlite::open),
    #[cfg(feature = "fjall")]
    ("fjall", fjall::open),
];
