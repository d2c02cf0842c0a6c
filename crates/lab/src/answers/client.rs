//! A client of the PostgreSQL protocol that hides nothing: every result of a string of
//! statements, columns with the oids and modifiers of their types, rows as they came, tags,
//! errors with their SQLSTATE, notices, the state of the transaction. Built on the messages
//! of [`crate::wire`].
//!
//! Two kinds of failure are kept apart. What the server answers, errors included, is the
//! `Ok` side: it is what is compared. `Err` is the connection's end: it was closed, a message
//! made no sense, or the server was silent for longer than its patience. After an `Err` the
//! client is of no use any more.

use std::time::Duration;

use crate::Result;
use crate::wire;

/// Rows of one result beyond this number are counted and not kept, unless told otherwise.
const ROWS_MAX: usize = 1_000_000;

/// A column of a result, as RowDescription has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    pub name: String,
    /// The type, `pg_type.oid`.
    pub oid: u32,
    /// Length of the type in bytes, negative if it varies.
    pub size: i16,
    /// The modifier, -1 without.
    pub typmod: i32,
    /// Whether values come in binary (known from Describe of a portal only).
    pub binary: bool,
}

/// A value as it came: text or binary by its column's format, null as none.
pub type Value = Option<Vec<u8>>;

/// An error or a notice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Complaint {
    /// ERROR, FATAL, PANIC, WARNING, NOTICE, …
    pub severity: String,
    /// The SQLSTATE.
    pub code: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Where in the text, in characters from 1.
    pub position: Option<u32>,
}

impl std::fmt::Display for Complaint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} {}: {}", self.severity, self.code, self.message)
    }
}

/// What one statement answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Its columns, none if it answers no rows.
    pub columns: Option<Vec<Column>>,
    pub rows: Vec<Vec<Value>>,
    /// Rows that came beyond [`Client::set_rows_max`].
    pub rows_dropped: u64,
    /// The bytes of COPY … TO STDOUT.
    pub copied: Vec<u8>,
    /// The tag of its completion: `INSERT 0 1`; empty for an empty statement, and none when
    /// it failed or was suspended at a limit of rows.
    pub tag: Option<String>,
    pub error: Option<Complaint>,
}

impl Outcome {
    /// A row's values as text; bytes that are no UTF-8 are replaced.
    pub fn texts(row: &[Value]) -> Vec<Option<String>> {
        row.iter().map(|v| v.as_ref().map(|bytes| String::from_utf8_lossy(bytes).into_owned())).collect()
    }
}

/// What the server said up to "ready for query".
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// One for each statement that was run; an error ends the list.
    pub outcomes: Vec<Outcome>,
    pub notices: Vec<Complaint>,
    /// `I` idle, `T` in a transaction block, `E` in a failed one.
    pub status: u8,
}

impl Reply {
    /// The error that ended it, if there was one.
    pub fn error(&self) -> Option<&Complaint> {
        self.outcomes.last().and_then(|outcome| outcome.error.as_ref())
    }
}

/// What Describe says of a prepared statement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    /// Types of the parameters.
    pub parameters: Vec<u32>,
    /// Columns of the result, none if it has none.
    pub columns: Option<Vec<Column>>,
}

/// A parameter to bind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    pub value: Value,
    pub binary: bool,
}

impl Parameter {
    /// One in text format, null as none.
    pub fn text(value: Option<&str>) -> Self {
        Self { value: value.map(|text| text.as_bytes().to_vec()), binary: false }
    }
}

/// Where and how to connect.
#[derive(Clone, Debug)]
pub struct Target {
    pub port: u16,
    pub user: String,
    pub database: String,
    /// How long the server may be silent; without it, for ever.
    pub patience: Option<Duration>,
}

impl Target {
    /// User and database `postgres`, with half a minute of patience.
    pub fn new(port: u16) -> Self {
        let name = "postgres".to_owned();
        Self { port, user: name.clone(), database: name, patience: Some(Duration::from_secs(30)) }
    }
}

