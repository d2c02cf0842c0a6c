//! Several flushes to the landing zone at once, whose syncs end in any order, and a power loss that leaves holes in the zone: the next primary has
//! what was acknowledged, and so have log service and page server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use resurgam_engine::*;
use resurgam_vfs::{File, FileLock, OpenMode, RealVfs, Vfs, VfsStats};

use super::common::{Cluster, until};

const CLIENTS: i32 = 8;

/// What is written below a folder is in memory until it is synced, which takes a while; when the power goes it is lost.
struct Volatile {
    inner: RealVfs,
    below: PathBuf,
    state: Arc<State>,
}

struct State {
    rng: Mutex<SmallRng>,
    is_off: AtomicBool,
    /// The end of what is in the files, as an offset in the file where it is, and writes that were lost before such an end.
    furthest: Mutex<std::collections::HashMap<PathBuf, u64>>,
    holes: AtomicU64,
}

struct VolatileFile {
    inner: Arc<dyn File>,
    state: Arc<State>,
    pending: Mutex<Vec<(u64, Vec<u8>)>>,
}

impl State {
    fn check(&self) -> Result<()> {
        if self.is_off.load(Ordering::SeqCst) {
            return Err(Error::new(ErrorKind::Io, "the power is off"));
        }
        Ok(())
    }
}

impl File for VolatileFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.state.check()?;
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.state.check()?;
        self.pending.lock().push((offset, buf.to_vec()));
        Ok(())
    }
    fn sync(&self) -> Result<()> {
        let pending = std::mem::take(&mut *self.pending.lock());
        let time = self.state.rng.lock().random_range(0..4000);
        std::thread::sleep(Duration::from_micros(time));
        // Either all of it is there before the power goes, or nothing.
        let mut furthest = self.state.furthest.lock();
        let end = furthest.entry(self.inner.path().to_path_buf()).or_default();
        if let Err(error) = self.state.check() {
            let lost = pending.iter().map(|(offset, _)| *offset).min();
            self.state.holes.fetch_add(u64::from(lost.is_some_and(|lost| lost < *end)), Ordering::SeqCst);
            return Err(error);
        }
        for (offset, bytes) in pending {
            self.inner.write_at(&bytes, offset)?;
            // What is made ready is none.
            if bytes.iter().any(|byte| *byte != 0) {
                *end = (*end).max(offset + bytes.len() as u64);
            }
        }
        self.inner.sync()
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.state.check()?;
        self.inner.set_len(len)
    }
    fn len(&self) -> Result<u64> {
        self.inner.len()
    }
    fn preallocate(&self, len: u64) -> Result<()> {
        self.state.check()?;
        self.inner.preallocate(len)
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl Volatile {
    fn check(&self, path: &Path) -> Result<()> {
        if path.starts_with(&self.below) { self.state.check() } else { Ok(()) }
    }
}

impl Vfs for Volatile {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        self.check(path)?;
        let inner = self.inner.open(path, mode)?;
        if !path.starts_with(&self.below) {
            return Ok(inner);
        }
        Ok(Arc::new(VolatileFile { inner, state: Arc::clone(&self.state), pending: Mutex::default() }))
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.inner.exists(path)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.check(path)?;
        self.inner.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.check(from)?;
        self.inner.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool> {
        self.check(from)?;
        self.inner.rename_new(from, to)
    }
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.inner.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.check(dir)?;
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.inner.lock(path)
    }
    fn now(&self) -> Duration {
        self.inner.now()
    }
    fn wall_clock_us(&self) -> i64 {
        self.inner.wall_clock_us()
    }
    fn random_u64(&self) -> u64 {
        self.inner.random_u64()
    }
    fn stats(&self) -> VfsStats {
        self.inner.stats()
    }
}

/// Sets one row again and again until it cannot; `told` is the last value whose commit was acknowledged.
fn client(db: &Database, table: &Arc<Table>, id: i32, from: i32, told: &AtomicI32) -> Result<()> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int4(id)], &mut key)?;
    for value in from.. {
        let tx = db.begin(Isolation::ReadCommitted);
        let view = tx.statement(StatementKind::PointWrite)?;
        tx.update(table, &key, Seen::Snapshot, &[DatumRef::Int4(id), DatumRef::Int4(value)])?.done()?;
        drop(view);
        tx.commit(Durability::Sync)?.wait()?;
        told.store(value, Ordering::SeqCst);
    }
    Ok(())
}

