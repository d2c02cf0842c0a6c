//! Queries: relations within each other that have orders, and what goes by them.

use super::relation::{Field, Order, Relation};
use crate::answers::fuzz::generator::Gen;
use crate::answers::fuzz::query::Query;
use crate::answers::fuzz::tree::{Style, Tree, seq};
use crate::answers::fuzz::types::{Ty, Value};

/// More rows than any relation has: what bounds sums.
const ROWS_BOUND: f64 = 1e5;

/// A SELECT.
pub(super) struct Shape {
    pub(super) tree: Tree,
    /// Its columns by their names.
    pub(super) columns: Vec<Field>,
    pub(super) rows: f64,
    /// As of [`Relation`]; by the names of its columns.
    pub(super) orders: Vec<Order>,
    /// What ORDER BY may name besides its columns; none if it ends with an ORDER BY or a LIMIT of its own.
    beside: Option<Beside>,
}

/// Of what a SELECT is that an ORDER BY may follow.
#[derive(Default)]
struct Beside {
    fields: Vec<Field>,
    orders: Vec<Order>,
}

/// Ways that an order goes.
const WAYS: [&str; 8] = ["", "", "", "", " DESC", " NULLS FIRST", " DESC NULLS LAST", " ASC NULLS LAST"];

impl Gen<'_> {
    /// A statement about orders.
    pub fn order_query(&mut self) -> Query {
        if self.once_in(3) {
            return self.as_they_come();
        }
        let depth = [0, 1, 1, 2][self.below(4)];
        match self.below(12) {
            0 => Query { tree: self.shape(depth).tree, ordered: false },
            1 => self.strung_together(depth),
            2 => {
                // Numbered as they come.
                let (tree, columns, rows) = self.ordered(depth);
                let within = Relation::of_query(tree, "o", &columns, &[], rows);
                let names: Vec<&str> = within.fields.iter().map(|field| field.sql.as_str()).collect();
                let tree = seq!["SELECT ", names.join(", "), ", row_number() OVER () AS n FROM ", within.tree];
                Query { tree, ordered: false }
            }
            3 => {
                let shape = self.shape(depth);
                let hint = self.pick(&["", "MATERIALIZED ", "NOT MATERIALIZED "]);
                let names = names_of(&shape.columns);
                let order = self.whole_order(&shape.columns, &shape.orders, None);
                let tree = seq!["WITH w AS ", hint, "(", shape.tree, ") SELECT ", names, " FROM w ORDER BY ", order];
                Query { tree, ordered: true }
            }
            _ => {
                let (tree, ..) = self.ordered(depth);
                Query { tree, ordered: true }
            }
        }
    }

    /// Only what an order has that the rows may be taken to come in: here a plan sorts nothing if it believes in that order.
    fn as_they_come(&mut self) -> Query {
        let depth = self.below(3) / 2;
        let relation = if self.once_in(4) { self.order_table() } else { self.relations(depth) };
        let filter = if self.once_in(3) { self.order_where(&relation) } else { Tree::nothing() };
        let filter_is_none = filter == Tree::nothing();
        let from = seq![" FROM ", relation.tree.clone(), filter];
        let order = self.any_order(&relation.orders);
        let order = self.begun(order);
        if order.is_empty() {
            return Query { tree: self.some_columns(&relation, from).tree, ordered: false };
        }
        let items = order.iter().map(|(sql, _)| sql.as_str()).collect::<Vec<_>>().join(", ");
        let by = order.iter().map(|(sql, way)| format!("{sql}{way}")).collect::<Vec<_>>().join(", ");
        let distinct = seq!["SELECT DISTINCT ", items.clone(), from.clone()];
        let any = |tree| Query { tree, ordered: false };
        if order.len() > 1 && !relation.has_equal && filter_is_none && self.once_in(2) {
            let (first, rest) = (&order[0].0, order[1..].iter().map(|(sql, _)| sql.as_str()).collect::<Vec<_>>());
            let groups = match self.below(5) {
                0 | 1 => format!("{first}, ROLLUP ({})", rest.join(", ")),
                2 => format!("ROLLUP ({items})"),
                _ => format!("GROUPING SETS (({items}), ({first}))"),
            };
            // What all sets have is what an order might be claimed of.
            let tree = if self.once_in(2) {
                let by = format!("{first}{}", order[0].1);
                seq!["SELECT ", first.clone(), from, " GROUP BY ", groups, " ORDER BY ", by]
            } else {
                seq!["SELECT ", items, ", count(*) AS n", from, " GROUP BY ", groups, " ORDER BY ", by, ", n"]
            };
            return Query { tree, ordered: true };
        }
        match self.below(8) {
            0 | 1 => {
                let bound = if self.once_in(2) { self.first() } else { Tree::nothing() };
                Query { tree: seq!["SELECT ", items, from, " ORDER BY ", by, bound], ordered: true }
            }
            2 => any(distinct),
            3 => Query { tree: seq![distinct, " ORDER BY ", by], ordered: true },
            4 => any(seq!["SELECT count(*) AS n FROM (", distinct, ") AS o"]),
            5 => {
                let of = self.aggregate_of(&relation.fields).sql;
                any(seq!["SELECT ", items.clone(), ", ", of, " AS n", from, " GROUP BY ", items])
            }
            6 => {
                let function = self.pick(&["rank()", "count(*)", "dense_rank()"]);
                let (some, at) = (self.order_value(&relation.fields).sql, self.below(order.len() + 1));
                let listed = |part: &[(String, &'static str)], ways: bool| {
                    part.iter()
                        .map(|(sql, way)| format!("{sql}{}", if ways { *way } else { "" }))
                        .collect::<Vec<_>>()
                        .join(", ")
                };
                let (partition, within) = (listed(&order[..at], false), listed(&order[at..], true));
                let partition = if at == 0 { partition } else { format!("PARTITION BY {partition}") };
                let within = if at == order.len() { within } else { format!(" ORDER BY {within}") };
                any(seq![
                    "SELECT DISTINCT ",
                    some,
                    " AS e, ",
                    function,
                    format!(" OVER ({partition}{within}) AS n"),
                    from
                ])
            }
            _ => {
                let all = order.iter().map(|(sql, _)| format!("coalesce({sql}::text, '~')"));
                let texts = all.collect::<Vec<_>>().join(" || '|' || ");
                let within = seq!["SELECT ", texts, " AS t", from, " ORDER BY ", by];
                any(seq!["SELECT string_agg(t, ',') AS s FROM (", within, ") AS o"])
            }
        }
    }

    /// A query whose order is determined, maybe its first rows.
    fn ordered(&mut self, depth: usize) -> (Tree, Vec<Field>, f64) {
        let shape = self.shape(depth);
        let bound = if self.once_in(3) { self.first() } else { Tree::nothing() };
        let tree = match &shape.beside {
            Some(beside) => {
                let order = self.whole_order(&shape.columns, &shape.orders, Some(beside));
                seq![shape.tree, " ORDER BY ", order, bound]
            }
            None => {
                let order = self.whole_order(&shape.columns, &shape.orders, None);
                seq!["SELECT ", names_of(&shape.columns), " FROM (", shape.tree, ") AS o ORDER BY ", order, bound]
            }
        };
        (tree, shape.columns, shape.rows)
    }

    /// What goes by the order that rows come in.
    fn strung_together(&mut self, depth: usize) -> Query {
        let shape = self.shape(depth);
        let all = shape.columns.iter().map(|c| format!("coalesce(o.{}::text, '~')", c.sql));
        let texts = all.collect::<Vec<_>>().join(" || '|' || ");
        let (by, group, first) = if self.once_in(2) {
            // The groups are in the same order already: no plan has to sort them anew.
            let by = shape.columns[0].sql.clone();
            (format!("o.{by}, "), format!(" GROUP BY o.{by}"), by)
        } else {
            (String::new(), String::new(), shape.columns[self.below(shape.columns.len())].sql.clone())
        };
        let rest = self.whole_order(&shape.columns, &shape.orders, None);
        let within =
            seq!["SELECT ", names_of(&shape.columns), " FROM (", shape.tree, ") AS i ORDER BY ", first, ", ", rest];
        let offset = self.pick(&["", " OFFSET 0"]);
        let tree = seq![
            "SELECT ",
            by,
            "count(*) AS n, string_agg(",
            texts,
            ", ',') AS s FROM (",
            within,
            offset,
            ") AS o",
            group
        ];
        Query { tree, ordered: false }
    }

    fn first(&mut self) -> Tree {
        let values = (0..self.runs).map(|_| Value::Int(1 + self.below(30) as i64)).collect();
        let limit = self.hole_of(Ty::Int8, Style::Bare, values);
        if self.once_in(4) { seq![" OFFSET 2 LIMIT ", limit] } else { seq![" LIMIT ", limit] }
    }

    /// An order that has all columns: what is equal in it is the same. Half of them begin as the rows may come already.
    fn whole_order(&mut self, columns: &[Field], orders: &[Order], beside: Option<&Beside>) -> String {
        let mut by: Vec<String> =
            self.shuffled(columns.len()).into_iter().map(|at| self.by_name(columns, at)).collect();
        if let Some(beside) = beside.filter(|beside| !beside.fields.is_empty())
            && self.once_in(4)
        {
            let more = self.order_value(&beside.fields).sql;
            let at = self.below(by.len() + 1);
            by.insert(at, more);
        }
        let known = match beside {
            Some(beside) if !beside.orders.is_empty() && self.once_in(2) => &beside.orders,
            _ => orders,
        };
        let rest = self.with_ways(by);
        if known.is_empty() || self.once_in(3) {
            return rest;
        }
        let mut order = known[self.below(known.len())].clone();
        // More likely one that has all columns.
        if let Some(longest) = known.iter().max_by_key(|order| order.len())
            && self.once_in(2)
        {
            order = longest.clone();
        }
        let first = self.begun(order).into_iter().map(|(by, way)| format!("{by}{way}"));
        format!("{}, {rest}", first.collect::<Vec<_>>().join(", "))
    }

    /// An order's beginning, maybe backwards, rarely with a gap.
    fn begun(&mut self, mut order: Order) -> Order {
        let len = order.len();
        if self.once_in(4) {
            order.truncate(1 + self.below(len));
        }
        if order.len() > 1 && self.once_in(8) {
            order.remove(self.below(order.len()));
        }
        if self.once_in(8) {
            order.iter_mut().for_each(|(_, way)| *way = backwards(way));
        }
        order
    }

    fn by_name(&mut self, columns: &[Field], at: usize) -> String {
        if self.once_in(4) { (at + 1).to_string() } else { columns[at].sql.clone() }
    }

    fn with_ways(&mut self, by: Vec<String>) -> String {
        // As plain orders as indexes have, for the most part.
        let plain = self.once_in(2);
        let one = |g: &mut Self, by: String| if plain { by } else { format!("{by}{}", g.pick(&WAYS)) };
        by.into_iter().map(|by| one(self, by)).collect::<Vec<_>>().join(", ")
    }

    fn shuffled(&mut self, count: usize) -> Vec<usize> {
        use rand::seq::SliceRandom;
        let mut all: Vec<usize> = (0..count).collect();
        all.shuffle(self.rng);
        all
    }

    /// Some columns, or what is computed of them; half of them as an order of the rows has them.
    fn some_of(&mut self, relation: &Relation, most: usize) -> Vec<Field> {
        let mut some: Vec<Field> = Vec::new();
        if !relation.orders.is_empty() && self.once_in(2) {
            let order = relation.orders[self.below(relation.orders.len())].clone();
            for (sql, _) in self.begun(order) {
                some.extend(relation.fields.iter().find(|field| field.sql == sql).cloned());
            }
            some.truncate(most);
            if self.once_in(6) {
                let order = self.shuffled(some.len());
                some = order.into_iter().map(|at| some[at].clone()).collect();
            }
        }
        let count = match some.len() {
            0 => 1 + self.below(most),
            // What is not in the order would have to be sorted by.
            _ if self.once_in(2) => 0,
            known => self.below(most + 1 - known),
        };
        let fields = &relation.fields;
        for _ in 0..count {
            let value = self.order_value(fields);
            if some.iter().all(|known| known.sql != value.sql) {
                some.push(value);
            }
        }
        some
    }

    /// A SELECT of any kind.
    pub(super) fn shape(&mut self, depth: usize) -> Shape {
        if self.once_in(12) {
            return self.one_after_another_by_order(depth);
        }
        let relation = self.relations(depth);
        let filter = self.order_where(&relation);
        let filtered = filter != Tree::nothing();
        let from = seq![" FROM ", relation.tree.clone(), filter];
        match self.below(14) {
            0..=3 => self.some_columns(&relation, from),
            4 | 5 => {
                let chosen = self.some_of(&relation, 4);
                let rows = chosen.iter().map(|field| field.values).product::<f64>().min(relation.rows);
                let (items, columns, orders) = self.named(chosen, &relation);
                Shape {
                    tree: seq!["SELECT DISTINCT ", list(items), from],
                    columns,
                    rows,
                    orders,
                    beside: Some(Beside::default()),
                }
            }
            6..=8 => self.grouped_by(&relation, from),
            9 => self.in_sets(&relation, from, filtered),
            10 | 11 => self.windowed(&relation, from),
            12 => self.first_of_each(&relation, from),
            _ => {
                let shape = self.some_columns(&relation, from);
                let order = self.whole_order(&shape.columns, &shape.orders, None);
                let bound = if self.once_in(2) { self.first() } else { Tree::from(" OFFSET 0") };
                Shape { tree: seq![shape.tree, " ORDER BY ", order, bound], beside: None, ..shape }
            }
        }
    }

    /// Names for outputs.
    fn named(&mut self, chosen: Vec<Field>, relation: &Relation) -> (Vec<String>, Vec<Field>, Vec<Order>) {
        let names: Vec<String> = chosen.iter().map(|_| self.name("e")).collect();
        let items = chosen.iter().zip(&names).map(|(field, name)| format!("{} AS {name}", field.sql)).collect();
        let known = |(sql, way): &(String, &'static str)| {
            chosen.iter().position(|field| field.sql == *sql).map(|at| (names[at].clone(), *way))
        };
        let orders = relation.orders.iter().map(|order| order.iter().map_while(known).collect::<Order>());
        let orders = orders.filter(|order| !order.is_empty()).collect();
        let columns = chosen.iter().zip(&names).map(|(field, name)| Field { sql: name.clone(), ..field.clone() });
        (items, columns.collect(), orders)
    }

    fn some_columns(&mut self, relation: &Relation, from: Tree) -> Shape {
        let chosen = self.some_of(relation, 4);
        let (items, columns, orders) = self.named(chosen, relation);
        let tree = seq!["SELECT ", list(items), from];
        let beside = Beside { fields: relation.fields.clone(), orders: relation.orders.clone() };
        Shape { tree, columns, rows: relation.rows, orders, beside: Some(beside) }
    }

    fn aggregates(&mut self, fields: &[Field]) -> Vec<Field> {
        let count = self.below(3) + 1;
        (0..count).map(|_| self.aggregate_of(fields)).collect()
    }

    fn aggregate_of(&mut self, fields: &[Field]) -> Field {
        let field = self.order_value(fields);
        let x = &field.sql;
        let number = |sql: String, most: f64| Field { sql, ty: Ty::Int8, most, values: 30.0 };
        match self.below(7) {
            0 | 1 => number("count(*)".into(), ROWS_BOUND),
            2 => number(format!("count(DISTINCT {x})"), ROWS_BOUND),
            3 if matches!(field.ty, Ty::Int2 | Ty::Int4) => number(format!("sum({x})"), ROWS_BOUND * field.most),
            4 => {
                let sql = format!("string_agg({x}::text, ',' ORDER BY {x})");
                Field { sql, ty: Ty::Text, most: 1.0, values: 50.0 }
            }
            5 if field.ty == Ty::Bool => Field { sql: format!("bool_or({x})"), ..field },
            at if field.ty != Ty::Bool => {
                Field { sql: format!("{}({x})", if at % 2 == 0 { "max" } else { "min" }), ..field }
            }
            _ => number(format!("count({x})"), ROWS_BOUND),
        }
    }

    fn grouped_by(&mut self, relation: &Relation, from: Tree) -> Shape {
        let by = self.some_of(relation, 4);
        let groups = by.iter().map(|field| field.sql.clone()).collect::<Vec<_>>();
        let rows = by.iter().map(|field| field.values).product::<f64>().min(relation.rows);
        let mut chosen: Vec<Field> = by.into_iter().filter(|_| !self.once_in(6)).collect();
        chosen.extend(self.aggregates(&relation.fields));
        let order = self.shuffled(chosen.len());
        let chosen = order.into_iter().map(|at| chosen[at].clone()).collect();
        let (items, columns, orders) = self.named(chosen, relation);
        let having = if self.once_in(6) { Tree::maybe(" HAVING count(*) > 1") } else { Tree::nothing() };
        let tree = seq!["SELECT ", list(items), from, " GROUP BY ", groups.join(", "), having];
        Shape { tree, columns, rows, orders, beside: Some(Beside::default()) }
    }

    /// GROUPING SETS, ROLLUP, CUBE.
    fn in_sets(&mut self, relation: &Relation, from: Tree, filtered: bool) -> Shape {
        if relation.has_equal || filtered {
            // PostgreSQL 15 takes what WHERE makes equal to a constant, or to another column, for that in the groups as well, where it is not
            // in the set: so what is filtered is a query of its own there.
            let shape = self.some_columns(relation, from);
            let alias = self.name("x");
            let tree = seq![shape.tree, " OFFSET 0"];
            let relation = Relation::of_query(tree, &alias, &shape.columns, &shape.orders, shape.rows);
            let relation = Relation { has_equal: false, ..relation };
            let from = seq![" FROM ", relation.tree.clone()];
            return self.in_sets(&relation, from, false);
        }
        let by = self.some_of(relation, 3);
        let names: Vec<&str> = by.iter().map(|field| field.sql.as_str()).collect();
        let groups = match self.below(4) {
            0 => format!("ROLLUP ({})", names.join(", ")),
            1 => format!("CUBE ({})", names.join(", ")),
            2 if names.len() > 1 => format!("{}, ROLLUP ({})", names[0], names[1..].join(", ")),
            _ => {
                let sets: Vec<String> = (0..2 + self.below(2))
                    .map(|at| {
                        let within: Vec<&str> = names.iter().copied().filter(|_| at == 0 || !self.once_in(3)).collect();
                        format!("({})", within.join(", "))
                    })
                    .collect();
                format!("GROUPING SETS ({})", sets.join(", "))
            }
        };
        let rows = 3.0 * by.iter().map(|field| field.values).product::<f64>().min(relation.rows);
        let mut chosen = by.clone();
        if self.once_in(3) {
            let sql = format!("grouping({})", by[0].sql);
            chosen.push(Field { sql, ty: Ty::Int4, most: 1.0, values: 2.0 });
        }
        chosen.extend(self.aggregates(&relation.fields));
        let order = self.shuffled(chosen.len());
        let chosen = order.into_iter().map(|at| chosen[at].clone()).collect();
        let (items, columns, orders) = self.named(chosen, relation);
        let tree = seq!["SELECT ", list(items), from, " GROUP BY ", groups];
        let orders = and_by_numbers(orders, &columns);
        Shape { tree, columns, rows, orders, beside: Some(Beside::default()) }
    }

    /// Running aggregates, ranks, numbers.
    fn windowed(&mut self, relation: &Relation, from: Tree) -> Shape {
        let mut chosen = self.some_of(relation, 3);
        let of = chosen.clone();
        chosen.push(self.window_of(relation, &of, true));
        if self.once_in(2) {
            // Two that tell equal rows apart would pair them anyhow.
            chosen.push(self.window_of(relation, &of, false));
        }
        let order = self.shuffled(chosen.len());
        let chosen = order.into_iter().map(|at| chosen[at].clone()).collect();
        let (items, columns, orders) = self.named(chosen, relation);
        let tree = seq!["SELECT ", list(items), from];
        let orders = and_by_numbers(orders, &columns);
        Shape { tree, columns, rows: relation.rows, orders, beside: Some(Beside::default()) }
    }

    fn window_of(&mut self, relation: &Relation, chosen: &[Field], apart: bool) -> Field {
        let fields = &relation.fields;
        let listed =
            |some: &[String]| if some.is_empty() { String::new() } else { format!("PARTITION BY {}", some.join(", ")) };
        let (partition, few) = if relation.orders.is_empty() || self.once_in(2) {
            let by = if self.once_in(2) { self.some_of(relation, 2) } else { Vec::new() };
            let by: Vec<String> = by.into_iter().map(|field| field.sql).collect();
            let few = self.some_of(relation, 3).into_iter().map(|field| field.sql).collect();
            (listed(&by), self.with_ways(few))
        } else {
            // Partitions by what an order begins with, and the rest of it within them.
            let order = relation.orders[self.below(relation.orders.len())].clone();
            let order = self.begun(order);
            let (by, within) = order.split_at(self.below(order.len()));
            let by: Vec<String> = by.iter().map(|(sql, _)| sql.clone()).collect();
            let within: Vec<String> = within.iter().map(|(sql, way)| format!("{sql}{way}")).collect();
            (listed(&by), within.join(", "))
        };
        let number = |sql: String, most: f64| Field { sql, ty: Ty::Int8, most, values: 50.0 };
        let field = chosen[self.below(chosen.len())].clone();
        let x = &field.sql;
        match self.below(9) {
            1 | 2 => {
                let rank = self.pick(&["rank()", "dense_rank()", "count(*)"]);
                number(format!("{rank} OVER ({partition} ORDER BY {few})"), ROWS_BOUND)
            }
            // Peers are counted as one, so any order does.
            3 if matches!(field.ty, Ty::Int2 | Ty::Int4) => {
                number(format!("sum({x}) OVER ({partition} ORDER BY {few})"), ROWS_BOUND * field.most)
            }
            4 => number(format!("count({x}) OVER ({partition} ORDER BY {few})"), ROWS_BOUND),
            at @ (5 | 6) if field.ty != Ty::Bool => {
                let name = if at == 5 { "max" } else { "min" };
                Field { sql: format!("{name}({x}) OVER ({partition} ORDER BY {few})"), ..field }
            }
            at @ (7 | 8) if apart => {
                // By all that the relation has: what is equal is the same.
                let whole: Vec<String> =
                    self.shuffled(fields.len()).into_iter().map(|at| fields[at].sql.clone()).collect();
                let rest = self.with_ways(whole);
                let whole = if self.once_in(2) { rest } else { format!("{few}, {rest}") };
                match at {
                    7 => Field { sql: format!("lag({x}) OVER ({partition} ORDER BY {whole})"), ..field },
                    _ => number(format!("row_number() OVER ({partition} ORDER BY {whole})"), ROWS_BOUND),
                }
            }
            _ => number(format!("count(*) OVER ({partition})"), ROWS_BOUND),
        }
    }

    /// DISTINCT ON.
    fn first_of_each(&mut self, relation: &Relation, from: Tree) -> Shape {
        let chosen = self.some_of(relation, 4);
        let by = 1 + self.below(2.min(chosen.len()));
        let on: Vec<String> = chosen[..by].iter().map(|field| field.sql.clone()).collect();
        let rows = chosen[..by].iter().map(|field| field.values).product::<f64>().min(relation.rows);
        let mut order: Vec<String> = self.shuffled(by).into_iter().map(|at| on[at].clone()).collect();
        order.extend(chosen[by..].iter().map(|field| field.sql.clone()));
        let order = self.with_ways(order);
        let (items, columns, orders) = self.named(chosen, relation);
        let tree = seq!["SELECT DISTINCT ON (", on.join(", "), ") ", items.join(", "), from, " ORDER BY ", order];
        Shape { tree, columns, rows, orders, beside: None }
    }

    /// UNION ALL for the most part, of inputs that are in order.
    fn one_after_another_by_order(&mut self, depth: usize) -> Shape {
        let mut sides = Vec::new();
        let mut first: Vec<Field> = Vec::new();
        let (mut rows, mut types): (f64, Vec<Ty>) = (0.0, Vec::new());
        for side in 0..2 + usize::from(self.once_in(4)) {
            let relation = self.relations(depth.saturating_sub(1));
            let filter = self.order_where(&relation);
            let chosen = if side == 0 {
                self.some_of(&relation, 3)
            } else {
                types.iter().map(|ty| self.of_type(&relation.fields, *ty)).collect()
            };
            types = chosen.iter().map(|field| field.ty).collect();
            let (items, columns, orders) = self.named(chosen, &relation);
            let select = seq!["SELECT ", items.join(", "), " FROM ", relation.tree.clone(), filter];
            sides.push(if self.once_in(2) {
                let order = self.whole_order(&columns, &orders, None);
                let bound = if self.once_in(3) { self.first() } else { Tree::nothing() };
                seq!["(", select, " ORDER BY ", order, bound, ")"]
            } else {
                select
            });
            rows += relation.rows;
            if side == 0 {
                first = columns;
            } else {
                for (known, new) in first.iter_mut().zip(&columns) {
                    known.most = known.most.max(new.most);
                    known.values = known.values.max(new.values);
                }
            }
        }
        let word = self.pick(&[" UNION ALL ", " UNION ALL ", " UNION ALL ", " UNION ", " EXCEPT ", " INTERSECT ALL "]);
        Shape {
            tree: Tree::list(sides, word, 1),
            columns: first,
            rows,
            orders: Vec::new(),
            beside: Some(Beside::default()),
        }
    }

    fn of_type(&mut self, fields: &[Field], ty: Ty) -> Field {
        let fits: Vec<&Field> = fields.iter().filter(|field| field.ty == ty).collect();
        match fits.get(self.below(fits.len())) {
            Some(field) => (*field).clone(),
            None => Field { sql: format!("NULL::{}", ty.name()), ty, most: 0.0, values: 1.0 },
        }
    }
}

