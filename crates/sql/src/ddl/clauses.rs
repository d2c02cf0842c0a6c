//! Clauses of CREATE, DROP and TRUNCATE that the parser takes (it knows other databases' too) and nobody here follows:
//! they are refused, so that none is accepted without effect.
//!
//! The structures are taken apart without `..`: a clause that a newer parser knows has to be judged here before it
//! compiles.

use datafusion::sql::sqlparser::ast::{
    AlterColumnOperation, AlterTableOperation, ColumnDef, ConstraintCharacteristics, ConstraintUsingIndex, CreateIndex,
    CreateTable, CreateTableOptions, DataType, DeferrableInitial, Expr, FunctionArg, FunctionArgExpr,
    FunctionArguments, HiveDistributionStyle, Ident, IndexColumn, IndexType, ObjectName, PrimaryKeyConstraint, Query,
    ReplicaIdentity, SelectItem, SetExpr, SqlOption, Truncate, TruncateTableTarget, UniqueConstraint, Value,
};
use datafusion::sql::sqlparser::tokenizer::Token;
use resurgam_engine::{ColumnType, Deferral, Table};

use super::{name_of, unsupported};
use crate::parse::statement::alter_index::in_bounds_of;
use crate::parse::table::{COLUMN, EXECUTE, IDLE, NO_DATA, RESET};
use crate::parse::words::Words;
use crate::plan::lookup::find_column;
use crate::wire::SqlError;

fn syntax(what: &str) -> SqlError {
    SqlError::syntax(format!("syntax error at or near \"{what}\""))
}

/// Refuses each clause that is given; `0A000` for PostgreSQL's, `42601` for others.
fn refuse(clauses: &[(bool, &str)], error: fn(&str) -> SqlError) -> Result<(), SqlError> {
    match clauses.iter().find(|(is_given, _)| *is_given) {
        Some((_, what)) => Err(error(what)),
        None => Ok(()),
    }
}

