"""What the tests of the admin look at, and how."""

import re
from datetime import UTC, datetime, timedelta

from django.db import connection
from django.test.utils import CaptureQueriesContext

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Step, Worker

JOBS = "/admin/leasequeue/job/"
QUEUES = "/admin/leasequeue/queue/"
WORKERS = "/admin/leasequeue/worker/"
NOON = datetime(2026, 7, 1, 12, 0, 7, tzinfo=UTC)


def make_worker(*, using="default", **values):
    return Worker.objects.using(using).create(
        **{
            "name": "host:7:abc",
            "host": "host",
            "pid": 7,
            "queues": ["mail", "*"],
            "tasks": ["tests.tasks.add"],
            "versions": {"python": "3.13"},
            "started_at": DatabaseNow(-timedelta(hours=2)),
            "last_seen_at": DatabaseNow(-timedelta(seconds=3)),
            **values,
        }
    )


def step_of(job, **values):
    usual = {"round": job.round, "result": 1, "seconds": 0.25, "attempt": 1}
    Step.objects.create(job=job, recorded_at=DatabaseNow(), **{**usual, **values})


def page(client, url, status=200):
    """Return the HTML of a page, without the places where a name may break."""
    response = client.get(url)
    assert response.status_code == status, response
    return response.content.decode().replace("<wbr>", "")


def page_of(client, job):
    return page(client, f"{JOBS}{job.pk}/change/")


def listed(client, query=""):
    """Return the ids of the listed jobs, in order."""
    return [job.pk for job in client.get(JOBS + query).context["cl"].result_list]


def found(client, text):
    return client.get(JOBS, {"q": text}).context["cl"].result_list


def line_of(html, name):
    """Return the text of a field of a page, alone on its line or one of several."""
    start = rf'(?:fieldBox|form-row) field-{name}">'
    match = re.search(
        rf'{start}.*?<div class="readonly">(.*?)</div>\s*</div>', html, re.S
    )
    return " ".join(re.sub(r"<[^>]+>", " ", match[1]).split())


def statements(client, url):
    """Return what a page asks the database, once content types are cached."""
    page(client, url)
    with CaptureQueriesContext(connection) as captured:
        page(client, url)
    return [query["sql"] for query in captured]
