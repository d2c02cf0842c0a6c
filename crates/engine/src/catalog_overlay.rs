//! What a transaction sees of the catalog once it has changed it: the definitions of all others,
//! with its own laid over them.
//!
//! Its changes are rows of the catalog's tree, which is what commits, aborts and recovers. They
//! are kept here as well, so that a change costs what the one definition costs, however many the
//! transaction has made before it: nothing is read again.
//!
//! # Invariants
//! 1. *The ids of changes never fall.* So what the ids after a savepoint's mark did is the end of
//!    the log, and goes back by being taken off there, the newest first.
//! 2. *A table that is named here is nobody else's.* It is locked for this transaction alone, or
//!    made by it and seen by nobody: the own definition is the newest, and what others have
//!    committed of the table is not asked for.
//! 3. *Views share the log and copy nothing.* A view knows how many changes there were when it was
//!    made, and passes over later ones. (Those that go back with a savepoint go from the log as
//!    well: views made after it must not be used any more.)
//!
//! # Memory
//! Of each table that was changed its newest definition; of each change some fifty bytes; and of
//! each definition that was replaced under another id (after a savepoint, that is) its stored form,
//! to be able to go back. `docs/slog.md` has measured numbers.

use std::collections::BTreeSet;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::RwLock;
use resurgam_base::{Result, TxId};

use crate::catalog::Definitions;
use crate::definition::Definition;
use crate::table::Table;

/// A definition of the transaction's own; none: it dropped the table.
type Own = Option<Arc<Table>>;

/// What a transaction knows of its own changes.
#[derive(Default)]
pub(crate) struct CatalogOverlay {
    /// It has written to the catalog.
    pub changed: bool,
    /// How often a definition was changed, or such a change was taken back.
    pub changes: u64,
    /// What others had committed when its snapshot was taken (REPEATABLE READ only).
    pub base: Option<Arc<Definitions>>,
    own: Overlay,
    /// None as long as nothing was changed.
    log: Option<Arc<RwLock<ChangeLog>>>,
}

/// Definitions that go before those of others.
#[derive(Default)]
struct Overlay {
    by_id: HashMap<u32, Own>,
    /// Names of those in `by_id` that are not dropped.
    by_name: HashMap<(String, String), u32>,
    /// For each table those in `by_id` with foreign keys that refer to it.
    referrers: HashMap<u32, BTreeSet<u32>>,
}

/// Changes in their order.
#[derive(Default)]
struct ChangeLog {
    changes: Vec<Change>,
    /// Position of the newest change of each table.
    newest: HashMap<u32, usize>,
}

struct Change {
    /// Number of the change, which is never used again; see [`CatalogOverlay::changes`].
    number: u64,
    /// The id under which it was made.
    by: TxId,
    table: u32,
    /// Generation of the new definition; 0 = dropped.
    generation: u64,
    /// Position of the change of the same table before it.
    before: Option<usize>,
    replaced: Replaced,
}

/// What the overlay had before a change.
enum Replaced {
    Nothing,
    Dropped,
    /// A definition, as it is stored.
    Definition(Box<[u8]>),
    /// What the same id had made: it is never gone back to.
    OfSameId,
}

/// The changes that a view's transaction had made when the view was.
#[derive(Clone)]
pub(crate) struct OwnChanges {
    log: Arc<RwLock<ChangeLog>>,
    /// Number of the last one.
    until: u64,
}

impl OwnChanges {
    /// Generation of a table of which a definition was stored by then (0 = it was dropped).
    pub fn generation(&self, table: u32) -> Option<u64> {
        let log = self.log.read();
        let mut at = log.newest.get(&table).copied();
        while let Some(change) = at.and_then(|at| log.changes.get(at)) {
            if change.number <= self.until {
                return Some(change.generation);
            }
            at = change.before;
        }
        None
    }
}

