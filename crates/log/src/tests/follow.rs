//! Holds and followers.

use std::time::{Duration, Instant};

use resurgam_base::{ErrorKind, Result};
use resurgam_vfs::{FaultPlan, OpenMode};

use super::*;
use crate::LogFollower;

const NOW: Duration = Duration::ZERO;
const LONG: Duration = Duration::from_secs(60);

/// What there is at once, and whether blocks and positions fit together.
fn drain(follower: &mut LogFollower, wait: Duration) -> Result<Vec<OwnedRecord>> {
    let mut records = Vec::new();
    loop {
        let at = follower.position();
        let Some(block) = follower.next(wait)? else { return Ok(records) };
        assert_eq!((block.lsn(), block.next()), (at, follower.position()));
        for record in block.records() {
            records.push(record?.to_owned());
        }
    }
}

#[test]
fn nothing_that_is_held_is_truncated() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut group = Group::new();
    let mut appended = Vec::new();
    for i in 0..200u64 {
        note(&mut group, i, &[i as u8; 300]);
        appended.push(log.append(&group).unwrap());
    }
    log.flush_all().unwrap();
    let (early, late) = (appended[30].base, appended[120].base);
    let (slow, fast) = (log.hold("slow", early).unwrap(), log.hold("fast", late).unwrap());
    assert_eq!(log.lowest_holder().map(|holder| (holder.name, holder.lsn)), Some(("slow".into(), early)));
    assert_eq!(log.holders().len(), 2);
    log.truncate_before(log.flushed_lsn()).unwrap();
    assert!(log.oldest_lsn() <= early && log.oldest_lsn().0 + 8192 > early.0);
    assert_eq!(log.read_record(early).unwrap().header.tx, TxId(30));
    // Segments below a hold are recycled all the same.
    assert!(log.hold("too late", Lsn(8192)).is_err_and(|e| e.kind() == ErrorKind::NotInPrerequisiteState));
    slow.advance(Lsn(8192));
    assert_eq!(log.lowest_holder().map(|holder| holder.lsn), Some(early), "it never moves back");
    slow.advance(appended[150].base);
    log.truncate_before(log.flushed_lsn()).unwrap();
    assert!(log.oldest_lsn() <= late && log.oldest_lsn().0 + 8192 > late.0);
    drop(fast);
    log.truncate_before(log.flushed_lsn()).unwrap();
    assert_eq!(log.read_record(appended[150].base).unwrap().header.tx, TxId(150));
    drop(slow);
    assert_eq!(log.lowest_holder(), None);
    log.truncate_before(log.flushed_lsn()).unwrap();
    assert!(log.read_record(appended[150].base).is_err());
}

/// What a follower hands out is the log: from memory, from files, and over an opening.
#[test]
fn a_follower_reads_what_a_reader_reads() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut group = Group::new();
    // In step with the log, and far behind it.
    let mut near = log.follow(config.first_lsn()).unwrap();
    let mut followed = Vec::new();
    for i in 0..300u64 {
        pages(&mut group, i, 1 + i % 5, (i * 7 % 200) as usize);
        log.append(&group).unwrap();
        if i % 7 == 6 {
            log.flush_all().unwrap();
            followed.extend(drain(&mut near, NOW).unwrap());
            assert_eq!(near.position(), log.flushed_lsn());
        }
    }
    log.flush_all().unwrap();
    followed.extend(drain(&mut near, NOW).unwrap());
    let (records, reader) = read_all(&vfs, &config, config.first_lsn());
    assert_eq!(followed, records);
    let (memory, files) = near.sources();
    assert!(memory > 40 && files == 0, "{memory} {files}");
    log.close().unwrap();
    assert!(near.next(LONG).is_err_and(|error| error.kind() == ErrorKind::Stopped));

    let log = reopen(&vfs, &config, reader.end());
    let mut far = log.follow(config.first_lsn()).unwrap();
    for i in 300..320u64 {
        note(&mut group, i, &[1; 500]);
        log.append(&group).unwrap();
    }
    log.flush_all().unwrap();
    let followed = drain(&mut far, NOW).unwrap();
    assert_eq!(followed, read_all(&vfs, &config, config.first_lsn()).0);
    assert!(far.sources().1 > 40, "{:?}", far.sources());
    let middle = followed[followed.len() / 2].block;
    let mut from_middle = log.follow(middle).unwrap();
    let rest = drain(&mut from_middle, NOW).unwrap();
    assert_eq!(rest, followed.into_iter().skip_while(|record| record.block < middle).collect::<Vec<_>>());
    for wrong in [Lsn(middle.0 + 1), Lsn(512), Lsn(log.flushed_lsn().0 + 512)] {
        assert!(log.follow(wrong).is_err_and(|e| e.kind() == ErrorKind::InvalidParameter), "{wrong}");
    }
}

