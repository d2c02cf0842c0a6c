"""asyncpg against a server: binary formats, pipelined protocol, its own introspection of types. Usage: asyncpg_driver.py HOST PORT.
A line for each step; 1 if any failed."""

import asyncio
import datetime as dt
import io
import ipaddress
import json
import sys
import uuid
from decimal import Decimal

import asyncpg
from asyncpg import Range

import steps
from steps import equal

HOST, PORT = sys.argv[1], int(sys.argv[2])
UTC = dt.timezone.utc
STEPS = []


def step(function):
    STEPS.append(function)
    return function


async def connect(**options):
    return await asyncpg.connect(host=HOST, port=PORT, user="postgres", database="postgres", timeout=20, **options)


async def raises(kind, awaitable):
    """The error of that kind that something ends with."""
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


VALUES = [
    ("bool", [True, False]),
    ("int2", [-32768, 32767]),
    ("int4", [-(2**31), 2**31 - 1]),
    ("int8", [-(2**63), 2**63 - 1]),
    ("float4", [0.5, float("-inf")]),
    ("float8", [0.1, 1.7976931348623157e308, 5e-324, float("inf")]),
    ("numeric", [Decimal(t) for t in ("0", "-0.001", "1E+30", "0.00", "9" * 100 + "." + "8" * 50, "Infinity", "-Infinity")]),
    ("text", ["", "Grüße, 世界 😀", "x" * 200_000]),
    ("varchar(10)", ["0123456789"]),
    ("char(5)", ["ab   "]),
    ("name", ["n" * 63]),
    ("bytea", [b"", bytes(range(256)) * 100]),
    ("uuid", [uuid.UUID(int=0), uuid.UUID(int=2**128 - 1)]),
    ("date", [dt.date(1, 1, 2), dt.date(2024, 2, 29), dt.date(9999, 12, 30)]),
    ("time", [dt.time(0), dt.time(23, 59, 59, 999999)]),
    ("timetz", [dt.time(12, 30, tzinfo=dt.timezone(dt.timedelta(hours=-3)))]),
    ("timestamp", [dt.datetime(1, 1, 2), dt.datetime(2024, 2, 29, 12, 0, 0, 1)]),
    ("timestamptz", [dt.datetime(2024, 3, 31, 1, 59, 59, 999999, tzinfo=UTC), dt.datetime(1900, 1, 1, tzinfo=UTC)]),
    ("interval", [dt.timedelta(0), dt.timedelta(days=-3, microseconds=1), dt.timedelta(days=400, hours=5)]),
    ("inet", [ipaddress.ip_address("10.0.0.1"), ipaddress.ip_interface("10.0.0.1/8"), ipaddress.ip_address("fe80::1")]),
    ("cidr", [ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_network("fe80::/10")]),
    ("json", ['{"a": [1, null]}', "null"]),
    ("jsonb", ['{"a": [1, null]}', "[]"]),
    ("bit(5)", [asyncpg.BitString("10101")]),
    ("varbit", [asyncpg.BitString("1"), asyncpg.BitString("1" * 77)]),
    ("int4[]", [[], [1, None, -3], list(range(5000))]),
    ("text[]", [["", "NULL", None, "a,b", '"', "\\"]]),
    ("numeric[]", [[Decimal("1.50"), None]]),
    ("uuid[]", [[uuid.UUID(int=5)]]),
    ("timestamptz[]", [[dt.datetime(2024, 1, 1, tzinfo=UTC), None]]),
    ("int4range", [Range(1, 10), Range(None, 5), Range(empty=True), Range(None, None)]),
    ("int8range", [Range(-(2**62), 2**62)]),
    ("daterange", [Range(dt.date(2024, 1, 1), dt.date(2024, 2, 1))]),
    ("tsrange", [Range(dt.datetime(2024, 1, 1), dt.datetime(2024, 1, 2), lower_inc=False, upper_inc=True)]),
    ("tstzrange", [Range(dt.datetime(2024, 1, 1, tzinfo=UTC), None)]),
    ("oid", [0, 2**32 - 1]),
    ("\"char\"", [b"x"]),
]


