"""What is asked of schedules goes by their index, however many there are."""

import pytest
from django.db import connection
from django.db.models import QuerySet

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Schedule
from django_leasequeue.worker import bounded
from django_leasequeue.worker.ticker import Ticker
from tests.road import statements


# MySQL commits before it counts the rows.
@pytest.mark.django_db(transaction=True)
def test_the_look_for_what_is_due_reads_a_few_entries():
    """One range of the index on `next_tick`, in its order: no sort, no scan."""
    now = DatabaseNow()
    times = {"created_at": now, "since": now}
    Schedule.objects.bulk_create(
        Schedule(
            name=f"s{number}",
            task="t",
            expression="60",
            next_tick=DatabaseNow(3600 + number) if number % 2 else None,
            **times,
        )
        for number in range(2000)
    )
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE leasequeue_schedule")
    elif connection.vendor == "mysql":
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE TABLE leasequeue_schedule")
    with statements() as sent:
        Ticker("default")._look()
    bounded.let_go("default")
    # Beside what the worker's own connection begins with.
    assert (
        len([sql for sql in sent if sql.startswith("SELECT ") and "_tick" in sql]) == 1
    )
    rows = QuerySet(Schedule, using="default").filter(next_tick__isnull=False)
    plan = rows.order_by("next_tick").values_list("pk")[:100].explain()
    assert "leasequeue_next_tick" in plan, plan
    assert "SCAN leasequeue_schedule" not in plan or "INDEX" in plan, plan
