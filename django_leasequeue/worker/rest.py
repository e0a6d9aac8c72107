"""The loop's sleep after a look that found nothing, and what ends it early."""

from typing import Protocol

from django.db import connections

from django_leasequeue import db
from django_leasequeue.conf import conf
from django_leasequeue.worker.listener import Listener
from django_leasequeue.worker.options import WorkerOptions
from django_leasequeue.worker.wakeup import Pace, Wakeup
from django_leasequeue.worker.watch import Watch


class Bell(Protocol):
    """Ends the loop's sleep when there may be a job."""

    @property
    def interval(self) -> float:
        """The longest sleep, in seconds: how far this bell may be relied on."""
        ...

    def sleep(self, seconds: float) -> None:
        """Sleep for so long at the most. What happened since the last look ends it at once."""

    def found(self) -> None:
        """Note that a look has found jobs."""

    def close(self) -> None:
        """Ring no more."""


class Rest:
    """Sleeps for the loop, in the loop's thread."""

    def __init__(self, options: WorkerOptions, wakeup: Wakeup) -> None:
        self._pace = Pace()
        self._bell = _bell(options, wakeup)

    def found(self) -> None:
        """Note that a look has found jobs."""
        self._pace.found()
        self._bell.found()

    def sleep(self, due_in: float | None, at_most: float) -> None:
        """Sleep until there may be a job, or for `at_most` seconds; `due_in`: see Claim."""
        self._bell.sleep(min(self._pace.pause(due_in, self._bell.interval), at_most))

    def close(self) -> None:
        """Leave nothing behind."""
        self._bell.close()


class Silent:
    """No bell at all: the loop looks at each POLL_INTERVAL."""

    def __init__(self, wakeup: Wakeup) -> None:
        self._wakeup = wakeup

    @property
    def interval(self) -> float:
        return conf.poll_interval

    def sleep(self, seconds: float) -> None:
        self._wakeup.sleep(seconds)

    def found(self) -> None:
        pass

    def close(self) -> None:
        pass


def _bell(options: WorkerOptions, wakeup: Wakeup) -> Bell:
    connection = connections[options.database]
    # A drain sleeps only for moments, and somebody's transaction sees what is in it anyway.
    if options.drain or connection.in_atomic_block:
        return Silent(wakeup)
    if connection.vendor != "postgresql":
        return Watch(options.database, wakeup)
    if not (conf.notify and db.can_listen(connection)):
        return Silent(wakeup)
    return Listener(options.database, wakeup)
