//! Both query protocols and COPY against the SQL layer.

mod common;

use std::time::Duration;

use common::*;

#[test]
fn one_query_may_hold_several_statements() {
    let server = TestServer::start();
    let mut client = server.client();
    let (status, messages) = client.query("select 1; select 2;");
    assert_eq!((status, tags(&messages).as_str()), (b'I', "TDCTDC"));
    assert_eq!(messages[2].text(), "SELECT 1");
    let (status, messages) = client.query("select 1; select 1/0; select 2");
    assert_eq!((status, tags(&messages).as_str()), (b'I', "TDCE"));
    assert_eq!(error(&messages).sqlstate(), "22012");
    let (_, messages) = client.query("");
    assert_eq!(tags(&messages), "I");
}

#[test]
fn a_failed_transaction_says_so_until_its_end() {
    let server = TestServer::start();
    let mut client = server.client();
    assert_eq!(client.query("begin").0, b'T');
    assert_eq!(client.query("select 1/0").0, b'E');
    let (status, messages) = client.query("select 1");
    assert_eq!((status, error(&messages).sqlstate().as_str()), (b'E', "25P02"));
    assert_eq!(client.query("rollback").0, b'I');
    assert_eq!(client.rows("select 1"), ["1"]);
}

#[test]
fn the_server_says_where_and_how_it_is() {
    let server = TestServer::start();
    let mut client = server.client();
    let port = server.address.port().to_string();
    assert_eq!(client.rows("select inet_server_addr() || ' ' || inet_server_port()"), [format!("127.0.0.1/32 {port}")]);
    // Over a page server it has little memory.
    let memory = if std::env::var_os("RESURGAM_TIERS").is_some() { "8MB" } else { "64MB" };
    for (name, value) in [("listen_addresses", "127.0.0.1"), ("ssl", "off"), ("shared_buffers", memory)] {
        assert_eq!(client.rows(&format!("show {name}")), [value], "{name}");
        assert_eq!(client.rows(&format!("select setting from pg_settings where name = '{name}'")), [value], "{name}");
    }
    assert!(client.rows("show data_directory")[0].starts_with('/'));
    assert_eq!(client.rows("show config_file"), [""]);
    let (_, messages) = client.query("set shared_buffers = '1GB'");
    assert_eq!(error(&messages).sqlstate(), "55P02");
    // Places are not for everybody.
    client.query("create role nobody; set role nobody");
    for asks in ["show data_directory", "select current_setting('data_directory')"] {
        let (_, messages) = client.query(asks);
        assert_eq!(error(&messages).sqlstate(), "42501", "{asks}");
    }
    assert_eq!(client.rows("select count(*) from pg_settings where name in ('data_directory', 'data')"), ["0"]);
    client.query("reset role; grant pg_read_all_settings to nobody; set role nobody");
    assert_eq!(client.rows("select count(*) from pg_settings where name in ('data_directory', 'data')"), ["2"]);
}

/// Fields by which drivers tell what was violated.
#[test]
fn errors_name_types_and_constraints() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create domain pos as int check (value > 0)");
    let (_, messages) = client.query("select (-1)::pos");
    let of_domain = error(&messages);
    assert_eq!(of_domain.field(b'd').as_deref(), Some("pos"));
    assert_eq!(of_domain.field(b'n').as_deref(), Some("pos_check"));
    client.query("create table twice (a int); insert into twice values (1), (1)");
    let (_, messages) = client.query("create unique index twice_a on twice (a)");
    let duplicate = error(&messages);
    let fields = [b's', b't', b'n'].map(|code| duplicate.field(code).unwrap_or_default());
    assert_eq!((duplicate.sqlstate().as_str(), fields), ("23505", ["public", "twice", "twice_a"].map(str::to_owned)));
    // What there is already is told with the code of the error that it would be.
    for (again, code) in [
        ("create table if not exists twice (a int)", "42P07"),
        ("alter table twice add column if not exists a int", "42701"),
        ("create sequence s; create sequence if not exists s", "42P07"),
    ] {
        let (_, messages) = client.query(again);
        let notice = messages.iter().find(|message| message.tag == b'N').expect(again);
        assert_eq!(notice.sqlstate(), code, "{again}");
    }
}

