//! A connection from accept to close.
//!
//! ```text
//! startup ──► ready ──Query──────► run all statements ──► ready
//!    │          │ ◄──────────────────────────────────────── Sync
//!    │          ├──Parse, Bind, Describe, Execute, Close──► extended ─┐
//!    │          │                                            error ──► skipping until Sync
//!    └──────────┴──Terminate, end of input, protocol error, stop──► closed
//! ```
//!
//! Invariants:
//! 1. A panic inside a session ends that connection with `XX000` and nothing else.
//! 2. After an error in the extended protocol every message up to Sync is
//!    discarded undecoded, except that its frame must be valid.
//! 3. Answers leave the process at Sync, at Flush, at the end of a Query, when
//!    64 kB have gathered, and before COPY input is awaited; never one by one.
//! 4. Notifications go out at once to a client that waits outside of a transaction, and otherwise before the
//!    `ReadyForQuery` that follows its end.
//! 5. `ReadyForQuery` of a transaction that wrote follows its durable commit: the
//!    session's `sync` and `execute_simple` return only then.

mod authenticate;
mod copy;
mod extended;
pub mod io;
mod respond;
mod simple;
pub mod startup;

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use resurgam_sql::pg::notify::Listener;
use resurgam_sql::wire::{SqlError, TransactionStatus};
use resurgam_sql::{ConnectionSettings, Session, SqlDatabase};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::access::{Access, Gate};
use crate::events::{self, Visitor};
use crate::network::{self, Watch};
use crate::protocol::ProtocolError;
use crate::protocol::backend;
use crate::protocol::frame::Frame;
use crate::protocol::frontend::{self, DecodeError, Frontend};
use crate::registry::{LoginFailure, Registry, SessionGuard};
use crate::settings::Settings;
use crate::unauthenticated::Place;
use io::{Channel, Socket};
use startup::Refusal;

/// Longest time for the last words to a client that has not logged in, and to any other.
const FAREWELL_TIMES_MAX: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// Messages from which on decoding one takes a time for which others are not to wait.
const LONG_BYTES: usize = 1 << 20;

/// What all connections of a server share.
pub struct Shared {
    pub database: Arc<SqlDatabase>,
    pub settings: Settings,
    pub registry: Arc<Registry>,
    pub gate: Arc<Gate>,
}

/// Why a connection ends.
#[derive(Debug)]
pub enum Ending {
    /// The client said so, or closed between two messages.
    Closed,
    /// The client closed inside a message.
    Cut,
    Io(std::io::Error),
    Protocol(ProtocolError),
    /// The server stops.
    Stopping,
    /// `idle_in_transaction_session_timeout` ran out.
    IdleInTransaction,
    /// `idle_session_timeout` ran out.
    Idle,
    /// Somebody ended the session (`pg_terminate_backend`), or the server stops and does not wait any longer.
    Terminated,
    /// The client of a running statement is gone.
    Lost,
    /// It made room for others before it had logged in, or the server stops.
    Evicted,
    /// Any other reason, told to the client.
    Fatal(SqlError),
}

impl Ending {
    /// What the client is told, if it still listens.
    fn farewell(&self) -> Option<SqlError> {
        let fatal = |sqlstate: &str, message: &str| Some(SqlError::new(sqlstate, message).with_severity("FATAL"));
        match self {
            Self::Closed | Self::Cut | Self::Io(_) | Self::Lost | Self::Evicted => None,
            Self::Protocol(error) => fatal(error.sqlstate, &error.message),
            Self::Idle => fatal("57P05", "terminating connection due to idle-session timeout"),
            Self::Stopping | Self::Terminated => fatal("57P01", "terminating connection due to administrator command"),
            Self::IdleInTransaction => fatal("25P03", "terminating connection due to idle-in-transaction timeout"),
            Self::Fatal(error) => Some(error.clone()),
        }
    }
}

