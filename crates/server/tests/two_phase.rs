//! Two-phase commit over the protocol, across crashes, in both recovery modes.

mod common;

use std::time::Duration;

use common::exposition;
use common::http::get;
use common::process::Process;
use common::*;

/// The identifiers that pgjdbc's XA resource makes.
const FIRST: &str = "131077_AAAAAAAAAAAAAP//CgAB_AAAAAAAAAAAA==";
const SECOND: &str = "131077_AAAAAAAAAAAAAP//CgAC_AAAAAAAAAAAA==";
/// What it asks when a transaction manager recovers.
const RECOVER: &str = "SELECT gid FROM pg_prepared_xacts where database = current_database()";

fn ok(client: &mut Client, text: &str) -> (u8, String) {
    let (status, messages) = client.query(text);
    assert!(!messages.iter().any(|message| message.tag == b'E'), "{text}: {messages:?}");
    (status, messages.last().map(Message::text).unwrap_or_default())
}

fn fails(client: &mut Client, text: &str) -> String {
    error(&client.query(text).1).sqlstate()
}

fn value(process: &Process, sample: &str) -> f64 {
    exposition::read(&get(process.http, "/metrics").body).value(sample)
}

fn across_crashes(mode: &str) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let flags = [&*format!("--accelerated-database-recovery={mode}")];
    let server = Process::start(&data, &flags);
    let mut first = server.client();
    ok(&mut first, "create table account (id int primary key, balance int not null)");
    ok(&mut first, "insert into account select i, 100 from generate_series(1, 3000) as s(i)");
    ok(&mut first, "begin");
    ok(&mut first, "update account set balance = balance - 10 where id = 1");
    ok(&mut first, "create table noted (a int)");
    assert_eq!(ok(&mut first, &format!("PREPARE TRANSACTION '{FIRST}'")), (b'I', "PREPARE TRANSACTION".into()));
    // Long enough to be marked as aborted, rather than undone at once.
    ok(&mut first, "begin");
    ok(&mut first, "update account set balance = 0 where id between 1001 and 2000");
    ok(&mut first, "insert into account values (9000, 1)");
    ok(&mut first, &format!("PREPARE TRANSACTION '{SECOND}'"));
    // One that nobody prepared.
    ok(&mut first, "begin");
    ok(&mut first, "update account set balance = -1 where id = 2");
    let mut second = server.client();
    ok(&mut second, "insert into account values (9001, 7)");
    server.kill();

    let server = Process::start(&data, &flags);
    while get(server.http, "/ready").status != 200 {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(value(&server, "resurgam_recovery_transactions_in_doubt"), 2.0);
    assert_eq!(value(&server, "resurgam_prepared_transactions"), 2.0);
    let mut client = server.client();
    let mut gids = client.rows(RECOVER);
    gids.sort();
    assert_eq!(gids, [FIRST, SECOND]);
    assert_eq!(client.rows("select owner || '@' || database from pg_prepared_xacts"), ["postgres@postgres"; 2]);
    // What they did is not seen; what was before is.
    assert_eq!(client.rows("select balance from account where id in (1, 1500, 9000)"), ["100", "100"]);
    // Their rows and keys, and nothing else, are locked.
    ok(&mut client, "set lock_timeout = '50ms'");
    assert_eq!(fails(&mut client, "update account set balance = 5 where id = 1"), "55P03");
    assert_eq!(fails(&mut client, "delete from account where id = 2000"), "55P03");
    assert_eq!(fails(&mut client, "insert into account values (9000, 2)"), "55P03");
    ok(&mut client, "set lock_timeout = 0");
    ok(&mut client, "update account set balance = balance + 1 where id = 2");
    assert_eq!(client.rows("select balance from account where id = 2"), ["101"]);
    assert_eq!(client.rows("select balance from account where id = 9001"), ["7"]);
    // And again, with a checkpoint in between that carries them.
    ok(&mut client, "checkpoint");
    server.kill();

    let server = Process::start(&data, &flags);
    let mut client = server.client();
    assert_eq!(client.rows(RECOVER).len(), 2);
    assert_eq!(ok(&mut client, &format!("COMMIT PREPARED '{FIRST}'")), (b'I', "COMMIT PREPARED".into()));
    assert_eq!(ok(&mut client, &format!("ROLLBACK PREPARED '{SECOND}'")), (b'I', "ROLLBACK PREPARED".into()));
    assert_eq!(fails(&mut client, &format!("COMMIT PREPARED '{FIRST}'")), "42704");
    assert_eq!(value(&server, "resurgam_prepared_transactions_resolved_total{as=\"committed\"}"), 1.0);
    assert_eq!(value(&server, "resurgam_prepared_transactions_resolved_total{as=\"rolled_back\"}"), 1.0);
    server.kill();

    let server = Process::start(&data, &flags);
    let mut client = server.client();
    assert!(client.rows(RECOVER).is_empty());
    assert_eq!(client.rows("select balance from account where id = 1"), ["90"]);
    assert_eq!(client.rows("select count(*) from noted"), ["0"]);
    assert_eq!(client.rows("select sum(balance) from account where id between 1001 and 2000"), ["100000"]);
    assert_eq!(client.rows("select count(*) from account where id = 9000"), ["0"]);
    ok(&mut client, "delete from account");
}

