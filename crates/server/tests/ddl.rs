//! Changes of definitions over the wire.
//!
//! `ddl/*.sql` are scripts with the answers that PostgreSQL 15 gives: after each statement,
//! behind `> `, its rows (columns separated by `|`) or its error with SQLSTATE, DETAIL and
//! HINT (lines of a DETAIL separated by `; `). What takes several connections is below.

mod common;

use std::time::{Duration, Instant};

use common::*;

/// All columns of a DataRow, as psql -At prints them.
fn row(message: &Message) -> String {
    let mut columns = Vec::new();
    let mut rest = &message.body[2..];
    while rest.len() >= 4 {
        let (length, after) = rest.split_at(4);
        let length = i32::from_be_bytes(length.try_into().expect("4"));
        if length < 0 {
            columns.push("NULL".to_owned());
            rest = after;
        } else {
            let (value, after) = after.split_at(length as usize);
            columns.push(String::from_utf8_lossy(value).into_owned());
            rest = after;
        }
    }
    columns.join("|")
}

fn answer(messages: &[Message]) -> Vec<String> {
    let mut out = Vec::new();
    for message in messages {
        match message.tag {
            b'D' => out.push(row(message)),
            b'E' => {
                out.push(format!("ERROR {} {}", message.sqlstate(), message.field(b'M').unwrap_or_default()));
                out.extend(message.field(b'D').map(|detail| format!("DETAIL {}", detail.replace('\n', "; "))));
                out.extend(message.field(b'H').map(|hint| format!("HINT {hint}")));
            }
            _ => {}
        }
    }
    out
}

