"""What must be true besides when a cluster is left alone."""

import re
from collections import Counter, defaultdict

from django.db.models import Count, Max, Sum

from benchmarks.models import ChaosEffect, FloorJob
from benchmarks.tasks import STEPS
from benchmarks.ticking.crew import verdict as of_ticks
from django_leasequeue.models import Job, Schedule, Step

# A line that a worker writes once an outcome is stored.
_SUCCEEDED = re.compile(r"Job (\d+) \(\w+\) succeeded")
# By table: what two nodes never do is differ.
_TABLES = [
    model._meta.db_table for model in (Job, Step, Schedule, ChaosEffect, FloorJob)
]


def wrong(told, logs, nodes, locks):
    """Return what is wrong, as sentences.

    `told`: what each dispatcher has met. `logs`: what each worker wrote. `locks`: the folder
    in which tasks tell that more of them ran than may.
    """
    found = [
        f"A dispatcher met {number} times {error}."
        for one in told
        for error, number in one["errors"].items()
    ]
    settled = Counter(pk for log in logs for pk in _SUCCEEDED.findall(log))
    found += [f"Job {pk} was settled {n} times." for pk, n in settled.items() if n > 1]
    overlaps = locks / "overlaps"
    if overlaps.exists():
        found += overlaps.read_text().splitlines()
    ticks = Job.objects.filter(tick__isnull=False).values_list("tick", "created_at")
    found += of_ticks(Schedule.objects.get(), ticks)[0]
    return found + _halves() + _early() + _repeated() + _differences(nodes)


def _halves():
    """Callers' transactions of which only a part is there."""
    jobs = dict(Job.objects.values_list("pk", "meta"))
    theirs = list(FloorJob.objects.values_list("args", flat=True))
    added = {pk for pk, was_added in theirs if was_added}
    inside = {pk for pk, meta in jobs.items() if meta.get("inside")}
    lost = {pk for pk, _ in theirs} - jobs.keys()
    found = [f"A caller has job {pk}, which is lost." for pk in lost]
    found += [f"Job {pk} has no caller." for pk in inside - added]
    return found + [f"Job {pk} is another caller's." for pk in added - inside]


def _early():
    """Jobs that were over before the group had ended that they were to follow.

    Not by when they started: that is when the claim was begun that took them, and one that
    was held up then takes what has become free meanwhile.
    """
    ends = dict(
        Job.objects.filter(group__isnull=False)
        .values_list("group")
        .annotate(Max("finished_at"))
    )
    return [
        f"Job {pk} has not waited for {meta['after']}."
        for pk, meta, finished_at in Job.objects.values_list(
            "pk", "meta", "finished_at"
        )
        if "after" in meta and finished_at < ends[meta["after"]]
    ]


def _repeated():
    """Jobs of which a step ran again once it was recorded, or was recorded by a stale run."""
    found, results = [], defaultdict(list)
    for pk, result in Step.objects.order_by("name").values_list("job", "result"):
        results[pk].append(result)
    ran = defaultdict(lambda: [0] * STEPS)
    of_steps = ChaosEffect.objects.filter(step__gt=0)
    for pk, step, claim in of_steps.values_list("job", "step", "claim"):
        ran[pk][step - 1] = max(ran[pk][step - 1], claim)
    for pk in Job.objects.filter(task="chaos_steps").values_list("pk", flat=True):
        # Each step's last run is the one that was recorded, and what all later ones went by.
        if results[pk] != [ran[pk][: n + 1] for n in range(STEPS)]:
            found.append(
                f"Job {pk} took its steps in {ran[pk]}, stored: {results[pk]}."
            )
    return found


def _differences(nodes):
    """Tables of which not every node has the same."""
    found = []
    for table in _TABLES:
        sums = {node.port: node.checksum(f"benchmark.{table}") for node in nodes}
        if len(set(sums.values())) > 1:
            found.append(f"The nodes differ in {table}: {sums}.")
    return found


def figures(told, nodes):
    """Return counts for the table."""
    refusals = ("wsrep_local_cert_failures", "wsrep_local_bf_aborts")
    return {
        "steps": Step.objects.count(),
        "groups": Job.objects.aggregate(count=Count("group", distinct=True))["count"],
        "ticks": Schedule.objects.get().fired,
        "skipped": Job.objects.aggregate(sum=Sum("suppressed"))["sum"],
        "refused": sum(int(node.status(name)) for node in nodes for name in refusals),
        "again": sum(one["again"] for one in told),
        "away": sum(one["away"] for one in told),
    }
