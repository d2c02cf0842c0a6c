//! What the threads of the test share, what they know of it, and what must be true of it in every snapshot.

use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use resurgam_engine::*;
use resurgam_vfs::SimVfs;

use crate::client::Client;

/// Accounts: their labels, which never change, and what each has in the beginning.
pub const ACCOUNTS: i64 = 6;
pub const BALANCE: i64 = 100;
/// Ids and other keys are below these.
pub const IDS: i64 = 9;
pub const KEYS: i64 = 12;

/// Positions of columns, …
pub const ID: usize = 0;
pub const U: usize = 1;
pub const D: usize = 2;
pub const N: usize = 3;
pub const Q: usize = 4;
/// … and of indexes.
pub const BY_U: usize = 0;
pub const BY_D: usize = 1;
/// (2 is by N.)
pub const BY_Q: usize = 3;
const INDEXES: usize = 4;
/// So much of what clients said is kept.
const TOLD_MAX: usize = 3000;

pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        random.below(2);
        random
    }
    pub fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 11) % n as u64) as usize
    }
    pub fn number(&mut self, n: i64) -> i64 {
        self.below(n as usize) as i64
    }
    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A row of any of the tables.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Row {
    pub id: i64,
    /// Unique. Of an account: its label.
    pub u: i64,
    /// Unique when the transaction ends.
    pub d: i64,
    /// Of a child: its parent's id. Of an account: how often it was changed.
    pub n: i64,
    /// Unique where it is given.
    pub q: Option<i64>,
    pub v: i64,
    /// Who wrote it: a number that no other write has.
    pub w: i64,
    /// A text of so many letters.
    pub len: usize,
}

impl Row {
    pub fn datums<'r>(&self, text: &'r str) -> [DatumRef<'r>; 8] {
        let q = self.q.map_or(DatumRef::Null, DatumRef::Int8);
        let [id, u, d, n, v, w] = [self.id, self.u, self.d, self.n, self.v, self.w].map(DatumRef::Int8);
        [id, u, d, n, q, v, w, DatumRef::Text(text)]
    }
    pub fn text(&self) -> String {
        "n".repeat(self.len)
    }
    pub fn read(view: &ReadView, table: &Table, row: RawRow<'_>) -> Result<Self> {
        let int = |column| match table.column(row, column)? {
            DatumRef::Int8(value) => Ok(Some(value)),
            DatumRef::Null => Ok(None),
            other => Err(Error::internal(format!("column {column} is {other:?}"))),
        };
        let some = |column| int(column)?.ok_or_else(|| Error::internal(format!("column {column} is NULL")));
        let text = match table.column(row, 7)? {
            DatumRef::Text(text) => text.as_bytes().to_vec(),
            DatumRef::External(value) => view.read_external(value)?,
            other => return Err(Error::internal(format!("a text is {other:?}"))),
        };
        if text.iter().any(|byte| *byte != b'n') {
            return Err(Error::internal("a text is not what was written"));
        }
        Ok(Self {
            id: some(ID)?,
            u: some(U)?,
            d: some(D)?,
            n: some(N)?,
            q: int(Q)?,
            v: some(5)?,
            w: some(6)?,
            len: text.len(),
        })
    }
}

pub fn key_of(table: &Table, id: i64) -> Result<Vec<u8>> {
    let mut key = Vec::new();
    table.encode_key(&[DatumRef::Int8(id)], &mut key)?;
    Ok(key)
}

pub struct Tables {
    /// Rows come and go.
    pub parents: Arc<Table>,
    /// Each has a parent.
    pub children: Arc<Table>,
    /// Always the same, under changing ids.
    pub accounts: Arc<Table>,
}

const NAMES: [&str; 3] = ["parents", "children", "accounts"];

fn spec(name: &str) -> TableSpec {
    let mut spec = TableSpec::new("public", name);
    for column in ["id", "u", "d", "n", "q", "v", "w"] {
        spec = spec.column(column, ColumnType::Int8);
    }
    let index = |name: String, column, unique, deferral: Deferral| IndexSpec {
        name,
        columns: vec![column],
        orders: Vec::new(),
        unique,
        constraint: deferral != Deferral::Never,
        nulls_alike: false,
        deferral,
    };
    let mut spec = spec.column("note", ColumnType::Text).primary_key(&["id"]);
    spec.indexes = vec![
        index(format!("{name}_u"), U, true, Deferral::Never),
        index(format!("{name}_d"), D, true, Deferral::Transaction),
        index(format!("{name}_n"), N, false, Deferral::Never),
        index(format!("{name}_q"), Q, true, Deferral::Never),
    ];
    spec
}

