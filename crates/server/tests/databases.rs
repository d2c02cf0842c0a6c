//! Several databases over the protocol: what each sees, kept plans, who gets in, what goes and stays over crashes.

mod common;

use std::time::{Duration, Instant};

use common::process::Process;
use common::*;

fn ok(client: &mut Client, text: &str) {
    let (_, messages) = client.query(text);
    assert!(!messages.iter().any(|message| message.tag == b'E'), "{text}: {messages:?}");
}

fn fails(client: &mut Client, text: &str) -> String {
    error(&client.query(text).1).sqlstate()
}

/// The error, if it is one.
fn fails_or_not(client: &mut Client, text: &str) -> Option<String> {
    let (_, messages) = client.query(text);
    messages.iter().find(|message| message.tag == b'E').map(Message::sqlstate)
}

fn connect(mut client: Client, user: &str, database: &str) -> Client {
    client.startup(&[("user", user), ("database", database)]);
    let (_, messages) = client.until_ready();
    assert!(!messages.iter().any(|message| message.tag == b'E'), "{database}: {messages:?}");
    client
}

/// How somebody is turned away.
fn refused(mut client: Client, user: &str, database: &str) -> (String, String) {
    client.startup(&[("user", user), ("database", database)]);
    while let Some(message) = client.next() {
        if message.tag == b'E' {
            return (message.sqlstate(), message.field(b'M').unwrap_or_default());
        }
        assert_ne!(message.tag, b'Z', "{user} is in {database}");
    }
    panic!("no answer")
}

/// The rows of a statement with one parameter, by the extended protocol.
fn extended(client: &mut Client, name: &str, text: &str, value: &str) -> Vec<String> {
    let mut bytes = parse(name, text);
    bytes.extend(bind("", name, &[Some(value)]));
    bytes.extend(execute("", 0));
    bytes.extend(sync());
    client.send(&bytes);
    let (_, messages) = client.until_ready();
    assert!(!messages.iter().any(|message| message.tag == b'E'), "{text}: {messages:?}");
    messages.iter().filter(|message| message.tag == b'D').filter_map(Message::first).collect()
}

/// The same texts again and again in two databases, in every way that plans are kept: none finds the other's.
#[test]
fn plans_are_of_one_database() {
    let server = TestServer::start();
    let mut first = server.client();
    for database in ["a", "b"] {
        ok(&mut first, &format!("create database {database}"));
    }
    let mut all: Vec<(String, Client)> =
        ["postgres", "a", "b"].map(|name| (name.to_owned(), connect(server.raw(), "postgres", name))).into();
    // Tables of the same name and kind: a plan of one would do for the others, and give the wrong rows.
    for (name, client) in &mut all {
        ok(client, "create table t (id int primary key, v text)");
        ok(client, &format!("insert into t select i, '{name}' from generate_series(1, 100) as s(i)"));
        ok(client, "create view w as select v, id from t where id <= 3");
        ok(client, "create sequence q");
        ok(client, &format!("create type e as enum ('{name}')"));
    }
    let texts = [
        "select v from t where id = 7",
        "select max(v) from t",
        "select min(v) from t where id between 5 and 50",
        "select w.v from w join t using (id) where id = 2",
        "select distinct e::text from (select enum_first(null::e)) s(e)",
        "update t set v = v where id = 9 returning v",
        "insert into t select 1000, max(v) from t on conflict (id) do update set v = excluded.v returning v",
        "delete from t where id = 1000 returning v",
        "execute p(8)",
        "table shown",
    ];
    for (_, client) in &mut all {
        ok(client, "prepare p(int) as select v from t where id = $1");
        ok(client, "create temp table shown as select current_database()::text as v");
    }
    for round in 0..4 {
        for text in texts {
            for (name, client) in &mut all {
                assert_eq!(client.rows(text), [name.as_str()], "round {round}: {text}");
            }
        }
        for (text, value) in
            [("select v from t where id = $1", "4"), ("update t set id = id where id = $1 returning v", "5")]
        {
            for (name, client) in &mut all {
                assert_eq!(extended(client, "", text, value), [name.as_str()], "round {round}: {text}");
            }
        }
        for (_, client) in &mut all {
            assert_eq!(client.rows("select nextval('q')"), [(round + 1).to_string()]);
        }
    }
    // What changes in one is nothing to the others' kept plans.
    ok(&mut all[1].1, "drop table t cascade");
    ok(&mut all[2].1, "alter table t rename column v to x");
    assert_eq!(all[0].1.rows("select v from t where id = 7"), ["postgres"]);
    assert_eq!(fails(&mut all[1].1, "select v from t where id = 7"), "42P01");
    assert_eq!(fails(&mut all[1].1, "execute p(8)"), "42P01");
    assert_eq!(fails(&mut all[2].1, "select v from t where id = 7"), "42703");
    // A new session of another database, with what all of them have kept.
    ok(&mut first, "create database c");
    let mut late = connect(server.raw(), "postgres", "c");
    for text in texts {
        assert!(["42P01", "42704", "26000"].contains(&&*fails(&mut late, text)), "{text}");
    }
    assert_eq!(fails(&mut late, "select * from a.public.t"), "0A000");
    assert_eq!(late.rows("select count(*) from pg_class where relnamespace = 'public'::regnamespace"), ["0"]);
}

