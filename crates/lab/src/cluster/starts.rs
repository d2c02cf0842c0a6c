//! How soon somebody is answered after a kill: by a primary that is started again, and through a page server that has nothing.

use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::SmallRng;

use super::roles::Tiers;
use super::workload::Cdb;
use crate::Result;
use crate::mix::{Terminal, check};

/// Rows that are read until one needs the page server.
const TRIES: usize = 10_000;

/// Seconds.
#[derive(Clone, Copy)]
pub struct PrimaryStart {
    /// From the start of the process until a row was read, and until a transaction that writes was committed.
    pub read: f64,
    pub write: f64,
}

/// Kills the primary, which works at nothing, and starts it again.
pub fn primary(
    tiers: &mut Tiers,
    mix: &Cdb,
    terminals: &[Box<dyn Terminal>],
    rng: &mut SmallRng,
) -> Result<PrimaryStart> {
    tiers.primary.kill();
    let begun = Instant::now();
    tiers.primary.start()?;
    let mut client = tiers.primary.client()?;
    let id = rng.random_range(1..=mix.rows());
    client.query(&format!("select n from scaled_b where id = {id}"))?.ok_or("a row is not there after the kill")?;
    let read = begun.elapsed().as_secs_f64();
    // It changes nothing, and is a change all the same.
    client.query(&format!("update scaled_a set n = n where id = {id}"))?;
    let write = begun.elapsed().as_secs_f64();
    check(mix, &tiers.primary, terminals)?;
    Ok(PrimaryStart { read, write })
}

/// Kills the page server, empties it, and starts it again: seconds from the start of the process until a row was read whose page
/// it had to give. None if all rows that were read were in the primary's caches.
pub fn page_server(
    tiers: &mut Tiers,
    mix: &Cdb,
    terminals: &[Box<dyn Terminal>],
    rng: &mut SmallRng,
) -> Result<Option<f64>> {
    const GIVEN: &str = "select sum(pages) from resurgam_page_servers";
    let mut client = tiers.primary.client()?;
    client.set_patience(Some(Duration::from_secs(60)))?;
    let given = client.query(GIVEN)?;
    let begun = tiers.new_page_server()?;
    let mut answered = None;
    for _ in 0..TRIES {
        let id = rng.random_range(1..=mix.rows());
        client.query(&format!("select n from scaled_c where id = {id}"))?.ok_or("a row is not there any more")?;
        let now = begun.elapsed().as_secs_f64();
        if client.query(GIVEN)? != given {
            answered = Some(now);
            break;
        }
    }
    // All of it: every page that the primary does not have comes from the new one.
    check(mix, &tiers.primary, terminals)?;
    Ok(answered)
}
