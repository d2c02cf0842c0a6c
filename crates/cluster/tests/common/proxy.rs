//! A bad network: forwards what comes to an address, and cuts, delays and damages it by a seed; or a long one, on which all takes a while.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};

pub struct Proxy {
    pub address: String,
    /// Nothing goes through while it is set; connections are there, silent.
    pub silent: Arc<AtomicBool>,
    pub faults: Arc<AtomicU64>,
    /// Rows of tests were seen on their way.
    #[allow(dead_code)]
    pub heard: Arc<AtomicBool>,
}

/// Of each row of the tests.
const IN_ROWS: &[u8] = b"some two hundred bytes, so that";

impl Proxy {
    /// Of a thousand pieces so many are cut off, delayed, or damaged.
    pub fn start(to: &str, seed: u64, per_mille: u32) -> Self {
        let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = socket.local_addr().expect("its address").to_string();
        let (silent, faults) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let heard = Arc::new(AtomicBool::new(false));
        let (to, state) = (to.to_owned(), (Arc::clone(&silent), Arc::clone(&faults), Arc::clone(&heard)));
        std::thread::spawn(move || {
            for (number, here) in socket.incoming().flatten().enumerate() {
                let Ok(there) = TcpStream::connect(&to) else { continue };
                let _ = (here.set_nodelay(true), there.set_nodelay(true));
                for (way, from, to) in [(0, &here, &there), (1, &there, &here)] {
                    let (Ok(from), Ok(to)) = (from.try_clone(), to.try_clone()) else { continue };
                    let rng = SmallRng::seed_from_u64(seed.wrapping_mul(1000) + 2 * number as u64 + way);
                    let (silent, faults) = (Arc::clone(&state.0), Arc::clone(&state.1));
                    let heard = Arc::clone(&state.2);
                    std::thread::spawn(move || forward(from, to, rng, per_mille, &silent, &faults, &heard));
                }
            }
        });
        Self { address, silent, faults, heard }
    }
}

/// Forwards what comes to an address, all of it `later`; returns where.
#[allow(dead_code)]
pub fn distant(to: &str, later: Duration) -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = socket.local_addr().expect("its address").to_string();
    let to = to.to_owned();
    std::thread::spawn(move || {
        for here in socket.incoming().flatten() {
            let Ok(there) = TcpStream::connect(&to) else { continue };
            let _ = (here.set_nodelay(true), there.set_nodelay(true));
            for (from, to) in [(&here, &there), (&there, &here)] {
                let (Ok(mut from), Ok(mut to)) = (from.try_clone(), to.try_clone()) else { continue };
                // What comes meanwhile is on its way, too.
                let (sender, way) = mpsc::channel::<(Instant, Vec<u8>)>();
                std::thread::spawn(move || {
                    let mut buf = vec![0; 64 << 10];
                    while let Ok(read @ 1..) = from.read(&mut buf) {
                        let _ = sender.send((Instant::now() + later, buf[..read].to_vec()));
                    }
                });
                std::thread::spawn(move || {
                    for (due, bytes) in way {
                        // Shorter than a sleep is exact.
                        while Instant::now() < due {
                            std::thread::sleep(Duration::from_micros(10));
                        }
                        if to.write_all(&bytes).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(Shutdown::Both);
                });
            }
        }
    });
    address
}

fn forward(
    mut from: TcpStream,
    mut to: TcpStream,
    mut rng: SmallRng,
    per_mille: u32,
    silent: &AtomicBool,
    faults: &AtomicU64,
    heard: &AtomicBool,
) {
    let mut buf = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buf) {
        while silent.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        let bytes = &mut buf[..read];
        if !heard.load(Ordering::Relaxed) && bytes.windows(IN_ROWS.len()).any(|some| some == IN_ROWS) {
            heard.store(true, Ordering::SeqCst);
        }
        if rng.random_range(0..1000) < per_mille {
            faults.fetch_add(1, Ordering::SeqCst);
            match rng.random_range(0..4) {
                0 => break,
                1 => {
                    // Some of it, and then no more.
                    let some = rng.random_range(0..read);
                    let _ = to.write_all(&bytes[..some]);
                    break;
                }
                2 => std::thread::sleep(Duration::from_millis(rng.random_range(1..80))),
                _ => bytes[rng.random_range(0..read)] ^= 1 << rng.random_range(0..8),
            }
        }
        if to.write_all(bytes).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}
