//! Relations within relations, where LIMIT, OFFSET, WITH TIES, DISTINCT ON and windows pick rows inside: what an
//! optimiser that moves limits, sorts or conditions through the wrong node answers wrongly.
//!
//! Every relation knows columns that tell its rows apart, and each order ends with them and all others: which rows are
//! picked is determined, whatever the plan.

use super::dml::Dml;
use super::generator::{Col, Gen, Rel, Scope};
use super::query::Query;
use super::schema::Table;
use super::tree::{Style, Tree, seq};
use super::types::{Ty, Value};

/// A relation.
#[derive(Clone)]
struct Picked {
    /// A SELECT, without parentheses.
    tree: Tree,
    columns: Vec<Output>,
    /// Which of the columns tell its rows apart together.
    key: Vec<usize>,
}

#[derive(Clone)]
struct Output {
    name: String,
    ty: Ty,
    /// Equal values print alike, so any of them may stand for all.
    plain: bool,
    /// Whether its values may be anywhere in its type's range.
    wild: bool,
}

/// `x.c1, x.c2`
fn names(columns: &[Output], alias: &str) -> String {
    columns.iter().map(|c| format!("{alias}.{}", c.name)).collect::<Vec<_>>().join(", ")
}

impl Picked {
    fn key_names(&self, alias: &str) -> Vec<String> {
        self.key.iter().map(|at| format!("{alias}.{}", self.columns[*at].name)).collect()
    }

    fn scope(&self, alias: &str) -> Scope<'static> {
        let columns = self
            .columns
            .iter()
            .map(|c| Col {
                sql: format!("{alias}.{}", c.name),
                name: c.name.clone(),
                ty: c.ty,
                wild: c.wild,
                // Whatever it was made of.
                most: if c.ty.is_number() { 1e7 } else { 1.0 },
                canonical: c.plain,
                exact: !c.wild,
            })
            .collect();
        Scope { rels: vec![Rel { alias: alias.into(), columns, key: Some(self.key.clone()) }], outer: None }
    }
}

