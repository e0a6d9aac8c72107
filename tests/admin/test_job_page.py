"""The page of a job: everything, whatever the row holds."""

import json
import re
from datetime import UTC, datetime, timedelta
from html import unescape
from unittest import mock

import pytest
from django.contrib.admin.utils import flatten_fieldsets
from django.contrib.auth.models import Permission, User
from django.db import models
from django.db.models import Value
from django.utils import timezone
from django.utils.html import escape

from django_leasequeue import Dedup, ownership, slots
from django_leasequeue.admin import JobAdmin, WorkerAdmin, neighbours, shown
from django_leasequeue.admin import steps as admin_steps
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Queue, Worker
from django_leasequeue.outcomes import Succeeded
from tests.admin.looking import (
    JOBS,
    NOON,
    line_of,
    listed,
    page,
    page_of,
    statements,
    step_of,
)
from tests.factories import JobFactory
from tests.road import claim
from tests.tasks import add


@pytest.mark.parametrize(("model", "shows"), [(Job, JobAdmin), (Worker, WorkerAdmin)])
def test_page_has_every_column(model, shows):
    """A new column has to find its place on the page."""
    fields = flatten_fieldsets(shows.fieldsets)
    names = {getattr(name, "__name__", name) for name in fields}
    extra = {"attempts_made", "dedup_holder", "why", "timeline", "neighbours"}
    extra |= {"awaited_group"}
    names = names - extra | {"id"}
    if model is Job:
        names |= {"attempts", "max_attempts", "group_wait"}
    assert names == {field.name for field in model._meta.get_fields()}


def test_page(admin_client):
    """Values as people read them: states by name, JSON over lines with its characters."""
    job = JobFactory(
        failed=True,
        args=["Zoë", {"deep": [1, None, 1e22]}],
        result={"ok": True},
        meta={"tenant": 7},
        dedup_ttl=timedelta(minutes=5),
    )
    # Of the session, the user, the job, why it does not run, and its steps.
    assert len(statements(admin_client, f"{JOBS}{job.pk}/change/")) == 5
    html = page_of(admin_client, job)
    assert line_of(html, "status") == "Failed"
    assert line_of(html, "args").replace("&quot;", "") == (
        "{ a: Zoë, b: { deep: [ 1, null, 1e+22 ] } }"
    )
    assert line_of(html, "result") == "{ &quot;ok&quot;: true }"
    assert line_of(html, "meta") == "{ &quot;tenant&quot;: 7 }"
    assert line_of(html, "finished_at") != line_of(html, "processing_until") == "-"
    assert line_of(html, "dedup_ttl") == "0:05:00"
    assert line_of(html, "errors").startswith(
        "builtins.ValueError as asked 2026-01-01 23:34:05 NST · attempt 1 · another"
    )
    assert "<summary>" not in html  # no traceback, nothing to unfold
    assert "Save" not in html


def test_why_it_is_not_running(admin_client):
    """Every cause, by the answer of job.why(), as text."""
    job = JobFactory(queue="<b>", scheduled=True)
    Queue.objects.pause("<b>", by="<i>ann</i>", reason="<script>")
    html = page_of(admin_client, job)
    text = line_of(html, "why")
    assert html.count("<li>") >= 3
    for cause in job.why():
        shown = escape(cause.sentence.partition(", in ")[0])
        assert shown in text
    assert "<script>&" not in html and "&lt;i&gt;ann" in html
    running = JobFactory(leased=True)
    assert line_of(page_of(admin_client, running), "why").startswith(
        "another worker has"
    )


def test_the_steps_of_the_round(admin_client):
    """Oldest first; of a long result only its head; not those of earlier rounds."""
    job = JobFactory(succeeded=True, round=2)
    made = [("<b>", {"é": 1}), ("long", "x" * 5000), ("none", None)]
    for name, result in made:
        step_of(job, name=name, result=result)
    step_of(job, name="old", round=1)
    text = line_of(page_of(admin_client, job), "steps")
    assert "&lt;b&gt; {&quot;\\u00e9&quot;:1} 0.25 " in text
    assert "xxx" in text and "characters cut" in text and len(text) < 3000
    assert "old" not in text
    assert text.index("&lt;b&gt;") < text.index("long") < text.index("none")


