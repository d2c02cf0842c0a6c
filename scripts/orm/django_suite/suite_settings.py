"""Settings of Django's own tests, which make their test databases on one server.
SUITE_SERVER: host:port."""
import os

def database(alias):
    host, port = os.environ["SUITE_SERVER"].split(":")
    return {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": host, "PORT": port, "TEST": {"NAME": "test_suite_" + alias}}

DATABASES = {alias: database(alias) for alias in ("default", "other")}
TEST_RUNNER = "suite_runner.Runner"
SECRET_KEY = "x"
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
DEFAULT_AUTO_FIELD = "django.db.models.AutoField"
USE_TZ = False