impl Gen<'_> {
    /// A query of such relations.
    pub fn limited_query(&mut self) -> Query {
        let depth = 1 + self.below(4);
        let picked = self.picked(depth);
        let x = self.name("x");
        let within = seq!["(", picked.tree.clone(), ") AS ", x.clone()];
        match self.below(8) {
            // An order of its own, and all columns.
            0..=3 => {
                let order = self.order(&picked, &x, false);
                let rows = self.bounds();
                Query {
                    tree: seq!["SELECT ", names(&picked.columns, &x), " FROM ", within, " ORDER BY ", order, rows],
                    ordered: true,
                }
            }
            4 => Query { tree: picked.tree, ordered: false },
            5 => Query { tree: seq!["SELECT count(*) FROM ", within], ordered: true },
            6 => {
                let (name, with) = (self.name("w"), self.pick(&["", "MATERIALIZED ", "NOT MATERIALIZED "]));
                let again = self.name("y");
                let on: Vec<String> = picked
                    .key_names(&x)
                    .iter()
                    .zip(picked.key_names(&again))
                    .map(|(a, b)| format!("{a} = {b}"))
                    .collect();
                let join = self.pick(&[" JOIN ", " LEFT JOIN ", " FULL JOIN "]);
                let tree = seq![
                    "WITH ",
                    name.clone(),
                    " AS ",
                    with,
                    "(",
                    picked.tree,
                    ") SELECT ",
                    names(&picked.columns, &x),
                    " FROM ",
                    name.clone(),
                    " AS ",
                    x.clone(),
                    join,
                    name,
                    " AS ",
                    again.clone(),
                    " ON ",
                    on.join(" AND ")
                ];
                Query { tree, ordered: false }
            }
            _ => {
                let table = self.any_table();
                let own = self.of_table(&table, depth);
                let not = self.pick(&["", "NOT "]);
                let tree = seq![
                    "SELECT t.* FROM ",
                    table.name.clone(),
                    " AS t WHERE ",
                    self.membership(&own, &table, "t", not)
                ];
                Query { tree, ordered: false }
            }
        }
    }

    /// A DELETE or UPDATE of rows that such a relation picks.
    pub fn limited_dml(&mut self, table: &Table) -> Dml {
        let depth = 1 + self.below(3);
        let own = self.of_table(table, depth);
        let not = if self.once_in(5) { "NOT " } else { "" };
        let rows = self.membership(&own, table, "t", not);
        let returning = if self.once_in(2) { seq![" RETURNING ", table.key_list("t")] } else { Tree::nothing() };
        let free: Vec<usize> = (0..table.columns.len()).filter(|at| is_free(table, *at)).collect();
        if !free.is_empty() && self.once_in(2) {
            let at = free[self.below(free.len())];
            let value = self.constant_beside(table.columns[at].ty).tree;
            let tree = seq![
                "UPDATE ",
                table.name.clone(),
                " AS t SET ",
                table.columns[at].name.clone(),
                " = ",
                value,
                " WHERE ",
                rows,
                returning
            ];
            return Dml { tree, several: true };
        }
        Dml { tree: seq!["DELETE FROM ", table.name.clone(), " AS t WHERE ", rows, returning], several: true }
    }

    /// `(t.k0, t.k1) IN (SELECT x.c1, x.c2 FROM (…) AS x)`; the relation begins with the table's key.
    fn membership(&mut self, own: &Picked, table: &Table, alias: &str, not: &str) -> Tree {
        let x = self.name("x");
        let count = table.key.len();
        let mine = table.key_list(alias);
        seq![
            "(",
            mine,
            ") ",
            not,
            "IN (SELECT ",
            names(&own.columns[..count], &x),
            " FROM (",
            own.tree.clone(),
            ") AS ",
            x,
            ")"
        ]
    }

    /// Rows of one table, in steps that keep its columns.
    fn of_table(&mut self, table: &Table, depth: usize) -> Picked {
        let mut picked = self.rows_of(table);
        for _ in 0..depth {
            picked = match self.below(5) {
                0..=2 => self.first_rows(&picked),
                3 => self.filtered(&picked),
                _ => self.numbered(&picked),
            };
        }
        picked
    }

    fn picked(&mut self, depth: usize) -> Picked {
        if depth == 0 {
            let table = self.any_table();
            return self.rows_of(&table);
        }
        match self.below(14) {
            0..=4 => {
                let inner = self.picked(depth - 1);
                self.first_rows(&inner)
            }
            5 | 6 => {
                let (a, b) = (self.picked(depth - 1), self.picked(depth.saturating_sub(2)));
                self.joined(&a, &b)
            }
            7 => {
                let inner = self.picked(depth - 1);
                self.distinct(&inner)
            }
            8 => {
                let inner = self.picked(depth - 1);
                self.grouped_rows(&inner)
            }
            9 | 10 => {
                let inner = self.picked(depth - 1);
                self.numbered(&inner)
            }
            11 => {
                let table = self.any_table();
                let (a, b) = (self.of_table(&table, depth - 1), self.of_table(&table, depth - 1));
                self.one_after_another(&a, &b)
            }
            _ => {
                let inner = self.picked(depth - 1);
                self.filtered(&inner)
            }
        }
    }

    /// A table's key, and one or two other columns.
    fn rows_of(&mut self, table: &Table) -> Picked {
        let alias = self.name("a");
        let others: Vec<usize> = (0..table.columns.len())
            .filter(|at| !table.key.contains(at) && table.columns[*at].canonical && table.columns[*at].ty.is_ordered())
            .collect();
        let more: Vec<usize> = if others.is_empty() {
            Vec::new()
        } else {
            (0..1 + self.below(2)).map(|_| others[self.below(others.len())]).collect()
        };
        let taken = table.key.iter().copied().chain(more).map(|at| {
            let column = &table.columns[at];
            Output { name: column.name.clone(), ty: column.ty, plain: column.canonical, wild: column.wild }
        });
        let (items, columns) = self.renamed(&taken.collect::<Vec<_>>(), &alias);
        let key = (0..table.key.len()).collect();
        Picked { tree: seq!["SELECT ", items.join(", "), " FROM ", table.name.clone(), " AS ", alias], columns, key }
    }

    /// An order of some of the columns, then of the key and of all others (an outer join makes rows without a key of a
    /// NULL); `ties` has the first of these only.
    fn order(&mut self, picked: &Picked, alias: &str, ties: bool) -> String {
        let mut by = Vec::new();
        for _ in 0..self.below(3) + usize::from(ties) {
            let column = &picked.columns[self.below(picked.columns.len())];
            by.push(format!("{alias}.{}", column.name));
        }
        if !ties {
            by.extend(picked.key_names(alias));
            by.extend(picked.columns.iter().map(|column| format!("{alias}.{}", column.name)));
        }
        let mut all: Vec<String> = Vec::new();
        for name in by {
            if !all.contains(&name) {
                all.push(name);
            }
        }
        let ways = ["", "", "", " DESC", " DESC NULLS LAST", " NULLS FIRST"];
        all.into_iter().map(|name| format!("{name}{}", self.pick(&ways))).collect::<Vec<_>>().join(", ")
    }

    fn few(&mut self, most: usize) -> Tree {
        let values = (0..self.runs).map(|_| Value::Int(self.below(most) as i64)).collect();
        self.hole_of(Ty::Int8, Style::Bare, values)
    }

    /// LIMIT and OFFSET, or nothing.
    fn bounds(&mut self) -> Tree {
        let fixed = |g: &mut Self, most: usize| Tree::from(g.below(most).to_string());
        match self.below(7) {
            0 => Tree::nothing(),
            1 => seq![" LIMIT ", fixed(self, 9)],
            2 => seq![" OFFSET ", fixed(self, 4)],
            3 => seq![" LIMIT ", fixed(self, 9), " OFFSET ", fixed(self, 4)],
            4 => seq![" OFFSET ", self.few(5)],
            5 => seq![" LIMIT ", self.few(10), " OFFSET ", self.few(4)],
            _ => seq![" LIMIT ", self.few(10)],
        }
    }

    /// `SELECT x.* FROM (…) AS x ORDER BY … LIMIT …`
    fn first_rows(&mut self, picked: &Picked) -> Picked {
        let x = self.name("x");
        let from = seq![
            "SELECT ",
            names(&picked.columns, &x),
            " FROM (",
            picked.tree.clone(),
            ") AS ",
            x.clone(),
            " ORDER BY "
        ];
        let tree = if self.once_in(8) {
            let count = 1 + self.below(4);
            seq![from, self.order(picked, &x, true), format!(" FETCH FIRST {count} ROWS WITH TIES")]
        } else {
            let order = self.order(picked, &x, false);
            seq![from, order, self.bounds()]
        };
        Picked { tree, ..picked.clone() }
    }

    fn filtered(&mut self, picked: &Picked) -> Picked {
        let x = self.name("x");
        let condition = self.condition(&picked.scope(&x), 1).tree;
        let from = seq!["SELECT ", names(&picked.columns, &x), " FROM (", picked.tree.clone(), ") AS ", x];
        Picked { tree: seq![from, Tree::maybe(seq![" WHERE ", condition])], ..picked.clone() }
    }

    /// Columns under new names: two relations may both have them.
    fn renamed(&mut self, columns: &[Output], alias: &str) -> (Vec<String>, Vec<Output>) {
        let mut items = Vec::new();
        let mut renamed = Vec::new();
        for column in columns {
            let name = self.name("c");
            items.push(format!("{alias}.{} AS {name}", column.name));
            renamed.push(Output { name, ..column.clone() });
        }
        (items, renamed)
    }

    fn joined(&mut self, a: &Picked, b: &Picked) -> Picked {
        let (x, y) = (self.name("x"), self.name("y"));
        let (mut items, mut columns) = self.renamed(&a.columns, &x);
        let (more, others) = self.renamed(&b.columns, &y);
        items.extend(more);
        columns.extend(others);
        let key = a.key.iter().copied().chain(b.key.iter().map(|at| at + a.columns.len())).collect();
        let mut pairs = Vec::new();
        for left in &a.columns {
            for right in &b.columns {
                if left.ty == right.ty || left.ty.is_integer() && right.ty.is_integer() {
                    pairs.push(format!("{x}.{} = {y}.{}", left.name, right.name));
                }
            }
        }
        let (join, on) = if pairs.is_empty() {
            (" CROSS JOIN ", String::new())
        } else {
            let join = self.pick(&[" JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN "]);
            (join, format!(" ON {}", pairs[self.below(pairs.len())]))
        };
        let tree = seq![
            "SELECT ",
            items.join(", "),
            " FROM (",
            a.tree.clone(),
            ") AS ",
            x,
            join,
            "(",
            b.tree.clone(),
            ") AS ",
            y,
            on
        ];
        Picked { tree, columns, key }
    }

    /// A column whose equal values are the same.
    fn plain_of(&mut self, picked: &Picked) -> Option<usize> {
        let plain: Vec<usize> = (0..picked.columns.len()).filter(|at| picked.columns[*at].plain).collect();
        (!plain.is_empty()).then(|| plain[self.below(plain.len())])
    }

    fn distinct(&mut self, picked: &Picked) -> Picked {
        let Some(at) = self.plain_of(picked) else { return self.first_rows(picked) };
        let x = self.name("x");
        let from = seq![" FROM (", picked.tree.clone(), ") AS ", x.clone()];
        let column = picked.columns[at].clone();
        let by = format!("{x}.{}", column.name);
        if self.once_in(2) {
            return Picked { tree: seq!["SELECT DISTINCT ", by, from], columns: vec![column], key: vec![0] };
        }
        let way = self.pick(&["", " DESC"]);
        let order = self.order(picked, &x, false);
        let tree = seq![
            format!("SELECT DISTINCT ON ({by}) "),
            names(&picked.columns, &x),
            from,
            format!(" ORDER BY {by}{way}, {order}")
        ];
        Picked { tree, columns: picked.columns.clone(), key: vec![at] }
    }

    fn grouped_rows(&mut self, picked: &Picked) -> Picked {
        let Some(at) = self.plain_of(picked) else { return self.filtered(picked) };
        let (x, n) = (self.name("x"), self.name("n"));
        let column = picked.columns[at].clone();
        let tree = seq![
            format!("SELECT {x}.{}, count(*) AS {n} FROM (", column.name),
            picked.tree.clone(),
            format!(") AS {x} GROUP BY {x}.{}", column.name)
        ];
        let count = Output { name: n, ty: Ty::Int8, plain: true, wild: false };
        Picked { tree, columns: vec![column, count], key: vec![0] }
    }

    /// Rows by their number within a window.
    fn numbered(&mut self, picked: &Picked) -> Picked {
        let (x, y, n) = (self.name("x"), self.name("y"), self.name("n"));
        let partition = match self.plain_of(picked) {
            Some(at) if self.once_in(2) => format!("PARTITION BY {x}.{} ", picked.columns[at].name),
            _ => String::new(),
        };
        let order = self.order(picked, &x, false);
        let op = self.pick(&[" <= ", " > ", " = ", " < "]);
        let tree = seq![
            format!(
                "SELECT {} FROM (SELECT {}, row_number() OVER ({partition}ORDER BY {order}) AS {n} FROM (",
                names(&picked.columns, &y),
                names(&picked.columns, &x)
            ),
            picked.tree.clone(),
            format!(") AS {x}) AS {y} WHERE {y}.{n}{op}"),
            self.few(6)
        ];
        Picked { tree, ..picked.clone() }
    }

    /// Two relations of the same columns, told apart by a number.
    fn one_after_another(&mut self, a: &Picked, b: &Picked) -> Picked {
        // The same table gives the same key; of the columns after it there may be other ones.
        let count = a.key.len();
        let (x, y, n) = (self.name("x"), self.name("y"), self.name("n"));
        let mut columns = vec![Output { name: n.clone(), ty: Ty::Int4, plain: true, wild: false }];
        let (items, renamed) = self.renamed(&a.columns[..count], &x);
        columns.extend(renamed);
        let tree = seq![
            format!("SELECT 1 AS {n}, {} FROM (", items.join(", ")),
            a.tree.clone(),
            format!(") AS {x} UNION ALL SELECT 2, {} FROM (", names(&b.columns[..count], &y)),
            b.tree.clone(),
            format!(") AS {y}")
        ];
        Picked { tree, columns, key: (0..=count).collect() }
    }
}

