//! sqlx against a server: what a program of it does, and what its macros and its migrations ask. Usage: sqlx_driver HOST PORT. A line for
//! each step; 1 if any failed.

use std::fmt::Debug;
use std::path::{Path, PathBuf};
use std::time::Duration;

use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures_util::{StreamExt, TryStreamExt};
use rust_drivers::{Done, Failure, Program, equal, place};
use serde_json::json;
use sqlx::error::ErrorKind;
use sqlx::migrate::{MigrateDatabase, MigrateError, Migrator};
use sqlx::postgres::types::{PgInterval, PgRange, PgTimeTz};
use sqlx::postgres::{
    PgAdvisoryLock, PgArguments, PgConnectOptions, PgConnection, PgDatabaseError, PgHasArrayType, PgListener, PgPool,
    PgPoolCopyExt, PgPoolOptions, PgTypeInfo,
};
use sqlx::types::{BigDecimal, Json, Uuid};
use sqlx::{
    Acquire, Column, Connection, Decode, Either, Encode, Executor, Postgres, QueryBuilder, Row, Type, TypeInfo,
};

fn options() -> PgConnectOptions {
    let (host, port) = place();
    PgConnectOptions::new()
        .host(&host)
        .port(port)
        .username("postgres")
        .database("postgres")
        .application_name("drivers")
        .options([("timezone", "UTC")])
}

async fn connect() -> Result<PgConnection, sqlx::Error> {
    PgConnection::connect_with(&options()).await
}

async fn pool() -> Result<PgPool, sqlx::Error> {
    PgPoolOptions::new().max_connections(4).acquire_timeout(Duration::from_secs(20)).connect_with(options()).await
}

/// The server's error that something has to end with, by its SQLSTATE.
fn refused<T>(outcome: Result<T, sqlx::Error>, wanted: &str) -> Result<Box<PgDatabaseError>, Failure> {
    match outcome {
        Ok(_) => Err(format!("no {wanted}").into()),
        Err(sqlx::Error::Database(error)) => {
            let error = error.downcast::<PgDatabaseError>();
            equal(error.code(), wanted, error.message())?;
            Ok(error)
        }
        Err(other) => Err(other.into()),
    }
}

/// Values come back as they were sent, as parameters and from a column.
async fn round<T>(conn: &mut PgConnection, kind: &str, values: Vec<T>) -> Done
where
    T: for<'q> Encode<'q, Postgres>
        + for<'r> Decode<'r, Postgres>
        + Type<Postgres>
        + Clone
        + PartialEq
        + Debug
        + Send
        + Sync
        + Unpin
        + 'static,
{
    let select = format!("SELECT $1::{kind}");
    conn.execute(&*format!("DROP TABLE IF EXISTS sx_one; CREATE TABLE sx_one (at int, v {kind})")).await?;
    for (at, value) in values.iter().enumerate() {
        let got: T = sqlx::query_scalar(&select)
            .bind(value.clone())
            .fetch_one(&mut *conn)
            .await
            .map_err(|error| format!("{kind}: {error:?}"))?;
        equal(&got, value, kind)?;
        sqlx::query("INSERT INTO sx_one VALUES ($1, $2)")
            .persistent(false)
            .bind(at as i32)
            .bind(value.clone())
            .execute(&mut *conn)
            .await?;
    }
    let got: Vec<T> =
        sqlx::query_scalar("SELECT v FROM sx_one ORDER BY at").persistent(false).fetch_all(&mut *conn).await?;
    equal(got, values, kind)?;
    let none: Option<T> = sqlx::query_scalar(&select).bind(None::<T>).fetch_one(&mut *conn).await?;
    equal(none.is_none(), true, kind)
}

