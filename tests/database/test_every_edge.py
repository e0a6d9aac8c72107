"""Each verb against each state: it makes the moves of states.TRANSITIONS and no others."""

import contextlib
import datetime as dt
import uuid

import pytest
from django.test import override_settings

from django_leasequeue import transitions
from django_leasequeue.claimed import Claimed
from django_leasequeue.db import DatabaseNow
from django_leasequeue.exceptions import JobRunAborted
from django_leasequeue.models import Job
from django_leasequeue.outcomes import (
    Cancelled,
    Failed,
    Released,
    RetryLater,
    Snoozed,
    Succeeded,
)
from django_leasequeue.states import TRANSITIONS, Status
from tests.factories import JobFactory
from tests.road import claim, ids, table

TOKEN = uuid.UUID(int=7)
MINUTE = dt.timedelta(minutes=1)
ERROR = {"message": "as asked"}

# What a job may be, with the state that this is.
JOBS = {
    "due": (Status.PENDING, {}),
    "delayed": (Status.PENDING, {"scheduled": True}),
    "blocked": (Status.PENDING, {"blocked": True}),
    "held": (Status.RUNNING, {"leased": True}),
    "held to the end": (
        Status.RUNNING,
        {"leased": True, "processing_until": DatabaseNow(29)},
    ),
    "lease past": (Status.RUNNING, {"expired": True}),
    "asked to rerun": (Status.RUNNING, {"leased": True, "rerun": True}),
    "asked to stop": (
        Status.RUNNING,
        {"leased": True, "cancel_requested_at": DatabaseNow()},
    ),
    "lost when asked to rerun": (Status.RUNNING, {"expired": True, "rerun": True}),
    "lost when asked to stop": (
        Status.RUNNING,
        {"expired": True, "cancel_requested_at": DatabaseNow()},
    ),
    "succeeded": (Status.SUCCEEDED, {"succeeded": True}),
    "failed": (Status.FAILED, {"failed": True}),
    "cancelled": (Status.CANCELLED, {"cancelled": True}),
}


def held(job):
    """The job as the worker of TOKEN knows it, rightly or not."""
    return Claimed(
        id=job.pk,
        queue=job.queue,
        task=job.task,
        args="[1,2]",
        kwargs="{}",
        meta="{}",
        attempts=job.attempts,
        max_attempts=1,
        recoveries=0,
        lost_alone=0,
        claims=job.claims,
        round=1,
        concurrency_key=job.concurrency_key,
        errors_text="[]",
        worker="host:1",
        token=TOKEN,
        claimed_at=job.created_at,
        lease=300.0,
        buffer=30.0,
    )


def settling(outcome):
    return lambda jobs: Job.objects.settle([(held(job), outcome) for job in jobs])


def prune_all(jobs):
    with override_settings(LEASEQUEUE={"RETENTION": 0}):
        Job.objects.prune()


def record_steps(jobs):
    for job in jobs:
        # Most of them are nobody's who asks.
        with contextlib.suppress(JobRunAborted):
            Job.objects.record_step(held(job), "a", "1", 0.1, first=True)


# Each way to use a verb on jobs, under the verb's name.
USES = {
    "claim": [
        lambda jobs: claim(),
        lambda jobs: [
            Job.objects.claim_job(pk, uuid.uuid4(), "host:1") for pk in ids(jobs)
        ],
    ],
    "prune": [prune_all],
    "cancel": [lambda jobs: Job.objects.filter(pk__in=ids(jobs)).cancel()],
    "retry": [lambda jobs: Job.objects.filter(pk__in=ids(jobs)).retry()],
    "run_now": [lambda jobs: Job.objects.filter(pk__in=ids(jobs)).run_now()],
    "progress": [
        lambda jobs: [Job.objects.progress(held(job), '{"done":1}') for job in jobs]
    ],
    "step": [record_steps],
    "renew": [lambda jobs: Job.objects.renew(TOKEN)],
    "settle": [
        settling(Succeeded("3")),
        settling(Failed(ERROR)),
        settling(RetryLater(MINUTE, ERROR)),
        settling(Snoozed(MINUTE)),
        settling(Cancelled()),
        settling(Released()),
    ],
    "force_release": [
        lambda jobs: Job.objects.filter(pk__in=ids(jobs)).force_release()
    ],
    "remove": [lambda jobs: Job.objects.filter(pk__in=ids(jobs)).remove()],
    "release": [
        lambda jobs: Job.objects.release(TOKEN),
        lambda jobs: Job.objects.release(TOKEN, death="killed by SIGKILL"),
        lambda jobs: Job.objects.release(TOKEN, ids=ids(jobs)),
    ],
}
each = pytest.mark.parametrize(
    "verb, number",
    [(verb, number) for verb, uses in USES.items() for number in range(len(uses))],
)


