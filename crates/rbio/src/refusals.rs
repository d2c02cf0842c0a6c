//! Who was refused: each is counted, and said in the log, but not again and again: a process with the wrong certificate, or none, tries
//! again every second, and whoever means harm much more often, with something else each time.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The same of one address is said again after so long.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// So many are remembered; of further ones nothing is said until some of these are old.
const REMEMBERED_MAX: usize = 64;
/// Of these, of one address: others are to have room as well.
const OF_ADDRESS_MAX: usize = 4;

#[derive(Default)]
pub(crate) struct Refusals {
    count: AtomicU64,
    said: Mutex<Recent>,
}

#[derive(Default)]
struct Recent {
    said: Vec<Said>,
    /// When it was said last that not all is.
    left_out: Option<Instant>,
}

struct Said {
    from: Option<IpAddr>,
    kind: String,
    #[cfg(test)]
    why: String,
    at: Instant,
}

/// What is to be said of one that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Say {
    It,
    /// Not of this one, but that there are more than are said.
    ThatThereAreMore,
    Nothing,
}

impl Refusals {
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// What was said.
    #[cfg(test)]
    pub fn said(&self) -> Vec<String> {
        self.said.lock().said.iter().map(|one| one.why.clone()).collect()
    }

    /// Counts one, and what is to be said of it.
    pub fn add(&self, from: Option<IpAddr>, why: &str) -> Say {
        self.count.fetch_add(1, Ordering::Relaxed);
        let kind = kind(why);
        let mut recent = self.said.lock();
        recent.said.retain(|one| one.at.elapsed() < SAY_AGAIN);
        let mut of_address = recent.said.iter().filter(|one| one.from == from);
        if of_address.clone().any(|one| one.kind == kind) {
            return Say::Nothing;
        }
        if of_address.nth(OF_ADDRESS_MAX - 1).is_some() || recent.said.len() >= REMEMBERED_MAX {
            if recent.left_out.is_some_and(|at| at.elapsed() < SAY_AGAIN) {
                return Say::Nothing;
            }
            recent.left_out = Some(Instant::now());
            return Say::ThatThereAreMore;
        }
        recent.said.push(Said {
            from,
            kind,
            #[cfg(test)]
            why: why.to_owned(),
            at: Instant::now(),
        });
        Say::It
    }
}

/// The reason without its numbers: how long ago something has expired, and how long a message is, makes no other reason.
fn kind(why: &str) -> String {
    why.chars().filter(|c| !c.is_ascii_digit()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, number]))
    }

    #[test]
    fn the_same_is_said_once_and_counted_each_time() {
        let refusals = Refusals::default();
        assert_eq!(refusals.add(address(1), "no certificate"), Say::It);
        assert_eq!(refusals.add(address(1), "no certificate"), Say::Nothing);
        assert_eq!(refusals.add(address(1), "it has expired, 7 s ago"), Say::It);
        assert_eq!(refusals.add(address(2), "no certificate"), Say::It);
        // Another number is no other reason.
        let again =
            (8..100).filter(|s| refusals.add(address(1), &format!("it has expired, {s} s ago")) != Say::Nothing);
        assert_eq!(again.count(), 0);
        assert_eq!((refusals.count(), refusals.said().len()), (96, 3));
    }

    #[test]
    fn what_is_said_is_bounded_and_that_it_is_so_is_said_once() {
        let refusals = Refusals::default();
        let letters = |number: u8| char::from(b'a' + number).to_string();
        let of_one: Vec<_> = (0..20).map(|number| refusals.add(address(1), &letters(number))).collect();
        assert_eq!(of_one[..5], [Say::It, Say::It, Say::It, Say::It, Say::ThatThereAreMore]);
        assert!(of_one[5..].iter().all(|say| *say == Say::Nothing));
        // Others have room, up to a limit for all.
        let of_others: Vec<_> = (2..200).map(|number| refusals.add(address(number), "no certificate")).collect();
        let said = REMEMBERED_MAX - OF_ADDRESS_MAX;
        assert!(of_others[..said].iter().all(|say| *say == Say::It));
        assert!(of_others[said..].iter().all(|say| *say == Say::Nothing));
        assert_eq!(refusals.count(), 218);
    }
}
