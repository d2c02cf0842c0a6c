//! What is written of a run: the queries with their times and ratios, sums, loading, and a plot.

use super::side::Side;
use super::{Measured, Options, Outcome};
use crate::report::{median, provenance, table};
use crate::servers::Server;
use crate::svg::{Series, bars};

/// What the project wants: the sum of all queries as a multiple of PostgreSQL's, and what is counted as slow of one.
const GOAL_SUM: f64 = 3.0;
const SLOW: f64 = 1.5;

/// An outcome in a few words.
pub fn shown(outcome: &Outcome, options: &Options) -> String {
    match outcome {
        Outcome::Times(times) => seconds(median(times)),
        Outcome::TooLong => format!("over {} s", options.limit_seconds),
        Outcome::Failed(message) => format!("failed: {}", message.replace(['\n', '|'], " ")),
    }
}

/// The report and its plot.
pub fn report(options: &Options, sides: &[Side<'_>], measured: &[Measured], machine: &str) -> (String, String) {
    let names: Vec<&str> = sides.iter().map(|side| side.server.kind.name()).collect();
    let mut text = "# TPC-H's queries\n\n".to_owned();
    text += &provenance();
    text += &format!(
        "Scale {}, seed {}: data of our own generator with the specification's sizes, distributions and texts; the 22 queries with the \
         parameters that the specification validates answers with, one after the other on one connection. Medians of {} runs after one \
         that is not counted, the servers taking turns; {} s are the limit. Answers are compared row by row, value by value as text. \
         Keys {}; indexes on columns of foreign keys, {}; ANALYZE on both. Not a TPC result.{}\n\n",
        options.scale,
        options.seed,
        options.runs,
        options.limit_seconds,
        if options.keys_first { "are declared with the tables" } else { "are made once the rows are there" },
        if options.foreign_keys { "which are declared" } else { "which are not declared" },
        if options.postgres_set.is_empty() {
            " Memory of sorts and parallel workers as each server has them by itself.".to_owned()
        } else {
            format!(" PostgreSQL's session has {}.", options.postgres_set.join(", "))
        },
    );
    text += machine;
    for side in sides {
        text += &setting(&side.server);
    }
    text += &format!("\n{}\n{}", summary(measured), queries(&names, measured, options));
    let loading: Vec<Vec<String>> = sides.iter().map(loading).collect();
    let header =
        ["server", "COPY, s", "keys, s", "indexes, s", "ANALYZE, s", "files afterwards, MB", "peak memory, MB"];
    text += &format!(
        "\nLoading, and the memory that the server's process has held at most until the end:\n\n{}",
        table(&header, &loading)
    );
    text += &format!("\n![plot]({}.svg)\n", options.name);
    (text, plot(&names, measured))
}

fn setting(server: &Server) -> String {
    format!("- {}: `{}`\n", server.version(), server.settings())
}

fn loading(side: &Side<'_>) -> Vec<String> {
    let of = side.loading;
    let megabytes = |bytes: u64| format!("{:.0}", bytes as f64 / 1e6);
    let mut row = vec![side.server.kind.name().to_owned()];
    row.extend([of.copy, of.keys, of.indexes, of.analyze].map(|seconds| format!("{seconds:.1}")));
    row.push(megabytes(of.disk_bytes));
    row.push(side.peak_memory_bytes().map_or_else(|| "not measured".into(), megabytes));
    row
}

/// The first server's time as a multiple of the second's, where both have one.
fn ratio(measured: &Measured) -> Option<f64> {
    let [ours, theirs] = &measured.outcomes[..] else { return None };
    Some(ours.median()? / theirs.median()?.max(1e-9))
}

/// What all queries say together.
fn summary(measured: &[Measured]) -> String {
    let compared: Vec<&Measured> = measured.iter().filter(|one| ratio(one).is_some()).collect();
    if compared.is_empty() {
        return String::new();
    }
    let sum = |at: usize| compared.iter().filter_map(|one| one.outcomes[at].median()).sum::<f64>();
    let ratios: Vec<f64> = compared.iter().filter_map(|one| ratio(one)).collect();
    let mean = (ratios.iter().map(|ratio| ratio.max(1e-9).ln()).sum::<f64>() / ratios.len() as f64).exp();
    let numbers = |which: &dyn Fn(&Measured) -> bool| {
        let found: Vec<String> =
            measured.iter().filter(|one| which(one)).map(|one| one.query.number.to_string()).collect();
        if found.is_empty() { "none".to_owned() } else { found.join(", ") }
    };
    format!(
        "Of {} queries, {} ended on both servers: {} s here, {} s PostgreSQL, **{:.2} times** (the goal is at most {GOAL_SUM}); \
         the geometric mean of the ratios is {mean:.2}. Above {SLOW} times: {}. Too long or failed here: {}. Different answers: {}.\n",
        measured.len(),
        compared.len(),
        seconds(sum(0)),
        seconds(sum(1)),
        sum(0) / sum(1).max(1e-9),
        numbers(&|one| ratio(one).is_some_and(|ratio| ratio > SLOW)),
        numbers(&|one| one.outcomes.first().is_some_and(|ours| ours.median().is_none())),
        numbers(&|one| one.difference.is_some()),
    )
}

fn queries(names: &[&str], measured: &[Measured], options: &Options) -> String {
    let mut header = vec!["query".to_owned()];
    header.extend(names.iter().map(|name| format!("{name}, s")));
    header.extend(["of PostgreSQL's", "rows", "answers"].map(str::to_owned));
    let rows: Vec<Vec<String>> = measured
        .iter()
        .map(|one| {
            let mut row = vec![one.query.number.to_string()];
            row.extend(one.outcomes.iter().map(|outcome| shown(outcome, options)));
            row.push(ratio(one).map_or_else(String::new, |ratio| format!("{ratio:.2}")));
            row.push(one.rows.map_or_else(String::new, |rows| rows.to_string()));
            row.push(match &one.difference {
                Some(difference) => format!("**differ**: {}", difference.replace(['\n', '|'], " ")),
                None if one.outcomes.len() == 2 && one.outcomes.iter().all(|o| o.median().is_some()) => "equal".into(),
                None => "not compared".into(),
            });
            row
        })
        .collect();
    let header: Vec<&str> = header.iter().map(String::as_str).collect();
    table(&header, &rows)
}

/// The ratios; of one server alone, its times.
fn plot(names: &[&str], measured: &[Measured]) -> String {
    let groups: Vec<String> = measured.iter().map(|one| format!("Q{}", one.query.number)).collect();
    let name = names.first().copied().unwrap_or_default().to_owned();
    if names.len() < 2 {
        let values = measured.iter().map(|one| one.outcomes.first().and_then(Outcome::median)).collect();
        return bars("TPC-H's queries", "seconds", &groups, &[Series { name, values }]);
    }
    let values = measured.iter().map(ratio).collect();
    bars("TPC-H's queries", "time as a multiple of PostgreSQL's", &groups, &[Series { name, values }])
}

fn seconds(seconds: f64) -> String {
    if seconds < 10.0 { format!("{seconds:.3}") } else { format!("{seconds:.1}") }
}

#[cfg(test)]
mod tests {
    use super::super::queries;
    use super::*;

    fn measured(outcomes: Vec<(Outcome, Outcome, Option<&str>)>) -> Vec<Measured> {
        let all = queries::all(1.0).into_iter().zip(outcomes);
        all.map(|(query, (ours, theirs, difference))| Measured {
            query,
            outcomes: vec![ours, theirs],
            rows: Some(4),
            difference: difference.map(str::to_owned),
        })
        .collect()
    }

    #[test]
    fn sums_are_of_queries_that_both_have_ended() {
        let times = |seconds: f64| Outcome::Times(vec![seconds, 9.0, 0.0]);
        let said = summary(&measured(vec![
            (times(2.0), times(1.0), None),
            (times(1.0), times(2.0), Some("row 1")),
            (Outcome::TooLong, times(5.0), None),
            (Outcome::Failed("ERROR".into()), Outcome::TooLong, None),
        ]));
        assert!(
            said.contains("Of 4 queries, 2 ended on both servers: 3.000 s here, 3.000 s PostgreSQL, **1.00 times**"),
            "{said}"
        );
        assert!(said.contains("geometric mean of the ratios is 1.00. Above 1.5 times: 1."), "{said}");
        assert!(said.contains("Too long or failed here: 3, 4. Different answers: 2."), "{said}");
        assert_eq!(summary(&measured(vec![(Outcome::TooLong, times(1.0), None)])), "");
    }
}
