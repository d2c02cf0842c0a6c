//! The database's relations, indexes and constraints as the catalogs show them.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::sql::sqlparser::ast::Expr;
use resurgam_engine::{
    ColumnOrder, Declared, Deferral, ForeignKey, Identity, Index, OwnedSequence, ReferentialAction, Sequence, Table,
};

use super::defs::listed_relations;
use super::namespaces::{Namespace, namespaces_of};
use crate::collation;
use crate::context::PgContext;
use crate::functions::quote_ident;
use crate::operator_classes;
use crate::search_path::{PG_CATALOG, PUBLIC, SearchPath};
use crate::types::column_oid;
use crate::wire::SqlError;

/// First oid of what users make.
const FIRST_USER_OID: u32 = 16_384;
/// Distance from a table's oid to that of the index its primary key shows as.
const PRIMARY_INDEX: u32 = 1 << 30;
/// Distance from an index's oid to its constraint's.
const CONSTRAINT: u32 = 1 << 29;
/// What the type of a table's rows has more than the table's oid.
const ROW_TYPE: u32 = 1 << 28;

/// Oid of a table or index with an engine id.
pub const fn relation_oid(id: u32) -> u32 {
    FIRST_USER_OID.wrapping_add(id)
}

/// Oid of the index that a table's primary key shows as.
pub const fn primary_index_oid(table_id: u32) -> u32 {
    relation_oid(table_id) | PRIMARY_INDEX
}

/// Oid of the type of a table's rows.
pub const fn row_type_oid(relation_oid: u32) -> u32 {
    relation_oid | ROW_TYPE
}

pub(super) const fn constraint_oid(index_oid: u32) -> u32 {
    // keeps the two kinds of index apart: 2^30 for primary keys, 2^29 added for both
    index_oid | CONSTRAINT
}

/// Oid of `pg_class`.
pub const CLASS_RELATION: u32 = 1259;
/// Oid of `pg_constraint`.
pub const CLASS_CONSTRAINT: u32 = 2606;

/// What a relation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RelationKind {
    Table,
    Index,
    View,
    Sequence,
}

impl RelationKind {
    /// `relkind`.
    pub fn letter(self) -> char {
        match self {
            Self::Table => 'r',
            Self::Index => 'i',
            Self::View => 'v',
            Self::Sequence => 'S',
        }
    }
}

/// A row of `pg_class`.
#[derive(Clone, Debug)]
pub struct Relation {
    pub oid: u32,
    pub name: String,
    pub schema: String,
    pub kind: RelationKind,
    /// Columns.
    pub columns: usize,
    pub has_index: bool,
    /// The engine's id; `None` for system relations.
    pub id: Option<u32>,
    /// Its name alone finds it.
    pub visible: bool,
}

impl Relation {
    /// The name as `regclass` prints it: qualified unless visible, quoted if it must be.
    pub fn visible_name(&self) -> String {
        shown_name(&self.schema, &self.name, self.visible)
    }
}

/// A name with its schema if it needs that.
fn shown_name(schema: &str, name: &str, visible: bool) -> String {
    match visible {
        true => quote_ident(name),
        false => format!("{}.{}", quote_ident(schema), quote_ident(name)),
    }
}

/// An index of a table.
#[derive(Clone, Debug)]
pub struct IndexInfo {
    pub oid: u32,
    pub name: String,
    /// Positions in the table's columns.
    pub columns: Vec<usize>,
    /// Those that it has beside its key.
    pub included: Vec<usize>,
    pub orders: Vec<ColumnOrder>,
    /// What was named for the first of its key columns.
    pub declared: Vec<Declared>,
    pub nulls_alike: bool,
    /// Rows are found by it.
    pub valid: bool,
    pub unique: bool,
    /// When its constraint is judged.
    pub deferral: Deferral,
    pub primary: bool,
    /// Belongs to a UNIQUE or PRIMARY KEY constraint.
    pub constraint: bool,
    pub table: Arc<Table>,
}

