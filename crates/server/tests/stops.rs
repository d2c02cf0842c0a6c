//! The stop matrix: what a statement is busy with, by how it is told to stop. Each ends soon, and what it held is free.

mod common;

use std::time::{Duration, Instant};

use common::stops::{SOON, Stop, has_spilled, soon, stopped, with_table};
use common::{Client, TestServer, error, query};

/// What a statement is busy with, each without an end of its own within the test's time.
///
/// Whether its state is running, sending or waiting is the statement's; those of [`SPILLING`] are stopped when they spill.
const BUSY: &[(&str, &str)] = &[
    ("sleeping", "select pg_sleep(1000)"),
    ("a series", "select count(*) from generate_series(1, 1000000000000)"),
    ("groups", "select i % 10, sum(i) from generate_series(1, 1000000000000) s(i) group by 1"),
    (
        "a window",
        "select max(x) from (select sum(i) over (partition by i / 1000) x from generate_series(1, 100000000000) s(i)) t",
    ),
    ("a sort", "select i from generate_series(1, 100000000000) s(i) order by -i limit 1"),
    ("distinct", "select count(distinct i % 1000) from generate_series(1, 1000000000000) s(i)"),
    ("a cross join", "select count(*) from t a, t b, t c, t d, t e"),
    // Each side of these has rows; no pair has the other condition, which is one of the engine's own or one of ours.
    ("a join without rows", "select count(*) from u a, u b, u c where a.id + b.id + c.id < 0"),
    ("a join without rows, compared", "select count(*) from u a join u b on a.n >= b.n and a.id < b.m"),
    ("an outer join without rows", "select count(*) from u a full join u b on a.id + b.id < 0 where b.id > 5"),
    ("a hash join", "select count(*) from u a join u b using (n) join u c using (n) join u d using (n)"),
    ("a hash join without rows", "select count(*) from u a join u b on a.n = b.n and (a.id < 0 or b.m > 0)"),
    ("an outer hash join", "select count(*) from u a full join u b on a.n = b.n and (a.id < 0 or b.m > 0)"),
    ("EXISTS", "select count(*) from u a where exists (select from u b where b.n = a.n and (a.id < 0 or b.m > 0))"),
    (
        "NOT EXISTS",
        "select count(*) from u a where not exists (select from u b where b.n = a.n and (a.id < 0 or b.m > 0))",
    ),
    ("EXISTS by a key alone", "select count(*) from u a, t where exists (select from u b where b.n = a.n)"),
    (
        "NOT EXISTS by a key alone",
        "select count(*) from u a, t where not exists (select from u b join u c using (n) where b.n = a.n)",
    ),
    (
        "EXISTS or something else",
        "select count(*) from u a, t where t.id < 0 or exists (select from u b where b.n = a.n)",
    ),
    ("NOT IN", "select count(*) from u a where n not in (select n + id from u b where b.id + a.id < 0)"),
    ("ANY", "select count(*) from u a where a.id = any (select b.id + 1000000 from u b where b.id > a.id)"),
    ("LATERAL", "select count(*) from u a, lateral (select * from u b where b.id > a.id order by b.n, b.id limit 1) q"),
    (
        "a subquery in the select list",
        "select (select count(*) from u b where b.id + a.id > 0) from u a order by 1 limit 1",
    ),
    ("EXCEPT", "select count(*) from (select a.id, b.id from u a, u b except select c.id, d.id from u c, u d) q"),
    ("INTERSECT", "select count(*) from (select a.id, b.id from u a, u b intersect select c.id, d.id from u c, u d) q"),
    ("UNION", "select count(*) from (select a.id, b.id from u a, u b union select c.id, d.id from u c, u d) q"),
    ("grouping sets", "select count(*) from u a, u b group by rollup (a.n, b.n)"),
    ("an aggregate of an order", "select percentile_cont(0.5) within group (order by a.id) from u a, u b"),
    ("DISTINCT ON", "select distinct on (a.n) a.n, b.id from u a, u b order by a.n, b.id desc limit 1"),
    ("the first rows of an order", "select a.id, b.id from u a, u b order by a.m, b.m, a.id + b.id limit 5"),
    ("lag", "select lag(x) over (order by x) from (select a.id + b.id x from u a, u b) q limit 1"),
    ("a frame", "select sum(x) from (select sum(b.id) over (order by a.id rows 10000 preceding) x from u a, u b) q"),
    ("WITH", "with w as (select a.id from u a, u b) select count(*) from w x, w y"),
    ("ON CONFLICT", "insert into t select 3, b.id, '' from u a, u b where a.id + b.id < 0 on conflict (id) do nothing"),
    ("RETURNING", "update t set n = t.n from u a, u b where t.id = a.id + 1000000 + b.id returning t.id"),
    (
        "a subquery for each row",
        "select count(*) from t a, t b, t c, t d where exists (select from u e, u f where e.id + f.id + a.id < 0)",
    ),
    ("recursion", "with recursive x(n) as (select 1 union all select n % 10 + 1 from x) select max(n) from x"),
    (
        "a pattern",
        "select count(*) from t a, t b, t c where repeat('ab', 1000 + a.id) like '%a%a%a%a%a%a%a%a%c' || b.id",
    ),
    (
        "a regular expression",
        "select count(*) from t a, t b, t c where repeat('ab', 100 + a.id + b.id + c.id) ~ '(a|b)*c'",
    ),
    ("md5", "select count(*) from t a, t b, t c where md5(repeat(a.text, 100) || b.id + c.id) = c.text"),
    ("an update", "update t set n = n where id in (select a.id + b.id + 1000 from t a, t b, t c, t d, t e)"),
    ("an insert", "insert into t select -a.id from t a, t b, t c, t d, t e where a.id + b.id + c.id + d.id + e.id < 0"),
    ("a delete", "delete from t using t b, t c, t d, t e where t.id + b.id + c.id + d.id + e.id < 0"),
    ("a row's lock", "update t set n = 2 where id = 2"),
    ("COPY in", "copy t from stdin"),
    ("rows that nobody reads", "select repeat('x', 10000) from generate_series(1, 10000000)"),
    ("COPY out that nobody reads", "copy (select repeat('x', 10000) from generate_series(1, 10000000)) to stdout"),
];

