//! Temporary tables, as the layer of SQL keeps them (`sql`'s `ddl/temporary.rs`): in a schema of their session's own, stored and
//! logged as all others are. The schema goes with all that is in it when the session ends, and after a restart when the database is
//! used again: run, predict, compare. They are drawn from a generator of their own, in transactions of their own that stay open over
//! the clients' steps, so that seeds mean what they meant.
//!
//! What must hold: a session finds in its tables what it has put there; after a restart no schema is there of a session that was seen
//! to end durably; once what was left is dropped there is neither a definition nor (`Database::verify`) a page of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use resurgam_engine::*;

use super::Found;
use super::check::drain;
use super::model::Row;
use super::rng::Rng;
use super::rows::refs;
use super::schedule::{Fault, World};
use crate::broken;

/// How many sessions have temporary tables at a time.
const SESSIONS: usize = 2;
/// Tables of one session at a time.
const TABLES: usize = 3;
/// Steps from one use to the next, about.
const EVERY: u64 = 3;

/// A mistake that must be noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PlantedInTemporary {
    #[default]
    None,
    /// Nobody notes that the pages of temporary tables are to go.
    PagesStay,
    /// Whoever drops what a restart has left passes a table over.
    TableStays,
}

#[derive(Clone, Default)]
struct Kept {
    /// ON COMMIT DELETE ROWS.
    empties: bool,
    touched: bool,
    rows: BTreeMap<i64, String>,
}

type Tables = BTreeMap<String, Kept>;

/// The open transaction of a session.
struct Open {
    tx: Transaction,
    /// What its tables have, once it commits.
    tables: Tables,
    savepoint: Option<(Savepoint, Tables)>,
}

struct Owner {
    number: u32,
    committed: Tables,
    open: Option<Open>,
}

/// The temporary tables of a schedule.
pub struct Temporaries {
    rng: Rng,
    used: bool,
    planted: PlantedInTemporary,
    sessions: Vec<Owner>,
    /// Numbers of schemas that may be there after a restart.
    may_be: BTreeSet<u32>,
    /// Those that a restart has left, to be dropped.
    left: Vec<u32>,
    serial: i64,
}

fn name_of(number: u32) -> String {
    format!("pg_temp_{number}")
}

fn number_of(schema: &str) -> Option<u32> {
    schema.strip_prefix("pg_temp_")?.parse().ok()
}

/// Whether it is nobody's but a session's.
pub fn is_temporary(table: &Table) -> bool {
    number_of(&table.schema).is_some()
}

