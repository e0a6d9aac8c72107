"""What README.md says is so: its tables, its options, its links, its first screen."""

import os
import re
import subprocess
import sys
import tomllib
from dataclasses import fields

import pytest

from django_leasequeue import backoff, conf, retention
from django_leasequeue.management.commands.runjobs import Command
from django_leasequeue.registry import TaskOptions
from django_leasequeue.specs import JobSpec
from django_leasequeue.worker.context import JobContext
from example_project import __main__ as demo
from example_project import bootstrap
from tests import readme
from tests.__main__ import PAIRS
from tests.processes import ROOT

# Where each command is run, besides CI, which runs README's two as they stand.
COMMANDS = {
    "python manage.py runjobs": "crash/test_readme.py",
    "python3 -m example_project": "test_the_demo_command, crash/test_demo.py",
    "python3 -m tests": "test_the_test_command",
    "python -m pip install .": "test_packaging.py builds what pip installs",
    "python manage.py migrate": "crash/test_readme.py",
}


def plain(cell):
    return cell.replace("`", "")


def test_settings_table_is_conf():
    rows = readme.table("key")
    assert [plain(row[0]) for row in rows] == list(conf.SETTINGS)
    for key, default, per_queue, _ in rows:
        actual = conf.SETTINGS[plain(key)].default
        text = plain(default)
        if text.startswith("Exponential"):
            assert eval(text, vars(backoff)) == actual
        elif plain(key) == "RETENTION":
            assert retention.read(key, eval(text)) == actual
        else:
            assert eval(text) == (list(actual) if actual == () else actual), key
        assert (per_queue == "yes") is (plain(key) in conf.PER_QUEUE), key


def test_options_table_is_that_of_runjobs():
    parser = Command().create_parser("manage.py", "runjobs")
    general = {"help", "version", "verbosity", "settings", "pythonpath", "traceback"}
    general |= {"no_color", "force_color", "skip_checks"}
    mine = {
        option: action
        for action in parser._actions
        for option in action.option_strings
        if action.dest not in general
    }
    rows = readme.table("option")
    assert sorted(plain(row[0]).split()[0] for row in rows) == sorted(mine)
    for option, default, _ in rows:
        name, *value = plain(option).split()
        assert bool(value) is (mine[name].nargs != 0), name
        if default == "`*`":
            assert mine[name].default == "*"
        elif plain(default) in conf.SETTINGS:
            assert plain(default) == mine[name].dest.upper()
            assert mine[name].default is None


@pytest.mark.parametrize(
    "names",
    [
        {field.name for field in fields(TaskOptions)} - {"func", "module"},
        set(JobSpec._fields) - {"task"},
        {
            name
            for name in vars(JobContext)
            # Two of them are for the worker.
            if not name.startswith("_") and name not in {"lose", "lost_why", "task"}
        },
    ],
    ids=["@task", "dispatch", "context"],
)
def test_every_option_is_named(names):
    blocks = readme.blocks("python")
    code = " ".join([*re.findall(r"`[^`\n]+`", readme.PROSE), *blocks])
    missing = {name for name in names if not re.search(rf"\b{name}\b", code)}
    assert not missing


def test_versions_are_those_of_the_matrix():
    for python, django in PAIRS.items():
        assert re.search(rf"{django} on (Python )?{python}\b", readme.TEXT)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    oldest = project["requires-python"].removeprefix(">=")
    assert f"Python {oldest} or newer" in readme.TEXT
    for extra in re.findall(r'"\.\[(\w+)\]"', readme.TEXT):
        assert extra in project["optional-dependencies"]


def test_links_lead_somewhere():
    for target in re.findall(r"\]\(([^)]+)\)", readme.TEXT):
        assert (ROOT / target).exists(), target


def test_first_screen():
    order = ["```python", "dispatch ──▶", "| promised |", "manage.py runjobs"]
    places = [readme.TEXT.index(text) for text in [*order, "(example_project)"]]
    assert places == sorted(places)
    code = [line for line in readme.blocks("python")[0].splitlines() if line]
    assert len([line for line in code if not line.startswith("# ")]) <= 12
    assert len(readme.TEXT.splitlines()) < 300


def test_each_command_is_run_by_a_test():
    assert readme.commands() == list(COMMANDS)
    languages = re.findall(r"^```(\w+)$", readme.TEXT, re.M)
    assert set(languages) == {"python", "text", "console"}


def test_the_demo_command(monkeypatch):
    called = []
    monkeypatch.setattr(os, "execv", lambda *arguments: called.append(arguments))
    made = lambda *requirements: called.append(requirements) or "venv/python"  # noqa: E731
    monkeypatch.setattr(bootstrap, "virtual_environment", made)
    demo.main([])
    manage = str(ROOT / "example_project" / "manage.py")
    assert called == [
        ("demo", "--editable", str(ROOT)),
        ("venv/python", ["venv/python", manage, "demo"]),
    ]


def test_the_test_command():
    command = [sys.executable, "-m", "tests", "--help"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0
    assert "every test on every database" in done.stdout
