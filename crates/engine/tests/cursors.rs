//! Cursors, counts and point reads beside writers, against a plain map (`cursors/model.rs`).

mod common;
#[path = "cursors/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "harness/rng.rs"]
mod rng;

use resurgam_engine::Result;

fn seed() -> u64 {
    let seed = std::env::var("RESURGAM_SEED").ok().and_then(|seed| seed.parse().ok());
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(1, |time| time.as_nanos() as u64 >> 10 & 0xff_ffff);
    let seed = seed.unwrap_or(now);
    println!("RESURGAM_SEED={seed}");
    seed
}

/// All that is written fits in memory.
#[test]
fn what_is_found_beside_writers_is_what_a_map_has() -> Result<()> {
    model::run(seed(), 400, 4096)
}

/// Pages go and come back, inner ones too.
#[test]
fn with_less_memory_than_data() -> Result<()> {
    model::run(seed(), 300, 96)
}
