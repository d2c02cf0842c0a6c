"""What SQLAlchemy's own tests take a database to have (its test/requirements.py), but for one thing: materialized views
are made for most of the tests of reflection, and a database without them would fail all of these at that."""
import importlib.util, os
from sqlalchemy.exc import DBAPIError
from sqlalchemy.testing import exclusions

spec = importlib.util.spec_from_file_location("sqlalchemy_requirements", os.path.join(os.environ["SQLALCHEMY_SOURCE"], "test", "requirements.py"))
theirs = importlib.util.module_from_spec(spec)
spec.loader.exec_module(theirs)

def refuses_materialized_views(config):
    try:
        with config.db.begin() as c:
            c.exec_driver_sql("CREATE MATERIALIZED VIEW suite_probe AS SELECT 1 AS x")
            c.exec_driver_sql("DROP MATERIALIZED VIEW suite_probe")
    except DBAPIError:
        return True
    return False

class Requirements(theirs.DefaultRequirements):
    @property
    def materialized_views(self):
        return super().materialized_views + exclusions.skip_if(refuses_materialized_views, "materialized views are refused")
