"""Jobs are cancelled and run again in the admin: asked first, counted, told, logged."""

import re
from unittest import mock
from urllib.parse import quote

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.db import OperationalError, connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import path

from django_leasequeue.admin import JobAdmin, acting
from django_leasequeue.models import Job, Worker
from tests.admin.acting import (
    allow,
    asked,
    confirmed,
    done,
    fields,
    logged,
    one_of_each,
    states,
    table,
)
from tests.admin.looking import JOBS, page, page_of
from tests.factories import JobFactory
from tests.helpers import failing
from tests.road import row

MARKUP = "<script>alert('&')</script>"
backstage = admin.AdminSite(name="backstage")
backstage.register(Job, JobAdmin)
urlpatterns = [path("back/", backstage.urls), path("admin/", admin.site.urls)]


# --- What is done


def test_cancel(admin_client, django_capture_on_commit_callbacks):
    """176, 178: what each becomes is said before, and what became of it after."""
    jobs = one_of_each()
    html = asked(admin_client, "cancel", *jobs.values())
    assert [row[:2] for row in table(html)] == [
        ["Pending", "1"],
        ["Running", "1"],
        ["Succeeded", "1"],
        ["Failed", "1"],
        ["Cancelled", "1"],
    ]
    assert [row[2].startswith("not changed") for row in table(html)] == [
        *[False, False, True, True, True]
    ]
    assert 'value="Cancel: 2 jobs"' in html
    assert states() == ["pending", "running", "succeeded", "failed", "cancelled"]
    with django_capture_on_commit_callbacks(execute=True):
        html = confirmed(admin_client, html)
    assert "1 job is cancelled." in html
    assert "1 running job is asked to stop." in html
    assert "3 jobs were not changed, since they had ended: " in html
    assert states() == ["cancelled", "running", "succeeded", "failed", "cancelled"]
    assert Job.objects.get(status="running").cancel_requested_at
    assert logged() == [
        (jobs["pending"].pk, "Cancelled."),
        (jobs["leased"].pk, "Asked to stop."),
    ]
    assert "Cancelled." in page(admin_client, f"{JOBS}{jobs['pending'].pk}/history/")


def test_retry(admin_client):
    """176: only what has ended, checked in the update; a dedup id taken since is told."""
    jobs = one_of_each()
    late = JobFactory(failed=True, released_dedup_id="a")
    newer = JobFactory(dedup_id="a", dedup_hold="finished")
    html = asked(admin_client, "retry", *jobs.values(), late)
    assert [row[:2] for row in table(html)] == [
        ["Pending", "1"],
        ["Running", "1"],
        ["Succeeded", "1"],
        ["Failed", "2"],
        ["Cancelled", "1"],
    ]
    assert 'value="Run again: 4 jobs"' in html
    html = confirmed(admin_client, html)
    assert "3 jobs are to run again." in html
    assert f"by now: {late.pk} (job {newer.pk} has it)." in html
    both = f"{jobs['pending'].pk}, {jobs['leased'].pk}"
    assert f"2 jobs were not changed, since they wait or run: {both}." in html
    assert [*states()] == [
        *["pending", "running", "pending", "pending", "pending"],
        *["failed", "pending"],
    ]
    assert logged() == [
        (jobs[state].pk, "To run again.")
        for state in ("succeeded", "failed", "cancelled")
    ]


def test_run_now(admin_client):
    """Delayed jobs are due; the button is on their pages only."""
    delayed, due = JobFactory(scheduled=True), JobFactory()
    ended, other = JobFactory(failed=True), JobFactory(scheduled=True)
    html = done(admin_client, "run", delayed, due, ended)
    assert "1 job is due now." in html
    assert f"1 job was not changed, since it was due before: {due.pk}." in html
    assert f"since it runs or has ended: {ended.pk}." in html
    assert set(Job.objects.due()) == {delayed, due}
    assert f"{delayed.pk}/run/" not in page_of(admin_client, delayed)
    url = f"{JOBS}{other.pk}/run/"
    assert f'href="{url}"' in page_of(admin_client, other)
    assert "1 job is due now." in admin_client.post(url, follow=True).content.decode()
    assert logged() == [(delayed.pk, "Made due."), (other.pk, "Made due.")]


def test_176_twice(admin_client):
    """Case 176: two forms that were opened before start one round."""
    job = JobFactory(failed=True)
    forms = [asked(admin_client, "retry", job) for _ in range(2)]
    assert "1 job is to run again." in confirmed(admin_client, forms[0])
    assert "since it waits or runs" in confirmed(admin_client, forms[1])
    assert Job.objects.get().round == job.round + 1
    assert len(logged()) == 1


