//! Definitions as ordinary versioned rows, so that changes of them commit, roll back and
//! recover as rows do; and the cache of committed ones. (A transaction's own: `catalog_overlay.rs`.)
//!
//! Each state of the committed definitions is made from the one before and the tables that a commit changed, so it
//! costs what was changed and not how many tables there are. The states of the last commits are kept for those who
//! began before them.
//!
//! What the rows are: `catalog_row.rs`. A name is a key, so two transactions that create the same name meet at one record.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use hashbrown::HashMap;
use parking_lot::{Mutex, MutexGuard, RwLock};
use resurgam_base::{Error, ErrorKind, ObjectId, Result, TxId, limits::IDENTIFIER_BYTES_MAX};
use resurgam_btree::Tree;
use resurgam_buffer::{Access, BufferPool};
use resurgam_versions::{Outcome, RowWriter, Seen};

use crate::catalog_row::{CATALOG_OBJECT, CatalogKey, NameOf, definition_key, name_key, object_name_key, values_key};
use crate::cursor::{Cursor, Direction, KeyRange, RowBatch};
use crate::database::Database;
use crate::databases::namespace_in;
use crate::definition::Definition;
use crate::shared_map::SharedMap;
use crate::table::{RowCounters, Table};
use crate::transaction::{Attempt, Isolation, Transaction, check_open};
use crate::view::ReadView;

/// First id of user objects, as PostgreSQL's.
pub(crate) const FIRST_USER_OBJECT: u32 = 16384;
const CHUNK: usize = 1400;

/// All definitions as of one moment.
#[derive(Clone, Default)]
pub(crate) struct Definitions {
    pub by_id: SharedMap<u32, Arc<Table>>,
    pub by_name: SharedMap<(String, String), u32>,
    /// Tables with foreign keys that refer to a table, and views that read a table or view.
    pub referrers: SharedMap<u32, Vec<u32>>,
    /// Tables that are gone, with the version of the catalog that no longer had them.
    dropped: SharedMap<u32, u64>,
}

impl Definitions {
    fn add(&mut self, table: Arc<Table>) {
        for needed in table.needs() {
            let mut of_parent = self.referrers.get(&needed).cloned().unwrap_or_default();
            if let Err(at) = of_parent.binary_search(&table.id) {
                of_parent.insert(at, table.id);
                self.referrers.insert(needed, of_parent);
            }
        }
        self.by_name.insert((table.namespace(), table.name.clone()), table.id);
        self.by_id.insert(table.id, table);
    }

    fn remove(&mut self, id: u32) -> Option<Arc<Table>> {
        let table = self.by_id.remove(&id)?;
        let name = (table.namespace(), table.name.clone());
        // It may be another's by now.
        if self.by_name.get(&name) == Some(&id) {
            self.by_name.remove(&name);
        }
        for needed in table.needs() {
            let mut of_parent = self.referrers.get(&needed).cloned().unwrap_or_default();
            of_parent.retain(|other| *other != id);
            if of_parent.is_empty() {
                self.referrers.remove(&needed);
            } else {
                self.referrers.insert(needed, of_parent);
            }
        }
        Some(table)
    }

    /// Notes tables as gone at `version`. Views older than so many changes of definitions get a
    /// serialization failure for tables that were dropped since.
    fn note_dropped(&mut self, ids: impl Iterator<Item = u32>, version: u64) {
        for id in ids {
            self.dropped.insert(id, version);
        }
        if self.dropped.len() > 2 * DROPPED_KEPT {
            let mut versions: Vec<u64> = self.dropped.values().copied().collect();
            versions.sort_unstable();
            let oldest = versions[versions.len() - DROPPED_KEPT];
            let old: Vec<u32> = self.dropped.iter().filter(|(_, at)| **at < oldest).map(|(id, _)| *id).collect();
            for id in old {
                self.dropped.remove(&id);
            }
        }
    }
}

