"""The lanes: the same that a plain look at every pending job finds."""

import random

import pytest
from django.db.models import ExpressionWrapper, Min

from django_leasequeue import db
from django_leasequeue.fields import UTCDateTimeField
from django_leasequeue.models import Job
from tests.factories import JobFactory

QUEUES = [
    *[
        "a",
        "A",
        "a ",
        " a",
        "aa",
        "á",
        "a\u0301",
        "ａ",
        "%s",
        "%",
        "_",
        "'",
        '"',
        "\\",
        "`",
        "{",
    ],
    *[
        "{table}",
        "\N{GRINNING FACE}",
        "\N{GRINNING CAT FACE WITH SMILING EYES}",
        "\n",
        "-- x",
    ],
    *[
        "z" * 100,
        "\N{GRINNING FACE}" * 100,
        "'; DROP TABLE leasequeue_job; --",
        "\x01",
        "~",
    ],
]


def lanes(queues=None):
    return db.lanes(Job._meta.db_table, "default", queues)


def found(queues=None):
    return {(lane.queue, lane.priority) for lane in lanes(queues)}


def test_no_lanes():
    assert lanes() == []
    JobFactory(succeeded=True)
    JobFactory(leased=True)
    JobFactory(expired=True)
    JobFactory(blocked=1)
    assert lanes() == []


def test_one_lane():
    JobFactory.create_batch(3, queue="a", priority=-100)
    [lane] = lanes()
    assert (lane.queue, lane.priority) == ("a", -100)
    assert lane.due_in <= 0


@pytest.mark.parametrize("queue", QUEUES, ids=ascii)
def test_queue_of_any_name(queue):
    JobFactory(queue=queue, priority=1)
    JobFactory(queue=queue, priority=0)
    JobFactory(queue="m")
    assert found() == {(queue, 1), (queue, 0), ("m", 0)}


def test_every_queue_at_once():
    """Names that some collation takes for one are lanes of their own, none left out."""
    for queue in QUEUES:
        for priority in (-100, 0, 100):
            JobFactory(queue=queue, priority=priority)
    assert found() == {(queue, p) for queue in QUEUES for p in (-100, 0, 100)}
    for queue in QUEUES:
        assert found([queue]) == {(queue, p) for p in (-100, 0, 100)}


def test_lanes_of_jobs_that_run_alone():
    for suspect in (0, 1):
        for queue in ("a", "b"):
            JobFactory(queue=queue, suspect=suspect, recoveries=suspect)
    for wanted, queues in [
        (["b"], ["b"]),
        (["b", "a"], ["a", "b"]),
        (None, ["a", "b"]),
    ]:
        seen = sorted((lane.suspect, lane.queue) for lane in lanes(wanted))
        assert seen == [(suspect, q) for suspect in (False, True) for q in queues]


@pytest.mark.parametrize("seed", range(3))
def test_lanes_and_their_heads(seed):
    """Of jobs in any state, at any time: each lane with the time of its first."""
    chance = random.Random(seed)
    kinds = [
        {},
        {},
        {},
        {"blocked": 1},
        {"leased": True},
        {"failed": True},
        {"keyed": True},
    ]
    for _ in range(80):
        kind = chance.choice(kinds)
        JobFactory(
            queue=chance.choice(QUEUES[:8]),
            priority=chance.choice([-100, -1, 0, 1, 100]),
            run_at=db.DatabaseNow(
                chance.choice([-86400, -60, -1, 60, 3600, 86400 * 365])
            ),
            **kind,
        )
    now = ExpressionWrapper(db.DatabaseNow(), UTCDateTimeField())
    pending = Job.objects.pending().filter(blocked=0).order_by()
    expected = {
        (row["queue"], row["priority"]): (row["head"] - row["now"]).total_seconds()
        for row in pending.values("queue", "priority").annotate(
            head=Min("run_at"), now=now
        )
    }
    seen = {(lane.queue, lane.priority): lane.due_in for lane in lanes()}
    assert seen.keys() == expected.keys()
    some = QUEUES[2:6]
    assert found([*some, "none"]) == {lane for lane in seen if lane[0] in some}
    for key, due_in in seen.items():
        assert type(due_in) is float
        assert (due_in <= 0) == (expected[key] <= 0)
        # Some time passes between the two looks, much less than lies between two heads.
        assert abs(due_in - expected[key]) < 50
