//! Where a point in time cuts the log, and which checkpoint its analysis begins with; found in the transaction stream.
//!
//! A cut is the end of a group: everything below it counts, nothing from it on. The stream knows where each block begins and
//! where each record without a page is. Between two ends of groups that it does not know, there are page records only: no
//! transaction ends there, so the states at both ends have the same rows, and the earlier end that is known stands for both.
//!
//! | asked for | the cut |
//! |---|---|
//! | latest | the end of the archive |
//! | an LSN | the last known end of a group at or before it |
//! | a time | behind the last COMMIT before the first one that is later (clocks go back: what was committed after a later one does not count) |

use std::sync::Arc;

use resurgam_archive::{StreamEntry, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_log::{RecordKind, RecordRef};

use super::RestorePoint;
use super::time::show_time;

/// Bytes of log looked at first when something is looked for backwards; doubled until it is found.
const WINDOW: u64 = 2 << 20;

/// In words, where a time is that no COMMIT of the archive is later than.
pub(super) const AFTER: &str = "after the newest point";

/// See the module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cut {
    pub lsn: Lsn,
    /// Where the last checkpoint begins that is finished before the cut.
    pub checkpoint: Lsn,
    /// The time of the last COMMIT before the cut; none if none was near.
    pub last_commit_us: Option<i64>,
}

/// Finds the cut.
///
/// # Errors
/// `NotInPrerequisiteState` for a point that is not in the archive, with both ends of what is.
pub(crate) fn find(view: &Arc<View>, point: RestorePoint) -> Result<Cut> {
    let end = view.end();
    if end <= view.start() {
        return Err(Error::new(ErrorKind::NotInPrerequisiteState, "the archive is empty: nothing was archived yet"));
    }
    let lsn = match point {
        RestorePoint::Latest => end,
        RestorePoint::Lsn(lsn) if lsn > end => {
            return Err(outside(view, &format!("LSN {lsn} is after the newest point")));
        }
        RestorePoint::Lsn(lsn) => match last_end(view, lsn)? {
            Some(lsn) => lsn,
            None => return Err(outside(view, &format!("LSN {lsn} is before the oldest point"))),
        },
        RestorePoint::Time(us) => match last_commit_until(view, us)? {
            Ok(lsn) => lsn,
            Err(what) => return Err(outside(view, &format!("{} is {what}", show_time(us)))),
        },
    };
    let complete_from = complete_from(view);
    let found = if lsn < complete_from { None } else { last_checkpoint(view, lsn)? };
    let Some((checkpoint, last_commit_us)) = found else {
        let what = match point {
            RestorePoint::Time(us) => show_time(us),
            _ => format!("LSN {lsn}"),
        };
        return Err(outside(view, &format!("{what} is before the oldest point")));
    };
    Ok(Cut { lsn, checkpoint, last_commit_us })
}

/// States of pages before this LSN may not be reproducible.
pub(super) fn complete_from(view: &View) -> Lsn {
    view.manifest().runs.iter().map(|run| run.complete_from).max().unwrap_or_default()
}

/// The error for a point that the archive does not have.
pub(super) fn outside(view: &Arc<View>, what: &str) -> Error {
    let error = Error::new(ErrorKind::NotInPrerequisiteState, format!("this point cannot be restored: {what}"));
    let said = |at: Option<(Lsn, Option<i64>)>| match at {
        Some((lsn, Some(us))) => format!("LSN {lsn} (COMMIT of {})", show_time(us)),
        Some((lsn, None)) => format!("LSN {lsn}"),
        None => "none".to_owned(),
    };
    match (oldest(view), newest(view)) {
        (Ok(None), _) => {
            error.with_detail("No checkpoint in the archive is whole: there is no point that could be restored yet.")
        }
        (Ok(oldest), Ok(newest)) => error.with_detail(format!(
            "The archive has points from {} to {}; the newest one is \"latest\".",
            said(oldest),
            said(Some(newest))
        )),
        _ => error,
    }
}

/// The oldest point: the end of the first finished checkpoint, and the first COMMIT behind it.
pub(super) fn oldest(view: &Arc<View>) -> Result<Option<(Lsn, Option<i64>)>> {
    let (start, complete_from) = (view.start(), complete_from(view));
    let mut found: Option<(Lsn, Option<i64>)> = None;
    walk(view, start, view.end(), |entry| {
        if let StreamEntry::Record(record) = entry {
            match record.header.kind {
                RecordKind::CheckpointEnd
                    if found.is_none() && begin_of(record).is_some_and(|begin| begin >= start) =>
                {
                    found = Some((end_of(record).max(complete_from), None));
                }
                RecordKind::Commit => {
                    if let Some((lsn, time)) = found.as_mut()
                        && record.lsn >= *lsn
                    {
                        *time = commit_us(record);
                        return Ok(false);
                    }
                }
                _ => {}
            }
        }
        Ok(true)
    })?;
    Ok(found)
}

pub(super) fn newest(view: &Arc<View>) -> Result<(Lsn, Option<i64>)> {
    let time = backwards(view, view.end(), |from, to| {
        let mut last = None;
        walk(view, from, to, |entry| {
            if let StreamEntry::Record(record) = entry
                && record.header.kind == RecordKind::Commit
            {
                last = commit_us(record);
            }
            Ok(true)
        })?;
        Ok(last)
    })?;
    Ok((view.end(), time))
}

