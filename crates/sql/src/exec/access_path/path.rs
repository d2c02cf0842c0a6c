//! Which part of which tree is read: [`AccessPath`].
//!
//! One structure for whoever reads rows by a key: scans, lookups of joins, statements that run directly on
//! a tree, row locks. It is chosen when a statement is planned, from what its predicates say
//! ([`super::probe`]); the values are evaluated when it runs. `V` is what a value is: a planned expression
//! where the path is chosen, a physical one in an operator, one over a row's datums in direct execution.
//!
//! Invariants:
//! 1. The ranges hold at least every row that satisfies the probes, and may hold more: whoever reads
//!    them applies the predicates again.
//! 2. They are ascending (in the tree's bytes, so that the values of a column that descends go down) and disjoint.
//! 3. Where [`AccessPath::is_one`], at most one row has the values.

use std::ops::Bound;
use std::sync::Arc;

use datafusion::arrow::array::Array;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::Expr;
use resurgam_engine::{
    ColumnOrder, Covering, Cursor, Datum, DatumRef, Direction, ErrorKind, KeyRange, ReadView, Table,
};

use super::probe::{Probe, ProbeKind};
use crate::exec::any_of;
use crate::exec::bridge::{self, KeyValue};
use crate::exec::estimate::{PART_BETWEEN, PART_UNKNOWN, TableEstimate};
use crate::pg::functions::quote_ident;

/// Most ranges that a path has: as many as there can be parameters.
pub(super) const RANGES_MAX: usize = 65_536;
/// Beyond so many ranges it is asked whether the table has more rows than that.
const RANGES_FEW: usize = 64;
/// What it takes to fetch a row that an index names, where reading one in order takes 1.
pub(crate) const FETCH: f64 = 4.0;
/// A way that takes so many times as much as another is not looked at.
const MUCH_WORSE: f64 = 10.0;
/// Elements of an array of which nothing is known, as in PostgreSQL.
pub(crate) const ARRAY_ELEMENTS: f64 = 10.0;

/// Which tree is read and what bounds it.
#[derive(Clone, Debug)]
pub(crate) struct AccessPath<V> {
    /// Position in the table's indexes; `None` is the clustered tree.
    pub index: Option<usize>,
    /// For each leading key column the values that it may equal.
    pub equal: Vec<KeyValues<V>>,
    /// Bounds of the key column after those, and whether they are inclusive.
    pub low: Option<(V, bool)>,
    pub high: Option<(V, bool)>,
    /// How its texts begin, instead of bounds, and whether that is a pattern of LIKE.
    pub prefix: Option<(V, bool)>,
    /// Nor are rows wanted in which that column is NULL.
    pub not_null: bool,
    /// Rows are read from the end.
    pub backward: bool,
    /// All columns of a unique key are given, maybe several values of each.
    pub(crate) whole: bool,
}

/// The values that a key column may equal.
#[derive(Clone, Debug)]
pub(crate) enum KeyValues<V> {
    Each(Vec<V>),
    /// The elements of an array.
    Array(V),
}

impl<V> KeyValues<V> {
    /// The expressions as they are.
    pub(crate) fn exprs(&self) -> &[V] {
        match self {
            Self::Each(exprs) => exprs,
            Self::Array(expr) => std::slice::from_ref(expr),
        }
    }

    /// About how many they are.
    fn about(&self) -> f64 {
        match self {
            Self::Each(exprs) => exprs.len() as f64,
            Self::Array(_) => ARRAY_ELEMENTS,
        }
    }

    /// The value, if it is known that there is one only.
    pub(crate) fn single(&self) -> Option<&V> {
        match self {
            Self::Each(exprs) => match exprs.as_slice() {
                [one] => Some(one),
                _ => None,
            },
            Self::Array(_) => None,
        }
    }