impl IndexInfo {
    /// `pg_get_indexdef`; `visible`: the table's name does without its schema.
    pub fn definition(&self, pretty: bool, visible: bool) -> String {
        let mut out = format!(
            "CREATE {}INDEX {} ON {} USING btree ({})",
            if self.unique { "UNIQUE " } else { "" },
            quote_ident(&self.name),
            shown_name(&self.table.schema, &self.table.name, visible),
            self.ordered_column_list(pretty)
        );
        out.push_str(&self.include_clause());
        if self.nulls_alike {
            out.push_str(" NULLS NOT DISTINCT");
        }
        if let Some(predicate) = self.predicate(pretty) {
            out.push_str(&format!(" WHERE {predicate}"));
        }
        out
    }
    /// Positions of its key columns in the table's, each with its order; expressions are hidden columns.
    pub fn keys(&self) -> impl Iterator<Item = (usize, &ColumnOrder)> {
        let columns = self.columns.iter().copied().zip(&self.orders);
        columns.filter(|(at, _)| self.table.columns.get(*at).is_some_and(|column| !column.is_predicate()))
    }
    /// ` INCLUDE (…)`; empty if it includes no columns.
    fn include_clause(&self) -> String {
        if self.included.is_empty() {
            return String::new();
        }
        let names: Vec<String> = self.included.iter().filter_map(|&at| self.column_name(at)).collect();
        format!(" INCLUDE ({})", names.join(", "))
    }
    /// Positions of all its columns in the table's, those of its key first.
    pub fn attributes(&self) -> impl Iterator<Item = usize> {
        self.keys().map(|(at, _)| at).chain(self.included.iter().copied())
    }
    /// The condition that the rows of a partial index fulfil.
    pub fn predicate(&self, pretty: bool) -> Option<String> {
        let at = self.columns.iter().find(|at| self.table.columns.get(**at).is_some_and(|c| c.is_predicate()))?;
        let condition = predicate_of(&self.table, *at)?;
        Some(if pretty { crate::definition::shown_pretty(&condition) } else { crate::definition::shown(&condition) })
    }
    /// `pg_index.indexprs`.
    pub fn expressions(&self) -> Option<String> {
        let hidden = |at: &usize| self.table.columns[*at].is_hidden();
        let all: Vec<String> = self
            .keys()
            .map(|(at, _)| at)
            .filter(hidden)
            .filter_map(|at| expression_of(&self.table, at))
            .map(|expr| crate::definition::shown(&expr))
            .collect();
        (!all.is_empty()).then(|| all.join(", "))
    }
    /// Its columns' names as attributes, each once.
    pub fn attribute_names(&self) -> Vec<String> {
        distinct_names(self.attributes().map(|at| match &self.table.columns[at] {
            column if column.is_hidden() => {
                expression_of(&self.table, at).map_or_else(String::new, |e| expression_name(&e))
            }
            column => column.name.clone(),
        }))
    }
    /// The columns' names, with what is not the default of their order.
    fn ordered_column_list(&self, pretty: bool) -> String {
        let columns = self.keys().enumerate().filter_map(|(number, (at, order))| {
            let options = match (order.descending, order.nulls_first) {
                (false, false) => "",
                (false, true) => " NULLS FIRST",
                (true, true) => " DESC",
                (true, false) => " DESC NULLS LAST",
            };
            Some(format!("{}{}{options}", self.key_text(at, pretty)?, self.declared_text(number, at)))
        });
        columns.collect::<Vec<_>>().join(", ")
    }
    /// What was named for a key column, the one at that position of the table, and is not what it has anyway.
    fn declared_text(&self, number: usize, at: usize) -> String {
        let (Some(declared), Some(column)) = (self.declared.get(number), self.table.columns.get(at)) else {
            return String::new();
        };
        let mut out = String::new();
        if declared.collation != 0 && declared.collation != collation::of_column(&self.table, at) {
            let name = collation::name_of(declared.collation).unwrap_or_default();
            out.push_str(&format!(" COLLATE {}", quote_ident(name)));
        }
        if declared.class != 0 && declared.class != operator_classes::default_class(column_oid(&column.ty)) {
            let name = operator_classes::class_of(declared.class).map_or("", |class| class.name);
            out.push_str(&format!(" {name}"));
        }
        out
    }
    /// `pg_index.indcollation`.
    pub fn collations(&self) -> Vec<u32> {
        let declared = |number: usize| self.declared.get(number).map(|one| one.collation).filter(|oid| *oid != 0);
        let keys = self.keys().enumerate();
        keys.map(|(number, (at, _))| declared(number).unwrap_or_else(|| collation::of_column(&self.table, at)))
            .collect()
    }
    /// `pg_index.indclass`.
    pub fn classes(&self) -> Vec<u32> {
        let declared = |number: usize| self.declared.get(number).map(|one| one.class).filter(|oid| *oid != 0);
        let of_type = |at: usize| {
            self.table.columns.get(at).map_or(0, |column| operator_classes::default_class(column_oid(&column.ty)))
        };
        self.keys().enumerate().map(|(number, (at, _))| declared(number).unwrap_or_else(|| of_type(at))).collect()
    }
    /// `pg_index.indoption`: 1 descending, 2 NULLs first.
    pub fn options(&self) -> Vec<i64> {
        self.keys().map(|(_, order)| i64::from(order.descending) | i64::from(order.nulls_first) << 1).collect()
    }
    /// The columns' names with commas.
    pub fn column_list(&self) -> String {
        let names: Vec<String> = self.columns.iter().filter_map(|&at| self.column_name(at)).collect();
        names.join(", ")
    }
    /// The table's column at a position as the definition writes it: its name, or its expression.
    pub fn key_text(&self, at: usize, pretty: bool) -> Option<String> {
        match self.table.columns.get(at)?.is_hidden() {
            true => Some(index_expression(&self.table, at, pretty)),
            false => self.column_name(at),
        }
    }
    /// Quoted name of the table's column at a position.
    pub fn column_name(&self, at: usize) -> Option<String> {
        self.table.columns.get(at).map(|column| quote_ident(&column.name))
    }
}

