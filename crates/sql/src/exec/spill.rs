//! Temporary files of sorts, aggregates and joins that do not fit in memory, and of the engine's sorts: of indexes and of tables that are
//! written anew.
//!
//! They are in a folder of our own (mode 0700), in the data folder unless `temp_directory` says otherwise. A file
//! (0600) loses its name as soon as it is open: whatever becomes of the process, the system frees it with the last
//! handle. What is found in the folder at a start has been left by a crash between these two steps, and is removed.
//!
//! `temp_file_limit` bounds what the statements of one session have in such files at one moment, as in PostgreSQL.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use resurgam_engine::{Error, ErrorKind, SortFile};

use crate::exec::bridge;
use crate::wire::SqlError;

/// The folder's name, and how the names of files in it begin.
const FOLDER: &str = "resurgam_tmp";
const PREFIX: &str = "spill-";
/// Bytes of one read.
const READ_BYTES: usize = 128 << 10;

/// Where temporary files are made; see the module's head.
#[derive(Debug)]
pub(crate) struct TempFolder {
    path: PathBuf,
    next: AtomicU64,
    files: AtomicU64,
    bytes: AtomicU64,
    now: AtomicU64,
}

/// What was written to temporary files since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TempTotals {
    pub files: u64,
    pub bytes: u64,
    /// Bytes that they have at this moment.
    pub bytes_now: u64,
}

impl TempFolder {
    /// The folder within `parent`, without what a crash has left in it. It is made when it is needed.
    pub(crate) fn new(parent: &Path) -> Self {
        let path = parent.join(FOLDER);
        for entry in fs::read_dir(&path).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX)
                && let Err(error) = fs::remove_file(entry.path())
            {
                tracing::warn!("could not remove temporary file \"{}\": {error}", entry.path().display());
            }
        }
        Self {
            path,
            next: AtomicU64::new(0),
            files: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            now: AtomicU64::new(0),
        }
    }

    pub(crate) fn totals(&self) -> TempTotals {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TempTotals { files: read(&self.files), bytes: read(&self.bytes), bytes_now: read(&self.now) }
    }

    fn create(&self) -> io::Result<(File, PathBuf)> {
        match DirBuilder::new().mode(0o700).create(&self.path) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            _ => {}
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let path = self.path.join(format!("{PREFIX}{}.{number}", std::process::id()));
        let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
        fs::remove_file(&path)?;
        self.files.fetch_add(1, Ordering::Relaxed);
        Ok((file, path))
    }
}

/// What one session has in temporary files, and may have.
#[derive(Debug)]
pub(crate) struct TempUse {
    bytes: AtomicU64,
    /// In kilobytes.
    limit_kb: AtomicU64,
}

impl Default for TempUse {
    fn default() -> Self {
        Self { bytes: AtomicU64::new(0), limit_kb: AtomicU64::new(u64::MAX) }
    }
}

