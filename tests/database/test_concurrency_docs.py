"""The Python of docs/concurrency.md does what the text beside it says."""

import pytest

from django_leasequeue import registry
from django_leasequeue.conf import conf
from django_leasequeue.models import Job
from tests import readme
from tests.processes import ROOT
from tests.road import claim, row

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = (ROOT / "docs/concurrency.md").read_text()
TASKS, OVERRIDES = readme.blocks("python", TEXT)


@pytest.fixture
def tasks(monkeypatch):
    monkeypatch.setattr(registry, "_tasks", {})
    exec(TASKS, found := {"__name__": "tests.tasks"})
    return found


def key(dispatch):
    values = row(dispatch.job)
    return values["concurrency_key"], values["concurrency_limit"]


def test_keys(tasks):
    assert key(tasks["synchronise"].dispatch(7)) == ("tenant:7", 1)
    assert key(tasks["locate"].dispatch(7)) == ("geocoder", 3)
    old, new = tasks["index"].dispatch(7), tasks["index"].dispatch(7)
    assert [row(one.job)["status"] for one in (old, new)] == ["cancelled", "pending"]


def test_keys_of_a_dispatch(tasks):
    exec(OVERRIDES, tasks)
    found = Job.objects.order_by("id").values_list(
        "concurrency_key", "concurrency_limit"
    )
    assert list(found) == [("import", 1), ("import", 2)]
    braces = tasks["synchronise"].using(concurrency="{tenant_id}").dispatch(1)
    assert key(braces) == ("{tenant_id}", 1)


def test_a_queue(settings, tasks):
    [code] = [part for part in TEXT.split("`") if part.startswith("LEASEQUEUE = ")]
    exec(code, found := {})
    settings.LEASEQUEUE = found["LEASEQUEUE"]
    assert conf.problems() == []
    from tests.tasks import add

    mail = add.using(queue="mail")
    assert key(mail.dispatch(1, 2)) == ("queue:mail", 2)
    mail.dispatch(1, 2)
    mail.dispatch(1, 2)
    assert key(tasks["locate"].using(queue="mail").dispatch(1)) == ("geocoder", 3)
    assert row(add.dispatch(1, 2).job)["concurrency_key"] is None
    assert len(claim()) == 4
