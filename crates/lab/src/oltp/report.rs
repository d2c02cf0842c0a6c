//! The result as a table: medians, ratios round by round, what became of the statements.

use super::workload::Workload;
use super::{Options, Sample};
use crate::report::{self, median, table};
use crate::servers::{Kind, Server};
use crate::svg::{Series, bars};
use crate::{Result, wire::Client};

/// Of each workload, of each server, a value for each round.
type Samples = [Vec<Vec<Sample>>];

/// The report's text, and its plot.
///
/// # Errors
/// A server does not answer any more.
pub fn report(
    options: &Options,
    servers: &[&Server],
    workloads: &[Workload],
    samples: &Samples,
    machine: &str,
) -> Result<(String, String)> {
    let mut text = String::from("# Transactions a second, and what one costs the server\n\n");
    text += &report::provenance();
    text += &format!(
        "{} clients; {} rounds of {} s for each workload on each server, taking turns; seeds {} and up; commits wait \
         for the disk on both. Scale of pgbench {}, sysbench {} rows, TPC-C-like {} warehouses (all transactions are \
         counted; no TPC result).\n\
         *CPU* is user and system time of all of the server's processes, its background work among it, for one \
         transaction. Ratios are medians over the rounds, each of two runs next to each other.\n\n",
        options.clients, options.rounds, options.seconds, options.seed, options.scale, options.rows, options.warehouses
    );
    text += machine;
    for server in servers {
        text += &format!("- {}: `{}`\n", server.version(), server.settings());
    }
    text += "\n";
    text += &results(servers, workloads, samples);
    for server in servers.iter().filter(|server| server.kind.is_resurgam()) {
        text += "\nHow Resurgam's statements ran, by shape, until the end; *direct*: without a physical plan, *kept*: with \
                 one that was there, *made*: with one that was made, to be kept or for that run:\n\n";
        text += &shapes(&mut server.client()?)?;
    }
    text += "\n![plot](oltp.svg)\n";
    Ok((text, plot(servers, workloads, samples)))
}

fn medians(samples: &[Sample]) -> (f64, f64) {
    let of = |value: fn(&Sample) -> f64| median(&samples.iter().map(value).collect::<Vec<f64>>());
    (of(|sample| sample.rate), of(|sample| sample.cpu_us))
}

/// Medians of what `own` has for `peer`'s one, round by round: rate, processor time.
fn ratios(own: &[Sample], peer: &[Sample]) -> (f64, f64) {
    let of = |value: fn(&Sample) -> f64| {
        let rounds = own.iter().zip(peer).map(|(own, peer)| value(own) / value(peer).max(f64::MIN_POSITIVE));
        median(&rounds.collect::<Vec<f64>>())
    };
    (of(|sample| sample.rate), of(|sample| sample.cpu_us))
}

fn results(servers: &[&Server], workloads: &[Workload], samples: &Samples) -> String {
    let peer = servers.iter().position(|server| server.kind == Kind::Postgres);
    let mut header = vec!["workload".to_owned()];
    for server in servers {
        header.extend([format!("{}, /s", server.kind.name()), format!("{}, CPU µs", server.kind.name())]);
    }
    header.extend(["throughput of PostgreSQL's", "CPU of PostgreSQL's", "rounds: throughput; CPU"].map(str::to_owned));
    let mut rows = Vec::new();
    for (workload, of_servers) in workloads.iter().zip(samples) {
        let mut row = vec![workload.name()];
        for samples in of_servers {
            let (rate, cpu) = medians(samples);
            row.extend([format!("{rate:.0}"), format!("{cpu:.1}")]);
        }
        match (peer.and_then(|at| of_servers.get(at)), of_servers.first()) {
            (Some(peer), Some(own)) => {
                let (rate, cpu) = ratios(own, peer);
                let rounds = own.iter().zip(peer);
                let (rates, cpus): (Vec<String>, Vec<String>) = rounds
                    .map(|(own, peer)| {
                        (format!("{:.2}", own.rate / peer.rate), format!("{:.2}", own.cpu_us / peer.cpu_us))
                    })
                    .unzip();
                row.extend([format!("{rate:.2}"), format!("{cpu:.2}")]);
                row.push(format!("{}; {}", rates.join(", "), cpus.join(", ")));
            }
            _ => row.extend([String::new(), String::new(), String::new()]),
        }
        rows.push(row);
    }
    table(&header.iter().map(String::as_str).collect::<Vec<_>>(), &rows)
}

/// Of the statements that are kept, by what they are planned for.
fn shapes(client: &mut Client) -> Result<String> {
    let rows = client.rows(
        "SELECT shape, count(*), sum(direct), sum(hits), sum(misses) + sum(planned_each_time), \
         round(CAST(sum(plan_ms) / count(*) AS numeric), 2), \
         round(CAST(sum(run_ms) * 1000 / greatest(sum(direct + hits + misses + planned_each_time), 1) AS numeric), 1), \
         round(CAST(100 * sum(direct + hits) / greatest(sum(direct + hits + misses + planned_each_time), 1) AS numeric), 2) \
         FROM resurgam_plans WHERE direct + hits + misses + planned_each_time > 0 GROUP BY shape ORDER BY shape",
    )?;
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|row| row.into_iter().map(Option::unwrap_or_default).collect()).collect();
    let header =
        ["shape", "statements", "direct", "kept", "made", "ms to plan one", "mean µs to run", "direct or kept, %"];
    Ok(table(&header, &rows))
}

fn plot(servers: &[&Server], workloads: &[Workload], samples: &Samples) -> String {
    // By itself each workload would need an axis of its own; the ratio is what they have in common.
    let peer = servers.iter().position(|server| server.kind == Kind::Postgres);
    let ratios = |value: fn((f64, f64)) -> f64| -> Vec<Option<f64>> {
        let of = |servers: &Vec<Vec<Sample>>| Some(value(ratios(servers.first()?, servers.get(peer?)?)));
        samples.iter().map(of).collect()
    };
    let groups: Vec<String> = (1..=workloads.len()).map(|number| number.to_string()).collect();
    let series = [
        Series { name: "throughput".into(), values: ratios(|(rate, _)| rate) },
        Series { name: "CPU a transaction".into(), values: ratios(|(_, cpu)| cpu) },
    ];
    bars("Resurgam by PostgreSQL, in the table's order", "ratio", &groups, &series)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_of_a_round() {
        let of = |pairs: &[(f64, f64)]| -> Vec<Sample> {
            pairs.iter().map(|(rate, cpu_us)| Sample { rate: *rate, cpu_us: *cpu_us }).collect()
        };
        let own = of(&[(10.0, 1.0), (40.0, 3.0), (90.0, 2.0)]);
        let peer = of(&[(10.0, 2.0), (20.0, 4.0), (30.0, 8.0)]);
        assert_eq!(ratios(&own, &peer), (2.0, 0.5));
        assert_eq!(medians(&own), (40.0, 2.0));
    }
}