/// What was named for the first key columns of an index.
pub fn declared(table: &Table, index: &Index) -> Vec<Declared> {
    table.index_details(Some(index.id)).map_or_else(Vec::new, |details| details.declared.clone())
}

/// The number of a table's last column that is not hidden.
pub(super) fn last_shown(table: &Table) -> usize {
    table.columns.iter().rposition(|column| !column.is_hidden()).map_or(0, |at| at + 1)
}

/// The expression of a hidden column.
fn expression_of(table: &Table, at: usize) -> Option<Expr> {
    crate::definition::parse_shown(&table.generated(at)?.sql).ok()
}

/// The condition of which a hidden column says whether it holds.
pub fn predicate_of(table: &Table, at: usize) -> Option<Expr> {
    match expression_of(table, at)? {
        Expr::Case { conditions, .. } => conditions.into_iter().next().map(|when| when.condition),
        _ => None,
    }
}

/// Names of an index's columns as PostgreSQL makes them: what was there before gets a number.
pub fn distinct_names(names: impl Iterator<Item = String>) -> Vec<String> {
    let mut out: Vec<String> = Vec::new();
    for name in names {
        let mut one = name.clone();
        let mut number = 1;
        while out.contains(&one) {
            one = format!("{name}{number}");
            number += 1;
        }
        out.push(one);
    }
    out
}

/// What PostgreSQL names a column of an index after that is an expression.
pub fn expression_name(expr: &Expr) -> String {
    let mut expr = expr;
    while let Expr::Nested(inner) = expr {
        expr = inner;
    }
    crate::naming::column_name(expr).unwrap_or_else(|| "expr".to_owned())
}

