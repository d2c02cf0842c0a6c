//! When snapshots see commits (`txn/src/publication.rs`): synchronous, asynchronous and gated ones beside a flusher.
#![allow(dead_code)]

use resurgam_models::{finds, holds, orders, sync};

/// In place of the register of snapshots.
mod snapshot {
    use resurgam_base::CommitTs;

    use crate::sync::{AtomicU64, Ordering};

    /// What is visible, and what writers see if that is more.
    pub struct Snapshots(pub AtomicU64, pub AtomicU64);

    impl Snapshots {
        pub fn publish_to_writers(&self, ts: CommitTs) {
            self.1.fetch_max(ts.0, Ordering::SeqCst);
        }
        pub fn visible_to_writers(&self) -> u64 {
            self.1.load(Ordering::SeqCst).max(self.visible())
        }
        pub fn publish(&self, ts: CommitTs) {
            self.0.fetch_max(ts.0, Ordering::SeqCst);
        }
        pub fn visible(&self) -> u64 {
            self.0.load(Ordering::SeqCst)
        }
    }
}

#[path = "../../crates/txn/src/publication.rs"]
mod publication;

/// A model of the commits of a module: two that have to be durable, two that need not be, one that waits to be
/// revealed, a flusher that syncs twice and then all there is, and somebody who looks.
macro_rules! model {
    ($module:ident) => {{
        use std::sync::Arc;

        use resurgam_base::{CommitTs, Lsn};
        use shuttle::thread;
        use snapshot::Snapshots;
        use sync::{AtomicU64, Mutex, Ordering, yield_now};
        use $module::{Publication, Visible};

        struct World {
            snapshots: Arc<Snapshots>,
            commits: Publication,
            /// The log's end, and up to where it is durable.
            end: AtomicU64,
            durable: AtomicU64,
            /// Times of commits that have to be durable before anybody sees them, and their ends.
            decided: Mutex<Vec<(u64, u64)>>,
            /// The time of the one that waits to be revealed.
            gated: AtomicU64,
            revealed: AtomicU64,
        }

        impl World {
            fn flush(&self) {
                let end = self.end.load(Ordering::SeqCst);
                self.durable.fetch_max(end, Ordering::SeqCst);
                self.commits.note_durable(Lsn(end));
            }
            /// What a snapshot of now sees is durable.
            fn look(&self) {
                let seen = self.snapshots.visible();
                let durable = self.durable.load(Ordering::SeqCst);
                for (ts, end) in self.decided.lock().iter() {
                    assert!(
                        *ts > seen || *end <= durable,
                        "{seen} is seen, the log is durable to {durable}, not {end}"
                    );
                }
            }
            fn commit(&self, visible: Visible) {
                let mut time = 0;
                let append = || Ok(Lsn(self.end.fetch_add(10, Ordering::SeqCst) + 10));
                // Under the order's lock, so that it is noted before anybody can see it.
                let commit = self.commits.decide(visible, append, |ts| {
                    time = ts.0;
                    if visible == Visible::WhenRevealed {
                        self.gated.store(time, Ordering::SeqCst);
                    }
                    if visible != Visible::AtOnce {
                        self.decided.lock().push((ts.0, self.end.load(Ordering::SeqCst)));
                    }
                });
                let commit = commit.expect("appended");
                let gated = self.gated.load(Ordering::SeqCst);
                if visible != Visible::WhenRevealed && (gated == 0 || gated > time) {
                    assert!(self.snapshots.visible_to_writers() >= time, "a writer may have met it, and does not see it");
                }
                match visible {
                    Visible::WhenRevealed => {
                        self.flush();
                        let seen = self.snapshots.visible_to_writers();
                        assert!(seen < time, "it is seen before it is revealed");
                        self.revealed.store(time, Ordering::SeqCst);
                        self.commits.reveal(commit.end, |publish| publish());
                    }
                    _ => {
                        let Some(upto) = commit.seen_from else {
                            assert!(self.snapshots.visible() >= time, "nothing to wait for, and not seen");
                            return;
                        };
                        if visible == Visible::WhenDurable {
                            assert_eq!(upto, commit.end);
                        }
                        while self.durable.load(Ordering::SeqCst) < upto.0 {
                            yield_now();
                        }
                        self.commits.on_durable(upto);
                    }
                }
                // Whoever is told of it sees it.
                assert!(self.snapshots.visible() >= time, "acknowledged, and not seen");
                self.look();
            }
        }

        let snapshots = Arc::new(Snapshots(AtomicU64::new(1), AtomicU64::new(1)));
        let world = Arc::new(World {
            commits: Publication::new(Arc::clone(&snapshots), CommitTs(1)),
            snapshots,
            end: AtomicU64::new(0),
            durable: AtomicU64::new(0),
            decided: Mutex::default(),
            gated: AtomicU64::new(0),
            revealed: AtomicU64::new(0),
        });
        const COMMITS: [Visible; 4] =
            [Visible::WhenDurable, Visible::AtOnce, Visible::WhenRevealed, Visible::WhenDurable];
        let mut threads: Vec<_> = COMMITS
            .into_iter()
            .map(|visible| {
                let world = Arc::clone(&world);
                thread::spawn(move || world.commit(visible))
            })
            .collect();
        threads.push({
            let world = Arc::clone(&world);
            thread::spawn(move || {
                while world.end.load(Ordering::SeqCst) < COMMITS.len() as u64 * 10 {
                    world.flush();
                    yield_now();
                }
                world.flush();
            })
        });
        threads.push({
            let world = Arc::clone(&world);
            thread::spawn(move || (0..3).for_each(|_| world.look()))
        });
        for thread in threads {
            thread.join().expect("a thread");
        }
        // Nobody does anything more, and all of it is seen.
        assert_eq!(world.snapshots.visible(), 1 + COMMITS.len() as u64);
        assert_eq!(world.snapshots.1.load(Ordering::SeqCst), 1 + COMMITS.len() as u64, "writers");
    }};
}

