//! Human-readable dumps of pages and of page operations.
//!
//! Shows as much as possible of damaged input and never fails: what cannot be parsed is
//! printed as raw bytes beside the reason, and the page's problems are listed at the end.

use crate::boot::Boot;
use crate::buf::{HAS_EXTERNAL, HAS_VERSIONS, HEADER_SIZE, PageBuf, PageType};
use crate::inner::InnerRecord;
use crate::leaf::{Earlier, LeafRecord, VersionPtr};
use crate::op::{self, PageOp};
use crate::version::VersionRecord;
use crate::{overflow, space, validate};
use resurgam_base::limits::EXTENT_PAGES;
use resurgam_base::{ObjectId, SlotId, TxId};
use std::fmt::{self, Write};

/// Bytes of a key or value shown at most.
const SHOWN_MAX: usize = 32;

/// A dump of `page`.
pub fn page(page: &PageBuf) -> String {
    let mut out = String::new();
    // Writing to a String cannot fail.
    let _ = dump(page, &mut out);
    out
}

/// A dump of the operations in the body of a page's log record, one a line.
pub fn ops(body: &[u8]) -> String {
    let mut out = String::new();
    for op in op::decode(body) {
        let _ = match op {
            Ok(op) => dump_op(&op, &mut out),
            Err(e) => writeln!(out, "UNREADABLE: {}; whole body: {}", e.message(), Bytes(body)),
        };
    }
    out
}

/// Writes a dump of `page` to `out`.
pub fn dump(page: &PageBuf, out: &mut impl Write) -> fmt::Result {
    if page.is_all_zero() {
        return writeln!(out, "page of zeros: never written");
    }
    header(page, out)?;
    match page.page_type() {
        Some(ty @ (PageType::Leaf | PageType::Inner | PageType::Version)) => {
            slotted(page, ty, out)?;
        }
        Some(PageType::Boot) => boot(page, out)?,
        Some(PageType::SpaceMap) => space_map(page, out)?,
        Some(PageType::Overflow) => match overflow::read(page) {
            Ok((next, bytes)) => writeln!(out, "  next {next}  chunk {}", Bytes(bytes))?,
            Err(e) => writeln!(out, "  UNREADABLE: {}", e.message())?,
        },
        Some(PageType::Free) | None => {
            writeln!(out, "  payload {}", Bytes(&page.as_bytes()[HEADER_SIZE..]))?;
        }
    }
    for problem in validate::validate(page) {
        writeln!(out, "  PROBLEM: {problem}")?;
    }
    Ok(())
}

fn header(page: &PageBuf, out: &mut impl Write) -> fmt::Result {
    write!(out, "page {}  ", page.page_id())?;
    match page.page_type() {
        Some(ty) => write!(out, "{ty:?}")?,
        None => write!(out, "type {}?", page.type_byte())?,
    }
    writeln!(out, "  level {}  object {}  format {}", page.level(), page.object(), page.format_version())?;
    write!(out, "  lsn {}  highest xid {}  flags", page.lsn(), page.highest_xid())?;
    let mut rest = page.flags();
    for (bit, name) in [(HAS_VERSIONS, "HAS_VERSIONS"), (HAS_EXTERNAL, "HAS_EXTERNAL")] {
        if rest & bit != 0 {
            write!(out, " {name}")?;
            rest &= !bit;
        }
    }
    match (rest, page.flags()) {
        (0, 0) => writeln!(out, " none")?,
        (0, _) => writeln!(out)?,
        (rest, _) => writeln!(out, " {rest:#04x}?")?,
    }
    if page.written_by_epoch() != 0 {
        writeln!(out, "  written under log epoch {}", page.written_by_epoch())?;
    }
    writeln!(out, "  records since anew {}", page.records_since_anew())?;
    let (stored, computed) = (page.stored_checksum(), page.computed_checksum());
    if stored == computed {
        writeln!(out, "  checksum {stored:#010x} ok")
    } else {
        writeln!(out, "  checksum {stored:#010x} WRONG, bytes give {computed:#010x}")
    }
}

