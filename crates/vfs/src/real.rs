//! The operating system's files, clock and randomness.
//!
//! `sync` is `fdatasync`; `preallocate` is `fallocate`, or a zero fill where the
//! file system has none; `lock` is `flock`, which the kernel releases when the
//! process dies. What is made is its user's alone (`private.rs`).

use std::collections::hash_map::RandomState;
use std::fs;
use std::hash::{BuildHasher, Hasher};
#[cfg(target_os = "linux")]
use std::io::IoSlice;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rand::TryRngCore;
use resurgam_base::{Error, ErrorKind, Result};

use crate::private::{self, Holder};
use crate::stats::Counters;
use crate::{File, FileLock, OpenMode, POSTGRES_EPOCH_UNIX_SECONDS, Vfs, VfsStats};

/// Bytes written at a time where zeros have to be written out.
const ZERO_FILL_BYTES: usize = 1 << 20;
/// How often a lock is tried for that somebody holds for a moment only, and the pause between.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// The real file system.
pub struct RealVfs {
    start: Instant,
    counters: Arc<Counters>,
}

impl RealVfs {
    /// A view of the operating system's files; counters start at zero.
    pub fn new() -> Self {
        Self { start: Instant::now(), counters: Arc::default() }
    }
}

impl Default for RealVfs {
    fn default() -> Self {
        Self::new()
    }
}

struct RealFile {
    file: fs::File,
    path: PathBuf,
    counters: Arc<Counters>,
}

impl RealFile {
    fn error(&self, action: &str, source: &std::io::Error) -> Error {
        Error::io(action, self.path.display(), source)
    }
}

