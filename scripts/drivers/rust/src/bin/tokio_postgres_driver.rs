//! tokio-postgres against a server. Usage: tokio_postgres_driver HOST PORT. A line for each step; 1 if any failed.

use std::error::Error as _;
use std::fmt::Debug;
use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, NaiveDate, NaiveDateTime, NaiveTime, Utc};
use futures_util::future::join_all;
use futures_util::{SinkExt, StreamExt, TryStreamExt};
use rust_drivers::{Done, Failure, Program, equal, place};
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio_postgres::binary_copy::{BinaryCopyInWriter, BinaryCopyOutStream};
use tokio_postgres::config::TargetSessionAttrs;
use tokio_postgres::error::{ErrorPosition, SqlState};
use tokio_postgres::types::{FromSql, FromSqlOwned, IsNull, Kind, ToSql, Type};
use tokio_postgres::{
    AsyncMessage, Client, Config, Error, IsolationLevel, NoTls, SimpleQueryMessage, TransactionBuilder,
};
use uuid::Uuid;

fn config() -> Config {
    let (host, port) = place();
    let mut config = Config::new();
    config.host(&host).port(port).user("postgres").dbname("postgres").application_name("drivers");
    config.options("-c timezone=UTC").target_session_attrs(TargetSessionAttrs::ReadWrite);
    config
}

/// A client, and what the server says beside its answers.
async fn connected() -> Result<(Client, UnboundedReceiver<AsyncMessage>), Error> {
    let (client, mut connection) = config().connect(NoTls).await?;
    let (heard, hears) = unbounded_channel();
    tokio::spawn(async move {
        let mut messages = futures_util::stream::poll_fn(move |context| connection.poll_message(context));
        while let Some(Ok(message)) = messages.next().await {
            let _ = heard.send(message);
        }
    });
    Ok((client, hears))
}

async fn connect() -> Result<Client, Error> {
    Ok(connected().await?.0)
}

/// The error that something has to end with, by its SQLSTATE.
fn refused<T>(outcome: Result<T, Error>, wanted: &SqlState) -> Result<tokio_postgres::error::DbError, Failure> {
    let Err(error) = outcome else { return Err(format!("no {}", wanted.code()).into()) };
    let Some(told) = error.as_db_error() else { return Err(error.into()) };
    equal(told.code(), wanted, told.message())?;
    Ok(told.clone())
}

/// Values come back as they were sent, as parameters and from a column.
async fn round<T>(client: &Client, kind: &str, values: Vec<T>) -> Done
where
    T: ToSql + FromSqlOwned + PartialEq + Debug + Sync,
{
    let statement = client.prepare(&format!("SELECT $1::{kind}")).await?;
    client.batch_execute(&format!("DROP TABLE IF EXISTS rs_one; CREATE TABLE rs_one (at int, v {kind})")).await?;
    for (at, value) in values.iter().enumerate() {
        let row = client.query_one(&statement, &[value]).await.map_err(|error| format!("{kind}: {error:?}"))?;
        equal(&row.try_get::<_, T>(0)?, value, kind)?;
        client.execute("INSERT INTO rs_one VALUES ($1, $2)", &[&(at as i32), value]).await?;
    }
    let rows = client.query("SELECT v FROM rs_one ORDER BY at", &[]).await?;
    let got = rows.iter().map(|row| row.try_get(0)).collect::<Result<Vec<T>, _>>()?;
    equal(got, values, kind)?;
    let none: Option<T> = client.query_one(&statement, &[&None::<T>]).await?.try_get(0)?;
    equal(none.is_none(), true, kind)
}

