"""The Python of docs/backend.md is run, and does what the text beside it says."""

import sys
from types import ModuleType
from unittest import mock

import django
import pytest

pytest.importorskip("django.tasks", reason="came with Django 6.0")

from django.tasks import task_backends

from django_leasequeue import registry
from django_leasequeue.backend.task import FOR_ALL, OF_JOBS, OF_RUNS
from django_leasequeue.models import Job
from tests import readme
from tests.processes import ROOT
from tests.road import claim

TEXT = (ROOT / "docs/backend.md").read_text()


def test_the_snippets(settings):
    module = ModuleType("tests.tasks.backend_docs")
    with mock.patch.dict(registry._tasks), mock.patch.dict(sys.modules):
        sys.modules[module.__name__] = module
        for code in readme.blocks("python", TEXT):
            if "Django 6.1" in code and django.VERSION < (6, 1):
                continue
            exec(code, vars(module))
            settings.TASKS = module.TASKS
        result, job = module.result, Job.objects.get(pk=module.result.id)
        assert (job.queue, job.priority, result.status) == ("mail", 10, "READY")
        assert module.same == result
        assert module.first.task.max_attempts == 3
        assert [one.check() for one in task_backends.all()] == [[], []]
        if django.VERSION >= (6, 1):
            assert module.charge.enqueue(3).id == module.charge.enqueue(3).id
        assert registry.get(job.task).timeout is None
        assert len(claim()) == Job.objects.count()


def test_the_options_are_named():
    options = TEXT.partition("## Options")[2].partition("\n## ")[0]
    assert {
        name for name in (*OF_RUNS, *OF_JOBS) if f"`{name}`" not in options
    } == set()
    assert {"max_attempts", *OF_RUNS} - {"schedule", "aliases"} == FOR_ALL
