//! A random history of a database with an archive, and what its rows are at many points of it.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::*;
use resurgam_vfs::{SimVfs, Vfs};

use crate::common::{key, row};
use crate::rng::Rng;

pub const DIR: &str = "/db";
pub const ARCHIVE: &str = "/disk5/archive";
/// Transactions under way at a time; each has the ids that leave its number over.
const SLOTS: usize = 4;
const IDS: i64 = 120;

/// Rows of each table.
pub type Rows = BTreeMap<String, BTreeMap<i64, (i64, String)>>;

/// A change of a row; none: it is deleted.
type Op = (String, i64, Option<(i64, String)>);

/// Something that ended, and all there is then.
#[derive(Clone, Debug)]
pub struct Point {
    pub lsn: Lsn,
    /// Set where it was a commit.
    pub time: Option<i64>,
    pub rows: Rows,
    pub in_doubt: BTreeMap<String, Vec<Op>>,
    /// Transactions were under way that had written.
    pub unfinished: usize,
    /// The highest id of a transaction that committed or was prepared by then. (What others have written may not be in the log yet.)
    pub highest: TxId,
}

struct Slot {
    tx: Transaction,
    ops: Vec<Op>,
    savepoints: Vec<(Savepoint, usize)>,
}

/// How a history goes.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub seed: u64,
    pub traditional: bool,
    pub version_file: bool,
    pub events: usize,
    /// The log is kept from its beginning on.
    pub keep_log: bool,
}

pub struct History {
    pub sim: SimVfs,
    pub points: Vec<Point>,
    /// Every table there ever was.
    pub tables: Vec<String>,
    pub options: Options,
}

pub fn options(shape: Shape) -> Options {
    Options {
        buffer_bytes: 1 << 20,
        log_segment_bytes: 1 << 20,
        archive: Some(ARCHIVE.into()),
        accelerated_database_recovery: !shape.traditional,
        version_store_path: shape.version_file.then(|| "/disk2/versions".into()),
        versions: VersionCaps { in_row: !shape.seed.is_multiple_of(3), ..VersionCaps::default() },
        version_pages_ready: 4,
        background: false,
        ..Options::default()
    }
}

pub fn open(sim: &SimVfs, dir: &str, options: Options) -> Result<Database> {
    Database::open_with(Arc::new(sim.clone()), Path::new(dir), options, |_| {})
}

pub fn apply(rows: &mut Rows, ops: &[Op]) {
    for (table, id, value) in ops {
        let Some(table) = rows.get_mut(table) else { continue };
        match value {
            Some(value) => table.insert(*id, value.clone()),
            None => table.remove(id),
        };
    }
}

fn spec(name: &str) -> TableSpec {
    TableSpec::new("public", name)
        .column("id", ColumnType::Int8)
        .column("v", ColumnType::Int8)
        .column("note", ColumnType::Text)
        .primary_key(&["id"])
        .index(&format!("{name}_v"), &["v"], false)
}

/// All rows of those tables that exist.
pub fn read(db: &Database, tables: &[String]) -> Result<Rows> {
    let tx = db.begin(Isolation::ReadCommitted);
    let mut rows = Rows::new();
    for name in tables {
        let Some(table) = tx.table("public", name)? else { continue };
        let view = tx.statement(StatementKind::Read)?;
        let mut cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
        let (mut batch, of) = (RowBatch::default(), rows.entry(name.clone()).or_default());
        loop {
            batch.clear();
            if !cursor.next_batch(&mut batch, 500)? {
                break;
            }
            for i in 0..batch.len() {
                let column = |at| table.column(batch.row(i), at);
                let (DatumRef::Int8(id), DatumRef::Int8(v)) = (column(0)?, column(1)?) else { panic!("no numbers") };
                let note = match column(2)? {
                    DatumRef::Text(note) => note.to_owned(),
                    DatumRef::External(at) => String::from_utf8(view.read_external(at)?).expect("text"),
                    other => panic!("{other:?}"),
                };
                of.insert(id, (v, note));
            }
        }
    }
    Ok(rows)
}

