//! Statements that do long work end at a cancel and at `statement_timeout`, with the disk stuck as
//! long as it takes to see it; and settings of transactions that cannot be committed.

mod common;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use common::{Db, accelerated, ok};
use parking_lot::{Condvar, Mutex};
use resurgam_base::{Error, ErrorKind, Result};
use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SqlError};
use resurgam_vfs::{Failing, FaultPlan, File, FileLock, OpenMode, RealVfs, SimVfs, Vfs, VfsStats};

/// What a file system does not do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stuck {
    /// Reads of this file wait.
    Reads(&'static str),
    /// Writes of this file wait.
    Writes(&'static str),
    /// Syncs below this folder fail.
    FailingSyncs(&'static str),
}

#[derive(Default)]
struct Gate {
    stuck: Mutex<Option<Stuck>>,
    moved: Condvar,
}

impl Gate {
    fn set(&self, stuck: Option<Stuck>) {
        *self.stuck.lock() = stuck;
        self.moved.notify_all();
    }
    fn pass(&self, what: Stuck) {
        let mut stuck = self.stuck.lock();
        while *stuck == Some(what) {
            self.moved.wait(&mut stuck);
        }
    }
}

struct GatedVfs(RealVfs, Arc<Gate>);
struct GatedFile(Arc<dyn File>, Arc<Gate>);

impl GatedFile {
    fn is_below(&self, folder: &str) -> bool {
        self.0.path().parent().is_some_and(|parent| parent.ends_with(folder))
    }
    fn name(&self) -> &'static str {
        ["data", "control"].into_iter().find(|name| self.0.path().ends_with(name)).unwrap_or("")
    }
}

impl File for GatedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize> {
        self.1.pass(Stuck::Reads(self.name()));
        self.0.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> Result<()> {
        self.1.pass(Stuck::Writes(self.name()));
        self.0.write_at(buf, offset)
    }
    fn sync(&self) -> Result<()> {
        let stuck = *self.1.stuck.lock();
        match stuck {
            Some(Stuck::FailingSyncs(folder)) if self.is_below(folder) => {
                Err(Error::new(ErrorKind::Io, "the disk is broken"))
            }
            _ => self.0.sync(),
        }
    }
    fn set_len(&self, len: u64) -> Result<()> {
        self.0.set_len(len)
    }
    fn len(&self) -> Result<u64> {
        self.0.len()
    }
    fn preallocate(&self, len: u64) -> Result<()> {
        self.0.preallocate(len)
    }
    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Vfs for GatedVfs {
    fn open(&self, path: &Path, mode: OpenMode) -> Result<Arc<dyn File>> {
        Ok(Arc::new(GatedFile(self.0.open(path, mode)?, Arc::clone(&self.1))))
    }
    fn exists(&self, path: &Path) -> Result<bool> {
        self.0.exists(path)
    }
    fn remove(&self, path: &Path) -> Result<()> {
        self.0.remove(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        self.0.rename(from, to)
    }
    fn rename_new(&self, from: &Path, to: &Path) -> Result<bool> {
        self.0.rename_new(from, to)
    }
    fn create_dir_all(&self, path: &Path) -> Result<()> {
        self.0.create_dir_all(path)
    }
    fn list(&self, dir: &Path) -> Result<Vec<String>> {
        self.0.list(dir)
    }
    fn sync_dir(&self, dir: &Path) -> Result<()> {
        self.0.sync_dir(dir)
    }
    fn lock(&self, path: &Path) -> Result<Box<dyn FileLock>> {
        self.0.lock(path)
    }
    fn now(&self) -> Duration {
        self.0.now()
    }
    fn wall_clock_us(&self) -> i64 {
        self.0.wall_clock_us()
    }
    fn random_u64(&self) -> u64 {
        self.0.random_u64()
    }
    fn stats(&self) -> VfsStats {
        self.0.stats()
    }
}

fn open(dir: &Path) -> (Db, Arc<Gate>) {
    let gate = Arc::<Gate>::default();
    let options = Options {
        buffer_bytes: 16 << 20,
        cleaner_interval_s: 86_400.0,
        accelerated_database_recovery: accelerated(),
        ..Options::default()
    };
    let vfs = Arc::new(GatedVfs(RealVfs::new(), Arc::clone(&gate)));
    (Db::of(Database::open_with(vfs, &dir.join("db"), options, |_| {}).expect("open")), gate)
}

async fn error(session: &mut Session, sql: &str) -> SqlError {
    session.query(sql).await.expect_err(sql)
}

/// Runs a statement that cannot come to its end, twice: until it is cancelled, and until its time
/// is up.
async fn ends_early(db: &Db, sql: &str) {
    let mut session = db.session();
    let cancel = session.cancel_handle();
    let running = tokio::spawn({
        let sql = sql.to_owned();
        async move { error(&mut session, &sql).await }
    });
    // It may not have begun yet: then a cancel is forgotten.
    let told = async {
        loop {
            tokio::time::sleep(Duration::from_millis(5)).await;
            cancel.cancel();
        }
    };
    let ended = tokio::select! {
        ended = running => ended.expect("no panic"),
        () = told => unreachable!("for ever"),
    };
    assert_eq!((ended.sqlstate.as_str(), &*ended.message), ("57014", "canceling statement due to user request"));
    let mut session = db.session();
    ok(&mut session, "SET statement_timeout = '20ms'").await;
    let ended = error(&mut session, sql).await;
    assert_eq!((ended.sqlstate.as_str(), &*ended.message), ("57014", "canceling statement due to statement timeout"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sweeps_and_checkpoints_end_when_told() {
    let dir = tempfile::tempdir().expect("folder");
    let (db, gate) = open(dir.path());
    let mut session = db.session();
    ok(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b text)").await;
    ok(&mut session, "INSERT INTO t SELECT i, repeat('x', 500) FROM generate_series(1, 60000) AS s(i)").await;
    ok(&mut session, "UPDATE t SET b = repeat('y', 500)").await;
    // The table is larger than the buffer pool: a sweep has pages to read.
    gate.set(Some(Stuck::Reads("data")));
    for sql in ["VACUUM", "EXEC sys.sp_persistent_version_cleanup", "SELECT * FROM resurgam_clean()"] {
        ends_early(&db, sql).await;
    }
    gate.set(None);
    assert_eq!(ok(&mut session, "SELECT count(*) FROM t WHERE b LIKE 'y%'").await, ["60000"]);
    ok(&mut session, "VACUUM").await;
    gate.set(Some(Stuck::Writes("control")));
    ends_early(&db, "CHECKPOINT").await;
    gate.set(None);
    ok(&mut session, "CHECKPOINT").await;
    drop(session);
    db.engine.close().expect("close");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_change_of_the_mode_that_is_cancelled_changes_nothing() {
    let dir = tempfile::tempdir().expect("folder");
    let (db, _) = open(dir.path());
    let (mut writer, mut session) = (db.session(), db.session());
    ok(&mut writer, "CREATE TABLE t (a int PRIMARY KEY)").await;
    ok(&mut writer, "BEGIN; INSERT INTO t VALUES (1)").await;
    let before = ok(&mut session, "SHOW accelerated_database_recovery").await;
    let to = if before == ["on"] { "off" } else { "on" };
    let change = format!("ALTER DATABASE postgres SET accelerated_database_recovery = {to}");
    ends_early(&db, &change).await;
    // One behind another, too: it waits for its turn.
    let mut first = db.session();
    let cancel = first.cancel_handle();
    let running = tokio::spawn({
        let change = change.clone();
        async move { error(&mut first, &change).await }
    });
    ends_early(&db, &change).await;
    while !running.is_finished() {
        cancel.cancel();
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    assert_eq!(running.await.expect("no panic").sqlstate, "57014");
    assert_eq!(ok(&mut session, "SHOW accelerated_database_recovery").await, before);
    // Others may write again at once.
    ok(&mut session, "INSERT INTO t VALUES (2)").await;
    ok(&mut writer, "COMMIT").await;
    ok(&mut session, &change).await;
    assert_eq!(ok(&mut session, "SHOW accelerated_database_recovery").await, [to]);
    assert_eq!(ok(&mut session, "SELECT a FROM t ORDER BY a").await, ["1", "2"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn settings_of_a_commit_that_fails_are_taken_back() {
    let dir = tempfile::tempdir().expect("folder");
    let (db, gate) = open(dir.path());
    let mut session = db.session();
    ok(&mut session, "CREATE TABLE t (a int PRIMARY KEY)").await;
    ok(&mut session, "BEGIN; INSERT INTO t VALUES (1); SET TimeZone = 'Asia/Tokyo'; COMMIT").await;
    ok(&mut session, "BEGIN; INSERT INTO t VALUES (2); SET TimeZone = 'Europe/Rome'").await;
    gate.set(Some(Stuck::FailingSyncs("log")));
    error(&mut session, "COMMIT").await;
    assert_eq!(ok(&mut session, "SHOW TimeZone").await, ["Asia/Tokyo"]);
}

/// The log is at its bound and the disk takes no pages: who writes waits inside of the engine, and ends
/// when told all the same.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn writers_that_wait_for_the_log_end_when_told() {
    let vfs = SimVfs::new(3);
    let options = Options {
        buffer_bytes: 128 << 20,
        log_segment_bytes: 1 << 20,
        checkpoint_log_bytes: 2 << 20,
        log_bytes_max: 16 << 20,
        cleaner_interval_s: 86_400.0,
        ..Options::default()
    };
    let engine = Database::open_with(Arc::new(vfs.clone()), Path::new("/db"), options, |_| {}).expect("open");
    let db = Db::of(engine);
    let mut session = db.session();
    ok(&mut session, "CREATE TABLE t (a int PRIMARY KEY, b text)").await;
    ok(&mut session, "INSERT INTO t SELECT i, 'x' FROM generate_series(1, 1000) AS s(i)").await;
    let failing = Failing { path: "/db/doublewrite".into(), writes: true, ..Failing::default() };
    vfs.set_faults(FaultPlan { failing: vec![failing], ..FaultPlan::default() });
    ok(&mut session, "SET statement_timeout = '3s'").await;
    let begun = std::time::Instant::now();
    let stuck = || db.engine.writers_wait() && db.engine.troubles().iter().any(|trouble| trouble.keeps_log);
    while !stuck() {
        let (log, troubles) = (db.engine.log_status(), db.engine.troubles());
        assert!(begun.elapsed() < Duration::from_secs(60), "{log:?} {troubles:?}");
        // Large values: what slows writers down counts rows and pieces of these.
        let filling = "INSERT INTO t SELECT i, repeat('y', 200000) FROM generate_series(2000, 1000000) AS s(i)";
        let ended = error(&mut session, filling).await;
        assert_eq!(ended.sqlstate, "57014", "{ended}");
    }
    assert_eq!(ok(&mut session, "SELECT count(*) FROM resurgam_troubles WHERE keeps_log").await, ["1"]);
    // One row, several rows, by a plan, and of a table that is made.
    for sql in [
        "INSERT INTO t VALUES (-1, 'z')",
        "UPDATE t SET b = 'z' WHERE a = 7",
        "DELETE FROM t WHERE a < 10",
        "INSERT INTO t SELECT -a, b FROM t WHERE b LIKE 'x%'",
        "CREATE TABLE u AS SELECT * FROM t",
    ] {
        ends_early(&db, sql).await;
    }
    let mut waiting = db.session();
    let pid = ok(&mut waiting, "SELECT pg_backend_pid()").await.remove(0);
    let running = tokio::spawn(async move { error(&mut waiting, "UPDATE t SET b = 'z' WHERE a = 8").await });
    let begun = std::time::Instant::now();
    while !running.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(30), "the session does not end");
        tokio::time::sleep(Duration::from_millis(50)).await;
        ok(&mut session, &format!("SELECT pg_terminate_backend({pid})")).await;
    }
    assert_eq!(running.await.expect("no panic").sqlstate, "57P01");
    // Who reads does not wait; who writes goes on when the disk does.
    assert_eq!(ok(&mut session, "SELECT count(*) FROM t WHERE b = 'x'").await, ["1000"]);
    vfs.set_faults(FaultPlan::default());
    ok(&mut session, "SET statement_timeout = '60s'").await;
    ok(&mut session, "UPDATE t SET b = 'z' WHERE a = 7").await;
    let begun = std::time::Instant::now();
    while !db.engine.troubles().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", db.engine.troubles());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
