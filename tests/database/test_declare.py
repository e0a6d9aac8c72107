"""schedules.declare: schedules of the code come into the table; old code and new side by side."""

from datetime import timedelta
from unittest import mock

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from django.db.models import F

from django_leasequeue import cron, discovery, every, registry
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Schedule
from django_leasequeue.schedules import declare, lines
from tests.helpers import failing, together
from tests.road import statements
from tests.scheduling import HALF, STEP, a_schedule, nth, tick

pytestmark = pytest.mark.django_db(transaction=True)
TASK = "tests.tasks.add"
LONG = timedelta(minutes=10)
RULE = every(minutes=10, args=[1, 2])


@pytest.fixture
def code(monkeypatch):
    """Lets the code be another one: `code(name=rule, ...)`."""

    def become(**rules):
        task = registry.get(TASK)
        found = {name: (task, rule.called(name)) for name, rule in rules.items()}
        monkeypatch.setattr(registry, "declared", lambda: found)

    become()
    return become


def said(**options):
    """Declare what the code has; return what that changed, without what it did not."""
    done = declare("default", **options)
    return {word: names for word, names in done._asdict().items() if names}


def nobody_is_left():
    """As if no worker had declared anything for a while."""
    Schedule.objects.update(seen_at=DatabaseNow(-LONG))


def get(name="s"):
    return Schedule.objects.get(name=name)


def test_what_the_code_declares_is_stored_once(code):
    code(s=cron("0 3 1 1 *", tz="Europe/Paris", args=[1, 2], limit=3), t=RULE)
    assert said() == {"added": ["s", "t"]}
    stored = get()
    assert (stored.task, stored.expression, stored.tz) == (
        TASK,
        "0 3 1 1 *",
        "Europe/Paris",
    )
    assert (stored.origin, stored.limit, stored.args) == ("code", 3, [1, 2])
    with statements() as sent:
        assert said() == {}
    assert len(sent) == 1
    # Until a worker has looked, it is due; then its first tick is to come.
    assert tick(stored).jobs == []
    assert get("s").next_tick > get("s").created_at


def test_what_belongs_to_its_running_stays(code):
    code(s=RULE)
    said()
    Schedule.objects.update(last_tick=F("created_at"), fired=7)
    Schedule.objects.filter(name="s").pause(by="ann")
    before = get()
    code(s=every(minutes=20, args=[3, 4]))
    assert said() == {"changed": ["s"]}
    after = get()
    assert (after.expression, after.args) == ("1200", [3, 4])
    assert (after.fired, after.last_tick) == (7, before.last_tick)
    assert (after.paused_by, after.created_at) == ("ann", before.created_at)
    assert after.since > before.since
    assert tick(after).jobs == [] and get().next_tick is None  # still paused
    # What does not move the ticks does not make it forget those that were missed.
    code(s=every(minutes=20, args=[5, 6]))
    said()
    assert get().since == after.since


def test_old_code_does_not_take_back_what_new_code_has_changed(code):
    old, new = RULE, every(minutes=20, args=[1, 2])
    code(s=old)
    said()
    code(s=new, only_new=RULE)
    assert said() == {"added": ["only_new"], "changed": ["s"]}
    # A child of the old deployment starts anew, any number of times.
    code(s=old, only_old=RULE)
    assert said() == {"added": ["only_old"]}
    assert said() == {} and get().expression == "1200"
    code(s=new, only_new=RULE)
    assert said() == {}
    assert all(Schedule.objects.values_list("enabled", flat=True))
    # The last worker of the old code has gone.
    Schedule.objects.filter(name="only_old").update(seen_at=DatabaseNow(-LONG))
    assert said() == {"disabled": ["only_old"]}
    assert get("only_old").next_tick is None


def test_a_rollback_counts_once_nobody_has_the_newer_code(code):
    old, new = RULE, every(minutes=20, args=[1, 2])
    code(s=old)
    said()
    code(s=new)
    said()
    code(s=old)
    assert said() == {}
    nobody_is_left()
    assert said() == {"changed": ["s"]}
    assert get().expression == "600"
    # And forward again.
    code(s=new)
    assert said() == {}
    nobody_is_left()
    assert said() == {"changed": ["s"]}


