"""What a job's page shows of its data: to whom, and what its task hides."""

from django_leasequeue import every
from django_leasequeue.models import Schedule
from django_leasequeue.redaction import HIDDEN
from tests.admin.acting import allow
from tests.admin.looking import line_of, page, page_of, step_of
from tests.factories import JobFactory
from tests.road import toy
from tests.scheduling import a_schedule

# Each word that is looked for has a hyphen, which no CSRF token and no number has.
NAME = "tests.tasks.pay"
PROGRESS = {"progress": {"done": 1, "total": 2, "text": "paying zo-e"}}


def pay(card, amount=1, **more):
    pass


def job(**values):
    made = JobFactory(
        failed=True,
        task=NAME,
        args=["4111-1111"],
        kwargs={"amount": 20, "to": "zo-e"},
        result={"code": "ab-c"},
        meta={"tenant": "ac-me"},
        **{**PROGRESS, **values},
    )
    step_of(made, name="charge", result={"code": "ab-cd"})
    return made


def shown(html, *names):
    return [line_of(html, name).replace("&quot;", "") for name in names]


def test_arguments_by_name(admin_client):
    """As the task calls them; by position and name where they don't fit."""
    with toy(pay, name=NAME):
        html = page_of(admin_client, job())
        assert shown(html, "args") == ["{ card: 4111-1111, amount: 20, to: zo-e }"]
        assert "field-kwargs" not in html
    html = page_of(admin_client, job())  # its code is gone
    assert shown(html, "args", "kwargs") == [
        "[ 4111-1111 ]",
        "{ amount: 20, to: zo-e }",
    ]


def test_names_are_hidden(admin_client):
    with toy(pay, name=NAME, redact=["card", "return"]):
        html = page_of(admin_client, job())
    assert "4111-" not in html and "ab-c" not in html
    args, result, steps, meta = shown(html, "args", "result", "steps", "meta")
    assert args == f"{{ card: {HIDDEN}, amount: 20, to: zo-e }}"
    assert result == HIDDEN and f"charge {HIDDEN}" in steps
    assert meta == "{ tenant: ac-me }"


def test_a_function_says_what_to_show(admin_client):
    def masked(name, value):
        return f"…{value[-4:]}" if name == "card" else value

    with toy(pay, name=NAME, redact=masked):
        html = page_of(admin_client, job())
    assert shown(html, "args") == ["{ card: …1111, amount: 20, to: zo-e }"]
    assert "charge {code: ab-cd}" in shown(html, "steps")[0]


def test_who_may_not_see_arguments(client, user):
    """Sees when and where it failed, by which exception, and nothing that may quote them."""
    one = job(run_at="2049-01-01T00:00Z")
    with toy(pay, name=NAME):
        html = page_of(client, one)
        for word in ("4111-", "zo-e", "ac-me", "ab-c", "as asked"):
            assert word not in html
        assert set(shown(html, "args", "kwargs", "result", "meta")) == {HIDDEN}
        assert f"builtins.ValueError {HIDDEN}" in line_of(html, "errors")
        assert f"ValueError: {HIDDEN}" in line_of(html, "why")
        assert line_of(html, "status") == "Failed"
        assert f"charge {HIDDEN}" in line_of(html, "steps")
        allow(user, "view_job_arguments")
        html = page_of(client, one)
    for word in ("4111-", "zo-e", "ac-me", "ab-c", "ValueError: as asked"):
        assert word in html
    assert HIDDEN not in html


def test_broken_json_is_hidden_as_well(client, user):
    one = job(errors="odd", progress="4111-1111")
    html = page_of(client, one)
    assert shown(html, "errors", "progress") == [HIDDEN, HIDDEN]
    assert "4111-" not in html


def test_arguments_of_a_schedule(client, user):
    """As those of its jobs, but for whoever changes them: they have typed them."""
    schedule = a_schedule(every(hours=1, args=["4111-1111"], kwargs={"to": "zo-e"}))
    Schedule.objects.update(
        task=NAME, options={"meta": {"tenant": "ac-me"}}, origin="admin"
    )
    allow(user, "view_schedule")
    url = f"/admin/leasequeue/schedule/{schedule.pk}/change/"
    with toy(pay, name=NAME, redact="card"):
        html = page(client, url)
        for word in ("4111-", "zo-e", "ac-me"):
            assert word not in html
        allow(user, "view_job_arguments")
        html = page(client, url)
        assert "4111-" not in html and "zo-e" in html and "ac-me" in html
        allow(user, "change_schedule")
        assert "4111-" in page(client, url)
    assert Schedule.objects.get().args == ["4111-1111"]


def test_nobody_finds_out_arguments_of_a_schedule_by_a_filter(client, user):
    a_schedule(every(hours=1, args=["4111-1111"]))
    allow(user, "view_schedule")
    for name in ("args", "kwargs", "options"):
        url = f"/admin/leasequeue/schedule/?{name}__contains=4111"
        assert client.get(url).status_code == 400
