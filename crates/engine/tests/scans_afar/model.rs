//! Scans of a table that is larger than memory, over a page server that is as far behind as it may be, among changes and crashes: each is compared with
//! an ordered map. (The tables of the other schedules have few leaves: nothing is asked for ahead there.)

use std::collections::BTreeMap;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;

use resurgam_engine::*;
use resurgam_pageserver::Partitions;
use resurgam_rbpex::Planted;
use resurgam_vfs::{SimConfig, SimVfs, Vfs};

use crate::remote::{Beside, PlantedInPages};
use crate::rng::Rng;
use crate::schedule::{ARCHIVE, BACKUPS};

const ROWS: i64 = 2_000;
const STEPS: u64 = 60;
const DIR: &str = "/db";
const CACHE: &str = "/disk8/cache";

/// Of one schedule.
#[derive(Clone, Copy, Debug, Default)]
pub struct Met {
    pub scans: u64,
    pub samples: u64,
    pub crashes: u64,
    /// Pages that came ahead and were used.
    pub used_ahead: u64,
    /// Of those, by samples.
    pub sampled_ahead: u64,
    /// Pages that came from the cache, and of those that a page server had to be asked about.
    pub cached: u64,
    pub confirmed: u64,
}

struct World {
    rng: Rng,
    cache: Option<Planted>,
    vfs: SimVfs,
    db: Database,
    table: Arc<Table>,
    rows: BTreeMap<i64, i64>,
    met: Met,
}

fn open(vfs: &SimVfs, cache: Option<Planted>) -> Result<Database> {
    let vfs: Arc<dyn Vfs> = Arc::new(vfs.clone());
    let cache = cache.map(|planted| {
        // Of some two hundred pages.
        let mut cache = resurgam_rbpex::Config::new(CACHE.into(), 100 * (limits::PAGE_SIZE as u64 + 32));
        (cache.queue_pages, cache.background, cache.patience) = (30, false, std::time::Duration::ZERO);
        cache.planted = planted;
        cache
    });
    let beside = Arc::new(Beside::new(Arc::clone(&vfs), PlantedInPages::None, vec![Partitions::all()], cache));
    let options = Options {
        buffer_bytes: 64 * limits::PAGE_SIZE,
        log_segment_bytes: 1 << 20,
        archive: Some(ARCHIVE.into()),
        backups: Some(BACKUPS.into()),
        pages: Some(PageServiceHandle(beside)),
        background: false,
        ..Options::default()
    };
    Database::open_with(vfs, Path::new(DIR), options, |_| {})
}

fn table(db: &Database) -> Result<Arc<Table>> {
    let tx = db.begin(Isolation::ReadCommitted);
    tx.table("public", "t")?.ok_or_else(|| Error::new(ErrorKind::UndefinedTable, "t"))
}

/// Runs one schedule, every third with a cache. The error says what was broken.
#[allow(dead_code)]
pub fn run(seed: u64) -> std::result::Result<Met, String> {
    run_with(seed, seed.is_multiple_of(3).then_some(Planted::Nothing))
}

/// Runs one schedule with a cache that makes this mistake, if any.
pub fn run_with(seed: u64, cache: Option<Planted>) -> std::result::Result<Met, String> {
    let told = |error: Error| format!("{error:?}");
    let mut world = World::new(seed, cache).map_err(told)?;
    for step in 0..STEPS {
        match world.step().map_err(told)? {
            None => {}
            Some(what) => return Err(format!("step {step}: {what}")),
        }
    }
    world.ends();
    Ok(world.met)
}

impl World {
    fn new(seed: u64, cache: Option<Planted>) -> Result<Self> {
        let mut rng = Rng::new(seed);
        let vfs = SimVfs::with_config(SimConfig { seed: rng.next(), sector_bytes: 512 });
        for disk in ["/disk5", "/disk6", "/disk7", "/disk8"] {
            vfs.make_folder(Path::new(disk))?;
        }
        let db = open(&vfs, cache)?;
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("n", ColumnType::Int8);
        let table = tx.create_table(spec.column("pad", ColumnType::Text).primary_key(&["id"]))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        let mut world = Self { rng, cache, vfs, db, table, rows: BTreeMap::new(), met: Met::default() };
        world.write(|world, tx| {
            for id in 0..ROWS {
                world.put(tx, id * 2, 0)?;
            }
            Ok(true)
        })?;
        // What a crash takes of the page server's file is made from the archive, which nobody fills by himself here.
        world.db.archive_now()?;
        Ok(world)
    }

