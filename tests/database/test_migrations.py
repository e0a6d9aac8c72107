"""The migrations: forward, back and forward with rows, and the tables that they leave."""

import os
import subprocess
import sys
import uuid

import pytest
from django.apps import apps
from django.core import checks
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor

from django_leasequeue.db import DatabaseNow, PartialIndex, PartialUnique
from django_leasequeue.models import Job, Worker
from django_leasequeue.selection import Selection
from django_leasequeue.states import FINAL, Status
from tests.backlog import multiply
from tests.helpers import DEADLINE, failing, worker_environment
from tests.processes import ROOT
from tests.road import connection_lost
from tests.scratch import scratch_database
from tests.tasks import add

pytestmark = pytest.mark.django_db(databases=["default", "other"])
changes_tables = pytest.mark.django_db(transaction=True, databases=["default", "other"])
APP = Job._meta.app_label


def query(using, sql, params=None):
    with connections[using].cursor() as cursor:
        cursor.execute(sql, params)
        return cursor.fetchall()


def django(*arguments, **environment):
    """Run a management command in a process of its own; returns what it printed."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "django", *arguments],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env={**worker_environment(), **environment},
        timeout=2 * DEADLINE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- The code and its migrations


@changes_tables
@pytest.mark.parametrize("home", ["default", "other"])
def test_tables_are_made_where_a_router_keeps_them(settings, home):
    """Migrated elsewhere, `migrate --database other` makes none, and no index or trigger."""

    class Router:
        def allow_migrate(self, db, app_label, **hints):
            return db == home if app_label == APP else None

    settings.DATABASE_ROUTERS = [Router()]
    with scratch_database("other"):
        made = set(connections["other"].introspection.table_names())
        assert "django_migrations" in made
        tables = {
            model._meta.db_table for model in apps.get_app_config(APP).get_models()
        }
        assert tables & made == (tables if home == "other" else set())


@changes_tables
def test_182_no_migration_is_missing():
    """The models and the migrations say the same, on every Django and database."""
    call_command("makemigrations", APP, check_changes=True, dry_run=True, verbosity=0)


@changes_tables  # that no transaction of this process keeps the other one out
@pytest.mark.parametrize("auto", ["AutoField", "SmallAutoField", "BigAutoField"])
def test_no_migration_is_missing_in_other_projects(tmp_path, auto):
    """A project's DEFAULT_AUTO_FIELD does not reach into this app."""
    settings = tmp_path / "project_of_other_keys.py"
    settings.write_text(
        "from tests.settings import *\n"
        f"DEFAULT_AUTO_FIELD = 'django.db.models.{auto}'\n"
        "TIME_ZONE, USE_TZ, LANGUAGE_CODE = 'Asia/Tokyo', False, 'de'\n"
    )
    printed = django(
        *["makemigrations", APP, "--check", "--dry-run"],
        DJANGO_SETTINGS_MODULE=settings.stem,
        PYTHONPATH=str(tmp_path),
    )
    assert "No changes detected" in printed


def test_checks_have_nothing_to_say():
    """Cases 015 and 181: no models.W036 or W037, no mysql.W003, and nothing of our own."""
    if os.environ.get("LEASEQUEUE_TEST_SQLITE") == "plain":
        pytest.skip("there it has something to say")
    said = checks.run_checks(databases=["default"])
    ours = {Job, Worker, *Job._meta.concrete_fields, *Worker._meta.concrete_fields}
    assert not [
        message for message in said if message.obj in ours or message.id.startswith(APP)
    ]


# --- The tables


def constraint(name, using="default"):
    with connections[using].cursor() as cursor:
        found = connections[using].introspection.get_constraints(
            cursor, Job._meta.db_table
        )
    return found[name]


def test_015_the_database_itself_keeps_ids_unique():
    """A real unique index, over both columns and all rows, in the database's own words."""
    found = constraint("leasequeue_dedup")
    assert found["unique"]
    assert found["columns"] == ["queue", "dedup_id"]
    vendor = connections["default"].vendor
    if vendor == "postgresql":
        [(unique, valid, condition)] = query(
            "default",
            "SELECT indisunique, indisvalid, indpred FROM pg_index "
            "WHERE indexrelid = 'leasequeue_dedup'::regclass",
        )
        assert (unique, valid, condition) == (True, True, None)
    elif vendor == "mysql":
        rows = query(
            "default",
            "SELECT column_name, non_unique, sub_part, nullable "
            "FROM information_schema.statistics WHERE table_schema = DATABASE() "
            "AND index_name = 'leasequeue_dedup' ORDER BY seq_in_index",
        )
        assert rows == (("queue", 0, None, ""), ("dedup_id", 0, None, "YES"))
    else:
        [sql] = [
            row
            for row in query("default", "PRAGMA index_list(leasequeue_job)")
            if row[2]
            and [r[2] for r in query("default", f"PRAGMA index_info({row[1]})")]
            == ["queue", "dedup_id"]
        ]
        assert sql[4] == 0  # not partial


