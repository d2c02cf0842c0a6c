//! Counts of verdicts by script, and the findings: everything that is not PostgreSQL's answer.

use super::judge::Verdict;

/// A statement that is answered differently.
#[derive(Clone, Debug)]
pub struct Finding {
    pub file: String,
    pub line: usize,
    pub sql: String,
    /// Whether PostgreSQL accepts it.
    pub accepted: bool,
    pub verdict: Verdict,
    pub reason: String,
    /// The reason of the difference that this one follows from.
    pub root: Option<String>,
    /// Why it may differ, from the list of known differences.
    pub listed: Option<String>,
    /// What PostgreSQL and Resurgam said.
    pub theirs: String,
    pub ours: String,
}

/// What a difference counts as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    Verdict(Verdict),
    /// It follows from an earlier one.
    FollowUp,
    /// The list has a reason for it.
    Listed,
}

impl Finding {
    /// Dead servers are never excused; a reason in the list goes before what it follows from.
    pub fn class(&self) -> Class {
        match self.verdict {
            Verdict::Crash | Verdict::Hang => Class::Verdict(self.verdict),
            _ if self.listed.is_some() => Class::Listed,
            _ if self.root.is_some() => Class::FollowUp,
            verdict => Class::Verdict(verdict),
        }
    }

    pub fn is(&self, verdict: Verdict) -> bool {
        self.class() == Class::Verdict(verdict)
    }
}

/// Of one script.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub file: String,
    pub statements: usize,
    /// Backslash commands that were left out.
    pub commands: usize,
    /// PostgreSQL gave no answer to compare with.
    pub not_compared: usize,
    /// Statements that PostgreSQL accepts, and those that it refuses.
    pub accepted: usize,
    pub refused: usize,
    pub same: usize,
    pub same_code: usize,
    /// Accepted, with columns; and those of them that are the same.
    pub with_rows: usize,
    pub with_rows_same: usize,
}

/// Everything that was measured.
#[derive(Default)]
pub struct Tally {
    pub files: Vec<Counts>,
    pub findings: Vec<Finding>,
}

impl Tally {
    /// The counts of a script, in the order of play.
    pub fn file(&mut self, name: &str) -> &mut Counts {
        let at = self.files.iter().position(|counts| counts.file == name).unwrap_or_else(|| {
            self.files.push(Counts { file: name.to_owned(), ..Counts::default() });
            self.files.len() - 1
        });
        &mut self.files[at]
    }

    /// Adds a statement; `show` tells what both said, for those that are kept.
    pub fn add(&mut self, mut finding: Finding, with_rows: bool, show: impl FnOnce() -> [String; 2]) {
        let counts = self.file(&finding.file);
        let same = finding.verdict == Verdict::Same;
        if finding.accepted {
            counts.accepted += 1;
            counts.same += usize::from(same);
            counts.with_rows += usize::from(with_rows);
            counts.with_rows_same += usize::from(with_rows && same);
        } else {
            counts.refused += 1;
            counts.same_code += usize::from(finding.verdict == Verdict::SameCode);
        }
        if !same && finding.verdict != Verdict::SameCode {
            [finding.theirs, finding.ours] = show();
            self.findings.push(finding);
        }
    }

    /// Findings of a class, of one script or all.
    pub fn count(&self, file: Option<&str>, wanted: impl Fn(&Finding) -> bool) -> usize {
        self.findings.iter().filter(|f| file.is_none_or(|file| f.file == file) && wanted(f)).count()
    }

    /// The sum of a count over all scripts.
    pub fn sum(&self, of: impl Fn(&Counts) -> usize) -> usize {
        self.files.iter().map(of).sum()
    }

    /// Findings that must not be: other rows and accepted errors without a reason in the list,
    /// hangs and crashes. Those that follow from another refusal are not of them.
    pub fn bad(&self) -> usize {
        let bad = [Verdict::Rows, Verdict::Hang, Verdict::Crash];
        self.count(None, |f| bad.iter().any(|verdict| f.is(*verdict)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_counted_once() {
        let finding = |verdict, root: Option<&str>, listed: Option<&str>| Finding {
            file: "a".into(),
            line: 1,
            sql: String::new(),
            accepted: true,
            verdict,
            reason: "r".into(),
            root: root.map(str::to_owned),
            listed: listed.map(str::to_owned),
            theirs: String::new(),
            ours: String::new(),
        };
        let mut tally = Tally::default();
        for f in [
            finding(Verdict::Same, None, None),
            finding(Verdict::Rows, None, None),
            finding(Verdict::Rows, Some("x"), None),
            finding(Verdict::Rows, Some("x"), Some("y")),
            finding(Verdict::Crash, Some("x"), Some("y")),
        ] {
            tally.add(f, true, || ["t".into(), "o".into()]);
        }
        assert_eq!((tally.sum(|c| c.accepted), tally.sum(|c| c.with_rows_same), tally.findings.len()), (5, 1, 4));
        assert_eq!(tally.bad(), 2);
        assert_eq!(tally.count(Some("a"), |f| f.class() == Class::FollowUp), 1);
        assert_eq!(tally.count(Some("b"), |_| true), 0);
    }
}