impl File for RealFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.file.read_at(&mut buf[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(n) => done += n,
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error("read file", &e)),
            }
        }
        self.counters.read(done);
        Ok(done)
    }

    #[cfg(target_os = "linux")]
    fn read_now(&self, buf: &mut [u8], offset: u64) -> Option<Result<usize>> {
        use rustix::io::{ReadWriteFlags, preadv2};

        // What is not in the system's cache, and what this file system does not know, is left to `read_at`; so are errors, and less
        // than was asked for, be it the end of the file.
        let len = buf.len();
        let read = preadv2(&self.file, &mut [std::io::IoSliceMut::new(buf)], offset, ReadWriteFlags::NOWAIT).ok()?;
        (read == len).then(|| {
            self.counters.read(read);
            Ok(read)
        })
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(buf, offset).map_err(|e| self.error("write file", &e))?;
        self.counters.write(buf.len());
        Ok(())
    }

    #[cfg(target_os = "linux")]
    fn write_all_at(&self, parts: &[IoSlice<'_>], offset: u64) -> Result<()> {
        use rustix::io::pwritev;

        /// The system takes no more of them in one call.
        const PARTS_MAX: usize = 1024;
        let (mut at, mut within, mut done) = (0, 0, 0);
        while let Some(part) = parts.get(at) {
            if within >= part.len() {
                (at, within) = (at + 1, 0);
                continue;
            }
            let to = offset + done as u64;
            // What is left of a part of which some was written goes alone.
            let outcome = match within {
                0 => pwritev(&self.file, &parts[at..parts.len().min(at + PARTS_MAX)], to).map_err(std::io::Error::from),
                _ => self.file.write_at(&part[within..], to),
            };
            match outcome {
                Ok(0) => return Err(self.error("write file", &std::io::ErrorKind::WriteZero.into())),
                Ok(mut written) => {
                    done += written;
                    while let Some(part) = parts.get(at)
                        && written >= part.len() - within
                    {
                        written -= part.len() - within;
                        (at, within) = (at + 1, 0);
                    }
                    within += written;
                }
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(self.error("write file", &e)),
            }
        }
        self.counters.write(done);
        Ok(())
    }

    fn start_writing(&self, offset: u64, len: u64) {
        #[cfg(target_os = "linux")]
        if let (Ok(offset), Ok(len)) = (libc::off64_t::try_from(offset), libc::off64_t::try_from(len)) {
            use std::os::fd::AsRawFd;
            // SAFETY: the descriptor is this file's, which is open; no memory is passed. A failure changes nothing: errors of the device
            // are told by `sync`.
            unsafe { libc::sync_file_range(self.file.as_raw_fd(), offset, len, libc::SYNC_FILE_RANGE_WRITE) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, len);
    }

    fn forget_read(&self, offset: u64, len: u64) {
        #[cfg(target_os = "linux")]
        if let (Ok(offset), Ok(len)) = (libc::off64_t::try_from(offset), libc::off64_t::try_from(len)) {
            use std::os::fd::AsRawFd;
            // Parts of the system's pages stay.
            const SYSTEM_PAGE: libc::off64_t = 4096;
            let len = (offset % SYSTEM_PAGE).saturating_add(len).saturating_add(SYSTEM_PAGE - 1);
            let (offset, len) = (offset - offset % SYSTEM_PAGE, len - len % SYSTEM_PAGE);
            // SAFETY: the descriptor is this file's, which is open; no memory is passed. A failure changes nothing but what is asked.
            unsafe { libc::posix_fadvise64(self.file.as_raw_fd(), offset, len, libc::POSIX_FADV_DONTNEED) };
        }
        #[cfg(not(target_os = "linux"))]
        let _ = (offset, len);
    }

    fn sync(&self) -> Result<()> {
        self.counters.sync();
        self.file.sync_data().map_err(|e| self.error("sync file", &e))
    }

    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len).map_err(|e| self.error("resize file", &e))
    }

    fn allocated(&self) -> Result<u64> {
        use std::os::unix::fs::MetadataExt;
        self.file.metadata().map(|of| of.blocks().saturating_mul(512)).map_err(|e| self.error("stat file", &e))
    }

    fn len(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(|e| self.error("stat file", &e))?.len())
    }

    fn punch_hole(&self, offset: u64, len: u64) -> Result<bool> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        loop {
            match fallocate(&self.file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, len) {
                Ok(()) => return Ok(true),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
                Err(e) => return Err(self.error("punch a hole into file", &e.into())),
            }
        }
    }

    fn fill_hole(&self, offset: u64, len: u64) -> Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        loop {
            match fallocate(&self.file, FallocateFlags::KEEP_SIZE, offset, len) {
                // Where nothing can be promised, writing finds out.
                Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(e) => return Err(self.error("allocate file", &e.into())),
            }
        }
    }

    fn preallocate(&self, len: u64) -> Result<()> {
        use rustix::fs::{FallocateFlags, fallocate};
        use rustix::io::Errno;

        let old = self.len()?;
        if len <= old {
            return Ok(());
        }
        loop {
            match fallocate(&self.file, FallocateFlags::empty(), old, len - old) {
                Ok(()) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(Errno::OPNOTSUPP | Errno::NOSYS) => break,
                Err(e) => return Err(self.error("allocate file", &e.into())),
            }
        }
        let zeros = vec![0; ZERO_FILL_BYTES];
        let mut at = old;
        while at < len {
            let n = (len - at).min(ZERO_FILL_BYTES as u64);
            self.write_at(&zeros[..n as usize], at)?;
            at += n;
        }
        Ok(())
    }

    fn path(&self) -> &Path {
        &self.path
    }
}

struct RealLock {
    _file: fs::File,
}

impl FileLock for RealLock {}

