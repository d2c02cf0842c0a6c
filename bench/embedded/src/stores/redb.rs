//! redb: a copy-on-write B-tree in Rust.

use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, ReadableTableMetadata, TableDefinition};

use crate::store::{Commit, Each, Of, Outcome, Reader, Store, Writer};

type Def = TableDefinition<'static, &'static [u8], &'static [u8]>;
const MAIN: Def = TableDefinition::new("main");
const SORTED: Def = TableDefinition::new("sorted");

fn table(of: Of) -> Def {
    match of {
        Of::Main => MAIN,
        Of::Sorted => SORTED,
    }
}

struct Redb(Database);

pub fn open(dir: &Path, cache: usize) -> Outcome<Box<dyn Store>> {
    let db = Database::builder().set_cache_size(cache).create(dir.join("redb"))?;
    let tx = db.begin_write()?;
    tx.open_table(MAIN)?;
    tx.open_table(SORTED)?;
    tx.commit()?;
    Ok(Box::new(Redb(db)))
}

impl Store for Redb {
    fn write(&self, of: Of, commit: Commit, work: &mut dyn FnMut(&mut dyn Writer) -> Outcome<()>) -> Outcome<()> {
        let mut tx = self.0.begin_write()?;
        if commit == Commit::Later {
            tx.set_durability(Durability::None)?;
        }
        {
            let mut writing = Writing(tx.open_table(table(of))?);
            work(&mut writing)?;
        }
        Ok(tx.commit()?)
    }
    fn read(&self, of: Of, work: &mut dyn FnMut(&mut dyn Reader) -> Outcome<()>) -> Outcome<()> {
        let tx = self.0.begin_read()?;
        work(&mut Reading(tx.open_table(table(of))?))
    }
    fn compact(&mut self) -> Outcome<bool> {
        self.0.compact()?;
        Ok(true)
    }
}

struct Writing<'t>(redb::Table<'t, &'static [u8], &'static [u8]>);

impl Writer for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.0.insert(key, value)?;
        Ok(())
    }
    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        Ok(self.0.remove(key)?.is_some())
    }
    fn pop_first(&mut self) -> Outcome<bool> {
        Ok(self.0.pop_first()?.is_some())
    }
    fn retain(&mut self, keep: &dyn Fn(&[u8]) -> bool) -> Outcome<u64> {
        let before = self.0.len()?;
        self.0.retain(|key, _| keep(key))?;
        Ok(before - self.0.len()?)
    }
}

struct Reading(redb::ReadOnlyTable<&'static [u8], &'static [u8]>);

impl Reader for Reading {
    fn get(&mut self, key: &[u8], each: Each<'_>) -> Outcome<bool> {
        let Some(value) = self.0.get(key)? else { return Ok(false) };
        each(key, value.value());
        Ok(true)
    }
    fn range(&mut self, from: &[u8], most: usize, each: Each<'_>) -> Outcome<usize> {
        let mut rows = 0;
        for row in self.0.range(from..)?.take(most) {
            let (key, value) = row?;
            each(key.value(), value.value());
            rows += 1;
        }
        Ok(rows)
    }
    fn scan(&mut self, each: Each<'_>) -> Outcome<u64> {
        let mut rows = 0;
        for row in self.0.iter()? {
            let (key, value) = row?;
            each(key.value(), value.value());
            rows += 1;
        }
        Ok(rows)
    }
    fn count(&mut self) -> Outcome<u64> {
        Ok(self.0.len()?)
    }
}
