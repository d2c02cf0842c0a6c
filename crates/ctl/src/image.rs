//! The folder as an open would make it, in memory only.
//!
//! A page of the data file may be stale after a crash: its last changes are in the log, or
//! a newer image of it is in the double-write area. So pages are judged as
//! `page = redo(base, records)`: the base is the better one of data file and double-write
//! area, the records are the page's own chain, walked backwards from the last one that
//! analysis found (see the buffer crate's `source.rs`, which does the same to open).

use std::collections::HashMap;
use std::sync::Arc;

use resurgam_base::{Lsn, PageId, Result, TxId, limits::PAGE_SIZE};
use resurgam_buffer::{Openings, PendingRedo};
use resurgam_page::boot::Boot;
use resurgam_page::{PageBuf, PageOp, op};
use resurgam_recovery::{Analysis, Control, ControlCopy, analyse};
use resurgam_txn::TxIdSet;
use resurgam_vfs::File;

use crate::control;
use crate::double_write::DoubleWriteArea;
use crate::folder::Folder;
use crate::log_files::LogFiles;
use crate::version_file::VersionFile;

/// Where a page's content came from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    DataFile,
    /// The page in the data file is torn, missing or older.
    DoubleWrite,
    /// That many log records were applied.
    Redone(usize),
}

/// A page as an open would make it.
pub(crate) struct Loaded {
    pub page: PageBuf,
    pub source: Source,
}

/// Something that could not be read, with the file it is in.
pub(crate) struct Trouble {
    pub file: &'static str,
    pub what: String,
}

/// See the module.
pub(crate) struct Image {
    pub folder: Folder,
    pub control: Option<Control>,
    pub boot: Option<Boot>,
    pub analysis: Option<Analysis>,
    /// Transactions whose versions do not count.
    pub aborted: TxIdSet,
    pub log: Option<LogFiles>,
    pub double_write: DoubleWriteArea,
    /// Whole pages that the data file has.
    pub file_pages: u64,
    pub version_file: VersionFile,
    /// What was wrong on the way here.
    pub troubles: Vec<Trouble>,
    data: Option<Arc<dyn File>>,
    /// Last log record of pages that the data file may lag behind for.
    pending: HashMap<PageId, Lsn>,
    openings: Openings,
}

