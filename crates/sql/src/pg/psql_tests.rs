//! The queries that psql 15 sends for its backslash commands, planned and run against the
//! system catalogs of a small database, without an engine or a session.

use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::Result as DfResult;
use datafusion::execution::session_state::SessionStateBuilder;
use datafusion::prelude::{SessionConfig, SessionContext};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;
use datafusion::sql::sqlparser::parser::Parser;
use resurgam_engine::{ColumnType, Table};

use crate::pg::catalog::{self, relation_oid, tests::TestContext};
use crate::pg::context::PgContext;
use crate::pg::encode::{RowEncoder, TextStyle};
use crate::pg::types::PgTypePlanner;
use crate::pg::{errors, functions, rewrite};
use crate::wire::SqlError;

#[derive(Debug)]
struct Schemas(Arc<dyn PgContext>);

impl CatalogProvider for Schemas {
    fn schema_names(&self) -> Vec<String> {
        vec!["pg_catalog".into(), "information_schema".into()]
    }
    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let schema = self.schema_names().into_iter().find(|known| known == name)?;
        Some(Arc::new(SystemSchema { schema, cx: self.0.clone() }))
    }
}

#[derive(Debug)]
struct SystemSchema {
    schema: String,
    cx: Arc<dyn PgContext>,
}

#[async_trait]
impl SchemaProvider for SystemSchema {
    fn table_names(&self) -> Vec<String> {
        vec![]
    }
    async fn table(&self, name: &str) -> DfResult<Option<Arc<dyn TableProvider>>> {
        Ok(catalog::table(&self.cx, &self.schema, name))
    }
    fn table_exist(&self, name: &str) -> bool {
        catalog::system_relation(&self.schema, name).is_some()
    }
}

/// The table that the fixtures were taken with.
fn accounts() -> Arc<Table> {
    test_table(
        1,
        "accounts",
        &[
            ("id", ColumnType::Int4, false, None),
            ("owner", ColumnType::Varchar(20), false, None),
            ("balance", ColumnType::Numeric { precision: 12, scale: 2 }, true, Some("0")),
            ("opened", ColumnType::TimestampTz, true, Some("now()")),
            ("note", ColumnType::Text, true, None),
            ("code", ColumnType::Char(3), true, None),
            ("data", ColumnType::Bytes, true, None),
            ("u", ColumnType::Uuid, true, None),
            ("j", ColumnType::Json, true, None),
            ("active", ColumnType::Bool, true, Some("true")),
        ],
        &[0],
        &[(2, "accounts_owner", &[1], true), (3, "accounts_bal", &[2, 0], false)],
    )
}

type ColumnOf<'a> = (&'a str, ColumnType, bool, Option<&'a str>);

include!("test_table.rs");

struct Fixture {
    context: SessionContext,
    cx: Arc<dyn PgContext>,
}

fn fixture() -> Fixture {
    let cx: Arc<dyn PgContext> = Arc::new(TestContext {
        tables: vec![accounts(), test_table(4, "nokey", &[("a", ColumnType::Int4, true, None), ("b", ColumnType::Text, true, None)], &[], &[])],
    });
    let mut config = SessionConfig::new()
        .with_target_partitions(1)
        .with_default_catalog_and_schema("postgres", "pg_catalog")
        .with_create_default_catalog_and_schema(false);
    let options = config.options_mut();
    options.sql_parser.parse_float_as_decimal = true;
    options.sql_parser.collect_spans = true;
    options.sql_parser.default_null_ordering = "nulls_max".into();
    options.sql_parser.dialect = datafusion::common::config::Dialect::PostgreSQL;
    let mut state = SessionStateBuilder::new()
        .with_config(config)
        .with_default_features()
        .with_type_planner(Arc::new(PgTypePlanner))
        .build();
    functions::register(&mut state, &cx).expect("register");
    let context = SessionContext::new_with_state(state);
    context.register_catalog("postgres", Arc::new(Schemas(cx.clone())));
    Fixture { context, cx }
}

impl Fixture {
    async fn batches(&self, sql: &str) -> Result<Vec<RecordBatch>, SqlError> {
        let mut statements =
            Parser::parse_sql(&PostgreSqlDialect {}, sql).map_err(|error| errors::from_parser(&error, sql))?;
        let mut statement = statements.remove(0);
        rewrite::rewrite_statement(&mut statement)?;
        let rewritten = statement.to_string();
        let wrap = |error| {
            let mut out = errors::from_datafusion(error, sql);
            out.hint = Some(format!("{:?}: {rewritten}", out.hint));
            out
        };
        let plan = self
            .context
            .state()
            .statement_to_plan(Statement::Statement(Box::new(statement)))
            .await
            .map_err(wrap)?;
        self.context.execute_logical_plan(plan).await.map_err(wrap)?.collect().await.map_err(wrap)
    }

    /// Rows as text, nulls as `∅`, fields with `|`.
    async fn rows(&self, sql: &str) -> Vec<String> {
        let batches = match self.batches(sql).await {
            Ok(batches) => batches,
            Err(error) => panic!("{sql}\n{error:?}"),
        };
        let mut out = Vec::new();
        for batch in &batches {
            let style = TextStyle::of(&self.cx);
            let encoder = RowEncoder::new(batch.schema().fields(), &[], &style).expect("encoder");
            let cells = encoder.cells(batch).expect("cells");
            for row in 0..batch.num_rows() {
                let fields: Vec<String> = cells
                    .iter()
                    .map(|cell| {
                        if cell.is_null(row) {
                            return "∅".to_owned();
                        }
                        let mut text = bytes::BytesMut::new();
                        cell.put_text(row, &mut text).expect("text");
                        String::from_utf8_lossy(&text).into_owned()
                    })
                    .collect();
                out.push(fields.join("|"));
            }
        }
        out
    }
}

/// Every captured query runs; the ones that answer are compared in other tests.
#[tokio::test]
async fn every_psql_query_runs() {
    let fixture = fixture();
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/psql");
    let mut failures = Vec::new();
    let mut count = 0;
    let mut files: Vec<_> = std::fs::read_dir(directory).expect("fixtures").flatten().collect();
    files.sort_by_key(|file| file.file_name());
    for file in files {
        let text = std::fs::read_to_string(file.path()).expect("fixture");
        for query in text.split(";\n").filter(|query| !query.trim().is_empty()) {
            count += 1;
            if let Err(error) = fixture.batches(query).await {
                failures.push(format!("{:?}\n{query}\n--> {error:?}\n", file.file_name()));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count} failed:\n{}", failures.len(), failures.join("\n"));
    assert!(count > 60, "only {count} queries found");
}