/// Whether a column may be written without a thought for keys and constraints: those have statements of their own.
fn is_free(table: &Table, at: usize) -> bool {
    let column = &table.columns[at];
    table.is_assignable(at)
        && !table.key.contains(&at)
        && !table.unique.iter().any(|c| c.contains(&at))
        && !table.indexes.iter().any(|(unique, c)| *unique && c.contains(&at))
        && !table.foreign.iter().any(|f| f.column == at)
        && !table.checks.iter().any(|check| check.contains(&column.name))
        && !column.not_null
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand::rngs::StdRng;

    use super::*;
    use crate::answers::fuzz::schema::Schema;
    use crate::answers::fuzz::tree::{Writing, write};

    #[test]
    fn every_order_within_ends_with_a_key() {
        let mut rng = StdRng::seed_from_u64(7);
        let schema = Schema::random(&mut rng);
        let mut limits = 0;
        for _ in 0..300 {
            let mut g = Gen::new(&mut rng, &schema, 7);
            let query = g.limited_query();
            let (text, _) = write(&query.tree, &g.holes, Writing { run: Some(0), drop_null_in_not_in: false });
            limits += text.matches(" LIMIT ").count();
            // Ranges have others, between quotes.
            let bare: String = text.split('\'').step_by(2).collect();
            assert_eq!(bare.matches('(').count(), bare.matches(')').count(), "{text}");
        }
        assert!(limits > 200, "{limits}");
    }
}
