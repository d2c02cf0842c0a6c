//! LMDB, through heed: a copy-on-write B-tree over a memory map. Its cache is the system's and has no bound of its own.

use std::ops::Bound;
use std::path::{Path, PathBuf};

use heed::types::Bytes;
use heed::{CompactionOption, Database, Env, EnvFlags, EnvOpenOptions, RoTxn, RwTxn};

use crate::store::{Commit, Each, Of, Outcome, Reader, Store, Writer};

/// Address space only.
const MAP: usize = 64 << 30;

type Table = Database<Bytes, Bytes>;

struct Lmdb {
    env: Env,
    dir: PathBuf,
    main: Table,
    sorted: Table,
}

fn environment(dir: &Path) -> Outcome<(Env, Table, Table)> {
    let mut options = EnvOpenOptions::new();
    options.map_size(MAP).max_dbs(2);
    // SAFETY: nobody else has the file, which is ours and new, open or changes it. Without read-ahead: as its
    // documentation recommends for random reads.
    let env = unsafe {
        options.flags(EnvFlags::NO_READ_AHEAD);
        options.open(dir)?
    };
    let mut tx = env.write_txn()?;
    let (main, sorted) = (env.create_database(&mut tx, Some("main"))?, env.create_database(&mut tx, Some("sorted"))?);
    tx.commit()?;
    Ok((env, main, sorted))
}

pub fn open(dir: &Path, _cache: usize) -> Outcome<Box<dyn Store>> {
    let dir = dir.join("lmdb");
    std::fs::create_dir_all(&dir)?;
    let (env, main, sorted) = environment(&dir)?;
    Ok(Box::new(Lmdb { env, dir, main, sorted }))
}

impl Lmdb {
    fn table(&self, of: Of) -> Table {
        match of {
            Of::Main => self.main,
            Of::Sorted => self.sorted,
        }
    }
}

impl Store for Lmdb {
    fn write(&self, of: Of, commit: Commit, work: &mut dyn FnMut(&mut dyn Writer) -> Outcome<()>) -> Outcome<()> {
        let flags = |on| {
            let mode = if on { heed::FlagSetMode::Enable } else { heed::FlagSetMode::Disable };
            // SAFETY: without a sync a crash may lose or break this file, which is a measurement's.
            unsafe { self.env.set_flags(EnvFlags::NO_SYNC | EnvFlags::NO_META_SYNC, mode) }
        };
        if commit == Commit::Later {
            flags(true)?;
        }
        let tx = self.env.write_txn()?;
        let mut writing = Writing { tx, table: self.table(of) };
        work(&mut writing)?;
        writing.tx.commit()?;
        if commit == Commit::Later {
            flags(false)?;
        }
        Ok(())
    }
    fn read(&self, of: Of, work: &mut dyn FnMut(&mut dyn Reader) -> Outcome<()>) -> Outcome<()> {
        let tx = self.env.read_txn()?;
        work(&mut Reading { tx: &tx, table: self.table(of) })
    }
    fn compact(&mut self) -> Outcome<bool> {
        let to = self.dir.with_extension("compact");
        std::fs::create_dir_all(&to)?;
        self.env.copy_to_path(to.join("data.mdb"), CompactionOption::Enabled)?;
        let from = std::mem::replace(&mut self.dir, to);
        let (env, main, sorted) = environment(&self.dir)?;
        (self.main, self.sorted) = (main, sorted);
        std::mem::replace(&mut self.env, env).prepare_for_closing().wait();
        std::fs::remove_dir_all(from)?;
        Ok(true)
    }
}

struct Writing<'e> {
    tx: RwTxn<'e>,
    table: Table,
}

impl Writer for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        Ok(self.table.put(&mut self.tx, key, value)?)
    }
    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        Ok(self.table.delete(&mut self.tx, key)?)
    }
    fn pop_first(&mut self) -> Outcome<bool> {
        let mut rows = self.table.iter_mut(&mut self.tx)?;
        if rows.next().transpose()?.is_none() {
            return Ok(false);
        }
        // SAFETY: nothing that was read of the row is kept.
        Ok(unsafe { rows.del_current()? })
    }
    fn retain(&mut self, keep: &dyn Fn(&[u8]) -> bool) -> Outcome<u64> {
        let mut rows = self.table.iter_mut(&mut self.tx)?;
        let mut removed = 0;
        while let Some(row) = rows.next() {
            if !keep(row?.0) {
                // SAFETY: as above.
                unsafe { rows.del_current()? };
                removed += 1;
            }
        }
        Ok(removed)
    }
}

struct Reading<'e> {
    tx: &'e RoTxn<'e>,
    table: Table,
}

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], each: Each<'_>) -> Outcome<bool> {
        let Some(value) = self.table.get(self.tx, key)? else { return Ok(false) };
        each(key, value);
        Ok(true)
    }
    fn range(&mut self, from: &[u8], most: usize, each: Each<'_>) -> Outcome<usize> {
        let mut rows = 0;
        let range: (Bound<&[u8]>, Bound<&[u8]>) = (Bound::Included(from), Bound::Unbounded);
        for row in self.table.range(self.tx, &range)?.take(most) {
            let (key, value) = row?;
            each(key, value);
            rows += 1;
        }
        Ok(rows)
    }
    fn scan(&mut self, each: Each<'_>) -> Outcome<u64> {
        let mut rows = 0;
        for row in self.table.iter(self.tx)? {
            let (key, value) = row?;
            each(key, value);
            rows += 1;
        }
        Ok(rows)
    }
    fn count(&mut self) -> Outcome<u64> {
        Ok(self.table.len(self.tx)?)
    }
}
