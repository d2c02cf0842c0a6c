//! The simulated disk must do what it threatens: each bad thing is seen to
//! happen, and none of the promises is ever broken.

use super::*;

fn path(name: &str) -> PathBuf {
    PathBuf::from("d").join(name)
}

fn disk(seed: u64) -> SimVfs {
    let vfs = SimVfs::new(seed);
    vfs.make_folder(Path::new("d")).unwrap();
    vfs
}

fn durable_file(vfs: &SimVfs, name: &str, bytes: &[u8]) -> Arc<dyn File> {
    let file = vfs.open(&path(name), OpenMode::CreateNew).unwrap();
    file.write_at(bytes, 0).unwrap();
    file.sync().unwrap();
    vfs.sync_dir(Path::new("d")).unwrap();
    file
}

fn content(vfs: &SimVfs, name: &str) -> Vec<u8> {
    let file = vfs.open(&path(name), OpenMode::ReadOnly).unwrap();
    let mut bytes = vec![0; file.len().unwrap() as usize];
    file.read_exact_at(&mut bytes, 0).unwrap();
    bytes
}

#[test]
fn unsynced_writes_are_lost_kept_torn_and_reordered_synced_ones_never() {
    let (mut lost, mut kept, mut torn, mut reordered) = (0, 0, 0, 0);
    for seed in 0..400 {
        let vfs = disk(seed);
        let file = durable_file(&vfs, "f", &[1; 8192]);
        file.write_at(&[2; 4096], 0).unwrap();
        file.write_at(&[3; 4096], 4096).unwrap();
        let after = vfs.crash();
        let bytes = content(&after, "f");
        assert_eq!(bytes.len(), 8192);
        for sector in bytes.chunks(512) {
            assert!(sector.iter().all(|b| *b == sector[0]), "sectors are atomic, seed {seed}");
        }
        assert!(bytes[..4096].iter().all(|b| [1, 2].contains(b)), "seed {seed}");
        assert!(bytes[4096..].iter().all(|b| [1, 3].contains(b)), "seed {seed}");
        let first = bytes[..4096].iter().filter(|b| **b == 2).count();
        let second = bytes[4096..].iter().filter(|b| **b == 3).count();
        lost += usize::from(first == 0);
        kept += usize::from(first == 4096);
        torn += usize::from(first > 0 && first < 4096);
        reordered += usize::from(first < second);
    }
    assert!(lost > 20 && kept > 20 && torn > 20 && reordered > 20);
}

#[test]
fn the_older_of_two_unsynced_writes_may_survive() {
    let seen = (0..200).any(|seed| {
        let vfs = disk(seed);
        let file = durable_file(&vfs, "f", &[1; 512]);
        file.write_at(&[2; 512], 0).unwrap();
        file.write_at(&[3; 512], 0).unwrap();
        content(&vfs.crash(), "f")[0] == 2
    });
    assert!(seen);
}

#[test]
fn a_seed_replays() {
    let run = |seed| {
        let vfs = disk(seed);
        for name in ["a", "b", "c"] {
            let file = vfs.open(&path(name), OpenMode::Create).unwrap();
            file.write_at(&[7; 20_000], 100).unwrap();
        }
        let after = vfs.crash();
        let names = after.list(Path::new("d")).unwrap();
        let bytes: Vec<_> = names.iter().map(|name| content(&after, name)).collect();
        (names, bytes, after.random_u64())
    };
    assert_eq!(run(5), run(5));
    assert!((0..50).any(|seed| run(seed) != run(seed + 1)));
}