def test_of_many_steps_the_newest(admin_client, monkeypatch):
    monkeypatch.setattr(admin_steps, "MOST", 2)
    job = JobFactory(succeeded=True)
    for name in ("eins", "zwei", "drei"):
        step_of(job, name=name)
    text = line_of(page_of(admin_client, job), "steps")
    assert "The newest 2:" in text
    assert "eins" not in text and text.index("zwei") < text.index("drei")


OFTEN_EMPTY = [
    *("next_args", "next_kwargs", "progress", "cancel_requested_at", "dedup_id"),
    *("released_dedup_id", "dedup_holder", "dedup_hold", "dedup_ttl", "dedup_until"),
    *("rerun", "suppressed", "last_suppressed_at", "concurrency_key", "blocked"),
    "concurrency_limit",
    *("awaited_group", "schedule", "tick"),
]


def test_what_a_job_has_nothing_in_is_not_shown(admin_client):
    """Neither a column that is as every row starts, nor the heading of a group of them."""
    html = page_of(admin_client, JobFactory())
    assert not [name for name in OFTEN_EMPTY if f"field-{name}" in html]
    headings = re.findall(r"<h2[^>]*>\s*(.*?)\s*</h2>", html)
    assert "Lease" in headings
    assert not {"Dedup", "Concurrency and schedule"}.intersection(headings)


def test_what_a_job_has_something_in_is_shown(admin_client):
    """Each of them alone, so that a feature's columns come up once it uses them."""
    values = {
        "next_args": [],
        "next_kwargs": {},
        "progress": 0,
        "cancel_requested_at": NOON,
        "dedup_id": "k",
        "released_dedup_id": "k",
        "dedup_hold": "finished",
        "dedup_ttl": timedelta(1),
        "dedup_until": NOON,
        "rerun": True,
        "suppressed": 3,
        "last_suppressed_at": NOON,
        "concurrency_key": "c",
        "concurrency_limit": 2,
        "blocked": 1,
        "schedule": "nightly",
        "tick": NOON,
    }
    assert values.keys() == {*OFTEN_EMPTY} - {"dedup_holder", "awaited_group"}
    for name, value in values.items():
        job = JobFactory(**{name: value})
        html = page_of(admin_client, job)
        assert f"field-{name}" in html, name
        job.delete()


def test_what_a_job_waits_for(admin_client):
    JobFactory(group="import:7")
    job = add.using(after_group="import:7").dispatch(1, 2).job
    assert line_of(page_of(admin_client, job), "awaited_group").endswith("import:7")


# --- The dedup id


@pytest.mark.parametrize(
    ("dedup", "end", "words"),
    [
        (Dedup("k"), None, "this job, until it has finished"),
        (Dedup("k"), "settle", "nobody, so the next dispatch gets it"),
        (Dedup("k", until="removed"), "settle", "this job, as long as its row exists"),
        (Dedup("k", ttl=60), "settle", "this job, until {end}"),
        (Dedup("k", ttl=60), "window", "nobody, so the next dispatch gets it"),
        (
            Dedup("k", ttl=60, until="finished"),
            None,
            "this job, until {end} and until it has finished",
        ),
        (Dedup("k", ttl=60, until="finished"), "settle", "this job, until {end}"),
        (
            Dedup("k", ttl=60, until="finished"),
            "window",
            "this job, until it has finished",
        ),
    ],
)
def test_holder_of_the_dedup_id(admin_client, dedup, end, words):
    """Until when and how, by the rule that a dispatch goes by."""
    job = add.using(dedup=dedup).dispatch(1, 2).job
    if end == "settle":
        [claimed] = claim()
        Job.objects.settle([(claimed, Succeeded("3"))])
    if end == "window":
        Job.objects.filter(pk=job.pk).update(dedup_until=DatabaseNow(-1))
    job.refresh_from_db()
    html = page_of(admin_client, job)
    until = job.dedup_until and shown.local_time(job.dedup_until)
    assert line_of(html, "dedup_holder") == words.format(end=until)
    assert (line_of(html, "dedup_id"), line_of(html, "suppressed")) == ("k", "0")
    found = ownership.with_window(Job.objects.all()).get()
    assert ownership.holds(found) is not words.startswith("nobody")


