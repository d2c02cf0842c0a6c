//! One thread, no crash.

use proptest::prelude::*;
use resurgam_base::ErrorKind;
use resurgam_vfs::{FaultPlan, OpenMode};

use super::*;
use crate::{BLOCK_HEADER_BYTES, RECORD_HEADER_BYTES, WhyStopped};

#[test]
fn what_is_flushed_is_read_in_order_across_segments() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    assert_eq!(log.end_lsn(), Lsn(8192));
    let mut group = Group::new();
    let mut appended = Vec::new();
    for i in 0..300u64 {
        note(&mut group, i, &vec![i as u8; (i as usize * 37) % 900]);
        appended.push(log.append(&group).unwrap());
        if i % 7 == 0 {
            log.flush(appended[i as usize].end).unwrap();
            assert!(log.flushed_lsn() >= appended[i as usize].end);
        }
    }
    log.flush_all().unwrap();
    assert_eq!(log.flushed_lsn(), log.end_lsn());
    let (records, mut reader) = read_all(&vfs, &config, config.first_lsn());
    assert_eq!(records.len(), 300);
    for (i, (record, appended)) in records.iter().zip(&appended).enumerate() {
        assert_eq!((record.lsn, record.block), (appended.base, appended.block));
        assert_eq!(record.header.tx, TxId(i as u64));
        assert_eq!(record.body, vec![i as u8; (i * 37) % 900]);
        assert_eq!(&log.read_record(appended.base).unwrap(), record);
    }
    assert_eq!(reader.end().lsn, log.end_lsn());
    assert_eq!(reader.end().epoch, 1);
    assert_eq!(reader.why_stopped(), Some(WhyStopped::Zeros));
    reader.check_end().unwrap();
    assert!(log.end_lsn().0 > 10 * 8192);
    let stats = log.stats();
    assert_eq!((stats.groups, stats.records), (300, 300));

    // From the middle, at any block.
    let from = appended[150].block;
    let (tail, _) = read_all(&vfs, &config, from);
    assert_eq!(tail[0].block, from);
    assert_eq!(tail.last(), records.last());
}

#[test]
fn groups_come_back_whole() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut group = Group::new();
    for tag in 1..=50 {
        pages(&mut group, tag, tag % 5 + 1, 20);
        log.append(&group).unwrap();
    }
    log.flush_all().unwrap();
    let mut reader = reader(&vfs, &config, config.first_lsn());
    for tag in 1..=50u64 {
        let group = reader.next_group().unwrap().unwrap();
        let records: Vec<_> = group.records().collect();
        assert_eq!(records.len() as u64, tag % 5 + 1);
        assert!(records.iter().all(|r| r.header.tx == TxId(tag) && r.block == group.block()));
        assert!(records.windows(2).all(|w| w[1].header.prev_tx == w[0].lsn));
    }
    assert!(reader.next_group().unwrap().is_none());
}

#[test]
fn records_are_read_from_memory_and_from_disk_and_bad_positions_are_corrupt() {
    let (_, vfs) = sim(1);
    let log = Log::create(Arc::clone(&vfs), &dir(), small(), 1).unwrap();
    let mut group = Group::new();
    note(&mut group, 1, b"first");
    let first = log.append(&group).unwrap();
    note(&mut group, 2, b"second");
    let second = log.append(&group).unwrap();
    let check = || {
        assert_eq!(log.read_record(first.base).unwrap().body, b"first");
        assert_eq!(log.read_record(second.base).unwrap().body, b"second");
        for lsn in 0..second.end.0 + 2000 {
            if lsn != first.base.0 && lsn != second.base.0 {
                let error = log.read_record(Lsn(lsn)).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{lsn}: {error}");
            }
        }
    };
    check();
    log.flush_all().unwrap();
    check();
    assert!(log.flush(Lsn(1 << 40)).unwrap_err().kind() == ErrorKind::Corrupt);
}

#[test]
fn the_largest_group_fits_and_a_larger_one_is_an_error() {
    let (_, vfs) = sim(1);
    let mut config = small();
    config.block_payload_bytes_max = 8192 - BLOCK_HEADER_BYTES;
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut group = Group::new();
    note(&mut group, 1, b"x");
    log.append(&group).unwrap();
    note(&mut group, 2, &vec![7; config.block_payload_bytes_max - RECORD_HEADER_BYTES]);
    let appended = log.append(&group).unwrap();
    assert_eq!(appended.block, Lsn(2 * 8192), "a segment of its own");
    group.body().push(1);
    assert_eq!(log.append(&group).unwrap_err().kind(), ErrorKind::LimitExceeded);
    note(&mut group, 3, b"y");
    assert_eq!(log.append(&group).unwrap().block, Lsn(3 * 8192));
    log.flush_all().unwrap();
    assert_eq!(read_all(&vfs, &config, config.first_lsn()).0.len(), 3);
}

