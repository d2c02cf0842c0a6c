//! Foreign keys where several connections meet: no row ever refers to nothing. And DEFERRABLE UNIQUE constraints: no two rows
//! that were committed have the same key.
//!
//! What one connection sees is in `ddl/foreign_keys.sql` and `ddl/deferrable_unique.sql`.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use common::process::Process;
use common::*;

/// A small generator of numbers; the same seed gives the same ones.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

fn ok(client: &mut Client, text: &str) {
    let (_, messages) = client.query(text);
    assert!(!messages.iter().any(|message| message.tag == b'E'), "{text}: {messages:?}");
}

fn state(messages: &[Message]) -> Option<String> {
    messages.iter().find(|message| message.tag == b'E').map(Message::sqlstate)
}

fn fails(client: &mut Client, text: &str) -> String {
    error(&client.query(text).1).sqlstate()
}

/// Keys of the parents, and ids of the children: few, so that transactions meet.
const KEYS: u64 = 6;
const CHILDREN: u64 = 12;

/// One statement that may break the constraint if nobody looks.
fn statement(random: &mut Random) -> String {
    let (key, other) = (random.below(KEYS), random.below(KEYS));
    let (child, moved) = (random.below(CHILDREN), random.below(CHILDREN));
    match random.below(12) {
        0 | 1 => format!("insert into parent values ({key}, {key}, 0)"),
        2 | 3 => format!("delete from parent where id = {key}"),
        4 => format!("delete from parent where key in ({key}, {other})"),
        5 => format!("update parent set key = {other}, id = {other} where id = {key}"),
        6 => format!("update parent set n = n + 1 where id = {key}"),
        7 => format!("insert into child values ({child}, {key}, 0)"),
        8 => format!("insert into child values ({child}, {key}, 0), ({moved}, {other}, 0) on conflict do nothing"),
        9 => format!("update child set p = {key} where id = {child}"),
        // The row evades a search that has passed its new place.
        10 => format!("update child set id = {moved} where id = {child}"),
        _ => format!("delete from child where id = {child}"),
    }
}

/// Runs transactions; what they meet is their own, or one of those that concurrency brings.
fn work(
    client: &mut Client,
    seed: u64,
    transactions: u64,
    begin: &str,
    statement: fn(&mut Random) -> String,
    allowed: &[&str],
) {
    let mut random = Random(seed);
    for _ in 0..transactions {
        let mut failed = !begin.is_empty() && random.below(3) > 0;
        let block = failed;
        if block {
            ok(client, begin);
        }
        failed = false;
        let mut savepoint = false;
        for _ in 0..if block { 1 + random.below(4) } else { 1 } {
            if block && random.below(4) == 0 {
                ok(client, "savepoint s");
                savepoint = true;
            }
            let text = statement(&mut random);
            let answer = client.query(&text).1;
            if let Some(state) = state(&answer) {
                let said = || answer.iter().find(|message| message.tag == b'E').map(Message::text).unwrap_or_default();
                assert!(allowed.contains(&state.as_str()), "{text}: {state}: {}", said());
                failed = true;
                if !savepoint {
                    break;
                }
                ok(client, "rollback to s");
                failed = false;
            } else if savepoint && random.below(3) == 0 {
                ok(client, "rollback to s");
            }
        }
        if block {
            let end = if failed || random.below(4) == 0 { "rollback" } else { "commit" };
            if let Some(state) = state(&client.query(end).1) {
                assert!(allowed.contains(&state.as_str()), "{end}: {state}");
            }
        }
    }
}

const ORPHANS: &str =
    "select c.id, c.p from child c left join parent p on p.key = c.p where c.p is not null and p.key is null";

/// Several connections at once, and one that looks for rows that refer to nothing.
fn no_orphans(definition: &[&str], begin: &str, seed: u64) {
    let server = TestServer::start();
    let mut client = server.client();
    for text in definition {
        ok(&mut client, text);
    }
    let done = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|at| {
                let mut client = server.client();
                let allowed = ["23503", "23505", "40P01", "40001"];
                scope.spawn(move || work(&mut client, seed * 100 + at, 150, begin, statement, &allowed))
            })
            .collect();
        let watch = {
            let (mut client, done) = (server.client(), Arc::clone(&done));
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(client.rows(ORPHANS), [""; 0]);
                }
            })
        };
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        watch.join().expect("an orphan was seen");
        results.into_iter().for_each(|result| result.expect("a worker"));
    });
    assert_eq!(client.rows(ORPHANS), [""; 0]);
    // The constraint says the same, row by row.
    let (_, messages) = client.query("alter table child add foreign key (p) references parent (key)");
    assert_eq!(state(&messages), None, "{messages:?}");
}

