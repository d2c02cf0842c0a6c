//! What `pg_prepared_statements` and `pg_cursors` list: the session's statements and cursors that have a name.
//!
//! An entry is there as long as its [`Listed`] is, which is a part of the statement or the portal.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::pg::context::{CursorRow, StatementRow};

/// The lists of a session, in order of their making.
#[derive(Debug, Default)]
pub(crate) struct Lists {
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    made: u64,
    statements: BTreeMap<u64, StatementRow>,
    cursors: BTreeMap<u64, CursorRow>,
}

/// An entry; it goes with this.
#[derive(Debug)]
pub(crate) struct Listed {
    lists: Arc<Lists>,
    number: u64,
}

impl Lists {
    pub(crate) fn statement(self: &Arc<Self>, row: StatementRow) -> Listed {
        let mut inner = self.inner.lock();
        inner.made += 1;
        let number = inner.made;
        inner.statements.insert(number, row);
        Listed { lists: Arc::clone(self), number }
    }

    pub(crate) fn cursor(self: &Arc<Self>, row: CursorRow) -> Listed {
        let mut inner = self.inner.lock();
        inner.made += 1;
        let number = inner.made;
        inner.cursors.insert(number, row);
        Listed { lists: Arc::clone(self), number }
    }

    pub(crate) fn statements(&self) -> Vec<StatementRow> {
        self.inner.lock().statements.values().cloned().collect()
    }

    pub(crate) fn cursors(&self) -> Vec<CursorRow> {
        self.inner.lock().cursors.values().cloned().collect()
    }
}

impl Drop for Listed {
    fn drop(&mut self) {
        let mut inner = self.lists.inner.lock();
        inner.statements.remove(&self.number);
        inner.cursors.remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_goes_with_its_owner() {
        let lists = Arc::new(Lists::default());
        let first = lists.cursor(CursorRow { name: "a".into(), ..CursorRow::default() });
        let second = lists.cursor(CursorRow { name: "b".into(), ..CursorRow::default() });
        let statement = lists.statement(StatementRow::default());
        assert_eq!((lists.cursors().len(), lists.statements().len()), (2, 1));
        drop(first);
        assert_eq!(lists.cursors().iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["b"]);
        drop((second, statement));
        assert_eq!((lists.cursors().len(), lists.statements().len()), (0, 0));
    }
}
