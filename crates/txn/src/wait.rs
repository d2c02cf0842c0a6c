//! Waiting for a transaction to end, and deadlocks.
//!
//! A waiter names one transaction (Constant Time Recovery, section 3.5: the lock is on
//! the transaction's id, not on the row). Waiting is an edge in the wait-for graph; the
//! edge that would close a cycle is refused at once, so a deadlock costs its last
//! participant an error and nobody a timeout.
//!
//! [`LockWait`] is a plain future (standard wakers, any runtime) and can block a thread
//! as well. Dropping it gives the wait up.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use hashbrown::HashMap;
use parking_lot::{Condvar, Mutex};
use resurgam_base::{Error, ErrorKind, Result, TxId};

#[derive(Default)]
struct CellState {
    done: bool,
    /// Why it is done although the holder has not ended.
    error: Option<Error>,
    waker: Option<Waker>,
}

impl CellState {
    fn outcome(&mut self) -> Result<()> {
        self.error.take().map_or(Ok(()), Err)
    }
}

#[derive(Default)]
struct Cell {
    state: Mutex<CellState>,
    wake: Condvar,
}

impl Cell {
    fn finish(&self, error: Option<Error>) {
        let mut state = self.state.lock();
        state.done = true;
        state.error = error;
        let waker = state.waker.take();
        drop(state);
        self.wake.notify_all();
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

#[derive(Default)]
struct Graph {
    /// Who each waiting transaction waits for.
    edges: HashMap<TxId, TxId>,
    /// Who waits for each transaction.
    waiters: HashMap<TxId, Vec<(TxId, Arc<Cell>)>>,
    /// Nobody ends any more; see [`WaitGraph::stop`].
    stopped: Option<Error>,
}

/// The wait-for graph.
#[derive(Default)]
pub struct WaitGraph {
    graph: Mutex<Graph>,
    /// Waiters registered or registering; lets the end of a transaction skip the mutex.
    waiting: AtomicUsize,
    waits: AtomicU64,
    deadlocks: AtomicU64,
}

impl WaitGraph {
    /// Registers `waiter` (a top-level id) to be woken when `holder` ends.
    ///
    /// `still_active` is asked after the waiter has announced itself: if the holder ended
    /// in between, the wait is over already.
    ///
    /// # Errors
    /// [`ErrorKind::DeadlockDetected`] when `holder` waits, directly or not, for `waiter`; that of [`WaitGraph::stop`].
    pub fn wait_for(
        self: &Arc<Self>,
        waiter: TxId,
        holder: TxId,
        still_active: impl FnOnce() -> bool,
    ) -> Result<LockWait> {
        let cell = Arc::new(Cell::default());
        let mut graph = self.graph.lock();
        self.waiting.fetch_add(1, Ordering::SeqCst);
        if !still_active() {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            cell.state.lock().done = true;
            return Ok(LockWait { graph: Arc::clone(self), waiter, holder, cell, registered: false });
        }
        if let Some(error) = &graph.stopped {
            self.waiting.fetch_sub(1, Ordering::SeqCst);
            return Err(error.clone());
        }
        let mut at = holder;
        let mut path = vec![holder];
        loop {
            if at == waiter {
                self.waiting.fetch_sub(1, Ordering::SeqCst);
                self.deadlocks.fetch_add(1, Ordering::Relaxed);
                let cycle: Vec<String> = path.iter().map(|t| t.to_string()).collect();
                return Err(Error::new(ErrorKind::DeadlockDetected, "deadlock detected")
                    .with_detail(format!(
                        "Transaction {waiter} would wait for transactions {}, which wait for it.",
                        cycle.join(", ")
                    ))
                    .with_hint("Retry the transaction."));
            }
            match graph.edges.get(&at) {
                Some(next) => {
                    at = *next;
                    path.push(at);
                }
                None => break,
            }
        }
        graph.edges.insert(waiter, holder);
        graph.waiters.entry(holder).or_default().push((waiter, Arc::clone(&cell)));
        self.waits.fetch_add(1, Ordering::Relaxed);
        Ok(LockWait { graph: Arc::clone(self), waiter, holder, cell, registered: true })
    }

    /// Wakes everyone who waits for `holder`, which has ended.
    pub fn ended(&self, holder: TxId) {
        if self.waiting.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut graph = self.graph.lock();
        let woken = graph.waiters.remove(&holder).unwrap_or_default();
        for (waiter, _) in &woken {
            graph.edges.remove(waiter);
        }
        self.waiting.fetch_sub(woken.len(), Ordering::SeqCst);
        drop(graph);
        for (_, cell) in woken {
            cell.finish(None);
        }
    }

    /// The database has stopped: who is to end may never do so (the undo of what a crash has cut off, for one, is a thread's that has ended),
    /// so that all waits fail with this error, those to come among them.
    pub fn stop(&self, error: &Error) {
        let mut graph = self.graph.lock();
        graph.stopped.get_or_insert_with(|| error.clone());
        graph.edges.clear();
        let woken: Vec<(TxId, Arc<Cell>)> = graph.waiters.drain().flat_map(|(_, waiters)| waiters).collect();
        self.waiting.fetch_sub(woken.len(), Ordering::SeqCst);
        drop(graph);
        for (_, cell) in woken {
            cell.finish(Some(error.clone()));
        }
    }

    /// Waits begun and deadlocks refused since start.
    pub fn counts(&self) -> (u64, u64) {
        (self.waits.load(Ordering::Relaxed), self.deadlocks.load(Ordering::Relaxed))
    }

    /// (waiter, holder) pairs now.
    pub fn edges(&self) -> Vec<(TxId, TxId)> {
        self.graph.lock().edges.iter().map(|(w, h)| (*w, *h)).collect()
    }

    fn give_up(&self, wait: &LockWait) {
        let mut graph = self.graph.lock();
        if let Some(list) = graph.waiters.get_mut(&wait.holder) {
            let before = list.len();
            list.retain(|(_, cell)| !Arc::ptr_eq(cell, &wait.cell));
            let gone = before - list.len();
            let empty = list.is_empty();
            if gone > 0 {
                self.waiting.fetch_sub(gone, Ordering::SeqCst);
                graph.edges.remove(&wait.waiter);
            }
            if empty {
                graph.waiters.remove(&wait.holder);
            }
        }
    }
}

/// A wait for another transaction to end; then the caller tries again.
#[must_use = "await it, block on it, or give the operation up"]
pub struct LockWait {
    graph: Arc<WaitGraph>,
    waiter: TxId,
    holder: TxId,
    cell: Arc<Cell>,
    registered: bool,
}

impl LockWait {
    /// The transaction waited for.
    pub fn holder(&self) -> TxId {
        self.holder
    }
    /// Blocks the thread until the holder has ended.
    ///
    /// # Errors
    /// `Stopped` when the database stops meanwhile.
    pub fn wait(self) -> Result<()> {
        let mut state = self.cell.state.lock();
        while !state.done {
            self.cell.wake.wait(&mut state);
        }
        state.outcome()
    }
    /// Blocks for at most `timeout`; false if the holder is still there. (Where the database has stopped, whoever asks again is told.)
    pub fn wait_timeout(self, timeout: Duration) -> bool {
        let mut state = self.cell.state.lock();
        if !state.done {
            self.cell.wake.wait_for(&mut state, timeout);
        }
        state.done
    }
}

impl Future for LockWait {
    type Output = Result<()>;
    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut state = self.cell.state.lock();
        if state.done {
            return Poll::Ready(state.outcome());
        }
        state.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

impl Drop for LockWait {
    fn drop(&mut self) {
        if self.registered && !self.cell.state.lock().done {
            let graph = Arc::clone(&self.graph);
            graph.give_up(self);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_refused_at_once() {
        let graph = Arc::new(WaitGraph::default());
        let a = graph.wait_for(TxId(1), TxId(2), || true);
        let b = graph.wait_for(TxId(2), TxId(3), || true);
        let c = graph.wait_for(TxId(3), TxId(1), || true);
        assert!(a.is_ok() && b.is_ok());
        assert_eq!(c.err().map(|e| e.kind()), Some(ErrorKind::DeadlockDetected));
        drop(b);
        assert!(graph.wait_for(TxId(3), TxId(1), || true).is_ok(), "a wait given up is no edge");
    }

    #[test]
    fn the_end_wakes_all() {
        let graph = Arc::new(WaitGraph::default());
        let waits: Vec<_> = (2..6).filter_map(|i| graph.wait_for(TxId(i), TxId(1), || true).ok()).collect();
        let threads: Vec<_> = waits.into_iter().map(|w| std::thread::spawn(move || w.wait())).collect();
        graph.ended(TxId(1));
        for thread in threads {
            assert!(thread.join().is_ok_and(|r| r.is_ok()));
        }
        assert!(graph.edges().is_empty());
        assert_eq!(graph.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_database_that_stops_ends_all_waits() {
        let graph = Arc::new(WaitGraph::default());
        let waits: Vec<_> = (2..6).filter_map(|i| graph.wait_for(TxId(i), TxId(i % 2), || true).ok()).collect();
        assert_eq!(waits.len(), 4);
        let threads: Vec<_> = waits.into_iter().map(|w| std::thread::spawn(move || w.wait())).collect();
        graph.stop(&Error::new(ErrorKind::Stopped, "the disk is gone"));
        for thread in threads {
            assert_eq!(thread.join().map(|r| r.map_err(|e| e.kind())).ok(), Some(Err(ErrorKind::Stopped)));
        }
        assert_eq!(graph.wait_for(TxId(2), TxId(1), || true).err().map(|e| e.kind()), Some(ErrorKind::Stopped));
        // What has ended before is not waited for all the same.
        assert!(graph.wait_for(TxId(2), TxId(1), || false).is_ok_and(|w| w.wait().is_ok()));
        assert!(graph.edges().is_empty());
        assert_eq!(graph.waiting.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_holder_that_ended_is_not_waited_for() {
        let graph = Arc::new(WaitGraph::default());
        let wait = graph.wait_for(TxId(2), TxId(1), || false);
        assert!(wait.is_ok_and(|w| w.wait().is_ok()));
    }
}