const PARENT: &str = "create table parent (id int, key int primary key, n int)";

#[test]
fn no_orphans_with_an_index() {
    let child = "create table child (id int primary key, p int references parent, n int)";
    no_orphans(&[PARENT, child, "create index on child (p)"], "begin", 1);
}

#[test]
fn no_orphans_without_an_index() {
    let child = "create table child (id int primary key, p int references parent, n int)";
    no_orphans(&[PARENT, child], "begin", 2);
}

#[test]
fn no_orphans_of_a_unique_index() {
    no_orphans(
        &[
            "create table parent (id int primary key, key int unique, n int)",
            "create table child (id int, p int references parent (key) on update cascade, n int, primary key (p, id))",
        ],
        "begin",
        3,
    );
}

#[test]
fn no_orphans_with_cascades() {
    let child =
        "create table child (id int primary key, p int references parent on delete cascade on update set null, n int)";
    no_orphans(&[PARENT, child, "create index on child (p)"], "begin", 4);
}

#[test]
fn no_orphans_deferred() {
    let child = "create table child (id int primary key, p int references parent deferrable initially deferred, n int)";
    no_orphans(&[PARENT, child, "create index on child (p)"], "begin", 5);
}

#[test]
fn no_orphans_repeatable_read() {
    let child = "create table child (id int primary key, p int references parent on delete set null, n int)";
    no_orphans(&[PARENT, child], "begin isolation level repeatable read", 6);
}

fn pair(server: &TestServer) -> (Client, Client) {
    let (mut first, mut second) = (server.client(), server.client());
    ok(&mut first, PARENT);
    ok(&mut first, "create table child (id int primary key, p int references parent, n int)");
    ok(&mut first, "insert into parent values (1, 1, 0), (2, 2, 0)");
    ok(&mut second, "set lock_timeout = '100ms'");
    (first, second)
}

#[test]
fn whoever_comes_second_waits() {
    let server = TestServer::start();
    let (mut first, mut second) = pair(&server);
    for (held, asked, committed, back) in [
        // A row that refers to the key.
        ("insert into child values (1, 1, 0)", "delete from parent where key = 1", Some("23503"), None),
        ("insert into child values (3, 2, 0)", "update parent set key = 9 where key = 2", Some("23503"), None),
        // The key goes, or comes.
        ("delete from child", "delete from parent where key = 2", None, Some("23503")),
        ("delete from parent where key = 1", "insert into child values (5, 1, 0)", Some("23503"), None),
        ("insert into parent values (3, 3, 0)", "insert into child values (6, 3, 0)", None, Some("23503")),
    ] {
        for commit in [false, true] {
            ok(&mut first, "begin");
            ok(&mut first, held);
            assert_eq!(fails(&mut second, asked), "55P03", "{held}; {asked}");
            ok(&mut second, "set lock_timeout = 0");
            ok(&mut second, "begin");
            second.send(&query(asked));
            ok(&mut first, if commit { "commit" } else { "rollback" });
            let expected = if commit { committed } else { back };
            assert_eq!(state(&second.until_ready().1).as_deref(), expected, "{held}; {asked}; {commit}");
            ok(&mut second, "rollback");
            ok(&mut second, "set lock_timeout = '100ms'");
        }
    }
}

/// What another does to other columns is no reason to wait.
#[test]
fn nobody_waits_without_need() {
    let server = TestServer::start();
    let (mut first, mut second) = pair(&server);
    ok(&mut first, "insert into child values (1, 1, 0)");
    ok(&mut first, "begin");
    ok(&mut first, "update parent set n = 1");
    ok(&mut second, "insert into child values (2, 2, 0)");
    ok(&mut first, "update child set n = 1 where id = 1");
    assert_eq!(fails(&mut second, "delete from parent where key = 1"), "55P03", "the row itself is in use");
    ok(&mut first, "rollback");
    ok(&mut first, "begin");
    ok(&mut first, "update child set n = 1 where id = 1");
    assert_eq!(fails(&mut second, "delete from parent where key = 1"), "23503");
    assert_eq!(fails(&mut second, "update parent set key = 7 where key = 1"), "23503");
    ok(&mut first, "rollback");
    // A statement that changes neither side's columns looks at nothing and locks nothing.
    ok(&mut first, "begin");
    ok(&mut first, "alter table child add x int");
    ok(&mut second, "update parent set n = 2");
    ok(&mut first, "rollback");
}

