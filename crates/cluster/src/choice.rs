//! Which of several page servers is asked for a page: by what an answer of each takes of late, by how much each has to do, and by how far each has
//! applied the log. A pure function of what is known of them; `page_client.rs` knows it, and asks.
//!
//! 1. One that lags behind what the page must be as new as is not asked while there is one that does not. Where all lag, those that are near are
//!    as good as each other (the log comes to all of them), and of the others the one that is furthest goes first.
//! 2. Of those that are equal in that the one goes first whose *cost* is least: what an answer takes, a moving mean, times the requests that it
//!    works on, with this one.
//! 3. What is known grows old. One that was not asked for a while is tried again, by one reader at a time: so often that trying it costs a
//!    small part of one reader's time, and not less often than every few seconds. One that is believed to lag more than the best one is not tried with a page, which
//!    would keep the reader waiting: it is asked how far it is.
//!
//! Nothing here decides what is new enough: the page server that is asked waits until it has the page as new as it was asked for.

use std::time::Duration;

use resurgam_base::Lsn;

/// A page server that is so little behind another one has the same log a moment later: so much is applied in two milliseconds or so.
const NEAR_BYTES: u64 = 256 << 10;
/// One that is not the best is tried again when it has not been asked for so many times what an answer of it takes, but so long at least, and at most.
const AGAIN: u32 = 64;
const AGAIN_LEAST: Duration = Duration::from_millis(50);
const AGAIN_MOST: Duration = Duration::from_secs(5);
/// What one of which nothing is known is taken to take: it is asked; and when it was, and has not answered yet, others are first.
const UNKNOWN: Duration = Duration::from_micros(1);
const UNKNOWN_ASKED: Duration = Duration::from_secs(1);

/// A page server that may be asked now, as it is known.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Candidate {
    /// A moving mean of what an answer takes; zero: it has given none.
    pub latency: Duration,
    /// Requests that it works on.
    pub load: u32,
    /// It has applied all log below; none: it has not said so, and is not believed to lag.
    pub applied: Lsn,
    /// How far that was behind the furthest of all when it said so; the greatest, and nothing applied: what it says cannot be.
    pub behind: u64,
    /// Since when it was not asked; none: it never was.
    pub not_asked_for: Option<Duration>,
    /// What was asked of it last has failed.
    pub fails: bool,
    /// It has refused a page because it lagged, and has not gone on since.
    pub refused: bool,
    /// A mistake that tests make on purpose: how far it is does not matter.
    pub ignores_lag: bool,
}

/// By its number among the candidates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// The best one. `passed`: one that would cost less lags.
    Best { number: usize, passed: Option<usize> },
    /// One that is not, which has not been asked for a while.
    Again(usize),
    /// As `Again`: it is believed to lag, and is to be asked how far it is.
    Look(usize),
}

/// Whether one has what is wanted; the less the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lag {
    /// As far as is known.
    None,
    /// It will have it when the others do.
    Near,
    /// So many bytes behind the furthest.
    Far(u64),
}

impl Candidate {
    /// `furthest`: of all of which it is known.
    fn lag(&self, at_least: Lsn, furthest: Lsn) -> Lag {
        // It has gone on since it said so, as the furthest has.
        let with_the_furthest = if self.refused { 0 } else { furthest.0.saturating_sub(self.behind) };
        let now = with_the_furthest.max(self.applied.0);
        match self.behind {
            _ if self.ignores_lag => Lag::None,
            // Beside those that say that they do not have yet what is wanted, it is no better.
            0 if self.applied.is_none() => {
                if furthest > at_least {
                    Lag::None
                } else {
                    Lag::Near
                }
            }
            _ if now > at_least.0 => Lag::None,
            _ if self.refused => Lag::Far(furthest.0.saturating_sub(self.applied.0)),
            ..=NEAR_BYTES => Lag::Near,
            behind => Lag::Far(behind),
        }
    }

    fn cost(&self) -> Duration {
        let latency = match self.latency {
            Duration::ZERO if self.load > 0 => UNKNOWN_ASKED,
            latency => latency.max(UNKNOWN),
        };
        latency.saturating_mul(self.load.saturating_add(1))
    }