/// An index's expression, the hidden column at that position, as definitions write it: in parentheses unless it is a call.
pub fn index_expression(table: &Table, at: usize, pretty: bool) -> String {
    let Some(expr) = expression_of(table, at) else { return String::new() };
    let mut bare = &expr;
    while let Expr::Nested(inner) = bare {
        bare = inner;
    }
    let text = if pretty { crate::definition::shown_pretty(bare) } else { crate::definition::shown(bare) };
    if matches!(bare, Expr::Function(_)) { text } else { format!("({text})") }
}

/// A primary key or unique constraint.
#[derive(Clone, Debug)]
pub struct Constraint {
    pub oid: u32,
    pub index: IndexInfo,
}

/// A CHECK constraint.
#[derive(Clone, Debug)]
pub struct CheckInfo {
    pub oid: u32,
    pub table: Arc<Table>,
    /// Position in the table's list.
    pub at: usize,
}

impl CheckInfo {
    pub fn check(&self) -> &resurgam_engine::Check {
        &self.table.checks[self.at]
    }
    /// The condition as PostgreSQL shows it.
    pub fn condition(&self) -> String {
        let sql = &self.check().sql;
        crate::definition::parse_shown(sql).map_or_else(|_| sql.clone(), |expr| crate::definition::shown(&expr))
    }
    /// `pg_get_constraintdef`; `pretty` as its second argument.
    pub fn definition(&self, pretty: bool) -> String {
        let sql = &self.check().sql;
        let condition = match crate::definition::parse_shown(sql) {
            Ok(expr) if pretty => crate::definition::shown_pretty(&expr),
            Ok(expr) => crate::definition::shown(&expr),
            Err(_) => sql.clone(),
        };
        format!("CHECK ({condition}){}", if self.check().validated { "" } else { " NOT VALID" })
    }
}

/// A FOREIGN KEY constraint.
#[derive(Clone, Debug)]
pub struct ForeignInfo {
    pub oid: u32,
    /// The table that refers.
    pub table: Arc<Table>,
    pub foreign: ForeignKey,
    pub parent: Arc<Table>,
    /// Its name, with its schema if it needs that.
    pub parent_name: String,
    /// Position of the referenced key among the parent's indexes; `None`: its primary key.
    pub index: Option<usize>,
    /// The parent's columns, in the order of the constraint's.
    pub referenced: Vec<usize>,
}

/// `confupdtype` and `confdeltype`, and the words of an action.
fn action(action: ReferentialAction) -> (char, &'static str) {
    match action {
        ReferentialAction::NoAction => ('a', "NO ACTION"),
        ReferentialAction::Restrict => ('r', "RESTRICT"),
        ReferentialAction::Cascade => ('c', "CASCADE"),
        ReferentialAction::SetNull => ('n', "SET NULL"),
        ReferentialAction::SetDefault => ('d', "SET DEFAULT"),
    }
}

impl ForeignInfo {
    /// Letter and words of ON UPDATE.
    pub fn on_update(&self) -> (char, &'static str) {
        action(self.foreign.on_update)
    }
    /// Letter and words of ON DELETE.
    pub fn on_delete(&self) -> (char, &'static str) {
        action(self.foreign.on_delete)
    }
    /// Oid of the index that the referenced key is.
    pub fn index_oid(&self) -> u32 {
        self.index.map_or_else(|| primary_index_oid(self.parent.id), |at| relation_oid(self.parent.indexes[at].id))
    }
    /// Name of the constraint or index that the referenced key is.
    pub fn index_name(&self) -> &str {
        self.index.map_or(&self.parent.primary_key_name, |at| &self.parent.indexes[at].name)
    }
    /// `pg_get_constraintdef`.
    pub fn definition(&self) -> String {
        let list = |table: &Table, columns: &[usize]| {
            let names: Vec<String> = columns.iter().map(|at| quote_ident(&table.columns[*at].name)).collect();
            names.join(", ")
        };
        let mut out = format!(
            "FOREIGN KEY ({}) REFERENCES {}({})",
            list(&self.table, &self.foreign.columns),
            self.parent_name,
            list(&self.parent, &self.referenced)
        );
        if self.foreign.match_full {
            out.push_str(" MATCH FULL");
        }
        for (when, action) in [("UPDATE", self.on_update().1), ("DELETE", self.on_delete().1)] {
            if action != "NO ACTION" {
                out.push_str(&format!(" ON {when} {action}"));
            }
        }
        if self.foreign.deferrable {
            out.push_str(" DEFERRABLE");
        }
        if self.foreign.deferred {
            out.push_str(" INITIALLY DEFERRED");
        }
        if !self.foreign.validated {
            out.push_str(" NOT VALID");
        }
        out
    }
}