#[test]
fn who_gets_in() {
    let server = TestServer::start();
    let mut first = server.client();
    for text in [
        "create role joe login",
        "create database shut allow_connections false",
        "create database narrow connection limit 1",
        "create database private",
        "revoke connect on database private from public",
        "create database other",
        "alter database other set work_mem = '7MB'",
        "alter role joe in database other set enable_sort = off",
    ] {
        ok(&mut first, text);
    }
    assert_eq!(refused(server.raw(), "postgres", "nowhere").0, "3D000");
    assert_eq!(refused(server.raw(), "nobody", "nowhere").0, "28000");
    let shut = refused(server.raw(), "postgres", "shut");
    assert_eq!(shut, ("55000".into(), "database \"shut\" is not currently accepting connections".into()));
    assert_eq!(refused(server.raw(), "postgres", "template0").0, "55000");
    let mut one = connect(server.raw(), "joe", "narrow");
    let full = refused(server.raw(), "joe", "narrow");
    assert_eq!(full, ("53300".into(), "too many connections for database \"narrow\"".into()));
    // Not for superusers.
    connect(server.raw(), "postgres", "narrow");
    let private = refused(server.raw(), "joe", "private");
    assert_eq!(private, ("42501".into(), "permission denied for database \"private\"".into()));
    let mut other = connect(server.raw(), "joe", "other");
    assert_eq!(other.rows("show work_mem"), ["7MB"]);
    assert_eq!(other.rows("show enable_sort"), ["off"]);
    assert_eq!(one.rows("show enable_sort"), ["on"]);
    assert_eq!(fails(&mut other, "create database mine"), "42501");
    // Notifications, and advisory locks, are a database's own.
    let mut same = connect(server.raw(), "postgres", "other");
    ok(&mut one, "listen x");
    ok(&mut other, "listen x");
    ok(&mut same, "notify x, 'told'");
    let told = |client: &mut Client| client.query("select 1").1.iter().filter(|message| message.tag == b'A').count();
    let begun = Instant::now();
    while told(&mut other) == 0 {
        assert!(begun.elapsed() < Duration::from_secs(10), "not told");
    }
    assert_eq!(told(&mut one), 0, "of another database");
    assert_eq!(one.rows("select pg_try_advisory_lock(1)"), ["t"]);
    assert_eq!(other.rows("select pg_try_advisory_lock(1)"), ["t"], "another number");
    assert_eq!(same.rows("select pg_try_advisory_lock(1)"), ["f"]);
    let locks = "select d.datname from pg_locks l join pg_database d on d.oid = l.database \
                 where locktype = 'advisory' order by 1";
    assert_eq!(first.rows(locks), ["narrow", "other"]);
    // A schema is made in one while `public` is locked in another.
    ok(&mut one, "select pg_advisory_unlock(1)");
    ok(&mut first, "begin");
    ok(&mut first, "drop schema public cascade");
    ok(&mut same, "set lock_timeout = '2s'");
    ok(&mut same, "create table public.free (a int)");
    ok(&mut first, "rollback");
}

/// The database that is asked for says who its owner is, not the one that the server has looked at first; and what an
/// owner has of it by owning it is not what somebody has granted.
#[test]
fn rights_of_its_own_owner() {
    let server = TestServer::start();
    let mut first = server.client();
    for text in [
        "create role one login",
        "create role two login",
        "create database of_one owner one",
        "create database of_two owner two",
        "revoke all on database of_two from public, two",
        "grant connect on database of_two to pg_database_owner",
        "alter database postgres owner to one",
    ] {
        ok(&mut first, text);
    }
    // By membership alone, which is the owner's of this one.
    assert_eq!(refused(server.raw(), "one", "of_two").0, "42501");
    connect(server.raw(), "two", "of_two");
    let rights = "select datname || coalesce(datacl::text, '') from pg_database where datname like 'of%' order by 1";
    let before = first.rows(rights);
    ok(&mut first, "drop owned by one");
    assert_eq!(first.rows(rights), before, "nobody has granted that");
    connect(server.raw(), "one", "of_one");
    ok(&mut first, "grant create on database of_two to one");
    ok(&mut first, "drop owned by one");
    assert_eq!(first.rows(rights), before, "that was granted");
}

