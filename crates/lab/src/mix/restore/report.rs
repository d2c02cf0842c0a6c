//! Tables and plots of the experiment, and whether its goals are met.

use super::figures::{COUNTS, Seen, cell, seen};
use super::outages::{Outage, Way};
use super::starts::Restart;
use super::{BACK, Found, Options, Run, back_after, figures, mean, rate};
use crate::Result;
use crate::mix::drive::percentile;
use crate::mix::tpcc::TpcC;
use crate::report::{self, table};
use crate::setup::Setup;
use crate::svg::{Series, bars};

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

/// Which transactions after a failure are in the table.
const FIRST: [usize; 5] = [1, 10, 100, 1000, 10_000];

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
    let plots = figures::write(options, &name, found)?;
    report::write(&options.common, &name, &text(options, mix, setup, found, &plots), &svg)
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
    let back = run.back_after().map(|seconds| seconds / took);
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

/// An outage as a start without the data.
fn start_of(outage: &Outage) -> Restart {
    let name = match outage.way {
        Way::SinglePass => "Resurgam, `restore --whole`: single pass",
        Way::LsnOrder => "Resurgam, backup and log in order of LSN (ARIES)",
        Way::Postgres => "PostgreSQL, base backup and archived log",
    };
    Restart {
        name: name.into(),
        buffer_mb: outage.buffer_mb,
        data_mb: outage.data_mb,
        answer: outage.answer,
        transaction: outage.transaction,
        whole: Some(outage.made),
        goal: None,
        mb_s: (outage.way != Way::Postgres).then(|| outage.data_mb / outage.made.max(0.001)),
    }
}

/// How soon transactions commit again: a row of the table.
fn first_of(seen: &Seen<'_>) -> Vec<String> {
    let until = seen.until(&COUNTS);
    let of = |count: usize| cell(until.iter().find(|(number, _)| *number == count).map(|(_, at)| *at));
    let mut row = vec![format!("{} MB ({})", seen.buffer_mb, seen.part), seen.name.to_owned()];
    row.extend(FIRST.map(of));
    row.push(cell(back_after(seen.tally, seen.before, seen.failed, seen.end)));
    row
}

fn text(options: &Options, mix: &TpcC, setup: &Setup, found: &Found, plots: &[(&'static str, String)]) -> String {
    let Found { runs, outages, starts, copies, repairs, disk_mb_s } = found;
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
                format!("{:.2}", percentile(&times, 0.999)),
                format!("{:.1}", times.last().copied().unwrap_or(0.0)),
                match phase {
                    1 => run.back_after().map_or("not".into(), |seconds| format!("{seconds:.1}")),
                    _ => String::new(),
                },
            ]);
        }
    }
    let made_first: Vec<Restart> = outages.iter().map(start_of).collect();
    let mut all_starts: Vec<&Restart> = starts.iter().chain(&made_first).collect();
    // The largest pool first; within a pool in the order in which they are here.
    all_starts.sort_by_key(|restart| std::cmp::Reverse(restart.buffer_mb));
    let starts: Vec<Vec<String>> = all_starts
        .iter()
        .map(|restart| {
            vec![
                restart.name.clone(),
                restart.buffer_mb.to_string(),
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
        let head = [
            "buffer pool",
            "phase",
            "seconds",
            "tx/s",
            "mean ms",
            "p50 ms",
            "p99 ms",
            "p99.9 ms",
            "worst ms",
            "back after s",
        ];
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
        text += "\nA start without the data, after a kill under the load: seconds from the start (where all is made first: from the begin of \
                 that; with PostgreSQL: from the copy of the base backup) to the first answer, to the first transaction that writes, and until \
                 all is restored. MB/s: of the data, while it is made and nothing else is done.\n\n";
        text += &table(
            &[
                "server",
                "pool MB",
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
    if outages.iter().any(|outage| outage.way == Way::LsnOrder) {
        text += "\nThe single pass and the replay in order of LSN make the same state, of which every page was compared, from the same \
                 backup: the one from the archive, which is sorted by page (what was not archived yet is archived first, and counts); the other \
                 loads the backup, then replays the log since its begin through a pool of the size that the server has, in one thread, \
                 from copies of the log's segments that the lab made beside the server (which cost what is in \"Log files copied\" of \
                 `lab backup`). It runs second, so that the backup is in the system's cache.\n";
    }
    let seen = seen(found);
    if !outages.is_empty() {
        text += "\nHow soon transactions commit again: seconds from the failure until so many have committed, of all clients, and until half \
                 a second has the throughput of before. \"On demand\": the device dies, the server goes on.\n\n";
        let counts = FIRST.map(|count| format!("{count}."));
        let mut head = vec!["buffer pool", "restore"];
        head.extend(counts.iter().map(String::as_str));
        head.push("back");
        text += &table(&head, &seen.iter().map(first_of).collect::<Vec<_>>());
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
    text += &format!("\n![plot]({}.svg)\n", name_of(options));
    for (what, file) in plots {
        text += &format!("\n![{what}]({file}.svg)\n");
    }
    text
}
