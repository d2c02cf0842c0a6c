//! Random and mutated messages against a whole server: it may end a connection,
//! never itself, and never stop answering others.
//!
//! `RESURGAM_TEST_SEED` replays a run, `RESURGAM_TEST_CASES` sets its length.

mod common;

use std::io::{Read, Write};
use std::time::Duration;

use common::*;

/// SplitMix64: small, and the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// A valid pipeline, to be damaged.
fn pipeline() -> Vec<u8> {
    [
        parse("s", "select $1::text"),
        describe(b'S', "s"),
        bind("p", "s", &[Some("hello")]),
        describe(b'P', "p"),
        execute("p", 1),
        message(b'C', b"Pp\0"),
        message(b'H', b""),
        sync(),
        query("select 1"),
        message(b'd', b"data"),
        message(b'c', b""),
    ]
    .concat()
}

fn damaged(random: &mut Random) -> Vec<u8> {
    if random.below(4) == 0 {
        let length = random.below(200);
        return (0..length).map(|_| random.next() as u8).collect();
    }
    let mut bytes = pipeline();
    for _ in 0..=random.below(4) {
        if bytes.is_empty() {
            break;
        }
        let at = random.below(bytes.len());
        match random.below(4) {
            0 => bytes[at] = random.next() as u8,
            1 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
            2 => {
                bytes.remove(at);
            }
            _ => bytes.truncate(at.max(1)),
        }
    }
    bytes
}

#[test]
fn no_bytes_harm_the_server() {
    let seed = number("RESURGAM_TEST_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    let cases = number("RESURGAM_TEST_CASES").unwrap_or(400);
    println!("RESURGAM_TEST_SEED={seed}");
    let server = TestServer::start();
    let mut witness = server.client();
    let mut random = Random(seed);
    for case in 0..cases {
        let in_startup = random.below(5) == 0;
        let mut client = if in_startup { server.raw() } else { server.client() };
        let bytes = damaged(&mut random);
        // The server may close while this side still sends.
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        client.stream.set_read_timeout(Some(Duration::from_secs(10))).expect("timeout");
        let mut answer = Vec::new();
        if let Err(error) = client.stream.read_to_end(&mut answer) {
            assert!(error.kind() != std::io::ErrorKind::WouldBlock, "seed {seed} case {case}: hang after {bytes:?}");
        }
        let text = String::from_utf8_lossy(&answer);
        assert!(!text.contains("XX000"), "seed {seed} case {case}: {bytes:?} gave {text}");
        if case % 50 == 0 {
            assert_eq!(witness.rows("select 1"), ["1"]);
        }
    }
    assert_eq!(witness.rows("select 1"), ["1"]);
}
