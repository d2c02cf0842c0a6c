//! Many blocks at once, by several threads: each applies the records of its own pages, in the order of their LSNs.
//!
//! ```text
//!   blocks ──share out, by shard──► worker 0: records of its pages, block after block ──► done: 900
//!   (one thread, in order)     └──► worker 1: …                                        ──► done: 700
//!                                                             all log below 700 is applied
//! ```
//!
//! 1. A page has one worker: that of the shard of its segment (`cover.rs`), so no two workers wait for each other's lock.
//! 2. A worker is *done* up to the start of the block with its next record. The position is where the one that is least far is: a page that is
//!    given has every record below it, as ever. Pages of others may be newer, as they may be after an error in the middle of a block.
//! 3. There are no records of several pages (what belongs together is a group of records, one for each page, and whole in its block), and none
//!    here that concern all of a partition; so there is nothing at which workers would have to wait for each other but the end of the batch. What
//!    changes the position otherwise ([`PageServer::skip_to`], [`PageServer::go_back`]) comes between batches.
//! 4. The first error, panic, or record that does not follow ends all of them at their next block. The position stays below it.
//! 5. What is shared out is bounded by who makes the batch; the calling thread is one of the workers, and with one worker the only one. Where there is
//!    no thread to be had it does that one's share as well.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use resurgam_base::{Error, Lsn, Result};
use resurgam_log::RecordRef;

use crate::cover::{Gap, PageRecord};
use crate::server::PageServer;

/// Mistakes that tests make on purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Planted {
    #[default]
    Nothing,
    /// What one worker has done does not matter to how far all are.
    EarlyByOne,
    /// The records of a page are shared out to all workers.
    PageOfTwo,
    /// No mistake: there is no thread to be had.
    NoThread,
    /// The first worker panics.
    Panic,
}

/// A record, and the number of its block in the batch.
type Shared<'b> = (usize, u64, PageRecord<'b>);

/// Blocks that are applied together.
pub struct Batch<'s, 'b> {
    server: &'s PageServer,
    filtered: bool,
    planted: Planted,
    /// Where each block begins, and where the one behind the last one does.
    starts: Vec<Lsn>,
    /// Of each worker, its records.
    shares: Vec<Vec<Shared<'b>>>,
    next: Lsn,
}

impl PageServer {
    /// A batch of the blocks from the position on, for so many workers. `filtered`: blocks may have been left out, as for
    /// [`PageServer::apply_filtered`].
    pub fn batch<'b>(&self, workers: usize, filtered: bool) -> Batch<'_, 'b> {
        let mut shares = Vec::new();
        shares.resize_with(workers.max(1), Vec::new);
        let next = self.position();
        Batch { server: self, filtered, planted: Planted::Nothing, starts: Vec::new(), shares, next }
    }
}

