"""The Python of docs/connections.md does what the text beside it says."""

import pytest
from django.contrib.auth.models import User
from django.db import router, transaction

from django_leasequeue.models import Job
from tests import readme, tasks
from tests.processes import ROOT

TEXT = (ROOT / "docs/connections.md").read_text()
POOL, ROUTER, REGISTER = readme.blocks("python", TEXT)

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@pytest.fixture
def routed(settings):
    """Jobs live in `other`, which the page calls `jobs`."""
    found = {}
    exec(ROUTER.replace('"jobs"', '"other"'), found)
    settings.DATABASE_ROUTERS = [found["JobsRouter"]()]


def test_the_pool_suits_the_threads():
    found = {"DATABASES": {"default": {}}}
    exec(POOL, found)
    pool = found["DATABASES"]["default"]["OPTIONS"]["pool"]
    assert pool["max_size"] >= found["LEASEQUEUE"]["THREADS"]


def test_tables_are_made_in_one_database(routed):
    assert router.allow_migrate_model("other", Job)
    assert not router.allow_migrate_model("default", Job)
    assert router.allow_migrate_model("default", User)


def test_a_dispatch_is_in_no_transaction_of_another_database(routed):
    """Which rolls back without it."""
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        User.objects.create_user("ann")
        tasks.add.dispatch(1, 2)
        assert Job.objects.using("other").count() == 1
        raise ZeroDivisionError
    assert not User.objects.exists()
    assert Job.objects.using("other").count() == 1
    assert not Job.objects.using("default").exists()


def test_dispatch_on_commit(routed):
    found = {"User": User, "send_welcome": tasks.record_effect}
    exec(REGISTER, found)
    with pytest.raises(ZeroDivisionError), transaction.atomic():
        found["register"]("ann")
        raise ZeroDivisionError
    assert not Job.objects.exists()
    found["register"]("ben")
    [job] = Job.objects.all()
    assert job.args == [User.objects.get().pk] and job._state.db == "other"
