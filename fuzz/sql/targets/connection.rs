//! Messages of any order and content to a whole server, after a login: it ends the connection or answers, and goes on.
//! The input is a list of messages, so that most of them are well-formed: a tag, a length of two bytes, a body.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;

use libfuzzer_sys::fuzz_target;
use resurgam_server::serve;
use resurgam_server::server::{Server, stopper};
use resurgam_server::settings::{Bytes, Settings};

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let (tell, told) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let dir = tempfile::tempdir().expect("folder");
        let mut settings = Settings::defaults().expect("defaults");
        settings.data = dir.path().join("data");
        settings.listen = "127.0.0.1:0".into();
        settings.buffer_bytes = Bytes(32 << 20);
        settings.statement_timeout = Duration::from_millis(500);
        serve::runtime(&settings).expect("runtime").block_on(async move {
            let (_stop, stopped) = stopper();
            let server = Server::bind(settings.clone()).await.expect("bind");
            let (_database, sql) = serve::sql_database(&settings).expect("open");
            tell.send(server.address().expect("address")).expect("tell");
            server.run(sql, stopped).await;
        });
    });
    told.recv_timeout(Duration::from_secs(60)).expect("the server did not start")
});

fn login() -> TcpStream {
    let mut stream = TcpStream::connect(*SERVER).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(15))).expect("timeout");
    let words = b"\0\x03\0\0user\0postgres\0database\0postgres\0\0";
    let mut packet = (words.len() as u32 + 4).to_be_bytes().to_vec();
    packet.extend_from_slice(words);
    stream.write_all(&packet).expect("start");
    stream
}

fuzz_target!(|data: &[u8]| {
    let mut stream = login();
    let mut rest = data;
    let mut bytes = Vec::new();
    while let [tag, high, low, more @ ..] = rest {
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(more.len());
        bytes.push(*tag);
        bytes.extend_from_slice(&(length as u32 + 4).to_be_bytes());
        bytes.extend_from_slice(&more[..length]);
        rest = &more[length..];
    }
    bytes.extend_from_slice(rest);
    // The server may close while this side still sends.
    let _ = stream.write_all(&bytes);
    let _ = stream.shutdown(Shutdown::Write);
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert!(error.kind() != std::io::ErrorKind::WouldBlock, "the server neither answers nor closes");
    }
    assert!(!answer.windows(6).any(|part| part == b"CXX000"), "{}", String::from_utf8_lossy(&answer));
});
