"""IMMEDIATE: jobs that are run inside their dispatch, for development."""

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from django.db import transaction

from django_leasequeue.conf import conf

#: What runs one job here and now, given its id and alias. The app sets it, since workers stand
#: above those that dispatch.
run_now: Callable[[int, str], object] | None = None


def dispatched(jobs: Iterable[Any], using: str) -> None:
    """Have these new jobs run where the setting says so: at the commit, or now without one."""
    if not conf.immediate:
        return
    connection = transaction.get_connection(using)
    # Of a transaction that somebody manages by hand nobody hears the end.
    if connection.in_atomic_block or connection.get_autocommit():
        ids = [job.pk for job in jobs]
        transaction.on_commit(partial(_run, ids, using), using=using)


def _run(ids: list[int], using: str) -> None:
    for pk in ids:
        if run_now is not None:
            run_now(pk, using)
