//! Statements on rows: run, predict, compare.
//!
//! The prediction of a write looks at the newest version of the row (committed by anyone, or
//! own), at the version that the statement sees, and at who else holds the row or a unique
//! value of it. Waiting is allowed wherever another open transaction has tried to write; it
//! is demanded where one has written.

use std::ops::Bound;
use std::sync::Arc;

use resurgam_engine::*;

use super::Found;
use super::alter::{fits, integer};
use super::check::{brief, drain, read_row, same_rows};
use super::model::*;
use super::rng::Rng;
use super::schedule::World;
use crate::broken;

/// A write, remembered so that it can be tried again after a wait.
#[derive(Clone, Debug)]
pub enum Op {
    Insert {
        table: String,
        number: i64,
        row: Row,
    },
    /// Several rows, one after the other; tried again, it is an insertion of the one that had to wait.
    InsertMany {
        table: String,
        rows: Vec<(i64, Row)>,
    },
    Update {
        table: String,
        number: i64,
        new_number: i64,
        row: Row,
    },
    Delete {
        table: String,
        number: i64,
    },
    /// Several rows, one after the other; tried again, it is a deletion of the one that had to wait.
    DeleteMany {
        table: String,
        numbers: Vec<i64>,
    },
    Lock {
        table: String,
        number: i64,
    },
}

impl Op {
    fn table(&self) -> &str {
        match self {
            Self::Insert { table, .. }
            | Self::InsertMany { table, .. }
            | Self::Update { table, .. }
            | Self::Delete { table, .. }
            | Self::DeleteMany { table, .. }
            | Self::Lock { table, .. } => table,
        }
    }
}

fn text(rng: &mut Rng, len: usize) -> String {
    let word = format!("{:x}", rng.next());
    word.chars().cycle().take(len).collect()
}

/// A length for the payload: tiny, middling, large, around what a row holds, beyond.
fn payload_len(rng: &mut Rng) -> usize {
    match rng.below(40) {
        0..=17 => rng.below(12) as usize,
        18..=29 => rng.range(60, 300) as usize,
        30..=35 => rng.range(500, 900) as usize,
        36 => rng.range(1200, 1600) as usize,
        37 => rng.range(1500, 2000) as usize,
        38 => rng.range(1600, 9000) as usize,
        _ => rng.range(9000, 30_000) as usize,
    }
}

pub fn random_row(rng: &mut Rng, table: &TableModel, number: i64) -> Row {
    let u = match rng.below(12) {
        0..=2 if !table.is_not_null(U) => Datum::Null,
        11 => Datum::Text(format!("w{:03}{}", rng.below(40), "u".repeat(rng.range(100, 1400) as usize))),
        _ => Datum::Text(format!("v{:03}", rng.below(60))),
    };
    let n = if rng.one_in(4) && !table.is_not_null(N) {
        Datum::Null
    } else {
        integer(table.columns[N].1, rng.below(5) as i64)
    };
    let len = payload_len(rng);
    let mut row =
        vec![key_datum(table.kind, number), Datum::Int8(rng.below(1000) as i64), u, n, Datum::Text(text(rng, len))];
    for (at, (_, ty)) in table.columns.iter().enumerate().skip(FIXED_COLUMNS) {
        row.push(match ty {
            _ if rng.one_in(3) && !table.is_not_null(at) => Datum::Null,
            // A large one now and then, to be left behind when the column is dropped.
            ColumnType::Text => {
                let len = if rng.one_in(4) { rng.range(1600, 5000) as usize } else { payload_len(rng) };
                Datum::Text(text(rng, len))
            }
            ty => integer(*ty, rng.below(9) as i64),
        });
    }
    row
}

fn changed_row(rng: &mut Rng, table: &TableModel, old: &Row, number: i64) -> Row {
    let fresh = random_row(rng, table, number);
    let mut row = old.clone();
    row.resize(table.columns.len(), Datum::Null);
    row[0] = fresh[0].clone();
    match rng.below(6) {
        0..=2 => row[1] = fresh[1].clone(),
        3 => row[N] = fresh[N].clone(),
        4 => row[U] = fresh[U].clone(),
        _ => row = fresh.clone(),
    }
    for (at, datum) in row.iter_mut().enumerate() {
        if datum.is_null() && table.is_not_null(at) {
            *datum = fresh[at].clone();
        }
    }
    row
}

pub fn refs(row: &Row) -> Vec<DatumRef<'_>> {
    row.iter().map(Datum::as_ref).collect()
}

impl World {
    /// The tables that client `at` should see now, by name.
    fn table_names(&self, at: usize) -> Vec<String> {
        let client = &self.clients[at];
        let base = client.snapshot.as_ref().unwrap_or(&self.model.committed);
        client.own.over(base).tables.keys().cloned().collect()
    }

