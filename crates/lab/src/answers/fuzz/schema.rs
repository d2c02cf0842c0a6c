//! The tables of a round, and their rows.

use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};

use super::types::{Ty, Value, quoted};
use super::values;

#[derive(Clone, Debug)]
pub struct Column {
    pub name: String,
    pub ty: Ty,
    /// As it is declared: `numeric(10,2)`.
    pub declared: String,
    /// Whether it has constants from the ends of its type's range.
    pub wild: bool,
    pub not_null: bool,
    /// A literal.
    pub default: Option<String>,
    /// Equal values print alike.
    pub canonical: bool,
}

#[derive(Clone, Debug)]
pub struct ForeignKey {
    pub column: usize,
    pub target: usize,
    pub target_column: usize,
    pub actions: &'static str,
}

#[derive(Clone, Debug)]
pub struct Table {
    pub name: String,
    pub columns: Vec<Column>,
    /// The primary key; never empty.
    pub key: Vec<usize>,
    /// Unique constraints.
    pub unique: Vec<Vec<usize>>,
    pub indexes: Vec<(bool, Vec<usize>)>,
    pub checks: Vec<String>,
    pub foreign: Vec<ForeignKey>,
}

#[derive(Clone, Debug)]
pub struct Schema {
    pub tables: Vec<Table>,
}

/// Orders that columns of indexes have in turn.
const ORDERS: [&str; 4] = ["", " DESC", " NULLS FIRST", " DESC NULLS LAST"];

/// A row to insert: its table, and its values as literals.
#[derive(Clone, Debug)]
pub struct Row {
    pub table: usize,
    pub values: Vec<String>,
}

impl Schema {
    /// Two to four tables.
    pub fn random(rng: &mut StdRng) -> Self {
        let mut tables: Vec<Table> = Vec::new();
        for at in 0..rng.random_range(2..=4) {
            let table = Table::random(rng, at, &tables);
            tables.push(table);
        }
        Self { tables }
    }

    /// Rows for the tables. Some will break constraints, so each is inserted by a statement of
    /// its own.
    pub fn rows(&self, rng: &mut StdRng) -> Vec<Row> {
        let mut rows = Vec::new();
        for (at, table) in self.tables.iter().enumerate() {
            for _ in 0..*[0, 3, 8, 12, 20].choose(rng).unwrap_or(&5) {
                rows.push(Row { table: at, values: table.row(rng) });
            }
        }
        rows
    }

    /// The statements that make the tables and their indexes.
    pub fn create(&self, with_checks: bool) -> Vec<String> {
        let mut texts = Vec::new();
        for table in &self.tables {
            texts.push(table.create(self, with_checks));
            for (at, (unique, columns)) in table.indexes.iter().enumerate() {
                let unique = if *unique { "UNIQUE " } else { "" };
                let names = table.names(columns);
                let ordered =
                    names.iter().zip(columns).map(|(name, column)| format!("{name}{}", ORDERS[(at + column) % 4]));
                let columns = ordered.collect::<Vec<_>>().join(", ");
                texts.push(format!("CREATE {unique}INDEX {0}_i{at} ON {0} ({columns})", table.name));
            }
        }
        texts
    }

    /// The statements that take them away again.
    pub fn drop(&self) -> Vec<String> {
        self.tables.iter().rev().map(|table| format!("DROP TABLE IF EXISTS {} CASCADE", table.name)).collect()
    }

    pub fn insert(&self, row: &Row) -> String {
        format!("INSERT INTO {} VALUES ({})", self.tables[row.table].name, row.values.join(", "))
    }

    /// The schema without a column, and the rows without its values; none if a key or a
    /// constraint needs it.
    pub fn without_column(&self, table: usize, column: usize, rows: &[Row]) -> Option<(Self, Vec<Row>)> {
        let mut schema = self.clone();
        let it = &mut schema.tables[table];
        let name = it.columns[column].name.clone();
        let used = it.key.contains(&column)
            || it.unique.iter().any(|c| c.contains(&column))
            || it.indexes.iter().any(|(_, c)| c.contains(&column))
            || it.foreign.iter().any(|f| f.column == column)
            || it.checks.iter().any(|check| check.contains(&name));
        if used {
            return None;
        }
        it.columns.remove(column);
        let down = |at: &mut usize| *at -= usize::from(*at > column);
        it.key.iter_mut().for_each(down);
        it.unique.iter_mut().flatten().for_each(down);
        it.indexes.iter_mut().flat_map(|(_, c)| c).for_each(down);
        it.foreign.iter_mut().for_each(|f| down(&mut f.column));
        let mut rows = rows.to_vec();
        rows.iter_mut().filter(|row| row.table == table).for_each(|row| drop(row.values.remove(column)));
        Some((schema, rows))
    }

