"""An afternoon at the example shop: rows that people can look at, in screenshots."""

import math
import random
import uuid
from datetime import UTC, datetime, timedelta

from django_leasequeue import cron, every
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Queue, Schedule, Step, Tally, Worker
from django_leasequeue.states import Status

MAIL, STOCK, REPORT, COUNT, MONTH = (
    f"shop.tasks.{name}"
    for name in (
        "send_receipt",
        "book_stock",
        "build_report",
        "take_stock",
        "report_month",
    )
)
WORKERS = ["worker-1:812:k3f9", "worker-1:815:t0qz", "worker-2:640:b7ma"]
TRACEBACK = """\
Traceback (most recent call last):
  File "/srv/shop/shop/tasks.py", line 46, in build_report
    raise ConnectionError("The exchange rates are not there yet.")
ConnectionError: The exchange rates are not there yet.
"""


def fill():
    """Make jobs of some hours, workers, a paused queue and schedules; return the jobs."""
    rng = random.Random(7)
    jobs = [
        _finished(rng, ago, 7000 + n) for n, ago in enumerate(range(9000, 300, -70))
    ]
    jobs += [_failed(rng, ago, 210 + n) for n, ago in enumerate((5200, 3100, 1500))]
    jobs += [_running(rng, 40 - 9 * n, 213 + n) for n in range(4)]
    jobs += [_waiting(rng, 30 - 3 * n, 7220 + n) for n in range(9)]
    jobs.append(_waiting(rng, 240, 7300, delay=3600))
    jobs.sort(key=lambda job: job.ago, reverse=True)
    Job.objects.bulk_create(jobs)
    started = DatabaseNow(-timedelta(hours=7))
    for number, name in enumerate(WORKERS):
        Worker.objects.create(
            name=name,
            host=name.partition(":")[0],
            pid=int(name.split(":")[1]),
            queues=["mail", "*"],
            tasks=[MAIL, STOCK, REPORT, COUNT, MONTH],
            versions={"python": "3.13.1", "django": "6.1.3"},
            started_at=started,
            last_seen_at=DatabaseNow(-timedelta(seconds=2 + 3 * number)),
        )
    Queue.objects.pause("stocktake", by="ann", reason="The shelves are being moved.")
    _schedule(MONTH, cron("0 6 1 * *", tz="Europe/Paris"), origin="code")
    _schedule(REPORT, every(minutes=15), name="sales", fired=212, args=[212])
    for job in Job.objects.filter(task=REPORT, attempts__gt=0):
        for name, result in (("orders", 214), ("total", "7276.00")):
            Step.objects.create(
                job=job,
                round=1,
                name=name,
                result=result,
                seconds=0.084,
                attempt=1,
                worker=WORKERS[0],
                recorded_at=job.started_at + timedelta(seconds=0.5),
            )
    _tally(rng)
    return Job.objects.all()


def stay_alive():
    """Have the workers seen just now, however long pictures take."""
    Worker.objects.update(last_seen_at=DatabaseNow(-timedelta(seconds=3)))


def the_failed():
    """Return the job whose page has the most to tell."""
    return Job.objects.filter(task=REPORT, status=Status.FAILED).latest("pk")


def _tally(rng):
    """Make a day's numbers, of busy and of quiet hours."""
    minute = datetime.now(UTC).replace(second=0, microsecond=0)
    tallies = [
        Tally(
            minute=minute - timedelta(minutes=ago),
            succeeded=int((4 + 3 * math.sin(ago / 230)) * rng.uniform(0.4, 1.6)),
            failed=int(rng.random() < 0.02),
        )
        for ago in range(2, 1440)
    ]
    Tally.objects.bulk_create(tallies)


def _schedule(task, rule, **values):
    half = timedelta(minutes=30)
    made = DatabaseNow(-timedelta(days=3))
    Schedule.objects.create(
        **{
            "name": task,
            **rule.columns(task),
            "created_at": made,
            "since": made,
            "last_tick": DatabaseNow(-half / 6),
            "next_tick": DatabaseNow(half / 3),
            **values,
        }
    )


def _job(rng, task, queue, number, ago, **values):
    if task == MAIL:
        values["dedup_id"] = f"receipt:{number}"
    job = Job(
        **{
            "task": task,
            "queue": queue,
            "args": [number],
            "created_at": DatabaseNow(-timedelta(seconds=ago)),
            "run_at": DatabaseNow(-timedelta(seconds=ago)),
            "max_attempts": {MAIL: 5, REPORT: 3}.get(task, 1),
            "priority": 50 if task == REPORT else 0,
            **values,
        }
    )
    job.ago = ago
    return job


def _kind(rng):
    return rng.choice([(MAIL, "mail"), (MAIL, "mail"), (STOCK, "default")])


def _ran(rng, ago, took):
    worker = rng.choice(WORKERS)
    return {
        "worker": worker,
        "worker_ids": worker,
        "claims": 1,
        "started_at": DatabaseNow(-timedelta(seconds=ago)),
        "last_attempted_at": DatabaseNow(-timedelta(seconds=ago)),
        "finished_at": DatabaseNow(-timedelta(seconds=ago - took)),
        "last_token": uuid.UUID(int=rng.getrandbits(128)),
    }


def _finished(rng, ago, number):
    task, queue = _kind(rng)
    values = _ran(rng, ago - rng.uniform(0.02, 2), rng.uniform(0.05, 0.4))
    return _job(
        rng, task, queue, number, ago, status=Status.SUCCEEDED, attempts=1, **values
    )


def _failed(rng, ago, number):
    values = _ran(rng, ago - 1, 90) | {"claims": 3, "attempts": 3, "worker": WORKERS[2]}
    values["worker_ids"] = "\n".join(WORKERS)
    began = datetime.now(UTC) - timedelta(seconds=ago - 1)
    values["started_at"] = began
    values["last_attempted_at"] = began + timedelta(seconds=89)
    errors = [
        {
            "exception_class": "builtins.ConnectionError",
            "message": "The exchange rates are not there yet.",
            "traceback": TRACEBACK,
            "attempt": attempt,
            "claim": attempt,
            "at": (began + timedelta(seconds=after + 1)).isoformat(),
            "started_at": (began + timedelta(seconds=after)).isoformat(),
            "worker": WORKERS[attempt - 1],
        }
        for attempt, after in ((1, 0), (2, 29), (3, 89))
    ]
    return _job(
        rng, REPORT, "default", number, ago, errors=errors, group="evening",
        status=Status.FAILED, meta={"asked_by": 1}, **values,
    )  # fmt: skip


def _running(rng, ago, number):
    task, queue = (STOCK, "default") if number % 2 else (REPORT, "default")
    values = _ran(rng, ago - 1, 0) | {
        "finished_at": None,
        "last_token": None,
        "status": Status.RUNNING,
        "processing_token": uuid.UUID(int=rng.getrandbits(128)),
        "processing_until": DatabaseNow(timedelta(seconds=250)),
    }
    if task == REPORT:
        values["progress"] = {"done": 7, "total": 12, "text": "July"}
    return _job(rng, task, queue, number, ago, **values)


def _waiting(rng, ago, number, delay=0):
    task, queue = _kind(rng)
    if number % 4 == 0:
        task, queue = COUNT, "stocktake"
    values = {"run_at": DatabaseNow(timedelta(seconds=delay))} if delay else {}
    return _job(rng, task, queue, number, ago, **values)
