//! All trees that the catalog or the pending frees lead to: nodes (by `walk.rs`), rows, index
//! entries, large values.
//!
//! Only the version of a row that counts must be whole, and what it leads to must be its
//! alone. Older versions may refer to values and versions that were given back long ago;
//! what they lead to is merely noted as mentioned.

use std::collections::HashSet;

use resurgam_base::{ObjectId, PageId, SlotId, limits::VALUE_BYTES_MAX};
use resurgam_btree::Tree;
use resurgam_engine::Index;
use resurgam_engine::stored::Definition;
use resurgam_page::key::{self, KeyColumn};
use resurgam_page::row::RowLayout;
use resurgam_page::types::{DatumRef, ExternalRef};
use resurgam_page::version::VersionRecord;
use resurgam_page::{LeafRecord, PageBuf, PageType, overflow, space as map};
use resurgam_versions::{OVERFLOW_OBJECT, PendingFree, VERSION_OBJECT};

use super::report::Reporter;
use super::space::{MENTIONED, REACHED, Space};
use crate::catalog::Catalog;
use crate::image::Image;
use crate::versions::{Current, current};
use crate::walk::{From, Visitor, walk};

const PROGRESS_LEAVES: u64 = 1024;

/// What the rows of a tree are.
enum Kind<'c> {
    Catalog,
    PendingFrees,
    Table(RowLayout, Vec<KeyColumn>),
    Index(&'c Definition, &'c Index),
    /// Dropped or never committed; to be freed by the cleaner, with the large values that its
    /// rows of this layout refer to.
    Dying(Option<RowLayout>),
}

/// What the pending frees ask the cleaner to look at.
#[derive(Default)]
struct PendingEntries {
    trees: Vec<(Tree, Option<RowLayout>)>,
    values: Vec<PageId>,
}

/// The tree part of a check.
pub(super) struct Trees<'t, 'r> {
    image: &'t Image,
    catalog: &'t Catalog,
    space: &'t mut Space,
    r: &'t mut Reporter<'r>,
    leaves: u64,
}

impl<'t, 'r> Trees<'t, 'r> {
    pub fn new(image: &'t Image, catalog: &'t Catalog, space: &'t mut Space, r: &'t mut Reporter<'r>) -> Self {
        Self { image, catalog, space, r, leaves: 0 }
    }

    /// Checks them all.
    pub fn check(&mut self) {
        let Some(boot) = &self.image.boot else { return };
        let catalog = self.catalog;
        let mut done: HashSet<Tree> = HashSet::new();
        let mut pending_frees = PendingEntries::default();
        let system = [
            (Tree { root: boot.catalog_root, object: boot.catalog_object }, Kind::Catalog, "the catalog"),
            (
                Tree { root: boot.pending_frees_root, object: boot.pending_frees_object },
                Kind::PendingFrees,
                "the pending frees",
            ),
        ];
        for (tree, kind, label) in system {
            self.tree(tree, &kind, label.to_owned(), &mut done, &mut pending_frees);
        }
        for table in catalog.tables.values().filter(|entry| entry.has_rows()) {
            let kind = Kind::Table(RowLayout::new(&table.value_types), table.key_columns());
            self.tree(table.tree, &kind, format!("table {}", table.full_name()), &mut done, &mut pending_frees);
            for index in &table.indexes {
                let label = format!("index {}.{}", table.schema, index.name);
                self.tree(index.tree, &Kind::Index(table, index), label, &mut done, &mut pending_frees);
            }
        }
        for (tree, layout) in std::mem::take(&mut pending_frees.trees) {
            if !done.contains(&tree) {
                self.tree(
                    tree,
                    &Kind::Dying(layout),
                    format!("dropped tree {}", tree.object),
                    &mut done,
                    &mut pending_frees,
                );
            }
        }
        for page in pending_frees.values {
            self.mention(page);
        }
        self.version_pages();
    }

    fn tree(
        &mut self,
        tree: Tree,
        kind: &Kind<'_>,
        label: String,
        done: &mut HashSet<Tree>,
        pending_frees: &mut PendingEntries,
    ) {
        if !done.insert(tree) {
            self.r.page(tree.root, None, format!("{label}: its tree is that of something else as well"));
            return;
        }
        self.r.report.counts.trees += 1;
        let (image, dying) = (self.image, matches!(kind, Kind::Dying(_)));
        let mut visit = TreeVisitor { trees: self, tree, kind, label, pending_frees };
        walk(image, tree, dying, &mut visit);
    }

    /// A value that the row version that counts refers to.
    fn value(&mut self, value: ExternalRef, at: (PageId, SlotId), label: &str) {
        self.r.report.counts.values += 1;
        if let Err(what) = self.chain(value) {
            self.r.page(at.0, Some(at.1), format!("{label}: large value that starts on page {}: {what}", value.page));
        }
    }

