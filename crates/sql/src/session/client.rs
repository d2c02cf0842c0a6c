//! What the server of a session's client asks of it beside statements: notices, reported parameters, its end, what it goes by.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::exec::context::InMessage;
use crate::exec::wait::guarded;
use crate::pg::encode::TextStyle;
use crate::session::Session;
use crate::session::database::CancelHandle;
use crate::session::settings::{ConnectionSettings, Hot};
use crate::wire::SqlError;

impl Session {
    /// Stops this session's running statement from another task.
    pub fn cancel_handle(&self) -> CancelHandle {
        CancelHandle(Arc::clone(&self.shared.stop))
    }

    /// Notices since the last call.
    pub fn take_notices(&mut self) -> Vec<SqlError> {
        let mut notices = Vec::new();
        // Raised after a notice was put there, so that none is passed over for good.
        if self.shared.has_notices.load(Ordering::Acquire) {
            self.shared.has_notices.store(false, Ordering::Release);
            notices = std::mem::take(&mut *self.shared.notices.lock());
        }
        if !self.notices.is_empty() {
            notices.append(&mut self.notices);
        }
        if !notices.is_empty() {
            let least = self.shared.variables.lock().get("client_min_messages");
            notices.retain(|notice| is_told(notice.severity, least.as_deref().unwrap_or_default()));
        }
        notices
    }

    /// Reported parameters that changed since the last call.
    pub fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        if !self.shared.signals.is_changed() {
            return Vec::new();
        }
        self.shared.variables.lock().take_changes()
    }

    /// Reported parameters and their values, for the start of a connection.
    pub fn reported_parameters(&self) -> Vec<(String, String)> {
        self.shared.variables.lock().reported()
    }

    /// The client is gone or has to go: whatever the session holds is given back now.
    pub fn end(&mut self) {
        self.shared.stop.end();
        self.roll_back();
    }

    /// Longest time that the session may sit idle inside a transaction.
    pub fn idle_in_transaction_timeout(&self) -> Option<Duration> {
        let timeout = self.hot().idle_timeout;
        (!timeout.is_zero()).then_some(timeout)
    }

    /// What the server of the connection goes by, if a parameter has changed since `generation`, with the new one.
    pub fn connection_settings(&self, generation: u64) -> Option<(u64, ConnectionSettings)> {
        (self.shared.signals.generation() != generation).then(|| self.shared.variables.lock().connection())
    }

    /// Text of the statement that a portal runs, or of a named statement; for the log.
    pub fn statement_text(&self, portal: &str) -> Option<Arc<str>> {
        self.portals.get(portal).map(|portal| Arc::clone(&portal.prepared.text))
    }

    /// Waits for what the running statement needs of its client, unless the statement is stopped or out of time.
    ///
    /// # Errors
    /// `57014`, `57P01`. The caller has to say so by [`Session::error_occurred`].
    pub fn stoppable<T, W: Future<Output = T>>(
        &self,
        work: W,
    ) -> impl Future<Output = Result<T, SqlError>> + use<T, W> {
        let stop = Arc::clone(&self.shared.stop);
        let deadline = stop.deadline();
        async move { guarded(&stop, deadline, async { Ok(work.await) }).await }
    }

    /// A message of the client comes in. Until the answer is dropped a cancel is kept, whatever part of the work it meets;
    /// without it one that comes between two parts is lost.
    pub fn message(&self) -> InMessage {
        self.shared.stop.message()
    }

    pub(crate) fn notice(&mut self, notice: SqlError) {
        self.notices.push(notice);
    }

    /// A statement begins: what it goes by.
    #[inline]
    pub(crate) fn look_at_settings(&mut self) {
        if !self.shared.signals.is_current(&self.hot) {
            self.hot = self.shared.variables.lock().hot();
        }
    }

    /// What each statement goes by, of the session's settings.
    #[inline]
    pub(crate) fn hot(&self) -> Hot {
        if self.shared.signals.is_current(&self.hot) { self.hot } else { self.shared.variables.lock().hot() }
    }

    pub(crate) fn style(&self) -> TextStyle {
        TextStyle { zone: self.hot().zone, names: Some(Arc::clone(&self.cx)) }
    }
}

/// Whether a client that has set `client_min_messages` to `least` is told of a message of that severity.
pub(super) fn is_told(severity: &str, least: &str) -> bool {
    const WARNINGS: u8 = 2;
    let rank = match severity {
        "INFO" => return true,
        "WARNING" => WARNINGS,
        "NOTICE" => 1,
        _ => 0,
    };
    let wanted = match least {
        "error" => WARNINGS + 1,
        "warning" => WARNINGS,
        "notice" => 1,
        _ => 0,
    };
    rank >= wanted
}
