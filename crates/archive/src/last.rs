//! The last LSN of a page, asked often: frames of page tables, reduced to page and last LSN, in bounded memory.
//!
//! A page that was read as of some LSN can only have later records in runs that end behind that: the others are not looked at. Of a
//! run that is, one frame of its table says it, in memory or read once.
//!
//! [`LastLsns::known`] reads nothing and waits for nobody who reads; [`LastLsns::read`] brings what is missing. Its mutex is a leaf.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;
use resurgam_base::{Lsn, PageId, Result};

use crate::format::RunId;
use crate::view::{RunHandle, View};

type Key = (u64, u64, u64);

fn key(id: &RunId) -> Key {
    (id.start.0, id.end.0, id.generation)
}

/// Pages of a frame, ascending, each with its last LSN.
struct Frame {
    pages: Box<[(u64, u64)]>,
    used: bool,
}

impl Frame {
    fn bytes(&self) -> usize {
        size_of_val(&*self.pages) + size_of::<(Key, usize, Self)>()
    }

    fn last(&self, page: PageId) -> Lsn {
        let found = self.pages.binary_search_by_key(&page.0, |(page, _)| *page);
        found.ok().and_then(|at| self.pages.get(at)).map_or(Lsn::NONE, |(_, last)| Lsn(*last))
    }
}

#[derive(Default)]
struct Known {
    /// Of each run the first pages of the frames of its table.
    runs: HashMap<Key, Arc<[u64]>>,
    frames: HashMap<(Key, usize), Frame>,
    /// The frames; those that were used since they were met are passed over once.
    order: VecDeque<(Key, usize)>,
    bytes: usize,
}

/// Where a run's answer for a page is.
enum Place {
    /// The run is not known yet.
    Run,
    /// This frame is not in memory.
    Frame(usize),
    /// Its last LSN in the run, or none.
    Known(Lsn),
}

impl Known {
    fn find(&mut self, run: Key, page: PageId) -> Place {
        let Some(firsts) = self.runs.get(&run) else { return Place::Run };
        // The last piece of a page that fills several frames is in the last of those that begin with it.
        let Some(at) = firsts.partition_point(|first| *first <= page.0).checked_sub(1) else {
            return Place::Known(Lsn::NONE);
        };
        match self.frames.get_mut(&(run, at)) {
            Some(frame) => {
                frame.used = true;
                Place::Known(frame.last(page))
            }
            None => Place::Frame(at),
        }
    }

    fn add(&mut self, at: (Key, usize), frame: Frame, bytes_max: usize) {
        self.bytes += frame.bytes();
        if let Some(same) = self.frames.insert(at, frame) {
            // Somebody else has read it, too; its place in the order stays.
            self.bytes -= same.bytes();
        } else {
            self.order.push_back(at);
        }
        while self.bytes > bytes_max && self.order.len() > 1 {
            let Some(oldest) = self.order.pop_front() else { return };
            match self.frames.get_mut(&oldest) {
                Some(frame) if frame.used => {
                    frame.used = false;
                    self.order.push_back(oldest);
                }
                _ => self.forget(oldest),
            }
        }
    }

    fn forget(&mut self, at: (Key, usize)) {
        if let Some(frame) = self.frames.remove(&at) {
            self.bytes -= frame.bytes();
        }
    }

    /// Forgets the runs that the view does not have any more.
    fn only(&mut self, view: &View) {
        let there: Vec<Key> = view.handles.iter().map(|handle| key(&handle.meta.id)).collect();
        self.runs.retain(|run, _| there.contains(run));
        let gone: Vec<_> = self.frames.keys().filter(|(run, _)| !there.contains(run)).copied().collect();
        gone.into_iter().for_each(|at| self.forget(at));
        self.order.retain(|at| self.frames.contains_key(at));
    }
}

/// See the module.
pub struct LastLsns {
    known: Mutex<Known>,
    bytes_max: usize,
}

impl LastLsns {
    /// Keeps so many bytes of page tables (one frame at least), and the indexes of the runs that it is asked of.
    pub fn new(bytes_max: usize) -> Self {
        Self { known: Mutex::default(), bytes_max }
    }

    /// The last LSN that `view` has of the page, if it is above `above`, otherwise none or one that is not; outer none: something must
    /// be read to tell. Nothing is read.
    pub fn known(&self, view: &View, page: PageId, above: Lsn) -> Option<Lsn> {
        let mut known = self.known.lock();
        for handle in later(view, above) {
            match known.find(key(&handle.meta.id), page) {
                Place::Known(last) if last.is_some() => return Some(last),
                Place::Known(_) => {}
                Place::Run | Place::Frame(_) => return None,
            }
        }
        Some(Lsn::NONE)
    }

    /// As [`LastLsns::known`]; what must be read is.
    ///
    /// # Errors
    /// `Corrupt`, naming file and offset; those of reading.
    pub fn read(&self, view: &View, page: PageId, above: Lsn) -> Result<Lsn> {
        for handle in later(view, above) {
            let last = self.read_run(view, handle, page)?;
            if last.is_some() {
                return Ok(last);
            }
        }
        Ok(Lsn::NONE)
    }

    fn read_run(&self, view: &View, handle: &RunHandle, page: PageId) -> Result<Lsn> {
        let id = key(&handle.meta.id);
        let mut place = self.known.lock().find(id, page);
        if matches!(place, Place::Run) {
            let firsts = handle.open()?.table_firsts();
            let mut known = self.known.lock();
            known.only(view);
            known.runs.insert(id, firsts);
            place = known.find(id, page);
        }
        match place {
            Place::Known(last) => Ok(last),
            Place::Frame(at) => {
                let pages = handle.open()?.last_lsns(at)?;
                let frame = Frame { pages, used: false };
                let last = frame.last(page);
                self.known.lock().add((id, at), frame, self.bytes_max);
                Ok(last)
            }
            // Another thread, with another view, has just forgotten it.
            Place::Run => Ok(handle.open()?.entry(page)?.map_or(Lsn::NONE, |entry| entry.last)),
        }
    }

    /// Memory that frames take now, in bytes.
    pub fn bytes(&self) -> usize {
        self.known.lock().bytes
    }
}

/// The runs that may have records above `above`, the newest first.
fn later(view: &View, above: Lsn) -> impl Iterator<Item = &Arc<RunHandle>> {
    view.handles.iter().rev().take_while(move |handle| handle.meta.id.end > above)
}
