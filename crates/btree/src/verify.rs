//! Proof that a tree is a tree: levels, fences, order, record structure, and that no
//! page is reached twice.

use std::collections::HashSet;

use resurgam_base::{PageId, Result, SlotId};
use resurgam_buffer::{Access, BufferPool};
use resurgam_page::{PageBuf, inner, validate};

use crate::Tree;

/// What [`verify`] saw.
#[derive(Clone, Debug, Default)]
pub struct TreeReport {
    pub leaves: u64,
    pub inner: u64,
    pub records: u64,
    pub depth: u8,
    /// Every page reached.
    pub pages: Vec<PageId>,
    /// What is wrong, in words, with the page.
    pub problems: Vec<String>,
}

/// Checks the whole tree. Must not run beside writers: the tree is read node by node.
pub fn verify(pool: &BufferPool, tree: Tree) -> Result<TreeReport> {
    let mut report = TreeReport::default();
    let mut seen = HashSet::new();
    let mut stack: Vec<Pending> = vec![(tree.root, None, Vec::new(), None)];
    while let Some((id, level, lower, upper)) = stack.pop() {
        if !seen.insert(id) {
            report.problems.push(format!("page {id} is reached twice"));
            continue;
        }
        report.pages.push(id);
        let page = match pool.read(id, Access::Scan) {
            Ok(page) => page,
            Err(error) => {
                report.problems.push(format!("page {id}: {error}"));
                continue;
            }
        };
        if let Err(error) = tree.check(id, &page, level) {
            report.problems.push(error.to_string());
            continue;
        }
        if page.lower_fence() != lower.as_slice() || page.upper_fence() != upper.as_deref() {
            report.problems.push(format!("page {id}: its fences are not its parent's separators"));
        }
        report.problems.extend(validate::validate(&page).into_iter().map(|p| format!("page {id}: {p}")));
        report.depth = report.depth.max(page.level() + 1);
        if page.level() == 0 {
            report.leaves += 1;
            report.records += u64::from(page.slot_count());
            continue;
        }
        report.inner += 1;
        push_children(&page, id, &mut stack, &mut report);
    }
    Ok(report)
}

type Pending = (PageId, Option<u8>, Vec<u8>, Option<Vec<u8>>);

fn push_children(page: &PageBuf, id: PageId, stack: &mut Vec<Pending>, report: &mut TreeReport) {
    let count = page.slot_count();
    if count == 0 {
        report.problems.push(format!("page {id}: an inner node without children"));
    }
    let mut entries = Vec::new();
    for s in 0..count {
        match inner::InnerRecord::parse(page.rec(SlotId(s))) {
            Ok(entry) => entries.push((entry.key.to_vec(), entry.child)),
            Err(error) => report.problems.push(format!("page {id}: slot {s}: {error}")),
        }
    }
    if let Some((first, _)) = entries.first()
        && first.as_slice() != page.lower_fence()
    {
        report.problems.push(format!("page {id}: its first key is not its lower fence"));
    }
    let own_upper = page.upper_fence().map(<[u8]>::to_vec);
    for i in 0..entries.len() {
        let upper = entries.get(i + 1).map(|(k, _)| k.clone()).or_else(|| own_upper.clone());
        stack.push((entries[i].1, Some(page.level() - 1), entries[i].0.clone(), upper));
    }
}
