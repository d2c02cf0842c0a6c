//! A socket whose waits are bounded, at the price of a system call only when a bound changes much.
//!
//! The system keeps the longest wait of a read, and of a write, with the socket. Who asks again and again waits for about as long each time,
//! so what was set before does: a wait that ends a little early is made again by whoever called, with what is left.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// Below this a wait is set as it is: it is not worth ending it early.
const EXACT: Duration = Duration::from_millis(4);

/// See the module.
pub(crate) struct Socket {
    stream: TcpStream,
    /// What the system has been told; none: nothing, or it is not known.
    reads: Option<Duration>,
    writes: Option<Duration>,
}

/// What to tell the system for a wait of at most `left`, where it knows `before`; none: that will do.
fn change(before: Option<Duration>, left: Duration) -> Option<Duration> {
    // Not longer than what is left, and not so much shorter that it ends again and again.
    if before.is_some_and(|before| before <= left && before >= left / 2) {
        return None;
    }
    Some(if left > EXACT { left - left / 8 } else { left })
}

impl Socket {
    pub fn new(stream: TcpStream) -> io::Result<Self> {
        // A request and its answer are written whole: nothing is gained by waiting for more.
        stream.set_nodelay(true)?;
        Ok(Self { stream, reads: None, writes: None })
    }

    /// Reads what has come, waiting for it for at most `left`, which is not zero, and perhaps a little less. `WouldBlock` or `TimedOut`:
    /// nothing has.
    pub fn read_within(&mut self, left: Duration, bytes: &mut [u8]) -> io::Result<usize> {
        if let Some(time) = change(self.reads, left) {
            self.reads = None;
            self.stream.set_read_timeout(Some(time))?;
            self.reads = Some(time);
        }
        self.stream.read(bytes)
    }

    /// The next writes wait for at most `left`, which is not zero, and perhaps a little less.
    pub fn writes_within(&mut self, left: Duration) -> io::Result<()> {
        if let Some(time) = change(self.writes, left) {
            self.writes = None;
            self.stream.set_write_timeout(Some(time))?;
            self.writes = Some(time);
        }
        Ok(())
    }

    pub fn set_nonblocking(&self, on: bool) -> io::Result<()> {
        self.stream.set_nonblocking(on)
    }

    pub fn shutdown(&self, how: Shutdown) -> io::Result<()> {
        self.stream.shutdown(how)
    }

    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.stream.local_addr()
    }
}

impl Write for Socket {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.write(bytes)
    }

    fn write_vectored(&mut self, parts: &[io::IoSlice<'_>]) -> io::Result<usize> {
        self.stream.write_vectored(parts)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::time::Instant;

    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn a_bound_is_set_again_only_when_it_changes_much() {
        assert_eq!(change(None, ms(800)), Some(ms(700)));
        for left in [700, 800, 1000, 1400] {
            assert_eq!(change(Some(ms(700)), ms(left)), None, "{left}");
        }
        // Never longer than what is left, and not many times shorter.
        assert_eq!(change(Some(ms(700)), ms(699)), Some(ms(699) - ms(699) / 8));
        assert_eq!(change(Some(ms(700)), ms(1402)), Some(ms(1402) - ms(1402) / 8));
        assert_eq!(change(Some(ms(700)), ms(2)), Some(ms(2)));
        // A wait that always ends early comes to its end all the same.
        let (mut left, mut set, mut times) = (ms(60_000), None, 0);
        while left > Duration::ZERO {
            set = change(set, left).or(set);
            left -= set.expect("a bound").min(left);
            times += 1;
        }
        assert!(times < 8, "{times}");
    }

    #[test]
    fn a_wait_ends_in_time() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
        let mut socket = Socket::new(stream).expect("a socket");
        for left in [200, 190, 20, 300] {
            let begun = Instant::now();
            let error = socket.read_within(ms(left), &mut [0; 8]).expect_err("nothing comes");
            assert!(matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut), "{error}");
            let took = begun.elapsed();
            // The system's clock for this ticks in some milliseconds.
            assert!(took >= ms(left / 2 - 5) && took < ms(left + 500), "{left}: {took:?}");
        }
    }
}
