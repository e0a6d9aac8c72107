"""Who looks at the admin."""

import pytest

from tests.admin.acting import allow


@pytest.fixture
def user(client, django_user_model):
    """Log a member of the staff in, who may look, and do what the test adds."""
    made = django_user_model.objects.create_user("ann", password="x", is_staff=True)
    client.force_login(made)
    allow(made, "view_job")
    return made
