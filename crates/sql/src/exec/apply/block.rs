//! Waiting for a plan from where an expression is evaluated.
//!
//! Expressions are evaluated by plain calls, plans are polled. A thread of the runtime that has
//! to wait here hands its other tasks to another thread first; so a cancel is received, and what
//! the inner plan spawns goes on.

use std::sync::OnceLock;

use datafusion::common::{Result, exec_datafusion_err};
use tokio::runtime::{Builder, Handle, Runtime, RuntimeFlavor};

/// The value of `work`, which is polled until it is there.
pub(crate) fn wait<T: Send>(work: impl Future<Output = Result<T>> + Send) -> Result<T> {
    match Handle::try_current() {
        Ok(handle) if handle.runtime_flavor() == RuntimeFlavor::MultiThread => {
            tokio::task::block_in_place(|| handle.block_on(work))
        }
        // The only thread of such a runtime may not wait: another one does, on another runtime.
        Ok(_) => {
            let apart = apart()?;
            std::thread::scope(|scope| {
                let done = scope.spawn(|| apart.block_on(work)).join();
                done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
        }
        Err(_) => apart()?.block_on(work),
    }
}

fn apart() -> Result<&'static Runtime> {
    static APART: OnceLock<std::io::Result<Runtime>> = OnceLock::new();
    APART
        .get_or_init(|| Builder::new_multi_thread().worker_threads(1).enable_time().build())
        .as_ref()
        .map_err(|error| exec_datafusion_err!("no thread for a subquery: {error}"))
}
