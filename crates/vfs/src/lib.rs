//! Files, clock and randomness: the real ones and a simulated disk.
//!
//! The only crate that touches the outside world. Everything above it is given
//! an [`Arc<dyn Vfs>`](Vfs) and is therefore deterministic under [`SimVfs`],
//! which loses unsynced writes, tears them at sector boundaries, fails the Nth
//! call, flips bits and runs out of space, all from one seed.
//!
//! # What an implementation promises
//! 1. A write is seen by every reader of the file as soon as it returns.
//! 2. A write is durable after a later [`File::sync`] of *that file* returned `Ok`.
//!    Until then any subset of its sectors may survive a power loss.
//! 3. Creating, renaming or removing a name, a folder's too, is durable after a later
//!    [`Vfs::sync_dir`] of its folder returned `Ok`.
//! 4. After a failed `sync` nothing is known about the unsynced data, and a
//!    second `sync` may report success without having written it: never retry.
//! 5. Every handle that was open when data was lost is told so: its next `sync`, which
//!    may be under way, fails, whoever else was told. (Linux: each open file has its own
//!    mark in the errors of writing back. Two threads that sync through *one* handle do
//!    not have that promise: one of them may be told of the other's loss in its place.)
//!
//! Calls may take as long as the device takes. Where that must have an end they go through a [`Gate`].
//!
//! # What it does not promise
//! Atomicity of a write of any size, and any order between unsynced writes.

mod gate;
mod priority;
mod private;
mod real;
mod sim;
mod small;
mod stats;

use std::io::IoSlice;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resurgam_base::{Error, Result};

pub use gate::Gate;
pub use priority::{MachineTime, ask_for_short_slices, lower_priority, thread_time};
pub use real::RealVfs;
pub use sim::{Failing, FaultPlan, Lie, LyingWrite, Silent, SimConfig, SimVfs};
pub use small::{read_small, replace_by, replace_small};
pub use stats::VfsStats;

/// Seconds from 1970-01-01 to 2000-01-01 UTC, PostgreSQL's epoch.
pub const POSTGRES_EPOCH_UNIX_SECONDS: i64 = 946_684_800;

/// How [`Vfs::open`] treats a file that is there, or is not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenMode {
    /// The file must exist; writing fails.
    ReadOnly,
    /// The file must exist.
    ReadWrite,
    /// Opened for reading and writing; made empty if missing, kept if present.
    Create,
    /// Opened for reading and writing; the file must not exist.
    CreateNew,
}

/// An open file. Positions and lengths are in bytes. Every call may be made
/// from several threads at once.
pub trait File: Send + Sync {
    /// Reads at `offset` and returns how many bytes were read: fewer than asked
    /// only at the end of the file.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize>;

    /// As [`File::read_at`], if all that is asked for can be had without waiting for the device; `None`: it cannot, or that is not known.
    fn read_now(&self, buf: &mut [u8], offset: u64) -> Option<Result<usize>> {
        let _ = (buf, offset);
        None
    }

    /// Writes all of `buf` at `offset`, extending the file if needed. After an
    /// error any part may have been written.
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()>;

    /// Writes parts of `bytes`, each at its offset, in this order, as [`File::write_at`] does.
    fn write_parts(&self, bytes: &[u8], parts: &[(u64, Range<usize>)]) -> Result<()> {
        parts.iter().try_for_each(|(offset, range)| self.write_at(&bytes[range.clone()], *offset))
    }

    /// Writes `parts`, each behind the one before it, from `offset` on, as [`File::write_at`] does with all of them in one piece.
    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        self.write_at(&in_one_piece(parts), offset)
    }

    /// As [`File::write_parts`], of bytes that come back when it is done: where another thread has to write them they need no copy.
    fn write_own_parts(&self, bytes: Vec<u8>, parts: &[(u64, Range<usize>)]) -> Result<Vec<u8>> {
        self.write_parts(&bytes, parts).map(|()| bytes)
    }

    /// A hint that what was written there is to be synced before long: the device may begin with it. Promises nothing, and never waits for
    /// the device on purpose.
    fn start_writing(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// What is read of these bytes next is to come from the device, if they are durable; a hint.
    fn forget_read(&self, offset: u64, len: u64) {
        let _ = (offset, len);
    }

    /// Makes every earlier write durable, and the metadata needed to read it
    /// back (`fdatasync`). An error is final: see promise 4 of this crate.
    fn sync(&self) -> Result<()>;

    /// Cuts the file, or extends it with zeros.
    fn set_len(&self, len: u64) -> Result<()>;

    /// Length in bytes.
    fn len(&self) -> Result<u64>;

    /// What it takes on the device, about, in bytes: less than its length where it has holes.
    ///
    /// # Errors
    /// Those of asking.
    fn allocated(&self) -> Result<u64> {
        self.len()
    }

    /// Whether the file holds no byte.
    fn is_empty(&self) -> Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Extends the file to at least `len` with space that is really allocated,
    /// so that later writes below `len` cannot run out of it. Never shortens.
    fn preallocate(&self, len: u64) -> Result<()>;

    /// Gives the space of these bytes back to the file system: they read as zeros from then on, and the length stays. False: the
    /// file system cannot, and nothing has changed. As with a write, until a later sync some of it may be as before.
    ///
    /// # Errors
    /// Those of the device.
    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool> {
        let _ = (offset, len);
        Ok(false)
    }

    /// Sees to it that these bytes, which are inside the file, have space, so that writing them cannot run out of it; what they hold stays.
    ///
    /// # Errors
    /// [`ErrorKind::DiskFull`](resurgam_base::ErrorKind::DiskFull), and those of the device.
    fn fill_hole(&self, offset: u64, len: u64) -> Result<()> {
        let _ = (offset, len);
        Ok(())
    }

    /// The path it was opened by.
    fn path(&self) -> &Path;

    /// Fills `buf` from `offset`.
    ///
    /// # Errors
    /// [`ErrorKind::Corrupt`](resurgam_base::ErrorKind::Corrupt), naming the
    /// file, when it ends before `buf` is full.
    fn read_exact_at(&self, buf: &mut [u8], offset: u64) -> Result<()> {
        let read = self.read_at(buf, offset)?;
        if read == buf.len() {
            return Ok(());
        }
        Err(Error::corrupt(format!(
            "file \"{}\" ends too early: {} bytes wanted at offset {offset}, {read} found",
            self.path().display(),
            buf.len(),
        )))
    }
}

