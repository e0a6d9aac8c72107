"""How far lists look: through an index, or at the jobs next to where they begin."""

import re
from datetime import UTC, datetime, timedelta

import pytest
from django.db import connection

from django_leasequeue import db
from django_leasequeue.admin import JobAdmin, listing, reach, search
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import GroupWait, Job
from tests.admin.looking import JOBS, listed, page, statements
from tests.backlog import analyze, multiply
from tests.factories import JobFactory
from tests.plans import watched

FEW = {(reach, "NEXT"): 100, (listing, "MOST"): 100, (reach, "ENTRIES"): 100}


@pytest.fixture
def short_reach(monkeypatch):
    """Let lists look at two jobs where no index leads."""
    monkeypatch.setattr(reach, "NEXT", 2)


# --- What an index leads to is found however far it is


def test_jobs_far_from_the_begin_by_status_queue_and_task(admin_client, short_reach):
    """Case 172: the one failed job of last month, behind thousands."""
    made = {
        "status__exact=pending": JobFactory(priority=7),
        "status__exact=pending&queue=alone": JobFactory(queue="alone", suspect=1),
        "status__exact=running": JobFactory(leased=True),
        "status__exact=failed": JobFactory(failed=True),
        "status__exact=cancelled&queue=mail": JobFactory(cancelled=True, queue="mail"),
        "task=shop.seldom": JobFactory(task="shop.seldom", queue="mail"),
        "queue=q": JobFactory(queue="q", leased=True),
        "group=import": JobFactory(group="import"),
        "group=done&status__exact=succeeded": JobFactory(group="done", succeeded=True),
        "schedule=nightly": JobFactory(schedule="nightly", tick=DatabaseNow()),
        "task=shop.slot": JobFactory(task="shop.slot", blocked=1, concurrency_key="k"),
        "task=shop.after": JobFactory(task="shop.after", blocked=2),
    }
    GroupWait.objects.create(job=made["task=shop.after"], group="import")
    JobFactory.create_batch(3, succeeded=True, queue="other", task="other")
    for query, job in made.items():
        assert job.pk in listed(admin_client, f"?{query}"), query
        assert "Looked through" not in page(admin_client, f"{JOBS}?{query}"), query


def test_more_than_is_read_of_an_index(admin_client, short_reach, monkeypatch):
    """Of each queue and task those that ended last, besides what the list has looked at."""
    monkeypatch.setattr(reach, "ENTRIES", 4)
    ages = (timedelta(hours=hours) for hours in (9, 8, 7, 6))
    many = [JobFactory(failed=True, finished_at=DatabaseNow(-age)) for age in ages]
    one = JobFactory(failed=True, queue="mail")
    JobFactory.create_batch(2)
    query = "?status__exact=failed"
    # Two of each, where there are two lanes; it looks for a third to know of more.
    assert listed(admin_client, query) == [one.pk, many[3].pk, many[2].pk, many[1].pk]
    assert "Looked through 2 jobs" in page(admin_client, JOBS + query)
    assert listed(admin_client, query + "&o=1")[:2] == [many[0].pk, many[1].pk]


def test_more_of_a_group_than_a_list_has(admin_client, monkeypatch):
    """Another filter holds for those that are listed, which it says."""
    monkeypatch.setattr(listing, "MOST", 2)
    old = JobFactory(group="import", failed=True)
    last, _ = JobFactory.create_batch(2, group="import")
    query = "?group=import&status__exact=failed"
    html = page(admin_client, JOBS + query)
    assert f"Looked through 2 jobs, down to job {last.pk}." in html
    assert listed(admin_client, query) == []
    further = admin_client.get(JOBS + query).context["cl"].further
    assert listed(admin_client, further) == [old.pk]
    assert "Looked through" not in page(admin_client, JOBS + further)


# --- Elsewhere it looks at some, says so and goes on


@pytest.mark.parametrize("order", ["", "&o=1"])
def test_every_job_is_reached_by_links(admin_client, short_reach, monkeypatch, order):
    """Of a filter that no index knows, and of the whole table."""
    monkeypatch.setattr(listing, "MOST", 3)
    monkeypatch.setattr(JobAdmin, "list_per_page", 2)
    jobs = [job.pk for job in JobFactory.create_batch(7, max_attempts=4)]
    wanted = jobs if order else jobs[::-1]
    for query, step in (("?max_attempts__gt=3", 2), ("?e=1", 3)):
        seen, url = [], query + order
        while url:
            changes = admin_client.get(JOBS + url).context["cl"]
            seen.append([job.pk for job in changes.result_list])
            url = changes.further
        assert seen == [wanted[n : n + 2] for n in range(0, 7, step)]


