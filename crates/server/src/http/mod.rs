//! The HTTP endpoint for operators' tools: `/metrics`, `/health`, `/ready`.
//!
//! It has a thread and a runtime of its own, and starts before the database is opened: it
//! answers while recovery reads the log, and while all session threads are busy.
//!
//! Invariants:
//! 1. One request a connection; the connection is closed after the answer.
//! 2. A client makes the server hold one socket, 8 kB, for at most a few seconds, and only while
//!    nobody else wants its place (`places.rs`): however many are silent or slow, a new one is
//!    answered.
//! 3. Nothing that a client sends changes anything.
//! 4. Numbers are gathered by one thread at a time: however many ask, the database is not
//!    asked more often than it answers.

mod places;
mod request;
mod response;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, watch};

use crate::metrics;
use crate::monitor::Monitor;
use places::{Place, Places};
use request::Request;
use response::Response;

/// Longest time until a request must have arrived.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(5);
/// Longest time for the answer to be made.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(10);
/// Longest time of a connection, from the first byte to the last.
const CONNECTION_TIME_MAX: Duration = Duration::from_secs(20);

/// A running endpoint; it ends when this is dropped.
pub struct Endpoint {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Endpoint {
    /// Binds `listen` (address and port) and starts answering. Errors are sentences for the terminal.
    pub async fn start(listen: &str, monitor: Arc<Monitor>) -> Result<Self, String> {
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(listen)
            .await
            .map_err(|error| format!("the address for metrics, {listen:?}, is not usable: {error}"))?
            .collect();
        let listener = std::net::TcpListener::bind(&addresses[..]).map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("{listen} is in use by another program; choose another port with --metrics-listen")
            }
            _ => format!("could not listen on {listen} for metrics: {error}"),
        })?;
        let failed = |error: std::io::Error| format!("could not start the metrics endpoint: {error}");
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if !address.ip().is_loopback() {
            tracing::warn!("metrics on {address} can be read from other machines, without a password");
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(failed)?;
        let (stop, stopped) = watch::channel(false);
        let body = move || {
            if let Err(error) = runtime.block_on(run(listener, monitor, stopped)) {
                tracing::error!("the metrics endpoint ended: {error}");
            }
            // A gathering that is stuck must not keep the process.
            runtime.shutdown_background();
        };
        let thread = std::thread::Builder::new().name("http".into()).spawn(body).map_err(failed)?;
        Ok(Self { address, stop, thread: Some(thread) })
    }

    /// Where it listens; the port is the real one when 0 was asked for.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Shared {
    monitor: Arc<Monitor>,
    gathering: Arc<Mutex<()>>,
}

async fn run(
    listener: std::net::TcpListener,
    monitor: Arc<Monitor>,
    mut stopped: watch::Receiver<bool>,
) -> std::io::Result<()> {
    let listener = TcpListener::from_std(listener)?;
    let shared = Arc::new(Shared { monitor, gathering: Arc::default() });
    let places = Arc::<Places>::default();
    let accept = async {
        loop {
            match listener.accept().await {
                Ok((stream, peer)) => {
                    let shared = Arc::clone(&shared);
                    let place = places.take();
                    tokio::spawn(async move {
                        let served = tokio::time::timeout(CONNECTION_TIME_MAX, serve(&shared, stream, &place));
                        tokio::select! {
                            biased;
                            () = place.gone() => tracing::debug!(%peer, "http: gave way to others"),
                            outcome = served => tracing::debug!(%peer, "http: {outcome:?}"),
                        }
                    });
                }
                Err(error) => {
                    // Out of file descriptors, most likely: others may close theirs soon.
                    tracing::warn!("could not accept a connection for metrics: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    };
    tokio::select! {
        _ = stopped.wait_for(|stop| *stop) => {}
        () = accept => {}
    }
    Ok(())
}

/// One connection. Its outcome is of interest to nobody but the debug log.
async fn serve(shared: &Shared, mut stream: TcpStream, place: &Place) -> std::io::Result<()> {
    let request = match tokio::time::timeout(REQUEST_TIME_MAX, request::read(&mut stream)).await {
        Ok(Ok(Some(request))) => Ok(request),
        Ok(Ok(None)) => return Ok(()),
        Ok(Err(refusal)) => Err(refusal?),
        Err(_) => Err(Response::text(408, "the request did not arrive in time")),
    };
    let (response, with_body) = match request {
        Ok(request) => {
            let answer = tokio::time::timeout(ANSWER_TIME_MAX, answer(shared, &request, place)).await;
            place.answered();
            (answer.unwrap_or_else(|_| Response::text(503, "the numbers could not be had in time")), !request.is_head)
        }
        Err(refusal) => (refusal, true),
    };
    response.send(&mut stream, with_body).await
}

async fn answer(shared: &Shared, request: &Request, place: &Place) -> Response {
    match request.path.as_str() {
        "/health" => match shared.monitor.stalled() {
            Some(stall) => Response::text(503, &stall),
            None => Response::text(200, "alive"),
        },
        "/ready" => match shared.monitor.readiness() {
            Ok(warnings) => {
                let lines = warnings.iter().map(|warning| format!("\nwarning: {warning}"));
                Response::text(200, &format!("ready{}", lines.collect::<String>()))
            }
            Err(reason) => Response::text(503, &reason),
        },
        "/metrics" if !place.ask() => Response::text(503, "too many ask for the numbers at this time"),
        "/metrics" => {
            let turn = Arc::clone(&shared.gathering).lock_owned().await;
            let monitor = Arc::clone(&shared.monitor);
            let gather = move || {
                let text = metrics::gather(&monitor);
                drop(turn);
                text
            };
            match tokio::task::spawn_blocking(gather).await {
                Ok(text) => Response::metrics(text),
                Err(error) => Response::text(500, &format!("the numbers could not be gathered: {error}")),
            }
        }
        _ => Response::text(404, "there is /metrics, /health and /ready"),
    }
}
