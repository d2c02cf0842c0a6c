//! Power is lost at every call while the archive is written, merged and published.

use std::path::Path;
use std::sync::Arc;

use resurgam_base::{Lsn, Result};
use resurgam_vfs::{FaultPlan, SimVfs};
use resurgam_xstore::{FolderStore, Store};

use super::support::{DATABASE, Logged, open, small, store_on};
use crate::{Archiver, MergePolicy, verify};

/// Archives the log from where the archive ends, with seals and merges; `acknowledged` is what was durable last.
fn work(history: &Logged, store: &Arc<dyn Store>, owner: u64, acknowledged: &mut Lsn) -> Result<Archiver> {
    let mut archiver = open(store, owner)?;
    *acknowledged = archiver.durable_to();
    let mut n = 0;
    history.feed(&mut archiver, |archiver, _| {
        n += 1;
        if n % 4 == 0 {
            *acknowledged = archiver.seal()?;
            archiver.archive().merge(&small(), &mut MergePolicy::keep_all())?;
        }
        Ok(true)
    })?;
    *acknowledged = archiver.seal()?;
    Ok(archiver)
}

/// One crash at call `crash_at`, then another one in what follows, then to the end.
fn run(seed: u64, crash_at: u64, make: &dyn Fn(&SimVfs) -> Arc<dyn Store>) -> Result<bool, String> {
    let history = Logged::random(seed, 130, 9);
    let mut sim = SimVfs::new(seed ^ (crash_at << 8));
    let mut acknowledged = Lsn::NONE;
    let mut crashed = false;
    for (round, at) in [crash_at, crash_at / 2 + 1].into_iter().enumerate() {
        let before = acknowledged;
        let store = make(&sim);
        sim.set_faults(FaultPlan { crash_after_ops: Some(at), ..FaultPlan::default() });
        let worked = work(&history, &store, round as u64 + 1, &mut acknowledged);
        crashed |= sim.power_lost();
        if let Err(error) = worked
            && !sim.power_lost()
        {
            return Err(format!("call {at}: {error}"));
        }
        acknowledged = acknowledged.max(before);
        sim = sim.crash();
        check(&history, &store_on(&sim), acknowledged).map_err(|e| format!("call {at} of round {round}: {e}"))?;
    }
    let store = make(&sim);
    let archiver = work(&history, &store, 9, &mut acknowledged).map_err(|e| format!("at the end: {e}"))?;
    if archiver.durable_to() != history.end {
        return Err("the archive did not get to the end".to_owned());
    }
    check(&history, &store, history.end)?;
    let files = store.list("runs/").map_err(|e| e.to_string())?;
    archiver.archive().delete_replaced().map_err(|e| e.to_string())?;
    if files.len() > archiver.archive().view().manifest().runs.len() + small().fan_in * 2 {
        return Err("files are left behind".to_owned());
    }
    Ok(crashed)
}

/// What is there is whole, without a gap, and has what was acknowledged.
fn check(history: &Logged, store: &Arc<dyn Store>, acknowledged: Lsn) -> Result<(), String> {
    let report = verify(Arc::clone(store), Some(DATABASE)).map_err(|e| e.to_string())?;
    if acknowledged.is_none() && report.end.is_none() {
        return Ok(());
    }
    if !report.problems.is_empty() {
        return Err(report.to_string());
    }
    if report.end < acknowledged {
        return Err(format!("LSN {acknowledged} was acknowledged, the archive ends at {}", report.end));
    }
    let view = crate::Archive::open_view(Arc::clone(store), Some(DATABASE)).map_err(|e| e.to_string())?;
    history.compare(&view.ok_or("no archive")?)
}

#[test]
fn nothing_published_is_torn_and_a_restart_goes_on() {
    for seed in 0..2 {
        let mut call = 1;
        while run(seed, call, &store_on).unwrap() {
            call += 1;
        }
        assert!(call > 90, "{call} calls");
    }
}

#[test]
fn canary_rename_before_sync_is_caught() {
    let careless = |sim: &SimVfs| -> Arc<dyn Store> {
        let store = FolderStore::open(Arc::new(sim.clone()), Path::new("archive")).unwrap();
        Arc::new(store.rename_before_sync())
    };
    let caught = (1..150).find_map(|call| run(0, call, &careless).err());
    assert!(caught.is_some());
}

/// A process that is killed leaves what it has written in the system's cache; what the next one takes for archived must not
/// go with the power.
#[test]
fn what_an_opening_takes_for_archived_stays() {
    let history = Logged::random(1, 60, 9);
    for call in 1..120 {
        let sim = SimVfs::new(call);
        let store = store_on(&sim);
        sim.set_faults(FaultPlan { crash_after_ops: Some(call), ..FaultPlan::default() });
        let _ = work(&history, &store, 1, &mut Lsn::default());
        let sim = sim.kill();
        let store = store_on(&sim);
        let archiver = open(&store, 2).unwrap();
        let durable = archiver.durable_to();
        let sim = sim.crash();
        check(&history, &store_on(&sim), durable).unwrap_or_else(|e| panic!("call {call}: {e}"));
    }
}
