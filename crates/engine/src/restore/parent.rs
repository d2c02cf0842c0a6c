//! The database that a folder was made of: where that one's pages come from, and in turn those of the one that it was made of.
//!
//! A clone, or a database as of a point in time, whose pages are not all in its files, is made in layers: the parent's pages as of the
//! cut, from the parent's backup and runs, and behind them the records of its own archive. Where the parent was made of another one as well, and
//! has no backup of its own, its pages are made in the same way: from parent to parent, each named by the record in its child's archive
//! ([`ParentRecord`]). So devices can be replaced, damaged pages rebuilt, and points in time made from a clone's archive, without a backup of the clone.
//! Leases in the archives of all of them last as long as they are needed (`points/leases.rs`).
//!
//! # Invariants
//! 1. No database is asked twice on the way: a chain that comes back to one of its own is refused, as is one longer than [`CHAIN_MAX`].
//! 2. What is passed on from a parent is its pages as of the cut, made of an archive that begins where it did when the child was made: where something was
//!    given up since, there is an error, never an older page.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use resurgam_archive::{Archive, Backup, PageBase, PageMaker, ParentBase, ParentRecord, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_vfs::Vfs;
use resurgam_xstore::{Access, Place, Store};

use super::origin::{Origin, OriginKind};

/// Databases, each made of the next one, of which pages are made: at most.
pub(crate) const CHAIN_MAX: usize = 32;

/// Mistakes that tests make on purpose, to see that they would be noticed. None is made otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlantedInChain {
    None,
    /// A parent's pages are its newest ones, and not those as of the cut.
    LaterCut,
    /// The pages of a parent's own parent are left out.
    LayerLeftOut,
    /// An archive names its parent, which promises nothing.
    NoLease,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

impl PlantedInChain {
    /// For the whole process, from now on.
    pub fn plant(self) {
        PLANTED.store(self as u8, Ordering::SeqCst);
    }

    /// Whether it is this one.
    pub(crate) fn is_planted(self) -> bool {
        PLANTED.load(Ordering::Relaxed) == self as u8
    }
}

/// See the module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParentSource {
    /// What the folder was made as: whose lease it is.
    pub kind: OriginKind,
    pub database_id: [u8; 16],
    /// URL of its archive.
    pub archive: String,
    /// URL of its backups, and the name of the one that is used.
    pub backups: Option<String>,
    pub backup: Option<String>,
    /// The last LSN of its log that counts.
    pub as_of: Lsn,
    /// Its own pages begin as another database's, which its archive names.
    pub layered: bool,
    /// Its archive must not begin later; none: that was not noted.
    pub archive_from: Option<Lsn>,
}

/// That the archive at `url` has no record of the parent, of which pages are needed.
pub(crate) fn record_is_missing(url: &str) -> Error {
    Error::new(
        ErrorKind::NotInPrerequisiteState,
        format!(
            "the archive \"{url}\" does not say any more of which database its own was made, whose pages are needed: its record of that is missing"
        ),
    )
    .with_hint(
        "Put the object \"parent/record\" back (the file \"parent\" in that database's data folder has the same bytes), or restore from a backup of this \
         database (--backups).",
    )
}

/// That too many databases were made of one another.
pub(crate) fn too_many() -> Error {
    Error::new(
        ErrorKind::LimitExceeded,
        format!("this database was made of others, each of another one, more than {CHAIN_MAX} in a row"),
    )
    .with_hint("Make a backup of one of them (SELECT resurgam_backup()), and name its place with --backups.")
}

/// The databases that were asked on the way to a page.
#[derive(Clone, Debug, Default)]
pub(crate) struct Chain(Vec<[u8; 16]>);

impl Chain {
    /// One that begins with the database `id`.
    pub fn of(id: [u8; 16]) -> Self {
        Self(vec![id])
    }

    /// Goes on to the database `id`, whose archive is at `url`.
    ///
    /// # Errors
    /// `Corrupt` where it was asked already; `LimitExceeded`.
    pub fn goes_on(&mut self, id: [u8; 16], url: &str) -> Result<()> {
        if self.0.contains(&id) {
            return Err(Error::corrupt(format!(
                "the databases that this one was made of lead back to one of themselves, whose archive is in \"{url}\""
            ))
            .with_hint("The records of parents in their archives do not belong together. Restore from a backup of this database (--backups)."));
        }
        if self.0.len() > CHAIN_MAX {
            return Err(too_many());
        }
        self.0.push(id);
        Ok(())
    }
}

