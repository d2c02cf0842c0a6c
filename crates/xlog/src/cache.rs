//! The newest log on a local disk: a file that is written round and round. What it holds is known in memory only, so it is empty after a
//! start; when the disk fails it is off, with one line in the log.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_base::{Lsn, Result};
use resurgam_vfs::{File, OpenMode, Vfs};

use crate::piece::Piece;

struct Ring {
    file: Arc<dyn File>,
    at: u64,
    /// Where each block is, and how long.
    places: BTreeMap<Lsn, (u64, usize)>,
    /// The same in the order of the file: what is written over goes.
    by_place: BTreeMap<u64, Lsn>,
}

/// See the module.
pub struct Cache {
    bytes: u64,
    segment_bytes: u64,
    ring: Mutex<Option<Ring>>,
}

impl Cache {
    /// In the file at `path`, of at most so many bytes; 0: none.
    pub fn open(vfs: &dyn Vfs, path: &Path, bytes: u64, segment_bytes: u64) -> Self {
        let open = || -> Result<Ring> {
            let file = vfs.open(path, OpenMode::Create)?;
            file.set_len(0)?;
            Ok(Ring { file, at: 0, places: BTreeMap::new(), by_place: BTreeMap::new() })
        };
        let ring = if bytes == 0 { None } else { open().inspect_err(off).ok() };
        Self { bytes, segment_bytes, ring: Mutex::new(ring) }
    }

    /// Adds a block.
    pub fn put(&self, piece: &Piece) {
        let mut slot = self.ring.lock();
        let Some(ring) = slot.as_mut() else { return };
        let len = piece.bytes.len() as u64;
        if len > self.bytes {
            return;
        }
        if ring.at + len > self.bytes {
            ring.at = 0;
        }
        let (from, to) = (ring.at, ring.at + len);
        // The one that begins before may reach into it.
        let before = ring.by_place.range(..from).next_back().map(|(at, _)| *at);
        let over: Vec<u64> = before.into_iter().chain(ring.by_place.range(from..to).map(|(at, _)| *at)).collect();
        for at in over {
            let Some(lsn) = ring.by_place.get(&at).copied() else { continue };
            let reaches = ring.places.get(&lsn).is_some_and(|(_, len)| at + *len as u64 > from);
            if reaches {
                ring.by_place.remove(&at);
                ring.places.remove(&lsn);
            }
        }
        if let Err(error) = ring.file.write_at(&piece.bytes, from) {
            off(&error);
            *slot = None;
            return;
        }
        ring.at = to;
        ring.places.insert(piece.lsn, (from, piece.bytes.len()));
        ring.by_place.insert(from, piece.lsn);
    }

    /// The blocks from the one at `from` on that are there, of about `bytes_max`; none: that is not there.
    pub fn read(&self, from: Lsn, bytes_max: usize) -> Vec<Piece> {
        let (mut at, mut left, mut pieces) = (from, bytes_max.max(1), Vec::new());
        while left > 0 {
            let mut slot = self.ring.lock();
            let Some(ring) = slot.as_mut() else { break };
            let Some((place, len)) = ring.places.get(&at).copied() else { break };
            let mut bytes = vec![0; len];
            let read = ring.file.read_exact_at(&mut bytes, place);
            match read.and_then(|()| Piece::parse(bytes, at, self.segment_bytes)) {
                Ok(piece) => {
                    left = left.saturating_sub(len);
                    at = piece.next;
                    pieces.push(piece);
                }
                Err(error) => {
                    off(&error);
                    *slot = None;
                }
            }
        }
        pieces
    }
}

#[cold]
fn off(error: &resurgam_base::Error) {
    tracing::warn!("the log service goes on without its cache on disk: {error}");
}
