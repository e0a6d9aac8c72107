"""The dashboard: what it says, who sees it and may pause, what it costs."""

import json
import re
from datetime import timedelta

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission
from django.db import OperationalError
from django.test import Client
from django.urls import path

from django_leasequeue import monitoring
from django_leasequeue.admin import JobAdmin, dashboard_rows
from django_leasequeue.db import DatabaseNow, database_now
from django_leasequeue.models import Job, Queue, Schedule, Tally
from django_leasequeue.transitions.tally import whole_minute
from django_leasequeue.views import MetricsView
from tests.admin.looking import JOBS, QUEUES, make_worker, page, statements
from tests.factories import JobFactory

DASHBOARD = f"{JOBS}dashboard/"
REGION = f"{DASHBOARD}?region"
MARKUP = "<script>alert('&')</script>"
backstage = admin.AdminSite(name="backstage")
backstage.register(Job, JobAdmin)
urlpatterns = [path("back/", backstage.urls), path("admin/", admin.site.urls)]


def make_schedule(name="nightly", **values):
    return Schedule.objects.create(
        **{
            "name": name,
            "task": "tests.tasks.add",
            "kind": "every",
            "expression": "600",
            "created_at": DatabaseNow(-900),
            "since": DatabaseNow(-900),
            "last_tick": DatabaseNow(-300),
            "next_tick": DatabaseNow(300),
            **values,
        }
    )


def rows(html, section):
    """Return the texts of the rows of a section's table."""
    part = html.partition(f'<h2 id="leasequeue-{section}"')[2].partition("</section>")[
        0
    ]
    found = re.findall(r"<tr>(.*?)</tr>", part.partition("<tbody>")[2], re.S)
    return [" ".join(re.sub(r"<[^>]+>", " ", row).split()) for row in found]


def tiles(html):
    found = re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html)
    return dict(found)


def post(client, verb, queue, **more):
    data = {"verb": verb, "queue": queue}
    return client.post(DASHBOARD, data, **more)


@pytest.fixture
def user(client, django_user_model):
    """Log a member of the staff in, who may do what the test adds."""
    made = django_user_model.objects.create_user("ann", password="x", is_staff=True)
    client.force_login(made)

    def may(*names):
        made.user_permissions.add(*Permission.objects.filter(codename__in=names))

    return may


# --- What it says


def test_nothing_yet(admin_client):
    html = page(admin_client, DASHBOARD)
    for text in (
        "No job waits or runs, and no queue is paused.",
        "No worker is running, and none has vanished in the last day.",
        "There is no schedule.",
        "leasequeue/dashboard.js",
        "leasequeue-well",
    ):
        assert text in html
    assert tiles(html)["Ready"] == tiles(html)["Live workers"] == "0"


def test_queues(admin_client):
    JobFactory.create_batch(2, queue="mail", run_at=DatabaseNow(-121))
    JobFactory(queue="mail", scheduled=True)
    JobFactory(queue="mail", blocked=1, concurrency_key="a")
    JobFactory(queue="mail", leased=True)
    JobFactory(queue="post")
    Queue.objects.pause("post", by="ann", reason="Out of stamps.")
    make_worker(queues=["mail"])
    html = page(admin_client, DASHBOARD)
    mail, post = rows(html, "queues")
    assert mail == "mail 2 2 minutes 3 1 1 1 open Pause"
    assert re.fullmatch(
        r"post - - 1 0 0 0 paused by ann, \S+ \S+ \S+: Out of stamps. Resume", post
    )
    assert tiles(html) == {
        "Ready": "2",
        "Oldest ready": "2 minutes",
        "Running": "1",
        "Live workers": "1",
        "Failed in the last hour": "0",
    }
    assert f'href="{JOBS}?queue=mail&amp;status__exact=pending"' in html


