//! Ranges of keys in which there is nothing to see, so that cursors jump over them.
//!
//! Where rows are taken from the front of a table while an older snapshot stays open, or all in one transaction, the ghosts of those that
//! were taken cannot go, and every reader would walk over all of them. A cursor that has passed over many notes the range; later ones
//! begin behind it, and extend it by what they pass over themselves. In memory only, and only for trees in which that has happened.
//!
//! # Invariants
//! 1. *A range is empty for a view that may use it* ([`SeenBy`]): each record in it was a ghost, of a commit that the view sees or of a write
//!    of its own transaction that it sees; and no row was put into it since. A ghost of a commit stays one until a row is put over it. One of
//!    the own transaction may come back, by going to a savepoint: that takes such ranges away first ([`EmptySpans::forget_own`]).
//! 2. *Who puts a row in says so while its leaf is latched exclusively* ([`EmptySpans::insert`]), which divides ranges, and bounds what
//!    walks under way may note. A walk is registered before it reads its first leaf. So of a row that is put in
//!    behind a walk, the walk is told; one that is put in before, it meets.
//! 3. Rows otherwise appear nowhere: splits and merges move them within their keys' order, which is all that is noted here.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use hashbrown::{HashMap, HashSet};
use parking_lot::{Mutex, RwLock};
use resurgam_base::{CommitTs, ObjectId, TxId};
use resurgam_page::key::after;

use crate::view::View;

/// Trees with ranges; beyond, no more are begun.
const TREES_MAX: usize = 256;
/// Ranges of one tree; beyond, the one that was extended longest ago goes.
const SPANS_MAX: usize = 16;
/// Of them, those that begin at the same key.
const NESTED_MAX: usize = 4;

/// Mistakes that tests make on purpose, to see that they would be noticed. None is made otherwise.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PlantedJump {
    None,
    /// Rows that are put in are not told of.
    Untold,
    /// A range is taken to be empty for every view.
    ForAnyView,
    /// What a transaction deleted itself stays noted when it goes back.
    OwnStay,
    /// A deleted row is passed like the one before it, whoever deleted it.
    AlikeByAnyone,
}

static PLANTED: AtomicU8 = AtomicU8::new(0);

impl PlantedJump {
    /// For the whole process, from now on.
    pub fn plant(self) {
        PLANTED.store(self as u8, Ordering::SeqCst);
    }
    /// Whether it is this one.
    pub fn is_planted(self) -> bool {
        PLANTED.load(Ordering::Relaxed) == self as u8
    }
}

/// Which views a range is empty for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SeenBy {
    /// Those that see commits up to here, …
    pub ts: CommitTs,
    /// … and, where given, are of this transaction (its top-level id) and see what it wrote under ids up to the second.
    pub own: Option<(TxId, TxId)>,
}

impl SeenBy {
    fn includes(&self, view: &View<'_>) -> bool {
        if PlantedJump::ForAnyView.is_planted() {
            return true;
        }
        self.ts <= view.ts && self.own.is_none_or(|(top, newest)| top == view.own && newest < view.hidden_from)
    }
    fn and(self, other: Self) -> Self {
        let own = match (self.own, other.own) {
            (Some((top, a)), Some((_, b))) => Some((top, a.max(b))),
            (own, None) | (None, own) => own,
        };
        Self { ts: self.ts.max(other.ts), own }
    }
}

/// Keys from `from` on, up to and without `to` (none: all that follow).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Span {
    from: Vec<u8>,
    to: Option<Vec<u8>>,
    seen: SeenBy,
    /// The leaves before this are cleaned.
    cleaned: Vec<u8>,
}

impl Span {
    fn holds(&self, key: &[u8]) -> bool {
        self.from.as_slice() <= key && is_below(key, self.to.as_deref())
    }
    /// Whether it lies within `from..to`.
    fn is_within(&self, from: &[u8], to: Option<&[u8]>) -> bool {
        from <= self.from.as_slice()
            && match (self.to.as_deref(), to) {
                (_, None) => true,
                (None, Some(_)) => false,
                (Some(own), Some(to)) => own <= to,
            }
    }
}

fn is_below(key: &[u8], to: Option<&[u8]>) -> bool {
    to.is_none_or(|to| key < to)
}