def test_dispatches_that_a_job_answered(admin_client):
    """How many, and when the last was."""
    for _ in range(3):
        job = add.using(dedup="k").dispatch(1, 2).job
    job.refresh_from_db()
    html = page_of(admin_client, job)
    assert line_of(html, "suppressed") == "2"
    last = shown.local_time(job.last_suppressed_at)
    assert line_of(html, "last_suppressed_at") == last


def test_holder_of_an_id_that_the_job_has_no_more(admin_client):
    """A link to the job that took it over, as long as that one holds it."""
    first = add.using(dedup="k").dispatch(1, 2).job
    [claimed] = claim()
    Job.objects.settle([(claimed, Succeeded("3"))])
    second = add.using(dedup="k").dispatch(1, 2).job
    JobFactory(queue="other", dedup_id="k", dedup_hold="finished")
    html = page_of(admin_client, first)
    assert line_of(html, "released_dedup_id") == "k"
    assert line_of(html, "dedup_holder") == f"job {second.pk}"
    assert f'href="{JOBS}{second.pk}/change/"' in html
    Job.objects.filter(pk=second.pk).cancel()
    nobody = "nobody, so the next dispatch gets it"
    assert line_of(page_of(admin_client, first), "dedup_holder") == nobody
    second.delete()
    assert line_of(page_of(admin_client, first), "dedup_holder") == nobody


def test_errors_are_shown_newest_first_with_tracebacks(admin_client):
    """Each entry with what it holds, its traceback to unfold."""
    entry = {"exception_class": "A", "message": "first", "traceback": "line 1\nline 2"}
    lost = {"exception_class": "B", "message": "second", "times": 3, "round": 2}
    html = page_of(admin_client, JobFactory(errors=[entry, lost]))
    text = line_of(html, "errors")
    assert text == (
        "B second 3 times in a row { &quot;round&quot;: 2 } A first Traceback line 1 line 2"
    )
    assert "<pre>line 1\nline 2</pre>" in html


@pytest.mark.parametrize(
    "errors",
    [
        {"not": "a list"},
        "text",
        7,
        [None, 7, "text", ["list"], {}],
        [{"at": "not a time", "message": ["x"], "attempt": {"a": 1}, "worker": 7}],
        [{"at": "2026-01-02T03:04:05", "traceback": None}],
        [{"exception_class": "A", "message": "\ud800 half", "traceback": "\ud800"}],
    ],
)
def test_errors_that_nobody_of_ours_wrote(admin_client, errors):
    """Case 174: shown as they are, since only a page that renders can be acted on."""
    job = JobFactory(errors=errors)
    assert line_of(page_of(admin_client, job), "errors")


@pytest.mark.parametrize(
    "broken", ["{broken", "", "nan", "[" * 50_000, "x" * 1_000_000]
)
def test_broken_json_is_shown_as_text(admin_client, broken):
    """Case 174: a row that no worker can run is listed and shown all the same."""
    job = JobFactory()
    names = [
        "args",
        "kwargs",
        "next_args",
        "next_kwargs",
        "result",
        "errors",
        "progress",
    ]
    text = Value(broken, output_field=models.TextField())
    Job.objects.filter(pk=job.pk).update(**dict.fromkeys(names, text))
    html = page_of(admin_client, job)
    for name in names:
        expected = f"This is no JSON: {broken[:40]}".rstrip()
        assert line_of(html, name).startswith(expected)
    assert len(html) < 1_500_000
    assert listed(admin_client) == [job.pk]


