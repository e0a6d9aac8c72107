"""RETENTION and @task(retention=): what they may say, and what comes before what."""

from datetime import timedelta

import pytest
from django.core.exceptions import ImproperlyConfigured

from django_leasequeue import registry
from django_leasequeue.conf import conf
from django_leasequeue.retention import Rule, read
from django_leasequeue.states import FINAL, Status
from tests.road import toy

DAY = 24 * 3600
ALL = sorted(FINAL)


def of_all(rule):
    return dict.fromkeys(ALL, rule)


def mine():
    """A task."""


@pytest.mark.parametrize(
    "value, rules",
    [
        (0, of_all(Rule(0))),
        (60, of_all(Rule(60))),
        (timedelta(days=2), of_all(Rule(2 * DAY))),
        (None, of_all(Rule())),
        ({"age": 60}, of_all(Rule(60))),
        ({"age": None}, of_all(Rule())),
        ({"count": 5}, of_all(Rule(None, 5))),
        ({"age": timedelta(1), "count": 5}, of_all(Rule(DAY, 5))),
        ({}, {}),
        ({"failed": None}, {Status.FAILED: Rule()}),
        (
            {"succeeded": {"count": 9}, "cancelled": 0},
            {Status.SUCCEEDED: Rule(None, 9), Status.CANCELLED: Rule(0)},
        ),
    ],
)
def test_what_may_be_said(settings, value, rules):
    assert read("RETENTION", value) == rules
    settings.LEASEQUEUE = {"RETENTION": value, "QUEUES": {"mail": {"RETENTION": value}}}
    assert conf.problems() == []
    with toy(mine, retention=value) as task:
        assert task.options.retention == rules


@pytest.mark.parametrize(
    "value, id, words",
    [
        ("1 day", "E003", "must be seconds .* not str"),
        (True, "E003", "not bool"),
        ([1], "E003", "not list"),
        ({"succeeded": "x"}, "E003", r"\['succeeded'\] must be seconds"),
        ({"count": 2.0}, "E003", r"\['count'\] must be a whole number or None"),
        ({"count": True}, "E003", "not bool"),
        (-1, "E004", "at least 0 seconds"),
        (float("inf"), "E004", "finite"),
        (timedelta(days=99_999), "E004", "a century"),
        ({"failed": {"age": -1}}, "E004", r"\['failed'\]\['age'\] must be at least 0"),
        ({"count": 0}, "E004", "at least 1 .* an age of 0 keeps none"),
        ({"count": 2**31}, "E004", "at most 2,147,483,647"),
        ({"succeded": 1}, "E009", "'succeded'. Did you mean 'succeeded'"),
        ({"SUCCEEDED": 1}, "E009", "Did you mean 'succeeded'"),
        ({"pending": 1}, "E009", "It takes 'cancelled', 'failed', 'succeeded', 'age'"),
        ({"ages": 1}, "E009", "Did you mean 'age'"),
        ({"age": 1, "failed": 1}, "E009", "'failed'. It takes 'age', 'count'"),
        ({"failed": {"days": 1}}, "E009", r"\['failed'\] has the unknown key 'days'"),
        ({3: 1}, "E009", "unknown key '3'"),
    ],
)
def test_what_may_not(settings, value, id, words):
    """Told by a check, when it is read, and when a task is decorated."""
    for given in ({"RETENTION": value}, {"QUEUES": {"mail": {"RETENTION": value}}}):
        settings.LEASEQUEUE = given
        [problem] = conf.problems()
        assert problem.id == id
        with pytest.raises(ImproperlyConfigured, match=words) as caught:
            conf.retention("mail")
        assert caught.value.problem == problem
        assert "RETENTION" in problem.message
    with (
        pytest.raises((TypeError, ValueError), match=words) as caught,
        toy(mine, retention=value),
    ):
        pass
    assert "The retention of 'tests.tasks.mine'" in str(caught.value)


def test_defaults(settings):
    del settings.LEASEQUEUE
    assert conf.retention("mail") == {
        Status.SUCCEEDED: Rule(DAY),
        Status.FAILED: Rule(30 * DAY),
        Status.CANCELLED: Rule(30 * DAY),
    }


def test_task_then_queue_then_project_then_default(settings):
    """Status by status."""
    settings.LEASEQUEUE = {
        "RETENTION": {"failed": 3},
        "QUEUES": {"mail": {"RETENTION": {"succeeded": 2}}},
    }
    cancelled = {Status.CANCELLED: Rule(30 * DAY)}
    other = {Status.SUCCEEDED: Rule(DAY), Status.FAILED: Rule(3), **cancelled}
    mail = {**other, Status.SUCCEEDED: Rule(2)}
    assert (conf.retention("other"), conf.retention("mail")) == (other, mail)
    with toy(mine, retention={"failed": 1}, aliases=["former"]) as task:
        for name in (task.name, "former"):
            found = registry.retention(name, "mail")
            assert found == {**mail, Status.FAILED: Rule(1)}
    assert registry.retention("unknown", "mail") == mail
    settings.LEASEQUEUE = {"QUEUES": {"mail": {"RETENTION": None}}}
    assert conf.retention("mail") == of_all(Rule())


def test_none_of_a_task_keeps_its_jobs():
    """As in the setting: not the same as saying nothing."""
    with toy(mine, retention=None) as task:
        assert registry.retention(task.name, "mail") == of_all(Rule())
    with toy(mine) as task:
        assert registry.retention(task.name, "mail") == conf.retention("mail")


def test_a_task_stays_hashable():
    with toy(mine, retention=60) as task:
        assert hash(task.options)