    fn evaluate(&self, value: &mut impl FnMut(&V) -> Result<ScalarValue>) -> Result<Vec<ScalarValue>> {
        match self {
            Self::Each(exprs) => exprs.iter().map(value).collect(),
            Self::Array(expr) => match any_of::array_elements(&value(expr)?)? {
                Some(elements) => (0..elements.len()).map(|at| ScalarValue::try_from_array(&elements, at)).collect(),
                None => Ok(Vec::new()),
            },
        }
    }
}

impl<V> Default for AccessPath<V> {
    fn default() -> Self {
        let (low, high, prefix) = (None, None, None);
        Self { index: None, equal: Vec::new(), low, high, prefix, not_null: false, backward: false, whole: false }
    }
}

/// The trees of a table that rows are found by, the clustered one first: position, columns, whether they are unique.
pub(crate) fn trees(table: &Table) -> impl Iterator<Item = (Option<usize>, &[usize], bool)> {
    let clustered = std::iter::once((None, table.primary_key.as_slice(), true));
    let others = table.indexes.iter().enumerate().filter(|(_, index)| index.valid);
    clustered.chain(others.map(|(i, index)| (Some(i), index.columns.as_slice(), index.keeps_unique())))
}

/// What a tree's key columns are, without the primary key behind an index's own.
pub(crate) fn key_columns(table: &Table, index: Option<usize>) -> &[usize] {
    match index {
        None => &table.primary_key,
        Some(i) => &table.indexes[i].columns,
    }
}

