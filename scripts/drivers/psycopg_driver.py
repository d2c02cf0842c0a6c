"""psycopg 3 against a server. Usage: psycopg_driver.py HOST PORT. A line for each step; 1 if any failed."""

import asyncio
import datetime as dt
import ipaddress
import sys
import threading
import time
import uuid
from decimal import Decimal
from enum import Enum

import psycopg
from psycopg import errors, sql
from psycopg.rows import dict_row
from psycopg.types.enum import EnumInfo, register_enum
from psycopg.types.json import Json, Jsonb
from psycopg.types.range import Range, RangeInfo, register_range
from psycopg_pool import ConnectionPool

import steps
from steps import equal

HOST, PORT = sys.argv[1], sys.argv[2]
URL = f"host={HOST} port={PORT} user=postgres dbname=postgres"
UTC = dt.timezone.utc


def connect(**options):
    return psycopg.connect(URL, **options)


def step(function):
    name = function.__name__.replace("_", " ")
    error = None
    try:
        function()
    except Exception as raised:
        error = raised
    steps.report("psycopg", name, error)


def raises(kind, run):
    """The error of that kind that a function ends with."""
    try:
        run()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


PLUS = dt.timezone(dt.timedelta(hours=5, minutes=30))
# A type, and values of it that have to come back as they are.
VALUES = [
    ("bool", [True, False]),
    ("int2", [-32768, 0, 32767]),
    ("int4", [-(2**31), 2**31 - 1]),
    ("int8", [-(2**63), 2**63 - 1]),
    ("float4", [0.5, -1.5, float("inf"), float("-inf")]),
    ("float8", [0.1, -1e308, 5e-324, float("inf")]),
    ("numeric", [Decimal(t) for t in ("0", "-0.001", "1E+30", "12345678901234567890.123456789", "0.00", "Infinity", "-Infinity")]),
    ("numeric(10,2)", [Decimal("12345678.90"), Decimal("-0.01")]),
    ("text", ["", "a", "Grüße, 世界 😀", "quote ' \\ \" and\nline", "x" * 100_000]),
    ("varchar(10)", ["", "0123456789"]),
    ("bytea", [b"", bytes(range(256)), b"\\x00"]),
    ("uuid", [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]),
    ("date", [dt.date(1, 1, 1), dt.date(1999, 12, 31), dt.date(9999, 12, 31)]),
    ("time", [dt.time(0), dt.time(23, 59, 59, 999999)]),
    ("timetz", [dt.time(12, 30, 15, 5, tzinfo=PLUS), dt.time(0, tzinfo=UTC)]),
    ("timestamp", [dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 12, 0, 0, 1), dt.datetime(9999, 12, 31, 23, 59, 59, 999999)]),
    ("timestamptz", [dt.datetime(1970, 1, 1, tzinfo=UTC), dt.datetime(2024, 3, 31, 1, 59, 59, 999999, tzinfo=UTC)]),
    ("interval", [dt.timedelta(0), dt.timedelta(days=-3, microseconds=1), dt.timedelta(days=1000, seconds=86399)]),
    ("inet", [ipaddress.ip_address("10.0.0.1"), ipaddress.ip_interface("fe80::1/64")]),
    ("cidr", [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fe80::/10")]),
    ("int4[]", [[], [1, None, -3], list(range(1000))]),
    ("text[]", [["", "NULL", None, "a,b", '"', "\\", "{}"]]),
    ("numeric[]", [[Decimal("1.50"), None]]),
    ("date[]", [[dt.date(2024, 2, 29), None]]),
    ("bool[]", [[True, None, False]]),
    ("uuid[]", [[uuid.UUID(int=5)]]),
    ("bytea[]", [[b"\x00\xff", None, b""]]),
    ("timestamptz[]", [[dt.datetime(2024, 1, 1, tzinfo=UTC)]]),
    ("int4range", [Range(1, 10), Range(None, 5), Range(empty=True), Range(None, None)]),
    ("int8range", [Range(-(2**62), 2**62)]),
    ("daterange", [Range(dt.date(2024, 1, 1), dt.date(2024, 2, 1)), Range(dt.date(2024, 1, 1), None)]),
    ("tsrange", [Range(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), "(]")]),
    ("tstzrange", [Range(dt.datetime(2024, 1, 1, tzinfo=UTC), None, "()")]),
    ("oid", [0, 2**32 - 1]),
]


