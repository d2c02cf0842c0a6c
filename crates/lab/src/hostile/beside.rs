//! Who is beside a hostile statement: a session that asks for one row again and again, new logins, and
//! a look at the server's memory.

use std::fs;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::answers::client::{Client, Target};

/// Between two looks.
const EVERY: Duration = Duration::from_millis(4);
/// Every so many questions one is asked by a new session.
const LOGIN_EVERY: usize = 16;
/// A session that gets no answer for so long is given up, with this as its latency.
const PATIENCE: Duration = Duration::from_secs(20);

/// What was seen since the last [`Beside::take`].
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// How long each question took to be answered.
    pub latencies: Vec<Duration>,
    /// The most resident memory, in bytes.
    pub memory_bytes: u64,
    /// Questions that got no answer.
    pub failures: usize,
}

#[derive(Default)]
struct State {
    ended: AtomicBool,
    /// The port of the server, 0 while there is none.
    port: AtomicU32,
    process: AtomicU32,
    memory_bytes: AtomicU64,
    /// When the question that is not answered yet was asked.
    asked: Mutex<Option<Instant>>,
    seen: Mutex<Seen>,
}

/// The threads that look.
pub struct Beside {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

impl Beside {
    /// Begins; nothing is seen before [`Beside::look`]. A server that has more than `memory_bytes_max` is killed.
    pub fn begin(memory_bytes_max: u64) -> Self {
        let state = Arc::<State>::default();
        let (ask, watch) = (Arc::clone(&state), Arc::clone(&state));
        let threads =
            vec![std::thread::spawn(move || ask.ask()), std::thread::spawn(move || watch.watch(memory_bytes_max))];
        Self { state, threads }
    }

    /// The server that is looked at from now on.
    pub fn look(&self, port: u16, process: Option<u32>) {
        self.state.port.store(port.into(), Ordering::SeqCst);
        self.state.process.store(process.unwrap_or(0), Ordering::SeqCst);
    }

    /// What was seen; begins anew. A question that is still open counts with its time so far.
    pub fn take(&self) -> Seen {
        let mut seen = std::mem::take(&mut *lock(&self.state.seen));
        if let Some(asked) = *lock(&self.state.asked) {
            seen.latencies.push(asked.elapsed());
        }
        seen.memory_bytes = self.state.memory_bytes.swap(0, Ordering::SeqCst);
        seen
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        self.state.ended.store(true, Ordering::SeqCst);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

/// A thread that failed while it held it has left a whole value.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn ask(&self) {
        // With the process that it is a session of.
        let mut client: Option<(u32, Client)> = None;
        let mut count = 0;
        while !self.ended.load(Ordering::SeqCst) {
            std::thread::sleep(EVERY);
            let Ok(port @ 1..) = u16::try_from(self.port.load(Ordering::SeqCst)) else { continue };
            count += 1;
            let process = self.process.load(Ordering::SeqCst);
            if client.as_ref().is_some_and(|(of, _)| *of != process) {
                client = None;
            }
            let begun = Instant::now();
            *lock(&self.asked) = Some(begun);
            let answered = question(port, process, &mut client, count % LOGIN_EVERY == 0);
            *lock(&self.asked) = None;
            let mut seen = lock(&self.seen);
            // Of a server that was ended meanwhile nothing is expected.
            if process == self.process.load(Ordering::SeqCst) {
                seen.latencies.push(begun.elapsed());
                seen.failures += usize::from(!answered);
            }
        }
    }

    fn watch(&self, memory_bytes_max: u64) {
        while !self.ended.load(Ordering::SeqCst) {
            std::thread::sleep(EVERY);
            let process = self.process.load(Ordering::SeqCst);
            let bytes = if process == 0 { 0 } else { resident_bytes(process).unwrap_or(0) };
            self.memory_bytes.fetch_max(bytes, Ordering::SeqCst);
            if bytes > memory_bytes_max && self.process.swap(0, Ordering::SeqCst) == process {
                // The machine is not this run's alone.
                let _ =
                    crate::servers::output(std::process::Command::new("kill").args(["-KILL", &process.to_string()]));
            }
        }
    }
}

/// Whether it was answered, by a session that is there or by a new one.
fn question(port: u16, process: u32, client: &mut Option<(u32, Client)>, login: bool) -> bool {
    if login || client.is_none() {
        let target = Target { patience: Some(PATIENCE), ..Target::new(port) };
        *client = Client::connect(&target).ok().map(|client| (process, client));
    }
    let Some((_, asked)) = client else { return false };
    let answered = asked.query("select 1").is_ok_and(|reply| reply.error().is_none());
    if !answered {
        *client = None;
    }
    answered
}

/// Resident memory of a process of this machine, in bytes.
pub fn resident_bytes(process: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    Some(line.split_whitespace().nth(1)?.parse::<u64>().ok()? * 1024)
}

/// The value that `per_cent` of them do not exceed.
pub fn percentile(latencies: &mut [Duration], per_cent: f64) -> Duration {
    latencies.sort_unstable();
    let at = (latencies.len() as f64 * per_cent / 100.0).ceil() as usize;
    latencies.get(at.saturating_sub(1)).copied().unwrap_or_default()
}
