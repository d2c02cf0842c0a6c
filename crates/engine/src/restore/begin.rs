//! What an open does about files that are missing or were not restored to the end.
//!
//! | found | done |
//! |---|---|
//! | no data file, no archive | refused, saying what would have made it possible |
//! | no data file, an archive | `restore` is written, then a sparse data file with the boot page of the last checkpoint |
//! | the version-store file is missing, an archive | the same for that file |
//! | a data folder that is empty, the log in a folder of its own, an archive | first the control file, from its copy there |
//! | `restore` | what it says goes on |
//!
//! # Order
//! The archive is looked at before anything is made. `restore` is durable before a sparse file has its name. A crash at
//! any step leaves what the next open begins anew or goes on with.

use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{Archive, PageBase, PageMaker, View};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_log::segment_number_of;
use resurgam_page::boot::{self, Boot};
use resurgam_page::version_file::{self, VersionFileHeader};
use resurgam_recovery::{Control, ControlFile, LogOwner, VersionRecord};
use resurgam_vfs::{OpenMode, Vfs, replace_by};
use resurgam_xstore::{Access, Place, Store};

use super::marks::Marks;
use super::origin::Origin;
use super::parent::ParentSource;
use crate::backup_places::Backups;
use crate::options::{Options, StoreHandle};

/// Name of the copy of the control file in a log folder of its own.
pub(crate) const CONTROL_COPY: &str = "control";

/// That the data file is missing, without an archive.
pub(crate) fn data_is_missing(data: &Path) -> Error {
    Error::corrupt(format!("the data file, \"{}\", is missing", data.display())).with_hint(
        "Put it back if it was moved away; otherwise restore the data folder from a backup. With an archive of the log that \
         was begun with the database, or backups and an archive, it would be made again by itself: see docs/restore.md.",
    )
}

/// Makes the control file of an empty data folder from its copy in the log's folder. False: that holds no log.
///
/// # Errors
/// That there is a log, and nothing to make its database from again; those of reading and writing.
pub(crate) fn control_from_log_folder(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    control: &Path,
    options: &Options,
) -> Result<bool> {
    let Some(place) = &options.log_dir else { return Ok(false) };
    let folder = dir.join(place);
    let is_there = vfs.exists(&folder)?
        && LogOwner::read(vfs, &folder)?.is_some()
        && vfs.list(&folder)?.iter().any(|name| name.ends_with(".log"));
    if !is_there {
        return Ok(false);
    }
    let refused = |why: &str, hint: &str| {
        let what = format!(
            "the data folder \"{}\" is empty, and the folder for the log, \"{}\", is not empty: it holds the log of a database{why}",
            dir.display(),
            folder.display()
        );
        Err(Error::new(ErrorKind::InvalidParameter, what).with_hint(hint.to_owned()))
    };
    if options.archive.is_none() {
        return refused(
            "",
            "Mount the data folder's disk or put the folder back. If it is lost, give the database's archive, from which \
             it is restored. A new database needs an empty or new folder for its log.",
        );
    }
    let copy = folder.join(CONTROL_COPY);
    if !vfs.exists(&copy)? {
        return refused(
            ", without a copy of its control file",
            "The database was last opened by an older version; put its data folder back.",
        );
    }
    let (_, known) = ControlFile::open(vfs, &copy, true)?;
    let beside = control.with_extension("new");
    if vfs.exists(&beside)? {
        vfs.remove(&beside)?;
    }
    ControlFile::create(vfs, &beside, Control { clean: false, ..known })?;
    vfs.rename(&beside, control)?;
    vfs.sync_dir(dir)?;
    tracing::warn!(
        "the data folder \"{}\" is empty: it is made again for the database whose log is in \"{}\"",
        dir.display(),
        folder.display()
    );
    Ok(true)
}

/// Where the pages of a restore come from.
#[derive(Clone)]
pub(crate) struct Material {
    pub view: Option<Arc<View>>,
    pub base: PageBase,
}

impl Material {
    /// Makes pages as of there; `None`: nothing was archived yet, and no page is older than the log.
    ///
    /// # Errors
    /// That backup and archive do not allow it.
    pub fn maker(&self, as_of: Lsn) -> Result<Option<Arc<PageMaker>>> {
        match &self.view {
            Some(view) => PageMaker::new(self.base.clone(), Arc::clone(view), as_of).map(Arc::new).map(Some),
            None => Ok(self.base.parent().cloned()),
        }
    }
}

