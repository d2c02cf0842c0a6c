//! CREATE and ALTER DOMAIN.
//!
//! The grammar of a domain is that of a column, so it is read as one: of the name `value`, which its conditions call it.
//! A domain that is changed has the tables with columns of it locked, and gives them a new generation: what was planned
//! with the earlier conditions does not write to them any more.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ColumnDef, ColumnOption, DataType, Expr};
use resurgam_engine::{CatalogObject, ObjectKind, Table, Transaction};

use super::type_texts::Renamed;
use super::{default_text, free_name, full_name, name_of, unsupported};
use crate::dml::check::demand;
use crate::parse::statement::domain::{Action, AlterDomain, CreateDomain, refuse_not_enforced};
use crate::pg::functions::quote_ident;
use crate::pg::roles::acl::Object;
use crate::pg::types::{column_type_of_oid, type_from_sql};
use crate::pg::user_types::definition::Kind;
use crate::pg::user_types::{
    Body, Constraint, DomainCheck, DomainType, FIRST_USER_OID, UserType, base_type, constraints,
};
use crate::plan::analyze::{check_domain_condition, check_domain_default};
use crate::plan::expression::{Place, cast_times_of, kept_text, parse_expression, zoned_type};
use crate::plan::planner::Names;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// What a definition says, checked.
struct Parts {
    base: (u32, i32),
    not_null: bool,
    default: Option<Expr>,
    checks: Vec<(Option<String>, Expr)>,
}

impl Parts {
    fn of(column: &ColumnDef) -> Result<Self, SqlError> {
        let mut parts = Self { base: base_of(&column.data_type)?, not_null: false, default: None, checks: Vec::new() };
        let (mut says_null, mut has_default) = (None, false);
        for option in &column.options {
            let given = option.name.as_ref().map(name_of);
            match &option.option {
                ColumnOption::Null | ColumnOption::NotNull => {
                    let not_null = matches!(option.option, ColumnOption::NotNull);
                    if says_null.replace(not_null).is_some_and(|before| before != not_null) {
                        return Err(SqlError::syntax("conflicting NULL/NOT NULL constraints"));
                    }
                    parts.not_null = not_null;
                }
                ColumnOption::Default(expr) => {
                    if std::mem::replace(&mut has_default, true) {
                        return Err(SqlError::syntax("multiple default expressions"));
                    }
                    parts.default = Some(expr.clone());
                }
                ColumnOption::Check(check) => {
                    refuse_not_enforced(check)?;
                    let name = check.name.as_ref().map(name_of).or(given);
                    parts.checks.push((name, Expr::clone(&check.expr)));
                }
                ColumnOption::PrimaryKey(_) => {
                    return Err(SqlError::syntax("primary key constraints not possible for domains"));
                }
                ColumnOption::Unique(_) => {
                    return Err(SqlError::syntax("unique constraints not possible for domains"));
                }
                ColumnOption::ForeignKey(_) => {
                    return Err(SqlError::syntax("foreign key constraints not possible for domains"));
                }
                ColumnOption::Collation(_) => return Err(unsupported("COLLATE of a domain")),
                other => return Err(unsupported(&format!("{other} of a domain"))),
            }
        }
        Ok(parts)
    }
}

/// What a domain can be of.
fn base_of(ty: &DataType) -> Result<(u32, i32), SqlError> {
    let (oid, typmod) = type_from_sql(ty)?;
    match column_type_of_oid(oid, typmod) {
        Some(_) => Ok((oid, typmod)),
        None => Err(unsupported(&format!("a domain of the type {ty}"))),
    }
}

fn no_constraint(name: &str, domain: &str) -> SqlError {
    SqlError::new("42704", format!("constraint \"{name}\" of domain \"{domain}\" does not exist"))
}

