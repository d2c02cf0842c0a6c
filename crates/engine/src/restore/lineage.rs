//! What a database knows of the one that it was made of, for as long as its own archive may need that one: the file `parent` of its data folder, and the
//! record in its archive, which has the same bytes ([`ParentRecord`]).
//!
//! # Order
//! 1. The file is in a new folder before that is a database.
//! 2. Before the archive's first run is written: the lease `archive-ID` in the parent's archive (and further on), then the record in the archive. A crash
//!    between the two leaves a lease that the next start takes for its own. Where the parent cannot be reached then, the archive is begun without, and the
//!    two are made later, as long as the archive begins where the database's log did.
//! 3. Once the archive has given up its beginning, in favour of a backup of its own, the lease is given back: first further on, then in the parent's archive, and
//!    then the file is removed. Where one of the archives cannot be reached or is not in its place, the rest waits for the next pass. A lease that was given
//!    back by an operator is never made again: the record is there.
//! 4. An archive that begins later and has no record is another one than the database had at first, or the record was not made. A lease that is there all the same
//!    is that of the first one, which needs it still, and which may be kept for its points in time, or be that of a database that this one's folder is a
//!    copy of. So it is not given back here: it is told of for as long as it is there, and the file stays.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use resurgam_archive::{Archive, Lease, LeaseKind, ParentRecord, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_recovery::Parent;
use resurgam_vfs::{Vfs, read_small};
use resurgam_xstore::Store;

use super::begin::{make_file, store_at};
use super::parent::{ParentSource, PlantedInChain, parent_record, store_there};
use crate::options::Options;
use crate::points::{archive_there, end_lease, layers_behind, lease_name, make_leases};

/// Name of the file in the data folder.
pub(crate) const PARENT: &str = "parent";
const BYTES_MAX: u64 = 64 << 10;
/// An answer of the parent's counts for so long: two looks of the background, and what they take. Who hangs says nothing.
const ANSWER_LASTS: Duration = Duration::from_secs(70);

/// How it stands between the archive and the parent.
#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    /// Not looked at yet.
    Unknown,
    /// The record is not in the archive, or of no use: why.
    Unnamed(String),
    /// The archive needs the parent, and says so.
    Needed,
    /// The archive begins later, and needs the parent no more (or could never use it): its lease is to be given back.
    Ending,
    /// The same, and the lease is another archive's: what is said of it.
    Left(String),
    Over,
}

/// See the module.
pub(crate) struct Lineage {
    vfs: Arc<dyn Vfs>,
    pub record: ParentRecord,
    state: Mutex<State>,
    /// When the pages that are in nothing of the database's own could be had, where that was so at the last look.
    answered: Mutex<Option<Instant>>,
    /// Held by who looks at the parent, or gives it up.
    pub seeing: Mutex<()>,
}

/// Writes the file into a folder that is being made.
///
/// # Errors
/// Those of writing.
pub(crate) fn write(vfs: &Arc<dyn Vfs>, dir: &Path, record: &ParentRecord) -> Result<()> {
    make_file(vfs, &dir.join(PARENT), &record.encode()?)
}

