"""Job.objects: its adjectives, and what its verbs refuse."""

import uuid

import pytest

from django_leasequeue.models import Job
from django_leasequeue.selection import Selection
from tests.factories import JobFactory
from tests.tasks import add


def test_adjectives():
    due = JobFactory()
    later = JobFactory(scheduled=True)
    running = JobFactory(leased=True)
    lost = JobFactory(expired=True)
    ended = [
        JobFactory(**{kind: True}) for kind in ("succeeded", "failed", "cancelled")
    ]
    jobs = Job.objects
    assert set(jobs.pending()) == {due, later}
    assert set(jobs.due()) == {due}
    assert set(jobs.running()) == {running, lost}
    assert set(jobs.expired()) == {lost}
    assert set(jobs.finished()) == set(ended)


@pytest.mark.parametrize(
    "verb",
    [
        lambda jobs: jobs.dispatch(add, [1, 2]),
        lambda jobs: jobs.dispatch_many([add.spec(1, 2)]),
        lambda jobs: jobs.claim(Selection(), 1, uuid.uuid4(), "host:1"),
        lambda jobs: jobs.renew(uuid.uuid4()),
        lambda jobs: jobs.settle([]),
        lambda jobs: jobs.release(uuid.uuid4()),
    ],
    ids=["dispatch", "dispatch_many", "claim", "renew", "settle", "release"],
)
def test_a_verb_of_the_whole_queue_refuses_a_filter(verb):
    """It would be ignored: release() of one queue's jobs gave back another's."""
    with pytest.raises(TypeError, match="would ignore the filter"):
        verb(Job.objects.filter(queue="mail"))
