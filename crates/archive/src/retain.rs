//! Retention: which runs and backups nobody needs any more, and giving them up.
//!
//! # Rule
//! For each promised point there is a durable, complete backup whose end is not behind it, and all runs from the backup's
//! begin on; without such a backup the archive reaches back to the database's first record. Runs go that hold nothing from one
//! position on, [`RetentionPlan::keep_from`], and backups that need log from before it. It is not above
//! - the begin of the *base*, the newest complete, undamaged backup that ends at or before the oldest promised point (without
//!   one nothing goes);
//! - what analysis of that point reads, and what undoes its transactions ([`Promise::from`]);
//! - what leases, restores and backups under way need.
//!
//! Backups that end before the base go as well, but for those that a lease names. So the base is never among what goes, nor the newest
//! backup, and without a base no complete backup goes.
//!
//! # Order
//! 1. A *mark* says up to where things are about to be given up: `expiring/KIND-LSN-NONCE`. Leases are listed after it was made; who
//!    makes a lease looks for marks after it was made. So of the two one at least sees the other. A merge that leaves something out
//!    makes one as well.
//! 2. The next manifest, without the runs: from then on the backups that need them are of no use.
//! 3. The runs' objects, and the backups (each its summary first). Then the mark.
//!
//! After a crash at any step the archive is whole, every backup that is complete and needs none of what is gone is usable, and the next
//! pass goes on: it deletes what no manifest names and ends before the archive begins.

use std::sync::Arc;

use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_xstore::{Store, StoreErrorKind};

use crate::archive::Archive;
use crate::backup::{Backup, BackupEntry, BackupSummary, delete_backup};
use crate::format::RunId;
use crate::lease::{BACKUP_LEASE, Lease, LeaseKind};
use crate::manifest::RunMeta;
use crate::view::View;

/// The folder of marks, with its slash.
const MARKS: &str = "expiring/";
/// How often a create is tried whose outcome is not known.
const TRIES: u32 = 3;
/// A backup that was begun so long ago and is not complete is under way no more, in microseconds.
const STALE_US: i64 = 48 * 3600 * 1_000_000;
/// A restore whose lease is so old is said to be perhaps over, in microseconds.
const OLD_LEASE_US: i64 = 24 * 3600 * 1_000_000;

/// The oldest promised point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promise {
    /// The cut: everything below it counts.
    pub point: Lsn,
    /// The transaction stream is read from here on for it: its checkpoint, and what undoes what was unfinished.
    pub from: Lsn,
    /// Of that, what undoes: page records from here on are read one by one.
    pub undo_from: Lsn,
}

/// What may go, and why not more.
#[derive(Clone, Debug, Default)]
pub struct RetentionPlan {
    /// Log and archive from here on are kept; none: nothing may go.
    pub keep_from: Lsn,
    /// No state of a page or a transaction below it may be asked for: records that a later one, below it, makes superfluous
    /// need not be kept; see [`MergePolicy::retention`](crate::MergePolicy::retention).
    pub leave_out_below: Lsn,
    /// Backups that end before it go: the end of the base.
    pub backups_before: Lsn,
    /// The backup that the oldest promised point is made of; none: of the archive alone, or it cannot be made.
    pub base: Option<String>,
    pub runs: Vec<RunMeta>,
    /// Name and bytes; incomplete ones of long ago among them.
    pub backups: Vec<(String, u64)>,
    /// What keeps more than the promised points do, and what was passed over; for people.
    pub held_by: Vec<String>,
}

impl RetentionPlan {
    /// Bytes of everything that goes.
    pub fn bytes(&self) -> u64 {
        self.runs.iter().map(|run| run.len).sum::<u64>() + self.backups.iter().map(|(_, bytes)| bytes).sum::<u64>()
    }
}

/// What a plan is made of.
pub struct Retention<'a> {
    pub view: &'a View,
    /// Where the database's first record is: an archive that begins there or before has every page.
    pub first_lsn: Lsn,
    /// All of the place, complete or not.
    pub backups: &'a [BackupEntry],
    pub leases: &'a [Lease],
    /// None: everything is promised.
    pub promise: Option<Promise>,
    /// What else is in use from an LSN on, in words: restores and backups under way.
    pub in_use: &'a [(String, Lsn)],
    /// Name of the backup that is being made, however long ago it was begun.
    pub running: Option<&'a str>,
    /// Microseconds since 2000-01-01 UTC.
    pub now_us: i64,
    /// Whether a backup can be read, as far as that is seen without reading all of it.
    pub is_whole: &'a dyn Fn(&str) -> Result<()>,
}

