//! The server's side: listening, and a thread for each connection.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, Result};

use crate::deadline::{Refusal, Timed, failed};
use crate::frame::{self, REQUEST_BYTES_MAX};
use crate::message::{Answer, Hello, Request, Role, STANDING_SINCE, Standing, VERSION, VERSION_OLDEST};
use crate::refusals::{Refusals, Say};
use crate::tls::Tls;

/// Longest time until the first message is there, with the keys before it.
const FIRST: Duration = Duration::from_secs(5);
/// Longest time for an answer to be taken by a client that is slow.
const SEND: Duration = Duration::from_secs(30);
/// Between two looks at a listener that fails: there are no more handles, for instance.
const PAUSE: Duration = Duration::from_millis(100);

/// Memory of messages that a connection keeps for the next ones.
const BUFFER_BYTES_MAX: usize = 2 << 20;

/// Settings.
#[derive(Clone, Copy, Debug)]
pub struct ServerConfig {
    /// Connections at one time.
    pub connections_max: usize,
    /// A connection without a request for so long is ended; the client opens another one.
    pub idle: Duration,
    /// Longest request.
    pub request_bytes_max: usize,
    /// The newest version of the messages that is spoken: an older one for tests of neighbours.
    pub newest: u16,
    /// The oldest version that is spoken: a newer one where a client must know what came with it.
    pub oldest: u16,
}

impl Default for ServerConfig {
    fn default() -> Self {
        Self {
            connections_max: 1000,
            idle: Duration::from_secs(600),
            request_bytes_max: REQUEST_BYTES_MAX,
            newest: VERSION,
            oldest: VERSION_OLDEST,
        }
    }
}

/// What a server has done since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStats {
    pub connections: u64,
    pub requests: u64,
    /// Requests that are worked on now, or wait here.
    pub in_work: u64,
    /// Requests that were refused or failed.
    pub errors: u64,
    /// Connections that were refused, or ended for what came on them.
    pub bad_connections: u64,
    /// Of these, before the first message: without a certificate that counts, with TLS where there is none or the other way, and what is no
    /// client at all.
    pub refused: u64,
}

/// What answers.
pub trait Service: Send + Sync + 'static {
    /// What it is (the version is filled in).
    ///
    /// # Errors
    /// Why nobody can be served now.
    fn hello(&self, client: Role) -> Result<Hello>;

    /// Answers a request, not a Hello. While it waits it is to look at `goes_on` at least ten times a second, and to end with any
    /// error when that is false.
    ///
    /// # Errors
    /// Sent to the client.
    fn answer(&self, request: &Request, goes_on: &dyn Fn() -> bool) -> Result<Answer>;

    /// The calling thread is about to serve a connection, and will do nothing else.
    fn begins(&self) {}

    /// All log below is applied, where it applies log: said with each answer.
    fn applied(&self) -> Lsn {
        Lsn::NONE
    }
}

struct Shared {
    service: Arc<dyn Service>,
    config: ServerConfig,
    tls: Option<Arc<Tls>>,
    stopping: AtomicBool,
    connections: AtomicU64,
    requests: AtomicU64,
    in_work: AtomicU64,
    errors: AtomicU64,
    bad: AtomicU64,
    refusals: Refusals,
    open: Mutex<Open>,
}

#[derive(Default)]
struct Open {
    next: u64,
    /// In the order in which they came.
    all: Vec<Held>,
    /// Of connections that have ended.
    ended: Vec<JoinHandle<()>>,
    /// Of those that had to make room: they end at once.
    made_room: Vec<JoinHandle<()>>,
}

/// A connection.
struct Held {
    id: u64,
    stream: TcpStream,
    thread: Option<JoinHandle<()>>,
    /// Its first message was answered: with TLS, that of one with a certificate.
    is_greeted: bool,
}

impl Open {
    /// Ends the connection that has been without a first message for the longest time; false: there is none.
    fn make_room(&mut self) -> bool {
        let Some(at) = self.all.iter().position(|held| !held.is_greeted) else { return false };
        let held = self.all.remove(at);
        let _ = held.stream.shutdown(Shutdown::Both);
        self.made_room.extend(held.thread);
        true
    }
}