/// A session.
pub struct Client {
    wire: wire::Client,
    rows_max: usize,
    /// Process and secret of the session, to cancel it with.
    key: Option<(u32, u32)>,
    port: u16,
}

impl Client {
    /// Connects to 127.0.0.1, without encryption and without a password.
    ///
    /// # Errors
    /// In words: nobody listens, or the server refuses.
    pub fn connect(target: &Target) -> Result<Self> {
        let mut key = None;
        let wire =
            wire::Client::connect_as(&target.user, &target.database, target.port, target.patience, |kind, body| {
                let mut reader = Reader(body);
                if kind == b'K'
                    && let (Some(process), Some(secret)) = (reader.u32(), reader.u32())
                {
                    key = Some((process, secret));
                }
            })?;
        Ok(Self { wire, rows_max: ROWS_MAX, key, port: target.port })
    }

    /// Rows of a result beyond this number are counted, not kept.
    pub fn set_rows_max(&mut self, rows_max: usize) {
        self.rows_max = rows_max;
    }

    /// How long the server may be silent from now on.
    pub fn set_patience(&mut self, patience: Option<Duration>) -> Result<()> {
        self.wire.set_patience(patience)
    }

    /// Process and secret with which [`cancel`] ends what the session runs.
    pub fn key(&self) -> Option<(u32, u32)> {
        self.key
    }

    /// The server's port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Runs a string of statements by the simple protocol. `COPY … FROM STDIN` gets no rows.
    ///
    /// # Errors
    /// The connection's end only.
    pub fn query(&mut self, sql: &str) -> Result<Reply> {
        self.query_with_copy(sql, &mut |_| Some(Vec::new()))
    }

    /// The same; `copy` is called for each `COPY … FROM STDIN` with its number, from 0, and
    /// answers all of its data, or none to fail it.
    ///
    /// # Errors
    /// The connection's end only.
    pub fn query_with_copy(&mut self, sql: &str, copy: &mut dyn FnMut(usize) -> Option<Vec<u8>>) -> Result<Reply> {
        self.wire.put(b'Q', &cstring(sql)?)?;
        self.wire.flush()?;
        self.reply(copy)
    }

    /// Parses and describes a statement under a name (empty: the nameless one) with the types
    /// that the client declares for its parameters, 0 for those that the server is to infer.
    ///
    /// # Errors
    /// The outer one: the connection's end. The inner one: the server's.
    pub fn prepare(
        &mut self,
        name: &str,
        sql: &str,
        oids: &[u32],
    ) -> Result<std::result::Result<Described, Complaint>> {
        let mut body = cstring(name)?;
        body.extend(cstring(sql)?);
        body.extend(count(oids.len())?);
        body.extend(oids.iter().flat_map(|oid| oid.to_be_bytes()));
        self.wire.put(b'P', &body)?;
        body.clear();
        body.push(b'S');
        body.extend(cstring(name)?);
        self.wire.put(b'D', &body)?;
        self.wire.put(b'S', &[])?;
        self.wire.flush()?;
        let (mut described, mut failed) = (Described::default(), None);
        loop {
            let (kind, body) = self.wire.message()?;
            match kind {
                b't' => described.parameters = parameter_types(&body).ok_or_else(cut)?,
                b'T' => described.columns = Some(row_description(&body).ok_or_else(cut)?),
                b'E' => failed = Some(complaint(&body)?),
                b'Z' => return Ok(failed.map_or(Ok(described), Err)),
                _ => {}
            }
        }
    }

