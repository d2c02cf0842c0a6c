//! `pg_catalog` and `information_schema`, computed from the session's view of the
//! database each time they are read.
//!
//! Every relation that PostgreSQL 15 has there exists with its columns
//! (`relations.txt`); those that nothing is known for are empty. Oids:
//!
//! | object | oid |
//! |---|---|
//! | table or index with engine id n | [`relation_oid`]: 16384 + n |
//! | index that a primary key shows as (the table itself is clustered) | [`primary_index_oid`]: 2^30 + 16384 + n |
//! | constraint | 2^30 + 2^29 + oid of its index, without the index's own 2^30 |
//! | default of a column | 2^31 − 2^28 + running number |
//! | role, or database made by CREATE DATABASE, with engine id n | [`relation_oid`] |
//! | system relations, types, schemas `pg_catalog`, `information_schema`, `public` | PostgreSQL's |
//! | other schema, or extension, with engine id n | [`relation_oid`] |
//! | function of a user, with engine id n | [`relation_oid`] |
//! | function of an extension | the same in all databases ([`FIRST_EXTENSION_OID`](resurgam_dialect::FIRST_EXTENSION_OID) and up) |

mod again;
mod comments;
mod defs;
mod depend;
mod describe;
mod extensions;
mod functions;
mod info;
mod model;
mod namespaces;
mod operator;
mod policies;
mod provider;
mod relations;
mod resolution;
mod roles;
mod rows;
mod seen;
mod sequences;
mod server;
mod statistics;
mod sys;
mod types;
mod usage;
mod user_types;

use std::sync::Arc;

use datafusion::catalog::TableProvider;

pub use again::ReadAgain;
pub use comments::{Comment, class_named, comments};
pub use defs::{SystemRelation, system_relation, system_relations};
pub use describe::{Described, Identity, describe};
pub use extensions::{CLASS_EXTENSION, CLASS_FUNCTION};
pub use functions::{
    builtin_named as builtin_function, builtin_part, named as function_named, shown_definition, shown_expression,
    shown_name as shown_function, standard_body, user_functions,
};
pub use model::{
    CLASS_CONSTRAINT, CLASS_RELATION, Constraint, IndexInfo, Model, Relation, RelationKind, declared, deferral_clause,
    distinct_names, expression_name, index_expression, namespaces, predicate_of, primary_index_oid, relation_oid,
    relations, split_name,
};
pub use namespaces::{CLASS_SCHEMA, Namespace, is_dropped, is_system_schema, schema_body};

pub use sequences::{sequence_columns, sequence_table};
pub use server::CLASS_DATABASE;
pub(crate) use server::FIRST_NORMAL_XID;
pub use user_types::{CLASS_TYPE, domain_constraint};

use crate::context::PgContext;

/// Oid of the first user, who owns everything.
pub const SUPERUSER_OID: u32 = 10;
/// Oid of schema `pg_catalog`.
pub const PG_CATALOG_OID: u32 = 11;
/// Oid of schema `public`.
pub const PUBLIC_OID: u32 = 2200;
/// Oid of schema `information_schema`.
pub const INFORMATION_SCHEMA_OID: u32 = 13_207;
/// Oid of the database that there is from the start.
pub const DATABASE_OID: u32 = resurgam_engine::FIRST_DATABASE;
/// Oid of the access method of tables.
pub const HEAP_AM_OID: u32 = 2;
/// Oid of the access method of indexes.
pub const BTREE_AM_OID: u32 = 403;

/// The system relation of that schema (`pg_catalog`, `information_schema` or `sys`) and name, bound
/// to a session.
pub fn table(cx: &Arc<dyn PgContext>, schema: &str, name: &str) -> Option<Arc<dyn TableProvider>> {
    let definition = system_relation(schema, name)?;
    Some(Arc::new(provider::table(definition, cx.clone())))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::context::{Activity, Setting};
    use crate::datetime::Zone;
    use crate::wire::SqlError;
    use resurgam_engine::Table;

    /// A session without a database behind it.
    #[derive(Debug, Default)]
    pub(crate) struct TestContext {
        pub tables: Vec<Arc<Table>>,
    }

    impl PgContext for TestContext {
        fn database(&self) -> String {
            "postgres".into()
        }
        fn user(&self) -> String {
            "postgres".into()
        }
        fn backend_pid(&self) -> i32 {
            42
        }
        fn tables(&self) -> Result<Vec<Arc<Table>>, SqlError> {
            Ok(self.tables.clone())
        }
        fn setting(&self, name: &str) -> Option<String> {
            (name == "server_version_num").then(|| "150000".to_owned())
        }
        fn set_setting(&self, _: &str, value: &str, _: bool) -> Result<String, SqlError> {
            Ok(value.to_owned())
        }
        fn settings(&self) -> Vec<Setting> {
            vec![]
        }
        fn zone(&self) -> Zone {
            Zone::Utc
        }
        fn transaction_start(&self) -> i64 {
            1_700_000_000_000_000
        }
        fn statement_start(&self) -> i64 {
            1_700_000_001_000_000
        }
        fn transaction_id(&self, assign: bool) -> Result<Option<u64>, SqlError> {
            Ok(assign.then_some(7))
        }
        fn sizes(&self) -> Result<crate::context::Sizes, SqlError> {
            Ok(crate::context::Sizes::default())
        }
        fn row_estimate(&self, _: &Table) -> Option<u64> {
            Some(3)
        }
        fn activity(&self) -> Vec<Activity> {
            vec![Activity { pid: 42, state: "active".into(), ..Activity::default() }]
        }
        fn server_start(&self) -> i64 {
            1_600_000_000_000_000
        }
        fn signal_backend(&self, _: i32, _: bool) -> Result<bool, SqlError> {
            Ok(false)
        }
    }

    #[test]
    fn every_relation_can_be_built() {
        let cx = TestContext::default();
        for relation in system_relations() {
            let batch = provider::build(relation, &cx).unwrap_or_else(|e| panic!("{}: {e}", relation.name));
            assert_eq!(batch.schema(), relation.schema, "{}", relation.name);
        }
    }
}
