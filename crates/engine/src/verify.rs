//! Proof that a whole database is consistent: every tree, every index against its table,
//! and every page of the data file against its owner.
//!
//! # What is checked
//! 1. Every tree (catalog, pending frees, tables, indexes, and trees that are to be freed) is
//!    a tree ([`resurgam_btree::verify`]).
//! 2. The visible entries of each index are exactly those of the visible rows of its table,
//!    and every large value of a visible row can be read to its end.
//! 3. Every allocated page lies in an extent that has an owner, its header names that
//!    owner, and exactly one thing of that owner leads to it; no free page is led to.
//! 4. What the allocator knows in memory is what the space maps say.
//!
//! Pages of large values whose writer has not committed for all may be reached by nothing:
//! the sweep frees them. Version pages are reached through the version store's own table.
//!
//! Must not run beside writers. The database's own threads may run: sweeps and what allocates version
//! pages wait meanwhile; what an open has still to learn of the files is learned before. Everything is read: for tests and for an operator's explicit wish.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use resurgam_base::{Error, ErrorKind, ObjectId, PageId, Result, SlotId, TxId};
use resurgam_btree::{LeafWalk, Tree};
use resurgam_buffer::Access;
use resurgam_page::row::RowLayout;
use resurgam_page::types::DatumRef;
use resurgam_page::{LeafRecord, PageType, overflow, space as map};
use resurgam_txn::Status;
use resurgam_versions::{OVERFLOW_OBJECT, PendingFree, VERSION_OBJECT, values_in_use};

use crate::catalog::Definitions;
use crate::cursor::{Cursor, Direction, KeyRange, RowBatch};
use crate::database::Database;
use crate::rows::had_entry;
use crate::table::Table;
use crate::view::ReadView;

/// Most problems that are listed.
const PROBLEMS_MAX: usize = 100;

#[derive(Default)]
struct Census {
    problems: Vec<String>,
    /// What leads to each page.
    reached: HashMap<PageId, String>,
}

impl Census {
    fn problem(&mut self, what: impl Into<String>) {
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(what.into());
        }
    }
    fn reach(&mut self, page: PageId, by: &str) {
        if let Some(before) = self.reached.insert(page, by.to_owned()) {
            self.problem(format!("page {page} belongs to {before} and to {by}"));
        }
    }
}

impl Database {
    /// Definitions as each of the transactions sees them that are in doubt and have changed any.
    fn definitions_in_doubt(&self) -> Result<Vec<Definitions>> {
        let inner = self.inner();
        let load = |tx: TxId| inner.catalog.load(&ReadView { own: tx, ..self.plain_view() }, 0);
        inner.prepared.with_definitions().into_iter().map(load).collect()
    }

