//! Tables and plots of the experiment, and whether its goals are met.

use super::runs::Run;
use super::views::Look;
use super::{Beside, CACHED, CACHED_SKEWED, COMMIT_KEYS, Cached, Found, Options, warmth};
use crate::Result;
use crate::cluster::workload::Cdb;
use crate::lines::{Line, Panel, log_log};
use crate::report::{self, median, paired_text, table};
use crate::svg::{Series, bars};

/// The goals: throughput of the tiers by that of one process; hit rates; log in megabytes a second, seconds of lag, megabytes that
/// a core applies in a second; milliseconds of a commit beside one sync; of a page, and microseconds of processor time for it;
/// seconds to a first answer.
const RATIO: f64 = 0.92;
const HITS: f64 = 0.52;
const HITS_SKEWED: f64 = 0.32;
const LOG_MB_S: f64 = 100.0;
const LAG_S: f64 = 1.0;
const APPLY_MB_S: f64 = 60.0;
const COMMIT_MS: f64 = 0.2;
const PAGE_P50_MS: f64 = 0.2;
const PAGE_P99_MS: f64 = 0.5;
const PAGE_CPU_US: f64 = 50.0;
const START_S: f64 = 0.3;

/// What could not be had.
const MISSING: &str = "missing";

/// Where the page server is among the processes of a run.
const PAGE_SERVER: usize = 2;

fn met(is: bool) -> &'static str {
    if is { "met" } else { "**missed**" }
}

fn cell(value: Option<f64>, digits: usize) -> String {
    value.map_or(MISSING.into(), |value| format!("{value:.digits$}"))
}

/// With its goal, as `1.23: met`.
fn judged(value: Option<f64>, digits: usize, good: impl Fn(f64) -> bool) -> String {
    value.map_or(MISSING.into(), |value| format!("{value:.digits$}: {}", met(good(value))))
}

/// The median over runs; none without runs, or where one of them has no such number.
fn over<T>(runs: &[T], of: impl Fn(&T) -> Option<f64>) -> Option<f64> {
    let all: Vec<f64> = runs.iter().map(of).collect::<Option<_>>()?;
    (!all.is_empty()).then(|| median(&all))
}

/// Writes the tables and the plots.
pub(super) fn write(options: &Options, mix: &Cdb, setup: &str, found: &Found) -> Result<()> {
    let rate = |runs: &[Run]| over(runs, |run| Some(run.rate()));
    let all = [
        ("one process", &found.throughput.one),
        ("tiers", &found.throughput.tiers),
        ("PostgreSQL, two synchronous standbys", &found.standbys),
    ];
    let series: Vec<Series> = all
        .into_iter()
        .filter(|(_, runs)| !runs.is_empty())
        .map(|(name, runs)| Series { name: name.into(), values: vec![rate(runs)] })
        .collect();
    let svg = bars("CDB-like default mix", "transactions a second", &[format!("{} GB", options.gb)], &series);
    report::write_svg(&options.common, "cluster-commits", &commit_plot(found))?;
    report::write(&options.common, "cluster", &text(options, mix, setup, found), &svg)
}

/// Figure 4, and latencies beside it.
fn commit_plot(found: &Found) -> String {
    let line = |entry: usize, of: &dyn Fn(&Beside) -> Option<f64>| Line {
        entry,
        points: found.commits.iter().filter_map(|(count, beside)| Some((*count as f64, of(beside)?))).collect(),
    };
    let panel = |title: &str, of: fn(&Run) -> f64| Panel {
        title: title.into(),
        lines: vec![
            line(0, &|beside| of_latencies(&beside.one, &of)),
            line(2, &|beside| of_latencies(&beside.tiers, &of)),
        ],
    };
    let panels = [
        panel("transactions a second", Run::rate),
        panel("p50, ms", |run| run.percentile(0.5)),
        panel("p99, ms", |run| run.percentile(0.99)),
    ];
    let legend = [(0, "one process".to_owned()), (2, "landing zone".to_owned())];
    // A row for each, since rates and latencies have no axis in common.
    log_log("Commits of small updates", "clients", "", &legend, 1, &panels, &[None; 3])
}

