//! CREATE, ALTER and DROP VIEW.
//!
//! A view is analysed when it is made; what is kept is its query as text, the names and types of its columns, and what
//! the names of relations in the query mean ([`resurgam_engine::View`]). The text that is kept has been read and analysed again
//! before: what it says is what was asked for.

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, AlterColumnOperation, AlterTable, AlterTableOperation, CreateTableOptions, CreateView, Expr, ObjectName,
    Query, RenameTableNameKind, SelectItem, SqlOption, TableFactor, Visitor, VisitorMut,
};
use resurgam_ast::{AstWalk, AstWalkMut};
use resurgam_engine::{CheckOption, Table, Transaction, View, ViewColumn, ViewRelation};

use super::needed::{Needed, drop_hint};
use super::qualify::{mark, qualify};
use super::{full_name, is_relation, name_of};
use crate::parse::names::last_name;
use crate::pg::catalog::system_relation;
use crate::pg::collation;
use crate::pg::functions::quote_ident;
use crate::pg::search_path::{PG_CATALOG, PUBLIC, is_temporary};
use crate::pg::types::{format_type, oid};
use crate::pg::view::why_read_only;
use crate::plan::analyze::{OutputColumn, UNDETERMINED, output_types, query_of_view, view_query};
use crate::plan::lookup::Lookup;
use crate::plan::needs::access_of;
use crate::plan::planner::Names;
use crate::plan::statement::count_params;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// Columns of a view, as in PostgreSQL.
const COLUMNS_MAX: usize = 1600;

fn invalid(message: impl Into<String>) -> SqlError {
    SqlError::new("42P16", message)
}

/// The options of WITH (…).
#[derive(Default)]
struct ViewOptions {
    check: Option<CheckOption>,
    /// Its relations are read with the rights of whoever reads it.
    invoker: Option<bool>,
    /// Its conditions hold before others are evaluated that could tell of rows.
    barrier: Option<bool>,
}

/// A boolean option, as it may be written.
fn boolean(text: &str) -> Option<bool> {
    match text {
        "true" | "on" | "1" | "yes" | "t" | "y" => Some(true),
        "false" | "off" | "0" | "no" | "f" | "n" => Some(false),
        _ => None,
    }
}

fn view_options(options: &[SqlOption]) -> Result<ViewOptions, SqlError> {
    let (mut check, mut invoker, mut barrier) = (None, None, None);
    let mut named: Vec<String> = Vec::with_capacity(options.len());
    for option in options {
        let (name, value) = match option {
            SqlOption::KeyValue { key, value } => (name_of(key), value.to_string()),
            SqlOption::Ident(key) => (name_of(key), "true".to_owned()),
            _ => return Err(SqlError::syntax("this form of an option is not PostgreSQL's")),
        };
        if name == crate::parse::table::RESET {
            return Err(SqlError::unsupported("ALTER VIEW … RESET is not supported"));
        }
        if named.contains(&name) {
            return Err(SqlError::new("22023", format!("parameter \"{name}\" specified more than once")));
        }
        named.push(name.clone());
        let value = value.trim_matches('\'').to_ascii_lowercase();
        match (name.as_str(), value.as_str()) {
            ("check_option", "local") => check = Some(CheckOption::Local),
            ("check_option", "cascaded") => check = Some(CheckOption::Cascaded),
            ("check_option", _) => {
                let error = SqlError::new("22023", format!("invalid value for enum option \"check_option\": {value}"));
                return Err(error.with_detail("Valid values are \"local\" and \"cascaded\"."));
            }
            ("security_barrier" | "security_invoker", value) => {
                let Some(on) = boolean(value) else {
                    let message = format!("invalid value for boolean option \"{name}\": {value}");
                    return Err(SqlError::new("22023", message));
                };
                *(if name == "security_barrier" { &mut barrier } else { &mut invoker }) = Some(on);
            }
            _ => return Err(SqlError::new("22023", format!("unrecognized parameter \"{name}\""))),
        }
    }
    Ok(ViewOptions { check, invoker, barrier })
}

