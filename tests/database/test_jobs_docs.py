"""The Python of docs/jobs.md does what the text beside it says."""

import pytest

from django_leasequeue.models import Job
from django_leasequeue.transitions.cancel import Cancellation
from django_leasequeue.transitions.retry import Retrial
from tests import readme
from tests.factories import JobFactory
from tests.processes import ROOT

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = (ROOT / "docs/jobs.md").read_text()
CANCEL, RETRY = readme.blocks("python", TEXT)


def result(code):
    found = {"Job": Job}
    exec(code, found)
    return found["done"]


def test_cancel():
    job = JobFactory(group="import")
    JobFactory(group="export")
    assert result(CANCEL).cancelled == {job.pk}


def test_retry():
    job = JobFactory(group="import", failed=True)
    JobFactory(group="import", succeeded=True)
    assert result(RETRY).retried == {job.pk}


@pytest.mark.parametrize(
    "section, answer", [("## Cancel", Cancellation), ("## Run a job again", Retrial)]
)
def test_the_tables_name_what_is_told(section, answer):
    rows = readme.table("`done.` | ids of jobs that", TEXT.partition(section)[2])
    assert [row[0].strip("`") for row in rows] == list(answer._fields)
