//! The memory matrix in short: each bomb against a server with little memory for queries. It ends with an answer or with
//! the error of its limit, the process stays within that limit and a slack, and the next statement is answered.
//!
//! `RLIMIT_AS` is no bound for it: the process maps far more than it touches. So its resident memory is sampled; and
//! where control groups can be made, the kernel ends a process that takes more.

mod common;

use std::time::Duration;

use common::memory::{self, ControlGroup, peak, resident};
use common::process::Process;
use common::{message, query};

/// What all statements may reserve.
const LIMIT_MB: u64 = 64;
/// What the process may have beyond that and what it had before: what plans may allocate unreserved, freed memory that was not given
/// back yet, buffers of pages.
const SLACK_MB: u64 = 448;

fn server() -> (tempfile::TempDir, Process) {
    let dir = tempfile::tempdir().expect("folder");
    let limit = format!("{LIMIT_MB}MB");
    let flags = ["--query-memory-bytes", &limit, "--statement-timeout", "20s"];
    let process = Process::start(&dir.path().join("data"), &flags);
    (dir, process)
}

#[test]
fn bombs_stay_within_the_limit() {
    let (_dir, process) = server();
    let mut client = process.client();
    client.query("CREATE TABLE s (id int PRIMARY KEY, t text)");
    let base = resident(process.id());
    let most = base + ((LIMIT_MB + SLACK_MB) << 20);
    for sql in &memory::bombs() {
        let shown: String = sql.chars().take(100).collect();
        let mut codes = Vec::new();
        let had = peak(process.id(), || {
            let (status, messages) = client.query(sql);
            assert_eq!(status, b'I', "{shown}");
            codes.extend(messages.iter().filter(|message| message.tag == b'E').map(common::Message::sqlstate));
        });
        assert!(had <= most, "{shown}: {} MB, {} MB before all", had >> 20, base >> 20);
        assert!(
            codes.iter().all(|code| ["53200", "53400", "54000", "57014"].contains(&code.as_str())),
            "{shown}: {codes:?}"
        );
        println!("{:6} MB {codes:?} {shown}", had >> 20);
        assert_eq!(client.rows("SELECT 1"), ["1"], "{shown}");
    }
}

/// The same by several limits, each in a control group that has no more than the limit, as much again for freed memory
/// that the allocator keeps, and the slack: the kernel kills what takes more.
#[test]
fn bombs_do_not_leave_a_control_group() {
    for limit in [32, 256, 1024] {
        let dir = tempfile::tempdir().expect("folder");
        let bytes = format!("{limit}MB");
        let flags = ["--query-memory-bytes", &bytes, "--statement-timeout", "20s"];
        let process = Process::start(&dir.path().join("data"), &flags);
        let group = match ControlGroup::around(process.id(), (2 * limit + SLACK_MB) << 20) {
            Ok(group) => group,
            Err(error) => return println!("skipped: no control group can be made ({error})"),
        };
        let (mut client, mut beside) = (process.client(), process.client());
        client.query("CREATE TABLE s (id int PRIMARY KEY, t text)");
        for sql in &memory::bombs() {
            let shown: String = sql.chars().take(100).collect();
            let (status, messages) = client.query(sql);
            assert_eq!(status, b'I', "{shown}");
            let codes: Vec<String> =
                messages.iter().filter(|message| message.tag == b'E').map(common::Message::sqlstate).collect();
            assert!(
                codes.iter().all(|code| ["53200", "53400", "54000", "57014"].contains(&code.as_str())),
                "{shown}: {codes:?}"
            );
            assert_eq!(client.rows("SELECT 1"), ["1"], "{limit} MB: {shown}");
            assert_eq!(beside.rows("SELECT 1"), ["1"], "{limit} MB: {shown}");
        }
        println!("{limit} MB for queries: {} MB at most", group.most().expect("a number") >> 20);
        drop(process);
    }
}