pub(super) fn read(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Option<ParentRecord>> {
    let path = dir.join(PARENT);
    let Some(bytes) = read_small(&**vfs, &path, BYTES_MAX)? else { return Ok(None) };
    ParentRecord::decode(&bytes).map(Some).map_err(|error| {
        Error::new(error.kind(), format!("the file \"{}\" cannot be used: {}", path.display(), error.message()))
    })
}

impl Lineage {
    /// That of the database `id`, which was made of `parent`: by the file in its folder, or, where that is not there or of no use, by its archive. `None`:
    /// neither says it, as where an earlier version made the folder, or where it is over.
    pub fn find(vfs: &Arc<dyn Vfs>, dir: &Path, options: &Options, id: [u8; 16], parent: &Parent) -> Option<Arc<Self>> {
        let fits = |record: &ParentRecord| {
            (record.database, record.parent, record.cut) == (id, parent.database_id, parent.cut)
        };
        let of_file = read(vfs, dir).unwrap_or_else(|error| {
            tracing::warn!("{error}; the archive is asked instead");
            None
        });
        let record = match of_file.filter(fits) {
            Some(record) => record,
            None => {
                let of_archive = || -> Result<Option<ParentRecord>> {
                    let Some(url) = &options.archive else { return Ok(None) };
                    let store = store_at(vfs, dir, url, options.archive_store.as_ref())?;
                    match Archive::open_view(Arc::clone(&store), Some(id))? {
                        Some(view) => parent_record(&*store, &view),
                        None => Ok(None),
                    }
                };
                let record = of_archive().unwrap_or_else(|error| {
                    tracing::warn!("of which database this one was made cannot be looked up: {error}");
                    None
                });
                let record = record.filter(fits)?;
                // Another archive may be begun for it.
                if let Err(error) = write(vfs, dir, &record) {
                    tracing::warn!("of which database this one was made could not be noted in its folder: {error}");
                }
                record
            }
        };
        Some(Arc::new(Self {
            vfs: Arc::clone(vfs),
            record,
            state: Mutex::new(State::Unknown),
            answered: Mutex::default(),
            seeing: Mutex::default(),
        }))
    }

    /// Where its pages come from that are in nothing of its own; `None`: its archive does not begin where they end.
    pub fn source(&self) -> Option<ParentSource> {
        let over = matches!(*self.state.lock(), State::Ending | State::Left(_) | State::Over);
        (!over).then(|| ParentSource::of_record(&self.record))
    }

    /// Whether there is still something to see to: the file must be in each data folder that this one is replaced by.
    pub fn is_open(&self) -> bool {
        *self.state.lock() != State::Over
    }

    /// Whether the archive says of which database its own was made, and needs that one.
    pub fn is_needed(&self) -> bool {
        *self.state.lock() == State::Needed
    }

    /// Whether every page can be made of those of the database that this one was made of, and an archive that begins at `start`: that database answered
    /// at the last look, which is not long ago.
    pub fn has_the_rest(&self, start: Lsn) -> bool {
        self.is_needed() && start <= self.record.first && self.answers_at(Instant::now())
    }

    fn answers_at(&self, now: Instant) -> bool {
        self.answered.lock().is_some_and(|answered| now.saturating_duration_since(answered) < ANSWER_LASTS)
    }

    /// Looks whether the pages that are in nothing of its own can be had; `dir` is the data folder.
    ///
    /// # Errors
    /// Those of opening the archives and backups of all databases on the way.
    pub fn look(&self, dir: &Path) -> Result<()> {
        let opened = ParentSource::of_record(&self.record).maker(&self.vfs, dir, self.record.database);
        *self.answered.lock() = opened.is_ok().then(Instant::now);
        opened.map(drop)
    }

    /// Why the archive does not say of which database its own was made, although it should.
    pub fn trouble(&self) -> Option<String> {
        match &*self.state.lock() {
            State::Unnamed(why) => Some(why.clone()),
            _ => None,
        }
    }

    /// Sees to it that the archive in `store`, of which `view` is, and whose log is kept from `oldest` on, has the record and the lease that goes with it, before
    /// its first run is written, or later.
    ///
    /// # Errors
    /// Those of the archive's own store. (That the parent cannot be reached is none, see [`Lineage::trouble`].)
    pub fn name_parent(&self, store: &Arc<dyn Store>, view: &View, oldest: Lsn) -> Result<()> {
        let begins = if view.start().is_some() { view.start() } else { oldest };
        if begins > self.record.first {
            *self.state.lock() = State::Ending;
            return Ok(());
        }
        match ParentRecord::read(&**store) {
            Ok(Some(found)) if found.is_same_child(&self.record) => {
                *self.state.lock() = State::Needed;
                return Ok(());
            }
            Ok(_) => {}
            // The archive goes on without.
            Err(error) if matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NewerFormat) => {
                self.is_unnamed(&error);
                return Ok(());
            }
            Err(error) => return Err(error),
        }
        let name = lease_name(LeaseKind::Archive, &self.record.database);
        let leased = layers_behind(&self.vfs, &self.record, true).and_then(|layers| {
            if PlantedInChain::NoLease.is_planted() {
                return Ok(());
            }
            make_leases(&layers, LeaseKind::Archive, &name, self.vfs.wall_clock_us()).map(drop)
        });
        match leased {
            Ok(()) => {
                self.record.create(&**store)?;
                *self.state.lock() = State::Needed;
            }
            Err(error) => self.is_unnamed(&error),
        }
        Ok(())
    }

    fn is_unnamed(&self, error: &Error) {
        let mut state = self.state.lock();
        let next = State::Unnamed(error.to_string());
        if *state != next {
            tracing::warn!("the archive alone makes no pages of this database, which was made of another one: {error}");
        }
        *state = next;
    }

    /// Gives the parent up once the archive in `own`, of which `view` is, begins later; `dir` is the data folder.
    ///
    /// # Errors
    /// Those of giving the lease back: to be tried again.
    pub fn end(&self, own: &Arc<dyn Store>, view: &View, dir: &Path) -> Result<()> {
        if view.start().is_none() || view.start() <= self.record.first || *self.state.lock() == State::Over {
            return Ok(());
        }
        {
            let mut state = self.state.lock();
            if !matches!(*state, State::Left(_)) {
                *state = State::Ending;
            }
        }
        match ParentRecord::read(&**own)? {
            Some(_) => self.give_back(dir)?,
            None => self.look_for_another(dir)?,
        }
        let path = dir.join(PARENT);
        if self.vfs.exists(&path)? {
            self.vfs.remove(&path)?;
            self.vfs.sync_dir(dir)?;
        }
        *self.state.lock() = State::Over;
        tracing::info!(
            "the archive needs the database in \"{}\" no more, of which this one was made",
            self.record.archive
        );
        Ok(())
    }

    /// That there is no lease of an archive that the database had before.
    ///
    /// # Errors
    /// That there is one, and what to do. Where the parent cannot be looked at now there is none: it is looked for again.
    fn look_for_another(&self, dir: &Path) -> Result<()> {
        let name = lease_name(LeaseKind::Archive, &self.record.database);
        let url = &self.record.archive;
        let found = store_there(&self.vfs, dir, url).and_then(|store| {
            archive_there(&store, Some(self.record.parent))?;
            Ok(Lease::read(&*store, &name)?.is_some())
        });
        let what = match found {
            Ok(false) => return Ok(()),
            Ok(true) => format!(
                "the lease \"{name}\" in \"{url}\" keeps the past of the database that this one was made of for an archive that this one had before; the present \
                 archive begins later and needs nothing of it. If neither the points in time of that archive are needed any more, nor another database has it, of \
                 which this folder is a copy, give it back: resurgam clone --archive \"{url}\" --forget {name}"
            ),
            Err(error) => format!(
                "whether \"{url}\", of which this database was made, keeps something for an archive that this one had before cannot be looked up (if that \
                 place is gone for good, remove the file \"{PARENT}\" in the data folder): {}",
                error.message()
            ),
        };
        let mut state = self.state.lock();
        let next = State::Left(what.clone());
        if *state != next {
            tracing::warn!("{what}");
        }
        *state = next;
        Err(Error::new(ErrorKind::NotInPrerequisiteState, what))
    }

    fn give_back(&self, dir: &Path) -> Result<()> {
        let name = lease_name(LeaseKind::Archive, &self.record.database);
        let given_back = store_there(&self.vfs, dir, &self.record.archive)
            .and_then(|store| end_lease(&self.vfs, &store, &ParentSource::of_record(&self.record), &name));
        given_back.map_err(|error| {
            let url = &self.record.archive;
            let what = format!("the lease \"{name}\" in \"{url}\" is needed no more and could not be given back: {}", error.message());
            Error::new(error.kind(), what).with_hint(format!(
                "It keeps the past of that database, and of those that it was made of. If one of these is gone for good, give the lease back with \"resurgam clone --forget\", \
                 and remove the file \"{PARENT}\" in the data folder."
            ))
        })
    }
}

