//! Analysis: from syntax to a typed logical plan, by PostgreSQL's rules.
//!
//! Names, operators, functions and casts are resolved here, once: what leaves this module is a
//! DataFusion [`LogicalPlan`] in which every cast is written out, every relation has a qualifier of
//! its own, and every column has a PostgreSQL type. DataFusion's own coercion finds nothing left to do.
//! The order of work is that of PostgreSQL's `transformSelectStmt` (parser/analyze.c), because it decides
//! which of several errors a statement gets.
//!
//! | file | concept | in PostgreSQL |
//! |---|---|---|
//! | `bound` | a typed expression; what analysis ends with | nodes with `exprType` |
//! | `scope` | which columns a name can mean | parse_relation.c |
//! | `similar` | which column a name may have been meant for | parse_relation.c (`errorMissingColumn`) |
//! | `from`, `function_item` | FROM items and joins; functions there | parse_clause.c |
//! | `select`, `group`, `sort`, `sets` | one SELECT; its groups; ORDER BY and DISTINCT; functions that return sets | analyze.c, parse_agg.c, parse_clause.c |
//! | `query` | WITH, set operations, VALUES, LIMIT | analyze.c, parse_cte.c |
//! | `once` | WITH queries that are computed once, and those that write | parse_cte.c, planner's subselect.c |
//! | `expr`, `chain`, `literal`, `condition` | expressions; long chains of operators; constants; comparisons, CASE, IN | parse_expr.c |
//! | `coerce` | casts | parse_coerce.c |
//! | `collate` | collations, and what is ordered by one of ICU | parse_collate.c |
//! | `citext` | texts that are compared without case | contrib/citext |
//! | `days` | dates compared with timestamps | date.c (`date_cmp_timestamp_internal`) |
//! | `operator`, `function`, `aggregate`, `window`, `frame` | what a resolved operator or function is computed by | pg_operator, pg_proc |
//! | `json` | functions and aggregates that make JSON | json.c |
//! | `json_record` | functions of documents that return records | jsonfuncs.c |
//! | `enums` | functions of enumerated types | enum.c |
//! | `domains` | casts to domains, and their defaults | domains.c |
//! | `write`, `insert`, `update` | INSERT, UPDATE, DELETE: targets, assignments, ON CONFLICT, RETURNING | analyze.c, parse_target.c |
//! | `stored` | expressions of indexes in conditions | indxpath.c |
//! | `through_view` | writing through views | rewriteHandler.c |
//! | `user_function`, `user_args`, `user_result` | calls of functions that users made; arguments as bodies see them; what bodies give | clauses.c (`inline_function`) |
//! | `user_made` | bodies that are being made | functions.c (`check_sql_fn_retval`) |
//! | `view` | views, and what the names of their queries mean | rewriteHandler.c |
//! | `lock` | queries with FOR UPDATE and its kin | analyze.c |
//! | `record` | rows as values | parse_expr.c |
//! | `access` | what a statement needs to be allowed to do | parse_relation.c (`markVarForSelectPriv`) |
//! | `row` | expressions of definitions, arguments of EXECUTE | heap.c, tablecmds.c, prepare.c |
//! | `row_security` | which rows policies let a statement see and write | rowsecurity.c |
//!
//! Invariants:
//! 1. The Arrow type of a [`Bound`]'s expression is a form of its PostgreSQL type (`bound::Bound::data`).
//! 2. Qualifiers of FROM items are unique in a statement, so that a reference to an outer query's
//!    column names its level by itself.
//! 3. Fields are nullable: nothing downstream may rely on a promise that SQL does not make.

mod access;
mod aggregate;
mod blanks;
mod bound;
mod chain;
mod citext;
mod coerce;
mod collate;
mod condition;
mod days;
mod domains;
mod element;
mod elsewhere;
mod enums;
mod expr;
mod frame;
mod from;
mod function;
mod function_item;
mod group;
mod heavy;
mod identity;
mod insert;
mod json;
mod json_record;
mod like;
mod literal;
mod lock;
mod merge;
mod mutable;
mod once;
mod operator;
mod ordered_set;
mod query;
mod record;
mod row;
mod row_keys;
mod row_security;
mod sample;
mod scope;
mod select;
mod sequence;
mod sets;
mod similar;
mod sort;
mod spliced;
mod stored;
mod through_view;
mod ties;
mod update;
mod user_args;
mod user_function;
mod user_made;
mod user_result;
mod view;
mod window;
mod write;

use std::collections::{HashMap, HashSet};

use datafusion::common::{DataFusionError, TableReference};
use datafusion::logical_expr::LogicalPlan;
use datafusion::sql::sqlparser::ast;
use datafusion::sql::sqlparser::tokenizer::Span;

use crate::parse::depth::{STEPS_MAX, too_deep};
use crate::pg::search_path::SearchPath;
use crate::pg::{errors, running};
use crate::plan::lookup::Lookup;
use crate::plan::planner::Names;
use crate::plan::statement::ParamTypes;
use crate::wire::SqlError;

