//! What all generators share: the random source, the constants, names in scope.
//!
//! Statements are generated so that PostgreSQL's answer is determined by the SQL alone:
//! - arithmetic keeps within its type (each expression knows a bound of its absolute value),
//!   divisors are not zero, casts do not fail, unless the statement was given *risks*: then it
//!   is so simple that it is determined which rows are evaluated;
//! - floating-point numbers that are added up are whole quarters, so that every order of
//!   adding gives the same bits;
//! - what picks one of several equal values (DISTINCT, GROUP BY, LIMIT, min) takes types
//!   whose equal values print alike (*canonical*): not `numeric` without a scale.

use rand::Rng;
use rand::rngs::StdRng;

use super::schema::{Schema, Table};
use super::tree::{Hole, Style, Tree};
use super::types::{Ty, Value};
use super::values;

/// A column in scope.
#[derive(Clone, Debug)]
pub struct Col {
    /// As an expression: `a1.c0`.
    pub sql: String,
    pub name: String,
    pub ty: Ty,
    /// Whether its values may be anywhere in its type's range.
    pub wild: bool,
    /// No smaller than their absolute values.
    pub most: f64,
    pub canonical: bool,
    /// Whether sums of it are exact.
    pub exact: bool,
}

/// A relation in scope.
#[derive(Clone, Debug)]
pub struct Rel {
    pub alias: String,
    pub columns: Vec<Col>,
    /// Columns that no two of its rows agree in.
    pub key: Option<Vec<usize>>,
}

/// What names mean.
#[derive(Clone, Default)]
pub struct Scope<'s> {
    pub rels: Vec<Rel>,
    pub outer: Option<&'s Scope<'s>>,
}

impl Scope<'_> {
    /// Columns of its own relations.
    pub fn columns(&self) -> impl Iterator<Item = &Col> {
        self.rels.iter().flat_map(|rel| &rel.columns)
    }

    /// Columns by which its rows are told apart, if there are such.
    pub fn key(&self) -> Option<Vec<&Col>> {
        let mut columns = Vec::new();
        for rel in &self.rels {
            columns.extend(rel.key.as_ref()?.iter().map(|at| &rel.columns[*at]));
        }
        Some(columns)
    }
}

/// An expression.
#[derive(Clone, Debug)]
pub struct E {
    pub tree: Tree,
    pub ty: Ty,
    /// No smaller than its absolute value; infinite if it may be anywhere in its type's range.
    pub most: f64,
    /// Equal values print alike.
    pub canonical: bool,
    /// Sums of it are exact.
    pub exact: bool,
    /// Whether it is a constant without a type of its own.
    pub untyped: bool,
}

impl E {
    pub fn new(ty: Ty, tree: impl Into<Tree>, most: f64) -> Self {
        Self { tree: Tree::expr(ty, tree), ty, most, canonical: ty.is_canonical(), exact: true, untyped: false }
    }

    pub fn inexact(mut self) -> Self {
        self.exact = false;
        self
    }
}

/// Generates one statement.
pub struct Gen<'a> {
    pub rng: &'a mut StdRng,
    pub schema: &'a Schema,
    pub holes: Vec<Hole>,
    /// How often the statement is run, each time with other constants.
    pub runs: usize,
    /// How many more operators may fail.
    pub risks: usize,
    /// Whether subqueries are still to be made.
    pub subqueries: usize,
    names: usize,
}

impl<'a> Gen<'a> {
    pub fn new(rng: &'a mut StdRng, schema: &'a Schema, runs: usize) -> Self {
        Self { rng, schema, holes: Vec::new(), runs, risks: 0, subqueries: 2, names: 0 }
    }

    /// Whether something happens that does so once in `of`.
    pub fn once_in(&mut self, of: u32) -> bool {
        self.rng.random_ratio(1, of)
    }

    pub fn below(&mut self, n: usize) -> usize {
        self.rng.random_range(0..n.max(1))
    }