    fn chain(&mut self, value: ExternalRef) -> Result<(), String> {
        if value.len > VALUE_BYTES_MAX as u64 {
            return Err(format!("its length {} is impossible", value.len));
        }
        let (mut got, mut id) = (0, value.page);
        while got < value.len {
            if id.is_none() {
                return Err(format!("its pages end after {got} of {} bytes", value.len));
            }
            match self.space.mark(id, REACHED) {
                None => return Err(format!("it leads to page {id}, which is beyond the pages in use")),
                Some(before) if before & REACHED != 0 => {
                    return Err(format!("it leads to page {id}, which belongs to something else as well"));
                }
                Some(_) => {}
            }
            if self.space.entry(id).is_some_and(|(pfs, _)| pfs & map::PFS_ALLOCATED == 0) {
                return Err(format!("it leads to page {id}, which is free according to its space map"));
            }
            let (next, len) = self.overflow_page(id)?;
            got += len;
            if len == 0 || got > value.len {
                return Err(format!("its pages do not add up to its {} bytes", value.len));
            }
            id = next;
        }
        if id.is_some() && value.len > 0 {
            return Err(format!("its pages go on, to page {id}, after its {} bytes", value.len));
        }
        Ok(())
    }

    fn overflow_page(&self, id: PageId) -> Result<(PageId, u64), String> {
        let loaded = self.image.page(id).map_err(|what| format!("page {id}: {what}"))?;
        let page = &loaded.page;
        if !page.is(PageType::Overflow) || page.object() != OVERFLOW_OBJECT {
            return Err(format!("page {id} is no overflow page"));
        }
        let (next, chunk) = overflow::read(page).map_err(|e| format!("page {id}: {}", e.message()))?;
        Ok((next, chunk.len() as u64))
    }

    /// A value that something refers to which need not count.
    fn mention(&mut self, first: PageId) {
        let mut id = first;
        while id.is_some()
            && let Ok((next, _)) = self.overflow_page(id)
            && self.space.mark(id, MENTIONED) == Some(0)
        {
            id = next;
        }
    }

    fn mention_all(&mut self, layout: &RowLayout, value: &[u8]) {
        for value in externals(layout, value) {
            self.mention(value.page);
        }
    }

    /// Values that off-row versions refer to.
    fn version_pages(&mut self) {
        let layouts: Vec<(ObjectId, RowLayout)> =
            self.catalog.tables.values().map(|t| (t.tree.object, RowLayout::new(&t.value_types))).collect();
        for id in self.space.pages_of(VERSION_OBJECT) {
            let Ok(loaded) = self.image.page(id) else { continue };
            for slot in (0..loaded.page.slot_count()).map(SlotId) {
                let Ok(version) = VersionRecord::parse(loaded.page.rec(slot)) else { continue };
                self.r.report.counts.versions += 1;
                if let Some((_, layout)) = layouts.iter().find(|(object, _)| *object == version.object) {
                    self.mention_versions(layout, &version.record);
                }
            }
        }
    }

    /// Values that any version in a record refers to.
    fn mention_versions(&mut self, layout: &RowLayout, record: &LeafRecord<'_>) {
        self.mention_all(layout, record.value);
        let mut earlier = Vec::new();
        if let Ok(true) = record.rebuild_earlier(&mut earlier) {
            self.mention_all(layout, &earlier);
        }
    }
}

/// The values in a row that are on overflow pages; none of a row that cannot be read.
fn externals(layout: &RowLayout, value: &[u8]) -> Vec<ExternalRef> {
    let Ok(row) = layout.view(value) else { return Vec::new() };
    (0..layout.len())
        .filter_map(|i| match row.column(i) {
            Ok(DatumRef::External(external)) => Some(external),
            _ => None,
        })
        .collect()
}

struct TreeVisitor<'v, 't, 'r> {
    trees: &'v mut Trees<'t, 'r>,
    tree: Tree,
    kind: &'v Kind<'v>,
    label: String,
    pending_frees: &'v mut PendingEntries,
}