impl Session {
    /// CREATE DOMAIN.
    pub(crate) async fn create_domain(&mut self, create: &CreateDomain) -> Result<Tag, SqlError> {
        self.ddl_deadline = self.deadline();
        let txn = self.ddl_transaction("CREATE DOMAIN")?;
        let (schema, name) = self.place_for_type(&txn, &create.name).await?;
        let mut parts = Parts::of(&create.column)?;
        let mut called = super::qualify::Called::default();
        for expr in parts.checks.iter_mut().map(|(_, expr)| expr).chain(&mut parts.default) {
            called.extend(super::qualify::qualify(expr, &self.lookup(&txn))?);
        }
        self.keep_called(&txn, &called).await?;
        let array = self.part_id(&txn)?;
        let base = base_type(parts.base.0, parts.base.1);
        for expr in parts.checks.iter_mut().map(|(_, expr)| expr).chain(&mut parts.default) {
            self.fix_times_of_domain(base, expr).await?;
        }
        let default_sql = self.domain_default(&txn, &name, base, parts.default.as_ref())?;
        let mut checks = Vec::new();
        for (given, expr) in &parts.checks {
            let check = self.domain_check(&txn, &name, base, given.as_deref(), expr, &checks, array)?;
            checks.push(check);
        }
        let domain =
            DomainType { base: parts.base.0, typmod: parts.base.1, not_null: parts.not_null, default_sql, checks };
        let body = Body { array, comment: None, kind: Kind::Domain(domain) };
        let mut object = CatalogObject::new(ObjectKind::TYPE, body.encode());
        if parts.base.0 >= FIRST_USER_OID {
            let kept = self.keep_type(&txn, parts.base.0).await?;
            object.needs.push(kept.id);
        }
        let made = self.settle_ddl(|| txn.create_object(&schema, &name, object.clone())).await?;
        self.own_new_object(&txn, made, Object::Type).await?;
        Ok(Tag::Fixed("CREATE DOMAIN"))
    }

    /// An expression of a domain of that base as it is kept: with the names of what it calls, which is kept for it.
    async fn kept_expression(
        &mut self,
        txn: &Transaction,
        base: (u32, i32),
        expr: Option<Expr>,
    ) -> Result<Option<Expr>, SqlError> {
        let Some(mut expr) = expr else { return Ok(None) };
        let called = super::qualify::qualify(&mut expr, &self.lookup(txn))?;
        self.keep_called(txn, &called).await?;
        self.fix_times_of_domain(base, &mut expr).await?;
        Ok(Some(expr))
    }

    /// Times that are written in a default or a condition mean what they mean now, in this session's zone.
    async fn fix_times_of_domain(&mut self, base: (u32, i32), expr: &mut Expr) -> Result<(), SqlError> {
        let Some(ty) = column_type_of_oid(base.0, base.1) else { return Ok(()) };
        cast_times_of(expr, &|name| zoned_type(&ty).filter(|_| name == "value"));
        self.fix_default(&ty, expr).await
    }

    /// The text of a default, which fits.
    fn domain_default(
        &mut self,
        txn: &Transaction,
        domain: &str,
        base: (u32, i32),
        default: Option<&Expr>,
    ) -> Result<Option<String>, SqlError> {
        let Some(text) = default.and_then(default_text) else { return Ok(None) };
        let Some(ty) = column_type_of_oid(base.0, base.1) else { return Err(unsupported("a default of this type")) };
        let (state, cx) = (self.state()?, Arc::clone(&self.cx));
        let names = Names { state: &state, txn, cx: &cx };
        check_domain_default(&names, &parse_expression(&text)?, domain, &ty)?;
        Ok(Some(text))
    }