impl Retention<'_> {
    /// Decides what may go.
    ///
    /// # Errors
    /// `Io` when a backup cannot be reached; one that is damaged is passed over.
    pub fn plan(&self) -> Result<RetentionPlan> {
        let mut plan = RetentionPlan::default();
        let start = self.view.start();
        let Some(promise) = self.promise.filter(|_| start.is_some()) else { return Ok(plan) };
        let mut keep_from = match self.base(promise.point, &mut plan)? {
            Some((name, begin, end)) => {
                plan.base = Some(name);
                plan.backups_before = end;
                // The newest one stays, whatever it was begun with, and the one that is taken first, which lacks no pages.
                let usable = self.usable();
                let first = usable.iter().max_by_key(|summary| summary.rank());
                let stay = usable.last().into_iter().chain(first).map(|summary| summary.begin).min();
                begin.min(promise.from).min(stay.unwrap_or(begin))
            }
            None => start,
        };
        plan.leave_out_below = promise.point.min(promise.undo_from);
        for lease in self.leases {
            let from = self.needed_by(lease, start);
            if lease.backup.is_some() && from == start {
                // Perhaps its backup cannot be read now.
                plan.backups_before = Lsn::NONE;
            }
            plan.leave_out_below = plan.leave_out_below.min(lease.cut).min(lease.undo_from);
            if from < keep_from {
                plan.held_by.push(self.told(lease, from));
            }
            keep_from = keep_from.min(from);
        }
        for (what, from) in self.in_use {
            if *from < keep_from {
                plan.held_by.push(format!("{what} needs the archive from LSN {from} on"));
            }
            keep_from = keep_from.min(*from);
            plan.leave_out_below = plan.leave_out_below.min(*from);
        }
        plan.keep_from = keep_from;
        plan.runs = self.view.manifest().runs.iter().take_while(|run| run.id.end <= keep_from).copied().collect();
        for entry in self.backups {
            let Ok(summary) = &entry.summary else { continue };
            if summary.database != self.view.manifest().database {
                continue;
            }
            let over = match entry.complete {
                true => {
                    let named = self.leases.iter().any(|lease| lease.backup.as_ref() == Some(&entry.name));
                    let needless = summary.begin < keep_from || summary.end < plan.backups_before;
                    plan.base.is_some() && needless && !named
                }
                false => {
                    let is_running = self.running == Some(entry.name.as_str()) || self.is_leased(&entry.name);
                    !is_running && summary.started_us < self.now_us.saturating_sub(STALE_US)
                }
            };
            if over {
                plan.backups.push((entry.name.clone(), summary.bytes()));
            }
        }
        Ok(plan)
    }

    /// Complete backups whose log the archive has: that with the highest end last.
    fn usable(&self) -> Vec<&BackupSummary> {
        let (start, database) = (self.view.start(), self.view.manifest().database);
        let complete = self.backups.iter().filter(|entry| entry.complete);
        let mut usable: Vec<_> = complete
            .filter_map(|entry| entry.summary.as_ref().ok())
            .filter(|summary| summary.database == database && summary.begin >= start && summary.end <= self.view.end())
            .collect();
        usable.sort_by_key(|summary| (summary.end, summary.begin));
        usable
    }

    /// The newest backup of which every promised point can be made, and where its log begins.
    fn base(&self, point: Lsn, plan: &mut RetentionPlan) -> Result<Option<(String, Lsn, Lsn)>> {
        for summary in self.usable().into_iter().rev().filter(|summary| summary.end <= point) {
            let name = &summary.name;
            if summary.damaged > 0 {
                plan.held_by
                    .push(format!("backup {name} lacks {} damaged pages: an older one is kept", summary.damaged));
                continue;
            }
            match (self.is_whole)(name) {
                Ok(()) => return Ok(Some((name.clone(), summary.begin, summary.end))),
                Err(error) if error.kind() == ErrorKind::Io => return Err(error),
                Err(error) => plan.held_by.push(format!("backup {name} is damaged, an older one is kept: {error}")),
            }
        }
        if self.view.start() > self.first_lsn {
            plan.held_by.push(format!(
                "no complete backup ends at or before the oldest promised point, LSN {point}: nothing is given up"
            ));
        }
        Ok(None)
    }

    /// Whether a server says that it is making that backup.
    fn is_leased(&self, backup: &str) -> bool {
        let of = |lease: &Lease| lease.name.strip_prefix(BACKUP_LEASE).is_some_and(|name| name.starts_with(backup));
        self.leases.iter().any(of)
    }

    /// From where on a lease needs the archive: everything, where that is not known.
    fn needed_by(&self, lease: &Lease, start: Lsn) -> Lsn {
        let backup = lease.backup.as_ref().and_then(|name| {
            let entry = self.backups.iter().find(|entry| entry.name == *name && entry.complete)?;
            entry.summary.as_ref().ok()
        });
        backup.map_or(start, |summary| summary.begin.min(lease.undo_from).min(lease.cut))
    }

    fn told(&self, lease: &Lease, from: Lsn) -> String {
        let age_us = self.now_us.saturating_sub(lease.created_us);
        let hours = age_us / (3600 * 1_000_000);
        let what = match lease.kind {
            LeaseKind::Restore if age_us > OLD_LEASE_US => "a restore that is perhaps over",
            kind => kind.name(),
        };
        format!(
            "lease \"{}\" ({what}, {hours} hours old) needs the archive from LSN {from} on; \
             \"resurgam clone --forget {}\" gives it back",
            lease.name, lease.name
        )
    }
}

