//! Types of users over the wire: oids in descriptions, parameters and results in both formats, COPY, and plans that were
//! made before a type changed.

mod common;

use common::*;

/// Bind with one format for the parameters and one for the results.
fn bind_as(format: u16, params: &[&[u8]]) -> Vec<u8> {
    let mut body = b"\0\0".to_vec();
    body.extend(1u16.to_be_bytes());
    body.extend(format.to_be_bytes());
    body.extend((params.len() as u16).to_be_bytes());
    for param in params {
        body.extend((param.len() as u32).to_be_bytes());
        body.extend_from_slice(param);
    }
    body.extend(1u16.to_be_bytes());
    body.extend(format.to_be_bytes());
    message(b'B', &body)
}

/// Oids of the columns of a RowDescription.
fn column_oids(message: &Message) -> Vec<u32> {
    let mut rest = &message.body[2..];
    let mut oids = Vec::new();
    while let Some(end) = rest.iter().position(|byte| *byte == 0) {
        oids.push(u32::from_be_bytes(rest[end + 7..end + 11].try_into().expect("4")));
        rest = &rest[end + 19..];
    }
    oids
}

/// Oids of a ParameterDescription.
fn parameter_oids(message: &Message) -> Vec<u32> {
    message.body[2..].chunks(4).map(|oid| u32::from_be_bytes(oid.try_into().expect("4"))).collect()
}

fn of(messages: &[Message], tag: u8) -> &Message {
    messages.iter().find(|message| message.tag == tag).unwrap_or_else(|| panic!("no {} in {messages:?}", tag as char))
}

fn done(client: &mut Client, text: &str) {
    let (_, messages) = client.query(text);
    assert!(!messages.iter().any(|message| message.tag == b'E'), "{text}: {messages:?}");
}

#[test]
fn values_in_both_formats() {
    let server = TestServer::start();
    let mut client = server.client();
    done(&mut client, "CREATE TYPE mood AS ENUM ('sad', 'ok', 'happy'); CREATE DOMAIN age AS int CHECK (VALUE >= 0)");
    done(&mut client, "CREATE TABLE t (m mood PRIMARY KEY, a mood[], n age)");
    let oid = |client: &mut Client, name: &str| -> u32 {
        client.rows(&format!("SELECT oid FROM pg_type WHERE typname = '{name}'"))[0].parse().expect("an oid")
    };
    let (mood, array) = (oid(&mut client, "mood"), oid(&mut client, "_mood"));
    assert!(mood >= 16_384 && array >= 16_384 && mood != array);
    for (format, elements) in [
        (0u16, b"{sad,NULL}".to_vec()),
        (1, {
            let mut bytes = [1u32, 1, mood, 2, 1, 3].map(u32::to_be_bytes).concat();
            bytes.extend(b"sad");
            bytes.extend((-1i32).to_be_bytes());
            bytes
        }),
    ] {
        let label: &[u8] = if format == 0 { b"ok" } else { b"happy" };
        let number: Vec<u8> = if format == 0 { b"7".to_vec() } else { 7i32.to_be_bytes().to_vec() };
        let mut sent = parse("", "INSERT INTO t VALUES ($1, $2, $3) RETURNING *");
        sent.extend(describe(b'S', ""));
        sent.extend(bind_as(format, &[label, &elements, &number]));
        sent.extend(execute("", 0));
        sent.extend(sync());
        client.send(&sent);
        let (_, messages) = client.until_ready();
        assert_eq!(parameter_oids(of(&messages, b't'))[..2], [mood, array], "{messages:?}");
        // A domain is told as what it is of.
        assert_eq!(column_oids(of(&messages, b'T')), [mood, array, 23]);
        let row = of(&messages, b'D');
        assert_eq!(row.first().as_deref(), Some(std::str::from_utf8(label).expect("text")));
        assert!(row.body.windows(elements.len()).any(|part| part == elements), "{row:?}");
    }
    assert_eq!(client.rows("SELECT m FROM t ORDER BY m DESC"), ["happy", "ok"]);
    assert_eq!(client.rows("SELECT a FROM t WHERE m = 'happy'"), ["{sad,NULL}"]);
    // A label that is none, and a value that the domain refuses, in either format.
    for (format, params, state) in [
        (0u16, [&b"glad"[..], b"{}", b"1"], "22P02"),
        (1, [&b"glad"[..], &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &[0, 0, 0, 1]], "22P02"),
        (0, [&b"sad"[..], b"{}", b"-1"], "23514"),
    ] {
        let mut sent = parse("", "INSERT INTO t VALUES ($1, $2, $3)");
        sent.extend(bind_as(format, &params));
        sent.extend(execute("", 0));
        sent.extend(sync());
        client.send(&sent);
        let (_, messages) = client.until_ready();
        assert_eq!(error(&messages).sqlstate(), state, "{messages:?}");
    }
}

