//! Statistics in the catalog's tree; analysing a table.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Result};
use resurgam_versions::Outcome;

use super::column::ColumnSample;
use super::{Sampled, TableStatistics};
use crate::catalog_row::statistics_key;
use crate::database::Database;
use crate::table::{RowBuf, Table};
use crate::transaction::{Attempt, Transaction};
use crate::view::ReadView;

/// Bytes of a row.
const CHUNK: usize = 1400;
/// Statistics of more bytes are not stored.
const BYTES_MAX: usize = CHUNK * u16::MAX as usize;
/// Rows that are read for each of the values that are wanted, as PostgreSQL.
const ROWS_FOR_VALUE: u64 = 300;
/// Tables whose statistics are kept in memory, and about what they take there.
const KEPT: usize = 1000;
const KEPT_BYTES: usize = 32 << 20;

/// Statistics that were read.
#[derive(Default)]
pub(crate) struct StatisticsCache {
    known: Mutex<Known>,
    /// Raised when some were stored.
    changes: AtomicU64,
}

/// By their tables: with the first of the rows that they are stored in, which tells others.
#[derive(Default)]
struct Known {
    of: HashMap<u32, (Vec<u8>, Option<Arc<TableStatistics>>)>,
    /// Of all of them, as they are stored.
    bytes: usize,
}

impl Known {
    fn insert(&mut self, table: u32, first: Vec<u8>, bytes: usize, statistics: Option<Arc<TableStatistics>>) {
        if self.of.len() >= KEPT || self.bytes > KEPT_BYTES {
            *self = Self::default();
        }
        // What it replaces is counted until all go: they are few.
        self.bytes += bytes;
        self.of.insert(table, (first, statistics));
    }
}

/// What is to be found out of a table.
pub struct Analysis<'a> {
    /// Positions of columns.
    pub columns: &'a [usize],
    /// Common values, and groups of the others, of each column.
    pub target: usize,
    /// It is done in the background.
    pub is_automatic: bool,
    /// Asked now and then.
    pub is_stopped: &'a dyn Fn() -> bool,
}

impl ReadView {
    /// Reads a sample of a table's rows, and says what it tells of the columns that are wanted.
    ///
    /// # Errors
    /// Those of reading; `Cancelled` when it was stopped.
    pub fn analyze(&self, table: &Arc<Table>, what: &Analysis<'_>) -> Result<(TableStatistics, Sampled)> {
        let inner = self.db.inner();
        let mut samples = Vec::with_capacity(what.columns.len());
        for at in what.columns {
            let column = table.columns.get(*at).ok_or_else(|| Error::internal(format!("there is no column {at}")))?;
            samples.push(ColumnSample::new(&column.name, column.ty, what.columns.len()));
        }
        let now = inner.vfs.wall_clock_us();
        let wanted = ROWS_FOR_VALUE * what.target.max(1) as u64;
        let sampled = self.sample(table, wanted, inner.vfs.random_u64(), what.is_stopped, &mut |row| {
            let values = table.all_columns(row)?;
            for (at, sample) in what.columns.iter().zip(&mut samples) {
                sample.add(values[*at])?;
            }
            Ok(())
        })?;
        let mut statistics = TableStatistics { rows: sampled.rows, records: sampled.records, ..Default::default() };
        statistics.pages = table.tree.estimate_size(&inner.pool)?.pages;
        // Of no rows nothing is said; what was known stays.
        for sample in samples.into_iter().filter(|_| sampled.read > 0) {
            statistics.columns.push(sample.statistics(sampled.rows as f64, what.target));
        }
        *(if what.is_automatic { &mut statistics.analyzed_itself_at } else { &mut statistics.analyzed_at }) = now;
        *(if what.is_automatic { &mut statistics.analyzed_itself } else { &mut statistics.analyzed }) = 1;
        Ok((statistics, sampled))
    }
}

impl Transaction {
    /// What is known of a table, as this transaction sees it.
    ///
    /// # Errors
    /// `Corrupt` if it cannot be read.
    pub fn statistics(&self, table: &Table) -> Result<Option<Arc<TableStatistics>>> {
        self.catalog_view()?.statistics(table.id)
    }

