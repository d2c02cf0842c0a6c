//! The short path: statements about one row by its whole primary key.
//!
//! A statement is recognised from its planned form, so names, types and coercions are
//! DataFusion's. What is not recognised, and any value that does not fit the short path at
//! run time (a key value of another kind, an overflow), takes the general path, which then
//! gives the result or the error. So there is one meaning, with two speeds.
//!
//! | statement | recognised when |
//! |---|---|
//! | SELECT | columns of one table, WHERE fixes the whole key |
//! | UPDATE | WHERE fixes the whole key; values are columns, parameters, literals, integer arithmetic |
//! | DELETE | WHERE fixes the whole key, no RETURNING |
//! | INSERT | one VALUES row of parameters, literals, `now()` |

use std::sync::Arc;
use std::sync::atomic::Ordering;

use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, ScalarValue, internal_err};
use datafusion::logical_expr::{BinaryExpr, Expr, LogicalPlan, Operator};
use resurgam_engine::{Attempt, Change, ColumnType, Datum, DatumRef, RowBuf, Seen, StatementKind, Table};

use crate::bridge::{self, KeyValue};
use crate::params::placeholder_index;
use crate::pg::arrow::{datum_of_scalar, scalar_of_datum};
use crate::pg::datetime::Zone;
use crate::pg::encode::encode_datum;
use crate::pg::errors;
use crate::pg::types;
use crate::planner::{QueryPlan, engine_table};
use crate::session::Session;
use crate::table::KEY_COLUMN;
use crate::wait::Waiting;
use crate::wire::{Format, RowChunk, SqlError};
use crate::write::{Op, WritePlan};

/// Where a value comes from.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    Param(usize),
    Literal(ScalarValue),
}

impl Source {
    fn of(expr: &Expr) -> Option<Self> {
        match expr {
            Expr::Placeholder(p) => placeholder_index(&p.id).map(Self::Param),
            Expr::Literal(value, _) => Some(Self::Literal(value.clone())),
            Expr::Cast(cast) if integer(cast.field.data_type()) => match Self::of(&cast.expr)? {
                // Only integers become integers without a change of meaning.
                Self::Literal(value) if !integer(&value.data_type()) => None,
                found => Some(found),
            },
            Expr::Alias(alias) => Self::of(&alias.expr),
            _ => None,
        }
    }
    fn value<'v>(&'v self, values: &'v [ScalarValue]) -> Option<&'v ScalarValue> {
        match self {
            Self::Param(at) => values.get(*at),
            Self::Literal(value) => Some(value),
        }
    }
}

fn integer(ty: &DataType) -> bool {
    matches!(ty, DataType::Int16 | DataType::Int32 | DataType::Int64)
}

/// A row by its key.
#[derive(Debug)]
pub(crate) struct ByKey {
    table: Arc<Table>,
    /// One source for each primary-key column.
    key: Vec<Source>,
}

impl ByKey {
    /// From the conditions on a table: exactly one equality for each key column.
    fn new(table: Arc<Table>, conditions: &[Expr]) -> Option<Self> {
        if table.primary_key.is_empty() {
            return None;
        }
        let mut key: Vec<Option<Source>> = vec![None; table.primary_key.len()];
        for condition in conditions {
            let Expr::BinaryExpr(BinaryExpr { left, op: Operator::Eq, right }) = condition else { return None };
            let (column, source) = match (column_of(left), column_of(right)) {
                (Some(name), None) => (name, Source::of(right)?),
                (None, Some(name)) => (name, Source::of(left)?),
                _ => return None,
            };
            let at = table.columns.iter().position(|c| c.name == column)?;
            let slot = key.get_mut(table.primary_key.iter().position(|k| *k == at)?)?;
            if slot.replace(source).is_some() {
                return None;
            }
        }
        Some(Self { key: key.into_iter().collect::<Option<Vec<_>>>()?, table })
    }

