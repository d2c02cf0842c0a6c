//! Transactions, as closures and whoever begins one by itself see them.

use std::any::TypeId;
use std::borrow::Cow;
use std::cell::{Cell, OnceCell, RefCell};
use std::sync::Arc;

use resurgam_engine::{
    Attempt, Durability, ErrorKind, Isolation, ReadView, RowBuf, StatementKind, TableSpec, Transaction,
};

use crate::db::Db;
use crate::error::{Error, Result};
use crate::fields::Fields;
use crate::kv::{ReadTable, Table, WriteTable};
use crate::rows::{ReadRows, Row, WriteRows};
use crate::shape::{Known, Shape, find};
use crate::store::Store;

/// Bytes of a row at most for which room is kept.
const ROW_KEPT: usize = 64 << 10;

/// What transactions of both kinds are made of.
pub(crate) struct Core {
    /// What one sees that does not write, all the time; what was found out for one read is known to the next.
    fixed: OnceCell<ReadView>,
    /// Room for a row, used again.
    spare: Cell<RowBuf>,
    /// Dropped before the database, which the last handle closes: it is to have no writer by then.
    pub tx: Transaction,
    pub db: Db,
    /// Whether it may write.
    pub writes: bool,
    /// Why nothing of it may be kept, if so.
    doomed: RefCell<Option<Doom>>,
}

/// Why nothing of a transaction may be kept.
pub(crate) enum Doom {
    /// It met what others did: the table and what happened. It may be tried again.
    Met(Option<String>, String),
    /// A part of it could not be taken back, and is still there.
    Failed(resurgam_engine::Error),
}

impl Core {
    fn begin(db: &Db, writes: bool) -> Self {
        // One state of the database for the whole closure; who writes what others wrote since is told.
        let tx = db.engine().begin(Isolation::RepeatableRead);
        // From now on, not from its first read. (One that has just begun has not ended, which is all that could be wrong.)
        let _ = tx.statement(StatementKind::Read);
        let (fixed, spare) = (OnceCell::new(), Cell::default());
        Self { fixed, spare, tx, db: db.clone(), writes, doomed: RefCell::default() }
    }

