//! Expressions of any type, and conditions.

use super::generator::{E, Gen, Scope, column};
use super::tree::{Style, Tree, seq};
use super::types::{Ty, Value};
use super::values;

impl Gen<'_> {
    /// An expression of a type.
    pub fn expr(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        if depth == 0 || self.once_in(4) {
            return self.leaf(scope, ty);
        }
        match self.below(14) {
            0 => self.case(scope, ty, depth),
            1 => self.coalesce(scope, ty, depth),
            2 if ty.is_ordered() => {
                let a = self.expr(scope, ty, depth - 1);
                let b = self.constant_beside(ty);
                let most = a.most;
                E::new(ty, seq!["nullif(", a.tree, ", ", b.tree, ")"], most)
            }
            3 if ty.is_ordered() && ty != Ty::Bool => {
                let name = self.pick(&["greatest", "least"]);
                let a = self.expr(scope, ty, depth - 1);
                let b = if self.once_in(2) { self.constant_beside(ty) } else { self.expr(scope, ty, depth - 1) };
                let most = a.most.max(b.most);
                E::new(ty, seq![name, "(", Tree::list(vec![a.tree, b.tree], ", ", 1), ")"], most)
            }
            4 if self.subqueries > 0 && self.once_in(2) => self.scalar_subquery(scope, ty),
            _ if ty == Ty::Bool => self.condition(scope, depth),
            _ if ty.is_number() => self.number(scope, ty, depth),
            _ if ty.is_text() || ty == Ty::Bytea => self.string(scope, ty, depth),
            _ if Ty::MORE.contains(&ty) && ty != Ty::Interval => self.typed(scope, ty),
            _ => self.time(scope, ty, depth),
        }
    }

    /// A column or a constant.
    pub fn leaf(&mut self, scope: &Scope, ty: Ty) -> E {
        if !self.once_in(8)
            && let Some(column) = self.column(scope, ty)
        {
            return column;
        }
        self.constant(ty)
    }

    fn case(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        let a = self.expr(scope, ty, depth - 1);
        let b = if self.once_in(2) { self.constant_beside(ty) } else { self.expr(scope, ty, depth - 1) };
        let most = a.most.max(b.most);
        let tree = if self.once_in(3) {
            // CASE x WHEN constant THEN …
            let of = self.some_ordered_type(scope);
            let x = self.leaf(scope, of);
            let arms: Vec<Tree> = (0..1 + self.below(4))
                .map(|_| {
                    let when = self.constant_beside(of).tree;
                    let then = self.constant_beside(ty).tree;
                    seq![" WHEN ", when, " THEN ", then]
                })
                .collect();
            let last = seq![" WHEN ", self.constant_beside(of).tree, " THEN ", a.tree];
            let arms = Tree::list(arms.into_iter().chain([last]).collect(), "", 1);
            seq!["CASE ", x.tree, arms, Tree::maybe(seq![" ELSE ", b.tree]), " END"]
        } else {
            let when = self.condition(scope, depth - 1);
            let other = if self.once_in(5) { Tree::nothing() } else { Tree::maybe(seq![" ELSE ", b.tree]) };
            seq!["CASE WHEN ", when.tree, " THEN ", a.tree, other, " END"]
        };
        E { exact: a.exact && b.exact, ..E::new(ty, tree, most) }
    }

    fn coalesce(&mut self, scope: &Scope, ty: Ty, depth: u32) -> E {
        let a = self.expr(scope, ty, depth - 1);
        let b = self.constant_beside(ty);
        let (most, exact) = (a.most.max(b.most), a.exact && b.exact);
        let items = vec![a.tree, b.tree];
        E { exact, ..E::new(ty, seq!["coalesce(", Tree::list(items, ", ", 1), ")"], most) }
    }

    pub fn some_ordered_type(&mut self, scope: &Scope) -> Ty {
        let ty = self.some_type(scope);
        if ty.is_ordered() { ty } else { Ty::Int4 }
    }

    /// A condition.
    pub fn condition(&mut self, scope: &Scope, depth: u32) -> E {
        if depth == 0 {
            return self.comparison(scope, 0);
        }
        let tree = match self.below(28) {
            24 => self.rare_condition(scope),
            26 | 27 => self.typed_condition(scope),
            0..=3 => {
                let word = self.pick(&[" AND ", " OR "]);
                let items: Vec<Tree> = (0..2 + self.below(2))
                    .map(|_| self.condition(scope, depth - 1).tree)
                    .map(|t| seq!["(", t, ")"])
                    .collect();
                Tree::list(items, word, 1)
            }
            4 => seq!["NOT (", self.condition(scope, depth - 1).tree, ")"],
            5 => {
                let ty = self.some_type(scope);
                seq![self.expr(scope, ty, depth - 1).tree, self.pick(&[" IS NULL", " IS NOT NULL"])]
            }
            6 => {
                let test = [" IS TRUE", " IS NOT TRUE", " IS FALSE", " IS NOT FALSE", " IS UNKNOWN", " IS NOT UNKNOWN"];
                seq!["(", self.condition(scope, depth - 1).tree, ")", self.pick(&test)]
            }
            7 => {
                let ty = self.some_ordered_type(scope);
                let a = self.expr(scope, ty, depth - 1).tree;
                let word = self.pick(&[" IS DISTINCT FROM ", " IS NOT DISTINCT FROM "]);
                seq![a, word, self.constant_beside(ty).tree]
            }
            8 | 9 => self.between(scope, depth),
            10..=12 => self.in_list(scope, depth),
            13 => self.any_array(scope, depth),
            14 | 15 => self.pattern(scope, depth),
            16 => self.row_comparison(scope),
            17..=20 if self.subqueries > 0 => self.subquery_condition(scope, depth),
            21 => match self.column(scope, Ty::Bool) {
                Some(column) => column.tree,
                None => return self.comparison(scope, depth),
            },
            _ => return self.comparison(scope, depth),
        };
        E::new(Ty::Bool, tree, 1.0)
    }

    fn comparison(&mut self, scope: &Scope, depth: u32) -> E {
        let ty = self.some_ordered_type(scope);
        let op = self.pick(&[" = ", " = ", " <> ", " < ", " <= ", " > ", " >= "]);
        let a = self.expr(scope, ty, depth.saturating_sub(1)).tree;
        let b = match self.below(5) {
            0 => self.expr(scope, ty, depth.saturating_sub(1)).tree,
            1 => {
                // A number of another type, or a text of one.
                let other = match ty {
                    _ if ty.is_number() => self.pick_ty(&[Ty::Int2, Ty::Int4, Ty::Int8, Ty::Numeric, Ty::Float8]),
                    Ty::Text | Ty::Varchar => self.pick_ty(&[Ty::Text, Ty::Varchar]),
                    Ty::Date | Ty::Timestamp => self.pick_ty(&[Ty::Date, Ty::Timestamp]),
                    _ => ty,
                };
                self.leaf(scope, other).tree
            }
            _ => self.constant_beside(ty).tree,
        };
        let tree = if self.once_in(8) { seq![b, op, a] } else { seq![a, op, b] };
        E::new(Ty::Bool, tree, 1.0)
    }

    fn between(&mut self, scope: &Scope, depth: u32) -> Tree {
        let ty = self.some_ordered_type(scope);
        let a = self.expr(scope, ty, depth - 1).tree;
        let word = self.pick(&[" BETWEEN ", " BETWEEN ", " NOT BETWEEN ", " BETWEEN SYMMETRIC "]);
        seq![a, word, self.constant_beside(ty).tree, " AND ", self.constant_beside(ty).tree]
    }

    /// IN and NOT IN, with lists on both sides of four, and NULL among them.
    fn in_list(&mut self, scope: &Scope, depth: u32) -> Tree {
        let ty = self.some_ordered_type(scope);
        let a = self.expr(scope, ty, depth - 1).tree;
        let count = if self.once_in(12) { 20 + self.below(20) } else { 1 + self.below(8) };
        let not = self.once_in(3);
        let mut items: Vec<Tree> = (0..count)
            .map(|_| match self.below(14) {
                0 => self.leaf(scope, ty).tree,
                1 | 2 if not => Tree::from("NULL"),
                1 => Tree::from("NULL"),
                _ => {
                    let style = if self.once_in(4) { Style::Cast } else { Style::Bare };
                    self.hole(ty, style)
                }
            })
            .collect();
        if not {
            items = items.into_iter().map(|item| Tree::NotInItem(Box::new(item))).collect();
        }
        seq![a, if not { " NOT IN (" } else { " IN (" }, Tree::list(items, ", ", 1), ")"]
    }

    fn any_array(&mut self, scope: &Scope, depth: u32) -> Tree {
        let ty = Some(self.some_ordered_type(scope)).filter(|ty| !ty.is_array()).unwrap_or(Ty::Int4);
        let a = self.expr(scope, ty, depth - 1).tree;
        let op = self.pick(&[" = ANY (", " <> ALL (", " < ANY (", " >= ALL ("]);
        let items: Vec<Tree> = (0..1 + self.below(6)).map(|_| self.hole(ty, Style::Bare)).collect();
        let cast = format!("]::{}[])", ty.name());
        seq![a, op, "ARRAY[", Tree::list(items, ", ", 1), cast]
    }

    /// LIKE and regular expressions. Patterns are constants; some are made from a column.
    fn pattern(&mut self, scope: &Scope, depth: u32) -> Tree {
        let ty = self.pick_ty(&[Ty::Text, Ty::Varchar, Ty::Text, Ty::Char]);
        let a = self.expr(scope, ty, depth - 1).tree;
        let like = ["%", "a%", "%b", "%a%", "_b%", "a", "", "A_", "%é%", "a\\%b", "__", "%\\_%", "%b_%", "é"];
        let regex = [
            "^a",
            "b$",
            "a|b",
            ".",
            "^$",
            "[a-c]+",
            "^[^a]*$",
            "a.c",
            "(a|x)(b|,)",
            "\\d+",
            "^a?b",
            "é",
            "\\s$",
            "[[:alpha:]]",
        ];
        let is_like = !self.once_in(3);
        let patterns: &[&str] = if is_like { &like } else { &regex };
        let nullable = self.once_in(8);
        let values = (0..self.runs)
            .map(|_| {
                if nullable && self.once_in(3) {
                    Value::Null
                } else {
                    Value::Text(values::pick(self.rng, patterns).into())
                }
            })
            .collect();
        let pattern = self.hole_of(Ty::Text, Style::Bare, values);
        let op = if is_like {
            self.pick(&[" LIKE ", " NOT LIKE ", " ILIKE ", " NOT ILIKE ", " LIKE "])
        } else {
            self.pick(&[" ~ ", " ~* ", " !~ ", " !~* "])
        };
        match self.below(12) {
            0 if is_like => {
                let text = self.leaf(scope, Ty::Text).tree;
                seq![a, op, "(", text, " || '%')"]
            }
            1 => seq!["starts_with(", a, "::text, ", pattern, ")"],
            _ => seq![a, op, pattern],
        }
    }

    fn row_comparison(&mut self, scope: &Scope) -> Tree {
        let (x, y) = (self.some_ordered_type(scope), self.some_ordered_type(scope));
        let left = seq!["(", self.leaf(scope, x).tree, ", ", self.leaf(scope, y).tree, ")"];
        let pair = |g: &mut Self| seq!["(", g.constant_beside(x).tree, ", ", g.constant_beside(y).tree, ")"];
        if self.once_in(2) {
            let word = self.pick(&[" IN (", " NOT IN ("]);
            let pairs = (0..1 + self.below(4)).map(|_| pair(self)).collect();
            seq![left, word, Tree::list(pairs, ", ", 1), ")"]
        } else {
            let op = self.pick(&[" = ", " <> ", " < ", " >= "]);
            seq![left, op, pair(self)]
        }
    }

    /// A column that is tame, as an operand.
    pub fn tame_leaf(&mut self, scope: &Scope, ty: Ty) -> E {
        if !self.once_in(8)
            && let Some(e) = self.own_column(scope, |c| c.ty == ty && !c.wild)
        {
            return e;
        }
        self.constant(ty)
    }

    /// A column of the scope that sums, orders and groups well, or a constant.
    pub fn canonical_column(&mut self, scope: &Scope) -> Option<E> {
        let fits: Vec<_> = scope.columns().filter(|c| c.canonical && c.ty.is_ordered()).collect();
        (!fits.is_empty()).then(|| column(fits[self.below(fits.len())]))
    }
}
