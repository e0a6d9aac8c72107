"""The table of dedup: every owner x every way to hold the id x every flag, the whole row after.

What is expected stands here in full, by state and flag, and is not computed from the code.
"""

from datetime import datetime, timedelta
from uuid import uuid4

import pytest
from django.db import transaction

from django_leasequeue import Dedup
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from tests import readme
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True)

HOUR = timedelta(hours=1)
TTL = timedelta(minutes=10)
OTHER_TTL = timedelta(minutes=3)
ERROR = {"exception_class": "builtins.ValueError", "message": "as asked"}

# The columns of each state of an owner.
LEASE = {"status": "running", "worker": "w", "claims": 1, "started_at": DatabaseNow(-9)}
ENDED = {"claims": 1, "attempts": 1, "finished_at": DatabaseNow(-2)}
STATES = {
    "pending": {},
    "delayed": {"run_at": DatabaseNow(HOUR)},
    "waiting for retry": {
        "attempts": 1,
        "claims": 1,
        "errors": [ERROR],
        "run_at": DatabaseNow(60),
    },
    "running": LEASE | {"processing_until": DatabaseNow(300)},
    "lease expired": LEASE | {"processing_until": DatabaseNow(-1)},
    "succeeded": ENDED | {"status": "succeeded", "result": 3},
    "failed": ENDED | {"status": "failed", "errors": [ERROR]},
    "cancelled": ENDED | {"status": "cancelled"},
}
PENDING = ("pending", "delayed", "waiting for retry")
RUNNING = ("running", "lease expired")
FINISHED = ("succeeded", "failed", "cancelled")

# How the owner was dispatched: the rules, whether its window is over, and whether it holds
# the id while unfinished and when finished.
HOLDING = {
    "by default": ({}, False, True, False),
    "until finished": ({"until": "finished"}, False, True, False),
    "until removed": ({"until": "removed"}, False, True, True),
    "in its window": ({"ttl": TTL}, False, True, True),
    "past its window": ({"ttl": TTL}, True, False, False),
    "in its window, until finished": (
        {"ttl": TTL, "until": "finished"},
        False,
        True,
        True,
    ),
    "past its window, until finished": (
        {"ttl": TTL, "until": "finished"},
        True,
        True,
        False,
    ),
    "in its window, until removed": (
        {"ttl": TTL, "until": "removed"},
        False,
        True,
        True,
    ),
    "past its window, until removed": (
        {"ttl": TTL, "until": "removed"},
        True,
        True,
        True,
    ),
}

# What is asked -> of a pending, a running and a finished holder: the word, and what changes.
# A holder without a window can't be extended: then there is no "window" to change, and
# "extended" is "skipped".
NOTHING = ("skipped", "")
ANSWERS = {
    "": (NOTHING, NOTHING, NOTHING),
    "extend": (("extended", "window"), ("extended", "window"), ("extended", "window")),
    "replace": (("replaced", "args"), NOTHING, NOTHING),
    "replace postpone": (("replaced", "args run_at"), NOTHING, NOTHING),
    "rerun": (NOTHING, ("rerun", "rerun"), NOTHING),
    "extend replace": (
        ("replaced", "window args"),
        ("extended", "window"),
        ("extended", "window"),
    ),
    "extend replace postpone": (
        ("replaced", "window args run_at"),
        ("extended", "window"),
        ("extended", "window"),
    ),
    "extend rerun": (
        ("extended", "window"),
        ("rerun", "window rerun"),
        ("extended", "window"),
    ),
    "replace rerun": (("replaced", "args"), ("rerun", "rerun next_args"), NOTHING),
    "replace postpone rerun": (
        ("replaced", "args run_at"),
        ("rerun", "rerun next_args"),
        NOTHING,
    ),
    "extend replace rerun": (
        ("replaced", "window args"),
        ("rerun", "window rerun next_args"),
        ("extended", "window"),
    ),
    "extend replace postpone rerun": (
        ("replaced", "window args run_at"),
        ("rerun", "window rerun next_args"),
        ("extended", "window"),
    ),
}
CASES = [(how, asked) for how in HOLDING for asked in ANSWERS]


def one_by_one(specs):
    return [
        Job.objects.dispatch(s.task, s.args, s.kwargs, dedup=s.dedup, delay=s.delay)
        for s in specs
    ]


def in_a_transaction(specs):
    with transaction.atomic():
        return one_by_one(specs)


def in_a_batch(specs):
    return Job.objects.dispatch_many(specs)


def in_a_batch_in_a_transaction(specs):
    with transaction.atomic():
        return Job.objects.dispatch_many(specs)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    "dispatch",
    [one_by_one, in_a_transaction, in_a_batch, in_a_batch_in_a_transaction],
)
def test_the_table(state, dispatch):
    """The word, the job and every column of every row are as the table has them."""
    owners = make_owners(state)
    before = rows()
    done = dispatch(
        [
            add.using(dedup=asking(asked, dedup_id(how, asked)), delay=HOUR).spec(
                9, b=8
            )
            for how, asked in CASES
        ]
    )
    after = rows()
    wrong = {
        (how, asked): [expected, seen]
        for (how, asked), owner, one in zip(CASES, owners, done, strict=True)
        for expected, seen in [
            (
                expectation(state, how, asked, before[owner]),
                observation(before[owner], one, after),
            )
        ]
        if expected != seen
    }
    assert wrong == {}
    # Nothing else was made.
    assert len(after) - len(before) == sum(one.added for one in done)


