//! From the first byte to the first `ReadyForQuery`.
//!
//! ```text
//! first packet: SSLRequest ──► 'S' and TLS, or 'N' ──┐
//!               GSSENCRequest ──► 'N' ───────────────┤ first packet again
//!               CancelRequest ──► cancel, close      │
//!               StartupMessage ◄─────────────────────┘
//!       ──► place among max_connections ──► SCRAM or trust ──► session
//! ```
//!
//! Invariants:
//! 1. Nothing that was sent in the clear before TLS is read after it.
//! 2. Each kind of encryption request is answered once.
//! 3. Before the login a client makes the server hold one socket and at most
//!    10 000 bytes (65 535 for a password message).

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::{Buf, Bytes, BytesMut};
use pgwire::api::auth::sasl::scram::ScramServerAuth;
use pgwire::messages::startup::{
    Authentication, BackendKeyData, GssEncRequest, NegotiateProtocolVersion, SecretKey, SslRequest, Startup,
};
use pgwire::messages::{DecodeContext, Message};
use resurgam_sql::wire::SqlError;
use resurgam_sql::{Session, SessionOptions};

use super::io::{Channel, Socket};
use super::{Ending, Shared, respond};
use crate::auth::Verifier;
use crate::protocol::backend;
use crate::protocol::{ProtocolError, frame};
use crate::registry::SessionGuard;

/// The one role and the one database.
const SUPERUSER: &str = "postgres";
const DATABASE: &str = "postgres";
/// Code of a CancelRequest packet.
const CANCEL_CODE: i32 = 80_877_102;
const SCRAM: &str = "SCRAM-SHA-256";
const SCRAM_PLUS: &str = "SCRAM-SHA-256-PLUS";

fn fatal(sqlstate: &str, message: impl Into<String>) -> Ending {
    Ending::Fatal(Box::new(SqlError { severity: "FATAL", ..SqlError::new(sqlstate, message) }))
}

fn violation(message: impl Into<String>) -> Ending {
    Ending::Protocol(ProtocolError::violation(message))
}

/// What a startup packet asked for.
struct Request {
    user: String,
    database: String,
    application_name: String,
    /// Settings for the session, in the order in which they apply.
    params: Vec<(String, String)>,
}

/// Logs a client in; `None` when the connection was a cancel request.
pub async fn login(
    shared: &Arc<Shared>,
    channel: &mut Channel,
    peer: SocketAddr,
) -> Result<Option<(Session, SessionGuard)>, Ending> {
    let Some(packet) = negotiate(shared, channel).await? else { return Ok(None) };
    let request = read_request(channel, packet)?;
    let guard = shared.registry.session().ok_or_else(|| fatal("53300", "sorry, too many clients already"))?;
    channel.control = guard.control.clone();
    if channel.control.is_stopping() {
        return Err(fatal("57P03", "the database system is shutting down"));
    }
    match &shared.verifier {
        Some(verifier) => scram(shared, channel, verifier, &request.user).await?,
        None if request.user != SUPERUSER => {
            let error = SqlError::new("28000", format!("role \"{}\" does not exist", request.user))
                .with_hint("Connect as the user postgres (psql -U postgres).");
            return Err(Ending::Fatal(Box::new(SqlError { severity: "FATAL", ..error })));
        }
        None => {}
    }
    if request.database != DATABASE {
        let error = SqlError::new("3D000", format!("database \"{}\" does not exist", request.database))
            .with_hint("The one database is postgres.");
        return Err(Ending::Fatal(Box::new(SqlError { severity: "FATAL", ..error })));
    }
    let options = SessionOptions {
        user: request.user,
        database: request.database,
        application_name: request.application_name,
        client_addr: Some(peer),
        process_id: guard.process_id,
        params: request.params,
    };
    let mut session = shared
        .database
        .session(options)
        .map_err(|error| Ending::Fatal(Box::new(SqlError { severity: "FATAL", ..error })))?;
    guard.control.set_cancel(session.cancel_handle());
    encode(channel, &Authentication::Ok)?;
    for (name, value) in session.reported_parameters() {
        backend::parameter_status(&mut channel.output, &name, &value);
    }
    respond::changes(&mut session, &mut channel.output);
    encode(channel, &BackendKeyData::new(guard.process_id, SecretKey::I32(guard.secret)))?;
    backend::ready(&mut channel.output, session.transaction_status());
    channel.flush().await?;
    Ok(Some((session, guard)))
}

fn encode(channel: &mut Channel, message: &impl Message) -> Result<(), Ending> {
    message.encode(&mut channel.output).map_err(|error| fatal("XX000", error.to_string()))
}

