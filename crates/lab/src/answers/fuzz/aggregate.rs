//! Aggregates and window functions.

use super::generator::{Col, E, Gen, Scope};
use super::tree::{Style, Tree, seq};
use super::types::Ty;

impl Gen<'_> {
    /// An aggregate over the scope's own rows; of the type, if one is wanted.
    pub fn aggregate(&mut self, scope: &Scope, wanted: Option<Ty>) -> E {
        let e = self.plain_aggregate(scope, wanted);
        let filter = if self.once_in(5) {
            // The condition may name columns of the scopes around, and has no subqueries.
            let left = std::mem::take(&mut self.subqueries);
            let condition = self.condition(scope, 1).tree;
            self.subqueries = left;
            Tree::maybe(seq![" FILTER (WHERE ", condition, ")"])
        } else {
            Tree::nothing()
        };
        match wanted {
            Some(ty) if ty != e.ty => {
                E { exact: e.exact, ..E::new(ty, seq!["(", e.tree, filter, ")::", ty.name()], f64::INFINITY) }
            }
            _ => E { tree: Tree::expr(e.ty, seq![e.tree, filter]), ..e },
        }
    }

    fn plain_aggregate(&mut self, scope: &Scope, wanted: Option<Ty>) -> E {
        let choice = match wanted {
            Some(Ty::Int8) => self.below(3),
            Some(Ty::Bool) => 5,
            Some(Ty::Numeric) => 4,
            // Casts from the types of these to the wanted one cannot fail.
            Some(ty) => return self.min_max(scope, ty),
            None => self.below(12),
        };
        let ints = |c: &Col| c.ty.is_integer();
        match choice {
            0 => {}
            1 => {
                if let Some(a) = self.own_column(scope, |_| true) {
                    return E::new(Ty::Int8, seq!["count(", a.tree, ")"], 1e6);
                }
            }
            2 => {
                if let Some(a) = self.own_column(scope, |c| c.ty.is_ordered()) {
                    return E::new(Ty::Int8, seq!["count(DISTINCT ", a.tree, ")"], 1e6);
                }
            }
            3 => {
                if let Some(a) = self.own_column(scope, |c| c.exact && !c.wild && c.ty.is_number()) {
                    let distinct = self.pick(&["", "", "", "DISTINCT "]);
                    let ty = match a.ty {
                        Ty::Int2 | Ty::Int4 => Ty::Int8,
                        Ty::Int8 => Ty::Numeric,
                        ty => ty,
                    };
                    return E { exact: true, ..E::new(ty, seq!["sum(", distinct, a.tree, ")"], f64::INFINITY) };
                }
            }
            4 => {
                if let Some(a) = self.own_column(scope, |c| !c.wild && (ints(c) || c.ty == Ty::Numeric)) {
                    let name = self.pick(&["avg", "avg", "avg", "stddev", "var_pop", "variance", "stddev_pop"]);
                    return E::new(Ty::Numeric, seq![name, "(", a.tree, ")"], f64::INFINITY).inexact();
                }
                let (from, to) = (seq!["count(*)"], Ty::Numeric);
                return E::new(to, seq!["(", from, ")::numeric"], 1e6);
            }
            5 => {
                let name = self.pick(&["bool_and", "bool_or", "every"]);
                let left = std::mem::take(&mut self.subqueries);
                let condition = match self.own_column(scope, |c| c.ty == Ty::Bool) {
                    Some(column) => column.tree,
                    None => seq!["count(*) > ", self.hole(Ty::Int8, Style::Bare)],
                };
                self.subqueries = left;
                if let Tree::Seq(_) = condition {
                    return E::new(Ty::Bool, seq!["(", condition, ")"], 1.0);
                }
                return E::new(Ty::Bool, seq![name, "(", condition, ")"], 1.0);
            }
            6 => {
                if let Some(a) = self.own_column(scope, |c| matches!(c.ty, Ty::Text | Ty::Varchar)) {
                    let distinct = self.pick(&["", "DISTINCT "]);
                    let order = self.pick(&["", " DESC", " NULLS FIRST"]);
                    // With DISTINCT, PostgreSQL wants the very expressions of the arguments.
                    let item = seq![a.tree.clone(), "::text"];
                    let tree = seq!["string_agg(", distinct, item.clone(), ", ',' ORDER BY ", item, order, ")"];
                    return E::new(Ty::Text, tree, 1.0);
                }
            }
            7 => {
                if let Some(a) =
                    self.own_column(scope, |c| c.exact && !c.wild && matches!(c.ty, Ty::Float4 | Ty::Float8))
                {
                    return E::new(Ty::Float8, seq!["avg(", a.tree, ")"], f64::INFINITY).inexact();
                }
            }
            8 => {
                if let Some(a) = self.own_column(scope, ints) {
                    let (name, ty) = (self.pick(&["bit_and", "bit_or"]), a.ty);
                    return E::new(ty, seq![name, "(", a.tree, ")"], f64::INFINITY);
                }
            }
            _ => {
                let fits = |c: &Col| c.canonical && has_min(c.ty);
                if let Some(a) = self.own_column(scope, fits) {
                    let ty = if a.ty == Ty::Varchar { Ty::Text } else { a.ty };
                    let name = self.pick(&["min", "max"]);
                    return E { canonical: a.canonical, ..E::new(ty, seq![name, "(", a.tree, ")"], a.most) };
                }
            }
        }
        E::new(Ty::Int8, "count(*)", 1e6)
    }

    /// The least or largest of a type; of a constant if there is no column.
    fn min_max(&mut self, scope: &Scope, ty: Ty) -> E {
        let name = self.pick(&["min", "max"]);
        if has_min(ty)
            && let Some(a) = self.own_column(scope, |c| c.ty == ty && c.canonical)
        {
            let result = if ty == Ty::Varchar { Ty::Text } else { ty };
            return E { canonical: a.canonical, ..E::new(result, seq![name, "(", a.tree, ")"], a.most) };
        }
        if has_min(ty) {
            let a = self.constant(ty);
            let result = if ty == Ty::Varchar { Ty::Text } else { ty };
            return E::new(result, seq![name, "(", a.tree, ")"], a.most);
        }
        let other = self.constant(ty);
        E::new(ty, seq!["CASE WHEN count(*) > 1 THEN ", other.tree, " END"], other.most)
    }

    /// A window function whose answer the query determines, if there is one here.
    pub fn window(&mut self, scope: &Scope) -> Option<E> {
        let key: Vec<String> = scope.key()?.iter().map(|c| c.sql.clone()).collect();
        let by = match self.canonical_column(scope) {
            Some(column) if self.once_in(2) => seq!["PARTITION BY ", column.tree, " "],
            _ => Tree::nothing(),
        };
        let how = self.pick(&["", " DESC"]);
        let total = format!("ORDER BY {}{how}", key.join(&format!("{how}, ")));
        let loose = self.canonical_column(scope)?;
        let loose = seq!["ORDER BY ", loose.tree, self.pick(&["", " DESC", " NULLS FIRST"])];
        let frame = self.pick(&[
            "",
            "",
            " ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
            " ROWS UNBOUNDED PRECEDING",
            " ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
            " RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW",
        ]);
        let over = |order: Tree, frame: &str| seq![" OVER (", by.clone(), order, frame, ")"];
        Some(match self.below(8) {
            0 => E::new(Ty::Int8, seq!["row_number()", over(Tree::from(total), "")], 1e6),
            1 => {
                let name = self.pick(&["rank", "dense_rank"]);
                E::new(Ty::Int8, seq![name, "()", over(loose, "")], 1e6)
            }
            2 => {
                let name = self.pick(&["percent_rank", "cume_dist"]);
                E::new(Ty::Float8, seq![name, "()", over(loose, "")], 1.0).inexact()
            }
            3 => {
                let n = self.pick(&["2", "3"]);
                E::new(Ty::Int4, seq!["ntile(", n, ")", over(Tree::from(total), "")], 1e6)
            }
            4 => {
                let a = self.own_column(scope, |_| true)?;
                let name = self.pick(&["lag", "lead"]);
                let step = self.pick(&["", ", 2", ", 0"]);
                let e = E::new(a.ty, seq![name, "(", a.tree, step, ")", over(Tree::from(total), "")], a.most);
                E { canonical: a.canonical, ..e }
            }
            5 => {
                let a = self.own_column(scope, |_| true)?;
                let name = self.pick(&["first_value", "last_value"]);
                let e = E::new(a.ty, seq![name, "(", a.tree, ")", over(Tree::from(total), frame)], a.most);
                E { canonical: a.canonical, ..e }
            }
            6 => {
                let a = self.own_column(scope, |c| c.exact && !c.wild && c.ty.is_integer())?;
                let ty = if a.ty == Ty::Int8 { Ty::Numeric } else { Ty::Int8 };
                E::new(ty, seq!["sum(", a.tree, ")", over(Tree::from(total), frame)], f64::INFINITY)
            }
            _ => E::new(Ty::Int8, seq!["count(*)", over(loose, "")], 1e6),
        })
    }
}

/// Whether PostgreSQL 15 has `min` of the type.
fn has_min(ty: Ty) -> bool {
    // The least `cidr` is an `inet`.
    let none = [Ty::Bool, Ty::Uuid, Ty::Bytea, Ty::Json, Ty::Jsonb, Ty::Bit, Ty::Varbit, Ty::Cidr];
    !none.contains(&ty) && !ty.is_range()
}
