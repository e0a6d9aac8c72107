"""Jobs are taken from their workers and deleted in the admin, and none by accident."""

from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.db.models import TextField, Value
from django.test import RequestFactory

from django_leasequeue.admin import JobAdmin
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job
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
from tests.road import claim, ids, row

TTL = timedelta(minutes=5)
WINDOW = {"dedup_ttl": TTL, "dedup_until": DatabaseNow(TTL), "dedup_id": "a"}


def test_release(admin_client):
    """176, 178: running ones wait again, one that was to stop has ended; the rest is told."""
    jobs = one_of_each()
    stopped = JobFactory(leased=True, cancel_requested_at=DatabaseNow())
    html = asked(admin_client, "release", *jobs.values(), stopped)
    assert [
        (words[1], words[2].startswith("not changed")) for words in table(html)
    ] == [*[("1", True), ("2", False), ("1", True), ("1", True), ("1", True)]]
    assert 'value="Release: 2 jobs"' in html and "may run twice at one time" in html
    assert row(stopped)["status"] == "running"
    html = confirmed(admin_client, html)
    assert "1 job was taken from its worker and waits again." in html
    assert "1 job was taken from its worker and is cancelled, as it was asked" in html
    assert "4 jobs were not changed, since they did not run: " in html
    assert states() == [
        *("pending", "pending", "succeeded", "failed", "cancelled", "cancelled")
    ]
    assert logged() == [
        (jobs["leased"].pk, "Taken from its worker."),
        (stopped.pk, "Taken from its worker and cancelled."),
    ]


def test_delete(admin_client):
    """Neither what runs nor what a window keeps; the log tells what is gone, and by whom."""
    jobs, kept = one_of_each(), JobFactory(succeeded=True, **WINDOW)
    html = asked(admin_client, "remove", *jobs.values(), kept)
    assert [
        (words[1], words[2].startswith("not changed")) for words in table(html)
    ] == [*[("1", False), ("1", True), ("2", False), ("1", False), ("1", False)]]
    assert Job.objects.count() == 6
    html = confirmed(admin_client, html)
    assert "4 jobs are deleted." in html
    running = jobs["leased"]
    assert f"1 job was not deleted, since it runs: {running.pk}." in html
    assert f"1 job was not deleted, since its dedup window lasts: {kept.pk}." in html
    assert set(Job.objects.all()) == {running, kept}
    entries = LogEntry.objects.filter(action_flag=DELETION, user__username="admin")
    assert sorted(entries.values_list("object_repr", flat=True)) == sorted(
        str(job) for job in jobs.values() if job != running
    )
    assert not LogEntry.objects.filter(action_flag=CHANGE).exists()


def test_178_a_job_that_is_claimed_while_somebody_reads_the_page(admin_client):
    """It is not deleted; and one that has ended meanwhile is not released."""
    job, other = JobFactory(priority=1), JobFactory(leased=True)
    deleting = asked(admin_client, "remove", job)
    releasing = asked(admin_client, "release", other)
    [held] = claim()
    before = row(job)
    ended = {"processing_token": None, "processing_until": None, "status": "failed"}
    Job.objects.filter(pk=other.pk).update(**ended, finished_at=DatabaseNow())
    html = confirmed(admin_client, deleting)
    assert f"1 job was not deleted, since it runs: {held.id}." in html
    assert row(job) == before
    html = confirmed(admin_client, releasing)
    assert f"1 job was not changed, since it did not run: {other.pk}." in html
    assert row(other)["status"] == "failed"
    assert logged() == []


def test_a_run_that_began_after_the_page_was_shown(admin_client):
    """As when another worker has recovered the job: it is not taken from that one."""
    job, other = JobFactory(expired=True), JobFactory(leased=True)
    html = asked(admin_client, "release", job, other)
    form = page(admin_client, f"{JOBS}{job.pk}/release/")
    [held] = claim()
    assert held.id == job.pk
    told = confirmed(admin_client, html)
    assert f"since a worker has begun it anew meanwhile: {job.pk}." in told
    assert "1 job was taken from its worker and waits again." in told
    response = admin_client.post(f"{JOBS}{job.pk}/release/", fields(form), follow=True)
    assert "has begun it anew meanwhile" in response.content.decode()
    assert row(job)["processing_token"] == held.token
    for runs in ("soon", f"{job.pk}", f"{job.pk}:", "1:2:3"):
        bad = {**fields(form), "runs": runs}
        assert admin_client.post(f"{JOBS}{job.pk}/release/", bad).status_code == 400


