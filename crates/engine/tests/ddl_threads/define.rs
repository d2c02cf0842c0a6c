//! Changes of the definitions of the two tables. None changes what the books say.

use std::sync::Arc;

use resurgam_engine::*;

use crate::books::*;
use crate::patient;

/// A table has hardly more.
const INDEXES: usize = 4;

/// The table, locked against everyone else, as it is now.
fn locked(tx: &Transaction, begins: &str) -> Result<Arc<Table>> {
    tx.statement(StatementKind::PointWrite)?;
    let table = find(tx, begins)?;
    patient(tx.lock_for_change(&table)?, || tx.lock_for_change(&table))?;
    Ok(table)
}

fn alter(tx: &Transaction, table: &Arc<Table>, change: TableChange) -> Result<Arc<Table>> {
    patient(tx.alter_table(table, change.clone())?, || tx.alter_table(table, change.clone()))
}

fn key_columns(table: &Table) -> Vec<usize> {
    let names: &[&str] = if table.name.starts_with("accounts") { &["id"] } else { &["who", "seq"] };
    names.iter().map(|name| column(table, name)).collect()
}

/// The column with what is moved.
fn amount(table: &Table) -> usize {
    column(table, if table.name.starts_with("accounts") { "bal" } else { "amt" })
}

/// One change; says which.
pub fn change(tx: &Transaction, random: &mut Random, serial: i64) -> Result<&'static str> {
    let begins = if random.one_in(2) { "accounts" } else { "journal" };
    let table = locked(tx, begins)?;
    Ok(match random.below(15) {
        0 | 1 => {
            let unique = random.one_in(2);
            let columns = if unique { key_columns(&table) } else { vec![amount(&table)] };
            let spec = IndexSpec {
                name: format!("i{serial}"),
                columns,
                orders: Vec::new(),
                unique,
                constraint: false,
                nulls_alike: false,
                deferral: Deferral::Never,
            };
            patient(tx.create_index(&table, spec.clone())?, || tx.create_index(&table, spec.clone()))?;
            "index created"
        }
        2 => {
            let Some(index) = table.indexes.first() else { return Ok("nothing") };
            patient(tx.drop_index(&table, &index.name)?, || tx.drop_index(&table, &index.name))?;
            "index dropped"
        }
        3 => {
            let at = amount(&table);
            let to = if table.columns[at].ty == ColumnType::Int4 { ColumnType::Int8 } else { ColumnType::Int4 };
            retype(tx, &table, at, to)?;
            "type changed"
        }
        4 => {
            let ty = if random.one_in(2) { ColumnType::Int4 } else { ColumnType::Text };
            let spec = ColumnSpec { name: format!("x{serial}"), ty, nullable: true, default_sql: None };
            let value = if ty == ColumnType::Int4 { Datum::Int4(42) } else { Datum::Text("was here".into()) };
            let with = random.one_in(2);
            alter(
                tx,
                &table,
                if with { TableChange::AddColumnWith(spec, value) } else { TableChange::AddColumn(spec) },
            )?;
            "column added"
        }
        5 | 6 => {
            let Some(at) = table.columns.iter().position(|c| c.name.starts_with('x')) else { return Ok("nothing") };
            alter(tx, &table, TableChange::DropColumn(at))?;
            "column dropped"
        }
        7 => {
            let kept = rows(&tx.view_for_change(&table)?, &table, None)?;
            patient(tx.truncate(&table)?, || tx.truncate(&table))?;
            fill(tx, &find(tx, begins)?, &kept)?;
            "truncated and filled"
        }
        8 => {
            made_anew(tx, &table, format!("{begins}_{serial}"), random, serial)?;
            "dropped and made anew"
        }
        9 => {
            alter(tx, &table, TableChange::RenameTable(format!("{begins}_{serial}")))?;
            "table renamed"
        }
        10 => {
            let at = amount(&table);
            let name = if begins == "accounts" { "bal" } else { "amt" };
            alter(tx, &table, TableChange::RenameColumn(at, format!("{name}_{serial}")))?;
            "column renamed"
        }
        11 => {
            let at = amount(&table);
            let table = alter(tx, &table, TableChange::SetNotNull(at, table.columns[at].nullable))?;
            let default = table.columns[at].default_sql.is_none().then(|| "7".to_owned());
            alter(tx, &table, TableChange::SetDefault(at, default))?;
            "not null and default"
        }
        12 => {
            let change = match table.checks.first() {
                None => TableChange::AddCheck(CheckSpec {
                    name: format!("c{serial}"),
                    sql: "true".into(),
                    columns: vec![amount(&table)],
                    validated: false,
                }),
                Some(check) if !check.validated => TableChange::ValidateCheck(check.name.clone()),
                Some(check) => TableChange::DropCheck(check.name.clone()),
            };
            alter(tx, &table, change)?;
            "check"
        }
        13 if table.primary_key.is_empty() => {
            let change = TableChange::AddPrimaryKey { name: format!("pk{serial}"), columns: key_columns(&table) };
            alter(tx, &table, change)?;
            "primary key added"
        }
        13 => {
            alter(tx, &table, TableChange::DropPrimaryKey)?;
            "primary key dropped"
        }
        _ => reference(tx, random, serial)?,
    })
}