/// States of the definitions before the newest that are kept: so many, and not more than differ from each
/// other by so many tables, since tables that are gone stay in memory with them.
const STATES_KEPT: usize = 64;
const STATES_TABLES: usize = 128;

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
    /// States before that, with their versions, and how many tables the next one changed; the newest last.
    earlier: Mutex<VecDeque<(u64, Arc<Definitions>, usize)>>,
    /// The tables whose definitions each version changed, from the cached one on; `None`: not known.
    changed: Mutex<BTreeMap<u64, Option<Vec<u32>>>>,
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
    counters: HashMap<ObjectId, Weak<RowCounters>>,
    /// From this length on those without a definition go.
    tidy_at: usize,
}

impl RowIds {
    fn of(&mut self, object: ObjectId) -> Arc<RowCounters> {
        if let Some(counter) = self.counters.get(&object).and_then(Weak::upgrade) {
            return counter;
        }
        if self.counters.len() >= self.tidy_at {
            self.counters.retain(|_, counter| counter.strong_count() > 0);
            // As much work as there were new ones since.
            self.tidy_at = (2 * self.counters.len()).max(ROW_IDS_KEPT);
        }
        let counter: Arc<RowCounters> = Arc::default();
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
            earlier: Mutex::default(),
            changed: Mutex::default(),
            loading: Mutex::new(()),
            highest: AtomicU32::new(0),
            read: AtomicU64::new(0),
            row_ids: Mutex::default(),
        }
    }

    /// A table in name only, to look at rows of the catalog's tree.
    pub fn carrier(&self) -> Table {
        carrier(self.tree)
    }

    /// Raised when a commit changed definitions.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }
    /// The highest id of a table, index or constraint in a definition that was read.
    pub fn highest_id(&self) -> u32 {
        self.highest.load(Ordering::SeqCst)
    }
    /// Whether there is any row of a definition, or of a sequence's values, with that id, committed or not.
    pub fn has_entry(&self, pool: &BufferPool, id: u32) -> Result<bool> {
        for key in [definition_key(id, 0), values_key(id)] {
            if self.tree.find(pool, &key, Access::Point)?.1.is_ok() {
                return Ok(true);
            }
        }
        Ok(false)
    }
    /// Whether a change is becoming visible at this moment.
    pub fn is_changing(&self) -> bool {
        self.changing.load(Ordering::SeqCst)
    }
    /// Raises the version in the moment in which `publish` makes the change visible. The
    /// caller loads the definitions before it lets go of what it gets: each version must be
    /// known on its own, to tell what changed in which. `tables` are all those whose definitions it
    /// changes; `None`: not known.
    pub fn change(&self, tables: Option<Vec<u32>>, publish: &dyn Fn()) -> MutexGuard<'_, ()> {
        let one = self.changes.lock();
        self.changed.lock().insert(self.version() + 1, tables);
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
        let (known, before) = self.cached.read().clone();
        let (definitions, tables) = match self.changed_since(known, version) {
            Some(tables) => (self.renewed(&before, &tables, &view, version)?, tables.len()),
            None => (self.reloaded(&before, &view, version)?, STATES_TABLES),
        };
        let definitions = Arc::new(definitions);
        let old = std::mem::replace(&mut *self.cached.write(), (version, Arc::clone(&definitions)));
        let mut changed = self.changed.lock();
        *changed = changed.split_off(&(version + 1));
        drop(changed);
        let mut earlier = self.earlier.lock();
        if old.0 > 0 {
            earlier.push_back((old.0, old.1, tables));
        }
        let mut differ: usize = earlier.iter().map(|(_, _, tables)| tables).sum();
        while (earlier.len() > STATES_KEPT || differ > STATES_TABLES)
            && let Some((_, _, tables)) = earlier.pop_front()
        {
            differ -= tables;
        }
        Ok(definitions)
    }

    /// The tables that were changed after version `known`, up to `version`, if all are known.
    fn changed_since(&self, known: u64, version: u64) -> Option<Vec<u32>> {
        if known == 0 {
            return None;
        }
        let changed = self.changed.lock();
        let mut all = Vec::new();
        for version in known + 1..=version {
            all.extend_from_slice(changed.get(&version)?.as_deref()?);
        }
        all.sort_unstable();
        all.dedup();
        Some(all)
    }

    /// The state after `before`, in which `tables` are changed.
    fn renewed(&self, before: &Definitions, tables: &[u32], view: &ReadView, version: u64) -> Result<Definitions> {
        let mut after = before.clone();
        let mut found = Vec::new();
        for id in tables {
            let mut prefix = vec![b't'];
            prefix.extend_from_slice(&id.to_be_bytes());
            self.read(view, version, KeyRange::prefix(&prefix), &mut |table| found.push(table))?;
        }
        // All old ones first: names may have gone from one to another.
        let old: Vec<Arc<Table>> = tables.iter().filter_map(|id| after.remove(*id)).collect();
        for table in found {
            // A definition that did not change keeps the version it came with.
            let same = old.iter().find(|old| old.id == table.id && old.generation == table.generation);
            after.add(same.map_or(table, Arc::clone));
        }
        let gone: Vec<u32> = old.iter().map(|old| old.id).filter(|id| !after.by_id.contains_key(id)).collect();
        after.note_dropped(gone.into_iter(), version);
        Ok(after)
    }

    /// The same by reading all of them.
    fn reloaded(&self, before: &Definitions, view: &ReadView, version: u64) -> Result<Definitions> {
        let mut after = self.load(view, version)?;
        after.dropped = before.dropped.clone();
        let mut gone = Vec::new();
        for (id, old) in before.by_id.iter() {
            match after.by_id.get(id) {
                Some(new) if new.generation == old.generation => {
                    after.by_id.insert(*id, Arc::clone(old));
                }
                Some(_) => {}
                None => gone.push(*id),
            }
        }
        after.note_dropped(gone.into_iter(), version);
        Ok(after)
    }

    /// The committed definitions of `version`, if they are at hand.
    fn cached_at(&self, version: u64) -> Option<Arc<Definitions>> {
        let cached = self.cached.read();
        if cached.0 == version {
            return Some(Arc::clone(&cached.1));
        }
        let earlier = self.earlier.lock();
        earlier.iter().rev().find(|(of, ..)| *of == version).map(|(_, state, _)| Arc::clone(state))
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
        self.read(view, valid_from, KeyRange::prefix(b"t"), &mut |table| definitions.add(table))?;
        Ok(definitions)
    }

    /// Reads the definitions in a range of the tree.
    fn read(&self, view: &ReadView, valid_from: u64, range: KeyRange, each: &mut dyn FnMut(Arc<Table>)) -> Result<()> {
        let carrier = Arc::new(carrier(self.tree));
        let view = ReadView { unchecked: true, ..view.clone() };
        let mut cursor = Cursor::new(view, carrier, None, range, Direction::Forward);
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
                        self.finish(current.take(), valid_from, each)?;
                        current = Some((id, row.value.to_vec()));
                    }
                }
            }
            if !more {
                break;
            }
        }
        self.finish(current, valid_from, each)
    }

    fn finish(&self, found: Option<(u32, Vec<u8>)>, valid_from: u64, each: &mut dyn FnMut(Arc<Table>)) -> Result<()> {
        let Some((id, bytes)) = found else { return Ok(()) };
        let parts = Definition::decode(&bytes)?;
        self.read.fetch_add(1, Ordering::Relaxed);
        if parts.id != id {
            return Err(Error::corrupt(format!("the definition of table {id} names table {}", parts.id)));
        }
        let ids = parts.indexes.iter().map(|i| i.id).chain(parts.checks.iter().map(|c| c.id));
        let highest = ids
            .chain(parts.sequence.iter().map(|sequence| sequence.values))
            .chain(parts.foreign_keys.iter().map(|f| f.id))
            .fold(id, u32::max);
        self.highest.fetch_max(highest, Ordering::SeqCst);
        each(self.build(parts, valid_from));
        Ok(())
    }
}

