//! A primary and page servers in one process, over real sockets and files.
#![allow(dead_code)]

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use resurgam_cluster::{
    ArchiveTarget, LandingZone, LogServiceConfig, NodeConfig, PageClientConfig, PageServerNode, Primary, PrimaryConfig,
    SeedSource, Tls, TlsFiles, XlogConfig, XlogNode, ZoneConfig,
};
use resurgam_engine::*;
use resurgam_pageserver::{ArchiveSeed, Partitions, Seed};
use resurgam_vfs::{RealVfs, Vfs};
use resurgam_xlog::{ArchivingConfig, Control, CoreConfig, StoreControl};
use resurgam_xstore::{FolderStore, Store};

#[path = "../../../rbio/src/tls/certificates.rs"]
pub mod certificates;
use certificates::{Certificates, GOOD};

/// What all parts may have in common; none: openssl is not there.
pub fn tls() -> Option<(Certificates, Arc<Tls>)> {
    let made = Certificates::make()?;
    made.add("part", GOOD);
    let tls = tls_of(&made, "part");
    Some((made, tls))
}

pub fn tls_of(made: &Certificates, name: &str) -> Arc<Tls> {
    let files = TlsFiles {
        cert: made.path(&format!("{name}.crt")),
        key: made.path(&format!("{name}.key")),
        ca: made.path("ca.crt"),
        read_key: |path| std::fs::read(path).map_err(|error| error.to_string()),
    };
    Tls::open(files).expect("certificates that fit")
}

/// An address that nobody has, of this machine.
pub fn free_address() -> String {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port");
    socket.local_addr().expect("its address").to_string()
}

pub struct Cluster {
    dir: tempfile::TempDir,
    /// Where the primary gives the log, and where page servers are told that it does.
    pub log: String,
    pub log_seen: String,
    /// Where the page servers listen, and where the primary is told that they do.
    pub pages: Vec<String>,
    pub pages_seen: Vec<String>,
    pub lease: Duration,
    pub patience: Duration,
    /// With a log service: where it listens, and where it is told that it does.
    pub xlog: Option<(String, String)>,
    pub log_bytes_max: u64,
    pub buffer_pages: usize,
    pub read_ahead_pages: usize,
    /// Pages of a partition, and which partitions each page server has; none: all.
    pub partition_pages: u64,
    pub partitions: Vec<String>,
    /// See [`LogServiceConfig`].
    pub forgets: u32,
    pub checkpoint: Duration,
    /// So much log is applied by several threads.
    pub batch_bytes: usize,
    /// See [`PageClientConfig`].
    pub ignores_lag: bool,
    /// Pages in the primary's cache; 0: there is none.
    pub cache_pages: u64,
    /// Of all of them.
    pub tls: Option<Arc<Tls>>,
    /// The log service archives, and not the primary.
    pub log_service_archives: bool,
    /// And merges what it archives, as those of before do not; how far back points are promised.
    pub log_service_merges: bool,
    pub recovery_window: Duration,
    /// The same as the primary is told.
    pub primary_window: Duration,
    /// What stands before the archive's place for the log service.
    pub archive_through: Option<Through>,
    pub long_term_retention: Duration,
    /// A second log service, over the same landing zone and long-term log.
    pub second_log: Option<String>,
}

/// What stands before a store.
pub type Through = Arc<dyn Fn(Arc<dyn Store>) -> Arc<dyn Store> + Send + Sync>;

/// Whatever can be done to a record, until it is out of reach.
pub struct Reach {
    below: StoreControl,
    pub cut: AtomicBool,
}

impl Control for Reach {
    fn read(&self) -> Result<Option<(u64, Vec<u8>)>> {
        self.look().and_then(|()| self.below.read())
    }
    fn replace(&self, known: u64, bytes: &[u8]) -> Result<Option<u64>> {
        self.look().and_then(|()| self.below.replace(known, bytes))
    }
}

impl Reach {
    fn look(&self) -> Result<()> {
        match self.cut.load(Ordering::SeqCst) {
            true => Err(Error::new(ErrorKind::Io, "the record cannot be reached")),
            false => Ok(()),
        }
    }
}

/// A primary with its log in a landing zone.
pub struct Zoned {
    pub primary: Arc<Primary>,
    pub zone: Arc<LandingZone>,
    pub record: Arc<Reach>,
    pub lost: Arc<AtomicBool>,
}

impl Cluster {
    /// With a log service between primary and page servers.
    pub fn with_log_service(page_servers: usize) -> Self {
        let mut this = Self::new(page_servers);
        this.xlog = Some((this.log.clone(), this.log.clone()));
        this
    }

    fn control(&self) -> StoreControl {
        StoreControl::new(self.store("zone/control"), "")
    }

