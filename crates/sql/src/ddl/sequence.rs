//! CREATE and DROP SEQUENCE, and the sequences that go with columns: serial types, identity, TRUNCATE … RESTART.

use std::sync::Arc;

use datafusion::sql::sqlparser::ast::{self, ColumnDef, DataType, ObjectName, SequenceOptions};
use resurgam_engine::{Attempt, Identity, OwnedSequence, Sequence, Table, TableChange, Transaction};

use crate::ddl::needed::{drop_hint, needed_by};
use crate::ddl::{free_name, full_name, is_relation};
use crate::parse::names::{name_of, object_name, parts_of};
use crate::parse::statement::sequence_options::{self, invalid, no_type_of_sequences};
use crate::parse::words::Words;
use crate::pg::catalog::split_name;
use crate::pg::functions::quote_ident;
use crate::pg::sequence_names;
use crate::plan::lookup::Lookup;
use crate::session::Session;
use crate::wire::{SqlError, Tag};

/// A column that gets its values from a sequence of its own.
#[derive(Clone, Debug)]
pub(crate) struct Serial {
    pub options: Sequence,
    pub identity: Identity,
    /// What SEQUENCE NAME says: perhaps a schema, and a name.
    pub name: Option<(Option<String>, String)>,
}

impl Serial {
    /// The name that is given, for a column of a table in that schema.
    ///
    /// # Errors
    /// `55000`: it is in another one.
    pub(super) fn name_in(&self, table_schema: &str) -> Result<Option<String>, SqlError> {
        match &self.name {
            Some((Some(schema), _)) if schema != table_schema => Err(elsewhere()),
            Some((_, name)) => Ok(Some(name.clone())),
            None => Ok(None),
        }
    }
}

/// `55000`
pub(super) fn elsewhere() -> SqlError {
    SqlError::new("55000", "sequence must be in same schema as table it is linked to")
}

/// The name behind [`crate::parse::sequence::NAME`].
pub(crate) fn read_name(text: &str) -> Result<(Option<String>, String), SqlError> {
    let unread = || SqlError::syntax("syntax error in SEQUENCE NAME");
    let mut words = Words::of(text).ok_or_else(unread)?;
    let name = object_name(&mut words)?;
    words.expect_end()?;
    parts_of(&name)
}

/// Bytes of a sequence's type.
fn width_of(ty: &DataType) -> Result<u8, SqlError> {
    let ty = crate::pg::types::column_type_from_sql(ty).map(|ty| crate::pg::types::column_oid(&ty));
    ty.ok().and_then(sequence_options::width_of).ok_or_else(no_type_of_sequences)
}

/// The definition that options of the parser's ask for.
fn definition(width: u8, options: &[SequenceOptions]) -> Result<Sequence, SqlError> {
    sequence_options::new(width, &sequence_options::of_parser(options)?)
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
    Ok(Some((Serial { options: definition(width, &[])?, identity: Identity::No, name: None }, ty)))
}

/// GENERATED … AS IDENTITY, of a column of that type.
pub(crate) fn identity(
    generated: &ast::GeneratedAs,
    options: Option<&[SequenceOptions]>,
    def: &ColumnDef,
) -> Result<Serial, SqlError> {
    let width = width_of(&def.data_type).map_err(|_| no_type_of_identity())?;
    let identity = match generated {
        ast::GeneratedAs::ByDefault => Identity::ByDefault,
        _ => Identity::Always,
    };
    Ok(Serial { options: definition(width, options.unwrap_or_default())?, identity, name: None })
}

/// `22023`
pub(super) fn no_type_of_identity() -> SqlError {
    invalid("identity column type must be smallint, integer, or bigint".to_owned())
}

/// The name of a sequence as `regclass` shows it.
pub(super) fn qualified(schema: &str, sequence: &str) -> String {
    let quoted = quote_ident(sequence);
    match schema {
        "public" => quoted,
        schema => format!("{}.{quoted}", quote_ident(schema)),
    }
}

/// The DEFAULT of a column that gets its values from a sequence.
pub(crate) fn default_of(schema: &str, sequence: &str) -> String {
    format!("nextval('{}'::regclass)", qualified(schema, sequence).replace('\'', "''"))
}

/// The name of the sequence of a column.
pub(crate) fn name_for(txn: &Transaction, schema: &str, table: &str, column: &str) -> Result<String, SqlError> {
    let taken = |name: &str| Ok(name == table || is_relation(txn, schema, name)?);
    free_name(table, &[column], "seq", &taken)
}

/// Whether a name in a DEFAULT is that of a sequence.
pub(super) fn is_name_of(name: &str, sequence: &Table) -> bool {
    match split_name(name).as_deref() {
        Some([name]) => sequence.schema == "public" && *name == sequence.name,
        Some([schema, name]) => *schema == sequence.schema && *name == sequence.name,
        _ => false,
    }
}

/// Columns whose DEFAULT names a sequence.
pub(super) fn defaults_of(txn: &Transaction, sequence: &Table) -> Result<Vec<(Arc<Table>, usize)>, SqlError> {
    let mut found = Vec::new();
    for table in txn.tables()? {
        for (at, column) in table.columns.iter().enumerate() {
            let Some(sql) = &column.default_sql else { continue };
            if sequence_names::named(sql).iter().any(|name| is_name_of(name, sequence)) {
                found.push((Arc::clone(&table), at));
            }
        }
    }
    Ok(found)
}

