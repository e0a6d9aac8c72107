"""Progress: running -> running, with what the task says of how far it has come."""

from typing import Any

from django.db.models import QuerySet, TextField, Value

from django_leasequeue import db
from django_leasequeue.claimed import Claimed, held

# Seconds for which it runs again by itself, and waits for a lock; the next one comes soon.
RERUN_FOR = 1.0


def progress(rows: QuerySet[Any], job: Claimed, text: str) -> bool:
    """Store a running job's progress, a JSON text; return False if it is not this run's.

    Then nothing is written: the token is another's by now, or the lease too close to its end.
    """
    write = db.waiting_at_most(held(rows, job), RERUN_FOR)
    value = Value(text, output_field=TextField())
    found = db.rerun(
        lambda: write.update(progress=value), using=rows.db, seconds=RERUN_FOR
    )
    return bool(found)