fn script(name: &str, text: &str) {
    let server = TestServer::start();
    let mut client = server.client();
    let mut statement = String::new();
    let mut lines = text.lines().enumerate().peekable();
    let mut wrong = Vec::new();
    while let Some((at, line)) = lines.next() {
        if statement.is_empty() && (line.starts_with("--") || line.trim().is_empty()) {
            continue;
        }
        statement.push_str(line);
        if !line.trim_end().ends_with(';') {
            statement.push('\n');
            continue;
        }
        let mut expected = Vec::new();
        while let Some((_, line)) = lines.next_if(|(_, line)| line.starts_with("> ")) {
            expected.push(line[2..].to_owned());
        }
        let got = answer(&client.query(&statement).1);
        if got != expected {
            wrong.push(format!("{name} line {}: {statement}\n  expected {expected:?}\n  got      {got:?}", at + 1));
        }
        statement.clear();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn deferrable_unique() {
    script("deferrable_unique", include_str!("ddl/deferrable_unique.sql"));
}

#[test]
fn foreign_keys() {
    script("foreign_keys", include_str!("ddl/foreign_keys.sql"));
}

#[test]
fn alter_type() {
    script("alter_type", include_str!("ddl/alter_type.sql"));
}

#[test]
fn add_column() {
    script("add_column", include_str!("ddl/add_column.sql"));
}

#[test]
fn comments() {
    script("comments", include_str!("ddl/comments.sql"));
}

#[test]
fn identity() {
    script("identity", include_str!("ddl/identity.sql"));
}

#[test]
fn sequences() {
    script("sequences", include_str!("ddl/sequences.sql"));
}

#[test]
fn row_security() {
    script("row_security", include_str!("ddl/row_security.sql"));
}

#[test]
fn constraints() {
    script("constraints", include_str!("ddl/constraints.sql"));
}

/// A table with some rows, and a connection that has written to it and not ended.
fn in_use(server: &TestServer) -> (Client, Client) {
    let mut client = server.client();
    client.rows("create table t (id int primary key, n int)");
    client.rows("insert into t select g, g from generate_series(1, 100) as x(g)");
    let mut writer = server.client();
    writer.rows("begin");
    writer.rows("update t set n = 0 where id = 1");
    (client, writer)
}

#[test]
fn waiting_for_a_table_ends_by_timeout_and_cancel() {
    let server = TestServer::start();
    let (mut client, mut writer) = in_use(&server);
    client.rows("set lock_timeout = '50ms'");
    for statement in [
        "alter table t add column x int default 5",
        "alter table t alter n type bigint",
        "alter table t add check (n > 0)",
        "create index on t (n)",
        "truncate t",
        "drop table t",
    ] {
        let (_, messages) = client.query(statement);
        assert_eq!(error(&messages).sqlstate(), "55P03", "{statement}");
        assert_eq!(error(&messages).field(b'M').unwrap(), "canceling statement due to lock timeout");
    }
    client.rows("set lock_timeout = 0");
    client.rows("set statement_timeout = '50ms'");
    let (_, messages) = client.query("alter table t alter n type bigint");
    assert_eq!(error(&messages).sqlstate(), "57014");
    assert_eq!(error(&messages).field(b'M').unwrap(), "canceling statement due to statement timeout");
    client.rows("set statement_timeout = 0");
    client.send(&query("alter table t drop column n"));
    // Until the other side waits, a cancel would find nothing to cancel.
    let mut third = server.client();
    let pid = client.process_id;
    while third.rows(&format!("select state from pg_stat_activity where pid = {pid}")) != ["active"] {
        std::thread::sleep(Duration::from_millis(5));
    }
    third.rows(&format!("select pg_cancel_backend({pid})"));
    let (_, messages) = client.until_ready();
    assert_eq!(error(&messages).sqlstate(), "57014");
    // Nothing of all that is left, and the table is free as soon as its user is gone.
    client.send(&query("alter table t alter n type bigint"));
    writer.rows("commit");
    let (_, messages) = client.until_ready();
    assert!(!messages.iter().any(|m| m.tag == b'E'), "{messages:?}");
    assert_eq!(client.rows("select sum(n) from t"), ["5049"]);
}

/// Whoever waited for a change of the table works with what it has become.
#[test]
fn a_change_sees_the_change_that_it_waited_for() {
    let server = TestServer::start();
    let mut first = server.client();
    first.rows("create table t (a int, b int)");
    first.rows("insert into t values (1, 2)");
    first.rows("begin");
    first.rows("alter table t rename column a to c");
    first.rows("alter table t alter b type text");
    let mut second = server.client();
    second.send(&query("alter table t alter c type bigint, add column d text default 'd'"));
    std::thread::sleep(Duration::from_millis(50));
    first.rows("commit");
    let (_, messages) = second.until_ready();
    assert!(!messages.iter().any(|m| m.tag == b'E'), "{messages:?}");
    let (_, messages) = second.query("select c, b || 'x', d from t");
    assert_eq!(answer(&messages), ["1|2x|d"]);
}

#[test]
fn prepared_statements_see_changed_definitions() {
    let server = TestServer::start();
    let mut client = server.client();
    let mut other = server.client();
    client.rows("create table t (id int primary key, n int)");
    client.rows("insert into t values (1, 10), (2, 20)");
    let ask = |client: &mut Client, name: &str, params: &[Option<&str>]| {
        client.send(&[bind("", name, params), execute("", 0), sync()].concat());
        answer(&client.until_ready().1)
    };
    client.send(
        &[
            parse("all", "select * from t where id = $1"),
            parse("one", "select n from t where id = $1"),
            parse("put", "insert into t (id, n) values ($1, $2)"),
            sync(),
        ]
        .concat(),
    );
    client.until_ready();
    client.rows("prepare sum as select sum(n) from t");
    client.rows("prepare star as select * from t");
    assert_eq!(ask(&mut client, "all", &[Some("1")]), ["1|10"]);
    assert_eq!(ask(&mut client, "one", &[Some("1")]), ["10"]);
    // Another connection changes what the plans were made with.
    other.rows("alter table t add column x text default 'new'");
    other.rows("create index t_n on t (n)");
    assert_eq!(ask(&mut client, "one", &[Some("2")]), ["20"]);
    assert_eq!(ask(&mut client, "put", &[Some("3"), Some("30")]), [""; 0]);
    assert_eq!(client.rows("select x from t where id = 3"), ["new"]);
    let refused = ["ERROR 0A000 cached plan must not change result type"];
    assert_eq!(ask(&mut client, "all", &[Some("1")]), refused);
    assert_eq!(ask(&mut client, "all", &[Some("1")]), refused, "and again");
    client.send(&[describe(b'S', "all"), sync()].concat());
    let messages = client.until_ready().1;
    assert_eq!(answer(&messages), refused);
    // What drivers know it by, to prepare the statement anew.
    let routine = b"RRevalidateCachedQuery\0";
    assert!(messages[0].body.windows(routine.len()).any(|part| part == routine));
    assert_eq!(answer(&client.query("execute star").1), refused);
    other.rows("alter table t alter n type bigint");
    assert_eq!(ask(&mut client, "one", &[Some("2")]), refused);
    // The sum of bigint is numeric.
    assert_eq!(answer(&client.query("execute sum").1), refused);
    other.rows("alter table t add check (n < 100)");
    let (_, messages) = client.query("insert into t values (4, 400)");
    assert_eq!(error(&messages).sqlstate(), "23514");
    assert_eq!(ask(&mut client, "put", &[Some("4"), Some("400")])[0][..11], *"ERROR 23514");
    // Back as it was.
    other.rows("alter table t drop column x, alter n type int");
    assert_eq!(ask(&mut client, "all", &[Some("1")]), ["1|10"]);
    other.rows("drop table t");
    assert_eq!(ask(&mut client, "one", &[Some("1")]), ["ERROR 42P01 relation \"t\" does not exist"]);
}

#[test]
fn copy_looks_at_conditions() {
    let server = TestServer::start();
    let mut client = server.client();
    client.rows("create table t (a int check (a > 0), b text)");
    client.send(&query("copy t from stdin"));
    assert_eq!(client.next().unwrap().tag, b'G');
    client.send(&[message(b'd', b"1\tx\n0\ty\n"), message(b'c', b"")].concat());
    let (_, messages) = client.until_ready();
    let error = error(&messages);
    assert_eq!(error.sqlstate(), "23514");
    assert_eq!(error.field(b'M').unwrap(), "new row for relation \"t\" violates check constraint \"t_a_check\"");
    assert_eq!(error.field(b'D').unwrap(), "Failing row contains (0, y).");
    assert_eq!((error.field(b'n').unwrap(), error.field(b't').unwrap()), ("t_a_check".into(), "t".into()));
    assert_eq!(client.rows("select count(*) from t"), ["0"]);
    client.send(&query("copy t from stdin"));
    assert_eq!(client.next().unwrap().tag, b'G');
    client.send(&[message(b'd', b"1\tx\n\\N\ty\n"), message(b'c', b"")].concat());
    assert_eq!(client.until_ready().1[0].text(), "COPY 2");
    // Who may not read the table is not told of its rows.
    client.rows("create role writes");
    client.rows("grant insert on t to writes");
    client.rows("set role writes");
    client.send(&query("copy t from stdin"));
    assert_eq!(client.next().unwrap().tag, b'G');
    client.send(&[message(b'd', b"0\ty\n"), message(b'c', b"")].concat());
    let (_, messages) = client.until_ready();
    let error = common::error(&messages);
    assert_eq!((error.sqlstate().as_str(), error.field(b'D')), ("23514", None));
}

/// CREATE INDEX is shown while it runs, and can be cancelled.
#[test]
fn an_index_that_is_being_built() {
    let server = TestServer::start();
    let mut client = server.client();
    client.rows("create table t (a int, b text)");
    client.rows("insert into t select g, 'some text of some length ' || g from generate_series(1, 200000) as x(g)");
    let mut watcher = server.client();
    // It may be over before anyone looks or cancels: then once more.
    let (mut seen, mut cancelled) = (false, false);
    let started = Instant::now();
    while !(seen && cancelled) {
        assert!(started.elapsed() < Duration::from_secs(300), "seen {seen}, cancelled {cancelled}");
        client.send(&query("create index i on t (b, a)"));
        for _ in 0..2000 {
            let (_, messages) = watcher.query(
                "select pid, command, phase, tuples_done <= tuples_total, relid = 't'::regclass \
                 from pg_stat_progress_create_index",
            );
            if let [found] = answer(&messages).as_slice() {
                let pid = client.process_id;
                let phases = ["scanning table", "sorting live tuples", "loading tuples in tree"];
                let shown = |phase| format!("{pid}|CREATE INDEX|building index: {phase}|t|t");
                assert!(phases.iter().any(|phase| *found == shown(*phase)), "{found}");
                seen = true;
                watcher.rows(&format!("select pg_cancel_backend({pid})"));
                break;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        let (_, messages) = client.until_ready();
        match messages.iter().find(|m| m.tag == b'E') {
            Some(error) => {
                assert_eq!(error.sqlstate(), "57014");
                cancelled = true;
            }
            None => drop(client.rows("drop index i")),
        }
    }
    assert_eq!(watcher.rows("select count(*) from pg_stat_progress_create_index"), ["0"]);
    // Its name is free, and a timeout ends it as well.
    client.rows("set statement_timeout = '1ms'");
    let (_, messages) = client.query("create index i on t (b, a)");
    assert_eq!(error(&messages).sqlstate(), "57014");
    client.rows("set statement_timeout = 0");
    client.rows("create index i on t (a)");
    assert_eq!(client.rows("select b from t where a = 77"), ["some text of some length 77"]);
}

/// psql's \d shows CHECK constraints.
#[test]
fn conditions_are_described() {
    let server = TestServer::start();
    let mut client = server.client();
    client.rows("create table t (a int check (a > 0), b text, constraint fine check (b <> '' or a = 1))");
    assert_eq!(client.rows("select relchecks from pg_class where relname = 't'"), ["2"]);
    let sql = "select r.conname, pg_catalog.pg_get_constraintdef(r.oid, true) from pg_catalog.pg_constraint r \
               where r.conrelid = 't'::regclass and r.contype = 'c' order by 1";
    let (_, messages) = client.query(sql);
    assert_eq!(answer(&messages), ["fine|CHECK (b <> '' OR a = 1)", "t_a_check|CHECK (a > 0)"]);
    let sql = "select check_clause from information_schema.check_constraints where constraint_name = 't_a_check'";
    assert_eq!(client.rows(sql), ["(a > 0)"]);
}
