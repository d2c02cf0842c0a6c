//! A lease for as long as a backup is made of an archive that others write: the log service that merges it, and gives up what is not promised, knows nothing of
//! what is being made here. It keeps what the backup is made of, and, of one that is gone on with, the log behind the segments that it has; what is replaced meanwhile
//! is looked up anew.
//!
//! Its name begins with the backup's, by which who gives up sees that it is under way, and ends with a random number: what a process that was killed has left is never
//! met, nor removed, and counts for two days.

use std::sync::Arc;

use resurgam_archive::{BACKUP_LEASE, Backup, Lease, LeaseKind, View};
use resurgam_base::{Lsn, Result};
use resurgam_vfs::Vfs;
use resurgam_xstore::Store;

/// See the module. It is given back when it is dropped.
pub(crate) struct BackupLease {
    vfs: Arc<dyn Vfs>,
    archive: Arc<dyn Store>,
    backups: Arc<dyn Store>,
    /// The name of the backup.
    of: String,
    /// Where the archive began.
    start: Lsn,
    /// The least LSN from which segments need log that are in the backup already.
    least: Option<Lsn>,
    lease: Lease,
}

impl BackupLease {
    /// Keeps what makes the pages as of the end of `view`, of `base` if there is one, which is in `backups`; and all from `least` on.
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
        least: Option<Lsn>,
    ) -> Result<Self> {
        let lease = Lease {
            name: String::new(),
            kind: LeaseKind::Making,
            database: view.manifest().database,
            cut: view.end(),
            undo_from: least.map_or(view.end(), |least| least.min(view.end())),
            backup: base.map(|base| base.summary().name.clone()),
            created_us: 0,
        };
        let (vfs, archive, backups) = (Arc::clone(vfs), Arc::clone(archive), Arc::clone(backups));
        let mut this = Self { vfs, archive, backups, of: name.to_owned(), start: view.start(), least, lease };
        this.lease = this.another()?;
        Ok(this)
    }

    /// One more.
    fn another(&self) -> Result<Lease> {
        let name = format!("{BACKUP_LEASE}{}-{:016x}", self.of, self.vfs.random_u64());
        let lease = Lease { name, created_us: self.vfs.wall_clock_us(), ..self.lease.clone() };
        let checked = lease.create(&*self.archive).and_then(|()| self.check(&lease));
        if let Err(error) = checked {
            let _ = Lease::remove(&*self.archive, &lease.name);
            return Err(error);
        }
        Ok(lease)
    }

    /// Whether what it needs is there and stays. States before the backup's end are not needed, be the log or not.
    fn check(&self, lease: &Lease) -> Result<()> {
        let of_end = Lease { undo_from: lease.cut, ..lease.clone() };
        of_end.check(&self.archive, Some(&self.backups), self.start)?;
        match self.least.filter(|least| *least < lease.cut) {
            Some(least) => Lease { backup: None, ..of_end }.check(&self.archive, None, least),
            None => Ok(()),
        }
    }

    /// Makes another one in time: it does not count for ever.
    pub fn renew(&mut self) {
        if !self.lease.is_old(self.vfs.wall_clock_us()) {
            return;
        }
        match self.another() {
            Ok(next) => {
                let old = std::mem::replace(&mut self.lease, next);
                let _ = Lease::remove(&*self.archive, &old.name);
            }
            Err(error) => tracing::warn!("the lease of the backup that is being made could not be renewed: {error}"),
        }
    }
}

impl Drop for BackupLease {
    fn drop(&mut self) {
        // One that stays counts for two days.
        let _ = Lease::remove(&*self.archive, &self.lease.name);
    }
}
