//! The folder of a database that is made as of a point: its log begins with a checkpoint of what analysis found, so that
//! opening it is ordinary recovery.
//!
//! # Order
//! 1. `restoring`, the marker, is durable: a folder with it is not opened; the next attempt starts over.
//! 2. The log, with its first checkpoint; `parent`, that says of what it is made; the version-store file's header and place; the data file with the boot page; pages,
//!    or the `restore` file that says where they come from. All synced.
//! 3. `control`; then the marker goes.
//!
//! A crash leaves a folder with the marker, or a whole one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use resurgam_archive::{ParentRecord, View};
use resurgam_base::{Error, ErrorKind, Lsn, Result, limits::PAGE_SIZE};
use resurgam_log::{Log, LogConfig};
use resurgam_page::boot::{self, Boot};
use resurgam_page::version_file::{self, VersionFileHeader};
use resurgam_recovery::{
    Analysis, CheckpointState, Control, ControlFile, Identity, Parent, VersionRecord, append_checkpoint,
};
use resurgam_vfs::{File, FileLock, OpenMode, Vfs};

use super::links::LINKS;
use super::marker::{self, RESTORING};
use super::undo;
use crate::restore::lineage::{self, PARENT};
use crate::restore::room::{self, Wanted};

const LOG: &str = "log";
/// Name of the version-store file, unless another place is given.
const VERSIONS: &str = "versions";
/// What an attempt leaves, beside the log's segments.
const OWN: [&str; 13] = [
    "control",
    "data",
    "doublewrite",
    "version-store",
    "version-store.new",
    VERSIONS,
    "restore",
    "restore.new",
    "restored-segments",
    "log-place",
    PARENT,
    "parent.resurgam-new",
    LINKS,
];

/// A folder that is being made.
pub(crate) struct NewFolder {
    vfs: Arc<dyn Vfs>,
    dir: PathBuf,
    /// Kept until it is made.
    _lock: Box<dyn FileLock>,
    pub data: Arc<dyn File>,
    /// Number and file of the version store, if the database has one of its own.
    pub version: Option<(u32, Arc<dyn File>)>,
    control: Control,
}

/// What it is made of.
pub(crate) struct Content<'a> {
    pub analysis: &'a Analysis,
    pub view: &'a Arc<View>,
    pub cut: Lsn,
    /// The new database, and the one that it is made of.
    pub database_id: [u8; 16],
    pub parent: [u8; 16],
    /// Of the new log.
    pub segment_bytes: u64,
    /// Where the version-store file is to be; relative to the folder.
    pub version_store_path: Option<&'a Path>,
    /// What the folder says of the parent.
    pub record: Option<&'a ParentRecord>,
    /// All of its pages come there sooner or later.
    pub takes_room: bool,
}

impl NewFolder {
    /// Begins: everything but the pages and the control file.
    ///
    /// # Errors
    /// `InvalidParameter` for a folder that is not empty; `InUse`; those of reading the archive and of writing.
    pub fn begin(vfs: &Arc<dyn Vfs>, dir: &Path, content: &Content<'_>) -> Result<Self> {
        if content.takes_room {
            look_for_room(vfs, dir, content)?;
        }
        let lock = take_folder(vfs, dir)?;
        let Content { analysis, view, cut, database_id: id, parent, .. } = *content;
        let identity = analysis.identity.as_ref().ok_or_else(|| Error::internal("the point has no identity"))?;
        let now = vfs.wall_clock_us();
        let boot = Boot { database_id: id, created_us: now, ..identity.boot.clone() };
        let epoch = analysis.end.epoch.max(identity.epoch).checked_add(1);
        let epoch = epoch.ok_or_else(|| Error::corrupt("the archive's last log epoch is impossible"))?;
        let mut control = Control {
            checkpoint: Lsn::NONE,
            epoch,
            segment_bytes: content.segment_bytes,
            clean: false,
            traditional: identity.traditional,
        };
        let version = version_store(vfs, dir, content, epoch)?;
        let record = match &version {
            Some((record, _)) => Some(record.clone()),
            None => analysis.version_store.clone(),
        };
        let config = LogConfig { segment_bytes: control.segment_bytes, ..LogConfig::default() };
        let log_dir = dir.join(LOG);
        let log = Log::create_at(Arc::clone(vfs), &log_dir, config, epoch, cut)?;
        let parent = Parent { database_id: parent, cut, made_us: now };
        let mut state = state_of(vfs, dir, analysis, &log, view)?;
        state.identity = Some(Identity::new(boot.clone(), &control, Some(parent)));
        state.version_store = record;
        control.checkpoint = append_checkpoint(&log, &state)?;
        log.close()?;
        vfs.sync_dir(&log_dir)?;
        if let Some(record) = content.record {
            lineage::write(vfs, dir, record)?;
        }

        let data = vfs.open(&dir.join("data"), OpenMode::Create)?;
        data.set_len(analysis.high_water.max(1) * PAGE_SIZE as u64)?;
        data.write_at(boot::page(&boot, control.checkpoint)?.as_bytes(), 0)?;
        data.sync()?;
        let version = version.map(|(record, file)| (record.number, file));
        Ok(Self { vfs: Arc::clone(vfs), dir: dir.to_path_buf(), _lock: lock, data, version, control })
    }

