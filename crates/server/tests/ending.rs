//! Sessions that have to end, in whatever state they are, and what they held.

mod common;

use std::io::Read;
use std::time::{Duration, Instant};

use common::{Client, TestServer, error, query};

/// Ends a session from another one; how long its row lock was held after that.
fn terminate(server: &TestServer, pid: i32) {
    assert_eq!(server.client().rows(&format!("select pg_terminate_backend({pid})")), ["t"]);
}

fn is_gone(watcher: &mut Client, pid: i32) -> bool {
    watcher.rows(&format!("select count(*) from pg_stat_activity where pid = {pid}")) == ["0"]
}

fn soon(what: &str, mut is_so: impl FnMut() -> bool) -> Duration {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(10), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
    begun.elapsed()
}

fn with_table(server: &TestServer) {
    let mut client = server.client();
    client.rows("create table t (id int primary key, n int, text text)");
    client.rows("insert into t select i, 0, repeat('x', 1000) from generate_series(1, 100) i");
}

/// A session in a block with a row of `t` locked.
fn holder(server: &TestServer) -> Client {
    let mut client = server.client();
    client.rows("begin");
    client.rows("update t set n = 1 where id = 1");
    client
}

/// The row is free: another session changes it at once.
fn row_is_free(server: &TestServer) {
    let mut other = server.client();
    other.rows("set lock_timeout = '2s'");
    other.rows("update t set n = n + 1 where id = 1");
}

#[test]
fn a_terminated_session_ends_in_every_state() {
    let server = TestServer::start();
    with_table(&server);
    for (state, statement) in [
        ("idle", None),
        ("sleeping", Some("select pg_sleep(100)")),
        ("waiting for a row", Some("update t set n = 2 where id = 2")),
        ("waiting for COPY data", Some("copy t from stdin")),
        ("failed", Some("select 1/0")),
    ] {
        let mut blocker = server.client();
        blocker.rows("begin");
        blocker.rows("update t set n = 1 where id = 2");
        let mut client = holder(&server);
        if let Some(statement) = statement {
            client.send(&query(statement));
            std::thread::sleep(Duration::from_millis(200));
        }
        let begun = Instant::now();
        terminate(&server, client.process_id);
        row_is_free(&server);
        assert!(begun.elapsed() < Duration::from_secs(1), "{state}: {:?}", begun.elapsed());
        // What it is told: FATAL, and nothing after.
        let mut last = None;
        while let Some(message) = client.next() {
            last = Some(message);
        }
        let last = last.unwrap();
        assert_eq!((last.tag, last.sqlstate().as_str()), (b'E', "57P01"), "{state}");
        assert_eq!(last.field(b'S').as_deref(), Some("FATAL"), "{state}");
        assert_eq!(last.field(b'M').as_deref(), Some("terminating connection due to administrator command"));
        let mut watcher = server.client();
        soon(state, || is_gone(&mut watcher, client.process_id));
        blocker.rows("rollback");
    }
}

/// A client that asks for much and takes nothing.
fn not_reading(server: &TestServer, statement: &str) -> Client {
    let mut client = holder(server);
    client.send(&query(statement));
    // Until both sockets' buffers are full.
    std::thread::sleep(Duration::from_millis(500));
    client
}

const MUCH: &str = "select repeat('x', 10000) from generate_series(1, 100000)";

#[test]
fn a_client_that_does_not_read_can_be_ended() {
    let server = TestServer::start();
    with_table(&server);
    for statement in [MUCH, "copy (select repeat('x', 10000) from generate_series(1, 100000)) to stdout"] {
        let client = not_reading(&server, statement);
        let mut watcher = server.client();
        assert!(!is_gone(&mut watcher, client.process_id));
        let begun = Instant::now();
        terminate(&server, client.process_id);
        row_is_free(&server);
        assert!(begun.elapsed() < Duration::from_secs(1), "{statement}: {:?}", begun.elapsed());
        soon("it is gone", || is_gone(&mut watcher, client.process_id));
        drop(client);
    }
}