/// CREATE TABLE. Returns the names of storage parameters, which have no effect.
///
/// # Errors
/// `0A000`, `42601`
pub(super) fn create_table(create: &CreateTable) -> Result<Vec<String>, SqlError> {
    let CreateTable {
        or_replace,
        temporary,
        external,
        dynamic,
        global,
        if_not_exists: _,
        transient,
        volatile,
        iceberg,
        snapshot,
        name: _,
        columns: _,
        constraints: _,
        hive_distribution,
        hive_formats,
        table_options,
        file_format,
        location,
        query: _,
        without_rowid,
        like,
        clone,
        version,
        comment,
        on_commit,
        on_cluster,
        primary_key,
        order_by,
        partition_by,
        cluster_by,
        clustered_by,
        inherits,
        partition_of,
        for_values,
        strict,
        copy_grants,
        enable_schema_evolution,
        change_tracking,
        data_retention_time_in_days,
        max_data_extension_time_in_days,
        default_ddl_collation,
        with_aggregation_policy,
        with_row_access_policy,
        with_storage_lifecycle_policy,
        with_tags,
        external_volume,
        base_location,
        catalog,
        catalog_sync,
        storage_serialization_policy,
        target_lag,
        warehouse,
        refresh_mode,
        initialize,
        require_user,
        diststyle,
        distkey,
        sortkey,
        backup,
    } = create;
    // What says GLOBAL or LOCAL is no other kind of table; whether it is temporary depends on the schema, too.
    let _ = (temporary, global, on_commit);
    let postgresql = [
        (like.is_some(), "CREATE TABLE … LIKE"),
        (inherits.is_some(), "INHERITS"),
        (partition_by.is_some() || partition_of.is_some() || for_values.is_some(), "a partitioned table"),
    ];
    refuse(&postgresql, unsupported)?;
    let has_hive = hive_formats.as_ref().is_some_and(|formats| {
        formats.row_format.is_some()
            || formats.serde_properties.is_some()
            || formats.storage.is_some()
            || formats.location.is_some()
    });
    let others = [
        (*or_replace, "REPLACE"),
        (*external, "EXTERNAL"),
        (*dynamic, "DYNAMIC"),
        (*transient, "TRANSIENT"),
        (*volatile, "VOLATILE"),
        (*iceberg, "ICEBERG"),
        (*snapshot, "SNAPSHOT"),
        (!matches!(hive_distribution, HiveDistributionStyle::NONE), "PARTITIONED"),
        (has_hive || file_format.is_some(), "STORED"),
        (location.is_some(), "LOCATION"),
        (*without_rowid, "ROWID"),
        (clone.is_some(), "CLONE"),
        (version.is_some(), "VERSION"),
        (comment.is_some(), "COMMENT"),
        (on_cluster.is_some(), "CLUSTER"),
        (primary_key.is_some(), "PRIMARY"),
        (order_by.is_some(), "ORDER"),
        (cluster_by.is_some() || clustered_by.is_some(), "CLUSTER"),
        (*strict, "STRICT"),
        (*copy_grants, "COPY"),
        (enable_schema_evolution.is_some(), "ENABLE_SCHEMA_EVOLUTION"),
        (change_tracking.is_some(), "CHANGE_TRACKING"),
        (data_retention_time_in_days.is_some(), "DATA_RETENTION_TIME_IN_DAYS"),
        (max_data_extension_time_in_days.is_some(), "MAX_DATA_EXTENSION_TIME_IN_DAYS"),
        (default_ddl_collation.is_some(), "DEFAULT_DDL_COLLATION"),
        (with_aggregation_policy.is_some() || with_row_access_policy.is_some(), "POLICY"),
        (with_storage_lifecycle_policy.is_some(), "POLICY"),
        (with_tags.is_some(), "TAG"),
        (external_volume.is_some(), "EXTERNAL_VOLUME"),
        (base_location.is_some(), "BASE_LOCATION"),
        (catalog.is_some() || catalog_sync.is_some(), "CATALOG"),
        (storage_serialization_policy.is_some(), "STORAGE_SERIALIZATION_POLICY"),
        (target_lag.is_some(), "TARGET_LAG"),
        (warehouse.is_some(), "WAREHOUSE"),
        (refresh_mode.is_some(), "REFRESH_MODE"),
        (initialize.is_some(), "INITIALIZE"),
        (*require_user, "REQUIRE"),
        (diststyle.is_some() || distkey.is_some(), "DISTKEY"),
        (sortkey.is_some(), "SORTKEY"),
        (backup.is_some(), "BACKUP"),
    ];
    refuse(&others, syntax)?;
    match table_options {
        CreateTableOptions::None => Ok(Vec::new()),
        // pgbench says that pages are to be full, as they are.
        CreateTableOptions::With(options) => {
            options.iter().filter(|option| !is_full(option)).map(storage_parameter).collect()
        }
        CreateTableOptions::Plain(options) => match options.as_slice() {
            [SqlOption::TableSpace(space)] if space.name.eq_ignore_ascii_case("pg_default") => Ok(Vec::new()),
            [SqlOption::TableSpace(space)] => {
                Err(SqlError::new("42704", format!("tablespace \"{}\" does not exist", space.name)))
            }
            options => Err(syntax(&options.first().map(ToString::to_string).unwrap_or_default())),
        },
        CreateTableOptions::Options(_) => Err(syntax("OPTIONS")),
        CreateTableOptions::TableProperties(_) => Err(syntax("TBLPROPERTIES")),
    }
}

/// Storage parameters of PostgreSQL that say how rows are stored or cleaned up, not what they are.
fn is_storage_parameter(name: &str) -> bool {
    matches!(name, "fillfactor" | "deduplicate_items" | "toast_tuple_target" | "parallel_workers" | "fastupdate")
        || name.starts_with("autovacuum_")
        || name.starts_with("vacuum_")
        || name.starts_with("log_autovacuum_")
        || name.starts_with("toast.autovacuum_")
}

