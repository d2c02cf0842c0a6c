//! Whether a client may come in: the host rule that is for it, and the proof that the rule asks for.
//!
//! Invariants:
//! 1. Only the message that is due is read, at most 1024 bytes of it (`PG_MAX_SASL_MESSAGE_LENGTH`).
//! 2. A client learns nothing but what it said itself and that it was refused; which rule did it is in the log.

use bytes::{Buf, Bytes};
use pgwire::api::auth::sasl::scram::ScramServerAuth;
use pgwire::error::PgWireError;
use pgwire::messages::startup::Authentication;
use resurgam_sql::Login;

use super::io::{Channel, Socket};
use super::startup::{Refusal, SUPERUSER, encode, fatal, violation};
use crate::access::Access;
use crate::auth::Verifier;
use crate::certificate;
use crate::events::{self, Visitor};
use crate::hba::{Client, ClientCert, Method, Rule};
use crate::registry::LoginFailure;

const SCRAM: &str = "SCRAM-SHA-256";
const SCRAM_PLUS: &str = "SCRAM-SHA-256-PLUS";

/// Lets a client in, or says why not.
pub(super) async fn authenticate(
    access: &Access,
    channel: &mut Channel,
    visitor: &Visitor,
    login: Option<&Login>,
    logs: bool,
) -> Result<(), Refusal> {
    let encrypted = matches!(channel.socket, Socket::Tls(_));
    let peer = visitor.peer.ip().to_canonical();
    let (user, database) = (visitor.user.as_str(), visitor.database.as_str());
    let whom = || {
        let encryption = if encrypted { "SSL encryption" } else { "no encryption" };
        format!("host \"{peer}\", user \"{user}\", database \"{database}\", {encryption}")
    };
    let refused = |message: String| Refusal::new(LoginFailure::HostRule, fatal("28000", message));
    let found = {
        let is_member = |role: &str| match login {
            Some(login) => login.is_member_of(role),
            None => role == user,
        };
        access.rules.find(&Client { peer, encrypted, user, database, is_member: &is_member })
    };
    let Some(rule) = found else {
        return Err(refused(format!("no pg_hba.conf entry for {}", whom())));
    };
    let matched = |refusal: Refusal| refusal.with_detail(matched(rule));
    if rule.method == Method::Reject {
        return Err(matched(refused(format!("pg_hba.conf rejects connection for {}", whom()))));
    }
    if rule.client_cert.is_some() {
        let failed = |ending| matched(Refusal::new(LoginFailure::Certificate, ending));
        if !access.tls.as_ref().is_some_and(|tls| tls.verifies_clients) {
            let what = "client certificates can only be checked if a root certificate store is available";
            return Err(failed(fatal("F0000", what)));
        }
        // One that is there was verified when the connection was encrypted.
        if peer_certificate(channel).is_none() {
            return Err(failed(fatal("28000", "connection requires a valid client certificate")));
        }
    }
    let mut identity = user.to_owned();
    match rule.method {
        Method::Scram | Method::Md5 => {
            let known = Known::of(access, user, login);
            scram(access, channel, &known, user).await.map_err(matched)?;
        }
        Method::Trust | Method::Reject | Method::Cert => {}
    }
    if rule.client_cert == Some(ClientCert::VerifyFull) {
        let name = peer_certificate(channel).and_then(certificate::common_name);
        if name.as_deref() != Some(user) {
            let certificate = match name {
                Some(name) => format!("the certificate's common name is \"{name}\""),
                None => "client certificate contains no user name".to_owned(),
            };
            let refusal = mismatch(rule, user);
            return Err(refusal.with_detail(format!("{certificate}; {}", self::matched(rule))));
        }
        identity = format!("CN={user}");
    }
    if logs && rule.method != Method::Trust {
        events::authenticated(visitor, &identity, rule.method.word(), rule.line);
    }
    Ok(())
}

/// Which rule was for a client, for the log.
fn matched(rule: &Rule) -> String {
    format!("Connection matched pg_hba.conf line {}: \"{}\"", rule.line, rule.raw)
}