#[test]
fn copy_reads_and_writes_labels() {
    let server = TestServer::start();
    let mut client = server.client();
    done(&mut client, "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN age AS int CHECK (VALUE > 0)");
    done(&mut client, "CREATE TABLE t (m mood, n age DEFAULT 1)");
    let copy = |client: &mut Client, into: &str, data: &str| {
        client.send(&query(&format!("COPY {into} FROM STDIN")));
        assert_eq!(client.next().expect("an answer").tag, b'G');
        let mut sent = message(b'd', data.as_bytes());
        sent.extend(message(b'c', b""));
        client.send(&sent);
        client.until_ready().1
    };
    copy(&mut client, "t", "ok\t5\nsad\t6\n\\N\t7\n");
    copy(&mut client, "t (m)", "ok\n");
    assert_eq!(client.rows("SELECT count(*) FROM t"), ["4"]);
    assert_eq!(error(&copy(&mut client, "t", "glad\t1\n")).sqlstate(), "22P02");
    assert_eq!(error(&copy(&mut client, "t", "ok\t0\n")).sqlstate(), "23514");
    let (_, messages) = client.query("COPY (SELECT * FROM t ORDER BY m, n) TO STDOUT");
    let out: String = messages.iter().filter(|m| m.tag == b'd').map(|m| String::from_utf8_lossy(&m.body)).collect();
    assert_eq!(out, "sad\t6\nok\t1\nok\t5\n\\N\t7\n");
}

/// What was planned with a type as it was is not run with it as it is.
#[test]
fn kept_plans_know_the_type_as_it_is() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.client(), server.client());
    done(&mut one, "CREATE TYPE mood AS ENUM ('sad', 'ok'); CREATE DOMAIN age AS int CHECK (VALUE > 0)");
    done(&mut one, "CREATE TABLE t (m mood, n age); INSERT INTO t VALUES ('sad', 1)");
    let statements =
        [parse("s", "SELECT m FROM t WHERE m = 'sad'"), parse("i", "INSERT INTO t VALUES ('ok', $1)"), sync()];
    one.send(&statements.concat());
    one.until_ready();
    let mut run = |name: &str, params: &[Option<&str>]| {
        one.send(&[bind("", name, params), execute("", 0), sync()].concat());
        let (_, messages) = one.until_ready();
        match messages.iter().find(|message| message.tag == b'E') {
            Some(error) => error.sqlstate(),
            None => messages.iter().filter(|m| m.tag == b'D').filter_map(Message::first).collect::<Vec<_>>().join(","),
        }
    };
    assert_eq!((run("s", &[]), run("i", &[Some("5")])), ("sad".to_owned(), String::new()));
    done(&mut two, "ALTER TYPE mood RENAME VALUE 'sad' TO 'blue'; ALTER DOMAIN age ADD CHECK (VALUE < 10)");
    assert_eq!((run("s", &[]), run("i", &[Some("50")])), ("22P02".to_owned(), "23514".to_owned()));
    done(&mut two, "ALTER TYPE mood RENAME VALUE 'ok' TO 'sad'");
    assert_eq!(run("s", &[]), "sad", "another label of that name");
    done(&mut two, "ALTER TYPE mood ADD VALUE 'meh' BEFORE 'blue'");
    done(&mut two, "INSERT INTO t VALUES ('meh', 2)");
    assert_eq!(two.rows("SELECT m FROM t ORDER BY m"), ["meh", "blue", "sad"]);
}

/// A type that somebody uses is not dropped meanwhile, and who waits for its change sees it.
#[test]
fn sessions_beside_each_other() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.client(), server.client());
    done(&mut one, "CREATE TYPE mood AS ENUM ('sad')");
    done(&mut one, "BEGIN; CREATE TABLE t (m mood)");
    two.send(&query("DROP TYPE mood"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    done(&mut one, "COMMIT");
    assert_eq!(error(&two.until_ready().1).sqlstate(), "2BP01");
    done(&mut one, "BEGIN; ALTER TYPE mood ADD VALUE 'ok'");
    assert_eq!(error(&two.query("SELECT 'ok'::mood").1).sqlstate(), "22P02");
    two.send(&query("ALTER TYPE mood ADD VALUE 'happy'"));
    std::thread::sleep(std::time::Duration::from_millis(300));
    done(&mut one, "COMMIT");
    two.until_ready();
    assert_eq!(two.rows("SELECT enum_range(NULL::mood)"), ["{sad,ok,happy}"]);
    assert_eq!(one.rows("SELECT 'happy'::mood > 'ok'"), ["t"]);
}
