"""The commands in docs/deployment.md are run: the worker, and the probe beside it."""

import re
import signal

import pytest
from django.conf import settings

from django_leasequeue.models import Job
from tests import readme
from tests.helpers import eventually
from tests.processes import ROOT
from tests.tasks import add

pytestmark = [
    pytest.mark.skipif(
        settings.DATABASE != "sqlite", reason="The same on each database"
    ),
    pytest.mark.django_db(transaction=True),
]
PAGE = (ROOT / "docs/deployment.md").read_text()


def words(text):
    """A command of manage.py, its name first."""
    python, manage, *rest = text
    assert (python, manage) == ("python", "manage.py")
    return rest


def test_the_worker_of_the_procfile_and_the_probe(worker_process):
    [procfile] = readme.blocks("text", PAGE)
    line = re.search(r"^worker: (.+)$", procfile, re.M)[1]
    # As in the JSON of YAML's lists.
    texts = {tuple(re.findall(r'"([^"]+)"', found)) for found in probes()}
    [probe] = texts
    _, *probe = words(probe)

    name, *options = words(line.split())
    worker = worker_process(*options, command=name)
    job = add.dispatch(1, 2).job
    eventually(lambda: Job.objects.get(pk=job.pk).status == "succeeded")
    asked = worker_process(*probe, command="checkjobs")
    assert asked.wait() == 0, asked.output
    worker.send(signal.SIGTERM)
    assert worker.wait() == 0
    asked = worker_process(*probe, command="checkjobs")
    assert asked.wait() == 1, asked.output


def probes():
    return re.findall(r'("python", "manage.py", "checkjobs".*?)\]', PAGE, re.S)
