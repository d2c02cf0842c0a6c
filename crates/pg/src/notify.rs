//! LISTEN and NOTIFY: what sessions tell each other by name.
//!
//! A transaction gathers what it has to tell, and what it listens to or no longer does, in [`Pending`]; nothing of it has an
//! effect before it commits. The [`Hub`] orders commits that tell something, and hands over to each listener what was told
//! on its channels once that is durable.
//!
//! # Invariants
//! 1. Listeners get notifications in the order in which their transactions committed, and those of a transaction in the order
//!    in which they were first told; equal ones of a transaction once.
//! 2. Who commits does an amount of work that depends on what he tells and on who listens to those channels. He waits for no
//!    listener: what a listener has not taken yet stays in a queue of its own.
//! 3. All queues together have at most [`Hub`]'s bytes. A transaction for which there is no room fails before it commits (`54000`).
//! 4. What is told reaches nobody who began to listen after it was committed.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::wire::SqlError;

/// Bytes of a channel's name (PostgreSQL's `NAMEDATALEN`, less the byte behind it).
pub const CHANNEL_BYTES_MAX: usize = 63;
/// A payload is shorter than this (PostgreSQL's `NOTIFY_PAYLOAD_MAX_LENGTH`).
const PAYLOAD_BYTES: usize = 8000;
/// What a notification takes in a queue beside its texts, about.
const OVERHEAD_BYTES: u64 = 64;
/// Channels of one session.
const CHANNELS_MAX: usize = 100_000;

/// What a session is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    pub channel: String,
    pub payload: String,
    /// The process id of the session that told it.
    pub pid: i32,
}

impl Notification {
    fn bytes(&self) -> u64 {
        (self.channel.len() + self.payload.len()) as u64 + OVERHEAD_BYTES
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

/// What a transaction tells and changes when it commits.
#[derive(Debug, Default)]
pub struct Pending {
    changes: Vec<Change>,
    told: Vec<(String, String)>,
    /// Those of `told`, to find them again.
    known: HashSet<(String, String)>,
    bytes: u64,
}

/// How much of [`Pending`] there was, for a savepoint.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mark {
    changes: usize,
    told: usize,
}

/// # Errors
/// `22023`
fn check_channel(channel: &str) -> Result<(), SqlError> {
    if channel.is_empty() {
        return Err(SqlError::new("22023", "channel name cannot be empty"));
    }
    if channel.len() > CHANNEL_BYTES_MAX {
        return Err(SqlError::new("22023", "channel name too long"));
    }
    Ok(())
}

impl Pending {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.told.is_empty()
    }

    pub fn mark(&self) -> Mark {
        Mark { changes: self.changes.len(), told: self.told.len() }
    }

    /// Takes back what came after a savepoint.
    pub fn back_to(&mut self, mark: Mark) {
        self.changes.truncate(mark.changes);
        for gone in self.told.drain(mark.told.min(self.told.len())..) {
            self.bytes -= bytes_of(&gone.0, &gone.1);
            self.known.remove(&gone);
        }
    }

    /// NOTIFY.
    ///
    /// # Errors
    /// `22023`; `54000` for more than there will ever be room for.
    pub fn tell(&mut self, channel: &str, payload: &str, bytes_max: u64) -> Result<(), SqlError> {
        check_channel(channel)?;
        if payload.len() >= PAYLOAD_BYTES {
            return Err(SqlError::new("22023", "payload string too long"));
        }
        let notification = (channel.to_owned(), payload.to_owned());
        if self.known.contains(&notification) {
            return Ok(());
        }
        let bytes = bytes_of(channel, payload);
        if self.bytes + bytes > bytes_max {
            return Err(full());
        }
        self.bytes += bytes;
        self.known.insert(notification.clone());
        self.told.push(notification);
        Ok(())
    }

    /// LISTEN.
    ///
    /// # Errors
    /// `54000` when it listens to very many.
    pub fn listen(&mut self, channel: &str) -> Result<(), SqlError> {
        if self.changes.len() >= CHANNELS_MAX {
            return Err(SqlError::new("54000", "too many channels in one transaction"));
        }
        self.changes.push(Change::Listen(channel.to_owned()));
        Ok(())
    }

    /// UNLISTEN of a channel, or of all.
    ///
    /// # Errors
    /// `54000`
    pub fn unlisten(&mut self, channel: Option<&str>) -> Result<(), SqlError> {
        match channel {
            None => self.changes.push(Change::UnlistenAll),
            Some(_) if self.changes.len() >= CHANNELS_MAX => {
                return Err(SqlError::new("54000", "too many channels in one transaction"));
            }
            Some(channel) => self.changes.push(Change::Unlisten(channel.to_owned())),
        }
        Ok(())
    }
}

