//! Schemas: what is told of what goes with them, plans of one text along several paths, makers and droppers beside each other,
//! and what a restart leaves. What each statement answers is in `slt/schemas.slt`.

mod temporary;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use resurgam_engine::{Database, Options};
use resurgam_sql::{Session, SessionOptions, SqlDatabase, SqlError, SqlSettings};

fn open(folder: &Path) -> Arc<SqlDatabase> {
    open_both(folder).1
}

fn open_both(folder: &Path) -> (Database, Arc<SqlDatabase>) {
    let engine = Database::open(folder, Options::default()).expect("database");
    (engine.clone(), SqlDatabase::new(engine, SqlSettings::default()))
}

fn session(database: &Arc<SqlDatabase>) -> Session {
    Arc::clone(database).session(SessionOptions::default()).expect("session")
}

async fn done(session: &mut Session, statements: &[&str]) {
    for statement in statements {
        session.query(statement).await.unwrap_or_else(|error| panic!("{statement}: {error}"));
    }
}

/// The one value of a query, or the error's SQLSTATE.
async fn value(session: &mut Session, sql: &str) -> String {
    match session.query(sql).await {
        Ok(result) => result.rows.first().and_then(|row| row[0].clone()).unwrap_or_else(|| "∅".to_owned()),
        Err(error) => error.into_fields().sqlstate,
    }
}

async fn refused(session: &mut Session, sql: &str) -> SqlError {
    session.query(sql).await.map(|_| ()).expect_err(sql)
}

/// PostgreSQL 15's words and order.
const IN_THE_WAY: &str = "table x.t depends on schema x
default value for column n of table u depends on sequence x.t_b_seq
view \"Y y\".v depends on table x.t
constraint u_r_fkey on table u depends on table x.t
view x.v2 depends on schema x
sequence x.s depends on schema x
default value for column a of table u depends on sequence x.s";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_goes_with_a_schema_is_told_of() {
    let folder = tempfile::tempdir().expect("folder");
    let database = open(folder.path());
    let mut session = session(&database);
    done(
        &mut session,
        &[
            "CREATE SCHEMA x",
            "CREATE SCHEMA \"Y y\"",
            "CREATE TABLE x.t (a int PRIMARY KEY, b serial)",
            "CREATE VIEW \"Y y\".v AS SELECT * FROM x.t",
            "CREATE VIEW x.v2 AS SELECT * FROM \"Y y\".v",
            "CREATE SEQUENCE x.s",
            "CREATE TABLE u (a int DEFAULT nextval('x.s'), r int REFERENCES x.t, n int DEFAULT nextval('x.t_b_seq'))",
        ],
    )
    .await;
    for (dropped, message) in [
        ("x", "cannot drop schema x because other objects depend on it"),
        ("x, \"Y y\"", "cannot drop desired object(s) because other objects depend on them"),
    ] {
        let error = refused(&mut session, &format!("DROP SCHEMA {dropped}")).await;
        assert_eq!((error.sqlstate.as_str(), error.message.as_str()), ("2BP01", message));
        assert_eq!(error.detail.as_deref(), Some(IN_THE_WAY));
        assert_eq!(error.hint.as_deref(), Some("Use DROP ... CASCADE to drop the dependent objects too."));
    }
    // Names have their schemas where the path does not find them.
    done(&mut session, &["SET search_path = x"]).await;
    let error = refused(&mut session, "DROP SEQUENCE s").await;
    let detail = "default value for column a of table public.u depends on sequence s";
    assert_eq!(error.detail.as_deref(), Some(detail));
    let error = refused(&mut session, "DROP VIEW \"Y y\".v").await;
    assert_eq!(error.message, "cannot drop view \"Y y\".v because other objects depend on it");
    assert_eq!(error.detail.as_deref(), Some("view v2 depends on view \"Y y\".v"));
    session.take_notices();
    done(&mut session, &["RESET search_path", "BEGIN", "DROP SCHEMA x CASCADE"]).await;
    let notices = session.take_notices();
    let cascades: Vec<String> = IN_THE_WAY
        .lines()
        .map(|line| format!("drop cascades to {}", line.split(" depends on ").next().unwrap_or_default()))
        .collect();
    assert_eq!(notices[0].message, "drop cascades to 7 other objects");
    assert_eq!(notices[0].detail.as_deref(), Some(cascades.join("\n").as_str()));
    done(&mut session, &["INSERT INTO u DEFAULT VALUES", "ROLLBACK", "INSERT INTO u (r) VALUES (NULL)"]).await;
    assert_eq!(value(&mut session, "SELECT a || ' ' || n FROM u").await, "1 1");
}