/// The way a walk goes, and from where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum From {
    /// Up, from this key on.
    Key(Vec<u8>),
    /// Down, below this key (none: from the end).
    Below(Option<Vec<u8>>),
}

/// As [`From`], elsewhere.
#[derive(Clone, Copy)]
enum Place<'k> {
    Key(&'k [u8]),
    Below(Option<&'k [u8]>),
}

impl<'k> Place<'k> {
    fn of(from: &'k From) -> Self {
        match from {
            From::Key(key) => Self::Key(key),
            From::Below(below) => Self::Below(below.as_deref()),
        }
    }
    fn to_owned(self) -> From {
        match self {
            Self::Key(key) => From::Key(key.to_vec()),
            Self::Below(below) => From::Below(below.map(<[u8]>::to_vec)),
        }
    }
}

#[derive(Debug)]
struct Walk {
    id: u64,
    /// Where the range begins that it may note: at its own begin, or at that of the range that it jumped over.
    origin: From,
    /// Of what it jumped over.
    jumped: Option<SeenBy>,
    own: TxId,
    /// The nearest row that was put in on its way.
    met: Option<Vec<u8>>,
    /// What it passes over may come back.
    void: bool,
}

#[derive(Debug, Default)]
struct TreeSpans {
    spans: Vec<Span>,
    walks: Vec<Walk>,
    next: u64,
}

impl TreeSpans {
    fn insert(&mut self, key: &[u8]) {
        for walk in &mut self.walks {
            match &walk.origin {
                From::Key(from) => {
                    if from.as_slice() <= key && walk.met.as_deref().is_none_or(|met| key < met) {
                        walk.met = Some(key.to_vec());
                    }
                }
                From::Below(below) => {
                    if is_below(key, below.as_deref()) && walk.met.as_deref().is_none_or(|met| key > met) {
                        walk.met = Some(key.to_vec());
                    }
                }
            }
        }
        for at in 0..self.spans.len() {
            if self.spans[at].holds(key) {
                let whole = &mut self.spans[at];
                let from = after(key);
                let cleaned = whole.cleaned.clone().max(from.clone());
                let behind = Span { from, cleaned, ..whole.clone() };
                whole.to = Some(key.to_vec());
                if is_below(&behind.from, behind.to.as_deref()) {
                    self.spans.push(behind);
                }
            }
        }
        self.spans.retain(|span| is_below(&span.from, span.to.as_deref()));
        self.bound();
    }

    fn bound(&mut self) {
        let more = self.spans.len().saturating_sub(SPANS_MAX);
        self.spans.drain(..more);
    }

    /// Jumps as far as it is known that there is nothing; `None`: to the end.
    fn jump(&self, view: &View<'_>, start: &From) -> Option<(Option<From>, SeenBy, From)> {
        let mut at = Place::of(start);
        let mut jumped: Option<(&Span, SeenBy)> = None;
        let mut ended = false;
        // Each range is used once at most, as what is behind it is not in it.
        for _ in 0..self.spans.len() {
            let usable = |span: &&Span| {
                span.seen.includes(view)
                    && match at {
                        Place::Key(key) => span.holds(key),
                        Place::Below(below) => {
                            is_below(&span.from, below)
                                && match (below, span.to.as_deref()) {
                                    (_, None) => true,
                                    (None, Some(_)) => false,
                                    (Some(below), Some(to)) => below <= to,
                                }
                        }
                    }
            };
            let usable = self.spans.iter().filter(usable);
            let span = match at {
                // The farthest; none is without an end.
                Place::Key(_) => usable.max_by_key(|span| (span.to.is_none(), span.to.as_deref())),
                Place::Below(_) => usable.min_by_key(|span| span.from.as_slice()),
            };
            let Some(span) = span else { break };
            jumped = Some(jumped.map_or((span, span.seen), |(first, seen)| (first, seen.and(span.seen))));
            match at {
                Place::Key(_) => match span.to.as_deref() {
                    Some(to) => at = Place::Key(to),
                    None => ended = true,
                },
                Place::Below(_) if span.from.is_empty() => ended = true,
                Place::Below(_) => at = Place::Below(Some(&span.from)),
            }
            if ended {
                break;
            }
        }
        let (first, seen) = jumped?;
        let origin = match start {
            From::Key(_) => From::Key(first.from.clone()),
            From::Below(_) => From::Below(first.to.clone()),
        };
        Some(((!ended).then(|| at.to_owned()), seen, origin))
    }

    fn leave(&mut self, id: u64, passed: Option<&Passed>) {
        let Some(at) = self.walks.iter().position(|walk| walk.id == id) else { return };
        let walk = self.walks.swap_remove(at);
        let Some(passed) = passed.filter(|passed| !walk.void && passed.ghosts > 0) else { return };
        let up = matches!(walk.origin, From::Key(_));
        let (from, to) = match walk.origin {
            From::Key(from) => {
                let to = after(&passed.edge);
                (from, Some(walk.met.filter(|met| *met < to).unwrap_or(to)))
            }
            From::Below(to) => {
                let from = passed.edge.clone();
                (walk.met.map(|met| after(&met)).filter(|met| *met > from).unwrap_or(from), to)
            }
        };
        if !is_below(&from, to.as_deref()) {
            return;
        }
        let seen = walk.jumped.map_or(passed.seen, |jumped| jumped.and(passed.seen));
        // How far those were cleaned that this one goes on from.
        let begins = self.spans.iter().filter(|span| span.from == from);
        let cleaned = begins.map(|span| span.cleaned.clone()).max().unwrap_or_else(|| from.clone());
        // Smaller ones stay for views that do not see all that this one is about: of those who work beside each other some began
        // a little earlier.
        let is_no_less = |span: &Span| {
            span.is_within(&from, to.as_deref())
                && seen.ts <= span.seen.ts
                && (seen.own.is_none() || span.seen.own == seen.own)
        };
        self.spans.retain(|span| !is_no_less(span));
        // The few that were noted last will do.
        let same_begin = |span: &Span| if up { span.from == from } else { span.to == to };
        while self.spans.iter().filter(|span| same_begin(span)).count() >= NESTED_MAX
            && let Some(oldest) = self.spans.iter().position(same_begin)
        {
            self.spans.remove(oldest);
        }
        self.spans.push(Span { from, to, seen, cleaned });
        self.bound();
    }
}

/// What a walk has passed over without a gap, from its begin on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    pub ghosts: u64,
    /// The key of the last one.
    pub edge: Vec<u8>,
    pub seen: SeenBy,
}