    fn number_for(&mut self, table: &TableModel, insert: bool) -> i64 {
        if insert && (!table.has_key || self.rng.one_in(3)) {
            self.serial += 1;
            return self.serial;
        }
        if !insert && !self.rng.one_in(4) {
            let skip = self.rng.below(table.rows.len() as u64) as usize;
            if let Some(number) = table.rows.keys().nth(skip) {
                return *number;
            }
        }
        if self.rng.one_in(3) { self.rng.below(4) as i64 } else { self.rng.below(self.numbers) as i64 }
    }

    /// One random write by client `at`.
    pub fn random_write(&mut self, at: usize) -> Found<()> {
        let names = self.table_names(at);
        let Some(name) = self.rng.pick(&names).cloned() else { return Ok(()) };
        let base = self.clients[at].snapshot.as_ref().unwrap_or(&self.model.committed);
        let Some(table) = self.clients[at].own.table(base, &name) else { return Ok(()) };
        let op = match self.rng.below(20) {
            0..=8 => {
                let number = self.number_for(&table, true);
                let mut row = random_row(&mut self.rng, &table, number);
                // Now and then a NULL where none may be.
                let forbidden: Vec<usize> = (1..row.len()).filter(|at| table.is_not_null(*at)).collect();
                if !forbidden.is_empty()
                    && self.rng.one_in(8)
                    && let Some(null) = self.rng.pick(&forbidden)
                {
                    row[*null] = Datum::Null;
                }
                match self.troubles.rows_inserted_at_once() {
                    1 => Op::Insert { table: name, number, row },
                    most => self.several(name, &table, (number, row), most),
                }
            }
            9..=14 => {
                let number = self.number_for(&table, false);
                let new_number =
                    if table.has_key && self.rng.one_in(8) { self.number_for(&table, true) } else { number };
                let old = table
                    .rows
                    .get(&number)
                    .map_or_else(|| random_row(&mut self.rng, &table, number), |r| Row::clone(r));
                let row = changed_row(&mut self.rng, &table, &old, new_number);
                Op::Update { table: name, number, new_number, row }
            }
            15..=18 => {
                let number = self.number_for(&table, false);
                let most = self.troubles.rows_deleted_at_once();
                // Rows with entries of indexes are no runs: there are few tables without.
                let client = &self.clients[at];
                let base = client.snapshot.as_ref().unwrap_or(&self.model.committed);
                let plain = |name: &String| {
                    let table = client.own.table(base, name)?;
                    (table.has_key && table.indexes.is_empty() && table.rows.len() > 1).then(|| (name.clone(), table))
                };
                let plain = if most > 1 { names.iter().find_map(plain) } else { None };
                let (name, table) = plain.unwrap_or((name, table));
                let behind = table.rows.range(number..).count();
                let skipped = if behind > 1 { table.rows.len() - behind } else { 0 };
                let numbers: Vec<i64> = table.rows.keys().copied().skip(skipped).take(most).collect();
                if numbers.len() > 1 && table.has_key {
                    Op::DeleteMany { table: name, numbers }
                } else {
                    Op::Delete { table: name, number }
                }
            }
            _ => Op::Lock { table: name, number: self.number_for(&table, false) },
        };
        let kind = if self.rng.one_in(3) { StatementKind::BulkWrite } else { StatementKind::PointWrite };
        self.write(at, op, kind)
    }

    /// Rows that are inserted at once: with keys near that of the first, mostly ascending, now and then one of them twice. Of a generator of
    /// their own, as how many they are.
    fn several(&mut self, name: String, table: &TableModel, first: (i64, Row), most: usize) -> Op {
        let mut number = first.0;
        let mut rows = vec![first];
        let rng = &mut self.troubles.loads;
        while rows.len() < most {
            if table.has_key {
                number += if rng.one_in(25) { 0 } else { rng.range(1, 4) as i64 };
            } else {
                self.serial += 1;
                number = self.serial;
            }
            let mut row = random_row(rng, table, number);
            if table.unique_u() && !rng.one_in(8) {
                // Most of them would be duplicates of others.
                row[U] = Datum::Text(format!("x{:08}", rng.below(100_000_000)));
            }
            rows.push((number, row));
            // A table that loses its key takes the numbers behind all that there were.
            self.serial = self.serial.max(number);
        }
        if rng.one_in(3) {
            for at in (1..rows.len()).rev() {
                rows.swap(at, rng.below(at as u64 + 1) as usize);
            }
        }
        Op::InsertMany { table: name, rows }
    }

