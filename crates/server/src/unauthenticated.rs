//! Connections that have not logged in yet, and which of them has to go when there are too many.
//!
//! Contract: a new connection always gets a place, so that whoever is silent, slow or many locks nobody out. When its
//! address has all that one may have, one of that address goes; when all are taken, one of the address that has most.
//! Of an address that one goes which has said nothing yet, or else the oldest.
//!
//! An address is an IPv4 address, or the network of an IPv6 one (64 bits, which is what one customer gets).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use tokio::sync::Notify;

/// All places.
pub struct Unauthenticated {
    taken: Mutex<Taken>,
    max: usize,
    per_address_max: usize,
    evicted: AtomicU64,
}

#[derive(Default)]
struct Taken {
    /// Oldest first.
    list: Vec<Entry>,
    /// How many each address has.
    counts: HashMap<IpAddr, usize>,
    next: u64,
    closed: bool,
}

struct Entry {
    number: u64,
    address: IpAddr,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    /// It has sent a whole start-up packet.
    has_spoken: AtomicBool,
    gone: Notify,
}

/// A connection's place; it is free again when this is dropped.
pub struct Place {
    places: Arc<Unauthenticated>,
    number: u64,
    shared: Arc<Shared>,
}

fn key(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64).into(),
        v4 => v4,
    }
}

impl Unauthenticated {
    /// Places for `max` connections, of one address `per_address_max`; at least one each.
    pub fn new(max: u32, per_address_max: u32) -> Arc<Self> {
        Arc::new(Self {
            taken: Mutex::default(),
            max: max.max(1) as usize,
            per_address_max: per_address_max.max(1) as usize,
            evicted: AtomicU64::new(0),
        })
    }

    /// A place for a new connection.
    pub fn take(self: &Arc<Self>, peer: IpAddr) -> Place {
        let address = key(peer);
        let mut taken = self.taken.lock();
        if taken.of(address) >= self.per_address_max {
            self.evict(&mut taken, address);
        } else if taken.list.len() >= self.max {
            let most = taken.counts.iter().max_by_key(|(_, count)| **count).map(|(address, _)| *address);
            if let Some(most) = most {
                self.evict(&mut taken, most);
            }
        }
        let shared = Arc::<Shared>::default();
        if taken.closed {
            shared.gone.notify_one();
        }
        let number = taken.next;
        taken.next += 1;
        taken.list.push(Entry { number, address, shared: Arc::clone(&shared) });
        *taken.counts.entry(address).or_default() += 1;
        Place { places: Arc::clone(self), number, shared }
    }

    fn evict(&self, taken: &mut Taken, address: IpAddr) {
        let of_address = |entry: &Entry| entry.address == address;
        let silent = |entry: &Entry| of_address(entry) && !entry.shared.has_spoken.load(Ordering::Relaxed);
        let at = taken.list.iter().position(silent).or_else(|| taken.list.iter().position(of_address));
        if let Some(at) = at {
            taken.remove(at).shared.gone.notify_one();
            self.evicted.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Nobody logs in any more: all have to go, those that come later, too.
    pub fn close(&self) {
        let mut taken = self.taken.lock();
        taken.closed = true;
        taken.list.iter().for_each(|entry| entry.shared.gone.notify_one());
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.taken.lock().list.len()
    }

    /// How many had to go for others so far.
    pub fn evicted(&self) -> u64 {
        self.evicted.load(Ordering::Relaxed)
    }
}

impl Taken {
    fn of(&self, address: IpAddr) -> usize {
        self.counts.get(&address).copied().unwrap_or(0)
    }

    fn remove(&mut self, at: usize) -> Entry {
        let entry = self.list.remove(at);
        if let Some(count) = self.counts.get_mut(&entry.address) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&entry.address);
            }
        }
        entry
    }
}

impl Place {
    /// The client has said who it is.
    pub fn has_spoken(&self) {
        self.shared.has_spoken.store(true, Ordering::Relaxed);
    }

    /// Completes when the connection has to go.
    pub async fn gone(&self) {
        self.shared.gone.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken.lock();
        if let Ok(at) = taken.list.binary_search_by_key(&self.number, |entry| entry.number) {
            taken.remove(at);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn has_to_go(place: &Place) -> bool {
        use futures::FutureExt;
        place.gone().now_or_never().is_some()
    }

    fn of(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn an_address_pays_for_itself() {
        let places = Unauthenticated::new(10, 3);
        let other = places.take(of("10.0.0.1"));
        let many: Vec<Place> = (0..3).map(|_| places.take(of("10.0.0.2"))).collect();
        many[0].has_spoken();
        let newest = places.take(of("10.0.0.2"));
        let gone: Vec<bool> = many.iter().map(has_to_go).collect();
        assert_eq!(gone, [false, true, false], "the oldest silent one");
        assert!(!has_to_go(&other) && !has_to_go(&newest));
        assert_eq!((places.count(), places.evicted()), (4, 1));
        drop((many, newest));
        assert_eq!(places.count(), 1);
        // Clients of one IPv6 network are one address.
        let net: Vec<Place> = (1..=4).map(|i| places.take(of(&format!("2001:db8::{i}")))).collect();
        assert!(has_to_go(&net[0]) && !has_to_go(&net[1]));
    }

    #[test]
    fn the_address_with_most_pays_when_all_is_taken() {
        let places = Unauthenticated::new(5, 4);
        let few = [places.take(of("10.0.0.1")), places.take(of("10.0.0.3"))];
        let many: Vec<Place> = (0..3).map(|_| places.take(of("10.0.0.2"))).collect();
        many.iter().for_each(Place::has_spoken);
        let new = places.take(of("10.0.0.4"));
        assert!(has_to_go(&many[0]) && !has_to_go(&many[1]) && !has_to_go(&new));
        assert!(few.iter().all(|place| !has_to_go(place)));
        places.close();
        assert!(has_to_go(&few[0]) && has_to_go(&places.take(of("10.0.0.9"))));
    }
}
