//! PostgreSQL's own programs, where they are installed.

mod common;

use std::process::{Command, Output};

use common::TestServer;
use resurgam_server::settings::Authentication;

/// `None`, with a line saying so, when the program is not installed.
fn run(server: &TestServer, program: &str, password: Option<&str>, args: &[&str]) -> Option<Output> {
    let mut command = Command::new(program);
    command.args(["-h", "127.0.0.1", "-p", &server.address.port().to_string(), "-U", "postgres"]).args(args);
    // Nobody is there to be asked for a password.
    command.args((program == "psql").then_some("-w"));
    command.env("PGPASSWORD", password.unwrap_or_default()).env("PGCONNECT_TIMEOUT", "10").env_remove("PGOPTIONS");
    match command.output() {
        Ok(output) => Some(output),
        Err(error) => {
            println!("skipped: {program} could not be started ({error})");
            None
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim().to_owned()
}

#[test]
fn psql_connects_and_queries() {
    let server = TestServer::start();
    let Some(output) = run(&server, "psql", None, &["-X", "-A", "-t", "-c", "select 1", "-c", "select 2"]) else {
        return;
    };
    assert_eq!(text(&output.stdout), "1\n2", "{}", text(&output.stderr));
}

#[test]
fn psql_shows_errors_and_goes_on() {
    let server = TestServer::start();
    let Some(output) = run(&server, "psql", None, &["-X", "-A", "-t", "-c", "select 1/0", "-c", "select 2"]) else {
        return;
    };
    assert!(text(&output.stderr).contains("division by zero"), "{}", text(&output.stderr));
    assert_eq!(text(&output.stdout), "2");
}

#[test]
fn the_password_is_checked() {
    let server = TestServer::with(|settings| {
        settings.authentication = Authentication::ScramSha256;
        settings.password = "correct horse".into();
    });
    let args = ["-X", "-A", "-t", "-c", "select 1"];
    let Some(output) = run(&server, "psql", Some("correct horse"), &args) else { return };
    assert_eq!(text(&output.stdout), "1", "{}", text(&output.stderr));
    let Some(output) = run(&server, "psql", Some("wrong"), &args) else { return };
    assert!(text(&output.stderr).contains("password authentication failed"), "{}", text(&output.stderr));
    let Some(output) = run(&server, "psql", Some("correct horse"), &["-U", "other", "-c", "select 1"]) else { return };
    assert!(text(&output.stderr).contains("password authentication failed"), "{}", text(&output.stderr));
}

#[test]
fn tls_encrypts_and_binds_the_channel() {
    let dir = tempfile::tempdir().unwrap();
    let (cert, key) = (dir.path().join("cert.pem"), dir.path().join("key.pem"));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout"])
        .arg(&key)
        .arg("-out")
        .arg(&cert)
        .output();
    if !matches!(&made, Ok(output) if output.status.success()) {
        println!("skipped: openssl could not make a certificate");
        return;
    }
    let server = TestServer::with(|settings| {
        settings.authentication = Authentication::ScramSha256;
        settings.password = "secret".into();
        settings.tls_cert = cert;
        settings.tls_key = key;
    });
    let port = server.address.port();
    let target = format!("host=127.0.0.1 port={port} user=postgres sslmode=require channel_binding=require");
    let Some(output) = run(&server, "psql", Some("secret"), &["-X", "-A", "-t", "-c", "select 1", &target]) else {
        return;
    };
    assert_eq!(text(&output.stdout), "1", "{}", text(&output.stderr));
    let how = "select ssl, version ~ '^TLSv1.[23]$', cipher ~ '^[-_A-Z0-9]+$', bits >= 128 from pg_stat_ssl where pid = pg_backend_pid()";
    let Some(output) = run(&server, "psql", Some("secret"), &["-X", "-A", "-t", "-c", how, &target]) else { return };
    assert_eq!(text(&output.stdout), "t|t|t|t", "{}", text(&output.stderr));
}

#[test]
fn pgbench_runs_in_every_mode() {
    let server = TestServer::start();
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("one.sql");
    std::fs::write(&script, "select 1;\n").unwrap();
    let script = script.to_str().unwrap();
    for mode in ["simple", "extended", "prepared"] {
        let args = ["-n", "-f", script, "-c", "4", "-t", "50", "-M", mode, "postgres"];
        let Some(output) = run(&server, "pgbench", None, &args) else { return };
        assert!(output.status.success(), "{mode}: {}", text(&output.stderr));
        assert!(text(&output.stdout).contains("200/200"), "{mode}: {}", text(&output.stdout));
    }
}