#[test]
fn prepared_transactions_outlive_crashes() {
    across_crashes("on");
}

#[test]
fn prepared_transactions_outlive_crashes_in_the_traditional_mode() {
    across_crashes("off");
}

#[test]
fn the_extended_protocol_prepares_and_finishes() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table t (a int primary key)");
    let run = |client: &mut Client, text: &str| {
        client.send(&[parse("", text), bind("", "", &[]), describe(b'P', ""), execute("", 0), sync()].concat());
        client.until_ready()
    };
    run(&mut client, "BEGIN");
    run(&mut client, "insert into t values (1)");
    // A portal that is still open does not outlive the transaction.
    client.send(
        &[parse("s", "select 1 from t"), bind("open", "s", &[]), execute("open", 1), message(b'H', b"")].concat(),
    );
    let (status, messages) = run(&mut client, "PREPARE TRANSACTION 'x'");
    assert_eq!(status, b'I');
    assert!(tags(&messages).ends_with("12nC"), "{messages:?}");
    assert_eq!(messages.last().unwrap().text(), "PREPARE TRANSACTION");
    client.send(&[execute("open", 1), sync()].concat());
    assert_eq!(error(&client.until_ready().1).sqlstate(), "34000");
    let (status, messages) = run(&mut client, "COMMIT PREPARED 'x'");
    assert_eq!((status, messages.last().unwrap().text().as_str()), (b'I', "COMMIT PREPARED"));
    assert_eq!(client.rows("select a from t"), ["1"]);
    // Behind work of the same pipeline it is refused, and nothing of that is lost silently.
    client.send(
        &[
            parse("", "insert into t values (2)"),
            bind("", "", &[]),
            execute("", 0),
            parse("", "COMMIT PREPARED 'x'"),
            bind("", "", &[]),
            execute("", 0),
            sync(),
        ]
        .concat(),
    );
    let (status, messages) = client.until_ready();
    assert_eq!((status, error(&messages).sqlstate().as_str()), (b'I', "25001"));
    assert_eq!(client.rows("select count(*) from t"), ["1"]);
}

#[test]
fn a_client_that_goes_away_leaves_its_prepared_transaction() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table t (a int primary key)");
    ok(&mut client, "begin; insert into t values (1); prepare transaction 'left'");
    drop(client);
    let mut client = server.client();
    assert_eq!(client.rows(RECOVER), ["left"]);
    ok(&mut client, "commit prepared 'left'");
    assert_eq!(client.rows("select a from t"), ["1"]);
}

#[test]
fn warnings_and_limits_are_those_of_postgresql() {
    let server = TestServer::with(|settings| settings.max_prepared_transactions = 1);
    let mut client = server.client();
    let (status, messages) = client.query("PREPARE TRANSACTION 'x'");
    assert_eq!((status, tags(&messages).as_str()), (b'I', "NC"));
    assert_eq!((messages[0].sqlstate().as_str(), messages[1].text().as_str()), ("25P01", "ROLLBACK"));
    ok(&mut client, "begin");
    client.query("select 1/0");
    assert_eq!(ok(&mut client, "PREPARE TRANSACTION 'x'"), (b'I', "ROLLBACK".into()));
    ok(&mut client, "begin");
    ok(&mut client, "PREPARE TRANSACTION 'x'");
    ok(&mut client, "begin");
    let (status, messages) = client.query("PREPARE TRANSACTION 'y'");
    let refused = error(&messages);
    assert_eq!((status, refused.sqlstate().as_str()), (b'I', "53400"), "{refused:?}");
    assert!(refused.field(b'H').unwrap().contains("max_prepared_transactions"), "{refused:?}");
    ok(&mut client, "rollback prepared 'x'");

    let server = TestServer::with(|settings| settings.max_prepared_transactions = 0);
    let mut client = server.client();
    ok(&mut client, "begin");
    let (status, messages) = client.query("PREPARE TRANSACTION 'x'");
    let refused = error(&messages);
    assert_eq!((status, refused.sqlstate().as_str()), (b'I', "55000"));
    assert_eq!(refused.field(b'M').unwrap(), "prepared transactions are disabled");
    assert_eq!(refused.field(b'H').unwrap(), "Set max_prepared_transactions to a nonzero value.");
    assert_eq!(client.rows("show max_prepared_transactions"), ["0"]);
}
