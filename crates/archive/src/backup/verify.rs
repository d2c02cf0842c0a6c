//! Which backups there are; reading all of one; deleting one.

use std::fmt;
use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_xstore::{Store, StoreErrorKind};

use super::Backup;
use super::format::{self, PageKind, SEGMENT_PAGES, segment_page};
use super::summary::{BackupSummary, FOLDER};
use crate::frame::damaged;

fn names(store: &dyn Store, ending: &str) -> Result<Vec<String>> {
    let name = |object: &String| Some(object.strip_prefix(FOLDER)?.strip_suffix(ending)?.to_owned());
    Ok(store.list(FOLDER)?.iter().filter_map(name).collect())
}

/// Names of backups that exist.
pub(crate) fn complete_names(store: &dyn Store) -> Result<Vec<String>> {
    names(store, ".backup")
}

/// Names of backups that were begun and do not exist.
pub(crate) fn begun_names(store: &dyn Store) -> Result<Vec<String>> {
    let begun = names(store, ".begun")?;
    let complete = complete_names(store)?;
    Ok(begun.into_iter().filter(|name| !complete.contains(name)).collect())
}

/// A backup of a place.
#[derive(Clone, Debug)]
pub struct BackupEntry {
    pub name: String,
    /// What it is; an error when the summary cannot be read.
    pub summary: Result<BackupSummary>,
    /// False: it was begun, and is under way or was interrupted.
    pub complete: bool,
}

/// The backups of a place, by name: the oldest first.
///
/// # Errors
/// Those of the store.
pub fn list_backups(store: &Arc<dyn Store>) -> Result<Vec<BackupEntry>> {
    let mut all = Vec::new();
    for name in complete_names(&**store)? {
        let summary = Backup::open(store, &name).map(|backup| backup.summary().clone());
        all.push(BackupEntry { name, summary, complete: true });
    }
    for name in begun_names(&**store)? {
        let summary = store
            .get(&BackupSummary::begun_object_of(&name), super::summary::SUMMARY_BYTES_MAX)
            .map_err(Error::from)
            .and_then(|bytes| BackupSummary::decode(&bytes, &name, true));
        all.push(BackupEntry { name, summary, complete: false });
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(all)
}

#[cfg(test)]
thread_local! {
    /// A bug that tests plant: that the summary is deleted is not durable before its parts go.
    pub(crate) static UNSETTLED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

fn planted_unsettled() -> bool {
    #[cfg(test)]
    return UNSETTLED.get();
    #[cfg(not(test))]
    false
}

/// Says that a backup that is about to be deleted was begun, so that parts of which some are left are found again by the next one.
pub(crate) fn keep_begun(store: &Arc<dyn Store>, name: &str) -> Result<()> {
    let Ok(backup) = Backup::open(store, name) else { return Ok(()) };
    let begun_object = BackupSummary::begun_object_of(name);
    // It must not pass for one that can be gone on with: it is of long ago, and nobody's.
    let begun = BackupSummary { started_us: 0, identity: Vec::new(), ..backup.summary().clone() }.encode(true)?;
    match store.put(&begun_object, &begun) {
        // Of when it was made. The summary is still there, so that it counts for nothing meanwhile.
        Err(error) if error.kind() == StoreErrorKind::Exists => {
            store.delete(&begun_object)?;
            Ok(store.put(&begun_object, &begun)?)
        }
        outcome => Ok(outcome?),
    }
}

/// Deletes a backup: first what makes it one, durably, then its parts. It may be called again after an error.
///
/// # Errors
/// Those of the store.
pub fn delete_backup(store: &Arc<dyn Store>, name: &str) -> Result<()> {
    keep_begun(store, name)?;
    let folder = FOLDER.trim_end_matches('/');
    store.delete(&BackupSummary::object_of(name))?;
    // Power that is lost must not bring it back, when parts of it are gone.
    if !planted_unsettled() {
        store.sync_deletes(folder)?;
    }
    let parts = format::part_folder(name);
    for part in store.list(&parts)? {
        store.delete(&part)?;
    }
    store.sync_deletes(parts.trim_end_matches('/'))?;
    store.delete(&BackupSummary::begun_object_of(name))?;
    Ok(store.sync_deletes(folder)?)
}

/// What reading all of a backup has found.
#[derive(Clone, Debug, Default)]
pub struct BackupReport {
    pub name: String,
    pub parts: u64,
    pub segments: u64,
    pub pages: u64,
    pub bytes: u64,
    /// Pages that were damaged already when the backup was made.
    pub damaged: Vec<PageId>,
    /// What is wrong with the backup, by object, offset and segment.
    pub problems: Vec<String>,
}

impl fmt::Display for BackupReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, parts, segments, pages, bytes, .. } = self;
        write!(f, "backup {name}: {pages} pages in {segments} segments and {parts} parts, {bytes} bytes")?;
        self.problems.iter().try_for_each(|problem| write!(f, "\n{problem}"))
    }
}

