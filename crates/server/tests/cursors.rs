//! Cursors as drivers use them: declared with parameters, described as portals, read in pieces, also of results that are
//! computed while they are read, and beside other statements of their transaction.

mod common;

use common::{Client, Message, TestServer, bind, describe, execute, message, parse, sync, tags};
use resurgam_server::settings::Kilobytes;

/// The first columns of the rows, and the command tag.
fn fetched(messages: &[Message]) -> (Vec<String>, String) {
    assert!(!messages.iter().any(|message| message.tag == b'E'), "{messages:?}");
    let rows = messages.iter().filter(|message| message.tag == b'D').filter_map(Message::first).collect();
    (rows, messages.iter().find(|message| message.tag == b'C').expect("an end").text())
}

fn fetch(client: &mut Client, text: &str) -> (Vec<String>, String) {
    fetched(&client.query(text).1)
}

/// By the extended protocol.
fn fetch_extended(client: &mut Client, text: &str) -> (Vec<String>, String) {
    client.send(&[parse("", text), bind("", "", &[]), describe(b'P', ""), execute("", 0), sync()].concat());
    let (status, messages) = client.until_ready();
    assert_eq!(status, b'T', "{messages:?}");
    assert!(tags(&messages).starts_with("12T"), "{}", tags(&messages));
    fetched(&messages)
}

#[test]
fn a_cursor_is_a_portal() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("BEGIN");
    let text = "DECLARE \"a c\" CURSOR FOR SELECT i, repeat('x', $2::int) FROM generate_series(1, $1::int) AS s(i)";
    let declared = [parse("", text), bind("", "", &[Some("50000"), Some("20")]), execute("", 0)].concat();
    client.send(&[declared, describe(b'P', "a c"), sync()].concat());
    let (status, messages) = client.until_ready();
    assert_eq!((status, tags(&messages).as_str()), (b'T', "12CT"), "{messages:?}");
    assert_eq!(messages[2].text(), "DECLARE CURSOR");

    let number = |from: usize, to: usize| (from..=to).map(|n| n.to_string()).collect::<Vec<_>>();
    assert_eq!(fetch(&mut client, "FETCH FROM \"a c\""), (number(1, 1), "FETCH 1".to_owned()));
    assert_eq!(
        fetch_extended(&mut client, "FETCH FORWARD 29999 FROM \"a c\""),
        (number(2, 30_000), "FETCH 29999".to_owned())
    );
    assert_eq!(client.query("MOVE 5000 \"a c\"").1[0].text(), "MOVE 5000");
    // As an Execute of the portal, with a limit.
    client.send(&[execute("a c", 10), sync()].concat());
    let (_, messages) = client.until_ready();
    let rows: Vec<_> = messages.iter().filter(|message| message.tag == b'D').filter_map(Message::first).collect();
    assert_eq!((rows, tags(&messages).ends_with('s')), (number(35_001, 35_010), true));
    assert_eq!(
        fetch_extended(&mut client, "FETCH ALL FROM \"a c\""),
        (number(35_011, 50_000), "FETCH 14990".to_owned())
    );
    assert_eq!(fetch(&mut client, "FETCH ALL FROM \"a c\""), (Vec::new(), "FETCH 0".to_owned()));
    assert_eq!(fetch_extended(&mut client, "FETCH 5 FROM \"a c\""), (Vec::new(), "FETCH 0".to_owned()));
    assert_eq!(client.query("CLOSE \"a c\"").1[0].text(), "CLOSE CURSOR");
    client.query("COMMIT");
    client.send(&[describe(b'P', "a c"), sync()].concat());
    assert_eq!(common::error(&client.until_ready().1).sqlstate(), "34000");
}

/// Two cursors of one transaction that writes to what they read, and another session that does.
#[test]
fn a_cursor_reads_what_was_there() {
    let server = TestServer::start();
    let (mut client, mut beside) = (server.client(), server.client());
    client.query("CREATE TABLE t (a int PRIMARY KEY)");
    client.query("INSERT INTO t SELECT i FROM generate_series(1, 20000) AS s(i)");
    client.query("BEGIN");
    client.query("DECLARE up CURSOR FOR SELECT a FROM t ORDER BY a");
    client.query("DECLARE down CURSOR FOR SELECT a FROM t ORDER BY a DESC");
    beside.query("DELETE FROM t WHERE a % 2 = 0");
    client.query("DELETE FROM t WHERE a % 3 = 0");
    let (mut up, mut down) = (Vec::new(), Vec::new());
    for _ in 0..20 {
        up.extend(fetch(&mut client, "FETCH 1000 FROM up").0);
        down.extend(fetch(&mut client, "FETCH 1000 FROM down").0);
        client.query("UPDATE t SET a = -a WHERE a = (SELECT max(a) FROM t)");
    }
    let all: Vec<String> = (1..=20_000).map(|n: i32| n.to_string()).collect();
    assert_eq!(up, all);
    assert!(down.iter().rev().eq(&all));
    client.query("ROLLBACK");
    assert_eq!(client.rows("SELECT count(*) FROM t"), ["10000"]);
}

