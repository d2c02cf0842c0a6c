//! Simulated crashes: seeded schedules against the reference model.
//!
//! `RESURGAM_SCHEDULES=n` runs n schedules (with background threads `RESURGAM_BACKGROUND_SCHEDULES=n`, where that is
//! set; with devices that hang `RESURGAM_HANG_SCHEDULES=n`), `RESURGAM_SEED=s` replays one and says every step; `RESURGAM_BESIDES=0`: without what has chances of its own
//! (`harness/troubles.rs`). `RESURGAM_SHOW=1`: by what planted mistakes were caught.

mod harness;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::time::{Duration, Instant};

use harness::remote::PlantedInPages;
use harness::schedule::{Met, Plan, run};
use harness::temporary::PlantedInTemporary;
use harness::troubles::Besides;
use resurgam_engine::{PlantedInGiveBack, PlantedInLog};
use resurgam_rbpex::Planted;

/// However slow the machine is.
const SCHEDULES_MIN: u64 = 60;

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

/// What schedules are, as the environment says.
fn plan() -> Plan {
    if variable("RESURGAM_BESIDES") == Some(0) { alone() } else { Plan::default() }
}

/// Runs one schedule; a panic is a finding as well.
fn attempt(seed: u64, plan: &Plan) -> Result<Met, String> {
    match catch_unwind(AssertUnwindSafe(|| run(seed, plan))) {
        Ok(outcome) => outcome,
        Err(panic) => {
            let what = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()))
                .unwrap_or_default();
            Err(format!("panic: {what}"))
        }
    }
}

#[test]
fn schedules() {
    if let Some(seed) = variable("RESURGAM_SEED") {
        let plan = Plan { trace: true, ..plan() };
        if let Err(what) = attempt(seed, &plan) {
            panic!("seed {seed}: {what}");
        }
        return;
    }
    let count = variable("RESURGAM_SCHEDULES");
    let first = variable("RESURGAM_FIRST_SEED").unwrap_or(1);
    let started = Instant::now();
    let (mut met, mut failures, mut ran) = (Met::default(), Vec::new(), 0u64);
    for seed in first.. {
        match count {
            Some(count) if ran >= count => break,
            None if started.elapsed() > Duration::from_secs(45) && ran >= SCHEDULES_MIN => break,
            _ => {}
        }
        ran += 1;
        match attempt(seed, &plan()) {
            Ok(one) => met.add(&one),
            Err(what) => {
                eprintln!("seed {seed}: {what}");
                failures.push(seed);
                if failures.len() >= 20 {
                    break;
                }
            }
        }
    }
    eprintln!("{ran} schedules in {:.1?}: {met:?}", started.elapsed());
    assert!(
        failures.is_empty(),
        "{} of {ran} schedules failed; replay one with RESURGAM_SEED={}",
        failures.len(),
        failures[0]
    );
    assert_eq!(met.hardly(ran), Vec::<String>::new(), "the schedules have become blind");
}

/// Seeds that once failed, as long as what is drawn stays the same.
#[test]
fn what_was_found_once() {
    // The check forgot, over a restart, what a transaction in doubt had changed and taken back: for an older snapshot the row is
    // another version of the same content once that transaction has committed (docs/known-issues.md).
    // A backup that a power loss had interrupted was gone on with: its first segment claimed all records below an LSN that was not durable,
    // and that was given to other records afterwards.
    // What a prepared transaction had made without a tree got an id that a restart gave out again.
    // A restore that a failed replacement had ended waited for another one that nobody began.
    for seed in [90_006_540, 600_006_665, 1_600_002_179, 1_600_016_301] {
        if let Err(what) = attempt(seed, &Plan { besides: Besides::Nothing, ..Plan::default() }) {
            panic!("seed {seed}: {what}");
        }
    }
}

/// A flush of the log that is acknowledged before those ahead of it are durable. (Blocks of an earlier life that continue the log fit too seldom here:
/// the log's own schedules find those.)
#[test]
fn a_flush_that_is_acknowledged_too_early_is_caught() {
    // In this thread, in which such a schedule flushes.
    PlantedInLog::OutOfOrder.plant_here();
    let seeds: Vec<u64> = (1..=100).filter(|seed| seed % 5 < 2).collect();
    let caught = quietly(|| seeds.iter().filter(|seed| attempt(**seed, &Plan::default()).is_err()).count());
    PlantedInLog::None.plant_here();
    eprintln!("caught by {caught} of {} schedules", seeds.len());
    assert!(caught > 2, "{caught}");
}

