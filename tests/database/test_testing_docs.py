"""The Python of docs/testing.md is run: its tests pass, in a TestCase as they stand."""

import sys
import unittest
from types import ModuleType

import django
import pytest

from django_leasequeue import registry
from django_leasequeue.testing import capture_jobs, run_jobs
from tests import readme
from tests.processes import ROOT

TEXT = (ROOT / "docs/testing.md").read_text()


@pytest.fixture
def module(monkeypatch, settings):
    """Where the snippets are run: a module that workers would find."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    if django.VERSION >= (6, 1):
        backend = "django.core.mail.backends.locmem.EmailBackend"
        settings.MAILERS = {"default": {"BACKEND": backend}}
    settings.DEFAULT_FROM_EMAIL = "shop@example.com"
    module = ModuleType("tests.tasks.testing_docs")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    shop = ModuleType("shop")
    shop.tasks = module
    monkeypatch.setitem(sys.modules, "shop", shop)
    monkeypatch.setitem(sys.modules, "shop.tasks", module)
    for code in readme.blocks("python", TEXT):
        exec(code, vars(module))
    return module


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("name", ["OrderTests", "FulfilTests"])
def test_the_test_cases(module, name):
    suite = unittest.defaultTestLoader.loadTestsFromTestCase(getattr(module, name))
    result = unittest.TestResult()
    suite.run(result)
    assert result.testsRun == suite.countTestCases() > 1
    assert result.errors == result.failures == []


def test_the_fixtures(module):
    module.test_a_receipt(run_jobs, capture_jobs)
