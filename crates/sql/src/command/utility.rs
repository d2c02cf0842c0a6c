//! Statements that are run from their syntax: transactions, settings, prepared statements,
//! maintenance; DDL and COPY are passed on to their modules.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::sql::sqlparser::ast::{
    self, ContextModifier, DiscardObject, Expr, Ident, Reset, Set, Statement, TransactionAccessMode,
    TransactionIsolationLevel, TransactionMode, UnaryOperator, Value,
};
use resurgam_engine::Isolation;

use crate::parse::shape::is_optimizable;
use crate::parse::statement::notify::NotifyCommand;
use crate::pg::context::PgContext;
use crate::pg::errors;
use crate::pg::functions::quote_ident;
use crate::plan::planner::Names;
use crate::plan::statement::{Kind, Prepared, text_field};
use crate::session::Session;
use crate::session::execution::command;
use crate::session::run::text_rows;
use crate::session::settings::Variables;
use crate::session::transaction::NamedSavepoint;
use crate::wire::{Execution, Field, Format, SqlError, Tag};

/// Whether it goes by definitions, and can be run again when they change meanwhile.
pub(crate) fn may_run_again(statement: &Statement) -> bool {
    matches!(
        statement,
        Statement::CreateTable(_)
            | Statement::CreateView(_)
            | Statement::Comment { .. }
            | Statement::CreateIndex(_)
            | Statement::CreateSequence { .. }
            | Statement::CreateType { .. }
            | Statement::Drop { .. }
            | Statement::Truncate(_)
            | Statement::AlterTable(_)
            | Statement::AlterIndex { .. }
            | Statement::CreatePolicy(_)
            | Statement::AlterPolicy(_)
            | Statement::DropPolicy(_)
    )
}

/// Result columns of a utility statement.
pub(crate) fn fields(statement: &Statement) -> Option<Arc<[Field]>> {
    match statement {
        Statement::ShowVariable { variable } => Some(shown_fields(&show_name(variable))),
        _ => None,
    }
}

/// Result columns of SHOW.
pub(crate) fn shown_fields(name: &str) -> Arc<[Field]> {
    if name == "all" {
        let text = |name: &str| text_field(name)[0].clone();
        return Arc::new([text("name"), text("setting"), text("description")]);
    }
    text_field(&Variables::spelling(name))
}

fn show_name(variable: &[Ident]) -> String {
    variable.iter().map(|ident| ident.value.to_ascii_lowercase()).collect::<Vec<_>>().join(".")
}

fn savepoint_name(name: &str, quoted: bool) -> String {
    if quoted { name.to_owned() } else { name.to_lowercase() }
}

impl Session {
    /// Result columns of a utility statement; EXECUTE has those of what it names.
    pub(crate) fn utility_fields(&mut self, statement: &Statement) -> Result<Option<Arc<[Field]>>, SqlError> {
        if let Statement::Execute { name: Some(name), .. } = statement {
            let name = crate::parse::names::last_name(name)?;
            return Ok(self.statements.get(&name).and_then(|named| named.prepared.fields.clone()));
        }
        Ok(fields(statement))
    }