impl Image {
    /// Reads control file, double-write area, the log since the last checkpoint, and the
    /// boot page. What cannot be read is noted and done without.
    ///
    /// # Errors
    /// When files are there and the system refuses to open them.
    pub fn open(folder: &Folder) -> Result<Self> {
        let mut troubles = Vec::new();
        let mut trouble = |file, what: String| troubles.push(Trouble { file, what });
        if folder.vfs.exists(&folder.creating())? {
            trouble("creating", "the folder was not completely made; opening it starts over".into());
        }
        let control = match control::read(folder)? {
            None => {
                trouble("control", "it is missing".into());
                None
            }
            Some(copies) => {
                for (i, copy) in copies.iter().enumerate() {
                    if matches!(copy, ControlCopy::Newer(_)) {
                        trouble("control", format!("copy {i}: {copy}"));
                    }
                }
                let best = control::best(&copies);
                if best.is_none() {
                    trouble("control", "neither copy is intact".into());
                }
                best
            }
        };
        let double_write = match DoubleWriteArea::open(folder) {
            Ok(area) => area,
            Err(error) => {
                trouble("doublewrite", error.to_string());
                DoubleWriteArea::default()
            }
        };
        let data = folder.file(&folder.data())?;
        if data.is_none() {
            trouble("data", "it is missing".into());
        }
        let file_pages = data.as_ref().map_or(Ok(0), |file| file.len())? / PAGE_SIZE as u64;
        let (version_file, wrong) = VersionFile::open(folder)?;
        wrong.into_iter().for_each(|what| trouble("version-store", what));
        let log = match LogFiles::open(folder, control.map(|c| c.segment_bytes)) {
            Ok(log) => Some(log),
            Err(what) => {
                trouble("log", what);
                None
            }
        };
        let pending = PendingRedo::default();
        let mut analysis = None;
        if let (Some(control), Some(log)) = (&control, &log) {
            if control.segment_bytes == log.segment_bytes {
                match analyse(&folder.vfs, &folder.log(), control, &pending, |_| {}) {
                    Ok(found) => analysis = Some(found),
                    Err(error) => trouble("log", error.to_string()),
                }
            } else {
                trouble("control", format!("log segments of {} bytes are impossible", control.segment_bytes));
            }
        }
        let aborted = analysis.as_ref().map(|a| a.aborted.clone()).unwrap_or_default();
        let openings = match (&analysis, &control) {
            (Some(found), Some(control)) => Openings::new(&found.openings, control.epoch.max(found.end.epoch)),
            _ => Openings::default(),
        };
        // Without a whole analysis nothing is known to be missing from the data file.
        let pending = match &analysis {
            Some(_) => pending.snapshot().into_iter().map(|(page, entry)| (page, entry.last_lsn)).collect(),
            None => HashMap::new(),
        };
        let mut image = Self {
            folder: folder.clone(),
            control,
            boot: None,
            analysis,
            aborted,
            log,
            double_write,
            file_pages,
            version_file,
            troubles,
            data,
            pending,
            openings,
        };
        if image.data.is_some() {
            match image.page(PageId(0)).map(|loaded| Boot::read(&loaded.page)) {
                Ok(Ok(boot)) => image.boot = Some(boot),
                Ok(Err(error)) => image.troubles.push(Trouble { file: "data", what: format!("boot page: {error}") }),
                Err(what) => image.troubles.push(Trouble { file: "data", what: format!("boot page: {what}") }),
            }
        }
        if let (Ok((page, _)), Some(control)) = (image.raw(PageId(0)), &image.control)
            && page.verify(PageId(0)).is_ok()
            && (1..control.epoch).contains(&page.written_by_epoch())
        {
            let what = "it is an old copy: the database was opened with another one since".into();
            image.troubles.push(Trouble { file: "data", what });
        }
        for what in image.version_file.misfits(image.boot.as_ref(), image.control.as_ref()) {
            image.troubles.push(Trouble { file: "version-store", what });
        }
        Ok(image)
    }

