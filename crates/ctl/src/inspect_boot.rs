//! Printer of what is read first: control file, boot page, double-write area, log segments,
//! and what opening the database would find.

use std::io::Write;

use resurgam_base::{PageId, Result};
use resurgam_page::print;

use crate::control;
use crate::folder::Folder;
use crate::image::Image;
use crate::out::{indented, say};

/// Prints both copies of the control file, the boot page, a summary of the double-write
/// area and the log, and what recovery would do.
///
/// # Errors
/// When the files cannot be opened or `out` not written.
pub fn inspect_boot(folder: &Folder, out: &mut dyn Write) -> Result<()> {
    if let Some(warning) = folder.warning() {
        say!(out, "{warning}")?;
    }
    say!(out, "control file")?;
    match control::read(folder)? {
        None => say!(out, "  MISSING")?,
        Some(copies) => {
            for (i, copy) in copies.iter().enumerate() {
                say!(out, "  copy {i}: {copy}")?;
            }
        }
    }
    let image = Image::open(folder)?;
    say!(out, "boot page")?;
    match image.raw(PageId(0)) {
        Ok((page, _)) => indented(out, "  ", &print::page(&page))?,
        Err(what) => say!(out, "  UNREADABLE: {what}")?,
    }
    say!(out, "data file: {} pages", image.file_pages)?;
    let version = &image.version_file;
    if version.record.number > 0 {
        match (&version.record.path, &version.header) {
            (None, _) => {
                say!(out, "version store: in the data file; file number {} was given up", version.record.number)?
            }
            (Some(_), None) => say!(out, "version store: \"{}\", UNREADABLE", version.path.display())?,
            (Some(_), Some(header)) => say!(
                out,
                "version store: \"{}\", number {}, {} pages, log epoch {}; page n there has id {}",
                version.path.display(),
                header.number,
                version.pages,
                header.epoch,
                format_args!("{} + n", PageId::of_file(u64::from(header.number), 0))
            )?,
        }
    }
    say!(out, "double-write area: {}", image.double_write.summary)?;
    match &image.log {
        None => say!(out, "log: none that can be read")?,
        Some(log) => match (log.segments.first(), log.segments.last()) {
            (Some(first), Some(last)) => say!(
                out,
                "log: {} segments of {} bytes, numbers {first:#x} to {last:#x}",
                log.segments.len(),
                log.segment_bytes
            )?,
            _ => say!(out, "log: no segments")?,
        },
    }
    if let Some(analysis) = &image.analysis {
        say!(out, "recovery")?;
        say!(
            out,
            "  log since the checkpoint: {} records, {} bytes; ends at LSN {} ({})",
            analysis.records,
            analysis.bytes,
            analysis.end.lsn,
            analysis.end_reason
        )?;
        say!(
            out,
            "  next transaction {}  next object {}  pages in use below {}",
            analysis.next_id,
            analysis.next_object,
            analysis.high_water
        )?;
        say!(
            out,
            "  pages to redo {}  aborted transactions {}, of which cut off {}",
            image.pending_pages().count(),
            analysis.aborted.len(),
            analysis.cut_off
        )?;
    }
    for trouble in &image.troubles {
        say!(out, "PROBLEM: {}: {}", trouble.file, trouble.what)?;
    }
    Ok(())
}
