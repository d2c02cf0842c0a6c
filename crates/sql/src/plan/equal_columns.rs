//! Columns that equalities make equal to each other: PostgreSQL's equivalence classes (equivclass.c), of inner joins.
//!
//! Of `a.x = b.x AND b.x = c.x` it follows that `a.x = c.x`: `a` and `c` may be joined first. And of the three equalities between two
//! of them and the third one says all.
//!
//! Contract:
//! 1. A set has columns of one type, whose equality is that of their values in any place (no floating point, no casts).
//! 2. It has at most one column of each input, so that whoever joins inputs by one equality of the set at each step has all of them.

use std::collections::{HashMap, HashSet};

use datafusion::arrow::datatypes::DataType;
use datafusion::common::Column;

/// Columns of a set: more have too many pairs.
const COLUMNS_MAX: usize = 16;

/// See the module's head. Sets of two columns are none: nothing follows from their equality.
pub(super) struct EqualColumns {
    sets: Vec<Vec<Column>>,
    set_of: HashMap<Column, usize>,
}

impl EqualColumns {
    /// The sets that equalities make; `input` says what a column is of.
    pub(super) fn new<'c>(
        equalities: impl Iterator<Item = (&'c Column, &'c Column)>,
        input: impl Fn(&Column) -> Option<usize>,
    ) -> Self {
        let mut sets: Vec<Vec<Column>> = Vec::new();
        let mut set_of: HashMap<Column, usize> = HashMap::new();
        for (a, b) in equalities {
            match (set_of.get(a).copied(), set_of.get(b).copied()) {
                (Some(one), Some(other)) if one == other => {}
                (Some(one), Some(other)) => {
                    let (to, from) = if sets[one].len() < sets[other].len() { (other, one) } else { (one, other) };
                    for column in std::mem::take(&mut sets[from]) {
                        set_of.insert(column.clone(), to);
                        sets[to].push(column);
                    }
                }
                (Some(set), None) => {
                    set_of.insert(b.clone(), set);
                    sets[set].push(b.clone());
                }
                (None, Some(set)) => {
                    set_of.insert(a.clone(), set);
                    sets[set].push(a.clone());
                }
                (None, None) => {
                    set_of.extend([(a.clone(), sets.len()), (b.clone(), sets.len())]);
                    sets.push(vec![a.clone(), b.clone()]);
                }
            }
        }
        sets.retain(|set| {
            let mut inputs = HashSet::new();
            (3..=COLUMNS_MAX).contains(&set.len())
                && set.iter().all(|column| input(column).is_some_and(|at| inputs.insert(at)))
        });
        let columns = sets.iter().enumerate().flat_map(|(at, set)| set.iter().map(move |column| (column.clone(), at)));
        let set_of = columns.collect();
        Self { sets, set_of }
    }

    /// The set that both columns are of.
    pub(super) fn set(&self, a: &Column, b: &Column) -> Option<usize> {
        let set = self.set_of.get(a)?;
        (self.set_of.get(b) == Some(set)).then_some(*set)
    }

    /// All pairs of columns that are equal.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&Column, &Column)> {
        self.sets
            .iter()
            .flat_map(|set| set.iter().enumerate().flat_map(move |(at, a)| set[at + 1..].iter().map(move |b| (a, b))))
    }
}

/// Whether values of a type that are equal to a third are equal.
pub(super) fn is_transitive(ty: &DataType) -> bool {
    ty.is_integer()
        || matches!(
            ty,
            DataType::Boolean
                | DataType::Utf8
                | DataType::Utf8View
                | DataType::Binary
                | DataType::BinaryView
                | DataType::Date32
                | DataType::Timestamp(..)
        )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_follows_from_equalities() {
        let column = |name: &str| Column::from_qualified_name(name);
        // The input is the first letter.
        let of = |equalities: &[(&str, &str)]| {
            let columns: Vec<(Column, Column)> = equalities.iter().map(|(a, b)| (column(a), column(b))).collect();
            let input = |column: &Column| column.relation.as_ref().map(|table| table.table().len());
            let equal = EqualColumns::new(columns.iter().map(|(a, b)| (a, b)), input);
            equal.pairs().map(|(a, b)| format!("{a}={b}")).collect::<Vec<_>>()
        };
        assert_eq!(of(&[("t.a", "tt.a")]), Vec::<String>::new());
        assert_eq!(of(&[("t.a", "tt.a"), ("ttt.a", "tt.a")]), ["t.a=tt.a", "t.a=ttt.a", "tt.a=ttt.a"]);
        // Sets that come together.
        assert_eq!(of(&[("t.a", "tt.a"), ("ttt.a", "tttt.a"), ("t.a", "ttt.a")]).len(), 6);
        // Two columns of one input, which nothing here makes equal.
        assert_eq!(of(&[("t.a", "tt.a"), ("tt.a", "t.b")]), Vec::<String>::new());
        let chain: Vec<String> = (1..20).map(|at| format!("{}.a", "t".repeat(at))).collect();
        let chain: Vec<(&str, &str)> = chain.windows(2).map(|two| (two[0].as_str(), two[1].as_str())).collect();
        assert_eq!(of(&chain), Vec::<String>::new());
        assert!(is_transitive(&DataType::Int64) && !is_transitive(&DataType::Float64));
    }
}
