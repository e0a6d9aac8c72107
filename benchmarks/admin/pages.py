"""The pages that are opened, by name."""

from datetime import UTC, datetime, timedelta

from django_leasequeue.models import Job

_ADMIN = "/admin/leasequeue/"
_LIST = {
    "plain": "",
    "second page": "p=2",
    "last page": "p={last}",
    "from the middle on": "from={middle}",
    "oldest first": "o=1",
    "oldest first, last page": "o=1&p={last}",
    "pending": "status__exact=pending",
    "running": "status__exact=running",
    "succeeded": "status__exact=succeeded",
    "succeeded, last page": "status__exact=succeeded&p={last_ended}",
    "failed": "status__exact=failed",
    "failed, oldest first": "status__exact=failed&o=1",
    "cancelled": "status__exact=cancelled",
    "of a queue": "queue=q1",
    "of a queue of one job": "queue=rare",
    "failed of a queue": "queue=q1&status__exact=failed",
    "of a task": "task=shop.tasks.task_1",
    "of a task of one job": "task=rare",
    "failed of a task": "status__exact=failed&task=shop.tasks.task_0",
    "of a group": "group=import-1",
    "failed of a group": "group=import-1&status__exact=failed",
    "of a group of one job": "group=small",
    "of a schedule": "schedule=nightly",
    "a month": "dispatched={month}",
    "a day": "dispatched={day}",
    "an hour": "dispatched={hour}",
    "failed of a day": "dispatched={day}&status__exact=failed",
    "a filter by hand that finds nothing": "attempts__gt=7",
    "search: an id": "q={middle}",
    "search: a dedup id": "q=receipt:7",
    "search: a group": "q=small",
    "search: a task": "q=rare",
    "search: a part of a task": "q=task_1",
    "search: text of arguments": "q=order-7",
    "search: nothing": "q=nowhere",
    "search among failed": "q=task_1&status__exact=failed",
}


def pages() -> dict[str, str]:
    """Return the addresses, as fits the table that there is."""
    ids = Job.objects.order_by("pk")
    first, last = ids.first(), ids.last()
    count = min(Job.objects.count(), 10_000)
    ended = min(Job.objects.filter(status="succeeded").count(), 10_000)
    day = datetime.now(UTC) - timedelta(days=15)
    words = {
        "last": count // 100,
        "last_ended": ended // 100,
        "middle": (first.pk + last.pk) // 2,
        "month": f"{day:%Y-%m}",
        "day": f"{day:%Y-%m-%d}",
        "hour": f"{day:%Y-%m-%dT%H}",
    }
    found = {
        f"list: {name}": f"{_ADMIN}job/?{query.format(**words)}"
        for name, query in _LIST.items()
    }
    for status in ("succeeded", "failed", "pending", "running"):
        job = Job.objects.filter(status=status, pk__gt=first.pk + 3).first()
        found[f"job: {status}"] = f"{_ADMIN}job/{job.pk}/change/"
    return found | {
        "queues": f"{_ADMIN}queue/",
        "queue: add": f"{_ADMIN}queue/add/",
        "queue: paused": f"{_ADMIN}queue/q3/change/",
        "workers": f"{_ADMIN}worker/",
        "schedules": f"{_ADMIN}schedule/",
    }
