//! CREATE TABLE (LIKE t …): what is taken from the other table, as elements of the statement.
//!
//! As in PostgreSQL the columns come with their types and NOT NULL, and what INCLUDING names with them; nothing ties the
//! tables to each other afterwards. Names of indexes and of keys are made anew, those of CHECK constraints are kept.

use datafusion::sql::sqlparser::ast::{
    ColumnOption, CreateTable, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Statement, Value,
};
use resurgam_engine::{ColumnOrder, Declared, Identity, Table, Transaction};

use super::name_of;
use crate::parse::like::LIKE;
use crate::parse::read::parse_known;
use crate::pg::catalog::{declared, deferral_clause};
use crate::pg::collation;
use crate::pg::functions::quote_ident;
use crate::pg::types::{column_oid, column_typmod, format_type};
use crate::plan::lookup::Lookup;
use crate::wire::SqlError;

/// What INCLUDING and EXCLUDING ask for.
#[derive(Default)]
struct Including {
    comments: bool,
    constraints: bool,
    defaults: bool,
    generated: bool,
    identity: bool,
    indexes: bool,
}

impl Including {
    fn read(options: &str) -> Result<Self, SqlError> {
        let mut including = Self::default();
        let mut words = options.split_whitespace();
        while let (Some(how), Some(what)) = (words.next(), words.next()) {
            let on = how == "including";
            match what {
                "comments" => including.comments = on,
                "constraints" => including.constraints = on,
                "defaults" => including.defaults = on,
                "generated" => including.generated = on,
                "identity" => including.identity = on,
                "indexes" => including.indexes = on,
                // There is nothing of the kind that could be taken.
                "compression" | "statistics" | "storage" => {}
                "all" => {
                    including =
                        Self { comments: on, constraints: on, defaults: on, generated: on, identity: on, indexes: on };
                }
                other => return Err(SqlError::syntax(format!("syntax error at or near \"{other}\""))),
            }
        }
        Ok(including)
    }
}

/// A plain index; columns by name.
pub(super) struct Index {
    pub columns: Vec<String>,
    pub included: Vec<String>,
    pub orders: Vec<ColumnOrder>,
    pub declared: Vec<Declared>,
    pub unique: bool,
    pub nulls_alike: bool,
}

/// What is made of a table beside its columns and constraints.
#[derive(Default)]
pub(super) struct Taken {
    pub indexes: Vec<Index>,
    /// Comments of columns, by name.
    pub comments: Vec<(String, String)>,
}

/// The arguments of the call that stands for LIKE, if the column is one.
fn arguments(column: &super::ColumnDef) -> Option<(String, String)> {
    if column.name.value != LIKE {
        return None;
    }
    let ColumnOption::Default(Expr::Function(call)) = &column.options.first()?.option else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    let text = |at: usize| match list.args.get(at)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(value))) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    };
    Some((text(0)?, text(1)?))
}

/// The clause of an identity column, whose sequence is like that of the column at that position.
fn identity(txn: &Transaction, table: &Table, at: usize) -> Result<String, SqlError> {
    let part = table.owned.iter().find(|owned| owned.column == at && owned.identity != Identity::No);
    let entry = part.map(|part| txn.sequence_by_id(part.sequence)).transpose()?.flatten();
    let Some(of) = entry.as_ref().and_then(|entry| entry.sequence.as_deref()) else {
        return Err(SqlError::internal("an identity column without its sequence"));
    };
    let generated = if table.identity(at) == Identity::Always { "ALWAYS" } else { "BY DEFAULT" };
    let cycle = if of.cycle { "CYCLE" } else { "NO CYCLE" };
    Ok(format!(
        " GENERATED {generated} AS IDENTITY (INCREMENT BY {} MINVALUE {} MAXVALUE {} START WITH {} CACHE {} {cycle})",
        of.increment, of.min, of.max, of.start, of.cache
    ))
}

