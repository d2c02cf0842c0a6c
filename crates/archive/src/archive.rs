//! The archive that one process writes: its newest manifest, and the steps from one to the next.
//!
//! # Order
//! A run is published (written, synced, named, its folder synced) before the manifest that names it; a file that a manifest no
//! longer names is deleted after that manifest is durable, and when no view in this process uses it. So the newest manifest's
//! runs are all there, whole, at any moment.
//!
//! # Taking over
//! [`Archive::open`] creates the next manifest, in its own name. What an earlier writer has published and no manifest names is
//! garbage from then on: that writer, should it still run, finds the next number taken and stops. Manifests that were seen by
//! the opening are durable once the claim is: it is in the same folder.
//!
//! # Several processes
//! One appends runs, and may merge and give up as well ([`Archive::open_to_append`], or who has opened it whole); others merge and give up beside it
//! ([`Archive::open_beside`]), under its number. What each of them is held to:
//! 1. **The highest number counts.** Old manifests are deleted, so a number that somebody was slow to take may be free again. A create counts
//!    only if no higher number is there afterwards; otherwise it was made beside the history, and the step is tried again from the newest manifest.
//! 2. **A name has one maker.** Generations are of the manifest that the maker has seen, and of the maker: who finds a name taken may delete it.
//! 3. **Who replaced it deletes it**, when no view of its own uses it: others may be reading what they have replaced. Where the outcome of a step is not known, what it
//!    would have replaced is looked for in the next manifest that is seen: what that does not name is deleted, since perhaps nobody else would.
//! 4. **A claim deletes what cannot count any more**: runs without a manifest of generations before its own number. Their makers find that
//!    the archive was taken over; what is of later generations is another claim's, and this one may have slept since.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::Mutex;
use resurgam_base::{Error, ErrorKind, Lsn, Result};
use resurgam_xstore::{Store, StoreError, StoreErrorKind};

use crate::format::{DatabaseId, RunId};
use crate::manifest::{FOLDER, MANIFEST_BYTES_MAX, Manifest, RunMeta};
use crate::view::{RunHandle, View};
use crate::writer::NotMade;

/// Manifests that are kept beside the newest: for people, after a mishap.
const MANIFESTS_KEPT: u64 = 8;
/// Generations: the number of the manifest, and below so many bits what distinguishes files that are made between two manifests.
const GENERATION_BITS: u32 = 32;
/// Of who is not the writer.
const BESIDE: u64 = 1 << 31;
/// How often a create is tried whose outcome is not known.
const TRIES: u32 = 3;

/// See the module.
pub struct Archive {
    pub(crate) store: Arc<dyn Store>,
    database: DatabaseId,
    owner: u64,
    /// The newest manifest. A leaf: readers never wait for a store that is slow.
    view: Mutex<Arc<View>>,
    /// Held while a manifest is made.
    state: Mutex<State>,
    /// No merge is wanted any more.
    merges_stop: AtomicBool,
    pub(crate) merging: Merging,
    part: Part,
}

/// How far a merge is: records of pages that are through, of how many; nothing while there is none.
#[derive(Default)]
pub(crate) struct Merging {
    done: AtomicU64,
    total: AtomicU64,
}

impl Merging {
    /// One with so many records begins; it is under way for as long as what is returned is there.
    pub fn begin(&self, records: u64) -> UnderWay<'_> {
        self.done.store(0, Ordering::Relaxed);
        self.total.store(records.max(1), Ordering::Relaxed);
        UnderWay(self)
    }

    pub fn through(&self, records: u64) {
        self.done.fetch_add(records, Ordering::Relaxed);
    }
}

/// A merge that is under way.
pub(crate) struct UnderWay<'a>(&'a Merging);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.total.store(0, Ordering::Relaxed);
    }
}

/// What one process does of what is done to an archive.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Everything, as the only one.
    Whole,
    /// Everything, and others may merge and give up beside it, who delete themselves what they have replaced.
    Appends,
    /// All but adding runs and deleting old manifests, beside the writer and under its number. Of the runs that it makes the generations have this nonce.
    Beside { nonce: u32 },
}

