//! Threads of their own for what has to go on whatever statements do: accepting, TLS and logins, cancel requests,
//! signals; and a look, ten times a second, whether sessions are served ([`Pulse`]).
//!
//! ```text
//! front (2 threads)                     session (a thread per processor, and one)
//! accept ─► TLS, login ──logged in────► the connection's task, with its socket, its statements
//! cancel request ─► registry ─────────► stop flag of the statement
//! beat ───────────────────────────────► answered
//!   └── not within `stall_timeout` ─► /health (a thread of its own) says 503 and who is in the way
//! ```
//!
//! Sessions give their thread away before they compute for long (`resurgam_sql`: planning, plans). One that does not is a
//! bug: then the others wait for it, and this is how somebody learns of it.

use std::fmt::Write as _;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use resurgam_sql::SqlDatabase;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::registry::Registry;

/// One may compute a proof of a password while the other accepts.
const THREADS: usize = 2;
/// How often sessions' threads are asked for an answer.
const BEAT: Duration = Duration::from_millis(100);
/// Sessions that are named.
const NAMED_MAX: usize = 5;

/// The threads; they end when this is dropped.
pub struct Front(Option<Runtime>);

impl Front {
    /// Starts them. The error is a sentence for the terminal.
    pub fn start() -> Result<Self, String> {
        let runtime = Builder::new_multi_thread().worker_threads(THREADS).thread_name("front").enable_all().build();
        Ok(Self(Some(runtime.map_err(|error| format!("could not start threads: {error}"))?)))
    }

    /// To run something on them.
    pub fn handle(&self) -> &Handle {
        // Taken only when it is dropped.
        match &self.0 {
            Some(runtime) => runtime.handle(),
            None => unreachable!("the threads are there until the end"),
        }
    }
}

impl Drop for Front {
    fn drop(&mut self) {
        // Whoever drops it may be on a thread that must not wait.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// After the last beat nobody is late.
struct Until<'a>(&'a AtomicU64);

impl Drop for Until<'_> {
    fn drop(&mut self) {
        self.0.store(0, Ordering::Relaxed);
    }
}

/// Milliseconds since the process's first look, at least 1.
fn now_ms() -> u64 {
    static BEGUN: OnceLock<Instant> = OnceLock::new();
    u64::try_from(BEGUN.get_or_init(Instant::now).elapsed().as_millis()).unwrap_or(u64::MAX).saturating_add(1)
}

static COARSE: AtomicU64 = AtomicU64::new(1);

/// The same as of the last beat, for those who look often.
#[inline]
pub fn coarse_ms() -> u64 {
    COARSE.load(Ordering::Relaxed)
}

/// Whether the threads of sessions answer.
#[derive(Debug, Default)]
pub struct Pulse {
    /// When they were asked for the answer that has not come yet; 0: it has.
    asked: AtomicU64,
    /// The last beat; 0 before the first, and after the last.
    beat: AtomicU64,
    longest: AtomicU64,
    /// What is too long, in milliseconds; 0: nothing.
    limit: AtomicU64,
}

impl Pulse {
    /// Asks until it is dropped, and logs who is in the way of sessions that are not served for longer than `limit`.
    pub async fn watch(
        self: Arc<Self>,
        sessions: Handle,
        registry: Arc<Registry>,
        sql: Arc<SqlDatabase>,
        limit: Duration,
    ) {
        self.limit.store(u64::try_from(limit.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        let _until = Until(&self.beat);
        let mut told = false;
        loop {
            let now = now_ms();
            COARSE.store(now, Ordering::Relaxed);
            self.beat.store(now, Ordering::Relaxed);
            if self.asked.load(Ordering::Relaxed) == 0 {
                self.asked.store(now, Ordering::Relaxed);
                let pulse = Arc::clone(&self);
                sessions.spawn(async move { pulse.answered() });
            }
            match self.stalled(&registry) {
                Some(stall) if !told => {
                    told = true;
                    tracing::error!("{stall}");
                    for (process_id, _) in registry.busy_for(limit).into_iter().take(NAMED_MAX) {
                        if let Some(text) = sql.statement_of(process_id) {
                            let text = crate::events::shown(&text);
                            tracing::error!(process_id, "a session that keeps its thread: {text}");
                        }
                    }
                }
                Some(_) => {}
                None if told => {
                    told = false;
                    tracing::warn!("sessions are served again");
                }
                None => {}
            }
            tokio::time::sleep(BEAT).await;
        }
    }

    fn answered(&self) {
        let asked = self.asked.swap(0, Ordering::Relaxed);
        self.longest.fetch_max(now_ms().saturating_sub(asked), Ordering::Relaxed);
    }

    /// For how long the sessions' threads have not answered.
    pub fn silence(&self) -> Duration {
        match self.asked.load(Ordering::Relaxed) {
            0 => Duration::ZERO,
            asked => Duration::from_millis(now_ms().saturating_sub(asked)),
        }
    }

    /// The longest time that an answer has taken, or takes.
    pub fn longest(&self) -> Duration {
        Duration::from_millis(self.longest.load(Ordering::Relaxed)).max(self.silence())
    }

    /// Who is not served for too long, and what is in the way; `None`: nobody.
    pub fn stalled(&self, registry: &Registry) -> Option<String> {
        let limit = Duration::from_millis(self.limit.load(Ordering::Relaxed));
        let beat = self.beat.load(Ordering::Relaxed);
        if limit.is_zero() || beat == 0 {
            return None;
        }
        let still = Duration::from_millis(now_ms().saturating_sub(beat));
        if still > limit {
            return Some(format!("logins and cancel requests are not served for {:.1} s", still.as_secs_f64()));
        }
        let silence = self.silence();
        if silence <= limit {
            return None;
        }
        let mut text = format!("sessions are not served for {:.1} s", silence.as_secs_f64());
        let busy = registry.busy_for(limit);
        for (at, (process_id, time)) in busy.iter().take(NAMED_MAX).enumerate() {
            let before = if at == 0 { "; in the way:" } else { "," };
            let _ = write!(text, "{before} process {process_id} for {:.1} s", time.as_secs_f64());
        }
        if let Some(more) = busy.len().checked_sub(NAMED_MAX + 1) {
            let _ = write!(text, " and {} more", more + 1);
        }
        Some(text)
    }
}

/// How long ago that was, of a time of [`coarse_ms`].
pub fn since(coarse: u64) -> Duration {
    Duration::from_millis(now_ms().saturating_sub(coarse))
}
