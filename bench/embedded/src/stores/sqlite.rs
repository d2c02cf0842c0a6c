//! SQLite, through rusqlite: a B-tree with a write-ahead log. Tables WITHOUT ROWID, as its documentation recommends for such rows.

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rusqlite::{CachedStatement, Connection, params};

use crate::store::{Commit, Each, Of, Outcome, Reader, Store, Writer};

struct Sqlite {
    file: PathBuf,
    cache: usize,
    writer: Mutex<Connection>,
    /// Connections of readers that have ended, each with a cache of its own.
    readers: Mutex<Vec<Connection>>,
}

fn connect(file: &Path, cache: usize) -> Outcome<Connection> {
    let connection = Connection::open(file)?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.pragma_update(None, "synchronous", "FULL")?;
    // Negative: in KiB.
    connection.pragma_update(None, "cache_size", -i64::try_from(cache >> 10)?)?;
    Ok(connection)
}

pub fn open(dir: &Path, cache: usize) -> Outcome<Box<dyn Store>> {
    let file = dir.join("sqlite");
    let connection = connect(&file, cache)?;
    for table in [table(Of::Main), table(Of::Sorted)] {
        connection.execute_batch(&format!(
            "CREATE TABLE IF NOT EXISTS {table} (k BLOB PRIMARY KEY, v BLOB NOT NULL) WITHOUT ROWID"
        ))?;
    }
    Ok(Box::new(Sqlite { file, cache, writer: Mutex::new(connection), readers: Mutex::default() }))
}

fn table(of: Of) -> &'static str {
    match of {
        Of::Main => "main_rows",
        Of::Sorted => "sorted_rows",
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Store for Sqlite {
    fn write(&self, of: Of, commit: Commit, work: &mut dyn FnMut(&mut dyn Writer) -> Outcome<()>) -> Outcome<()> {
        let connection = lock(&self.writer);
        if commit == Commit::Later {
            // A commit then waits for nothing; checkpoints still do.
            connection.execute_batch("PRAGMA synchronous = NORMAL")?;
        }
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute(())?;
        work(&mut Writing::of(&connection, table(of))?)?;
        connection.prepare_cached("COMMIT")?.execute(())?;
        if commit == Commit::Later {
            connection.execute_batch("PRAGMA synchronous = FULL")?;
        }
        Ok(())
    }
    fn read(&self, of: Of, work: &mut dyn FnMut(&mut dyn Reader) -> Outcome<()>) -> Outcome<()> {
        let ended = lock(&self.readers).pop();
        let connection = ended.map_or_else(|| connect(&self.file, self.cache), Ok)?;
        connection.prepare_cached("BEGIN")?.execute(())?;
        work(&mut Reading::of(&connection, table(of))?)?;
        connection.prepare_cached("COMMIT")?.execute(())?;
        lock(&self.readers).push(connection);
        Ok(())
    }
    fn compact(&mut self) -> Outcome<bool> {
        lock(&self.readers).clear();
        let connection = lock(&self.writer);
        connection.execute_batch("VACUUM; PRAGMA wal_checkpoint(TRUNCATE)")?;
        Ok(true)
    }
}

struct Writing<'c> {
    connection: &'c Connection,
    table: &'static str,
    put: CachedStatement<'c>,
    remove: CachedStatement<'c>,
    pop: CachedStatement<'c>,
}

impl<'c> Writing<'c> {
    fn of(connection: &'c Connection, table: &'static str) -> Outcome<Self> {
        let prepare = |sql: &str| connection.prepare_cached(sql);
        Ok(Self {
            put: prepare(&format!("INSERT INTO {table} VALUES (?1, ?2)"))?,
            remove: prepare(&format!("DELETE FROM {table} WHERE k = ?1"))?,
            pop: prepare(&format!("DELETE FROM {table} WHERE k = (SELECT min(k) FROM {table})"))?,
            connection,
            table,
        })
    }
}

impl Writer for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        self.put.execute(params![key, value])?;
        Ok(())
    }
    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        Ok(self.remove.execute(params![key])? > 0)
    }
    fn pop_first(&mut self) -> Outcome<bool> {
        Ok(self.pop.execute(())? > 0)
    }
    fn retain(&mut self, keep: &dyn Fn(&[u8]) -> bool) -> Outcome<u64> {
        let mut going: Vec<Vec<u8>> = Vec::new();
        let mut all = self.connection.prepare_cached(&format!("SELECT k FROM {}", self.table))?;
        let mut rows = all.query(())?;
        while let Some(row) = rows.next()? {
            let key = row.get_ref(0)?.as_blob()?;
            if !keep(key) {
                going.push(key.to_vec());
            }
        }
        going.iter().try_fold(0, |removed, key| Ok(removed + u64::from(self.remove(key)?)))
    }
}

struct Reading<'c> {
    get: CachedStatement<'c>,
    range: CachedStatement<'c>,
    scan: CachedStatement<'c>,
    count: CachedStatement<'c>,
}

impl<'c> Reading<'c> {
    fn of(connection: &'c Connection, table: &'static str) -> Outcome<Self> {
        let prepare = |sql: &str| connection.prepare_cached(sql);
        Ok(Self {
            get: prepare(&format!("SELECT v FROM {table} WHERE k = ?1"))?,
            range: prepare(&format!("SELECT k, v FROM {table} WHERE k >= ?1 ORDER BY k LIMIT ?2"))?,
            scan: prepare(&format!("SELECT k, v FROM {table} ORDER BY k"))?,
            count: prepare(&format!("SELECT count(*) FROM {table}"))?,
        })
    }
}

/// Hands out what is left of a statement's rows.
fn all(mut rows: rusqlite::Rows<'_>, each: Each<'_>) -> Outcome<u64> {
    let mut found = 0;
    while let Some(row) = rows.next()? {
        each(row.get_ref(0)?.as_blob()?, row.get_ref(1)?.as_blob()?);
        found += 1;
    }
    Ok(found)
}

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], each: Each<'_>) -> Outcome<bool> {
        let mut rows = self.get.query(params![key])?;
        let Some(row) = rows.next()? else { return Ok(false) };
        each(key, row.get_ref(0)?.as_blob()?);
        Ok(true)
    }
    fn range(&mut self, from: &[u8], most: usize, each: Each<'_>) -> Outcome<usize> {
        let rows = self.range.query(params![from, i64::try_from(most)?])?;
        Ok(usize::try_from(all(rows, each)?)?)
    }
    fn scan(&mut self, each: Each<'_>) -> Outcome<u64> {
        all(self.scan.query(())?, each)
    }
    fn count(&mut self) -> Outcome<u64> {
        Ok(u64::try_from(self.count.query_row((), |row| row.get::<_, i64>(0))?)?)
    }
}
