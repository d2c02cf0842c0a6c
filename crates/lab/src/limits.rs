//! What keeps sessions from harming each other, in two numbers: memory of idle connections, and how long a statement
//! goes on that was told to stop.

use std::time::{Duration, Instant};

use clap::Args;

use crate::report::{self, table};
use crate::servers::{Kind, Server, Work};
use crate::setup::Setup;
use crate::svg::{Series, bars};
use crate::wire::{Client, cancel};
use crate::{Common, Result};

/// A stop that takes longer is a failure of the run.
const PATIENCE: Duration = Duration::from_secs(30);
/// What the 99th percentile of stops is to be within, in milliseconds.
const GOAL_MS: f64 = 200.0;

/// Statements without an end of their own, by what they are busy with. `u` has 20,000 rows of one `n`.
const BUSY: &[(&str, &str)] = &[
    ("a series", "select count(*) from generate_series(1, 1000000000000)"),
    ("sleep", "select pg_sleep(1000)"),
    ("groups", "select i % 10, sum(i) from generate_series(1, 1000000000000) s(i) group by 1"),
    ("a sort", "select i from generate_series(1, 100000000000) s(i) order by -i limit 1 offset 1000000"),
    ("nested loops without rows", "select count(*) from u a, u b, u c where a.id + b.id + c.id < 0"),
    ("a hash join without rows", "select count(*) from u a join u b on a.n = b.n and (a.id < 0 or b.m > 0), u c"),
    ("hash joins", "select count(*) from u a join u b using (n) join u c using (n) join u d using (n)"),
    ("a window", "select lag(x) over (order by x) from (select a.id + b.id x from u a, u b) q limit 1"),
    ("recursion", "with recursive x(n) as (select 1 union all select n % 10 + 1 from x) select max(n) from x"),
    ("a pattern", "select count(*) from u a, u b where repeat('ab', 1000 + a.id) like '%a%a%a%a%a%a%a%a%c' || b.id"),
    ("a write", "update u set m = m where id in (select a.id + b.id + c.id + 100000 from u a, u b, u c)"),
];

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Idle connections
    #[arg(long, default_value_t = 1000)]
    connections: u32,
    /// Stops of each kind of statement
    #[arg(long, default_value_t = 20)]
    stops: u32,
    /// Fail if the 99th percentile of all stops is above the goal of 200 ms
    #[arg(long)]
    strict: bool,
}