/// Logs in whoever has connected; `None`: the connection is closed. Never panics, never fails: the outcome is logged.
pub async fn accepted(shared: Arc<Shared>, stream: TcpStream, place: Place, mut visitor: Visitor) -> Option<Client> {
    let message_bytes_max = usize::try_from(shared.settings.message_bytes_max.0).unwrap_or(usize::MAX);
    let defaults = network::Defaults::of(&stream);
    network::apply(&stream, &defaults, &network::wanted(&shared.settings));
    if shared.settings.log_connections {
        events::received(&visitor);
    }
    let mut channel = Channel::new(Socket::Plain(stream), message_bytes_max);
    let access = shared.gate.access();
    let opened = AssertUnwindSafe(log_in(&shared, &access, &mut channel, &place, &mut visitor)).catch_unwind().await;
    // Whoever is refused is not waited for on behalf of others.
    drop((place, access));
    let ending = match opened {
        Ok(Ok(Some((session, guard)))) => {
            return Some(Client(Box::new(LoggedIn { shared, channel, defaults, visitor, session, guard })));
        }
        Ok(Ok(None)) => Ending::Closed,
        Ok(Err(refusal)) => {
            refused(&shared, &visitor, &refusal);
            refusal.ending
        }
        Err(panic) => panicked(&visitor, panic.as_ref()),
    };
    end(&shared, &mut channel, &visitor, None, ending).await;
    None
}

/// Who has logged in, and is to be served on the threads of sessions.
pub struct Client(Box<LoggedIn>);

struct LoggedIn {
    shared: Arc<Shared>,
    channel: Channel,
    defaults: network::Defaults,
    visitor: Visitor,
    session: Session,
    guard: SessionGuard,
}

impl Client {
    /// Serves it until it closes. Never panics, never fails: the outcome is logged.
    pub async fn serve(self) {
        let LoggedIn { shared, mut channel, defaults, visitor, session, guard } = *self.0;
        let process_id = guard.process_id;
        let ending = match channel.move_here() {
            Ok(()) => {
                let served = serve(&shared, &mut channel, &defaults, &visitor, session, guard);
                AssertUnwindSafe(served).catch_unwind().await.unwrap_or_else(|panic| panicked(&visitor, panic.as_ref()))
            }
            Err(error) => {
                drop((session, guard));
                tracing::warn!("a client that has logged in could not be served: {error}");
                startup::fatal("53000", format!("the connection could not be served: {error}"))
            }
        };
        end(&shared, &mut channel, &visitor, Some(process_id), ending).await;
    }
}

fn panicked(visitor: &Visitor, panic: &(dyn Any + Send)) -> Ending {
    let what = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".into());
    tracing::error!(peer = %visitor.peer, "a session failed inside the server: {what}");
    let error = SqlError::internal(format!("internal error: {what}"))
        .with_hint("This is a bug in Resurgam; the connection was closed and its transaction rolled back.");
    Ending::Fatal(error.with_severity("FATAL"))
}

/// The last words, and the end of the connection.
async fn end(shared: &Shared, channel: &mut Channel, visitor: &Visitor, process_id: Option<i32>, ending: Ending) {
    let peer = visitor.peer;
    let farewell = ending.farewell();
    if let Some(error) = &farewell {
        tracing::debug!(%peer, "connection ends: {}", error.message);
        // Answers that are not sent yet belong before the farewell, except a half-written one.
        backend::error(&mut channel.output, error);
        let limit = FAREWELL_TIMES_MAX[usize::from(process_id.is_some())];
        let _ = tokio::time::timeout(limit, channel.flush()).await;
    } else {
        tracing::debug!(%peer, "connection ended: {ending:?}");
    }
    if let Some(process_id) = process_id
        && shared.settings.log_disconnections
    {
        let reason = match (&ending, &farewell) {
            (_, Some(error)) => Some(error.message.as_str()),
            (Ending::Closed, None) => None,
            (Ending::Io(_) | Ending::Cut, None) => Some("unexpected EOF on client connection"),
            _ => Some("connection to client lost"),
        };
        events::disconnected(visitor, process_id, reason);
    }
    let _ = tokio::time::timeout(Duration::from_secs(1), channel.socket.shutdown()).await;
}

/// Serves a client that has logged in. Its session, with all that it holds, is gone when this returns, whether the client
/// takes what is still to be said or not.
async fn serve(
    shared: &Arc<Shared>,
    channel: &mut Channel,
    defaults: &network::Defaults,
    visitor: &Visitor,
    session: Session,
    guard: SessionGuard,
) -> Ending {
    let control = guard.control.clone();
    channel.memory = Some(Arc::clone(&shared.database));
    let settings = ConnectionSettings::default();
    let mut connection = Connection {
        channel,
        session,
        skipping: false,
        guard,
        visitor,
        defaults,
        settings,
        settings_seen: 0,
        watch: None,
    };
    connection.go_by_settings();
    let ending = match control.unless_ended(connection.serve()).await {
        Some(Ok(never)) => match never {},
        Some(Err(ending)) => ending,
        None if control.is_lost() => Ending::Lost,
        None => Ending::Terminated,
    };
    connection.session.end();
    ending
}