#[test]
fn extended_answers_come_in_order() {
    let server = TestServer::start();
    let mut client = server.client();
    let all = [
        parse("s", "select $1::text"),
        describe(b'S', "s"),
        bind("", "s", &[Some("hello")]),
        describe(b'P', ""),
        execute("", 0),
        bind("", "s", &[Some("again")]),
        execute("", 0),
        sync(),
    ]
    .concat();
    client.send(&all);
    let (status, messages) = client.until_ready();
    assert_eq!((status, tags(&messages).as_str()), (b'I', "1tT2TDC2DC"));
    assert_eq!(messages[1].body, b"\0\x01\0\0\0\x19");
    assert_eq!(messages[5].first().unwrap(), "hello");
    assert_eq!(messages[8].first().unwrap(), "again");
}

/// JDBC's `{? = call upper(?)}` has a parameter of `void` for what the function gives.
#[test]
fn a_parameter_of_void_is_no_argument() {
    let server = TestServer::start();
    let mut client = server.client();
    let parse_typed = |text: &str, types: &[u32]| {
        let mut body = format!("\0{text}\0").into_bytes();
        body.extend((types.len() as u16).to_be_bytes());
        types.iter().for_each(|oid| body.extend(oid.to_be_bytes()));
        message(b'P', &body)
    };
    for text in ["select * from upper($1,$2) as result", "select upper($1, $2)"] {
        let all = [parse_typed(text, &[2278, 25]), bind("", "", &[None, Some("abc")]), execute("", 0), sync()];
        client.send(&all.concat());
        let (status, messages) = client.until_ready();
        assert_eq!((status, tags(&messages).as_str()), (b'I', "12DC"), "{text}");
        assert_eq!(messages[2].first().expect("a value"), "ABC");
    }
}

#[test]
fn an_error_skips_to_sync() {
    let server = TestServer::start();
    let mut client = server.client();
    let all = [
        parse("", "select 1/0"),
        bind("", "", &[]),
        execute("", 0),
        parse("", "select 1"),
        bind("", "", &[]),
        execute("", 0),
        message(b'Q', b"select 3\0"),
        sync(),
        parse("", "select 1"),
        bind("", "", &[]),
        execute("", 0),
        sync(),
    ]
    .concat();
    client.send(&all);
    let (status, messages) = client.until_ready();
    assert_eq!(status, b'I');
    assert_eq!(messages.last().unwrap().tag, b'E', "{messages:?}");
    assert_eq!(error(&messages).sqlstate(), "22012");
    let (status, messages) = client.until_ready();
    assert_eq!((status, tags(&messages).as_str()), (b'I', "12DC"));
}

#[test]
fn unknown_statements_and_portals_are_errors() {
    let server = TestServer::start();
    let mut client = server.client();
    for (step, sqlstate) in [
        (bind("", "none", &[]), "26000"),
        (describe(b'S', "none"), "26000"),
        (describe(b'P', "none"), "34000"),
        (execute("none", 0), "34000"),
    ] {
        client.send(&[step, sync()].concat());
        let (status, messages) = client.until_ready();
        assert_eq!((status, error(&messages).sqlstate().as_str()), (b'I', sqlstate));
    }
    client.send(&[message(b'C', b"Snone\0"), sync()].concat());
    assert_eq!(tags(&client.until_ready().1), "3");
}

#[test]
fn flush_sends_answers_without_ending_the_transaction() {
    let server = TestServer::start();
    let mut client = server.client();
    client.send(&[parse("", "select 1"), message(b'H', b"")].concat());
    assert_eq!(client.next().unwrap().tag, b'1');
    client.send(&[bind("", "", &[]), execute("", 0), message(b'H', b"")].concat());
    let got: String = (0..3).map(|_| client.next().unwrap().tag as char).collect();
    assert_eq!(got, "2DC");
    client.send(&sync());
    assert_eq!(client.until_ready().0, b'I');
}