fn values(db: &Database, table: &Arc<Table>) -> Result<Vec<i32>> {
    let tx = db.begin(Isolation::ReadCommitted);
    let view = tx.statement(StatementKind::Read)?;
    let (mut key, mut row) = (Vec::new(), RowBuf::default());
    let mut found = Vec::new();
    for id in 0..CLIENTS {
        key.clear();
        table.encode_key(&[DatumRef::Int4(id)], &mut key)?;
        assert!(view.get(table, &key, &mut row)?, "row {id} is gone");
        let DatumRef::Int4(value) = table.column(row.raw(), 1)? else { panic!("row {id} has no value") };
        found.push(value);
    }
    Ok(found)
}

#[test]
fn a_power_loss_with_several_flushes_under_way_loses_nothing_that_was_acknowledged() -> Result<()> {
    let cluster = Cluster::with_log_service(1);
    let _node = cluster.page_server(0);
    let xlog = cluster.log_service();
    let (mut holes, mut most) = (0, 0);
    let mut told: Vec<i32> = Vec::new();
    for life in 0..8u64 {
        let state = Arc::new(State {
            rng: Mutex::new(SmallRng::seed_from_u64(life)),
            is_off: AtomicBool::new(false),
            furthest: Mutex::default(),
            holes: AtomicU64::new(0),
        });
        let vfs = Volatile { inner: RealVfs::new(), below: cluster.path("zone/log"), state: Arc::clone(&state) };
        let zoned = cluster.zoned();
        let db = cluster.open_zoned_on(Arc::new(vfs), &zoned, &format!("primary-{life}"))?;
        let tx = db.begin(Isolation::ReadCommitted);
        let table = if life == 0 {
            let spec = TableSpec::new("public", "t")
                .column("id", ColumnType::Int4)
                .column("value", ColumnType::Int4)
                .primary_key(&["id"]);
            let table = tx.create_table(spec)?.done()?;
            for id in 0..CLIENTS {
                tx.insert(&table, &[DatumRef::Int4(id), DatumRef::Int4(0)])?.done()?;
            }
            told = vec![0; CLIENTS as usize];
            table
        } else {
            tx.table("public", "t")?.expect("the table")
        };
        tx.commit(Durability::Sync)?.wait()?;
        let found = values(&db, &table)?;
        for (id, (found, told)) in found.iter().zip(&told).enumerate() {
            // The one that was under way may have been made durable.
            assert!(found == told || *found == told + 1, "life {life}, row {id}: {found} found, {told} acknowledged");
        }
        let acknowledged: Vec<_> = found.iter().map(|value| AtomicI32::new(*value)).collect();
        std::thread::scope(|scope| {
            for (id, (told, from)) in acknowledged.iter().zip(&found).enumerate() {
                let (db, table) = (&db, &table);
                scope.spawn(move || {
                    let error = client(db, table, id as i32, from + 1, told).expect_err("the power goes");
                    assert!(matches!(error.kind(), ErrorKind::Stopped | ErrorKind::Io), "{error}");
                });
            }
            std::thread::sleep(Duration::from_millis(300 + life * 13));
            // Not in the middle of one.
            let furthest = state.furthest.lock();
            state.is_off.store(true, Ordering::SeqCst);
            drop(furthest);
        });
        told = acknowledged.iter().map(|value| value.load(Ordering::SeqCst)).collect();
        holes += state.holes.load(Ordering::SeqCst);
        most = most.max(db.stats().log.flying_most);
        assert!(told.iter().zip(&found).all(|(told, found)| told > found), "life {life}: nothing was done");
        drop(table);
        drop(db);
    }
    eprintln!("{holes} writes were lost before others that were not, {most} flushes at once, at the end {told:?}");
    assert!(holes > 0 && most > 2, "{holes} {most}");
    // And everybody has all of it.
    let zoned = cluster.zoned();
    let db = cluster.open_zoned(&zoned, "primary")?;
    let table = db.begin(Isolation::ReadCommitted).table("public", "t")?.expect("the table");
    let found = values(&db, &table)?;
    assert!(found.iter().zip(&told).all(|(found, told)| found == told || *found == told + 1));
    let hardened = zoned.zone.status().expect("it is open").hardened;
    until("everything is destaged", || xlog.status().positions.is_some_and(|at| at.destaged >= hardened));
    db.close()
}
