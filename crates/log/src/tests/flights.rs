//! Several flushes under way: holes after crashes, failed syncs beside others, what is acknowledged and when.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use resurgam_base::{Error, ErrorKind, Result};
use resurgam_vfs::{FaultPlan, File, FileLock, OpenMode, SimConfig, VfsStats};

use super::crash::{Known, Rng, check, seeds};
use super::*;
use crate::{BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader, LogBlock, LogSink, PlantedInLog, WhyStopped};

#[derive(Default)]
struct Seen {
    /// Crashes that left a whole block of the last opening behind the end.
    holes: u64,
    /// Ends at which such a block stood in the end, right where the next one would.
    stale: u64,
    /// Crashes that took something that was appended.
    lost: u64,
    /// Lives that ended with a sync or a write that failed.
    failed: u64,
    /// Flushes that waited for one before them.
    held: u64,
    most: u64,
}

/// Whole blocks of `epoch` behind `end`.
fn behind(vfs: &Arc<dyn Vfs>, config: &LogConfig, end: Lsn, epoch: u32) -> u64 {
    let mut found = 0;
    for number in crate::segments::list_segments(&**vfs, &dir()).unwrap() {
        let path = crate::segment_path(&**vfs, &dir(), number).unwrap();
        let file = vfs.open(&path, OpenMode::ReadOnly).unwrap();
        let mut bytes = vec![0; config.segment_bytes as usize];
        let read = file.read_at(&mut bytes, 0).unwrap();
        bytes.truncate(read);
        for at in (0..bytes.len()).step_by(BLOCK_ALIGN) {
            let lsn = Lsn(number * config.segment_bytes + at as u64);
            let Some(head) = bytes.get(at..at + BLOCK_HEADER_BYTES).and_then(|head| head.first_chunk()) else { break };
            let Some(header) = BlockHeader::decode(head, lsn).filter(|header| header.epoch == epoch) else { continue };
            let whole = bytes.get(at..at + header.len() as usize);
            found += u64::from(lsn > end && whole.is_some_and(|block| BlockHeader::verify(block).unwrap()));
        }
    }
    found
}

