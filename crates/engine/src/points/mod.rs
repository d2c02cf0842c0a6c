//! Points in time and clones: a new folder with the database as it was, made of an archive of its log (and a backup).
//!
//! | file | concept |
//! |---|---|
//! | `time.rs` | points as people write them |
//! | `cut.rs` | where a point cuts the log, found in the transaction stream |
//! | `stream.rs` | analysis of the stream up to the cut |
//! | `leases.rs` | what is made so is kept, in the archives of all that it is made of |
//! | `folder.rs` | the new folder: its log begins above the cut, with a checkpoint of what analysis found |
//! | `marker.rs` | that it is being made, and what an attempt leaves outside of it |
//! | `undo.rs`, `links.rs` | what is to be undone, in the new log; where its links are meanwhile |
//! | `promised.rs` | the oldest point that a recovery window promises; which points there are |
//! | `pages.rs` | the single pass over all pages |
//! | `lsn_order.rs` | the same pages in the order of ARIES, which the single pass is measured against |
//! | `tail.rs` | the end of a dead database's log, archived before |
//! | `archived.rs` | the same pages for who compares them, or makes a backup of them |
//!
//! # Invariants
//! 1. The cut is the end of a group; a page is made of its records below it, a transaction is what those say.
//! 2. The new database has an id of its own and names its parent and the cut. Its log begins above the cut, under an epoch
//!    above every one in the archive; of the parent's archive nothing at or behind the cut is ever read for it.
//! 3. The parent is not touched, but for a lease in the store of its archive, and its log's end that was not archived.

mod archived;
mod cut;
mod folder;
mod leases;
mod links;
mod lsn_order;
mod marker;
mod pages;
mod promised;
mod stream;
mod tail;
mod time;
mod undo;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use resurgam_archive::{Archive, Backup, Lease, LeaseKind, PageBase, PageMaker, ParentBase, ParentRecord, View};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result};
use resurgam_page::PageBuf;
use resurgam_recovery::Analysis;
use resurgam_vfs::Vfs;
use resurgam_xstore::{Access, Place, Store};

use crate::options::StoreHandle;
use crate::restore::{CHAIN_MAX, Origin, OriginKind, base_by_parents, parent_record, too_many};
pub use archived::ArchivedPages;
use folder::{Content, NewFolder};
use leases::give_back;
pub(crate) use leases::{
    Layer, archive_there, end_folder_lease, end_lease, forget, layers_behind, lease_name, make_leases,
};
pub use lsn_order::LsnOrder;
pub(crate) use marker::RESTORING;
pub(crate) use promised::{Promised, ends, last_commit_us, oldest_promised};
pub(crate) use time::show_time;

/// Most bytes of a segment of a clone's log: three of them are there when it is open.
const CLONE_SEGMENT_BYTES: u64 = 4 << 20;
/// How often something is tried again whose runs a merge has replaced meanwhile.
const TRIES: u32 = 5;

/// A point in the history of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RestorePoint {
    /// The end of the archive.
    Latest,
    /// The last end of a group at or before that log position.
    Lsn(Lsn),
    /// The last commit before the first one that is later than this, in microseconds since 2000-01-01 UTC.
    Time(i64),
}

/// Bugs that tests plant, and that must be caught.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedInRestore {
    /// The cut is there, whatever that is.
    CutAt(Lsn),
    /// What was unfinished is not aborted.
    UnfinishedCommitted,
    /// Ids of transactions are given out again.
    NextIdLow,
    /// The log's epoch is the parent's first.
    EpochNotRaised,
}

