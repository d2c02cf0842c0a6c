//! The log's segments as files beside the server: what keeping the log elsewhere was before there was an archive that is sorted by page.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Result;
use crate::wire::Client;

/// For an answer of the server.
const PATIENCE: Duration = Duration::from_secs(5);
/// Between two looks at the log.
const EVERY: Duration = Duration::from_millis(50);

/// Copies of a log's segments, made by a thread from when they are begun until this is dropped, whatever else goes on and however often the
/// server ends and is started again.
pub struct Following {
    copies: Arc<Mutex<Copies>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Following {
    /// Of the log in `log` of a server at `port`, into `folder`, which is made.
    ///
    /// # Errors
    /// The system's, in words.
    pub fn begin(log: &Path, folder: &Path, port: u16) -> Result<Self> {
        let copies = Arc::new(Mutex::new(Copies::new(log, folder)?));
        let ends = Arc::new(AtomicBool::new(false));
        let (of_thread, ended) = (Arc::clone(&copies), Arc::clone(&ends));
        let work = move || {
            let mut client = None;
            while !ended.load(Ordering::Relaxed) {
                if client.is_none() {
                    client = Client::connect_within(port, Some(PATIENCE)).ok();
                }
                // The server may have ended. That a copy fails is seen by whoever needs it: there is a gap.
                if client.as_mut().is_some_and(|client| taken(client, &of_thread).is_err()) {
                    client = None;
                }
                std::thread::sleep(EVERY);
            }
        };
        Ok(Self { copies, ends, thread: Some(std::thread::spawn(work)) })
    }

    pub fn folder(&self) -> PathBuf {
        locked(&self.copies).folder.clone()
    }

    /// See [`Copies::take_rest`].
    ///
    /// # Errors
    /// The system's, in words.
    pub fn take_rest(&self) -> Result<()> {
        locked(&self.copies).take_rest()
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn locked(copies: &Mutex<Copies>) -> MutexGuard<'_, Copies> {
    copies.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Copies what the server, which `client` asks, has finished: the log's end is in a later segment. To be called so often that no segment is used
/// again between two calls.
///
/// # Errors
/// The server's and the system's, in words.
fn taken(client: &mut Client, copies: &Mutex<Copies>) -> Result<()> {
    let flushed = client.query("select flushed_lsn from resurgam_log")?.unwrap_or_default();
    let flushed: u64 = flushed.parse().map_err(|_| format!("\"{flushed}\" is no log position"))?;
    locked(copies).copy(true, |number, bytes| number < flushed / bytes.max(1))
}

struct Copies {
    log: PathBuf,
    folder: PathBuf,
    done: BTreeSet<String>,
}

impl Copies {
    /// Of the log in `log`, into `folder`, which is made.
    ///
    /// # Errors
    /// The system's, in words.
    fn new(log: &Path, folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).map_err(|e| format!("could not make a folder: {e}"))?;
        Ok(Self { log: log.to_owned(), folder: folder.to_owned(), done: BTreeSet::new() })
    }

    /// Copies what is left, of a server that has ended: the log's end as well. Should the server come back, the segment that it goes on in is
    /// copied again.
    ///
    /// # Errors
    /// The system's, in words.
    fn take_rest(&mut self) -> Result<()> {
        self.copy(false, |_, _| true)
    }

    /// Copies segments by their numbers, and the length of one; `finished`: once and for all.
    fn copy(&mut self, finished: bool, wanted: impl Fn(u64, u64) -> bool) -> Result<()> {
        let failed = |e: std::io::Error| format!("the log could not be copied: {e}");
        let mut there = Vec::new();
        for entry in self.log.read_dir().map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let Ok(name) = entry.file_name().into_string() else { continue };
            let number = name.strip_suffix(".log").and_then(|digits| u64::from_str_radix(digits, 16).ok());
            if let (Some(number), Ok(about)) = (number, entry.metadata()) {
                there.push((number, about.len(), name));
            }
        }
        // One that is being made ready is shorter than a segment.
        let segment = there.iter().map(|(_, bytes, _)| *bytes).max().unwrap_or_default();
        for (number, _, name) in there {
            if self.done.contains(&name) || !wanted(number, segment) {
                continue;
            }
            match fs::copy(self.log.join(&name), self.folder.join(&name)) {
                Ok(_) if finished => drop(self.done.insert(name)),
                Ok(_) => {}
                // It was given up meanwhile; whoever needs it finds a gap.
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finished_segments_are_copied_once_and_the_rest_at_the_end() {
        let dir = std::env::temp_dir().join(format!("resurgam-lab-copies-{}", std::process::id()));
        let (log, copies) = (dir.join("log"), dir.join("copies"));
        fs::create_dir_all(&log).expect("a folder for temporary files");
        let write = |number: u64, text: &str| fs::write(log.join(format!("{number:016x}.log")), text).expect("a file");
        (1..=4).for_each(|number| write(number, "old!"));
        fs::write(log.join("lock"), "").expect("a file");
        // Another one is being made ready.
        fs::write(log.join(format!("{:016x}.log", 5)), "o").expect("a file");
        let mut taken = Copies::new(&log, &copies).expect("a folder");
        let there = || copies.read_dir().expect("the folder").count();
        let read = |number: u64| fs::read_to_string(copies.join(format!("{number:016x}.log"))).unwrap_or_default();
        // The log ends in the third one; the fourth was made ready.
        taken.copy(true, |number, bytes| number < 14 / bytes).expect("copied");
        assert_eq!((there(), read(2).as_str(), read(3).as_str()), (2, "old!", ""));
        (1..=4).for_each(|number| write(number, "new!"));
        taken.take_rest().expect("copied");
        assert_eq!((there(), read(2).as_str(), read(3).as_str()), (5, "old!", "new!"));
        // The server has come back, and has finished the third one.
        write(3, "more");
        taken.copy(true, |number, bytes| number < 18 / bytes).expect("copied");
        assert_eq!(read(3), "more");
        fs::remove_dir_all(dir).expect("the folder goes");
    }
}