INDEXES = {
    "leasequeue_claim": (
        ["suspect", "queue", "priority", "run_at", "id"],
        {"blocked": 0, "status": "pending"},
    ),
    "leasequeue_lease": (["processing_until", "id"], {"status": "running"}),
    "leasequeue_token": (["processing_token", "id"], {"status": "running"}),
}


@pytest.mark.parametrize("name", INDEXES)
def test_partial_indexes(name):
    """Partial where the database can, else led by the columns of the condition."""
    columns, where = INDEXES[name]
    partial = connections["default"].features.supports_partial_indexes
    expected = columns if partial else [*sorted(where), *columns]
    assert constraint(name)["columns"] == expected
    assert not constraint(name)["unique"]


def test_conditions_are_worded_alike_in_every_django():
    """SQLite uses a partial index only for a query that words the condition as it does."""
    if connections["default"].vendor != "sqlite":
        pytest.skip("others compare meanings")
    words = dict(
        query("default", "SELECT name, sql FROM sqlite_master WHERE type = 'index'")
    )
    assert words["leasequeue_claim"].endswith(
        """WHERE ("blocked" = 0 AND "status" = 'pending')"""
    )
    for name in ("leasequeue_lease", "leasequeue_token"):
        assert words[name].endswith("""WHERE "status" = 'running'""")


def test_partial_index_as_a_migration_writes_it():
    [index] = [i for i in Job._meta.indexes if i.name == "leasequeue_claim"]
    path, args, kwargs = index.deconstruct()
    assert path == "django_leasequeue.db.PartialIndex"
    again = PartialIndex(*args, **kwargs)
    assert again == index.clone() == index
    assert again != PartialIndex(*args, **{**kwargs, "where": {"status": "running"}})


def test_a_unique_constraint_leaves_out_rows_that_never_violate_it():
    """Where the database can; where it can't there is one all the same."""
    made = constraint("leasequeue_tick")
    assert (made["columns"], made["unique"]) == (["schedule", "tick"], True)
    if connections["default"].vendor == "postgresql":
        sql = "SELECT indexdef FROM pg_indexes WHERE indexname = 'leasequeue_tick'"
    elif connections["default"].vendor == "sqlite":
        sql = "SELECT sql FROM sqlite_master WHERE name = 'leasequeue_tick'"
    else:
        return
    [(made_by,)] = query("default", sql)
    assert "WHERE" in made_by


def test_partial_unique_as_a_migration_writes_it():
    [unique] = [c for c in Job._meta.constraints if c.name == "leasequeue_tick"]
    path, args, kwargs = unique.deconstruct()
    assert path == "django_leasequeue.db.PartialUnique"
    again = PartialUnique(*args, **kwargs)
    assert again == unique.clone() == unique
    assert again != PartialUnique(*args, **{**kwargs, "where": {"tick__isnull": False}})


def test_181_indexes_are_short_enough():
    """Within 3072 bytes, the limit of InnoDB's own row format, at four bytes a character."""
    if connections["default"].vendor != "mysql":
        pytest.skip("only MySQL and MariaDB have such a limit")
    rows = query(
        "default",
        "SELECT s.table_name, s.index_name, SUM(COALESCE(c.character_octet_length, 16) + 3) "
        "FROM information_schema.statistics s JOIN information_schema.columns c "
        "USING (table_schema, table_name, column_name) "
        "WHERE s.table_schema = DATABASE() AND s.table_name LIKE 'leasequeue%%' "
        "GROUP BY s.table_name, s.index_name",
    )
    sizes = {(table, index): int(size) for table, index, size in rows}
    assert sizes["leasequeue_job", "leasequeue_dedup"] > 4 * (100 + 510)
    assert all(size <= 3072 for size in sizes.values()), sizes
    formats = query(
        "default",
        "SELECT DISTINCT row_format, engine FROM information_schema.tables "
        "WHERE table_schema = DATABASE() AND table_name LIKE 'leasequeue%%'",
    )
    assert formats == (("Dynamic", "InnoDB"),)


def test_no_foreign_key_points_at_a_job():
    """On InnoDB the insert of such a row would lock the job's, and hold up its renewal."""
    for table in connections["default"].introspection.table_names():
        with connections["default"].cursor() as cursor:
            found = connections["default"].introspection.get_constraints(cursor, table)
        for name, facts in found.items():
            assert (facts["foreign_key"] or ("",))[0] != Job._meta.db_table, name


# --- Forward, back and forward