/// Refuses what no view may have.
fn refuse_clauses(create: &CreateView) -> Result<(), SqlError> {
    let CreateView {
        or_alter,
        or_replace: _,
        materialized,
        secure,
        name: _,
        name_before_not_exists: _,
        columns,
        query: _,
        options: _,
        cluster_by,
        comment,
        with_no_schema_binding,
        if_not_exists,
        temporary,
        copy_grants,
        to,
        params,
    } = create;
    if *materialized {
        return Err(SqlError::unsupported("materialized views are not supported"));
    }
    let _ = temporary; // says where it is made
    let foreign = *or_alter
        || *secure
        || !cluster_by.is_empty()
        || comment.is_some()
        || *with_no_schema_binding
        || *if_not_exists
        || *copy_grants
        || to.is_some()
        || params.is_some()
        || columns.iter().any(|column| column.data_type.is_some() || column.options.is_some());
    match foreign {
        true => Err(SqlError::syntax("this form of CREATE VIEW is not PostgreSQL's")),
        false => Ok(()),
    }
}

/// Refuses what the query of a view may not have.
pub(super) fn refuse_in_query(query: &Query) -> Result<(), SqlError> {
    struct Find;
    impl Visitor for Find {
        type Break = SqlError;
        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<SqlError> {
            if !query.locks.is_empty() {
                return ControlFlow::Break(SqlError::unsupported("FOR UPDATE/SHARE in a view is not supported"));
            }
            let written = query.with.iter().flat_map(|with| &with.cte_tables).any(|cte| {
                matches!(
                    *cte.query.body,
                    ast::SetExpr::Insert(_)
                        | ast::SetExpr::Update(_)
                        | ast::SetExpr::Delete(_)
                        | ast::SetExpr::Merge(_)
                )
            });
            if written {
                let text = "views must not contain data-modifying statements in WITH";
                return ControlFlow::Break(SqlError::unsupported(text));
            }
            match &*query.body {
                ast::SetExpr::Select(select) if select.into.is_some() => {
                    ControlFlow::Break(SqlError::syntax("views must not contain SELECT INTO"))
                }
                _ => ControlFlow::Continue(()),
            }
        }
    }
    let written = match query.body.as_ref() {
        ast::SetExpr::Insert(_) => Some("INSERT"),
        ast::SetExpr::Update(_) => Some("UPDATE"),
        ast::SetExpr::Delete(_) => Some("DELETE"),
        ast::SetExpr::Merge(_) => Some("MERGE"),
        _ => None,
    };
    if let Some(word) = written {
        return Err(SqlError::syntax(format!("syntax error at or near \"{word}\"")));
    }
    match query.walk(&mut Find) {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(()),
    }
}

/// Puts what it stands for in the place of each `*`.
pub(super) fn expand_stars(query: &mut Query, stars: &HashMap<usize, Vec<Expr>>) {
    struct Expand<'a>(&'a HashMap<usize, Vec<Expr>>);
    impl VisitorMut for Expand<'_> {
        type Break = ();
        fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
            self.body(&mut query.body);
            ControlFlow::Continue(())
        }
    }
    impl Expand<'_> {
        fn body(&self, body: &mut ast::SetExpr) {
            // Terms of set operations, in a list: there may be many.
            let mut left = vec![body];
            while let Some(body) = left.pop() {
                match body {
                    ast::SetExpr::Select(select) => self.list(&mut select.projection),
                    ast::SetExpr::SetOperation { left: l, right: r, .. } => left.extend([l.as_mut(), r.as_mut()]),
                    _ => {}
                }
            }
        }
        fn list(&self, list: &mut Vec<SelectItem>) {
            if !list.iter().any(|item| self.0.contains_key(&(std::ptr::from_ref(item) as usize))) {
                return;
            }
            let mut out = Vec::new();
            for item in list.iter() {
                match self.0.get(&(std::ptr::from_ref(item) as usize)) {
                    Some(columns) => out.extend(columns.iter().cloned().map(SelectItem::UnnamedExpr)),
                    None => out.push(item.clone()),
                }
            }
            *list = out;
        }
    }
    let _ = query.walk_mut(&mut Expand(stars));
}