    /// Runs a write and compares what comes of it with what may.
    pub fn write(&mut self, at: usize, op: Op, kind: StatementKind) -> Found<()> {
        let name = op.table().to_owned();
        self.log(|| format!("client {at}: {}", describe(&op)));
        // A statement whose table was redefined meanwhile is given up.
        if let Some(bulk) = &self.clients[at].bulk {
            let then = bulk.base.tables.get(&name).map(|t| t.generation);
            let now = self.model.committed.tables.get(&name).map(|t| t.generation);
            if then != now && !self.clients[at].own.tables.contains_key(&name) {
                self.clients[at].bulk = None;
            }
        }
        let started = self.clients[at].statement(kind, &self.model, &mut self.rng);
        let (view, base, own) = match started {
            Ok(started) => started,
            Err(error) => return self.judge(at, error, "starting a statement"),
        };
        let table = match self.clients[at].tx.table("public", &name) {
            Ok(table) => table,
            Err(error) => return self.judge(at, error, "looking a table up"),
        };
        let (Some(table), Some(seen_table)) = (table, own.table(&base, &name)) else {
            // Dropped by someone in between.
            self.clients[at].retry = None;
            return Ok(());
        };
        let written: Vec<(i64, &Row)> = match &op {
            Op::Insert { number, row, .. } => vec![(*number, row)],
            Op::InsertMany { rows, .. } => rows.iter().map(|(number, row)| (*number, row)).collect(),
            Op::Update { new_number, row, .. } => vec![(*new_number, row)],
            Op::Delete { .. } | Op::DeleteMany { .. } | Op::Lock { .. } => Vec::new(),
        };
        let is_fit =
            |(number, row): &(i64, &Row)| fits(row, &seen_table) && row[0] == key_datum(seen_table.kind, *number);
        if !written.iter().all(is_fit) {
            return Ok(()); // the definition changed while the write waited
        }
        let lacks = |row: &Row| seen_table.lacks_a_value(row);
        if matches!(&op, Op::Update { row, .. } if lacks(row)) {
            return Ok(()); // here too
        }
        if !seen_table.has_key {
            if matches!(op, Op::Insert { .. } | Op::InsertMany { .. })
                && written.iter().any(|(number, _)| *number <= 1000)
            {
                return Ok(());
            }
            if let Op::Update { number, new_number, .. } = &op
                && number != new_number
            {
                return Ok(());
            }
        }
        self.clients[at].locked.insert(name.clone());
        self.note_touched(at, &op, &name);
        match op.clone() {
            Op::DeleteMany { numbers, .. } => self.delete_many(at, &view, &name, &table, &seen_table, &numbers),
            Op::Insert { number, row, .. } => {
                let result = self.clients[at].tx.insert(&table, &refs(&row));
                self.judge_insert(at, &name, &seen_table, (number, row), result)
            }
            Op::InsertMany { rows, .. } => self.insert_many(at, &name, &table, &seen_table, rows),
            Op::Update { number, .. } | Op::Delete { number, .. } | Op::Lock { number, .. } => {
                let Some(key) = self.storage_key(&view, &table, &seen_table, number) else { return Ok(()) };
                let key = match key {
                    Ok(key) => key,
                    Err(error) => return self.judge_serial(at, error, "finding a row", &name),
                };
                let seen = seen_table.rows.get(&number).cloned();
                self.change(at, op, &name, &table, &key, number, seen, None)
            }
        }
    }

    fn note_touched(&mut self, at: usize, op: &Op, name: &str) {
        let newest = self.newest(at, name);
        let client = &mut self.clients[at];
        let mut touch = |number: i64, row: Option<&Row>| {
            client.touched.insert((name.to_owned(), number));
            for row in newest.as_ref().and_then(|t| t.rows.get(&number)).map(|r| &**r).into_iter().chain(row) {
                client.touch_value(name, &row[U]);
            }
        };
        match op {
            Op::Insert { number, row, .. } => touch(*number, Some(row)),
            Op::Update { number, new_number, row, .. } => {
                touch(*number, Some(row));
                touch(*new_number, Some(row));
            }
            Op::Delete { number, .. } | Op::Lock { number, .. } => touch(*number, None),
            Op::InsertMany { rows, .. } => rows.iter().for_each(|(number, row)| touch(*number, Some(row))),
            Op::DeleteMany { numbers, .. } => numbers.iter().for_each(|number| touch(*number, None)),
        }
    }

    /// A table's newest content: what is committed now, and own changes.
    pub fn newest(&self, at: usize, name: &str) -> Option<Arc<TableModel>> {
        self.clients[at].own.table(&self.model.committed, name)
    }

