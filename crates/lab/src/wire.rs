//! A client of the PostgreSQL protocol (version 3.0, trust authentication, text results)
//! that is just enough to set things up and to time them without a process per query.

use std::fmt::Display;
use std::io::{BufReader, BufWriter, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::Result;

/// Longer messages from a server are refused.
const MESSAGE_MAX: usize = 64 << 20;

/// The columns of a row as text, null as none.
pub type Row = Vec<Option<String>>;

/// What a statement answered.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Answer {
    pub rows: Vec<Row>,
    /// Rows that it inserted, updated, deleted or answered; of several statements, together.
    pub count: u64,
}

/// Whether a transaction met another one and may be tried again: a deadlock or a
/// serialization failure.
pub fn is_conflict(message: &str) -> bool {
    ["ERROR 40P01", "ERROR 40001"].iter().any(|code| message.starts_with(code))
}

/// A session.
pub struct Client {
    input: BufReader<TcpStream>,
    output: BufWriter<TcpStream>,
}

impl Client {
    /// Connects as user and database `postgres`.
    ///
    /// # Errors
    /// In words: nobody listens, or the server refuses (it is starting up, for instance).
    pub fn connect(port: u16) -> Result<Self> {
        Self::connect_within(port, None)
    }

    /// As [`Client::connect`]; an answer that takes longer than `patience` is an error from then on.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_within(port: u16, patience: Option<Duration>) -> Result<Self> {
        Self::connect_as("postgres", "postgres", port, patience, |_, _| ())
    }

    /// As [`Client::connect_within`], with what the server says before the session is ready
    /// (its settings, the session's key), message by message.
    ///
    /// # Errors
    /// As [`Client::connect`].
    pub fn connect_as(
        user: &str,
        database: &str,
        port: u16,
        patience: Option<Duration>,
        hear: impl FnMut(u8, &[u8]),
    ) -> Result<Self> {
        let stream = connection(port)?;
        stream.set_read_timeout(patience).map_err(|e| e.to_string())?;
        let input = BufReader::new(stream.try_clone().map_err(|e| e.to_string())?);
        let mut client = Self { input, output: BufWriter::with_capacity(1 << 20, stream) };
        let mut body = b"\0\x03\0\0".to_vec();
        for text in ["user", user, "database", database, ""] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        let len = body.len() as u32 + 4;
        client.write(&len.to_be_bytes())?;
        client.write(&body)?;
        client.flush()?;
        client.until_ready_hearing(hear)?;
        Ok(client)
    }

    /// An answer that takes longer than this is an error from now on.
    ///
    /// # Errors
    /// The system's.
    pub fn set_patience(&mut self, patience: Option<Duration>) -> Result<()> {
        self.input.get_ref().set_read_timeout(patience).map_err(|e| e.to_string())
    }

    /// Runs statements by the simple protocol; answers the first column of the last row.
    ///
    /// # Errors
    /// The server's message, or the connection's.
    pub fn query(&mut self, sql: &str) -> Result<Option<String>> {
        self.send_query(sql)?;
        self.until_ready()
    }

    /// Runs statements by the simple protocol; answers all rows, with null as no text.
    ///
    /// # Errors
    /// As [`Client::query`].
    pub fn rows(&mut self, sql: &str) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        self.send_query(sql)?;
        self.until_ready_with(|row| rows.push(columns(row).unwrap_or_default()))?;
        Ok(rows)
    }

    /// Runs `COPY … FROM STDIN`; `data` writes the rows.
    ///
    /// # Errors
    /// As [`Client::query`].
    pub fn copy_in(&mut self, sql: &str, mut data: impl FnMut(&mut Vec<u8>) -> bool) -> Result<()> {
        self.send_query(sql)?;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'G' => break,
                b'E' => return Err(error_text(&body)),
                _ => {}
            }
        }
        let mut chunk = Vec::new();
        let mut more = true;
        while more {
            chunk.clear();
            more = data(&mut chunk);
            self.put(b'd', &chunk)?;
        }
        self.put(b'c', &[])?;
        self.flush()?;
        self.until_ready().map(drop)
    }

    /// Prepares a statement under `name`; its parameters get the types that the server infers.
    ///
    /// # Errors
    /// As [`Client::query`].
    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<()> {
        let mut body = Vec::new();
        for text in [name, sql] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        body.extend_from_slice(&0u16.to_be_bytes());
        self.put(b'P', &body)?;
        self.put(b'S', &[])?;
        self.flush()?;
        self.until_ready().map(drop)
    }

    /// Runs a prepared statement of one parameter once for each value. The whole batch is
    /// sent before the answers are read, so a round trip is paid once; keep it below a
    /// thousand, since both sides' answers have to fit into the connection's buffers.
    ///
    /// # Errors
    /// As [`Client::query`]; what follows the failure in the batch is not run.
    pub fn execute_batch(&mut self, name: &str, values: std::ops::Range<u64>) -> Result<()> {
        let mut body = Vec::new();
        for value in values {
            let text = value.to_string();
            bind(&mut body, name, &[&text]);
            self.put(b'B', &body)?;
            self.put(b'E', &[0; 5])?;
        }
        self.put(b'S', &[])?;
        self.flush()?;
        self.until_ready().map(drop)
    }

    /// Runs a prepared statement once for each set of parameters, all sent before the answers
    /// are read, as in [`Client::execute_batch`]. Outside of a transaction block they are one
    /// transaction.
    ///
    /// # Errors
    /// As [`Client::query`]; what follows the failure is not run.
    pub fn execute(&mut self, name: &str, sets: &[&[&dyn Display]]) -> Result<Answer> {
        let mut body = Vec::new();
        for set in sets {
            bind(&mut body, name, set);
            self.put(b'B', &body)?;
            self.put(b'E', &[0; 5])?;
        }
        self.put(b'S', &[])?;
        self.flush()?;
        let mut answer = Answer::default();
        self.until_ready_hearing(|kind, body| match kind {
            b'D' => answer.rows.push(columns(body).unwrap_or_default()),
            b'C' => answer.count += count_of(body),
            _ => {}
        })?;
        Ok(answer)
    }

    fn send_query(&mut self, sql: &str) -> Result<()> {
        let mut body = sql.as_bytes().to_vec();
        body.push(0);
        self.put(b'Q', &body)?;
        self.flush()
    }

    /// Adds a message to what is to be sent.
    pub(crate) fn put(&mut self, kind: u8, body: &[u8]) -> Result<()> {
        let len = u32::try_from(body.len() + 4).map_err(|_| "a message that is too long".to_owned())?;
        self.write(&[kind])?;
        self.write(&len.to_be_bytes())?;
        self.write(body)
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.output.write_all(bytes).map_err(|e| e.to_string())
    }

    /// Sends what was put.
    pub(crate) fn flush(&mut self) -> Result<()> {
        self.output.flush().map_err(|e| e.to_string())
    }

    /// The next message: kind and body.
    pub(crate) fn message(&mut self) -> Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.input.read_exact(&mut head).map_err(|e| e.to_string())?;
        let [kind, a, b, c, d] = head;
        let len = (u32::from_be_bytes([a, b, c, d]) as usize).checked_sub(4).filter(|len| *len <= MESSAGE_MAX);
        let mut body = vec![0; len.ok_or("a message of impossible length")?];
        self.input.read_exact(&mut body).map_err(|e| e.to_string())?;
        Ok((kind, body))
    }

    /// Reads up to "ready for query"; answers the first column of the last row.
    fn until_ready(&mut self) -> Result<Option<String>> {
        let mut value = None;
        self.until_ready_with(|row| value = columns(row).and_then(|row| row.into_iter().next().flatten()))?;
        Ok(value)
    }

    /// Reads up to "ready for query" and hands over each row as it came.
    fn until_ready_with(&mut self, mut row: impl FnMut(&[u8])) -> Result<()> {
        self.until_ready_hearing(|kind, body| {
            if kind == b'D' {
                row(body);
            }
        })
    }

    /// Reads up to "ready for query" and hands over each message on the way: kind and body.
    fn until_ready_hearing(&mut self, mut hear: impl FnMut(u8, &[u8])) -> Result<()> {
        let mut failed = None;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'R' if body != [0; 4] => return Err("the server asks for a password".into()),
                // An error before the session is ready ends the connection.
                b'E' => failed = Some(error_text(&body)),
                b'Z' => return failed.map_or(Ok(()), Err),
                _ => hear(kind, &body),
            }
            if let Some(message) = &failed
                && message.starts_with("FATAL")
            {
                return Err(message.clone());
            }
        }
    }
}