/// Gives names of relations their schemas, but for those that have none in what is kept: of `public`, if the system has none of
/// that name, and of `pg_catalog`.
pub(super) fn name_schemas(query: &mut Query, schemas: &HashMap<usize, String>) {
    struct Name<'a>(&'a HashMap<usize, String>);
    impl VisitorMut for Name<'_> {
        type Break = ();
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            let TableFactor::Table { name, .. } = factor else { return ControlFlow::Continue(()) };
            let Some(schema) = self.0.get(&(std::ptr::from_ref(&*name) as usize)) else {
                return ControlFlow::Continue(());
            };
            let of_system = last_name(name).is_ok_and(|name| system_relation(PG_CATALOG, &name).is_some());
            if schema != PG_CATALOG && (schema != PUBLIC || of_system) {
                name.0.insert(0, ast::ObjectNamePart::Identifier(ast::Ident::with_quote('"', schema)));
            }
            ControlFlow::Continue(())
        }
    }
    let _ = query.walk_mut(&mut Name(schemas));
}

/// Has calls of functions of users mean these by their oids, under the names that they were written with.
pub(super) fn name_functions(query: &mut Query, functions: &HashMap<usize, u32>) {
    struct Name<'a>(&'a HashMap<usize, u32>);
    impl Name<'_> {
        fn oid(&self, name: &ObjectName) -> Option<u32> {
            self.0.get(&(std::ptr::from_ref(name) as usize)).copied()
        }
    }
    impl VisitorMut for Name<'_> {
        type Break = ();
        fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
            if let Expr::Function(call) = expr
                && let Some(oid) = self.oid(&call.name)
            {
                mark(&mut call.name, oid);
            }
            ControlFlow::Continue(())
        }
        fn pre_visit_table_factor(&mut self, factor: &mut TableFactor) -> ControlFlow<()> {
            if let TableFactor::Table { name, args: Some(_), .. } | TableFactor::Function { name, .. } = factor
                && let Some(oid) = self.oid(name)
            {
                mark(name, oid);
            }
            ControlFlow::Continue(())
        }
    }
    if !functions.is_empty() {
        let _ = query.walk_mut(&mut Name(functions));
    }
}

/// The columns of a view, with the names that CREATE VIEW gives to the first of them.
fn columns_of(create: &CreateView, found: &[OutputColumn]) -> Result<Vec<ViewColumn>, SqlError> {
    if create.columns.len() > found.len() {
        return Err(SqlError::syntax("CREATE VIEW specifies more column names than columns"));
    }
    if found.len() > COLUMNS_MAX {
        return Err(SqlError::new("54011", format!("tables can have at most {COLUMNS_MAX} columns")));
    }
    let mut columns: Vec<ViewColumn> = Vec::with_capacity(found.len());
    let mut names = std::collections::HashSet::new();
    for (at, (name, oid, typmod)) in output_types(found).enumerate() {
        let name = create.columns.get(at).map_or_else(|| name.to_owned(), |given| name_of(&given.name));
        if !names.insert(name.clone()) {
            return Err(SqlError::new("42701", format!("column \"{name}\" specified more than once")));
        }
        columns.push(ViewColumn { name, oid, typmod, default_sql: None });
    }
    for column in &columns {
        if matches!(column.oid, oid::RECORD | oid::RECORD_ARRAY | oid::VOID) {
            let ty = format_type(column.oid, None);
            return Err(invalid(format!("column \"{}\" has pseudo-type {ty}", column.name)));
        }
    }
    Ok(columns)
}

