//! CREATE, ALTER and DROP POLICY, and ALTER TABLE … ROW LEVEL SECURITY.
//!
//! What policies do to statements is `plan/analyze/row_security.rs`; what the catalog keeps of one is
//! [`crate::pg::policies`].

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    AlterPolicy, AlterPolicyOperation, CreatePolicy, CreatePolicyCommand, CreatePolicyType, DropPolicy, ObjectName,
    Owner, Statement,
};
use resurgam_engine::{Access, CatalogObject, ObjectKind, StatementKind, Table, TableChange, Transaction, View};

use super::view::{KeptQuery, Meant, refuse_in_query};
use super::{full_name, name_of};
use crate::parse::names::last_name;
use crate::parse::statement::role::Spec;
use crate::pg::policies::{Command, Conditions, PUBLIC, Policy, Rule};
use crate::plan::analyze::view_query;
use crate::plan::needs::access_of;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

fn no_policy(name: &str, table: &str) -> SqlError {
    SqlError::new("42704", format!("policy \"{name}\" for table \"{table}\" does not exist"))
}

fn policy_exists(name: &str, table: &Table) -> SqlError {
    SqlError::new("42710", format!("policy \"{name}\" for table \"{}\" already exists", table.name))
}

fn command_of(command: Option<&CreatePolicyCommand>) -> Command {
    match command {
        None | Some(CreatePolicyCommand::All) => Command::All,
        Some(CreatePolicyCommand::Select) => Command::Select,
        Some(CreatePolicyCommand::Insert) => Command::Insert,
        Some(CreatePolicyCommand::Update) => Command::Update,
        Some(CreatePolicyCommand::Delete) => Command::Delete,
    }
}

/// Analysis has taken a condition for a WHERE.
fn reworded(mut error: SqlError) -> SqlError {
    if matches!(error.sqlstate.as_str(), "42803" | "42P20" | "0A000") {
        error.message = error.message.replace("not allowed in WHERE", "not allowed in policy expressions");
    }
    error.message = error.message.replace("argument of WHERE", "argument of POLICY");
    error
}

/// Other words than those of CREATE POLICY, as in PostgreSQL.
fn of_relation(mut error: SqlError) -> SqlError {
    error.message = error.message.replace("must be owner of table", "must be owner of relation");
    error
}

impl Session {
    /// Runs a statement about policies.
    pub(super) async fn policy_statement(&mut self, statement: &Statement) -> Result<Tag, SqlError> {
        match statement {
            Statement::CreatePolicy(create) => self.create_policy(create).await,
            Statement::AlterPolicy(alter) => self.alter_policy(alter).await,
            Statement::DropPolicy(drop) => self.drop_policy(drop).await,
            _ => Err(SqlError::internal("not a statement about policies")),
        }
    }

    /// The table of a policy that is to be made or changed, locked against everyone else.
    async fn policy_table(&mut self, txn: &Transaction, name: &ObjectName) -> Result<Arc<Table>, SqlError> {
        let find = |session: &mut Self| {
            let table = session.lookup(txn).table(name).map_err(|error| match error.sqlstate.as_str() {
                "42809" => match last_name(name) {
                    Ok(name) => SqlError::new("42809", format!("\"{name}\" is not a table")),
                    Err(error) => error,
                },
                _ => error,
            })?;
            session.must_own(&table)?;
            Ok(table)
        };
        let table = self.locked_newest(txn, find).await?;
        // What others have made of it while it was waited for.
        txn.statement(StatementKind::PointWrite)?;
        Ok(table)
    }

    /// Whom a policy is for, and the ids of the catalog's entries of these.
    async fn policy_roles(&mut self, txn: &Transaction, to: Option<&[Owner]>) -> Result<Vec<u32>, SqlError> {
        let Some(to) = to else { return Ok(vec![PUBLIC]) };
        let rights = self.db.rights(Some(txn))?;
        let is_public = |owner: &Owner| matches!(owner, Owner::Ident(name) if name_of(name) == "public");
        if to.iter().any(is_public) {
            if to.len() > 1 {
                let mut warning = SqlError::new("01000", "ignoring specified roles other than PUBLIC");
                warning.severity = "WARNING";
                self.notice(warning.with_hint("All roles are members of the PUBLIC role."));
            }
            return Ok(vec![PUBLIC]);
        }
        let mut roles = Vec::with_capacity(to.len());
        for owner in to {
            let spec = match owner {
                Owner::Ident(name) => Spec::Name(name_of(name)),
                Owner::CurrentRole | Owner::CurrentUser => Spec::CurrentUser,
                Owner::SessionUser => Spec::SessionUser,
            };
            let role = self.role_of(&rights, &spec)?;
            self.keep_role(txn, role).await?;
            if !roles.contains(&role) {
                roles.push(role);
            }
        }
        Ok(roles)
    }

