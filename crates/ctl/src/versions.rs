//! The newest version of a row that is not aborted: what the row *is* once nobody is
//! active any more. Chains that nobody needs are not followed: they may lead to version
//! pages that were freed and used anew.

use resurgam_base::{ObjectId, TxId};
use resurgam_page::{Earlier, LeafRecord, PageType, VersionPtr, version::VersionRecord};

use crate::image::Image;

/// What a row is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Current {
    /// The record on the leaf is it: this value.
    Row(Vec<u8>),
    /// An earlier version is it, since newer ones are aborted.
    Earlier(Vec<u8>),
    /// Deleted.
    Deleted,
    /// All of its versions are aborted: it was never there.
    Never,
}

/// Finds it for a record of a leaf of `object`.
///
/// # Errors
/// In words, where the chain of versions is broken.
pub(crate) fn current(image: &Image, object: ObjectId, record: &LeafRecord<'_>) -> Result<Current, String> {
    let is_aborted = |xid: TxId| image.is_aborted(xid);
    if !is_aborted(record.xid) {
        return Ok(if record.is_ghost() { Current::Deleted } else { Current::Row(record.value.to_vec()) });
    }
    let mut next = match below(record, is_aborted)? {
        Below::Is(found) => return Ok(found),
        Below::Follow(pointer) => pointer,
    };
    // Brent's cycle detection: `mark` is where a cycle would come back to.
    let (mut mark, mut steps, mut limit) = (next, 0u64, 1u64);
    loop {
        let at = format!("version on page {} slot {}", next.page, next.slot.0);
        let loaded = image.page(next.page).map_err(|e| format!("{at}: {e}"))?;
        if !loaded.page.is(PageType::Version) {
            return Err(format!("{at}: the page is no version page"));
        }
        let bytes = loaded.page.record(next.slot).map_err(|_| format!("{at}: there is no such slot"))?;
        let found = VersionRecord::parse(bytes).map_err(|e| format!("{at}: {}", e.message()))?;
        if found.object != object {
            return Err(format!("{at}: it is a version of a row of object {}, not of {object}", found.object));
        }
        if found.record.key != record.key {
            return Err(format!("{at}: it is a version of a row with another key"));
        }
        if !is_aborted(found.record.xid) {
            return Ok(if found.record.is_ghost() {
                Current::Deleted
            } else {
                Current::Earlier(found.record.value.to_vec())
            });
        }
        next = match below(&found.record, is_aborted)? {
            Below::Is(found) => return Ok(found),
            Below::Follow(pointer) => pointer,
        };
        if next == mark {
            return Err(format!("{at}: the chain of versions runs in a circle"));
        }
        steps += 1;
        if steps == limit {
            (mark, steps, limit) = (next, 0, limit.saturating_mul(2));
        }
    }
}

enum Below {
    Is(Current),
    Follow(VersionPtr),
}

/// What is below a version that does not count.
fn below(record: &LeafRecord<'_>, is_aborted: impl Fn(TxId) -> bool) -> Result<Below, String> {
    Ok(match record.earlier() {
        Earlier::None => Below::Is(Current::Never),
        Earlier::OffRow(pointer) => Below::Follow(pointer),
        Earlier::InRow(tag, _) if is_aborted(tag.xid) => tag.offrow.map_or(Below::Is(Current::Never), Below::Follow),
        Earlier::InRow(tag, _) if tag.ghost => Below::Is(Current::Deleted),
        Earlier::InRow(..) => {
            let mut value = Vec::new();
            record.rebuild_earlier(&mut value).map_err(|e| format!("earlier version in the row: {}", e.message()))?;
            Below::Is(Current::Earlier(value))
        }
    })
}
