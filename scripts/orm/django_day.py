"""Django's first day: migrate of the stock apps, a model, the admin's pages, inspectdb. Usage: django_day.py HOST PORT"""
import io, os, sys, tempfile
import django
from django.conf import settings
host, port = sys.argv[1:3]
settings.configure(
    DEBUG=True, SECRET_KEY="x", ALLOWED_HOSTS=["*"], ROOT_URLCONF="__main__", USE_TZ=True,
    DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": host, "PORT": port}},
    INSTALLED_APPS=["django.contrib." + a for a in ("admin", "auth", "contenttypes", "sessions", "messages")],
    MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware", "django.contrib.messages.middleware.MessageMiddleware"],
    TEMPLATES=[{"BACKEND": "django.template.backends.django.DjangoTemplates", "APP_DIRS": True, "OPTIONS": {"context_processors": ["django.template.context_processors.request", "django.contrib.auth.context_processors.auth", "django.contrib.messages.context_processors.messages"]}}],
    DEFAULT_AUTO_FIELD="django.db.models.BigAutoField")
django.setup()
from django.contrib import admin
from django.contrib.auth.models import Group, Permission, User
from django.core.management import call_command
from django.db import connection, transaction
from django.db.models import Count
from django.urls import path
urlpatterns = [path("admin/", admin.site.urls)]
failed = []
def step(f):
    try:
        print("ok  ", f.__name__, f() or "")
    except Exception as e:
        failed.append(f.__name__)
        print("FAIL", f.__name__, type(e).__name__, str(e)[:300].replace("\n", " | "), flush=True)
        if "-v" in sys.argv and connection.queries:
            print("     ", connection.queries[-1]["sql"][:500])
def migrate(): call_command("migrate", verbosity=0)
def superuser(): User.objects.create_superuser("root", "r@example.org", "secret")
def admin_pages():
    from django.test import Client
    c = Client(); assert c.login(username="root", password="secret")
    pages = ("", "auth/user/", "auth/user/?q=ro", "auth/user/1/change/", "auth/user/add/", "auth/group/", "auth/group/add/", "auth/user/1/history/", "auth/user/1/delete/")
    for p in pages:
        r = c.get("/admin/" + p); assert r.status_code == 200, (p, r.status_code)
    r = c.post("/admin/auth/group/add/", {"name": "editors", "permissions": ["1", "2"]}); assert r.status_code == 302, r.status_code
def queries():
    g, made = Group.objects.get_or_create(name="staff"); assert made
    g, made = Group.objects.get_or_create(name="staff"); assert not made
    Group.objects.update_or_create(name="staff", defaults={"name": "staff2"})
    Group.objects.bulk_create([Group(name=f"g{i}") for i in range(20)], ignore_conflicts=True)
    Group.objects.bulk_create([Group(name="g1")], update_conflicts=True, unique_fields=["name"], update_fields=["name"])
    assert Group.objects.filter(name__startswith="g")[5:10].count() == 5
    list(Permission.objects.select_related("content_type").prefetch_related("group_set"))
    assert Permission.objects.values("content_type").annotate(n=Count("id")).order_by("-n").first()["n"] >= 4
    with transaction.atomic():
        Group.objects.select_for_update(skip_locked=True).get(name="g2")
        try:
            with transaction.atomic(): Group.objects.create(name="g2")
        except django.db.IntegrityError: pass
        Group.objects.create(name="after")
def iterator():
    with transaction.atomic(): assert len(list(Group.objects.order_by("id").iterator(chunk_size=4))) >= 20
def schema_editor():
    from django.db import models
    class Thing(models.Model):
        name = models.CharField(max_length=20, unique=True)
        doc = models.JSONField(default=dict)
        cost = models.DecimalField(max_digits=10, decimal_places=2, null=True)
        when = models.DateTimeField(auto_now_add=True)
        uid = models.UUIDField(null=True)
        raw = models.BinaryField(null=True)
        owner = models.ForeignKey(User, on_delete=models.CASCADE, null=True)
        class Meta: app_label = "auth"; db_table = "day_thing"
    with connection.schema_editor() as s: s.create_model(Thing)
    Thing.objects.create(name="a", doc={"k": [1]}, cost="1.50", raw=b"\0x")
    assert Thing.objects.get(doc__k__0=1).cost == __import__("decimal").Decimal("1.50")
    new = models.IntegerField(default=3); new.set_attributes_from_name("size")
    with connection.schema_editor() as s: s.add_field(Thing, new)
    big = models.BigIntegerField(default=3, db_index=True); big.set_attributes_from_name("size"); big.model = new.model = Thing
    with connection.schema_editor() as s: s.alter_field(Thing, new, big)
    with connection.schema_editor() as s: s.remove_field(Thing, big)
    with connection.schema_editor() as s: s.alter_db_table(Thing, "day_thing", "day_thing2")
    with connection.schema_editor() as s: s.alter_db_table(Thing, "day_thing2", "day_thing"); s.delete_model(Thing)
def inspectdb():
    out = io.StringIO(); call_command("inspectdb", stdout=out); t = out.getvalue()
    assert "class AuthUser(" in t and "models.ForeignKey(AuthUser" in t and "Unable to inspect" not in t, [l for l in t.splitlines() if "Unable" in l or "error" in l][:3] or t[:300]
def flush(): call_command("flush", verbosity=0, interactive=False)
def back(): call_command("migrate", "auth", "zero", verbosity=0)
for f in (migrate, superuser, admin_pages, queries, iterator, schema_editor, inspectdb, flush, back): step(f)
sys.exit(bool(failed))
