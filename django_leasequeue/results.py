"""What a job came to, and waiting for that: looks at rows, the more seldom the longer it takes."""

import asyncio
import time
from collections.abc import Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction
from django.db.models import QuerySet

from django_leasequeue import clock, db
from django_leasequeue.durations import Duration, seconds
from django_leasequeue.exceptions import (
    JobFailed,
    JobGone,
    JobWasCancelled,
    WaitInTransaction,
    WaitTimeout,
)
from django_leasequeue.states import FINAL, Status

# Seconds between two looks, and how large a part of the wait so far they are in between: the
# end is told late by a tenth of what it took, at most by half a second, and a wait of an hour
# costs two look-ups by primary key a second.
_SHORTEST, _PART, _LONGEST = 0.01, 0.1, 0.5
# How many times as long as a look itself the pause after it is at least, so that one at a large
# group, or by a slow filter, does not keep the server busy.
_LOOKS = 4
# Seconds for which a look runs again through passing trouble, such as a locked file.
_RERUN_FOR = 5.0


class Wait:
    """A wait until `is_over()`, for `timeout` seconds (or a timedelta) at the most."""

    def __init__(self, is_over: Callable[[], bool], timeout: Duration | None) -> None:
        self._is_over = is_over
        if timeout is not None:
            timeout = seconds(timeout, what="timeout")
        self.timeout = timeout

    def sync(self) -> bool:
        """Wait in this thread; return whether it is over."""
        began = clock.now()
        while True:
            looked_at = clock.now()
            if self._is_over():
                return True
            pause = self._pause(began, looked_at)
            if pause <= 0:
                return False
            time.sleep(pause)

    async def on_loop(self) -> bool:
        """Wait on the event loop, which goes on meanwhile; return whether it is over."""
        look = sync_to_async(self._is_over)
        began = clock.now()
        while True:
            looked_at = clock.now()
            if await look():
                return True
            pause = self._pause(began, looked_at)
            if pause <= 0:
                return False
            await asyncio.sleep(pause)

    def _pause(self, began: float, looked_at: float) -> float:
        """Return the seconds until the next look; none are left if there is to be no other."""
        now = clock.now()
        pause = min(max(_SHORTEST, (now - began) * _PART), _LONGEST)
        pause = max(pause, (now - looked_at) * _LOOKS)
        if self.timeout is not None:
            pause = min(pause, self.timeout - (now - began))
        return pause


def wait_for(job: Any, rows: QuerySet[Any], timeout: Duration | None) -> Wait:
    """Return the wait for a job's end, which leaves the instance as the row is then."""
    return Wait(lambda: has_ended(job, rows), timeout)


def has_ended(job: Any, rows: QuerySet[Any]) -> bool:
    """Look whether the job has ended; then the instance is read anew.

    Raises JobGone, and WaitInTransaction where the answer could only ever be no.
    """

    def look() -> bool:
        status = list(rows.filter(pk=job.pk).values_list("status", flat=True))
        if status and status[0] not in FINAL:
            return False
        read(job, rows)
        # Somebody may just have run it again.
        return job.status in FINAL

    return _seen(look, rows)


def have_ended(jobs: QuerySet[Any], rows: QuerySet[Any]) -> bool:
    """Look whether none of these jobs waits or runs; `jobs`: a queryset, asked anew."""
    if jobs.query.is_sliced:
        found = jobs.values_list("pk", "status")
        return _seen(lambda: all(status in FINAL for _, status in found.all()), rows)
    unfinished = jobs.filter(status__in=[Status.PENDING, Status.RUNNING])
    # From the newest on, which mostly end last.
    newest = unfinished.order_by("-pk").values_list("pk", flat=True)
    return _seen(lambda: not list(newest[:1]), rows)


def result_of(job: Any) -> Any:
    """Return the result of a job that has ended; raises JobFailed or JobWasCancelled."""
    if job.status == Status.CANCELLED:
        raise JobWasCancelled(job.pk)
    if job.status == Status.FAILED:
        raise _failure(job)
    return job.result


def overdue(job: Any, rows: QuerySet[Any], timeout: float | None) -> WaitTimeout:
    """Return the error of a wait that has ended before the job, which is read anew."""
    read(job, rows)
    return WaitTimeout(f"job {job.pk} ({job.status})", timeout)


def read(job: Any, rows: QuerySet[Any]) -> None:
    """Read the instance anew; raises JobGone."""
    try:
        job.refresh_from_db(using=rows.db)
    except rows.model.DoesNotExist:
        raise JobGone(job.pk) from None


def _seen(look: Callable[[], bool], rows: QuerySet[Any]) -> bool:
    over = db.rerun(look, using=rows.db, seconds=_RERUN_FOR)
    if not over and db.in_transaction(transaction.get_connection(rows.db)):
        raise WaitInTransaction(rows.db)
    return over


def _failure(job: Any) -> JobFailed:
    errors = job.errors if isinstance(job.errors, list) else []
    last = errors[-1] if errors and isinstance(errors[-1], dict) else {}
    return JobFailed(
        job.pk,
        last.get("exception_class", ""),
        last.get("message", "its error was not kept"),
        last.get("traceback", ""),
    )
