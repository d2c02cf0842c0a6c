//! This engine.

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::{
    Change, ColumnType, Database, DatumRef, Direction, Durability, Isolation, KeyRange, Load, Options, ReadView,
    RowBatch, RowBuf, Seen, StatementKind, Table, TableSpec, Transaction,
};

use crate::store::{Commit, Each, Of, Outcome, Reader, Store, Writer};

struct Resurgam {
    db: Database,
    main: Arc<Table>,
    sorted: Arc<Table>,
}

pub fn open(dir: &Path, cache: usize) -> Outcome<Box<dyn Store>> {
    let db = Database::open(dir, Options { buffer_bytes: cache, ..Options::default() })?;
    let tx = db.begin(Isolation::ReadCommitted);
    let mut tables = Vec::new();
    for name in ["main", "sorted"] {
        let spec = TableSpec::new("public", name)
            .column("k", ColumnType::Bytes)
            .column("v", ColumnType::Bytes)
            .primary_key(&["k"]);
        tables.push(tx.create_table(spec)?.done()?);
    }
    tx.commit(Durability::Sync)?.wait()?;
    let (sorted, main) = (tables.pop().ok_or("no table")?, tables.pop().ok_or("no table")?);
    Ok(Box::new(Resurgam { db, main, sorted }))
}

impl Resurgam {
    fn table(&self, of: Of) -> &Arc<Table> {
        match of {
            Of::Main => &self.main,
            Of::Sorted => &self.sorted,
        }
    }
}

impl Store for Resurgam {
    fn write(&self, of: Of, commit: Commit, work: &mut dyn FnMut(&mut dyn Writer) -> Outcome<()>) -> Outcome<()> {
        let tx = self.db.begin(Isolation::ReadCommitted);
        let table = self.table(of);
        let mut writer = Writing { tx: &tx, table, load: None, batch: RowBatch::default(), key: Vec::new() };
        work(&mut writer)?;
        writer.put_all()?;
        match commit {
            Commit::Durable => tx.commit(Durability::Sync)?.wait()?,
            Commit::Later => tx.commit(Durability::Async)?.wait()?,
        }
        Ok(())
    }
    fn read(&self, of: Of, work: &mut dyn FnMut(&mut dyn Reader) -> Outcome<()>) -> Outcome<()> {
        let tx = self.db.begin(Isolation::RepeatableRead);
        let view = tx.statement(StatementKind::Read)?;
        let table = self.table(of);
        work(&mut Reading { view, table, key: Vec::new(), row: RowBuf::default(), batch: RowBatch::default() })
    }
    fn compact(&mut self) -> Outcome<bool> {
        self.db.clean()?;
        self.db.shorten_log()?;
        Ok(true)
    }
}

struct Writing<'a> {
    tx: &'a Transaction,
    table: &'a Arc<Table>,
    /// Rows are put in by it.
    load: Option<Load>,
    batch: RowBatch,
    key: Vec<u8>,
}

impl Writing<'_> {
    /// All that is put is to be seen from here on.
    fn put_all(&mut self) -> Outcome<()> {
        Ok(self.load.as_mut().map_or(Ok(()), |load| load.flush()?.done())?)
    }
}

fn done(change: Change) -> Outcome<()> {
    if change == Change::Done { Ok(()) } else { Err(format!("a delete ended with {change:?}").into()) }
}

impl Writer for Writing<'_> {
    fn put(&mut self, key: &[u8], value: &[u8]) -> Outcome<()> {
        let load = self.load.get_or_insert_with(|| self.tx.load(self.table));
        Ok(load.push(&[DatumRef::Bytes(key), DatumRef::Bytes(value)])?.done()?)
    }
    fn remove(&mut self, key: &[u8]) -> Outcome<bool> {
        self.put_all()?;
        self.key.clear();
        self.table.encode_key(&[DatumRef::Bytes(key)], &mut self.key)?;
        match self.tx.delete(self.table, &self.key, Seen::Snapshot)?.done()? {
            Change::Gone => Ok(false),
            change => done(change).map(|()| true),
        }
    }
    fn pop_first(&mut self) -> Outcome<bool> {
        self.put_all()?;
        let view = self.tx.statement(StatementKind::PointWrite)?;
        match self.tx.pop(&view, self.table, &KeyRange::all(), Direction::Forward, &mut |_| true)?.done()? {
            None => Ok(false),
            Some(change) => done(change).map(|()| true),
        }
    }
    fn retain(&mut self, keep: &dyn Fn(&[u8]) -> bool) -> Outcome<u64> {
        self.put_all()?;
        let view = self.tx.statement(StatementKind::BulkWrite)?;
        let mut cursor = view.scan(self.table, KeyRange::all(), Direction::Forward);
        let mut removed = 0;
        self.batch.clear();
        while cursor.next_batch(&mut self.batch, 1000)? {
            let mut going: Vec<&[u8]> = Vec::with_capacity(self.batch.len());
            for i in 0..self.batch.len() {
                let row = self.batch.row(i);
                let DatumRef::Bytes(key) = self.table.column(row, 0)? else { return Err("not a key".into()) };
                if !keep(key) {
                    going.push(row.key);
                }
            }
            done(self.tx.delete_many(self.table, &going, Seen::Snapshot, &mut 0)?.done()?)?;
            removed += going.len() as u64;
            self.batch.clear();
        }
        Ok(removed)
    }
}

struct Reading<'a> {
    view: ReadView,
    table: &'a Arc<Table>,
    key: Vec<u8>,
    row: RowBuf,
    batch: RowBatch,
}

fn bytes<'r>(table: &'r Table, row: resurgam_engine::RawRow<'r>, column: usize) -> Outcome<&'r [u8]> {
    match table.column(row, column)? {
        DatumRef::Bytes(bytes) => Ok(bytes),
        other => Err(format!("{other:?} is no bytes").into()),
    }
}

impl Reading<'_> {
    /// Gives out what is in the batch.
    fn rows(&mut self, each: Each<'_>) -> Outcome<usize> {
        for i in 0..self.batch.len() {
            let row = self.batch.row(i);
            each(bytes(self.table, row, 0)?, bytes(self.table, row, 1)?);
        }
        let rows = self.batch.len();
        self.batch.clear();
        Ok(rows)
    }
}

impl Reader for Reading<'_> {
    fn get(&mut self, key: &[u8], each: Each<'_>) -> Outcome<bool> {
        self.key.clear();
        self.table.encode_key(&[DatumRef::Bytes(key)], &mut self.key)?;
        if !self.view.get(self.table, &self.key, &mut self.row)? {
            return Ok(false);
        }
        each(key, bytes(self.table, self.row.raw(), 1)?);
        Ok(true)
    }
    fn range(&mut self, from: &[u8], most: usize, each: Each<'_>) -> Outcome<usize> {
        let mut low = Vec::with_capacity(32);
        self.table.encode_key(&[DatumRef::Bytes(from)], &mut low)?;
        let range = KeyRange { low: std::ops::Bound::Included(low), high: std::ops::Bound::Unbounded };
        self.view.first_rows(self.table, range, Direction::Forward, &mut self.batch, most)?;
        self.rows(each)
    }
    fn scan(&mut self, each: Each<'_>) -> Outcome<u64> {
        let mut cursor = self.view.scan(self.table, KeyRange::all(), Direction::Forward);
        let mut rows = 0;
        while cursor.next_batch(&mut self.batch, 1000)? {
            rows += self.rows(each)? as u64;
        }
        Ok(rows)
    }
    fn count(&mut self) -> Outcome<u64> {
        Ok(self.view.count(self.table, KeyRange::all())?)
    }
}
