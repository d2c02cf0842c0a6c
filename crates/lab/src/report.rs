//! Markdown tables, and the files that an experiment leaves.

use std::fs;
use std::process::Command;

use crate::servers::output;
use crate::{Common, Result};

/// The middle value; of an even number, the mean of the two middle ones. 0 of none.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[middle],
        _ => (sorted[middle - 1] + sorted[middle]) / 2.0,
    }
}

/// The geometric mean of ratios that were measured in pairs, and the ends of its 95 % confidence interval
/// (Student's t over their logarithms). No interval of fewer than two.
pub fn paired(ratios: &[f64]) -> (f64, Option<(f64, f64)>) {
    // Two-sided 95 % points for 1, 2, … degrees of freedom; beyond, the last one is a little too wide.
    const T: [f64; 20] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
        2.120, 2.110, 2.101, 2.093, 2.086,
    ];
    let n = ratios.len() as f64;
    if ratios.is_empty() {
        return (0.0, None);
    }
    let logs: Vec<f64> = ratios.iter().map(|ratio| ratio.max(1e-9).ln()).collect();
    let mean = logs.iter().sum::<f64>() / n;
    if logs.len() < 2 {
        return (mean.exp(), None);
    }
    let variance = logs.iter().map(|log| (log - mean).powi(2)).sum::<f64>() / (n - 1.0);
    let half = T[(logs.len() - 2).min(T.len() - 1)] * (variance / n).sqrt();
    (mean.exp(), Some(((mean - half).exp(), (mean + half).exp())))
}

/// As text, for instance `0.971 (0.962 to 0.980)`.
pub fn paired_text(ratios: &[f64]) -> String {
    match paired(ratios) {
        (mean, Some((low, high))) => format!("{mean:.3} ({low:.3} to {high:.3})"),
        (mean, None) => format!("{mean:.3}"),
    }
}

/// A Markdown table.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = format!("| {} |\n|{}\n", header.join(" | "), "---|".repeat(header.len()));
    for row in rows {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    out
}

/// When, with what command line and built from which commit, and what the machine was doing besides (its load average
/// of the last minute, what was measured included), for the record. (Servers say their own: `Setup`.)
pub fn provenance() -> String {
    let when = output(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])).unwrap_or_default();
    let arguments = without_places(std::env::args().skip(1));
    let commit = env!("RESURGAM_COMMIT");
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split_whitespace().next().unwrap_or("unknown");
    format!("Measured {when} by `lab {}`, built from commit {commit}; load average {load}.\n", arguments.join(" "))
}

/// Writes `NAME.md` and `NAME.svg`, and shows the text.
pub fn write(common: &Common, name: &str, text: &str, svg: &str) -> Result<()> {
    let failed = |e: std::io::Error| format!("could not write the report: {e}");
    fs::create_dir_all(&common.out).map_err(failed)?;
    fs::write(common.out.join(format!("{name}.md")), text).map_err(failed)?;
    fs::write(common.out.join(format!("{name}.svg")), svg).map_err(failed)?;
    println!("{text}");
    println!("written to {}", common.out.join(format!("{name}.md")).display());
    Ok(())
}

/// Writes one more plot, as `NAME.svg`.
pub fn write_svg(common: &Common, name: &str, svg: &str) -> Result<()> {
    let failed = |e: std::io::Error| format!("could not write the plot: {e}");
    fs::create_dir_all(&common.out).map_err(failed)?;
    fs::write(common.out.join(format!("{name}.svg")), svg).map_err(failed)
}

/// Writes the raw numbers as `NAME.csv`; no field may hold a comma or a line break.
pub fn write_csv(common: &Common, name: &str, header: &[&str], rows: &[Vec<String>]) -> Result<()> {
    let lines = std::iter::once(header.join(",")).chain(rows.iter().map(|row| row.join(",")));
    let text: String = lines.map(|line| line + "\n").collect();
    let failed = |e: std::io::Error| format!("could not write the numbers: {e}");
    fs::create_dir_all(&common.out).map_err(failed)?;
    fs::write(common.out.join(format!("{name}.csv")), text).map_err(failed)
}

/// Arguments without those that only say where things are on one machine.
fn without_places(arguments: impl Iterator<Item = String>) -> Vec<String> {
    const PLACES: [&str; 5] = ["--resurgam", "--postgres", "--mariadb", "--work", "--out"];
    let mut kept = Vec::new();
    let mut is_place = false;
    for argument in arguments {
        let name = argument.split_once('=').map_or(argument.as_str(), |(name, _)| name);
        match std::mem::take(&mut is_place) {
            true => {}
            false if PLACES.contains(&name) => is_place = name == argument,
            false => kept.push(argument),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pairs_have_an_interval() {
        let (mean, interval) = paired(&[0.9, 1.0, 1.1]);
        let (low, high) = interval.unwrap();
        assert!((mean - 0.9967).abs() < 1e-3, "{mean}");
        // By hand: the logarithms deviate by 0.1004, 4.303 times that over the root of three.
        assert!((low - 0.7767).abs() < 1e-3 && (high - 1.2790).abs() < 1e-3, "{low} {high}");
        assert_eq!(
            paired(&[0.5; 10]).1.map(|(low, high)| (low * 1e6).round() == 5e5 && (high * 1e6).round() == 5e5),
            Some(true)
        );
        assert_eq!(paired(&[2.0]).1, None);
    }

    #[test]
    fn medians_and_tables() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        let got = table(&["a", "b"], &[vec!["1".into(), "2".into()]]);
        assert_eq!(got, "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
