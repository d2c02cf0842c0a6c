//! The archive's tools on a real folder.

use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{Archive, ArchiveConfig, Archiver, Lease, LeaseKind};
use resurgam_base::{ErrorKind, Lsn, ObjectId, PageId, TxId};
use resurgam_ctl::{ArchiveFolder, ArchiveOptions};
use resurgam_log::{Group, Log, LogConfig, LogReader, RecordKind};
use resurgam_page::{PageType, op};
use resurgam_vfs::{RealVfs, Vfs};
use resurgam_xstore::FolderStore;

/// A log of two pages and some transactions, archived in two runs.
fn archived(dir: &Path) {
    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let (log_dir, config) = (dir.join("log"), LogConfig { segment_bytes: 64 << 10, ..small() });
    vfs.make_folder(&log_dir).unwrap();
    let log = Log::create(Arc::clone(&vfs), &log_dir, config.clone(), 1).unwrap();
    let mut group = Group::new();
    let mut last = [Lsn::NONE; 2];
    for n in 0..20u64 {
        let page = (n % 2) as usize;
        group.clear();
        group.begin_page(TxId(n / 4 + 1), Lsn::NONE, PageId(page as u64 + 5), last[page], ObjectId(3));
        if last[page].is_none() {
            op::format(group.body(), PageType::Overflow, 0, ObjectId(3), &[], None);
        }
        op::set_bytes(group.body(), 200, &n.to_le_bytes());
        group.end();
        if n % 4 == 3 {
            group.record(RecordKind::Commit, TxId(n / 4 + 1), Lsn::NONE, &[0; 12]);
        }
        let appended = log.append(&group).unwrap();
        last[page] = group.lsn_of(appended.base, 0);
        log.flush(appended.end).unwrap();
    }
    drop(log);
    let store = Arc::new(FolderStore::open(Arc::clone(&vfs), &dir.join("archive")).unwrap());
    let mut archiver = Archiver::new(Archive::open(store, [7; 16], 1).unwrap(), ArchiveConfig::default());
    let mut reader = LogReader::open(vfs, &log_dir, config.segment_bytes, config.first_lsn(), 1).unwrap();
    let mut n = 0;
    while let Some(block) = reader.next_whole_block().unwrap() {
        archiver.take(&block).unwrap();
        n += 1;
        if n == 7 {
            archiver.seal().unwrap();
        }
    }
    archiver.seal().unwrap();
}

fn small() -> LogConfig {
    LogConfig { block_payload_bytes_max: 4096, ..LogConfig::default() }
}

fn said(tool: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    tool(&mut out);
    String::from_utf8(out).unwrap()
}

#[test]
fn list_verify_and_inspect() {
    let dir = tempfile::tempdir().unwrap();
    archived(dir.path());
    let place = format!("file://{}", dir.path().join("archive").display());
    let archive = ArchiveFolder::open(&place).unwrap();
    let text = said(|out| archive.list(out).unwrap());
    assert!(text.contains(&"07".repeat(16)) && text.contains(": 2 runs") && text.contains("level 0"), "{text}");
    let text = said(|out| assert!(archive.verify(out).unwrap().problems.is_empty()));
    assert!(text.contains("20 page records") && text.contains("the archive is sound"), "{text}");
    let options = ArchiveOptions { page: Some(PageId(6)), ..ArchiveOptions::default() };
    let text = said(|out| archive.inspect(options, out).unwrap());
    assert!(text.ends_with("10 records of page 6\n"), "{text}");
    let text = said(|out| archive.inspect(ArchiveOptions::default(), out).unwrap());
    assert_eq!(text.matches("Commit tx").count(), 5, "{text}");
    assert_eq!(text.matches("first of transaction").count(), 6, "one of them in both runs: {text}");

    // What others need of it is listed, with how to give it back; one that cannot be read is found.
    let folder = dir.path().join("archive");
    let store = FolderStore::open(Arc::new(RealVfs::new()), &folder).unwrap();
    let (kind, created_us) = (LeaseKind::Archive, RealVfs::new().wall_clock_us() - 3 * 3_600_000_000);
    let (cut, undo_from, database) = (Lsn(900), Lsn(900), [7; 16]);
    Lease { name: "archive-77".into(), kind, database, cut, undo_from, backup: None, created_us }
        .create(&store)
        .unwrap();
    let text = said(|out| archive.list(out).unwrap());
    let command = format!("resurgam clone --archive {place} --forget archive-77");
    assert!(
        text.contains("lease archive-77: the archive of a database that was made of this one, 3 hours old"),
        "{text}"
    );
    assert!(text.contains("everything up to LSN 900") && text.contains(&command), "{text}");
    said(|out| assert!(archive.verify(out).unwrap().problems.is_empty()));
    std::fs::write(folder.join("leases/archive-77"), "no lease").unwrap();
    let text = said(|out| assert_eq!(archive.verify(out).unwrap().problems.len(), 1));
    assert!(text.contains("the lease \"archive-77\" cannot be read"), "{text}");
    assert!(said(|out| archive.list(out).unwrap()).contains("the lease \"archive-77\" cannot be read"));
    std::fs::remove_file(folder.join("leases/archive-77")).unwrap();

    // A flipped bit of a run is named; the folder is not touched, and none is made.
    let runs = dir.path().join("archive/runs");
    let run = std::fs::read_dir(&runs).unwrap().next().unwrap().unwrap().path();
    let mut bytes = std::fs::read(&run).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 4;
    std::fs::write(&run, bytes).unwrap();
    let text = said(|out| assert_eq!(archive.verify(out).unwrap().problems.len(), 1));
    assert!(text.contains(run.file_name().unwrap().to_str().unwrap()) && text.contains("DAMAGED"), "{text}");
    let none = dir.path().join("none");
    assert_eq!(ArchiveFolder::open(&none.display().to_string()).err().unwrap().kind(), ErrorKind::Io);
    assert!(!none.exists());
    // This library alone knows folders; the program registers what else there is.
    assert_eq!(ArchiveFolder::open("s3://bucket/x").err().unwrap().kind(), ErrorKind::NotSupported);
}