/// The login, within its time and while the connection has its place.
async fn log_in(
    shared: &Arc<Shared>,
    access: &Access,
    channel: &mut Channel,
    place: &Place,
    visitor: &mut Visitor,
) -> Result<Option<(Session, SessionGuard)>, Refusal> {
    let limit = shared.settings.authentication_timeout;
    let login = async {
        if limit.is_zero() {
            return startup::login(shared, access, channel, place, visitor).await;
        }
        match tokio::time::timeout(limit, startup::login(shared, access, channel, place, visitor)).await {
            Ok(opened) => opened,
            Err(_) => {
                let ending = startup::fatal("57014", "canceling authentication due to timeout");
                Err(Refusal::new(LoginFailure::Timeout, ending))
            }
        }
    };
    tokio::select! {
        biased;
        opened = login => opened,
        () = place.gone() => Err(Ending::Evicted.into()),
    }
}

/// Counts and logs a login that failed; not one that the client gave up, nor a look whether somebody is there.
fn refused(shared: &Shared, visitor: &Visitor, refusal: &Refusal) {
    if let Some(failure) = refusal.failure {
        shared.registry.login_failed(failure);
    }
    let detail = refusal.detail.as_deref();
    match refusal.ending.farewell() {
        Some(error) => events::refused(visitor, &error.sqlstate, &error.message, detail),
        None if refusal.failure.is_some() => events::refused(visitor, "08006", "the connection ended", detail),
        None => {}
    }
}

/// A logged-in client.
struct Connection<'a> {
    channel: &'a mut Channel,
    session: Session,
    /// An extended-protocol message failed; wait for Sync.
    skipping: bool,
    guard: SessionGuard,
    visitor: &'a Visitor,
    defaults: &'a network::Defaults,
    settings: ConnectionSettings,
    /// The generation of the session's parameters that `settings` is of.
    settings_seen: u64,
    watch: Option<Watch>,
}