    /// Binds, describes and executes a prepared statement, then Sync. `binary_results`: no
    /// entry for text, one for all columns, or one for each. At most `limit` rows, 0 for all.
    /// The outcome is one; a failure of Bind is its error.
    ///
    /// # Errors
    /// The connection's end only.
    pub fn execute(
        &mut self,
        name: &str,
        parameters: &[Parameter],
        binary_results: &[bool],
        limit: u32,
    ) -> Result<Reply> {
        let mut body = vec![0];
        body.extend(cstring(name)?);
        body.extend(count(parameters.len())?);
        body.extend(parameters.iter().flat_map(|p| u16::from(p.binary).to_be_bytes()));
        body.extend(count(parameters.len())?);
        for parameter in parameters {
            match &parameter.value {
                None => body.extend((-1i32).to_be_bytes()),
                Some(bytes) => {
                    let len = i32::try_from(bytes.len()).map_err(|_| "a parameter that is too long".to_owned())?;
                    body.extend(len.to_be_bytes());
                    body.extend(bytes);
                }
            }
        }
        body.extend(count(binary_results.len())?);
        body.extend(binary_results.iter().flat_map(|binary| u16::from(*binary).to_be_bytes()));
        self.wire.put(b'B', &body)?;
        self.wire.put(b'D', b"P\0")?;
        body.clear();
        body.push(0);
        body.extend(limit.to_be_bytes());
        self.wire.put(b'E', &body)?;
        self.wire.put(b'S', &[])?;
        self.wire.flush()?;
        self.reply(&mut |_| Some(Vec::new()))
    }

    /// Closes a prepared statement; one that is not there is none of the server's errors.
    ///
    /// # Errors
    /// The connection's end only.
    pub fn close(&mut self, name: &str) -> Result<()> {
        let mut body = vec![b'S'];
        body.extend(cstring(name)?);
        self.wire.put(b'C', &body)?;
        self.wire.put(b'S', &[])?;
        self.wire.flush()?;
        self.reply(&mut |_| None).map(drop)
    }

    /// Reads up to "ready for query".
    fn reply(&mut self, copy: &mut dyn FnMut(usize) -> Option<Vec<u8>>) -> Result<Reply> {
        let mut reply = Reply::default();
        let mut now = Outcome::default();
        // Whether `now` has anything to tell; an error may come with nothing before it.
        let mut begun = false;
        let mut copies = 0;
        loop {
            let (kind, body) = self.wire.message()?;
            match kind {
                b'T' => (now.columns, begun) = (Some(row_description(&body).ok_or_else(cut)?), true),
                b'D' if now.rows.len() >= self.rows_max => now.rows_dropped += 1,
                b'D' => {
                    now.rows.push(data_row(&body).ok_or_else(cut)?);
                    begun = true;
                }
                b'd' => now.copied.extend(body),
                b'G' => {
                    let data = copy(copies);
                    copies += 1;
                    match data {
                        Some(data) => {
                            // Chunks, for a server that limits a message.
                            for chunk in data.chunks(1 << 16) {
                                self.wire.put(b'd', chunk)?;
                            }
                            self.wire.put(b'c', &[])?;
                        }
                        None => self.wire.put(b'f', b"no data\0")?,
                    }
                    self.wire.flush()?;
                }
                b'C' => {
                    now.tag = Some(String::from_utf8_lossy(&body).trim_end_matches('\0').to_owned());
                    reply.outcomes.push(std::mem::take(&mut now));
                    begun = false;
                }
                b'I' => {
                    now.tag = Some(String::new());
                    reply.outcomes.push(std::mem::take(&mut now));
                    begun = false;
                }
                // The limit of rows was reached.
                b's' => {
                    reply.outcomes.push(std::mem::take(&mut now));
                    begun = false;
                }
                b'E' => {
                    let error = complaint(&body)?;
                    let fatal = error.severity == "FATAL" || error.severity == "PANIC";
                    let text = error.to_string();
                    now.error = Some(error);
                    reply.outcomes.push(std::mem::take(&mut now));
                    begun = false;
                    if fatal {
                        return Err(text);
                    }
                }
                b'N' => reply.notices.push(complaint(&body)?),
                b'Z' => {
                    if begun {
                        reply.outcomes.push(now);
                    }
                    reply.status = body.first().copied().unwrap_or(0);
                    return Ok(reply);
                }
                _ => {}
            }
        }
    }
}

/// Asks the server to end what the session with this key runs; it may be too late for that.
///
/// # Errors
/// In words, if there is no connection.
pub fn cancel(port: u16, (process, secret): (u32, u32)) -> Result<()> {
    wire::cancel(port, process, secret)
}