def test_from_its_page(admin_client):
    """Only what is legal is offered; what is deleted leads back to the list."""
    running, ended = JobFactory(leased=True), JobFactory(failed=True)
    kept = JobFactory(failed=True, **WINDOW)
    html = page_of(admin_client, running)
    assert f"{running.pk}/release/" in html and f"{running.pk}/remove/" not in html
    html = page_of(admin_client, ended)
    assert f"{ended.pk}/release/" not in html and f"{ended.pk}/remove/" in html
    assert "/remove/" not in page_of(admin_client, kept)
    assert "Delete: 1 job" in page(admin_client, f"{JOBS}{ended.pk}/remove/")
    response = admin_client.post(f"{JOBS}{ended.pk}/remove/", follow=True)
    assert response.redirect_chain == [(JOBS, 302)]
    assert "1 job is deleted." in response.content.decode()
    response = admin_client.post(f"{JOBS}{kept.pk}/remove/", follow=True)
    assert response.redirect_chain == [(f"{JOBS}{kept.pk}/change/", 302)]
    response = admin_client.post(f"{JOBS}{running.pk}/release/", follow=True)
    assert "waits again." in response.content.decode()
    assert set(Job.objects.all()) == {running, kept}


def test_174_what_no_worker_can_run_is_deleted(admin_client):
    """Case 174: its task is gone, its columns are no JSON; no code is asked."""
    for state in ({}, {"failed": True}):
        job = JobFactory(task="gone.task", **state)
        text = Value("{broken", output_field=TextField())
        Job.objects.filter(pk=job.pk).update(args=text, kwargs=text, errors=text)
        assert f"{job.pk}/remove/" in page_of(admin_client, job)
        assert "1 job is deleted." in done(admin_client, "remove", job)
    running = JobFactory(task="gone.task", leased=True)
    assert "waits again." in done(admin_client, "release", running)


@pytest.mark.parametrize(
    "codename, verb, other",
    [("release_job", "release", "remove"), ("delete_job", "remove", "cancel")],
)
def test_each_has_its_own_permission(client, user, codename, verb, other):
    job = JobFactory(**({"leased": True} if verb == "release" else {}))
    chosen = {"action": verb, "_selected_action": job.pk, "jobs": job.pk}
    before = row(job)
    client.post(JOBS, chosen)
    assert client.post(f"{JOBS}{job.pk}/{verb}/").status_code == 403
    assert row(job) == before
    allow(user, codename)
    html = page(client, JOBS)
    assert f'value="{verb}"' in html and f'value="{other}"' not in html
    done(client, verb, job)
    assert row(job) is None if verb == "remove" else row(job)["status"] == "pending"


def test_djangos_own_ways_to_delete_stay_shut(client, user):
    """Also to whoever has its permission: none of them asks a job whether it runs."""
    allow(user, "delete_job", "change_job", "add_job")
    for job in (JobFactory(leased=True), JobFactory(failed=True)):
        html = page_of(client, job)
        assert "deletelink" not in html and 'name="_save"' not in html
        assert (
            client.post(f"{JOBS}{job.pk}/delete/", {"post": "yes"}).status_code == 403
        )
        ticked = {"_selected_action": job.pk, "post": "yes"}
        client.post(JOBS, {**ticked, "action": "delete_selected"})
        assert Job.objects.filter(pk=job.pk).exists()
    assert "delete_selected" not in page(client, JOBS)


def test_a_subclass_that_opens_them(admin_user):
    """Still deletes none that runs."""
    running, ended, other = JobFactory(leased=True), *JobFactory.create_batch(2)
    model_admin, request = JobAdmin(Job, admin.site), RequestFactory().post("/")
    request.user = admin_user
    model_admin.delete_queryset(request, model_admin.get_queryset(request))
    assert [*Job.objects.all()] == [running]
    model_admin.delete_model(request, running)
    assert [*Job.objects.all()] == [running]
    assert {ended, other}.isdisjoint(ids(Job.objects.all()))