pub(crate) use bound::{Origin, Type};
pub(crate) use collate::{UNDETERMINED, says_any};
pub(crate) use domains::{check_domain_condition, check_domain_default, parameter_of_domain};
pub(crate) use heavy::is_heavy;
pub(crate) use lock::Locking;
pub(crate) use merge::{Does, Merged, When};
pub(crate) use once::{OnceDone, OnceQueries, OnceQuery};
pub(crate) use row::{OverRow, Place, argument, condition_over_row, is_assignable, over_row, over_row_in};
pub(crate) use row_keys::RowKey;
pub(crate) use row_security::{RowRule, UpsertRules};
use scope::Scope;
pub(crate) use scope::is_system_column;
pub(crate) use user_function::{call_alone, statements_of};
pub(crate) use user_made::{check_body, check_param_default, standard_body};
pub(crate) use user_result::result_columns;
pub(crate) use view::{Seen, output_types, query_of_view, view_query};
pub(crate) use write::{List, OnConflict, Op, Write};

/// Why there is no plan.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// The statement is wrong.
    Error(Box<SqlError>),
    /// It has something that analysis does not know.
    Unknown(String),
}

impl From<SqlError> for Refusal {
    fn from(error: SqlError) -> Self {
        Self::Error(Box::new(error))
    }
}

impl From<DataFusionError> for Refusal {
    fn from(error: DataFusionError) -> Self {
        match errors::from_datafusion(error, "") {
            // What DataFusion refuses to build is a shape that is not known here yet.
            error if matches!(error.sqlstate.as_str(), "XX000" | "0A000" | "42601" | "42703" | "42883") => {
                Self::Unknown(error.into_fields().message)
            }
            error => Self::Error(Box::new(error)),
        }
    }
}

impl Refusal {
    /// What is not known is not supported.
    pub(crate) fn into_error(self) -> SqlError {
        match self {
            Self::Error(error) => *error,
            Self::Unknown(what) => {
                let is_sentence = what.ends_with("supported");
                SqlError::unsupported(if is_sentence { what } else { format!("{what} is not supported") })
            }
        }
    }
}

pub(crate) type Result<T, E = Refusal> = std::result::Result<T, E>;

/// Something that analysis does not know.
pub(crate) fn unknown<T>(what: impl Into<String>) -> Result<T> {
    Err(Refusal::Unknown(what.into()))
}

/// One column of a result.
#[derive(Clone, Debug)]
pub(crate) struct OutputColumn {
    /// As the client sees it.
    pub name: String,
    pub ty: Type,
    /// The column of a relation that it is.
    pub origin: Option<bound::Origin>,
    /// Its collation, where one of ICU was met in the statement; 0: that of its type; or [`UNDETERMINED`].
    pub collation: u32,
}

/// An analysed query.
#[derive(Debug)]
pub(crate) struct Analyzed {
    pub plan: LogicalPlan,
    pub columns: Vec<OutputColumn>,
    /// Queries of it that lock their rows, and are run before it in this order.
    pub locks: Vec<Locking>,
    /// WITH queries that are computed once.
    pub once: OnceQueries,
    /// What whoever runs it has to be allowed.
    pub needs: crate::plan::needs::Needs,
    /// Of a cursor: tables whose rows' keys come behind the columns; see `row_keys.rs`.
    pub keys: Vec<RowKey>,
}

/// The analysis of one statement.
pub(crate) struct Analyzer<'a> {
    names: &'a Names<'a>,
    /// The statement, for positions; empty if there is none.
    text: &'a str,
    params: &'a mut ParamTypes,
    /// Qualifiers that are taken.
    qualifiers: HashSet<String>,
    /// Windows that the SELECTs around name, innermost last.
    windows: Vec<Vec<ast::NamedWindowDefinition>>,
    /// Queries that lock rows, as they were met.
    locks: Vec<Locking>,
    /// The clauses in which the subqueries around stand, innermost last.
    within: Vec<expr::Clause>,
    sets: sets::SetsSeen,
    /// Aggregates of subqueries that belong to a query further out, which has not come to its groups yet.
    outer_aggregates: Vec<aggregate::OuterAggregate>,
    /// Names of the columns of subqueries that are values, by the place of their syntax in memory.
    subqueries: HashMap<usize, String>,
    /// Subqueries that are values in the select list that is analysed, by their text: one that is written the same in GROUP
    /// BY is the same, as any other expression is.
    listed: Vec<(String, bound::Bound)>,
    /// A function is being computed as a cast or an operator.
    elsewhere: bool,
    views: view::Views,
    calls: user_function::Calls,
    sought: access::Sought,
    once: once::OnceSeen,
    /// The target of the INSERT whose RETURNING is analysed: it has an `xmax`.
    returned: Option<TableReference>,
    /// That of the INSERT whose rows are analysed: they do not see it, but a hint may name it.
    unseen_target: Option<similar::Unseen>,
    /// The locking query that comes next keeps the keys of its rows.
    keeps_keys: bool,
    /// What is analysed is kept in a definition: names are of `public`, or have their schemas.
    stored: bool,
    /// It depends on more than its row; see `mutable.rs`.
    is_mutable: bool,
    collations: collate::Collations,
    /// A parameter without a type that is read now becomes one of this domain; 0: of none.
    reads_domain: u32,
    depth: usize,
}

