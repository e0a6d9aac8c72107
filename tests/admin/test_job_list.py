"""The list of jobs: what it shows, what it costs, what it finds."""

import re
from datetime import timedelta

import pytest

from django_leasequeue.admin import JobAdmin, listing, reach
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
from django_leasequeue.times import local_time
from tests.admin.looking import (
    JOBS,
    NOON,
    WORKERS,
    found,
    line_of,
    listed,
    page,
    page_of,
    statements,
)
from tests.factories import JobFactory

AROUND = ("SAVEPOINT", "RELEASE SAVEPOINT")

# --- The list


def test_list(admin_client):
    """One row a job, newest first, with what one looks for at a glance."""
    JobFactory(dedup_id="receipt:7", priority=-3, max_attempts=5)
    JobFactory(failed=True, queue="mail", created_at=DatabaseNow(-timedelta(hours=3)))
    html = page(admin_client, JOBS)
    for text in (
        '<span class="leasequeue-status leasequeue-pending">Pending</span>',
        '<span class="leasequeue-status leasequeue-failed">Failed</span>',
        "tests.tasks.add",
        "receipt:7",
        "-3",
        "0 / 5",
        "1 / 1",
        "3\xa0hours</time>",
        "leasequeue/admin.css",
    ):
        assert text in html
    assert html.index("leasequeue-failed") < html.index("leasequeue-pending")


def ago(**values):
    return DatabaseNow(-timedelta(**values))


def test_how_long_a_job_waits_runs_or_ran(admin_client):
    """By the database's clock, in words, with the exact times beside them."""
    began, took = ago(hours=3, seconds=5), ago(hours=3)
    for text, values in {
        "has waited for 3 minutes": {"run_at": ago(minutes=3, seconds=9)},
        "due in 59 minutes": {"run_at": DatabaseNow(timedelta(minutes=59, seconds=59))},
        "waits for a slot, due for 2 hours": {"run_at": ago(minutes=125), "blocked": 1},
        "waits for a group, due for 5 days": {"run_at": ago(days=5), "blocked": 2},
        "has run for 7 minutes": {
            "leased": True,
            "last_attempted_at": ago(minutes=7, seconds=9),
        },
        "took 5 seconds": {
            "succeeded": True,
            "last_attempted_at": began,
            "finished_at": took,
        },
        "took 250 ms": {
            "failed": True,
            "last_attempted_at": NOON,
            "finished_at": NOON + timedelta(milliseconds=250),
        },
        "never ran": {"cancelled": True, "last_attempted_at": None},
    }.items():
        job = JobFactory(**values)
        told = column_of(page(admin_client, JOBS), "timing")
        assert text in told, (text, told)
        at = job.finished_at or job.last_attempted_at or job.run_at
        assert f'<time datetime="{at.isoformat()}" title="' in told
        assert local_time(at) in told
        job.delete()


def test_attempts_and_recoveries(admin_client):
    """Lost workers are told where there were any."""
    JobFactory(attempts=1, max_attempts=5, recoveries=2, suspect=1)
    html = page(admin_client, JOBS)
    assert column_of(html, "attempts_made") == "1 / 5, 2 recoveries"


def column_of(html, name):
    """Return the cell of a list's first row."""
    return re.search(rf'<td class="field-{name}">(.*?)</td>', html, re.S)[1]


def test_empty_list(admin_client):
    """Nothing dispatched yet."""
    assert "0 jobs" in page(admin_client, JOBS)
    assert "0 workers" in page(admin_client, WORKERS)


def test_long_names_are_cut_in_the_list_only(admin_client):
    """A column stays readable; the whole name is its title, and on the job's page."""
    job = JobFactory(dedup_id="x" * 510)
    assert f'title="{"x" * 510}">{"x" * 60}…<' in page(admin_client, JOBS)
    assert line_of(page_of(admin_client, job), "dedup_id") == "x" * 510


@pytest.mark.parametrize("query", ["", "?q=add", "?status__exact=pending&queue=mail"])
def test_list_takes_the_same_queries_for_any_number_of_jobs(admin_client, query):
    """Case 172: no query a row, none for wide columns, no count of a whole table."""
    JobFactory(queue="mail")
    few = statements(admin_client, JOBS + query)
    JobFactory.create_batch(30, queue="mail")
    many = statements(admin_client, JOBS + query)
    assert len(many) == len(few) <= 22
    of_jobs = [sql for sql in many if "leasequeue_job" in sql]
    for sql in of_jobs:
        selected = sql.split("WHERE")[0]
        assert not re.search(
            r"\b(args|kwargs|result|errors|meta|worker_ids)\b", selected
        )
        assert "COUNT(" not in sql or " LIMIT 10001)" in sql


@pytest.mark.parametrize("query", ["", "?q=add", "?p=2", "?status__exact=running"])
def test_looking_only_reads(admin_client, query):
    """Case 179: no lock, no write that a worker would have to wait for."""
    job = JobFactory(leased=True)
    JobFactory.create_batch(150)
    for url in (JOBS + query, f"{JOBS}{job.pk}/change/", f"{JOBS}{job.pk}/history/"):
        for sql in statements(admin_client, url):
            # The second: on PostgreSQL a setting of the planner's holds for the list alone.
            assert sql.lstrip().startswith(("SELECT", "WITH", *AROUND)), sql
            assert "FOR UPDATE" not in sql


def test_list_of_more_than_anybody_turns_over(admin_client, monkeypatch):
    """Rows beyond the newest are neither counted nor paged to; a line says that there are more."""
    monkeypatch.setattr(listing, "MOST", 5)
    monkeypatch.setattr(JobAdmin, "list_per_page", 2)
    jobs = [job.pk for job in JobFactory.create_batch(5)][::-1]
    assert "There are more" not in page(admin_client, JOBS)
    jobs.insert(0, JobFactory().pk)
    html = page(admin_client, JOBS)
    assert "There are more; the newest 5 are listed." in html
    assert listed(admin_client) == jobs[:2]
    assert listed(admin_client, "?p=3") == jobs[4:5]
    assert admin_client.get(JOBS + "?p=4").status_code == 302


