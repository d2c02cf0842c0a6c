//! Fuzzy checkpoints: nothing is written out and nobody waits. A checkpoint records which
//! transactions are active, the aborted-transaction map, and which pages the data file
//! lags behind for; analysis starts at its begin.
//!
//! ```text
//! CheckpointBegin             body empty; starts a block
//! CheckpointData ...          body: kind u8, then entries (below), at most CHUNK of them
//! CheckpointEnd               body: begin block LSN u64, number of data records u32
//!
//! kind 1 counters   next id u64, high water u64, next object u32
//! kind 2 active     first u64, last u64           (id ranges, subs included)
//! kind 3 aborted    a set of ids (`resurgam_txn`, `id_set/codec.rs`)
//! kind 4 dirty      page u64, rec_lsn u64, last_lsn u64
//! kind 5 undo       id u64, first u64, last u64   (chains of undo records, traditional mode)
//! kind 7 undo subs  id u64, first u64, last u64   (their sub-transactions' id ranges)
//! kind 6 details    id u64, lsn u64, time i64, began i64 (of aborted ones, for operators only)
//! kind 8 version file  high water u64             (whole page id; only with such a file)
//! kind 9 prepared      id u64, lsn u64, then as part 3 of a PREPARE: one transaction a record
//! kind 10 prepared subs     id u64, first u64, last u64
//! kind 11 prepared objects  id u64, object | mode << 32 u64
//! kind 12 set aside  as kind 4: pages that cannot be brought up to date, and hold no log
//! kind 13, 14        what no other record holds (`identity.rs`)
//! ```
//!
//! # Why the state may be read after the begin record was written
//! Whatever changes afterwards is in the log after the begin record, and analysis reads
//! that too. Three things need care. A commit whose record is *before* the begin record
//! must not be listed as active: its state is set under the mutex under which its record
//! was appended, so after passing through that mutex the state is final. Transactions are
//! read before the aborted map, so one that aborts in between is in at least one of the
//! two. A prepared transaction is asked for behind the commit mutex, and under the mutex under
//! which PREPARE and the record that takes it back are appended: what is listed was in doubt
//! when the begin record was written, or its end is behind that. A dirty page's last record is read under its latch, so a change that was appended
//! before the begin record has been applied.

use std::sync::Arc;

use resurgam_base::{Error, Lsn, ObjectId, PageId, Result, TxId};
use resurgam_buffer::{BufferPool, DirtyPage};
use resurgam_log::{Appended, Group, Log, Opening, RecordKind};
use resurgam_txn::{AbortedTx, Lock, Status, TxIdSet, TxManager, UndoChain};

use crate::identity::{Identity, decode_version_store, encode_version_store};
use crate::prepared::{PreparedHead, PreparedTx, lock_code, lock_of};
use crate::version_record::VersionRecord;

const CHUNK: usize = 1536;
/// Details of aborted transactions saved at most: 32 bytes each.
const DETAILS_SAVED: usize = 8192;

/// What a checkpoint holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckpointState {
    pub next_id: TxId,
    pub high_water: u64,
    /// The same of the version-store file, its number in the upper bits; none without one.
    pub version_high_water: PageId,
    pub next_object: u32,
    pub active: Vec<(TxId, TxId)>,
    /// Transactions that are undone from the log, by id: where their chains begin and end.
    pub undo: Vec<(TxId, UndoChain)>,
    /// Their sub-transactions: whose, and an inclusive range.
    pub undo_subs: Vec<(TxId, TxId, TxId)>,
    pub aborted: TxIdSet,
    /// Of the newest of them.
    pub aborted_details: Vec<AbortedTx>,
    pub dirty: Vec<DirtyPage>,
    /// Transactions in doubt: id, LSN of the PREPARE, and what identifies each.
    pub prepared: Vec<(TxId, Lsn, PreparedHead)>,
    /// Their sub-transactions: whose, and an inclusive range.
    pub prepared_subs: Vec<(TxId, TxId, TxId)>,
    /// Their table locks.
    pub prepared_objects: Vec<(TxId, ObjectId, Lock)>,
    /// What no other record holds; `None` in a checkpoint of format versions before 5.
    pub identity: Option<Identity>,
    /// What is noted of version-store files; `None`: there never was one.
    pub version_store: Option<VersionRecord>,
    /// Who has opened the log for writing.
    pub openings: Vec<Opening>,
}