def test_what_is_wrong_comes_first(admin_client):
    JobFactory(queue="mail")
    make_schedule(next_tick=DatabaseNow(-961))
    html = page(admin_client, DASHBOARD)
    problems = html.partition('class="leasequeue-problems"')[2].partition("</ul>")[0]
    assert "has ready jobs, and no live worker takes it." in problems
    assert "its tick is overdue for 16 minutes" in problems
    assert rows(html, "queues")[0].endswith("no worker Pause")
    assert "leasequeue-well" not in html


def test_workers_and_what_they_run(admin_client):
    """Those that nobody has seen come first, also one without a row that still has a job."""
    make_worker(name="a", queues=["mail"])
    make_worker(name="b", queues=["*"], last_seen_at=DatabaseNow(-181))
    job = JobFactory(leased=True, worker="a", last_attempted_at=DatabaseNow(-121))
    JobFactory.create_batch(5, leased=True, worker="a")
    lost = JobFactory(expired=True, worker="z")
    gone, silent, live = rows(page(admin_client, DASHBOARD), "workers")
    assert gone.startswith(f"z no longer listed - - {lost.pk} tests.tasks.add for ")
    assert gone.endswith("lease past")
    assert silent == "b dead or cut off 3 minutes ago * -"
    assert re.match(
        rf"a live \d+ seconds ago mail {job.pk} tests.tasks.add for 2 minutes", live
    )
    assert live.endswith("and 1 more")


def test_failures(admin_client):
    """By queue and task, with the newest; its message is not told, since it may quote."""
    JobFactory.create_batch(2, queue="mail", failed=True)
    last = JobFactory(queue="mail", failed=True, finished_at=DatabaseNow(60))
    other = JobFactory(
        queue="post", failed=True, errors=[], finished_at=DatabaseNow(-181)
    )
    JobFactory(task="old", failed=True, finished_at=DatabaseNow(-4000))
    html = page(admin_client, DASHBOARD)
    assert rows(html, "failures") == [
        f"tests.tasks.add mail 3 {last.pk} builtins.ValueError 0 seconds ago",
        f"tests.tasks.add post 1 {other.pk} 3 minutes ago",
    ]
    assert "as asked" not in html
    assert tiles(html)["Failed in the last hour"] == "4"


def test_schedules(admin_client):
    """Bad ones first."""
    make_schedule()
    make_schedule("idle", paused_at=DatabaseNow(), paused_by="ann", next_tick=None)
    make_schedule("stuck", problem="No such task.", next_tick=DatabaseNow(30))
    make_schedule("late", next_tick=DatabaseNow(-181))
    late, stuck, nightly, idle = rows(page(admin_client, DASHBOARD), "schedules")
    assert late.startswith("late overdue for 3 minutes every 600 s ")
    assert stuck.startswith("stuck broken No such task. every 600 s ")
    assert nightly.startswith("nightly active every 600 s ")
    assert idle.startswith("idle paused by ann every 600 s - ")


def test_ids_are_no_amounts(admin_client, settings):
    """Whoever looks for one finds it as it stands there."""
    settings.USE_THOUSAND_SEPARATOR = True
    JobFactory(pk=1_234_567, leased=True, worker="a")
    JobFactory(pk=1_234_568, failed=True)
    make_schedule(last_job=1_234_569)
    html = page(admin_client, DASHBOARD)
    assert all(f">{pk}<" in html for pk in (1_234_567, 1_234_568, 1_234_569))


def test_charts(admin_client):
    """Of the last hour and day, as SVG and as tables; before a worker has counted they say so."""
    assert page(admin_client, DASHBOARD).count("Nothing is counted yet") == 4
    before = whole_minute(database_now("default")) - timedelta(minutes=2)
    Tally.objects.create(minute=before, succeeded=1234, failed=5)
    html = page(admin_client, DASHBOARD)
    assert html.count("1,234 succeeded, 5 failed, 0 cancelled.") == 4
    assert html.count('role="img"') == 2
    assert html.count('class="leasequeue-bar-succeeded"') == 2
    assert html.count('class="leasequeue-bar-failed" d="M') == 2
    assert "Counted until" in html