/// What is not durable is not handed out, however long one waits; nor after a failed sync.
#[test]
fn only_what_is_durable() {
    for write in [false, true] {
        let (sim, vfs) = sim(1);
        let log = Log::create(Arc::clone(&vfs), &dir(), small(), 1).unwrap();
        let mut follower = log.follow(Lsn(8192)).unwrap();
        let mut group = Group::new();
        note(&mut group, 1, b"durable");
        log.append(&group).unwrap();
        let begun = Instant::now();
        assert!(follower.next(Duration::from_millis(20)).unwrap().is_none());
        assert!(begun.elapsed() >= Duration::from_millis(20));
        log.flush_all().unwrap();
        assert_eq!(drain(&mut follower, NOW).unwrap().len(), 1);
        note(&mut group, 2, b"lost");
        log.append(&group).unwrap();
        let mut plan = FaultPlan::default();
        if write {
            plan.fail_write_at = Some(1)
        } else {
            plan.fail_sync_at = Some(1)
        }
        sim.set_faults(plan);
        assert!(log.flush_all().is_err());
        assert!(follower.next(LONG).is_err_and(|error| error.kind() == ErrorKind::Stopped));
        drop(follower);
        // From the files, where what was not synced may stand, too.
        let mut far = log.follow(Lsn(8192)).unwrap();
        let first = far.next(NOW).unwrap().unwrap();
        assert_eq!((first.records().count(), first.next()), (1, log.flushed_lsn()));
        assert!(far.sources() == (0, 1) && far.next(NOW).is_err_and(|error| error.kind() == ErrorKind::Stopped));
    }
}

/// A block that had been durable and is damaged is an error, not an end.
#[test]
fn damage_is_no_end() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut group = Group::new();
    let mut appended = Vec::new();
    for i in 0..40u64 {
        note(&mut group, i, &[i as u8; 700]);
        appended.push(log.append_at_block_start(&group).unwrap());
    }
    log.flush_all().unwrap();
    let block = appended[20].block;
    let file = vfs.open(&segment_path(block.0 / 8192), OpenMode::ReadWrite).unwrap();
    file.write_at(&[0xEE], block.0 % 8192 + 60).unwrap();
    let mut follower = log.follow(config.first_lsn()).unwrap();
    let mut found = 0;
    let error = loop {
        match follower.next(NOW) {
            Ok(Some(_)) => found += 1,
            Ok(None) => panic!("the end after {found} blocks"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains(&block.to_string()), "{error}");
    assert_eq!(follower.position(), block);
    assert!(follower.next(NOW).is_err(), "and again");
}

/// Behind its back the log is truncated: said, not skipped.
#[test]
fn without_a_hold_the_log_may_go() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut follower = log.follow(config.first_lsn()).unwrap();
    let far = log.follow(config.first_lsn()).unwrap();
    drop(far);
    let mut group = Group::new();
    // More than the tail keeps.
    for i in 0..9000u64 {
        note(&mut group, i, &[i as u8; 700]);
        log.append(&group).unwrap();
        if i % 40 == 0 {
            log.flush_all().unwrap();
        }
    }
    log.flush_all().unwrap();
    log.truncate_before(log.flushed_lsn()).unwrap();
    assert!(follower.next(NOW).is_err_and(|error| error.kind() == ErrorKind::Corrupt));
}

/// Followers in step and lagging, one that comes and goes, truncation, many writers.
#[test]
fn beside_writers_and_truncation() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    log.start_flusher().unwrap();
    let (threads, commits) = (4u64, 300u64);
    let all = threads * commits;
    let begun = Instant::now();
    let follow = |lag: bool| {
        let log = &log;
        let hold = log.hold(if lag { "lagging" } else { "in step" }, Lsn(8192)).unwrap();
        let mut follower = log.follow(Lsn(8192)).unwrap();
        move || {
            let mut seen: Vec<u64> = Vec::new();
            while (seen.len() as u64) < all {
                assert!(begun.elapsed() < LONG, "{} of {all} followed", seen.len());
                let Some(block) = follower.next(Duration::from_millis(50)).unwrap() else { continue };
                assert!(block.next() <= log.flushed_lsn(), "only what is durable");
                let records = block.records().map(|record| record.unwrap().header);
                seen.extend(records.filter(|header| header.tx.is_some()).map(|header| header.tx.0));
                hold.advance(block.next());
                if lag && seen.len().is_multiple_of(10) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            seen
        }
    };
    let (near, far) = (follow(false), follow(true));
    std::thread::scope(|scope| {
        let readers = [scope.spawn(near), scope.spawn(far)];
        for thread in 0..threads {
            let log = &log;
            scope.spawn(move || {
                let mut group = Group::new();
                for i in 0..commits {
                    note(&mut group, 1 + thread * 1_000_000 + i, &[thread as u8; 300]);
                    let at = log.append(&group).unwrap();
                    log.flush(at.end).unwrap();
                    if i % 20 == 0 {
                        log.truncate_before(log.flushed_lsn()).unwrap();
                        drop(log.follow(log.flushed_lsn()));
                    }
                }
            });
        }
        let seen: Vec<_> = readers.into_iter().map(|reader| reader.join().unwrap()).collect();
        assert_eq!(seen[0], seen[1]);
        for thread in 0..threads {
            let of_thread: Vec<_> = seen[0].iter().filter(|tx| (**tx - 1) / 1_000_000 == thread).collect();
            assert!(of_thread.len() as u64 == commits && of_thread.is_sorted());
        }
    });
    log.close().unwrap();
}
