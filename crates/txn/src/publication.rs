//! The order of commits, and when snapshots see them: see the crate's page for the two moments of a commit.
//!
//! # Invariants
//! 1. Commits get their times in the order in which their records are appended: under one mutex.
//! 2. They become visible in that order. One that has to be durable holds back all that were decided after it.
//! 3. Snapshots of writers see a commit as soon as it is decided, but for one that waits to be revealed and what was
//!    decided after it.
//! 4. Once the log is durable up to a commit, and what waits to be revealed before it has been, snapshots see it,
//!    without anybody's doing anything more.
//!
//! 4 without ever waiting for the mutex, whose holder may be waiting for the log: who finds it held leaves the work
//! to its holder, who looks at how far the log is durable once more after giving it back.
//!
//! `models/tests/publication.rs` holds it against all of this, with bugs planted in this very text.

use std::collections::VecDeque;
use std::sync::Arc;

use resurgam_base::{CommitTs, Lsn, Result};

use crate::snapshot::Snapshots;
use crate::sync::{AtomicU64, Mutex, Ordering, fence, yield_now};

/// When snapshots see a commit. They see commits in the order of the log: none before those that
/// were decided before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Visible {
    /// Whether durable or not, as soon as what was decided before it is visible.
    AtOnce,
    /// When it is durable.
    WhenDurable,
    /// When `reveal` is called, after it is durable. Later commits wait for it.
    WhenRevealed,
}

/// What has been decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Commit {
    /// End of its group in the log: durable there, it is durable.
    pub end: Lsn,
    /// Snapshots see it once the log is durable up to here and what waits to be revealed up to here
    /// has been: its own end, that of the last one before it which has to be durable, or nothing if
    /// they see it already.
    pub seen_from: Option<Lsn>,
}

struct Commits {
    last: u64,
    /// Those in the queue that wait to be revealed.
    gated: usize,
    /// Decided, not yet visible, in order.
    queue: VecDeque<Decided>,
}

struct Decided {
    /// End of the commit's group in the log.
    end: Lsn,
    ts: CommitTs,
    visible: Visible,
}

impl Decided {
    /// Becomes visible by [`Publication::reveal`] only.
    fn is_gated(&self) -> bool {
        self.visible == Visible::WhenRevealed
    }
    /// Whether it may be seen while the log is durable up to `lsn`, given that those before it are.
    fn may_be_seen(&self, lsn: Lsn) -> bool {
        match self.visible {
            Visible::AtOnce => true,
            Visible::WhenDurable => self.end <= lsn,
            Visible::WhenRevealed => false,
        }
    }
}

/// The commits of a database.
pub(crate) struct Publication {
    commits: Mutex<Commits>,
    /// The log is durable below this.
    durable: AtomicU64,
    snapshots: Arc<Snapshots>,
}

impl Publication {
    /// The first commit gets the time after `last`.
    pub fn new(snapshots: Arc<Snapshots>, last: CommitTs) -> Self {
        let commits = Commits { last: last.0, gated: 0, queue: VecDeque::new() };
        Self { commits: Mutex::new(commits), durable: AtomicU64::new(0), snapshots }
    }

    /// Decides a commit: `append` puts its record into the log and returns the end of its group; then `mark` is
    /// given its time, before anybody can see it.
    ///
    /// # Errors
    /// Those of `append`: nothing is decided.
    pub fn decide(
        &self,
        visible: Visible,
        append: impl FnOnce() -> Result<Lsn>,
        mark: impl FnOnce(CommitTs),
    ) -> Result<Commit> {
        let commit = {
            let mut commits = self.commits.lock();
            let end = match append() {
                Ok(end) => end,
                Err(error) => {
                    drop(commits);
                    self.publish_durable();
                    return Err(error);
                }
            };
            commits.last += 1;
            let ts = CommitTs(commits.last);
            mark(ts);
            commits.queue.push_back(Decided { end, ts, visible });
            commits.gated += usize::from(visible == Visible::WhenRevealed);
            self.publish_to_writers(&commits);
            self.publish(&mut commits);
            let waits_for = commits.queue.iter().rev().find(|decided| decided.visible != Visible::AtOnce);
            Commit { end, seen_from: waits_for.map(|decided| decided.end) }
        };
        self.publish_durable();
        Ok(commit)
    }

