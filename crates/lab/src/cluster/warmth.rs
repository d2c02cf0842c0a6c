//! How soon a primary is as fast as before it was killed: with what its page cache has kept, and without.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use super::roles::Tiers;
use super::workload::Cdb;
use crate::Result;
use crate::mix::{Terminal, check, drive};
use crate::report::{median, table};

/// The share of the rate before that counts as being as fast.
const SHARE: f64 = 0.9;
/// The rate is that of so long, looked at in such steps.
const WINDOW: Duration = Duration::from_millis(500);
const STEP: Duration = Duration::from_millis(50);
/// The goal: with the page cache in this share of the time without.
const GOAL: f64 = 0.2;
/// What could not be had.
const NOT_YET: &str = "not by then";

/// One restart.
pub struct Restart {
    pub has_cache: bool,
    /// Transactions a second before the kill.
    pub before: f64,
    /// Seconds from the start of the process to the end of the first time that is as fast; none: it was not.
    pub as_fast: Option<f64>,
    /// The share of `before` in the first, second, … second after the start.
    pub shares: Vec<f64>,
    /// Pages that page servers had to give in all that time.
    pub given: f64,
}

/// Kills the primary, which has just made `before` transactions a second, starts it with or without what its page cache has, and
/// lets the clients work for `time`.
pub fn restart(
    tiers: &mut Tiers,
    mix: &Cdb,
    terminals: &mut [Box<dyn Terminal>],
    (clients, before): (usize, f64),
    (has_cache, time): (bool, Duration),
    pin: impl FnOnce(&Tiers),
) -> Result<Restart> {
    const GIVEN: &str = "select sum(pages) from resurgam_page_servers";
    tiers.primary.kill();
    if !has_cache {
        tiers.forget_page_cache()?;
    }
    let begun = Instant::now();
    tiers.primary.start()?;
    pin(tiers);
    let port = tiers.primary.port;
    let mut late = Duration::ZERO;
    let ((), tally) = drive(port, mix, &mut terminals[..clients], |run| {
        late = begun.elapsed().saturating_sub(run.elapsed());
        while begun.elapsed() < time && run.pause(STEP) {}
        Ok(())
    })?;
    let ends: Vec<Duration> = tally.ends().into_iter().map(|at| at + late).collect();
    let given = tiers.primary.client()?.query(GIVEN)?.and_then(|text| text.parse().ok()).unwrap_or(0.0);
    check(mix, &tiers.primary, terminals)?;
    Ok(Restart { has_cache, before, as_fast: as_fast(&ends, before, time), shares: shares(&ends, before, time), given })
}

fn count(ends: &[Duration], from: Duration, to: Duration) -> f64 {
    let below = |time| ends.partition_point(|end| *end < time);
    (below(to) - below(from)) as f64
}

/// When a window of the sorted `ends` is first as fast as `before`: its end, in seconds.
fn as_fast(ends: &[Duration], before: f64, time: Duration) -> Option<f64> {
    let mut end = WINDOW;
    while end <= time {
        if count(ends, end - WINDOW, end) >= SHARE * before * WINDOW.as_secs_f64() {
            return Some(end.as_secs_f64());
        }
        end += STEP;
    }
    None
}

fn shares(ends: &[Duration], before: f64, time: Duration) -> Vec<f64> {
    let second = |n| Duration::from_secs(n);
    (0..time.as_secs()).map(|n| count(ends, second(n), second(n + 1)) / before.max(1e-9)).collect()
}

/// The report's part.
pub fn text(restarts: &[Restart]) -> String {
    let mut text = format!(
        "## After a restart\n\nThe default mix with skewed keys (80/20), 15 % of the data cached; the primary is killed (-9) in the middle of nothing and started again, with what its \
         page cache has and without. *As fast as before*: the first {} ms in which {} % of the transactions a second before the kill were made, \
         in seconds from the start of the process to their end; the goal is {GOAL} of the time without.\n\n",
        WINDOW.as_millis(),
        SHARE * 100.0
    );
    let mut rows = Vec::new();
    let mut middles = Vec::new();
    for (has_cache, name) in [(true, "with its page cache"), (false, "without")] {
        let of: Vec<&Restart> = restarts.iter().filter(|restart| restart.has_cache == has_cache).collect();
        if of.is_empty() {
            continue;
        }
        let middle = |of: &[f64]| median(of);
        let times: Option<Vec<f64>> = of.iter().map(|restart| restart.as_fast).collect();
        let time = times.as_deref().map(middle);
        middles.push(time);
        let mut shares = String::new();
        for second in 0..of.iter().map(|restart| restart.shares.len()).min().unwrap_or(0).min(8) {
            let share = middle(&of.iter().map(|restart| restart.shares[second]).collect::<Vec<_>>());
            let _ = write!(shares, "{}{:.0}", if second == 0 { "" } else { ", " }, share * 100.0);
        }
        rows.push(vec![
            name.to_owned(),
            format!("{:.0}", middle(&of.iter().map(|restart| restart.before).collect::<Vec<_>>())),
            time.map_or(NOT_YET.into(), |time| format!("{time:.2}")),
            shares,
            format!("{:.0}", middle(&of.iter().map(|restart| restart.given).collect::<Vec<_>>())),
        ]);
    }
    text += &table(
        &[
            "",
            "transactions a second before",
            "as fast as before, s",
            "% of it in each second",
            "pages from the page server",
        ],
        &rows,
    );
    if let [Some(with), Some(without)] = middles[..] {
        let ratio = with / without.max(1e-9);
        text += &format!(
            "\nWith by without: {ratio:.2}; goal {GOAL}: {}.\n",
            if ratio <= GOAL { "met" } else { "**missed**" }
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_window_that_is_as_fast_counts() {
        // Ten a second in the first second, a hundred afterwards.
        let slow = (0..10).map(|n| Duration::from_millis(n * 100));
        let fast = (0..200).map(|n| Duration::from_millis(1000 + n * 10));
        let ends: Vec<Duration> = slow.chain(fast).collect();
        let time = Duration::from_secs(3);
        let found = as_fast(&ends, 100.0, time).unwrap();
        assert!((1.4..=1.5).contains(&found), "{found}");
        assert_eq!(as_fast(&ends, 200.0, time), None);
        assert_eq!(shares(&ends, 100.0, time), [0.1, 1.0, 1.0]);
    }

    #[test]
    fn a_restart_that_is_not_as_fast_is_said() {
        let of = |has_cache, as_fast| Restart { has_cache, before: 10.0, as_fast, shares: vec![0.5], given: 3.0 };
        assert!(text(&[of(true, Some(0.5)), of(false, Some(5.0))]).contains("0.10; goal 0.2: met"));
        assert!(text(&[of(true, Some(2.0)), of(false, Some(5.0))]).contains("**missed**"));
        let unknown = text(&[of(true, Some(0.5)), of(false, None)]);
        assert!(unknown.contains(NOT_YET) && !unknown.contains("goal 0.2: "), "{unknown}");
    }
}