def test_178_what_changes_while_somebody_reads_the_page(admin_client):
    """Case 178: one that is gone or has ended meanwhile stops none of the others."""
    gone, ended, other = JobFactory.create_batch(3)
    html = asked(
        admin_client, "cancel", gone, ended, other, url=f"{JOBS}?status__exact=pending"
    )
    later = JobFactory()
    Job.objects.filter(pk=gone.pk).delete()
    Job.objects.filter(pk=ended.pk).cancel()
    html = confirmed(admin_client, html, url=f"{JOBS}?status__exact=pending")
    assert f"1 job was not changed, since it is not there any more: {gone.pk}." in html
    assert f"1 job was not changed, since it had ended: {ended.pk}." in html
    assert "1 job is cancelled." in html
    assert list(Job.objects.pending()) == [later]


def test_a_status_of_a_newer_release(admin_client):
    """174: it is shown, and left alone."""
    job = JobFactory(task="gone.task")
    job.status, job.read_at = "<frozen>", job.created_at
    with mock.patch.object(JobAdmin, "get_object", return_value=job):
        html = page(admin_client, f"{JOBS}{job.pk}/cancel/")
    assert table(html)[0][:2] == ["&lt;frozen&gt;", "1"]
    assert "only a newer release knows" in table(html)[0][2]
    assert '<input type="submit"' not in html and "Nothing would be" in html


# --- A job's page


def test_buttons(admin_client, django_capture_on_commit_callbacks):
    """Only what is legal is offered; it asks, and comes back to the page."""
    for state, job in one_of_each().items():
        html = page_of(admin_client, job)
        verb = "cancel" if state in ("pending", "leased") else "retry"
        other = {"cancel": "retry", "retry": "cancel"}[verb]
        url = f"{JOBS}{job.pk}/{verb}/"
        assert f'href="{url}"' in html
        assert f"{job.pk}/{other}/" not in html
        html = page(admin_client, url)
        assert [row[1] for row in table(html)] == ["1"] and str(job) in html
        assert "submit" not in page(admin_client, f"{JOBS}{job.pk}/{other}/").split(
            "leasequeue-confirm"
        )[1].replace("logout", "")
        assert Job.objects.get(pk=job.pk).status == job.status
        with django_capture_on_commit_callbacks(execute=True):
            response = admin_client.post(url, follow=True)
        assert response.redirect_chain == [(f"{JOBS}{job.pk}/change/", 302)]
        told = {"pending": "1 job is cancelled.", "leased": "1 running job is asked"}
        assert told.get(state, "1 job is to run again.") in response.content.decode()
    assert len(logged()) == 5


def test_a_job_that_is_gone(admin_client):
    response = admin_client.post(f"{JOBS}7/cancel/", follow=True)
    assert "is not there any more: 7." in response.content.decode()
    assert response.redirect_chain == [(JOBS, 302)]
    huge = admin_client.get(f"{JOBS}{10**30}/retry/", follow=True)
    assert huge.status_code == 200
    assert admin_client.get(f"{JOBS}x/retry/", follow=True).status_code == 200


# --- Bounds


def test_all_across_pages(admin_client, monkeypatch):
    """As many as the list has; the rest is told, and left alone."""
    monkeypatch.setattr(acting, "MOST", 5)
    monkeypatch.setattr(acting, "ROWS", 2)
    jobs = JobFactory.create_batch(7)
    done_before = JobFactory(succeeded=True)
    everything = {"select_across": "1", "url": f"{JOBS}?status__exact=pending"}
    html = asked(admin_client, "cancel", jobs[0], **everything)
    assert table(html)[0][:2] == ["Pending", "5"]
    assert "There are more; these are the first 5 of the list." in html
    assert fields(html)["jobs"] == ",".join(str(job.pk) for job in jobs[:1:-1])
    assert "5 jobs are cancelled." in confirmed(admin_client, html)
    assert list(Job.objects.pending().order_by("pk")) == jobs[:2]
    html = asked(admin_client, "cancel", jobs[0], **everything)
    assert "There are more" not in html
    assert "2 jobs are cancelled." in confirmed(admin_client, html)
    assert done_before.status == "succeeded"
    assert len(logged()) == 7


def test_as_many_as_there_may_be_go_through_the_form(admin_client):
    """Within Django's bound on the fields of a form."""
    jobs = JobFactory.create_batch(3)
    ids = ",".join(str(job.pk + number) for number in range(3_333) for job in jobs)
    html = asked(admin_client, "cancel", *jobs)
    response = admin_client.post(JOBS, {**fields(html), "jobs": ids}, follow=True)
    html = response.content.decode()
    assert "3 jobs are cancelled." in html
    assert re.search(r"(\d+, ){19}\d+ and \d+ more\.", html)


