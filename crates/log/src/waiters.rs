//! Waiting for durability without blocking a thread.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use parking_lot::Mutex;
use resurgam_base::{Lsn, Result};

use crate::core::Core;

struct Waiter {
    id: u64,
    upto: Lsn,
    waker: Waker,
}

#[derive(Default)]
struct Table {
    next_id: u64,
    waiting: Vec<Waiter>,
}

/// The tasks that wait for the flushed position to reach theirs.
#[derive(Default)]
pub(crate) struct Waiters {
    table: Mutex<Table>,
}

impl Waiters {
    fn register(&self, id: Option<u64>, upto: Lsn, waker: &Waker) -> u64 {
        let mut table = self.table.lock();
        if let Some(found) = table.waiting.iter_mut().find(|waiter| Some(waiter.id) == id) {
            found.waker.clone_from(waker);
            return found.id;
        }
        table.next_id += 1;
        let id = table.next_id;
        table.waiting.push(Waiter { id, upto, waker: waker.clone() });
        id
    }

    fn remove(&self, id: u64) {
        self.table.lock().waiting.retain(|waiter| waiter.id != id);
    }

    /// Wakes every task that waits for `flushed` or less.
    pub(crate) fn wake(&self, flushed: Lsn) {
        let mut woken = Vec::new();
        self.table.lock().waiting.retain(|waiter| {
            let done = waiter.upto <= flushed;
            if done {
                woken.push(waiter.waker.clone());
            }
            !done
        });
        // Without the lock: a waker may run foreign code.
        woken.into_iter().for_each(Waker::wake);
    }

    /// Wakes every task: the log stopped.
    pub(crate) fn wake_all(&self) {
        let waiting = std::mem::take(&mut self.table.lock().waiting);
        waiting.into_iter().for_each(|waiter| waiter.waker.wake());
    }
}

/// Resolves when everything below a position is durable, or the log stopped.
/// Needs no particular runtime. From [`Log::flushed`](crate::Log::flushed).
#[must_use = "a ticket does nothing unless awaited or waited for"]
pub struct FlushTicket {
    core: Arc<Core>,
    upto: Lsn,
    id: Option<u64>,
}

impl FlushTicket {
    pub(crate) fn new(core: Arc<Core>, upto: Lsn) -> Self {
        core.request_flush(upto);
        Self { core, upto, id: None }
    }

    /// Blocks the thread until resolved; this thread may do the flush itself.
    ///
    /// # Errors
    /// `Stopped` when the log stopped before.
    pub fn wait(self) -> Result<()> {
        self.core.flush(self.upto)
    }
}

impl Future for FlushTicket {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if let Some(outcome) = self.core.outcome(self.upto) {
            return Poll::Ready(outcome);
        }
        if !self.core.request_flush(self.upto) {
            // Nobody else would do it.
            return Poll::Ready(self.core.flush(self.upto));
        }
        self.id = Some(self.core.waiters.register(self.id, self.upto, context.waker()));
        // The flush may have ended, or the flusher left, before the registration.
        match self.core.outcome(self.upto) {
            Some(outcome) => Poll::Ready(outcome),
            None if !self.core.request_flush(self.upto) => Poll::Ready(self.core.flush(self.upto)),
            None => Poll::Pending,
        }
    }
}

impl Drop for FlushTicket {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.core.waiters.remove(id);
        }
    }
}
