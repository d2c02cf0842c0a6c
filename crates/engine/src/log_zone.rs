//! A database whose log is where other machines reach it, in a landing zone ([`Options::log_zone`](crate::Options::log_zone)): whoever opens it
//! takes the log first, waits for whoever had it, and finds there what the control file of the last one said (*Socrates*, section 4.3).
//!
//! # Order of an open
//! take (nobody else acknowledges any more) → control file made anew from the zone → analysis → kept under the new epoch → log opened in files of its own →
//! the sink stands between these and who waits for them.
//!
//! What is local counts for nothing: the log folder is locked by the lease, not by a lock of the file system, and checkpoints
//! count when the zone has kept them.

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_log::{Log, LogSink};
use resurgam_recovery::{Control, ControlFile};
use resurgam_vfs::Vfs;

use crate::database::Database;
use crate::keeper::ArchiveKept;
use crate::options::Options;

/// A log that was taken.
#[derive(Clone, Copy, Debug)]
pub struct ZoneTaken {
    /// It is opened under this epoch; the one before it is nobody else's, too.
    pub epoch: u32,
    /// Whose log it is, and what the control file of the last one said; none: the database is not made yet.
    pub of: Option<([u8; 16], Control)>,
}

/// A landing zone.
pub trait LogZone: Send + Sync {
    /// Takes the log, and waits for whoever has it. The epoch is above `epoch_above`.
    ///
    /// # Errors
    /// Those of what says who has it.
    fn take(&self, vfs: &Arc<dyn Vfs>, epoch_above: u32) -> Result<ZoneTaken>;

    /// Keeps what the control file says.
    ///
    /// # Errors
    /// `Stopped` when another one has taken the log; `Io`.
    fn keep(&self, database: [u8; 16], control: &Control) -> Result<()>;

    /// The log is open, and nothing was appended to it yet.
    ///
    /// # Errors
    /// Those of holding the log.
    fn attach(&self, database: [u8; 16], log: &Arc<Log>) -> Result<Arc<dyn LogSink>>;

    /// Whether this process has the log still. Where it has, nobody else has written any: asked after something has come from elsewhere, it says that
    /// this is of this process's own history.
    ///
    /// # Errors
    /// `Stopped` when another one has the log; `Io` when that is not known.
    fn check(&self) -> Result<()>;

    /// Gives the log back: nothing can be acknowledged any more, and the next one does not wait.
    fn release(&self);

    /// The log service that archives the log, as far as is known; none: none has said that it does.
    fn archiver(&self) -> Option<LogArchiver> {
        None
    }

    /// For operators; none: it was not taken.
    fn status(&self) -> Option<LogServiceStatus>;
}

/// A log service that archives the log ([`Options::archive_elsewhere`](crate::Options::archive_elsewhere)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LogArchiver {
    /// Its address.
    pub service: String,
    /// It has gathered the log up to there, and all below the second is in durable runs.
    pub gathered: Lsn,
    pub archived: Lsn,
    /// How long ago it was at work.
    pub silent: Duration,
    /// It merges runs as well, and gives up what is not promised where it has a recovery window: what it says of that. None: it only adds runs, as those
    /// of before do.
    pub keeps: Option<ArchiveKept>,
}

/// Where the log is, as its writer sees it.
#[derive(Clone, Debug, Default)]
pub struct LogServiceStatus {
    pub epoch: u32,
    /// Where this writer's part of the log begins.
    pub start: Lsn,
    /// Durable in the zone, and acknowledged.
    pub hardened: Lsn,
    /// The lease is valid for so long.
    pub lease_left: Duration,
    pub services: Vec<LogService>,
}

/// A log service, as the writer sees it.
#[derive(Clone, Debug, Default)]
pub struct LogService {
    pub address: String,
    /// It gives out the log up to there.
    pub disseminated: Lsn,
    /// It is in the long-term log up to there: below, the zone is given up.
    pub destaged: Lsn,
    /// Blocks that were sent, and that were not: it fetches those from the zone.
    pub blocks: u64,
    pub dropped: u64,
    pub error: Option<String>,
}

/// A landing zone, as an option.
#[derive(Clone)]
pub struct LogZoneHandle(pub Arc<dyn LogZone>);

impl fmt::Debug for LogZoneHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("landing zone")
    }
}

impl Database {
    /// Where its log is; none: in files of its own.
    pub fn log_service(&self) -> Option<LogServiceStatus> {
        self.inner().options.log_zone.as_ref().and_then(|LogZoneHandle(zone)| zone.status())
    }
}

/// Takes the log, and makes the control file of the data folder what the zone says. Gives what was taken, and whether there is a control file.
///
/// # Errors
/// `NotSupported` for a database with pages of its own, whose data file could be older than the zone's checkpoint; those of taking.
pub(crate) fn take(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    control: &Path,
    options: &Options,
    has_control: bool,
) -> Result<Option<(ZoneTaken, bool)>> {
    let Some(LogZoneHandle(zone)) = &options.log_zone else { return Ok(None) };
    if options.pages.is_none() || options.log_dir.is_none() {
        return Err(Error::new(ErrorKind::NotSupported, "a log in a landing zone goes with page servers only")
            .with_hint(
                "Name them (page_servers); the data file of one machine would be older than a log that others write.",
            ));
    }
    let known = match has_control {
        true => ControlFile::open(vfs, control, true)?.1.epoch,
        false => 0,
    };
    let taken = zone.take(vfs, known)?;
    let Some((_, of_zone)) = taken.of else { return Ok(Some((taken, has_control))) };
    let beside = control.with_extension("new");
    if vfs.exists(&beside)? {
        vfs.remove(&beside)?;
    }
    ControlFile::create(vfs, &beside, Control { clean: false, ..of_zone })?;
    vfs.rename(&beside, control)?;
    vfs.sync_dir(dir)?;
    Ok(Some((taken, true)))
}
