//! What the log says about the cleaner, in plain words: a sweep that takes long, what a large
//! one did, and who holds the version store when it stays large.

use std::time::{Duration, Instant};

use resurgam_versions::{FinishedSweep, SweepProgress};

use crate::cleaning::VersionStoreHolders;
use crate::database::Database;

/// A sweep that takes longer says how far it is, and again after as long.
const LONG_SWEEP: Duration = Duration::from_secs(5);
/// A sweep that did at least this much, or took as long as a long one, says so at its end.
const MANY_ROWS: u64 = 100_000;
/// How long the version store must have been large for a warning, and from one to the next.
const LARGE_FOR: Duration = Duration::from_secs(60);

/// What was said last, and since when what.
#[derive(Default)]
pub(crate) struct CleanerEvents {
    progress_said: Option<Instant>,
    finished_said: Option<Instant>,
    /// Pages that the last sweep could not clean.
    skipped: u64,
    large_since: Option<Instant>,
    warned: Option<Instant>,
}

impl CleanerEvents {
    /// Looks at the cleaner, about once a second.
    pub fn look(&mut self, db: &Database) {
        let status = db.cleaner_status();
        if let Some(sweep) = status.current.filter(|sweep| sweep.running >= LONG_SWEEP)
            && self.progress_said.is_none_or(|at| at.elapsed() >= LONG_SWEEP)
        {
            self.progress_said = Some(Instant::now());
            tracing::info!("{}", progress(&sweep));
        }
        if let Some(sweep) = status.last.filter(|sweep| self.finished_said != Some(sweep.ended)) {
            self.finished_said = Some(sweep.ended);
            // Said once, not by each of the sweeps that meet the same pages; and when they are gone.
            let skipped = std::mem::replace(&mut self.skipped, sweep.report.pages_skipped);
            let rows = sweep.report.reverted + sweep.report.stripped + sweep.report.removed;
            if self.skipped > skipped {
                tracing::warn!("{}", finished(&sweep));
            } else if rows >= MANY_ROWS || sweep.took >= LONG_SWEEP || skipped > self.skipped {
                tracing::info!("{}", finished(&sweep));
            }
        }
        let large = status.version_store_bytes > db.large_version_store();
        self.large_since = large.then(|| self.large_since.unwrap_or_else(Instant::now));
        if self.large_since.is_some_and(|since| since.elapsed() >= LARGE_FOR)
            && self.warned.is_none_or(|at| at.elapsed() >= LARGE_FOR)
        {
            self.warned = Some(Instant::now());
            tracing::warn!("{}", holders(&db.version_store_holders()));
        }
    }
}

fn seconds(of: Duration) -> String {
    match of.as_secs() {
        s if s < 120 => format!("{s} s"),
        s if s < 7200 => format!("{} min", s / 60),
        s => format!("{} h", s / 3600),
    }
}

fn progress(sweep: &SweepProgress) -> String {
    let left = sweep.left.map_or(String::new(), |left| format!(", about {} left", seconds(left)));
    let bound = match sweep.pace.pages_per_second {
        0 => "no bound".to_owned(),
        pages => format!("at most {pages} pages a second"),
    };
    format!(
        "the cleaner has visited {} of {} pages with versions ({:.0} %) in {}{left}; pace: {bound} ({})",
        sweep.pages_visited,
        sweep.pages_total,
        sweep.percent,
        seconds(sweep.running),
        sweep.pace.reason
    )
}

fn finished(sweep: &FinishedSweep) -> String {
    let report = &sweep.report;
    let mut text = format!(
        "the cleaner visited {} pages in {:.1} s: {} rows reverted, {} stripped, {} removed; {} aborted transactions \
         forgotten, {} version pages freed",
        report.pages,
        sweep.took.as_secs_f64(),
        report.reverted,
        report.stripped,
        report.removed,
        report.forgotten,
        report.version_pages_freed
    );
    if report.pages_skipped > 0 {
        text += &format!(
            "; {} pages could not be cleaned, and {} aborted transactions not be forgotten: the view resurgam_cleaner \
             says why",
            report.pages_skipped, report.kept
        );
    }
    text
}

/// Who holds the version store.
fn holders(held: &VersionStoreHolders) -> String {
    let mut by = Vec::new();
    if let Some(tx) = &held.transaction {
        by.push(format!("transaction {}, which began to write {} ago", tx.id, seconds(tx.age)));
    }
    if let Some(snapshot) = &held.snapshot {
        by.push(format!(
            "a snapshot that is {} commits behind and held for {}",
            snapshot.commits_behind,
            seconds(snapshot.age)
        ));
    }
    if let Some(aborted) = &held.aborted {
        by.push(format!(
            "{} aborted transactions that await the sweep, the oldest ({}) for {}",
            aborted.ids,
            aborted.oldest,
            seconds(aborted.age)
        ));
    }
    let by = if by.is_empty() { "nobody: it is being freed".to_owned() } else { by.join("; ") };
    format!("the version store takes {} MB, for more than a minute. It is held by {by}", held.bytes >> 20)
}

#[cfg(test)]
mod tests {
    use resurgam_base::{CommitTs, TxId};

    use super::*;
    use crate::cleaning::{HoldingAborted, HoldingSnapshot, HoldingTransaction};

    #[test]
    fn a_warning_names_who_holds_what() {
        let age = Duration::from_secs(150);
        let held = VersionStoreHolders {
            pages: 1 << 17,
            bytes: 1 << 30,
            transaction: Some(HoldingTransaction { id: TxId(17), age, began_us: 0, active: 3 }),
            snapshot: Some(HoldingSnapshot { ts: CommitTs(5), commits_behind: 9, age, began_us: 0, in_use: 2 }),
            aborted: Some(HoldingAborted { ids: 4, oldest: TxId(8), aborted_us: 0, age, pages: 1 }),
        };
        assert_eq!(
            holders(&held),
            "the version store takes 1024 MB, for more than a minute. It is held by transaction 17, which began to \
             write 2 min ago; a snapshot that is 9 commits behind and held for 2 min; 4 aborted transactions that \
             await the sweep, the oldest (8) for 2 min"
        );
        assert!(holders(&VersionStoreHolders::default()).ends_with("nobody: it is being freed"));
    }
}
