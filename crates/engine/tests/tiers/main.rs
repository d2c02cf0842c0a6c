//! All tiers under one scheduler: the real engine as the primary, its log in a landing zone under a lease, log services, page servers that pull from
//! them, the stores of the long-term log, the archive and the backups, over a simulated network, disks and a clock; in one thread, from a seed.
//!
//! | file | concept |
//! |---|---|
//! | `sim.rs` | the scheduler: clock, queue, network, what goes wrong |
//! | `machine.rs` | files and stores as a process reaches them |
//! | `primary.rs` | a primary's process: lease, blocks, death |
//! | `xlog.rs` | a log service |
//! | `pages.rs` | page servers, and the primary's side of asking for pages |
//! | `history.rs` | what the log is, as one who sees everything knows it |
//! | `life.rs` | one schedule: lives of primaries; what is compared at last |
//!
//! Checked: what a client was told is committed is there in every later life, and nothing else (the model of the crash schedules, `../harness`); nobody is
//! given a block that is not hardened or not of the history; no page is older than asked for, or of another history; of two primaries never
//! both acknowledge; at last every page of every page server is what redo makes of the log from its beginning.
//!
//! `RESURGAM_SCHEDULES=n` runs n schedules, `RESURGAM_SEED=s` replays one and says every step. `RESURGAM_SHOW=1`: by what planted mistakes were caught.

#[path = "../harness/mod.rs"]
mod harness;
mod history;
mod life;
mod machine;
mod pages;
mod primary;
mod sim;
mod xlog;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use sim::{Met, Mistake};

/// In CI: about a minute on two processors.
const SCHEDULES: u64 = 10_000;

/// Side by side.
const THREADS_MAX: usize = 4;
/// Then it is enough.
const FAILURES_MAX: usize = 20;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// Runs one schedule; a panic is a finding as well.
fn attempt(seed: u64, mistake: Mistake, trace: bool) -> Result<Met, String> {
    match catch_unwind(AssertUnwindSafe(|| life::run(seed, mistake, trace))) {
        Ok(outcome) => outcome,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            Err(format!("panic: {}", text.unwrap_or_default()))
        }
    }
}

#[test]
fn schedules_of_all_tiers() {
    if let Some(seed) = variable("RESURGAM_SEED") {
        match attempt(seed, Mistake::None, true) {
            Ok(met) => eprintln!("{met:?}"),
            Err(what) => panic!("seed {seed}: {what}"),
        }
        return;
    }
    let count = variable("RESURGAM_SCHEDULES").unwrap_or(SCHEDULES);
    let first = variable("RESURGAM_FIRST_SEED").unwrap_or(1);
    let (started, mut met, mut failures) = (Instant::now(), Met::default(), Vec::new());
    // Each is in one thread; side by side they have nothing in common.
    let (next, failed) = (AtomicU64::new(first), AtomicUsize::new(0));
    let run = || {
        let (mut met, mut failures) = (Met::default(), Vec::new());
        while failed.load(Ordering::Relaxed) < FAILURES_MAX {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + count {
                break;
            }
            match attempt(seed, Mistake::None, false) {
                Ok(one) => met.add(&one),
                Err(what) => {
                    eprintln!("seed {seed}: {what}");
                    failures.push(seed);
                    failed.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
        (met, failures)
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        for thread in threads {
            let (one, failed) = thread.join().expect("a panic is a finding of its schedule");
            met.add(&one);
            failures.extend(failed);
        }
    });
    failures.sort_unstable();
    eprintln!("{count} schedules of all tiers in {:.1?}: {met:?}", started.elapsed());
    assert!(failures.is_empty(), "{} of {count} schedules failed: {failures:?}", failures.len());
    let is_met = met.taken_within > count / 2
        && met.acknowledged > 5 * count
        && met.pages > 5 * count
        && met.from_pending > 5 * count
        && met.from_zone > 5 * count
        && met.compared > 5 * count
        && met.refused > count / 40
        && met.late_pages > count / 40;
    assert!(count < 100 || is_met, "the schedules have become blind: {met:?}");
}

/// A schedule is a function of its seed.
#[test]
fn a_seed_is_a_schedule() {
    for seed in [3, 8] {
        let said = |met: Result<Met, String>| format!("{met:?}");
        assert_eq!(said(attempt(seed, Mistake::None, false)), said(attempt(seed, Mistake::None, false)), "seed {seed}");
    }
}

/// The machine that makes the database dies at any call to the landing zone or a store, or of its own disk: the next open makes it anew, or goes on with
/// it, whatever is left.
#[test]
fn a_first_open_that_dies_begins_anew() {
    use life::Dies::{Afar, AtHome};
    let ways: [(&str, fn(u64) -> life::Dies); 2] = [("afar", Afar), ("at home", AtHome)];
    for (seed, (name, dies)) in (1..).zip(ways) {
        for same in [true, false] {
            let mut steps = 0;
            loop {
                let outcome = catch_unwind(AssertUnwindSafe(|| life::first_open_dies(seed, dies(steps + 1), same)));
                match outcome.unwrap_or_else(|_| Err("panic".to_owned())) {
                    Ok(true) => steps += 1,
                    Ok(false) => break,
                    Err(what) => panic!("step {} {name}, on the same machine: {same}: {what}", steps + 1),
                }
            }
            eprintln!("a first open that dies {name}, on the same machine then: {same}: {steps} steps");
            assert!(steps > 20, "{steps}");
        }
    }
}

/// What is planted is found.
#[test]
fn planted_mistakes_are_found() {
    use resurgam_rbpex::Planted::StaleKept;
    use resurgam_xlog::Planted::{BeforeHardened, ByLsnAlone, DestagedEarly};
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let all = [
        ("blocks are given out before they are hardened", Mistake::Core(BeforeHardened), 40, 20),
        ("the pending area does not look at epochs", Mistake::Core(ByLsnAlone), 150, 2),
        ("what is to be destaged counts as destaged", Mistake::Core(DestagedEarly), 40, 20),
        ("an old primary acknowledges", Mistake::OldPrimaryAcknowledges, 100, 4),
        ("who has lost the log uses pages of the next history", Mistake::NotFenced, 600, 0),
        ("a page is given without its log", Mistake::NoWait, 60, 8),
        ("a page is given a block short of its log", Mistake::WaitShort, 150, 4),
        ("a filter drops blocks that matter", Mistake::Drops, 40, 8),
        ("a mark is written before its pages", Mistake::EarlyMark, 100, 2),
        ("a changed page keeps its older copy", Mistake::Cache(StaleKept), 150, 0),
    ];
    let mut hardly = Vec::new();
    for (name, mistake, schedules, least) in all {
        let is_caught = |seed: &u64| {
            let outcome = attempt(*seed, mistake, false);
            if let (Some(_), Err(what)) = (variable("RESURGAM_SHOW"), &outcome) {
                eprintln!("seed {seed}: {what}");
            }
            outcome.is_err()
        };
        let caught = (1..=schedules).filter(is_caught).count();
        eprintln!("{name}: found in {caught} of {schedules} schedules");
        if caught <= least {
            hardly.push(name);
        }
    }
    std::panic::set_hook(hook);
    assert!(hardly.is_empty(), "hardly found: {hardly:?}");
}