/// A walk under way, which is told of rows that are put in on its way; it notes nothing if it is dropped.
pub struct SpanWalk {
    tree: Arc<Mutex<TreeSpans>>,
    id: u64,
    /// Where to begin: behind what is known to be empty. `None`: there is nothing at all.
    pub start: Option<From>,
    /// Whether that is elsewhere than where it was asked for.
    pub has_jumped: bool,
    ended: bool,
}

impl SpanWalk {
    /// Notes what was passed over, so that others jump over it.
    pub fn note(mut self, spans: &EmptySpans, passed: &Passed) {
        self.ended = true;
        if let Some((own, _)) = passed.seen.own {
            let mut owners = spans.owners.lock();
            owners.insert(own);
            spans.owner_count.store(owners.len() as u64, Ordering::SeqCst);
        }
        self.tree.lock().leave(self.id, Some(passed));
    }
}

impl Drop for SpanWalk {
    fn drop(&mut self) {
        if !self.ended {
            self.tree.lock().leave(self.id, None);
        }
    }
}

/// A range that nobody needs any more, from where it is to be cleaned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unneeded {
    begin: Vec<u8>,
    pub from: Vec<u8>,
    pub to: Option<Vec<u8>>,
}

/// See the module.
#[derive(Default)]
pub struct EmptySpans {
    /// Whether there is any tree; what most who put rows in look at.
    any: AtomicBool,
    trees: RwLock<HashMap<ObjectId, Arc<Mutex<TreeSpans>>>>,
    jumps: AtomicU64,
    /// Transactions of which something is noted that they deleted themselves, and how many.
    owners: Mutex<HashSet<TxId>>,
    owner_count: AtomicU64,
}

impl EmptySpans {
    /// Walks of `tree` are noted from now on: one has passed over many ghosts that cannot go.
    pub fn arm(&self, tree: ObjectId) {
        let mut trees = self.trees.write();
        if trees.len() >= TREES_MAX && !trees.contains_key(&tree) {
            // Of those that are not in use; the rest begin anew when they are met.
            trees.retain(|_, tree| !tree.lock().walks.is_empty());
            if trees.len() >= TREES_MAX {
                return;
            }
        }
        trees.entry(tree).or_default();
        self.any.store(true, Ordering::SeqCst);
    }