def round_trip(fetch_binary):
    with connect(options="-c timezone=UTC") as conn, conn.cursor(binary=fetch_binary) as cur:
        for kind, values in VALUES:
            for value in values:
                for format in ("t", "b"):
                    what = f"{kind} as %{format}"
                    try:
                        got = cur.execute(f"SELECT %{format}::{kind}", [value]).fetchone()[0]
                    except errors.NotSupportedError as error:
                        raise AssertionError(f"{what}: {error}") from error
                    except psycopg.Error as error:
                        raise AssertionError(f"{what} of {str(value)[:40]}: {error.sqlstate} {error}") from error
                    equal(got, value, what)
            equal(cur.execute(f"SELECT %s::{kind}", [None]).fetchone()[0], None, kind)
        for document in (None, True, 1.5, "ü", [], {}, {"a": [1, {"b": None}]}, list(range(2000))):
            equal(cur.execute("SELECT %s::json", [Json(document)]).fetchone()[0], document, "json")
            equal(cur.execute("SELECT %s::jsonb", [Jsonb(document)]).fetchone()[0], document, "jsonb")
        nan = cur.execute("SELECT 'NaN'::float8, 'NaN'::numeric, 'NaN'::float4").fetchone()
        assert all(value != value for value in nan), nan


@step
def types_as_text():
    round_trip(False)


@step
def types_in_binary():
    round_trip(True)


@step
def columns_of_all_types():
    with connect(autocommit=True, options="-c timezone=UTC") as conn:
        conn.execute("DROP TABLE IF EXISTS py_all")
        columns = sql.SQL(", ").join(sql.SQL(f"c{at} {kind}") for at, (kind, _) in enumerate(VALUES))
        conn.execute(sql.SQL("CREATE TABLE py_all (id int PRIMARY KEY, {})").format(columns))
        rows = [[row] + [values[row % len(values)] for _, values in VALUES] for row in range(20)] + [[20] + [None] * len(VALUES)]
        marks = ", ".join(["%s"] * (len(VALUES) + 1))
        with conn.cursor() as cur:
            cur.executemany(f"INSERT INTO py_all VALUES ({marks})", rows)
            equal(cur.rowcount, 21, "rowcount")
        for binary in (False, True):
            got = conn.execute("SELECT * FROM py_all ORDER BY id", binary=binary).fetchall()
            for row, right in zip(got, rows, strict=True):
                for at, (value, wanted) in enumerate(zip(row, right, strict=True)):
                    equal(value, wanted, f"column {at}")
        conn.execute("DROP TABLE py_all")


@step
def description():
    with connect() as conn:
        cur = conn.execute("SELECT 1::int4 AS a, 'x'::varchar(7) AS b, 1.5::numeric(6,2) AS c, now()::timestamptz(3) AS d, ARRAY['x'] AS e")
        got = [(c.name, c.type_display, c.type_code, c.display_size, c.precision, c.scale) for c in cur.description]
        wanted = [
            ("a", "int4", 23, None, None, None),
            ("b", "varchar(7)", 1043, 7, None, None),
            ("c", "numeric(6,2)", 1700, None, 6, 2),
            ("d", "timestamptz(3)", 1184, None, 3, None),
            ("e", "text[]", 1009, None, None, None),
        ]
        equal(got, wanted, "description")


