//! What the simulated disk should do wrong, and when.

use std::path::PathBuf;

/// Which calls fail, of the file or of all files below the folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Failing {
    pub path: PathBuf,
    /// Reads of content.
    pub reads: bool,
    /// Writes: each fails after a random prefix of it was applied.
    pub writes: bool,
    /// Syncs: a random part of the unsynced data reaches the disk, the rest is forgotten.
    pub syncs: bool,
}

/// What becomes of a write that a device acknowledges and does not do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// Nothing of it is written.
    Lost,
    /// It is written so many bytes further on (or back), or, where that is before the file, not at all.
    Elsewhere(i64),
}

/// A write that is not what it is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LyingWrite {
    /// The file.
    pub path: PathBuf,
    /// The write to it that this happens to, from 1, counted from when the plan is set.
    pub at: u64,
    pub lie: Lie,
}

/// A device that does not answer for a while, for a caller with one thread: each call ends at once, as the system ends one that it does
/// not wait for any longer (ETIMEDOUT). What a call was to change is changed late: each by itself, at a random one of the calls that
/// follow, or, where the process is killed, the power lost, or the device answers again before that, then or never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Silent {
    /// From this call on that changes anything (the counted ones of `crash_after_ops`, of all devices) until before that one.
    pub from: u64,
    pub until: u64,
    /// The folder that is on it.
    pub below: PathBuf,
    /// What is changed late is changed within so many of the counted calls.
    pub late: u64,
    /// Where that chance comes from: a source of its own, so that what else the disk does stays what it was.
    pub seed: u64,
    /// A planted bug: what is written late ends in the file of the same name in this folder, where there is one.
    pub lands_in: Option<PathBuf>,
}

/// Faults of a [`SimVfs`](crate::SimVfs), set with
/// [`set_faults`](crate::SimVfs::set_faults). Calls are counted from 1, starting
/// when the plan is set; `None` means never.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// This sync of a file or folder fails; as on Linux, a random part of the
    /// unsynced data reaches the disk and the rest is silently forgotten.
    pub fail_sync_at: Option<u64>,
    /// This write fails after a random prefix of it was applied.
    pub fail_write_at: Option<u64>,
    /// This read fails.
    pub fail_read_at: Option<u64>,
    /// Power is lost during this call, counted over every call that changes
    /// anything (write, resize, sync, create, rename, remove). All later calls
    /// fail until [`SimVfs::crash`](crate::SimVfs::crash) is taken.
    pub crash_after_ops: Option<u64>,
    /// Bytes that all files together may hold; more is a `DiskFull` error.
    pub capacity_bytes: Option<u64>,
    /// A second, smaller disk: what the files below this folder together may hold, in bytes.
    pub small_disk: Option<(PathBuf, u64)>,
    /// Calls that fail for as long as the plan is set: a device that does not answer.
    pub failing: Vec<Failing>,
    /// From this call on that changes anything (the counted ones of `crash_after_ops`), all that is below the folder fails: a
    /// device that dies.
    pub dies: Option<(u64, PathBuf)>,
    /// From this call on that changes anything, calls to all that is below the folder do not end until another plan is set, or the power
    /// is lost: a device that hangs. Then they are done as ever, however late.
    pub hangs: Option<(u64, PathBuf)>,
    /// A device that does not answer for a while, and does late what it was asked for.
    pub silent: Option<Silent>,
    /// Writes that are acknowledged and lost, or put elsewhere; syncs say nothing of it.
    pub lying: Vec<LyingWrite>,
    /// A planted bug: syncs of this one file report success and do nothing.
    pub skip_sync_of: Option<PathBuf>,
    /// A planted bug: sync reports success and does nothing. A crash test that
    /// passes with it tests nothing.
    pub skip_sync: bool,
}