/// Where leaves are packed and space is given back again and again, and nothing goes wrong besides: crashes in between do no harm. That a file is
/// cut in what is used of it is noticed, and mistakes in packing. (That it is cut, or a hole made, before it is durable that nothing is there, is noticed in none of 200: too seldom does a
/// crash come between. `transactions/give_back.rs` has it come there.)
#[test]
fn space_is_given_back() {
    let plan = Plan { besides: Besides::GivesBack, ..Plan::default() };
    let Some((count, met)) = all_of(plan.clone(), "space given back", SCHEDULES_MIN, "RESURGAM_GIVE_BACK_SCHEDULES")
    else {
        return;
    };
    assert!(met.cut > count && met.punched > count / 4, "hardly anything is given back: {met:?}");
    assert!(met.packed > count, "hardly any leaf is packed: {met:?}");
    // In this thread, which gives back.
    for (planted, schedules, least) in [
        (PlantedInGiveBack::CutInUse, 40, 5),
        (PlantedInGiveBack::MarkForgotten, 240, 2),
        (PlantedInGiveBack::RowForgotten, 40, 5),
    ] {
        planted.plant_here();
        let caught = caught(&plan, schedules);
        PlantedInGiveBack::None.plant_here();
        eprintln!("{planted:?}: caught in {caught} of {schedules} schedules");
        assert!(caught >= least, "{planted:?}: caught in {caught} of {schedules} schedules");
    }
}

/// The same with the database's own threads: what they do beside the clients is in no seed.
#[test]
fn schedules_with_background_threads() {
    let count = variable("RESURGAM_BACKGROUND_SCHEDULES").or(variable("RESURGAM_SCHEDULES")).unwrap_or(SCHEDULES_MIN);
    let first = variable("RESURGAM_FIRST_SEED").unwrap_or(1);
    let mut met = Met::default();
    for seed in first..first + count {
        let trace = std::env::var_os("RESURGAM_TRACE").is_some();
        match attempt(seed, &Plan { background: true, trace, ..plan() }) {
            Ok(one) => met.add(&one),
            Err(what) => panic!("seed {seed} (run it several times): {what}"),
        }
    }
    eprintln!("{count} schedules with background threads: {met:?}");
}

/// Runs so many schedules as the environment says in `variable_name`, or `least`; or replays one, and then says nothing. All have to succeed.
fn all_of(plan: Plan, what: &str, least: u64, variable_name: &str) -> Option<(u64, Met)> {
    if let Some(seed) = variable("RESURGAM_SEED") {
        if let Err(what) = attempt(seed, &Plan { trace: true, ..plan }) {
            panic!("seed {seed}: {what}");
        }
        return None;
    }
    let count = variable(variable_name).unwrap_or(least);
    let first = variable("RESURGAM_FIRST_SEED").unwrap_or(1);
    let (mut met, mut failures) = (Met::default(), Vec::new());
    for seed in first..first + count {
        match attempt(seed, &plan) {
            Ok(one) => met.add(&one),
            Err(what) => {
                eprintln!("seed {seed}: {what}");
                failures.push(seed);
                if failures.len() >= 20 {
                    break;
                }
            }
        }
    }
    eprintln!("{count} schedules with {what}: {met:?}");
    assert!(failures.is_empty(), "{} of {count} schedules failed: {failures:?}", failures.len());
    Some((count, met))
}

/// The same where a page server has the pages, or several have some of them each, which die with the database and come back with it.
#[test]
fn schedules_with_a_page_server() {
    let plan = Plan { page_server: true, ..plan() };
    let Some((count, met)) = all_of(plan, "a page server", 3 * SCHEDULES_MIN, "RESURGAM_PAGE_SERVER_SCHEDULES") else {
        return;
    };
    assert!(met.pages_compared > count * 10, "few pages: {}", met.pages_compared);
    assert!(met.cached > count * 10, "the cache is hardly used: {met:?}");
    assert!(met.copies_recovered > count && met.copies_out_of_date > 0, "the cache hardly survives: {met:?}");
}

/// The same where every schedule has a device that hangs and is replaced. What it was asked for is done late, also while the database works
/// elsewhere, and after that changes nothing.
#[test]
fn schedules_with_devices_that_hang() {
    let plan = Plan { besides: Besides::Hangs, ..Plan::default() };
    let Some((count, met)) = all_of(plan, "devices that hang", 2 * SCHEDULES_MIN, "RESURGAM_HANG_SCHEDULES") else {
        return;
    };
    assert!(met.hangs > count && met.moved > count / 8, "hardly any device hangs: {met:?}");
    assert!(met.late_writes > count / 2 && met.late_elsewhere > count / 8, "hardly anything ends late: {met:?}");
    assert!(met.late_objects > count / 8, "hardly any object is late: {met:?}");
}

/// Nothing but the bug that is planted goes wrong besides.
fn alone() -> Plan {
    Plan { besides: Besides::Nothing, ..Plan::default() }
}

/// The seeds on which schedules with a planted bug fail.
fn caught(plan: &Plan, schedules: u64) -> usize {
    let show = variable("RESURGAM_SHOW").is_some();
    let is_caught = |seed: &u64| {
        let outcome = attempt(*seed, plan);
        if let (true, Err(what)) = (show, &outcome) {
            eprintln!("seed {seed}: {what}");
        }
        outcome.is_err()
    };
    quietly(|| (1..=schedules).filter(is_caught).count())
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
}