struct Run {
    shape: Shape,
    rng: Rng,
    db: Option<Database>,
    hold: Option<LogHold>,
    slots: Vec<Option<Slot>>,
    rows: Rows,
    in_doubt: BTreeMap<String, Vec<Op>>,
    /// Slots whose ids are those of a transaction in doubt.
    held: BTreeMap<String, usize>,
    history: History,
    number: u64,
    highest: TxId,
}

impl History {
    /// Makes one. The database is closed cleanly, or its power lost, at the end; all of its log is archived.
    pub fn make(shape: Shape) -> Result<Self> {
        let sim = SimVfs::new(shape.seed);
        for dir in ["/disk2", "/disk5", "/new"] {
            sim.make_folder(Path::new(dir))?;
        }
        let options = options(shape);
        let db = open(&sim, DIR, options.clone())?;
        let history = Self { sim, points: Vec::new(), tables: Vec::new(), options };
        let mut run = Run {
            shape,
            rng: Rng::new(shape.seed + 1),
            db: Some(db),
            hold: None,
            slots: (0..SLOTS).map(|_| None).collect(),
            rows: Rows::new(),
            in_doubt: BTreeMap::new(),
            held: BTreeMap::new(),
            history,
            number: 0,
            highest: TxId::NONE,
        };
        run.hold()?;
        run.create_table()?;
        for _ in 0..shape.events {
            run.event()?;
        }
        let db = run.db()?;
        db.archive_now()?;
        run.slots.clear();
        if run.rng.below(2) == 0 {
            db.close()?;
        }
        (run.db, run.hold) = (None, None);
        Ok(run.history)
    }
}

impl Run {
    fn db(&self) -> Result<Database> {
        self.db.clone().ok_or_else(|| Error::internal("no database"))
    }

    fn hold(&mut self) -> Result<()> {
        let db = self.db()?;
        self.hold = if self.shape.keep_log { Some(db.hold_log("the test", db.log_status().oldest)?) } else { None };
        Ok(())
    }

    fn note(&mut self, committed: bool) -> Result<()> {
        let unfinished = self.slots.iter().flatten().filter(|slot| slot.tx.has_written()).count();
        let point = Point {
            lsn: self.db()?.log_status().flushed,
            time: committed.then(|| self.history.sim.wall_clock_us()),
            rows: self.rows.clone(),
            in_doubt: self.in_doubt.clone(),
            unfinished,
            highest: self.highest,
        };
        self.history.points.push(point);
        Ok(())
    }

    fn create_table(&mut self) -> Result<()> {
        let name = format!("t{}", self.history.tables.len());
        let db = self.db()?;
        let tx = db.begin(Isolation::ReadCommitted);
        tx.create_table(spec(&name))?.done()?;
        tx.commit(Durability::Sync)?.wait()?;
        self.history.tables.push(name.clone());
        self.rows.insert(name, BTreeMap::new());
        self.note(true)
    }

    fn event(&mut self) -> Result<()> {
        self.history.sim.advance(Duration::from_micros(1 + self.rng.below(5_000_000)));
        let db = self.db()?;
        match self.rng.below(100) {
            0..=1 => self.create_table()?,
            2 if self.slots.iter().all(Option::is_none) && self.in_doubt.is_empty() && self.rows.len() > 1 => {
                let name = self.rows.keys().next().cloned().unwrap_or_default();
                let tx = db.begin(Isolation::ReadCommitted);
                let table = tx.table("public", &name)?.ok_or_else(|| Error::internal("no table"))?;
                tx.drop_table(&table)?.done()?;
                if self.rng.below(2) == 0 {
                    tx.commit(Durability::Sync)?.wait()?;
                    self.rows.remove(&name);
                    self.note(true)?;
                } else {
                    tx.rollback()?;
                }
            }
            3..=6 => db.checkpoint()?,
            7..=9 => drop(db.write_back()?),
            10..=14 => db.archive_now()?,
            15 => db.merge_archive()?,
            16..=17 => drop(db.clean()?),
            18 if self.rng.below(3) == 0 => self.crash(db)?,
            19..=22 => self.resolve(&db)?,
            _ => self.work(&db)?,
        }
        Ok(())
    }

