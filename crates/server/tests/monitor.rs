//! The HTTP endpoint: metrics, health, readiness, and what it does with bad input.

mod common;

use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::exposition::{self, Scrape};
use common::http::{exchange, exchange_cut, get};
use common::*;
use resurgam_engine::{Database, Options};
use resurgam_server::serve;
use resurgam_server::server::{Server, stopper};
use resurgam_server::settings::{Bytes, Settings};
use resurgam_sql::SqlDatabase;
use resurgam_vfs::{Failing, FaultPlan, SimVfs};

fn watched() -> TestServer {
    TestServer::with(|settings| settings.metrics_listen = "127.0.0.1:0".into())
}

fn http(server: &TestServer) -> SocketAddr {
    server.endpoint.as_ref().expect("endpoint").address()
}

fn scrape(address: SocketAddr) -> Scrape {
    let answer = get(address, "/metrics");
    assert_eq!(answer.status, 200);
    assert_eq!(answer.field("content-type"), Some("text/plain; version=0.0.4; charset=utf-8"));
    exposition::read(&answer.body)
}

/// Asks again and again; only a server that never gets there fails.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !done() {
        assert!(begun.elapsed() < Duration::from_secs(120), "not in two minutes: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn values_move_with_the_work() {
    let server = watched();
    let before = scrape(http(&server));
    assert_eq!(before.value("resurgam_ready"), 1.0);
    assert_eq!(before.value("resurgam_connections"), 0.0);
    let mut client = server.client();
    client.query("create table t (id int primary key, v text)");
    client.query("insert into t select i, repeat('x', 100) from generate_series(1, 1000) as s(i)");
    client.query("begin");
    client.query("insert into t values (2001, 'y')");
    client.query("rollback");
    client.query("begin");
    client.query("insert into t select i, 'y' from generate_series(3001, 4000) as s(i)");
    client.query("rollback");
    client.query("checkpoint");
    client.query("begin");
    client.query("update t set v = 'z' where id = 1");
    let after = scrape(http(&server));
    let grew = |sample: &str| after.value(sample) - before.value(sample);
    assert_eq!(grew("resurgam_transactions_committed_total"), 2.0);
    let rolled_back = grew("resurgam_transactions_rolled_back_total{by=\"undo\"}")
        + grew("resurgam_transactions_rolled_back_total{by=\"marking\"}");
    assert_eq!(rolled_back, 2.0);
    if std::env::var("RESURGAM_MODE").as_deref() != Ok("traditional") {
        assert_eq!(grew("resurgam_transactions_rolled_back_total{by=\"marking\"}"), 1.0);
    }
    assert_eq!(after.value("resurgam_transactions_active"), 1.0);
    assert!(after.value("resurgam_transactions_oldest_age_seconds") > 0.0);
    assert_eq!(after.value("resurgam_connections"), 1.0);
    assert_eq!(after.value("resurgam_connections_max"), 100.0);
    assert!(grew("resurgam_connections_accepted_total") >= 1.0);
    assert!(grew("resurgam_log_record_bytes_total") > 100_000.0);
    assert!(grew("resurgam_log_syncs_total") >= 1.0);
    assert!(grew("resurgam_log_sync_seconds_total") > 0.0);
    assert!(grew("resurgam_checkpoints_total") >= 1.0);
    assert!(grew("resurgam_plan_runs_total{by=\"direct\"}") > 0.0);
    assert!(grew("resurgam_planning_seconds_total") > 0.0 && grew("resurgam_running_seconds_total") > 0.0);
    assert!(after.value("resurgam_statements_kept") > 0.0 && after.value("resurgam_statements_kept_bytes") > 4096.0);
    assert!(grew("resurgam_statement_lookups_total{result=\"miss\"}") > 0.0);
    assert!(grew("resurgam_buffer_hits_total") > 0.0);
    assert_eq!(after.value("resurgam_buffer_bytes"), 64.0 * 1024.0 * 1024.0);
    client.query("commit");
    let sweeps = scrape(http(&server)).value("resurgam_cleaner_sweeps_total");
    client.query("vacuum");
    let last = scrape(http(&server));
    assert!(last.value("resurgam_cleaner_sweeps_total") > sweeps);
    assert_eq!(last.value("resurgam_transactions_active"), 0.0);
    assert!(last.value("resurgam_cleaner_last_sweep_age_seconds") < 3600.0);
}

#[test]
fn the_manual_lists_every_metric_and_no_other() {
    let archive = tempfile::tempdir().expect("a folder");
    let server = TestServer::with(|settings| {
        settings.metrics_listen = "127.0.0.1:0".into();
        settings.archive = archive.path().join("archive").display().to_string();
        settings.backups = archive.path().join("backups").display().to_string();
    });
    let manual = include_str!("../../../docs/operations.md");
    let scrape = scrape(http(&server));
    let missing: Vec<&String> = scrape.0.keys().filter(|name| !manual.contains(&format!("`{name}`"))).collect();
    assert!(missing.is_empty(), "not in docs/operations.md: {missing:?}");
    let table = manual.split("### The metrics").nth(1).and_then(|rest| rest.split("\n#").next()).expect("the table");
    let listed = table.split('`').filter(|word| word.starts_with("resurgam_"));
    let unknown: Vec<&str> = listed.filter(|name| !scrape.0.contains_key(*name)).collect();
    assert!(unknown.is_empty(), "in docs/operations.md, but not there: {unknown:?}");
}

