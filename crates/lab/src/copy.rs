//! COPY FROM STDIN of many rows in one transaction: speed, and the server's peak memory and log,
//! which must not grow with the rows.

use std::time::Instant;

use clap::Args;

use crate::recovery::watch::{Peaks, number};
use crate::report::{self, table};
use crate::servers::{Kind, Server, Work, kinds};
use crate::setup::{Setup, bytes_of};
use crate::svg::{Series, bars};
use crate::{Common, Result};

/// Input sent at a time.
const CHUNK_BYTES: usize = 64 << 10;

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Millions of rows, one load for each number
    #[arg(long, value_delimiter = ',', default_values_t = [2.0f64, 10.0])]
    millions: Vec<f64>,
    /// Bytes of a line of input, its end included
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(40..))]
    row_bytes: u16,
    /// Another name for the results, so that they stand beside those of a run before
    #[arg(long, default_value = "copy")]
    name: String,
}

struct Outcome {
    seconds: f64,
    bytes: u64,
    peak_bytes: Option<u64>,
    /// Most bytes of log in use; of Resurgam.
    log_bytes: Option<u64>,
    /// Bytes of the files of the database.
    disk_bytes: u64,
}

/// Appends row `id` to the input: a key, a number, text up to the row's length.
fn put_row(id: u64, row_bytes: usize, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend_from_slice(format!("{id}\t{}\t", id.wrapping_mul(2_654_435_761) % 1_000_000).as_bytes());
    while out.len() - start < row_bytes - 1 {
        let letter = b'a' + ((id as usize + out.len() - start) % 26) as u8;
        out.push(letter);
    }
    out.push(b'\n');
}

fn one(kind: Kind, options: &Options, rows: u64, setup: &mut Setup) -> Result<Outcome> {
    let work = Work::new(&options.common)?;
    let server = Server::create(kind, &options.common, work.path())?;
    let mut client = server.client()?;
    client.query("create table t (id bigint primary key, a integer, b text)")?;
    let (mut next, mut bytes) = (0, 0);
    let mut sampler = if kind == Kind::Resurgam { Some(server.session()?) } else { None };
    let log = Peaks::<1>::start(move || Some([number(sampler.as_mut()?, "resurgam_log", "bytes_in_use")? as u64]));
    let begun = Instant::now();
    client.copy_in("copy t from stdin", |chunk| {
        while next < rows && chunk.len() < CHUNK_BYTES {
            put_row(next, usize::from(options.row_bytes), chunk);
            next += 1;
        }
        bytes += chunk.len() as u64;
        next < rows
    })?;
    let seconds = begun.elapsed().as_secs_f64();
    let [log_bytes] = log.stop()?;
    // PostgreSQL's memory is spread over processes that share most of it.
    let peak_bytes = if kind == Kind::Resurgam { server.peak_memory_bytes() } else { None };
    let found = client.query("select count(*) from t")?;
    if found != Some(rows.to_string()) {
        return Err(format!("{}: {found:?} rows are there after COPY of {rows}", kind.name()));
    }
    setup.saw(&server);
    let log_bytes = (kind == Kind::Resurgam).then_some(log_bytes);
    Ok(Outcome { seconds, bytes, peak_bytes, log_bytes, disk_bytes: bytes_of(work.path()) })
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let kinds = kinds(&options.common)?;
    let mut setup = Setup::new(&options.common)?;
    let mut series: Vec<Series> =
        kinds.iter().map(|kind| Series { name: kind.name().to_owned(), values: Vec::new() }).collect();
    let mut rows_of_table = Vec::new();
    let counts: Vec<u64> = options.millions.iter().map(|m| (m * 1e6).round().max(1.0) as u64).collect();
    for &rows in &counts {
        for (at, kind) in kinds.iter().enumerate() {
            let outcome = one(*kind, options, rows, &mut setup)?;
            let speed = outcome.bytes as f64 / 1e6 / outcome.seconds;
            eprintln!("{rows} rows, {}: {speed:.1} MB/s", kind.name());
            rows_of_table.push(vec![
                rows.to_string(),
                kind.name().to_owned(),
                format!("{:.1}", outcome.seconds),
                format!("{speed:.1}"),
                format!("{:.0}", rows as f64 / outcome.seconds),
                megabytes(outcome.peak_bytes),
                megabytes(outcome.log_bytes),
                megabytes(Some(outcome.disk_bytes)),
            ]);
            series[at].values.push(Some(speed));
        }
    }
    let mut text = format!("# COPY FROM STDIN of {}-byte rows\n\n", options.row_bytes);
    text += &report::provenance();
    text += "Each load goes into a new table with a primary key, keys ascending, in one transaction, over one \
             connection; the time is from the first byte to the answer. The rows are a function of their number. Log in use is \
             sampled every 100 ms.\n\n";
    text += &setup.text();
    let header =
        ["rows", "server", "s", "MB/s", "rows/s", "peak memory, MB", "log in use at most, MB", "files afterwards, MB"];
    text += &table(&header, &rows_of_table);
    text += &format!("\n![plot]({}.svg)\n", options.name);
    let groups: Vec<String> = counts.iter().map(|rows| format!("{rows} rows")).collect();
    let svg = bars("COPY FROM STDIN", "MB of input a second", &groups, &series);
    report::write(&options.common, &options.name, &text, &svg)
}

fn megabytes(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| "not measured".into(), |bytes| format!("{:.0}", bytes as f64 / 1e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_have_their_length() {
        let mut out = Vec::new();
        for id in [0, 9, 12_345_678, u64::MAX] {
            out.clear();
            put_row(id, 200, &mut out);
            assert_eq!(out.len(), 200);
            assert_eq!(out.iter().filter(|b| **b == b'\t').count(), 2);
        }
    }
}