/// Reads every byte of a backup.
///
/// # Errors
/// When it cannot be opened at all; what is wrong inside is in the report.
pub fn verify_backup(store: &Arc<dyn Store>, name: &str) -> Result<BackupReport> {
    let backup = Backup::open(store, name)?;
    let mut report = BackupReport { name: name.to_owned(), ..BackupReport::default() };
    let mut pages: Vec<PageBuf> = (0..SEGMENT_PAGES).map(|_| PageBuf::zeroed()).collect();
    for number in 0..backup.summary.parts.len() {
        if let Err(error) = verify_part(&backup, number, &mut pages, &mut report) {
            report.problems.push(error.message().to_owned());
        }
    }
    Ok(report)
}

fn verify_part(backup: &Backup, number: usize, pages: &mut [PageBuf], report: &mut BackupReport) -> Result<()> {
    let part = backup.part(number)?;
    report.parts += 1;
    report.bytes += part.len;
    let mut at = format::HEADER_BYTES as u64;
    let (mut least, mut images) = (None, 0u64);
    for place in &part.places {
        if place.at != at {
            return Err(damaged(&*backup.store, &part.name, at, "something is between two segments"));
        }
        let first = segment_page(place.key);
        // Not an error for the whole part: the next segments may be well.
        let outcome = part.segment(place, |segment, frame| {
            segment.fill(0, pages);
            let mut here = 0u32;
            for (i, page) in pages.iter().enumerate() {
                let id = PageId(first.0 + i as u64);
                match segment.kind(i) {
                    PageKind::Zero => {}
                    PageKind::Damaged => report.damaged.push(id),
                    PageKind::Image => {
                        here += 1;
                        let bad = |what: String| {
                            damaged(&*backup.store, &part.name, place.at, &format!("segment {}: {what}", place.key))
                        };
                        page.verify(id).map_err(|fault| bad(fault.to_string()))?;
                        if page.lsn() >= backup.summary.end {
                            let (lsn, end) = (page.lsn(), backup.summary.end);
                            return Err(bad(format!("page {id} is as of LSN {lsn}, the backup ends at LSN {end}")));
                        }
                    }
                }
            }
            if here != frame.items {
                return Err(damaged(&*backup.store, &part.name, place.at, "not as many pages as the frame says"));
            }
            Ok((frame.next, here))
        });
        let next = part.places.partition_point(|other| other.at <= place.at);
        at = part.places.get(next).map_or(part.trailer.index_at, |next| next.at);
        match outcome {
            Ok((end, _)) if end != at => {
                return Err(damaged(&*backup.store, &part.name, end, "something is between two segments"));
            }
            Ok((_, here)) => {
                report.segments += 1;
                report.pages += u64::from(here);
                images += u64::from(here);
            }
            Err(error) if error.kind() == ErrorKind::Io => return Err(error),
            Err(error) => report.problems.push(error.message().to_owned()),
        }
        least = Some(least.map_or(place.lsn, |least: resurgam_base::Lsn| least.min(place.lsn)));
    }
    if at != part.trailer.index_at {
        return Err(damaged(&*backup.store, &part.name, at, "something is between the segments and the index"));
    }
    if least.is_some_and(|least| least < part.trailer.least) {
        return Err(damaged(
            &*backup.store,
            &part.name,
            part.trailer.at,
            "a segment needs older log than the part says",
        ));
    }
    if report.problems.is_empty() && images != u64::from(part.trailer.images) {
        return Err(damaged(&*backup.store, &part.name, part.trailer.at, "not as many pages as the part says"));
    }
    Ok(())
}
