"""Actions on jobs as a browser asks for them, and what their pages say."""

import re

from django.contrib.admin.models import LogEntry
from django.contrib.auth.models import Permission

from django_leasequeue.models import Job
from tests.admin.looking import JOBS
from tests.factories import JobFactory

STATES = ("pending", "leased", "succeeded", "failed", "cancelled")


def one_of_each():
    """Return a job in each state, by the state."""
    return {
        state: JobFactory(**({} if state == "pending" else {state: True}))
        for state in STATES
    }


def asked(client, action, *jobs, url=JOBS, **more):
    """Choose an action of the list; return the page that asks."""
    data = {"action": action, "index": "0", "_selected_action": [j.pk for j in jobs]}
    response = client.post(url, {**data, **more})
    assert response.status_code == 200, response
    return response.content.decode()


def fields(html):
    """Return what the page's form would send."""
    form = html[html.index("leasequeue-confirm") :]
    return dict(re.findall(r'type="hidden" name="(\w+)" value="([^"]*)"', form))


def confirmed(client, html, url=JOBS):
    """Press the button; return the page that follows."""
    assert '<input type="submit"' in html
    return client.post(url, fields(html), follow=True).content.decode()


def done(client, action, *jobs, **more):
    return confirmed(client, asked(client, action, *jobs, **more))


def table(html):
    """Return the rows of the page that asks, as texts."""
    body = html[html.index("leasequeue-confirm") :]
    rows = re.findall(r"<tr><td>(.*?)</td><td>(.*?)</td><td>(.*?)</td></tr>", body)
    return [[re.sub(r"<[^>]+>", "", cell) for cell in row] for row in rows]


def states():
    return list(Job.objects.order_by("pk").values_list("status", flat=True))


def logged():
    # Their ids are texts there.
    entries = LogEntry.objects.values_list("object_id", "change_message")
    return sorted((int(pk), text) for pk, text in entries)


def allow(user, *names):
    user.user_permissions.add(*Permission.objects.filter(codename__in=names))