/// The store of a URL, which must be there.
pub(crate) fn store_there(vfs: &Arc<dyn Vfs>, dir: &Path, url: &str) -> Result<Arc<dyn Store>> {
    Ok(Place::of(dir, url)?.open(vfs, Access::Existing)?)
}

impl ParentSource {
    /// That of a folder with this origin; `None`: no page comes from another database.
    pub fn of(origin: &Origin) -> Option<Self> {
        match (origin.kind, origin.as_of) {
            (OriginKind::Media, _) => origin.parent.clone(),
            (_, None) => None,
            (kind, Some(as_of)) => Some(Self {
                kind,
                database_id: origin.database_id,
                archive: origin.archive.clone(),
                backups: origin.backups.clone(),
                backup: origin.backup.clone(),
                as_of,
                layered: origin.layered,
                archive_from: origin.archive_from,
            }),
        }
    }

    /// The same of what a database's archive says.
    pub fn of_record(record: &ParentRecord) -> Self {
        let (backups, backup) = match &record.base {
            ParentBase::Backup { url, name } => (Some(url.clone()), Some(name.clone())),
            ParentBase::Archive | ParentBase::Parent => (None, None),
        };
        Self {
            kind: OriginKind::Point,
            database_id: record.parent,
            archive: record.archive.clone(),
            backups,
            backup,
            as_of: Lsn(record.cut.0.saturating_sub(1)),
            layered: record.base == ParentBase::Parent,
            archive_from: Some(record.archive_from),
        }
    }

    /// Where the log of the database begins that was made of it.
    pub fn log_begins(&self, segment_bytes: u64) -> Lsn {
        let segment_bytes = segment_bytes.max(1);
        Lsn((self.as_of.0 + 1).div_ceil(segment_bytes).max(1) * segment_bytes)
    }

    /// An error of its archive or backup, as one of the database that was made of it.
    fn unusable(&self, what: &str, url: &str, error: Error) -> Error {
        let said =
            format!("{what} of the database that this one was made of, \"{url}\", cannot be used: {}", error.message());
        let hint = "Make it reachable in that place again (a folder may be put back, or linked there), or restore from a backup of this database (--backups).";
        Error::new(error.kind(), said)
            .with_hint(error.hint().map_or_else(|| hint.to_owned(), |more| format!("{more} {hint}")))
    }

