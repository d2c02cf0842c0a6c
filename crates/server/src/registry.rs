//! Who is connected: process ids, cancel keys, and stopping one or all.
//!
//! Invariants:
//! 1. A process id is unique among the live connections, and never 0.
//! 2. A cancel request acts only when both id and secret match; the comparison
//!    and the outcome are invisible to the sender.
//! 3. An entry leaves the registry when its connection's guard is dropped,
//!    however the connection ended.

use std::collections::HashMap;
use std::future::poll_fn;
use std::hash::{BuildHasher, RandomState};
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::Duration;

use futures::task::AtomicWaker;
use resurgam_sql::CancelHandle;

use crate::front::{self, Pulse};
use crate::settings::Settings;
use crate::unauthenticated::{Place, Unauthenticated};

/// One connection as others see it.
#[derive(Default)]
pub struct Control {
    stopping: AtomicBool,
    waker: AtomicWaker,
    ending: AtomicBool,
    lost: AtomicBool,
    end_waker: AtomicWaker,
    /// Since when it keeps its thread, by [`front::coarse_ms`]; 0: it does not.
    busy: AtomicU64,
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
    /// Ends the connection wherever it is: in a statement, or in a write that the client does not take.
    pub fn end(&self) {
        self.ending.store(true, Ordering::SeqCst);
        self.end_waker.wake();
    }
    /// Whether [`Self::end`] was called.
    #[inline]
    pub fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Relaxed)
    }
    /// The result of `work`; `None` as soon as the connection has to end.
    pub async fn unless_ended<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        let mut work = std::pin::pin!(work);
        poll_fn(|cx| {
            self.end_waker.register(cx.waker());
            if self.ending.load(Ordering::SeqCst) {
                return Poll::Ready(None);
            }
            self.busy.store(front::coarse_ms(), Ordering::Relaxed);
            let _idle = Idle(&self.busy);
            work.as_mut().poll(cx).map(Some)
        })
        .await
    }
    /// Makes the session's statements cancellable, and the session's end the connection's.
    pub fn set_cancel(self: &Arc<Self>, handle: CancelHandle) {
        let control = Arc::downgrade(self);
        handle.on_terminate(move || {
            if let Some(control) = control.upgrade() {
                control.end();
            }
        });
        *lock(&self.cancel) = Some(handle);
    }
    /// As [`Self::terminate`], because the client is gone.
    pub fn lose(&self) {
        self.lost.store(true, Ordering::SeqCst);
        self.terminate();
    }
    /// Whether [`Self::lose`] was called.
    pub fn is_lost(&self) -> bool {
        self.lost.load(Ordering::SeqCst)
    }
    /// Ends the session, its running statement first.
    pub fn terminate(&self) {
        match lock(&self.cancel).clone() {
            Some(handle) => handle.terminate(),
            None => self.end(),
        }
    }
    /// Cancels the running statement, if any.
    pub fn cancel(&self) {
        if let Some(handle) = &*lock(&self.cancel) {
            handle.cancel();
        }
    }
}

/// It gives its thread back, be it by a panic.
struct Idle<'a>(&'a AtomicU64);

impl Drop for Idle<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
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
    unauthenticated: Arc<Unauthenticated>,
    sessions: AtomicU32,
    limits: Limits,
    accepted: AtomicU64,
    /// Clients beyond the limit of sessions.
    refused: AtomicU64,
    failed: [AtomicU64; LoginFailure::ALL.len()],
    stopping: AtomicBool,
    /// Whether those that are registered are served.
    pub pulse: Arc<Pulse>,
}

/// How many connections there may be.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Clients logged in.
    pub sessions: u32,
    /// Of them, those that only a superuser gets.
    pub reserved: u32,
    /// Connections that have not logged in.
    pub unauthenticated: u32,
    /// Of them, those of one address.
    pub unauthenticated_per_address: u32,
}

impl Limits {
    /// As the settings have them.
    pub fn of(settings: &Settings) -> Self {
        Self {
            sessions: settings.max_connections,
            reserved: settings.superuser_reserved_connections,
            unauthenticated: settings.unauthenticated_connections_max,
            unauthenticated_per_address: settings.unauthenticated_connections_per_address_max,
        }
    }
}

/// Why a login failed, for the count of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoginFailure {
    /// No host rule is for the client, or one refuses it.
    HostRule,
    Password,
    Certificate,
    /// The role or the database does not exist.
    Name,
    /// It took too long.
    Timeout,
    /// It broke the protocol.
    Protocol,
}

impl LoginFailure {
    /// All, with the words of the metric's label.
    pub const ALL: [(Self, &str); 6] = [
        (Self::HostRule, "host_rule"),
        (Self::Password, "password"),
        (Self::Certificate, "certificate"),
        (Self::Name, "name"),
        (Self::Timeout, "timeout"),
        (Self::Protocol, "protocol"),
    ];
}

/// Why there is no place for a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// All are taken.
    All,
    /// What is left is a superuser's.
    Reserved,
}