impl Constraint {
    /// `p` or `u`.
    pub fn kind(&self) -> char {
        if self.index.primary { 'p' } else { 'u' }
    }
    /// `pg_get_constraintdef`.
    pub fn definition(&self) -> String {
        let kind = match () {
            () if self.index.primary => "PRIMARY KEY",
            () if self.index.nulls_alike => "UNIQUE NULLS NOT DISTINCT",
            () => "UNIQUE",
        };
        let deferral = deferral_clause(self.index.deferral);
        format!("{kind} ({}){}{deferral}", self.index.column_list(), self.index.include_clause())
    }
}

/// What a constraint says of when it is judged.
pub fn deferral_clause(deferral: Deferral) -> &'static str {
    match deferral {
        Deferral::Never => "",
        Deferral::Statement => " DEFERRABLE",
        Deferral::Transaction => " DEFERRABLE INITIALLY DEFERRED",
    }
}

/// Everything that a session sees, at one moment.
#[derive(Debug)]
pub struct Model {
    /// The name of the database that it is of.
    database: String,
    pub tables: Vec<Arc<Table>>,
    pub views: Vec<Arc<Table>>,
    pub namespaces: Vec<Namespace>,
    pub path: Arc<SearchPath>,
    /// For each name the place on the path where it is found first.
    places: HashMap<String, usize>,
    /// By schema and name.
    pub sequences: Vec<Arc<Table>>,
    pub indexes: Vec<IndexInfo>,
    pub relations: Vec<Relation>,
}

