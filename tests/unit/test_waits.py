"""db.waits: a bound on waits goes along with the savepoint, as far as the driver lets it."""

from types import SimpleNamespace

import pytest

from django_leasequeue.db import waits

TOGETHER, ONE_BY_ONE = ["first; second"], ["first", "second"]


class Cursor:
    """One like psycopg2's, unless it has a second result."""

    def __init__(self, results):
        self.results = results

    def nextset(self):
        assert self.results > 1, "not supported by PostgreSQL"


@pytest.mark.parametrize(
    ("driver", "sent"),
    [
        ({"prepare_threshold": None}, TOGETHER),
        ({"prepare_threshold": 1}, TOGETHER),
        ({"prepare_threshold": 0}, ONE_BY_ONE),
        ({}, ONE_BY_ONE),
    ],
    ids=["prepares none", "prepares what comes twice", "prepares all", "psycopg2"],
)
def test_two_statements_go_as_one_text_where_they_can(driver, sent):
    texts = []
    context = {
        "connection": SimpleNamespace(connection=SimpleNamespace(**driver)),
        "cursor": Cursor(results=3 - len(sent)),
    }
    waits._both(lambda sql, *_: texts.append(sql), "first", "second", context)
    assert texts == sent
