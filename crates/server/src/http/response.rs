//! An answer, and how it is sent so that the client gets all of it.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Bytes, and time, that a client may go on sending after it was answered.
const REST_BYTES_MAX: usize = 64 << 10;
const REST_TIME_MAX: Duration = Duration::from_secs(1);

/// Status, content type and body.
#[derive(Debug)]
pub(super) struct Response {
    status: u16,
    content_type: &'static str,
    allow: Option<&'static str>,
    body: String,
}

impl Response {
    /// A line of text for a person.
    pub fn text(status: u16, line: &str) -> Self {
        Self { status, content_type: "text/plain; charset=utf-8", allow: None, body: format!("{line}\n") }
    }

    /// Metrics in Prometheus' text format.
    pub fn metrics(body: String) -> Self {
        Self { status: 200, content_type: "text/plain; version=0.0.4; charset=utf-8", allow: None, body }
    }

    /// Names the methods that there are.
    pub fn allowing(self, methods: &'static str) -> Self {
        Self { allow: Some(methods), ..self }
    }

    #[cfg(test)]
    pub fn status(&self) -> u16 {
        self.status
    }

    fn reason(&self) -> &'static str {
        match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            431 => "Request Header Fields Too Large",
            503 => "Service Unavailable",
            _ => "Internal Server Error",
        }
    }

    /// Sends it and closes the connection.
    pub async fn send(self, stream: &mut TcpStream, with_body: bool) -> std::io::Result<()> {
        let mut out = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: close\r\n",
            self.status,
            self.reason(),
            self.content_type,
            self.body.len()
        );
        if let Some(methods) = self.allow {
            out.push_str(&format!("Allow: {methods}\r\n"));
        }
        out.push_str("\r\n");
        if with_body {
            out.push_str(&self.body);
        }
        stream.write_all(out.as_bytes()).await?;
        stream.shutdown().await?;
        // A socket that is closed with unread input is reset, and the client may lose the answer.
        let rest = async {
            let mut left = REST_BYTES_MAX;
            let mut chunk = [0; 4096];
            while left > 0 {
                match stream.read(&mut chunk).await {
                    Ok(0) | Err(_) => return,
                    Ok(count) => left = left.saturating_sub(count),
                }
            }
        };
        let _ = tokio::time::timeout(REST_TIME_MAX, rest).await;
        Ok(())
    }
}