/// Savepoints: what may come back by one counts.
#[test]
fn versions_under_savepoints_count() {
    let server = TestServer::start();
    let (mut first, mut second) = pair(&server);
    // The key is there now, and would not be after going back.
    ok(&mut first, "begin");
    ok(&mut first, "delete from parent where key = 1");
    ok(&mut first, "savepoint s");
    ok(&mut first, "insert into parent values (1, 1, 0)");
    assert_eq!(fails(&mut second, "insert into child values (1, 1, 0)"), "55P03");
    ok(&mut first, "rollback to s");
    assert_eq!(fails(&mut second, "insert into child values (1, 1, 0)"), "55P03");
    ok(&mut first, "commit");
    assert_eq!(fails(&mut second, "insert into child values (1, 1, 0)"), "23503");
    // A row that refers to the key is gone now, and would be back.
    ok(&mut first, "begin");
    ok(&mut first, "insert into child values (2, 2, 0)");
    ok(&mut first, "savepoint s");
    ok(&mut first, "delete from child");
    assert_eq!(fails(&mut second, "delete from parent where key = 2"), "55P03");
    ok(&mut first, "rollback to s");
    ok(&mut first, "commit");
    assert_eq!(fails(&mut second, "delete from parent where key = 2"), "23503");
}

/// COPY, and statements whose values come later.
#[test]
fn whatever_writes_rows() {
    let server = TestServer::start();
    let (mut client, _) = pair(&server);
    let copy = |client: &mut Client, data: &[u8]| {
        client.send(&query("copy child from stdin"));
        assert_eq!(client.next().unwrap().tag, b'G');
        client.send(&[message(b'd', data), message(b'c', b"")].concat());
        client.until_ready().1
    };
    let messages = copy(&mut client, b"1\t1\t0\n2\t7\t0\n3\t\\N\t0\n");
    let refused = error(&messages);
    assert_eq!(refused.sqlstate(), "23503");
    assert_eq!(refused.field(b'D').unwrap(), "Key (p)=(7) is not present in table \"parent\".");
    assert_eq!((refused.field(b'n').unwrap(), refused.field(b't').unwrap()), ("child_p_fkey".into(), "child".into()));
    assert_eq!(client.rows("select count(*) from child"), ["0"]);
    assert_eq!(copy(&mut client, b"1\t1\t0\n2\t2\t0\n3\t\\N\t0\n")[0].text(), "COPY 3");
    ok(&mut client, "create table tree (id int primary key, up int references tree)");
    client.send(&query("copy tree from stdin"));
    assert_eq!(client.next().unwrap().tag, b'G');
    client.send(&[message(b'd', b"1\t2\n2\t3\n3\t\\N\n"), message(b'c', b"")].concat());
    assert_eq!(client.until_ready().1[0].text(), "COPY 3", "what it refers to may come later in the same statement");
    for (text, values, expected) in [
        ("insert into child values ($1, $2, 0)", &["4", "9"][..], Some("23503")),
        ("insert into child values ($1, $2, 0)", &["4", "1"], None),
        ("insert into child values ($1, $2, 0), (5, 2, 1)", &["5", "9"], Some("23505")),
        ("update child set p = $2 where id = $1", &["4", "9"], Some("23503")),
        ("update child set n = $2 where id = $1", &["4", "9"], None),
        ("update child set p = $2 where n = $1", &["9", "9"], Some("23503")),
        ("update child set p = $2 where n = $1", &["9", "2"], None),
        ("delete from parent where key = $1 and n < $2", &["2", "9"], Some("23503")),
        ("delete from parent where key = $1", &["2"], Some("23503")),
        ("delete from parent where n < $1", &["9"], Some("23503")),
        (
            "insert into child values ($1, $2, 0) on conflict (id) do update set p = excluded.p",
            &["4", "9"],
            Some("23503"),
        ),
        ("insert into child values ($1, $2, 0) on conflict (id) do update set p = excluded.p", &["4", "1"], None),
        ("delete from child where id <> $1", &["4"], None),
        ("delete from parent where key = $1", &["2"], None),
    ] {
        let values: Vec<Option<&str>> = values.iter().map(|value| Some(*value)).collect();
        client.send(&[parse("", text), bind("", "", &values), execute("", 0), sync()].concat());
        assert_eq!(state(&client.until_ready().1).as_deref(), expected, "{text} {values:?}");
    }
    assert_eq!(client.rows("select id, p from child"), ["4"]);
}

