//! What archiving costs, second by second (figure 13 of Instant Restore: sorting and indexing the log against copying its files), and what
//! writing every page once saves.

use super::{Load, Subject, Way};
use crate::candles::{Panel, candles, five};
use crate::report::table;

/// Second by second, in all turns: least, quartiles and most.
fn of(subject: &Subject, values: impl Fn(&Load) -> &[f64]) -> Option<[f64; 5]> {
    five(&subject.loads.iter().flat_map(|load| values(load).iter().copied()).collect::<Vec<_>>())
}

fn rates(subject: &Subject) -> Option<[f64; 5]> {
    of(subject, |load| &load.rates)
}

fn cpus(subject: &Subject) -> Option<[f64; 5]> {
    of(subject, |load| &load.cpus)
}

/// The plot.
pub(super) fn plot(subjects: &[Subject]) -> String {
    let panel = |title: &str, of: &dyn Fn(&Subject) -> Option<[f64; 5]>| Panel {
        title: title.to_owned(),
        candles: subjects.iter().filter_map(|s| Some((s.way.name().to_owned(), of(s)?))).collect(),
    };
    let panels = [panel("transactions a second", &rates), panel("processors that the server uses", &cpus)];
    candles("Throughput and processor time, second by second, by what is done with the log", &panels)
}

/// The same as a table.
pub(super) fn text(subjects: &[Subject]) -> String {
    let cells = |five: Option<[f64; 5]>, digits: usize| {
        five.map_or(vec![String::new(); 5], |five| five.map(|value| format!("{value:.digits$}")).into())
    };
    let rows: Vec<Vec<String>> = subjects
        .iter()
        .map(|subject| {
            let name = vec![subject.way.name().to_owned()];
            [name, cells(rates(subject), 0), cells(cpus(subject), 2)].concat()
        })
        .collect();
    let head = [
        "load",
        "tx/s: least",
        "1st quartile",
        "median",
        "3rd quartile",
        "most",
        "processors: least",
        "1st quartile",
        "median",
        "3rd quartile",
        "most",
    ];
    let about = "\nSecond by second, in all turns (figure 13 of Instant Restore): transactions, and processors that the server uses.\n\n";
    about.to_owned() + &table(&head, &rows)
}

/// What is written with double writes and without, while the data is loaded and under the load; nothing where not both were measured.
pub(super) fn double_writes(subjects: &[Subject]) -> String {
    let find = |way: Way| subjects.iter().find(|subject| subject.way == way);
    let (Some(double), Some(single)) = (find(Way::DoubleWrites), find(Way::SingleWrites)) else { return String::new() };
    let mb_s =
        |subject: &Subject, of: &dyn Fn(&Load) -> u64| subject.median(|load| of(load) as f64 / 1e6 / load.seconds);
    let each = |subject: &Subject| subject.median(|load| load.written as f64 / 1e3 / load.transactions.max(1) as f64);
    let row = |subject: &Subject| {
        let share = match subject.share_of(double) {
            Some([middle, least, most]) => format!("{middle:.3} ({least:.3} to {most:.3})"),
            None => String::new(),
        };
        vec![
            subject.way.name().to_owned(),
            format!("{:.0}", subject.median(Load::rate)),
            share,
            format!("{:.1}", each(subject)),
            format!("{:.3}", each(subject) / each(double).max(1e-9)),
            format!("{:.1}", mb_s(subject, &|load: &Load| load.written)),
            format!("{:.1}", mb_s(subject, &|load: &Load| load.log)),
            format!("{:.1}", subject.loading.seconds),
            format!("{:.0}", subject.loading.written as f64 / 1e6),
            format!("{:.3}", subject.loading.written as f64 / (double.loading.written.max(1)) as f64),
        ]
    };
    let head = [
        "load",
        "tx/s",
        "of double writes",
        "written KB/tx",
        "of double writes",
        "written MB/s",
        "of that log MB/s",
        "loading the data s",
        "written MB",
        "of double writes",
    ];
    let about = "\nWithout double writes: everything that the server's process writes (data, double writes, log, archive), under the load and \
                 while the data is loaded.\n\n";
    about.to_owned() + &table(&head, &[row(double), row(single)])
}
