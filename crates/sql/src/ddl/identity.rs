//! ALTER COLUMN … ADD GENERATED … AS IDENTITY, SET GENERATED, SET an option of its sequence, RESTART, DROP IDENTITY.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GeneratedAs, ObjectName, SequenceOptions, Value,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use resurgam_engine::{ColumnType, Identity, OwnedSequence, Sequence, Table, TableChange, Transaction};

use crate::ddl::full_name;
use crate::ddl::sequence::{default_of, elsewhere, name_for, no_type_of_identity};
use crate::parse::identity::IDENTITY;
use crate::parse::names::{object_name, parts_of, unsupported};
use crate::parse::statement::sequence_options::{self, SequenceOption, of_parser, read_option, read_restart};
use crate::parse::words::Words;
use crate::pg::types::column_oid;
use crate::session::Session;
use crate::wire::SqlError;

/// What is done to a column.
enum Action {
    Drop {
        if_exists: bool,
    },
    Set {
        generated: Option<Identity>,
        options: Vec<SequenceOption>,
    },
    /// With a name for its sequence.
    Add {
        generated: Identity,
        sequence: ObjectName,
        options: Vec<SequenceOption>,
    },
}

/// The clauses that a default stands for.
pub(super) fn clauses(expr: &Expr) -> Option<&str> {
    let Expr::Function(call) = expr else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    match list.args.first() {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ast::ValueWithSpan {
            value: Value::SingleQuotedString(text),
            ..
        }))))
            if call.name.to_string() == IDENTITY =>
        {
            Some(text)
        }
        _ => None,
    }
}

fn read(text: &str) -> Result<Action, SqlError> {
    let Some(mut words) = Words::of(text) else { return Err(SqlError::syntax("syntax error in ALTER COLUMN")) };
    if words.take_words(&["drop", "identity"]) {
        let if_exists = words.take_words(&["if", "exists"]);
        return words.expect_end().map(|()| Action::Drop { if_exists });
    }
    if words.take_words(&["add", "generated"]) {
        return read_add(&mut words);
    }
    let (mut generated, mut options) = (None, Vec::new());
    while !words.is_at_end() {
        if words.take_word("restart") {
            options.push(read_restart(&mut words)?);
        } else if words.take_words(&["set", "generated"]) {
            let given = match () {
                () if words.take_word("always") => Identity::Always,
                () if words.take_words(&["by", "default"]) => Identity::ByDefault,
                () => return Err(words.unexpected()),
            };
            if generated.replace(given).is_some() {
                return Err(SqlError::syntax("conflicting or redundant options"));
            }
        } else if words.take_word("set") {
            options.push(read_option(&mut words)?);
        } else {
            return Err(words.unexpected());
        }
    }
    if options.iter().any(|option| matches!(option, SequenceOption::OwnedBy(_))) {
        return Err(unsupported("OWNED BY of an identity column"));
    }
    Ok(Action::Set { generated, options })
}

/// ADD GENERATED, whose two words are taken.
fn read_add(words: &mut Words<'_>) -> Result<Action, SqlError> {
    let generated = match () {
        () if words.take_word("always") => Identity::Always,
        () if words.take_words(&["by", "default"]) => Identity::ByDefault,
        () => return Err(words.unexpected()),
    };
    if !words.take_words(&["as", "identity"]) || !words.take(&Token::LParen) {
        return Err(words.unexpected());
    }
    let (mut sequence, mut options) = (None, Vec::new());
    while !words.take(&Token::RParen) {
        if words.take_words(&["sequence", "name"]) {
            if sequence.replace(object_name(words)?).is_some() {
                return Err(SqlError::syntax("conflicting or redundant options"));
            }
        } else {
            options.push(read_option(words)?);
        }
    }
    words.expect_end()?;
    let sequence = sequence.ok_or_else(|| words.unexpected())?;
    Ok(Action::Add { generated, sequence, options })
}

/// What is not done to an identity column.
pub(super) fn is_identity(table: &Table, at: usize) -> SqlError {
    let column = &table.columns[at].name;
    SqlError::syntax(format!("column \"{column}\" of relation \"{}\" is an identity column", table.name))
}

/// The sequence that a column is made of.
fn sequence_of(table: &Table, at: usize) -> Option<OwnedSequence> {
    table.owned.iter().find(|owned| owned.column == at && owned.identity != Identity::No).copied()
}

