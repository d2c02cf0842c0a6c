//! LISTEN and NOTIFY as clients see them: when notifications come, in which order, and what a client that does not take them
//! costs others.

mod common;

use std::time::{Duration, Instant};

use common::{Client, Message, TestServer, bind, execute, parse, sync, tags};
use resurgam_server::settings::Bytes;

/// Channel and payload of each notification among the messages.
fn told(messages: &[Message]) -> Vec<(String, String)> {
    let of = |message: &Message| {
        let mut texts =
            message.body[4..].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        (texts.next().unwrap_or_default(), texts.next().unwrap_or_default())
    };
    messages.iter().filter(|message| message.tag == b'A').map(of).collect()
}

fn pairs(all: &[(&str, &str)]) -> Vec<(String, String)> {
    all.iter().map(|(channel, payload)| ((*channel).to_owned(), (*payload).to_owned())).collect()
}

fn next_told(client: &mut Client) -> Vec<(String, String)> {
    told(&[client.next().expect("a message")])
}

#[test]
fn notifications_come_when_their_transaction_has_committed() {
    let server = TestServer::start();
    let (mut one, mut two) = (server.client(), server.client());
    one.query("LISTEN a; LISTEN b");
    // To an idle client at once, each once, in order; what is taken back is not told.
    two.query("BEGIN");
    for text in ["NOTIFY a, '1'", "NOTIFY b", "NOTIFY a, '1'", "SAVEPOINT s", "NOTIFY a, 'gone'", "ROLLBACK TO s"] {
        two.query(text);
    }
    two.query("SELECT pg_notify('a', '2'), pg_notify('c', 'nobody listens')");
    let (_, messages) = two.query("COMMIT");
    assert_eq!(told(&messages), []);
    assert_eq!(next_told(&mut one), pairs(&[("a", "1")]));
    assert_eq!(next_told(&mut one), pairs(&[("b", "")]));
    assert_eq!(next_told(&mut one), pairs(&[("a", "2")]));
    two.query("BEGIN; NOTIFY a, 'rolled back'; ROLLBACK");

    // To oneself before ReadyForQuery, with the number of whom it is from.
    let pid: i32 = one.rows("SELECT pg_backend_pid()")[0].parse().expect("a number");
    let (_, messages) = one.query("NOTIFY a, 'self'");
    assert_eq!((tags(&messages).as_str(), told(&messages)), ("CA", pairs(&[("a", "self")])));
    assert_eq!(messages[1].body[..4], pid.to_be_bytes());

    // By the extended protocol, at Sync.
    one.send(&[parse("", "SELECT pg_notify('a', $1)"), bind("", "", &[Some("ext")]), execute("", 0), sync()].concat());
    let (_, messages) = one.until_ready();
    assert_eq!((tags(&messages).as_str(), told(&messages)), ("12DCA", pairs(&[("a", "ext")])));

    // To one that is in a transaction when that has ended, also if it failed.
    one.query("BEGIN");
    two.query("NOTIFY a, 'while busy'");
    assert_eq!(told(&one.query("SELECT 1").1), []);
    assert_eq!(told(&one.query("SELECT 1 / 0").1), []);
    assert_eq!(told(&one.query("ROLLBACK").1), pairs(&[("a", "while busy")]));

    // Who listens no longer is told nothing; who begins to, what is committed later.
    one.query("BEGIN; UNLISTEN b; LISTEN c; NOTIFY c, 'both'; NOTIFY b, 'no'");
    assert_eq!(told(&one.query("COMMIT").1), pairs(&[("c", "both")]));
    two.query("NOTIFY b; NOTIFY c, 'last'");
    assert_eq!(next_told(&mut one), pairs(&[("c", "last")]));
    one.query("UNLISTEN *");
    two.query("NOTIFY a; NOTIFY c");
    assert_eq!(tags(&one.query("SELECT 1").1), "TDC");
}

/// What many tell at once comes in the order of their commits: each transaction takes the next number of a row that they share.
#[test]
fn the_order_is_that_of_the_commits() {
    const EACH: usize = 60;
    let server = TestServer::start();
    let (mut first, mut listener) = (server.client(), server.client());
    first.query("CREATE TABLE n (i int); INSERT INTO n VALUES (0)");
    listener.query("LISTEN n");
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let mut client = server.client();
            std::thread::spawn(move || {
                for _ in 0..EACH {
                    let (_, messages) = client.query("UPDATE n SET i = i + 1; SELECT pg_notify('n', i::text) FROM n");
                    assert!(!messages.iter().any(|message| message.tag == b'E'), "{messages:?}");
                }
            })
        })
        .collect();
    for wanted in 1..=4 * EACH {
        assert_eq!(next_told(&mut listener), pairs(&[("n", &wanted.to_string())]));
    }
    writers.into_iter().for_each(|writer| writer.join().expect("a writer"));
}

/// Clients that do not take what they are told slow nobody down. When there is no room, who tells fails, and nothing of his
/// transaction is left; when they are gone there is room again.
#[test]
fn a_client_that_takes_nothing_slows_nobody_down() {
    let server = TestServer::with(|settings| settings.notify_queue_bytes = Bytes(1 << 20));
    let (mut idle, mut busy, mut teller) = (server.client(), server.client(), server.client());
    teller.query("CREATE TABLE t (i int)");
    busy.query("LISTEN a");
    busy.query("BEGIN");
    idle.query("LISTEN other");
    let payload = "p".repeat(7000);
    let begun = Instant::now();
    let mut refused = None;
    for round in 0..1000 {
        let (_, messages) = teller.query(&format!("INSERT INTO t VALUES ({round}); NOTIFY a, '{payload}'"));
        if let Some(error) = messages.iter().find(|message| message.tag == b'E') {
            assert_eq!(error.sqlstate(), "54000");
            refused = Some(round);
            break;
        }
    }
    let refused = refused.expect("the room has an end");
    assert!((100..200).contains(&refused), "{refused}");
    assert!(begun.elapsed() < Duration::from_secs(60));
    assert_eq!(teller.rows("SELECT count(*) FROM t"), [refused.to_string()]);
    let usage: f64 = teller.rows("SELECT pg_notification_queue_usage()")[0].parse().expect("a number");
    assert!(usage > 0.9, "{usage}");
    // Others are told.
    teller.query("NOTIFY other, 'x'");
    assert_eq!(next_told(&mut idle), pairs(&[("other", "x")]));
    drop(busy);
    let begun = Instant::now();
    while teller.query("NOTIFY a, 'y'").1.iter().any(|message| message.tag == b'E') {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
    while teller.rows("SELECT pg_notification_queue_usage()") != ["0"] {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(20));
    }
}
