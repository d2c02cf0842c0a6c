//! Filling a tree that nobody else writes with many rows: gathered, sorted, and written leaf by leaf.
//!
//! Rows are kept until there are some megabytes of them. Where they come in the order of their keys they are then written, each leaf filled
//! behind the one before it by one record of the log, and none split in its middle (`btree/src/split.rs`). Where they do not, they are sorted and
//! put aside as a run (`runs.rs`), and all runs are merged at the end: so each leaf is filled once, however many rows there are and in
//! whatever order. They carry no versions, as `build.rs` says.
//!
//! # Invariants
//! 1. Once rows were put aside all that follow are, so that of two rows with one key the one that was taken first is the one that is in.
//! 2. No row is refused before [`Fill::finish`]: what is written at once is behind all that was written.
//! 3. Memory is bounded by what is gathered, which is given up before all runs are merged in the end (`runs.rs` says what that takes).

use std::sync::Arc;
use std::sync::atomic::Ordering;

use resurgam_base::limits::RECORD_BYTES_MAX;
use resurgam_base::{Error, PageId, Result, memory};
use resurgam_btree::Tree;
use resurgam_buffer::Mtr;
use resurgam_page::{LeafBuilder, LeafRecord, leaf, op};

use crate::database::Database;
use crate::key_sort::{self, Entry};
use crate::progress::{Build, BuildPhase, Steps};
use crate::runs::{Merge, RUNS_MAX, Runs};
use crate::sort_files::{self, SortFiles};
use crate::transaction::Transaction;

/// Bytes of rows that are gathered of all trees that are filled at once, …
const GATHERED: usize = 16 << 20;
/// … and of each of many at least.
const GATHERED_MIN: usize = 2 << 20;
/// Bytes of rows that are merged before they are written.
const MERGED: usize = 1 << 20;
/// Leaves that are filled between two looks at whether to stop.
const LEAVES_UNASKED: usize = 64;

/// See the module.
pub(crate) struct Fill {
    db: Database,
    tree: Tree,
    /// Who makes its files, if the engine does not.
    files: Option<Arc<dyn SortFiles>>,
    /// Where the build is that it is a part of.
    steps: Steps,
    /// Records as they are on a leaf.
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    /// So many bytes are enough.
    gathered: usize,
    ascending: bool,
    /// The greatest key that was written, if any was.
    written: Option<Vec<u8>>,
    /// What was put aside, by level: what is in a later one was taken earlier.
    aside: Vec<Runs>,
    hint: Option<PageId>,
}

/// A row that was not put in since there is one with its key: key and value.
pub(crate) type Refused = (Vec<u8>, Vec<u8>);

impl Fill {
    /// One of so many that `build` fills at once.
    pub fn new(tx: &Transaction, build: &Build, tree: Tree, of: usize) -> Self {
        let db = &tx.0.db;
        let gathered = match db.inner().options.build_bytes {
            0 => (GATHERED / of).max(GATHERED_MIN),
            bytes => bytes,
        };
        Self {
            db: db.clone(),
            tree,
            files: tx.sort_files(),
            steps: build.steps(),
            bytes: Vec::new(),
            entries: Vec::new(),
            gathered,
            ascending: true,
            written: None,
            aside: Vec::new(),
            hint: None,
        }
    }

    fn record(&self, entry: Entry) -> &[u8] {
        &self.bytes[entry.at()..entry.at() + entry.len()]
    }
    fn key(&self, entry: Entry) -> &[u8] {
        leaf::key_of(self.record(entry))
    }

    /// Takes a row. True: it is time to [`Fill::write`].
    pub fn add(&mut self, key: &[u8], value: &[u8]) -> Result<bool> {
        memory::aside(|| {
            let at = self.bytes.len();
            let most = self.gathered + RECORD_BYTES_MAX;
            if self.bytes.capacity() < most && at >= self.gathered / 8 {
                // Many: from here on there is room for all, and not for twice as many.
                self.bytes.reserve_exact(most - at);
            }
            LeafBuilder::plain(key, value).encode_into(&mut self.bytes)?;
            let entry = Entry::new(at, self.bytes.len() - at);
            self.ascending &= self.entries.last().is_none_or(|last| self.key(*last) < key);
            self.entries.push(entry);
            Ok(self.bytes.len() >= self.gathered)
        })
    }

    /// Writes what was taken, if it goes on where what was written ends, or puts it aside. `ask` is asked now and then whether to go on.
    ///
    /// # Errors
    /// Those of writing, and those of `ask`.
    pub fn write(&mut self, ask: &dyn Fn() -> Result<()>) -> Result<()> {
        let (Some(&first), Some(&last)) = (self.entries.first(), self.entries.last()) else { return Ok(()) };
        let follows = self.written.as_deref().is_none_or(|written| written < self.key(first));
        if !self.aside.is_empty() || !self.ascending || !follows {
            return memory::aside(|| self.put_aside(ask));
        }
        let last = self.key(last).to_vec();
        if self.write_gathered(ask)?.is_some() {
            return Err(Error::internal("a tree that is filled in order has a row already that comes next"));
        }
        self.written = Some(last);
        Ok(())
    }

    /// Writes all that was taken. Nothing more may be. Of a row that is refused those behind it are not written.
    ///
    /// # Errors
    /// As [`Fill::write`].
    pub fn finish(&mut self, ask: &dyn Fn() -> Result<()>) -> Result<Option<Refused>> {
        if self.aside.is_empty() {
            if !self.ascending {
                self.sort();
            }
            return self.write_gathered(ask);
        }
        let mut merge = memory::aside(|| {
            self.put_aside(ask)?;
            (self.bytes, self.entries) = Default::default();
            Merge::of(self.aside.iter().rev())
        })?;
        let refused = self.write_merged(&mut merge, ask);
        memory::aside(|| {
            self.aside.clear();
            drop(merge);
        });
        refused
    }