    fn tree(&self, tree: ObjectId) -> Option<Arc<Mutex<TreeSpans>>> {
        if !self.any.load(Ordering::SeqCst) {
            return None;
        }
        self.trees.read().get(&tree).cloned()
    }

    /// Begins a walk, before it reads anything; none where nothing is noted.
    pub fn enter(&self, tree: ObjectId, view: &View<'_>, start: impl FnOnce() -> From) -> Option<SpanWalk> {
        let tree = self.tree(tree)?;
        let start = start();
        let mut spans = tree.lock();
        let id = spans.next;
        spans.next += 1;
        let jump = spans.jump(view, &start);
        let has_jumped = jump.is_some();
        let (start, jumped, origin) = match jump {
            Some((next, seen, origin)) => (next, Some(seen), origin),
            None => (Some(start.clone()), None, start),
        };
        spans.walks.push(Walk { id, origin, jumped, own: view.own, met: None, void: false });
        drop(spans);
        if has_jumped {
            self.jumps.fetch_add(1, Ordering::Relaxed);
        }
        Some(SpanWalk { tree, id, start, has_jumped, ended: false })
    }

    /// A row is put in, or over a ghost, under `key`; its leaf is latched exclusively.
    #[inline]
    pub fn insert(&self, tree: ObjectId, key: &[u8]) {
        if let Some(tree) = self.tree(tree)
            && !PlantedJump::Untold.is_planted()
        {
            tree.lock().insert(key);
        }
    }

    /// What a transaction deleted may come back.
    pub fn forget_own(&self, own: TxId) {
        if !self.any.load(Ordering::SeqCst) || own.is_none() || PlantedJump::OwnStay.is_planted() {
            return;
        }
        for tree in self.trees.read().values() {
            let mut tree = tree.lock();
            tree.spans.retain(|span| span.seen.own.is_none_or(|(top, _)| top != own));
            tree.walks.iter_mut().filter(|walk| walk.own == own).for_each(|walk| walk.void = true);
        }
    }

    /// A transaction has ended: nobody uses what is noted for it alone.
    pub fn end_own(&self, own: TxId) {
        if self.owner_count.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut owners = self.owners.lock();
        let noted = owners.remove(&own);
        self.owner_count.store(owners.len() as u64, Ordering::SeqCst);
        drop(owners);
        if noted {
            self.forget_own(own);
        }
    }

    /// What is to be cleaned next of a range of `tree` in which nobody needs anything: all commits in it are at or before `horizon`,
    /// which is asked for if there is any that is of commits alone.
    pub fn unneeded(&self, tree: ObjectId, horizon: impl FnOnce() -> CommitTs) -> Option<Unneeded> {
        let tree = self.tree(tree)?;
        let tree = tree.lock();
        let of_commits = || tree.spans.iter().filter(|span| span.seen.own.is_none());
        of_commits().next()?;
        let horizon = horizon();
        let unneeded = of_commits().filter(|span| span.seen.ts <= horizon);
        let span = unneeded.max_by_key(|span| (span.to.is_none(), span.to.as_deref()))?;
        Some(Unneeded { begin: span.from.clone(), from: span.cleaned.clone(), to: span.to.clone() })
    }

    /// `part` is cleaned up to `to`; none: all of it, and what was is not jumped over any more.
    pub fn cleaned(&self, tree: ObjectId, part: &Unneeded, to: Option<&[u8]>) {
        let Some(tree) = self.tree(tree) else { return };
        let mut tree = tree.lock();
        let upto = to.or(part.to.as_deref());
        tree.spans.retain_mut(|span| {
            if span.from != part.begin {
                return true;
            }
            let Some(upto) = upto else { return false };
            if span.cleaned.as_slice() < upto {
                span.cleaned = upto.to_vec();
            }
            !matches!(span.to.as_deref(), Some(end) if end <= upto)
        });
    }