STATES = {
    "pending": {},
    "delayed": {"run_at": DatabaseNow(3600)},
    "keyed": {"dedup_id": "a", "dedup_hold": "finished", "meta": {"a": [1, None]}},
    "blocked": {"blocked": 1},
    "leased": {
        "status": Status.RUNNING,
        "processing_token": uuid.UUID(int=1),
        "processing_until": DatabaseNow(300),
        "rerun": True,
        "next_args": [2],
    },
    "expired": {
        "status": Status.RUNNING,
        "processing_token": uuid.UUID(int=2),
        "processing_until": DatabaseNow(-1),
    },
    **{
        status.value: {
            "status": status,
            "finished_at": DatabaseNow(),
            "dedup_id": status.value,
            "errors": [{"message": "\N{GRINNING FACE}"}],
            "result": 1e22,
        }
        for status in sorted(FINAL)
    },
}


def migrations():
    """Return the names of this app's migrations, in order."""
    loader = MigrationExecutor(connections["default"]).loader
    leaf = loader.graph.leaf_nodes(APP)
    assert len(leaf) == 1
    return [name for label, name in loader.graph.forwards_plan(leaf[0]) if label == APP]


def fill(using, name):
    """Make 10,000 rows in all states, by the models as they were at a migration."""
    state = MigrationExecutor(connections[using]).loader.project_state((APP, name))
    old = state.apps.get_model(APP, "Job")
    count = 10_000 // len(STATES) + 1
    for columns in STATES.values():
        columns = {"run_at": DatabaseNow(), "created_at": DatabaseNow(), **columns}
        job = old(task="tests.tasks.add", queue="q", args=[1, 2], **columns)
        job.save(using=using)
        multiply(job, count - 1, using=using)


def content(using):
    """Return the columns that every version has, of every row."""
    return query(
        using,
        "SELECT id, queue, task, args, status, dedup_id, run_at, processing_until, result, "
        "errors FROM leasequeue_job ORDER BY id",
    )


def migrate(using, name):
    call_command("migrate", APP, name, database=using, verbosity=0)


@changes_tables
def test_182_and_187_each_step_with_rows():
    """Cases 182 and 187: forward, back and forward, with 10,000 rows in all states."""
    first, *others = migrations()
    with scratch_database(migrated=False) as using:
        migrate(using, first)
        fill(using, first)
        before = content(using)
        assert len(before) >= 10_000
        last = first
        for name in others:
            for target in (name, last, name):
                migrate(using, target)
                assert content(using) == before
            last = name
        # All the way back, rows or not; and the tables that come next work.
        migrate(using, "zero")
        left = connections[using].introspection.table_names()
        assert not [table for table in left if table.startswith(APP)]
        migrate(using, last)
        rows = Job.objects.using(using)
        job, _ = rows.dispatch(add, (1, 2), dedup="a")
        assert [
            held.id for held in rows.claim(Selection(), 9, uuid.uuid4(), "w").jobs
        ] == [job.pk]


@changes_tables
def test_184_migrate_where_the_router_leads():
    """A project with an empty default database: the tables come to be on the other one."""
    with scratch_database(migrated=False) as using:
        for _ in range(2):
            django(
                *["migrate", APP, "--database", using],
                DJANGO_SETTINGS_MODULE="tests.settings_no_default",
                LEASEQUEUE_TEST_ROUTED="1",
            )
        assert Job.objects.using(using).count() == 0
        Job.objects.using(using).dispatch(add, (1, 2))


# --- Code that is newer than the tables

DAMAGES = {
    "no tables": ["DROP TABLE leasequeue_job"],
    "no column": ["ALTER TABLE leasequeue_job DROP COLUMN args"],
}


@changes_tables
@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
@pytest.mark.parametrize(
    "dispatch",
    [
        lambda rows: rows.dispatch(add, (1, 2)),
        lambda rows: rows.dispatch(add, (1, 2), dedup="a"),
        lambda rows: rows.dispatch_many([add.spec(1, 2)]),
    ],
    ids=["plain", "dedup", "many"],
)
def test_188_dispatch_says_what_to_migrate(damage, dispatch):
    """The database's own error comes with what is to be done about it."""
    with scratch_database() as using:
        for statement in damage:
            with connections[using].cursor() as cursor:
                cursor.execute(statement)
        with pytest.raises(DatabaseError) as info:
            dispatch(Job.objects.using(using))
    [note] = info.value.__notes__
    assert "are missing or not those of this version" in note
    assert f"'manage.py migrate {APP} --database other'" in note


@changes_tables
def test_188_a_command_says_once_what_to_migrate():
    """It is told by the verb and by the command around it."""
    with scratch_database() as using:
        with connections[using].cursor() as cursor:
            cursor.execute("DROP TABLE leasequeue_job")
        with pytest.raises(CommandError) as info:
            call_command("jobs", "why", "7", database=using)
    assert str(info.value).count("are missing or not those of this version") == 1


def test_other_errors_say_nothing_of_migrations():
    with (
        failing(connection_lost(), match="INSERT"),
        pytest.raises(DatabaseError) as info,
    ):
        Job.objects.dispatch(add, (1, 2))
    assert not hasattr(info.value, "__notes__")