/// A DEFAULT, as errors call it.
fn default_name(lookup: &Lookup<'_>, (table, at): &(Arc<Table>, usize)) -> Result<String, SqlError> {
    let column = quote_ident(&table.columns[*at].name);
    Ok(format!("default value for column {column} of table {}", lookup.shown(table)?))
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
            let made = self.own_new(txn, made).await?;
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
        let txn = self.ddl_transaction("CREATE SEQUENCE")?;
        let (schema, name) = match *temporary {
            true => self.temporary_place_for(&txn, name).await?,
            false => self.place_for(&txn, name).await?,
        };
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
            let parts: Vec<String> = of.0.iter().filter_map(|part| part.as_ident()).map(name_of).collect();
            let (table, at) = self.owner_named(&txn, &parts, (&schema, self.role())).await?;
            options.owner = Some(table.id);
            owner = Some((table, at));
        }
        let made = self.settle_ddl(|| txn.create_sequence(&schema, &name, options.clone())).await?;
        let made = self.own_new(&txn, made).await?;
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
        let mut sequences: Vec<Arc<Table>> = Vec::new();
        for name in names {
            let (schema, wanted) = self.lookup(&txn).place(name)?;
            if let Some(sequence) = txn.sequence_named(&schema, &wanted)? {
                self.may_drop(&sequence, "sequence", &wanted)?;
            }
            match self.locked_sequence(&txn, name).await {
                Ok(sequence) if sequences.iter().any(|known| known.id == sequence.id) => {}
                Ok(sequence) => sequences.push(sequence),
                Err(error) if matches!(error.sqlstate.as_str(), "42P01" | "3F000") => {
                    self.not_there(&error, "sequence", name, if_exists)?;
                }
                Err(error) if error.sqlstate == "42809" => {
                    let (schema, wanted) = self.lookup(&txn).place(name)?;
                    return Err(error.with_hint(drop_hint(&txn, &schema, &wanted)?));
                }
                Err(error) => return Err(error),
            }
        }
        for sequence in &sequences {
            let owner = sequence.sequence.as_ref().and_then(|sequence| sequence.owner);
            let Some(table) = owner.map(|owner| txn.table_by_id(owner)).transpose()?.flatten() else { continue };
            let part = table.owned.iter().find(|owned| owned.sequence == sequence.id && owned.identity != Identity::No);
            if let Some(part) = part {
                let of = format!("column {} of table {}", table.columns[part.column].name, table.name);
                let shown = quote_ident(&sequence.name);
                return Err(SqlError::new("2BP01", format!("cannot drop sequence {shown} because {of} requires it"))
                    .with_hint(format!("You can drop {of} instead.")));
            }
        }
        self.drop_defaults_of(&txn, &sequences, None, cascade, &[]).await?;
        for sequence in &sequences {
            if let Some(owner) = sequence.sequence.as_ref().and_then(|sequence| sequence.owner)
                && let Some(table) = txn.table_by_id(owner)?
            {
                let table = self.locked_table(&txn, &full_name(&table)).await?;
                let mut owned = table.owned.clone();
                owned.retain(|owned| owned.sequence != sequence.id);
                self.settle_ddl(|| txn.set_owned(&table, owned.clone())).await?;
            }
            self.settle_ddl(|| txn.drop_sequence(sequence)).await?;
        }
        Ok(Tag::Fixed("DROP SEQUENCE"))
    }

    /// Makes way for sequences to be dropped: with `cascade` the DEFAULTs that name them go, and are told of. `with`: what
    /// they go with, as errors call it. Tables of `spared` go in any case.
    ///
    /// # Errors
    /// `2BP01` without `cascade`.
    async fn drop_defaults_of(
        &mut self,
        txn: &Transaction,
        sequences: &[Arc<Table>],
        with: Option<&str>,
        cascade: bool,
        spared: &[u32],
    ) -> Result<(), SqlError> {
        let lookup = self.lookup(txn);
        let (mut lines, mut needing) = (Vec::new(), Vec::new());
        for sequence in sequences {
            for default in defaults_of(txn, sequence)? {
                if spared.contains(&default.0.id) {
                    continue;
                }
                let default_name = default_name(&lookup, &default)?;
                lines.push(format!("{default_name} depends on sequence {}", lookup.shown(sequence)?));
                if !needing.iter().any(|(table, at): &(Arc<Table>, usize)| table.id == default.0.id && *at == default.1)
                {
                    needing.push(default);
                }
            }
        }
        if !cascade && !lines.is_empty() {
            let dropped = match (with, sequences) {
                (Some(with), _) => Some(with.to_owned()),
                (None, [sequence]) => Some(format!("sequence {}", lookup.shown(sequence)?)),
                (None, _) => None,
            };
            return Err(needed_by(dropped.as_deref(), lines));
        }
        let told = needing.iter().map(|one| default_name(&lookup, one)).collect::<Result<Vec<_>, _>>()?;
        self.tell_of_cascade(&told);
        for (table, at) in needing {
            let table = self.locked_table(txn, &full_name(&table)).await?;
            self.change(txn, &table, TableChange::SetDefault(at, None)).await?;
        }
        Ok(())
    }

    /// Drops the sequences that went with columns of a table which are gone by now: `with`, as errors call what they went
    /// with, if not by themselves. Tables of `spared` are about to go, too.
    pub(super) async fn drop_owned(
        &mut self,
        txn: &Transaction,
        gone: &[OwnedSequence],
        with: Option<&str>,
        cascade: bool,
        spared: &[u32],
    ) -> Result<(), SqlError> {
        let mut sequences = Vec::new();
        for owned in gone {
            sequences.extend(txn.sequence_by_id(owned.sequence)?);
        }
        self.drop_defaults_of(txn, &sequences, with, cascade, spared).await?;
        for sequence in &sequences {
            self.settle_ddl(|| txn.drop_sequence(sequence)).await?;
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
