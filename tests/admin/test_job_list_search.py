"""Searches of the job list: what is found where, and who may look into arguments."""

from contextlib import contextmanager

import pytest
from django.contrib.auth.models import Permission

from django_leasequeue.admin import reach, search
from django_leasequeue.models import Job
from tests.admin.looking import JOBS, found, page
from tests.factories import JobFactory


@contextmanager
def hiding(options):
    """Let a registered task hide an argument."""
    before = options.redact
    object.__setattr__(options, "redact", ("a",))
    yield
    object.__setattr__(options, "redact", before)


def test_arguments_are_searched(admin_client):
    """As they stand in the JSON, and as they are typed: text, other scripts, JSON."""
    job = JobFactory(args=["Zoë & Sons", {"order": [10017]}], kwargs={"vip": True})
    JobFactory(args=[1, 2])
    for term in ("Zoë", "10017", '{"order": [10017]}', '"order":[1', '{"vip":true}'):
        assert list(found(admin_client, term)) == [job], term
    for term in ("10018", "Zoe", '{"order": 10017}'):
        assert list(found(admin_client, term)) == [], term


def test_arguments_are_searched_among_the_first_of_the_list(admin_client, monkeypatch):
    """They are wide, so fewer jobs are looked through, which the page says."""
    monkeypatch.setattr(search, "ARGUMENTS", 2)
    monkeypatch.setattr(reach, "NEXT", 3)
    JobFactory(args=["needle"])
    near = JobFactory(args=["needle"])
    JobFactory(args=["hay"])
    assert list(found(admin_client, "needle")) == [near]
    JobFactory(args=["hay"])
    html = page(admin_client, JOBS + "?q=needle")
    assert "0 jobs" in html
    assert "Looked through 3 jobs, down to job" in html
    assert "Looked into the arguments of the first 2 only." in html


def test_nobody_searches_what_they_may_not_see(admin_client, client, django_user_model):
    """Neither without the permission, nor of a task that hides any, nor by a filter."""
    from tests.tasks import add

    job = JobFactory(args=["s3cret", 1])
    JobFactory(task="gone.with.its.code", args=["s3cret"])
    assert list(found(admin_client, "s3cret")) == [job]
    with hiding(add.options):
        assert list(found(admin_client, "s3cret")) == []
    viewer = django_user_model.objects.create_user("ann", is_staff=True)
    viewer.user_permissions.add(Permission.objects.get(codename="view_job"))
    client.force_login(viewer)
    assert list(found(client, "s3cret")) == []
    for name in ("args", "result", "errors", "next_args", "progress"):
        url = f"{JOBS}?{name}__contains=s3cret"
        assert admin_client.get(url).status_code == 400


def test_whole_names_come_alone(admin_client):
    """Whoever asks for job 41 wants that one, and parts only if they say so."""
    job = JobFactory(group="import", args=[])
    others = [
        JobFactory(dedup_id=f"import:{job.pk}", args=[]),
        JobFactory(args=[job.pk]),
    ]
    html = page(admin_client, f"{JOBS}?q={job.pk}")
    assert list(found(admin_client, str(job.pk))) == [job]
    assert "Look for it as a part, too" in html
    response = admin_client.get(f"{JOBS}?parts=&q={job.pk}")
    assert list(response.context["cl"].result_list) == others[::-1]
    assert list(found(admin_client, "import")) == [job]
    assert list(found(admin_client, "impor")) == [others[0], job]


def test_a_task_is_found_however_old_its_jobs_are(admin_client, monkeypatch):
    """Those that have ended, by the index; others as far as the search looks."""
    monkeypatch.setattr(reach, "NEXT", 2)
    old = JobFactory(task="shop.tasks.seldom", failed=True)
    JobFactory.create_batch(3)
    assert list(found(admin_client, "shop.tasks.seldom")) == [old]
    assert list(found(admin_client, "shop.tasks.seldo")) == []


@pytest.mark.parametrize("order, first", [("", -1), ("&o=1", 0)])
def test_a_search_begins_where_the_list_does(admin_client, monkeypatch, order, first):
    """And goes on from there by a link, to the last job there is."""
    monkeypatch.setattr(reach, "NEXT", 2)
    jobs = [job.pk for job in JobFactory.create_batch(5, task="shop.tasks.send_mail")]
    seen, url = [], f"?q=send{order}"
    while url:
        changes = admin_client.get(JOBS + url).context["cl"]
        seen.append([job.pk for job in changes.result_list])
        url = changes.further
    wanted = jobs if first == 0 else jobs[::-1]
    assert seen == [wanted[:2], wanted[2:4], wanted[4:]]


def test_boxes_that_complete_what_is_typed(rf, admin_user):
    """They ask the admin for the rows of a search, without a list."""
    from django.contrib import admin

    job, other = JobFactory(group="import"), JobFactory(dedup_id="imported")
    request = rf.get("/")
    request.user = admin_user
    jobs = admin.site.get_model_admin(Job)
    for term, rows in (("import", [job]), ("impor", [other, job]), (" ", [other, job])):
        some, _ = jobs.get_search_results(request, Job.objects.all(), term)
        assert list(some) == rows