    /// What the catalog keeps of a policy beside its conditions.
    fn policy_object(&self, txn: &Transaction, table: &Table, rule: &Rule) -> Result<CatalogObject, SqlError> {
        let rights = self.db.rights(Some(txn))?;
        // The first role and those of the system have no entry, and do not go.
        let roles = rule.roles.iter().filter_map(|role| rights.get(*role)?.entry);
        let needs = std::iter::once(table.id).chain(roles).collect();
        Ok(CatalogObject { kind: ObjectKind::POLICY, needs, body: rule.encode() })
    }

    /// The query that holds the conditions of a policy.
    async fn policy_view(
        &mut self,
        txn: &Transaction,
        table: &Table,
        conditions: &Conditions,
    ) -> Result<View, SqlError> {
        let mut conditions = conditions.clone();
        if conditions.using.is_none() && conditions.check.is_none() {
            // Nothing is said: nothing is kept from anybody.
            return Ok(View::default());
        }
        let text = conditions.query(&table.schema, &table.name);
        let mut query = view_query(&text)?;
        put_back(&mut query, &mut conditions);
        refuse_in_query(&query)?;
        if crate::plan::statement::count_params(&query)? > 0 {
            return Err(SqlError::new("42P02", "there is no parameter $1"));
        }
        let KeptQuery { sql, relations, .. } = self.kept_query(txn, query, Meant::Once).await.map_err(reworded)?;
        Ok(View { sql, relations, ..View::default() })
    }

    async fn create_policy(&mut self, create: &CreatePolicy) -> Result<Tag, SqlError> {
        let command = command_of(create.command.as_ref());
        if create.with_check.is_some() && matches!(command, Command::Select | Command::Delete) {
            return Err(SqlError::syntax("WITH CHECK cannot be applied to SELECT or DELETE"));
        }
        if create.using.is_some() && command == Command::Insert {
            return Err(SqlError::syntax("only WITH CHECK expression allowed for INSERT"));
        }
        let txn = self.ddl_transaction("CREATE POLICY")?;
        let roles = self.policy_roles(&txn, create.to.as_deref()).await?;
        let table = self.policy_table(&txn, &create.table_name).await?;
        let name = name_of(&create.name);
        let permissive = !matches!(create.policy_type, Some(CreatePolicyType::Restrictive));
        let rule = Rule { command, permissive, roles };
        let conditions = Conditions { using: create.using.clone(), check: create.with_check.clone() };
        let view = self.policy_view(&txn, &table, &conditions).await?;
        if txn.policy_named(table.id, &name)?.is_some() {
            return Err(policy_exists(&name, &table));
        }
        let object = self.policy_object(&txn, &table, &rule)?;
        self.settle_ddl(|| txn.create_policy(table.id, &name, object.clone(), view.clone())).await?;
        self.policies_change(&txn, &table).await?;
        Ok(Tag::Fixed("CREATE POLICY"))
    }

    /// Gives a table, which is locked, a new definition: statements that wait for it, or for rows of it, were planned with
    /// other policies, and are planned anew.
    async fn policies_change(&mut self, txn: &Transaction, table: &Arc<Table>) -> Result<(), SqlError> {
        let access = Box::new(access_of(table).clone());
        self.change(txn, table, TableChange::SetAccess(access)).await?;
        Ok(())
    }

    /// Takes roles from the policies that are for them; those that are for nobody else go.
    pub(crate) async fn drop_roles_of_policies(&mut self, txn: &Transaction, roles: &[u32]) -> Result<(), SqlError> {
        for entry in txn.objects(ObjectKind::POLICY)? {
            let policy = Policy::of_entry(&entry)?;
            let mut rule = policy.rule.clone();
            rule.roles.retain(|role| !roles.contains(role));
            let Some(table) = txn.table_by_id(policy.table)?.filter(|_| rule != policy.rule) else { continue };
            let table = self.locked_table(txn, &full_name(&table)).await?;
            let entry = self.locked_policy(txn, &table, policy.name()).await?;
            if rule.roles.is_empty() {
                self.settle_ddl(|| txn.drop_object(&entry)).await?;
            } else {
                let object = self.policy_object(txn, &table, &rule)?;
                let view = policy.view()?.clone();
                self.settle_ddl(|| txn.replace_policy(&entry, object.clone(), view.clone())).await?;
            }
            self.policies_change(txn, &table).await?;
        }
        Ok(())
    }

    /// A policy of a table that is locked, locked against everyone else.
    async fn locked_policy(&mut self, txn: &Transaction, table: &Table, name: &str) -> Result<Arc<Table>, SqlError> {
        let find = |_: &mut Self| txn.policy_named(table.id, name)?.ok_or_else(|| no_policy(name, &table.name));
        self.locked_newest(txn, find).await
    }