    /// Opens its archive as it is now, and the store that it is in.
    ///
    /// # Errors
    /// `Io` when there is none any more; `NotInPrerequisiteState` when what is needed of it was given up; those of opening.
    pub(crate) fn open(&self, vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<(Arc<dyn Store>, Arc<View>)> {
        let opened = || -> Result<(Arc<dyn Store>, Arc<View>)> {
            let store = store_there(vfs, dir, &self.archive)?;
            let view = Archive::open_view(Arc::clone(&store), Some(self.database_id))?;
            let view = view.ok_or_else(|| Error::new(ErrorKind::Io, "no manifest of an archive was found"))?;
            Ok((store, view))
        };
        let (store, view) = opened().map_err(|error| self.unusable("the archive", &self.archive, error))?;
        if self.backup.is_none()
            && let Some(from) = self.archive_from
            && view.start() > from
        {
            return Err(Error::new(
                ErrorKind::NotInPrerequisiteState,
                format!(
                    "the archive of the database that this one was made of, \"{}\", begins at LSN {} now; what is needed of it, from LSN {from} on, \
                     was given up",
                    self.archive,
                    view.start()
                ),
            )
            .with_hint("Its lease was given back, or another copy of the archive is in that place. Restore from a backup of this database (--backups)."));
        }
        Ok((store, view))
    }

    /// What its pages are made of, with `view` of its archive in `store`.
    ///
    /// # Errors
    /// Those of opening backup and parents.
    fn base(
        &self,
        vfs: &Arc<dyn Vfs>,
        dir: &Path,
        (store, view): &(Arc<dyn Store>, Arc<View>),
        chain: &mut Chain,
    ) -> Result<PageBase> {
        if let (Some(name), Some(url)) = (&self.backup, &self.backups) {
            let backup = || Backup::open(&store_there(vfs, dir, url)?, name);
            let backup = backup().map_err(|error| self.unusable(&format!("backup \"{name}\""), url, error))?;
            return Ok(PageBase::unchecked(Some(backup)));
        }
        if !self.layered || PlantedInChain::LayerLeftOut.is_planted() {
            // Asked when the folder was made, and leased since.
            return Ok(PageBase::unchecked(None));
        }
        match layers_of(vfs, &**store, view, chain)? {
            Some(base) => Ok(base),
            None => Err(record_is_missing(&self.archive)),
        }
    }

    /// Its archive as it is now, and what its pages are made of besides, for the database `child`.
    ///
    /// # Errors
    /// Those of opening archive and backup; that they do not have that point any more.
    pub fn material(&self, vfs: &Arc<dyn Vfs>, dir: &Path, child: [u8; 16]) -> Result<(Arc<View>, PageBase)> {
        let mut chain = Chain::of(child);
        chain.goes_on(self.database_id, &self.archive)?;
        let opened = self.open(vfs, dir)?;
        let base = self.base(vfs, dir, &opened, &mut chain)?;
        Ok((opened.1, base))
    }

    /// What makes its pages as of the cut, for the database `child`.
    ///
    /// # Errors
    /// Those of opening archive and backup; that they do not have that point any more.
    pub fn maker(&self, vfs: &Arc<dyn Vfs>, dir: &Path, child: [u8; 16]) -> Result<Arc<PageMaker>> {
        self.maker_in(vfs, dir, &mut Chain::of(child))
    }

    fn maker_in(&self, vfs: &Arc<dyn Vfs>, dir: &Path, chain: &mut Chain) -> Result<Arc<PageMaker>> {
        chain.goes_on(self.database_id, &self.archive)?;
        let opened = self.open(vfs, dir)?;
        let base = self.base(vfs, dir, &opened, chain)?;
        let as_of = match PlantedInChain::LaterCut.is_planted() {
            true => Lsn(opened.1.end().0 - 1),
            false => self.as_of,
        };
        PageMaker::new(base, opened.1, as_of).map(Arc::new)
    }
}

/// What the pages of a database are made of whose archive, of which `view` is, begins at the cut at which it was made of another one, as the record in
/// `store` says; `None`: there is none, or the archive has given up its beginning since.
fn layers_of(vfs: &Arc<dyn Vfs>, store: &dyn Store, view: &View, chain: &mut Chain) -> Result<Option<PageBase>> {
    let Some(record) = parent_record(store, view)? else { return Ok(None) };
    let parent = ParentSource::of_record(&record).maker_in(vfs, Path::new(""), chain)?;
    PageBase::of_parent(parent, Some(view), record.first).map(Some)
}

/// The record of the parent that an archive has, whether it still needs that one or not.
///
/// # Errors
/// `Corrupt`, `NewerFormat`; `NotADatabase` for one of another database; those of the store.
pub(crate) fn own_record(store: &dyn Store, view: &View) -> Result<Option<ParentRecord>> {
    let record = ParentRecord::read(store)?;
    if record.as_ref().is_some_and(|record| record.database != view.manifest().database) {
        return Err(Error::new(
            ErrorKind::NotADatabase,
            format!("the record of the parent in {} is of another database than the archive", store.place()),
        )
        .with_hint("Restore from a backup of this database (--backups)."));
    }
    Ok(record)
}

/// The record of the parent that an archive has and still needs.
///
/// # Errors
/// As [`own_record`].
pub(crate) fn parent_record(store: &dyn Store, view: &View) -> Result<Option<ParentRecord>> {
    Ok(own_record(store, view)?.filter(|record| view.start() <= record.first))
}

/// What pages of a database are made of whose archive in `store` begins where it was made of another one, by the record in that archive. `None`: there is
/// no such record, or the archive has given up its beginning.
///
/// # Errors
/// Those of opening the archives and backups of all on the way, naming them.
pub(crate) fn base_by_parents(vfs: &Arc<dyn Vfs>, store: &dyn Store, view: &View) -> Result<Option<PageBase>> {
    layers_of(vfs, store, view, &mut Chain::of(view.manifest().database))
}