/// A connection to the server on this machine.
fn connection(port: u16) -> Result<TcpStream> {
    let address = SocketAddr::from(([127, 0, 0, 1], port));
    let stream = TcpStream::connect_timeout(&address, Duration::from_secs(5)).map_err(|e| e.to_string())?;
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    Ok(stream)
}

/// Asks for the end of what a session runs, by its process and secret.
///
/// # Errors
/// In words, if there is no connection.
pub fn cancel(port: u16, process: u32, secret: u32) -> Result<()> {
    let mut stream = connection(port)?;
    // The length, then the code of a request to cancel.
    let request = [16, 80_877_102, process, secret].map(u32::to_be_bytes).concat();
    stream.write_all(&request).map_err(|e| e.to_string())
}

/// The body of a message that binds parameters, given and answered as text, to a prepared
/// statement, in the nameless portal.
fn bind(body: &mut Vec<u8>, name: &str, parameters: &[&dyn Display]) {
    body.clear();
    body.push(0);
    body.extend_from_slice(name.as_bytes());
    // The end of the name, and: all parameters as text.
    body.extend_from_slice(&[0, 0, 0]);
    body.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
    for parameter in parameters {
        let at = body.len();
        body.extend_from_slice(&[0; 4]);
        // Writing to a vector cannot fail.
        let _ = write!(body, "{parameter}");
        let len = (body.len() - at - 4) as u32;
        body[at..at + 4].copy_from_slice(&len.to_be_bytes());
    }
    body.extend_from_slice(&[0, 0]);
}

