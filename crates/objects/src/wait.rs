//! Requests run on two threads of their own; whoever calls waits for the answer. Callers are the engine's threads, which
//! know nothing of tasks, and at times a server's task: neither may run another runtime's tasks in place, so the answer
//! comes through a channel.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::mpsc;

use resurgam_xstore::{StoreError, StoreErrorKind, StoreResult};
use tokio::runtime::{Builder, Runtime};

/// Threads that requests run on: they wait for the network, and encrypt.
const THREADS: usize = 2;

fn runtime() -> StoreResult<&'static Runtime> {
    static RUNTIME: OnceLock<Result<Runtime, String>> = OnceLock::new();
    let made = RUNTIME.get_or_init(|| {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(THREADS).thread_name("objects").enable_all().build().map_err(|e| e.to_string())
    });
    made.as_ref().map_err(|error| {
        StoreError::new(
            StoreErrorKind::Unavailable,
            format!("no threads can be started for requests to object stores: {error}"),
        )
    })
}

/// The answer of a request that has been sent on its way.
pub(crate) struct Pending<T>(mpsc::Receiver<T>);

impl<T> Pending<T> {
    /// Waits for it.
    ///
    /// # Errors
    /// `Uncertain` when the request has panicked.
    pub fn wait(self) -> StoreResult<T> {
        self.0
            .recv()
            .map_err(|_| StoreError::new(StoreErrorKind::Uncertain, "a request to an object store has panicked"))
    }
}

/// Sends a request on its way.
///
/// # Errors
/// `Unavailable` when there are no threads for it.
pub(crate) fn start<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> StoreResult<Pending<T>> {
    let (answer, pending) = mpsc::sync_channel(1);
    runtime()?.spawn(async move {
        // Who has lost interest does not listen.
        let _ = answer.send(request.await);
    });
    Ok(Pending(pending))
}

/// Does a request, and waits for its answer.
///
/// # Errors
/// Those of [`start`] and [`Pending::wait`].
pub(crate) fn wait<T: Send + 'static>(request: impl Future<Output = T> + Send + 'static) -> StoreResult<T> {
    start(request)?.wait()
}