    /// How many walks began behind a range.
    pub fn jumps(&self) -> u64 {
        self.jumps.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use resurgam_txn::TxManager;

    use super::*;

    const TREE: ObjectId = ObjectId(7);

    fn view(txs: &TxManager, ts: u64) -> View<'_> {
        View { txs, ts: CommitTs(ts), own: TxId::NONE, hidden_from: TxId(u64::MAX) }
    }
    fn passed(edge: &str, ts: u64) -> Passed {
        Passed { ghosts: 100, edge: edge.into(), seen: SeenBy { ts: CommitTs(ts), own: None } }
    }
    fn up(key: &str) -> From {
        From::Key(key.into())
    }
    fn down(key: &str) -> From {
        From::Below(Some(key.into()))
    }
    /// Where a walk begins that notes nothing.
    fn start(spans: &EmptySpans, view: &View<'_>, from: From) -> Option<From> {
        spans.enter(TREE, view, || from).expect("armed").start.clone()
    }

    #[test]
    fn walks_jump_over_what_was_passed() {
        let (spans, txs) = (EmptySpans::default(), TxManager::new(TxId(100)));
        assert!(spans.enter(TREE, &view(&txs, 5), || up("")).is_none(), "nothing is noted yet");
        spans.arm(TREE);
        spans.enter(TREE, &view(&txs, 5), || up("")).expect("armed").note(&spans, &passed("m", 4));
        assert_eq!(start(&spans, &view(&txs, 5), up("")), Some(up("m\0")));
        assert_eq!(start(&spans, &view(&txs, 5), up("c")), Some(up("m\0")));
        assert_eq!(start(&spans, &view(&txs, 5), up("n")), Some(up("n")), "behind it");
        assert_eq!(start(&spans, &view(&txs, 3), up("")), Some(up("")), "one that sees what was there");
        // Goes on from there.
        spans.enter(TREE, &view(&txs, 9), || up("b")).expect("armed").note(&spans, &passed("p", 8));
        assert_eq!(start(&spans, &view(&txs, 9), up("")), Some(up("p\0")));
        assert_eq!(start(&spans, &view(&txs, 5), up("")), Some(up("m\0")), "one that began a little earlier");
        // Downwards: nothing is left.
        assert_eq!(start(&spans, &view(&txs, 9), down("k")), None);
        assert_eq!(start(&spans, &view(&txs, 9), down("q")), Some(down("q")));
        assert_eq!(spans.jumps(), 6);
    }

    #[test]
    fn walks_down_jump_as_well() {
        let (spans, txs) = (EmptySpans::default(), TxManager::new(TxId(100)));
        spans.arm(TREE);
        spans.enter(TREE, &view(&txs, 5), || From::Below(None)).expect("armed").note(&spans, &passed("m", 4));
        assert_eq!(start(&spans, &view(&txs, 5), From::Below(None)), Some(down("m")));
        assert_eq!(start(&spans, &view(&txs, 5), down("x")), Some(down("m")));
        assert_eq!(start(&spans, &view(&txs, 5), down("m")), Some(down("m")));
        assert_eq!(start(&spans, &view(&txs, 5), up("n")), None, "nothing follows");
        spans.insert(TREE, b"t");
        assert_eq!(start(&spans, &view(&txs, 5), From::Below(None)), Some(down("t\0")));
        assert_eq!(start(&spans, &view(&txs, 5), down("t")), Some(down("m")));
        assert_eq!(start(&spans, &view(&txs, 5), up("n")), Some(up("t")));
    }

    #[test]
    fn rows_that_are_put_in_divide_ranges_and_bound_walks() {
        let (spans, txs) = (EmptySpans::default(), TxManager::new(TxId(100)));
        spans.arm(TREE);
        let walk = spans.enter(TREE, &view(&txs, 5), || up("c")).expect("armed");
        for key in ["b", "k", "h", "z"] {
            spans.insert(TREE, key.as_bytes());
        }
        walk.note(&spans, &passed("m", 4));
        assert_eq!(start(&spans, &view(&txs, 5), up("c")), Some(up("h")));
        spans.insert(TREE, b"e");
        assert_eq!(start(&spans, &view(&txs, 5), up("c")), Some(up("e")));
        assert_eq!(start(&spans, &view(&txs, 5), up("e")), Some(up("e")), "the row itself");
        assert_eq!(start(&spans, &view(&txs, 5), up("f")), Some(up("h")));
        spans.insert(TREE, b"c");
        assert_eq!(start(&spans, &view(&txs, 5), up("c")), Some(up("c")));
        // One that was put in before all that a walk passed leaves nothing to note.
        let walk = spans.enter(TREE, &view(&txs, 5), || up("p")).expect("armed");
        spans.insert(TREE, b"p");
        walk.note(&spans, &passed("r", 4));
        assert_eq!(start(&spans, &view(&txs, 5), up("p")), Some(up("p")));
        // A walk that is not ended notes nothing, and leaves nothing behind.
        drop(spans.enter(TREE, &view(&txs, 5), || up("s")));
        assert!(spans.tree(TREE).unwrap().lock().walks.is_empty());
    }

