//! What an open does about files that are missing or were not restored to the end.
//!
//! | found | done |
//! |---|---|
//! | no data file, no archive | refused, saying what would have made it possible |
//! | no data file, an archive | `restore` is written, then a sparse data file with the boot page of the last checkpoint |
//! | the version-store file is missing, an archive | the same for that file |
//! | a data folder that is empty, the log in a folder of its own, an archive | first the control file, from its copy there |
//! | `restore` | what it says goes on |
//! | one of these files is there, and of no use | `unusable.rs` says when it is set aside, and made as one that is missing |
//!
//! # Order
//! The archive is looked at before anything is made, also whether it can go on with the log. What is of no use has another name then; from there
//! on it is missing. `restore` is durable before a sparse file has its name. A crash at
//! any step leaves what the next open begins anew or goes on with.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use resurgam_archive::{Archive, PageBase, PageMaker, View};
use resurgam_base::{Error, ErrorKind, Lsn, PageId, Result, limits::PAGE_SIZE};
use resurgam_log::segment_number_of;
use resurgam_page::boot::{self, Boot};
use resurgam_page::version_file::{SIZE, VersionFileHeader};
use resurgam_recovery::{Control, ControlFile, LogOwner, VersionRecord};
use resurgam_vfs::{Vfs, replace_by};
use resurgam_xstore::{Access, Place, Store};

use super::device::{full, write_data_place};
use super::marks::Marks;
use super::origin::Origin;
use super::parent::ParentSource;
use super::room::{self, Wanted};
use super::unusable::{is_of_no_use, read_patiently, set_aside};
use crate::archiver::check_positions;
use crate::backup_places::Backups;
use crate::history;
use crate::log_folder;
use crate::options::{Options, StoreHandle};
use crate::version_file::{self, REPLACEMENT};

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
    // Of one that was never opened nothing is needed: whoever makes the new one sees to it.
    if !is_there || log_folder::is_being_made(vfs, &folder)? {
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
    /// The epoch that this open will write under.
    pub next_epoch: u32,
    /// Why the data file, which is there, is of no use.
    pub unusable_data: Option<&'a Error>,
    /// Where the log ends.
    pub log_end: Lsn,
    /// The folder whose place this one takes, because its device is dead.
    pub instead_of: Option<&'a Path>,
}

/// A version-store file that is to be made.
struct MissingVersions {
    number: u32,
    path: PathBuf,
    /// What is there now, and why it is of no use.
    instead_of: Option<(PathBuf, Error)>,
}