    fn key(&self, id: i64) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        self.table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        Ok(key)
    }

    /// A transaction, which commits if it says so; else all is as before.
    fn write(&mut self, work: impl FnOnce(&mut Self, &Transaction) -> Result<bool>) -> Result<()> {
        let before = self.rows.clone();
        let tx = self.db.begin(Isolation::ReadCommitted);
        tx.statement(StatementKind::PointWrite)?;
        if work(self, &tx)? {
            tx.commit(Durability::Sync)?.wait()
        } else {
            self.rows = before;
            tx.rollback()
        }
    }

    fn put(&mut self, tx: &Transaction, id: i64, n: i64) -> Result<()> {
        let pad = "p".repeat(self.rng.range(150, 350) as usize);
        let row = [DatumRef::Int8(id), DatumRef::Int8(n), DatumRef::Text(&pad)];
        if self.rows.insert(id, n).is_some() {
            tx.update(&self.table, &self.key(id)?, Seen::Snapshot, &row)?.done()?;
        } else {
            tx.insert(&self.table, &row)?.done()?;
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<String>> {
        match self.rng.below(16) {
            0 => self.db.checkpoint()?,
            1 => self.db.archive_now().map(drop)?,
            2 => {
                self.ends();
                self.met.crashes += 1;
                // The files of the one that is gone are of the disk before the crash.
                self.vfs = self.vfs.crash();
                // Some lives are without it, and what it has becomes old.
                let cache = self.cache.filter(|_| self.met.crashes % 3 != 1);
                self.db = open(&self.vfs, cache)?;
                self.table = table(&self.db)?;
            }
            3..8 => {
                let commits = !self.rng.one_in(6);
                let n = self.rng.next() as i64 >> 1;
                self.write(|world, tx| {
                    for _ in 0..world.rng.range(1, 40) {
                        let id = world.rng.below(2 * ROWS as u64) as i64;
                        world.put(tx, id, n)?;
                    }
                    Ok(commits)
                })?;
            }
            8 => return self.sample(),
            _ => return self.scan(),
        }
        Ok(None)
    }

    /// Some rows at random, as ANALYZE takes them: each as it is, in the order of the key.
    fn sample(&mut self) -> Result<Option<String>> {
        self.met.samples += 1;
        let used = self.db.stats().pool.ahead_used;
        let tx = self.db.begin(Isolation::ReadCommitted);
        let view = tx.statement(StatementKind::Read)?;
        let (wanted, seed) = (self.rng.range(50, 500), self.rng.next());
        let (mut last, mut wrong) = (-1, None);
        let sampled = view.sample(&self.table, wanted, seed, &|| false, &mut |row| {
            let column = |column| self.table.column(row, column);
            let (DatumRef::Int8(id), DatumRef::Int8(n)) = (column(0)?, column(1)?) else {
                wrong = Some("a row without numbers".to_owned());
                return Ok(());
            };
            if id <= last || self.rows.get(&id) != Some(&n) {
                wrong = Some(format!("{id} with {n} behind {last}, {:?} expected", self.rows.get(&id)));
            }
            last = id;
            Ok(())
        })?;
        self.met.sampled_ahead += self.db.stats().pool.ahead_used - used;
        if sampled.read == 0 && !self.rows.is_empty() {
            wrong = Some(format!("no rows, {wanted} wanted"));
        }
        Ok(wrong)
    }

    fn ends(&mut self) {
        let stats = self.db.stats().pool;
        self.met.used_ahead += stats.ahead_used;
        self.met.cached += stats.cached_pages;
        self.met.confirmed += stats.confirmed_pages;
    }

    fn scan(&mut self) -> Result<Option<String>> {
        self.met.scans += 1;
        let from = if self.rng.one_in(3) { self.rng.below(2 * ROWS as u64) as i64 } else { 0 };
        let to = if self.rng.one_in(3) { from + self.rng.below(2000) as i64 } else { 2 * ROWS };
        let direction = if self.rng.one_in(2) { Direction::Forward } else { Direction::Backward };
        let range = KeyRange { low: Bound::Included(self.key(from)?), high: Bound::Excluded(self.key(to)?) };
        let most = self.rng.range(1, 400) as usize;
        let tx = self.db.begin(Isolation::ReadCommitted);
        let mut cursor = tx.statement(StatementKind::Read)?.scan(&self.table, range, direction);
        let (mut batch, mut found) = (RowBatch::default(), Vec::new());
        while cursor.next_batch(&mut batch, most)? {
            for at in 0..batch.len() {
                let column = |column| self.table.column(batch.row(at), column);
                let (DatumRef::Int8(id), DatumRef::Int8(n)) = (column(0)?, column(1)?) else {
                    return Ok(Some("a row without numbers".to_owned()));
                };
                found.push((id, n));
            }
            batch.clear();
        }
        if direction == Direction::Backward {
            found.reverse();
        }
        let expected: Vec<_> = self.rows.range(from..to).map(|(id, n)| (*id, *n)).collect();
        if found == expected {
            return Ok(None);
        }
        let differs = found.iter().zip(&expected).find(|(found, expected)| found != expected);
        Ok(Some(format!(
            "{direction:?} from {from} to {to}: {} rows, {} expected; {differs:?}",
            found.len(),
            expected.len()
        )))
    }
}
