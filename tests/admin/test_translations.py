"""Each text that the admin shows can be translated, and has been, into German."""

import re

import pytest
from django.contrib.admin.models import CHANGE, LogEntry

from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Queue, Schedule, Tally
from tests.admin.looking import make_worker, page, step_of
from tests.admin.pseudo import spoken, unmarked
from tests.browser.pages import answers
from tests.factories import JobFactory
from tests.scheduling import a_schedule

# What rows hold, all of it made of such words, and times with their zones; names in the
# admin that are no words of a language: "id", the value of a column, as JSON has them.
DATA = re.compile(
    r"\bdata\w*|\btests(\.\w+)+|\badmin\b|\b(UTC|NST|NDT|Id|null|true|false)\b"
    r"|\bfinished\b|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"
)
# Of Django's own, which marks it nowhere.
DJANGOS = {"Search"}
HIDDEN = re.compile(r'<input type="hidden" name="(\w+)" value="([^"]*)">')
FORM = {
    "name": "data",
    "task": "tests.tasks.add",
    "kind": "cron",
    "expression": "0 6 1 * *",
    "tz": "UTC",
    "args": "[1, 2]",
    "missed": "latest",
    "cap": "100",
    "overlap": "skip",
    "enabled": "on",
}
STATES = (
    "pending",
    "scheduled",
    "leased",
    "expired",
    "succeeded",
    "failed",
    "cancelled",
)


@pytest.fixture
def rows(admin_user):
    """Rows of every kind, with something in each column."""
    for number, state in enumerate(STATES):
        job = JobFactory(
            **({} if state == "pending" else {state: True}),
            **dict.fromkeys(
                ("queue", "group", "released_dedup_id", "schedule", "worker"), "data"
            ),
            dedup_id=f"data{number}",
            dedup_hold="finished",
            worker_ids="data",
            concurrency_key="data",
            concurrency_limit=2,
            kwargs={"data": ["data"]},
            next_args=["data"],
            next_kwargs={"data": 1},
            progress={"data": "data"},
            meta={"data": "data"},
            suppressed=2,
        )
        if state == "failed":
            error = dict.fromkeys(("exception_class", "message", "traceback"), "data")
            errors = [{**error, "attempt": 2, "worker": "data", "times": 3}]
            Job.objects.filter(pk=job.pk).update(errors=errors)
        if job.claims:
            step_of(job, name="data", result="data", worker="data")
    LogEntry.objects.log_actions(
        admin_user.pk, [job], CHANGE, change_message="data", single_object=True
    )
    make_worker(
        name="data",
        host="data",
        queues=["data"],
        tasks=["data"],
        versions={"data": "1"},
    )
    for name in ("data", "data2"):
        Queue.objects.pause(name, by="data", reason="data")
    Queue.objects.resume("data2", by="data")
    Tally.objects.create(minute=DatabaseNow(-300), succeeded=3, failed=2, cancelled=1)
    for number, changes in enumerate(
        (
            {},
            {"enabled": False},
            {"problem": "data", "skipped_why": "data", "last_job": job.pk},
            {"paused_by": "data", "kind": "cron", "expression": "0 6 1 * *"},
        )
    ):
        schedule = a_schedule(name=f"data{number}")
        Schedule.objects.filter(pk=schedule.pk).update(**changes)


def test_every_text_of_a_page_is_marked(admin_client, rows):
    wrong = {}
    with spoken():
        found = answers(admin_client, "/admin/leasequeue/")
    assert len(found) > 20
    for path, answer in found.items():
        look(wrong, path, answer)
    assert not wrong


@pytest.mark.parametrize("model", ["job", "queue", "schedule"])
def test_every_text_of_an_answer_is_marked(admin_client, rows, model):
    """What each action asks and tells, of rows of every kind."""
    url = f"/admin/leasequeue/{model}/"
    listed = admin_client.get(url).context
    ids = [row.pk for row in listed["cl"].result_list]
    wrong = {}
    with spoken():
        for name, _ in listed["action_form"].fields["action"].choices:
            data = {"action": name, "_selected_action": ids}
            answer = admin_client.post(url, data, follow=True)
            look(wrong, name, answer)
            hidden = dict(HIDDEN.findall(answer.content.decode()))
            if "jobs" in hidden:
                told = admin_client.post(url, hidden, follow=True)
                assert list(told.context["messages"]), name
                look(wrong, name, told)
    assert not wrong


def test_every_text_of_the_dashboards_answers_is_marked(admin_client, rows):
    url = "/admin/leasequeue/job/dashboard/"
    wrong = {}
    with spoken():
        for verb in ("resume", "resume", "pause"):
            data = {"queue": "data", "verb": verb}
            look(wrong, verb, admin_client.post(url, data, follow=True))
    assert not wrong


@pytest.mark.parametrize("model", ["queue", "schedule"])
def test_every_text_of_a_form_is_marked(admin_client, model):
    url = f"/admin/leasequeue/{model}/add/"
    wrong = {}
    with spoken():
        for data in ({}, FORM, FORM):
            look(wrong, url, admin_client.post(url, data, follow=True))
        look(wrong, url, admin_client.post(url, {**FORM, "options": "[]"}))
    assert not wrong


def test_german(admin_client, rows, settings):
    """The catalog that comes with the package is found and used."""
    settings.LANGUAGE_CODE = "de"
    html = page(admin_client, "/admin/leasequeue/job/")
    for text in (
        "Warteschlange",
        "Dedup-ID",
        "Erfolgreich",
        "Ausgewählte Jobs abbrechen",
    ):
        assert text in html
    paused = Job.objects.filter(queue="data", status="pending").latest("pk")
    html = page(admin_client, f"/admin/leasequeue/job/{paused.pk}/change/")
    assert "Seine Warteschlange „data“ ist seit" in html


def look(wrong, where, response):
    """Note what is neither marked nor data."""
    assert response.status_code in (200, 302), where
    for text in unmarked(response.content.decode()):
        rest = DATA.sub("", text)
        if re.search(r"[^\W\d_]", rest) and text not in DJANGOS:
            wrong.setdefault(text, where)
