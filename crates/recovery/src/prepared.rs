//! Prepared (in-doubt) transactions in the log: what a PREPARE record and a checkpoint say of
//! one (Constant Time Recovery, section 3.5).
//!
//! Nothing here is per row: a row is locked by carrying the id of a transaction that is active.
//! What has to be written down is who that is, its sub-transactions' ids, and its table locks.
//!
//! ```text
//! PREPARE, in the transaction's name; body: part u8, then
//! 1 sub-transactions   first u64, last u64         (inclusive ranges of ids), at most CHUNK
//! 2 objects            object u32, mode u8         (1 = to write rows, 2 = to change it, 3.. = by LOCK,
//!                      the weakest mode first), at most CHUNK
//! 3 in doubt           time i64 | flags u8 (1 = changed definitions, 2 = with the last field)
//!                      | number of sub-transaction ranges u32 | number of objects u32
//!                      | 3 x { length u8, bytes }: the identifier, the owner, the database
//!                      | the next object id u32, above all that it has given out
//! 4 to be rolled back  empty: no longer in doubt (traditional mode, where the undo follows)
//! ```
//!
//! # Invariants
//! 1. A transaction is in doubt once part 3 is in the log, which comes last. Parts before a crash
//!    that has no part 3 mean nothing.
//! 2. A checkpoint has all of a transaction whose part 3 it has, and whose other parts may be
//!    before its begin: see `engine/src/prepared.rs`, whose mutex is held from the first part to
//!    the last and while a checkpoint asks.

use resurgam_base::{Error, Lsn, ObjectId, Result, TxId};
use resurgam_txn::{Lock, LockMode, UndoChain};

use crate::tx_record::TX_ID_MAX;

/// Ranges or objects in one record.
const CHUNK: usize = 2048;
/// Longest identifier of a prepared transaction, in bytes, as in PostgreSQL.
pub const PREPARED_ID_BYTES_MAX: usize = 199;
/// Most ids of sub-transactions that prepared transactions may have, all of them together: after
/// a restart each id takes a word of memory until its transaction is resolved.
pub const PREPARED_SUBS_MAX: u64 = 1 << 26;

const SUBS: u8 = 1;
const OBJECTS: u8 = 2;
const IN_DOUBT: u8 = 3;
const WITHDRAWN: u8 = 4;

/// Flag of part 3: the next object id follows.
const NEXT_OBJECT: u8 = 2;

/// Everything that is known of a transaction in doubt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedTx {
    pub id: TxId,
    /// LSN of part 3 of its PREPARE.
    pub lsn: Lsn,
    pub head: PreparedHead,
    /// Its sub-transactions, aborted ones included: inclusive ranges, ascending.
    pub subs: Vec<(TxId, TxId)>,
    /// Its table locks.
    pub objects: Vec<(ObjectId, Lock)>,
    /// Its undo records (traditional mode). Not in a PREPARE: the log and the checkpoint have it.
    pub chain: UndoChain,
}

/// What identifies it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PreparedHead {
    /// When it was prepared, in microseconds since 2000-01-01 UTC.
    pub time_us: i64,
    /// It has changed definitions.
    pub definitions: bool,
    /// Number of ranges in [`PreparedTx::subs`].
    pub subs: u32,
    /// Number of [`PreparedTx::objects`].
    pub objects: u32,
    /// The identifier that its client gave it.
    pub gid: String,
    /// Who prepared it.
    pub owner: String,
    /// In which database.
    pub database: String,
    /// Above all ids of objects that it has given out; 0: not said. Those of what has no tree are in definitions only, which nobody
    /// sees until it commits, and must not be given to others meanwhile.
    pub next_object: u32,
}

/// A decoded PREPARE record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PrepareRecord {
    Subs(Vec<(TxId, TxId)>),
    Objects(Vec<(ObjectId, Lock)>),
    InDoubt(PreparedHead),
    Withdrawn,
}

