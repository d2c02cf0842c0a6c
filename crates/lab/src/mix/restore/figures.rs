//! The plots: throughput through the failure, latencies as distributions, how fast it is restored, and how soon transactions commit again
//! (figures 1 and 9 to 12 of Instant Restore).

use std::ops::Range;
use std::time::Duration;

use super::outages::{Outage, Way};
use super::samples::rates;
use super::{Found, Options, Run, mean};
use crate::Result;
use crate::lines::{self, Line, log_log};
use crate::mix::drive::{Tally, percentile};
use crate::report;
use crate::svg::number;
use crate::timeline::{Panel, stack, stack_of};

/// What is counted at a time.
const STEP: Duration = Duration::from_millis(500);
/// Shares of the transactions that are slower than what is shown.
const SLOWER: [f64; 14] = [0.9, 0.5, 0.2, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005, 0.0002, 0.0001, 0.000_01];
/// Which transactions after the failure are looked at.
pub(super) const COUNTS: [usize; 13] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000];

/// One failure as its clients saw it, whatever was done about it.
pub(super) struct Seen<'a> {
    pub(super) name: &'static str,
    /// Its colour, from 0 to 3.
    entry: usize,
    pub(super) part: f64,
    pub(super) buffer_mb: u64,
    pub(super) tally: &'a Tally,
    pub(super) before: &'a Range<Duration>,
    pub(super) failed: Duration,
    pub(super) end: Duration,
}

impl<'a> Seen<'a> {
    fn on_demand(run: &'a Run) -> Self {
        Self {
            name: "on demand",
            entry: 0,
            part: run.part,
            buffer_mb: run.buffer_mb,
            tally: &run.tally,
            before: &run.phases[0],
            failed: run.phases[1].start,
            end: run.phases[2].end,
        }
    }

    fn outage(outage: &'a Outage) -> Self {
        Self {
            name: outage.way.name(),
            entry: match outage.way {
                Way::SinglePass => 3,
                Way::LsnOrder => 2,
                Way::Postgres => 1,
            },
            part: outage.part,
            buffer_mb: outage.buffer_mb,
            tally: &outage.tally,
            before: &outage.before,
            failed: outage.before.end,
            end: outage.after.end,
        }
    }

    /// Transactions a second, from as long before the failure as was counted: seconds since then.
    fn throughput(&self) -> Vec<(f64, f64)> {
        let begun = self.before.start;
        let parts = (0..).map(|number| begun + STEP * number).take_while(|at| *at + STEP <= self.end);
        parts
            .map(|at| {
                let done = self.tally.latencies(None, &(at..at + STEP)).len();
                ((at.saturating_sub(begun) + STEP / 2).as_secs_f64(), done as f64 / STEP.as_secs_f64())
            })
            .collect()
    }

    /// Seconds from the failure until so many transactions had committed since; as far as there were so many.
    pub(super) fn until(&self, counts: &[usize]) -> Vec<(usize, f64)> {
        let mut ends: Vec<Duration> =
            self.tally.done.iter().map(|done| done.at).filter(|at| *at > self.failed && *at <= self.end).collect();
        ends.sort_unstable();
        let at =
            |count: &usize| Some((*count, ends.get(count.checked_sub(1)?)?.saturating_sub(self.failed).as_secs_f64()));
        counts.iter().filter_map(at).collect()
    }
}

/// All failures with one size of the pool after the other.
pub(super) fn seen(found: &Found) -> Vec<Seen<'_>> {
    let mut all = Vec::new();
    for run in &found.runs {
        all.push(Seen::on_demand(run));
        all.extend(found.outages.iter().filter(|outage| outage.part == run.part).map(Seen::outage));
    }
    all
}

/// Writes all of them; their names, for the text.
pub(super) fn write(options: &Options, name: &str, found: &Found) -> Result<Vec<(&'static str, String)>> {
    let mut written = Vec::new();
    let mut put = |what: &'static str, file: String, svg: &str| -> Result<()> {
        report::write_svg(&options.common, &file, svg)?;
        written.push((what, file));
        Ok(())
    };
    let all = seen(found);
    for run in &found.runs {
        put("over time", format!("{name}-time-{}", run.buffer_mb), &over_time(run))?;
        let with_it: Vec<&Seen<'_>> = all.iter().filter(|seen| seen.part == run.part).collect();
        if with_it.len() > 1 {
            put("throughput", format!("{name}-throughput-{}", run.buffer_mb), &throughput(run, &with_it))?;
        }
    }
    if !found.runs.is_empty() {
        put("latencies", format!("{name}-latencies"), &latencies(&found.runs))?;
        put("bandwidth", format!("{name}-bandwidth"), &bandwidth(&found.runs))?;
        put("first transactions", format!("{name}-first"), &first(&found.runs, &all))?;
    }
    Ok(written)
}

