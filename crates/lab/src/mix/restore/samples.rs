//! What the server says of itself while clients work: bytes that were restored, and pages that were read, over time.

use std::time::Duration;

use super::super::drive::Running;
use crate::Result;
use crate::wire::Client;

/// Between two looks.
const EVERY: Duration = Duration::from_millis(100);

/// A look at the server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub at: Duration,
    /// Bytes that were restored by then; none: nothing is being restored.
    pub restored: Option<f64>,
    /// Pages that were not in memory and had to be read, since the server was started.
    pub reads: f64,
}

/// Looks at the server until the run ends.
///
/// # Errors
/// The server's, in words; the run is then over as well.
pub(super) fn watch(mut client: Client, run: &Running) -> Result<Vec<Sample>> {
    let mut samples = Vec::new();
    while !run.stopped() {
        if let Err(message) = look(&mut client, run, &mut samples) {
            run.fail(message.clone());
            return Err(message);
        }
        run.pause(EVERY);
    }
    Ok(samples)
}

fn look(client: &mut Client, run: &Running, samples: &mut Vec<Sample>) -> Result<()> {
    let sql = "select misses, (select max(bytes) from resurgam_restore) from resurgam_buffer";
    let (at, rows) = (run.elapsed(), client.rows(sql)?);
    let number = |column: usize| -> Result<Option<f64>> {
        let Some(text) = rows.first().and_then(|row| row.get(column)).and_then(Option::as_deref) else {
            return Ok(None);
        };
        text.parse().map(Some).map_err(|_| format!("\"{text}\" is not a number"))
    };
    let (reads, restored) = (number(0)?.unwrap_or_default(), number(1)?);
    samples.push(Sample { at, restored, reads });
    Ok(())
}

/// How much a counter grows in a second, by parts of at least `step`: the middle of each part, and the rate. Where it was not there at one
/// end of a part it did not grow.
pub(super) fn rates(samples: &[Sample], step: Duration, of: impl Fn(&Sample) -> Option<f64>) -> Vec<(f64, f64)> {
    let mut rates = Vec::new();
    let Some(mut last) = samples.first() else { return rates };
    for sample in samples {
        let took = sample.at.saturating_sub(last.at);
        if took < step || took.is_zero() {
            continue;
        }
        let grown = of(sample).zip(of(last)).map_or(0.0, |(now, before)| (now - before).max(0.0));
        rates.push(((last.at + took / 2).as_secs_f64(), grown / took.as_secs_f64()));
        last = sample;
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_of_parts_and_of_counters_that_are_there() {
        let at = |ms: u64, restored: Option<f64>, reads: f64| Sample { at: Duration::from_millis(ms), restored, reads };
        let samples = [
            at(0, None, 0.0),
            at(100, None, 5.0),
            at(500, Some(0.0), 50.0),
            at(1000, Some(100.0), 50.0),
            at(1200, Some(900.0), 50.0),
            at(1500, None, 60.0),
        ];
        let step = Duration::from_millis(500);
        assert_eq!(rates(&samples, step, |s| Some(s.reads)), [(0.25, 100.0), (0.75, 0.0), (1.25, 20.0)]);
        assert_eq!(rates(&samples, step, |s| s.restored), [(0.25, 0.0), (0.75, 200.0), (1.25, 0.0)]);
        assert!(rates(&[], step, |s| s.restored).is_empty());
    }
}
