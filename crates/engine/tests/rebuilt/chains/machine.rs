//! Databases made of one another on one simulated machine, each with an archive of its own and a table whose rows are known.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resurgam_archive::{Archive, Backup, Lease, ParentRecord};
use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};
use resurgam_xstore::{FolderStore, Store};

pub use crate::common::read;
use crate::common::{key, row};
use crate::rng::Rng;

pub const HOUR: Duration = Duration::from_secs(3600);
pub const ROWS: i64 = 2500;

pub type Rows = BTreeMap<i64, i64>;

/// A database, and what is in its table.
#[derive(Clone)]
pub struct Node {
    pub name: String,
    pub rows: Rows,
    pub traditional: bool,
    pub version_file: bool,
    /// Where it can be found again without its data folder.
    pub own_log: bool,
    /// Of the data, beside the archive.
    pub folder: &'static str,
    pub backups: bool,
    pub window: Duration,
}

impl Node {
    pub fn dir(&self) -> String {
        format!("/{}/{}", self.name, self.folder)
    }
    pub fn archive(&self) -> String {
        format!("/{}/archive", self.name)
    }
    pub fn backups(&self) -> String {
        format!("/{}/backups", self.name)
    }
    pub fn log(&self) -> String {
        if self.own_log { format!("/{}/log", self.name) } else { format!("{}/log", self.dir()) }
    }

    pub fn options(&self) -> Options {
        Options {
            buffer_bytes: 64 * limits::PAGE_SIZE,
            log_segment_bytes: 1 << 20,
            log_dir: self.own_log.then(|| self.log().into()),
            archive: Some(self.archive()),
            backups: self.backups.then(|| self.backups()),
            recovery_window: self.window,
            archive_records_per_page_max: 16,
            accelerated_database_recovery: !self.traditional,
            version_pages_ready: 4,
            background: false,
            ..Options::default()
        }
    }

    pub fn open(&self, sim: &SimVfs) -> Result<Database> {
        self.open_with(sim, self.options())
    }

    pub fn open_with(&self, sim: &SimVfs, options: Options) -> Result<Database> {
        Database::open_with(Arc::new(sim.clone()), Path::new(&self.dir()), options, |_| {})
    }

    /// One of this name with the same rows, of which nothing is there yet.
    pub fn child(&self, name: &str) -> Self {
        Self { name: name.to_owned(), version_file: false, ..self.clone() }
    }

    /// Changes, adds and deletes some rows, in a transaction that commits and one that does not.
    pub fn write(&mut self, db: &Database, value: i64, rng: &mut Rng) -> Result<()> {
        let note = format!("{value} ").repeat(60);
        let lost = db.begin(Isolation::ReadCommitted);
        let table = table(&lost)?;
        for _ in 0..10 {
            let id = rng.below(ROWS as u64) as i64;
            if self.rows.contains_key(&id) {
                lost.statement(StatementKind::PointWrite)?;
                lost.update(&table, &key(&table, id)?, Seen::Snapshot, &row(id, -1, "lost"))?.done()?;
            }
        }
        lost.rollback()?;
        let tx = db.begin(Isolation::ReadCommitted);
        for _ in 0..40 {
            let id = rng.below(ROWS as u64 + 200) as i64;
            tx.statement(StatementKind::PointWrite)?;
            let key = key(&table, id)?;
            match self.rows.contains_key(&id) {
                true if rng.below(5) == 0 => {
                    tx.delete(&table, &key, Seen::Snapshot)?.done()?;
                    self.rows.remove(&id);
                }
                true => {
                    tx.update(&table, &key, Seen::Snapshot, &row(id, value, &note))?.done()?;
                    self.rows.insert(id, value);
                }
                false => {
                    tx.insert(&table, &row(id, value, &note))?.done()?;
                    self.rows.insert(id, value);
                }
            }
        }
        tx.commit(Durability::Sync)?.wait()
    }

    /// The rows are these.
    pub fn same(&self, db: &Database, when: &str) -> Result<()> {
        let found = read(db)?;
        let wrong = self.rows.iter().find(|(id, v)| found.get(id) != Some(v));
        assert!(
            found == self.rows,
            "{when}, {}: {} rows, not {}; row {wrong:?}",
            self.name,
            found.len(),
            self.rows.len()
        );
        Ok(())
    }

    /// All of it is, and is sound.
    pub fn sound(&self, db: &Database, when: &str) -> Result<()> {
        self.same(db, when)?;
        db.finish_recovery()?;
        assert_eq!(db.verify()?, Vec::<String>::new(), "{when}, {}", self.name);
        Ok(())
    }

    /// What its archive makes of it, in a new folder; no backup of it is named.
    pub fn request(&self, target: &str) -> RestoreRequest {
        RestoreRequest { whole: false, ..RestoreRequest::new(self.archive(), target) }
    }