    /// Whether it is to be tried again though it is not the best.
    fn is_due(&self) -> bool {
        let latency = if self.latency.is_zero() && self.load > 0 { UNKNOWN_ASKED } else { self.latency };
        let again = latency.saturating_mul(AGAIN).clamp(AGAIN_LEAST, AGAIN_MOST);
        // One that fails is left alone for a while before it is a candidate again.
        self.not_asked_for.is_none_or(|since| since >= again || self.fails)
    }
}

/// What answers take of late, when one more took so long. `is_again`: it was not asked for a while, so what was known is old.
pub(crate) fn smoothed(latency: Duration, took: Duration, is_again: bool) -> Duration {
    if is_again || latency.is_zero() { took } else { (latency.saturating_mul(7).saturating_add(took)) / 8 }
}

/// Who is asked for a page with its record at `at_least`; none: there is nobody. `furthest`: any has said to have applied all log below.
/// `tries`: it may be one that is not the best, to see whether it is now.
pub(crate) fn choose(candidates: &[Candidate], at_least: Lsn, furthest: Lsn, tries: bool) -> Option<Choice> {
    let lag = |number: &usize| candidates[*number].lag(at_least, furthest);
    let cost = |number: &usize| candidates[*number].cost();
    let all = || 0..candidates.len();
    let best = all().min_by_key(|number| (candidates[*number].fails, lag(number), cost(number)))?;
    // Who has not been asked for the longest time; one that never was before all others.
    let due = all()
        .filter(|number| tries && *number != best && candidates[*number].is_due())
        .max_by_key(|number| candidates[*number].not_asked_for.unwrap_or(Duration::MAX));
    if let Some(number) = due {
        return Some(if lag(&number) > lag(&best) { Choice::Look(number) } else { Choice::Again(number) });
    }
    let cheapest = all().filter(|number| !candidates[*number].fails).min_by_key(cost);
    let passed = cheapest.filter(|number| cost(number) < cost(&best) && lag(number) > lag(&best));
    Some(Choice::Best { number: best, passed })
}

/// Whether the one with that number is not to be waited for for long when it turns out to lag: another one may have the page. The best one, which
/// is not `tried`, is to be one that says how far it is: else that it lags is taken for a failure.
pub(crate) fn is_brief(candidates: &[Candidate], number: usize, tried: bool, at_least: Lsn, furthest: Lsn) -> bool {
    let says = |one: &Candidate| (tried || one.applied.is_some()) && !one.ignores_lag;
    candidates.get(number).is_some_and(says)
        && others(candidates, number).any(|one| !one.fails && one.lag(at_least, furthest) <= Lag::Near)
}

/// Whether there is another one that does not fail.
pub(crate) fn is_spare(candidates: &[Candidate], number: usize) -> bool {
    others(candidates, number).any(|one| !one.fails)
}

