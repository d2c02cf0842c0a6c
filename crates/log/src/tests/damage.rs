//! One damaged block, at every place of batches of every size: whatever had been acknowledged is
//! found, or the reader says that it is not.
//!
//! The marker that [`Log::confirm`] writes behind the last batch is no work of anybody's: damage
//! of it may pass as the end.

use resurgam_vfs::OpenMode;

use super::*;
use crate::block::{BLOCK_ALIGN, BLOCK_HEADER_BYTES, BlockHeader};

/// What is done to a block.
#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip {
        byte: u64,
    },
    /// Its first sector, as if it had never been written.
    Zeros,
    /// All of it.
    AllZeros,
    /// An intact block of an earlier life in its place.
    Stale,
}

const DAMAGES: [Damage; 9] = [
    Damage::Flip { byte: 0 },  // magic
    Damage::Flip { byte: 8 },  // position
    Damage::Flip { byte: 16 }, // predecessor
    Damage::Flip { byte: 32 }, // epoch
    Damage::Flip { byte: 36 }, // length
    Damage::Flip { byte: 60 }, // payload
    Damage::Zeros,
    Damage::AllZeros,
    Damage::Stale,
];

/// The blocks from `from` on.
fn blocks(vfs: &Arc<dyn Vfs>, config: &LogConfig, from: Lsn) -> Vec<BlockHeader> {
    let (mut at, mut found) = (from, Vec::new());
    loop {
        let Ok(file) = vfs.open(&segment_path(at.0 / config.segment_bytes), OpenMode::ReadOnly) else { return found };
        let mut head = [0; BLOCK_HEADER_BYTES];
        file.read_at(&mut head, at.0 % config.segment_bytes).unwrap();
        let Some(header) = BlockHeader::decode(&head, at) else { return found };
        found.push(header);
        at = header.next(config.segment_bytes);
    }
}

/// Damages the block, and returns what stood there.
fn damage(vfs: &Arc<dyn Vfs>, config: &LogConfig, block: &BlockHeader, how: Damage) -> Vec<u8> {
    let file = vfs.open(&segment_path(block.lsn.0 / config.segment_bytes), OpenMode::ReadWrite).unwrap();
    let at = block.lsn.0 % config.segment_bytes;
    let mut before = vec![0; block.len() as usize];
    file.read_exact_at(&mut before, at).unwrap();
    let mut after = before.clone();
    match how {
        Damage::Flip { byte } => {
            let byte = byte.min(after.len() as u64 - 1) as usize;
            after[byte] ^= 1;
        }
        Damage::Zeros => {
            let len = after.len().min(BLOCK_ALIGN);
            after[..len].fill(0);
        }
        Damage::AllZeros => after.fill(0),
        Damage::Stale => BlockHeader { epoch: 0, ..*block }.seal(&mut after),
    }
    assert_ne!(after, before);
    file.write_at(&after, at).unwrap();
    before
}

/// Reads everything; how many notes, or what is wrong.
fn read(vfs: &Arc<dyn Vfs>, config: &LogConfig) -> Result<u64, resurgam_base::Error> {
    let mut reader = reader(vfs, config, config.first_lsn());
    let mut notes = 0;
    while let Some(record) = reader.next()? {
        notes += u64::from(record.header.tx.is_some());
    }
    reader.check_end()?;
    Ok(notes)
}

/// Damages each block behind the first in each way. Returns how many blocks there were.
fn every_block(vfs: &Arc<dyn Vfs>, config: &LogConfig, notes: u64, damages: &[Damage], what: &str) -> usize {
    assert_eq!(read(vfs, config).unwrap(), notes, "{what}: undamaged");
    let blocks = blocks(vfs, config, config.first_lsn());
    for (index, block) in blocks.iter().enumerate() {
        for how in damages {
            let before = damage(vfs, config, block, *how);
            if let Ok(found) = read(vfs, config) {
                assert_eq!(found, notes, "{what}: block {index} of {} passes as the end: {how:?}", blocks.len());
            }
            let file = vfs.open(&segment_path(block.lsn.0 / config.segment_bytes), OpenMode::ReadWrite).unwrap();
            file.write_at(&before, block.lsn.0 % config.segment_bytes).unwrap();
        }
    }
    assert_eq!(read(vfs, config).unwrap(), notes, "{what}: mended");
    blocks.len()
}

/// Batches of 1 to 40 blocks, of which the larger ones span several segments, with the block
/// behind them in the same batch, the next, or none but the marker.
#[test]
fn no_single_damaged_block_passes_as_the_end() {
    let mut seen = 0;
    for size in (1..=12).chain([17, 25, 40]) {
        for behind in [0, 1, 3] {
            for bytes in [10, 700, 1900] {
                let (_, vfs) = sim(size * 100 + behind);
                let config = small();
                let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
                let (mut group, mut notes) = (Group::new(), 0);
                let mut batch = |blocks: u64| {
                    for _ in 0..blocks {
                        notes += 1;
                        note(&mut group, notes, &vec![7; bytes]);
                        log.append_at_block_start(&group).unwrap();
                    }
                    log.flush_all().unwrap();
                };
                batch(1);
                batch(size);
                if behind > 0 {
                    batch(behind);
                }
                log.confirm().unwrap();
                let what = format!("a batch of {size}, {behind} behind, {bytes} bytes");
                seen += every_block(&vfs, &config, notes, &DAMAGES, &what);
                // Without anything new it is not written again.
                let end = log.end_lsn();
                log.confirm().unwrap();
                assert_eq!(log.end_lsn(), end);
            }
        }
    }
    assert!(seen > 1500, "{seen}");
}

/// Batches as large as the buffers allow at the default sizes, over two segments and more.
#[test]
fn no_damaged_block_of_a_large_batch_passes_as_the_end() {
    let (_, vfs) = sim(1);
    let config = LogConfig::default();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    let (mut group, mut notes) = (Group::new(), 0);
    for megabytes in [15, 9, 15] {
        for _ in 0..megabytes * 5 {
            notes += 1;
            note(&mut group, notes, &vec![7; 200 << 10]);
            log.append(&group).unwrap();
        }
        log.flush_all().unwrap();
    }
    log.confirm().unwrap();
    let damages = [Damage::Flip { byte: 60 }, Damage::Zeros];
    assert!(every_block(&vfs, &config, notes, &damages, "default sizes") > 190);
}

/// The threads confirm by themselves, once, when nothing else comes.
#[test]
fn an_idle_log_confirms_its_last_batch() {
    let (_, vfs) = sim(1);
    let config = small();
    let log = Log::create(Arc::clone(&vfs), &dir(), config.clone(), 1).unwrap();
    log.set_writer_delay(std::time::Duration::from_millis(5));
    log.start_flusher().unwrap();
    let mut group = Group::new();
    for round in 1..4u64 {
        note(&mut group, round, &[1; 100]);
        let at = log.append(&group).unwrap();
        log.flush(at.end).unwrap();
        let begun = std::time::Instant::now();
        while blocks(&vfs, &config, config.first_lsn()).len() < 2 * round as usize {
            assert!(begun.elapsed().as_secs() < 20, "not confirmed");
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    std::thread::sleep(std::time::Duration::from_millis(100));
    assert_eq!(every_block(&vfs, &config, 3, &DAMAGES, "idle"), 6, "and then is silent");
}
