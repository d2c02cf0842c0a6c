//! The checker: is every byte of a data folder what it should be, and every page owned by
//! exactly one thing?
//!
//! | file | what is verified |
//! |---|---|
//! | `mod.rs` | control file, boot page, double-write area, catalog; the order of things |
//! | `log.rs` | the log from the last checkpoint to its end |
//! | `space.rs` | space maps, and each allocated page on its own |
//! | `tree.rs` | all trees that the catalog or the pending frees lead to, their rows and values |
//! | `report.rs` | what was found |
//!
//! Pages are judged as an open would make them (see `image.rs`): a page that is stale
//! because of a crash is not damaged.
//!
//! A folder whose restore is not finished has most of its pages elsewhere: what state it is in is all that is said of it.
//!
//! # What counts as damage
//! Anything that a reader would trip over or that two owners would fight for. Storage that
//! nothing leads to is a [leak](Severity::Leak): it costs space and nothing else. Storage
//! that waits for the cleaner (aborted transactions' values, dropped trees,
//! versions that nobody needs) is neither.

mod log;
mod report;
mod space;
mod tree;

use std::io::Write;

use resurgam_base::Result;
use resurgam_engine::unfinished_restore;
use resurgam_recovery::ControlCopy;

use crate::catalog;
use crate::control;
use crate::folder::Folder;
use crate::image::Image;
use crate::out::say;

use report::Reporter;
pub use report::{CheckProgress, CheckReport, Counts, Problem, Severity};
use space::Space;
use tree::Trees;

/// Checks the whole folder. Each problem is printed to `out` as it is found, a summary at
/// the end; `progress` is called now and then.
///
/// # Errors
/// When the files cannot be opened or `out` not written. Damage is not an error here: it
/// is in the report.
pub fn check(folder: &Folder, progress: &mut dyn FnMut(CheckProgress), out: &mut dyn Write) -> Result<CheckReport> {
    if let Some(warning) = folder.warning() {
        say!(out, "{warning}")?;
    }
    let mut r = Reporter::new(out, progress);
    match unfinished_restore(&folder.vfs, &folder.dir) {
        Ok(None) => {}
        Ok(Some(unfinished)) => {
            r.unfinished(unfinished.to_string());
            return r.finish();
        }
        Err(error) => {
            r.damage("restore", None, None, error.to_string());
            r.unfinished("the folder is being restored; its pages were not checked".into());
            return r.finish();
        }
    }
    r.progress("log", 0, 0);
    control_copies(folder, &mut r)?;
    let image = Image::open(folder)?;
    for trouble in &image.troubles {
        r.damage(trouble.file, None, None, trouble.what.clone());
    }
    if image.double_write.unusable {
        r.note(format!(
            "double-write area: {}: its last batch was never completely written",
            image.double_write.summary
        ));
    }
    match &image.analysis {
        Some(analysis) => {
            r.report.counts.pages_to_redo = image.pending_pages().count() as u64;
            if analysis.cut_off > 0 {
                r.note(format!("{} transactions had not ended; they count as aborted", analysis.cut_off));
                if !analysis.losers.is_empty() {
                    r.note(format!(
                        "{} of them are yet to be undone from the log (traditional mode): rows are shown as they left them; the next start undoes them",
                        analysis.losers.len()
                    ));
                }
            }
            if !analysis.prepared.is_empty() {
                r.note(format!(
                    "{} transactions are prepared, and neither committed nor rolled back: rows are shown as they left them",
                    analysis.prepared.len()
                ));
            }
            log::check(&image, &mut r);
        }
        None => {
            r.note("without the log since the last checkpoint pages are judged as they are in the data file".into())
        }
    }
    let mut space = Space::default();
    space.check(&image, &mut r);
    let catalog = catalog::load(&image);
    for problem in &catalog.problems {
        let (page, slot) = problem.at.map_or((None, None), |(page, slot)| (Some(page), slot));
        let said = slot.is_none() && page.is_some_and(|page| space.is_unreadable(page));
        if !said {
            r.damage("data", page, slot, format!("catalog: {}", problem.what));
        }
    }
    r.report.counts.tables = catalog.tables.values().filter(|entry| entry.has_rows()).count() as u64;
    if image.boot.is_some() {
        let mut trees = Trees::new(&image, &catalog, &mut space, &mut r);
        trees.check();
        space.leaks(&image, &mut r);
    } else {
        r.note("without the boot page no tree can be found; which pages are in use was not checked".into());
    }
    r.finish()
}

/// One copy of the control file may be torn; what matters is that the other is whole.
fn control_copies(folder: &Folder, r: &mut Reporter<'_>) -> Result<()> {
    for (i, copy) in control::read(folder)?.iter().flatten().enumerate() {
        if matches!(copy, ControlCopy::Damaged(_)) {
            r.note(format!("control file: copy {i} {copy}; harmless while the other copy is intact"));
        }
    }
    Ok(())
}