fn slotted(page: &PageBuf, ty: PageType, out: &mut impl Write) -> fmt::Result {
    writeln!(
        out,
        "  slots {}  heap from {}  garbage {}  free {}",
        page.raw_slot_count(),
        page.heap_start(),
        page.garbage(),
        page.free_total()
    )?;
    if page.lower_len() == 0 {
        writeln!(out, "  lower fence -infinity")?;
    } else {
        writeln!(out, "  lower fence {}", Bytes(page.lower_fence()))?;
    }
    match page.upper_fence() {
        None => writeln!(out, "  upper fence +infinity")?,
        Some(upper) => writeln!(out, "  upper fence {}", Bytes(upper))?,
    }
    for slot in (0..page.slot_count()).map(SlotId) {
        let (offset, len) = page.slot_entry(slot);
        write!(out, "  slot {} @{offset}+{len}  ", slot.0)?;
        let bytes = page.rec(slot);
        let failure = match ty {
            PageType::Inner => match InnerRecord::parse(bytes) {
                Ok(record) => {
                    writeln!(out, "child {}  key {}", record.child, Bytes(record.key))?;
                    continue;
                }
                Err(e) => e,
            },
            PageType::Version => match VersionRecord::parse(bytes) {
                Ok(version) => {
                    write!(out, "object {}  pusher {}  ", version.object, version.pusher)?;
                    leaf(&version.record, out)?;
                    continue;
                }
                Err(e) => e,
            },
            _ => match LeafRecord::parse(bytes) {
                Ok(record) => {
                    leaf(&record, out)?;
                    continue;
                }
                Err(e) => e,
            },
        };
        writeln!(out, "UNREADABLE: {}; raw {}", failure.message(), Bytes(bytes))?;
    }
    Ok(())
}

fn leaf(record: &LeafRecord<'_>, out: &mut impl Write) -> fmt::Result {
    writeln!(out, "{}key {}", Tag(record.is_ghost(), record.xid), Bytes(record.key))?;
    writeln!(out, "    value {}", Bytes(record.value))?;
    match record.earlier() {
        Earlier::None => Ok(()),
        Earlier::OffRow(pointer) => writeln!(out, "    earlier off-row at {}", Pointer(pointer)),
        Earlier::InRow(tag, diff) => {
            write!(out, "    earlier in row: {}", Tag(tag.ghost, tag.xid))?;
            let mut value = Vec::new();
            match record.rebuild_earlier(&mut value) {
                Ok(_) => write!(out, "value {}", Bytes(&value))?,
                Err(e) => write!(out, "UNREADABLE: {}; diff {}", e.message(), Bytes(diff))?,
            }
            match tag.offrow {
                Some(pointer) => writeln!(out, "  before it off-row at {}", Pointer(pointer)),
                None => writeln!(out),
            }
        }
    }
}

fn boot(page: &PageBuf, out: &mut impl Write) -> fmt::Result {
    match Boot::read(page) {
        Ok(boot) => {
            write!(out, "  database ")?;
            boot.database_id.iter().try_for_each(|b| write!(out, "{b:02x}"))?;
            writeln!(out, "  created {} us", boot.created_us)?;
            writeln!(
                out,
                "  format {}  oldest reader {}  {}",
                boot.format_version,
                boot.min_reader_version,
                if boot.is_clean() { "clean" } else { "not clean" }
            )?;
            writeln!(
                out,
                "  catalog root {} object {}  pending frees root {} object {}",
                boot.catalog_root, boot.catalog_object, boot.pending_frees_root, boot.pending_frees_object
            )
        }
        Err(e) => {
            let raw = &page.as_bytes()[HEADER_SIZE..];
            writeln!(out, "  UNREADABLE: {}; raw {}", e.message(), Bytes(raw))
        }
    }
}

