"""The schedules that the code declares come into the table, and leave it no more.

Any number of processes may do this at once, of old code and of new. Each definition has a
digest. One that was never seen is new, and takes effect at once. One that another has taken
the place of is that of older code, which must not take it back while newer code is alive;
after a rollback, when nobody has declared the newer one for a while, it does. In the same
way a schedule that is in nobody's code any more is disabled, by workers of the project that
had it: others that share the database know nothing of it. What belongs to the running of it
(pauses, the last tick, counts) stays.
"""

import hashlib
import json
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Q, QuerySet

from django_leasequeue import db, discovery, registry, transitions
from django_leasequeue.db import DatabaseNow
from django_leasequeue.models import Schedule
from django_leasequeue.models.schedule import CODE
from django_leasequeue.recurrence import Recurrence
from django_leasequeue.task_options import TaskOptions

# How often workers say what they declare; how old that may be before it is said again; and
# after how long nobody declares it any more: a worker may miss one time, and be slow.
DECLARE_EVERY = 60.0
SEEN_EVERY = timedelta(seconds=30)
GONE_AFTER = timedelta(seconds=150)
# Digests that are kept. Deployments that live side by side are two, seldom three.
MOST_FORMER = 20
RERUN_FOR = 10.0
# What decides when it fires: with another of these it counts anew.
TIMING = ("kind", "expression", "tz", "starts_at", "ends_at")


class Declared(NamedTuple):
    """The names of the schedules that were added, changed, disabled, enabled again; those of
    the code that are not in force, since the admin has one of that name; and those that are
    to be changed the next time, since somebody else is at them."""

    added: list[str]
    changed: list[str]
    disabled: list[str]
    enabled: list[str]
    clashing: list[str]
    busy: list[str]


def declare(using: str, *, lasting: bool = True) -> Declared:
    """Store what the imported tasks declare; return what that has changed.

    `lasting`: whether this process has been there for long enough to judge what nobody
    declares. Waits for nobody's lock: a tick keeps that of its row while receivers think.
    Raises the database's errors.
    """
    rows: QuerySet[Schedule] = QuerySet(Schedule, using=using)
    pass_ = partial(_declare, rows, registry.declared(), lasting)
    return db.rerun(pass_, using=using, seconds=RERUN_FOR)


def _declare(
    rows: QuerySet[Any],
    declared: dict[str, tuple[TaskOptions, Recurrence]],
    lasting: bool,
) -> Declared:
    done = Declared([], [], [], [], [], [])
    mine = Q(name__in=list(declared)) | Q(origin=CODE, enabled=True)
    found = {row.name: row for row in transitions.schedule.read(rows.filter(mine))}
    for name, (task, rule) in declared.items():
        columns, module = rule.columns(task.name), _module_of(task)
        if name in found:
            _keep(rows, found[name], columns, module, done)
        else:
            _add(rows, name, columns, module)
            done.added.append(name)
    fresh = [row.pk for row in _fresh(found, declared)]
    if fresh:
        _written(rows.filter(pk__in=fresh), seen_at=DatabaseNow())
    for name in found.keys() - declared.keys() if lasting else ():
        if _is_gone(found[name]) and _is_ours(found[name]):
            done_so = _disable(rows, found[name])
            (done.disabled if done_so else done.busy).append(name)
    return done


def _add(rows: QuerySet[Any], name: str, columns: dict[str, Any], module: str) -> None:
    now = DatabaseNow()
    made = Schedule(
        name=name,
        origin=CODE,
        digest=digest_of(columns),
        seen_at=now,
        module=module,
        created_at=now,
        since=now,
        next_tick=now,
        **columns,
    )
    # If somebody else makes it, so much the better.
    rows.bulk_create([made], ignore_conflicts=True)


def _keep(
    rows: QuerySet[Any],
    row: Schedule,
    columns: dict[str, Any],
    module: str,
    done: Declared,
) -> None:
    digest = digest_of(columns)
    if row.origin != CODE:
        done.clashing.append(row.name)
    elif row.digest != digest:
        if digest not in row.former or _is_gone(row):
            done_so = _change(rows, row, {**columns, "module": module}, digest)
            (done.changed if done_so else done.busy).append(row.name)
    elif not row.enabled:
        back = rows.filter(pk=row.pk, digest=digest, enabled=False)
        done_so = _written(
            back,
            enabled=True,
            seen_at=DatabaseNow(),
            module=module,
            **transitions.schedule.again(),
        )
        (done.enabled if done_so else done.busy).append(row.name)
    elif row.module != module:
        _written(rows.filter(pk=row.pk, digest=digest), module=module)


def _change(
    rows: QuerySet[Any], row: Schedule, columns: dict[str, Any], digest: str
) -> bool:
    former = [one for one in row.former if one != digest] + [row.digest]
    moved = any(getattr(row, name) != columns[name] for name in TIMING)
    same = rows.filter(pk=row.pk, digest=row.digest, origin=CODE)
    if digest in row.former:
        same = same.filter(seen_at=row.seen_at)
    return _written(
        same,
        digest=digest,
        former=former[-MOST_FORMER:],
        seen_at=DatabaseNow(),
        enabled=True,
        problem="",
        problem_at=None,
        **(
            transitions.schedule.again()
            if moved or not row.enabled
            else {"next_tick": DatabaseNow()}
        ),
        **columns,
    )


def _disable(rows: QuerySet[Any], row: Schedule) -> bool:
    unseen = rows.filter(pk=row.pk, enabled=True, seen_at=row.seen_at)
    return _written(unseen, enabled=False, next_tick=None)


def _written(chosen: QuerySet[Any], **columns: Any) -> bool:
    """Change those of these rows that nobody has locked; whether there was any."""
    if not db.has_row_locks(chosen):
        return bool(chosen.update(**columns))
    with transaction.atomic(using=chosen.db):
        free = [row.pk for row in db.take(chosen.only("pk"))]
        same: QuerySet[Schedule] = QuerySet(Schedule, using=chosen.db)
        return bool(free and same.filter(pk__in=free).update(**columns))


def _fresh(
    found: dict[str, Any], declared: dict[str, tuple[TaskOptions, Recurrence]]
) -> Iterator[Any]:
    """Yield the rows that are as this code has them, and that nobody has said so of lately."""
    for name in found.keys() & declared.keys():
        row, (task, rule) = found[name], declared[name]
        is_same = row.digest == digest_of(rule.columns(task.name))
        if is_same and _unseen_for(row) > SEEN_EVERY:
            yield row


def is_declared(row: Schedule) -> bool:
    """Whether some worker's code still has it. `row`: as transitions.schedule.read() has it."""
    return row.origin == CODE and row.enabled and not _is_gone(row)


def _is_gone(row: Any) -> bool:
    return _unseen_for(row) > GONE_AFTER


def _is_ours(row: Any) -> bool:
    """Whether this project's code is where it would be declared."""
    return not row.module or discovery.is_discoverable(row.module)


def _module_of(task: TaskOptions) -> str:
    return discovery.module_of(task)[:255]


def _unseen_for(row: Any) -> timedelta:
    # Null of rows that came by other ways, such as a fixture.
    return timedelta.max if row.seen_at is None else row.read_at - row.seen_at


def digest_of(columns: dict[str, Any]) -> str:
    """Return what tells two definitions apart."""
    text = json.dumps(columns, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:32]