class Jobs:
    """One job of every kind, held by the token where it runs at all."""

    def __init__(self, token=TOKEN):
        self.by_kind = {kind: self._make(kind, token) for kind in JOBS}

    def _make(self, kind, token):
        status, traits = JOBS[kind]
        tokens = {"processing_token": token} if status == Status.RUNNING else {}
        return JobFactory(**traits, **tokens)

    def look(self):
        rows = table()
        return {kind: rows.get(job.pk) for kind, job in self.by_kind.items()}

    def use(self, verb, number):
        """Use the verb on all, and return {kind: its row before, and after}."""
        before = self.look()
        USES[verb][number](self.by_kind.values())
        after = self.look()
        return {kind: (before[kind], after[kind]) for kind in before}


def test_every_verb_and_state_is_driven():
    """A verb or state that is added is driven here too."""
    assert set(USES) == set(TRANSITIONS)
    assert {status for status, _ in JOBS.values()} == {*Status}
    of_no_state = {"dispatch", "groups", "pause", "schedule", "tally"}
    assert set(TRANSITIONS) | of_no_state == set(transitions.__all__)


@each
def test_edge(verb, number):
    """From a state that is not the verb's nothing of the row changes; else it goes where it may."""
    starts, ends = TRANSITIONS[verb]
    for kind, (before, after) in Jobs().use(verb, number).items():
        if before["status"] not in starts:
            assert after == before, kind
        if after is None:
            assert verb in ("prune", "remove"), kind
        elif after != before:
            assert after["status"] in ends, kind


@each
def test_no_verb_acts_twice(verb, number):
    """What a verb has done once it does not do again; only renew may move the lease."""
    jobs = Jobs()
    jobs.use(verb, number)
    for kind, (before, after) in jobs.use(verb, number).items():
        if verb == "renew":
            before.pop("processing_until")
            after.pop("processing_until")
        assert after == before, kind


ASK_FOR_NONE = {
    *("claim", "cancel", "prune", "retry", "run_now", "force_release", "remove")
}


@pytest.mark.parametrize(
    "verb, number",
    [
        (verb, number)
        for verb, uses in USES.items()
        for number in range(len(uses))
        if verb not in ASK_FOR_NONE
    ],
)
def test_another_token_changes_nothing(verb, number):
    """What a worker does it does by its token alone."""
    for kind, (before, after) in Jobs(uuid.uuid4()).use(verb, number).items():
        assert after == before, kind


# What each kind of job becomes; what is not named here stays as it is.
BECOMES = {
    "claim": {
        "due": "running",
        "lease past": "running",
        "lost when asked to rerun": "running",
        "lost when asked to stop": "cancelled",
    },
    "cancel": {"due": "cancelled", "delayed": "cancelled", "blocked": "cancelled"},
    "release": {
        "held": "pending",
        "asked to rerun": "pending",
        "asked to stop": "cancelled",
    },
    "force_release": {
        "held": "pending",
        "held to the end": "pending",
        "lease past": "pending",
        "asked to rerun": "pending",
        "lost when asked to rerun": "pending",
        "asked to stop": "cancelled",
        "lost when asked to stop": "cancelled",
    },
    "renew": {},
    "retry": dict.fromkeys(["succeeded", "failed", "cancelled"], "pending"),
    "run_now": {},
    "prune": dict.fromkeys(["succeeded", "failed", "cancelled"]),
    "remove": dict.fromkeys(
        ["due", "delayed", "blocked", "succeeded", "failed", "cancelled"]
    ),
}


@pytest.mark.parametrize("verb", BECOMES)
def test_where_it_goes(verb):
    """The moves that do happen, one by one."""
    for kind, (before, after) in Jobs().use(verb, 0).items():
        found = after and after["status"]
        assert found == BECOMES[verb].get(kind, before["status"]), kind


@pytest.mark.parametrize(
    "number, status",
    list(
        enumerate(["succeeded", "failed", "pending", "pending", "cancelled", "pending"])
    ),
)
def test_where_settle_leads(number, status):
    """An outcome decides, unless another run or a cancel was asked for."""
    found = {
        kind: after["status"]
        for kind, (before, after) in Jobs().use("settle", number).items()
        if after != before
    }
    stopped = "cancelled" if status == "pending" else status
    assert found == {
        "held": status,
        "asked to rerun": "pending",
        "asked to stop": stopped,
    }