/// A row that moves from ahead of a search to behind it, while the search waits in between.
#[test]
fn a_row_cannot_evade_the_search() {
    for index in ["", "create unique index on child (p, id)"] {
        let server = TestServer::start();
        let (mut first, mut second) = pair(&server);
        if !index.is_empty() {
            ok(&mut first, index);
        }
        ok(&mut first, "insert into child values (5, null, 0), (9, 1, 0)");
        ok(&mut first, "begin");
        ok(&mut first, "update child set p = 1 where id = 5");
        let mut third = server.client();
        third.send(&query("delete from parent where key = 1"));
        // It waits for the first, in front of the second row.
        while state(&second.query("update parent set n = 1 where key = 1").1).is_none() {}
        std::thread::sleep(std::time::Duration::from_millis(50));
        assert_eq!(fails(&mut second, "update child set id = 2 where id = 9"), "55P03");
        ok(&mut first, "rollback");
        assert_eq!(state(&third.until_ready().1).as_deref(), Some("23503"));
        assert_eq!(second.rows(ORPHANS), [""; 0]);
    }
}

#[test]
fn both_waiting_is_a_deadlock() {
    let server = TestServer::start();
    let (mut first, mut second) = pair(&server);
    ok(&mut second, "set lock_timeout = 0");
    ok(&mut first, "begin");
    ok(&mut second, "begin");
    ok(&mut first, "insert into child values (1, 1, 0)");
    ok(&mut second, "insert into child values (2, 2, 0)");
    second.send(&query("delete from parent where key = 1"));
    let (_, messages) = first.query("delete from parent where key = 2");
    let got = state(&messages);
    ok(&mut first, "rollback");
    let other = state(&second.until_ready().1);
    ok(&mut second, "rollback");
    let mut states = [got, other];
    states.sort();
    assert_eq!(states, [None, Some("40P01".to_owned())]);
}

/// In REPEATABLE READ a key that the snapshot still sees, and that is gone, is a conflict.
#[test]
fn repeatable_read() {
    let server = TestServer::start();
    let (mut first, mut second) = pair(&server);
    ok(&mut first, "begin isolation level repeatable read");
    assert_eq!(first.rows("select count(*) from parent"), ["2"]);
    ok(&mut second, "delete from parent where key = 1");
    assert_eq!(fails(&mut first, "insert into child values (1, 1, 0)"), "40001");
    ok(&mut first, "rollback");
    assert_eq!(fails(&mut first, "insert into child values (1, 1, 0)"), "23503");
    ok(&mut first, "begin isolation level repeatable read");
    assert_eq!(first.rows("select count(*) from child"), ["0"]);
    ok(&mut second, "insert into child values (2, 2, 0)");
    assert_eq!(fails(&mut first, "delete from parent where key = 2"), "23503");
    ok(&mut first, "rollback");
    ok(&mut second, "alter table child drop constraint child_p_fkey");
    ok(&mut second, "alter table child add foreign key (p) references parent on delete cascade");
    ok(&mut second, "delete from child");
    ok(&mut first, "begin isolation level repeatable read");
    assert_eq!(first.rows("select count(*) from child"), ["0"]);
    ok(&mut second, "insert into child values (2, 2, 0)");
    assert_eq!(fails(&mut first, "delete from parent where key = 2"), "40001");
    ok(&mut first, "rollback");
}