/// As [`model`], but that nobody waits for the log: whatever is durable is seen by what the flusher and those who
/// decide do, whoever of them comes last.
macro_rules! unattended {
    ($module:ident) => {{
        use std::sync::Arc;

        use resurgam_base::{CommitTs, Lsn};
        use shuttle::thread;
        use snapshot::Snapshots;
        use sync::{AtomicU64, Ordering};
        use $module::{Publication, Visible};

        let snapshots = Arc::new(Snapshots(AtomicU64::new(1), AtomicU64::new(1)));
        let commits = Arc::new(Publication::new(Arc::clone(&snapshots), CommitTs(1)));
        let end = Arc::new(AtomicU64::new(0));
        let mut threads: Vec<_> = [10, 20]
            .map(|_| {
                let (commits, end) = (Arc::clone(&commits), Arc::clone(&end));
                thread::spawn(move || {
                    let append = || Ok(Lsn(end.fetch_add(10, Ordering::SeqCst) + 10));
                    commits.decide(Visible::WhenDurable, append, |_| {}).expect("appended");
                })
            })
            .into();
        // They sync what others will have written, in any order.
        for upto in [10, 20] {
            let commits = Arc::clone(&commits);
            threads.push(thread::spawn(move || commits.note_durable(Lsn(upto))));
        }
        for thread in threads {
            thread.join().expect("a thread");
        }
        assert_eq!(snapshots.visible(), 3, "durable, and nobody will ever see it");
    }};
}

#[test]
fn nobody_sees_what_a_power_loss_takes_back_and_all_that_is_durable_is_seen() {
    holds(orders(), || model!(publication));
    holds(orders(), || unattended!(publication));
}

macro_rules! planted {
    ($($name:ident),+) => {$(
        mod $name {
            include!(concat!(env!("OUT_DIR"), "/", stringify!($name), ".rs"));
        }
    )+};
}

planted!(
    publication_shows_all,
    publication_leaves_work_to_nobody,
    publication_does_not_look_again,
    publication_passes_what_is_not_revealed,
    publication_shows_writers_what_is_not_revealed,
    publication_forgets_writers_at_the_gate
);

#[test]
fn planted_bugs_are_found() {
    assert!(finds(orders(), || model!(publication_shows_all)));
    assert!(finds(orders(), || model!(publication_passes_what_is_not_revealed)));
    assert!(finds(orders(), || model!(publication_shows_writers_what_is_not_revealed)));
    assert!(finds(orders(), || model!(publication_forgets_writers_at_the_gate)));
    assert!(finds(orders(), || unattended!(publication_leaves_work_to_nobody)));
    assert!(finds(orders(), || unattended!(publication_does_not_look_again)));
}
