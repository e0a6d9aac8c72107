"""Processes that make ticks of one schedule, and are killed without a word."""

from benchmarks.ticking.crew import Crew, verdict
from django_leasequeue import every
from django_leasequeue.models import Job, Schedule
from tests.helpers import eventually, worker_environment
from tests.scheduling import SECOND, a_schedule


def test_130_one_job_of_each_tick_whoever_is_killed():
    """Case 130; eight processes and a minute are `python -m benchmarks.ticking`'s."""
    # Some ticks are past, so that there is work from the first kill on.
    rule = every(seconds=1, missed="all", overlap="allow", args=[1, 2])
    a_schedule(rule, ago=20 * SECOND)
    crew = Crew(3, worker_environment())
    try:
        crew.wait_until_ticking()
        crew.run(2, kill_every=0.3, replaced=False)
        eventually(lambda: Schedule.objects.get().fired > 22)
    finally:
        crew.close()
    wrong, _ = verdict(
        Schedule.objects.get(), Job.objects.values_list("tick", "created_at")
    )
    assert wrong == [] and crew.killed