def test_it_says_how_far_it_has_looked(admin_client, short_reach):
    """And offers to go on, and back; pages go on from where the list begins."""
    first, *_, last = JobFactory.create_batch(3)
    html = page(admin_client, JOBS + "?max_attempts__gt=3")
    assert f"Looked through 2 jobs, down to job {last.pk - 1}." in html
    [url] = re.findall(r'href="([^"]*from=[^"]*)">Go on from there', html)
    html = page(admin_client, JOBS + url.replace("&amp;", "&"))
    assert "Looked through" not in html
    assert "Back to the first" in html
    html = page(admin_client, JOBS + "?max_attempts__gt=3&o=1")
    assert f"Looked through 2 jobs, up to job {first.pk + 1}." in html


@pytest.mark.parametrize("start", ["abc", "-1", str(2**70), "1.5"])
def test_a_begin_that_is_no_id(admin_client, start):
    """Django's page about it."""
    assert admin_client.get(f"{JOBS}?from={start}").status_code == 302


# --- Filters


def test_filters_offer_what_costs_nothing_to_know(admin_client):
    """Tasks that are registered, schedules that exist; a group once a link names it."""
    job = JobFactory(group="import", task="no.longer.there")
    html = page(admin_client, JOBS)
    assert 'href="?task=tests.tasks.add"' in html
    assert "no.longer.there</a>" not in html.split("changelist-filter-header")[1]
    assert "By group" not in html
    html = page(admin_client, JOBS + "?group=import&task=no.longer.there")
    assert "By group" in html
    assert listed(admin_client, "?group=import&task=no.longer.there") == [job.pk]
    for sql in statements(admin_client, JOBS):
        assert "DISTINCT" not in sql


# --- When they were dispatched


def at(text):
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_periods(admin_client, settings):
    """Case 172: a date hierarchy by ranges of ids: down from the years to an hour, and up."""
    settings.TIME_ZONE = "UTC"
    times = ["2025-12-31T23:59:59", "2026-01-01T00:00:00", "2026-03-05T07:30:00"]
    times += ["2026-03-05T08:00:00", "2026-03-06T00:00:00"]
    made = [JobFactory(created_at=at(time)).pk for time in times]
    for period, some in {
        "2025": made[:1],
        "2026": made[1:],
        "2026-01": made[1:2],
        "2026-02": [],
        "2026-03": made[2:],
        "2026-03-05": made[2:4],
        "2026-03-05T08": made[3:4],
        "2031": [],
    }.items():
        assert listed(admin_client, f"?dispatched={period}") == some[::-1], period
        assert listed(admin_client, f"?dispatched={period}&o=1") == some, period
    wanted = f"?dispatched=2026-03&status__exact=pending&q={made[3]}"
    assert listed(admin_client, wanted) == [made[3]]

    def offered(query):
        hierarchy = admin_client.get(JOBS + query).context["cl"].hierarchy
        back = hierarchy["back"]
        return [
            *([f"< {back['title']}"] if back else []),
            *(choice["title"] for choice in hierarchy["choices"]),
        ]

    assert offered("") == ["2025", "2026"]
    months = ["January 2026", "February 2026", "March 2026"]
    assert offered("?dispatched=2026") == ["< All dates", *months]
    days = [f"March {day}" for day in range(1, 7)]
    assert offered("?dispatched=2026-03") == ["< 2026", *days]
    hours = offered("?dispatched=2026-03-05")
    assert (hours[0], len(hours)) == ("< March 2026", 25)
    assert offered("?dispatched=2026-03-05T08") == ["< March 5", "8 a.m."]
    html = page(admin_client, JOBS + "?dispatched=2026-03&status__exact=pending")
    assert 'href="?dispatched=2026-03-05&amp;status__exact=pending"' in html
    assert 'href="?dispatched=2026&amp;status__exact=pending"' in html


def test_periods_are_of_the_current_time_zone(admin_client, settings):
    """A day begins at midnight there, with and without USE_TZ."""
    job = JobFactory(created_at=at("2026-03-05T20:00:00")).pk
    for settings.USE_TZ in (True, False):
        settings.TIME_ZONE = "Asia/Tokyo"
        assert listed(admin_client, "?dispatched=2026-03-06") == [job]
        assert listed(admin_client, "?dispatched=2026-03-05") == []
        assert listed(admin_client, "?dispatched=2026-03-06T05") == [job]