/// A table in name only, to run a cursor over the catalog's tree.
fn carrier(tree: Tree) -> Table {
    Definition { id: CATALOG_OBJECT.0, name: "catalog".into(), tree, generation: 0, ..Definition::without_rows() }
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
    pub(crate) fn others(&self) -> Result<Arc<Definitions>> {
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

    /// The table of that name; never a view.
    pub fn table(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        Ok(self.entry(schema, name)?.filter(|entry| entry.is_table()))
    }

    /// The table, view or sequence of that name; of the objects of other kinds with their [`Table::namespace`].
    pub(crate) fn entry(&self, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        self.entry_in(self.database(), schema, name)
    }

    /// The same in any database.
    pub(crate) fn entry_in(&self, database: u32, schema: &str, name: &str) -> Result<Option<Arc<Table>>> {
        let others = self.others()?;
        Ok(self.0.state.lock().catalog.named(&others, &namespace_in(database, schema.to_owned()), name))
    }

    /// The table with that id; never a view.
    pub fn table_by_id(&self, id: u32) -> Result<Option<Arc<Table>>> {
        Ok(self.entry_by_id(id)?.filter(|entry| entry.is_table()))
    }

    /// The table or view with that id.
    pub(crate) fn entry_by_id(&self, id: u32) -> Result<Option<Arc<Table>>> {
        let others = self.others()?;
        let found = self.0.state.lock().catalog.table(&others, id);
        Ok(found.filter(|entry| self.is_here(entry)))
    }

    /// Tables with foreign keys that refer to the table with that id (itself among them, if so),
    /// by name. Whoever adds or drops such a constraint gives the table a new generation, so for
    /// a definition of it that is found to be the newest, what was asked after it is complete.
    pub fn referrers(&self, id: u32) -> Result<Vec<Arc<Table>>> {
        let others = self.others()?;
        let mut all = self.0.state.lock().catalog.referrers(&others, id);
        all.retain(|entry| entry.is_table());
        all.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        Ok(all)
    }

    /// All tables, by schema and name; no views.
    pub fn tables(&self) -> Result<Vec<Arc<Table>>> {
        let mut all = self.entries()?;
        all.retain(|entry| entry.is_table());
        Ok(all)
    }

    /// All entries that its database has, objects of other kinds and those of the server among them, by schema and name.
    pub(crate) fn entries(&self) -> Result<Vec<Arc<Table>>> {
        let mut all = self.entries_in_no_order()?;
        all.retain(|entry| self.is_here(entry));
        all.sort_by(|a, b| (&a.schema, &a.name).cmp(&(&b.schema, &b.name)));
        Ok(all)
    }

    /// Whether a name is taken in a schema, and by what: the id of the table, and whether it is
    /// the name of the table itself or of an index of it (its primary key among them). The time it
    /// takes does not depend on how many tables there are.
    pub fn relation(&self, schema: &str, name: &str) -> Result<Option<(u32, bool)>> {
        self.named_id(&name_key(self.database(), schema, name))
    }

    /// What a name's row says.
    fn named_id(&self, key: &[u8]) -> Result<Option<(u32, bool)>> {
        let mut value = Vec::new();
        let tree = self.0.db.inner().catalog.tree;
        if !self.catalog_view()?.read_value(tree, key, &mut value)? {
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
    pub(crate) fn catalog_view(&self) -> Result<ReadView> {
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
        let listed = self.entries_everywhere()?;
        if listed.len() != stored.by_id.len() {
            wrong.push(format!("{} tables are listed, {} are stored", listed.len(), stored.by_id.len()));
        }
        for table in stored.by_id.values() {
            let encoded = |found: Option<Arc<Table>>| found.map(|found| Definition::of(&found).encode());
            let expected = Some(Definition::of(table).encode());
            let others = self.others()?;
            let (named, known) = {
                let catalog = &self.0.state.lock().catalog;
                (catalog.named(&others, &table.namespace(), &table.name), catalog.table(&others, table.id))
            };
            if encoded(known) != expected || encoded(named) != expected {
                wrong.push(format!("table {} \"{}\"", table.id, table.name));
            }
            let ids = |found: Vec<Arc<Table>>| found.iter().map(|found| found.id).collect::<Vec<_>>();
            let mut referrers = stored.referrers.get(&table.id).cloned().unwrap_or_default();
            let all = self.0.state.lock().catalog.referrers(&others, table.id);
            let mut found = ids(all);
            referrers.sort_unstable();
            found.sort_unstable();
            if referrers != found {
                wrong.push(format!("what refers to table {}: {found:?}, stored {referrers:?}", table.id));
            }
            let named = match &table.object {
                Some(object) => {
                    let schema = object.kind.naming_schema(&table.schema);
                    self.named_id(&object_name_key(table.database, object.kind.0, schema, &table.name))?
                }
                None => self.named_id(&name_key(table.database, &table.schema, &table.name))?,
            };
            if named != Some((table.id, false)) {
                wrong.push(format!("the name of table {}", table.id));
            }
        }
        Ok(wrong)
    }

    /// Writes a part of a definition. At the bound of the log it waits, so its caller has nothing locked that others need in order
    /// to go on: no latch, no mutex.
    fn with_catalog_writer<R>(&self, f: impl FnOnce(&RowWriter<'_>, Tree) -> Result<R>) -> Result<R> {
        self.throttle_definition()?;
        let result = self.with_catalog_writer_at_once(f)?;
        self.0.state.lock().catalog.changed = true;
        Ok(result)
    }

    /// The same for what is no definition.
    pub(crate) fn with_catalog_writer_aside<R>(&self, f: impl FnOnce(&RowWriter<'_>, Tree) -> Result<R>) -> Result<R> {
        self.0.db.throttle(self)?;
        self.with_catalog_writer_at_once(f)
    }

    /// The same for who has waited already, and may have something locked.
    pub(crate) fn with_catalog_writer_at_once<R>(
        &self,
        f: impl FnOnce(&RowWriter<'_>, Tree) -> Result<R>,
    ) -> Result<R> {
        let inner = self.0.db.inner();
        let context = self.write_context()?;
        let writer = RowWriter {
            update_locks: resurgam_txn::RowLockMode::Update,
            keeps_ghosts: false,
            pool: &inner.pool,
            store: &inner.versions,
            spans: &inner.empty_spans,
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
        f(&writer, inner.catalog.tree)
    }

    /// Takes a name for a table or index.
    pub(crate) fn claim_name(&self, schema: &str, name: &str, id: u32, is_index: bool) -> Result<Attempt<()>> {
        check_name(if is_index { "index" } else { "table" }, name)?;
        let taken = || Error::new(ErrorKind::DuplicateTable, format!("relation \"{name}\" already exists"));
        self.claim_key(&name_key(self.database(), schema, name), id, is_index, taken)
    }

    /// The same by the name's key.
    pub(crate) fn claim_key(
        &self,
        key: &[u8],
        id: u32,
        is_index: bool,
        taken: impl FnOnce() -> Error,
    ) -> Result<Attempt<()>> {
        let value = NameOf { table: id, is_index }.encode();
        let outcome = self.with_catalog_writer(|w, tree| w.insert(tree, key, &value, &mut None))?;
        match outcome {
            Outcome::Done => Ok(Attempt::Done(())),
            Outcome::Wait(holder) => {
                let id = self.write_context()?.active.id;
                Ok(Attempt::Wait(self.0.db.inner().txs.wait_for(id, holder)?))
            }
            _ => Err(taken()),
        }
    }

    /// Gives a name back.
    pub(crate) fn release_name(&self, schema: &str, name: &str) -> Result<()> {
        self.release_key(&name_key(self.database(), schema, name))
    }

    /// The same by the name's key.
    pub(crate) fn release_key(&self, key: &[u8]) -> Result<()> {
        expect_done(self.with_catalog_writer(|w, tree| w.delete(tree, key, Seen::Snapshot))?, "a name")
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
        if let Some(old) = old {
            self.follow_columns(old, &table)?;
        }
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
        if table.is_table() {
            // Whoever stores some holds the table, as this transaction does.
            let _ = self.remove_statistics(table.id)?;
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