fn cut() -> String {
    "a message that is cut short".into()
}

/// A text with the zero at its end.
fn cstring(text: &str) -> Result<Vec<u8>> {
    if text.contains('\0') {
        return Err("a zero byte in a text".into());
    }
    let mut bytes = text.as_bytes().to_vec();
    bytes.push(0);
    Ok(bytes)
}

fn count(n: usize) -> Result<[u8; 2]> {
    u16::try_from(n).map(u16::to_be_bytes).map_err(|_| "more than 65535 of something".into())
}

/// Reads the body of a message from its front; none once it is cut short.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(bytes)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    fn cstring(&mut self) -> Option<String> {
        let end = self.0.iter().position(|b| *b == 0)?;
        let text = String::from_utf8_lossy(&self.0[..end]).into_owned();
        self.0 = &self.0[end + 1..];
        Some(text)
    }
}

fn row_description(body: &[u8]) -> Option<Vec<Column>> {
    let mut reader = Reader(body);
    (0..reader.u16()?)
        .map(|_| {
            let name = reader.cstring()?;
            // The table and the column in it.
            reader.bytes(6)?;
            let oid = reader.u32()?;
            let size = reader.u16()?.cast_signed();
            let typmod = reader.i32()?;
            Some(Column { name, oid, size, typmod, binary: reader.u16()? == 1 })
        })
        .collect()
}

fn parameter_types(body: &[u8]) -> Option<Vec<u32>> {
    let mut reader = Reader(body);
    (0..reader.u16()?).map(|_| reader.u32()).collect()
}

fn data_row(body: &[u8]) -> Option<Vec<Value>> {
    let mut reader = Reader(body);
    (0..reader.u16()?)
        .map(|_| match usize::try_from(reader.i32()?) {
            // A negative length is null.
            Err(_) => Some(None),
            Ok(len) => reader.bytes(len).map(|bytes| Some(bytes.to_vec())),
        })
        .collect()
}

fn complaint(body: &[u8]) -> Result<Complaint> {
    let mut reader = Reader(body);
    let mut complaint = Complaint::default();
    loop {
        let [kind] = reader.array().ok_or_else(cut)?;
        if kind == 0 {
            return Ok(complaint);
        }
        let text = reader.cstring().ok_or_else(cut)?;
        match kind {
            b'S' => complaint.severity = text,
            b'C' => complaint.code = text,
            b'M' => complaint.message = text,
            b'D' => complaint.detail = Some(text),
            b'H' => complaint.hint = Some(text),
            b'P' => complaint.position = text.parse().ok(),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_read() {
        let mut body = vec![0, 1];
        body.extend(b"n\0\0\0\0\0\0\0\0\0\0\x17\0\x04\xff\xff\xff\xff\0\x01");
        let column = Column { name: "n".into(), oid: 23, size: 4, typmod: -1, binary: true };
        assert_eq!(row_description(&body), Some(vec![column]));
        body.pop();
        assert_eq!(row_description(&body), None);

        assert_eq!(parameter_types(&[0, 2, 0, 0, 0, 23, 0, 0, 0, 25]), Some(vec![23, 25]));
        let row = [0, 2, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1, b'x'];
        assert_eq!(data_row(&row), Some(vec![None, Some(b"x".to_vec())]));
        assert_eq!(data_row(&row[..10]), None);

        let error = complaint(b"SERROR\0C42P01\0Mno such table\0P15\0Hlook\0\0").unwrap();
        assert_eq!(error.to_string(), "ERROR 42P01: no such table");
        assert_eq!((error.position, error.hint.as_deref(), error.detail), (Some(15), Some("look"), None));
        assert!(complaint(b"SERROR\0C42").is_err());
    }

    #[test]
    fn texts_with_zeros_are_refused() {
        assert!(cstring("a\0b").is_err());
        assert_eq!(cstring("ab").unwrap(), b"ab\0");
    }
}
