//! Who was refused: each is counted, and said in the log, but not again and again: a process with the wrong certificate, or none, tries
//! again every second.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The same of one address is said again after so long.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// So many are remembered; of further ones nothing is said until some of these are old.
const REMEMBERED_MAX: usize = 64;

#[derive(Default)]
pub(crate) struct Refusals {
    count: AtomicU64,
    said: Mutex<Vec<Said>>,
}

struct Said {
    from: Option<IpAddr>,
    why: String,
    at: Instant,
}

impl Refusals {
    pub fn count(&self) -> u64 {
        self.count.load(Ordering::Relaxed)
    }

    /// What was said.
    #[cfg(test)]
    pub fn said(&self) -> Vec<String> {
        self.said.lock().iter().map(|one| one.why.clone()).collect()
    }

    /// Counts one; whether it is to be said.
    pub fn add(&self, from: Option<IpAddr>, why: &str) -> bool {
        self.count.fetch_add(1, Ordering::Relaxed);
        let mut said = self.said.lock();
        said.retain(|one| one.at.elapsed() < SAY_AGAIN);
        let is_known = said.iter().any(|one| one.from == from && one.why == why);
        if is_known || said.len() >= REMEMBERED_MAX {
            return false;
        }
        said.push(Said { from, why: why.to_owned(), at: Instant::now() });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_said_once_and_counted_each_time() {
        let refusals = Refusals::default();
        let address = |number: u8| Some(IpAddr::from([10, 0, 0, number]));
        assert!(refusals.add(address(1), "no certificate"));
        assert!(!refusals.add(address(1), "no certificate"));
        assert!(refusals.add(address(1), "it has expired"));
        assert!(refusals.add(address(2), "no certificate"));
        let said = (0..200).filter(|number| refusals.add(address(*number), "of another authority")).count();
        assert_eq!((said, refusals.count()), (REMEMBERED_MAX - 3, 204));
    }
}
