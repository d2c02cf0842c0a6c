//! Descent from the root to the node that covers a key.
//!
//! To a leaf there are two ways. By *guides* (`buffer/src/guide.rs`) nothing but the leaf is latched; they are guesses, so
//! the leaf is asked whether it is the one ([`Tree::is_leaf_of`]): a leaf of the tree, whose fences hold the key. No other page is
//! that, since fences of one level never overlap and a page that leaves its tree is formatted anew as it goes. By *latches*,
//! which is always right: where guides lead astray, or nowhere. It makes the guides anew that it passes.
//!
//! Where the key is looked for on the leaf anyway, its neighbours there say the same as the fences, which lie elsewhere on the page.

use resurgam_base::{Error, PageId, Result, SlotId};
use resurgam_buffer::{Access, BufferPool, Guess, Place, Planted, ReadGuard, WriteGuard};
use resurgam_page::{PageBuf, PageType, inner, leaf};

use crate::{DEPTH_MAX, Tree};

/// Where a key is on a leaf: its slot, or the one where it would be.
pub type Found = Result<SlotId, SlotId>;

/// Where to descend to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Target<'k> {
    /// The node that covers this key.
    Key(&'k [u8]),
    /// The node that covers the keys just below this one (for walking backwards).
    Below(&'k [u8]),
    /// The last node.
    Last,
}

impl Tree {
    /// Checks that `page` is a node of this tree at `level`, if one is expected.
    pub(crate) fn check(&self, id: PageId, page: &PageBuf, level: Option<u8>) -> Result<()> {
        let kind_fits = match page.page_type() {
            Some(PageType::Leaf) => page.level() == 0,
            Some(PageType::Inner) => page.level() > 0,
            _ => false,
        };
        if !kind_fits || page.object() != self.object || level.is_some_and(|l| l != page.level()) {
            return Err(Error::corrupt(format!(
                "page {id} is not the node that tree {} (root page {}) expects: type {:?}, object {}, level {} where {:?} is expected",
                self.object,
                self.root,
                page.page_type(),
                page.object(),
                page.level(),
                level
            )));
        }
        Ok(())
    }

    pub(crate) fn child(&self, id: PageId, page: &PageBuf, target: Target<'_>) -> Result<PageId> {
        let child = match target {
            Target::Key(key) => inner::child_for(page, key).1,
            Target::Below(key) => child_below(page, key),
            Target::Last => inner::child_of(page.rec(SlotId(page.slot_count().saturating_sub(1)))),
        };
        if child.is_none() || child == id {
            return Err(Error::corrupt(format!("page {id} of tree {} points to page {child}", self.object)));
        }
        Ok(child)
    }

    /// The leaf that covers `key`, shared.
    pub fn read_leaf<'p>(&self, pool: &'p BufferPool, key: &[u8], access: Access) -> Result<ReadGuard<'p>> {
        match self.guided(pool, key).and_then(|guess| pool.try_read(&guess, access)) {
            Some(page) if self.is_leaf_of(&page, key) || self.is_trusted(&page) => Ok(page),
            // Not while a page is latched that is of no use.
            other => {
                drop(other);
                self.read_target(pool, Target::Key(key), access)
            }
        }
    }

    /// As [`Tree::read_leaf`], for a scan that has asked before where the leaf is.
    pub(crate) fn read_leaf_at<'p>(
        &self,
        pool: &'p BufferPool,
        key: &[u8],
        place: Option<Place>,
    ) -> Result<ReadGuard<'p>> {
        match place.and_then(|place| pool.try_read_at(place, Access::Scan)) {
            Some(page) if self.is_leaf_of(&page, key) => Ok(page),
            other => {
                drop(other);
                self.read_leaf(pool, key, Access::Scan)
            }
        }
    }

    /// Where the leaf is that covers `key`, as far as guides know.
    #[inline]
    pub(crate) fn ahead(&self, pool: &BufferPool, key: &[u8]) -> Option<Place> {
        pool.guided_ahead(self.root, key)
    }

    /// The leaf that covers `key`, shared, and the key's slot there (`Ok`), or the one where it would be (`Err`).
    pub fn find<'p>(&self, pool: &'p BufferPool, key: &[u8], access: Access) -> Result<(ReadGuard<'p>, Found)> {
        if let Some(page) = self.guided(pool, key).and_then(|guess| pool.try_read(&guess, access))
            && let Some(found) =
                self.find_on(&page, key).or_else(|| self.is_trusted(&page).then(|| leaf::search(&page, key)))
        {
            return Ok((page, found));
        }
        let page = self.read_target(pool, Target::Key(key), access)?;
        let found = leaf::search(&page, key);
        Ok((page, found))
    }

    /// Where `key` is on `page`, if that, which may be any, is the leaf of this tree that covers it.
    #[inline]
    fn find_on(&self, page: &PageBuf, key: &[u8]) -> Option<Found> {
        if !self.is_leaf(page) {
            return None;
        }
        let found = leaf::search(page, key);
        let inside = match found {
            Ok(_) => true,
            Err(slot) => slot.0 > 0 && slot.0 < page.slot_count(),
        };
        (inside || covers(page, key)).then_some(found)
    }

    /// The page that guides name as the leaf that covers `key`.
    #[inline]
    fn guided<'p>(&self, pool: &'p BufferPool, key: &[u8]) -> Option<Guess<'p>> {
        pool.guided_leaf(self.root, key)
    }

    /// Whether `page`, which may be any, is the leaf of this tree that covers `key`.
    #[inline]
    fn is_leaf_of(&self, page: &PageBuf, key: &[u8]) -> bool {
        self.is_leaf(page) && covers(page, key)
    }

    /// A mistake, made on purpose: any leaf that a guide leads a reader to is taken for the right one.
    #[inline]
    fn is_trusted(&self, page: &PageBuf) -> bool {
        Planted::GuideTrusted.is_planted() && self.is_leaf(page)
    }

    #[inline]
    fn is_leaf(&self, page: &PageBuf) -> bool {
        page.is(PageType::Leaf) && page.object() == self.object
    }

    pub(crate) fn read_target<'p>(
        &self,
        pool: &'p BufferPool,
        target: Target<'_>,
        access: Access,
    ) -> Result<ReadGuard<'p>> {
        self.read_level(pool, target, 0, access)
    }

    /// The node at level `to` on the way to `target`, shared. When the tree is not that high its root is returned.
    pub(crate) fn read_level<'p>(
        &self,
        pool: &'p BufferPool,
        target: Target<'_>,
        to: u8,
        access: Access,
    ) -> Result<ReadGuard<'p>> {
        let mut node = pool.read(self.root, Access::Point)?;
        self.check(self.root, &node, None)?;
        for _ in 0..DEPTH_MAX {
            let level = node.level();
            if level <= to {
                return Ok(node);
            }
            pool.learn_way(&node);
            let id = self.child(node.id(), &node, target)?;
            let child = pool.read(id, if level == to + 1 { access } else { Access::Point })?;
            self.check(id, &child, Some(level - 1))?;
            node = child;
        }
        Err(Error::corrupt(format!("tree {} is deeper than any tree can be", self.object)))
    }

    /// Where the part of the tree that holds `key` and cannot be read ends: at a key, or (the inner
    /// `None`) with the tree. The outer `None`: it can be read.
    ///
    /// # Errors
    /// Those of reading the root.
    pub(crate) fn unreadable_until(&self, pool: &BufferPool, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        let mut node = pool.read(self.root, Access::Point)?;
        self.check(self.root, &node, None)?;
        for _ in 0..DEPTH_MAX {
            if node.level() == 0 {
                return Ok(None);
            }
            let below = node.level() - 1;
            let read = self
                .child(node.id(), &node, Target::Key(key))
                .and_then(|id| pool.read(id, Access::Point).map(|page| (id, page)))
                .and_then(|(id, page)| self.check(id, &page, Some(below)).map(|()| page));
            match read {
                Ok(child) => node = child,
                Err(_) => {
                    let next = inner::child_for(&node, key).0.0 + 1;
                    return Ok(Some(if next < node.slot_count() {
                        Some(inner::key_of(node.rec(SlotId(next))).to_vec())
                    } else {
                        node.upper_fence().map(<[u8]>::to_vec)
                    }));
                }
            }
        }
        Ok(None)
    }

    /// The leaf that covers `key`, exclusive; inner nodes are only latched shared.
    pub fn write_leaf<'p>(&self, pool: &'p BufferPool, key: &[u8]) -> Result<WriteGuard<'p>> {
        match self.guided(pool, key).and_then(|guess| pool.try_write(&guess)) {
            Some(page) if self.is_leaf_of(&page, key) => Ok(page),
            other => {
                drop(other);
                self.write_level(pool, Target::Key(key), 0)
            }
        }
    }

    /// The node at `level` on the way to `target`, exclusive. When the tree is not that
    /// high its root is returned.
    pub(crate) fn write_level<'p>(
        &self,
        pool: &'p BufferPool,
        target: Target<'_>,
        level: u8,
    ) -> Result<WriteGuard<'p>> {
        'restart: loop {
            let mut node = pool.read(self.root, Access::Point)?;
            self.check(self.root, &node, None)?;
            if node.level() <= level {
                drop(node);
                let root = pool.write(self.root, Access::Point)?;
                self.check(self.root, &root, None)?;
                if root.level() > level {
                    continue 'restart; // it grew in between
                }
                return Ok(root);
            }
            for _ in 0..DEPTH_MAX {
                pool.learn_way(&node);
                let below = node.level() - 1;
                let id = self.child(node.id(), &node, target)?;
                if below == level {
                    let child = pool.write(id, Access::Point)?;
                    self.check(id, &child, Some(below))?;
                    return Ok(child);
                }
                let child = pool.read(id, Access::Point)?;
                self.check(id, &child, Some(below))?;
                node = child;
            }
            return Err(Error::corrupt(format!("tree {} is deeper than any tree can be", self.object)));
        }
    }

    /// The leaf `hint` if it (still) covers `key` and nobody has it: saves the descent for neighbouring
    /// keys. Any page may be named; what is not this tree's leaf is refused, and none is waited for.
    pub fn write_leaf_hinted<'p>(
        &self,
        pool: &'p BufferPool,
        key: &[u8],
        hint: Option<PageId>,
    ) -> Result<WriteGuard<'p>> {
        if let Some(page) = hint.filter(|id| id.is_some()).and_then(|id| pool.try_write_resident(id))
            && self.is_leaf(&page)
            && covers(&page, key)
        {
            return Ok(page);
        }
        self.write_leaf(pool, key)
    }

    /// As [`Tree::find`], exclusive; a leaf's page id from an earlier call, `hint` as in [`Tree::write_leaf_hinted`], helps rows that
    /// follow each other.
    pub fn find_to_write<'p>(
        &self,
        pool: &'p BufferPool,
        key: &[u8],
        hint: Option<PageId>,
    ) -> Result<(WriteGuard<'p>, Found)> {
        if let Some(page) = hint.filter(|id| id.is_some()).and_then(|id| pool.try_write_resident(id))
            && self.is_leaf(&page)
            && covers(&page, key)
        {
            let found = leaf::search(&page, key);
            return Ok((page, found));
        }
        if let Some(page) = self.guided(pool, key).and_then(|guess| pool.try_write(&guess))
            && let Some(found) = self.find_on(&page, key)
        {
            return Ok((page, found));
        }
        let page = self.write_level(pool, Target::Key(key), 0)?;
        let found = leaf::search(&page, key);
        Ok((page, found))
    }
}

