//! A statement that keeps the thread of sessions, which only a bug can do: logins, cancel requests, signals and the HTTP
//! endpoint go on, and whoever asks for the health is told who is in the way.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::http::get;
use common::process::Process;
use common::{bind, execute, parse, query, sync};

const SOON: Duration = Duration::from_secs(2);

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn who_keeps_a_thread_is_named_and_logins_go_on() {
    let dir = tempfile::tempdir().expect("folder");
    let flags = ["--worker-threads", "1", "--stall-timeout", "500ms"];
    let process = Process::start_with(&dir.path().join("data"), &flags, &[("RESURGAM_PLANT_PANICS", "1")]);
    let (mut client, mut waiting) = (process.client(), process.client());
    let health = || get(process.http, "/health");
    assert_eq!(health().status, 200);

    // Planned before: planning gives the thread to others.
    client.send(&[parse("s", "select 1 as \"plant: stall\""), sync()].concat());
    client.until_ready();
    // And it has one again when it waits for the next message.
    std::thread::sleep(Duration::from_millis(300));
    let stall = [bind("", "s", &[]), execute("", 0), sync()].concat();
    client.send(&stall);
    until("it stalls", || health().status == 503);
    let said = health().body;
    assert!(said.starts_with("sessions are not served for "), "{said}");
    assert!(said.contains(&format!("process {} for ", client.process_id)), "{said}");
    assert!(!said.contains("plant"), "texts are nobody's business: {said}");
    // Whoever has logged in waits.
    let begun = Instant::now();
    waiting.send(&query("select 2"));
    // Others log in, and are answered when there is a thread again.
    let mut late = process.client();
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    // A cancel request is read, and its connection closed.
    let mut cancel = TcpStream::connect(process.address).expect("connect");
    cancel.set_read_timeout(Some(SOON)).expect("timeout");
    let mut packet = [0, 0, 0, 16, 4, 210, 22, 46].to_vec();
    packet.extend(waiting.process_id.to_be_bytes());
    packet.extend((waiting.secret ^ 1).to_be_bytes());
    cancel.write_all(&packet).expect("write");
    assert_eq!(cancel.read(&mut [0; 8]).expect("the end of the connection"), 0);
    assert_eq!(health().status, 503, "all that while nobody was served");

    for (client, what) in [(&mut client, "the one that stalled"), (&mut waiting, "the one that waited")] {
        let (status, messages) = client.until_ready();
        assert_eq!(status, b'I', "{what}");
        assert!(messages.iter().all(|message| message.tag != b'E'), "{what}: {messages:?}");
    }
    assert_eq!(late.rows("select 3"), ["3"]);
    until("it is well again", || health().status == 200);
    let metrics = get(process.http, "/metrics").body;
    let longest = metrics.lines().find_map(|line| line.strip_prefix("resurgam_sessions_silence_max_seconds "));
    assert!(longest.and_then(|number| number.parse::<f64>().ok()).expect("the metric") > 1.0, "{longest:?}");

    // A signal is heard in that state, too.
    client.send(&stall);
    until("it stalls again", || health().status == 503);
    // SAFETY: it takes numbers, of a child that was not waited for.
    assert_eq!(unsafe { libc::kill(process.id() as i32, libc::SIGTERM) }, 0);
    let begun = Instant::now();
    until("it stops", || get(process.http, "/ready").body.starts_with("stopping"));
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
}
