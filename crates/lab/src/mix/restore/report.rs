//! Tables and plots of the experiment, and whether its goals are met.

use std::time::Duration;

use super::{BACK, Found, Options, Run, back_after, mean, rate};
use crate::Result;
use crate::mix::drive::percentile;
use crate::mix::tpcc::TpcC;
use crate::report::{self, table};
use crate::setup::Setup;
use crate::svg::{Series, bars};
use crate::timeline::{Panel, stack};

/// The goals: milliseconds that the failure adds to the latency, in the mean and at worst; the same as a share where all data fits
/// in memory; after which share of the restore throughput is back with a quarter of the data in memory.
const ADDED_MEAN_MS: f64 = 10.0;
const ADDED_WORST_MS: f64 = 100.0;
const UNNOTICED: f64 = 0.05;
const BACK_WITHIN: f64 = 1.0 / 3.0;
/// Seconds until the first transaction that writes without the data, and until the first answer of a point in time or a clone; megabytes of
/// a new clone.
pub(super) const START_S: f64 = 0.3;
const POINT_S: f64 = 1.0;
pub(super) const CLONE_MB: f64 = 20.0;

/// Of what the disk takes in sequence, when nothing else is done.
const BANDWIDTH: f64 = 0.8;
/// Milliseconds of a page's repair, in the middle and at 99 of 100.
const REPAIR_P50_MS: f64 = 1.0;
const REPAIR_P99_MS: f64 = 10.0;

/// Writes the tables and the plots.
pub(super) fn write(options: &Options, mix: &TpcC, setup: &Setup, found: &Found) -> Result<()> {
    let runs = &found.runs;
    let groups: Vec<String> = runs.iter().map(|run| format!("{} of the data", run.part)).collect();
    let mean = |phase: usize| {
        runs.iter().map(|run| Some(mean(&run.tally.latencies(None, &run.phases[phase])))).collect::<Vec<_>>()
    };
    let series = [("before", 0), ("while it is restored", 1), ("after", 2)]
        .map(|(name, phase)| Series { name: name.into(), values: mean(phase) });
    let svg = match options.still {
        true => first_answers(found),
        false => bars("Mean latency of a transaction by size of the buffer pool", "milliseconds", &groups, &series),
    };
    let name = name_of(options);
    for run in runs {
        report::write_svg(&options.common, &format!("{name}-time-{}", run.buffer_mb), &over_time(run))?;
    }
    report::write(&options.common, &name, &text(options, mix, setup, found), &svg)
}

/// Seconds until somebody is answered, where no device dies under load.
fn first_answers(found: &Found) -> String {
    let starts = found.starts.iter().map(|start| (start.name.clone(), start.transaction));
    let copies = found.copies.iter().map(|copy| (copy.name.to_owned(), copy.answer));
    let (groups, values): (Vec<String>, Vec<_>) = starts.chain(copies).map(|(name, at)| (name, Some(at))).unzip();
    let series = [Series { name: "seconds".into(), values }];
    bars("First write of a start without the data, first answer of a copy", "seconds", &groups, &series)
}

/// Of the files: a size that was asked for is in it, so that results at several sizes lie side by side.
fn name_of(options: &Options) -> String {
    options.gb.map_or("restore".into(), |gb| format!("restore-{gb}gb"))
}

/// Transactions and latencies by the half second.
fn over_time(run: &Run) -> String {
    let step = Duration::from_millis(500);
    let parts: Vec<(f64, Vec<f64>)> = (0..)
        .map(|number| step * number)
        .take_while(|at| *at < run.phases[2].end)
        .map(|at| ((at + step / 2).as_secs_f64(), run.tally.latencies(None, &(at..at + step))))
        .collect();
    let line = |of: &dyn Fn(&[f64]) -> f64| vec![parts.iter().map(|(at, times)| (*at, of(times))).collect()];
    let panels = [
        Panel { title: "transactions a second".into(), lines: line(&|times| times.len() as f64 / step.as_secs_f64()) },
        Panel { title: "mean latency, ms".into(), lines: line(&mean) },
        Panel { title: "worst latency, ms".into(), lines: line(&|times| times.last().copied().unwrap_or(0.0)) },
    ];
    let marks = [(run.phases[1].start.as_secs_f64(), "disk dies"), (run.phases[1].end.as_secs_f64(), "restored")];
    stack(&format!("A dead disk under load, buffer pool of {} MB", run.buffer_mb), &panels, &marks)
}