async fn types_in_binary() -> Done {
    let conn = &mut connect().await?;
    let date = |text: &str| text.parse::<NaiveDate>();
    let stamp = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f");
    let number = |text: &str| text.parse::<BigDecimal>();
    round(conn, "bool", vec![true, false]).await?;
    round(conn, "int2", vec![i16::MIN, 0, i16::MAX]).await?;
    round(conn, "int4", vec![i32::MIN, 0, i32::MAX]).await?;
    round(conn, "int8", vec![i64::MIN, 0, i64::MAX]).await?;
    round(conn, "float4", vec![0.5f32, f32::INFINITY]).await?;
    round(conn, "float8", vec![0.1, -1e308, 5e-324, f64::NEG_INFINITY]).await?;
    let numbers = ["0", "-0.001", "1E+30", "12345678901234567890.123456789", "99999999.0001"].map(number);
    round(conn, "numeric", numbers.into_iter().collect::<Result<Vec<_>, _>>()?).await?;
    round(conn, "text", ["", "Grüße, 世界 😀", "quote ' \\ \" and\nline"].map(str::to_owned).to_vec()).await?;
    round(conn, "varchar(10)", vec!["0123456789".to_owned()]).await?;
    round(conn, "bytea", vec![Vec::new(), (0..=255).collect::<Vec<u8>>()]).await?;
    round(conn, "uuid", vec![Uuid::nil(), Uuid::max()]).await?;
    round(conn, "date", vec![date("0001-01-01")?, date("1999-12-31")?, date("9999-12-31")?]).await?;
    round(conn, "time", vec![NaiveTime::MIN, NaiveTime::from_hms_micro_opt(23, 59, 59, 999_999).ok_or("no time")?])
        .await?;
    let stamps =
        vec![stamp("0001-01-01 00:00:00")?, stamp("2024-02-29 12:00:00.000001")?, stamp("9999-12-31 23:59:59.999999")?];
    round(conn, "timestamp", stamps.clone()).await?;
    round::<DateTime<Utc>>(conn, "timestamptz", stamps.iter().map(NaiveDateTime::and_utc).collect()).await?;
    let offset = chrono::FixedOffset::east_opt(19_800).ok_or("no offset")?;
    let zoned = PgTimeTz { time: NaiveTime::from_hms_micro_opt(12, 30, 15, 5).ok_or("no time")?, offset };
    round(conn, "timetz", vec![zoned]).await?;
    round(conn, "interval", vec![PgInterval { months: -14, days: 3, microseconds: 5 }]).await?;
    round(conn, "jsonb", vec![json!(null), json!({"a": [1, {"b": null}]}), json!("ü")]).await?;
    round(conn, "json", vec![Json(vec![1, 2, 3])]).await?;
    round(conn, "int4range", vec![PgRange::from(1..5), PgRange::from(..7)]).await?;
    round(conn, "tstzrange", vec![PgRange::from(DateTime::<Utc>::UNIX_EPOCH..)]).await?;
    round(conn, "int4[]", vec![vec![], vec![Some(1), None, Some(-3)]]).await?;
    round(conn, "text[]", vec![vec![String::new(), "NULL".to_owned(), "a,b".to_owned()]]).await?;
    round(conn, "uuid[]", vec![vec![Uuid::max()]]).await?;
    round(conn, "jsonb[]", vec![vec![json!([1]), json!({"b": 2})]]).await
}

/// An enum of the database's, as sqlx's derive makes it.
#[derive(Clone, Debug, PartialEq)]
struct Mood(String);

impl Type<Postgres> for Mood {
    fn type_info() -> PgTypeInfo {
        PgTypeInfo::with_name("sx_mood")
    }
}

impl PgHasArrayType for Mood {
    fn array_type_info() -> PgTypeInfo {
        PgTypeInfo::array_of("sx_mood")
    }
}

impl Encode<'_, Postgres> for Mood {
    fn encode_by_ref(&self, buf: &mut sqlx::postgres::PgArgumentBuffer) -> Result<sqlx::encode::IsNull, Failure> {
        <&str as Encode<Postgres>>::encode(&self.0, buf)
    }
}

impl<'r> Decode<'r, Postgres> for Mood {
    fn decode(value: sqlx::postgres::PgValueRef<'r>) -> Result<Self, Failure> {
        Ok(Self(<&str as Decode<Postgres>>::decode(value)?.to_owned()))
    }
}

