//! Plans of queries with locking clauses, apart from the statement that they stand in.

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;

use crate::pg::errors;
use crate::plan::analyze::Locking;
use crate::plan::locking::{Count, Locked};
use crate::plan::planner::{Names, QueryPlan};
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

/// A query that locks rows.
#[derive(Debug)]
pub(crate) struct LockPlan {
    /// The query without LIMIT: its columns, then the key of each of `tables`.
    pub(super) source: QueryPlan,
    /// What is kept of its rows: its columns, `c0` and so on, and the keys, if they are wanted.
    pub(super) schema: SchemaRef,
    pub(super) keyed: bool,
    pub(super) tables: Vec<Locked>,
    pub(super) limit: Option<Count>,
    pub(super) offset: Option<Count>,
}

impl LockPlan {
    /// Of an analysed query; `params` are all known.
    ///
    /// # Errors
    /// Those of planning it.
    pub(crate) fn new(names: &Names<'_>, query: Locking, params: &ParamTypes, text: &str) -> Result<Self, SqlError> {
        let Locking { plan, schema, tables, limit, offset, keyed } = query;
        let source = QueryPlan::new(names.state, plan, params.data_types())
            .map_err(|error| errors::from_datafusion(error, text))?;
        let same = schema.fields().iter().zip(source.schema.fields()).all(|(a, b)| a.data_type() == b.data_type());
        if !same {
            return Err(SqlError::internal("locked rows of other types than analysed"));
        }
        Ok(Self { source, schema, keyed, tables, limit, offset })
    }

    /// The plan of the query without its locks, for EXPLAIN.
    pub(crate) fn source(&self) -> &QueryPlan {
        &self.source
    }
}

/// A value as a number of rows; NULL is none.
pub(super) fn count_of(value: &ScalarValue) -> Result<Option<i64>, SqlError> {
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(count)) => Ok(count),
        _ => Err(SqlError::new("42804", "argument of LIMIT must be type bigint")),
    }
}
