//! A table whose rows are known, on a simulated machine with a data device, a log device and one for archive and backups.

use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_vfs::{FaultPlan, SimVfs, Vfs};
use resurgam_xstore::{FaultyStore, FolderStore, Store};

pub const PAGE: usize = limits::PAGE_SIZE;
pub const DIR: &str = "/db/main";
pub const LOG: &str = "/disk2/log";
pub const ARCHIVE: &str = "/disk3/archive";
pub const BACKUPS: &str = "/disk3/backups";
pub const VERSIONS: &str = "/disk4/versions";
pub const SPARE: &str = "/disk5/spare";
pub const ROWS: i64 = 4000;
/// Nobody cancels it.
pub const NEVER: fn() -> bool = || false;

/// What fails or waits as it is told, over the folder that has that place.
pub fn store(sim: &SimVfs, place: &str) -> Result<Arc<FaultyStore>> {
    let vfs: Arc<dyn Vfs> = Arc::new(sim.clone());
    let folder = FolderStore::open(vfs, Path::new(place)).map_err(Error::from)?;
    Ok(Arc::new(FaultyStore::new(Arc::new(folder))))
}

pub fn handle(store: &Arc<FaultyStore>) -> Option<StoreHandle> {
    Some(StoreHandle(Arc::clone(store) as Arc<dyn Store>))
}

/// How it is opened.
#[derive(Clone, Copy, Debug, Default)]
pub struct Kind {
    pub traditional: bool,
    pub version_file: bool,
    pub spare: bool,
    /// Damaged pages are not repaired.
    pub no_repair: bool,
    /// An image of a page is logged before it has so many records. 0: as is the default.
    pub records_max: u64,
}

pub fn options(kind: Kind) -> Options {
    Options {
        buffer_bytes: 64 * PAGE,
        log_segment_bytes: 512 << 10,
        log_dir: Some(LOG.into()),
        archive: Some(ARCHIVE.into()),
        accelerated_database_recovery: !kind.traditional,
        version_store_path: kind.version_file.then(|| VERSIONS.into()),
        spare_data: kind.spare.then(|| SPARE.into()),
        short_rollback_operations: 0,
        archive_records_per_page_max: match kind.records_max {
            0 => Options::default().archive_records_per_page_max,
            max => max,
        },
        page_repair: !kind.no_repair,
        background: false,
        ..Options::default()
    }
}

pub fn machine(seed: u64) -> Result<SimVfs> {
    let sim = SimVfs::new(seed);
    for dir in ["/db", "/disk2", "/disk3", "/disk4", "/disk5"] {
        sim.make_folder(Path::new(dir))?;
        sim.sync_dir(Path::new("/"))?;
    }
    Ok(sim)
}

pub fn open_with(sim: &SimVfs, options: Options) -> Result<Database> {
    Database::open_with(Arc::new(sim.clone()), Path::new(DIR), options, |_| {})
}

pub fn open(sim: &SimVfs, kind: Kind) -> Result<Database> {
    open_with(sim, options(kind))
}

pub fn refused(sim: &SimVfs, options: Options) -> (ErrorKind, String) {
    match open_with(sim, options) {
        Ok(_) => panic!("it opened"),
        Err(error) => (error.kind(), format!("{error} HINT {}", error.hint().unwrap_or("none"))),
    }
}

/// Removes everything below a folder, as a device that is gone.
pub fn lose(sim: &SimVfs, dir: &str) -> Result<()> {
    for name in sim.list(Path::new(dir))? {
        sim.remove(&Path::new(dir).join(name))?;
    }
    sim.sync_dir(Path::new(dir))
}

pub fn lose_data(sim: &SimVfs) -> Result<()> {
    sim.remove(&Path::new(DIR).join("data"))?;
    sim.sync_dir(Path::new(DIR))
}

/// What the rows hold: each row's value, and what they hold if the last commit happened whose outcome is not known.
pub struct Model {
    pub rows: Vec<i64>,
    maybe: Option<Vec<i64>>,
    state: u64,
    round: i64,
}

impl Model {
    pub fn new(seed: u64) -> Self {
        Self { rows: Vec::new(), maybe: None, state: seed.wrapping_mul(2).wrapping_add(0x9E37_79B9), round: 0 }
    }

    /// The same, with other choices from now on.
    pub fn copy(&self, seed: u64) -> Self {
        let state = self.state ^ seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self { rows: self.rows.clone(), maybe: self.maybe.clone(), state: state | 1, round: self.round }
    }

