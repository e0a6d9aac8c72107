"""Upgrade of a table that already holds rows: the latest keeps the id, the others only lose it."""

import os

import pytest
from django.db import DatabaseError, IntegrityError, connections, migrations
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.writer import OperationWriter
from django.db.models import CharField, F, Value
from django.db.models.functions import Cast, Concat, Mod
from django.test import override_settings

from django_leasequeue import operations
from django_leasequeue.models import Job
from django_leasequeue.operations import LatestKeepsDedupId
from tests.backlog import multiply
from tests.factories import JobFactory
from tests.road import claim, statements
from tests.scratch import scratch_database
from tests.tasks import add

pytestmark = pytest.mark.django_db(databases=["default", "other"], transaction=True)

# 100,000 takes some seconds on each database.
ROWS = int(os.environ.get("LEASEQUEUE_TEST_UPGRADE_ROWS", "3000"))
CONSTRAINT = next(
    one for one in Job._meta.constraints if one.name == "leasequeue_dedup"
)


class Table:
    """The job table of `other`, and the state of its migrations."""

    def __init__(self):
        self.state = MigrationExecutor(connections["other"]).loader.project_state()

    def migrate(self, *steps, atomic=True):
        """Run operations as one migration does, in one transaction or not."""
        migration = migrations.Migration("upgrade", "leasequeue")
        migration.atomic = atomic
        migration.operations = steps
        with connections["other"].schema_editor(atomic=atomic) as editor:
            self.state = migration.apply(self.state.clone(), editor)

    def upgrade(self, *more, atomic=True):
        self.migrate(LatestKeepsDedupId(), *more, atomic=atomic)


@pytest.fixture
def old_table():
    """A job table that has no unique constraint on the ids."""
    with scratch_database("other"):
        table = Table()
        table.migrate(migrations.RemoveConstraint("job", CONSTRAINT.name))
        yield table


add_constraint = migrations.AddConstraint("job", CONSTRAINT)


def job(dedup_id, queue="default", **traits):
    return JobFactory(
        using="other", queue=queue, dedup_id=dedup_id, dedup_hold="finished", **traits
    )


def table():
    return {row["id"]: row for row in Job.objects.using("other").values()}


def test_the_latest_keeps_the_id(old_table):
    """By primary key, whatever the states; queues and spellings are apart."""
    kept = [
        job("single"),
        job(None),
        job(None),
        job("k", queue="another"),
        job("K"),
        job("k "),
        job("ḱ"),
    ]
    lost = [job("k", leased=True), job("k"), job("k", succeeded=True)]
    latest = job("k", failed=True)
    lost.append(job("j", expired=True))
    other = job("j")
    before = table()
    old_table.upgrade()
    after = table()
    for one in [*kept, latest, other]:
        assert after[one.pk] == before[one.pk]
    for one in lost:
        released = before[one.pk]["dedup_id"]
        expected = {"dedup_id": None, "released_dedup_id": released}
        assert after[one.pk] == {**before[one.pk], **expected}
    assert len(after) == len(before)
    old_table.migrate(add_constraint)


@pytest.mark.parametrize("atomic", [True, False])
def test_twice_is_as_once(old_table, atomic):
    """The second time it writes nothing."""
    for _ in range(3):
        job("k")
    old_table.upgrade(atomic=atomic)
    once = table()
    with statements("other") as sent:
        old_table.upgrade(atomic=atomic)
    assert table() == once
    assert not [sql for sql in sent if sql.startswith("UPDATE")]


def many_rows():
    """Ten jobs for each id, here and there in the table."""
    first = job(None)
    for start in range(1, ROWS, 10_000):
        multiply(first, min(10_000, ROWS - start), using="other")
    jobs = Job.objects.using("other")
    number = Cast(Mod(F("pk"), Value(ROWS // 10)), CharField(max_length=20))
    jobs.update(dedup_id=Concat(Value("k"), number))
    assert jobs.count() == ROWS
    return jobs


def test_many_rows_interrupted_and_run_again(old_table):
    """What was done before the interruption stays; the next run does the rest."""
    jobs = many_rows()
    before = dict(jobs.values_list("pk", "dedup_id"))
    ids = set(before.values())
    update = f"UPDATE {connections['other'].ops.quote_name('leasequeue_job')}"
    ended = DatabaseError("The process ends here.")
    with (
        pytest.raises(DatabaseError, match="ends here"),
        ending_at(update, 3, ended),
    ):
        old_table.upgrade(atomic=False)
    left = jobs.filter(dedup_id__isnull=False).count()
    assert left == ROWS - 2 * operations.ROWS
    with pytest.raises(IntegrityError):
        old_table.migrate(add_constraint)
    old_table.upgrade(add_constraint, atomic=False)
    held = dict(jobs.filter(dedup_id__isnull=False).values_list("dedup_id", "pk"))
    assert set(held) == ids
    latest = {}
    for pk, key in before.items():
        latest[key] = max(pk, latest.get(key, 0))
    assert held == latest
    released = dict(jobs.filter(dedup_id=None).values_list("pk", "released_dedup_id"))
    assert {**released, **{pk: key for key, pk in held.items()}} == before


def ending_at(match, number, error):
    """Refuse the statement of that number among those that contain `match`."""
    seen = []

    def wrapper(execute, sql, params, many, context):
        if match in sql:
            seen.append(sql)
            if len(seen) >= number:
                raise error
        return execute(sql, params, many, context)

    return connections["other"].execute_wrapper(wrapper)


def test_jobs_that_lost_their_id_are_run(old_table):
    """And a dispatch of the id is answered by the one that kept it."""
    made = [job("k") for _ in range(3)]
    old_table.upgrade(add_constraint)
    done = Job.objects.using("other").dispatch(add, [1, 2], dedup="k")
    assert (done.job.pk, done.outcome) == (made[-1].pk, "skipped")
    assert {one.id for one in claim(using="other")} == {one.pk for one in made}


def test_spellings_that_the_old_column_took_for_one(old_table):
    """A column that is not compared exactly yet: ids are told apart all the same."""
    if connections["other"].vendor != "mysql":
        pytest.skip("columns are compared exactly by default")
    with connections["other"].cursor() as cursor:
        cursor.execute(
            "ALTER TABLE leasequeue_job MODIFY dedup_id varchar(510) "
            "CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci"
        )
    made = [job(key) for key in ("k", "K", "k ", "ḱ", "k")]
    old_table.upgrade()
    after = table()
    assert [after[one.pk]["dedup_id"] for one in made] == [None, "K", "k ", "ḱ", "k"]


class JobsElsewhere:
    def allow_migrate(self, db, app_label, **hints):
        return False


def test_jobs_that_a_router_keeps_elsewhere(old_table):
    """Their table is not here, or not in use: nothing is read or written."""
    with (
        override_settings(DATABASE_ROUTERS=[JobsElsewhere()]),
        statements("other") as sent,
    ):
        old_table.upgrade(atomic=False)
    assert not [sql for sql in sent if "leasequeue_job" in sql]


def test_it_can_be_written_and_undone(old_table):
    """makemigrations writes it as it is made; backwards it does nothing."""
    operation = LatestKeepsDedupId()
    written, imports = OperationWriter(operation).serialize()
    assert "LatestKeepsDedupId(" in written
    assert imports == {"import django_leasequeue.operations"}
    assert "latest" in operation.describe()
    made = job("k"), job("k")
    with connections["other"].schema_editor() as editor:
        operation.database_backwards(
            "leasequeue", editor, old_table.state, old_table.state
        )
    assert [table()[one.pk]["dedup_id"] for one in made] == ["k", "k"]