/// What is to be made.
#[derive(Clone, Debug)]
pub struct RestoreRequest {
    /// URL of the archive: an absolute path, or `file://` and one. (Where the folder is whole at once, a path may be relative to
    /// the working directory.)
    pub archive: String,
    /// URL of the backups; none: the archive alone must have every page from its beginning on.
    pub backups: Option<String>,
    /// Name of the backup; none: the newest that fits.
    pub backup: Option<String>,
    pub to: RestorePoint,
    /// The new folder: empty or missing.
    pub target: PathBuf,
    /// Write all pages now: the folder needs neither archive nor backup afterwards. Otherwise pages are restored when they are
    /// asked for.
    pub whole: bool,
    /// A clone: its pages are restored only when they are asked for, and its lease is kept until it is given back. Otherwise the
    /// rest comes in the background.
    pub clone: bool,
    /// The folder of the dead database's log: what of it is not archived yet is archived first.
    pub log_dir: Option<PathBuf>,
    /// Where the version-store file is to be, if the database has one; relative to the target.
    pub version_store_path: Option<PathBuf>,
    /// Name of the lease; none: one is made up.
    pub lease: Option<String>,
    /// Where all pages are written now: in the order of ARIES. For measurements.
    #[doc(hidden)]
    pub lsn_order: Option<LsnOrder>,
    /// What stands in for the places, for tests.
    #[doc(hidden)]
    pub archive_store: Option<StoreHandle>,
    #[doc(hidden)]
    pub backup_store: Option<StoreHandle>,
    #[doc(hidden)]
    pub planted: Option<PlantedInRestore>,
}

impl RestoreRequest {
    /// A restore of an archive to a folder, in one pass, of the latest point.
    pub fn new(archive: impl Into<String>, target: impl Into<PathBuf>) -> Self {
        Self {
            archive: archive.into(),
            backups: None,
            backup: None,
            to: RestorePoint::Latest,
            target: target.into(),
            whole: true,
            clone: false,
            log_dir: None,
            version_store_path: None,
            lease: None,
            lsn_order: None,
            archive_store: None,
            backup_store: None,
            planted: None,
        }
    }
}

/// What a restore does, for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RestoreStep {
    /// So many bytes of the dead database's log were archived.
    LogArchived(u64),
    /// The point was found: the cut, and the checkpoint that analysis begins with.
    Found { cut: Lsn, checkpoint: Lsn },
    /// Transactions are known.
    Analysed { records: u64 },
    /// Pages done, of so many.
    Pages { done: u64, of: u64 },
}

/// What was made.
#[derive(Clone, Debug)]
pub struct RestoredPoint {
    /// Everything below it is in.
    pub cut: Lsn,
    /// The time of the last commit before it, in microseconds since 2000-01-01; none if none was near.
    pub last_commit_us: Option<i64>,
    /// The checkpoint that analysis began with, and how many records it took in.
    pub checkpoint: Lsn,
    pub records: u64,
    /// Transactions that were active at the cut: they are rolled back.
    pub unfinished: u64,
    /// Of those, such as are undone from the log when it is opened (traditional mode).
    pub to_undo: u64,
    /// Identifiers of the prepared ones: they wait for their decision.
    pub in_doubt: Vec<String>,
    /// Pages of the data file, and of the version-store file.
    pub data_pages: u64,
    pub version_pages: u64,
    /// Pages that were written; 0 where they are restored on demand.
    pub pages_written: u64,
    /// Pages that were damaged in the backup, and are as they were there.
    pub pages_damaged: u64,
    /// The backup that was used.
    pub backup: Option<String>,
    /// The lease in the archive's store, if there is one.
    pub lease: Option<String>,
    /// Databases whose archives were read: the one that was named, and those that it was made of.
    pub databases: usize,
    /// Where the new log begins, and under which epoch.
    pub log_from: Lsn,
}

impl RestoredPoint {
    /// The time of the last commit, as text.
    pub fn last_commit(&self) -> Option<String> {
        self.last_commit_us.map(show_time)
    }
}

fn store_of(vfs: &Arc<dyn Vfs>, url: &str, given: Option<&StoreHandle>) -> Result<Arc<dyn Store>> {
    if let Some(StoreHandle(store)) = given {
        return Ok(Arc::clone(store));
    }
    Ok(Place::of(Path::new(""), url)?.open(vfs, Access::Existing)?)
}

/// A view of the archive. Merges of a running server replace runs: whoever meets one that is gone looks again.
struct Views {
    store: Arc<dyn Store>,
    place: String,
    view: Arc<View>,
}

impl Views {
    fn open(store: Arc<dyn Store>) -> Result<Self> {
        let place = store.place();
        let view = Archive::open_view(Arc::clone(&store), None)?.ok_or_else(|| {
            Error::new(ErrorKind::NotADatabase, format!("there is no archive in {place}: no manifest was found"))
                .with_hint("Name the place that the server was given as its archive.")
        })?;
        Ok(Self { store, place, view })
    }

