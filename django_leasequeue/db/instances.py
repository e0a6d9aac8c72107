"""Model instances of rows whose values are known, without the model's slow constructor."""

from collections.abc import Callable
from functools import lru_cache
from typing import Any

from django.db.models import DEFERRED, Model, QuerySet
from django.db.models.base import ModelState
from django.db.models.signals import post_init, pre_init


def loaded(rows: QuerySet[Any], values: dict[str, Any]) -> Any:
    """Return what from_db() would make of a row of these values by attribute.

    `values`: becomes the instance's own; what is not among them is deferred.
    """
    model: Any = rows.model
    if _constructor_is_heard(model):
        names = [field.attname for field in model._meta.concrete_fields]
        known = [values.get(name, DEFERRED) for name in names]
        return model.from_db(rows.db, names, known)
    state = values["_state"] = ModelState()
    state.adding, state.db = False, rows.db
    made = model.__new__(model)
    made.__dict__ = values
    return made


def inserted(rows: QuerySet[Any], values: dict[str, Any]) -> Any:
    """Return the instance of a row that was inserted with these values by attribute.

    Fields that are not among them are at their defaults. What is an expression is deferred:
    the database worked it out, and it is read when it is first asked for.
    """
    model: Any = rows.model
    defaults, fresh = _defaults(model)
    known = defaults | values
    for name, default in fresh.items():
        if name not in values:
            known[name] = default()
    for name, value in values.items():
        if hasattr(value, "resolve_expression"):
            del known[name]
    return loaded(rows, known)


@lru_cache
def _defaults(
    model: type[Model],
) -> tuple[dict[str, Any], dict[str, Callable[[], Any]]]:
    """Return the defaults in the order of the fields, and what makes those that change."""
    fields = model._meta.concrete_fields
    defaults = {field.attname: field.get_default() for field in fields}
    fresh = {
        field.attname: field.get_default
        for field in fields
        if isinstance(defaults[field.attname], list | dict)
    }
    return defaults, fresh


def _constructor_is_heard(model: type[Model]) -> bool:
    """Whether somebody has to be told that an instance is made."""
    # Mostly nobody at all: asked for each row of many.
    if not (pre_init.receivers or post_init.receivers):
        return False
    return pre_init.has_listeners(model) or post_init.has_listeners(model)
