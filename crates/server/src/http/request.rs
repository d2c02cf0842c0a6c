//! Reading one request: its head, strictly; a body is neither expected nor read.

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use super::response::Response;

/// Longest head of a request, in bytes.
const HEAD_BYTES_MAX: usize = 8192;
/// Most header fields.
const FIELDS_MAX: usize = 64;

/// A request that can be answered.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    /// HEAD: as GET, without the body.
    pub is_head: bool,
    /// Without the query string.
    pub path: String,
}

/// Reads a request; none when the client closed without one. The error is the refusal, or
/// that of the socket.
pub(super) async fn read(stream: &mut TcpStream) -> Result<Option<Request>, std::io::Result<Response>> {
    let mut head = Vec::new();
    loop {
        let mut chunk = [0; 1024];
        let count = stream.read(&mut chunk).await.map_err(Err)?;
        if count == 0 {
            if head.is_empty() {
                return Ok(None);
            }
            return Err(Ok(Response::text(400, "the request is not whole")));
        }
        head.extend_from_slice(&chunk[..count]);
        if let Some(request) = parse(&head).map_err(Ok)? {
            return Ok(Some(request));
        }
        if head.len() >= HEAD_BYTES_MAX {
            return Err(Ok(Response::text(431, "the head of the request is too long")));
        }
    }
}

/// Judges what has arrived; none: more is needed.
fn parse(head: &[u8]) -> Result<Option<Request>, Response> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(head) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) => return Ok(None),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Response::text(431, "the request has too many header fields"));
        }
        Err(error) => return Err(Response::text(400, &format!("this is not an HTTP/1 request: {error}"))),
    }
    let (Some(method), Some(target), Some(version)) = (request.method, request.path, request.version) else {
        return Err(Response::text(400, "the request has no method, target or version"));
    };
    // RFC 9112, section 3.2: exactly one in HTTP/1.1.
    let hosts = request.headers.iter().filter(|field| field.name.eq_ignore_ascii_case("host")).count();
    if hosts > 1 || (version == 1 && hosts == 0) {
        return Err(Response::text(400, "the request needs one Host field"));
    }
    let is_head = match method {
        "GET" => false,
        "HEAD" => true,
        _ => return Err(Response::text(405, "only GET and HEAD are answered").allowing("GET, HEAD")),
    };
    // The absolute form is what proxies send.
    let path = match target.strip_prefix("http://") {
        Some(rest) => rest.find('/').map_or("/", |at| &rest[at..]),
        None => target,
    };
    if !path.starts_with('/') {
        return Err(Response::text(400, "the target of the request is not a path"));
    }
    let path = path.split(['?', '#']).next().unwrap_or_default();
    Ok(Some(Request { is_head, path: path.to_owned() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> Result<Option<String>, u16> {
        parse(text.as_bytes()).map(|found| found.map(|request| request.path)).map_err(|refusal| refusal.status())
    }

    #[test]
    fn requests_are_read_strictly() {
        let ok = |path: &str| Ok(Some(path.to_owned()));
        assert_eq!(path("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n"), ok("/metrics"));
        assert_eq!(path("GET /metrics?a=b HTTP/1.0\r\n\r\n"), ok("/metrics"));
        assert_eq!(path("HEAD http://x:1/ready HTTP/1.1\r\nhost: x\r\n\r\n"), ok("/ready"));
        assert_eq!(path("GET http://x HTTP/1.0\r\n\r\n"), ok("/"));
        assert_eq!(path("GET /metrics HTTP/1.1\r\nHost: x\r\n"), Ok(None));
        assert_eq!(path(""), Ok(None));
        for (text, status) in [
            ("GET /metrics HTTP/1.1\r\n\r\n", 400),
            ("GET /metrics HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET metrics HTTP/1.0\r\n\r\n", 400),
            ("GET /metrics HTTP/2.0\r\n\r\n", 400),
            ("GET /metrics\r\n\r\n", 400),
            ("\0\0\0\x08\x04\u{d2}\x16\x2f", 400),
            ("GET / HTTP/1.1\r\nHost : x\r\n\r\n", 400),
            ("POST /metrics HTTP/1.1\r\nHost: x\r\n\r\n", 405),
            ("OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n", 405),
        ] {
            assert_eq!(path(text), Err(status), "{text:?}");
        }
        let many = format!("GET / HTTP/1.0\r\n{}\r\n", "a: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(path(&many), Err(431));
    }
}
