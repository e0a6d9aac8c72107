"""Old code beside a newer schema: what it does not know it leaves alone."""

import uuid

import pytest
from django.db import connection

from django_leasequeue.models import Job
from django_leasequeue.outcomes import Succeeded
from django_leasequeue.states import Status
from tests.factories import JobFactory
from tests.road import claim, ids, row

pytestmark = pytest.mark.django_db(transaction=True)

# A state that some later version may have.
LATER = "archived"


@pytest.fixture
def later_schema():
    """The table as a later version may leave it: with a state that this one has not."""
    bounds = [
        constraint
        for constraint in Job._meta.constraints
        if constraint.name
        in ("leasequeue_running_has_lease", "leasequeue_final_has_end")
    ]
    assert len(bounds) == 2
    if connection.vendor == "sqlite":
        # It would make the table anew for each, with the others as the model has them.
        with connection.cursor() as cursor:
            cursor.execute("PRAGMA ignore_check_constraints = ON")
            yield
            Job.objects.all().delete()
            cursor.execute("PRAGMA ignore_check_constraints = OFF")
        return
    with connection.schema_editor() as editor:
        for constraint in bounds:
            editor.remove_constraint(Job, constraint)
    yield
    Job.objects.all().delete()
    with connection.schema_editor() as editor:
        for constraint in bounds:
            editor.add_constraint(Job, constraint)


def test_case_186_a_state_of_a_later_version_is_left_alone(later_schema):
    """The worker goes on with the rest, and no verb touches the row."""
    strange = JobFactory(status=LATER, queue="mail", dedup_id="k")
    before = row(strange)
    plain = JobFactory(queue="mail")
    [held] = claim()
    assert ids([held]) == [plain.pk]
    Job.objects.settle([(held, Succeeded("1"))])
    assert row(plain)["status"] == Status.SUCCEEDED
    assert Job.objects.filter(pk=strange.pk).cancel().unchanged == {strange.pk}
    assert Job.objects.release(uuid.uuid4()) == set()
    assert row(strange) == before


def test_case_186_the_admin_shows_a_state_of_a_later_version(
    later_schema, admin_client
):
    strange = JobFactory(status=LATER)
    for path in ("", f"{strange.pk}/change/"):
        response = admin_client.get(f"/admin/leasequeue/job/{path}")
        assert response.status_code == 200
        assert LATER in response.content.decode()