@step
async def connects():
    conn = await connect(server_settings={"application_name": "drivers", "search_path": "public"})
    equal(conn.get_server_version().major, 15)
    settings = conn.get_settings()
    equal((settings.server_encoding, settings.application_name, settings.is_superuser), ("UTF8", "drivers", "on"))
    equal(await conn.fetchval("SELECT pg_backend_pid()"), conn.get_server_pid())
    await conn.reset()
    await conn.close()


@step
async def types():
    conn = await connect(server_settings={"timezone": "UTC"})
    wrong = []
    for kind, values in VALUES:
        for value in values + [None]:
            try:
                got = await conn.fetchval(f"SELECT $1::{kind}", value)
                # The driver has a class of its own for these.
                equal(uuid.UUID(str(got)) if kind == "uuid" and value else got, value, kind)
            except Exception as error:
                wrong.append(f"{kind}: {type(error).__name__} {error}"[:200])
    if wrong:
        raise AssertionError("; ".join(wrong))
    for text in ("NaN::float8", "NaN::numeric", "NaN::float4"):
        value, kind = text.split("::")
        got = await conn.fetchval(f"SELECT '{value}'::{kind}")
        assert got != got, got
    # The ends of time, which are not Python's.
    equal(await conn.fetchval("SELECT 'infinity'::date"), dt.date.max)
    equal(await conn.fetchval("SELECT '-infinity'::timestamp"), dt.datetime.min)
    equal(await conn.fetchval("SELECT $1::date::text", dt.date.max), "infinity")
    await conn.close()


@step
async def columns_of_all_types():
    conn = await connect(server_settings={"timezone": "UTC"})
    columns = ", ".join(f"c{at} {kind}" for at, (kind, _) in enumerate(VALUES))
    await conn.execute(f"DROP TABLE IF EXISTS apg_all; CREATE TABLE apg_all (id int PRIMARY KEY, {columns})")
    rows = [(row, *[values[row % len(values)] for _, values in VALUES]) for row in range(20)] + [(20, *[None] * len(VALUES))]
    marks = ", ".join(f"${at + 1}" for at in range(len(VALUES) + 1))
    await conn.executemany(f"INSERT INTO apg_all VALUES ({marks})", rows)
    equal([tuple(row) for row in await conn.fetch("SELECT * FROM apg_all ORDER BY id")], rows)
    await conn.execute("TRUNCATE apg_all")
    await conn.copy_records_to_table("apg_all", records=rows)
    equal([tuple(row) for row in await conn.fetch("SELECT * FROM apg_all ORDER BY id")], rows, "after a binary COPY")
    await conn.execute("DROP TABLE apg_all")
    await conn.close()


@step
async def prepared_statements():
    conn = await connect()
    statement = await conn.prepare("SELECT $1::int4 + 1 AS a, $2::text || '!' AS b, ARRAY[$1::int8] AS c")
    equal([kind.name for kind in statement.get_parameters()], ["int4", "text"])
    equal([(a.name, a.type.name) for a in statement.get_attributes()], [("a", "int4"), ("b", "text"), ("c", "int8[]")])
    for n in range(1000):
        equal(tuple(await statement.fetchrow(n, str(n))), (n + 1, f"{n}!", [n]))
    # Parameters whose types the statement itself says.
    await conn.execute("DROP TABLE IF EXISTS apg_prepared; CREATE TABLE apg_prepared (id bigint PRIMARY KEY, v numeric, w date)")
    statement = await conn.prepare("INSERT INTO apg_prepared VALUES ($1, $2, $3) RETURNING id")
    equal([kind.name for kind in statement.get_parameters()], ["int8", "numeric", "date"])
    statement = await conn.prepare("SELECT id FROM apg_prepared WHERE v > $1 AND w BETWEEN $2 AND $2 + $3 * interval '1 day' LIMIT $4 OFFSET $5")
    equal([kind.name for kind in statement.get_parameters()], ["numeric", "date", "float8", "int8", "int8"])
    statement = await conn.prepare("SELECT 1 WHERE 5 = ANY($1) AND $2 LIKE 'a%' AND $3 IN (1, 2) AND $4 = now()")
    equal([kind.name for kind in statement.get_parameters()], ["int4[]", "text", "int4", "timestamptz"])
    assert "apg_prepared" in json.dumps(await (await conn.prepare("SELECT * FROM apg_prepared")).explain())
    await conn.close()


