//! A lease for as long as a backup is made of an archive that others write: the log service that merges it, and gives up what is not promised, knows nothing of
//! what is being made here. It keeps what the backup is made of; what is replaced meanwhile is looked up anew.
//!
//! It has the backup's name, so that one that is gone on with after a crash finds it.

use std::sync::Arc;

use resurgam_archive::{BACKUP_LEASE, Backup, Lease, LeaseKind, View};
use resurgam_base::{ErrorKind, Result};
use resurgam_vfs::Vfs;
use resurgam_xstore::Store;

use crate::points::{Layer, make_leases};

/// See the module. It is given back when it is dropped.
pub(crate) struct BackupLease {
    vfs: Arc<dyn Vfs>,
    layer: Layer,
    lease: Lease,
}

impl BackupLease {
    /// Keeps what makes the pages as of the end of `view`, of `base` if there is one, which is in `backups`.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when that is being given up; those of the stores.
    pub fn make(
        vfs: &Arc<dyn Vfs>,
        archive: &Arc<dyn Store>,
        view: &View,
        base: Option<&Arc<Backup>>,
        backups: &Arc<dyn Store>,
        name: &str,
    ) -> Result<Self> {
        let base = base.map(|base| (base.summary().name.clone(), Arc::clone(backups)));
        let layer = Layer::first(Arc::clone(archive), view.manifest().database, view.start(), view.end(), base);
        let (layers, name) = ([layer], format!("{BACKUP_LEASE}{name}"));
        let make = || make_leases(&layers, LeaseKind::Making, &name, vfs.wall_clock_us());
        let lease = match make() {
            // Of a process that was killed.
            Err(error) if error.kind() == ErrorKind::DuplicateObject => {
                Lease::remove(&**archive, &name)?;
                make()?
            }
            made => made?,
        };
        let [layer] = layers;
        Ok(Self { vfs: Arc::clone(vfs), layer, lease })
    }

    /// Makes another one in time: it does not count for ever.
    pub fn renew(&mut self) {
        let now_us = self.vfs.wall_clock_us();
        if !self.lease.is_old(now_us) {
            return;
        }
        let name = format!("{}-", self.lease.name);
        match make_leases(std::slice::from_ref(&self.layer), LeaseKind::Making, &name, now_us) {
            Ok(next) => {
                let old = std::mem::replace(&mut self.lease, next);
                let _ = Lease::remove(&*self.layer.store, &old.name);
            }
            Err(error) => tracing::warn!("the lease of the backup that is being made could not be renewed: {error}"),
        }
    }
}

impl Drop for BackupLease {
    fn drop(&mut self) {
        // One that stays counts for two days.
        let _ = Lease::remove(&*self.layer.store, &self.lease.name);
    }
}
