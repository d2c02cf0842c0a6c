//! Whether two answers to one query are the same: value by value as text, in the order that the query asks for. Rows
//! that are equal by what the answer is ordered by may come in any order among themselves; where a limit cuts off such a
//! group, either side may have any of its rows.

use super::queries::Query;
use crate::wire::Row;

/// What differs first, in words; nothing if the answers are the same.
pub fn difference(query: &Query, ours: &[Row], theirs: &[Row]) -> Option<String> {
    if ours.len() != theirs.len() {
        return Some(format!("{} rows, and {} rows are right", ours.len(), theirs.len()));
    }
    let key = |row: &Row| -> Row { query.ordered_by.iter().map(|at| row.get(*at).cloned().flatten()).collect() };
    let mut start = 0;
    while start < theirs.len() {
        let wanted = key(&theirs[start]);
        let end = start + theirs[start..].iter().take_while(|row| key(row) == wanted).count();
        let is_cut_off = end == theirs.len() && query.limit == Some(theirs.len());
        let sorted = |rows: &[Row]| -> Vec<Row> {
            let mut rows: Vec<Row> = if is_cut_off { rows.iter().map(key).collect() } else { rows.to_vec() };
            rows.sort();
            rows
        };
        let pairs = sorted(&ours[start..end]).into_iter().zip(sorted(&theirs[start..end]));
        if let Some((at, (our, their))) = pairs.enumerate().find(|(_, (our, their))| our != their) {
            return Some(format!("row {}: {}, and {} is right", start + at + 1, shown(&our), shown(&their)));
        }
        start = end;
    }
    None
}

fn shown(row: &Row) -> String {
    let values: Vec<&str> = row.iter().map(|value| value.as_deref().unwrap_or("NULL")).collect();
    format!("({})", values.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(ordered_by: &'static [usize], limit: Option<usize>) -> Query {
        Query { number: 1, sql: String::new(), ordered_by, limit }
    }

    fn rows(texts: &[&str]) -> Vec<Row> {
        texts
            .iter()
            .map(|text| text.split(' ').map(|value| (value != "-").then(|| value.to_owned())).collect())
            .collect()
    }

    #[test]
    fn equal_answers_are_equal() {
        let same = |ordered_by, limit, ours: &[&str], theirs: &[&str]| {
            difference(&query(ordered_by, limit), &rows(ours), &rows(theirs)).is_none()
        };
        assert!(same(&[0], None, &["1 a", "1 b", "2 -"], &["1 b", "1 a", "2 -"]));
        assert!(!same(&[0], None, &["2 -", "1 b", "1 a"], &["1 b", "1 a", "2 -"]), "the order is a part of the answer");
        assert!(!same(&[0], None, &["1.0"], &["1.00"]), "and so are the digits of a number");
        assert!(!same(&[0], None, &["1 a", "1 a"], &["1 b", "1 a"]), "and how often a row comes");
        assert!(!same(&[0], None, &["1"], &["1", "1"]));
        assert!(!same(&[0], None, &["1 -"], &["1 x"]));
        assert!(same(&[], None, &["a", "b"], &["b", "a"]));
    }

    #[test]
    fn what_a_limit_cuts_off_may_differ() {
        let at_the_end = |limit| difference(&query(&[0], limit), &rows(&["1 a", "2 b"]), &rows(&["1 a", "2 c"]));
        assert_eq!(at_the_end(Some(2)), None);
        assert_eq!(at_the_end(Some(3)).as_deref(), Some("row 2: (2, b), and (2, c) is right"));
        let before = difference(&query(&[0], Some(2)), &rows(&["1 a", "2 b"]), &rows(&["1 x", "2 b"]));
        assert_eq!(before.as_deref(), Some("row 1: (1, a), and (1, x) is right"));
    }
}
