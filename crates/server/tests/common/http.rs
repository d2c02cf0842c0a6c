//! An HTTP client that can send any bytes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

/// An answer, taken apart.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        fields.find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }
}

/// Sends bytes and reads until the server closes; `None` when it closes without an answer. One that had to make room for
/// others (there is a bound for each address) tries again.
pub fn exchange(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut tries = 0;
    loop {
        let mut stream = TcpStream::connect(address).expect("connect");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("timeout");
        let mut text = Vec::new();
        match stream.write_all(bytes).and_then(|()| stream.read_to_end(&mut text)) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset && tries < 5 => tries += 1,
            done => {
                done.expect("read");
                return answer(&text);
            }
        }
    }
}

/// Sends bytes and nothing more, ever: the server sees the end of the input.
pub fn exchange_cut(address: SocketAddr, bytes: &[u8]) -> Option<Answer> {
    let mut stream = TcpStream::connect(address).expect("connect");
    stream.set_read_timeout(Some(Duration::from_secs(60))).expect("timeout");
    stream.write_all(bytes).expect("send");
    stream.shutdown(Shutdown::Write).expect("shutdown");
    let mut text = Vec::new();
    stream.read_to_end(&mut text).expect("read");
    answer(&text)
}

fn answer(bytes: &[u8]) -> Option<Answer> {
    if bytes.is_empty() {
        return None;
    }
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let (head, body) = text.split_once("\r\n\r\n").expect("a head");
    let status = head.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect("a status line");
    let answer = Answer { status: status.parse().expect("status"), head: head.to_owned(), body: body.to_owned() };
    assert_eq!(answer.field("connection"), Some("close"));
    let length: usize = answer.field("content-length").expect("a length").parse().expect("length");
    assert!(body.is_empty() || body.len() == length, "{answer:?}");
    Some(answer)
}

pub fn get(address: SocketAddr, path: &str) -> Answer {
    exchange(address, format!("GET {path} HTTP/1.1\r\nHost: test\r\n\r\n").as_bytes()).expect("an answer")
}