fn bytes_of(channel: &str, payload: &str) -> u64 {
    (channel.len() + payload.len()) as u64 + OVERHEAD_BYTES
}

fn full() -> SqlError {
    SqlError::new("54000", "too many notifications in the NOTIFY queue")
}

/// What one session listens to, and has not been given yet.
pub struct Listener {
    channels: Mutex<BTreeSet<String>>,
    queue: Mutex<VecDeque<Arc<Notification>>>,
    wake: Notify,
}

impl Listener {
    /// The channels that it listens to, by name.
    pub fn channels(&self) -> Vec<String> {
        self.channels.lock().iter().cloned().collect()
    }

    /// Ends when there is something to take, perhaps.
    pub async fn told(&self) {
        self.wake.notified().await;
    }
}

/// A transaction that is committed, or nearly, and tells something.
struct Committed {
    number: u64,
    to: Vec<(Weak<Listener>, Arc<Notification>)>,
}

#[derive(Default)]
struct State {
    /// Who listens to each channel.
    channels: HashMap<String, Vec<Weak<Listener>>>,
    /// In the order of their commits; those are not durable yet.
    committed: VecDeque<Committed>,
    next: u64,
}

/// See the module's head.
pub struct Hub {
    state: Mutex<State>,
    counts: Arc<Counts>,
}

/// What the hubs of all databases have together.
struct Counts {
    /// Of what was told and not taken yet: once for each listener.
    bytes: AtomicU64,
    bytes_max: u64,
    told: AtomicU64,
    given: AtomicU64,
    refused: AtomicU64,
}

/// A reading of the hub's counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HubTotals {
    /// Notifications of committed transactions.
    pub told: u64,
    /// That listeners were given.
    pub given: u64,
    /// Transactions for which there was no room.
    pub refused: u64,
    /// Bytes in the queues, and most of them.
    pub bytes: u64,
    pub bytes_max: u64,
}

/// The right to commit next of those that tell something; see [`Hub::order`].
pub struct Order<'h> {
    hub: &'h Hub,
    state: MutexGuard<'h, State>,
    own: Option<Arc<Listener>>,
    /// The channels that it listens to, and those that it will.
    listens: (BTreeSet<String>, BTreeSet<String>),
    to: Vec<(Weak<Listener>, Arc<Notification>)>,
    bytes: u64,
    told: usize,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("notifications")
    }
}

impl Hub {
    /// One whose queues have that many bytes in all.
    pub fn new(bytes_max: u64) -> Self {
        let none = || AtomicU64::new(0);
        let counts = Counts { bytes: none(), bytes_max, told: none(), given: none(), refused: none() };
        Self { state: Mutex::default(), counts: Arc::new(counts) }
    }

    /// Another one, for channels of another database, whose queues are counted with this one's.
    pub fn beside(&self) -> Self {
        Self { state: Mutex::default(), counts: Arc::clone(&self.counts) }
    }

    pub fn bytes_max(&self) -> u64 {
        self.counts.bytes_max
    }

    /// How much of the queues is in use, from 0 to 1.
    pub fn usage(&self) -> f64 {
        self.counts.bytes.load(Ordering::Relaxed) as f64 / self.counts.bytes_max.max(1) as f64
    }

    pub fn totals(&self) -> HubTotals {
        HubTotals {
            told: self.counts.told.load(Ordering::Relaxed),
            given: self.counts.given.load(Ordering::Relaxed),
            refused: self.counts.refused.load(Ordering::Relaxed),
            bytes: self.counts.bytes.load(Ordering::Relaxed),
            bytes_max: self.counts.bytes_max,
        }
    }

