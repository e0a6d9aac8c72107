"""Steps that are recorded while another worker takes the job."""

import threading
import uuid

import pytest
from django.db import connection, transaction
from django.db.models import F

from django_leasequeue.models import Job, Step
from tests.factories import JobFactory
from tests.helpers import Background, run_together
from tests.road import claim

# Seconds in which another's write comes through if nothing keeps it from that.
SOON = 0.5


def names(job):
    return set(Step.objects.filter(job_id=job.id).values_list("name", flat=True))


@pytest.mark.parametrize("first", [True, False])
def test_nothing_is_recorded_once_another_has_the_job(first):
    """What the next holder reads right after its claim is all there is of the one before."""
    if not connection.features.has_select_for_update:
        pytest.skip("whoever writes is alone")
    JobFactory(claims=1, recoveries=1, suspect=1)
    [job] = claim()
    taken, seen = threading.Event(), []

    def take():
        mine = Job.objects.filter(pk=job.id)
        mine.update(processing_token=uuid.uuid4(), claims=F("claims") + 1)
        seen.append(names(job))
        taken.set()

    taking = Background(take)
    with transaction.atomic():
        assert Job.objects.record_step(job, "a", "1", 0.1, first=first)
        taking.thread.start()
        # It waits for the row, so that it can't read before the step is there.
        is_taken = taken.wait(SOON)
    taking.result()
    assert not is_taken
    assert seen == [names(job)] == [{"a"}]


def test_workers_record_beside_each_other():
    """Each of its own job, with no row of anybody else locked."""
    JobFactory.create_batch(4)
    jobs = claim()

    def record(job):
        for number in range(25):
            assert Job.objects.record_step(job, f"s{number}", "1", 0.1, first=True)

    run_together([lambda job=job: record(job) for job in jobs])
    assert [len(names(job)) for job in jobs] == [25] * 4