@step
async def definitions_that_change():
    conn, other = await connect(), await connect()
    await conn.execute("DROP TABLE IF EXISTS apg_changed; CREATE TABLE apg_changed (id int); INSERT INTO apg_changed VALUES (1)")
    equal(dict(await conn.fetchrow("SELECT * FROM apg_changed")), {"id": 1})
    await other.execute("ALTER TABLE apg_changed ADD COLUMN v text DEFAULT 'x'")
    # The driver prepares anew when it is told that the result's type has changed.
    equal(dict(await conn.fetchrow("SELECT * FROM apg_changed")), {"id": 1, "v": "x"})
    async with conn.transaction():
        await conn.fetchrow("SELECT v FROM apg_changed")
    await other.execute("ALTER TABLE apg_changed ALTER COLUMN v DROP DEFAULT, ALTER COLUMN v TYPE int USING 5")

    async def in_block():
        async with conn.transaction():
            await conn.fetchrow("SELECT v FROM apg_changed")

    error = await raises(asyncpg.InvalidCachedStatementError, in_block())
    equal(error.sqlstate, "0A000")
    equal(await conn.fetchval("SELECT v FROM apg_changed"), 5)
    await conn.close()
    await other.close()


@step
async def batches():
    conn = await connect()
    await conn.execute("DROP TABLE IF EXISTS apg_batch; CREATE TABLE apg_batch (id int PRIMARY KEY, v text)")
    await conn.executemany("INSERT INTO apg_batch VALUES ($1, $2)", [(n, str(n) * 20) for n in range(5000)])
    equal(await conn.fetchval("SELECT count(*) FROM apg_batch"), 5000)
    # A batch is all or nothing.
    error = await raises(asyncpg.UniqueViolationError, conn.executemany("INSERT INTO apg_batch VALUES ($1, $2)", [(9000, ""), (1, ""), (9001, "")]))
    equal(error.constraint_name, "apg_batch_pkey")
    equal(await conn.fetchval("SELECT count(*) FROM apg_batch"), 5000)
    rows = await conn.fetchmany("UPDATE apg_batch SET v = $2 WHERE id = $1 RETURNING id, v", [(n, "y") for n in range(50)])
    equal([tuple(row) for row in rows], [(n, "y") for n in range(50)])
    equal(await conn.execute("DELETE FROM apg_batch WHERE id < $1", 100), "DELETE 100")
    await conn.close()


@step
async def copy():
    conn = await connect()
    await conn.execute("DROP TABLE IF EXISTS apg_copy; CREATE TABLE apg_copy (a int8, b text, c numeric)")
    records = [(n, None if n % 7 == 0 else f"tab\t{n}", Decimal(n) / 4) for n in range(20_000)]
    equal(await conn.copy_records_to_table("apg_copy", records=records, columns=["a", "b", "c"]), "COPY 20000")
    equal([tuple(r) for r in await conn.fetch("SELECT * FROM apg_copy ORDER BY a")], records)
    for options in ({"format": "text"}, {"format": "csv", "header": True, "null": "-"}, {"format": "binary"}):
        out = io.BytesIO()
        equal(await conn.copy_from_query("SELECT * FROM apg_copy WHERE a < $1 ORDER BY a", 1000, output=out, **options), "COPY 1000")
        out.seek(0)
        await conn.execute("DELETE FROM apg_copy WHERE a < 1000")
        equal(await conn.copy_to_table("apg_copy", source=out, **options), "COPY 1000")
        equal(await conn.fetchval("SELECT count(*) FROM apg_copy WHERE b IS NOT NULL"), 20_000 - 2858)
    error = await raises(asyncpg.BadCopyFileFormatError, conn.copy_to_table("apg_copy", source=io.BytesIO(b"1\t2\n"), format="text"))
    equal(error.sqlstate, "22P04")
    equal(await conn.fetchval("SELECT count(*) FROM apg_copy"), 20_000)
    await conn.close()