    /// Whether the file of `page` is long enough to have it.
    pub fn reaches(&self, page: PageId) -> bool {
        if page.file() == 0 {
            return page.0 < self.file_pages;
        }
        self.version_file.has(page) && page.in_file() < self.version_file.pages
    }
    /// Which file `page` is in, for people.
    pub fn file_name(page: PageId) -> &'static str {
        if page.file() == 0 { "data" } else { "version store" }
    }

    /// Whether `xid`'s versions do not count. Without analysis nobody's do.
    pub fn is_aborted(&self, xid: TxId) -> bool {
        xid.is_some() && self.aborted.contains(xid)
    }

    /// Last log record of `page` that the data file may lack.
    pub fn pending(&self, page: PageId) -> Option<Lsn> {
        self.pending.get(&page).copied()
    }
    /// Pages that the log has records of.
    pub fn pending_pages(&self) -> impl Iterator<Item = PageId> + '_ {
        self.pending.keys().copied()
    }

    /// The bytes at a page's place in the data file, padded with zeros, and how many of
    /// them are there.
    pub fn raw(&self, id: PageId) -> Result<(PageBuf, usize), String> {
        let mut page = PageBuf::zeroed();
        let file = match &self.data {
            Some(data) if id.file() == 0 => data,
            None if id.file() == 0 => return Err("there is no data file".into()),
            _ if !self.version_file.has(id) => {
                return Err(format!("page {id} is in version-store file number {}, which is not in use", id.file()));
            }
            _ => match self.version_file.file() {
                Some(file) => file,
                None => return Err(format!("page {id} is in the version store, which is missing")),
            },
        };
        let Some(at) = id.in_file().checked_mul(PAGE_SIZE as u64).filter(|at| *at < i64::MAX as u64) else {
            return Err(format!("page {id} is beyond any file"));
        };
        let read = file.read_at(page.as_bytes_mut(), at).map_err(|e| e.to_string())?;
        page.as_bytes_mut()[read..].fill(0);
        Ok((page, read))
    }

    /// Whether it is the boot page as an opening has left it that did not get farther: it says there, before the control file
    /// does, that it uses the data file.
    fn is_of_next_opening(&self, id: PageId, page: &PageBuf) -> bool {
        let next = self.control.as_ref().map(|control| control.epoch + 1);
        id == PageId(0) && page.written_by_opening() == 0 && Some(page.written_by_epoch()) == next
    }

    /// The page before redo: from the data file, or the double-write area if that is better.
    fn base(&self, id: PageId) -> Result<(PageBuf, Source, Option<String>), String> {
        let (mut page, read) = self.raw(id)?;
        let fault = match page.verify(id) {
            Ok(()) if self.is_of_next_opening(id, &page) => None,
            Ok(()) => self.openings.misfit(&page).map(|misfit| misfit.says(&format!("page {id}"))),
            Err(_) if read == 0 => Some(format!("page {id} lies behind the end of the {} file", Self::file_name(id))),
            Err(fault) => Some(fault.to_string()),
        };
        if let Some(mut image) = self.double_write.image(id)
            && (fault.is_some() || page.lsn() < image.lsn())
        {
            image.forget_writer();
            return Ok((image, Source::DoubleWrite, None));
        }
        if fault.is_none() {
            page.forget_writer();
        }
        Ok((page, Source::DataFile, fault))
    }

    /// The page as an open would make it.
    ///
    /// # Errors
    /// In words, why it cannot be had.
    pub fn page(&self, id: PageId) -> Result<Loaded, String> {
        let (page, source, fault) = self.base(id)?;
        let last = self.pending(id).filter(|last| fault.is_some() || page.lsn() < *last);
        match last {
            Some(last) => self.redone(id, page, fault, last),
            None => fault.map_or(Ok(Loaded { page, source }), Err),
        }
    }

    /// `page` with the records of the log behind it up to the one at `last`. What has a `fault` must be made anew by one of them.
    ///
    /// # Errors
    /// In words, why it cannot be had.
    pub fn redone(&self, id: PageId, mut page: PageBuf, fault: Option<String>, last: Lsn) -> Result<Loaded, String> {
        let Some(log) = &self.log else { return Err("there is no log".into()) };
        let base_lsn = if fault.is_none() { page.lsn() } else { Lsn::NONE };
        // Positions only: the bodies are read again, from the block cache, to be applied.
        let mut chain = Vec::new();
        let mut lsn = last;
        let mut whole = false;
        let mut before = Lsn::NONE;
        while lsn > base_lsn {
            let needs = |what: String| format!("page {id} needs the log record at LSN {lsn} to be current: {what}");
            let (block, offset) = log.block_of(lsn).map_err(needs)?;
            let record = block.record(offset).map_err(needs)?;
            let previous = record.header.prev_page;
            if record.header.page != id || previous >= lsn {
                return Err(needs("it does not belong to the page's chain".into()));
            }
            chain.push(lsn);
            before = previous;
            whole = matches!(op::decode(record.body).next(), Some(Ok(PageOp::Format { .. } | PageOp::Image(_))));
            if whole || previous.is_none() {
                break;
            }
            lsn = previous;
        }
        if whole {
            page.as_bytes_mut().fill(0);
        } else if let Some(fault) = fault {
            return Err(fault);
        } else if before != base_lsn {
            return Err(format!(
                "page {id} is there as of LSN {base_lsn}, and its log record at LSN {} follows one at LSN {before}: the page \
                 in the file is not of this log",
                chain.last().copied().unwrap_or(last)
            ));
        }
        for lsn in chain.iter().rev() {
            let (block, offset) = log.block_of(*lsn)?;
            op::apply(&mut page, id, block.record(offset)?.body, *lsn).map_err(|e| e.to_string())?;
        }
        Ok(Loaded { page, source: Source::Redone(chain.len()) })
    }
}
