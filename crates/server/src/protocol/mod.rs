//! The PostgreSQL frontend/backend protocol, version 3.0, as bytes.
//!
//! Why not `pgwire`'s own connection loop and message decoder: its loop allocates
//! a boxed future and several owned strings for each message and flushes per
//! response, it has no hook for a portal that suspends inside a stream of encoded
//! rows, and its decoders read past the end of a body that is shorter than its
//! fields say (a panic, or bytes of the next message). Here a message is first cut
//! out of the input by [`frame`], then decoded without copying by [`frontend`];
//! answers are appended to one output buffer by [`backend`]. `pgwire` still does
//! what is long and rare: startup packets, SCRAM and the messages around them.

pub mod backend;
pub mod frame;
pub mod frontend;

use std::fmt;

/// A client broke the protocol. The connection cannot go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProtocolError {
    /// SQLSTATE, `08P01` for nearly all.
    pub sqlstate: &'static str,
    /// Plain words, lower case, as PostgreSQL's messages.
    pub message: String,
}

impl ProtocolError {
    /// `08P01`, protocol violation.
    #[cold]
    pub fn violation(message: impl Into<String>) -> Self {
        Self { sqlstate: "08P01", message: message.into() }
    }
}

impl fmt::Display for ProtocolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for ProtocolError {}
