//! The client's side: a connection, and the connections to one server that are kept for further requests.

use std::net::{TcpStream, ToSocketAddrs};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Result};

use crate::deadline::{Stop, Timed, failed};
use crate::frame::{self, ANSWER_BYTES_MAX, FRAME_HEADER_BYTES};
use crate::message::{
    Announced, Answer, DISSEMINATE_SINCE, Hello, Pages, Request, Role, STANDING_SINCE, SentBlock, Standing, VERSION,
    VERSION_OLDEST,
};
use crate::tls::Tls;

/// Longest time for a connection, its keys and its first messages.
const CONNECT: Duration = Duration::from_secs(3);
/// Connections that are kept while nobody uses them.
const KEPT_MAX: usize = 64;

/// Memory of messages that is kept for the next ones: a message with the most pages fits in.
const BUFFER_BYTES_MAX: usize = 2 << 20;

/// Is given the pages of an answer where they came, and says whether it has taken them.
type Take<'a> = &'a mut dyn FnMut(Pages<'_>) -> bool;

/// Who asks, and for which database.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    pub role: Role,
    /// Zeros: whichever it is.
    pub database: [u8; 16],
}

/// A connection on which the versions are agreed upon.
pub struct Connection {
    stream: Timed,
    hello: Hello,
    /// The version of what is answered from here on.
    spoken: u16,
    /// How the server did when it answered last; none: its version does not say so.
    standing: Option<Standing>,
    /// What came last, and what was sent last: their memory is used again.
    message: Vec<u8>,
    request: Vec<u8>,
}

impl Connection {
    /// Connects to `address` (`host:port`), within `time`.
    ///
    /// # Errors
    /// `Io` when it cannot be reached in time; `NotADatabase` when it serves another database; `NewerFormat` when there is no
    /// version that both speak.
    pub fn open(address: &str, me: Peer, time: Duration) -> Result<Self> {
        Self::open_unless(address, me, None, time, None)
    }

    /// As [`Connection::open`], with TLS where there is `tls`.
    ///
    /// # Errors
    /// As [`Connection::open`]; `Io` when either side refuses the other.
    pub fn open_with(address: &str, me: Peer, tls: Option<&Tls>, time: Duration) -> Result<Self> {
        Self::open_unless(address, me, tls, time, None)
    }

    fn open_unless(address: &str, me: Peer, tls: Option<&Tls>, time: Duration, stop: Stop<'_>) -> Result<Self> {
        let until = Instant::now() + time.min(CONNECT);
        let peer = format!("the server at {address}");
        let places = address.to_socket_addrs().map_err(|e| failed(&peer, "find", &e))?;
        let mut last = Error::new(ErrorKind::Io, format!("{peer} has no address"));
        for place in places {
            let left = until.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
            match TcpStream::connect_timeout(&place, left) {
                Ok(stream) => {
                    let mut stream = Timed::new(stream, peer)?;
                    if let Some(tls) = tls {
                        stream.set_time(until.saturating_duration_since(Instant::now()));
                        stream.encrypt_as_client(tls, address, stop)?;
                    }
                    return Self::begin(stream, me, tls, until, stop);
                }
                Err(error) => last = failed(&peer, "connect to", &error),
            }
        }
        Err(last)
    }

    fn begin(stream: Timed, me: Peer, tls: Option<&Tls>, until: Instant, stop: Stop<'_>) -> Result<Self> {
        let nobody =
            Hello { version: 0, role: me.role, database: [0; 16], first: Default::default(), segment_bytes: 0 };
        let mut this =
            Self { stream, hello: nobody, spoken: 0, standing: None, message: Vec::new(), request: Vec::new() };
        let hello = Request::Hello { oldest: VERSION_OLDEST, newest: VERSION, role: me.role, database: me.database };
        let answer = this.call_unless(&hello, until.saturating_duration_since(Instant::now()), stop);
        if let Some(tls) = tls {
            match &answer {
                Ok(_) => tls.agreed(),
                Err(_) if this.stream.is_refused() => tls.refused(),
                Err(_) => {}
            }
        }
        match answer? {
            Answer::Hello(hello) if !(VERSION_OLDEST..=VERSION).contains(&hello.version) => Err(Error::new(
                ErrorKind::NewerFormat,
                format!("{} speaks version {} of the messages; this program does not", this.peer(), hello.version),
            )),
            Answer::Hello(hello) if me.database != [0; 16] && hello.database != me.database => {
                Err(Error::new(ErrorKind::NotADatabase, format!("{} has another database", this.peer())))
            }
            Answer::Hello(hello) => {
                this.hello = hello;
                Ok(this)
            }
            other => Err(this.unexpected(&other)),
        }
    }

