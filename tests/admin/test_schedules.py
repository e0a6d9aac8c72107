"""Schedules in the admin: made with a preview, changed, paused, run; and who may do that."""

import re

import pytest
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission

from django_leasequeue import cron, every
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Job, Schedule
from django_leasequeue.times import local_time
from tests.admin.looking import line_of, page, statements
from tests.factories import JobFactory
from tests.road import row
from tests.scheduling import HALF, STEP, a_schedule, database_now, nth, tick

SCHEDULES = "/admin/leasequeue/schedule/"
MARKUP = "<b>&'\"</b>"


def typed(**values):
    """Return what the form sends."""
    return {
        "name": "nightly",
        "task": "tests.tasks.add",
        "kind": "cron",
        "expression": "30 2 * * *",
        "tz": "Europe/Berlin",
        "args": "[1, 2]",
        "kwargs": "{}",
        "options": '{"queue": "mail"}',
        "missed": "latest",
        "cap": "100",
        "overlap": "skip",
        "starts_at_0": "",
        "starts_at_1": "",
        "ends_at_0": "",
        "ends_at_1": "",
        "limit": "",
        "enabled": "on",
        **values,
    }


def add(client, **values):
    return client.post(
        f"{SCHEDULES}add/", typed(**values), follow=True
    ).content.decode()


def url(schedule):
    return f"{SCHEDULES}{schedule.pk}/change/"


def chosen(client, action, *schedules):
    data = {"action": action, "_selected_action": [one.pk for one in schedules]}
    return client.post(SCHEDULES, data, follow=True).content.decode()


def errors(html):
    return " ".join(re.findall(r'class="errorlist.*?</ul>', html, re.S))


def test_a_schedule_is_made_with_its_firings_shown(admin_client):
    # At a time of day that each day has: half past two is left out once in March.
    html = add(admin_client, expression="30 4 * * *")
    made = Schedule.objects.get()
    assert (made.origin, made.expression, made.options) == (
        "admin",
        "30 4 * * *",
        {"queue": "mail"},
    )
    table = re.findall(
        r"<tr>\s*<td>(.*?)</td>\s*<td>(.*?)</td>\s*<td>(.*?)</td>", html, re.S
    )
    assert len(table) == 20
    assert all("04:30:00 CE" in local and "UTC" in utc for local, utc, _ in table)
    before = database_now()
    tick(made)
    assert Schedule.objects.get().next_tick > before


def test_days_on_which_the_clock_is_changed_are_marked(admin_client):
    add(
        admin_client,
        expression="30 2 29 3 *",
        starts_at_0="2026-01-01",
        starts_at_1="00:00",
    )
    add(admin_client, name="other", expression="30 2 * 3 0L", tz="Europe/Berlin")
    html = page(admin_client, url(Schedule.objects.get(name="other")))
    assert html.count("the clock is changed that day") >= 15
    assert "03:00:00 CEST" in html  # it is in the gap


def test_one_that_never_starts_leaves_the_others_to_be_seen(admin_client):
    never = {"starts_at_0": "9999-12-31", "starts_at_1": "15:59", "tz": "Asia/Tokyo"}
    assert errors(add(admin_client, **never)) == ""
    assert "nightly" in page(admin_client, SCHEDULES)
    assert "None is to come" in page(admin_client, url(Schedule.objects.get()))


def test_a_dedup_id_is_given_as_to_a_dispatch(admin_client):
    for given in ('"mine"', '{"id": "mine", "ttl": 60}'):
        Schedule.objects.all().delete()
        assert errors(add(admin_client, options=f'{{"dedup": {given}}}')) == ""
        rows = Schedule.objects.filter(name="nightly")
        [(job, _)] = rows.run_now()
        assert row(job)["dedup_id"] == "mine"
        Job.objects.all().delete()


@pytest.mark.parametrize(
    "values, why",
    [
        ({"expression": "0 0 31 2 *"}, "no cron line that can be kept"),
        ({"expression": "@daily"}, "wrong number of fields"),
        ({"kind": "every", "expression": "soon"}, "whole number of seconds"),
        ({"tz": "Mars/Base"}, "no time zone"),
        ({"task": "tests.tasks.ad"}, "No task is registered"),
        ({"args": "[1]"}, "fit tests.tasks.add"),
        ({"args": "{"}, "valid JSON"),
        ({"args": '"ab"'}, "args must be a list"),
        ({"kwargs": "[1]"}, "kwargs must be a dict"),
        ({"options": "[1]"}, "JSON object"),
        ({"options": '{"nonsense": 1}'}, "nonsense"),
        ({"options": '{"delay": 60}'}, "no option &#x27;delay&#x27;"),
        ({"options": '{"meta": 5}'}, "meta must be a dict"),
        ({"options": '{"dedup": []}'}, "dedup id must be"),
        ({"options": '{"priority": 1000}'}, "priority must lie"),
        ({"cap": "0"}, "cap must be"),
        ({"ends_at_0": "9999-12-31", "ends_at_1": "23:59"}, "does not exist in UTC"),
        (
            {
                "starts_at_0": "2027-01-01",
                "starts_at_1": "00:00",
                "ends_at_0": "2026-01-01",
                "ends_at_1": "00:00",
            },
            "starts must be before",
        ),
        ({"name": "taken"}, "already exists"),
    ],
)
def test_what_can_not_be_is_refused(admin_client, values, why):
    a_schedule(name="taken")
    assert why in errors(add(admin_client, **values)), values
    assert Schedule.objects.count() == 1