/// What goes to temporary files, with a small `work_mem`.
const SPILLING: &[(&str, &str)] = &[
    ("a sort that spills", "select repeat(md5(i::text), 100) x from generate_series(1, 100000000) s(i) order by 1"),
    (
        "an aggregate that spills",
        "select count(*) from (select repeat(md5(i::text), 100) x, count(*) from generate_series(1, 100000000) s(i) group by 1) q",
    ),
    (
        "a window that spills",
        "select max(n) from (select rank() over (order by x) n from (select repeat(md5(i::text), 100) x from generate_series(1, 100000000) s(i)) q) r",
    ),
    (
        "an insert that spills",
        "insert into t select length(x), 0, x from (select repeat(md5(i::text), 100) x from generate_series(1, 100000000) s(i) order by 1) q",
    ),
];

#[test]
fn each_statement_ends_in_whatever_way_it_is_told_to() {
    let server = TestServer::start();
    with_table(&server);
    let mut blocker = server.client();
    blocker.rows("begin");
    blocker.rows("update t set n = 1 where id = 2");
    let mut watcher = server.client();
    let mut slowest = (Duration::ZERO, String::new());
    for (what, statement) in BUSY {
        for stop in [Stop::Cancel, Stop::Terminate, Stop::Timeout, Stop::Gone] {
            let took = stopped(&server, &mut watcher, (what, statement), stop, false);
            assert!(took < SOON, "{what}, {stop:?}: {took:?}");
            if took > slowest.0 {
                slowest = (took, format!("{what}, {stop:?}"));
            }
            // Nothing computes on for nobody.
            soon(&format!("the plan of {what}, {stop:?}"), || resurgam_sql::plans_running() == 0);
        }
    }
    println!("the slowest: {slowest:?}");
    for what in SPILLING {
        for stop in [Stop::Cancel, Stop::Terminate, Stop::Gone] {
            let took = stopped(&server, &mut watcher, *what, stop, true);
            assert!(took < SOON, "{what:?}, {stop:?}: {took:?}");
            soon(&format!("the files of {what:?}, {stop:?}"), || !has_spilled());
        }
    }
    blocker.rows("rollback");
    assert_eq!(watcher.rows("select count(*) from t"), ["200"]);
}

#[test]
fn a_server_stops_whatever_its_sessions_do() {
    let server = TestServer::start();
    with_table(&server);
    let mut blocker = server.client();
    blocker.rows("begin");
    blocker.rows("update t set n = 1 where id = 2");
    let clients: Vec<Client> = BUSY
        .iter()
        .map(|(_, statement)| {
            let mut client = server.client();
            client.send(&query(statement));
            client
        })
        .collect();
    std::thread::sleep(Duration::from_millis(200));
    let begun = Instant::now();
    // It gives them a second (`shutdown_timeout`).
    drop(server);
    assert!(begun.elapsed() < SOON + Duration::from_secs(1), "{:?}", begun.elapsed());
    drop(clients);
}

/// A bug in planning or running, on the session's thread or on one of the plans'.
#[test]
fn a_panic_is_an_error_of_its_statement() {
    resurgam_sql::plant_panics();
    resurgam_sql::watch_panics();
    let server = TestServer::start();
    with_table(&server);
    let mut client = server.client();
    let mut beside = server.client();
    let long = " ".repeat(1000);
    for place in ["planning", "running"] {
        for text in [format!("select 1 as \"plant: {place}\""), format!("select 1 as \"plant: {place}\"{long}")] {
            let before = resurgam_sql::panics();
            client.rows("begin");
            client.rows("update t set n = 5 where id = 1");
            let (status, messages) = client.query(&text);
            let error = error(&messages);
            assert_eq!((status, error.sqlstate().as_str()), (b'E', "XX000"), "{text}");
            assert_eq!(error.field(b'S').as_deref(), Some("ERROR"));
            assert!(resurgam_sql::panics() > before);
            client.rows("rollback");
            // Its rows are free, and the session goes on.
            beside.rows("set lock_timeout = '5s'");
            beside.rows("update t set n = n + 1 where id = 1");
            assert_eq!(client.rows("select 1"), ["1"]);
        }
    }
}