/// A constraint that is added beside writers: they are waited for, and nobody passes it by.
#[test]
fn definitions_beside_writers() {
    let server = TestServer::start();
    let (mut first, mut second) = (server.client(), server.client());
    ok(&mut first, PARENT);
    ok(&mut first, "create table child (id int primary key, p int, n int)");
    ok(&mut first, "insert into parent values (1, 1, 0), (2, 2, 0)");
    ok(&mut first, "prepare gone as delete from parent where key = $1");
    ok(&mut first, "execute gone(2)");
    ok(&mut first, "begin");
    ok(&mut first, "delete from parent where key = 1");
    ok(&mut second, "insert into child values (1, 1, 0)");
    second.send(&query("alter table child add foreign key (p) references parent"));
    while first.rows("select count(*) from pg_stat_activity where query like 'alter%' and state = 'active'") != ["1"] {}
    ok(&mut first, "commit");
    assert_eq!(state(&second.until_ready().1).as_deref(), Some("23503"));
    ok(&mut second, "insert into parent values (1, 1, 0)");
    ok(&mut second, "alter table child add foreign key (p) references parent");
    assert_eq!(fails(&mut first, "execute gone(1)"), "23503", "a plan from before");
    ok(&mut second, "alter table child drop constraint child_p_fkey");
    ok(&mut first, "execute gone(1)");
    ok(&mut second, "delete from child");
    ok(&mut second, "alter table child add foreign key (p) references parent on delete cascade");
    ok(&mut second, "insert into parent values (1, 1, 0)");
    ok(&mut second, "insert into child values (1, 1, 0)");
    ok(&mut first, "execute gone(1)");
    assert_eq!(second.rows("select count(*) from child"), ["0"]);
    // Emptied meanwhile: the key is looked for where the rows are now.
    ok(&mut second, "insert into parent values (1, 1, 0)");
    ok(&mut second, "insert into child values (1, 1, 0)");
    ok(&mut first, "prepare put as insert into child values ($1, 1, 0)");
    ok(&mut second, "truncate parent, child");
    assert_eq!(fails(&mut first, "execute put(5)"), "23503");
}

/// A prepared transaction that holds one side, across a crash.
fn in_doubt(mode: &str) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let flags = [&*format!("--accelerated-database-recovery={mode}")];
    let server = Process::start(&data, &flags);
    let mut client = server.client();
    ok(&mut client, PARENT);
    ok(&mut client, "create table child (id int primary key, p int references parent, n int)");
    ok(&mut client, "insert into parent select g, g, 0 from generate_series(1, 9) as x(g)");
    for (gid, text) in [
        ("row", "insert into child values (1, 1, 0)"),
        ("other", "insert into child values (2, 2, 0)"),
        ("key", "delete from parent where key = 3"),
    ] {
        ok(&mut client, "begin");
        ok(&mut client, text);
        ok(&mut client, &format!("prepare transaction '{gid}'"));
    }
    // One that nobody prepared.
    ok(&mut client, "begin");
    ok(&mut client, "insert into child values (4, 4, 0)");
    ok(&mut client, "delete from parent where key = 5");
    let mut other = server.client();
    ok(&mut other, "insert into child values (6, 6, 0)");
    server.kill();

    let server = Process::start(&data, &flags);
    let mut client = server.client();
    ok(&mut client, "set lock_timeout = '200ms'");
    for waits in
        ["delete from parent where key = 1", "delete from parent where key = 2", "insert into child values (7, 3, 0)"]
    {
        assert_eq!(fails(&mut client, waits), "55P03", "{waits}");
    }
    ok(&mut client, "set lock_timeout = 0");
    assert_eq!(fails(&mut client, "delete from parent where key = 6"), "23503");
    ok(&mut client, "delete from parent where key = 4");
    ok(&mut client, "insert into child values (5, 5, 0)");
    let mut waiting = server.client();
    waiting.send(&query("delete from parent where key = 1"));
    ok(&mut client, "commit prepared 'row'");
    assert_eq!(state(&waiting.until_ready().1).as_deref(), Some("23503"));
    waiting.send(&query("delete from parent where key = 2"));
    ok(&mut client, "rollback prepared 'other'");
    assert_eq!(state(&waiting.until_ready().1), None);
    waiting.send(&query("insert into child values (7, 3, 0)"));
    ok(&mut client, "commit prepared 'key'");
    assert_eq!(state(&waiting.until_ready().1).as_deref(), Some("23503"));
    // What is deferred is looked at before a transaction is prepared.
    ok(
        &mut client,
        "alter table child add constraint late foreign key (n) references parent deferrable initially deferred not valid",
    );
    ok(&mut client, "begin");
    ok(&mut client, "insert into child values (8, null, 77)");
    assert_eq!(fails(&mut client, "prepare transaction 'never'"), "23503");
    assert_eq!(client.rows("select count(*) from pg_prepared_xacts"), ["0"]);
    // So it is with keys of DEFERRABLE UNIQUE constraints.
    ok(&mut client, "create table u (id int primary key, k int unique deferrable initially deferred)");
    ok(&mut client, "begin");
    ok(&mut client, "insert into u values (1, 1)");
    ok(&mut client, "prepare transaction 'key of u'");
    waiting.send(&query("insert into u values (2, 1)"));
    ok(&mut client, "commit prepared 'key of u'");
    assert_eq!(state(&waiting.until_ready().1).as_deref(), Some("23505"));
    ok(&mut client, "begin");
    ok(&mut client, "insert into u values (2, 1)");
    assert_eq!(fails(&mut client, "prepare transaction 'never'"), "23505");
}

