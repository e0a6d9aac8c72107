"""Whether a task may run twice: the rows of the database after its first run and its second."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from django.apps import apps
from django.core import mail
from django.db import connections, models, router

from django_leasequeue import registry
from django_leasequeue.models import Job
from django_leasequeue.results import result_of
from django_leasequeue.selection import Selection
from django_leasequeue.testing.faults import simulate_crash
from django_leasequeue.testing.inline import InlineWorker

Rows = dict[str, dict[Any, dict[str, Any]]]


def assert_idempotent(
    task: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    ignore: Iterable[str] = (),
    using: str | None = None,
) -> Any:
    """Fail unless a second run of the task's job does no further harm; return the job.

    The worker dies just before it stores that the first run has ended, and the job runs again,
    as it happens in production. After that every row of every model must be as it was before
    it, and no mail have been sent besides; steps that are recorded are not repeated, and what
    an atomic task did is undone. `ignore`: what may differ, as "shop.Order" or
    "shop.Order.updated_at". Other jobs stay as they are.
    """
    alias = using or router.db_for_write(Job)
    ignored = frozenset(ignore)
    pk = Job.objects.using(alias).dispatch(task, args, kwargs).job.pk
    options = registry.resolve(task)
    worker = InlineWorker(alias, Selection())
    before = _state(ignored)
    with simulate_crash(after="run", task=task):
        worker.run(worker.claim(pk))
    between = _state(ignored)
    worker.run(worker.claim(pk))
    job = Job.objects.using(alias).get(pk=pk)
    if worker.ran[-1].word != "succeeded":
        result_of(job)
        raise AssertionError(
            f"{options.name} does not succeed the second time: {worker.ran[-1].word}."
        )
    # Of an atomic task the first run is undone, and the second is the first.
    was, now = (before, between) if options.atomic else (between, _state(ignored))
    differences = _differences(was, now)
    if differences:
        raise AssertionError(
            f"A second run of {options.name} changes what the first has done:\n"
            + "\n".join(differences)
        )
    return job


def _state(ignored: frozenset[str]) -> Rows:
    state: Rows = {}
    tables = {
        alias: set(connections[alias].introspection.table_names())
        for alias in {router.db_for_write(model) for model in apps.get_models()}
    }
    for model in apps.get_models(include_auto_created=True):
        if model._meta.app_label == Job._meta.app_label or model._meta.proxy:
            continue
        name = model._meta.label
        if name in ignored or not model._meta.managed:
            continue
        alias = router.db_for_write(model)
        if model._meta.db_table in tables.get(alias, ()):
            state[name] = _rows(model, alias, ignored)
    state["mail"] = dict(
        enumerate(
            {name: getattr(message, name, None) for name in ("to", "subject")}
            for message in getattr(mail, "outbox", ())
        )
    )
    return state


def _rows(
    model: type[models.Model], alias: str, ignored: frozenset[str]
) -> dict[Any, dict[str, Any]]:
    kept = [
        field.attname
        for field in model._meta.concrete_fields
        if f"{model._meta.label}.{field.name}" not in ignored
    ]
    rows = model._base_manager.using(alias).values("pk", *kept)
    return {row["pk"]: row for row in rows}


def _differences(before: Rows, after: Rows) -> list[str]:
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = before.get(name, {}), after.get(name, {})
        for pk in old.keys() | new.keys():
            if pk not in new:
                lines.append(f"  {name} {pk} is gone")
            elif pk not in old:
                lines.append(f"  {name} {pk} is new: {new[pk]}")
            else:
                lines += [
                    f"  {name} {pk}: {field} was {old[pk][field]!r}, is {value!r}"
                    for field, value in new[pk].items()
                    if value != old[pk][field]
                ]
    return lines
