//! For tests: a store in front of another one that is slow, fails, or does what it then reports as failed, at once or late.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use crate::error::{StoreError, StoreErrorKind, StoreResult};
use crate::{Store, Upload};

/// Which call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StoreCall {
    /// Beginning, appending to and publishing an object are one call: it counts when it is published.
    Publish,
    Read,
    List,
    Delete,
}

/// What a call does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misdeed {
    /// Does nothing and reports an error of this kind.
    Fail(StoreErrorKind),
    /// Does it, and reports that it is not known whether it did.
    ApplyAndFail,
    /// A call that does not end until whoever made it gives it up: it is not known whether it did, and it does it late, when
    /// [`FaultyStore::end_late`] says so, if ever. (Publishing and deleting; others, which do nothing, are unavailable.)
    Late,
    /// Does nothing and reports that it did: no store that is one. For tests that must notice it.
    Forget,
}

/// What was asked for and is still to be done, by the store that was asked or by another one in the same place.
#[derive(Clone)]
pub enum LateCall {
    /// The object's name and content.
    Publish(String, Vec<u8>),
    Delete(String),
}

/// See the module.
pub struct FaultyStore {
    state: Arc<State>,
}

struct State {
    below: Arc<dyn Store>,
    plan: Mutex<Plan>,
    released: Condvar,
}

#[derive(Default)]
struct Plan {
    delay: Duration,
    /// Of one kind of call, besides.
    delays: BTreeMap<StoreCall, Duration>,
    /// Calls of these kinds wait until they are let go; how many do.
    held: BTreeSet<StoreCall>,
    waiting: BTreeMap<StoreCall, u64>,
    /// Calls so far, by kind.
    calls: BTreeMap<StoreCall, u64>,
    /// What goes wrong, by the number of the call (from 1).
    at: BTreeMap<(StoreCall, u64), Misdeed>,
    /// What goes wrong each time.
    always: BTreeMap<StoreCall, Misdeed>,
    late: Vec<LateCall>,
}

impl FaultyStore {
    /// A store that does nothing wrong yet.
    pub fn new(below: Arc<dyn Store>) -> Self {
        Self { state: Arc::new(State { below, plan: Mutex::default(), released: Condvar::new() }) }
    }

    /// The `nth` call (from 1, counted from now) of that kind goes wrong.
    pub fn at(&self, call: StoreCall, nth: u64, misdeed: Misdeed) {
        let mut plan = self.state.plan.lock();
        let done = plan.calls.get(&call).copied().unwrap_or(0);
        plan.at.insert((call, done + nth), misdeed);
    }

    /// Every call of that kind goes wrong from now on; `None`: none does.
    pub fn always(&self, call: StoreCall, misdeed: Option<Misdeed>) {
        let mut plan = self.state.plan.lock();
        match misdeed {
            Some(misdeed) => plan.always.insert(call, misdeed),
            None => plan.always.remove(&call),
        };
    }

    /// Calls of that kind do not begin from now on: they wait until [`FaultyStore::let_go`].
    pub fn hold(&self, call: StoreCall) {
        self.state.plan.lock().held.insert(call);
    }

    /// Those that wait go on, and nobody waits from now on.
    pub fn let_go(&self, call: StoreCall) {
        self.state.plan.lock().held.remove(&call);
        self.state.released.notify_all();
    }

    /// Calls of that kind that are held now.
    pub fn waiting(&self, call: StoreCall) -> u64 {
        self.state.plan.lock().waiting.get(&call).copied().unwrap_or(0)
    }

    /// Nothing goes wrong from now on, and nothing waits.
    pub fn heal(&self) {
        let mut plan = self.state.plan.lock();
        let (calls, waiting) = (std::mem::take(&mut plan.calls), std::mem::take(&mut plan.waiting));
        let late = std::mem::take(&mut plan.late);
        *plan = Plan { calls, waiting, late, ..Plan::default() };
        self.state.released.notify_all();
    }

    /// Every call waits for so long before it does anything.
    pub fn delay(&self, delay: Duration) {
        self.state.plan.lock().delay = delay;
    }

    /// Every call of that kind waits for so long besides.
    pub fn delay_of(&self, call: StoreCall, delay: Duration) {
        self.state.plan.lock().delays.insert(call, delay);
    }

    /// Calls that are still to be done.
    pub fn late(&self) -> usize {
        self.state.plan.lock().late.len()
    }

    /// One of them is done now. (Where it cannot be, as where the name is taken, nobody is told.)
    pub fn end_late(&self, which: usize) {
        let call = {
            let mut plan = self.state.plan.lock();
            if which >= plan.late.len() {
                return;
            }
            plan.late.swap_remove(which)
        };
        let _ = match call {
            LateCall::Publish(name, bytes) => self.state.below.create(&name).and_then(|mut upload| {
                upload.append(&bytes)?;
                upload.publish()
            }),
            LateCall::Delete(name) => self.state.below.delete(&name),
        };
    }

