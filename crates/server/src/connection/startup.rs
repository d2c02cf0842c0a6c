//! From the first byte to the first `ReadyForQuery`.
//!
//! ```text
//! first packet: SSLRequest ──► 'S' and TLS, or 'N' ──┐
//!               GSSENCRequest ──► 'N' ───────────────┤ first packet again
//!               CancelRequest ──► cancel, close      │
//!               StartupMessage ◄─────────────────────┘
//!       ──► host rule, its proof (authenticate.rs) ──► place among max_connections ──► session
//! ```
//!
//! Invariants:
//! 1. Nothing that was sent in the clear before TLS is read after it.
//! 2. Each kind of encryption request is answered once.
//! 3. Before the login a client makes the server hold one socket and at most
//!    10 000 bytes and what one read brings beyond them.
//! 4. Whoever has not logged in takes no place among `max_connections`.

use std::sync::Arc;

use bytes::{Buf, BytesMut};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, GssEncRequest, NegotiateProtocolVersion, SecretKey, SslRequest, Startup,
};
use pgwire::messages::{DecodeContext, Message};
use pgwire::tokio::tokio_rustls::rustls;
use resurgam_sql::wire::SqlError;
use resurgam_sql::{LoginRefused, Session, SessionOptions};

use super::io::{Channel, Socket};
use super::{Ending, Shared, authenticate, respond};
use crate::access::Access;
use crate::events::{self, NAME_BYTES_MAX, Visitor};
use crate::protocol::backend;
use crate::protocol::{ProtocolError, frame};
use crate::registry::{Full, LoginFailure, SessionGuard};
use crate::tls::Tls;
use crate::unauthenticated::Place;

/// The role whose password may be in a file.
pub(super) const SUPERUSER: &str = "postgres";
/// Code of a CancelRequest packet.
const CANCEL_CODE: i32 = 80_877_102;

/// Why somebody did not get in.
pub struct Refusal {
    pub ending: Ending,
    /// `None`: it was no login that failed; the client went away, or asked for something else.
    pub failure: Option<LoginFailure>,
    /// For the log only.
    pub detail: Option<String>,
}

impl Refusal {
    pub(super) fn new(failure: LoginFailure, ending: Ending) -> Self {
        Self { ending, failure: Some(failure), detail: None }
    }
    pub(super) fn with_detail(self, detail: String) -> Self {
        let detail = match self.detail {
            Some(first) => format!("{first} {detail}"),
            None => detail,
        };
        Self { detail: Some(detail), ..self }
    }
}

impl From<Ending> for Refusal {
    fn from(ending: Ending) -> Self {
        let failure = matches!(ending, Ending::Protocol(_)).then_some(LoginFailure::Protocol);
        Self { ending, failure, detail: None }
    }
}

pub(super) fn fatal(sqlstate: &str, message: impl Into<String>) -> Ending {
    Ending::Fatal(SqlError::new(sqlstate, message).with_severity("FATAL"))
}

pub(super) fn violation(message: impl Into<String>) -> Ending {
    Ending::Protocol(ProtocolError::violation(message))
}

/// What a startup packet asked for.
struct Request {
    /// Settings for the session, in the order in which they apply.
    params: Vec<(String, String)>,
}

