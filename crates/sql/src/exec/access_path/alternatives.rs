//! Several ways whose rows together are those of a condition with OR: [`choose`].
//!
//! `a = 1 OR b = 2` bounds no tree, but each of its alternatives may bound one: those of `a` by one index, those of `b` by
//! another. An alternative is a conjunction of its own, which may be helped by what else is asked of all rows; of one that says
//! nothing of use, an OR within it may. Values of one column that are alternatives to each other are one list.
//!
//! Invariants:
//! 1. The paths together hold at least every row that satisfies the condition; whoever reads them applies it again.
//! 2. No value of them is one of a subquery: a scan might never ask it.

use datafusion::logical_expr::utils::split_conjunction;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use resurgam_engine::Table;

use super::path::{AccessPath, FETCH, RANGES_MAX, trees};
use super::probe::{Probe, ProbeKind, is_row_wise, probes};
use crate::exec::estimate::{PART_BETWEEN, PART_UNKNOWN, TableEstimate};

/// Most ways that are taken together.
const WAYS_MAX: usize = 1024;
/// How deep an OR may be within the alternatives of others.
const DEPTH_MAX: usize = 8;

/// Whether a condition of a scan has alternatives that may each be looked up.
pub(crate) fn has_alternatives(table: &Table, filter: &Expr) -> bool {
    split_conjunction(filter).into_iter().any(|conjunct| alternatives(table, conjunct, 0).is_some())
}

/// The ways by which the rows of one of these conditions, which all hold, are found, where that is less work than `otherwise`.
pub(crate) fn choose(
    table: &Table,
    filters: &[Expr],
    of: &TableEstimate,
    otherwise: f64,
) -> Option<Vec<AccessPath<Expr>>> {
    let conjuncts: Vec<&Expr> = filters.iter().flat_map(split_conjunction).collect();
    let (mut best, mut least) = (None, otherwise);
    for (at, conjunct) in conjuncts.iter().enumerate() {
        // Of one column they may be one list of values, which a path by itself has as well if the alternatives say nothing else.
        let Some(all) = alternatives(table, conjunct, 0) else { continue };
        let others = conjuncts.iter().enumerate().filter(|(other, _)| *other != at);
        // A list of theirs would be looked up once for each alternative.
        let others = others
            .flat_map(|(_, other)| probes(table, other))
            .filter(|probe| !is_list(probe) && is_of_use(table, probe));
        let others: Vec<Probe> = others.collect();
        let ways: Option<Vec<AccessPath<Expr>>> = all.into_iter().map(|own| way(table, own, &others, of)).collect();
        let Some(ways) = ways else { continue };
        let work = work(&ways, of);
        if work < least {
            (best, least) = (Some(ways), work);
        }
    }
    best
}

/// About what part of the rows is read by these ways.
pub(crate) fn part<V>(ways: &[AccessPath<V>], of: &TableEstimate) -> f64 {
    ways.iter().map(|way| part_of(way, of)).sum::<f64>().min(1.0)
}

/// How many rows there are beyond a bound is seen when it is read, and what is read is given up if they are many (unlike a way
/// by itself, which is read to its end): they count as few.
fn part_of<V>(way: &AccessPath<V>, of: &TableEstimate) -> f64 {
    let is_open = !way.whole && way.low.is_some() != way.high.is_some();
    let part = way.part(of);
    if is_open { part / PART_UNKNOWN * PART_BETWEEN } else { part }
}

/// What it takes: to go to each part of each tree, to read the keys of the rows there, and then to fetch the rows one by one.
fn work<V>(ways: &[AccessPath<V>], of: &TableEstimate) -> f64 {
    let each = if is_of_one_tree(ways) { 1.0 } else { 1.0 + FETCH };
    ways.iter().map(|way| of.rows() * part_of(way, of) * each + way.lookups()).sum()
}