/// Whether an option says that pages are to be full.
fn is_full(option: &SqlOption) -> bool {
    matches!(option, SqlOption::KeyValue { key, value }
        if key.value.eq_ignore_ascii_case("fillfactor") && value.to_string() == "100")
}

fn storage_parameter(option: &SqlOption) -> Result<String, SqlError> {
    let name = parameter_name(option)?;
    if let SqlOption::KeyValue { value, .. } = option {
        in_bounds(&name, value)?;
    }
    Ok(name)
}

fn parameter_name(option: &SqlOption) -> Result<String, SqlError> {
    match option {
        SqlOption::KeyValue { key, .. } => known_parameter(name_of(key)),
        SqlOption::Ident(name) => known_parameter(name_of(name)),
        other => Err(syntax(&other.to_string())),
    }
}

/// Whether a page may be filled that much.
///
/// # Errors
/// `22023`
fn in_bounds(name: &str, value: &Expr) -> Result<(), SqlError> {
    in_bounds_of(name, &value.to_string())
}

fn known_parameter(name: String) -> Result<String, SqlError> {
    match is_storage_parameter(&name) {
        true => Ok(name),
        false => Err(SqlError::new("22023", format!("unrecognized parameter \"{name}\""))),
    }
}

/// CREATE INDEX. Returns the names of storage parameters, which have no effect.
///
/// # Errors
/// `0A000`, `42601`
pub(super) fn create_index(create: &CreateIndex) -> Result<Vec<String>, SqlError> {
    let CreateIndex {
        name: _,
        table_name: _,
        using: _,
        columns,
        unique: _,
        concurrently: _,
        if_not_exists: _,
        include: _,
        nulls_distinct: _,
        with,
        predicate: _,
        index_options,
        alter_options,
    } = create;
    let others = [(!index_options.is_empty(), "COMMENT"), (!alter_options.is_empty(), "ALGORITHM")];
    refuse(&others, syntax)?;
    for IndexColumn { column, operator_class: _ } in columns {
        if column.with_fill.is_some() {
            return Err(syntax("WITH"));
        }
    }
    let name = |option: &Expr| match option {
        Expr::BinaryOp { left, right, .. } => {
            let name = known_parameter(left.to_string().to_ascii_lowercase())?;
            in_bounds(&name, right)?;
            Ok(name)
        }
        other => known_parameter(other.to_string().to_ascii_lowercase()),
    };
    with.iter().map(name).collect()
}

/// The access method of an index. Returns the name of one that a B-tree stands for.
///
/// # Errors
/// `0A000`; `42704` for one that does not exist
pub(super) fn access_method(create: &CreateIndex) -> Result<Option<String>, SqlError> {
    let missing = |what: &str| Err(SqlError::unsupported(format!("access method \"hash\" does not support {what}")));
    match &create.using {
        None | Some(IndexType::BTree) => Ok(None),
        // A B-tree does all that a hash index does. Other than that it is held to the same.
        Some(IndexType::Hash) => {
            let has_order = |column: &IndexColumn| {
                column.column.options.asc.is_some() || column.column.options.nulls_first.is_some()
            };
            match () {
                () if create.unique => missing("unique indexes"),
                () if create.columns.len() > 1 => missing("multicolumn indexes"),
                () if !create.include.is_empty() => missing("included columns"),
                () if create.columns.iter().any(has_order) => missing("ASC/DESC options"),
                () => Ok(Some("hash".to_owned())),
            }
        }
        Some(other) => {
            let name = other.to_string().to_ascii_lowercase();
            match name.as_str() {
                "gin" | "gist" | "spgist" | "brin" => Err(unsupported(&format!("access method \"{name}\""))),
                _ => Err(SqlError::new("42704", format!("access method \"{name}\" does not exist"))),
            }
        }
    }
}