/// Whether a goal is met.
fn met(is: bool) -> String {
    if is { "met" } else { "**missed**" }.to_owned()
}

/// What the failure adds, and whether the goals are met: a row of the table.
fn judged(run: &Run) -> Vec<String> {
    let [before, during] = [0, 1].map(|phase| run.tally.latencies(None, &run.phases[phase]));
    let worst = |times: &[f64]| times.last().copied().unwrap_or(0.0);
    let (mean_before, added) = (mean(&before), mean(&during) - mean(&before));
    let added_worst = worst(&during) - worst(&before);
    let took = run.phases[1].end.saturating_sub(run.phases[1].start).as_secs_f64().max(0.001);
    let back = back_after(run).map(|seconds| seconds / took);
    vec![
        format!("{} MB ({})", run.buffer_mb, run.part),
        format!("{:.0}", run.restored_mb),
        format!("{took:.2}"),
        format!("{:.0}", run.restored_mb / took),
        format!("{added:.2}: {}", met(added <= ADDED_MEAN_MS)),
        format!("{added_worst:.1}: {}", met(added_worst <= ADDED_WORST_MS)),
        match run.part >= 1.0 {
            true => {
                format!("{:.0} %: {}", added / mean_before.max(1e-9) * 100.0, met(added <= mean_before * UNNOTICED))
            }
            false => String::new(),
        },
        match (back, run.part == 0.25) {
            (Some(share), true) => format!("{share:.2}: {}", met(share <= BACK_WITHIN)),
            (Some(share), false) => format!("{share:.2}"),
            (None, goal) => format!("not back{}", if goal { ": **missed**" } else { "" }),
        },
    ]
}