impl TempUse {
    /// `temp_file_limit`; `None` for no limit.
    pub(crate) fn set_limit(&self, kb: Option<u64>) {
        self.limit_kb.store(kb.unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// # Errors
    /// 53400
    fn grow(&self, bytes: u64) -> std::result::Result<(), Error> {
        let limit = self.limit_kb.load(Ordering::Relaxed);
        let after = self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        if after.div_ceil(1024) > limit {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            let message = format!("temporary file size exceeds temp_file_limit ({limit}kB)");
            return Err(Error::new(ErrorKind::ConfigurationLimitExceeded, message));
        }
        Ok(())
    }
}

/// Makes the files of a session's statement.
pub(crate) struct TempFiles {
    pub folder: Arc<TempFolder>,
    pub used: Arc<TempUse>,
}

impl TempFiles {
    /// # Errors
    /// 53100, 58030
    fn create(&self) -> std::result::Result<TempFile, Error> {
        let (file, path) = self.folder.create().map_err(|error| {
            let shown = self.folder.path.display();
            failed(&error, format!("could not create a temporary file in \"{shown}\": {error}"))
        })?;
        let counted =
            Counted { folder: Arc::clone(&self.folder), used: Arc::clone(&self.used), bytes: AtomicU64::new(0) };
        Ok(TempFile { file: Arc::new(file), path, counted: Arc::new(counted) })
    }

    /// One of a sort of the engine.
    ///
    /// # Errors
    /// 53100, 58030
    pub(crate) fn of_sort(&self) -> std::result::Result<Arc<dyn SortFile>, Error> {
        Ok(Arc::new(self.create()?))
    }
}

#[cold]
fn failed(error: &io::Error, message: String) -> Error {
    let kind = if error.kind() == io::ErrorKind::StorageFull { ErrorKind::DiskFull } else { ErrorKind::Io };
    Error::new(kind, message)
}

impl TempFileFactory for TempFiles {
    fn create_temp_file(&self, _: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(self.create().map_err(|error| bridge::failure(SqlError::from(error)))?))
    }
}

/// The bytes of one file, which are given back when it goes.
struct Counted {
    folder: Arc<TempFolder>,
    used: Arc<TempUse>,
    bytes: AtomicU64,
}

impl Counted {
    /// They were written.
    fn wrote(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.folder.now.fetch_add(bytes, Ordering::Relaxed);
        self.folder.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        let bytes = *self.bytes.get_mut();
        self.folder.now.fetch_sub(bytes, Ordering::Relaxed);
        self.used.bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A file without a name.
struct TempFile {
    file: Arc<File>,
    /// What it was called for a moment.
    path: PathBuf,
    counted: Arc<Counted>,
}

impl SortFile for TempFile {
    fn write_at(&self, bytes: &[u8], at: u64) -> std::result::Result<(), Error> {
        self.counted.used.grow(bytes.len() as u64)?;
        // What of it was written before an error counts as well: the file ends with the statement.
        self.counted.wrote(bytes.len() as u64);
        let shown = self.path.display();
        self.file
            .write_all_at(bytes, at)
            .map_err(|error| failed(&error, format!("could not write to temporary file \"{shown}\": {error}")))
    }
    fn read_exact_at(&self, bytes: &mut [u8], at: u64) -> std::result::Result<(), Error> {
        let shown = self.path.display();
        self.file.read_exact_at(bytes, at).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => Error::corrupt(format!("temporary file \"{shown}\" ends too early")),
            _ => failed(&error, format!("could not read temporary file \"{shown}\": {error}")),
        })
    }
    fn path(&self) -> &Path {
        &self.path
    }
}

impl SpillFile for TempFile {
    fn size(&self) -> Option<u64> {
        Some(self.counted.bytes.load(Ordering::Relaxed))
    }
    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        // Read where it is asked for: plans that spill are on threads of their own. The count goes with the last reader.
        let (file, counted) = (Arc::clone(&self.file), Arc::clone(&self.counted));
        let read = move |at: &mut u64| -> io::Result<Option<Bytes>> {
            let _counted = &counted;
            let mut bytes = vec![0; READ_BYTES];
            let mut count = 0;
            while count < bytes.len() {
                match file.read_at(&mut bytes[count..], *at + count as u64) {
                    Ok(0) => break,
                    Ok(more) => count += more,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            bytes.truncate(count);
            *at += count as u64;
            Ok((count > 0).then(|| bytes.into()))
        };
        let mut at = 0;
        Ok(Box::pin(futures::stream::iter(std::iter::from_fn(move || read(&mut at).map_err(Into::into).transpose()))))
    }
    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(Writer { file: Arc::clone(&self.file), counted: Arc::clone(&self.counted) }))
    }
}

struct Writer {
    file: Arc<File>,
    counted: Arc<Counted>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = self.counted.used.grow(bytes.len() as u64);
        room.map_err(|error| io::Error::other(SqlError::from(error)))?;
        let written = self.file.as_ref().write(bytes);
        let count = written.as_ref().map_or(0, |count| *count as u64);
        self.counted.used.bytes.fetch_sub(bytes.len() as u64 - count, Ordering::Relaxed);
        self.counted.wrote(count);
        written
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use futures::StreamExt;

    use super::*;

