"""What must be true of every job when the chaos is over."""

from collections import Counter

from benchmarks.models import ChaosEffect
from django_leasequeue.models import Job
from django_leasequeue.states import FINAL, Status


def wrong(added):
    """Return what is wrong, as sentences. `added`: the ids of which a dispatch has told."""
    jobs = {job.pk: job for job in Job.objects.all()}
    found = [f"Job {pk} is lost." for pk in added if pk not in jobs]
    found += [f"Job {pk} was added twice." for pk, n in Counter(added).items() if n > 1]
    of_jobs = ChaosEffect.objects.filter(step=0)
    effects = Counter(of_jobs.values_list("job", flat=True))
    claims = Counter(of_jobs.values_list("job", "claim"))
    found += [f"Claim {claim} ran twice." for claim, n in claims.items() if n > 1]
    for pk, job in jobs.items():
        # One run was recorded, and nothing else was.
        recorded = (job.status, job.attempts, job.result)
        result = job.args[0] if job.task.startswith("chaos") else None
        if recorded != (Status.SUCCEEDED, 1, result):
            found.append(f"Job {pk} ended as {recorded}: {job.errors[-1:]}.")
        if job.task != "chaos":
            continue
        if effects[pk] < 1:
            found.append(f"Job {pk} succeeded without a run.")
        if effects[pk] > 1 + job.recoveries:
            found.append(
                f"Job {pk} ran {effects[pk]} times with {job.recoveries} recoveries, "
                f"by {job.worker_ids.split()}: {job.errors}."
            )
    return found + _twins(jobs.values())


def _twins(jobs):
    """Jobs that held the same dedup id at one time."""
    found, by_id = [], {}
    for job in sorted(jobs, key=lambda job: (job.created_at, job.pk)):
        dedup = job.dedup_id or job.released_dedup_id
        before = by_id.get(dedup) if dedup else None
        if before and (not before.finished_at or job.created_at < before.finished_at):
            found.append(f"Jobs {before.pk} and {job.pk} both held {dedup!r}.")
        by_id[dedup] = job
    return found


def unfinished():
    """Return how many jobs have not ended."""
    return Job.objects.exclude(status__in=FINAL).count()


def figures():
    """Return counts for the table: jobs, effects, recoveries, and the most of one job."""
    recoveries = list(Job.objects.values_list("recoveries", flat=True))
    return {
        "jobs": len(recoveries),
        "effects": ChaosEffect.objects.count(),
        "recoveries": sum(recoveries),
        "most": max(recoveries, default=0),
    }
