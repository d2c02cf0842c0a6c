//! Filling a new tree with rows: for new indexes and rebuilt tables.
//!
//! The tree is referred to by an uncommitted definition only, and goes whole if that is
//! rolled back, so its rows carry no versions.

use std::sync::Arc;

use resurgam_base::{Error, PageId, Result};
use resurgam_btree::Tree;
use resurgam_buffer::{BufferPool, Mtr};
use resurgam_page::types::DatumRef;
use resurgam_page::{LeafBuilder, leaf, op};

use crate::cursor::{Cursor, Direction, KeyRange, RowBatch};
use crate::rows::{duplicate, with_large};
use crate::table::Table;
use crate::transaction::Transaction;
use crate::view::ReadView;

/// Adds a row that all see. False: the key is taken.
pub(crate) fn insert_plain(
    pool: &BufferPool,
    tree: Tree,
    key: &[u8],
    value: &[u8],
    hint: &mut Option<PageId>,
) -> Result<bool> {
    let bytes = LeafBuilder::plain(key, value).encode()?;
    loop {
        let page = tree.write_leaf_hinted(pool, key, *hint)?;
        *hint = Some(page.id());
        let Err(slot) = leaf::search(&page, key) else { return Ok(false) };
        // Leave room for versions, as ascending inserts do.
        let reserve = if bytes.len() < 800 && slot.0 > 0 { 800 } else { 0 };
        if !page.fits(bytes.len() + reserve) {
            drop(page);
            tree.make_room(pool, key, bytes.len() + reserve)?;
            continue;
        }
        let mut mtr = Mtr::new(pool);
        let at = mtr.add(page);
        op::insert(mtr.ops(at), slot, &bytes);
        mtr.commit()?;
        return Ok(true);
    }
}

impl Transaction {
    /// What a table that is locked exclusively consists of: every row version that is newest
    /// and committed, or own.
    ///
    /// A commit gives up its locks before it is durable, and no snapshot sees it until then.
    /// Whoever got the table afterwards must build on it all the same, as writers of rows do:
    /// its own COMMIT comes later in the same log.
    pub(crate) fn newest_view(&self) -> ReadView {
        let mut view = self.0.db.plain_view();
        view.own = self.id().unwrap_or_default();
        view.own_catalog = true;
        view.newest = true;
        view
    }

    /// Calls `each` with every row of `table` that is newest and committed (or own). The
    /// table must be locked exclusively.
    fn each_row(&self, table: &Arc<Table>, mut each: impl FnMut(&[DatumRef<'_>], &[u8]) -> Result<()>) -> Result<()> {
        let view = self.newest_view();
        let mut cursor = Cursor::new(view, Arc::clone(table), None, KeyRange::all(), Direction::Forward);
        let mut batch = RowBatch::default();
        loop {
            batch.clear();
            if !cursor.next_batch(&mut batch, 1000)? {
                return Ok(());
            }
            for i in 0..batch.len() {
                let raw = batch.row(i);
                each(&table.all_columns(raw)?, raw.key)?;
            }
        }
    }

    /// Fills the index at `at` of `table` from its rows.
    pub(crate) fn fill_index(&self, table: &Arc<Table>, at: usize) -> Result<()> {
        let pool = &self.0.db.inner().pool;
        let tree = table.indexes[at].tree;
        let mut hint = None;
        self.each_row(table, |row, key| {
            let (mut entry_key, mut entry_value) = (Vec::new(), Vec::new());
            let large = self.large_indexed(table, row)?;
            let row = &*with_large(row, &large)?;
            table.index_entry(at, row, key, &mut entry_key, &mut entry_value)?;
            if insert_plain(pool, tree, &entry_key, &entry_value, &mut hint)? {
                return Ok(());
            }
            let error = duplicate(table, Some(at), row);
            Err(Error::new(error.kind(), format!("could not create unique index \"{}\"", table.indexes[at].name))
                .with_detail(error.detail().unwrap_or_default().replace("already exists", "is duplicated")))
        })
    }

    /// Copies the rows of `old` into the new trees of `new`; `map` makes the new row.
    pub(crate) fn rebuild(
        &self,
        old: &Arc<Table>,
        new: &Arc<Table>,
        map: impl Fn(&[DatumRef<'_>], &mut dyn FnMut(&[DatumRef<'_>]) -> Result<()>) -> Result<()>,
    ) -> Result<()> {
        let pool = &self.0.db.inner().pool;
        let mut hint = None;
        let mut hints = vec![None; new.indexes.len()];
        let mut row_id = 0u64;
        let context = self.write_context()?;
        self.each_row(old, |row, _| {
            map(row, &mut |row| {
                new.check_row(row)?;
                let mut key = Vec::new();
                row_id += 1;
                let large = self.large_indexed(new, row)?;
                let whole = &*with_large(row, &large)?;
                new.key_of_row(whole, || Ok(row_id), &mut key)?;
                let mut value = Vec::new();
                let stored = new.value_datums(row);
                new.layout.encode(&stored, &mut value)?;
                // Large values that are in the key now.
                let (before, after) = (Table::externals(row), Table::externals(&stored));
                self.drop_externals(&context, before.into_iter().filter(|page| !after.contains(page)))?;
                if !insert_plain(pool, new.tree, &key, &value, &mut hint)? {
                    let error = duplicate(new, None, whole);
                    return Err(Error::new(
                        error.kind(),
                        format!("could not create unique index \"{}\"", new.primary_key_name),
                    )
                    .with_detail(error.detail().unwrap_or_default().replace("already exists", "is duplicated")));
                }
                for (at, index) in new.indexes.iter().enumerate() {
                    let (mut entry_key, mut entry_value) = (Vec::new(), Vec::new());
                    new.index_entry(at, whole, &key, &mut entry_key, &mut entry_value)?;
                    if !insert_plain(pool, index.tree, &entry_key, &entry_value, &mut hints[at])? {
                        return Err(duplicate(new, Some(at), whole));
                    }
                }
                Ok(())
            })
        })
    }
}
