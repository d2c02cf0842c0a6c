//! What happens to the data's device in one life of the server, under the load.
//!
//! | plan | the device | then |
//! |---|---|---|
//! | nothing | lives | |
//! | replaced | dies | the restore is waited for |
//! | killed | dies | the server is killed within a second and a half: before the replacement, or in the midst of the restore |
//! | again | dies | while its replacement is restored that is declared dead, too, and restored in its place |
//! | spare | dies, as does the spare one during the restore or after it | the server is killed: it has no third device |
//! | hangs | hangs: no write ends; it answers again while the work goes on elsewhere, or dies then | the restore is waited for, or the server killed |
//! | last | dies, and there is no spare one | the server is killed |
//!
//! Nothing of it may fail a statement (`round.rs`): what needs a page waits.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use rand::Rng;
use rand::rngs::SmallRng;

use super::devices::Devices;
use super::round::{DEAD, PATIENCE, Round};
use crate::Result;
use crate::wire::Client;

/// A restore that takes longer has hung.
const RESTORE_MAX: Duration = Duration::from_secs(60);
/// How soon the server is killed when it has no device. A statement waits thirty seconds for a page.
const KILL_AFTER_MS: u64 = 1500;

/// What was done, for the last lines.
#[derive(Default)]
pub struct Counts {
    pub deaths: u64,
    /// Of these: while a restore was under way.
    pub in_restore: u64,
    /// Restores that were waited for, and the longest, from the death on.
    pub restored: u64,
    pub longest_s: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    Nothing,
    Replaced,
    Killed,
    Again,
    Hangs,
    Spare,
    Last,
}

/// Carries out a plan; whether the server has a device then and may go on. `lives`: it has to.
///
/// # Errors
/// What is wrong, in words.
pub fn happen(
    devices: &mut Devices,
    round: &Round,
    counts: &mut Counts,
    rng: &mut SmallRng,
    lives: bool,
) -> Result<bool> {
    let plans: &[Plan] = match (devices.can_be_replaced(), lives) {
        (true, false) if !devices.hangs => {
            use Plan::{Again, Killed, Nothing, Replaced, Spare};
            &[Replaced, Replaced, Killed, Killed, Again, Spare, Nothing]
        }
        (true, true) => &[Plan::Replaced],
        (true, false) => {
            use Plan::{Again, Hangs, Killed, Nothing, Replaced, Spare};
            &[Replaced, Replaced, Killed, Killed, Again, Spare, Hangs, Hangs, Nothing]
        }
        (false, true) => &[Plan::Nothing],
        (false, false) => &[Plan::Nothing, Plan::Last],
    };
    let plan = plans[rng.random_range(0..plans.len())];
    thread::sleep(Duration::from_millis(rng.random_range(100..2500)));
    if plan == Plan::Nothing {
        return Ok(true);
    }
    let mut client = Client::connect_within(round.port, Some(PATIENCE))?;
    let died = Instant::now();
    if plan == Plan::Last {
        round.failing.store(DEAD, Ordering::SeqCst);
    }
    if plan == Plan::Hangs {
        return hang(devices, round, counts, rng, died);
    }
    devices.die()?;
    counts.deaths += 1;
    if plan == Plan::Again {
        wait(devices, round, "no replacement was made", |devices| Ok(devices.is_replaced()))?;
        thread::sleep(Duration::from_millis(rng.random_range(0..200)));
        counts.in_restore += u64::from(restoring(&mut client)?);
        client.query("select resurgam_fail_device('data')").map_err(|e| format!("resurgam_fail_device: {e}"))?;
        counts.deaths += 1;
    }
    if matches!(plan, Plan::Killed | Plan::Last) {
        thread::sleep(Duration::from_millis(rng.random_range(0..KILL_AFTER_MS)));
        return Ok(false);
    }
    if plan == Plan::Spare {
        wait(devices, round, "no replacement was made", |devices| Ok(devices.is_replaced()))?;
        if rng.random() {
            wait_until_restored(devices, round)?;
        }
        counts.in_restore += u64::from(restoring(&mut client)?);
        round.failing.store(DEAD, Ordering::SeqCst);
        devices.die()?;
        counts.deaths += 1;
        thread::sleep(Duration::from_millis(rng.random_range(0..KILL_AFTER_MS)));
        return Ok(false);
    }
    wait(devices, round, "no replacement was made", |devices| Ok(devices.is_replaced()))?;
    wait_until_restored(devices, round)?;
    counts.restored += 1;
    counts.longest_s = counts.longest_s.max(died.elapsed().as_secs_f64());
    Ok(true)
}

/// The device hangs, is noticed, and something takes its place. What was being written there is written late.
fn hang(devices: &mut Devices, round: &Round, counts: &mut Counts, rng: &mut SmallRng, since: Instant) -> Result<bool> {
    let at = devices.hang()?;
    counts.deaths += 1;
    let replaced = wait(devices, round, "a device that hangs was not noticed", |devices| Ok(devices.is_replaced()));
    thread::sleep(Duration::from_millis(rng.random_range(0..1500)));
    devices.answer(at, rng.random())?;
    replaced?;
    if rng.random_ratio(1, 3) {
        thread::sleep(Duration::from_millis(rng.random_range(0..KILL_AFTER_MS)));
        return Ok(false);
    }
    wait_until_restored(devices, round)?;
    counts.restored += 1;
    counts.longest_s = counts.longest_s.max(since.elapsed().as_secs_f64());
    Ok(true)
}

/// Waits for the end of a restore, if one is under way.
pub fn wait_until_restored(devices: &mut Devices, round: &Round) -> Result<()> {
    let mut client = Client::connect_within(round.port, Some(PATIENCE))?;
    wait(devices, round, "the restore does not end", |_| Ok(!restoring(&mut client)?))
}

fn restoring(client: &mut Client) -> Result<bool> {
    client
        .rows("select state from resurgam_restore")
        .map(|rows| !rows.is_empty())
        .map_err(|e| format!("resurgam_restore: {e}"))
}

fn wait(devices: &Devices, round: &Round, what: &str, mut done: impl FnMut(&Devices) -> Result<bool>) -> Result<()> {
    let begun = Instant::now();
    while !done(devices)? && round.violations().is_empty() {
        if begun.elapsed() > RESTORE_MAX {
            return Err(format!("{what} in {RESTORE_MAX:?}"));
        }
        thread::sleep(Duration::from_millis(10));
    }
    Ok(())
}
