//! Where the log is that is not in the log service's memory: its cache on disk, the landing zone, the long-term log. What the state machine
//! ([`Core`](crate::Core)) asks to be read and put is read and put here; when, and on which thread, is for whoever drives it.
//!
//! # The last batch
//! A block in the zone says what was durable before it, so of the last one nobody says anything once its primary is silent. Two others do: the
//! long-term log, into which nothing is put that is not hardened (another log service may have heard of it), and the record, where it says that the
//! primary ended in good order and gave the log back: it made all durable before that, and nobody has had the log since.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_base::{Error, Lsn, Result};
use resurgam_log::{LogReader, oldest_segment};
use resurgam_vfs::Vfs;
use resurgam_xstore::Store;

use crate::cache::Cache;
use crate::control::Control;
use crate::core::{Position, Reader};
use crate::long_term::LongTerm;
use crate::piece::Piece;
use crate::record::Record;

/// Most that is read at a time, in bytes.
const READ_BYTES: usize = 4 << 20;

/// A record that says that a primary ended well.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Ended {
    number: u64,
    /// The primary's.
    epoch: u32,
}

/// See the module.
pub struct Below {
    vfs: Arc<dyn Vfs>,
    control: Arc<dyn Control>,
    zone_log: PathBuf,
    database: [u8; 16],
    segment_bytes: u64,
    long_term: LongTerm,
    cache: Cache,
}

/// What was read.
pub struct Found {
    /// Blocks in a row, each checked for itself; empty: none is there. None: it could not be read.
    pub pieces: Option<Vec<Piece>>,
    /// All below is hardened, because of where it was read (the long-term log), or of how the last primary ended; none: that is not known.
    pub proven: Lsn,
    /// What could not be read, though something else perhaps was.
    pub zone_failed: Option<Error>,
    pub long_term_failed: Option<Error>,
}

impl Below {
    /// The log of the database whose record `control` has, in the folder `zone_log` of `vfs` and in `store`, with where it begins and up to where the
    /// long-term log has it. None: the database is not made yet. The cache is the file `cache`, of so many bytes at most.
    ///
    /// # Errors
    /// `Corrupt`, `NotADatabase`, `NewerFormat`, `Io` of record and stores.
    pub fn open(
        vfs: Arc<dyn Vfs>,
        control: Arc<dyn Control>,
        store: Arc<dyn Store>,
        zone_log: &Path,
        cache: (&Path, u64),
    ) -> Result<Option<(Self, Lsn, Position)>> {
        let Some((_, bytes)) = control.read()? else { return Ok(None) };
        let Some(kept) = Record::decode(&bytes)?.kept else { return Ok(None) };
        let (database, segment_bytes) = (kept.database, kept.segment_bytes);
        let (long_term, end) = LongTerm::open(store, database, segment_bytes)?;
        let position = match end {
            Some(end) => Position { lsn: end.end, before: Some((end.last_block, end.last_epoch)) },
            None => match oldest_segment(&*vfs, zone_log)? {
                Some(number) => Position { lsn: Lsn(number.saturating_mul(segment_bytes)), before: None },
                None => return Ok(None),
            },
        };
        let oldest = long_term.oldest().unwrap_or(position.lsn);
        let cache = Cache::open(&*vfs, cache.0, cache.1, segment_bytes);
        let this = Self { vfs, control, zone_log: zone_log.to_path_buf(), database, segment_bytes, long_term, cache };
        Ok(Some((this, oldest, position)))
    }

    /// Whose log it is.
    pub fn database(&self) -> [u8; 16] {
        self.database
    }

    /// Of a segment of the log, in bytes.
    pub fn segment_bytes(&self) -> u64 {
        self.segment_bytes
    }

    /// The long-term log.
    pub fn long_term(&self) -> &LongTerm {
        &self.long_term
    }

    /// Adds a block to the cache.
    pub fn keep(&self, piece: &Piece) {
        self.cache.put(piece);
    }

    /// Reads the log from `from` on, from wherever it is. What was looked up before is not used: names and bytes are as they are now.
    pub fn read(&self, reader: Reader, from: Lsn) -> Found {
        let cached = if reader == Reader::Broker { Vec::new() } else { self.cache.read(from, READ_BYTES) };
        let zone = if cached.is_empty() { self.read_zone(from) } else { Ok(cached) };
        let mut found = Found { pieces: None, proven: Lsn::NONE, zone_failed: None, long_term_failed: None };
        match zone {
            Ok(pieces) if !pieces.is_empty() => {
                if reader == Reader::Broker && !says_of_itself(&pieces) {
                    self.prove(from, pieces, &mut found);
                } else {
                    found.pieces = Some(pieces);
                }
                return found;
            }
            Ok(_) => {}
            Err(error) => found.zone_failed = Some(error),
        }
        match self.long_term.read(from) {
            Ok(Some((pieces, end))) => {
                found.pieces = Some(pieces.iter().map(|piece| (**piece).clone()).collect());
                found.proven = end;
            }
            Ok(None) => found.pieces = found.zone_failed.is_none().then(Vec::new),
            Err(error) => found.long_term_failed = Some(error),
        }
        found
    }

    /// What the zone has from `from` on, of which it says nothing itself.
    fn prove(&self, from: Lsn, pieces: Vec<Piece>, found: &mut Found) {
        found.pieces = Some(pieces);
        // Read again: what was read before may have been another one's.
        if let Some(ended) = self.ended_well()
            && let Ok(all) = self.read_zone(from)
            && self.ended_well() == Some(ended)
        {
            // What a later one has put there would be of a later epoch, whatever the record was read as.
            let own = all.iter().take_while(|piece| piece.epoch <= ended.epoch);
            found.proven = own.last().map_or(Lsn::NONE, |piece| piece.next);
            found.pieces = Some(all);
            return;
        }
        // Its own blocks: those of the zone were read before, when another one may have had it.
        match self.long_term.read(from) {
            Ok(Some((pieces, end))) => {
                found.pieces = Some(pieces.iter().map(|piece| (**piece).clone()).collect());
                found.proven = end;
            }
            Ok(None) => {}
            Err(error) => found.long_term_failed = Some(error),
        }
    }

