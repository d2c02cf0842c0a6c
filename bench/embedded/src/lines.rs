//! The lines of the table, in the order in which they are measured.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::data::{key, mix, sorted_key, value};
use crate::store::{Commit, Of, Outcome, Reader, Store, Writer};

/// How much is done.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    /// Rows of the bulk load.
    pub rows: u64,
    /// Of single reads of one thread.
    pub reads: u64,
}

/// The number of a line.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    /// A second, or MiB.
    pub of: f64,
    /// A second of the process's processor time, what it does in the background included: where others use the machine as
    /// well, this says more.
    pub of_cpu: f64,
}

/// What one run of one store gave, in the order in which it was measured.
pub type Numbers = Vec<(Line, Option<Number>)>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    BulkLoad,
    IndividualWrites,
    BatchWrites,
    Count,
    RandomReads,
    RandomReads2,
    Ranges,
    Scan,
    SizeWritten,
    Retain,
    Remove,
    SizeCompacted,
    SortedInserts,
    PopFirst,
    PopFirstEach,
}

impl Line {
    pub fn name(self) -> &'static str {
        match self {
            Self::BulkLoad => "bulk load in one transaction, rows/s",
            Self::IndividualWrites => "individual writes, durable, rows/s",
            Self::BatchWrites => "writes in batches of 1000, durable, rows/s",
            Self::Count => "exact count, calls/s",
            Self::RandomReads => "random reads, 1 thread, rows/s",
            Self::RandomReads2 => "random reads, 2 threads, rows/s",
            Self::Ranges => "ranges of 10, ranges/s",
            Self::Scan => "full scan, rows/s",
            Self::SizeWritten => "size after the writes, MiB",
            Self::Retain => "retain half, rows looked at/s",
            Self::Remove => "remove half of the rest, rows/s",
            Self::SizeCompacted => "size after compaction, MiB",
            Self::SortedInserts => "sorted inserts in one transaction, rows/s",
            Self::PopFirst => "pop first, all in one transaction, rows/s",
            Self::PopFirstEach => "pop first, a transaction each, not durable at once, rows/s",
        }
    }
    pub fn is_size(self) -> bool {
        matches!(self, Self::SizeWritten | Self::SizeCompacted)
    }
}

const INDIVIDUAL: u64 = 500;
const BATCHES: u64 = 50;
const BATCH: u64 = 1000;
const RANGE: usize = 10;
/// How long pops are done at most: stores that pass over all that was popped before would need hours.
const POP_MAX: Duration = Duration::from_secs(10);
/// Pops between two looks at the clock.
const POPS_AT_ONCE: u64 = 16;

/// A moment.
struct Clock {
    time: Instant,
    cpu: Duration,
}

impl Clock {
    fn now() -> Self {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        Self { time: Instant::now(), cpu: Duration::new(cpu.tv_sec as u64, cpu.tv_nsec as u32) }
    }
    fn elapsed(&self) -> Duration {
        self.time.elapsed()
    }
}

fn rate(n: u64, since: Clock) -> Number {
    let now = Clock::now();
    Number {
        of: n as f64 / (now.time - since.time).as_secs_f64(),
        of_cpu: n as f64 / now.cpu.saturating_sub(since.cpu).as_secs_f64(),
    }
}

/// What a folder has on the disk: files of some stores have holes.
pub fn bytes_of(dir: &Path) -> Outcome<u64> {
    use std::os::unix::fs::MetadataExt;
    let mut sum = 0;
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        let meta = entry.metadata()?;
        sum += if meta.is_dir() { bytes_of(&entry.path())? } else { meta.blocks() * 512 };
    }
    Ok(sum)
}

fn size_of(dir: &Path) -> Outcome<Number> {
    let mib = bytes_of(dir)? as f64 / (1 << 20) as f64;
    Ok(Number { of: mib, of_cpu: mib })
}