#[test]
fn portals_suspend_and_go_on() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("begin");
    client.send(
        &[
            parse("", "select generate_series(1, 5)"),
            bind("p", "", &[]),
            execute("p", 2),
            execute("p", 2),
            execute("p", 2),
            sync(),
        ]
        .concat(),
    );
    let (status, messages) = client.until_ready();
    assert_eq!((status, tags(&messages).as_str()), (b'T', "12DDsDDsDC"));
    let rows: Vec<_> = messages.iter().filter(|message| message.tag == b'D').filter_map(Message::first).collect();
    assert_eq!(rows, ["1", "2", "3", "4", "5"]);
    client.query("commit");
}

/// An idle READ COMMITTED block keeps a snapshot for a portal that has rows left, and for nothing
/// else: not for one that has ended or was closed, nor for a COPY.
#[test]
fn only_who_reads_on_keeps_a_snapshot() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.client(), server.client());
    client.query("create table t (a int primary key, b text)");
    client.query("insert into t select i, 'old' from generate_series(1, 100000) as s(i)");
    // A plan that is left ends on its own thread, so a snapshot may be held for a moment more.
    let mut held = |wanted: &str| {
        let mut now = Vec::new();
        for _ in 0..1000 {
            other.query("update t set b = 'newer' where a = 1000");
            now = other.rows("select count(*) from resurgam_version_store_holders where kind = 'snapshot'");
            if now == [wanted] {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        now
    };
    let select = || [parse("", "select b from t order by a"), bind("p", "", &[]), execute("p", 10), sync()].concat();
    client.query("begin");
    client.send(&select());
    assert_eq!(client.until_ready().1.last().map(|message| message.tag), Some(b's'));
    assert_eq!(held("1"), ["1"]);
    // Another statement ends beside it.
    assert_eq!(client.rows("select b from t where a = 1000"), ["newer"]);
    assert_eq!(held("1"), ["1"]);
    client.send(&[execute("p", 0), sync()].concat());
    let (_, messages) = client.until_ready();
    let rows: Vec<_> = messages.iter().filter(|message| message.tag == b'D').filter_map(Message::first).collect();
    assert_eq!((rows.len(), rows.last().map(String::as_str)), (99_990, Some("old")), "as of its statement");
    assert_eq!(held("0"), ["0"]);
    client.query("commit");

    client.query("begin");
    client.send(&select());
    client.until_ready();
    assert_eq!(held("1"), ["1"]);
    client.send(&[message(b'C', b"Pp\0"), sync()].concat());
    client.until_ready();
    assert_eq!(held("0"), ["0"], "closed");
    assert_eq!(client.query("copy t to stdout").1.last().map(Message::text).as_deref(), Some("COPY 100000"));
    assert_eq!(held("0"), ["0"], "COPY TO");
    client.send(&query("copy t from stdin"));
    assert_eq!(client.next().map(|message| message.tag), Some(b'G'));
    client.send(&[message(b'd', b"100001\tx\n"), message(b'c', b"")].concat());
    assert_eq!(client.until_ready().1[0].text(), "COPY 1");
    assert_eq!(held("0"), ["0"], "COPY FROM");
    // Planned against its own definitions, and not run.
    client.query("create table own (a int)");
    client.send(&[parse("s", "select a from own"), describe(b'S', "s"), sync()].concat());
    client.until_ready();
    assert_eq!(held("0"), ["0"], "planned");
    client.query("commit");
}

/// Portals that are older than a savepoint outlive going back to it; later ones do not.
#[test]
fn portals_and_savepoints() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table t (a int primary key, b text)");
    client.query("insert into t select i, 'before' from generate_series(1, 500) as s(i)");
    let numbers = |messages: &[Message]| -> Vec<String> {
        messages.iter().filter(|message| message.tag == b'D').filter_map(Message::first).collect()
    };
    let open = |portal: &str, text: &str| [parse("", text), bind(portal, "", &[])].concat();
    client.query("begin");
    client.query("savepoint outer_one");
    client.send(&[open("old", "select a from t order by a"), execute("old", 2), sync()].concat());
    assert_eq!(numbers(&client.until_ready().1), ["1", "2"]);
    client.send(&[open("waits", "select count(*) from t where b = 'before'"), sync()].concat());
    client.until_ready();
    client.query("savepoint s");
    client.query("update t set b = 'changed' where a > 3; delete from t where a = 4");
    client.send(&[open("new", "select a from t order by a"), execute("new", 1), execute("old", 1), sync()].concat());
    assert_eq!(numbers(&client.until_ready().1), ["1", "3"]);
    client.query("rollback to s");
    // It goes on where it was, and sees what is there again.
    client.send(&[execute("waits", 0), execute("old", 300), sync()].concat());
    let expected: Vec<String> = [500].into_iter().chain(4..304).map(|number: i32| number.to_string()).collect();
    assert_eq!(numbers(&client.until_ready().1), expected);
    client.send(&[execute("new", 1), sync()].concat());
    let (status, messages) = client.until_ready();
    assert_eq!((status, error(&messages).sqlstate().as_str()), (b'E', "34000"));
    // An error has the block fail; the portal waits for the savepoint.
    client.send(&[execute("old", 1), sync()].concat());
    assert_eq!(error(&client.until_ready().1).sqlstate(), "25P02");
    client.query("rollback to s");
    client.send(&[execute("old", 1), sync()].concat());
    assert_eq!(numbers(&client.until_ready().1), ["304"]);
    // One that failed itself cannot go on.
    client.query("rollback to outer_one");
    client.send(&[execute("old", 1), sync()].concat());
    assert_eq!(error(&client.until_ready().1).sqlstate(), "34000");
    client.query("rollback to outer_one");
    client.send(&[open("fails", "select 10 / (5 - a) from t order by a"), sync()].concat());
    client.until_ready();
    client.query("savepoint s");
    client.send(&[execute("fails", 0), sync()].concat());
    assert_eq!(error(&client.until_ready().1).sqlstate(), "22012");
    client.query("rollback to s");
    client.send(&[execute("fails", 0), sync()].concat());
    let (_, messages) = client.until_ready();
    assert_eq!(error(&messages).sqlstate(), "55000");
    assert_eq!(error(&messages).field(b'M').unwrap(), "portal \"fails\" cannot be run");
    // A released savepoint's portals belong to the one around it.
    client.query("rollback to outer_one");
    client.query("savepoint s");
    client.send(&[open("p", "select a from t order by a"), execute("p", 1), sync()].concat());
    client.until_ready();
    client.query("release s");
    client.query("savepoint s");
    client.query("rollback to s");
    client.send(&[execute("p", 1), sync()].concat());
    assert_eq!(numbers(&client.until_ready().1), ["2"]);
    client.query("rollback to outer_one");
    client.send(&[execute("p", 1), sync()].concat());
    assert_eq!(error(&client.until_ready().1).sqlstate(), "34000");
    client.query("rollback");
}

