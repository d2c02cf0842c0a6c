//! A whole database, or one table, against a state of the model.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::Arc;

use resurgam_engine::*;

use super::Found;
use super::model::*;
use crate::broken;

/// An error is either what the schedule's faults explain, or a finding.
#[derive(Debug)]
pub enum Trouble {
    /// The database said so; the caller judges whether it may.
    Failed(Error),
    Broken(String),
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
impl From<String> for Trouble {
    fn from(what: String) -> Self {
        Self::Broken(what)
    }
}

pub type Checked<T> = Result<T, Trouble>;

/// One row, large values read.
pub fn read_row(view: &ReadView, table: &Table, raw: RawRow<'_>) -> Result<Row> {
    (0..table.columns.len())
        .map(|i| {
            Ok(match table.column(raw, i)? {
                DatumRef::External(reference) => {
                    let bytes = view.read_external(reference)?;
                    if reference.is_text {
                        Datum::Text(String::from_utf8(bytes).map_err(|_| Error::corrupt("large text is not UTF-8"))?)
                    } else {
                        Datum::Bytes(bytes)
                    }
                }
                datum => datum.to_owned(),
            })
        })
        .collect()
}

/// All rows that a cursor yields, with their storage keys.
pub fn drain(
    view: &ReadView,
    table: &Arc<Table>,
    mut cursor: Cursor,
    batch_rows: usize,
) -> Result<Vec<(Vec<u8>, Row)>> {
    let mut rows = Vec::new();
    let mut batch = RowBatch::default();
    loop {
        batch.clear();
        if !cursor.next_batch(&mut batch, batch_rows)? {
            return Ok(rows);
        }
        for i in 0..batch.len() {
            rows.push((batch.row(i).key.to_vec(), read_row(view, table, batch.row(i))?));
        }
    }
}

pub fn brief(row: &Row) -> String {
    let text: Vec<String> = row
        .iter()
        .map(|d| match d {
            Datum::Text(t) if t.len() > 24 => format!("\"{}..\"({})", &t[..16], t.len()),
            other => format!("{other:?}"),
        })
        .collect();
    text.join(", ")
}

/// Compares rows with the model's, in any order.
pub fn same_rows(what: &str, found: &[(Vec<u8>, Row)], expected: &TableModel) -> Found<()> {
    let mut by_number: BTreeMap<i64, &Row> = BTreeMap::new();
    for (_, row) in found {
        let Some(number) = row.first().and_then(number_of) else {
            broken!("{what}: a row without a number: {}", brief(row))
        };
        if by_number.insert(number, row).is_some() {
            broken!("{what}: row {number} comes twice");
        }
    }
    for (number, row) in &expected.rows {
        match by_number.remove(number) {
            None => broken!("{what}: row {number} is missing, expected ({})", brief(row)),
            Some(found) if found != &**row => {
                broken!("{what}: row {number} is ({}), expected ({})", brief(found), brief(row))
            }
            Some(_) => {}
        }
    }
    if let Some((number, row)) = by_number.into_iter().next() {
        broken!("{what}: row {number} should not be there: ({})", brief(row));
    }
    Ok(())
}

/// Checks that a definition is the model's.
pub fn same_definition(table: &Table, expected: &TableModel) -> Found<()> {
    let columns: Vec<_> = table.columns.iter().map(|c| (c.name.clone(), c.ty)).collect();
    if columns != expected.columns {
        broken!("table {}: columns are {columns:?}, expected {:?}", table.name, expected.columns);
    }
    if table.primary_key != if expected.has_key { vec![0] } else { vec![] } {
        broken!("table {}: primary key is {:?}", table.name, table.primary_key);
    }
    let indexes: Vec<_> = table
        .indexes
        .iter()
        .map(|i| IndexModel {
            name: i.name.clone(),
            columns: i.columns.clone(),
            orders: i.orders.clone(),
            unique: i.unique,
            included: table.included(Some(i.id)).to_vec(),
        })
        .collect();
    if indexes != expected.indexes {
        broken!("table {}: indexes are {indexes:?}, expected {:?}", table.name, expected.indexes);
    }
    let names = |columns: &[usize]| columns.iter().map(|at| table.columns[*at].name.clone()).collect();
    let not_null = table.columns.iter().filter(|c| !c.nullable).map(|c| c.name.clone()).collect();
    let default = |c: &Column| Some((c.name.clone(), c.default_sql.clone()?));
    let check = |c: &Check| CheckModel {
        name: c.name.clone(),
        sql: c.sql.clone(),
        columns: names(&c.columns),
        validated: c.validated,
    };
    let index_of = |id: u32| table.indexes.iter().find(|i| i.id == id).map(|i| i.name.clone()).unwrap_or_default();
    let foreign = |f: &ForeignKey| ForeignModel {
        name: f.name.clone(),
        key: f.index.map(index_of),
        columns: f.columns.clone(),
        validated: f.validated,
    };
    let found = TableModel {
        not_null,
        defaults: table.columns.iter().filter_map(default).collect(),
        checks: table.checks.iter().map(check).collect(),
        foreign: table.foreign_keys.iter().map(foreign).collect(),
        rows: BTreeMap::new(),
        ..expected.clone()
    };
    let same = found.not_null == expected.not_null && found.defaults == expected.defaults;
    if !same || found.checks != expected.checks || found.foreign != expected.foreign {
        broken!("table {}: constraints are {found:?}, expected {expected:?}", table.name);
    }
    Ok(())
}

/// Which of two rows comes first in an index, by its own columns.
fn order_in(index: &Index, a: &Row, b: &Row) -> Ordering {
    for (&column, order) in index.columns.iter().zip(&index.orders) {
        let (a, b) = (&a[column], &b[column]);
        let compared = match (a.is_null(), b.is_null()) {
            (false, false) => {
                let compared = a.as_ref().key_cmp(&b.as_ref()).unwrap_or(Ordering::Equal);
                if order.descending { compared.reverse() } else { compared }
            }
            (a, b) if order.nulls_first => b.cmp(&a),
            (a, b) => a.cmp(&b),
        };
        if compared.is_ne() {
            return compared;
        }
    }
    Ordering::Equal
}

/// What an index has of its rows by itself is what the rows have.
fn check_alone(view: &ReadView, table: &Arc<Table>, at: usize, rows: &[(Vec<u8>, Vec<Datum>)]) -> Checked<()> {
    let has = |column: &usize| table.covering(at, [*column]).is_some();
    let columns: Vec<usize> = (0..table.columns.len()).filter(has).collect();
    let covering = table.covering(at, columns.iter().copied()).map(Arc::new);
    let cursor = view.scan_index(table, at, KeyRange::all(), Direction::Forward).covered(covering.clone());
    let alone = drain(view, table, cursor, 9)?;
    let same = |(a, b): (&(Vec<u8>, Vec<Datum>), &(Vec<u8>, Vec<Datum>))| {
        a.0 == b.0 && columns.iter().all(|column| a.1[*column] == b.1[*column])
    };
    let name = &table.indexes[at].name;
    if alone.len() != rows.len() || !alone.iter().zip(rows).all(same) {
        return Err(Trouble::Broken(format!("index {name} by itself differs from its rows")));
    }
    let (Some(covering), Some((_, row))) = (covering, rows.last()) else { return Ok(()) };
    let values: Vec<DatumRef<'_>> = table.indexes[at].columns.iter().map(|column| row[*column].as_ref()).collect();
    if !table.keeps_out(Some(at), &values) {
        return Ok(());
    }
    let (mut entry, mut found) = (Vec::new(), RowBuf::default());
    table.encode_index_key(at, &values, &mut entry)?;
    if !view.get_covered(table, &covering, &entry, &mut found)? {
        return Err(Trouble::Broken(format!("index {name} has no entry for ({})", brief(row))));
    }
    let found = read_row(view, table, found.raw())?;
    if columns.iter().any(|column| found[*column] != row[*column]) {
        return Err(Trouble::Broken(format!("index {name} has another row by itself than ({})", brief(row))));
    }
    Ok(())
}

/// Checks one table as `view` sees it: scans both ways, every index, point reads.
pub fn check_table(view: &ReadView, table: &Arc<Table>, expected: &TableModel, thorough: bool) -> Checked<()> {
    same_definition(table, expected)?;
    let name = &table.name;
    let forward = drain(view, table, view.scan(table, KeyRange::all(), Direction::Forward), 17)?;
    same_rows(&format!("scan of {name}"), &forward, expected)?;
    if forward.windows(2).any(|w| w[0].0 >= w[1].0) {
        return Err(Trouble::Broken(format!("scan of {name} is not in key order")));
    }
    let mut backward = drain(view, table, view.scan(table, KeyRange::all(), Direction::Backward), 13)?;
    backward.reverse();
    if backward != forward {
        return Err(Trouble::Broken(format!("scan of {name} backwards differs from forwards")));
    }
    for at in (0..table.indexes.len()).filter(|at| table.indexes[*at].valid) {
        let rows = drain(view, table, view.scan_index(table, at, KeyRange::all(), Direction::Forward), 11)?;
        let index = &table.indexes[at];
        same_rows(&format!("index {} of {name}", index.name), &rows, expected)?;
        if rows.windows(2).any(|w| order_in(index, &w[0].1, &w[1].1).is_gt()) {
            return Err(Trouble::Broken(format!("index {} of {name} is not in its order", index.name)));
        }
        let mut backward = drain(view, table, view.scan_index(table, at, KeyRange::all(), Direction::Backward), 7)?;
        backward.reverse();
        if backward != rows {
            return Err(Trouble::Broken(format!("index {} of {name} backwards differs from forwards", index.name)));
        }
        check_alone(view, table, at, &rows)?;
    }
    if !thorough {
        return Ok(());
    }
    let mut buf = RowBuf::default();
    for (key, row) in &forward {
        if !view.get(table, key, &mut buf)? || read_row(view, table, buf.raw())? != *row {
            return Err(Trouble::Broken(format!("point read of {name} differs from the scan: ({})", brief(row))));
        }
        for (at, index) in table.indexes.iter().enumerate() {
            if !index.unique || index.columns.iter().any(|c| row[*c].is_null()) {
                continue;
            }
            let values: Vec<DatumRef<'_>> = index.columns.iter().map(|c| row[*c].as_ref()).collect();
            let mut entry = Vec::new();
            table.encode_index_key(at, &values, &mut entry)?;
            if !view.get_by_index(table, index, &entry, &mut buf)? || read_row(view, table, buf.raw())? != *row {
                return Err(Trouble::Broken(format!("index {} does not lead to ({})", index.name, brief(row))));
            }
        }
    }
    Ok(())
}

/// Everything that a new transaction sees, and what is in doubt.
pub fn check_all(db: &Database, expected: &State, thorough: bool) -> Checked<()> {
    let in_doubt: Vec<(String, TxId)> = db.prepared().into_iter().map(|p| (p.gid, p.id)).collect();
    let should: Vec<(String, TxId)> = expected.prepared.iter().map(|(gid, p)| (gid.clone(), p.id)).collect();
    let same = |((found, id), (gid, should)): (&(String, TxId), &(String, TxId))| {
        found == gid && (id == should || should.is_none())
    };
    if in_doubt.len() != should.len() || !in_doubt.iter().zip(&should).all(same) {
        return Err(Trouble::Broken(format!("prepared transactions are {in_doubt:?}, expected {should:?}")));
    }
    let tx = db.begin(Isolation::RepeatableRead);
    let view = tx.statement(StatementKind::Read)?;
    let mut tables = tx.tables()?;
    // Sessions' own are theirs to compare.
    tables.retain(|table| !super::temporary::is_temporary(table));
    let names: Vec<&str> = tables.iter().map(|t| t.name.as_str()).collect();
    let wanted: Vec<&str> = expected.tables.keys().map(String::as_str).collect();
    if names != wanted {
        return Err(Trouble::Broken(format!("tables are {names:?}, expected {wanted:?}")));
    }
    for name in expected.views.keys().chain(tx.views()?.iter().map(|view| &view.name)) {
        let found = tx.view_named("public", name)?.as_deref().and_then(super::views::found);
        if found.as_ref() != expected.views.get(name).map(|view| &**view) {
            return Err(Trouble::Broken(format!("view {name} is {found:?}, expected {:?}", expected.views.get(name))));
        }
    }
    let objects = super::objects::listed(&tx)?;
    let found: Vec<_> = objects.iter().map(|(key, object)| (key, object.as_ref())).collect();
    let wanted: Vec<_> = expected.objects.iter().map(|(key, object)| (key, Some(&**object))).collect();
    if found != wanted {
        return Err(Trouble::Broken(format!("objects are {found:?}, expected {wanted:?}")));
    }
    for table in &tables {
        check_table(&view, table, &expected.tables[&table.name], thorough)?;
    }
    tx.commit(Durability::Sync)?.wait()?;
    Ok(())
}