/// What kept a step from its end.
enum Stopped {
    /// It would have had to wait: the session gives its transaction up.
    Waits,
    Failed(Error, &'static str),
    Broken(String),
}

type Step<T> = std::result::Result<T, Stopped>;

/// A result, or what became of the step.
fn told<T>(result: Result<T>, what: &'static str) -> Step<T> {
    result.map_err(|error| Stopped::Failed(error, what))
}

/// The same of what may have to wait.
fn done<T>(result: Result<Attempt<T>>, what: &'static str) -> Step<T> {
    match told(result, what)? {
        Attempt::Done(done) => Ok(done),
        Attempt::Wait(_) => Err(Stopped::Waits),
    }
}

fn row(number: i64, text: &str) -> Row {
    vec![Datum::Int8(number), Datum::Text(text.to_owned())]
}

/// The table of that name, which must be there.
fn table_of(tx: &Transaction, schema: &str, name: &str) -> Step<Arc<Table>> {
    told(tx.statement(StatementKind::PointWrite), "starting a temporary statement")?;
    let found = told(tx.table(schema, name), "looking a temporary table up")?;
    found.ok_or_else(|| Stopped::Broken(format!("temporary table {schema}.{name} is not there")))
}

/// Its rows must be these.
fn compare(tx: &Transaction, schema: &str, name: &str, expected: &Kept) -> Step<()> {
    let table = table_of(tx, schema, name)?;
    let view = told(tx.statement(StatementKind::Read), "starting a temporary statement")?;
    for index in std::iter::once(None).chain((0..table.indexes.len()).map(Some)) {
        let cursor = match index {
            None => view.scan(&table, KeyRange::all(), Direction::Forward),
            Some(at) => view.scan_index(&table, at, KeyRange::all(), Direction::Forward),
        };
        let mut found: Vec<Row> = told(drain(&view, &table, cursor, 7), "reading a temporary table")?
            .into_iter()
            .map(|(_, row)| row)
            .collect();
        let number = |row: &Row| if let Some(Datum::Int8(number)) = row.first() { *number } else { i64::MIN };
        found.sort_by_key(number);
        let wanted: Vec<Row> = expected.rows.iter().map(|(number, text)| row(*number, text)).collect();
        if found != wanted {
            let numbers = |rows: &[Row]| rows.iter().map(number).collect::<Vec<_>>();
            return Err(Stopped::Broken(format!(
                "temporary table {schema}.{name} by {index:?} has rows {:?}, expected {:?}",
                numbers(&found),
                numbers(&wanted)
            )));
        }
    }
    Ok(())
}

/// Drops a schema with all that is in it, in one transaction, as a session's end does. `passed_over`: but for its first table.
fn drop_all(tx: &Transaction, schema: &str, passed_over: bool) -> Step<u64> {
    told(tx.statement(StatementKind::PointWrite), "starting a temporary statement")?;
    let all = told(tx.in_schema(schema), "looking temporary tables up")?;
    for table in all.iter().skip(usize::from(passed_over)) {
        done(tx.drop_table(table), "dropping a temporary table")?;
    }
    if let Some(object) = told(tx.object_named(ObjectKind::SCHEMA, "", schema), "looking a temporary schema up")? {
        done(tx.drop_object(&object), "dropping a temporary schema")?;
    }
    Ok(all.len() as u64)
}

/// Numbers of the temporary schemas that there are; what is in none of them is nobody's.
fn schemas(tx: &Transaction) -> Result<std::result::Result<BTreeSet<u32>, String>> {
    let objects = tx.objects(ObjectKind::SCHEMA)?;
    let numbers: BTreeSet<u32> = objects.iter().filter_map(|schema| number_of(&schema.name)).collect();
    let stray = |table: &&Arc<Table>| number_of(&table.schema).is_some_and(|number| !numbers.contains(&number));
    if let Some(table) = tx.tables()?.iter().find(stray) {
        return Ok(Err(format!("temporary table {}.{} is in no schema", table.schema, table.name)));
    }
    Ok(Ok(numbers))
}

impl Owner {
    fn schema(&self) -> String {
        name_of(self.number)
    }

    /// Its transaction, begun if there is none.
    fn open(&mut self, db: &Database) -> &mut Open {
        let committed = &self.committed;
        self.open.get_or_insert_with(|| Open {
            tx: db.begin(Isolation::ReadCommitted),
            tables: committed.clone(),
            savepoint: None,
        })
    }
}

impl Open {
    fn create(&mut self, rng: &mut Rng, schema: &str) -> Step<u64> {
        let Some(name) = ["t0", "t1", "t2"].into_iter().take(TABLES).find(|name| !self.tables.contains_key(*name))
        else {
            return Ok(0);
        };
        let tx = &self.tx;
        told(tx.statement(StatementKind::PointWrite), "starting a temporary statement")?;
        let found = told(tx.object_named(ObjectKind::SCHEMA, "", schema), "looking a temporary schema up")?;
        let object = match found {
            Some(object) => object,
            None => {
                let object = CatalogObject::new(ObjectKind::SCHEMA, b"temporary".to_vec());
                done(tx.create_object("", schema, object), "making a temporary schema")?
            }
        };
        done(tx.keep(&object), "keeping a temporary schema")?;
        let mut spec = TableSpec::new(schema, name).column("k", ColumnType::Int8).column("v", ColumnType::Text);
        if rng.one_in(2) {
            spec = spec.primary_key(&["k"]);
        }
        if rng.one_in(2) {
            spec = spec.index(&format!("{name}_k"), &["k"], rng.one_in(2));
        }
        done(tx.create_table(spec), "making a temporary table")?;
        self.tables.insert(name.to_owned(), Kept { empties: rng.one_in(4), touched: true, ..Kept::default() });
        Ok(1)
    }