@step
async def cancel():
    conn = await connect()
    await raises(asyncio.TimeoutError, conn.execute("SELECT pg_sleep(20)", timeout=0.3))
    equal(await conn.fetchval("SELECT 1"), 1)
    task = asyncio.create_task(conn.fetch("SELECT pg_sleep($1)", 20))
    await asyncio.sleep(0.3)
    task.cancel()
    await raises(asyncio.CancelledError, task)
    equal(await conn.fetchval("SELECT 2"), 2)
    await conn.execute("SET statement_timeout = 100")
    equal((await raises(asyncpg.QueryCanceledError, conn.execute("SELECT pg_sleep(20)"))).sqlstate, "57014")
    await conn.close()


@step
async def notices():
    conn, heard = await connect(), []
    conn.add_log_listener(lambda _, message: heard.append((message.severity, message.sqlstate, message.message)))
    await conn.execute("DROP TABLE IF EXISTS apg_absent")
    await conn.execute("ROLLBACK")
    await asyncio.sleep(0)
    wanted = [("NOTICE", "00000", 'table "apg_absent" does not exist, skipping'), ("WARNING", "25P01", "there is no transaction in progress")]
    equal(heard, wanted)
    await conn.close()


@step
async def listen_and_notify():
    conn, other, heard = await connect(), await connect(), asyncio.Queue()
    hear = lambda _, pid, channel, payload: heard.put_nowait((pid, channel, payload))
    await conn.add_listener("Apg channel", hear)
    await other.execute("SELECT pg_notify('Apg channel', $1)", "ü" * 2000)
    async with other.transaction():
        await other.execute("NOTIFY \"Apg channel\", 'in a transaction'")
    for text in ("ü" * 2000, "in a transaction"):
        equal(await asyncio.wait_for(heard.get(), 10), (other.get_server_pid(), "Apg channel", text))
    await conn.remove_listener("Apg channel", hear)
    await other.execute("NOTIFY \"Apg channel\"")
    equal(await conn.fetchval("SELECT 1"), 1)
    assert heard.empty()
    await conn.close()
    await other.close()


