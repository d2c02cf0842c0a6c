//! One client's socket with its input and output buffers.
//!
//! Invariants:
//! 1. Output goes to the socket only in [`Channel::flush`] and
//!    [`Channel::flush_if_large`]: one write for all answers up to a Sync.
//! 2. Input memory is reused once no message part is alive; it grows only with
//!    bytes that arrived.
//! 3. Waiting for input ends when the connection is told to stop.
//! 4. A write that was given up in its middle goes on where it was with the next: what the client gets is whole.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use pgwire::tokio::tokio_rustls::server::TlsStream;
use resurgam_sql::pg::context::Encryption;
use resurgam_sql::{Reserved, SqlDatabase};
use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;

use super::Ending;
use crate::protocol::frame::{self, Frame};
use crate::registry::Control;

/// Output that is sent before the client asked for it.
const OUTPUT_BYTES_LARGE: usize = 64 * 1024;
/// Room for one read while COPY data arrives.
const BULK_READ_BYTES: usize = 64 * 1024;
/// Input memory that is given back after a large message.
const INPUT_BYTES_KEPT: usize = 256 * 1024;
/// Output memory that is given back after a large answer.
const OUTPUT_BYTES_KEPT: usize = 256 * 1024;

/// Messages that are longer are counted against the memory of queries.
const MESSAGE_BYTES_COUNTED: usize = 256 * 1024;

/// A plain or encrypted connection.
pub enum Socket {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
    /// While a TLS handshake runs, and after it failed.
    Gone,
}

fn gone() -> io::Error {
    io::ErrorKind::NotConnected.into()
}

impl AsyncRead for Socket {
    #[inline]
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Gone => Poll::Ready(Err(gone())),
        }
    }
}

impl AsyncWrite for Socket {
    #[inline]
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Gone => Poll::Ready(Err(gone())),
        }
    }
    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
            Self::Gone => Poll::Ready(Err(gone())),
        }
    }
    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Gone => Poll::Ready(Ok(())),
        }
    }
}

/// The socket with its buffers.
pub struct Channel {
    pub socket: Socket,
    pub input: BytesMut,
    pub output: BytesMut,
    pub control: Arc<Control>,
    pub message_bytes_max: usize,
    /// Room for one read when nothing is known about the next message.
    read_bytes: usize,
    /// Of `output`, what the socket has taken already.
    sent: usize,
    /// Counts long messages against the memory of queries; from the login on.
    pub memory: Option<Arc<SqlDatabase>>,
    /// What the message that is being read, or handled, has of it.
    reserved: Option<Reserved>,
    /// The message for which there was no memory: its tag, and what of it is still to be forgotten.
    forgetting: Option<(u8, usize)>,
    /// A message longer than [`INPUT_BYTES_KEPT`] was read since the input was last empty.
    has_grown: bool,
}

impl Channel {
    /// Buffers around a fresh socket.
    pub fn new(socket: Socket, message_bytes_max: usize) -> Self {
        Self {
            socket,
            input: BytesMut::with_capacity(frame::READ_BYTES),
            output: BytesMut::with_capacity(frame::READ_BYTES),
            control: Arc::new(Control::default()),
            message_bytes_max,
            read_bytes: frame::READ_BYTES,
            sent: 0,
            memory: None,
            reserved: None,
            forgetting: None,
            has_grown: false,
        }
    }

    /// Reads in larger (`true`) or ordinary pieces from now on.
    pub fn expect_bulk(&mut self, bulk: bool) {
        self.read_bytes = if bulk { BULK_READ_BYTES } else { frame::READ_BYTES };
    }

    /// The next whole message if it is here already.
    #[inline]
    pub fn buffered(&mut self) -> Result<Option<Frame>, Ending> {
        if self.forgetting.is_some() {
            return Ok(None);
        }
        frame::take(&mut self.input, self.message_bytes_max).map_err(Ending::Protocol)
    }