impl Vfs for RealVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let mut options = private::options();
        options.read(true);
        match mode {
            OpenMode::ReadOnly => {}
            OpenMode::ReadWrite => {
                options.write(true);
            }
            OpenMode::Create => {
                options.write(true).create(true);
            }
            OpenMode::CreateNew => {
                options.write(true).create_new(true);
            }
        }
        let file = options.open(path).map_err(|e| Error::io("open file", path.display(), &e))?;
        if mode != OpenMode::ReadOnly {
            private::tighten(&file).map_err(|e| Error::io("change permissions of file", path.display(), &e))?;
        }
        Ok(Arc::new(RealFile { file, path: path.to_path_buf(), counters: Arc::clone(&self.counters) }))
    }

    fn exists(&self, path: &Path) -> Result<bool> {
        path.try_exists().map_err(|e| Error::io("stat file", path.display(), &e))
    }

    fn remove(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(|e| Error::io("remove file", path.display(), &e))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(|e| Error::io("rename file", from.display(), &e))
    }

    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool> {
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        use rustix::io::Errno;

        let failed = |e: std::io::Error| Error::io("rename file", from.display(), &e);
        loop {
            match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
                Ok(()) => return Ok(true),
                Err(Errno::EXIST) => return Ok(false),
                Err(Errno::INTR) => {}
                Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => break,
                Err(e) => return Err(failed(e.into())),
            }
        }
        // A file system that cannot: a second name that must be new, then the first one goes.
        match fs::hard_link(from, to) {
            Ok(()) => fs::remove_file(from).map(|()| true).map_err(failed),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => Ok(false),
            Err(e) => Err(failed(e)),
        }
    }

    fn create_dir_all(&self, path: &Path) -> Result<()> {
        private::create_dir_all(path).map_err(|e| Error::io("create folder", path.display(), &e))
    }

    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        let failed = |e: std::io::Error| Error::io("list folder", dir.display(), &e);
        let mut names = Vec::new();
        for entry in fs::read_dir(dir).map_err(failed)? {
            if let Ok(name) = entry.map_err(failed)?.file_name().into_string() {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.counters.sync();
        // `Path::parent` of a bare name is the empty path: the current folder.
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        let file = fs::File::open(dir).map_err(|e| Error::io("sync folder", dir.display(), &e))?;
        match file.sync_all() {
            // Where nothing can be changed, as above a mounted disk, nothing waits to be synced.
            Err(e) if e.kind() == std::io::ErrorKind::ReadOnlyFilesystem => Ok(()),
            synced => synced.map_err(|e| Error::io("sync folder", dir.display(), &e)),
        }
    }

    fn keep_private(&self, dir: &Path, fresh: bool) -> Result<()> {
        private::keep_folder(dir, fresh)
    }

    fn free_bytes(&self, dir: &Path) -> Result<Option<u64>> {
        use rustix::io::Errno;

        let full = std::path::absolute(dir).unwrap_or_else(|_| dir.to_path_buf());
        for folder in full.ancestors() {
            match rustix::fs::statvfs(folder) {
                // One of no size says nothing of its room: it is made of something else.
                Ok(of) if of.f_blocks == 0 => break,
                Ok(of) => return Ok(Some(of.f_bavail.saturating_mul(of.f_frsize))),
                Err(Errno::NOENT) => {}
                Err(Errno::NOSYS) => break,
                Err(errno) => return Err(Error::io("ask for the room in", folder.display(), &errno.into())),
            }
        }
        Ok(None)
    }

    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        let file = private::open_lock(path)?;
        for tries in (0..LOCK_TRIES).rev() {
            match file.try_lock() {
                Ok(()) => return Ok(Box::new(RealLock { _file: file })),
                Err(fs::TryLockError::WouldBlock) => {
                    let holder = Holder::of(&file);
                    // `check` and `inspect` ask by a shared lock that they give back at once.
                    if tries > 0 && holder.as_ref().is_none_or(|holder| holder.shared) {
                        std::thread::sleep(LOCK_PAUSE);
                        continue;
                    }
                    let error = in_use(path);
                    return Err(match holder {
                        Some(holder) => error.with_detail(holder.describe()),
                        None => error,
                    });
                }
                Err(fs::TryLockError::Error(e)) => return Err(Error::io("lock file", path.display(), &e)),
            }
        }
        Err(in_use(path))
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    fn wall_clock_us(&self) -> i64 {
        let since_unix_us = match SystemTime::now().duration_since(UNIX_EPOCH) {
            Ok(after) => i64::try_from(after.as_micros()).unwrap_or(i64::MAX),
            Err(before) => -i64::try_from(before.duration().as_micros()).unwrap_or(i64::MAX),
        };
        since_unix_us.saturating_sub(POSTGRES_EPOCH_UNIX_SECONDS * 1_000_000)
    }

    fn random_u64(&self) -> u64 {
        // Where the system call is missing, the hash keys of the standard
        // library (seeded by the system) and the clock have to do.
        rand::rngs::OsRng.try_next_u64().unwrap_or_else(|_| {
            let mut hasher = RandomState::new().build_hasher();
            hasher.write_u128(self.start.elapsed().as_nanos());
            hasher.finish()
        })
    }

    fn stats(&self) -> VfsStats {
        self.counters.snapshot()
    }
}

