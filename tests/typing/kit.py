"""The test kit and its fixtures."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from datetime import timedelta
from typing import Any, assert_type

from django_leasequeue import task
from django_leasequeue.models import Job
from django_leasequeue.pytest_fixtures import CaptureJobs, RunJobs
from django_leasequeue.testing import (
    Ran,
    assert_dispatched,
    assert_idempotent,
    capture_jobs,
    moving_clock,
    run_jobs,
    simulate_crash,
    simulate_lost_lease,
)
from django_leasequeue.testing.clock import Clock


@task
def pay(order_id: int) -> str:
    return ""


def functions() -> None:
    assert_type(run_jobs(through=timedelta(hours=1), queues=["mail"]), list[Ran])
    assert_type(run_jobs()[0].job, Job | None)
    assert_type(assert_dispatched(pay, [7], times=1, queue="mail"), Any)
    assert_idempotent(pay, [7], ignore=["shop.Log"])
    with capture_jobs() as jobs:
        pay.dispatch(7)
    assert_type(jobs[0], Job)
    with moving_clock() as clock:
        clock.move(60)
    with simulate_crash(after="run", task=pay), simulate_lost_lease():
        run_jobs(raises=False)


def test_fixtures(
    run_jobs: RunJobs, capture_jobs: CaptureJobs, jobs_clock: Clock
) -> None:
    with capture_jobs(on_commit=False) as jobs:
        pay.dispatch(7)
    assert_type(jobs[0], Job)
    jobs_clock.move(timedelta(days=1))
    assert_type(run_jobs(through=60)[0].word, str)


def refused(run_jobs: RunJobs) -> None:
    run_jobs(thru=1)  # type: ignore[call-arg]
    run_jobs(through="1")  # type: ignore[arg-type]
    assert_dispatched(pay, 7)  # type: ignore[arg-type]
