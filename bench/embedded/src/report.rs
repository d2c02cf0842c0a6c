//! The table: medians of the runs, in Markdown.

use crate::lines::{Line, Number, Numbers, Size};

/// The runs of a store.
pub struct Runs {
    pub name: &'static str,
    pub runs: Vec<Numbers>,
}

impl Runs {
    /// All numbers of a line, ascending.
    fn of(&self, line: Line, which: fn(&Number) -> f64) -> Vec<f64> {
        let found =
            |run: &Numbers| run.iter().find(|(at, _)| *at == line).and_then(|(_, number)| number.as_ref().map(which));
        let mut numbers: Vec<f64> = self.runs.iter().filter_map(found).collect();
        numbers.sort_by(f64::total_cmp);
        numbers
    }
    fn median(&self, line: Line, which: fn(&Number) -> f64) -> Option<f64> {
        let numbers = self.of(line, which);
        let at = numbers.len() / 2;
        match numbers.len() {
            0 => None,
            n if n % 2 == 1 => Some(numbers[at]),
            _ => Some((numbers[at - 1] + numbers[at]) / 2.0),
        }
    }
}

fn short(number: f64) -> String {
    match number {
        n if n >= 1e7 => format!("{:.0} M", n / 1e6),
        n if n >= 1e6 => format!("{:.2} M", n / 1e6),
        n if n >= 1e5 => format!("{:.0} k", n / 1e3),
        n if n >= 1e3 => format!("{:.1} k", n / 1e3),
        n => format!("{n:.0}"),
    }
}

/// The whole report. `commit`: of what is measured.
pub fn markdown(stores: &[Runs], size: Size, cache_mb: usize, commit: &str) -> String {
    let runs = stores.iter().map(|store| store.runs.len()).max().unwrap_or(0);
    let mut text = format!(
        "{} rows, {} random reads, cache of {cache_mb} MiB; medians of {runs}, stores in turn; commit {commit}. In brackets: the \
         least and the most.\n",
        size.rows, size.reads
    );
    text += &table(stores, "line", |number| number.of, |_| true);
    text += "\nThe same by a second of the process's processor time, background threads included:\n";
    text += &table(stores, "line, by processor time", |number| number.of_cpu, |line| !line.is_size());
    text
}

fn table(stores: &[Runs], title: &str, which: fn(&Number) -> f64, wanted: fn(Line) -> bool) -> String {
    let mut text = format!("\n| {title} |");
    for store in stores {
        text += &format!(" {} |", store.name);
    }
    text += "\n|---|";
    text += &"---|".repeat(stores.len());
    text.push('\n');
    let mut lines: Vec<Line> = Vec::new();
    for (line, _) in stores.iter().flat_map(|store| store.runs.iter().flatten()) {
        if wanted(*line) && !lines.contains(line) {
            lines.push(*line);
        }
    }
    for line in lines {
        text += &format!("| {} |", line.name());
        let medians: Vec<Option<f64>> = stores.iter().map(|store| store.median(line, which)).collect();
        let better = |a: f64, b: f64| if line.is_size() { a < b } else { a > b };
        let best = medians.iter().flatten().copied().reduce(|a, b| if better(b, a) { b } else { a });
        for (store, median) in stores.iter().zip(&medians) {
            text += &match median {
                None => " - |".to_owned(),
                Some(number) => {
                    let all = store.of(line, which);
                    let mark = if Some(*number) == best { "**" } else { "" };
                    let spread = match (all.first(), all.last()) {
                        (Some(least), Some(most)) if all.len() > 1 => {
                            format!(" ({} to {})", short(*least), short(*most))
                        }
                        _ => String::new(),
                    };
                    format!(" {mark}{}{mark}{spread} |", short(*number))
                }
            };
        }
        text.push('\n');
    }
    text
}
