"""The Python of docs/types.md is run; tests/typing has what type checkers say of such code."""

import sys
from types import ModuleType
from unittest import mock

import django
import pytest

from django_leasequeue import registry, testing
from django_leasequeue.models import Job
from tests import readme
from tests.processes import ROOT

TEXT = (ROOT / "docs/types.md").read_text()


@pytest.mark.django_db
def test_the_snippets(settings):
    settings.TASKS = {
        "default": {
            "BACKEND": "django_leasequeue.backend.LeaseQueueBackend",
            "QUEUES": [],
        }
    }
    # Of the tests' own tasks, where workers look for them.
    module = ModuleType("tests.tasks.types_docs")
    with mock.patch.dict(registry._tasks), mock.patch.dict(sys.modules):
        sys.modules[module.__name__] = module
        for code in readme.blocks("python", TEXT):
            if "Django 6.1" in code and django.VERSION < (6, 1):
                continue
            exec(code, vars(module))
        with testing.moving_clock() as clock:
            module.test_receipt(testing.run_jobs, testing.capture_jobs, clock)
        module.charge.dispatch(7)
        [ran] = testing.run_jobs()
        assert ran.job.result == "card of 7"
        if django.VERSION >= (6, 1):
            assert module.invoice_again(7) == module.invoice_again(7)
            assert Job.objects.get(dedup_id="invoice:7").max_attempts == 5