def test_one_that_left_the_code_is_disabled_and_comes_back(code):
    code(s=RULE)
    said()
    nobody_is_left()
    code()
    assert said(lasting=False) == {}  # this worker has just started
    assert said() == {"disabled": ["s"]}
    assert (get().state, get().next_tick) == ("disabled", None)
    assert tick(get()) is None
    code(s=RULE)
    assert said() == {"enabled": ["s"]}
    assert get().state == "active" and get().since > get().created_at


def test_another_projects_schedule_is_not_disabled(code):
    """Its workers may just not run; ours don't look where its tasks are."""
    code(s=RULE, t=RULE, u=RULE)
    said()
    assert get().module == "tests.tasks"
    Schedule.objects.filter(name="t").update(module="elsewhere.tasks")
    Schedule.objects.filter(name="u").update(module="tests.tasks.gone")
    nobody_is_left()
    code()
    assert sorted(said()["disabled"]) == ["s", "u"]
    assert get("t").state == "active"
    # And a task that has moved takes its schedules along.
    code(t=RULE)
    assert said() == {}
    assert get("t").module == "tests.tasks"


def test_workers_say_what_they_declare_now_and_then(code):
    code(s=RULE, t=RULE)
    said()
    Schedule.objects.filter(name="s").update(seen_at=DatabaseNow(-60))
    before, untouched = get().seen_at, get("t").seen_at
    said()
    assert get().seen_at > before and get("t").seen_at == untouched


def test_rows_that_no_worker_has_stored_keep_nothing_up(code):
    """As those of a fixture, without the time of a declaration."""
    code(s=RULE, gone=RULE, changed=RULE)
    said()
    Schedule.objects.update(seen_at=None)
    code(s=RULE, changed=every(minutes=20, args=[1, 2]), new=RULE)
    assert said() == {"added": ["new"], "changed": ["changed"], "disabled": ["gone"]}
    assert get().seen_at


def test_the_admins_schedule_of_that_name_stays(code):
    a_schedule(RULE, name="s")
    code(s=cron("0 0 * * *", args=[1, 2]))
    assert said() == {"clashing": ["s"]}
    assert get().expression == "600"
    nobody_is_left()
    code()
    assert said() == {}


def test_deployments_that_start_at_once(code):
    """Each schedule comes once, and a change is made by one of them."""
    code(**{f"s{number}": RULE for number in range(5)})
    together(6, lambda _: declare("default"))
    assert Schedule.objects.count() == 5
    code(**{f"s{number}": every(hours=2, args=[1, 2]) for number in range(5)})
    changed = together(6, lambda _: declare("default").changed)
    assert sorted(name for names in changed for name in names) == [
        f"s{number}" for number in range(5)
    ]


def test_the_command(code, capsys):
    code(s=RULE)
    call_command("syncschedules")
    assert capsys.readouterr().out == "Added: s.\n"
    with mock.patch.object(discovery, "autodiscover"):
        call_command("syncschedules")
    assert capsys.readouterr().out == "Nothing to change.\n"
    lost = failing(OperationalError("gone"), match="leasequeue_schedule", times=9)
    with lost, pytest.raises(CommandError, match="'default' refused: gone"):
        call_command("syncschedules")


def test_lines(code):
    schedule = a_schedule(name="a", ago=STEP + HALF)
    [job] = tick(schedule).jobs
    a_schedule(RULE, name="b", expression="x", problem="bad")
    first, second = lines("default")
    assert (first.name, first.state, first.last_job) == ("a", "active", job.pk)
    assert first.expression == "every 3600 s"
    assert (first.last_tick, first.next_firing) == (
        nth(schedule, 1),
        nth(schedule, 2),
    )
    assert (second.name, second.state, second.problem) == ("b", "broken", "bad")
    assert second.next_firing is None