    /// The storage key of a row: computed, or found by a scan where it is hidden.
    fn storage_key(
        &self,
        view: &ReadView,
        table: &Arc<Table>,
        seen: &TableModel,
        number: i64,
    ) -> Option<Result<Vec<u8>>> {
        if seen.has_key {
            let mut key = Vec::new();
            return Some(table.encode_key(&[key_datum(seen.kind, number).as_ref()], &mut key).map(|()| key));
        }
        match drain(view, table, view.scan(table, KeyRange::all(), Direction::Forward), 50) {
            Err(error) => Some(Err(error)),
            Ok(rows) => rows.into_iter().find(|(_, r)| number_of(&r[0]) == Some(number)).map(|(key, _)| Ok(key)),
        }
    }

    fn others(&self, at: usize) -> impl Iterator<Item = &super::client::Client> {
        self.clients.iter().enumerate().filter(move |(i, _)| *i != at).map(|(_, c)| c)
    }

    /// Whether `holder` may hold more than the model knows of: it awaits its undo, or (in the
    /// traditional mode) keys that it wrote and took back.
    pub fn undo_may_hold(&self, at: usize, holder: TxId) -> bool {
        self.db.stats().undo_queue > 0
            || (!self.db.is_recovery_accelerated()
                && self.clients.iter().enumerate().any(|(i, c)| i != at && c.id() == Some(holder)))
    }

    /// Whether client `at` may have to wait for someone.
    fn may_wait(&self, at: usize, name: &str, numbers: &[i64], values: &[&Datum]) -> bool {
        self.others(at).any(|c| {
            c.wanted.contains(name)
                || numbers.iter().any(|n| c.touched.contains(&(name.to_owned(), *n)))
                || values
                    .iter()
                    .any(|v| matches!(v, Datum::Text(t) if c.touched_values.contains(&(name.to_owned(), t.clone()))))
        })
    }

    /// Whether someone else has written the row or holds the unique value. What a transaction
    /// made and took away again holds nobody up.
    fn held(&self, at: usize, name: &str, numbers: &[i64], values: &[&Datum], unique: bool) -> bool {
        let committed = self.model.committed.tables.get(name);
        let was = |number: &i64| committed.and_then(|t| t.rows.get(number));
        self.others(at).any(|c| {
            let own = |number: i64| c.own.rows.get(&(name.to_owned(), number));
            let mut rows = c.own.rows.iter().filter(|((table, _), _)| table == name);
            c.own.tables.get(name).is_some_and(|own| own.is_some() || committed.is_some())
                || numbers.iter().any(|n| own(*n).is_some_and(|row| row.is_some() || was(n).is_some()))
                || (unique
                    && rows.any(|((_, number), row)| {
                        let of = |row: &Arc<Row>| values.iter().any(|v| !v.is_null() && **v == row[U]);
                        row.as_ref().is_some_and(of) || was(number).is_some_and(of)
                    }))
        })
    }

    /// Whether the table was redefined since client `at` took its snapshot.
    fn redefined(&self, at: usize, name: &str) -> bool {
        let client = &self.clients[at];
        if client.own.tables.contains_key(name) {
            return false;
        }
        let Some(snapshot) = &client.snapshot else { return false };
        snapshot.tables.get(name).map(|t| t.generation) != self.model.committed.tables.get(name).map(|t| t.generation)
    }

    /// Judges an error of a row statement, a conflict of definitions included.
    pub fn judge_serial(&mut self, at: usize, error: Error, what: &str, name: &str) -> Found<()> {
        let conflict = matches!(error.kind(), ErrorKind::SerializationFailure | ErrorKind::DefinitionChanged);
        if conflict && self.redefined(at, name) {
            self.clients[at].failed = true;
            return Ok(());
        }
        self.judge(at, error, what)
    }

    fn park(&mut self, at: usize, wait: LockWait, op: Op) {
        self.log(|| format!("client {at}: waits for {}", wait.holder()));
        self.waits += 1;
        self.clients[at].parked = Some(wait);
        self.clients[at].retry = Some(op);
    }

    /// The table has gone from the name by which an old snapshot knows it; under another one, somebody who is not
    /// finished may be changing it. That comes first.
    fn park_on_the_gone(&mut self, at: usize, wait: LockWait, op: Op, name: &str) -> Found<()> {
        let holder = wait.holder();
        if !self.others(at).any(|c| c.id() == Some(holder)) && !self.undo_may_hold(at, holder) {
            broken!("a write to {name}, which is dropped, waits for nobody's transaction {holder}");
        }
        self.park(at, wait, op);
        Ok(())
    }

