"""IMMEDIATE: a dispatch runs its job, at the commit of the transaction that it is made in."""

import contextlib
import os

import pytest
from asgiref.sync import async_to_sync
from django.db import connection, transaction

from django_leasequeue import Dedup
from django_leasequeue.models import Job
from django_leasequeue.testing import capture_jobs, run_jobs
from tests import tasks, testing_tasks
from tests.models import Effect
from tests.testing_tasks import CALLS


@pytest.fixture(autouse=True)
def immediate(settings):
    settings.LEASEQUEUE = {**testing_tasks.SETTINGS, "IMMEDIATE": True}
    CALLS.clear()


def statuses():
    return list(Job.objects.order_by("pk").values_list("status", flat=True))


@pytest.mark.django_db(transaction=True)
def test_a_job_is_run_before_dispatch_returns():
    """Of plain and async tasks, by each verb; the error of a task is its job's."""
    job, _ = tasks.record_effect.dispatch("a")
    assert Effect.objects.get().pid == os.getpid()
    job.refresh_from_db()
    assert (job.status, job.attempts) == ("succeeded", 1)
    async_to_sync(testing_tasks.note_soon.adispatch)("b")
    Job.objects.dispatch_many([testing_tasks.note.spec("c"), tasks.fail.spec()])
    assert CALLS == ["b", "c"]
    assert statuses() == ["succeeded"] * 3 + ["failed"]


@pytest.mark.django_db(transaction=True)
def test_at_the_commit():
    with transaction.atomic():
        testing_tasks.note.dispatch("x")
        assert CALLS == []
    assert CALLS == ["x"]
    with pytest.raises(OSError), transaction.atomic():
        testing_tasks.note.dispatch("y")
        raise OSError
    assert CALLS == ["x"]


@pytest.mark.django_db(transaction=True)
def test_jobs_that_jobs_dispatch():
    testing_tasks.dispatch_more.dispatch(2)
    assert CALLS == [2, 1, 0]
    assert statuses() == ["succeeded"] * 3


@pytest.mark.django_db(transaction=True)
def test_what_is_left_for_a_worker():
    """What is not due yet, retries, and whatever a dispatch found there."""
    testing_tasks.note.using(delay=60).dispatch("later")
    testing_tasks.third_time.dispatch("again")
    once = testing_tasks.note.using(dedup=Dedup("x", until="removed"))
    assert [once.dispatch("once").outcome for _ in range(2)] == ["added", "skipped"]
    assert CALLS == ["again", "once"]
    assert statuses() == ["pending", "pending", "succeeded"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("outer", [False, True])
def test_103_the_callers_connection_is_left_alone(settings, outer):
    """Case 103: not closed, nor its transaction broken, whatever the task does with its own."""
    Effect.objects.create(name="before")
    own = connection.connection
    with transaction.atomic() if outer else contextlib.nullcontext():
        testing_tasks.close_the_connection.dispatch("closed")
        testing_tasks.leave_a_mess.dispatch("broken")
        Effect.objects.create(name="after")
    # Without a transaction nothing is undone, and Django calls it at once.
    assert CALLS == ["closed", "broken", "at the commit of what is undone"]
    assert connection.connection is own
    assert connection.is_usable() and not connection.in_atomic_block
    assert statuses() == ["succeeded", "failed"]
    names = set(Effect.objects.values_list("name", flat=True))
    assert names == {"before", "broken", "after"}


@pytest.mark.django_db
def test_nothing_is_run_inside_a_test_case():
    with capture_jobs():
        testing_tasks.note.dispatch("x")
    assert CALLS == []
    run_jobs()
    assert CALLS == ["x"]
