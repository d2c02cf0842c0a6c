//! Every node of a tree, from the root down, with what is wrong about it: kind, object,
//! level, fences against the parent's separators. The node's own structure is not looked
//! at here.
//!
//! Terminates on any input: levels descend strictly, and the visitor refuses inner nodes
//! that it has seen.

use resurgam_base::{PageId, SlotId};
use resurgam_btree::Tree;
use resurgam_page::{PageBuf, PageType, inner::InnerRecord};

use crate::image::Image;

/// Depth that no real tree reaches.
const DEPTH_MAX: u8 = 24;

/// Where the pointer to a node is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct From {
    pub page: PageId,
    pub slot: SlotId,
}

/// Told of what a walk meets.
pub(crate) trait Visitor {
    /// A node is reached; false: it was reached before, do not enter it.
    fn enter(&mut self, id: PageId, from: Option<From>) -> bool;
    /// A page that could be read and is a node of the tree.
    fn node(&mut self, image: &Image, id: PageId, page: &PageBuf);
    /// Something is wrong.
    fn problem(&mut self, page: PageId, slot: Option<SlotId>, what: String);
}

struct Step {
    id: PageId,
    from: Option<From>,
    level: Option<u8>,
    lower: Vec<u8>,
    /// `None` = plus infinity.
    upper: Option<Vec<u8>>,
    /// The right end of a tree that is being freed from the right: no upper fence to expect.
    open_end: bool,
}

/// Walks `tree`. `dying`: it may be partly freed, from the right, or gone already.
pub(crate) fn walk(image: &Image, tree: Tree, dying: bool, visitor: &mut dyn Visitor) {
    let mut stack =
        vec![Step { id: tree.root, from: None, level: None, lower: Vec::new(), upper: None, open_end: dying }];
    while let Some(step) = stack.pop() {
        let id = step.id;
        let page = match image.page(id) {
            Ok(loaded) => loaded.page,
            Err(_) if dying && step.from.is_none() => return,
            Err(what) => {
                if visitor.enter(id, step.from) {
                    visitor.problem(id, None, format!("node of tree {}: {what}", tree.object));
                }
                continue;
            }
        };
        if let Err(what) = fits(tree, &page, step.level) {
            if dying && step.from.is_none() {
                return;
            }
            match step.from {
                Some(from) => visitor.problem(from.page, Some(from.slot), format!("leads to page {id}, {what}")),
                None => visitor.problem(id, None, format!("should be the root of tree {}: {what}", tree.object)),
            }
            continue;
        }
        if !visitor.enter(id, step.from) {
            continue;
        }
        if page.lower_fence() != step.lower.as_slice() {
            visitor.problem(id, None, "its lower fence is not its parent's separator".into());
        }
        if page.upper_fence() != step.upper.as_deref() && !step.open_end {
            visitor.problem(id, None, "its upper fence is not its parent's next separator".into());
        }
        visitor.node(image, id, &page);
        if page.level() > 0 {
            push_children(&page, &step, dying, &mut stack, visitor);
        }
    }
}

/// Whether `page` is a node of `tree` at `level`, if one is expected.
fn fits(tree: Tree, page: &PageBuf, level: Option<u8>) -> Result<(), String> {
    let kind = match page.page_type() {
        Some(PageType::Leaf) if page.level() == 0 => true,
        Some(PageType::Inner) => (1..=DEPTH_MAX).contains(&page.level()),
        _ => false,
    };
    let wanted = match level {
        Some(level) => format!("where a node of tree {} at level {level} is expected", tree.object),
        None => format!("where a node of tree {} is expected", tree.object),
    };
    if !kind {
        let ty = page.page_type().map_or_else(|| format!("type {}", page.type_byte()), |ty| format!("{ty:?}"));
        return Err(format!("a page of kind {ty}, level {}, {wanted}", page.level()));
    }
    if page.object() != tree.object {
        return Err(format!("a page of object {}, {wanted}", page.object()));
    }
    if level.is_some_and(|level| level != page.level()) {
        return Err(format!("a node at level {}, {wanted}", page.level()));
    }
    Ok(())
}

fn push_children(page: &PageBuf, step: &Step, dying: bool, stack: &mut Vec<Step>, visitor: &mut dyn Visitor) {
    let id = step.id;
    let mut children = Vec::new();
    for slot in (0..page.slot_count()).map(SlotId) {
        match InnerRecord::parse(page.rec(slot)) {
            Ok(record) => children.push((slot, record.key, record.child)),
            Err(error) => visitor.problem(id, Some(slot), error.message().to_owned()),
        }
    }
    if children.is_empty() && !dying {
        visitor.problem(id, None, "an inner node without children".into());
    }
    if children.first().is_some_and(|(_, first, _)| *first != page.lower_fence()) {
        visitor.problem(id, None, "its first key is not its lower fence".into());
    }
    // In reverse, so that the leftmost child comes off the stack first.
    for i in (0..children.len()).rev() {
        let (slot, key, child) = children[i];
        let upper = match children.get(i + 1) {
            Some((_, next, _)) => Some(next.to_vec()),
            None => page.upper_fence().map(<[u8]>::to_vec),
        };
        stack.push(Step {
            id: child,
            from: Some(From { page: id, slot }),
            level: Some(page.level() - 1),
            lower: key.to_vec(),
            upper,
            open_end: dying && i + 1 == children.len(),
        });
    }
}