    fn insert(&mut self, rng: &mut Rng, serial: &mut i64, schema: &str, name: &str) -> Step<u64> {
        let table = table_of(&self.tx, schema, name)?;
        let Some(kept) = self.tables.get_mut(name) else { return Ok(0) };
        let most = if rng.one_in(4) { 60 } else { 6 };
        let count = 1 + rng.below(most);
        let rows: Vec<(i64, String)> = (0..count)
            .map(|_| {
                *serial += 1;
                // Now and then too large for its row.
                let len = if rng.one_in(20) { rng.range(2000, 9000) } else { rng.below(200) };
                (*serial, format!("{:x}", rng.next()).chars().cycle().take(len as usize).collect())
            })
            .collect();
        kept.touched = true;
        if rng.one_in(2) {
            let rows: Vec<Row> = rows.iter().map(|(number, text)| row(*number, text)).collect();
            let refs: Vec<Vec<DatumRef<'_>>> = rows.iter().map(refs).collect();
            let slices: Vec<&[DatumRef<'_>]> = refs.iter().map(Vec::as_slice).collect();
            done(self.tx.insert_many(&table, &slices, &mut 0), "writing to a temporary table")?;
        } else {
            for (number, text) in &rows {
                done(self.tx.insert(&table, &refs(&row(*number, text))), "writing to a temporary table")?;
            }
        }
        kept.rows.extend(rows);
        Ok(count)
    }

    /// Deletes a row, or gives it another text.
    fn change(&mut self, rng: &mut Rng, schema: &str, name: &str) -> Step<u64> {
        let table = table_of(&self.tx, schema, name)?;
        let Some(kept) = self.tables.get_mut(name) else { return Ok(0) };
        let numbers: Vec<i64> = kept.rows.keys().copied().collect();
        let Some(number) = rng.pick(&numbers).copied() else { return Ok(0) };
        let view = told(self.tx.statement(StatementKind::PointWrite), "starting a temporary statement")?;
        let cursor = view.scan(&table, KeyRange::all(), Direction::Forward);
        let found = told(drain(&view, &table, cursor, 9), "reading a temporary table")?;
        let Some((key, _)) = found.iter().find(|(_, row)| row.first() == Some(&Datum::Int8(number))) else {
            return Err(Stopped::Broken(format!("temporary table {schema}.{name} lacks row {number}")));
        };
        kept.touched = true;
        let change = if rng.one_in(2) {
            kept.rows.remove(&number);
            done(self.tx.delete(&table, key, Seen::Snapshot), "writing to a temporary table")?
        } else {
            let text = "y".repeat(rng.below(300) as usize);
            kept.rows.insert(number, text.clone());
            done(
                self.tx.update(&table, key, Seen::Snapshot, &refs(&row(number, &text))),
                "writing to a temporary table",
            )?
        };
        match change {
            Change::Done => Ok(1),
            other => Err(Stopped::Broken(format!("a row of temporary table {schema}.{name}: {other:?}"))),
        }
    }

    /// What ON COMMIT says, and the rows that the tables have then.
    fn before_commit(&mut self, schema: &str) -> Step<()> {
        for (name, kept) in &mut self.tables {
            if kept.empties && kept.touched {
                let table = table_of(&self.tx, schema, name)?;
                done(self.tx.truncate(&table), "emptying a temporary table")?;
                kept.rows.clear();
            }
            kept.touched = false;
        }
        Ok(())
    }

    /// One statement, or the way back to a savepoint. Returns how many rows it has written and tables it has made.
    fn statement(&mut self, rng: &mut Rng, serial: &mut i64, schema: &str) -> Step<(u64, u64)> {
        let names: Vec<String> = self.tables.keys().cloned().collect();
        let Some(name) = rng.pick(&names).cloned() else { return Ok((0, self.create(rng, schema)?)) };
        match rng.below(12) {
            0 | 1 => return Ok((0, self.create(rng, schema)?)),
            2..=5 => return Ok((self.insert(rng, serial, schema, &name)?, 0)),
            6 | 7 => return Ok((self.change(rng, schema, &name)?, 0)),
            8 => {
                let table = table_of(&self.tx, schema, &name)?;
                if rng.one_in(2) {
                    done(self.tx.drop_table(&table), "dropping a temporary table")?;
                    self.tables.remove(&name);
                } else {
                    done(self.tx.truncate(&table), "emptying a temporary table")?;
                    if let Some(kept) = self.tables.get_mut(&name) {
                        kept.rows.clear();
                    }
                }
            }
            9 => match self.savepoint.take() {
                Some((savepoint, tables)) => {
                    told(self.tx.rollback_to(savepoint), "going back to a savepoint")?;
                    self.tables = tables;
                }
                None => self.savepoint = Some((told(self.tx.savepoint(), "savepoint")?, self.tables.clone())),
            },
            _ => compare(&self.tx, schema, &name, &self.tables[&name])?,
        }
        Ok((0, 0))
    }
}

impl Temporaries {
    pub fn new(seed: u64, used: bool, planted: PlantedInTemporary) -> Self {
        let rng = Rng::new(seed ^ 0x7e3b_0a51);
        Self { rng, used, planted, sessions: Vec::new(), may_be: BTreeSet::new(), left: Vec::new(), serial: 0 }
    }

