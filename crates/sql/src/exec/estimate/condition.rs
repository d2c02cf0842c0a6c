//! What part of the rows satisfies conditions.
//!
//! As PostgreSQL's clauselist_selectivity: terms of a conjunction are taken for independent of each other, but for two
//! bounds of one column, and for values of all columns of a unique key, which one row has.

use resurgam_engine::Datum;

use super::table::{Origin, TableEstimate};
use super::{PART_BETWEEN, PART_UNKNOWN};

/// LIKE and its kin.
const MATCHING: f64 = 0.005;

/// A condition on rows, as far as its form tells of how many satisfy it.
#[derive(Clone, Debug)]
pub(crate) enum Condition {
    All(Vec<Condition>),
    Any(Vec<Condition>),
    Not(Box<Condition>),
    /// The column has one of so many values, of which these are known.
    Equals(Origin, usize, Vec<Datum>),
    /// It has more, or less, than a value that is perhaps known.
    Above(Origin, Option<Datum>),
    Below(Origin, Option<Datum>),
    Null(Origin),
    Matches,
    /// Two columns have the same value.
    Same(Origin, Origin),
    Constant(bool),
    Unknown,
}

impl Condition {
    /// The part of the rows that satisfies it, from 0 to 1.
    pub(crate) fn part(&self) -> f64 {
        let part = match self {
            Self::All(all) => return all_of(all),
            Self::Any(any) => 1.0 - any.iter().fold(1.0, |none, one| none * (1.0 - one.part())),
            Self::Not(inner) => 1.0 - inner.part(),
            Self::Equals(column, values, known) => {
                let (of, at) = (&column.of, column.column);
                let known_parts: f64 = known.iter().map(|value| of.equal_to(at, value)).sum();
                known_parts + of.equal(at) * values.saturating_sub(known.len()) as f64
            }
            Self::Above(column, value) => above(column, value.as_ref()).unwrap_or(PART_UNKNOWN),
            Self::Below(column, value) => below(column, value.as_ref()).unwrap_or(PART_UNKNOWN),
            Self::Null(column) => column.of.null(column.column),
            Self::Matches => MATCHING,
            Self::Same(a, b) => 1.0 / a.distinct().max(b.distinct()),
            Self::Constant(is_true) => f64::from(u8::from(*is_true)),
            Self::Unknown => PART_UNKNOWN,
        };
        part.clamp(0.0, 1.0)
    }

    /// Its terms, where it is a conjunction.
    fn terms<'c>(&'c self, out: &mut Vec<&'c Condition>) {
        match self {
            Self::All(all) => all.iter().for_each(|one| one.terms(out)),
            other => out.push(other),
        }
    }
}

impl Origin {
    pub(crate) fn distinct(&self) -> f64 {
        self.of.distinct(self.column)
    }
    fn is(&self, other: &Self) -> bool {
        self.column == other.column && self.is_of(&other.of)
    }
    fn is_of(&self, table: &TableEstimate) -> bool {
        std::ptr::eq(self.of.as_ref(), table)
    }
}

/// The part of the rows that satisfies all of these.
fn all_of(conditions: &[Condition]) -> f64 {
    let mut terms = Vec::new();
    conditions.iter().for_each(|condition| condition.terms(&mut terms));
    let mut part = 1.0;
    // Tables of which one row is left, and columns whose bounds were looked at.
    let (mut ones, mut bounded): (Vec<&TableEstimate>, Vec<&Origin>) = (Vec::new(), Vec::new());
    for term in &terms {
        let Condition::Equals(column, 1, _) = term else { continue };
        let table = column.of.as_ref();
        let given = |wanted: usize| {
            let is_it = |other: &Origin| other.column == wanted && other.is_of(table);
            terms.iter().any(|other| matches!(other, Condition::Equals(other, 1, _) if is_it(other)))
        };
        if !ones.iter().any(|known| std::ptr::eq(*known, table)) && table.is_one_by(given) {
            part /= table.rows();
            ones.push(table);
        }
    }
    for term in &terms {
        part *= match term {
            Condition::Equals(column, 1, _) if ones.iter().any(|one| column.is_of(one)) => 1.0,
            Condition::Above(column, _) | Condition::Below(column, _) => {
                if bounded.iter().any(|known| known.is(column)) {
                    continue;
                }
                bounded.push(column);
                within(column, &terms)
            }
            other => other.part(),
        };
    }
    part.clamp(0.0, 1.0)
}

/// The part of the rows within all bounds of a column.
fn within(column: &Origin, terms: &[&Condition]) -> f64 {
    let (mut low, mut high): (Option<Option<&Datum>>, Option<Option<&Datum>>) = (None, None);
    for term in terms {
        match term {
            Condition::Above(other, value) if other.is(column) => low = Some(value.as_ref()),
            Condition::Below(other, value) if other.is(column) => high = Some(value.as_ref()),
            _ => {}
        }
    }
    let part = match (low, high) {
        (Some(low), Some(high)) => match (above(column, low), below(column, high)) {
            // What is above one bound and below the other, of those that are not NULL.
            (Some(above), Some(below)) => Some(above + below - (1.0 - column.of.null(column.column))),
            _ => return PART_BETWEEN,
        },
        (Some(low), None) => above(column, low),
        (None, Some(high)) => below(column, high),
        (None, None) => None,
    };
    let least = 1.0 / column.of.rows();
    part.map_or(PART_UNKNOWN, |part| part.max(least))
}

fn below(column: &Origin, value: Option<&Datum>) -> Option<f64> {
    column.of.below(column.column, value?)
}

fn above(column: &Origin, value: Option<&Datum>) -> Option<f64> {
    let part = 1.0 - below(column, value)? - column.of.null(column.column);
    Some(part.max(0.0))
}
