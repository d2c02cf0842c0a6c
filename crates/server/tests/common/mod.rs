//! A server in this process on a free port, and a client that can send any bytes.

#![allow(dead_code)]

pub mod certificate;
pub mod exposition;
pub mod http;
pub mod memory;
pub mod process;
pub mod stops;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use resurgam_cluster::PageServerNode;
use resurgam_server::http::Endpoint;
use resurgam_server::roles::page_server;
use resurgam_server::serve;
use resurgam_server::server::{Server, Stopper, stopper};
use resurgam_server::settings::{Bytes, ServerRole, Settings};

/// A running server; dropping it stops it and removes its folder.
pub struct TestServer {
    pub address: SocketAddr,
    /// Of the HTTP endpoint, if the settings ask for one; it outlives the server.
    pub endpoint: Option<Arc<Endpoint>>,
    stop: Stopper,
    thread: Option<std::thread::JoinHandle<()>>,
    _page_server: Option<PageServerNode>,
    _dir: tempfile::TempDir,
}

impl TestServer {
    pub fn start() -> Self {
        Self::with(|_| {})
    }

    pub fn with(change: impl FnOnce(&mut Settings)) -> Self {
        let dir = tempfile::tempdir().expect("temp folder");
        let mut settings = Settings::defaults().expect("defaults");
        settings.accelerated_database_recovery = std::env::var("RESURGAM_MODE").as_deref() != Ok("traditional");
        settings.data = dir.path().join("data");
        settings.listen = "127.0.0.1:0".into();
        settings.buffer_bytes = Bytes(64 << 20);
        settings.shutdown_timeout = Duration::from_secs(1);
        change(&mut settings);
        let page_server = page_server_of(&mut settings, dir.path());
        let (stop, stopped) = stopper();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = serve::runtime(&settings).expect("runtime");
            runtime.block_on(async move {
                let server = Server::bind(settings.clone()).await.expect("bind");
                let (database, sql) = serve::sql_database(&settings).expect("open");
                tell.send((server.address().expect("address"), server.endpoint())).expect("tell");
                server.run(sql, stopped).await;
                database.close().expect("close");
            });
        });
        let (address, endpoint) = told.recv_timeout(Duration::from_secs(60)).expect("server did not start");
        Self { address, endpoint, stop, thread: Some(thread), _page_server: page_server, _dir: dir }
    }

    pub fn raw(&self) -> Client {
        Client::connect(self.address)
    }

    pub fn client(&self) -> Client {
        Client::login(self.address)
    }

    pub fn stop(&self) {
        self.stop.stop();
    }
}

/// An address that nobody listens at, given out once by this process. Below the ports that the system gives to whoever connects: one of
/// those could take it in between.
fn free_address() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let at = std::process::id().wrapping_mul(97).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed));
        let port = 20_000 + (at % 12_000) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return format!("127.0.0.1:{port}");
        }
    }
}

/// With `RESURGAM_TIERS=1` the server has little memory and its pages are with a page server of this process, so that whatever a test shows is
/// shown of both. Not for one that says itself where pages are, and not in the traditional mode, which has no page servers.
fn page_server_of(settings: &mut Settings, dir: &Path) -> Option<PageServerNode> {
    let is_wanted = std::env::var_os("RESURGAM_TIERS").is_some() && settings.accelerated_database_recovery;
    if !is_wanted || !settings.page_servers.is_empty() || settings.data.exists() {
        return None;
    }
    settings.page_servers = free_address();
    settings.log_listen = free_address();
    if settings.archive.is_empty() {
        settings.archive = dir.join("archive").display().to_string();
    }
    settings.buffer_bytes = Bytes(settings.buffer_bytes.0.min(8 << 20));
    let mut own = Settings::defaults().expect("defaults");
    own.role = ServerRole::PageServer;
    own.data = dir.join("page-server");
    own.listen.clone_from(&settings.page_servers);
    own.primary.clone_from(&settings.log_listen);
    own.archive.clone_from(&settings.archive);
    own.backups.clone_from(&settings.backups);
    own.buffer_bytes = Bytes(16 << 20);
    Some(page_server::start(&own, None).expect("a page server"))
}

impl Drop for TestServer {
    fn drop(&mut self) {
        self.stop.stop();
        if let Some(thread) = self.thread.take() {
            let outcome = thread.join();
            if !std::thread::panicking() {
                outcome.expect("the server panicked");
            }
        }
    }
}

/// One message of the server.
#[derive(Clone)]
pub struct Message {
    pub tag: u8,
    pub body: Vec<u8>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{:?}", self.tag as char, String::from_utf8_lossy(&self.body))
    }
}

impl Message {
    /// A field of an ErrorResponse or NoticeResponse.
    pub fn field(&self, code: u8) -> Option<String> {
        let fields = self.body.split(|&byte| byte == 0).filter(|field| !field.is_empty());
        fields.filter(|field| field[0] == code).map(|field| String::from_utf8_lossy(&field[1..]).into_owned()).next()
    }
    pub fn sqlstate(&self) -> String {
        self.field(b'C').unwrap_or_default()
    }
    /// CommandComplete's text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).trim_end_matches('\0').to_owned()
    }
    /// The first column of a DataRow.
    pub fn first(&self) -> Option<String> {
        let length = i32::from_be_bytes(self.body[2..6].try_into().ok()?);
        let length = usize::try_from(length).ok()?;
        Some(String::from_utf8_lossy(&self.body[6..6 + length]).into_owned())
    }
}