#[test]
fn a_block_start_on_demand() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut group = Group::new();
    note(&mut group, 1, b"x");
    let a = log.append_at_block_start(&group).unwrap();
    let b = log.append_at_block_start(&group).unwrap();
    let c = log.append(&group).unwrap();
    assert!(a.block < b.block && b.block == c.block);
    assert_eq!(b.base.0, b.block.0 + BLOCK_HEADER_BYTES as u64);
    log.flush_all().unwrap();
    assert_eq!(read_all(&vfs, &config, b.block).0.len(), 2);
    assert!(LogReader::open(vfs, &dir(), 8192, b.base, 1).is_err());
}

#[test]
fn reopening_continues_and_old_epochs_are_refused() {
    let (_, vfs) = sim(1);
    let config = small();
    let mut group = Group::new();
    Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    assert!(Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).is_err());
    for i in 1..=20 {
        let (records, reader) = read_all(&vfs, &config, config.first_lsn());
        assert_eq!(records.len() as u64, (i - 1) * 10);
        let end = LogEnd { epoch: i as u32, ..reader.end() };
        let log = reopen(&vfs, &config, end);
        for tag in 0..10 {
            note(&mut group, i * 100 + tag, &[1; 100]);
            log.append(&group).unwrap();
        }
        log.close().unwrap();
        log.close().unwrap();
        assert_eq!(log.append(&group).unwrap_err().kind(), ErrorKind::Stopped);
        let stale = Log::open(Arc::clone(&vfs), &dir(), config.clone(), i as u32, end);
        assert_eq!(stale.err().unwrap().kind(), ErrorKind::InvalidParameter);
    }
}

#[test]
fn truncation_recycles_and_removes() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut group = Group::new();
    let mut appended = Vec::new();
    for i in 0..400u64 {
        note(&mut group, i, &[i as u8; 300]);
        appended.push(log.append(&group).unwrap());
        if i % 20 == 19 {
            log.flush_all().unwrap();
            let keep = &appended[i as usize - 15];
            log.truncate_before(keep.base).unwrap();
            assert!(log.oldest_lsn() <= keep.base && log.oldest_lsn().0 + 8192 > keep.base.0);
            assert!(vfs.list(&dir()).unwrap().len() <= 4);
            assert_eq!(log.read_record(keep.base).unwrap().header.tx, TxId(i - 15));
            let gone = log.read_record(appended[0].base);
            assert!(i < 60 || gone.unwrap_err().kind() == ErrorKind::Corrupt);
        }
    }
    let stats = log.stats();
    assert!(stats.segments_recycled > 5, "{stats:?}");
    let (records, mut reader) = read_all(&vfs, &config, appended[390].block);
    assert_eq!(records.last().unwrap().header.tx, TxId(399));
    reader.check_end().unwrap();
    let end = reader.end();
    log.close().unwrap();
    let oldest = log.oldest_lsn();
    let log = reopen(&vfs, &config, end);
    assert_eq!(log.oldest_lsn(), oldest);
    assert_eq!(log.read_record(appended[395].base).unwrap().header.tx, TxId(395));
    // Nothing can be given up that is not durable, nor the end's own segment.
    log.truncate_before(Lsn(u64::MAX)).unwrap();
    assert_eq!(log.oldest_lsn().0 / 8192, log.end_lsn().0 / 8192);
}

#[test]
fn a_failed_sync_or_write_stops_the_log() {
    for write in [false, true] {
        let (sim, vfs) = sim(1);
        let log = Log::create(Arc::clone(&vfs), &dir(), small(), 1).unwrap();
        let mut group = Group::new();
        note(&mut group, 1, b"x");
        let first = log.append(&group).unwrap();
        log.flush(first.end).unwrap();
        let at = Some(1);
        sim.set_faults(if write {
            FaultPlan { fail_write_at: at, ..Default::default() }
        } else {
            FaultPlan { fail_sync_at: at, ..Default::default() }
        });
        let second = log.append(&group).unwrap();
        for _ in 0..3 {
            let error = log.flush(second.end).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Stopped);
            assert!(error.detail().unwrap().contains("simulated"), "{error}");
        }
        assert_eq!(log.append(&group).unwrap_err().kind(), ErrorKind::Stopped);
        assert_eq!(log.flushed(second.end).wait().unwrap_err().kind(), ErrorKind::Stopped);
        assert!(log.flushed_lsn() < second.end);
        log.flush(first.end).unwrap();
        assert_eq!(log.close().unwrap_err().kind(), ErrorKind::Stopped);
    }
}

