"""Rows of every kind, in which every text is markup that would run if it were taken so."""

import itertools

from django_leasequeue.models import Job, Queue, Schedule
from tests.admin.looking import make_worker, step_of
from tests.factories import JobFactory
from tests.scheduling import a_schedule

SCRIPT = "<script>window.ran = 1</script>"
HANDLER = '"><img src=x onerror="window.ran = 1">'
MARKUP = SCRIPT + HANDLER
LONG = MARKUP + "wide" * 60
ERROR = {
    **dict.fromkeys(("exception_class", "message", "worker"), MARKUP),
    "traceback": f"Traceback\n  File {MARKUP}\n    {LONG}\n",
    "attempt": 1,
    "at": "2026-01-02T03:04:05+00:00",
    "times": 3,
    MARKUP: MARKUP,
}
STATES = ("scheduled", "leased", "expired", "succeeded", "failed", "cancelled")


def fill():
    """Make them."""
    numbers = itertools.count()
    for state in ("pending", *STATES):
        number = next(numbers)
        job = JobFactory(
            **({} if state == "pending" else {state: True}),
            queue=MARKUP,
            task=LONG,
            group=MARKUP,
            dedup_id=f"{number} {LONG}",
            released_dedup_id=MARKUP,
            worker=MARKUP,
            worker_ids=f"{MARKUP}\n{MARKUP}",
            concurrency_key=MARKUP,
            concurrency_limit=2,
            schedule=MARKUP,
            args=[LONG],
            kwargs={MARKUP: [MARKUP]},
            next_args=[MARKUP],
            next_kwargs={MARKUP: 1},
            result=MARKUP,
            progress={"text": MARKUP, "done": 1, "total": 3},
            meta={MARKUP: MARKUP},
            errors=[ERROR, MARKUP, {"traceback": MARKUP}],
        )
        if job.claims:
            step_of(job, name=MARKUP, result=MARKUP, worker=MARKUP)
    make_worker(name=MARKUP, host=MARKUP, queues=[MARKUP], tasks=[MARKUP])
    make_worker(name="lost:7:abc")
    for name in (MARKUP, "mail"):
        Queue.objects.pause(name, by=MARKUP, reason=MARKUP)
    Queue.objects.resume("mail", by=MARKUP)
    broken = a_schedule(name=MARKUP)
    Schedule.objects.filter(pk=broken.pk).update(
        problem=MARKUP, skipped_why=MARKUP, paused_by=MARKUP, last_job=job.pk
    )
    a_schedule(name="nightly")
    return Job.objects.order_by("pk")
