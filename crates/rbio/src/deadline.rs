//! Reads and writes of a socket that end in time, encrypted or not.

use std::io::{ErrorKind as Io, IoSlice, Write};
use std::net::{Shutdown, TcpStream};
use std::time::{Duration, Instant};

use resurgam_base::{Error, ErrorKind, Result};

use crate::socket::Socket;
use crate::tls::{Fault, Session, Tls};

/// Between two looks whether to go on waiting.
const LOOK: Duration = Duration::from_millis(50);
/// A peer that is refused gets so long to take what it is told, and so many bytes of it are thrown away meanwhile: with some of them
/// unread its system would tell it of a lost connection, and of nothing else.
const LINGER: Duration = Duration::from_secs(1);
const LINGER_BYTES: usize = 256 << 10;
/// So much is taken from the socket at a time, where less is wanted: a frame with a page comes in one call. With TLS a record does.
const INPUT_BYTES: usize = 16 << 10;

/// Whether who waits is told to stop.
pub(crate) type Stop<'a> = Option<&'a dyn Fn() -> bool>;

/// A socket, with the moment at which whoever waits for it gives up.
pub(crate) struct Timed {
    stream: Socket,
    /// None: what is said is not encrypted.
    session: Option<Box<Session>>,
    /// What came and was not asked for yet, without TLS; made when it is needed.
    input: Box<[u8]>,
    at: usize,
    end: usize,
    peer: String,
    until: Instant,
}

/// Why keys were not agreed upon with a client.
pub(crate) enum Refusal {
    /// It has said nothing, and has gone or was silent for too long.
    Silent,
    /// It speaks without TLS, and has to be told so without.
    Plain(Error),
    Other(Error),
}

impl Timed {
    pub fn new(stream: TcpStream, peer: String) -> Result<Self> {
        let stream = Socket::new(stream).map_err(|e| failed(&peer, "set up", &e))?;
        Ok(Self { stream, session: None, input: Box::default(), at: 0, end: 0, peer, until: Instant::now() })
    }

    /// Agrees on keys with the server that was dialled as `address`. That is counted by whoever hears the first answer: the server may
    /// have refused this side's certificate, which it looks at only now.
    ///
    /// # Errors
    /// `Io`, with the reason; also when it is not done in time, and when it is told to stop.
    pub fn encrypt_as_client(&mut self, tls: &Tls, address: &str, stop: Stop<'_>) -> Result<()> {
        let session = Session::client(tls, address).map_err(|why| self.no_keys(&std::io::Error::other(why)))?;
        match self.agree(session, stop) {
            Ok(mut session) => {
                session.note_peer(tls);
                self.session = Some(session);
                Ok(())
            }
            Err((_, error, is_refused)) => {
                if is_refused {
                    tls.refused();
                }
                Err(error)
            }
        }
    }

    /// Agrees on keys with a client.
    ///
    /// # Errors
    /// The reason, and nothing is said to it of [`Refusal::Plain`] yet.
    pub fn encrypt_as_server(&mut self, tls: &Tls) -> std::result::Result<(), Refusal> {
        let session = Session::server(tls).map_err(|why| Refusal::Other(self.no_keys(&std::io::Error::other(why))))?;
        match self.agree(session, None) {
            Ok(mut session) => {
                tls.agreed();
                session.note_peer(tls);
                self.session = Some(session);
                Ok(())
            }
            Err((Fault::Plain, error, _)) => {
                tls.refused();
                Err(Refusal::Plain(error))
            }
            Err((Fault::Io(_) | Fault::Cut, _, false)) => Err(Refusal::Silent),
            Err((_, error, _)) => {
                tls.refused();
                Err(Refusal::Other(error))
            }
        }
    }

