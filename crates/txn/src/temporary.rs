//! The temporary version store of the traditional mode: earlier row versions in memory, for
//! snapshots only. Undo needs none of it (it reads the log), and a restart loses it: no
//! snapshot is older than the restart.
//!
//! Versions are appended to chunks; a chunk goes when none of the transaction ids between the
//! lowest and the highest that pushed into it can matter to anyone, as a page of the persistent
//! store does (`resurgam_versions`, `reclaim.rs`).
//!
//! # Invariants
//! 1. A version is named by a chunk and a place in it. Chunk numbers hold the log's epoch, so
//!    that what a row has kept from before a restart never names a version of this process, but
//!    for those that were rebuilt under the name that the row has for them.
//! 2. Memory in use stays below the bound; a push that would pass it fails. Rebuilt versions
//!    are never refused and do not count: before the restart they were within the bound, but they
//!    take more room now, and that must not keep others from writing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};
use resurgam_base::{Error, ErrorKind, PageId, Result, SlotId, TxId};

const PARTITIONS: usize = 8;
/// A chunk takes no more versions from here on, in bytes.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNK_VERSIONS: usize = 4096;
/// Low bits of a chunk's number that count; those above are the epoch.
const COUNTER_BITS: u32 = 32;

struct Chunk {
    id: PageId,
    /// Bytes that it counts for.
    reserved: u64,
    /// The lowest and the highest id that pushed.
    lowest: AtomicU64,
    highest: AtomicU64,
    content: RwLock<Content>,
}

impl Chunk {
    /// Asks whether the ids that pushed matter to nobody.
    fn is_unneeded(&self, is_past: &dyn Fn(TxId, TxId) -> bool) -> bool {
        is_past(TxId(self.lowest.load(Ordering::Relaxed)), TxId(self.highest.load(Ordering::Relaxed)))
    }
}

#[derive(Default)]
struct Content {
    bytes: Vec<u8>,
    /// Where each version ends.
    ends: Vec<u32>,
}

/// A reading of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TemporaryStats {
    /// Versions pushed since open.
    pub pushed: u64,
    /// Memory in use, in bytes.
    pub bytes: u64,
    /// The most that it may use, in bytes.
    pub bytes_max: u64,
    /// Chunks in use.
    pub chunks: u64,
    /// Memory that versions take which a restart had lost and which were rebuilt, in bytes. It is
    /// neither bounded nor part of `bytes`.
    pub rebuilt_bytes: u64,
}

/// Versions that were lost by a restart and rebuilt from the log, of one transaction.
#[derive(Default)]
struct Rebuilt {
    versions: HashMap<(PageId, SlotId), Box<[u8]>>,
    bytes: u64,
    /// Why others could not be rebuilt, and the sub-transactions of their writer.
    unreadable: Option<(Vec<(TxId, TxId)>, Error)>,
}

/// About how many bytes a rebuilt version takes besides its own.
const REBUILT_OVERHEAD: u64 = 64;

/// See the module.
pub struct TemporaryVersions {
    base: u64,
    next: AtomicU64,
    chunks: RwLock<HashMap<PageId, Arc<Chunk>>>,
    current: [Mutex<Option<Arc<Chunk>>>; PARTITIONS],
    turn: AtomicUsize,
    bytes: AtomicU64,
    bytes_max: AtomicU64,
    pushed: AtomicU64,
    /// By the transaction that was in doubt, or not undone, at the restart.
    rebuilt: RwLock<HashMap<TxId, Rebuilt>>,
}

thread_local! {
    static PARTITION: std::cell::Cell<usize> = const { std::cell::Cell::new(usize::MAX) };
}

impl TemporaryVersions {
    /// An empty store of a process that writes the log under `epoch`.
    pub(crate) fn new(epoch: u32) -> Self {
        Self {
            base: PageId::TEMPORARY | (u64::from(epoch) & 0x1fff_ffff) << COUNTER_BITS,
            next: AtomicU64::new(1),
            chunks: RwLock::default(),
            current: Default::default(),
            turn: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            bytes_max: AtomicU64::new(u64::MAX),
            pushed: AtomicU64::new(0),
            rebuilt: RwLock::default(),
        }
    }

    /// Puts a version that a restart has lost back, under the name that its row has for it, for
    /// as long as `pusher` matters to anyone.
    pub fn restore(&self, pusher: TxId, name: (PageId, SlotId), version: Vec<u8>) {
        let bytes = version.len() as u64 + REBUILT_OVERHEAD;
        let mut rebuilt = self.rebuilt.write();
        let of_pusher = rebuilt.entry(pusher).or_default();
        if of_pusher.versions.insert(name, version.into_boxed_slice()).is_none() {
            of_pusher.bytes += bytes;
        }
    }