/// What a cursor WITH HOLD keeps goes to files where memory is short; both are bounded, and given back.
#[test]
fn held_rows_are_bounded() {
    let server = TestServer::with(|settings| {
        settings.query_memory_bytes.0 = 64 << 20;
        settings.temp_file_limit = Kilobytes(Some(300 << 10));
    });
    let mut client = server.client();
    let declare = |name: &str, rows: usize| {
        format!(
            "DECLARE {name} CURSOR WITH HOLD FOR SELECT repeat('x', 1000) || i FROM generate_series(1, {rows}) AS s(i)"
        )
    };
    for _ in 0..4 {
        // A third, and two thirds of what files may hold.
        for (name, rows) in [("h", 90_000), ("more", 180_000)] {
            let (_, messages) = client.query(&declare(name, rows));
            assert_eq!(tags(&messages), "C", "{messages:?}");
        }
        let (_, messages) = client.query(&declare("too_much", 90_000));
        assert_eq!(common::error(&messages).sqlstate(), "53400");
        assert_eq!(fetch(&mut client, "FETCH ALL FROM h").0.len(), 90_000);
        let more = fetch(&mut client, "FETCH ALL FROM more").0;
        assert!(more.len() == 180_000 && more[179_999].ends_with("x180000"));
        client.query("CLOSE h");
        client.query("CLOSE more");
    }
}

/// FETCH is done with the first Execute, however few of its rows that asks for.
#[test]
fn fetch_through_a_portal_with_a_row_limit() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("CREATE TABLE t (a int PRIMARY KEY)");
    client.query("INSERT INTO t SELECT i FROM generate_series(1, 30) AS s(i)");
    for (scroll, source) in
        [("", "generate_series(1, 30) AS s(i)"), ("SCROLL", "generate_series(1, 30) AS s(i)"), ("", "t AS s(i)")]
    {
        let mut in_parts = |text: &str, limits: &[i32]| {
            let mut bytes = [parse("", text), bind("p", "", &[])].concat();
            limits.iter().for_each(|limit| bytes.extend(execute("p", *limit)));
            client.send(&[bytes, sync()].concat());
            let messages = client.until_ready().1;
            let rows: Vec<_> = messages.iter().filter(|one| one.tag == b'D').filter_map(Message::first).collect();
            let ends = messages.iter().filter(|one| matches!(one.tag, b'C' | b's'));
            let ends: Vec<_> = ends.map(|end| if end.tag == b's' { "s".to_owned() } else { end.text() }).collect();
            client.send(&[message(b'C', b"Pp\0"), sync()].concat());
            client.until_ready();
            (rows.join(" "), ends.join(" "))
        };
        in_parts("BEGIN", &[0]);
        in_parts(&format!("DECLARE c {scroll} CURSOR FOR SELECT i FROM {source}"), &[0]);
        let own = |rows: &str, ends: &str| (rows.to_owned(), ends.to_owned());
        assert_eq!(in_parts("FETCH 7 FROM c", &[3, 3, 3, 3]), own("1 2 3 4 5 6 7", "s s FETCH 1 FETCH 0"));
        assert_eq!(in_parts("FETCH 6 FROM c", &[3, 3, 3]), own("8 9 10 11 12 13", "s s FETCH 0"));
        assert_eq!(in_parts("FETCH 6 FROM c", &[3]), own("14 15 16", "s"));
        assert_eq!(in_parts("FETCH c", &[0]), own("20", "FETCH 1"));
        if !scroll.is_empty() {
            assert_eq!(in_parts("FETCH BACKWARD 5 FROM c", &[3, 0]), own("19 18 17 16 15", "s FETCH 2"));
            assert_eq!(in_parts("FETCH ABSOLUTE 21 FROM c", &[1, 1]), own("21", "s FETCH 0"));
        } else {
            assert_eq!(in_parts("FETCH c", &[5]), own("21", "FETCH 1"));
        }
        assert_eq!(in_parts("FETCH 50 FROM c", &[3, 0]), own("22 23 24 25 26 27 28 29 30", "s FETCH 6"));
        assert_eq!(in_parts("FETCH 50 FROM c", &[3]), own("", "FETCH 0"));
        in_parts("ROLLBACK", &[0]);
    }
}

/// A string of several statements is a transaction block of its own.
#[test]
fn cursors_within_a_string() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut of = |text: &str| {
        let (status, messages) = client.query(text);
        let shown = messages.iter().filter_map(|message| match message.tag {
            b'C' => Some(message.text()),
            b'D' => message.first(),
            b'E' => Some(message.sqlstate()),
            _ => None,
        });
        (shown.collect::<Vec<_>>().join(" "), status)
    };
    let own = |shown: &str| (shown.to_owned(), b'I');
    assert_eq!(of("DECLARE c CURSOR FOR SELECT 1; FETCH c; FETCH c"), own("DECLARE CURSOR 1 FETCH 1 FETCH 0"));
    assert_eq!(of("FETCH c"), own("34000"));
    assert_eq!(of("DECLARE c CURSOR FOR SELECT 1"), own("25P01"));
    assert_eq!(
        of("SELECT 1; DECLARE c CURSOR FOR SELECT 2; CLOSE c; FETCH c"),
        own("1 SELECT 1 DECLARE CURSOR CLOSE CURSOR 34000")
    );
    assert_eq!(of("DECLARE c CURSOR FOR SELECT 1; SAVEPOINT s"), own("DECLARE CURSOR 25P01"));
    assert_eq!(of("DECLARE c CURSOR FOR SELECT 1; COMMIT; FETCH c"), own("DECLARE CURSOR COMMIT 34000"));
    assert_eq!(of("DECLARE c CURSOR WITH HOLD FOR SELECT 1; FETCH c"), own("DECLARE CURSOR 1 FETCH 1"));
    assert_eq!(of("FETCH c"), own("FETCH 0"));
}
