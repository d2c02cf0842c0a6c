//! Running the statements that the parser does not know.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType};

use crate::command::apart::Ending;
use crate::command::utility::shown_fields;
use crate::parse::own::Own;
use crate::session::Session;
use crate::session::execution::command;
use crate::wire::{Execution, Field, SqlError, Tag};

/// Result columns of such a statement; `None` if it has none.
pub(crate) fn fields(own: &Own) -> Option<Arc<[Field]>> {
    match own {
        Own::Show(name) => Some(shown_fields(name)),
        _ => None,
    }
}

impl Session {
    /// Runs one.
    pub(crate) async fn run_own(&mut self, own: &Own) -> Result<Execution, SqlError> {
        match own {
            Own::Vacuum { .. } | Own::CleanupProcedure { .. } => self.vacuum(own).await,
            Own::Analyze { verbose, tables } => Box::pin(self.analyze(*verbose, tables)).await,
            Own::Role(command) => Box::pin(self.run_role(command)).await,
            Own::Grant(command) => Box::pin(self.run_grant(command)).await,
            Own::Defaults(command) => Box::pin(self.run_defaults(command)).await,
            Own::Owner(command) => Box::pin(self.run_owner(command)).await,
            Own::ResetZone => {
                self.shared.variables.lock().set("TimeZone", None, false)?;
                command("RESET")
            }
            Own::Checkpoint => {
                if !self.rights()?.has_rights_of(self.role(), crate::pg::roles::PG_CHECKPOINT) {
                    return Err(SqlError::new(
                        "42501",
                        "must be superuser or have privileges of pg_checkpoint to do CHECKPOINT",
                    ));
                }
                self.apart_until_stopped(Ending::Abandoned, |engine, _| engine.checkpoint()).await?;
                command("CHECKPOINT")
            }
            Own::SetRecovery { database, accelerated } => {
                let accelerated = *accelerated;
                self.refuse_in_transaction("ALTER DATABASE")?;
                let rights = self.rights()?;
                let name = database.as_deref().unwrap_or(&self.shared.database_name);
                let found = rights.databases.iter().find(|known| known.name.eq_ignore_ascii_case(name));
                let database = found.ok_or_else(|| crate::pg::roles::no_database(name))?;
                self.must_own_database(&rights, database)?;
                if database.oid != resurgam_engine::FIRST_DATABASE {
                    let first = crate::pg::roles::FIRST_DATABASE_NAME;
                    return Err(SqlError::unsupported(
                        "accelerated_database_recovery is a setting of all databases together",
                    )
                    .with_hint(format!("Set it for the first one, \"{first}\".")));
                }
                self.apart_until_stopped(Ending::Awaited, move |engine, cancelled| {
                    engine.set_accelerated_recovery(accelerated, cancelled)
                })
                .await?;
                command("ALTER DATABASE")
            }
            Own::PrepareTransaction { gid } => self.prepare_transaction(gid).await,
            Own::CommitPrepared { gid } => self.finish_prepared(gid, true).await,
            Own::RollbackPrepared { gid } => self.finish_prepared(gid, false).await,
            Own::AlterView(alter) => {
                self.ddl_deadline = self.deadline();
                Ok(Execution::Command { tag: self.alter_view(alter, false).await? })
            }
            Own::AlterSequence(alter) => Ok(Execution::Command { tag: self.alter_sequence(alter).await? }),
            Own::AlterType(alter) => Ok(Execution::Command { tag: self.alter_type(alter).await? }),
            Own::CreateDomain(create) => Ok(Execution::Command { tag: Box::pin(self.create_domain(create)).await? }),
            Own::AlterDomain(alter) => Ok(Execution::Command { tag: self.alter_domain(alter).await? }),
            Own::DropDomain { if_exists, names, cascade } => {
                self.ddl_deadline = self.deadline();
                Ok(Execution::Command { tag: self.drop_types(true, *if_exists, names, *cascade).await? })
            }
            Own::Database(statement) => {
                Ok(Execution::Command { tag: Box::pin(self.database_statement(statement)).await? })
            }
            Own::Schema(statement) => Ok(Execution::Command { tag: Box::pin(self.schema_statement(statement)).await? }),
            Own::Extension(statement) => {
                Ok(Execution::Command { tag: Box::pin(self.extension_statement(statement)).await? })
            }
            Own::Function(statement) => {
                Ok(Execution::Command { tag: Box::pin(self.function_statement(statement)).await? })
            }
            Own::SetSchema(alter) => Ok(Execution::Command { tag: Box::pin(self.alter_set_schema(alter)).await? }),
            Own::AlterIndex(alter) => Ok(Execution::Command { tag: Box::pin(self.alter_index_storage(alter)).await? }),
            Own::Lock(lock) => Box::pin(self.lock_tables(lock)).await,
            Own::Notify(statement) => self.run_notify(statement),
            Own::SetConstraints(wanted) => self.set_constraints(wanted).await,
            Own::Close(name) => Ok(Execution::Command { tag: self.close_cursor(name.as_deref())? }),
            // With the query planned, by who knows the formats, and by who knows how the data goes.
            Own::Declare(_) | Own::Fetch(_) | Own::Copy(_) => {
                Err(SqlError::internal("a statement that is run elsewhere"))
            }
            Own::Do(block) => Box::pin(self.run_do(block)).await,
            Own::Show(name) => self.show(name),
            Own::DropIndexApart { if_exists, names, cascade } => {
                Ok(Execution::Command { tag: Box::pin(self.drop_index_apart(*if_exists, names, *cascade)).await? })
            }
            Own::Reindex(reindex) => Box::pin(self.reindex(reindex)).await,
            Own::Cluster => {
                self.refuse_in_transaction("CLUSTER")?;
                command("CLUSTER")
            }
            Own::Refused(refused) => {
                let what = &refused.what;
                if refused.superuser && !self.rights()?.is_superuser(self.role()) {
                    return Err(SqlError::new("42501", format!("must be superuser to execute {what} command")));
                }
                Err(SqlError::unsupported(format!("{what} is not supported")))
            }
        }
    }

    /// DROP INDEX CONCURRENTLY. It waits for those who use the table, as DROP INDEX does, and is a transaction of its own.
    async fn drop_index_apart(
        &mut self,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
    ) -> Result<Tag, SqlError> {
        if names.len() > 1 {
            return Err(SqlError::unsupported("DROP INDEX CONCURRENTLY does not support dropping multiple objects"));
        }
        if cascade {
            return Err(SqlError::unsupported("DROP INDEX CONCURRENTLY does not support CASCADE"));
        }
        self.refuse_in_transaction("DROP INDEX CONCURRENTLY")?;
        self.ddl_deadline = self.deadline();
        self.drop_objects(ObjectType::Index, if_exists, names, false).await
    }
}
