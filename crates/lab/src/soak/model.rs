//! What one writer knows of its own rows: exactly what must be in the database.
//!
//! A writer alone writes its rows, so its acknowledged commits say row by row what must be
//! found. A change whose commit was asked for and not answered is *in doubt*: it must be
//! there whole or not at all.

use std::collections::{BTreeMap, BTreeSet};

/// A row of `item`. Its text follows from these numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Item {
    pub val: i64,
    pub stamp: u64,
    pub len: usize,
}

impl Item {
    /// The text of the row `seq` of a writer.
    pub fn body(&self, writer: i32, seq: i64) -> String {
        let unit = format!("{writer}.{seq}.{} ", self.stamp);
        unit.chars().cycle().take(self.len).collect()
    }
}

/// A writer's rows: of `item` by their number, of `tally` by their account.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model {
    pub items: BTreeMap<i64, Item>,
    pub tally: BTreeMap<i64, i64>,
}

/// What a transaction changes: new contents, or none for a deleted row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Delta {
    pub items: BTreeMap<i64, Option<Item>>,
    pub tally: BTreeMap<i64, i64>,
}

impl Delta {
    /// A row as the transaction sees it.
    pub fn item(&self, model: &Model, seq: i64) -> Option<Item> {
        self.items.get(&seq).copied().unwrap_or_else(|| model.items.get(&seq).copied())
    }
}

impl Model {
    pub fn apply(&mut self, delta: &Delta) {
        for (seq, item) in &delta.items {
            match item {
                Some(item) => self.items.insert(*seq, *item),
                None => self.items.remove(seq),
            };
        }
        self.tally.extend(&delta.tally);
    }

    /// Where `found` differs, in words; a few of the differences.
    pub fn differences(&self, found: &Self) -> String {
        let mut lost = Vec::new();
        let mut changed = Vec::new();
        for (seq, item) in &self.items {
            match found.items.get(seq) {
                None => lost.push(*seq),
                Some(other) if other != item => changed.push(format!("row {seq} is {other:?}, must be {item:?}")),
                Some(_) => {}
            }
        }
        let extra: Vec<i64> = found.items.keys().filter(|seq| !self.items.contains_key(seq)).copied().collect();
        let accounts: BTreeSet<i64> = self.tally.keys().chain(found.tally.keys()).copied().collect();
        let tally: Vec<String> = (accounts.iter())
            .filter(|account| self.tally.get(account) != found.tally.get(account))
            .map(|account| {
                format!("tally of {account} is {:?}, must be {:?}", found.tally.get(account), self.tally.get(account))
            })
            .collect();
        format!(
            "{} acknowledged rows are missing {:?}; {} rows are there that must not be {:?}; {} rows differ {:?}; \
             {} tallies differ {:?}",
            lost.len(),
            few(&lost),
            extra.len(),
            few(&extra),
            changed.len(),
            few(&changed),
            tally.len(),
            few(&tally)
        )
    }
}

fn few<T>(all: &[T]) -> &[T] {
    &all[..all.len().min(8)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_apply_and_differences_are_named() {
        let item = Item { val: 1, stamp: 2, len: 10 };
        let mut model = Model::default();
        let mut delta = Delta::default();
        delta.items.insert(1, Some(item));
        delta.items.insert(2, Some(item));
        delta.tally.insert(7, -5);
        model.apply(&delta);
        assert_eq!((model.items.len(), model.tally[&7]), (2, -5));
        assert_eq!(item.body(3, 1), "3.1.2 3.1.");
        let before = model.clone();
        let mut gone = Delta::default();
        gone.items.insert(2, None);
        assert_eq!(gone.item(&model, 2), None);
        assert_eq!(gone.item(&model, 1), Some(item));
        model.apply(&gone);
        let said = before.differences(&model);
        assert!(said.contains("1 acknowledged rows are missing [2]"), "{said}");
        let said = model.differences(&before);
        assert!(said.contains("1 rows are there that must not be [2]"), "{said}");
    }
}
