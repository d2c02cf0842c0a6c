//! Statements that are told to stop while they are planned. Apart from the others (`stops.rs`), which look at what runs in
//! their process: what plans may go on for a while, for nobody.

mod common;

use std::time::{Duration, Instant};

use common::stops::{SOON, Stop, stopped, with_table};
use common::{TestServer, query};

/// What takes long before it runs, some of it in a short text: parsing, analysis, optimisation, and the physical plan.
fn planning() -> Vec<(&'static str, String)> {
    let joined = |count: usize, between: &str, item: &dyn Fn(usize) -> String| {
        (0..count).map(item).collect::<Vec<_>>().join(between)
    };
    let cross = "from u a, u b, u c, u d";
    vec![
        ("wide tables", format!("select 1 from {}", joined(8, " natural join ", &|n| format!("wide w{n}")))),
        ("views of views", "select count(*) from v9 a, v9 b, v9 c".to_owned()),
        ("a long sum", format!("select {} {cross}", joined(30_000, "||", &|n| format!("'{n}'")))),
        (
            "alternatives",
            format!("select 1 {cross} where {}", joined(20_000, " or ", &|n| format!("a.n > {n} and b.n < {n}"))),
        ),
        ("joined subqueries", {
            let items = joined(400, ", ", &|n| format!("lateral (select {n} + a.id as x) s{n}"));
            format!("select count(*) {cross}, {items} where {}", joined(400, " and ", &|n| format!("s{n}.x > b.id")))
        }),
        ("unions", joined(40, " union ", &|_| "select * from wide".to_owned())),
        (
            "windows",
            format!("select {} {cross}", joined(400, ", ", &|n| format!("sum(a.n) over (order by a.n + {n})"))),
        ),
        (
            "groupings",
            format!("select count(*) {cross} group by cube({})", joined(12, ", ", &|n| format!("a.n + {n}"))),
        ),
    ]
}

/// What [`planning`] names.
fn with_much_to_plan(server: &TestServer) {
    let mut client = server.client();
    let columns: Vec<String> = (0..1200).map(|n| format!("c{n} int")).collect();
    client.rows(&format!("create table wide ({})", columns.join(", ")));
    client.rows("create view v0 as select a.id, b.n from u a, u b where a.id = b.id");
    for n in 0..9 {
        client.rows(&format!("create view v{} as select a.id, b.n from v{n} a, v{n} b where a.id = b.id", n + 1));
    }
}

/// Nobody waits for the planning of a statement that was told to stop.
#[test]
fn planning_ends_in_whatever_way_it_is_told_to() {
    let server = TestServer::start();
    with_table(&server);
    with_much_to_plan(&server);
    let mut watcher = server.client();
    let mut slowest = (Duration::ZERO, String::new());
    for (what, statement) in planning() {
        for stop in [Stop::Cancel, Stop::Terminate, Stop::Timeout, Stop::Gone] {
            let took = stopped(&server, &mut watcher, (what, &statement), stop, false);
            assert!(took < SOON, "{what}, {stop:?}: {took:?}");
            if took > slowest.0 {
                slowest = (took, format!("{what}, {stop:?}"));
            }
        }
    }
    println!("the slowest: {slowest:?}");
    // What goes on for nobody is no reason to stay, either.
    let mut client = server.client();
    client.send(&query(&planning()[0].1));
    std::thread::sleep(Duration::from_millis(100));
    let begun = Instant::now();
    drop(server);
    assert!(begun.elapsed() < 4 * SOON, "{:?}", begun.elapsed());
}