def test_values_too_long_or_too_odd_for_a_page(admin_client):
    """Long JSON is cut with a mark; escapes that no page can be encoded with are replaced."""
    job = JobFactory(args=["x" * 900_000], result="\ud800")
    html = page_of(admin_client, job)
    assert "characters cut) …" in html
    assert len(html) < 300_000
    assert line_of(html, "result") == "&quot;\ufffd&quot;"


def test_task_and_status_that_this_release_does_not_know(admin_client):
    """Cases 174 and 186: a newer release's rows, or a removed function's, render."""
    job = JobFactory(task="shop.gone")
    assert line_of(page_of(admin_client, job), "task") == "shop.gone"
    assert shown.badge("paused<b>") == (
        '<span class="leasequeue-status leasequeue-unknown">paused&lt;b&gt;</span>'
    )
    job.status, job.read_at = "paused", NOON
    with mock.patch.object(JobAdmin, "get_object", return_value=job):
        assert line_of(page_of(admin_client, job), "status") == "paused"


@pytest.mark.parametrize("id", ["0", "abc", "9" * 30, "7" * 5_000, "_27", "1_00"])
def test_job_that_does_not_exist(admin_client, id):
    """Pruned, or an address nobody linked to: back to the index, with a message."""
    response = admin_client.get(f"{JOBS}{id}/change/")
    assert (response.status_code, response.url) == (302, "/admin/")


# --- Times


@pytest.mark.parametrize("use_tz", [True, False])
def test_times_are_local(admin_client, settings, use_tz):
    """In TIME_ZONE, daylight saving included, with and without USE_TZ."""
    settings.USE_TZ = use_tz
    job = JobFactory(run_at=NOON, created_at=NOON)
    html = page_of(admin_client, job)
    assert line_of(html, "run_at") == "2026-07-01 09:30:07 NDT"
    assert 'title="2026-07-01 09:30:07 NDT"' in page(admin_client, JOBS)


def test_times_follow_the_activated_zone():
    """A middleware may have chosen the user's own."""
    with timezone.override("Asia/Kathmandu"):
        assert shown.local_time(NOON) == "2026-07-01 17:45:07 +0545"


def test_times_at_the_end_of_the_calendar():
    """No zone may push an instant out of it."""
    with timezone.override("Asia/Tokyo"):
        last = datetime.max.replace(tzinfo=UTC)
        assert shown.local_time(last).startswith("9999-12-31 23:59:59")


@pytest.mark.parametrize(
    ("past", "text"),
    [
        (timedelta(seconds=-5), "0 seconds"),
        (timedelta(0), "0 seconds"),
        (timedelta(seconds=1.9), "1 second"),
        (timedelta(seconds=59), "59 seconds"),
        (timedelta(seconds=60), "1\xa0minute"),
        (timedelta(hours=30), "1\xa0day"),
    ],
)
def test_age(past, text):
    """One unit, seconds too; the database's clock may be behind itself after a failover."""
    assert f">{text}</time>" in shown.age(NOON, NOON + past)


# --- The timeline


def events_of(html):
    """Return the texts of the timeline's events, in order."""
    part = html[html.index('<ol class="leasequeue-timeline">') :].partition("</ol>")[0]
    items = re.findall(r"<li.*?</li>", part, re.S)
    return [" ".join(re.sub(r"<[^>]+>", " ", item).split()) for item in items]


