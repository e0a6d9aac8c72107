"""Limits under races: never one run too many, and nobody who waits is forgotten."""

import contextlib
import random
import threading
from collections import Counter

import pytest
from django.db import transaction

from django_leasequeue import Concurrency, slots
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Slots
from django_leasequeue.outcomes import RetryLater, Snoozed, Succeeded
from django_leasequeue.states import FINAL, Status
from django_leasequeue.transitions import settle as settling
from tests.callers import caller
from tests.factories import JobFactory
from tests.helpers import in_thread, paused, run_together, together
from tests.road import claim, ids, row, toy
from tests.workers import end_leases

with_row_locks = pytest.mark.skipif(
    "not __import__('django').db.connection.features.has_select_for_update",
    reason="whoever writes to SQLite is alone",
)


def keyed(count=1, key="k", limit=1, **given):
    return [
        JobFactory(concurrency_key=key, concurrency_limit=limit, **given)
        for _ in range(count)
    ]


def settle(*held):
    for result in Job.objects.settle([(job, Succeeded("1")) for job in held]):
        assert result.verdict.value == "written"


def over_the_limit():
    """Return the keys of which more jobs run than may, as one look sees them."""
    running = Job.objects.running().filter(processing_until__gt=DatabaseNow())
    found = running.values_list("concurrency_key", "concurrency_limit")
    counts, limits = Counter(), {}
    for key, limit in found:
        counts[key] += 1
        limits[key] = max(limit or 10**6, limits.get(key, 0))
    return {key: count for key, count in counts.items() if count > limits[key]}


@pytest.mark.parametrize("limit", [1, 3])
def test_many_claims_at_once_start_no_more_than_may(limit):
    """From one start, before there is a row of slots; and in the end all slots are used."""
    made = keyed(20, limit=limit)
    claimed = [job for jobs in together(6, lambda _: claim(5)) for job in jobs]
    assert len(claimed) <= limit
    claimed += claim(5)
    assert len(claimed) == limit
    assert not over_the_limit()
    assert {row(job)["status"] for job in made} == {"running", "pending"}


@with_row_locks
def test_a_claim_beside_another_leaves_its_key_alone():
    """It neither waits nor guesses: those jobs are for the next look, the others start."""
    first, second = keyed(2)
    with (
        paused(slots.Gate, "admit", after=True) as pause,
        in_thread(lambda: claim(1)) as other,
    ):
        pause.wait()
        plain = JobFactory()
        assert ids(claim()) == [plain.pk]
        assert row(second)["blocked"] == 0
        pause.resume()
        assert ids(other.result()) == [first.pk]
    assert claim() == []
    assert row(second)["blocked"] == 1


@contextlib.contextmanager
def slots_locked():
    """Hold the slots of "k" locked, as a claim does that is frozen in the middle."""
    with caller() as frozen:
        frozen.begin()
        mine = Slots.objects.filter(key="k").select_for_update()
        assert len(frozen.do(lambda: list(mine))) == 1
        yield


@with_row_locks
def test_what_comes_behind_jobs_of_a_frozen_claim_s_key_need_not_wait():
    """Their key is locked, so that they are not told to wait; a claim looks beyond them."""
    keyed(1)
    claim(1)
    keyed(60)
    free = JobFactory()
    with slots_locked():
        assert ids(claim(10)) == [free.pk]
        assert claim(10) == []


@with_row_locks
def test_a_look_for_what_was_forgotten_waits_for_no_frozen_claim():
    """Or all workers would: each looks before its claims."""
    first, second = keyed(2)
    claim(1)
    claim()
    end_leases(Job.objects.filter(pk=first.pk))
    with slots_locked(), in_thread(Job.objects.call_forgotten) as look:
        look.result()
        assert row(second)["blocked"] == 1
    Job.objects.call_forgotten()
    assert row(second)["blocked"] == 0


@with_row_locks
def test_a_run_that_ends_while_a_claim_tells_a_job_to_wait():
    """The settle does not see yet who waits; so the claim looks again after its commit."""
    first, second = keyed(2)
    [held] = claim(1)
    assert held.id == first.pk
    # On MariaDB a claim locks the index entry after those it reads, until it commits.
    JobFactory(queue="zzz", scheduled=True)
    with (
        paused(slots.Gate, "admit", after=True) as pause,
        in_thread(claim) as other,
    ):
        pause.wait()
        settle(held)
        pause.resume()
        assert other.result() == []
    assert row(second)["blocked"] == 0
    assert ids(claim()) == [second.pk]


@with_row_locks
def test_a_run_that_ends_after_a_claim_has_told_a_job_to_wait():
    """The claim's second look came too early; so the settle calls, after its commit."""
    first, second = keyed(2)
    [held] = claim(1)
    with (
        paused(settling.slots, "freed") as pause,
        in_thread(lambda: settle(held)) as other,
    ):
        pause.wait()  # it has committed
        assert row(first)["status"] == Status.SUCCEEDED
        # Of a claim that saw it run, and committed before it ended.
        Job.objects.filter(pk=second.pk).update(blocked=1)
        pause.resume()
        other.result()
    assert ids(claim()) == [second.pk]