impl Visitor for TreeVisitor<'_, '_, '_> {
    fn enter(&mut self, id: PageId, from: Option<From>) -> bool {
        let (page, slot) = from.map_or((id, None), |from| (from.page, Some(from.slot)));
        match self.trees.space.mark(id, REACHED) {
            None => {
                self.problem(page, slot, format!("leads to page {id}, which is beyond the pages in use"));
                return false;
            }
            Some(before) if before & REACHED != 0 => {
                self.problem(page, slot, format!("leads to page {id}, which belongs to something else as well"));
                return false;
            }
            Some(_) => {}
        }
        match self.trees.space.entry(id) {
            Some((pfs, _)) if pfs & map::PFS_ALLOCATED == 0 => {
                self.problem(page, slot, format!("leads to page {id}, which is free according to its space map"));
            }
            Some((_, owner)) if owner != self.tree.object => {
                self.problem(page, slot, format!("leads to page {id}, which is in an extent of object {owner}"));
            }
            _ => {}
        }
        true
    }

    fn node(&mut self, image: &Image, id: PageId, page: &PageBuf) {
        if !page.is(PageType::Leaf) {
            return;
        }
        self.trees.leaves += 1;
        if self.trees.leaves.is_multiple_of(PROGRESS_LEAVES) {
            let total = self.trees.r.report.counts.pages;
            self.trees.r.progress("trees", self.trees.leaves, total);
        }
        for slot in (0..page.slot_count()).map(SlotId) {
            // A record that cannot be parsed was reported with its page.
            if let Ok(record) = LeafRecord::parse(page.rec(slot))
                && let Err(what) = self.row(image, (id, slot), &record)
            {
                self.problem(id, Some(slot), what);
            }
        }
    }

    fn problem(&mut self, page: PageId, slot: Option<SlotId>, what: String) {
        // The catalog's own reader reports its tree; an unreadable page is named once.
        let said = matches!(self.kind, Kind::Catalog) || (slot.is_none() && self.trees.space.is_unreadable(page));
        if !said {
            self.trees.r.page(page, slot, format!("{}: {what}", self.label));
        }
    }
}

impl TreeVisitor<'_, '_, '_> {
    fn row(&mut self, image: &Image, at: (PageId, SlotId), record: &LeafRecord<'_>) -> Result<(), String> {
        match self.kind {
            Kind::Catalog | Kind::Dying(None) => Ok(()),
            Kind::Dying(Some(layout)) => {
                self.trees.mention_versions(layout, record);
                Ok(())
            }
            Kind::PendingFrees => self.pending_free(record),
            Kind::Index(table, index) => {
                self.trees.r.report.counts.index_entries += 1;
                current(image, self.tree.object, record)?;
                index_entry(table, index, record)
            }
            Kind::Table(layout, key_columns) => {
                self.trees.r.report.counts.version_bytes_in_rows += record.version_bytes() as u64;
                key::decode(record.key, key_columns).map_err(|e| format!("key: {}", e.message()))?;
                let (on_top, value) = match current(image, self.tree.object, record)? {
                    Current::Row(value) => (true, Some(value)),
                    Current::Earlier(value) => (false, Some(value)),
                    Current::Deleted | Current::Never => (false, None),
                };
                if let Some(value) = value {
                    self.trees.r.report.counts.rows += 1;
                    let row = layout.view(&value).map_err(|e| e.message().to_owned())?;
                    for i in 0..layout.len() {
                        if let DatumRef::External(external) = row.column(i).map_err(|e| e.message().to_owned())? {
                            self.trees.value(external, at, &self.label);
                        }
                    }
                }
                if !on_top || record.diff.is_some() {
                    self.trees.mention_versions(layout, record);
                }
                Ok(())
            }
        }
    }

    /// The key is transaction and sequence number.
    fn pending_free(&mut self, record: &LeafRecord<'_>) -> Result<(), String> {
        let action = match PendingFree::decode(record.value) {
            Ok(action) if record.key.len() == 16 => action,
            _ => return Err("a pending free that cannot be read".into()),
        };
        match action {
            PendingFree::TreeIfCommitted(t) | PendingFree::TreeIfAborted(t) => {
                self.pending_frees.trees.push((t, None));
            }
            PendingFree::RowsIfCommitted(t, widths) => {
                self.pending_frees.trees.push((t, Some(PendingFree::layout(&widths))));
            }
            PendingFree::ValuesIfCommitted(pages) => self.pending_frees.values.extend(pages),
        }
        Ok(())
    }
}

/// Columns, then (in the key or as the value) the key of a row.
fn index_entry(table: &Definition, index: &Index, record: &LeafRecord<'_>) -> Result<(), String> {
    let columns = table.index_key(index);
    let end = key::column_offset(record.key, &columns, columns.len()).map_err(|e| e.message().to_owned())?;
    let row_key = match (record.key.get(end..), record.value) {
        (Some([]), row_key) => row_key,
        (Some(row_key), _) => row_key,
        (None, _) => return Err("the entry is shorter than its columns".into()),
    };
    if row_key.is_empty() && record.is_ghost() {
        return Ok(()); // a deleted entry whose value is off-row
    }
    key::decode(row_key, &table.key_columns())
        .map(drop)
        .map_err(|e| format!("the row that it leads to: {}", e.message()))
}
