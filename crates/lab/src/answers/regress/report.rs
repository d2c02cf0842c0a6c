//! The tables by script and by reason.

use std::collections::HashMap;
use std::time::Duration;

use super::judge::Verdict;
use super::tally::{Class, Finding, Tally};
use crate::report::{provenance, table};
use crate::setup::Setup;

/// Reasons in a table; the rest is a number.
const REASONS: usize = 50;

/// A line for a script that has been played.
pub fn progress(tally: &Tally, file: &str, took: Duration) -> String {
    let Some(counts) = tally.files.iter().find(|c| c.file == file) else { return String::new() };
    let count = |verdict: Verdict| tally.count(Some(file), |f| f.is(verdict));
    format!(
        "{file}: {} of {} accepted the same, {} of {} refused; other rows {}, accepted {}, hangs {}, crashes {}; {:.1} s",
        counts.same,
        counts.accepted,
        counts.same_code,
        counts.refused,
        count(Verdict::Rows),
        count(Verdict::Accepted),
        count(Verdict::Hang),
        count(Verdict::Crash),
        took.as_secs_f64()
    )
}

/// The numbers that are looked at first.
pub fn summary(tally: &Tally) -> String {
    let (accepted, same) = (tally.sum(|c| c.accepted), tally.sum(|c| c.same));
    let (rows, rows_same) = (tally.sum(|c| c.with_rows), tally.sum(|c| c.with_rows_same));
    let (refused, code) = (tally.sum(|c| c.refused), tally.sum(|c| c.same_code));
    let count = |verdict: Verdict| tally.count(None, |f| f.is(verdict));
    format!(
        "- {accepted} statements that PostgreSQL accepts: {same} ({}) get its answer; of {rows} with rows {rows_same} ({})\n\
         - {refused} that it refuses: {code} ({}) with the same SQLSTATE\n\
         - other rows without a listed reason: {}; accepted although PostgreSQL refuses: {}; hangs and time-outs: {}; crashes: {}\n",
        percent(same, accepted),
        percent(rows_same, rows),
        percent(code, refused),
        count(Verdict::Rows),
        count(Verdict::Accepted),
        count(Verdict::Hang),
        count(Verdict::Crash),
    )
}

fn percent(part: usize, whole: usize) -> String {
    format!("{:.1} %", part as f64 * 100.0 / whole.max(1) as f64)
}

/// The whole report.
pub fn text(tally: &Tally, setup: &Setup, restarts: usize, unused: &[String]) -> String {
    let mut out = String::from(
        "# PostgreSQL's regression SQL\n\n\
         Each statement of PostgreSQL's own regression tests, sent to a PostgreSQL and to a Resurgam that run beside \
         each other. How to run it, and what is compared: [docs/proof.md](../proof.md#postgresqls-own-regression-sql).\n\n",
    );
    out.push_str(&provenance());
    out.push('\n');
    out.push_str(&setup.text());
    out.push_str("## Summary\n\n");
    out.push_str(&summary(tally));
    out.push_str(&format!("- restarts of Resurgam after a crash or a hang: {restarts}\n\n"));
    out.push_str("## By script\n\n");
    out.push_str(LEGEND);
    out.push_str(&by_file(tally));
    for (title, verdict) in [
        ("Hangs and time-outs", Verdict::Hang),
        ("Crashes", Verdict::Crash),
        ("Other rows", Verdict::Rows),
        ("Accepted, where PostgreSQL refuses", Verdict::Accepted),
    ] {
        out.push_str(&format!("\n## {title}\n\n"));
        out.push_str(&by_reason(tally, |f| f.is(verdict)));
    }
    out.push_str("\n## Refused, where PostgreSQL accepts\n\nBy the number of statements that fail for it, directly and as a consequence.\n\n");
    out.push_str(&by_gain(tally));
    for (title, verdict) in [
        ("Other SQLSTATE", Verdict::OtherCode),
        ("Other types, names or tags", Verdict::Types),
        ("The same rows in another order", Verdict::Order),
    ] {
        out.push_str(&format!("\n## {title}\n\n"));
        out.push_str(&by_reason(tally, |f| f.is(verdict)));
    }
    out.push_str("\n## Differences with a reason\n\n");
    out.push_str(&listed(tally));
    if !unused.is_empty() {
        out.push_str("\nEntries of the list that excused nothing:\n\n");
        unused.iter().for_each(|entry| out.push_str(&format!("- {}\n", code(entry))));
    }
    out
}

const LEGEND: &str = "Accepted by PostgreSQL: *same* answer; only other *types* or names; another *order*; *plans* \
of EXPLAIN (not compared); *refused*; *rows*: other rows; *dead*: hangs, time-outs, crashes. Refused by PostgreSQL: \
same and other SQLSTATE; *accepted*. *Follow*: explained by an earlier refusal; *listed*: with a reason in the list; \
*skipped*: commands of psql.\n\n";