    /// Everything is written: makes it a database.
    ///
    /// # Errors
    /// Those of writing.
    pub fn finish(self) -> Result<()> {
        let Self { vfs, dir, .. } = &self;
        self.data.sync()?;
        if let Some((_, file)) = &self.version {
            file.sync()?;
        }
        vfs.sync_dir(dir)?;
        ControlFile::create(vfs, &dir.join("control"), self.control)?;
        vfs.sync_dir(dir)?;
        vfs.remove(&dir.join(RESTORING))?;
        vfs.sync_dir(dir)
    }
}

/// That there is room for all pages, where an unfinished attempt gives its own back.
fn look_for_room(vfs: &Arc<dyn Vfs>, dir: &Path, content: &Content<'_>) -> Result<()> {
    let left = |name: &str| -> Result<u64> {
        let path = dir.join(name);
        let again = vfs.exists(&dir.join(RESTORING))? && vfs.exists(&path)?;
        if again { vfs.open(&path, OpenMode::ReadOnly)?.allocated() } else { Ok(0) }
    };
    let Content { analysis, version_store_path: path, .. } = *content;
    let data = Wanted { folder: dir, pages: analysis.high_water.max(1), given_back: left("data")? + left(VERSIONS)? };
    let versions = dir.join(path.unwrap_or(Path::new(VERSIONS)));
    let pages = analysis.version_high_water.in_file();
    let pages = if analysis.version_high_water.file() > 0 { pages } else { 0 };
    let versions = Wanted { folder: versions.parent().unwrap_or(dir), pages, given_back: 0 };
    room::check(vfs, &[data, versions])
}

/// Takes an empty folder, or one that an unfinished attempt has left, and marks it.
fn take_folder(vfs: &Arc<dyn Vfs>, dir: &Path) -> Result<Box<dyn FileLock>> {
    vfs.make_folder(dir)?;
    let names = || -> Result<Vec<String>> {
        let mut names = vfs.list(dir)?;
        names.retain(|name| name != "lock" && name != "lost+found");
        Ok(names)
    };
    let not_empty = || {
        Error::new(ErrorKind::InvalidParameter, format!("the target folder \"{}\" is not empty", dir.display()))
            .with_hint("Name an empty or new folder.")
    };
    let found = names()?;
    let again = found.iter().any(|name| name == RESTORING);
    let own = |name: &String| name == RESTORING || name == LOG || OWN.contains(&name.as_str());
    if !(found.is_empty() || again && found.iter().all(own)) {
        return Err(not_empty());
    }
    vfs.keep_private(dir, found.is_empty())?;
    let lock = vfs.lock(&dir.join("lock")).map_err(|error| match error.kind() {
        ErrorKind::InUse => Error::new(
            ErrorKind::InUse,
            format!("the target folder \"{}\" is in use by another process", dir.display()),
        ),
        _ => error,
    })?;
    // Another one may have made it whole before the lock was ours.
    let found = names()?;
    if !found.is_empty() && !found.iter().any(|name| name == RESTORING) {
        return Err(not_empty());
    }
    marker::remove_leftover(vfs, dir)?;
    marker::begin(vfs, dir)?;
    for name in OWN.iter().filter(|name| found.iter().any(|found| found == *name)) {
        vfs.remove(&dir.join(name))?;
    }
    let log = dir.join(LOG);
    if vfs.exists(&log)? {
        for name in vfs.list(&log)? {
            vfs.remove(&log.join(name))?;
        }
    }
    vfs.sync_dir(dir)?;
    Ok(lock)
}