    pub(crate) async fn utility(
        &mut self,
        statement: &Statement,
        text: &Arc<str>,
        formats: &[Format],
        autocommit: bool,
    ) -> Result<Execution, SqlError> {
        match statement {
            Statement::StartTransaction { modes, begin, .. } => {
                self.start_transaction(modes)?;
                command(if *begin { "BEGIN" } else { "START TRANSACTION" })
            }
            Statement::Commit { chain, .. } => {
                let next = self.chained(*chain, "COMMIT")?;
                if self.failed {
                    self.failed = false;
                    self.roll_back();
                    self.begin_chained(next);
                    return command("ROLLBACK");
                }
                if !self.open.as_ref().is_some_and(|open| open.block) {
                    self.notice(SqlError::notice("WARNING", "25P01", "there is no transaction in progress"));
                }
                self.commit().await?;
                self.begin_chained(next);
                command("COMMIT")
            }
            Statement::Rollback { savepoint: Some(name), .. } => {
                let at = self.savepoint(&name.value, name.quote_style.is_some(), "ROLLBACK TO SAVEPOINT")?;
                self.go_back(at)?;
                self.failed = false;
                command("ROLLBACK")
            }
            Statement::Savepoint { name } => {
                self.block_for("SAVEPOINT")?;
                let mark = self.savepoint_mark(savepoint_name(&name.value, name.quote_style.is_some()))?;
                self.transaction().savepoints.push(mark);
                command("SAVEPOINT")
            }
            Statement::ReleaseSavepoint { name } => {
                let at = self.savepoint(&name.value, name.quote_style.is_some(), "RELEASE SAVEPOINT")?;
                self.transaction().savepoints.truncate(at);
                command("RELEASE")
            }
            Statement::Rollback { chain, savepoint: None } => {
                let next = self.chained(*chain, "ROLLBACK")?;
                if !self.failed && !self.open.as_ref().is_some_and(|open| open.block) {
                    self.notice(SqlError::notice("WARNING", "25P01", "there is no transaction in progress"));
                }
                self.failed = false;
                self.roll_back();
                self.begin_chained(next);
                command("ROLLBACK")
            }
            Statement::Set(set) => self.set(set),
            Statement::Reset(reset) => {
                let mut variables = self.shared.variables.lock();
                match &reset.reset {
                    Reset::ALL => variables.reset_all(),
                    Reset::ConfigurationParameter(name) => {
                        variables.set(&name.to_string(), None, false)?;
                    }
                }
                drop(variables);
                command("RESET")
            }
            Statement::ShowVariable { variable } => self.show(&show_name(variable)),
            Statement::Discard { object_type } => {
                if matches!(object_type, DiscardObject::ALL) {
                    self.refuse_in_transaction("DISCARD ALL")?;
                }
                match object_type {
                    DiscardObject::ALL => {
                        self.close_all_portals();
                        self.statements.clear();
                        self.shared.variables.lock().reset_all();
                        self.reset_user()?;
                        if let Some(locks) = self.shared.advisory_used() {
                            locks.release_session(self.shared.pid);
                        }
                        self.run_notify(&NotifyCommand::Unlisten(None))?;
                        self.shared.forget_sequence_values();
                        Box::pin(self.discard_temporary()).await?;
                        command("DISCARD ALL")
                    }
                    DiscardObject::PLANS => command("DISCARD PLANS"),
                    DiscardObject::SEQUENCES => {
                        self.shared.forget_sequence_values();
                        command("DISCARD SEQUENCES")
                    }
                    DiscardObject::TEMP => {
                        Box::pin(self.discard_temporary()).await?;
                        command("DISCARD TEMP")
                    }
                }
            }
            Statement::Prepare { name, data_types, statement } => {
                self.prepare_named(name, data_types, statement, text)?;
                command("PREPARE")
            }
            Statement::Execute { name: Some(name), parameters, .. } => {
                let (prepared, values) = self.execute_named(name, parameters)?;
                // It could be itself, without end.
                if matches!(&prepared.kind, Kind::Utility(inner) if matches!(**inner, Statement::Execute { .. })) {
                    return Err(SqlError::unsupported("EXECUTE of an EXECUTE is not supported"));
                }
                Box::pin(self.run(&prepared, &values, formats, 0, None, autocommit)).await
            }
            Statement::Deallocate { name, .. } => {
                let name =
                    if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() };
                if name == "all" {
                    self.statements.clear();
                    return command("DEALLOCATE ALL");
                }
                if self.statements.remove(&name).is_none() {
                    return Err(SqlError::new("26000", format!("prepared statement \"{name}\" does not exist")));
                }
                command("DEALLOCATE")
            }
            Statement::Copy { .. } => Err(SqlError::internal("a COPY that was not read as one")),
            other => Ok(Execution::Command { tag: Box::pin(self.ddl(other, text)).await? }),
        }
    }

    /// Refuses a statement that is a transaction of its own among others: in a block, in a string
    /// of several statements, behind others of a pipeline.
    pub(crate) fn refuse_in_transaction(&self, what: &str) -> Result<(), SqlError> {
        if self.in_string || self.open.as_ref().is_some_and(|open| open.block || open.used) {
            return Err(SqlError::new("25001", format!("{what} cannot run inside a transaction block")));
        }
        Ok(())
    }

    pub(crate) fn block_for(&self, what: &str) -> Result<(), SqlError> {
        if self.in_block() || self.failed {
            return Ok(());
        }
        Err(SqlError::new("25P01", format!("{what} can only be used in transaction blocks")))
    }

    /// The same, of what strings of several statements may have, too, which are a transaction block of their own.
    pub(crate) fn block_or_string_for(&self, what: &str) -> Result<(), SqlError> {
        if self.in_string { Ok(()) } else { self.block_for(what) }
    }

    /// A savepoint of the transaction as it is now.
    pub(crate) fn savepoint_mark(&mut self, name: String) -> Result<NamedSavepoint, SqlError> {
        let portals = self.portals_made;
        let settings = self.shared.variables.lock().changes();
        let advisory = self.shared.advisory_used().map_or(0, |locks| locks.taken(self.shared.pid));
        let notifications = self.shared.pending.lock().mark();
        let open = self.transaction();
        let savepoint = open.txn.savepoint()?;
        let constraints = open.deferred.lock().modes.clone();
        Ok(NamedSavepoint { name, savepoint, settings, constraints, portals, advisory, notifications })
    }

    /// Where the newest savepoint of that name is.
    fn savepoint(&self, name: &str, quoted: bool, what: &str) -> Result<usize, SqlError> {
        self.block_for(what)?;
        let name = savepoint_name(name, quoted);
        let found = self.open.as_ref().and_then(|open| open.savepoints.iter().rposition(|s| s.name == name));
        found.ok_or_else(|| SqlError::new("3B001", format!("savepoint \"{name}\" does not exist")))
    }

    /// What AND CHAIN begins next: the isolation and access mode of the transaction that ends.
    fn chained(&self, chain: bool, what: &str) -> Result<Option<(Isolation, bool)>, SqlError> {
        if !chain {
            return Ok(None);
        }
        self.block_for(&format!("{what} AND CHAIN"))?;
        let variables = self.shared.variables.lock();
        let default = if variables.repeatable_read { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        Ok(Some(
            self.open.as_ref().map_or((default, variables.read_only), |open| (open.txn.isolation(), open.read_only)),
        ))
    }

    fn begin_chained(&mut self, next: Option<(Isolation, bool)>) {
        if let Some((isolation, read_only)) = next {
            self.begin(isolation, read_only, true);
            self.note_transaction(isolation, &[], "default_transaction_isolation", read_only);
        }
    }

    pub(crate) fn in_block(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.block)
    }

    fn start_transaction(&mut self, modes: &[TransactionMode]) -> Result<(), SqlError> {
        if self.in_block() {
            self.notice(SqlError::notice("WARNING", "25001", "there is already a transaction in progress"));
            return self.set_transaction(modes);
        }
        // What was sent along before it has begun the transaction: an implicit one becomes the block, with what it did.
        if self.open.as_ref().is_some_and(|open| open.used) {
            self.set_modes(modes)?;
            if let Some(open) = &mut self.open {
                open.block = true;
            }
            return Ok(());
        }
        let (mut isolation, mut read_only) = {
            let variables = self.shared.variables.lock();
            let isolation =
                if variables.repeatable_read { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
            (isolation, variables.read_only)
        };
        apply_modes(modes, &mut isolation, &mut read_only)?;
        self.begin(isolation, read_only, true);
        self.note_transaction(isolation, modes, "default_transaction_isolation", read_only);
        Ok(())
    }

    /// What SHOW says of the transaction: its level by the name that `modes` or else the parameter `otherwise` give it.
    fn note_transaction(&mut self, isolation: Isolation, modes: &[TransactionMode], otherwise: &str, read_only: bool) {
        let mut variables = self.shared.variables.lock();
        let names = modes.iter().any(|mode| matches!(mode, TransactionMode::IsolationLevel(_)));
        let name = match isolation {
            Isolation::ReadCommitted if !names && variables.is(otherwise, "read uncommitted") => "read uncommitted",
            isolation => shown_level(isolation, modes),
        };
        if !variables.is("transaction_isolation", name) {
            let _ = variables.set("transaction_isolation", Some(name), true);
        }
        let word = if read_only { "on" } else { "off" };
        if !variables.is("transaction_read_only", word) {
            let _ = variables.set("transaction_read_only", Some(word), true);
        }
    }

    fn set_transaction(&mut self, modes: &[TransactionMode]) -> Result<(), SqlError> {
        if self.in_string {
            self.transaction();
        }
        self.set_modes(modes)
    }

    /// Gives the open transaction, if there is one, other modes: as long as they can still make a difference.
    fn set_modes(&mut self, modes: &[TransactionMode]) -> Result<(), SqlError> {
        let Some(open) = &self.open else { return Ok(()) };
        let (before, mut read_only) = (open.txn.isolation(), open.read_only);
        let mut isolation = before;
        apply_modes(modes, &mut isolation, &mut read_only)?;
        if isolation != before {
            if open.used {
                return Err(SqlError::new("25001", "SET TRANSACTION ISOLATION LEVEL must be called before any query"));
            }
            let block = open.block;
            self.begin(isolation, read_only, block);
        } else if let Some(open) = &mut self.open {
            if open.read_only && !read_only && open.used {
                return Err(SqlError::new("25001", "transaction read-write mode must be set before any query"));
            }
            open.read_only = read_only;
        }
        self.note_transaction(isolation, modes, "transaction_isolation", read_only);
        Ok(())
    }

    /// `SET TRANSACTION SNAPSHOT`: the open transaction reads by what another one shows.
    ///
    /// # Errors
    /// `25001`, `0A000`, `22023`
    fn import_snapshot(&mut self, name: &str) -> Result<(), SqlError> {
        let open = self.transaction();
        if open.used {
            return Err(SqlError::new("25001", "SET TRANSACTION SNAPSHOT must be called before any query"));
        }
        if open.txn.isolation() != Isolation::RepeatableRead {
            let message = "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ";
            return Err(SqlError::unsupported(message));
        }
        let txn = open.txn.clone();
        let unknown = || SqlError::new("22023", format!("invalid snapshot identifier: \"{name}\""));
        let (database, shared) = self.db.exported.find(name).ok_or_else(unknown)?;
        if database != self.db.oid() {
            return Err(SqlError::unsupported("cannot import a snapshot from a different database"));
        }
        if !txn.read_by(&shared)? {
            return Err(unknown());
        }
        // What it reads by stays.
        self.transaction().used = true;
        Ok(())
    }

    /// Whether what is LOCAL to a transaction has one to be local to.
    pub(crate) fn is_local_to_something(&self) -> bool {
        self.in_block() || self.in_string
    }

    fn set(&mut self, set: &Set) -> Result<Execution, SqlError> {
        match set {
            Set::SingleAssignment { scope, variable, values, .. } => {
                let name = variable.to_string().replace('"', "");
                let local = matches!(scope, Some(ContextModifier::Local));
                let value = match values.as_slice() {
                    [Expr::Identifier(ident)]
                        if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
                    {
                        None
                    }
                    values => {
                        let mut texts = values.iter().map(setting_text).collect::<Result<Vec<_>, _>>()?;
                        if name.eq_ignore_ascii_case("search_path") {
                            // Each is one name, whatever is in it.
                            texts = values.iter().zip(texts).map(|(value, text)| listed(value, &text)).collect();
                        }
                        Some(texts.join(", "))
                    }
                };
                self.set_variable(&name, value.as_deref(), local)
            }
            Set::SetTimeZone { local, value } => {
                let text = match value {
                    Expr::Interval(interval) => hours_of(interval)?,
                    value => setting_text(value)?,
                };
                let value = match text.to_ascii_lowercase().as_str() {
                    "default" | "local" => None,
                    _ => Some(text.as_str()),
                };
                self.set_variable("TimeZone", value, *local)
            }
            Set::SetNames { charset_name, .. } => {
                self.set_variable("client_encoding", Some(&charset_name.value), false)
            }
            Set::SetNamesDefault {} => self.set_variable("client_encoding", None, false),
            Set::SetTransaction { modes, snapshot, session: false } => {
                if !self.is_local_to_something() {
                    self.notice(SqlError::notice(
                        "WARNING",
                        "25P01",
                        "SET TRANSACTION can only be used in transaction blocks",
                    ));
                    if snapshot.is_none() {
                        return command("SET");
                    }
                }
                match snapshot {
                    Some(name) => self.import_snapshot(&setting_text(&Expr::Value(name.clone()))?)?,
                    None => self.set_transaction(modes)?,
                }
                command("SET")
            }
            Set::SetTransaction { modes, session: true, .. } => {
                let (mut isolation, mut read_only) = (Isolation::ReadCommitted, false);
                apply_modes(modes, &mut isolation, &mut read_only)?;
                let mut variables = self.shared.variables.lock();
                for mode in modes {
                    match mode {
                        TransactionMode::IsolationLevel(_) => {
                            let name = shown_level(isolation, modes);
                            variables.set("default_transaction_isolation", Some(name), false)?;
                        }
                        TransactionMode::AccessMode(_) => {
                            let value = if read_only { "on" } else { "off" };
                            variables.set("default_transaction_read_only", Some(value), false)?;
                        }
                    }
                }
                drop(variables);
                command("SET")
            }
            _ => Err(SqlError::unsupported("this form of SET is not supported")),
        }
    }

    fn set_variable(&mut self, name: &str, value: Option<&str>, local: bool) -> Result<Execution, SqlError> {
        if local && !self.is_local_to_something() {
            self.notice(SqlError::notice("WARNING", "25P01", "SET LOCAL can only be used in transaction blocks"));
            return command("SET");
        }
        match (name.to_ascii_lowercase().as_str(), value) {
            ("transaction_isolation", Some(level)) => {
                let level = match level.to_ascii_lowercase().as_str() {
                    "repeatable read" => TransactionIsolationLevel::RepeatableRead,
                    "serializable" => TransactionIsolationLevel::Serializable,
                    "read committed" | "read uncommitted" => TransactionIsolationLevel::ReadCommitted,
                    _ => {
                        let text = format!("invalid value for parameter \"transaction_isolation\": \"{level}\"");
                        return Err(SqlError::new("22023", text));
                    }
                };
                self.set_transaction(&[TransactionMode::IsolationLevel(level)])?;
            }
            ("transaction_read_only", Some(value)) => {
                let mode = if matches!(value, "on" | "true" | "1") {
                    TransactionAccessMode::ReadOnly
                } else {
                    TransactionAccessMode::ReadWrite
                };
                self.set_transaction(&[TransactionMode::AccessMode(mode)])?;
            }
            _ => {
                let idle = {
                    let mut variables = self.shared.variables.lock();
                    variables.set(name, value, local)?;
                    variables.is_idle(name)
                };
                if idle {
                    let name = name.to_ascii_lowercase();
                    self.notice(SqlError::notice("WARNING", "01000", format!("parameter \"{name}\" has no effect")));
                }
                self.forget_local();
            }
        }
        command("SET")
    }

    pub(crate) fn show(&mut self, name: &str) -> Result<Execution, SqlError> {
        let fields = shown_fields(name);
        let chunk = if name == "all" {
            use bytes::BufMut;
            let mut chunk = crate::wire::RowChunk { fields: 3, ..Default::default() };
            for setting in self.shared.settings() {
                for text in [setting.name.as_str(), setting.value.as_str(), setting.description] {
                    chunk.bytes.put_i32(text.len() as i32);
                    chunk.bytes.put_slice(text.as_bytes());
                }
                chunk.ends.push(chunk.bytes.len() as u32);
            }
            chunk
        } else {
            text_rows(&[self.shared.show(name)?])
        };
        Ok(Execution::Rows { fields, first: Some(chunk), rows: None, tag: Tag::Fixed("SHOW") })
    }

    fn prepare_named(
        &mut self,
        name: &Ident,
        data_types: &[ast::DataType],
        statement: &Statement,
        whole: &Arc<str>,
    ) -> Result<(), SqlError> {
        let name = if name.quote_style.is_some() { name.value.clone() } else { name.value.to_ascii_lowercase() };
        if self.statements.contains_key(&name) {
            return Err(SqlError::new("42P05", format!("prepared statement \"{name}\" already exists")));
        }
        if !is_optimizable(statement) {
            return Err(SqlError::syntax("PREPARE takes SELECT, VALUES, INSERT, UPDATE, DELETE or MERGE"));
        }
        let declared: Vec<u32> = data_types
            .iter()
            .map(|ty| match crate::pg::types::domain_from_sql(ty) {
                Some(domain) => Ok(domain),
                None => crate::pg::types::arrow_field_from_sql(ty).map(|field| crate::pg::types::field_oid(&field)),
            })
            .collect::<Result<_, _>>()?;
        let text = statement.to_string();
        let prepared = self.prepare_text(&text, &declared)?;
        self.keep(&name, prepared, declared, Some(whole))
    }

    pub(crate) fn execute_named(
        &mut self,
        name: &ast::ObjectName,
        parameters: &[Expr],
    ) -> Result<(Arc<Prepared>, Vec<ScalarValue>), SqlError> {
        let name = crate::parse::names::last_name(name)?;
        let Some(named) = self.statements.get(&name) else {
            return Err(SqlError::new("26000", format!("prepared statement \"{name}\" does not exist")));
        };
        let (prepared, declared) = (Arc::clone(&named.prepared), named.declared.clone());
        let text = Arc::clone(&prepared.text);
        let before = prepared;
        let prepared = self.prepare_text(&text, &declared)?;
        crate::session::prepare::same_result(&before, &prepared)?;
        if parameters.len() != prepared.param_oids.len() {
            return Err(SqlError::syntax(format!("wrong number of parameters for prepared statement \"{name}\""))
                .with_detail(format!(
                    "Expected {} parameters but got {}.",
                    prepared.param_oids.len(),
                    parameters.len()
                )));
        }
        let state = self.state()?;
        let cx = Arc::clone(&self.cx);
        let zone = self.shared.variables.lock().zone;
        let txn = self.transaction().txn.clone();
        let names = Names { state: &state, txn: &txn, cx: &cx };
        let mut values = Vec::with_capacity(parameters.len());
        for (at, (expr, &oid)) in parameters.iter().zip(prepared.param_oids.iter()).enumerate() {
            let value = names.argument(expr, at, oid)?;
            values.push(to_parameter(value, oid, &zone)?);
        }
        prepared.check_domains(&values, &zone)?;
        Ok((prepared, values))
    }
}