impl PreparedTx {
    /// The bodies of its PREPARE records, part 3 last.
    pub fn encode(&self) -> Vec<Vec<u8>> {
        let subs = self.subs.chunks(CHUNK).map(|chunk| PrepareRecord::Subs(chunk.to_vec()).encode());
        let objects = self.objects.chunks(CHUNK).map(|chunk| PrepareRecord::Objects(chunk.to_vec()).encode());
        subs.chain(objects).chain([PrepareRecord::InDoubt(self.head.clone()).encode()]).collect()
    }

    /// How many ids its sub-transactions have.
    pub fn sub_ids(&self) -> u64 {
        let count = |(first, last): &(TxId, TxId)| last.0.saturating_sub(first.0).saturating_add(1);
        self.subs.iter().map(count).fold(0, u64::saturating_add)
    }

    /// Adds what a record or a checkpoint says; it may say what is known already.
    pub(crate) fn add(&mut self, record: PrepareRecord) {
        match record {
            PrepareRecord::Subs(subs) => self.subs.extend(subs),
            PrepareRecord::Objects(objects) => self.objects.extend(objects),
            PrepareRecord::InDoubt(head) => self.head = head,
            PrepareRecord::Withdrawn => {}
        }
    }

    /// Sorts out what was added, and checks that it is all and is possible.
    ///
    /// # Errors
    /// `Corrupt`.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.subs.sort_unstable();
        self.subs.dedup();
        self.objects.sort_unstable();
        self.objects.dedup();
        let bad = |what: &str| Error::corrupt(format!("the prepared transaction {}: {what}", self.id));
        if self.id.is_none() || self.id > TX_ID_MAX {
            return Err(bad("its id is impossible"));
        }
        if self.subs.len() != self.head.subs as usize || self.objects.len() != self.head.objects as usize {
            return Err(bad("a part of its PREPARE is missing"));
        }
        let mut after = self.id;
        for (first, last) in &self.subs {
            if *first <= after || last < first || *last > TX_ID_MAX {
                return Err(bad("the ids of its sub-transactions are impossible"));
            }
            after = *last;
        }
        if self.sub_ids() > PREPARED_SUBS_MAX {
            return Err(bad("it has more sub-transactions than there can be"));
        }
        Ok(())
    }
}

impl PrepareRecord {
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Subs(subs) => {
                let mut out = vec![SUBS];
                for (first, last) in subs {
                    out.extend_from_slice(&first.0.to_le_bytes());
                    out.extend_from_slice(&last.0.to_le_bytes());
                }
                out
            }
            Self::Objects(objects) => {
                let mut out = vec![OBJECTS];
                for (object, mode) in objects {
                    out.extend_from_slice(&object.0.to_le_bytes());
                    out.push(lock_code(*mode));
                }
                out
            }
            Self::InDoubt(head) => {
                let mut out = vec![IN_DOUBT];
                head.encode_into(&mut out);
                out
            }
            Self::Withdrawn => vec![WITHDRAWN],
        }
    }

    /// Reads a body.
    ///
    /// # Errors
    /// `Corrupt`.
    pub fn decode(body: &[u8]) -> Result<Self> {
        Self::parse(body).ok_or_else(|| Error::corrupt("a PREPARE record cannot be read"))
    }

    fn parse(body: &[u8]) -> Option<Self> {
        let (part, rest) = body.split_first()?;
        match *part {
            SUBS => {
                let (ranges, left) = rest.as_chunks::<16>();
                let ranges: Option<Vec<_>> = ranges.iter().map(|c| range(&c[..8], &c[8..])).collect();
                left.is_empty().then_some(Self::Subs(ranges?))
            }
            OBJECTS => {
                let (objects, left) = rest.as_chunks::<5>();
                let one = |c: &[u8; 5]| {
                    let object = ObjectId(u32::from_le_bytes([c[0], c[1], c[2], c[3]]));
                    Some((object, lock_of(c[4])?))
                };
                let objects: Option<Vec<_>> = objects.iter().map(one).collect();
                left.is_empty().then_some(Self::Objects(objects?))
            }
            IN_DOUBT => PreparedHead::parse(rest).map(Self::InDoubt),
            WITHDRAWN => rest.is_empty().then_some(Self::Withdrawn),
            _ => None,
        }
    }
}