    /// The record, if that says that whoever had the log has made it durable to its end, and given it back.
    fn ended_well(&self) -> Option<Ended> {
        let (number, bytes) = self.control.read().ok()??;
        let record = Record::decode(&bytes).ok()?;
        let kept = record.kept.filter(|kept| record.free && kept.clean && kept.database == self.database)?;
        Some(Ended { number, epoch: kept.epoch })
    }

    fn read_zone(&self, from: Lsn) -> Result<Vec<Piece>> {
        let mut reader = LogReader::open(Arc::clone(&self.vfs), &self.zone_log, self.segment_bytes, from, 0)?;
        let (mut pieces, mut bytes) = (Vec::new(), 0);
        while bytes < READ_BYTES {
            match reader.next_whole_block() {
                Ok(Some(block)) => {
                    let piece = Piece::of(&block, block.bytes().to_vec());
                    bytes += piece.bytes.len();
                    pieces.push(piece);
                }
                Ok(None) => break,
                // What was read before it is good.
                Err(_) if !pieces.is_empty() => break,
                Err(error) => return Err(error),
            }
        }
        Ok(pieces)
    }
}

/// Whether blocks say of the first of them that it was durable.
fn says_of_itself(pieces: &[Piece]) -> bool {
    let Some(first) = pieces.first() else { return false };
    pieces.iter().any(|piece| piece.durable >= first.next)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use resurgam_base::TxId;
    use resurgam_log::{Group, Log, LogConfig, RecordKind};
    use resurgam_vfs::SimVfs;
    use resurgam_xstore::FolderStore;

    use super::*;
    use crate::alive::ProcessId;
    use crate::control::StoreControl;
    use crate::holder::{Holder, HolderConfig};
    use crate::record::Kept;

    const ID: [u8; 16] = [3; 16];
    const SEGMENT: u64 = 1 << 20;

    fn place(vfs: &Arc<dyn Vfs>, path: &str) -> Arc<dyn Store> {
        Arc::new(FolderStore::open(Arc::clone(vfs), Path::new(path)).unwrap())
    }

    fn take(control: &Arc<dyn Control>, stamp: u64) -> Holder {
        let config = HolderConfig {
            lease: Duration::from_millis(100),
            clock: Arc::new(|| Duration::from_secs(1)),
            stamp,
            me: ProcessId { boot: "elsewhere".into(), pid: 1, started: stamp },
            epoch_above: 0,
        };
        Holder::take(Arc::clone(control), config, &mut |_, _| false).unwrap()
    }

    fn kept(clean: bool) -> Kept {
        let (checkpoint, epoch) = (Lsn(SEGMENT), 2);
        Kept { database: ID, checkpoint, epoch, segment_bytes: SEGMENT, clean, traditional: false }
    }

    /// The last batch is hardened if the primary ended well and nobody came after it, or if the long-term log has it; else nobody knows.
    #[test]
    fn of_the_last_batch_the_record_and_the_long_term_log_say_that_it_is_hardened() {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(5));
        let folder = Path::new("/zone/log");
        for path in [Path::new("/zone"), folder, Path::new("/store"), Path::new("/cache")] {
            vfs.make_folder(path).unwrap();
        }
        let control: Arc<dyn Control> = Arc::new(StoreControl::new(place(&vfs, "/zone"), "control/"));
        let holder = take(&control, 1);
        holder.keep(kept(false)).unwrap();
        let config = LogConfig { segment_bytes: SEGMENT, own_files: true, ..LogConfig::default() };
        let log = Log::create(Arc::clone(&vfs), folder, config, holder.epoch()).unwrap();
        for note in [b"one", b"two"] {
            let mut group = Group::new();
            group.record(RecordKind::Note, TxId::NONE, Lsn::NONE, note);
            let end = log.append(&group).unwrap().end;
            log.flush(end).unwrap();
        }
        log.close().unwrap();
        let store = place(&vfs, "/store");
        let cache = (Path::new("/cache/blocks"), 1 << 20);
        let opened = Below::open(Arc::clone(&vfs), Arc::clone(&control), Arc::clone(&store), folder, cache).unwrap();
        let (below, _, position) = opened.unwrap();
        let all = below.read(Reader::Broker, position.lsn).pieces.unwrap();
        let last = all.last().unwrap().clone();
        let proven = || {
            let found = below.read(Reader::Broker, last.lsn);
            assert_eq!(found.pieces.as_deref(), Some(&[last.clone()][..]));
            found.proven
        };
        assert_eq!(proven(), Lsn::NONE, "it is open");
        holder.keep(kept(true)).unwrap();
        assert_eq!(proven(), Lsn::NONE, "it was not given back");
        holder.release().unwrap();
        assert_eq!(proven(), last.next);
        let next = take(&control, 2);
        assert_eq!(proven(), Lsn::NONE, "another one has it");
        next.keep(kept(false)).unwrap();
        next.release().unwrap();
        assert_eq!(proven(), Lsn::NONE, "it was given back by one that did not end well");
        let (long_term, _) = LongTerm::open(store, ID, SEGMENT).unwrap();
        long_term.put(&[Arc::new(last.clone())], 0).unwrap();
        assert_eq!(proven(), last.next);
        // Who is not the broker needs no proof, and none is looked for.
        assert_eq!(below.read(Reader::Destage, last.lsn).proven, Lsn::NONE);
    }
}