    fn with<T>(&mut self, mut what: impl FnMut(&Arc<View>) -> Result<T>) -> Result<T> {
        let mut tries = 0;
        loop {
            match what(&self.view) {
                Err(error) if error.kind() == ErrorKind::Io && tries < TRIES => {
                    if !self.look_again()? {
                        return Err(error);
                    }
                    tries += 1;
                }
                done => return done,
            }
        }
    }

    /// Takes the newest view there is. False: it is the one that was there already.
    fn look_again(&mut self) -> Result<bool> {
        let database = self.view.manifest().database;
        let view = Archive::open_view(Arc::clone(&self.store), Some(database))?;
        let view = view.ok_or_else(|| {
            Error::new(ErrorKind::NotADatabase, format!("there is no archive in {} any more", self.place))
        })?;
        let is_newer = view.manifest().number != self.view.manifest().number;
        if is_newer {
            self.view = view;
        }
        Ok(is_newer)
    }
}

/// Makes the pages of a single pass, on several threads. Runs that are read may be gone: a server has merged them meanwhile. Who
/// meets that looks again, for all.
struct Making<'a> {
    vfs: &'a Arc<dyn Vfs>,
    views: Mutex<(&'a mut Views, &'a mut PageBase)>,
    as_of: Lsn,
}

impl Making<'_> {
    fn make(&self, first: PageId, pages: &mut [PageBuf]) -> Result<(u64, u64)> {
        let mut tries = 0;
        loop {
            // Pages are made without the lock.
            let (view, base) = {
                let now = self.views.lock();
                (Arc::clone(&now.0.view), now.1.clone())
            };
            let made = PageMaker::new(base, Arc::clone(&view), self.as_of).and_then(|maker| maker.make(first, pages));
            let error = match made {
                Ok(made) => return Ok((made.made, made.damaged)),
                Err(error) if error.kind() == ErrorKind::Io && tries < TRIES => error,
                Err(error) => return Err(error),
            };
            tries += 1;
            let mut now = self.views.lock();
            let (views, base) = &mut *now;
            // Another thread has looked.
            if !Arc::ptr_eq(&views.view, &view) {
                continue;
            }
            let is_newer = views.look_again()?;
            if base.parent().is_some() {
                // Runs of a parent, whose server merges.
                let store = Arc::clone(&views.store);
                **base = base_by_parents(self.vfs, &*store, &views.view)?.ok_or(error)?;
            } else if !is_newer {
                return Err(error);
            }
        }
    }
}

