//! Definitions as ordinary versioned rows, so that changes of them commit, roll back and
//! recover as rows do; and the cache of committed ones. (A transaction's own: `catalog_overlay.rs`.)
//!
//! What the rows are: `catalog_row.rs`. A name is a key, so two transactions that create the same name meet at one record.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard, RwLock};
use resurgam_base::{Error, ErrorKind, ObjectId, Result, TxId, limits::IDENTIFIER_BYTES_MAX};
use resurgam_btree::Tree;
use resurgam_versions::{Outcome, RowWriter, Seen};

use crate::catalog_row::{CATALOG_OBJECT, CatalogKey, NameOf, definition_key, name_key};
use crate::cursor::{Cursor, Direction, KeyRange, RowBatch};
use crate::database::Database;
use crate::definition::Definition;
use crate::table::Table;
use crate::transaction::{Attempt, Isolation, Transaction, check_open};
use crate::view::ReadView;

/// First id of user objects, as PostgreSQL's.
pub(crate) const FIRST_USER_OBJECT: u32 = 16384;
const CHUNK: usize = 1400;

/// All definitions as of one moment.
#[derive(Default)]
pub(crate) struct Definitions {
    pub by_id: HashMap<u32, Arc<Table>>,
    pub by_name: HashMap<(String, String), u32>,
    /// Tables with foreign keys that refer to a table.
    pub referrers: HashMap<u32, Vec<u32>>,
    /// Tables that are gone, with the version of the catalog that no longer had them.
    dropped: HashMap<u32, u64>,
}

/// Dropped tables that are remembered, at least.
const DROPPED_KEPT: usize = 4096;

/// The cache of committed definitions.
pub(crate) struct Catalog {
    pub tree: Tree,
    version: AtomicU64,
    /// A change is becoming visible at this moment; see [`Database::snapshot`].
    changing: AtomicBool,
    /// Held from a change to the loading of its definitions.
    changes: Mutex<()>,
    cached: RwLock<(u64, Arc<Definitions>)>,
    loading: Mutex<()>,
    /// The highest id of anything in a definition that was read.
    highest: AtomicU32,
    /// Definitions that were read from the tree since the open.
    read: AtomicU64,
    row_ids: Mutex<RowIds>,
}

/// The row id counters of trees that have a definition in memory: all definitions of a tree share
/// one. It may go with the last of them, since whoever has taken an id and not used it yet has one:
/// the next counter goes on behind the last row there is.
#[derive(Default)]
struct RowIds {
    counters: HashMap<ObjectId, Weak<AtomicU64>>,
    /// From this length on those without a definition go.
    tidy_at: usize,
}

impl RowIds {
    fn of(&mut self, object: ObjectId) -> Arc<AtomicU64> {
        if let Some(counter) = self.counters.get(&object).and_then(Weak::upgrade) {
            return counter;
        }
        if self.counters.len() >= self.tidy_at {
            self.counters.retain(|_, counter| counter.strong_count() > 0);
            // As much work as there were new ones since.
            self.tidy_at = (2 * self.counters.len()).max(ROW_IDS_KEPT);
        }
        let counter = Arc::default();
        self.counters.insert(object, Arc::downgrade(&counter));
        counter
    }
}

/// Counters below which none is looked for that has no definition.
const ROW_IDS_KEPT: usize = 256;

impl Catalog {
    pub fn new(tree: Tree) -> Self {
        Self {
            tree,
            version: AtomicU64::new(1),
            changing: AtomicBool::new(false),
            changes: Mutex::new(()),
            cached: RwLock::new((0, Arc::default())),
            loading: Mutex::new(()),
            highest: AtomicU32::new(0),
            read: AtomicU64::new(0),
            row_ids: Mutex::default(),
        }
    }