    /// Why it has failed, as it is and in words, and whether that is for something that the peer has said.
    fn agree(&mut self, session: Session, stop: Stop<'_>) -> std::result::Result<Box<Session>, (Fault, Error, bool)> {
        let mut session = Box::new(session);
        let outcome = loop {
            // A peer that sends little by little is never waited for.
            if stop.is_some_and(|stop| stop()) {
                break Err((Fault::Io(Io::Interrupted.into()), self.stopped()));
            }
            let left = match self.left() {
                Ok(left) => left,
                Err(error) => break Err((Fault::Io(Io::TimedOut.into()), error)),
            };
            let step = if session.wants_write() {
                session.send(&mut self.stream, left)
            } else if session.is_handshaking() {
                session.receive(&mut self.stream, if stop.is_some() { left.min(LOOK) } else { left })
            } else {
                break Ok(());
            };
            match step {
                Ok(()) => {}
                Err(Fault::Io(error)) if waits(&error) => {}
                Err(Fault::Io(error)) => {
                    let said = self.no_keys(&error);
                    break Err((Fault::Io(error), said));
                }
                Err(fault) => {
                    let said = self.no_keys(&std::io::Error::other(fault.to_string()));
                    break Err((fault, said));
                }
            }
        };
        match outcome {
            Ok(()) => Ok(session),
            Err((fault, error)) => {
                if matches!(fault, Fault::Tls(_)) && session.wants_write() {
                    // What the peer is to be told, if it takes it at once.
                    let _ = session.send(&mut self.stream, LOOK);
                }
                let is_refused = match &fault {
                    // By whoever waits on this side.
                    Fault::Io(error) if error.kind() == Io::Interrupted => false,
                    Fault::Plain | Fault::Tls(_) => true,
                    Fault::Io(_) | Fault::Cut => session.has_begun(),
                };
                Err((fault, error, is_refused))
            }
        }
    }