    /// The encoded key. `Ok(None)`: no row can match. `Err(())`: take the general path.
    fn encode(&self, values: &[ScalarValue]) -> Result<Option<Vec<u8>>, ()> {
        let mut datums = Vec::with_capacity(self.key.len());
        for (source, &column) in self.key.iter().zip(&self.table.primary_key) {
            let value = source.value(values).ok_or(())?;
            match bridge::key_value(value, &self.table.columns[column].ty).map_err(|_| ())? {
                KeyValue::Exact(datum) => datums.push(datum),
                KeyValue::Null | KeyValue::BelowAll | KeyValue::AboveAll => return Ok(None),
                KeyValue::Unknown => return Err(()),
            }
        }
        let datums: Vec<DatumRef<'_>> = datums.iter().map(Datum::as_ref).collect();
        let mut key = Vec::with_capacity(16);
        self.table.encode_key(&datums, &mut key).map_err(|_| ())?;
        Ok(Some(key))
    }
}

/// The column that an expression is, through casts that keep an integer's value.
fn column_of(expr: &Expr) -> Option<&str> {
    match expr {
        Expr::Column(column) => Some(&column.name),
        Expr::Cast(cast) if integer(cast.field.data_type()) => match cast.expr.as_ref() {
            Expr::Column(column) => Some(&column.name),
            _ => None,
        },
        _ => None,
    }
}

fn conjuncts(expr: &Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            conjuncts(left, out);
            conjuncts(right, out);
        }
        // The scan's inexact filters stand in the filter above it as well.
        other => {
            let other = unqualified(other);
            if !out.contains(&other) {
                out.push(other);
            }
        }
    }
}

/// An expression over one table, without qualifiers.
fn unqualified(expr: &Expr) -> Expr {
    expr.clone()
        .transform_up(|e| match e {
            Expr::Column(column) => Ok(Transformed::yes(Expr::Column(Column::new_unqualified(column.name)))),
            other => Ok(Transformed::no(other)),
        })
        .data()
        .unwrap_or_else(|_| expr.clone())
}

/// One table under filters and projections, with the outermost projection's expressions
/// in terms of the table's columns.
struct Shape {
    table: Arc<Table>,
    target: bool,
    conditions: Vec<Expr>,
    exprs: Vec<Expr>,
}

fn shape(plan: &LogicalPlan) -> Option<Shape> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            let (table, target) = engine_table(&scan.source)?;
            if scan.fetch.is_some() {
                return None;
            }
            let mut conditions = Vec::new();
            for filter in &scan.filters {
                conjuncts(filter, &mut conditions);
            }
            let exprs = scan
                .projected_schema
                .fields()
                .iter()
                .map(|field| Expr::Column(Column::new_unqualified(field.name())))
                .collect();
            Some(Shape { table, target, conditions, exprs })
        }
        LogicalPlan::Filter(filter) => {
            let mut below = shape(&filter.input)?;
            let predicate = substitute(&filter.predicate, filter.input.schema(), &below.exprs)?;
            conjuncts(&predicate, &mut below.conditions);
            Some(below)
        }
        LogicalPlan::SubqueryAlias(alias) => shape(&alias.input),
        LogicalPlan::Projection(projection) => {
            let below = shape(&projection.input)?;
            let schema = projection.input.schema();
            let exprs =
                projection.expr.iter().map(|expr| substitute(expr, schema, &below.exprs)).collect::<Option<Vec<_>>>()?;
            Some(Shape { exprs, ..below })
        }
        _ => None,
    }
}

/// `expr` with the columns of `schema` replaced by what produces them.
fn substitute(expr: &Expr, schema: &DFSchema, below: &[Expr]) -> Option<Expr> {
    expr.clone()
        .transform_up(|e| match &e {
            Expr::Column(column) => {
                let at = schema.index_of_column(column)?;
                match below.get(at) {
                    Some(found) => Ok(Transformed::yes(unaliased(found).clone())),
                    None => internal_err!("column out of range"),
                }
            }
            _ => Ok(Transformed::no(e)),
        })
        .data()
        .ok()
}