    /// Checks everything that is listed at the top of this file. Returns what is wrong, in
    /// words; empty is good.
    ///
    /// # Errors
    /// Those of reading pages that the check cannot do without.
    pub fn verify(&self) -> Result<Vec<String>> {
        let inner = self.inner();
        // Rows of transactions that are being undone have no earlier version to look at.
        // Nor have those of transactions in doubt before they are rebuilt. (In this order.)
        while (inner.prepared.lost.is_waiting() || !inner.mode.undo.is_empty())
            && !inner.stopping.load(Ordering::Relaxed)
        {
            self.rebuild_lost();
            self.undo_queued()?;
            std::thread::yield_now();
        }
        // What the database's own threads free or allocate meanwhile would look like damage.
        let Some(_no_sweep) = inner.cleaner.hold(&|| inner.stopping.load(Ordering::Relaxed)) else {
            return Err(Error::new(ErrorKind::Stopped, "the database was closed while it was verified"));
        };
        let _no_filling = inner.versions.hold_filling();
        // Earlier versions are looked at that no snapshot of ours protects.
        let _held = inner.versions.hold_pages();
        // Just after an open they learn of version pages as well, and what is free. Not in the middle of this: what is known
        // by now stays known. (Maps that cannot be read are reported below.)
        if let Err(error) = self.discover_space()
            && error.kind() == ErrorKind::Stopped
        {
            return Err(error);
        }
        let mut census = Census::default();
        let definitions = inner.catalog.committed(self)?;
        let mut trees: BTreeMap<ObjectId, (Tree, String)> = BTreeMap::new();
        for (tree, name) in [(inner.catalog.tree, "the catalog"), (inner.pending_frees.tree(), "the pending frees")] {
            trees.insert(tree.object, (tree, name.into()));
        }
        for table in definitions.by_id.values().filter(|entry| entry.is_table()) {
            trees.insert(table.tree.object, (table.tree, format!("table \"{}\"", table.name)));
            for index in &table.indexes {
                trees.insert(index.tree.object, (index.tree, format!("index \"{}\"", index.name)));
            }
        }
        let mut values = HashSet::new();
        let mut dropped_rows = Vec::new();
        let mut left_in_doubt = Vec::new();
        let mut copied_in_doubt = HashSet::new();
        let mut dying: HashSet<ObjectId> = HashSet::new();
        for (tx, action) in inner.pending_frees.entries(&inner.pool)? {
            match &action {
                PendingFree::TreeIfCommitted(tree)
                | PendingFree::TreeIfAborted(tree)
                | PendingFree::RowsIfCommitted(tree, _) => {
                    if resurgam_btree::is_there(&inner.pool, *tree)? {
                        if matches!(action, PendingFree::TreeIfCommitted(_))
                            && matches!(inner.txs.status(tx), Status::Active(_))
                        {
                            copied_in_doubt.insert(tree.object);
                        }
                        if !trees.contains_key(&tree.object) {
                            dying.insert(tree.object);
                        }
                        // Of one that was not dropped after all, the columns may have changed since.
                        if let PendingFree::RowsIfCommitted(_, widths) = &action {
                            match inner.txs.status(tx) {
                                Status::Committed(_) => dropped_rows.push((*tree, PendingFree::layout(widths))),
                                Status::Active(_) => left_in_doubt.push((*tree, PendingFree::layout(widths))),
                                Status::Aborted => {}
                                Status::Unknown => {
                                    census.problem(format!("a pending free is of transaction {tx}, which never was"));
                                }
                            }
                        }
                        trees
                            .entry(tree.object)
                            .or_insert((*tree, format!("a tree in the pending frees of transaction {tx}")));
                    }
                }
                // An entry that asks for nothing: rows name the value still, or its writer aborted as
                // well, and a sweep that was broken off may have freed a part of it.
                PendingFree::ValuesIfCommitted(_) if inner.txs.status(tx) == Status::Aborted => {}
                PendingFree::ValuesIfCommitted(pages) => {
                    for page in pages {
                        if inner.pool.read(*page, Access::Scan)?.is(PageType::Overflow) {
                            values.insert(*page);
                        }
                    }
                }
            }
        }
        for (tree, name) in trees.values() {
            let report = resurgam_btree::verify(&inner.pool, *tree)?;
            for page in report.pages {
                census.reach(page, name);
            }
            // One that is being freed has lost children, from the last on.
            if dying.contains(&tree.object) {
                continue;
            }
            for problem in report.problems {
                census.problem(format!("{name}: {problem}"));
            }
        }
        let mut tables: Vec<&Arc<Table>> = definitions.by_id.values().filter(|entry| entry.is_table()).collect();
        tables.sort_by_key(|t| t.id);
        for table in &tables {
            self.verify_rows(table, &mut census)?;
        }
        // A transaction in doubt may have added columns: its rows have them already.
        // (Also to a tree that it has left since for another.)
        let mut newest: BTreeMap<ObjectId, (Tree, &RowLayout)> = BTreeMap::new();
        let in_doubt = self.definitions_in_doubt()?;
        let defined = definitions.by_id.values().chain(in_doubt.iter().flat_map(|d| d.by_id.values()));
        let left = left_in_doubt.iter().map(|(tree, layout)| (*tree, layout));
        let defined = defined.filter(|entry| entry.is_table());
        for (tree, layout) in defined.map(|table| (table.tree, &table.layout)).chain(left) {
            let known = newest.entry(tree.object).or_insert((tree, layout));
            if layout.len() > known.1.len() {
                known.1 = layout;
            }
        }
        for (tree, layout) in newest.into_values().chain(dropped_rows.iter().map(|(tree, layout)| (*tree, layout))) {
            // A transaction in doubt may have added columns, changed rows, and then copied the table: by what
            // definition it wrote here is not known any more. The copy, or a pending free, leads to all that those rows do.
            let copied = copied_in_doubt.contains(&tree.object);
            let mut walk = LeafWalk::ascending(tree, Vec::new());
            while let Some(leaf) = walk.next(&inner.pool)? {
                for s in 0..leaf.slot_count() {
                    let record = LeafRecord::parse(leaf.record(SlotId(s))?)?;
                    values_in_use(&inner.pool, &inner.txs, &record, layout, copied, &mut |page| {
                        values.insert(page);
                    })?;
                }
            }
        }
        self.verify_values(&values, &mut census)?;
        for page in inner.versions.known() {
            // The store may know one that is none: freed by a sweep while an open was learning of it, or given out by a log
            // group that failed. It forgets those when it next frees pages. (What cannot be read is told below.)
            if inner.pool.read(page, Access::Scan).is_ok_and(|page| page.is(PageType::Version)) {
                census.reach(page, "the version store");
            }
        }
        self.verify_space(&mut census)?;
        Ok(census.problems)
    }

