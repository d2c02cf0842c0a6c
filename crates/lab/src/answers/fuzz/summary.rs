//! What a run came to.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::compare::{Difference, Differs, shape};
use super::known::{Seen, explained};
use super::minimise::Finding;
use super::orders::Plans;
use super::sides::Verdict;

/// Findings of a kind whose scripts are kept.
const KEPT_MAX: usize = 40;

#[derive(Default)]
pub struct Summary {
    texts: usize,
    same: usize,
    /// Both answered an error, the same: by SQLSTATE.
    failed: BTreeMap<String, usize>,
    rows: usize,
    /// What is not supported: by message.
    refused: BTreeMap<String, usize>,
    known: BTreeMap<&'static str, (usize, &'static str)>,
    found: BTreeMap<String, Found>,
    /// Of statements about orders.
    pub plans: Plans,
}

/// Findings with one signature.
#[derive(Default)]
struct Found {
    count: usize,
    what: Option<Difference>,
    /// Scripts and where they come from; the small ones by their shape.
    scripts: BTreeMap<String, (usize, String)>,
}

impl Summary {
    pub fn texts(&self) -> usize {
        self.texts
    }

    /// Differences that are not known.
    pub fn findings(&self) -> usize {
        self.found.values().map(|found| found.count).sum()
    }

    pub fn count(&mut self, verdict: &Verdict) {
        self.texts += 1;
        self.rows += verdict.rows;
        match (&verdict.refused, &verdict.found, &verdict.failed) {
            (Some(refused), ..) => {
                *self.refused.entry(shape(&refused.message)).or_default() += 1;
            }
            (None, None, Some(code)) => *self.failed.entry(code.clone()).or_default() += 1,
            (None, None, None) => self.same += 1,
            (None, Some(_), _) => {}
        }
    }

    /// Something about which the sides differed while a round's tables were made.
    pub fn setup(&mut self, round: usize, text: &str, differs: &Differs) {
        let seen = Seen { what: differs.what, theirs: &differs.theirs, ours: &differs.ours };
        if let Some(known) = explained(&seen) {
            self.known.entry(known.name).or_insert((0, known.reason)).0 += 1;
            return;
        }
        let found = self.found.entry(format!("Setup, {:?}: {}", differs.what, differs.about)).or_default();
        found.count += 1;
        found.what = Some(differs.what);
        if found.scripts.len() < KEPT_MAX {
            let script = format!("{text}\n-- PostgreSQL: {}\n-- here:       {}", differs.theirs, differs.ours);
            found.scripts.insert(format!("{round}.setup{}", found.count), (1, script));
        }
    }

    /// Counts a finding; whether it is a new one.
    pub fn find(&mut self, round: usize, text: usize, finding: &Finding) -> bool {
        let statement = match finding.step {
            super::case::Step::Simple(run) => finding.case.text(Some(run), false).0,
            super::case::Step::Extended { .. } => finding.case.text(None, false).0,
        };
        let differs = &finding.differs;
        let seen = Seen { what: differs.what, theirs: &differs.theirs, ours: &differs.ours };
        if let Some(known) = explained(&seen) {
            self.known.entry(known.name).or_insert((0, known.reason)).0 += 1;
            return false;
        }
        let found = self.found.entry(finding.signature()).or_default();
        found.count += 1;
        found.what = Some(differs.what);
        if found.scripts.len() < KEPT_MAX {
            let script = format!(
                "{statement}\n-- {:?} of {:?}\n-- PostgreSQL: {}\n-- here:       {}",
                differs.what, finding.step, differs.theirs, differs.ours
            );
            found.scripts.insert(format!("{round}.{text}"), (1, script));
        }
        true
    }

    /// A finding was made small, or did not happen again.
    pub fn minimised(&mut self, finding: &Finding, small: Option<Finding>) {
        let Some(small) = small else { return };
        let found = self.found.entry(finding.signature()).or_default();
        let key = format!("small {}", shape(&small.case.text(Some(0), false).0));
        found.scripts.entry(key).or_insert_with(|| (0, small.script())).0 += 1;
    }

    pub fn add(&mut self, other: Self) {
        self.texts += other.texts;
        self.same += other.same;
        self.rows += other.rows;
        self.plans.add(other.plans);
        other.failed.into_iter().for_each(|(key, n)| *self.failed.entry(key).or_default() += n);
        other.refused.into_iter().for_each(|(key, n)| *self.refused.entry(key).or_default() += n);
        other.known.into_iter().for_each(|(key, (n, why))| self.known.entry(key).or_insert((0, why)).0 += n);
        for (key, other) in other.found {
            let found = self.found.entry(key).or_default();
            found.count += other.count;
            found.what = other.what;
            for (shape, (count, script)) in other.scripts {
                let kept = found.scripts.entry(shape).or_insert((0, script));
                kept.0 += count;
            }
        }
    }

    /// All of it in words: the gravest and most frequent findings first.
    pub fn text(&self, shown: usize) -> String {
        let mut text = String::new();
        let mut found: Vec<(&String, &Found)> = self.found.iter().collect();
        found.sort_by_key(|(_, found)| (found.what, std::cmp::Reverse(found.count)));
        for (signature, found) in &found {
            let _ = writeln!(text, "== {} times {signature}", found.count);
            let mut scripts: Vec<(&String, &(usize, String))> = found.scripts.iter().collect();
            let is_small = scripts.iter().any(|(key, _)| key.starts_with("small"));
            scripts.retain(|(key, _)| key.starts_with("small") == is_small);
            scripts.sort_by_key(|(_, (count, script))| (std::cmp::Reverse(*count), script.len()));
            for (key, (count, script)) in scripts.iter().take(shown) {
                let times = if *count > 1 { format!(" ({count} times)") } else { String::new() };
                let _ = writeln!(text, "-- {key}{times}\n{}", script.trim_end());
            }
        }
        let refused: usize = self.refused.values().sum();
        let failed: usize = self.failed.values().sum();
        let known: usize = self.known.values().map(|(n, _)| n).sum();
        let _ = writeln!(
            text,
            "{} texts: {} alike ({} rows), {failed} alike in their error, {refused} refused, {known} known, {} differ",
            self.texts,
            self.same,
            self.rows,
            self.findings()
        );
        self.plans.write(&mut text);
        let mut list = |title: &str, counts: Vec<(String, usize)>| {
            let mut counts = counts;
            counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
            for (key, count) in counts.iter().take(25) {
                let _ = writeln!(text, "{title:<8} {count:>6}  {key}");
            }
        };
        list("refused", self.refused.iter().map(|(k, n)| (k.clone(), *n)).collect());
        list("error", self.failed.iter().map(|(k, n)| (k.clone(), *n)).collect());
        list("known", self.known.iter().map(|(k, (n, why))| (format!("{k}: {why}"), *n)).collect());
        text
    }
}