impl CheckpointState {
    /// The bodies of the CheckpointData records.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        let mut bodies = Vec::new();
        let mut counters = vec![1u8];
        counters.extend_from_slice(&self.next_id.0.to_le_bytes());
        counters.extend_from_slice(&self.high_water.to_le_bytes());
        counters.extend_from_slice(&self.next_object.to_le_bytes());
        bodies.push(counters);
        chunked(&mut bodies, 2, &self.active, |out, (first, last)| words(out, &[first.0, last.0]));
        bodies.extend(self.aborted.encode().into_iter().map(|set| [&[3], set.as_slice()].concat()));
        let (aside, dirty): (Vec<DirtyPage>, Vec<DirtyPage>) = self.dirty.iter().partition(|page| page.aside);
        for (kind, pages) in [(4, &dirty), (12, &aside)] {
            chunked(&mut bodies, kind, pages, |out, d| words(out, &[d.page.0, d.rec_lsn.0, d.last_lsn.0]));
        }
        chunked(&mut bodies, 5, &self.undo, |out, (id, chain)| words(out, &[id.0, chain.first.0, chain.last.0]));
        chunked(&mut bodies, 7, &self.undo_subs, |out, (id, a, b)| words(out, &[id.0, a.0, b.0]));
        let details = |out: &mut Vec<u8>, tx: &AbortedTx| {
            words(out, &[tx.id.0, tx.lsn.0, tx.aborted_us as u64, tx.began_us as u64])
        };
        chunked(&mut bodies, 6, &self.aborted_details, details);
        if self.version_high_water.is_some() {
            chunked(&mut bodies, 8, &[self.version_high_water], |out, page| words(out, &[page.0]));
        }
        for (id, lsn, head) in &self.prepared {
            let mut body = vec![9];
            words(&mut body, &[id.0, lsn.0]);
            head.encode_into(&mut body);
            bodies.push(body);
        }
        chunked(&mut bodies, 10, &self.prepared_subs, |out, (id, a, b)| words(out, &[id.0, a.0, b.0]));
        chunked(&mut bodies, 11, &self.prepared_objects, |out, (id, object, mode)| {
            words(out, &[id.0, u64::from(object.0) | u64::from(lock_code(*mode)) << 32])
        });
        bodies.extend(self.identity.as_ref().map(Identity::encode));
        bodies.extend(self.version_store.as_ref().map(encode_version_store));
        chunked(&mut bodies, 15, &self.openings, |out, opening| {
            words(out, &[u64::from(opening.epoch) | u64::from(opening.number) << 32, opening.from.0])
        });
        bodies
    }

    /// Adds one CheckpointData body.
    pub fn decode_into(&mut self, body: &[u8]) -> Result<()> {
        let bad = || Error::corrupt("a checkpoint record cannot be read");
        let (kind, rest) = body.split_first().ok_or_else(bad)?;
        let entries = |width: usize| -> Result<std::slice::ChunksExact<'_, u8>> {
            if rest.len() % (width * 8) != 0 { Err(bad()) } else { Ok(rest.chunks_exact(width * 8)) }
        };
        let word = |c: &[u8], i: usize| {
            let mut b = [0u8; 8];
            b.copy_from_slice(&c[i * 8..i * 8 + 8]);
            u64::from_le_bytes(b)
        };
        match kind {
            1 => {
                if rest.len() != 20 {
                    return Err(bad());
                }
                self.next_id = TxId(word(rest, 0));
                self.high_water = word(rest, 1);
                self.next_object = u32::from_le_bytes([rest[16], rest[17], rest[18], rest[19]]);
            }
            2 => self.active.extend(entries(2)?.map(|c| (TxId(word(c, 0)), TxId(word(c, 1))))),
            3 => self.aborted.insert_all(&TxIdSet::decode(rest)?),
            4 | 12 => self.dirty.extend(entries(3)?.map(|c| DirtyPage {
                page: PageId(word(c, 0)),
                rec_lsn: Lsn(word(c, 1)),
                last_lsn: Lsn(word(c, 2)),
                aside: *kind == 12,
            })),
            5 => self.undo.extend(
                entries(3)?.map(|c| (TxId(word(c, 0)), UndoChain { first: Lsn(word(c, 1)), last: Lsn(word(c, 2)) })),
            ),
            7 => self.undo_subs.extend(entries(3)?.map(|c| (TxId(word(c, 0)), TxId(word(c, 1)), TxId(word(c, 2))))),
            6 => self.aborted_details.extend(entries(4)?.map(|c| AbortedTx {
                id: TxId(word(c, 0)),
                lsn: Lsn(word(c, 1)),
                aborted_us: word(c, 2) as i64,
                began_us: word(c, 3) as i64,
            })),
            8 => {
                self.version_high_water =
                    entries(1)?.map(|c| PageId(word(c, 0))).max().unwrap_or_default().max(self.version_high_water);
            }
            9 => {
                let (ids, head) = rest.split_at_checked(16).ok_or_else(bad)?;
                let head = PreparedHead::parse(head).ok_or_else(bad)?;
                self.prepared.push((TxId(word(ids, 0)), Lsn(word(ids, 1)), head));
            }
            10 => {
                self.prepared_subs.extend(entries(3)?.map(|c| (TxId(word(c, 0)), TxId(word(c, 1)), TxId(word(c, 2)))));
            }
            11 => {
                for c in entries(2)? {
                    let (object, mode) = (word(c, 1) as u32, u8::try_from(word(c, 1) >> 32).unwrap_or(0));
                    self.prepared_objects.push((TxId(word(c, 0)), ObjectId(object), lock_of(mode).ok_or_else(bad)?));
                }
            }
            13 => self.identity = Some(Identity::decode(rest)?),
            14 => self.version_store = Some(decode_version_store(rest)?),
            15 => self.openings.extend(entries(2)?.map(|c| Opening {
                epoch: word(c, 0) as u32,
                number: (word(c, 0) >> 32) as u32,
                from: Lsn(word(c, 1)),
            })),
            _ => return Err(bad()),
        }
        Ok(())
    }

    /// Adds a transaction in doubt.
    pub fn add_prepared(&mut self, tx: &PreparedTx) {
        self.prepared.push((tx.id, tx.lsn, tx.head.clone()));
        self.prepared_subs.extend(tx.subs.iter().map(|(first, last)| (tx.id, *first, *last)));
        self.prepared_objects.extend(tx.objects.iter().map(|(object, mode)| (tx.id, *object, *mode)));
    }
}

