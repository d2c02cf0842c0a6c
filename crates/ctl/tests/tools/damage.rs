//! Whatever happens to the files, the tools end, do not panic and write nothing.

use crate::common::*;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use resurgam_base::PageId;
use resurgam_ctl::*;
use resurgam_vfs::{OpenMode, SimVfs, Vfs};
use std::path::{Path, PathBuf};

fn files(vfs: &SimVfs) -> Vec<PathBuf> {
    let dir = Path::new(DIR);
    let mut all: Vec<PathBuf> = ["control", "data", "doublewrite"].iter().map(|n| dir.join(n)).collect();
    all.extend(vfs.list(&dir.join("log")).unwrap().iter().map(|n| dir.join("log").join(n)));
    all.retain(|path| vfs.exists(path).unwrap());
    all
}

/// Runs everything; returns how many problems the checker found.
fn run_all(vfs: &SimVfs) -> u64 {
    let Ok(folder) = Folder::with_vfs(std::sync::Arc::new(vfs.clone()), Path::new(DIR)) else { return 1 };
    let before = vfs.stats();
    let out = &mut std::io::sink();
    let _ = inspect_boot(&folder, out);
    let _ = inspect_catalog(&folder, out);
    let _ = inspect_log(&folder, LogOptions::default(), out);
    for current in [false, true] {
        let _ = inspect_page(&folder, PageId(0), 200, PageOptions { current }, out);
    }
    let found = check(&folder, &mut |_| {}, out).map_or(1, |report| report.damaged + report.leaked);
    let after = vfs.stats();
    assert_eq!((before.writes, before.syncs), (after.writes, after.syncs));
    found
}

fn hurt(vfs: &SimVfs, rng: &mut SmallRng) {
    let all = files(vfs);
    let path = &all[rng.random_range(0..all.len())];
    let file = vfs.open(path, OpenMode::ReadWrite).unwrap();
    let len = file.len().unwrap();
    // Mostly where something is: the start of the file.
    let at = if rng.random() { rng.random_range(0..len.clamp(1, 70 * 8192)) } else { rng.random_range(0..len.max(1)) };
    match rng.random_range(0..8) {
        0 => vfs.remove(path).unwrap(),
        1 => file.set_len(at).unwrap(),
        2 => file.write_at(&[0; 8192], at / 8192 * 8192).unwrap(),
        3 => {
            let mut page = [0; 8192];
            rng.fill(&mut page[..]);
            file.write_at(&page, at / 512 * 512).unwrap();
        }
        _ => {
            for _ in 0..rng.random_range(1..20) {
                let bit = at * 8 + rng.random_range(0..4096u64);
                let _ = vfs.flip_bit(path, bit.min(len.max(1) * 8 - 1));
            }
        }
    }
}

#[test]
fn random_damage_never_panics() {
    let clean = small(21);
    let (crashed, db) = busy(22, 400);
    let crashed = {
        let copy = crashed.fork(1);
        drop(db);
        copy
    };
    let mut noticed = 0;
    for seed in 0..300u64 {
        let vfs = if seed % 2 == 0 { clean.fork(seed) } else { crashed.fork(seed) };
        let mut rng = SmallRng::seed_from_u64(seed);
        for _ in 0..rng.random_range(1..6) {
            if !files(&vfs).is_empty() {
                hurt(&vfs, &mut rng);
            }
        }
        noticed += u64::from(run_all(&vfs) > 0);
    }
    assert!(noticed > 150, "only {noticed} of 300 damaged folders were noticed");
}

/// Pages whose checksum is right and whose content is not: the checks behind the checksum.
#[test]
fn resealed_damage_never_panics_and_is_mostly_found() {
    let (vfs, db) = busy(23, 400);
    db.close().unwrap();
    drop(db);
    poke(&vfs, "doublewrite", 0, &[0; 4096]);
    assert_eq!(run_all(&vfs), 0);
    let (mut found, mut tried) = (0, 0);
    for seed in 0..300u64 {
        let copy = vfs.fork(seed);
        let mut rng = SmallRng::seed_from_u64(seed);
        let id = rng.random_range(1..70u64);
        let file = copy.open(&Path::new(DIR).join("data"), OpenMode::ReadWrite).unwrap();
        let mut page = resurgam_page::PageBuf::zeroed();
        file.read_exact_at(page.as_bytes_mut(), id * 8192).unwrap();
        if page.is_all_zero() {
            continue;
        }
        for _ in 0..rng.random_range(1..4) {
            // Headers and slots more than contents.
            let at = if rng.random() { rng.random_range(4..200) } else { rng.random_range(4..8192) };
            page.as_bytes_mut()[at] = rng.random();
        }
        page.seal();
        file.write_at(page.as_bytes(), id * 8192).unwrap();
        tried += 1;
        found += u64::from(run_all(&copy) > 0);
    }
    // Changes within a value cannot be told from another value.
    assert!(found * 5 > tried * 2, "{found} of {tried}");
}

#[test]
fn empty_and_foreign_folders() {
    let vfs = SimVfs::new(1);
    vfs.make_folder(Path::new(DIR)).unwrap();
    let open = |vfs: &SimVfs| Folder::with_vfs(std::sync::Arc::new(vfs.clone()), Path::new(DIR));
    assert!(open(&vfs).is_err());
    vfs.open(&Path::new(DIR).join("hello.txt"), OpenMode::Create).unwrap();
    assert!(open(&vfs).is_err());
    for name in ["control", "data", "doublewrite"] {
        vfs.open(&Path::new(DIR).join(name), OpenMode::Create).unwrap();
        assert!(run_all(&vfs) > 0);
    }
}

/// On real files: a server that has the folder open is noticed, and not disturbed.
#[test]
fn a_folder_in_use() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("db");
    let db = resurgam_engine::Database::open(&path, options()).unwrap();
    let used = Folder::open(&path).unwrap();
    assert!(used.in_use());
    let mut out = Vec::new();
    inspect_boot(&used, &mut out).unwrap();
    assert!(String::from_utf8(out).unwrap().starts_with("WARNING: a server has this folder open"));
    db.close().unwrap();
    drop(db);
    let free = Folder::open(&path).unwrap();
    assert!(!free.in_use());
    let mut out = Vec::new();
    let report = check(&free, &mut |_| {}, &mut out).unwrap();
    assert!(report.problems.is_empty(), "{}", String::from_utf8(out).unwrap());
}
