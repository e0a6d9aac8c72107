"""The views for monitoring: who may ask, and what is answered."""

import json

import pytest
from django.contrib.auth.models import Permission
from django.core.exceptions import ImproperlyConfigured
from django.db import OperationalError
from django.urls import include, path

from django_leasequeue import views
from django_leasequeue.db import DatabaseNow
from django_leasequeue.monitoring import Limits
from django_leasequeue.views import HealthView, MetricsView
from tests.admin.looking import make_worker
from tests.factories import JobFactory
from tests.helpers import failing

pytestmark = [
    pytest.mark.django_db(databases=["default", "other"]),
    pytest.mark.urls(__name__),
]
TOKEN = "c" * 32
urlpatterns = [
    path("queue/", include("django_leasequeue.urls")),
    path("probe/", HealthView.as_view(token=TOKEN, limits=Limits(max_age=600))),
    path("numbers/", MetricsView.as_view(token=TOKEN, database="other", window=60)),
]
URLS = ["/queue/health/", "/queue/metrics/", "/probe/", "/numbers/"]


def bearer(token, kind="Bearer"):
    return {"Authorization": f"{kind} {token}"}


@pytest.mark.parametrize("url", URLS)
def test_nobody_else_may_ask(client, django_user_model, url):
    """Neither without a login, nor without the permission, nor by another token."""
    refused = [client.get(url)]
    for headers in (bearer(""), bearer(TOKEN[1:]), bearer(TOKEN, "Basic"), bearer("é")):
        refused.append(client.get(url, headers=headers))
    client.force_login(django_user_model.objects.create_user("ann", is_staff=True))
    refused.append(client.get(url))
    assert {response.status_code for response in refused} == {403}
    assert {response.content for response in refused} == {b'{"status": "refused"}'}


@pytest.mark.parametrize("url", URLS)
def test_who_may_see_jobs_may_ask(client, django_user_model, url):
    user = django_user_model.objects.create_user("ann")
    permission = Permission.objects.get(codename="view_job")
    user.user_permissions.add(permission)
    client.force_login(user)
    assert client.get(url).status_code == 200
    user.is_active = False
    user.save()
    assert client.get(url).status_code == 403


def test_a_token_is_for_the_views_that_have_one(client):
    for url in URLS:
        code = client.get(url, headers=bearer(TOKEN)).status_code
        assert code == (403 if url.startswith("/queue/") else 200)
    assert client.get("/probe/", headers=bearer(TOKEN, "bearer")).status_code == 200


@pytest.mark.parametrize("token", ["", "short", "x" * 15, 7, b"x" * 32])
def test_a_token_that_anybody_could_guess(token):
    """Above all one that an environment variable should have held."""
    with pytest.raises(ImproperlyConfigured, match="at least 16"):
        HealthView.as_view(token=token)


def test_health(client):
    """By the thresholds of the URL, and not kept by any cache."""
    make_worker()
    response = client.get("/probe/", headers=bearer(TOKEN))
    assert response.json() == {"status": "ok", "problems": []}
    assert "no-store" in response.headers["Cache-Control"]
    JobFactory(queue="mail", run_at=DatabaseNow(-400))
    assert client.get("/probe/", headers=bearer(TOKEN)).status_code == 200
    JobFactory(queue="mail", run_at=DatabaseNow(-700))
    response = client.get("/probe/", headers=bearer(TOKEN))
    assert response.status_code == 503
    [problem] = response.json()["problems"]
    assert problem["kind"] == "age" and problem["data"]["queue"] == "mail"
    assert client.head("/probe/", headers=bearer(TOKEN)).status_code == 503


def test_metrics(client):
    make_worker(using="other")
    JobFactory(using="other", queue="mail")
    JobFactory(using="other", failed=True, finished_at=DatabaseNow(-100))
    answer = client.get("/numbers/", headers=bearer(TOKEN)).json()
    assert answer["database"] == "other"
    [queue] = answer["queues"]
    assert (queue["name"], queue["ready"], queue["workers"]) == ("mail", 1, 1)
    assert answer["failures"] == [] and answer["workers"][0]["live"]


def test_they_only_look(client):
    for url in URLS:
        for ask in (client.post, client.put, client.delete):
            assert ask(url, headers=bearer(TOKEN)).status_code in (403, 405)


@pytest.mark.parametrize("url", ["/probe/", "/numbers/"])
def test_a_database_that_can_not_be_asked(client, url, caplog):
    using = "other" if url == "/numbers/" else "default"
    with failing(OperationalError("gone"), times=9, using=using):
        response = client.get(url, headers=bearer(TOKEN))
    assert response.status_code == 503
    assert json.loads(response.content) == {"status": "unknown"}
    assert "could not be asked" in caplog.text


def test_without_the_middleware_of_logins(rf):
    """A project need not have any."""
    assert HealthView.as_view()(rf.get("/")).status_code == 403


def test_where_everything_else_wants_a_login(client, settings):
    """A probe is never sent to a page to log in at."""
    login = "django.contrib.auth.middleware.LoginRequiredMiddleware"
    settings.MIDDLEWARE = [*settings.MIDDLEWARE, login]
    assert client.get("/probe/", headers=bearer(TOKEN)).status_code == 200
    assert client.get("/queue/health/").status_code == 403
    assert views.SHORTEST_TOKEN == 16