    /// Notes why versions of `tx`, with its sub-transactions, that are not there cannot be rebuilt;
    /// none: there are no such any more.
    pub fn set_unreadable(&self, tx: TxId, subs: Vec<(TxId, TxId)>, why: Option<Error>) {
        let mut rebuilt = self.rebuilt.write();
        if why.is_some() || rebuilt.contains_key(&tx) {
            rebuilt.entry(tx).or_default().unreadable = why.map(|why| (subs, why));
        }
    }

    /// Why what was there before a change under the id `xid` cannot be rebuilt, if that is so.
    pub fn why_unreadable(&self, xid: TxId) -> Option<Error> {
        let rebuilt = self.rebuilt.read();
        rebuilt.iter().find_map(|(tx, rebuilt)| {
            let (subs, why) = rebuilt.unreadable.as_ref()?;
            let is_of_tx = *tx == xid || subs.iter().any(|(first, last)| (*first..=*last).contains(&xid));
            is_of_tx.then(|| why.clone())
        })
    }

    /// Sets the most memory that it may use, in bytes.
    pub fn set_bound(&self, bytes: u64) {
        self.bytes_max.store(bytes, Ordering::Relaxed);
    }

    fn partition(&self) -> usize {
        PARTITION.with(|p| {
            if p.get() == usize::MAX {
                p.set(self.turn.fetch_add(1, Ordering::Relaxed) % PARTITIONS);
            }
            p.get()
        })
    }

    /// Keeps a version for as long as `pusher` matters to anyone.
    ///
    /// # Errors
    /// `OutOfMemory` when the store is full.
    pub fn push(&self, pusher: TxId, version: &[u8]) -> Result<(PageId, SlotId)> {
        let mut current = self.current[self.partition()].lock();
        if let Some(chunk) = current.as_ref() {
            let mut content = chunk.content.write();
            if content.bytes.len() + version.len() <= CHUNK_BYTES && content.ends.len() < CHUNK_VERSIONS {
                chunk.lowest.fetch_min(pusher.0, Ordering::Relaxed);
                chunk.highest.fetch_max(pusher.0, Ordering::Relaxed);
                self.pushed.fetch_add(1, Ordering::Relaxed);
                return Ok((chunk.id, content.push(version)));
            }
        }
        let bytes = CHUNK_BYTES.max(version.len()) as u64;
        let bound = self.bytes_max.load(Ordering::Relaxed);
        if self.bytes.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) > bound {
            self.bytes.fetch_sub(bytes, Ordering::Relaxed);
            return Err(Error::new(
                ErrorKind::OutOfMemory,
                format!("the temporary version store is full: it may use {} MB", bound >> 20),
            )
            .with_detail("In the traditional mode earlier row versions are kept in memory while a transaction or snapshot may need them.")
            .with_hint("Write less in one transaction, end old snapshots, or raise \"temporary_version_bytes_max\"."));
        }
        let mut content = Content { bytes: Vec::with_capacity(bytes as usize), ends: Vec::new() };
        let slot = content.push(version);
        let id = PageId(self.base | (self.next.fetch_add(1, Ordering::Relaxed) & 0xffff_ffff));
        let chunk = Arc::new(Chunk {
            id,
            reserved: bytes,
            lowest: AtomicU64::new(pusher.0),
            highest: AtomicU64::new(pusher.0),
            content: RwLock::new(content),
        });
        self.chunks.write().insert(id, Arc::clone(&chunk));
        *current = Some(chunk);
        self.pushed.fetch_add(1, Ordering::Relaxed);
        Ok((id, slot))
    }

    /// A copy of a version; none when it is not (or no longer) there.
    pub fn get(&self, chunk: PageId, slot: SlotId) -> Option<Vec<u8>> {
        let name = (chunk, slot);
        let Some(chunk) = self.chunks.read().get(&chunk).cloned() else {
            return self.rebuilt.read().values().find_map(|rebuilt| Some(rebuilt.versions.get(&name)?.to_vec()));
        };
        let content = chunk.content.read();
        let slot = slot.0 as usize;
        let end = *content.ends.get(slot)? as usize;
        let start = if slot == 0 { 0 } else { content.ends[slot - 1] as usize };
        content.bytes.get(start..end).map(<[u8]>::to_vec)
    }

    /// Drops chunks all of whose pushers are past: `is_past` says of an inclusive range of ids
    /// whether none of them matters to anyone, now or later. Returns how many.
    pub fn free_past(&self, is_past: &dyn Fn(TxId, TxId) -> bool) -> u64 {
        for current in &self.current {
            let mut current = current.lock();
            if current.as_ref().is_some_and(|chunk| chunk.is_unneeded(is_past)) {
                *current = None;
            }
        }
        self.rebuilt.write().retain(|pusher, _| !is_past(*pusher, *pusher));
        let mut freed = 0;
        // One that is still written to has a pusher that is not past, or was let go above.
        let in_use: Vec<PageId> =
            self.current.iter().filter_map(|current| current.lock().as_ref().map(|chunk| chunk.id)).collect();
        self.chunks.write().retain(|id, chunk| {
            let keep = !chunk.is_unneeded(is_past) || in_use.contains(id);
            if !keep {
                self.bytes.fetch_sub(chunk.reserved, Ordering::Relaxed);
                freed += 1;
            }
            keep
        });
        freed
    }

    pub fn stats(&self) -> TemporaryStats {
        TemporaryStats {
            pushed: self.pushed.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            bytes_max: self.bytes_max.load(Ordering::Relaxed),
            chunks: self.chunks.read().len() as u64,
            rebuilt_bytes: self.rebuilt.read().values().map(|rebuilt| rebuilt.bytes).sum(),
        }
    }
}