#[test]
fn names_need_a_folder_sync() {
    let (mut created, mut renamed, mut removed) = (0, 0, 0);
    for seed in 0..100 {
        let vfs = disk(seed);
        durable_file(&vfs, "old", b"old");
        durable_file(&vfs, "gone", b"gone");
        vfs.open(&path("new"), OpenMode::Create).unwrap().sync().unwrap();
        vfs.rename(&path("old"), &path("moved")).unwrap();
        vfs.remove(&path("gone")).unwrap();
        let after = vfs.crash_clone(seed);
        created += usize::from(after.exists(&path("new")).unwrap());
        removed += usize::from(!after.exists(&path("gone")).unwrap());
        let (old, moved) = (after.exists(&path("old")).unwrap(), after.exists(&path("moved")).unwrap());
        assert!(old != moved, "a rename is atomic");
        renamed += usize::from(moved);
        assert_eq!(content(&after, if moved { "moved" } else { "old" }), b"old");

        vfs.sync_dir(Path::new("d")).unwrap();
        assert_eq!(vfs.crash().list(Path::new("d")).unwrap(), ["moved", "new"]);
    }
    for happened in [created, renamed, removed] {
        assert!((10..90).contains(&happened));
    }
}

#[test]
fn after_a_crash_the_old_instance_refuses_everything() {
    let vfs = disk(1);
    let file = durable_file(&vfs, "f", b"x");
    let _lock = vfs.lock(&path("lock")).unwrap();
    let after = vfs.crash();
    assert!(vfs.power_lost());
    assert!(file.write_at(b"y", 0).unwrap_err().message().contains("power lost"));
    assert!(file.read_at(&mut [0], 0).is_err());
    assert!(file.sync().is_err());
    assert!(vfs.list(Path::new("d")).is_err());
    assert!(after.lock(&path("lock")).is_ok(), "locks die with the process");
    assert_eq!(content(&after, "f"), b"x");
}

#[test]
fn a_killed_process_leaves_the_cache_a_power_loss_then_takes_it() {
    let mut lost = 0;
    for seed in 0..50 {
        let vfs = disk(seed);
        let file = durable_file(&vfs, "f", b"aaaa");
        file.write_at(b"bbbb", 0).unwrap();
        vfs.remove(&path("f")).unwrap();
        vfs.open(&path("g"), OpenMode::Create).unwrap().write_at(b"cccc", 0).unwrap();
        let killed = vfs.kill();
        assert!(file.sync().is_err());
        assert_eq!(killed.list(Path::new("d")).unwrap(), ["g"]);
        assert_eq!(content(&killed, "g"), b"cccc");
        let after = killed.crash();
        if after.exists(&path("f")).unwrap() {
            let bytes = content(&after, "f");
            assert!(bytes == b"aaaa" || bytes == b"bbbb");
        }
        lost += usize::from(!after.exists(&path("g")).unwrap());
    }
    assert!((5..45).contains(&lost));
}

#[test]
fn power_is_lost_at_the_chosen_call() {
    let vfs = disk(3);
    let file = durable_file(&vfs, "f", b"aaaa");
    vfs.set_faults(FaultPlan { crash_after_ops: Some(3), ..Default::default() });
    file.write_at(b"bbbb", 0).unwrap();
    file.sync().unwrap();
    assert!(file.write_at(b"cccc", 0).is_err());
    assert!(file.sync().is_err());
    let bytes = content(&vfs.crash(), "f");
    assert!(bytes == b"bbbb" || bytes == b"cccc");
}

#[test]
fn a_failed_sync_forgets_data_for_good() {
    let mut forgotten = 0;
    for seed in 0..50 {
        let vfs = disk(seed);
        let file = durable_file(&vfs, "f", &[1; 4096]);
        vfs.set_faults(FaultPlan { fail_sync_at: Some(1), ..Default::default() });
        file.write_at(&[2; 4096], 0).unwrap();
        assert_eq!(file.sync().unwrap_err().kind(), ErrorKind::Io);
        file.sync().unwrap();
        assert_eq!(content(&vfs, "f"), [2; 4096], "readers still see it");
        forgotten += usize::from(content(&vfs.crash(), "f").contains(&1));
    }
    assert!(forgotten > 10);
}