@with_row_locks
def test_a_renewal_on_its_way_keeps_the_slot():
    """Its lease is past for whoever looks, but the row is locked by what renews it."""
    first, second = keyed(2)
    claim(1)
    Job.objects.filter(pk=first.pk).update(processing_until=DatabaseNow(-1))
    with caller() as keeper:
        keeper.begin()
        renewal = Job.objects.filter(pk=first.pk)
        keeper.do(lambda: renewal.update(processing_until=DatabaseNow(300)))
        assert claim(expired=False) == []
        keeper.commit()
    assert claim(expired=False) == []
    assert not over_the_limit()
    assert row(second)["status"] == Status.PENDING


@with_row_locks
def test_the_next_one_may_try_while_somebody_has_the_first_locked():
    """A caller that looks at a job in a long transaction does not hold up its key."""
    _, second, third = keyed(3)
    [held] = claim(1)
    claim()
    with caller() as slow:
        slow.begin()
        slow.do(lambda: list(Job.objects.filter(pk=second.pk).select_for_update()))
        settle(held)
        assert ids(claim()) == [third.pk]


@with_row_locks
def test_slots_are_not_removed_under_a_claim():
    """And a claim that finds them gone makes them anew."""
    keyed(2)
    [held] = claim(1)
    settle(held)
    Slots.objects.update(used_at=DatabaseNow(-7200))
    with (
        paused(slots.Gate, "admit", after=True) as pause,
        in_thread(claim) as other,
    ):
        pause.wait()
        assert Job.objects.prune_slots() == 0
        pause.resume()
        assert len(other.result()) == 1
    keyed()
    assert claim() == []


@with_row_locks
def test_a_job_that_is_about_to_start_is_not_superseded():
    concurrency = Concurrency("doc", supersedes=True)
    with toy(lambda: 1, name="newest", concurrency=concurrency) as task:
        old, _ = task.dispatch()
        with (
            paused(slots.Gate, "admit", after=True) as pause,
            in_thread(claim) as other,
        ):
            pause.wait()
            new, _ = task.dispatch()
            pause.resume()
            assert ids(other.result()) == [old.pk]
        assert row(old)["status"] == Status.RUNNING
        assert row(new)["status"] == Status.PENDING


@with_row_locks
def test_batches_that_supersede_one_another_do_not_deadlock():
    concurrency = Concurrency("doc:{number}", supersedes=True)
    with toy(lambda number: 1, name="newest", concurrency=concurrency) as task:

        def dispatch(seed):
            dice = random.Random(seed)
            for _ in range(5):
                numbers = dice.sample(range(6), 4)
                with transaction.atomic():
                    for number in numbers:
                        task.dispatch(number)
                Job.objects.dispatch_many([task.spec(number) for number in numbers])

        together(4, dispatch)
        for number in range(6):
            task.dispatch(number)
    waiting = Job.objects.pending().values_list("concurrency_key", flat=True)
    assert sorted(waiting) == [f"doc:{number}" for number in range(6)]


def test_workers_and_lost_leases_at_random():
    """Threads that claim, settle, retry, snooze, give back and lose; one that watches."""
    limits = {"a": 1, "b": 2, "c": 3}
    dice = random.Random(7)
    for _ in range(60):
        key = dice.choice([*limits, None])
        JobFactory(
            concurrency_key=key,
            concurrency_limit=limits.get(key),
            queue=dice.choice(["x", "y"]),
            priority=dice.choice([0, 0, 5]),
            max_attempts=99,
        )
    seen, stop = [], threading.Event()

    def work(seed):
        dice = random.Random(seed)
        idle = 0
        while idle < 200:
            held = claim(dice.choice([1, 4]), dice.choice(["x,y", "y,x", "*"]))
            idle = 0 if held else idle + 1
            for job in held:
                fate = dice.random()
                if fate < 0.1:
                    Job.objects.settle([(job, Snoozed(0))])
                elif fate < 0.2:
                    Job.objects.settle([(job, RetryLater(0, {"message": ""}))])
                elif fate < 0.3:
                    Job.objects.release(job.token, [job.id])
                elif fate < 0.4:
                    mine = Job.objects.running().filter(pk=job.id, claims=job.claims)
                    mine.update(processing_until=DatabaseNow(-1))
                else:
                    Job.objects.settle([(job, Succeeded("1"))])
            if idle % 50 == 49:
                Job.objects.call_forgotten()
            if not Job.objects.exclude(status__in=FINAL).exists():
                break

    def watch():
        while not stop.is_set():
            seen.append(over_the_limit())

    def works():
        try:
            together(4, work)
        finally:
            stop.set()

    run_together([works, watch])
    assert not any(seen), [one for one in seen if one]
    assert seen
    left = Job.objects.exclude(status=Status.SUCCEEDED)
    assert not left.exists(), list(left.values())