    /// Index entries against rows, as the newest snapshot sees both.
    fn verify_rows(&self, table: &Arc<Table>, census: &mut Census) -> Result<()> {
        let mut view = self.plain_view();
        view.unchecked = true;
        let mut expected: Vec<BTreeMap<Vec<u8>, Vec<u8>>> = vec![BTreeMap::new(); table.indexes.len()];
        let mut cursor = Cursor::new(view.clone(), Arc::clone(table), None, KeyRange::all(), Direction::Forward);
        let mut batch = RowBatch::default();
        loop {
            batch.clear();
            if !cursor.next_batch(&mut batch, 1000)? {
                break;
            }
            for i in 0..batch.len() {
                let raw = batch.row(i);
                let columns = table.all_columns(raw)?;
                let mut large = Vec::with_capacity(columns.len());
                for column in &columns {
                    large.push(match column {
                        DatumRef::External(e) => Some((view.read_external(*e)?, e.is_text)),
                        _ => None,
                    });
                }
                let mut whole = columns.clone();
                for (column, value) in whole.iter_mut().zip(&large) {
                    match value {
                        Some((bytes, true)) => match std::str::from_utf8(bytes) {
                            Ok(text) => *column = DatumRef::Text(text),
                            Err(_) => census.problem(format!("table \"{}\": a large text is not UTF-8", table.name)),
                        },
                        Some((bytes, false)) => *column = DatumRef::Bytes(bytes),
                        None => {}
                    }
                }
                for (at, entries) in expected.iter_mut().enumerate() {
                    let (mut key, mut value) = (Vec::new(), Vec::new());
                    if !had_entry(table, at, &whole, raw.key, &mut key, &mut value)? {
                        continue;
                    }
                    if !table.indexes[at].valid {
                        // It may lack rows, two of which may have one key.
                        key.extend_from_slice(&value);
                        value.clear();
                    }
                    if entries.insert(key, value).is_some() {
                        census.problem(format!(
                            "table \"{}\": two rows have one entry in index \"{}\"",
                            table.name, table.indexes[at].name
                        ));
                    }
                }
            }
        }
        for (at, index) in table.indexes.iter().enumerate() {
            let mut found = BTreeMap::new();
            let mut entries = Cursor::new(view.clone(), Arc::clone(table), None, KeyRange::all(), Direction::Forward);
            loop {
                batch.clear();
                entries.fill(index.tree, &mut batch, 1000)?;
                if batch.is_empty() {
                    break;
                }
                for i in 0..batch.len() {
                    let (mut key, mut value) = (batch.row(i).key.to_vec(), batch.row(i).value.to_vec());
                    if !index.valid {
                        key.append(&mut value);
                    }
                    found.insert(key, value);
                }
            }
            if !index.valid {
                expected[at].retain(|key, _| found.contains_key(key));
            }
            if found != expected[at] {
                let missing = expected[at].iter().filter(|(k, v)| found.get(*k) != Some(v)).count();
                let extra = found.iter().filter(|(k, v)| expected[at].get(*k) != Some(v)).count();
                census.problem(format!(
                    "index \"{}\" of table \"{}\": {missing} rows have no right entry, {extra} entries have no right row",
                    index.name, table.name
                ));
            }
        }
        Ok(())
    }

    fn verify_values(&self, values: &HashSet<PageId>, census: &mut Census) -> Result<()> {
        let pool = &self.inner().pool;
        for first in values {
            let mut at = *first;
            while at.is_some() {
                let page = pool.read(at, Access::Scan)?;
                if !page.is(PageType::Overflow) {
                    census
                        .problem(format!("the large value at page {first} leads to page {at}, which is no such page"));
                    break;
                }
                census.reach(at, &format!("the large value at page {first}"));
                let (next, _) = overflow::read(&page)?;
                at = if next == at { PageId::NONE } else { next };
            }
        }
        Ok(())
    }

