//! Connections with TLS that are cut off, or damaged, at any byte.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_base::ErrorKind;

use super::Tls;
use super::certificates::{Certificates, GOOD};
use super::tests::{ME, TIME, client, is_page, page, start, tls};
use crate::{Connection, Server};

/// What happens on the way.
#[derive(Clone, Copy, Debug)]
enum Mishap {
    None,
    /// After so many bytes that way (0: to the server) both ends are cut off.
    Cut(usize, usize),
    /// A bit of that byte of that way is another one.
    Flip(usize, usize),
}

/// Forwards to a server, with a mishap on the first connection after each that was told.
struct Way {
    address: String,
    next: Arc<Mutex<Mishap>>,
    passed: Arc<[AtomicUsize; 2]>,
}

impl Way {
    fn to(server: &Server) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("its address").to_string();
        let (next, passed) = (Arc::new(Mutex::new(Mishap::None)), Arc::new([const { AtomicUsize::new(0) }; 2]));
        let (to, mishap, count) = (server.address(), Arc::clone(&next), Arc::clone(&passed));
        std::thread::spawn(move || {
            for here in socket.incoming().flatten() {
                let Ok(there) = TcpStream::connect(to) else { continue };
                let _ = (here.set_nodelay(true), there.set_nodelay(true));
                let mishap = std::mem::replace(&mut *mishap.lock(), Mishap::None);
                for (way, from, to) in [(0, &here, &there), (1, &there, &here)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    let count = Arc::clone(&count);
                    std::thread::spawn(move || forward(way, from, to, mishap, &count[way]));
                }
            }
        });
        Self { address, next, passed }
    }
}

fn forward(way: usize, mut from: TcpStream, mut to: TcpStream, mishap: Mishap, passed: &AtomicUsize) {
    let (mut buf, mut at) = ([0; 16 << 10], 0);
    while let Ok(read @ 1..) = from.read(&mut buf) {
        passed.fetch_add(read, Ordering::SeqCst);
        let mut bytes = &mut buf[..read];
        match mishap {
            Mishap::Cut(of, after) if of == way && after < at + read => {
                bytes = &mut bytes[..after - at];
                let _ = to.write_all(bytes);
                break;
            }
            Mishap::Flip(of, byte) if of == way && (at..at + read).contains(&byte) => {
                bytes[byte - at] ^= 1 << (byte % 8);
            }
            _ => {}
        }
        at += read;
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Runs one connection with a page for each mishap, and says how many failed.
fn with_mishaps(mishaps: &[Mishap], server: &Server, tls: &Arc<Tls>, time: Duration) -> usize {
    let count = AtomicUsize::new(0);
    let failed = &count;
    std::thread::scope(|scope| {
        for some in mishaps.chunks(mishaps.len().div_ceil(4).max(1)) {
            scope.spawn(move || {
                let way = Way::to(server);
                for mishap in some {
                    *way.next.lock() = *mishap;
                    let outcome = Connection::open_with(&way.address, ME, Some(tls), time)
                        .and_then(|mut connection| is_page(connection.call(&page(77), time), 77));
                    if let Err(error) = outcome {
                        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
                        // A cut is noticed as one: "did not answer in time" would mean that it was waited for.
                        let is_late = matches!(mishap, Mishap::Cut(..)) && error.message().contains("in time");
                        assert!(!is_late, "{mishap:?} was waited for until its time was over: {error}");
                        failed.fetch_add(1, Ordering::SeqCst);
                    }
                    *way.next.lock() = Mishap::None;
                }
            });
        }
    });
    count.into_inner()
}

/// Bytes each way of a connection with one page.
fn lengths(server: &Server, tls: &Arc<Tls>) -> [usize; 2] {
    let way = Way::to(server);
    let mut connection = Connection::open_with(&way.address, ME, Some(tls), TIME).expect("a connection");
    is_page(connection.call(&page(77), TIME), 77).expect("a page");
    [0, 1].map(|of: usize| way.passed[of].load(Ordering::SeqCst))
}

/// At each byte of the handshake, and at many of what follows, the connection is cut off: an error, and none
/// of them because the time for it was over.
#[test]
fn a_connection_that_is_cut_anywhere_is_an_error() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let good = tls(&made, "good");
    let server = start(Some(&good));
    let lengths = lengths(&server, &good);
    // Signatures have a byte more or less each time.
    let cuts =
        |way: usize| (0..lengths[way] - 8).filter(move |byte| way == 0 || byte % 37 == 0 || *byte < lengths[1] - 8400);
    let cuts: Vec<_> = (0..2).flat_map(|way| cuts(way).map(move |byte| Mishap::Cut(way, byte))).collect();
    assert!(cuts.len() > 1500, "{} for {lengths:?}", cuts.len());
    assert_eq!(with_mishaps(&cuts, &server, &good, TIME), cuts.len());
    is_page(client(&server.address().to_string(), &good).call(&page(5), TIME), 5).expect("others are served");
}

/// A bit that flips on the way is an error of that connection, or of no consequence; never a wrong page. The next connection is good.
#[test]
fn a_flipped_bit_is_never_a_wrong_page() {
    let Some(made) = Certificates::make() else { return };
    made.add("good", GOOD);
    let good = tls(&made, "good");
    let server = start(Some(&good));
    let lengths = lengths(&server, &good);
    let flips: Vec<_> =
        (0..2).flat_map(|way| (0..lengths[way] - 8).step_by(11).map(move |byte| Mishap::Flip(way, byte))).collect();
    let failed = with_mishaps(&flips, &server, &good, Duration::from_millis(250));
    assert!(failed > flips.len() * 9 / 10, "{failed} of {}", flips.len());
    // And where connections are kept: it is asked again on another one.
    let way = Way::to(&server);
    let client = client(&way.address, &good);
    for number in 0..20 {
        is_page(client.call(&page(number), TIME), number).expect("a page");
        client.forget();
        // The answer's, behind what was said before it.
        *way.next.lock() = Mishap::Flip(1, lengths[1] - 4000 + number as usize);
        is_page(client.call(&page(number), TIME), number).expect_err("its record is damaged");
        is_page(client.call(&page(number), TIME), number).expect("another connection");
    }
}