/// Answers encryption and cancel requests; gives out the StartupMessage.
async fn negotiate(shared: &Arc<Shared>, channel: &mut Channel) -> Result<Option<BytesMut>, Ending> {
    let (mut ssl_asked, mut gss_asked) = (false, false);
    loop {
        let packet = startup_packet(channel).await?;
        let code = (&packet[4..8]).get_i32();
        match code {
            SslRequest::BODY_MAGIC_NUMBER if !ssl_asked && packet.len() == SslRequest::BODY_SIZE => {
                ssl_asked = true;
                let encrypted = matches!(channel.socket, Socket::Tls(_));
                match &shared.tls {
                    Some(tls) if !encrypted => {
                        if !channel.input.is_empty() {
                            return Err(violation("received unencrypted data after SSL request"));
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
                    return Err(violation("received unencrypted data after GSSAPI encryption request"));
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

async fn encrypt(channel: &mut Channel, tls: &crate::tls::Tls) -> Result<(), Ending> {
    let plain = channel.take_plain().ok_or_else(|| violation("TLS inside TLS"))?;
    let stream = tls.acceptor.accept(plain).await.map_err(Ending::Io)?;
    channel.socket = Socket::Tls(Box::new(stream));
    Ok(())
}

/// Reads a StartupMessage; unknown protocol extensions are answered with what the server has.
fn read_request(channel: &mut Channel, mut packet: BytesMut) -> Result<Request, Ending> {
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
    let mut request =
        Request { user: String::new(), database: String::new(), application_name: String::new(), params: Vec::new() };
    let mut options = String::new();
    for (name, value) in startup.parameters {
        match name.as_str() {
            "user" => request.user = value,
            "database" => request.database = value,
            "options" => options = value,
            "replication" if matches!(value.as_str(), "0" | "false" | "off" | "no") => {}
            "replication" => return Err(fatal("0A000", "replication connections are not supported")),
            "application_name" => request.application_name = value,
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
    if request.user.is_empty() {
        return Err(fatal("28000", "no PostgreSQL user name specified in startup packet"));
    }
    if request.database.is_empty() {
        request.database.clone_from(&request.user);
    }
    Ok(request)
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

/// The SCRAM-SHA-256 exchange, with channel binding when the connection is encrypted.
async fn scram(shared: &Arc<Shared>, channel: &mut Channel, verifier: &Verifier, user: &str) -> Result<(), Ending> {
    let mut server = ScramServerAuth::new();
    if let (Some(tls), Socket::Tls(_)) = (&shared.tls, &channel.socket)
        && let Err(error) = server.configure_certificate(&tls.certificates_pem)
    {
        tracing::debug!("no channel binding with this certificate: {error}");
    }
    let mut mechanisms = vec![SCRAM.to_owned()];
    if server.supports_channel_binding() {
        mechanisms.insert(0, SCRAM_PLUS.to_owned());
    }
    encode(channel, &Authentication::SASL(mechanisms.clone()))?;
    channel.flush().await?;

    let (mechanism, first) = initial_response(&password_message(channel).await?)?;
    if !mechanisms.contains(&mechanism) {
        return Err(violation("client selected an invalid SASL authentication mechanism"));
    }
    let malformed = |error: pgwire::error::PgWireError| violation(format!("malformed SCRAM message: {error}"));
    let (server_first, exchange) =
        server.on_client_first_message_with_secret(&first, verifier.secret()).map_err(malformed)?;
    encode(channel, &Authentication::SASLContinue(server_first.into()))?;
    channel.flush().await?;

    let proof = password_message(channel).await?;
    match exchange.on_client_final_message(&proof) {
        Ok(server_final) if user == SUPERUSER => encode(channel, &Authentication::SASLFinal(server_final.into())),
        Ok(_) | Err(pgwire::error::PgWireError::InvalidPassword(_)) => {
            Err(fatal("28P01", format!("password authentication failed for user \"{user}\"")))
        }
        Err(error) => Err(malformed(error)),
    }
}

async fn password_message(channel: &mut Channel) -> Result<Bytes, Ending> {
    let frame = channel.next(None).await?;
    if frame.tag != b'p' {
        return Err(violation(format!("expected SASL response, got message type {}", frame.tag)));
    }
    Ok(frame.body)
}

/// Mechanism and data of a SASLInitialResponse.
fn initial_response(body: &Bytes) -> Result<(String, Bytes), Ending> {
    let malformed = || violation("malformed SASLInitialResponse message");
    let end = body.iter().position(|&byte| byte == 0).ok_or_else(malformed)?;
    let mechanism = std::str::from_utf8(&body[..end]).map_err(|_| malformed())?.to_owned();
    let mut rest = body.slice(end + 1..);
    if rest.len() < 4 {
        return Err(malformed());
    }
    let length = rest.get_i32();
    if usize::try_from(length) != Ok(rest.len()) {
        return Err(malformed());
    }
    Ok((mechanism, rest))
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

    proptest::proptest! {
        #[test]
        fn startup_bodies_never_panic(body in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            let _ = initial_response(&Bytes::from(body));
        }
    }
}
