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
//! 4. `ReadyForQuery` of a transaction that wrote follows its durable commit: the
//!    session's `sync` and `execute_simple` return only then.

mod copy;
mod extended;
pub mod io;
mod respond;
mod simple;
pub mod startup;

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use bytes::Bytes;
use futures::FutureExt;
use resurgam_sql::wire::{SqlError, TransactionStatus};
use resurgam_sql::{Session, SqlDatabase};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

use crate::auth::Verifier;
use crate::protocol::ProtocolError;
use crate::protocol::backend;
use crate::protocol::frame::Frame;
use crate::protocol::frontend::{self, DecodeError, Frontend};
use crate::registry::{Registry, SessionGuard};
use crate::settings::Settings;
use crate::tls::Tls;
use io::{Channel, Socket};

/// What all connections of a server share.
pub struct Shared {
    pub database: Arc<SqlDatabase>,
    pub settings: Settings,
    pub registry: Arc<Registry>,
    pub tls: Option<Tls>,
    /// `None`: every client is trusted.
    pub verifier: Option<Verifier>,
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
    /// Any other reason, told to the client.
    Fatal(Box<SqlError>),
}

impl Ending {
    /// What the client is told, if it still listens.
    fn farewell(&self) -> Option<SqlError> {
        let fatal =
            |sqlstate: &str, message: &str| Some(SqlError { severity: "FATAL", ..SqlError::new(sqlstate, message) });
        match self {
            Self::Closed | Self::Cut | Self::Io(_) => None,
            Self::Protocol(error) => fatal(error.sqlstate, &error.message),
            Self::Stopping => fatal("57P01", "terminating connection due to administrator command"),
            Self::IdleInTransaction => fatal("25P03", "terminating connection due to idle-in-transaction timeout"),
            Self::Fatal(error) => Some((**error).clone()),
        }
    }
}

/// Serves one accepted socket until it closes. Never panics, never fails: the outcome is logged.
pub async fn run(shared: Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let message_bytes_max = usize::try_from(shared.settings.message_bytes_max.0).unwrap_or(usize::MAX);
    let mut channel = Channel::new(Socket::Plain(stream), message_bytes_max);
    let outcome = AssertUnwindSafe(serve(&shared, &mut channel, peer)).catch_unwind().await;
    let ending = outcome.unwrap_or_else(|panic| {
        let what = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let what = what.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "unknown panic".into());
        tracing::error!(%peer, "a session failed inside the server: {what}");
        let error = SqlError::internal(format!("internal error: {what}"))
            .with_hint("This is a bug in Resurgam; the connection was closed and its transaction rolled back.");
        Ending::Fatal(Box::new(SqlError { severity: "FATAL", ..error }))
    });
    if let Some(error) = ending.farewell() {
        tracing::debug!(%peer, "connection ends: {}", error.message);
        // Answers that are not sent yet belong before the farewell, except a half-written one.
        backend::error(&mut channel.output, &error);
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), channel.flush()).await;
    } else {
        tracing::debug!(%peer, "connection ended: {ending:?}");
    }
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), channel.socket.shutdown()).await;
}

async fn serve(shared: &Arc<Shared>, channel: &mut Channel, peer: SocketAddr) -> Ending {
    let limit = shared.settings.authentication_timeout;
    let login = startup::login(shared, channel, peer);
    let opened = if limit.is_zero() {
        login.await
    } else {
        match tokio::time::timeout(limit, login).await {
            Ok(opened) => opened,
            Err(_) => {
                let error = SqlError::new("08006", "canceling authentication due to timeout");
                return Ending::Fatal(Box::new(SqlError { severity: "FATAL", ..error }));
            }
        }
    };
    match opened {
        Ok(Some((session, guard))) => {
            let mut connection = Connection { channel, session, skipping: false, _guard: guard };
            match connection.serve().await {
                Ok(never) => match never {},
                Err(ending) => ending,
            }
        }
        Ok(None) => Ending::Closed,
        Err(ending) => ending,
    }
}

/// A logged-in client.
struct Connection<'a> {
    channel: &'a mut Channel,
    session: Session,
    /// An extended-protocol message failed; wait for Sync.
    skipping: bool,
    _guard: SessionGuard,
}

impl Connection<'_> {
    async fn serve(&mut self) -> Result<std::convert::Infallible, Ending> {
        loop {
            let frame = match self.channel.buffered()? {
                Some(frame) => frame,
                None => self.wait().await?,
            };
            self.handle(frame).await?;
        }
    }

    /// Waits for a message while no statement runs.
    async fn wait(&mut self) -> Result<Frame, Ending> {
        let idle_max = match self.session.transaction_status() {
            TransactionStatus::Idle => None,
            _ => self.session.idle_in_transaction_timeout(),
        };
        self.channel.next(idle_max).await
    }

    async fn handle(&mut self, frame: Frame) -> Result<(), Ending> {
        if self.skipping && !matches!(frame.tag, b'S' | b'X') {
            return Ok(());
        }
        let message = match frontend::decode(&frame) {
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
        backend::ready(&mut self.channel.output, self.session.transaction_status());
        self.channel.flush().await
    }
}
