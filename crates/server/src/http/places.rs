//! Who is being answered, and who has to go when there are too many.
//!
//! Contract: a new connection always gets a place. When all are taken, the one goes that has kept
//! the server waiting for longest; a client that waits for the server stays, and of those there
//! are never as many as places ([`Places::asking`]).

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::Notify;

/// Clients served at one time.
const PLACES: usize = 128;
/// Clients that may wait for the numbers at one time: fewer than places.
const ASKING_MAX: usize = 112;

/// All places.
#[derive(Default)]
pub(super) struct Places {
    taken: Mutex<Taken>,
}

#[derive(Default)]
struct Taken {
    /// Oldest first.
    list: VecDeque<Entry>,
    next: u64,
}

struct Entry {
    number: u64,
    /// The client waits for the server, not the server for the client.
    asking: bool,
    gone: Arc<Notify>,
}

/// A connection's place; it is free again when this is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    number: u64,
    gone: Arc<Notify>,
}

impl Places {
    /// A place for a new connection.
    pub fn take(self: &Arc<Self>) -> Place {
        let mut taken = self.taken.lock();
        if taken.list.len() >= PLACES
            && let Some(at) = taken.list.iter().position(|entry| !entry.asking)
            && let Some(entry) = taken.list.remove(at)
        {
            entry.gone.notify_one();
        }
        let number = taken.next;
        taken.next += 1;
        let gone = Arc::new(Notify::new());
        taken.list.push_back(Entry { number, asking: false, gone: Arc::clone(&gone) });
        Place { places: Arc::clone(self), number, gone }
    }
}

impl Place {
    /// Completes when the connection has to go.
    pub async fn gone(&self) {
        self.gone.notified().await;
    }

    /// From here on the client waits for the server; false: too many do already.
    pub fn ask(&self) -> bool {
        let mut taken = self.places.taken.lock();
        if taken.list.iter().filter(|entry| entry.asking).count() >= ASKING_MAX {
            return false;
        }
        taken.list.iter_mut().filter(|entry| entry.number == self.number).for_each(|entry| entry.asking = true);
        true
    }

    /// It has its answer, and the server waits for it again.
    pub fn answered(&self) {
        let mut taken = self.places.taken.lock();
        taken.list.iter_mut().filter(|entry| entry.number == self.number).for_each(|entry| entry.asking = false);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.taken.lock().list.retain(|entry| entry.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_to_go(place: &Place) -> bool {
        use futures::FutureExt;
        place.gone().now_or_never().is_some()
    }

    #[test]
    fn the_oldest_idle_one_goes() {
        let places = Arc::<Places>::default();
        let mut held: Vec<Place> = (0..PLACES).map(|_| places.take()).collect();
        assert!(held[0].ask());
        let next = places.take();
        let gone: Vec<usize> = (0..PLACES).filter(|i| has_to_go(&held[*i])).collect();
        assert_eq!(gone, [1]);
        held[0].answered();
        let another = places.take();
        assert!(has_to_go(&held[0]));
        drop(held.drain(..10));
        let free = places.take();
        assert!(held.iter().chain([&next, &another, &free]).all(|place| !has_to_go(place)));
    }

    #[test]
    fn few_may_ask() {
        let places = Arc::<Places>::default();
        let held: Vec<Place> = (0..PLACES).map(|_| places.take()).collect();
        assert_eq!(held.iter().filter(|place| place.ask()).count(), ASKING_MAX);
        held[0].answered();
        assert!(held[PLACES - 1].ask());
    }
}