/// What is about to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// Log below the LSN, and backups that need it.
    Log,
    /// Backups that end before the LSN.
    Backups,
    /// States of pages below the LSN.
    States,
}

impl MarkKind {
    fn letter(self) -> char {
        match self {
            Self::Log => 'L',
            Self::Backups => 'B',
            Self::States => 'S',
        }
    }
}

/// A mark: something is about to become unreachable. See the module.
pub struct Mark {
    store: Arc<dyn Store>,
    name: String,
}

impl Mark {
    /// Says what is about to go; leases are to be listed after this. `nonce` is a random number.
    ///
    /// # Errors
    /// Those of the store.
    pub fn announce(store: &Arc<dyn Store>, kind: MarkKind, lsn: Lsn, nonce: u64) -> Result<Self> {
        let name = format!("{MARKS}{}-{:016X}-{nonce:016X}", kind.letter(), lsn.0);
        for tried in 0.. {
            match store.put(&name, b"expiring") {
                Ok(()) => break,
                // Of the try before, whose outcome was not known.
                Err(error) if error.kind() == StoreErrorKind::Exists => break,
                Err(error) if error.kind() == StoreErrorKind::Uncertain && tried < TRIES => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Self { store: Arc::clone(store), name })
    }

    /// The highest LSN of that kind below which something is being given up now, or was when its process ended.
    ///
    /// # Errors
    /// Those of the store.
    pub fn highest(store: &dyn Store, kind: MarkKind) -> Result<Lsn> {
        let marks = store.list(MARKS)?;
        Ok(marks.iter().filter_map(|name| lsn_of(name, kind)).max().unwrap_or_default())
    }

    /// It is over.
    pub fn remove(self) {
        // One that stays is in the way only of leases of what is no longer promised.
        let _ = self.store.delete(&self.name);
    }

    /// Removes marks that say nothing any more: the archive begins at or behind them.
    fn tidy(store: &dyn Store, start: Lsn) -> Result<()> {
        for name in store.list(MARKS)? {
            let kinds = [MarkKind::Log, MarkKind::Backups, MarkKind::States];
            let lsn = kinds.into_iter().find_map(|kind| lsn_of(&name, kind));
            if lsn.is_none_or(|lsn| lsn <= start) {
                store.delete(&name)?;
            }
        }
        Ok(())
    }
}

fn lsn_of(name: &str, kind: MarkKind) -> Option<Lsn> {
    let (lsn, _) = name.strip_prefix(MARKS)?.strip_prefix(kind.letter())?.strip_prefix('-')?.split_once('-')?;
    u64::from_str_radix(lsn, 16).ok().map(Lsn)
}

/// What a pass has given up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GivenUp {
    pub runs: u64,
    pub backups: u64,
    pub bytes: u64,
}

