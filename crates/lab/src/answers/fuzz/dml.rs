//! INSERT, UPDATE, DELETE, MERGE, and those within WITH.
//!
//! What PostgreSQL leaves to the physical order of rows is not generated: an UPDATE of several
//! rows does not assign columns of unique indexes, UPDATE … FROM finds at most one row for
//! each, so does MERGE, ON CONFLICT comes with VALUES, whose rows have an order.

use super::generator::{Col, Gen, Rel, Scope, column};
use super::schema::Table;
use super::tree::{Style, Tree, seq};
use super::types::{Ty, Value};
use super::values;

/// A statement that writes.
pub struct Dml {
    pub tree: Tree,
    /// Whether it may meet several rows, in an order that is not determined: which of several
    /// errors it reports is not either.
    pub several: bool,
}

impl Gen<'_> {
    pub fn dml(&mut self) -> Dml {
        if self.once_in(6) {
            return self.rare_dml();
        }
        let table = self.any_table();
        if self.once_in(10) {
            return self.limited_dml(&table);
        }
        match self.below(15) {
            13 | 14 => self.within(&table),
            12 => self.merge(&table),
            0..=3 => self.insert_values(&table),
            4 => self.insert_select(&table),
            5 | 6 => self.update_point(&table),
            7 | 8 => self.update(&table),
            9 | 10 => self.delete(&table),
            _ => self.delete_point(&table),
        }
    }

    fn target(table: &Table, alias: &str) -> Scope<'static> {
        let columns = table.scope_columns(alias);
        let rel = Rel { alias: alias.into(), columns, key: Some(table.key.clone()) };
        Scope { rels: vec![rel], outer: None }
    }

    /// A constant for a column of a new row.
    fn cell(&mut self, table: &Table, at: usize, fresh: bool) -> Tree {
        let column = &table.columns[at];
        if column.default.is_some() && self.once_in(5) || column.identity && self.once_in(2) {
            return Tree::from("DEFAULT");
        }
        let (ty, wild, not_null) = (column.ty, column.wild, column.not_null);
        let values = (0..self.runs)
            .map(|_| {
                if !not_null && self.once_in(6) || not_null && self.once_in(60) {
                    return Value::Null;
                }
                match ty {
                    // A key that is likely to be new.
                    Ty::Int2 | Ty::Int4 | Ty::Int8 if fresh => Value::Int(13 + self.below(30_000) as i64),
                    Ty::Text | Ty::Varchar if fresh => Value::Text(format!("n{}", self.below(100_000))),
                    Ty::Date if fresh => Value::Date(20_000 + self.below(10_000) as i32),
                    Ty::Numeric if fresh => Value::Numeric(format!("{}", 13 + self.below(100_000))),
                    _ if wild && self.once_in(3) => values::wild(self.rng, ty),
                    _ => values::tame(self.rng, ty),
                }
            })
            .collect();
        let style = self.style();
        // varchar(20) and char(5) are what the column says; a cast would cut silently.
        let style = if matches!(ty, Ty::Char | Ty::Varchar) { Style::Bare } else { style };
        self.hole_of(ty, style, values)
    }

    /// An expression for a column. What is said to be small stays so.
    pub fn value_for(&mut self, scope: &Scope, table: &Table, at: usize, depth: u32) -> Tree {
        let column = &table.columns[at];
        let e = self.expr(scope, column.ty, depth);
        let small = e.most <= values::TAME_INTEGER_MAX || column.wild || table.is_unique(at);
        if column.ty.is_number() && !small { self.constant(column.ty).tree } else { e.tree }
    }

    fn insert_values(&mut self, table: &Table) -> Dml {
        let whole = self.once_in(3);
        let columns: Vec<usize> = table
            .given()
            .filter(|at| {
                let column = &table.columns[*at];
                let must = column.not_null && !column.identity;
                whole || table.key.contains(at) || must && !self.once_in(30) || self.once_in(2)
            })
            .collect();
        let count = if self.once_in(3) { 2 + self.below(3) } else { 1 };
        let fresh = !self.once_in(3);
        let rows = (0..count)
            .map(|_| {
                let cells = columns.iter().map(|at| {
                    let fresh = fresh && table.is_unique(*at);
                    self.cell(table, *at, fresh)
                });
                let cells: Vec<Tree> = cells.collect();
                let min = cells.len();
                seq!["(", Tree::list(cells, ", ", min), ")"]
            })
            .collect();
        let names = if whole { String::new() } else { format!(" ({})", table.names(&columns).join(", ")) };
        let conflict = if self.once_in(3) { self.conflict(table) } else { Tree::nothing() };
        let returning = self.returning(table, "");
        let tree =
            seq!["INSERT INTO ", table.name.clone(), names, " VALUES ", Tree::list(rows, ", ", 1), conflict, returning];
        Dml { tree, several: false }
    }

    fn conflict(&mut self, table: &Table) -> Tree {
        let arbiter = match table.unique.first() {
            Some(unique) if self.once_in(3) => unique.clone(),
            _ => table.key.clone(),
        };
        let names = table.names(&arbiter).join(", ");
        if self.once_in(2) {
            let on = if self.once_in(3) { String::new() } else { format!(" ({names})") };
            return Tree::from(format!(" ON CONFLICT{on} DO NOTHING"));
        }
        let scope = Self::target(table, &table.name);
        let mut excluded = Self::target(table, "EXCLUDED");
        excluded.rels.extend(scope.rels.clone());
        let sets = self.assignments(table, &excluded, false);
        let condition = if self.once_in(4) {
            Tree::maybe(seq![" WHERE ", self.condition(&excluded, 1).tree])
        } else {
            Tree::nothing()
        };
        seq![" ON CONFLICT (", names, ") DO UPDATE SET ", sets, condition]
    }

    /// `column = expression, …`
    fn assignments(&mut self, table: &Table, scope: &Scope, unique_too: bool) -> Tree {
        let assignable: Vec<usize> = table.given().filter(|at| table.is_assignable(*at)).collect();
        let free: Vec<usize> = assignable.iter().copied().filter(|at| unique_too || !table.is_unique(*at)).collect();
        if free.is_empty() {
            // All are of unique indexes, and which row is changed first is not determined: one stays what it is.
            let name = table.columns[assignable[assignable.len() - 1]].name.clone();
            let own = scope.rels.iter().find(|rel| rel.alias != "EXCLUDED").map_or("", |rel| rel.alias.as_str());
            let dot = if own.is_empty() { "" } else { "." };
            return seq![name.clone(), " = ", own, dot, name];
        }
        let mut chosen = vec![free[self.below(free.len())]];
        if self.once_in(3) {
            let other = free[self.below(free.len())];
            if !chosen.contains(&other) {
                chosen.push(other);
            }
        }
        let items = chosen
            .into_iter()
            .map(|at| {
                let column = &table.columns[at];
                let left = std::mem::take(&mut self.subqueries);
                let value = match self.below(5) {
                    0 | 1 => self.cell(table, at, false),
                    // A number of another type is brought to the column's.
                    2 if column.ty.is_number() => {
                        let ty = self.pick_ty(&[Ty::Int4, Ty::Numeric, Ty::Float8, Ty::Int8]);
                        self.tame_leaf(scope, ty).tree
                    }
                    _ => self.value_for(scope, table, at, 2),
                };
                self.subqueries = left;
                seq![column.name.clone(), " = ", value]
            })
            .collect();
        Tree::list(items, ", ", 1)
    }

    fn returning(&mut self, table: &Table, alias: &str) -> Tree {
        if !self.once_in(2) {
            return Tree::nothing();
        }
        if self.once_in(3) {
            let star = if alias.is_empty() { "*".to_owned() } else { format!("{alias}.*") };
            return Tree::maybe(seq![" RETURNING ", star]);
        }
        let scope = Self::target(table, alias);
        let left = std::mem::take(&mut self.subqueries);
        let items = (0..1 + self.below(3))
            .map(|_| {
                let ty = self.some_type(&scope);
                self.expr(&scope, ty, 1).tree
            })
            .collect();
        self.subqueries = left;
        Tree::maybe(seq![" RETURNING ", Tree::list(items, ", ", 1)])
    }

    /// Values of a new row, of a row in scope.
    fn row_of(&mut self, table: &Table, scope: &Scope) -> Vec<Tree> {
        let mut outputs = Vec::new();
        for at in table.given() {
            let tree = match table.columns[at].ty {
                // Keys beyond those that are there, different for each row if the source's are.
                ty if table.is_unique(at) && ty.is_integer() => {
                    let shift = (0..self.runs).map(|_| Value::Int(100 + self.below(20_000) as i64)).collect();
                    let shift = self.hole_of(Ty::Int4, Style::Cast, shift);
                    match self.own_column(scope, |c| c.ty.is_integer() && !c.wild && c.name == "k0") {
                        Some(key) => seq!["(", key.tree, " + ", shift, ")"],
                        None => shift,
                    }
                }
                _ => self.value_for(scope, table, at, 1),
            };
            outputs.push(tree);
        }
        outputs
    }

    fn insert_select(&mut self, table: &Table) -> Dml {
        let source = self.any_table();
        let scope = Self::target(&source, "s");
        let outputs = self.row_of(table, &scope);
        let count = outputs.len();
        let condition = self.condition(&scope, 1).tree;
        let returning = self.returning(table, "");
        let tree = seq![
            "INSERT INTO ",
            table.name.clone(),
            " SELECT ",
            Tree::list(outputs, ", ", count),
            " FROM ",
            source.name.clone(),
            " AS s",
            Tree::maybe(seq![" WHERE ", condition]),
            returning
        ];
        Dml { tree, several: true }
    }

    /// A condition that names one row, or the rows with the first column of a key.
    fn point(&mut self, table: &Table, whole: bool) -> Tree {
        let key = match table.unique.first() {
            Some(unique) if whole && self.once_in(4) => unique.clone(),
            _ => table.key.clone(),
        };
        let take = if whole { key.len() } else { 1 };
        let items = key
            .iter()
            .take(take)
            .map(|at| {
                let column = &table.columns[*at];
                let op = if whole || self.once_in(2) { " = " } else { " > " };
                seq![column.name.clone(), op, self.constant_beside(column.ty).tree]
            })
            .collect();
        Tree::list(items, " AND ", take)
    }

    fn extra(&mut self, scope: &Scope) -> Tree {
        if self.once_in(3) { Tree::maybe(seq![" AND (", self.condition(scope, 1).tree, ")"]) } else { Tree::nothing() }
    }

    fn update_point(&mut self, table: &Table) -> Dml {
        let scope = Self::target(table, "");
        let sets = self.assignments(table, &scope, true);
        let condition = self.point(table, true);
        let extra = self.extra(&Self::target(table, &table.name));
        let returning = self.returning(table, "");
        Dml {
            tree: seq!["UPDATE ", table.name.clone(), " SET ", sets, " WHERE ", condition, extra, returning],
            several: false,
        }
    }

    fn delete_point(&mut self, table: &Table) -> Dml {
        let scope = Self::target(table, &table.name);
        let whole = self.once_in(2);
        let condition = self.point(table, whole);
        let extra = self.extra(&scope);
        let returning = self.returning(table, "");
        Dml { tree: seq!["DELETE FROM ", table.name.clone(), " WHERE ", condition, extra, returning], several: !whole }
    }

    /// One other table beside the target, joined by its key: a row has at most one partner.
    fn partner(&mut self, table: &Table) -> Option<(Table, Tree, Scope<'static>)> {
        let others: Vec<Table> = self.schema.tables.iter().filter(|t| t.key.len() == 1).cloned().collect();
        let other = others.get(self.below(others.len()))?.clone();
        let key = &other.columns[other.key[0]];
        let fits: Vec<&String> = table
            .columns
            .iter()
            .filter(|c| c.ty == key.ty || c.ty.is_integer() && key.ty.is_integer())
            .map(|c| &c.name)
            .collect();
        let column = fits.get(self.below(fits.len()))?;
        let on = seq!["u.", (*column).clone(), " = o.", key.name.clone()];
        let mut scope = Self::target(table, "u");
        scope.rels.extend(Self::target(&other, "o").rels);
        Some((other, on, scope))
    }

    fn update(&mut self, table: &Table) -> Dml {
        if self.once_in(3)
            && let Some((other, on, scope)) = self.partner(table)
        {
            let sets = self.assignments(table, &scope, false);
            let extra = self.extra(&scope);
            let returning = self.returning(table, "u");
            let tree = seq![
                "UPDATE ",
                table.name.clone(),
                " AS u SET ",
                sets,
                " FROM ",
                other.name,
                " AS o WHERE ",
                on,
                extra,
                returning
            ];
            return Dml { tree, several: true };
        }
        let scope = Self::target(table, &table.name);
        let sets = self.assignments(table, &scope, false);
        let condition = if self.once_in(3) { self.point(table, false) } else { self.condition(&scope, 2).tree };
        let returning = self.returning(table, "");
        Dml { tree: seq!["UPDATE ", table.name.clone(), " SET ", sets, " WHERE ", condition, returning], several: true }
    }

    fn delete(&mut self, table: &Table) -> Dml {
        if self.once_in(3)
            && let Some((other, on, scope)) = self.partner(table)
        {
            let extra = self.extra(&scope);
            let returning = self.returning(table, "u");
            let tree = seq![
                "DELETE FROM ",
                table.name.clone(),
                " AS u USING ",
                other.name,
                " AS o WHERE ",
                on,
                extra,
                returning
            ];
            return Dml { tree, several: true };
        }
        let scope = Self::target(table, &table.name);
        // Not everything at once, mostly.
        let some = match self.own_column(&scope, |c| c.ty.is_ordered()) {
            Some(c) => seq![c.tree.clone(), " = ", self.constant_beside(c.ty).tree, " AND "],
            None => Tree::nothing(),
        };
        let condition = self.condition(&scope, 2).tree;
        let returning = self.returning(table, "");
        let tree =
            seq!["DELETE FROM ", table.name.clone(), " WHERE ", Tree::maybe(some), "(", condition, ")", returning];
        Dml { tree, several: true }
    }

    /// A statement that writes within WITH, read by a query or by another one that writes.
    fn within(&mut self, table: &Table) -> Dml {
        let scope = Self::target(table, "");
        let condition = self.condition(&scope, 1).tree;
        let name = table.name.clone();
        let first = match self.below(3) {
            0 => seq!["DELETE FROM ", name, " WHERE ", condition],
            _ => seq!["UPDATE ", name, " SET ", self.assignments(table, &scope, false), " WHERE ", condition],
        };
        let key = table.columns[table.key[0]].name.clone();
        let other = self.any_table();
        let fits = other.columns.iter().find(|c| c.ty == table.columns[table.key[0]].ty).map(|c| c.name.clone());
        let main = match (self.below(5), fits) {
            (0, Some(column)) => seq!["DELETE FROM ", other.name, " WHERE ", column, " IN (SELECT ", key, " FROM d)"],
            (1, Some(column)) => seq![
                "SELECT count(*), count(d.",
                key.clone(),
                ") FROM ",
                other.name,
                " AS o LEFT JOIN d ON o.",
                column,
                " = d.",
                key
            ],
            (2, _) => seq![
                "SELECT count(*), (SELECT count(*) FROM ",
                table.name.clone(),
                ") FROM d AS a JOIN d AS b USING (",
                key,
                ")"
            ],
            (3, _) => seq!["SELECT ", key, " FROM d WHERE EXISTS (SELECT FROM ", table.name.clone(), ")"],
            _ => Tree::from("SELECT count(*) FROM d"),
        };
        Dml { tree: seq!["WITH d AS (", first, " RETURNING *) ", main], several: true }
    }

    /// A MERGE from one other table, joined by its key.
    fn merge(&mut self, table: &Table) -> Dml {
        let Some((other, on, both)) = self.partner(table) else { return self.update(table) };
        let source = Self::target(&other, "o");
        let when = |g: &mut Self, scope: &Scope, last: bool| match last {
            true => Tree::nothing(),
            false => seq![" AND (", g.condition(scope, 1).tree, ")"],
        };
        let mut clauses = Vec::new();
        for last in [false, true].into_iter().take(1 + self.below(2)) {
            let condition = when(self, &both, last);
            let action = match self.below(5) {
                0 => Tree::from("DELETE"),
                1 => Tree::from("DO NOTHING"),
                _ => seq!["UPDATE SET ", self.assignments(table, &both, false)],
            };
            clauses.push(seq![" WHEN MATCHED", condition, " THEN ", action]);
        }
        if self.once_in(2) {
            let last = self.once_in(2);
            let condition = when(self, &source, last);
            let left = std::mem::take(&mut self.subqueries);
            let row = self.row_of(table, &source);
            self.subqueries = left;
            let count = row.len();
            clauses.push(seq![
                " WHEN NOT MATCHED",
                condition,
                " THEN INSERT VALUES (",
                Tree::list(row, ", ", count),
                ")"
            ]);
        }
        let clauses = Tree::list(clauses, "", 1);
        let tree = seq!["MERGE INTO ", table.name.clone(), " AS u USING ", other.name, " AS o ON ", on, clauses];
        Dml { tree, several: true }
    }

    /// A column of a table, for statements that are wrong in some way.
    pub fn any_column(&mut self, table: &Table, fits: impl Fn(Ty) -> bool) -> Option<Tree> {
        let scope = Self::target(table, "");
        // Others may not be written: another error.
        let written: Vec<&str> = table.given().map(|at| table.columns[at].name.as_str()).collect();
        let fits: Vec<&Col> = scope.columns().filter(|c| fits(c.ty) && written.contains(&c.name.as_str())).collect();
        (!fits.is_empty()).then(|| column(fits[self.below(fits.len())]).tree)
    }
}