fn names_of(columns: &[Field]) -> String {
    columns.iter().map(|c| c.sql.as_str()).collect::<Vec<_>>().join(", ")
}

/// And the orders of what is counted, alone and behind the others.
fn and_by_numbers(mut orders: Vec<Order>, columns: &[Field]) -> Vec<Order> {
    for column in columns.iter().filter(|column| column.ty == Ty::Int8) {
        let by = (column.sql.clone(), "");
        if let Some(mut order) = orders.first().cloned()
            && order.iter().all(|(sql, _)| *sql != column.sql)
        {
            order.push(by.clone());
            orders.push(order);
        }
        orders.push(vec![by]);
    }
    orders
}

/// The same order, from its end.
fn backwards(way: &str) -> &'static str {
    match way {
        "" => " DESC",
        " DESC" => "",
        " NULLS FIRST" => " DESC NULLS LAST",
        _ => " NULLS FIRST",
    }
}

/// Items of a select list. All of them are needed: others name them.
fn list(items: Vec<String>) -> Tree {
    let count = items.len();
    Tree::list(items.into_iter().map(Tree::from).collect(), ", ", count)
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::answers::fuzz::schema::Schema;
    use crate::answers::fuzz::tree::{Writing, write};

    #[test]
    fn there_is_all_of_it() {
        let mut rng = StdRng::seed_from_u64(5);
        let schema = Schema::for_orders(&mut rng);
        let mut texts = String::new();
        for _ in 0..500 {
            let mut g = Gen::new(&mut rng, &schema, 7);
            let query = g.order_query();
            let (text, _) = write(&query.tree, &g.holes, Writing { run: Some(0), drop_null_in_not_in: false });
            assert_eq!(text.matches('(').count(), text.matches(')').count(), "{text}");
            texts += &text;
        }
        let all = [
            " JOIN ",
            " LEFT JOIN ",
            " RIGHT JOIN ",
            " FULL JOIN ",
            "EXISTS",
            " IN (SELECT",
            "NOT IN",
            "DISTINCT ON",
            "GROUP BY",
            "ROLLUP",
            "CUBE",
            "GROUPING SETS",
            "PARTITION BY",
            " NULLS FIRST",
            "UNION ALL",
            " LIMIT ",
            "string_agg(",
            "max(",
            "rank()",
        ];
        for word in all {
            assert!(texts.matches(word).count() > 5, "{word}");
        }
    }
}