pub fn make(db: &Database) -> Result<Tables> {
    let tx = db.begin(Isolation::ReadCommitted);
    for name in NAMES {
        tx.create_table(spec(name))?.done()?;
    }
    tx.statement(StatementKind::BulkWrite)?;
    let accounts = tx.table("public", NAMES[2])?.ok_or_else(|| Error::internal("no table"))?;
    for label in 0..ACCOUNTS {
        let row = Row { id: label, u: label, d: label, n: 0, q: None, v: BALANCE, w: 0, len: 3 };
        tx.insert(&accounts, &row.datums(&row.text()))?.done()?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    find(db)
}

pub fn find(db: &Database) -> Result<Tables> {
    let tx = db.begin(Isolation::ReadCommitted);
    let table = |name| tx.table("public", name)?.ok_or_else(|| Error::internal(format!("no table {name}")));
    Ok(Tables { parents: table(NAMES[0])?, children: table(NAMES[1])?, accounts: table(NAMES[2])? })
}

/// A key of the parents that at most one row has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Id(i64),
    U(i64),
    Q(i64),
}

pub struct Book {
    pub db: Database,
    pub tables: Arc<Tables>,
    pub seed: u64,
    stop: AtomicBool,
    /// For each key of the parents, how often somebody was about to give it to a row or to take it away, or to end after that.
    touched: Vec<AtomicU64>,
    /// For each, how many of those are ending just now.
    ending: Vec<AtomicU64>,
    /// Larger than any number of touches, and another one each time.
    unlike: AtomicU64,
    /// What clients have said of what they do, for who looks for the cause of a finding.
    told: Mutex<VecDeque<(u64, Option<TxId>, String)>>,
    /// Numbers of writes that were rolled back: nobody sees one.
    undone: Mutex<HashSet<i64>>,
    next_write: AtomicI64,
    /// Changes of accounts that are committed.
    increments: AtomicI64,
    pub committed: AtomicU64,
    pub rolled_back: AtomicU64,
    pub refused: AtomicU64,
    checks: AtomicU64,
}

/// Ends the others when a thread ends as it must not.
struct Alarm<'b>(&'b Book);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.stop.store(true, Ordering::SeqCst);
        }
    }
}

impl Book {
    pub fn new(db: Database, tables: Arc<Tables>, seed: u64) -> Self {
        let mut touched = Vec::new();
        touched.resize_with(3 * 64, AtomicU64::default);
        let mut ending = Vec::new();
        ending.resize_with(3 * 64, AtomicU64::default);
        Self {
            db,
            tables,
            seed,
            stop: AtomicBool::new(false),
            touched,
            ending,
            unlike: AtomicU64::new(u64::MAX / 2),
            told: Mutex::default(),
            undone: Mutex::default(),
            next_write: AtomicI64::new(1),
            increments: AtomicI64::new(0),
            committed: AtomicU64::new(0),
            rolled_back: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            checks: AtomicU64::new(0),
        }
    }

