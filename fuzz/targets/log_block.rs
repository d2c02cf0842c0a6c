//! A block of the log of any records, with right position, length and checksum so that it is believed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use resurgam_base::{Lsn, checksum};
use resurgam_log::{BLOCK_HEADER_BYTES, Block};
use resurgam_page::print;

fuzz_target!(|data: &[u8]| {
    let lsn = Lsn(1 << 20);
    let mut bytes = vec![0; BLOCK_HEADER_BYTES];
    bytes[0..4].copy_from_slice(b"RSLB");
    bytes[4..6].copy_from_slice(&1u16.to_le_bytes());
    bytes[8..16].copy_from_slice(&lsn.0.to_le_bytes());
    bytes[32..36].copy_from_slice(&1u32.to_le_bytes());
    bytes[36..40].copy_from_slice(&(data.len() as u32).to_le_bytes());
    bytes.extend_from_slice(data);
    let crc = checksum(&bytes);
    bytes[40..44].copy_from_slice(&crc.to_le_bytes());
    let Ok(block) = Block::parse(&bytes, lsn, 16 << 20) else { return };
    let mut end = 0;
    for record in block.records() {
        assert!(record.lsn.0 >= end, "records lie over each other");
        end = record.lsn.0 + 1;
        let _ = print::ops(record.body);
    }
});