    /// Takes them all away: another store of the same place does them, or nobody.
    pub fn take_late(&self) -> Vec<LateCall> {
        std::mem::take(&mut self.state.plan.lock().late)
    }

    /// Adds such calls.
    pub fn add_late(&self, calls: Vec<LateCall>) {
        self.state.plan.lock().late.extend(calls);
    }

    /// Calls of that kind so far.
    pub fn calls(&self, call: StoreCall) -> u64 {
        self.state.plan.lock().calls.get(&call).copied().unwrap_or(0)
    }
}

impl State {
    /// `forgotten`: what a call answers that is only said to have been done; none: it cannot be left out.
    fn call<T>(&self, call: StoreCall, forgotten: Option<T>, apply: impl FnOnce() -> StoreResult<T>) -> StoreResult<T> {
        self.call_or_late(call, forgotten, || None, apply)
    }

    /// The same, of one that may be done late as `late` says.
    fn call_or_late<T>(
        &self,
        call: StoreCall,
        forgotten: Option<T>,
        late: impl FnOnce() -> Option<LateCall>,
        apply: impl FnOnce() -> StoreResult<T>,
    ) -> StoreResult<T> {
        let (delay, misdeed) = {
            let mut plan = self.plan.lock();
            let count = plan.calls.entry(call).or_default();
            *count += 1;
            let count = *count;
            while plan.held.contains(&call) {
                *plan.waiting.entry(call).or_default() += 1;
                self.released.wait(&mut plan);
                *plan.waiting.entry(call).or_default() -= 1;
            }
            let delay = plan.delay + plan.delays.get(&call).copied().unwrap_or_default();
            (delay, plan.at.remove(&(call, count)).or(plan.always.get(&call).copied()))
        };
        if !delay.is_zero() {
            std::thread::sleep(delay);
        }
        let error = |kind| StoreError::new(kind, format!("simulated {kind:?} of {}", self.below.place()));
        match misdeed {
            None => apply(),
            Some(Misdeed::Forget) => forgotten.map_or_else(apply, Ok),
            Some(Misdeed::Fail(kind)) => Err(error(kind)),
            Some(Misdeed::Late) => match late() {
                Some(late) => {
                    self.plan.lock().late.push(late);
                    Err(error(StoreErrorKind::Uncertain))
                }
                None => Err(error(StoreErrorKind::Unavailable)),
            },
            Some(Misdeed::ApplyAndFail) => {
                apply()?;
                Err(error(StoreErrorKind::Uncertain))
            }
        }
    }
}

impl Store for FaultyStore {
    fn create(&self, name: &str) -> StoreResult<Box<dyn Upload>> {
        let below = self.state.below.create(name)?;
        let (state, name, bytes) = (Arc::clone(&self.state), name.to_owned(), Vec::new());
        Ok(Box::new(FaultyUpload { state, below, name, bytes }))
    }
    fn read(&self, name: &str, offset: u64, len: usize) -> StoreResult<Vec<u8>> {
        self.state.call(StoreCall::Read, None, || self.state.below.read(name, offset, len))
    }
    fn len(&self, name: &str) -> StoreResult<u64> {
        self.state.call(StoreCall::Read, None, || self.state.below.len(name))
    }
    fn list(&self, prefix: &str) -> StoreResult<Vec<String>> {
        self.state.call(StoreCall::List, None, || self.state.below.list(prefix))
    }
    fn delete(&self, name: &str) -> StoreResult<()> {
        let late = || Some(LateCall::Delete(name.to_owned()));
        self.state.call_or_late(StoreCall::Delete, Some(()), late, || self.state.below.delete(name))
    }
    fn sync_deletes(&self, folder: &str) -> StoreResult<()> {
        self.state.call(StoreCall::Delete, Some(()), || self.state.below.sync_deletes(folder))
    }
    fn tidy(&self, folder: &str) -> StoreResult<()> {
        self.state.call(StoreCall::Delete, Some(()), || self.state.below.tidy(folder))
    }
    fn place(&self) -> String {
        self.state.below.place()
    }
}

struct FaultyUpload {
    state: Arc<State>,
    below: Box<dyn Upload>,
    name: String,
    /// What was appended: it may be published late.
    bytes: Vec<u8>,
}

impl Upload for FaultyUpload {
    fn append(&mut self, bytes: &[u8]) -> StoreResult<()> {
        self.bytes.extend_from_slice(bytes);
        self.below.append(bytes)
    }
    fn publish(self: Box<Self>) -> StoreResult<()> {
        let Self { state, below, name, bytes } = *self;
        let late = || Some(LateCall::Publish(name, bytes));
        state.call_or_late(StoreCall::Publish, Some(()), late, || below.publish())
    }
}