fn unaliased(expr: &Expr) -> &Expr {
    match expr {
        Expr::Alias(alias) => unaliased(&alias.expr),
        other => other,
    }
}

/// A recognised SELECT.
#[derive(Debug)]
pub(crate) struct Fast {
    by: ByKey,
    columns: Vec<usize>,
}

impl Fast {
    pub(crate) fn select(plan: &QueryPlan) -> Option<Self> {
        let shape = shape(&plan.logical)?;
        if shape.target {
            return None;
        }
        let columns = shape
            .exprs
            .iter()
            .map(|expr| match unaliased(expr) {
                Expr::Column(column) => shape.table.columns.iter().position(|c| c.name == column.name),
                _ => None,
            })
            .collect::<Option<Vec<_>>>()?;
        Some(Self { by: ByKey::new(shape.table, &shape.conditions)?, columns })
    }
}

/// A value of a row that is written.
#[derive(Clone, Debug)]
pub(crate) enum Node {
    Column(usize),
    Value(Source),
    Now,
    /// Integer arithmetic, checked in the width of its type.
    Arithmetic(Operator, Box<Node>, Box<Node>, DataType),
    /// From one integer type to another.
    Integer(Box<Node>, DataType),
}

impl Node {
    fn of(expr: &Expr, table: &Table, params: &[DataType]) -> Option<(Self, DataType)> {
        Some(match expr {
            Expr::Alias(alias) => return Self::of(&alias.expr, table, params),
            Expr::Column(column) => {
                let at = table.columns.iter().position(|c| c.name == column.name)?;
                (Self::Column(at), types::arrow_type(&table.columns[at].ty))
            }
            Expr::Placeholder(p) => {
                let at = placeholder_index(&p.id)?;
                (Self::Value(Source::Param(at)), params.get(at)?.clone())
            }
            Expr::Literal(value, _) => (Self::Value(Source::Literal(value.clone())), value.data_type()),
            Expr::ScalarFunction(f) if f.args.is_empty() && f.name() == "now" => (Self::Now, types::timestamptz()),
            // Integer arithmetic that does not wrap around is a function of its own.
            Expr::ScalarFunction(f) if f.args.len() == 2 => {
                let op = match f.name() {
                    "pg_plus" => Operator::Plus,
                    "pg_minus" => Operator::Minus,
                    "pg_multiply" => Operator::Multiply,
                    _ => return None,
                };
                return Self::arithmetic(op, &f.args[0], &f.args[1], table, params);
            }
            Expr::Cast(cast) => {
                let (inner, ty) = Self::of(&cast.expr, table, params)?;
                let to = cast.field.data_type();
                if !integer(&ty) || !integer(to) {
                    return None;
                }
                (Self::Integer(Box::new(inner), to.clone()), to.clone())
            }
            Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::Plus | Operator::Minus | Operator::Multiply), right }) => {
                return Self::arithmetic(*op, left, right, table, params);
            }
            Expr::Negative(inner) => {
                let (inner, ty) = Self::of(inner, table, params)?;
                if !integer(&ty) {
                    return None;
                }
                let zero = Self::Value(Source::Literal(ScalarValue::new_zero(&ty).ok()?));
                (Self::Arithmetic(Operator::Minus, Box::new(zero), Box::new(inner), ty.clone()), ty)
            }
            _ => return None,
        })
    }

    fn arithmetic(op: Operator, left: &Expr, right: &Expr, table: &Table, params: &[DataType]) -> Option<(Self, DataType)> {
        let (left, lt) = Self::of(left, table, params)?;
        let (right, rt) = Self::of(right, table, params)?;
        // As PostgreSQL: the wider of the two.
        let width = |ty: &DataType| match ty {
            DataType::Int16 => Some(2),
            DataType::Int32 => Some(4),
            DataType::Int64 => Some(8),
            _ => None,
        };
        let ty = if width(&lt)? >= width(&rt)? { lt } else { rt };
        Some((Self::Arithmetic(op, Box::new(left), Box::new(right), ty.clone()), ty))
    }

    /// The value; `None`: take the general path.
    fn eval(&self, row: &[DatumRef<'_>], table: &Table, values: &[ScalarValue], now: i64) -> Option<ScalarValue> {
        match self {
            Self::Column(at) => scalar_of_datum(*row.get(*at)?, &table.columns[*at].ty).ok(),
            Self::Value(source) => source.value(values).cloned(),
            Self::Now => Some(ScalarValue::TimestampMicrosecond(Some(now), Some("UTC".into()))),
            Self::Integer(inner, ty) => {
                let value = inner.eval(row, table, values, now)?;
                if value.is_null() {
                    return ScalarValue::try_from(ty).ok();
                }
                of_i64(as_i64(&value)?, ty)
            }
            Self::Arithmetic(op, left, right, ty) => {
                let (l, r) = (left.eval(row, table, values, now)?, right.eval(row, table, values, now)?);
                if l.is_null() || r.is_null() {
                    return ScalarValue::try_from(ty).ok();
                }
                let (l, r) = (as_i64(&l)?, as_i64(&r)?);
                let result = match op {
                    Operator::Plus => l.checked_add(r),
                    Operator::Minus => l.checked_sub(r),
                    _ => l.checked_mul(r),
                }?;
                of_i64(result, ty)
            }
        }
    }
}