    /// Has a transaction commit next of those that tell something: it has to, or to fail, while it holds what it is given.
    /// `own` is what the session listens to by now.
    ///
    /// # Errors
    /// `54000`, and nothing has changed.
    pub fn order<'h>(
        &'h self,
        pending: &Pending,
        mut own: Option<Arc<Listener>>,
        pid: i32,
    ) -> Result<Order<'h>, SqlError> {
        let state = self.state.lock();
        let listens_now = own.as_ref().map(|own| own.channels.lock().clone()).unwrap_or_default();
        let mut listens = listens_now.clone();
        for change in &pending.changes {
            match change {
                Change::Listen(channel) => drop(listens.insert(channel.clone())),
                Change::Unlisten(channel) => drop(listens.remove(channel)),
                Change::UnlistenAll => listens.clear(),
            }
        }
        if listens.len() > CHANNELS_MAX {
            return Err(SqlError::new(
                "54000",
                format!("a session cannot listen to more than {CHANNELS_MAX} channels"),
            ));
        }
        let mut to = Vec::new();
        let mut bytes = 0;
        for (channel, payload) in &pending.told {
            let listeners = state.channels.get(channel).map_or(&[][..], Vec::as_slice);
            let others = listeners.iter().filter(|listener| {
                listener.strong_count() > 0 && own.as_ref().is_none_or(|own| listener.as_ptr() != Arc::as_ptr(own))
            });
            let mut others: Vec<Weak<Listener>> = others.cloned().collect();
            if listens.contains(channel) {
                let own = own.get_or_insert_with(new_listener);
                others.push(Arc::downgrade(own));
            }
            if others.is_empty() {
                continue;
            }
            let one = Arc::new(Notification { channel: channel.clone(), payload: payload.clone(), pid });
            bytes += one.bytes() * others.len() as u64;
            to.extend(others.into_iter().map(|listener| (listener, Arc::clone(&one))));
        }
        if bytes > 0 && self.counts.bytes.load(Ordering::Relaxed) + bytes > self.counts.bytes_max {
            self.counts.refused.fetch_add(1, Ordering::Relaxed);
            return Err(full());
        }
        self.counts.bytes.fetch_add(bytes, Ordering::Relaxed);
        if listens != listens_now {
            own.get_or_insert_with(new_listener);
        }
        Ok(Order { hub: self, state, own, listens: (listens_now, listens), to, bytes, told: pending.told.len() })
    }

    /// What the transaction of that number, and those before it, tell is handed over: they are durable.
    pub fn publish(&self, number: u64) {
        let mut state = self.state.lock();
        while state.committed.front().is_some_and(|committed| committed.number <= number) {
            let Some(committed) = state.committed.pop_front() else { return };
            for (listener, one) in committed.to {
                match listener.upgrade() {
                    Some(listener) => {
                        listener.queue.lock().push_back(one);
                        listener.wake.notify_one();
                    }
                    None => self.forget(one.bytes()),
                }
            }
        }
    }

    /// What a session has been told since the last call, on channels that it still listens to.
    pub fn take(&self, listener: &Listener) -> Vec<Arc<Notification>> {
        let mut taken = std::mem::take(&mut *listener.queue.lock());
        if taken.is_empty() {
            return Vec::new();
        }
        self.forget(taken.iter().map(|one| one.bytes()).sum());
        let channels = listener.channels.lock();
        taken.retain(|one| channels.contains(&one.channel));
        self.counts.given.fetch_add(taken.len() as u64, Ordering::Relaxed);
        taken.into()
    }

    /// The session ends, or listens to nothing any more.
    pub fn leave(&self, listener: &Arc<Listener>) {
        let mut state = self.state.lock();
        for channel in std::mem::take(&mut *listener.channels.lock()) {
            state.leave(&channel, listener);
        }
        let gone = std::mem::take(&mut *listener.queue.lock());
        self.forget(gone.iter().map(|one| one.bytes()).sum());
    }

    fn forget(&self, bytes: u64) {
        self.counts.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

fn new_listener() -> Arc<Listener> {
    Arc::new(Listener { channels: Mutex::default(), queue: Mutex::default(), wake: Notify::new() })
}

impl State {
    fn leave(&mut self, channel: &str, listener: &Arc<Listener>) {
        let Some(listeners) = self.channels.get_mut(channel) else { return };
        listeners.retain(|other| other.as_ptr() != Arc::as_ptr(listener) && other.strong_count() > 0);
        if listeners.is_empty() {
            self.channels.remove(channel);
        }
    }
}

impl Order<'_> {
    /// The transaction has committed: what it listens to counts from here on. The number that [`Hub::publish`] is to be called
    /// with once that is durable (nothing: it told nobody anything), and what the session listens to now.
    pub fn committed(mut self) -> (Option<u64>, Option<Arc<Listener>>) {
        let (before, now) = std::mem::take(&mut self.listens);
        let own = self.own.take();
        if let Some(own) = own.as_ref().filter(|_| before != now) {
            for channel in before.difference(&now) {
                self.state.leave(channel, own);
            }
            for channel in now.difference(&before) {
                self.state.channels.entry(channel.clone()).or_default().push(Arc::downgrade(own));
            }
            if now.is_empty() {
                let gone = std::mem::take(&mut *own.queue.lock());
                self.hub.forget(gone.iter().map(|one| one.bytes()).sum());
            }
            *own.channels.lock() = now;
        }
        self.hub.counts.told.fetch_add(self.told as u64, Ordering::Relaxed);
        if self.to.is_empty() {
            return (None, own);
        }
        self.bytes = 0;
        self.state.next += 1;
        let number = self.state.next;
        let to = std::mem::take(&mut self.to);
        self.state.committed.push_back(Committed { number, to });
        (Some(number), own)
    }
}

