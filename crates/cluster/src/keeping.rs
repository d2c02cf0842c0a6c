//! What a log service that archives does for the archive beside adding runs: it merges them, and gives up what is not promised, on a thread of its own.
//!
//! What is to be done next `resurgam-xlog`'s `keeping.rs` decides, and the steps are the engine's (`keeper.rs`). Both threads work on the archive as it was opened
//! by the claim, so each step is made of the newest manifest that this process knows, and none counts once another one has claimed it.
//!
//! | what happens | what it does |
//! |---|---|
//! | the archive is lost, or is to be claimed anew | ends a merge that is under way at its next page, so that no step of before looks like another process's |
//! | a run is damaged | tries again, less and less often; says so in its log, its status, and to the primary; archiving and giving up go on |
//! | a server of before merges beside | finds that the other one was first, and leaves it to that one more and more |
//! | clones, restores, backups under way | their leases are in the archive: nothing that they need goes |

use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Mutex, MutexGuard};
use resurgam_archive::{Archive, GivenUp};
use resurgam_base::{Error, ErrorKind, Lsn};
use resurgam_engine::{ArchiveKeeper, ArchiveKeeperConfig, ArchiveKept, KeptMerge};
use resurgam_rbio::Keeping as Said;
use resurgam_xlog::{KeepingConfig, Task, TaskDone};

/// A step is waited for so long before the archive is claimed anew: one in a store that does not answer keeps nobody from archiving.
const STEP_ENDS: Duration = Duration::from_secs(10);
/// Between two lines in the log about the same.
const SAY_AGAIN: Duration = Duration::from_secs(60);

/// See the module.
pub(crate) struct Keeper {
    /// None: the primary merges.
    keeper: Option<ArchiveKeeper>,
    /// Held over each step, and while the archive is claimed.
    step: Mutex<()>,
    /// The archive, while it is this one's. A leaf.
    own: Mutex<Option<Arc<Archive>>>,
    said: Mutex<Option<(String, Instant)>>,
}

impl Keeper {
    pub fn new(config: Option<ArchiveKeeperConfig>) -> Self {
        let (own, said) = (Mutex::default(), Mutex::default());
        Self { keeper: config.map(ArchiveKeeper::new), step: Mutex::default(), own, said }
    }

    /// Whether there is anything to do for it.
    pub fn keeps(&self) -> bool {
        self.keeper.is_some()
    }

    pub fn config(&self) -> KeepingConfig {
        let expire = self.keeper.as_ref().and_then(ArchiveKeeper::expire_every);
        KeepingConfig { expire, ..KeepingConfig::default() }
    }

    /// The archive is about to be claimed: no step is under way, or begun, for as long as what is returned is there. None: one does not end.
    pub fn between_steps(&self) -> Option<MutexGuard<'_, ()>> {
        self.ends();
        self.step.try_lock_for(STEP_ENDS)
    }

    /// The archive is this one's.
    pub fn begins(&self, archive: &Arc<Archive>) {
        if let Some(keeper) = &self.keeper {
            keeper.begin();
        }
        *self.own.lock() = Some(Arc::clone(archive));
    }

    /// The archive is not this one's any more.
    pub fn ends(&self) {
        if let Some(archive) = self.own.lock().take() {
            archive.stop_merges();
        }
    }

    pub fn is_own(&self) -> bool {
        self.own.lock().is_some()
    }

    /// Does it; a wait is the caller's.
    pub fn perform(&self, task: Task) -> TaskDone {
        let Some(keeper) = &self.keeper else { return TaskDone::Nothing };
        let _step = self.step.lock();
        let Some(archive) = self.own.lock().clone() else { return TaskDone::Lost };
        let outcome = match task {
            Task::Wait(_) => Ok(TaskDone::Nothing),
            Task::Merge => keeper.merge(&archive).map(|merged| match merged {
                KeptMerge::Merged => TaskDone::Done,
                KeptMerge::Nothing => TaskDone::Nothing,
                KeptMerge::ByAnother => TaskDone::ByAnother,
            }),
            Task::GiveUp => keeper.expire(&archive).map(|_| TaskDone::Done),
        };
        outcome.unwrap_or_else(|error| self.failed(task, &archive, &error))
    }

    fn failed(&self, task: Task, archive: &Arc<Archive>, error: &Error) -> TaskDone {
        if error.kind() == ErrorKind::InUse {
            // Who archives finds out as well.
            self.own.lock().take_if(|own| Arc::ptr_eq(own, archive));
            return TaskDone::Lost;
        }
        let what = match task {
            Task::GiveUp => "what no promised point needs of the archive is not given up now",
            _ => "runs of the archive are not merged now",
        };
        let text = format!("{what}, which is tried again: {error}");
        let mut said = self.said.lock();
        if said.as_ref().is_none_or(|(old, at)| *old != text || at.elapsed() > SAY_AGAIN) {
            tracing::error!("{text}");
            *said = Some((text, Instant::now()));
        }
        TaskDone::Failed
    }

    /// What was done so far, and how that is; none: the primary merges.
    pub fn kept(&self) -> Option<ArchiveKept> {
        let own = self.own.lock().clone();
        self.keeper.as_ref().map(|keeper| keeper.kept(own.as_deref()))
    }
}

