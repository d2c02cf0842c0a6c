//! fjall: a log-structured merge tree in Rust, with transactions of one writer at a time. Without compression: the values are random.

use std::path::Path;

use fjall::{
    KeyspaceCreateOptions, PersistMode, Readable, SingleWriterTxDatabase, SingleWriterTxKeyspace, SingleWriterWriteTx,
    Snapshot,
};

use crate::store::{Commit, Each, Of, Outcome, Reader, Store, Writer};

struct Fjall {
    db: SingleWriterTxDatabase,
    main: SingleWriterTxKeyspace,
    sorted: SingleWriterTxKeyspace,
}

pub fn open(dir: &Path, cache: usize) -> Outcome<Box<dyn Store>> {
    let db = SingleWriterTxDatabase::builder(dir.join("fjall")).cache_size(cache as u64).open()?;
    let main = db.keyspace("main", KeyspaceCreateOptions::default)?;
    let sorted = db.keyspace("sorted", KeyspaceCreateOptions::default)?;
    Ok(Box::new(Fjall { db, main, sorted }))
}

impl Fjall {
    fn table(&self, of: Of) -> &SingleWriterTxKeyspace {
        match of {
            Of::Main => &self.main,
            Of::Sorted => &self.sorted,
        }
    }
}

impl Store for Fjall {
    fn write(&self, of: Of, commit: Commit, work: &mut dyn FnMut(&mut dyn Writer) -> Outcome<()>) -> Outcome<()> {
        let persist = match commit {
            Commit::Durable => PersistMode::SyncData,
            Commit::Later => PersistMode::Buffer,
        };
        let mut writing = Writing { tx: self.db.write_tx().durability(Some(persist)), table: self.table(of) };
        work(&mut writing)?;
        Ok(writing.tx.commit()?)
    }
    fn read(&self, of: Of, work: &mut dyn FnMut(&mut dyn Reader) -> Outcome<()>) -> Outcome<()> {
        work(&mut Reading { snapshot: self.db.read_tx(), table: self.table(of) })
    }
    fn compact(&mut self) -> Outcome<bool> {
        for table in [&self.main, &self.sorted] {
            table.inner().rotate_memtable_and_wait()?;
            table.inner().major_compact()?;
        }
        Ok(true)
    }
}

struct Writing<'d> {
    tx: SingleWriterWriteTx<'d>,
    table: &'d SingleWriterTxKeyspace,
}

impl Writer for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.tx.insert(self.table, key, value);
        Ok(())
    }
    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        Ok(self.tx.take(self.table, key)?.is_some())
    }
    fn pop_first(&mut self) -> Outcome<bool> {
        let Some(first) = self.tx.first_key_value(self.table) else { return Ok(false) };
        self.tx.remove(self.table, first.key()?);
        Ok(true)
    }
    fn retain(&mut self, keep: &dyn Fn(&[u8]) -> bool) -> Outcome<u64> {
        // What an iteration sees of its transaction's writes is not told: first all that go.
        let mut going = Vec::new();
        for row in self.tx.iter(self.table) {
            let key = row.key()?;
            if !keep(&key) {
                going.push(key);
            }
        }
        let removed = going.len() as u64;
        going.into_iter().for_each(|key| self.tx.remove(self.table, key));
        Ok(removed)
    }
}

struct Reading<'d> {
    snapshot: Snapshot,
    table: &'d SingleWriterTxKeyspace,
}

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], each: Each<'_>) -> Outcome<bool> {
        let Some(value) = self.snapshot.get(self.table, key)? else { return Ok(false) };
        each(key, &value);
        Ok(true)
    }
    fn range(&mut self, from: &[u8], most: usize, each: Each<'_>) -> Outcome<usize> {
        let mut rows = 0;
        for row in self.snapshot.range(self.table, from..).take(most) {
            let (key, value) = row.into_inner()?;
            each(&key, &value);
            rows += 1;
        }
        Ok(rows)
    }
    fn scan(&mut self, each: Each<'_>) -> Outcome<u64> {
        let mut rows = 0;
        for row in self.snapshot.iter(self.table) {
            let (key, value) = row.into_inner()?;
            each(&key, &value);
            rows += 1;
        }
        Ok(rows)
    }
    fn count(&mut self) -> Outcome<u64> {
        Ok(self.snapshot.len(self.table)? as u64)
    }
}