fn text(options: &Options, mix: &Cdb, setup: &str, found: &Found) -> String {
    let mut text = String::from("# The tiers beside one process\n\n");
    text += &report::provenance();
    text += &format!(
        "Primary, log service and one page server are processes on this machine, which talk over loopback with {} ms of added round \
         trip; beside them one process with the same rows and as much memory for pages, with its data file here (the system's own \
         cache has it). Both archive their log, and all commits wait for the disk. A CDB-like workload (six tables, nine \
         transactions), {} rows in each of the three scaled tables, {:.0} MB of data; {} clients where nothing else is said; runs of \
         {} s after {} s that do not count, {} rounds, medians; seed {}. {} After each run and each kill the sums over all tables were \
         what the clients had committed.\n\n",
        options.round_trip_ms,
        mix.rows(),
        found.data_mb,
        options.clients,
        options.seconds,
        options.warm_up,
        options.rounds,
        options.seed,
        match found.pinned {
            true =>
                "The one process and the primary are bound to the first core, log service, page server and all clients share the \
                 second one.",
            false => "No process is bound to a core.",
        },
    );
    text += setup;
    text += "\n";
    for part in [throughput, hits, log, commits, pages, starts] {
        text += &part(found);
        text += "\n";
    }
    if !found.restarts.is_empty() {
        text += &warmth::text(&found.restarts);
        text += "\n";
    }
    text += "![throughput](cluster.svg)\n\n![commits](cluster-commits.svg)\n";
    text
}

fn throughput(found: &Found) -> String {
    let Beside { one, tiers } = &found.throughput;
    let row = |name: &str, runs: &[Run]| {
        let of = |of: &dyn Fn(&Run) -> f64| cell(of_latencies(runs, of), 2);
        vec![
            name.to_owned(),
            cell(over(runs, |run| Some(run.rate())), 0),
            of(&Run::mean),
            of(&|run| run.percentile(0.5)),
            of(&|run| run.percentile(0.99)),
            cell(over(runs, |run| Some(run.conflicts as f64)), 0),
        ]
    };
    let ratios: Vec<f64> = one.iter().zip(tiers).map(|(one, tiers)| tiers.rate() / one.rate().max(1e-9)).collect();
    let Cached { memory_mb, cache_mb } = found.cached;
    let mut text = format!(
        "## Throughput (table 2)\n\nDefault mix, {} % of the data cached: {memory_mb} MB of memory and {cache_mb} MB of page cache; one \
         process has {memory_mb} MB of memory.\n\n",
        CACHED * 100.0
    );
    let head = ["", "transactions a second", "mean ms", "p50 ms", "p99 ms", "conflicts"];
    let mut rows = vec![row("one process", one), row("tiers", tiers)];
    let standbys = &found.standbys;
    if !standbys.is_empty() {
        rows.push(row("PostgreSQL, two synchronous standbys", standbys));
    }
    text += &table(&head, &rows);
    text += &format!(
        "\nTiers by one process, mean of the rounds (95 %): {}; goal {RATIO}: {}. {}\n\nProcessor seconds for 1,000 transactions:\n\n",
        paired_text(&ratios),
        met(report::paired(&ratios).0 >= RATIO),
        match standbys.is_empty() {
            true => "PostgreSQL with two synchronous standbys was not measured.".to_owned(),
            false => {
                let beside: Vec<f64> =
                    standbys.iter().zip(tiers).map(|(other, tiers)| tiers.rate() / other.rate().max(1e-9)).collect();
                format!(
                    "Tiers by PostgreSQL with two synchronous standbys, whose memory is all of that share ({} MB): {}; goal 1: {}.",
                    memory_mb + cache_mb,
                    paired_text(&beside),
                    met(report::paired(&beside).0 >= 1.0)
                )
            }
        }
    );
    let mut rows = Vec::new();
    for runs in [one, tiers, standbys] {
        let names = runs.first().map(|run| run.cpu.clone()).unwrap_or_default();
        for (at, (name, _)) in names.into_iter().enumerate() {
            rows.push(vec![name.to_owned(), cell(over(runs, |run| run.cpu_per_thousand(at)), 3)]);
        }
    }
    text += &table(&["process", "seconds"], &rows);
    text
}

