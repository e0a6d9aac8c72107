"""Runs without a worker: a claim made by hand or of a real row, and functions as tasks."""

import asyncio
import contextlib
import json
import threading
import uuid
from datetime import UTC, datetime
from unittest import mock

from django_leasequeue import registry
from django_leasequeue.claimed import Claimed
from django_leasequeue.models import Job
from django_leasequeue.selection import Selection
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker import runner
from django_leasequeue.worker.context import JobContext

NAME = "tests.made"
WORKER = "host:1"


def claimed(*args, **fields):
    """A Claimed with these arguments for its task, as if a row had been claimed."""
    values = {
        "id": 41,
        "queue": "default",
        "task": NAME,
        "args": json.dumps(args),
        "kwargs": "{}",
        "meta": "{}",
        "attempts": 0,
        "max_attempts": 1,
        "recoveries": 0,
        "lost_alone": 0,
        "claims": 1,
        "round": 1,
        "concurrency_key": None,
        "errors_text": "[]",
        "worker": WORKER,
        "token": uuid.uuid4(),
        "claimed_at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "lease": 300.0,
        "buffer": 30.0,
    }
    return Claimed(**{**values, **fields})


def context_of(job, stopping=None):
    """The context that a worker would pass for the job."""
    return JobContext(job, None, stopping or threading.Event())


@contextlib.contextmanager
def registered(function, *, name=NAME, **options):
    """The function as a task of that name for the length of the block."""
    with mock.patch.dict(registry._tasks):
        registry.register(TaskOptions(name=name, func=function, **options))
        yield


def run(function, *args, options=None, job=None, context=None, **fields):
    """Run a function as the task of a job with these arguments; return the outcome."""
    job = job or claimed(*args, **fields)
    with registered(function, **(options or {})):
        return runner.run(job, context or context_of(job))


def arun(function, *args, options=None, job=None, context=None, **fields):
    """The same by the event loop."""
    job = job or claimed(*args, **fields)
    with registered(function, **(options or {})):
        return asyncio.run(runner.arun(job, context or context_of(job)))


def claim(limit=1):
    """Claim jobs as a worker does."""
    found = Job.objects.claim(Selection(), limit, uuid.uuid4(), WORKER)
    jobs = found.jobs
    if found.suspects and not jobs:
        jobs = Job.objects.claim(
            Selection(), limit, uuid.uuid4(), WORKER, alone=True
        ).jobs
    return jobs[0] if limit == 1 and jobs else jobs