def test_the_docs_have_the_table():
    """docs/dedup.md, cell by cell."""
    shown = {
        row[0].strip("`").replace("nothing", ""): tuple(row[1:])
        for row in readme.table("asked", readme.DEDUP)
    }
    assert shown == {
        asked: tuple(": ".join(filter(None, cell)) for cell in cells)
        for asked, cells in ANSWERS.items()
    }


def dedup_id(how, asked):
    return f"{how}/{asked}"


def asking(asked, name):
    flags = dict.fromkeys(asked.split(), True)
    return Dedup(name, ttl=OTHER_TTL if "extend" in flags else None, **flags)


def make_owners(state):
    """One owner for each case, dispatched by its rules and then moved to its state."""
    specs = [
        add.using(dedup=Dedup(dedup_id(how, asked), **HOLDING[how][0])).spec(1, 2)
        for how, asked in CASES
    ]
    owners = [one.job.pk for one in Job.objects.dispatch_many(specs)]
    columns = dict(STATES[state])
    if columns.get("status") == "running":
        columns["processing_token"] = uuid4()
    if columns:
        Job.objects.filter(pk__in=owners).update(**columns)
    over = [pk for pk, (how, _) in zip(owners, CASES, strict=True) if HOLDING[how][1]]
    Job.objects.filter(pk__in=over).update(dedup_until=DatabaseNow(-1))
    return owners


def rows():
    return {row["id"]: row for row in Job.objects.values()}


def expectation(state, how, asked, owner):
    """(word, which job is returned, changed columns of the owner, the new row or None)."""
    rules, _, unfinished_holds, finished_holds = HOLDING[how]
    if not (finished_holds if state in FINISHED else unfinished_holds):
        released = {"dedup_id": None, "released_dedup_id": dedup_id(how, asked)}
        return "added", "new", released, NEW | window_of_the_new(asked)
    group = [state in PENDING, state in RUNNING, state in FINISHED].index(True)
    word, changes = ANSWERS[asked][group]
    changed = {"suppressed": 1, "last_suppressed_at": "now"}
    for change in changes.split():
        if change == "window" and "ttl" in rules:
            changed["dedup_until"] = f"now + {TTL}"
        if change == "args":
            changed |= {"args": [9], "kwargs": {"b": 8}}
        if change == "run_at":
            changed["run_at"] = f"now + {HOUR}"
        if change == "rerun":
            changed["rerun"] = True
        if change == "next_args":
            changed |= {"next_args": [9], "next_kwargs": {"b": 8}}
    if word == "extended" and "ttl" not in rules:
        word = "skipped"
    return word, "owner", changed, None


# The columns of a new job, beside those that are as every new job has them.
NEW = {
    "queue": "default",
    "task": "tests.tasks.add",
    "args": [9],
    "kwargs": {"b": 8},
    "status": "pending",
    "run_at": f"now + {HOUR}",
    "created_at": "now",
    "dedup_hold": "finished",
    "dedup_ttl": None,
    "dedup_until": None,
}
DEFAULTS = {
    "next_args": None,
    "next_kwargs": None,
    "group": None,
    "priority": 0,
    "round": 1,
    "attempts": 0,
    "max_attempts": 1,
    "recoveries": 0,
    "lost_alone": 0,
    "suspect": 0,
    "claims": 0,
    "processing_until": None,
    "processing_token": None,
    "worker": "",
    "worker_ids": "",
    "released_dedup_id": None,
    "rerun": False,
    "suppressed": 0,
    "last_suppressed_at": None,
    "concurrency_key": None,
    "concurrency_limit": None,
    "blocked": False,
    "schedule": None,
    "tick": None,
    "result": None,
    "errors": [],
    "progress": None,
    "meta": {},
    "cancel_requested_at": None,
    "started_at": None,
    "last_attempted_at": None,
    "finished_at": None,
    "dispatched_by": None,
    "events": None,
}


def window_of_the_new(asked):
    if "extend" not in asked:
        return {}
    return {
        "dedup_hold": "",
        "dedup_ttl": OTHER_TTL,
        "dedup_until": f"now + {OTHER_TTL}",
    }


def observation(owner, one, after):
    """The same of what has happened."""
    row = after[owner["id"]]
    changed = {name: row[name] for name in row if row[name] != owner[name]}
    moment = changed.get("last_suppressed_at")
    changed = {name: spelled(value, moment) for name, value in changed.items()}
    returned = after[one.job.pk]
    for name in ("status", "dedup_id", "args", "kwargs", "next_args", "rerun"):
        assert getattr(one.job, name) == returned[name]
    if one.job.pk == owner["id"]:
        return one.outcome.value, "owner", changed, None
    new = {
        name: spelled(value, returned["created_at"])
        for name, value in returned.items()
        if DEFAULTS.get(name, "none") != value
    }
    # The id is looked at by the way, and the token marks a bulk insert.
    assert new.pop("dedup_id") == owner["dedup_id"]
    del new["id"]
    new.pop("last_token", None)
    return one.outcome.value, "new", changed, new


def spelled(value, moment):
    """A time by its distance from the one at which the same statement was run."""
    if not isinstance(value, datetime):
        return value
    return "now" if value == moment else f"now + {value - moment}"
