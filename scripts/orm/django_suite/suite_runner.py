"""Django's runner of tests, which goes on where the database cannot do something, and writes a line of JSON for each
outcome to the file SUITE_RESULTS:
{"test": its id, "outcome": passed | failed | skipped, "why": the error or the reason, "sql": the last statement on the
error's way}. A test may have several lines (subtests, clean-up); it failed if one of them says so.
A statement that the database refuses while the tables of all tests are made is left out, with a line of its own
(outcome "left out", the test is "setup"); as it comes, Django's runner would end there and run nothing."""
import atexit, json, os, unittest
from django.db import DatabaseError, connections, transaction
from django.db.backends.postgresql.schema import DatabaseSchemaEditor
from django.test import TestCase
from django.test.runner import DiscoverRunner

def statement(error):
    """The SQL text that Django was executing where the error comes from, or the one it came from."""
    found = None
    while error:
        tb = error.__traceback__
        while tb:
            code, values = tb.tb_frame.f_code, tb.tb_frame.f_locals
            if code.co_filename.endswith("django/db/backends/utils.py") and isinstance(values.get("sql"), str):
                found = values["sql"] + (f" -- {values['params']!r}"[:500] if values.get("params") else "")
            tb = tb.tb_next
        error = error.__cause__ or error.__context__
    return found

OUT = open(os.environ["SUITE_RESULTS"], "w")
atexit.register(OUT.close)

def note(test, outcome, why="", sql=None):
    OUT.write(json.dumps({"test": test, "outcome": outcome, "why": why, "sql": sql}) + "\n")
    OUT.flush()

def mend(test):
    """Ends a transaction that a failed test of its own transactions has left open: what a schema editor does at the
    end of its block is outside of what Django rolls back, and each test after it would meet 25P02."""
    for connection in connections.all(initialized_only=True):
        if connection.in_atomic_block and not isinstance(test, TestCase):
            connection.in_atomic_block, connection.savepoint_ids, connection.needs_rollback = False, [], False
            connection.atomic_blocks, connection.run_on_commit = [], []
            connection.close()

class Result(unittest.TextTestResult):
    def bad(self, test, err):
        note(test.id(), "failed", f"{err[0].__name__}: {err[1]}"[:2000], statement(err[1]))
        mend(test)
    def addSuccess(self, test): super().addSuccess(test); note(test.id(), "passed")
    def addExpectedFailure(self, test, err): super().addExpectedFailure(test, err); note(test.id(), "skipped", "expected failure")
    def addUnexpectedSuccess(self, test): super().addUnexpectedSuccess(test); note(test.id(), "failed", "unexpected success")
    def addSkip(self, test, reason): super().addSkip(test, reason); note(test.id(), "skipped", reason)
    def addError(self, test, err): super().addError(test, err); self.bad(test, err)
    def addFailure(self, test, err): super().addFailure(test, err); self.bad(test, err)
    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err: self.bad(test, err)

class Runner(DiscoverRunner):
    def get_resultclass(self): return Result
    def setup_databases(self, **kwargs):
        execute = DatabaseSchemaEditor.execute
        def spared(editor, sql, params=()):
            try:
                with transaction.atomic(using=editor.connection.alias): return execute(editor, sql, params)
            except DatabaseError as e:
                note("setup", "left out", f"{type(e).__name__}: {e}", str(sql))
        DatabaseSchemaEditor.execute = spared
        try: return super().setup_databases(**kwargs)
        finally: DatabaseSchemaEditor.execute = execute