/// Of a template a copy is made where nothing is in it that would have to be copied.
#[test]
fn templates_without_contents() {
    let server = TestServer::start();
    let mut first = server.client();
    ok(&mut first, "create role joe login");
    ok(&mut first, "create database model");
    let mut within = connect(server.raw(), "joe", "model");
    ok(&mut within, "alter default privileges grant select on tables to public");
    ok(&mut within, "create temp table t (a int)");
    assert_eq!(fails(&mut first, "create database copy template model"), "55006");
    drop(within);
    let begun = Instant::now();
    while fails_or_not(&mut first, "create database copy template model").is_some_and(|code| code == "55006") {
        assert!(begun.elapsed() < Duration::from_secs(10), "somebody is still in it");
    }
    assert_eq!(first.rows("select datname from pg_database where datname = 'copy'"), ["copy"]);
    let mut within = connect(server.raw(), "postgres", "model");
    ok(&mut within, "create table t (a int)");
    drop(within);
    let begun = Instant::now();
    let refused = loop {
        match fails_or_not(&mut first, "create database other template model") {
            Some(code) if code == "55006" => assert!(begun.elapsed() < Duration::from_secs(10), "somebody is in it"),
            other => break other,
        }
    };
    assert_eq!(refused.as_deref(), Some("0A000"), "its tables would not be in it");
}

#[test]
fn nobody_is_in_what_goes() {
    let server = TestServer::start();
    let mut first = server.client();
    ok(&mut first, "create database busy");
    let mut inside = connect(server.raw(), "postgres", "busy");
    ok(&mut inside, "create table t (a int)");
    let (_, messages) = first.query("drop database busy");
    let refusal = error(&messages);
    assert_eq!(refusal.sqlstate(), "55006");
    assert_eq!(refusal.field(b'D').as_deref(), Some("There is 1 other session using the database."));
    assert_eq!(fails(&mut first, "alter database busy rename to calm"), "55006");
    assert_eq!(fails(&mut inside, "drop database busy"), "55006");
    // Who leaves in time is waited for.
    let leaving = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        drop(inside);
    });
    ok(&mut first, "alter database busy rename to calm");
    leaving.join().expect("left");
    assert_eq!(refused(server.raw(), "postgres", "busy").0, "3D000");
    let mut inside = connect(server.raw(), "postgres", "calm");
    assert_eq!(inside.rows("select current_database() || count(*) from t"), ["calm0"]);
    ok(&mut first, "drop database calm with (force)");
    while let Some(message) = inside.next() {
        assert_eq!((message.tag, message.sqlstate()), (b'E', "57P01".into()));
    }
    assert_eq!(refused(server.raw(), "postgres", "calm").0, "3D000");
    ok(&mut first, "drop database if exists calm");
    assert_eq!(fails(&mut first, "drop database calm"), "3D000");
    for text in ["create database x", "drop database x"] {
        ok(&mut first, "begin");
        assert_eq!(fails(&mut first, text), "25001");
        ok(&mut first, "rollback");
    }
    // A rename is part of a transaction.
    ok(&mut first, "create database x");
    ok(&mut first, "begin");
    ok(&mut first, "alter database x rename to y");
    ok(&mut first, "rollback");
    connect(server.raw(), "postgres", "x");
    for text in ["drop database postgres", "drop database template1", "create database z template x"] {
        let expected = match text {
            "drop database postgres" => "55006",
            "drop database template1" => "42809",
            _ => "done",
        };
        let (_, messages) = first.query(text);
        let found = messages.iter().find(|message| message.tag == b'E').map(Message::sqlstate);
        assert_eq!(found.as_deref().unwrap_or("done"), expected, "{text}");
    }
    // Not copied without what it has.
    let mut inside = connect(server.raw(), "postgres", "x");
    ok(&mut inside, "create table t (a int)");
    drop(inside);
    assert_eq!(fails(&mut first, "create database copy template x"), "0A000");
}