impl<'a> Analyzer<'a> {
    pub(crate) fn new(names: &'a Names<'a>, text: &'a str, params: &'a mut ParamTypes) -> Self {
        let mut analyzer = Self {
            names,
            text,
            params,
            qualifiers: HashSet::new(),
            windows: Vec::new(),
            locks: Vec::new(),
            within: Vec::new(),
            sets: Default::default(),
            outer_aggregates: Vec::new(),
            subqueries: HashMap::new(),
            listed: Vec::new(),
            elsewhere: false,
            views: Default::default(),
            calls: Default::default(),
            sought: Default::default(),
            once: Default::default(),
            returned: None,
            unseen_target: None,
            keeps_keys: false,
            stored: false,
            is_mutable: false,
            collations: Default::default(),
            reads_domain: 0,
            depth: 0,
        };
        analyzer.begin_body();
        analyzer
    }

    /// Analyses a whole query; untyped columns become texts.
    pub(crate) fn query(&mut self, query: &ast::Query) -> Result<Analyzed> {
        self.once.at_top = true;
        let relation = self.bind_query(query, &Scope::empty(), None)?;
        self.no_outer_aggregates()?;
        let relation = self.as_returned(relation)?;
        let (locks, needs) = (std::mem::take(&mut self.locks), self.needs());
        self.refuse_volatile_reads(&needs)?;
        let once = self.once.take();
        let mut analyzed = Analyzed { locks, once, needs, ..relation.into_analyzed() };
        self.collate(&mut analyzed)?;
        Ok(analyzed)
    }

    /// An error at a place of the text.
    fn at(&self, mut error: SqlError, span: Span) -> Refusal {
        if error.position.is_none() && span.start.line > 0 && !self.text.is_empty() {
            error.position = errors::character_position(self.text, span.start.line, span.start.column);
        }
        error.into()
    }

    /// Names of relations, as what is analysed means them.
    fn lookup(&self) -> Lookup<'a> {
        match self.stored || self.is_within_view() {
            true => Lookup { txn: self.names.txn, path: SearchPath::stored() },
            false => self.names.lookup(),
        }
    }

    /// Analyses a part that a definition keeps.
    fn as_stored<T>(&mut self, go: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        let before = std::mem::replace(&mut self.stored, true);
        let result = go(self);
        self.stored = before;
        result
    }

    /// Follows one level of nesting.
    fn nested<T>(&mut self, go: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.depth >= STEPS_MAX {
            return Err(too_deep().into());
        }
        running::check()?;
        self.depth += 1;
        // Frames of analysis are large; so is a thread's stack only where this is asked for.
        let result = stacker::maybe_grow(256 << 10, 4 << 20, || go(self));
        self.depth -= 1;
        result
    }

    /// A qualifier that nothing else in the statement has.
    fn qualifier(&mut self, name: &str) -> String {
        let mut unique = name.to_owned();
        let mut n = 1;
        while !self.qualifiers.insert(unique.clone()) {
            n += 1;
            unique = format!("{name}_{n}");
        }
        unique
    }
}

/// A query by these rules.
///
/// # Errors
/// PostgreSQL's; `0A000` for what is not known here.
pub(crate) fn query(
    names: &Names<'_>,
    query: &ast::Query,
    text: &str,
    params: &mut ParamTypes,
) -> std::result::Result<Analyzed, SqlError> {
    collate::analysed(names, text, params, |analyzer| analyzer.query(query))
}

/// The query of a cursor by these rules, with the keys of its rows if these are rows of tables.
///
/// # Errors
/// As those of [`query`].
pub(crate) fn cursor_query(
    names: &Names<'_>,
    query: &ast::Query,
    text: &str,
    params: &mut ParamTypes,
) -> std::result::Result<Analyzed, SqlError> {
    collate::analysed(names, text, params, |analyzer| analyzer.cursor_query(query))
}

/// An INSERT, UPDATE, DELETE or MERGE, with the WITH before it, by these rules.
///
/// # Errors
/// PostgreSQL's; `0A000` for what is not known here.
pub(crate) fn write(
    names: &Names<'_>,
    with: Option<&ast::With>,
    statement: &ast::Statement,
    text: &str,
    params: &mut ParamTypes,
) -> std::result::Result<Write, SqlError> {
    collate::analysed(names, text, params, |analyzer| {
        let mut scope = Scope::empty();
        if let Some(with) = with {
            let uses = once::Uses::of(with, statement);
            analyzer.with_clause(with, &uses, true, &mut scope)?;
        }
        let write = analyzer.one_write(statement, &scope)?;
        analyzer.no_outer_aggregates()?;
        let mut write = analyzer.whole(write);
        analyzer.return_from_body(&mut write)?;
        analyzer.refuse_volatile_reads(&write.needs)?;
        analyzer.collate_write(&mut write)?;
        Ok(write)
    })
}