fn text(options: &Options, mix: &TpcC, setup: &Setup, found: &Found) -> String {
    let Found { runs, starts, copies, repairs, disk_mb_s } = found;
    let mut rows = Vec::new();
    for run in runs {
        for (phase, name) in ["before", "while it is restored", "after"].into_iter().enumerate() {
            let times = run.tally.latencies(None, &run.phases[phase]);
            let seconds = run.phases[phase].end.saturating_sub(run.phases[phase].start).as_secs_f64();
            rows.push(vec![
                format!("{} MB ({})", run.buffer_mb, run.part),
                name.to_owned(),
                format!("{seconds:.2}"),
                format!("{:.0}", rate(&run.tally, &run.phases[phase])),
                format!("{:.2}", mean(&times)),
                format!("{:.2}", percentile(&times, 0.5)),
                format!("{:.2}", percentile(&times, 0.99)),
                format!("{:.1}", times.last().copied().unwrap_or(0.0)),
                match phase {
                    1 => back_after(run).map_or("not".into(), |seconds| format!("{seconds:.1}")),
                    _ => String::new(),
                },
            ]);
        }
    }
    let starts: Vec<Vec<String>> = starts
        .iter()
        .map(|restart| {
            vec![
                restart.name.clone(),
                format!("{:.0}", restart.data_mb),
                format!("{:.3}", restart.answer),
                format!("{:.3}", restart.transaction),
                restart.whole.map_or(String::new(), |seconds| format!("{seconds:.2}")),
                restart.goal.map_or(String::new(), |goal| met(restart.transaction <= goal)),
                match (restart.mb_s, *disk_mb_s) {
                    (Some(rate), Some(disk)) => {
                        format!("{rate:.0}: {}", met(rate >= disk * BANDWIDTH))
                    }
                    (Some(rate), None) => format!("{rate:.0}"),
                    _ => String::new(),
                },
            ]
        })
        .collect();
    let mut text = String::from("# A dead disk under load\n\n");
    text += &report::provenance();
    let Options { clients, seed, seconds, .. } = options;
    text += &match options.still {
        true => format!(
            "{clients} clients work on a TPC-C-like mix of {} warehouses without think times for {seconds} s; seed {seed}; commits wait for \
             the disk. Its log and archive, which was begun with the database, are in other folders (on the same disk here); there is no backup. \
             Then the server is killed. The mix's consistency conditions held after each start without the data.\n\n",
            mix.warehouses
        ),
        false => format!(
            "{clients} clients work on a TPC-C-like mix of {} warehouses without think times; seed {seed}; commits wait for the disk. The \
             database was backed up after it was loaded; its log, archive and backups are in other folders (on the same disk \
             here, so restoring and working share it). After {seconds} s its data device is declared dead, and the data is made again in \
             the spare folder while the clients go on. No transaction failed, and the mix's consistency conditions held after each \
             run. \"Back\": seconds from the failure until half a second has {} % of the throughput before.\n\n",
            mix.warehouses,
            BACK * 100.0
        ),
    };
    text += &setup.text();
    if !runs.is_empty() {
        let head =
            ["buffer pool", "phase", "seconds", "tx/s", "mean ms", "p50 ms", "p99 ms", "worst ms", "back after s"];
        text += &table(&head, &rows);
        text += "\nWhat the failure adds, and the goals. Worst: the slowest transaction of the restore less the slowest one before. \
                 A restore of less than half a second has less than one window in which throughput can be back.\n\n";
        let head = [
            "buffer pool",
            "restored MB",
            "seconds",
            "MB/s",
            "mean + ms (10)",
            "worst + ms (100)",
            "unnoticed (5 %)",
            "back, of the restore (1/3)",
        ];
        text += &table(&head, &runs.iter().map(judged).collect::<Vec<_>>());
    }
    if !starts.is_empty() {
        text += "\nA start without the data: seconds from the start (with PostgreSQL: from the copy of the base backup) to the \
                 first answer, to the first transaction that writes, and until all is restored.\n\n";
        text += &table(
            &[
                "server",
                "data MB",
                "first answer",
                "first write",
                "all restored",
                "goal: first write <= 0.3 s",
                "MB/s (80 % of the disk's)",
            ],
            &starts,
        );
        if let Some(disk) = disk_mb_s {
            text += &format!(
                "\nThe disk takes {disk:.0} MB/s in sequence: a file as large as the data (at most 2 GB), written in parts of 1 MB, and synced once.\n"
            );
        }
    }
    if !copies.is_empty() {
        text += "\nCopies as of a position of the log, pages on demand: seconds until the command has ended, and until a server on \
                 the copy has answered from a table; space of the new folder before it is opened.\n\n";
        let rows: Vec<Vec<String>> = copies
            .iter()
            .map(|copy| {
                let space = copy.goal_mb.map_or(String::new(), |goal| format!(": {}", met(copy.mb <= goal)));
                vec![
                    copy.name.to_owned(),
                    format!("{:.3}", copy.made),
                    format!("{:.3}: {}", copy.answer, met(copy.answer <= POINT_S)),
                    format!("{:.1}{space}", copy.mb),
                ]
            })
            .collect();
        text += &table(&["copy", "made", "first answer (goal 1 s)", "MB (goal of a clone: 20)"], &rows);
    }
    if let Some(repairs) = repairs {
        let [p50, p99, worst] = [0.5, 0.99, 1.0].map(|share| percentile(&repairs.ms, share));
        text += &format!(
            "\nDamaged pages: {} pages of the file of {:.0} MB were overwritten while the server was stopped; {} were met and rebuilt by \
             reads of single rows: p50 {p50:.3} ms ({}, goal 1 ms), p99 {p99:.3} ms ({}, goal 10 ms), worst {worst:.2} ms; {:.1} records \
             of the log each.\n",
            repairs.damaged,
            repairs.data_mb,
            repairs.ms.len(),
            met(p50 <= REPAIR_P50_MS),
            met(p99 <= REPAIR_P99_MS),
            repairs.records
        );
    }
    let name = name_of(options);
    text += &format!("\n![plot]({name}.svg)\n");
    for run in runs {
        text += &format!("\n![over time]({name}-time-{}.svg)\n", run.buffer_mb);
    }
    text
}