    fn verify_space(&self, census: &mut Census) -> Result<()> {
        let inner = self.inner();
        let horizon = inner.txs.horizon();
        for id in inner.pool.space().all_map_pages() {
            let page = inner.pool.read(id, Access::Scan)?;
            if !page.is(PageType::SpaceMap) {
                census.problem(format!("page {id} should be a space map and is not"));
                continue;
            }
            let entries: Vec<(PageId, ObjectId, u8)> = (0..map::EXTENTS)
                .flat_map(|extent| {
                    let (page, owner) = (&page, map::owner(&page, extent));
                    let first = map::first_page_of_extent(id, extent).0;
                    (first..first + resurgam_base::limits::EXTENT_PAGES)
                        .map(move |p| (PageId(p), owner, map::pfs(page, PageId(p))))
                })
                .filter(|(p, _, _)| *p != id)
                .collect();
            drop(page);
            for (at, owner, byte) in entries {
                let by = census.reached.get(&at).cloned();
                if byte & map::PFS_ALLOCATED == 0 {
                    if let Some(by) = by {
                        census.problem(format!("page {at} is free, and {by} leads to it"));
                    }
                    continue;
                }
                if owner.is_none() {
                    census.problem(format!("page {at} is allocated in an extent without an owner"));
                }
                let page = match inner.pool.read(at, Access::Scan) {
                    Ok(page) => page,
                    Err(error) => {
                        census.problem(format!("page {at}: {error}"));
                        continue;
                    }
                };
                if page.object() != owner {
                    census.problem(format!("page {at} is of object {}, its extent of object {owner}", page.object()));
                }
                if page.has_versions() && byte & map::PFS_HAS_VERSIONS == 0 {
                    census.problem(format!("page {at} has versions, and its space map does not say so"));
                }
                if by.is_some() {
                    continue;
                }
                let excused = owner == OVERFLOW_OBJECT && page.is(PageType::Overflow) && {
                    let writer: TxId = overflow::writer(&page)?;
                    byte & map::PFS_POTENTIALLY_UNUSED != 0
                        && !matches!(inner.txs.status(writer), Status::Committed(ts) if ts <= horizon)
                };
                // The store's own table is complete only once the maps were read.
                let unread = owner == VERSION_OBJECT && !inner.pool.space().is_discovered(id);
                if !excused && !unread {
                    census.problem(format!("page {at} of object {owner} is allocated, and nothing leads to it"));
                }
            }
        }
        for problem in inner.pool.space().audit(&inner.pool)? {
            census.problem(problem);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use resurgam_buffer::Mtr;
    use resurgam_page::op;
    use resurgam_vfs::SimVfs;

    use super::*;
    use crate::options::Options;

    /// What the version store knows of a page that has been freed is no damage; a page of versions that the map calls free is.
    #[test]
    fn what_the_version_store_leads_to() -> Result<()> {
        let options = Options { buffer_bytes: 1 << 20, background: false, ..Options::default() };
        let db = Database::open_with(Arc::new(SimVfs::new(1)), Path::new("/db"), options, |_| {})?;
        let inner = db.inner();
        let allocate = || -> Result<PageId> {
            let mut mtr = Mtr::new(&inner.pool);
            let (id, at) = inner.pool.space().allocate_version(&mut mtr, VERSION_OBJECT)?;
            op::format(mtr.ops(at), PageType::Version, 0, VERSION_OBJECT, &[], None);
            mtr.commit()?;
            Ok(id)
        };
        let (freed, lost) = (allocate()?, allocate()?);
        let mut mtr = Mtr::new(&inner.pool);
        let at = mtr.add(inner.pool.write(freed, Access::Point)?);
        inner.pool.space().free(&mut mtr, freed, VERSION_OBJECT, at)?;
        mtr.commit()?;
        // As when a sweep frees it between the reading of the map and the adopting.
        inner.versions.adopt(freed, TxId(1));
        inner.versions.adopt(lost, TxId(1));
        assert_eq!(db.verify()?, Vec::<String>::new());

        let mut mtr = Mtr::new(&inner.pool);
        let at = mtr.add(inner.pool.write(map::map_page_of(lost), Access::Point)?);
        op::set_bytes(mtr.ops(at), map::pfs_offset(lost) as u16, &[0]);
        mtr.commit()?;
        let expected = format!("page {lost} is free, and the version store leads to it");
        let problems = db.verify()?;
        assert!(problems.contains(&expected), "{problems:?}");
        Ok(())
    }
}