@step
async def errors():
    conn = await connect()
    await conn.execute("DROP TABLE IF EXISTS apg_child, apg_parent")
    await conn.execute("CREATE TABLE apg_parent (id int PRIMARY KEY, n int NOT NULL CONSTRAINT apg_positive CHECK (n > 0))")
    await conn.execute("CREATE TABLE apg_child (p int CONSTRAINT apg_ref REFERENCES apg_parent)")
    await conn.execute("INSERT INTO apg_parent VALUES (1, 1)")

    async def of(kind, text, *values):
        error = await raises(kind, conn.execute(text, *values))
        return error.sqlstate, error.table_name, error.column_name, error.constraint_name

    equal(await of(asyncpg.UniqueViolationError, "INSERT INTO apg_parent VALUES ($1, 1)", 1), ("23505", "apg_parent", None, "apg_parent_pkey"))
    equal(await of(asyncpg.CheckViolationError, "INSERT INTO apg_parent VALUES (2, $1)", -1), ("23514", "apg_parent", None, "apg_positive"))
    equal(await of(asyncpg.NotNullViolationError, "INSERT INTO apg_parent VALUES (2, $1)", None), ("23502", "apg_parent", "n", None))
    equal(await of(asyncpg.ForeignKeyViolationError, "INSERT INTO apg_child VALUES ($1)", 7), ("23503", "apg_child", None, "apg_ref"))
    equal((await of(asyncpg.UndefinedTableError, "SELECT * FROM apg_absent"))[0], "42P01")
    equal((await of(asyncpg.DivisionByZeroError, "SELECT 1 / $1::int", 0))[0], "22012")
    equal((await of(asyncpg.DatatypeMismatchError, "SELECT CASE WHEN 1 THEN 2 END"))[0], "42804")
    error = await raises(asyncpg.PostgresSyntaxError, conn.execute("SELECT 1 FRM x, $1", 1))
    equal((error.sqlstate, error.position, error.severity), ("42601", "14", "ERROR"))
    error = await raises(asyncpg.UniqueViolationError, conn.execute("INSERT INTO apg_parent VALUES (1, 1)"))
    equal((error.detail, error.schema_name), ("Key (id)=(1) already exists.", "public"))
    await raises(asyncpg.InvalidCatalogNameError, asyncpg.connect(host=HOST, port=PORT, user="postgres", database="apg_absent"))
    await conn.close()


@step
async def transactions():
    conn, other = await connect(), await connect()
    await conn.execute("DROP TABLE IF EXISTS apg_tx; CREATE TABLE apg_tx (id int PRIMARY KEY)")
    async with conn.transaction():
        await conn.execute("INSERT INTO apg_tx VALUES (1)")

        async def inner():
            async with conn.transaction():
                await conn.execute("INSERT INTO apg_tx VALUES (2)")
                await conn.execute("INSERT INTO apg_tx VALUES (1)")

        await raises(asyncpg.UniqueViolationError, inner())
        async with conn.transaction():
            await conn.execute("INSERT INTO apg_tx VALUES (3)")
    equal([row[0] for row in await conn.fetch("SELECT id FROM apg_tx ORDER BY id")], [1, 3])
    block = conn.transaction(isolation="repeatable_read", readonly=True)
    await block.start()
    await raises(asyncpg.ReadOnlySQLTransactionError, conn.execute("DELETE FROM apg_tx"))
    await raises(asyncpg.InFailedSQLTransactionError, conn.execute("SELECT 1"))
    await block.rollback()
    async with conn.transaction(isolation="repeatable_read"):
        equal(await conn.fetchval("SELECT count(*) FROM apg_tx"), 2)
        await other.execute("UPDATE apg_tx SET id = 10 WHERE id = 3")
        equal(await conn.fetchval("SELECT max(id) FROM apg_tx"), 3)

    async def conflict():
        async with conn.transaction(isolation="repeatable_read"):
            await conn.fetchval("SELECT count(*) FROM apg_tx")
            await other.execute("UPDATE apg_tx SET id = 11 WHERE id = 10")
            await conn.execute("UPDATE apg_tx SET id = 12 WHERE id >= 10")

    await raises(asyncpg.SerializationError, conflict())
    await conn.close()
    await other.close()


@step
async def cursors():
    conn = await connect()
    async with conn.transaction():
        seen = 0
        async for row in conn.cursor("SELECT g FROM generate_series(1, $1::int) g", 1000, prefetch=7):
            seen += row[0]
        equal(seen, 500500)
        # MOVE in a portal that was not executed yet is known not to be here (0A000).
        cursor = await conn.cursor("SELECT generate_series(1, 100)")
        equal((await cursor.fetchrow())[0], 1)
        equal(await cursor.forward(10), 10)
        equal((await cursor.fetchrow())[0], 12)
        equal(len(await cursor.fetch(1000)), 88)
        # Two portals at a time.
        one, two = await conn.cursor("SELECT generate_series(1, 5)"), await conn.cursor("SELECT generate_series(11, 15)")
        for n in range(1, 6):
            equal(((await one.fetchrow())[0], (await two.fetchrow())[0]), (n, n + 10))
    await conn.close()


