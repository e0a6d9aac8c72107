"""Batches of dispatches with dedup ids: the answers of single ones, by few statements."""

import random
from collections import Counter

import pytest
from django.conf import settings
from django.db import transaction

from django_leasequeue import Dedup
from django_leasequeue.models import Job
from django_leasequeue.transitions.dispatch import batch, insert
from tests.factories import JobFactory
from tests.road import statements, table
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True)

TRAITS = {
    "pending": {},
    "running": {"leased": True},
    "expired": {"expired": True},
    "succeeded": {"succeeded": True},
}
FLAGS = [
    {},
    {"replace": True},
    {"replace": True, "postpone": True},
    {"rerun": True, "replace": True},
    {"ttl": 60, "extend": True},
]
inside_or_not = pytest.mark.parametrize(
    "inside", [False, True], ids=["alone", "inside"]
)


def spec(key, *args, **flags):
    return add.using(dedup=Dedup(key, **flags)).spec(*(args or (1, 2)))


def dispatch_many(specs, inside=False):
    if not inside:
        return Job.objects.dispatch_many(specs)
    with transaction.atomic():
        return Job.objects.dispatch_many(specs)


def owners(count, **traits):
    """Jobs that have the ids 0 to count - 1, in one insert."""
    return Job.objects.bulk_create(
        JobFactory.build(
            queue="default", dedup_id=str(n), dedup_hold="finished", **traits
        )
        for n in range(count)
    )


@inside_or_not
def test_the_answers_of_single_dispatches(inside, monkeypatch):
    """The same words and the same rows, for any mixture, over several statements' worth."""
    monkeypatch.setattr(batch, "IDS", 7)
    monkeypatch.setattr(insert, "ROWS", 5)
    dice = random.Random(7)
    cases = [
        (state, number % len(FLAGS))
        for state in [*TRAITS, "new"]
        for number in range(2 * len(FLAGS))
    ]
    dice.shuffle(cases)
    specs = []
    for number, (state, flags) in enumerate(cases):
        for prefix in ("single", "batch"):
            key = f"{prefix} {number}"
            if state != "new":
                JobFactory(
                    queue="default",
                    dedup_id=key,
                    dedup_hold="finished",
                    dedup_ttl=None,
                    **TRAITS[state],
                )
        specs.append((number, flags))
    single = [
        Job.objects.dispatch(add, [3, n], dedup=Dedup(f"single {n}", **FLAGS[flags]))
        for n, flags in specs
    ]
    many = dispatch_many(
        [spec(f"batch {n}", 3, n, **FLAGS[f]) for n, f in specs], inside
    )
    assert [one.outcome for one in single] == [one.outcome for one in many]
    assert {"added", "skipped", "replaced", "rerun"} <= {one.outcome for one in many}
    rows = table()
    for one, other in zip(single, many, strict=True):
        first, second = told(rows[one.job.pk]), told(rows[other.job.pk])
        assert first == {**second, "dedup_id": first["dedup_id"]}
    released = Counter(
        row["released_dedup_id"].split()[0]
        for row in rows.values()
        if row["released_dedup_id"]
    )
    assert released["single"] == released["batch"] > 0
    new = [one.job.pk for one in many if one.added]
    assert new == sorted(new)


def told(row):
    names = ("dedup_id", "status", "args", "next_args", "rerun", "suppressed", "claims")
    return {name: row[name] for name in names}


@inside_or_not
def test_the_first_of_an_id_wins_and_answers_the_others(inside):
    """Whatever they ask: what is new can't be replaced by its own batch. Counts add up."""
    done = dispatch_many(
        [
            spec("a", 1, 1),
            spec("b", 2, 2),
            spec("a", 3, 3, replace=True),
            spec("a", 4, 4),
        ],
        inside,
    )
    assert [one.outcome for one in done] == ["added", "added", "skipped", "skipped"]
    assert [one.job.pk for one in done[2:]] == [done[0].job.pk] * 2
    rows = {row["dedup_id"]: row for row in table().values()}
    assert (rows["a"]["args"], rows["a"]["suppressed"]) == ([1, 1], 2)
    assert rows["a"]["last_suppressed_at"] == rows["a"]["created_at"]
    assert (rows["b"]["suppressed"], rows["b"]["last_suppressed_at"]) == (0, None)


@inside_or_not
def test_several_dispatches_to_one_holder(inside):
    """All of them count, and the last replacement is the one that stays."""
    owners(1)
    done = dispatch_many(
        [
            spec("0"),
            spec("0", 3, 3, replace=True),
            spec("0", 4, 4, replace=True),
            spec("0"),
        ],
        inside,
    )
    assert [one.outcome for one in done] == [
        "skipped",
        "replaced",
        "replaced",
        "skipped",
    ]
    (row,) = table().values()
    assert (row["args"], row["suppressed"]) == ([4, 4], 4)


@inside_or_not
@pytest.mark.parametrize("state", ["new", *TRAITS])
def test_statements_are_few_however_many_ids(inside, state):
    """A batch of 60 ids is no more of them than one of 20."""
    counts = []
    for size in (20, 60):
        Job.objects.all().delete()
        if state != "new":
            owners(size, **TRAITS[state])
        specs = [spec(str(n)) for n in range(size)]
        random.Random(1).shuffle(specs)
        with statements() as sent:
            words = {one.outcome for one in dispatch_many(specs, inside)}
        assert words == {"added" if state in ("new", "succeeded") else "skipped"}
        inserts = [one for one in sent if one.startswith("INSERT")]
        # Django 5.2 takes SQLite for one with 999 parameters, and cuts an INSERT of 60 rows.
        assert len(inserts) <= 3
        counts.append(len(sent) - len(inserts))
    assert counts[0] == counts[1] <= 16


@pytest.mark.parametrize("known", [0, 1000])
def test_thousands_of_ids_in_no_order(known):
    """Each of them once, ids of jobs in the order of the specs."""
    owners(known)
    names = [str(n) for n in range(2500)]
    random.Random(3).shuffle(names)
    done = Job.objects.dispatch_many(spec(name) for name in names)
    assert [one.job.dedup_id for one in done] == names
    assert Counter(one.outcome.value for one in done) == Counter(
        {"added": 2500 - known, **({"skipped": known} if known else {})}
    )
    new = [one.job.pk for one in done if one.added]
    assert new == sorted(new)
    assert Job.objects.filter(dedup_id__isnull=False).count() == 2500
    stored = dict(Job.objects.values_list("pk", "dedup_id"))
    assert all(stored[one.job.pk] == one.job.dedup_id for one in done)
    assert not Job.objects.filter(released_dedup_id__isnull=False).exists()


@pytest.mark.skipif(settings.DATABASE == "sqlite", reason="whoever writes is alone")
def test_owners_are_locked_by_ascending_primary_key():
    """In one statement for each slice, whatever the order of the specs."""
    owners(5, succeeded=True)
    with statements() as sent:
        Job.objects.dispatch_many([spec(str(n)) for n in (3, 1, 4, 0, 2)])
    (lock,) = [sql for sql in sent if "FOR UPDATE" in sql]
    assert "ORDER BY" in lock
    assert Job.objects.filter(released_dedup_id__isnull=False).count() == 5
