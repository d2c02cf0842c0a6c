//! What psql 15, drivers and tools ask the system catalogs, with the answers, for a small database.

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlSettings};

struct Fixture {
    session: Session,
    _folder: tempfile::TempDir,
}

/// The tables that the fixtures were taken with.
async fn fixture() -> Fixture {
    let folder = tempfile::tempdir().expect("folder");
    let engine = Database::open(folder.path(), Options::default()).expect("database");
    let mut session =
        SqlDatabase::new(engine, SqlSettings::default()).session(SessionOptions::default()).expect("session");
    for sql in [
        "CREATE TABLE accounts (id int PRIMARY KEY, owner varchar(20) NOT NULL, balance numeric(12,2) DEFAULT 0, \
         opened timestamptz DEFAULT now(), note text, code char(3), data bytea, u uuid, j json, active bool DEFAULT true)",
        "CREATE UNIQUE INDEX accounts_owner ON accounts (owner)",
        "CREATE INDEX accounts_bal ON accounts (balance, id)",
        "CREATE TABLE nokey (a int, b text)",
    ] {
        session.query(sql).await.expect(sql);
    }
    Fixture { session, _folder: folder }
}

impl Fixture {
    /// Rows as text, nulls as `∅`, fields with `|`.
    async fn rows(&mut self, sql: &str) -> Vec<String> {
        let result = self.session.query(sql).await.unwrap_or_else(|error| panic!("{sql}\n{error:?}"));
        let field = |field: &Option<String>| field.clone().unwrap_or_else(|| "∅".to_owned());
        result.rows.iter().map(|row| row.iter().map(field).collect::<Vec<_>>().join("|")).collect()
    }
}

/// The query of a fixture file, with the table's oid in place of the captured one.
fn captured(file: &str, at: usize, oid: u32) -> String {
    let path = format!("{}/../pg/tests/fixtures/psql/{file}.sql", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("fixture");
    let queries: Vec<&str> = text.split(";\n").collect();
    let digits: String =
        queries[at].split('\'').find(|part| part.starts_with("16") && part.len() == 5).unwrap_or("0").into();
    queries[at].replace(&format!("'{digits}'"), &format!("'{oid}'"))
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_of_psql() {
    let mut fixture = fixture().await;
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
    assert_eq!(
        fixture.rows(&captured("l", 0, 0)).await,
        [
            "postgres|postgres|UTF8|C|C.UTF-8|∅|libc|∅",
            "template0|postgres|UTF8|C|C.UTF-8|∅|libc|=c/postgres\npostgres=CTc/postgres",
            "template1|postgres|UTF8|C|C.UTF-8|∅|libc|=c/postgres\npostgres=CTc/postgres",
        ]
    );
    assert_eq!(fixture.rows(&captured("du", 0, 0)).await, ["postgres|t|t|t|t|t|-1|∅|{}|t|t"]);
    assert_eq!(fixture.rows(&captured("dn", 0, 0)).await, ["public|pg_database_owner"]);
    let owner = fixture.rows("SELECT 'accounts_owner'::regclass::oid").await[0].parse().expect("oid");
    assert_eq!(fixture.rows(&captured("d_accounts_owner", 2, owner)).await, ["owner|character varying(20)|yes|owner"]);
    let listed = fixture.rows(&captured("dt+", 0, 0)).await;
    let size = listed[0].strip_prefix("public|accounts|table|postgres|permanent|heap|").expect("its size");
    assert_eq!(size, "8192 bytes|∅", "a page");
}

/// Queries of drivers and tools.
#[tokio::test(flavor = "multi_thread")]
async fn introspection_of_drivers() {
    let mut fixture = fixture().await;
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