#[test]
fn a_full_disk_fails_the_append_and_the_log_goes_on() {
    let (sim, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    sim.set_faults(FaultPlan { capacity_bytes: Some(3 * 8192), ..Default::default() });
    let mut group = Group::new();
    note(&mut group, 1, &[1; 1000]);
    let mut acknowledged = 0;
    let error = loop {
        match log.append(&group) {
            Ok(_) => acknowledged += 1,
            Err(error) => break error,
        }
    };
    assert_eq!(error.kind(), ErrorKind::DiskFull, "{error}");
    log.flush_all().unwrap();
    // Something small may still fit; and with space made, all goes on.
    sim.set_faults(FaultPlan::default());
    log.append(&group).unwrap();
    log.close().unwrap();
    assert_eq!(read_all(&vfs, &config, config.first_lsn()).0.len(), acknowledged + 1);
}

#[test]
fn damage_in_the_middle_is_told_from_an_end() {
    let (sim, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut group = Group::new();
    let mut appended = Vec::new();
    for i in 0..30 {
        note(&mut group, i, &[1; 500]);
        appended.push(log.append(&group).unwrap());
        log.flush_all().unwrap();
    }
    let hit = appended[10].base;
    sim.flip_bit(&segment_path(hit.0 / 8192), (hit.0 % 8192 + 100) * 8).unwrap();
    let (records, mut reader) = read_all(&vfs, &config, config.first_lsn());
    assert_eq!(records.len(), 10);
    assert_eq!(reader.why_stopped(), Some(WhyStopped::BadChecksum));
    let error = reader.check_end().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(error.message().contains(&format!("LSN {}", appended[10].block)), "{error}");
    assert_eq!(log.read_record(hit).unwrap_err().kind(), ErrorKind::Corrupt);

    // A whole segment that is gone.
    vfs.remove(&segment_path(2)).unwrap();
    let (_, mut reader) = read_all(&vfs, &config, block_start(&appended[20..]));
    reader.check_end().unwrap();
    sim.flip_bit(&segment_path(hit.0 / 8192), (hit.0 % 8192 + 100) * 8).err();
    let (_, mut reader) = read_all(&vfs, &config, Lsn(2 * 8192));
    assert_eq!(reader.why_stopped(), Some(WhyStopped::MissingSegment));
    assert!(reader.check_end().is_err());
}

#[test]
fn an_end_on_a_boundary_of_segments_is_told_from_a_removed_one() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let mut group = Group::new();
    note(&mut group, 1, &[]);
    // Four blocks of 2048 bytes fill a segment.
    let body = vec![7; 2048 - BLOCK_HEADER_BYTES - group.len()];
    for i in 0..4 {
        note(&mut group, i, &body);
        let appended = log.append(&group).unwrap();
        log.flush_all().unwrap();
        assert_eq!(appended.block, Lsn(8192 + i * 2048));
    }
    let (records, mut reader) = read_all(&vfs, &config, config.first_lsn());
    assert_eq!((records.len(), reader.end().lsn), (4, Lsn(2 * 8192)));
    reader.check_end().unwrap();
    // A fifth in the next segment, which then goes.
    note(&mut group, 4, &body);
    log.append(&group).unwrap();
    log.flush_all().unwrap();
    vfs.remove(&segment_path(2)).unwrap();
    let (records, mut reader) = read_all(&vfs, &config, config.first_lsn());
    assert_eq!((records.len(), reader.why_stopped()), (4, Some(WhyStopped::MissingSegment)));
    assert!(reader.check_end().unwrap_err().message().contains("is missing"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever is in a segment file: no panic, and only intact blocks count.
    #[test]
    fn damaged_files_never_panic(flips in prop::collection::vec(0u64..8192 * 8, 1..20),
                                 cut in 0u64..8192, garbage: bool) {
        let (sim, vfs) = sim(1);
        let config = small();
        let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
        let mut group = Group::new();
        for i in 0..12 {
            pages(&mut group, i + 1, 3, 100);
            log.append(&group).unwrap();
            log.flush_all().unwrap();
        }
        drop(log);
        let (whole, _) = read_all(&vfs, &config, config.first_lsn());
        for bit in flips {
            sim.flip_bit(&segment_path(1), bit).unwrap();
        }
        let file = vfs.open(&segment_path(1), OpenMode::ReadWrite).unwrap();
        if garbage {
            file.set_len(cut).unwrap();
        }
        let mut reader = reader(&vfs, &config, config.first_lsn());
        let mut found = Vec::new();
        while let Some(record) = reader.next().unwrap() {
            found.push(record.to_owned());
        }
        prop_assert!(whole.starts_with(&found));
        let _ = reader.check_end();
        let end = LogEnd { epoch: 9, ..reader.end() };
        let log = Log::open(vfs, &dir(), config, 10, end).unwrap();
        for lsn in 8192..2 * 8192 {
            if let Ok(record) = log.read_record(Lsn(lsn)) {
                prop_assert!(whole.contains(&record));
            }
        }
    }
}

#[test]
fn a_log_that_stopped_with_nothing_left_to_flush_does_not_close_cleanly() {
    let (sim, vfs) = sim(1);
    let log = Log::create(Arc::clone(&vfs), &dir(), small(), 1).unwrap();
    let mut group = Group::new();
    note(&mut group, 1, &[1; 1000]);
    // The first sync of the next segment fails, while it is being prepared.
    let error = loop {
        log.append(&group).unwrap();
        log.flush_all().unwrap();
        if log.end_lsn().0 + 2000 > 2 * 8192 {
            sim.set_faults(FaultPlan { fail_sync_at: Some(1), ..Default::default() });
            break log.append(&group).and_then(|_| log.append(&group)).unwrap_err();
        }
    };
    assert_eq!(error.kind(), ErrorKind::Stopped);
    for _ in 0..2 {
        assert_eq!(log.close().unwrap_err().kind(), ErrorKind::Stopped);
    }
}