/// Whether all of them read the table's own tree, so that nothing has to be fetched.
pub(crate) fn is_of_one_tree<V>(ways: &[AccessPath<V>]) -> bool {
    ways.iter().all(|way| way.index.is_none())
}

/// The cheapest way for the rows of one alternative; `None`: what it says bounds none.
fn way(table: &Table, own: Vec<Probe>, others: &[Probe], of: &TableEstimate) -> Option<AccessPath<Expr>> {
    let columns: Vec<usize> = own.iter().map(|probe| probe.column).collect();
    let mut all = own;
    all.extend_from_slice(others);
    let bounds = |path: &AccessPath<Expr>| {
        let behind = usize::from(path.is_bounded_behind());
        path.key_columns(table).iter().take(path.equal.len() + behind).any(|column| columns.contains(column))
    };
    let work = |path: &AccessPath<Expr>| {
        (part_of(path, of) * if path.index.is_some() { 1.0 + FETCH } else { 1.0 }, std::cmp::Reverse(path.score()))
    };
    let mut best: Option<AccessPath<Expr>> = None;
    for path in AccessPath::all(table, &all).filter(bounds) {
        if best.as_ref().is_none_or(|best| work(&path) < work(best)) {
            best = Some(path);
        }
    }
    best
}

/// What each alternative of an OR says of columns of keys; `None`: one of them says nothing, so that any row may satisfy it.
fn alternatives(table: &Table, expr: &Expr, depth: usize) -> Option<Vec<Vec<Probe>>> {
    if depth > DEPTH_MAX || !is_or(expr) {
        return None;
    }
    let (mut out, mut left): (Vec<Vec<Probe>>, Vec<&Expr>) = (Vec::new(), vec![expr]);
    while let Some(expr) = left.pop() {
        if let Expr::BinaryExpr(BinaryExpr { left: first, op: Operator::Or, right: second }) = expr {
            left.extend([second.as_ref(), first.as_ref()]);
            continue;
        }
        let mut own = probes(table, expr);
        own.retain(|probe| is_of_use(table, probe));
        if own.is_empty() {
            let within = split_conjunction(expr).into_iter();
            out.extend(within.filter(|term| is_or(term)).find_map(|term| alternatives(table, term, depth + 1))?);
        } else {
            add(&mut out, own);
        }
        if out.len() > WAYS_MAX {
            return None;
        }
    }
    Some(out)
}

fn is_or(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryExpr(BinaryExpr { op: Operator::Or, .. }))
}

/// Adds an alternative, to the values of its column if that is all it says.
fn add(out: &mut Vec<Vec<Probe>>, mut own: Vec<Probe>) {
    if let [Probe { column, kind: ProbeKind::In(values) }] = own.as_mut_slice() {
        let list = out.iter_mut().find_map(|known| match known.as_mut_slice() {
            [Probe { column: known, kind: ProbeKind::In(list) }] if known == column => Some(list),
            _ => None,
        });
        if let Some(list) = list.filter(|list| list.len() + values.len() <= RANGES_MAX) {
            list.append(values);
            return;
        }
    }
    out.push(own);
}

/// Whether it has several values, or as many as a parameter has.
fn is_list(probe: &Probe) -> bool {
    match &probe.kind {
        ProbeKind::In(values) => values.len() > 1,
        kind => matches!(kind, ProbeKind::InArray(_)),
    }
}

/// Whether it is about a column of a key, and its values cost nothing.
fn is_of_use(table: &Table, probe: &Probe) -> bool {
    let values: &[Expr] = match &probe.kind {
        ProbeKind::In(values) => values,
        ProbeKind::InArray(value)
        | ProbeKind::Above { value, .. }
        | ProbeKind::Below { value, .. }
        | ProbeKind::Prefix { text: value, .. } => std::slice::from_ref(value),
    };
    trees(table).any(|(_, key, _)| key.contains(&probe.column)) && values.iter().all(is_row_wise)
}