def test_it_says_how_many_it_leaves_out(admin_client, monkeypatch):
    monkeypatch.setattr(monitoring.queues, "MOST_QUEUES", 1)
    for name in ("WORKERS", "SCHEDULES", "FAILING"):
        monkeypatch.setattr(dashboard_rows, f"MOST_{name}", 1)
    monkeypatch.setattr(monitoring.queues, "MOST_COUNTED", 2)
    monkeypatch.setattr(dashboard_rows, "MOST_COUNTED", 2)
    for name in ("a", "b", "c"):
        JobFactory.create_batch(3, queue=name)
        JobFactory(queue=name, failed=True)
        make_worker(name=name)
        make_schedule(name)
    html = page(admin_client, DASHBOARD)
    assert html.count("and 2 more") == 4
    assert rows(html, "queues")[0].startswith("a 2 or more ")
    assert tiles(html)["Ready"] == "2 or more"


def test_markup_is_text(admin_client):
    """Case 180."""
    JobFactory(queue=MARKUP, task=MARKUP, worker=MARKUP, leased=True)
    JobFactory(queue=MARKUP, task=MARKUP * 4, failed=True)
    make_worker(name=MARKUP, queues=[MARKUP])
    make_schedule(MARKUP, problem=MARKUP, paused_by=MARKUP)
    Queue.objects.pause(MARKUP, by=MARKUP, reason=MARKUP)
    html = page(admin_client, DASHBOARD)
    assert MARKUP not in html and "alert('&')" not in html
    assert "&lt;script&gt;" in html
    # Nor does a cut name with its markup get into an attribute.
    assert not re.search(r'data-key="[^"]*<', html)


def test_the_same_as_json(admin_user, rf):
    """The page and the view for monitoring are of the same figures."""
    JobFactory(queue="mail", leased=True, worker="w")
    JobFactory(queue="mail", failed=True)
    Queue.objects.pause("post", by="ann")
    make_schedule()
    found = monitoring.overview("default").as_dict()
    request = rf.get("/")
    request.user = admin_user
    assert json.loads(MetricsView.as_view()(request).content).keys() == found.keys()
    assert found["running"][0]["worker"] == "w"
    assert found["last_failures"][0]["exception_class"] == "builtins.ValueError"
    assert found["schedules"][0]["name"] == "nightly"
    assert {q["name"]: q["paused_by"] for q in found["queues"]} == {
        "mail": "",
        "post": "ann",
    }


def test_the_region_is_what_changes(admin_client):
    """The script fetches it, and no more."""
    JobFactory(queue="mail")
    html = page(admin_client, REGION)
    assert "<html" not in html and "<script" not in html
    assert rows(html, "queues") == rows(page(admin_client, DASHBOARD), "queues")
    assert "csrfmiddlewaretoken" in html
    assert f'action="{DASHBOARD}"' in html


def test_no_script_and_no_style_within(admin_client):
    """A strict Content-Security-Policy lets it work."""
    JobFactory(queue="mail", failed=True)
    html = page(admin_client, DASHBOARD).partition('<div id="content-main">')[2]
    assert not re.search(r"<script|<style|\sstyle=|\son\w+=", html)


# --- Where it is


def test_links_lead_to_it(admin_client):
    for url in ("/admin/leasequeue/", JOBS, QUEUES):
        assert f'href="{DASHBOARD}">Dashboard</a>' in page(admin_client, url)


