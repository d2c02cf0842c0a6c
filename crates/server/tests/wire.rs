//! The protocol at the level of bytes: order of answers, broken input, limits.

mod common;

use std::time::{Duration, Instant};

use common::*;

#[test]
fn startup_reports_what_drivers_need() {
    let server = TestServer::start();
    let mut client = server.raw();
    client.startup(&[("user", "postgres"), ("application_name", "tester")]);
    let (status, messages) = client.until_ready();
    assert_eq!(status, b'I');
    assert_eq!(messages[0].tag, b'R');
    assert_eq!(messages[0].body, [0; 4]);
    assert!(client.parameter("server_version").unwrap().starts_with("15"));
    for (name, value) in [
        ("server_encoding", "UTF8"),
        ("client_encoding", "UTF8"),
        ("integer_datetimes", "on"),
        ("standard_conforming_strings", "on"),
        ("application_name", "tester"),
    ] {
        assert_eq!(client.parameter(name), Some(value), "{name}");
    }
    for name in ["DateStyle", "TimeZone", "IntervalStyle"] {
        assert!(client.parameter(name).is_some(), "{name}");
    }
    assert_ne!(client.process_id, 0);
}

#[test]
fn encryption_requests_without_tls_are_declined() {
    let server = TestServer::start();
    let mut client = server.raw();
    for code in [80_877_103u32, 80_877_104] {
        let mut packet = 8u32.to_be_bytes().to_vec();
        packet.extend(code.to_be_bytes());
        client.send(&packet);
        let mut answer = [0; 1];
        std::io::Read::read_exact(&mut client.stream, &mut answer).unwrap();
        assert_eq!(&answer, b"N");
    }
    client.startup(&[("user", "postgres")]);
    assert_eq!(client.until_ready().0, b'I');
}

#[test]
fn newer_minor_protocols_are_negotiated_down() {
    let server = TestServer::start();
    let mut client = server.raw();
    client.send(b"\0\0\0\x25\0\x03\0\x02user\0postgres\0_pq_.wish\0yes\0\0");
    let first = client.next().unwrap();
    assert_eq!(first.tag, b'v');
    assert_eq!(first.body, b"\0\x03\0\0\0\0\0\x01_pq_.wish\0");
    assert_eq!(client.until_ready().0, b'I');
}

#[test]
fn wrong_names_are_refused() {
    let server = TestServer::start();
    for (parameters, sqlstate) in [
        (&[("user", "postgres"), ("database", "other")][..], "3D000"),
        (&[("user", "nobody")], "28000"),
        (&[("database", "postgres")], "28000"),
        (&[("user", "postgres"), ("options", "-c")], "42601"),
        (&[("user", "postgres"), ("replication", "true")], "0A000"),
    ] {
        let mut client = server.raw();
        client.startup(parameters);
        let (_, messages) = client.until_ready();
        assert_eq!(error(&messages).sqlstate(), sqlstate, "{messages:?}");
        assert_eq!(error(&messages).field(b'S').unwrap(), "FATAL");
        assert!(client.is_closed());
    }
}

#[test]
fn broken_startup_packets_are_refused() {
    let server = TestServer::start();
    for bytes in [
        &b"\0\0\0\x03"[..],
        b"\0\0\x27\x11\0\x03\0\0",
        b"\xff\xff\xff\xff\0\x03\0\0",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x08\0\x03\0\0",
        b"\0\0\0\x0d\0\x03\0\0user\0",
        b"\0\0\0\x12\0\x03\0\0user\0ab\0xy",
        b"\0\0\0\x12\0\x02\0\0user\0ab\0\0\0",
    ] {
        let mut client = server.raw();
        client.send(bytes);
        let (status, messages) = client.until_ready();
        assert_eq!(status, 0, "{bytes:?}");
        let sqlstate = error(&messages).sqlstate();
        assert!(["08P01", "0A000", "28000"].contains(&sqlstate.as_str()), "{bytes:?}: {messages:?}");
    }
    assert_eq!(server.client().rows("select 1"), ["1"]);
}

#[test]
fn broken_messages_end_the_connection_only() {
    let server = TestServer::start();
    let mut other = server.client();
    for bytes in [
        &b"\x00"[..],
        b"\xff\xff\xff\xff\xff",
        b"Q\0\0\0\x03",
        b"Q\xff\xff\xff\xff",
        b"S\0\0\xff\xff",
        b"Q\0\0\0\x05x",
        b"Q\0\0\0\x07x\0y",
        b"B\0\0\0\x08\0\0\xff\xff",
        b"B\0\0\0\x0c\0\0\0\0\xff\xff\0\0",
        b"B\0\0\0\x10\0\0\0\0\0\x01\x7f\xff\xff\xff\0\0",
        b"B\0\0\0\x10\0\0\0\0\0\x01\xff\xff\xff\xfe\0\0",
        b"P\0\0\0\x08\0\0\xff\xff",
        b"D\0\0\0\x06Z\0",
        b"E\0\0\0\x05\0",
        b"p\0\0\0\x05\0",
    ] {
        let mut client = server.client();
        client.send(bytes);
        let (status, messages) = client.until_ready();
        assert_eq!(status, 0, "{bytes:?}");
        assert_eq!(error(&messages).sqlstate(), "08P01", "{bytes:?}: {messages:?}");
        assert_eq!(error(&messages).field(b'S').unwrap(), "FATAL");
    }
    assert_eq!(other.rows("select 1"), ["1"]);
}