async fn types_in_binary() -> Done {
    let client = connect().await?;
    let date = |text: &str| text.parse::<NaiveDate>();
    let stamp = |text: &str| NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f");
    round(&client, "bool", vec![true, false]).await?;
    round(&client, "int2", vec![i16::MIN, 0, i16::MAX]).await?;
    round(&client, "int4", vec![i32::MIN, 0, i32::MAX]).await?;
    round(&client, "int8", vec![i64::MIN, 0, i64::MAX]).await?;
    round(&client, "oid", vec![0, u32::MAX]).await?;
    round(&client, "float4", vec![0.5, -1.5, f32::INFINITY, f32::MIN_POSITIVE]).await?;
    round(&client, "float8", vec![0.1, -1e308, 5e-324, f64::NEG_INFINITY]).await?;
    round(&client, "\"char\"", vec![0i8, 65, -128]).await?;
    let texts = ["", "a", "Grüße, 世界 😀", "quote ' \\ \" and\nline"].map(str::to_owned);
    round(&client, "text", [&texts[..], &["x".repeat(100_000)]].concat()).await?;
    round(&client, "varchar(10)", vec![String::new(), "0123456789".to_owned()]).await?;
    round(&client, "bytea", vec![Vec::new(), (0..=255).collect::<Vec<u8>>(), b"\\x00".to_vec()]).await?;
    round(&client, "uuid", vec![Uuid::nil(), Uuid::max()]).await?;
    round(&client, "date", vec![date("0001-01-01")?, date("1999-12-31")?, date("9999-12-31")?]).await?;
    let times =
        [(0, 0, 0, 0), (23, 59, 59, 999_999)].map(|(h, m, s, us)| NaiveTime::from_hms_micro_opt(h, m, s, us).unwrap());
    round(&client, "time", times.to_vec()).await?;
    let stamps =
        vec![stamp("0001-01-01 00:00:00")?, stamp("2024-02-29 12:00:00.000001")?, stamp("9999-12-31 23:59:59.999999")?];
    round(&client, "timestamp", stamps.clone()).await?;
    let zoned: Vec<DateTime<Utc>> = stamps.iter().map(NaiveDateTime::and_utc).collect();
    round(&client, "timestamptz", zoned).await?;
    round(&client, "inet", vec!["10.0.0.1".parse::<IpAddr>()?, "fe80::1".parse()?]).await?;
    let documents = vec![
        json!(null),
        json!(true),
        json!("ü"),
        json!([]),
        json!({"a": [1, {"b": null}]}),
        json!((0..2000).collect::<Vec<_>>()),
    ];
    round::<Value>(&client, "json", documents.clone()).await?;
    round(&client, "jsonb", documents).await?;
    round(&client, "int4[]", vec![vec![], vec![Some(1), None, Some(-3)], (0..1000).map(Some).collect()]).await?;
    round(&client, "text[]", vec![["", "NULL", "a,b", "\"", "\\", "{}"].map(str::to_owned).to_vec()]).await?;
    round(&client, "timestamptz[]", vec![vec![None, Some(DateTime::UNIX_EPOCH)]]).await?;
    round(&client, "jsonb[]", vec![vec![json!({"a": 1}), json!([2])]]).await
}

/// A value of a type that has no other form here: its bytes.
#[derive(Debug, PartialEq)]
struct Raw(Vec<u8>);

impl<'a> FromSql<'a> for Raw {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Failure> {
        Ok(Self(raw.to_vec()))
    }
    fn accepts(_: &Type) -> bool {
        true
    }
}

impl ToSql for Raw {
    fn to_sql(&self, _: &Type, out: &mut bytes::BytesMut) -> Result<IsNull, Failure> {
        out.extend_from_slice(&self.0);
        Ok(IsNull::No)
    }
    fn accepts(_: &Type) -> bool {
        true
    }
    tokio_postgres::types::to_sql_checked!();
}

