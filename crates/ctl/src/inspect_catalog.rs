//! Printer of table definitions.

use std::io::Write;

use resurgam_base::Result;
use resurgam_btree::Tree;
use resurgam_engine::stored::{Definition, Place};
use resurgam_engine::{Deferral, Index};

use crate::catalog;
use crate::folder::Folder;
use crate::image::Image;
use crate::out::say;

/// Prints tables, columns and indexes as the last committed transactions left them, and
/// what could not be read.
///
/// # Errors
/// When the files cannot be opened or `out` not written.
pub fn inspect_catalog(folder: &Folder, out: &mut dyn Write) -> Result<()> {
    if let Some(warning) = folder.warning() {
        say!(out, "{warning}")?;
    }
    let image = Image::open(folder)?;
    for trouble in &image.troubles {
        say!(out, "PROBLEM: {}: {}", trouble.file, trouble.what)?;
    }
    let catalog = catalog::load(&image);
    if let Some(boot) = &image.boot {
        say!(out, "catalog {}", place(Tree { root: boot.catalog_root, object: boot.catalog_object }))?;
        say!(
            out,
            "pending frees {}",
            place(Tree { root: boot.pending_frees_root, object: boot.pending_frees_object })
        )?;
    }
    for table in catalog.tables.values() {
        print_table(table, out)?;
    }
    say!(out, "{} tables, {} names", catalog.tables.len(), catalog.names.len())?;
    if catalog.scanned {
        say!(out, "the catalog's tree is damaged: the data file was searched for its leaves")?;
    }
    for problem in &catalog.problems {
        match problem.at {
            Some((page, Some(slot))) => say!(out, "PROBLEM: page {page} slot {}: {}", slot.0, problem.what)?,
            Some((page, None)) => say!(out, "PROBLEM: page {page}: {}", problem.what)?,
            None => say!(out, "PROBLEM: {}", problem.what)?,
        }
    }
    Ok(())
}

fn place(tree: Tree) -> String {
    format!("object {} root page {}", tree.object, tree.root)
}

/// An index's columns with what is not ascending with NULLs last.
fn ordered(table: &Definition, index: &Index) -> String {
    let columns = index.columns.iter().enumerate().filter_map(|(at, column)| {
        let name = &table.columns.get(*column)?.name;
        let order = index.order(at);
        let direction = if order.descending { " DESC" } else { "" };
        let nulls = match (order.descending, order.nulls_first) {
            (false, true) => " NULLS FIRST",
            (true, false) => " NULLS LAST",
            _ => "",
        };
        Some(format!("{name}{direction}{nulls}"))
    });
    columns.collect::<Vec<_>>().join(", ")
}

fn print_table(table: &Definition, out: &mut dyn Write) -> Result<()> {
    let names = |positions: &[usize]| {
        let all: Vec<&str> =
            positions.iter().filter_map(|at| table.columns.get(*at)).map(|c| c.name.as_str()).collect();
        all.join(", ")
    };
    if let Some(view) = &table.view {
        say!(out, "view {}  id {}  generation {}", table.full_name(), table.id, table.generation)?;
        for column in &view.columns {
            say!(out, "  column {}  type {} ({})", column.name, column.oid, column.typmod)?;
        }
        for read in &view.relations {
            say!(out, "  reads {}.{}  id {}", read.schema, read.name, read.id)?;
        }
        say!(out, "  check option {:?}", view.check)?;
        return say!(out, "  query {}", view.sql);
    }
    if let Some(object) = &table.object {
        let (name, kind, bytes) = (table.full_name(), object.kind.0, object.body.len());
        say!(out, "object of kind {kind} {name}  id {}  generation {}  {bytes} bytes", table.id, table.generation)?;
        for needed in &object.needs {
            say!(out, "  needs {needed}")?;
        }
        return Ok(());
    }
    say!(out, "table {}  id {}  generation {}  {}", table.full_name(), table.id, table.generation, place(table.tree))?;
    for column in &table.columns {
        let null = if column.nullable { "" } else { " not null" };
        let default = column.default_sql.as_ref().map_or_else(String::new, |sql| format!(" default {sql}"));
        let stored = match column.place {
            Place::Key(at) => format!("key {at}"),
            Place::Value(at) => format!("value {at}"),
        };
        let missing =
            column.missing.as_ref().map_or_else(String::new, |value| format!(", {value:?} in rows without it"));
        say!(out, "  column {} {}{null}{default}  [{stored}{missing}]", column.name, column.ty)?;
    }
    if table.primary_key.is_empty() {
        say!(out, "  clustered by a hidden row id")?;
    } else {
        say!(out, "  primary key {} ({})", table.primary_key_name, names(&table.primary_key))?;
    }
    let stored_columns = table.columns.iter().filter(|c| matches!(c.place, Place::Value(_))).count();
    if table.value_types.len() > stored_columns {
        say!(out, "  {} dropped columns are still in the rows", table.value_types.len() - stored_columns)?;
    }
    for index in &table.indexes {
        let unique = if index.unique { "unique index" } else { "index" };
        let constraint = match (index.constraint, index.deferral) {
            (false, _) => "",
            (true, Deferral::Never) => " of a constraint",
            (true, Deferral::Statement) => " of a deferrable constraint",
            (true, Deferral::Transaction) => " of a deferrable constraint, initially deferred",
        };
        let valid = if index.valid { "" } else { " not valid" };
        say!(
            out,
            "  {unique} {} ({}){constraint}{valid}  id {}  {}",
            index.name,
            ordered(table, index),
            index.id,
            place(index.tree)
        )?;
    }
    for check in &table.checks {
        let state = if check.validated { "" } else { " not valid" };
        say!(out, "  check {} ({}) on ({}){state}", check.name, check.sql, names(&check.columns))?;
    }
    for foreign in &table.foreign_keys {
        let state = if foreign.validated { "" } else { " not valid" };
        let key = match foreign.index {
            None => "the primary key".to_owned(),
            Some(id) => format!("index {id}"),
        };
        let columns = names(&foreign.columns);
        say!(out, "  foreign key {} ({columns}) to {key} of table {}{state}", foreign.name, foreign.parent)?;
    }
    Ok(())
}
