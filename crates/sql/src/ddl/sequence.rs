//! CREATE and DROP SEQUENCE, and the sequences that go with columns: serial types, identity, TRUNCATE … RESTART.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, ColumnDef, DataType, Expr, ObjectName, SequenceOptions, UnaryOperator};
use resurgam_engine::{Attempt, Identity, OwnedSequence, Sequence, Table, TableChange, Transaction};

use super::{check_schema, free_name, full_name, is_relation, made_name, name_of, unsupported};
use crate::dml::{find_column, table_name};
use crate::pg::types::oid;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// A column that gets its values from a sequence of its own.
#[derive(Clone, Debug)]
pub(crate) struct Serial {
    pub options: Sequence,
    pub identity: Identity,
}

fn bounds(width: u8) -> (i64, i64) {
    match width {
        2 => (i64::from(i16::MIN), i64::from(i16::MAX)),
        4 => (i64::from(i32::MIN), i64::from(i32::MAX)),
        _ => (i64::MIN, i64::MAX),
    }
}

fn type_name(width: u8) -> &'static str {
    match width {
        2 => "smallint",
        4 => "integer",
        _ => "bigint",
    }
}

fn width_of(ty: &DataType) -> Result<u8, SqlError> {
    match crate::pg::types::column_type_from_sql(ty).map(|ty| crate::pg::types::column_oid(&ty)) {
        Ok(oid::INT2) => Ok(2),
        Ok(oid::INT4) => Ok(4),
        Ok(oid::INT8) => Ok(8),
        _ => Err(invalid("sequence type must be smallint, integer, or bigint".to_owned())),
    }
}

fn invalid(message: String) -> SqlError {
    SqlError::new("22023", message)
}

/// An integer of an option.
fn number(expr: &Expr) -> Result<i64, SqlError> {
    let text = match expr {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => format!("-{expr}"),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => expr.to_string(),
        other => other.to_string(),
    };
    if text.trim_start_matches('-').bytes().all(|byte| byte.is_ascii_digit()) {
        return text
            .parse()
            .map_err(|_| SqlError::new("22003", format!("value \"{text}\" is out of range for type bigint")));
    }
    Err(SqlError::syntax(format!("syntax error at or near \"{text}\"")))
}

/// The definition that options ask for, of a sequence of a type of so many bytes.
///
/// # Errors
/// `22023` for what contradicts itself, `42601`.
pub(crate) fn definition(width: u8, options: &[SequenceOptions]) -> Result<Sequence, SqlError> {
    let (mut increment, mut min, mut max, mut start, mut cache, mut cycle) = (None, None, None, None, None, None);
    let once = |given: bool| match given {
        true => Err(SqlError::syntax("conflicting or redundant options")),
        false => Ok(()),
    };
    for option in options {
        match option {
            SequenceOptions::IncrementBy(value, _) => once(increment.replace(number(value)?).is_some())?,
            SequenceOptions::MinValue(value) => {
                once(min.replace(value.as_ref().map(number).transpose()?).is_some())?;
            }
            SequenceOptions::MaxValue(value) => {
                once(max.replace(value.as_ref().map(number).transpose()?).is_some())?;
            }
            SequenceOptions::StartWith(value, _) => once(start.replace(number(value)?).is_some())?,
            SequenceOptions::Cache(value) => once(cache.replace(number(value)?).is_some())?,
            // The parser takes CYCLE for `false`.
            SequenceOptions::Cycle(no) => once(cycle.replace(!no).is_some())?,
        }
    }
    let (lowest, highest) = bounds(width);
    let increment = increment.unwrap_or(1);
    if increment == 0 {
        return Err(invalid("INCREMENT must not be zero".to_owned()));
    }
    let max = max.flatten().unwrap_or(if increment > 0 { highest } else { -1 });
    if max > highest || max < lowest {
        return Err(invalid(format!("MAXVALUE ({max}) is out of range for sequence data type {}", type_name(width))));
    }
    let min = min.flatten().unwrap_or(if increment > 0 { 1 } else { lowest });
    if min < lowest || min > highest {
        return Err(invalid(format!("MINVALUE ({min}) is out of range for sequence data type {}", type_name(width))));
    }
    if min >= max {
        return Err(invalid(format!("MINVALUE ({min}) must be less than MAXVALUE ({max})")));
    }
    let start = start.unwrap_or(if increment > 0 { min } else { max });
    if start < min {
        return Err(invalid(format!("START value ({start}) cannot be less than MINVALUE ({min})")));
    }
    if start > max {
        return Err(invalid(format!("START value ({start}) cannot be greater than MAXVALUE ({max})")));
    }
    let cache = cache.unwrap_or(1);
    if cache <= 0 {
        return Err(invalid(format!("CACHE ({cache}) must be greater than zero")));
    }
    Ok(Sequence {
        width,
        start,
        increment,
        min,
        max,
        cache,
        cycle: cycle.unwrap_or(false),
        values: 0,
        begin: start,
        begin_called: false,
        owner: None,
    })
}

