"""psycopg 3 through pgbouncer in transaction mode. Usage: pgbouncer_psycopg.py HOST PORT, of pgbouncer, whose pools have three
connections each. A line for each step; 1 if any failed."""

import datetime as dt
import sys
import threading
from decimal import Decimal

import psycopg
from psycopg import errors

import steps
from steps import equal

HOST, PORT = sys.argv[1], sys.argv[2]


def connect(**options):
    # Prepared statements would stay with a server's connection that the next transaction does not have.
    return psycopg.connect(f"host={HOST} port={PORT} user=postgres dbname=postgres", prepare_threshold=None, **options)


def step(function):
    error = None
    try:
        function()
    except Exception as raised:
        error = raised
    steps.report("pgbouncer", function.__name__.replace("_", " "), error)


def raises(kind, run):
    try:
        run()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


@step
def many_clients_share_few_connections():
    with connect(autocommit=True) as conn:
        conn.execute("DROP TABLE IF EXISTS bouncer")
        conn.execute("CREATE TABLE bouncer (id int PRIMARY KEY, n int NOT NULL)")
        conn.execute("INSERT INTO bouncer SELECT g, 0 FROM generate_series(1, 5) g")
    seen, wrong = set(), []

    def work(which):
        try:
            with connect() as conn:
                for round in range(20):
                    with conn.transaction():
                        pid = conn.execute("SELECT pg_backend_pid()").fetchone()[0]
                        conn.execute("UPDATE bouncer SET n = n + 1 WHERE id = %s", [which % 5 + 1])
                        equal(conn.execute("SELECT pg_backend_pid()").fetchone()[0], pid, "within a transaction")
                        seen.add(pid)
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=[which]) for which in range(15)]
    [thread.start() for thread in threads]
    [thread.join(30) for thread in threads]
    if wrong:
        raise wrong[0]
    with connect() as conn:
        equal(conn.execute("SELECT sum(n)::int FROM bouncer").fetchone()[0], 300)
    assert 1 <= len(seen) <= 3, seen


@step
def types():
    values = ["ü", 5, 2**40, Decimal("1.50"), 0.1, True, None, b"\x00\xff", dt.date(2024, 2, 29), dt.datetime(2024, 2, 29, 1, 2, 3, 4), [1, 2], "x" * 200_000]
    with connect() as conn:
        for binary in (False, True):
            for value in values:
                equal(conn.execute("SELECT %s", [value], binary=binary).fetchone()[0], value)
                if value is not None:
                    equal(conn.execute("SELECT %b", [value], binary=binary).fetchone()[0], value)


@step
def settings_of_a_transaction():
    with connect() as conn:
        with conn.transaction():
            conn.execute("SET LOCAL search_path = nowhere")
            equal(conn.execute("SHOW search_path").fetchone()[0], "nowhere")
        assert conn.execute("SHOW search_path").fetchone()[0] != "nowhere"
    # Those that pgbouncer keeps by client, since servers report them.
    with connect(application_name="one") as one, connect(application_name="two") as two:
        for _ in range(4):
            for conn, name in ((one, "one"), (two, "two")):
                equal(conn.execute("SHOW application_name").fetchone()[0], name)
                conn.commit()
        one.execute("SET TIME ZONE 'Asia/Kolkata'")
        one.commit()
        for _ in range(4):
            equal(one.execute("SHOW TimeZone").fetchone()[0], "Asia/Kolkata")
            assert two.execute("SHOW TimeZone").fetchone()[0] != "Asia/Kolkata"
            one.commit()
            two.commit()


@step
def errors_and_savepoints():
    def inner(conn):
        with conn.transaction():
            conn.execute("INSERT INTO bouncer VALUES (1, 1)")

    with connect() as conn:
        with conn.transaction():
            conn.execute("UPDATE bouncer SET n = 0")
            error = raises(errors.UniqueViolation, lambda: inner(conn))
            equal(error.diag.constraint_name, "bouncer_pkey")
            conn.execute("INSERT INTO bouncer VALUES (6, 6)")
        equal(conn.execute("SELECT sum(n)::int FROM bouncer").fetchone()[0], 6)
        raises(errors.DivisionByZero, lambda: conn.execute("SELECT 1/0"))
        raises(errors.InFailedSqlTransaction, lambda: conn.execute("SELECT 1"))
        conn.rollback()


@step
def copy_and_cursors():
    with connect() as conn, conn.cursor() as cur:
        with cur.copy("COPY bouncer FROM STDIN") as copy:
            for n in range(100, 5000):
                copy.write_row((n, n))
        with cur.copy("COPY (SELECT id FROM bouncer WHERE id >= 100 ORDER BY id) TO STDOUT") as copy:
            equal(sum(1 for _ in copy.rows()), 4900)
        with conn.cursor("of_server") as named:
            named.itersize = 100
            named.execute("SELECT id FROM bouncer WHERE id >= 100")
            equal(sum(1 for _ in named), 4900)


@step
def pipeline():
    with connect(autocommit=True) as conn, conn.pipeline() as pipe:
        cursors = [conn.execute("SELECT %s::int", [n]) for n in range(200)]
        pipe.sync()
        equal([cur.fetchone()[0] for cur in cursors], list(range(200)))


@step
def cancel():
    with connect(autocommit=True) as conn:
        timer = threading.Timer(0.5, conn.cancel)
        timer.start()
        raises(errors.QueryCanceled, lambda: conn.execute("SELECT pg_sleep(20)"))
        timer.join()
        equal(conn.execute("SELECT 1").fetchone(), (1,))


@step
def a_client_that_goes_leaves_nothing():
    conn = connect()
    conn.execute("INSERT INTO bouncer VALUES (9000, 1)")
    conn.pgconn.finish()
    with connect() as conn:
        equal(conn.execute("SELECT count(*) FROM bouncer WHERE id = 9000").fetchone()[0], 0)


if steps.can_restart():

    @step
    def restart():
        with connect(autocommit=True) as conn:
            conn.execute("CREATE TABLE IF NOT EXISTS bouncer_kept (id int)")
            conn.execute("INSERT INTO bouncer_kept VALUES (1)")
        steps.restart()
        # Connections that are lost are seen by whom pgbouncer gives them to: at most three.
        lost = 0
        for _ in range(8):
            try:
                with connect(autocommit=True, connect_timeout=20) as conn:
                    assert conn.execute("SELECT count(*) FROM bouncer_kept").fetchone()[0] >= 1
            except psycopg.OperationalError:
                lost += 1
        assert lost <= 3, lost


steps.end()
