//! Telling one statement to stop, in each way that there is.

use std::time::{Duration, Instant};

use super::{Client, TestServer, error, query};

/// A generous bound for what takes milliseconds: the machine may be busy with other tests.
pub const SOON: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stop {
    Cancel,
    Terminate,
    Timeout,
    Gone,
}

pub fn with_table(server: &TestServer) {
    let mut client = server.client();
    client.rows("create table t (id int primary key, n int, text text)");
    client.rows("insert into t select i, 0, repeat('x', 100) from generate_series(1, 200) i");
    client.rows("create table u (id int primary key, n int, m int)");
    client.rows("insert into u select i, 0, -i from generate_series(1, 20000) i");
}

/// Whether a statement of this process (the server's, too) has temporary files.
pub fn has_spilled() -> bool {
    let handles = std::fs::read_dir("/proc/self/fd").expect("handles").flatten();
    let links = handles.filter_map(|handle| std::fs::read_link(handle.path()).ok());
    links.into_iter().any(|to| to.to_string_lossy().contains("/resurgam_tmp/"))
}

pub fn gone(watcher: &mut Client, pid: i32) -> bool {
    watcher.rows(&format!("select count(*) from pg_stat_activity where pid = {pid}")) == ["0"]
}

pub fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < SOON, "not within {SOON:?}: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Stops one statement in one way; how long it took until the row that its session had locked was free.
pub fn stopped(
    server: &TestServer,
    watcher: &mut Client,
    (what, statement): (&str, &str),
    stop: Stop,
    spills: bool,
) -> Duration {
    let what = format!("{what}, {stop:?}");
    let mut client = server.client();
    client.rows("begin");
    client.rows("update t set n = 1 where id = 1");
    let pid = client.process_id;
    let run_for = Duration::from_millis(60);
    if spills {
        // A timeout comes when it comes.
        assert!(stop != Stop::Timeout, "{what}");
        client.rows("set work_mem = '64kB'");
    }
    match stop {
        Stop::Timeout => drop(client.rows(&format!("set statement_timeout = '{}ms'", run_for.as_millis()))),
        Stop::Gone => drop(client.rows("set client_connection_check_interval = '20ms'")),
        Stop::Cancel | Stop::Terminate => {}
    }
    client.send(&query(statement));
    if spills {
        soon(&format!("{what}: it does not spill"), has_spilled);
    } else {
        if stop == Stop::Cancel {
            // It is told to nobody where nothing runs, as in PostgreSQL, and the machine may be busy.
            let state = format!("select state from pg_stat_activity where pid = {pid}");
            soon(&format!("{what}: it does not begin"), || watcher.rows(&state) == ["active"]);
        }
        std::thread::sleep(run_for);
    }
    let begun = Instant::now();
    let mut client = Some(client);
    match stop {
        Stop::Cancel => assert_eq!(watcher.rows(&format!("select pg_cancel_backend({pid})")), ["t"], "{what}"),
        Stop::Terminate => assert_eq!(watcher.rows(&format!("select pg_terminate_backend({pid})")), ["t"], "{what}"),
        Stop::Timeout => {}
        Stop::Gone => client = None,
    }
    // The transaction has failed or is gone: its row is free.
    watcher.rows("set lock_timeout = '5s'");
    let (_, messages) = watcher.query("update t set n = n + 1 where id = 1");
    assert!(messages.iter().all(|message| message.tag != b'E'), "{what}: the row is not free: {messages:?}");
    let took = begun.elapsed();
    match stop {
        Stop::Cancel | Stop::Timeout => {
            let Some(mut client) = client else { return took };
            let (status, messages) = client.until_ready();
            let state = error(&messages).sqlstate();
            // A hash table or a sort that is full is an end, too.
            assert!(state == "57014" || state == "53200", "{what}: {state}");
            assert_eq!(status, b'E', "{what}");
            client.rows("rollback");
            assert_eq!(client.rows("select 1"), ["1"], "{what}");
        }
        Stop::Terminate | Stop::Gone => soon(&what, || gone(watcher, pid)),
    }
    took
}