    /// What the transaction sees now.
    pub fn view(&self) -> resurgam_engine::Result<Cow<'_, ReadView>> {
        if self.writes {
            return self.tx.view().map(Cow::Owned);
        }
        if let Some(view) = self.fixed.get() {
            return Ok(Cow::Borrowed(view));
        }
        let view = self.tx.view()?;
        Ok(Cow::Borrowed(self.fixed.get_or_init(|| view)))
    }

    /// Does `work` with room for a row.
    pub fn with_row<T>(&self, work: impl FnOnce(&mut RowBuf) -> T) -> T {
        let mut row = self.spare.take();
        let done = work(&mut row);
        if row.bytes() <= ROW_KEPT {
            self.spare.set(row);
        }
        done
    }

    /// Notes an error after which nothing of the transaction may be kept.
    pub fn note(&self, error: Error) -> Error {
        if let Error::Conflict { table, cause, .. } = &error {
            self.doomed.borrow_mut().get_or_insert_with(|| Doom::Met(table.clone(), cause.clone()));
        }
        error
    }

    /// Such an error.
    pub fn conflict(&self, table: &str, cause: &str) -> Error {
        self.note(Error::Conflict { table: Some(table.to_owned()), attempts: 1, cause: cause.to_owned() })
    }

    /// The engine's error of a table, in this crate's words; `handle` is what was known of it.
    pub fn named(&self, table: &str, handle: Option<&Known>, error: resurgam_engine::Error) -> Error {
        if error.kind() == ErrorKind::DefinitionChanged && handle.is_some_and(|known| self.has_changed(known)) {
            let what = "the transaction itself has changed it since it took this handle: take the handle again";
            return Error::Definition { table: table.to_owned(), what: what.to_owned() };
        }
        match Error::from(error) {
            Error::Conflict { cause, attempts, .. } => {
                Error::Conflict { table: Some(table.to_owned()), attempts, cause }
            }
            other => other,
        }
    }

    /// Whether the transaction has changed a table since it took a handle. (What others change it does not see.)
    fn has_changed(&self, known: &Known) -> bool {
        let then = &known.table;
        match self.tx.table(&then.schema, &then.name) {
            Ok(Some(now)) => !now.is_definition_of(then),
            Ok(None) => true,
            Err(_) => false,
        }
    }

    /// Does a part of the transaction, of which nothing is left if it fails or panics.
    pub fn whole<T, E: From<Error>>(&self, part: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
        let savepoint = self.tx.savepoint().map_err(Error::from)?;
        // Also where a panic passes that somebody above catches.
        struct Back<'a>(Option<(&'a Core, resurgam_engine::Savepoint)>);
        impl Back<'_> {
            fn go(&mut self) -> Result<()> {
                let Some((core, savepoint)) = self.0.take() else { return Ok(()) };
                core.tx.rollback_to(savepoint).map_err(|error| {
                    // What it wrote is still there: it must not be committed.
                    *core.doomed.borrow_mut() = Some(Doom::Failed(error.clone()));
                    Error::Engine(error)
                })
            }
        }
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                let _ = self.go();
            }
        }
        let mut back = Back(Some((self, savepoint)));
        match part() {
            Ok(done) => {
                back.0 = None;
                Ok(done)
            }
            Err(error) => {
                back.go()?;
                Err(error)
            }
        }
    }

    /// Does what may have to wait for another transaction. Its conflicts are noted.
    pub fn settle<T>(
        &self,
        table: &str,
        handle: Option<&Known>,
        attempt: impl FnMut() -> resurgam_engine::Result<Attempt<T>>,
    ) -> Result<T> {
        self.settle_engine(table, handle, attempt).map_err(|error| self.note(error))
    }

    /// The same for who looks at the error first.
    pub fn settle_engine<T>(
        &self,
        table: &str,
        handle: Option<&Known>,
        mut attempt: impl FnMut() -> resurgam_engine::Result<Attempt<T>>,
    ) -> Result<T> {
        let named = |error| self.named(table, handle, error);
        loop {
            match attempt().map_err(named)? {
                Attempt::Done(done) => return Ok(done),
                Attempt::Wait(wait) => match self.db.lock_timeout() {
                    None => wait.wait().map_err(named)?,
                    Some(timeout) if wait.wait_timeout(timeout) => {}
                    Some(_) => return Err(Error::LockTimeout { table: table.to_owned() }),
                },
            }
        }
    }

    /// Whether the transaction sees something of the name of a table that is to be made, or of one of its indexes.
    pub fn is_taken(&self, spec: &TableSpec) -> bool {
        let indexes = spec.indexes.iter().map(|index| index.name.as_str());
        let key = spec.primary_key.iter().map(|(name, _)| name.as_str());
        let mut names = std::iter::once(spec.name.as_str()).chain(key).chain(indexes);
        names.any(|name| matches!(self.tx.relation(&spec.schema, name), Ok(Some(_))))
    }

    fn store<'tx>(
        &'tx self,
        of: TypeId,
        schema: &str,
        name: &str,
        shape: impl FnOnce() -> Shape,
        make: bool,
    ) -> Result<Store<'tx>> {
        if let Some(known) = self.db.known(of, name)
            && known.table.schema == schema
            && (known.is_whole || !make)
        {
            match self.tx.table(schema, name).map_err(|error| self.note(error.into()))? {
                Some(table) if Arc::ptr_eq(&table, &known.table) => return Ok(Store { core: self, known }),
                _ => {}
            }
        }
        // A table that cannot be made leaves none of its names, nor an index half of its rows.
        let shape = shape();
        let found = if make { self.whole(|| find(self, &shape, true)) } else { find(self, &shape, false) };
        let found = found.map_err(|error| self.note(error))?;
        let known: Arc<Known> = Arc::new(found);
        self.db.note_known(of, name, &known);
        Ok(Store { core: self, known })
    }

    fn pair<'tx, K: Fields, V: Fields>(&'tx self, table: &Table<K, V>, make: bool) -> Result<Store<'tx>> {
        let (schema, name) = (table.schema(), table.name());
        self.store(TypeId::of::<(K, V)>(), schema, name, || Shape::of_pair::<K, V>(schema, name), make)
    }

    fn rows<R: Row>(&self, make: bool) -> Result<Store<'_>> {
        self.store(TypeId::of::<R>(), R::SCHEMA, R::TABLE, R::shape, make)
    }
}

/// A transaction that reads: all of it sees the database as it was when it began. It waits for nobody, and nobody for it.
pub struct ReadTx(pub(crate) Core);

impl ReadTx {
    pub(crate) fn begin(db: &Db) -> Self {
        Self(Core::begin(db, false))
    }