/// What CREATE TABLE AS says beside its query: names of columns, and whether rows are wanted.
pub(super) struct Filled {
    pub names: Vec<String>,
    pub with_data: bool,
}

impl Filled {
    /// Reads it from the columns, which stand for it: see [`crate::parse::table`].
    ///
    /// # Errors
    /// `42601` for definitions of columns and for constraints
    pub(super) fn read(create: &CreateTable) -> Result<Self, SqlError> {
        if let Some(constraint) = create.constraints.first() {
            let text = constraint.to_string();
            return Err(syntax(text.split_whitespace().next().unwrap_or_default()));
        }
        let mut filled = Self { names: Vec::new(), with_data: true };
        for ColumnDef { name, data_type, options } in &create.columns {
            let is_name = matches!(data_type, DataType::Custom(ty, _) if ty.to_string() == COLUMN);
            if !is_name || !options.is_empty() {
                return Err(syntax(&data_type.to_string()));
            }
            match name.value == NO_DATA {
                true => filled.with_data = false,
                false => filled.names.push(name_of(name)),
            }
        }
        Ok(filled)
    }
}

/// The prepared statement that CREATE TABLE AS EXECUTE takes its rows from, and the values of its parameters.
pub(super) fn executed(query: &Query) -> Option<(ObjectName, Vec<Expr>)> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let [SelectItem::UnnamedExpr(call)] = select.projection.as_slice() else { return None };
    let mut arguments = marked(call, EXECUTE)?.into_iter();
    let name = text_of(arguments.next()?)?;
    Some((ObjectName::from(vec![Ident::with_quote('"', name)]), arguments.cloned().collect()))
}

/// The arguments of a call of a function that stands for something.
fn marked<'e>(expr: &'e Expr, name: &str) -> Option<Vec<&'e Expr>> {
    let Expr::Function(call) = expr else { return None };
    let FunctionArguments::List(list) = &call.args else { return None };
    if call.name.to_string() != name {
        return None;
    }
    let argument = |argument: &'e FunctionArg| match argument {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    };
    list.args.iter().map(argument).collect()
}

fn text_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) => Some(text.clone()),
            _ => None,
        },
        _ => None,
    }
}

/// Whether an action of ALTER TABLE is one of [`idle`].
pub(super) fn is_idle(action: &AlterTableOperation) -> bool {
    match action {
        AlterTableOperation::SetOptionsParens { .. }
        | AlterTableOperation::EnableTrigger { .. }
        | AlterTableOperation::EnableAlwaysTrigger { .. }
        | AlterTableOperation::EnableReplicaTrigger { .. }
        | AlterTableOperation::DisableTrigger { .. } => true,
        AlterTableOperation::ReplicaIdentity { identity } => !matches!(identity, ReplicaIdentity::Index(_)),
        AlterTableOperation::AlterColumn { op: AlterColumnOperation::SetDefault { value }, .. } => {
            marked(value, IDLE).is_some()
        }
        _ => false,
    }
}