#[derive(Default)]
struct State {
    /// Files that no manifest names any more, by a step of this process (or, where it is the only one, by anybody's).
    replaced: Vec<Arc<RunHandle>>,
    /// Files of steps whose outcome is not known: what they would have replaced, and put in its place. The next manifest that is seen says which of them are over.
    perhaps: Vec<Arc<RunHandle>>,
    /// Distinguishes files that are made between two manifests.
    attempts: u64,
    /// Somebody else has taken the archive over.
    lost: bool,
}

/// What one call has put that may count.
struct Steps {
    files: Vec<Arc<RunHandle>>,
    /// A manifest was seen since that says which of them do.
    is_known: bool,
}

impl Default for Steps {
    fn default() -> Self {
        Self { files: Vec::new(), is_known: true }
    }
}

/// Adds those that are not there yet.
fn note(noted: &mut Vec<Arc<RunHandle>>, files: Vec<Arc<RunHandle>>) {
    for file in files {
        if !noted.iter().any(|known| known.meta == file.meta) {
            noted.push(file);
        }
    }
}

impl Archive {
    /// Opens the archive of `database` for writing, as its only writer from now on; an empty place becomes an empty archive.
    /// `owner` is a random number that is drawn for each opening, and is not 0.
    ///
    /// # Errors
    /// `NotADatabase` when it is another database's; `Corrupt`, naming the object, when the newest manifest is damaged;
    /// `InUse` when somebody else opens it at the same moment; those of the store.
    pub fn open(store: Arc<dyn Store>, database: DatabaseId, owner: u64) -> Result<Arc<Self>> {
        Self::open_as(store, database, owner, Part::Whole, None)
    }

    /// The same where others may merge and give up beside it ([`Archive::open_beside`]): what they have replaced is left to them. `end`: where the
    /// archive is expected to end, if not anywhere.
    ///
    /// # Errors
    /// As [`Archive::open`]; `Io` where it ends elsewhere: nothing was claimed then.
    pub fn open_to_append(
        store: Arc<dyn Store>,
        database: DatabaseId,
        owner: u64,
        end: Option<Lsn>,
    ) -> Result<Arc<Self>> {
        Self::open_as(store, database, owner, Part::Appends, end)
    }

    fn open_as(
        store: Arc<dyn Store>,
        database: DatabaseId,
        owner: u64,
        part: Part,
        end: Option<Lsn>,
    ) -> Result<Arc<Self>> {
        let manifest = newest(&*store, database)?.unwrap_or(Manifest {
            database,
            number: 0,
            owner: 0,
            start: Lsn::NONE,
            runs: Vec::new(),
        });
        let handles = manifest.runs.iter().map(|meta| RunHandle::new(Arc::clone(&store), *meta)).collect();
        let view = Mutex::new(Arc::new(View { manifest, handles }));
        let archive = Arc::new(Self {
            store,
            database,
            owner,
            view,
            state: Mutex::default(),
            merges_stop: AtomicBool::new(false),
            merging: Merging::default(),
            part,
        });
        archive.publish(|manifest| {
            // Who adds a run from here on takes the number of the claim, which then fails.
            if end.is_some_and(|end| end != manifest.end()) {
                let what = "the archive has grown before it was claimed: it is looked at again";
                return Err(Error::new(ErrorKind::Io, what));
            }
            Ok(Some(manifest.clone()))
        })?;
        // What is left behind does no harm but for its room; the next opening tries again.
        let _ = archive.tidy();
        Ok(archive)
    }

    /// The archive in a place whose writer may be at work: steps made through this one are taken for the writer's own, which
    /// goes on from them. Nothing is claimed, and nothing is deleted but what is given up or merged here. `nonce`: random, of this opening;
    /// of two that merge at one time each finds what the other has done. None: there is no archive.
    ///
    /// # Errors
    /// As [`Archive::open_view`].
    pub fn open_beside(store: Arc<dyn Store>, nonce: u64) -> Result<Option<Arc<Self>>> {
        let Some(view) = Self::open_view(Arc::clone(&store), None)? else { return Ok(None) };
        let (database, owner) = (view.manifest.database, view.manifest.owner);
        let (view, state) = (Mutex::new(view), Mutex::default());
        Ok(Some(Arc::new(Self {
            store,
            database,
            owner,
            view,
            state,
            merges_stop: AtomicBool::new(false),
            merging: Merging::default(),
            part: Part::Beside { nonce: nonce as u32 },
        })))
    }