async fn types_of_users() -> Done {
    let client = connect().await?;
    client
        .batch_execute(
            "DROP TABLE IF EXISTS rs_kinds; DROP TYPE IF EXISTS rs_mood; DROP DOMAIN IF EXISTS rs_positive;
             CREATE TYPE rs_mood AS ENUM ('sad', 'ok', 'Very happy'); CREATE DOMAIN rs_positive AS int4 CHECK (value > 0);
             CREATE TABLE rs_kinds (m rs_mood, ms rs_mood[], p rs_positive, r int4range)",
        )
        .await?;
    let statement = client.prepare("INSERT INTO rs_kinds VALUES ($1, $2, $3::int4, $4) RETURNING *").await?;
    let kinds: Vec<(String, Kind)> =
        statement.params().iter().map(|kind| (kind.name().to_owned(), kind.kind().clone())).collect();
    equal(&kinds[0].0, "rs_mood", "the enum's name")?;
    equal(&kinds[0].1, &Kind::Enum(["sad", "ok", "Very happy"].map(str::to_owned).to_vec()), "the enum")?;
    equal(&kinds[1].0, "_rs_mood", "the array's name")?;
    equal(matches!(&kinds[1].1, Kind::Array(of) if of.name() == "rs_mood"), true, "the array")?;
    equal(&kinds[3].1, &Kind::Range(Type::INT4), "the range")?;
    // [3, 7) with four bytes each.
    let range =
        Raw([&[2u8][..], &4i32.to_be_bytes(), &3i32.to_be_bytes(), &4i32.to_be_bytes(), &7i32.to_be_bytes()].concat());
    let moods = vec![Raw(b"ok".to_vec()), Raw(b"sad".to_vec())];
    let row = client.query_one(&statement, &[&Raw(b"Very happy".to_vec()), &moods, &5i32, &range]).await?;
    equal(row.try_get::<_, Raw>(0)?.0, b"Very happy".to_vec(), "an enum's value")?;
    equal(&row.try_get::<_, Vec<Raw>>(1)?, &moods, "an array of enums")?;
    equal(row.try_get::<_, i32>(2)?, 5, "a domain's value")?;
    equal(row.try_get::<_, Raw>(3)?, range, "a range")?;
    let told = refused(
        client.execute(&statement, &[&Raw(b"ok".to_vec()), &moods, &-5i32, &None::<Raw>]).await,
        &SqlState::CHECK_VIOLATION,
    )?;
    equal(
        (told.constraint(), told.datatype()),
        (Some("rs_positive_check"), Some("rs_positive")),
        "a domain's constraint",
    )?;
    let told = refused(
        client.execute(&statement, &[&Raw(b"glad".to_vec()), &moods, &5i32, &None::<Raw>]).await,
        &SqlState::INVALID_TEXT_REPRESENTATION,
    )?;
    equal(told.message(), "invalid input value for enum rs_mood: \"glad\"", "another label")
}

async fn prepared_statements() -> Done {
    let client = connect().await?;
    client.batch_execute("DROP TABLE IF EXISTS rs_prepared; CREATE TABLE rs_prepared (id int8 PRIMARY KEY, v varchar(7), n numeric(6,2))").await?;
    let insert = client.prepare("INSERT INTO rs_prepared VALUES ($1, $2)").await?;
    equal(insert.params(), [Type::INT8, Type::VARCHAR], "parameters")?;
    equal(insert.columns().len(), 0, "columns")?;
    for at in 0..300i64 {
        equal(client.execute(&insert, &[&at, &at.to_string()]).await?, 1, "rows")?;
    }
    let select =
        client.prepare("SELECT id, v, n, id + 1 AS next FROM rs_prepared WHERE id = ANY($1) AND v <> $2").await?;
    equal(select.params(), [Type::INT8_ARRAY, Type::TEXT], "parameters")?;
    let columns: Vec<_> = select
        .columns()
        .iter()
        .map(|c| (c.name(), c.type_().clone(), c.table_oid().is_some(), c.column_id(), c.type_modifier()))
        .collect();
    let wanted = [
        ("id", Type::INT8, true, Some(1), -1),
        ("v", Type::VARCHAR, true, Some(2), 11),
        ("n", Type::NUMERIC, true, Some(3), (6 << 16 | 2) + 4),
        ("next", Type::INT8, false, None, -1),
    ];
    equal(columns, wanted, "columns")?;
    for at in 0..100i64 {
        let rows = client.query(&select, &[&vec![at, at + 1, 1000], &""]).await?;
        equal(
            rows.iter().map(|row| row.get::<_, &str>(1).to_owned()).collect::<Vec<_>>(),
            [at.to_string(), (at + 1).to_string()],
            "rows",
        )?;
    }
    equal(client.query_opt("SELECT v FROM rs_prepared WHERE id = $1", &[&-1i64]).await?.is_none(), true, "no row")?;
    let typed = client.query_typed("SELECT $1 || $2 AS both", &[(&"a", Type::TEXT), (&"b", Type::TEXT)]).await?;
    equal(typed[0].get::<_, &str>("both"), "ab", "types of the client's")?;
    // What is dropped is closed.
    drop((insert, select));
    let names =
        || client.query_one("SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE '%rs_prepared%'", &[]);
    for _ in 0..50 {
        if names().await?.get::<_, i64>(0) <= 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The question itself is one.
    equal(names().await?.get::<_, i64>(0), 1, "statements that are left")?;
    let star = client.prepare("SELECT * FROM rs_prepared WHERE id = 5").await?;
    connect().await?.batch_execute("ALTER TABLE rs_prepared ADD COLUMN w int DEFAULT 7").await?;
    let told = refused(client.query(&star, &[]).await, &SqlState::FEATURE_NOT_SUPPORTED)?;
    equal(told.message(), "cached plan must not change result type", "a changed definition")
}

async fn pipelining() -> Done {
    let client = connect().await?;
    client.batch_execute("DROP TABLE IF EXISTS rs_pipe; CREATE TABLE rs_pipe (id int PRIMARY KEY)").await?;
    let insert = client.prepare("INSERT INTO rs_pipe VALUES ($1) RETURNING id").await?;
    let (insert, client) = (&insert, &client);
    let all = join_all(
        (0..500).map(|at| async move { client.query_one(insert, &[&at]).await.map(|row| row.get::<_, i32>(0)) }),
    )
    .await;
    equal(all.into_iter().collect::<Result<Vec<_>, _>>()?, (0..500).collect::<Vec<_>>(), "answers in order")?;
    // Each has a Sync of its own: what fails takes nothing along.
    let mixed = join_all([1000, 7, 1001].map(|at: i32| async move { client.execute(insert, &[&at]).await })).await;
    equal(mixed.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true], "one fails")?;
    let prepared =
        join_all((0..40).map(|at| async move { client.query_one(&format!("SELECT {at} + $1::int4"), &[&1i32]).await }))
            .await;
    for (at, row) in prepared.into_iter().enumerate() {
        equal(row?.get::<_, i32>(0), at as i32 + 1, "prepared at once")?;
    }
    equal(client.query_one("SELECT count(*) FROM rs_pipe", &[]).await?.get::<_, i64>(0), 502, "rows")
}