/// A value brought to a parameter's type.
fn to_parameter(value: ScalarValue, oid: u32, zone: &crate::pg::datetime::Zone) -> Result<ScalarValue, SqlError> {
    let failed = |error| errors::from_datafusion(error, "");
    let field = crate::pg::types::parameter_field("", oid);
    let value = if value.data_type() == *field.data_type() {
        value
    } else {
        let array = value.to_array().map_err(failed)?;
        let cast = crate::pg::arrow::cast_array(&array, field.data_type(), oid, zone)?;
        ScalarValue::try_from_array(&cast, 0).map_err(failed)?
    };
    Ok(match value {
        // Blanks at its end are no part of a char's value.
        ScalarValue::Utf8View(Some(text)) if oid == crate::pg::types::oid::BPCHAR => {
            ScalarValue::Utf8View(Some(text.trim_end_matches(' ').to_owned()))
        }
        value => value,
    })
}

/// The name of a level, as the last of `modes` says it: READ UNCOMMITTED is READ COMMITTED, and shown by its name.
fn shown_level(isolation: Isolation, modes: &[TransactionMode]) -> &'static str {
    let last = modes.iter().rev().find_map(|mode| match mode {
        TransactionMode::IsolationLevel(level) => Some(level),
        TransactionMode::AccessMode(_) => None,
    });
    match (isolation, last) {
        (Isolation::RepeatableRead, _) => "repeatable read",
        (_, Some(TransactionIsolationLevel::ReadUncommitted)) => "read uncommitted",
        _ => "read committed",
    }
}