/// What a portal was planned with may be changed by its own transaction before it runs.
#[test]
fn portals_follow_changes_of_definitions() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table t (a int)");
    let alter = |text: &str| [parse("", text), bind("", "", &[]), execute("", 0)].concat();
    client.query("begin");
    client.send(
        &[
            parse("", "insert into t values (2)"),
            bind("p1", "", &[]),
            parse("", "select count(*) from t"),
            bind("n", "", &[]),
            parse("", "select a from t"),
            bind("rows", "", &[]),
            alter("alter table t add column b int default 7"),
            alter("alter table t add primary key (a)"),
            execute("p1", 0),
            execute("n", 0),
            execute("rows", 0),
            sync(),
        ]
        .concat(),
    );
    let (status, messages) = client.until_ready();
    assert_eq!((status, tags(&messages).as_str()), (b'T', "12121212C12CCDCDC"), "{messages:?}");
    client.query("commit");
    assert_eq!(client.rows("select a * 10 + b from t"), ["27"]);

    // The columns of its result are known to the client, and stay as they are.
    client.query("begin");
    client.send(
        &[
            parse("", "select a from t"),
            bind("p", "", &[]),
            alter("alter table t alter a type text"),
            execute("p", 0),
            sync(),
        ]
        .concat(),
    );
    let (status, messages) = client.until_ready();
    assert_eq!((status, error(&messages).sqlstate().as_str()), (b'E', "0A000"), "{messages:?}");
    client.query("rollback");
    // Another's change, between Bind and Execute.
    client.query("begin");
    client.send(&[parse("", "insert into t values (3)"), bind("p", "", &[]), sync()].concat());
    assert_eq!(tags(&client.until_ready().1), "12");
    server.client().query("alter table t drop constraint t_pkey");
    client.send(&[execute("p", 0), sync()].concat());
    assert_eq!(client.until_ready().0, b'T');
    client.query("commit");
    assert_eq!(client.rows("select a from t order by a"), ["2", "3"]);
}

