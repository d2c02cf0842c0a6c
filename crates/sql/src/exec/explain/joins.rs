//! Joins as nodes.
//!
//! PostgreSQL's outer input is the one whose rows are taken one after another, the inner one what is held or looked up for them. The
//! query engine holds its left side, so that is the inner one here; kinds of joins are told from the outer input's side.

use datafusion::common::{JoinSide, JoinType};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};

use super::convert::{Convert, Made, Plan, all_of};
use super::cost;
use super::node::{Node, Property, Value};
use super::words::Words;
use crate::exec::access_path::FETCH;
use crate::exec::estimate::physical;
use crate::exec::lookup_join::{LookupJoinExec, ShownLookup};
use crate::exec::measured;
use crate::pg::functions::quote_ident;

/// The parts of a join that is being shown.
struct Join<'a> {
    plan: &'a Plan,
    kind: JoinType,
    left: Made,
    right: Made,
    /// Which side is the outer one.
    outer: JoinSide,
    projection: Option<&'a [usize]>,
}

impl Convert<'_> {
    /// `None`: it is no join.
    pub(super) fn join(&self, plan: &Plan) -> Option<Made> {
        if let Some(lookup) = plan.downcast_ref::<LookupJoinExec>() {
            return self.lookup(plan, &lookup.shown());
        }
        if let Some(hash) = plan.downcast_ref::<HashJoinExec>() {
            let (left, right) = (self.made(hash.left()), self.made(hash.right()));
            let mut node = Node::new("Hash Join").named("Hash");
            let keys = hash
                .on()
                .iter()
                .map(|(l, r)| format!("({} = {})", self.words(&right.columns).of(r), self.words(&left.columns).of(l)));
            let keys: Vec<String> = keys.collect();
            node.condition("Hash Cond", all_of(&keys));
            self.join_filter(&mut node, hash.filter(), &left, &right);
            let projection = hash.projection.as_deref();
            let join = Join { plan, kind: *hash.join_type(), left, right, outer: JoinSide::Right, projection };
            return Some(self.joined(join, node, "Hash"));
        }
        if let Some(nested) = plan.downcast_ref::<NestedLoopJoinExec>() {
            let (left, right) = (self.made(nested.left()), self.made(nested.right()));
            let mut node = Node::new("Nested Loop");
            self.join_filter(&mut node, nested.filter(), &left, &right);
            let projection = nested.projection().as_deref();
            let join = Join { plan, kind: *nested.join_type(), left, right, outer: JoinSide::Right, projection };
            return Some(self.joined(join, node, "Materialize"));
        }
        if let Some(cross) = plan.downcast_ref::<CrossJoinExec>() {
            let (left, right) = (self.made(cross.left()), self.made(cross.right()));
            let (kind, outer, projection) = (JoinType::Inner, JoinSide::Right, None);
            return Some(self.joined(
                Join { plan, kind, left, right, outer, projection },
                Node::new("Nested Loop"),
                "Materialize",
            ));
        }
        let merge = plan.downcast_ref::<SortMergeJoinExec>()?;
        let (left, right) = (self.made(merge.left()), self.made(merge.right()));
        let mut node = Node::new("Merge Join").named("Merge");
        let keys = merge
            .on()
            .iter()
            .map(|(l, r)| format!("({} = {})", self.words(&left.columns).of(l), self.words(&right.columns).of(r)));
        let keys: Vec<String> = keys.collect();
        node.condition("Merge Cond", all_of(&keys));
        self.join_filter(&mut node, merge.filter().as_ref(), &left, &right);
        let join = Join { plan, kind: merge.join_type(), left, right, outer: JoinSide::Left, projection: None };
        Some(self.joined(join, node, ""))
    }

    /// A join that looks rows up by a key, as long as there are few to look up for, and is a hash join otherwise.
    fn lookup(&self, plan: &Plan, lookup: &ShownLookup<'_>) -> Option<Made> {
        let hash = lookup.join.downcast_ref::<HashJoinExec>()?;
        let (left, right) = (self.made(hash.left()), self.made(hash.right()));
        let outer_side = if lookup.inner == JoinSide::Right { JoinSide::Left } else { JoinSide::Right };
        let outer = if outer_side == JoinSide::Left { &left } else { &right };
        let mut node = Node::new("Lookup Join").named("Lookup");
        node.pair("Lookup Index", Value::Text(quote_ident(lookup.tree)));
        let outer_words = self.words(&outer.columns);
        let column = |at: usize| self.column_of(lookup.table, lookup.alias, at);
        let keys = lookup.key.iter().map(|(at, value)| format!("({} = {})", column(*at), outer_words.of(value)));
        let keys: Vec<String> = keys.collect();
        node.condition("Lookup Cond", all_of(&keys));
        // What the key does not say.
        let pairs = hash.on().iter().map(|(l, r)| {
            let (l, r) = (self.words(&left.columns).of(l), self.words(&right.columns).of(r));
            if outer_side == JoinSide::Left { format!("({r} = {l})") } else { format!("({l} = {r})") }
        });
        let pairs: Vec<String> = pairs.filter(|pair| !keys.contains(pair)).collect();
        node.condition("Hash Cond", all_of(&pairs));
        self.join_filter(&mut node, hash.filter(), &left, &right);
        node.pair("Lookup Limit", Value::Count(lookup.rows_max as u64));
        if measured::of(plan).is_some_and(|measured| measured.runs > 0)
            && let Some(metrics) = plan.metrics()
        {
            let sum = |name: &str| metrics.sum_by_name(name).map_or(0, |value| value.as_usize()) as u64;
            node.pair("Lookups", Value::Count(sum("lookups")));
            node.pair("Became Hash Join", Value::Count(sum("fell_back")));
        }
        let projection = hash.projection.as_deref();
        let join = Join { plan: lookup.join, kind: *hash.join_type(), left, right, outer: outer_side, projection };
        let mut made = self.joined(join, node, "");
        made.measured = measured::of(plan);
        Some(made)
    }

    fn words<'w>(&'w self, columns: &'w [String]) -> Words<'w> {
        Words { columns, subplans: &self.met }
    }

    fn join_filter(&self, node: &mut Node, filter: Option<&JoinFilter>, left: &Made, right: &Made) {
        let Some(filter) = filter else { return };
        let column = |at: &ColumnIndex| {
            let side = if at.side == JoinSide::Left { left } else { right };
            side.columns.get(at.index).cloned().unwrap_or_else(|| "?".to_owned())
        };
        let columns: Vec<String> = filter.column_indices().iter().map(column).collect();
        let terms = self.words(&columns).conjuncts(filter.expression());
        node.condition("Join Filter", all_of(&terms));
    }

    /// `held`: the node that stands above the inner input, if it is held.
    fn joined(&self, join: Join<'_>, mut node: Node, held: &'static str) -> Made {
        let Join { plan, kind, mut left, mut right, outer, projection } = join;
        node.join = Some(word(kind, outer == JoinSide::Left));
        let all = match kind {
            JoinType::LeftSemi | JoinType::LeftAnti => left.columns.clone(),
            JoinType::RightSemi | JoinType::RightAnti => right.columns.clone(),
            JoinType::LeftMark => marked(&left.columns),
            JoinType::RightMark => marked(&right.columns),
            _ => left.columns.iter().chain(&right.columns).cloned().collect(),
        };
        let columns = match projection {
            Some(projection) => projection.iter().filter_map(|at| all.get(*at).cloned()).collect(),
            None => all,
        };
        let rows = match (left.rows.take(), right.rows.take()) {
            (Some(left), Some(right)) => Some(physical::without_limit(plan, vec![left, right], self.known)),
            _ => None,
        };
        let (outer, inner) = if outer == JoinSide::Left { (left, right) } else { (right, left) };
        let (of_outer, of_inner) = (cost::input(&outer.node), cost::input(&inner.node));
        let width = cost::width(plan.schema().fields());
        node.estimate = rows.as_ref().map(|rows| {
            let (begins, looks) = match node.kind.as_str() {
                "Nested Loop" => (0.0, of_outer.rows * of_inner.rows),
                "Lookup Join" => (0.0, of_outer.rows * FETCH),
                "Hash Join" => (of_inner.total, of_outer.rows + of_inner.rows),
                _ => (of_inner.startup, of_outer.rows + of_inner.rows),
            };
            cost::joined(of_outer, of_inner, begins, looks, rows.rows, width)
        });
        node.add("Outer", self.finished(outer));
        let actual = inner.measured.map(super::convert::actual);
        let inner = self.finished(inner);
        node.add(
            "Inner",
            match held {
                "" => inner,
                held => {
                    let estimate = inner.estimate;
                    // What it holds are its input's columns.
                    let output =
                        inner.properties.iter().find(|one| matches!(one, Property::Pair("Output", _))).cloned();
                    let mut node = Node::over(held, [inner]);
                    node.properties.extend(output);
                    node.estimate =
                        estimate.map(|estimate| super::node::Estimate { startup: estimate.total, ..estimate });
                    node.actual = actual;
                    node.properties.extend(hash_memory(plan).filter(|_| held == "Hash" && actual.is_some()));
                    node
                }
            },
        );
        let measured = measured::of(plan);
        Made { node, columns, rows, measured, takes_filter: true, conditions: Vec::new() }
    }
}