async fn types_of_users() -> Done {
    let conn = &mut connect().await?;
    conn.execute("DROP TABLE IF EXISTS sx_kinds; DROP TYPE IF EXISTS sx_mood; DROP DOMAIN IF EXISTS sx_positive")
        .await?;
    conn.execute(
        "CREATE TYPE sx_mood AS ENUM ('sad', 'Very happy'); CREATE DOMAIN sx_positive AS int4 CHECK (value > 0)",
    )
    .await?;
    conn.execute("CREATE TABLE sx_kinds (m sx_mood, ms sx_mood[], p sx_positive)").await?;
    let (sad, happy) = (Mood("sad".to_owned()), Mood("Very happy".to_owned()));
    let row = sqlx::query("INSERT INTO sx_kinds VALUES ($1, $2, $3) RETURNING *")
        .bind(&happy)
        .bind(vec![sad.clone(), happy.clone()])
        .bind(5)
        .fetch_one(&mut *conn)
        .await?;
    equal(row.try_get::<Mood, _>(0)?, happy.clone(), "an enum")?;
    equal(row.try_get::<Vec<Mood>, _>("ms")?, vec![sad, happy], "an array of enums")?;
    let names: Vec<&str> = row.columns().iter().map(|column| column.type_info().name()).collect();
    equal(names, ["sx_mood", "sx_mood[]", "INT4"], "names of types")?;
    let error =
        refused(sqlx::query("INSERT INTO sx_kinds (p) VALUES ($1)").bind(-1).execute(&mut *conn).await, "23514")?;
    equal(error.constraint(), Some("sx_positive_check"), "a domain's constraint")
}

/// What the macros ask of a statement: columns, their types, whether they may be NULL, and the parameters.
async fn described(conn: &mut PgConnection, sql: &str) -> Result<String, Failure> {
    let described = conn.describe(sql).await.map_err(|error| format!("{sql}: {error}"))?;
    let columns: Vec<String> = (described.columns().iter().enumerate())
        .map(|(at, column)| {
            let null = match described.nullable(at) {
                Some(true) => "?",
                Some(false) => "!",
                None => "",
            };
            format!("{}{null} {}", column.name(), column.type_info().name())
        })
        .collect();
    let parameters: Vec<&str> = match described.parameters() {
        Some(Either::Left(kinds)) => kinds.iter().map(TypeInfo::name).collect(),
        _ => Vec::new(),
    };
    Ok(format!("({}) -> {}", parameters.join(", "), columns.join(", ")))
}