    /// What the server has said of itself.
    pub fn hello(&self) -> &Hello {
        &self.hello
    }

    /// Who is there, in words.
    pub fn peer(&self) -> &str {
        self.stream.peer()
    }

    /// How the server did when it answered last; none: it does not say so.
    pub fn standing(&self) -> Option<Standing> {
        self.standing
    }

    /// Asks, and waits for the answer for at most so long. After an error the connection is of no use any more.
    ///
    /// # Errors
    /// `Io`, also for bytes that were damaged on the way: another try may do better. `NotSupported` for what the server's version does
    /// not know. What the server refuses is an [`Answer::Error`].
    pub fn call(&mut self, request: &Request, time: Duration) -> Result<Answer> {
        self.call_unless(request, time, None)
    }

    /// As [`Connection::call`] with [`Request::Disseminate`], of blocks that are sent from where they are: without a copy, and without a look at their
    /// bytes.
    ///
    /// # Errors
    /// As there.
    pub fn disseminate<B: SentBlock>(&mut self, said: &Announced, blocks: &[B], time: Duration) -> Result<Answer> {
        self.is_ready(DISSEMINATE_SINCE, time)?;
        let outcome = (|| {
            let (ends, sum) = said.encode(blocks, &mut self.request);
            let (mut parts, mut from) = (Vec::with_capacity(3 * blocks.len() + 1), FRAME_HEADER_BYTES);
            for (block, to) in blocks.iter().zip(ends) {
                parts.push(&self.request[from..to]);
                parts.extend(block.parts());
                from = to;
            }
            parts.push(&self.request[from..]);
            frame::write_parts(&mut self.stream, &parts, sum)?;
            self.answered(false, None, &mut |_| false)
        })();
        self.ended(outcome).and_then(whole)
    }

    fn call_unless(&mut self, request: &Request, time: Duration, stop: Stop<'_>) -> Result<Answer> {
        self.call_into(request, time, stop, &mut |_| false).and_then(whole)
    }

    /// As [`Connection::call`]; an answer with pages is given to `take` as it came. None: it was taken there.
    fn call_into(
        &mut self,
        request: &Request,
        time: Duration,
        stop: Stop<'_>,
        take: Take<'_>,
    ) -> Result<Option<Answer>> {
        self.is_ready(request.since(), time)?;
        let outcome = self.exchange(request, stop, take);
        self.ended(outcome)
    }

    /// To be asked what is in that version, and to answer within `time`.
    fn is_ready(&mut self, since: u16, time: Duration) -> Result<()> {
        self.speaks(since)?;
        if self.stream.has_expired() {
            return Err(Error::new(ErrorKind::Io, format!("the certificate of {} has expired", self.peer())));
        }
        self.stream.set_time(time);
        Ok(())
    }

    /// What was asked has this outcome.
    fn ended(&mut self, outcome: Result<Option<Answer>>) -> Result<Option<Answer>> {
        for buffer in [&mut self.message, &mut self.request] {
            if buffer.capacity() > BUFFER_BYTES_MAX {
                *buffer = Vec::new();
            }
        }
        outcome.map_err(|error| match error.kind() {
            ErrorKind::Corrupt => {
                let what = format!("{} has sent what it should not: {}", self.peer(), error.message());
                Error::new(ErrorKind::Io, what)
            }
            _ => error,
        })
    }

    /// Refuses what the server's version does not know.
    fn knows(&self, request: &Request) -> Result<()> {
        self.speaks(request.since())
    }

    fn speaks(&self, since: u16) -> Result<()> {
        if since <= self.hello.version {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::NotSupported,
            format!(
                "{} speaks version {} of the messages, in which that cannot be asked",
                self.peer(),
                self.hello.version
            ),
        ))
    }

    fn exchange(&mut self, request: &Request, stop: Stop<'_>, take: Take<'_>) -> Result<Option<Answer>> {
        request.encode(&mut self.request);
        frame::write(&mut self.stream, &mut self.request)?;
        self.answered(matches!(request, Request::Hello { .. }), stop, take)
    }

    /// Reads an answer.
    fn answered(&mut self, is_greeting: bool, stop: Stop<'_>, take: Take<'_>) -> Result<Option<Answer>> {
        if !frame::read(&mut self.stream, ANSWER_BYTES_MAX, &mut self.message, stop)? {
            return Err(Error::new(ErrorKind::Io, format!("{} has ended the connection", self.peer())));
        }
        if is_greeting {
            let answer = Answer::decode(&self.message)?;
            if let Answer::Hello(hello) = &answer {
                self.spoken = hello.version;
            }
            return Ok(Some(answer));
        }
        let mut message = &self.message[..];
        self.standing = None;
        if self.spoken >= STANDING_SINCE {
            let (answer, standing) = Standing::split(message)?;
            (message, self.standing) = (answer, Some(standing));
        }
        if let Some(pages) = Answer::pages_of(message)
            && take(pages)
        {
            return Ok(None);
        }
        Answer::decode(message).map(Some)
    }

    /// An error for an answer to something else.
    #[cold]
    pub fn unexpected(&self, answer: &Answer) -> Error {
        match answer {
            Answer::Error(error) => error.clone(),
            _ => Error::corrupt(format!("{} has answered something else than what it was asked", self.peer())),
        }
    }
}