/// As those of `crash.rs`, with several flushes at once, whose steps are made in any order.
fn schedule(seed: u64, seen: &mut Seen) -> Result<(), String> {
    let mut rng = Rng((seed ^ 0x666c_6967_6874).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let sector_bytes = if rng.below(4) == 0 { 4096 } else { 512 };
    let mut disk = SimVfs::with_config(SimConfig { seed, sector_bytes });
    let config = LogConfig {
        segment_bytes: 4096 * (1 + rng.below(4)),
        block_payload_bytes_max: 700 + rng.below(2800) as usize,
        buffer_bytes_max: 4000 + rng.below(20_000) as usize,
        spare_segments: rng.below(3),
        own_files: seed.is_multiple_of(2),
        flights: 2 + rng.below(5) as usize,
        shuffled: seed + 1,
    };
    // Blocks of one size make it likely that those of two lives fit together.
    let uniform = rng.below(2) == 0;
    let mut vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut known: Vec<Known> = Vec::new();
    let mut from = config.first_lsn();
    let mut epoch = 1;
    let mut log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), epoch).unwrap();
    let mut group = Group::new();
    let mut tag = 0;
    for _life in 0..5 {
        let call = Some(1 + rng.below(50));
        let faults = match rng.below(4) {
            0 => FaultPlan { fail_sync_at: Some(1 + rng.below(20)), ..Default::default() },
            1 => FaultPlan { fail_write_at: Some(1 + rng.below(20)), ..Default::default() },
            _ => FaultPlan { crash_after_ops: call, ..Default::default() },
        };
        disk.set_faults(faults);
        for _ in 0..400 {
            tag += 1;
            let (records, body_bytes) = if uniform { (1, 200) } else { (1 + rng.below(3), rng.below(120) as usize) };
            pages(&mut group, tag, records, body_bytes);
            let fresh = uniform || rng.below(10) == 0;
            let result = if fresh { log.append_at_block_start(&group) } else { log.append(&group) };
            let Ok(at) = result else { break };
            known.push(Known { tag, records, body_bytes, at });
            if rng.below(6) == 0 && log.flush(Lsn(at.base.0 + 1)).is_err() {
                break;
            }
            if rng.below(25) == 0 {
                // A block that is there for good: the reader begins with it, and knows of none before.
                let flushed = log.flushed_lsn();
                let known = &known[rng.below(known.len() as u64) as usize].at;
                let keep = known.block;
                if keep > from && known.end <= flushed {
                    from = keep;
                    if log.truncate_before(keep).is_err() {
                        break;
                    }
                }
            }
            if rng.below(20) == 0 && log.confirm().is_err() {
                break;
            }
        }
        // Whoever waited for so much may have been told.
        let flushed = log.flushed_lsn();
        let acknowledged = known.partition_point(|known| known.at.end <= flushed);
        seen.failed += u64::from(log.check_running().is_err() && !disk.power_lost());
        seen.held += log.stats().flights_held;
        seen.most = seen.most.max(log.stats().flying_most);
        let appended = known.len();
        let killed = rng.below(3) == 0;
        disk = if killed { disk.kill() } else { disk.crash() };
        vfs = Arc::new(disk.clone());
        drop(log);
        let end = check(&vfs, &config, &mut known, acknowledged, from, epoch)?;
        seen.lost += u64::from(known.len() < appended);
        seen.holes += u64::from(behind(&vfs, &config, end.lsn, epoch) > 0);
        epoch += 1;
        log = Log::open(Arc::clone(&vfs), &dir(), config.clone(), epoch, end).map_err(|e| e.to_string())?;
        let durable = known.len();
        // A little is written, which may end where a block of the last life begins.
        for _ in 0..rng.below(3) {
            tag += 1;
            let (records, body_bytes) = if uniform { (1, 200) } else { (1, rng.below(120) as usize) };
            pages(&mut group, tag, records, body_bytes);
            let Ok(at) = log.append(&group) else { break };
            known.push(Known { tag, records, body_bytes, at });
        }
        if rng.below(2) == 0 {
            log.flush_all().map_err(|e| e.to_string())?;
            let all = known.len();
            let end = check(&vfs, &config, &mut known, all, from, epoch)?;
            let mut last = LogReader::open(Arc::clone(&vfs), &dir(), config.segment_bytes, end.lsn, end.epoch).unwrap();
            let there = last.next().map_err(|e| e.to_string())?.is_some();
            if there {
                return Err(format!("the log goes on behind its end at LSN {}", end.lsn));
            }
            seen.stale += u64::from(last.why_stopped() == Some(WhyStopped::StaleEpoch));
        } else {
            // Opened, and dead before anything of it was durable.
            let flushed = log.flushed_lsn();
            let acknowledged = known.partition_point(|known| known.at.end <= flushed).max(durable);
            disk = disk.crash();
            vfs = Arc::new(disk.clone());
            drop(log);
            let end = check(&vfs, &config, &mut known, acknowledged, from, epoch)?;
            epoch += 1;
            log = Log::open(Arc::clone(&vfs), &dir(), config.clone(), epoch, end).map_err(|e| e.to_string())?;
        }
    }
    log.close().map_err(|e| e.to_string())?;
    let all = known.len();
    check(&vfs, &config, &mut known, all, from, epoch)?;
    Ok(())
}

#[test]
fn whatever_is_durable_first_what_is_acknowledged_is_there_and_no_hole_is_passed_over() {
    let mut seen = Seen::default();
    let range = seeds(3000);
    let all = range.end - range.start >= 1000;
    for seed in range {
        if let Err(what) = schedule(seed, &mut seen) {
            panic!("SEED={seed}: {what}");
        }
    }
    let reached = [seen.holes, seen.stale, seen.lost, seen.failed, seen.held];
    println!("holes, stale blocks at the end, losses, failures, flights held: {reached:?}, {} at once", seen.most);
    assert!(!all || reached.iter().all(|n| *n > 100) && seen.most > 4, "rare cases were not reached: {reached:?}");
}