/// Opens the store of a URL.
pub(crate) fn store_at(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    url: &str,
    given: Option<&StoreHandle>,
) -> Result<Arc<dyn Store>> {
    Ok(match given {
        Some(StoreHandle(store)) => Arc::clone(store),
        None => Place::of(dir, url)?.open(vfs, Access::Write)?,
    })
}

/// What there is to restore from, with `view` of the archive: refused unless it reaches back to where every page was made, or to where
/// the database was made of `parent`, from which pages still come.
///
/// # Errors
/// `NotInPrerequisiteState`, with the positions; those of the stores.
pub(crate) fn material(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    options: &Options,
    database_id: [u8; 16],
    view: Option<Arc<View>>,
    segment_bytes: u64,
    log_begins: bool,
    parent: Option<&ParentSource>,
) -> Result<Material> {
    let view = view.filter(|view| view.end() > view.start());
    let refused = |error: Error| match error.kind() {
        ErrorKind::NotInPrerequisiteState => {
            Error::new(error.kind(), format!("the data cannot be restored: {}", error.message()))
                .with_hint("Give the right archive, or the place of the backups as well.")
        }
        _ => error,
    };
    let base = match &view {
        Some(view) => {
            let backups = Backups::of(vfs, dir, options, database_id)?.map(|backups| backups.store()).transpose()?;
            match (PageBase::newest(backups.as_ref(), view, view.end(), Lsn(segment_bytes)), parent) {
                (Err(error), Some(parent)) if error.kind() == ErrorKind::NotInPrerequisiteState => {
                    let first = parent.log_begins(segment_bytes);
                    PageBase::of_parent(parent.maker(vfs, dir, database_id)?, Some(view), first).map_err(refused)?
                }
                (base, _) => base.map_err(refused)?,
            }
        }
        None if log_begins && let Some(parent) = parent => {
            PageBase::of_parent(parent.maker(vfs, dir, database_id)?, None, Lsn::NONE).map_err(refused)?
        }
        // No page is older than the log.
        None if log_begins => PageBase::unchecked(None),
        None => {
            let what = "the archive is empty, and the log does not reach back to where the database was made";
            return Err(refused(Error::new(ErrorKind::NotInPrerequisiteState, what)));
        }
    };
    Ok(Material { view, base })
}

/// Whether the log's folder still has its first segment: another one than the very first, where the database was made of `parent`.
pub(crate) fn log_begins(
    vfs: &Arc<dyn Vfs>,
    log: &Path,
    segment_bytes: u64,
    parent: Option<&ParentSource>,
) -> Result<bool> {
    let first = parent.map_or(1, |parent| parent.log_begins(segment_bytes).0 / segment_bytes.max(1));
    Ok(vfs.list(log)?.iter().any(|name| segment_number_of(name) == Some(first)))
}

/// What an open knows when it makes missing files.
pub(crate) struct Missing<'a> {
    pub vfs: &'a Arc<dyn Vfs>,
    pub dir: &'a Path,
    pub data: &'a Path,
    pub double_write: &'a Path,
    pub log: &'a Path,
    pub options: &'a Options,
    pub boot: &'a Boot,
    pub control: &'a Control,
    pub high_water: u64,
    pub version_high_water: PageId,
    /// What the last checkpoint says of the version store.
    pub version_store: Option<&'a VersionRecord>,
    /// The database that this one was made of, where nothing says that pages are still to come from there.
    pub made_of: Option<ParentSource>,
}