    /// Whether the peer has said, after keys were agreed upon, that it refuses this side.
    pub fn is_refused(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.is_refused())
    }

    /// Whether the certificate with which the peer came is not valid any more: the connection is over.
    pub fn has_expired(&self) -> bool {
        self.session.as_ref().is_some_and(|session| session.has_expired())
    }

    /// Ends the connection of a peer that is refused, so that it finds what it was told before that.
    pub fn end_refused(&mut self) {
        let until = Instant::now() + LINGER;
        if let Some(session) = &mut self.session {
            // Without a closing notice the end could be anybody's.
            session.end(&mut self.stream);
            if self.stream.set_nonblocking(false).is_err() {
                return;
            }
        }
        if self.stream.shutdown(Shutdown::Write).is_err() {
            return;
        }
        let mut thrown_away = [0; 4096];
        let mut bytes = 0;
        while bytes < LINGER_BYTES {
            let left = until.saturating_duration_since(Instant::now());
            if left < Duration::from_micros(1) {
                return;
            }
            match self.stream.read_within(left, &mut thrown_away) {
                Ok(read @ 1..) => bytes += read,
                // The wait may have ended a little early.
                Err(error) if waits(&error) => {}
                _ => return,
            }
        }
    }

    /// Everything until the next call is to be done by then.
    pub fn set_time(&mut self, most: Duration) {
        self.until = Instant::now() + most;
    }

    pub fn peer(&self) -> &str {
        &self.peer
    }

    fn left(&self) -> Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left < Duration::from_micros(1) {
            return Err(Error::new(ErrorKind::Io, format!("{} did not answer in time", self.peer)));
        }
        Ok(left)
    }

    /// Where the peer has reached this side.
    pub fn here(&self) -> String {
        self.stream.local_addr().map_or_else(|_| "this address".into(), |address| address.to_string())
    }

    #[cold]
    fn no_keys(&self, error: &std::io::Error) -> Error {
        failed(&self.peer, "agree on encryption with", error)
    }

    #[cold]
    fn stopped(&self) -> Error {
        Error::new(ErrorKind::Io, format!("{} is not waited for any longer", self.peer))
    }

    /// # Errors
    /// `Io`.
    pub fn write_all(&mut self, mut bytes: &[u8]) -> Result<()> {
        if let Some(session) = self.session.take() {
            let mut session = session;
            let outcome = self.write_encrypted(&mut session, bytes);
            self.session = Some(session);
            return outcome;
        }
        while !bytes.is_empty() {
            let left = self.left()?;
            let outcome = self.stream.writes_within(left).and_then(|()| self.stream.write(bytes));
            match outcome {
                Ok(0) => return Err(failed(&self.peer, "write to", &Io::WriteZero.into())),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if waits(&error) => {}
                Err(error) => return Err(failed(&self.peer, "write to", &error)),
            }
        }
        Ok(())
    }

    /// As [`Timed::write_all`], of parts one behind the other. They are not the caller's to use afterwards.
    ///
    /// # Errors
    /// `Io`.
    pub fn write_all_parts(&mut self, mut parts: &mut [IoSlice<'_>]) -> Result<()> {
        if self.session.is_some() {
            // What is encrypted is copied all the same.
            let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
            parts.iter().for_each(|part| bytes.extend_from_slice(part));
            return self.write_all(&bytes);
        }
        // Of what is empty nothing can be written.
        IoSlice::advance_slices(&mut parts, 0);
        while !parts.is_empty() {
            let left = self.left()?;
            let outcome = self.stream.writes_within(left).and_then(|()| self.stream.write_vectored(parts));
            match outcome {
                Ok(0) => return Err(failed(&self.peer, "write to", &Io::WriteZero.into())),
                Ok(written) => IoSlice::advance_slices(&mut parts, written),
                Err(error) if waits(&error) => {}
                Err(error) => return Err(failed(&self.peer, "write to", &error)),
            }
        }
        Ok(())
    }

    fn write_encrypted(&mut self, session: &mut Session, mut bytes: &[u8]) -> Result<()> {
        loop {
            let step = if session.wants_write() {
                let left = self.left()?;
                session.send(&mut self.stream, left)
            } else if bytes.is_empty() {
                return Ok(());
            } else {
                session.encrypt(bytes).map(|taken| bytes = &bytes[taken..])
            };
            match step.map_err(std::io::Error::from) {
                Ok(()) => {}
                Err(error) if waits(&error) => {}
                Err(error) => return Err(failed(&self.peer, "write to", &error)),
            }
        }
    }

    /// Fills `bytes`.
    ///
    /// # Errors
    /// `Io`, also at the end of the connection, and when it is told to stop.
    pub fn read_all(&mut self, bytes: &mut [u8], stop: Stop<'_>) -> Result<()> {
        match self.read(bytes, stop)? {
            read if read == bytes.len() => Ok(()),
            _ => Err(failed(&self.peer, "read from", &Io::UnexpectedEof.into())),
        }
    }

    /// Fills `bytes`, or finds the end of the connection before the first of them: false.
    ///
    /// # Errors
    /// `Io`, also when it is told to stop.
    pub fn read_first(&mut self, bytes: &mut [u8], stop: Stop<'_>) -> Result<bool> {
        match self.read(bytes, stop)? {
            0 if !bytes.is_empty() => Ok(false),
            read if read == bytes.len() => Ok(true),
            _ => Err(failed(&self.peer, "read from", &Io::UnexpectedEof.into())),
        }
    }

    /// Reads until `bytes` are full or the connection ends; how many.
    fn read(&mut self, bytes: &mut [u8], stop: Stop<'_>) -> Result<usize> {
        let mut done = 0;
        while done < bytes.len() {
            let rest = &mut bytes[done..];
            if self.at < self.end {
                done += self.take(rest);
                continue;
            }
            let left = self.left()?;
            let left = if stop.is_some() { left.min(LOOK) } else { left };
            let outcome = match &mut self.session {
                None if rest.len() >= INPUT_BYTES => self.stream.read_within(left, rest),
                None => self.receive(left).map(|()| self.take(&mut bytes[done..])),
                Some(session) => session.read(&mut self.stream, left, rest).map_err(Into::into),
            };
            match outcome {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if waits(&error) => {
                    if stop.is_some_and(|stop| stop()) {
                        return Err(self.stopped());
                    }
                }
                Err(error) => return Err(failed(&self.peer, "read from", &error)),
            }
        }
        Ok(done)
    }
}

impl Timed {
    /// Takes from the socket what has come, waiting for it for at most `left`. What came before must have been taken.
    fn receive(&mut self, left: Duration) -> std::io::Result<()> {
        if self.input.is_empty() {
            self.input = vec![0; INPUT_BYTES].into_boxed_slice();
        }
        self.end = 0;
        self.at = 0;
        self.end = self.stream.read_within(left, &mut self.input)?;
        Ok(())
    }

    /// Moves there what has been received: how much.
    fn take(&mut self, bytes: &mut [u8]) -> usize {
        let some = (self.end - self.at).min(bytes.len());
        bytes[..some].copy_from_slice(&self.input[self.at..self.at + some]);
        self.at += some;
        some
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        if let Some(session) = &mut self.session {
            session.end(&mut self.stream);
        }
    }
}

fn waits(error: &std::io::Error) -> bool {
    matches!(error.kind(), Io::WouldBlock | Io::TimedOut | Io::Interrupted)
}

#[cold]
pub(crate) fn failed(peer: &str, action: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("could not {action} {peer}: {error}"))
}
