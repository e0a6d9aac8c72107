"""The reference in docs/ has all that the code has, and nothing else."""

import argparse
import importlib
import pkgutil
import re
from dataclasses import MISSING, fields

import pytest
from django.core.management import load_command_class
from django.dispatch import Signal

import django_leasequeue.management.commands as commands
from django_leasequeue import backoff, conf, retention, signals
from django_leasequeue.managers.by_hand import ByHand
from django_leasequeue.managers.dispatching import Dispatching
from django_leasequeue.managers.work import Work
from django_leasequeue.specs import JobSpec
from django_leasequeue.task_options import TaskOptions
from django_leasequeue.worker.context import JobContext
from tests import readme
from tests.processes import ROOT

GENERAL = {"help", "version", "verbosity", "settings", "pythonpath", "traceback"}
GENERAL |= {"no_color", "force_color", "skip_checks"}
# For the worker, not for tasks.
OF_THE_WORKER = {"lose", "cancel", "limit", "on_progress", "step_store", "database"}
NAMES = [module.name for module in pkgutil.iter_modules(commands.__path__)]


def page(name):
    return (ROOT / f"docs/{name}.md").read_text()


def section(text, title):
    """What stands under the heading that begins with the title, to the next of its level."""
    return re.split(r"^## ", text.partition(f"\n## {title}")[2], flags=re.M)[0]


def plain(cell):
    return cell.replace("`", "")


def named(rows):
    """The names in the first cells, without the arguments of functions."""
    return [plain(row[0]).partition("(")[0] for row in rows]


def test_settings():
    rows = readme.table("key", page("settings"))
    assert named(rows) == [*conf.SETTINGS, "QUEUES"]
    for key, default, per_queue, _ in rows[:-1]:
        actual = conf.SETTINGS[plain(key)].default
        text = plain(default)
        if text.startswith("Exponential"):
            assert eval(text, vars(backoff)) == actual
        elif plain(key) == "RETENTION":
            assert retention.read(key, eval(text)) == actual
        else:
            assert eval(text) == (list(actual) if actual == () else actual), key
        assert (per_queue == "yes") is (plain(key) in conf.PER_QUEUE), key


def test_example_of_settings(settings):
    [block] = readme.blocks("python", page("settings"))
    given = {}
    exec(block, given)
    settings.LEASEQUEUE = given["LEASEQUEUE"]
    assert conf.conf.problems() == []
    assert (conf.conf.threads, conf.conf.concurrency("video")) == (8, 2)


def test_options_of_a_task():
    options = {field.name: field for field in fields(TaskOptions)}
    for name in ("func", "module", "door"):
        del options[name]
    rows = readme.table("option | default", section(page("options"), "Of a task"))
    assert sorted(named(rows)) == sorted(options)
    for name, default, _ in rows:
        field = options[plain(name)]
        if field.default is not MISSING:
            assert eval(plain(default)) == field.default, name


def test_options_of_a_dispatch():
    text = section(page("options"), "Of a dispatch")
    known = set(JobSpec._fields) - {"task", "args", "kwargs"}
    assert set(named(readme.table("option", text))) == known
    assert {"args", "kwargs", "database"} <= set(re.findall(r"`(\w+)`", text))


def test_context():
    known = {name for name in vars(JobContext) if not name.startswith("_")}
    known |= {"task"}  # an attribute of each
    rows = readme.table(
        "attribute | what it is", section(page("options"), "Of the context")
    )
    assert set(named(rows)) == known - OF_THE_WORKER


def test_signals():
    known = {name for name, value in vars(signals).items() if isinstance(value, Signal)}
    assert set(named(readme.table("signal", page("signals")))) == known


def own_options(parser):
    """The long options, each with its action, of a parser."""
    return {
        option: action
        for action in parser._actions
        for option in action.option_strings
        if action.dest not in GENERAL
    }


def test_every_command_has_a_section():
    titles = re.findall(r"^## (.+)$", page("commands"), re.M)
    assert sorted(", ".join(titles).split(", ")) == sorted(NAMES)


@pytest.mark.parametrize("name", sorted({*NAMES} - {"jobs", "resumequeue"}))
def test_options_of_a_command(name):
    command = load_command_class("django_leasequeue", name)
    mine = own_options(command.create_parser("manage.py", name))
    text = section(page("commands"), name)
    rows = readme.table("option | default", text)
    assert sorted(plain(row[0]).split()[0] for row in rows) == sorted(mine)
    for option, default, _ in rows:
        action, default = mine[plain(option).split()[0]], plain(default)
        takes_value = len(plain(option).split()) > 1
        assert takes_value is (action.nargs != 0), option
        if default == "*":
            assert action.default == "*"
        elif default in conf.SETTINGS:
            assert default == action.dest.upper()
    codes = [row[0] for row in readme.table("exit code", text)]
    assert codes[:3] == ["0", "1", "2"]


def test_resumequeue_has_the_options_of_pausequeue_but_one():
    both = [load_command_class("django_leasequeue", f"{word}queue") for word in WORDS]
    pause, resume = (own_options(one.create_parser("m", "x")) for one in both)
    assert pause.keys() - resume.keys() == {"--reason"}
    assert resume.keys() < pause.keys()


WORDS = ["pause", "resume"]


def test_verbs_of_jobs():
    command = load_command_class("django_leasequeue", "jobs")
    parser = command.create_parser("manage.py", "jobs")
    [verbs] = [
        action
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    rows = readme.table("verb", section(page("commands"), "jobs"))
    listed = {plain(verb): set(plain(options).split(", ")) for verb, options in rows}
    assert listed == {
        verb: set(own_options(parser)) - {"-h", "--help"}
        for verb, parser in verbs.choices.items()
    }


def directives():
    """The autodoc directives of docs/api.md: (kind, dotted name, options)."""
    return re.findall(
        r"^\.\. auto(\w+):: ([\w.]+)(?:\(\))?\n((?:   :.*\n)*)", page("api"), re.M
    )


def test_names_of_the_api_exist():
    for kind, name, options in directives():
        if kind == "module":
            owner = importlib.import_module(name)
        else:
            module, _, last = name.rpartition(".")
            module = module or "django_leasequeue.models"
            owner = getattr(importlib.import_module(module), last)
        for listed in re.findall(r" :members: (.+)", options):
            for member in listed.split(", "):
                assert hasattr(owner, member) or member in dir(owner), (name, member)


def test_verbs_of_jobs_are_in_the_api():
    """In an order for people, but for those that only lead to a room where workers go."""
    [block] = re.findall(
        r"managers\.JobQuerySet\(\)\n   :members:\n\n((?:   .+\n)+)", page("api")
    )
    listed = re.findall(r"^   \.\. automethod:: (\w+)$", block, re.M)
    verbs = [
        name
        for part in (Dispatching, ByHand, Work)
        for name, verb in vars(part).items()
        if callable(verb) and not re.match(r"See (transitions|slots)[.]", verb.__doc__)
    ]
    assert listed == verbs


def test_guarantees_name_tests_that_exist():
    links = re.findall(r"\[`(\w+)`\]\(\.\./([\w/.]+)\)", page("guarantees"))
    assert len(links) > 30
    for name, file in links:
        text = (ROOT / file).read_text()
        assert re.search(rf"^(async )?def {name}\(", text, re.M), (name, file)
