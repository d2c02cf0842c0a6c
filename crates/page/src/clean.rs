//! Cleaning many rows of a leaf as one page operation: which rows go, which lose their
//! earlier version, which give way to it. The rows' own bytes say the rest, so the log record
//! is a few bytes for a whole page, and the page is rebuilt once.
//!
//! ```text
//! count varint, then for each run of neighbouring slots that are treated alike:
//!   treatment u8, first slot u16, slots varint
//! ```
//! Slots are those before the operation. Runs ascend and do not overlap.
//!
//! # Invariants
//! 1. A treatment that does not suit a record (there is no earlier version in the row) is
//!    `Corrupt`, and nothing is changed; so is a result that does not fit the page.
//! 2. The heap is rebuilt as a compaction does it (`slotted.rs`): same bytes in, same out.

use resurgam_base::{Error, Result, SlotId, TxId};

use crate::buf::PageBuf;
use crate::codec::{Reader, put_varint};
use crate::leaf::{self, Earlier, LeafBuilder, LeafRecord};

/// What becomes of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Treatment {
    /// It goes: nothing of it is left to see.
    Remove = 0,
    /// It keeps its value, and loses tag and earlier version: all see it.
    Strip = 1,
    /// Its earlier version in the row takes its place, seen by all.
    Revert = 2,
    /// Its earlier version in the row takes its place with the tag of its writer.
    RevertTagged = 3,
    /// It keeps value and tag and loses its earlier version: nobody sees that one.
    Shorten = 4,
}

impl Treatment {
    fn from_u8(byte: u8) -> Option<Self> {
        Some(match byte {
            0 => Self::Remove,
            1 => Self::Strip,
            2 => Self::Revert,
            3 => Self::RevertTagged,
            4 => Self::Shorten,
            _ => return None,
        })
    }

    /// Length of a record after the treatment; 0 if it goes.
    ///
    /// # Errors
    /// `Corrupt` when the treatment does not suit the record.
    pub fn len_after(self, record: &LeafRecord<'_>) -> Result<usize> {
        let plain = LeafBuilder::plain(record.key, &[]).encoded_len();
        Ok(match (self, record.earlier()) {
            (Self::Remove, _) => 0,
            (Self::Strip, _) => plain + record.value.len(),
            (Self::Shorten, _) => LeafBuilder { earlier: Earlier::None, ..record.to_builder() }.encoded_len(),
            (Self::Revert, Earlier::InRow(_, diff)) => plain + crate::diff::target_len(record.value.len(), diff)?,
            (Self::RevertTagged, Earlier::InRow(tag, diff)) => {
                let earlier = tag.offrow.map_or(Earlier::None, Earlier::OffRow);
                let tagged = LeafBuilder { ghost: tag.ghost, xid: tag.xid, key: record.key, value: &[], earlier };
                tagged.encoded_len() + crate::diff::target_len(record.value.len(), diff)?
            }
            (Self::Revert | Self::RevertTagged, _) => return Err(no_earlier()),
        })
    }

    /// Appends the record after the treatment; false if it goes. `value` is scratch.
    ///
    /// # Errors
    /// As those of [`Treatment::len_after`].
    pub fn apply(self, record: &LeafRecord<'_>, value: &mut Vec<u8>, out: &mut Vec<u8>) -> Result<bool> {
        match (self, record.earlier()) {
            (Self::Remove, _) => return Ok(false),
            (Self::Strip, _) => LeafBuilder::plain(record.key, record.value).encode_into(out)?,
            (Self::Shorten, _) => LeafBuilder { earlier: Earlier::None, ..record.to_builder() }.encode_into(out)?,
            (Self::Revert, Earlier::InRow(_, diff)) => {
                leaf::rebuild_earlier(record.value, diff, value)?;
                LeafBuilder::plain(record.key, value).encode_into(out)?;
            }
            (Self::RevertTagged, Earlier::InRow(tag, diff)) => {
                if tag.xid == TxId::NONE {
                    return Err(Error::corrupt("the earlier version in the row has no tag"));
                }
                leaf::rebuild_earlier(record.value, diff, value)?;
                let earlier = tag.offrow.map_or(Earlier::None, Earlier::OffRow);
                LeafBuilder { ghost: tag.ghost, xid: tag.xid, key: record.key, value, earlier }.encode_into(out)?;
            }
            (Self::Revert | Self::RevertTagged, _) => return Err(no_earlier()),
        }
        Ok(true)
    }
}

#[cold]
fn no_earlier() -> Error {
    Error::corrupt("a row without an earlier version in it is to give way to that")
}

/// Neighbouring slots that are treated alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    pub treatment: Treatment,
    pub first: SlotId,
    pub count: u16,
}

/// The runs of an operation, checked when decoded: iterating yields them all.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Runs<'a> {
    bytes: &'a [u8],
}

fn read_run(r: &mut Reader<'_>) -> Result<Run> {
    let Some(treatment) = Treatment::from_u8(r.u8()?) else { return Err(r.bad("unknown treatment of a row")) };
    let first = SlotId(r.u16()?);
    match u16::try_from(r.varint()?) {
        Ok(count) if count > 0 && first.0.checked_add(count).is_some() => Ok(Run { treatment, first, count }),
        _ => Err(r.bad("a run of an impossible length")),
    }
}

impl<'a> Runs<'a> {
    pub(crate) fn decode(r: &mut Reader<'a>) -> Result<Self> {
        let count = r.varint()?;
        let (mut probe, mut end) = (*r, 0);
        for _ in 0..count {
            let run = read_run(&mut probe)?;
            if run.first.0 < end {
                return Err(probe.bad("runs that do not ascend"));
            }
            end = run.first.0 + run.count;
        }
        Ok(Self { bytes: r.take(probe.position() - r.position())? })
    }
    pub fn iter(&self) -> impl Iterator<Item = Run> + use<'a> {
        let mut r = Reader::new(self.bytes, "runs");
        std::iter::from_fn(move || if r.is_empty() { None } else { read_run(&mut r).ok() })
    }
}

/// Appends the runs of `rows`, which ascend by slot.
pub(crate) fn encode_into(out: &mut Vec<u8>, rows: &[(SlotId, Treatment)]) {
    let next = |a: &(SlotId, Treatment), b: &(SlotId, Treatment)| a.0.0 + 1 == b.0.0 && a.1 == b.1;
    put_varint(out, rows.chunk_by(next).count());
    for run in rows.chunk_by(next) {
        let (first, treatment) = run[0];
        out.push(treatment as u8);
        out.extend_from_slice(&first.0.to_le_bytes());
        put_varint(out, run.len());
    }
}

/// Applies the operation to a leaf.
pub(crate) fn apply(page: &mut PageBuf, runs: &Runs<'_>) -> Result<()> {
    if let Some(run) = runs.iter().last().filter(|run| run.first.0 + run.count > page.slot_count()) {
        let last = run.first.0 + run.count - 1;
        return Err(Error::corrupt(format!("rows up to slot {last} are treated, the page has {}", page.slot_count())));
    }
    let mut runs = runs.iter().peekable();
    let mut value = Vec::new();
    page.rebuild(|slot, record, out| {
        while runs.next_if(|run| run.first.0 + run.count <= slot.0).is_some() {}
        match runs.peek() {
            Some(run) if run.first <= slot => run.treatment.apply(&LeafRecord::parse(record)?, &mut value, out),
            _ => {
                out.extend_from_slice(record);
                Ok(true)
            }
        }
    })
}
