//! The archiver as a consumer of the log service, in its process: blocks that are pulled like a page server's become runs of the archive.
//!
//! What is to be done next, and whose the archive is, `resurgam-xlog`'s `archiving.rs` decides; here it is done. Merging and retention go on beside, in the same
//! process (`keeping.rs`); backups are the primary's.
//!
//! | what happens | what it does |
//! |---|---|
//! | the primary is killed, or moves | archives what is hardened, and goes on with the next one's log |
//! | the log service is killed | begins at the archive's end, when the archive has stood still for a lease |
//! | several log services are given the archive | one of them archives; another one takes over when the archive stands still although there is log for it |
//! | it was paused meanwhile | finds that the archive was claimed, and stands aside; it has added nothing |
//! | the archive cannot be reached | tries again; the long-term log is kept from the archive's last block on, however old it is |
//! | the archive is of another history, or ends before the log that is kept | refuses, with the reason in its status |

use std::sync::Arc;
use std::time::Duration;

use resurgam_archive::{Archive, ArchiveConfig, Archiver, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_engine::{ArchiveKeeperConfig, ArchiveKept};
use resurgam_log::{Block, BlockMark};
use resurgam_xlog::{ArchiveEnd, Archiving, ArchivingConfig, Done, Piece, Step};
use resurgam_xstore::Store;

use crate::keeping::Keeper;

/// Under which it asks for log.
pub(crate) const CONSUMER: &str = "the archive";
/// Old manifests are deleted after so many runs.
const TIDY_EACH: u32 = 16;
/// Longest wait for the block that is compared.
const COMPARE: Duration = Duration::from_secs(5);

/// An archive that a log service is to write.
#[derive(Clone)]
pub struct ArchiveTarget {
    /// Opens its place anew.
    pub open: Arc<dyn Fn() -> Result<Arc<dyn Store>> + Send + Sync>,
    pub config: ArchivingConfig,
    /// How it is merged, and what is given up of it; none: that is the primary's, beside.
    pub keep: Option<ArchiveKeeperConfig>,
}

/// What an operator can see of it.
#[derive(Clone, Debug, Default)]
pub struct ArchivingShown {
    /// It is this log service that archives.
    pub works: bool,
    /// The archive's end, as it was seen last; none: it could not be looked at yet.
    pub archived: Option<Lsn>,
    /// Runs that were made since the start.
    pub runs: u64,
    /// Why it does not go on.
    pub error: Option<String>,
    /// What is done beside adding runs; none: the primary merges.
    pub kept: Option<ArchiveKept>,
}

/// The log, as it is asked for blocks.
pub(crate) struct Source<'a> {
    pub database: [u8; 16],
    pub segment_bytes: u64,
    pub oldest: Lsn,
    /// Drawn anew for each claim.
    pub random: &'a dyn Fn() -> u64,
    /// Blocks from there on, within so long.
    pub pull: &'a dyn Fn(Lsn, Duration) -> Result<Vec<Arc<Piece>>>,
}

/// See the module. Used by one thread.
pub(crate) struct Consumer {
    target: ArchiveTarget,
    keeper: Arc<Keeper>,
    machine: Archiving,
    /// Opened once: that may take writing.
    store: Option<Arc<dyn Store>>,
    /// The archive, while it is one's own: with its owner, and the block that was taken last.
    own: Option<(Archiver, u64, Lsn)>,
    runs: u64,
    error: Option<String>,
    said: Option<String>,
}

impl Consumer {
    pub fn new(target: ArchiveTarget, keeper: Arc<Keeper>) -> Self {
        let machine = Archiving::new(target.config);
        Self { target, keeper, machine, store: None, own: None, runs: 0, error: None, said: None }
    }

    /// What is to be done now that this has become of the last step.
    pub fn next(&mut self, now: Duration, hardened: Lsn, done: Done) -> Step {
        if matches!(done, Done::Lost | Done::Broken | Done::Refused) {
            self.own = None;
            self.keeper.ends();
        }
        self.machine.next(now, hardened, done)
    }

    /// The log has to be kept from there on.
    pub fn keep_from(&self) -> Lsn {
        self.machine.keep_from()
    }

    /// Up to where it has blocks, and up to where they are in runs; none: another one archives, or nobody.
    pub fn position(&self) -> Option<(Lsn, Lsn)> {
        let status = self.machine.status();
        status.works.then(|| (status.gathered, status.archive.map_or(Lsn::NONE, |end| end.end)))
    }

    pub fn shown(&self) -> ArchivingShown {
        let status = self.machine.status();
        ArchivingShown {
            works: status.works,
            archived: status.archive.map(|end| end.end),
            runs: self.runs,
            error: self.error.clone(),
            kept: None,
        }
    }

    /// Does it; a wait is the caller's.
    pub fn perform(&mut self, source: &Source<'_>, step: Step) -> Done {
        let is_quiet = matches!(step, Step::Wait(_) | Step::Pull { .. } | Step::Take(_));
        let outcome = match step {
            Step::Wait(_) => Ok(Done::Nothing),
            Step::Look => self.look(source).map(|(_, end)| Done::Looked(end)),
            Step::Claim => self.claim(source),
            Step::Pull { from, wait } => (source.pull)(from, wait).map(Done::Pulled),
            Step::Take(pieces) => return self.take(source, &pieces),
            Step::Seal => self.seal(),
        };
        match outcome {
            Ok(done) => {
                if !is_quiet {
                    self.error = None;
                    self.said = None;
                }
                done
            }
            Err(error) => self.failed(&error),
        }
    }