    pub fn store(&self, name: &str) -> Arc<dyn Store> {
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
        Arc::new(FolderStore::open(vfs, &self.path(name)).expect("a folder"))
    }

    pub fn log_service(&self) -> XlogNode {
        self.log_service_at("xlog", &self.xlog.as_ref().expect("a log service").0)
    }

    /// One in another folder, of the same landing zone and long-term log.
    pub fn log_service_at(&self, folder: &str, address: &str) -> XlogNode {
        let core = CoreConfig {
            sequence_bytes: 256 << 10,
            object_bytes: 256 << 10,
            destage: Duration::from_millis(200),
            ..CoreConfig::default()
        };
        let config = XlogConfig {
            dir: self.path(folder),
            listen: address.to_owned(),
            zone_log: self.path("zone/log"),
            control: Arc::new(self.control()),
            long_term: self.store("long-term"),
            retention: self.long_term_retention,
            cache_bytes: 1 << 20,
            archive: self.log_service_archives.then(|| {
                let (path, backups) = (self.path("archive"), self.path("backups"));
                let through = self.archive_through.clone();
                let open = |path: &Path| -> Result<Arc<dyn Store>> {
                    let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
                    // Away, as an object store may be.
                    Ok(Arc::new(FolderStore::existing(vfs, path).map_err(Error::from)?))
                };
                ArchiveTarget {
                    open: Arc::new(move || {
                        let store = open(&path)?;
                        Ok(through.as_ref().map_or_else(|| Arc::clone(&store), |through| through(Arc::clone(&store))))
                    }),
                    keep: self.log_service_merges.then(|| ArchiveKeeperConfig {
                        vfs: Arc::new(RealVfs::new()),
                        backups: Some(Arc::new(move || open(&backups))),
                        recovery_window: self.recovery_window,
                        records_per_page_max: 256,
                        cpu_percent: 100,
                        rests: true,
                    }),
                    config: ArchivingConfig {
                        lease: Duration::from_millis(500),
                        delay: Duration::from_millis(50),
                        run_bytes: 1 << 20,
                        ..ArchivingConfig::default()
                    },
                }
            }),
            core,
            tls: self.tls.clone(),
        };
        XlogNode::start(Arc::new(RealVfs::new()), config).expect("a log service")
    }

    pub fn zoned(&self) -> Zoned {
        let record = Arc::new(Reach { below: self.control(), cut: AtomicBool::new(false) });
        let lost = Arc::new(AtomicBool::new(false));
        let config = ZoneConfig {
            control: Arc::clone(&record) as Arc<dyn Control>,
            lease: Duration::from_millis(600),
            log_services: self.xlog.iter().map(|(_, seen)| seen.clone()).chain(self.second_log.clone()).collect(),
            log_bytes_max: self.log_bytes_max,
            tls: self.tls.clone(),
            lost: Arc::new({
                let lost = Arc::clone(&lost);
                move |_| lost.store(true, Ordering::SeqCst)
            }),
        };
        let zone = Arc::new(LandingZone::new(config));
        let primary = Arc::new(Primary::new(PrimaryConfig {
            listen: None,
            zone: Some(Arc::clone(&zone)),
            page_servers: self.pages_seen.clone(),
            log: LogServiceConfig { lease: self.lease, forgets: self.forgets },
            pages: self.client(),
            cache: self.cache(),
            tls: self.tls.clone(),
        }));
        Zoned { primary, zone, record, lost }
    }

    pub fn open_zoned(&self, zoned: &Zoned, folder: &str) -> Result<Database> {
        self.open_zoned_on(Arc::new(RealVfs::new()), zoned, folder)
    }

    pub fn open_zoned_on(&self, vfs: Arc<dyn Vfs>, zoned: &Zoned, folder: &str) -> Result<Database> {
        let options = Options {
            log_dir: Some(self.path("zone/log")),
            log_zone: Some(LogZoneHandle(Arc::clone(&zoned.zone) as Arc<dyn LogZone>)),
            log_bytes_max: self.log_bytes_max,
            archive_elsewhere: self.log_service_archives,
            ..self.options(&zoned.primary)
        };
        Database::open_with(vfs, &self.path(folder), options, |_| {})
    }

