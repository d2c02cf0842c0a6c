//! Commits a second by how long the log's disk takes to answer a sync, by clients, and by how many flushes may be under way at once.
//! In this process, without a server: each client is a thread that waits for its commit as a session does, by its ticket.

use std::fs;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use clap::Args;
use resurgam_engine::{
    ColumnType, Database, DatumRef, Durability, Isolation, Seen, StatementKind, Table, TableSpec, Transaction,
};
use resurgam_vfs::{File, FileLock, OpenMode, RealVfs, Vfs, VfsStats};

use crate::report::{provenance, table};
use crate::servers::Work;
use crate::{Common, Result, machine};

/// What is measured.
#[derive(Args)]
pub struct Options {
    #[command(flatten)]
    common: Common,
    /// Microseconds that each sync of the log takes longer than the disk's own
    #[arg(long, value_delimiter = ',', default_values_t = [0u64, 200, 2000])]
    delays: Vec<u64>,
    #[arg(long, value_delimiter = ',', default_values_t = [1usize, 16, 64])]
    clients: Vec<usize>,
    /// Flushes at once
    #[arg(long, value_delimiter = ',', default_values_t = [1usize, 2, 4, 8])]
    flights: Vec<usize>,
    /// Seconds of a run
    #[arg(long, default_value_t = 4.0)]
    seconds: f64,
}

/// Syncs of what is below a folder take longer: a disk behind a link, which has any number of them under way.
struct Link {
    inner: RealVfs,
    below: PathBuf,
    delay: Duration,
}

struct LinkFile {
    inner: Arc<dyn File>,
    delay: Duration,
}

impl File for LinkFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> resurgam_base::Result<usize> {
        self.inner.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> resurgam_base::Result<()> {
        self.inner.write_at(buf, offset)
    }
    fn sync(&self) -> resurgam_base::Result<()> {
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        self.inner.sync()
    }
    fn set_len(&self, len: u64) -> resurgam_base::Result<()> {
        self.inner.set_len(len)
    }
    fn len(&self) -> resurgam_base::Result<u64> {
        self.inner.len()
    }
    fn preallocate(&self, len: u64) -> resurgam_base::Result<()> {
        self.inner.preallocate(len)
    }
    fn path(&self) -> &Path {
        self.inner.path()
    }
}

