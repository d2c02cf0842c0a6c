//! What a page costs that is had from the page server: reads of rows at a steady rate, whose pages are in no cache of the
//! primary, beside the same reads of rows whose pages are.

use std::time::{Duration, Instant};

use super::roles::Tiers;
use super::views::{Look, PageWaits};
use super::workload::{Cdb, Profile};
use crate::Result;
use crate::mix::{Db, Mix, Stop, Terminal, check, percentile};

/// Rows of each table of which all pages are in memory.
const WARM_KEYS: i64 = 1000;

/// What was seen at one rate.
pub struct Paced {
    /// In milliseconds, ascending.
    latencies: Vec<f64>,
    pub rate: f64,
    pages: f64,
    waits: PageWaits,
    cpu: [f64; 2],
}

/// Both.
pub struct Pages {
    pub asked_rate: f64,
    pub cold: Paced,
    pub warm: Paced,
}

impl Pages {
    /// Milliseconds that reads take longer whose page comes from the page server.
    pub fn added_ms(&self, share: f64) -> f64 {
        percentile(&self.cold.latencies, share) - percentile(&self.warm.latencies, share)
    }

    /// Milliseconds that the primary waited for a page in the mean, as its metrics say; none if it had none.
    pub fn wait_ms(&self) -> Option<f64> {
        let waits = &self.cold.waits;
        (waits.count() > 0.0).then(|| waits.sum / waits.count() * 1e3)
    }

    /// Milliseconds that this share of these waits took at most, as its metrics say.
    pub fn page_ms(&self, share: f64) -> Option<f64> {
        self.cold.waits.percentile(share).map(|seconds| seconds * 1e3)
    }

    /// Pages that were had, and the share of the reads that needed one.
    pub fn needed(&self) -> f64 {
        self.cold.pages / self.cold.latencies.len().max(1) as f64
    }

    /// Microseconds of processor time for a page: of the primary, of the page server. What the same reads cost without a page is
    /// taken off by read, since the rates that were reached may differ.
    pub fn cpu_us(&self) -> Option<[f64; 2]> {
        let reads = |paced: &Paced| paced.latencies.len().max(1) as f64;
        let of = |side: usize| {
            let plain = self.warm.cpu[side] / reads(&self.warm) * reads(&self.cold);
            (self.cold.cpu[side] - plain) / self.cold.pages * 1e6
        };
        (self.cold.pages > 0.0).then(|| [of(0), of(1)])
    }
}

/// Measures with a primary of little memory and without a page cache; `rate` reads a second of all clients.
pub fn measure(
    tiers: &Tiers,
    mix: &Cdb,
    terminals: &mut [Box<dyn Terminal>],
    clients: usize,
    rate: f64,
    time: Duration,
) -> Result<Pages> {
    let mut of = |keys: i64, time: Duration| {
        mix.play(Profile::ReadLite, false, keys);
        paced(tiers, mix, &mut terminals[..clients], rate, time)
    };
    of(WARM_KEYS, time.min(Duration::from_secs(2)))?;
    let warm = of(WARM_KEYS, time)?;
    let cold = of(0, time)?;
    check(mix, &tiers.primary, terminals)?;
    Ok(Pages { asked_rate: rate, cold, warm })
}

fn paced(tiers: &Tiers, mix: &Cdb, terminals: &mut [Box<dyn Terminal>], rate: f64, time: Duration) -> Result<Paced> {
    let statements = mix.statements();
    let port = tiers.primary.port;
    let sessions: Vec<Db> = terminals.iter().map(|_| Db::connect(port, &statements)).collect::<Result<_>>()?;
    let mut client = tiers.primary.client()?;
    let waited = || PageWaits::at(tiers.metrics_port);
    let (before, cpu, waits) = (Look::at(&mut client)?, tiers.cpu()?, waited()?);
    let between = Duration::from_secs_f64(terminals.len() as f64 / rate.max(1.0));
    let begun = Instant::now();
    let all: Vec<Result<Vec<f64>>> = std::thread::scope(|scope| {
        let clients: Vec<_> = terminals
            .iter_mut()
            .zip(sessions)
            .enumerate()
            .map(|(number, (terminal, db))| {
                // They do not all ask at the same moment.
                let first = begun + between.mul_f64(number as f64 / rate.max(1.0) / between.as_secs_f64().max(1e-9));
                scope.spawn(move || client_of(terminal.as_mut(), db, first, between, time))
            })
            .collect();
        clients.into_iter().map(|one| one.join().unwrap_or_else(|_| Err("a client ended early".into()))).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let (after, cpu_after, waits_after) = (Look::at(&mut client)?, tiers.cpu()?, waited()?);
    let mut latencies = all.into_iter().collect::<Result<Vec<_>>>()?.concat();
    latencies.sort_by(f64::total_cmp);
    let spent = |name: &str| {
        let of = |all: &[(&str, f64)]| all.iter().find(|(other, _)| *other == name).map_or(0.0, |(_, time)| *time);
        of(&cpu_after) - of(&cpu)
    };
    Ok(Paced {
        rate: latencies.len() as f64 / seconds,
        latencies,
        pages: after.given - before.given,
        waits: waits_after.since(&waits),
        cpu: [spent("primary"), spent("page server")],
    })
}

/// Reads one row after the other, each when its time has come; one that is late does not make the next ones come together.
fn client_of(
    terminal: &mut dyn Terminal,
    mut db: Db,
    first: Instant,
    between: Duration,
    time: Duration,
) -> Result<Vec<f64>> {
    let (end, mut due, mut latencies) = (first + time, first, Vec::new());
    loop {
        let now = Instant::now();
        if now >= end {
            return Ok(latencies);
        }
        if let Some(left) = due.checked_duration_since(now) {
            std::thread::sleep(left);
        }
        due = due.max(now) + between;
        let kind = terminal.choose();
        let begun = Instant::now();
        match terminal.run(kind, &mut db) {
            Ok(_) => latencies.push(begun.elapsed().as_secs_f64() * 1e3),
            Err(Stop::Conflict) => {}
            Err(Stop::Failed(message)) => return Err(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_read_costs_without_a_page_is_taken_off() {
        let paced = |latency: f64, pages, cpu| Paced {
            latencies: vec![latency; 100],
            rate: 100.0,
            pages,
            waits: PageWaits { buckets: vec![(1.0, pages)], sum: pages * 1e-4 },
            cpu,
        };
        let pages =
            Pages { asked_rate: 100.0, cold: paced(0.5, 50.0, [0.004, 0.002]), warm: paced(0.25, 0.0, [0.003, 0.0]) };
        assert_eq!(pages.added_ms(0.5), 0.25);
        let [primary, server] = pages.cpu_us().expect("there were pages");
        assert!((primary - 20.0).abs() < 1e-6 && (server - 40.0).abs() < 1e-6, "{primary} {server}");
        assert!((pages.wait_ms().expect("there were pages") - 0.1).abs() < 1e-9 && pages.needed() == 0.5);
    }
}
