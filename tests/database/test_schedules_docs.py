"""The Python of docs/schedules.md does what the text beside it says."""

import sys
from types import ModuleType

import pytest

from django_leasequeue import cron, every, registry
from django_leasequeue.models import Job, Schedule
from django_leasequeue.recurrence import Recurrence
from django_leasequeue.schedules import declare, lines
from django_leasequeue.signals import before_schedule
from tests import readme
from tests.processes import ROOT
from tests.scheduling import HALF, STEP, a_schedule, nth, tick

TEXT = (ROOT / "docs/schedules.md").read_text()
TASKS, HOOK, VERBS = readme.blocks("python", TEXT)


@pytest.fixture
def module(monkeypatch):
    """The tasks of the page, as if workers found them."""
    monkeypatch.setattr(registry, "_tasks", dict(registry._tasks))
    module = ModuleType("tests.tasks.schedules")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(TASKS, vars(module))
    return module


def test_the_tasks(module):
    name = "tests.tasks.schedules.fetch_prices"
    added = declare("default").added
    assert {name, "all prices", "of 2050"} <= {*added}
    of_2050 = Schedule.objects.get(name="of 2050")
    tick(of_2050)
    assert Schedule.objects.get(name="of 2050").next_tick.year == 2050
    tick(Schedule.objects.get(name=name))
    assert {line.state for line in lines("default")} == {"active"}


def test_the_receiver(module):
    exec(HOOK, found := vars(module))
    try:
        rule = every(hours=1, args=["all"])
        task = "tests.tasks.schedules.fetch_prices"
        schedule = a_schedule(rule, name="all prices", task=task, ago=STEP + HALF)
        fired = tick(schedule)
    finally:
        before_schedule.disconnect(found["look_at_tick"])
    day = nth(schedule, 1)
    if day.month == 8:
        assert fired.skipped_why == "closed in August"
    else:
        assert fired.jobs[0].args == [day.date().isoformat()]


def test_the_verbs(module):
    declare("default")
    exec(VERBS, found := {})
    job = Job.objects.get()
    assert found["job"] == job and found["outcome"] == "added"
    assert (job.meta["run_by"], job.tick, job.queue) == ("ann", None, "slow")
    assert Schedule.objects.get(name="all prices").state == "active"


def test_the_table_of_options():
    told = {
        name.strip("`, ")
        for row in readme.table("of both", TEXT)
        for name in row[0].split()
    }
    fields = Recurrence.__dataclass_fields__.keys() - {"kind", "text", "tz"}
    assert told == fields


@pytest.mark.parametrize("line", ["L", "LW", "1,15", "*/10", "1-5"])
def test_days_that_the_page_names(line):
    assert cron(f"0 0 {line} * *").text


@pytest.mark.parametrize("line", ["MON#2", "5L", "MON-FRI"])
def test_weekdays_that_the_page_names(line):
    assert cron(f"0 0 * JAN {line}").text
