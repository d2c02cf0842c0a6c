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
use resurgam_engine::{ColumnSpec, ColumnType, Database, Isolation, Options, Table, TableSpec};

use crate::catalog::{self, relation_oid, tests::TestContext};
use crate::context::PgContext;
use crate::encode::{RowEncoder, TextStyle};
use crate::types::PgTypePlanner;
use crate::wire::SqlError;
use crate::{errors, functions, rewrite};

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

/// The tables that the fixtures were taken with.
fn specs() -> [TableSpec; 2] {
    let column = |name: &str, ty, nullable, default: Option<&str>| ColumnSpec {
        name: name.into(),
        ty,
        nullable,
        default_sql: default.map(Into::into),
    };
    let mut accounts = TableSpec::new("public", "accounts");
    accounts.columns = vec![
        column("id", ColumnType::Int4, false, None),
        column("owner", ColumnType::Varchar(20), false, None),
        column("balance", ColumnType::Numeric { precision: 12, scale: 2 }, true, Some("0")),
        column("opened", ColumnType::TimestampTz, true, Some("now()")),
        column("note", ColumnType::Text, true, None),
        column("code", ColumnType::Char(3), true, None),
        column("data", ColumnType::Bytes, true, None),
        column("u", ColumnType::Uuid, true, None),
        column("j", ColumnType::Json, true, None),
        column("active", ColumnType::Bool, true, Some("true")),
    ];
    let accounts = accounts.primary_key(&["id"]).index("accounts_owner", &["owner"], true).index(
        "accounts_bal",
        &["balance", "id"],
        false,
    );
    [accounts, TableSpec::new("public", "nokey").column("a", ColumnType::Int4).column("b", ColumnType::Text)]
}

/// Their definitions, from a database that is gone again.
fn tables() -> Vec<Arc<Table>> {
    let folder = tempfile::tempdir().expect("folder");
    let options = Options { background: false, ..Options::default() };
    let database = Database::open(folder.path(), options).expect("database");
    let transaction = database.begin(Isolation::ReadCommitted);
    let tables = specs()
        .into_iter()
        .map(|spec| transaction.create_table(spec).expect("table").done().expect("no wait"))
        .collect();
    transaction.rollback().expect("rollback");
    tables
}

struct Fixture {
    context: SessionContext,
    cx: Arc<dyn PgContext>,
    accounts: Arc<Table>,
}