/// Whether `key` lies within the page's fences.
pub(crate) fn covers(page: &PageBuf, key: &[u8]) -> bool {
    page.lower_fence() <= key && page.upper_fence().is_none_or(|upper| key < upper)
}

/// The child that covers the keys just below `key`: the last one whose separator is below it.
fn child_below(page: &PageBuf, key: &[u8]) -> PageId {
    let slot = match inner::search(page, key) {
        Ok(slot) | Err(slot) => slot.0.saturating_sub(1),
    };
    inner::child_of(page.rec(SlotId(slot)))
}

impl Tree {
    /// Up to `n - 1` keys that divide the tree into about equal parts, from the separators
    /// of its upper levels.
    pub fn separators(&self, pool: &BufferPool, n: usize) -> Result<Vec<Vec<u8>>> {
        let mut keys: Vec<Vec<u8>> = Vec::new();
        let mut level: Vec<PageId> = vec![self.root];
        // Go down until a level has enough children, reading few pages.
        while keys.len() + 1 < n && !level.is_empty() && level.len() <= 64 {
            let mut next = Vec::new();
            keys.clear();
            for id in &level {
                let page = pool.read(*id, Access::Point)?;
                self.check(*id, &page, None)?;
                if page.level() == 0 {
                    return Ok(thin(keys, n));
                }
                for s in 0..page.slot_count() {
                    let record = inner::InnerRecord::parse(page.record(SlotId(s))?)?;
                    if !record.key.is_empty() {
                        keys.push(record.key.to_vec());
                    }
                    if page.level() > 1 {
                        next.push(record.child);
                    }
                }
            }
            level = next;
        }
        Ok(thin(keys, n))
    }

