//! The listener: accepts sockets, limits them, serves each in a task of its own, stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use resurgam_sql::SqlDatabase;
use socket2::{SockRef, TcpKeepalive};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::connection::{self, Shared};
use crate::http::Endpoint;
use crate::monitor::Monitor;
use crate::registry::Registry;
use crate::settings::{Authentication, Settings};
use crate::{auth, tls};

/// Silence after which a peer is asked whether it is still there.
const KEEPALIVE_IDLE: Duration = Duration::from_secs(60);
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(10);

/// A bound listener that is not serving yet.
pub struct Server {
    listener: TcpListener,
    settings: Settings,
    tls: Option<tls::Tls>,
    verifier: Option<auth::Verifier>,
    registry: Arc<Registry>,
    monitor: Arc<Monitor>,
    endpoint: Option<Arc<Endpoint>>,
}

/// Stops a running server.
#[derive(Clone)]
pub struct Stopper {
    stop: watch::Sender<bool>,
}

impl Stopper {
    /// Ends accepting at once and every session as soon as its statement is done.
    pub fn stop(&self) {
        self.stop.send_replace(true);
    }
}

/// A stopper and the receiver that [`Server::run`] takes.
pub fn stopper() -> (Stopper, watch::Receiver<bool>) {
    let (stop, stopped) = watch::channel(false);
    (Stopper { stop }, stopped)
}

impl Server {
    /// Checks the settings that concern the network, binds, and starts the HTTP endpoint. Errors are sentences for the terminal.
    pub async fn bind(settings: Settings) -> Result<Self, String> {
        let tls = match settings.tls_cert.as_os_str().is_empty() {
            true => None,
            false => Some(tls::load(&settings.tls_cert, &settings.tls_key)?),
        };
        let verifier = auth::load(&settings)?;
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(&settings.listen)
            .await
            .map_err(|error| format!("the address to listen on, {:?}, is not usable: {error}", settings.listen))?
            .collect();
        if settings.authentication == Authentication::Trust
            && !settings.insecure_trust
            && let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback())
        {
            return Err(format!(
                "{open} can be reached from other machines, and authentication is trust: anyone could read and change \
                 everything. Use --authentication scram-sha-256 with a password, or --insecure-trust if that is meant."
            ));
        }
        let listener = TcpListener::bind(&addresses[..]).await.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("{} is in use by another program; choose another port with --listen", settings.listen)
            }
            _ => format!("could not listen on {}: {error}", settings.listen),
        })?;
        let registry = Registry::new(settings.max_connections);
        let monitor = Monitor::new(registry.clone());
        let endpoint = match settings.metrics_listen.as_str() {
            "" => None,
            listen => Some(Arc::new(Endpoint::start(listen, monitor.clone()).await?)),
        };
        Ok(Self { listener, settings, tls, verifier, registry, monitor, endpoint })
    }

    /// What is told to those who watch the process.
    pub fn monitor(&self) -> Arc<Monitor> {
        self.monitor.clone()
    }

    /// The HTTP endpoint, if the settings ask for one. It answers from here on and until the
    /// last holder drops it, which may be later than the server's end.
    pub fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.clone()
    }

    /// Where the server listens; the port is the real one when 0 was asked for.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stopped` turns true, then ends the sessions: each may finish
    /// its statement for `shutdown_timeout`, then it is cancelled, then dropped.
    pub async fn run(self, database: Arc<SqlDatabase>, mut stopped: watch::Receiver<bool>) {
        let registry = self.registry;
        self.monitor.plans_of(&database);
        self.monitor.serving(database.engine().clone());
        let shared = Arc::new(Shared {
            database,
            registry: registry.clone(),
            tls: self.tls,
            verifier: self.verifier,
            settings: self.settings,
        });
        let mut tasks = JoinSet::new();
        loop {
            let accepted = tokio::select! {
                biased;
                _ = stopped.wait_for(|stop| *stop) => break,
                Some(_) = tasks.join_next() => continue,
                accepted = self.listener.accept() => accepted,
            };
            match accepted {
                Ok((stream, peer)) => accept(&mut tasks, &shared, stream, peer),
                Err(error) => {
                    // Out of file descriptors, most likely: others may close theirs soon.
                    tracing::warn!("could not accept a connection: {error}");
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
        self.monitor.stopping();
        drop(self.listener);
        registry.stop_all();
        let grace = shared.settings.shutdown_timeout;
        if !drain(&mut tasks, grace).await {
            tracing::warn!("{} sessions still run after {grace:?}; cancelling their statements", registry.sessions());
            registry.cancel_all();
            drain(&mut tasks, Duration::from_secs(2)).await;
        }
        tasks.shutdown().await;
    }
}

fn accept(tasks: &mut JoinSet<()>, shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let Some(guard) = shared.registry.socket() else {
        tracing::warn!(%peer, "too many half-open connections; one was closed");
        return;
    };
    if let Err(error) = prepare(&stream) {
        tracing::debug!(%peer, "could not set socket options: {error}");
    }
    let shared = shared.clone();
    tasks.spawn(async move {
        connection::run(shared, stream, peer).await;
        drop(guard);
    });
}

fn prepare(stream: &TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE_IDLE).with_interval(KEEPALIVE_INTERVAL);
    SockRef::from(stream).set_tcp_keepalive(&keepalive)
}

/// Waits until every connection is closed; `false` when `limit` ran out first.
async fn drain(tasks: &mut JoinSet<()>, limit: Duration) -> bool {
    let all = async { while tasks.join_next().await.is_some() {} };
    tokio::time::timeout(limit, all).await.is_ok()
}
