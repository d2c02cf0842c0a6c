//! Waiting for other transactions, and for a statement's work, cancellable and bounded.

use std::time::Duration;

use resurgam_engine::{Attempt, LockWait};
use tokio::time::Instant;

use crate::exec::context::StopFlag;
use crate::wire::SqlError;

/// What ends a wait early.
#[derive(Clone, Copy)]
pub(crate) struct Waiting<'a> {
    pub stop: &'a StopFlag,
    /// Zero is no limit.
    pub lock_timeout: Duration,
}

impl Waiting<'_> {
    /// Waits until the lock's holder has ended.
    ///
    /// # Errors
    /// `40P01` deadlock, `57014` cancelled or out of time, `55P03` lock timeout.
    pub(crate) async fn wait(&self, wait: LockWait) -> Result<(), SqlError> {
        let limit = async {
            if self.lock_timeout.is_zero() {
                std::future::pending::<()>().await;
            } else {
                tokio::time::sleep(self.lock_timeout).await;
            }
        };
        tokio::select! {
            biased;
            done = wait => done.map_err(SqlError::from),
            error = self.stop.stopped() => Err(error),
            () = limit => Err(SqlError::new("55P03", "canceling statement due to lock timeout")),
        }
    }
}

/// Repeats an operation until nothing is in its way.
pub(crate) async fn settle<T>(
    waiting: &Waiting<'_>,
    mut attempt: impl FnMut() -> resurgam_base::Result<Attempt<T>>,
) -> Result<T, SqlError> {
    loop {
        match attempt()? {
            Attempt::Done(value) => return Ok(value),
            Attempt::Wait(wait) => waiting.wait(wait).await?,
        }
    }
}

/// Waits for `work` unless the statement is stopped or out of time.
pub(crate) async fn guarded<T>(
    stop: &StopFlag,
    deadline: Option<Instant>,
    work: impl Future<Output = Result<T, SqlError>>,
) -> Result<T, SqlError> {
    if let Some(deadline) = deadline {
        stop.set_deadline(deadline);
    }
    let limit = async {
        match deadline {
            // The work may have used up what the runtime lets a task do in one go; the clock is asked anyway.
            Some(deadline) => tokio::task::unconstrained(tokio::time::sleep_until(deadline)).await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        done = work => done,
        error = stop.stopped() => Err(error),
        () = limit => Err(out_of_time()),
    }
}

#[cold]
pub(crate) fn out_of_time() -> SqlError {
    SqlError::new("57014", "canceling statement due to statement timeout")
}