/// Transactions, latencies, what is restored and what is read by the half second (figures 9 and 12).
fn over_time(run: &Run) -> String {
    let parts: Vec<(f64, Vec<f64>)> = (0..)
        .map(|number| STEP * number)
        .take_while(|at| *at < run.phases[2].end)
        .map(|at| ((at + STEP / 2).as_secs_f64(), run.tally.latencies(None, &(at..at + STEP))))
        .collect();
    let line = |of: &dyn Fn(&[f64]) -> f64| vec![parts.iter().map(|(at, times)| (*at, of(times))).collect()];
    let panels = [
        Panel { title: "transactions a second".into(), lines: line(&|times| times.len() as f64 / STEP.as_secs_f64()) },
        Panel { title: "mean latency, ms".into(), lines: line(&mean) },
        Panel { title: "worst latency, ms".into(), lines: line(&|times| times.last().copied().unwrap_or(0.0)) },
        Panel { title: "pages read a second".into(), lines: vec![rates(&run.samples, STEP, |s| Some(s.reads))] },
        Panel { title: "restored, MB/s".into(), lines: vec![restored(run)] },
    ];
    let marks = [(run.phases[1].start.as_secs_f64(), "disk dies"), (run.phases[1].end.as_secs_f64(), "restored")];
    stack(&format!("A dead disk under load, buffer pool of {} MB", run.buffer_mb), &panels, &marks)
}

/// Megabytes a second that are restored.
fn restored(run: &Run) -> Vec<(f64, f64)> {
    rates(&run.samples, STEP, |sample| sample.restored.map(|bytes| bytes / 1e6))
}