/// A key of a tree, or the beginning of one; `None`: too long to be one, so that no row has it.
pub(crate) fn encode_key(table: &Table, index: Option<usize>, values: &[DatumRef<'_>]) -> Result<Option<Vec<u8>>> {
    let mut key = Vec::with_capacity(16);
    let encoded = match index {
        None => table.encode_key(values, &mut key),
        Some(i) => table.encode_index_key(i, values, &mut key),
    };
    match encoded {
        Ok(()) => Ok(Some(key)),
        Err(error) if error.kind() == ErrorKind::LimitExceeded => Ok(None),
        Err(error) => Err(bridge::storage(error)),
    }
}

/// How an index gives these columns by itself; `None` if it does not, or the clustered tree is read, which has all of them.
pub(crate) fn covering(table: &Table, index: Option<usize>, columns: &[usize]) -> Option<Arc<Covering>> {
    table.covering(index?, columns.iter().copied()).map(Arc::new)
}

/// Reads a range of a tree; with `covering`, of its index alone.
pub(crate) fn cursor(
    view: &ReadView,
    table: &Arc<Table>,
    index: Option<usize>,
    range: KeyRange,
    direction: Direction,
    covering: Option<&Arc<Covering>>,
) -> Cursor {
    match index {
        None => view.scan(table, range, direction),
        Some(index) => view.scan_index(table, index, range, direction).covered(covering.cloned()),
    }
}

impl<V> AccessPath<V> {
    /// Columns of the tree's key.
    pub(crate) fn key_columns<'t>(&self, table: &'t Table) -> &'t [usize] {
        key_columns(table, self.index)
    }

    /// The order in which rows come: each column of the key, then those of the clustered key behind it.
    pub(crate) fn order<'t>(&self, table: &'t Table) -> impl Iterator<Item = (usize, ColumnOrder)> + use<'t, V> {
        let (index, backward) = (self.index, self.backward);
        let own = key_columns(table, index).iter().enumerate();
        let own = own.map(move |(at, &column)| (column, table.column_order(index, at)));
        let behind: &[usize] = if index.is_some() { &table.primary_key } else { &[] };
        own.chain(behind.iter().map(|&column| (column, ColumnOrder::ASCENDING)))
            .map(move |(column, order)| (column, if backward { order.reversed() } else { order }))
    }

    /// Passes over the rows in which `column` is NULL, if it is the one after those with values.
    pub(crate) fn without_nulls(mut self, table: &Table, column: usize) -> Self {
        let is_next = self.key_columns(table).get(self.equal.len()) == Some(&column);
        self.not_null |= is_next && table.columns[column].nullable;
        self
    }

    /// Columns that have one value in all rows.
    pub(crate) fn pinned<'a>(&'a self, table: &'a Table) -> impl Iterator<Item = usize> + 'a {
        let key = self.key_columns(table).iter();
        key.zip(&self.equal).filter(|(_, values)| values.single().is_some()).map(|(&column, _)| column)
    }

    /// Whether anything bounds the rows.
    pub(crate) fn is_bounded(&self) -> bool {
        !self.equal.is_empty() || self.is_bounded_behind()
    }

    /// Whether the column after those with values is bounded.
    pub(crate) fn is_bounded_behind(&self) -> bool {
        self.low.is_some() || self.high.is_some() || self.prefix.is_some()
    }

    /// Whether at most one row has the values.
    pub(crate) fn is_one(&self) -> bool {
        self.whole && self.equal.iter().all(|values| values.single().is_some())
    }

    pub(crate) fn direction(&self) -> Direction {
        if self.backward { Direction::Backward } else { Direction::Forward }
    }

    /// How much it bounds the rows: more is better. A whole unique key is best, then leading columns, then
    /// bounds; on a tie the clustered tree, which holds the rows themselves.
    pub(crate) fn score(&self) -> usize {
        let bounds = usize::from(self.low.is_some()) + usize::from(self.high.is_some());
        let bounds = bounds + 2 * usize::from(self.prefix.is_some());
        let whole = usize::from(self.whole) * 100;
        let score = self.equal.len() * 4 + bounds + whole;
        score * 2 + usize::from(self.index.is_none() && score > 0)
    }

    /// About what part of the tree's rows it reads.
    pub(crate) fn part(&self, of: &TableEstimate) -> f64 {
        self.part_by(of, |column| of.equal(column))
    }

    /// About how many parts of the tree it reads.
    pub(super) fn lookups(&self) -> f64 {
        self.equal.iter().map(KeyValues::about).product()
    }

    /// The same where so many rows have the value that a column is given.
    fn part_by(&self, of: &TableEstimate, one: impl Fn(usize) -> f64) -> f64 {
        let columns = self.key_columns(&of.table);
        if self.whole {
            return (self.lookups() / of.rows()).min(1.0);
        }
        let equal: f64 = columns.iter().zip(&self.equal).map(|(column, list)| one(*column) * list.about()).product();
        let bounds = columns.get(self.equal.len()).map_or(1.0, |_| match (&self.low, &self.high) {
            (Some(_), Some(_)) => PART_BETWEEN,
            (Some(_), None) | (None, Some(_)) => PART_UNKNOWN,
            (None, None) if self.prefix.is_some() => PART_BETWEEN,
            (None, None) => 1.0,
        });
        (equal * bounds).min(1.0)
    }

    /// What it takes to read its rows, fetched one by one or not.
    pub(crate) fn cost(&self, of: &TableEstimate, fetched: bool) -> f64 {
        of.rows() * self.part(of) * if fetched { FETCH } else { 1.0 }
    }

    /// The same with other values.
    pub(crate) fn try_map<W, E>(
        &self,
        mut map: impl FnMut(&V) -> std::result::Result<W, E>,
    ) -> std::result::Result<AccessPath<W>, E> {
        let mut equal = Vec::with_capacity(self.equal.len());
        for values in &self.equal {
            equal.push(match values {
                KeyValues::Each(values) => {
                    KeyValues::Each(values.iter().map(&mut map).collect::<std::result::Result<_, E>>()?)
                }
                KeyValues::Array(array) => KeyValues::Array(map(array)?),
            });
        }
        let mut bound = |bound: &Option<(V, bool)>| match bound {
            Some((value, inclusive)) => Ok(Some((map(value)?, *inclusive))),
            None => Ok(None),
        };
        let (low, high, prefix) = (bound(&self.low)?, bound(&self.high)?, bound(&self.prefix)?);
        let Self { index, not_null, backward, whole, .. } = *self;
        Ok(AccessPath { index, equal, low, high, prefix, not_null, backward, whole })
    }

    /// All values.
    pub(crate) fn values(&self) -> impl Iterator<Item = &V> {
        let bounds = self.low.iter().chain(&self.high).chain(&self.prefix);
        self.equal.iter().flat_map(KeyValues::exprs).chain(bounds.map(|(value, _)| value))
    }
}

