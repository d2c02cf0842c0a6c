//! Tests of the embedded API, in one program: each program is linked by itself.

mod concurrency;
mod definitions;
mod kill;
mod model;
mod tables;
mod transactions;

use resurgam_embedded::{Db, Options};

/// A folder and a database in it, with little memory: more than what tests have does not fit.
fn open() -> (tempfile::TempDir, Db) {
    let dir = tempfile::tempdir().unwrap();
    let db = options().open(dir.path().join("db")).unwrap();
    (dir, db)
}

fn options() -> Options {
    Db::options().memory(2 << 20)
}

/// The seed of a random test: `RESURGAM_SEED`, or a new one, which is printed.
fn seed(test: &str) -> u64 {
    let new = || std::hash::BuildHasher::hash_one(&std::hash::RandomState::new(), test);
    let seed = std::env::var("RESURGAM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(new);
    println!("{test}: RESURGAM_SEED={seed}");
    seed
}