    /// Raised when a commit changed definitions.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
    /// The highest id of a table, index or constraint in a definition that was read.
    pub fn highest_id(&self) -> u32 {
        self.highest.load(Ordering::SeqCst)
    }
    /// Whether a change is becoming visible at this moment.
    pub fn is_changing(&self) -> bool {
        self.changing.load(Ordering::SeqCst)
    }
    /// Raises the version in the moment in which `publish` makes the change visible. The
    /// caller loads the definitions before it lets go of what it gets: each version must be
    /// known on its own, to tell what changed in which.
    pub fn change(&self, publish: &dyn Fn()) -> MutexGuard<'_, ()> {
        let one = self.changes.lock();
        self.changing.store(true, Ordering::SeqCst);
        publish();
        self.version.fetch_add(1, Ordering::SeqCst);
        self.changing.store(false, Ordering::SeqCst);
        one
    }

    /// Whether `table` described the table at `version` of the catalog. For readers: a later
    /// change does not concern them.
    pub fn was_current(&self, db: &Database, table: &Table, version: u64) -> Result<bool> {
        let mut definitions = {
            let cached = self.cached.read();
            if cached.0 >= version {
                match cached.1.by_id.get(&table.id) {
                    Some(now) if now.generation == table.generation => return Ok(table.valid_from <= version),
                    _ => Some(Arc::clone(&cached.1)),
                }
            } else {
                None
            }
        };
        let definitions = match definitions.take() {
            Some(definitions) => definitions,
            None => self.committed(db)?,
        };
        if table.valid_from > version {
            return Ok(false);
        }
        Ok(match definitions.by_id.get(&table.id) {
            Some(now) => now.generation == table.generation || now.valid_from > version,
            None => definitions.dropped.get(&table.id).is_some_and(|at| *at > version),
        })
    }

    /// Committed definitions now.
    pub fn committed(&self, db: &Database) -> Result<Arc<Definitions>> {
        let version = self.version();
        {
            let cached = self.cached.read();
            if cached.0 == version {
                return Ok(Arc::clone(&cached.1));
            }
        }
        let _one = self.loading.lock();
        let version = self.version();
        {
            let cached = self.cached.read();
            if cached.0 == version {
                return Ok(Arc::clone(&cached.1));
            }
        }
        let view = db.plain_view();
        let version = view.catalog_version;
        let mut definitions = self.load(&view, version)?;
        // A definition that did not change keeps the version it came with; what is missing
        // was dropped.
        let before = Arc::clone(&self.cached.read().1);
        definitions.dropped = before.dropped.clone();
        for (id, old) in &before.by_id {
            match definitions.by_id.get(id) {
                Some(new) if new.generation == old.generation => {
                    definitions.by_id.insert(*id, Arc::clone(old));
                }
                Some(_) => {}
                None => {
                    definitions.dropped.insert(*id, version);
                }
            }
        }
        // Views older than so many changes of definitions get a serialization failure for
        // tables that were dropped since.
        if definitions.dropped.len() > 2 * DROPPED_KEPT {
            let mut versions: Vec<u64> = definitions.dropped.values().copied().collect();
            versions.sort_unstable();
            let oldest = versions[versions.len() - DROPPED_KEPT];
            definitions.dropped.retain(|_, at| *at >= oldest);
        }
        let definitions = Arc::new(definitions);
        *self.cached.write() = (version, Arc::clone(&definitions));
        Ok(definitions)
    }

    /// The committed definitions, if those of `version` are the ones at hand.
    fn cached_at(&self, version: u64) -> Option<Arc<Definitions>> {
        let cached = self.cached.read();
        (cached.0 == version).then(|| Arc::clone(&cached.1))
    }

    /// Definitions that were read from the tree since the open.
    pub fn definitions_read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
    /// Trees of which a row id counter is kept.
    pub fn row_id_counters(&self) -> usize {
        self.row_ids.lock().counters.len()
    }

    /// Completes a definition.
    pub fn build(&self, parts: Definition, valid_from: u64) -> Arc<Table> {
        let counter = self.row_ids.lock().of(parts.tree.object);
        Arc::new(parts.build(counter, valid_from))
    }

    /// Reads all definitions that a view sees.
    pub fn load(&self, view: &ReadView, valid_from: u64) -> Result<Definitions> {
        let mut definitions = Definitions::default();
        let carrier = Arc::new(carrier(self.tree));
        let mut cursor = Cursor::new(
            {
                let mut v = view.clone();
                v.unchecked = true;
                v
            },
            carrier,
            None,
            KeyRange::prefix(b"t"),
            Direction::Forward,
        );
        let mut batch = RowBatch::default();
        let mut current: Option<(u32, Vec<u8>)> = None;
        loop {
            batch.clear();
            let more = cursor.next_batch(&mut batch, 1000)?;
            for i in 0..batch.len() {
                let row = batch.row(i);
                let Some(CatalogKey::Definition { id, .. }) = CatalogKey::decode(row.key) else {
                    return Err(Error::corrupt("a catalog key cannot be read"));
                };
                match &mut current {
                    Some((at, bytes)) if *at == id => bytes.extend_from_slice(row.value),
                    _ => {
                        self.finish(&mut definitions, current.take(), valid_from)?;
                        current = Some((id, row.value.to_vec()));
                    }
                }
            }
            if !more {
                break;
            }
        }
        self.finish(&mut definitions, current, valid_from)?;
        for table in definitions.by_id.values() {
            for foreign in &table.foreign_keys {
                let of_parent = definitions.referrers.entry(foreign.parent).or_default();
                // Tables come one after the other.
                if of_parent.last() != Some(&table.id) {
                    of_parent.push(table.id);
                }
            }
        }
        Ok(definitions)
    }

    fn finish(&self, definitions: &mut Definitions, found: Option<(u32, Vec<u8>)>, valid_from: u64) -> Result<()> {
        let Some((id, bytes)) = found else { return Ok(()) };
        let parts = Definition::decode(&bytes)?;
        self.read.fetch_add(1, Ordering::Relaxed);
        if parts.id != id {
            return Err(Error::corrupt(format!("the definition of table {id} names table {}", parts.id)));
        }
        let ids = parts.indexes.iter().map(|i| i.id).chain(parts.checks.iter().map(|c| c.id));
        let highest = ids.chain(parts.foreign_keys.iter().map(|f| f.id)).fold(id, u32::max);
        self.highest.fetch_max(highest, Ordering::SeqCst);
        let table = self.build(parts, valid_from);
        definitions.by_name.insert((table.schema.clone(), table.name.clone()), id);
        definitions.by_id.insert(id, table);
        Ok(())
    }
}