impl Missing<'_> {
    /// Whether the data file is to be made. The double-write area has images of its pages then, which are of no use, and of the version store's, which
    /// may be needed: it is emptied when those are in their places.
    ///
    /// # Errors
    /// That of looking.
    pub fn makes_data(&self) -> Result<bool> {
        Ok(self.unusable_data.is_some() || !self.vfs.exists(self.data)?)
    }

    /// Makes what is missing, and returns what is restored then.
    ///
    /// # Errors
    /// Those of the module's head.
    pub fn make(&self, mut origin: Option<Origin>) -> Result<Option<Origin>> {
        let data = self.makes_data()?;
        let version = self.missing_version_file()?;
        if !data && version.is_none() {
            return Ok(origin);
        }
        let Some(archive) = &self.options.archive else {
            // The version store: its own error says what to do.
            return if data { Err(data_is_missing(self.data)) } else { Ok(origin) };
        };
        let of_no_use = version.as_ref().is_some_and(|version| version.instead_of.is_some());
        let parent = origin.as_ref().and_then(ParentSource::of).or_else(|| self.made_of.clone());
        let id = self.boot.database_id;
        // Looked at before anything is made.
        let look = || -> Result<Material> {
            let store = store_at(self.vfs, self.dir, archive, self.options.archive_store.as_ref())?;
            let view = Archive::open_view(store, Some(id))?;
            let segment_bytes = self.control.segment_bytes;
            if let Some(view) = view.as_ref().filter(|view| view.end().is_some()) {
                self.look_at_archive(view, archive)?;
            }
            let begins = log_begins(self.vfs, self.log, segment_bytes, parent.as_ref())?;
            self.look_for_room(data, version.as_ref())?;
            material(self.vfs, self.dir, self.options, id, view, segment_bytes, begins, parent.as_ref())
        };
        let found = match look() {
            Err(error) if !data && of_no_use => {
                tracing::warn!("the version store cannot be made again: {error}");
                // Its own error says what is wrong with it.
                return Ok(origin);
            }
            found => found?,
        };
        let parent = parent.filter(|_| found.base.parent().is_some());
        // What is of no use has another name before `restore` says that it is made: a device on which that fails is left as it is.
        match self.set_versions_aside(version.as_ref()) {
            Err(error) if !data => {
                tracing::warn!("the version store cannot be made again: {error}");
                return Ok(origin);
            }
            done => done?,
        }
        if let Some(why) = self.unusable_data
            && self.vfs.exists(self.data)?
        {
            set_aside(self.vfs, self.data, why)?;
        }

        // Those of a folder that was made of another database go by that one's.
        let marked_by = origin.as_ref().map_or(id, |origin| origin.database_id);
        let mut marks = Marks::read(self.vfs, self.dir, marked_by).unwrap_or_default();
        marks.database_id = id;
        let is_version = |file: u64| version.as_ref().is_some_and(|version| u64::from(version.number) == file);
        let made_anew = |file: u64| (file == 0 && data) || is_version(file);
        marks.segments.retain(|segment| !made_anew(segment.file));
        let mut next = Origin::media(origin.take(), id, archive.clone(), self.options.backups.clone(), parent);
        if data {
            next.data_pages = self.high_water.max(1);
        }
        if let Some(version) = &version {
            next.version_pages = Some((version.number, self.version_high_water.in_file().max(1)));
        }
        next.write_with(&marks, marked_by != id, self.vfs, self.dir)?;
        if data {
            let page = boot::page(self.boot, self.control.checkpoint)?;
            make_file(self.vfs, self.data, page.as_bytes())?;
            tracing::warn!("the data file \"{}\" is restored as its pages are asked for", self.data.display());
        }
        match version {
            Some(version) => self.make_versions(version)?,
            None => self.note_versions()?,
        }
        if self.instead_of.is_some() {
            // From here on the old folder does not count any more, also where its device is back.
            write_data_place(self.vfs, self.log, &full(self.dir))?;
        }
        Ok(Some(next))
    }

    /// That the archive can go on with the log, as it is asked when both are open: by then it would be too late.
    fn look_at_archive(&self, view: &Arc<View>, archive: &str) -> Result<()> {
        let place = format!("the archive \"{}\"", Place::of(self.dir, archive)?);
        let segment_bytes = self.control.segment_bytes.max(1);
        let names = self.vfs.list(self.log)?;
        let segments: BTreeSet<u64> = names.iter().filter_map(|name| segment_number_of(name)).collect();
        // Those that are connected with its end count: a crash may have left older ones.
        let end = self.log_end.0 / segment_bytes;
        let last = if segments.contains(&end) { end } else { end.saturating_sub(1) };
        let older = (0..last).rev().take_while(|number| segments.contains(number)).last();
        let first = older.unwrap_or(last);
        check_positions(view, &place, Lsn(first * segment_bytes), self.log_end)?;
        let has = |number: u64| (first..=last).contains(&number);
        history::is_of_folder(view, &place, self.vfs, self.log, segment_bytes, has).map(drop)
    }

    /// That there is room for the files that are to be made. Those that are set aside keep theirs.
    fn look_for_room(&self, data: bool, version: Option<&MissingVersions>) -> Result<()> {
        let data = data.then(|| Wanted { folder: self.dir, pages: self.high_water.max(1), given_back: 0 });
        let place = version.map(|version| self.place_for_versions(version));
        let versions = place.as_deref().and_then(Path::parent).map(|folder| Wanted {
            folder,
            pages: self.version_high_water.in_file().max(1),
            given_back: 0,
        });
        room::check(self.vfs, &data.into_iter().chain(versions).collect::<Vec<_>>())
    }

    /// Where a version-store file is made: in another place where its device is dead and there is one.
    fn place_for_versions(&self, version: &MissingVersions) -> PathBuf {
        let is_dead = version.instead_of.as_ref().is_some_and(|(_, why)| why.is_of_device());
        match &self.options.spare_data {
            Some(spare) if is_dead => full(&self.dir.join(spare)).join(REPLACEMENT),
            _ => version.path.clone(),
        }
    }

    /// Gives the version-store file that is of no use another name, where one is made in its place.
    fn set_versions_aside(&self, version: Option<&MissingVersions>) -> Result<()> {
        if let Some(version @ MissingVersions { instead_of: Some((old, why)), path, .. }) = version
            && self.place_for_versions(version) == *path
        {
            // Nobody else has it open.
            let _lock = self.vfs.lock(old)?;
            set_aside(self.vfs, old, why)?;
        }
        Ok(())
    }

    /// Makes the version-store file, in another place where its device is dead and there is one.
    fn make_versions(&self, version: MissingVersions) -> Result<()> {
        let path = self.place_for_versions(&version);
        let MissingVersions { number, path: own, instead_of } = version;
        match &instead_of {
            Some((old, why)) if path != own => {
                if let Some(folder) = path.parent() {
                    self.vfs.make_folder(folder)?;
                }
                if self.vfs.exists(&path)? {
                    // Left by an attempt before.
                    self.vfs.remove(&path)?;
                }
                tracing::warn!(
                    "the device of the version store \"{}\" is dead ({}): \"{}\" takes its place",
                    old.display(),
                    why.message(),
                    path.display()
                );
            }
            // It was set aside.
            Some(_) => {}
            None => {
                if let (Some(_), Some(folder)) = (self.instead_of, path.parent()) {
                    self.vfs.make_folder(folder)?;
                }
            }
        }
        make_version_file(self.vfs, &path, number, self.boot.database_id, self.control.epoch)?;
        VersionRecord { number, path: Some(self.noted(&path)) }.write(self.vfs, self.dir)?;
        tracing::warn!("the version store \"{}\" is restored as its pages are asked for", path.display());
        Ok(())
    }

    /// In a folder that takes the place of another one: where the version store is, which goes on as it is.
    fn note_versions(&self) -> Result<()> {
        match (self.instead_of, self.version_store) {
            (Some(_), Some(record @ VersionRecord { path: Some(path), .. })) => {
                VersionRecord { path: Some(self.place_of(path)), ..*record }.write(self.vfs, self.dir)
            }
            _ => Ok(()),
        }
    }

    /// As it is noted: relative to the data folder where it is there.
    fn noted(&self, path: &Path) -> PathBuf {
        path.strip_prefix(self.dir).unwrap_or(path).to_path_buf()
    }

    /// Where a noted path leads. What was in a folder whose device is dead is looked for in the one that takes its place.
    fn place_of(&self, path: &Path) -> PathBuf {
        let leads_out = || path.components().any(|part| part == Component::ParentDir);
        match self.instead_of {
            Some(old) if path.is_relative() && leads_out() => full(old).join(path),
            _ => self.dir.join(path),
        }
    }

    /// The version-store file that is in use and is at none of its places, or is there and of no use.
    fn missing_version_file(&self) -> Result<Option<MissingVersions>> {
        let logged = u32::try_from(self.version_high_water.file()).unwrap_or(0);
        let noted = VersionRecord::read(self.vfs, self.dir).unwrap_or_default();
        let known = noted.as_ref().or(self.version_store);
        // Given up already, or never there.
        let (number, recorded) = match known {
            Some(VersionRecord { number, path: Some(path) }) => ((*number).max(logged), Some(self.place_of(path))),
            Some(VersionRecord { path: None, .. }) => return Ok(None),
            None if logged > 0 => (logged, None),
            None => return Ok(None),
        };
        let asked = self.options.version_store_path.as_ref().map(|path| self.place_of(path));
        // The device of the one that is asked for died, and this is what took its place.
        let replaced = recorded.as_ref().filter(|path| path.file_name() == Some(OsStr::new(REPLACEMENT)));
        let in_use = replaced.or(asked.as_ref()).or(recorded.as_ref());
        for path in in_use.into_iter().chain(&asked).chain(&recorded) {
            let there = match self.vfs.exists(path) {
                Ok(there) => there,
                Err(error) if error.is_of_device() && in_use == Some(path) => true,
                Err(error) => return Err(error),
            };
            if !there {
                continue;
            }
            // One that is asked for and is not the one that was in use is somebody's mistake.
            let is_its_own = in_use == Some(path) && recorded.as_ref() == Some(path);
            // Nor is one it that was put there since a device died.
            let may_be = |why: &Error| {
                let is_known = || recorded.as_ref() == Some(path) || why.is_of_device() || self.is_of_this(path);
                is_its_own || (self.instead_of.is_some() && is_known())
            };
            let why = match is_its_own || self.instead_of.is_some() {
                true => self.fault_of_versions(path, number).filter(may_be),
                false => None,
            };
            return Ok(why.map(|why| MissingVersions {
                number,
                path: path.clone(),
                instead_of: Some((path.clone(), why)),
            }));
        }
        Ok(asked.or(recorded).map(|path| MissingVersions { number, path, instead_of: None }))
    }

    /// Whether the version-store file at `path` says that it is this database's.
    fn is_of_this(&self, path: &Path) -> bool {
        version_file::read_header(self.vfs, path).is_ok_and(|header| header.database_id == self.boot.database_id)
    }

    /// What makes the version-store file at `path` one of no use, where it was this database's.
    fn fault_of_versions(&self, path: &Path, number: u32) -> Option<Error> {
        let id = self.boot.database_id;
        match read_patiently(|| version_file::read_header(self.vfs, path)) {
            Ok(header) if header.database_id != id => None,
            Ok(header) => version_file::check(&header, path, number, self.control.epoch, self.next_epoch).err(),
            // It begins as no version store does.
            Err(error) if error.kind() == ErrorKind::NotADatabase || is_of_no_use(&error) => Some(error),
            Err(_) => None,
        }
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
    page[..SIZE].copy_from_slice(&header.encode());
    make_file(vfs, path, &page)
}