/// A message for which there is no memory is read and forgotten, whatever its kind; the session goes on.
#[test]
fn long_messages_are_refused_before_they_are_kept() {
    let (_dir, process) = server();
    let mut client = process.client();
    let base = resident(process.id());
    let text = "x".repeat(200 << 20);
    let had = peak(process.id(), || {
        client.send(&query(&text));
        let (status, messages) = client.until_ready();
        assert_eq!((status, common::error(&messages).sqlstate().as_str()), (b'I', "53200"));
        client.send(&message(b'P', format!("\0{text}\0\0\0").as_bytes()));
        client.send(&common::sync());
        let (status, messages) = client.until_ready();
        assert_eq!((status, common::error(&messages).sqlstate().as_str()), (b'I', "53200"));
    });
    assert!(had < base + (64 << 20), "{} MB, {} MB before", had >> 20, base >> 20);
    assert_eq!(client.rows("SELECT 1"), ["1"]);
}

#[test]
fn kept_plans_go_by_their_bytes() {
    let (_dir, process) = server();
    let mut client = process.client();
    let columns: Vec<String> = (0..200).map(|n| format!("c{n} int")).collect();
    client.query(&format!("CREATE TABLE c (id int PRIMARY KEY, {})", columns.join(", ")));
    let run = |client: &mut common::Client, n: usize| {
        let sums: Vec<String> = (0..200).map(|c| format!("sum(c{c} + c{}) AS s{n}_{c}", (c + n) % 200)).collect();
        assert_eq!(client.rows(&format!("SELECT {} FROM c", sums.join(", "))).len(), 0);
    };
    let base = resident(process.id());
    for n in 0..60 {
        run(&mut client, n);
    }
    let after = resident(process.id());
    assert!(after < base + (256 << 20), "{} MB, {} MB before", after >> 20, base >> 20);
}

#[test]
fn idle_connections_take_little() {
    let (_dir, process) = server();
    let first = process.client();
    let base = resident(process.id());
    let clients: Vec<_> = (0..60).map(|_| process.client()).collect();
    let each = (resident(process.id()).saturating_sub(base)) / clients.len() as u64;
    println!("{} kB for each idle connection", each >> 10);
    assert!(each < 512 << 10, "{} kB", each >> 10);
    drop((first, clients));
}

/// Spilled files have no names: nothing is left of them after `kill -9` and a start.
#[test]
fn a_crash_leaves_no_temporary_files() {
    let (dir, process) = server();
    let mut client = process.client();
    client.query("SET work_mem = '1MB'");
    client.send(&query("SELECT i FROM generate_series(1, 20000000) AS s(i) ORDER BY -i"));
    let begun = std::time::Instant::now();
    let handles = format!("/proc/{}/fd", process.id());
    let spilled = || {
        let links = std::fs::read_dir(&handles).expect("handles").flatten();
        links
            .filter_map(|link| std::fs::read_link(link.path()).ok())
            .any(|to| to.to_string_lossy().contains("/resurgam_tmp/"))
    };
    while !spilled() {
        assert!(begun.elapsed() < Duration::from_secs(30), "it did not spill");
        std::thread::sleep(Duration::from_millis(5));
    }
    let folder = dir.path().join("data").join("resurgam_tmp");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&folder).expect("folder").permissions());
    assert_eq!(mode & 0o777, 0o700);
    process.kill();
    // It may have been between making a file and taking its name away: the next start looks.
    std::fs::write(folder.join("spill-1.1"), "left between two steps").expect("write");
    let process = Process::start(&dir.path().join("data"), &[]);
    assert_eq!(process.client().rows("SELECT 1"), ["1"]);
    assert_eq!(std::fs::read_dir(&folder).expect("folder").count(), 0);
}

