"""Every page in a real browser, under a strict Content-Security-Policy."""

import pytest
from django.contrib.admin.models import LogEntry

from django_leasequeue.models import Job
from django_leasequeue.states import Status
from tests.browser import hostile
from tests.browser.backstage import ROOT
from tests.browser.pages import linked
from tests.factories import JobFactory
from tests.helpers import eventually

ADMIN = "/admin/"
BACKSTAGE = pytest.mark.urls("tests.browser.backstage")


@pytest.mark.parametrize(
    ("root", "each"),
    [
        (ADMIN, 8),
        # A site of the project's own, and no other in its URLs.
        pytest.param(ROOT, 1, marks=BACKSTAGE),
    ],
)
def test_no_page_has_a_violation_or_a_missing_file(visitor, admin_client, root, each):
    """Case 180: and whatever the rows hold is text."""
    hostile.fill()
    paths = linked(admin_client, root, each)
    assert len(paths) > 10
    for path in paths:
        visitor.open(path)
        assert visitor.run("return window.ran") is None, path
        assert not visitor.all("img[src=x]"), path


def test_what_the_rows_hold_is_seen_as_it_is(visitor):
    """Case 180: nothing is lost that looks like markup."""
    job = hostile.fill().filter(status=Status.FAILED).get()
    visitor.open(f"/admin/leasequeue/job/{job.pk}/change/")
    visitor.run(
        "for (const one of document.querySelectorAll('details')) one.open = true"
    )
    seen = visitor.text()
    for text in (hostile.LONG, f"File {hostile.MARKUP}"):
        assert text in seen, text


@BACKSTAGE
def test_jobs_are_cancelled_from_the_list_once_confirmed(visitor):
    """With the admin's own script for the boxes, on a site of the project's own."""
    JobFactory.create_batch(3)
    JobFactory(succeeded=True)
    visitor.open(f"{ROOT}leasequeue/job/")
    visitor.click("#action-toggle")
    visitor.click("select[name=action] option[value=cancel]")
    visitor.click("button[name=index]")
    eventually(lambda: "has ended" in visitor.text())
    visitor.check("the question")
    visitor.click("#content input[type=submit]")
    eventually(lambda: "3 jobs are cancelled" in visitor.text())
    visitor.check("the answer")
    assert Job.objects.filter(status=Status.CANCELLED).count() == 3
    assert LogEntry.objects.count() == 3


def test_a_schedule_is_made(visitor):
    """The form, with the admin's own boxes for dates, and the firings that follow."""
    visitor.open("/admin/leasequeue/schedule/add/")
    for name, text in (
        ("name", "nightly"),
        ("task", "tests.tasks.add"),
        ("expression", "30 2 * * *"),
    ):
        visitor.type(f"#id_{name}", text)
    visitor.type("#id_args", "[1, 2]")
    visitor.click("input[name=_save]")
    eventually(lambda: "its next firings are below" in visitor.text())
    visitor.check("the new schedule")
    assert len(visitor.all(".field-next_firings tbody tr")) == 20
