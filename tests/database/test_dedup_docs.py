"""The Python of docs/dedup.md is run, on each database, and does what the text beside it says."""

import sys
from types import ModuleType

import pytest
from django.db import connections, migrations
from django.db.migrations.executor import MigrationExecutor

from django_leasequeue import registry
from django_leasequeue.models import Job
from django_leasequeue.operations import LatestKeepsDedupId
from django_leasequeue.transitions.dispatch.passes import dedup_constraint
from tests import readme
from tests.factories import JobFactory
from tests.scratch import scratch_database

pytestmark = pytest.mark.django_db(databases=["default", "other"], transaction=True)

BLOCKS = readme.blocks("python", readme.DEDUP)


@pytest.fixture
def module(monkeypatch):
    """Where the snippets are run: a module that workers would find."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    module = ModuleType("tests.tasks.dedup")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return module


def test_the_snippets(module):
    assert len(BLOCKS) == 5
    for code in BLOCKS[:-1]:
        exec(code, vars(module))
    jobs = Job.objects.order_by("pk").values_list("dedup_id", "queue", "suppressed")
    assert list(jobs) == [(f"index:{n}", "search", n == 7) for n in (7, 8, 9)]
    assert module.attempt == 1


def test_the_migration(module):
    """It can be run on a table without the constraint, where jobs share an id."""
    exec(BLOCKS[-1], vars(module))
    migration = module.Migration("0002_dedup", "leasequeue")
    assert isinstance(migration.operations[0], LatestKeepsDedupId)
    constraint = dedup_constraint(Job.objects.all())
    assert migration.operations[1].constraint == constraint
    with scratch_database("other"):
        before = migrations.Migration("0001_before", "leasequeue")
        before.operations = [migrations.RemoveConstraint("job", constraint.name)]
        state = MigrationExecutor(connections["other"]).loader.project_state()
        with connections["other"].schema_editor() as editor:
            state = before.apply(state, editor)
        jobs = [JobFactory(using="other", dedup_id="k") for _ in range(3)]
        with connections["other"].schema_editor(atomic=migration.atomic) as editor:
            migration.apply(state, editor)
        ids = dict(Job.objects.using("other").values_list("pk", "dedup_id"))
        assert ids == {jobs[0].pk: None, jobs[1].pk: None, jobs[2].pk: "k"}
        with connections["other"].cursor() as cursor:
            assert constraint.name in connections[
                "other"
            ].introspection.get_constraints(cursor, Job._meta.db_table)