@step
async def enums_and_domains():
    conn = await connect()
    await conn.execute("DROP TABLE IF EXISTS apg_moods; DROP DOMAIN IF EXISTS apg_positive_int; DROP TYPE IF EXISTS apg_mood")
    await conn.execute("CREATE TYPE apg_mood AS ENUM ('sad', 'so so', 'glad'); CREATE DOMAIN apg_positive_int AS int CHECK (VALUE > 0)")
    await conn.execute("CREATE TABLE apg_moods (m apg_mood, ms apg_mood[], d apg_positive_int)")
    await conn.execute("INSERT INTO apg_moods VALUES ($1, $2, $3)", "glad", ["sad", None, "so so"], 5)
    equal(tuple(await conn.fetchrow("SELECT * FROM apg_moods")), ("glad", ["sad", None, "so so"], 5))
    statement = await conn.prepare("SELECT m, ms FROM apg_moods WHERE m = $1")
    equal([(a.type.name, a.type.kind) for a in statement.get_attributes()], [("apg_mood", "scalar"), ("apg_mood[]", "array")])
    await raises(asyncpg.InvalidTextRepresentationError, conn.execute("INSERT INTO apg_moods (m) VALUES ($1)", "angry"))
    await raises(asyncpg.CheckViolationError, conn.execute("INSERT INTO apg_moods (d) VALUES ($1)", -5))
    await conn.set_type_codec("apg_mood", encoder=str.lower, decoder=str.upper)
    equal(await conn.fetchval("SELECT m FROM apg_moods WHERE m = $1", "GLAD"), "GLAD")
    await conn.set_type_codec("jsonb", schema="pg_catalog", encoder=json.dumps, decoder=json.loads)
    equal(await conn.fetchval("SELECT $1::jsonb || $2::jsonb", {"a": 1}, {"b": [None]}), {"a": 1, "b": [None]})
    await conn.close()


@step
async def pool():
    options = dict(host=HOST, port=PORT, user="postgres", database="postgres")
    async with asyncpg.create_pool(**options, min_size=2, max_size=5, max_queries=20) as pool:

        async def work(n):
            async with pool.acquire() as conn:
                if n % 10 == 0:
                    await conn.execute("SET search_path = nowhere")
                    await conn.execute("LISTEN apg_leak")
                async with conn.transaction():
                    return await conn.fetchval("SELECT $1::int + length(current_setting('search_path'))", n)

        got = await asyncio.gather(*[work(n) for n in range(200)])
        plain = len(await pool.fetchval("SHOW search_path"))
        # What a session had set is gone when the next one gets it.
        equal(sum(got), sum(range(200)) + 20 * len("nowhere") + 180 * plain)


if steps.can_restart():

    @step
    async def restart():
        options = dict(host=HOST, port=PORT, user="postgres", database="postgres")
        async with asyncpg.create_pool(**options, min_size=2, max_size=2) as pool:
            await pool.execute("CREATE TABLE IF NOT EXISTS apg_kept (id int)")
            await pool.execute("INSERT INTO apg_kept VALUES (1)")
            await asyncio.get_running_loop().run_in_executor(None, steps.restart)
            await asyncio.sleep(0.1)
            lost = 0
            for _ in range(6):
                try:
                    assert await pool.fetchval("SELECT count(*) FROM apg_kept") >= 1
                except (asyncpg.PostgresConnectionError, asyncpg.InterfaceError, asyncpg.AdminShutdownError, OSError):
                    lost += 1
            assert lost <= 2, lost


async def main():
    for function in STEPS:
        error = None
        try:
            await asyncio.wait_for(function(), 40)
        except Exception as raised:
            error = raised
        steps.report("asyncpg", function.__name__.replace("_", " "), error)


asyncio.run(main())
steps.end()
