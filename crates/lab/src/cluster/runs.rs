//! One run of the clients on one contender: rate, latencies, processor time by process, what the views say.

use std::time::Duration;

use super::roles::{Cpu, Tiers};
use super::standbys::Standbys;
use super::views::Look;
use super::workload::Cdb;
use crate::Result;
use crate::mix::{Mix, Terminal, check, drive, percentile};
use crate::servers::Server;

/// Between two looks at the log.
const LOOK: Duration = Duration::from_millis(100);

/// Which contender.
pub enum Side<'a> {
    One(&'a Server),
    Tiers(&'a Tiers),
    Standbys(&'a Standbys),
}

impl Side<'_> {
    pub fn server(&self) -> &Server {
        match self {
            Self::One(server) => server,
            Self::Tiers(tiers) => &tiers.primary,
            Self::Standbys(standbys) => &standbys.primary,
        }
    }

    fn cpu(&self) -> Result<Cpu> {
        match self {
            Self::One(server) => Ok(vec![("one process", server.cpu_seconds()?)]),
            Self::Tiers(tiers) => tiers.cpu(),
            Self::Standbys(standbys) => standbys.cpu(),
        }
    }
}

/// How long.
#[derive(Clone, Copy)]
pub struct Length {
    pub warm_up: Duration,
    pub counted: Duration,
}

/// What was seen.
pub struct Run {
    /// Of the counted part, in milliseconds, ascending.
    pub latencies: Vec<f64>,
    pub seconds: f64,
    /// Processor seconds in the counted part.
    pub cpu: Cpu,
    /// At its begin and end, and in between.
    pub looks: Vec<Look>,
    pub conflicts: u64,
}

impl Run {
    pub fn rate(&self) -> f64 {
        self.latencies.len() as f64 / self.seconds
    }

    pub fn mean(&self) -> f64 {
        self.latencies.iter().sum::<f64>() / self.latencies.len().max(1) as f64
    }

    pub fn percentile(&self, share: f64) -> f64 {
        percentile(&self.latencies, share)
    }

    /// Processor seconds of a process for a thousand transactions.
    pub fn cpu_per_thousand(&self, at: usize) -> Option<f64> {
        let (_, seconds) = self.cpu.get(at)?;
        (!self.latencies.is_empty()).then(|| seconds / self.latencies.len() as f64 * 1e3)
    }

    /// What a counter has grown by in the counted part.
    pub fn grown(&self, of: impl Fn(&Look) -> f64) -> Option<f64> {
        let (first, last) = (self.looks.first()?, self.looks.last()?);
        Some(of(last) - of(first))
    }

    pub fn hit_rate(&self) -> Option<f64> {
        self.looks.last()?.hit_rate_since(self.looks.first()?)
    }
}

/// Lets the terminals work, and checks the sums over the tables afterwards, of all terminals that the contender has.
pub fn run(
    side: &Side<'_>,
    mix: &Cdb,
    terminals: &mut [Box<dyn Terminal>],
    clients: usize,
    length: Length,
) -> Result<Run> {
    let server = side.server();
    let mut client = server.client()?;
    client.query("checkpoint")?;
    let working = &mut terminals[..clients];
    let ((within, cpu, looks), tally) = drive(server.port, mix as &dyn Mix, working, |run| {
        let mut looks = Vec::new();
        let mut look = || -> Result<()> {
            looks.push(match side {
                Side::One(_) => Look::at_log(&mut client)?,
                Side::Tiers(_) => Look::at(&mut client)?,
                Side::Standbys(_) => Look::default(),
            });
            Ok(())
        };
        run.pause(length.warm_up);
        look()?;
        let (begun, before) = (run.elapsed(), side.cpu()?);
        while run.elapsed() < begun + length.counted && run.pause(LOOK) {
            look()?;
        }
        let (ended, after) = (run.elapsed(), side.cpu()?);
        let cpu: Cpu = before.into_iter().zip(after).map(|((name, from), (_, to))| (name, to - from)).collect();
        Ok((begun..ended, cpu, looks))
    })?;
    check(mix, server, terminals)?;
    let seconds = within.end.saturating_sub(within.start).as_secs_f64().max(0.001);
    Ok(Run { latencies: tally.latencies(None, &within), seconds, cpu, looks, conflicts: tally.conflicts })
}