impl Model {
    /// Asks the session.
    pub fn load(cx: &dyn PgContext) -> Result<Self, SqlError> {
        let tables = cx.tables()?;
        let mut indexes = Vec::new();
        let mut relations: Vec<Relation> = listed_relations()
            .map(|system| Relation {
                oid: system.oid,
                name: system.name.to_owned(),
                schema: system.schema_name.to_owned(),
                kind: if system.kind == 'v' { RelationKind::View } else { RelationKind::Table },
                columns: system.columns.len(),
                has_index: false,
                id: None,
                visible: false,
            })
            .collect();
        for table in &tables {
            let first = indexes.len();
            if !table.primary_key.is_empty() {
                indexes.push(IndexInfo {
                    oid: primary_index_oid(table.id),
                    name: table.primary_key_name.clone(),
                    columns: table.primary_key.clone(),
                    included: table.included(None).to_vec(),
                    declared: Vec::new(),
                    nulls_alike: false,
                    valid: true,
                    orders: vec![ColumnOrder::ASCENDING; table.primary_key.len()],
                    unique: true,
                    deferral: Deferral::Never,
                    primary: true,
                    constraint: true,
                    table: table.clone(),
                });
            }
            for index in &table.indexes {
                indexes.push(IndexInfo {
                    oid: relation_oid(index.id),
                    name: index.name.clone(),
                    columns: index.columns.clone(),
                    included: table.included(Some(index.id)).to_vec(),
                    declared: declared(table, index),
                    nulls_alike: index.nulls_alike,
                    valid: index.valid,
                    orders: index.orders.clone(),
                    unique: index.unique,
                    deferral: index.deferral,
                    primary: false,
                    constraint: index.constraint,
                    table: table.clone(),
                });
            }
            relations.push(Relation {
                oid: relation_oid(table.id),
                name: table.name.clone(),
                schema: table.schema.clone(),
                kind: RelationKind::Table,
                columns: last_shown(table),
                has_index: indexes.len() > first,
                id: Some(table.id),
                visible: false,
            });
            for index in &indexes[first..] {
                relations.push(Relation {
                    oid: index.oid,
                    name: index.name.clone(),
                    schema: table.schema.clone(),
                    kind: RelationKind::Index,
                    columns: index.attributes().count(),
                    has_index: false,
                    id: Some(if index.primary { table.id } else { index.oid - FIRST_USER_OID }),
                    visible: false,
                });
            }
        }
        let views = cx.views()?;
        for view in &views {
            relations.push(Relation {
                oid: relation_oid(view.id),
                name: view.name.clone(),
                schema: view.schema.clone(),
                kind: RelationKind::View,
                columns: view.view.as_ref().map_or(0, |view| view.columns.len()),
                has_index: false,
                id: Some(view.id),
                visible: false,
            });
        }
        let sequences = cx.sequences()?;
        for sequence in &sequences {
            relations.push(Relation {
                oid: relation_oid(sequence.id),
                name: sequence.name.clone(),
                schema: sequence.schema.clone(),
                kind: RelationKind::Sequence,
                columns: 3,
                has_index: false,
                id: Some(sequence.id),
                visible: false,
            });
        }
        let namespaces = namespaces_of(&cx.schemas()?);
        let path = cx.search_path();
        let mut places: HashMap<String, usize> = HashMap::new();
        for relation in &relations {
            let Some(place) = path.place(&relation.schema) else { continue };
            match places.get_mut(&relation.name) {
                Some(first) => *first = place.min(*first),
                None => _ = places.insert(relation.name.clone(), place),
            }
        }
        for relation in &mut relations {
            let place = path.place(&relation.schema);
            relation.visible = place.is_some() && place == places.get(&relation.name).copied();
        }
        Ok(Self { database: cx.database(), tables, views, namespaces, path, places, sequences, indexes, relations })
    }

    /// Whether the name of a relation alone finds it.
    pub fn is_visible(&self, schema: &str, name: &str) -> bool {
        self.path.place(schema).is_some_and(|place| self.places.get(name) == Some(&place))
    }

    /// A relation's name, with its schema if it needs that.
    pub fn shown(&self, schema: &str, name: &str) -> String {
        shown_name(schema, name, self.is_visible(schema, name))
    }

    /// Who may do what with a relation of a user.
    pub fn access(&self, relation: &Relation) -> resurgam_engine::Access {
        let mut entries = self.tables.iter().chain(&self.views).chain(&self.sequences);
        let entry = entries.find(|entry| Some(entry.id) == relation.id);
        entry.and_then(|entry| entry.access.as_deref()).unwrap_or(&resurgam_engine::Access::FIRST).clone()
    }

    /// The identity column that a sequence is a part of: its table, and its position.
    pub fn identity_of(&self, sequence: u32) -> Option<(&Arc<Table>, usize)> {
        self.tables.iter().find_map(|table| {
            let of = |owned: &&OwnedSequence| owned.sequence == sequence && owned.identity != Identity::No;
            Some((table, table.owned.iter().find(of)?.column))
        })
    }

    /// The sequence of an identity column.
    pub fn identity_sequence(&self, table: &Table, at: usize) -> Option<&Sequence> {
        let of = |owned: &&OwnedSequence| owned.column == at && owned.identity != Identity::No;
        let id = table.owned.iter().find(of)?.sequence;
        self.sequences.iter().find(|entry| entry.id == id)?.sequence.as_deref()
    }

    /// The table or view with that engine id.
    pub(super) fn entry(&self, id: u32) -> Option<Arc<Table>> {
        self.tables.iter().chain(&self.views).find(|entry| entry.id == id).cloned()
    }

    /// `pg_get_viewdef` of a view.
    pub fn view_definition(&self, view: &Table) -> Option<String> {
        view.view
            .as_ref()
            .map(|view| crate::view::shown(view, &|schema, name| self.is_visible(schema, name), &|id| self.entry(id)))
    }