    /// Stores what was found out of a table, with what was known before of its other columns.
    ///
    /// # Errors
    /// `DefinitionChanged` when the table was changed or dropped meanwhile.
    pub fn store_statistics(&self, table: &Arc<Table>, found: &TableStatistics) -> Result<Attempt<()>> {
        let _operation = self.operation()?;
        if let Some(wait) = self.enter()? {
            return Ok(Attempt::Wait(wait));
        }
        if let Some(wait) = self.lock_for_rows(table)? {
            return Ok(Attempt::Wait(wait));
        }
        let mut all = found.clone();
        if let Some(before) = self.newest_statistics(table.id)? {
            all.analyzed += before.analyzed;
            all.analyzed_itself += before.analyzed_itself;
            all.analyzed_at = all.analyzed_at.max(before.analyzed_at);
            all.analyzed_itself_at = all.analyzed_itself_at.max(before.analyzed_itself_at);
            let is_there = |name: &str| table.columns.iter().any(|column| column.name == name);
            let others = before.columns.iter().filter(|old| found.columns.iter().all(|new| new.name != old.name));
            all.columns.extend(others.filter(|old| is_there(&old.name)).cloned());
        }
        self.put_all(table.id, &all)
    }

    /// What is known of columns that are called otherwise by now goes with them; of those that are gone or of another type
    /// nothing is: who may read another one of that name need not have been one who may read these.
    pub(crate) fn follow_columns(&self, old: &Table, new: &Table) -> Result<()> {
        let stays = |name: &str, ty| new.columns.iter().any(|column| column.name == name && column.ty == ty);
        if !old.is_table() || old.columns.iter().all(|column| stays(&column.name, column.ty)) {
            return Ok(());
        }
        let Some(mut kept) = self.newest_statistics(new.id)? else { return Ok(()) };
        let mut both = old.columns.iter().zip(&new.columns);
        let is_renamed =
            old.columns.len() == new.columns.len() && both.all(|(a, b)| (a.place, a.ty) == (b.place, b.ty));
        kept.columns.retain_mut(|known| {
            let at = old.columns.iter().position(|column| column.name == known.name && column.ty == known.ty);
            match at {
                Some(at) if is_renamed => known.name.clone_from(&new.columns[at].name),
                _ => {}
            }
            at.is_some() && stays(&known.name, known.ty)
        });
        // Whoever stores some holds the table, as this transaction does.
        let _ = self.put_all(new.id, &kept)?;
        Ok(())
    }

    /// What is known of a table by whoever committed last, whatever this transaction's snapshot; what cannot be read is
    /// nothing.
    fn newest_statistics(&self, table: u32) -> Result<Option<TableStatistics>> {
        let carrier = Arc::new(self.0.db.inner().catalog.carrier());
        let (mut row, mut bytes) = (RowBuf::default(), Vec::new());
        for at in 0..=usize::from(u16::MAX) {
            if self.latest(&carrier, &statistics_key(table, at), &mut row)?.is_none() {
                break;
            }
            bytes.extend_from_slice(&row.value);
        }
        Ok(TableStatistics::decode(&bytes).ok())
    }

    fn put_all(&self, table: u32, all: &TableStatistics) -> Result<Attempt<()>> {
        let bytes = all.encode()?;
        if bytes.len() > BYTES_MAX {
            return Err(Error::new(ErrorKind::LimitExceeded, "the statistics are too large to be stored"));
        }
        let chunks: Vec<&[u8]> = bytes.chunks(CHUNK).collect();
        for (at, chunk) in chunks.iter().enumerate() {
            if let Attempt::Wait(wait) = self.put_statistics(&statistics_key(table, at), Some(chunk))? {
                return Ok(Attempt::Wait(wait));
            }
        }
        self.remove_chunks(table, chunks.len())
    }

    /// The table goes, and its statistics with it.
    pub(crate) fn remove_statistics(&self, table: u32) -> Result<Attempt<()>> {
        self.remove_chunks(table, 0)
    }

    fn remove_chunks(&self, table: u32, from: usize) -> Result<Attempt<()>> {
        let carrier = Arc::new(self.0.db.inner().catalog.carrier());
        let mut row = RowBuf::default();
        for at in from..=usize::from(u16::MAX) {
            let key = statistics_key(table, at);
            if self.latest(&carrier, &key, &mut row)?.is_none() {
                break;
            }
            if let Attempt::Wait(wait) = self.put_statistics(&key, None)? {
                return Ok(Attempt::Wait(wait));
            }
        }
        self.0.db.note_statistics();
        Ok(Attempt::Done(()))
    }