/// One text means another table along another path, for new plans and for kept ones, in one session and in several.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kept_plan_belongs_to_its_path() {
    let folder = tempfile::tempdir().expect("folder");
    let database = open(folder.path());
    let mut first = session(&database);
    for tenant in 0..20 {
        let schema = format!("tenant_{tenant}");
        done(
            &mut first,
            &[
                &format!("CREATE SCHEMA {schema}"),
                &format!("CREATE TABLE {schema}.t (id int PRIMARY KEY, of text)"),
                &format!("INSERT INTO {schema}.t VALUES (1, '{schema}'), (2, 'other')"),
            ],
        )
        .await;
    }
    let mut sessions = [session(&database), session(&database)];
    done(&mut sessions[0], &["SET search_path = tenant_3", "PREPARE p AS SELECT of FROM t WHERE id = $1"]).await;
    for round in 0..60 {
        let schema = format!("tenant_{}", round * 7 % 20);
        let session = &mut sessions[round % 2];
        done(session, &[&format!("SET search_path = {schema}")]).await;
        assert_eq!(value(session, "SELECT of FROM t WHERE id = 1").await, schema);
        assert_eq!(value(session, "SELECT max(of) FROM t").await, schema);
        done(session, &["UPDATE t SET of = 'new ' || of WHERE id = 2"]).await;
        if round % 2 == 0 {
            assert_eq!(value(session, "EXECUTE p (1)").await, schema);
        }
    }
    done(&mut sessions[0], &["SET search_path = nosuch"]).await;
    assert_eq!(value(&mut sessions[0], "SELECT of FROM t WHERE id = 1").await, "42P01");
    assert_eq!(value(&mut sessions[0], "EXECUTE p (1)").await, "42P01");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn makers_and_droppers_find_each_other() {
    let folder = tempfile::tempdir().expect("folder");
    let database = open(folder.path());
    let (mut maker, mut dropper) = (session(&database), session(&database));
    for schema in ["x", "public"] {
        if schema == "x" {
            done(&mut maker, &["CREATE SCHEMA x"]).await;
        }
        let (make, drop) = (format!("CREATE TABLE {schema}.t (a int)"), format!("DROP SCHEMA {schema}"));
        done(&mut maker, &["BEGIN", &make]).await;
        let runtime = tokio::runtime::Handle::current();
        let waiting = tokio::task::spawn_blocking(move || {
            let outcome = runtime.block_on(dropper.query(&drop));
            (dropper, outcome.map(|_| ()).map_err(|error| error.into_fields().sqlstate))
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished(), "somebody makes something in schema {schema}");
        done(&mut maker, &["COMMIT"]).await;
        let (given_back, outcome) = waiting.await.expect("the dropper");
        dropper = given_back;
        assert_eq!(outcome, Err("2BP01".to_owned()));
        // The other way round.
        done(&mut dropper, &["BEGIN", &format!("DROP SCHEMA {schema} CASCADE")]).await;
        let make = format!("CREATE VIEW {schema}.v AS SELECT 1");
        let runtime = tokio::runtime::Handle::current();
        let waiting = tokio::task::spawn_blocking(move || {
            let outcome = runtime.block_on(maker.query(&make));
            (maker, outcome.map(|_| ()).map_err(|error| error.into_fields().sqlstate))
        });
        tokio::time::sleep(Duration::from_millis(100)).await;
        assert!(!waiting.is_finished(), "somebody drops schema {schema}");
        done(&mut dropper, &["COMMIT"]).await;
        let (given_back, outcome) = waiting.await.expect("the maker");
        maker = given_back;
        assert_eq!(outcome, Err("3F000".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schemas_survive_a_restart() {
    let folder = tempfile::tempdir().expect("folder");
    {
        let (engine, database) = open_both(folder.path());
        let mut session = session(&database);
        done(
            &mut session,
            &[
                "CREATE SCHEMA x",
                "COMMENT ON SCHEMA x IS 'a comment'",
                "CREATE TABLE t (a serial, b int)",
                "INSERT INTO t (b) VALUES (5)",
                "CREATE VIEW v AS SELECT b FROM t",
                "ALTER TABLE t SET SCHEMA x",
                "ALTER SCHEMA x RENAME TO y",
                "ALTER VIEW v SET SCHEMA y",
                "DROP SCHEMA public",
                "BEGIN",
                "CREATE SCHEMA lost",
                "CREATE TABLE lost.t (a int)",
            ],
        )
        .await;
        drop(session);
        drop(database);
        engine.close().expect("close");
    }
    let database = open(folder.path());
    let mut session = session(&database);
    for (query, expected) in [
        (
            "SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^pg_'",
            "information_schema,y",
        ),
        ("SELECT obj_description('y'::regnamespace)", "a comment"),
        ("SELECT b FROM y.v", "5"),
        ("INSERT INTO y.t (b) VALUES (6) RETURNING a > 1", "t"),
        (
            "SELECT column_default FROM information_schema.columns WHERE column_name = 'a'",
            "nextval('y.t_a_seq'::regclass)",
        ),
        ("CREATE TABLE public.t (a int)", "3F000"),
        ("SELECT count(*) FROM lost.t", "42P01"),
    ] {
        assert_eq!(value(&mut session, query).await, expected, "{query}");
    }
}

/// Temporary tables go when their session ends, also if it ends within a transaction; what a crash has left of one goes when
/// the database is used again, and is nobody's until then.
#[test]
fn nothing_temporary_outlives_its_session() {
    let runtime =
        || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().expect("runtime");
    let dir = tempfile::tempdir().expect("folder");
    let open = || {
        let engine = Database::open(dir.path().join("db"), Options::default()).expect("open");
        (engine.clone(), SqlDatabase::new(engine, SqlSettings::default()))
    };
    async fn temporary(session: &mut Session) -> u32 {
        let text = "SELECT count(*) FROM pg_class WHERE relpersistence = 't' OR relnamespace::regnamespace::text LIKE 'pg_temp%'";
        let rows = session.query(text).await.expect("rows").rows;
        rows[0][0].as_ref().and_then(|count| count.parse().ok()).expect("a number")
    }
    async fn until_gone(session: &mut Session) {
        let begun = std::time::Instant::now();
        while temporary(session).await > 0 {
            assert!(begun.elapsed() < Duration::from_secs(20), "it stays");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    let (engine, sql) = open();
    let used = runtime();
    let left = used.block_on(async {
        let mut watching = sql.session(SessionOptions::default()).expect("session");
        let mut session = sql.session(SessionOptions::default()).expect("session");
        session
            .query("CREATE TEMP TABLE t (id serial PRIMARY KEY); CREATE TEMP VIEW v AS SELECT id FROM t")
            .await
            .expect("made");
        session.query("BEGIN; INSERT INTO t DEFAULT VALUES; CREATE TEMP TABLE u (a int)").await.expect("made");
        assert_eq!(temporary(&mut watching).await, 4);
        drop(session);
        until_gone(&mut watching).await;
        let mut left = sql.session(SessionOptions::default()).expect("session");
        left.query("CREATE TEMP TABLE t (id serial); INSERT INTO t DEFAULT VALUES").await.expect("made");
        left
    });
    // Without a runtime nobody drops it, as after a crash.
    drop(left);
    drop((sql, used));
    engine.close().expect("closed");
    let (engine, sql) = open();
    let used = runtime();
    used.block_on(async {
        let mut session = sql.session(SessionOptions::default()).expect("session");
        session.query("CREATE TEMP TABLE t (other int)").await.expect("made");
        assert!(session.query("SELECT other FROM t").await.expect("rows").rows.is_empty());
        session.query("DROP TABLE t").await.expect("dropped");
        until_gone(&mut session).await;
    });
    drop((sql, used));
    engine.close().expect("closed");
}
