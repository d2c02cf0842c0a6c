//! Several threads, tickets, and the log's own threads.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use resurgam_base::ErrorKind;
use resurgam_vfs::{FaultPlan, RealVfs};

use super::*;

struct Unpark {
    thread: std::thread::Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

/// The smallest executor. It polls when it was woken and never else, so that a lost wake-up is found.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = std::pin::pin!(future);
    let unpark = Arc::new(Unpark { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        let asleep = Instant::now();
        while !unpark.woken.swap(false, Ordering::SeqCst) {
            assert!(asleep.elapsed() < Duration::from_secs(60), "a lost wake-up");
            std::thread::park_timeout(Duration::from_secs(1));
        }
    }
}

fn commit_from_threads(log: &Log, threads: u64, commits: u64, tickets: bool) {
    std::thread::scope(|scope| {
        for thread in 0..threads {
            scope.spawn(move || {
                let mut group = Group::new();
                for i in 0..commits {
                    note(&mut group, thread * 1_000_000 + i, &[thread as u8; 200]);
                    let at = log.append(&group).unwrap();
                    if tickets {
                        block_on(log.flushed(at.end)).unwrap();
                    } else {
                        log.flush(at.end).unwrap();
                    }
                    assert!(log.flushed_lsn() >= at.end);
                }
            });
        }
    });
}

/// Every thread's commits are in the log, in that thread's order.
fn assert_all_there(vfs: &Arc<dyn Vfs>, config: &LogConfig, threads: u64, commits: u64) {
    let (records, _) = read_all(vfs, config, config.first_lsn());
    for thread in 0..threads {
        let of_thread: Vec<u64> =
            records.iter().map(|record| record.header.tx.0).filter(|tx| tx / 1_000_000 == thread).collect();
        let expected: Vec<u64> = (0..commits).map(|i| thread * 1_000_000 + i).collect();
        assert_eq!(of_thread, expected);
    }
}

#[test]
fn group_commit_on_the_real_disk() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log");
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let config = LogConfig { segment_bytes: 1 << 20, ..LogConfig::default() };
    let log = Log::create(Arc::clone(&vfs), &path, config.clone(), 1).unwrap();
    log.start_flusher().unwrap();
    commit_from_threads(&log, 16, 50, false);
    log.close().unwrap();
    let stats = log.stats();
    assert_eq!(stats.groups, 800);
    assert!(stats.syncs < 800, "commits share syncs: {stats:?}");
    let mut reader = LogReader::open(Arc::clone(&vfs), &path, config.segment_bytes, config.first_lsn(), 1).unwrap();
    let mut found = 0;
    while reader.next().unwrap().is_some() {
        found += 1;
    }
    assert_eq!(found, 800);
    assert_eq!(reader.end().lsn, log.end_lsn());
}

#[test]
fn many_threads_with_and_without_the_flusher() {
    for (flusher, tickets) in [(false, false), (false, true), (true, false), (true, true)] {
        let (_, vfs) = sim(1);
        let config = small();
        let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
        let seen = Arc::new(AtomicU64::new(0));
        let hook_seen = Arc::clone(&seen);
        log.set_durable_hook(Box::new(move |lsn| {
            assert!(hook_seen.swap(lsn.0, Ordering::SeqCst) < lsn.0);
        }));
        if flusher {
            log.start_flusher().unwrap();
        }
        commit_from_threads(&log, 8, 100, tickets);
        log.close().unwrap();
        assert_eq!(seen.load(Ordering::SeqCst), log.flushed_lsn().0);
        assert_all_there(&vfs, &config, 8, 100);
    }
}

#[test]
fn reading_and_truncating_while_others_append() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    log.start_flusher().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3u64 {
            let log = &log;
            scope.spawn(move || {
                let mut group = Group::new();
                for i in 0..500 {
                    note(&mut group, thread * 1_000_000 + i, &[thread as u8; 100]);
                    let at = log.append(&group).unwrap();
                    let record = log.read_record(at.base).unwrap();
                    assert_eq!(record.header.tx, TxId(thread * 1_000_000 + i));
                    if i % 16 == 0 {
                        log.flush(at.end).unwrap();
                        // The others are at most a few segments behind.
                        log.truncate_before(Lsn(at.base.0.saturating_sub(20 * 8192))).unwrap();
                    }
                }
            });
        }
    });
    log.close().unwrap();
    assert!(log.oldest_lsn() > config.first_lsn());
    let oldest = log.oldest_lsn();
    let (records, _) = read_all(&vfs, &config, oldest);
    assert_eq!(records.iter().filter(|r| r.header.tx.0 % 1_000_000 == 499).count(), 3);
}

#[test]
fn a_failed_sync_tells_every_waiter() {
    let (sim, vfs) = sim(1);
    let log = Log::create(Arc::clone(&vfs), &dir(), small(), 1).unwrap();
    log.start_flusher().unwrap();
    sim.set_faults(FaultPlan { fail_sync_at: Some(20), ..Default::default() });
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let log = &log;
            scope.spawn(move || {
                let mut group = Group::new();
                loop {
                    note(&mut group, thread, &[1; 50]);
                    let result = log
                        .append(&group)
                        .and_then(|at| if thread % 2 == 0 { log.flush(at.end) } else { block_on(log.flushed(at.end)) });
                    if let Err(error) = result {
                        assert_eq!(error.kind(), ErrorKind::Stopped);
                        break;
                    }
                }
            });
        }
    });
    assert_eq!(log.close().unwrap_err().kind(), ErrorKind::Stopped);
}

#[test]
fn dropping_the_log_resolves_its_tickets_and_ends_its_threads() {
    let (_, vfs) = sim(1);
    let log = Log::create(Arc::clone(&vfs), &dir(), small(), 1).unwrap();
    log.start_flusher().unwrap();
    let mut group = Group::new();
    note(&mut group, 1, b"x");
    let at = log.append(&group).unwrap();
    let ticket = log.flushed(at.end);
    drop(log);
    // Flushed by the flusher just in time, or stopped; never for ever.
    if let Err(error) = block_on(ticket) {
        assert_eq!(error.kind(), ErrorKind::Stopped);
    }
}
