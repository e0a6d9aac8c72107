"""The admin as a whole: it only looks, it escapes, and it works in any project."""

import re
from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.contrib.auth.models import Permission
from django.db import ProgrammingError, models
from django.db.models import Value
from django.forms import ModelChoiceField
from django.urls import path

from django_leasequeue.admin import JobAdmin, WorkerAdmin
from django_leasequeue.db import DatabaseNow
from django_leasequeue.fields import BrokenJSON
from django_leasequeue.models import Job, Queue, Schedule, Worker
from tests.admin.looking import (
    JOBS,
    QUEUES,
    WORKERS,
    found,
    line_of,
    listed,
    make_worker,
    page,
    page_of,
    statements,
)
from tests.factories import JobFactory
from tests.helpers import failing
from tests.scheduling import a_schedule

MARKUP = "<script>alert('&')</script>"
backstage = admin.AdminSite(name="backstage")
backstage.register(Job, JobAdmin)
backstage.register(Worker, WorkerAdmin)
urlpatterns = [path("back/", backstage.urls), path("admin/", admin.site.urls)]


# --- Safety


def test_markup_is_text(admin_client):
    """Case 180: whatever a job holds is shown as text, on every page."""
    long = MARKUP * 4
    job = JobFactory(
        failed=True,
        queue=MARKUP,
        task=long,
        group=MARKUP,
        dedup_id=long,
        released_dedup_id=MARKUP,
        worker=MARKUP,
        worker_ids=f"{MARKUP}\n{MARKUP}",
        concurrency_key=MARKUP,
        schedule=MARKUP,
        args=[MARKUP],
        kwargs={MARKUP: MARKUP},
        next_args=[MARKUP],
        result=MARKUP,
        progress=MARKUP,
        meta={MARKUP: MARKUP},
        errors=[
            MARKUP,
            {
                **dict.fromkeys(
                    ("exception_class", "message", "traceback", "at", "worker"), MARKUP
                ),
                "attempt": MARKUP,
                "times": MARKUP,
                MARKUP: MARKUP,
            },
        ],
    )
    Job.objects.filter(pk=JobFactory().pk).update(
        args=Value(MARKUP, output_field=models.TextField())
    )
    worker = make_worker(name=MARKUP, host=MARKUP, queues=[MARKUP], tasks={MARKUP: 1})
    Queue.objects.pause(MARKUP, by=MARKUP, reason=MARKUP)
    Queue.objects.resume(MARKUP, by=MARKUP)
    for url in (
        QUEUES,
        f"{QUEUES}{quote(MARKUP)}/change/",
        JOBS,
        f"{JOBS}{job.pk}/change/",
        f"{JOBS}{job.pk}/history/",
        f"{JOBS}{job.pk - 1}/change/",
        f"{JOBS}{job.pk + 1}/change/",
        f"{JOBS}?q={MARKUP}",
        f"{JOBS}?queue={MARKUP}",
        f"{JOBS}?status__exact={MARKUP}",
        WORKERS,
        f"{WORKERS}{worker.pk}/change/",
        "/admin/",
    ):
        html = admin_client.get(url, follow=True).content.decode()
        assert "<script>alert" not in html, url
    assert "&lt;script&gt;alert(&#x27;&amp;&#x27;)" in page_of(admin_client, job)


def test_nothing_that_a_strict_content_security_policy_refuses(admin_client):
    """No script or style inside the page, no handler in an attribute."""
    job = JobFactory(failed=True, errors=[{"traceback": "a"}])
    worker = make_worker()
    Queue.objects.pause("mail")
    for url in (
        QUEUES,
        f"{QUEUES}add/",
        f"{QUEUES}mail/change/",
        JOBS,
        f"{JOBS}?q=add",
        f"{JOBS}{job.pk}/change/",
        WORKERS,
        f"{WORKERS}{worker.pk}/change/",
    ):
        html = page(admin_client, url)
        assert not re.search(r"<script(?![^>]*\ssrc=)[^>]*>", html), url
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", html), url


def test_nobody_changes_anything(admin_client):
    """Not even a superuser: jobs are made by dispatches and changed by workers."""
    job, worker = JobFactory(), make_worker()
    for url, pk in ((JOBS, job.pk), (WORKERS, worker.pk)):
        html = page(admin_client, url)
        assert f"{url}add/" not in html and "delete_selected" not in html
        assert "deletelink" not in page(admin_client, f"{url}{pk}/change/")
        for address in (f"{url}add/", f"{url}{pk}/delete/"):
            assert admin_client.get(address).status_code == 403
            assert admin_client.post(address, {"post": "yes"}).status_code == 403
        posted = admin_client.post(f"{url}{pk}/change/", {"queue": "x", "_save": "1"})
        assert posted.status_code == 403
        ticked = {"action": "delete_selected", "_selected_action": pk}
        admin_client.post(url, ticked)
    assert (Job.objects.count(), Worker.objects.count()) == (1, 1)