/// Marks of what a plan gives up.
pub struct Marks([Mark; 2]);

impl Marks {
    /// Says that `plan` is about to be carried out; it is to be made again from leases that are listed after this.
    ///
    /// # Errors
    /// Those of the store.
    pub fn announce(store: &Arc<dyn Store>, plan: &RetentionPlan, nonce: u64) -> Result<Self> {
        let log = Mark::announce(store, MarkKind::Log, plan.keep_from, nonce)?;
        match Mark::announce(store, MarkKind::Backups, plan.backups_before, nonce) {
            Ok(backups) => Ok(Self([log, backups])),
            Err(error) => {
                log.remove();
                Err(error)
            }
        }
    }

    /// It is over.
    pub fn remove(self) {
        self.0.into_iter().for_each(Mark::remove);
    }
}

impl Archive {
    /// Gives up what `plan` says: the plan was made from leases that were listed after [`Marks`] of it, or of one that gives up
    /// more, were made. May be called again after an error.
    ///
    /// # Errors
    /// `InUse` when somebody else has taken the archive over; those of the stores.
    pub fn give_up(&self, plan: &RetentionPlan, backups: Option<&Arc<dyn Store>>) -> Result<GivenUp> {
        let mut given_up = GivenUp::default();
        if plan.keep_from.is_none() {
            return Ok(given_up);
        }
        let before = self.view();
        if !plan.runs.is_empty() {
            self.give_up_before(plan.keep_from)?;
        }
        let start = self.view().start();
        for run in before.manifest().runs.iter().filter(|run| run.id.end <= start) {
            given_up.runs += 1;
            given_up.bytes += run.len;
        }
        drop(before);
        // Those that no reader in this process uses; the others at the next pass.
        self.delete_replaced()?;
        if let Some(store) = backups {
            for (name, bytes) in &plan.backups {
                delete_backup(store, name)?;
                given_up.backups += 1;
                given_up.bytes += bytes;
            }
        }
        Mark::tidy(&*self.store, start)?;
        Ok(given_up)
    }

    /// Deletes runs that no manifest names and that end where the archive begins or before: of a pass that was interrupted.
    /// For who has no readers of its own.
    ///
    /// # Errors
    /// Those of the store.
    pub fn delete_expired(&self) -> Result<()> {
        let view = self.view();
        let named: Vec<String> = view.manifest().runs.iter().map(|run| run.id.name()).collect();
        for name in self.store.list("runs/")? {
            if RunId::end_in_name(&name).is_some_and(|end| end <= view.start()) && !named.contains(&name) {
                self.store.delete(&name)?;
            }
        }
        Ok(())
    }
}

impl Lease {
    /// To be called after it was created, and before it is relied upon: whether what it needs is there and stays. `start` is
    /// where the archive began when that was looked up.
    ///
    /// # Errors
    /// `NotInPrerequisiteState` when it is being given up, or was; those of the stores.
    pub fn check(&self, store: &Arc<dyn Store>, backups: Option<&Arc<dyn Store>>, start: Lsn) -> Result<()> {
        let gone = |what: String| {
            Err(Error::new(ErrorKind::NotInPrerequisiteState, what)
                .with_hint("Points before the recovery window are given up. Take a later one, or try again."))
        };
        // Marks first: what was given up before they went is in the manifest.
        let mark = |kind| Mark::highest(&**store, kind);
        let (log, ended, states) = (mark(MarkKind::Log)?, mark(MarkKind::Backups)?, mark(MarkKind::States)?);
        let Some(view) = Archive::open_view(Arc::clone(store), Some(self.database))? else {
            return gone(format!("there is no archive in {} any more", store.place()));
        };
        let state = self.cut.min(self.undo_from);
        let (from, end) = match (&self.backup, backups) {
            (Some(name), Some(backups)) => {
                let backup = Backup::open(backups, name)?;
                (backup.summary().begin.min(state), backup.summary().end)
            }
            _ => (start, Lsn(u64::MAX)),
        };
        let complete_from = view.manifest().runs.iter().map(|run| run.complete_from).max().unwrap_or_default();
        if log > from || ended > end || view.start() > from || states > state || complete_from >= state {
            return gone(format!("what leads to LSN {} in the archive is being given up", self.cut));
        }
        Ok(())
    }
}