fn hits(found: &Found) -> String {
    let percent = |rate: Option<f64>| rate.map(|rate| rate * 100.0);
    let row = |what: &str, cached: Cached, rate: Option<f64>, reads: Option<&Run>, goal: f64| {
        // A read of a single row meets one leaf, so what was given by read is the share of leaves that were not here.
        let leaves = reads.and_then(|run| Some(1.0 - run.grown(|look| look.given)? / counted(run)?));
        vec![
            what.to_owned(),
            cached.memory_mb.to_string(),
            cached.cache_mb.to_string(),
            judged(percent(rate), 1, |rate| rate >= goal * 100.0),
            format!("{:.0}", goal * 100.0),
            cell(percent(reads.and_then(Run::hit_rate)), 1),
            judged(percent(leaves), 1, |rate| rate >= goal * 100.0),
        ]
    };
    let mut rows = vec![row(
        &format!("uniform, {} % cached", CACHED * 100.0),
        found.cached,
        over(&found.throughput.tiers, Run::hit_rate),
        found.uniform_reads.as_ref(),
        HITS,
    )];
    if let Some((cached, run, reads)) = &found.skewed {
        let what = format!("skewed (80/20), {} % cached", CACHED_SKEWED * 100.0);
        rows.push(row(&what, *cached, run.hit_rate(), Some(reads), HITS_SKEWED));
    }
    let head = [
        "keys",
        "memory MB",
        "page cache MB",
        "hits %, default mix",
        "goal %",
        "hits %, single reads",
        "of their leaves",
    ];
    format!(
        "## Cache (tables 3 and 4)\n\nHits: the share of the pages that were wanted that no page server had to give, inner pages \
         of the trees among them. The last column is harder: of reads of single rows alone, one leaf each. Where the data is small, \
         the memory that a server takes at least is more than its share.\n\n{}",
        table(&head, &rows)
    )
}

/// The median over runs of something about latencies; a run in which nothing was committed has none.
fn of_latencies(runs: &[Run], of: &dyn Fn(&Run) -> f64) -> Option<f64> {
    over(runs, |run| counted(run).map(|_| of(run)))
}

/// Transactions of the counted part, as far as there were any.
fn counted(run: &Run) -> Option<f64> {
    (!run.latencies.is_empty()).then_some(run.latencies.len() as f64)
}