#[test]
fn skip_sync_loses_data() {
    let lost = (0..20).any(|seed| {
        let vfs = disk(seed);
        let file = durable_file(&vfs, "f", b"aaaa");
        vfs.set_faults(FaultPlan { skip_sync: true, ..Default::default() });
        file.write_at(b"bbbb", 0).unwrap();
        file.sync().unwrap();
        content(&vfs.crash(), "f") == b"aaaa"
    });
    assert!(lost);
}

#[test]
fn faults_and_capacity() {
    let vfs = disk(1);
    let file = durable_file(&vfs, "f", &[1; 100]);
    vfs.set_faults(FaultPlan {
        fail_write_at: Some(1),
        fail_read_at: Some(2),
        capacity_bytes: Some(1000),
        ..Default::default()
    });
    assert_eq!(file.write_at(&[2; 100], 0).unwrap_err().kind(), ErrorKind::Io);
    file.read_at(&mut [0; 4], 0).unwrap();
    assert_eq!(file.read_at(&mut [0; 4], 0).unwrap_err().kind(), ErrorKind::Io);
    assert_eq!(file.write_at(&[2; 100], 901).unwrap_err().kind(), ErrorKind::DiskFull);
    assert_eq!(file.preallocate(1001).unwrap_err().kind(), ErrorKind::DiskFull);
    file.write_at(&[2; 100], 900).unwrap();
    file.write_at(&[3; 1000], 0).unwrap();
}

#[test]
fn bits_flip() {
    let vfs = disk(1);
    durable_file(&vfs, "f", &[0; 10]);
    vfs.flip_bit(&path("f"), 9).unwrap();
    assert_eq!(content(&vfs, "f")[1], 2);
    assert_eq!(content(&vfs.crash(), "f")[1], 2);
}

#[test]
fn lengths() {
    let vfs = disk(1);
    let file = durable_file(&vfs, "f", &[7; 10_000]);
    file.set_len(5000).unwrap();
    file.set_len(9000).unwrap();
    let bytes = content(&vfs, "f");
    assert!(bytes[..5000].iter().all(|b| *b == 7) && bytes[5000..].iter().all(|b| *b == 0));
    file.sync().unwrap();
    assert_eq!(content(&vfs.crash(), "f"), bytes);
}

#[test]
fn many_threads() {
    let vfs = disk(1);
    std::thread::scope(|scope| {
        for t in 0..4u8 {
            let vfs = vfs.clone();
            scope.spawn(move || {
                let file = vfs.open(&path(&t.to_string()), OpenMode::Create).unwrap();
                for i in 0..200 {
                    file.write_at(&[t; 100], i * 100).unwrap();
                    file.sync().unwrap();
                }
            });
        }
    });
    assert_eq!(vfs.stats().syncs, 801);
    assert_eq!(content(&vfs, "3"), [3; 20_000]);
}

#[test]
fn a_small_disk_and_a_file_whose_syncs_do_nothing() {
    let vfs = disk(1);
    vfs.make_folder(Path::new("e")).unwrap();
    let plan =
        FaultPlan { small_disk: Some(("e".into(), 1000)), skip_sync_of: Some("e/f".into()), ..FaultPlan::default() };
    vfs.set_faults(plan);
    let big = vfs.open(&path("big"), OpenMode::CreateNew).unwrap();
    big.write_at(&[1; 5000], 0).unwrap();
    let file = vfs.open(Path::new("e/f"), OpenMode::CreateNew).unwrap();
    file.preallocate(1000).unwrap();
    assert_eq!(file.preallocate(1001).unwrap_err().kind(), ErrorKind::DiskFull);
    let second = vfs.open(Path::new("e/g"), OpenMode::CreateNew).unwrap();
    assert_eq!(second.write_at(b"x", 0).unwrap_err().kind(), ErrorKind::DiskFull, "the files share it");
    file.write_at(&[1; 1000], 0).unwrap();
    file.sync().unwrap();
    vfs.sync_dir(Path::new("e")).unwrap();
    let lost = (0..20).filter(|seed| {
        let after = vfs.crash_clone(*seed);
        let file = after.open(Path::new("e/f"), OpenMode::ReadOnly).unwrap();
        file.len().unwrap() == 0
    });
    assert!(lost.count() > 2, "what was not really synced gets lost");
}

