//! What is encrypted on one connection.
//!
//! The caller has the socket and the time: each call waits once, for so long at most, and is called again while there is time left.
//! Memory is bounded: a buffer for what comes, one record and one message of the handshake (64 KB) that wait to be whole, and what
//! waits to be sent.

use std::fmt;
use std::io::{self, Read, Write};
use std::time::Duration;

use rustls::pki_types::{ServerName, UnixTime};
use rustls::{ClientConnection, Connection, ServerConnection};

use super::{Tls, words};
use crate::frame::MAGIC;
use crate::socket::Socket;

/// Of what comes so much is taken from the socket at a time: a record is 16 KB, and a page half of that.
const INPUT_BYTES: usize = 32 << 10;

/// Why a connection is of no use.
#[derive(Debug)]
pub(crate) enum Fault {
    /// Of the socket; or there was nothing to be done yet.
    Io(io::Error),
    /// The peer has ended the connection without saying so.
    Cut,
    /// The peer speaks without TLS.
    Plain,
    Tls(rustls::Error),
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Fault> for io::Error {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Io(error) => error,
            fault => io::Error::other(fault.to_string()),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&words::of(self))
    }
}

pub(crate) struct Session {
    connection: Connection,
    /// What came and is not looked at yet.
    input: Box<[u8]>,
    at: usize,
    end: usize,
    has_begun: bool,
    is_refused: bool,
    /// Seconds since 1970 until which the peer's certificate is valid, once keys are agreed upon.
    peer_expires: Option<u64>,
}

impl Session {
    /// Of a client that has dialled `address` (`host:port`).
    ///
    /// # Errors
    /// A sentence: no certificate could have that name.
    pub fn client(tls: &Tls, address: &str) -> Result<Self, String> {
        let name = name_of(address)?;
        let client = ClientConnection::new(tls.current().client.clone(), name).map_err(|error| error.to_string())?;
        Ok(Self::new(client.into()))
    }

    /// Of a server.
    ///
    /// # Errors
    /// A sentence; there is no reason known.
    pub fn server(tls: &Tls) -> Result<Self, String> {
        let server = ServerConnection::new(tls.current().server.clone()).map_err(|error| error.to_string())?;
        Ok(Self::new(server.into()))
    }

    fn new(connection: Connection) -> Self {
        let input = vec![0; INPUT_BYTES].into_boxed_slice();
        Self { connection, input, at: 0, end: 0, has_begun: false, is_refused: false, peer_expires: None }
    }

    /// Keys are agreed upon: notes until when that holds.
    pub fn note_peer(&mut self, tls: &Tls) {
        self.peer_expires = self.connection.peer_certificates().and_then(|chain| tls.expires_of(chain));
    }

    /// Whether the peer's certificate is not valid any more.
    pub fn has_expired(&self) -> bool {
        self.peer_expires.is_some_and(|at| UnixTime::now().as_secs() > at)
    }

    /// Whether keys are yet to be agreed upon.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether the peer has sent anything.
    pub fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Whether the peer has said that it refuses this side, which a client hears after it has agreed to all.
    pub fn is_refused(&self) -> bool {
        self.is_refused
    }

    /// Whether something waits to be sent.
    pub fn wants_write(&self) -> bool {
        self.connection.wants_write()
    }

    /// Sends some of what waits.
    pub fn send(&mut self, socket: &mut Socket, left: Duration) -> Result<(), Fault> {
        socket.writes_within(left)?;
        match self.connection.write_tls(socket)? {
            0 => Err(Fault::Io(io::ErrorKind::WriteZero.into())),
            _ => Ok(()),
        }
    }

    /// Takes what is to be sent, as much of it as there is room for; some, when nothing waits.
    pub fn encrypt(&mut self, bytes: &[u8]) -> Result<usize, Fault> {
        match self.connection.writer().write(bytes)? {
            0 => Err(Fault::Io(io::ErrorKind::WriteZero.into())),
            taken => Ok(taken),
        }
    }

    /// Reads what the peer has said: 0 after its closing notice. `Interrupted`: something came, and there is nothing to be read yet.
    pub fn read(&mut self, socket: &mut Socket, left: Duration, bytes: &mut [u8]) -> Result<usize, Fault> {
        if let Some(read) = self.decrypted(bytes)? {
            return Ok(read);
        }
        self.receive(socket, left)?;
        self.decrypted(bytes)?.ok_or_else(|| Fault::Io(io::ErrorKind::Interrupted.into()))
    }

    fn decrypted(&mut self, bytes: &mut [u8]) -> Result<Option<usize>, Fault> {
        match self.connection.reader().read(bytes) {
            Ok(read) => Ok(Some(read)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(Fault::Io(error)),
        }
    }

    /// Takes what came, waiting for it if there is nothing. What was decrypted must have been read.
    pub fn receive(&mut self, socket: &mut Socket, left: Duration) -> Result<(), Fault> {
        if self.at == self.end {
            let read = socket.read_within(left, &mut self.input)?;
            if read == 0 {
                return Err(Fault::Cut);
            }
            (self.at, self.end) = (0, read);
            // The first byte of a record is none of these.
            if !self.has_begun && MAGIC.starts_with(&self.input[..read.min(MAGIC.len())]) {
                return Err(Fault::Plain);
            }
            self.has_begun = true;
        }
        let mut rest = &self.input[self.at..self.end];
        let taken = match self.connection.read_tls(&mut rest) {
            Ok(0) => return Err(Fault::Cut),
            Ok(taken) => taken,
            // There is no room for a message so long.
            Err(error) => return Err(Fault::Tls(rustls::Error::General(error.to_string()))),
        };
        self.at += taken;
        self.connection.process_new_packets().map(drop).map_err(|error| {
            self.is_refused |= matches!(error, rustls::Error::AlertReceived(_));
            Fault::Tls(error)
        })
    }

    /// Says that no more will come, if that can be said at once.
    pub fn end(&mut self, socket: &mut Socket) {
        self.connection.send_close_notify();
        if socket.set_nonblocking(true).is_ok() {
            let _ = self.connection.write_tls(socket);
        }
    }
}

/// Whose certificate is expected at `host:port`.
fn name_of(address: &str) -> Result<ServerName<'static>, String> {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host);
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    ServerName::try_from(host.to_owned())
        .map_err(|_| format!("{host:?} is neither a name nor an address that a certificate could have"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_addresses_are_those_that_were_dialled() {
        for (address, name) in [
            ("pages-1.example.com:5440", "pages-1.example.com"),
            ("10.0.0.7:5440", "10.0.0.7"),
            ("[fd00::7]:5440", "fd00::7"),
            ("localhost:1", "localhost"),
        ] {
            let found = name_of(address).expect(address);
            assert_eq!(found.to_str(), name);
            assert_eq!(matches!(found, ServerName::IpAddress(_)), name.parse::<std::net::IpAddr>().is_ok());
        }
        for address in ["[fe80::1%eth0]:5440", "two words:1", ":5440", ""] {
            assert!(name_of(address).is_err_and(|error| error.contains("neither")), "{address}");
        }
    }
}