impl Session {
    /// Runs the clauses that [`clauses`] gives.
    pub(super) async fn alter_identity(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
        text: &str,
    ) -> Result<Arc<Table>, SqlError> {
        let action = read(text).map_err(|mut error| {
            // In other words than the client's.
            error.position = None;
            error
        })?;
        if let Action::Add { generated, sequence, options } = action {
            let (schema, name) = parts_of(&sequence)?;
            if schema.is_some_and(|schema| schema != table.schema) {
                return Err(elsewhere());
            }
            return self.add_identity_named(txn, table, at, generated, Some(name), &options).await;
        }
        let Some(part) = sequence_of(table, at) else {
            let (column, name) = (&table.columns[at].name, &table.name);
            let message = format!("column \"{column}\" of relation \"{name}\" is not an identity column");
            if let Action::Drop { if_exists: true } = action {
                self.skip(format!("{message}, skipping"));
                return Ok(Arc::clone(table));
            }
            return Err(SqlError::new("55000", message));
        };
        match action {
            Action::Drop { .. } => {
                let table = self.change(txn, table, TableChange::SetDefault(at, None)).await?;
                let mut owned = table.owned.clone();
                owned.retain(|owned| owned.sequence != part.sequence);
                let table = self.settle_ddl(|| txn.set_owned(&table, owned.clone())).await?;
                self.drop_owned(txn, &[part], None, false, &[]).await?;
                Ok(table)
            }
            Action::Add { .. } => Err(SqlError::internal("an identity column was not added")),
            Action::Set { generated, options } => {
                self.change_owned(txn, part.sequence, &options).await?;
                let Some(identity) = generated else { return Ok(Arc::clone(table)) };
                let mut owned = table.owned.clone();
                for owned in owned.iter_mut().filter(|owned| owned.sequence == part.sequence) {
                    owned.identity = identity;
                }
                self.settle_ddl(|| txn.set_owned(table, owned.clone())).await
            }
        }
    }

    async fn change_owned(
        &mut self,
        txn: &Transaction,
        sequence: u32,
        options: &[SequenceOption],
    ) -> Result<(), SqlError> {
        if options.is_empty() {
            return Ok(());
        }
        let Some(sequence) = txn.sequence_by_id(sequence)? else {
            return Err(SqlError::internal("an identity column without its sequence"));
        };
        let sequence = self.locked_sequence(txn, &full_name(&sequence)).await?;
        self.change_sequence(txn, &sequence, options).await?;
        Ok(())
    }

    /// ADD GENERATED … AS IDENTITY.
    pub(super) async fn add_identity(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
        generated: Option<&GeneratedAs>,
        options: Option<&[SequenceOptions]>,
    ) -> Result<Arc<Table>, SqlError> {
        let identity = if generated == Some(&GeneratedAs::ByDefault) { Identity::ByDefault } else { Identity::Always };
        let options = of_parser(options.unwrap_or_default())?;
        self.add_identity_named(txn, table, at, identity, None, &options).await
    }

    /// The same, with a name for the sequence.
    async fn add_identity_named(
        &mut self,
        txn: &Transaction,
        table: &Arc<Table>,
        at: usize,
        identity: Identity,
        name: Option<String>,
        options: &[SequenceOption],
    ) -> Result<Arc<Table>, SqlError> {
        let column = &table.columns[at];
        let width = sequence_options::width_of(column_oid(&column.ty)).ok_or_else(no_type_of_identity)?;
        let options = sequence_options::new(width, options)?;
        let refused = |what: &str| {
            SqlError::new("55000", format!("column \"{}\" of relation \"{}\" {what}", column.name, table.name))
        };
        if column.nullable {
            return Err(refused("must be declared NOT NULL before identity can be added"));
        }
        if sequence_of(table, at).is_some() {
            return Err(refused("is already an identity column"));
        }
        if column.default_sql.is_some() || table.generated(at).is_some() {
            return Err(refused("already has a default value"));
        }
        let name = match name {
            Some(name) => name,
            None => name_for(txn, &table.schema, &table.name, &column.name)?,
        };
        let options = Sequence { owner: Some(table.id), ..options };
        let made = self.settle_ddl(|| txn.create_sequence(&table.schema, &name, options.clone())).await?;
        let default = default_of(&table.schema, &name);
        let table = self.change(txn, table, TableChange::SetDefault(at, Some(default))).await?;
        let mut owned = table.owned.clone();
        owned.push(OwnedSequence { column: at, sequence: made.id, identity });
        self.settle_ddl(|| txn.set_owned(&table, owned.clone())).await
    }

    /// After a column's type was changed: the sequence of an identity column follows it.
    pub(super) async fn retype_identity(
        &mut self,
        txn: &Transaction,
        table: &Table,
        at: usize,
    ) -> Result<(), SqlError> {
        let Some(part) = sequence_of(table, at) else { return Ok(()) };
        let width = sequence_options::width_of(column_oid(&table.columns[at].ty)).ok_or_else(no_type_of_identity)?;
        self.change_owned(txn, part.sequence, &[SequenceOption::As(width)]).await
    }
}

/// `22023` for a type that an identity column cannot have.
pub(super) fn refuse_type(table: &Table, at: usize, ty: &ColumnType) -> Result<(), SqlError> {
    match sequence_of(table, at).is_some() && sequence_options::width_of(column_oid(ty)).is_none() {
        true => Err(no_type_of_identity()),
        false => Ok(()),
    }
}
