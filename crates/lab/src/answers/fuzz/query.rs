//! Queries.

use super::generator::{Col, E, Gen, Rel, Scope, most_of};
use super::tree::{Style, Tree, seq};
use super::types::{Ty, Value};

/// A query and what it answers.
pub struct Query {
    pub tree: Tree,
    /// Whether ORDER BY determines the order of rows that differ.
    pub ordered: bool,
}

/// A SELECT without ORDER BY.
struct Core {
    tree: Tree,
    outputs: Vec<E>,
    /// Names of the outputs, where they were given some.
    names: Vec<Option<String>>,
    /// ORDER BY that DISTINCT ON needs first.
    before: Vec<String>,
}

/// What a core is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Top,
    /// A subquery in FROM, WITH: every output has a name.
    Derived,
    /// One side of UNION and its kin: outputs are canonical.
    SetSide,
    /// A list of IN and its kin.
    Membership,
}

impl Gen<'_> {
    /// A whole statement.
    pub fn query(&mut self) -> Query {
        if self.once_in(6) {
            return self.point_query();
        }
        if self.once_in(10) {
            return self.constant_query();
        }
        if self.once_in(4) {
            return self.rare_query();
        }
        if self.once_in(9) {
            return self.typed_query();
        }
        if self.once_in(6) {
            return self.limited_query();
        }
        let mut with = Tree::nothing();
        let mut scope = Scope::default();
        let mut ctes = Vec::new();
        if self.once_in(8) {
            let name = self.name("w");
            let core = self.core(&Scope::default(), None, Place::Derived, 1);
            let hint = self.pick(&["", "", "", "MATERIALIZED ", "NOT MATERIALIZED "]);
            with = seq!["WITH ", name.clone(), " AS ", hint, "(", core.tree.clone(), ") "];
            ctes.push(Rel { alias: name, columns: columns(&core, ""), key: None });
        }
        scope.rels.clear();
        let mut query = self.ordered_query(&scope, &ctes);
        query.tree = seq![with, query.tree];
        query
    }

    /// Maybe a set operation, maybe ORDER BY, maybe LIMIT.
    fn ordered_query(&mut self, outer: &Scope, ctes: &[Rel]) -> Query {
        let (tree, outputs, names, before) = if self.once_in(8) {
            let types: Vec<Ty> = (0..1 + self.below(3)).map(|_| self.groupable()).collect();
            let a = self.core(outer, Some(&types), Place::SetSide, 1);
            let b = self.core(outer, Some(&types), Place::SetSide, 1);
            let word =
                self.pick(&[" UNION ", " UNION ALL ", " INTERSECT ", " EXCEPT ", " EXCEPT ALL ", " INTERSECT ALL "]);
            (seq![a.tree, word, b.tree], a.outputs, a.names, Vec::new())
        } else {
            let core = self.core_with(outer, None, Place::Top, 2, ctes);
            (core.tree, core.outputs, core.names, core.before)
        };
        let canonical = outputs.iter().all(|o| o.canonical && o.ty.is_ordered());
        let mut ordered = false;
        let mut tail = Tree::nothing();
        let must = !before.is_empty();
        if canonical && (must || self.once_in(2)) {
            let mut positions: Vec<usize> = (1..=outputs.len()).collect();
            if self.once_in(2) {
                positions.reverse();
            }
            let mut items: Vec<Tree> = before.into_iter().map(Tree::from).collect();
            items.extend(positions.into_iter().map(|at| {
                let how = self.pick(&["", "", " DESC", " ASC NULLS FIRST", " DESC NULLS LAST", " NULLS FIRST"]);
                let by = match &names[at - 1] {
                    Some(name) if self.once_in(3) => name.clone(),
                    _ => at.to_string(),
                };
                Tree::from(format!("{by}{how}"))
            }));
            let count = items.len();
            ordered = true;
            tail = seq![" ORDER BY ", Tree::list(items, ", ", count)];
            if self.once_in(2) {
                let values = (0..self.runs).map(|_| Value::Int(self.below(8) as i64)).collect();
                let limit = self.hole_of(Ty::Int8, Style::Bare, values);
                tail = seq![tail, Tree::maybe(seq![" LIMIT ", limit])];
                if self.once_in(3) {
                    let values = (0..self.runs).map(|_| Value::Int(self.below(4) as i64)).collect();
                    let offset = self.hole_of(Ty::Int8, Style::Bare, values);
                    tail = seq![tail, Tree::maybe(seq![" OFFSET ", offset])];
                }
            } else {
                tail = Tree::maybe(tail);
            }
        } else if must {
            // DISTINCT ON without a whole order would pick any row.
            ordered = false;
        }
        Query { tree: seq![tree, tail], ordered }
    }

    /// `SELECT expression, …` without FROM.
    fn constant_query(&mut self) -> Query {
        self.risks = usize::from(self.once_in(3));
        if self.risks > 0 {
            // What fails in a subquery of no rows PostgreSQL finds if it is of constants, which are folded first.
            self.subqueries = 0;
        }
        let scope = Scope::default();
        let mut outputs = Vec::new();
        for _ in 0..1 + self.below(2) {
            let ty = if self.once_in(3) { self.pick_ty(&Ty::MORE) } else { self.pick_ty(&Ty::COLUMNS) };
            outputs.push(self.expr(&scope, ty, 3));
        }
        let items = outputs.iter().map(|o| o.tree.clone()).collect();
        Query { tree: seq!["SELECT ", Tree::list(items, ", ", 1)], ordered: true }
    }

    /// Rows of one table by the beginning of its key, maybe in the key's order: what is
    /// answered without a plan.
    fn point_query(&mut self) -> Query {
        let table = self.any_table();
        let rel = self.base(&table, None);
        let scope = Scope { rels: vec![rel], outer: None };
        let whole = self.once_in(2) || table.key.len() == 1;
        let key = if whole { table.key.len() } else { 1 };
        let mut conditions: Vec<Tree> = Vec::new();
        for at in table.key.iter().take(key) {
            let column = &table.columns[*at];
            let op = if whole || *at == 0 { " = " } else { " > " };
            conditions.push(seq![column.name.clone(), op, self.constant_beside(column.ty).tree]);
        }
        if self.once_in(3) {
            let index = table.indexes.first().map(|(_, c)| c.clone()).or_else(|| table.unique.first().cloned());
            if let Some(columns) = index {
                conditions.clear();
                for at in columns {
                    let column = &table.columns[at];
                    conditions.push(seq![column.name.clone(), " = ", self.constant_beside(column.ty).tree]);
                }
            }
        }
        if self.once_in(3) {
            // By the table's name: subqueries may have columns of the same names.
            let around = Scope { rels: vec![self.base(&table, Some(&table.name))], outer: None };
            conditions.push(seq!["(", self.condition(&around, 1).tree, ")"]);
        }
        let mut outputs = Vec::new();
        let items = if self.once_in(3) {
            Tree::from("*")
        } else {
            for _ in 0..1 + self.below(3) {
                let ty = self.some_type(&scope);
                let left = std::mem::take(&mut self.subqueries);
                outputs.push(self.expr(&scope, ty, 1));
                self.subqueries = left;
            }
            Tree::list(outputs.iter().map(|o| o.tree.clone()).collect(), ", ", 1)
        };
        let mut tail = Tree::nothing();
        let mut ordered = false;
        if self.once_in(3) {
            let how = self.pick(&["", " DESC"]);
            let by: Vec<String> = table.names(&table.key).iter().map(|name| format!("{name}{how}")).collect();
            let by = by.join(", ");
            tail = seq![" ORDER BY ", by];
            ordered = true;
            if self.once_in(2) {
                let values = (0..self.runs).map(|_| Value::Int(self.below(4) as i64)).collect();
                tail = seq![tail, " LIMIT ", self.hole_of(Ty::Int8, Style::Bare, values)];
            }
        }
        let lock = if self.once_in(8) { self.pick(&[" FOR UPDATE", " FOR SHARE"]) } else { "" };
        let tree = seq![
            "SELECT ",
            items,
            " FROM ",
            table.name.clone(),
            " WHERE ",
            Tree::list(conditions, " AND ", 1),
            tail,
            lock
        ];
        Query { tree, ordered }
    }

    fn core(&mut self, outer: &Scope, wanted: Option<&[Ty]>, place: Place, depth: u32) -> Core {
        self.core_with(outer, wanted, place, depth, &[])
    }

    fn core_with(&mut self, outer: &Scope, wanted: Option<&[Ty]>, place: Place, depth: u32, ctes: &[Rel]) -> Core {
        let (from, rels) = self.from(outer, depth, ctes);
        let scope = Scope { rels, outer: Some(outer) };
        let filter = if self.once_in(3) {
            Tree::nothing()
        } else {
            Tree::maybe(seq![" WHERE ", self.condition(&scope, depth).tree])
        };
        let body = |head: Tree, tail: Tree| seq!["SELECT ", head, " FROM ", from, filter, tail];
        let grouped = self.once_in(3) && place != Place::SetSide;
        let mut outputs = Vec::new();
        let mut head = Tree::nothing();
        let mut tail = Tree::nothing();
        let mut before = Vec::new();
        if grouped {
            (outputs, tail) = self.grouped(&scope, wanted);
        } else {
            let types = wanted.map_or_else(
                || (0..1 + self.below(4)).map(|_| self.some_type(&scope)).collect::<Vec<_>>(),
                <[Ty]>::to_vec,
            );
            let windows = place == Place::Top && self.once_in(5);
            for ty in types {
                let window = if windows && self.once_in(2) { self.window(&scope) } else { None };
                let canonical = place == Place::SetSide;
                outputs.push(match window {
                    Some(e) if wanted.is_none() => e,
                    _ if canonical => self.canonical_expr(&scope, ty),
                    _ => self.expr(&scope, ty, depth),
                });
            }
            let canonical = outputs.iter().all(|o| o.canonical && o.ty.is_ordered());
            if canonical && !windows && self.once_in(6) {
                head = Tree::maybe("DISTINCT ");
            } else if canonical
                && place == Place::Top
                && !windows
                && self.once_in(6)
                && !outputs.is_empty()
                && let Some(on) = self.canonical_column(&scope)
            {
                before.push(format!("{}{}", sql_of(&on.tree), self.pick(&["", " DESC"])));
                head = seq!["DISTINCT ON (", on.tree, ") "];
            }
        }
        let mut names = Vec::new();
        let items = outputs
            .iter()
            .map(|output| {
                let name = (place == Place::Derived || place == Place::Top && self.once_in(2)).then(|| self.name("x"));
                let tree = match &name {
                    Some(name) => seq![output.tree.clone(), " AS ", name.clone()],
                    None => output.tree.clone(),
                };
                names.push(name);
                tree
            })
            .collect();
        let min = if matches!(place, Place::Top) { 1 } else { outputs.len() };
        let tree = body(seq![head, Tree::list(items, ", ", min)], tail);
        Core { tree, outputs, names, before }
    }

    /// A column whose equal values print alike, or a constant.
    fn canonical_expr(&mut self, scope: &Scope, ty: Ty) -> E {
        match self.own_column(scope, |c| c.ty == ty && c.canonical) {
            Some(e) => e,
            None => E { canonical: true, ..self.constant(ty) },
        }
    }

    /// The outputs of a grouped SELECT, and GROUP BY and HAVING.
    fn grouped(&mut self, scope: &Scope, wanted: Option<&[Ty]>) -> (Vec<E>, Tree) {
        let mut keys = Vec::new();
        if !self.once_in(4) {
            for _ in 0..1 + self.below(2) {
                keys.extend(if self.once_in(4) { self.group_expression(scope) } else { self.canonical_column(scope) });
            }
        }
        let mut outputs = Vec::new();
        match wanted {
            Some(types) => {
                for ty in types {
                    let e = self.aggregate(scope, Some(*ty));
                    outputs.push(e);
                }
            }
            None => {
                outputs.extend(keys.iter().cloned());
                for _ in 0..1 + self.below(3) {
                    outputs.push(self.aggregate(scope, None));
                }
            }
        }
        let mut tail = Tree::nothing();
        if !keys.is_empty() {
            let count = keys.len();
            tail = seq![" GROUP BY ", Tree::list(keys.into_iter().map(|k| k.tree).collect(), ", ", count)];
        }
        if self.once_in(3) {
            let a = self.aggregate(scope, Some(Ty::Int8));
            let op = self.pick(&[" > ", " < ", " <> ", " = "]);
            let having = match self.below(3) {
                0 => seq![
                    a.tree,
                    " IN (",
                    Tree::list((0..5).map(|_| self.hole(Ty::Int8, Style::Bare)).collect(), ", ", 1),
                    ")"
                ],
                1 => seq![a.tree, op, self.hole(Ty::Int4, Style::Bare), " AND count(*) > 0"],
                _ => seq![a.tree, op, self.hole(Ty::Int8, Style::Bare)],
            };
            tail = seq![tail, Tree::maybe(seq![" HAVING ", having])];
        }
        (outputs, tail)
    }

    /// An expression with a constant, by which rows are grouped; the constant is the same
    /// wherever the expression stands.
    fn group_expression(&mut self, scope: &Scope) -> Option<E> {
        let a = self.own_column(scope, |c| c.ty == Ty::Int4 && !c.wild)?;
        let values = (0..self.runs).map(|_| Value::Int(2 + self.below(4) as i64)).collect();
        let n = self.hole_of(Ty::Int4, Style::Cast, values);
        let tree = match self.below(3) {
            0 => seq![a.tree, " % ", n],
            1 => seq![a.tree, " + ", n],
            _ => seq!["CASE WHEN ", a.tree, " > ", n, " THEN 1 ELSE 0 END"],
        };
        Some(E::new(Ty::Int4, tree, 100.0))
    }

    /// A type by which rows can be grouped.
    fn groupable(&mut self) -> Ty {
        if self.once_in(5) {
            let ty = self.pick_ty(&Ty::MORE);
            if ty.is_canonical() {
                return ty;
            }
        }
        self.pick_ty(&GROUPABLE)
    }

    // ---- FROM ----

    pub fn base(&mut self, table: &super::schema::Table, alias: Option<&str>) -> Rel {
        let columns = table.scope_columns(alias.unwrap_or_default());
        Rel { alias: alias.unwrap_or(&table.name).to_owned(), columns, key: Some(table.key.clone()) }
    }

    fn from(&mut self, outer: &Scope, depth: u32, ctes: &[Rel]) -> (Tree, Vec<Rel>) {
        let (first, rel) = self.source(outer, depth, ctes, &[]);
        let mut rels = vec![rel];
        let mut joins = Vec::new();
        let more = match self.below(10) {
            0..=4 => 0,
            5..=8 => 1,
            _ => 2,
        };
        for _ in 0..more {
            let (item, rel) = self.source(outer, depth, ctes, &rels);
            let kind = self.pick(&[
                " JOIN ",
                " JOIN ",
                " LEFT JOIN ",
                " LEFT JOIN ",
                " RIGHT JOIN ",
                " FULL JOIN ",
                " CROSS JOIN ",
                ", ",
            ]);
            let lateral = matches!(&item, Tree::Seq(pieces) if pieces.first() == Some(&Tree::from("LATERAL ")));
            let kind = if lateral && matches!(kind, " RIGHT JOIN " | " FULL JOIN ") { " LEFT JOIN " } else { kind };
            if kind == ", " && !joins.is_empty() {
                // JOIN binds tighter than the comma: what comes after could not see the rest.
                joins.push(seq![" CROSS JOIN ", item]);
                rels.push(rel);
                continue;
            }
            if matches!(kind, ", " | " CROSS JOIN ") {
                joins.push(seq![kind, item]);
                rels.push(rel);
                if kind == ", " {
                    break;
                }
                continue;
            }
            let pair = self.equal_columns(&rels, &rel);
            let mut on = match pair {
                Some((a, b)) => seq![a, " = ", b],
                None if kind == " FULL JOIN " => {
                    joins.push(seq![" CROSS JOIN ", item]);
                    rels.push(rel);
                    continue;
                }
                None => {
                    let both = Scope { rels: rels.iter().cloned().chain([rel.clone()]).collect(), outer: None };
                    self.condition(&both, 1).tree
                }
            };
            if kind != " FULL JOIN " && self.once_in(3) {
                let both = Scope { rels: rels.iter().cloned().chain([rel.clone()]).collect(), outer: Some(outer) };
                on = seq![on, Tree::maybe(seq![" AND (", self.condition(&both, 1).tree, ")"])];
            }
            // Where rows of NULLs appear on one side its key no longer tells rows apart, but all
            // keys together still do.
            joins.push(Tree::maybe(seq![kind, item, " ON ", on]));
            rels.push(rel);
        }
        (seq![first, Tree::Seq(joins)], rels)
    }

    /// Two columns of one type, one from each side.
    fn equal_columns(&mut self, left: &[Rel], right: &Rel) -> Option<(String, String)> {
        let mut pairs = Vec::new();
        for a in left.iter().flat_map(|rel| &rel.columns) {
            for b in &right.columns {
                if a.ty == b.ty && a.ty.is_ordered() || a.ty.is_integer() && b.ty.is_integer() {
                    pairs.push((a.sql.clone(), b.sql.clone()));
                }
            }
        }
        (!pairs.is_empty()).then(|| pairs[self.below(pairs.len())].clone())
    }

    fn source(&mut self, outer: &Scope, depth: u32, ctes: &[Rel], left: &[Rel]) -> (Tree, Rel) {
        let alias = self.name("a");
        let renamed = |rel: &Rel, alias: &str| {
            let mut rel = rel.clone();
            for column in &mut rel.columns {
                column.sql = format!("{alias}.{}", column.name);
            }
            rel.alias = alias.to_owned();
            rel
        };
        match self.below(12) {
            0 | 1 if !ctes.is_empty() => {
                let cte = &ctes[self.below(ctes.len())];
                (seq![cte.alias.clone(), " AS ", alias.clone()], renamed(cte, &alias))
            }
            2 if depth > 0 => {
                let lateral = !left.is_empty() && self.once_in(2);
                let around = Scope { rels: if lateral { left.to_vec() } else { Vec::new() }, outer: Some(outer) };
                let core = self.core(&around, None, Place::Derived, depth - 1);
                let rel = Rel { alias: alias.clone(), columns: columns(&core, &alias), key: None };
                let tree = seq!["(", core.tree, ") AS ", alias];
                (if lateral { seq!["LATERAL ", tree] } else { tree }, rel)
            }
            3 if self.once_in(2) => {
                let end = self.hole_of(Ty::Int4, Style::Cast, vec![Value::Int(3), Value::Int(5), Value::Int(0)]);
                let columns = vec![Col {
                    sql: format!("{alias}.n"),
                    name: "n".into(),
                    ty: Ty::Int4,
                    wild: false,
                    most: 5.0,
                    canonical: true,
                    exact: true,
                }];
                (
                    seq!["generate_series(1, ", end, ") AS ", alias.clone(), "(n)"],
                    Rel { alias, columns, key: Some(vec![0]) },
                )
            }
            4 if self.once_in(2) => {
                let types = [self.groupable(), self.groupable()];
                let rows = (0..1 + self.below(4))
                    .map(|_| seq!["(", self.constant(types[0]).tree, ", ", self.constant(types[1]).tree, ")"])
                    .collect();
                let columns = ["x", "y"]
                    .iter()
                    .zip(types)
                    .map(|(name, ty)| Col {
                        sql: format!("{alias}.{name}"),
                        name: (*name).into(),
                        ty,
                        wild: false,
                        most: most_of(ty),
                        canonical: ty.is_canonical(),
                        exact: true,
                    })
                    .collect();
                let tree = seq!["(VALUES ", Tree::list(rows, ", ", 1), ") AS ", alias.clone(), "(x, y)"];
                (tree, Rel { alias, columns, key: None })
            }
            _ => {
                let table = self.any_table();
                let rel = self.base(&table, Some(&alias));
                (seq![table.name.clone(), self.pick(&[" AS ", " "]), alias], rel)
            }
        }
    }

    // ---- subqueries ----

    /// One value: an aggregate, or the first in a whole order.
    pub fn scalar_subquery(&mut self, scope: &Scope, ty: Ty) -> E {
        self.subqueries -= 1;
        let (from, rels) = self.from(scope, 0, &[]);
        let inner = Scope { rels, outer: Some(scope) };
        let filter = Tree::maybe(seq![" WHERE ", self.condition(&inner, 1).tree]);
        let fits = inner.columns().any(|c| c.ty == ty && c.canonical);
        if fits
            && ty.is_ordered()
            && self.once_in(2)
            && let Some(e) = self.own_column(&inner, |c| c.ty == ty && c.canonical)
        {
            let how = self.pick(&["", " DESC", " NULLS FIRST"]);
            let tree = seq!["(SELECT ", e.tree.clone(), " FROM ", from, filter, " ORDER BY 1", how, " LIMIT 1)"];
            return E { canonical: e.canonical, ..E::new(ty, tree, e.most) };
        }
        let e = self.aggregate(&inner, Some(ty));
        E { exact: e.exact, ..E::new(ty, seq!["(SELECT ", e.tree, " FROM ", from, filter, ")"], e.most) }
    }

    pub fn subquery_condition(&mut self, scope: &Scope, depth: u32) -> Tree {
        self.subqueries -= 1;
        if self.once_in(3) {
            let (from, rels) = self.from(scope, 0, &[]);
            let inner = Scope { rels, outer: Some(scope) };
            let not = self.pick(&["", "NOT "]);
            let what = self.pick(&["1", "*", "NULL"]);
            return seq![not, "EXISTS (SELECT ", what, " FROM ", from, " WHERE ", self.condition(&inner, 1).tree, ")"];
        }
        let ty = self.some_ordered_type(scope);
        let a = self.expr(scope, ty, depth - 1).tree;
        let word = self.pick(&[" IN ", " NOT IN ", " = ANY ", " <> ALL ", " < ANY ", " >= ALL ", " IN ", " NOT IN "]);
        let core = self.core(scope, Some(&[ty]), Place::Membership, 1);
        seq![a, word, "(", core.tree, ")"]
    }
}

/// Types by which rows can be grouped whatever their values are.
const GROUPABLE: [Ty; 9] =
    [Ty::Int4, Ty::Int8, Ty::Int2, Ty::Text, Ty::Varchar, Ty::Date, Ty::Bool, Ty::Timestamp, Ty::Uuid];

/// Outputs as columns of a relation.
fn columns(core: &Core, alias: &str) -> Vec<Col> {
    named(&core.outputs, &core.names, alias)
}

fn named(outputs: &[E], names: &[Option<String>], alias: &str) -> Vec<Col> {
    outputs
        .iter()
        .zip(names)
        .map(|(e, name)| {
            let name = name.clone().unwrap_or_default();
            Col {
                sql: if alias.is_empty() { name.clone() } else { format!("{alias}.{name}") },
                name,
                ty: e.ty,
                wild: !e.most.is_finite(),
                most: e.most,
                canonical: e.canonical,
                exact: e.exact,
            }
        })
        .collect()
}

/// The text of a tree without constants.
fn sql_of(tree: &Tree) -> String {
    let how = super::tree::Writing { run: None, drop_null_in_not_in: false };
    super::tree::write(tree, &[], how).0
}
