//! Who gets in, and what those who have not can do to the others.

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use common::{TestServer, error, message};
use resurgam_server::settings::{Authentication, Settings};

fn with_password(settings: &mut Settings) {
    settings.authentication = Authentication::ScramSha256;
    settings.password = "secret".into();
}

/// Bytes of memory that the process has.
fn memory() -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).unwrap_or_default().to_owned();
    line.split_ascii_whitespace().nth(1).and_then(|kb| kb.parse::<usize>().ok()).unwrap_or(0) * 1024
}

/// Sends without end until the server has had enough; how much that was.
fn pour(stream: &mut TcpStream, bytes_max: usize) -> usize {
    let piece = vec![b'x'; 1 << 20];
    stream.set_write_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut sent = 0;
    while sent < bytes_max {
        match stream.write(&piece) {
            Ok(count) if count > 0 => sent += count,
            _ => break,
        }
    }
    sent
}

#[test]
fn before_the_login_only_what_is_due_is_read() {
    let server = TestServer::with(with_password);
    // Up to where the password is due; then anything else, and too much of the right thing.
    for (what, begin) in [
        ("a query of 1 GB", b"Q\x3f\xff\xff\xff".to_vec()),
        ("a parse of 1 GB", b"P\x3f\xff\xff\xff".to_vec()),
        ("a SASL response of 64 kB", b"p\0\0\xff\xff".to_vec()),
        ("a SASL response of 1 GB", b"p\x3f\xff\xff\xff".to_vec()),
        ("an unknown message", vec![0]),
    ] {
        let mut client = server.raw();
        client.startup(&[("user", "postgres")]);
        assert_eq!(client.next().unwrap().tag, b'R', "{what}");
        client.send(&begin);
        let (status, messages) = client.until_ready();
        assert_eq!((status, error(&messages).sqlstate().as_str()), (0, "08P01"), "{what}");
    }
    // Many that announce and send as much as they can take no memory.
    let before = memory();
    let senders: Vec<_> = (0..8)
        .map(|i| {
            let address = server.address;
            std::thread::spawn(move || {
                let mut stream = TcpStream::connect(address).unwrap();
                if i % 2 == 0 {
                    stream.write_all(b"\x3f\xff\xff\xff\0\x03\0\0").unwrap();
                } else {
                    stream.write_all(b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0").unwrap();
                    stream.write_all(b"p\x3f\xff\xff\xff").unwrap();
                }
                pour(&mut stream, 100 << 20)
            })
        })
        .collect();
    let sent: Vec<usize> = senders.into_iter().map(|sender| sender.join().unwrap()).collect();
    let grown = memory().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes more after {sent:?}");
}

#[test]
fn startup_packets_are_short() {
    let server = TestServer::start();
    for length in [10_001u32, 1 << 30, u32::MAX, 7] {
        let mut client = server.raw();
        client.send(&length.to_be_bytes());
        client.send(&[0, 3, 0, 0]);
        let (_, messages) = client.until_ready();
        assert_eq!(error(&messages).sqlstate(), "08P01", "{length}");
    }
    let mut client = server.raw();
    client.startup(&[("user", "postgres"), ("application_name", &"x".repeat(9_900))]);
    assert_eq!(client.until_ready().0, b'I');
}

/// Logs in within a second, however many others are there.
fn gets_in(server: &TestServer) {
    let begun = Instant::now();
    let mut client = server.client();
    assert_eq!(client.rows("select 1"), ["1"]);
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn silent_connections_lock_nobody_out() {
    let server = TestServer::with(|settings| settings.max_connections = 100);
    let begun = Instant::now();
    let silent: Vec<TcpStream> = (0..1000).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    println!("1000 connections in {:?}", begun.elapsed());
    gets_in(&server);
    println!("and a login after {:?}", begun.elapsed());
    drop(silent);
}

#[test]
fn half_logins_lock_nobody_out() {
    let server = TestServer::with(|settings| {
        settings.max_connections = 20;
        settings.unauthenticated_connections_max = 100;
        settings.unauthenticated_connections_per_address_max = 50;
        with_password(settings);
    });
    // They have all said who they are and wait before their password.
    let half: Vec<_> = (0..300)
        .map(|_| {
            let mut client = server.raw();
            client.startup(&[("user", "postgres")]);
            client
        })
        .collect();
    // Whoever comes is asked for the password at once: no place is taken by those.
    let mut client = server.raw();
    client.startup(&[("user", "postgres")]);
    let begun = Instant::now();
    assert_eq!(client.next().unwrap().tag, b'R');
    assert!(begun.elapsed() < Duration::from_secs(1));
    // Those who had to go are gone.
    let open = half
        .into_iter()
        .filter_map(|mut client| {
            client.stream.set_read_timeout(Some(Duration::from_millis(10))).unwrap();
            let mut bytes = [0; 100];
            loop {
                match client.stream.read(&mut bytes) {
                    Ok(0) => return None,
                    Ok(_) => {}
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return Some(client),
                    Err(_) => return None,
                }
            }
        })
        .count();
    assert!(open <= 50, "{open} are still there");
}

#[test]
fn half_logins_take_no_places_of_sessions() {
    let server = TestServer::with(|settings| {
        settings.max_connections = 2;
        settings.superuser_reserved_connections = 0;
    });
    let _first = server.client();
    // In the midst of a start-up packet.
    let mut half: Vec<_> = (0..20).map(|_| server.raw()).collect();
    half.iter_mut().for_each(|client| client.send(b"\0\0\0\x17\0\x03\0\0us"));
    let _second = server.client();
}

#[test]
fn the_whole_handshake_has_one_deadline() {
    let certificate = common::certificate::Certificates::make();
    let Some(certificates) = certificate else { return };
    let server = TestServer::with(|settings| {
        settings.authentication_timeout = Duration::from_millis(500);
        settings.tls_cert = certificates.path("server.crt");
        settings.tls_key = certificates.path("server.key");
        with_password(settings);
    });
    // A byte now and then does not lengthen it: in the packet, within TLS, before the password.
    let ssl_request = [&8u32.to_be_bytes()[..], &80_877_103u32.to_be_bytes()].concat();
    for (what, begin) in [
        ("in the packet", vec![]),
        ("within TLS", ssl_request.clone()),
        ("before the password", b"\0\0\0\x17\0\x03\0\0user\0postgres\0\0".to_vec()),
    ] {
        let mut client = server.raw();
        let begun = Instant::now();
        client.send(&begin);
        let mut bytes = [0; 1000];
        if what == "within TLS" {
            assert_eq!(client.stream.read(&mut bytes).unwrap(), 1);
        }
        let trickle = match what {
            "within TLS" => [&[0x16, 3, 1, 2, 0][..], &[0; 100]].concat(),
            "before the password" => [&b"p\0\0\x03\xff"[..], &[b'x'; 100]].concat(),
            _ => [&b"\0\0\x20\x00\0\x03\0\0"[..], &[b'x'; 100]].concat(),
        };
        client.stream.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        for byte in trickle {
            if client.stream.write_all(&[byte]).is_err() || begun.elapsed() > Duration::from_secs(10) {
                break;
            }
            if matches!(client.stream.read(&mut bytes), Ok(0)) {
                break;
            }
        }
        let took = begun.elapsed();
        assert!(took >= Duration::from_millis(400) && took < Duration::from_secs(3), "{what}: {took:?}");
    }
}

#[test]
fn stopping_does_not_wait_for_those_who_never_logged_in() {
    let server = TestServer::with(|settings| settings.shutdown_timeout = Duration::from_secs(30));
    let _silent: Vec<TcpStream> = (0..20).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    gets_in(&server);
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
}

#[test]
fn memory_of_a_long_message_is_given_back() {
    let server = TestServer::start();
    let mut clients: Vec<_> = (0..4).map(|_| server.client()).collect();
    let before = memory();
    for client in &mut clients {
        // Refused before anything is made of it.
        client.send(&message(b'Q', &[&b"\xff"[..], &vec![b'x'; 64 << 20], b"\0"].concat()));
        assert_eq!(error(&client.until_ready().1).sqlstate(), "22021");
        assert_eq!(client.rows("select 2"), ["2"]);
    }
    let grown = memory().saturating_sub(before);
    assert!(grown < 200 << 20, "{grown} bytes more");
}