fn by_file(tally: &Tally) -> String {
    let header = [
        "script",
        "accepted",
        "same",
        "types",
        "order",
        "plans",
        "refused",
        "rows",
        "dead",
        "follow",
        "refused by PG",
        "same code",
        "other code",
        "accepted",
        "follow",
        "listed",
        "skipped",
    ];
    let row = |name: &str, file: Option<&str>| {
        let sum = |of: fn(&super::tally::Counts) -> usize| {
            tally.files.iter().filter(|c| file.is_none_or(|file| c.file == file)).map(of).sum::<usize>()
        };
        let count = |verdict: Verdict| tally.count(file, |f| f.is(verdict));
        let follow = |accepted: bool| tally.count(file, |f| f.class() == Class::FollowUp && f.accepted == accepted);
        let mut cells = vec![name.to_owned()];
        let numbers = [
            sum(|c| c.accepted),
            sum(|c| c.same),
            count(Verdict::Types),
            count(Verdict::Order),
            count(Verdict::Plan),
            count(Verdict::Refused),
            count(Verdict::Rows),
            count(Verdict::Hang) + count(Verdict::Crash),
            follow(true),
            sum(|c| c.refused),
            sum(|c| c.same_code),
            count(Verdict::OtherCode),
            count(Verdict::Accepted),
            follow(false),
            tally.count(file, |f| f.class() == Class::Listed),
            sum(|c| c.commands),
        ];
        cells.extend(numbers.iter().map(|n| if *n == 0 { String::new() } else { n.to_string() }));
        cells
    };
    let mut rows: Vec<Vec<String>> = tally.files.iter().map(|c| row(&c.file, Some(&c.file))).collect();
    rows.push(row("**all**", None));
    table(&header, &rows)
}

/// A table of reasons with their number and an example each.
fn by_reason(tally: &Tally, wanted: impl Fn(&Finding) -> bool) -> String {
    let mut groups: HashMap<&str, Vec<&Finding>> = HashMap::new();
    for finding in tally.findings.iter().filter(|f| wanted(f)) {
        groups.entry(&finding.reason).or_default().push(finding);
    }
    let groups = groups.into_iter().map(|(reason, all)| (reason, all.len(), all)).collect();
    reason_table(&["statements", "reason", "for example"], groups, |n, _| vec![n.to_string()])
}

/// The reasons of refusals with all that follows from them.
fn by_gain(tally: &Tally) -> String {
    let mut groups: HashMap<&str, (Vec<&Finding>, usize)> = HashMap::new();
    for finding in &tally.findings {
        if finding.is(Verdict::Refused) {
            groups.entry(&finding.reason).or_default().0.push(finding);
        } else if finding.class() == Class::FollowUp {
            groups.entry(finding.root.as_deref().unwrap_or_default()).or_default().1 += 1;
        }
    }
    // Roots that are not refusals (other rows, say) are tables of their own.
    let groups = groups.into_iter().filter(|(_, (direct, _))| !direct.is_empty());
    let groups = groups.map(|(reason, (direct, follow))| (reason, direct.len() + follow, direct)).collect();
    reason_table(&["statements", "directly", "reason", "for example"], groups, |n, direct| {
        vec![n.to_string(), direct.to_string()]
    })
}

fn reason_table(
    header: &[&str],
    mut groups: Vec<(&str, usize, Vec<&Finding>)>,
    numbers: impl Fn(usize, usize) -> Vec<String>,
) -> String {
    if groups.is_empty() {
        return "None.\n".into();
    }
    groups.sort_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
    let rest = groups.split_off(groups.len().min(REASONS));
    let rows: Vec<Vec<String>> = groups
        .into_iter()
        .map(|(reason, n, findings)| {
            let mut cells = numbers(n, findings.len());
            // A short example tells most.
            let example = findings.iter().min_by_key(|f| f.sql.len());
            let example = example.map(|f| format!("{}:{} {}", f.file, f.line, code(&short(&f.sql, 140))));
            cells.extend([escaped(reason), example.unwrap_or_default()]);
            cells
        })
        .collect();
    let mut out = table(header, &rows);
    if !rest.is_empty() {
        let n: usize = rest.iter().map(|(_, n, _)| n).sum();
        out.push_str(&format!("\nand {} more reasons with {n} statements.\n", rest.len()));
    }
    out
}

fn listed(tally: &Tally) -> String {
    let mut groups: HashMap<&str, Vec<&Finding>> = HashMap::new();
    for finding in tally.findings.iter().filter(|f| f.class() == Class::Listed) {
        groups.entry(finding.listed.as_deref().unwrap_or_default()).or_default().push(finding);
    }
    let groups = groups.into_iter().map(|(reason, all)| (reason, all.len(), all)).collect();
    reason_table(&["statements", "reason", "for example"], groups, |n, _| vec![n.to_string()])
}

/// One line of at most so many characters.
pub fn short(sql: &str, max: usize) -> String {
    let line = sql.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= max { line } else { line.chars().take(max).chain(['…']).collect() }
}

/// For a cell of a table.
fn escaped(text: &str) -> String {
    text.replace('|', "\\|")
}

fn code(text: &str) -> String {
    format!("`` {} ``", escaped(text).replace("``", "` `"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(verdict: Verdict, reason: &str, root: Option<&str>) -> Finding {
        Finding {
            file: "a".into(),
            line: 3,
            sql: "select  1 |\n 2".into(),
            accepted: true,
            verdict,
            reason: reason.into(),
            root: root.map(str::to_owned),
            listed: None,
            theirs: String::new(),
            ours: String::new(),
        }
    }

    #[test]
    fn consequences_count_for_their_root() {
        let mut tally = Tally::default();
        for f in [
            finding(Verdict::Refused, "no box", None),
            finding(Verdict::Refused, "no circle", None),
            finding(Verdict::Rows, "fewer rows", Some("no box")),
        ] {
            tally.add(f, true, Default::default);
        }
        let gain = by_gain(&tally);
        assert!(gain.contains("| 2 | 1 | no box | a:3 `` select 1 \\| 2 `` |"), "{gain}");
        assert!(summary(&tally).contains("3 statements that PostgreSQL accepts: 0 (0.0 %)"));
        assert!(by_reason(&tally, |f| f.is(Verdict::Rows)).contains("None"));
    }

    #[test]
    fn long_statements_are_cut() {
        assert_eq!(short("a\n  b", 3), "a b");
        assert_eq!(short("abcd", 3), "abc…");
    }
}