    #[test]
    fn what_a_transaction_deleted_itself_is_its_own() {
        let (spans, txs) = (EmptySpans::default(), TxManager::new(TxId(100)));
        spans.arm(TREE);
        let own = |hidden_from| View { own: TxId(30), hidden_from: TxId(hidden_from), ..view(&txs, 5) };
        let by_own = Passed { seen: SeenBy { ts: CommitTs(4), own: Some((TxId(30), TxId(33))) }, ..passed("m", 4) };
        spans.enter(TREE, &own(u64::MAX), || up("")).expect("armed").note(&spans, &by_own);
        assert_eq!(start(&spans, &own(u64::MAX), up("")), Some(up("m\0")));
        assert_eq!(start(&spans, &own(34), up("")), Some(up("m\0")));
        assert_eq!(start(&spans, &own(33), up("")), Some(up("")), "a statement that began before");
        assert_eq!(start(&spans, &view(&txs, 9), up("")), Some(up("")), "others");
        let walk = spans.enter(TREE, &own(u64::MAX), || up("")).expect("armed");
        spans.forget_own(TxId(30));
        assert_eq!(start(&spans, &own(u64::MAX), up("")), Some(up("")));
        walk.note(&spans, &by_own);
        assert_eq!(start(&spans, &own(u64::MAX), up("")), Some(up("")), "it began before");
    }

    #[test]
    fn ranges_are_cleaned_in_parts_and_then_forgotten() {
        let (spans, txs) = (EmptySpans::default(), TxManager::new(TxId(100)));
        spans.arm(TREE);
        spans.enter(TREE, &view(&txs, 5), || up("a")).expect("armed").note(&spans, &passed("m", 4));
        assert_eq!(spans.unneeded(TREE, || CommitTs(3)), None);
        let part = spans.unneeded(TREE, || CommitTs(4)).unwrap();
        assert_eq!((part.from.as_slice(), part.to.as_deref()), (&b"a"[..], Some(&b"m\0"[..])));
        spans.cleaned(TREE, &part, Some(b"f"));
        let part = spans.unneeded(TREE, || CommitTs(4)).unwrap();
        assert_eq!(part.from, b"f");
        // It grows meanwhile.
        spans.enter(TREE, &view(&txs, 9), || up("a")).expect("armed").note(&spans, &passed("p", 8));
        spans.cleaned(TREE, &part, None);
        assert_eq!(spans.unneeded(TREE, || CommitTs(7)), None, "the smaller one is done");
        let part = spans.unneeded(TREE, || CommitTs(8)).unwrap();
        assert_eq!((part.from.as_slice(), part.to.as_deref()), (&b"m\0"[..], Some(&b"p\0"[..])));
        spans.cleaned(TREE, &part, None);
        assert_eq!(spans.unneeded(TREE, || CommitTs(9)), None);
        assert_eq!(start(&spans, &view(&txs, 9), up("a")), Some(up("a")));
    }

    #[test]
    fn ranges_and_trees_are_bounded() {
        let (spans, txs) = (EmptySpans::default(), TxManager::new(TxId(100)));
        for tree in 0..1000 {
            spans.arm(ObjectId(tree));
        }
        assert!(spans.trees.read().len() <= TREES_MAX);
        spans.arm(TREE);
        spans.enter(TREE, &view(&txs, 5), || up("")).expect("armed").note(&spans, &passed("z", 4));
        for at in 0..200u32 {
            spans.insert(TREE, format!("k{at:05}").as_bytes());
        }
        assert!(spans.tree(TREE).unwrap().lock().spans.len() <= SPANS_MAX);
        assert_eq!(start(&spans, &view(&txs, 5), up("k00199")), Some(up("k00199")));
        assert_eq!(start(&spans, &view(&txs, 5), up("k00199\0")), Some(up("z\0")));
    }
}