#[test]
fn in_doubt_accelerated() {
    in_doubt("on");
}

#[test]
fn in_doubt_traditional() {
    in_doubt("off");
}

/// One statement that may break a DEFERRABLE UNIQUE constraint if nobody looks. Ids are other than keys, so that rows with the
/// same key lie apart, and pass each other when ids change.
fn unique_statement(random: &mut Random) -> String {
    let (key, other) = (random.below(KEYS), random.below(KEYS));
    let (id, moved) = (random.below(CHILDREN), random.below(CHILDREN));
    match random.below(9) {
        0..=2 => format!("insert into t values ({id}, {key}, 0)"),
        3 => format!(
            "insert into t values ({id}, {key}, 0), ({moved}, {other}, 0) on conflict (id) do update set k = {other}"
        ),
        4 => format!("update t set k = {key} where id = {id}"),
        5 => format!("update t set k = {} - k", KEYS - 1),
        // The row passes a look that comes from the other side.
        6 => format!("update t set id = {moved} where id = {id}"),
        7 => format!("update t set n = n + 1 where k = {key}"),
        _ => format!("delete from t where k = {key}"),
    }
}

const TWICE: &str = "select k from t group by k having count(*) > 1";

/// Several connections at once, and one that looks for keys that are there twice.
fn no_duplicates(constraint: &str, begin: &str, seed: u64) {
    let server = TestServer::start();
    let mut client = server.client();
    ok(&mut client, &format!("create table t (id int primary key, k int unique {constraint}, n int)"));
    let done = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..4)
            .map(|at| {
                let mut client = server.client();
                scope.spawn(move || {
                    let allowed = ["23505", "40P01", "40001", "21000"];
                    work(&mut client, seed * 100 + at, 150, begin, unique_statement, &allowed);
                })
            })
            .collect();
        let watch = {
            let (mut client, done) = (server.client(), Arc::clone(&done));
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    assert_eq!(client.rows(TWICE), [""; 0]);
                }
            })
        };
        let results: Vec<_> = workers.into_iter().map(|worker| worker.join()).collect();
        done.store(true, Ordering::Relaxed);
        watch.join().expect("a key was seen twice");
        results.into_iter().for_each(|result| result.expect("a worker"));
    });
    assert_eq!(client.rows(TWICE), [""; 0]);
    // The index says the same.
    ok(&mut client, "alter table t add unique (k)");
}

#[test]
fn no_duplicates_at_the_end_of_the_statement() {
    no_duplicates("deferrable", "begin", 7);
}

#[test]
fn no_duplicates_deferred() {
    no_duplicates("deferrable initially deferred", "begin", 8);
}

#[test]
fn no_duplicates_repeatable_read() {
    no_duplicates("deferrable initially deferred", "begin isolation level repeatable read", 9);
}

