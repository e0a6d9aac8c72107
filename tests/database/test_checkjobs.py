"""`manage.py checkjobs`: what it asks, says and exits with."""

import json
import socket
from functools import partial

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError, connection

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Schedule
from tests.admin.looking import make_worker
from tests.factories import JobFactory
from tests.helpers import failing

pytestmark = pytest.mark.django_db(databases=["default", "other"])


@pytest.fixture
def check(capsys):
    """Run the command; returns its exit code and what it prints."""

    def run(*arguments, **options):
        code = 0
        try:
            call_command("checkjobs", *arguments, **options)
        except CommandError as error:
            code = error.returncode
        return code, capsys.readouterr().out

    return run


def test_well(check):
    assert check() == (0, "All is well.\n")
    assert check(verbosity=0) == (0, "")


def test_not_well(check):
    JobFactory(queue="mail", run_at=DatabaseNow(-361))
    code, out = check()
    assert code == 1
    assert out == (
        "Queue 'mail': the oldest ready job has waited for 6 minutes, more than 5 "
        "minutes.\nQueue 'mail' has ready jobs, and no live worker takes it.\n"
    )
    assert check("--queue=video")[0] == 0
    assert check("--queue=video", "--queue=mail")[0] == 1
    assert check("--max-age=1h")[1].startswith("Queue 'mail' has ready jobs")
    assert check("--max-age=none", "--no-worker-needed")[0] == 0


def test_failures_and_vanished_workers(check):
    JobFactory(failed=True)
    make_worker(last_seen_at=DatabaseNow(-100))
    assert check()[0] == 0
    code, out = check("--max-failures=0", "--window=2h", "--max-silent=0")
    assert code == 1
    assert out.splitlines() == [
        "1 job failed within 2 hours, more than 0.",
        "1 worker vanished without a word, more than 0: host:7:abc.",
    ]


def test_overdue_schedules(check):
    """Also where no worker is alive to look at them."""
    schedules = Schedule.objects
    columns = {"task": "nobody.task", "expression": "* * * * *"}
    times = {"created_at": DatabaseNow(-900), "since": DatabaseNow(-900)}
    make = partial(schedules.create, **columns, **times)
    make(name="soon", next_tick=DatabaseNow(-100))
    make(name="paused", next_tick=None)
    assert check() == (0, "All is well.\n")
    make(name="late", next_tick=DatabaseNow(-610))
    assert check() == (
        1,
        "Schedule 'late': its tick is overdue for 10 minutes, more than 5 minutes.\n",
    )
    assert check("--max-late=none")[0] == check("--max-late=1h")[0] == 0
    assert check("--queue=mail")[0] == 0
    schedules.filter(name="late").update(problem="No worker knows its task.")
    assert "5 minutes: No worker knows its task.\n" in check()[1]


def test_a_misspelt_queue(capsys):
    JobFactory(queue="mail")
    call_command("checkjobs", "--queue=mail", "--queue=mial", "--no-worker-needed")
    out, err = capsys.readouterr()
    assert out == "All is well.\n"
    assert "names the queue 'mial'. Misspelt?" in err and "'mail'. Mis" not in err


def test_a_worker_of_this_host(check):
    """A probe in a worker's container."""
    assert check("--host")[0] == 1
    make_worker(host=socket.gethostname())
    assert check("--host")[0] == 0
    assert check("--host=another")[0] == 1


def test_json(check):
    code, out = check("--json")
    answer = json.loads(out)
    assert code == 0 and answer["status"] == "ok"
    JobFactory(queue="mail\x1b[2J")
    code, out = check("--json")
    answer = json.loads(out)
    assert code == 1 and answer["status"] == "failing"
    assert answer["problems"][0]["kind"] == "workers"
    assert answer["figures"]["queues"][0]["name"] == "mail\x1b[2J"
    assert "\x1b" not in check()[1]


def test_a_database_that_can_not_be_asked(check):
    with failing(OperationalError("gone"), times=9):
        assert check() == (2, "")
    unmigrated = failing(OperationalError("no such table: leasequeue_job"), times=9)
    if connection.vendor == "sqlite":
        with unmigrated, pytest.raises(CommandError, match=r"_job\. .* migrate"):
            call_command("checkjobs")
    JobFactory(queue="mail")
    assert check("--database=other")[0] == 0
    assert check("--database=default")[0] == 1
