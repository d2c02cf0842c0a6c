//! The server as a process of its own, that can be killed and started again.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use super::Client;

/// What a server says that does not start with these arguments of `serve`.
pub fn refusal(args: &[&std::ffi::OsStr]) -> String {
    let mut child = Command::new(env!("CARGO_BIN_EXE_resurgam"))
        .args(["serve", "--listen", "127.0.0.1:0", "--buffer-bytes", "64MB"])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start");
    let begun = std::time::Instant::now();
    while child.try_wait().expect("wait").is_none() {
        if begun.elapsed() > Duration::from_secs(20) {
            child.kill().expect("kill");
            panic!("it started: {args:?}");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = child.wait_with_output().expect("output");
    assert!(!output.status.success(), "it started and stopped: {args:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A running process; dropping it kills it.
pub struct Process {
    child: Child,
    pub address: SocketAddr,
    /// Of the HTTP endpoint.
    pub http: SocketAddr,
}

impl Process {
    /// Starts it on a data folder and waits until it listens.
    pub fn start(data: &Path, flags: &[&str]) -> Self {
        Self::start_with(data, flags, &[])
    }

    /// As `start`, with variables of the environment.
    pub fn start_with(data: &Path, flags: &[&str], variables: &[(&str, &str)]) -> Self {
        let pool: &[&str] = if flags.contains(&"--buffer-bytes") { &[] } else { &["--buffer-bytes", "64MB"] };
        let mut child = Command::new(env!("CARGO_BIN_EXE_resurgam"))
            .args(["serve", "--listen", "127.0.0.1:0", "--metrics-listen", "127.0.0.1:0"])
            .args(pool)
            .arg("--data")
            .arg(data)
            .args(flags)
            .envs(variables.iter().copied())
            .stdout(Stdio::piped())
            .spawn()
            .expect("start");
        let (mut address, mut http) = (None, None);
        let mut lines = BufReader::new(child.stdout.take().expect("stdout")).lines();
        while address.is_none() {
            let line = lines.next().expect("the server ended").expect("a line");
            if let Some(rest) = line.strip_prefix("Metrics on http://") {
                http = rest.split('/').next().and_then(|text| text.parse().ok());
            } else if let Some(rest) = line.strip_prefix("Listening on ") {
                address = rest.split(". ").next().and_then(|text| text.parse().ok());
            }
        }
        // Whoever prints more must not be stopped by a full pipe.
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address: address.expect("address"), http: http.expect("http") }
    }

    /// The process's number.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// A connection of which nothing is said yet.
    pub fn raw(&self) -> Client {
        let stream = TcpStream::connect(self.address).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("timeout");
        Client { stream, process_id: 0, secret: 0, parameters: Vec::new() }
    }

    pub fn client(&self) -> Client {
        let mut client = self.raw();
        client.startup(&[("user", "postgres"), ("database", "postgres")]);
        let (_, messages) = client.until_ready();
        assert!(!messages.iter().any(|message| message.tag == b'E'), "{messages:?}");
        client
    }

    /// As by SIGTERM, to its end.
    pub fn stop(mut self) {
        let id = i32::try_from(self.id()).expect("a process's number");
        // SAFETY: it takes numbers, of a child that was not waited for.
        assert_eq!(unsafe { libc::kill(id, libc::SIGTERM) }, 0);
        let status = self.child.wait().expect("wait");
        assert!(status.success(), "{status}");
    }

    /// As by `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