    /// A session that has none yet gets a number: one that no other has, and no schema that is there.
    fn begin(&mut self, db: &Database) -> Step<usize> {
        let tx = db.begin(Isolation::ReadCommitted);
        let mut number = 1;
        while self.sessions.iter().any(|session| session.number == number)
            || told(tx.object_named(ObjectKind::SCHEMA, "", &name_of(number)), "looking a temporary schema up")?
                .is_some()
        {
            number += 1;
        }
        self.sessions.push(Owner { number, committed: Tables::new(), open: None });
        Ok(self.sessions.len() - 1)
    }
}

impl World {
    /// Perhaps does something with temporary tables.
    pub fn step_of_temporaries(&mut self) -> Found<()> {
        let temporaries = &mut self.temporaries;
        if !temporaries.used || !temporaries.rng.one_in(EVERY) {
            return Ok(());
        }
        let planted = temporaries.planted == PlantedInTemporary::PagesStay;
        if planted {
            PlantedFree::Unnoted.plant_here();
        }
        let outcome = if temporaries.left.is_empty() || temporaries.rng.one_in(2) {
            self.use_temporaries()
        } else {
            self.drop_one_left()
        };
        if planted {
            PlantedFree::None.plant_here();
        }
        outcome
    }

    fn use_temporaries(&mut self) -> Found<()> {
        let Self { temporaries, db, .. } = self;
        let begins =
            temporaries.sessions.len() < SESSIONS && temporaries.rng.one_in(4) || temporaries.sessions.is_empty();
        let at = if begins {
            match temporaries.begin(db) {
                Ok(at) => at,
                Err(stopped) => return self.stopped_temporary(None, stopped),
            }
        } else {
            temporaries.rng.below(temporaries.sessions.len() as u64) as usize
        };
        let Temporaries { rng, sessions, serial, .. } = temporaries;
        let session = &mut sessions[at];
        let (number, schema) = (session.number, session.schema());
        match rng.below(16) {
            0 => self.end_temporary(at),
            1 | 2 if session.open.is_some() => {
                self.log(|| format!("temporary {number}: rollback"));
                let open = self.temporaries.sessions[at].open.take();
                match open.map_or(Ok(()), |open| open.tx.rollback()) {
                    Ok(()) => Ok(()),
                    Err(error) => self.judge_any(error, "rollback"),
                }
            }
            3..=6 if session.open.is_some() => self.commit_temporary(at),
            _ => {
                let open = session.open(db);
                let outcome = open.statement(rng, serial, &schema);
                open.tx.end_statement();
                match outcome {
                    Ok((rows, made)) => {
                        self.log(|| format!("temporary {number}: {rows} rows, {made} tables made"));
                        self.met.temporary_rows += rows;
                        self.met.temporary_made += made;
                        Ok(())
                    }
                    Err(stopped) => self.stopped_temporary(Some(at), stopped),
                }
            }
        }
    }

    /// Gives the open transaction of a session up, if it is one of these, and judges why.
    fn stopped_temporary(&mut self, at: Option<usize>, stopped: Stopped) -> Found<()> {
        if let Some(at) = at {
            self.temporaries.sessions[at].open = None;
        }
        match stopped {
            Stopped::Waits => {
                self.log(|| "something temporary would have to wait".into());
                Ok(())
            }
            Stopped::Failed(error, what) => self.judge_any(error, what),
            Stopped::Broken(what) => broken!("{what}"),
        }
    }

    fn commit_temporary(&mut self, at: usize) -> Found<()> {
        let session = &mut self.temporaries.sessions[at];
        let (number, schema) = (session.number, session.schema());
        let Some(mut open) = session.open.take() else { return Ok(()) };
        if let Err(stopped) = open.before_commit(&schema) {
            return self.stopped_temporary(None, stopped);
        }
        let durability = if self.temporaries.rng.one_in(3) { Durability::Async } else { Durability::Sync };
        self.log(|| format!("temporary {number}: commit {durability:?} as {:?}", open.tx.id()));
        // Whatever becomes of it.
        self.temporaries.may_be.insert(number);
        if self.finish_temporary(&open.tx, durability)? {
            self.temporaries.sessions[at].committed = open.tables;
        }
        Ok(())
    }

