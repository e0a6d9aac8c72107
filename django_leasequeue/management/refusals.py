"""What the database refuses a command, told in a sentence."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.core.management.base import CommandError
from django.db import Error
from django.db.models import QuerySet

from django_leasequeue import db
from django_leasequeue.management.terminal import told


@contextmanager
def refusals_told(rows: QuerySet[Any]) -> Iterator[None]:
    """Make a CommandError, with what is to be done, of a database's error: as of the rows' own."""
    try:
        with db.saying_what_to_migrate(rows):
            yield
    except Error as error:
        raise CommandError(
            f"The database {rows.db!r} refused: {told(error)}"
        ) from error