fn log(found: &Found) -> String {
    let runs = &found.log;
    let mb_s = |of: fn(&Look) -> f64| over(runs, |run| Some(run.grown(of)? / 1e6 / run.seconds));
    let written = mb_s(|look| look.log_end);
    let wide = |of: fn(&Look) -> f64| found.wide.as_ref().and_then(|run| Some(run.grown(of)? / 1e6 / run.seconds));
    let lag = |run: &Run, share: f64| {
        let mut all: Vec<f64> = run.looks.iter().map(|look| look.lag).collect();
        all.sort_by(f64::total_cmp);
        let rate = run.grown(|look| look.log_end)? / run.seconds;
        (rate > 0.0 && !all.is_empty()).then(|| crate::mix::percentile(&all, share) / rate)
    };
    // The page server gives pages meanwhile: what it takes for that is in it as well.
    let per_core = |runs: &[Run], process: usize, of: fn(&Look) -> f64| {
        over(runs, |run| {
            let (_, seconds) = run.cpu.get(process)?;
            (*seconds > 0.0).then_some(run.grown(of)? / 1e6 / seconds)
        })
    };
    let applied = per_core(runs, PAGE_SERVER, |look| look.applied);
    let of_one = &found.log_of_one;
    let rows = [
        ("written by the primary, MB/s", judged(written, 1, |rate| rate >= LOG_MB_S), "100"),
        ("destaged by the log service, MB/s", judged(mb_s(|look| look.destaged), 1, |rate| rate >= LOG_MB_S), "100"),
        ("applied by the page server, MB/s", judged(mb_s(|look| look.applied), 1, |rate| rate >= LOG_MB_S), "100"),
        ("lag of the page server in seconds of log, in the middle", cell(over(runs, |run| lag(run, 0.5)), 3), ""),
        ("at worst", judged(over(runs, |run| lag(run, 1.0)), 3, |lag| lag <= LAG_S), "1"),
        ("applied by a second of processor time, MB", judged(applied, 1, |rate| rate >= APPLY_MB_S), "60"),
        (
            "written by a second of the primary's processor time, MB",
            cell(per_core(runs, 0, |look| look.log_end), 1),
            "",
        ),
        ("transactions a second", cell(over(runs, |run| Some(run.rate())), 0), ""),
        (
            "one process, beside: written, MB/s",
            cell(over(of_one, |run| Some(run.grown(|look| look.log_end)? / 1e6 / run.seconds)), 1),
            "",
        ),
        ("by a second of its processor time, MB", cell(per_core(of_one, 0, |look| look.log_end), 1), ""),
        ("transactions a second", cell(over(of_one, |run| Some(run.rate())), 0), ""),
        ("inserts of wide rows: written, MB/s", judged(wide(|look| look.log_end), 1, |rate| rate >= LOG_MB_S), "100"),
        ("destaged", judged(wide(|look| look.destaged), 1, |rate| rate >= LOG_MB_S), "100"),
        ("applied", judged(wide(|look| look.applied), 1, |rate| rate >= LOG_MB_S), "100"),
        (
            "lag at worst, seconds",
            judged(found.wide.as_ref().and_then(|run| lag(run, 1.0)), 3, |lag| lag <= LAG_S),
            "1",
        ),
        ("log while the tables were loaded by COPY, MB/s", cell(found.loading.map(|(rate, _)| rate), 1), ""),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(what, value, goal)| vec![what.to_owned(), value, goal.to_owned()]).collect();
    format!(
        "## Log (table 5)\n\nUpdates of 100 rows and inserts of 50, all keys: the primary's core is what bounds them. Wide rows have 1,600 letters, 50 in a \
         transaction. What the page server takes for giving pages is in its \
         processor time, too; destaging goes by large objects, of which a short run may see none.\n\n{}",
        table(&["", "found", "goal"], &rows)
    )
}

fn commits(found: &Found) -> String {
    let sync_ms = over(&found.sync_us, |us| Some(*us)).map(|us| us / 1e3);
    let mut rows = Vec::new();
    for (clients, Beside { one, tiers }) in &found.commits {
        for (name, runs) in [("one process", one), ("landing zone", tiers)] {
            let of = |of: fn(&Run) -> f64| of_latencies(runs, &of);
            let p50 = of(|run| run.percentile(0.5));
            // The goal is of one client: more of them wait for each other's syncs.
            let goal = match (sync_ms, *clients == 1 && name == "landing zone") {
                (Some(sync), true) => judged(p50, 3, |p50| p50 <= sync + COMMIT_MS),
                _ => cell(p50, 3),
            };
            rows.push(vec![
                clients.to_string(),
                name.to_owned(),
                cell(over(runs, |run| Some(run.rate())), 0),
                cell(of(Run::mean), 3),
                cell(of(|run| run.percentile(0.0)), 3),
                goal,
                cell(of(|run| run.percentile(0.99)), 3),
                cell(of(|run| run.percentile(1.0)), 1),
                cell(over(runs, |run| Some(run.grown(|look| look.log_end)? / 1e6 / run.seconds)), 2),
                cell(over(runs, |run| Some(run.cpu.first()?.1 / run.seconds * 100.0)), 0),
            ]);
        }
    }
    let head = ["clients", "log in", "a second", "mean ms", "min", "p50", "p99", "max", "log MB/s", "processor %"];
    format!(
        "## Commits (tables 6 and 7, figure 4)\n\nUpdates of single rows of {COMMIT_KEYS} keys of each table, whose pages are in memory; \
         nothing else. Goal of one client: p50 at most one sync and {COMMIT_MS} ms more; one sync of 4 KB took {} ms in the same \
         rounds (medians). The processor is that of the process that takes the statements.\n\n{}",
        cell(sync_ms, 3),
        table(&head, &rows)
    )
}