/// A table in name only, to run a cursor over the catalog's tree.
fn carrier(tree: Tree) -> Table {
    Definition {
        id: CATALOG_OBJECT.0,
        schema: String::new(),
        name: "catalog".into(),
        columns: Vec::new(),
        primary_key: Vec::new(),
        primary_key_name: String::new(),
        indexes: Vec::new(),
        checks: Vec::new(),
        foreign_keys: Vec::new(),
        tree,
        generation: 0,
        value_types: Vec::new(),
    }
    .build(Arc::default(), 0)
}

/// Refuses names that cannot be.
pub(crate) fn check_name(what: &str, name: &str) -> Result<()> {
    if name.is_empty() || name.contains('\0') {
        return Err(Error::new(ErrorKind::InvalidParameter, format!("invalid {what} name")));
    }
    if name.len() > IDENTIFIER_BYTES_MAX {
        return Err(Error::new(
            ErrorKind::LimitExceeded,
            format!("identifier \"{name}\" is too long: {} bytes, the most is {IDENTIFIER_BYTES_MAX}", name.len()),
        ));
    }
    Ok(())
}

impl Transaction {
    /// What this transaction sees of what others have committed: its own changes go before it.
    fn others(&self) -> Result<Arc<Definitions>> {
        let catalog = &self.0.db.inner().catalog;
        let version = {
            let state = self.0.state.lock();
            if state.catalog.changed {
                // What it had changed is forgotten with its end.
                check_open(&state)?;
            }
            // A READ COMMITTED transaction with changes of its own sees those of others as well.
            if self.0.isolation == Isolation::ReadCommitted || state.snapshot.is_none() {
                None
            } else if let Some(base) = &state.catalog.base {
                return Ok(Arc::clone(base));
            } else {
                Some(state.catalog_version())
            }
        };
        let Some(version) = version else { return catalog.committed(&self.0.db) };
        let base = match catalog.cached_at(version) {
            Some(cached) => cached,
            None => {
                let view = self.view()?;
                Arc::new(catalog.load(&ReadView { own: TxId::NONE, hidden_from: TxId(u64::MAX), ..view }, 0)?)
            }
        };
        self.0.state.lock().catalog.base = Some(Arc::clone(&base));
        Ok(base)
    }

