//! Cleaning the rows of one leaf: reverting aborted versions (logical revert), stripping
//! tags and earlier versions that nobody needs, removing ghosts that everybody has seen.
//! One mini-transaction for the page (a system transaction, never undone).
//!
//! Used by the sweep, and by writers whose page is full, before they split it.

use resurgam_base::{Result, SlotId, TxId};
use resurgam_buffer::{BufferPool, Mtr, WriteGuard};
use resurgam_page::{Earlier, LeafBuilder, LeafRecord, buf, op, space};
use resurgam_txn::{Status, TxManager};

use crate::read;

/// What [`clean_leaf`] did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageCleaning {
    /// Rows whose aborted version gave way to the committed one.
    pub reverted: u32,
    /// Rows that lost tag and earlier version.
    pub stripped: u32,
    /// Rows removed (aborted inserts, ghosts).
    pub removed: u32,
    /// Rows that keep versions.
    pub remaining: u32,
    /// A row could not be reverted for lack of room: split the page at this key for this
    /// many bytes and clean again.
    pub needs_room: Option<(Vec<u8>, usize)>,
    /// Slots left on the page, and bytes used.
    pub slots_left: u32,
    pub used_left: usize,
}

impl PageCleaning {
    /// Whether the page was changed.
    pub fn changed(&self) -> bool {
        self.reverted + self.stripped + self.removed > 0
    }
}

enum Change {
    Remove,
    Replace(Vec<u8>),
}

/// Whether everyone sees what `xid` wrote, now and from now on.
pub(crate) fn is_for_all(txs: &TxManager, xid: TxId) -> bool {
    xid.is_none() || matches!(txs.status(xid), Status::Committed(ts) if ts <= txs.horizon())
}

/// Cleans `page`, an exclusively latched leaf, and releases it.
pub fn clean_leaf(pool: &BufferPool, txs: &TxManager, page: WriteGuard<'_>) -> Result<PageCleaning> {
    let horizon = txs.horizon();
    let for_all = |xid: TxId| xid.is_none() || matches!(txs.status(xid), Status::Committed(ts) if ts <= horizon);
    let mut report = PageCleaning::default();
    let mut changes: Vec<(u16, Change, usize)> = Vec::new();
    for s in 0..page.slot_count() {
        let bytes = page.record(SlotId(s))?;
        let record = LeafRecord::parse(bytes)?;
        if !record.is_tagged() {
            continue;
        }
        let change = match txs.status(record.xid) {
            Status::Aborted => {
                report.reverted += 1;
                match read::newest_not_aborted(pool, txs, &record)? {
                    None => Change::Remove,
                    Some(v) if for_all(v.xid) && v.ghost => Change::Remove,
                    Some(v) if for_all(v.xid) => Change::Replace(LeafBuilder::plain(record.key, &v.value).encode()?),
                    Some(v) => {
                        report.remaining += 1;
                        let builder = LeafBuilder {
                            ghost: v.ghost,
                            xid: v.xid,
                            key: record.key,
                            value: &v.value,
                            earlier: v.earlier.borrow(),
                        };
                        Change::Replace(builder.encode()?)
                    }
                }
            }
            Status::Committed(ts) if ts <= horizon => {
                if record.is_ghost() {
                    report.removed += 1;
                    Change::Remove
                } else {
                    report.stripped += 1;
                    Change::Replace(
                        LeafBuilder {
                            ghost: false,
                            xid: TxId::NONE,
                            key: record.key,
                            value: record.value,
                            earlier: Earlier::None,
                        }
                        .encode()?,
                    )
                }
            }
            _ => {
                report.remaining += 1;
                continue;
            }
        };
        changes.push((s, change, bytes.len()));
    }
    // Rows that grow must find room; those that do not are left for after a split.
    let mut room = page.free_total();
    for (_, change, old) in &changes {
        match change {
            Change::Remove => room += old,
            Change::Replace(new) if new.len() <= *old => room += old - new.len(),
            Change::Replace(_) => {}
        }
    }
    changes.retain(|(s, change, old)| match change {
        Change::Replace(new) if new.len() > *old => {
            let more = new.len() - old;
            if more <= room {
                room -= more;
                true
            } else {
                report.reverted -= 1;
                report.remaining += 1;
                report.needs_room = Some((resurgam_page::leaf::key_of(page.rec(SlotId(*s))).to_vec(), new.len()));
                false
            }
        }
        _ => true,
    });
    let flag_goes = report.remaining == 0 && page.has_versions();
    let removed_slots = changes.iter().filter(|(_, c, _)| matches!(c, Change::Remove)).count();
    report.slots_left = u32::from(page.slot_count()) - removed_slots as u32;
    report.used_left = page.used();
    if changes.is_empty() && !flag_goes {
        return Ok(report);
    }
    let id = page.id();
    let mut mtr = Mtr::new(pool);
    let at = mtr.add(page);
    let (page, ops) = mtr.page_and_ops(at);
    // First what frees room, from the end so that slot numbers stay; then what grows.
    for (s, change, old) in changes.iter().rev() {
        match change {
            Change::Remove => {
                report.used_left = report.used_left.saturating_sub(old + 4);
                op::remove(ops, SlotId(*s));
            }
            Change::Replace(new) if new.len() <= *old => {
                report.used_left = report.used_left.saturating_sub(old - new.len());
                op::patch_or_replace(ops, SlotId(*s), page.rec(SlotId(*s)), new);
            }
            Change::Replace(_) => {}
        }
    }
    let mut removed_before = 0;
    for (s, change, old) in &changes {
        match change {
            Change::Remove => removed_before += 1,
            Change::Replace(new) if new.len() > *old => {
                report.used_left += new.len() - old;
                op::replace(ops, SlotId(s - removed_before), new);
            }
            Change::Replace(_) => {}
        }
    }
    if flag_goes {
        op::set_flags(ops, 0, buf::HAS_VERSIONS);
        pool.space().set_flags(&mut mtr, id, 0, space::PFS_HAS_VERSIONS)?;
    }
    mtr.commit()?;
    Ok(report)
}
