//! The file with the host rules: what it lets in, how it is checked, how it is read again.

mod common;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use common::certificate::Certificates;
use common::{TestServer, error};
use resurgam_server::settings::Settings;

/// The error with which a client without a password and without TLS is refused; `None`: it is let in.
fn plain(server: &TestServer, user: &str, database: &str) -> Option<(String, String)> {
    let mut client = server.raw();
    client.startup(&[("user", user), ("database", database)]);
    let (status, messages) = client.until_ready();
    if status == b'I' {
        return None;
    }
    let error = error(&messages);
    Some((error.sqlstate(), error.field(b'M').unwrap()))
}

fn rules_of(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("hba");
    std::fs::write(&path, text).unwrap();
    path
}

fn with_rules(text: &str, change: impl FnOnce(&mut Settings)) -> (TestServer, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = rules_of(dir.path(), text);
    let server = TestServer::with(|settings| {
        settings.hba_file = path;
        change(settings);
    });
    (server, dir)
}

#[test]
fn the_first_rule_that_matches_decides() {
    let (server, _dir) = with_rules(
        "# as PostgreSQL's\nlocal all all trust\nhost all other 127.0.0.0/8 reject\nhost postgres postgres 127.0.0.1 \
         255.255.255.255 trust\nhost nothere all all trust\nhost all postgres 127.0.0.1/32 reject\n",
        |_| {},
    );
    assert_eq!(plain(&server, "postgres", "postgres"), None);
    let refused = |user: &str, database: &str| plain(&server, user, database).unwrap();
    // Words and codes as PostgreSQL 15 has them.
    let whom = |user: &str, database: &str| {
        format!("host \"127.0.0.1\", user \"{user}\", database \"{database}\", no encryption")
    };
    let (code, text) = refused("other", "postgres");
    assert_eq!(code, "28000");
    assert_eq!(text, format!("pg_hba.conf rejects connection for {}", whom("other", "postgres")));
    let (code, text) = refused("somebody", "shop");
    assert_eq!((code.as_str(), text), ("28000", format!("no pg_hba.conf entry for {}", whom("somebody", "shop"))));
    assert_eq!(refused("postgres", "nothere"), ("3D000".into(), "database \"nothere\" does not exist".into()));
    assert_eq!(refused("somebody", "nothere"), ("28000".into(), "role \"somebody\" does not exist".into()));
    // Names are cut where PostgreSQL cuts them.
    let long = "x".repeat(100);
    assert_eq!(refused(&long, "postgres").1, format!("no pg_hba.conf entry for {}", whom(&long[..63], "postgres")));
}

#[test]
fn the_view_shows_the_file() {
    let (server, dir) =
        with_rules("host all,postgres \"a b\",postgres 10.0.0.0/8 reject\nhost all all all trust\n", |_| {});
    let mut client = server.client();
    let text = "select concat_ws('|', line_number, type, array_to_string(database, ','), array_to_string(user_name, ','), address, netmask, auth_method, error) \
                from pg_hba_file_rules order by line_number";
    let rows = ["1|host|all,postgres|a b,postgres|10.0.0.0|255.0.0.0|reject", "2|host|all|all|all|trust"];
    assert_eq!(client.rows(text), rows);
    rules_of(dir.path(), "host all all all trust\nhost all all\n");
    let rows = ["1|host|all|all|all|trust", "2|end-of-line before IP address specification"];
    assert_eq!(client.rows(text), rows);
    // What is in force without a file.
    let server = TestServer::start();
    assert_eq!(server.client().rows(text), ["1|host|all|all|all|trust"]);
}

#[test]
fn reloading_takes_a_good_file_and_leaves_a_bad_one() {
    let (server, dir) = with_rules("host all all all trust\n", |_| {});
    let mut client = server.client();
    rules_of(dir.path(), "host all all all reject\n");
    assert_eq!(plain(&server, "postgres", "postgres"), None, "nobody has asked for it");
    assert_eq!(client.rows("select pg_reload_conf()"), ["t"]);
    assert!(plain(&server, "postgres", "postgres").unwrap().1.starts_with("pg_hba.conf rejects"));
    rules_of(dir.path(), "host all all all trust\nhost\n");
    assert_eq!(client.rows("select pg_reload_conf()"), ["t"]);
    assert!(plain(&server, "postgres", "postgres").is_some(), "the old rules stay");
    rules_of(dir.path(), "host all all all trust\n");
    client.rows("select pg_reload_conf()");
    assert_eq!(plain(&server, "postgres", "postgres"), None);
}