async fn transactions() -> Done {
    let mut client = connect().await?;
    client.batch_execute("DROP TABLE IF EXISTS rs_tx; CREATE TABLE rs_tx (id int PRIMARY KEY)").await?;
    let other = connect().await?;
    let count =
        async |client: &Client| Ok::<i64, Error>(client.query_one("SELECT count(*) FROM rs_tx", &[]).await?.get(0));
    let mut tx = client.transaction().await?;
    tx.execute("INSERT INTO rs_tx VALUES (1)", &[]).await?;
    let inner = tx.savepoint("sp").await?;
    refused(inner.execute("INSERT INTO rs_tx VALUES (1)", &[]).await, &SqlState::UNIQUE_VIOLATION)?;
    refused(inner.query("SELECT 1", &[]).await, &SqlState::IN_FAILED_SQL_TRANSACTION)?;
    inner.rollback().await?;
    let mut inner = tx.transaction().await?;
    inner.execute("INSERT INTO rs_tx VALUES (2)", &[]).await?;
    inner.transaction().await?.execute("INSERT INTO rs_tx VALUES (3)", &[]).await?; // dropped: taken back
    inner.commit().await?;
    equal(count(&other).await?, 0, "before the commit")?;
    tx.commit().await?;
    equal(count(&other).await?, 2, "after the commit")?;
    drop(client.transaction().await?);
    let tx = client
        .build_transaction()
        .isolation_level(IsolationLevel::RepeatableRead)
        .read_only(true)
        .deferrable(true)
        .start()
        .await?;
    refused(tx.execute("DELETE FROM rs_tx", &[]).await, &SqlState::READ_ONLY_SQL_TRANSACTION)?;
    tx.rollback().await?;
    let tx = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead).start().await?;
    equal(tx.query_one("SELECT count(*) FROM rs_tx", &[]).await?.get::<_, i64>(0), 2, "a snapshot")?;
    other.execute("UPDATE rs_tx SET id = 10 WHERE id = 1", &[]).await?;
    refused(tx.execute("UPDATE rs_tx SET id = 11 WHERE id = 1", &[]).await, &SqlState::T_R_SERIALIZATION_FAILURE)?;
    tx.rollback().await?;
    // A portal, read in parts.
    let tx = client.transaction().await?;
    let portal = tx.bind("SELECT n FROM generate_series(1, $1::int4) n", &[&25i32]).await?;
    let mut read = Vec::new();
    for wanted in [10, 10, 5, 0] {
        let rows = tx.query_portal(&portal, 10).await?;
        equal(rows.len(), wanted, "rows of a portal")?;
        read.extend(rows.iter().map(|row| row.get::<_, i32>(0)));
    }
    equal(read, (1..=25).collect::<Vec<_>>(), "a portal")?;
    tx.commit().await?;
    Ok(())
}