impl Drop for Order<'_> {
    fn drop(&mut self) {
        // It did not commit.
        self.hub.forget(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAX: u64 = 1000;

    fn pending(tell: &[(&str, &str)], listen: &[&str]) -> Pending {
        let mut pending = Pending::default();
        tell.iter().for_each(|(channel, payload)| pending.tell(channel, payload, MAX).expect("told"));
        listen.iter().for_each(|channel| pending.listen(channel).expect("listens"));
        pending
    }

    fn commit(hub: &Hub, pending: &Pending, own: &mut Option<Arc<Listener>>, pid: i32) -> Option<u64> {
        let (number, listener) = hub.order(pending, own.clone(), pid).ok()?.committed();
        *own = listener;
        number
    }

    fn taken(hub: &Hub, listener: &Option<Arc<Listener>>) -> Vec<(String, i32)> {
        let listener = listener.as_ref().expect("it listens");
        hub.take(listener).iter().map(|one| (one.payload.clone(), one.pid)).collect()
    }

    #[test]
    fn what_is_told_comes_in_the_order_of_commits_and_when_it_is_durable() {
        let hub = Hub::new(MAX);
        let (mut a, mut b) = (None, None);
        assert_eq!(commit(&hub, &pending(&[("x", "before")], &[]), &mut b, 2), None, "nobody listens");
        assert_eq!(commit(&hub, &pending(&[], &["x"]), &mut a, 1), None);
        let first = commit(&hub, &pending(&[("x", "1"), ("y", "2"), ("x", "1"), ("x", "3")], &[]), &mut b, 2);
        let second = commit(&hub, &pending(&[("x", "own")], &[]), &mut a, 1);
        assert_eq!(taken(&hub, &a), []);
        // Those before it are durable, too, whoever says so first.
        hub.publish(second.expect("told"));
        assert_eq!(taken(&hub, &a), [("1".into(), 2), ("3".into(), 2), ("own".into(), 1)]);
        hub.publish(first.expect("told"));
        assert_eq!(taken(&hub, &a), []);
        assert_eq!(hub.totals().bytes, 0);
        assert_eq!((hub.totals().told, hub.totals().given), (5, 3));
    }

    #[test]
    fn savepoints_take_back() {
        let mut all = pending(&[("x", "1")], &["x"]);
        let mark = all.mark();
        all.tell("x", "2", MAX).expect("told");
        all.tell("x", "1", MAX).expect("told");
        all.unlisten(None).expect("no longer");
        all.back_to(mark);
        all.tell("x", "2", MAX).expect("told again");
        assert_eq!(all.told, [("x".to_owned(), "1".to_owned()), ("x".to_owned(), "2".to_owned())]);
        assert_eq!(all.changes, [Change::Listen("x".to_owned())]);
    }

    #[test]
    fn there_is_an_end_to_the_room() {
        let hub = Hub::new(MAX);
        let mut listener = None;
        commit(&hub, &pending(&[], &["x"]), &mut listener, 1);
        let mut told = 0;
        while let Some(number) = commit(&hub, &pending(&[("x", &told.to_string())], &[]), &mut None, 2) {
            hub.publish(number);
            told += 1;
        }
        assert!((10..20).contains(&told), "{told}");
        assert!(hub.usage() > 0.9 && hub.totals().refused == 1);
        // Other channels need no room.
        assert!(hub.order(&pending(&[("y", "1")], &[]), None, 2).is_ok());
        assert_eq!(taken(&hub, &listener).len(), told);
        assert!(commit(&hub, &pending(&[("x", "again")], &[]), &mut None, 2).is_some());
        hub.leave(&listener.take().expect("listens"));
        hub.publish(u64::MAX);
        assert_eq!(hub.totals().bytes, 0, "who is gone keeps nothing");
        assert!(hub.state.lock().channels.is_empty());
    }

    #[test]
    fn who_no_longer_listens_is_not_told() {
        let hub = Hub::new(MAX);
        let mut listener = None;
        commit(&hub, &pending(&[("x", "with")], &["x", "y"]), &mut listener, 1);
        let mut gone = Pending::default();
        gone.unlisten(Some("x")).expect("no longer");
        commit(&hub, &gone, &mut listener, 1);
        hub.publish(u64::MAX);
        assert_eq!(taken(&hub, &listener), []);
        assert_eq!(listener.as_ref().expect("listens").channels(), ["y"]);
    }

    #[test]
    fn names_and_payloads_have_limits() {
        let mut pending = Pending::default();
        let code = |done: Result<(), SqlError>| done.expect_err("refused").sqlstate.clone();
        assert_eq!(code(pending.tell("", "", MAX)), "22023");
        assert_eq!(code(pending.tell(&"x".repeat(64), "", MAX)), "22023");
        assert_eq!(code(pending.tell("x", &"p".repeat(8000), 1 << 20)), "22023");
        assert_eq!(code(pending.tell("x", &"p".repeat(2000), MAX)), "54000");
        assert!(pending.tell(&"x".repeat(63), &"p".repeat(7999), 1 << 20).is_ok());
    }
}