fn apply_modes(modes: &[TransactionMode], isolation: &mut Isolation, read_only: &mut bool) -> Result<(), SqlError> {
    for mode in modes {
        match mode {
            TransactionMode::AccessMode(mode) => *read_only = *mode == TransactionAccessMode::ReadOnly,
            TransactionMode::IsolationLevel(level) => {
                *isolation = match level {
                    TransactionIsolationLevel::ReadUncommitted | TransactionIsolationLevel::ReadCommitted => {
                        Isolation::ReadCommitted
                    }
                    TransactionIsolationLevel::RepeatableRead | TransactionIsolationLevel::Snapshot => {
                        Isolation::RepeatableRead
                    }
                    TransactionIsolationLevel::Serializable => {
                        return Err(SqlError::unsupported("isolation level SERIALIZABLE is not supported")
                            .with_hint("REPEATABLE READ gives a consistent snapshot for the whole transaction."));
                    }
                };
            }
        }
    }
    Ok(())
}

/// The hours of an interval that is a time zone: `INTERVAL '-05:30' HOUR TO MINUTE` is -5.5.
fn hours_of(interval: &ast::Interval) -> Result<String, SqlError> {
    let text = setting_text(&interval.value)?;
    let (sign, digits) = match text.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", text.strip_prefix('+').unwrap_or(&text)),
    };
    let (hours, minutes) = digits.split_once(':').unwrap_or((digits, "0"));
    match (hours.parse::<u8>(), minutes.parse::<u8>()) {
        (Ok(hours), Ok(minutes)) if minutes < 60 => {
            Ok(format!("{sign}{}", f64::from(hours) + f64::from(minutes) / 60.0))
        }
        _ => Err(SqlError::unsupported("SET TIME ZONE with this interval is not supported")),
    }
}

/// A name in a list of names.
fn listed(value: &Expr, text: &str) -> String {
    match value {
        Expr::Identifier(ident) if ident.quote_style.is_none() => quote_ident(&text.to_lowercase()),
        _ => quote_ident(text),
    }
}

/// Text of a value in `SET`.
fn setting_text(expr: &Expr) -> Result<String, SqlError> {
    Ok(match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Expr::Identifier(ident) => ident.value.clone(),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{}", setting_text(expr)?),
        other => other.to_string(),
    })
}
