//! Clauses of CREATE, DROP and TRUNCATE that the parser takes (it knows other databases' too) and nobody here follows:
//! they are refused, so that none is accepted without effect.
//!
//! The structures are taken apart without `..`: a clause that a newer parser knows has to be judged here before it
//! compiles.

use datafusion::sql::sqlparser::ast::{
    ConstraintCharacteristics, CreateIndex, CreateTable, CreateTableOptions, Expr, HiveDistributionStyle, IndexColumn,
    PrimaryKeyConstraint, SqlOption, Truncate, TruncateTableTarget, UniqueConstraint,
};

use super::unsupported;
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
        CreateTableOptions::With(options) => options
            .iter()
            .filter(|option| {
                !matches!(option, SqlOption::KeyValue { key, value }
                if key.value.eq_ignore_ascii_case("fillfactor") && value.to_string() == "100")
            })
            .map(storage_parameter)
            .collect(),
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

fn storage_parameter(option: &SqlOption) -> Result<String, SqlError> {
    let name = match option {
        SqlOption::KeyValue { key, .. } => key.value.to_ascii_lowercase(),
        SqlOption::Ident(name) => name.value.to_ascii_lowercase(),
        other => return Err(syntax(&other.to_string())),
    };
    known_parameter(name)
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
        Expr::BinaryOp { left, .. } => known_parameter(left.to_string().to_ascii_lowercase()),
        other => known_parameter(other.to_string().to_ascii_lowercase()),
    };
    with.iter().map(name).collect()
}

/// UNIQUE is checked for each row as it is written.
fn characteristics(given: Option<&ConstraintCharacteristics>) -> Result<(), SqlError> {
    let Some(ConstraintCharacteristics { deferrable, initially, enforced }) = given else { return Ok(()) };
    if *deferrable == Some(true)
        || matches!(initially, Some(datafusion::sql::sqlparser::ast::DeferrableInitial::Deferred))
    {
        return Err(unsupported("a deferrable unique constraint"));
    }
    if enforced.is_some() { Err(syntax("ENFORCED")) } else { Ok(()) }
}

/// A UNIQUE constraint.
///
/// # Errors
/// `0A000`, `42601`
pub(crate) fn unique(key: &UniqueConstraint) -> Result<(), SqlError> {
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
    characteristics(given.as_ref())
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