#[test]
fn a_cancel_frees_what_a_client_holds_that_does_not_read() {
    let server = TestServer::start();
    with_table(&server);
    for (by_timeout, statement) in [
        (false, MUCH),
        (true, MUCH),
        (true, "copy (select repeat('x', 10000) from generate_series(1, 100000)) to stdout"),
    ] {
        let mut client = holder(&server);
        if by_timeout {
            client.rows("set statement_timeout = '700ms'");
        }
        client.send(&query(statement));
        std::thread::sleep(Duration::from_millis(500));
        if !by_timeout {
            server.client().rows(&format!("select pg_cancel_backend({})", client.process_id));
        }
        row_is_free(&server);
        // Once it reads, the answer is whole: rows, the error, ready in a failed transaction.
        let (status, messages) = client.until_ready();
        assert_eq!(status, b'E', "{statement}");
        assert_eq!(error(&messages).sqlstate(), "57014", "{statement}");
        assert!(messages.iter().all(|message| matches!(message.tag, b'T' | b'D' | b'H' | b'd' | b'E')));
        client.rows("rollback");
        assert_eq!(client.rows("select 1"), ["1"]);
    }
}

#[test]
fn a_copy_whose_data_does_not_come_is_stopped() {
    let server = TestServer::start();
    with_table(&server);
    let mut client = holder(&server);
    client.rows("set statement_timeout = '300ms'");
    let (_, messages) = {
        client.send(&query("copy t from stdin"));
        client.until_ready()
    };
    assert_eq!(error(&messages).sqlstate(), "57014");
    row_is_free(&server);
    client.rows("rollback");
}

#[test]
fn terminate_says_what_it_found() {
    let server = TestServer::start();
    let mut client = server.client();
    let (_, messages) = client.query("select pg_terminate_backend(2147483647)");
    let notice = messages.iter().find(|message| message.tag == b'N').unwrap();
    assert_eq!(notice.field(b'M').as_deref(), Some("PID 2147483647 is not a PostgreSQL backend process"));
    assert_eq!(messages.iter().find(|message| message.tag == b'D').unwrap().first().as_deref(), Some("f"));
    let (_, messages) = client.query("select pg_terminate_backend(1, -1)");
    assert_eq!(error(&messages).sqlstate(), "22003");
    let other = server.client();
    assert_eq!(client.rows(&format!("select pg_terminate_backend({}, 5000)", other.process_id)), ["t"]);
    assert!(is_gone(&mut client, other.process_id));
    // Oneself.
    let (status, messages) = client.query("select pg_terminate_backend(pg_backend_pid())");
    assert_eq!((status, error(&messages).sqlstate().as_str()), (0, "57P01"));
    assert_eq!(messages.iter().filter(|message| message.tag == b'E').count(), 1, "{messages:?}");
}

#[test]
fn idle_sessions_end_after_their_timeout() {
    let server = TestServer::with(|settings| settings.idle_session_timeout = Duration::from_millis(300));
    let mut idle = server.client();
    let mut busy = server.client();
    busy.rows("set idle_session_timeout = 0");
    let mut in_block = server.client();
    in_block.rows("begin");
    let (status, messages) = idle.until_ready();
    let error = error(&messages);
    assert_eq!((status, error.sqlstate().as_str()), (0, "57P05"));
    assert_eq!(error.field(b'M').as_deref(), Some("terminating connection due to idle-session timeout"));
    std::thread::sleep(Duration::from_millis(300));
    assert_eq!(busy.rows("show idle_session_timeout"), ["0"]);
    assert_eq!(in_block.rows("show idle_session_timeout"), ["300ms"], "a transaction has a timeout of its own");
    // A message that begins and goes no further is no sign of life.
    let mut partial = server.client();
    partial.send(b"Q\0\0");
    let (status, messages) = partial.until_ready();
    assert_eq!((status, common::error(&messages).sqlstate().as_str()), (0, "57P05"));
}

