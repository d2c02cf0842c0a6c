//! All pages of a new folder, made as of the cut and written: the single pass. Several threads share it; each takes the next
//! steps of the file, in order, so that archive and backup are read forwards by all of them together.
//!
//! # Invariants
//! 1. Each page is made and written by one thread, once; the file is synced when all have ended.
//! 2. The first error ends the pass: no step is begun after it, and those under way are waited for.
//!
//! Memory: the pages of the threads' steps, twice: 8 MB each time, whatever their number; and what each reads of every run.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};

use resurgam_archive::SEGMENT_PAGES;
use resurgam_base::{Error, ErrorKind, PageId, Result, limits::PAGE_SIZE};
use resurgam_page::PageBuf;
use resurgam_vfs::File;

/// Pages that all threads together make and write at a time: eight segments.
const STEP: u64 = 1024;
/// Pages of a segment: no step is less, or a part of one.
const SEGMENT: u64 = SEGMENT_PAGES as u64;
/// Each of them holds frames of every run.
const THREADS_MAX: usize = 4;

/// What was done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Written {
    pub pages: u64,
    /// Pages that are damaged in the backup.
    pub damaged: u64,
}

/// Fills pages from the one that is named on, and says how many exist and how many of those are damaged.
pub(crate) type Make<'a> = &'a (dyn Fn(PageId, &mut [PageBuf]) -> Result<(u64, u64)> + Sync);

/// Threads that the pass has on this machine.
pub(crate) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX)
}

/// Pages of a step of each of so many threads: whole segments.
fn step_of(threads: usize) -> u64 {
    let segments = STEP / SEGMENT / (threads as u64).max(1);
    segments.max(1) * SEGMENT
}

/// Writes pages 1 to `count` (its first page is there) of file number `number`, made by `make`, on `threads` threads. `progress` is
/// told by the calling thread of pages that are done.
///
/// # Errors
/// `DiskFull` before anything is written where there is no room for them; those of `make` and of writing.
pub(crate) fn write_all(
    file: &Arc<dyn File>,
    number: u64,
    count: u64,
    threads: usize,
    make: Make<'_>,
    progress: &mut dyn FnMut(u64),
) -> Result<Written> {
    let bytes = count.max(1) * PAGE_SIZE as u64;
    file.preallocate(bytes).map_err(|error| match error.kind() {
        ErrorKind::DiskFull => Error::new(
            ErrorKind::DiskFull,
            format!("there is no room for the {bytes} bytes of \"{}\": {}", file.path().display(), error.message()),
        )
        .with_hint("Give a target on a larger device."),
        _ => error,
    })?;
    let step = step_of(threads);
    let steps = count.div_ceil(step);
    let pass = Pass { file, number, count, make, next: AtomicU64::new(0), step, steps };
    let threads = (threads as u64).clamp(1, steps.max(1)) as usize;
    let mut written = Written::default();
    let mut outcome = Ok(());
    let mut tell = |done: Result<Step>| match done {
        Ok(step) => {
            written.pages += step.made;
            written.damaged += step.damaged;
            progress(step.pages);
        }
        Err(error) if outcome.is_ok() => outcome = Err(error),
        Err(_) => {}
    };
    if threads == 1 {
        pass.run(&mut tell);
    } else {
        std::thread::scope(|scope| {
            // Who makes pages waits for who tells of them, so that this stays short.
            let (done, of_threads) = sync_channel(threads);
            for at in 0..threads {
                let (pass, done): (_, SyncSender<Result<Step>>) = (&pass, done.clone());
                // The receiver goes only when all senders have gone.
                let work = move || pass.run(&mut |step| drop(done.send(step)));
                let started = std::thread::Builder::new().name(format!("restore-{at}")).spawn_scoped(scope, work);
                if started.is_err() && at == 0 {
                    pass.run(&mut tell);
                }
            }
            drop(done);
            of_threads.iter().for_each(&mut tell);
        });
    }
    outcome?;
    file.sync()?;
    Ok(written)
}

/// One step that is done.
struct Step {
    pages: u64,
    made: u64,
    damaged: u64,
}

/// What the threads share.
struct Pass<'a> {
    file: &'a Arc<dyn File>,
    number: u64,
    count: u64,
    make: Make<'a>,
    /// The step that nobody has taken yet.
    next: AtomicU64,
    /// Pages of each.
    step: u64,
    steps: u64,
}