    /// Which columns of a view can be written to, and whether rows can be, by way of views that it reads, too.
    pub fn view_updatable(&self, view: &Table) -> (Vec<bool>, bool) {
        let Some(definition) = &view.view else { return (Vec::new(), false) };
        let (mut columns, mut rows) = crate::view::updatable(definition);
        let mut base = definition.relations.first().and_then(|relation| self.entry(relation.id));
        // As deep as views may be within each other.
        for _ in 0..100 {
            let Some(of) = base.as_ref().and_then(|base| base.view.as_ref()) else { break };
            rows &= crate::view::updatable(of).1;
            base = of.relations.first().and_then(|relation| self.entry(relation.id));
        }
        rows &= base.is_some_and(|base| base.view.is_none());
        columns.iter_mut().for_each(|column| *column &= rows);
        rows &= columns.contains(&true);
        (columns, rows)
    }

    /// Primary keys and unique constraints.
    pub fn constraints(&self) -> impl Iterator<Item = Constraint> + '_ {
        self.indexes
            .iter()
            .filter(|index| index.constraint)
            .map(|index| Constraint { oid: constraint_oid(index.oid), index: index.clone() })
    }

    /// CHECK constraints.
    pub fn checks(&self) -> impl Iterator<Item = CheckInfo> + '_ {
        self.tables.iter().flat_map(|table| {
            table.checks.iter().enumerate().map(|(at, check)| CheckInfo {
                oid: constraint_oid(relation_oid(check.id)),
                table: Arc::clone(table),
                at,
            })
        })
    }

    /// FOREIGN KEY constraints.
    pub fn foreign_keys(&self) -> impl Iterator<Item = ForeignInfo> + '_ {
        self.tables.iter().flat_map(move |table| {
            table.foreign_keys.iter().filter_map(move |foreign| {
                let parent = self.tables.iter().find(|parent| parent.id == foreign.parent)?;
                let (index, referenced) = foreign.referenced(parent)?;
                Some(ForeignInfo {
                    oid: constraint_oid(relation_oid(foreign.id)),
                    table: Arc::clone(table),
                    foreign: foreign.clone(),
                    parent_name: self.shown(&parent.schema, &parent.name),
                    parent: Arc::clone(parent),
                    index,
                    referenced,
                })
            })
        })
    }

    /// Whether a table has foreign keys or is referred to by one.
    pub fn has_foreign_keys(&self, id: u32) -> bool {
        self.tables.iter().any(|table| table.foreign_keys.iter().any(|foreign| table.id == id || foreign.parent == id))
    }

    /// The relation that a name means: `name` or `schema.name`, quoted parts allowed.
    pub fn find(&self, name: &str) -> Option<&Relation> {
        let parts = split_name(name)?;
        let found = |schema: &str, name: &str| {
            self.relations.iter().find(|relation| relation.schema == schema && relation.name == name)
        };
        match parts.as_slice() {
            [name] => self.relations.iter().find(|relation| relation.visible && relation.name == *name),
            [schema, name] => found(self.path.meant(schema), name),
            [database, schema, name] if *database == self.database => found(self.path.meant(schema), name),
            _ => None,
        }
    }

    /// `0A000` for a name in another database.
    pub fn in_other_database(&self, name: &str) -> Option<SqlError> {
        let parts = split_name(name).filter(|parts| parts.len() == 3 && parts[0] != self.database)?;
        let what = format!("cross-database references are not implemented: \"{}\"", parts.join("."));
        Some(SqlError::unsupported(what))
    }

    /// The relation with that oid.
    pub fn relation(&self, oid: u32) -> Option<&Relation> {
        self.relations.iter().find(|relation| relation.oid == oid)
    }

    /// The relation that a name in a stored expression means: one without a schema is of `public`.
    pub fn find_stored(&self, name: &str) -> Option<&Relation> {
        let parts = split_name(name)?;
        let (schemas, name): (&[&str], &str) = match parts.as_slice() {
            [name] => (&[PG_CATALOG, PUBLIC], name),
            [schema, name] => (&[schema.as_str()], name),
            _ => return None,
        };
        schemas.iter().find_map(|schema| {
            self.relations.iter().find(|relation| relation.schema == *schema && relation.name == name)
        })
    }

    /// A stored expression with its names of relations as they have to be written now.
    pub fn expression(&self, sql: &str) -> String {
        let shown = |name: &str| self.find_stored(name).map(Relation::visible_name).filter(|shown| shown != name);
        let sql = crate::sequence_names::renamed(sql, &shown).unwrap_or_else(|| sql.to_owned());
        let sql = crate::definition::in_style(&sql).unwrap_or(sql);
        if crate::user_types::current().is_none_or(|types| types.is_builtin()) {
            return sql;
        }
        match (crate::definition::parse_expression(&sql), crate::definition::parse_shown(&sql)) {
            // The parser's own texts have this one type in capital letters.
            (Ok(kept), Ok(shown)) if kept != shown => {
                crate::definition::kept_text(&shown).replace("::REGCLASS", "::regclass")
            }
            _ => sql,
        }
    }

    /// `42P01`, or `3F000` where the schema that a name has does not exist; `42602` and `42601` for what is no name.
    pub fn undefined(&self, name: &str) -> SqlError {
        if let Some(error) = self.in_other_database(name) {
            return error;
        }
        match split_name(name).as_deref() {
            Some(parts) if parts.len() > 3 => {
                let name = parts.join(".");
                SqlError::syntax(format!("improper relation name (too many dotted names): {name}"))
            }
            Some([.., schema, _]) if !self.has_schema(schema) => {
                SqlError::new("3F000", format!("schema \"{schema}\" does not exist"))
            }
            Some(parts) => SqlError::new("42P01", format!("relation \"{}\" does not exist", parts.join("."))),
            None => SqlError::new("42602", "invalid name syntax"),
        }
    }
}

