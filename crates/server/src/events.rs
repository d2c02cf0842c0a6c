//! Lines of the log about connections, in PostgreSQL's words: who came, who got in, who did not and why, who left, and
//! which statements took long.
//!
//! Contract: one event is one line, whatever a client has put into its names and texts; never a password.

use std::fmt::Write;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Longest text of a statement in a line, in bytes.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Longest name of a user or a database, in bytes; PostgreSQL cuts longer ones (`NAMEDATALEN`).
pub const NAME_BYTES_MAX: usize = 63;

/// The client of a connection, as far as it has said who it is.
#[derive(Clone, Debug)]
pub struct Visitor {
    pub peer: SocketAddr,
    /// Where it has come to.
    pub local: Option<SocketAddr>,
    pub since: Instant,
    pub user: String,
    pub database: String,
    pub application: String,
}

impl Visitor {
    /// Somebody who has said nothing yet.
    pub fn new(peer: SocketAddr, local: Option<SocketAddr>) -> Self {
        let (user, database, application) = Default::default();
        Self { peer, local, since: Instant::now(), user, database, application }
    }

    /// Address and port.
    fn place(&self) -> String {
        format!("host={} port={}", self.peer.ip().to_canonical(), self.peer.port())
    }

    /// `user=… database=…`, as far as they are known.
    fn names(&self) -> String {
        let mut out = String::new();
        for (name, value) in [("user", &self.user), ("database", &self.database)] {
            if !value.is_empty() {
                let _ = write!(out, " {name}={}", one_line(value));
            }
        }
        out
    }
}

/// A text without anything that ends a line or steers a terminal.
fn one_line(text: &str) -> String {
    text.chars().flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] }).collect()
}

/// `log_connections`: a socket was accepted.
pub fn received(visitor: &Visitor) {
    tracing::info!("connection received: {}", visitor.place());
}

/// `log_connections`: the client has proved who it is.
pub fn authenticated(visitor: &Visitor, identity: &str, method: &str, line: u32) {
    tracing::info!(
        "connection authenticated: identity=\"{}\" method={method} (host rule {line}) {}",
        one_line(identity),
        visitor.place()
    );
}

/// `log_connections`: a session has begun. `encryption`: for instance `TLSv1_3 TLS13_AES_256_GCM_SHA384`.
pub fn authorized(visitor: &Visitor, process_id: i32, encryption: Option<&str>) {
    let mut more = String::new();
    if !visitor.application.is_empty() {
        let _ = write!(more, " application_name={}", one_line(&visitor.application));
    }
    if let Some(encryption) = encryption {
        let _ = write!(more, " SSL enabled ({encryption})");
    }
    tracing::info!("connection authorized:{}{more} {} pid={process_id}", visitor.names(), visitor.place());
}

/// A login failed; always logged.
pub fn refused(visitor: &Visitor, sqlstate: &str, reason: &str, detail: Option<&str>) {
    let detail = detail.map(|detail| format!(" ({})", one_line(detail))).unwrap_or_default();
    tracing::warn!("login failed: {sqlstate} {}{detail}: {}{}", one_line(reason), visitor.place(), visitor.names());
}

/// `log_disconnections`: a session has ended.
pub fn disconnected(visitor: &Visitor, process_id: i32, reason: Option<&str>) {
    let time = visitor.since.elapsed();
    let seconds = time.as_secs();
    let reason = reason.map(|reason| format!(" reason=\"{}\"", one_line(reason))).unwrap_or_default();
    tracing::info!(
        "disconnection: session time: {}:{:02}:{:02}.{:03}{} {} pid={process_id}{reason}",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        time.subsec_millis(),
        visitor.names(),
        visitor.place(),
    );
}

/// `log_min_duration_statement`: a statement took long. `step`: `statement`, `parse <unnamed>`, `execute name`…
pub fn lasted(visitor: &Visitor, process_id: i32, time: Duration, step: &str, text: &str) {
    tracing::info!(
        "duration: {:.3} ms  {}: {} {} pid={process_id}",
        time.as_secs_f64() * 1e3,
        one_line(step),
        one_line(&shown(text)),
        visitor.names().trim_start()
    );
}

/// A statement's text, cut, and without what follows the word PASSWORD.
pub fn shown(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let cut = if end < text.len() { " …" } else { "" };
    let text = &text[..end];
    // Byte by byte the same length, so that positions are those of the text.
    let lower = text.to_ascii_lowercase();
    let mut out = String::with_capacity(text.len());
    let mut from = 0;
    while let Some(at) = lower[from..].find("password") {
        let after = from + at + "password".len();
        out.push_str(&text[from..after]);
        let rest = text[after..].trim_start();
        from = after;
        let quote =
            rest.find('\'').filter(|at| rest[..*at].chars().all(|c| c.is_ascii_alphabetic() || c == '&' || c == '='));
        if let Some(quote) = quote {
            out.push_str(" <REDACTED>");
            // To the end of the literal; "''" within it is a quote.
            let mut body = rest[quote + 1..].char_indices().peekable();
            let begin = text.len() - rest.len() + quote + 1;
            from = text.len();
            while let Some((at, c)) = body.next() {
                match c {
                    '\\' => drop(body.next()),
                    '\'' if body.peek().is_some_and(|(_, next)| *next == '\'') => drop(body.next()),
                    '\'' => {
                        from = begin + at + 1;
                        break;
                    }
                    _ => {}
                }
            }
        }
    }
    out.push_str(&text[from..]);
    out.push_str(cut);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_makes_a_line_of_its_own() {
        assert_eq!(one_line("a\nlogin failed: b\x1b[2J\r"), "a\\nlogin failed: b\\u{1b}[2J\\r");
    }

    #[test]
    fn passwords_are_not_shown() {
        for (text, expected) in [
            ("alter role a password 'x'", "alter role a password <REDACTED>"),
            ("alter role a PASSWORD 'it''s' valid", "alter role a PASSWORD <REDACTED> valid"),
            ("create role a password E'a\\'b' login", "create role a password <REDACTED> login"),
            ("alter role a password 'not closed", "alter role a password <REDACTED>"),
            ("select password from t where a = 'x'", "select password from t where a = 'x'"),
            ("update t set password='x', b = 'y'", "update t set password <REDACTED>, b = 'y'"),
        ] {
            assert_eq!(shown(text), expected);
        }
        assert!(shown(&"é".repeat(TEXT_BYTES_MAX)).len() < TEXT_BYTES_MAX + 8);
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_shown(text in "(password|[ '=\\\\é]|[a-c])*") {
            let _ = shown(&text);
        }
    }
}
