//! The log from the last checkpoint to its end: blocks and groups (by the log's own
//! reader), that every page record can be read, that each page's chain of records is
//! unbroken, and that what stands at the end is an end and not a hole.
//!
//! Memory: one position for every page that has a record.

use std::collections::HashMap;
use std::sync::Arc;

use resurgam_base::{Lsn, PageId, Result};
use resurgam_log::{LogReader, RecordRef};
use resurgam_page::op;
use resurgam_versions::RowUndo;

use super::report::Reporter;
use crate::image::Image;

const PROGRESS_RECORDS: u64 = 65_536;

pub(crate) fn check(image: &Image, r: &mut Reporter<'_>) {
    let (Some(control), Some(log)) = (&image.control, &image.log) else { return };
    let file_of = |lsn: Lsn| format!("log/{}", log.file_name(lsn));
    let reader =
        LogReader::open(Arc::clone(&image.folder.vfs), log.dir(), control.segment_bytes, control.checkpoint, 0);
    let mut reader = match reader {
        Ok(reader) => reader,
        Err(error) => return r.damage("log", None, None, error.to_string()),
    };
    let mut last: HashMap<PageId, Lsn> = HashMap::new();
    let mut records = 0;
    loop {
        match reader.next() {
            Ok(Some(record)) => {
                for what in one(&record, &mut last) {
                    r.damage(&file_of(record.lsn), None, None, format!("record at LSN {}: {what}", record.lsn));
                }
            }
            Ok(None) => break,
            Err(error) => {
                r.damage("log", None, None, error.to_string());
                break;
            }
        }
        records += 1;
        if u64::is_multiple_of(records, PROGRESS_RECORDS) {
            r.progress("log", records, 0);
        }
    }
    r.report.counts.log_records = records;
    if let Err(error) = reader.check_end() {
        r.damage("log", None, None, error.to_string());
    }
}

/// What is wrong with one record.
fn one(record: &RecordRef<'_>, last: &mut HashMap<PageId, Lsn>) -> Vec<String> {
    let mut found = Vec::new();
    let h = &record.header;
    if h.prev_tx >= record.lsn {
        found.push(format!(
            "the record before it of transaction {} is said to be at LSN {}, behind it",
            h.tx, h.prev_tx
        ));
    }
    if let Err(error) = RowUndo::of_record(h, record.body) {
        found.push(format!("transaction {}: {}", h.tx, error.message()));
    }
    if !h.kind.is_of_page() {
        return found;
    }
    if h.page.is_none() {
        found.push("a change of no page".into());
    }
    if let Some(Err(error)) = op::decode(record.body).find(Result::is_err) {
        found.push(format!("page {}: {}", h.page, error.message()));
    }
    if h.prev_page >= record.lsn {
        found.push(format!("the record before it of page {} is said to be at LSN {}, behind it", h.page, h.prev_page));
    }
    if let Some(before) = last.insert(h.page, record.lsn)
        && h.prev_page != before
        && h.prev_page.is_some()
    {
        found.push(format!("the record before it of page {} is at LSN {before}, it says {}", h.page, h.prev_page));
    }
    found
}
