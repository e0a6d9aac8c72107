"""Queues in the admin: which are paused, and who may change that."""

import re

import pytest
from django.contrib import admin
from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission

from django_leasequeue import discovery
from django_leasequeue.models import Queue
from tests.admin.looking import QUEUES, line_of, page, statements
from tests.factories import JobFactory


def chosen(client, action, *names):
    """Do an action of the list to these queues; return the page that follows."""
    data = {"action": action, "_selected_action": names}
    return client.post(QUEUES, data, follow=True).content.decode()


def paused():
    return set(Queue.objects.paused().values_list("name", flat=True))


def logged():
    return list(
        LogEntry.objects.order_by("pk").values_list("object_id", "change_message")
    )


@pytest.fixture
def user(client, django_user_model):
    """Log a member of the staff in, who may do what the test adds."""
    made = django_user_model.objects.create_user("ann", password="x", is_staff=True)
    client.force_login(made)
    return made


def test_list_and_page(admin_client):
    """Which are paused, since when, by whom and why; and who has resumed the others."""
    for name in ("mail", "post"):
        Queue.objects.pause(name, by="ann", reason="The server is down.")
    Queue.objects.resume("post", by="bob")
    html = page(admin_client, QUEUES)
    rows = [
        re.sub(r"<[^>]+>|\s+", " ", row).split()
        for row in re.findall(r'<tr><td class="action.*?</tr>', html, re.S)
    ]
    assert [row[:2] for row in rows] == [["mail", "paused"], ["post", "runs"]]
    assert "ann" in rows[0] and "bob" not in rows[0] and "bob" in rows[1]
    html = page(admin_client, f"{QUEUES}mail/change/")
    assert line_of(html, "paused_by") == "ann"
    assert re.match(r"\d{4}-\d\d-\d\d ", line_of(html, "paused_at"))
    assert line_of(html, "resumed_at") == "-"
    assert '<input type="submit"' not in html


def test_actions(admin_client):
    """Those that it changes are counted and logged, in the user's name."""
    for name in ("mail", "po/st", "other"):
        Queue.objects.pause(name)
        Queue.objects.resume(name)
    assert "2 queues paused." in chosen(admin_client, "pause", "mail", "po/st")
    assert paused() == {"mail", "po/st"}
    assert Queue.objects.get(name="mail").paused_by == "admin"
    assert "1 queue resumed." in chosen(admin_client, "resume", "mail", "other")
    assert paused() == {"po/st"}
    assert Queue.objects.get(name="mail").resumed_by == "admin"
    assert "0 queues resumed." in chosen(admin_client, "resume", "mail")
    assert sorted(logged()) == [
        ("mail", "Paused."),
        ("mail", "Resumed."),
        ("po/st", "Paused."),
    ]
    html = page(admin_client, f"{QUEUES}po_2Fst/history/")
    assert "Paused." in html


def test_to_add_a_queue_is_to_pause_it(admin_client):
    JobFactory(queue="MAIL")
    data = {"name": "MAIL", "reason": "The server is down."}
    html = admin_client.post(f"{QUEUES}add/", data, follow=True).content.decode()
    assert "The queue “MAIL” is paused." in html
    assert "Misspelt?" not in html
    row = Queue.objects.get()
    assert (row.name, row.paused_by, row.reason) == (
        "MAIL",
        "admin",
        "The server is down.",
    )
    html = admin_client.post(f"{QUEUES}add/", data, follow=True).content.decode()
    assert "was paused already" in html
    Queue.objects.resume("MAIL")
    admin_client.post(f"{QUEUES}add/", data)
    assert paused() == {"MAIL"}
    assert logged() == [("MAIL", "Paused.")] * 2


def test_the_row_of_a_queue_that_runs_can_be_removed(admin_client):
    """Not one that is paused, also not if that happens while somebody looks."""
    Queue.objects.pause("mail")
    delete = f"{QUEUES}mail/delete/"
    assert admin_client.post(delete, {"post": "yes"}).status_code == 403
    assert "delete_selected" not in page(admin_client, QUEUES)
    Queue.objects.resume("mail")
    assert admin_client.post(delete, {"post": "yes"}, follow=True).status_code == 200
    assert not Queue.objects.exists()
    Queue.objects.pause("mail")
    stale = Queue(name="mail")
    stale._state.db = "default"
    admin.site.get_model_admin(Queue).delete_model(None, stale)
    assert paused() == {"mail"}


def test_a_name_that_nothing_speaks_for(admin_client, monkeypatch):
    """It is paused and told; not told where the tasks can't be imported."""
    html = admin_client.post(f"{QUEUES}add/", {"name": "mial"}, follow=True)
    assert "names “mial”. Misspelt?" in html.content.decode()

    def broken():
        raise ImportError("as the test asked")

    monkeypatch.setattr(discovery, "autodiscover", broken)
    html = admin_client.post(f"{QUEUES}add/", {"name": "liam"}, follow=True)
    assert "Misspelt?" not in html.content.decode()
    assert paused() == {"mial", "liam"}


@pytest.mark.parametrize("name", ["", "*", "a,b", "x" * 101, "a\0"])
def test_names_that_can_not_be(admin_client, name):
    html = page_after_adding(admin_client, name)
    assert "errorlist" in html
    assert not Queue.objects.exists()


def page_after_adding(client, name):
    response = client.post(f"{QUEUES}add/", {"name": name})
    assert response.status_code == 200
    return response.content.decode()


def test_who_may_look_may_not_pause(client, user):
    Queue.objects.pause("mail")
    assert client.get(QUEUES).status_code == 403
    user.user_permissions.add(Permission.objects.get(codename="view_queue"))
    html = page(client, QUEUES)
    assert "mail" in html
    assert "action-checkbox-column" not in html and f"{QUEUES}add/" not in html
    chosen(client, "resume", "mail")
    assert client.post(f"{QUEUES}add/", {"name": "post"}).status_code == 403
    assert paused() == {"mail"}


def test_who_may_pause_may_look_and_no_more(client, user):
    Queue.objects.pause("mail", by="bob")
    user.user_permissions.add(Permission.objects.get(codename="pause_queue"))
    html = page(client, QUEUES)
    assert "action-checkbox-column" in html and f"{QUEUES}add/" in html
    assert "delete_selected" not in html
    chosen(client, "resume", "mail")
    assert Queue.objects.get().resumed_by == "ann"
    for verb in ("delete", "change"):
        assert client.post(f"{QUEUES}mail/{verb}/", {"post": 1}).status_code == 403
    assert Queue.objects.count() == 1


def test_the_list_takes_the_same_queries_for_any_number(admin_client):
    Queue.objects.pause("mail")
    few = statements(admin_client, QUEUES)
    for number in range(20):
        Queue.objects.pause(f"queue {number}")
    assert len(statements(admin_client, QUEUES)) == len(few)