fn words(out: &mut Vec<u8>, values: &[u64]) {
    for value in values {
        out.extend_from_slice(&value.to_le_bytes());
    }
}

fn chunked<T>(bodies: &mut Vec<Vec<u8>>, kind: u8, all: &[T], put: impl Fn(&mut Vec<u8>, &T)) {
    for chunk in all.chunks(CHUNK) {
        let mut body = vec![kind];
        for item in chunk {
            put(&mut body, item);
        }
        bodies.push(body);
    }
}

/// Takes a checkpoint and makes it durable. Returns the begin block's LSN, for the control
/// file, and the position up to which the log is no longer needed, for redo or for undo.
/// `prepared` gives the transactions in doubt; see the module on when it is asked. `identity` and
/// `version_store` are what no other record holds, as it is from this checkpoint on.
pub fn take_checkpoint(
    log: &Log,
    pool: &BufferPool,
    txs: &TxManager,
    next_object: impl FnOnce() -> u32,
    prepared: impl FnOnce() -> Vec<Arc<PreparedTx>>,
    identity: Identity,
    version_store: Option<VersionRecord>,
) -> Result<(Lsn, Lsn)> {
    pool.note_space_ends()?;
    let mut group = Group::default();
    group.record(RecordKind::CheckpointBegin, TxId::NONE, Lsn::NONE, &[]);
    let begin: Appended = log.append_at_block_start(&group)?;

    let _decided = txs.decided(); // passes through the commit mutex, see above
    let in_doubt = prepared();
    let (active, _) = txs.active();
    let (high_water, version_high_water) = pool.space_ends()?;
    let mut state = CheckpointState {
        high_water,
        version_high_water,
        next_object: next_object(),
        identity: Some(identity),
        version_store,
        openings: pool.openings().list().to_vec(),
        ..CheckpointState::default()
    };
    for tx in active {
        if matches!(txs.status(tx.id), Status::Committed(_)) {
            continue;
        }
        state.active.push((tx.id, tx.id));
        state.active.extend(tx.subs());
        // Whoever appends an undo record holds the chain: what is in the log before the begin
        // record is in it.
        let chain = *tx.undo.lock();
        if chain.first.is_some() {
            state.undo.push((tx.id, chain));
            state.undo_subs.extend(tx.subs().into_iter().map(|(first, last)| (tx.id, first, last)));
        }
    }
    // Listed as active as well: analysis takes them out of those that the crash cut off.
    for tx in in_doubt {
        if !matches!(txs.status(tx.id), Status::Committed(_)) {
            state.add_prepared(&tx);
        }
    }
    state.aborted = txs.status_table().aborted().ids();
    // Read last: sub-transactions get their ids without the list's lock, and every id that was
    // listed above must be below it, or it would be given out again after a crash.
    state.next_id = txs.next_id();
    state.aborted_details = txs.status_table().aborted().newest(DETAILS_SAVED);
    // What is behind an end was given out after that was asked for, and its records make it from nothing behind the begin record; or
    // it was no more before the begin record, and nobody is to look for its records (`buffer/src/give_back.rs`). What was taken off the
    // end since may have records behind the begin, and counts.
    let is_in_use = |page: PageId| match page.file() {
        0 => page.0 < high_water,
        file => file != version_high_water.file() || page < version_high_water,
    };
    state.dirty = pool.dirty_pages();
    state.dirty.retain(|of| is_in_use(of.page));
    let appended = append_state(log, &begin, &state)?;
    log.flush(appended.end)?;
    // What is not in the list is protected by the double-write area, but for these.
    pool.sync_fresh_pages()?;
    let dirty = state.dirty.iter().filter(|d| !d.aside).map(|d| d.rec_lsn);
    let undo = state.undo.iter().map(|(_, chain)| chain.first);
    let oldest = dirty.chain(undo).min().unwrap_or(begin.block);
    Ok((begin.block, oldest.min(begin.block)))
}

