"""A router that sends reads to a replica: no decision of the package is taken there."""

import subprocess
import sys

import pytest

from django_leasequeue.models import Job
from tests.helpers import DEADLINE, worker_environment
from tests.processes import ROOT
from tests.tasks import add

pytestmark = pytest.mark.django_db(transaction=True, databases=["default", "other"])


@pytest.fixture
def environment():
    return {
        **worker_environment(),
        "DJANGO_SETTINGS_MODULE": "tests.settings_replica",
        "LEASEQUEUE_TEST_ROUTED": "1",
    }


def python(environment, *words):
    return subprocess.run(
        [sys.executable, "-W", "error", *words],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=environment,
        timeout=2 * DEADLINE,
    )


def test_verbs_ask_where_they_write(environment):
    done = python(environment, "-m", "tests.no_default")
    assert done.stdout == "done\n", done.stderr


def test_a_worker_asks_where_it_writes(environment, worker_process):
    Job.objects.using("other").dispatch_many([add.spec(1, 2), add.spec(3, 4)])
    worker = worker_process("--drain", env=environment)
    assert worker.wait() == 0
    results = Job.objects.using("other").order_by("id").values_list("result", flat=True)
    assert list(results) == [3, 7]
    assert "Traceback" not in worker.output


def test_the_admin_asks_where_jobs_are_written(environment):
    done = python(environment, "-m", "tests.replica_admin")
    assert done.stdout == "done\n", done.stderr


COMMANDS = """
import django
from django.core.management import CommandError, call_command
django.setup()
for words in (
    ["jobs", "list"],
    ["jobs", "stats"],
    ["jobs", "schedules"],
    ["jobs", "workers"],
    ["prunejobs"],
    ["syncschedules"],
    ["pausequeue", "mail"],
    ["resumequeue", "mail"],
    ["check", "--database", "other"],
):
    call_command(*words)
try:
    call_command("checkjobs")
except CommandError as ended:
    assert ended.returncode == 1  # there is no worker
print("done")
"""


def test_commands_ask_where_jobs_are_written(environment):
    add.using(database="other").dispatch(1, 2)
    done = python(environment, "-c", COMMANDS)
    assert done.stdout.endswith("done\n"), done.stderr