/// One line for each extent that has an owner or a page in use.
fn space_map(page: &PageBuf, out: &mut impl Write) -> fmt::Result {
    let pfs = space::pfs_bytes(page);
    for (extent, bytes) in pfs.chunks(EXTENT_PAGES as usize).enumerate() {
        let owner = space::owner(page, extent);
        if owner == ObjectId::NONE && bytes.iter().all(|&b| b == 0) {
            continue;
        }
        let first = page.page_id().0.saturating_add(extent as u64 * EXTENT_PAGES);
        write!(out, "  extent {extent} from page {first}  owner {owner}  pfs")?;
        bytes.iter().try_for_each(|b| write!(out, " {b:02x}"))?;
        writeln!(out)?;
    }
    Ok(())
}

fn dump_op(op: &PageOp<'_>, out: &mut impl Write) -> fmt::Result {
    match op {
        PageOp::Format { ty, level, object, lower, upper } => {
            write!(out, "format {ty:?} level {level} object {object} lower {}", Bytes(lower))?;
            writeln!(out, " upper {}", Upper(*upper))
        }
        PageOp::Image(image) => {
            writeln!(out, "image of {} bytes", image.head.len() + image.tail.len())
        }
        PageOp::Insert { slot, bytes } => writeln!(out, "insert slot {} {}", slot.0, Bytes(bytes)),
        PageOp::Remove { slot } => writeln!(out, "remove slot {}", slot.0),
        PageOp::Replace { slot, bytes } => {
            writeln!(out, "replace slot {} {}", slot.0, Bytes(bytes))
        }
        PageOp::Patch { slot, diff } => writeln!(out, "patch slot {} {}", slot.0, Bytes(diff)),
        PageOp::InsertMany { slot, records } => {
            writeln!(out, "insert {} records from slot {}", records.len(), slot.0)?;
            records.iter().try_for_each(|bytes| writeln!(out, "  {}", Bytes(bytes)))
        }
        PageOp::RemoveMany { slot, count } => {
            writeln!(out, "remove {count} records from slot {}", slot.0)
        }
        PageOp::Truncate { from_slot, upper } => {
            writeln!(out, "truncate from slot {} upper {}", from_slot.0, Upper(*upper))
        }
        PageOp::SetFences { lower, upper } => {
            writeln!(out, "set fences lower {} upper {}", Bytes(lower), Upper(*upper))
        }
        PageOp::SetFlags { set, clear } => {
            writeln!(out, "set flags {set:#04x} clear {clear:#04x}")
        }
        PageOp::CleanRows(runs) => {
            write!(out, "clean rows")?;
            runs.iter()
                .try_for_each(|run| write!(out, " {:?} {} from slot {}", run.treatment, run.count, run.first.0))?;
            writeln!(out)
        }
        PageOp::ChangeRow { slot, change } => writeln!(out, "change row {} by {}", slot.0, Bytes(change)),
        PageOp::Undo(bytes) => writeln!(out, "to undo: {}", Bytes(bytes)),
        PageOp::SetBytes { offset, bytes } => {
            writeln!(out, "set bytes at {offset} {}", Bytes(bytes))
        }
    }
}

/// `tx 7 `, `ghost tx 7 ` or nothing.
struct Tag(bool, TxId);

impl fmt::Display for Tag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 {
            f.write_str("ghost ")?;
        }
        if self.1.is_some() {
            write!(f, "tx {} ", self.1)?;
        }
        Ok(())
    }
}

struct Pointer(VersionPtr);

impl fmt::Display for Pointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "page {} slot {}", self.0.page, self.0.slot.0)
    }
}

struct Upper<'a>(Option<&'a [u8]>);

impl fmt::Display for Upper<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("+infinity"),
            Some(bytes) => Bytes(bytes).fmt(f),
        }
    }
}

/// Length, then hex and ASCII of the first bytes: `3: 61 62 00 |ab.|`.
pub struct Bytes<'a>(pub &'a [u8]);

impl fmt::Display for Bytes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.0.len())?;
        let shown = &self.0[..self.0.len().min(SHOWN_MAX)];
        let more = if shown.len() < self.0.len() { "..." } else { "" };
        shown.iter().try_for_each(|b| write!(f, " {b:02x}"))?;
        write!(f, "{more} |")?;
        for &b in shown {
            let printable = b.is_ascii_graphic() || b == b' ';
            f.write_char(if printable { b as char } else { '.' })?;
        }
        write!(f, "{more}|")
    }
}