    pub fn new(page_servers: usize) -> Self {
        let dir = tempfile::tempdir().expect("a folder");
        for name in ["archive", "backups"] {
            std::fs::create_dir(dir.path().join(name)).expect("a folder");
        }
        let pages: Vec<_> = (0..page_servers).map(|_| free_address()).collect();
        let log = free_address();
        Self {
            dir,
            log_seen: log.clone(),
            log,
            pages_seen: pages.clone(),
            pages,
            lease: Duration::from_secs(600),
            patience: Duration::from_secs(60),
            xlog: None,
            log_bytes_max: 1 << 30,
            buffer_pages: 64,
            read_ahead_pages: 128,
            partition_pages: 128,
            partitions: Vec::new(),
            forgets: 0,
            checkpoint: Duration::from_millis(200),
            batch_bytes: 2000,
            ignores_lag: false,
            cache_pages: 0,
            tls: None,
            log_service_archives: false,
            log_service_merges: true,
            recovery_window: Duration::ZERO,
            primary_window: Duration::ZERO,
            archive_through: None,
            long_term_retention: Duration::ZERO,
            second_log: None,
        }
    }

    fn client(&self) -> PageClientConfig {
        PageClientConfig {
            patience: self.patience,
            partition_pages: self.partition_pages,
            ignores_lag: self.ignores_lag,
            ..PageClientConfig::default()
        }
    }

    fn cache(&self) -> Option<(Arc<dyn Vfs>, resurgam_rbpex::Config)> {
        let config =
            resurgam_rbpex::Config::new(self.path("cache"), self.cache_pages * (limits::PAGE_SIZE as u64 + 64));
        (self.cache_pages > 0).then(|| (Arc::new(RealVfs::new()) as Arc<dyn Vfs>, config))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn page_server(&self, number: usize) -> PageServerNode {
        let mut config = NodeConfig::new(
            self.path(&format!("pages-{number}")),
            &self.pages[number],
            [self.log_seen.clone()].into_iter().chain(self.second_log.clone()).collect(),
            &format!("page server {number}"),
        );
        config.memory_bytes = 1 << 20;
        (config.apply_workers, config.batch_bytes) = (3, self.batch_bytes);
        config.checkpoint = self.checkpoint;
        config.tls = self.tls.clone();
        if let Some(text) = self.partitions.get(number) {
            config.partitions = Partitions::parse(text, self.partition_pages).expect("partitions");
        }
        let (archive, backups) = (self.path("archive"), self.path("backups"));
        let seeds: SeedSource = Box::new(move |database, first| {
            let open = |path: &Path| -> Result<Arc<dyn Store>> {
                let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
                Ok(Arc::new(FolderStore::open(vfs, path).map_err(Error::from)?))
            };
            let seed = ArchiveSeed::new(open(&archive)?, Some(open(&backups)?), database, first);
            Ok(Some(Arc::new(seed) as Arc<dyn Seed>))
        });
        // A port may be free a moment later only.
        let begun = Instant::now();
        let vfs: Arc<dyn Vfs> = Arc::new(RealVfs::new());
        PageServerNode::start(vfs, config, seeds).unwrap_or_else(|error| panic!("{error} after {:?}", begun.elapsed()))
    }

    pub fn primary(&self) -> Arc<Primary> {
        Arc::new(Primary::new(PrimaryConfig {
            listen: Some(self.log.clone()),
            zone: None,
            page_servers: self.pages_seen.clone(),
            log: LogServiceConfig { lease: self.lease, forgets: self.forgets },
            pages: self.client(),
            cache: self.cache(),
            tls: self.tls.clone(),
        }))
    }

    /// With so few pages in memory that most reads go to the page servers.
    pub fn open(&self, primary: &Arc<Primary>) -> Result<Database> {
        Database::open(self.path("primary"), self.options(primary))
    }

    fn options(&self, primary: &Arc<Primary>) -> Options {
        let text = |name: &str| self.path(name).to_str().expect("a path").to_owned();
        Options {
            buffer_bytes: self.buffer_pages * limits::PAGE_SIZE,
            read_ahead_pages: self.read_ahead_pages,
            log_segment_bytes: 1 << 20,
            archive_cpu_percent: 100,
            recovery_window: self.primary_window,
            archive: Some(text("archive")),
            backups: Some(text("backups")),
            pages: Some(PageServiceHandle(Arc::clone(primary) as Arc<dyn PageService>)),
            ..Options::default()
        }
    }
}

/// Rows that are known.
pub struct Rows {
    pub table: Arc<Table>,
    pub values: Vec<i64>,
}

const PAD: &str = "some two hundred bytes, so that a page has few rows; some two hundred bytes, so that a page has few rows; \
                   some two hundred bytes, so that a page has few rows; some two hundred bytes";

impl Rows {
    pub fn create(db: &Database, count: i64) -> Result<Self> {
        let tx = db.begin(Isolation::ReadCommitted);
        let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("n", ColumnType::Int8);
        let table = tx.create_table(spec.column("pad", ColumnType::Text).primary_key(&["id"]))?.done()?;
        tx.statement(StatementKind::PointWrite)?;
        for id in 0..count {
            tx.insert(&table, &[DatumRef::Int8(id), DatumRef::Int8(0), DatumRef::Text(PAD)])?.done()?;
        }
        tx.commit(Durability::Sync)?.wait()?;
        Ok(Self { table, values: vec![0; count as usize] })
    }