/// What PostgreSQL 15 answers, by sqlx. Of a join that keeps rows without a partner that depends on the plan: sqlx takes the columns of whatever is
/// the inner side for those that may be NULL. Either answer is PostgreSQL's for some table.
const DESCRIBED: [(&str, &[&str]); 17] = [
    ("SELECT id, name, note FROM sx_person", &["() -> id! INT8, name! TEXT, note? VARCHAR"]),
    ("SELECT id, name FROM sx_person WHERE id = $1 AND note LIKE $2", &["(INT8, TEXT) -> id! INT8, name! TEXT"]),
    ("SELECT count(*) AS n, max(name) AS last, 1 AS one FROM sx_person", &["() -> n INT8, last TEXT, one INT4"]),
    (
        "SELECT p.name, o.amount FROM sx_person p JOIN sx_order o ON o.person = p.id",
        &["() -> name! TEXT, amount! NUMERIC"],
    ),
    (
        "SELECT p.name, o.amount FROM sx_person p LEFT JOIN sx_order o ON o.person = p.id",
        &["() -> name! TEXT, amount? NUMERIC", "() -> name? TEXT, amount! NUMERIC"],
    ),
    (
        "SELECT p.name, o.amount FROM sx_order o RIGHT JOIN sx_person p ON o.person = p.id",
        &["() -> name! TEXT, amount? NUMERIC", "() -> name? TEXT, amount! NUMERIC"],
    ),
    (
        "SELECT p.name, o.amount FROM sx_person p FULL JOIN sx_order o ON o.person = p.id",
        &["() -> name? TEXT, amount? NUMERIC"],
    ),
    (
        "SELECT p.name, o.amount, o.tags FROM sx_person p LEFT JOIN sx_order o ON o.person = p.id WHERE p.id = $1 ORDER BY o.amount LIMIT 3",
        &[
            "(INT8) -> name! TEXT, amount? NUMERIC, tags? TEXT[]",
            "(INT8) -> name! TEXT, amount! NUMERIC, tags? TEXT[]",
            "(INT8) -> name? TEXT, amount! NUMERIC, tags? TEXT[]",
        ],
    ),
    ("INSERT INTO sx_person (name, note) VALUES ($1, $2) RETURNING id", &["(TEXT, VARCHAR) -> id! INT8"]),
    ("INSERT INTO sx_person (name) SELECT * FROM UNNEST($1::text[])", &["(TEXT[]) -> "]),
    (
        "UPDATE sx_person SET note = $2 WHERE id = $1 RETURNING id, note",
        &["(INT8, VARCHAR) -> id! INT8, note? VARCHAR"],
    ),
    ("DELETE FROM sx_person WHERE id = ANY($1)", &["(INT8[]) -> "]),
    (
        "SELECT born, seen, mood, data, tags FROM sx_order WHERE mood = $1",
        &["(sx_feeling) -> born? DATE, seen! TIMESTAMPTZ, mood? sx_feeling, data? JSONB, tags? TEXT[]"],
    ),
    (
        "WITH c AS (SELECT id FROM sx_person) SELECT id, coalesce(note, 'x') AS note FROM c JOIN sx_person USING (id)",
        &["() -> id! INT8, note VARCHAR"],
    ),
    ("SELECT id FROM sx_person UNION ALL SELECT person FROM sx_order", &["() -> id INT8"]),
    ("SELECT name FROM sx_seen", &["() -> name? TEXT"]),
    ("CREATE TABLE sx_never (a int)", &["() -> "]),
];

async fn describing_for_macros() -> Done {
    let conn = &mut connect().await?;
    conn.execute(
        "DROP VIEW IF EXISTS sx_seen; DROP TABLE IF EXISTS sx_order, sx_person; DROP TYPE IF EXISTS sx_feeling",
    )
    .await?;
    conn.execute("CREATE TYPE sx_feeling AS ENUM ('a', 'b')").await?;
    conn.execute("CREATE TABLE sx_person (id bigserial PRIMARY KEY, name text NOT NULL, note varchar(20))").await?;
    conn.execute(
        "CREATE TABLE sx_order (id int PRIMARY KEY, person int8 NOT NULL REFERENCES sx_person, amount numeric(10,2) NOT NULL, born date,
         seen timestamptz NOT NULL DEFAULT now(), mood sx_feeling, data jsonb, tags text[] NOT NULL DEFAULT '{}')",
    )
    .await?;
    conn.execute(
        "ALTER TABLE sx_order ALTER COLUMN tags DROP NOT NULL; CREATE VIEW sx_seen AS SELECT name FROM sx_person",
    )
    .await?;
    let mut wrong = Vec::new();
    for (sql, wanted) in DESCRIBED {
        match described(conn, sql).await {
            Ok(got) if wanted.contains(&got.as_str()) => {}
            Ok(got) => wrong.push(format!("{sql}: got {got}, wanted {wanted:?}")),
            Err(error) => wrong.push(error.to_string()),
        }
    }
    if !wrong.is_empty() {
        return Err(format!("{} of {}: {}", wrong.len(), DESCRIBED.len(), wrong.join("; ")).into());
    }
    refused(conn.describe("SELECT nothing FROM sx_person").await.map(drop), "42703")?;
    refused(conn.describe("SELECT FROM WHERE").await.map(drop), "42601").map(drop)
}

