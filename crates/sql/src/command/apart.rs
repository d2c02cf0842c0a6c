//! Long work of the engine on a thread that may block, beside a statement that can be cancelled.
//!
//! # Invariants
//! 1. A statement ends soon after a cancel or at its `statement_timeout`, with `57014`; the work is
//!    told by a flag, which it asks again and again, and ends by itself.
//! 2. Where it matters to know what was done ([`Ending::Awaited`]) the statement ends only when the
//!    work has: told of a cancel when it is past its last question, the work is done and so is the
//!    statement.

use std::sync::Arc;

use resurgam_engine::{Database, ErrorKind};

use crate::exec::context::Dropped;
use crate::exec::wait::guarded;
use crate::session::Session;
use crate::wire::SqlError;

/// What a statement that is to stop does about its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// Leaves it to end by itself: nothing depends on how far it came.
    Abandoned,
    /// Waits for its answer.
    Awaited,
}

impl Session {
    /// Runs long work of the engine on a thread that may block. The statement's own snapshot
    /// is let go of first: it would keep versions from being cleaned.
    pub(crate) async fn apart<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Database) -> resurgam_engine::Result<T> + Send + 'static,
    ) -> Result<T, SqlError> {
        self.let_go();
        let engine = self.db.engine.clone();
        finished(tokio::task::spawn_blocking(move || work(&engine)).await)
    }

    /// As [`Session::apart`], of work that ends early when its second argument says so.
    ///
    /// # Errors
    /// `57014`; those of the work.
    pub(crate) async fn apart_until_stopped<T: Send + 'static>(
        &mut self,
        ending: Ending,
        work: impl FnOnce(&Database, &(dyn Fn() -> bool + Sync)) -> resurgam_engine::Result<T> + Send + 'static,
    ) -> Result<T, SqlError> {
        self.let_go();
        let (stop, deadline) = (Arc::clone(&self.shared.stop), self.deadline());
        let engine = self.db.engine.clone();
        let told = Dropped::default();
        let cancelled = told.question();
        let mut running = tokio::task::spawn_blocking(move || work(&engine, &cancelled));
        let answer = async { Ok((&mut running).await) };
        match guarded(&stop, deadline, answer).await {
            Ok(answer) => finished(answer),
            Err(stopped) => {
                drop(told);
                if ending == Ending::Abandoned {
                    return Err(stopped);
                }
                match running.await {
                    Ok(Err(error)) if error.kind() == ErrorKind::Cancelled => Err(stopped),
                    answer => finished(answer),
                }
            }
        }
    }

    fn let_go(&mut self) {
        if self.open.as_ref().is_some_and(|open| !open.block && !open.used) {
            self.drop_transaction();
        }
    }
}

fn finished<T>(answer: Result<resurgam_engine::Result<T>, tokio::task::JoinError>) -> Result<T, SqlError> {
    match answer {
        Ok(result) => Ok(result?),
        Err(error) => Err(SqlError::internal(format!("the work did not finish: {error}"))),
    }
}
