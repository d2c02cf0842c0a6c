//! Each finding with both answers, grouped as the report groups them, for those who mend.

use std::collections::BTreeMap;

use super::report::short;
use super::tally::{Class, Finding, Tally};

/// All findings but those that follow from others: by verdict, then by reason, the most
/// frequent first.
pub fn text(tally: &Tally) -> String {
    let mut groups: BTreeMap<String, BTreeMap<&str, Vec<&Finding>>> = BTreeMap::new();
    for finding in &tally.findings {
        let class = match finding.class() {
            Class::Verdict(verdict) => format!("{verdict:?}"),
            Class::Listed => "(listed)".into(),
            Class::FollowUp => format!("zz follows: {:?}", finding.verdict),
        };
        groups.entry(class).or_default().entry(&finding.reason).or_default().push(finding);
    }
    let mut out = String::new();
    for (class, reasons) in groups {
        let mut reasons: Vec<_> = reasons.into_iter().collect();
        reasons.sort_by_key(|(_, findings)| std::cmp::Reverse(findings.len()));
        out.push_str(&format!("\n######## {class}\n"));
        for (reason, findings) in reasons {
            out.push_str(&format!("\n==== {class}: {reason} ({})\n", findings.len()));
            for finding in findings {
                out.push_str(&entry(finding, class.starts_with("zz")));
            }
        }
    }
    out
}

fn entry(finding: &Finding, brief: bool) -> String {
    let place = format!("{}:{}", finding.file, finding.line);
    if brief {
        let root = finding.root.as_deref().unwrap_or_default();
        return format!("-- {place} [{root}] {}\n", short(&finding.sql, 150));
    }
    let listed = finding.listed.as_ref().map(|reason| format!(" [{reason}]")).unwrap_or_default();
    format!("-- {place}{listed}\n{}\n>> PostgreSQL\n{}\n<< Resurgam\n{}\n", finding.sql, finding.theirs, finding.ours)
}