/// The parts of a dotted name, unquoted ones folded to lower case; `None` if malformed. Between quotes may be nothing, which
/// is no relation's name and yet no mistake of writing.
pub fn split_name(text: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut chars = text.trim().chars().peekable();
    loop {
        let mut part = String::new();
        let is_quoted = chars.peek() == Some(&'"');
        if is_quoted {
            chars.next();
            loop {
                match chars.next()? {
                    '"' if chars.peek() == Some(&'"') => {
                        chars.next();
                        part.push('"');
                    }
                    '"' => break,
                    c => part.push(c),
                }
            }
        } else {
            while let Some(&c) = chars.peek() {
                if c == '.' {
                    break;
                }
                if c == '"' || c.is_whitespace() {
                    return None;
                }
                part.extend(c.to_lowercase());
                chars.next();
            }
        }
        if part.is_empty() && !is_quoted {
            return None;
        }
        parts.push(part);
        match chars.next() {
            None => return Some(parts),
            Some('.') => {}
            Some(_) => return None,
        }
    }
}

/// Every relation that a session sees.
pub fn relations(cx: &dyn PgContext) -> Result<Vec<Relation>, SqlError> {
    Ok(Model::load(cx)?.relations)
}

/// Every schema that a session sees.
///
/// # Errors
/// Those of reading the catalog.
pub fn namespaces(cx: &dyn PgContext) -> Result<Vec<Namespace>, SqlError> {
    Ok(namespaces_of(&cx.schemas()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(split_name("Foo"), Some(vec!["foo".into()]));
        assert_eq!(split_name("a.\"B \"\"c\""), Some(vec!["a".into(), "B \"c".into()]));
        assert_eq!(split_name("\"\""), Some(vec![String::new()]));
        for bad in ["", " ", "a.", ".a", "a..b", "\"", "\"a", "a b"] {
            assert_eq!(split_name(bad), None, "{bad}");
        }
    }
}
