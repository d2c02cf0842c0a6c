//! What a check found.

use std::fmt;
use std::io::Write;

use resurgam_base::{PageId, Result, SlotId};

use crate::image::Image;

use crate::out::say;

/// Problems kept in the report and printed; more are only counted.
const PROBLEMS_MAX: usize = 1000;

/// How bad a problem is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    /// Something is not what it should be.
    Damage,
    /// Space that nothing leads to.
    Leak,
}

/// Something wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub severity: Severity,
    /// Name of the file in the folder.
    pub file: String,
    pub page: Option<PageId>,
    pub slot: Option<SlotId>,
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.severity {
            Severity::Damage => "DAMAGE ",
            Severity::Leak => "LEAK ",
        })?;
        f.write_str(&self.file)?;
        if let Some(page) = self.page {
            write!(f, ", page {page}")?;
        }
        if let Some(slot) = self.slot {
            write!(f, ", slot {}", slot.0)?;
        }
        write!(f, ": {}", self.what)
    }
}

/// What was looked at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Pages allocated, space maps included.
    pub pages: u64,
    /// Pages that the log has newer changes of.
    pub pages_to_redo: u64,
    /// Log records since the last checkpoint.
    pub log_records: u64,
    pub tables: u64,
    pub trees: u64,
    /// Rows of tables that are there (not deleted, not aborted).
    pub rows: u64,
    /// Entries of indexes, deleted ones included.
    pub index_entries: u64,
    /// Records on version pages.
    pub versions: u64,
    /// Bytes of the rows of tables that are there for versions ([`resurgam_page::LeafRecord::version_bytes`]).
    pub version_bytes_in_rows: u64,
    /// Values on overflow pages.
    pub values: u64,
    /// Pages that the cleaner has yet to free.
    pub awaiting_cleaner: u64,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The first thousand problems.
    pub problems: Vec<Problem>,
    /// How many problems are damage, those not kept included.
    pub damaged: u64,
    /// How many are leaks.
    pub leaked: u64,
    /// The folder is being restored, and was not checked: in words, how far it is.
    pub unfinished: Option<String>,
    /// Remarks that are no problems.
    pub notes: Vec<String>,
    pub counts: Counts,
}

impl CheckReport {
    /// Whether all was looked at, and nothing is damaged.
    pub fn is_sound(&self) -> bool {
        self.damaged == 0 && self.unfinished.is_none()
    }
}

/// How far a check is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckProgress {
    /// What is being read.
    pub phase: &'static str,
    /// Pages (or log records) done.
    pub done: u64,
    /// Of how many; 0 = not known.
    pub total: u64,
}

/// Collects and prints. A failed write is kept until the end.
pub(crate) struct Reporter<'r> {
    out: &'r mut dyn Write,
    progress: &'r mut dyn FnMut(CheckProgress),
    pub report: CheckReport,
    failed: Result<()>,
}

impl<'r> Reporter<'r> {
    pub fn new(out: &'r mut dyn Write, progress: &'r mut dyn FnMut(CheckProgress)) -> Self {
        Self { out, progress, report: CheckReport::default(), failed: Ok(()) }
    }

    pub fn progress(&mut self, phase: &'static str, done: u64, total: u64) {
        (self.progress)(CheckProgress { phase, done, total });
    }

    pub fn damage(&mut self, file: &str, page: Option<PageId>, slot: Option<SlotId>, what: String) {
        self.report.damaged += 1;
        self.add(Problem { severity: Severity::Damage, file: file.into(), page, slot, what });
    }

    /// Damage of a page.
    pub fn page(&mut self, page: PageId, slot: Option<SlotId>, what: String) {
        self.damage(Image::file_name(page), Some(page), slot, what);
    }

    pub fn leak(&mut self, page: PageId, what: String) {
        self.report.leaked += 1;
        self.add(Problem {
            severity: Severity::Leak,
            file: Image::file_name(page).into(),
            page: Some(page),
            slot: None,
            what,
        });
    }

    fn add(&mut self, problem: Problem) {
        if self.report.problems.len() < PROBLEMS_MAX {
            self.print(format_args!("{problem}"));
            self.report.problems.push(problem);
        }
    }

    /// The folder is being restored: nothing is checked.
    pub fn unfinished(&mut self, what: String) {
        self.print(format_args!("{what}"));
        self.report.unfinished = Some(what);
    }

    pub fn note(&mut self, what: String) {
        self.print(format_args!("note: {what}"));
        self.report.notes.push(what);
    }

    fn print(&mut self, text: fmt::Arguments<'_>) {
        if self.failed.is_ok() {
            self.failed = say!(self.out, "{text}");
        }
    }

    /// Prints the summary.
    pub fn finish(mut self) -> Result<CheckReport> {
        if self.report.unfinished.is_some() {
            self.print(format_args!("nothing was checked: the restore is not finished"));
            return self.failed.map(|()| self.report);
        }
        let c = self.report.counts;
        let unprinted = (self.report.damaged + self.report.leaked).saturating_sub(self.report.problems.len() as u64);
        if unprinted > 0 {
            self.print(format_args!("and {unprinted} more problems"));
        }
        self.print(format_args!(
            "checked {} pages ({} with changes still in the log), {} log records, {} tables, {} trees, {} rows, {} index entries, {} versions ({} bytes of such in rows), {} large values",
            c.pages, c.pages_to_redo, c.log_records, c.tables, c.trees, c.rows, c.index_entries, c.versions, c.version_bytes_in_rows, c.values
        ));
        if c.awaiting_cleaner > 0 {
            self.print(format_args!("{} pages wait for the cleaner", c.awaiting_cleaner));
        }
        let verdict = match (self.report.damaged, self.report.leaked) {
            (0, 0) => "no problems".to_owned(),
            (0, leaked) => format!("nothing is damaged; {leaked} pages are leaked"),
            (damaged, 0) => format!("{damaged} problems"),
            (damaged, leaked) => format!("{damaged} problems; {leaked} pages are leaked"),
        };
        self.print(format_args!("{verdict}"));
        self.failed.map(|()| self.report)
    }
}