/// Makes the version-store file, sparse, and notes where it is; none where the database has none of its own at the cut.
fn version_store(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    content: &Content<'_>,
    epoch: u32,
) -> Result<Option<(VersionRecord, Arc<dyn File>)>> {
    let Content { analysis, database_id, .. } = *content;
    let noted = analysis.version_store.as_ref();
    let high_water = analysis.version_high_water;
    let logged = u32::try_from(high_water.file()).unwrap_or(u32::MAX);
    let number = noted.map_or(0, |record| record.number).max(logged);
    let given_up = noted.is_none_or(|record| record.path.is_none() && record.number >= logged);
    if number == 0 || (given_up && noted.is_some()) {
        return Ok(None);
    }
    let path = content.version_store_path.unwrap_or(Path::new(VERSIONS));
    let full = dir.join(path);
    if content.version_store_path.is_some() && vfs.exists(&full)? {
        return Err(Error::new(
            ErrorKind::InvalidParameter,
            format!("the version-store file \"{}\" exists already", full.display()),
        )
        .with_hint("Name a file that does not exist yet; it is made."));
    }
    if content.version_store_path.is_some() {
        // As it is found from wherever the next attempt is made.
        let absolute = std::path::absolute(&full).unwrap_or_else(|_| full.clone());
        marker::note(vfs, dir, &database_id, &absolute)?;
    }
    let header = VersionFileHeader { number, database_id, created_us: vfs.wall_clock_us(), epoch };
    let mut page = vec![0; PAGE_SIZE];
    page[..version_file::SIZE].copy_from_slice(&header.encode());
    let file = vfs.open(&full, OpenMode::Create)?;
    let pages = if high_water.file() == u64::from(number) { high_water.in_file() } else { 1 };
    file.set_len(pages.max(1) * PAGE_SIZE as u64)?;
    file.write_at(&page, 0)?;
    file.sync()?;
    vfs.sync_dir(full.parent().unwrap_or(Path::new("")))?;
    let record = VersionRecord { number, path: Some(path.to_path_buf()) };
    record.write(vfs, dir)?;
    Ok(Some((record, file)))
}

/// What the first checkpoint says: no page is dirty, those that were active at the cut are aborted (in the map), to be undone,
/// or in doubt.
fn state_of(
    vfs: &Arc<dyn Vfs>,
    dir: &Path,
    analysis: &Analysis,
    log: &Log,
    view: &Arc<View>,
) -> Result<CheckpointState> {
    let mut state = CheckpointState {
        next_id: analysis.next_id,
        high_water: analysis.high_water,
        version_high_water: analysis.version_high_water,
        next_object: analysis.next_object,
        aborted: analysis.aborted.clone(),
        aborted_details: analysis.aborted_details.iter().copied().collect(),
        ..CheckpointState::default()
    };
    let losers = analysis.losers.iter().map(|(id, loser)| (*id, loser.chain));
    let prepared = analysis.prepared.iter().map(|tx| (tx.id, tx.chain));
    let chains = losers.chain(prepared).filter(|(_, chain)| chain.first.is_some()).collect();
    let chains = undo::copy(vfs, dir, log, view, analysis.end.lsn, &chains)?;
    state.undo = chains.into_iter().collect();
    for (id, loser) in &analysis.losers {
        state.active.push((*id, *id));
        state.active.extend(loser.subs.iter().copied());
        state.undo_subs.extend(loser.subs.iter().map(|(first, last)| (*id, *first, *last)));
    }
    for tx in &analysis.prepared {
        state.active.push((tx.id, tx.id));
        state.active.extend(tx.subs.iter().copied());
        state.add_prepared(tx);
    }
    Ok(state)
}
