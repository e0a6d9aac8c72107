"""Fixtures for pytest-django; pytest finds them by itself once the package is installed.

pytest imports this module in every project, before Django is set up if ever, so it imports
nothing until a test asks for one. What the fixtures give has its type here under a name that
a test can annotate: `run_jobs: RunJobs`, `capture_jobs: CaptureJobs`; that of `jobs_clock`
is `testing.clock.Clock`.
"""

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

import pytest

if TYPE_CHECKING:
    from django_leasequeue.durations import Duration
    from django_leasequeue.testing import Ran
    from django_leasequeue.testing.capture import Captured
    from django_leasequeue.testing.clock import Clock


class RunJobs(Protocol):
    """The function `testing.run_jobs`."""

    def __call__(
        self,
        *,
        through: "Duration" = 0,
        queues: str | Iterable[str] = "*",
        exclude: str | Iterable[str] = "",
        schedules: bool = False,
        raises: bool = True,
        limit: int = 1000,
        using: str | None = None,
    ) -> "list[Ran]": ...


class CaptureJobs(Protocol):
    """The context manager `testing.capture_jobs`."""

    def __call__(
        self, *, on_commit: bool = True, using: str | None = None
    ) -> "AbstractContextManager[Captured]": ...


@pytest.fixture
def run_jobs(db: None) -> RunJobs:
    """The function `testing.run_jobs`."""
    from django_leasequeue import testing

    return testing.run_jobs


@pytest.fixture
def capture_jobs(db: None) -> CaptureJobs:
    """The context manager `testing.capture_jobs`."""
    from django_leasequeue import testing

    return testing.capture_jobs


@pytest.fixture
def jobs_clock(db: None) -> "Iterator[Clock]":
    """The clock of `testing.moving_clock`, for the whole test."""
    from django_leasequeue import testing

    with testing.moving_clock() as clock:
        yield clock
