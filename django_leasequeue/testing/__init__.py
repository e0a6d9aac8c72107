"""Tools for a project's own tests: jobs are run here and now, in the test. See docs/testing.md."""

from django_leasequeue.testing.capture import assert_dispatched, capture_jobs
from django_leasequeue.testing.clock import moving_clock
from django_leasequeue.testing.faults import simulate_crash, simulate_lost_lease
from django_leasequeue.testing.idempotence import assert_idempotent
from django_leasequeue.testing.inline import Ran, run_jobs

__all__ = [
    "Ran",
    "assert_dispatched",
    "assert_idempotent",
    "capture_jobs",
    "moving_clock",
    "run_jobs",
    "simulate_crash",
    "simulate_lost_lease",
]