fn as_i64(value: &ScalarValue) -> Option<i64> {
    match value {
        ScalarValue::Int16(Some(v)) => Some(i64::from(*v)),
        ScalarValue::Int32(Some(v)) => Some(i64::from(*v)),
        ScalarValue::Int64(Some(v)) => Some(*v),
        _ => None,
    }
}

fn of_i64(value: i64, ty: &DataType) -> Option<ScalarValue> {
    Some(match ty {
        DataType::Int16 => ScalarValue::Int16(Some(i16::try_from(value).ok()?)),
        DataType::Int32 => ScalarValue::Int32(Some(i32::try_from(value).ok()?)),
        DataType::Int64 => ScalarValue::Int64(Some(value)),
        _ => return None,
    })
}

/// A recognised INSERT, UPDATE or DELETE.
#[derive(Debug)]
pub(crate) enum FastWrite {
    Insert(Vec<Node>),
    /// For each column its new value; `None` keeps it.
    Update(ByKey, Vec<Option<Node>>),
    Delete(ByKey),
}

impl FastWrite {
    pub(crate) fn new(plan: &WritePlan) -> Option<Self> {
        if plan.returning.is_some() || plan.conflict.is_some() {
            return None;
        }
        let params = &plan.source.params;
        match plan.op {
            Op::Insert => Self::insert(plan),
            Op::Update | Op::Delete => {
                let shape = shape(&plan.source.logical)?;
                if !shape.target || shape.table.id != plan.table.id {
                    return None;
                }
                let (last, exprs) = shape.exprs.split_last()?;
                if !matches!(unaliased(last), Expr::Column(c) if c.name == KEY_COLUMN) {
                    return None;
                }
                let table = Arc::clone(&shape.table);
                let by = ByKey::new(shape.table, &shape.conditions)?;
                if plan.op == Op::Delete {
                    return Some(Self::Delete(by));
                }
                if exprs.len() != table.columns.len() {
                    return None;
                }
                let mut new = Vec::with_capacity(exprs.len());
                for (at, expr) in exprs.iter().enumerate() {
                    new.push(match unaliased(expr) {
                        Expr::Column(c) if c.name == table.columns[at].name => None,
                        other => Some(Node::of(other, &table, params)?.0),
                    });
                }
                Some(Self::Update(by, new))
            }
        }
    }