    /// The schema without a table, and the rows without its; none if another refers to it.
    pub fn without_table(&self, table: usize, rows: &[Row]) -> Option<(Self, Vec<Row>)> {
        let mut schema = self.clone();
        schema.tables.remove(table);
        if schema.tables.iter().flat_map(|t| &t.foreign).any(|f| f.target == table) {
            return None;
        }
        let down = |at: &mut usize| *at -= usize::from(*at > table);
        schema.tables.iter_mut().flat_map(|t| &mut t.foreign).for_each(|f| down(&mut f.target));
        let mut rows: Vec<Row> = rows.iter().filter(|row| row.table != table).cloned().collect();
        rows.iter_mut().for_each(|row| down(&mut row.table));
        Some((schema, rows))
    }

    /// The schema with one constraint or index less, for each of them.
    pub fn with_less(&self) -> Vec<Self> {
        let mut found = Vec::new();
        for at in 0..self.tables.len() {
            let mut without = |change: &mut dyn FnMut(&mut Table)| {
                let mut schema = self.clone();
                change(&mut schema.tables[at]);
                found.push(schema);
            };
            let table = &self.tables[at];
            for i in 0..table.foreign.len() {
                without(&mut |t| {
                    t.foreign.remove(i);
                });
            }
            for i in 0..table.checks.len() {
                without(&mut |t| {
                    t.checks.remove(i);
                });
            }
            for i in 0..table.indexes.len() {
                without(&mut |t| {
                    t.indexes.remove(i);
                });
            }
            for i in 0..table.unique.len() {
                without(&mut |t| {
                    t.unique.remove(i);
                });
            }
            for i in 0..table.columns.len() {
                if table.columns[i].default.is_some() {
                    without(&mut |t| t.columns[i].default = None);
                }
                if table.columns[i].not_null && !table.key.contains(&i) {
                    without(&mut |t| t.columns[i].not_null = false);
                }
            }
        }
        found
    }
}

impl Table {
    fn random(rng: &mut StdRng, at: usize, before: &[Table]) -> Self {
        let name = format!("t{at}");
        let mut columns = Vec::new();
        let key_len = if rng.random_ratio(1, 4) { 2 } else { 1 };
        for at in 0..key_len {
            let ty = if rng.random_ratio(3, 4) {
                *[Ty::Int4, Ty::Int8, Ty::Int2].choose(rng).unwrap_or(&Ty::Int4)
            } else {
                *[Ty::Text, Ty::Uuid, Ty::Date, Ty::Numeric, Ty::Varchar].choose(rng).unwrap_or(&Ty::Text)
            };
            columns.push(Column::of(rng, format!("k{at}"), ty, false, true));
        }
        for at in 0..rng.random_range(2..=6) {
            let ty = match rng.random_range(0..10) {
                0..=2 => Ty::Int4,
                3 => Ty::Text,
                _ => *Ty::COLUMNS.choose(rng).unwrap_or(&Ty::Int4),
            };
            let wild = rng.random_ratio(1, 5);
            let not_null = rng.random_ratio(1, 5);
            columns.push(Column::of(rng, format!("c{at}"), ty, wild, not_null));
        }
        let mut table = Self {
            name,
            key: (0..key_len).collect(),
            columns,
            unique: Vec::new(),
            indexes: Vec::new(),
            checks: Vec::new(),
            foreign: Vec::new(),
        };
        table.constraints(rng, before);
        table
    }

    fn constraints(&mut self, rng: &mut StdRng, before: &[Table]) {
        let mut others: Vec<usize> =
            (self.key.len()..self.columns.len()).filter(|at| self.columns[*at].ty.is_ordered()).collect();
        others.shuffle(rng);
        if rng.random_ratio(1, 3)
            && let Some(at) = others.first()
        {
            self.unique.push(vec![*at]);
        }
        for _ in 0..rng.random_range(0..=2) {
            others.shuffle(rng);
            let take = rng.random_range(1..=2);
            let columns: Vec<usize> = others.iter().take(take).copied().collect();
            if !columns.is_empty() {
                self.indexes.push((rng.random_ratio(1, 6), columns));
            }
        }
        if rng.random_ratio(1, 2) {
            for at in &others {
                if let Some(check) = self.columns[*at].check(rng) {
                    self.checks.push(check);
                }
                if self.checks.len() >= 2 || rng.random() {
                    break;
                }
            }
        }
        // To the key of an earlier table, or to this one's own.
        for at in others {
            if !rng.random_ratio(1, 3) {
                continue;
            }
            let all = before.iter().enumerate().map(|(i, t)| (i, t.key.len(), t.columns[0].declared.clone()));
            let own = (before.len(), self.key.len(), self.columns[0].declared.clone());
            let mut fits: Vec<usize> = all
                .chain(Some(own))
                .filter(|(_, len, declared)| *len == 1 && *declared == self.columns[at].declared)
                .map(|(i, ..)| i)
                .collect();
            fits.shuffle(rng);
            if let Some(target) = fits.first() {
                let actions = *[
                    "",
                    " ON DELETE CASCADE",
                    " ON DELETE SET NULL",
                    " ON UPDATE CASCADE ON DELETE RESTRICT",
                    " DEFERRABLE INITIALLY DEFERRED",
                ]
                .choose(rng)
                .unwrap_or(&"");
                self.foreign.push(ForeignKey { column: at, target: *target, target_column: 0, actions });
            }
        }
    }