impl AccessPath<Expr> {
    /// How a tree can be read with these probes.
    fn with(index: Option<usize>, columns: &[usize], unique: bool, probes: &[Probe]) -> Self {
        let mut path = Self { index, ..Self::default() };
        let mut product = 1usize;
        for &column in columns {
            let mut list: Option<&Vec<Expr>> = None;
            for probe in probes.iter().filter(|p| p.column == column) {
                if let ProbeKind::In(values) = &probe.kind
                    && list.is_none_or(|known| known.len() > values.len())
                {
                    list = Some(values);
                }
            }
            if let Some(values) = list
                && product.saturating_mul(values.len()) <= RANGES_MAX
            {
                product *= values.len();
                path.equal.push(KeyValues::Each(values.clone()));
                continue;
            }
            let array = probes.iter().filter(|p| p.column == column).find_map(|probe| match &probe.kind {
                ProbeKind::InArray(array) => Some(array),
                _ => None,
            });
            if let Some(array) = array {
                path.equal.push(KeyValues::Array(array.clone()));
                continue;
            }
            for probe in probes.iter().filter(|p| p.column == column) {
                match &probe.kind {
                    ProbeKind::Above { value, inclusive } if path.low.is_none() => {
                        path.low = Some((value.clone(), *inclusive));
                    }
                    ProbeKind::Below { value, inclusive } if path.high.is_none() => {
                        path.high = Some((value.clone(), *inclusive));
                    }
                    _ => {}
                }
            }
            if !path.is_bounded_behind() {
                path.prefix = probes.iter().filter(|p| p.column == column).find_map(|probe| match &probe.kind {
                    ProbeKind::Prefix { text, is_pattern } => Some((text.clone(), *is_pattern)),
                    _ => None,
                });
            }
            break;
        }
        path.whole = unique && !columns.is_empty() && path.equal.len() == columns.len();
        path
    }

    /// How each tree can be read with these probes, the clustered one first.
    pub(crate) fn all<'t>(table: &'t Table, probes: &'t [Probe]) -> impl Iterator<Item = Self> + 't {
        trees(table).map(|(index, columns, unique)| Self::with(index, columns, unique, probes))
    }

    /// The best way for these probes; the whole clustered tree if they say nothing of use.
    pub(crate) fn choose(table: &Table, probes: &[Probe]) -> Self {
        let mut best = Self::default();
        for path in Self::all(table, probes) {
            if path.score() > best.score() {
                best = path;
            }
        }
        best
    }
}

impl AccessPath<Expr> {
    /// The best way by what is known of the table's columns, where that is enough to judge; by [`AccessPath::choose`] otherwise.
    /// Rows that an index names are fetched one by one: of too many of them, all are read. Which value is given is not known
    /// here, so they have to be too many of any: of two values one may be that of few rows. Of an index that has all that is
    /// wanted (`alone`) nothing is fetched.
    pub(crate) fn choose_by(
        table: &Table,
        probes: &[Probe],
        of: Option<&TableEstimate>,
        alone: impl Fn(usize) -> bool,
    ) -> Self {
        let by_rule = Self::choose(table, probes);
        let Some(of) = of else { return by_rule };
        if by_rule.whole || !by_rule.is_known_to(of) {
            return by_rule;
        }
        let fetches = |path: &Self| path.index.is_some_and(|index| !alone(index));
        let cost = |path: &Self| path.cost(of, fetches(path));
        let mut best = by_rule;
        for path in Self::all(table, probes).filter(|path| path.is_known_to(of)) {
            if path.whole || cost(&path) < cost(&best) {
                best = path;
            }
        }
        let is_exact = !best.is_bounded_behind();
        let least = best.part_by(of, |column| of.least(column));
        if fetches(&best) && !best.whole && is_exact && least * FETCH > 1.0 {
            return Self::default();
        }
        best
    }