pub struct Client {
    pub stream: TcpStream,
    pub process_id: i32,
    pub secret: i32,
    pub parameters: Vec<(String, String)>,
}

/// A message with its tag and length.
pub fn message(tag: u8, body: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    out.extend((body.len() as u32 + 4).to_be_bytes());
    out.extend(body);
    out
}

pub fn query(text: &str) -> Vec<u8> {
    message(b'Q', format!("{text}\0").as_bytes())
}

pub fn parse(name: &str, text: &str) -> Vec<u8> {
    message(b'P', format!("{name}\0{text}\0\0\0").as_bytes())
}

/// Text parameters, text results.
pub fn bind(portal: &str, statement: &str, params: &[Option<&str>]) -> Vec<u8> {
    let mut body = format!("{portal}\0{statement}\0").into_bytes();
    body.extend(0u16.to_be_bytes());
    body.extend((params.len() as u16).to_be_bytes());
    for param in params {
        match param {
            None => body.extend((-1i32).to_be_bytes()),
            Some(text) => {
                body.extend((text.len() as u32).to_be_bytes());
                body.extend(text.as_bytes());
            }
        }
    }
    body.extend(0u16.to_be_bytes());
    message(b'B', &body)
}

pub fn describe(kind: u8, name: &str) -> Vec<u8> {
    message(b'D', format!("{}{name}\0", kind as char).as_bytes())
}

pub fn execute(portal: &str, rows_max: i32) -> Vec<u8> {
    let mut body = format!("{portal}\0").into_bytes();
    body.extend(rows_max.to_be_bytes());
    message(b'E', &body)
}

pub fn sync() -> Vec<u8> {
    message(b'S', b"")
}

impl Client {
    /// Connected, and nothing said yet.
    pub fn connect(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("timeout");
        stream.set_nodelay(true).expect("nodelay");
        Self { stream, process_id: 0, secret: 0, parameters: Vec::new() }
    }

    /// A session of the first role in the first database.
    pub fn login(address: SocketAddr) -> Self {
        let mut client = Self::connect(address);
        client.startup(&[("user", "postgres"), ("database", "postgres")]);
        let (_, messages) = client.until_ready();
        assert!(!messages.iter().any(|message| message.tag == b'E'), "{messages:?}");
        client
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("send");
    }

    pub fn startup(&mut self, parameters: &[(&str, &str)]) {
        let mut body = 196_608u32.to_be_bytes().to_vec();
        for (name, value) in parameters {
            body.extend(format!("{name}\0{value}\0").as_bytes());
        }
        body.push(0);
        let mut packet = (body.len() as u32 + 4).to_be_bytes().to_vec();
        packet.extend(body);
        self.send(&packet);
    }

    /// `None` at the end of the connection.
    pub fn next(&mut self) -> Option<Message> {
        let mut head = [0; 5];
        match self.stream.read_exact(&mut head) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => panic!("the server does not answer"),
            Err(_) => return None,
        }
        let length = u32::from_be_bytes(head[1..5].try_into().expect("4")) as usize;
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body).expect("body");
        let message = Message { tag: head[0], body };
        match message.tag {
            b'K' => {
                self.process_id = i32::from_be_bytes(message.body[0..4].try_into().expect("4"));
                self.secret = i32::from_be_bytes(message.body[4..8].try_into().expect("4"));
            }
            b'S' => {
                let mut parts =
                    message.body.split(|&byte| byte == 0).map(|part| String::from_utf8_lossy(part).into_owned());
                self.parameters.push((parts.next().unwrap_or_default(), parts.next().unwrap_or_default()));
            }
            _ => {}
        }
        Some(message)
    }

    /// Everything up to ReadyForQuery, and its status byte (0: the connection ended).
    pub fn until_ready(&mut self) -> (u8, Vec<Message>) {
        let mut messages = Vec::new();
        while let Some(message) = self.next() {
            if message.tag == b'Z' {
                return (message.body[0], messages);
            }
            messages.push(message);
        }
        (0, messages)
    }

    pub fn query(&mut self, text: &str) -> (u8, Vec<Message>) {
        self.send(&query(text));
        self.until_ready()
    }

    /// The first column of every row.
    pub fn rows(&mut self, text: &str) -> Vec<String> {
        let (_, messages) = self.query(text);
        assert!(!messages.iter().any(|message| message.tag == b'E'), "{messages:?}");
        messages.iter().filter(|message| message.tag == b'D').filter_map(Message::first).collect()
    }

    pub fn parameter(&self, name: &str) -> Option<&str> {
        self.parameters.iter().rev().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// Whether the server closed the connection.
    pub fn is_closed(&mut self) -> bool {
        let mut byte = [0; 1];
        matches!(self.stream.read(&mut byte), Ok(0) | Err(_))
    }
}

/// The tags of messages as text.
pub fn tags(messages: &[Message]) -> String {
    messages.iter().map(|message| message.tag as char).collect()
}

/// The one error among messages.
pub fn error(messages: &[Message]) -> &Message {
    messages.iter().find(|message| message.tag == b'E').unwrap_or_else(|| panic!("no error in {messages:?}"))
}
