"""How PostgreSQL keeps the job table, and that the others are left as they are."""

import pytest
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.writer import MigrationWriter

from django_leasequeue.models import Job
from django_leasequeue.operations import LeaveRoom

pytestmark = pytest.mark.django_db(transaction=True)


def options():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT reloptions FROM pg_class WHERE oid = %s::regclass",
            [Job._meta.db_table],
        )
        return cursor.fetchone()[0]


def run(how):
    state = MigrationExecutor(connection).loader.project_state()
    with connection.schema_editor() as editor:
        getattr(LeaveRoom(), how)("leasequeue", editor, state, state)


@pytest.mark.skipif(connection.vendor != "postgresql", reason="only PostgreSQL has it")
def test_160_pages_keep_room_for_updates():
    """Case 160: claim and settle find room beside the row; the operation may run twice."""
    assert options() == ["fillfactor=50"]
    for how, left in [
        ("database_forwards", ["fillfactor=50"]),
        ("database_backwards", None),
        ("database_backwards", None),
        ("database_forwards", ["fillfactor=50"]),
    ]:
        run(how)
        assert options() == left


@pytest.mark.skipif(connection.vendor == "postgresql", reason="there it does something")
def test_elsewhere_nothing_is_sent():
    state = MigrationExecutor(connection).loader.project_state()
    editor = connection.schema_editor(collect_sql=True)
    for how in (LeaveRoom().database_forwards, LeaveRoom().database_backwards):
        how("leasequeue", editor, state, state)
    assert editor.collected_sql == []


def test_a_squashed_migration_can_name_it():
    text, imports = MigrationWriter.serialize(LeaveRoom())
    assert "".join(text.split()) == "django_leasequeue.operations.LeaveRoom()"
    assert imports == {"import django_leasequeue.operations"}
    assert LeaveRoom().describe() and LeaveRoom().migration_name_fragment