/// Makes a database as of a point in a new folder. See the module.
///
/// # Errors
/// `NotInPrerequisiteState` for a point that archive and backups do not have; `NotADatabase` for places of other databases;
/// `NewerFormat`; `Corrupt`, naming object and place; `InvalidParameter` for a folder that is not empty; `DiskFull`; `Io`.
pub fn restore_point(
    vfs: &Arc<dyn Vfs>,
    request: &RestoreRequest,
    progress: &mut dyn FnMut(RestoreStep),
) -> Result<RestoredPoint> {
    let store = store_of(vfs, &request.archive, request.archive_store.as_ref())?;
    let mut views = Views::open(Arc::clone(&store))?;
    let database = views.view.manifest().database;
    if let Some(log_dir) = &request.log_dir {
        let bytes = tail::archive_the_tail(vfs, &store, &views.view, log_dir)?;
        progress(RestoreStep::LogArchived(bytes));
        views = Views::open(Arc::clone(&store))?;
    }
    let mut cut =
        views.with(|view| cut::find(view, request.to)).map_err(|error| match ParentRecord::read(&*store) {
            Ok(Some(record)) if error.kind() == ErrorKind::NotInPrerequisiteState => error.with_hint(format!(
                "What was before LSN {} is in the archive of the database that this one was made of, \"{}\".",
                record.cut, record.archive
            )),
            _ => error,
        })?;
    if let Some(PlantedInRestore::CutAt(lsn)) = request.planted {
        cut.lsn = lsn;
    }
    progress(RestoreStep::Found { cut: cut.lsn, checkpoint: cut.checkpoint });
    let backup = backup_for(vfs, request, &views.view, cut.lsn)?;
    let mut id = [0u8; 16];
    id[..8].copy_from_slice(&vfs.random_u64().to_le_bytes());
    id[8..].copy_from_slice(&vfs.random_u64().to_le_bytes());
    if let Some(name) = request.lease.as_ref().filter(|_| !request.whole) {
        Lease::check_name(&*store, name)?;
    }
    let backup_store = match (&request.backups, &backup) {
        (Some(url), Some(_)) => Some(store_of(vfs, url, request.backup_store.as_ref())?),
        _ => None,
    };
    let named = backup.as_ref().map(|backup| backup.summary().name.clone());
    let mut layers =
        vec![Layer::first(Arc::clone(&store), database, views.view.start(), cut.lsn, named.zip(backup_store))];
    // Where its archive begins at the cut at which it was made of another one, and there is no backup since.
    let record = if backup.is_none() { parent_record(&*store, &views.view)? } else { None };
    if let Some(record) = &record {
        layers.extend(layers_behind(vfs, record, false)?);
        // The new one is one more.
        if layers.len() > CHAIN_MAX && !request.whole {
            return Err(too_many());
        }
    }
    let leasing = Leasing { vfs, layers };
    let mut making = match leasing.make(LeaseKind::Making, &lease_name(LeaseKind::Making, &id)) {
        Ok(lease) => Some(lease),
        // It only reads, and perhaps may only read; if what it needs is given up meanwhile, that is an error.
        Err(error) if request.whole => {
            tracing::warn!("the restore goes on without a lease: {error}");
            None
        }
        Err(error) => return Err(error),
    };
    let made = (|| -> Result<RestoredPoint> {
        let mut analysis = views.with(|view| stream::analyse(view, &cut))?;
        match request.planted {
            Some(PlantedInRestore::UnfinishedCommitted) => analysis.aborted = Default::default(),
            Some(PlantedInRestore::NextIdLow) => analysis.next_id = resurgam_base::TxId(1),
            Some(PlantedInRestore::EpochNotRaised) => {
                analysis.end.epoch = 0;
                if let Some(identity) = &mut analysis.identity {
                    identity.epoch = 0;
                }
            }
            Some(PlantedInRestore::CutAt(_)) | None => {}
        }
        progress(RestoreStep::Analysed { records: analysis.records });
        if !promised::not_undone(&views.view, &analysis).is_empty() {
            let what = format!("what undoes transactions that were unfinished at LSN {} was given up", cut.lsn);
            return Err(cut::outside(&views.view, &what));
        }
        let base = base_of(vfs, &store, &views.view, &analysis, backup.clone(), record.as_ref())?;
        // The folder is a database from its end on, and then it has its own lease.
        let finish = || match request.whole {
            true => Ok(None),
            false => {
                let kind = if request.clone { LeaseKind::Clone } else { LeaseKind::Restore };
                let name = request.lease.clone().unwrap_or_else(|| lease_name(kind, &id));
                leasing.make(kind, &name).map(|lease| Some(lease.name))
            }
        };
        let mut tell = |step| {
            progress(step);
            renew(&leasing, &mut making);
        };
        let databases = leasing.layers.len();
        make(vfs, request, &mut views, id, &cut, &analysis, &base, &mut tell, &finish)
            .map(|made| RestoredPoint { databases, ..made })
    })();
    if let Some(lease) = &making {
        // It is in the way of nothing but of the room that it keeps, and counts for two days.
        let _ = give_back(&leasing.layers, &lease.name);
    }
    made
}

/// What takes long makes a new lease in time.
fn renew(leasing: &Leasing<'_>, making: &mut Option<Lease>) {
    let Some(lease) = making.as_mut().filter(|lease| lease.is_old(leasing.vfs.wall_clock_us())) else { return };
    match leasing.make(LeaseKind::Making, &format!("{}-", lease.name)) {
        Ok(next) => {
            let old = std::mem::replace(lease, next);
            let _ = give_back(&leasing.layers, &old.name);
        }
        Err(error) => tracing::warn!("the lease of the folder that is being made could not be renewed: {error}"),
    }
}

/// The backup whose images pages are made of.
fn backup_for(vfs: &Arc<dyn Vfs>, request: &RestoreRequest, view: &View, cut: Lsn) -> Result<Option<Arc<Backup>>> {
    let Some(url) = &request.backups else { return Ok(None) };
    let store = store_of(vfs, url, request.backup_store.as_ref())?;
    match &request.backup {
        Some(name) => Backup::open(&store, name).map(Some),
        // One that needs log from before the archive is of no use.
        None => Backup::newest(&store, view.manifest().database, view.start(), cut),
    }
}