    /// The names of the leases in its archive.
    pub fn leases(&self, sim: &SimVfs) -> Result<Vec<String>> {
        Ok(Lease::list(&*self.store(sim)?)?.into_iter().map(|lease| lease.name).collect())
    }

    pub fn store(&self, sim: &SimVfs) -> Result<Arc<dyn Store>> {
        Ok(Arc::new(FolderStore::open(Arc::new(sim.clone()), Path::new(&self.archive()))?))
    }

    /// Where its archive begins.
    pub fn archived_from(&self, sim: &SimVfs) -> Result<Lsn> {
        let view = Archive::open_view(self.store(sim)?, None)?.ok_or_else(|| Error::internal("no archive"))?;
        Ok(view.start())
    }

    /// From where on a backup needs log.
    pub fn backup_begins(&self, sim: &SimVfs, name: &str) -> Result<Lsn> {
        let store: Arc<dyn Store> = Arc::new(FolderStore::open(Arc::new(sim.clone()), Path::new(&self.backups()))?);
        Ok(Backup::open(&store, name)?.summary().begin)
    }

    pub fn record(&self, sim: &SimVfs) -> Result<Option<ParentRecord>> {
        ParentRecord::read(&*self.store(sim)?)
    }
}

pub fn table(tx: &Transaction) -> Result<Arc<Table>> {
    tx.table("public", "t")?.ok_or_else(|| Error::internal("no table"))
}

pub fn vfs(sim: &SimVfs) -> Arc<dyn Vfs> {
    Arc::new(sim.clone())
}

/// A database with several segments of pages, made of nothing; its archive has all of it.
pub fn first(seed: u64, backups: bool, window: Duration) -> Result<(SimVfs, Node)> {
    let sim = SimVfs::new(seed);
    for folder in ["/p", "/a", "/b", "/c", "/r", "/s"] {
        sim.make_folder(Path::new(folder))?;
    }
    let mut node = Node {
        name: "p".into(),
        rows: Rows::new(),
        traditional: seed.is_multiple_of(2),
        version_file: seed % 4 < 2,
        own_log: false,
        folder: "data",
        backups,
        window,
    };
    let options = Options { version_store_path: node.version_file.then(|| "/p/versions".into()), ..node.options() };
    let db = node.open_with(&sim, options)?;
    let tx = db.begin(Isolation::ReadCommitted);
    let spec = TableSpec::new("public", "t").column("id", ColumnType::Int8).column("v", ColumnType::Int8);
    let spec = spec.column("note", ColumnType::Text).primary_key(&["id"]).index("t_v", &["v"], false);
    let table = tx.create_table(spec)?.done()?;
    tx.statement(StatementKind::BulkWrite)?;
    let note = "n".repeat(700);
    for id in 0..ROWS {
        tx.insert(&table, &row(id, 0, &note))?.done()?;
        node.rows.insert(id, 0);
    }
    tx.commit(Durability::Sync)?.wait()?;
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    db.archive_now()?;
    db.close()?;
    Ok((sim, node))
}

/// An hour of a database with a window: changes, a checkpoint, merges, a backup now and then, a pass.
pub fn hour(sim: &SimVfs, node: &mut Node, db: &Database, round: i64, rng: &mut Rng) -> Result<()> {
    node.write(db, round, rng)?;
    db.archive_now()?;
    node.write(db, round, rng)?;
    sim.advance(HOUR);
    while db.write_back()? > 0 {}
    db.checkpoint()?;
    db.archive_now()?;
    db.merge_archive()?;
    if node.backups && round % 3 == 0 {
        db.backup(false, &|| false)?;
    }
    db.expire_archive().map(drop)
}

/// Removes a folder's files, and those of the folders in it, as a disk that is gone.
pub fn lose(sim: &SimVfs, dir: &str) -> Result<()> {
    for name in sim.list(Path::new(dir))? {
        let path = format!("{dir}/{name}");
        match sim.list(Path::new(&path)) {
            Ok(_) => lose(sim, &path)?,
            Err(_) => sim.remove(Path::new(&path))?,
        }
    }
    sim.sync_dir(Path::new(dir))
}

/// Moves the files of a folder, and of the folders in it.
pub fn rename_folder(sim: &SimVfs, from: &str, to: &str) -> Result<()> {
    sim.make_folder(Path::new(to))?;
    for name in sim.list(Path::new(from))? {
        let (from, to) = (format!("{from}/{name}"), format!("{to}/{name}"));
        match sim.list(Path::new(&from)) {
            Ok(_) => rename_folder(sim, &from, &to)?,
            Err(_) => sim.rename(Path::new(&from), Path::new(&to))?,
        }
    }
    sim.sync_dir(Path::new(to))
}
