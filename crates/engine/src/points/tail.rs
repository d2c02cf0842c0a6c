//! The end of a dead database's log that is not archived yet: archived by the archive's own archiver, under the locks that
//! the database would hold.

use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{Archive, ArchiveConfig, Archiver, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_log::{LogReader, RecordKind};
use resurgam_recovery::{CheckpointState, LogOwner};
use resurgam_vfs::{FileLock, Vfs};
use resurgam_xstore::Store;

use crate::history;

/// Archives what is in the log in `log_dir` from the archive's end on. Returns how many bytes of log that was.
///
/// # Errors
/// `InUse` when the database runs; `InvalidParameter` for the log of another database; `NotInPrerequisiteState` when there is a
/// gap between the two, or the log is of another history; `Corrupt` for a log that is damaged before its end.
pub(crate) fn archive_the_tail(
    vfs: &Arc<dyn Vfs>,
    store: &Arc<dyn Store>,
    view: &Arc<View>,
    log_dir: &Path,
) -> Result<u64> {
    let shown = log_dir.display();
    let names = if vfs.exists(log_dir)? { vfs.list(log_dir)? } else { Vec::new() };
    let number = |name: &String| u64::from_str_radix(name.strip_suffix(".log")?, 16).ok();
    let segments: Vec<u64> = names.iter().filter_map(number).collect();
    let Some(first) = segments.iter().min().copied() else {
        return Err(Error::new(ErrorKind::Io, format!("\"{shown}\" holds no log"))
            .with_hint("Name the folder of the log, or leave --log-dir out: what was not archived is lost then."));
    };
    let _locks = locks(vfs, log_dir)?;
    let database = view.manifest().database;
    let segment_bytes = resurgam_log::segment_bytes_of(&**vfs, log_dir)?
        .ok_or_else(|| Error::corrupt(format!("no file in \"{shown}\" begins as a segment of a log does")))?;
    let from = if view.end() > view.start() { view.end() } else { Lsn(first * segment_bytes) };
    // What is connected with the log's end; a crash may have left older segments.
    let connected = segments.contains(&(from.0 / segment_bytes));
    if from.0 < first * segment_bytes || (!connected && segments.iter().any(|number| *number > from.0 / segment_bytes))
    {
        return Err(Error::new(
            ErrorKind::NotInPrerequisiteState,
            format!(
                "the archive ends at LSN {from}, and the log in \"{shown}\" goes on only at LSN {}: what is between is lost",
                segments.iter().filter(|number| **number * segment_bytes > from.0).min().unwrap_or(&first) * segment_bytes
            ),
        )
        .with_hint("Leave --log-dir out to restore what the archive has."));
    }
    // Before anything is written to the archive.
    let has = |number| segments.contains(&number);
    let whose = whose(vfs, log_dir, segment_bytes, has, from)?;
    let not_its_log = |what: &str| {
        Err(Error::new(ErrorKind::InvalidParameter, format!("\"{shown}\" {what}"))
            .with_hint("Name the folder of the log that the archive is of."))
    };
    if whose.is_some_and(|id| id != database) {
        return not_its_log("holds the log of another database");
    }
    let place = format!("the archive in {}", store.place());
    let is_proven = history::is_of_folder(view, &place, vfs, log_dir, segment_bytes, has)?;
    if whose.is_none() && !is_proven {
        return not_its_log("does not say whose log it is");
    }
    let archive = Archive::open(Arc::clone(store), database, vfs.random_u64().max(1))?;
    let mut archiver = Archiver::new(Arc::clone(&archive), ArchiveConfig::default());
    let epoch = archive.view().manifest().runs.last().map_or(0, |run| run.last_epoch);
    let mut reader = LogReader::open(Arc::clone(vfs), log_dir, segment_bytes, from, epoch)?;
    while let Some(block) = reader.next_whole_block()? {
        archiver.take(&block)?;
    }
    reader.check_end()?;
    archiver.seal()?;
    Ok(reader.end().lsn.0.saturating_sub(from.0))
}

/// Whose log it is: as its folder says, or its last checkpoint, which is always kept.
fn whose(
    vfs: &Arc<dyn Vfs>,
    log_dir: &Path,
    segment_bytes: u64,
    has_segment: impl Fn(u64) -> bool,
    from: Lsn,
) -> Result<Option<[u8; 16]>> {
    if let Some(owner) = LogOwner::read(vfs, log_dir)? {
        return Ok(Some(owner.database_id));
    }
    let mut at = from.0 / segment_bytes;
    while at > 1 && has_segment(at - 1) {
        at -= 1;
    }
    let mut found = None;
    while has_segment(at) {
        let mut reader = LogReader::open(Arc::clone(vfs), log_dir, segment_bytes, Lsn(at * segment_bytes), 0)?;
        while let Some(record) = reader.next()? {
            if record.header.kind == RecordKind::CheckpointData {
                let mut state = CheckpointState::default();
                state.decode_into(record.body)?;
                found = state.identity.map(|identity| identity.boot.database_id).or(found);
            }
        }
        // Its end, or where an older segment was cut.
        at = (reader.end().lsn.0 / segment_bytes).max(at) + 1;
    }
    Ok(found)
}

/// Of the log's folder, and of the data folder that it is in, if it is.
fn locks(vfs: &Arc<dyn Vfs>, log_dir: &Path) -> Result<Vec<Box<dyn FileLock>>> {
    let in_use = |error: Error| match error.kind() {
        ErrorKind::InUse => {
            Error::new(ErrorKind::InUse, format!("the log in \"{}\" is in use: its database runs", log_dir.display()))
                .with_hint("Leave --log-dir out: a server that runs archives its log by itself.")
        }
        _ => error,
    };
    let mut locks = vec![vfs.lock(&log_dir.join("lock")).map_err(in_use)?];
    if let Some(data) = log_dir.parent()
        && vfs.exists(&data.join("control"))?
    {
        locks.push(vfs.lock(&data.join("lock")).map_err(in_use)?);
    }
    Ok(locks)
}