/// Refuses columns that cannot take the place of a view's, as CREATE OR REPLACE gives them.
fn refuse_other_columns(old: &[ViewColumn], new: &[ViewColumn]) -> Result<(), SqlError> {
    if new.len() < old.len() {
        return Err(invalid("cannot drop columns from view"));
    }
    for (old, new) in old.iter().zip(new) {
        if old.name != new.name {
            let error = invalid(format!("cannot change name of view column \"{}\" to \"{}\"", old.name, new.name));
            return Err(error.with_hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
        }
        if (old.oid, old.typmod) != (new.oid, new.typmod) {
            let ty = |column: &ViewColumn| format_type(column.oid, Some(column.typmod));
            let message =
                format!("cannot change data type of view column \"{}\" from {} to {}", old.name, ty(old), ty(new));
            return Err(invalid(message));
        }
    }
    Ok(())
}

/// Refuses columns of other collations than those of the columns whose place they would take.
fn refuse_other_collations(old: &[ViewColumn], was: &[u32], new: &[OutputColumn]) -> Result<(), SqlError> {
    for ((column, was), new) in old.iter().zip(was).zip(new) {
        let own = |oid: u32| if oid == 0 { collation::of_type(column.oid) } else { oid };
        let (was, new) = (own(*was), own(new.collation));
        // Those by bytes are one order.
        if was != new && (collation::is_icu(was) || collation::is_icu(new)) {
            let name = |oid: u32| collation::name_of(oid).unwrap_or_default();
            let (was, new) = (name(was), name(new));
            let text =
                format!("cannot change collation of view column \"{}\" from \"{was}\" to \"{new}\"", column.name);
            return Err(invalid(text));
        }
    }
    Ok(())
}

/// `42809` for what is no view, `42P01` for what is not there.
pub(crate) fn find_view(lookup: &Lookup<'_>, name: &ObjectName, word: &str) -> Result<Arc<Table>, SqlError> {
    let (schema, wanted) = lookup.place(name)?;
    if let Some(view) = lookup.txn.view_named(&schema, &wanted)? {
        return Ok(view);
    }
    match is_relation(lookup.txn, &schema, &wanted)? {
        true => Err(SqlError::new("42809", format!("\"{wanted}\" is not a view"))),
        false => Err(lookup.undefined(name, word)?),
    }
}

/// When constants that depend on the session or the time get their meaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meant {
    /// When the query is run, as it is of views here.
    WhenUsed,
    /// Once and for all: those that cannot are refused.
    Once,
}

/// A query that the catalog can keep.
pub(super) struct KeptQuery {
    /// As it is kept.
    pub query: Box<Query>,
    pub sql: String,
    pub columns: Vec<OutputColumn>,
    pub relations: Vec<ViewRelation>,
}