def test_timeline(admin_client):
    """In order of time, tracebacks to unfold, what is to come marked."""
    job = JobFactory(
        created_at=DatabaseNow(-3600),
        scheduled=True,
        claims=1,
        worker="w",
        started_at=DatabaseNow(-60),
        last_attempted_at=DatabaseNow(-60),
        dispatched_by="ann: POST /<b>/",
    )
    first, second = (job.started_at + timedelta(seconds=n) for n in (1, 2))
    error = {
        "exception_class": "a.B",
        "message": "<b>one</b>",
        "attempt": 1,
        "traceback": "line <i>\nline 2",
        "at": first.isoformat(),
        "worker": "w",
    }
    event = {"kind": "made_due", "at": second.isoformat(), "by": "<u>"}
    Job.objects.filter(pk=job.pk).update(errors=[error], events=json.dumps(event))
    step_of(job, name="charge <b>", result={"é": 1})
    html = page_of(admin_client, job)
    assert [re.split(r" N[SD]T ", text)[1] for text in events_of(html)] == [
        "Dispatched by ann: POST /&lt;b&gt;/.",
        "Claimed by w.",
        "Attempt 1 failed: B: &lt;b&gt;one&lt;/b&gt; line &lt;i&gt; line 2",
        "Made due at once by &lt;u&gt;.",
        "Step “charge &lt;b&gt;” is recorded, after 0.25 seconds. "
        "{&quot;\\u00e9&quot;:1}",
        "It is to run again then.",
    ]
    assert html.count("leasequeue-coming") == 1
    assert "<pre>line &lt;i&gt;\nline 2</pre>" in html


def test_timeline_for_who_may_not_see_arguments(client):
    """Neither the words of an error nor what a step returned; how a worker died, though."""
    user = User.objects.create_user("viewer", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="view_job"))
    client.force_login(user)
    job = JobFactory(leased=True, progress={"done": 1, "total": 2, "text": "secret"})
    error = {"exception_class": "a.B", "message": "secret", "traceback": "secret"}
    lost = {**error, "death": "killed by SIGKILL", "worker": "w"}
    Job.objects.filter(pk=job.pk).update(errors=[error, lost])
    step_of(job, name="charge", result="secret")
    html = page_of(client, job)
    assert "secret" not in html
    assert "w was lost: killed by SIGKILL" in html


# --- Neighbours


def test_a_job_without_neighbours(admin_client):
    html = page_of(admin_client, JobFactory())
    assert "field-neighbours" not in html


def test_neighbours(admin_client):
    """Who dispatched it, its schedule with the ticks beside it, its group, its key."""
    ticks = [NOON + timedelta(hours=n) for n in range(3)]
    before, job, after = (
        JobFactory(
            schedule="s <b>",
            tick=tick,
            group="g&h",
            concurrency_key="k",
            dispatched_by="job 41",
        )
        for tick in ticks
    )
    JobFactory(group="g&h", failed=True)
    waiting = add.using(after_group="g&h").dispatch(1, 2).job
    with mock.patch.object(slots, "holders", return_value=[job.pk, after.pk]):
        html = page_of(admin_client, job)
    text = line_of(html, "neighbours")
    assert text == (
        f"dispatched by: job 41 schedule: s &lt;b&gt; tick before: job {before.pk} , "
        f"2026-07-01 09:30:07 NDT tick after: job {after.pk} , 2026-07-01 11:30:07 NDT "
        "group: g&amp;h (Pending 3, Failed 1) "
        f"wait for this group: job {waiting.pk} "
        f"run under its concurrency key: job {after.pk}"
    )
    assert f'href="{JOBS}41/change/"' in html
    for address in re.findall(r'href="([^"]+\?(?:group|name)=[^"]+)"', html):
        assert admin_client.get(unescape(address)).status_code == 200
    assert listed(admin_client, "?group=g%26h")[-1] == before.pk


def test_of_a_large_group_the_newest_are_counted(admin_client, monkeypatch):
    monkeypatch.setattr(neighbours, "COUNTED", 2)
    jobs = JobFactory.create_batch(3, group="g", succeeded=True)
    text = line_of(page_of(admin_client, jobs[0]), "neighbours")
    assert text == "group: g (of the newest 2: Succeeded 2)"


def test_neighbours_cost_a_few_indexed_statements(admin_client):
    job = JobFactory(schedule="s", tick=NOON, group="g", concurrency_key="k")
    few = len(statements(admin_client, f"{JOBS}{JobFactory().pk}/change/"))
    assert len(statements(admin_client, f"{JOBS}{job.pk}/change/")) <= few + 6