/// A panic while a lock was held leaves a map that is still whole: each change is one call.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Registry {
    /// A registry with these limits.
    pub fn new(limits: Limits) -> Arc<Self> {
        Arc::new(Self {
            entries: Mutex::new(HashMap::new()),
            next_id: AtomicI32::new(1),
            unauthenticated: Unauthenticated::new(limits.unauthenticated, limits.unauthenticated_per_address),
            sessions: AtomicU32::new(0),
            limits,
            accepted: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: Default::default(),
            stopping: AtomicBool::new(false),
            pulse: Arc::default(),
        })
    }

    /// A place for a new connection until it has logged in.
    pub fn admit(&self, peer: IpAddr) -> Place {
        self.accepted.fetch_add(1, Ordering::Relaxed);
        self.unauthenticated.take(peer)
    }

    /// Registers a client that has logged in.
    ///
    /// # Errors
    /// All places are taken.
    pub fn session(self: &Arc<Self>, is_superuser: bool) -> Result<SessionGuard, Full> {
        let all = self.limits.sessions;
        let limit = if is_superuser { all } else { all.saturating_sub(self.limits.reserved) };
        let taken =
            self.sessions.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |now| (now < limit).then_some(now + 1));
        if let Err(now) = taken {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return Err(if now >= all { Full::All } else { Full::Reserved });
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
        Ok(SessionGuard { registry: self.clone(), process_id, secret, control })
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
        self.unauthenticated.close();
        for entry in lock(&self.entries).values() {
            entry.control.stop();
        }
    }

    /// Ends every session, whatever it does.
    pub fn terminate_all(&self) {
        let controls: Vec<_> = lock(&self.entries).values().map(|entry| entry.control.clone()).collect();
        controls.iter().for_each(|control| control.terminate());
    }

    /// Those that have kept their threads for longer than `time`, by their process ids; the longest first.
    pub fn busy_for(&self, time: Duration) -> Vec<(i32, Duration)> {
        let entries = lock(&self.entries);
        let busy = entries.iter().filter_map(|(id, entry)| match entry.control.busy.load(Ordering::Relaxed) {
            0 => None,
            since => Some((*id, front::since(since))),
        });
        let mut busy: Vec<_> = busy.filter(|(_, for_long)| *for_long > time).collect();
        drop(entries);
        busy.sort_by_key(|(_, for_long)| std::cmp::Reverse(*for_long));
        busy
    }

    /// Clients logged in.
    pub fn sessions(&self) -> u32 {
        self.sessions.load(Ordering::SeqCst)
    }

    /// The most of those at one time.
    pub fn sessions_max(&self) -> u32 {
        self.limits.sessions
    }

    /// Connections that have not logged in.
    pub fn unauthenticated(&self) -> usize {
        self.unauthenticated.count()
    }

    /// Connections accepted so far, refused ones included.
    pub fn accepted(&self) -> u64 {
        self.accepted.load(Ordering::Relaxed)
    }

    /// Connections refused so far: those not logged in that made room for others; too many clients.
    pub fn refused(&self) -> [u64; 2] {
        [self.unauthenticated.evicted(), self.refused.load(Ordering::Relaxed)]
    }

    /// Counts a failed login.
    pub fn login_failed(&self, why: LoginFailure) {
        self.failed[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Failed logins so far, by reason.
    pub fn logins_failed(&self) -> [(&'static str, u64); LoginFailure::ALL.len()] {
        LoginFailure::ALL.map(|(why, word)| (word, self.failed[why as usize].load(Ordering::Relaxed)))
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
    use futures::FutureExt;

    use super::*;

    fn limits(sessions: u32, reserved: u32) -> Limits {
        Limits { sessions, reserved, unauthenticated: 10, unauthenticated_per_address: 10 }
    }

    #[test]
    fn the_limit_holds_and_places_come_back() {
        let registry = Registry::new(limits(2, 0));
        let first = registry.session(true).ok().unwrap();
        let second = registry.session(false).ok().unwrap();
        assert_ne!(first.process_id, second.process_id);
        assert_eq!(registry.session(true).err(), Some(Full::All));
        assert_eq!((registry.refused(), registry.sessions_max()), ([0, 1], 2));
        drop(first);
        assert!(registry.session(true).is_ok());
        assert_eq!(registry.sessions(), 1);
    }

    #[test]
    fn some_places_are_the_superusers() {
        let registry = Registry::new(limits(3, 2));
        let _first = registry.session(false).ok().unwrap();
        assert_eq!(registry.session(false).err(), Some(Full::Reserved));
        let _others = [registry.session(true).ok().unwrap(), registry.session(true).ok().unwrap()];
        assert_eq!(registry.session(true).err(), Some(Full::All));
        assert_eq!(registry.session(false).err(), Some(Full::All));
    }

    #[test]
    fn stop_reaches_later_sessions_too() {
        let registry = Registry::new(limits(2, 0));
        registry.stop_all();
        assert!(registry.session(true).ok().unwrap().control.is_stopping());
    }

    #[test]
    fn an_end_reaches_what_waits() {
        let control = Control::default();
        let mut waiting = std::pin::pin!(control.unless_ended(std::future::pending::<()>()));
        assert!(waiting.as_mut().now_or_never().is_none());
        control.end();
        assert_eq!(waiting.now_or_never(), Some(None));
        assert_eq!(control.unless_ended(async { 1 }).now_or_never(), Some(None));
        assert_eq!(Control::default().unless_ended(async { 1 }).now_or_never(), Some(Some(1)));
    }
}
