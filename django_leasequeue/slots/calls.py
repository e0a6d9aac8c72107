"""Calls: jobs that wait for a slot may try again. The claim decides."""

import contextlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

from django.db import Error
from django.db.models import Q, QuerySet, Value
from django.db.models.functions import Coalesce

from django_leasequeue import db
from django_leasequeue.slots.rows import (
    INDEX,
    ORDER,
    PENDING,
    RERUN_FOR,
    head_of,
    slots_of,
)
from django_leasequeue.slots.running import read_holders, still_running
from django_leasequeue.states import AWAITS_SLOT

_LIMIT = Coalesce("concurrency_limit", Value(1))


def freed(rows: QuerySet[Any], counts: Mapping[str, int]) -> None:
    """Call jobs that wait, of each of these keys as many as slots came free.

    After what freed them has committed: a claim that tells a job to wait looks once more
    after its own commit, so that one of the two sees the other.
    """
    if counts:
        call = partial(_call, rows, counts)
        again = partial(db.rerun, call, using=rows.db, seconds=RERUN_FOR)
        as_far_as_possible(again)


def freed_on_commit(rows: QuerySet[Any], counts: Mapping[str, int]) -> None:
    """The same for what the caller's transaction frees, if there is one.

    Where nobody hears of its end the next look for what was forgotten calls them.
    """
    if counts:
        db.on_commit(partial(freed, rows, counts), using=rows.db)


def as_far_as_possible(call: Callable[[], None]) -> None:
    """Call, and leave what fails to the next look for what was forgotten.

    What came before has been committed, and must not look as if it had failed.
    """
    with contextlib.suppress(Error):
        call()


def call_free(rows: QuerySet[Any], which: Q, *, noted: bool = False) -> None:
    """Call as many jobs of these keys as there are slots free.

    `noted`: whether to note that it was done, for the next look.
    """
    asked = slots_of(rows).filter(which).order_by()
    asked = asked.annotate(
        limit=head_of(rows, _LIMIT),
        first_queue=head_of(rows, "queue"),
        last_queue=head_of(rows, "queue", last=True),
    )
    with db.forced(rows, INDEX):
        known = list(
            asked.values_list("key", "holders", "limit", "first_queue", "last_queue")
        )
    found = [one for one in known if one[2] is not None]
    if not found:
        return
    live = still_running(rows, [noted_holders for _, noted_holders, *_ in found])
    counts = {}
    for key, noted_holders, most, first_queue, last_queue in found:
        if first_queue != last_queue:
            # The first one may wait where no worker looks.
            most = max((one for _, one in _next_of_queues(rows, key)), default=0)
        free = most - len(live.intersection(read_holders(noted_holders)))
        if free > 0:
            counts[key] = free
    if counts and noted:
        stamp = partial(_stamp, rows, which, set(counts))
        stamped = db.rerun(stamp, using=rows.db, seconds=RERUN_FOR)
        counts = {key: counts[key] for key in stamped}
    if counts:
        db.rerun(partial(_call, rows, counts), using=rows.db, seconds=RERUN_FOR)


def _stamp(rows: QuerySet[Any], which: Q, keys: set[str]) -> set[str]:
    """Note that these keys were looked at; return those that no claim is at.

    Nobody waits for a claim, whose process may be frozen in the middle of it.
    """
    slots = slots_of(rows)
    with db.write_transaction(rows):
        mine = slots.filter(which, key__in=sorted(keys)).order_by("key")
        free = set(db.take(mine.values_list("key", flat=True), "PRIMARY"))
        if free:
            with db.forced(slots):
                slots.filter(key__in=sorted(free)).update(called_at=db.DatabaseNow())
    return free


def _call(rows: QuerySet[Any], counts: Mapping[str, int]) -> None:
    """Call of each key so many jobs of each queue, since not every worker takes each queue."""
    found = slots_of(rows).filter(key__in=sorted(counts)).order_by()
    found = found.annotate(
        head=head_of(rows, "pk"),
        first_queue=head_of(rows, "queue"),
        last_queue=head_of(rows, "queue", last=True),
    )
    with db.forced(rows, INDEX):
        named = list(found.values_list("key", "head", "first_queue", "last_queue"))
    several: set[str] = set()
    single: dict[int, str] = {}
    for key, head, first_queue, last_queue in named:
        if head is not None and counts[key] == 1 and first_queue == last_queue:
            single[head] = key
        elif head is not None:
            several.add(key)
    if single:
        done = unblock(rows, list(single))
        # Of a key whose next one is locked by somebody another may try.
        several |= {key for head, key in single.items() if head not in done}
    for key in sorted(several):
        _call_in_each_queue(rows, key, counts[key])


def _call_in_each_queue(rows: QuerySet[Any], key: str, count: int) -> None:
    waiting = rows.filter(blocked=AWAITS_SLOT, concurrency_key=key)
    for queue, _ in _next_of_queues(rows, key):
        with db.write_transaction(rows):
            here = waiting.filter(queue=queue).order_by(*ORDER)
            ids = db.take(here.values_list("pk", flat=True)[:count], INDEX)
            if ids:
                db.by_key(rows, ids, **PENDING).update(blocked=0)


def _next_of_queues(rows: QuerySet[Any], key: str) -> Iterator[tuple[str, int]]:
    """Yield each queue in which jobs wait for a slot of the key, and the limit of its next."""
    waiting = rows.filter(blocked=AWAITS_SLOT, concurrency_key=key)
    queue = ""
    while True:
        beyond = waiting.filter(queue__gt=queue).order_by("queue", *ORDER)
        with db.forced(rows, INDEX):
            found = beyond.values_list("queue", _LIMIT).first()
        if found is None:
            return
        queue = found[0]
        yield found


def unblock(rows: QuerySet[Any], ids: list[int]) -> set[int]:
    """Let these jobs try that wait for a slot; return those that nobody had locked."""
    with db.write_transaction(rows):
        mine = db.by_key(rows, ids, blocked=AWAITS_SLOT).order_by("pk")
        free = set(db.take(mine.values_list("pk", flat=True), "PRIMARY"))
        if free:
            db.by_key(rows, free, **PENDING).update(blocked=0)
    return free