#[test]
fn a_client_that_goes_away_in_a_statement_is_noticed() {
    let server = TestServer::start();
    with_table(&server);
    for (interval, noticed) in [("100ms", true), ("0", false)] {
        let mut client = holder(&server);
        client.rows(&format!("set client_connection_check_interval = '{interval}'"));
        client.send(&query("select pg_sleep(3)"));
        std::thread::sleep(Duration::from_millis(200));
        let pid = client.process_id;
        drop(client);
        let mut watcher = server.client();
        let took = soon("it is gone", || is_gone(&mut watcher, pid));
        assert_eq!(took < Duration::from_secs(1), noticed, "{interval}: {took:?}");
        row_is_free(&server);
    }
}

#[test]
fn socket_parameters_are_the_sockets() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.rows("show tcp_keepalives_idle"), ["60"]);
    for (set, show, shown) in [
        ("tcp_keepalives_idle = '2min'", "tcp_keepalives_idle", "120"),
        ("tcp_keepalives_interval = 7", "tcp_keepalives_interval", "7"),
        ("tcp_keepalives_count = 5", "tcp_keepalives_count", "5"),
        ("tcp_user_timeout = '3s'", "tcp_user_timeout", "3000"),
        ("client_connection_check_interval = '10s'", "client_connection_check_interval", "10s"),
        ("log_min_duration_statement = 250", "log_min_duration_statement", "250ms"),
        ("log_min_duration_statement = -1", "log_min_duration_statement", "-1"),
    ] {
        client.rows(&format!("set {set}"));
        assert_eq!(client.rows(&format!("show {show}")), [shown]);
    }
    // The kernel's timer of this connection's other end says so, too.
    let port = client.stream.local_addr().unwrap().port();
    let timers = || {
        let output = std::process::Command::new("ss").args(["-tnoH", "dport", &format!("= :{port}")]).output();
        output
            .ok()
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
    };
    if timers().is_some() {
        // Until what was sent last is acknowledged, that has the timer.
        soon("a keepalive of two minutes", || {
            let text = timers().unwrap_or_default();
            text.contains("keepalive,1min") || text.contains("keepalive,119sec")
        });
    }
    for wrong in ["tcp_keepalives_idle = 'soon'", "tcp_keepalives_count = -1", "idle_session_timeout = 'x'"] {
        assert_eq!(error(&client.query(&format!("set {wrong}")).1).sqlstate(), "22023", "{wrong}");
    }
}

#[test]
fn a_stopping_server_does_not_wait_for_clients_that_do_not_read() {
    let server = TestServer::with(|settings| settings.shutdown_timeout = Duration::from_millis(300));
    with_table(&server);
    let mut client = not_reading(&server, MUCH);
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
}

/// A statement that is kept for all sessions keeps none of them.
#[test]
fn kept_statements_hold_on_to_no_session() {
    let server = TestServer::start();
    with_table(&server);
    let mut watcher = server.client();
    for statement in [
        "select g from generate_series(1, 3) as g",
        "select g from generate_series(1.5, 3) as g",
        "select g from generate_series('2024-01-01'::timestamp, '2024-01-03', '1 day') as g",
        "select g from generate_series('2024-01-01'::timestamptz, '2024-01-03', '1 day') as g",
        "select repeat(text, 2), lower(text), n + 1 from t where id < 5 order by n",
        "select count(*) filter (where n > 0), max(id), string_agg(text, ',') from t group by n",
        "select unnest(array[id, n]), row_number() over (order by id) from t",
        "update t set text = upper(text) || 'x' where id < 3 returning id",
        "select now(), current_date, to_char(now(), 'YYYY'), '2024-01-01'::timestamptz",
    ] {
        let mut client = server.client();
        client.rows(statement);
        let process_id = client.process_id;
        drop(client);
        soon(statement, || is_gone(&mut watcher, process_id));
    }
}