    fn failed(&mut self, error: &Error) -> Done {
        use ErrorKind::{Corrupt, DiskFull, InUse, InvalidParameter, Io, NewerFormat, NotADatabase, OutOfMemory};
        use ErrorKind::{NotInPrerequisiteState, NotSupported};
        let done = match error.kind() {
            InUse => Done::Lost,
            Io | DiskFull | OutOfMemory => Done::Failed,
            NewerFormat | NotADatabase | NotInPrerequisiteState | NotSupported | InvalidParameter | Corrupt => {
                Done::Refused
            }
            _ => Done::Broken,
        };
        let text = error.to_string();
        if self.said.as_ref() != Some(&text) {
            match done {
                Done::Lost => tracing::info!("another process archives the log: {text}"),
                _ => tracing::warn!("the log is not archived now: {text}"),
            }
            self.said = Some(text.clone());
        }
        self.error = (!matches!(done, Done::Lost)).then_some(text);
        done
    }

    fn store(&mut self) -> Result<Arc<dyn Store>> {
        if let Some(store) = &self.store {
            return Ok(Arc::clone(store));
        }
        Ok(Arc::clone(self.store.insert((self.target.open)()?)))
    }

    fn look(&mut self, source: &Source<'_>) -> Result<(Option<Arc<View>>, Option<ArchiveEnd>)> {
        let store = self.store()?;
        let view = Archive::open_view(Arc::clone(&store), Some(source.database))?;
        if view.is_none() && self.machine.status().archive.is_some() {
            // A disk that is not mounted any more is no reason to begin an archive.
            let what = format!("the manifests of the archive in {} are gone", store.place());
            return Err(Error::new(ErrorKind::Io, what));
        }
        let end = view.as_ref().map(end_of).transpose()?;
        Ok((view, end))
    }

    fn claim(&mut self, source: &Source<'_>) -> Result<Done> {
        // Looked at before it is claimed: a log that is not the archive's leaves it alone.
        let (view, _) = self.look(source)?;
        let known = view.as_ref().map_or(Lsn::NONE, |view| view.end());
        if let Some(view) = view.filter(|view| view.end().is_some()) {
            is_of_log(&view, source)?;
        }
        let owner = (source.random)().max(1);
        let keeper = Arc::clone(&self.keeper);
        // Else a step of the claim before would look like another process's.
        let steps = keeper.between_steps();
        let archive = Archive::open_to_append(self.store()?, source.database, owner, Some(known))?;
        let end = end_of(&archive.view())?;
        let runs = Archiver::new(archive, ArchiveConfig::default());
        let from = runs.resume_lsn().unwrap_or(source.oldest);
        tracing::info!("this log service archives the log from LSN {from} on, in {}", runs.archive().store().place());
        keeper.begins(runs.archive());
        drop(steps);
        self.own = Some((runs, owner, end.last_block));
        Ok(Done::Claimed { end, from })
    }

    fn take(&mut self, source: &Source<'_>, pieces: &[Arc<Piece>]) -> Done {
        let Some((runs, _, last)) = &mut self.own else { return Done::Broken };
        let mut take = || -> Result<()> {
            for piece in pieces {
                runs.take(&Block::parse(&piece.bytes, piece.lsn, source.segment_bytes)?)?;
                *last = piece.lsn;
            }
            Ok(())
        };
        match take() {
            Ok(()) => Done::Taken,
            // How many were taken is not known: they are all pulled again.
            Err(error) => match self.failed(&error) {
                Done::Lost => Done::Lost,
                _ => Done::Broken,
            },
        }
    }

    fn seal(&mut self) -> Result<Done> {
        let Some((runs, owner, last)) = &mut self.own else { return Ok(Done::Broken) };
        let end = runs.seal()?;
        self.runs += 1;
        if self.runs.is_multiple_of(u64::from(TIDY_EACH)) {
            // What merges have replaced as well. What fails is tried again with the next ones.
            let _ = runs.archive().delete_replaced();
        }
        Ok(Done::Sealed(ArchiveEnd { owner: *owner, end, last_block: *last }))
    }
}

fn end_of(view: &Arc<View>) -> Result<ArchiveEnd> {
    let last_block = view.last_block()?.map_or(Lsn::NONE, |mark| mark.lsn);
    Ok(ArchiveEnd { owner: view.manifest().owner, end: view.end(), last_block })
}

/// That the log has the archive's last block: another one is of another history.
fn is_of_log(view: &Arc<View>, source: &Source<'_>) -> Result<()> {
    let Some(last) = view.last_block()? else { return Ok(()) };
    if last.lsn < source.oldest {
        // What an earlier version has archived: position and epoch say what they can.
        let what = format!(
            "the log is kept from LSN {} on, and the archive's last block is at LSN {}: it cannot be told whether both are of one history",
            source.oldest, last.lsn
        );
        return if last.opening == 0 { Ok(()) } else { Err(Error::new(ErrorKind::NotInPrerequisiteState, what)) };
    }
    let pieces = (source.pull)(last.lsn, COMPARE)?;
    let Some(piece) = pieces.first() else {
        let what = format!("the log has not come to the archive's last block at LSN {} yet", last.lsn);
        return Err(Error::new(ErrorKind::Io, what));
    };
    let mark = Block::parse(&piece.bytes, piece.lsn, source.segment_bytes)?.mark();
    let known = BlockMark { opening: 0, checksum: 0, ..mark };
    if mark == last || (last.opening == 0 && last.checksum == 0 && known == last) {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::NotInPrerequisiteState,
        format!("the archive is of another history of this database: its last block is at LSN {}, and the log has another block there", last.lsn),
    )
    .with_hint("Name an empty place for a new archive, or the right log."))
}