fn repeatable(client: &mut Client) -> TransactionBuilder<'_> {
    client.build_transaction().isolation_level(IsolationLevel::RepeatableRead)
}

async fn snapshots_that_are_shared() -> Done {
    let (mut first, mut second) = (connect().await?, connect().await?);
    first
        .batch_execute("DROP TABLE IF EXISTS rs_seen; CREATE TABLE rs_seen (a int); INSERT INTO rs_seen VALUES (1)")
        .await?;
    let one = repeatable(&mut first).start().await?;
    let name: String = one.query_one("SELECT pg_export_snapshot()", &[]).await?.get(0);
    one.execute("INSERT INTO rs_seen VALUES (2)", &[]).await?;
    second.batch_execute("INSERT INTO rs_seen VALUES (3)").await?;
    let import = format!("SET TRANSACTION SNAPSHOT '{name}'");
    let sum = "SELECT sum(a) FROM rs_seen";
    let two = repeatable(&mut second).read_only(true).start().await?;
    two.batch_execute(&import).await?;
    equal(two.query_one(sum, &[]).await?.get::<_, i64>(0), 1, "what the other one saw")?;
    refused(two.batch_execute(&import).await, &SqlState::ACTIVE_SQL_TRANSACTION)?;
    two.rollback().await?;
    equal(one.query_one(sum, &[]).await?.get::<_, i64>(0), 3, "what it sees itself")?;
    let tx = second.transaction().await?;
    refused(tx.batch_execute(&import).await, &SqlState::FEATURE_NOT_SUPPORTED)?;
    tx.rollback().await?;
    one.commit().await?;
    let late = repeatable(&mut second).start().await?;
    let told = refused(late.batch_execute(&import).await, &SqlState::INVALID_PARAMETER_VALUE)?;
    equal(told.message(), format!("invalid snapshot identifier: \"{name}\""), "one that has ended")
}

async fn simple_protocol() -> Done {
    let client = connect().await?;
    let messages = client.simple_query("SELECT 1 AS a, NULL AS b; CREATE TEMP TABLE rs_s (x int); INSERT INTO rs_s VALUES (1), (2); SELECT x FROM rs_s").await?;
    let told: Vec<String> = messages
        .iter()
        .map(|message| match message {
            SimpleQueryMessage::Row(row) => {
                format!("row {:?}", (0..row.len()).map(|at| row.get(at)).collect::<Vec<_>>())
            }
            SimpleQueryMessage::CommandComplete(count) => format!("done {count}"),
            SimpleQueryMessage::RowDescription(columns) => {
                format!("columns {:?}", columns.iter().map(|c| c.name()).collect::<Vec<_>>())
            }
            _ => "other".to_owned(),
        })
        .collect();
    let wanted = [
        "columns [\"a\", \"b\"]",
        "row [Some(\"1\"), None]",
        "done 1",
        "done 0",
        "done 2",
        "columns [\"x\"]",
        "row [Some(\"1\")]",
        "row [Some(\"2\")]",
        "done 2",
    ];
    equal(told, wanted, "messages")?;
    refused(
        client.batch_execute("INSERT INTO rs_s VALUES (3); SELECT 1/0; INSERT INTO rs_s VALUES (4)").await,
        &SqlState::DIVISION_BY_ZERO,
    )?;
    equal(
        client.query_one("SELECT count(*) FROM rs_s", &[]).await?.get::<_, i64>(0),
        2,
        "one text is one transaction",
    )?;
    client.simple_query("").await?;
    client.check_connection().await?;
    Ok(())
}