fn same(what: &str, found: u64, wanted: u64) -> Outcome<()> {
    if found == wanted { Ok(()) } else { Err(format!("{what}: {found} rows instead of {wanted}").into()) }
}

fn pop(writer: &mut dyn Writer) -> Outcome<()> {
    if writer.pop_first()? { Ok(()) } else { Err("nothing to pop".into()) }
}

/// Pops so many, or as many as there is time for.
fn pops(most: u64, since: &Clock, done: &mut u64, mut pop: impl FnMut() -> Outcome<()>) -> Outcome<()> {
    while *done < most && (*done % POPS_AT_ONCE != 0 || since.elapsed() < POP_MAX) {
        pop()?;
        *done += 1;
    }
    Ok(())
}

/// Random reads of rows that are there.
fn gets(reader: &mut dyn Reader, seed: u64, reads: u64, rows: u64) -> Outcome<()> {
    let (mut found, mut sum) = (0, 0u64);
    for i in 0..reads {
        let n = mix(seed.wrapping_add(i)) % rows;
        let there = reader.get(&key(n), &mut |_, value| {
            sum += u64::from(value[0]) + u64::from(value[value.len() - 1]);
        })?;
        found += u64::from(there);
    }
    std::hint::black_box(sum);
    same("random reads", found, reads)
}