impl Connection<'_> {
    async fn serve(&mut self) -> Result<std::convert::Infallible, Ending> {
        loop {
            self.channel.release();
            let frame = match self.channel.buffered()? {
                Some(frame) => frame,
                None => self.wait().await?,
            };
            self.handle(frame).await?;
        }
    }

    /// Takes over parameters that the session has changed.
    fn go_by_settings(&mut self) {
        let Some((generation, settings)) = self.session.connection_settings(self.settings_seen) else { return };
        self.settings_seen = generation;
        if settings != self.settings {
            if let Some(stream) = self.channel.stream() {
                network::apply(stream, self.defaults, &settings);
            }
            self.watch = match (settings.client_connection_check_interval, self.channel.stream()) {
                (Some(every), Some(stream)) => Watch::begin(stream, self.guard.control.clone(), every)
                    .map_err(|error| tracing::warn!("client_connection_check_interval has no effect: {error}"))
                    .ok(),
                _ => None,
            };
            self.settings = settings;
        }
    }

    /// Logs a step that took long, if that is wanted.
    fn lasted(&self, begun: Instant, what: impl FnOnce() -> (String, Arc<str>)) {
        let Some(least) = self.settings.log_min_duration else { return };
        let time = begun.elapsed();
        if time >= least {
            let (step, text) = what();
            events::lasted(self.visitor, self.guard.process_id, time, &step, &text);
        }
    }

    /// Waits for a message while no statement runs.
    async fn wait(&mut self) -> Result<Frame, Ending> {
        let idle_max = match self.session.transaction_status() {
            TransactionStatus::Idle => self.settings.idle_session_timeout.map(|limit| (limit, Ending::Idle)),
            _ => self.session.idle_in_transaction_timeout().map(|limit| (limit, Ending::IdleInTransaction)),
        };
        if let Some(listener) = self.session.listener()
            && self.session.transaction_status() == TransactionStatus::Idle
        {
            return Box::pin(self.wait_listening(&listener)).await;
        }
        self.channel.next(idle_max).await
    }

    /// As [`Connection::wait`], outside of a transaction: what the session is told meanwhile goes out at once.
    async fn wait_listening(&mut self, listener: &Listener) -> Result<Frame, Ending> {
        let until = self.settings.idle_session_timeout.map(|limit| tokio::time::Instant::now() + limit);
        loop {
            let left = until.map(|until| until.saturating_duration_since(tokio::time::Instant::now()));
            tokio::select! {
                biased;
                frame = self.channel.next(left.map(|left| (left, Ending::Idle))) => return frame,
                () = listener.told() => {}
            }
            self.notify();
            self.channel.flush().await?;
        }
    }

    /// Answers with what the session was told.
    fn notify(&mut self) {
        for told in self.session.take_notifications() {
            backend::notification(&mut self.channel.output, told.pid, &told.channel, &told.payload);
        }
    }

    /// What one message asks for. An error within the extended protocol goes out at once: what follows is skipped until Sync, Flush too,
    /// and there are clients that wait for the answer to a Flush.
    async fn handle(&mut self, frame: Frame) -> Result<(), Ending> {
        let before = self.skipping;
        self.handle_message(frame).await?;
        if self.skipping && !before { self.channel.flush().await } else { Ok(()) }
    }

    async fn handle_message(&mut self, frame: Frame) -> Result<(), Ending> {
        if self.skipping && !matches!(frame.tag, b'S' | b'X') {
            return Ok(());
        }
        // A long one is looked at byte by byte.
        let decoded = match frame.body.len() > LONG_BYTES {
            true => tokio::task::block_in_place(|| frontend::decode(&frame)),
            false => frontend::decode(&frame),
        };
        let message = match decoded {
            Ok(message) => message,
            Err(DecodeError::Malformed(error)) => return Err(Ending::Protocol(error)),
            Err(DecodeError::Value { sqlstate, message }) => {
                let error = SqlError::new(sqlstate, message);
                self.session.error_occurred();
                backend::error(&mut self.channel.output, &error);
                if frame.tag == b'Q' {
                    return self.ready().await;
                }
                self.skipping = true;
                return Ok(());
            }
        };
        drop(frame);
        let _in_message = self.session.message();
        match message {
            Frontend::Query(text) => self.query(&text).await,
            Frontend::Parse { name, query, types } => {
                let result = self.session.parse(&name, &query, &types).await;
                self.answer(result, backend::parse_complete);
                Ok(())
            }
            Frontend::Bind(bind) => {
                let result = self
                    .session
                    .bind(&bind.portal, &bind.statement, bind.params, &bind.param_formats, &bind.result_formats)
                    .await;
                self.answer(result, backend::bind_complete);
                Ok(())
            }
            Frontend::Describe { target, name } => {
                self.describe(target, &name);
                Ok(())
            }
            Frontend::Execute { portal, rows_max } => self.execute(&portal, rows_max).await,
            Frontend::Close { target, name } => {
                match target {
                    frontend::Target::Statement => self.session.close_statement(&name),
                    frontend::Target::Portal => self.session.close_portal(&name),
                }
                backend::close_complete(&mut self.channel.output);
                Ok(())
            }
            Frontend::Flush => self.channel.flush().await,
            Frontend::Sync => self.sync().await,
            Frontend::Terminate => Err(Ending::Closed),
            // What is left of a COPY that failed on this side.
            Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
            Frontend::Password(Bytes { .. }) => {
                Err(Ending::Protocol(ProtocolError::violation("password message after the login")))
            }
            Frontend::FunctionCall => {
                self.session.error_occurred();
                let error =
                    SqlError::unsupported("function calls by the protocol's FunctionCall message are not supported")
                        .with_hint("Use SELECT function(...).");
                backend::error(&mut self.channel.output, &error);
                self.ready().await
            }
        }
    }

    /// `ReadyForQuery`, then everything goes out, even when more input is here already:
    /// the next statement may wait for something that the client does only after this answer.
    async fn ready(&mut self) -> Result<(), Ending> {
        respond::changes(&mut self.session, &mut self.channel.output);
        if self.channel.control.is_ending() {
            return Err(Ending::Terminated);
        }
        let status = self.session.transaction_status();
        if status == TransactionStatus::Idle {
            self.notify();
        }
        backend::ready(&mut self.channel.output, status);
        self.go_by_settings();
        self.channel.flush().await
    }
}