#[test]
fn sectors_that_cannot_be_read_and_writes_that_are_not_done() -> Result<()> {
    let vfs = SimVfs::new(4);
    let path = Path::new("/f");
    let file = vfs.open(path, OpenMode::Create)?;
    file.write_at(&[1; 8192], 0)?;
    file.sync()?;
    vfs.sync_dir(Path::new("/"))?;
    vfs.make_unreadable(path, 4096..4097)?;
    let mut page = [0; 4096];
    file.read_at(&mut page, 0)?;
    assert!(file.read_at(&mut page, 4096).is_err());
    // A crash changes nothing, nor does a write of a part of the sector; one of the whole does.
    let vfs = vfs.crash();
    let file = vfs.open(path, OpenMode::ReadWrite)?;
    assert!(file.read_at(&mut page, 4096).is_err());
    file.write_at(&[2; 511], 4096)?;
    assert!(file.read_at(&mut page, 4000).is_err());
    file.write_at(&[2; 512], 4096)?;
    file.read_at(&mut page, 4096)?;
    assert_eq!((vfs.unreadable_sectors(path), page[511], page[512]), (0, 2, 1));
    let lying = |at, lie| LyingWrite { path: path.to_path_buf(), at, lie };
    let lying = vec![lying(2, Lie::Lost), lying(3, Lie::Elsewhere(512)), lying(4, Lie::Elsewhere(-512))];
    vfs.set_faults(FaultPlan { lying, ..FaultPlan::default() });
    for value in 10..15 {
        file.write_at(&[value; 512], 0)?;
    }
    file.sync()?;
    file.read_at(&mut page, 0)?;
    assert_eq!(
        (page[0], page[512], page[1024]),
        (14, 12, 1),
        "the second is nowhere, the third beside, the fourth nowhere"
    );
    file.write_at(&[10; 512], 0)?;
    Ok(())
}

/// A folder is durable with the folder above it; what is below a lost one is lost, however it was synced.
#[test]
fn folders_need_a_sync_of_the_one_above() -> Result<()> {
    let mut seen = [0; 2];
    for seed in 0..60 {
        let vfs = disk(seed);
        vfs.create_dir_all(Path::new("d/a/b"))?;
        vfs.open(Path::new("d/a/b/file"), OpenMode::CreateNew)?.sync()?;
        vfs.sync_dir(Path::new("d/a/b"))?;
        vfs.sync_dir(Path::new("d/a"))?;
        let after = vfs.crash_clone(seed);
        let (above, below) = (after.exists(Path::new("d/a"))?, after.exists(Path::new("d/a/b/file"))?);
        assert_eq!((above, below), (below, above), "all of it or nothing");
        seen[usize::from(below)] += 1;
        // Whoever was killed before the sync leaves it to the next one.
        let next = vfs.kill();
        next.make_folder(Path::new("d/a"))?;
        assert!(next.crash().exists(Path::new("d/a/b/file"))?);
    }
    assert!(seen[0] > 5 && seen[1] > 5, "{seen:?}");
    for seed in 0..60 {
        let vfs = disk(seed);
        vfs.make_folder(Path::new("d/a/b/c"))?;
        assert!(vfs.crash().exists(Path::new("d/a/b/c"))?);
    }
    Ok(())
}

/// Killed at any step of making folders, the next one makes them durable.
#[test]
fn folders_of_a_process_that_was_killed() -> Result<()> {
    for seed in 0..20 {
        for at in 1.. {
            let vfs = disk(seed);
            vfs.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
            let made = vfs.make_folder(Path::new("d/a/b/c"));
            let next = vfs.kill();
            next.make_folder(Path::new("d/a/b/c"))?;
            assert!(next.crash().exists(Path::new("d/a/b/c"))?, "seed {seed}, step {at}");
            if made.is_ok() {
                break;
            }
        }
    }
    Ok(())
}