async fn copying() -> Done {
    let client = connect().await?;
    client
        .batch_execute(
            "DROP TABLE IF EXISTS rs_copy; CREATE TABLE rs_copy (a int8 PRIMARY KEY, b text, c float8, d date)",
        )
        .await?;
    let mut sink = pin!(client.copy_in::<_, Bytes>("COPY rs_copy FROM STDIN").await?);
    for at in 0..3000 {
        sink.send(Bytes::from(format!(
            "{at}\t{}\t{}\t2024-01-01\n",
            if at % 7 == 0 { "\\N".to_owned() } else { format!("tab\\tline\\n{at}") },
            at as f64 / 4.0
        )))
        .await?;
    }
    equal(sink.finish().await?, 3000, "rows in")?;
    let text: Vec<Bytes> =
        client.copy_out("COPY (SELECT * FROM rs_copy ORDER BY a LIMIT 2) TO STDOUT").await?.try_collect().await?;
    equal(
        String::from_utf8(text.concat())?,
        "0\t\\N\t0\t2024-01-01\n1\ttab\\tline\\n1\t0.25\t2024-01-01\n".to_owned(),
        "text out",
    )?;
    let kinds = [Type::INT8, Type::TEXT, Type::FLOAT8, Type::DATE];
    let stream = client.copy_out("COPY (SELECT * FROM rs_copy ORDER BY a) TO STDOUT (FORMAT binary)").await?;
    let rows: Vec<_> = BinaryCopyOutStream::new(stream, &kinds).try_collect().await?;
    equal(rows.len(), 3000, "rows out")?;
    equal(rows[8].get::<Option<String>>(1), Some("tab\tline\n8".to_owned()), "a text")?;
    client.batch_execute("TRUNCATE rs_copy").await?;
    let mut writer =
        pin!(BinaryCopyInWriter::new(client.copy_in("COPY rs_copy FROM STDIN (FORMAT binary)").await?, &kinds));
    for row in &rows {
        let values = (row.get::<i64>(0), row.get::<Option<&str>>(1), row.get::<f64>(2), row.get::<NaiveDate>(3));
        writer.as_mut().write(&[&values.0, &values.1, &values.2, &values.3]).await?;
    }
    equal(writer.finish().await?, 3000, "rows in binary")?;
    // What is given up leaves nothing.
    let mut sink = Box::pin(client.copy_in::<_, Bytes>("COPY rs_copy FROM STDIN").await?);
    sink.send(Bytes::from_static(b"9000\tx\t1\t2024-01-01\n")).await?;
    drop(sink);
    let mut sink = pin!(client.copy_in::<_, Bytes>("COPY rs_copy (a) FROM STDIN").await?);
    sink.send(Bytes::from_static(b"9001\nx\n")).await?;
    let told = refused(sink.finish().await, &SqlState::INVALID_TEXT_REPRESENTATION)?;
    equal(told.where_(), Some("COPY rs_copy, line 2, column a: \"x\""), "where")?;
    equal(client.query_one("SELECT count(*) FROM rs_copy", &[]).await?.get::<_, i64>(0), 3000, "rows")
}

async fn listening() -> Done {
    let (client, mut hears) = connected().await?;
    client.batch_execute("LISTEN rs_a; LISTEN \"rs B\"").await?;
    let other = connect().await?;
    other.batch_execute("NOTIFY rs_a, 'one'; SELECT pg_notify('rs B', 'zwei')").await?;
    let mut heard = Vec::new();
    while heard.len() < 2 {
        if let Some(AsyncMessage::Notification(told)) =
            tokio::time::timeout(Duration::from_secs(10), hears.recv()).await?
        {
            heard.push((told.channel().to_owned(), told.payload().to_owned()));
        }
    }
    equal(heard, [("rs_a", "one"), ("rs B", "zwei")].map(|(a, b)| (a.to_owned(), b.to_owned())), "notifications")?;
    client.batch_execute("DROP TABLE IF EXISTS rs_absent").await?;
    let Some(AsyncMessage::Notice(notice)) = tokio::time::timeout(Duration::from_secs(10), hears.recv()).await? else {
        return Err("no notice".into());
    };
    equal((notice.severity(), notice.message()), ("NOTICE", "table \"rs_absent\" does not exist, skipping"), "a notice")
}