impl PreparedHead {
    /// Appends it as in part 3 of a PREPARE.
    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.time_us.to_le_bytes());
        out.push(u8::from(self.definitions) | if self.next_object == 0 { 0 } else { NEXT_OBJECT });
        out.extend_from_slice(&self.subs.to_le_bytes());
        out.extend_from_slice(&self.objects.to_le_bytes());
        for text in [&self.gid, &self.owner, &self.database] {
            // The engine refuses longer ones before.
            let mut len = text.len().min(usize::from(u8::MAX));
            while !text.is_char_boundary(len) {
                len -= 1;
            }
            out.push(len as u8);
            out.extend_from_slice(&text.as_bytes()[..len]);
        }
        if self.next_object != 0 {
            out.extend_from_slice(&self.next_object.to_le_bytes());
        }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let (time, rest) = bytes.split_first_chunk::<8>()?;
        let (flags, rest) = rest.split_first()?;
        let (subs, rest) = rest.split_first_chunk::<4>()?;
        let (objects, mut rest) = rest.split_first_chunk::<4>()?;
        let mut text = || {
            let (len, tail) = rest.split_first()?;
            let (text, tail) = tail.split_at_checked(usize::from(*len))?;
            rest = tail;
            std::str::from_utf8(text).ok().map(str::to_owned)
        };
        let (gid, owner, database) = (text()?, text()?, text()?);
        let mut next_object = 0;
        if flags & NEXT_OBJECT != 0 {
            let (next, tail) = rest.split_first_chunk::<4>()?;
            (next_object, rest) = (u32::from_le_bytes(*next), tail);
            if next_object == 0 {
                return None;
            }
        }
        let possible =
            *flags <= 1 | NEXT_OBJECT && rest.is_empty() && !gid.is_empty() && gid.len() <= PREPARED_ID_BYTES_MAX;
        possible.then(|| Self {
            time_us: i64::from_le_bytes(*time),
            definitions: flags & 1 != 0,
            subs: u32::from_le_bytes(*subs),
            objects: u32::from_le_bytes(*objects),
            gid,
            owner,
            database,
            next_object,
        })
    }
}

fn range(first: &[u8], last: &[u8]) -> Option<(TxId, TxId)> {
    let word = |b: &[u8]| b.first_chunk::<8>().map(|b| TxId(u64::from_le_bytes(*b)));
    let (first, last) = (word(first)?, word(last)?);
    (first.is_some() && first <= last).then_some((first, last))
}

/// Code of the weakest mode of a lock by name.
const BY_NAME: u8 = 3;

pub(crate) fn lock_code(lock: Lock) -> u8 {
    match lock {
        Lock::DEFINITION => 2,
        Lock { mode, by_name: true } => BY_NAME + mode as u8,
        Lock { by_name: false, .. } => 1,
    }
}

