"""What a dispatch does to the job that holds its id: the table of changes, and their writing.

A change that others must not see half done is written under the holder's lock. What only
counts the dispatch never waits for one: nobody should stand in a queue to be told that there
is nothing to do.
"""

from collections import Counter, defaultdict
from functools import partial
from typing import Any, NamedTuple

from django.db.models import Case, F, QuerySet, SmallIntegerField, Value, When

from django_leasequeue import db, rounds
from django_leasequeue.dedup import DispatchOutcome
from django_leasequeue.specs import Prepared
from django_leasequeue.states import AWAITS_SLOT, FINAL, Status
from django_leasequeue.transitions.dispatch import owner as owners

# Seconds for which a skipped dispatch tries to count itself on a row that others keep
# locked: many times what a rival dispatch, a claim or a settle takes, and no slow request.
COUNTING = 0.25
# Seconds for which what waited for the caller's commit runs again through passing trouble.
RERUN_FOR = 10.0


class Answer(NamedTuple):
    """The word for what is done to a holder, and the columns to set beside the count."""

    outcome: DispatchOutcome
    columns: dict[str, Any]


def answer_to(wanted: Prepared, owner: Any) -> Answer:
    """Return what the rules of the dispatch do to this holder.

    All that is asked for and possible is done; the word is the first that applies of rerun,
    replaced, extended, skipped.
    """
    asked = wanted.rules
    outcome = DispatchOutcome.SKIPPED
    columns: dict[str, Any] = {}
    if asked.extend and owner.dedup_ttl is not None:
        outcome = DispatchOutcome.EXTENDED
        columns["dedup_until"] = db.DatabaseNow(owner.dedup_ttl)
    if owner.status == Status.PENDING and asked.replace:
        outcome = DispatchOutcome.REPLACED
        columns |= {"args": wanted.values["args"], "kwargs": wanted.values["kwargs"]}
        columns |= _key_columns(wanted, owner)
        if owner.claims and owner.steps.filter(round=owner.round).exists():
            # They are what the old arguments came to.
            columns |= rounds.afresh()
        if asked.postpone:
            columns["run_at"] = wanted.run_at or db.DatabaseNow(wanted.delay)
            if owner.concurrency_key is not None:
                # Until it is due it is in nobody's way.
                columns["blocked"] = _trying()
    if owner.status == Status.RUNNING and asked.rerun:
        outcome = DispatchOutcome.RERUN
        columns["rerun"] = True
        if asked.replace:
            columns |= {
                "next_args": wanted.values["args"],
                "next_kwargs": wanted.values["kwargs"],
            }
    return Answer(outcome, columns)


def _key_columns(wanted: Prepared, owner: Any) -> dict[str, Any]:
    """Return the concurrency that the new arguments make, if it is another."""
    names = ("concurrency_key", "concurrency_limit")
    columns = {name: wanted.values[name] for name in names}
    if all(getattr(owner, name) == value for name, value in columns.items()):
        return {}
    # It need not wait for a slot of the old key any more.
    return {**columns, "blocked": _trying()}


def _trying() -> Case:
    """Return what `blocked` becomes of a job that need not be called to try for a slot."""
    return Case(
        When(blocked=AWAITS_SLOT, then=Value(0)),
        default=F("blocked"),
        output_field=SmallIntegerField(),
    )


def can_wait_for_commit(answer: Answer, owner: Any) -> bool:
    """Whether the holder may stay unlocked while the caller's transaction lasts.

    A slow caller must not hold up the worker that runs the job, nor everybody else who
    finds that a finished one still holds the id.
    """
    if owner.status == Status.RUNNING:
        return answer.outcome is not DispatchOutcome.RERUN
    return owner.status in FINAL and not answer.columns


def write(rows: QuerySet[Any], owner: Any, answer: Answer, seconds: float) -> bool:
    """Outside a transaction: change the holder if it still is one, and count the dispatch.

    Returns whether it is, so that the answer holds good.
    """
    if not answer.columns:
        count(rows, owner)
        return True
    still = db.by_key(rows, [owner.pk]).filter(
        db.unindexed(owners.still_holding(owner), using=rows.db)
    )
    changed = db.waiting_at_most(still, seconds).update(**answer.columns, **_counted())
    if changed:
        _show(owner, answer)
    return bool(changed)


def write_locked(rows: QuerySet[Any], owner: Any, answer: Answer) -> None:
    """Change a holder that the transaction has locked, and count the dispatch."""
    db.by_key(rows, [owner.pk]).update(**answer.columns, **_counted())
    _show(owner, answer)


def write_on_commit(rows: QuerySet[Any], owner: Any, answer: Answer) -> None:
    """Change the holder, and count the dispatch, once the caller's transaction has committed."""

    def extend() -> None:
        still = db.by_key(rows, [owner.pk]).filter(
            db.unindexed(owners.same_id(owner), using=rows.db)
        )
        bounded = db.waiting_at_most(still, RERUN_FOR)
        change = partial(bounded.update, **answer.columns, **_counted())
        db.rerun(change, using=rows.db, seconds=RERUN_FOR)

    later = extend if answer.columns else partial(count, rows, owner)
    db.on_commit(later, using=rows.db)


def count(rows: QuerySet[Any], owner: Any) -> None:
    """Count a skipped dispatch, unless somebody keeps the row locked."""
    done = db.increment_if_free(
        rows, owner.pk, "suppressed", "last_suppressed_at", COUNTING
    )
    if done:
        # Read from the database when they are first asked for.
        for name in ("suppressed", "last_suppressed_at"):
            owner.__dict__.pop(name, None)


def count_many(rows: QuerySet[Any], skipped: Counter[int], *, locked: set[int]) -> None:
    """Count skipped dispatches by job: of locked jobs now, of the others after the commit."""
    later: dict[int, list[int]] = defaultdict(list)
    for times, ids in _by_times(skipped).items():
        now = [pk for pk in ids if pk in locked]
        if now:
            with db.forced(rows):
                db.by_key(rows, now).update(**_counted(times))
        later[times] = [pk for pk in ids if pk not in locked]
    db.on_commit(partial(_count_free, rows, later), using=rows.db)


def _by_times(skipped: Counter[int]) -> dict[int, list[int]]:
    by_times: dict[int, list[int]] = defaultdict(list)
    for pk, times in skipped.items():
        by_times[times].append(pk)
    return by_times


def _count_free(rows: QuerySet[Any], by_times: dict[int, list[int]]) -> None:
    for times, ids in by_times.items():
        db.update_free(rows, ids, _counted(times), COUNTING)


def _counted(times: int = 1) -> dict[str, Any]:
    return {
        "suppressed": F("suppressed") + times,
        "last_suppressed_at": db.DatabaseNow(),
    }


def _show(owner: Any, answer: Answer) -> None:
    """Let the instance show what was written."""
    _forget(owner, answer.columns | _counted())


def _forget(owner: Any, columns: dict[str, Any]) -> None:
    for name, value in columns.items():
        if hasattr(value, "resolve_expression"):
            # Read from the database when it is first asked for.
            owner.__dict__.pop(name, None)
        else:
            setattr(owner, name, value)