/// Makes an index while others write to its table.
pub fn index_beside_writers(db: &Database, random: &mut Random, serial: i64) -> Result<()> {
    let tx = db.begin(Isolation::ReadCommitted);
    let mut table = locked(&tx, if random.one_in(2) { "accounts" } else { "journal" })?;
    if table.indexes.len() > INDEXES {
        let name = &table.indexes[random.below(INDEXES as i64) as usize].name;
        table = patient(tx.drop_index(&table, name)?, || tx.drop_index(&table, name))?;
    }
    let unique = random.one_in(2);
    let spec = IndexSpec {
        name: format!("b{serial}"),
        columns: if unique { key_columns(&table) } else { vec![amount(&table)] },
        orders: Vec::new(),
        unique,
        constraint: false,
        nulls_alike: false,
        deferral: Deferral::Never,
    };
    let table = patient(tx.add_index(&table, spec.clone())?, || tx.add_index(&table, spec.clone()))?;
    tx.commit(Durability::Sync)?.wait()?;
    let mut build = IndexBuild::begin(db, &table, table.indexes.last().map_or(0, |index| index.id));
    loop {
        let tx = db.begin(Isolation::ReadCommitted);
        let done = patient(tx.fill_some(&mut build)?, || tx.fill_some(&mut build))?;
        drop(tx.commit(Durability::Async)?);
        if done {
            break;
        }
    }
    let tx = db.begin(Isolation::ReadCommitted);
    let gone = || Error::new(ErrorKind::UndefinedObject, "the table was dropped");
    let newest = loop {
        tx.statement(StatementKind::PointWrite)?;
        let newest = tx.table_by_id(table.id)?.ok_or_else(gone)?;
        match patient(tx.lock_for_change(&newest)?, || tx.lock_for_change(&newest)) {
            Ok(()) => break newest,
            Err(error) if error.kind() == ErrorKind::DefinitionChanged => {}
            Err(error) => return Err(error),
        }
    };
    patient(tx.finish_index(&newest, &build)?, || tx.finish_index(&newest, &build))?;
    tx.commit(Durability::Sync)?.wait()
}

fn retype(tx: &Transaction, table: &Arc<Table>, at: usize, to: ColumnType) -> Result<()> {
    let mut rewrite =
        patient(tx.rewrite_table(table, &[(at, to)], &[])?, || tx.rewrite_table(table, &[(at, to)], &[]))?;
    let mut batch = RowBatch::default();
    while rewrite.read(&mut batch)? {
        for i in 0..batch.len() {
            let raw = batch.row(i);
            let mut row = (0..table.columns.len()).map(|c| table.column(raw, c)).collect::<Result<Vec<_>>>()?;
            row[at] = match (row[at], to) {
                (DatumRef::Int4(v), ColumnType::Int8) => DatumRef::Int8(v.into()),
                (DatumRef::Int8(v), ColumnType::Int4) => DatumRef::Int4(v as i32),
                (datum, _) => datum,
            };
            rewrite.put(raw, &row)?;
        }
    }
    rewrite.finish().map(drop)
}

fn fill(tx: &Transaction, table: &Arc<Table>, rows: &[(Vec<u8>, Vec<Datum>)]) -> Result<()> {
    tx.statement(StatementKind::BulkWrite)?;
    for (_, row) in rows {
        let row: Vec<_> = row.iter().map(Datum::as_ref).collect();
        patient(tx.insert(table, &row)?, || tx.insert(table, &row))?;
    }
    Ok(())
}

/// Another table in its place, with the same rows.
fn made_anew(tx: &Transaction, table: &Arc<Table>, name: String, random: &mut Random, serial: i64) -> Result<()> {
    let kept = rows(&tx.view_for_change(table)?, table, None)?;
    patient(tx.drop_table(table)?, || tx.drop_table(table))?;
    let columns = table.columns.iter().map(|c| ColumnSpec {
        name: c.name.clone(),
        ty: c.ty,
        nullable: c.nullable,
        default_sql: c.default_sql.clone(),
    });
    let spec = TableSpec {
        schema: "public".into(),
        name,
        columns: columns.collect(),
        primary_key: (!random.one_in(4)).then(|| (format!("pk{serial}"), key_columns(table))),
        indexes: vec![IndexSpec {
            name: format!("i{serial}"),
            columns: vec![amount(table)],
            orders: vec![if random.one_in(2) { ColumnOrder::DESCENDING } else { ColumnOrder::ASCENDING }],
            unique: false,
            constraint: false,
            nulls_alike: false,
            deferral: Deferral::Never,
        }],
    };
    let new = patient(tx.create_table(spec.clone())?, || tx.create_table(spec.clone()))?;
    fill(tx, &new, &kept)
}

/// Adds, validates or drops a foreign key from the journal to the accounts.
fn reference(tx: &Transaction, random: &mut Random, serial: i64) -> Result<&'static str> {
    let journal = locked(tx, "journal")?;
    match journal.foreign_keys.first() {
        Some(foreign) if !foreign.validated && random.one_in(2) => {
            alter(tx, &journal, TableChange::ValidateForeignKey(foreign.name.clone()))?;
            return Ok("foreign key validated");
        }
        Some(foreign) => {
            let drop = || tx.drop_foreign_key(&journal, &foreign.name);
            patient(drop()?, drop)?;
            return Ok("foreign key dropped");
        }
        None => {}
    }
    let accounts = locked(tx, "accounts")?;
    // Locking that one may have taken time, but nobody changes the journal meanwhile.
    let foreign = ForeignKey {
        id: 0,
        name: format!("f{serial}"),
        columns: vec![column(&journal, "src")],
        parent: 0,
        index: None,
        key: vec![0],
        on_delete: ReferentialAction::NoAction,
        on_update: ReferentialAction::NoAction,
        match_full: false,
        deferrable: false,
        deferred: false,
        validated: false,
    };
    let add = || tx.add_foreign_key(&journal, &accounts, foreign.clone());
    patient(add()?, add)?;
    Ok("foreign key added")
}
