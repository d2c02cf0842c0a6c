//! What stands in FROM, what WHERE says of it, and expressions over it.

use super::tables::{most, value};
use crate::answers::fuzz::generator::Gen;
use crate::answers::fuzz::schema::Schema;
use crate::answers::fuzz::tree::{Style, Tree, seq};
use crate::answers::fuzz::types::Ty;

/// Rows that a join may have, by estimate.
const ROWS_MAX: f64 = 4000.0;

/// Values that a literal is written of.
const LITERALS: [Ty; 7] = [Ty::Int2, Ty::Int4, Ty::Int8, Ty::Text, Ty::Date, Ty::Float8, Ty::Bool];

/// A column, or an expression over some.
#[derive(Clone, Debug)]
pub struct Field {
    pub sql: String,
    pub ty: Ty,
    /// No smaller than its absolute value, of integers.
    pub most: f64,
    /// How many values it has, by estimate.
    pub values: f64,
}

/// An order: expressions, and which way each goes.
pub type Order = Vec<(String, &'static str)>;

/// Orders that are kept of a relation.
const ORDERS_MAX: usize = 6;

/// One or several relations.
#[derive(Clone)]
pub struct Relation {
    pub tree: Tree,
    pub fields: Vec<Field>,
    pub rows: f64,
    /// Orders that its rows may come in, or that one might take them to come in.
    pub orders: Vec<Order>,
    pub is_join: bool,
    /// Whether PostgreSQL may know of its columns that they are equal to a constant or to each other.
    pub has_equal: bool,
}

impl Relation {
    /// A query in FROM: its columns by their names.
    pub fn of_query(tree: Tree, alias: &str, columns: &[Field], orders: &[Order], rows: f64) -> Self {
        let fields = columns.iter().map(|c| Field { sql: format!("{alias}.{}", c.sql), ..c.clone() }).collect();
        let named = |order: &Order| order.iter().map(|(name, way)| (format!("{alias}.{name}"), *way)).collect();
        let orders = orders.iter().map(named).collect();
        Self { tree: seq!["(", tree, ") AS ", alias], fields, rows, orders, is_join: false, has_equal: true }
    }
}

impl Gen<'_> {
    /// One to three relations, tables for the most part, joined by some of their columns.
    pub(super) fn relations(&mut self, depth: usize) -> Relation {
        let mut all = self.order_item(depth);
        let more = [0, 1, 1, 1, 2][self.below(5)];
        for _ in 0..more {
            let next = self.order_item(depth);
            // The other way round, a chain's later joins are within parentheses.
            let (left, right) = if self.once_in(3) { (next, all) } else { (all, next) };
            all = self.join_of(left, right);
        }
        all
    }

    fn order_item(&mut self, depth: usize) -> Relation {
        if depth > 0 && self.once_in(2) {
            let shape = self.shape(depth - 1);
            let alias = self.name("x");
            return Relation::of_query(shape.tree, &alias, &shape.columns, &shape.orders, shape.rows);
        }
        self.order_table()
    }

    pub(super) fn order_table(&mut self) -> Relation {
        let schema = self.schema;
        let at = self.below(schema.tables.len());
        let (table, size) = (&schema.tables[at], &schema.sizes[at]);
        let alias = self.name("a");
        let fields = table.columns.iter().enumerate().map(|(c, column)| Field {
            sql: format!("{alias}.{}", column.name),
            ty: column.ty,
            most: most(size, c),
            values: size.values[c] as f64,
        });
        let fields = fields.collect();
        let named = |at: usize| format!("{alias}.{}", table.columns[at].name);
        let mut orders: Vec<Order> = vec![table.key.iter().map(|at| (named(*at), "")).collect()];
        let indexes = table.indexes.iter().enumerate();
        orders.extend(indexes.map(|(i, (_, of))| of.iter().map(|at| (named(*at), Schema::way(i, *at))).collect()));
        let tree = seq![table.name.clone(), " AS ", alias];
        Relation { tree, fields, rows: size.rows as f64, orders, is_join: false, has_equal: false }
    }

    /// A join on one pair of columns, or on as many as keep it small; the first side alone if none do.
    fn join_of(&mut self, a: Relation, b: Relation) -> Relation {
        let mut pairs: Vec<(usize, usize)> = Vec::new();
        for (x, left) in a.fields.iter().enumerate() {
            let equals = b.fields.iter().enumerate().filter(|(_, right)| are_comparable(left.ty, right.ty));
            pairs.extend(equals.map(|(y, _)| (x, y)));
        }
        let (mut rows, mut on, mut fields) = (a.rows * b.rows, Vec::new(), a.fields.clone());
        fields.extend(b.fields.iter().cloned());
        let wanted = 1 + self.below(2);
        while !pairs.is_empty() && (on.len() < wanted || rows > ROWS_MAX) {
            let (x, y) = pairs.swap_remove(self.below(pairs.len()));
            let (left, right) = (&a.fields[x], &b.fields[y]);
            rows /= left.values.max(right.values).max(1.0);
            on.push(Tree::from(self.either_way(&left.sql, &right.sql)));
        }
        if on.is_empty() || rows > ROWS_MAX {
            return a;
        }
        let kind =
            self.pick(&[" JOIN ", " JOIN ", " JOIN ", " LEFT JOIN ", " LEFT JOIN ", " RIGHT JOIN ", " FULL JOIN "]);
        if kind != " FULL JOIN "
            && self.once_in(5)
            && let Some(pinned) = self.pinned(&fields)
        {
            on.push(pinned);
        }
        if kind != " JOIN " {
            rows += a.rows + b.rows;
        }
        let mut orders = Vec::new();
        for _ in 0..ORDERS_MAX {
            let mut first = self.any_order(&a.orders);
            let mut second = self.any_order(&b.orders);
            if self.once_in(2) {
                std::mem::swap(&mut first, &mut second);
            }
            // One side's order ends anywhere before the other's.
            first.truncate(1 + self.below(first.len()));
            second.truncate(self.below(second.len() + 1));
            first.extend(second);
            if !first.is_empty() {
                orders.push(first);
            }
        }
        let right = if b.is_join { seq!["(", b.tree, ")"] } else { b.tree };
        let tree = seq![a.tree, kind, right, " ON ", Tree::list(on, " AND ", 1)];
        Relation { tree, fields, rows, orders, is_join: true, has_equal: true }
    }

    /// One of them, or an empty one.
    pub(super) fn any_order(&mut self, orders: &[Order]) -> Order {
        orders.get(self.below(orders.len())).cloned().unwrap_or_default()
    }

    fn either_way(&mut self, a: &str, b: &str) -> String {
        if self.once_in(2) { format!("{a} = {b}") } else { format!("{b} = {a}") }
    }

    /// ` WHERE …`, or nothing.
    pub(super) fn order_where(&mut self, relation: &Relation) -> Tree {
        let mut all = Vec::new();
        for _ in 0..[0, 0, 1, 1, 2][self.below(5)] {
            all.extend(self.order_condition(relation));
        }
        if all.is_empty() { Tree::nothing() } else { Tree::maybe(seq![" WHERE ", Tree::list(all, " AND ", 1)]) }
    }

    fn order_condition(&mut self, relation: &Relation) -> Option<Tree> {
        let fields = &relation.fields;
        match self.below(10) {
            // What a key begins with becomes constant, or the same as another one.
            0..=3 => self.pinned(fields),
            4 => {
                let a = &fields[self.below(fields.len())];
                let b = &fields[self.below(fields.len())];
                (a.sql != b.sql && are_comparable(a.ty, b.ty)).then(|| Tree::from(format!("{} = {}", a.sql, b.sql)))
            }
            5 => {
                let field = &fields[self.below(fields.len())];
                Some(Tree::from(format!("{} IS {}NULL", field.sql, self.pick(&["", "NOT ", "NOT "]))))
            }
            6 => {
                let field = self.literal_field(fields)?;
                let op = self.pick(&[" >= ", " < ", " <> ", " > "]);
                Some(seq![field.sql.clone(), op, self.literal_of(&field)])
            }
            7 => {
                let field = self.literal_field(fields)?;
                let values = (0..2 + self.below(2)).map(|_| self.literal_of(&field)).collect();
                Some(seq![field.sql.clone(), " IN (", Tree::list(values, ", ", 1), ")"])
            }
            _ => self.membership_of(fields),
        }
    }

    /// A semi-join or an anti-join.
    fn membership_of(&mut self, fields: &[Field]) -> Option<Tree> {
        let other = self.order_table();
        let mut pairs = Vec::new();
        for left in fields {
            let equals = other.fields.iter().filter(|right| are_comparable(left.ty, right.ty));
            pairs.extend(equals.map(|right| (left.sql.clone(), right.sql.clone())));
        }
        let (mine, its) = pairs.get(self.below(pairs.len()))?.clone();
        let more = if self.once_in(2) { self.pinned(&other.fields) } else { None };
        let not = self.pick(&["", "", "NOT "]);
        Some(if self.once_in(2) {
            let and = more.map_or_else(Tree::nothing, |more| Tree::maybe(seq![" AND ", more]));
            seq![not, "EXISTS (SELECT FROM ", other.tree, " WHERE ", self.either_way(&mine, &its), and, ")"]
        } else {
            let filter = more.map_or_else(Tree::nothing, |more| Tree::maybe(seq![" WHERE ", more]));
            seq![mine, " ", not, "IN (SELECT ", its, " FROM ", other.tree, filter, ")"]
        })
    }

    /// `a1.k0 = 3`
    fn pinned(&mut self, fields: &[Field]) -> Option<Tree> {
        let field = self.literal_field(fields)?;
        let literal = self.literal_of(&field);
        Some(if self.once_in(4) { seq![literal, " = ", field.sql] } else { seq![field.sql, " = ", literal] })
    }

    /// One that a constant is beside, more likely one of few values.
    fn literal_field(&mut self, fields: &[Field]) -> Option<Field> {
        let fits: Vec<&Field> = fields.iter().filter(|field| LITERALS.contains(&field.ty)).collect();
        if fits.is_empty() {
            return None;
        }
        let (one, other) = (fits[self.below(fits.len())], fits[self.below(fits.len())]);
        Some(if one.values <= other.values { one } else { other }.clone())
    }

    fn literal_of(&mut self, field: &Field) -> Tree {
        let values =
            (0..self.runs).map(|_| value(field.ty, self.below((field.values as usize).clamp(1, 40)))).collect();
        let style = if matches!(field.ty, Ty::Float8) { Style::Cast } else { self.style() };
        self.hole_of(field.ty, style, values)
    }

    /// A column for the most part, else something that is computed of one or two.
    pub(super) fn order_value(&mut self, fields: &[Field]) -> Field {
        let field = fields[self.below(fields.len())].clone();
        if self.once_in(4) { self.computed_of(&field, fields).unwrap_or(field) } else { field }
    }

    fn computed_of(&mut self, field: &Field, fields: &[Field]) -> Option<Field> {
        let x = &field.sql;
        let of = |sql: String, ty, most: f64, values: f64| Some(Field { sql, ty, most, values });
        let (most, values) = (field.most, field.values);
        match self.below(6) {
            0 => return of(format!("({x} IS NULL)"), Ty::Bool, 1.0, 2.0),
            1 => return of(format!("{x}::text"), Ty::Text, 1.0, values),
            _ => {}
        }
        match field.ty {
            Ty::Int4 | Ty::Int8 => {
                let others: Vec<&Field> = fields.iter().filter(|other| other.ty == field.ty).collect();
                let y = others[self.below(others.len())];
                let (sum, product, many) = (most + y.most, most * y.most, values * y.values);
                match self.below(10) {
                    0 if sum < 1e9 => of(format!("({x} + {})", y.sql), field.ty, sum, many),
                    1 if sum < 1e9 => of(format!("({x} - {})", y.sql), field.ty, sum, many),
                    2 | 3 if product < 1e9 => of(format!("({x} * {})", y.sql), field.ty, product, many),
                    4 => of(format!("(- {x})"), field.ty, most, values),
                    5 => of(format!("({x} % 3)"), field.ty, 3.0, 5.0),
                    6 => of(format!("({x} / 2)"), field.ty, most, values),
                    7 => of(format!("coalesce({x}, 1)"), field.ty, most + 1.0, values),
                    8 => of(format!("({x} > 1)"), Ty::Bool, 1.0, 2.0),
                    _ => of(format!("CASE WHEN {x} > 1 THEN {} END", y.sql), field.ty, y.most, y.values),
                }
            }
            Ty::Text => match self.below(3) {
                0 => of(format!("upper({x})"), Ty::Text, 1.0, values),
                1 => of(format!("({x} || '!')"), Ty::Text, 1.0, values),
                _ => of(format!("length({x})"), Ty::Int4, 30.0, 3.0),
            },
            Ty::Date => match self.below(2) {
                0 => of(format!("({x} + 1)"), Ty::Date, 1.0, values),
                _ => of(format!("({x} - date '2024-01-03')"), Ty::Int4, 400.0, values),
            },
            Ty::Float8 => match self.below(2) {
                0 => of(format!("({x} + 1)"), Ty::Float8, 1.0, values),
                _ => of(format!("abs({x})"), Ty::Float8, 1.0, values),
            },
            Ty::Bool => of(format!("(NOT {x})"), Ty::Bool, 1.0, 2.0),
            _ => None,
        }
    }
}

fn are_comparable(a: Ty, b: Ty) -> bool {
    a == b || a.is_integer() && b.is_integer()
}
