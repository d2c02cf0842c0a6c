//! The archiver: takes blocks of the log in order, and makes runs of them.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_log::{Block, OwnedRecord};

use crate::archive::{Archive, make_run};
use crate::workspace::Workspace;
use crate::writer::{FrameSizes, RunWriter};

/// Settings of an [`Archiver`] and of merging.
#[derive(Clone, Debug)]
pub struct ArchiveConfig {
    /// Memory in which records are sorted, in bytes; with so much of it in use a run is written. At least a block of the log
    /// fits always.
    pub workspace_bytes: usize,
    /// Content of a frame of page records before it is compressed, in bytes: what a lookup of a page reads.
    pub frame_bytes: usize,
    /// So many runs of one level are merged into one of the next; where more of them wait, as many as `fan_in_max`: fewer levels, for
    /// more runs that a reader has to look at meanwhile.
    pub fan_in: usize,
    pub fan_in_max: usize,
    /// No runs of a higher level are made.
    pub levels_max: u16,
    /// Merged runs are read again, whole, before they take the place of what they are made of.
    pub verify_merges: bool,
}

impl Default for ArchiveConfig {
    fn default() -> Self {
        Self {
            workspace_bytes: 64 << 20,
            frame_bytes: 32 << 10,
            fan_in: 8,
            fan_in_max: 64,
            levels_max: 8,
            verify_merges: true,
        }
    }
}

impl ArchiveConfig {
    pub(crate) fn sizes(&self) -> FrameSizes {
        FrameSizes { pages: self.frame_bytes.max(64), other: (self.frame_bytes / 2).max(64) }
    }
}

/// Counters of an [`Archiver`], from its making.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ArchiverStats {
    /// Blocks of the log that were taken, and their bytes of records.
    pub blocks: u64,
    pub payload_bytes: u64,
    /// Runs that were made, and their bytes.
    pub runs: u64,
    pub run_bytes: u64,
    /// Attempts to make a run that failed.
    pub failures: u64,
    /// Bytes of the workspace in use now.
    pub workspace_bytes: u64,
}

/// See the module. Used by one thread; what it has made is read through [`Archive::view`].
pub struct Archiver {
    archive: Arc<Archive>,
    config: ArchiveConfig,
    pub(crate) workspace: Workspace,
    /// Where the next block begins; none: any.
    next: Lsn,
    epoch: u32,
    stats: ArchiverStats,
}

impl Archiver {
    /// An archiver that goes on where the archive ends.
    pub fn new(archive: Arc<Archive>, config: ArchiveConfig) -> Self {
        let view = archive.view();
        let epoch = view.manifest().runs.last().map_or(0, |run| run.last_epoch);
        let next = view.end();
        Self { archive, config, workspace: Workspace::default(), next, epoch, stats: ArchiverStats::default() }
    }

    /// The archive that it writes.
    pub fn archive(&self) -> &Arc<Archive> {
        &self.archive
    }

    /// Where the next block that it takes must begin; `None`: nothing was archived yet, and it takes any first block: that
    /// of the oldest log there is.
    pub fn resume_lsn(&self) -> Option<Lsn> {
        self.next.is_some().then_some(self.next)
    }

    /// Everything below is in durable runs: log below it is no longer needed for the archive. None: nothing is.
    pub fn durable_to(&self) -> Lsn {
        self.archive.view().end()
    }

    /// Takes the next block of the log. **It must be durable**: behind the log's durable position LSNs may be given out
    /// again after a crash. Writes a run first when there is no room for it.
    ///
    /// # Errors
    /// `InvalidParameter` when it is not the next one; `Corrupt` when it is of an earlier epoch; those of
    /// [`Archiver::seal`]. After an error it was not taken, and may be given again.
    pub fn take(&mut self, block: &Block<'_>) -> Result<()> {
        if self.next.is_some() && block.lsn() != self.next {
            return Err(Error::new(
                ErrorKind::InvalidParameter,
                format!("the archive expects the log block at LSN {}, not the one at LSN {}", self.next, block.lsn()),
            ));
        }
        let epoch = block.header().epoch;
        if epoch < self.epoch {
            return Err(Error::corrupt(format!(
                "the log block at LSN {} is of epoch {epoch}, the one before it of {}: it is of an earlier log",
                block.lsn(),
                self.epoch
            )));
        }
        let more = Workspace::memory_of_block(u64::from(block.header().payload_len));
        let full = self.workspace.memory_bytes() + more > self.config.workspace_bytes;
        if !self.workspace.is_empty() && (full || self.workspace.is_at_its_limit()) {
            self.seal()?;
        }
        self.workspace.take(block);
        (self.next, self.epoch) = (block.next(), epoch);
        self.stats.blocks += 1;
        self.stats.payload_bytes += u64::from(block.header().payload_len);
        Ok(())
    }

    /// Makes a durable run of what was taken since the last one, if anything was. Returns [`Archiver::durable_to`].
    ///
    /// # Errors
    /// Those of the store, `InUse` when somebody else writes to the archive now: what was taken stays in memory, and it
    /// may be called again. `Internal` when records are missing.
    pub fn seal(&mut self) -> Result<Lsn> {
        if self.workspace.is_empty() {
            return Ok(self.durable_to());
        }
        let sealed = self.try_seal();
        if sealed.is_err() {
            self.stats.failures += 1;
        }
        sealed
    }

    fn try_seal(&mut self) -> Result<Lsn> {
        let Self { archive, workspace, config, .. } = self;
        let (start, end) = (workspace.start, workspace.end);
        let meta = make_run(archive, 0, start, end, |id| {
            let mut writer = RunWriter::new(&archive.store, id, config.sizes(), workspace.summary())?;
            workspace.write(&mut writer)?;
            writer.finish()
        })?;
        // If it cannot be said whether the manifest was made, the file stays: it may be named. The next opening knows.
        let named = archive.append(meta)?;
        if named {
            self.stats.runs += 1;
            self.stats.run_bytes += meta.len;
        } else {
            archive.discard(&meta.id);
        }
        self.workspace.clear();
        Ok(self.durable_to())
    }

    /// Records of a page after `from` that are in memory and in no run yet, in order of LSN: what a restore adds to
    /// [`View::records_of`](crate::View::records_of) of the view that was taken *after* this call, less what is in both.
    ///
    /// # Errors
    /// `Corrupt`: a bug, or memory that is.
    pub fn unsorted_records_of(&self, page: PageId, from: Lsn) -> Result<Vec<OwnedRecord>> {
        self.workspace.records_of(page, from)
    }

    /// Where what is in memory begins; none: nothing is.
    pub fn unsorted_from(&self) -> Lsn {
        self.workspace.start
    }

    /// Counters.
    pub fn stats(&self) -> ArchiverStats {
        ArchiverStats { workspace_bytes: self.workspace.memory_bytes() as u64, ..self.stats }
    }
}