/// Rows of tables of the same name, a role with objects in another database, prepared transactions, and a database that is
/// being dropped with very many tables, over `kill -9`.
fn across_crashes(mode: &str) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let flags = [&*format!("--accelerated-database-recovery={mode}")];
    let server = Process::start(&data, &flags);
    let mut first = server.client();
    ok(&mut first, "create role joe login");
    ok(&mut first, "create database a owner joe");
    ok(&mut first, "create database b");
    ok(&mut first, "create table t (id int primary key, v text)");
    ok(&mut first, "insert into t values (1, 'postgres')");
    let mut a = connect(server.raw(), "joe", "a");
    ok(&mut a, "create schema s create table t (v text)");
    ok(&mut a, "insert into s.t values ('a')");
    let mut b = connect(server.raw(), "postgres", "b");
    ok(&mut b, "create table t (v text)");
    ok(&mut b, "insert into t values ('b')");
    ok(&mut b, "begin");
    ok(&mut b, "insert into t values ('prepared')");
    ok(&mut b, "create table made (a int)");
    ok(&mut b, "prepare transaction 'p'");
    // Cut off.
    ok(&mut b, "begin");
    ok(&mut b, "insert into t values ('never')");
    ok(&mut b, "create table never (a int)");
    let mut c = server.client();
    ok(&mut c, "begin");
    ok(&mut c, "alter database a set work_mem = '9MB'");
    server.kill();

    let server = Process::start(&data, &flags);
    let mut first = server.client();
    let mut a = connect(server.raw(), "joe", "a");
    let mut b = connect(server.raw(), "postgres", "b");
    assert_eq!(first.rows("select v from t"), ["postgres"]);
    assert_eq!(a.rows("select v from s.t"), ["a"]);
    assert_eq!(fails(&mut a, "select v from t"), "42P01");
    assert_eq!(b.rows("select v from t"), ["b"]);
    assert_eq!(b.rows("select gid || database from pg_prepared_xacts"), ["pb"]);
    assert_eq!(fails(&mut a, "commit prepared 'p'"), "42501");
    assert_eq!(fails(&mut first, "commit prepared 'p'"), "0A000");
    drop(b);
    assert_eq!(fails(&mut first, "drop database b"), "55006", "a prepared transaction");
    let mut b = connect(server.raw(), "postgres", "b");
    ok(&mut b, "commit prepared 'p'");
    assert_eq!(b.rows("select v from t order by 1"), ["b", "prepared"]);
    assert_eq!(
        b.rows("select relname from pg_class where relnamespace = 'public'::regnamespace order by 1"),
        ["made", "t"]
    );
    let (_, messages) = first.query("drop role joe");
    let refusal = error(&messages);
    assert_eq!(refusal.sqlstate(), "2BP01");
    assert_eq!(refusal.field(b'D').as_deref(), Some("owner of database a\n2 objects in database a"));
    // More than are dropped at once, and then the power fails.
    for at in 0..450 {
        ok(&mut b, &format!("create table many_{at} (id int primary key, v text unique)"));
    }
    let size = |client: &mut Client, name: &str| -> u64 {
        client.rows(&format!("select pg_database_size('{name}')"))[0].parse().expect("a number")
    };
    assert!(size(&mut first, "b") >= 900 * 8192 && size(&mut first, "a") < 100 * 8192);
    let before = size(&mut first, "postgres");
    drop(b);
    ok(&mut first, "drop database b");
    server.kill();

    let server = Process::start(&data, &flags);
    let mut first = server.client();
    assert_eq!(refused(server.raw(), "postgres", "b").0, "3D000");
    ok(&mut first, "create database b");
    let mut b = connect(server.raw(), "postgres", "b");
    assert_eq!(b.rows("select count(*) from pg_class where relname ~ '^(many|t$|made)'"), ["0"], "a new one");
    ok(&mut b, "create table many_1 (a int)");
    ok(&mut first, "vacuum");
    // The space comes back: what is left of it is nobody's, and would be counted to the first database.
    let begun = Instant::now();
    while size(&mut first, "postgres") > before + 64 * 8192 {
        assert!(begun.elapsed() < Duration::from_secs(60), "{} bytes are left", size(&mut first, "postgres") - before);
        std::thread::sleep(Duration::from_millis(100));
        ok(&mut first, "vacuum");
    }
    assert_eq!(b.rows("select count(*) from many_1"), ["0"]);
    ok(&mut first, "alter database a owner to postgres");
    let mut a = connect(server.raw(), "postgres", "a");
    ok(&mut a, "drop schema s cascade");
    ok(&mut a, "drop owned by joe");
    ok(&mut first, "drop role joe");
    assert_eq!(
        first.rows("select datname from pg_database where datname !~ '^template' order by 1"),
        ["a", "b", "postgres"]
    );
}

#[test]
fn they_survive_crashes() {
    across_crashes("on");
}

#[test]
fn they_survive_crashes_in_the_traditional_mode() {
    across_crashes("off");
}