impl Missing<'_> {
    /// Makes what is missing, and returns what is restored then.
    ///
    /// # Errors
    /// Those of the module's head.
    pub fn make(&self, mut origin: Option<Origin>) -> Result<Option<Origin>> {
        let data = !self.vfs.exists(self.data)?;
        let version = self.missing_version_file()?;
        if !data && version.is_none() {
            return Ok(origin);
        }
        let Some(archive) = &self.options.archive else {
            // The version store: its own error says what to do.
            return if data { Err(data_is_missing(self.data)) } else { Ok(origin) };
        };
        let parent = origin.as_ref().and_then(ParentSource::of).or_else(|| self.made_of.clone());
        let segment_bytes = self.control.segment_bytes;
        // Looked at before anything is made.
        let store = store_at(self.vfs, self.dir, archive, self.options.archive_store.as_ref())?;
        let view = Archive::open_view(store, Some(self.boot.database_id))?;
        let begins = log_begins(self.vfs, self.log, segment_bytes, parent.as_ref())?;
        let id = self.boot.database_id;
        let found = material(self.vfs, self.dir, self.options, id, view, segment_bytes, begins, parent.as_ref())?;
        let parent = parent.filter(|_| found.base.parent().is_some());

        // Those of a folder that was made of another database go by that one's.
        let marked_by = origin.as_ref().map_or(id, |origin| origin.database_id);
        let mut marks = Marks::read(self.vfs, self.dir, marked_by).unwrap_or_default();
        marks.database_id = id;
        let made_anew = |file: u64| (file == 0 && data) || version.as_ref().is_some_and(|(n, _)| u64::from(*n) == file);
        marks.segments.retain(|segment| !made_anew(segment.file));
        let mut next = Origin::media(origin.take(), id, archive.clone(), self.options.backups.clone(), parent);
        if data {
            next.data_pages = self.high_water.max(1);
        }
        if let Some((number, _)) = &version {
            next.version_pages = Some((*number, self.version_high_water.in_file().max(1)));
        }
        next.write_with(&marks, marked_by != id, self.vfs, self.dir)?;
        if data {
            // It protected writes to a file that is gone.
            let side = self.vfs.open(self.double_write, OpenMode::Create)?;
            side.set_len(0)?;
            side.sync()?;
            let page = boot::page(self.boot, self.control.checkpoint)?;
            make_file(self.vfs, self.data, page.as_bytes())?;
            tracing::warn!(
                "the data file \"{}\" is missing: it is restored as its pages are asked for",
                self.data.display()
            );
        }
        if let Some((number, path)) = version {
            make_version_file(self.vfs, &path, number, id, self.control.epoch)?;
            VersionRecord { number, path: Some(self.noted(&path)) }.write(self.vfs, self.dir)?;
            tracing::warn!(
                "the version store \"{}\" is missing: it is restored as its pages are asked for",
                path.display()
            );
        }
        Ok(Some(next))
    }

    /// As it is noted: relative to the data folder where it is there.
    fn noted(&self, path: &Path) -> std::path::PathBuf {
        path.strip_prefix(self.dir).unwrap_or(path).to_path_buf()
    }

    /// Number and place of the version-store file, where one is in use and is at none of its places.
    fn missing_version_file(&self) -> Result<Option<(u32, std::path::PathBuf)>> {
        let logged = u32::try_from(self.version_high_water.file()).unwrap_or(0);
        let noted = VersionRecord::read(self.vfs, self.dir).unwrap_or_default();
        let known = noted.as_ref().or(self.version_store);
        // Given up already, or never there.
        let (number, recorded) = match known {
            Some(VersionRecord { number, path: Some(path) }) => ((*number).max(logged), Some(path.clone())),
            Some(VersionRecord { path: None, .. }) => return Ok(None),
            None if logged > 0 => (logged, None),
            None => return Ok(None),
        };
        let asked = self.options.version_store_path.clone();
        for path in asked.iter().chain(&recorded) {
            if self.vfs.exists(&self.dir.join(path))? {
                return Ok(None);
            }
        }
        Ok(asked.or(recorded).map(|path| (number, self.dir.join(path))))
    }
}

/// A file that begins with `head`, beside its place, synced and renamed.
pub(crate) fn make_file(vfs: &Arc<dyn Vfs>, path: &Path, head: &[u8]) -> Result<()> {
    replace_by(&**vfs, path, ".resurgam-new", head)
}

/// A version-store file with nothing but its header.
pub(crate) fn make_version_file(
    vfs: &Arc<dyn Vfs>,
    path: &Path,
    number: u32,
    database_id: [u8; 16],
    epoch: u32,
) -> Result<()> {
    let header = VersionFileHeader { number, database_id, created_us: vfs.wall_clock_us(), epoch };
    let mut page = vec![0; PAGE_SIZE];
    page[..version_file::SIZE].copy_from_slice(&header.encode());
    make_file(vfs, path, &page)
}
