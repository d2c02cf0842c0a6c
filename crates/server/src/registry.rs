//! Who is connected: process ids, cancel keys, and stopping one or all.
//!
//! Invariants:
//! 1. A process id is unique among the live connections, and never 0.
//! 2. A cancel request acts only when both id and secret match; the comparison
//!    and the outcome are invisible to the sender.
//! 3. An entry leaves the registry when its connection's guard is dropped,
//!    however the connection ended.

use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::task::AtomicWaker;
use resurgam_sql::CancelHandle;

/// One connection as others see it.
#[derive(Default)]
pub struct Control {
    stopping: AtomicBool,
    waker: AtomicWaker,
    cancel: Mutex<Option<CancelHandle>>,
}

impl Control {
    /// Asks the connection to end as soon as no statement runs.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.waker.wake();
    }
    /// Whether [`Self::stop`] was called.
    #[inline]
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }
    /// The task to wake when [`Self::stop`] is called; afterwards `true` if it already was.
    #[inline]
    pub fn watch(&self, waker: &std::task::Waker) -> bool {
        self.waker.register(waker);
        self.stopping.load(Ordering::SeqCst)
    }
    /// Makes the session's statements cancellable.
    pub fn set_cancel(&self, handle: CancelHandle) {
        *lock(&self.cancel) = Some(handle);
    }
    /// Cancels the running statement, if any.
    pub fn cancel(&self) {
        if let Some(handle) = &*lock(&self.cancel) {
            handle.cancel();
        }
    }
}

struct Entry {
    secret: i32,
    control: Arc<Control>,
}

/// The live connections of one server.
pub struct Registry {
    entries: Mutex<HashMap<i32, Entry>>,
    next_id: AtomicI32,
    /// Sockets accepted and not yet closed, logged in or not.
    sockets: AtomicU32,
    sessions: AtomicU32,
    sessions_max: u32,
    accepted: AtomicU64,
    /// Half-open sockets beyond the limit; clients beyond `sessions_max`.
    refused: [AtomicU64; 2],
    stopping: AtomicBool,
}

/// A panic while a lock was held leaves a map that is still whole: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// A registry for at most `sessions_max` clients.
    pub fn new(sessions_max: u32) -> Arc<Self> {
        Arc::new(Self {
            entries: Mutex::new(HashMap::new()),
            next_id: AtomicI32::new(1),
            sockets: AtomicU32::new(0),
            sessions: AtomicU32::new(0),
            sessions_max,
            accepted: AtomicU64::new(0),
            refused: Default::default(),
            stopping: AtomicBool::new(false),
        })
    }

    /// Counts a new socket; `None` when there are so many half-open ones that answering them would be the harm.
    pub fn socket(self: &Arc<Self>) -> Option<SocketGuard> {
        let limit = self.sessions_max.saturating_mul(2).saturating_add(16);
        self.accepted.fetch_add(1, Ordering::Relaxed);
        let taken =
            self.sockets.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| (now < limit).then_some(now + 1));
        if taken.is_err() {
            self.refused[0].fetch_add(1, Ordering::Relaxed);
            return None;
        }
        Some(SocketGuard { registry: self.clone() })
    }

    /// Registers a client that logs in; `None` when `max_connections` are taken.
    pub fn session(self: &Arc<Self>) -> Option<SessionGuard> {
        let limit = self.sessions_max;
        let taken =
            self.sessions.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| (now < limit).then_some(now + 1));
        if taken.is_err() {
            self.refused[1].fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let control = Arc::new(Control::default());
        let mut entries = lock(&self.entries);
        let process_id = loop {
            let id = self.next_id.fetch_add(1, Ordering::Relaxed) & i32::MAX;
            if id != 0 && !entries.contains_key(&id) {
                break id;
            }
        };
        // A keyed hash under fresh keys from the operating system: not guessable from other keys.
        let secret = RandomState::new().hash_one(process_id) as i32;
        entries.insert(process_id, Entry { secret, control: control.clone() });
        drop(entries);
        if self.stopping.load(Ordering::SeqCst) {
            control.stop();
        }
        Some(SessionGuard { registry: self.clone(), process_id, secret, control })
    }

    /// A client's cancel request.
    pub fn cancel(&self, process_id: i32, secret: i32) {
        let control = match lock(&self.entries).get(&process_id) {
            Some(entry) if entry.secret == secret => entry.control.clone(),
            _ => return,
        };
        control.cancel();
    }

    /// Asks every connection, present and future, to end.
    pub fn stop_all(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        for entry in lock(&self.entries).values() {
            entry.control.stop();
        }
    }

    /// Cancels every running statement.
    pub fn cancel_all(&self) {
        let controls: Vec<_> = lock(&self.entries).values().map(|entry| entry.control.clone()).collect();
        controls.iter().for_each(|control| control.cancel());
    }

    /// Clients logged in or logging in past the password.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::SeqCst)
    }

    /// The most of those at one time.
    pub fn sessions_max(&self) -> u32 {
        self.sessions_max
    }

    /// Connections accepted so far, refused ones included.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections refused so far: too many half-open ones; too many clients.
    pub fn refused(&self) -> [u64; 2] {
        [0, 1].map(|at| self.refused[at].load(Ordering::Relaxed))
    }
}

/// Keeps a socket counted.
pub struct SocketGuard {
    registry: Arc<Registry>,
}

impl Drop for SocketGuard {
    fn drop(&mut self) {
        self.registry.sockets.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Keeps a client registered.
pub struct SessionGuard {
    registry: Arc<Registry>,
    /// What `pg_backend_pid()` says.
    pub process_id: i32,
    /// The other half of the cancel key.
    pub secret: i32,
    pub control: Arc<Control>,
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        lock(&self.registry.entries).remove(&self.process_id);
        self.registry.sessions.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_holds_and_places_come_back() {
        let registry = Registry::new(2);
        let first = registry.session().unwrap();
        let second = registry.session().unwrap();
        assert_ne!(first.process_id, second.process_id);
        assert!(registry.session().is_none());
        assert_eq!((registry.refused(), registry.sessions_max()), ([0, 1], 2));
        drop(first);
        assert!(registry.session().is_some());
        assert_eq!(registry.sessions(), 1);
    }

    #[test]
    fn stop_reaches_later_sessions_too() {
        let registry = Registry::new(2);
        registry.stop_all();
        assert!(registry.session().unwrap().control.is_stopping());
    }
}