fn fixture() -> Fixture {
    let tables = tables();
    let accounts = tables[0].clone();
    let cx: Arc<dyn PgContext> = Arc::new(TestContext { tables });
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
    Fixture { context, cx, accounts }
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
        let plan =
            self.context.state().statement_to_plan(Statement::Statement(Box::new(statement))).await.map_err(wrap)?;
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

/// The query of a fixture file, with the table's oid in place of the captured one.
fn captured(file: &str, at: usize, oid: u32) -> String {
    let path = format!("{}/tests/fixtures/psql/{file}.sql", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("fixture");
    let queries: Vec<&str> = text.split(";\n").collect();
    let digits: String =
        queries[at].split('\'').find(|part| part.starts_with("16") && part.len() == 5).unwrap_or("0").into();
    queries[at].replace(&format!("'{digits}'"), &format!("'{oid}'"))
}

#[tokio::test]
async fn lists_of_psql() {
    let fixture = fixture();
    assert_eq!(
        fixture.rows(&captured("dt", 0, 0)).await,
        ["public|accounts|table|postgres", "public|nokey|table|postgres"]
    );
    assert_eq!(
        fixture.rows(&captured("di", 0, 0)).await,
        [
            "public|accounts_bal|index|postgres|accounts",
            "public|accounts_owner|index|postgres|accounts",
            "public|accounts_pkey|index|postgres|accounts",
        ]
    );
    assert_eq!(fixture.rows(&captured("l", 0, 0)).await, ["postgres|postgres|UTF8|C|C|∅|libc|∅"]);
    assert_eq!(fixture.rows(&captured("du", 0, 0)).await, ["postgres|t|t|t|t|t|-1|∅|{}|t|t"]);
    assert_eq!(fixture.rows(&captured("dn", 0, 0)).await, ["public|postgres"]);
    assert_eq!(
        fixture.rows(&captured("d_accounts_owner", 2, relation_oid(fixture.accounts.indexes[0].id))).await,
        ["owner|character varying(20)|yes|owner"]
    );
    assert_eq!(
        fixture.rows(&captured("dt+", 0, 0)).await[0],
        "public|accounts|table|postgres|permanent|heap|8192 bytes|∅"
    );
}

/// Queries of drivers and tools.
#[tokio::test]
async fn introspection_of_drivers() {
    let fixture = fixture();
    // SQLAlchemy: has_table, primary key
    assert_eq!(
        fixture
            .rows(
                "SELECT pg_catalog.pg_class.relname FROM pg_catalog.pg_class JOIN pg_catalog.pg_namespace \
                 ON pg_catalog.pg_namespace.oid = pg_catalog.pg_class.relnamespace WHERE \
                 pg_catalog.pg_class.relname = 'accounts' AND pg_catalog.pg_class.relkind = \
                 ANY (ARRAY['r', 'p', 'f', 'v', 'm']) AND pg_catalog.pg_table_is_visible(pg_catalog.pg_class.oid) \
                 AND pg_catalog.pg_namespace.nspname != 'pg_catalog'"
            )
            .await,
        ["accounts"]
    );
    assert_eq!(
        fixture
            .rows(
                "SELECT a.attname FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND \
                 a.attnum = ANY(i.indkey) WHERE i.indrelid = 'accounts'::regclass AND i.indisprimary"
            )
            .await,
        ["id"]
    );
    // psycopg's type lookup
    assert_eq!(
        fixture
            .rows("SELECT typname AS name, oid, typarray AS array_oid, oid::regtype::text AS regtype, typdelim FROM pg_type t WHERE t.oid = to_regtype('int4') ORDER BY t.oid")
            .await,
        ["int4|23|1007|integer|,"]
    );
    // JDBC getColumns, in essence
    assert_eq!(
        fixture
            .rows(
                "SELECT * FROM (SELECT n.nspname,c.relname,a.attname,a.atttypid,a.attnotnull OR (t.typtype = 'd' AND \
                 t.typnotnull) AS attnotnull,a.atttypmod,a.attlen,t.typtypmod,row_number() OVER (PARTITION BY \
                 a.attrelid ORDER BY a.attnum) AS attnum, nullif(a.attidentity, '') as attidentity, \
                 nullif(a.attgenerated, '') as attgenerated,pg_catalog.pg_get_expr(def.adbin, def.adrelid) AS \
                 adsrc,dsc.description,t.typbasetype,t.typtype FROM pg_catalog.pg_namespace n JOIN \
                 pg_catalog.pg_class c ON (c.relnamespace = n.oid) JOIN pg_catalog.pg_attribute a ON \
                 (a.attrelid=c.oid) JOIN pg_catalog.pg_type t ON (a.atttypid = t.oid) LEFT JOIN \
                 pg_catalog.pg_attrdef def ON (a.attrelid=def.adrelid AND a.attnum = def.adnum) LEFT JOIN \
                 pg_catalog.pg_description dsc ON (c.oid=dsc.objoid AND a.attnum = dsc.objsubid) LEFT JOIN \
                 pg_catalog.pg_class dc ON (dc.oid=dsc.classoid AND dc.relname='pg_class') LEFT JOIN \
                 pg_catalog.pg_namespace dn ON (dc.relnamespace=dn.oid AND dn.nspname='pg_catalog') WHERE \
                 c.relkind in ('r','p','v','f','m') and a.attnum > 0 AND NOT a.attisdropped AND n.nspname LIKE \
                 'public' AND c.relname LIKE 'accounts') c WHERE true AND attname LIKE 'balance' ORDER BY \
                 nspname,c.relname,attnum"
            )
            .await,
        ["public|accounts|balance|1700|f|786438|-1|-1|3|∅|∅|0|∅|0|b"]
    );
    // information_schema
    assert_eq!(
        fixture
            .rows(
                "SELECT column_name, data_type, is_nullable, character_maximum_length, numeric_precision, column_default \
                 FROM information_schema.columns WHERE table_schema = 'public' AND table_name = 'accounts' AND \
                 ordinal_position <= 3 ORDER BY ordinal_position"
            )
            .await,
        ["id|integer|NO|∅|32|∅", "owner|character varying|NO|20|∅|∅", "balance|numeric|YES|∅|12|0"]
    );
    assert_eq!(
        fixture
            .rows(
                "SELECT tc.constraint_name, kcu.column_name FROM information_schema.table_constraints tc JOIN \
                 information_schema.key_column_usage kcu USING (constraint_schema, constraint_name) WHERE \
                 tc.constraint_type = 'PRIMARY KEY' AND tc.table_name = 'accounts'"
            )
            .await,
        ["accounts_pkey|id"]
    );
}
