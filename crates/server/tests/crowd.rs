//! A thousand clients that do harm without a password, or with one: silent, half-open, flooding, slow to read, on both
//! ports. Beside them whoever logs in is served within a second, and the process's memory stays within a bound.

mod common;

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::process::Process;
use common::{Client, query};

/// Clients in all; fewer where this process may not have as many handles.
const CROWD: usize = 1000;
/// What most logins have to take at most with the first answer; each may take [`WORST`], for the machine may be busy.
const SOON: Duration = Duration::from_secs(1);
const WORST: Duration = Duration::from_secs(8);
/// What all without a login together may make the process take, and each that does not read: the rows that were computed and encoded
/// for it before its connection was full: 13 to 18 MB, as it comes.
const ROOM: u64 = 256 << 20;
const ROOM_UNREAD: u64 = 20 << 20;

fn resident(process: &Process) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", process.id())).expect("status");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<u64>().ok()).expect("a number") << 10
}

/// A connection that never waits for long; `None` where there is no handle left, or no place for it now.
fn connect(address: SocketAddr) -> Option<TcpStream> {
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).ok()?;
    stream.set_nonblocking(true).ok()?;
    Some(stream)
}

/// What a client of one kind says at its begin.
fn begin(kind: usize, http: bool) -> &'static [u8] {
    match (kind % 3, http) {
        // Half of a start, half of a request.
        (1, false) => &[0, 0, 0, 60, 0, 3, 0, 0, b'u', b's'],
        (1, true) => b"GET /metrics HTTP/1.1\r\nHost: x\r\nX-",
        // A start as long as it may announce, which never comes to its end.
        (2, false) => &[0, 0, 39, 0, 0, 3, 0, 0, b'u', b's', b'e', b'r', 0],
        (2, true) => b"POST / HTTP/1.1\r\nContent-Length: 1000000000\r\n\r\n",
        _ => b"",
    }
}

/// Writes to those that flood, and puts new ones in the places of those that were sent away, until it is told to end.
fn flood(mut crowd: Vec<(usize, bool, TcpStream)>, addresses: [SocketAddr; 2], end: &AtomicBool) {
    let junk = [b'x'; 16 << 10];
    while !end.load(Ordering::Relaxed) {
        for (kind, http, stream) in &mut crowd {
            let flooded = if *kind % 3 == 2 { stream.write(&junk) } else { stream.read(&mut [0; 64]) };
            let is_gone = match flooded {
                Ok(bytes) => bytes == 0,
                Err(error) => error.kind() != ErrorKind::WouldBlock,
            };
            if is_gone && let Some(mut new) = connect(addresses[usize::from(*http)]) {
                let _ = new.write(begin(*kind, *http));
                *stream = new;
            }
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A login with its first answer; `None` if the connection was given up for others.
fn login(process: &Process) -> Option<Duration> {
    let begun = Instant::now();
    let stream = TcpStream::connect(process.address).expect("connect");
    stream.set_read_timeout(Some(WORST)).expect("timeout");
    let mut client = Client { stream, process_id: 0, secret: 0, parameters: Vec::new() };
    client.startup(&[("user", "postgres"), ("database", "postgres")]);
    if client.until_ready().0 != b'I' {
        return None;
    }
    assert_eq!(client.rows("select 1"), ["1"]);
    Some(begun.elapsed())
}

fn health(process: &Process) -> Duration {
    let begun = Instant::now();
    let answer = common::http::get(process.http, "/health");
    assert_eq!(answer.status, 200);
    begun.elapsed()
}

#[test]
fn a_thousand_hostile_clients_keep_nobody_out() {
    let dir = tempfile::tempdir().expect("folder");
    let flags = ["--query-memory-bytes", "128MB", "--max-connections", "150"];
    let process = Process::start(&dir.path().join("data"), &flags);
    assert!(login(&process).is_some());
    let base = resident(&process);

    // Those who have logged in and do not read what they asked for.
    let mut slow = Vec::new();
    for _ in 0..CROWD / 10 {
        let mut client = process.client();
        client.send(&query("select repeat('x', 100000) from generate_series(1, 1000000)"));
        slow.push(client);
    }
    let mut crowd = Vec::new();
    for at in 0..CROWD - slow.len() {
        let (kind, http) = (at / 2, at % 2 == 1);
        let Some(mut stream) = connect(if http { process.http } else { process.address }) else { continue };
        let _ = stream.write(begin(kind, http));
        crowd.push((kind, http, stream));
    }
    println!("{} without a login, {} that do not read", crowd.len(), slow.len());
    assert!(crowd.len() > CROWD / 3, "{}", crowd.len());
    let end = Arc::new(AtomicBool::new(false));
    let flooding = {
        let (end, addresses) = (Arc::clone(&end), [process.address, process.http]);
        std::thread::spawn(move || flood(crowd, addresses, &end))
    };

    let (mut took, mut checks, mut most, mut lost) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..25 {
        match login(&process) {
            Some(time) => took.push(time),
            None => lost += 1,
        }
        checks.push(health(&process));
        most = most.max(resident(&process));
        std::thread::sleep(Duration::from_millis(40));
    }
    end.store(true, Ordering::Relaxed);
    flooding.join().expect("flood");
    took.sort();
    checks.sort();
    println!("logins {took:?}, {lost} lost; health {checks:?}; {} MB of {} MB before", most >> 20, base >> 20);
    // New connections of one address take the places of its older ones, so one may lose its own in the moment of its login.
    assert!(lost <= 2, "{lost} of 25 logins were given up");
    assert!(took[took.len() / 2] < SOON && checks[checks.len() / 2] < SOON, "{took:?} {checks:?}");
    assert!(*took.last().expect("logins") < WORST && *checks.last().expect("checks") < WORST);
    assert!(most < base + ROOM + slow.len() as u64 * ROOM_UNREAD, "{} MB, {} MB before", most >> 20, base >> 20);
    drop(slow);
    assert!(login(&process).is_some());
}