#[test]
fn canaries_of_flights_are_caught() {
    let caught = |planted: PlantedInLog, seeds: u64| {
        // In this thread only: nothing else runs in it meanwhile.
        planted.plant_here();
        let caught = (0..seeds).filter(|seed| schedule(*seed, &mut Seen::default()).is_err()).count();
        PlantedInLog::None.plant_here();
        println!("{planted:?}: caught by {caught} of {seeds} schedules");
        caught
    };
    assert!(caught(PlantedInLog::OutOfOrder, 200) > 20);
    assert!(caught(PlantedInLog::StaleBlock, 200) > 5);
    assert!(caught(PlantedInLog::SharedHandle, 2000) > 3);
    assert_eq!(caught(PlantedInLog::None, 100), 0);
}

/// A disk on which the test decides which sync ends when.
struct Held {
    inner: Arc<dyn Vfs>,
    state: Arc<HeldState>,
}

#[derive(Default)]
struct HeldState {
    is_held: AtomicBool,
    number: AtomicU64,
    /// Syncs under way, by number: whether they may end, and how.
    waiting: Mutex<BTreeMap<u64, Option<bool>>>,
    changed: Condvar,
}

impl HeldState {
    fn wait_for(&self, count: usize) -> Vec<u64> {
        let mut waiting = self.waiting.lock();
        while waiting.len() < count {
            assert!(!self.changed.wait_for(&mut waiting, Duration::from_secs(60)).timed_out(), "no further flush");
        }
        waiting.keys().copied().collect()
    }

    fn end(&self, number: u64, well: bool) {
        self.waiting.lock().insert(number, Some(well));
        self.changed.notify_all();
    }
}

struct HeldFile {
    inner: Arc<dyn File>,
    state: Arc<HeldState>,
}

impl File for HeldFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.inner.write_at(buf, offset)
    }
    fn sync(&self) -> Result<()> {
        if self.state.is_held.load(Ordering::SeqCst) {
            let number = self.state.number.fetch_add(1, Ordering::SeqCst);
            let mut waiting = self.state.waiting.lock();
            waiting.insert(number, None);
            self.state.changed.notify_all();
            let well = loop {
                if let Some(Some(well)) = waiting.get(&number) {
                    break *well;
                }
                self.state.changed.wait(&mut waiting);
            };
            waiting.remove(&number);
            if !well {
                return Err(Error::new(ErrorKind::Io, "this sync was to fail"));
            }
        }
        self.inner.sync()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.inner.set_len(len)
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn preallocate(&self, len: u64) -> Result<()> {
        self.inner.preallocate(len)
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl Vfs for Held {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(Arc::new(HeldFile { inner: self.inner.open(path, mode)?, state: Arc::clone(&self.state) }))
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.inner.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.inner.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool> {
        self.inner.rename_new(from, to)
    }
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.inner.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }
    fn now(&self) -> Duration {
        self.inner.now()
    }
    fn wall_clock_us(&self) -> i64 {
        self.inner.wall_clock_us()
    }
    fn random_u64(&self) -> u64 {
        self.inner.random_u64()
    }
    fn stats(&self) -> VfsStats {
        self.inner.stats()
    }
}

/// What a sink was told.
#[derive(Default)]
struct Told {
    written: Mutex<Vec<Lsn>>,
    durable: Mutex<Vec<Lsn>>,
    refuses: AtomicBool,
}

impl LogSink for Told {
    fn writing(&self, blocks: &[LogBlock]) {
        self.written.lock().extend(blocks.iter().map(LogBlock::lsn));
    }
    fn durable(&self, upto: Lsn) -> Result<()> {
        if self.refuses.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Stopped, "another one has it"));
        }
        self.durable.lock().push(upto);
        Ok(())
    }
}

