//! LISTEN, UNLISTEN and NOTIFY: what a transaction tells when it commits, and to whom a session listens
//! ([`crate::pg::notify`] has the order and the queues).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use resurgam_engine::{CommitTicket, Durability};

use crate::parse::statement::notify::NotifyCommand;
use crate::pg::notify::{CHANNEL_BYTES_MAX, Hub, Listener, Notification, Pending};
use crate::session::Session;
use crate::session::execution::command;
use crate::session::shared::SessionShared;
use crate::session::transaction::Open;
use crate::wire::{Execution, SqlError};

impl Session {
    pub(crate) fn run_notify(&mut self, statement: &NotifyCommand) -> Result<Execution, SqlError> {
        // Has an effect when a transaction commits: there is one from here on.
        self.transaction().used = true;
        let mut named = |name: &str| {
            let mut end = name.len().min(CHANNEL_BYTES_MAX);
            while !name.is_char_boundary(end) {
                end -= 1;
            }
            let channel = name[..end].to_owned();
            if end < name.len() {
                let message = format!("identifier \"{name}\" will be truncated to \"{channel}\"");
                self.notice(SqlError::notice("NOTICE", "42622", message));
            }
            channel
        };
        match statement {
            NotifyCommand::Listen(channel) => {
                let channel = named(channel);
                self.shared.pending(|pending| pending.listen(&channel))?;
                command("LISTEN")
            }
            NotifyCommand::Unlisten(channel) => {
                let channel = channel.as_deref().map(named);
                if self.listener().is_some() || self.shared.has_pending.load(Ordering::Relaxed) {
                    self.shared.pending(|pending| pending.unlisten(channel.as_deref()))?;
                }
                command("UNLISTEN")
            }
            NotifyCommand::Notify { channel, payload } => {
                let channel = named(channel);
                let bytes_max = self.db.notifications.bytes_max();
                self.shared.pending(|pending| pending.tell(&channel, payload, bytes_max))?;
                command("NOTIFY")
            }
        }
    }

    /// Commits a transaction that tells something, or begins or ends to listen; what it tells is handed over once it is
    /// durable, whether the session waits for that or not.
    pub(crate) async fn commit_telling(&mut self) -> Result<(), SqlError> {
        let pending = self.shared.take_pending();
        let Some(open) = self.open.take() else { return Ok(()) };
        *self.shared.txn.lock() = None;
        let durability = if self.hot().synchronous { Durability::Sync } else { Durability::Async };
        self.close_portals();
        let hub = Arc::clone(&self.db.notifications);
        let committed = match commit_in_order(&self.shared, &hub, &open, &pending, durability) {
            Ok((ticket, number)) => {
                drop(open);
                let told = async move {
                    ticket.await?;
                    number.into_iter().for_each(|number| hub.publish(number));
                    Ok(())
                };
                // By a task of its own: a session that ends meanwhile takes nothing back.
                let done = match number {
                    None => told.await,
                    Some(_) => tokio::spawn(told).await.unwrap_or_else(|error| {
                        Err(resurgam_base::Error::internal(format!("a commit was not waited for: {error}")))
                    }),
                };
                done.map_err(SqlError::from)
            }
            Err(error) => {
                // Where there is no room it is still open.
                if let Err(error) = open.txn.rollback() {
                    tracing::debug!(%error, "a commit that failed");
                }
                self.met |= open.txn.had_met();
                Err(error)
            }
        };
        self.ended(committed.is_ok());
        committed
    }

    /// What the session listens to; `None`: nothing.
    pub fn listener(&self) -> Option<Arc<Listener>> {
        if !self.shared.listens.load(Ordering::Acquire) {
            return None;
        }
        self.shared.listener.lock().clone()
    }

    /// What the session was told since the last call. To be asked between transactions.
    pub fn take_notifications(&self) -> Vec<Arc<Notification>> {
        self.listener().map(|listener| self.db.notifications.take(&listener)).unwrap_or_default()
    }
}

/// Commits `open` next of those that tell something; what [`Hub::publish`] is to be called with. Nobody is waited for under
/// the order, but for the log by who changes definitions.
fn commit_in_order(
    shared: &SessionShared,
    hub: &Hub,
    open: &Open,
    pending: &Pending,
    durability: Durability,
) -> Result<(CommitTicket, Option<u64>), SqlError> {
    let own = shared.listener.lock().clone();
    let order = hub.order(pending, own, shared.pid)?;
    let ticket = open.txn.commit(durability)?;
    let (number, own) = order.committed();
    shared.listens.store(own.is_some(), Ordering::Release);
    *shared.listener.lock() = own;
    Ok((ticket, number))
}

impl SessionShared {
    /// Changes what the open transaction will tell.
    pub(crate) fn pending<T>(&self, change: impl FnOnce(&mut Pending) -> Result<T, SqlError>) -> Result<T, SqlError> {
        self.has_pending.store(true, Ordering::Relaxed);
        change(&mut self.pending.lock())
    }

    /// What it will tell, if anything.
    pub(crate) fn take_pending(&self) -> Pending {
        self.has_pending.store(false, Ordering::Relaxed);
        std::mem::take(&mut *self.pending.lock())
    }

    /// Whether it will tell, or change, something.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        self.has_pending.load(Ordering::Relaxed) && !self.pending.lock().is_empty()
    }
}