fn in_one_piece(parts: &[IoSlice<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(parts.iter().map(|part| part.len()).sum());
    parts.iter().for_each(|part| bytes.extend_from_slice(part));
    bytes
}

/// An exclusive lock on a path; released when dropped or when the process dies.
pub trait FileLock: Send + Sync {}

/// A file system, a clock and a source of randomness.
pub trait Vfs: Send + Sync {
    /// Opens a file. A missing file, a missing folder, and
    /// [`OpenMode::CreateNew`] of an existing file are `Io` errors.
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>>;
    /// Whether a file or folder of that name exists.
    fn exists(&self, path: &Path) -> Result<bool>;
    /// Removes a file. Handles that are open stay usable.
    fn remove(&self, path: &Path) -> Result<()>;
    /// Renames a file atomically, replacing `to` if it exists.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;
    /// Renames a file atomically unless `to` exists: then nothing changes and the answer is false. Of several that
    /// race for one name, one is told true.
    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool>;
    /// Makes a folder and its missing parents, durably: each is synced into the folder above before one is made in it. A folder that is there
    /// already is synced there as well: it may be of a process that died before it could. (Not where the folder above is closed
    /// to this user: the one below is an operator's then.)
    ///
    /// # Errors
    /// Those of making and syncing.
    fn make_folder(&self, dir: &Path) -> Result<()> {
        let above = |folder: &Path| folder.parent().map(Path::to_path_buf).unwrap_or_default();
        let mut missing = Vec::new();
        for folder in dir.ancestors().filter(|folder| !folder.as_os_str().is_empty()) {
            if self.exists(folder)? {
                if let Some(above) = folder.parent()
                    && let Err(error) = self.sync_dir(above)
                    && self.list(above).is_ok()
                {
                    return Err(error);
                }
                break;
            }
            missing.push(folder);
        }
        for folder in missing.iter().rev() {
            self.create_dir_all(folder)?;
            self.sync_dir(&above(folder))?;
        }
        Ok(())
    }
    /// Makes a folder and its missing parents, which are not durable then: see [`Vfs::make_folder`].
    fn create_dir_all(&self, path: &Path) -> Result<()>;
    /// Sees to it that nobody else can enter the data folder `dir`: a `fresh` one (nothing is in it yet) is closed to
    /// others, any other that is open to them is refused. What has no users, as a simulated disk, has nothing to do.
    ///
    /// # Errors
    /// [`ErrorKind::NotInPrerequisiteState`](resurgam_base::ErrorKind::NotInPrerequisiteState): it belongs to
    /// another user, or others can enter it.
    fn keep_private(&self, dir: &Path, fresh: bool) -> Result<()> {
        let _ = (dir, fresh);
        Ok(())
    }
    /// Names of the files and folders directly inside `dir`, sorted. Names that
    /// are not UTF-8 are left out: this program never makes one.
    fn list(&self, dir: &Path) -> Result<Vec<String>>;
    /// Makes creations, renames and removals inside `dir` durable.
    fn sync_dir(&self, dir: &Path) -> Result<()>;
    /// How much room there is for files of this user on the device of a folder, which need not be there yet; `None`: nobody says.
    ///
    /// # Errors
    /// Those of asking.
    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        let _ = dir;
        Ok(None)
    }
    /// Takes the exclusive lock on `path`, making the file if needed.
    ///
    /// # Errors
    /// [`ErrorKind::InUse`](resurgam_base::ErrorKind::InUse) when another holder
    /// has it, in this process or another one.
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>>;
    /// Monotonic time since an arbitrary start.
    fn now(&self) -> Duration;
    /// Microseconds since 2000-01-01 00:00 UTC, PostgreSQL's epoch.
    fn wall_clock_us(&self) -> i64;
    /// A random number: from the operating system, or from the simulator's seed.
    fn random_u64(&self) -> u64;
    /// Counters of all calls made through this instance so far.
    fn stats(&self) -> VfsStats;
}