/// Three flushes at once, by threads of their own: `order` says which of their syncs end, and how.
/// After each, `as_expected` comes to be true and stays so.
fn three_at_once(
    with_flusher: bool,
    order: &[(usize, bool)],
    as_expected: impl Fn(&Log, &Told, &[Lsn], usize) -> bool,
) {
    let (_, inner) = sim(5);
    let state = Arc::<HeldState>::default();
    let vfs: Arc<dyn Vfs> = Arc::new(Held { inner, state: Arc::clone(&state) });
    let config = LogConfig { segment_bytes: 64 << 10, flights: 3, ..small() };
    let log = Log::create(vfs, &dir(), config, 1).unwrap();
    let told = Arc::<Told>::default();
    log.set_sink(Arc::clone(&told) as Arc<dyn LogSink>);
    if with_flusher {
        log.set_writer_delay(Duration::from_secs(3600));
        log.start_flusher().unwrap();
        // The next segment is made ready, with a sync.
        while log.stats().segments_created < 2 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    state.is_held.store(true, Ordering::SeqCst);
    std::thread::scope(|scope| {
        let (mut ends, mut syncs, mut tickets, mut group) = (Vec::new(), Vec::new(), Vec::new(), Group::new());
        for number in 0..3 {
            note(&mut group, number as u64, &[number; 100]);
            let end = log.append(&group).unwrap().end;
            ends.push(end);
            let log = &log;
            if with_flusher {
                tickets.push(log.flushed(end));
            } else {
                scope.spawn(move || drop(log.flush(end)));
            }
            let all = state.wait_for(number as usize + 1);
            syncs.extend(all.into_iter().filter(|sync| !syncs.contains(sync)).collect::<Vec<_>>());
        }
        assert_eq!(log.stats().flying, 3);
        // A fourth waits for a place.
        note(&mut group, 9, &[9; 100]);
        log.append(&group).unwrap();
        for (step, (which, well)) in order.iter().enumerate() {
            state.end(syncs[*which], *well);
            let begun = Instant::now();
            while !as_expected(&log, &told, &ends, step) {
                assert!(begun.elapsed() < Duration::from_secs(30), "step {step}: {:?}", log.stats());
                std::thread::sleep(Duration::from_millis(1));
            }
            std::thread::sleep(Duration::from_millis(20));
            assert!(as_expected(&log, &told, &ends, step), "step {step}: {:?}", log.stats());
        }
        state.is_held.store(false, Ordering::SeqCst);
        // Threads that wait are not waited for.
        for sync in &syncs {
            if state.waiting.lock().contains_key(sync) {
                state.end(*sync, true);
            }
        }
        drop(log.flush_all());
    });
}

#[test]
fn the_last_one_first() {
    for with_flusher in [false, true] {
        three_at_once(with_flusher, &[(2, true), (1, true), (0, true)], |log, told, ends, step| {
            let (flushed, durable, written) = (log.flushed_lsn(), told.durable.lock(), told.written.lock());
            let right = match step {
                2 => flushed >= ends[2] && *durable == [flushed] && log.stats().flights_held == 2,
                _ => flushed < ends[0] && durable.is_empty() && log.stats().flights_held == step as u64 + 1,
            };
            right && written.len() == 3 && written.is_sorted()
        });
    }
}

#[test]
fn one_that_fails_fails_all_behind_it_and_none_before_it() {
    for with_flusher in [false, true] {
        three_at_once(with_flusher, &[(0, true), (2, true), (1, false)], |log, told, ends, step| {
            let flushed = log.flushed_lsn();
            let of_first = flushed >= ends[0] && flushed < ends[1] && told.durable.lock().len() == 1;
            let later = || log.flush(ends[2]).unwrap_err().kind() == ErrorKind::Stopped;
            let stopped = log.check_running().is_err();
            of_first && log.flush(ends[0]).is_ok() && stopped == (step == 2) && (step < 2 || later())
        });
    }
}

#[test]
fn what_the_sink_refuses_is_never_acknowledged_nor_is_what_follows() {
    three_at_once(false, &[(1, true), (0, true), (2, true)], |log, told, ends, step| {
        // The second step asks the sink, which refuses; in the third it would agree again.
        let stopped = log.check_running().is_err();
        told.refuses.store(step == 0 || !stopped, Ordering::SeqCst);
        log.flushed_lsn() < ends[0] && stopped == (step > 0)
    });
}

#[test]
fn the_number_of_flights_is_bounded() {
    let (_, vfs) = sim(1);
    for flights in [0, 17] {
        let config = LogConfig { flights, ..small() };
        assert_eq!(Log::create(Arc::clone(&vfs), &dir(), config, 1).err().unwrap().kind(), ErrorKind::InvalidParameter);
    }
}