/// psql, if it is installed.
fn psql(server: &TestServer, target: &str, password: &str) -> Option<Output> {
    let target = format!("host=127.0.0.1 port={} {target}", server.address.port());
    let mut command = Command::new("psql");
    command.args(["-X", "-w", "-A", "-t", "-c", "select 1", &target]);
    command.env("PGPASSWORD", password).env("PGCONNECT_TIMEOUT", "10").env_remove("PGOPTIONS");
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: psql could not be started ({error})");
            None
        }
    }
}

fn shown(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr)).trim().to_owned()
}

#[test]
fn certificates_and_encryption_are_asked_for() {
    let Some(made) = Certificates::make() else { return };
    let tls = |settings: &mut Settings| {
        settings.tls_cert = made.path("server.crt");
        settings.tls_key = made.path("server.key");
        settings.tls_ca = made.path("ca.crt");
        settings.password = "secret".into();
    };
    let (server, _dir) = with_rules("hostssl all all all cert\n", tls);
    let with = |mode: &str, name: &str| {
        let (cert, key) = (made.path(&format!("{name}.crt")), made.path(&format!("{name}.key")));
        format!("user=postgres sslmode={mode} sslcert={} sslkey={}", cert.display(), key.display())
    };
    let none = |mode: &str| format!("user=postgres sslmode={mode} sslcert=/no/such sslkey=/no/such");
    let full = format!("{} sslrootcert={}", with("verify-full", "postgres"), made.path("ca.crt").display());
    for (target, expected) in [
        (with("require", "postgres"), "1"),
        (full, "1"),
        (with("require", "other"), "certificate authentication failed for user \"postgres\""),
        (none("require"), "connection requires a valid client certificate"),
        (
            none("disable"),
            "no pg_hba.conf entry for host \"127.0.0.1\", user \"postgres\", database \"postgres\", no encryption",
        ),
        // The authority is not one that the server trusts: refused in the handshake.
        (with("require", "stranger"), "SSL"),
    ] {
        let Some(output) = psql(&server, &target, "") else { return };
        let text = shown(&output);
        assert!(text.contains(expected), "{target}: {text}");
        assert_eq!(output.status.success(), expected == "1", "{target}: {text}");
    }
    // A certificate beside the password.
    let (server, _dir) = with_rules("hostssl all all all scram-sha-256 clientcert=verify-full\n", tls);
    for (target, password, expected) in [
        (with("require", "postgres"), "secret", "1"),
        (with("require", "postgres"), "wrong", "password authentication failed for user \"postgres\""),
        (with("require", "other"), "secret", "password authentication failed for user \"postgres\""),
        (none("require"), "secret", "connection requires a valid client certificate"),
    ] {
        let Some(output) = psql(&server, &target, password) else { return };
        let text = shown(&output);
        assert!(text.contains(expected), "{target}: {text}");
    }
    let (server, _dir) = with_rules("hostssl all all all trust clientcert=verify-ca\n", tls);
    for (target, expected) in
        [(with("require", "other"), "1"), (none("require"), "connection requires a valid client certificate")]
    {
        let text = shown(&psql(&server, &target, "").unwrap());
        assert!(text.contains(expected), "{target}: {text}");
    }
    // Required whatever the rules say, and without rules.
    let (server, _dir) = with_rules("host all all all trust\n", |settings| {
        tls(settings);
        settings.tls_required = true;
    });
    assert!(shown(&psql(&server, &none("disable"), "").unwrap()).contains("pg_hba.conf rejects connection for host"));
    assert_eq!(shown(&psql(&server, &none("require"), "").unwrap()), "1");
    // One that cannot check certificates does not take them for checked.
    let (server, _dir) = with_rules("hostssl all all all cert\n", |settings| {
        tls(settings);
        settings.tls_ca = PathBuf::new();
    });
    let text = shown(&psql(&server, &with("require", "postgres"), "").unwrap());
    assert!(text.contains("a root certificate store is available"), "{text}");
}

/// The server as a process; its log, line by line.
struct Logged {
    child: Child,
    port: u16,
    log: Arc<Mutex<Vec<String>>>,
}

