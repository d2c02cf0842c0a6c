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

/// A Markdown table.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = format!("| {} |\n|{}\n", header.join(" | "), "---|".repeat(header.len()));
    for row in rows {
        out.push_str(&format!("| {} |\n", row.join(" | ")));
    }
    out
}

/// When and with what command line, for the record.
pub fn provenance() -> String {
    let when = output(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])).unwrap_or_default();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    format!("Measured {when} by `lab {}`.\n", arguments.join(" "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_tables() {
        assert_eq!(median(&[]), 0.0);
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        let got = table(&["a", "b"], &[vec!["1".into(), "2".into()]]);
        assert_eq!(got, "| a | b |\n|---|---|\n| 1 | 2 |\n");
    }
}