/// What pages are made of: a backup, the archive alone, or, where its record names that, the pages of the database that this one was made of.
fn base_of(
    vfs: &Arc<dyn Vfs>,
    store: &Arc<dyn Store>,
    view: &View,
    analysis: &Analysis,
    backup: Option<Arc<Backup>>,
    record: Option<&ParentRecord>,
) -> Result<PageBase> {
    let identity = analysis.identity.as_ref();
    if let Some(record) = record {
        let parent = identity.and_then(|identity| identity.parent);
        if parent.is_none_or(|parent| (parent.database_id, parent.cut) != (record.parent, record.cut)) {
            return Err(Error::corrupt(format!(
                "the record of the parent in {} names another database, or another cut, than the database's own log",
                store.place()
            ))
            .with_hint("Name the place of a backup of this database with --backups."));
        }
        if let Some(base) = base_by_parents(vfs, &**store, view)? {
            return Ok(base);
        }
    }
    let first = identity.map_or(Lsn::NONE, |identity| Lsn(identity.segment_bytes));
    PageBase::new(backup, view, first).map_err(|error| {
        let hint = "Name the place of a backup that ends before the point with --backups.";
        match identity.and_then(|identity| identity.parent) {
            Some(parent) if view.start().0 <= parent.cut.0.next_multiple_of(first.0.max(1)) => error.with_hint(format!(
                "{hint} The database was made of another one at LSN {}, and its archive does not say where that one's is (the object \
                 \"parent/record\" is not there).",
                parent.cut
            )),
            _ => error.with_hint(hint),
        }
    })
}

/// Leases for as long as the archives and backups of all layers are read.
struct Leasing<'a> {
    vfs: &'a Arc<dyn Vfs>,
    layers: Vec<Layer>,
}

impl Leasing<'_> {
    fn make(&self, kind: LeaseKind, name: &str) -> Result<Lease> {
        make_leases(&self.layers, kind, name, self.vfs.wall_clock_us())
    }
}