/// Rows of a newer definition than the transaction sees are not mistaken for damaged ones.
#[test]
fn an_upsert_behind_a_change_of_the_definition() {
    let server = TestServer::start();
    let (mut behind, mut other) = (server.client(), server.client());
    behind.query("create table t (a int primary key)");
    behind.query("begin isolation level repeatable read");
    assert_eq!(behind.rows("select a from t").len(), 0);
    other.query("alter table t add column b int; insert into t values (7, 1)");
    let (status, messages) = behind.query("insert into t values (7) on conflict (a) do update set a = excluded.a");
    assert_eq!((status, error(&messages).sqlstate().as_str()), (b'E', "40001"), "{messages:?}");
    behind.query("rollback");
    assert_eq!(other.rows("select b from t"), ["1"]);
}

#[test]
fn large_results_stream() {
    let server = TestServer::start();
    let mut client = server.client();
    let rows = client.rows("select generate_series(1, 300000)");
    assert_eq!(rows.len(), 300_000);
    assert_eq!(rows.last().unwrap(), "300000");
}

#[test]
fn copy_goes_both_ways() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table t (a text)");
    client.send(&query("copy t from stdin"));
    assert_eq!(client.next().unwrap().tag, b'G');
    for part in ["row1\nro", "w2\nr", "ow3\n"] {
        client.send(&message(b'd', part.as_bytes()));
    }
    client.send(&message(b'c', b""));
    let (status, messages) = client.until_ready();
    assert_eq!((status, messages[0].text().as_str()), (b'I', "COPY 3"));

    let (_, messages) = client.query("copy t to stdout");
    assert_eq!(messages[0].tag, b'H');
    let data: Vec<u8> =
        messages.iter().filter(|message| message.tag == b'd').flat_map(|message| message.body.clone()).collect();
    assert_eq!(String::from_utf8(data).unwrap(), "row1\nrow2\nrow3\n");
    assert_eq!(messages.last().unwrap().text(), "COPY 3");
}

#[test]
fn copy_can_be_given_up() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table t (a text)");
    client.send(&query("copy t from stdin"));
    assert_eq!(client.next().unwrap().tag, b'G');
    client.send(&[message(b'd', b"row1\n"), message(b'f', b"changed my mind\0")].concat());
    let (status, messages) = client.until_ready();
    assert_eq!((status, error(&messages).sqlstate().as_str()), (b'I', "57014"));
    assert!(error(&messages).field(b'M').unwrap().contains("changed my mind"));
    assert_eq!(client.rows("select 1"), ["1"]);
}

#[test]
fn copy_in_the_extended_protocol_ignores_early_syncs() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table t (a text)");
    client.send(&[parse("", "copy t from stdin"), bind("", "", &[]), execute("", 0), message(b'H', b"")].concat());
    let got: String = (0..3).map(|_| client.next().unwrap().tag as char).collect();
    assert_eq!(got, "12G");
    client.send(&[sync(), message(b'd', b"x\n"), message(b'c', b""), sync()].concat());
    let (status, messages) = client.until_ready();
    assert_eq!((status, messages[0].text().as_str()), (b'I', "COPY 1"));
}

#[test]
fn a_query_during_copy_is_a_protocol_error() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table t (a text)");
    client.send(&query("copy t from stdin"));
    assert_eq!(client.next().unwrap().tag, b'G');
    client.send(&query("select 1"));
    let (_, messages) = client.until_ready();
    assert_eq!(error(&messages).sqlstate(), "08P01");
    assert_eq!(server.client().rows("select 1"), ["1"]);
}
