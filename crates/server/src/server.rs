//! The listener: accepts sockets, limits them, serves each in a task of its own, stops.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use resurgam_sql::SqlDatabase;
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::access::Gate;
use crate::connection::{self, Client, Shared};
use crate::events::Visitor;
use crate::front::Front;
use crate::http::Endpoint;
use crate::monitor::Monitor;
use crate::registry::{Limits, Registry};
use crate::settings::Settings;

/// Connections that may wait to be accepted; the system may allow fewer. With few a flood of connections makes others
/// wait for a second each time that it is faster than the server.
const BACKLOG: u32 = 4096;
/// Time for sessions to end that are ended whatever they do.
const TERMINATION_TIME_MAX: Duration = Duration::from_secs(2);

/// A bound listener that is not serving yet.
pub struct Server {
    listener: TcpListener,
    settings: Settings,
    gate: Arc<Gate>,
    registry: Arc<Registry>,
    monitor: Arc<Monitor>,
    endpoint: Option<Arc<Endpoint>>,
    front: Front,
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
        let gate = Arc::new(Gate::open(settings.clone()).map_err(|errors| errors.join("\n"))?);
        let addresses: Vec<SocketAddr> = tokio::net::lookup_host(&settings.listen)
            .await
            .map_err(|error| format!("the address to listen on, {:?}, is not usable: {error}", settings.listen))?
            .collect();
        if gate.access().trusts_others()
            && let Some(open) = addresses.iter().find(|address| !address.ip().is_loopback())
        {
            if !settings.hba_file.as_os_str().is_empty() {
                tracing::warn!("{open} can be reached from other machines, and the host rules trust some of them");
            } else if !settings.insecure_trust {
                return Err(format!(
                    "{open} can be reached from other machines, and authentication is trust: anyone could read and \
                     change everything. Use --authentication scram-sha-256 with a password, or --insecure-trust if \
                     that is meant."
                ));
            }
        }
        let front = Front::start()?;
        let listening = {
            let _there = front.handle().enter();
            listen(&addresses)
        };
        let listener = listening.map_err(|error| match error.kind() {
            std::io::ErrorKind::AddrInUse => {
                format!("{} is in use by another program; choose another port with --listen", settings.listen)
            }
            _ => format!("could not listen on {}: {error}", settings.listen),
        })?;
        let registry = Registry::new(Limits::of(&settings));
        let monitor = Monitor::new(registry.clone());
        gate.tier_tls().into_iter().for_each(|tls| monitor.tier_tls_is(tls));
        let endpoint = match settings.metrics_listen.as_str() {
            "" => None,
            listen => Some(Arc::new(Endpoint::start(listen, monitor.clone()).await?)),
        };
        Ok(Self { listener, settings, gate, registry, monitor, endpoint, front })
    }

    /// What is told to those who watch the process.
    pub fn monitor(&self) -> Arc<Monitor> {
        self.monitor.clone()
    }

    /// Who may come in, to be read again on a signal.
    pub fn gate(&self) -> Arc<Gate> {
        self.gate.clone()
    }

    /// The HTTP endpoint, if the settings ask for one. It answers from here on and until the
    /// last holder drops it, which may be later than the server's end.
    pub fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.endpoint.clone()
    }

    /// Threads that no statement has.
    pub fn front(&self) -> &Handle {
        self.front.handle()
    }

    /// Where the server listens; the port is the real one when 0 was asked for.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stopped` turns true, then ends the sessions: each may finish
    /// its statement for `shutdown_timeout`, then it is cancelled, then dropped. Statements run on the threads that this
    /// is called on.
    pub async fn run(self, database: Arc<SqlDatabase>, stopped: watch::Receiver<bool>) {
        self.monitor.plans_of(&database);
        database.served_by(self.gate.clone());
        self.monitor.serving(database.engine().clone());
        let Self { listener, settings, gate, registry, monitor, front, .. } = self;
        let sessions = Handle::current();
        let limit = settings.stall_timeout;
        let shared = Arc::new(Shared { database, registry, gate, settings });
        let pulse = Arc::clone(&shared.registry.pulse).watch(
            sessions.clone(),
            Arc::clone(&shared.registry),
            Arc::clone(&shared.database),
            limit,
        );
        let pulse = front.handle().spawn(pulse);
        let served = front.handle().spawn(serve(listener, shared, monitor, sessions, stopped)).await;
        pulse.abort();
        // What it held of the database is gone with it.
        let _ = pulse.await;
        if let Err(error) = served {
            tracing::error!("the server ended: {error}");
        }
    }
}

/// Tasks of connections: those that have logged in go on as sessions.
struct Tasks {
    all: JoinSet<Option<Client>>,
    sessions: Handle,
}

impl Tasks {
    /// Waits for the next to end; `false` if there is none.
    async fn next(&mut self) -> bool {
        let Some(ended) = self.all.join_next().await else { return false };
        if let Ok(Some(client)) = ended {
            let served = async move {
                client.serve().await;
                None
            };
            self.all.spawn_on(served, &self.sessions);
        }
        true
    }

    /// Waits until every connection is closed; `false` when `limit` ran out first.
    async fn drain(&mut self, limit: Duration) -> bool {
        let all = async { while self.next().await {} };
        tokio::time::timeout(limit, all).await.is_ok()
    }
}

/// See [`Server::run`]; on threads that no statement has.
async fn serve(
    listener: TcpListener,
    shared: Arc<Shared>,
    monitor: Arc<Monitor>,
    sessions: Handle,
    mut stopped: watch::Receiver<bool>,
) {
    let mut tasks = Tasks { all: JoinSet::new(), sessions };
    loop {
        let accepted = tokio::select! {
            biased;
            _ = stopped.wait_for(|stop| *stop) => break,
            true = tasks.next() => continue,
            accepted = listener.accept() => accepted,
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
    monitor.stopping();
    drop(listener);
    shared.registry.stop_all();
    let grace = shared.settings.shutdown_timeout;
    if !tasks.drain(grace).await {
        tracing::warn!("{} sessions still run after {grace:?}; ending them", shared.registry.sessions());
        shared.registry.terminate_all();
        tasks.drain(TERMINATION_TIME_MAX).await;
    }
    tasks.all.shutdown().await;
}

/// Listens on the first address that can be had.
fn listen(addresses: &[SocketAddr]) -> std::io::Result<TcpListener> {
    let mut last = std::io::ErrorKind::AddrNotAvailable.into();
    for address in addresses {
        let socket = if address.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
        socket.set_reuseaddr(true)?;
        match socket.bind(*address).and_then(|()| socket.listen(BACKLOG)) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn accept(tasks: &mut Tasks, shared: &Arc<Shared>, stream: TcpStream, peer: SocketAddr) {
    let place = shared.registry.admit(peer.ip());
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%peer, "could not set socket options: {error}");
    }
    let visitor = Visitor::new(peer, stream.local_addr().ok());
    tasks.all.spawn(connection::accepted(shared.clone(), stream, place, visitor));
}