    /// The same rows of a database that was opened again.
    pub fn again(self, db: &Database) -> Result<Self> {
        let tx = db.begin(Isolation::ReadCommitted);
        let table = tx.table("public", "t")?.ok_or_else(|| Error::new(ErrorKind::UndefinedTable, "t"))?;
        Ok(Self { table, ..self })
    }

    fn key(&self, id: i64) -> Result<Vec<u8>> {
        let mut key = Vec::new();
        self.table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
        Ok(key)
    }

    /// Changes some rows in a transaction of its own.
    pub fn change(&mut self, db: &Database, ids: impl Iterator<Item = i64>, n: i64) -> Result<()> {
        let tx = db.begin(Isolation::ReadCommitted);
        tx.statement(StatementKind::PointWrite)?;
        let mut changed = Vec::new();
        for id in ids {
            let row = [DatumRef::Int8(id), DatumRef::Int8(n), DatumRef::Text(PAD)];
            tx.update(&self.table, &self.key(id)?, Seen::Snapshot, &row)?.done()?;
            changed.push(id);
        }
        tx.commit(Durability::Sync)?.wait()?;
        changed.into_iter().for_each(|id| self.values[id as usize] = n);
        Ok(())
    }

    /// Every row is what was committed last, one by one and in a scan.
    pub fn check(&self, db: &Database) -> Result<()> {
        self.check_one_by_one(db)?;
        for direction in [Direction::Forward, Direction::Backward] {
            let tx = db.begin(Isolation::ReadCommitted);
            let found = self.scan(&tx.statement(StatementKind::Read)?, direction)?;
            let expected = self.values.iter().enumerate().map(|(id, n)| (id as i64, *n));
            assert_eq!(found, expected.collect::<Vec<_>>(), "{direction:?}");
        }
        Ok(())
    }

    /// One of them.
    pub fn read_one(&self, view: &ReadView, id: i64) -> Result<()> {
        let mut row = RowBuf::default();
        assert!(view.get(&self.table, &self.key(id)?, &mut row)?, "row {id} is not there");
        let DatumRef::Int8(found) = self.table.column(row.raw(), 1)? else { panic!("row {id} has no number") };
        assert_eq!(found, self.values[id as usize], "row {id}");
        Ok(())
    }

    /// Scans three times in both directions find all rows, and have asked for most pages ahead.
    pub fn scan_ahead(&self, db: &Database) -> Result<()> {
        let before = db.stats().pool;
        for _ in 0..3 {
            for direction in [Direction::Forward, Direction::Backward] {
                let tx = db.begin(Isolation::ReadCommitted);
                let found = self.scan(&tx.statement(StatementKind::Read)?, direction)?;
                assert!(found.iter().map(|(_, n)| *n).eq(self.values.iter().copied()), "{direction:?}");
            }
        }
        let after = db.stats().pool;
        let of = |count: fn(&PoolStats) -> u64| count(&after) - count(&before);
        let (asked, used, alone) = (of(|s| s.ahead_asked), of(|s| s.ahead_used), of(|s| s.remote_pages));
        // On a busy machine scans are faster than the threads that ask, and ask themselves more often.
        assert!(asked > 1000 && used * 10 > asked * 9, "{asked} asked for ahead, {used} of them used");
        assert!(alone * 2 < used, "{alone} one by one, {used} ahead");
        Ok(())
    }

    /// All rows, in the order of their ids.
    pub fn scan(&self, view: &ReadView, direction: Direction) -> Result<Vec<(i64, i64)>> {
        let mut cursor = view.scan(&self.table, KeyRange::all(), direction);
        let (mut batch, mut found) = (RowBatch::default(), Vec::new());
        while cursor.next_batch(&mut batch, 1000)? {
            for at in 0..batch.len() {
                let column = |column| self.table.column(batch.row(at), column);
                let (DatumRef::Int8(id), DatumRef::Int8(n)) = (column(0)?, column(1)?) else { panic!("no numbers") };
                found.push((id, n));
            }
            batch.clear();
        }
        if direction == Direction::Backward {
            found.reverse();
        }
        Ok(found)
    }

    fn check_one_by_one(&self, db: &Database) -> Result<()> {
        let tx = db.begin(Isolation::ReadCommitted);
        let view = tx.statement(StatementKind::Read)?;
        (0..self.values.len() as i64).try_for_each(|id| self.read_one(&view, id))
    }
}

/// Waits for something, and says what it waited for.
pub fn until(what: &str, is_so: impl Fn() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(60), "waited for: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}