    fn files(dir: &Path) -> TempFiles {
        TempFiles { folder: Arc::new(TempFolder::new(dir)), used: Arc::default() }
    }

    #[tokio::test]
    async fn what_is_written_is_read_and_nobody_else_sees_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = files(dir.path());
        let file = files.create_temp_file("a test").expect("a file");
        let wanted: Vec<u8> = (0..300_000u32).map(|n| n as u8).collect();
        let mut writer = file.open_writer().expect("a writer");
        writer.write_all(&wanted).expect("room");
        let folder = dir.path().join(FOLDER);
        assert_eq!(fs::metadata(&folder).expect("it is there").permissions().mode() & 0o777, 0o700);
        assert_eq!(fs::read_dir(&folder).expect("a folder").count(), 0, "files have no names");
        for _ in 0..2 {
            let mut stream = file.read_stream().expect("a stream");
            let mut got = Vec::new();
            while let Some(bytes) = stream.next().await {
                got.extend_from_slice(&bytes.expect("bytes"));
            }
            assert!(got == wanted);
        }
        assert_eq!(files.folder.totals(), TempTotals { files: 1, bytes: 300_000, bytes_now: 300_000 });
        drop((file, writer));
        assert_eq!(files.folder.totals().bytes_now, 0);
        assert_eq!(files.used.bytes.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_session_has_no_more_than_its_limit() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = files(dir.path());
        files.used.set_limit(Some(64));
        let file = files.create_temp_file("a test").expect("a file");
        let mut writer = file.open_writer().expect("a writer");
        writer.write_all(&[0; 65_536]).expect("just as much");
        let error = writer.write_all(&[0]).expect_err("more");
        let error = crate::pg::errors::from_datafusion(error.into(), "");
        assert_eq!(error.sqlstate, "53400");
        assert_eq!(error.message, "temporary file size exceeds temp_file_limit (64kB)");
        drop((file, writer));
        let file = files.create_temp_file("a test").expect("a file");
        file.open_writer().and_then(|mut writer| Ok(writer.write_all(&[0; 65_536])?)).expect("room again");
    }

    /// A sort of the engine is of the same folder and limit.
    #[test]
    fn a_file_of_a_sort() {
        let dir = tempfile::tempdir().expect("a folder");
        let files = files(dir.path());
        files.used.set_limit(Some(64));
        let plan = files.create_temp_file("a test").expect("a file");
        plan.open_writer().and_then(|mut writer| Ok(writer.write_all(&[1; 1000])?)).expect("room");
        let sort = files.of_sort().expect("a file");
        sort.write_at(&[2; 30_000], 0).expect("room");
        sort.write_at(&[3; 30_000], 30_000).expect("room");
        let error = sort.write_at(&[4; 30_000], 60_000).expect_err("more than there may be");
        assert_eq!(
            (error.sqlstate(), error.message()),
            ("53400", "temporary file size exceeds temp_file_limit (64kB)")
        );
        let mut bytes = [0; 2];
        sort.read_exact_at(&mut bytes, 29_999).expect("what was written");
        assert_eq!(bytes, [2, 3]);
        assert_eq!(sort.read_exact_at(&mut bytes, 59_999).expect_err("the end").kind(), ErrorKind::Corrupt);
        assert_eq!(files.folder.totals(), TempTotals { files: 2, bytes: 61_000, bytes_now: 61_000 });
        assert_eq!(fs::read_dir(dir.path().join(FOLDER)).expect("a folder").count(), 0, "files have no names");
        drop(sort);
        assert_eq!(files.folder.totals().bytes_now, 1000);
        assert_eq!(files.used.bytes.load(Ordering::Relaxed), 1000);
    }

    #[test]
    fn what_a_crash_left_goes_at_the_next_start() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join(FOLDER);
        fs::create_dir(&folder).expect("a folder");
        fs::write(folder.join("spill-1.0"), "left").expect("a file");
        fs::write(folder.join("mine"), "not ours").expect("a file");
        files(dir.path());
        let names: Vec<_> = fs::read_dir(&folder).expect("a folder").flatten().map(|entry| entry.file_name()).collect();
        assert_eq!(names, ["mine"]);
    }
}