/// An action of ALTER TABLE from which nothing follows: about triggers of users, of which there are none, and about how rows
/// are stored. Returns what is to be told of: a kind, and names of that kind.
///
/// # Errors
/// `0A000`, `22023`, `42601`, `42703`, `42704`
pub(super) fn idle(table: &Table, action: &AlterTableOperation) -> Result<(&'static str, Vec<String>), SqlError> {
    let is = |name: &Ident, word: &str| name.quote_style.is_none() && name.value.eq_ignore_ascii_case(word);
    match action {
        AlterTableOperation::SetOptionsParens { options } => {
            let mut names = Vec::new();
            let mut resets = false;
            for option in options {
                match option {
                    SqlOption::KeyValue { key, .. } if key.value == RESET => resets = true,
                    option => {
                        let is_default = is_full(option);
                        // RESET gives no values.
                        let name = if resets { parameter_name(option)? } else { storage_parameter(option)? };
                        names.extend(Some(name).filter(|_| !is_default));
                    }
                }
            }
            // What has no effect has none to be taken back either.
            Ok(("storage parameter", if resets { Vec::new() } else { names }))
        }
        AlterTableOperation::DisableTrigger { name } if is(name, "all") => Err(unsupported("DISABLE TRIGGER ALL")
            .with_detail("Foreign keys always hold.")
            .with_hint("Declare them DEFERRABLE, or drop them and add them again.")),
        AlterTableOperation::EnableTrigger { name } | AlterTableOperation::DisableTrigger { name }
            if is(name, "user") || is(name, "all") =>
        {
            Ok(("", Vec::new()))
        }
        AlterTableOperation::EnableTrigger { name }
        | AlterTableOperation::EnableAlwaysTrigger { name }
        | AlterTableOperation::EnableReplicaTrigger { name }
        | AlterTableOperation::DisableTrigger { name } => {
            let message = format!("trigger \"{}\" for table \"{}\" does not exist", name_of(name), table.name);
            Err(SqlError::new("42704", message))
        }
        AlterTableOperation::AlterColumn { column_name, op: AlterColumnOperation::SetDefault { value } } => {
            find_column(table, column_name)?;
            let text = marked(value, IDLE).and_then(|said| text_of(said.first()?)).unwrap_or_default();
            idle_of_column(&text, &name_of(column_name))
        }
        // Of what a replica is told, and there are none.
        AlterTableOperation::ReplicaIdentity { identity: ReplicaIdentity::Default } => Ok(("", Vec::new())),
        AlterTableOperation::ReplicaIdentity { identity } if !matches!(identity, ReplicaIdentity::Index(_)) => {
            Ok(("REPLICA IDENTITY of table", vec![table.name.clone()]))
        }
        other => Err(unsupported(&format!("ALTER TABLE {other}"))),
    }
}

/// Reads what is said of how a column is stored.
fn idle_of_column(text: &str, column: &str) -> Result<(&'static str, Vec<String>), SqlError> {
    let Some(mut words) = Words::of(text) else { return Err(SqlError::syntax("syntax error in ALTER COLUMN")) };
    let column = || vec![column.to_owned()];
    let resets = words.take_word("reset");
    if !resets {
        words.take_word("set");
    }
    if words.take(&Token::LParen) {
        let mut names = Vec::new();
        loop {
            let name = words.name()?;
            if !matches!(name.as_str(), "n_distinct" | "n_distinct_inherited") {
                return Err(SqlError::new("22023", format!("unrecognized parameter \"{name}\"")));
            }
            names.push(name);
            while !matches!(words.peek(), None | Some(Token::Comma | Token::RParen)) {
                words.next();
            }
            if !words.take(&Token::Comma) {
                break;
            }
        }
        if !words.take(&Token::RParen) {
            return Err(words.unexpected());
        }
        words.expect_end()?;
        return Ok(("option", if resets { Vec::new() } else { names }));
    }
    if words.take_word("statistics") {
        let is_default = words.take(&Token::Minus);
        if !matches!(words.next(), Some(Token::Number(..))) {
            return Err(SqlError::syntax("SET STATISTICS takes a number"));
        }
        words.expect_end()?;
        return Ok(("SET STATISTICS of column", if is_default { Vec::new() } else { column() }));
    }
    let is_storage = words.take_word("storage");
    if !is_storage && !words.take_word("compression") {
        return Err(words.unexpected());
    }
    let method = words.name()?;
    words.expect_end()?;
    match (is_storage, method.as_str()) {
        (true, "plain" | "external" | "extended" | "main") => Ok(("SET STORAGE of column", column())),
        (true, _) => Err(SqlError::new("22023", format!("invalid storage type \"{method}\""))),
        (false, "default") => Ok(("", Vec::new())),
        (false, "pglz" | "lz4") => Ok(("SET COMPRESSION of column", column())),
        (false, _) => Err(SqlError::new("22023", format!("invalid compression method \"{method}\""))),
    }
}

