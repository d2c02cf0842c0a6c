//! Who needs the log, by name: it is truncated up to the lowest of their positions and no further.
//!
//! A checkpoint says what recovery needs. Others read the log at a pace of their own (the archive, a
//! backup): each is a holder, with the lowest LSN that it still needs. What it holds counts as log in use, so
//! that writers are slowed down where a holder lags for long; nothing fails for it.
//!
//! # Invariants
//! 1. A position that was held without a break since it was kept is kept: holding and truncating are
//!    decided under one lock (that of the table of segments).
//! 2. A hold's position never moves back.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use resurgam_base::{Error, ErrorKind, Lsn, Result};

use crate::core::Core;

/// Who holds the log, and from where on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogHolder {
    /// What it is, for operators.
    pub name: String,
    /// The lowest position that it needs.
    pub lsn: Lsn,
}

/// All holds: a handful at most.
#[derive(Default)]
pub(crate) struct Holds {
    next_id: u64,
    all: Vec<(u64, LogHolder)>,
}

impl Holds {
    /// The one that holds most.
    pub(crate) fn lowest(&self) -> Option<&LogHolder> {
        self.all.iter().map(|(_, holder)| holder).min_by_key(|holder| holder.lsn)
    }

    pub(crate) fn list(&self) -> Vec<LogHolder> {
        self.all.iter().map(|(_, holder)| holder.clone()).collect()
    }

    /// `oldest` is the lowest position that is kept.
    pub(crate) fn add(&mut self, name: &str, lsn: Lsn, oldest: Lsn) -> Result<u64> {
        if lsn < oldest {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!("the log from LSN {lsn} on is not kept any more (kept is what is from LSN {oldest} on)"),
            ));
        }
        self.next_id += 1;
        self.all.push((self.next_id, LogHolder { name: name.to_owned(), lsn }));
        Ok(self.next_id)
    }

    pub(crate) fn advance(&mut self, id: u64, lsn: Lsn) {
        if let Some((_, holder)) = self.all.iter_mut().find(|(of, _)| *of == id) {
            holder.lsn = holder.lsn.max(lsn);
        }
    }

    pub(crate) fn remove(&mut self, id: u64) {
        self.all.retain(|(of, _)| *of != id);
    }
}

/// Keeps the log from a position on, until it is dropped. From [`Log::hold`](crate::Log::hold).
#[must_use = "the log is held only as long as this lives"]
pub struct LogHold {
    core: Arc<Core>,
    id: u64,
    lsn: AtomicU64,
}

impl LogHold {
    pub(crate) fn new(core: Arc<Core>, name: &str, lsn: Lsn) -> Result<Self> {
        let id = core.segments.hold(name, lsn)?;
        Ok(Self { core, id, lsn: AtomicU64::new(lsn.0) })
    }

    /// The lowest position that it keeps.
    pub fn lsn(&self) -> Lsn {
        Lsn(self.lsn.load(Ordering::Acquire))
    }

    /// What is below `lsn` is needed no longer. A position below the one held changes nothing.
    pub fn advance(&self, lsn: Lsn) {
        self.core.segments.change_holds(|holds| holds.advance(self.id, lsn));
        self.lsn.fetch_max(lsn.0, Ordering::AcqRel);
    }
}

impl Drop for LogHold {
    fn drop(&mut self) {
        self.core.segments.change_holds(|holds| holds.remove(self.id));
    }
}