/// The error of a lock that another holder has.
pub(crate) fn in_use(path: &Path) -> Error {
    Error::new(ErrorKind::InUse, format!("\"{}\" is in use by another process", path.display()))
        .with_hint("Stop the other server, or choose another data folder.")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_system_of_no_size_says_nothing_of_room() {
        let dir = tempfile::tempdir().unwrap();
        let vfs = RealVfs::new();
        let there = vfs.free_bytes(&dir.path().join("not/there/yet")).unwrap();
        assert!(there.is_some_and(|bytes| bytes > 0), "{there:?}");
        if cfg!(target_os = "linux") {
            assert_eq!(vfs.free_bytes(Path::new("/proc")).unwrap(), None);
        }
    }

    #[test]
    fn files_behave() {
        let dir = tempfile::tempdir().unwrap();
        let vfs = RealVfs::new();
        let sub = dir.path().join("a/b");
        vfs.create_dir_all(&sub).unwrap();
        let path = sub.join("f");
        assert_eq!(vfs.open(&path, OpenMode::ReadWrite).err().unwrap().kind(), ErrorKind::Io);
        let file = vfs.open(&path, OpenMode::CreateNew).unwrap();
        assert!(vfs.open(&path, OpenMode::CreateNew).is_err());
        file.write_at(b"hello", 3).unwrap();
        file.sync().unwrap();
        vfs.sync_dir(&sub).unwrap();
        let mut buf = [9; 8];
        file.read_exact_at(&mut buf, 0).unwrap();
        assert_eq!(&buf, b"\0\0\0hello");
        assert_eq!(file.read_at(&mut buf, 6).unwrap(), 2);
        assert_eq!(file.read_exact_at(&mut buf, 6).unwrap_err().kind(), ErrorKind::Corrupt);
        file.preallocate(100_000).unwrap();
        file.preallocate(10).unwrap();
        assert_eq!(file.len().unwrap(), 100_000);
        file.write_at(&[7; 16384], 0).unwrap();
        if file.punch_hole(4096, 8192).unwrap() {
            let mut page = [1; 16384];
            file.read_exact_at(&mut page, 0).unwrap();
            assert!(page[..4096].iter().chain(&page[12288..]).all(|b| *b == 7));
            assert!(page[4096..12288].iter().all(|b| *b == 0), "a hole reads as zeros");
        }
        file.fill_hole(4096, 8192).unwrap();
        file.write_at(b"hello", 0).unwrap();
        assert_eq!(file.len().unwrap(), 100_000);
        assert!(vfs.open(&path, OpenMode::ReadOnly).unwrap().write_at(b"x", 0).is_err());
        vfs.rename(&path, &sub.join("g")).unwrap();
        drop(vfs.open(&path, OpenMode::CreateNew).unwrap());
        assert!(!vfs.rename_new(&path, &sub.join("g")).unwrap(), "the name is taken");
        assert_eq!(vfs.open(&sub.join("g"), OpenMode::ReadOnly).unwrap().len().unwrap(), 100_000);
        assert!(vfs.rename_new(&path, &sub.join("h")).unwrap());
        assert!(vfs.rename_new(&path, &sub.join("i")).is_err(), "nothing to rename");
        vfs.remove(&sub.join("h")).unwrap();
        assert_eq!(vfs.list(&sub).unwrap(), ["g"]);
        vfs.remove(&sub.join("g")).unwrap();
        assert!(!vfs.exists(&path).unwrap());
        let stats = vfs.stats();
        assert_eq!((stats.writes, stats.bytes_written, stats.syncs), (3, 16394, 2));
    }

    #[test]
    fn parts_are_written_behind_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
        let gate = crate::Gate::new("a device", Duration::from_secs(60));
        let path = dir.path().join("f");
        let file = vfs.open(&path, OpenMode::Create).unwrap();
        let gated = gate.file(vfs.open(&path, OpenMode::ReadWrite).unwrap());
        // More of them than one call takes, and some that are empty.
        let bytes: Vec<u8> = (0..30_000u32).map(|n| (n % 251) as u8).collect();
        let (mut parts, mut rest) = (Vec::new(), &bytes[..]);
        for len in [0, 1, 7, 0, 48, 3].into_iter().cycle() {
            let (part, behind) = rest.split_at(len.min(rest.len()));
            parts.push(std::io::IoSlice::new(part));
            rest = behind;
            if rest.is_empty() {
                break;
            }
        }
        assert!(parts.len() > 2048);
        for (file, offset) in [(&file, 5), (&gated, 40_000)] {
            let before = vfs.stats();
            file.write_all_at(&parts, offset).unwrap();
            let after = vfs.stats();
            assert_eq!((after.writes - before.writes, after.bytes_written - before.bytes_written), (1, 30_000));
            let mut read = vec![0; bytes.len()];
            file.read_exact_at(&mut read, offset).unwrap();
            assert_eq!(read, bytes);
            file.write_all_at(&[], 0).unwrap();
            // Away from each other, and out of the middle.
            let back = file.write_own_parts(bytes.clone(), &[(100_000, 3..10), (200_000, 1000..2000)]).unwrap();
            assert_eq!(back, bytes);
            let mut read = vec![0; 1000];
            file.read_exact_at(&mut read, 200_000).unwrap();
            assert_eq!(read, &bytes[1000..2000]);
            file.read_exact_at(&mut read[..7], 100_000).unwrap();
            assert_eq!(read[..7], bytes[3..10]);
        }
        let reader = vfs.open(&path, OpenMode::ReadOnly).unwrap();
        assert!(reader.write_all_at(&parts, 0).is_err());
    }

    #[test]
    fn a_lock_has_one_holder() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = RealVfs::new().lock(&path).unwrap();
        let error = RealVfs::new().lock(&path).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InUse);
        if fs::exists("/proc/locks").unwrap() {
            let detail = error.detail().unwrap();
            assert!(detail.starts_with(&format!("process {} (", std::process::id())), "{detail}");
            assert!(detail.ends_with("holds the lock"), "{detail}");
        }
        drop(held);
        // A shared lock for a moment, as of `resurgam check`, is waited for.
        let other = fs::File::open(&path).unwrap();
        other.lock_shared().unwrap();
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            drop(other);
        });
        RealVfs::new().lock(&path).unwrap();
        reader.join().unwrap();
    }

    #[test]
    fn what_is_made_is_private() {
        use std::os::unix::fs::{MetadataExt, PermissionsExt};
        let dir = tempfile::tempdir().unwrap();
        let vfs = RealVfs::new();
        let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
        vfs.create_dir_all(&dir.path().join("a/b")).unwrap();
        assert_eq!((mode(&dir.path().join("a")), mode(&dir.path().join("a/b"))), (0o700, 0o700));
        let path = dir.path().join("a/f");
        drop(vfs.open(&path, OpenMode::Create).unwrap());
        assert_eq!(mode(&path), 0o600);
        // As an earlier version made them.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        drop(vfs.open(&path, OpenMode::ReadWrite).unwrap());
        assert_eq!(mode(&path), 0o600);
        drop(vfs.open(&dir.path().join("a/g"), OpenMode::CreateNew).unwrap());
        assert_eq!(mode(&dir.path().join("a/g")), 0o600);
    }

    #[test]
    fn clock_and_randomness() {
        let vfs = RealVfs::new();
        assert!(vfs.wall_clock_us() > 800_000_000_000_000, "later than 2025");
        assert_ne!(vfs.random_u64(), vfs.random_u64());
        assert!(vfs.now() <= vfs.now());
    }
}