impl Content {
    fn push(&mut self, version: &[u8]) -> SlotId {
        let slot = SlotId(self.ends.len() as u16);
        self.bytes.extend_from_slice(version);
        self.ends.push(self.bytes.len() as u32);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As when all below `floor` have ended long ago.
    fn below(floor: u64) -> impl Fn(TxId, TxId) -> bool {
        move |_, last| last.0 < floor
    }

    #[test]
    fn versions_live_as_long_as_their_pusher_matters() -> Result<()> {
        let store = TemporaryVersions::new(7);
        let mut kept = Vec::new();
        for i in 0..2000u64 {
            let version = vec![i as u8; 100 + (i % 50) as usize];
            kept.push((i, store.push(TxId(i + 1), &version)?, version));
        }
        let all = store.stats();
        assert!(all.chunks > 2 && all.pushed == 2000, "{all:?}");
        for (_, (chunk, slot), version) in &kept {
            assert!(chunk.is_temporary());
            assert_eq!(store.get(*chunk, *slot).as_ref(), Some(version));
        }
        assert!(store.free_past(&below(1000)) > 0);
        for (i, (chunk, slot), version) in kept.iter().skip(999) {
            assert_eq!(store.get(*chunk, *slot).as_ref(), Some(version), "{i} matters still");
        }
        assert_eq!(store.get(kept[0].1.0, kept[0].1.1), None);
        let chunks = store.stats().chunks;
        // One in the middle matters: its chunk stays, those after it go.
        assert_eq!(store.free_past(&|first, last| !(first.0..=last.0).contains(&1500)), chunks - 1);
        let (chunk, slot) = kept[1499].1;
        assert_eq!(store.get(chunk, slot).as_ref(), Some(&kept[1499].2));
        store.free_past(&below(5000));
        assert_eq!((store.stats().chunks, store.stats().bytes), (0, 0));
        let other = TemporaryVersions::new(8);
        let (chunk, slot) = other.push(TxId(1), b"x")?;
        assert_eq!(store.get(chunk, slot), None, "names of another epoch name nothing");
        Ok(())
    }

    #[test]
    fn rebuilt_versions_keep_the_name_from_before() -> Result<()> {
        let before = TemporaryVersions::new(7);
        let name = before.push(TxId(5), b"lost")?;
        let store = TemporaryVersions::new(8);
        store.set_bound(10);
        assert_eq!(store.get(name.0, name.1), None);
        store.restore(TxId(5), name, b"lost".to_vec());
        store.restore(TxId(5), name, b"lost".to_vec());
        assert_eq!((store.stats().bytes, store.stats().rebuilt_bytes), (0, 4 + REBUILT_OVERHEAD));
        store.set_unreadable(TxId(5), vec![(TxId(7), TxId(8))], Some(Error::corrupt("why")));
        let told = |xid: u64| store.why_unreadable(TxId(xid)).map(|e| e.message().to_owned());
        assert_eq!([5, 6, 7, 8, 9].map(|xid| told(xid).is_some()), [true, false, true, true, false]);
        store.free_past(&below(5));
        assert_eq!(store.get(name.0, name.1).as_deref(), Some(&b"lost"[..]));
        store.free_past(&below(6));
        assert_eq!((store.get(name.0, name.1), store.stats().rebuilt_bytes, told(7)), (None, 0, None));
        Ok(())
    }

    #[test]
    fn a_full_store_refuses_and_goes_on() -> Result<()> {
        let store = TemporaryVersions::new(1);
        store.set_bound(2 * CHUNK_BYTES as u64);
        let error = loop {
            match store.push(TxId(1), &[0; 1000]) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert_eq!(error.kind(), ErrorKind::OutOfMemory);
        assert!(store.stats().bytes <= 2 * CHUNK_BYTES as u64);
        store.free_past(&below(2));
        store.push(TxId(3), &[0; 1000])?;
        Ok(())
    }
}