    /// Commits; whether that was acknowledged.
    fn finish_temporary(&mut self, tx: &Transaction, durability: Durability) -> Found<bool> {
        match tx.commit(durability).and_then(CommitTicket::wait) {
            Ok(()) => Ok(true),
            // It could not go back to a savepoint on a full disk, and is rolled back.
            Err(error) if error.kind() == ErrorKind::InvalidTransactionState && self.fault == Fault::DiskFull => {
                self.log(|| format!("commit: {error:?}"));
                Ok(false)
            }
            Err(error) => {
                // A full disk is found out before anything is written.
                self.dead |= error.kind() != ErrorKind::DiskFull;
                self.judge_any(error, "commit")?;
                Ok(false)
            }
        }
    }

    /// A session ends, also within a transaction.
    fn end_temporary(&mut self, at: usize) -> Found<()> {
        let session = &mut self.temporaries.sessions[at];
        session.open = None;
        let number = session.number;
        if self.drop_temporary(number, false)? {
            self.met.temporary_ended += 1;
            self.temporaries.sessions.remove(at);
        }
        Ok(())
    }

    /// Drops a schema; whether it is gone.
    fn drop_temporary(&mut self, number: u32, passed_over: bool) -> Found<bool> {
        self.log(|| format!("temporary {number}: its schema is dropped"));
        let tx = self.db.begin(Isolation::ReadCommitted);
        if let Err(stopped) = drop_all(&tx, &name_of(number), passed_over) {
            drop(tx);
            self.stopped_temporary(None, stopped)?;
            return Ok(false);
        }
        let durability = if self.temporaries.rng.one_in(3) { Durability::Async } else { Durability::Sync };
        if !self.finish_temporary(&tx, durability)? {
            return Ok(false);
        }
        // One that is not durable may come back.
        if durability == Durability::Sync {
            self.temporaries.may_be.remove(&number);
        }
        let tx = self.db.begin(Isolation::ReadCommitted);
        match schemas(&tx) {
            Ok(Ok(numbers)) if numbers.contains(&number) => broken!("temporary schema {number} is there after its end"),
            Ok(Ok(_)) => Ok(true),
            Ok(Err(what)) => broken!("{what}"),
            Err(error) => self.judge_any(error, "looking temporary schemas up").map(|()| true),
        }
    }

    fn drop_one_left(&mut self) -> Found<()> {
        let Some(number) = self.temporaries.left.last().copied() else { return Ok(()) };
        let passed_over = self.temporaries.planted == PlantedInTemporary::TableStays;
        if self.drop_temporary(number, passed_over)? {
            self.met.temporary_left += 1;
            self.temporaries.left.pop();
        }
        Ok(())
    }

    /// After a restart: who had them is gone, and what is there of them was made by somebody. False: power was lost again.
    pub fn look_at_temporaries(&mut self) -> Found<bool> {
        let tx = self.db.begin(Isolation::ReadCommitted);
        let numbers = match schemas(&tx) {
            Ok(Ok(numbers)) => numbers,
            Ok(Err(what)) => broken!("after recovery: {what}"),
            Err(_) if self.vfs.power_lost() => return Ok(false),
            Err(error) => broken!("temporary schemas after recovery: {error:?}"),
        };
        if let Some(number) = numbers.iter().find(|number| !self.temporaries.may_be.contains(number)) {
            broken!("temporary schema {number} is there, and no session of that number left one");
        }
        self.temporaries.left = numbers.iter().copied().collect();
        self.temporaries.may_be = numbers;
        Ok(true)
    }

    /// Their sessions are gone with the process.
    pub fn forget_temporaries(&mut self) {
        self.temporaries.sessions.clear();
    }

    /// At last: drops all that is left.
    pub fn drop_temporaries(&mut self) -> Found<()> {
        self.forget_temporaries();
        let planted = self.temporaries.planted == PlantedInTemporary::PagesStay;
        if planted {
            PlantedFree::Unnoted.plant_here();
        }
        for _ in 0..8 * SESSIONS {
            self.drop_one_left()?;
            if self.temporaries.left.is_empty() {
                break;
            }
            // A small disk of the version store is full until somebody cleans, which needs commits to see the horizon move.
            let moved = self.db.clean_now().map(drop).and_then(|()| {
                self.db.begin(Isolation::ReadCommitted).commit(Durability::Sync).and_then(CommitTicket::wait)
            });
            moved.or_else(|error| self.judge_any(error, "cleaning"))?;
        }
        PlantedFree::None.plant_here();
        let tx = self.db.begin(Isolation::ReadCommitted);
        match schemas(&tx) {
            Ok(Ok(numbers)) if numbers.is_empty() => Ok(()),
            other => broken!("at last, temporary schemas are {other:?}"),
        }
    }
}
