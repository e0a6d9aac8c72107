"""What dead versions of rows cost the claims while an old snapshot keeps them (PostgreSQL)."""

import contextlib

import pytest
from django.db import connection

from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from tests.backlog import multiply
from tests.factories import JobFactory
from tests.helpers import eventually, new_connection
from tests.road import claim

BATCH, BATCHES, RENEWALS = 250, 8, 2


@pytest.fixture(autouse=True)
def keeps_versions():
    if connection.vendor != "postgresql":
        pytest.skip("elsewhere old versions are kept apart from the new ones")


@contextlib.contextmanager
def old_snapshot():
    """Somebody's long transaction: no version of a row that it could see may go."""
    with new_connection() as other, other.cursor() as cursor:
        cursor.execute("BEGIN ISOLATION LEVEL REPEATABLE READ")
        cursor.execute("SELECT COUNT(*) FROM leasequeue_job")
        yield
        cursor.execute("ROLLBACK")


def run_batch():
    """Put a batch of jobs with some arguments through claim, renewals and settle."""
    multiply(JobFactory(args=["x" * 500]), BATCH - 1, using="default")
    jobs = claim(BATCH)
    assert len(jobs) == BATCH
    for _ in range(RENEWALS):
        assert len(Job.objects.renew(jobs[0].token).renewed) == BATCH
    Job.objects.settle([(job, Succeeded("null")) for job in jobs])


def pages_read():
    """Return how many pages of the job table and its indexes this session has looked at."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_stat_force_next_flush()")
        cursor.execute(
            "SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read "
            "FROM pg_statio_user_tables WHERE relname = 'leasequeue_job'"
        )
        [(pages,)] = cursor.fetchall()
    return pages


def pages_of_a_claim():
    """Return how many pages a claim of one job looks at."""
    job = JobFactory()
    before = pages_read()
    claimed = claim(1, expired=False)
    pages = pages_read() - before
    assert [one.id for one in claimed] == [job.id]
    Job.objects.settle([(one, Succeeded("null")) for one in claimed])
    return pages


def test_160_dead_versions_slow_a_claim_in_proportion_and_no_longer_than_they_are_kept():
    """A claim looks past what was claimed before, a page for several; then that is over."""
    run_batch()
    usual = pages_of_a_claim()
    with old_snapshot():
        for _ in range(BATCHES):
            run_batch()
        kept = pages_of_a_claim()
        dead = BATCH * BATCHES
        # As many as there are, once for each look at the lane, not for each job or renewal.
        assert kept - usual < dead, (usual, kept)
    # Whoever passes by marks them as dead for all who come after, once nobody else's
    # snapshot (as of an ANALYZE that the server began itself) keeps them.
    eventually(lambda: pages_of_a_claim() <= 2 * usual + 20)
