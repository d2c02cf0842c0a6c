//! Mistakes that tests make on purpose, to see that they would be noticed. None is made otherwise.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, Ordering};

/// A mistake of a restore, of reading pages (ahead), of a descent, of a walk, of a count, of a sweep, or of logging.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Planted {
    None,
    /// A mark is written before its segment is synced.
    EarlyMark,
    /// A page is written into a segment that is not restored.
    WriteUnrestored,
    /// A page in memory that has records behind the archive is taken for one that the new file has.
    ResidentForgotten,
    /// The pass over the log behind the archive is left out.
    NoTail,
    /// A checkpoint counts before what was written once is synced.
    FreshUnsynced,
    /// A page that is read for the first time is not compared with what the archive knows of it.
    NotCompared,
    /// Pages of an interval whose space map cannot be read are not visited, and transactions are forgotten all the same.
    IntervalSkipped,
    /// A page that reads as never written is taken for one that was never given out, whatever leads to it.
    LostTakenForUnused,
    /// A leaf to which a guide leads a reader is taken for the right one.
    GuideTrusted,
    /// A leaf of which a walk has handed out a part, before a merge, is passed as a whole.
    PartPassed,
    /// A record whose own version a count does not see is counted like one that it sees.
    UnseenCounted,
    /// What was found of all records of a leaf is taken for true after the leaf has changed.
    SightOfAnyState,
    /// Pages that are asked for ahead may be of any age.
    AheadOfAnyAge,
    /// A copy of a page from before a restart is taken for the page.
    CopyNotCompared,
    /// A copy is said to have all records of its page below the end of the log, durable or not.
    CopyBeyondDurable,
    /// How new a page was that leaves memory is noted when it can be missed there already.
    RaisedLate,
    /// An image of a page as it was is logged behind a record that changes it.
    ImageBehindRecord,
    /// Redo leaves out the last of several rows that a record inserts.
    LastOfRunForgotten,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

impl Planted {
    /// For the whole process, from now on.
    pub fn plant(self) {
        PLANTED.store(self as u8, Ordering::SeqCst);
    }
    /// Whether it is this one.
    pub fn is_planted(self) -> bool {
        PLANTED.load(Ordering::Relaxed) == self as u8
    }
}

/// A mistake in giving space back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedInGiveBack {
    None,
    /// A file is cut before the checkpoint counts that says where it ends.
    CutEarly,
    /// A file is cut in what is used of it.
    CutInUse,
    /// A hole is made before it is durable that its pages are free.
    PunchEarly,
    /// A leaf that gets rows of another one is not marked in its space map as having versions.
    MarkForgotten,
    /// Of a leaf whose rows go to both neighbours, the first one is on neither.
    RowForgotten,
}

thread_local! {
    static HERE: Cell<PlantedInGiveBack> = const { Cell::new(PlantedInGiveBack::None) };
}

impl PlantedInGiveBack {
    /// For this thread, from now on.
    pub fn plant_here(self) {
        HERE.set(self);
    }
    /// Whether it is this one.
    pub fn is_planted(self) -> bool {
        HERE.get() == self
    }
}