/// Logs a client in; `None` when the connection was a cancel request. `visitor` learns who it is.
pub async fn login(
    shared: &Arc<Shared>,
    access: &Access,
    channel: &mut Channel,
    place: &Place,
    visitor: &mut Visitor,
) -> Result<Option<(Session, SessionGuard)>, Refusal> {
    let Some(packet) = negotiate(shared, access, channel).await? else { return Ok(None) };
    let request = read_request(channel, packet, visitor)?;
    place.has_spoken();
    let logs = shared.settings.log_connections;
    let failed = |error: SqlError| Ending::Fatal(error.with_severity("FATAL"));
    let role = shared.database.login(&visitor.user).map_err(failed)?;
    authenticate::authenticate(access, channel, visitor, role.as_ref(), logs).await?;
    shared
        .database
        .check_login(&visitor.user, role.as_ref(), &visitor.database)
        .map_err(|LoginRefused(error)| Refusal::new(LoginFailure::Name, failed(error)))?;
    let guard = shared.registry.session(role.is_some_and(|role| role.is_superuser)).map_err(|full| match full {
        Full::All => fatal("53300", "sorry, too many clients already"),
        Full::Reserved => {
            fatal("53300", "remaining connection slots are reserved for non-replication superuser connections")
        }
    })?;
    channel.control = guard.control.clone();
    if channel.control.is_stopping() {
        return Err(fatal("57P03", "the database system is shutting down").into());
    }
    let options = SessionOptions {
        user: visitor.user.clone(),
        database: visitor.database.clone(),
        application_name: visitor.application.clone(),
        client_addr: Some(visitor.peer),
        server_addr: visitor.local,
        encryption: channel.encryption_details(),
        process_id: guard.process_id,
        params: request.params,
    };
    let mut session = shared.database.session(options).map_err(|error| Ending::Fatal(error.with_severity("FATAL")))?;
    guard.control.set_cancel(session.cancel_handle());
    encode(channel, &Authentication::Ok)?;
    for (name, value) in session.reported_parameters() {
        backend::parameter_status(&mut channel.output, &name, &value);
    }
    respond::changes(&mut session, &mut channel.output);
    encode(channel, &BackendKeyData::new(guard.process_id, SecretKey::I32(guard.secret)))?;
    backend::ready(&mut channel.output, session.transaction_status());
    channel.flush().await?;
    if logs {
        events::authorized(visitor, guard.process_id, channel.encryption().as_deref());
    }
    Ok(Some((session, guard)))
}

pub(super) fn encode(channel: &mut Channel, message: &impl Message) -> Result<(), Ending> {
    message.encode(&mut channel.output).map_err(|error| fatal("XX000", error.to_string()))
}

/// Answers encryption and cancel requests; gives out the StartupMessage.
async fn negotiate(shared: &Arc<Shared>, access: &Access, channel: &mut Channel) -> Result<Option<BytesMut>, Refusal> {
    let (mut ssl_asked, mut gss_asked) = (false, false);
    loop {
        let packet = startup_packet(channel).await?;
        let code = (&packet[4..8]).get_i32();
        match code {
            SslRequest::BODY_MAGIC_NUMBER if !ssl_asked && packet.len() == SslRequest::BODY_SIZE => {
                ssl_asked = true;
                let encrypted = matches!(channel.socket, Socket::Tls(_));
                match &access.tls {
                    Some(tls) if !encrypted => {
                        if !channel.input.is_empty() {
                            return Err(violation("received unencrypted data after SSL request").into());
                        }
                        channel.output.extend_from_slice(b"S");
                        channel.flush().await?;
                        encrypt(channel, tls).await?;
                        // The client may ask again for GSS, not for TLS.
                        gss_asked = true;
                    }
                    _ => {
                        channel.output.extend_from_slice(b"N");
                        channel.flush().await?;
                    }
                }
            }
            GssEncRequest::BODY_MAGIC_NUMBER if !gss_asked && packet.len() == GssEncRequest::BODY_SIZE => {
                gss_asked = true;
                if !channel.input.is_empty() {
                    return Err(violation("received unencrypted data after GSSAPI encryption request").into());
                }
                channel.output.extend_from_slice(b"N");
                channel.flush().await?;
            }
            CANCEL_CODE => {
                if packet.len() == 16 {
                    let mut body = &packet[8..];
                    let (process_id, secret) = (body.get_i32(), body.get_i32());
                    shared.registry.cancel(process_id, secret);
                }
                return Ok(None);
            }
            _ => return Ok(Some(packet)),
        }
    }
}

async fn startup_packet(channel: &mut Channel) -> Result<BytesMut, Ending> {
    loop {
        if let Some(packet) = frame::take_startup(&mut channel.input).map_err(Ending::Protocol)? {
            return Ok(packet);
        }
        channel.read_startup().await?;
    }
}

async fn encrypt(channel: &mut Channel, tls: &Tls) -> Result<(), Refusal> {
    let plain = channel.take_plain().ok_or_else(|| violation("TLS inside TLS"))?;
    match tls.acceptor.accept(plain).await {
        Ok(stream) => {
            channel.socket = Socket::Tls(Box::new(stream));
            Ok(())
        }
        Err(error) => {
            let detail = format!("could not accept SSL connection: {error}");
            let failure = match error.get_ref().and_then(|error| error.downcast_ref()) {
                Some(rustls::Error::InvalidCertificate(_)) => LoginFailure::Certificate,
                _ => LoginFailure::Protocol,
            };
            Err(Refusal::new(failure, Ending::Io(error)).with_detail(detail))
        }
    }
}