    /// A view of the archive of `database` for reading, by who is not its writer; none if there is no archive. Files may be
    /// replaced while it is read: a `Missing` file means to open it again.
    ///
    /// # Errors
    /// As [`Archive::open`].
    pub fn open_view(store: Arc<dyn Store>, database: Option<DatabaseId>) -> Result<Option<Arc<View>>> {
        let manifest = match (database, last_number(&*store)?) {
            (Some(database), _) => newest(&*store, database)?,
            (None, Some(number)) => Some(load(&*store, number)?),
            (None, None) => None,
        };
        Ok(manifest.map(|manifest| {
            let handles = manifest.runs.iter().map(|meta| RunHandle::new(Arc::clone(&store), *meta)).collect();
            Arc::new(View { manifest, handles })
        }))
    }

    /// Whose it is.
    pub fn database(&self) -> DatabaseId {
        self.database
    }

    /// Where it is.
    pub fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// What is durable in it now.
    pub fn view(&self) -> Arc<View> {
        Arc::clone(&self.view.lock())
    }

    /// Has a merge that is under way end at the next page, without an outcome, and none be begun: this archive is about to
    /// be closed. Nothing else is stopped.
    pub fn stop_merges(&self) {
        self.merges_stop.store(true, Ordering::SeqCst);
    }

    /// Whether merges are to end.
    ///
    /// # Errors
    /// `Cancelled` if so.
    pub(crate) fn check_merges(&self) -> Result<()> {
        if self.merges_are_stopped() {
            return Err(Error::new(ErrorKind::Cancelled, "the archive is being closed"));
        }
        Ok(())
    }

    /// Between two pieces of a merge: the caller may have it rest, and it may be given up.
    ///
    /// # Errors
    /// As [`Archive::check_merges`].
    pub(crate) fn next_piece(&self, rest: Option<&dyn Fn()>) -> Result<()> {
        if let Some(rest) = rest {
            rest();
        }
        self.check_merges()
    }

    /// How far the merge is that is under way here: records of pages that are written, of how many; then what is written is read again. None: there is
    /// none.
    pub fn merge_progress(&self) -> Option<(u64, u64)> {
        let total = self.merging.total.load(Ordering::Relaxed);
        (total > 0).then(|| (self.merging.done.load(Ordering::Relaxed).min(total), total))
    }

    /// Whether merges are to end, by [`Archive::stop_merges`].
    pub fn merges_are_stopped(&self) -> bool {
        self.merges_stop.load(Ordering::Relaxed)
    }