/// Whoever looks second waits for the first, at the end of the statement or of the transaction, and goes by how that one ends.
#[test]
fn the_second_with_a_key_waits() {
    let server = TestServer::start();
    let (mut first, mut second) = (server.client(), server.client());
    ok(&mut first, "create table t (id int primary key, k int constraint t_k unique deferrable, n int)");
    ok(&mut first, "insert into t values (1, 1, 0), (2, 2, 0)");
    for (held, asked, committed, back) in [
        ("insert into t values (3, 3, 0)", "insert into t values (4, 3, 0)", Some("23505"), None),
        ("insert into t values (9, 3, 0)", "update t set k = 3 where id = 1", Some("23505"), None),
        ("update t set k = 3 where id = 2", "insert into t values (0, 3, 0)", Some("23505"), None),
        // It goes, so the key is free only when that is committed.
        ("delete from t where k = 2", "insert into t values (5, 2, 0)", None, Some("23505")),
        ("update t set k = 7 where k = 2", "insert into t values (5, 2, 0)", None, Some("23505")),
    ] {
        for isolation in ["read committed", "repeatable read"] {
            for commit in [false, true] {
                for deferred in [false, true] {
                    let text = format!("{held}; {asked}; {isolation}; {commit}; {deferred}");
                    ok(&mut second, "begin isolation level read committed");
                    ok(&mut second, "delete from t");
                    ok(&mut second, "insert into t values (1, 1, 0), (2, 2, 0)");
                    ok(&mut second, "commit");
                    ok(&mut first, &format!("begin isolation level {isolation}"));
                    ok(&mut first, held);
                    ok(&mut second, &format!("begin isolation level {isolation}"));
                    ok(
                        &mut second,
                        if deferred { "set constraints t_k deferred" } else { "set constraints t_k immediate" },
                    );
                    // The savepoint does not change what is to be waited for.
                    ok(&mut second, "savepoint s");
                    ok(&mut second, "set lock_timeout = '100ms'");
                    if deferred {
                        ok(&mut second, asked);
                        assert_eq!(fails(&mut second, "set constraints all immediate"), "55P03", "{text}");
                        ok(&mut second, "rollback to s");
                        ok(&mut second, asked);
                    } else {
                        assert_eq!(fails(&mut second, asked), "55P03", "{text}");
                        ok(&mut second, "rollback to s");
                    }
                    ok(&mut second, "set lock_timeout = 0");
                    second.send(&query(if deferred { "commit" } else { asked }));
                    ok(&mut first, if commit { "commit" } else { "rollback" });
                    let expected = if commit { committed } else { back };
                    assert_eq!(state(&second.until_ready().1).as_deref(), expected, "{text}");
                    ok(&mut second, if deferred || expected.is_some() { "rollback" } else { "commit" });
                    assert_eq!(first.rows(TWICE), [""; 0], "{text}");
                }
            }
        }
    }
}

/// Two that look at each other's row: one of them gets the deadlock, and both rows are never there.
#[test]
fn two_with_a_key_do_not_both_commit() {
    let server = TestServer::start();
    let (mut first, mut second) = (server.client(), server.client());
    ok(&mut first, "create table t (id int primary key, k int unique deferrable initially deferred)");
    ok(&mut first, "begin");
    ok(&mut second, "begin");
    ok(&mut first, "insert into t values (1, 1), (2, 2)");
    ok(&mut second, "insert into t values (3, 1), (4, 3)");
    ok(&mut first, "insert into t values (5, 3)");
    second.send(&query("commit"));
    first.send(&query("commit"));
    let states = [state(&first.until_ready().1), state(&second.until_ready().1)];
    let deadlocks = states.iter().flatten().filter(|state| *state == "40P01").count();
    assert_eq!((deadlocks, states.iter().filter(|state| state.is_none()).count()), (1, 1), "{states:?}");
    assert_eq!(first.rows(TWICE), [""; 0]);
}

/// What nobody collides with takes no room in the queue; what does is bounded.
#[test]
fn many_keys_that_are_free_are_not_queued() {
    let server = TestServer::start();
    let mut client = server.client();
    ok(&mut client, "create table t (id int primary key, k int unique deferrable initially deferred)");
    ok(&mut client, "insert into t select x, x from generate_series(1, 20000) x");
    ok(&mut client, "update t set k = -k");
    // Each row's key is another's until that one is written.
    ok(&mut client, "update t set k = k - 1");
    assert_eq!(client.rows("select concat(min(k), ' ', max(k), ' ', count(distinct k)) from t"), ["-20001 -2 20000"]);
    ok(&mut client, "begin");
    ok(&mut client, "update t set k = 10000 + k where id > 10000");
    assert_eq!(fails(&mut client, "commit"), "23505");
}