/// Appends a checkpoint of a state that nothing changes meanwhile, and makes it durable: the first one of a log that
/// begins with what another one's analysis has found. Returns its begin block's LSN.
///
/// # Errors
/// Those of writing the log.
pub fn append_checkpoint(log: &Log, state: &CheckpointState) -> Result<Lsn> {
    let mut group = Group::default();
    group.record(RecordKind::CheckpointBegin, TxId::NONE, Lsn::NONE, &[]);
    let begin: Appended = log.append_at_block_start(&group)?;
    let appended = append_state(log, &begin, state)?;
    log.flush(appended.end)?;
    Ok(begin.block)
}

/// The records behind that of the begin.
fn append_state(log: &Log, begin: &Appended, state: &CheckpointState) -> Result<Appended> {
    let mut group = Group::default();
    let bodies = state.encode();
    let count = bodies.len() as u32;
    for body in &bodies {
        group.clear();
        group.record(RecordKind::CheckpointData, TxId::NONE, Lsn::NONE, body);
        log.append(&group)?;
    }
    group.clear();
    let mut end = begin.block.0.to_le_bytes().to_vec();
    end.extend_from_slice(&count.to_le_bytes());
    group.record(RecordKind::CheckpointEnd, TxId::NONE, Lsn::NONE, &end);
    log.append(&group)
}

