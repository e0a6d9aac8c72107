"""MySQL and MariaDB with a connection that lacks characters: told, or kept whole."""

import uuid

import pytest
from django.conf import settings
from django.db import DatabaseError

from django_leasequeue.models import Job
from django_leasequeue.selection import Selection
from tests.road import row
from tests.scratch import scratch_database
from tests.tasks import add

pytestmark = [
    pytest.mark.django_db(transaction=True, databases=["default", "other"]),
    pytest.mark.skipif(
        settings.DATABASE not in ("mariadb", "mysql"), reason="MySQL, MariaDB"
    ),
]

FACE = "\N{GRINNING FACE}"


@pytest.mark.parametrize("mode", ["TRADITIONAL", ""], ids=["strict", "lax"])
@pytest.mark.parametrize("charset", ["utf8mb3", "latin1"])
def test_118_connection_of_fewer_characters(charset, mode):
    """Arguments and results come back as they went, since they are sent as ASCII.

    An id is refused that the connection can't say, and never becomes question marks, among
    which two ids would be one.
    """
    options = {"charset": charset, "init_command": f"SET sql_mode = '{mode}'"}
    with scratch_database("other", charset=charset, OPTIONS=options):
        rows = Job.objects.using("other")
        payload = [f"á a\u0301 {FACE}", {FACE: None}]
        job, _ = rows.dispatch(
            add, (payload, 1), meta={FACE: FACE}, dedup="á", queue="é"
        )
        again, outcome = rows.dispatch(add, (payload, 1), dedup="á", queue="é")
        assert (again.pk, outcome) == (job.pk, "skipped")
        [held] = rows.claim(Selection(("é",)), 1, uuid.uuid4(), "w").jobs
        assert held.id == job.pk
        rows.update(result=payload, errors=payload)
        stored = row(job, "other")
        assert stored["args"] == [payload, 1]
        assert stored["result"] == stored["errors"] == payload
        assert (stored["queue"], stored["dedup_id"]) == ("é", "á")
        with pytest.raises((DatabaseError, UnicodeEncodeError)):
            rows.dispatch(add, (1, 2), dedup=FACE)
        assert rows.count() == 1
