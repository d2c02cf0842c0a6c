"""Settings of Django's own tests. A server of ours has one database, so the databases `default` and `other` are on two
servers, and their `postgres` is the test database (with --keepdb). PostgreSQL makes its test databases itself.
SUITE_DEFAULT and SUITE_OTHER: host:port; SUITE_KEEP: set where the database is there and stays."""
import os

def database(alias):
    host, port = os.environ["SUITE_" + alias.upper()].split(":")
    test = "postgres" if os.environ.get("SUITE_KEEP") else "test_suite_" + alias
    return {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": host, "PORT": port, "TEST": {"NAME": test}}

DATABASES = {alias: database(alias) for alias in ("default", "other")}
TEST_RUNNER = "suite_runner.Runner"
SECRET_KEY = "x"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