#[allow(clippy::too_many_arguments)]
fn make(
    vfs: &Arc<dyn Vfs>,
    request: &RestoreRequest,
    views: &mut Views,
    id: [u8; 16],
    cut: &cut::Cut,
    analysis: &Analysis,
    base: &PageBase,
    progress: &mut dyn FnMut(RestoreStep),
    finish: &dyn Fn() -> Result<Option<String>>,
) -> Result<RestoredPoint> {
    let mut base = base.clone();
    let (database, backup) = (views.view.manifest().database, base.backup().cloned());
    let target = request.target.as_path();
    let version_store_path = request.version_store_path.as_deref();
    let as_of = Lsn(cut.lsn.0 - 1);
    // Before anything is made.
    views.with(|view| PageMaker::new(base.clone(), Arc::clone(view), as_of).map(drop))?;
    let segment_bytes = analysis.identity.as_ref().map_or(1, |identity| identity.segment_bytes).max(1);
    let segment_bytes = if request.clone { segment_bytes.min(CLONE_SEGMENT_BYTES) } else { segment_bytes };
    let record = record_of(request, &views.view, &base, &id, cut.lsn, segment_bytes, vfs.wall_clock_us());
    let folder = views.with(|view| {
        let content = Content {
            analysis,
            view,
            cut: cut.lsn,
            database_id: id,
            parent: database,
            segment_bytes,
            version_store_path,
            record: record.as_ref(),
            takes_room: request.whole || !request.clone,
        };
        NewFolder::begin(vfs, target, &content)
    })?;
    let version = folder.version.clone();
    let version_pages = match &version {
        Some((number, _)) if analysis.version_high_water.file() == u64::from(*number) => {
            analysis.version_high_water.in_file()
        }
        _ => 0,
    };
    let of = analysis.high_water + version_pages;
    let mut written = pages::Written::default();
    if let Some(order) = request.lsn_order.as_ref().filter(|_| request.whole) {
        let mut files = vec![(0, analysis.high_water, Arc::clone(&folder.data))];
        files.extend(version.map(|(number, file)| (u64::from(number), version_pages, file)));
        let log = lsn_order::Log { segment_bytes, begin: views.view.start(), cut: cut.lsn };
        let mut done = 0;
        written = lsn_order::write_all(vfs, order, &log, &base, &files, &mut |pages| {
            done += pages;
            progress(RestoreStep::Pages { done, of });
        })?;
    } else if request.whole {
        let mut done = 0;
        let making = Making { vfs, views: Mutex::new((views, &mut base)), as_of };
        let make = |first: PageId, pages: &mut [PageBuf]| making.make(first, pages);
        let mut files = vec![(0, analysis.high_water, Arc::clone(&folder.data))];
        files.extend(version.map(|(number, file)| (u64::from(number), version_pages, file)));
        for (number, count, file) in files {
            let of_file = pages::write_all(&file, number, count, pages::threads(), &make, &mut |pages| {
                done += pages;
                progress(RestoreStep::Pages { done, of });
            })?;
            written.pages += of_file.pages;
            written.damaged += of_file.damaged;
        }
    } else {
        let origin = Origin {
            kind: if request.clone { OriginKind::Clone } else { OriginKind::Point },
            database_id: database,
            archive: request.archive.clone(),
            backups: request.backups.clone().filter(|_| backup.is_some()),
            backup: backup.as_ref().map(|backup| backup.summary().name.clone()),
            as_of: Some(as_of),
            layered: base.parent().is_some(),
            archive_from: Some(views.view.start()),
            data_pages: analysis.high_water,
            version_pages: folder.version.as_ref().map(|(number, _)| (*number, version_pages)),
            background: !request.clone,
            parent: None,
        };
        origin.write(vfs, target)?;
    }
    let lease = finish()?;
    // Where this fails the folder may be a database all the same, and needs it.
    folder.finish()?;
    Ok(RestoredPoint {
        cut: cut.lsn,
        last_commit_us: cut.last_commit_us,
        checkpoint: cut.checkpoint,
        records: analysis.records,
        unfinished: analysis.cut_off,
        to_undo: analysis.losers.len() as u64,
        in_doubt: analysis.prepared.iter().map(|tx| tx.head.gid.clone()).collect(),
        data_pages: analysis.high_water,
        version_pages,
        pages_written: written.pages,
        pages_damaged: written.damaged,
        backup: backup.map(|backup| backup.summary().name.clone()),
        lease,
        databases: 1,
        log_from: Lsn(cut.lsn.0.div_ceil(segment_bytes) * segment_bytes),
    })
}

/// What the new database's folder, and later its archive, say of this one; `None` where a place is named in a way that means something else elsewhere.
fn record_of(
    request: &RestoreRequest,
    view: &View,
    base: &PageBase,
    id: &[u8; 16],
    cut: Lsn,
    segment_bytes: u64,
    made_us: i64,
) -> Option<ParentRecord> {
    let is_full = |url: &&String| url.contains("://") || Path::new(url.as_str()).is_absolute();
    let base = match (base.backup(), base.parent()) {
        (Some(backup), _) => {
            let url = request.backups.as_ref().filter(is_full)?.clone();
            ParentBase::Backup { url, name: backup.summary().name.clone() }
        }
        (None, Some(_)) => ParentBase::Parent,
        (None, None) => ParentBase::Archive,
    };
    Some(ParentRecord {
        database: *id,
        parent: view.manifest().database,
        cut,
        first: Lsn(cut.0.div_ceil(segment_bytes) * segment_bytes),
        archive_from: view.start(),
        made_us,
        archive: Some(&request.archive).filter(is_full)?.clone(),
        base,
    })
}

/// What analysis of the archive up to `lsn` finds, and where it began: for tests.
#[doc(hidden)]
pub fn analyse_archive(view: &Arc<View>, lsn: Lsn) -> Result<(Lsn, Lsn, Analysis)> {
    let cut = cut::find(view, RestorePoint::Lsn(lsn))?;
    Ok((cut.lsn, cut.checkpoint, stream::analyse(view, &cut)?))
}

/// Gives a lease back, and those that belong to it in the archives of the databases that the archive's own was made of: what was kept for that
/// clone, restore or archive is no longer needed. False: there is none of that name.
///
/// # Errors
/// Those of the archives' stores.
pub fn forget_lease(vfs: &Arc<dyn Vfs>, archive: &str, name: &str) -> Result<bool> {
    forget(vfs, &store_of(vfs, archive, None)?, name)
}
