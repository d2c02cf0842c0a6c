//! Prepared statements kept for all sessions, by their text.
//!
//! The key is the text (with literals lifted out, for simple queries), the database and the search path that names in it were
//! looked up along, and the declared parameter types. An entry planned under another catalog version is never returned.
//! Entries weigh what they take in memory, about; together no more than [`BYTES_MAX`]. Those go first
//! that were not used for longest.

use std::sync::Arc;

use hashbrown::{Equivalent, HashMap};
use parking_lot::Mutex;

use crate::pg::search_path::SearchPath;
use crate::pg::styles::Styles;
use crate::plan::plans::PlanTotals;
use crate::plan::statement::{PathId, Prepared};

/// Bytes of all entries.
const BYTES_MAX: usize = 64 << 20;
/// Part of these that one entry may take; larger ones are not kept.
const ENTRY_PART: usize = 8;

struct Entry {
    statement: Arc<Prepared>,
    used: u64,
}

/// See the module's head.
pub(crate) struct StatementCache {
    inner: Mutex<Inner>,
    paths: Mutex<Paths>,
    bytes_max: usize,
}

/// Paths whose numbers are remembered. Beyond it each gets a number of its own, and finds nobody else's statements.
const PATHS_MAX: usize = 10_000;

#[derive(Default)]
struct Paths {
    known: HashMap<(u32, Styles, Arc<SearchPath>), PathId>,
    last: u64,
}

/// A text and the path that it is planned with.
#[derive(PartialEq, Eq, Hash)]
struct Key(PathId, Arc<str>);

#[derive(Hash)]
struct Wanted<'a>(PathId, &'a str);

impl Equivalent<Key> for Wanted<'_> {
    fn equivalent(&self, key: &Key) -> bool {
        self.0 == key.0 && *self.1 == *key.1
    }
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Key, Vec<(Vec<u32>, Entry)>>,
    bytes: usize,
    clock: u64,
    found: u64,
    not_found: u64,
    evicted: u64,
}

impl StatementCache {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::default(), paths: Mutex::default(), bytes_max: BYTES_MAX }
    }

    /// The number of a path in a database.
    pub(crate) fn path_id(&self, database: u32, styles: Styles, path: &Arc<SearchPath>) -> PathId {
        let mut paths = self.paths.lock();
        let path = (database, styles, Arc::clone(path));
        if let Some(id) = paths.known.get(&path) {
            return *id;
        }
        paths.last += 1;
        let id = PathId(paths.last);
        if paths.known.len() < PATHS_MAX {
            paths.known.insert(path, id);
        }
        id
    }

    /// The kept statement for that text, path, parameter types and catalog.
    pub(crate) fn get(&self, text: &str, path: PathId, oids: &[u32], version: u64) -> Option<Arc<Prepared>> {
        let mut inner = self.inner.lock();
        let inner = &mut *inner;
        inner.clock += 1;
        let known = inner.entries.get_mut(&Wanted(path, text));
        let entry = known.and_then(|list| list.iter_mut().find(|(known, _)| known == oids));
        match entry {
            Some((_, entry)) if entry.statement.catalog_version == version => {
                entry.used = inner.clock;
                inner.found += 1;
                Some(Arc::clone(&entry.statement))
            }
            _ => {
                inner.not_found += 1;
                None
            }
        }
    }

    /// Keeps a statement.
    pub(crate) fn put(&self, text: &str, path: PathId, oids: &[u32], statement: &Arc<Prepared>) {
        if statement.bytes > self.bytes_max / ENTRY_PART {
            return;
        }
        let mut inner = self.inner.lock();
        inner.clock += 1;
        inner.bytes += statement.bytes;
        let entry = Entry { statement: Arc::clone(statement), used: inner.clock };
        // Most texts that are put are new.
        let list = inner.entries.entry(Key(path, Arc::from(text))).or_default();
        let before = match list.iter_mut().find(|(known, _)| known == oids) {
            Some(slot) => std::mem::replace(&mut slot.1, entry).statement.bytes,
            None => {
                list.push((oids.to_vec(), entry));
                0
            }
        };
        inner.bytes -= before;
        if inner.bytes > self.bytes_max {
            inner.evict(self.bytes_max);
        }
    }

    /// Adds what is known here.
    pub(crate) fn totals(&self, totals: PlanTotals) -> PlanTotals {
        let inner = self.inner.lock();
        PlanTotals {
            found: inner.found,
            not_found: inner.not_found,
            evicted: inner.evicted,
            kept: inner.count() as u64,
            kept_bytes: inner.bytes as u64,
            kept_bytes_max: self.bytes_max as u64,
            ..totals
        }
    }
}