#[test]
fn nothing_is_ready_before_the_database_is_open() {
    let dir = tempfile::tempdir().unwrap();
    let mut settings = Settings::defaults().unwrap();
    settings.data = dir.path().join("data");
    settings.listen = "127.0.0.1:0".into();
    settings.metrics_listen = "127.0.0.1:0".into();
    settings.buffer_bytes = Bytes(64 << 20);
    let runtime = serve::runtime(&settings).unwrap();
    let server = runtime.block_on(Server::bind(settings.clone())).unwrap();
    let (monitor, endpoint) = (server.monitor(), server.endpoint().unwrap());
    let address = endpoint.address();
    let ready = || {
        let answer = get(address, "/ready");
        (answer.status, answer.body)
    };
    // The database does not even exist yet.
    assert_eq!(get(address, "/health").status, 200);
    assert_eq!(ready(), (503, "starting: the data folder is being opened\n".into()));
    assert_eq!(scrape(address).value("resurgam_ready"), 0.0);
    monitor.recovering(64 << 20, 1234);
    assert_eq!(ready(), (503, "recovering: 64 MB of log (1234 records) read so far\n".into()));
    assert_eq!(scrape(address).value("resurgam_recovery_read_bytes"), f64::from(64 << 20));
    assert_eq!(get(address, "/health").status, 200);

    let (database, sql) = serve::sql_database(&settings).unwrap();
    assert_eq!(ready().0, 503, "open, but nobody is served yet");
    let (stop, stopped) = stopper();
    let running = runtime.spawn(server.run(sql, stopped));
    until("ready", || ready() == (200, "ready\n".into()));
    stop.stop();
    runtime.block_on(running).unwrap();
    assert_eq!(ready(), (503, "stopping: sessions are being ended\n".into()));
    database.close().unwrap();
    assert_eq!(ready().0, 503);
    assert_eq!(get(address, "/health").status, 200);
    drop((monitor, endpoint));
    assert!(TcpStream::connect(address).is_err(), "the endpoint ends with its last holder");
}

#[test]
fn a_server_that_stops_says_so_while_it_waits() {
    let server = watched();
    let mut client = server.client();
    client.send(&query("select pg_sleep(600)"));
    server.stop();
    until("not ready", || get(http(&server), "/ready").status == 503);
    assert_eq!(get(http(&server), "/health").status, 200);
}

/// A device that fails stands in nobody's way at first, then it does; and all is well again when the device is.
#[test]
fn not_ready_while_writers_wait_for_a_device_that_fails() {
    let mut settings = Settings::defaults().unwrap();
    settings.listen = "127.0.0.1:0".into();
    settings.metrics_listen = "127.0.0.1:0".into();
    settings.shutdown_timeout = Duration::from_secs(1);
    let runtime = serve::runtime(&settings).unwrap();
    let server = runtime.block_on(Server::bind(settings.clone())).unwrap();
    let (address, monitoring) = (server.address().unwrap(), server.endpoint().unwrap());
    let ready = || get(monitoring.address(), "/ready");
    let vfs = SimVfs::new(1);
    let options = Options { buffer_bytes: 8 << 20, log_bytes_max: 8 << 20, ..Options::default() };
    let database = Database::open_with(Arc::new(vfs.clone()), Path::new("/db"), options, |_| {}).unwrap();
    let (stop, stopped) = stopper();
    let sql = SqlDatabase::new(database.clone(), serve::sql_settings(&settings));
    let running = runtime.spawn(server.run(sql, stopped));
    until("ready", || ready().status == 200);
    let mut client = Client::login(address);
    client.stream.set_read_timeout(Some(Duration::from_secs(120))).unwrap();
    client.query("create table t (id serial primary key, v text)");

    let data = Failing { path: "/db/data".into(), writes: true, ..Failing::default() };
    vfs.set_faults(FaultPlan { failing: vec![data], ..FaultPlan::default() });
    let ended = Arc::new(AtomicBool::new(false));
    let writer = std::thread::spawn({
        let ended = Arc::clone(&ended);
        move || {
            let mut written = 0;
            while !ended.load(Ordering::Relaxed) {
                // It waits for room in the log as long as that takes, up to a refusal.
                let (_, said) = client.query("insert into t (v) select repeat('x', 1000) from generate_series(1, 100)");
                written += usize::from(said.iter().all(|message| message.tag != b'E'));
            }
            (client, written)
        }
    });
    until("warned of", || ready().body.starts_with("ready\nwarning: writing changed pages has failed "));
    until("not ready", || {
        let answer = ready();
        answer.status == 503
            && answer.body.starts_with("writers wait, the log is at its bound: writing changed pages has failed ")
    });
    assert_eq!(scrape(monitoring.address()).value("resurgam_ready"), 0.0);
    assert_eq!(get(monitoring.address(), "/health").status, 200, "a restart would mend nothing");

    vfs.set_faults(FaultPlan::default());
    until("ready again", || {
        let answer = ready();
        answer.status == 200 && answer.body == "ready\n"
    });
    ended.store(true, Ordering::Relaxed);
    let (mut client, written) = writer.join().unwrap();
    assert_eq!(client.rows("select count(*) from t where length(v) = 1000"), [(100 * written).to_string()]);
    drop(client);
    stop.stop();
    runtime.block_on(running).unwrap();
    database.close().unwrap();
}

