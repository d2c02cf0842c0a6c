//! The bytes of one simulated file: what readers see, what is durable, and
//! every state in between that a power loss could leave.
//!
//! # Invariants
//! 1. A chunk that is in neither map reads as zeros.
//! 2. A chunk whose seen and durable bytes differ either has an entry in
//!    `unsynced`, or was dropped by a failed sync.
//! 3. `unsynced[c]` holds the seen bytes of chunk `c` after each write since the
//!    last sync (the newest last, the list capped): a crash picks for each
//!    sector one of them, or the durable one.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::rng::Rng;

pub(crate) const CHUNK_BYTES: usize = 4096;
/// Most states kept of one chunk between two syncs.
const STATES_MAX: usize = 4;

/// `None` is a chunk of zeros.
type Chunk = Option<Arc<[u8; CHUNK_BYTES]>>;

#[derive(Clone, Default)]
pub(crate) struct Content {
    seen: HashMap<u64, Arc<[u8; CHUNK_BYTES]>>,
    seen_len: u64,
    durable: HashMap<u64, Arc<[u8; CHUNK_BYTES]>>,
    durable_len: u64,
    unsynced: BTreeMap<u64, Vec<Chunk>>,
}

fn put(map: &mut HashMap<u64, Arc<[u8; CHUNK_BYTES]>>, index: u64, chunk: Chunk) {
    match chunk {
        Some(bytes) => map.insert(index, bytes),
        None => map.remove(&index),
    };
}

impl Content {
    pub(crate) fn len(&self) -> u64 {
        self.seen_len
    }

    pub(crate) fn read(&self, buf: &mut [u8], offset: u64) -> usize {
        let n = (buf.len() as u64).min(self.seen_len.saturating_sub(offset)) as usize;
        let mut done = 0;
        while done < n {
            let at = offset + done as u64;
            let (index, from) = (at / CHUNK_BYTES as u64, (at % CHUNK_BYTES as u64) as usize);
            let take = (CHUNK_BYTES - from).min(n - done);
            let out = &mut buf[done..done + take];
            match self.seen.get(&index) {
                Some(chunk) => out.copy_from_slice(&chunk[from..from + take]),
                None => out.fill(0),
            }
            done += take;
        }
        n
    }

    pub(crate) fn write(&mut self, buf: &[u8], offset: u64) {
        let mut done = 0;
        while done < buf.len() {
            let at = offset + done as u64;
            let (index, from) = (at / CHUNK_BYTES as u64, (at % CHUNK_BYTES as u64) as usize);
            let take = (CHUNK_BYTES - from).min(buf.len() - done);
            let input = &buf[done..done + take];
            // Zeros over zeros change nothing but the length.
            if self.seen.contains_key(&index) || input.iter().any(|b| *b != 0) {
                let chunk = self.seen.entry(index).or_insert_with(|| Arc::new([0; CHUNK_BYTES]));
                Arc::make_mut(chunk)[from..from + take].copy_from_slice(input);
                let state = Some(Arc::clone(chunk));
                self.note(index, state);
            }
            done += take;
        }
        self.seen_len = self.seen_len.max(offset + buf.len() as u64);
    }

    fn note(&mut self, index: u64, state: Chunk) {
        let states = self.unsynced.entry(index).or_default();
        if states.len() == STATES_MAX {
            states.remove(1);
        }
        states.push(state);
    }

    pub(crate) fn set_len(&mut self, len: u64) {
        if len < self.seen_len {
            let keep_whole = len / CHUNK_BYTES as u64;
            let keep_bytes = (len % CHUNK_BYTES as u64) as usize;
            let mut cut: Vec<u64> = self.seen.keys().copied().filter(|i| *i >= keep_whole).collect();
            cut.sort_unstable();
            for index in cut {
                let state = if index == keep_whole && keep_bytes > 0 {
                    self.seen.get_mut(&index).map(|chunk| {
                        Arc::make_mut(chunk)[keep_bytes..].fill(0);
                        Arc::clone(chunk)
                    })
                } else {
                    self.seen.remove(&index);
                    None
                };
                self.note(index, state);
            }
        }
        self.seen_len = len;
    }

    /// These bytes are zeros from now on; whole chunks.
    pub(crate) fn punch(&mut self, offset: u64, len: u64) {
        let (from, to) = (offset / CHUNK_BYTES as u64, (offset + len) / CHUNK_BYTES as u64);
        for index in from..to {
            if self.seen.remove(&index).is_some() {
                self.note(index, None);
            }
        }
    }

    pub(crate) fn sync(&mut self) {
        for (index, _) in std::mem::take(&mut self.unsynced) {
            put(&mut self.durable, index, self.seen.get(&index).cloned());
        }
        self.durable_len = self.seen_len;
    }

    /// A sync that reports failure: some of the unsynced sectors reach the disk,
    /// the others are forgotten by the kernel although readers still see them.
    pub(crate) fn fail_sync(&mut self, sector_bytes: usize, rng: &mut Rng) {
        (self.durable, self.durable_len) = self.after_power_loss(sector_bytes, rng);
        self.unsynced.clear();
    }

    /// The file as a power loss leaves it.
    pub(crate) fn crashed(&self, sector_bytes: usize, rng: &mut Rng) -> Content {
        let (durable, durable_len) = self.after_power_loss(sector_bytes, rng);
        Content { seen: durable.clone(), seen_len: durable_len, durable, durable_len, unsynced: BTreeMap::new() }
    }

    fn after_power_loss(&self, sector_bytes: usize, rng: &mut Rng) -> (HashMap<u64, Arc<[u8; CHUNK_BYTES]>>, u64) {
        let mut result = self.durable.clone();
        // Often all or nothing of a file survives; often it is a mixture.
        let mood = rng.below(4);
        for (index, states) in &self.unsynced {
            let old = self.durable.get(index);
            let mut bytes = old.map_or([0; CHUNK_BYTES], |chunk| **chunk);
            for from in (0..CHUNK_BYTES).step_by(sector_bytes) {
                let pick = match mood {
                    0 => 0,
                    1 => states.len(),
                    _ => rng.below(states.len() as u64 + 1) as usize,
                };
                if pick > 0 {
                    let sector = &mut bytes[from..from + sector_bytes];
                    match &states[pick - 1] {
                        Some(state) => sector.copy_from_slice(&state[from..from + sector_bytes]),
                        None => sector.fill(0),
                    }
                }
            }
            put(&mut result, *index, Some(Arc::new(bytes)));
        }
        let keep_len = match mood {
            0 => false,
            1 => true,
            _ => rng.coin(),
        };
        let len = if keep_len { self.seen_len } else { self.durable_len };
        // Sectors past the end are not part of the file.
        let (whole, tail) = (len / CHUNK_BYTES as u64, (len % CHUNK_BYTES as u64) as usize);
        result.retain(|index, _| *index < whole || (*index == whole && tail > 0));
        if let Some(chunk) = result.get_mut(&whole) {
            Arc::make_mut(chunk)[tail..].fill(0);
        }
        (result, len)
    }

    /// Flips one bit, seen and durable alike: rot on the medium.
    pub(crate) fn flip_bit(&mut self, bit: u64) {
        let (byte, mask) = (bit / 8, 1u8 << (bit % 8));
        let (index, at) = (byte / CHUNK_BYTES as u64, (byte % CHUNK_BYTES as u64) as usize);
        for map in [&mut self.seen, &mut self.durable] {
            let chunk = map.entry(index).or_insert_with(|| Arc::new([0; CHUNK_BYTES]));
            Arc::make_mut(chunk)[at] ^= mask;
        }
    }
}
