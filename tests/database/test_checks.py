"""Checks that ask the database: `manage.py check --database default`."""

import sys
from contextlib import contextmanager
from io import StringIO
from unittest import mock

import pytest
from django.apps import apps
from django.core.checks import run_checks
from django.core.management import call_command
from django.db import connection, connections
from django.db.migrations.recorder import MigrationRecorder
from django.db.utils import ConnectionHandler

from django_leasequeue import checks, discovery
from django_leasequeue.db.advice import from_server
from django_leasequeue.models import GroupWait
from django_leasequeue.states import AWAITS_GROUP, AWAITS_SLOT
from tests.factories import JobFactory
from tests.helpers import new_connection
from tests.models import Effect
from tests.processes import ROOT
from tests.road import toy

# The name of this app's last migration.
LAST = max(f.stem for f in ROOT.glob("django_leasequeue/migrations/0*.py"))

on_mysql = pytest.mark.skipif("connection.vendor != 'mysql'", reason="MySQL, MariaDB")
on_servers = pytest.mark.skipif(
    "not connection.features.has_select_for_update", reason="no row locks"
)


@contextmanager
def reconnected(**options):
    """Use another connection to the database for a while, with these OPTIONS."""
    usual, other = connections["default"], connections["default"].copy()
    other.settings_dict["OPTIONS"] = {**usual.settings_dict["OPTIONS"], **options}
    connections["default"] = other
    try:
        yield other
    finally:
        other.close()
        connections["default"] = usual


@contextmanager
def three_byte_database():
    """A connection to an empty database of the old three-byte characters."""
    with new_connection() as connection:
        name = connection.settings_dict["NAME"] + "_old"
        with connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE `{name}` CHARACTER SET utf8mb3")
            cursor.execute(f"USE `{name}`")
            try:
                yield connection
            finally:
                cursor.execute(f"DROP DATABASE `{name}`")


def ids(found):
    return [message.id.removeprefix("leasequeue.") for message in found]


def asked(*aliases):
    return checks.check_servers(databases=aliases or ["default"])


def advised(connection, *tables):
    return [advice.id for advice in from_server(connection, list(tables))]


@pytest.mark.django_db(databases=["default", "other"])
def test_nothing_to_say_about_the_test_databases():
    """The recommended settings are enough, and no check of Django's warns of the models."""
    found = run_checks(databases=["default", "other"])
    assert [message for message in found if message.obj is not Effect] == []
    output = StringIO()
    call_command("check", databases=["default"], stdout=output, stderr=output)
    assert "leasequeue" not in output.getvalue()


def test_django_runs_the_checks(settings):
    """Among all others, with a database at hand."""
    settings.LEASEQUEUE = {"THREADS": 0}
    MigrationRecorder(connection).record_unapplied("leasequeue", LAST)
    found = ids(run_checks(databases=["default"]))
    assert {"E004", "W111"} <= set(found)


def test_w115_pending_jobs_of_a_task_that_is_gone():
    first = JobFactory(task="shop.tasks.gone")
    for blocked in (0, AWAITS_SLOT, AWAITS_GROUP):
        other = JobFactory(task="shop.tasks.gone", blocked=blocked)
    GroupWait.objects.create(job=other, group="g")
    JobFactory(task="shop.tasks.ended", succeeded=True)
    [message] = asked()
    assert ids([message]) == ["W115"]
    assert ", 4 are of the task 'shop.tasks.gone'" in message.msg
    assert f"; job {first.pk} is one." in message.msg
    assert "--task shop.tasks.gone" in message.hint


def test_w115_a_name_it_had_before_is_known():
    def renamed(): ...

    JobFactory(task="tests.tasks.former", args=[], kwargs={})
    with toy(renamed, aliases="tests.tasks.former"):
        assert asked() == []
    assert ids(asked()) == ["W115"]


def test_w116_arguments_that_no_longer_bind():
    """Of any number of jobs of one task one is named."""

    def narrower(order): ...

    with toy(narrower) as narrower:
        narrower.dispatch(1)
        first = JobFactory(task=narrower.name, args=[1, 2], kwargs={})
        JobFactory(task=narrower.name, args=[], kwargs={"shop": 1})
        JobFactory(task=narrower.name, args=[], kwargs={}, failed=True)
        [message] = asked()
    assert ids([message]) == ["W116"]
    assert f"2 of the task {narrower.name!r}" in message.msg
    assert f"job {first.pk} " in message.msg and "Arguments don't fit" in message.msg


def test_w116_columns_that_are_no_arguments():
    def wrong(): ...

    with toy(wrong) as wrong:
        JobFactory(task=wrong.name, args={"a": 1}, kwargs={})
        [message] = asked()
    assert ids([message]) == ["W116"] and "no JSON list" in message.msg


def test_stale_jobs_are_not_told_where_modules_are_missing():
    """Their tasks may be in them."""
    JobFactory(task="shop.tasks.gone")
    with mock.patch.object(discovery, "autodiscover", side_effect=ImportError):
        assert asked() == []


def test_w105_sqlite_without_wal(tmp_path):
    """SQLite as it is by itself; once told, it stays in the file."""
    settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": tmp_path / "db.sqlite3"}
    connection = ConnectionHandler({"default": settings})["default"]
    try:
        [advice] = from_server(connection, [])
        assert advice.id == "W105"
        assert "journal mode DELETE" in advice.message
        connection.cursor().execute("PRAGMA journal_mode=WAL")
        assert advised(connection) == []
    finally:
        connection.close()