    fn insert(plan: &WritePlan) -> Option<Self> {
        let (row, _) = one_row(&plan.source.logical)?;
        let mut nodes = Vec::with_capacity(row.len());
        for expr in &row {
            let node = Node::of(expr, &plan.table, &plan.source.params)?.0;
            if matches!(node, Node::Column(_)) {
                return None;
            }
            nodes.push(node);
        }
        (nodes.len() == plan.table.columns.len()).then_some(Self::Insert(nodes))
    }
}

/// The expressions of a plan that yields exactly one row without reading a table.
fn one_row(plan: &LogicalPlan) -> Option<(Vec<Expr>, DFSchemaRef)> {
    match plan {
        LogicalPlan::Values(values) => {
            let [row] = values.values.as_slice() else { return None };
            Some((row.clone(), Arc::clone(&values.schema)))
        }
        LogicalPlan::EmptyRelation(empty) if empty.produce_one_row => Some((Vec::new(), Arc::clone(&empty.schema))),
        LogicalPlan::Projection(projection) => {
            let (below, schema) = one_row(&projection.input)?;
            let exprs = projection.expr.iter().map(|e| substitute(e, &schema, &below)).collect::<Option<Vec<_>>>()?;
            Some((exprs, Arc::clone(&projection.schema)))
        }
        LogicalPlan::SubqueryAlias(alias) => {
            let (row, _) = one_row(&alias.input)?;
            Some((row, Arc::clone(&alias.schema)))
        }
        _ => None,
    }
}

fn format_at(formats: &[Format], at: usize) -> Format {
    match formats {
        [] => Format::Text,
        [one] => *one,
        many => many.get(at).copied().unwrap_or(Format::Text),
    }
}

/// A value as a datum of a column; `None` where the general path must speak.
fn assign(value: &ScalarValue, ty: &ColumnType, zone: &Zone) -> Option<Datum> {
    datum_of_scalar(value, ty, zone).ok()
}

