"""SQLAlchemy's plugin of pytest, without the extensions that it would create in the database before the first test."""
import pytest
pytest.register_assert_rewrite("sqlalchemy.testing.assertions")
from sqlalchemy.testing.plugin.pytestplugin import *  # noqa
from sqlalchemy.testing import provision
import sqlalchemy.dialects.postgresql.provision  # noqa
provision.post_configure_engine.fns["postgresql"] = lambda *args: None
