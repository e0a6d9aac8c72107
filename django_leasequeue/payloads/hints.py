"""What to use instead of a value that JSON has no form for."""

import datetime
from collections.abc import Set
from dataclasses import is_dataclass
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from uuid import UUID

from django.db.models import Manager, Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import LazyObject, Promise

# The first that fits decides. Judged by class alone: looking at the value could run a
# query (a lazy user) or anything else.
_HINTS = (
    (Enum, "use its .value"),
    (Promise, "use str(value)"),
    (LazyObject, "use the id of what it stands for, and fetch it in the task"),
    (Model, "use its primary key, and fetch it in the task"),
    ((QuerySet, Manager), "use a list of primary keys"),
    (HttpRequest, "use what the task needs of it"),
    (UUID, "use str(value)"),
    (Decimal, "use str(value)"),
    (PurePath, "use str(value)"),
    ((datetime.datetime, datetime.date, datetime.time), "use value.isoformat()"),
    (datetime.timedelta, "use value.total_seconds()"),
    ((bytes, bytearray, memoryview), "use text, for example value.hex()"),
    (tuple, "use list(value); JSON has no tuples, so it would arrive as a list"),
    ((set, frozenset, Set), "use sorted(value)"),
    (BaseException, "use str(value)"),
    (str, "use a plain str; it would not arrive as its own type"),
    (int, "use int(value); it would not arrive as its own type"),
    (float, "use float(value); it would not arrive as its own type"),
    (list, "use list(value); it would not arrive as its own type"),
    (dict, "use dict(value); it would not arrive as its own type"),
)
_OTHERWISE = "use only None, bool, int, float, str, list, and dict with str keys"


def what_to_use(kind: type) -> str:
    """Return what to use instead of a value of this class, as half a sentence."""
    for classes, hint in _HINTS:
        if issubclass(kind, classes):
            return hint
    if is_dataclass(kind):
        return "use dataclasses.asdict(value)"
    return _OTHERWISE


def describe_type(kind: type) -> str:
    """Return "of type Order", or a better word where the class has no telling name."""
    if issubclass(kind, Promise):
        return "a lazy text"
    return f"of type {kind.__qualname__}"