def test_a_row_of_the_calendars_last_year(admin_client):
    """Somebody's own doing, which takes nobody's list away."""
    jobs = [JobFactory(), JobFactory(created_at=at("9999-12-31T23:00:00"))]
    assert listed(admin_client) == [job.pk for job in jobs[::-1]]


@pytest.mark.parametrize(
    "period", ["x", "", "26", "2026-13", "2026-1", "2026-03-05T8", "0001", "9999"]
)
def test_what_is_no_period(admin_client, period):
    """Django's page about it."""
    assert admin_client.get(f"{JOBS}?dispatched={period}").status_code == 302


def test_no_jobs_and_no_periods(admin_client):
    """Nothing to choose from."""
    assert admin_client.get(JOBS).context["cl"].hierarchy == {"show": False}
    assert listed(admin_client, "?dispatched=2026") == []


@pytest.mark.django_db
def test_ranges_of_keys():
    """Whatever keys are missing, and for instants before, between and after all."""
    assert db.key_ranges(Job.objects.all(), "created_at", [at("2026-01-01")]) == [
        (0, 0)
    ]
    start = at("2026-01-01")
    jobs = [
        JobFactory(created_at=start + timedelta(hours=n), pk=pk).pk
        for n, pk in enumerate([3, 4, 5, 90, 91, 1_000, 50_000, 50_001])
    ]
    instants = [start + timedelta(minutes=30 * n - 30) for n in range(18)]
    for instant in instants:
        [(low, high)] = db.key_ranges(Job.objects.all(), "created_at", [instant])
        before = [
            pk for i, pk in enumerate(jobs) if start + timedelta(hours=i) < instant
        ]
        after = jobs[len(before) :]
        assert all(pk < high for pk in before), instant
        assert all(pk >= low for pk in after), instant
        assert sum(low <= pk < high for pk in jobs) <= 1


# --- What it costs

QUERIES = [
    "",
    "?p=2",
    "?o=1",
    "?from={middle}",
    "?status__exact=pending",
    "?status__exact=succeeded",
    "?status__exact=failed&o=1",
    "?queue=default",
    "?task=tests.tasks.add",
    "?group=import",
    "?group=import&status__exact=failed",
    "?schedule=nightly",
    "?dispatched={day}",
    "?attempts__gt=7",
    "?q={middle}",
    "?q=nowhere",
    "?q=add&status__exact=failed",
]


@pytest.mark.django_db(transaction=True)
def test_172_no_list_looks_at_the_whole_table(admin_client, monkeypatch):
    """With bounds of a hundred: as many statements of 5,000 jobs as of ten, each bounded."""
    for (module, name), few in FEW.items():
        monkeypatch.setattr(module, name, few)
    monkeypatch.setattr(search, "ARGUMENTS", 50)
    monkeypatch.setattr(search, "MOST_FOUND", 50)
    kinds = [
        JobFactory(succeeded=True),
        JobFactory(failed=True),
        JobFactory(leased=True),
        JobFactory(group="import", succeeded=True),
        JobFactory(),
        JobFactory(scheduled=True, queue="mail"),
    ]
    job = kinds[0]
    words = {"middle": job.pk, "day": f"{job.created_at:%Y-%m-%d}"}
    urls = [JOBS + query.format(**words) for query in QUERIES]
    urls += [f"{JOBS}{job.pk}/change/", f"{JOBS}{kinds[4].pk}/change/"]
    urls += ["/admin/leasequeue/queue/"]
    few = {url: len(statements(admin_client, url)) for url in urls}
    monkeypatch.setattr(JobAdmin, "list_per_page", 3)
    for kind, count in zip(kinds, (2_000, 1_000, 50, 500, 1_000, 500), strict=True):
        multiply(kind, count, using="default")
    analyze("default")
    for url in urls:
        with watched("default") as seen:
            page(admin_client, url)
        # Some more where a list is cut, and where an index has more than is read of it.
        assert len(seen) <= few[url] + 4, url
        assert len(seen) <= 24, url
        for statement in seen:
            # Of a group PostgreSQL may walk through what is newer than its jobs, 1,500 here,
            # as long as its vacuum has not noted which pages the group's index speaks for.
            assert statement.touched <= 1_700, (url, statement)
            assert connection.vendor != "postgresql" or not statement.scans, statement
