"""Rows inserted by db.insert_rows are those that the ORM would have made."""

import datetime as dt
from unittest import mock

import pytest
from django.db import connection

from django_leasequeue import db
from django_leasequeue.db.inserts import told_ids
from django_leasequeue.models import Job
from tests.road import statements

GIVEN = [
    {"task": "a", "args": [1, "ä"], "meta": {"x": [1, None]}, "dedup_id": "k%s"},
    {"task": "b", "kwargs": {"q": '"'}, "dedup_ttl": dt.timedelta(days=1, seconds=2)},
    {"task": "c%", "priority": -3, "rerun": True, "errors": [{"n": 1}]},
]
WHEN = dt.datetime(2040, 1, 2, 3, 4, 5, 678000, dt.UTC)


def without_id(job):
    fields = [field.attname for field in Job._meta.concrete_fields]
    return {name: getattr(job, name) for name in fields if name != "id"}


@pytest.mark.parametrize("size", [1, 3])
def test_every_column_is_as_the_orm_writes_it(size):
    new = [{"run_at": WHEN, "created_at": WHEN, **one} for one in GIVEN[:size]]
    expected = [Job(**one) for one in new]
    Job.objects.bulk_create(expected)
    before = list(Job.objects.order_by("pk"))
    Job.objects.update(dedup_id=None)
    told = db.insert_rows(Job.objects.all(), new)
    after = list(Job.objects.order_by("pk"))[len(before) :]
    assert [without_id(job) for job in after] == [without_id(job) for job in before]
    assert told in (None, [job.pk for job in after])
    if size == 1:
        assert told is not None


def due_in(seconds):
    """A row with three parameters, one of them in an expression of its own."""
    when = db.DatabaseNow(seconds + 1)
    return {"task": str(seconds), "run_at": when, "created_at": WHEN}


TASKS = ["a,b", "{}", '"', "\\", "\n", "%s", "NULL", "ä\U0001f600", "'; --", "\t \r"]


def test_rows_are_in_order_and_every_text_arrives():
    """Whatever the form is in which a database takes many values."""
    new = [
        {"task": task, "group": group, "run_at": WHEN, "created_at": WHEN}
        for task in TASKS
        for group in (None, *TASKS)
    ]
    with statements() as sent:
        told = db.insert_rows(Job.objects.all(), new)
    assert len(sent) == 1
    found = list(Job.objects.order_by("pk").values_list("pk", "task", "group"))
    assert [row[1:] for row in found] == [(one["task"], one["group"]) for one in new]
    assert told in (None, [row[0] for row in found])


@pytest.mark.parametrize(
    "texts",
    [["[]"], ["[1]"], ["[1]"] * 2, ['["\\n\\u00e4"]', "[1.0]", "[1]", '["%s\\\\"]']],
)
def test_json_that_is_text_already(texts):
    """It is stored as it is, character by character."""
    new = [
        {"task": "a", "args": text, "run_at": WHEN, "created_at": WHEN}
        for text in texts
    ]
    db.insert_rows(Job.objects.all(), new, ["args"])
    db.insert_row(Job.objects.all(), new[0], ["args"])
    with connection.cursor() as cursor:
        cursor.execute("SELECT args FROM leasequeue_job ORDER BY id")
        assert [args for (args,) in cursor.fetchall()] == [*texts, texts[0]]


def test_equal_values_that_are_other_json():
    """1, 1.0 and True are equal to Python, and not to whoever reads the column."""
    metas = [{"x": [value]} for value in (1, True, 1.0)]
    new = [
        {"task": "a", "meta": one, "run_at": WHEN, "created_at": WHEN} for one in metas
    ]
    db.insert_rows(Job.objects.all(), new)
    found = Job.objects.order_by("pk").values_list("meta", flat=True)
    assert [type(one["x"][0]) for one in found] == [int, bool, float]


def test_instants_are_the_databases():
    row = {"task": "a", "run_at": db.DatabaseNow(60), "created_at": db.DatabaseNow()}
    job = Job.objects.get(pk=db.insert_row(Job.objects.all(), row))
    assert job.run_at - job.created_at == dt.timedelta(minutes=1)


def test_the_ids_of_the_last_try_count():
    """A MariaDB in a cluster runs a refused INSERT again and sends the ids of both tries.

    So it was seen on Galera 26.4, whose server can't be told to refuse at will.
    """
    cursor = mock.Mock()
    cursor.fetchall.return_value = [(712,), (732,)]
    assert told_ids(cursor, 1) == [732]
    cursor.fetchall.return_value = [(1,), (4,), (7,), (10,)]
    assert told_ids(cursor, 2) == [7, 10]


def test_no_rows_are_no_statement():
    with statements() as sent:
        assert db.insert_rows(Job.objects.all(), []) == []
    assert sent == []


def test_more_parameters_than_a_statement_takes(monkeypatch):
    """Several statements, all in order."""
    limit = "django_leasequeue.db.bulk_inserts._most_parameters"
    monkeypatch.setattr(limit, lambda _: 8)
    new = [due_in(n) for n in range(5)]
    with statements() as sent:
        told = db.insert_rows(Job.objects.all(), new)
    assert len(sent) == 3
    assert list(Job.objects.order_by("pk").values_list("task", flat=True)) == list(
        "01234"
    )
    if told is not None:
        assert told == list(Job.objects.order_by("pk").values_list("pk", flat=True))


@pytest.mark.skipif(connection.vendor != "sqlite", reason="SQLite's own limit")
def test_sqlite_is_asked_how_many_parameters_it_takes():
    """A batch of more values than that goes through."""
    import sqlite3

    connection.ensure_connection()
    limit = connection.connection.getlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER)
    connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, 30)
    try:
        new = [due_in(n) for n in range(25)]
        assert len(db.insert_rows(Job.objects.all(), new)) == 25
    finally:
        connection.connection.setlimit(sqlite3.SQLITE_LIMIT_VARIABLE_NUMBER, limit)
