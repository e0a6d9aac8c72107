"""The Python of docs/jobs.md does what the text beside it says."""

import pytest

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.transitions.cancel import Cancellation
from django_leasequeue.transitions.force_release import ForcedRelease
from django_leasequeue.transitions.remove import Removal
from django_leasequeue.transitions.retry import Retrial
from django_leasequeue.transitions.run_now import MadeDue
from tests import readme
from tests.factories import JobFactory
from tests.processes import ROOT
from tests.road import toy

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = (ROOT / "docs/jobs.md").read_text()
BLOCKS = readme.blocks("python", TEXT)
WAIT, GROUP, AFTER_GROUP, CANCEL, RUN_NOW, RETRY, RELEASE, REMOVE, ORIGIN = BLOCKS


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


def test_after_group():
    with toy(lambda number: 2 * number, name="tests.double") as double:
        result(AFTER_GROUP, "number", double=double)
        group, last = Job.objects.group("import:8"), Job.objects.latest("pk")
        assert last.after_group == "import:8"
        group.cancel()
        last.refresh_from_db()
        assert (last.after_group, last.args) == (None, [100])


def test_cancel():
    job = JobFactory(group="import")
    JobFactory(group="export")
    assert result(CANCEL).cancelled == {job.pk}


def test_run_now():
    job = JobFactory(queue="reports", scheduled=True)
    JobFactory(scheduled=True)
    assert result(RUN_NOW).made_due == {job.pk}


def test_retry():
    job = JobFactory(group="import", failed=True)
    JobFactory(group="import", succeeded=True)
    assert result(RETRY).retried == {job.pk}


def test_force_release():
    JobFactory(pk=41, leased=True)
    assert result(RELEASE).released == {41}


def test_remove():
    job = JobFactory(task="shop.tasks.send")
    JobFactory(task="shop.tasks.send", failed=True)
    assert result(REMOVE).removed == {job.pk}


@pytest.mark.parametrize(
    "section, answer",
    [
        ("## Cancel", Cancellation),
        ("## Run a delayed job now", MadeDue),
        ("## Run a job again", Retrial),
        ("## Take a job from its worker", ForcedRelease),
        ("## Remove jobs", Removal),
    ],
)
def test_the_tables_name_what_is_told(section, answer):
    rows = readme.table("`done.` | ids of jobs that", TEXT.partition(section)[2])
    assert [row[0].strip("`") for row in rows] == list(answer._fields)


def test_where_a_job_comes_from():
    with toy(lambda number: 2 * number, name="tests.double") as double:
        job = result(ORIGIN, "job", double=double, day="Monday")
    assert Job.objects.get(pk=job.pk).dispatched_by == "nightly import of Monday"
