//! Prepared statements kept for all sessions, by their text.
//!
//! The key is the text (with literals lifted out, for simple queries) and the declared
//! parameter types. An entry planned under another catalog version is never returned.
//! Entries are dropped in the order in which they were last used.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::statement::Prepared;

const ENTRIES_MAX: usize = 1024;
/// Longer texts are not kept.
const TEXT_MAX: usize = 64 << 10;

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Key {
    text: Arc<str>,
    oids: Vec<u32>,
}

struct Entry {
    statement: Arc<Prepared>,
    used: u64,
}

/// See the module's head.
pub(crate) struct StatementCache {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    entries: HashMap<Arc<str>, Vec<(Vec<u32>, Entry)>>,
    count: usize,
    clock: u64,
}

impl StatementCache {
    pub(crate) fn new() -> Self {
        Self { inner: Mutex::default() }
    }

    /// The kept statement for that text, parameter types and catalog.
    pub(crate) fn get(&self, text: &str, oids: &[u32], version: u64) -> Option<Arc<Prepared>> {
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let clock = inner.clock;
        let entry = inner.entries.get_mut(text)?.iter_mut().find(|(known, _)| known == oids)?;
        if entry.1.statement.catalog_version != version {
            return None;
        }
        entry.1.used = clock;
        Some(Arc::clone(&entry.1.statement))
    }

    /// Keeps a statement.
    pub(crate) fn put(&self, text: &str, oids: &[u32], statement: &Arc<Prepared>) {
        if text.len() > TEXT_MAX {
            return;
        }
        let mut inner = self.inner.lock();
        inner.clock += 1;
        let entry = Entry { statement: Arc::clone(statement), used: inner.clock };
        let key = Key { text: Arc::from(text), oids: oids.to_vec() };
        let list = inner.entries.entry(key.text).or_default();
        match list.iter_mut().find(|(known, _)| *known == key.oids) {
            Some(slot) => slot.1 = entry,
            None => {
                list.push((key.oids, entry));
                inner.count += 1;
            }
        }
        if inner.count > ENTRIES_MAX {
            inner.evict();
        }
    }
}

impl Inner {
    /// Drops the quarter that was not used for longest.
    fn evict(&mut self) {
        let mut ages: Vec<u64> = self.entries.values().flatten().map(|(_, entry)| entry.used).collect();
        ages.sort_unstable();
        let limit = ages.get(ages.len() / 4).copied().unwrap_or(0);
        self.entries.retain(|_, list| {
            list.retain(|(_, entry)| entry.used > limit);
            !list.is_empty()
        });
        self.count = self.entries.values().map(Vec::len).sum();
    }
}