    pub fn names(&self, columns: &[usize]) -> Vec<String> {
        columns.iter().map(|at| self.columns[*at].name.clone()).collect()
    }

    /// Its key as a list: `t.k0, t.k1`.
    pub fn key_list(&self, alias: &str) -> String {
        self.names(&self.key).iter().map(|name| format!("{alias}.{name}")).collect::<Vec<_>>().join(", ")
    }

    fn create(&self, schema: &Schema, with_checks: bool) -> String {
        let mut parts: Vec<String> = self
            .columns
            .iter()
            .map(|c| {
                let default = c.default.as_ref().map_or_else(String::new, |value| format!(" DEFAULT {value}"));
                format!("{} {}{default}{}", c.name, c.declared, if c.not_null { " NOT NULL" } else { "" })
            })
            .collect();
        parts.push(format!("PRIMARY KEY ({})", self.names(&self.key).join(", ")));
        parts.extend(self.unique.iter().map(|columns| format!("UNIQUE ({})", self.names(columns).join(", "))));
        if with_checks {
            parts.extend(self.checks.iter().map(|check| format!("CHECK ({check})")));
        }
        for key in &self.foreign {
            let target = &schema.tables[key.target];
            parts.push(format!(
                "FOREIGN KEY ({}) REFERENCES {} ({}){}",
                self.columns[key.column].name, target.name, target.columns[key.target_column].name, key.actions
            ));
        }
        format!("CREATE TABLE {} ({})", self.name, parts.join(", "))
    }

    fn row(&self, rng: &mut StdRng) -> Vec<String> {
        let literal = |column: &Column, rng: &mut StdRng| match column.value(rng) {
            Value::Null => "NULL".into(),
            value => quoted(&value.text(column.ty).unwrap_or_default()),
        };
        self.columns.iter().map(|column| literal(column, rng)).collect()
    }

    /// Columns that some unique index has.
    pub fn is_unique(&self, column: usize) -> bool {
        self.key.contains(&column)
            || self.unique.iter().any(|c| c.contains(&column))
            || self.indexes.iter().any(|(unique, c)| *unique && c.contains(&column))
    }
}

impl Column {
    fn of(rng: &mut StdRng, name: String, ty: Ty, wild: bool, not_null: bool) -> Self {
        let mut canonical = true;
        let declared = match ty {
            Ty::Varchar => "varchar(20)".into(),
            Ty::Char => "char(5)".into(),
            Ty::Numeric if rng.random_ratio(1, 2) => "numeric(10,2)".into(),
            Ty::Numeric => {
                canonical = false;
                "numeric".to_owned()
            }
            Ty::Timestamp | Ty::Timestamptz | Ty::Time if rng.random_ratio(1, 4) => {
                format!("{}({})", ty.name(), rng.random_range(0..=6))
            }
            ty => ty.name().into(),
        };
        let default = rng.random_ratio(1, 6).then(|| quoted(&values::tame(rng, ty).text(ty).unwrap_or_default()));
        Self { name, ty, declared, wild, not_null, default, canonical: canonical && ty != Ty::Json }
    }

    /// A value for a row of it.
    pub fn value(&self, rng: &mut StdRng) -> Value {
        if !self.not_null && rng.random_ratio(1, 5) {
            return Value::Null;
        }
        if self.wild && rng.random_ratio(1, 3) { values::wild(rng, self.ty) } else { values::tame(rng, self.ty) }
    }

    /// A condition that most of its tame values meet.
    fn check(&self, rng: &mut StdRng) -> Option<String> {
        let name = &self.name;
        Some(match self.ty {
            Ty::Int2 | Ty::Int4 | Ty::Int8 => match rng.random_range(0..5) {
                0 => format!("{name} > -3"),
                1 => format!("{name} <> 7 OR {name} IS NULL"),
                2 => format!("{name} BETWEEN -100 AND 11"),
                3 => format!("{name} NOT IN (1, 2, 99)"),
                _ => format!("{name} % 5 <> 4"),
            },
            Ty::Text | Ty::Varchar => match rng.random_range(0..3) {
                0 => format!("length({name}) < 6"),
                1 => format!("{name} <> 'zz'"),
                _ => format!("{name} NOT LIKE 'x%'"),
            },
            Ty::Numeric | Ty::Float8 | Ty::Float4 => format!("{name} >= -2.5"),
            Ty::Date => format!("{name} <> date '2020-02-29'"),
            Ty::Bool => format!("{name} IS NOT FALSE"),
            _ => return None,
        })
    }
}