/// What a column of a serial type is, with the type that its values have.
pub(crate) fn serial(def: &ColumnDef) -> Result<Option<(Serial, DataType)>, SqlError> {
    let DataType::Custom(name, modifiers) = &def.data_type else { return Ok(None) };
    let [part] = name.0.as_slice() else { return Ok(None) };
    let Some(ident) = part.as_ident() else { return Ok(None) };
    let (width, ty) = match name_of(ident).as_str() {
        "smallserial" | "serial2" => (2, DataType::SmallInt(None)),
        "serial" | "serial4" => (4, DataType::Integer(None)),
        "bigserial" | "serial8" => (8, DataType::BigInt(None)),
        _ => return Ok(None),
    };
    if !modifiers.is_empty() {
        return Err(SqlError::syntax("type modifier is not allowed for a serial type"));
    }
    Ok(Some((Serial { options: definition(width, &[])?, identity: Identity::No }, ty)))
}

/// GENERATED BY DEFAULT AS IDENTITY, of a column of that type.
pub(crate) fn identity(
    generated: &ast::GeneratedAs,
    options: Option<&[SequenceOptions]>,
    def: &ColumnDef,
) -> Result<Serial, SqlError> {
    let width = width_of(&def.data_type)
        .map_err(|_| invalid("identity column type must be smallint, integer, or bigint".to_owned()))?;
    let identity = match generated {
        ast::GeneratedAs::ByDefault => Identity::ByDefault,
        _ => return Err(unsupported("GENERATED ALWAYS AS IDENTITY")),
    };
    Ok(Serial { options: definition(width, options.unwrap_or_default())?, identity })
}

/// The DEFAULT of a column that gets its values from a sequence.
pub(crate) fn default_of(schema: &str, sequence: &str) -> String {
    let quoted = crate::pg::functions::quote_ident(sequence);
    let name = match schema {
        "public" => quoted,
        schema => format!("{}.{quoted}", crate::pg::functions::quote_ident(schema)),
    };
    format!("nextval('{}'::regclass)", name.replace('\'', "''"))
}

/// What is not done to an identity column.
pub(crate) fn is_identity(table: &Table, at: usize) -> SqlError {
    let column = &table.columns[at].name;
    SqlError::syntax(format!("column \"{column}\" of relation \"{}\" is an identity column", table.name))
}

/// The name of the sequence of a column.
pub(crate) fn name_for(txn: &Transaction, schema: &str, table: &str, column: &str) -> Result<String, SqlError> {
    let taken = |name: &str| Ok(name == table || is_relation(txn, schema, name)?);
    free_name(made_name(table, &[column], "seq"), &taken)
}

