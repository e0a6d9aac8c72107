"""Each state that the factory makes is a row that every database accepts."""

import pytest
from django.db import connections

from django_leasequeue.models import Job
from tests.factories import JobFactory
from tests.helpers import worker_environment

TRAITS = ["leased", "expired", "succeeded", "failed", "cancelled", "keyed", "scheduled"]


@pytest.mark.parametrize("trait", TRAITS)
def test_trait_is_stored(trait):
    job = JobFactory(**{trait: True})
    assert Job.objects.get(pk=job.pk).status == job.status
    assert job.is_final == (trait in {"succeeded", "failed", "cancelled"})


def test_lease_of_an_expired_job_is_before_that_of_a_leased_one():
    assert (
        JobFactory(expired=True).processing_until
        < JobFactory(leased=True).processing_until
    )


@pytest.mark.django_db(databases=["default", "other"])
def test_using_another_database():
    job = JobFactory(using="other", keyed=True)
    assert Job.objects.using("other").get().dedup_id == job.dedup_id
    assert not Job.objects.exists()


def test_second_connection_is_another_one(second_connection):
    assert second_connection is not connections["default"]
    with second_connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        assert cursor.fetchone() == (1,)


def test_worker_processes_are_told_this_runs_databases():
    names = worker_environment()["LEASEQUEUE_TEST_NAMES"]
    assert str(connections["default"].settings_dict["NAME"]) in names
