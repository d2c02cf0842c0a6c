//! Time from process start to the first answered query, after kill -9 while a transaction
//! that inserted many rows is open (Constant Time Recovery, section 5.1, asks the same).
//!
//! The first query reads the very table that the transaction wrote to: nothing of it may
//! be seen, and one committed row must be.

use clap::Args;

use crate::report::{self, median, table};
use crate::servers::{Kind, Server, Work, kinds};
use crate::setup::Setup;
use crate::svg::{Series, bars};
use crate::{Common, Result};

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Rows that the open transaction inserted
    #[arg(long, value_delimiter = ',', default_values_t = [1_000_000u64, 2_000_000, 4_000_000])]
    rows: Vec<u64>,
    /// Times each number of rows is tried
    #[arg(long, default_value_t = 3)]
    runs: u32,
}

/// Seconds until the first answer, and until the table itself was read by its key.
struct Times {
    answer: f64,
    row: f64,
}

fn one(kind: Kind, options: &Options, rows: u64, setup: &mut Setup) -> Result<Times> {
    let work = Work::new(&options.common)?;
    let mut server = Server::create(kind, &options.common, work.path())?;
    let mut client = server.client()?;
    client.query("create table t (id bigint primary key, a bigint, b text)")?;
    client.query("insert into t values (0, 0, 'committed')")?;
    client.query("begin")?;
    client.query(&format!(
        "insert into t select i, i, 'a row of an open transaction' from generate_series(1, {rows}) as s(i)"
    ))?;
    server.kill();
    drop(client);
    let answer = server.start()?;
    let begun = std::time::Instant::now();
    let mut client = server.client()?;
    let found = client.query("select b from t where id = 0")?;
    let row = answer + begun.elapsed();
    if found.as_deref() != Some("committed") {
        return Err(format!("{}: the committed row is gone after the restart: {found:?}", kind.name()));
    }
    let lost = client.query(&format!("select count(*) from t where id > {}", rows - rows.min(100)))?;
    if lost.as_deref() != Some("0") {
        return Err(format!("{}: rows of the open transaction are visible after the restart", kind.name()));
    }
    setup.saw(&server);
    Ok(Times { answer: answer.as_secs_f64(), row: row.as_secs_f64() })
}

/// Runs the experiment.
pub fn run(options: &Options) -> Result<()> {
    let kinds = kinds(&options.common)?;
    let mut setup = Setup::new(&options.common)?;
    let mut series: Vec<Series> =
        kinds.iter().map(|kind| Series { name: kind.name().to_owned(), values: Vec::new() }).collect();
    let mut table_rows = Vec::new();
    for &rows in &options.rows {
        let mut times: Vec<Vec<Times>> = kinds.iter().map(|_| Vec::new()).collect();
        for run in 0..options.runs {
            for (at, kind) in kinds.iter().enumerate() {
                let found = one(*kind, options, rows, &mut setup)?;
                eprintln!("{rows} rows, run {}, {}: {:.3} s", run + 1, kind.name(), found.answer);
                times[at].push(found);
            }
        }
        for (at, kind) in kinds.iter().enumerate() {
            let answers: Vec<f64> = times[at].iter().map(|t| t.answer).collect();
            let keys: Vec<f64> = times[at].iter().map(|t| t.row).collect();
            let all: Vec<String> = answers.iter().map(|t| format!("{t:.3}")).collect();
            table_rows.push(vec![
                rows.to_string(),
                kind.name().to_owned(),
                format!("{:.3}", median(&answers)),
                format!("{:.3}", median(&keys)),
                all.join(", "),
            ]);
            series[at].values.push(Some(median(&answers)));
        }
    }
    let mut text = String::from("# Restart after kill -9 with a large open transaction\n\n");
    text += &report::provenance();
    text += &format!(
        "One transaction inserts the rows into an empty table and stays open; the server is killed and started \
         again. {} runs of each; medians. No random numbers are involved.\n\n",
        options.runs
    );
    text += &setup.text();
    text += &table(
        &["rows inserted", "server", "s to the first answer", "s to a row of that table", "first answers of all runs"],
        &table_rows,
    );
    text += "\n![plot](restart.svg)\n";
    let groups: Vec<String> = options.rows.iter().map(|rows| format!("{rows} rows")).collect();
    let svg =
        bars("Restart after kill -9, by rows of the open transaction", "seconds to the first answer", &groups, &series);
    report::write(&options.common, "restart", &text, &svg)
}
