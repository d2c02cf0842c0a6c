//! Typed expressions and relations.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Column as PlanColumn, ScalarValue};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::sql::sqlparser::tokenizer::Span;

use super::{Analyzed, OutputColumn};
use crate::pg::types::{self, oid};

/// A PostgreSQL type with its modifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Type {
    pub oid: u32,
    /// -1 for none.
    pub typmod: i32,
}

impl Type {
    pub(crate) const fn of(oid: u32) -> Self {
        Self { oid, typmod: -1 }
    }
    pub(crate) const UNKNOWN: Self = Self::of(oid::UNKNOWN);
    pub(crate) const BOOL: Self = Self::of(oid::BOOL);
    pub(crate) const INT4: Self = Self::of(oid::INT4);
    pub(crate) const INT8: Self = Self::of(oid::INT8);
    pub(crate) const TEXT: Self = Self::of(oid::TEXT);

    pub(crate) fn is_unknown(self) -> bool {
        self.oid == oid::UNKNOWN
    }

    /// As SQL writes it, without its modifier.
    pub(crate) fn name(self) -> String {
        types::format_type(self.oid, None)
    }

    /// The Arrow type in which values are computed; text for what is not known.
    pub(crate) fn data(self) -> DataType {
        types::arrow_type_of_oid(self.oid, self.typmod).unwrap_or(types::TEXT)
    }

    /// A field that says the type.
    pub(crate) fn field(self, name: &str, data: &DataType) -> Field {
        let field = Field::new(name, data.clone(), true);
        if types::arrow_oid(data) == self.oid && self.typmod < 0 {
            field
        } else {
            types::with_pg_type(field, self.oid, self.typmod)
        }
    }
}

/// The column of a table, or of a view, that a value is as it is: what clients are told (`RowDescription`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    /// As `pg_class` has it.
    pub relation: u32,
    /// Counted from 1.
    pub number: i16,
    ty: Type,
}

/// An expression with its type.
#[derive(Clone, Debug)]
pub(crate) struct Bound {
    pub expr: Expr,
    pub ty: Type,
    /// Arrow type of `expr`; numeric has several forms, other types one each.
    pub data: DataType,
    pub span: Span,
    /// Of the column that it was made from; see [`Bound::as_it_is`].
    pub origin: Option<Origin>,
    /// The collation that COLLATE has given it.
    pub collation: Option<&'static str>,
}

impl Bound {
    /// An expression of the one Arrow form of a type.
    pub(crate) fn new(expr: Expr, ty: Type) -> Self {
        Self { expr, ty, data: ty.data(), span: Span::empty(), origin: None, collation: None }
    }
    pub(crate) fn with_data(expr: Expr, ty: Type, data: DataType) -> Self {
        Self { expr, ty, data, span: Span::empty(), origin: None, collation: None }
    }
    /// The column that it is, if nothing has been done with it.
    pub(crate) fn as_it_is(&self) -> Option<Origin> {
        self.origin.filter(|origin| origin.ty == self.ty && matches!(self.expr, Expr::Column(_)))
    }
    pub(crate) fn at(mut self, span: Span) -> Self {
        self.span = span;
        self
    }
    pub(crate) fn literal(value: ScalarValue, ty: Type) -> Self {
        let data = value.data_type();
        Self { expr: Expr::Literal(value, None), ty, data, span: Span::empty(), origin: None, collation: None }
    }
    /// The text of a literal that has no type yet.
    pub(crate) fn untyped_text(&self) -> Option<&str> {
        match &self.expr {
            Expr::Literal(ScalarValue::Utf8View(Some(text)), _) if self.ty.is_unknown() => Some(text),
            _ => None,
        }
    }
    /// A literal NULL.
    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.expr, Expr::Literal(value, _) if value.is_null())
    }
    /// The number of an integer constant, as `ORDER BY 2` has it.
    pub(crate) fn integer(&self) -> Option<i64> {
        match &self.expr {
            Expr::Literal(ScalarValue::Int32(Some(v)), _) => Some(i64::from(*v)),
            Expr::Literal(ScalarValue::Int64(Some(v)), _) => Some(*v),
            _ => None,
        }
    }
    /// A nullable field that says its type.
    pub(crate) fn field(&self) -> FieldRef {
        Arc::new(self.ty.field("", &self.data))
    }
}

/// A column that a name can mean.
#[derive(Clone, Debug)]
pub(crate) struct Column {
    /// The name that SQL has for it.
    pub name: String,
    pub bound: Bound,
}

/// A bound query: a plan and its columns, in order.
#[derive(Clone, Debug)]
pub(crate) struct Relation {
    pub plan: LogicalPlan,
    pub columns: Vec<Column>,
}

impl Relation {
    /// The columns of a plan, one for one.
    pub(crate) fn of_plan(plan: LogicalPlan, columns: impl IntoIterator<Item = (String, Type)>) -> Self {
        let columns = columns
            .into_iter()
            .enumerate()
            .map(|(at, (name, ty))| {
                let (qualifier, field) = plan.schema().qualified_field(at);
                let expr = Expr::Column(PlanColumn::from((qualifier, field)));
                Column { name, bound: Bound::with_data(expr, ty, field.data_type().clone()) }
            })
            .collect();
        Self { plan, columns }
    }

    /// The columns are those of that relation, one for one.
    pub(crate) fn note_origin(&mut self, relation: u32) {
        note_origin(&mut self.columns, relation);
    }

    pub(crate) fn into_analyzed(self) -> Analyzed {
        let output =
            |c: Column| OutputColumn { ty: c.bound.ty, origin: c.bound.as_it_is(), name: c.name, collation: 0 };
        let columns = self.columns.into_iter().map(output).collect();
        Analyzed {
            plan: self.plan,
            columns,
            locks: Vec::new(),
            once: Default::default(),
            needs: Default::default(),
            keys: Vec::new(),
        }
    }
}

/// The columns are those of that relation, one for one.
pub(crate) fn note_origin(columns: &mut [Column], relation: u32) {
    for (at, column) in columns.iter_mut().enumerate() {
        let ty = column.bound.ty;
        column.bound.origin = i16::try_from(at + 1).ok().map(|number| Origin { relation, number, ty });
    }
}
