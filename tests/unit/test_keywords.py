"""The options that type checkers know are those that there are."""

import inspect

from django_leasequeue import keywords, tasks
from django_leasequeue.managers import JobQuerySet
from django_leasequeue.pytest_fixtures import CaptureJobs, RunJobs
from django_leasequeue.specs import JobSpec
from django_leasequeue.testing import capture_jobs, run_jobs


def test_the_decorator_has_the_options_of_its_keywords():
    known = keywords.TaskKeywords.__annotations__.keys()
    assert {*known, "takes_context"} == {*tasks._TASK_OPTIONS, "name"}


def test_a_dispatch_has_the_options_of_its_keywords():
    known = keywords.DispatchKeywords.__annotations__.keys()
    assert known == set(JobSpec._fields) - {"task", "args", "kwargs"}
    parameters = inspect.signature(JobQuerySet.dispatch).parameters
    assert known == parameters.keys() - {"self", "task", "args", "kwargs"}
    assert keywords.UsingKeywords.__annotations__.keys() == {*known, "database"}


def test_fixtures_take_what_their_functions_take():
    for fixture, function in ((RunJobs, run_jobs), (CaptureJobs, capture_jobs)):
        typed = inspect.signature(fixture.__call__).parameters
        real = inspect.signature(function).parameters
        assert {name: one.default for name, one in real.items()} == {
            name: one.default for name, one in typed.items() if name != "self"
        }