    /// These ways without those that are much worse than another, by what is known of the table's columns.
    pub(crate) fn worth_a_look(mut paths: Vec<Self>, of: Option<&TableEstimate>) -> Vec<Self> {
        let Some(of) = of else { return paths };
        let cost = |path: &Self| path.cost(of, path.index.is_some());
        let costs = paths.iter().filter(|path| path.is_known_to(of)).map(cost);
        let least = costs.fold(f64::INFINITY, f64::min);
        paths.retain(|path| path.whole || !path.is_known_to(of) || cost(path) <= least * MUCH_WORSE);
        paths
    }

    /// Whether something is known of all columns whose values it is given.
    fn is_known_to(&self, of: &TableEstimate) -> bool {
        let mut given = self.key_columns(&of.table).iter().zip(&self.equal);
        !self.equal.is_empty() && given.all(|(at, _)| of.is_known(*at))
    }
}

impl<V> AccessPath<V> {
    /// How a tree can be read by what `value` says its leading columns equal.
    pub(crate) fn leading<E>(
        (index, columns, unique): (Option<usize>, &[usize], bool),
        mut value: impl FnMut(usize) -> std::result::Result<Option<V>, E>,
    ) -> std::result::Result<Self, E> {
        let mut path = Self { index, ..Self::default() };
        for &column in columns {
            let Some(value) = value(column)? else { break };
            path.equal.push(KeyValues::Each(vec![value]));
        }
        path.whole = unique && !columns.is_empty() && path.equal.len() == columns.len();
        Ok(path)
    }
}

/// The key of a path of which at most one row has the values.
pub(crate) enum PointKey {
    Key(Vec<u8>),
    /// No row can match.
    None,
    /// A value is not of the key's type without loss: the ranges may tell.
    Unknown,
}

impl<V> AccessPath<V> {
    /// The whole key, where [`AccessPath::is_one`].
    pub(crate) fn point(&self, table: &Table, mut value: impl FnMut(&V) -> Result<ScalarValue>) -> Result<PointKey> {
        const FEW: usize = 4;
        let columns = self.key_columns(table);
        let mut few: [Datum; FEW] = [const { Datum::Null }; FEW];
        let mut many;
        let datums: &mut [Datum] = if self.equal.len() <= FEW {
            &mut few[..self.equal.len()]
        } else {
            many = vec![Datum::Null; self.equal.len()];
            &mut many
        };
        for ((values, &column), slot) in self.equal.iter().zip(columns).zip(datums.iter_mut()) {
            let Some(only) = values.single() else { return Ok(PointKey::Unknown) };
            match bridge::key_value(&value(only)?, &table.columns[column].ty)? {
                KeyValue::Exact(datum) => *slot = datum,
                KeyValue::Null | KeyValue::BelowAll | KeyValue::AboveAll => return Ok(PointKey::None),
                KeyValue::Unknown => return Ok(PointKey::Unknown),
            }
        }
        let key = match &*datums {
            [only] => encode_key(table, self.index, &[only.as_ref()])?,
            [a, b] => encode_key(table, self.index, &[a.as_ref(), b.as_ref()])?,
            all => encode_key(table, self.index, &all.iter().map(Datum::as_ref).collect::<Vec<_>>())?,
        };
        Ok(key.map_or(PointKey::None, PointKey::Key))
    }

    /// The ranges to read, ascending and disjoint; empty if nothing can match.
    pub(crate) fn ranges(&self, table: &Table, value: impl FnMut(&V) -> Result<ScalarValue>) -> Result<Vec<KeyRange>> {
        self.ranges_told(table, value).map(|(ranges, _)| ranges)
    }