    /// A table, or a view that looks like one.
    pub fn any_table(&mut self) -> Table {
        if !self.schema.views.is_empty() && self.once_in(6) {
            return self.schema.seen(&self.schema.views[self.below(self.schema.views.len())]);
        }
        self.schema.tables[self.below(self.schema.tables.len())].clone()
    }

    pub fn pick<'t>(&mut self, all: &[&'t str]) -> &'t str {
        values::pick(self.rng, all)
    }

    pub fn pick_ty(&mut self, all: &[Ty]) -> Ty {
        all[self.below(all.len())]
    }

    /// A new name.
    pub fn name(&mut self, prefix: &str) -> String {
        self.names += 1;
        format!("{prefix}{}", self.names)
    }

    /// A constant with these values, one for each run.
    pub fn hole_of(&mut self, ty: Ty, style: Style, values: Vec<Value>) -> Tree {
        self.holes.push(Hole { ty, style, values });
        Tree::Hole(self.holes.len() - 1)
    }

    /// A constant of a type: tame, and null once in a while.
    pub fn hole(&mut self, ty: Ty, style: Style) -> Tree {
        let nullable = self.once_in(6);
        let values = (0..self.runs)
            .map(|_| if nullable && self.once_in(3) { Value::Null } else { values::tame(self.rng, ty) })
            .collect();
        self.hole_of(ty, style, values)
    }

    pub fn style(&mut self) -> Style {
        match self.below(10) {
            0..=5 => Style::Bare,
            6 | 7 => Style::Cast,
            8 => Style::Long,
            _ => Style::Keyword,
        }
    }

    /// A constant that stands alone: it says its type.
    pub fn constant(&mut self, ty: Ty) -> E {
        let style = if self.once_in(3) { Style::Long } else { Style::Cast };
        let tree = self.hole(ty, style);
        E { canonical: ty.is_canonical() || matches!(ty, Ty::Float4 | Ty::Float8), ..E::new(ty, tree, most_of(ty)) }
    }

    /// A constant beside something that has the type; it need not say it.
    pub fn constant_beside(&mut self, ty: Ty) -> E {
        let style = self.style();
        let tree = self.hole(ty, style);
        E { untyped: style == Style::Bare, ..E::new(ty, tree, most_of(ty)) }
    }

    /// A column of a type, of this scope or of one around it.
    pub fn column(&mut self, scope: &Scope, ty: Ty) -> Option<E> {
        let mut at = Some(scope);
        if scope.outer.is_some() && self.once_in(3) {
            at = scope.outer;
            if let Some(outer) = at.and_then(|s| s.outer)
                && self.once_in(3)
            {
                at = Some(outer);
            }
        }
        while let Some(now) = at {
            let fits: Vec<&Col> = now.columns().filter(|c| c.ty == ty).collect();
            if !fits.is_empty() {
                return Some(column(fits[self.below(fits.len())]));
            }
            at = now.outer;
        }
        None
    }

    /// A column of this scope itself.
    pub fn own_column(&mut self, scope: &Scope, fits: impl Fn(&Col) -> bool) -> Option<E> {
        let fits: Vec<&Col> = scope.columns().filter(|c| fits(c)).collect();
        (!fits.is_empty()).then(|| column(fits[self.below(fits.len())]))
    }

    /// A type that something in scope has, or any.
    pub fn some_type(&mut self, scope: &Scope) -> Ty {
        let types: Vec<Ty> = scope.columns().map(|c| c.ty).collect();
        match self.below(12) {
            0 if self.once_in(3) => self.pick_ty(&Ty::MORE),
            0 => self.pick_ty(&Ty::COLUMNS),
            _ if types.is_empty() => self.pick_ty(&Ty::COLUMNS),
            _ => self.pick_ty(&types),
        }
    }
}

/// A column as an expression.
pub fn column(col: &Col) -> E {
    let most = if col.wild { f64::INFINITY } else { col.most };
    E { canonical: col.canonical, exact: col.exact && !col.wild, ..E::new(col.ty, col.sql.clone(), most) }
}

/// A bound of tame values.
pub fn most_of(ty: Ty) -> f64 {
    if ty.is_number() { values::TAME_INTEGER_MAX } else { 1.0 }
}
