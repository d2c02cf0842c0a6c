//! Leases for as long as others' archives and backups are read: one in the archive that a folder is made of, and, where that one's pages
//! begin as another database's, one in each archive further on.
//!
//! Further on a lease has the name of the first one, `.via-` and the beginning of the id of the database through whose archive it was reached: so whoever
//! gives the first one back finds the others. While the first one is there, its archive keeps its beginning, and with that what it needs further on: so it goes
//! last, and where another one cannot be given back, it stays, unless an operator gives it back.
//!
//! | lease | is there |
//! |---|---|
//! | `making-ID` | while the folder of database ID is made |
//! | `restore-ID`, `clone-ID` or the name that was given | until all pages are in the folder's files (a given name: until it is given back) |
//! | `archive-ID` | from before the first run of database ID's own archive, until that archive has given up its beginning |

use std::path::Path;
use std::sync::Arc;

use resurgam_archive::{Archive, Lease, LeaseKind, ParentBase, ParentRecord, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_vfs::Vfs;
use resurgam_xstore::{Access, Place, Store};

use crate::restore::{Chain, OriginKind, ParentSource, own_record, parent_record, record_is_missing, store_there};

/// An archive that is read, and what of it.
#[derive(Clone)]
pub(crate) struct Layer {
    pub store: Arc<dyn Store>,
    pub database: [u8; 16],
    /// Where the archive began when it was looked up.
    pub start: Lsn,
    pub cut: Lsn,
    /// The backup that pages are made of, and the place that it is in.
    pub backup: Option<(String, Arc<dyn Store>)>,
    /// What the name of a lease ends with here.
    suffix: String,
}

impl Layer {
    /// The archive that a folder is made of directly.
    pub fn first(
        store: Arc<dyn Store>,
        database: [u8; 16],
        start: Lsn,
        cut: Lsn,
        backup: Option<(String, Arc<dyn Store>)>,
    ) -> Self {
        Self { store, database, start, cut, backup, suffix: String::new() }
    }
}

fn suffix_of(via: &[u8; 16]) -> String {
    let id: String = via.iter().take(4).map(|byte| format!("{byte:02x}")).collect();
    format!(".via-{id}")
}

/// The archives further on from one that has this record, the nearest first, which have what is needed. `is_own`: the lease is that of the record's own database.
///
/// # Errors
/// Those of opening them, naming each.
pub(crate) fn layers_behind(vfs: &Arc<dyn Vfs>, record: &ParentRecord, is_own: bool) -> Result<Vec<Layer>> {
    let mut chain = Chain::of(record.database);
    let mut layers = Vec::new();
    let mut next = Some(record.clone());
    while let Some(record) = next.take() {
        let parent = ParentSource::of_record(&record);
        chain.goes_on(parent.database_id, &parent.archive)?;
        let (store, view) = parent.open(vfs, Path::new(""))?;
        let backup = match &record.base {
            ParentBase::Backup { url, name } => Some((name.clone(), store_there(vfs, Path::new(""), url)?)),
            ParentBase::Archive | ParentBase::Parent => None,
        };
        if record.base == ParentBase::Parent {
            next = parent_record(&*store, &view)?;
            if next.is_none() {
                return Err(record_is_missing(&parent.archive));
            }
        }
        layers.push(Layer {
            store,
            database: parent.database_id,
            start: view.start(),
            cut: record.cut,
            backup,
            suffix: if is_own && layers.is_empty() { String::new() } else { suffix_of(&record.database) },
        });
    }
    Ok(layers)
}

/// Makes leases of that name in all layers, and sees that what they keep is there. One of the archive that is there already is as good. Where one cannot be
/// made, none is left.
///
/// # Errors
/// `NotInPrerequisiteState` when what is needed is being given up; `DuplicateObject` for another one of that name; those of the stores.
pub(crate) fn make_leases(layers: &[Layer], kind: LeaseKind, name: &str, now_us: i64) -> Result<Lease> {
    let mut made: Vec<(usize, Lease)> = Vec::new();
    let mut outcome = Ok(());
    for (at, layer) in layers.iter().enumerate() {
        let lease = Lease {
            name: format!("{name}{}", layer.suffix),
            kind,
            database: layer.database,
            cut: layer.cut,
            undo_from: layer.cut,
            backup: layer.backup.as_ref().map(|(name, _)| name.clone()),
            created_us: now_us,
        };
        let created = match lease.create(&*layer.store) {
            // Of an attempt that did not come to its end.
            Err(error) if kind == LeaseKind::Archive && error.kind() == ErrorKind::DuplicateObject => {
                match Lease::read(&*layer.store, &lease.name) {
                    Ok(Some(found)) if Lease { created_us: now_us, ..found.clone() } == lease => Ok(()),
                    _ => Err(error),
                }
            }
            created => created,
        };
        outcome = created.and_then(|()| {
            made.push((at, lease.clone()));
            lease.check(&layer.store, layer.backup.as_ref().map(|(_, store)| store), layer.start)
        });
        if outcome.is_err() {
            break;
        }
    }
    match outcome {
        Ok(()) => {
            let first = made.into_iter().next().map(|(_, lease)| lease);
            first.ok_or_else(|| Error::internal("a lease of nothing"))
        }
        Err(error) => {
            for (at, lease) in made {
                if let Some(layer) = layers.get(at) {
                    let _ = Lease::remove(&*layer.store, &lease.name);
                }
            }
            Err(error)
        }
    }
}

/// Gives the leases of that name back in all layers.
///
/// # Errors
/// The first one, after all were tried.
pub(crate) fn give_back(layers: &[Layer], name: &str) -> Result<()> {
    let of = |layer: &Layer| Lease::remove(&*layer.store, &format!("{name}{}", layer.suffix)).map(drop);
    layers.iter().map(of).fold(Ok(()), Result::and)
}

fn hex(id: &[u8; 16]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The name of a lease for the database with that id, unless it was given one.
pub(crate) fn lease_name(kind: LeaseKind, id: &[u8; 16]) -> String {
    let kind = match kind {
        LeaseKind::Restore => "restore",
        LeaseKind::Clone => "clone",
        LeaseKind::Making => "making",
        LeaseKind::Archive => "archive",
    };
    format!("{kind}-{}", hex(id))
}

/// Every page of database `id` is in its files: what it was made of is needed no longer for them. A lease of another name, or one that cannot be
/// given back now, stays until somebody does so.
pub(crate) fn end_folder_lease(vfs: &Arc<dyn Vfs>, dir: &Path, parent: &ParentSource, id: &[u8; 16]) {
    let kind = match parent.kind {
        OriginKind::Media => return,
        OriginKind::Point => LeaseKind::Restore,
        OriginKind::Clone => LeaseKind::Clone,
    };
    let name = lease_name(kind, id);
    let ended = Place::of(dir, &parent.archive)
        .and_then(|place| Ok(place.open(vfs, Access::Existing)?))
        .and_then(|store| end_lease(vfs, &store, parent, &name));
    if let Err(error) = ended {
        tracing::warn!(
            "the lease \"{name}\" in {} could not be given back, and keeps archive and backup: {error}",
            parent.archive
        );
    }
}

/// Gives back a lease in `store`, which is that of `parent`, once those that belong to it further on were.
///
/// # Errors
/// Those of the stores, also where one of them has no archive (as a disk that is not mounted); the lease is there still, to be given back later.
pub(crate) fn end_lease(vfs: &Arc<dyn Vfs>, store: &Arc<dyn Store>, parent: &ParentSource, name: &str) -> Result<()> {
    let view = archive_there(store, None)?;
    if parent.layered {
        let record = own_record(&**store, &view)?.ok_or_else(|| record_is_missing(&parent.archive))?;
        give_back_further_on(vfs, record, name)?;
    }
    Lease::remove(&**store, name).map(drop)
}

/// Gives a lease back as an operator says, and those that belong to it in the archives further on; false: there is none of that name.
///
/// # Errors
/// Those of the stores: what could be given back was, and the others are found when this is tried again.
pub(crate) fn forget(vfs: &Arc<dyn Vfs>, store: &Arc<dyn Store>, name: &str) -> Result<bool> {
    let further = (|| {
        let view = archive_there(store, None)?;
        // What is made of a backup needs nothing further on.
        let of_backup = matches!(Lease::read(&**store, name), Ok(Some(lease)) if lease.backup.is_some());
        match own_record(&**store, &view)? {
            Some(record) if !of_backup => give_back_further_on(vfs, record, name),
            _ => Ok(false),
        }
    })();
    let removed = Lease::remove(&**store, name)?;
    match further {
        Ok(further) => Ok(removed || further),
        Err(error) if removed => {
            let what = format!("the lease was given back, but not what it kept further on: {}", error.message());
            Err(Error::new(error.kind(), what))
        }
        Err(error) => Err(error),
    }
}

/// Gives back what belongs to that lease in the archives from the one on that `record` names; false: there was nothing.
fn give_back_further_on(vfs: &Arc<dyn Vfs>, record: ParentRecord, name: &str) -> Result<bool> {
    let (mut next, mut chain, mut any) = (Some(record.clone()), Chain::of(record.database), false);
    while let Some(record) = next.take() {
        chain.goes_on(record.parent, &record.archive)?;
        let store = store_there(vfs, Path::new(""), &record.archive)?;
        let view = archive_there(&store, None)?;
        any |= Lease::remove(&*store, &format!("{name}{}", suffix_of(&record.database)))?;
        if record.base == ParentBase::Parent {
            next = Some(own_record(&*store, &view)?.ok_or_else(|| record_is_missing(&record.archive))?);
        }
    }
    Ok(any)
}

/// Sees that there is an archive: where there is none, no lease is found either, and that says nothing.
///
/// # Errors
/// `Io` when there is none; those of opening it, also that it is not that of `database`.
pub(crate) fn archive_there(store: &Arc<dyn Store>, database: Option<[u8; 16]>) -> Result<Arc<View>> {
    Archive::open_view(Arc::clone(store), database)?
        .ok_or_else(|| Error::new(ErrorKind::Io, format!("no manifest of an archive was found in {}", store.place())))
}