/// Reads a StartupMessage; unknown protocol extensions are answered with what the server has.
fn read_request(channel: &mut Channel, mut packet: BytesMut, visitor: &mut Visitor) -> Result<Request, Ending> {
    let version = (&packet[4..8]).get_i32();
    let (major, minor) = (version >> 16, version & 0xffff);
    if major != 3 {
        return Err(fatal(
            "0A000",
            format!("unsupported frontend protocol {major}.{minor}: server supports 3.0 to 3.0"),
        ));
    }
    if packet.last() != Some(&0) || packet.len() < 9 {
        return Err(violation("invalid startup packet layout: expected terminator as last byte"));
    }
    let startup = Startup::decode(&mut packet, &DecodeContext::default())
        .map_err(|error| violation(error.to_string()))?
        .ok_or_else(|| violation("incomplete startup packet"))?;
    if !packet.is_empty() {
        return Err(violation("invalid startup packet layout: bytes after the terminator"));
    }
    let extensions: Vec<String> = startup.parameters.keys().filter(|name| name.starts_with("_pq_.")).cloned().collect();
    if minor > 0 || !extensions.is_empty() {
        // As PostgreSQL: the whole version number, not the minor one only.
        encode(channel, &NegotiateProtocolVersion::new(Startup::PROTOCOL_VERSION_3_0, extensions))?;
    }
    let mut request = Request { params: Vec::new() };
    let mut options = String::new();
    for (name, value) in startup.parameters {
        match name.as_str() {
            "user" => visitor.user = cut(value),
            "database" => visitor.database = cut(value),
            "options" => options = value,
            "replication" if matches!(value.as_str(), "0" | "false" | "off" | "no") => {}
            "replication" => return Err(fatal("0A000", "replication connections are not supported")),
            "application_name" => visitor.application = value,
            name if name.starts_with("_pq_.") => {}
            // asyncpg sends the name within quotes; PostgreSQL ignores every character but letters and digits.
            "client_encoding" => request.params.push((name, value.trim_matches('\'').to_owned())),
            _ => request.params.push((name, value)),
        }
    }
    // Explicit parameters win over the same ones in `options`.
    let mut params = read_options(&options).map_err(|message| fatal("42601", message))?;
    params.append(&mut request.params);
    request.params = params;
    if visitor.user.is_empty() {
        return Err(fatal("28000", "no PostgreSQL user name specified in startup packet"));
    }
    if visitor.database.is_empty() {
        visitor.database.clone_from(&visitor.user);
    }
    Ok(request)
}

/// A name as PostgreSQL takes it: cut where it is too long.
fn cut(mut name: String) -> String {
    if name.len() > NAME_BYTES_MAX {
        let end = (0..=NAME_BYTES_MAX).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
        name.truncate(end);
    }
    name
}

/// The settings in a command-line style `options` value: `-c name=value`, `-cname=value`, `--name=value`.
fn read_options(options: &str) -> Result<Vec<(String, String)>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = options.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => word.get_or_insert_default().extend(chars.next()),
            c if c.is_ascii_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    let mut settings = Vec::new();
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let setting = if word == "-c" {
            words.next().ok_or("option -c needs name=value")?
        } else if let Some(setting) = word.strip_prefix("--").or_else(|| word.strip_prefix("-c")) {
            setting.to_owned()
        } else {
            return Err(format!("invalid command-line argument for server process: {word}"));
        };
        let (name, value) = setting.split_once('=').ok_or_else(|| format!("-c {setting} requires a value"))?;
        settings.push((name.replace('-', "_"), value.to_owned()));
    }
    Ok(settings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_as_postgresql_reads_them() {
        let read = read_options(r"-c a=1 -cb=x\ y --work-mem=8MB").unwrap();
        let expected = [("a", "1"), ("b", "x y"), ("work_mem", "8MB")];
        assert_eq!(read, expected.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(read_options("-c").is_err());
        assert!(read_options("-x").is_err());
        assert!(read_options("").unwrap().is_empty());
    }
}
