use std::time::Instant;

use super::*;
use crate::{FaultPlan, RealVfs, Silent, SimVfs};

const PATIENCE: Duration = Duration::from_millis(60);

fn on(sim: &SimVfs, gate: &Arc<Gate>) -> Result<Arc<dyn File>> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    sim.make_folder(Path::new("/device"))?;
    gate.vfs(&vfs).open(Path::new("/device/file"), OpenMode::Create)
}

fn hang(sim: &SimVfs, at: u64) {
    sim.set_faults(FaultPlan { hangs: Some((at, "/device".into())), ..FaultPlan::default() });
}

fn content(sim: &SimVfs) -> Vec<u8> {
    let mut bytes = vec![0; 32];
    let file = sim.open(Path::new("/device/file"), OpenMode::ReadOnly).unwrap();
    let read = file.read_at(&mut bytes, 0).unwrap();
    bytes.truncate(read);
    bytes
}

/// Until the calls that were left to themselves have ended.
fn wait_until(what: impl Fn() -> bool) {
    let begun = Instant::now();
    while !what() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn a_gate_changes_nothing_while_the_device_answers() -> Result<()> {
    let sim = SimVfs::new(1);
    let gate = Gate::new("/device", PATIENCE);
    let file = on(&sim, &gate)?;
    file.write_at(b"abc", 2)?;
    file.write_parts(b"0123456789", &[(5, 3..5), (9, 0..1), (0, 7..9)])?;
    file.sync()?;
    file.start_writing(0, 3);
    let mut bytes = [9; 20];
    assert_eq!((file.read_at(&mut bytes, 0)?, file.len()?), (10, 10));
    assert_eq!(&bytes[..11], b"78abc34\0\x000\x09");
    file.set_len(4)?;
    file.preallocate(6)?;
    assert_eq!(content(&sim), b"78ab\0\0");
    let gone = Path::new("/device/gone");
    let vfs = gate.vfs(&(Arc::new(sim.clone()) as Arc<dyn Vfs>));
    assert!(vfs.open(gone, OpenMode::ReadOnly).is_err() && !vfs.exists(gone)?);
    assert_eq!((file.path(), gate.is_given_up(), gate.waiting()), (Path::new("/device/file"), false, None));
    Ok(())
}

/// Many at once, over calls that end and calls that do not.
#[test]
fn a_device_that_hangs_is_given_up_once_and_for_all() -> Result<()> {
    let sim = SimVfs::new(1);
    let gate = Gate::new("/device", PATIENCE);
    gate.set_may_give_up(true);
    let file = on(&sim, &gate)?;
    file.write_at(b"before", 0)?;
    hang(&sim, 2);
    // Another file of that disk does not.
    sim.make_folder(Path::new("/other"))?;
    let begun = Instant::now();
    std::thread::scope(|scope| {
        let refused =
            |error: Error| assert!(error.kind() == ErrorKind::Io && error.message().contains("did not answer"));
        let calls: [Box<dyn Fn() -> Result<()> + Send>; 4] = [
            Box::new(|| file.write_at(b"late", 1)),
            Box::new(|| file.read_at(&mut [0; 4], 0).map(|_| ())),
            Box::new(|| file.sync()),
            Box::new(|| file.len().map(|_| ())),
        ];
        for call in calls {
            scope.spawn(move || refused(call().unwrap_err()));
        }
    });
    assert!(begun.elapsed() >= PATIENCE && gate.is_given_up());
    let begun = Instant::now();
    for call in [file.write_at(b"never", 0), file.sync(), file.read_at(&mut [0; 4], 0).map(|_| ())] {
        assert_eq!(call.unwrap_err().kind(), ErrorKind::Io);
    }
    assert!(begun.elapsed() < PATIENCE, "nobody waits for it again");
    // What was under way ends late; what was asked for since never begins.
    sim.set_faults(FaultPlan::default());
    wait_until(|| content(&sim) == b"blatee");
    std::thread::sleep(PAUSE);
    assert_eq!(content(&sim), b"blatee");
    assert!(file.sync().is_err(), "it is not used again");
    drop(file);
    Ok(())
}

const PAUSE: Duration = Duration::from_millis(30);

/// Without anything to take its place it is waited for, and that is said.
#[test]
fn it_is_waited_for_where_nothing_takes_its_place() -> Result<()> {
    let sim = SimVfs::new(1);
    let gate = Gate::new("/device", PATIENCE);
    let file = on(&sim, &gate)?;
    hang(&sim, 1);
    std::thread::scope(|scope| {
        let write = scope.spawn(|| file.write_at(b"abc", 0));
        wait_until(|| gate.waiting().is_some_and(|waiting| waiting > PATIENCE));
        assert!(!gate.is_given_up());
        sim.set_faults(FaultPlan::default());
        write.join().expect("no panic")
    })?;
    assert_eq!((gate.waiting(), content(&sim)), (None, b"abc".to_vec()));
    // From when there is something it is not.
    hang(&sim, 1);
    std::thread::scope(|scope| {
        let read = scope.spawn(|| file.read_at(&mut [0; 3], 0));
        wait_until(|| gate.waiting().is_some_and(|waiting| waiting > PATIENCE));
        gate.set_may_give_up(true);
        assert!(read.join().expect("no panic").is_err() && gate.is_given_up());
    });
    sim.set_faults(FaultPlan::default());
    Ok(())
}

#[test]
fn many_callers_and_threads_that_end() -> Result<()> {
    let gate = Gate::new("real", Duration::from_secs(30));
    let dir = tempfile::tempdir().unwrap();
    let vfs = gate.vfs(&(Arc::new(RealVfs::new()) as Arc<dyn Vfs>));
    let file = vfs.open(&dir.path().join("f"), OpenMode::CreateNew)?;
    std::thread::scope(|scope| {
        for number in 0..100u64 {
            let file = &file;
            scope.spawn(move || {
                for round in 0..20u64 {
                    let bytes = [number as u8; 64];
                    file.write_at(&bytes, (number * 20 + round) * 64).unwrap();
                    let mut found = [0; 64];
                    file.read_exact_at(&mut found, (number * 20 + round) * 64).unwrap();
                    assert_eq!(found, bytes);
                }
            });
        }
    });
    assert_eq!(file.len()?, 100 * 20 * 64);
    assert_eq!(file.read_at(&mut [0; 64], 100 * 20 * 64)?, 0, "its end");
    let mut tail = [0; 64];
    assert_eq!(file.read_at(&mut tail, 100 * 20 * 64 - 10)?, 10);
    // In the system's cache: no call to the device.
    assert!(file.read_now(&mut tail, 0).is_some_and(|read| read.is_ok_and(|read| read == 64)));
    let shared = Arc::clone(&gate.shared);
    assert!((1..=THREADS_MAX).contains(&shared.queue.lock().threads));
    drop((file, vfs, gate));
    wait_until(|| {
        shared.wake.notify_all();
        let queue = shared.queue.lock();
        // This test has a reference as well.
        queue.threads == queue.idle || queue.threads == 0
    });
    Ok(())
}

/// `cargo test --release -p resurgam-vfs cost_of_a_gate -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn cost_of_a_gate() -> Result<()> {
    const PAGE: usize = 8192;
    const PAGES: u64 = 4096;
    let dir = tempfile::tempdir().unwrap();
    let real: Arc<dyn Vfs> = Arc::new(RealVfs::new());
    let gate = Gate::new("real", Duration::from_secs(20));
    let direct = real.open(&dir.path().join("direct"), OpenMode::CreateNew)?;
    let gated = gate.vfs(&real).open(&dir.path().join("gated"), OpenMode::CreateNew)?;
    let bytes = vec![7; 256 * PAGE];
    let parts: Vec<(u64, Range<usize>)> =
        (0..256).map(|i| ((i as u64 * 37 % PAGES) * PAGE as u64, i * PAGE..(i + 1) * PAGE)).collect();
    for file in [&direct, &gated] {
        (0..PAGES / 256).try_for_each(|i| file.write_at(&bytes, i * bytes.len() as u64))?;
    }
    let median = |mut times: Vec<f64>| {
        times.sort_by(f64::total_cmp);
        times[times.len() / 2]
    };
    let (mut reads, mut batches, mut lens) = ([0.0; 2], [0.0; 2], [0.0; 2]);
    let mut page = vec![0; PAGE];
    for (i, file) in [&direct, &gated].into_iter().enumerate() {
        let time = |what: &mut dyn FnMut(u64) -> Result<()>, count: u64, of: u64| -> Result<f64> {
            let mut times = Vec::new();
            for at in 0..count {
                let begun = Instant::now();
                (0..of).try_for_each(|n| what(at * of + n))?;
                times.push(begun.elapsed().as_secs_f64() * 1e6 / of as f64);
            }
            Ok(median(times))
        };
        reads[i] = time(&mut |n| file.read_exact_at(&mut page, n * 31 % PAGES * PAGE as u64), 200, 100)?;
        batches[i] = time(&mut |_| file.write_parts(&bytes, &parts), 100, 1)?;
        lens[i] = time(&mut |_| file.len().map(drop), 2000, 1)?;
    }
    eprintln!(
        "microseconds, directly and through a gate: a page from the system's cache {:.2} and {:.2}, a batch of 256 pages {:.0} and {:.0}, \
         a call that does nothing {:.2} and {:.2}",
        reads[0], reads[1], batches[0], batches[1], lens[0], lens[1]
    );
    Ok(())
}