/// When a constraint is judged.
fn characteristics(given: Option<&ConstraintCharacteristics>) -> Result<Deferral, SqlError> {
    let Some(ConstraintCharacteristics { deferrable, initially, enforced }) = given else { return Ok(Deferral::Never) };
    if enforced.is_some() {
        return Err(syntax("ENFORCED"));
    }
    match (deferrable, *initially == Some(DeferrableInitial::Deferred)) {
        (Some(false), true) => Err(SqlError::syntax("constraint declared INITIALLY DEFERRED must be DEFERRABLE")),
        (_, true) => Ok(Deferral::Transaction),
        (Some(true), false) => Ok(Deferral::Statement),
        (_, false) => Ok(Deferral::Never),
    }
}

/// Rows are stored by their primary key, so each is there once at any time.
fn not_deferrable(deferral: Deferral) -> Result<(), SqlError> {
    match deferral {
        Deferral::Never => Ok(()),
        _ => Err(unsupported("a deferrable primary key")
            .with_detail("Rows are stored by their primary key.")
            .with_hint("A UNIQUE constraint over NOT NULL columns may be DEFERRABLE.")),
    }
}

/// A UNIQUE constraint. Returns when it is judged.
///
/// # Errors
/// `42601`
pub(crate) fn unique(key: &UniqueConstraint) -> Result<Deferral, SqlError> {
    let UniqueConstraint {
        name: _,
        index_name,
        index_type_display,
        index_type,
        columns: _,
        index_options,
        characteristics: given,
        nulls_distinct: _,
    } = key;
    let has_word = !matches!(index_type_display, datafusion::sql::sqlparser::ast::KeyOrIndexDisplay::None);
    let others =
        [(index_name.is_some() || has_word, "KEY"), (index_type.is_some() || !index_options.is_empty(), "USING")];
    refuse(&others, syntax)?;
    characteristics(given.as_ref())
}

/// A PRIMARY KEY.
///
/// # Errors
/// `0A000`, `42601`
pub(crate) fn primary_key(key: &PrimaryKeyConstraint) -> Result<(), SqlError> {
    let PrimaryKeyConstraint { name: _, index_name, index_type, columns: _, index_options, characteristics: given } =
        key;
    let others = [(index_name.is_some(), "KEY"), (index_type.is_some() || !index_options.is_empty(), "USING")];
    refuse(&others, syntax)?;
    not_deferrable(characteristics(given.as_ref())?)
}

/// The keys of a DEFERRABLE constraint are queued, and values are made of them again: not of documents.
///
/// # Errors
/// `0A000`
pub(crate) fn judged_later(deferral: Deferral, types: impl IntoIterator<Item = ColumnType>) -> Result<(), SqlError> {
    match deferral != Deferral::Never && types.into_iter().any(|ty| ty == ColumnType::Jsonb) {
        true => Err(unsupported("DEFERRABLE of a constraint on jsonb")),
        false => Ok(()),
    }
}

/// UNIQUE or PRIMARY KEY of an index that is there. Returns when it is judged.
///
/// # Errors
/// `0A000`, `42601`
pub(crate) fn using_index(key: &ConstraintUsingIndex, is_primary: bool) -> Result<Deferral, SqlError> {
    let deferral = characteristics(key.characteristics.as_ref())?;
    if is_primary {
        not_deferrable(deferral)?;
    }
    Ok(deferral)
}

/// TRUNCATE. There are no tables that inherit.
///
/// # Errors
/// `42601`
pub(super) fn truncate(truncate: &Truncate) -> Result<(), SqlError> {
    let Truncate { table_names, partitions, table: _, if_exists, identity: _, cascade: _, on_cluster } = truncate;
    let others = [(partitions.is_some(), "PARTITION"), (*if_exists, "EXISTS"), (on_cluster.is_some(), "ON")];
    for TruncateTableTarget { name: _, only: _, has_asterisk: _ } in table_names {}
    refuse(&others, syntax)
}
