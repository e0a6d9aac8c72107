"""By whom or where a job was dispatched: what its row says."""

import asyncio
from types import SimpleNamespace

import pytest
from asgiref.sync import async_to_sync
from django.contrib.auth.models import AnonymousUser, User
from django.db import transaction
from django.test import RequestFactory
from django.utils.functional import SimpleLazyObject

from django_leasequeue import Dedup, dispatched_by, every, origin
from django_leasequeue.middleware import DispatchedByMiddleware, of_request
from django_leasequeue.models import Job, Schedule
from django_leasequeue.testing import run_jobs
from tests.road import row, toy
from tests.scheduling import HALF, STEP, a_schedule, tick
from tests.tasks import add

pytestmark = pytest.mark.django_db


def origin_of(job):
    """What is stored, which the instance shows as well."""
    assert row(job)["dispatched_by"] == job.dispatched_by
    return job.dispatched_by


def test_nobody_said():
    """A row that costs nothing for it."""
    assert origin_of(add.dispatch(1, 2).job) is None


WAYS = {
    "dispatch": lambda: [Job.objects.dispatch(add, [1, 2])],
    "of the task": lambda: [add.using(priority=1).dispatch(1, 2)],
    "with an id": lambda: [add.using(dedup="k").dispatch(1, 2)],
    "in async code": lambda: [async_to_sync(add.adispatch)(1, 2)],
    "many": lambda: Job.objects.dispatch_many([add.spec(n, 2) for n in range(3)]),
    "many with ids": lambda: Job.objects.dispatch_many(
        [add.using(dedup=key).spec(1, 2) for key in ("b", "a")]
    ),
}


@pytest.mark.parametrize("way", WAYS)
def test_every_way_to_dispatch(way):
    with dispatched_by("nightly import"):
        done = WAYS[way]()
    assert {origin_of(one.job) for one in done} == {"nightly import"}


def test_tasks_of_django(settings):
    """What enqueue() stores is dispatched like any other job."""
    pytest.importorskip("django.tasks", reason="came with Django 6.0")
    from tests import django_tasks as tasks

    ours = "django_leasequeue.backend.LeaseQueueBackend"
    settings.TASKS = {"default": {"BACKEND": ours, "QUEUES": []}}
    settings.LEASEQUEUE = tasks.SETTINGS
    with dispatched_by("ann"):
        result = tasks.answer.enqueue()
    assert Job.objects.get(pk=result.id).dispatched_by == "ann"


def test_blocks():
    """The inner one counts; what is cut or no database takes is made to fit."""
    seen = []
    with dispatched_by("outer"):
        with dispatched_by(lambda: "x" * 500 + "\0"):
            seen.append(origin_of(add.dispatch(1, 2).job))
        with dispatched_by(""):
            seen.append(origin_of(add.dispatch(1, 2).job))
        seen.append(origin_of(add.dispatch(1, 2).job))
    assert len(seen[0]) == origin.LONGEST_ORIGIN and "characters cut" in seen[0]
    assert seen[1:] == [None, "outer"]
    assert origin.current() is None


def test_what_a_dispatch_finds_keeps_its_own():
    """Also if it is given new arguments."""
    with dispatched_by("first"):
        job, _ = add.using(dedup="k").dispatch(1, 2)
    with dispatched_by("second"):
        again, outcome = add.using(dedup=Dedup("k", replace=True)).dispatch(3, 4)
    assert (outcome, again.pk) == ("replaced", job.pk)
    assert row(job)["dispatched_by"] == "first"


# --- Inside of jobs


async def _soon():
    await add.adispatch(1, 2)


def _at_commit():
    transaction.on_commit(lambda: add.dispatch(1, 2))


KINDS = {
    "plain": (lambda: add.dispatch(1, 2) and None, {}),
    "async": (_soon, {}),
    "atomic": (_at_commit, {"atomic": True}),
    "callback": (lambda: None, {"on_success": lambda ended: add.dispatch(1, 2)}),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.django_db(transaction=True)
def test_what_a_job_dispatches(kind):
    function, options = KINDS[kind]
    with toy(function, name="tests.parent", **options) as parent:
        job, _ = parent.dispatch()
        assert [one.job.status for one in run_jobs()] == ["succeeded"] * 2
    child = Job.objects.exclude(pk=job.pk).get()
    assert child.dispatched_by == f"job {job.pk}"
    assert origin.job_of(child.dispatched_by) == job.pk
    assert origin.current() is None


@pytest.mark.parametrize("text", [None, "", "job", "job x", "job ²", "ann: 7"])
def test_what_is_no_job(text):
    assert origin.job_of(text) is None


# --- Schedules


def test_schedules():
    """The job of a tick has its schedule for that; one that is wanted now says by whom."""
    rule = every(hours=1, args=[1, 2], overlap="allow")
    schedule = a_schedule(rule, ago=STEP + HALF)
    mine = Schedule.objects.filter(name="s")
    [(wanted, _)] = mine.run_now(by="ann")
    with dispatched_by("admin: bob"):
        [(there, _)] = mine.run_now(by="bob")
        [of_tick] = tick(schedule).jobs
    assert [row(job)["schedule"] for job in (wanted, there, of_tick)] == ["s"] * 3
    origins = [origin_of(job) for job in (wanted, there, of_tick)]
    assert origins == ["ann", "admin: bob", None]


# --- Requests


def answer(request):
    return add.dispatch(1, 2).job


async def soon(request):
    return (await add.adispatch(1, 2)).job


def test_a_request():
    request = RequestFactory().post("/orders/7/?secret=1")
    assert origin_of(DispatchedByMiddleware(answer)(request)) == "POST /orders/7/"
    request.user = User(username="ann")
    assert origin_of(DispatchedByMiddleware(answer)(request)) == "ann: POST /orders/7/"
    assert origin.current() is None


def test_an_async_request():
    request = RequestFactory().get("/a/")
    within = DispatchedByMiddleware(soon)
    assert asyncio.iscoroutinefunction(within) or within.is_async
    assert origin_of(async_to_sync(within)(request)) == "GET /a/"


def test_the_user_of_a_request_is_not_asked_for():
    """Who it is is told where somebody has looked; that of nobody is left out."""
    request = SimpleNamespace(method="GET", path="/")
    request.user = SimpleLazyObject(lambda: User(username="ann"))
    assert of_request(request) == "GET /"
    assert request.user.username == "ann"
    assert of_request(request) == "ann: GET /"
    request.user = AnonymousUser()
    assert of_request(request) == "GET /"


# --- Commands


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["./manage.py", "import_orders", "--all"], "manage.py import_orders"),
        (["/venv/bin/django-admin", "shell"], "manage.py shell"),
        (["/lib/django/__main__.py", "shell"], "manage.py shell"),
        (["manage.py", "runserver"], None),
        (["manage.py", "runjobs"], None),
        (["manage.py", "--version"], None),
        (["manage.py"], None),
        (["/venv/bin/pytest", "tests"], None),
        ([], None),
    ],
)
def test_a_management_command(argv, told):
    assert origin.command_of(argv) == told
