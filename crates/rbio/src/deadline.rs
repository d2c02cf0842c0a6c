//! Reads and writes of a socket that end in time.

use std::io::{ErrorKind as Io, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use resurgam_base::{Error, ErrorKind, Result};

/// Between two looks whether to go on waiting.
const LOOK: Duration = Duration::from_millis(50);

/// Whether who waits is told to stop.
pub(crate) type Stop<'a> = Option<&'a dyn Fn() -> bool>;

/// A socket, with the moment at which whoever waits for it gives up.
pub(crate) struct Timed {
    stream: TcpStream,
    peer: String,
    until: Instant,
}

impl Timed {
    pub fn new(stream: TcpStream, peer: String) -> Result<Self> {
        // A request and its answer are written whole: nothing is gained by waiting for more.
        stream.set_nodelay(true).map_err(|e| failed(&peer, "set up", &e))?;
        Ok(Self { stream, peer, until: Instant::now() })
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

    /// # Errors
    /// `Io`.
    pub fn write_all(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let left = self.left()?;
            let outcome = self.stream.set_write_timeout(Some(left)).and_then(|()| self.stream.write(bytes));
            match outcome {
                Ok(0) => return Err(failed(&self.peer, "write to", &Io::WriteZero.into())),
                Ok(written) => bytes = &bytes[written..],
                Err(error) if waits(&error) => {}
                Err(error) => return Err(failed(&self.peer, "write to", &error)),
            }
        }
        Ok(())
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
            let left = self.left()?;
            let left = if stop.is_some() { left.min(LOOK) } else { left };
            let outcome = self.stream.set_read_timeout(Some(left)).and_then(|()| self.stream.read(&mut bytes[done..]));
            match outcome {
                Ok(0) => break,
                Ok(read) => done += read,
                Err(error) if waits(&error) => {
                    if stop.is_some_and(|stop| stop()) {
                        return Err(Error::new(ErrorKind::Io, format!("{} is not waited for any longer", self.peer)));
                    }
                }
                Err(error) => return Err(failed(&self.peer, "read from", &error)),
            }
        }
        Ok(done)
    }
}

fn waits(error: &std::io::Error) -> bool {
    matches!(error.kind(), Io::WouldBlock | Io::TimedOut | Io::Interrupted)
}

#[cold]
pub(crate) fn failed(peer: &str, action: &str, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("could not {action} {peer}: {error}"))
}