    /// Makes the commit that ends at `end`, decided as [`Visible::WhenRevealed`] and durable
    /// since, visible: `change` is given the step that does it, and must take it.
    pub fn reveal<R>(&self, end: Lsn, change: impl FnOnce(&dyn Fn()) -> R) -> R {
        let result = loop {
            let mut commits = self.commits.lock();
            self.publish(&mut commits);
            match commits.queue.front() {
                Some(first) if first.end < end => {
                    // Another one that waits to be revealed, by a thread that is about to.
                    drop(commits);
                    yield_now();
                }
                front => {
                    let ts = front.filter(|d| d.end == end).map(|d| d.ts);
                    let result = change(&|| ts.into_iter().for_each(|ts| self.snapshots.publish(ts)));
                    if ts.is_some() {
                        commits.queue.pop_front();
                        commits.gated -= 1;
                        self.publish_to_writers(&commits);
                    }
                    break result;
                }
            }
        };
        self.publish_durable();
        result
    }

    /// Tells that the log is durable below `lsn`: commits up to there become visible, at the
    /// latest when the commit that is being decided now is. Never waits: whoever decides a
    /// commit may be waiting for the log itself.
    pub fn note_durable(&self, lsn: Lsn) {
        self.durable.fetch_max(lsn.0, Ordering::SeqCst);
        self.publish_durable();
    }

    /// As [`Publication::note_durable`]; commits up to `lsn` are visible when it returns.
    pub fn on_durable(&self, lsn: Lsn) {
        self.durable.fetch_max(lsn.0, Ordering::SeqCst);
        loop {
            let mut commits = self.commits.lock();
            self.publish(&mut commits);
            let behind = commits.queue.front().is_some_and(|first| first.is_gated() && first.end <= lsn);
            drop(commits);
            if !behind {
                break;
            }
            // Its committer, which waited for the same sync, is about to reveal it.
            yield_now();
        }
        self.publish_durable();
    }

    /// How far the log has to be durable for everything that is decided by now to be visible; nothing: it is.
    pub fn seen_from(&self) -> Option<Lsn> {
        let commits = self.commits.lock();
        let end = commits.queue.iter().rev().find(|decided| decided.visible != Visible::AtOnce).map(|last| last.end);
        drop(commits);
        self.publish_durable();
        end
    }

    /// The newest decided commit.
    pub fn decided(&self) -> CommitTs {
        let last = self.commits.lock().last;
        self.publish_durable();
        CommitTs(last)
    }

    /// Whoever cannot get the mutex leaves the work to its holder: everyone who held it calls
    /// this afterwards.
    fn publish_durable(&self) {
        loop {
            let seen = self.durable.load(Ordering::SeqCst);
            match self.commits.try_lock() {
                Some(mut commits) => self.publish(&mut commits),
                None => {
                    fence(Ordering::SeqCst);
                    // Held, and the holder has not let go before our note: it will look.
                    if self.commits.is_locked() {
                        return;
                    }
                    continue;
                }
            }
            fence(Ordering::SeqCst);
            if self.durable.load(Ordering::SeqCst) == seen {
                return;
            }
        }
    }

    /// What writers see from now on. A commit that waits to be revealed is not among it: what comes with it (definitions) they would not have.
    fn publish_to_writers(&self, commits: &Commits) {
        let gated = (commits.gated > 0).then(|| commits.queue.iter().find(|decided| decided.is_gated())).flatten();
        let newest = gated.map_or(commits.last, |gated| gated.ts.0 - 1);
        self.snapshots.publish_to_writers(CommitTs(newest));
    }

    fn publish(&self, commits: &mut Commits) {
        let lsn = Lsn(self.durable.load(Ordering::SeqCst));
        let mut newest = None;
        while let Some(first) = commits.queue.front() {
            if !first.may_be_seen(lsn) {
                break;
            }
            newest = Some(first.ts);
            commits.queue.pop_front();
        }
        if let Some(ts) = newest {
            self.snapshots.publish(ts);
        }
    }
}