    /// Inserts several rows, and judges each as if it had been inserted by itself.
    fn insert_many(
        &mut self,
        at: usize,
        name: &str,
        table: &Arc<Table>,
        seen_table: &TableModel,
        rows: Vec<(i64, Row)>,
    ) -> Found<()> {
        let datums: Vec<Vec<DatumRef<'_>>> = rows.iter().map(|(_, row)| refs(row)).collect();
        let slices: Vec<&[DatumRef<'_>]> = datums.iter().map(Vec::as_slice).collect();
        let mut done = 0;
        let tx = self.clients[at].tx.clone();
        let mut last = Some(tx.insert_many(table, &slices, &mut done));
        if done == rows.len() && !matches!(last, Some(Ok(Attempt::Done(())))) {
            broken!("insert of {done} rows into {name}: all are in, and it did not succeed");
        }
        for (i, (number, row)) in rows.iter().enumerate().take(done + 1) {
            let result = if i < done { Some(Ok(Attempt::Done(()))) } else { last.take() };
            let Some(result) = result else { break };
            if i == done && matches!(result, Ok(Attempt::Done(()))) {
                broken!("insert of rows into {name}: {done} are in, and it said that all are");
            }
            self.judge_insert(at, name, seen_table, (*number, row.clone()), result)?;
        }
        Ok(())
    }

    /// Judges the insertion of one row.
    fn judge_insert(
        &mut self,
        at: usize,
        name: &str,
        seen_table: &TableModel,
        (number, row): (i64, Row),
        result: Result<Attempt<()>>,
    ) -> Found<()> {
        let lacks = seen_table.lacks_a_value(&row);
        match result {
            Err(error) if error.kind() == ErrorKind::NotNullViolation => {
                if !lacks {
                    broken!("insert into {name}: said to lack a value: {error} ({})", brief(&row));
                }
                self.clients[at].bulk = None;
                return Ok(());
            }
            Ok(Attempt::Done(())) if lacks => {
                broken!("insert into {name} was done without a value that is NOT NULL: ({})", brief(&row))
            }
            _ => {}
        }
        let op = Op::Insert { table: name.to_owned(), number, row: row.clone() };
        self.inserted(at, op, name, number, row, result)
    }

    fn inserted(
        &mut self,
        at: usize,
        op: Op,
        name: &str,
        number: i64,
        row: Row,
        result: Result<Attempt<()>>,
    ) -> Found<()> {
        let Some(newest) = self.newest(at, name) else {
            return match result {
                Err(error) => self.judge_serial(at, error, "an insert into a table that was dropped", name),
                Ok(Attempt::Wait(wait)) => self.park_on_the_gone(at, wait, op, name),
                Ok(_) => broken!("insert into {name}, which is dropped"),
            };
        };
        let taken = newest.has_key && newest.rows.contains_key(&number) || newest.holder_of(&row[U], None).is_some();
        let values = [&row[U]];
        let numbers: &[i64] = if newest.has_key { &[number] } else { &[] };
        match result {
            Ok(Attempt::Done(())) => {
                if taken {
                    broken!(
                        "insert of row {number} into {name} was done although it is a duplicate: ({})",
                        brief(&row)
                    );
                }
                if self.redefined(at, name) {
                    broken!("insert into {name} by a definition that is no longer current");
                }
                if self.held(at, name, numbers, &values, newest.unique_u()) {
                    broken!("insert of row {number} into {name} did not wait for the transaction that holds it");
                }
                self.clients[at].inserted(name, number, row);
                Ok(())
            }
            Ok(Attempt::Wait(wait)) => {
                if !self.may_wait(at, name, &[number], &values) && !self.undo_may_hold(at, wait.holder()) {
                    broken!("insert of row {number} into {name} waits for nobody's transaction {}", wait.holder());
                }
                self.park(at, wait, op);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::UniqueViolation => {
                if !taken {
                    broken!(
                        "insert of row {number} into {name} is called a duplicate and is none: {error} ({})",
                        brief(&row)
                    );
                }
                self.clients[at].bulk = None;
                Ok(())
            }
            // A key or unique value that its snapshot still sees in use cannot be taken.
            Err(error)
                if error.kind() == ErrorKind::SerializationFailure && self.outdated(at, name, number, &row[U]) =>
            {
                self.clients[at].failed = true;
                Ok(())
            }
            Err(error) => self.judge_serial(at, error, "insert", name),
        }
    }

    /// Whether client `at` still sees a row with this key or unique value that is no more.
    fn outdated(&self, at: usize, name: &str, number: i64, value: &Datum) -> bool {
        let client = &self.clients[at];
        let (Some(snapshot), Some(now)) = (&client.snapshot, self.model.committed.tables.get(name)) else {
            return false;
        };
        client.isolation == Isolation::RepeatableRead
            && snapshot.tables.get(name).is_some_and(|then| {
                let gone = |(n, row): (&i64, &Arc<Row>)| {
                    (*n == number || row[U] == *value) && now.rows.get(n).is_none_or(|now| !Arc::ptr_eq(now, row))
                };
                then.rows.iter().any(gone)
            })
    }

    /// Deletes several rows, and judges each as if it had been deleted by itself.
    fn delete_many(
        &mut self,
        at: usize,
        view: &ReadView,
        name: &str,
        table: &Arc<Table>,
        seen_table: &TableModel,
        numbers: &[i64],
    ) -> Found<()> {
        let mut keys = Vec::new();
        for number in numbers {
            match self.storage_key(view, table, seen_table, *number) {
                Some(Ok(key)) => keys.push(key),
                Some(Err(error)) => return self.judge_serial(at, error, "finding a row", name),
                None => return Ok(()),
            }
        }
        let slices: Vec<&[u8]> = keys.iter().map(Vec::as_slice).collect();
        let mut done = 0;
        let tx = self.clients[at].tx.clone();
        let mut last = Some(tx.delete_many(table, &slices, Seen::Snapshot, &mut done));
        for (i, number) in numbers.iter().enumerate().take(done + 1) {
            let result = if i < done { Some(Ok(Attempt::Done(Change::Done))) } else { last.take() };
            let op = Op::Delete { table: name.to_owned(), number: *number };
            let seen = seen_table.rows.get(number).cloned();
            self.change(at, op, name, table, &keys[i], *number, seen, result)?;
        }
        Ok(())
    }

    /// Changes a row, unless it was already, with this result, and judges what came of it.
    fn change(
        &mut self,
        at: usize,
        op: Op,
        name: &str,
        table: &Arc<Table>,
        key: &[u8],
        number: i64,
        seen: Option<Arc<Row>>,
        mut first: Option<Result<Attempt<Change>>>,
    ) -> Found<()> {
        let mut how = Seen::Snapshot;
        for round in 0..3 {
            let tx = self.clients[at].tx.clone();
            let result = first.take().unwrap_or_else(|| match &op {
                Op::Update { row, .. } => tx.update(table, key, how, &refs(row)),
                Op::Delete { .. } => tx.delete(table, key, how),
                _ => tx.lock_row(table, key, how),
            });
            let Some(newest) = self.newest(at, name) else {
                return match result {
                    Err(error) => self.judge_serial(at, error, "a write to a table that was dropped", name),
                    Ok(Attempt::Wait(wait)) => self.park_on_the_gone(at, wait, op, name),
                    Ok(_) => broken!("a write to {name}, which is dropped"),
                };
            };
            let now = newest.rows.get(&number).cloned();
            let (numbers, values): (Vec<i64>, Vec<Datum>) = match &op {
                Op::Update { new_number, row, .. } => {
                    (vec![number, *new_number], now.iter().map(|r| r[U].clone()).chain([row[U].clone()]).collect())
                }
                _ => (vec![number], now.iter().map(|r| r[U].clone()).collect()),
            };
            let values: Vec<&Datum> = values.iter().collect();
            let own_work = self.clients[at].own.tables.contains_key(name)
                || self.clients[at].own.rows.contains_key(&(name.to_owned(), number));
            let by_statement = self.clients[at].written_by_statement(name, number);
            // A write that was taken back leaves the row as it was, but of a newer version.
            let rewritten = self.taken_back.contains(&(name.to_owned(), number));
            let same_version = match (&seen, &now) {
                (Some(a), Some(b)) => Arc::ptr_eq(a, b),
                _ => false,
            };
            let fits = round > 0 || own_work || same_version;
            let what = describe(&op);
            let serializable = self.clients[at].isolation == Isolation::RepeatableRead;
            match result {
                Ok(Attempt::Wait(wait)) => {
                    if !self.may_wait(at, name, &numbers, &values) && !self.undo_may_hold(at, wait.holder()) {
                        broken!("{what} waits for nobody's transaction {}", wait.holder());
                    }
                    self.taken_back.insert((name.to_owned(), number));
                    self.park(at, wait, op);
                    return Ok(());
                }
                Ok(Attempt::Done(Change::Done)) => {
                    if by_statement {
                        broken!("{what}: done twice by one statement");
                    }
                    if now.is_none() {
                        broken!("{what}: done, and there is no such row");
                    }
                    if !fits {
                        broken!("{what}: done, although the row had changed since it was seen");
                    }
                    if self.redefined(at, name) {
                        broken!("{what}: by a definition that is no longer current");
                    }
                    if self.held(at, name, &[number], &[], false) {
                        broken!("{what}: did not wait for the transaction that holds the row");
                    }
                    return self.changed(at, op, name, number, &newest, now);
                }
                Ok(Attempt::Done(Change::SelfModified)) => {
                    if !by_statement {
                        broken!("{what}: said to be written by this statement already, and is not");
                    }
                    return Ok(());
                }
                Ok(Attempt::Done(Change::Gone)) => {
                    if now.is_some() || by_statement {
                        broken!("{what}: said to be gone, and is there");
                    }
                    return Ok(());
                }
                Ok(Attempt::Done(Change::Changed)) => {
                    if (fits && !rewritten) || now.is_none() {
                        broken!(
                            "{what}: said to have changed, and has not ({:?} round {round} own {own_work} same {same_version} seen {:?})",
                            self.clients[at].isolation,
                            seen.as_deref().map(brief)
                        );
                    }
                    let mut buf = RowBuf::default();
                    let latest = self.clients[at].tx.latest(table, key, &mut buf);
                    match latest {
                        Ok(Some(version)) => how = version,
                        Ok(None) => broken!("{what}: changed, but has no latest version"),
                        Err(error) => return self.judge(at, error, "reading the latest version"),
                    }
                    let view = match self.clients[at].tx.statement(StatementKind::Read) {
                        Ok(view) => view,
                        Err(error) => return self.judge(at, error, "starting a statement"),
                    };
                    self.clients[at].bulk = None;
                    let row = match read_row(&view, table, buf.raw()) {
                        Ok(row) => row,
                        Err(error) => return self.judge(at, error, "reading the latest version"),
                    };
                    if now.as_deref() != Some(&row) {
                        broken!(
                            "{what}: the latest version is ({}), expected {:?}",
                            brief(&row),
                            now.as_deref().map(brief)
                        );
                    }
                }
                Err(error) if error.kind() == ErrorKind::SerializationFailure && serializable => {
                    let conflict = now.is_none() || !fits;
                    let takes_key = match &op {
                        Op::Update { new_number, row, .. } => self.outdated(at, name, *new_number, &row[U]),
                        _ => false,
                    };
                    let excused = conflict || rewritten || takes_key;
                    if !excused && !self.redefined(at, name) {
                        broken!("{what}: cannot be serialised, and nothing is in the way: {error}");
                    }
                    self.clients[at].failed = true;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::UniqueViolation => {
                    let Op::Update { new_number, row, .. } = &op else { broken!("{what}: {error}") };
                    let taken = *new_number != number && newest.has_key && newest.rows.contains_key(new_number)
                        || newest.holder_of(&row[U], Some(number)).is_some();
                    if !taken {
                        broken!("{what}: called a duplicate, and is none: {error}");
                    }
                    self.clients[at].bulk = None;
                    self.taken_back.insert((name.to_owned(), number));
                    return Ok(());
                }
                Err(error) => return self.judge_serial(at, error, &what, name),
            }
        }
        broken!("{}: changes under its own eyes", describe(&op))
    }

    fn changed(
        &mut self,
        at: usize,
        op: Op,
        name: &str,
        number: i64,
        newest: &TableModel,
        now: Option<Arc<Row>>,
    ) -> Found<()> {
        let old = now.map(|r| Row::clone(&r)).unwrap_or_default();
        match op {
            Op::Update { new_number, row, .. } => {
                if new_number != number && newest.has_key && newest.rows.contains_key(&new_number)
                    || newest.holder_of(&row[U], Some(number)).is_some()
                {
                    broken!(
                        "update of row {number} in {name} to ({}) was done although it is a duplicate",
                        brief(&row)
                    );
                }
                let moved = new_number != number;
                if moved && self.held(at, name, &[new_number], &[], false)
                    || row[U] != old[U] && self.held(at, name, &[], &[&row[U]], newest.unique_u())
                {
                    broken!("update of row {number} in {name} did not wait for the transaction that holds its new key");
                }
                let client = &mut self.clients[at];
                if moved {
                    client.wrote(name, number, None);
                    client.inserted(name, new_number, row);
                } else {
                    client.wrote(name, new_number, Some(row));
                }
            }
            Op::Delete { .. } => {
                self.clients[at].wrote(name, number, None);
            }
            _ => self.clients[at].wrote(name, number, Some(old)),
        }
        Ok(())
    }

    /// One random read by client `at`, through a fresh statement or the one that is running.
    pub fn random_read(&mut self, at: usize) -> Found<()> {
        let started = self.clients[at].statement(StatementKind::Read, &self.model, &mut self.rng);
        let (view, base, own) = match started {
            Ok(started) => started,
            Err(error) => return self.judge(at, error, "starting a statement"),
        };
        let state = own.over(&base);
        let names: Vec<String> = state.tables.keys().cloned().collect();
        let Some(name) = self.rng.pick(&names).cloned() else { return Ok(()) };
        self.log(|| format!("client {at}: read {name}"));
        let expected = Arc::clone(&state.tables[&name]);
        let table = match self.clients[at].tx.table("public", &name) {
            Ok(table) => table,
            Err(error) => return self.judge(at, error, "looking a table up"),
        };
        let now = self.model.committed.tables.get(&name).map(|t| t.generation);
        let redefined = !own.tables.contains_key(&name) && now != base.tables.get(&name).map(|t| t.generation);
        let Some(table) = table else {
            if redefined {
                return Ok(());
            }
            broken!("table {name} is not found");
        };
        if redefined && self.clients[at].bulk.is_some() {
            return Ok(()); // a statement keeps the definitions that it began with
        }
        if let Err(error) = self.read_one(&view, &table, &expected) {
            match error {
                super::check::Trouble::Broken(what) => broken!("client {at}: {what}"),
                super::check::Trouble::Failed(error) => {
                    if redefined && error.kind() == ErrorKind::DefinitionChanged {
                        self.clients[at].failed = true;
                        return Ok(());
                    }
                    return self.judge(at, error, "reading");
                }
            }
        }
        // Now and then the view is kept, to be read through later.
        // Not one with own writes: what it sees of them ends with its transaction.
        if self.held_views.len() < 3 && self.clients[at].tx.id().is_none() && self.rng.one_in(6) {
            self.held_views.push((view, table, expected));
        }
        Ok(())
    }

    fn read_one(&mut self, view: &ReadView, table: &Arc<Table>, expected: &TableModel) -> super::check::Checked<()> {
        match self.rng.below(4) {
            0 => super::check::check_table(view, table, expected, false),
            1 if expected.has_key => {
                let number = self.rng.below(self.numbers) as i64;
                let mut key = Vec::new();
                table.encode_key(&[key_datum(expected.kind, number).as_ref()], &mut key)?;
                let mut buf = RowBuf::default();
                let found =
                    if view.get(table, &key, &mut buf)? { Some(read_row(view, table, buf.raw())?) } else { None };
                let wanted = expected.rows.get(&number).map(|r| &**r);
                if found.as_ref() != wanted {
                    return Err(format!(
                        "row {number} of {} is {:?}, expected {:?}",
                        table.name,
                        found.as_ref().map(brief),
                        wanted.map(brief)
                    )
                    .into());
                }
                Ok(())
            }
            2 if expected.has_key => {
                let (a, b) = (self.rng.below(self.numbers) as i64, self.rng.below(self.numbers) as i64);
                let (low, high) = (a.min(b), a.max(b));
                let mut bounds = [Vec::new(), Vec::new()];
                table.encode_key(&[key_datum(expected.kind, low).as_ref()], &mut bounds[0])?;
                table.encode_key(&[key_datum(expected.kind, high).as_ref()], &mut bounds[1])?;
                let [low_key, high_key] = bounds;
                let range = KeyRange { low: Bound::Included(low_key), high: Bound::Excluded(high_key) };
                let direction = if self.rng.one_in(2) { Direction::Forward } else { Direction::Backward };
                let rows = drain(view, table, view.scan(table, range, direction), self.rng.range(1, 20) as usize)?;
                let mut wanted = TableModel { rows: Default::default(), ..expected.clone() };
                wanted.rows = expected.rows.range(low..high).map(|(n, r)| (*n, Arc::clone(r))).collect();
                same_rows(&format!("rows {low} to {high} of {}", table.name), &rows, &wanted)?;
                Ok(())
            }
            _ => {
                let rows = drain(view, table, view.scan(table, KeyRange::all(), Direction::Forward), 30)?;
                same_rows(&format!("scan of {}", table.name), &rows, expected)?;
                Ok(())
            }
        }
    }
}

pub fn describe(op: &Op) -> String {
    match op {
        Op::Insert { table, number, row } => format!("insert of row {number} into {table} ({})", brief(row)),
        Op::InsertMany { table, rows } => {
            let rows: Vec<String> = rows.iter().map(|(number, row)| format!("{number} ({})", brief(row))).collect();
            format!("insert of rows into {table}: {}", rows.join(", "))
        }
        Op::Update { table, number, new_number, row } => {
            format!("update of row {number} of {table} to {new_number} ({})", brief(row))
        }
        Op::Delete { table, number } => format!("delete of row {number} of {table}"),
        Op::DeleteMany { table, numbers } => format!("delete of rows {numbers:?} of {table}"),
        Op::Lock { table, number } => format!("lock of row {number} of {table}"),
    }
}
