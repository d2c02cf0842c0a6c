//! A network between two parts on one machine: a relay that gives every byte on after half of a round trip, in order. It bounds
//! what is on its way, not the rate. It can be cut, in both ways that a network fails: connections end, or nothing comes any more.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::Result;

/// Bytes that are read at once, and how many such parts may be on their way.
const PART: usize = 64 << 10;
const PARTS: usize = 256;
/// The system's timer wakes whoever sleeps by about so much too late; the rest is spent by looking at the clock.
const LATE: Duration = Duration::from_micros(80);

/// Whoever waits looks so often whether the link is as it was.
const LOOK: Duration = Duration::from_millis(100);

/// How a link is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    Whole = 0,
    /// Connections end, and there are no new ones.
    Cut = 1,
    /// Connections are there, and nothing comes through; it comes later.
    Silent = 2,
    /// It is no more.
    Gone = 3,
}

#[derive(Default)]
struct Shared {
    state: AtomicU8,
    one_way_us: AtomicU64,
}

impl Shared {
    fn is(&self, state: State) -> bool {
        self.state.load(Ordering::Relaxed) == state as u8
    }

    fn is_over(&self) -> bool {
        self.is(State::Cut) || self.is(State::Gone)
    }
}

/// Goes on until it is dropped.
pub struct Link {
    pub port: u16,
    shared: Arc<Shared>,
}

impl Link {
    /// A port here that leads to another one, `one_way` later.
    pub fn new(to: u16, one_way: Duration) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let shared = Arc::<Shared>::default();
        let seen = Arc::clone(&shared);
        shared.one_way_us.store(one_way.as_micros() as u64, Ordering::Relaxed);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if seen.is(State::Gone) {
                    return;
                }
                if seen.is(State::Cut) {
                    continue;
                }
                // Where nobody listens the near side sees its connection closed, as a peer that has died.
                if let Ok(near) = near
                    && let Ok(far) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], to)))
                {
                    let _ = join(&near, &far, &seen);
                }
            }
        });
        Ok(Self { port, shared })
    }

    /// From here on it is so.
    pub fn set(&self, state: State, one_way: Duration) {
        self.shared.one_way_us.store(one_way.as_micros() as u64, Ordering::Relaxed);
        self.shared.state.store(state as u8, Ordering::Relaxed);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.set(State::Gone, Duration::ZERO);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn join(near: &TcpStream, far: &TcpStream, shared: &Arc<Shared>) -> std::io::Result<()> {
    for (from, to) in [(near, far), (far, near)] {
        from.set_nodelay(true)?;
        from.set_read_timeout(Some(LOOK))?;
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (put, take) = sync_channel(PARTS);
        let (reads, writes) = (Arc::clone(shared), Arc::clone(shared));
        std::thread::spawn(move || read(from, &put, &reads));
        std::thread::spawn(move || write(to, &take, &writes));
    }
    Ok(())
}

fn read(mut from: TcpStream, put: &SyncSender<(Instant, Vec<u8>)>, shared: &Shared) {
    let mut part = vec![0; PART];
    while !shared.is_over() {
        match from.read(&mut part) {
            Ok(count @ 1..) => {
                if put.send((Instant::now(), part[..count].to_vec())).is_err() {
                    return;
                }
            }
            Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted) => {}
            _ => return,
        }
    }
    let _ = from.shutdown(Shutdown::Both);
}

fn write(mut to: TcpStream, take: &Receiver<(Instant, Vec<u8>)>, shared: &Shared) {
    for (came, part) in take {
        let due = came + Duration::from_micros(shared.one_way_us.load(Ordering::Relaxed));
        if let Some(time) = due.saturating_duration_since(Instant::now()).checked_sub(LATE) {
            std::thread::sleep(time);
        }
        while Instant::now() < due {
            std::thread::yield_now();
        }
        while shared.is(State::Silent) {
            std::thread::sleep(LATE);
        }
        if shared.is_over() || to.write_all(&part).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_in_order_and_an_end_ends_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let link =
            Link::new(listener.local_addr().expect("its port").port(), Duration::from_millis(1)).expect("a link");
        let echo = std::thread::spawn(move || {
            let (mut peer, _) = listener.accept().expect("a connection");
            let mut all = vec![0; 300_000];
            peer.read_exact(&mut all).expect("all of it");
            peer.write_all(&all).expect("back");
        });
        let mut stream = TcpStream::connect(("127.0.0.1", link.port)).expect("a connection");
        let sent: Vec<u8> = (0..300_000u32).map(|at| (at % 251) as u8).collect();
        let begun = Instant::now();
        stream.write_all(&sent).expect("sent");
        let mut got = Vec::new();
        stream.read_to_end(&mut got).expect("until the end");
        assert!(got == sent && begun.elapsed() >= Duration::from_millis(2));
        echo.join().expect("the other side");
    }

    #[test]
    fn a_link_fails_and_is_mended() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let link = Link::new(listener.local_addr().expect("its port").port(), Duration::ZERO).expect("a link");
        std::thread::spawn(move || {
            for mut peer in listener.incoming().flatten() {
                std::thread::spawn(move || {
                    let mut byte = [0];
                    while peer.read_exact(&mut byte).is_ok() && peer.write_all(&byte).is_ok() {}
                });
            }
        });
        let connect = || {
            let stream = TcpStream::connect(("127.0.0.1", link.port)).expect("a connection");
            stream.set_read_timeout(Some(Duration::from_millis(500))).expect("a bound");
            stream
        };
        let echo = |stream: &mut TcpStream| {
            let mut byte = [0];
            stream.write_all(&[7]).and_then(|()| stream.read_exact(&mut byte)).map(|()| byte[0])
        };
        let mut stream = connect();
        assert_eq!(echo(&mut stream).expect("whole"), 7);
        link.set(State::Silent, Duration::ZERO);
        assert!(matches!(echo(&mut stream), Err(e) if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut)));
        link.set(State::Whole, Duration::ZERO);
        let mut late = [0];
        stream.read_exact(&mut late).expect("it comes later");
        link.set(State::Cut, Duration::ZERO);
        assert!(echo(&mut connect()).is_err());
        let begun = Instant::now();
        while echo(&mut stream).is_ok() {
            assert!(begun.elapsed() < Duration::from_secs(5), "the connection is to end");
        }
        link.set(State::Whole, Duration::from_millis(20));
        let (mut stream, begun) = (connect(), Instant::now());
        assert_eq!(echo(&mut stream).expect("mended"), 7);
        assert!(begun.elapsed() >= Duration::from_millis(40));
    }
}