def test_a_change_leaves_what_workers_write(admin_client):
    schedule = a_schedule(ago=STEP + HALF, problem="x", fired=5, last_job=7)
    before = Schedule.objects.get()
    html = admin_client.post(
        url(schedule),
        typed(name="s", kind="every", expression="3600", tz="UTC", args="[3, 4]"),
        follow=True,
    ).content.decode()
    assert "changed successfully" in html
    after = Schedule.objects.get()
    assert (after.args, after.fired, after.last_job, after.problem) == (
        [3, 4],
        5,
        7,
        "",
    )
    assert (after.created_at, after.since) == (before.created_at, before.since)
    [job] = tick(schedule).jobs  # the tick that had passed still counts
    assert (job.args, job.queue) == ([3, 4], "mail")
    admin_client.post(
        url(schedule), typed(name="s", kind="every", expression="7200", tz="UTC")
    )
    assert Schedule.objects.get().since > before.since


def test_a_schedule_can_be_disabled_and_enabled(admin_client):
    add(admin_client)
    made = Schedule.objects.get()
    admin_client.post(url(made), typed(enabled=""))
    tick(made)
    assert Schedule.objects.get().state == "disabled"
    assert Schedule.objects.get().next_tick is None
    admin_client.post(url(made), typed())
    before = database_now()
    tick(made)
    assert Schedule.objects.get().next_tick > before


def test_the_codes_schedules_are_to_look_at(admin_client):
    code = {"origin": "code", "seen_at": DatabaseNow()}
    schedule = a_schedule(cron("0 3 * * *", args=[1, 2]), **code)
    html = page(admin_client, url(schedule))
    assert 'name="_save"' not in html and "deletelink" not in html
    assert line_of(html, "expression") == "0 3 * * *"
    assert "None is to come" not in html
    assert admin_client.post(url(schedule), typed()).status_code == 403
    html = chosen(admin_client, "delete_selected", schedule)
    assert "Cannot delete" in html and "comes from the code" in html
    assert "have permission" not in html
    sure = {"action": "delete_selected", "_selected_action": schedule.pk, "post": "yes"}
    admin_client.post(SCHEDULES, sure)
    assert Schedule.objects.get() == schedule
    for gone in ({"enabled": False}, {"enabled": True, "seen_at": DatabaseNow(-200)}):
        Schedule.objects.update(**gone)
        assert "Are you sure" in chosen(admin_client, "delete_selected", schedule)
        assert "deletelink" in page(admin_client, url(schedule))


def test_a_broken_one_tells_what_is_wrong_instead_of_a_past_tick(admin_client):
    schedule = a_schedule(ago=STEP + HALF, problem="No such task.")
    assert "No such task." in line_of(page(admin_client, url(schedule)), "next_firing")
    html = page(admin_client, SCHEDULES)
    assert "No such task." in html and local_time(nth(schedule, 1)) not in html


def test_actions(admin_client):
    a, b = a_schedule(name="a"), a_schedule(name="b", args=[1])
    assert "2 schedules paused." in chosen(admin_client, "pause", a, b)
    assert Schedule.objects.get(name="a").paused_by == "admin"
    assert "0 schedules paused." in chosen(admin_client, "pause", a)
    assert "1 schedule resumed." in chosen(admin_client, "resume", a)
    html = chosen(admin_client, "run_now", a, b)
    job = Job.objects.get()
    assert f"“a”: Job {job.pk} is dispatched." in html and "“b”: Arguments don" in html
    assert job.meta == {"run_by": "admin"}
    assert f"“a”: Job {job.pk} has not finished." in chosen(admin_client, "run_now", a)
    logged = LogEntry.objects.filter(object_id=a.pk).order_by("pk")
    assert [entry.change_message for entry in logged] == [
        "Paused.",
        "Resumed.",
        f"Run now: job {job.pk}.",
    ]


def test_last_jobs_are_linked(admin_client):
    schedule = a_schedule(ago=STEP + HALF)
    [job] = tick(schedule).jobs
    by_hand = JobFactory(schedule="s")
    JobFactory(schedule="other")
    Schedule.objects.update(last_job=by_hand.pk)
    html = page(admin_client, url(schedule))
    for one in (job, by_hand):
        assert f'<a href="/admin/leasequeue/job/{one.pk}/change/">' in html
    assert "by hand" in html
    [link] = re.findall(r'href="([^"]*\?schedule=[^"]*)"', html)
    rows = admin_client.get(link).context["cl"].result_list
    assert {one.pk for one in rows} == {job.pk, by_hand.pk}
    assert local_time(nth(schedule, 1)) in html
    assert len(statements(admin_client, SCHEDULES)) < 8


def test_bad_rows_and_markup_are_shown_as_text(admin_client):
    bad = a_schedule(
        name=MARKUP,
        expression=MARKUP,
        tz="Mars",
        problem=MARKUP,
        skipped_why=MARKUP,
        args=[MARKUP],
    )
    for html in (page(admin_client, SCHEDULES), page(admin_client, url(bad))):
        assert MARKUP not in html and "&lt;b&gt;" in html


def test_who_may(client, django_user_model):
    schedule = a_schedule(every(hours=1, args=[1, 2]))
    user = django_user_model.objects.create_user("ann", password="x", is_staff=True)
    client.force_login(user)
    page(client, SCHEDULES, 403)
    for name, actions in (
        ("view", set()),
        ("pause", {"pause", "resume"}),
        ("run", {"run_now"}),
    ):
        user.user_permissions.set([Permission.objects.get(codename=f"{name}_schedule")])
        html = page(client, SCHEDULES)
        assert set(re.findall(r'<option value="(\w+)"', html)) == actions
        page(client, f"{SCHEDULES}add/", 403)
        assert 'name="_save"' not in page(client, url(schedule))