@step
def parameters_of_the_session():
    with connect(application_name="drivers", options="-c search_path=public -c statement_timeout=12345") as conn:
        status = conn.info.parameter_status
        equal(status("server_encoding"), "UTF8")
        equal(status("client_encoding"), "UTF8")
        equal(status("standard_conforming_strings"), "on")
        equal(status("integer_datetimes"), "on")
        equal(status("application_name"), "drivers")
        equal(conn.info.server_version // 10000, 15)
        equal(conn.execute("SHOW statement_timeout").fetchone()[0], "12345ms")
        conn.execute("SET TIME ZONE 'Asia/Kolkata'")
        equal(str(conn.info.timezone), "Asia/Kolkata")
        equal(conn.execute("SELECT '2024-01-01 00:00+00'::timestamptz").fetchone()[0].utcoffset(), dt.timedelta(hours=5, minutes=30))
        # Other encodings of clients than UTF-8 are known not to be here (0A000).
        equal(conn.info.encoding, "utf-8")


@step
def prepared_many_times():
    with connect(autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS py_prepared")
        conn.execute("CREATE TABLE py_prepared (id int PRIMARY KEY, v text)")
        for n in range(300):
            conn.execute("INSERT INTO py_prepared VALUES (%s, %s)", [n, str(n)], prepare=True)
        for n in range(300):
            row = conn.execute("SELECT v FROM py_prepared WHERE id = %s", [n], prepare=True, binary=n % 2 == 1).fetchone()
            equal(row, (str(n),))
        names = conn.execute("SELECT count(*) FROM pg_prepared_statements", prepare=False).fetchone()[0]
        equal(names, 2, "prepared statements")
        # A definition that changes below them.
        conn.execute("ALTER TABLE py_prepared ADD COLUMN w int DEFAULT 7")
        equal(conn.execute("SELECT v FROM py_prepared WHERE id = %s", [5], prepare=True).fetchone(), ("5",))
        star = lambda: conn.execute("SELECT * FROM py_prepared WHERE id = %s", [5], prepare=True).fetchone()
        equal(star(), (5, "5", 7))
        with connect(autocommit=True) as other:
            other.execute("ALTER TABLE py_prepared DROP COLUMN w")
        equal(raises(errors.FeatureNotSupported, star).diag.message_primary, "cached plan must not change result type")
        conn.execute("DEALLOCATE ALL")
        equal(conn.execute("SELECT count(*) FROM pg_prepared_statements").fetchone()[0], 0)


@step
def prepared_and_described():
    with connect() as conn:
        pg = conn.pgconn
        pg.prepare(b"p", b"SELECT $1::int4 AS a, $2::text AS b WHERE $3")
        described = pg.describe_prepared(b"p")
        equal([described.param_type(n) for n in range(described.nparams)], [23, 25, 16])
        equal([(described.fname(n), described.ftype(n)) for n in range(described.nfields)], [(b"a", 23), (b"b", 25)])
        result = pg.exec_prepared(b"p", [b"\x00\x00\x00\x07", b"x", b"t"], [1, 0, 0], 1)
        equal((result.get_value(0, 0), result.get_value(0, 1)), (b"\x00\x00\x00\x07", b"x"))


@step
def pipeline():
    with connect(autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS py_pipe")
        conn.execute("CREATE TABLE py_pipe (id int PRIMARY KEY)")
        with conn.pipeline() as pipe:
            cursors = [conn.execute("INSERT INTO py_pipe VALUES (%s) RETURNING id", [n]) for n in range(500)]
            pipe.sync()
            equal([cur.fetchone()[0] for cur in cursors], list(range(500)))

        def broken():
            with conn.pipeline():
                conn.execute("INSERT INTO py_pipe VALUES (1000)")
                conn.execute("INSERT INTO py_pipe VALUES (1)")
                conn.execute("INSERT INTO py_pipe VALUES (1001)")

        raises(errors.UniqueViolation, broken)
        # What stands between two syncs is one transaction.
        equal(conn.execute("SELECT count(*) FROM py_pipe WHERE id >= 1000").fetchone()[0], 0)

        def in_block():
            with conn.transaction(), conn.pipeline():
                conn.execute("INSERT INTO py_pipe VALUES (2000)")
                conn.execute("SELECT 1/0")

        raises(errors.DivisionByZero, in_block)
        equal(conn.execute("SELECT count(*) FROM py_pipe").fetchone()[0], 500)


@step
def batches_that_return():
    with connect(autocommit=True) as conn, conn.cursor() as cur:
        cur.execute("DROP TABLE IF EXISTS py_batch")
        cur.execute("CREATE TABLE py_batch (id serial PRIMARY KEY, v int)")
        cur.executemany("INSERT INTO py_batch (v) VALUES (%s) RETURNING id", [(n,) for n in range(100)], returning=True)
        ids = [cur.fetchone()[0]]
        while cur.nextset():
            ids.append(cur.fetchone()[0])
        equal(ids, list(range(1, 101)))
        # Several statements of one text.
        cur.execute("SELECT 1; SELECT 2, 3; UPDATE py_batch SET v = 0 WHERE id < 4")
        equal(cur.fetchall(), [(1,)])
        assert cur.nextset()
        equal(cur.fetchall(), [(2, 3)])
        assert cur.nextset()
        equal((cur.rowcount, cur.statusmessage), (3, "UPDATE 3"))


@step
def copy_as_text_and_binary():
    with connect(autocommit=True) as conn, conn.cursor() as cur:
        cur.execute("DROP TABLE IF EXISTS py_copy")
        cur.execute("CREATE TABLE py_copy (a int8, b text, c numeric, d date, e bytea, f int4[])")
        rows = [(n, None if n % 7 == 0 else f"tab\tline\n\\ {n}", Decimal(n) / 4, dt.date(2024, 1, 1) + dt.timedelta(n), bytes([n % 256]), [n, None]) for n in range(3000)]
        kinds = ["int8", "text", "numeric", "date", "bytea", "int4[]"]
        for options in ("", " (FORMAT binary)"):
            cur.execute("TRUNCATE py_copy")
            with cur.copy("COPY py_copy FROM STDIN" + options) as copy:
                copy.set_types(kinds)
                for row in rows:
                    copy.write_row(row)
            equal(cur.rowcount, 3000, options)
            with cur.copy("COPY (SELECT * FROM py_copy ORDER BY a) TO STDOUT" + options) as copy:
                copy.set_types(kinds)
                equal(list(copy.rows()), rows, options)
            with cur.copy("COPY py_copy TO STDOUT" + options) as copy:
                data = b"".join(bytes(block) for block in copy)
            cur.execute("TRUNCATE py_copy")
            with cur.copy("COPY py_copy FROM STDIN" + options) as copy:
                for start in range(0, len(data), 777):
                    copy.write(data[start : start + 777])
            equal(cur.execute("SELECT count(*), count(b) FROM py_copy").fetchone(), (3000, 2571), options)

        def broken():
            with cur.copy("COPY py_copy (a) FROM STDIN") as copy:
                copy.write("1\n2\nx\n")

        error = raises(errors.InvalidTextRepresentation, broken)
        assert "COPY py_copy, line 3" in error.diag.context, error.diag.context

        def given_up():
            with cur.copy("COPY py_copy (a) FROM STDIN") as copy:
                copy.write("1\n")
                raise KeyError("given up")

        raises(KeyError, given_up)
        equal(cur.execute("SELECT count(*) FROM py_copy").fetchone()[0], 3000)


@step
def cancel():
    with connect(autocommit=True) as conn:
        for how in (conn.cancel, conn.cancel_safe):
            timer = threading.Timer(0.3, how)
            timer.start()
            error = raises(errors.QueryCanceled, lambda: conn.execute("SELECT pg_sleep(20)"))
            timer.join()
            equal(error.sqlstate, "57014")
            equal(conn.execute("SELECT 1").fetchone(), (1,))
        with connect(autocommit=True) as other:
            timer = threading.Timer(0.3, lambda: other.execute("SELECT pg_terminate_backend(%s)", [conn.info.backend_pid]))
            timer.start()
            raises(psycopg.OperationalError, lambda: conn.execute("SELECT pg_sleep(20)"))
            timer.join()
            assert conn.broken


@step
def notices():
    with connect(autocommit=True) as conn:
        heard = []
        conn.add_notice_handler(lambda diag: heard.append((diag.severity, diag.sqlstate, diag.message_primary)))
        conn.execute("DROP TABLE IF EXISTS py_absent")
        conn.execute("COMMIT")
        equal(heard, [("NOTICE", "00000", 'table "py_absent" does not exist, skipping'), ("WARNING", "25P01", "there is no transaction in progress")])


@step
def listen_and_notify():
    with connect(autocommit=True) as conn, connect(autocommit=True) as other:
        conn.execute("LISTEN py_channel")
        other.execute("NOTIFY py_channel, 'hello'")
        with other.transaction():
            other.execute("SELECT pg_notify('py_channel', %s)", ["ü" * 1000])
            other.execute("NOTIFY py_channel")
            other.execute("NOTIFY py_channel")
        got = [(n.channel, n.payload, n.pid) for n in conn.notifies(timeout=10, stop_after=3)]
        equal(got, [("py_channel", text, other.info.backend_pid) for text in ("hello", "ü" * 1000, "")])
        conn.execute("UNLISTEN py_channel")
        other.execute("NOTIFY py_channel")
        equal(list(conn.notifies(timeout=0.3)), [])


@step
def errors_and_their_fields():
    with connect(autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS py_child, py_parent")
        conn.execute("CREATE TABLE py_parent (id int CONSTRAINT py_key PRIMARY KEY, n int NOT NULL, CONSTRAINT py_positive CHECK (n > 0))")
        conn.execute("CREATE TABLE py_child (p int CONSTRAINT py_ref REFERENCES py_parent)")
        conn.execute("INSERT INTO py_parent VALUES (1, 1)")
        conn.execute("INSERT INTO py_child VALUES (1)")

        def of(kind, text, *values):
            diag = raises(kind, lambda: conn.execute(text, values)).diag
            return diag.sqlstate, diag.schema_name, diag.table_name, diag.column_name, diag.constraint_name

        equal(of(errors.UniqueViolation, "INSERT INTO py_parent VALUES (%s, 1)", 1), ("23505", "public", "py_parent", None, "py_key"))
        equal(of(errors.CheckViolation, "INSERT INTO py_parent VALUES (2, -1)"), ("23514", "public", "py_parent", None, "py_positive"))
        equal(of(errors.NotNullViolation, "INSERT INTO py_parent VALUES (2, NULL)"), ("23502", "public", "py_parent", "n", None))
        equal(of(errors.ForeignKeyViolation, "INSERT INTO py_child VALUES (%s)", 9), ("23503", "public", "py_child", None, "py_ref"))
        equal(of(errors.ForeignKeyViolation, "DELETE FROM py_parent"), ("23503", "public", "py_child", None, "py_ref"))
        equal(of(errors.UndefinedTable, "SELECT * FROM py_absent")[0], "42P01")
        equal(of(errors.UndefinedColumn, "SELECT absent FROM py_parent")[0], "42703")
        equal(of(errors.UndefinedFunction, "SELECT absent(1)")[0], "42883")
        equal(of(errors.NumericValueOutOfRange, "SELECT %s::int2", 40000)[0], "22003")
        equal(of(errors.InvalidTextRepresentation, "SELECT %s::text::int", "x")[0], "22P02")
        diag = raises(errors.SyntaxError, lambda: conn.execute("SELECT 1 FRM x")).diag
        equal((diag.sqlstate, diag.statement_position, diag.severity, diag.severity_nonlocalized), ("42601", "14", "ERROR", "ERROR"))
        diag = raises(errors.UniqueViolation, lambda: conn.execute("INSERT INTO py_parent VALUES (1, 1)")).diag
        equal((diag.message_primary, diag.message_detail), ('duplicate key value violates unique constraint "py_key"', "Key (id)=(1) already exists."))
        diag = raises(errors.UndefinedFunction, lambda: conn.execute("SELECT 1 + 'a'::text")).diag
        assert diag.message_hint.startswith("No operator matches"), diag.message_hint
        equal(raises(psycopg.OperationalError, lambda: psycopg.connect(URL.replace("dbname=postgres", "dbname=py_absent"))).args[0].split("FATAL:")[1].strip(), 'database "py_absent" does not exist')


@step
def transactions_and_savepoints():
    with connect() as conn:
        conn.execute("DROP TABLE IF EXISTS py_tx")
        conn.execute("CREATE TABLE py_tx (id int PRIMARY KEY)")
        conn.commit()
        status = lambda: conn.info.transaction_status.name
        equal(status(), "IDLE")
        with conn.transaction():
            conn.execute("INSERT INTO py_tx VALUES (1)")

            def inner():
                with conn.transaction():
                    conn.execute("INSERT INTO py_tx VALUES (2)")
                    conn.execute("INSERT INTO py_tx VALUES (1)")

            raises(errors.UniqueViolation, inner)
            equal(status(), "INTRANS")
            with conn.transaction("named") as block:
                conn.execute("INSERT INTO py_tx VALUES (3)")
                raise psycopg.Rollback(block)
            conn.execute("INSERT INTO py_tx VALUES (4)")
        equal(conn.execute("SELECT id FROM py_tx ORDER BY id").fetchall(), [(1,), (4,)])
        raises(errors.DivisionByZero, lambda: conn.execute("SELECT 1/0"))
        equal(status(), "INERROR")
        raises(errors.InFailedSqlTransaction, lambda: conn.execute("SELECT 1"))
        conn.rollback()
        conn.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        conn.read_only = True
        raises(errors.ReadOnlySqlTransaction, lambda: conn.execute("INSERT INTO py_tx VALUES (5)"))
        conn.rollback()
        equal(conn.execute("SHOW transaction_isolation").fetchone()[0], "repeatable read")
        with connect(autocommit=True) as other:
            equal(conn.execute("SELECT count(*) FROM py_tx").fetchone()[0], 2)
            other.execute("INSERT INTO py_tx VALUES (6)")
            equal(conn.execute("SELECT count(*) FROM py_tx").fetchone()[0], 2)
        conn.rollback()
        equal(conn.execute("SELECT count(*) FROM py_tx").fetchone()[0], 3)


@step
def two_phases():
    with connect() as conn:
        if conn.execute("SHOW max_prepared_transactions").fetchone()[0] == "0":
            return
        conn.rollback()
        conn.execute("DROP TABLE IF EXISTS py_two")
        conn.execute("CREATE TABLE py_two (id int)")
        conn.commit()
        for commit in (True, False):
            xid = conn.xid(1, "gtrid", f"branch {commit}")
            conn.tpc_begin(xid)
            conn.execute("INSERT INTO py_two VALUES (1)")
            conn.tpc_prepare()
            equal([str(x) for x in connect().tpc_recover()], [str(xid)])
            (conn.tpc_commit if commit else conn.tpc_rollback)()
        equal(conn.execute("SELECT count(*) FROM py_two").fetchone()[0], 1)


@step
def deadlock():
    with connect() as one, connect() as two:
        one.execute("DROP TABLE IF EXISTS py_lock")
        one.execute("CREATE TABLE py_lock AS SELECT g AS id, 0 AS n FROM generate_series(1, 2) g")
        one.commit()
        outcomes = []

        def run(conn, first, second):
            try:
                conn.execute("UPDATE py_lock SET n = n + 1 WHERE id = %s", [first])
                time.sleep(0.3)
                conn.execute("UPDATE py_lock SET n = n + 1 WHERE id = %s", [second])
                conn.commit()
                outcomes.append("done")
            except errors.DeadlockDetected as error:
                conn.rollback()
                outcomes.append(error.sqlstate)

        threads = [threading.Thread(target=run, args=args) for args in ((one, 1, 2), (two, 2, 1))]
        [thread.start() for thread in threads]
        [thread.join(20) for thread in threads]
        equal(sorted(outcomes), ["40P01", "done"])


@step
def cursors():
    with connect() as conn:
        with conn.cursor("py_cursor") as cur:
            cur.itersize = 7
            cur.execute("SELECT g, repeat('x', 100) FROM generate_series(1, 1000) g")
            equal(sum(row[0] for row in cur), 500500)
        with conn.cursor("py_scroll", scrollable=True, withhold=True) as cur:
            cur.execute("SELECT g FROM generate_series(1, 100) g")
            conn.commit()
            cur.scroll(50)
            equal(cur.fetchone(), (51,))
            cur.scroll(-10)
            equal(cur.fetchmany(2), [(42,), (43,)])
            cur.scroll(0, mode="absolute")
            equal(len(cur.fetchall()), 100)
        with conn.cursor() as cur:
            equal(sum(row[0] for row in cur.stream("SELECT generate_series(1, %s)", [5000])), 12502500)
        with conn.cursor(row_factory=dict_row) as cur:
            equal(cur.execute("SELECT 1 AS a, 'b' AS b").fetchone(), {"a": 1, "b": "b"})


@step
def enums_and_ranges_by_name():
    with connect(autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS py_moods")
        conn.execute("DROP TYPE IF EXISTS py_mood")
        conn.execute("CREATE TYPE py_mood AS ENUM ('sad', 'so so', 'glad')")
        info = EnumInfo.fetch(conn, "py_mood")
        equal(list(info.labels), ["sad", "so so", "glad"])
        mood = Enum("Mood", {"SAD": "sad", "SO": "so so", "GLAD": "glad"})
        register_enum(info, conn, mood, mapping={member: member.value for member in mood})
        conn.execute("CREATE TABLE py_moods (m py_mood, ms py_mood[])")
        conn.execute("INSERT INTO py_moods VALUES (%s, %s)", [mood.GLAD, [mood.SAD, mood.SO]])
        for binary in (False, True):
            equal(conn.execute("SELECT * FROM py_moods", binary=binary).fetchone(), (mood.GLAD, [mood.SAD, mood.SO]))
        error = raises(errors.InvalidTextRepresentation, lambda: conn.execute("SELECT 'angry'::py_mood"))
        equal(error.diag.message_primary, 'invalid input value for enum py_mood: "angry"')
        info = RangeInfo.fetch(conn, "int4range")
        equal((info.oid, info.subtype_oid), (3904, 23))


@step
def pool():
    with ConnectionPool(URL, min_size=2, max_size=4, check=ConnectionPool.check_connection) as pool:
        pool.wait(10)
        seen = set()

        def work():
            for _ in range(20):
                with pool.connection() as conn:
                    seen.add(conn.info.backend_pid)
                    conn.execute("SELECT pg_sleep(0.002)")

        threads = [threading.Thread(target=work) for _ in range(12)]
        [thread.start() for thread in threads]
        [thread.join(30) for thread in threads]
        assert 1 <= len(seen) <= 4, seen


@step
def asynchronous():
    async def main():
        conn = await psycopg.AsyncConnection.connect(URL, autocommit=True)
        async with conn:
            await conn.execute("LISTEN py_async")
            task = asyncio.create_task(conn.execute("SELECT pg_sleep(20)"))
            await asyncio.sleep(0.3)
            task.cancel()
            try:
                await task
                raise AssertionError("it was not cancelled")
            except asyncio.CancelledError:
                pass
            equal((await (await conn.execute("SELECT 1")).fetchone()), (1,))

    asyncio.run(main())


if steps.can_restart():

    @step
    def restart():
        with ConnectionPool(URL, min_size=2, max_size=2, check=ConnectionPool.check_connection, reconnect_timeout=30) as pool:
            pool.wait(10)
            with pool.connection() as conn:
                conn.execute("CREATE TABLE IF NOT EXISTS py_kept (id int)")
                conn.execute("INSERT INTO py_kept VALUES (1)")
            broken = connect()
            steps.restart()
            raises(psycopg.OperationalError, lambda: broken.execute("SELECT 1"))
            for _ in range(4):
                with pool.connection(30) as conn:
                    assert conn.execute("SELECT count(*) FROM py_kept").fetchone()[0] >= 1

steps.end()
