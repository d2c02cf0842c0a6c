//! Comments, wherever they are kept: what `pg_description`, `obj_description` and `col_description` show.

use resurgam_engine::CommentOn;

use super::extensions::{CLASS_EXTENSION, CLASS_FUNCTION};
use super::model::{CLASS_CONSTRAINT, CLASS_RELATION, Model, constraint_oid, primary_index_oid, relation_oid};
use super::namespaces::CLASS_SCHEMA;
use super::policies::CLASS_POLICY;
use super::user_types::CLASS_TYPE;
use crate::context::PgContext;
use crate::user_types::current;
use crate::wire::SqlError;

/// A row of `pg_description`.
#[derive(Clone, Debug)]
pub struct Comment {
    /// Oid of the catalog that has what it is on.
    pub class: u32,
    pub oid: u32,
    /// Number of the column, from 1; 0 if it is not on a column.
    pub column: usize,
    pub text: String,
}

/// All comments of a database.
///
/// # Errors
/// Those of reading the catalog.
pub fn comments(cx: &dyn PgContext, model: &Model) -> Result<Vec<Comment>, SqlError> {
    let mut all = Vec::new();
    let mut add = |class, oid, column, text: &str| all.push(Comment { class, oid, column, text: text.to_owned() });
    for entry in model.tables.iter().chain(&model.views).chain(&model.sequences) {
        for (on, text) in &entry.comments {
            let index = |id: &Option<u32>| id.map_or_else(|| primary_index_oid(entry.id), relation_oid);
            match on {
                CommentOn::Relation => add(CLASS_RELATION, relation_oid(entry.id), 0, text),
                CommentOn::Column(at) => add(CLASS_RELATION, relation_oid(entry.id), at + 1, text),
                CommentOn::Index(id) => add(CLASS_RELATION, index(id), 0, text),
                CommentOn::Constraint(id) => add(CLASS_CONSTRAINT, constraint_oid(index(id)), 0, text),
            }
        }
    }
    for schema in &model.namespaces {
        schema.comment().into_iter().for_each(|text| add(CLASS_SCHEMA, schema.oid, 0, text));
    }
    for policy in cx.policies()? {
        policy.comments.iter().for_each(|(_, text)| add(CLASS_POLICY, policy.id, 0, text));
    }
    let Some(types) = current() else { return Ok(all) };
    for ty in types.iter() {
        ty.body.comment.iter().for_each(|text| add(CLASS_TYPE, ty.oid, 0, text));
    }
    for one in types.extensions() {
        one.comment.iter().for_each(|text| add(CLASS_EXTENSION, relation_oid(one.id), 0, text));
    }
    for function in types.functions() {
        function.comment.iter().for_each(|text| add(CLASS_FUNCTION, function.oid(), 0, text));
    }
    Ok(all)
}

/// Oid of the catalog of that name, if anything in it may have a comment.
pub fn class_named(name: &str) -> Option<u32> {
    match name {
        "pg_class" => Some(CLASS_RELATION),
        "pg_constraint" => Some(CLASS_CONSTRAINT),
        "pg_type" => Some(CLASS_TYPE),
        "pg_namespace" => Some(CLASS_SCHEMA),
        "pg_extension" => Some(CLASS_EXTENSION),
        "pg_proc" => Some(CLASS_FUNCTION),
        "pg_policy" => Some(CLASS_POLICY),
        _ => None,
    }
}
