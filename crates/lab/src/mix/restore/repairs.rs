//! Pages that are damaged in their file, and read: what the repair of one takes.

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

use super::{Options, Places};
use crate::Result;
use crate::mix::tpcc::TpcC;
use crate::mix::{Terminal, check};
use crate::servers::Server;

const PAGE_BYTES: u64 = 8192;
/// One of so many pages is overwritten.
const EVERY: u64 = 10;
/// Repairs that are looked at, and the time for it at most.
const WANTED: usize = 2000;
const TIME: Duration = Duration::from_secs(60);
/// The view shows the last hundred repairs: statements between two looks are fewer.
const STATEMENTS: usize = 20;

/// What was damaged and rebuilt.
pub(super) struct Repairs {
    pub damaged: u64,
    pub data_mb: f64,
    /// Of each repair, ascending.
    pub ms: Vec<f64>,
    /// Records of the log for one, in the mean.
    pub records: f64,
}

/// Stops the server, overwrites pages of its data file, and reads rows until enough of them were met.
pub(super) fn repairs(
    options: &Options,
    mix: &TpcC,
    server: &mut Server,
    places: &Places,
    terminals: &[Box<dyn Terminal>],
) -> Result<Repairs> {
    server.stop()?;
    let data = places.data(server)?;
    let file = File::options().write(true).open(&data).map_err(|e| e.to_string())?;
    let pages = file.metadata().map_err(|e| e.to_string())?.len() / PAGE_BYTES;
    let mut rng = SmallRng::seed_from_u64(options.seed);
    let mut damaged = 0;
    // The first page is the file's header.
    for page in 1..pages {
        if rng.random_range(0..EVERY) == 0 {
            let noise = [rng.random::<u8>(); PAGE_BYTES as usize];
            file.write_all_at(&noise, page * PAGE_BYTES).map_err(|e| e.to_string())?;
            damaged += 1;
        }
    }
    file.sync_all().map_err(|e| e.to_string())?;
    drop(file);
    server.start()?;
    let mut client = server.client()?;
    let begun = Instant::now();
    // By page and moment, so that none counts twice.
    let mut seen = BTreeMap::new();
    while seen.len() < WANTED && begun.elapsed() < TIME {
        for _ in 0..STATEMENTS {
            let (warehouse, item) = (rng.random_range(1..=mix.warehouses), rng.random_range(1..=mix.items));
            client.query(&format!("select s_quantity from stock where s_w_id = {warehouse} and s_i_id = {item}"))?;
        }
        let sql = "select string_agg(concat_ws(' ', page, extract(epoch from repaired_at), ms, records), ',') from resurgam_repairs";
        for row in client.query(sql)?.unwrap_or_default().split(',').filter(|row| !row.is_empty()) {
            let numbers: Vec<f64> = row.split(' ').filter_map(|number| number.parse().ok()).collect();
            let [page, at, ms, records] = numbers[..] else { return Err(format!("\"{row}\" is no repair")) };
            seen.insert((page as u64, (at * 1e6) as u64), (ms, records));
        }
    }
    check(mix, server, terminals)?;
    let mut ms: Vec<f64> = seen.values().map(|(ms, _)| *ms).collect();
    ms.sort_by(f64::total_cmp);
    let records = seen.values().map(|(_, records)| records).sum::<f64>() / seen.len().max(1) as f64;
    Ok(Repairs { damaged, data_mb: (pages * PAGE_BYTES) as f64 / 1e6, ms, records })
}