    fn write_merged(&mut self, merge: &mut Merge, ask: &dyn Fn() -> Result<()>) -> Result<Option<Refused>> {
        self.steps.begin(BuildPhase::Writing, merge.left());
        loop {
            memory::aside(|| {
                self.bytes.clear();
                self.entries.clear();
                loop {
                    let at = self.bytes.len();
                    if at >= MERGED || !merge.next(&mut self.bytes)? {
                        return Ok::<_, Error>(());
                    }
                    self.entries.push(Entry::new(at, self.bytes.len() - at));
                }
            })?;
            if self.entries.is_empty() {
                return Ok(None);
            }
            let records = self.entries.len() as u64;
            if let Some(refused) = self.write_gathered(ask)? {
                return Ok(Some(refused));
            }
            self.steps.advance(records);
        }
    }

    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        key_sort::sort(&mut entries, |entry| self.key(entry));
        self.entries = entries;
    }

    /// Puts what is gathered aside.
    fn put_aside(&mut self, ask: &dyn Fn() -> Result<()>) -> Result<()> {
        ask()?;
        if !self.ascending {
            self.sort();
        }
        // From the last level that is full on: what is merged goes behind what is older.
        let full = self.aside.iter().take_while(|runs| runs.len() >= RUNS_MAX).count();
        for level in (0..full).rev() {
            let new = self.new_runs()?;
            if level + 1 == self.aside.len() {
                self.aside.push(self.new_runs()?);
            }
            let (below, above) = self.aside.split_at_mut(level + 1);
            let before = self.steps.begin(BuildPhase::Sorting, below[level].records());
            let went = |records| {
                self.steps.advance(records);
                ask()
            };
            below[level].merge_into(&mut above[0], &went)?;
            self.steps.go_back_to(before);
            below[level] = new;
        }
        if self.aside.is_empty() {
            let new = self.new_runs()?;
            self.aside.push(new);
        }
        let (bytes, entries) = (&self.bytes, &self.entries);
        self.aside[0].push(entries.iter().map(|entry| &bytes[entry.at()..entry.at() + entry.len()]))?;
        self.taken();
        Ok(())
    }

    fn new_runs(&self) -> Result<Runs> {
        let inner = self.db.inner();
        let number = inner.sort_files.fetch_add(1, Ordering::Relaxed);
        if let Some(files) = &self.files {
            return Ok(Runs::new(files.create()?, number));
        }
        // In this order: where the device is being replaced, the new one is not asked for what is on the old one.
        let vfs = inner.data_vfs();
        let folder = inner.data_dir.lock().clone();
        Ok(Runs::new(sort_files::in_data_folder(&*vfs, &folder, number)?, number))
    }

    /// What was gathered is somewhere else by now.
    fn taken(&mut self) {
        self.bytes.clear();
        self.entries.clear();
        self.ascending = true;
    }

    /// Writes what is gathered, in order.
    fn write_gathered(&mut self, ask: &dyn Fn() -> Result<()>) -> Result<Option<Refused>> {
        let entries = std::mem::take(&mut self.entries);
        let refused = self.write_sorted(&entries, ask)?;
        self.entries = entries;
        self.taken();
        Ok(refused)
    }

    fn write_sorted(&mut self, entries: &[Entry], ask: &dyn Fn() -> Result<()>) -> Result<Option<Refused>> {
        let db = self.db.clone();
        let pool = &db.inner().pool;
        let (mut rest, mut leaves) = (entries, 0usize);
        while let Some(&first) = rest.first() {
            leaves += 1;
            if leaves.is_multiple_of(LEAVES_UNASKED) {
                ask()?;
            }
            let key = self.key(first);
            let (page, found) = self.tree.find_to_write(pool, key, self.hint)?;
            let id = page.id();
            let Err(slot) = found else { return self.refuse(first).map(Some) };
            // Room for versions, as ascending inserts leave it.
            let reserve = if first.len() < 800 { 800 } else { 0 };
            let end = if slot.0 < page.slot_count() { Some(leaf::key_of(page.rec(slot))) } else { page.upper_fence() };
            let mut room = page.free_total().saturating_sub(reserve);
            let mut before: Option<&[u8]> = None;
            let mut taken = 0;
            for &entry in rest {
                let key = self.key(entry);
                if before.is_some_and(|before| key <= before) || end.is_some_and(|end| key >= end) {
                    break;
                }
                let Some(left) = room.checked_sub(entry.len() + 4) else { break };
                (room, before) = (left, Some(key));
                taken += 1;
            }
            if taken == 0 {
                drop(page);
                let room = self.tree.make_room(pool, key, first.len() + reserve)?;
                self.hint = Some(room);
                continue;
            }
            let mut mtr = Mtr::new(pool);
            let at = mtr.add(page);
            op::insert_many(mtr.ops(at), slot, rest[..taken].iter().map(|entry| self.record(*entry)));
            mtr.commit()?;
            self.hint = Some(id);
            rest = &rest[taken..];
        }
        Ok(None)
    }

    fn refuse(&self, entry: Entry) -> Result<Refused> {
        let record = LeafRecord::parse(self.record(entry))?;
        Ok((record.key.to_vec(), record.value.to_vec()))
    }
}