    /// As [`AccessPath::ranges`], and whether all keys in them have the path's values and are within its
    /// bounds, as far as keys are in the order of their values.
    pub(crate) fn ranges_told(
        &self,
        table: &Table,
        mut value: impl FnMut(&V) -> Result<ScalarValue>,
    ) -> Result<(Vec<KeyRange>, bool)> {
        let columns = self.key_columns(table);
        let mut prefixes: Vec<Vec<Datum>> = vec![Vec::new()];
        // A value that is not of the key's type without loss bounds nothing, nor does what comes behind it.
        let mut complete = true;
        for (values, &column) in self.equal.iter().zip(columns) {
            let values = values.evaluate(&mut value)?;
            let mut known = Vec::with_capacity(values.len());
            for value in &values {
                match bridge::key_value(value, &table.columns[column].ty)? {
                    KeyValue::Exact(datum) => known.push(datum),
                    KeyValue::Null | KeyValue::BelowAll | KeyValue::AboveAll => {}
                    KeyValue::Unknown => complete = false,
                }
            }
            complete &= prefixes.len().saturating_mul(known.len()) <= RANGES_MAX;
            if !complete {
                break;
            }
            match known.as_slice() {
                [] => return Ok((Vec::new(), true)),
                [only] => prefixes.iter_mut().for_each(|prefix| prefix.push(only.clone())),
                known => {
                    prefixes = prefixes
                        .iter()
                        .flat_map(|prefix| {
                            known.iter().map(move |datum| prefix.iter().chain([datum]).cloned().collect())
                        })
                        .collect();
                }
            }
        }
        let (mut low, mut high) = (None, None);
        let mut is_exact = complete;
        let (mut order, mut without_nulls) = (ColumnOrder::ASCENDING, false);
        if complete && let Some(column) = columns.get(self.equal.len()) {
            let ty = &table.columns[*column].ty;
            order = table.column_order(self.index, self.equal.len());
            // Of a comparison with NULL nothing comes.
            let is_bounded = self.not_null || self.is_bounded_behind();
            without_nulls = is_bounded && table.columns[*column].nullable;
            if let Some((expr, inclusive)) = &self.low {
                match bridge::key_value(&value(expr)?, ty)? {
                    KeyValue::Exact(datum) => low = Some((datum, *inclusive)),
                    KeyValue::Null | KeyValue::AboveAll => return Ok((Vec::new(), true)),
                    KeyValue::BelowAll | KeyValue::Unknown => is_exact = false,
                }
            }
            if let Some((expr, inclusive)) = &self.high {
                match bridge::key_value(&value(expr)?, ty)? {
                    KeyValue::Exact(datum) => high = Some((datum, *inclusive)),
                    KeyValue::Null | KeyValue::BelowAll => return Ok((Vec::new(), true)),
                    KeyValue::AboveAll | KeyValue::Unknown => is_exact = false,
                }
            }
            if self.prefix.is_some() {
                is_exact = false;
                match self.prefix_bounds(&mut value)? {
                    Some((from, to)) => (low, high) = (from.map(|from| (from, true)), to.map(|to| (to, false))),
                    None => return Ok((Vec::new(), true)),
                }
            }
        }
        let mut encoded: Vec<(Vec<u8>, Vec<Datum>)> = Vec::with_capacity(prefixes.len());
        for prefix in prefixes {
            if let Some(key) = self.encode(table, &prefix, None)? {
                encoded.push((key, prefix));
            }
        }
        let (first, last) = if order.descending { (high, low) } else { (low, high) };
        encoded.sort_by(|a, b| a.0.cmp(&b.0));
        encoded.dedup_by(|a, b| a.0 == b.0);
        let mut out = Vec::with_capacity(encoded.len());
        for (key, prefix) in encoded {
            let mut range = if key.is_empty() { KeyRange::all() } else { KeyRange::prefix(&key) };
            if without_nulls && let Some(key) = self.encode(table, &prefix, Some(&Datum::Null))? {
                match (order.nulls_first, prefix_end(&key)) {
                    (false, _) => range.high = Bound::Excluded(key),
                    (true, Some(end)) => range.low = Bound::Included(end),
                    (true, None) => {}
                }
            }
            // A bound that is too long for a key bounds nothing.
            let mut bound = |bound: &Option<(Datum, bool)>| -> Result<Option<(Vec<u8>, bool)>> {
                let Some((datum, inclusive)) = bound else { return Ok(None) };
                let key = self.encode(table, &prefix, Some(datum))?;
                is_exact &= key.is_some();
                Ok(key.map(|key| (key, *inclusive)))
            };
            let (first, last) = (bound(&first)?, bound(&last)?);
            if let Some((key, inclusive)) = first {
                range.low = if inclusive {
                    Bound::Included(key)
                } else {
                    match prefix_end(&key) {
                        Some(end) => Bound::Included(end),
                        None => continue,
                    }
                };
            }
            if let Some((key, inclusive)) = last {
                range.high = match (inclusive, prefix_end(&key)) {
                    (false, _) => Bound::Excluded(key),
                    (true, Some(end)) => Bound::Excluded(end),
                    (true, None) => Bound::Unbounded,
                };
            }
            if let (Bound::Included(l), Bound::Excluded(h)) = (&range.low, &range.high)
                && l >= h
            {
                continue;
            }
            out.push(range);
        }
        Ok((out, is_exact))
    }