/// Hands out the entries of [`from`, `to`) until it says that it has enough.
pub(crate) fn walk(
    view: &Arc<View>,
    from: Lsn,
    to: Lsn,
    mut take: impl FnMut(&StreamEntry<'_>) -> Result<bool>,
) -> Result<()> {
    let mut stream = view.stream(from)?;
    while let Some(entry) = stream.next_entry()? {
        if entry.lsn() >= to || !take(&entry)? {
            break;
        }
    }
    Ok(())
}

/// Looks in stretches before `end`, each twice as long as the one before, until `look` finds something or the archive's
/// beginning is reached.
pub(super) fn backwards<T>(
    view: &View,
    end: Lsn,
    mut look: impl FnMut(Lsn, Lsn) -> Result<Option<T>>,
) -> Result<Option<T>> {
    let start = view.start();
    let (mut to, mut window) = (end, WINDOW);
    while to > start {
        let from = Lsn(to.0.saturating_sub(window)).max(start);
        if let Some(found) = look(from, to)? {
            return Ok(Some(found));
        }
        (to, window) = (from, window * 2);
    }
    Ok(None)
}

fn end_of(record: &RecordRef<'_>) -> Lsn {
    Lsn(record.lsn.0 + u64::from(record.header.len))
}

pub(super) fn commit_us(record: &RecordRef<'_>) -> Option<i64> {
    record.body.first_chunk::<8>().map(|time| i64::from_le_bytes(*time))
}

fn begin_of(record: &RecordRef<'_>) -> Option<Lsn> {
    record.body.first_chunk::<8>().map(|begin| Lsn(u64::from_le_bytes(*begin)))
}

/// The last known end of a group at or before `lsn`.
pub(super) fn last_end(view: &Arc<View>, lsn: Lsn) -> Result<Option<Lsn>> {
    if lsn == view.end() {
        return Ok(Some(lsn));
    }
    backwards(view, Lsn(lsn.0 + 1), |from, to| {
        let mut last = None;
        walk(view, from, to, |entry| {
            match entry {
                StreamEntry::Block { lsn, .. } => last = Some(*lsn),
                StreamEntry::Record(record) => {
                    if record.header.first_of_group {
                        last = Some(record.lsn);
                    }
                    if record.header.last_of_group && end_of(record) <= lsn {
                        last = Some(end_of(record));
                    }
                }
                StreamEntry::FirstOf { .. } | StreamEntry::Undo { .. } => {}
            }
            Ok(true)
        })?;
        Ok(last)
    })
}

/// Behind the last COMMIT before the first one that is later than `us`; otherwise, in words, where that time is.
pub(super) fn last_commit_until(view: &Arc<View>, us: i64) -> Result<Result<Lsn, &'static str>> {
    // Runs say the latest time of theirs: those before the first one with a later COMMIT are not read.
    let mut from = None;
    for index in 0..view.manifest().runs.len() {
        let run = view.run(index)?;
        let summary = run.summary();
        if (summary.first_commit_us, summary.last_commit_us) != (0, 0) && summary.last_commit_us > us {
            from = Some((run.meta().id.start, run.meta().id.end));
            break;
        }
    }
    let Some((from, to)) = from else {
        return Ok(match newest(view)?.1 {
            // The very last one.
            Some(last) if last == us => Ok(view.end()),
            _ => Err(AFTER),
        });
    };
    let (mut last, mut later) = (None, None);
    walk(view, from, to, |entry| {
        if let StreamEntry::Record(record) = entry
            && record.header.kind == RecordKind::Commit
        {
            if commit_us(record).is_some_and(|time| time > us) {
                later = Some(record.lsn);
                return Ok(false);
            }
            last = Some((record.lsn, end_of(record), record.header.last_of_group));
        }
        Ok(true)
    })?;
    let later = later.ok_or_else(|| Error::corrupt("the times in a run's summary are not those of its COMMITs"))?;
    let last = match last {
        Some(last) => Some(last),
        None => backwards(view, from, |from, to| {
            let mut last = None;
            walk(view, from, to, |entry| {
                if let StreamEntry::Record(record) = entry
                    && record.header.kind == RecordKind::Commit
                {
                    last = Some((record.lsn, end_of(record), record.header.last_of_group));
                }
                Ok(true)
            })?;
            Ok(last)
        })?,
    };
    match last {
        Some((_, end, true)) => Ok(Ok(end)),
        // Its group goes on with page records: the next end that is known.
        Some((lsn, ..)) => {
            let mut next = None;
            walk(view, lsn, later, |entry| {
                next = match entry {
                    StreamEntry::Block { lsn: block, .. } if *block > lsn => Some(*block),
                    StreamEntry::Record(record) if record.header.first_of_group && record.lsn > lsn => Some(record.lsn),
                    _ => None,
                };
                Ok(next.is_none())
            })?;
            Ok(Ok(next.unwrap_or(later)))
        }
        None => Ok(Err("before the oldest point")),
    }
}

/// Where the last checkpoint begins that ends before `cut`, and the time of the last COMMIT before `cut` that is behind it.
pub(super) fn last_checkpoint(view: &Arc<View>, cut: Lsn) -> Result<Option<(Lsn, Option<i64>)>> {
    let mut commit: Option<(Lsn, i64)> = None;
    let begin = backwards(view, cut, |from, to| {
        let mut last = None;
        walk(view, from, to, |entry| {
            if let StreamEntry::Record(record) = entry
                && end_of(record) <= cut
            {
                match record.header.kind {
                    RecordKind::CheckpointEnd => {
                        last = begin_of(record).filter(|begin| *begin >= view.start()).or(last)
                    }
                    RecordKind::Commit => {
                        if commit.is_none_or(|(lsn, _)| lsn < record.lsn)
                            && let Some(us) = commit_us(record)
                        {
                            commit = Some((record.lsn, us));
                        }
                    }
                    _ => {}
                }
            }
            Ok(true)
        })?;
        Ok(last)
    })?;
    Ok(begin.map(|begin| (begin, commit.map(|(_, us)| us))))
}
