"""The worker's log, where the project has not said where it goes."""

import logging
from unittest import mock

from django_leasequeue.worker import log


def test_configure_can_be_undone():
    """A test that calls runjobs leaves no handler behind for the others."""
    package = logging.getLogger("django_leasequeue")
    before = package.level, list(package.handlers)
    with mock.patch.object(package, "hasHandlers", return_value=False):
        undo = log.configure(1)
    assert len(package.handlers) == len(before[1]) + 1
    assert package.level == logging.INFO
    undo()
    assert (package.level, package.handlers) == before