/// A server that listens until it is dropped.
pub struct Server {
    shared: Arc<Shared>,
    address: SocketAddr,
    listener: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens on `listen` (`host:port`; port 0: any).
    ///
    /// # Errors
    /// `InUse` for a port that is taken; `Io`.
    pub fn start(listen: &str, config: ServerConfig, service: Arc<dyn Service>) -> Result<Self> {
        Self::start_with(listen, config, None, service)
    }

    /// As [`Server::start`], for clients with TLS only where there is `tls`.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(
        listen: &str,
        config: ServerConfig,
        tls: Option<Arc<Tls>>,
        service: Arc<dyn Service>,
    ) -> Result<Self> {
        let refused = |error: &io::Error| {
            let kind = if error.kind() == io::ErrorKind::AddrInUse { ErrorKind::InUse } else { ErrorKind::Io };
            Error::new(kind, format!("could not listen on {listen}: {error}"))
        };
        let socket = TcpListener::bind(listen).map_err(|e| refused(&e))?;
        let address = socket.local_addr().map_err(|e| refused(&e))?;
        let shared = Arc::new(Shared {
            service,
            config,
            tls,
            stopping: AtomicBool::new(false),
            connections: AtomicU64::new(0),
            requests: AtomicU64::new(0),
            in_work: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            bad: AtomicU64::new(0),
            refusals: Refusals::default(),
            open: Mutex::default(),
        });
        let listener = spawn("rbio-listen", {
            let shared = Arc::clone(&shared);
            move || listen_on(&socket, &shared)
        })?;
        Ok(Self { shared, address, listener: Some(listener) })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Whom it has refused, in words.
    #[cfg(test)]
    pub(crate) fn refused(&self) -> Vec<String> {
        self.shared.refusals.said()
    }

    /// What it has done.
    pub fn stats(&self) -> ServerStats {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ServerStats {
            connections: read(&self.shared.connections),
            requests: read(&self.shared.requests),
            in_work: read(&self.shared.in_work),
            errors: read(&self.shared.errors),
            bad_connections: read(&self.shared.bad),
            refused: self.shared.refusals.count(),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // Wakes the listener.
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(match address {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        drop(TcpStream::connect_timeout(&address, Duration::from_secs(1)));
        self.listener.take().map(JoinHandle::join);
        let Open { all, ended, made_room, .. } = std::mem::take(&mut *self.shared.open.lock());
        let threads: Vec<_> = all
            .into_iter()
            .filter_map(|held| {
                let _ = held.stream.shutdown(Shutdown::Both);
                held.thread
            })
            .chain(ended)
            .chain(made_room)
            .collect();
        let me = std::thread::current().id();
        for thread in threads.into_iter().filter(|thread| thread.thread().id() != me) {
            let _ = thread.join();
        }
    }
}

fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    std::thread::Builder::new()
        .name(format!("resurgam-{name}"))
        .spawn(body)
        .map_err(|e| Error::new(ErrorKind::OutOfMemory, format!("could not start a thread: {e}")))
}

fn listen_on(socket: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let accepted = socket.accept();
        if shared.stopping.load(Ordering::SeqCst) {
            return;
        }
        match accepted {
            Ok((stream, from)) => {
                shared.connections.fetch_add(1, Ordering::Relaxed);
                if let Err(error) = admit(stream, from, shared) {
                    shared.bad.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!("a connection from {from} was refused: {error}");
                }
            }
            Err(error) => {
                tracing::warn!("no connection can be taken now: {error}");
                std::thread::sleep(PAUSE);
            }
        }
    }
}

/// Gives the connection a thread of its own, if there is room for it.
fn admit(stream: TcpStream, from: SocketAddr, shared: &Arc<Shared>) -> Result<()> {
    let peer = format!("the client at {from}");
    let handle = stream.try_clone().map_err(|e| failed(&peer, "serve", &e))?;
    let mut open = shared.open.lock();
    open.ended.drain(..).for_each(|thread| drop(thread.join()));
    open.made_room.retain(|thread| !thread.is_finished());
    let (most, ending) = (shared.config.connections_max, shared.config.connections_max.max(64));
    // Whoever reaches the port may connect and say nothing: he keeps nobody away who does.
    let is_full = open.all.len() >= most && (open.made_room.len() >= ending || !open.make_room());
    let mut stream = Timed::new(stream, peer)?;
    if is_full {
        drop(open);
        let error = Error::new(ErrorKind::ConfigurationLimitExceeded, "there are too many connections");
        if shared.tls.is_some() {
            // It would have to be told with keys, and these take long.
            return Err(error);
        }
        // Never for long: the listener waits.
        stream.set_time(PAUSE);
        return send(&mut stream, &Answer::Error(error.clone())).and(Err(error));
    }
    let id = open.next;
    open.next += 1;
    open.all.push(Held { id, stream: handle, thread: None, is_greeted: false });
    let thread = spawn("rbio", {
        let shared = Arc::clone(shared);
        move || {
            shared.service.begins();
            stream.set_time(FIRST);
            if agree(&mut stream, from, &shared) {
                serve(&mut stream, (id, from), &shared);
            }
            drop(stream);
            let mut open = shared.open.lock();
            if let Some(at) = open.all.iter().position(|held| held.id == id) {
                let held = open.all.remove(at);
                open.ended.extend(held.thread);
            }
        }
    });
    match thread {
        // The thread cannot have ended: it waits for this lock.
        Ok(thread) => {
            if let Some(held) = open.all.last_mut() {
                held.thread = Some(thread);
            }
            Ok(())
        }
        Err(error) => {
            open.all.pop();
            Err(error)
        }
    }
}

/// Agrees on keys, where there is TLS; false: the connection is over, and the client was told why.
fn agree(stream: &mut Timed, from: SocketAddr, shared: &Shared) -> bool {
    let Some(tls) = &shared.tls else { return true };
    match stream.encrypt_as_server(tls) {
        Ok(()) => return true,
        Err(Refusal::Silent) => return false,
        Err(Refusal::Plain(error)) => {
            refuse(stream, from, shared, &error);
            let what = format!(
                "{} speaks with TLS only, and this side without: start both with --tier-tls-cert, or both without",
                stream.here()
            );
            let _ = send(stream, &Answer::Error(Error::new(ErrorKind::Io, what)));
        }
        Err(Refusal::Other(error)) => refuse(stream, from, shared, &error),
    }
    stream.end_refused();
    false
}

/// Counts one that is refused before its first message, and says it.
#[cold]
fn refuse(stream: &Timed, from: SocketAddr, shared: &Shared, error: &Error) {
    shared.bad.fetch_add(1, Ordering::Relaxed);
    // Its port is another one each time.
    let why = error.message().replace(stream.peer(), "");
    let say = shared.refusals.add(Some(from.ip()), &why);
    if shared.stopping.load(Ordering::SeqCst) {
        return;
    }
    match say {
        Say::It => tracing::warn!("a connection to {} was refused: {error}", stream.here()),
        Say::ThatThereAreMore => {
            tracing::warn!("more connections to {} are refused than are said here, for the next minute", stream.here());
        }
        Say::Nothing => {}
    }
}

/// Sends what is said once.
fn send(stream: &mut Timed, answer: &Answer) -> Result<()> {
    let mut out = Vec::new();
    answer.encode(&mut out);
    frame::write(stream, &mut out)
}

/// Answers until the connection ends.
fn serve(stream: &mut Timed, (id, from): (u64, SocketAddr), shared: &Shared) {
    let (mut message, mut out) = (Vec::new(), Vec::new());
    // The version that was agreed upon.
    let mut spoken = None;
    loop {
        let greeted = spoken.is_some();
        if greeted {
            stream.set_time(shared.config.idle);
        }
        let most = if greeted { shared.config.request_bytes_max } else { REQUEST_BYTES_MAX };
        match frame::read(stream, most, &mut message, None) {
            Ok(true) => {}
            // A client that has gone, or was silent for long, is nothing to be told of.
            Ok(false) => return,
            Err(error) if error.kind() == ErrorKind::Io => return,
            Err(error) => {
                if greeted {
                    shared.bad.fetch_add(1, Ordering::Relaxed);
                    if !shared.stopping.load(Ordering::SeqCst) {
                        tracing::warn!("the connection of {} is ended: {error}", stream.peer());
                    }
                } else {
                    let what = format!("{} has sent what it should not: {}", stream.peer(), error.message());
                    refuse(stream, from, shared, &Error::new(ErrorKind::Io, what));
                }
                // The client may have sent something else.
                let error = Error::new(ErrorKind::Io, format!("a request came damaged: {}", error.message()));
                stream.set_time(FIRST);
                Answer::Error(error).encode(&mut out);
                if says_how_it_does(spoken) {
                    standing(shared).append(&mut out);
                }
                let _ = frame::write(stream, &mut out);
                stream.end_refused();
                return;
            }
        }
        if stream.has_expired() {
            // The client finds why when it connects again.
            return;
        }
        shared.requests.fetch_add(1, Ordering::Relaxed);
        let is_greeting = Request::is_greeting(&message);
        shared.in_work.fetch_add(1, Ordering::Relaxed);
        let answer = answer(&message, spoken, shared);
        shared.in_work.fetch_sub(1, Ordering::Relaxed);
        let is_error = matches!(answer, Answer::Error(_));
        shared.errors.fetch_add(u64::from(is_error), Ordering::Relaxed);
        if let Answer::Hello(hello) = &answer {
            if !greeted && let Some(held) = shared.open.lock().all.iter_mut().find(|held| held.id == id) {
                held.is_greeted = true;
            }
            spoken = Some(hello.version);
        }
        stream.set_time(SEND);
        answer.encode(&mut out);
        if !is_greeting && says_how_it_does(spoken) {
            standing(shared).append(&mut out);
        }
        // It may be large, and sending it may take long.
        drop(answer);
        if frame::write(stream, &mut out).is_err() || spoken.is_none() {
            return;
        }
        for buffer in [&mut message, &mut out] {
            if buffer.capacity() > BUFFER_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
    }
}

/// Whether that version has it.
fn says_how_it_does(spoken: Option<u16>) -> bool {
    spoken.is_some_and(|version| version >= STANDING_SINCE)
}

/// When a request is answered: what else there is to do, and how far it is.
fn standing(shared: &Shared) -> Standing {
    let load = u32::try_from(shared.in_work.load(Ordering::Relaxed)).unwrap_or(u32::MAX);
    let applied = catch_unwind(AssertUnwindSafe(|| shared.service.applied())).unwrap_or(Lsn::NONE);
    Standing { load, applied }
}

fn answer(message: &[u8], spoken: Option<u16>, shared: &Shared) -> Answer {
    let goes_on = || !shared.stopping.load(Ordering::SeqCst);
    let answered = catch_unwind(AssertUnwindSafe(|| match Request::decode(message)? {
        Request::Hello { oldest, newest, role, database } => greet(shared, oldest, newest, role, database),
        request if spoken.is_none_or(|version| request.since() > version) => {
            let what = match spoken {
                None => "the first message is not a greeting",
                Some(_) => "a request that the version agreed upon does not have",
            };
            Err(Error::new(ErrorKind::InvalidParameter, what))
        }
        request => shared.service.answer(&request, &goes_on),
    }));
    let answered = answered.unwrap_or_else(|_| Err(Error::internal("a panic while a request was answered")));
    answered.unwrap_or_else(Answer::Error)
}

fn greet(shared: &Shared, oldest: u16, newest: u16, role: Role, database: [u8; 16]) -> Result<Answer> {
    let version = newest.min(shared.config.newest);
    let least = shared.config.oldest.max(VERSION_OLDEST);
    if version < oldest.max(least) {
        return Err(Error::new(
            ErrorKind::NewerFormat,
            format!(
                "versions {oldest} to {newest} of the messages are spoken on one side, {least} to {} on the other",
                shared.config.newest
            ),
        )
        .with_hint("Neighbouring versions work together: bring the older side up to date first."));
    }
    let hello = Hello { version, ..shared.service.hello(role)? };
    if database != [0; 16] && database != hello.database {
        return Err(Error::new(ErrorKind::NotADatabase, "this is another database"));
    }
    Ok(Answer::Hello(hello))
}
