//! One of the threads that change rows: its transactions, and what it is told of them.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use resurgam_engine::*;

use crate::book::{ACCOUNTS, BY_D, BY_Q, BY_U, Book, D, IDS, KEYS, Key, N, Random, Row, key_of};

/// Nobody waits for as long as that.
const PATIENCE: Duration = Duration::from_secs(60);

pub struct Client<'b> {
    book: &'b Book,
    number: u64,
    random: Random,
}

/// What a transaction did, in its order; what came after a savepoint goes with it.
enum Done {
    /// A row of a table was written, and has this key of those that are judged at the end.
    Wrote { table: usize, w: i64, d: i64 },
    /// A row is no more under this id.
    Left { table: usize, id: i64 },
    /// An account was changed.
    Incremented,
    /// A row is locked.
    Locked { table: usize, row: Row, mode: RowLockMode },
}

/// A transaction under way.
struct Work<'c, 'b> {
    client: &'c mut Client<'b>,
    tx: Transaction,
    done: Vec<Done>,
    /// Keys that are given or taken away until it ends, and how often it has said so.
    keys: HashMap<Key, u64>,
}

/// Whether a client has to expect it.
fn is_expected(error: &Error) -> bool {
    use ErrorKind::{DeadlockDetected, LockNotAvailable, SerializationFailure, UniqueViolation};
    matches!(error.kind(), DeadlockDetected | LockNotAvailable | SerializationFailure | UniqueViolation)
}

fn finding(what: impl Into<String>) -> Error {
    Error::internal(what)
}

fn refused(what: &str) -> Error {
    Error::new(ErrorKind::UniqueViolation, what)
}

/// Repeats until nothing is in the way.
fn settle<T>(mut attempt: impl FnMut() -> Result<Attempt<T>>) -> Result<T> {
    loop {
        match attempt()? {
            Attempt::Done(value) => return Ok(value),
            Attempt::Wait(wait) => wait_for(wait)?,
        }
    }
}

fn wait_for(wait: LockWait) -> Result<()> {
    let holder = wait.holder();
    if wait.wait_timeout(PATIENCE) { Ok(()) } else { Err(finding(format!("waited for {holder} for {PATIENCE:?}"))) }
}

impl<'b> Client<'b> {
    pub fn new(book: &'b Book, number: u64) -> Self {
        let random = Random::new(book.seed.wrapping_mul(1000).wrapping_add(number));
        Self { book, number, random }
    }

    pub fn work(mut self) -> Result<(), String> {
        while !self.book.is_over() {
            self.transaction().map_err(|error| format!("client {}: {error:?}", self.number))?;
        }
        Ok(())
    }

    fn transaction(&mut self) -> Result<()> {
        let isolation = if self.random.one_in(3) { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let book = self.book;
        let tx = book.db.begin(isolation);
        let mut work = Work { client: self, tx, done: Vec::new(), keys: HashMap::new() };
        let ended = work.run();
        let Work { tx, done, keys, client } = work;
        book.ends(keys.keys().copied(), false);
        let ended = ended.and_then(|commits| {
            book.tell(client.number, tx.id(), format!("ends, commits: {commits}"));
            if !commits {
                book.undo(writes(&done));
                tx.rollback()?;
                book.rolled_back.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            let durability = if client.random.one_in(4) { Durability::Async } else { Durability::Sync };
            tx.commit(durability)?.wait()?;
            book.tell(client.number, None, "is committed".into());
            book.increment(done.iter().filter(|done| matches!(done, Done::Incremented)).count() as i64);
            book.committed.fetch_add(1, Ordering::Relaxed);
            Ok(())
        });
        book.ends(keys.keys().copied(), true);
        ended
    }
}

fn writes(done: &[Done]) -> impl Iterator<Item = i64> + '_ {
    done.iter().filter_map(|done| match done {
        Done::Wrote { w, .. } => Some(*w),
        _ => None,
    })
}

const PARENTS: usize = 0;
const CHILDREN: usize = 1;
const ACCOUNTS_TABLE: usize = 2;

impl Work<'_, '_> {
    fn table(&self, table: usize) -> Arc<Table> {
        let tables = &self.client.book.tables;
        Arc::clone([&tables.parents, &tables.children, &tables.accounts][table])
    }