impl Session {
    pub(super) async fn create_view(&mut self, create: &CreateView) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("CREATE VIEW");
        refuse_clauses(create)?;
        let options = match &create.options {
            CreateTableOptions::With(options) => view_options(options)?,
            _ => ViewOptions::default(),
        };
        let check = options.check.unwrap_or_default();
        let flags = (options.invoker.unwrap_or_default(), options.barrier.unwrap_or_default());
        refuse_in_query(&create.query)?;
        if count_params(&create.query)? > 0 {
            return Err(SqlError::new("42P02", "there is no parameter $1"));
        }
        let txn = self.ddl_transaction("CREATE VIEW")?;
        let (mut schema, mut name) = match create.temporary {
            true => self.temporary_place_for(&txn, &create.name).await?,
            false => self.place_for(&txn, &create.name).await?,
        };
        let kept = self.kept_query(&txn, create.query.clone(), Meant::WhenUsed).await?;
        let columns = columns_of(create, &kept.columns)?;
        for (column, found) in columns.iter().zip(&kept.columns) {
            if found.collation == UNDETERMINED {
                let name = &column.name;
                let text = format!("could not determine which collation to use for view column \"{name}\"");
                return Err(
                    SqlError::new("42P22", text).with_hint("Use the COLLATE clause to set the collation explicitly.")
                );
            }
        }
        let mut view = View { sql: kept.sql, columns, relations: kept.relations, check };
        if !is_temporary(&schema) && view.relations.iter().any(|relation| is_temporary(&relation.schema)) {
            // It goes with them; `42P16` if it names another schema.
            (schema, name) = self.temporary_place_for(&txn, &create.name).await?;
            let text = format!("view \"{name}\" will be a temporary view");
            self.notice(SqlError::notice("NOTICE", "00000", text));
        }
        if check != CheckOption::None
            && let Some(why) = why_read_only(&kept.query)
        {
            let text = "WITH CHECK OPTION is supported only on automatically updatable views";
            return Err(SqlError::unsupported(text).with_hint(why));
        }
        if let Some(old) = txn.view_named(&schema, &name)? {
            if !create.or_replace {
                return Err(SqlError::new("42P07", format!("relation \"{name}\" already exists")));
            }
            self.must_own(&old)?;
            let old = self.locked_view(&txn, &full_name(&old), "relation").await?;
            let was = old.view.as_ref().map(|view| view.columns.as_slice()).unwrap_or_default();
            refuse_other_columns(was, &view.columns)?;
            let query = view_query(&format!("SELECT * FROM {}.{}", quote_ident(&old.schema), quote_ident(&old.name)))?;
            refuse_other_collations(was, &self.collations_of(&txn, &query, &[])?, &kept.columns)?;
            for (column, was) in view.columns.iter_mut().zip(was) {
                column.default_sql.clone_from(&was.default_sql);
            }
            refuse_circle(&txn, &old, &view)?;
            let made = self.settle_ddl(|| txn.replace_view(&old, view.clone())).await?;
            self.set_security(&txn, made, flags).await?;
            return Ok(TAG);
        }
        if is_relation(&txn, &schema, &name)? {
            return Err(match create.or_replace {
                true => SqlError::new("42809", format!("\"{name}\" is not a view")),
                false => SqlError::new("42P07", format!("relation \"{name}\" already exists")),
            });
        }
        let made = self.settle_ddl(|| txn.create_view(&schema, &name, view.clone())).await?;
        let made = self.own_new(&txn, made).await?;
        self.set_security(&txn, made, flags).await?;
        Ok(TAG)
    }

    /// A query as the catalog keeps it: as text, with what its names mean. What it reads is locked against changes of
    /// definitions until the transaction has ended.
    ///
    /// # Errors
    /// Those of analysing it; `0A000` for what would not be the same when it is read again.
    pub(super) async fn kept_query(
        &mut self,
        txn: &Transaction,
        mut query: Box<Query>,
        when: Meant,
    ) -> Result<KeptQuery, SqlError> {
        let called = qualify(&mut *query, &self.lookup(txn))?;
        self.keep_called(txn, &called).await?;
        self.fix_times_of(&mut query).await?;
        let is_aggregate = {
            let state = self.state()?;
            move |name: &str| state.aggregate_functions().contains_key(name)
        };
        let statement = ast::Statement::Query(query);
        crate::parse::with_recursive::check(&statement, &is_aggregate)?;
        let ast::Statement::Query(mut query) = statement else {
            return Err(SqlError::internal("a view without a query"));
        };
        // First as it is written, for errors with their places and for what `*` stands for; then as it is kept.
        let (as_written, seen) = self.analyzed_view(txn, &query, false, when)?;
        name_schemas(&mut query, &seen.schemas);
        let functions: Vec<u32> = seen.functions.values().copied().collect();
        self.keep_functions(txn, &functions).await?;
        name_functions(&mut query, &seen.functions);
        expand_stars(&mut query, &seen.stars);
        let meant: Vec<u32> = seen.relations.iter().map(|relation| relation.id).collect();
        let reads = View { relations: seen.relations, ..View::default() };
        self.settle_ddl(|| txn.lock_for_view(&reads)).await?;
        let sql = query.to_string();
        let again = view_query(&sql)?;
        let (as_kept, seen) = self.analyzed_view(txn, &again, true, when)?;
        let same = as_written.len() == as_kept.len()
            && seen.relations.iter().map(|relation| relation.id).eq(meant)
            && output_types(&as_written).zip(output_types(&as_kept)).all(|(a, b)| a == b)
            && again.to_string() == sql;
        if !same {
            return Err(SqlError::unsupported("a view of this form of query is not supported"));
        }
        Ok(KeptQuery { query: again, sql, columns: as_kept, relations: seen.relations })
    }

    /// The columns of a query, and what its names mean.
    fn analyzed_view(
        &mut self,
        txn: &Transaction,
        query: &Query,
        stored: bool,
        meant: Meant,
    ) -> Result<(Vec<OutputColumn>, crate::plan::analyze::Seen), SqlError> {
        let state = self.state()?;
        let cx = Arc::clone(&self.cx);
        self.planning(|| {
            let (analyzed, seen) =
                query_of_view(&Names { state: &state, txn, cx: &cx }, query, "", stored, meant == Meant::Once)?;
            Ok((analyzed.columns, seen))
        })
    }

    /// Times that are written with their zone's name missing mean what they mean now, in this session's zone.
    pub(super) async fn fix_times_of(&mut self, query: &mut Box<Query>) -> Result<(), SqlError> {
        let mut expr = Expr::Subquery(query.clone());
        self.fix_times(&mut expr).await?;
        if let Expr::Subquery(fixed) = expr {
            *query = fixed;
        }
        Ok(())
    }

    /// The newest definition of a view, locked against everyone else.
    pub(crate) async fn locked_view(
        &mut self,
        txn: &Transaction,
        name: &ObjectName,
        word: &str,
    ) -> Result<Arc<Table>, SqlError> {
        self.locked_newest(txn, |session| find_view(&session.lookup(txn), name, word)).await
    }

    /// DROP VIEW.
    pub(super) async fn drop_views(
        &mut self,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
    ) -> Result<Tag, SqlError> {
        let txn = self.ddl_transaction("DROP VIEW")?;
        let mut views: Vec<Arc<Table>> = Vec::new();
        for name in names {
            if let Ok(view) = find_view(&self.lookup(&txn), name, "view") {
                self.may_drop(&view, "view", &view.name)?;
            }
            match self.locked_view(&txn, name, "view").await {
                Ok(view) if views.iter().any(|known| known.id == view.id) => {}
                Ok(view) => {
                    self.refuse_of_extension(&view, true)?;
                    views.push(view);
                }
                Err(error) if matches!(error.sqlstate.as_str(), "42P01" | "3F000") => {
                    self.not_there(&error, "view", name, if_exists)?;
                }
                Err(error) if error.sqlstate == "42809" => {
                    let (schema, wanted) = self.lookup(&txn).place(name)?;
                    return Err(error.with_hint(drop_hint(&txn, &schema, &wanted)?));
                }
                Err(error) => return Err(error),
            }
        }
        let lookup = self.lookup(&txn);
        let roots = views.iter().map(|view| Needed::view(&lookup, view)).collect::<Result<Vec<_>, _>>()?;
        self.drop_needing_views(&txn, &roots, cascade, &[]).await?;
        self.drop_all_views(&txn, views).await?;
        Ok(Tag::Fixed("DROP VIEW"))
    }

    /// Drops views that nothing else needs, those that need others of them first.
    pub(crate) async fn drop_all_views(&mut self, txn: &Transaction, views: Vec<Arc<Table>>) -> Result<(), SqlError> {
        let mut left = views;
        // The newest first: most of them need older ones only.
        left.sort_by_key(|view| std::cmp::Reverse(view.id));
        while !left.is_empty() {
            let before = left.len();
            let mut later = Vec::new();
            for view in left {
                if view.policy_of().is_some() {
                    self.drop_policy_entry(txn, &view).await?;
                } else if txn.dependent_views(view.id)?.is_empty() {
                    let view = self.locked_view(txn, &full_name(&view), "view").await?;
                    self.settle_ddl(|| txn.drop_view(&view)).await?;
                } else {
                    later.push(view);
                }
            }
            if later.len() == before {
                return Err(SqlError::internal("views that need each other"));
            }
            left = later;
        }
        Ok(())
    }

    /// ALTER VIEW, and ALTER TABLE of a view.
    pub(crate) async fn alter_view(&mut self, alter: &AlterTable, of_table: bool) -> Result<Tag, SqlError> {
        let (tag, word) = if of_table { ("ALTER TABLE", "relation") } else { ("ALTER VIEW", "relation") };
        let txn = self.ddl_transaction(tag)?;
        self.must_own_named(&txn, &alter.name)?;
        let mut view = match self.locked_view(&txn, &alter.name, word).await {
            Ok(view) => view,
            Err(error) if alter.if_exists && matches!(error.sqlstate.as_str(), "42P01" | "3F000") => {
                self.skip(format!("relation \"{}\" does not exist, skipping", last_name(&alter.name)?));
                return Ok(Tag::Fixed(tag));
            }
            Err(error) => return Err(error),
        };
        for operation in &alter.operations {
            let changed = |definition: View| txn.replace_view(&view, definition);
            let Some(definition) = view.view.as_deref() else { return Err(SqlError::internal("not a view")) };
            let mut definition = definition.clone();
            let at = |name: &ast::Ident| {
                let wanted = name_of(name);
                definition.columns.iter().position(|column| column.name == wanted).ok_or_else(|| {
                    let message = format!("column \"{wanted}\" of relation \"{}\" does not exist", view.name);
                    SqlError::new("42703", message)
                })
            };
            view = match operation {
                AlterTableOperation::RenameTable { table_name: to } => {
                    let (RenameTableNameKind::As(to) | RenameTableNameKind::To(to)) = to;
                    let to = last_name(to)?;
                    self.refuse_of_extension(&view, false)?;
                    self.settle_ddl(|| txn.rename_view(&view, &to)).await?
                }
                AlterTableOperation::RenameColumn { old_column_name, new_column_name } => {
                    let wanted = name_of(old_column_name);
                    let Some(at) = definition.columns.iter().position(|column| column.name == wanted) else {
                        return Err(SqlError::new("42703", format!("column \"{wanted}\" does not exist")));
                    };
                    let to = name_of(new_column_name);
                    if definition.columns.iter().any(|column| column.name == to) {
                        let message = format!("column \"{to}\" of relation \"{}\" already exists", view.name);
                        return Err(SqlError::new("42701", message));
                    }
                    definition.columns[at].name = to;
                    self.settle_ddl(|| changed(definition.clone())).await?
                }
                AlterTableOperation::AlterColumn {
                    column_name,
                    op: AlterColumnOperation::SetDefault { .. } | AlterColumnOperation::DropDefault,
                } => {
                    at(column_name)?;
                    return Err(SqlError::unsupported("defaults of a view's columns are not supported"));
                }
                AlterTableOperation::SetOptionsParens { options } => {
                    let options = view_options(options)?;
                    let mut now = Arc::clone(&view);
                    if let Some(check) = options.check {
                        if let Some(why) = why_read_only(&*view_query(&definition.sql)?) {
                            let text = "WITH CHECK OPTION is supported only on automatically updatable views";
                            return Err(SqlError::unsupported(text).with_hint(why));
                        }
                        definition.check = check;
                        now = self.settle_ddl(|| changed(definition.clone())).await?;
                    }
                    let (name, access) = (full_name(&now), access_of(&now));
                    let flags = (options.invoker.unwrap_or(access.invoker), options.barrier.unwrap_or(access.barrier));
                    match flags != (access.invoker, access.barrier) {
                        true => {
                            self.set_security(&txn, now, flags).await?;
                            self.locked_view(&txn, &name, word).await?
                        }
                        false => now,
                    }
                }
                other => {
                    let Some(what) = operation_name(other) else {
                        return Err(SqlError::unsupported(format!("ALTER VIEW {other} is not supported")));
                    };
                    let message = format!("ALTER action {what} cannot be performed on relation \"{}\"", view.name);
                    return Err(
                        SqlError::new("42809", message).with_detail("This operation is not supported for views.")
                    );
                }
            };
        }
        Ok(Tag::Fixed(tag))
    }
}