    /// A condition, which can be one.
    fn domain_check(
        &mut self,
        txn: &Transaction,
        domain: &str,
        base: (u32, i32),
        name: Option<&str>,
        expr: &Expr,
        known: &[DomainCheck],
        above: u32,
    ) -> Result<DomainCheck, SqlError> {
        let taken = |name: &str| Ok(known.iter().any(|check| check.name == name));
        let name = match name {
            Some(name) if taken(name)? => {
                let message = format!("constraint \"{name}\" for domain \"{domain}\" already exists");
                return Err(SqlError::new("42710", message));
            }
            Some(name) => name.to_owned(),
            None => free_name(domain, &[], "check", &taken)?,
        };
        let sql = kept_text(expr);
        let expr = parse_expression(&sql)?;
        // What is kept must say the same when it is read again.
        if kept_text(&expr) != sql {
            return Err(unsupported("this form of a CHECK condition"));
        }
        let (state, cx) = (self.state()?, Arc::clone(&self.cx));
        check_domain_condition(&Names { state: &state, txn, cx: &cx }, &expr, base)?;
        let highest = known.iter().map(|check| check.id).max().unwrap_or(0).max(above);
        Ok(DomainCheck { id: txn.new_part_id(highest)?, name, sql, validated: true })
    }

    /// ALTER DOMAIN.
    pub(crate) async fn alter_domain(&mut self, alter: &AlterDomain) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("ALTER DOMAIN");
        self.ddl_deadline = self.deadline();
        let txn = self.ddl_transaction("ALTER DOMAIN")?;
        let (object, ty) = match self.locked_type(&txn, &alter.name).await {
            Err(error) if error.sqlstate == "42704" => {
                return Err(self.or_relation(&txn, error, &alter.name, "a domain")?);
            }
            found => found?,
        };
        let Some(domain) = ty.as_domain() else {
            return Err(SqlError::new("42809", format!("{} is not a domain", quote_ident(&ty.name))));
        };
        let mut domain = domain.clone();
        let base = base_type(domain.base, domain.typmod);
        // What the values that are stored have to fulfil from now on.
        let mut demanded = None;
        match &alter.action {
            Action::Rename(to) => {
                self.refuse_taken(&txn, &object.schema, to)?;
                self.reword_type(&txn, &ty, Renamed::Type { to }).await?;
                self.settle_ddl(|| txn.rename_object(&object, &object.schema, to)).await?;
                return Ok(TAG);
            }
            Action::SetSchema(to) => {
                self.move_type(&txn, &object, to).await?;
                return Ok(TAG);
            }
            Action::SetDefault(default) => {
                let default = self.kept_expression(&txn, base, default.clone()).await?;
                domain.default_sql = self.domain_default(&txn, &ty.name, base, default.as_ref())?;
            }
            Action::SetNotNull(not_null) => {
                if *not_null && !domain.not_null {
                    demanded = Some(None);
                }
                domain.not_null = *not_null;
            }
            Action::AddCheck { name, expr, valid } => {
                let above = self.part_id(&txn)?;
                let kept = self.kept_expression(&txn, base, Some(expr.clone())).await?;
                let expr = kept.as_ref().unwrap_or(expr);
                let mut check =
                    self.domain_check(&txn, &ty.name, base, name.as_deref(), expr, &domain.checks, above)?;
                check.validated = *valid;
                if *valid {
                    demanded = Some(Some((check.name.clone(), check.sql.clone())));
                }
                domain.checks.push(check);
            }
            Action::Validate(name) => {
                let Some(check) = domain.checks.iter_mut().find(|check| check.name == *name) else {
                    return Err(no_constraint(name, &ty.name));
                };
                if !check.validated {
                    check.validated = true;
                    demanded = Some(Some((check.name.clone(), check.sql.clone())));
                }
            }
            Action::DropConstraint { name, if_exists } => {
                let before = domain.checks.len();
                domain.checks.retain(|check| check.name != *name);
                if domain.checks.len() == before {
                    let missing = no_constraint(name, &ty.name);
                    if !*if_exists {
                        return Err(missing);
                    }
                    self.skip(format!("{}, skipping", missing.message));
                    return Ok(TAG);
                }
            }
            Action::RenameConstraint { from, to } => {
                if domain.checks.iter().any(|check| check.name == *to) {
                    let message = format!("constraint \"{to}\" for domain \"{}\" already exists", ty.name);
                    return Err(SqlError::new("42710", message));
                }
                let Some(check) = domain.checks.iter_mut().find(|check| check.name == *from) else {
                    return Err(no_constraint(from, &ty.name));
                };
                check.name.clone_from(to);
            }
        }
        let constraint = demanded.map(|check| Constraint {
            domain: ty.name.clone(),
            schema: ty.schema.clone(),
            name: ty.name.clone(),
            check,
        });
        self.renew_columns_of(&txn, &ty, constraint.as_ref()).await?;
        let body = Body { kind: Kind::Domain(domain), ..ty.body.clone() };
        self.store_type(&txn, &object, &body).await?;
        Ok(TAG)
    }

    /// Locks the tables with columns of a domain, or of one that is of it, looks whether their values fulfil a constraint,
    /// and gives them a new generation.
    async fn renew_columns_of(
        &mut self,
        txn: &Transaction,
        ty: &UserType,
        constraint: Option<&Constraint>,
    ) -> Result<(), SqlError> {
        let mut left = vec![ty.oid];
        while let Some(id) = left.pop() {
            for entry in txn.dependents(id)? {
                if entry.object.is_some() {
                    left.push(entry.id);
                    continue;
                }
                let mut table = self.locked_table(txn, &full_name(&entry)).await?;
                let columns: Vec<usize> =
                    table.domains.iter().filter(|(_, domain)| *domain == id).map(|(at, _)| *at).collect();
                if let Some(constraint) = constraint {
                    for at in &columns {
                        self.validate_domain(txn, &table, *at, constraint)?;
                    }
                }
                let domains = table.domains.clone();
                table = self.settle_ddl(|| txn.set_domains(&table, domains.clone())).await?;
                drop(table);
            }
        }
        Ok(())
    }

    /// Looks whether the values of a column fulfil a constraint of a domain.
    fn validate_domain(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
        constraint: &Constraint,
    ) -> Result<(), SqlError> {
        let column = table.columns[at].name.clone();
        let expr = demand(&column, constraint)?;
        self.validate_check(txn, table, "", &expr, Place::Domain).map_err(|error| {
            if error.sqlstate != "23514" {
                return error;
            }
            let (state, what) = match constraint.check {
                None => ("23502", "contains null values"),
                Some(_) => ("23514", "contains values that violate the new constraint"),
            };
            let mut error = SqlError::new(state, format!("column \"{column}\" of table \"{}\" {what}", table.name));
            error.schema = Some(table.schema.clone());
            error.table = Some(table.name.clone());
            error.column = Some(column.clone());
            error
        })
    }

    /// Says which columns of a table that is made are of domains.
    pub(super) async fn with_domains(
        &mut self,
        txn: &Transaction,
        table: Arc<Table>,
        columns: &[ColumnDef],
    ) -> Result<Arc<Table>, SqlError> {
        let mut domains = Vec::new();
        for (at, def) in columns.iter().enumerate() {
            domains.extend(crate::pg::types::domain_from_sql(&def.data_type).map(|domain| (at, domain)));
        }
        if domains.is_empty() {
            return Ok(table);
        }
        for (_, domain) in &domains {
            self.keep_type(txn, *domain).await?;
        }
        self.settle_ddl(|| txn.set_domains(&table, domains.clone())).await
    }

    /// Says of which domain a column is, if any; values that are there have to fulfil what it demands.
    pub(super) async fn set_domain(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
        domain: Option<u32>,
    ) -> Result<Arc<Table>, SqlError> {
        if table.domain(at) == domain {
            return Ok(Arc::clone(table));
        }
        let mut domains = table.domains.clone();
        domains.retain(|(column, _)| *column != at);
        if let Some(domain) = domain {
            self.keep_type(txn, domain).await?;
            domains.push((at, domain));
            domains.sort_unstable();
            if txn.has_rows(table)? {
                for constraint in constraints(domain) {
                    let expr = demand(&table.columns[at].name, &constraint)?;
                    self.validate_check(txn, table, "", &expr, Place::Domain).map_err(|error| {
                        match error.sqlstate.as_str() {
                            "23514" => crate::pg::user_types::violated(&constraint),
                            _ => error,
                        }
                    })?;
                }
            }
        }
        self.settle_ddl(|| txn.set_domains(table, domains.clone())).await
    }
}