def test_only_cheap_orders(admin_client):
    """By id and age, which are one; other columns offer no sort."""
    jobs = [job.pk for job in JobFactory.create_batch(3)]
    html = page(admin_client, JOBS)
    assert html.count('class="sortable') - html.count('class="sortable sorted') == 2
    # The first column is that of the boxes to tick.
    assert listed(admin_client, "?o=1") == jobs
    assert listed(admin_client, "?o=7") == listed(admin_client, "?o=-1") == jobs[::-1]
    assert admin_client.get(JOBS + "?o=rubbish").status_code == 200


# --- Filters


def test_filter_by_status(admin_client):
    """Each status finds its own."""
    made = {
        "pending": JobFactory(),
        "running": JobFactory(leased=True),
        "succeeded": JobFactory(succeeded=True),
        "failed": JobFactory(failed=True),
        "cancelled": JobFactory(cancelled=True),
    }
    for status, job in made.items():
        assert listed(admin_client, f"?status__exact={status}") == [job.pk]


def test_filter_by_queue(admin_client):
    """The queues that jobs are in are offered, whatever their status, and compared exactly."""
    job = JobFactory(queue="mail", succeeded=True)
    JobFactory(queue="Mail")
    JobFactory(queue="reports & more")
    html = page(admin_client, JOBS)
    for name in ("?queue=mail", "?queue=Mail", "?queue=reports+%26+more"):
        assert f'href="{name}"' in html
    assert listed(admin_client, "?queue=mail") == [job.pk]
    assert listed(admin_client, "?queue=nobody") == []


def test_queues_are_read_step_by_step(monkeypatch):
    """Distinct and in order, no more than asked for, however many jobs each has."""
    assert reach.queues(Job.objects.all()) == []
    for queue in ("c", "a", "b", "a", "c"):
        JobFactory(queue=queue)
    assert reach.queues(Job.objects.all()) == ["a", "b", "c"]
    monkeypatch.setattr(reach, "MOST_QUEUES", 2)
    assert reach.queues(Job.objects.all()) == ["a", "b"]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "query",
    [
        "status__exact=rubbish",
        "status__exact=%00",
        "queue=%00",
        "queue=%F0%9F%92%8C",
        "queue=" + "x" * 5_000,
        "id__gt=abc",
        "id__in=" + "9" * 30,
        "created_at__year=" + "9" * 11,
        "dedup_id__regex=(((",
        "nothing=1",
        "p=999999",
        "p=abc",
        "_facets=True",
        "all=",
        "e=1",
    ],
)
def test_addresses_that_nobody_linked_to(admin_client, query):
    """A list, or Django's page about it: never a server error, whatever the database says."""
    JobFactory()
    response = admin_client.get(f"{JOBS}?{query}", follow=True)
    assert response.status_code in (200, 400)


# --- Search

TERMS = [
    "",
    " ",
    "abc",
    "6ba7b810-9dad-11d1",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "%",
    "100%",
    "_",
    "'",
    '"',
    "\\",
    "a\0b",
    "\U0001f48c",
    "x" * 5_000,
    "7" * 5_000,
    "9" * 19,
    "-1",
    "1e3",
    "²",
    "\u0661",
    "'; DROP TABLE leasequeue_job; --",
    '{"a": 1}',
]


@pytest.mark.parametrize("term", TERMS)
def test_search_takes_any_text(admin_client, term):
    """Case 175: a result or an empty page, never an error."""
    JobFactory(keyed=True)
    assert admin_client.get(JOBS, {"q": term}).status_code == 200
    assert admin_client.get(JOBS, {"q": term, "queue": "default"}).status_code == 200


def test_search_finds(admin_client):
    """By id, whole dedup id, and parts of task, group, dedup id and former dedup id."""
    JobFactory(task="shop.other")
    job = JobFactory(
        task="shop.tasks.send_receipt",
        dedup_id=" 100% sure ",
        group="order\\7",
        released_dedup_id="former:\U0001f48c",
    )
    for term in (
        str(job.pk),
        f" {job.pk} ",
        " 100% sure ",
        "100% s",
        "send_rec",
        "order\\7",
        "former:",
        "\U0001f48c",
    ):
        assert list(found(admin_client, term)) == [job], term
    for term in ("sendXrec", "100_ s", str(job.pk + 1_000)):
        assert list(found(admin_client, term)) == [], term


def test_search_for_a_dedup_id_goes_through_the_index(admin_client, monkeypatch):
    """A whole id is found however old its job is; a part of one only among the newest."""
    old = JobFactory(dedup_id="receipt:7", queue="mail")
    JobFactory.create_batch(3)
    monkeypatch.setattr(reach, "NEXT", 2)
    assert list(found(admin_client, "receipt:7")) == [old]
    assert list(found(admin_client, "receipt")) == []
    assert list(found(admin_client, str(old.pk))) == [old]
    # Only the search for parts says how far it has looked.
    assert "Looked through 2 jobs" in page(admin_client, JOBS + "?q=receipt")
    assert "Looked through" not in page(admin_client, JOBS + "?q=receipt:7")


def test_search_keeps_to_the_filter(admin_client):
    """Both hold: what is found is of that status."""
    JobFactory(dedup_id="receipt:7")
    failed = JobFactory(failed=True)
    query = {"q": "tasks.add", "status__exact": "failed"}
    assert list(admin_client.get(JOBS, query).context["cl"].result_list) == [failed]