def test_sqlite_in_memory_needs_no_wal():
    """It has no journal that anybody could wait for."""
    settings = {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}
    assert advised(ConnectionHandler({"default": settings})["default"]) == []


@on_servers
def test_w106_isolation_by_default_of_the_server():
    """A level that OPTIONS does not name is asked of the server."""
    options = {"options": "-c default_transaction_isolation=serializable"}
    if connection.vendor == "mysql":
        options = {"isolation_level": None}
    with reconnected(**options):
        [found] = asked()
    assert ids([found]) == ["W106"]
    assert "by the server's default" in found.msg


def test_w107_old_server():
    """What the test matrix does not run is told, with both versions."""
    with mock.patch.object(connection, "get_database_version", return_value=(3, 1)):
        [found] = asked()
    assert ids([found]) == ["W107"]
    assert f"is {connection.display_name} 3.1; nothing older than" in found.msg


@on_servers
def test_w108_server_without_skip_locked():
    """Case 007: workers wait for each other there, so it is told."""
    features = connection.features
    with mock.patch.object(features, "has_select_for_update_skip_locked", False):
        assert ids(asked()) == ["W108"]


@on_mysql
def test_w109_connection_of_few_characters():
    """Case 118, the connection's half."""
    with reconnected(charset="latin1"):
        [found] = asked()
    assert ids([found]) == ["W109"]
    assert "talks latin1" in found.msg


@on_mysql
@pytest.mark.django_db(transaction=True)
def test_w110_tables_of_few_characters():
    """Case 118, the tables' half: what they are made with, or before, what they will be."""
    with three_byte_database() as old, old.cursor() as cursor:
        assert advised(old, "queue") == ["W110"]
        cursor.execute("CREATE TABLE queue (a TEXT) CHARACTER SET utf8mb4")
        assert advised(old, "queue") == []
        cursor.execute("ALTER TABLE queue ADD b TEXT CHARACTER SET utf8mb3")
        [advice] = from_server(old, ["queue"])
    assert advice.id == "W110"
    assert "as utf8mb3, which" in advice.message


@on_mysql
@pytest.mark.django_db(transaction=True)
def test_e102_tables_without_transactions():
    """MyISAM runs jobs of transactions that were rolled back."""
    with three_byte_database() as old, old.cursor() as cursor:
        cursor.execute("CREATE TABLE queue (a INT) ENGINE=MyISAM CHARACTER SET utf8mb4")
        cursor.execute("ALTER DATABASE CHARACTER SET utf8mb4")
        [advice] = from_server(old, ["queue"])
    assert advice.id == "E102"
    assert "are MyISAM, which" in advice.message


def test_w111_unapplied_migrations():
    """Case 188: a database that a release is ahead of."""
    MigrationRecorder(connection).record_unapplied("leasequeue", LAST)
    [found] = asked()
    assert ids([found]) == ["W111"]
    assert f"lacks {LAST}" in found.msg
    assert found.hint == "Run 'manage.py migrate --database default'."


def test_migrate_is_not_told_to_migrate(monkeypatch):
    """Its checks run before it does, also the first time; they neither warn nor stop it."""
    MigrationRecorder(connection).record_unapplied("leasequeue", LAST)
    monkeypatch.setattr(sys, "argv", ["manage.py", "migrate"])
    assert asked() == []


def test_w112_missing_table():
    """Marked as migrated, but not there."""
    others = {
        model._meta.db_table for model in apps.get_app_config("leasequeue").get_models()
    }
    tables = [*(others - {"leasequeue_job"}), "django_migrations"]
    with mock.patch.object(
        connection.introspection, "table_names", return_value=tables
    ):
        [found] = asked()
    assert ids([found]) == ["W112"]
    assert "has no table leasequeue_job, though" in found.msg


@pytest.mark.django_db(databases=["default", "other"])
def test_each_alias_is_asked_for_itself(settings):
    """Of those at hand, and only where the router lets jobs be."""
    MigrationRecorder(connections["other"]).record_unapplied("leasequeue", LAST)
    assert asked() == []
    [found] = asked("default", "other")
    assert "'other' lacks" in found.msg
    settings.DATABASE_ROUTERS = [NotInOther()]
    assert asked("default", "other") == []


class NotInOther:
    def allow_migrate(self, db, app_label, **hints):
        return False if db == "other" else None


@pytest.mark.django_db(databases=["default", "other"])
def test_options_of_an_alias_at_hand_where_jobs_are_not_usually_stored():
    """check_options looks at the usual one only."""
    other = connections["other"]
    level = "serializable" if connection.vendor == "mysql" else 4
    options = {"isolation_level": level, "transaction_mode": "DEFERRED"}
    expected = "W106" if connection.features.has_select_for_update else "W103"
    with mock.patch.dict(other.settings_dict["OPTIONS"], options):
        assert ids(asked("other")) == [expected]


def test_other_databases_are_not_asked():
    """What no statement of ours suits is left alone; check_options tells it."""
    with mock.patch.object(connection, "vendor", "oracle"):
        assert asked() == []
