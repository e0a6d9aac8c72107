"""The Python of docs/jobs.md does what the text beside it says."""

import pytest

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.transitions.cancel import Cancellation
from django_leasequeue.transitions.retry import Retrial
from tests import readme
from tests.factories import JobFactory
from tests.processes import ROOT
from tests.road import toy

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = (ROOT / "docs/jobs.md").read_text()
WAIT, GROUP, CANCEL, RETRY = readme.blocks("python", TEXT)


def result(code, name="done", **names):
    found = {"Job": Job, **names}
    exec(code, found)
    return found[name]


@pytest.mark.parametrize(
    "traits, report",
    [
        ({"succeeded": True}, 3),
        ({"leased": True, "progress": {"done": 1}}, {"done": 1}),
        ({"failed": True}, "builtins.ValueError: as asked"),
        ({"cancelled": True}, None),
    ],
    ids=["succeeded", "running", "failed", "cancelled"],
)
def test_wait(traits, report):
    job = JobFactory(**traits)
    code = WAIT.replace("timeout=20", "timeout=0", 1)
    assert result(code, "report", job=job) == report


def test_group():
    with toy(lambda number: 2 * number, name="tests.double") as double:
        jobs = result(GROUP, "jobs", double=double)
    jobs.update(status="failed", finished_at=DatabaseNow())
    assert jobs.wait(0)["failed"] == 3


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
