"""worker.options, and how a child gets them."""

import json
import os
import sys

import pytest

from django_leasequeue.selection import Selection
from django_leasequeue.worker.child_bootstrap import VARIABLE, ChildBootstrap, command
from django_leasequeue.worker.options import WorkerOptions
from tests.workers import options


def test_they_survive_the_way_to_a_child():
    given = options(queues="a,b", exclude="c", drain=True, stop_after=7)
    assert WorkerOptions.from_json(given.to_json()) == given
    assert given.selection == Selection(("a", "b"), frozenset({"c"}))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"processes": 0}, "processes must be at least 1, not 0"),
        ({"threads": 0}, "threads must be at least 1"),
        ({"async_tasks": -1}, "async_tasks must be at least 1"),
        ({"stop_after": 0}, "stop_after must be at least 1"),
        ({"shutdown_timeout": -1}, "shutdown_timeout must be 0 or more"),
        ({"shutdown_timeout": float("nan")}, "shutdown_timeout must be 0 or more"),
        ({"queues": "a,a"}, "named twice"),
        ({"queues": "a", "exclude": "a"}, "Both taken and excluded"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong, message):
    with pytest.raises(ValueError, match=message):
        options(**wrong)


@pytest.fixture
def process(monkeypatch):
    """Let the test change this process's environment and sys.path."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(os, "environ", {**os.environ})


@pytest.mark.parametrize("python_path", [None, "/own"])
def test_a_child_imports_as_its_parent_and_leaves_no_trace(process, python_path):
    os.environ.pop("PYTHONPATH", None)
    if python_path:
        os.environ["PYTHONPATH"] = python_path
    sys.path.insert(0, "")
    reading, writing = os.pipe()
    os.set_inheritable(reading, True)
    environment = ChildBootstrap.make("{}", writing, 0, reading).environment()
    parents = [os.path.abspath(entry) for entry in sys.path]
    assert environment["PYTHONPATH"] == os.pathsep.join(parents)

    os.environ.update(environment)
    sys.path[:] = ["elsewhere"]
    taken = ChildBootstrap.take()
    taken.apply()
    assert sys.path == parents
    assert os.environ.get("PYTHONPATH") == python_path
    assert VARIABLE not in os.environ
    assert not os.get_inheritable(reading)
    os.close(reading)
    os.close(writing)


def test_a_child_is_started_by_module_with_the_interpreters_flags(monkeypatch):
    monkeypatch.setattr(sys, "warnoptions", ["error"])
    monkeypatch.setattr(sys, "_xoptions", {"dev": True, "utf8": "1"})
    flags = ["-Werror", "-Xdev", "-Xutf8=1"]
    module = "django_leasequeue.worker.child"
    assert command(3) == [sys.executable, *flags, "-m", module, "3"]


def test_what_a_child_gets_is_one_variable():
    environment = ChildBootstrap.make("{}", 5, 6, 7).environment()
    assert json.loads(environment[VARIABLE])["reports"] == 5
