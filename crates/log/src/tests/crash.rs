//! Power loss and kills at every kind of moment, from seeds.
//!
//! One schedule is a pure function of its seed: it appends, flushes, truncates
//! and loses power several times over, and compares what is found with a model:
//! - every acknowledged group is found, in order, with its bytes;
//! - what is found beyond is a prefix of what was appended after it;
//! - nothing of an earlier life comes back;
//! - the reader never takes a crash for damage.

use resurgam_base::Result;
use resurgam_vfs::{FaultPlan, SimConfig};

use super::*;

/// A group as the model knows it.
#[derive(Clone)]
pub(super) struct Known {
    pub(super) tag: u64,
    pub(super) records: u64,
    pub(super) body_bytes: usize,
    pub(super) at: Appended,
}

pub(super) struct Rng(pub(super) u64);

impl Rng {
    pub(super) fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }
}

/// Compares what a reader finds from `from` on with the model, and forgets the
/// groups that the crash took.
pub(super) fn check(
    vfs: &Arc<dyn Vfs>,
    config: &LogConfig,
    known: &mut Vec<Known>,
    acknowledged: usize,
    from: Lsn,
    epoch: u32,
) -> Result<LogEnd, String> {
    let fail = |what: String| Err(what);
    let mut reader = LogReader::open(Arc::clone(vfs), &dir(), config.segment_bytes, from, 1).unwrap();
    let first = known.partition_point(|k| k.at.block < from);
    let mut found = first;
    while let Some(group) = reader.next_group().map_err(|e| e.to_string())? {
        if group.records().all(|record| record.header.tx.is_none()) {
            continue; // a marker
        }
        let Some(want) = known.get(found) else {
            return fail(format!("a group behind the last appended one, in block {}", group.block()));
        };
        let mut expected = Group::new();
        pages(&mut expected, want.tag, want.records, want.body_bytes);
        let mut count = 0;
        for (index, record) in group.records().enumerate() {
            if record.lsn != expected.lsn_of(want.at.base, index)
                || record.header.tx != TxId(want.tag)
                || record.body.len() != 8 + want.body_bytes
                || record.body[..8] != want.tag.to_le_bytes()
            {
                return fail(format!("group {} is not the one appended", want.tag));
            }
            count += 1;
        }
        if count != want.records {
            return fail(format!("group {} has {count} of {} records", want.tag, want.records));
        }
        found += 1;
    }
    if found < acknowledged {
        return fail(format!(
            "{found} groups found, {acknowledged} acknowledged; stopped at {} because of {:?}",
            reader.end().lsn,
            reader.why_stopped()
        ));
    }
    reader.check_end().map_err(|e| e.to_string())?;
    known.truncate(found);
    let end = reader.end();
    if end.epoch > epoch {
        return fail(format!("epoch {} from the future", end.epoch));
    }
    Ok(end)
}

#[derive(Default)]
struct Seen {
    lost: u64,
    kept_unacknowledged: u64,
    stale_blocks: u64,
    recycled: u64,
    opened_after_kill: u64,
    markers: u64,
}

fn schedule(seed: u64, skip_sync: bool, seen: &mut Seen) -> Result<(), String> {
    let mut rng = Rng(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let sector_bytes = if rng.below(4) == 0 { 4096 } else { 512 };
    let mut disk = SimVfs::with_config(SimConfig { seed, sector_bytes });
    let config = LogConfig {
        segment_bytes: 4096 * (1 + rng.below(3)),
        block_payload_bytes_max: 600 + rng.below(3000) as usize,
        buffer_bytes_max: 3000 + rng.below(20_000) as usize,
        spare_segments: rng.below(3),
        own_files: seed.is_multiple_of(3),
        flights: 1,
        shuffled: 0,
    };
    let mut vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
    let mut known: Vec<Known> = Vec::new();
    let mut acknowledged = 0;
    let mut from = config.first_lsn();
    let mut epoch = 1;
    let mut log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), epoch).unwrap();
    let mut group = Group::new();
    let mut tag = 0;
    for _life in 0..4 {
        disk.set_faults(FaultPlan { crash_after_ops: Some(1 + rng.below(60)), skip_sync, ..Default::default() });
        loop {
            tag += 1;
            let (records, body_bytes) = (1 + rng.below(3), rng.below(120) as usize);
            pages(&mut group, tag, records, body_bytes);
            let result = if rng.below(10) == 0 { log.append_at_block_start(&group) } else { log.append(&group) };
            let Ok(at) = result else { break };
            known.push(Known { tag, records, body_bytes, at });
            if rng.below(3) == 0 {
                // Half of the time an older one: it makes all of its block durable.
                let upto = if rng.below(2) == 0 { at.end } else { Lsn(at.base.0 + 1) };
                if log.flush(upto).is_err() {
                    break;
                }
                acknowledged = known.len();
                if log.flushed_lsn() < at.end {
                    return Err("flushed less than a whole group".into());
                }
            }
            if rng.below(12) == 0 {
                let keep = rng.below(known.len() as u64) as usize;
                let keep = known[keep.min(acknowledged.saturating_sub(1))].at.block;
                if keep > from && keep <= log.flushed_lsn() {
                    from = keep;
                    if log.truncate_before(keep).is_err() {
                        break;
                    }
                }
            }
            if rng.below(12) == 0 && log.confirm().is_err() {
                break;
            }
            if rng.below(150) == 0 {
                break;
            }
        }
        seen.markers += log.stats().markers;
        seen.recycled += log.stats().segments_recycled;
        // Blocks written and not acknowledged may come back; the model takes
        // over what did.
        let appended = known.len();
        let killed = rng.below(3) == 0;
        disk = if killed { disk.kill() } else { disk.crash() };
        vfs = Arc::new(disk.clone());
        drop(log);
        let end = check(&vfs, &config, &mut known, acknowledged, from, epoch)?;
        seen.lost += u64::from(known.len() < appended);
        seen.kept_unacknowledged += u64::from(known.len() > acknowledged);
        // Recovery itself may be interrupted, at any call.
        epoch += 1;
        disk.set_faults(FaultPlan { crash_after_ops: Some(1 + rng.below(12)), skip_sync, ..Default::default() });
        let opened = Log::open(Arc::clone(&vfs), &dir(), config.clone(), epoch, end).is_ok();
        if opened || !killed {
            // What recovery saw, and may have told its clients, must stay.
            acknowledged = known.len();
        }
        seen.opened_after_kill += u64::from(opened && killed);
        disk = disk.crash();
        vfs = Arc::new(disk.clone());
        let end = check(&vfs, &config, &mut known, acknowledged, from, epoch)?;
        acknowledged = known.len();
        epoch += 1;
        log = Log::open(Arc::clone(&vfs), &dir(), config.clone(), epoch, end).map_err(|e| e.to_string())?;
        let mut last = reader(&vfs, &config, end.lsn);
        // Blocks of an earlier life right behind the end, as they are.
        seen.stale_blocks +=
            u64::from(last.next().is_ok_and(|r| r.is_none()) && last.why_stopped() != Some(crate::WhyStopped::Zeros));
    }
    log.close().map_err(|e| e.to_string())?;
    check(&vfs, &config, &mut known, acknowledged, from, epoch)?;
    Ok(())
}

