"""Instances made without the model's constructor are those that it would have made."""

import pytest
from django.db.models import DEFERRED
from django.db.models.signals import post_init

from django_leasequeue import db
from django_leasequeue.models import Job

GIVEN = {"id": 7, "task": "a", "args": [1], "run_at": db.DatabaseNow()}


def made():
    return db.inserted(Job._base_manager.using("other"), GIVEN)


def constructed():
    fields = Job._meta.concrete_fields
    values = {field.attname: field.get_default() for field in fields} | GIVEN
    values["run_at"] = DEFERRED
    return Job.from_db("other", list(values), list(values.values()))


@pytest.fixture
def told():
    """What a receiver of the model's post_init is told."""
    heard = []

    def hear(instance, **kwargs):
        heard.append(instance)

    post_init.connect(hear, sender=Job)
    yield heard
    post_init.disconnect(hear, sender=Job)


def same(left, right):
    mine, its = dict(vars(left)), dict(vars(right))
    assert vars(mine.pop("_state")) == vars(its.pop("_state"))
    return mine == its


def test_as_the_constructor_makes_it():
    """Attributes, state and what is read when it is first asked for."""
    assert same(made(), constructed())
    assert made().get_deferred_fields() == {"run_at"}


def test_defaults_that_change_are_each_ones_own():
    """A list that one instance appends to is not another's."""
    made().errors.append(1)
    assert made().errors == []


def test_whoever_listens_to_the_constructor_is_told(told):
    """Then it is called, and makes the same."""
    one = made()
    assert told == [one]
    assert same(one, constructed())