    /// The next whole message.
    ///
    /// `idle_max` bounds the wait for all of it, so that nobody stays by sending a part, and says what to end with when
    /// it ran out.
    pub async fn next(&mut self, idle_max: Option<(Duration, Ending)>) -> Result<Frame, Ending> {
        self.release();
        match idle_max {
            None => self.whole().await,
            Some((limit, ending)) => match tokio::time::timeout(limit, self.whole()).await {
                Ok(frame) => frame,
                Err(_) => Err(ending),
            },
        }
    }

    async fn whole(&mut self) -> Result<Frame, Ending> {
        loop {
            if let Some(frame) = self.buffered()? {
                return Ok(frame);
            }
            if self.forgetting.is_some() {
                return self.forgotten().await;
            }
            if !self.has_memory()? {
                continue;
            }
            self.read().await?;
        }
    }

    /// What the last message had of the memory of queries is free again.
    #[inline]
    pub fn release(&mut self) {
        if self.reserved.is_some() {
            self.reserved = None;
        }
    }

    /// Whether the next message may be read: a long one is counted as soon as its length is known.
    fn has_memory(&mut self) -> Result<bool, Ending> {
        let Some(database) = self.memory.as_ref().filter(|_| self.reserved.is_none()) else { return Ok(true) };
        let announced = frame::announced(&self.input, self.message_bytes_max).map_err(Ending::Protocol)?;
        let Some((tag, bytes)) = announced.filter(|(_, bytes)| *bytes > MESSAGE_BYTES_COUNTED) else { return Ok(true) };
        match database.reserve("message of a client", bytes) {
            Ok(reserved) => {
                self.reserved = Some(reserved);
                Ok(true)
            }
            Err(_) => {
                self.forgetting = Some((tag, bytes));
                Ok(false)
            }
        }
    }

    /// The message for which there was no memory, once all of it has come. What has come is kept here: whoever waits may
    /// stop to.
    async fn forgotten(&mut self) -> Result<Frame, Ending> {
        while let Some((tag, left)) = self.forgetting {
            let here = left.min(self.input.len());
            self.input.advance(here);
            if here == left {
                self.forgetting = None;
                return Ok(Frame { tag, body: Bytes::new(), refused: true });
            }
            self.forgetting = Some((tag, left - here));
            self.read_more(BULK_READ_BYTES).await?;
        }
        Err(Ending::Closed)
    }

    /// The SASL response that is due; before the login nothing else is read.
    pub async fn sasl_response(&mut self) -> Result<Bytes, Ending> {
        loop {
            if let Some(body) = frame::take_sasl(&mut self.input).map_err(Ending::Protocol)? {
                return Ok(body);
            }
            self.read_more(frame::READ_BYTES).await?;
        }
    }

    /// The socket, when it is not being encrypted.
    pub fn stream(&self) -> Option<&TcpStream> {
        match &self.socket {
            Socket::Plain(stream) => Some(stream),
            Socket::Tls(stream) => Some(stream.get_ref().0),
            Socket::Gone => None,
        }
    }

    /// Protocol and cipher of an encrypted connection.
    pub fn encryption(&self) -> Option<String> {
        let Socket::Tls(stream) = &self.socket else { return None };
        let tls = stream.get_ref().1;
        let cipher = tls.negotiated_cipher_suite().map(|cipher| format!(" {:?}", cipher.suite())).unwrap_or_default();
        Some(format!("{:?}{cipher}", tls.protocol_version()?))
    }

    /// The same as `pg_stat_ssl` shows it.
    pub fn encryption_details(&self) -> Option<Encryption> {
        let Socket::Tls(stream) = &self.socket else { return None };
        let tls = stream.get_ref().1;
        let version = format!("{:?}", tls.protocol_version()?).replace('_', ".");
        let cipher = openssl_name(&format!("{:?}", tls.negotiated_cipher_suite()?.suite()));
        let bits = if cipher.contains("AES_128") || cipher.contains("AES128") { 128 } else { 256 };
        Some(Encryption { version, cipher, bits })
    }