    /// A key/value table.
    ///
    /// # Errors
    /// [`Error::NoTable`], [`Error::Mismatch`].
    pub fn table<K: Fields, V: Fields>(&self, table: &Table<K, V>) -> Result<ReadTable<'_, K, V>> {
        Ok(ReadTable::new(self.0.pair(table, false)?))
    }

    /// The table of a struct's rows.
    ///
    /// # Errors
    /// As [`ReadTx::table`].
    pub fn rows<R: Row>(&self) -> Result<ReadRows<'_, R>> {
        Ok(ReadRows::new(self.0.rows::<R>(false)?))
    }
}

/// A transaction that reads and writes. It sees the database as it was when it began, and what it wrote itself.
///
/// [`Db::write`] gives one to a closure, and ends it. One of [`Db::begin`] is ended by [`WriteTx::commit`]; dropped, it is
/// rolled back.
#[must_use = "a transaction that is dropped is rolled back"]
pub struct WriteTx(pub(crate) Core);

impl Drop for WriteTx {
    fn drop(&mut self) {
        // That of one that has ended fails, and changes nothing.
        let _ = self.0.tx.rollback();
        // What it was told of, the next transaction sees. (Where the log cannot be written, that one is told.)
        if self.0.tx.had_met()
            && let Ok(Some(seen)) = self.0.db.engine().until_visible()
        {
            let _ = seen.wait();
        }
    }
}

impl WriteTx {
    pub(crate) fn begin(db: &Db) -> Self {
        Self(Core::begin(db, true))
    }

    /// A key/value table; made if there is none.
    ///
    /// # Errors
    /// [`Error::Mismatch`], [`Error::NoSchema`], [`Error::Definition`].
    pub fn table<K: Fields, V: Fields>(&self, table: &Table<K, V>) -> Result<WriteTable<'_, K, V>> {
        Ok(WriteTable::new(self.0.pair(table, true)?))
    }

    /// A key/value table, if it is there; it is not made.
    ///
    /// # Errors
    /// [`Error::Mismatch`], [`Error::Definition`].
    pub fn find_table<K: Fields, V: Fields>(&self, table: &Table<K, V>) -> Result<Option<WriteTable<'_, K, V>>> {
        match self.0.pair(table, false) {
            Ok(store) => Ok(Some(WriteTable::new(store))),
            Err(Error::NoTable { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The table of a struct's rows; made if there is none, as are indexes that it lacks.
    ///
    /// # Errors
    /// As [`WriteTx::table`]; [`Error::Engine`] if rows that are there violate a unique index that it lacks.
    pub fn rows<R: Row>(&self) -> Result<WriteRows<'_, R>> {
        Ok(WriteRows::new(self.0.rows::<R>(true)?))
    }

    /// Runs a part of the transaction: if it fails, or panics, what it wrote is taken back, and the rest goes on.
    ///
    /// # Errors
    /// The closure's.
    pub fn savepoint<T, E: From<Error>>(&self, part: impl FnOnce(&Self) -> Result<T, E>) -> Result<T, E> {
        self.0.whole(|| part(self))
    }

    /// Commits; durable when this returns, unless [`Durability::Async`] was asked for.
    ///
    /// # Errors
    /// [`Error::Conflict`]: nothing was done, and the same may be tried again. Of [`Error::Engine`] the outcome is known when
    /// the database is opened again.
    pub fn commit(self) -> Result<()> {
        let durability = self.0.db.durability();
        self.commit_with(durability)
    }

    /// As [`WriteTx::commit`].
    ///
    /// # Errors
    /// As [`WriteTx::commit`].
    pub fn commit_with(self, durability: Durability) -> Result<()> {
        if let Some(doom) = self.take_doom() {
            self.rollback();
            return Err(match doom {
                Doom::Met(table, cause) => Error::Conflict { table, attempts: 1, cause },
                Doom::Failed(error) => Error::Engine(error),
            });
        }
        Ok(self.0.tx.commit(durability)?.wait()?)
    }

    /// Takes all of it back.
    pub fn rollback(self) {
        self.take_back();
    }

    /// As [`WriteTx::rollback`], but that what it was told of is waited for when it is dropped.
    pub(crate) fn take_back(&self) {
        // What cannot be logged of it now is undone by who opens the database next: it is not committed in any case.
        if let Err(error) = self.0.tx.rollback() {
            tracing::warn!("a rollback could not be logged: {error}");
        }
    }

    /// Why nothing of it may be kept, if so.
    pub(crate) fn take_doom(&self) -> Option<Doom> {
        self.0.doomed.borrow_mut().take()
    }
}