/// A folder of migrations, anew.
fn folder(files: &[(&str, &str)]) -> Result<PathBuf, Failure> {
    let folder = std::env::temp_dir().join(format!("sx-migrations-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder)?;
    for (name, text) in files {
        std::fs::write(folder.join(name), text)?;
    }
    Ok(folder)
}

async fn migrating() -> Done {
    let (host, port) = place();
    let url = format!("postgres://postgres@{host}:{port}/sx_app?sslmode=prefer");
    if Postgres::database_exists(&url).await? {
        Postgres::force_drop_database(&url).await?;
    }
    Postgres::create_database(&url).await?;
    equal(Postgres::database_exists(&url).await?, true, "the database")?;
    let files = [
        (
            "20240101000000_users.up.sql",
            "CREATE TABLE users (id bigserial PRIMARY KEY, email text NOT NULL UNIQUE);\nCREATE INDEX ON users (lower(email));",
        ),
        ("20240101000000_users.down.sql", "DROP TABLE users;"),
        (
            "20240202000000_posts.up.sql",
            "CREATE TABLE posts (id serial PRIMARY KEY, user_id bigint NOT NULL REFERENCES users (id) ON DELETE CASCADE, title text);\nINSERT INTO users (email) VALUES ('a@b.c');",
        ),
        ("20240202000000_posts.down.sql", "DROP TABLE posts; DELETE FROM users;"),
        ("20240303000000_index.up.sql", "-- no-transaction\nCREATE INDEX CONCURRENTLY posts_title ON posts (title);"),
        ("20240303000000_index.down.sql", "-- no-transaction\nDROP INDEX CONCURRENTLY posts_title;"),
    ];
    let path = folder(&files)?;
    let at = |path: &Path| Migrator::new(path.to_path_buf());
    let conn = &mut PgConnection::connect(&url).await?;
    let migrator = at(&path).await?;
    migrator.run(&mut *conn).await?;
    migrator.run(&mut *conn).await?;
    let applied: Vec<(i64, String, bool)> =
        sqlx::query_as("SELECT version, description, success FROM _sqlx_migrations ORDER BY 1")
            .fetch_all(&mut *conn)
            .await?;
    let wanted = [(20240101000000, "users"), (20240202000000, "posts"), (20240303000000, "index")]
        .map(|(version, what)| (version, what.to_owned(), true));
    equal(applied, wanted, "what is applied")?;
    migrator.undo(&mut *conn, 20240101000000).await?;
    equal(
        sqlx::query_scalar::<_, bool>("SELECT to_regclass('posts') IS NULL").fetch_one(&mut *conn).await?,
        true,
        "undone",
    )?;
    // One that fails is taken back as a whole.
    std::fs::write(path.join("20240404000000_broken.up.sql"), "CREATE TABLE half (a int);\nSELECT 1/0;")?;
    let Err(MigrateError::ExecuteMigration(error, 20240404000000)) = at(&path).await?.run(&mut *conn).await else {
        return Err("a broken migration runs".into());
    };
    refused(Err::<(), _>(error), "22012")?;
    equal(
        sqlx::query_scalar::<_, bool>("SELECT to_regclass('half') IS NULL").fetch_one(&mut *conn).await?,
        true,
        "taken back",
    )?;
    std::fs::remove_file(path.join("20240404000000_broken.up.sql"))?;
    std::fs::write(path.join("20240101000000_users.up.sql"), "SELECT 1;")?;
    equal(
        matches!(at(&path).await?.run(&mut *conn).await, Err(MigrateError::VersionMismatch(20240101000000))),
        true,
        "a changed file",
    )?;
    // Two at once: the second waits for the first and finds all done. (An index that is made CONCURRENTLY would wait for who waits.)
    let path = folder(&files[..4])?;
    // (A run that fails keeps its lock.)
    conn.execute("DROP TABLE IF EXISTS posts, users, _sqlx_migrations; SELECT pg_advisory_unlock_all()").await?;
    let migrator = at(&path).await?;
    let pool = PgPoolOptions::new().max_connections(2).connect(&url).await?;
    let (one, two) = tokio::join!(migrator.run(&pool), migrator.run(&pool));
    one?;
    two?;
    equal(sqlx::query_scalar::<_, i64>("SELECT count(*) FROM posts").fetch_one(&pool).await?, 0, "rows")?;
    pool.close().await;
    std::fs::remove_dir_all(&path)?;
    Postgres::force_drop_database(&url).await?;
    equal(Postgres::database_exists(&url).await?, false, "the database")
}

async fn statement_cache() -> Done {
    let mut conn = PgConnection::connect_with(&options().statement_cache_capacity(3)).await?;
    for at in 0..10i32 {
        equal(
            sqlx::query_scalar::<_, i32>(&format!("SELECT $1 + {at}")).bind(1i32).fetch_one(&mut conn).await?,
            at + 1,
            "a sum",
        )?;
    }
    equal(conn.cached_statements_size(), 3, "statements kept")?;
    let kept = "SELECT count(*) FROM pg_prepared_statements";
    equal(
        sqlx::query_scalar::<_, i64>(kept).persistent(false).fetch_one(&mut conn).await?,
        3,
        "statements of the server",
    )?;
    conn.clear_cached_statements().await?;
    equal(
        sqlx::query_scalar::<_, i64>(kept).persistent(false).fetch_one(&mut conn).await?,
        0,
        "statements of the server",
    )?;
    conn.execute("DROP TABLE IF EXISTS sx_cache; CREATE TABLE sx_cache (a int); INSERT INTO sx_cache VALUES (1)")
        .await?;
    sqlx::query("SELECT * FROM sx_cache").fetch_one(&mut conn).await?;
    connect().await?.execute("ALTER TABLE sx_cache ADD COLUMN b int DEFAULT 2").await?;
    refused(sqlx::query("SELECT * FROM sx_cache").fetch_one(&mut conn).await, "0A000")?;
    conn.clear_cached_statements().await?;
    equal(sqlx::query("SELECT * FROM sx_cache").fetch_one(&mut conn).await?.len(), 2, "columns")?;
    conn.ping().await?;
    conn.close().await?;
    Ok(())
}

async fn pools_and_transactions() -> Done {
    let pool = pool().await?;
    pool.execute("DROP TABLE IF EXISTS sx_tx; CREATE TABLE sx_tx (id int PRIMARY KEY, n int)").await?;
    let tasks: Vec<_> = (0..16)
        .map(|at: i32| {
            let pool = pool.clone();
            tokio::spawn(async move {
                sqlx::query("INSERT INTO sx_tx VALUES ($1, 0)")
                    .bind(at)
                    .execute(&pool)
                    .await
                    .map(|done| done.rows_affected())
            })
        })
        .collect();
    for task in tasks {
        equal(task.await??, 1, "a row")?;
    }
    let count = || sqlx::query_scalar::<_, i64>("SELECT count(*) FROM sx_tx").fetch_one(&pool);
    let mut tx = pool.begin().await?;
    tx.execute("INSERT INTO sx_tx VALUES (100, 0)").await?;
    let mut inner = tx.begin().await?;
    refused(inner.execute("INSERT INTO sx_tx VALUES (100, 0)").await, "23505")?;
    inner.rollback().await?;
    let mut inner = tx.begin().await?;
    inner.execute("INSERT INTO sx_tx VALUES (101, 0)").await?;
    inner.commit().await?;
    equal(count().await?, 16, "before the commit")?;
    tx.commit().await?;
    equal(count().await?, 18, "after the commit")?;
    {
        let mut tx = pool.begin().await?;
        tx.execute("DELETE FROM sx_tx").await?; // dropped: taken back
    }
    equal(count().await?, 18, "after one that was dropped")?;
    let mut tx = pool.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY").await?;
    refused(tx.execute("DELETE FROM sx_tx").await, "25006")?;
    tx.rollback().await?;
    // Many rows of one statement.
    let mut query = QueryBuilder::<Postgres>::new("INSERT INTO sx_tx (id, n) ");
    query.push_values(1000..3000, |mut row, id: i32| {
        row.push_bind(id).push_bind(id * 2);
    });
    equal(query.build().execute(&pool).await?.rows_affected(), 2000, "rows")?;
    let (ids, numbers): (Vec<i32>, Vec<i32>) = (5000..9000).map(|id| (id, id * 2)).unzip();
    let done = sqlx::query(
        "INSERT INTO sx_tx SELECT * FROM UNNEST($1::int4[], $2::int4[]) ON CONFLICT (id) DO UPDATE SET n = EXCLUDED.n",
    )
    .bind(&ids)
    .bind(&numbers)
    .execute(&pool)
    .await?;
    equal(done.rows_affected(), 4000, "rows")?;
    let found: Vec<(i32, i32)> = sqlx::query_as("SELECT id, n FROM sx_tx WHERE id = ANY($1) ORDER BY id")
        .bind(vec![1001, 5001, -1])
        .fetch_all(&pool)
        .await?;
    equal(found, [(1001, 2002), (5001, 10_002)], "rows")?;
    let mut rows = sqlx::query_scalar::<_, i32>("SELECT id FROM sx_tx ORDER BY id").fetch(&pool);
    equal(rows.try_next().await?, Some(0), "the first of a stream")?;
    drop(rows);
    // Several statements, and their rows and counts.
    let mut all = pool.fetch_many("SELECT 1; UPDATE sx_tx SET n = 1 WHERE id < 3; SELECT 2 WHERE false");
    let mut told = Vec::new();
    while let Some(one) = all.next().await {
        told.push(match one? {
            Either::Left(done) => format!("done {}", done.rows_affected()),
            Either::Right(row) => format!("row {}", row.len()),
        });
    }
    equal(told, ["row 1", "done 1", "done 3", "done 0"], "several statements")?;
    drop(all);
    pool.close().await;
    Ok(())
}

async fn copying() -> Done {
    let pool = pool().await?;
    pool.execute("DROP TABLE IF EXISTS sx_copy; CREATE TABLE sx_copy (a int PRIMARY KEY, b text)").await?;
    let mut copy = pool.copy_in_raw("COPY sx_copy FROM STDIN (FORMAT csv)").await?;
    for at in 0..2000 {
        copy.send(format!("{at},\"a \"\"text\"\", {at}\"\n").as_bytes()).await?;
    }
    equal(copy.finish().await?, 2000, "rows in")?;
    let out: Vec<bytes::Bytes> = pool
        .copy_out_raw("COPY (SELECT * FROM sx_copy ORDER BY a LIMIT 2) TO STDOUT (FORMAT csv, HEADER)")
        .await?
        .try_collect()
        .await?;
    equal(
        String::from_utf8(out.concat())?,
        "a,b\n0,\"a \"\"text\"\", 0\"\n1,\"a \"\"text\"\", 1\"\n".to_owned(),
        "text out",
    )?;
    let copy = pool.copy_in_raw("COPY sx_copy FROM STDIN").await?;
    refused(copy.abort("given up").await, "57014")
        .map(drop)
        .or_else(|error| if error.to_string().starts_with("no ") { Ok(()) } else { Err(error) })?;
    let mut copy = pool.copy_in_raw("COPY sx_copy FROM STDIN").await?;
    copy.send(&b"7\tagain\n"[..]).await?;
    refused(copy.finish().await, "23505")?;
    equal(sqlx::query_scalar::<_, i64>("SELECT count(*) FROM sx_copy").fetch_one(&pool).await?, 2000, "rows")
}

async fn listening() -> Done {
    let pool = pool().await?;
    let mut listener = PgListener::connect_with(&pool).await?;
    listener.listen_all(["sx_a", "sx B"]).await?;
    sqlx::query("SELECT pg_notify($1, $2)").bind("sx B").bind("zwei").execute(&pool).await?;
    let told = tokio::time::timeout(Duration::from_secs(10), listener.recv()).await??;
    equal((told.channel(), told.payload()), ("sx B", "zwei"), "a notification")?;
    // It comes back by itself after its connection was ended.
    pool.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%' AND pid <> pg_backend_pid()",
    )
    .await?;
    equal(
        tokio::time::timeout(Duration::from_secs(10), listener.try_recv()).await??.is_none(),
        true,
        "the connection has ended",
    )?;
    pool.execute("NOTIFY sx_a, 'again'").await?;
    let told = tokio::time::timeout(Duration::from_secs(10), listener.recv()).await??;
    equal((told.channel(), told.payload()), ("sx_a", "again"), "a notification")?;
    listener.unlisten_all().await?;
    // Locks of the application's.
    let lock = PgAdvisoryLock::new("drivers");
    let held = lock.acquire(pool.acquire().await?).await?;
    equal(matches!(lock.try_acquire(pool.acquire().await?).await?, Either::Right(_)), true, "a lock that is held")?;
    held.release_now().await?;
    let taken = lock.try_acquire(pool.acquire().await?).await?;
    equal(matches!(taken, Either::Left(_)), true, "a lock that is free")
}

async fn errors() -> Done {
    let conn = &mut connect().await?;
    conn.execute("DROP TABLE IF EXISTS sx_child, sx_err; CREATE TABLE sx_err (id int PRIMARY KEY, n int NOT NULL CHECK (n > 0)); CREATE TABLE sx_child (e int REFERENCES sx_err); INSERT INTO sx_err VALUES (1, 1)").await?;
    for (sql, code, kind, constraint) in [
        ("INSERT INTO sx_err VALUES (1, 1)", "23505", ErrorKind::UniqueViolation, Some("sx_err_pkey")),
        ("INSERT INTO sx_err VALUES (2, NULL)", "23502", ErrorKind::NotNullViolation, None),
        ("INSERT INTO sx_err VALUES (2, 0)", "23514", ErrorKind::CheckViolation, Some("sx_err_n_check")),
        ("INSERT INTO sx_child VALUES (2)", "23503", ErrorKind::ForeignKeyViolation, Some("sx_child_e_fkey")),
    ] {
        let error = match sqlx::query(sql).execute(&mut *conn).await {
            Err(sqlx::Error::Database(error)) => error,
            other => return Err(format!("{sql}: {other:?}").into()),
        };
        equal((error.code().as_deref(), error.constraint()), (Some(code), constraint), sql)?;
        equal(format!("{:?}", error.kind()), format!("{kind:?}"), sql)?;
    }
    let error = refused(sqlx::query("SELECT 1 FROM sx_err WHERE nn = $1").bind(1).execute(&mut *conn).await, "42703")?;
    equal(format!("{:?}", error.position()), "Some(Original(28))", "where")?;
    // Arguments that do not fit.
    refused(sqlx::query("SELECT $1::int4 + $2::int4").bind(1i32).execute(&mut *conn).await, "08P01")?;
    refused(
        sqlx::query_with("SELECT 1 / $1", {
            let mut given = PgArguments::default();
            sqlx::Arguments::add(&mut given, 0i32)?;
            given
        })
        .execute(&mut *conn)
        .await,
        "22012",
    )?;
    equal(
        matches!(sqlx::query("SELECT 1 WHERE false").fetch_one(&mut *conn).await, Err(sqlx::Error::RowNotFound)),
        true,
        "no row",
    )?;
    equal(sqlx::query_scalar::<_, i32>("SELECT 1").fetch_one(&mut *conn).await?, 1, "after all that")
}

#[tokio::main]
async fn main() {
    let mut program = Program::new("sqlx");
    program.step("types in binary", types_in_binary()).await;
    program.step("types of users", types_of_users()).await;
    program.step("describing for macros", describing_for_macros()).await;
    program.step("migrating", migrating()).await;
    program.step("statement cache", statement_cache()).await;
    program.step("pools and transactions", pools_and_transactions()).await;
    program.step("copying", copying()).await;
    program.step("listening", listening()).await;
    program.step("errors", errors()).await;
    program.end()
}