/// Throughput through the failure, by what is done about it (figure 1).
fn throughput(run: &Run, all: &[&Seen<'_>]) -> String {
    // A panel's lines have the colours of their places.
    let mut lines = vec![Vec::new(); 4];
    let mut names = vec![""; 4];
    for seen in all {
        if let (Some(line), Some(name)) = (lines.get_mut(seen.entry), names.get_mut(seen.entry)) {
            (*line, *name) = (seen.throughput(), seen.name);
        }
    }
    let failed = all.first().map_or(0.0, |seen| seen.failed.saturating_sub(seen.before.start).as_secs_f64());
    let panels = [Panel { title: "transactions a second".into(), lines }];
    let title = format!("Throughput through the loss of the data, buffer pool of {} MB", run.buffer_mb);
    stack_of(&title, &panels, &[(failed, "data lost")], &names)
}

/// The part of the transactions that are slower, by latency (figure 10).
fn latencies(runs: &[Run]) -> String {
    let phases = ["before", "while it is restored", "after"];
    let panels: Vec<lines::Panel> = runs
        .iter()
        .map(|run| lines::Panel {
            title: format!("{} MB", run.buffer_mb),
            lines: run
                .phases
                .iter()
                .enumerate()
                .map(|(entry, phase)| Line { entry, points: slower(&run.tally.latencies(None, phase)) })
                .collect(),
        })
        .collect();
    let legend: Vec<(usize, String)> = phases.iter().map(|name| (*name).to_owned()).enumerate().collect();
    log_log(
        "Latencies of transactions by size of the buffer pool",
        "milliseconds",
        "% that are slower",
        &legend,
        2,
        &panels,
        &[],
    )
}

/// Latency, and the percentage that are slower; as far as there are such.
fn slower(ascending: &[f64]) -> Vec<(f64, f64)> {
    let count = ascending.len() as f64;
    let shares = SLOWER.iter().filter(|share| *share * count >= 1.0);
    let mut points: Vec<(f64, f64)> = shares.map(|share| (percentile(ascending, 1.0 - share), share * 100.0)).collect();
    // The slowest one.
    points.extend(ascending.last().map(|last| (*last, 100.0 / count)));
    points
}

/// How fast it is restored, since the failure, at all sizes (figure 11).
fn bandwidth(runs: &[Run]) -> String {
    let since = |run: &Run| {
        let failed = run.phases[1].start.as_secs_f64();
        let end = run.phases[1].end.as_secs_f64() + 1.0;
        let within = restored(run).into_iter().filter(|(at, _)| (failed..end).contains(at));
        within.map(|(at, rate)| (at - failed, rate)).collect::<Vec<_>>()
    };
    let names: Vec<String> = runs.iter().map(|run| format!("{} MB", run.buffer_mb)).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let panels = [Panel { title: "restored, MB/s".into(), lines: runs.iter().map(since).collect() }];
    stack_of("Bandwidth of the restore under load, by size of the buffer pool", &panels, &[], &names)
}

/// Transactions that have committed, by the time since the failure.
fn first(runs: &[Run], all: &[Seen<'_>]) -> String {
    let mut legend: Vec<(usize, String)> = Vec::new();
    for seen in all {
        if !legend.iter().any(|(entry, _)| *entry == seen.entry) {
            legend.push((seen.entry, seen.name.to_owned()));
        }
    }
    let panels: Vec<lines::Panel> = runs
        .iter()
        .map(|run| {
            let lines = all.iter().filter(|seen| seen.part == run.part).map(|seen| Line {
                entry: seen.entry,
                points: seen.until(&COUNTS).into_iter().map(|(count, at)| (at.max(1e-3), count as f64)).collect(),
            });
            lines::Panel { title: format!("{} MB", run.buffer_mb), lines: lines.collect() }
        })
        .collect();
    let title = "Transactions that have committed since the data was lost";
    log_log(title, "seconds since the failure", "transactions", &legend, 2, &panels, &[])
}

/// Seconds, or nothing, as a cell of a table.
pub(super) fn cell(seconds: Option<f64>) -> String {
    seconds.map_or("not".into(), |seconds| if seconds < 0.01 { format!("{seconds:.3}") } else { number(seconds) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mix::drive::Done;

    fn seconds(at: f64) -> Duration {
        Duration::from_secs_f64(at)
    }

    /// A hundred a second, none for two seconds after the failure at 10.
    fn tally() -> Tally {
        let at = (0..2000).map(|i| f64::from(i) / 100.0).filter(|at| !(10.0..12.0).contains(at));
        let done = at.map(|at| Done { kind: 0, at: seconds(at), took: seconds(0.001) }).collect();
        Tally { done, ..Tally::default() }
    }

    #[test]
    fn what_follows_a_failure_is_seen() {
        let (tally, before) = (tally(), seconds(4.0)..seconds(10.0));
        let seen = Seen {
            name: "on demand",
            entry: 0,
            part: 1.0,
            buffer_mb: 8,
            tally: &tally,
            before: &before,
            failed: seconds(10.0),
            end: seconds(20.0),
        };
        let until = seen.until(&[1, 100, 10_000]);
        assert_eq!(until.len(), 2, "{until:?}");
        assert!((until[0].1 - 2.0).abs() < 0.02 && (until[1].1 - 3.0).abs() < 0.02, "{until:?}");
        let throughput = seen.throughput();
        // Six seconds before, ten after.
        assert_eq!(throughput.len(), 32);
        assert!((throughput[0].1 - 100.0).abs() < 3.0 && throughput[13].1 == 0.0 && throughput[20].1 > 90.0);
    }

    #[test]
    fn tails_go_as_far_as_there_are_transactions() {
        let times: Vec<f64> = (1..=1000).map(f64::from).collect();
        let points = slower(&times);
        assert!(points.contains(&(500.0, 50.0)) && points.contains(&(990.0, 1.0)));
        assert_eq!(points.last(), Some(&(1000.0, 0.1)));
        assert!(slower(&[]).is_empty());
    }

    #[test]
    fn plots_have_a_line_for_each_way() {
        let run = Run {
            part: 0.5,
            buffer_mb: 64,
            phases: [seconds(4.0)..seconds(10.0), seconds(10.0)..seconds(12.0), seconds(12.0)..seconds(20.0)],
            restored_mb: 100.0,
            tally: tally(),
            samples: Vec::new(),
        };
        let outage = |way| Outage {
            way,
            part: 0.5,
            buffer_mb: 64,
            data_mb: 100.0,
            made: 1.0,
            answer: 1.5,
            transaction: 1.6,
            before: seconds(4.0)..seconds(10.0),
            after: seconds(12.0)..seconds(20.0),
            tally: tally(),
        };
        let outages = [Way::SinglePass, Way::LsnOrder, Way::Postgres].map(outage).into();
        let found = Found { runs: vec![run], outages, ..Found::default() };
        let all = seen(&found);
        assert_eq!(all.len(), 4);
        let svg = throughput(&found.runs[0], &all.iter().collect::<Vec<_>>());
        assert!(all.iter().all(|seen| svg.contains(seen.name)) && svg.matches("<polyline").count() == 4);
        assert!(!first(&found.runs, &all).contains("NaN") && !latencies(&found.runs).contains("NaN"));
        assert!(!bandwidth(&found.runs).contains("NaN") && over_time(&found.runs[0]).contains("pages read"));
    }
}