/// Resident memory of the server's process in bytes.
fn resident(server: &Server) -> Result<u64> {
    let process = server.process().ok_or("the server has ended")?;
    let path = format!("/proc/{process}/status");
    let status = std::fs::read_to_string(&path).map_err(|e| format!("{path}: {e}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    let kb = line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).ok_or("no number")?;
    Ok(kb << 10)
}

/// Kilobytes for each of so many connections that have just logged in, and after each has run a statement.
fn idle(server: &Server, connections: u32) -> Result<[f64; 2]> {
    drop(server.client()?.query("select 1")?);
    let base = resident(server)?;
    let each = |now: u64| now.saturating_sub(base) as f64 / 1024.0 / f64::from(connections.max(1));
    let mut clients = (0..connections).map(|_| server.client()).collect::<Result<Vec<_>>>()?;
    let silent = each(resident(server)?);
    for client in &mut clients {
        client.query("select count(*) from u where id < 5")?;
    }
    Ok([silent, each(resident(server)?)])
}

/// Milliseconds from the cancel of a statement to its answer.
fn stop(server: &Server, statement: &str, run_for: Duration) -> Result<f64> {
    let mut key = (0, 0);
    let mut client = Client::connect_as("postgres", "postgres", server.port, Some(PATIENCE), |tag, body| {
        if let (b'K', [a, b, c, d, e, f, g, h]) = (tag, body) {
            key = (u32::from_be_bytes([*a, *b, *c, *d]), u32::from_be_bytes([*e, *f, *g, *h]));
        }
    })?;
    let port = server.port;
    let mut watcher = server.client()?;
    let told = std::thread::spawn(move || {
        // A cancel that comes before the statement is forgotten.
        let active = format!("select count(*) from pg_stat_activity where pid = {} and state = 'active'", key.0);
        while watcher.query(&active)?.as_deref() == Some("0") {
            std::thread::sleep(Duration::from_millis(1));
        }
        std::thread::sleep(run_for);
        let told = Instant::now();
        cancel(port, key.0, key.1).map(|()| told)
    });
    let answer = client.query(statement);
    let answered = Instant::now();
    let told = told.join().map_err(|_| "the thread that cancels has panicked")??;
    match answer {
        Err(error) if error.contains("57014") => Ok(answered.saturating_duration_since(told).as_secs_f64() * 1e3),
        other => Err(format!("{statement}: {other:?} instead of its cancel")),
    }
}

/// Runs the experiment.
///
/// # Errors
/// In words; with `--strict` also that the goal was missed.
pub fn run(options: &Options) -> Result<()> {
    let work = Work::new(&options.common)?;
    let most = format!("--max-connections={}", options.connections + 10);
    let server = Server::create_with(Kind::Resurgam, &options.common, work.path(), &[most])?;
    let mut setup = Setup::here(work.path());
    setup.saw(&server);
    let mut client = server.client()?;
    client.query("create table u (id int primary key, n int, m int)")?;
    client.query("insert into u select i, 0, -i from generate_series(1, 20000) i")?;
    let [silent, used] = idle(&server, options.connections)?;

    let (mut rows, mut all, mut slowest) = (Vec::new(), Vec::new(), Vec::new());
    for (what, statement) in BUSY {
        let mut took = Vec::new();
        for at in 0..options.stops {
            // At different moments of what it does.
            took.push(stop(&server, statement, Duration::from_millis(30 + u64::from(at % 7) * 17))?);
        }
        took.sort_by(f64::total_cmp);
        rows.push(vec![
            (*what).to_owned(),
            format!("{:.1}", percentile(&took, 0.5)),
            format!("{:.1}", percentile(&took, 0.99)),
        ]);
        slowest.push(Some(percentile(&took, 0.99)));
        all.extend(took);
    }
    all.sort_by(f64::total_cmp);
    let p99 = percentile(&all, 0.99);
    rows.push(vec!["all".into(), format!("{:.1}", percentile(&all, 0.5)), format!("{p99:.1}")]);

    let mut text = "# Limits: idle connections, and statements that are told to stop\n\n".to_owned();
    text += &report::provenance();
    text += &setup.text();
    text += &format!(
        "Resident memory of {} idle connections: {silent:.1} kB for each that has logged in ({:.1} MB together), {used:.1} kB \
         for each that has run a statement ({:.1} MB).\n\nFrom a request to cancel (a new connection) to the statement's \
         answer, {} times each, in milliseconds; the goal is {GOAL_MS} ms at the 99th percentile:\n\n",
        options.connections,
        silent * f64::from(options.connections) / 1024.0,
        used * f64::from(options.connections) / 1024.0,
        options.stops,
    );
    text += &table(&["statement", "median, ms", "99 %, ms"], &rows);
    text += "\n![plot](limits.svg)\n";
    let groups: Vec<String> = BUSY.iter().map(|(what, _)| (*what).to_owned()).collect();
    let series = [Series { name: "99th percentile".to_owned(), values: slowest }];
    report::write(&options.common, "limits", &text, &bars("Stops", "ms to the answer", &groups, &series))?;
    match options.strict && p99 > GOAL_MS {
        true => Err(format!("the 99th percentile of stops is {p99:.0} ms, the goal {GOAL_MS} ms")),
        false => Ok(()),
    }
}

/// Of sorted values; 0 if there are none.
fn percentile(sorted: &[f64], part: f64) -> f64 {
    let at = (sorted.len() as f64 * part).ceil() as usize;
    sorted.get(at.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_values_that_were_seen() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!([percentile(&values, 0.5), percentile(&values, 0.99), percentile(&[], 0.5)], [100.0, 198.0, 0.0]);
        assert_eq!(percentile(&[7.0], 0.99), 7.0);
    }
}
