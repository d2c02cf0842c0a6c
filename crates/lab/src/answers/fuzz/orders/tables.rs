//! Tables of some dozens to some hundred rows whose keys and indexes begin with columns of few values.

use std::collections::HashSet;

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use crate::answers::fuzz::schema::{Column, Row, Schema, Table};
use crate::answers::fuzz::types::{Ty, Value, quoted};

/// How much there is of a table.
#[derive(Clone, Debug)]
pub struct Size {
    pub rows: usize,
    /// How many values each column has, NULL aside.
    pub values: Vec<usize>,
}

/// `2024-01-01`, from which dates go on.
const FIRST_DAY: i32 = 19_723;

const TEXTS: [&str; 8] = ["a", "b", "", "B", "ab", "é", "a b", "zz"];

/// The value of that number, of those that a column of a type has: the same in all tables, so that joins meet.
pub fn value(ty: Ty, at: usize) -> Value {
    let number = at as i64;
    match ty {
        Ty::Bool => Value::Bool(at % 2 == 1),
        // Some below zero, and zero among them.
        Ty::Int2 | Ty::Int4 | Ty::Int8 => Value::Int(if at % 5 == 3 { -number } else { number }),
        Ty::Float8 => match at {
            5 => Value::Float(f64::NAN),
            6 => Value::Float(f64::INFINITY),
            _ => Value::Float(number as f64 / 4.0 - 0.5),
        },
        Ty::Date => Value::Date(FIRST_DAY + i32::try_from(at).unwrap_or(0)),
        _ => Value::Text(TEXTS.get(at).map_or_else(|| format!("t{at}"), |text| (*text).to_owned())),
    }
}

/// The largest absolute value of a column of integers.
pub fn most(size: &Size, column: usize) -> f64 {
    size.values[column] as f64
}

impl Schema {
    /// Three or four tables for statements about orders.
    pub fn for_orders(rng: &mut StdRng) -> Self {
        let count = rng.random_range(3..=4);
        let (tables, sizes) = (0..count).map(|at| table(rng, at)).unzip();
        Self { tables, views: Vec::new(), sizes }
    }

    /// Whether it is one of these.
    pub fn is_for_orders(&self) -> bool {
        !self.sizes.is_empty()
    }

    /// The rows of such tables: none of them breaks a constraint.
    pub fn rows_for_orders(&self, rng: &mut StdRng) -> Vec<Row> {
        let mut rows = Vec::new();
        for (at, (table, size)) in self.tables.iter().zip(&self.sizes).enumerate() {
            let mut keys = HashSet::new();
            let mut left = size.rows * 4;
            let mut own = Vec::new();
            while own.len() < size.rows && left > 0 {
                left -= 1;
                let values: Vec<String> = (0..table.columns.len()).map(|c| literal(rng, table, size, c)).collect();
                if keys.insert(table.key.iter().map(|c| values[*c].clone()).collect::<Vec<_>>()) {
                    own.push(Row { table: at, values });
                }
            }
            own.shuffle(rng);
            rows.extend(own);
        }
        rows
    }
}

fn literal(rng: &mut StdRng, table: &Table, size: &Size, at: usize) -> String {
    let column = &table.columns[at];
    if !column.not_null && rng.random_ratio(1, 4) {
        return "NULL".into();
    }
    match value(column.ty, rng.random_range(0..size.values[at])).text(column.ty) {
        Some(text) => quoted(&text),
        None => "NULL".into(),
    }
}

fn column(name: String, ty: Ty, not_null: bool) -> Column {
    let declared = ty.name().to_owned();
    Column {
        name,
        ty,
        declared,
        wild: false,
        not_null,
        default: None,
        canonical: true,
        generated: None,
        identity: false,
    }
}

/// A table: the columns of its key, and three to five others.
fn table(rng: &mut StdRng, at: usize) -> (Table, Size) {
    // A large one, a small one, and then any.
    let rows = match at {
        0 => rng.random_range(150..=600),
        1 => rng.random_range(12..=40),
        _ => *[20, 60, 120].choose(rng).unwrap_or(&60),
    };
    let (mut columns, mut values) = (Vec::new(), Vec::new());
    let key = rng.random_range(1..=3);
    for part in 0..key {
        let is_last = part + 1 == key;
        let few = rng.random_range(2..=5);
        let ty = match rng.random_range(0..8) {
            0 if !is_last => Ty::Text,
            1 => Ty::Int8,
            2 => Ty::Int2,
            _ => Ty::Int4,
        };
        columns.push(column(format!("k{part}"), ty, true));
        // Its last column tells the rows apart, or nearly so.
        let many = if rng.random_ratio(1, 2) { rows * 3 } else { rows * 2 / 3 + 2 };
        values.push(if is_last { many } else { few });
    }
    for other in 0..rng.random_range(3..=5) {
        let ty = *[Ty::Int4, Ty::Int4, Ty::Int4, Ty::Int8, Ty::Text, Ty::Date, Ty::Float8, Ty::Bool]
            .choose(rng)
            .unwrap_or(&Ty::Int4);
        let few = *[1, 2, 3, 3, 4, 8, 20].choose(rng).unwrap_or(&3);
        columns.push(column(format!("c{other}"), ty, rng.random_ratio(1, 3)));
        values.push(if ty == Ty::Bool { 2 } else { few });
    }
    // The columns of the key need not come in its order.
    let mut own: Vec<usize> = (0..key).collect();
    if rng.random_ratio(1, 4) {
        own.shuffle(rng);
    }
    let mut indexes = Vec::new();
    for _ in 0..rng.random_range(0..=2) {
        let mut of: Vec<usize> = (0..columns.len()).collect();
        of.shuffle(rng);
        of.truncate(rng.random_range(1..=3));
        indexes.push((false, of));
    }
    let table = Table {
        name: format!("t{at}"),
        columns,
        key: own,
        unique: Vec::new(),
        indexes,
        checks: Vec::new(),
        foreign: Vec::new(),
        temporary: false,
    };
    (table, Size { rows, values })
}