    /// Takes the plain socket out, to be encrypted.
    pub fn take_plain(&mut self) -> Option<TcpStream> {
        match std::mem::replace(&mut self.socket, Socket::Gone) {
            Socket::Plain(stream) => Some(stream),
            other => {
                self.socket = other;
                None
            }
        }
    }

    /// The threads that this is called on wait for the socket from now on, not those that accepted it.
    ///
    /// # Errors
    /// No more handles, most likely.
    pub fn move_here(&mut self) -> io::Result<()> {
        let stream = match &mut self.socket {
            Socket::Plain(stream) => stream,
            Socket::Tls(stream) => stream.get_mut().0,
            Socket::Gone => return Err(gone()),
        };
        let same: std::net::TcpStream = SockRef::from(&*stream).try_clone()?.into();
        *stream = TcpStream::from_std(same)?;
        Ok(())
    }

    /// Waits for more bytes of a startup packet.
    pub async fn read_startup(&mut self) -> Result<(), Ending> {
        self.read_more(frame::READ_BYTES).await
    }

    /// Waits for more input, or for the order to stop.
    #[inline]
    pub async fn read(&mut self) -> Result<(), Ending> {
        self.read_more(frame::room_wanted(&self.input, self.message_bytes_max).max(self.read_bytes)).await
    }

    async fn read_more(&mut self, room: usize) -> Result<(), Ending> {
        if self.input.is_empty() && self.has_grown {
            self.input = BytesMut::with_capacity(frame::READ_BYTES);
            self.has_grown = false;
        }
        self.has_grown |= self.input.len() > INPUT_BYTES_KEPT;
        self.input.reserve(room);
        let Self { socket, input, control, .. } = self;
        let mut read = std::pin::pin!(socket.read_buf(input));
        let count = poll_fn(|cx| {
            if control.watch(cx.waker()) {
                return Poll::Ready(Err(Ending::Stopping));
            }
            read.as_mut().poll(cx).map_err(Ending::Io)
        })
        .await?;
        if count == 0 {
            return Err(if self.input.is_empty() { Ending::Closed } else { Ending::Cut });
        }
        Ok(())
    }

    /// Sends everything that was answered so far.
    #[inline]
    pub async fn flush(&mut self) -> Result<(), Ending> {
        if self.output.is_empty() {
            return Ok(());
        }
        while self.sent < self.output.len() {
            match self.socket.write(&self.output[self.sent..]).await.map_err(Ending::Io)? {
                0 => return Err(Ending::Io(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        if let Socket::Tls(stream) = &mut self.socket {
            stream.flush().await.map_err(Ending::Io)?;
        }
        self.sent = 0;
        if self.output.capacity() > OUTPUT_BYTES_KEPT {
            self.output = BytesMut::with_capacity(frame::READ_BYTES);
        } else {
            self.output.clear();
        }
        Ok(())
    }

    /// Enough has gathered to be sent, so that a large result needs little memory.
    #[inline]
    pub fn is_large(&self) -> bool {
        self.output.len() >= OUTPUT_BYTES_LARGE
    }

    /// Sends when enough has gathered.
    #[inline]
    pub async fn flush_if_large(&mut self) -> Result<(), Ending> {
        if self.is_large() { self.flush().await } else { Ok(()) }
    }
}

/// What OpenSSL calls a cipher suite.
fn openssl_name(name: &str) -> String {
    match name.strip_prefix("TLS13_") {
        Some(rest) => format!("TLS_{rest}"),
        None => {
            let name = name.trim_start_matches("TLS_").replace("_WITH_", "_");
            let name = name.replace("AES_", "AES").replace("POLY1305_SHA256", "POLY1305");
            name.replace('_', "-")
        }
    }
}
