"""Force release: running -> pending, whoever holds the lease and whether it lasts or not.

For a person, of a job whose worker hangs. Its worker learns of it at its next renewal and
can't write any more: by every guard the row is another's, or nobody's. Rows that somebody
has locked are passed over, so that it never waits for a settle, nor a settle for it.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, NamedTuple

from django.db.models import QuerySet

from django_leasequeue import db, rounds, slots, traces
from django_leasequeue.states import Status

# Rows in one transaction: short enough to hold nobody up.
ROWS = 500
# Seconds for which one such transaction runs again through passing trouble.
RERUN_FOR = 10.0


class ForcedRelease(NamedTuple):
    """What became of the jobs, by id.

    `released`: they wait again, and no worker has them. `cancelled`: that was asked for
    before, so they have ended. `claimed_since`: they run, but not the run that was meant.
    `not_running`: they waited, or had ended. `busy`: somebody holds the row locked; ask
    again. `gone`: their rows were removed.
    """

    released: set[int]
    cancelled: set[int]
    claimed_since: set[int]
    not_running: set[int]
    busy: set[int]
    gone: set[int]


def force_release(
    rows: QuerySet[Any], ids: list[int], claims: Mapping[int, int] | None = None
) -> ForcedRelease:
    """Take the running jobs of these ids from their workers; return what became of each.

    Neither an attempt nor a lost worker is counted. A dispatch that asked for another run
    has it, and a cancel that was asked for is done. `claims`: by id, the `claims` of the run
    that is meant; of a job that it does not name it is any.
    """
    done = ForcedRelease(set(), set(), set(), set(), set(), set())
    for start in range(0, len(ids), ROWS):
        some = sorted(ids[start : start + ROWS])
        part = db.rerun(
            partial(_release, rows, some, claims or {}),
            using=rows.db,
            seconds=RERUN_FOR,
        )
        for all_of_kind, of_part in zip(done, part, strict=True):
            all_of_kind.update(of_part)
    return done


def _release(
    rows: QuerySet[Any], ids: list[int], claims: Mapping[int, int]
) -> ForcedRelease:
    released: set[int] = set()
    cancelled: set[int] = set()
    with db.write_transaction(rows):
        running = db.by_key(rows, ids, status=Status.RUNNING).order_by("pk")
        locked = db.take(rounds.interrupted(running))
        # Each claim raises it, and under the lock there is none.
        taken = [row for row in locked if row.claims == claims.get(row.pk, row.claims)]
        for group in _alike(taken):
            changes = {
                **rounds.after_interruption(group[0], death=None),
                **traces.by_hand(traces.RELEASED, group[0].now, why=traces.BY_HAND),
            }
            some = {row.pk for row in group}
            with db.forced(rows):
                db.by_key(rows, some, status=Status.RUNNING).update(**changes)
            ended = changes["status"] == Status.CANCELLED
            (cancelled if ended else released).update(some)
    keys = Counter(row.concurrency_key for row in taken if row.concurrency_key)
    slots.freed_on_commit(rows, keys)
    claimed_since = {row.pk for row in locked} - released - cancelled
    others = set(ids) - released - cancelled - claimed_since
    statuses = dict(rows.filter(pk__in=others).values_list("pk", "status"))
    busy = {pk for pk, status in statuses.items() if status == Status.RUNNING}
    return ForcedRelease(
        released,
        cancelled,
        claimed_since,
        not_running=statuses.keys() - busy,
        busy=busy,
        gone=others - statuses.keys(),
    )


def _alike(taken: Iterable[Any]) -> Iterable[list[Any]]:
    """Return the rows in groups of which each gets the same; nearly always it is one group."""
    groups = defaultdict(list)
    for row in taken:
        groups[row.rerun, row.cancel_requested_at is not None].append(row)
    return groups.values()
