//! The oldest point that a recovery window promises, and which points there are.

use std::sync::Arc;

use resurgam_archive::{ParentRecord, StreamEntry, View};
use resurgam_base::{Lsn, Result, TxId};
use resurgam_log::RecordKind;
use resurgam_recovery::Analysis;

use super::cut::{self, AFTER, Cut};
use super::stream;

/// A point that is promised, and what it takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Promised {
    pub cut: Lsn,
    /// Where its checkpoint begins: the transaction stream is read from there on.
    pub from: Lsn,
    /// The first record that undoes what was unfinished or in doubt; the cut if there is none.
    pub undo_from: Lsn,
    /// Where the first record of the database is.
    pub first_lsn: Lsn,
}

/// The point that a time stands for, or an earlier one; none if the archive has none so old. Times in between that are asked
/// for later never stand for an earlier one: the last COMMIT before the first later one only moves on.
///
/// # Errors
/// `Corrupt`; those of reading.
pub(crate) fn oldest_promised(view: &Arc<View>, us: i64) -> Result<Option<Promised>> {
    if view.end() <= view.start() {
        return Ok(None);
    }
    let lsn = match cut::last_commit_until(view, us)? {
        Ok(lsn) if lsn < view.end() => Some(lsn),
        // Nothing was committed since. When something is, that time will stand for the last COMMIT that there is now, and not
        // for the end of the archive.
        Err(what) if what != AFTER => None,
        Ok(_) | Err(_) => match last_commit(view)? {
            Some(lsn) => cut::last_end(view, lsn)?,
            None => None,
        },
    };
    let Some(lsn) = lsn else { return Ok(None) };
    let Some((checkpoint, last_commit_us)) = cut::last_checkpoint(view, lsn)? else { return Ok(None) };
    let found = Cut { lsn, checkpoint, last_commit_us };
    let analysis = stream::analyse(view, &found)?;
    let undo_from = chains(&analysis).map(|(_, first)| first).min().map_or(lsn, |first| first.min(lsn));
    let first_lsn = Lsn(analysis.identity.map_or(0, |identity| identity.segment_bytes));
    Ok(Some(Promised { cut: lsn, from: checkpoint, undo_from, first_lsn }))
}

/// The time of the last COMMIT; none: there is none.
///
/// # Errors
/// `Corrupt`; those of reading.
pub(crate) fn last_commit_us(view: &Arc<View>) -> Result<Option<i64>> {
    if view.end() <= view.start() {
        return Ok(None);
    }
    Ok(cut::newest(view)?.1)
}

/// What is undone from the log or waits for a decision, and the first record that undoes it (traditional mode).
fn chains(analysis: &Analysis) -> impl Iterator<Item = (TxId, Lsn)> {
    let losers = analysis.losers.iter().map(|(id, loser)| (*id, loser.chain.first));
    let prepared = analysis.prepared.iter().map(|prepared| (prepared.id, prepared.chain.first));
    losers.chain(prepared).filter(|(_, first)| first.is_some())
}

/// Transactions whose undo records may have been left out of the archive: up to and with the record that an image stands for.
pub(super) fn not_undone(view: &View, analysis: &Analysis) -> Vec<TxId> {
    let complete_from = cut::complete_from(view);
    chains(analysis).filter(|(_, first)| *first <= complete_from).map(|(id, _)| id).collect()
}

/// Where the last COMMIT begins.
fn last_commit(view: &Arc<View>) -> Result<Option<Lsn>> {
    cut::backwards(view, view.end(), |from, to| {
        let mut last = None;
        cut::walk(view, from, to, |entry| {
            if let StreamEntry::Record(record) = entry
                && record.header.kind == RecordKind::Commit
            {
                last = Some(record.lsn);
            }
            Ok(true)
        })?;
        Ok(last)
    })
}

/// A point, and the time of a COMMIT there.
pub(crate) type End = (Lsn, Option<i64>);

/// The earliest point and the latest one. `backed_up`: the end of the oldest usable backup; without one the archive alone
/// makes points, if it has every page, or goes on from where those of the database end that `made_of` names.
///
/// # Errors
/// `Corrupt`; those of reading.
pub(crate) fn ends(
    view: &Arc<View>,
    backed_up: Option<Lsn>,
    made_of: Option<&ParentRecord>,
) -> Result<(Option<End>, End)> {
    let newest = cut::newest(view)?;
    let Some(oldest) = cut::oldest(view)? else { return Ok((None, newest)) };
    let from = match backed_up {
        _ if made_of.is_some_and(|record| view.start() <= record.first) || has_every_page(view, newest.0)? => oldest.0,
        None => return Ok((None, newest)),
        Some(end) => end.max(oldest.0),
    };
    let Some((point, time)) = first_point(view, from, Vec::new())? else { return Ok((None, newest)) };
    let Some((checkpoint, last_commit_us)) = cut::last_checkpoint(view, point)? else { return Ok((None, newest)) };
    let analysis = stream::analyse(view, &Cut { lsn: point, checkpoint, last_commit_us })?;
    Ok(match not_undone(view, &analysis) {
        none if none.is_empty() => (Some((point, time)), newest),
        // A later one has begun later.
        unfinished => (first_point(view, point, unfinished)?, newest),
    })
}

/// The first end of a group from `from` on that the archive knows and at which those transactions have ended, and the time of
/// the first COMMIT behind it.
fn first_point(view: &Arc<View>, from: Lsn, mut unfinished: Vec<TxId>) -> Result<Option<End>> {
    let (mut point, mut time) = (None, None);
    cut::walk(view, from, view.end(), |entry| {
        match entry {
            StreamEntry::Block { lsn, .. } if unfinished.is_empty() => _ = point.get_or_insert(*lsn),
            StreamEntry::Record(record) => {
                if record.header.first_of_group && unfinished.is_empty() {
                    point.get_or_insert(record.lsn);
                }
                let kind = record.header.kind;
                if kind == RecordKind::Commit && point.is_some() {
                    time = cut::commit_us(record);
                }
                if matches!(kind, RecordKind::Commit | RecordKind::Abort) {
                    unfinished.retain(|tx| *tx != record.header.tx);
                }
            }
            _ => {}
        }
        Ok(time.is_none())
    })?;
    Ok(match point {
        Some(point) => Some((point, time)),
        None => unfinished.is_empty().then_some((view.end(), None)),
    })
}

/// Whether the archive begins with the database.
fn has_every_page(view: &Arc<View>, end: Lsn) -> Result<bool> {
    let Some((checkpoint, last_commit_us)) = cut::last_checkpoint(view, end)? else { return Ok(false) };
    let analysis = stream::analyse(view, &Cut { lsn: end, checkpoint, last_commit_us })?;
    Ok(analysis.identity.is_some_and(|identity| view.start() <= Lsn(identity.segment_bytes)))
}