    /// Gives a row that value, or none, whatever it had.
    fn put_statistics(&self, key: &[u8], value: Option<&[u8]>) -> Result<Attempt<()>> {
        let inner = self.0.db.inner();
        let carrier = Arc::new(inner.catalog.carrier());
        let mut row = RowBuf::default();
        let seen = self.latest(&carrier, key, &mut row)?;
        let outcome = self.with_catalog_writer_aside(|writer, tree| match (seen, value) {
            (Some(seen), Some(value)) => writer.update(tree, key, value, seen),
            (Some(seen), None) => writer.delete(tree, key, seen),
            (None, Some(value)) => writer.insert(tree, key, value, &mut None),
            (None, None) => Ok(Outcome::Done),
        })?;
        match outcome {
            Outcome::Done => Ok(Attempt::Done(())),
            Outcome::Wait(holder) => {
                let own = self.write_context()?.active.id;
                Ok(Attempt::Wait(inner.txs.wait_for(own, holder)?))
            }
            other => Err(Error::new(
                ErrorKind::SerializationFailure,
                format!("statistics were stored at the same time ({other:?})"),
            )
            .with_hint("Retry the transaction.")),
        }
    }
}

impl ReadView {
    /// The stored statistics of the table with that id.
    fn statistics(&self, table: u32) -> Result<Option<Arc<TableStatistics>>> {
        let inner = self.db.inner();
        let tree = inner.catalog.tree;
        let mut first = Vec::new();
        if !self.read_value(tree, &statistics_key(table, 0), &mut first)? {
            return Ok(None);
        }
        if let Some((known, statistics)) = inner.statistics.known.lock().of.get(&table)
            && *known == first
        {
            return Ok(statistics.clone());
        }
        let (mut bytes, mut chunk) = (first.clone(), Vec::new());
        for at in 1..=usize::from(u16::MAX) {
            if !self.read_value(tree, &statistics_key(table, at), &mut chunk)? {
                break;
            }
            bytes.extend_from_slice(&chunk);
        }
        let decoded = TableStatistics::decode(&bytes).map(Arc::new);
        // Said once; none are there from then on.
        if let Err(error) = &decoded {
            tracing::warn!("statistics of table {table} are passed over: {error}");
        }
        inner.statistics.known.lock().insert(table, first, bytes.len(), decoded.as_ref().ok().cloned());
        Ok(decoded.ok())
    }
}

impl Database {
    /// What is known of a table, as it is committed.
    ///
    /// # Errors
    /// Those of reading.
    pub fn statistics(&self, table: &Table) -> Result<Option<Arc<TableStatistics>>> {
        self.plain_view().statistics(table.id)
    }

    /// Raised whenever statistics are stored, and again when that has been committed, if whoever does it says so.
    pub fn statistics_changes(&self) -> u64 {
        self.inner().statistics.changes.load(Ordering::Relaxed)
    }

    /// Statistics have been stored, or are committed by now.
    pub fn note_statistics(&self) {
        self.inner().statistics.changes.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_page::types::ColumnType;
    use resurgam_vfs::{SimVfs, Vfs};

    use super::*;
    use crate::options::Options;
    use crate::table::TableSpec;
    use crate::transaction::{Durability, Isolation, StatementKind};

    /// What cannot be read is none, and goes when the table is analysed again.
    #[test]
    fn damaged_statistics_are_passed_over() -> Result<()> {
        let vfs: Arc<dyn Vfs> = Arc::new(SimVfs::new(1));
        let db = Database::open_with(
            vfs,
            Path::new("/db"),
            Options { buffer_bytes: 1 << 20, background: false, ..Options::default() },
            |_| {},
        )?;
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "t").column("a", ColumnType::Int4);
        let Attempt::Done(table) = tx.create_table(spec)? else { panic!("nobody is in the way") };
        tx.commit(Durability::Sync)?.wait()?;
        let what = Analysis { columns: &[0], target: 10, is_automatic: false, is_stopped: &|| false };
        for damage in [&b"\x07"[..], b"", &[1; 300]] {
            let tx = db.begin(Isolation::ReadCommitted);
            tx.statement(StatementKind::PointWrite)?;
            let _ = tx.put_statistics(&statistics_key(table.id, 0), Some(damage))?;
            let _ = tx.put_statistics(&statistics_key(table.id, 1), Some(damage))?;
            assert!(tx.statistics(&table)?.is_none());
            tx.commit(Durability::Sync)?.wait()?;
            assert!(db.statistics(&table)?.is_none());
            let tx = db.begin(Isolation::ReadCommitted);
            let (found, _) = tx.statement(StatementKind::Read)?.analyze(&table, &what)?;
            let _ = tx.store_statistics(&table, &found)?;
            tx.commit(Durability::Sync)?.wait()?;
            assert_eq!(db.statistics(&table)?.as_deref(), Some(&found));
        }
        Ok(())
    }
}