#[cfg(test)]
mod tests {
    use resurgam_page::boot::Boot;

    use super::*;
    use crate::identity::Parent;

    #[test]
    fn state_round_trip() -> Result<()> {
        let state = CheckpointState {
            next_id: TxId(99),
            high_water: 1234,
            version_high_water: PageId::of_file(1, 77),
            next_object: 7,
            active: (1..5000).map(|i| (TxId(i), TxId(i))).collect(),
            undo: (1..300).map(|i| (TxId(i), UndoChain { first: Lsn(i), last: Lsn(i * 7) })).collect(),
            undo_subs: (1..3000).map(|i| (TxId(i / 10), TxId(i), TxId(i + 1))).collect(),
            // Dense, then every tenth of two million, then a lonely one.
            aborted: (1..3000).chain((1..200_000).map(|i| 5000 + i * 10)).chain([1 << 50]).map(TxId).collect(),
            aborted_details: (1..3000)
                .map(|i| AbortedTx { id: TxId(i), lsn: Lsn(i * 2), aborted_us: -1, began_us: i as i64 })
                .collect(),
            dirty: (1..9000)
                .map(|i| DirtyPage { page: PageId(i), rec_lsn: Lsn(i), last_lsn: Lsn(i + 1), aside: i > 8990 })
                .collect(),
            prepared: (1..20)
                .map(|i| {
                    let gid = format!("transfer {i}");
                    let head = PreparedHead { gid, owner: "o".into(), database: "d".into(), ..PreparedHead::default() };
                    (TxId(i), Lsn(i * 3), PreparedHead { definitions: i % 2 == 0, time_us: -7, ..head })
                })
                .collect(),
            prepared_subs: (1..3000).map(|i| (TxId(i / 10), TxId(i), TxId(i + 1))).collect(),
            prepared_objects: (1..3000)
                .map(|i| {
                    (
                        TxId(3),
                        ObjectId(i),
                        if i < 9 { Lock::ROWS } else { Lock::by_name(resurgam_txn::LockMode::Share) },
                    )
                })
                .collect(),
            identity: Some(Identity {
                boot: Boot { catalog_root: PageId(3), ..Boot::new(*b"0123456789abcdef", -5) },
                epoch: 9,
                segment_bytes: 1 << 24,
                traditional: true,
                parent: Some(Parent { database_id: [8; 16], cut: Lsn(77), made_us: -6 }),
            }),
            version_store: Some(VersionRecord { number: 2, path: Some("/disk2/versions".into()) }),
            openings: (1..2000)
                .map(|i| Opening { epoch: i, number: u32::MAX - i, from: Lsn(u64::from(i) << 40) })
                .collect(),
        };
        let mut back = CheckpointState::default();
        for body in state.encode() {
            assert!(body.len() < 60_000, "a checkpoint record stays small");
            back.decode_into(&body)?;
            assert!(CheckpointState::default().decode_into(&body[..body.len() - 1]).is_err() || body.len() == 2);
        }
        assert_eq!(back, state);
        Ok(())
    }

    #[test]
    fn a_set_of_ids_that_cannot_be_read() {
        let mut state = CheckpointState::default();
        for body in [
            &[3u8][..],
            &[3, 1],
            &[3, 0xFF, 0xFF],
            &[3, 0, 1, 0, 0xFF, 0xFF, 0xFF],
            &[6, 1],
            &[9, 1],
            &[10, 1],
            &[13],
            &[14, 1],
            &[15, 1],
            &[16],
        ] {
            assert!(state.decode_into(body).is_err_and(|e| e.kind() == resurgam_base::ErrorKind::Corrupt));
        }
        assert_eq!(state, CheckpointState::default());
    }
}