@pytest.mark.parametrize(
    "ids",
    ["", "a", "1,", "1;2", "0", "-1", "9" * 30, ",".join(map(str, range(20_000)))],
)
def test_a_form_that_nobody_was_given(admin_client, ids):
    html = asked(admin_client, "cancel", JobFactory())
    assert admin_client.post(JOBS, {**fields(html), "jobs": ids}).status_code == 400
    assert states() == ["pending"]


@pytest.mark.parametrize("action", ["cancel", "retry", "release", "remove"])
def test_the_same_statements_for_any_number(admin_client, action):
    """172: to ask reads the chosen jobs once, and neither locks nor writes."""
    made = {
        "cancel": {},
        "retry": {"failed": True},
        "release": {"leased": True},
        "remove": {"succeeded": True},
    }[action]
    few, many = JobFactory.create_batch(2, **made), JobFactory.create_batch(60, **made)
    page(admin_client, JOBS)
    sizes = []
    for jobs in (few, many):
        with CaptureQueriesContext(connection) as asking:
            html = asked(admin_client, action, *jobs)
        for query in asking.captured_queries:
            assert query["sql"].lstrip().startswith(("SELECT", "WITH"))
            assert "FOR UPDATE" not in query["sql"]
        with CaptureQueriesContext(connection) as doing:
            response = admin_client.post(JOBS, fields(html))
        assert response.status_code == 302
        sizes.append((len(asking), len(doing)))
    assert len(logged()) == 62
    # SQLite stores no more than some hundred log entries in one statement.
    assert sizes[0][0] == sizes[1][0] <= 12
    assert abs(sizes[1][1] - sizes[0][1]) <= 4 and sizes[1][1] <= 30


@pytest.mark.django_db(transaction=True)
def test_the_database_refuses(admin_client, caplog):
    """What was done is told and logged, and what is left, too."""
    jobs = JobFactory.create_batch(3)
    html = asked(admin_client, "cancel", *jobs)
    write = f"{connection.ops.quote_name('leasequeue_job')} SET"
    with (
        pytest.MonkeyPatch.context() as patch,
        failing(OperationalError("as the test asked"), times=99, match=write),
    ):
        patch.setattr("django_leasequeue.transitions.cancel.RERUN_FOR", 0.0)
        html = confirmed(admin_client, html)
    assert "3 jobs may not have been changed, since the database refused" in html
    assert "as the test asked" in caplog.text
    assert states() == ["pending"] * 3 and logged() == []


# --- Who may


def test_who_may_look_may_not_act(client, user):
    """Neither is offered, and what is sent all the same changes nothing."""
    job, failed = JobFactory(), JobFactory(failed=True)
    assert "action-checkbox" not in page(client, JOBS)
    delayed = JobFactory(scheduled=True)
    running = JobFactory(leased=True)
    for one, verb in (
        *((job, "cancel"), (failed, "retry"), (delayed, "run")),
        *((running, "release"), (job, "remove")),
    ):
        before = row(one)
        assert f"/{verb}/" not in page_of(client, one)
        data = {"action": verb, "_selected_action": one.pk, "jobs": one.pk}
        for more in ({}, {"index": "0"}, {"select_across": "1"}):
            client.post(JOBS, {**data, **more})
        assert client.get(f"{JOBS}{one.pk}/{verb}/").status_code == 403
        assert client.post(f"{JOBS}{one.pk}/{verb}/").status_code == 403
        assert row(one) == before
    assert logged() == []


@pytest.mark.parametrize(
    "mine, other", [("cancel", "retry"), ("retry", "run"), ("run", "release")]
)
def test_each_verb_has_its_own_permission(client, user, mine, other):
    allow(user, f"{mine}_job")
    made = {
        "cancel": {},
        "retry": {"failed": True},
        "run": {"scheduled": True},
        "release": {"leased": True},
    }
    job, others = JobFactory(**made[mine]), JobFactory(**made[other])
    before = row(others)
    html = page(client, JOBS)
    assert f'value="{mine}"' in html and f'value="{other}"' not in html
    assert f"/{other}/" not in page_of(client, others)
    client.post(
        JOBS, {"action": other, "_selected_action": others.pk, "jobs": others.pk}
    )
    assert client.post(f"{JOBS}{others.pk}/{other}/").status_code == 403
    assert row(others) == before
    done(client, mine, job)
    assert Job.objects.get(pk=job.pk).run_at != job.run_at or mine == "cancel"
    assert LogEntry.objects.get().user == user