    fn tell(&self, what: String) {
        self.client.book.tell(self.client.number, self.tx.id(), what);
    }

    fn random(&mut self) -> &mut Random {
        &mut self.client.random
    }

    fn kind(&mut self) -> StatementKind {
        if self.random().one_in(3) { StatementKind::BulkWrite } else { StatementKind::PointWrite }
    }

    /// Whether it is to be committed.
    fn run(&mut self) -> Result<bool> {
        self.tx.statement(StatementKind::PointWrite)?;
        for table in [PARENTS, CHILDREN, ACCOUNTS_TABLE] {
            let table = self.table(table);
            settle(|| self.tx.lock_rows(&table))?;
        }
        let mut savepoints: Vec<(Savepoint, usize)> = Vec::new();
        for _ in 0..=self.random().below(6) {
            match self.random().below(10) {
                0 | 1 => savepoints.push((self.tx.savepoint()?, self.done.len())),
                2 if !savepoints.is_empty() => {
                    let at = self.random().below(savepoints.len());
                    self.back_to(savepoints[at])?;
                    savepoints.truncate(at + usize::from(self.random().one_in(2)));
                }
                _ => {
                    let before = self.done.len();
                    let Err(error) = self.operation() else { continue };
                    if !is_expected(&error) {
                        return Err(error);
                    }
                    self.client.book.refused.fetch_add(1, Ordering::Relaxed);
                    let savepoint = savepoints.last().copied();
                    if self.done.len() == before && self.random().one_in(2) {
                        // What could not be done has left nothing.
                        continue;
                    }
                    match savepoint {
                        Some(savepoint) if self.random().one_in(2) => self.back_to(savepoint)?,
                        _ => return Ok(false),
                    }
                }
            }
        }
        if self.random().one_in(4) {
            return Ok(false);
        }
        self.check_locked()?;
        match self.judge() {
            Ok(()) => Ok(true),
            Err(error) if is_expected(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn back_to(&mut self, (savepoint, done): (Savepoint, usize)) -> Result<()> {
        self.client.book.undo(writes(&self.done[done..]));
        self.tell(format!("back to {done}"));
        self.tx.rollback_to(savepoint)?;
        self.tell("is back".into());
        self.done.truncate(done);
        // Keys may be free again.
        for (key, own) in &mut self.keys {
            self.client.book.touch(*key);
            *own += 1;
        }
        Ok(())
    }

    fn operation(&mut self) -> Result<()> {
        match self.random().below(16) {
            0..=2 => self.insert(PARENTS).map(|_| ()),
            3 => self.insert(CHILDREN).map(|_| ()),
            4 | 5 => self.change_parent(),
            6 => self.move_parent(),
            7 => self.delete_parent(),
            8 => self.come_and_go(),
            9 => self.exchange(),
            10 => self.change_child(),
            11 => self.lock(),
            12 => self.load(),
            13 => self.replace_account(),
            14 => self.move_account(),
            _ => self.transfer(),
        }
    }

    fn new_row(&mut self) -> Row {
        let w = self.client.book.new_write();
        let random = self.random();
        let len = if random.one_in(5) { 1500 + random.below(4000) } else { random.below(200) };
        let q = random.one_in(2).then(|| random.number(KEYS));
        Row {
            id: random.number(IDS),
            u: random.number(KEYS),
            d: random.number(KEYS),
            n: random.number(IDS),
            q,
            v: 1,
            w,
            len,
        }
    }

    /// Says that these keys of a row of `table` are about to be given to it or taken away.
    fn touch(&mut self, table: usize, row: &Row) {
        if table == PARENTS {
            for key in [Some(Key::Id(row.id)), Some(Key::U(row.u)), row.q.map(Key::Q)].into_iter().flatten() {
                self.client.book.touch(key);
                *self.keys.entry(key).or_default() += 1;
            }
        }
    }

    /// How often others have said that of a key.
    fn touches_of(&self, key: Key) -> u64 {
        self.client.book.touches(key) - self.keys.get(&key).copied().unwrap_or(0)
    }

    fn touches(&self, row: &Row) -> Vec<(Key, u64)> {
        let keys = [Some(Key::Id(row.id)), Some(Key::U(row.u)), row.q.map(Key::Q)];
        keys.into_iter().flatten().map(|key| (key, self.touches_of(key))).collect()
    }

    /// A duplicate is one of a row that there is, or that there may be, unless somebody was at that key since.
    fn justified(&self, table: usize, before: &[(Key, u64)], error: Error) -> Error {
        if table != PARENTS || error.kind() != ErrorKind::UniqueViolation {
            return error;
        }
        let named = error.constraint().unwrap_or_default().to_owned();
        let table = self.table(table);
        for (key, touches) in before {
            let (index, value) = match key {
                Key::Id(value) if named.ends_with("_pkey") => (None, *value),
                Key::U(value) if named.ends_with("_u") => (Some(BY_U), *value),
                Key::Q(value) if named.ends_with("_q") => (Some(BY_Q), *value),
                _ => continue,
            };
            let mut encoded = Vec::new();
            let encode = match index {
                None => table.encode_key(&[DatumRef::Int8(value)], &mut encoded),
                Some(at) => table.encode_index_key(at, &[DatumRef::Int8(value)], &mut encoded),
            };
            let presence = encode.and_then(|()| self.tx.key_presence(&table, index, &encoded));
            match presence {
                Ok(Presence::No) if self.touches_of(*key) == *touches => {
                    return finding(format!("nobody has {key:?}, but {error:?}"));
                }
                Ok(_) => return error,
                Err(error) => return error,
            }
        }
        finding(format!("a duplicate of nothing that was given: {error:?}"))
    }

    fn wrote(&mut self, table: usize, row: &Row) -> Result<()> {
        self.done.push(Done::Wrote { table, w: row.w, d: row.d });
        self.tell(format!("wrote in {table} {row:?}"));
        if !self.random().one_in(4) {
            return Ok(());
        }
        // It sees what it wrote.
        let view = self.tx.statement(StatementKind::Read)?;
        let (of, mut buf) = (self.table(table), RowBuf::default());
        let found = view.get(&of, &key_of(&of, row.id)?, &mut buf)?.then(|| Row::read(&view, &of, buf.raw()));
        match found.transpose()? {
            Some(found) if found == *row => Ok(()),
            other => Err(finding(format!("wrote {row:?}, reads {other:?}"))),
        }
    }

    fn insert(&mut self, table: usize) -> Result<Row> {
        let row = self.new_row();
        let kind = self.kind();
        self.tx.statement(kind)?;
        self.insert_row(table, &row)?;
        Ok(row)
    }

    fn insert_row(&mut self, table: usize, row: &Row) -> Result<()> {
        self.touch(table, row);
        let before = self.touches(row);
        let (of, text) = (self.table(table), row.text());
        settle(|| self.tx.insert(&of, &row.datums(&text))).map_err(|error| self.justified(table, &before, error))?;
        self.wrote(table, row)?;
        if table == CHILDREN { self.needs_parent(row.n) } else { Ok(()) }
    }

    /// After a child was written: its parent is there.
    fn needs_parent(&mut self, id: i64) -> Result<()> {
        let parents = self.table(PARENTS);
        let key = key_of(&parents, id)?;
        loop {
            match self.tx.key_presence(&parents, None, &key)? {
                Presence::Yes => {
                    self.tell(format!("parent {id} yes"));
                    return Ok(());
                }
                Presence::No => {
                    self.tell(format!("parent {id} no"));
                    return Err(refused("no parent"));
                }
                Presence::Undecided(holder) => {
                    self.tell(format!("parent {id} undecided {holder}"));
                    wait_for(self.tx.wait_for_writer(holder)?)?;
                }
            }
        }
    }

    /// After an id of the parents was taken away: no child refers to it.
    fn without_children(&mut self, id: i64) -> Result<()> {
        let (parents, children) = (self.table(PARENTS), self.table(CHILDREN));
        let key = key_of(&parents, id)?;
        loop {
            match self.tx.key_presence(&parents, None, &key)? {
                Presence::Yes => {
                    self.tell(format!("left {id}, there again"));
                    return Ok(());
                }
                Presence::No => break,
                Presence::Undecided(holder) => wait_for(self.tx.wait_for_writer(holder)?)?,
            }
        }
        let mut search = self.tx.referencing(&children, &Search::new(&children, &[N]), &[N], vec![Datum::Int8(id)])?;
        while !search.is_over() {
            let Some(child) = search.step()? else { continue };
            loop {
                let presence = search.judge(&child)?.presence;
                self.tell(format!("left {id}, child {child:?} is {presence:?}"));
                match presence {
                    Presence::No => break,
                    Presence::Yes => return Err(refused("children")),
                    Presence::Undecided(holder) => wait_for(self.tx.wait_for_writer(holder)?)?,
                }
            }
        }
        self.tell(format!("left {id}, no children"));
        Ok(())
    }

    /// What is left to the end: keys that must be the only ones by then.
    fn judge(&mut self) -> Result<()> {
        let mut keys: Vec<(usize, i64)> = Vec::new();
        for done in &self.done {
            if let Done::Wrote { table, d, .. } = done
                && !keys.contains(&(*table, *d))
            {
                keys.push((*table, *d));
            }
        }
        for (table, d) in keys {
            let of = self.table(table);
            let search = Search::through(&of, BY_D);
            loop {
                let mut search = self.tx.referencing(&of, &search, &[D], vec![Datum::Int8(d)])?;
                let (mut rows, mut own, mut holder) = (0, false, None);
                while !search.is_over() {
                    let Some(row) = search.step()? else { continue };
                    let found = search.judge(&row)?;
                    match found.presence {
                        Presence::No => {}
                        Presence::Undecided(other) => holder = Some(other),
                        Presence::Yes => {
                            rows += 1;
                            own |= found.own;
                        }
                    }
                }
                match holder {
                    _ if !own => break,
                    _ if rows > 1 => return Err(refused("d")),
                    Some(holder) => wait_for(self.tx.wait_for_writer(holder)?)?,
                    None => break,
                }
            }
        }
        Ok(())
    }

    /// Gives the row that the statement sees under `id`, wherever it is by now, what `edit` makes of it. `None`: there is none, it is gone, or
    /// `edit` wants none.
    fn change(
        &mut self,
        table: usize,
        id: i64,
        mut edit: impl FnMut(&Row) -> Result<Option<Row>>,
    ) -> Result<Option<Row>> {
        let of = self.table(table);
        let (kind, others, mut hops) = (self.kind(), self.touches_of(Key::Id(id)), Vec::new());
        let view = self.tx.statement(kind)?;
        let (mut key, mut buf, mut trail, mut seen) =
            (key_of(&of, id)?, RowBuf::default(), Trail::default(), Seen::Snapshot);
        if !view.get(&of, &key, &mut buf)? {
            return Ok(None);
        }
        let w = self.client.book.new_write();
        self.tell(format!("statement {kind:?} to change {id} of {table}, touched {others}"));
        loop {
            let old = Row::read(&view, &of, buf.raw())?;
            let Some(new) = edit(&old)? else { return Ok(None) };
            let new = Row { w, ..new };
            self.touch(table, &old);
            self.touch(table, &new);
            let before = self.touches(&new);
            let text = new.text();
            let change = settle(|| self.tx.update(&of, &key, seen, &new.datums(&text)))
                .map_err(|error| self.justified(table, &before, error))?;
            match change {
                Change::Done => {
                    if new.id != old.id {
                        self.done.push(Done::Left { table, id: old.id });
                        self.tell(format!("left in {table} {old:?}"));
                    }
                    self.wrote(table, &new)?;
                    return Ok(Some(new));
                }
                Change::SelfModified => {
                    return Err(finding(format!("{old:?} was changed by a statement that had changed nothing")));
                }
                Change::Changed | Change::Gone => {
                    self.tell(format!("in {table} {old:?} is {change:?}"));
                    hops.push((old, change));
                    let Some(now) = self.tx.successor(&of, &key, &mut trail, &mut buf)? else {
                        self.gone(table, id, others, &hops)?;
                        return Ok(None);
                    };
                    seen = now;
                    key.clear();
                    key.extend_from_slice(buf.raw().key);
                }
            }
        }
    }

    /// A row that is gone is not there, unless somebody was at it since before the statement.
    fn gone(&mut self, table: usize, id: i64, before: u64, hops: &[(Row, Change)]) -> Result<()> {
        if table == PARENTS {
            let (of, mut buf) = (self.table(table), RowBuf::default());
            let there = self.tx.latest(&of, &key_of(&of, id)?, &mut buf)?.is_some();
            if there && self.touches_of(Key::Id(id)) == before {
                let now = Row::read(&self.tx.view()?, &of, buf.raw())?;
                let own: Vec<i64> = writes(&self.done).collect();
                return Err(finding(format!(
                    "{now:?} is there and nobody changes it, but what was under {id} is gone: {hops:?} ({:?}; own writes {own:?})",
                    self.tx.isolation()
                )));
            }
        }
        Ok(())
    }

    fn change_parent(&mut self) -> Result<()> {
        let (id, new) = (self.random().number(IDS), self.new_row());
        let what = self.random().below(8);
        self.change(PARENTS, id, |old| {
            Ok(Some(match what {
                0 => Row { u: new.u, ..old.clone() },
                1 => Row { d: new.d, ..old.clone() },
                2 => Row { q: new.q, ..old.clone() },
                3 => Row { n: new.n, ..old.clone() },
                4 => Row { len: new.len, ..old.clone() },
                5 => Row { u: new.u, q: new.q, ..old.clone() },
                6 => Row { v: old.v + 1, ..old.clone() },
                _ => Row { id: old.id, ..new.clone() },
            }))
        })?;
        Ok(())
    }

    fn move_parent(&mut self) -> Result<()> {
        let (id, new) = (self.random().number(IDS), self.new_row());
        let whole = self.random().one_in(3);
        let mut from = id;
        let moved = self.change(PARENTS, id, |old| {
            from = old.id;
            Ok(Some(if whole { new.clone() } else { Row { id: new.id, ..old.clone() } }))
        })?;
        match moved {
            Some(row) if row.id != from => self.without_children(from),
            _ => Ok(()),
        }
    }

    /// Deletes the row that the statement sees under `id`; the row as it was.
    fn delete(&mut self, table: usize, id: i64) -> Result<Option<Row>> {
        let of = self.table(table);
        let (kind, others, mut hops) = (self.kind(), self.touches_of(Key::Id(id)), Vec::new());
        let view = self.tx.statement(kind)?;
        let (mut key, mut buf, mut trail, mut seen) =
            (key_of(&of, id)?, RowBuf::default(), Trail::default(), Seen::Snapshot);
        if !view.get(&of, &key, &mut buf)? {
            return Ok(None);
        }
        loop {
            let old = Row::read(&view, &of, buf.raw())?;
            self.touch(table, &old);
            let mut noted = RowBuf::default();
            match settle(|| self.tx.delete_noting(&of, &key, seen, Some(&mut noted)))? {
                Change::Done => {
                    self.done.push(Done::Left { table, id: old.id });
                    self.tell(format!("left in {table} {old:?}"));
                    if noted.raw().value != buf.raw().value {
                        return Err(finding(format!("{old:?} was deleted, and was another one")));
                    }
                    return Ok(Some(old));
                }
                Change::SelfModified => {
                    return Err(finding(format!("{old:?} was changed by a statement that had changed nothing")));
                }
                change => {
                    self.tell(format!("in {table} {old:?} is {change:?}"));
                    hops.push((old, change));
                    let Some(now) = self.tx.successor(&of, &key, &mut trail, &mut buf)? else {
                        self.gone(table, id, others, &hops)?;
                        return Ok(None);
                    };
                    seen = now;
                    key.clear();
                    key.extend_from_slice(buf.raw().key);
                }
            }
        }
    }

    fn delete_parent(&mut self) -> Result<()> {
        let id = self.random().number(IDS);
        match self.delete(PARENTS, id)? {
            Some(old) => self.without_children(old.id),
            None => Ok(()),
        }
    }

    fn change_child(&mut self) -> Result<()> {
        let (id, new) = (self.random().number(IDS), self.new_row());
        if self.random().one_in(3) {
            self.delete(CHILDREN, id)?;
            return Ok(());
        }
        let moves = self.random().one_in(3);
        let changed = self.change(CHILDREN, id, |old| {
            Ok(Some(if moves { Row { id: new.id, ..old.clone() } } else { Row { n: new.n, q: new.q, ..old.clone() } }))
        })?;
        changed.map_or(Ok(()), |row| self.needs_parent(row.n))
    }

    /// A key that comes, goes and comes under one id, and is changed in between.
    fn come_and_go(&mut self) -> Result<()> {
        let row = self.new_row();
        self.tx.statement(StatementKind::PointWrite)?;
        self.insert_row(PARENTS, &row)?;
        for _ in 0..self.random().below(4) {
            let new = self.new_row();
            match self.random().below(3) {
                0 => {
                    self.tx.statement(StatementKind::PointWrite)?;
                    if self.delete(PARENTS, row.id)?.is_some() {
                        self.without_children(row.id)?;
                    }
                    self.tx.statement(StatementKind::PointWrite)?;
                    self.insert_row(PARENTS, &Row { id: row.id, ..new })?;
                }
                1 => {
                    self.change(PARENTS, row.id, |old| Ok(Some(Row { u: new.u, q: new.q, ..old.clone() })))?;
                }
                _ => {
                    self.change(PARENTS, row.id, |old| Ok(Some(Row { id: new.id, ..old.clone() })))?;
                    if new.id != row.id {
                        self.without_children(row.id)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Two rows exchange their unique keys, or their ids.
    fn exchange(&mut self) -> Result<()> {
        let (one, other) = (self.random().number(IDS), self.random().number(IDS));
        let aside = IDS.max(KEYS) + 10 + self.client.number as i64;
        let ids = self.random().one_in(2);
        if one == other {
            return Ok(());
        }
        let mut from = (one, 0);
        let give =
            |old: &Row, key: i64| if ids { Row { id: key, ..old.clone() } } else { Row { u: key, ..old.clone() } };
        let Some(first) = self.change(PARENTS, one, |old| {
            from = (old.id, if ids { old.id } else { old.u });
            Ok(Some(give(old, aside)))
        })?
        else {
            return Ok(());
        };
        let (first_id, free) = (first.id, from.1);
        let mut second = (other, free);
        let changed = self.change(PARENTS, other, |old| {
            second = (old.id, if ids { old.id } else { old.u });
            Ok(Some(give(old, free)))
        })?;
        let back = if changed.is_some() { second.1 } else { free };
        if self.change(PARENTS, first_id, |old| Ok(Some(give(old, back))))?.is_none() {
            return Err(finding("a row of its own is gone"));
        }
        if ids {
            self.without_children(from.0)?;
            self.without_children(second.0)?;
        }
        Ok(())
    }

    /// Several rows at once.
    fn load(&mut self) -> Result<()> {
        let rows: Vec<Row> = (0..1 + self.random().below(4)).map(|_| self.new_row()).collect();
        let texts: Vec<String> = rows.iter().map(Row::text).collect();
        let datums: Vec<[DatumRef<'_>; 8]> = rows.iter().zip(&texts).map(|(row, text)| row.datums(text)).collect();
        let refs: Vec<&[DatumRef<'_>]> = datums.iter().map(<[_; 8]>::as_slice).collect();
        rows.iter().for_each(|row| self.touch(PARENTS, row));
        let before: Vec<_> = rows.iter().map(|row| self.touches(row)).collect();
        let (parents, mut done) = (self.table(PARENTS), 0);
        let kind = self.kind();
        self.tx.statement(kind)?;
        let loaded = settle(|| self.tx.insert_many(&parents, &refs, &mut done));
        for row in &rows[..done] {
            self.wrote(PARENTS, row)?;
        }
        loaded.map_err(|error| self.justified(PARENTS, &before[done.min(rows.len() - 1)], error))
    }

    fn lock(&mut self) -> Result<()> {
        let modes = [RowLockMode::KeyShare, RowLockMode::Share, RowLockMode::NoKeyUpdate, RowLockMode::Update];
        let (mode, id, waits) = (modes[self.random().below(4)], self.random().number(IDS), !self.random().one_in(4));
        let table = [PARENTS, ACCOUNTS_TABLE][self.random().below(2)];
        let of = self.table(table);
        let view = self.tx.statement(StatementKind::PointWrite)?;
        let (mut key, mut buf, mut trail, mut seen) =
            (key_of(&of, id)?, RowBuf::default(), Trail::default(), Seen::Snapshot);
        if !view.get(&of, &key, &mut buf)? {
            return Ok(());
        }
        loop {
            let attempt = || self.tx.lock_row_as(&of, &key, seen, mode);
            let locked = if waits { settle(attempt) } else { attempt().and_then(Attempt::done) };
            match locked? {
                Change::Done => break,
                Change::SelfModified => return Ok(()),
                Change::Changed | Change::Gone => match self.tx.successor(&of, &key, &mut trail, &mut buf)? {
                    None => return Ok(()),
                    Some(now) => {
                        seen = now;
                        key.clear();
                        key.extend_from_slice(buf.raw().key);
                    }
                },
            }
        }
        let Some(_) = self.tx.latest(&of, &key, &mut buf)? else {
            return Err(finding(format!("the row {id} of {} is locked {mode:?} and gone", of.name)));
        };
        let row = Row::read(&view, &of, buf.raw())?;
        self.tell(format!("locked {mode:?} in {table} {row:?}"));
        self.done.push(Done::Locked { table, row, mode });
        Ok(())
    }

    /// Rows that it has locked are as they were, but for what it has done itself.
    fn check_locked(&mut self) -> Result<()> {
        let own: Vec<i64> = writes(&self.done).collect();
        for (at, locked) in self.done.iter().enumerate() {
            let Done::Locked { table, row, mode } = locked else { continue };
            let has_left = |done: &Done| matches!(done, Done::Left { table: of, id } if of == table && *id == row.id);
            let (of, mut buf) = (self.table(*table), RowBuf::default());
            let there = self.tx.latest(&of, &key_of(&of, row.id)?, &mut buf)?.is_some();
            if self.done[at..].iter().any(has_left) {
                continue;
            }
            let now = if there { Some(Row::read(&self.tx.view()?, &of, buf.raw())?) } else { None };
            let is_fine = now.as_ref().is_some_and(|now| {
                let keys = |row: &Row| (row.id, row.u, row.q, row.d);
                now == row || own.contains(&now.w) || *mode == RowLockMode::KeyShare && keys(now) == keys(row)
            });
            if !is_fine {
                return Err(finding(format!("{row:?} is locked {mode:?}, and is {now:?} now")));
            }
        }
        Ok(())
    }

    /// The id under which the statement sees an account.
    fn account(&mut self, label: i64) -> Result<i64> {
        let of = self.table(ACCOUNTS_TABLE);
        let view = self.tx.statement(StatementKind::PointWrite)?;
        let (mut key, mut buf) = (Vec::new(), RowBuf::default());
        of.encode_index_key(BY_U, &[DatumRef::Int8(label)], &mut key)?;
        if !view.get_by_index(&of, &of.indexes[BY_U], &key, &mut buf)? {
            return Err(finding(format!("there is no account {label}")));
        }
        Ok(Row::read(&view, &of, buf.raw())?.id)
    }

    fn change_account(&mut self, label: i64, edit: impl Fn(&Row) -> Row) -> Result<()> {
        let id = self.account(label)?;
        let mut is_met = false;
        let changed = self.change(ACCOUNTS_TABLE, id, |old| {
            // A transaction of READ COMMITTED has looked before; but from here on it is led to the same row.
            match (old.u == label, std::mem::replace(&mut is_met, true)) {
                (true, _) => Ok(Some(edit(old))),
                (false, false) => {
                    Err(Error::new(ErrorKind::SerializationFailure, "another account has that id by now"))
                }
                (false, true) => Err(finding(format!("the account {label} was followed to {old:?}"))),
            }
        })?;
        // It was deleted, and came back, before it was met.
        changed.map(|_| ()).ok_or_else(|| Error::new(ErrorKind::SerializationFailure, "the account is another row"))
    }

    fn transfer(&mut self) -> Result<()> {
        let (from, to, amount) =
            (self.random().number(ACCOUNTS), self.random().number(ACCOUNTS), self.random().number(20));
        let len = self.random().below(if amount == 7 { 3000 } else { 50 });
        let savepoint = (self.tx.savepoint()?, self.done.len());
        let both = self
            .change_account(from, |old| Row { v: old.v - amount, n: old.n + 1, len, ..old.clone() })
            .and_then(|()| self.change_account(to, |old| Row { v: old.v + amount, n: old.n + 1, ..old.clone() }));
        match both {
            Ok(()) => self.done.extend([Done::Incremented, Done::Incremented]),
            Err(error) if is_expected(&error) => {
                self.back_to(savepoint)?;
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// An account gets another id, or two exchange theirs.
    fn move_account(&mut self) -> Result<()> {
        let label = self.random().number(ACCOUNTS);
        let id = self.random().number(IDS);
        self.change_account(label, |old| Row { id, n: old.n + 1, ..old.clone() })?;
        self.done.push(Done::Incremented);
        Ok(())
    }

    /// It goes and comes back.
    fn replace_account(&mut self) -> Result<()> {
        let (label, other) = (self.random().number(ACCOUNTS), self.random().number(IDS));
        let savepoint = (self.tx.savepoint()?, self.done.len());
        let id = self.account(label)?;
        let replaced = self.delete(ACCOUNTS_TABLE, id).and_then(|old| match old {
            Some(old) if old.u == label => {
                let w = self.client.book.new_write();
                let id = if self.random().one_in(2) { old.id } else { other };
                let kind = self.kind();
                self.tx.statement(kind)?;
                self.insert_row(ACCOUNTS_TABLE, &Row { id, w, n: old.n + 1, ..old })
            }
            _ => Err(Error::new(ErrorKind::SerializationFailure, "the account is another row")),
        });
        match replaced {
            Ok(()) => self.done.push(Done::Incremented),
            Err(error) if is_expected(&error) => {
                self.back_to(savepoint)?;
                return Err(error);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}
