"""Dispatch with a dedup id: who holds it, until when, and what the others are told."""

import datetime as dt

import pytest

from django_leasequeue import Dedup
from django_leasequeue.db import DatabaseNow
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.exceptions import DedupConflict
from django_leasequeue.models import Job
from django_leasequeue.outcomes import Cancelled, Failed, RetryLater, Succeeded
from tests.factories import JobFactory
from tests.road import claim, row, table, toy
from tests.tasks import add, record_effect


def dispatch(*args, task=add, **options):
    return Job.objects.dispatch(task, args or (1, 2), **options)


def test_033_names_and_ids_are_exact():
    """Case, accents, composition and blanks at the end make different ids, on every database."""
    words = ["ab", "Ab", "aB", "cafe", "café", "cafe\u0301", "ab ", " ab", "ß", "ss"]
    jobs = {word: dispatch(dedup=word).job.id for word in words}
    assert len(set(jobs.values())) == len(words)
    for word in words:
        assert Job.objects.get(dedup_id=word).id == jobs[word]
        assert dispatch(dedup=word).job.id == jobs[word]
    # No queue has blanks at an end.
    for word in [word for word in words if word == word.strip()]:
        dispatch(queue=word)
        assert Job.objects.filter(queue=word).count() == 1


def test_longest_names():
    """As long as is allowed, in characters of four bytes each, and still told apart."""
    longest = "\U0001f4a9" * 509
    first = dispatch(dedup=f"{longest}a", queue="\U0001f4a9" * 100).job
    second = dispatch(dedup=f"{longest}b", queue="\U0001f4a9" * 100).job
    assert first.id != second.id
    assert row(first)["dedup_id"] == f"{longest}a"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("state", ["pending", "scheduled", "leased", "expired"])
def test_016_the_loser_gets_the_winner(state):
    """No error: the answer is the job that holds the id, unchanged but for its count."""
    traits = {} if state == "pending" else {state: True}
    holder = JobFactory(queue="default", dedup_id="k", dedup_hold="finished", **traits)
    before = row(holder)
    job, outcome = dispatch(8, 9, dedup="k")
    assert outcome is DispatchOutcome.SKIPPED
    assert job.id == holder.pk
    after = row(holder)
    assert after.pop("suppressed") == before.pop("suppressed") + 1
    assert after.pop("last_suppressed_at") is not before.pop("last_suppressed_at")
    assert after == before


ERROR = {"message": "as asked"}


@pytest.mark.parametrize(
    "outcome", [Succeeded(), Failed(ERROR), Failed(ERROR, counted=False), Cancelled()]
)
def test_032_an_ended_job_blocks_no_new_one(outcome):
    """The row is kept, and the next dispatch takes the id over from it."""
    former = dispatch(dedup="k").job
    [held] = claim()
    assert not dispatch(dedup="k").added
    Job.objects.settle([(held, outcome)])
    job, added = dispatch(dedup="k")
    assert added is DispatchOutcome.ADDED
    assert job.id != former.id
    kept = row(former)
    assert (kept["dedup_id"], kept["released_dedup_id"]) == (None, "k")
    assert not dispatch(dedup="k").added


def test_032_a_job_that_goes_back_to_pending_keeps_its_id():
    """A retry is no end."""
    holder = dispatch(dedup="k").job
    [held] = claim()
    Job.objects.settle([(held, RetryLater(dt.timedelta(minutes=1), ERROR))])
    assert dispatch(dedup="k").job.id == holder.id


def test_032_unless_a_window_was_asked_for():
    """With a ttl beside `until`, the id is held until both are over."""
    holder = dispatch(dedup=Dedup("k", ttl=3600, until="finished")).job
    [held] = claim()
    Job.objects.settle([(held, Succeeded())])
    assert dispatch(dedup="k").job.id == holder.id
    Job.objects.filter(pk=holder.id).update(dedup_until=DatabaseNow(-1))
    assert dispatch(dedup="k").added


def test_036_scope_is_the_queue():
    """One id in two queues: two jobs."""
    assert dispatch(dedup="k", queue="a").added
    assert dispatch(dedup="k", queue="b").added


@pytest.mark.parametrize("replace", [False, True])
def test_036_another_task_with_the_same_id(replace):
    """It is refused, naming both, and never changes what will be run."""
    holder = dispatch(dedup="k").job
    before = table()
    with pytest.raises(DedupConflict) as caught:
        Job.objects.dispatch(record_effect, ["x"], dedup=Dedup("k", replace=replace))
    error = caught.value
    assert (error.owner_id, error.owner_task) == (holder.id, "tests.tasks.add")
    assert error.wanted == "tests.tasks.record_effect"
    assert table() == before


def test_036_the_same_task_under_its_former_name():
    """A renamed task still finds the jobs it had before."""
    with toy(lambda: None, name="taker", aliases=("former",)) as taker:
        holder = JobFactory(
            queue="default", task="former", dedup_id="k", dedup_hold="finished"
        )
        assert Job.objects.dispatch(taker, dedup="k").job.id == holder.pk
