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
    /// See [`LogTail::filter`].
    filter: Filter,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Filter {
    Off,
    On,
    /// A mistake that tests make on purpose: every so many blocks that matter are left out, too.
    Drops(u64),
}

impl LogTail {
    /// From the server's position on.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when that is not kept any more: the server is to be made anew, from the archive.
    pub fn new(server: Arc<PageServer>, log: Arc<Log>) -> Result<Self> {
        let hold = log.hold("a page server", server.durable())?;
        Ok(Self { server, log, hold, follower: None, filter: Filter::Off })
    }

    /// Blocks without a record of the server's pages are left out from here on, as a log service leaves them out for it; `drops`: and every so
    /// many of the others, which is a mistake. After a record has shown that one was missing nothing is left out any more.
    pub fn filter(&mut self, drops: Option<u64>) {
        self.filter = drops.map_or(Filter::On, Filter::Drops);
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
        let matters = self.filter == Filter::Off || self.server.partitions().matters(block.records());
        let dropped = matches!(self.filter, Filter::Drops(each) if (block.lsn().0 / 512) % each == each - 1);
        if !matters || dropped {
            self.server.skip_to(block.next())?;
        } else if self.filter == Filter::Off {
            self.server.apply(block.lsn(), block.next(), block.records())?;
        } else if self.server.apply_filtered(block.lsn(), block.next(), block.records())?.is_some() {
            self.server.go_back();
            self.filter = Filter::Off;
            return Ok(true);
        }
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