    /// The least text that begins as [`AccessPath::prefix`] says, and the least one behind all of these, as far as there are such; `None`
    /// where no text can.
    pub(crate) fn prefix_bounds(
        &self,
        mut value: impl FnMut(&V) -> Result<ScalarValue>,
    ) -> Result<Option<(Option<Datum>, Option<Datum>)>> {
        let Some((text, is_pattern)) = &self.prefix else { return Ok(Some((None, None))) };
        let text = match value(text)? {
            ScalarValue::Utf8(text) | ScalarValue::Utf8View(text) | ScalarValue::LargeUtf8(text) => text,
            value if value.is_null() => None,
            _ => return Ok(Some((None, None))),
        };
        let Some(text) = text else { return Ok(None) };
        let prefix = if *is_pattern { before_wildcard(&text) } else { text };
        let from = (!prefix.is_empty()).then(|| Datum::Text(prefix.clone()));
        Ok(Some((from, text_behind(&prefix).map(Datum::Text))))
    }

    /// As [`AccessPath::ranges`]; one that spans all of them where they are so many that going from one to
    /// the next takes longer than reading what is between, of a table of `rows` rows.
    pub(crate) fn ranges_worth(
        &self,
        table: &Table,
        value: impl FnMut(&V) -> Result<ScalarValue>,
        rows: impl FnOnce() -> u64,
    ) -> Result<Vec<KeyRange>> {
        let ranges = self.ranges(table, value)?;
        if ranges.len() <= RANGES_FEW || ranges.len() as u64 * 4 <= rows() {
            return Ok(ranges);
        }
        let (Some(first), Some(last)) = (ranges.first(), ranges.last()) else { return Ok(ranges) };
        Ok(vec![KeyRange { low: first.low.clone(), high: last.high.clone() }])
    }

    fn encode(&self, table: &Table, prefix: &[Datum], last: Option<&Datum>) -> Result<Option<Vec<u8>>> {
        let values: Vec<DatumRef<'_>> = prefix.iter().chain(last).map(Datum::as_ref).collect();
        encode_key(table, self.index, &values)
    }
}

/// Values of a list that EXPLAIN shows.
const SHOWN_MAX: usize = 100;