    async fn alter_policy(&mut self, alter: &AlterPolicy) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("ALTER POLICY");
        let txn = self.ddl_transaction("ALTER POLICY")?;
        let roles = match &alter.operation {
            AlterPolicyOperation::Apply { to: Some(to), .. } => Some(self.policy_roles(&txn, Some(to)).await?),
            _ => None,
        };
        let table = self.policy_table(&txn, &alter.table_name).await?;
        let name = name_of(&alter.name);
        let entry = self.locked_policy(&txn, &table, &name).await?;
        match &alter.operation {
            AlterPolicyOperation::Rename { new_name } => {
                let to = name_of(new_name);
                if txn.policy_named(table.id, &to)?.is_some() {
                    return Err(policy_exists(&to, &table));
                }
                self.settle_ddl(|| txn.rename_object(&entry, &entry.schema, &to)).await?;
            }
            AlterPolicyOperation::Apply { to: _, using, with_check } => {
                let policy = Policy::of_entry(&entry)?;
                let mut rule = policy.rule.clone();
                if with_check.is_some() && matches!(rule.command, Command::Select | Command::Delete) {
                    return Err(SqlError::syntax("only USING expression allowed for SELECT, DELETE"));
                }
                if using.is_some() && rule.command == Command::Insert {
                    return Err(SqlError::syntax("only WITH CHECK expression allowed for INSERT"));
                }
                rule.roles = roles.unwrap_or(rule.roles);
                let mut view = policy.view()?.clone();
                if using.is_some() || with_check.is_some() {
                    let relation =
                        |id| txn.table_by_id(id).ok().flatten().or_else(|| txn.view_by_id(id).ok().flatten());
                    let mut conditions = policy.conditions(&table, &|_, _| false, &relation)?;
                    conditions.using = using.clone().or(conditions.using);
                    conditions.check = with_check.clone().or(conditions.check);
                    view = self.policy_view(&txn, &table, &conditions).await?;
                }
                let object = self.policy_object(&txn, &table, &rule)?;
                self.settle_ddl(|| txn.replace_policy(&entry, object.clone(), view.clone())).await?;
            }
        }
        self.policies_change(&txn, &table).await?;
        Ok(TAG)
    }

    async fn drop_policy(&mut self, drop: &DropPolicy) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("DROP POLICY");
        let txn = self.ddl_transaction("DROP POLICY")?;
        let table = match self.policy_table(&txn, &drop.table_name).await {
            Err(error) if drop.if_exists && matches!(error.sqlstate.as_str(), "42P01" | "3F000") => {
                self.not_there(&error, "relation", &drop.table_name, true)?;
                return Ok(TAG);
            }
            table => table.map_err(of_relation)?,
        };
        let name = name_of(&drop.name);
        match self.locked_policy(&txn, &table, &name).await {
            Ok(entry) => {
                self.settle_ddl(|| txn.drop_object(&entry)).await?;
                self.policies_change(&txn, &table).await?;
            }
            Err(error) if drop.if_exists && error.sqlstate == "42704" => {
                self.skip(format!("policy \"{name}\" for relation \"{}\" does not exist, skipping", table.name));
            }
            Err(error) => return Err(error),
        }
        Ok(TAG)
    }

    /// The policy that COMMENT ON POLICY names, locked against everyone else.
    pub(super) async fn policy_to_comment(
        &mut self,
        txn: &Transaction,
        table: &ObjectName,
        name: &str,
    ) -> Result<Arc<Table>, SqlError> {
        let table = match self.policy_table(txn, table).await {
            // A view has none.
            Err(error) if error.sqlstate == "42809" => return Err(no_policy(name, &last_name(table)?)),
            table => table.map_err(of_relation)?,
        };
        self.locked_policy(txn, &table, name).await
    }

    /// Drops a policy of a table of which something goes.
    pub(super) async fn drop_policy_entry(&mut self, txn: &Transaction, entry: &Arc<Table>) -> Result<(), SqlError> {
        let Some(table) = entry.policy_of() else { return Err(SqlError::internal("not a policy")) };
        let Some(now) = txn.policy_named(table, &entry.name)? else { return Ok(()) };
        self.settle_ddl(|| txn.drop_object(&now)).await
    }

    /// Drops the policies of a table that is about to be dropped, and is locked.
    pub(super) async fn drop_policies_of(&mut self, txn: &Transaction, table: &Table) -> Result<(), SqlError> {
        for entry in txn.policies_of(table.id)? {
            self.drop_policy_entry(txn, &entry).await?;
        }
        Ok(())
    }

    /// ALTER TABLE … ROW LEVEL SECURITY.
    pub(super) async fn set_row_security(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        set: impl FnOnce(&mut Access),
    ) -> Result<Arc<Table>, SqlError> {
        let mut access = access_of(table).clone();
        set(&mut access);
        self.store_access(txn, table, access).await
    }
}

/// Puts conditions as they were parsed from the statement in the place of their printed texts: errors know their places.
fn put_back(query: &mut datafusion::sql::sqlparser::ast::Query, conditions: &mut Conditions) {
    use datafusion::sql::sqlparser::ast::SetExpr;
    fn put(body: &mut SetExpr, conditions: &mut Conditions) {
        match body {
            SetExpr::SetOperation { left, right, .. } => {
                put(left, conditions);
                put(right, conditions);
            }
            SetExpr::Select(select) => {
                let is_using = select.projection.first().is_some_and(|item| item.to_string() == "1");
                let from = if is_using { &mut conditions.using } else { &mut conditions.check };
                if let Some(condition) = from.take() {
                    select.selection = Some(condition);
                }
            }
            _ => {}
        }
    }
    put(&mut query.body, conditions);
}