/// The certificate says that the client is somebody else; told as the method's own failure.
fn mismatch(rule: &Rule, user: &str) -> Refusal {
    match rule.method {
        Method::Cert => {
            let what = format!("certificate authentication failed for user \"{user}\"");
            Refusal::new(LoginFailure::Certificate, fatal("28000", what))
        }
        method if method.asks_password() => password_failed(user),
        method => {
            let what = format!("\"{}\" authentication failed for user \"{user}\"", method.word());
            Refusal::new(LoginFailure::Certificate, fatal("28000", what))
        }
    }
}

fn password_failed(user: &str) -> Refusal {
    let what = format!("password authentication failed for user \"{user}\"");
    Refusal::new(LoginFailure::Password, fatal("28P01", what))
}

/// The certificate that the client has shown, in DER.
fn peer_certificate(channel: &Channel) -> Option<&[u8]> {
    match &channel.socket {
        Socket::Tls(stream) => Some(stream.get_ref().1.peer_certificates()?.first()?.as_ref()),
        _ => None,
    }
}

/// The verifier that a password is compared with.
struct Known {
    verifier: Verifier,
    /// Why nobody gets in whatever the password is; for the log.
    refused: Option<String>,
}

impl Known {
    /// The role's own; the first user's may be in a file. Who is not there goes through the same exchange.
    fn of(access: &Access, user: &str, login: Option<&Login>) -> Self {
        let own = login.and_then(|login| login.verifier.as_deref()).map(Verifier::new);
        let of_file = || access.verifier.clone().filter(|_| user == SUPERUSER && login.is_some_and(|l| !l.is_expired));
        let found = match own {
            Some(Ok(verifier)) => Some(verifier),
            Some(Err(_)) => None,
            None => of_file(),
        };
        let why = match login {
            None => format!("Role \"{user}\" does not exist."),
            Some(login) if login.is_expired => format!("User \"{user}\" has an expired password."),
            Some(_) => format!("User \"{user}\" has no password assigned."),
        };
        match found {
            Some(verifier) => Self { verifier, refused: None },
            None => Self { verifier: Verifier::of_nobody(user), refused: Some(why) },
        }
    }
}

/// The SCRAM-SHA-256 exchange, with channel binding when the connection is encrypted.
async fn scram(access: &Access, channel: &mut Channel, known: &Known, user: &str) -> Result<(), Refusal> {
    let mut server = ScramServerAuth::new();
    if let (Some(tls), Socket::Tls(_)) = (&access.tls, &channel.socket)
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

    let (mechanism, first) = initial_response(&channel.sasl_response().await?)?;
    if !mechanisms.contains(&mechanism) {
        return Err(violation("client selected an invalid SASL authentication mechanism").into());
    }
    let malformed = |error: PgWireError| violation(format!("malformed SCRAM message: {error}"));
    let (server_first, exchange) =
        server.on_client_first_message_with_secret(&first, known.verifier.secret()).map_err(malformed)?;
    encode(channel, &Authentication::SASLContinue(server_first.into()))?;
    channel.flush().await?;

    let proof = channel.sasl_response().await?;
    match exchange.on_client_final_message(&proof) {
        Ok(server_final) if known.refused.is_none() => {
            encode(channel, &Authentication::SASLFinal(server_final.into()))?;
            Ok(())
        }
        Ok(_) | Err(PgWireError::InvalidPassword(_)) => match &known.refused {
            Some(why) => Err(password_failed(user).with_detail(why.clone())),
            None => Err(password_failed(user)),
        },
        Err(error) => Err(malformed(error).into()),
    }
}

/// Mechanism and data of a SASLInitialResponse.
fn initial_response(body: &Bytes) -> Result<(String, Bytes), Refusal> {
    let malformed = || Refusal::from(violation("malformed SASLInitialResponse message"));
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

    proptest::proptest! {
        #[test]
        fn startup_bodies_never_panic(body in proptest::collection::vec(proptest::num::u8::ANY, 0..60)) {
            let _ = initial_response(&Bytes::from(body));
        }
    }
}