impl<V> AccessPath<V> {
    /// What bounds the rows that are read, in SQL's words. `prefix` stands before names of columns; `value` writes a value.
    pub(crate) fn conditions(&self, table: &Table, prefix: &str, value: impl Fn(&V) -> String) -> Vec<String> {
        let key = self.key_columns(table);
        let name = |i: usize| {
            key.get(i).map_or_else(
                || "?".to_owned(),
                // An expression has names of columns in it.
                |&c| match table.columns[c].is_hidden() {
                    true => bridge::key_name(table, c),
                    false => format!("{prefix}{}", quote_ident(&table.columns[c].name)),
                },
            )
        };
        let mut conditions: Vec<String> = Vec::new();
        for (i, values) in self.equal.iter().enumerate() {
            conditions.push(match (values.single(), values) {
                (Some(one), _) => format!("({} = {})", name(i), value(one)),
                (None, KeyValues::Each(many)) => {
                    let mut shown: Vec<String> = many.iter().take(SHOWN_MAX).map(&value).collect();
                    if many.len() > SHOWN_MAX {
                        shown.push(format!("... {} values", many.len()));
                    }
                    format!("({} = ANY (ARRAY[{}]))", name(i), shown.join(", "))
                }
                (None, KeyValues::Array(array)) => format!("({} = ANY ({}))", name(i), value(array)),
            });
        }
        let next = name(self.equal.len());
        if let Some((low, inclusive)) = &self.low {
            conditions.push(format!("({next} {} {})", if *inclusive { ">=" } else { ">" }, value(low)));
        }
        if let Some((high, inclusive)) = &self.high {
            conditions.push(format!("({next} {} {})", if *inclusive { "<=" } else { "<" }, value(high)));
        }
        if let Some((prefix, is_pattern)) = &self.prefix {
            conditions.push(format!("({next} {} {})", if *is_pattern { "~~" } else { "^@" }, value(prefix)));
        }
        if self.not_null && !self.is_bounded_behind() {
            conditions.push(format!("({next} IS NOT NULL)"));
        }
        conditions
    }
}

/// What every text begins with that a pattern of LIKE matches.
fn before_wildcard(pattern: &str) -> String {
    let mut out = String::new();
    let mut chars = pattern.chars();
    while let Some(next) = chars.next() {
        match next {
            '%' | '_' => break,
            // What is behind it stands for itself. At the end it is an error, told where rows are compared.
            '\\' => match chars.next() {
                Some(escaped) => out.push(escaped),
                None => break,
            },
            next => out.push(next),
        }
    }
    out
}

/// The least text that is behind all those that begin with `prefix`; `None`: there is none.
fn text_behind(prefix: &str) -> Option<String> {
    let mut chars: Vec<char> = prefix.chars().collect();
    while let Some(last) = chars.pop() {
        // Between these two are no characters.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(u32::from(last) + 1) };
        if let Some(next) = next {
            chars.push(next);
            return Some(chars.into_iter().collect());
        }
    }
    None
}

/// The smallest byte string above every string that starts with `prefix`.
fn prefix_end(prefix: &[u8]) -> Option<Vec<u8>> {
    let keep = prefix.iter().rposition(|&byte| byte != 0xff)?;
    let mut end = prefix[..=keep].to_vec();
    end[keep] += 1;
    Some(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_patterns_begin_with() {
        for (pattern, prefix) in [
            ("abc%", "abc"),
            ("a_c", "a"),
            ("%x", ""),
            ("", ""),
            ("exact", "exact"),
            ("50\\%%", "50%"),
            ("a\\_b_", "a_b"),
            ("back\\\\slash%", "back\\slash"),
            ("end\\", "end"),
            ("ä€%", "ä€"),
        ] {
            assert_eq!(before_wildcard(pattern), prefix, "{pattern}");
        }
    }

    #[test]
    fn what_is_behind_a_prefix() {
        for (prefix, behind) in [
            ("abc", Some("abd")),
            ("", None),
            ("\u{10ffff}", None),
            ("a\u{10ffff}", Some("b")),
            ("a\u{d7ff}", Some("a\u{e000}")),
            ("\u{7f}", Some("\u{80}")),
        ] {
            assert_eq!(text_behind(prefix).as_deref(), behind, "{prefix:?}");
        }
        // All texts that begin so are before it, and it is the least such.
        let behind = text_behind("aß").unwrap_or_default();
        assert!("aß\u{10ffff}\u{10ffff}" < behind.as_str() && behind.as_str() <= "aà");
    }
}
