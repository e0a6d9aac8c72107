"""Plain successes, which most outcomes are: written by one update, with no look before it."""

from collections import defaultdict
from functools import partial
from itertools import groupby
from typing import Any

from django.db.models import PositiveIntegerField, QuerySet, TextField, UUIDField

from django_leasequeue import db
from django_leasequeue.claimed import Claimed
from django_leasequeue.outcomes import Outcome, Succeeded
from django_leasequeue.states import Status
from django_leasequeue.transitions.settle.columns import success_columns
from django_leasequeue.transitions.settle.leaving import leaving

# The number of its claim tells a job's own token from others of the group.
_MINE = {
    "processing_token__in": [db.GivenList("tokens", UUIDField())],
    "claims": db.Given("claims", PositiveIntegerField()),
    "status": Status.RUNNING,
    # Else the job goes back to pending. A cancel comes too late for a success.
    "rerun": False,
}
_LASTING = {**_MINE, "processing_until__gt": db.DatabaseNow(db.Given("buffer"))}
_SAME = db.Given("result", TextField())
_OWN = db.TextByKey(db.GivenTexts("result", TextField()))

# By whether the lease is looked at, and whether the results differ.
_UPDATES = {
    (lasting, differ): db.KeyedUpdate(
        condition=_LASTING if lasting else _MINE,
        changes=success_columns(_OWN if differ else _SAME),
        columns=("id", "claims"),
    )
    for lasting in (True, False)
    for differ in (True, False)
}


def settle_plain(
    rows: QuerySet[Any],
    finished: list[tuple[Claimed, Outcome]],
    *,
    alone: bool,
    in_block: bool,
    seconds: float,
) -> set[tuple[int, int]]:
    """Write those successes of which nothing else is asked; return the fences of those written.

    The rest is as it was: what is no success, is lost, locked or to be run again, and whose
    rows are not to be kept. `alone`: whether the token is guard enough. `in_block`: see
    KeyedUpdate. Runs again through passing trouble for so many seconds, and then raises it.
    """
    alike: defaultdict[tuple[float, int], list[tuple[Claimed, str | None]]]
    alike = defaultdict(list)
    for job, outcome in finished:
        if type(outcome) is Succeeded:
            alike[job.buffer, job.claims].append((job, outcome.result))
    written: set[tuple[int, int]] = set()
    for group in alike.values():
        gone = set(leaving(rows, [job for job, _ in group], Status.SUCCEEDED))
        if gone:
            group = [pair for pair in group if pair[0] not in gone]
        if group:
            write = partial(_write, rows, group, alone, in_block)
            written |= db.rerun(write, using=rows.db, seconds=seconds)
    return written


def _write(
    rows: QuerySet[Any],
    group: list[tuple[Claimed, str | None]],
    alone: bool,
    in_block: bool,
) -> set[tuple[int, int]]:
    """Write successes by one update; return the fences of those written."""
    results = {text for _, text in group}
    differ = len(results) > 1
    if differ and sum(len(text or "") for text in results) > db.MOST_TEXT:
        return set()
    first, text = group[0]
    given = {
        # Of neighbours it is mostly the same object, and a UUID's hash takes its time.
        "tokens": {token for token, _ in groupby(job.token for job, _ in group)},
        "claims": first.claims,
        "buffer": first.buffer,
        "result": {job.id: text for job, text in group} if differ else text,
    }
    keys = sorted([job.id for job, _ in group])
    try:
        return set(_UPDATES[not alone, differ].send(rows, keys, given, in_block))
    except db.RowsChanged:
        return set()
