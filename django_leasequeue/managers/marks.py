"""Marks on verbs that Django reads."""

from collections.abc import Callable
from typing import Any, TypeVar

Verb = TypeVar("Verb", bound=Callable[..., Any])


def alters_data(verb: Verb) -> Verb:
    """Have no template call this method, of a queryset or a row that it is handed."""
    verb.alters_data = True  # type: ignore[attr-defined]
    return verb


def queryset_only(verb: Verb) -> Verb:
    """Leave this method off the manager too, so that nobody means all rows by mistake."""
    verb.queryset_only = True  # type: ignore[attr-defined]
    return alters_data(verb)