    fn place(key: Key) -> usize {
        let (kind, value) = match key {
            Key::Id(value) => (0, value),
            Key::U(value) => (1, value),
            Key::Q(value) => (2, value),
        };
        kind * 64 + value.rem_euclid(64) as usize
    }
    pub fn tell(&self, client: u64, tx: Option<TxId>, what: String) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        told.push_back((client, tx, what));
        if told.len() > TOLD_MAX {
            told.pop_front();
        }
    }
    /// The last of that, the newest at the end.
    fn history(&self) -> String {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let line = |(client, tx, what): &(u64, Option<TxId>, String)| match tx {
            Some(tx) => format!("  client {client}, {tx}: {what}\n"),
            None => format!("  client {client}: {what}\n"),
        };
        told.iter().map(line).collect()
    }
    pub fn touch(&self, key: Key) {
        self.touched[Self::place(key)].fetch_add(1, Ordering::SeqCst);
    }
    /// A number that is another one later if somebody was at the key in between.
    pub fn touches(&self, key: Key) -> u64 {
        if self.ending[Self::place(key)].load(Ordering::SeqCst) > 0 {
            return self.unlike.fetch_add(1 << 20, Ordering::SeqCst);
        }
        self.touched[Self::place(key)].load(Ordering::SeqCst)
    }
    /// A transaction that was at these keys is about to end, or has ended.
    pub fn ends(&self, keys: impl Iterator<Item = Key>, has_ended: bool) {
        for key in keys {
            self.touch(key);
            let ending = &self.ending[Self::place(key)];
            if has_ended {
                ending.fetch_sub(1, Ordering::SeqCst)
            } else {
                ending.fetch_add(1, Ordering::SeqCst)
            };
        }
    }
    pub fn new_write(&self) -> i64 {
        self.next_write.fetch_add(1, Ordering::Relaxed)
    }
    pub fn undo(&self, writes: impl Iterator<Item = i64>) {
        self.undone.lock().unwrap_or_else(PoisonError::into_inner).extend(writes);
    }
    pub fn increment(&self, by: i64) {
        self.increments.fetch_add(by, Ordering::SeqCst);
    }
    pub fn increments(&self) -> i64 {
        self.increments.load(Ordering::SeqCst)
    }
    pub fn is_over(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
    pub fn summary(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!(
            "{} committed, {} rolled back, {} refused, {} checks",
            count(&self.committed),
            count(&self.rolled_back),
            count(&self.refused),
            count(&self.checks)
        )
    }

    /// Works for that long; returns the disk as a power loss left it on the way.
    pub fn run(&self, writers: u64, time: Duration, vfs: &SimVfs) -> Result<SimVfs, String> {
        let mut lost = None;
        let mut found = Vec::new();
        std::thread::scope(|scope| {
            let mut threads = Vec::new();
            for number in 0..writers {
                threads.push(scope.spawn(move || {
                    let _alarm = Alarm(self);
                    Client::new(self, number).work()
                }));
            }
            threads.push(scope.spawn(|| {
                let _alarm = Alarm(self);
                self.watch()
            }));
            let begun = Instant::now();
            while begun.elapsed() < time && threads.iter().all(|thread| !thread.is_finished()) && !self.is_over() {
                if lost.is_none() && begun.elapsed() > time / 2 {
                    lost = Some(vfs.crash_clone(self.seed));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            self.stop.store(true, Ordering::SeqCst);
            for thread in threads {
                match thread.join() {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => found.push(error),
                    Err(panic) => found.push(
                        panic
                            .downcast_ref::<String>()
                            .map_or_else(|| "a panic".to_owned(), |text| format!("panic: {text}")),
                    ),
                }
            }
        });
        if found.is_empty() {
            return Ok(lost.unwrap_or_else(|| vfs.crash_clone(self.seed)));
        }
        Err(format!("{}\n{}", found.join("\n"), self.history()))
    }

    /// Looks again and again.
    fn watch(&self) -> Result<(), String> {
        while !self.is_over() {
            let tx = self.db.begin(Isolation::RepeatableRead);
            let view = tx.statement(StatementKind::Read).map_err(|error| format!("{error:?}"))?;
            let first = self.look(&view, &self.tables)?;
            std::thread::yield_now();
            let again = self.look(&view, &self.tables)?;
            if first != again {
                return Err(format!("a snapshot has changed:\n{first:?}\n{again:?}"));
            }
            tx.rollback().map_err(|error| format!("{error:?}"))?;
            self.checks.fetch_add(1, Ordering::Relaxed);
        }
        Ok(())
    }

    /// The same of what is committed now, and that there were so many increments.
    pub fn check_all(&self, db: &Database, tables: &Tables, increments: Option<i64>) -> Result<(), String> {
        let tx = db.begin(Isolation::RepeatableRead);
        let view = tx.statement(StatementKind::Read).map_err(|error| format!("{error:?}"))?;
        let rows = self.look(&view, tables)?;
        let found: i64 = rows[2].values().map(|row| row.n).sum();
        if increments.is_some_and(|increments| increments != found) {
            return Err(format!("{found} increments are there, {increments:?} were made"));
        }
        Ok(())
    }

    /// What must be true of every snapshot; returns its rows.
    fn look(&self, view: &ReadView, tables: &Tables) -> Result<[BTreeMap<i64, Row>; 3], String> {
        let [parents, children, accounts] = [&tables.parents, &tables.children, &tables.accounts];
        let parents = self.rows(view, parents)?;
        let children = self.rows(view, children)?;
        let accounts = self.rows(view, accounts)?;
        if let Some(orphan) = children.values().find(|child| !parents.contains_key(&child.n)) {
            return Err(format!("a child without a parent: {orphan:?}"));
        }
        let labels: BTreeSet<i64> = accounts.values().map(|row| row.u).collect();
        let sum: i64 = accounts.values().map(|row| row.v).sum();
        if labels != (0..ACCOUNTS).collect() || sum != ACCOUNTS * BALANCE {
            return Err(format!("accounts are {accounts:?}: their sum is {sum}"));
        }
        Ok([parents, children, accounts])
    }

    /// All rows of a table, which each of its indexes has as well.
    fn rows(&self, view: &ReadView, table: &Arc<Table>) -> Result<BTreeMap<i64, Row>, String> {
        let said = |error: Error| format!("table {}: {error:?}", table.name);
        let mut all: Vec<Vec<Row>> = Vec::new();
        for index in std::iter::once(None).chain((0..INDEXES).map(Some)) {
            let direction = if self.checks.load(Ordering::Relaxed).is_multiple_of(2) {
                Direction::Forward
            } else {
                Direction::Backward
            };
            let mut cursor = match index {
                None => view.scan(table, KeyRange::all(), direction),
                Some(at) => view.scan_index(table, at, KeyRange::all(), direction),
            };
            let (mut batch, mut rows) = (RowBatch::default(), Vec::new());
            loop {
                batch.clear();
                if !cursor.next_batch(&mut batch, 4).map_err(said)? {
                    break;
                }
                for at in 0..batch.len() {
                    rows.push(Row::read(view, table, batch.row(at)).map_err(said)?);
                }
            }
            rows.sort();
            all.push(rows);
        }
        for (index, rows) in all.iter().enumerate().skip(1) {
            if *rows != all[0] {
                let name = &table.indexes[index - 1].name;
                return Err(format!("index {name} has\n{rows:?}\nand its table\n{:?}", all[0]));
            }
        }
        let rows = all.swap_remove(0);
        let count = view.count(table, KeyRange::all()).map_err(said)?;
        if count != rows.len() as u64 {
            return Err(format!("table {} has {} rows, and counts {count}", table.name, rows.len()));
        }
        let mut seen = HashSet::new();
        for row in &rows {
            let keys = [(0, Some(row.id)), (1, Some(row.u)), (2, Some(row.d)), (3, row.q)];
            for (kind, value) in keys {
                if value.is_some() && !seen.insert((kind, value)) {
                    return Err(format!("table {} has a key twice, {row:?} is one: {rows:?}", table.name));
                }
            }
        }
        {
            let undone = self.undone.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(row) = rows.iter().find(|row| undone.contains(&row.w)) {
                return Err(format!("table {}: {row:?} was rolled back", table.name));
            }
        }
        for row in &rows {
            let mut buf = RowBuf::default();
            let key = key_of(table, row.id).map_err(said)?;
            let mut found = Vec::new();
            if view.get(table, &key, &mut buf).map_err(said)? {
                found.push(Row::read(view, table, buf.raw()).map_err(said)?);
            }
            let mut key = Vec::new();
            table.encode_index_key(BY_U, &[DatumRef::Int8(row.u)], &mut key).map_err(said)?;
            if view.get_by_index(table, &table.indexes[BY_U], &key, &mut buf).map_err(said)? {
                found.push(Row::read(view, table, buf.raw()).map_err(said)?);
            }
            if found != [row.clone(), row.clone()] {
                return Err(format!("table {}: {row:?} is read by its keys as {found:?}", table.name));
            }
        }
        Ok(rows.into_iter().map(|row| (row.id, row)).collect())
    }
}