impl Inner {
    fn count(&self) -> usize {
        self.entries.values().map(Vec::len).sum()
    }

    /// Drops what was not used for longest, until a quarter of the room is free.
    fn evict(&mut self, bytes_max: usize) {
        let entries = self.entries.values().flatten();
        let mut ages: Vec<(u64, usize)> = entries.map(|(_, entry)| (entry.used, entry.statement.bytes)).collect();
        ages.sort_unstable();
        let (mut left, mut limit) = (self.bytes, 0);
        for (used, bytes) in ages {
            if left <= bytes_max / 4 * 3 {
                break;
            }
            left -= bytes;
            limit = used;
            self.evicted += 1;
        }
        self.bytes = left;
        self.entries.retain(|_, list| {
            list.retain(|(_, entry)| entry.used > limit);
            !list.is_empty()
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::statement::Kind;

    fn statement(text: &str, bytes: usize) -> Arc<Prepared> {
        Arc::new(Prepared { bytes, ..Prepared::new(text, Kind::Empty, 1) })
    }

    #[test]
    fn entries_go_by_their_weight_and_age() {
        let cache = StatementCache { bytes_max: 1000, ..StatementCache::new() };
        let path = cache.path_id(5, Styles::default(), &SearchPath::stored());
        let kept = |text: &str| cache.get(text, path, &[], 1).is_some();
        for text in ["a", "b", "c", "d"] {
            cache.put(text, path, &[], &statement(text, 125));
        }
        cache.put("large", path, &[], &statement("large", 126));
        assert!(!kept("large"), "no entry takes more than its part");
        assert!(kept("a"));
        for text in ["e", "f", "g", "h"] {
            cache.put(text, path, &[], &statement(text, 120));
        }
        assert!(kept("a") && kept("b") && kept("h"));
        // 105 bytes are too many now: the oldest go until a quarter is free.
        cache.put("i", path, &[], &statement("i", 125));
        assert_eq!(["c", "d", "e", "a", "b", "h", "i"].map(kept), [false, false, false, true, true, true, true]);
        // One in the place of another of the same text; another version, other types.
        let before = cache.totals(PlanTotals::default());
        cache.put("a", path, &[], &statement("a", 25));
        let after = cache.totals(PlanTotals::default());
        assert_eq!((before.kept, before.kept_bytes - 100), (after.kept, after.kept_bytes));
        assert!(cache.get("a", path, &[], 2).is_none() && cache.get("a", path, &[23], 1).is_none());
        // Another path; and the same one again.
        let other = Styles { order: crate::pg::styles::DateOrder::Dmy, ..Styles::default() };
        for other in [
            cache.path_id(5, Styles::default(), &Arc::new(SearchPath::of("x", ""))),
            cache.path_id(7, Styles::default(), &SearchPath::stored()),
            cache.path_id(5, other, &SearchPath::stored()),
        ] {
            assert!(cache.get("a", other, &[], 1).is_none());
        }
        assert_eq!(cache.path_id(5, Styles::default(), &Arc::new(SearchPath::of("public", ""))), path);
        assert_eq!(after.evicted, 3);
    }
}