    /// The table of that name.
    pub fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        let others = self.others()?;
        Ok(self.0.state.lock().catalog.named(&others, schema, name))
    }

    /// The table with that id.
    pub fn table_by_id(&self, id: u32) -> Result<Option<Arc<Table>>> {
        let others = self.others()?;
        Ok(self.0.state.lock().catalog.table(&others, id))
    }

    /// Tables with foreign keys that refer to the table with that id (itself among them, if so),
    /// by name. Whoever adds or drops such a constraint gives the table a new generation, so for
    /// a definition of it that is found to be the newest, what was asked after it is complete.
    pub fn referrers(&self, id: u32) -> Result<Vec<Arc<Table>>> {
        let others = self.others()?;
        let mut all = self.0.state.lock().catalog.referrers(&others, id);
        all.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        Ok(all)
    }

    /// All tables, by schema and name.
    pub fn tables(&self) -> Result<Vec<Arc<Table>>> {
        let others = self.others()?;
        let mut all = self.0.state.lock().catalog.tables(&others);
        all.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        Ok(all)
    }

    /// Whether a name is taken in a schema, and by what: the id of the table, and whether it is
    /// the name of the table itself or of an index of it (its primary key among them). The time it
    /// takes does not depend on how many tables there are.
    pub fn relation(&self, schema: &str, name: &str) -> Result<Option<(u32, bool)>> {
        let mut value = Vec::new();
        let tree = self.0.db.inner().catalog.tree;
        if !self.catalog_view()?.read_value(tree, &name_key(schema, name), &mut value)? {
            return Ok(None);
        }
        match NameOf::decode(&value) {
            Some(NameOf { table, is_index }) => Ok(Some((table, is_index))),
            None => Err(Error::corrupt("a name in the catalog cannot be read")),
        }
    }

    /// The table that has an index or a primary key of that name.
    pub fn table_of_index(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        match self.relation(schema, name)? {
            Some((id, true)) => self.table_by_id(id),
            _ => Ok(None),
        }
    }

    /// The catalog's rows as they are now, for READ COMMITTED, or as of the snapshot; its own
    /// changes included.
    fn catalog_view(&self) -> Result<ReadView> {
        let (frozen, own) = {
            let state = self.0.state.lock();
            let frozen = self.0.isolation == Isolation::RepeatableRead && state.snapshot.is_some();
            (frozen, state.active.as_ref().map_or(TxId::NONE, |active| active.id))
        };
        if frozen {
            return Ok(ReadView { hidden_from: TxId(u64::MAX), ..self.view()? });
        }
        Ok(ReadView { own, ..self.0.db.plain_view() })
    }

    /// What is not as the catalog's rows say, in words: for tests of what is kept of own changes.
    #[doc(hidden)]
    pub fn compare_definitions(&self) -> Result<Vec<String>> {
        let stored = self.0.db.inner().catalog.load(&self.catalog_view()?, 0)?;
        let mut wrong = Vec::new();
        let listed = self.tables()?;
        if listed.len() != stored.by_id.len() {
            wrong.push(format!("{} tables are listed, {} are stored", listed.len(), stored.by_id.len()));
        }
        for table in stored.by_id.values() {
            let encoded = |found: Option<Arc<Table>>| found.map(|found| Definition::of(&found).encode());
            let expected = Some(Definition::of(table).encode());
            let by_name = encoded(self.table(&table.schema, &table.name)?);
            if encoded(self.table_by_id(table.id)?) != expected || by_name != expected {
                wrong.push(format!("table {} \"{}\"", table.id, table.name));
            }
            let ids = |found: Vec<Arc<Table>>| found.iter().map(|found| found.id).collect::<Vec<_>>();
            let mut referrers = stored.referrers.get(&table.id).cloned().unwrap_or_default();
            let mut found = ids(self.referrers(table.id)?);
            referrers.sort_unstable();
            found.sort_unstable();
            if referrers != found {
                wrong.push(format!("what refers to table {}: {found:?}, stored {referrers:?}", table.id));
            }
            if self.relation(&table.schema, &table.name)? != Some((table.id, false)) {
                wrong.push(format!("the name of table {}", table.id));
            }
        }
        Ok(wrong)
    }

    fn with_catalog_writer<R>(&self, f: impl FnOnce(&RowWriter<'_>, Tree) -> Result<R>) -> Result<R> {
        let inner = self.0.db.inner();
        let context = self.write_context()?;
        let writer = RowWriter {
            pool: &inner.pool,
            store: &inner.versions,
            view: resurgam_versions::View {
                txs: &inner.txs,
                ts: context.snapshot.ts(),
                own: context.active.id,
                hidden_from: TxId(u64::MAX),
            },
            tx: &context.active,
            xid: context.xid,
            caps: inner.options.versions,
            versioning: inner.mode.versioning_of_definitions(),
            trust: true,
            frozen: false,
            prior: std::cell::RefCell::default(),
            over_deleted: std::cell::Cell::default(),
        };
        let result = f(&writer, inner.catalog.tree)?;
        self.0.state.lock().catalog.changed = true;
        Ok(result)
    }

    /// Takes a name for a table or index.
    pub(crate) fn claim_name(&self, schema: &str, name: &str, id: u32, is_index: bool) -> Result<Attempt<()>> {
        check_name(if is_index { "index" } else { "table" }, name)?;
        let key = name_key(schema, name);
        let value = NameOf { table: id, is_index }.encode();
        let outcome = self.with_catalog_writer(|w, tree| w.insert(tree, &key, &value, &mut None))?;
        match outcome {
            Outcome::Done => Ok(Attempt::Done(())),
            Outcome::Wait(holder) => {
                let id = self.write_context()?.active.id;
                Ok(Attempt::Wait(self.0.db.inner().txs.wait_for(id, holder)?))
            }
            _ => Err(Error::new(ErrorKind::DuplicateTable, format!("relation \"{name}\" already exists"))),
        }
    }

    /// Gives a name back.
    pub(crate) fn release_name(&self, schema: &str, name: &str) -> Result<()> {
        let key = name_key(schema, name);
        expect_done(self.with_catalog_writer(|w, tree| w.delete(tree, &key, Seen::Snapshot))?, "a name")
    }

    /// Stores a definition; `old` is the one it replaces.
    pub(crate) fn store_definition(&self, parts: &Definition, old: Option<&Table>) -> Result<Arc<Table>> {
        let bytes = parts.encode();
        let before = old.map_or(0, |t| Definition::of(t).encode().len().div_ceil(CHUNK));
        let chunks: Vec<&[u8]> = bytes.chunks(CHUNK).collect();
        for (at, chunk) in chunks.iter().enumerate() {
            let key = definition_key(parts.id, at);
            let outcome = self.with_catalog_writer(|w, tree| {
                if at < before {
                    w.update(tree, &key, chunk, Seen::Snapshot)
                } else {
                    w.insert(tree, &key, chunk, &mut None)
                }
            })?;
            expect_done(outcome, "a definition")?;
        }
        for at in chunks.len()..before {
            let key = definition_key(parts.id, at);
            expect_done(self.with_catalog_writer(|w, tree| w.delete(tree, &key, Seen::Snapshot))?, "a definition")?;
        }
        let table = self.0.db.inner().catalog.build(Definition::decode(&bytes)?, 0);
        self.0.state.lock().changed_definition(parts.id, Some(Arc::clone(&table)));
        Ok(table)
    }

    /// Removes a definition.
    pub(crate) fn remove_definition(&self, table: &Table) -> Result<()> {
        // It is under the id of what follows that the change is noted.
        self.write_context()?;
        self.0.state.lock().changed_definition(table.id, None);
        for at in 0..Definition::of(table).encode().len().div_ceil(CHUNK) {
            let key = definition_key(table.id, at);
            expect_done(self.with_catalog_writer(|w, tree| w.delete(tree, &key, Seen::Snapshot))?, "a definition")?;
        }
        Ok(())
    }
}

fn expect_done(outcome: Outcome, what: &str) -> Result<()> {
    match outcome {
        Outcome::Done => Ok(()),
        other => Err(Error::new(
            ErrorKind::SerializationFailure,
            format!("{what} in the catalog was changed at the same time ({other:?})"),
        )
        .with_hint("Retry the transaction.")),
    }
}