/// `SEED` replays one schedule, `SEEDS` runs more of them.
pub(super) fn seeds(default: u64) -> std::ops::Range<u64> {
    let number = |name| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or(default),
    }
}

#[test]
fn after_any_crash_the_acknowledged_groups_are_there_and_no_others() {
    let mut seen = Seen::default();
    let range = seeds(3000);
    let all = range.end - range.start >= 1000;
    for seed in range {
        if let Err(what) = schedule(seed, false, &mut seen) {
            panic!("SEED={seed}: {what}");
        }
    }
    if all {
        let reached = [seen.lost, seen.kept_unacknowledged, seen.stale_blocks, seen.recycled, seen.markers];
        assert!(reached.iter().all(|n| *n > 50), "rare cases were not reached: {reached:?}");
    }
}

#[test]
fn canary_a_sync_that_does_nothing_is_caught() {
    let mut seen = Seen::default();
    let caught = (0..50).filter(|seed| schedule(*seed, true, &mut seen).is_err()).count();
    assert!(caught > 25, "the crash test misses a disk that does not sync: {caught} of 50");
}

#[test]
fn stale_blocks_behind_the_end_are_never_a_continuation() {
    // Every block is of the same length, so the blocks of the new life end
    // exactly where a lost life's blocks start.
    let mut continued = 0;
    for seed in 0..500 {
        let (disk, vfs) = sim(seed);
        let config = small();
        let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
        let mut group = Group::new();
        for tag in 0..6 {
            note(&mut group, tag, &[1; 300]);
            log.append_at_block_start(&group).unwrap();
        }
        disk.set_faults(FaultPlan { fail_sync_at: Some(1), ..Default::default() });
        log.flush_all().unwrap_err();
        let disk = disk.crash();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let (old, reader) = read_all(&vfs, &config, config.first_lsn());
        let log = reopen(&vfs, &config, reader.end());
        note(&mut group, 100, &[2; 300]);
        log.append(&group).unwrap();
        log.flush_all().unwrap();
        let (new, mut reader) = read_all(&vfs, &config, config.first_lsn());
        assert_eq!(new.len(), old.len() + 1, "seed {seed}");
        assert_eq!(new.last().unwrap().header.tx, TxId(100));
        reader.check_end().unwrap();
        continued += u64::from(reader.why_stopped() == Some(crate::WhyStopped::StaleEpoch));
    }
    assert!(continued > 50, "{continued}");
}

#[test]
fn a_process_killed_while_recycling_leaves_no_segment_with_an_uncertain_name() {
    let mut reused = 0;
    for seed in 0..60 {
        let (disk, vfs) = sim(seed);
        let config = LogConfig { spare_segments: 2, ..small() };
        let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
        let mut group = Group::new();
        note(&mut group, 1, &[1; 1000]);
        let mut last = log.append(&group).unwrap();
        while last.block.0 < 5 * config.segment_bytes {
            last = log.append(&group).unwrap();
        }
        log.flush_all().unwrap();
        // The renames happen, the sync of the folder does not.
        disk.set_faults(FaultPlan { crash_after_ops: Some(2 + seed % 4), ..Default::default() });
        log.truncate_before(last.block).unwrap_err();
        let disk = disk.kill();
        let vfs: Arc<dyn Vfs> = Arc::new(disk.clone());
        let (_, reader) = read_all(&vfs, &config, last.block);
        let log = reopen(&vfs, &config, reader.end());
        note(&mut group, 2, &[2; 1000]);
        let mut appended = 0;
        // Up to the end of the recycled segment: no new one is made, which would
        // sync the folder.
        while log.end_lsn().0 < 6 * config.segment_bytes + 4000 {
            log.append(&group).unwrap();
            appended += 1;
        }
        log.flush_all().unwrap();
        reused += u64::from(log.stats().segments_created == 0);
        let vfs: Arc<dyn Vfs> = Arc::new(disk.crash());
        let (records, _) = read_all(&vfs, &config, last.block);
        let found = records.iter().filter(|record| record.header.tx == TxId(2)).count();
        assert_eq!(found, appended, "seed {seed}");
    }
    assert_eq!(reused, 60);
}
