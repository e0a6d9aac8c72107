"""Pruning where other models, other tables or signals have a say in a job's end."""

import contextlib

import pytest
from django.apps import apps
from django.db import connection, models
from django.db.models.signals import post_delete, pre_delete

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from tests.factories import JobFactory
from tests.road import claim, row, table

pytestmark = pytest.mark.django_db(transaction=True)
DAY = 24 * 3600


def old(**fields):
    return JobFactory(succeeded=True, finished_at=DatabaseNow(-2 * DAY), **fields)


@contextlib.contextmanager
def pointing_model(on_delete, **options):
    """Yield a model of the app `tests` with a foreign key to Job, while the block lasts."""
    meta = type("Meta", (), {"app_label": "tests"})
    key = models.ForeignKey(
        Job, on_delete, related_name="receipts", db_index=True, **options
    )
    made = type(
        "Receipt", (models.Model,), {"__module__": "tests", "Meta": meta, "job": key}
    )
    try:
        with connection.schema_editor() as editor:
            editor.create_model(made)
        try:
            yield made
        finally:
            with connection.schema_editor() as editor:
                editor.delete_model(made)
    finally:
        del apps.all_models["tests"]["receipt"]
        del Job.receipts
        apps.clear_cache()


def settle():
    [job] = claim()
    [settled] = Job.objects.settle([(job, Succeeded("3"))])
    return settled.verdict.value


@pytest.mark.parametrize("constraint", [True, False])
def test_rows_that_go_along(constraint):
    """on_delete is Django's, with or without a constraint in the database."""
    with pointing_model(models.CASCADE, db_constraint=constraint) as receipts:
        jobs = [old() for _ in range(3)]
        young = JobFactory(succeeded=True)
        for job in (*jobs, *jobs, young):
            receipts.objects.create(job=job)
        assert Job.objects.prune() == {"succeeded": 3}
        assert set(table()) == {young.pk}
        assert [one.job_id for one in receipts.objects.all()] == [young.pk]


def test_rows_that_stay_without_their_job():
    with pointing_model(models.SET_NULL, null=True) as receipts:
        receipts.objects.create(job=old())
        assert Job.objects.prune() == {"succeeded": 1}
        assert [one.job_id for one in receipts.objects.all()] == [None]


@pytest.mark.parametrize("on_delete", [models.PROTECT, models.RESTRICT])
def test_jobs_that_are_protected_stay_and_the_others_go(on_delete):
    with pointing_model(on_delete) as receipts:
        jobs = [old() for _ in range(9)]
        receipts.objects.create(job=jobs[4])
        assert Job.objects.prune() == {"succeeded": 8}
        assert set(table()) == {jobs[4].pk}
        receipts.objects.all().delete()


def test_jobs_that_the_database_alone_protects():
    """DO_NOTHING with a constraint: an error of the database for that row."""
    with pointing_model(models.DO_NOTHING) as receipts:
        jobs = [old() for _ in range(5)]
        receipts.objects.create(job=jobs[0])
        assert Job.objects.prune() == {"succeeded": 4}
        assert set(table()) == {jobs[0].pk}
        receipts.objects.all().delete()


def test_with_other_models_no_outcome_removes_at_once(settings):
    """What they say to that is not the affair of a worker that stores outcomes."""
    settings.LEASEQUEUE = {"RETENTION": 0}
    with pointing_model(models.PROTECT) as receipts:
        job = JobFactory()
        receipts.objects.create(job=job)
        assert settle() == "written"
        assert row(job)["status"] == "succeeded"
        receipts.objects.all().delete()
    assert Job.objects.prune() == {"succeeded": 1}


@pytest.mark.parametrize("signal", [pre_delete, post_delete])
def test_signals_are_sent_by_prune_and_not_by_settle(settings, signal):
    settings.LEASEQUEUE = {"RETENTION": 0}
    told = []

    def listener(instance, **kwargs):
        told.append(instance.task)

    JobFactory()
    signal.connect(listener, sender=Job)
    try:
        assert settle() == "written"
        assert told == []
        assert Job.objects.prune() == {"succeeded": 1}
    finally:
        signal.disconnect(listener, sender=Job)
    assert told == ["tests.tasks.add"]


def test_a_listener_that_fails_undoes_its_step_and_ends_the_prune():
    def listener(**kwargs):
        raise LookupError("as the test asked")

    old()
    post_delete.connect(listener, sender=Job)
    try:
        with pytest.raises(LookupError):
            Job.objects.prune()
    finally:
        post_delete.disconnect(listener, sender=Job)
    assert len(table()) == 1


def test_a_key_that_django_knows_nothing_of_keeps_the_row(settings):
    """The outcome is stored all the same, and prune passes the row over."""
    settings.LEASEQUEUE = {"RETENTION": 0}
    job = JobFactory()
    with connection.cursor() as cursor:
        cursor.execute(
            "CREATE TABLE foreign_rows (job BIGINT REFERENCES leasequeue_job (id)"
            + (
                ", FOREIGN KEY (job) REFERENCES leasequeue_job (id))"
                if connection.vendor == "mysql"
                else ")"
            )
        )
        try:
            cursor.execute("INSERT INTO foreign_rows VALUES (%s)", [job.pk])
            assert settle() == "written"
            assert row(job)["status"] == "succeeded"
            other = old()
            assert Job.objects.prune() == {"succeeded": 1}
            assert set(table()) == {job.pk} != {other.pk}
        finally:
            cursor.execute("DROP TABLE foreign_rows")
    assert Job.objects.prune() == {"succeeded": 1}