    pub fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 11) % below
    }

    pub fn fill(&mut self, db: &Database) -> Result<()> {
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
        let spec = spec.column("note", ColumnType::Text).primary_key(&["id"]).index("i", &["v"], false);
        let table = tx.create_table(spec)?.done()?;
        tx.statement(StatementKind::BulkWrite)?;
        let note = "n".repeat(800);
        for id in 0..ROWS {
            tx.insert(&table, &row(id, 0, &note))?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        self.rows = vec![0; ROWS as usize];
        Ok(())
    }

    /// Changes some rows in one transaction that commits, and now and then others in one that rolls back.
    pub fn work(&mut self, db: &Database) -> Result<()> {
        self.resolve(db)?;
        self.round += 1;
        let (first, step) = (self.random(ROWS as u64) as i64, 1 + self.random(7) as i64);
        let ids: Vec<i64> = (0..60).map(|i| (first + i * step) % ROWS).collect();
        if self.random(4) == 0 {
            let tx = db.begin(Isolation::ReadCommitted);
            self.change(&tx, &ids, -self.round)?;
            tx.rollback()?;
        }
        let tx = db.begin(Isolation::ReadCommitted);
        self.change(&tx, &ids, self.round)?;
        let mut next = self.rows.clone();
        ids.iter().for_each(|id| next[*id as usize] = self.round);
        self.maybe = Some(next);
        tx.commit(Durability::Sync)?.wait()?;
        self.rows = self.maybe.take().unwrap_or_default();
        Ok(())
    }

    /// Changes these rows, in one transaction that commits.
    pub fn work_on(&mut self, db: &Database, ids: &[i64]) -> Result<()> {
        self.resolve(db)?;
        self.round += 1;
        let tx = db.begin(Isolation::ReadCommitted);
        self.change(&tx, ids, self.round)?;
        tx.commit(Durability::Sync)?.wait()?;
        ids.iter().for_each(|id| self.rows[*id as usize] = self.round);
        Ok(())
    }

    /// Finds out what became of the commit whose outcome is not known: one row says it.
    fn resolve(&mut self, db: &Database) -> Result<()> {
        let Some(maybe) = &self.maybe else { return Ok(()) };
        let Some(id) = maybe.iter().zip(&self.rows).position(|(a, b)| a != b) else { return Ok(()) };
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.expect("made");
        let mut found = RowBuf::default();
        assert!(tx.statement(StatementKind::Read)?.get(&table, &key(&table, id as i64)?, &mut found)?);
        let happened = matches!(table.column(found.raw(), 1)?, DatumRef::Int8(v) if v == maybe[id]);
        drop(tx);
        if let Some(maybe) = self.maybe.take().filter(|_| happened) {
            self.rows = maybe;
        }
        Ok(())
    }

    fn change(&self, tx: &Transaction, ids: &[i64], value: i64) -> Result<()> {
        let table = tx.table("public", "t")?.expect("made");
        tx.statement(StatementKind::BulkWrite)?;
        let note = format!("{value} ").repeat(230);
        for id in ids {
            let change = tx.update(&table, &key(&table, *id)?, Seen::Snapshot, &row(*id, value, &note))?.done()?;
            assert_eq!(change, Change::Done);
        }
        Ok(())
    }

    /// One row.
    pub fn look(&self, db: &Database, id: i64) -> Result<()> {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.expect("made");
        let mut found = RowBuf::default();
        assert!(tx.statement(StatementKind::Read)?.get(&table, &key(&table, id)?, &mut found)?);
        assert!(matches!(table.column(found.raw(), 1)?, DatumRef::Int8(v) if v == self.rows[id as usize]));
        Ok(())
    }

    /// Every row, one by one.
    pub fn check(&mut self, db: &Database, when: &str) -> Result<()> {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.expect("made");
        let statement = tx.statement(StatementKind::Read)?;
        let mut found = RowBuf::default();
        let mut rows = Vec::new();
        for id in 0..ROWS {
            assert!(statement.get(&table, &key(&table, id)?, &mut found)?, "{when}: row {id} is not there");
            match table.column(found.raw(), 1)? {
                DatumRef::Int8(v) => rows.push(v),
                other => panic!("{when}: row {id} is {other:?}"),
            }
        }
        if let Some(maybe) = self.maybe.take()
            && rows == maybe
        {
            self.rows = maybe;
        }
        let wrong = rows.iter().zip(&self.rows).position(|(found, right)| found != right);
        if let Some(id) = wrong {
            panic!("{when}: row {id} is {}, not {}", rows[id], self.rows[id]);
        }
        Ok(())
    }
}

fn row(id: i64, v: i64, note: &str) -> [DatumRef<'_>; 3] {
    [DatumRef::Int8(id), DatumRef::Int8(v), DatumRef::Text(note)]
}

fn key(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

/// Where a sweep begins that takes every `of`th call only: `RESURGAM_SEED`, or the clock, chooses, so that repeated runs have all.
pub fn offset(of: u64) -> u64 {
    let clock =
        || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let seed = std::env::var("RESURGAM_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or_else(clock);
    eprintln!("every {of}th call, from {} on (RESURGAM_SEED={})", seed % of, seed % of);
    seed % of
}

/// Loses power at the `n`th call that changes something from now on.
pub fn crash_at(sim: &SimVfs, n: u64) {
    sim.set_faults(FaultPlan { crash_after_ops: Some(n), ..FaultPlan::default() });
}