@pytest.mark.urls("tests.admin.test_dashboard")
def test_in_a_site_of_its_own(admin_client):
    """Which has but the jobs: what it can't show it does not link to."""
    JobFactory(queue="mail", leased=True, worker="w")
    make_worker(name="w")
    make_schedule()
    for url in ("/back/leasequeue/", "/back/leasequeue/job/"):
        assert 'href="/back/leasequeue/job/dashboard/"' in page(admin_client, url)
    html = page(admin_client, "/back/leasequeue/job/dashboard/")
    assert 'href="/admin' not in html
    assert 'href="/back/leasequeue/job/?queue=mail"' in html
    response = admin_client.post(
        "/back/leasequeue/job/dashboard/", {"verb": "pause", "queue": "mail"}
    )
    assert response["Location"] == "/back/leasequeue/job/dashboard/"


# --- Who may


def test_who_may_see_it(client, user):
    assert Client().get(DASHBOARD).status_code == 302
    assert client.get(DASHBOARD).status_code == 403
    user("view_queue")
    assert client.get(DASHBOARD).status_code == 403
    assert "Dashboard" not in page(client, QUEUES)
    user("view_job")
    html = page(client, DASHBOARD)
    assert "csrfmiddlewaretoken" not in html.partition('<div id="content-main">')[2]
    assert f'href="{DASHBOARD}"' in page(client, QUEUES)


def test_who_may_pause(client, user):
    JobFactory(queue="mail")
    user("view_job")
    assert post(client, "pause", "mail").status_code == 403
    assert ">Pause</button>" not in page(client, DASHBOARD)
    user("pause_queue")
    assert ">Pause</button>" in page(client, DASHBOARD)
    html = post(client, "pause", "mail", follow=True).content.decode()
    assert "“mail” is paused." in html
    assert Queue.objects.get().paused_by == "ann"
    assert ">Resume</button>" in html
    html = post(client, "pause", "mail", follow=True).content.decode()
    assert "was so already" in html
    post(client, "resume", "mail")
    assert not Queue.objects.paused().exists()
    logged = LogEntry.objects.order_by("pk").values_list("object_id", "change_message")
    assert list(logged) == [("mail", "Paused."), ("mail", "Resumed.")]


def test_pausing_alone_shows_nothing(client, user):
    user("pause_queue")
    assert post(client, "pause", "mail").status_code == 403
    assert not Queue.objects.exists()


@pytest.mark.parametrize(
    ("verb", "queue"),
    [("pause", ""), ("pause", "a,b"), ("", "mail"), ("delete", "mail")],
)
def test_what_can_not_be_done(admin_client, verb, queue):
    assert post(admin_client, verb, queue).status_code == 400
    assert not Queue.objects.exists()


def test_another_sites_form_pauses_nothing(admin_client, admin_user):
    careful = Client(enforce_csrf_checks=True)
    careful.force_login(admin_user)
    assert post(careful, "pause", "mail").status_code == 403
    assert not Queue.objects.exists()


# --- What it costs


def test_statements(admin_client):
    """As many, however many there are of everything; it only looks."""
    counts = set()
    for number in range(3):
        for name in "abc"[: number + 1]:
            of = f"{name}{number}"
            JobFactory(queue=of)
            JobFactory(queue=of, task=name, failed=True)
            JobFactory.create_batch(2, queue=of, leased=True, worker=of)
            JobFactory(queue=of, blocked=1, concurrency_key=of)
            make_worker(name=of)
            make_schedule(of)
        Queue.objects.pause(f"paused {number}")
        seen = statements(admin_client, REGION)
        counts.add(len(seen))
        for sql in seen:
            assert sql.split()[0] in ("SELECT", "WITH", "PRAGMA"), sql
            assert "FOR UPDATE" not in sql
    assert counts == {20}


def test_a_database_that_can_not_be_asked(admin_client, caplog, monkeypatch):
    page(admin_client, DASHBOARD)

    def refused(*args):
        raise OperationalError("gone")

    monkeypatch.setattr("django_leasequeue.admin.dashboard.overview", refused)
    for url in (DASHBOARD, REGION):
        response = admin_client.get(url)
        assert response.status_code == 503
        assert "could not be asked" in response.content.decode()
    assert "can't be read" in caplog.text
