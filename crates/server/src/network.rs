//! Socket options that sessions and settings choose: keepalives and the time for acknowledgements.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use resurgam_sql::ConnectionSettings;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::registry::Control;
use crate::settings::{Settings, Value};

/// What the system gave a fresh socket; a parameter of 0 goes back to it.
#[derive(Clone, Copy, Debug)]
pub struct Defaults {
    idle: Option<Duration>,
    interval: Option<Duration>,
    count: Option<u32>,
    user_timeout: Option<Duration>,
}

impl Defaults {
    /// Of a socket that nothing was set of.
    pub fn of(stream: &TcpStream) -> Self {
        let socket = SockRef::from(stream);
        Self {
            idle: socket.tcp_keepalive_time().ok(),
            interval: socket.tcp_keepalive_interval().ok(),
            count: socket.tcp_keepalive_retries().ok(),
            user_timeout: socket.tcp_user_timeout().ok().flatten(),
        }
    }
}

/// Sets a socket's options; what fails is of no consequence but that silence is noticed later.
pub fn apply(stream: &TcpStream, defaults: &Defaults, wanted: &ConnectionSettings) {
    let socket = SockRef::from(stream);
    let mut keepalive = TcpKeepalive::new();
    if let Some(idle) = wanted.tcp_keepalives_idle.or(defaults.idle) {
        keepalive = keepalive.with_time(idle);
    }
    if let Some(interval) = wanted.tcp_keepalives_interval.or(defaults.interval) {
        keepalive = keepalive.with_interval(interval);
    }
    if let Some(count) = wanted.tcp_keepalives_count.or(defaults.count) {
        keepalive = keepalive.with_retries(count);
    }
    let set = socket
        .set_tcp_keepalive(&keepalive)
        .and_then(|()| socket.set_tcp_user_timeout(wanted.tcp_user_timeout.or(defaults.user_timeout)));
    if let Err(error) = set {
        tracing::debug!("could not set socket options: {error}");
    }
}

/// Ends a connection when its client is gone, until this is dropped (`client_connection_check_interval`).
///
/// A task of its own looks at the socket: the one that serves the connection is busy with the statement.
pub struct Watch(tokio::task::AbortHandle);

impl Watch {
    /// Looks `every` so often.
    ///
    /// # Errors
    /// The socket cannot be looked at.
    pub fn begin(stream: &TcpStream, control: Arc<Control>, every: Duration) -> std::io::Result<Self> {
        let stream: std::net::TcpStream = SockRef::from(stream).try_clone()?.into();
        let stream = TcpStream::from_std(stream)?;
        let task = tokio::spawn(async move {
            loop {
                tokio::time::sleep(every).await;
                let is_lost = match stream.ready(Interest::READABLE).now_or_never() {
                    Some(Ok(ready)) => ready.is_read_closed(),
                    Some(Err(_)) => true,
                    None => false,
                };
                if is_lost {
                    return control.lose();
                }
            }
        });
        Ok(Self(task.abort_handle()))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the settings say, for a connection that has no session yet.
pub fn wanted(settings: &Settings) -> ConnectionSettings {
    let seconds = |seconds: u32| (seconds > 0).then(|| Duration::from_secs(seconds.into()));
    let time = |time: Duration| (!time.is_zero()).then_some(time);
    ConnectionSettings {
        idle_session_timeout: time(settings.idle_session_timeout),
        tcp_keepalives_idle: seconds(settings.tcp_keepalives_idle.0),
        tcp_keepalives_interval: seconds(settings.tcp_keepalives_interval.0),
        tcp_keepalives_count: (settings.tcp_keepalives_count > 0).then_some(settings.tcp_keepalives_count),
        tcp_user_timeout: time(settings.tcp_user_timeout),
        client_connection_check_interval: time(settings.client_connection_check_interval),
        log_min_duration: settings.log_min_duration_statement.0,
    }
}

/// The same as defaults of session parameters.
pub fn session_defaults(settings: &Settings) -> Vec<(&'static str, String)> {
    let ms = |time: Duration| time.as_millis().to_string();
    vec![
        ("idle_session_timeout", ms(settings.idle_session_timeout)),
        ("tcp_keepalives_idle", settings.tcp_keepalives_idle.0.to_string()),
        ("tcp_keepalives_interval", settings.tcp_keepalives_interval.0.to_string()),
        ("tcp_keepalives_count", settings.tcp_keepalives_count.to_string()),
        ("tcp_user_timeout", ms(settings.tcp_user_timeout)),
        ("client_connection_check_interval", ms(settings.client_connection_check_interval)),
        ("work_mem", settings.work_mem.show()),
        ("temp_file_limit", settings.temp_file_limit.show()),
        ("log_min_duration_statement", settings.log_min_duration_statement.0.map_or("-1".to_owned(), ms)),
    ]
}