impl Vfs for Link {
    fn open(&self, path: &Path, mode: OpenMode) -> resurgam_base::Result<Arc<dyn File>> {
        let inner = self.inner.open(path, mode)?;
        let is_there = path.starts_with(&self.below);
        Ok(if is_there { Arc::new(LinkFile { inner, delay: self.delay }) } else { inner })
    }
    fn exists(&self, path: &Path) -> resurgam_base::Result<bool> {
        self.inner.exists(path)
    }
    fn remove(&self, path: &Path) -> resurgam_base::Result<()> {
        self.inner.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> resurgam_base::Result<()> {
        self.inner.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> resurgam_base::Result<bool> {
        self.inner.rename_new(from, to)
    }
    fn create_dir_all(&self, path: &Path) -> resurgam_base::Result<()> {
        self.inner.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> resurgam_base::Result<Vec<String>> {
        self.inner.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> resurgam_base::Result<()> {
        self.inner.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> resurgam_base::Result<Box<dyn FileLock>> {
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

struct Unpark {
    thread: Thread,
    woken: AtomicBool,
}

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    let unpark = Arc::new(Unpark { thread: std::thread::current(), woken: AtomicBool::new(false) });
    let waker = Waker::from(Arc::clone(&unpark));
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        while !unpark.woken.swap(false, Ordering::SeqCst) {
            std::thread::park();
        }
    }
}

fn said<T>(result: resurgam_base::Result<T>) -> Result<T> {
    result.map_err(|e| e.to_string())
}

/// One client: updates its own row again and again, and returns how long each commit took.
fn client(db: &Database, table: &Arc<Table>, id: i32, until: Instant) -> resurgam_base::Result<Vec<Duration>> {
    let (mut took, mut key, mut n) = (Vec::new(), Vec::new(), 0);
    table.encode_key(&[DatumRef::Int4(id)], &mut key)?;
    while Instant::now() < until {
        n += 1;
        let begun = Instant::now();
        let tx: Transaction = db.begin(Isolation::ReadCommitted);
        let _view = tx.statement(StatementKind::PointWrite)?;
        tx.update(table, &key, Seen::Snapshot, &[DatumRef::Int4(id), DatumRef::Int4(n)])?.done()?;
        block_on(tx.commit(Durability::Sync)?)?;
        took.push(begun.elapsed());
    }
    Ok(took)
}

fn one(options: &Options, dir: &Path, delay: u64, clients: usize, flights: usize) -> Result<Vec<String>> {
    let log = dir.join("log");
    fs::create_dir_all(&log).map_err(|e| e.to_string())?;
    let link = Link { inner: RealVfs::new(), below: log.clone(), delay: Duration::from_micros(delay) };
    let settings = resurgam_engine::Options {
        log_dir: Some(log.join("files")),
        log_flights: flights,
        ..resurgam_engine::Options::default()
    };
    let db = said(Database::open_with(Arc::new(link), &dir.join("data"), settings, |_| {}))?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec =
        TableSpec::new("public", "t").column("id", ColumnType::Int4).column("n", ColumnType::Int4).primary_key(&["id"]);
    let t = said(said(tx.create_table(spec))?.done())?;
    for id in 0..clients as i32 {
        said(said(tx.insert(&t, &[DatumRef::Int4(id), DatumRef::Int4(0)]))?.done())?;
    }
    said(said(tx.commit(Durability::Sync))?.wait())?;
    let before = db.stats().log;
    let (begun, until) = (Instant::now(), Instant::now() + Duration::from_secs_f64(options.seconds));
    let results: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..clients as i32)
            .map(|id| {
                let (db, t) = (&db, &t);
                scope.spawn(move || client(db, t, id, until))
            })
            .collect();
        threads.into_iter().map(|thread| thread.join()).collect()
    });
    let seconds = begun.elapsed().as_secs_f64();
    let mut took = Vec::new();
    for result in results {
        took.extend(said(result.map_err(|_| "a client panicked")?)?);
    }
    took.sort_unstable();
    let at = |part: f64| {
        let index = (took.len() as f64 * part) as usize;
        took.get(index.min(took.len().saturating_sub(1))).map_or(0.0, |time| time.as_secs_f64() * 1e3)
    };
    let after = db.stats().log;
    let flushes = after.flushes - before.flushes;
    let row = vec![
        format!("{:.1}", delay as f64 / 1000.0),
        clients.to_string(),
        flights.to_string(),
        format!("{:.0}", took.len() as f64 / seconds),
        format!("{:.2}", at(0.5)),
        format!("{:.2}", at(0.99)),
        format!("{:.0}", flushes as f64 / seconds),
        format!("{:.1}", took.len() as f64 / flushes.max(1) as f64),
        after.flying_most.to_string(),
    ];
    drop(t);
    drop(tx);
    said(db.close())?;
    drop(db);
    fs::remove_dir_all(dir).map_err(|e| e.to_string())?;
    Ok(row)
}

/// The whole experiment.
pub fn run(options: &Options) -> Result<()> {
    let work = Work::new(&options.common)?;
    let mut rows = Vec::new();
    for delay in &options.delays {
        for clients in &options.clients {
            for flights in &options.flights {
                let dir = work.path().join(format!("{delay}-{clients}-{flights}"));
                rows.push(one(options, &dir, *delay, *clients, *flights)?);
            }
        }
    }
    let header = [
        "added to a sync, ms",
        "clients",
        "flushes at once, at most",
        "commits/s",
        "p50, ms",
        "p99, ms",
        "flushes/s",
        "commits a flush",
        "most at once",
    ];
    let text = format!(
        "# Flushes of the log at once\n\n{}\
         Clients each update a row of their own and wait for the commit, {} s for each line. Each sync of the log takes as much longer as the first \
         column says, as over a link to a disk that has any number of them under way (`--log-flights`; [xlog.md](../xlog.md)).\n\n{}\n{}\n",
        provenance(),
        options.seconds,
        machine::describe(work.path()),
        table(&header, &rows),
    );
    let path = options.common.out.join("flights.md");
    fs::write(&path, &text).map_err(|e| format!("could not write \"{}\": {e}", path.display()))?;
    println!("{text}\nwritten to {}", path.display());
    Ok(())
}