    /// Takes over steps that were made beside this writer ([`Archive::open_beside`]).
    ///
    /// # Errors
    /// `InUse` when somebody else has taken the archive over; those of the store.
    pub fn catch_up(&self) -> Result<()> {
        let mut state = self.state.lock();
        if !matches!(self.part, Part::Beside { .. }) {
            // The writer deletes old manifests itself: its next number is not given and free again, unless it was taken over, which its next step finds.
            let next = self.view().manifest.number + 1;
            match self.store.len(&Manifest::name_of(next)) {
                Ok(_) => {}
                Err(error) if error.kind() == StoreErrorKind::Missing => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
        match last_number(&*self.store)? {
            Some(newest) if newest > self.view().manifest.number => self.go_to(&mut state, newest).map(drop),
            _ => Ok(()),
        }
    }

    /// Goes on from the manifest of that number, the highest, which is to be this writer's.
    fn go_to(&self, state: &mut State, newest: u64) -> Result<Manifest> {
        let found = load(&*self.store, newest)?;
        if state.lost || found.owner != self.owner {
            state.lost = true;
            return Err(self.taken_over());
        }
        self.install(state, found.clone());
        Ok(found)
    }

    /// Draws the identity of a new file of that range.
    pub(crate) fn new_run(&self, level: u16, start: Lsn, end: Lsn) -> RunId {
        let mut state = self.state.lock();
        state.attempts += 1;
        // Of what was made before this manifest's number nothing has the same; numbers grow by openings and runs. (Earlier versions have shifted
        // by 24 bits: lower numbers all the same.)
        let low = match self.part {
            Part::Whole | Part::Appends => state.attempts & (BESIDE - 1),
            Part::Beside { nonce } => BESIDE | (u64::from(nonce).wrapping_add(state.attempts) & (BESIDE - 1)),
        };
        let generation = (self.view().manifest.number << GENERATION_BITS) | low;
        RunId { database: self.database, level, start, end, generation }
    }

    /// Goes from the newest manifest to the next one, which `edit` makes of it; none: nothing is to be done any more. `edit`
    /// is called again when it turns out that an earlier step was made whose outcome was not known.
    ///
    /// # Errors
    /// `InUse` when somebody else has taken the archive over; those of the store: the step may have been made if
    /// its outcome is not known, and the next call finds out.
    pub(crate) fn publish(&self, edit: impl Fn(&Manifest) -> Result<Option<Manifest>>) -> Result<()> {
        let mut state = self.state.lock();
        let mut made = Steps::default();
        let outcome = self.go_on(&mut state, &edit, &mut made);
        match made.is_known {
            true => self.settle(&mut state, made.files),
            false => note(&mut state.perhaps, made.files),
        }
        outcome
    }

    fn go_on(
        &self,
        state: &mut State,
        edit: &dyn Fn(&Manifest) -> Result<Option<Manifest>>,
        made: &mut Steps,
    ) -> Result<()> {
        let mut tries = 0;
        loop {
            if state.lost {
                return Err(self.taken_over());
            }
            let view = self.view();
            let now = &view.manifest;
            let Some(mut next) = edit(now)? else { return Ok(()) };
            (next.number, next.owner, next.database) = (now.number + 1, self.owner, self.database);
            next.check().map_err(|what| Error::internal(format!("the archive's next manifest is wrong: {what}")))?;
            let outcome = self.store.put(&Manifest::name_of(next.number), &next.encode());
            if outcome.as_ref().err().is_none_or(|error| error.kind() == StoreErrorKind::Uncertain) {
                made.is_known = false;
                note(&mut made.files, self.files_of(&view, &next));
            }
            match outcome {
                Ok(()) => {
                    let newest = self.newest_number()?;
                    if newest == next.number {
                        self.install(state, next);
                        made.is_known = true;
                        return Ok(());
                    }
                    // Others have gone on, or the number was free again: what counts is what the newest says.
                    self.go_to(state, newest)?;
                    made.is_known = true;
                }
                Err(error) if error.kind() == StoreErrorKind::Exists => {
                    // Our own, of a call whose outcome was not known, or of another one's part; it is durable now.
                    let newest = self.newest_number()?;
                    let found = self.go_to(state, newest)?;
                    made.is_known = true;
                    if found == next {
                        return Ok(());
                    }
                }
                Err(error) if error.kind() == StoreErrorKind::Uncertain && tries < TRIES => tries += 1,
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Files that a step from `view` to `next` replaces, and those that it puts in their place. Of a step that only adds a run, which is tried again, none.
    fn files_of(&self, view: &View, next: &Manifest) -> Vec<Arc<RunHandle>> {
        if self.part == Part::Whole {
            // Noted with the manifest.
            return Vec::new();
        }
        let gone = view.handles.iter().filter(|handle| !next.runs.contains(&handle.meta));
        let mut files: Vec<_> = gone.map(Arc::clone).collect();
        if !files.is_empty() {
            let new = next.runs.iter().filter(|run| !view.manifest.runs.contains(run));
            files.extend(new.map(|run| RunHandle::new(Arc::clone(&self.store), *run)));
        }
        files
    }

    /// The newest manifest that is known is one from after the steps that these files are of: those that it does not name are to be deleted.
    fn settle(&self, state: &mut State, files: Vec<Arc<RunHandle>>) {
        if files.is_empty() {
            return;
        }
        let view = self.view();
        let over = files.into_iter().filter(|handle| !view.manifest.runs.contains(&handle.meta));
        note(&mut state.replaced, over.collect());
    }

    fn newest_number(&self) -> Result<u64> {
        last_number(&*self.store)?.ok_or_else(|| {
            Error::new(ErrorKind::Io, format!("the manifests of the archive in {} are gone", self.store.place()))
        })
    }

    #[cold]
    fn taken_over(&self) -> Error {
        Error::new(ErrorKind::InUse, format!("another process writes to the archive in {} now", self.store.place()))
            .with_hint("Let one server only write to an archive; restart this one if the other is gone.")
    }

    fn install(&self, state: &mut State, manifest: Manifest) {
        let view = self.view();
        let old = &view.handles;
        let handles: Vec<_> = manifest
            .runs
            .iter()
            .map(|meta| {
                let known = old.iter().find(|handle| handle.meta == *meta);
                known.map_or_else(|| RunHandle::new(Arc::clone(&self.store), *meta), Arc::clone)
            })
            .collect();
        if self.part == Part::Whole {
            // Beside others nobody but who has replaced something deletes it.
            let gone = old.iter().filter(|handle| !manifest.runs.contains(&handle.meta)).map(Arc::clone);
            note(&mut state.replaced, gone.collect());
        }
        *self.view.lock() = Arc::new(View { manifest, handles });
        let perhaps = std::mem::take(&mut state.perhaps);
        self.settle(state, perhaps);
    }

    /// Files that are to be deleted, or perhaps are.
    #[cfg(test)]
    pub(crate) fn noted(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.replaced.len(), state.perhaps.len())
    }

    /// Deletes files that merges have replaced and no view uses any more, and manifests of long ago. Returns how many
    /// files are still to be deleted. What fails is tried again at the next call.
    ///
    /// # Errors
    /// Those of the store.
    pub fn delete_replaced(&self) -> Result<usize> {
        let (replaced, number) = {
            let mut state = self.state.lock();
            (std::mem::take(&mut state.replaced), self.view().manifest.number)
        };
        let mut failed = None;
        let mut left = Vec::new();
        for handle in replaced {
            let unused = failed.is_none() && Arc::strong_count(&handle) == 1;
            let deleted = unused.then(|| self.store.delete(&handle.meta.id.name()));
            match deleted {
                Some(Ok(())) => {}
                Some(Err(error)) => {
                    failed = Some(error);
                    left.push(handle);
                }
                None => left.push(handle),
            }
        }
        let count = left.len();
        self.state.lock().replaced.extend(left);
        if let Some(error) = failed {
            return Err(error.into());
        }
        if !matches!(self.part, Part::Beside { .. }) {
            self.delete_manifests(number)?;
        }
        Ok(count)
    }

    fn delete_manifests(&self, newest: u64) -> Result<()> {
        for name in self.store.list(FOLDER)? {
            if Manifest::number_of(&name).is_some_and(|number| number + MANIFESTS_KEPT < newest) {
                self.store.delete(&name)?;
            }
        }
        Ok(())
    }

    /// Deletes what earlier writers have left: unfinished files, and runs that no manifest names. Only after the claim.
    pub(crate) fn tidy(&self) -> Result<()> {
        let view = self.view();
        self.store.tidy("runs")?;
        self.store.tidy("manifests")?;
        let named: Vec<String> = view.manifest.runs.iter().map(|run| run.id.name()).collect();
        for name in self.store.list("runs/")? {
            let is_older = RunId::generation_in_name(&name)
                .is_none_or(|generation| generation >> GENERATION_BITS < view.manifest.number);
            if is_older && !named.contains(&name) {
                self.store.delete(&name)?;
            }
        }
        self.delete_manifests(view.manifest.number)
    }

    /// Puts a new run behind the last one, and says whether it is in the archive (false: one of the same range is, by an
    /// earlier call).
    pub(crate) fn append(&self, run: RunMeta) -> Result<bool> {
        self.publish(|now| {
            if now.end() >= run.id.end {
                return Ok(None);
            }
            if now.start.is_some() && now.end() > run.id.start {
                // A shorter one, of a call whose outcome was not known, has come to be there late.
                return Err(Error::new(
                    ErrorKind::SerializationFailure,
                    format!(
                        "the archive ends at LSN {} by now, within the run of {} to {}",
                        now.end(),
                        run.id.start,
                        run.id.end
                    ),
                ));
            }
            let mut next = now.clone();
            if next.start.is_none() {
                next.start = run.id.start;
            }
            next.runs.push(run);
            Ok(Some(next))
        })?;
        Ok(self.view().manifest.runs.contains(&run))
    }

    /// Gives up the runs that hold nothing from `lsn` on, so that the archive begins at `lsn` or before it: what was promised
    /// before can no longer be made. Returns where it begins now. Their files go with
    /// [`Archive::delete_replaced`].
    ///
    /// # Errors
    /// `InUse` when somebody else writes to the archive now; those of the store.
    pub fn give_up_before(&self, lsn: Lsn) -> Result<Lsn> {
        self.publish(|now| {
            let gone = now.runs.iter().take_while(|run| run.id.end <= lsn).count();
            let Some(start) = now.runs.get(..gone).and_then(|runs| runs.last()).map(|run| run.id.end) else {
                return Ok(None);
            };
            let mut next = now.clone();
            next.start = start;
            next.runs.drain(..gone);
            Ok(Some(next))
        })?;
        Ok(self.view().start())
    }

    /// Puts `run` in the place of `inputs`; false: they are no longer what the archive is made of.
    pub(crate) fn replace(&self, inputs: &[RunMeta], run: RunMeta) -> Result<bool> {
        self.publish(|now| {
            let Some(at) = now.runs.windows(inputs.len().max(1)).position(|window| window == inputs) else {
                return Ok(None);
            };
            let mut next = now.clone();
            next.runs.splice(at..at + inputs.len(), [run]);
            Ok(Some(next))
        })?;
        Ok(self.view().manifest.runs.contains(&run))
    }

    /// Deletes a file that no manifest can name; what fails is deleted at the next opening.
    pub(crate) fn discard(&self, run: &RunId) {
        let _ = self.store.delete(&run.name());
    }
}

/// Makes a run by `make`, which is given its identity, anew under another one when its name is taken.
pub(crate) fn make_run(
    archive: &Archive,
    level: u16,
    start: Lsn,
    end: Lsn,
    mut make: impl FnMut(RunId) -> Result<RunMeta, NotMade>,
) -> Result<RunMeta> {
    let mut last: Option<StoreError> = None;
    for _ in 0..TRIES {
        let id = archive.new_run(level, start, end);
        match make(id) {
            Ok(meta) => return Ok(meta),
            Err(NotMade::Store(error)) => match error.kind() {
                // An unnamed file that may be there is as good as one that is not.
                StoreErrorKind::Exists | StoreErrorKind::Uncertain => {
                    archive.discard(&id);
                    last = Some(error);
                }
                _ => return Err(error.into()),
            },
            Err(NotMade::Other(error)) => return Err(error),
        }
    }
    Err(last.map_or_else(|| Error::internal("a run was not made"), Error::from))
}

/// The highest number of a manifest.
fn last_number(store: &dyn Store) -> Result<Option<u64>> {
    Ok(store.list(FOLDER)?.iter().filter_map(|name| Manifest::number_of(name)).max())
}

fn load(store: &dyn Store, number: u64) -> Result<Manifest> {
    Manifest::decode(&store.get(&Manifest::name_of(number), MANIFEST_BYTES_MAX)?, number).map_err(|e| match e.kind() {
        ErrorKind::Corrupt => e.with_detail(format!("It is in {}.", store.place())).with_hint(
            "It says which runs count. Look at what is there with \"resurgam archive list\"; a copy of the object can be put in its place.",
        ),
        _ => e,
    })
}

/// The newest manifest, which must be of that database.
fn newest(store: &dyn Store, database: DatabaseId) -> Result<Option<Manifest>> {
    let Some(number) = last_number(store)? else { return Ok(None) };
    let manifest = load(store, number)?;
    if manifest.database != database {
        return Err(Error::new(
            ErrorKind::NotADatabase,
            format!("the archive in {} is that of another database", store.place()),
        )
        .with_hint("Give each database an archive of its own."));
    }
    Ok(Some(manifest))
}