def test_permissions(client, django_user_model):
    """Staff need the view permission; anybody else has to log in first."""
    job = JobFactory()
    urls = (JOBS, f"{JOBS}{job.pk}/change/", WORKERS)
    for url in urls:
        assert client.get(url).status_code == 302
    user = django_user_model.objects.create_user("ann", password="x", is_staff=True)
    client.force_login(user)
    for url in urls:
        assert client.get(url).status_code == 403
    user.user_permissions.add(*Permission.objects.filter(codename="view_job"))
    assert [client.get(url).status_code for url in urls] == [200, 200, 403]


# --- Workers


def test_workers(admin_client):
    """What each takes, since when, and when it was last seen."""
    worker = make_worker(last_seen_at=DatabaseNow(-121))
    html = page(admin_client, WORKERS)
    for text in ("host:7:abc", "mail, *", "2\xa0minutes</time>", "2\xa0hours</time>"):
        assert text in html
    html = page(admin_client, f"{WORKERS}{worker.pk}/change/")
    assert line_of(html, "tasks") == "[ &quot;tests.tasks.add&quot; ]"
    assert line_of(html, "pid") == "7"


@pytest.mark.parametrize("queues", [{"a": 1}, [1, None], 7, BrokenJSON("{x")])
def test_workers_with_odd_queues(admin_client, queues):
    """A row that another release wrote."""
    make_worker(queues=queues)
    page(admin_client, WORKERS)


def test_workers_list_takes_the_same_queries_for_any_number(admin_client):
    """And leaves the long list of tasks where it is."""
    make_worker()
    few = statements(admin_client, WORKERS)
    for number in range(20):
        make_worker(name=f"host:{number}:x")
    many = statements(admin_client, WORKERS)
    assert len(many) == len(few) == 4
    assert not [sql for sql in many if re.search(r"\btasks\b", sql)]


# --- Where it runs


@pytest.mark.urls(__name__)
def test_custom_site(admin_client):
    """Links stay within the site that the pages are on."""
    job = JobFactory(queue="mail")
    for url in ("/back/leasequeue/job/", "/back/leasequeue/worker/"):
        html = page(admin_client, url)
        assert '"/admin/' not in html
    html = page(admin_client, f"/back/leasequeue/job/{job.pk}/change/")
    assert '"/admin/' not in html
    assert '"/back/leasequeue/job/' in html


class JobsInOther:
    def db_for_read(self, model, **hints):
        return "other" if model._meta.app_label == "leasequeue" else None

    db_for_write = db_for_read


@pytest.mark.django_db(databases=["default", "other"])
def test_jobs_of_another_database(admin_client, settings):
    """Case 184: everything is read where the router keeps the jobs."""
    JobFactory()
    job = JobFactory(using="other", queue="elsewhere", dedup_id="only-there")
    settings.DATABASE_ROUTERS = [JobsInOther()]
    assert listed(admin_client) == [job.pk]
    assert list(found(admin_client, "only-there")) == [job]
    assert "?queue=elsewhere" in page(admin_client, JOBS)
    assert line_of(page_of(admin_client, job), "queue") == "elsewhere"


def test_schema_behind_the_code(admin_client, caplog):
    """Case 188: Django's page about it, and the database's own words in the log."""
    error = ProgrammingError("no such column: leasequeue_job.shiny")
    with failing(error, times=2, match="leasequeue_job"):
        response = admin_client.get(JOBS, follow=True)
    assert response.status_code == 200
    assert "database installation" in response.content.decode()
    assert "no such column" in caplog.text


def test_style_sheet_is_in_the_package():
    """The page links to a file that collectstatic finds."""
    from django.contrib.staticfiles.finders import AppDirectoriesFinder

    assert AppDirectoriesFinder().find("leasequeue/admin.css")


# --- Size


def test_173_no_form_loads_a_related_table(admin_client):
    """Case 173: no page has a box to choose a row of another table in."""
    job = JobFactory(failed=True)
    make_worker()
    Queue.objects.pause("mail")
    schedule = a_schedule()
    for model in (Job, Queue, Schedule, Worker):
        url = f"/admin/leasequeue/{model._meta.model_name}/"
        pk = quote(model.objects.values_list("pk", flat=True)[0])
        for address in (f"{url}{pk}/change/", f"{url}add/"):
            response = admin_client.get(address)
            if response.status_code == 403:
                continue  # nobody may add one
            fields = response.context["adminform"].form.fields.values()
            assert not [one for one in fields if isinstance(one, ModelChoiceField)]
            # Of a schedule's few words one is chosen from a list.
            options = response.content.decode().count("<option")
            assert options == 0 or (model is Schedule and options < 15)
    pages = [
        *(
            f"{JOBS}{job.pk}/change/",
            f"/admin/leasequeue/schedule/{schedule.pk}/change/",
        ),
        "/admin/leasequeue/schedule/add/",
    ]
    before = [len(statements(admin_client, url)) for url in pages]
    for number in range(15):
        tick = DatabaseNow(timedelta(hours=number))
        JobFactory(schedule=schedule.name, tick=tick)
    for number in range(5):
        make_worker(name=f"w{number}")
        a_schedule(name=f"s{number}")
    assert [len(statements(admin_client, url)) for url in pages] == before
    shown = page(admin_client, pages[1])
    assert shown.count("/leasequeue/job/") < 15