/// As it is said to the primary.
pub(crate) fn to_message(kept: Option<ArchiveKept>) -> Said {
    let Some(kept) = kept else { return Said::default() };
    let us = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
    let (merging, merging_of) = kept.merging.unwrap_or_default();
    Said {
        merges: true,
        merged: kept.merges,
        merged_runs: kept.merged_runs,
        merged_bytes: kept.merged_bytes,
        merging,
        merging_of,
        rested_us: us(kept.rested),
        merge_error: kept.merge_error.unwrap_or_default(),
        window_us: kept.recovery_window.map_or(0, us),
        promised: kept.promised.unwrap_or_default(),
        kept_from: kept.kept_from.unwrap_or_default(),
        looked_us: kept.looked_us.and_then(|us| u64::try_from(us).ok()).unwrap_or(0),
        runs: kept.given_up.runs,
        backups: kept.given_up.backups,
        bytes: kept.given_up.bytes,
        held_by: kept.held_by,
        expire_error: kept.expire_error.unwrap_or_default(),
    }
}

/// What was said; none: it does not merge.
pub(crate) fn of_message(said: &Said) -> Option<ArchiveKept> {
    let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
    let lsn = |lsn: Lsn| Some(lsn).filter(|lsn| lsn.is_some());
    said.merges.then(|| ArchiveKept {
        merges: said.merged,
        merged_runs: said.merged_runs,
        merged_bytes: said.merged_bytes,
        merging: (said.merging_of > 0).then_some((said.merging, said.merging_of)),
        rested: Duration::from_micros(said.rested_us),
        merge_error: text(&said.merge_error),
        recovery_window: (said.window_us > 0).then(|| Duration::from_micros(said.window_us)),
        promised: lsn(said.promised),
        kept_from: lsn(said.kept_from),
        looked_us: i64::try_from(said.looked_us).ok().filter(|us| *us > 0),
        given_up: GivenUp { runs: said.runs, backups: said.backups, bytes: said.bytes },
        held_by: said.held_by.clone(),
        expire_error: text(&said.expire_error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_is_what_is_heard() {
        let kept = ArchiveKept {
            merges: 1,
            merged_runs: 2,
            merged_bytes: 3,
            merging: Some((4, 5)),
            rested: Duration::from_micros(6),
            merge_error: Some("a damaged run".into()),
            recovery_window: Some(Duration::from_secs(7)),
            promised: Some(Lsn(8)),
            kept_from: Some(Lsn(9)),
            looked_us: Some(10),
            given_up: GivenUp { runs: 11, backups: 12, bytes: 13 },
            held_by: vec!["a lease".into()],
            expire_error: Some("a place".into()),
        };
        for kept in [Some(kept), Some(ArchiveKept::default()), None] {
            assert_eq!(of_message(&to_message(kept.clone())), kept);
        }
        assert_eq!(of_message(&Said::default()), None, "one of before says nothing");
    }
}