impl Overlay {
    /// Puts a definition in the place of another; `None` takes the table out. Returns what was there.
    fn set(&mut self, id: u32, to: Option<Own>) -> Option<Own> {
        let from = match &to {
            Some(own) => self.by_id.insert(id, own.clone()),
            None => self.by_id.remove(&id),
        };
        if let Some(Some(old)) = &from {
            let name = (old.namespace(), old.name.clone());
            // It may be another's by now.
            if self.by_name.get(&name) == Some(&id) {
                self.by_name.remove(&name);
            }
            for needed in old.needs() {
                if let Some(children) = self.referrers.get_mut(&needed) {
                    children.remove(&id);
                    if children.is_empty() {
                        self.referrers.remove(&needed);
                    }
                }
            }
        }
        if let Some(Some(new)) = &to {
            self.by_name.insert((new.namespace(), new.name.clone()), id);
            for needed in new.needs() {
                self.referrers.entry(needed).or_default().insert(id);
            }
        }
        from
    }
}

impl CatalogOverlay {
    /// `xid` stored a definition of a table, or removed it (`None`).
    pub fn note(&mut self, xid: TxId, table: u32, now: Own) {
        self.changes += 1;
        let generation = now.as_ref().map_or(0, |now| now.generation);
        let had = self.own.set(table, Some(now));
        let mut log = self.log.get_or_insert_default().write();
        let at = log.changes.len();
        let before = log.newest.insert(table, at);
        let same_id = before.and_then(|before| log.changes.get(before)).is_some_and(|before| before.by == xid);
        let replaced = match had {
            _ if same_id => Replaced::OfSameId,
            None => Replaced::Nothing,
            Some(None) => Replaced::Dropped,
            Some(Some(had)) => Replaced::Definition(Definition::of(&had).encode().into_boxed_slice()),
        };
        log.changes.push(Change { number: self.changes, by: xid, table, generation, before, replaced });
    }

    /// Everything that ids after `mark` did is taken back. `build` completes a definition.
    ///
    /// # Errors
    /// Those of reading what it has kept itself; what it says of its tables is then not right.
    pub fn back_to(&mut self, mark: TxId, build: impl Fn(Definition) -> Arc<Table>) -> Result<()> {
        let Some(log) = &self.log else { return Ok(()) };
        let mut log = log.write();
        while let Some(change) = log.changes.pop_if(|change| change.by > mark) {
            self.changes += 1;
            match change.before {
                Some(before) => log.newest.insert(change.table, before),
                None => log.newest.remove(&change.table),
            };
            let to = match change.replaced {
                Replaced::OfSameId => continue,
                Replaced::Nothing => None,
                Replaced::Dropped => Some(None),
                Replaced::Definition(bytes) => Some(Some(build(Definition::decode(&bytes)?))),
            };
            self.own.set(change.table, to);
        }
        Ok(())
    }

    /// Nothing of it is needed any more: the transaction has ended.
    pub fn clear(&mut self) {
        self.own = Overlay::default();
        self.log = None;
        self.base = None;
    }

    /// The changes until now, for a view.
    pub fn so_far(&self) -> Option<OwnChanges> {
        self.log.as_ref().map(|log| OwnChanges { log: Arc::clone(log), until: self.changes })
    }

    /// Generation of a table that it made or changed (0 = dropped).
    pub fn generation(&self, table: u32) -> Option<u64> {
        self.own.by_id.get(&table).map(|own| own.as_ref().map_or(0, |own| own.generation))
    }

    /// The table with that id.
    pub fn table(&self, base: &Definitions, id: u32) -> Option<Arc<Table>> {
        match self.own.by_id.get(&id) {
            Some(own) => own.clone(),
            None => base.by_id.get(&id).cloned(),
        }
    }

    /// The table of that name.
    pub fn named(&self, base: &Definitions, schema: &str, name: &str) -> Option<Arc<Table>> {
        let name = (schema.to_owned(), name.to_owned());
        if let Some(id) = self.own.by_name.get(&name) {
            return self.own.by_id.get(id).cloned().flatten();
        }
        // One that is its own has another name by now, or none.
        let id = base.by_name.get(&name).filter(|id| !self.own.by_id.contains_key(*id))?;
        base.by_id.get(id).cloned()
    }

    /// The tables whose definitions it has changed.
    pub fn changed_tables(&self) -> Vec<u32> {
        self.own.by_id.keys().copied().collect()
    }

