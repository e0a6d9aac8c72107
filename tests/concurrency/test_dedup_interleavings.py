"""A dispatch and another actor, in every order of their statements: as if one came first.

Whatever the order, nobody gets an error, and what both were told and the whole table
afterwards are those of one of the two calls made after the other. A claim, cancel, retry or prune
may also pass over a row that the dispatch has locked: then it says so, and has done nothing.
"""

import os
import re
from itertools import islice
from typing import Any, NamedTuple

import pytest
from django.conf import settings
from django.db import connection, transaction

from django_leasequeue import Dedup
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.transitions.dispatch import answers
from django_leasequeue.transitions.settle import Verdict
from tests.factories import JobFactory
from tests.interleavings import Actor, explore
from tests.road import claim
from tests.tasks import add

pytestmark = pytest.mark.skipif(
    settings.DATABASE not in ("postgres", "mysql"), reason="two databases are enough"
)

# Some orders of each scene, chosen at random; all of them, thousands, if it is not 1.
SOME = 6 if os.environ.get("LEASEQUEUE_TEST_ROUNDS", "1") == "1" else None
NOTHING = "nothing"
PLAIN = {}
RERUN = {"rerun": True, "replace": True}
REPLACE = {"replace": True}


class Scene(NamedTuple):
    """What there is at first, what the dispatch asks for, and who else acts."""

    state: str | None
    asked: dict[str, Any]
    rival: str


SCENES = [
    Scene(None, PLAIN, "dispatch"),
    Scene("pending", PLAIN, "dispatch"),
    Scene("pending", REPLACE, "dispatch"),
    Scene("running", RERUN, "dispatch"),
    Scene("finished", PLAIN, "dispatch"),
    Scene("pending", PLAIN, "claim"),
    Scene("pending", REPLACE, "claim"),
    Scene("pending", RERUN, "claim"),
    Scene("running", PLAIN, "settle"),
    Scene("running", RERUN, "settle"),
    Scene("finished", PLAIN, "prune"),
    Scene("pending", PLAIN, "cancel"),
    Scene("pending", REPLACE, "cancel"),
    Scene("running", RERUN, "cancel"),
    Scene("finished", PLAIN, "retry"),
    Scene("taken over", PLAIN, "retry"),
    Scene("taken over", PLAIN, "dispatch"),
]


@pytest.fixture
def actors():
    both = [Actor("dispatch"), Actor("rival", passing=is_look_for_lanes)]
    yield both
    for actor in both:
        actor.close()


def is_look_for_lanes(sql):
    """The many reads by which a prune finds out where there is something to do."""
    return re.search(r"^SELECT .* AS .now. ", sql) and "processing_until" not in sql


@pytest.mark.parametrize("inside", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize(
    "scene", SCENES, ids=[f"{s.state} {'+'.join(s.asked)} {s.rival}" for s in SCENES]
)
def test_every_order(scene, inside, actors, settings, monkeypatch):
    """Two who want one id, or one who wants it and one who runs, ends or removes its job."""
    # Nobody gives up because the other was made to wait.
    monkeypatch.setattr(answers, "COUNTING", 60)
    settings.LEASEQUEUE = {"RETENTION": 0}

    def prepare():
        return actions(scene, inside)

    allowed = serial(prepare)
    seen = 0
    for outcomes, schedule in islice(explore(actors, prepare), SOME):
        result = spelled(outcomes)
        assert result in allowed, told(schedule, result, allowed)
        seen += 1
    print(f"{seen} orders of {scene}, {inside=}")
    assert seen > 1


def serial(prepare):
    """What may come of it: each first, or the dispatch alone beside a rival that passes."""
    results = []
    for order in [(0, 1), (1, 0), (0,)]:
        calls = prepare()
        outcomes = [NOTHING, NOTHING]
        for number in order:
            outcomes[number] = calls[number]()
        results.append(spelled(outcomes))
    return results


def actions(scene, inside):
    """Make the world anew, and return what the two are to do."""
    with connection.cursor() as cursor:
        cursor.execute("DELETE FROM leasequeue_job")
    job = None
    if scene.state is not None:
        traits = {} if scene.state in ("pending", "running") else {"succeeded": True}
        JobFactory(queue="default", dedup_id="k", dedup_hold="finished", **traits)
        Job.objects.update(finished_at=DatabaseNow(-9) if traits else None)
    if scene.state == "running":
        (job,) = claim()
    if scene.state == "taken over":
        Job.objects.update(dedup_id=None, released_dedup_id="k")

    def dispatch(*args):
        done = Job.objects.dispatch(add, args, dedup=Dedup("k", **scene.asked))
        return done.outcome.value, done.job.pk

    def in_a_transaction(*args):
        with transaction.atomic():
            return dispatch(*args)

    mine = in_a_transaction if inside else dispatch
    rivals = {
        "dispatch": lambda: mine(5, 6),
        # With what is run: it must be what the row says.
        "claim": lambda: [(one.id, one.args) for one in claim()] or NOTHING,
        "settle": lambda: settle(job),
        "prune": lambda: dict(Job.objects.prune()) or NOTHING,
        "cancel": cancel,
        "retry": retry,
    }
    return [lambda: mine(3, 4), rivals[scene.rival]]


def settle(job):
    while True:
        (done,) = Job.objects.settle([(job, Succeeded("7"))])
        if done.verdict is not Verdict.BUSY:
            return done.verdict


def cancel():
    done = Job.objects.filter(dedup_id="k").cancel()
    if done.busy:
        return NOTHING
    return {name: ids for name, ids in done._asdict().items() if ids} or NOTHING


def retry():
    done = Job.objects.filter(status="succeeded").retry()
    if done.busy:
        return NOTHING
    told = {**done._asdict(), "conflicts": list(done.conflicts.items())}
    return {name: ids for name, ids in told.items() if ids} or NOTHING


COLUMNS = [
    "status",
    "args",
    "next_args",
    "rerun",
    "dedup_id",
    "released_dedup_id",
    "claims",
    "attempts",
    "recoveries",
    "round",
    "result",
    "suppressed",
]


def spelled(outcomes):
    """Outcomes and table, with jobs by their number in order instead of their ids."""
    jobs = Job.objects.order_by("pk")
    number = {pk: place for place, pk in enumerate(jobs.values_list("pk", flat=True))}

    def plain(value):
        if isinstance(value, tuple | list | set):
            return [plain(one) for one in value]
        if isinstance(value, dict):
            return {key: plain(one) for key, one in value.items()}
        return number.get(value, "gone") if type(value) is int else value

    rows = [
        [*row, finished is not None, cancelled is not None]
        for *row, finished, cancelled in jobs.values_list(
            *COLUMNS, "finished_at", "cancel_requested_at"
        )
    ]
    return [plain(outcome) for outcome in outcomes], rows


def told(schedule, result, allowed):
    steps = "\n".join(f"{name}: {what[:150]}" for name, what in schedule)
    either = "\n".join(map(repr, allowed))
    return f"{steps}\n{result!r}\nis none of\n{either}"