impl<'b> Batch<'_, 'b> {
    /// With a mistake.
    #[doc(hidden)]
    pub fn planted(self, planted: Planted) -> Self {
        Self { planted, ..self }
    }

    /// Where the next block begins.
    pub fn next(&self) -> Lsn {
        self.next
    }

    /// Adds a durable block, which follows those before it and ends at `next`.
    ///
    /// # Errors
    /// `InvalidParameter` for another block; `NotSupported` for a record of a page that no page server has.
    pub fn add(&mut self, at: Lsn, next: Lsn, records: impl Iterator<Item = Result<RecordRef<'b>>>) -> Result<()> {
        if at < self.next || next < at || (at > self.next && !self.filtered) {
            return Err(self.server.does_not_follow(at, self.next));
        }
        let (block, workers) = (self.starts.len(), self.shares.len() as u64);
        let shared = (|| -> Result<()> {
            for record in records {
                if let Some((segment, record)) = self.server.record_of_page(record?)? {
                    let worker = match self.planted {
                        Planted::PageOfTwo => record.lsn.0 / 64 % workers,
                        _ => self.server.shard_of(segment) % workers,
                    };
                    self.shares[worker as usize].push((block, segment, record));
                }
            }
            Ok(())
        })();
        if shared.is_err() {
            // A block is in it whole, or not at all.
            for share in &mut self.shares {
                share.truncate(share.partition_point(|(of, ..)| *of < block));
            }
            return shared;
        }
        self.starts.push(at);
        self.next = next;
        Ok(())
    }

    /// Applies them. After an error blocks are to be applied again from the position on; where there is a gap nothing behind it is
    /// applied of its page, and [`PageServer::go_back`] is to be called.
    ///
    /// # Errors
    /// Those of [`PageServer::apply`].
    pub fn apply(self) -> Result<Option<Gap>> {
        let Self { server, filtered, planted, mut starts, shares, next } = self;
        starts.push(next);
        let shares: Vec<_> = shares.into_iter().filter(|share| !share.is_empty()).collect();
        let start_of_next = |share: &[Shared<'_>]| share.first().map_or(next, |(block, ..)| starts[*block]);
        let progress = Progress {
            server,
            done: shares.iter().map(|share| AtomicU64::new(start_of_next(share).0)).collect(),
            ends: AtomicBool::new(false),
            early: planted == Planted::EarlyByOne,
        };
        let share_of = |worker: usize, mut share: &[Shared<'_>]| -> Result<Option<Gap>> {
            while let Some((block, ..)) = share.first() {
                if progress.ends.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                let (now, later) = share.split_at(share.partition_point(|(of, ..)| of == block));
                let outcome =
                    server.apply_records(now.iter().map(|(_, segment, record)| (*segment, *record)), filtered);
                if !matches!(outcome, Ok(None)) {
                    progress.ends.store(true, Ordering::Relaxed);
                    return outcome;
                }
                share = later;
                progress.is_done(worker, start_of_next(share));
            }
            Ok(None)
        };
        let work = |worker: usize, share: &[Shared<'_>]| {
            let run = AssertUnwindSafe(|| match planted {
                Planted::Panic if worker == 0 => panic!("planted"),
                _ => share_of(worker, share),
            });
            catch_unwind(run).unwrap_or_else(|_| {
                progress.ends.store(true, Ordering::Relaxed);
                Err(Error::internal("a panic while log was applied"))
            })
        };
        let outcomes: Vec<_> = std::thread::scope(|scope| {
            let (mut others, mut own) = (Vec::new(), Vec::new());
            for (worker, share) in shares.iter().enumerate() {
                let work = &work;
                let thread = match worker {
                    0 => None,
                    _ if planted == Planted::NoThread => None,
                    _ => std::thread::Builder::new().spawn_scoped(scope, move || work(worker, share)).ok(),
                };
                match thread {
                    Some(thread) => others.push(thread),
                    // There may be none because there are too many, or too little memory.
                    None => own.push((worker, share)),
                }
            }
            let own: Vec<_> = own.into_iter().map(|(worker, share)| work(worker, share)).collect();
            let join = |thread: std::thread::ScopedJoinHandle<'_, Result<Option<Gap>>>| {
                thread.join().unwrap_or_else(|_| Err(Error::internal("a thread that applies log has ended")))
            };
            own.into_iter().chain(others.into_iter().map(join)).collect()
        });
        server.count_batch(shares.len());
        let mut gap = None;
        for outcome in outcomes {
            gap = outcome?.or(gap);
        }
        if gap.is_none() {
            server.raise_to(next);
        }
        Ok(gap)
    }
}

/// How far the workers are.
struct Progress<'s> {
    server: &'s PageServer,
    /// Each has applied all records of its below.
    done: Vec<AtomicU64>,
    /// One of them has failed.
    ends: AtomicBool,
    early: bool,
}

impl Progress<'_> {
    fn is_done(&self, worker: usize, up_to: Lsn) {
        self.done[worker].store(up_to.0, Ordering::SeqCst);
        // Of two that get here at a time the later one sees what both have stored.
        let of = if self.early && self.done.len() > 1 { &self.done[1..] } else { &self.done[..] };
        let all = of.iter().map(|done| done.load(Ordering::SeqCst)).min();
        self.server.raise_to(Lsn(all.unwrap_or(0)));
    }
}
