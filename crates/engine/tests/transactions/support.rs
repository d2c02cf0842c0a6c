//! A table of (id, note), and a disk that calls back when a page of the data file is read.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use resurgam_base::limits::PAGE_SIZE;
use resurgam_engine::*;
use resurgam_vfs::{File, FileLock, OpenMode, SimVfs, Vfs, VfsStats};

pub const DIR: &str = "/db";

/// Small enough that pages leave memory, large enough that nothing is written before asked.
/// No transaction counts as short: these are traps of versions that stay behind.
pub fn options() -> Options {
    Options {
        // What damage does is looked at here.
        page_repair: false,
        buffer_bytes: 1 << 19,
        log_segment_bytes: 1 << 19,
        background: false,
        short_rollback_operations: 0,
        ..Options::default()
    }
}

pub fn open(vfs: &SimVfs) -> Result<Database> {
    open_as(vfs, options())
}

pub fn open_as(vfs: &(impl Vfs + Clone + 'static), options: Options) -> Result<Database> {
    Database::open_with(Arc::new(vfs.clone()), Path::new(DIR), options, |_| {})
}

pub type Rows = BTreeMap<i64, String>;

/// A note that is long and that no other note resembles.
pub fn note(seed: i64, len: usize) -> String {
    let mut state = (seed as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    (0..len)
        .map(|_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b'a' + (state >> 59) as u8 % 26)
        })
        .collect()
}

pub fn create(db: &Database) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t")
        .column("id", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"]);
    tx.create_table(spec)?.done()?;
    tx.commit(Durability::Sync)?.wait()
}

pub fn table(tx: &Transaction) -> Result<Arc<Table>> {
    tx.table("public", "t")?.ok_or_else(|| Error::internal("the table is gone"))
}

pub fn key_of(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

pub fn insert(tx: &Transaction, id: i64, note: &str) -> Result<()> {
    tx.insert(&table(tx)?, &[DatumRef::Int8(id), DatumRef::Text(note)])?.done()
}

/// One statement that changes one row.
pub fn update(tx: &Transaction, id: i64, note: &str) -> Result<Change> {
    let table = table(tx)?;
    tx.statement(StatementKind::PointWrite)?;
    let row = [DatumRef::Int8(id), DatumRef::Text(note)];
    tx.update(&table, &key_of(&table, id)?, Seen::Snapshot, &row)?.done()
}

pub fn delete(tx: &Transaction, id: i64) -> Result<Change> {
    let table = table(tx)?;
    tx.statement(StatementKind::PointWrite)?;
    tx.delete(&table, &key_of(&table, id)?, Seen::Snapshot)?.done()
}

/// Runs `work` in a transaction of its own and commits it.
pub fn commit(db: &Database, work: impl FnOnce(&Transaction) -> Result<()>) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    work(&tx)?;
    tx.commit(Durability::Sync)?.wait()
}

/// All rows as `tx` sees them now.
pub fn rows_of(tx: &Transaction) -> Result<Rows> {
    let table = table(tx)?;
    let view = tx.statement(StatementKind::Read)?;
    let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
    let (mut rows, mut batch) = (Rows::new(), RowBatch::default());
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, 100)? {
            return Ok(rows);
        }
        for i in 0..batch.len() {
            let (id, note) = (table.column(batch.row(i), 0)?, table.column(batch.row(i), 1)?);
            let (DatumRef::Int8(id), DatumRef::Text(note)) = (id, note) else {
                return Err(Error::internal("a row of other types"));
            };
            assert_eq!(rows.insert(id, note.to_owned()), None, "row {id} comes twice");
        }
    }
}

pub fn rows(db: &Database) -> Result<Rows> {
    rows_of(&db.begin(Isolation::ReadCommitted))
}

pub fn note_of(db: &Database, id: i64) -> Result<Option<String>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = table(&tx)?;
    let view = tx.statement(StatementKind::Read)?;
    let mut row = RowBuf::default();
    if !view.get(&table, &key_of(&table, id)?, &mut row)? {
        return Ok(None);
    }
    match table.column(row.raw(), 1)? {
        DatumRef::Text(note) => Ok(Some(note.to_owned())),
        _ => Err(Error::internal("a note that is no text")),
    }
}

/// Where rows differ, in few words.
pub fn compare(found: &Rows, expected: &Rows, what: &str) {
    let brief = |note: Option<&String>| note.map_or("nothing".into(), |n| n[..n.len().min(12)].to_owned());
    for id in found.keys().chain(expected.keys()) {
        let (found, expected) = (found.get(id), expected.get(id));
        assert_eq!(found, expected, "{what}: row {id} is {} and should be {}", brief(found), brief(expected));
    }
}

pub fn verify(db: &Database, what: &str) -> Result<()> {
    db.finish_recovery()?;
    assert_eq!(db.verify()?, Vec::<String>::new(), "{what}");
    Ok(())
}

/// Called with the number of a page that is about to be read from the data file; true ends it.
pub type OnRead = Box<dyn FnMut(u64) -> bool + Send>;

/// The simulated disk with a callback. It is not called for what it reads itself.
#[derive(Clone)]
pub struct Watched {
    pub sim: SimVfs,
    on_read: Arc<Mutex<Option<OnRead>>>,
    unreadable: Arc<Mutex<Option<u64>>>,
}

impl Watched {
    pub fn new(sim: SimVfs) -> Self {
        Self { sim, on_read: Arc::default(), unreadable: Arc::default() }
    }
    /// This page of the data file cannot be read from now on; none = all can.
    pub fn unreadable(&self, page: Option<u64>) {
        *self.unreadable.lock() = page;
    }
    pub fn on_read(&self, hook: OnRead) {
        *self.on_read.lock() = Some(hook);
    }
}

struct WatchedFile {
    file: Arc<dyn File>,
    on_read: Arc<Mutex<Option<OnRead>>>,
    unreadable: Arc<Mutex<Option<u64>>>,
}

impl File for WatchedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        if self.path().ends_with("data") {
            if *self.unreadable.lock() == Some(offset / PAGE_SIZE as u64) {
                return Err(Error::new(ErrorKind::Io, "could not read file: a sector is gone"));
            }
            let hook = self.on_read.lock().take();
            if let Some(mut hook) = hook
                && !hook(offset / PAGE_SIZE as u64)
            {
                *self.on_read.lock() = Some(hook);
            }
        }
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(buf, offset)
    }
    fn sync(&self) -> Result<()> {
        self.file.sync()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.file.set_len(len)
    }
    fn len(&self) -> Result<u64> {
        self.file.len()
    }
    fn preallocate(&self, len: u64) -> Result<()> {
        self.file.preallocate(len)
    }
    fn path(&self) -> &Path {
        self.file.path()
    }
}

impl Vfs for Watched {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        let file = self.sim.open(path, mode)?;
        let (on_read, unreadable) = (Arc::clone(&self.on_read), Arc::clone(&self.unreadable));
        Ok(Arc::new(WatchedFile { file, on_read, unreadable }))
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.sim.exists(path)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.sim.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.sim.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool> {
        self.sim.rename_new(from, to)
    }
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.sim.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.sim.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.sim.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.sim.lock(path)
    }
    fn now(&self) -> Duration {
        self.sim.now()
    }
    fn wall_clock_us(&self) -> i64 {
        self.sim.wall_clock_us()
    }
    fn random_u64(&self) -> u64 {
        self.sim.random_u64()
    }
    fn stats(&self) -> VfsStats {
        self.sim.stats()
    }
}