/// Runs all lines on an empty store, whose files are in `dir`. `only`: the lines that are wanted; what they need is done
/// all the same.
pub fn run(store: &mut dyn Store, dir: &Path, size: Size, only: &dyn Fn(Line) -> bool) -> Outcome<Numbers> {
    let mut numbers = Numbers::new();
    let mut rows = size.rows;

    let start = Clock::now();
    store.write(Of::Main, Commit::Durable, &mut |writer| (0..rows).try_for_each(|n| writer.put(&key(n), &value(n))))?;
    numbers.push((Line::BulkLoad, Some(rate(rows, start))));

    if only(Line::IndividualWrites) {
        let start = Clock::now();
        for n in rows..rows + INDIVIDUAL {
            store.write(Of::Main, Commit::Durable, &mut |writer| writer.put(&key(n), &value(n)))?;
        }
        rows += INDIVIDUAL;
        numbers.push((Line::IndividualWrites, Some(rate(INDIVIDUAL, start))));
    }
    if only(Line::BatchWrites) {
        let start = Clock::now();
        for _ in 0..BATCHES {
            store.write(Of::Main, Commit::Durable, &mut |writer| {
                (rows..rows + BATCH).try_for_each(|n| writer.put(&key(n), &value(n)))
            })?;
            rows += BATCH;
        }
        numbers.push((Line::BatchWrites, Some(rate(BATCHES * BATCH, start))));
    }
    if only(Line::Count) {
        store.read(Of::Main, &mut |reader| {
            let (start, mut calls) = (Clock::now(), 0);
            while calls < 3 || (start.elapsed().as_millis() < 300 && calls < 1_000_000) {
                same("count", reader.count()?, rows)?;
                calls += 1;
            }
            numbers.push((Line::Count, Some(rate(calls, start))));
            Ok(())
        })?;
    }
    if only(Line::RandomReads) {
        store.read(Of::Main, &mut |reader| {
            gets(reader, 7, size.reads / 4, rows)?; // what a first read brings in is not measured
            let start = Clock::now();
            gets(reader, 1, size.reads, rows)?;
            numbers.push((Line::RandomReads, Some(rate(size.reads, start))));
            Ok(())
        })?;
    }
    if only(Line::RandomReads2) {
        let start = Clock::now();
        let shared: &dyn Store = store;
        std::thread::scope(|scope| {
            let threads: Vec<_> = [2u64 << 32, 3 << 32]
                .into_iter()
                .map(|seed| {
                    scope.spawn(move || shared.read(Of::Main, &mut |reader| gets(reader, seed, size.reads, rows)))
                })
                .collect();
            threads.into_iter().try_for_each(|thread| thread.join().map_err(|_| "a reader panicked")?)
        })?;
        numbers.push((Line::RandomReads2, Some(rate(2 * size.reads, start))));
    }
    if only(Line::Ranges) {
        store.read(Of::Main, &mut |reader| {
            let ranges = size.reads / 2;
            let (start, mut sum, mut found) = (Clock::now(), 0u64, 0);
            for i in 0..ranges {
                let from = key(mix(4 + (i << 8)) % rows);
                found += reader.range(&from, RANGE, &mut |_, value| sum += u64::from(value[0]))? as u64;
            }
            std::hint::black_box(sum);
            numbers.push((Line::Ranges, Some(rate(ranges, start))));
            // Near the end there are fewer.
            if found + 100 < ranges * RANGE as u64 { Err("ranges are too short".into()) } else { Ok(()) }
        })?;
    }
    if only(Line::Scan) {
        store.read(Of::Main, &mut |reader| {
            let (start, mut sum) = (Clock::now(), 0u64);
            same("scan", reader.scan(&mut |_, value| sum += u64::from(value[0]))?, rows)?;
            std::hint::black_box(sum);
            numbers.push((Line::Scan, Some(rate(rows, start))));
            Ok(())
        })?;
    }
    numbers.push((Line::SizeWritten, Some(size_of(dir)?)));

    let keep = |key: &[u8]| key[3] & 1 == 0;
    if only(Line::Retain) {
        let start = Clock::now();
        let mut removed = 0;
        store.write(Of::Main, Commit::Durable, &mut |writer| {
            removed = writer.retain(&keep)?;
            Ok(())
        })?;
        numbers.push((Line::Retain, Some(rate(rows, start))));
        let kept: Vec<u64> = (0..rows).filter(|n| keep(&key(*n))).collect();
        same("retain", rows - removed, kept.len() as u64)?;

        if only(Line::Remove) {
            let going: Vec<u64> = kept.iter().copied().filter(|n| mix(*n) & 1 == 0).collect();
            let start = Clock::now();
            let mut removed = 0;
            store.write(Of::Main, Commit::Durable, &mut |writer| {
                for n in &going {
                    removed += u64::from(writer.remove(&key(*n))?);
                }
                Ok(())
            })?;
            numbers.push((Line::Remove, Some(rate(going.len() as u64, start))));
            same("remove", removed, going.len() as u64)?;
            store.read(Of::Main, &mut |reader| {
                same("what is left", reader.count()?, (kept.len() - going.len()) as u64)
            })?;
        }
    }
    if only(Line::SizeCompacted) {
        let compacted = store.compact()?;
        numbers.push((Line::SizeCompacted, if compacted { Some(size_of(dir)?) } else { None }));
    }

    if only(Line::SortedInserts) || only(Line::PopFirst) || only(Line::PopFirstEach) {
        let sorted = size.rows;
        let start = Clock::now();
        store.write(Of::Sorted, Commit::Durable, &mut |writer| {
            (0..sorted).try_for_each(|n| writer.put(&sorted_key(n), &value(n)))
        })?;
        numbers.push((Line::SortedInserts, Some(rate(sorted, start))));

        let popped = (sorted / 4).min(50_000);
        if only(Line::PopFirst) {
            let (start, mut done) = (Clock::now(), 0);
            store.write(Of::Sorted, Commit::Durable, &mut |writer| pops(popped, &start, &mut done, || pop(writer)))?;
            numbers.push((Line::PopFirst, Some(rate(done, start))));
        }
        if only(Line::PopFirstEach) {
            let (start, mut done) = (Clock::now(), 0);
            pops(popped, &start, &mut done, || store.write(Of::Sorted, Commit::Later, &mut |writer| pop(writer)))?;
            numbers.push((Line::PopFirstEach, Some(rate(done, start))));
        }
    }
    Ok(numbers)
}