/// Columns, and whether a row has a partner.
fn marked(columns: &[String]) -> Vec<String> {
    columns.iter().cloned().chain(["mark".to_owned()]).collect()
}

/// What PostgreSQL calls a join, whose outer side may be either.
fn word(kind: JoinType, outer_is_left: bool) -> &'static str {
    let kind = if outer_is_left { kind } else { kind.swap() };
    match kind {
        JoinType::Inner => "Inner",
        JoinType::Left => "Left",
        JoinType::Right => "Right",
        JoinType::Full => "Full",
        JoinType::LeftSemi => "Semi",
        JoinType::LeftAnti => "Anti",
        JoinType::RightSemi => "Right Semi",
        JoinType::RightAnti => "Right Anti",
        JoinType::LeftMark => "Mark",
        JoinType::RightMark => "Right Mark",
    }
}

/// What a hash table of rows took.
fn hash_memory(plan: &Plan) -> Option<Property> {
    let bytes = plan.metrics()?.sum_by_name("build_mem_used")?.as_usize() as u64;
    let kilobytes = bytes.div_ceil(1024);
    let line = format!("Memory Usage: {kilobytes}kB");
    Some(Property::Line(Some(line), vec![("Peak Memory Usage", Value::Count(kilobytes))]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_told_from_the_outer_side() {
        assert_eq!((word(JoinType::Right, false), word(JoinType::Right, true)), ("Left", "Right"));
        assert_eq!((word(JoinType::LeftSemi, true), word(JoinType::LeftSemi, false)), ("Semi", "Right Semi"));
        assert_eq!((word(JoinType::RightAnti, false), word(JoinType::Full, false)), ("Anti", "Full"));
    }
}