/// An engine error about a row, as the user sees it.
fn row_error(error: resurgam_base::Error, table: &Table, row: &[DatumRef<'_>]) -> SqlError {
    errors::from_datafusion(bridge::row_error(error, table, row), "")
}

impl Session {
    /// Runs a recognised SELECT; `None`: take the general path.
    pub(crate) fn fast_select(
        &mut self,
        fast: &Fast,
        values: &[ScalarValue],
        formats: &[Format],
        _schema: &Schema,
    ) -> Result<Option<RowChunk>, SqlError> {
        let Ok(key) = fast.by.encode(values) else { return Ok(None) };
        let mut chunk = RowChunk { fields: fast.columns.len() as i16, ..RowChunk::default() };
        let zone = self.shared.variables.lock().zone;
        let open = self.transaction();
        open.used = true;
        let view = open.txn.statement(StatementKind::Read)?;
        let Some(key) = key else { return Ok(Some(chunk)) };
        let table = &fast.by.table;
        let mut row = RowBuf::default();
        if !view.get(table, &key, &mut row)? {
            return Ok(Some(chunk));
        }
        for (at, &column) in fast.columns.iter().enumerate() {
            let ty = &table.columns[column].ty;
            let format = format_at(formats, at);
            match table.column(row.raw(), column)? {
                DatumRef::External(reference) => {
                    let value = bridge::external(&view, reference).map_err(|e| errors::from_datafusion(e, ""))?;
                    encode_datum(value.as_ref(), ty, format, &zone, &mut chunk.bytes)?;
                }
                datum => encode_datum(datum, ty, format, &zone, &mut chunk.bytes)?,
            }
        }
        chunk.ends.push(chunk.bytes.len() as u32);
        Ok(Some(chunk))
    }

    /// Runs a recognised write; `None`: take the general path, nothing was done.
    pub(crate) async fn fast_write(
        &mut self,
        fast: &FastWrite,
        plan: &WritePlan,
        values: &[ScalarValue],
    ) -> Result<Option<u64>, SqlError> {
        let (zone, lock_timeout) = {
            let variables = self.shared.variables.lock();
            (variables.zone, variables.lock_timeout)
        };
        let stop = Arc::clone(&self.shared.stop);
        let waiting = Waiting { stop: &stop, lock_timeout };
        let open = self.transaction();
        open.used = true;
        let txn = open.txn.clone();
        let now = self.shared.transaction_start.load(Ordering::Relaxed);
        let table = &plan.table;
        match fast {
            FastWrite::Insert(nodes) => {
                let mut datums = Vec::with_capacity(nodes.len());
                for (node, column) in nodes.iter().zip(&table.columns) {
                    let Some(value) = node.eval(&[], table, values, now) else { return Ok(None) };
                    let Some(datum) = assign(&value, &column.ty, &zone) else { return Ok(None) };
                    datums.push(datum);
                }
                txn.statement(StatementKind::PointWrite)?;
                let row: Vec<DatumRef<'_>> = datums.iter().map(Datum::as_ref).collect();
                loop {
                    match txn.insert(table, &row) {
                        Ok(Attempt::Done(())) => return Ok(Some(1)),
                        Ok(Attempt::Wait(wait)) => waiting.wait(wait).await?,
                        Err(error) => return Err(row_error(error, table, &row)),
                    }
                }
            }
            FastWrite::Update(by, new) => {
                let Ok(key) = by.encode(values) else { return Ok(None) };
                let view = txn.statement(StatementKind::PointWrite)?;
                let Some(key) = key else { return Ok(Some(0)) };
                let mut row = RowBuf::default();
                if !view.get(table, &key, &mut row)? {
                    return Ok(Some(0));
                }
                drop(view);
                let mut seen = Seen::Snapshot;
                loop {
                    let wait = {
                        let old: Vec<DatumRef<'_>> =
                            (0..table.columns.len()).map(|i| table.column(row.raw(), i)).collect::<Result<_, _>>()?;
                        let mut made: Vec<Option<Datum>> = Vec::with_capacity(new.len());
                        for (node, column) in new.iter().zip(&table.columns) {
                            made.push(match node {
                                None => None,
                                Some(node) => {
                                    let value = node.eval(&old, table, values, now);
                                    let Some(datum) = value.and_then(|value| assign(&value, &column.ty, &zone)) else {
                                        return Ok(None);
                                    };
                                    Some(datum)
                                }
                            });
                        }
                        let datums: Vec<DatumRef<'_>> =
                            old.iter().zip(&made).map(|(old, new)| new.as_ref().map_or(*old, Datum::as_ref)).collect();
                        match txn.update(table, &key, seen, &datums) {
                            Ok(Attempt::Done(Change::Done)) => return Ok(Some(1)),
                            Ok(Attempt::Done(Change::Gone | Change::SelfModified)) => return Ok(Some(0)),
                            Ok(Attempt::Done(Change::Changed)) => None,
                            Ok(Attempt::Wait(wait)) => Some(wait),
                            Err(error) => return Err(row_error(error, table, &datums)),
                        }
                    };
                    match wait {
                        Some(wait) => waiting.wait(wait).await?,
                        None => match txn.latest(table, &key, &mut row)? {
                            Some(version) => seen = version,
                            None => return Ok(Some(0)),
                        },
                    }
                }
            }
            FastWrite::Delete(by) => {
                let Ok(key) = by.encode(values) else { return Ok(None) };
                txn.statement(StatementKind::PointWrite)?;
                let Some(key) = key else { return Ok(Some(0)) };
                let mut seen = Seen::Snapshot;
                let mut row = RowBuf::default();
                loop {
                    match txn.delete(table, &key, seen)? {
                        Attempt::Done(Change::Done) => return Ok(Some(1)),
                        Attempt::Done(Change::Gone | Change::SelfModified) => return Ok(Some(0)),
                        Attempt::Done(Change::Changed) => match txn.latest(table, &key, &mut row)? {
                            Some(version) => seen = version,
                            None => return Ok(Some(0)),
                        },
                        Attempt::Wait(wait) => waiting.wait(wait).await?,
                    }
                }
            }
        }
    }
}