/// What an operation is called in errors.
fn operation_name(operation: &AlterTableOperation) -> Option<&'static str> {
    use AlterTableOperation as O;
    Some(match operation {
        O::AddColumn { .. } => "ADD COLUMN",
        O::DropColumn { .. } => "DROP COLUMN",
        O::AddConstraint { .. } => "ADD CONSTRAINT",
        O::DropConstraint { .. } => "DROP CONSTRAINT",
        O::ValidateConstraint { .. } => "VALIDATE CONSTRAINT",
        O::AlterColumn { op: AlterColumnOperation::SetNotNull, .. } => "ALTER COLUMN ... SET NOT NULL",
        O::AlterColumn { op: AlterColumnOperation::DropNotNull, .. } => "ALTER COLUMN ... DROP NOT NULL",
        O::AlterColumn { op: AlterColumnOperation::SetDataType { .. }, .. } => "ALTER COLUMN ... SET DATA TYPE",
        _ => return None,
    })
}

/// `42P17` when a view would read itself, by way of others perhaps.
fn refuse_circle(txn: &Transaction, old: &Table, new: &View) -> Result<(), SqlError> {
    let mut known = std::collections::HashSet::new();
    let mut left: Vec<u32> = new.relations.iter().map(|relation| relation.id).collect();
    while let Some(id) = left.pop() {
        if id == old.id {
            let message = format!("infinite recursion detected in rules for relation \"{}\"", old.name);
            return Err(SqlError::new("42P17", message));
        }
        if known.insert(id)
            && let Some(view) = txn.view_by_id(id)?
        {
            left.extend(view.view.iter().flat_map(|view| &view.relations).map(|relation| relation.id));
        }
    }
    Ok(())
}