def test_to_act_is_not_to_look(client, user):
    """The arguments of jobs are for those who may see them."""
    user.user_permissions.clear()
    allow(user, "cancel_job", "retry_job")
    job = JobFactory()
    for url in (JOBS, f"{JOBS}{job.pk}/change/", f"{JOBS}{job.pk}/cancel/"):
        assert client.get(url).status_code == 403
        assert client.post(url, {"action": "cancel"}).status_code == 403
    assert states() == ["pending"]


def test_nobody_acts_by_a_link_or_from_another_site(admin_user):
    """A GET changes nothing; a POST needs the page's token."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(admin_user)
    job = JobFactory()
    client.get(f"{JOBS}?action=cancel&_selected_action={job.pk}&jobs={job.pk}")
    html = page(client, f"{JOBS}{job.pk}/cancel/")
    data = {"action": "cancel", "_selected_action": job.pk, "jobs": job.pk}
    for url in (JOBS, f"{JOBS}{job.pk}/cancel/"):
        assert client.post(url, data).status_code == 403
    assert states() == ["pending"]
    [token] = set(re.findall(r'csrfmiddlewaretoken" value="(\w+)"', html)[-1:])
    response = client.post(f"{JOBS}{job.pk}/cancel/", {"csrfmiddlewaretoken": token})
    assert response.status_code == 302
    assert states() == ["cancelled"]


def test_nobody_edits_or_deletes_a_job(admin_client):
    """Least of all one that runs: no form, no action and no address does."""
    for job in (JobFactory(leased=True), JobFactory(failed=True)):
        url = f"{JOBS}{job.pk}/"
        before = Job.objects.values().get(pk=job.pk)
        html = page_of(admin_client, job)
        assert "deletelink" not in html and 'name="_save"' not in html
        change = {"status": "pending", "queue": "x", "_save": "1"}
        assert admin_client.post(f"{url}change/", change).status_code == 403
        assert admin_client.post(f"{url}delete/", {"post": "yes"}).status_code == 403
        ticked = {
            "_selected_action": job.pk,
            "post": "yes",
            "action": "delete_selected",
        }
        admin_client.post(JOBS, ticked)
        saved = {"form-TOTAL_FORMS": 1, "form-INITIAL_FORMS": 1, "_save": "1"}
        admin_client.post(JOBS, {**saved, "form-0-id": job.pk, "form-0-queue": "x"})
        assert Job.objects.values().get(pk=job.pk) == before
    assert "delete_selected" not in page(admin_client, JOBS)


# --- Where and how it is shown


@pytest.mark.urls(__name__)
def test_custom_site(admin_client):
    """It asks, acts and comes back within the site that it was begun on."""
    url, job = "/back/leasequeue/job/", JobFactory()
    html = asked(admin_client, "cancel", job, url=url)
    assert '"/admin/' not in html and f'href="{url}"' in html
    confirmed(admin_client, html, url=url)
    html = page(admin_client, f"{url}{job.pk}/change/")
    assert f'href="{url}{job.pk}/retry/"' in html
    html = page(admin_client, f"{url}{job.pk}/retry/")
    assert '"/admin/' not in html and f'href="{url}{job.pk}/change/"' in html
    response = admin_client.post(f"{url}{job.pk}/retry/")
    assert response["Location"] == f"{url}{job.pk}/change/"
    assert states() == ["pending"]


def test_180_markup_is_text_and_nothing_is_in_line(admin_client):
    """Case 180: also what a strict Content-Security-Policy refuses is not there."""
    job = JobFactory(task=MARKUP * 4, queue=MARKUP, failed=True)
    JobFactory(task=MARKUP)
    pages = [
        asked(
            admin_client, "retry", *Job.objects.all(), url=f"{JOBS}?q={quote(MARKUP)}"
        ),
        page(admin_client, f"{JOBS}{job.pk}/retry/"),
        page(admin_client, f"{JOBS}{job.pk + 1}/retry/"),
        admin_client.post(f"{JOBS}{job.pk}/retry/", follow=True).content.decode(),
        page(admin_client, f"{JOBS}{job.pk}/history/"),
        page(admin_client, "/admin/"),
    ]
    for html in pages:
        assert "<script>alert" not in html
        assert not re.search(r"<script(?![^>]*\ssrc=)[^>]*>", html)
        assert not re.search(r"<style|\sstyle=|\son[a-z]+=|javascript:", html)


def test_workers_have_no_actions(admin_client):
    """Nothing of this is for other rows that people only look at."""
    assert not admin.site.get_model_admin(Worker).actions