/// Panics of a broken database are findings, not noise: this thread's are not told meanwhile. (Those of tests beside it are.)
fn quietly<T>(work: impl FnOnce() -> T) -> T {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        let told = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !QUIET.get() {
                told(info);
            }
        }));
    });
    QUIET.set(true);
    let done = work();
    QUIET.set(false);
    done
}

/// A harness that finds nothing wrong with a disk that never syncs tests nothing. The rates were 60 of 60,
/// 30 of 400, 20 of 400 and 20 of 200 when this was written; a harness that has become much blinder fails.
#[test]
fn planted_bugs_are_caught() {
    let skipped = caught(&Plan { skip_sync: true, ..alone() }, 60);
    eprintln!("syncs that do nothing: caught in {skipped} of 60 schedules");
    assert!(skipped > 50, "syncs that do nothing: caught in {skipped} of 60 schedules");
    let torn = caught(&Plan { skip_double_write: true, ..alone() }, 400);
    eprintln!("no double writes: caught in {torn} of 400 schedules");
    assert!(torn > 10, "no double writes: caught in {torn} of 400 schedules");
    // What the archive names after a power loss must be there, whole.
    let named = caught(&Plan { early_names: true, ..alone() }, 400);
    eprintln!("an archive that names first: caught in {named} of 400 schedules");
    assert!(named > 10, "an archive that names first: caught in {named} of 400 schedules");
    // As if the double-write area were reused with only the data file synced.
    let unsynced = caught(&Plan { skip_version_sync: true, ..alone() }, 200);
    eprintln!("unsynced version stores: caught in {unsynced} of 200 schedules");
    assert!(unsynced > 10, "unsynced version stores: caught in {unsynced} of 200 schedules");
}

/// What goes wrong besides is noticed where nothing in the database makes up for it.
#[test]
fn planted_bugs_of_stores_and_devices_are_caught() {
    for (besides, schedules, least) in
        [(Besides::Forgetful, 60, 10), (Besides::LiesUnnoticed, 100, 5), (Besides::StaleDevice, 120, 5)]
    {
        let caught = caught(&Plan { besides, ..Plan::default() }, schedules);
        eprintln!("{besides:?}: caught in {caught} of {schedules} schedules");
        assert!(caught > least, "{besides:?}: caught in {caught} of {schedules} schedules");
    }
}

/// What a device that hangs writes late is noticed where it lands in the file that has taken the place.
#[test]
#[ignore = "noticed in 1 of 60 schedules: too seldom to be relied on yet"]
fn late_writes_to_a_file_in_use_are_caught() {
    let caught = caught(&Plan { besides: Besides::LateInUse, ..Plan::default() }, 60);
    eprintln!("late writes to a file in use: caught in {caught} of 60 schedules");
    assert!(caught > 3, "late writes to a file in use: caught in {caught} of 60 schedules");
}

/// Temporary tables in every schedule, where nothing else but crashes goes wrong; and what is left of them is noticed, be it pages or definitions.
#[test]
fn temporary_tables_that_stay_are_caught() {
    for (planted, schedules, least) in [
        (PlantedInTemporary::None, 30, 0),
        (PlantedInTemporary::PagesStay, 30, 15),
        (PlantedInTemporary::TableStays, 30, 15),
    ] {
        let caught = caught(&Plan { temporary: Some(planted), ..alone() }, schedules);
        eprintln!("{planted:?}: caught in {caught} of {schedules} schedules");
        let is_right = if planted == PlantedInTemporary::None { caught == 0 } else { caught > least };
        assert!(is_right, "{planted:?}: caught in {caught} of {schedules} schedules");
    }
}

/// A cache that makes a mistake is noticed.
#[test]
fn planted_bugs_of_the_cache_are_caught() {
    let plan = Plan { page_server: true, cache: Some(Planted::StaleKept), ..alone() };
    let caught = caught(&plan, 100);
    eprintln!("a changed page that keeps its older copy: caught in {caught} of 100 schedules");
    assert!(caught > 5, "a changed page that keeps its older copy: caught in {caught} of 100 schedules");
}

/// A page server that makes a mistake is noticed.
#[test]
fn planted_bugs_of_page_servers_are_caught() {
    for (planted, page_servers, schedules, least) in [
        (PlantedInPages::NoWait, 1, 60, 40),
        (PlantedInPages::WaitShort, 1, 100, 10),
        (PlantedInPages::EarlyMark, 1, 200, 5),
        (PlantedInPages::NoWait, 3, 60, 40),
        (PlantedInPages::Drops, 3, 60, 30),
        (PlantedInPages::Elsewhere, 3, 120, 10),
    ] {
        let caught = caught(&Plan { page_server: true, page_servers, planted, ..alone() }, schedules);
        eprintln!("{planted:?}, {page_servers} of them: caught in {caught} of {schedules} schedules");
        assert!(caught > least, "{planted:?}, {page_servers} of them: caught in {caught} of {schedules} schedules");
    }
}
