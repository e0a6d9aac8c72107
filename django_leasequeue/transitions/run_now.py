"""Run now: a delayed pending job is due at once; where it stands otherwise stays as it is.

Rows that somebody has locked are passed over, so that it never waits for a claim or a
dispatch, nor they for it.
"""

from functools import partial
from typing import Any, NamedTuple

from django.db.models import QuerySet

from django_leasequeue import db, traces
from django_leasequeue.fields import NOW
from django_leasequeue.states import Status

# Rows in one transaction: short enough to hold nobody up.
ROWS = 500
# Seconds for which one such transaction runs again through passing trouble.
RERUN_FOR = 10.0


class MadeDue(NamedTuple):
    """What became of the jobs, by id.

    `made_due`: their time has come. `unchanged`: it had come before. `not_waiting`: they
    run, or have ended. `busy`: somebody holds the row locked; ask again. `gone`: their rows
    were removed.
    """

    made_due: set[int]
    unchanged: set[int]
    not_waiting: set[int]
    busy: set[int]
    gone: set[int]


def run_now(rows: QuerySet[Any], ids: list[int]) -> MadeDue:
    """Make the delayed jobs of these ids due and return what became of each."""
    done = MadeDue(set(), set(), set(), set(), set())
    for start in range(0, len(ids), ROWS):
        some = sorted(ids[start : start + ROWS])
        part = db.rerun(partial(_run_now, rows, some), using=rows.db, seconds=RERUN_FOR)
        for all_of_kind, of_part in zip(done, part, strict=True):
            all_of_kind.update(of_part)
    return done


def _run_now(rows: QuerySet[Any], ids: list[int]) -> MadeDue:
    with db.write_transaction(rows):
        delayed = _delayed(rows, ids).order_by("pk")
        found = db.take(delayed.values_list("pk", NOW))
        taken = {pk for pk, _ in found}
        if taken:
            traced = traces.by_hand(traces.MADE_DUE, found[0][-1])
            _delayed(rows, taken).update(run_at=db.DatabaseNow(), **traced)
    others = set(ids) - taken
    if not others:
        return MadeDue(taken, set(), set(), set(), set())
    statuses = dict(rows.filter(pk__in=others).values_list("pk", "status"))
    pending = {pk for pk, status in statuses.items() if status == Status.PENDING}
    busy = (
        set(_delayed(rows, pending).values_list("pk", flat=True)) if pending else set()
    )
    return MadeDue(
        taken,
        pending - busy,
        statuses.keys() - pending,
        busy,
        others - statuses.keys(),
    )


def _delayed(rows: QuerySet[Any], ids: Any) -> QuerySet[Any]:
    return db.by_key(rows, ids, status=Status.PENDING, run_at__gt=db.DatabaseNow())
