//! The archive against the log that it is of, record by record.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{Archive, History, StreamEntry};
use resurgam_engine::{Lsn, PageId};
use resurgam_log::{LogReader, OwnedRecord, RecordKind};
use resurgam_page::{PageOp, op};
use resurgam_vfs::Vfs;
use resurgam_xstore::FolderStore;

/// What must be the same of a record.
type Record = (Lsn, RecordKind, [u64; 5], [bool; 2], Vec<u8>);

fn of(record: &OwnedRecord) -> Record {
    let h = &record.header;
    let numbers = [h.object.0.into(), h.tx.0, h.prev_tx.0, h.page.0, h.prev_page.0];
    (record.lsn, h.kind, numbers, [h.first_of_group, h.last_of_group], record.body.clone())
}

/// Compares the archive at `place` with the whole log of the database in `dir`, which must be kept from its beginning on
/// (in `log_dir`, if it has a folder of its own) and archived to its end. Returns how many records are in both, how many runs, and how pages
/// were made anew; `None`: the log's beginning is not there any more.
pub fn compare(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    log_dir: Option<&Path>,
    segment_bytes: u64,
    place: &Path,
) -> Result<Option<(u64, usize, Chains)>, String> {
    let failed = |what: &str, error: &dyn std::fmt::Debug| format!("archive, {what}: {error:?}");
    let log = log_dir.map_or_else(|| dir.join("log"), Path::to_path_buf);
    let mut reader = LogReader::open(Arc::clone(vfs), &log, segment_bytes, Lsn(segment_bytes), 0)
        .map_err(|e| failed("opening the log", &e))?;
    let mut logged = Vec::new();
    while let Some(record) = reader.next().map_err(|e| failed("reading the log", &e))? {
        logged.push(of(&record.to_owned()));
    }
    let log_end = reader.end().lsn;
    if logged.is_empty() {
        return Ok(None);
    }
    let store = FolderStore::open(Arc::clone(vfs), place).map_err(|e| failed("its store", &e))?;
    let view = Archive::open_view(Arc::new(store), None).map_err(|e| failed("opening it", &e))?;
    let view = view.ok_or("there is no archive")?;
    // The log's own thread may write a marker after the last that a close archives: it says nothing.
    let end = view.end();
    let left = logged.iter().position(|(lsn, ..)| *lsn >= end).map_or(Vec::new(), |at| logged.split_off(at));
    let all = view.start() == Lsn(segment_bytes) && end <= log_end && left.iter().all(|of| of.1 == RecordKind::Note);
    if !all {
        return Err(format!(
            "the archive is of LSN {} to {end}, the log of {segment_bytes} to {log_end}",
            view.start()
        ));
    }
    let mut archived = Vec::new();
    let mut scan = view
        .scan(PageId(0)..PageId(u64::MAX), Lsn::NONE, Lsn(end.0 - 1), History::All)
        .map_err(|e| failed("scanning pages", &e))?;
    while scan.next_page().map_err(|e| failed("the next page", &e))?.is_some() {
        while let Some(record) = scan.next_record().map_err(|e| failed("the next record of a page", &e))? {
            archived.push(of(&record.to_owned()));
        }
    }
    let mut stream = view.stream(view.start()).map_err(|e| failed("the stream", &e))?;
    while let Some(entry) = stream.next_entry().map_err(|e| failed("the next of the stream", &e))? {
        if let StreamEntry::Record(record) = entry {
            archived.push(of(&record.to_owned()));
        }
    }
    archived.sort_by_key(|record| record.0);
    if let Some(at) = (0..archived.len().max(logged.len())).find(|at| archived.get(*at) != logged.get(*at)) {
        return Err(format!(
            "record {at} of the archive is {:?}, of the log {:?} ({} and {} records)",
            archived.get(at),
            logged.get(at),
            archived.len(),
            logged.len()
        ));
    }
    Ok(Some((logged.len() as u64, view.manifest().runs.len(), Chains::of(&logged))))
}

/// The records of pages behind those that make them anew.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chains {
    /// The most that one page has between two of those.
    pub longest: u64,
    /// Images of pages.
    pub images: u64,
}

impl Chains {
    fn of(logged: &[Record]) -> Self {
        let (mut chains, mut since) = (Self::default(), HashMap::<u64, u64>::new());
        for (_, kind, [_, _, _, page, _], _, body) in logged {
            if !kind.is_of_page() {
                continue;
            }
            let since = since.entry(*page).or_default();
            match op::decode(body).next() {
                Some(Ok(PageOp::Image(_))) => (*since, chains.images) = (0, chains.images + 1),
                Some(Ok(PageOp::Format { .. })) => *since = 0,
                _ => *since += 1,
            }
            chains.longest = chains.longest.max(*since);
        }
        chains
    }
}
