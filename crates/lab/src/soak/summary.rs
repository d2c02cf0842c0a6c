//! What a run did, for its last lines.

use std::sync::atomic::Ordering;
use std::time::Duration;

use super::deaths::Counts;
use super::devices::Devices;
use super::parts::Parts;
use super::round::Round;
use crate::report::median;

/// Counts and times.
#[derive(Default)]
pub struct Summary {
    pub rounds: u64,
    pub kills: u64,
    pub in_recovery: u64,
    /// Starts with an empty folder.
    pub emptied: u64,
    pub power_losses: u64,
    pub faults: u64,
    pub longest_stall_s: f64,
    pub clean_stops: u64,
    pub commits: u64,
    pub rollbacks: u64,
    pub conflicts: u64,
    pub undone_rows: u64,
    pub rereads: u64,
    pub doubts: u64,
    pub happened: u64,
    pub rows: u64,
    pub answers_s: Vec<f64>,
    pub lasted: Duration,
    /// The slowest statement while the server had to serve.
    pub slowest_s: f64,
    pub deaths: Counts,
    /// Times that the server has said that it slows writers down.
    pub slowed: u64,
}

impl Summary {
    pub fn add(&mut self, round: &Round) {
        self.commits += round.commits.load(Ordering::Relaxed);
        self.rollbacks += round.rollbacks.load(Ordering::Relaxed);
        self.conflicts += round.conflicts.load(Ordering::Relaxed);
        self.undone_rows += round.undone_rows.load(Ordering::Relaxed);
        self.rereads += round.rereads.load(Ordering::Relaxed);
        self.slowest_s = self.slowest_s.max(round.slowest_us.load(Ordering::Relaxed) as f64 / 1e6);
    }

    pub fn show(&self, devices: Option<&Devices>, parts: Option<&Parts>, failures: usize) -> String {
        let max = self.answers_s.iter().copied().fold(0.0, f64::max);
        let deaths = devices.map_or_else(String::new, |devices| {
            let Counts { deaths, in_restore, restored, longest_s } = self.deaths;
            format!(
                "deaths of the data's device: {deaths}, {in_restore} of them during a restore, {} by hanging\nrestores that were waited for: \
                 {restored}, the longest {longest_s:.1} s from the death on\nat starts dead devices were back: {}, still dead: {}, \
                 new and empty: {}\n",
                devices.hung, devices.back, devices.still_dead, devices.renewed
            )
        });
        let parts = parts.map_or_else(String::new, |parts| {
            let counts = &parts.counts;
            format!(
                "parts killed: {}, stopped for a while: {}, without their folder: {}, ended by themselves: {}; starts of the server without its: {}\n\
                 links slow: {}, cut or silent: {}; log service away for long: {}, stores away: {}; times that writers were slowed down: {}\n",
                counts.killed,
                counts.paused,
                counts.emptied,
                counts.ended,
                self.emptied,
                counts.slowed,
                counts.cut,
                counts.log_away,
                counts.store_away,
                self.slowed
            )
        });
        format!(
            "lasted: {:.0} s\nrounds: {}\nkills: {} (and {} during a recovery)\npower losses: {}\ntimes that devices failed: {} (commits went on within {:.1} s)\n{deaths}{parts}clean stops with resurgam check: {}\n\
             commits acknowledged: {}\ncommits in doubt: {}, of which {} had happened\ntransactions rolled back: {}, \
             conflicts: {}\nrows of large transactions undone: {}\nanswers read again in a snapshot: {}\n\
             rows checked: {}\nslowest statement: {:.2} s\ntime to the first answer: median {:.3} s, max {max:.3} s of {}\nfailures: {failures}",
            self.lasted.as_secs_f64(),
            self.rounds,
            self.kills,
            self.in_recovery,
            self.power_losses,
            self.faults,
            self.longest_stall_s,
            self.clean_stops,
            self.commits,
            self.doubts,
            self.happened,
            self.rollbacks,
            self.conflicts,
            self.undone_rows,
            self.rereads,
            self.rows,
            self.slowest_s,
            median(&self.answers_s),
            self.answers_s.len(),
        )
    }
}