/// Where the system gives a write up, it may still be done: no call follows it. A read that it gives up is a read that failed.
#[test]
fn a_write_that_the_system_gives_up_gives_up_the_device() -> Result<()> {
    let silent = |until| {
        let silent = Silent { from: 1, until, below: "/device".into(), late: 3, seed: 1, lands_in: None };
        FaultPlan { silent: Some(silent), ..FaultPlan::default() }
    };
    for may in [true, false] {
        let sim = SimVfs::new(1);
        let gate = Gate::new("/device", Duration::from_secs(100));
        gate.set_may_give_up(may);
        let file = on(&sim, &gate)?;
        file.write_at(b"before", 0)?;
        sim.set_faults(silent(u64::MAX));
        assert!(file.read_at(&mut [0; 4], 0).is_err() && !gate.is_given_up());
        assert!(file.write_at(b"late", 1).unwrap_err().is_unanswered());
        assert_eq!(gate.is_given_up(), may);
        sim.make_folder(Path::new("/other/a/b/c"))?;
        sim.set_faults(FaultPlan::default());
        assert_eq!((content(&sim), sim.late_calls().1), (b"blatee".to_vec(), 1));
        assert_eq!(file.write_at(b"never", 0).is_err(), may, "only where something takes its place");
    }
    Ok(())
}