/// Prepared statements and portals that a session gives names to, without an end: 53200 for it, nothing for the others, and what
/// is closed makes room.
#[test]
fn named_statements_and_portals_are_bounded() {
    let (_dir, process) = server();
    let (mut client, mut beside) = (process.client(), process.client());
    client.query("CREATE TABLE c (id int PRIMARY KEY, t text)");
    let refused = |client: &mut common::Client, what: &dyn Fn(usize) -> Vec<u8>| {
        for n in 0..20_000 {
            client.send(&[what(n), common::sync()].concat());
            let (_, messages) = client.until_ready();
            if let Some(error) = messages.iter().find(|message| message.tag == b'E') {
                assert_eq!(error.sqlstate(), "53200", "{error:?}");
                return n;
            }
        }
        panic!("nothing was refused");
    };
    let base = resident(process.id());
    let mut had = 0;
    let most = peak(process.id(), || {
        // Different texts, of some kilobytes each: none is another's.
        let columns = (0..200).map(|n| format!("id + {n}")).collect::<Vec<_>>().join(", ");
        had = refused(&mut client, &|n| {
            common::parse(&format!("s{n}"), &format!("SELECT {columns}, id + {n} AS n{n} FROM c"))
        });
    });
    println!("{had} statements, {} MB, {} MB before", most >> 20, base >> 20);
    assert!(had > 20, "{had}");
    assert!(most < base + (320 << 20), "{} MB, {} MB before", most >> 20, base >> 20);
    // Others have theirs.
    beside.send(&[common::parse("mine", "SELECT 1"), common::sync()].concat());
    assert!(beside.until_ready().1.iter().all(|message| message.tag != b'E'));
    client.query("DEALLOCATE ALL");
    client.send(&[common::parse("again", "SELECT length($1::text)"), common::sync()].concat());
    assert!(client.until_ready().1.iter().all(|message| message.tag != b'E'));

    client.query("BEGIN");
    let value = "x".repeat(1 << 20);
    let base = resident(process.id());
    let most = peak(process.id(), || {
        had = refused(&mut client, &|n| common::bind(&format!("p{n}"), "again", &[Some(&value)]));
    });
    println!("{had} portals, {} MB, {} MB before", most >> 20, base >> 20);
    assert!(most < base + (160 << 20), "{} MB, {} MB before", most >> 20, base >> 20);
    client.query("ROLLBACK");
    assert_eq!(client.rows("SELECT 1"), ["1"]);
    assert_eq!(beside.rows("SELECT 1"), ["1"]);
}

/// A statement may work on far more than the memory of queries: rows that it has handed on are no longer its own, nor are the pool's
/// pages, which are made when they are first needed, by whichever statement that is.
#[test]
fn more_data_than_memory() {
    const POOL_MB: usize = 192;
    let dir = tempfile::tempdir().expect("folder");
    let (query_memory, pool) = (format!("{LIMIT_MB}MB"), format!("{POOL_MB}MB"));
    let flags = ["--query-memory-bytes", &query_memory, "--buffer-bytes", &pool];
    let process = Process::start(&dir.path().join("data"), &flags);
    let mut client = process.client();
    let done = |client: &mut common::Client, sql: &str| {
        let (_, messages) = client.query(sql);
        let failed = messages.iter().find(|message| message.tag == b'E');
        assert!(failed.is_none(), "{sql}: {failed:?}");
    };
    done(&mut client, "CREATE TABLE w (id int PRIMARY KEY, n int, t text)");
    // A table that is larger than both, by statements of other threads and sessions.
    for at in 0..8 {
        let sql = format!(
            "INSERT INTO w SELECT i, 0, repeat('x', 1000) FROM generate_series({}, {}) i",
            at * 30_000 + 1,
            (at + 1) * 30_000
        );
        done(&mut process.client(), &sql);
    }
    drop(client);
    process.stop();
    let statements = [
        "UPDATE w SET n = n + 1 WHERE id > 0",
        "SELECT count(*), sum(length(t)) FROM w",
        // Results that are longer than the memory that they may take.
        "SELECT * FROM w",
        "COPY w TO STDOUT",
        "COPY (SELECT id, n + 1, t FROM w WHERE id > 0) TO STDOUT",
        "DELETE FROM w",
    ];
    for sql in statements {
        let process = Process::start(&dir.path().join("data"), &flags);
        done(&mut process.client(), sql);
        let had = resident(process.id()) >> 20;
        assert!(had > POOL_MB as u64 / 2, "{sql}: it touched {had} MB only, which shows nothing");
        process.stop();
    }
}
