"""Dedup ids: told apart exactly, also by the errors of a lost insert, and made by a callable."""

from unittest import mock

import pytest
from django.core import checks
from django.db import connection, models

from django_leasequeue import Dedup
from django_leasequeue.dedup import MAX_LENGTH
from django_leasequeue.models import Job
from django_leasequeue.transitions.dispatch import owner as owners
from tests.road import claim, row, toy
from tests.tasks import add


def dispatch(dedup, task=add, args=(1, 2), **options):
    return Job.objects.dispatch(task, args, dedup=dedup, **options)


def test_015_the_database_has_the_constraint():
    """A real unique index over queue and id, without a condition, and no check that says else."""
    with connection.cursor() as cursor:
        found = connection.introspection.get_constraints(cursor, Job._meta.db_table)
    unique = [one for one in found.values() if one["columns"] == ["queue", "dedup_id"]]
    assert [one["unique"] for one in unique] == [True]
    (declared,) = [
        one
        for one in Job._meta.constraints
        if isinstance(one, models.UniqueConstraint) and "dedup_id" in one.fields
    ]
    assert declared.condition is None
    said = checks.run_checks(databases=["default"])
    assert [
        one for one in said if one.id.startswith("models.") and one.obj is Job
    ] == []


# Texts that look like other parts of an error's message, and the longest there are.
NASTY = [
    "k' for key 'leasequeue_job.PRIMARY",
    "k' for key 'PRIMARY'",
    'k")',
    "%s %(id)s %",
    "leasequeue_job_pkey",
    "default-k",
    "a\nb\tc",
    "k" * MAX_LENGTH,
    "\U0001f4a9" * MAX_LENGTH,
    "'" * MAX_LENGTH,
]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("dedup", NASTY, ids=range(len(NASTY)))
def test_a_lost_insert_is_recognised_whatever_the_id(dedup):
    """Databases put the id into their message, and cut it."""
    real = owners.find
    looks = []

    def late(*args, **options):
        looks.append(args)
        return None if len(looks) == 1 else real(*args, **options)

    winner = dispatch(dedup).job
    with mock.patch.object(owners, "find", late):
        done = dispatch(dedup)
    assert len(looks) == 2
    assert (done.job.pk, done.outcome) == (winner.pk, "skipped")
    assert row(winner)["dedup_id"] == dedup


def test_the_same_id_written_in_two_ways_is_two_ids():
    """Composed and decomposed letters, full-width digits, joined emoji: nothing is normalised."""
    pairs = [
        ("\u00e9", "e\u0301"),
        ("1", "\uff11"),
        ("\ufb01", "fi"),
        ("\u0130", "i\u0307"),
        ("\U0001f468\u200d\U0001f469", "\U0001f468\U0001f469"),
        ("a", "a\u200b"),
        ("a", "a "),
        ("A", "a"),
    ]
    for number, pair in enumerate(pairs):
        made = [dispatch(f"{number}{word}").job.pk for word in pair]
        assert len(set(made)) == 2
        assert [dispatch(f"{number}{word}").job.pk for word in pair] == made


# --- By a callable on the task


def test_a_callable_makes_the_id_of_the_arguments():
    """Called with what the task would be, by whatever door."""
    with toy(
        lambda order_id, express=False: None,
        name="receipt",
        dedup=lambda order_id, express=False: f"receipt:{order_id}:{express}",
    ) as receipt:
        first = receipt.dispatch(7)
        assert first.job.dedup_id == "receipt:7:False"
        assert Job.objects.dispatch("receipt", [7]).job.pk == first.job.pk
        assert Job.objects.dispatch_many([receipt.spec(7)])[0].job.pk == first.job.pk
        assert receipt.dispatch(8).added
        assert receipt.dispatch(order_id=7, express=True).added
        # Asked for by the dispatch, an id takes the place of the task's own.
        assert receipt.using(dedup="mine").dispatch(7).job.dedup_id == "mine"


def test_a_callable_may_return_rules():
    """A Dedup with its flags, as in a dispatch."""
    with toy(
        lambda order_id: None,
        name="receipt",
        dedup=lambda order_id: Dedup(f"receipt:{order_id % 10}", ttl=60, replace=True),
    ) as receipt:
        first = receipt.dispatch(7).job
        done = receipt.dispatch(17)
    assert (done.job.pk, done.outcome) == (first.pk, "replaced")
    assert row(first)["args"] == [17]
    assert row(first)["dedup_until"] is not None


def test_a_callable_may_say_that_there_is_no_id():
    """None: as many jobs as dispatches."""
    with toy(
        lambda order_id: None,
        name="receipt",
        dedup=lambda order_id: None if order_id is None else f"receipt:{order_id}",
    ) as receipt:
        assert receipt.dispatch(None).added
        assert receipt.dispatch(None).added
        assert receipt.dispatch(1).added
        assert not receipt.dispatch(1).added


@pytest.mark.parametrize(
    ("made", "error"), [("", ValueError), (7, TypeError), ("k" * 511, ValueError)]
)
def test_an_id_that_can_not_be_is_refused_when_it_is_made(made, error):
    """Before anything is written."""
    with (
        toy(lambda: None, name="receipt", dedup=lambda: made) as receipt,
        pytest.raises(error, match="dedup id"),
    ):
        receipt.dispatch()
    assert not Job.objects.exists()


# --- What the holder tells of the dispatches that it answered


@pytest.mark.django_db(transaction=True)
def test_suppressed_dispatches_are_counted():
    """How many, whatever was done, and when the last of them came."""
    job = dispatch(Dedup("k", ttl=600, until="finished")).job
    assert (row(job)["suppressed"], row(job)["last_suppressed_at"]) == (0, None)
    times = []
    for flags in [{}, {"replace": True}, {"ttl": 600, "extend": True}, {}]:
        dispatch(Dedup("k", **flags))
        times.append(row(job)["last_suppressed_at"])
    Job.objects.dispatch_many([add.using(dedup="k").spec(1, 2) for _ in range(3)])
    (running,) = claim()
    dispatch("k")
    dispatch(Dedup("k", rerun=True))
    after = row(running)
    assert after["suppressed"] == 9
    assert times == sorted(times)
    assert after["last_suppressed_at"] > times[-1]


@pytest.mark.django_db(transaction=True)
def test_the_returned_holder_shows_what_was_written():
    """Its arguments, its time and its count are those of the row."""
    job = dispatch(Dedup("k", ttl=600)).job
    done = dispatch(
        Dedup("k", ttl=9, extend=True, replace=True, postpone=True),
        args=[3, 4],
        delay=3600,
    )
    stored = row(job)
    for name in ("args", "kwargs", "run_at", "dedup_until", "suppressed", "status"):
        assert getattr(done.job, name) == stored[name]
    assert done.job.args == [3, 4]