    fn crash(&mut self, db: Database) -> Result<()> {
        self.slots.iter_mut().for_each(|slot| *slot = None);
        (self.db, self.hold) = (None, None);
        drop(db);
        self.history.sim = self.history.sim.crash();
        let db = open(&self.history.sim, DIR, self.history.options.clone())?;
        if self.rng.below(2) == 0 {
            db.finish_recovery()?;
        }
        self.db = Some(db);
        self.hold()
    }

    fn resolve(&mut self, db: &Database) -> Result<()> {
        let Some(gid) = self.in_doubt.keys().next().cloned() else { return Ok(()) };
        let commits = self.rng.below(2) == 0;
        if commits {
            db.commit_prepared(&gid)?.wait()?;
        } else {
            db.rollback_prepared(&gid)?.wait()?;
        }
        let ops = self.in_doubt.remove(&gid).unwrap_or_default();
        self.held.remove(&gid);
        if commits {
            apply(&mut self.rows, &ops);
        }
        self.note(commits)
    }

    fn work(&mut self, db: &Database) -> Result<()> {
        let at = self.rng.below(SLOTS as u64) as usize;
        if self.held.values().any(|slot| *slot == at) {
            return Ok(());
        }
        let Some(slot) = self.slots[at].as_mut() else {
            let tx = db.begin(Isolation::ReadCommitted);
            self.slots[at] = Some(Slot { tx, ops: Vec::new(), savepoints: Vec::new() });
            return Ok(());
        };
        match self.rng.below(20) {
            0..=2 => {
                let Some(slot) = self.slots[at].take() else { return Ok(()) };
                self.highest = self.highest.max(slot.tx.id().unwrap_or_default());
                slot.tx.commit(Durability::Sync)?.wait()?;
                apply(&mut self.rows, &slot.ops);
                // Of one that has not written, nothing is logged.
                self.note(!slot.ops.is_empty())?;
            }
            3 => {
                let Some(slot) = self.slots[at].take() else { return Ok(()) };
                slot.tx.rollback()?;
            }
            4 if slot.tx.has_written() => {
                let Some(slot) = self.slots[at].take() else { return Ok(()) };
                self.number += 1;
                let gid = format!("g{}", self.number);
                self.highest = self.highest.max(slot.tx.id().unwrap_or_default());
                slot.tx.prepare(&gid, "anna", "postgres")?.wait()?;
                self.held.insert(gid.clone(), at);
                self.in_doubt.insert(gid, slot.ops);
                self.note(false)?;
            }
            5..=6 => slot.savepoints.push((slot.tx.savepoint()?, slot.ops.len())),
            7 => {
                if let Some((savepoint, len)) = slot.savepoints.pop() {
                    slot.tx.rollback_to(savepoint)?;
                    slot.ops.truncate(len);
                }
            }
            _ => self.change(at)?,
        }
        Ok(())
    }

    /// Changes a few rows of a slot's own.
    fn change(&mut self, at: usize) -> Result<()> {
        let Some(slot) = self.slots[at].as_mut() else { return Ok(()) };
        let names: Vec<String> = self.rows.keys().cloned().collect();
        for _ in 0..1 + self.rng.below(6) {
            let name = &names[self.rng.below(names.len() as u64) as usize];
            let id = self.rng.below(IDS as u64) as i64 * SLOTS as i64 + at as i64;
            let mut now = self.rows.clone();
            apply(&mut now, &slot.ops);
            let there = now.get(name).is_some_and(|rows| rows.contains_key(&id));
            let table = slot.tx.table("public", name)?.ok_or_else(|| Error::internal("no table"))?;
            let len = if self.rng.below(12) == 0 { 20_000 } else { self.rng.below(300) };
            let (v, note) = (self.rng.below(1 << 30) as i64, "n".repeat(len as usize));
            slot.tx.statement(StatementKind::BulkWrite)?;
            let value = if !there {
                slot.tx.insert(&table, &row(id, v, &note))?.done()?;
                Some((v, note))
            } else if self.rng.below(4) == 0 {
                slot.tx.delete(&table, &key(&table, id)?, Seen::Snapshot)?.done()?;
                None
            } else {
                slot.tx.update(&table, &key(&table, id)?, Seen::Snapshot, &row(id, v, &note))?.done()?;
                Some((v, note))
            };
            slot.ops.push((name.clone(), id, value));
        }
        Ok(())
    }
}
