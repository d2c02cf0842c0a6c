//! Whether a log is the one that an archive has, or that of a copy of the database.
//!
//! A data folder that is copied (or a snapshot of one) has the same database id, and both go on from the same position under
//! the same epochs. So positions say nothing: what both wrote behind the point where they parted differs. Each opening of a log draws a
//! random number, which is in all its blocks. The archive knows the last block that it took, and the log must have that very block.
//!
//! # Invariants
//! 1. An archive is added to, and served from, only when the log has its last block. A log that has given that block up while the archive was
//!    not in use cannot show it, and is refused.
//! 2. The archiver holds the log from that block on, not from the one behind it.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resurgam_archive::View;
use resurgam_base::{Error, ErrorKind, Result};
use resurgam_log::{BlockMark, Log, LogReader};
use resurgam_vfs::Vfs;

/// What was looked for in the log.
enum Found {
    Block(BlockMark),
    /// No block begins there, or it is damaged.
    Nothing(Option<Error>),
}

/// That the log that is open has the last block of `view`, which is of the archive `place`.
///
/// # Errors
/// `NotInPrerequisiteState`: it has another one; those of reading the archive.
pub(crate) fn is_of_log(view: &Arc<View>, place: &str, log: &Log) -> Result<()> {
    let Some(last) = view.last_block()? else { return Ok(()) };
    if last.lsn < log.oldest_lsn() {
        // What an earlier version has archived and did not keep: position and epoch say what they can.
        return if last.opening == 0 { Ok(()) } else { Err(cannot_tell(place, &last)) };
    }
    let found = log.follow(last.lsn).and_then(|mut follower| follower.next(Duration::ZERO));
    let found = match found {
        Ok(Some(block)) => Found::Block(block.block().mark()),
        Ok(None) => Found::Nothing(None),
        Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::InvalidParameter) => {
            Found::Nothing(Some(error))
        }
        Err(error) => return Err(error),
    };
    compare(view, place, &last, found)
}

/// The same of a log that nobody has open, in `dir`. True: it has the very block, which no other log has; false: as far as can be told.
///
/// # Errors
/// Those of [`is_of_log`]; those of reading.
pub(crate) fn is_of_folder(
    view: &Arc<View>,
    place: &str,
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    segment_bytes: u64,
    has_segment: impl Fn(u64) -> bool,
) -> Result<bool> {
    let Some(last) = view.last_block()? else { return Ok(false) };
    if !has_segment(last.lsn.0 / segment_bytes.max(1)) {
        return if last.opening == 0 { Ok(false) } else { Err(cannot_tell(place, &last)) };
    }
    let mut reader = LogReader::open(Arc::clone(vfs), dir, segment_bytes, last.lsn, 0)?;
    let found = match reader.next_whole_block() {
        Ok(Some(block)) => Found::Block(block.mark()),
        Ok(None) => Found::Nothing(None),
        Err(error) if error.kind() == ErrorKind::Corrupt => Found::Nothing(Some(error)),
        Err(error) => return Err(error),
    };
    compare(view, place, &last, found).map(|()| last.opening != 0)
}

fn compare(view: &View, place: &str, last: &BlockMark, found: Found) -> Result<()> {
    let why = match found {
        Found::Block(mark) => {
            // Of an earlier version the archive does not know more.
            let known = BlockMark { opening: 0, checksum: 0, ..mark };
            if mark == *last || (last.opening == 0 && last.checksum == 0 && known == *last) {
                return Ok(());
            }
            "another block".to_owned()
        }
        Found::Nothing(None) => "no whole block".to_owned(),
        Found::Nothing(Some(error)) => format!("no whole block ({})", error.message()),
    };
    let run = view.manifest().runs.last().map(|run| run.id);
    let (name, start, end) = run.map_or_else(Default::default, |id| (id.name(), id.start, id.end));
    Err(Error::new(
        ErrorKind::NotInPrerequisiteState,
        format!(
            "{place} is of another history of this database: its last block is at LSN {} (file \"{name}\", LSN {start} to {end}), \
             and the log has {why} there",
            last.lsn
        ),
    )
    .with_detail("The data folder, or the log, is a copy that went on by itself, or the archive was written by such a copy.")
    .with_hint("Put the data folder and the log there that the archive is of, or name an empty place for a new archive."))
}

fn cannot_tell(place: &str, last: &BlockMark) -> Error {
    Error::new(
        ErrorKind::NotInPrerequisiteState,
        format!(
            "the log is not kept from LSN {} on, where the last block of {place} is: it cannot be told whether both are of one history",
            last.lsn
        ),
    )
    .with_hint("The database ran without it. Name an empty place for a new archive; the old one is good up to there.")
}