/// What a device that does not answer was asked for is done late, once, or never; nothing else of the disk changes by it.
#[test]
fn a_silent_device_does_late_what_it_was_asked_for() -> Result<()> {
    let silent = |from, until, seed| FaultPlan {
        silent: Some(Silent { from, until, below: "d".into(), late: 4, seed, lands_in: None }),
        ..FaultPlan::default()
    };
    let (mut killed, mut crashed, mut back) = (0, 0, 0);
    for seed in 0..40 {
        let vfs = disk(seed);
        vfs.make_folder(Path::new("e"))?;
        let file = durable_file(&vfs, "f", &[1; 1024]);
        let other = vfs.open(Path::new("e/g"), OpenMode::Create)?;
        vfs.set_faults(silent(2, 40, seed));
        file.write_at(&[2; 512], 0)?;
        let told = file.write_parts(&[3; 1024], &[(0, 0..512), (512, 512..1024)]).unwrap_err();
        assert!(told.is_unanswered() && told.is_of_device() && told.kind() == ErrorKind::Io);
        for told in [
            file.read_at(&mut [0; 4], 0).map(drop),
            file.len().map(drop),
            vfs.exists(&path("f")).map(drop),
            vfs.open(&path("h"), OpenMode::Create).map(drop),
            vfs.list(Path::new("d")).map(drop),
        ] {
            assert!(told.unwrap_err().is_unanswered());
        }
        assert_eq!(vfs.late_calls().0 + vfs.late_calls().1 as usize, 2, "both parts were given to it");
        match seed % 3 {
            // While others are answered.
            0 => {
                (0..4).try_for_each(|at| other.write_at(b"x", at))?;
                assert_eq!(vfs.late_calls(), (0, 2));
                vfs.set_faults(FaultPlan::default());
                assert_eq!(content(&vfs, "f"), [3; 1024]);
                back += 1;
            }
            1 => {
                let bytes = content(&vfs.kill(), "f");
                assert!([1, 3].contains(&bytes[600]) && [2, 3].contains(&bytes[0]));
                killed += usize::from(bytes[600] == 3);
            }
            _ => {
                let bytes = content(&vfs.crash(), "f");
                crashed += usize::from(bytes[600] == 3);
            }
        }
        assert!(vfs.late_calls().0 == 0);
    }
    assert!(back == 14 && (2..12).contains(&killed) && (1..12).contains(&crashed), "{back} {killed} {crashed}");
    // Where it answers again nothing is left that is to come; what is about names goes by the file.
    let vfs = disk(1);
    durable_file(&vfs, "a", b"a");
    vfs.set_faults(silent(1, 5, 1));
    assert!(vfs.rename(&path("a"), &path("b")).is_err() && vfs.remove(&path("a")).is_err());
    assert!(vfs.sync_dir(Path::new("d")).is_err() && vfs.make_folder(&path("new")).is_err());
    while vfs.late_calls().0 > 0 {
        let _ = vfs.make_folder(Path::new("e"));
    }
    vfs.set_faults(FaultPlan::default());
    let names = vfs.list(Path::new("d"))?;
    assert!(names == ["a"] || names == ["b"] || names.is_empty(), "{names:?}");
    Ok(())
}

#[test]
fn a_failed_sync_is_told_to_every_handle_once() -> Result<()> {
    let vfs = disk(3);
    let first = durable_file(&vfs, "f", &[1; 512]);
    let second = vfs.open(&path("f"), OpenMode::ReadWrite)?;
    let other = durable_file(&vfs, "g", &[1; 512]);
    vfs.set_faults(FaultPlan { fail_sync_at: Some(1), ..Default::default() });
    first.write_at(&[2; 512], 0)?;
    assert!(second.sync().is_err());
    // Opened afterwards: it lost nothing.
    let third = vfs.open(&path("f"), OpenMode::ReadWrite)?;
    third.sync()?;
    other.sync()?;
    assert!(first.sync().is_err(), "what it wrote is lost, too");
    first.sync()?;
    second.sync()
}