fn others(candidates: &[Candidate], number: usize) -> impl Iterator<Item = &Candidate> {
    candidates.iter().enumerate().filter(move |(other, _)| *other != number).map(|(_, one)| one)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Option<Duration> = Some(Duration::ZERO);

    fn of(micros: u64, load: u32, applied: u64, behind: u64) -> Candidate {
        let latency = Duration::from_micros(micros);
        Candidate { latency, load, applied: Lsn(applied), behind, not_asked_for: NOW, ..Candidate::default() }
    }

    /// With the furthest among them.
    fn choose(candidates: &[Candidate], at_least: Lsn) -> Option<Choice> {
        let furthest = candidates.iter().map(|one| one.applied).max().unwrap_or(Lsn::NONE);
        super::choose(candidates, at_least, furthest, true)
    }

    fn best(candidates: &[Candidate], at_least: u64) -> usize {
        match choose(candidates, Lsn(at_least)) {
            Some(Choice::Best { number, .. }) => number,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_fastest_is_asked_until_it_has_too_much_to_do() {
        assert_eq!(choose(&[], Lsn(1)), None);
        assert_eq!(best(&[of(20, 0, 0, 0), of(10, 0, 0, 0), of(30, 0, 0, 0)], 5), 1);
        assert_eq!(best(&[of(20, 0, 0, 0), of(10, 1, 0, 0)], 5), 0, "the first of two that cost the same");
        assert_eq!(best(&[of(20, 0, 0, 0), of(10, 2, 0, 0)], 5), 0);
        assert_eq!(best(&[of(u64::MAX / 2000, u32::MAX, 0, 0), of(10, 900, 0, 0)], 5), 1);
    }

    #[test]
    fn one_that_lags_is_not_asked_first() {
        let near = 100;
        // The slow one has what is wanted, the fast one said that it had not, when the other one was as far.
        let two = [of(1000, 5, 2000, 0), of(10, 0, 2000 - near, near)];
        assert_eq!(best(&two, 1000), 1, "both have it");
        assert_eq!(choose(&two, Lsn(1950)), Some(Choice::Best { number: 0, passed: Some(1) }));
        assert_eq!(best(&two, 2000), 1, "neither has it, and both will in a moment");
        // What it is behind when it says so is what it is behind later, too.
        let later = [of(1000, 0, 900_000, 0), of(10, 0, 2000 - near, near)];
        assert_eq!(best(&later, 899_000), 1);
        // Of those that are far behind, the furthest.
        let far = [of(1000, 5, 90 << 20, 0), of(10, 0, 20 << 20, 70 << 20), of(5, 0, 30 << 20, 60 << 20)];
        assert_eq!(best(&far, 95 << 20), 0);
        assert_eq!(best(&far[1..], 95 << 20), 1);
        assert_eq!(best(&far, 25 << 20), 2);
        // One that says nothing, as those of the version before, is not known to lag.
        assert_eq!(best(&[of(1000, 0, 2000, 0), of(10, 0, 0, 0)], 1999), 1);
        // Beside one that says that it does not have it yet, it is not taken to have it: else all ask the one of the version before.
        let mixed = [of(10, 0, 2000, 0), of(1000, 0, 0, 0)];
        assert_eq!([best(&mixed, 1999), best(&mixed, 2000), best(&mixed, 3000)], [0, 0, 0]);
        // One that has refused a page is not believed to go on as the furthest does, until it has.
        let refused = [of(1000, 5, 9000, 0), Candidate { refused: true, ..of(10, 0, 2000, 0) }];
        assert_eq!([best(&refused, 1999), best(&refused, 2000), best(&refused, 9000)], [1, 0, 0]);
        assert_eq!(best(&refused[1..], 9000), 0, "nobody else is there");
        let near = [of(1000, 5, 9000, 0), of(10, 0, 9000, 0)];
        let brief = |all: &[Candidate], number| is_brief(all, number, false, Lsn(9000), Lsn(9000));
        assert!(brief(&near, 0) && brief(&near, 1) && !brief(&refused, 0) && !brief(&near[1..], 0));
        assert!(!brief(&mixed, 1), "it does not say how far it is");
        assert!(!brief(&[near[0], Candidate { fails: true, ..near[1] }], 0));
        // One that says what cannot be is the last.
        assert_eq!(best(&[of(1000, 0, 2000, 0), of(10, 0, 0, u64::MAX)], 1999), 0);
        // The mistake is one.
        let ignoring = two.map(|one| Candidate { ignores_lag: true, ..one });
        assert_eq!(best(&ignoring, 1950), 1);
    }

    #[test]
    fn others_are_tried_again_now_and_then() {
        let since = |one: Candidate, ms| Candidate { not_asked_for: Some(Duration::from_millis(ms)), ..one };
        let fast = of(10, 0, 2000, 0);
        // Every fifty milliseconds, less often where that takes long, every five seconds all the same.
        for (micros, due) in [(20, 50), (2000, 128), (900_000, 5000)] {
            let slow = of(micros, 0, 2000, 0);
            assert_eq!(best(&[fast, since(slow, due - 1)], 1), 0);
            assert_eq!(choose(&[fast, since(slow, due)], Lsn(1)), Some(Choice::Again(1)));
        }
        // One after the other, the longest first; one of which nothing is known before them.
        let slow = of(100, 0, 2000, 0);
        assert_eq!(choose(&[fast, since(slow, 60), since(slow, 70)], Lsn(1)), Some(Choice::Again(2)));
        let never = Candidate { not_asked_for: None, ..of(0, 0, 0, 0) };
        assert_eq!(best(&[fast, Candidate { not_asked_for: NOW, ..never }], 1), 1);
        assert_eq!(choose(&[never, fast, never], Lsn(1)), Some(Choice::Again(2)));
        assert_eq!(best(&[fast, Candidate { load: 1, not_asked_for: NOW, ..never }], 1), 0, "it has not answered yet");
        let asked = since(Candidate { load: 1, ..of(0, 0, 0, 0) }, 4999);
        assert_eq!(best(&[fast, asked], 1), 0, "who has not answered yet is not tried by the next reader");
        let settled = super::choose(&[fast, since(slow, 9000), never], Lsn(1), Lsn(2000), false);
        assert_eq!(settled, Some(Choice::Best { number: 2, passed: None }), "as good as any, as far as is known");
        let settled = super::choose(&[fast, since(slow, 9000)], Lsn(1), Lsn(2000), false);
        assert_eq!(settled, Some(Choice::Best { number: 0, passed: None }));
        // The best one needs no reason.
        assert_eq!(best(&[since(fast, 9000), slow], 1), 0);
        // One that lags is asked how far it is, so that it may come back.
        let lags = since(of(10, 0, 1 << 20, 90 << 20), 60);
        let ahead = of(20, 0, 91 << 20, 0);
        assert_eq!(choose(&[ahead, lags], Lsn(80 << 20)), Some(Choice::Look(1)));
        assert_eq!(best(&[ahead, lags], 1000), 1, "what it has it is asked for");
        // One that fails is not the best while another one does not, and is tried when it is left alone no more.
        let fails = Candidate { fails: true, ..of(1, 0, 2000, 0) };
        assert_eq!(choose(&[fast, fails], Lsn(1)), Some(Choice::Again(1)));
        assert_eq!(best(&[fails], 1), 0);
    }

    /// A reader after the other, of whom some ask at the same time, with servers that take what they take.
    #[test]
    fn nobody_starves_and_there_is_no_herd() {
        // What each takes, in microseconds: the third is stuck, and the fourth gets well half-way.
        let mut takes = [100, 100, 50_000, 50_000];
        let (mut now, mut asked) = (Duration::ZERO, [0u32; 4]);
        let mut known = takes.map(|_| (Candidate::default(), None::<Duration>));
        let mut on_their_way: Vec<(Duration, usize, Duration, bool)> = Vec::new();
        let (mut most_at_slow, mut half) = (0, [0; 4]);
        for turn in 0..400_000 {
            if turn == 200_000 {
                takes[3] = 10;
                half = asked;
            }
            now += Duration::from_micros(10);
            on_their_way.retain(|(due, number, took, is_again)| {
                let done = *due <= now;
                if done {
                    let one = &mut known[*number].0;
                    one.latency = smoothed(one.latency, *took, *is_again);
                    one.load -= 1;
                }
                !done
            });
            most_at_slow = most_at_slow.max(known[2].0.load);
            if on_their_way.len() >= 8 {
                continue;
            }
            let candidates: Vec<_> =
                known.iter().map(|(one, at)| Candidate { not_asked_for: at.map(|at| now - at), ..*one }).collect();
            let (number, is_again) = match choose(&candidates, Lsn(1)) {
                Some(Choice::Best { number, .. }) => (number, false),
                Some(Choice::Again(number)) => (number, true),
                other => panic!("{other:?}"),
            };
            asked[number] += 1;
            (known[number].0.load, known[number].1) = (candidates[number].load + 1, Some(now));
            let took = Duration::from_micros(takes[number]);
            on_their_way.push((now + took, number, took, is_again));
        }
        // Four seconds, in which one that takes 50 milliseconds is due every 3.2 seconds.
        assert!((2..=4).contains(&asked[2]) && most_at_slow <= 2, "{asked:?}, {most_at_slow} at one time");
        assert!(half[0].abs_diff(half[1]) < half[0] / 4, "two that are alike share the work: {half:?}");
        assert!(asked[3] > half[3] + 20_000, "one that gets well is found: {half:?} {asked:?}");
    }
}