#[cfg(test)]
mod tests {
    use resurgam_archive::ParentBase;
    use resurgam_vfs::SimVfs;

    use super::*;

    #[test]
    fn an_answer_of_long_ago_is_none() {
        let record = ParentRecord {
            database: [1; 16],
            parent: [2; 16],
            cut: Lsn(1 << 20),
            first: Lsn(2 << 20),
            archive_from: Lsn(1 << 20),
            made_us: 0,
            archive: "/nowhere".to_owned(),
            base: ParentBase::Archive,
        };
        let lineage = Lineage {
            vfs: Arc::new(SimVfs::new(1)),
            record,
            state: Mutex::new(State::Needed),
            answered: Mutex::default(),
            seeing: Mutex::default(),
        };
        let begun = Instant::now();
        assert!(!lineage.answers_at(begun), "nobody has looked yet");
        *lineage.answered.lock() = Some(begun);
        assert!(lineage.has_the_rest(Lsn(2 << 20)) && !lineage.has_the_rest(Lsn(3 << 20)));
        // The look after it does not end.
        assert!(lineage.answers_at(begun + Duration::from_secs(60)));
        assert!(!lineage.answers_at(begun + Duration::from_secs(90)));
        // It says that it has nothing.
        lineage.look(Path::new("/db")).expect_err("there is no archive");
        assert!(!lineage.answers_at(begun));
    }
}