/// Columns whose DEFAULT names a sequence.
fn defaults_of(txn: &Transaction, sequence: &Table) -> Result<Vec<(Arc<Table>, usize)>, SqlError> {
    let quoted = crate::pg::functions::quote_ident(&sequence.name).replace('\'', "''");
    let names = [format!("'{quoted}'"), format!("'{}.{quoted}'", sequence.schema)];
    let mut found = Vec::new();
    for table in txn.tables()? {
        for (at, column) in table.columns.iter().enumerate() {
            let Some(sql) = &column.default_sql else { continue };
            let sql = sql.to_lowercase();
            if sql.contains("nextval") && names.iter().any(|name| sql.contains(&name.to_lowercase())) {
                found.push((Arc::clone(&table), at));
            }
        }
    }
    Ok(found)
}

impl Session {
    /// Makes the sequences of a table's columns, which their DEFAULTs name.
    pub(super) async fn add_serials(
        &mut self,
        txn: &Transaction,
        table: Arc<Table>,
        serials: &[(String, String, Serial)],
    ) -> Result<Arc<Table>, SqlError> {
        if serials.is_empty() {
            return Ok(table);
        }
        let mut owned = table.owned.clone();
        for (column, name, serial) in serials {
            let Some(at) = table.columns.iter().position(|known| known.name == *column) else { continue };
            let options = Sequence { owner: Some(table.id), ..serial.options.clone() };
            let made = self.settle_ddl(|| txn.create_sequence(&table.schema, name, options.clone())).await?;
            owned.push(OwnedSequence { column: at, sequence: made.id, identity: serial.identity });
        }
        self.settle_ddl(|| txn.set_owned(&table, owned.clone())).await
    }

    /// CREATE SEQUENCE.
    pub(super) async fn create_sequence(&mut self, statement: &ast::Statement) -> Result<Tag, SqlError> {
        const TAG: Tag = Tag::Fixed("CREATE SEQUENCE");
        let ast::Statement::CreateSequence { temporary, if_not_exists, name, data_type, sequence_options, owned_by } =
            statement
        else {
            return Err(SqlError::internal("not CREATE SEQUENCE"));
        };
        if *temporary {
            return Err(unsupported("a temporary sequence"));
        }
        let txn = self.ddl_transaction("CREATE SEQUENCE")?;
        let (schema, name) = table_name(name)?;
        check_schema(&schema)?;
        if is_relation(&txn, &schema, &name)? {
            if *if_not_exists {
                self.skip(format!("relation \"{name}\" already exists, skipping"));
                return Ok(TAG);
            }
            return Err(SqlError::new("42P07", format!("relation \"{name}\" already exists")));
        }
        let width = data_type.as_ref().map_or(Ok(8), width_of)?;
        let mut options = definition(width, sequence_options)?;
        let mut owner = None;
        if let Some(of) = owned_by
            && !of.to_string().eq_ignore_ascii_case("none")
        {
            let mut parts = of.0.clone();
            let column = parts.pop().and_then(|part| part.as_ident().cloned());
            let Some(column) = column.filter(|_| !parts.is_empty()) else {
                return Err(SqlError::syntax("invalid OWNED BY option")
                    .with_hint("Specify OWNED BY table.column or OWNED BY NONE."));
            };
            let table = self.locked_table(&txn, &ObjectName(parts)).await?;
            let at = find_column(&table, &column)?;
            options.owner = Some(table.id);
            owner = Some((table, at));
        }
        let made = self.settle_ddl(|| txn.create_sequence(&schema, &name, options.clone())).await?;
        if let Some((table, at)) = owner {
            let mut owned = table.owned.clone();
            owned.push(OwnedSequence { column: at, sequence: made.id, identity: Identity::No });
            self.settle_ddl(|| txn.set_owned(&table, owned.clone())).await?;
        }
        Ok(TAG)
    }

