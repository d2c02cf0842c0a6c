//! The printers' output for a small database of a fixed seed, compared with files in
//! `tests/golden`. `RESURGAM_BLESS=1 cargo test -p resurgam-ctl` writes them anew.

use crate::common::*;
use resurgam_base::{Lsn, PageId, Result, TxId};
use resurgam_ctl::*;
use resurgam_engine::Isolation;
use resurgam_vfs::SimVfs;

fn golden(name: &str, got: &str) {
    let path = format!("{}/tests/golden/{name}.txt", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("RESURGAM_BLESS").is_some() {
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(got == want, "{path} differs; the printer gave:\n{got}");
}

fn printed(print: impl FnOnce(&mut dyn std::io::Write) -> Result<()>) -> String {
    let mut out = Vec::new();
    print(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn log(vfs: &SimVfs, options: LogOptions) -> String {
    printed(|out| inspect_log(&folder(vfs), options, out))
}

#[test]
fn boot() {
    golden("boot", &printed(|out| inspect_boot(&folder(&small(11)), out)));
}

#[test]
fn catalog() {
    golden("catalog", &printed(|out| inspect_catalog(&folder(&small(11)), out)));
}

#[test]
fn pages() {
    let vfs = small(11);
    golden("pages", &printed(|out| inspect_page(&folder(&vfs), PageId(0), 4, PageOptions::default(), out)));
    let beyond = printed(|out| inspect_page(&folder(&vfs), PageId(1 << 39), 9, PageOptions::default(), out));
    assert_eq!(beyond, "page 549755813888: the data file has 1024 whole pages\n");
    let beyond = printed(|out| inspect_page(&folder(&vfs), PageId(1 << 40), 9, PageOptions::default(), out));
    assert_eq!(beyond, "page 1099511627776: version-store file number 1 is not in use\n");
}

#[test]
fn log_whole_and_filtered() {
    let vfs = small(11);
    let whole = log(&vfs, LogOptions::default());
    golden("log", &whole);
    let commits = log(&vfs, LogOptions { kind: parse_kind("commit"), ..LogOptions::default() });
    assert_eq!(commits.matches("Commit").count(), 2, "{commits}");
    assert!(!commits.contains("  Page"), "{commits}");
    let one = log(&vfs, LogOptions { tx: Some(TxId(2)), page: Some(PageId(2)), ..LogOptions::default() });
    assert!(
        one.lines().filter(|l| l.contains("  Page  ")).all(|l| l.contains("tx 2 ") && l.contains("page 2 ")),
        "{one}"
    );
    // A range: what lies in it and nothing else.
    let lsns: Vec<u64> = whole.lines().filter_map(|l| l.strip_prefix("  ")?.split("  ").next()?.parse().ok()).collect();
    let (from, to) = (lsns[3], lsns[lsns.len() - 2]);
    let part = log(&vfs, LogOptions { from: Some(Lsn(from)), to: Some(Lsn(to)), ..LogOptions::default() });
    let got: Vec<u64> = part.lines().filter_map(|l| l.strip_prefix("  ")?.split("  ").next()?.parse().ok()).collect();
    assert_eq!(got, lsns[3..lsns.len() - 2]);
}

/// What is prepared is printed, from the log and from a checkpoint, and is no damage.
#[test]
fn prepared() {
    let vfs = SimVfs::new(12);
    let db = open(&vfs);
    let tx = db.begin(Isolation::ReadCommitted);
    let table = tx.create_table(people()).unwrap().done().unwrap();
    commit(tx);
    let tx = db.begin(Isolation::ReadCommitted);
    tx.insert(&table, &person(1, "one")).unwrap().done().unwrap();
    tx.savepoint().unwrap();
    tx.insert(&table, &person(2, "two")).unwrap().done().unwrap();
    tx.prepare("transfer \"7\"", "anna", "postgres").unwrap().wait().unwrap();
    db.checkpoint().unwrap();
    let crashed = vfs.crash();
    let records = log(&crashed, LogOptions { kind: parse_kind("prepare"), ..LogOptions::default() });
    for wanted in [
        "in doubt: \"transfer \\\"7\\\"\" of anna in postgres  time ",
        "  1 ranges of sub-transactions, 1 locks",
        "sub-transactions ",
        "locks 16384 shared",
    ] {
        assert!(records.contains(wanted), "{wanted} is missing in:\n{records}");
    }
    let records = log(&crashed, LogOptions { kind: parse_kind("checkpoint-data"), ..LogOptions::default() });
    for wanted in ["prepared ", "prepared sub-transactions ", "prepared locks "] {
        assert!(records.contains(wanted), "{wanted} is missing in:\n{records}");
    }
    let (report, said) = checked(&crashed);
    assert_eq!(report.problems.len(), 0, "{said}");
    let note = "1 transactions are prepared, and neither committed nor rolled back";
    assert!(report.notes.iter().any(|n| n.contains(note)), "{:?}", report.notes);
}

#[test]
fn kinds() {
    for name in ["page", "Commit", "checkpoint-begin", "CheckpointEnd", "slog", "1", "64"] {
        assert!(parse_kind(name).is_some(), "{name}");
    }
    assert!(parse_kind("nonsense").is_none());
}

/// What is damaged is said, and the rest is shown.
#[test]
fn damaged() {
    let vfs = small(11);
    let whole = log(&vfs, LogOptions::default());
    let block = whole.lines().filter(|l| l.starts_with("block")).nth(3).unwrap();
    let at: u64 = block.split(' ').nth(1).unwrap().parse().unwrap();
    poke(&vfs, "log/0000000000000001.log", at % (1 << 20) + 100, &[0xff]);
    poke(&vfs, "control", 8, &[0xff]);
    poke(&vfs, "data", 8192 * 2 + 8000, &[0xff; 4]);
    let mut text = log(&vfs, LogOptions::default());
    assert!(text.contains("WRONG CHECKSUM") && text.contains("BEHIND THE END"), "{text}");
    text += &printed(|out| inspect_boot(&folder(&vfs), out));
    text += &printed(|out| inspect_page(&folder(&vfs), PageId(2), 1, PageOptions::default(), out));
    text += &printed(|out| inspect_catalog(&folder(&vfs), out));
    golden("damaged", &text);
}

#[test]
fn pages_after_a_crash() {
    let (vfs, _db) = busy(12, 300);
    let vfs = vfs.fork(1);
    let stored = printed(|out| inspect_page(&folder(&vfs), PageId(2), 6, PageOptions::default(), out));
    assert!(stored.contains("the log has newer changes of it"), "{stored}");
    let current = printed(|out| inspect_page(&folder(&vfs), PageId(2), 6, PageOptions { current: true }, out));
    assert!(current.contains("after redo of") && !current.contains("PROBLEM"), "{current}");
}