    /// About how many records the tree has, as [`Tree::estimate_size`].
    pub fn estimate(&self, pool: &BufferPool) -> Result<u64> {
        self.estimate_size(pool).map(|size| size.records)
    }

    /// About how many records and pages the tree has: of each level the records of a few nodes, which are evenly spaced, and
    /// what that makes multiplied. Exact where a level has no more than [`ESTIMATED_BY`] nodes.
    pub fn estimate_size(&self, pool: &BufferPool) -> Result<Size> {
        let mut chosen = vec![self.root];
        let (mut level, mut nodes, mut pages) = (None, 1f64, 0f64);
        for _ in 0..DEPTH_MAX {
            let (mut read, mut records, mut children) = (0u32, 0u64, Vec::new());
            for id in &chosen {
                let node = pool.read(*id, Access::Point)?;
                match self.check(*id, &node, level) {
                    Ok(()) => {}
                    Err(error) if level.is_none() => return Err(error),
                    // It is another one by now: no latch is held from its parent on.
                    Err(_) => continue,
                }
                read += 1;
                records += u64::from(node.slot_count());
                level = Some(node.level());
                if node.level() > 0 {
                    for slot in 0..node.slot_count() {
                        children.push(inner::InnerRecord::parse(node.record(SlotId(slot))?)?.child);
                    }
                }
            }
            let Some(at) = level.filter(|_| read > 0) else { break };
            pages += nodes;
            nodes *= records as f64 / f64::from(read);
            if at == 0 {
                break;
            }
            level = Some(at - 1);
            let wanted = children.len().min(ESTIMATED_BY);
            chosen = (0..wanted).map(|i| children[(2 * i + 1) * children.len() / (2 * wanted)]).collect();
        }
        Ok(Size { records: nodes as u64, pages: pages as u64 })
    }
}