impl Pass<'_> {
    /// Does steps until there are none left, or one fails.
    fn run(&self, tell: &mut dyn FnMut(Result<Step>)) {
        let mut pages: Vec<PageBuf> = Vec::new();
        pages.resize_with(self.step.min(self.count) as usize, PageBuf::zeroed);
        let mut out = Vec::new();
        loop {
            let step = self.next.fetch_add(1, Ordering::Relaxed);
            if step >= self.steps {
                return;
            }
            let done = self.step(step, &mut pages, &mut out);
            if done.is_err() {
                self.next.store(self.steps, Ordering::Relaxed);
            }
            tell(done);
        }
    }

    /// The first page of the file is there: the first step leaves it out.
    fn step(&self, step: u64, pages: &mut [PageBuf], out: &mut Vec<u8>) -> Result<Step> {
        let first = (step * self.step).max(1);
        let end = ((step + 1) * self.step).min(self.count);
        let pages = pages.get_mut(..end.saturating_sub(first) as usize).unwrap_or_default();
        pages.iter_mut().for_each(|page| page.as_bytes_mut().fill(0));
        let (made, damaged) = (self.make)(PageId::of_file(self.number, first), pages)?;
        if made > 0 {
            out.clear();
            pages.iter().for_each(|page| out.extend_from_slice(page.as_bytes()));
            self.file.write_at(out, first * PAGE_SIZE as u64)?;
        }
        Ok(Step { pages: pages.len() as u64, made, damaged })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;
    use std::sync::Mutex;

    use resurgam_vfs::{OpenMode, SimVfs, Vfs};

    use super::*;

    fn file() -> Result<Arc<dyn File>> {
        let vfs = SimVfs::new(1);
        vfs.make_folder(Path::new("/db"))?;
        vfs.open(Path::new("/db/data"), OpenMode::Create)
    }

    #[test]
    fn each_page_is_made_and_written_once_whatever_the_threads() -> Result<()> {
        for count in [0, 1, 2, STEP - 1, STEP, STEP + 1, 5 * STEP + 7] {
            for threads in [1, 2, 7] {
                let file = file()?;
                let seen = Mutex::new(BTreeSet::new());
                let make = |first: PageId, pages: &mut [PageBuf]| {
                    for (i, page) in pages.iter_mut().enumerate() {
                        let at = first.0 + i as u64;
                        assert!(seen.lock().unwrap_or_else(|e| e.into_inner()).insert(at), "page {at} is made twice");
                        page.as_bytes_mut()[..8].copy_from_slice(&at.to_le_bytes());
                    }
                    Ok((pages.len() as u64, 0))
                };
                let mut told = 0;
                let written = write_all(&file, 0, count, threads, &make, &mut |pages| told += pages)?;
                let all = count.saturating_sub(1);
                assert_eq!((written.pages, told), (all, all), "{count} pages, {threads} threads");
                for at in 1..count {
                    let mut bytes = [0; 8];
                    file.read_exact_at(&mut bytes, at * PAGE_SIZE as u64)?;
                    assert_eq!(u64::from_le_bytes(bytes), at);
                }
                assert_eq!(seen.into_inner().unwrap_or_else(|e| e.into_inner()).len() as u64, all);
            }
        }
        Ok(())
    }

    #[test]
    fn an_error_ends_the_pass() -> Result<()> {
        for threads in [1, 3] {
            let file = file()?;
            let begun = AtomicU64::new(0);
            let make = |first: PageId, pages: &mut [PageBuf]| {
                begun.fetch_add(1, Ordering::SeqCst);
                match first.0 >= 2 * STEP {
                    true => Err(Error::corrupt(format!("page {first} cannot be made"))),
                    false => Ok((pages.len() as u64, 0)),
                }
            };
            let error = write_all(&file, 0, 100 * STEP, threads, &make, &mut |_| {}).expect_err("it cannot be made");
            assert!(error.kind() == ErrorKind::Corrupt && error.message().contains("cannot be made"), "{error}");
            assert!(begun.load(Ordering::SeqCst) <= 2 * STEP / step_of(threads) + 2 * threads as u64, "it went on");
        }
        Ok(())
    }
}
