"""The flush at the end of a test leaves each table as the migrations left it."""

import pytest
from django.contrib.auth.models import Permission, User
from django.contrib.contenttypes.models import ContentType
from django.core.management import call_command, get_commands
from django.db import connections

from tests.management.commands.flush import filled
from tests.models import Effect
from tests.tasks import add


@pytest.mark.django_db(transaction=True, databases=["default", "other"])
@pytest.mark.parametrize("alias", ["default", "other"])
def test_rows_go_and_what_migrate_fills_stays(alias):
    kept = [
        set(model.objects.using(alias).values_list("pk", flat=True))
        for model in (Permission, ContentType)
    ]
    assert all(kept)
    add.using(database=alias).dispatch(1, 1)
    Effect.objects.using(alias).create(name="seen")
    user = User.objects.using(alias).create(username="ann")
    user.user_permissions.set(Permission.objects.using(alias).all()[:1])
    assert {"leasequeue_job", "tests_effect", "auth_user"} < set(
        filled(connections[alias])
    )

    call_command("flush", interactive=False, verbosity=0, database=alias)
    assert filled(connections[alias]) == []
    assert kept == [
        set(model.objects.using(alias).values_list("pk", flat=True))
        for model in (Permission, ContentType)
    ]


def test_it_is_the_one_that_tests_end_with():
    assert get_commands()["flush"] == "tests"