/// Connections to one server.
pub struct Client {
    address: String,
    me: Peer,
    tls: Option<Arc<Tls>>,
    kept: Mutex<Vec<Connection>>,
    said: Mutex<Option<(Instant, Standing)>>,
}

impl Client {
    /// Nothing is connected yet.
    pub fn new(address: &str, me: Peer) -> Self {
        Self { address: address.to_owned(), me, tls: None, kept: Mutex::default(), said: Mutex::default() }
    }

    /// With TLS, where there is some.
    pub fn with_tls(self, tls: Option<Arc<Tls>>) -> Self {
        Self { tls, ..self }
    }

    pub fn address(&self) -> &str {
        &self.address
    }

    /// How the server did when it answered last, and when that was; none: it has not said so.
    pub fn standing(&self) -> Option<(Instant, Standing)> {
        *self.said.lock()
    }

    /// Ends the connections that are kept.
    #[cfg(test)]
    pub(crate) fn forget(&self) {
        self.kept.lock().clear();
    }

    /// Asks on a connection that nobody else uses, and waits for the answer for at most `time`. A kept connection that turns
    /// out to be dead is replaced by a new one, once: the server may have been started again.
    ///
    /// # Errors
    /// Those of [`Connection::open`] and [`Connection::call`], and what the server refuses.
    pub fn call(&self, request: &Request, time: Duration) -> Result<Answer> {
        self.ask(request, time, None, &mut |_| false).and_then(whole)
    }

    /// As [`Client::call`], until `stop` says so: it is asked twenty times a second while the answer is waited for.
    ///
    /// # Errors
    /// As [`Client::call`]; `Io` when it was stopped.
    pub fn call_unless(&self, request: &Request, time: Duration, stop: &dyn Fn() -> bool) -> Result<Answer> {
        self.ask(request, time, Some(stop), &mut |_| false).and_then(whole)
    }

    /// As [`Client::call_unless`], without a copy of the bytes of pages: they are given to `take`, which says whether it has taken them (none
    /// is returned then).
    ///
    /// # Errors
    /// As [`Client::call_unless`].
    pub fn call_for_pages(
        &self,
        request: &Request,
        time: Duration,
        stop: &dyn Fn() -> bool,
        take: Take<'_>,
    ) -> Result<Option<Answer>> {
        self.ask(request, time, Some(stop), take)
    }

    fn ask(&self, request: &Request, time: Duration, stop: Stop<'_>, take: Take<'_>) -> Result<Option<Answer>> {
        let begun = Instant::now();
        let kept = self.kept.lock().pop();
        if let Some(mut connection) = kept {
            if let Err(error) = connection.knows(request) {
                self.keep(connection);
                return Err(error);
            }
            match connection.call_into(request, time, stop, take) {
                Err(error)
                    if error.kind() == ErrorKind::Io && begun.elapsed() < time && !stop.is_some_and(|stop| stop()) =>
                {
                    // All others that were kept are as old.
                    self.kept.lock().clear();
                }
                outcome => return self.done(connection, outcome?),
            }
        }
        let left = || time.saturating_sub(begun.elapsed());
        let mut connection = Connection::open_unless(&self.address, self.me, self.tls.as_deref(), left(), stop)?;
        if let Err(error) = connection.knows(request) {
            self.keep(connection);
            return Err(error);
        }
        let answer = connection.call_into(request, left(), stop, take)?;
        self.done(connection, answer)
    }

    fn keep(&self, connection: Connection) {
        let mut kept = self.kept.lock();
        if kept.len() < KEPT_MAX {
            kept.push(connection);
        }
    }

    fn done(&self, connection: Connection, answer: Option<Answer>) -> Result<Option<Answer>> {
        // One of an earlier version says nothing, and nothing of before is true of it.
        *self.said.lock() = connection.standing().map(|standing| (Instant::now(), standing));
        self.keep(connection);
        match answer {
            Some(Answer::Error(error)) => Err(error),
            answer => Ok(answer),
        }
    }
}

/// The answer, where nobody takes pages on the way.
fn whole(answer: Option<Answer>) -> Result<Answer> {
    answer.ok_or_else(|| Error::internal("pages that nobody has taken"))
}