    /// DROP SEQUENCE.
    pub(super) async fn drop_sequences(
        &mut self,
        if_exists: bool,
        names: &[ObjectName],
        cascade: bool,
    ) -> Result<Tag, SqlError> {
        let txn = self.ddl_transaction("DROP SEQUENCE")?;
        for name in names {
            let (schema, wanted) = table_name(name)?;
            let Some(sequence) = txn.sequence_named(&schema, &wanted)? else {
                if is_relation(&txn, &schema, &wanted)? {
                    return Err(SqlError::new("42809", format!("\"{wanted}\" is not a sequence")));
                }
                if if_exists {
                    self.skip(format!("sequence \"{wanted}\" does not exist, skipping"));
                    continue;
                }
                return Err(SqlError::new("42P01", format!("sequence \"{wanted}\" does not exist")));
            };
            let shown = crate::pg::functions::quote_ident(&sequence.name);
            for (table, at) in defaults_of(&txn, &sequence)? {
                let column = &table.columns[at].name;
                let identity = table.owned.iter().find(|owned| owned.sequence == sequence.id);
                if identity.is_some_and(|owned| owned.identity != Identity::No) {
                    let of = format!("column {column} of table {}", table.name);
                    return Err(SqlError::new(
                        "2BP01",
                        format!("cannot drop sequence {shown} because {of} requires it"),
                    )
                    .with_hint(format!("You can drop {of} instead.")));
                }
                let what = format!("default value for column {column} of table {}", table.name);
                if !cascade {
                    let text = format!("cannot drop sequence {shown} because other objects depend on it");
                    return Err(SqlError::new("2BP01", text)
                        .with_detail(format!("{what} depends on sequence {shown}"))
                        .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
                }
                self.skip(format!("drop cascades to {what}"));
                let table = self.locked_table(&txn, &full_name(&table)).await?;
                let change = TableChange::SetDefault(at, None);
                self.settle_ddl(|| txn.alter_table(&table, change.clone())).await?;
            }
            if let Some(owner) = sequence.sequence.as_ref().and_then(|sequence| sequence.owner)
                && let Some(table) = txn.table_by_id(owner)?
            {
                let table = self.locked_table(&txn, &full_name(&table)).await?;
                let mut owned = table.owned.clone();
                owned.retain(|owned| owned.sequence != sequence.id);
                self.settle_ddl(|| txn.set_owned(&table, owned.clone())).await?;
            }
            self.settle_ddl(|| txn.drop_sequence(&sequence)).await?;
        }
        Ok(Tag::Fixed("DROP SEQUENCE"))
    }

    /// Drops the sequences that went with columns of a table which are gone by now.
    pub(super) async fn drop_owned(&mut self, txn: &Transaction, gone: &[OwnedSequence]) -> Result<(), SqlError> {
        for owned in gone {
            if let Some(sequence) = txn.sequence_by_id(owned.sequence)? {
                if let Some((table, at)) = defaults_of(txn, &sequence)?.first() {
                    let shown = crate::pg::functions::quote_ident(&sequence.name);
                    let text = format!("cannot drop sequence {shown} because other objects depend on it");
                    let column = &table.columns[*at].name;
                    let what = format!("default value for column {column} of table {}", table.name);
                    return Err(SqlError::new("2BP01", text)
                        .with_detail(format!("{what} depends on sequence {shown}"))
                        .with_hint("Use DROP ... CASCADE to drop the dependent objects too."));
                }
                self.settle_ddl(|| txn.drop_sequence(&sequence)).await?;
            }
        }
        Ok(())
    }

    /// TRUNCATE … RESTART IDENTITY.
    pub(super) async fn restart_owned(&mut self, txn: &Transaction, table: &Table) -> Result<(), SqlError> {
        for owned in &table.owned {
            let Some(sequence) = txn.sequence_by_id(owned.sequence)? else { continue };
            let Some(definition) = sequence.sequence.as_deref() else { continue };
            let anew = Sequence { begin: definition.start, begin_called: false, ..definition.clone() };
            self.settle_ddl(|| -> resurgam_base::Result<Attempt<Arc<Table>>> {
                txn.replace_sequence(&sequence, anew.clone(), true)
            })
            .await?;
        }
        Ok(())
    }
}