/// About how large a tree is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    pub records: u64,
    pub pages: u64,
}

/// A few records of a leaf that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub first: Vec<u8>,
    pub last: Vec<u8>,
    pub records: u64,
}

impl Tree {
    /// At most `most` records of one leaf, at a place from 0 (the begin of the tree) up to 1 (its end); of trees whose nodes have
    /// about equally many records any record is in the way of about equally many places. `None`: no record is there.
    pub fn spot(&self, pool: &BufferPool, place: f64, most: u16) -> Result<Option<Spot>> {
        let mut node = pool.read(self.root, Access::Scan)?;
        self.check(self.root, &node, None)?;
        let mut place = place.clamp(0.0, 1.0);
        for _ in 0..DEPTH_MAX {
            let slots = node.slot_count();
            if slots == 0 {
                return Ok(None);
            }
            place *= f64::from(slots);
            let slot = (place as u16).min(slots - 1);
            place -= f64::from(slot);
            if node.level() == 0 {
                let end = slot.saturating_add(most.max(1)).min(slots);
                let key = |slot: u16| node.record(SlotId(slot)).map(|record| leaf::key_of(record).to_vec());
                return Ok(Some(Spot { first: key(slot)?, last: key(end - 1)?, records: u64::from(end - slot) }));
            }
            let level = node.level() - 1;
            let id = inner::InnerRecord::parse(node.record(SlotId(slot))?)?.child;
            let child = pool.read(id, Access::Scan)?;
            self.check(id, &child, Some(level))?;
            node = child;
        }
        Err(Error::corrupt(format!("tree {} is deeper than any tree can be", self.object)))
    }

    /// The leaf that [`Tree::spot`] would look at, without reading it: a guess, for it may be another one by then. `None`: it is the root.
    pub(crate) fn leaf_at(&self, pool: &BufferPool, place: f64) -> Result<Option<PageId>> {
        let mut node = pool.read(self.root, Access::Scan)?;
        self.check(self.root, &node, None)?;
        let mut place = place.clamp(0.0, 1.0);
        for _ in 0..DEPTH_MAX {
            let (slots, level) = (node.slot_count(), node.level());
            if level == 0 || slots == 0 {
                return Ok(None);
            }
            place *= f64::from(slots);
            let slot = (place as u16).min(slots - 1);
            place -= f64::from(slot);
            let id = inner::InnerRecord::parse(node.record(SlotId(slot))?)?.child;
            if level == 1 {
                return Ok(Some(id));
            }
            let child = pool.read(id, Access::Scan)?;
            self.check(id, &child, Some(level - 1))?;
            node = child;
        }
        Ok(None)
    }
}

/// Nodes of each level by which a tree is estimated.
const ESTIMATED_BY: usize = 8;

/// At most `n - 1` of `keys`, evenly spaced.
fn thin(keys: Vec<Vec<u8>>, n: usize) -> Vec<Vec<u8>> {
    if n < 2 || keys.is_empty() {
        return Vec::new();
    }
    let wanted = (n - 1).min(keys.len());
    (1..=wanted)
        .map(|i| keys[i * keys.len() / (wanted + 1)].clone())
        .collect::<std::collections::BTreeSet<_>>()
        .into_iter()
        .collect()
}

impl Tree {
    /// The greatest key in the tree.
    pub fn last_key(&self, pool: &BufferPool) -> Result<Option<Vec<u8>>> {
        let mut walk = crate::LeafWalk::descending(*self, None);
        while let Some(page) = walk.next(pool)? {
            if page.slot_count() > 0 {
                return Ok(Some(leaf::key_of(page.rec(SlotId(page.slot_count() - 1))).to_vec()));
            }
        }
        Ok(None)
    }
}
