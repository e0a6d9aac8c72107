"""worker.writer: outcomes without what a database may refuse."""

from datetime import timedelta

import pytest

from django_leasequeue.outcomes import Failed, Released, RetryLater, Snoozed, Succeeded
from django_leasequeue.worker.writer import without_details

ERROR = {
    "exception_class": "builtins.ValueError",
    "message": "huge",
    "traceback": "huge",
    "attempt": 2,
    "at": "2026-01-02T03:04:05+00:00",
    "worker": "host:1",
}


def test_a_success_loses_its_result():
    assert without_details(Succeeded("[1]")) == Succeeded(None)


@pytest.mark.parametrize(
    "outcome", [Failed(ERROR, False), RetryLater(timedelta(5), ERROR, False)]
)
def test_an_error_keeps_everything_but_its_texts(outcome):
    plainer = without_details(outcome)
    assert type(plainer) is type(outcome)
    assert plainer.counted is False
    assert plainer.error["traceback"] == ""
    assert "could not be stored" in plainer.error["message"]
    assert {**plainer.error, "message": "huge", "traceback": "huge"} == ERROR
    assert without_details(plainer) is None


@pytest.mark.parametrize("outcome", [Succeeded(), Released(), Snoozed(timedelta(1))])
def test_what_is_plain_has_no_plainer_form(outcome):
    assert without_details(outcome) is None
