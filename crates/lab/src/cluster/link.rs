//! A network between two parts on one machine: a relay that gives every byte on after half of a round trip, in order. It bounds
//! what is on its way, not the rate.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use crate::Result;

/// Bytes that are read at once, and how many such parts may be on their way.
const PART: usize = 64 << 10;
const PARTS: usize = 256;
/// The system's timer wakes whoever sleeps by about so much too late; the rest is spent by looking at the clock.
const LATE: Duration = Duration::from_micros(80);

/// Goes on until it is dropped.
pub struct Link {
    pub port: u16,
    stop: Arc<AtomicBool>,
}

impl Link {
    /// A port here that leads to another one, `one_way` later.
    pub fn new(to: u16, one_way: Duration) -> Result<Self> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|e| e.to_string())?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                // Where nobody listens the near side sees its connection closed, as a peer that has died.
                if let Ok(near) = near
                    && let Ok(far) = TcpStream::connect(SocketAddr::from(([127, 0, 0, 1], to)))
                {
                    let _ = join(&near, &far, one_way);
                }
            }
        });
        Ok(Self { port, stop })
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        let _ = TcpStream::connect(("127.0.0.1", self.port));
    }
}

fn join(near: &TcpStream, far: &TcpStream, one_way: Duration) -> std::io::Result<()> {
    for (from, to) in [(near, far), (far, near)] {
        from.set_nodelay(true)?;
        let (from, to) = (from.try_clone()?, to.try_clone()?);
        let (put, take) = sync_channel(PARTS);
        std::thread::spawn(move || read(from, &put));
        std::thread::spawn(move || write(to, &take, one_way));
    }
    Ok(())
}

fn read(mut from: TcpStream, put: &SyncSender<(Instant, Vec<u8>)>) {
    let mut part = vec![0; PART];
    while let Ok(count @ 1..) = from.read(&mut part) {
        if put.send((Instant::now(), part[..count].to_vec())).is_err() {
            return;
        }
    }
}

fn write(mut to: TcpStream, take: &Receiver<(Instant, Vec<u8>)>, one_way: Duration) {
    for (came, part) in take {
        let due = came + one_way;
        if let Some(time) = due.saturating_duration_since(Instant::now()).checked_sub(LATE) {
            std::thread::sleep(time);
        }
        while Instant::now() < due {
            std::thread::yield_now();
        }
        if to.write_all(&part).is_err() {
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
}