/// The elements of a definition that are the other table's.
///
/// # Errors
/// `0A000` for an index on an expression or with a predicate.
fn elements(
    txn: &Transaction,
    table: &Table,
    including: &Including,
    taken: &mut Taken,
) -> Result<Vec<String>, SqlError> {
    let quoted = |at: &usize| quote_ident(&table.columns[*at].name);
    let list = |columns: &[usize]| columns.iter().map(quoted).collect::<Vec<_>>().join(", ");
    let mut out = Vec::new();
    for (at, column) in table.columns.iter().enumerate().filter(|(_, column)| !column.is_hidden()) {
        let ty = match table.domain(at) {
            Some(domain) => format_type(domain, None),
            None => format_type(column_oid(&column.ty), Some(column_typmod(&column.ty))),
        };
        let mut text = format!("{} {ty}", quote_ident(&column.name));
        if let Some(name) = table.collation(at).and_then(collation::name_of) {
            text.push_str(&format!(" COLLATE {}", quote_ident(name)));
        }
        if !column.nullable {
            text.push_str(" NOT NULL");
        }
        match (table.generated(at), &column.default_sql) {
            (Some(generated), _) if including.generated => {
                text.push_str(&format!(" GENERATED ALWAYS AS ({}) STORED", generated.sql));
            }
            (None, _) if including.identity && table.identity(at) != Identity::No => {
                text.push_str(&identity(txn, table, at)?);
            }
            // The values of an identity column are of its own sequence.
            (None, Some(default)) if including.defaults && table.identity(at) == Identity::No => {
                text.push_str(&format!(" DEFAULT {default}"))
            }
            _ => {}
        }
        out.push(text);
    }
    if including.constraints {
        for check in &table.checks {
            out.push(format!("CONSTRAINT {} CHECK ({})", quote_ident(&check.name), check.sql));
        }
    }
    let include = |index: Option<u32>| match table.included(index) {
        [] => String::new(),
        columns => format!(" INCLUDE ({})", list(columns)),
    };
    if including.indexes {
        if !table.primary_key.is_empty() {
            out.push(format!("PRIMARY KEY ({}){}", list(&table.primary_key), include(None)));
        }
        for index in &table.indexes {
            if index.columns.iter().any(|at| table.columns[*at].is_hidden()) {
                let text = "LIKE INCLUDING INDEXES of an index on an expression or with a predicate is not supported";
                return Err(SqlError::unsupported(text));
            }
            match index.constraint {
                true => {
                    let nulls = if index.nulls_alike { "NULLS NOT DISTINCT " } else { "" };
                    let (columns, include) = (list(&index.columns), include(Some(index.id)));
                    let deferral = deferral_clause(index.deferral);
                    out.push(format!("UNIQUE {nulls}({columns}){include}{deferral}"));
                }
                false => {
                    let names = |of: &[usize]| of.iter().map(|at| table.columns[*at].name.clone()).collect();
                    taken.indexes.push(Index {
                        columns: names(&index.columns),
                        included: names(table.included(Some(index.id))),
                        orders: index.orders.clone(),
                        declared: declared(table, index),
                        unique: index.unique,
                        nulls_alike: index.nulls_alike,
                    });
                }
            }
        }
    }
    if including.comments {
        for (at, column) in table.columns.iter().enumerate() {
            taken.comments.extend(table.comment_on_column(at).map(|text| (column.name.clone(), text.to_owned())));
        }
    }
    Ok(out)
}

/// Puts what they stand for in the place of LIKE clauses. `may_read`: whether that may be read which is copied.
///
/// # Errors
/// `42P01`, `42809`, `42601`, and those of `may_read`.
pub(super) fn expand(
    lookup: &Lookup<'_>,
    create: &mut CreateTable,
    may_read: &dyn Fn(&Table) -> Result<(), SqlError>,
) -> Result<Taken, SqlError> {
    let txn = lookup.txn;
    let mut taken = Taken::default();
    if !create.columns.iter().any(|column| column.name.value == LIKE) {
        return Ok(taken);
    }
    let mut columns = Vec::new();
    for column in std::mem::take(&mut create.columns) {
        let Some((name, options)) = arguments(&column) else {
            columns.push(column);
            continue;
        };
        let including = Including::read(&options)?;
        let Some(Statement::CreateTable(named)) = parse_known(&format!("CREATE TABLE {name} (a int)"))?.pop() else {
            return Err(SqlError::syntax(format!("syntax error at or near \"{name}\"")));
        };
        let (schema, wanted) = lookup.place(&named.name)?;
        let elements = match txn.view_named(&schema, &wanted)? {
            Some(view) => {
                may_read(&view)?;
                let columns = view.view.iter().flat_map(|view| &view.columns);
                let text = |column: &resurgam_engine::ViewColumn| {
                    format!("{} {}", quote_ident(&column.name), format_type(column.oid, Some(column.typmod)))
                };
                columns.map(text).collect()
            }
            None => {
                let table = lookup.table(&named.name)?;
                may_read(&table)?;
                elements(txn, &table, &including, &mut taken)?
            }
        };
        if elements.is_empty() {
            continue;
        }
        let text = format!("CREATE TABLE x ({})", elements.join(", "));
        match parse_known(&text)?.pop() {
            Some(Statement::CreateTable(like)) => {
                columns.extend(like.columns);
                create.constraints.extend(like.constraints);
            }
            _ => return Err(SqlError::internal("a table that cannot be written as a statement")),
        }
    }
    // Columns of one name are told of with both their names.
    for (at, column) in columns.iter().enumerate() {
        if columns[..at].iter().any(|before| name_of(&before.name) == name_of(&column.name)) {
            let name = name_of(&column.name);
            return Err(SqlError::new("42701", format!("column \"{name}\" specified more than once")));
        }
    }
    create.columns = columns;
    Ok(taken)
}
