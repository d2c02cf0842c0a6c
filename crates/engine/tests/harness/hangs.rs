//! Devices of pages, and stores, that do not answer for a while or ever again, and do late what they were asked for: also when a
//! replacement is at work in their place.
//!
//! One thread cannot wait for a call that does not end. So a call ends at once, as if its caller's patience were over: what goes through a
//! gate gives the device up, what does not sees a device that fails. What it was to change is changed at a random later step, or never
//! (`resurgam_vfs::Silent`, `resurgam_xstore::Misdeed::Late`).
//! What a device was asked for ends with the process at the latest, which cannot end before; what a store was asked for may be done in
//! another life. (That gates notice calls that really do not end is for `tests/hung_devices.rs`.)
//!
//! All of it is drawn from a generator of its own.

use std::path::Path;
use std::sync::Arc;

use resurgam_vfs::{FaultPlan, Silent};
use resurgam_xstore::{FaultyStore, LateCall, Misdeed, StoreCall};

use super::rng::Rng;
use super::schedule::{DIR, Met};
use super::troubles::{Besides, DATA_DEVICE, SPARE};

/// See the module.
pub struct Hangs {
    rng: Rng,
    /// Devices of this schedule hang.
    pub devices: bool,
    /// Stores of this schedule do.
    stores: bool,
    /// As if what replaces a file were made in the same file.
    in_use: bool,
    /// Of this life.
    silent: Option<Silent>,
    /// Late calls of this life that were counted.
    counted: u64,
    /// What the stores of the archive and of backups were asked for in earlier lives.
    late: [Vec<LateCall>; 2],
}

impl Hangs {
    /// What a schedule has of it, if its devices can be replaced, and if its stores do wrong things.
    pub fn of(seed: u64, besides: Besides, replaceable: bool, stores: bool) -> Self {
        let mut rng = Rng::new(seed ^ 0x646f_6573_6e74_2021);
        let drawn = [rng.one_in(2), rng.one_in(2)];
        let [devices, late_stores] = match besides {
            Besides::BySeed => drawn,
            Besides::Hangs => [true, drawn[1]],
            Besides::LateInUse => [true, false],
            _ => [false; 2],
        };
        let (devices, stores, in_use) = (devices && replaceable, late_stores && stores, besides == Besides::LateInUse);
        Self { rng, devices, stores, in_use, silent: None, counted: 0, late: Default::default() }
    }

    /// Whether calls go through gates: most do. Without them the device fails, and is replaced for that.
    pub fn through_gates(&mut self) -> bool {
        !self.rng.one_in(4)
    }

    /// One of the devices does not answer from some call of this life on. Returns that call, and the device.
    pub fn plant(&mut self, plan: &mut FaultPlan, devices: &[&'static str]) -> Option<(u64, &'static str)> {
        let device = *self.rng.pick(devices)?;
        let from = self.rng.range(1, 160);
        let back = self.rng.one_in(3) && !self.in_use;
        // Mostly it is the double-write area that meets it first. Where it is the data file, pages are written late.
        let at_pages = (self.rng.one_in(2) || self.in_use) && device == DATA_DEVICE;
        let silent = Silent {
            from,
            until: if back { from + self.rng.range(2, 200) } else { u64::MAX },
            below: if at_pages { Path::new(DIR).join("data") } else { device.into() },
            // The mistake is made at the end of the life, where nothing is written over it.
            late: if self.in_use { u64::MAX } else { self.rng.range(1, 150) },
            seed: self.rng.next(),
            lands_in: self.in_use.then(|| SPARE.into()),
        };
        plan.silent = Some(silent.clone());
        self.silent = Some(silent);
        Some((from, device))
    }

    /// What stays as it is when other faults of a life are over, `ops` calls after it was planted.
    pub fn stays(&self, ops: u64, plan: &mut FaultPlan) {
        let later = |at: u64| if at == u64::MAX { at } else { at.saturating_sub(ops) };
        plan.silent =
            self.silent.clone().map(|silent| Silent { from: later(silent.from), until: later(silent.until), ..silent });
    }

    /// The stores of a life have what earlier ones were asked for; some of it was done never.
    pub fn begin(&mut self, stores: [&FaultyStore; 2]) {
        for (store, late) in stores.into_iter().zip(&mut self.late) {
            late.retain(|_| self.rng.one_in(2));
            store.add_late(std::mem::take(late));
        }
    }

    /// A life has ended.
    pub fn restart(&mut self, stores: [Option<&Arc<FaultyStore>>; 2]) {
        (self.silent, self.counted) = (None, 0);
        for (store, late) in stores.into_iter().zip(&mut self.late) {
            late.extend(store.map(|store| store.take_late()).unwrap_or_default());
        }
    }

    /// In place of what a store does wrong: a call of it does not end.
    pub fn misdeed(&mut self) -> Option<(StoreCall, Misdeed)> {
        if !self.stores || self.rng.one_in(2) {
            return None;
        }
        Some((if self.rng.one_in(4) { StoreCall::Delete } else { StoreCall::Publish }, Misdeed::Late))
    }

    /// Before a step: now and then a store does what it was asked for.
    pub fn step(&mut self, stores: [Option<&Arc<FaultyStore>>; 2], met: &mut Met) {
        for store in stores.into_iter().flatten() {
            let late = store.late();
            if late > 0 && self.rng.one_in(8) {
                store.end_late(self.rng.below(late as u64) as usize);
                met.late_objects += 1;
            }
        }
    }

    /// Counts what devices have done late: `ended` in this life, and whether its file is in use no more.
    pub fn count(&mut self, ended: u64, elsewhere: bool, met: &mut Met) {
        let more = ended.saturating_sub(self.counted);
        self.counted = ended;
        met.late_writes += more;
        met.late_elsewhere += if elsewhere { more } else { 0 };
    }
}