/// The number of rows in a completed statement's tag, which ends with it: `UPDATE 3`.
fn count_of(tag: &[u8]) -> u64 {
    let tag = String::from_utf8_lossy(tag);
    tag.trim_end_matches('\0').rsplit(' ').next().and_then(|word| word.parse().ok()).unwrap_or(0)
}

/// The columns of a row, null as no text; nothing if the message is cut short.
fn columns(row: &[u8]) -> Option<Row> {
    let (count, mut rest) = row.split_first_chunk()?;
    let mut columns = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (len, after) = rest.split_first_chunk()?;
        rest = after;
        // A negative length is null.
        let Ok(len) = usize::try_from(i32::from_be_bytes(*len)) else {
            columns.push(None);
            continue;
        };
        let (text, after) = rest.split_at_checked(len)?;
        columns.push(Some(String::from_utf8_lossy(text).into_owned()));
        rest = after;
    }
    Some(columns)
}

/// Severity, SQLSTATE and message of an error response: `ERROR 42P01: no such table`.
fn error_text(body: &[u8]) -> String {
    let fields = body.split(|b| *b == 0).filter_map(|field| field.split_first());
    let mut text = [String::new(), String::new(), String::new()];
    for (kind, value) in fields {
        let at = match kind {
            b'S' => 0,
            b'C' => 1,
            b'M' => 2,
            _ => continue,
        };
        text[at] = String::from_utf8_lossy(value).into_owned();
    }
    format!("{} {}: {}", text[0], text[1], text[2])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        assert_eq!(error_text(b"SERROR\0C42P01\0Mno such table\0\0"), "ERROR 42P01: no such table");
        assert_eq!(columns(&[0, 1, 0, 0, 0, 2, b'4', b'2']), Some(vec![Some("42".into())]));
        let two = [0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, b'x'];
        assert_eq!(columns(&two), Some(vec![None, Some("x".into())]));
        assert_eq!(columns(&[0, 1, 0, 0, 0, 2, b'4']), None);
        assert_eq!(columns(&[0]), None);
        assert_eq!([&b"UPDATE 3\0"[..], b"INSERT 0 12\0", b"BEGIN\0"].map(count_of), [3, 12, 0]);
    }

    #[test]
    fn parameters_are_bound_as_text() {
        let mut body = b"left over".to_vec();
        bind(&mut body, "s", &[&17, &"ab"]);
        assert_eq!(body, b"\0s\0\0\0\0\x02\0\0\0\x0217\0\0\0\x02ab\0\0");
    }
}