#[test]
fn bad_requests_are_refused_and_do_no_harm() {
    let server = watched();
    let address = http(&server);
    until("ready", || get(address, "/ready").status == 200);
    let line = |line: &str| exchange(address, format!("{line}\r\nHost: x\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(line("GET / HTTP/1.1").status, 404);
    assert_eq!(line("GET /metricsx HTTP/1.1").status, 404);
    assert_eq!(line("GET /metrics/ HTTP/1.1").status, 404);
    assert_eq!(line("GET /../etc/passwd HTTP/1.1").status, 404);
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "get"] {
        let answer = line(&format!("{method} /metrics HTTP/1.1"));
        assert_eq!((answer.status, answer.field("allow")), (405, Some("GET, HEAD")), "{method}");
    }
    let head = line("HEAD /ready HTTP/1.1");
    assert_eq!((head.status, head.body.as_str(), head.field("content-length")), (200, "", Some("6")));
    assert_eq!(line("GET /ready?verbose HTTP/1.1").status, 200);
    for garbage in [
        &b"\r\n\r\n\r\nx"[..],
        b"hello\r\n\r\n",
        b"\0\0\0\x08\x04\xd2\x16\x2f",
        b"GET /metrics\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\n\r\n",
        b"GET /metrics HTTP/3.0\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nbad field\r\n\r\n",
        b"GET /met\x01rics HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\xff\xfe\xfd\xfc",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /metrics HTTP/1.1\r\nHost:",
    ] {
        let answer = exchange_cut(address, garbage);
        assert_eq!(answer.map(|answer| answer.status), Some(400), "{garbage:?}");
    }
    let long = format!("GET /{} HTTP/1.1\r\nHost: x\r\n\r\n", "a".repeat(100_000));
    assert_eq!(exchange(address, &long.as_bytes()[..20_000]).unwrap().status, 431);
    let many = format!("GET /ready HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(100));
    assert_eq!(exchange(address, many.as_bytes()).unwrap().status, 431);
    assert!(exchange_cut(address, b"").is_none());
    // Clients that say nothing, or little, hold nobody up.
    let mut idle: Vec<TcpStream> = (0..10).map(|_| TcpStream::connect(address).unwrap()).collect();
    for stream in &mut idle {
        stream.write_all(b"GET /metr").unwrap();
    }
    assert_eq!(get(address, "/ready").status, 200);
    assert_eq!(server.client().rows("select 1"), ["1"]);
}

#[test]
fn a_client_that_never_finishes_is_told_so() {
    let server = watched();
    assert_eq!(exchange(http(&server), b"GET /metrics HTTP/1.1\r\n").unwrap().status, 408);
}

#[test]
fn more_clients_than_places_are_all_answered() {
    let server = watched();
    let address = http(&server);
    let threads: Vec<_> = (0..100).map(|_| std::thread::spawn(move || get(address, "/metrics").status)).collect();
    for thread in threads {
        assert_eq!(thread.join().unwrap(), 200);
    }
}

#[test]
fn silent_clients_keep_nobody_waiting() {
    let server = watched();
    let address = http(&server);
    let mut silent: Vec<TcpStream> = Vec::new();
    for i in 0..200 {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        if i % 2 == 0 {
            stream.write_all(b"GET /health HTTP/1.1\r\n").unwrap();
        }
        silent.push(stream);
    }
    assert_eq!(get(address, "/health").status, 200);
    // The last one is there still.
    let mut last = silent.pop().unwrap();
    last.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut last, &mut text).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text:?}");
    // Others had to go for it without a word; those who only take too long are told so.
    let went = silent.drain(..72).filter_map(|mut stream| {
        let mut bytes = Vec::new();
        let _ = std::io::Read::read_to_end(&mut stream, &mut bytes);
        bytes.is_empty().then_some(())
    });
    assert!(went.count() > 0, "all were waited for");
}

#[test]
fn there_is_no_endpoint_unless_asked_for() {
    let server = TestServer::start();
    assert!(server.endpoint.is_none());
}

#[test]
fn an_address_in_use_is_told() {
    let server = watched();
    let mut settings = Settings::defaults().unwrap();
    settings.listen = "127.0.0.1:0".into();
    settings.metrics_listen = http(&server).to_string();
    let runtime = serve::runtime(&settings).unwrap();
    let error = runtime.block_on(Server::bind(settings)).err().unwrap();
    assert!(error.contains("--metrics-listen"), "{error}");
}
