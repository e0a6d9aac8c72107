"""Whatever is written beside a job's outcome may fail; the outcome is stored all the same."""

import logging

import pytest
from django.core.management import CommandError, call_command

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests import tasks

pytestmark = pytest.mark.django_db(transaction=True)


class FullDisk(logging.Handler):
    """A handler that can't write, and says so as a handler should not."""

    def emit(self, record):
        raise OSError("no space left on device")


@pytest.fixture
def broken_log():
    logger, handler = logging.getLogger("django_leasequeue.worker"), FullDisk()
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)


def test_case_078_a_log_that_can_not_be_written_spoils_no_outcome(broken_log):
    good, bad = tasks.add.dispatch(1, 2).job, tasks.fail.dispatch().job
    after = tasks.add.using(priority=-1).dispatch(3, 4).job
    with pytest.raises(CommandError, match="1 job failed"):
        call_command("runjobs", "--drain", "--in-process", "--threads=1")
    found = dict(Job.objects.values_list("pk", "status"))
    assert found == {
        good.pk: Status.SUCCEEDED,
        bad.pk: Status.FAILED,
        after.pk: Status.SUCCEEDED,
    }
    assert not Job.objects.running().exists()