pub(crate) fn lock_of(code: u8) -> Option<Lock> {
    match code {
        1 => Some(Lock::ROWS),
        2 => Some(Lock::DEFINITION),
        _ => LockMode::ALL.get(usize::from(code.checked_sub(BY_NAME)?)).map(|mode| Lock::by_name(*mode)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> PreparedTx {
        PreparedTx {
            id: TxId(7),
            lsn: Lsn(500),
            head: PreparedHead {
                time_us: -3,
                definitions: true,
                subs: 5000,
                objects: 5000,
                gid: "g".repeat(PREPARED_ID_BYTES_MAX),
                owner: "the owner".into(),
                database: "postgres".into(),
                next_object: 70_000,
            },
            subs: (1..=5000).map(|i| (TxId(7 + i * 10), TxId(9 + i * 10))).collect(),
            objects: (1..=5000).map(|i| (ObjectId(i), lock_of(1 + i as u8 % 10).unwrap_or(Lock::ROWS))).collect(),
            chain: UndoChain::default(),
        }
    }

    #[test]
    fn round_trip_in_small_records() -> Result<()> {
        let tx = sample();
        let mut back = PreparedTx { id: tx.id, lsn: tx.lsn, ..PreparedTx::default() };
        let bodies = tx.encode();
        assert!(bodies.len() > 5);
        // Twice: a checkpoint may say it as well.
        for body in bodies.iter().chain(&bodies) {
            assert!(body.len() < 60_000, "a record stays small");
            back.add(PrepareRecord::decode(body)?);
        }
        back.finish()?;
        assert_eq!(back, tx);
        assert_eq!(PrepareRecord::decode(&PrepareRecord::Withdrawn.encode())?, PrepareRecord::Withdrawn);
        Ok(())
    }

    #[test]
    fn damaged_bodies_are_refused() {
        let tx = sample();
        let head = PrepareRecord::InDoubt(tx.head).encode();
        for len in 0..head.len() {
            assert!(PrepareRecord::decode(&head[..len]).is_err(), "{len} bytes of the head");
        }
        let long = [head.as_slice(), &[0]].concat();
        let mut no_gid = head.clone();
        no_gid[18] = 0;
        let mut flags = head.clone();
        flags[9] = 4;
        let mut text = head;
        text[19] = 0xff;
        let reversed = [&[SUBS][..], &9u64.to_le_bytes(), &8u64.to_le_bytes()].concat();
        let zero = [&[SUBS][..], &[0; 16]].concat();
        let mode = vec![OBJECTS, 1, 0, 0, 0, 11];
        for body in [long, no_gid, flags, text, reversed, zero, mode, vec![], vec![0], vec![5], vec![WITHDRAWN, 0]] {
            assert!(PrepareRecord::decode(&body).is_err(), "{body:?}");
        }
        // Whatever the bytes are, reading them ends, and takes no more memory than they do.
        let mut state = 88172645463325252u64;
        for _ in 0..20_000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let len = (state >> 8) as usize % 64;
            let mut body: Vec<u8> = (0..len).map(|i| (state >> (i % 57)) as u8).collect();
            if let Some(first) = body.first_mut() {
                *first = (state >> 3) as u8 % 6;
            }
            if let Ok(record) = PrepareRecord::decode(&body) {
                assert_eq!(record.encode(), body);
            }
        }
    }

    #[test]
    fn impossible_transactions_are_refused() {
        let refused = |change: &dyn Fn(&mut PreparedTx)| {
            let mut tx = sample();
            change(&mut tx);
            tx.finish().is_err_and(|e| e.kind() == resurgam_base::ErrorKind::Corrupt)
        };
        assert!(!refused(&|_| {}));
        assert!(refused(&|tx| tx.id = TxId::NONE));
        assert!(refused(&|tx| tx.id = TxId(17)), "a sub-transaction is younger than its transaction");
        assert!(refused(&|tx| tx.subs.truncate(4999)));
        assert!(refused(&|tx| tx.objects.truncate(4999)));
        assert!(refused(&|tx| tx.subs[3].1 = tx.subs[4].1), "ranges do not overlap");
        assert!(refused(&|tx| tx.subs[4999].1 = TxId(u64::MAX)), "more than there can be");
        for far in [TX_ID_MAX.0 + 1, u64::MAX] {
            assert!(refused(&|tx| tx.subs[4999] = (TxId(far), TxId(far))), "one id, near the end of what a word holds");
        }
        assert!(refused(&|tx| {
            tx.id = TxId(u64::MAX);
            tx.subs.clear();
            tx.head.subs = 0;
        }));
    }
}