    /// Tables with foreign keys that refer to a table.
    pub fn referrers(&self, base: &Definitions, id: u32) -> Vec<Arc<Table>> {
        let others = base.referrers.get(&id).map_or(&[][..], Vec::as_slice);
        let others = others.iter().filter(|id| !self.own.by_id.contains_key(*id)).filter_map(|id| base.by_id.get(id));
        let own = self.own.referrers.get(&id).into_iter().flatten();
        let own = own.filter_map(|id| self.own.by_id.get(id)).flatten();
        others.chain(own).cloned().collect()
    }

    /// All tables.
    pub fn tables(&self, base: &Definitions) -> Vec<Arc<Table>> {
        let others = base.by_id.values().filter(|table| !self.own.by_id.contains_key(&table.id));
        others.chain(self.own.by_id.values().flatten()).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use resurgam_base::{ObjectId, PageId};
    use resurgam_btree::Tree;

    use super::*;

    fn parts(id: u32, name: &str, generation: u64) -> Definition {
        Definition {
            id,
            schema: "public".into(),
            name: name.into(),
            tree: Tree { root: PageId(1), object: ObjectId(id) },
            generation,
            ..Definition::without_rows()
        }
    }

    fn table(id: u32, name: &str, generation: u64) -> Arc<Table> {
        build(parts(id, name, generation))
    }

    fn build(parts: Definition) -> Arc<Table> {
        Arc::new(parts.build(Arc::default(), 0))
    }

    /// Names and generations that are seen.
    fn seen(own: &CatalogOverlay, base: &Definitions) -> Vec<(String, u64)> {
        let mut all: Vec<_> = own.tables(base).iter().map(|t| (t.name.clone(), t.generation)).collect();
        all.sort();
        for (name, generation) in &all {
            let found = own.named(base, "public", name).expect("what is listed is found");
            assert_eq!((&found.name, found.generation), (name, *generation));
        }
        all
    }

    #[test]
    fn names_that_go_round_and_back() -> Result<()> {
        let mut base = Definitions::default();
        for (id, name) in [(1, "a"), (2, "b")] {
            base.by_name.insert(("public".into(), name.into()), id);
            base.by_id.insert(id, table(id, name, 1));
        }
        let mut own = CatalogOverlay::default();
        own.note(TxId(10), 3, Some(table(3, "c", 1)));
        let view = own.so_far().expect("a change");
        let before = seen(&own, &base);
        // Two change names by way of a third, one is dropped and its name taken.
        own.note(TxId(11), 1, Some(table(1, "x", 2)));
        own.note(TxId(11), 2, Some(table(2, "a", 2)));
        own.note(TxId(12), 1, Some(table(1, "b", 3)));
        own.note(TxId(12), 3, None);
        own.note(TxId(12), 4, Some(table(4, "c", 1)));
        own.note(TxId(12), 4, Some(table(4, "d", 2)));
        let all = [("a", 2), ("b", 3), ("d", 2)].map(|(name, generation)| (name.to_owned(), generation));
        assert_eq!(seen(&own, &base), all);
        assert!(own.named(&base, "public", "c").is_none() && own.named(&base, "public", "x").is_none());
        assert_eq!((own.generation(3), own.generation(1), own.generation(5)), (Some(0), Some(3), None));
        // A view knows what was changed before it.
        assert_eq!((view.generation(3), view.generation(1), view.generation(4)), (Some(1), None, None));
        let later = own.so_far().expect("changes");
        assert_eq!((later.generation(3), later.generation(1), later.generation(4)), (Some(0), Some(3), Some(2)));
        let changes = own.changes;
        own.back_to(TxId(11), build)?;
        let all = [("a", 2), ("c", 1), ("x", 2)].map(|(name, generation)| (name.to_owned(), generation));
        assert_eq!(seen(&own, &base), all);
        assert!(own.changes > changes, "whoever planned at that number plans again");
        // Numbers are not used again: a view of what was taken back does not take new changes for it.
        own.note(TxId(13), 4, Some(table(4, "e", 7)));
        assert_eq!(later.generation(4), None);
        own.back_to(TxId(10), build)?;
        assert_eq!(seen(&own, &base), before);
        own.back_to(TxId(9), build)?;
        assert_eq!(seen(&own, &base), [("a".to_owned(), 1), ("b".to_owned(), 1)]);
        assert_eq!(own.generation(3), None);
        Ok(())
    }
}
