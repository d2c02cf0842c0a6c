//! Which column a name may have been meant for that means none: the HINT of 42703.
//!
//! By PostgreSQL's rules (parse_relation.c: `searchRangeTableForCol`, `updateFuzzyAttrMatchState`, `errorMissingColumn`): all that FROM has
//! brought in is searched, of this query and of those around it, whether it can be referred to from here or not. The nearest
//! names are told, where there are one or two of them, that differ in half of the characters at most.

use std::sync::Arc;

use resurgam_engine::{Table, is_hidden};

use super::bound::{Bound, Column, Type};
use super::scope::{Item, Scope};

/// Characters in which names may differ.
const DISTANCE_MAX: usize = 3;

/// A column by the names that it is told by.
#[derive(Clone, Copy)]
struct Found<'a> {
    relation: &'a str,
    column: &'a str,
}

/// What has been found so far.
struct Search<'a> {
    /// That of what has been found; or what there were too many of is one further away.
    distance: isize,
    first: Option<Found<'a>>,
    second: Option<Found<'a>>,
}

/// The target of an INSERT, and its alias.
pub(super) type Unseen = (Arc<Table>, Option<String>);

/// The hint, if there is one. `relation`: what qualifies the name; `last`: what is searched after all others.
pub(super) fn hint(scope: &Scope<'_>, last: Option<&Unseen>, relation: Option<&str>, name: &str) -> Option<String> {
    let last = last.map(|(table, alias)| target_of_insert(table, alias.as_deref()));
    let mut search = Search { distance: DISTANCE_MAX as isize + 1, first: None, second: None };
    let mut next = Some(scope);
    let mut items: Vec<&Item> = Vec::new();
    while let Some(scope) = next {
        items.extend(scope.unseen.iter().chain(&scope.items));
        next = scope.outer;
    }
    for item in items.into_iter().chain(&last).filter(|item| !item.of_join) {
        let Some(of) = item.name.as_deref() else { continue };
        let penalty = relation.map_or(0, |relation| distance(relation, of, DISTANCE_MAX + 1));
        let mut is_there = false;
        for column in item.columns.iter().filter(|column| !is_hidden(&column.name)) {
            is_there |= column.name == name;
            search.look(Found { relation: of, column: &column.name }, name, penalty);
        }
        if is_there && penalty == 0 {
            return Some(format!(
                "There is a column named \"{name}\" in table \"{of}\", but it cannot be referenced from this part of the query."
            ));
        }
    }
    let first = search.first?;
    let quoted = |found: Found<'_>| format!("the column \"{}.{}\"", found.relation, found.column);
    Some(match search.second {
        None => format!("Perhaps you meant to reference {}.", quoted(first)),
        Some(second) => format!("Perhaps you meant to reference {} or {}.", quoted(first), quoted(second)),
    })
}

/// What the target of an INSERT is searched as while its rows are analysed.
fn target_of_insert(table: &Table, alias: Option<&str>) -> Item {
    let null = || Bound::literal(datafusion::common::ScalarValue::Null, Type::UNKNOWN);
    let columns = table.columns.iter().map(|column| Column { name: column.name.clone(), bound: null() });
    Item {
        name: Some(alias.unwrap_or(&table.name).to_owned()),
        schema: None,
        columns: columns.collect(),
        by_name: false,
        by_column: false,
        table: None,
        oid: 0,
        of_join: false,
    }
}

impl<'a> Search<'a> {
    fn look(&mut self, candidate: Found<'a>, name: &str, penalty: usize) {
        let penalty = penalty as isize;
        if penalty > self.distance || candidate.column.is_empty() {
            return;
        }
        let most = usize::try_from(self.distance + 1 - penalty).unwrap_or(0);
        let differs = distance(candidate.column, name, most);
        // Not where more than half is another: bytes are counted here, as there.
        if differs > name.len() / 2 {
            return;
        }
        let differs = differs as isize + penalty;
        if differs < self.distance {
            *self = Self { distance: differs, first: Some(candidate), second: None };
        } else if differs == self.distance {
            if self.second.is_some() {
                // Too many.
                *self = Self { distance: differs - 1, first: None, second: None };
            } else if self.first.is_some() {
                self.second = Some(candidate);
            } else if self.distance <= DISTANCE_MAX as isize {
                self.first = Some(candidate);
            }
        }
    }
}

/// How many characters have to be put in, taken out or exchanged to make one of the other; `most + 1` if more than `most`.
fn distance(one: &str, other: &str, most: usize) -> usize {
    let (one, other): (Vec<char>, Vec<char>) = (one.chars().collect(), other.chars().collect());
    if one.len().abs_diff(other.len()) > most {
        return most + 1;
    }
    // Of the characters of `one` so far, to each beginning of `other`.
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, of_one) in one.iter().enumerate() {
        let mut diagonal = std::mem::replace(&mut row[0], at + 1);
        for (to, of_other) in other.iter().enumerate() {
            let exchanged = diagonal + usize::from(of_one != of_other);
            diagonal = row[to + 1];
            row[to + 1] = exchanged.min(row[to] + 1).min(diagonal + 1);
        }
    }
    row[other.len()].min(most + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances() {
        for (one, other, is) in [
            ("", "", 0),
            ("abc", "abc", 0),
            ("abc", "abd", 1),
            ("abc", "ab", 1),
            ("ab", "abc", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(one, other, 9), is, "{one} {other}");
        }
        assert_eq!(distance("äöü", "äou", 9), 2);
        assert_eq!(distance("abcdef", "uvwxyz", 4), 5);
        assert_eq!(distance("a", "abcdefgh", 4), 5);
    }
}