async fn errors() -> Done {
    let client = connect().await?;
    client.batch_execute("DROP TABLE IF EXISTS rs_child, rs_err; CREATE TABLE rs_err (id int PRIMARY KEY, n int NOT NULL CHECK (n > 0)); CREATE TABLE rs_child (e int REFERENCES rs_err); INSERT INTO rs_err VALUES (1, 1)").await?;
    let told =
        refused(client.execute("INSERT INTO rs_err VALUES ($1, 1)", &[&1i32]).await, &SqlState::UNIQUE_VIOLATION)?;
    equal(
        (told.schema(), told.table(), told.constraint(), told.detail()),
        (Some("public"), Some("rs_err"), Some("rs_err_pkey"), Some("Key (id)=(1) already exists.")),
        "unique",
    )?;
    let told =
        refused(client.execute("INSERT INTO rs_err VALUES (2, NULL)", &[]).await, &SqlState::NOT_NULL_VIOLATION)?;
    equal((told.table(), told.column()), (Some("rs_err"), Some("n")), "not null")?;
    refused(client.execute("INSERT INTO rs_err VALUES (2, 0)", &[]).await, &SqlState::CHECK_VIOLATION)?;
    refused(client.execute("INSERT INTO rs_child VALUES (2)", &[]).await, &SqlState::FOREIGN_KEY_VIOLATION)?;
    let told = refused(client.query("SELECT 1 FROM rs_err WHERE nn = 1", &[]).await, &SqlState::UNDEFINED_COLUMN)?;
    equal(told.position(), Some(&ErrorPosition::Original(28)), "where")?;
    refused(client.query("SELEC 1", &[]).await, &SqlState::SYNTAX_ERROR)?;
    refused(client.query("SELECT 1/$1::int4", &[&0i32]).await, &SqlState::DIVISION_BY_ZERO)?;
    refused(client.query("SELECT rs_no_such(1)", &[]).await, &SqlState::UNDEFINED_FUNCTION)?;
    // What the client refuses by itself.
    let Err(error) = client.query("SELECT $1::int4", &[&"x"]).await else { return Err("a text for an int4".into()) };
    equal(error.source().is_some() && error.as_db_error().is_none(), true, "the client's own")?;
    equal(client.query_one("SELECT 1", &[]).await?.get::<_, i32>(0), 1, "after all that")
}

async fn cancelling() -> Done {
    let client = connect().await?;
    let token = client.cancel_token();
    let cancel = async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        token.cancel_query(NoTls).await
    };
    let (outcome, cancelled) = tokio::join!(client.query("SELECT pg_sleep(20)", &[]), cancel);
    cancelled?;
    refused(outcome, &SqlState::QUERY_CANCELED)?;
    client.batch_execute("SET statement_timeout = 200").await?;
    refused(client.query("SELECT count(*) FROM generate_series(1, 1000000000)", &[]).await, &SqlState::QUERY_CANCELED)?;
    let pid: i32 = client.query_one("SELECT pg_backend_pid()", &[]).await?.get(0);
    client.batch_execute("SET statement_timeout = 0").await?;
    let other = connect().await?;
    let end = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        other.query_one("SELECT pg_terminate_backend($1)", &[&pid]).await
    };
    let (outcome, ended) = tokio::join!(client.query("SELECT pg_sleep(20)", &[]), end);
    equal(ended?.get::<_, bool>(0), true, "ended")?;
    refused(outcome, &SqlState::ADMIN_SHUTDOWN)?;
    for _ in 0..100 {
        if client.is_closed() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err("it is not closed".into())
}

async fn rows_as_a_stream() -> Done {
    let client = connect().await?;
    let mut rows =
        pin!(client.query_raw("SELECT n, repeat('x', 50) FROM generate_series(1, $1::int8) n", [200_000i64]).await?);
    let mut sum = 0;
    while let Some(row) = rows.try_next().await? {
        sum += row.get::<_, i64>(0);
    }
    equal(sum, 200_000i64 * 200_001 / 2, "the sum")?;
    equal(rows.rows_affected(), Some(200_000), "rows")?;
    // One that is not read to its end.
    {
        let mut rows = pin!(client.query_raw("SELECT n FROM generate_series(1, 300000) n", Vec::<i32>::new()).await?);
        equal(rows.try_next().await?.map(|row| row.get::<_, i32>(0)), Some(1), "the first")?;
    }
    equal(
        client.query_one("SELECT current_setting('application_name')", &[]).await?.get::<_, &str>(0),
        "drivers",
        "a setting",
    )
}

#[tokio::main]
async fn main() {
    let mut program = Program::new("tokio-postgres");
    program.step("types in binary", types_in_binary()).await;
    program.step("types of users", types_of_users()).await;
    program.step("prepared statements", prepared_statements()).await;
    program.step("pipelining", pipelining()).await;
    program.step("transactions", transactions()).await;
    program.step("snapshots that are shared", snapshots_that_are_shared()).await;
    program.step("simple protocol", simple_protocol()).await;
    program.step("copying", copying()).await;
    program.step("listening", listening()).await;
    program.step("errors", errors()).await;
    program.step("cancelling", cancelling()).await;
    program.step("rows as a stream", rows_as_a_stream()).await;
    program.end()
}
