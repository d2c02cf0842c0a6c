//! The log of the same process as the source of blocks: what a page server beside the primary, and the tests, apply.

use std::sync::Arc;
use std::time::Duration;

use resurgam_base::Result;
use resurgam_log::{Log, LogFollower, LogHold};

use crate::server::PageServer;

/// Feeds a page server from a log, and keeps what of the log it needs after a crash.
pub struct LogTail {
    server: Arc<PageServer>,
    log: Arc<Log>,
    hold: LogHold,
    follower: Option<LogFollower>,
}

impl LogTail {
    /// From the server's position on.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when that is not kept any more: the server is to be made anew, from the archive.
    pub fn new(server: Arc<PageServer>, log: Arc<Log>) -> Result<Self> {
        let hold = log.hold("a page server", server.durable())?;
        Ok(Self { server, log, hold, follower: None })
    }

    /// Applies the next durable block; false when there was none for as long as `wait`.
    ///
    /// # Errors
    /// Those of reading the log and of applying it. It may be asked again: it goes on where the server is.
    pub fn step(&mut self, wait: Duration) -> Result<bool> {
        let position = self.server.position();
        let mut follower = match self.follower.take() {
            Some(follower) if follower.position() == position => follower,
            _ => self.log.follow(position)?,
        };
        let Some(block) = follower.next(wait)? else {
            self.follower = Some(follower);
            return Ok(false);
        };
        self.server.apply(block.lsn(), block.next(), block.records())?;
        self.follower = Some(follower);
        Ok(true)
    }

    /// Makes durable what is applied, and lets the log go that is not needed any more.
    ///
    /// # Errors
    /// Those of [`PageServer::checkpoint`].
    pub fn checkpoint(&self) -> Result<()> {
        self.hold.advance(self.server.checkpoint()?);
        Ok(())
    }
}
