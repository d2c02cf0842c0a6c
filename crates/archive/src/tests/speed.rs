//! How fast it is, on this machine's disk: `cargo test --release -p resurgam-archive speed -- --ignored --nocapture`.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use resurgam_base::{Lsn, ObjectId, PageId, TxId};
use resurgam_log::{Group, Log, LogConfig, LogReader};
use resurgam_page::{PageType, op};
use resurgam_vfs::{RealVfs, Vfs};
use resurgam_xstore::FolderStore;

use super::support::{DATABASE, Rng};
use crate::{Archive, ArchiveConfig, Archiver, History, MergePolicy, verify};

/// Log of small changes: 60 bytes of them in records of some 120, over so many pages.
const PAGES: u64 = 50_000;
const RECORDS: u64 = 2_500_000;

/// Processor time of this process, in seconds.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_ascii_whitespace().collect();
    (fields[11].parse::<f64>().unwrap() + fields[12].parse::<f64>().unwrap()) / 100.0
}

#[test]
#[ignore = "a measurement"]
fn speed() {
    let dir = std::env::temp_dir().join(format!("resurgam-archive-speed-{}", std::process::id()));
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let (log_dir, config) = (dir.join("log"), LogConfig::default());
    vfs.make_folder(&log_dir).unwrap();
    let log = Log::create(Arc::clone(&vfs), &log_dir, config.clone(), 1).unwrap();
    let (mut group, mut rng) = (Group::new(), Rng(1));
    let mut last = vec![Lsn::NONE; PAGES as usize];
    for n in 0..RECORDS {
        group.clear();
        // Most work is on few pages.
        let page = (rng.below(PAGES) * rng.below(PAGES) / PAGES) as usize;
        group.begin_page(TxId(n / 10 + 1), Lsn::NONE, PageId(page as u64 + 1), last[page], ObjectId(1));
        if last[page].is_none() {
            op::format(group.body(), PageType::Overflow, 0, ObjectId(1), &[], None);
        }
        let half: Vec<u8> = (0..30).map(|_| rng.next() as u8).chain([n as u8; 30]).collect();
        op::set_bytes(group.body(), 100 + rng.below(8000) as u16, &half);
        group.end();
        let appended = log.append(&group).unwrap();
        last[page] = group.lsn_of(appended.base, 0);
        if n % 1000 == 999 {
            log.flush(appended.end).unwrap();
        }
    }
    log.flush_all().unwrap();
    drop(log);
    let store = Arc::new(FolderStore::open(Arc::clone(&vfs), &dir.join("archive")).unwrap());
    let mut archiver = Archiver::new(Archive::open(store.clone(), DATABASE, 1).unwrap(), ArchiveConfig::default());
    let mut reader = LogReader::open(vfs, &log_dir, config.segment_bytes, config.first_lsn(), 1).unwrap();
    let (start, before) = (Instant::now(), cpu());
    while let Some(block) = reader.next_whole_block().unwrap() {
        archiver.take(&block).unwrap();
    }
    archiver.seal().unwrap();
    let stats = archiver.stats();
    let gb = stats.payload_bytes as f64 / 1e9;
    let (time, work) = (start.elapsed().as_secs_f64(), cpu() - before);
    println!(
        "sorted {gb:.2} GB of log into {} runs of {:.2} GB in {time:.1} s, {:.1} s of processor per GB",
        stats.runs,
        stats.run_bytes as f64 / 1e9,
        work / gb
    );
    let look_up = |what: &str| {
        let view = archiver.archive().view();
        let to = Lsn(view.end().0 - 1);
        let mut rng = Rng(3);
        let mut times: Vec<_> = (0..2000)
            .map(|_| {
                let page = PageId(rng.below(PAGES) + 1);
                let start = Instant::now();
                view.records_of(page, Lsn::NONE, to, History::SinceAnew).unwrap();
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!(
            "{what}: records of a page from {} runs: p50 {:?}, p99 {:?}",
            view.manifest().runs.len(),
            times[1000],
            times[1980]
        );
    };
    look_up("sorted");
    let (start, before) = (Instant::now(), cpu());
    let config =
        ArchiveConfig { fan_in: stats.runs as usize, fan_in_max: stats.runs as usize, ..ArchiveConfig::default() };
    let policy = &mut MergePolicy { retention: Lsn(u64::MAX), records_per_page_max: 256, base: None, rest: None };
    let merged = archiver.archive().merge(&config, policy).unwrap().unwrap();
    println!(
        "merged and verified in {:.1} s, {:.1} s of processor per GB of log: {:.2} GB, {} left out, {} images",
        start.elapsed().as_secs_f64(),
        (cpu() - before) / gb,
        merged.run.len as f64 / 1e9,
        merged.summary.dropped_records,
        merged.summary.images
    );
    look_up("merged");
    let (start, before) = (Instant::now(), cpu());
    assert!(verify(store, Some(DATABASE)).unwrap().problems.is_empty());
    println!("verified in {:.1} s, {:.1} s of processor", start.elapsed().as_secs_f64(), cpu() - before);
    std::fs::remove_dir_all(Path::new(&dir)).unwrap();
}