fn pages(found: &Found) -> String {
    let pages = found.pages.as_ref();
    let of = |share: f64| pages.map(|pages| pages.added_ms(share));
    let page = |share: f64| pages.and_then(|pages| pages.page_ms(share));
    let cpu = pages.and_then(super::Pages::cpu_us);
    let rows = [
        ("reads a second, asked for", cell(pages.map(|pages| pages.asked_rate), 0), ""),
        ("reached, with pages from the page server", cell(pages.map(|pages| pages.cold.rate), 0), ""),
        ("reached, with pages in memory", cell(pages.map(|pages| pages.warm.rate), 0), ""),
        ("pages that a read needed from there", cell(pages.map(super::Pages::needed), 2), ""),
        ("a page, p50 ms", judged(page(0.5), 3, |ms| ms <= PAGE_P50_MS), "0.2"),
        ("a page, p99 ms", judged(page(0.99), 3, |ms| ms <= PAGE_P99_MS), "0.5"),
        ("a page in the mean, ms", cell(pages.and_then(super::Pages::wait_ms), 3), ""),
        ("added to a read, p50 ms", cell(of(0.5), 3), ""),
        ("added to a read, p99 ms", cell(of(0.99), 3), ""),
        ("processor time for a page, primary, µs", cell(cpu.map(|[primary, _]| primary), 0), ""),
        ("page server, µs", cell(cpu.map(|[_, server]| server), 0), ""),
        ("together, µs", judged(cpu.map(|all| all.iter().sum()), 0, |us| us <= PAGE_CPU_US), "50"),
    ];
    let rows: Vec<Vec<String>> =
        rows.into_iter().map(|(what, value, goal)| vec![what.to_owned(), value, goal.to_owned()]).collect();
    format!(
        "## Pages from the covering cache\n\nSingle rows, uniform keys, without a page cache and with the least memory, at a steady rate; \
         beside them the same with few keys. A page: from its being missed to its being there, as the primary's metrics say; within a bucket of \
         their histogram times are taken as spread evenly. \"Added\": the difference of the same percentile of both, as clients see it.\n\n{}",
        table(&["", "found", "goal"], &rows)
    )
}

fn starts(found: &Found) -> String {
    let worst = |all: Vec<f64>| all.into_iter().reduce(f64::max);
    let row = |what: &str, all: Option<Vec<f64>>, goal: bool| {
        let middle = all.as_deref().and_then(|all| over(all, |value| Some(*value)));
        let middle = if goal { judged(middle, 3, |value| value <= START_S) } else { cell(middle, 3) };
        vec![what.to_owned(), middle, cell(all.and_then(worst), 3)]
    };
    let rows = [
        row("primary: a row was read", Some(found.primary_starts.iter().map(|start| start.read).collect()), true),
        row(
            "primary: a change was committed",
            Some(found.primary_starts.iter().map(|start| start.write).collect()),
            false,
        ),
        row(
            "page server that has nothing: a row whose page it gave",
            found.page_server_starts.iter().copied().collect(),
            true,
        ),
        row("one process, beside: a row was read", Some(found.one_starts.clone()), false),
    ];
    format!(
        "## First answers after kill -9\n\nSeconds from the start of the process; the goal is {START_S} s in the median.\n\n{}",
        table(&["", "median", "worst"], &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_measured_is_said_to_be_missing() {
        assert_eq!(judged(None, 1, |_| true), MISSING);
        assert_eq!(judged(Some(2.0), 1, |value| value < 1.0), "2.0: **missed**");
        assert_eq!(over(&[Some(1.0), None], |value| *value), None);
        assert_eq!(over::<f64>(&[], |value| Some(*value)), None);
        let found = Found::default();
        for part in [hits, log, pages, starts] {
            let text = part(&found);
            assert!(text.contains(MISSING) && !text.contains(": met"), "{text}");
        }
    }
}