impl Logged {
    fn start(data: &Path, flags: &[&str]) -> Self {
        let mut child = command(data, flags).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("start");
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        let log = Arc::<Mutex<Vec<String>>>::default();
        let (keep, errors) = (log.clone(), BufReader::new(child.stderr.take().expect("stderr")));
        std::thread::spawn(move || {
            errors.lines().map_while(Result::ok).for_each(|line| keep.lock().unwrap().push(line))
        });
        let port = loop {
            let line = lines.next().expect("the server ended").expect("a line");
            if let Some(rest) = line.strip_prefix("Listening on 127.0.0.1:") {
                break rest.split('.').next().unwrap().parse().unwrap();
            }
        };
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, port, log }
    }

    fn client(&self) -> common::Client {
        let stream = std::net::TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        common::Client { stream, process_id: 0, secret: 0, parameters: Vec::new() }
    }

    fn gets_in(&self) -> bool {
        let mut client = self.client();
        client.startup(&[("user", "postgres")]);
        client.until_ready().0 == b'I'
    }

    /// Waits for a line with all of `words`; that line.
    fn line(&self, words: &[&str]) -> String {
        let begun = Instant::now();
        loop {
            let log = self.log.lock().unwrap().clone();
            if let Some(line) = log.iter().find(|line| words.iter().all(|word| line.contains(word))) {
                return line.clone();
            }
            assert!(begun.elapsed() < Duration::from_secs(10), "no line with {words:?} in {log:#?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn signal(&self, name: &str) {
        let status = Command::new("kill").args([name, &self.child.id().to_string()]).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Logged {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn command(data: &Path, flags: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_resurgam"));
    command.args(["serve", "--listen", "127.0.0.1:0", "--buffer-bytes", "64MB", "--data"]).arg(data).args(flags);
    command
}

/// What the server says when it does not start.
fn refusal(data: &Path, flags: &[&str]) -> String {
    let mut args = vec!["--data".as_ref(), data.as_os_str()];
    args.extend(flags.iter().map(std::ffi::OsStr::new));
    common::process::refusal(&args)
}

#[test]
fn a_signal_has_the_file_read_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = rules_of(dir.path(), "host all all all trust\n");
    let server = Logged::start(&dir.path().join("data"), &["--hba-file", path.to_str().unwrap()]);
    assert!(server.gets_in());
    let wait_for = |wanted: bool| {
        let begun = Instant::now();
        while server.gets_in() != wanted {
            assert!(begun.elapsed() < Duration::from_secs(10), "the rules are not in force");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    rules_of(dir.path(), "host all all all reject\n");
    server.signal("-HUP");
    wait_for(false);
    rules_of(dir.path(), "host all all all trust\nhost all all all magic\n");
    server.signal("-HUP");
    let line = server.line(&["invalid authentication method \"magic\"", "line 2 of configuration file"]);
    assert!(line.contains(path.to_str().unwrap()), "{line}");
    assert!(!server.gets_in());
    rules_of(dir.path(), "host all all all trust\n");
    server.signal("-HUP");
    wait_for(true);
}

#[test]
fn a_bad_file_keeps_the_server_from_starting() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let path = rules_of(dir.path(), "host all all all trust\nhosts all all all trust\nhost all all\n");
    let path = path.to_str().unwrap();
    let text = refusal(&data, &["--hba-file", path]);
    for (line, what) in [(2, "invalid connection type \"hosts\""), (3, "end-of-line before IP address")] {
        assert!(
            text.contains(what) && text.contains(&format!("line {line} of configuration file \"{path}\"")),
            "{text}"
        );
    }
    rules_of(dir.path(), "# nothing\n");
    assert!(refusal(&data, &["--hba-file", path]).contains("contains no entries"));
    assert!(refusal(&data, &["--hba-file", "/no/such/file"]).contains("/no/such/file"));
    rules_of(dir.path(), "host all all all scram-sha-256\n");
    let text = refusal(&data, &["--hba-file", path]);
    assert!(text.contains("there is no password") && text.contains("line 1"), "{text}");
    assert!(!data.exists() || std::fs::read_dir(&data).unwrap().next().is_none(), "nothing was made");
}

#[test]
fn loose_secrets_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let file = |name: &str, text: &str, mode: u32| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let password = file("password", "hunter2\n", 0o644);
    let text = refusal(&data, &["--authentication", "scram-sha-256", "--password-file", &password]);
    assert!(text.contains(&password) && text.contains("group or world access") && !text.contains("hunter2"), "{text}");
    let config = file("config.toml", "password = \"hunter2\"\nauthentication = \"scram-sha-256\"\n", 0o604);
    let text = refusal(&data, &["--config", &config]);
    assert!(text.contains(&config) && text.contains("group or world access") && !text.contains("hunter2"), "{text}");
    // Without a secret it may be read by all.
    let config = file("config.toml", "max_connections = 7\n", 0o644);
    drop(Logged::start(&data, &["--config", &config]));
    let Some(made) = Certificates::make() else { return };
    let (cert, key) = (made.path("server.crt"), made.path("server.key"));
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).unwrap();
    let text = refusal(&data, &["--tls-cert", cert.to_str().unwrap(), "--tls-key", key.to_str().unwrap()]);
    assert!(text.contains(key.to_str().unwrap()) && text.contains("group or world access"), "{text}");
}

#[test]
fn connections_statements_and_failures_are_logged() {
    let dir = tempfile::tempdir().unwrap();
    let password = dir.path().join("password");
    std::fs::write(&password, "open sesame\n").unwrap();
    std::fs::set_permissions(&password, std::fs::Permissions::from_mode(0o600)).unwrap();
    let path = rules_of(
        dir.path(),
        "host all postgres 127.0.0.1/32 trust\nhost all guarded all scram-sha-256\nhost all refused all reject\n",
    );
    let server = Logged::start(
        &dir.path().join("data"),
        &[
            "--hba-file",
            path.to_str().unwrap(),
            "--password-file",
            password.to_str().unwrap(),
            "--log-connections",
            "--log-disconnections",
            "--log-min-duration-statement=200ms",
        ],
    );
    let mut client = server.client();
    let port = client.stream.local_addr().unwrap().port();
    client.startup(&[("user", "postgres"), ("application_name", "teller\nlogin failed")]);
    assert_eq!(client.until_ready().0, b'I');
    server.line(&["connection received: host=127.0.0.1", &format!("port={port}")]);
    server.line(&[
        "connection authorized: user=postgres database=postgres application_name=teller\\nlogin failed host=127.0.0.1",
    ]);
    client.rows("select pg_sleep(0.3)");
    server.line(&["duration: ", "statement: select pg_sleep(0.3) user=postgres database=postgres"]);
    client.rows("select 'quick'");
    let messages = [
        common::parse("slow", "select pg_sleep(0.25)"),
        common::bind("p", "slow", &[]),
        common::execute("p", 0),
        common::sync(),
    ];
    client.send(&messages.concat());
    client.until_ready();
    server.line(&["duration: ", "execute p: select pg_sleep(0.25)"]);
    client.query("set log_min_duration_statement = 0");
    client.query("select 'alter', 1 as password, 'x'");
    client.query("alter user postgres password 'hunter2'");
    server.line(&["password <REDACTED>"]);
    client.send(&common::message(b'X', b""));
    server.line(&["disconnection: session time: 0:00:0", "user=postgres database=postgres host=127.0.0.1"]);
    // Failures are logged in any case.
    for (user, words) in [
        ("refused", ["28000", "pg_hba.conf rejects connection", "line 3"]),
        ("nobody", ["28000", "no pg_hba.conf entry for host \"127.0.0.1\", user \"nobody\"", "user=nobody"]),
    ] {
        let mut client = server.client();
        client.startup(&[("user", user)]);
        client.until_ready();
        let line = server.line(&["login failed:", words[0], words[1], words[2]]);
        assert!(line.contains("host=127.0.0.1") && line.contains(&format!("user={user}")), "{line}");
    }
    let target = format!("host=127.0.0.1 port={} user=guarded dbname=shop", server.port);
    let psql = Command::new("psql").args(["-X", "-w", "-c", "select 1", &target]).env("PGPASSWORD", "wrong").output();
    match psql {
        Ok(_) => {
            let line = server.line(&["login failed: 28P01 password authentication failed for user \"guarded\""]);
            let told = ["user=guarded", "database=shop", "line 2"];
            assert!(told.iter().all(|part| line.contains(part)), "{line}");
        }
        Err(error) => println!("skipped: psql could not be started ({error})"),
    }
    let log = server.log.lock().unwrap().join("\n");
    for never in ["open sesame", "wrong", "hunter2", "'quick'"] {
        assert!(!log.contains(never), "{never} in {log}");
    }
}

#[test]
fn failed_logins_are_counted() {
    let (server, _dir) = with_rules("host postgres postgres all trust\nhost all all all reject\n", |settings| {
        settings.metrics_listen = "127.0.0.1:0".into();
    });
    for _ in 0..3 {
        plain(&server, "postgres", "nope");
    }
    let mut client = server.raw();
    client.send(b"\xff\xff\xff\xff\xff\xff\xff\xff");
    client.until_ready();
    let text = common::http::get(server.endpoint.as_ref().unwrap().address(), "/metrics").body;
    assert!(text.contains("resurgam_logins_failed_total{reason=\"host_rule\"} 3\n"), "{text}");
    assert!(text.contains("resurgam_logins_failed_total{reason=\"protocol\"} 1\n"), "{text}");
}
