"""`jobs show`: one job, with everything."""

import json
from argparse import ArgumentParser
from datetime import datetime
from typing import Any

from django_leasequeue import history, registry
from django_leasequeue.fields import NOW, BrokenJSON
from django_leasequeue.history import Event
from django_leasequeue.history.read import LONGEST_RESULT, as_dict
from django_leasequeue.management.console.common import Console, add_common
from django_leasequeue.models import Job, Step
from django_leasequeue.payloads import clean_text
from django_leasequeue.redaction import Redaction
from django_leasequeue.times import local_time

HELP = (
    "Show one job: its columns, arguments, result, steps, what happened to it, "
    "and errors with tracebacks."
)
# Steps that are shown, the newest.
MOST_STEPS = 200
# Characters of a JSON value that still stands on one line.
_LONGEST_LINE = 60
_FIRST = ("id", "status", "queue", "task")
# What would say nothing to a reader.
_DULL = ("processing_token", "last_token", "worker_ids", "errors", "events")


def add_arguments(parser: ArgumentParser) -> None:
    """Add the verb's options."""
    parser.add_argument("id", type=int, metavar="ID", help="The job's id.")
    add_common(parser)


def run(console: Console) -> str | None:
    """Print the job."""
    rows = console.jobs.filter(pk=console.given["id"]).annotate(read_at=NOW)
    job = rows.first()
    if job is None:
        return (
            f"There is no job {console.given['id']} in database {console.database!r}."
        )
    columns = {field.name: getattr(job, field.attname) for field in _fields()}
    steps = _steps(console, job)
    redaction = registry.redaction(job.task)
    if redaction is not None:
        columns = redaction.shown(columns)
        steps = [{**step, "result": redaction.result(step["result"])} for step in steps]
    events = _events(job, redaction)
    if console.wants_json:
        told = [event.as_dict() for event in events]
        console.json({**columns, "steps": steps, "timeline": told})
        return None
    console.screen.facts(
        (field.name, _shown(columns[field.name]))
        for field in _fields()
        if field.name not in _DULL
        and columns[field.name] != field.get_default()
        and columns[field.name] is not None
    )
    if steps:
        console.screen.gap()
        console.screen.text("Steps of this round:")
        titles = ("name", "result", "seconds", "recorded at", "attempt", "worker")
        console.screen.table(titles, map(_cells, steps), {"name", "result", "worker"})
    console.screen.gap()
    console.screen.text("Timeline:")
    console.screen.table(("at", "what"), map(_line, events), {"what"})
    _print_errors(console, columns["errors"])
    return None


def _fields() -> Any:
    """The columns, what is asked for first at the top."""
    fields = Job._meta.concrete_fields
    known = [field for name in _FIRST for field in fields if field.name == name]
    return [*known, *(field for field in fields if field not in known)]


def _steps(console: Console, job: Job) -> list[dict[str, Any]]:
    steps = Step.objects.using(console.database).filter(job_id=job.pk, round=job.round)
    names = ("name", "result", "seconds", "recorded_at", "attempt", "worker")
    return list(steps.order_by("-pk").values(*names)[:MOST_STEPS])[::-1]


def _events(job: Any, redaction: Redaction | None) -> list[Event]:
    """Return what happened to the job, in order of time; results as they may be shown."""
    found = history.steps_of(job)
    shown = []
    for step in reversed(found[: history.MOST_STEPS]):
        head = "null" if step.head is None else step.head
        if redaction is not None:
            head = redaction.head_of_result(head, len(head) <= LONGEST_RESULT)
        shown.append(as_dict(step, clean_text(head, LONGEST_RESULT)))
    return history.timeline(job, shown, job.read_at, len(found) > history.MOST_STEPS)


def _line(event: Event) -> tuple[str, str]:
    return "" if event.at is None else local_time(event.at), event.words


def _cells(step: dict[str, Any]) -> tuple[Any, ...]:
    result = json.dumps(step["result"], ensure_ascii=False)
    if len(result) > 60:
        result = f"{result[:60]}…"
    at, took = local_time(step["recorded_at"]), f"{step['seconds']:.3g}"
    return step["name"], result, took, at, step["attempt"], step["worker"]


def _shown(value: Any) -> Any:
    if isinstance(value, datetime):
        return local_time(value)
    if isinstance(value, BrokenJSON):
        return f"This is no JSON: {value}"
    if isinstance(value, list | dict):
        line = json.dumps(value, ensure_ascii=False)
        if len(line) <= _LONGEST_LINE:
            return line
        return json.dumps(value, ensure_ascii=False, indent=2)
    return value


def _print_errors(console: Console, errors: Any) -> None:
    for entry in reversed(errors) if isinstance(errors, list) else [errors]:
        console.screen.gap()
        if not isinstance(entry, dict):
            console.screen.text(str(entry), lines=True)
            continue
        told = {"exception_class", "message", "traceback"}
        name, message = entry.get("exception_class"), entry.get("message")
        console.screen.text(f"{name}: {message}", lines=True)
        rest = [f"{key}: {value}" for key, value in entry.items() if key not in told]
        console.screen.text(" · ".join(rest))
        if entry.get("traceback"):
            console.screen.text(str(entry["traceback"]), lines=True)
