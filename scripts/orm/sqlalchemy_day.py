"""SQLAlchemy's first day: tables, reflection, an ORM session. Usage: sqlalchemy_day.py HOST PORT"""
import datetime, decimal, enum, sys, uuid
from sqlalchemy import *
from sqlalchemy.dialects.postgresql import ARRAY, JSONB, insert as pg_insert
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import DeclarativeBase, Session, joinedload, mapped_column, relationship, selectinload
host, port = sys.argv[1:3]
engine = create_engine(f"postgresql+psycopg://postgres@{host}:{port}/postgres")
class Base(DeclarativeBase): pass
class Colour(enum.Enum): red = 1; blue = 2
class Author(Base):
    __tablename__ = "day_author"
    id = mapped_column(Integer, primary_key=True)
    name = mapped_column(String(40), nullable=False, unique=True)
    born = mapped_column(DateTime(timezone=True), server_default=func.now())
    books = relationship("Book", back_populates="author", cascade="all, delete-orphan")
class Book(Base):
    __tablename__ = "day_book"
    __table_args__ = (Index("day_book_title", "title"), CheckConstraint("price >= 0", name="day_price"), UniqueConstraint("author_id", "title", name="day_once"))
    id = mapped_column(BigInteger, primary_key=True)
    author_id = mapped_column(ForeignKey("day_author.id", ondelete="CASCADE"), index=True)
    title = mapped_column(Text, nullable=False, comment="as printed")
    price = mapped_column(Numeric(10, 2)); tags = mapped_column(ARRAY(Text)); doc = mapped_column(JSONB); plain = mapped_column(JSON)
    uid = mapped_column(Uuid, default=uuid.uuid4); raw = mapped_column(LargeBinary); sold = mapped_column(Boolean, default=False)
    author = relationship(Author, back_populates="books")
class Enums(DeclarativeBase): pass
class Car(Enums):
    __tablename__ = "day_car"
    id = mapped_column(Integer, primary_key=True); colour = mapped_column(Enum(Colour, name="day_colour"))
plain_tables = [Author.__table__, Book.__table__]  # the enum apart, so that its refusal spares the rest
failed = []
def step(f):
    try: print("ok  ", f.__name__, f() or "")
    except Exception as e:
        failed.append(f.__name__); print("FAIL", f.__name__, type(e).__name__, (str(e) or __import__("traceback").format_exc()[-300:])[:700].replace("\n", " | "), flush=True)
def create(): Base.metadata.drop_all(engine, tables=plain_tables); Base.metadata.create_all(engine, tables=plain_tables)
def create_enum(): Enums.metadata.create_all(engine, tables=[Car.__table__])
def orm():
    with Session(engine) as s:
        s.add_all([Author(name=f"a{i}", books=[Book(title=f"t{j}", price=decimal.Decimal("1.50"), tags=["x", "y"], doc={"k": j}, plain=[1], raw=b"\0\1") for j in range(5)]) for i in range(10)]); s.commit()
        assert len(s.scalars(select(Author).options(joinedload(Author.books)).order_by(Author.id)).unique().all()) == 10
        assert len(s.scalars(select(Author).options(selectinload(Author.books)).limit(3).offset(2)).all()) == 3
        b = s.scalars(select(Book).where(Book.doc["k"].as_integer() == 3)).first(); assert b.tags == ["x", "y"] and b.raw == b"\0\1" and b.plain == [1]
        assert s.scalars(select(Book).where(Book.tags.contains(["x"]))).first() and s.scalars(select(Book).where(Book.tags.any("y"))).first()
        assert s.execute(select(Author.name, func.count(Book.id), func.sum(Book.price)).join(Book).group_by(Author.name).having(func.count() > 1).order_by(Author.name)).first() == ("a0", 5, decimal.Decimal("7.50"))
        with s.begin_nested(): s.add(Author(name="new"))
        try:
            with s.begin_nested(): s.add(Author(name="a1")); s.flush()
        except IntegrityError: pass
        assert s.scalars(select(Author).where(Author.name == "new").with_for_update(skip_locked=True)).one().born
        s.commit(); s.delete(s.scalars(select(Author).where(Author.name == "a2")).one()); s.commit()
        assert s.scalar(select(func.count()).select_from(Book)) == 45
def bulk():
    with engine.begin() as c:
        ids = c.execute(insert(Author).returning(Author.id, sort_by_parameter_order=True), [{"name": f"b{i}"} for i in range(2000)]).scalars().all(); assert len(ids) == 2000 and ids == sorted(ids)
        u = pg_insert(Author).values(name="b1"); assert c.execute(u.on_conflict_do_update(index_elements=["name"], set_={"born": u.excluded.born}).returning(Author.id)).scalar() == ids[1]
        assert c.execute(pg_insert(Author).values(name="b1").on_conflict_do_nothing(constraint="day_author_name_key").returning(Author.id)).first() is None
def serializable():
    with engine.connect().execution_options(isolation_level="SERIALIZABLE") as c: c.execute(select(1))
def isolation():
    for l in ("REPEATABLE READ", "READ COMMITTED", "AUTOCOMMIT"):
        with engine.connect().execution_options(isolation_level=l) as c: c.execute(select(func.count()).select_from(Author)); assert c.get_isolation_level() == l or l == "AUTOCOMMIT"
def cursor():
    with engine.connect() as c: assert sum(len(p) for p in c.execution_options(yield_per=100).execute(select(Author.id)).partitions()) > 1000
def reflect_step(name, *args):
    def f(): r = getattr(inspect(engine), name)(*args); return str(r)[:0 if "-v" not in sys.argv else 3000]
    f.__name__ = name + (f"_{args[0]}" if args else ""); step(f)
def reflect_all(): m = MetaData(); m.reflect(engine, resolve_fks=True); assert "day_book" in m.tables and len(m.tables["day_book"].foreign_keys) == 1
def drop(): Base.metadata.drop_all(engine); Enums.metadata.drop_all(engine)
for f in (create, create_enum, orm, bulk, serializable, isolation, cursor): step(f)
for n in ("get_schema_names", "get_table_names", "get_view_names", "get_materialized_view_names", "get_temp_table_names", "get_temp_view_names", "get_sequence_names", "get_enums", "get_domains", "get_foreign_table_names"): reflect_step(n)
for n in ("get_columns", "get_pk_constraint", "get_foreign_keys", "get_unique_constraints", "get_check_constraints", "get_indexes", "get_table_comment", "get_table_oid"): reflect_step(n, "day_book")
for n in ("get_multi_columns", "get_multi_indexes", "get_multi_foreign_keys"): reflect_step(n)
for f in (reflect_all, drop): step(f)
sys.exit(bool(failed))
