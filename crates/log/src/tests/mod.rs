//! Tests of the log as a whole.

mod basic;
mod crash;
mod damage;
mod flights;
mod follow;
mod threads;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Lsn, ObjectId, PageId, TxId};
use resurgam_vfs::{SimVfs, Vfs};

use crate::{Appended, Group, Log, LogConfig, LogEnd, LogReader, OwnedRecord, RecordKind};

fn dir() -> PathBuf {
    PathBuf::from("db/log")
}

/// Segments so small that every test crosses them.
fn small() -> LogConfig {
    LogConfig {
        segment_bytes: 8192,
        block_payload_bytes_max: 2000,
        buffer_bytes_max: 64 << 10,
        spare_segments: 1,
        own_files: false,
        flights: 1,
        shuffled: 0,
    }
}

fn sim(seed: u64) -> (SimVfs, Arc<dyn Vfs>) {
    let sim = SimVfs::new(seed);
    (sim.clone(), Arc::new(sim))
}

/// A group of one record that carries `body`.
fn note(group: &mut Group, tx: u64, body: &[u8]) {
    group.clear();
    group.record(RecordKind::Note, TxId(tx), Lsn::NONE, body);
}

/// A group that changes `pages` pages and carries `tag` in each record.
fn pages(group: &mut Group, tag: u64, pages: u64, body_bytes: usize) {
    group.clear();
    for page in 1..=pages {
        group.begin_page(TxId(tag), Lsn::NONE, PageId(page), Lsn::NONE, ObjectId(9));
        group.body().extend_from_slice(&tag.to_le_bytes());
        group.body().extend(std::iter::repeat_n(tag as u8, body_bytes));
        group.end();
    }
}

fn reader(vfs: &Arc<dyn Vfs>, config: &LogConfig, from: Lsn) -> LogReader {
    LogReader::open(Arc::clone(vfs), &dir(), config.segment_bytes, from, 1).unwrap()
}

fn read_all(vfs: &Arc<dyn Vfs>, config: &LogConfig, from: Lsn) -> (Vec<OwnedRecord>, LogReader) {
    let mut reader = reader(vfs, config, from);
    let mut records = Vec::new();
    while let Some(record) = reader.next().unwrap() {
        records.push(record.to_owned());
    }
    (records, reader)
}

fn segment_path(number: u64) -> PathBuf {
    Path::new("db/log").join(crate::segment_file_name(number))
}

fn block_start(appended: &[Appended]) -> Lsn {
    appended.first().map_or(Lsn::NONE, |a| a.block)
}

fn reopen(vfs: &Arc<dyn Vfs>, config: &LogConfig, end: LogEnd) -> Arc<Log> {
    Log::open(Arc::clone(vfs), &dir(), config.clone(), end.epoch + 1, end).unwrap()
}