#[test]
fn messages_above_the_limit_are_refused_at_their_header() {
    let server = TestServer::with(|settings| settings.message_bytes_max = resurgam_server::settings::Bytes(1000));
    let mut client = server.client();
    client.send(b"Q\0\0\x03\xe9");
    let (_, messages) = client.until_ready();
    assert_eq!(error(&messages).sqlstate(), "08P01");
    let mut client = server.client();
    let text = format!("select 1 -- {}", "x".repeat(900));
    assert_eq!(client.rows(&text), ["1"]);
}

#[test]
fn text_that_is_not_utf8_fails_the_statement_only() {
    let server = TestServer::start();
    let mut client = server.client();
    client.send(&message(b'Q', b"select '\xff'\0"));
    let (status, messages) = client.until_ready();
    assert_eq!((status, error(&messages).sqlstate().as_str()), (b'I', "22021"));
    assert_eq!(client.rows("select 1"), ["1"]);
}

#[test]
fn a_message_may_arrive_byte_by_byte_and_several_at_once() {
    let server = TestServer::start();
    let mut client = server.client();
    for byte in query("select 1") {
        client.send(&[byte]);
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(tags(&client.until_ready().1), "TDC");
    let both: Vec<u8> = [query("select 1"), query("select 2")].concat();
    client.send(&both);
    assert_eq!(client.until_ready().1[1].first().unwrap(), "1");
    assert_eq!(client.until_ready().1[1].first().unwrap(), "2");
}

#[test]
fn too_many_clients_are_told_so() {
    let server = TestServer::with(|settings| settings.max_connections = 2);
    let first = server.client();
    let _second = server.client();
    let mut third = server.raw();
    third.startup(&[("user", "postgres")]);
    let (_, messages) = third.until_ready();
    assert_eq!(error(&messages).sqlstate(), "53300");
    drop(first);
    let begun = Instant::now();
    loop {
        let mut again = server.raw();
        again.startup(&[("user", "postgres")]);
        if again.until_ready().0 == b'I' {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "the place did not come back");
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn half_open_connections_end() {
    let server = TestServer::with(|settings| settings.authentication_timeout = Duration::from_millis(200));
    let mut client = server.raw();
    client.send(b"\0\0");
    let (status, messages) = client.until_ready();
    assert_eq!((status, error(&messages).sqlstate().as_str()), (0, "57014"));
}

#[test]
fn idle_transactions_end_after_their_timeout() {
    let server = TestServer::with(|settings| settings.idle_in_transaction_session_timeout = Duration::from_millis(200));
    let mut client = server.client();
    std::thread::sleep(Duration::from_millis(400));
    assert_eq!(client.query("begin").0, b'T');
    let (status, messages) = client.until_ready();
    assert_eq!((status, error(&messages).sqlstate().as_str()), (0, "25P03"));
}

#[test]
fn stopping_tells_idle_clients() {
    let server = TestServer::start();
    let mut client = server.client();
    server.stop();
    let (status, messages) = client.until_ready();
    assert_eq!((status, error(&messages).sqlstate().as_str()), (0, "57P01"));
}

#[test]
fn a_cancel_needs_the_right_key() {
    let server = TestServer::start();
    let mut client = server.client();
    let cancel = |process_id: i32, secret: i32| {
        let mut other = server.raw();
        let mut packet = 16u32.to_be_bytes().to_vec();
        packet.extend(80_877_102u32.to_be_bytes());
        packet.extend(process_id.to_be_bytes());
        packet.extend(secret.to_be_bytes());
        other.send(&packet);
        assert!(other.is_closed());
    };
    client.send(&query("select pg_sleep(3)"));
    std::thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    cancel(client.process_id, client.secret.wrapping_add(1));
    cancel(client.process_id.wrapping_add(1), client.secret);
    std::thread::sleep(Duration::from_millis(300));
    cancel(client.process_id, client.secret);
    let (status, messages) = client.until_ready();
    let waited = begun.elapsed();
    assert_eq!((status, error(&messages).sqlstate().as_str()), (b'I', "57014"));
    assert!(waited >= Duration::from_millis(250) && waited < Duration::from_millis(2000), "{waited:?}");
    assert_eq!(client.rows("select 1"), ["1"]);
}
